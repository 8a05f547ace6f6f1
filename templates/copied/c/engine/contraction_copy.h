// Operands whose strides fit no loop order, or whose elements are narrower than the other's, are copied first.

#ifndef OPWRIGHT_CONTRACTION_COPY_H
#define OPWRIGHT_CONTRACTION_COPY_H

#include "contraction.h"
#include "opwright_numeric.h"
#include "problem.h"
#include "widths.h"

static int64_t copied_cells(const opwright_copied *c) {
    int64_t cells = c->wanted ? 1 : 0;
    for (int64_t a = 0; a < c->axes; a++)
        cells *= c->extent[a];
    return cells;
}

// The type of cells that are widened: that of sums. Bytes beside bf16 become bf16, which holds them.
#if defined(OPWRIGHT_F32) || defined(OPWRIGHT_64) || defined(OPWRIGHT_WIDE_TAPS)
#define OPWRIGHT_WIDENS
typedef real wide_cell;
#else
typedef elem wide_cell;
#if defined(OPWRIGHT_BF16)
#define OPWRIGHT_WIDENS
#endif
#endif

enum { FLOATS = 6 }; // that an engine of bf16 takes as they are: contraction_split.h
#if defined(OPWRIGHT_BF16) && !defined(OPWRIGHT_WIDE_TAPS)
#define OPWRIGHT_KEEPS(wanted) ((wanted) == FLOATS)
#else
#define OPWRIGHT_KEEPS(wanted) false
#endif

// Of a cell that is read.
static int64_t cell_bytes(const opwright_copied *c) {
    if (OPWRIGHT_KEEPS(c->wanted))
        return sizeof(float);
    return c->wanted > 1 ? (int64_t)sizeof(wide_cell) : (int64_t)sizeof(elem);
}

static int64_t copied_bytes(const opwright_copied *c) { return whole_lines(copied_cells(c) * cell_bytes(c)); }

#if defined(OPWRIGHT_BF16) && !defined(OPWRIGHT_WIDE_TAPS)
INLINE wide_cell bf16_of(float byte) { return (wide_cell)(opwright_bits(byte) >> 16); }

INLINE wide_cell widened_cell(int64_t wanted, const void *from, int64_t at) {
    return wanted == 4 ? bf16_of(((const int8_t *)from)[at]) : bf16_of(((const uint8_t *)from)[at]);
}
#elif defined(OPWRIGHT_WIDENS)
INLINE wide_cell widened_cell(int64_t wanted, const void *from, int64_t at) {
    switch (wanted) {
#if !defined(OPWRIGHT_INTEGERS)
    case 2: return opwright_from_bf16(((const uint16_t *)from)[at]);
    case 3: return opwright_from_f16(((const uint16_t *)from)[at]);
    case 6: return ((const float *)from)[at];
#endif
    case 4: return ((const int8_t *)from)[at];
    case 5: return ((const uint8_t *)from)[at];
    case 7: return (real)((const int32_t *)from)[at];
    default: return (real)((const int64_t *)from)[at];
    }
}
#endif

#if defined(OPWRIGHT_WIDENS)
INLINE void widen_cells(int64_t wanted, const void *from, int64_t at, int64_t step, wide_cell *to, int64_t count) {
    if (step == 1)
        for (int64_t i = 0; i < count; i++)
            to[i] = widened_cell(wanted, from, at + i);
    else
        for (int64_t i = 0; i < count; i++)
            to[i] = widened_cell(wanted, from, at + i * step);
}

// Compiled for each type: 1024x1024 bf16 0.1 of the time of a loop that tells the type of each cell (AMD Zen 4, gcc 12.2).
static void widen_line(int64_t wanted, const void *from, int64_t at, int64_t step, wide_cell *to, int64_t count) {
    switch (wanted) {
    case 2: widen_cells(2, from, at, step, to, count); break;
    case 3: widen_cells(3, from, at, step, to, count); break;
    case 4: widen_cells(4, from, at, step, to, count); break;
    case 5: widen_cells(5, from, at, step, to, count); break;
    case 6: widen_cells(6, from, at, step, to, count); break;
    case 7: widen_cells(7, from, at, step, to, count); break;
    default: widen_cells(8, from, at, step, to, count); break;
    }
}
#endif

enum { COPIED_CELLS = 4096 }; // of a task, or a line along the last axis if that is longer

typedef struct copying {
    const opwright_copied *c;
    const void *from;
    char *to;
    int64_t length, lines, each; // of the last axis; how many lines there are; of a task
} copying;

// The cells [begin, end) of a line.
INLINE void copy_line(const copying *k, int64_t at, int64_t step, void *line, int64_t begin, int64_t end) {
    at += begin * step;
    if (OPWRIGHT_KEEPS(k->c->wanted)) {
        for (int64_t i = begin; i < end; i++)
            ((float *)line)[i] = ((const float *)k->from)[at + (i - begin) * step];
        return;
    }
#if defined(OPWRIGHT_WIDENS)
    if (k->c->wanted != 1) {
        widen_line(k->c->wanted, k->from, at, step, (wide_cell *)line + begin, end - begin);
        return;
    }
#endif
    elem *const to = line;
    const elem *from = (const elem *)k->from + at;
    if (step == 1 && end > begin)
        memcpy(to + begin, from, (size_t)(end - begin) * sizeof *to);
    else
        for (int64_t i = begin; i < end; i++)
            to[i] = from[(i - begin) * step];
}

// A line of a bounded operand; `inside` tells whether its cells are.
static void copy_bounded(const copying *k, int64_t at, int64_t step, elem *to, bool inside) {
    const opwright_copied *c = k->c;
    const int64_t last = c->axes - 1, begin = inside ? c->begin[last] : k->length, end = inside ? c->end[last] : k->length;
    for (int64_t i = 0; i < begin; i++)
        to[i] = (elem)c->fill;
    copy_line(k, at, step, to, begin, end);
    for (int64_t i = end; i < k->length; i++)
        to[i] = (elem)c->fill;
}

// Lines along the last axis, one after the other.
static void copy_task(const void *context, int64_t task, int64_t worker) {
    (void)worker;
    const copying *k = context;
    const opwright_copied *c = k->c;
    const int64_t first = task * k->each, step = c->axes ? c->step[c->axes - 1] : 0;
    int64_t at = c->first, rest = first, index[OPWRIGHT_MAX_COPIED];
    for (int64_t a = c->axes - 2; a >= 0; a--) {
        index[a] = rest % c->extent[a];
        at += index[a] * c->step[a];
        rest /= c->extent[a];
    }
    for (int64_t line = first; line < min(k->lines, first + k->each); line++) {
        void *const to = k->to + line * k->length * cell_bytes(c);
        if (c->bounded) {
            bool inside = true;
            for (int64_t a = 0; a < c->axes - 1; a++)
                inside = inside && index[a] >= c->begin[a] && index[a] < c->end[a];
            copy_bounded(k, at, step, to, inside);
        } else
            copy_line(k, at, step, to, 0, k->length);
        for (int64_t a = c->axes - 2; a >= 0; a--) {
            at += c->step[a];
            if (++index[a] < c->extent[a])
                break;
            at -= c->extent[a] * c->step[a];
            index[a] = 0;
        }
    }
}

// The operand to read: in place, or its copy in `to`.
static const elem *copied_operand(const opwright_copied *c, const void *from, void *to, const opwright_team *team) {
    if (!c->wanted)
        return (const elem *)from + c->first;
    const int64_t cells = copied_cells(c), length = c->axes ? c->extent[c->axes - 1] : 1;
    if (cells > 0) {
        const copying k = {c, from, to, length, cells / length, max(1, COPIED_CELLS / length)};
        opwright_run(team, copy_task, &k, ceil_div(k.lines, k.each));
    }
    return to;
}

typedef struct {
    const elem *left, *right;
    void *rest; // the scratch behind the copies
} copies;

// Both operands to read, each in place or as its copy in `scratch`.
static copies copied_operands(const opwright_copied *left, const opwright_copied *right, const void *given_left,
                                const void *given_right, void *scratch, const opwright_team *team) {
    char *const second = (char *)scratch + copied_bytes(left);
    return (copies){copied_operand(left, given_left, scratch, team), copied_operand(right, given_right, second, team),
                      second + copied_bytes(right)};
}

#endif
