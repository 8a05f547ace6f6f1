// Parts of y and x that a sink takes: a task computes one to scratch, as if that were its output, and finishes it while it
// is in the cache. A part has some channels, rows and columns of a plane, in the order of the output.
//
// Figures: see engine.h.

#ifndef OPWRIGHT_PARTS_H
#define OPWRIGHT_PARTS_H

#include "phases.h"

enum { PART_BYTES = 256 << 10 }; // it stays in the second-level cache

// Whether pixels or channels of the output lie side by side, so that lines of a part are some of its cells.
INLINE bool has_lines(const opwright_problem *p, bool backward) {
    return backward ? p->big_c == 1 || p->big_x[2] == 1 : p->small_c == 1 || p->small_x[2] == 1;
}

// How many lines of so many cells make a part.
INLINE int64_t lines_of_part(int64_t cells) { return max(1, PART_BYTES / (int64_t)sizeof(sum_cell) / cells); }

// Has the output begin with each part, of which the largest has these extents. Returns its bytes.
static inline int64_t store_parts(solve *s, int64_t channels, int64_t rows, int64_t columns) {
    const bool last = s->out_c == 1;
    s->cell_n = s->out_n, s->cell_c = s->out_c;
    memcpy(s->cell_x, s->out_x, sizeof s->cell_x);
    s->out_n = s->out_x[0] = 0;
    s->out_c = last ? 1 : rows * columns + LANES; // lines of some channels are not of one set of the first-level cache
    s->out_x[2] = last ? channels : 1;
    s->out_x[1] = columns * s->out_x[2];
    return whole_lines((last ? rows * s->out_x[1] : channels * s->out_c) * (int64_t)sizeof(sum_cell));
}

// Finishes a part whose first cell is `cell`; its rows are `spacing` apart.
static inline void finish_part(const solve *s, const opwright_sink *sink, const sum_cell *sums, int64_t cell, int64_t channels,
                               int64_t rows, int64_t spacing, int64_t columns, int64_t worker) {
    typedef struct along {
        int64_t extent, sums, cells; // and from one to the next
    } along;
    const along c = {channels, s->out_c, s->cell_c}, x = {columns, s->out_x[2], s->cell_x[2]};
    const along y = {rows, spacing * s->out_x[1], spacing * s->cell_x[1]};
    const along order[3] = {s->out_c == 1 ? y : c, s->out_c == 1 ? x : y, s->out_c == 1 ? c : x};
    int64_t line = order[2].extent, outer[2] = {order[0].extent, order[1].extent};
    for (int a = 1; a >= 0 && (outer[a] == 1 || (order[a].sums == line && order[a].cells == line)); a--)
        line *= outer[a], outer[a] = 1;
    cell += sink->first;
    for (int64_t i = 0; i < outer[0]; i++)
        for (int64_t j = 0; j < outer[1]; j++)
            sink->finish(sink->context, cell + i * order[0].cells + j * order[1].cells, line,
                         sums + i * order[0].sums + j * order[1].sums, worker);
}

#endif
