// The three solves for groups with one channel on either side, A == B == 1: what all implementations share.
//
// depthwise_channels.c and depthwise_weights.c have lanes of neighbouring channels, depthwise_columns.c and weights_columns.c
// lanes of neighbouring columns; solve_depthwise.c chooses. The contract is that of the functions in solves.h.
//
// Figures: see engine.h.

#ifndef OPWRIGHT_DEPTHWISE_H
#define OPWRIGHT_DEPTHWISE_H

#include "engine.h"
#include "lanes.h"
#include "phases.h"

#ifdef __clang__
#define UNROLL_ALL UNROLL
#else
#define UNROLL_ALL _Pragma("GCC unroll 64")
#endif

enum {
    TASK_OUTPUTS = 32768, // of a task, about
    FIXED_COLUMNS = 16,   // columns of a kernel that is compiled for itself, at the most
    FIXED_SUMS = 24,      // sums of weights in such code
    MAX_TAPS = FIXED_COLUMNS, MAX_ALL = FIXED_COLUMNS * FIXED_COLUMNS, MAX_ROWS = FIXED_SUMS / 2,
    ROWS_OF_5 = LANES == 8 ? 2 : 5, ROWS_OF_7 = LANES == 8 ? 1 : 3, // of taps of w, of 5 and 7 columns
    W_TASKS = 16,         // of a solve for weights, at the least: chunks make up for few channels
    FAR = 1 << 20,        // elements that do not stay in the second-level cache
    NEAR = (256 << 10) / sizeof(elem), // elements that do, next to others
    COPIED_PIXELS = 8192, // maximum size of planes that are copied whole, LANES channels at a time
    TRANSPOSED_TAPS = 25, // 46 instead of 69 GFLOP/s for 7x7 over 96x56x56
};

INLINE bool channels_last(const opwright_problem *p) { return p->big_c == 1 && p->small_c == 1; }
// Whether positions of a tensor follow each other without gaps.
INLINE bool dense(const int64_t size[3], const int64_t distance[3]) {
    return (size[2] == 1 || distance[2] == 1) && (size[1] == 1 || distance[1] == size[2]) &&
           (size[0] == 1 || distance[0] == size[1] * size[2]);
}

// Whether y and x over columns read a tensor in place: masks exclude what is outside a row, whatever the dilation.
INLINE bool in_place(const opwright_problem *p) {
    return OPWRIGHT_WINDOWS && p->taps[1] == 3 && p->taps[2] == 3 && p->stride[1] == 1 && p->stride[2] == 1;
}

// All lanes, or with `part` the first few: by a mask if that is free, else by a branch.
INLINE vec lanes_load(const elem *p, bool part, int64_t lanes) {
    return part && (LANES == 16 || lanes < LANES) ? elem_load_part(p, lanes) : elem_load(p);
}
INLINE void lanes_store(elem *p, vec v, bool part, int64_t lanes) {
    if (part && (LANES == 16 || lanes < LANES))
        elem_store_part(p, v, lanes);
    else
        elem_store(p, v);
}
INLINE void sums_store(sum_cell *p, vec v, bool part, int64_t lanes) {
    if (part && (LANES == 16 || lanes < LANES))
        sum_store_part(p, v, lanes);
    else
        sum_store(p, v);
}

// Weights of y and x.
#if defined(OPWRIGHT_WIDE_TAPS)
#define tap_load_part vec_load_part
#define tap_get(p) (*(const float *)(p))
#else
#define tap_load_part elem_load_part
#define tap_get elem_get
#endif

// Prefetches so many bytes.
INLINE void prefetch(const void *p, int64_t bytes, const int write) {
    for (int64_t i = 0; i < bytes; i += 64)
        write ? __builtin_prefetch((const char *)p + i, 1, 3) : __builtin_prefetch((const char *)p + i, 0, 2);
}

// The taps of one output position on one axis: tap j is k + j*k_step and reads input at + j*at_step.
typedef struct taps {
    int64_t count, k, k_step, at, at_step;
} taps;

INLINE taps taps_of(const solve *s, int number, int64_t out) {
    const axis *a = &s->axes[number];
    const int64_t q = over(out, a->out_step);
    const phase p = phase_of(a, out - q * a->out_step, s->backward);
    return (taps){p.taps, p.tap, p.tap_step, q * a->in_step + p.offset, a->offset_step};
}

// The range of t within [0, size).
INLINE int64_t taps_low(const taps *t) {
    return t->at < 0 ? over(t->at_step - 1 - t->at, t->at_step) : 0;
}
INLINE int64_t taps_high(const taps *t, int64_t size) {
    return t->at < size ? over(size - t->at + t->at_step - 1, t->at_step) : 0;
}

// Without the taps that fall outside [0, size).
INLINE taps clipped(taps t, int64_t size) {
    const int64_t first = taps_low(&t), end = min(t.count, taps_high(&t, size));
    return (taps){max(0, end - first), t.k + first * t.k_step, t.k_step, t.at + first * t.at_step, t.at_step};
}

// Outputs `step` apart read inputs `in_step` dilations apart: a dilated row or column splits
// into `classes` undilated ones.
typedef struct lattice {
    int64_t classes, step, in_step;
} lattice;

static inline lattice lattice_of(const solve *s, int number) {
    const axis *a = &s->axes[number];
    const int64_t classes = a->offset_step / gcd(a->in_step, a->offset_step);
    return (lattice){classes, a->out_step * classes, a->in_step * classes / a->offset_step};
}

#endif
