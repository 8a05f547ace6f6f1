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

enum {
    COPIED_CELLS = 4096, // of a task, or a line along the last axis if that is longer
    NEAR_LINES = 256,    // at most, of a block whose places are listed
};

// An operand as lines along its last axis. Lines of a block, those of the last axes before it, begin as far from its place
// as listed: 1600 rows by 128 columns f32 whose 128 terms lie in lines of two cells take 0.6 of the time of counting axes up
// for each line, copy and product (Intel Xeon with AVX-512, gcc 12.2).
typedef struct copying {
    opwright_copied c;
    const void *from;
    char *to;
    int64_t length, lines, each; // cells of a line; how many lines there are; of a task
    int64_t outer, block;        // the axes before those of a block; its lines
    int64_t starts[NEAR_LINES];
} copying;

// Neighbouring axes that an operand goes through as through one become one.
static opwright_copied joined(const opwright_copied *c) {
    opwright_copied one = *c;
    one.axes = 0;
    for (int64_t a = 0; a < c->axes; a++) {
        const int64_t last = one.axes - 1;
        if (c->extent[a] == 1 && !c->bounded)
            continue;
        if (last >= 0 && !c->bounded && one.step[last] == c->step[a] * c->extent[a]) {
            one.extent[last] *= c->extent[a], one.step[last] = c->step[a];
        } else {
            one.extent[one.axes] = c->extent[a], one.step[one.axes] = c->step[a];
            one.axes++;
        }
    }
    return one;
}

static copying copying_of(const opwright_copied *operand, const void *from, void *to) {
    copying k = {.c = joined(operand), .from = from, .to = to, .block = 1};
    const opwright_copied *c = &k.c;
    k.length = c->axes ? c->extent[c->axes - 1] : 1;
    k.lines = copied_cells(c) / max(1, k.length);
    k.outer = max(0, c->axes - 1);
    const int64_t most = min(NEAR_LINES, COPIED_CELLS / max(1, k.length));
    while (!c->bounded && k.outer > 0 && k.lines > 0 && k.block * c->extent[k.outer - 1] <= most) {
        k.outer--;
        // From behind: the listed lines are those of the first cell along the axis.
        for (int64_t i = c->extent[k.outer] - 1; i >= 0; i--)
            for (int64_t line = 0; line < k.block; line++)
                k.starts[i * k.block + line] = k.starts[line] + i * c->step[k.outer];
        k.block *= c->extent[k.outer];
    }
    k.each = k.block * max(1, COPIED_CELLS / max(1, k.length * k.block));
    return k;
}

// The cells [begin, end) of a line.
INLINE void copy_line(const copying *k, int64_t at, int64_t step, void *line, int64_t begin, int64_t end) {
    at += begin * step;
    if (OPWRIGHT_KEEPS(k->c.wanted)) {
        for (int64_t i = begin; i < end; i++)
            ((float *)line)[i] = ((const float *)k->from)[at + (i - begin) * step];
        return;
    }
#if defined(OPWRIGHT_WIDENS)
    if (k->c.wanted != 1) {
        widen_line(k->c.wanted, k->from, at, step, (wide_cell *)line + begin, end - begin);
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
    const opwright_copied *c = &k->c;
    const int64_t last = c->axes - 1, begin = inside ? c->begin[last] : k->length, end = inside ? c->end[last] : k->length;
    for (int64_t i = 0; i < begin; i++)
        to[i] = (elem)c->fill;
    copy_line(k, at, step, to, begin, end);
    for (int64_t i = end; i < k->length; i++)
        to[i] = (elem)c->fill;
}

// The lines of a block; faster with a length that is a literal.
INLINE void copy_lines(const copying *k, const elem *from, elem *to, int64_t length) {
    for (int64_t line = 0; line < k->block; line++)
        for (int64_t i = 0; i < length; i++)
            to[line * length + i] = from[k->starts[line] + i];
}

static void copy_block(const copying *k, int64_t at, int64_t step, char *to) {
    const elem *const from = (const elem *)k->from + at;
    elem *const cells = (elem *)(void *)to;
    if (k->c.wanted == 1 && step == 1)
        switch (k->length) {
        case 1: copy_lines(k, from, cells, 1); return;
        case 2: copy_lines(k, from, cells, 2); return;
        case 3: copy_lines(k, from, cells, 3); return;
        case 4: copy_lines(k, from, cells, 4); return;
        case 8: copy_lines(k, from, cells, 8); return;
        case 12: copy_lines(k, from, cells, 12); return;
        case 16: copy_lines(k, from, cells, 16); return;
        }
    for (int64_t line = 0; line < k->block; line++)
        copy_line(k, at + k->starts[line], step, to + line * k->length * cell_bytes(&k->c), 0, k->length);
}

// Blocks of lines along the last axis, one after the other.
static void copy_task(const void *context, int64_t task, int64_t worker) {
    (void)worker;
    const copying *k = context;
    const opwright_copied *c = &k->c;
    const int64_t first = task * k->each, step = c->axes ? c->step[c->axes - 1] : 0;
    int64_t at = c->first, rest = first / k->block, index[OPWRIGHT_MAX_COPIED];
    for (int64_t a = k->outer - 1; a >= 0; a--) {
        index[a] = rest % c->extent[a];
        at += index[a] * c->step[a];
        rest /= c->extent[a];
    }
    for (int64_t line = first; line < min(k->lines, first + k->each); line += k->block) {
        char *const to = k->to + line * k->length * cell_bytes(c);
        if (c->bounded) {
            bool inside = true;
            for (int64_t a = 0; a < k->outer; a++)
                inside = inside && index[a] >= c->begin[a] && index[a] < c->end[a];
            copy_bounded(k, at, step, (elem *)(void *)to, inside);
        } else
            copy_block(k, at, step, to);
        for (int64_t a = k->outer - 1; a >= 0; a--) {
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
    const copying k = copying_of(c, from, to);
    if (copied_cells(c) > 0)
        opwright_run(team, copy_task, &k, ceil_div(k.lines, k.each));
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
