// channels.c: rows of input copied to scratch, and weights packed to panels.

#ifndef OPWRIGHT_CHANNELS_PACK_H
#define OPWRIGHT_CHANNELS_PACK_H

#include "channels_plan.h"

// Input.

// Pixels [low, low + count) of a row of input, `pixel` units apart, zeros beyond the row's ends. The next row
// lies `next` further.
static void copy_row(const solve *s, const elem *row, int64_t low, int64_t count, unit *to, int64_t pixel,
                     int64_t next) {
    const int64_t first = min(max(0, -low), count), last = max(first, min(count, s->axes[2].in - low));
    const int64_t reduced = s->reduced, step = s->in_x[2];
    memset(to, 0, (size_t)(first * pixel) * sizeof *to);
    memset(to + last * pixel, 0, (size_t)((count - last) * pixel) * sizeof *to);
    row += (low + first) * step;
    to += first * pixel;
    count = last - first;
    if (s->in_c == 1) {
        // Pixels that are contiguous in both places are one long line of channels.
        const bool contiguous = step == reduced && pixel * UNIT_CHANNELS == reduced;
        const int64_t lines = contiguous ? 1 : count, length = contiguous ? count * reduced : reduced;
        if (length <= LANES * UNIT_CHANNELS) { // one mask for all
            const int64_t units_ = ceil_div(length, UNIT_CHANNELS);
            for (int64_t x = 0; x < lines; x++, row += step, to += pixel) {
                // With many groups, pixels are far apart, each in cache lines of its own.
                __builtin_prefetch((const void *)((uintptr_t)row + 2 * LANES * sizeof(elem) * (uintptr_t)step));
                units_store_part(to, channel_units(row, length), units_);
            }
            return;
        }
        for (int64_t x = 0; x < lines; x++, row += step, to += pixel)
            for (int64_t c = 0; c < length; c += LANES * UNIT_CHANNELS) {
                __builtin_prefetch((const void *)((uintptr_t)(row + c) + COPY_AHEAD), 0, 2);
                const vec v = channel_units(row + c, length - c);
                if (length - c >= LANES * UNIT_CHANNELS)
                    vec_store((float *)(void *)(to + c / UNIT_CHANNELS), v);
                else
                    units_store_part(to + c / UNIT_CHANNELS, v, ceil_div(length - c, UNIT_CHANNELS));
            }
        return;
    }
    for (int64_t c = 0; c < reduced; c += LANES * UNIT_CHANNELS) {
        const int64_t channels = min(LANES, ceil_div(reduced - c, UNIT_CHANNELS));
        for (int64_t x = 0; x < count; x += LANES) {
            for (int64_t i = 0; i < channels * UNIT_CHANNELS && count >= LANES; i++) // rows of less share their lines
                __builtin_prefetch((const void *)((uintptr_t)(row + (c + i) * s->in_c + x * step) + (uintptr_t)next), 0,
                                   2);
            transpose(row + c * s->in_c + x * step, s->in_c, reduced - c, step, min(LANES, count - x),
                            to + x * pixel + c / UNIT_CHANNELS, pixel, channels);
        }
    }
}

#if OPWRIGHT_PAIRS
// The same as a line of elements, `length` units including padding; whether one of them is Inf or NaN. Data
// `next` further is copied after the tiles of this step, when the hardware no longer tracks this stream.
static bool copy_line(const solve *s, const elem *row, int64_t low, int64_t count, unit *to, int64_t length,
                      int64_t next) {
    const int64_t first = min(max(0, -low), count), last = max(first, min(count, s->axes[2].in - low));
    elem *begin = (elem *)(void *)to + first * s->reduced, *end = (elem *)(void *)(to + length);
    const int64_t elements = (last - first) * s->reduced;
    uvec found = {0};
    memset(to, 0, (size_t)((char *)begin - (char *)to));
    row += (low + first) * s->reduced;
    for (int64_t i = 0; i < elements; i += LANES * UNIT_CHANNELS) {
        __builtin_prefetch((const void *)((uintptr_t)(row + i) + (uintptr_t)next), 0, 2);
        const vec v = channel_units(row + i, elements - i);
        memcpy(begin + i, &v, sizeof v);
        found |= not_finite(&v);
    }
    memset(begin + elements, 0, (size_t)((char *)end - (char *)(begin + elements)));
    return uvec_any(found);
}
#endif

// Zeros in `rows` rows of `count` pixels, but for pixels [first, last).
static void clear_ends(unit *to, int64_t rows, int64_t row_step, int64_t first, int64_t last, int64_t count,
                       int64_t pixel) {
    for (int64_t row = 0; row < rows; row++, to += row_step) {
        memset(to, 0, (size_t)(first * pixel) * sizeof *to);
        memset(to + last * pixel, 0, (size_t)((count - last) * pixel) * sizeof *to);
    }
}

// `pixels` contiguous pixels in lines of `length`: they are stored `step` apart, lines `line_step` apart.
static void copy_lines(const solve *s, const elem *pixel0, int64_t pixels, int64_t length, unit *to, int64_t step,
                       int64_t line_step) {
    for (int64_t c = 0; c < s->reduced; c += LANES * UNIT_CHANNELS) {
        const int64_t channels = min(LANES, ceil_div(s->reduced - c, UNIT_CHANNELS));
        const elem *from = pixel0 + c * s->in_c;
        int64_t at = 0;
        unit *line = to + c / UNIT_CHANNELS;
        for (int64_t x = 0; x < pixels; x += LANES) {
            // The next channels' lines, a plane apart.
            for (int64_t i = 0; i < LANES * UNIT_CHANNELS && x % (64 / (int64_t)sizeof(elem)) == 0; i++)
                __builtin_prefetch((const void *)((uintptr_t)(from + x) +
                                                  (uintptr_t)((LANES * UNIT_CHANNELS + i) * s->in_c) * sizeof(elem)), 0, 2);
            vec v[LANES];
            UNROLL for (int64_t i = 0; i < LANES; i++)
                v[i] = i < channels ? unit_line(from + i * UNIT_CHANNELS * s->in_c + x, s->in_c,
                                                s->reduced - c - i * UNIT_CHANNELS, 1, pixels - x)
                                    : (vec){0};
            vec_transpose(v);
            UNROLL for (int64_t i = 0; i < LANES; i++) {
                if (i < pixels - x)
                    units_store_part(line + at * step, v[i], channels);
                if (++at == length)
                    at = 0, line += line_step;
            }
        }
    }
}

// The same for `groups` groups that share a vector. A vector has `picked` contiguous units of channels of each group,
// the next one the next channels. If lanes cannot be picked, it has one unit, in all lanes of the group. Inlined into a
// long function, its loops spill their counters: 0.88 of the speed (gcc 12, AMD Zen 5, bf16, 64 groups of one channel).
__attribute__((noinline)) static void copy_row_of_groups(const plan *p, const elem *row, int64_t low, int64_t count,
                                                         int64_t groups, unit *to) {
    const solve *s = &p->s;
    const int64_t first = min(max(0, -low), count), last = max(first, min(count, s->axes[2].in - low));
    memset(to, 0, (size_t)(first * p->pixel) * sizeof *to);
    memset(to + last * p->pixel, 0, (size_t)((count - last) * p->pixel) * sizeof *to);
    const int64_t there = groups * s->reduced;
    ivec begin, unit_, absent; // of the lane's unit: its group's first channel, and its index there, in the first vector
    const int64_t each = VECTORS_PICK ? p->picked : s->lanes; // lanes of a group
    for (int i = 0; i < LANES; i++) {
        absent[i] = i < groups * each ? 0 : -1;
        begin[i] = (int32_t)(i / each * s->reduced), unit_[i] = (int32_t)(i % p->picked);
    }
    for (int64_t x = first; x < last; x += LANES) {
        const int64_t pixels = min(LANES, last - x);
        const elem *from = row + (low + x) * s->in_x[2];
        vec v[MAX_PICKED][LANES];
        // With many groups, pixels are far apart, each in cache lines of its own.
        for (int64_t i = 0; i < LANES && s->in_c == 1; i++)
            __builtin_prefetch((const char *)(from + (2 * LANES + i) * s->in_x[2]));
        for (int64_t j = 0, c = 0; c < there; j++, c += LANES)
            if (s->in_c == 1)
                UNROLL for (int64_t i = 0; i < LANES; i++)
                    v[j][i] = i < pixels ? load_line(from + i * s->in_x[2] + c, 1, there - c) : (vec){0};
            else {
                UNROLL for (int64_t i = 0; i < LANES; i++)
                    v[j][i] = c + i < there ? load_line(from + (c + i) * s->in_c, s->in_x[2], pixels) : (vec){0};
                vec_transpose(v[j]);
            }
        for (int64_t c = 0; c < p->channels; c += p->picked) {
            unit *at = to + x * p->pixel + c / p->picked * LANES;
            const ivec channel = (unit_ + (int32_t)c) * UNIT_CHANNELS;
            const ivec even = (begin + channel) | absent | (channel >= (int32_t)s->reduced);
#if OPWRIGHT_PAIRS
            const ivec odd = (begin + channel + 1) | absent | (channel + 1 >= (int32_t)s->reduced);
            for (int64_t i = 0; i < pixels; i++, at += p->pixel) {
                const vec first_half = pick_lanes(&v[0][i], LANES, there, even);
                vec_store((float *)(void *)at, paired(first_half, pick_lanes(&v[0][i], LANES, there, odd)));
            }
#else
            for (int64_t i = 0; i < pixels; i++, at += p->pixel)
                vec_store(at, pick_lanes(&v[0][i], LANES, there, even));
#endif
        }
    }
}

// Weights.

// Stores the lanes of one weight: a vector, or the lower or upper halves of one.
INLINE void put_weights(unit *to, int64_t channel, bool over, vec v) {
#if OPWRIGHT_PAIRS
    const units bits = (units)v, old = units_load(to);
    vec_store((float *)(void *)to, (vec)(channel % 2 != 0 ? old | bits : over ? bits >> 16 : old | bits >> 16));
#else
    (void)channel, (void)over;
    vec_store(to, v);
#endif
}

// Weights of `lanes` lanes from `from` on, as `[position of the tap][channel][width]`; lanes past the last one and the
// second half of an odd last pair are zero. The contiguous axis of the tensor is read along.
static void pack_weights(const plan *plan, const int64_t *positions, const elem *from, int64_t lanes, unit *to,
                         int64_t width) {
    const solve *s = &plan->s;
    const opwright_problem *p = s->problem;
    if (plan->line) // halves of a pair come in any order
        memset(to, 0, (size_t)(plan->panel_units / LANES * width) * sizeof *to);
    const int64_t *k = s->problem->taps;
    const int64_t taps = volume(k);
    // A line of the tensor that is transposed: the reduced channels of a tap, or the taps, of one channel or of all.
    const bool taps_first = taps > 1 && p->w_k[2] == 1 && p->w_k[1] == k[2] && p->w_k[0] == k[1] * k[2];
    const bool contiguous = taps_first && s->w_reduced == taps;
    if (s->w_lane == 1 && lanes > 1) {
        for (int64_t t = 0; t < taps; t++) {
            const elem *line = from + tap_at(p, t);
            for (int64_t channel = 0; channel < s->reduced; channel++, line += s->w_reduced) {
                const int64_t place = positions[t] + channel;
                unit *at = to + place / UNIT_CHANNELS * width;
                for (int64_t l = 0; l < width; l += LANES) {
                    __builtin_prefetch((const void *)((uintptr_t)(line + l) + FAR_AHEAD * sizeof(elem) * (uintptr_t)s->w_reduced));
                    put_weights(at + l, place, !plan->line, lanes > l ? load_line(line + l, 1, lanes - l) : (vec){0});
                }
            }
        }
        return;
    }
#if OPWRIGHT_PAIRS
    // Pairs as they are, if the taps of a channel fill half a vector.
    if (taps_first && !plan->line && taps >= LANES / 2) {
        // Prefetches the rest of the lane's line, or, if lanes are adjacent, the lines of the next channels: without it
        // 1280 channels of 3x3 took 1.13 times as long in total on one thread, 1.4 times on two.
        const bool neighbours = s->w_lane < s->w_reduced;
        const uintptr_t line = sizeof(elem) * (uintptr_t)s->w_reduced;
        const uintptr_t ahead = neighbours ? AHEAD * UNIT_CHANNELS * line : AHEAD * 64;
        for (int64_t channel = 0; channel < s->reduced; channel += UNIT_CHANNELS)
            for (int64_t t = 0; t < taps; t += LANES)
                for (int64_t l = 0; l < width; l += LANES) {
                    const elem *lane = from + channel * s->w_reduced + t + l * s->w_lane;
                    vec v[LANES];
                    UNROLL for (int64_t i = 0; i < LANES; i++) {
                        __builtin_prefetch((const void *)((uintptr_t)(lane + i * s->w_lane) + ahead));
                        if (neighbours)
                            __builtin_prefetch((const void *)((uintptr_t)(lane + i * s->w_lane) + ahead + line));
                        v[i] = i < lanes - l ? unit_line(lane + i * s->w_lane, s->w_reduced, s->reduced - channel, 1, taps - t)
                                             : (vec){0};
                    }
                    vec_transpose(v);
                    UNROLL for (int64_t i = 0; i < LANES; i++)
                        if (i < taps - t)
                            vec_store((float *)(void *)(to + (positions[t + i] + channel) / UNIT_CHANNELS * width + l), v[i]);
                }
        return;
    }
#endif
    const int64_t lines = contiguous ? 1 : taps_first ? s->reduced : taps;
    const int64_t length = contiguous ? taps * s->reduced : taps_first ? taps : s->reduced;
    const int64_t along = taps_first ? 1 : s->w_reduced;
    for (int64_t line = 0; line < lines; line++) {
        // The line's first element as channel and tap, counted on from there.
        int64_t channel = contiguous || !taps_first ? 0 : line, tap = taps_first ? 0 : line;
        const elem *start = from + channel * s->w_reduced + tap_at(p, tap);
        // Lines are short and far apart: without prefetching, 512 channels of 3x3 take 7 times as long as one long
        // line.
        if (taps_first && line + AHEAD < lines)
            for (int64_t l = 0; l < lanes; l++)
                __builtin_prefetch(start + AHEAD * s->w_reduced + l * s->w_lane);
        for (int64_t at = 0; at < length; at += LANES) {
            const int64_t count = min(LANES, length - at);
            unit *places[LANES];
            int64_t halves[LANES];
            for (int64_t i = 0; i < count; i++) {
                const int64_t place = positions[tap] + channel;
                places[i] = to + place / UNIT_CHANNELS * width;
                halves[i] = place % UNIT_CHANNELS;
                if (!taps_first)
                    channel++;
                else if (++tap == taps)
                    tap = 0, channel++;
            }
            for (int64_t l = 0; l < width; l += LANES) {
                const int64_t here = max(0, min(LANES, lanes - l));
                const elem *lane = start + l * s->w_lane + at * along;
                // Lines lie a power of two apart: without prefetching, 512 channels of 3x3 take 2.3 times as long,
                // joined 1.6 times.
                if (!taps_first || contiguous)
                    for (int64_t i = 0; i < here; i++)
                        __builtin_prefetch((const void *)((uintptr_t)(lane + i * s->w_lane) + AHEAD * 64));
                vec v[LANES];
                UNROLL for (int64_t i = 0; i < LANES; i++)
                    v[i] = i < here ? load_line(lane + i * s->w_lane, along, count) : (vec){0};
                vec_transpose(v);
                UNROLL for (int64_t i = 0; i < LANES; i++)
                    if (i < count)
                        put_weights(places[i] + l, halves[i], !plan->line, v[i]);
            }
        }
    }
}

// All reduced channels of one tap and lane, as units `step` apart.
INLINE void pack_tap(const plan *p, const elem *from, unit *to, int64_t step) {
    for (int64_t c = 0; c < p->channels; c++, from += UNIT_CHANNELS * p->s.w_reduced, to += step)
#if OPWRIGHT_PAIRS
        *to = from[0] | (2 * c + 1 < p->s.reduced ? (uint32_t)from[p->s.w_reduced] << 16 : 0);
#else
        *to = elem_get(from);
#endif
}

// Weights of groups that share a vector, as `[position of the tap][channel][lane]`. They are few.
static void pack_groups(const plan *p, const elem *from, const int64_t *positions, int64_t groups, unit *to) {
    const solve *s = &p->s;
    for (int64_t t = 0; t < volume(s->problem->taps); t++)
        for (int64_t lane = 0; lane < LANES; lane++) {
            unit *at = to + positions[t] / UNIT_CHANNELS * LANES + lane;
            if (lane < groups * s->lanes)
                pack_tap(p, from + lane / s->lanes * s->problem->w_g + lane % s->lanes * s->w_lane +
                                tap_at(s->problem, t), at, LANES);
            else
                for (int64_t c = 0; c < p->channels; c++)
                    at[c * LANES] = 0;
        }
}

// Weights of the channels beyond whole vectors, as `[channel][position of the tap][reduced channel]`.
static void pack_rest(const plan *p, const elem *from, const int64_t *positions, unit *to) {
    for (int64_t lane = 0; lane < p->rest; lane++, from += p->s.w_lane, to += p->panel_units / LANES)
        for (int64_t t = 0; t < volume(p->s.problem->taps); t++)
            pack_tap(p, from + tap_at(p->s.problem, t), to + positions[t] / UNIT_CHANNELS, 1);
}

// Weights of one panel: `units` of `width` vectors for each packed tap and channel, lanes past the last one zero.
static void pack_panel(const call *c, int64_t group, int64_t panel, unit *to) {
    const plan *p = &c->p;
    const solve *s = &p->s;
    const int64_t width = panel_width(p, panel) * LANES, first = panel_first(p, panel) * LANES;
    const elem *from = c->weights + group * p->shared_groups * s->problem->w_g + first * s->w_lane;
    if (p->shared_groups > 1) {
        pack_groups(p, from, c->positions, groups_of(p, group), to);
        return;
    }
    if (is_rest(p, panel))
        pack_rest(p, from, c->positions, to);
    else
        pack_weights(p, c->positions, from, min(width, s->lanes - first), to, width);
}

// Where a panel's weights are.
INLINE int64_t packed_at(const plan *p, int64_t group, int64_t panel) {
    return (group * group_width(p) + panel_first(p, panel)) * p->panel_units;
}

static void pack_task(const void *context, int64_t task, int64_t worker) {
    (void)worker;
    const call *c = context;
    const plan *p = &c->p;
    const int64_t group = task / p->panels, panel = task % p->panels;
    pack_panel(c, group, panel, c->packed + packed_at(p, group, panel));
}

#endif
