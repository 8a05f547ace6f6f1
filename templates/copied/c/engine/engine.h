// The ways to solve a problem, for one dtype and instruction set. solve_data.c, solve_weights.c and solve_depthwise.c
// choose among them: a library links the one that it needs, and its ways.
//
// Figures in comments of this folder are times and rates of one thread on an AMD EPYC of family 26 (Zen 5, AVX-512)
// with gcc 12.2, unless they say otherwise. They led to a choice; bench/RESULTS.md has what the whole reaches.

#ifndef OPWRIGHT_ENGINE_H
#define OPWRIGHT_ENGINE_H

#include "solves.h"
#include "widths.h"

// One of them: whether it suits a problem, NULL if it suits all, and the functions of solves.h for those that it suits. `fixed` is NULL where sizes
// at run time are as fast.
typedef struct opwright_way {
    bool (*fits)(opwright_solve solve, const opwright_problem *p);
    opwright_scratch_function *scratch;
    opwright_solve_function *solve;
    opwright_fixed_function *fixed;
} opwright_way;

extern const opwright_way
    OPWRIGHT_NAME(plain),           // any, slowly, for problems that are empty or nearly all padding
    OPWRIGHT_NAME(product),         // y, x and w without taps, of few pixels
    OPWRIGHT_NAME(col2im),          // y and x of the fewest output channels, by products of each input with all taps
    OPWRIGHT_NAME(over_columns),    // y and x over width lanes, for few output channels and for products of contiguous columns
    OPWRIGHT_NAME(over_channels),   // y and x over channel lanes
    OPWRIGHT_NAME(weights_columns), // w over width lanes, for few channels on both sides, or any of groups with one
    OPWRIGHT_NAME(over_pixels),     // w over channel lanes
    OPWRIGHT_NAME(depthwise_channels), OPWRIGHT_NAME(depthwise_columns), // y and x of groups with one channel on either side
    OPWRIGHT_NAME(depthwise_weights); // w of such, over channel lanes

// The first of `ways` that suits a problem; the last suits all.
INLINE const opwright_way *way_of(const opwright_way *const *ways, opwright_solve solve, const opwright_problem *p) {
    while ((*ways)->fits && !(*ways)->fits(solve, p))
        ways++;
    return *ways;
}

// Whether several groups of few channels share a vector of channel lanes.
#define over_channels_fills OPWRIGHT_NAME(over_channels_fills)
bool over_channels_fills(const opwright_problem *problem, bool backward);

INLINE int64_t volume(const int64_t x[3]) { return x[0] * x[1] * x[2]; }

// From the first tap's weight to that of tap t.
INLINE int64_t tap_at(const opwright_problem *p, int64_t t) {
    const int64_t *k = p->taps;
    return t / (k[1] * k[2]) * p->w_k[0] + t / k[2] % k[1] * p->w_k[1] + t % k[2] * p->w_k[2];
}

// Copies every field of axis `from` to axis `to`.
INLINE void move_axis(const opwright_problem *old, int from, opwright_problem *p, int to) {
    p->small[to] = old->small[from], p->big[to] = old->big[from], p->taps[to] = old->taps[from];
    p->stride[to] = old->stride[from], p->dilation[to] = old->dilation[from], p->pad[to] = old->pad[from];
    p->small_x[to] = old->small_x[from], p->big_x[to] = old->big_x[from], p->w_k[to] = old->w_k[from];
}

// The problem without unused steps: from the only output to the next, from the only tap to the next. An axis
// of one cell comes first, so that rows are never one pixel long.
INLINE opwright_problem tamed(const opwright_problem *problem) {
    opwright_problem p = *problem;
    for (int i = 0; i < 3; i++) {
        if (p.small[i] == 1)
            p.stride[i] = 1;
        if (p.taps[i] == 1)
            p.dilation[i] = 1;
    }
    for (int i = 0; i < 2 && p.small[2] == 1 && p.big[2] == 1 && p.taps[2] == 1 && p.pad[2] == 0; i++) {
        const opwright_problem old = p;
        move_axis(&old, 1, &p, 2);
        move_axis(&old, 0, &p, 1);
        move_axis(&old, 2, &p, 0);
        p.small_x[0] = p.small[1] * p.small_x[1], p.big_x[0] = p.big[1] * p.big_x[1], p.w_k[0] = p.taps[1] * p.w_k[1];
    }
    return p;
}

// A kernel as large as its tensor: if both have the same layout, all their cells become channels, with one tap. Returns
// how many cells become channels, and whether those of one channel are contiguous.
INLINE int64_t whole(opwright_problem *p, bool *beside) {
    int64_t cells = 1;
    for (int a = 2; a >= 0; a--) {
        if (p->small[a] != 1 || p->big[a] != p->taps[a] || p->pad[a] != 0 || p->dilation[a] != 1)
            return 1;
        if (p->taps[a] > 1 && (p->big_x[a] != cells * p->big_x[2] || p->w_k[a] != cells * p->w_k[2]))
            return 1;
        cells *= p->taps[a];
    }
    *beside = p->big_c == cells * p->big_x[2] && p->w_b == cells * p->w_k[2];
    if (*beside)
        p->big_c = p->big_x[2], p->w_b = p->w_k[2];
    else if (p->G > 1 || p->big_x[2] != p->B * p->big_c || p->w_k[2] != p->B * p->w_b)
        return 1;
    p->B *= cells;
    for (int a = 0; a < 3; a++)
        p->taps[a] = p->big[a] = 1;
    return cells;
}

#endif
