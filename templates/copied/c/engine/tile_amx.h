// The tiles of tile.h by matrix registers.
//
// A block has up to 32 rows and two vectors: four registers of sums, two of scalars, two of vectors. 16 units of a run are
// multiplied at a time, and what is left of it beside zeros: the runs alone determine the terms of a sum and their order,
// as in tile.h.

#ifndef OPWRIGHT_TILE_AMX_H
#define OPWRIGHT_TILE_AMX_H

#include "amx.h"
#include "tile.h"

enum { AMX_BLOCK = 2 }; // registers of rows, and of vectors, of a block

// 16 units of each row against two vectors of each, or one.
INLINE void amx_multiply(const uint32_t *scalars, int64_t row, const uint32_t *vectors, int64_t step, bool below, bool beside) {
    AMX_LOAD(6, vectors, step * 4);
    AMX_LOAD(4, scalars, row);
    AMX_DOT(0, 4, 6);
    if (beside) {
        AMX_LOAD(7, vectors + LANES, step * 4);
        AMX_DOT(1, 4, 7);
    }
    if (below) {
        AMX_LOAD(5, (const char *)scalars + AMX_ROWS * row, row);
        AMX_DOT(2, 5, 6);
        if (beside)
            AMX_DOT(3, 5, 7);
    }
}

// The last units of a run, fewer than 16, with zeros behind them.
INLINE void amx_multiply_rest(const uint32_t *scalars, int64_t row, const uint32_t *vectors, int64_t step, int64_t units, int rows,
                              bool below, bool beside) {
    uint32_t left[AMX_BLOCK * AMX_ROWS * AMX_UNITS] __attribute__((aligned(64)));
    uint32_t right[AMX_UNITS * AMX_BLOCK * LANES] __attribute__((aligned(64)));
    for (int m = 0; m < rows; m++)
        vec_store((float *)(void *)(left + m * AMX_UNITS),
                  vec_load_part((const float *)(const void *)((const char *)scalars + m * row), units));
    const int wide = beside ? 2 : 1;
    amx_fill((const float *)(const void *)vectors, step, units, wide, (float *)(void *)right);
    amx_multiply(left, AMX_UNITS * 4, right, wide * LANES, below, beside);
}

// Sums of all runs, added to `sums` if these have begun; from a row of `sums` to the next two vectors.
INLINE void amx_sums(const operands *o, int64_t vector, int rows, bool below, bool beside, float *sums) {
    const int64_t row = o->scalar_row, step = o->step, pitch = AMX_BLOCK * LANES;
    if (o->begun) {
        AMX_LOAD(0, sums, pitch * 4);
        if (beside)
            AMX_LOAD(1, sums + LANES, pitch * 4);
        if (below) {
            AMX_LOAD(2, sums + AMX_ROWS * pitch, pitch * 4);
            if (beside)
                AMX_LOAD(3, sums + AMX_ROWS * pitch + LANES, pitch * 4);
        }
    } else {
        AMX_CLEAR(0);
        AMX_CLEAR(1);
        if (below) {
            AMX_CLEAR(2);
            AMX_CLEAR(3);
        }
    }
    for (const run *r = o->runs, *last = r + o->run_count; r != last; r++) {
        const unit *s = o->scalars + r->scalars, *v = o->vectors + r->vectors + vector * LANES;
        int64_t left = r->length;
        for (; left >= AMX_UNITS; left -= AMX_UNITS, s += AMX_UNITS, v += AMX_UNITS * step)
            amx_multiply(s, row, v, step, below, beside);
        if (left > 0)
            amx_multiply_rest(s, row, v, step, left, rows, below, beside);
    }
    AMX_STORE(0, sums, pitch * 4);
    if (beside)
        AMX_STORE(1, sums + LANES, pitch * 4);
    if (below) {
        AMX_STORE(2, sums + AMX_ROWS * pitch, pitch * 4);
        if (beside)
            AMX_STORE(3, sums + AMX_ROWS * pitch + LANES, pitch * 4);
    }
}

INLINE void amx_put(const operands *o, int64_t row, int64_t vector, vec sum) {
    const int64_t at = row * o->out_row + vector * LANES;
    sum += vec_load(o->bias + row * o->bias_row + vector * o->bias_vector);
    if (o->streamed)
        sum_stream((sum_cell *)o->out + at, sum);
    else if (o->elements)
        sum_store((sum_cell *)o->out + at, sum);
    else
        vec_store((float *)o->out + at, sum);
}

static void amx_tile(const operands *o, int rows, int vectors) {
    float local[AMX_BLOCK * AMX_ROWS * AMX_BLOCK * LANES] __attribute__((aligned(64)));
    if (!o->shaped)
        amx_configure(min(rows, AMX_ROWS), max(0, rows - AMX_ROWS));
    for (int v = 0; v < vectors; v += AMX_BLOCK) {
        const int wide = (int)min(AMX_BLOCK, vectors - v);
        float *const sums = o->kept ? o->kept + v * rows * LANES : local;
        if (rows > AMX_ROWS)
            wide == 2 ? amx_sums(o, v, rows, true, true, sums) : amx_sums(o, v, rows, true, false, sums);
        else
            wide == 2 ? amx_sums(o, v, rows, false, true, sums) : amx_sums(o, v, rows, false, false, sums);
        for (int m = 0; m < rows && !o->more; m++)
            for (int b = 0; b < wide; b++)
                amx_put(o, m, v + b, vec_load(sums + (m * AMX_BLOCK + b) * LANES));
    }
}

#endif
