// Blocks of neighbouring channels, and their copies in scratch, which y, x and w of groups with one channel on either side share.
//
// Figures: see engine.h.

#ifndef OPWRIGHT_DEPTHWISE_BLOCKS_H
#define OPWRIGHT_DEPTHWISE_BLOCKS_H

#include "depthwise.h"

// The size of a unit in elements: a float, or a pair of elements.
#if defined(OPWRIGHT_F32)
#define UNIT_ELEMS 1
#else
#define UNIT_ELEMS 2
#endif

enum { MANY_TAPS = 60 }; // minimum taps of a kernel for a copy also with channels last

// Input for many taps, in scratch: a widened element, or a pair with the one that the next tap reads.
INLINE vec unit_load(const elem *p) { return vec_load((const float *)(const void *)p); }
INLINE void unit_store(elem *p, vec v) { vec_store((float *)(void *)p, v); }
INLINE vec pair_of(vec first, vec second) { return (vec)((uvec)first >> 16 | (uvec)second); }

// Squares of LANES channels by LANES neighbours: `count` neighbours of `lanes` channels, the rest 0.
INLINE void square_load(vec v[LANES], const elem *p, int64_t channel, int64_t lanes, int64_t count) {
    UNROLL for (int i = 0; i < LANES; i++)
        v[i] = i >= lanes ? (vec){0} : lanes_load(p + i * channel, true, count);
    vec_transpose(v);
}

// The distances of a tensor of one block of channels in scratch, whose rows have room for `width` positions.
static void scratch_distances(const int64_t size[3], int64_t width, int64_t position, int64_t x[3]) {
    x[2] = position, x[1] = width * position, x[0] = size[1] * x[1];
}

// The problem of one block of channels whose planes were interleaved.
static opwright_problem interleaved(const opwright_problem *p, int64_t lanes, int64_t position) {
    opwright_problem q = *p;
    q.N = 1, q.G = lanes, q.big_c = q.small_c = 1;
    scratch_distances(p->big, p->big[2], position, q.big_x);
    scratch_distances(p->small, p->small[2], position, q.small_x);
    return q;
}

static int64_t packed_bytes(const opwright_problem *p) { return ceil_div(p->G, LANES) * LANES * volume(p->taps) * 4; }

// Kernels of many taps need dense input: with channels last, rows lie pages apart, in few sets of the first-level
// cache. 95 instead of 45 GFLOP/s for 31x31 over 28x28x256, 48 instead of 103 for 7x7 over 56x56x96.
static bool many_taps(const opwright_problem *p) {
    return volume(p->taps) > MANY_TAPS && volume(p->big) + volume(p->small) <= COPIED_PIXELS;
}

// Stores the input of one position; `pairs`: as the first of a pair.
INLINE void put_input(const bool units, const bool pairs, elem *to, vec v) {
    if (!units)
        elem_store(to, v);
    else
        unit_store(to, pairs ? pair_of(v, (vec){0}) : v);
}

// `lanes` channels of a tensor, which lie `channel` apart, to rows of positions `step` apart, with `gap` between rows.
INLINE void copy_block(const bool units, const bool pairs, const int64_t size[3], const int64_t x[3], int64_t channel, int64_t lanes,
                       const elem *from, int64_t step, int64_t gap, elem *to) {
    const int64_t rows = size[0] * size[1], width = size[2];
    if (channel == 1) {
        for (int64_t row = 0; row < rows; row++, to += gap)
            for (int64_t w = 0; w < width; w++, to += step)
                put_input(units, pairs, to, lanes_load(from + row / size[1] * x[0] + row % size[1] * x[1] + w * x[2], true, lanes));
        return;
    }
    int64_t left = width;
    for (int64_t at = 0, count = rows * width; at < count; at += LANES) {
        vec v[LANES];
        square_load(v, from + at, channel, lanes, min(LANES, count - at));
        UNROLL for (int i = 0; i < LANES; i++) if (i < count - at) {
            put_input(units, pairs, to, v[i]);
            to += step;
            if (--left == 0)
                left = width, to += gap;
        }
    }
}

// Whether lanes are channels: with channels last, or with planes small enough to be transposed whole, if columns
// (`columns` contiguous ones) would fill few lanes, or if taps are so many that the transposition costs little.
static bool fits(opwright_solve solve, const opwright_problem *p) {
    const int64_t columns = solve == OPWRIGHT_X ? ceil_div(p->big[2], p->stride[2]) : p->small[2];
    return channels_last(p) ||
           ((columns < LANES || (volume(p->taps) >= TRANSPOSED_TAPS && (solve == OPWRIGHT_W || !in_place(p)))) &&
            p->G >= LANES / 2 && volume(p->big) + volume(p->small) <= COPIED_PIXELS);
}

#endif
