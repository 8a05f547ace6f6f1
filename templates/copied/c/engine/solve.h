// Shared by y and x of dense and grouped problems: rows of input copied to scratch.
//
// Figures: see engine.h.

#ifndef OPWRIGHT_SOLVE_H
#define OPWRIGHT_SOLVE_H

#include "phases.h"
#include "units.h"

enum {
    STREAMED_BYTES = 4 << 20,
    AHEAD_PIXELS = 64, // prefetched before they are copied
};

// Whether an output is so large that it may be stored past the caches.
INLINE bool outgrows_caches(const solve *s) {
    const int64_t outputs = s->axes[0].out * s->axes[1].out * s->axes[2].out;
    return s->problem->N * s->problem->G * s->lanes * outputs >= STREAMED_BYTES / (int64_t)sizeof(elem);
}

// Merges neighbouring axes of a product without taps: longer rows, fuller tiles.
static inline void collapse(opwright_problem *p) {
    for (int a = 0; a < 3; a++)
        if (p->taps[a] != 1 || p->stride[a] != 1 || p->pad[a] != 0 || p->small[a] != p->big[a])
            return;
    for (int a = 1; a >= 0; a--) {
        const bool gaps = p->small_x[a] != p->small[2] * p->small_x[2] || p->big_x[a] != p->big[2] * p->big_x[2];
        if (p->small[a] != 1 && gaps)
            return;
        p->small[2] *= p->small[a], p->big[2] *= p->big[a];
        p->small[a] = p->big[a] = 1;
    }
    if (p->small_n == p->small[2] * p->small_x[2] && p->big_n == p->big[2] * p->big_x[2]) {
        p->small[2] *= p->N, p->big[2] *= p->N;
        p->N = 1;
    }
}

// Lanes that hold an Inf or NaN, of which either element of a pair may be one.
INLINE uvec not_finite(const void *units) {
    const uvec bits = (uvec)vec_load(units);
    uvec found = (uvec)((bits & 0x7f800000) == 0x7f800000);
#if OPWRIGHT_PAIRS
    found |= (uvec)((bits & 0x7f80) == 0x7f80);
#endif
    return found;
}

static inline bool all_finite(const unit *packed, int64_t count) {
    uvec found = {0};
    int64_t i = 0;
    for (; i + LANES <= count; i += LANES)
        found |= not_finite(packed + i);
    if (i < count) {
        unit rest[LANES] = {0};
        memcpy(rest, packed + i, (size_t)(count - i) * sizeof *rest);
        found |= not_finite(rest);
    }
    return !uvec_any(found);
}

// Copying input.

// For each lane, the lane `lanes` of the first `there` vectors, `step` apart; 0 for -1.
INLINE vec pick_lanes(const vec *from, int64_t step, int64_t there, ivec lanes) {
    uvec picked = {0};
    for (int64_t j = 0; j * LANES < there; j++) {
        const uvec there_ = (uvec)((lanes & ~(LANES - 1)) == (int32_t)(j * LANES));
        picked |= (uvec)vec_pick(from[j * step], lanes & (LANES - 1)) & there_;
    }
    return (vec)picked;
}

// The weights of up to LANES taps or output channels, `along` elements apart, as rows of scalars of all reduced channels;
// places[i] is where the i-th begins.
static inline void pack_scalars(const solve *s, const elem *from, int64_t along, int64_t count, unit *const *places) {
    const int64_t channels = ceil_div(s->reduced, UNIT_CHANNELS);
    if (s->w_reduced == 1) {
        for (int64_t i = 0; i < count; i++)
            for (int64_t u = 0; u < channels; u += LANES)
                units_store_part(places[i] + u,
                                 channel_units(from + i * along + u * UNIT_CHANNELS, s->reduced - u * UNIT_CHANNELS),
                                 min(LANES, channels - u));
        return;
    }
    for (int64_t u = 0; u < channels; u += LANES) {
        const int64_t here = min(LANES, channels - u);
        vec v[LANES];
        UNROLL for (int64_t i = 0; i < LANES; i++) {
            const int64_t channel = (u + i) * UNIT_CHANNELS;
            v[i] = i < here ? unit_line(from + channel * s->w_reduced, s->w_reduced, s->reduced - channel, along, count)
                            : (vec){0};
        }
        vec_transpose(v);
        UNROLL for (int64_t i = 0; i < LANES; i++)
            if (i < count)
                here == LANES ? vec_store((float *)(void *)(places[i] + u), v[i]) : units_store_part(places[i] + u, v[i], here);
    }
}

// Neighbouring pixels, which are lines of channels, to a line of pixels for each unit of channels, `line` apart.
static inline void turn_pixels(const solve *s, const elem *from, int64_t count, unit *to, int64_t line) {
    for (int64_t x = 0; x < count; x += LANES)
        for (int64_t c = 0; c < s->reduced; c += LANES * UNIT_CHANNELS) {
            const int64_t pixels = min(LANES, count - x), channels = min(LANES * UNIT_CHANNELS, s->reduced - c);
            const elem *at = from + x * s->in_x[2] + c;
            vec v[LANES];
            UNROLL for (int64_t i = 0; i < LANES; i++) {
                __builtin_prefetch((const char *)(at + (AHEAD_PIXELS + i) * s->in_x[2]));
                v[i] = i < pixels ? channel_units(at + i * s->in_x[2], channels) : (vec){0};
            }
            vec_transpose(v);
            unit *line_at = to + c / UNIT_CHANNELS * line + x;
            if (pixels == LANES && channels == LANES * UNIT_CHANNELS) {
                UNROLL for (int64_t i = 0; i < LANES; i++)
                    vec_store((float *)(void *)(line_at + i * line), v[i]);
                continue;
            }
            UNROLL for (int64_t i = 0; i < LANES; i++)
                if (i < ceil_div(channels, UNIT_CHANNELS))
                    units_store_part(line_at + i * line, v[i], pixels);
        }
}

// Storing output.

enum { MAX_INTERLEAVED = 6 }; // rows that are interleaved lane by lane, where more are transposed

// `count` lines of sums, `pitch` apart, across them: lane l of all is a line at to + l * lane_step.
INLINE void store_turned(const float *from, int64_t pitch, int64_t count, sum_cell *to, int64_t lane_step, int64_t step, int64_t lanes) {
    vec v[LANES];
    UNROLL for (int64_t i = 0; i < LANES; i++)
        v[i] = i < count ? vec_load(from + i * pitch) : (vec){0};
    vec_transpose(v);
    UNROLL for (int64_t i = 0; i < LANES; i++)
        if (i < lanes)
            store_line(to + i * lane_step, step, v[i], count);
}

// Interleaves rows of sums into the output, `total` elements; through registers if `rows` is a literal.
INLINE void interleave(const float *from, int64_t pitch, int64_t rows, int64_t total, sum_cell *to) {
    ivec turns[MAX_INTERLEAVED]; // the lanes of rows in the order of memory
    UNROLL for (int64_t j = 0; j < rows; j++) UNROLL for (int64_t i = 0; i < LANES; i++)
        turns[j][i] = (int32_t)((j * LANES + i) % rows * LANES + (j * LANES + i) / rows);
    for (int64_t x = 0; x * rows < total; x += LANES) {
        vec v[MAX_INTERLEAVED];
        UNROLL for (int64_t j = 0; j < rows; j++)
            v[j] = vec_load(from + j * pitch + x);
        UNROLL for (int64_t j = 0; j < rows; j++) {
            const int64_t left = total - x * rows - j * LANES;
            if (left > 0)
                store_line(to + x * rows + j * LANES, 1, rows == 1 ? v[0] : pick_lanes(v, 1, rows * LANES, turns[j]), left);
        }
    }
}

static inline void store_interleaved(const float *from, int64_t pitch, int64_t rows, int64_t total, sum_cell *to) {
    switch (rows) {
    case 1: interleave(from, pitch, 1, total, to); return;
    case 2: interleave(from, pitch, 2, total, to); return;
    case 3: interleave(from, pitch, 3, total, to); return;
    case 4: interleave(from, pitch, 4, total, to); return;
    case 5: interleave(from, pitch, 5, total, to); return;
    case 6: interleave(from, pitch, 6, total, to); return;
    }
    for (int64_t x = 0; x * rows < total; x += LANES)
        for (int64_t row = 0; row < rows; row += LANES) {
            vec v[LANES];
            UNROLL for (int64_t i = 0; i < LANES; i++)
                v[i] = row + i < rows ? vec_load(from + (row + i) * pitch + x) : (vec){0};
            vec_transpose(v);
            UNROLL for (int64_t i = 0; i < LANES; i++) {
                const int64_t at = (x + i) * rows + row, left = min(min(LANES, rows - row), total - at);
                if (left > 0)
                    sum_store_part(to + at, v[i], left);
            }
        }
}

// The start of each tap's packed weights, taps counted as in the tensor: `to` has room for all of them. Rows of taps
// are `row` apart, neighbours in a row `step`.
static inline void list_positions(const solve *s, int64_t row, int64_t step, int64_t *to) {
    const int64_t *k = s->problem->taps;
    for (int64_t d = 0; d < k[0]; d++)
        for (int64_t h = 0; h < k[1]; h++)
            for (int64_t w = 0; w < k[2]; w++)
                *to++ = (tap_position(&s->axes[0], d, s->backward) * k[1] + tap_position(&s->axes[1], h, s->backward)) * row +
                        tap_position(&s->axes[2], w, s->backward) * step;
}

#endif
