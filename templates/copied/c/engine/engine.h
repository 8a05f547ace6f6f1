// The ways to solve a problem, for one dtype and instruction set. solve_data.c and solve_weights.c
// choose among them: a library links the one that it needs, and its ways.
//
// Figures in comments of this folder are times and rates of one thread on an AMD EPYC of family 26 (Zen 5, AVX-512)
// with gcc 12.2, unless they say otherwise. They led to a choice; bench/RESULTS.md has what the whole reaches.

#ifndef OPWRIGHT_ENGINE_H
#define OPWRIGHT_ENGINE_H

#include "solves.h"
#include "widths.h"

#define over_channels OPWRIGHT_NAME(over_channels)
#define over_channels_fills OPWRIGHT_NAME(over_channels_fills)
#define over_channels_scratch OPWRIGHT_NAME(over_channels_scratch)
#define over_columns OPWRIGHT_NAME(over_columns)
#define over_columns_fits OPWRIGHT_NAME(over_columns_fits)
#define over_columns_scratch OPWRIGHT_NAME(over_columns_scratch)
#define col2im OPWRIGHT_NAME(col2im)
#define col2im_fits OPWRIGHT_NAME(col2im_fits)
#define col2im_scratch OPWRIGHT_NAME(col2im_scratch)
#define plain OPWRIGHT_NAME(plain)
#define plain_fits OPWRIGHT_NAME(plain_fits)
#define product OPWRIGHT_NAME(product)
#define product_fits OPWRIGHT_NAME(product_fits)
#define product_scratch OPWRIGHT_NAME(product_scratch)
#define product_w OPWRIGHT_NAME(product_w)
#define product_w_scratch OPWRIGHT_NAME(product_w_scratch)

// Any solve, slowly and without scratch, for problems that are empty or nearly all padding.
bool plain_fits(const opwright_problem *problem);
void plain(const opwright_problem *problem, opwright_solve solve, const elem *first, const elem *second,
           const elem *bias, sum_cell *out, const opwright_team *team);

// y, or with `backward` x, over channel lanes.
void over_channels(const opwright_problem *problem, bool backward, const elem *in, const elem *weights,
                   const elem *bias, sum_cell *out, const opwright_sink *sink, const opwright_team *team, void *scratch);
int64_t over_channels_scratch(const opwright_problem *problem, bool backward, int64_t workers, bool finished);

// Whether several groups of few channels share a vector.
bool over_channels_fills(const opwright_problem *problem, bool backward);

// The same over width lanes, for outputs of few channels and for products in a layout with contiguous columns.
bool over_columns_fits(const opwright_problem *problem, bool backward);
void over_columns(const opwright_problem *problem, bool backward, const elem *in, const elem *weights,
                  const elem *bias, sum_cell *out, const opwright_sink *sink, const opwright_team *team, void *scratch);
int64_t over_columns_scratch(const opwright_problem *problem, bool backward, int64_t workers, bool finished);

// The same for products of few pixels and many weights.
bool product_fits(const opwright_problem *problem, bool backward);
void product(const opwright_problem *problem, bool backward, const elem *in, const elem *weights, const elem *bias,
             sum_cell *out, const opwright_sink *sink, const opwright_team *team, void *scratch);
int64_t product_scratch(const opwright_problem *problem, bool backward, int64_t workers);

// The same for the fewest output channels, by products of each input with all taps.
bool col2im_fits(const opwright_problem *problem, bool backward);
void col2im(const opwright_problem *problem, bool backward, const elem *in, const elem *weights,
                   const elem *bias, sum_cell *out, const opwright_team *team, void *scratch);
int64_t col2im_scratch(const opwright_problem *problem, bool backward, int64_t workers);

// w.
void OPWRIGHT_NAME(over_pixels)(const opwright_problem *problem, const elem *big, const elem *small, elem *weights,
                                const opwright_team *team, void *scratch);
int64_t OPWRIGHT_NAME(over_pixels_scratch)(const opwright_problem *problem, int64_t workers);

// The same over width lanes, for few channels on both sides; otherwise it returns false, and its scratch is -1.
bool OPWRIGHT_NAME(weights_columns)(const opwright_problem *problem, const elem *big, const elem *small, elem *weights,
                                    const opwright_team *team, void *scratch);
int64_t OPWRIGHT_NAME(weights_columns_scratch)(const opwright_problem *problem, int64_t workers);

// The same without taps and with few pixels; otherwise it returns false, and its scratch is -1.
bool product_w(const opwright_problem *problem, const elem *big, const elem *small, elem *weights, const opwright_team *team,
               void *scratch);
int64_t product_w_scratch(const opwright_problem *problem, int64_t workers);

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
