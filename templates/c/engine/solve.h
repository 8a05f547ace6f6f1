// What y and x have in common: the output in phases, the reach of their taps, and rows of input copied to scratch.
//
// Along an axis of stride S, y has one phase: output q is reached from the inputs q*S + k*dilation - pad. x has S, one
// for each r: output q*S + r is reached from the inputs q + (r + pad - k*dilation)/S of those taps for which that is a
// whole number. From here on both are the same: output q*out_step + r, inputs q*in_step + offset + t*offset_step for
// t in [0, taps), ascending.

#ifndef OPWRIGHT_SOLVE_H
#define OPWRIGHT_SOLVE_H

#include "problem.h"
#include "tile.h"

typedef struct axis {
    int64_t out, in, taps; // extents
    int64_t in_step, out_step;
    int64_t dilation, pad;
    int64_t classes; // taps k and k + classes belong to the same phase
    int64_t common;  // the greatest common divisor of stride and dilation
    int64_t inverse; // of dilation / common, modulo classes
    int64_t offset_step;
} axis;

typedef struct phase {
    int64_t count; // outputs
    int64_t taps;
    int64_t offset;
    int64_t position;        // of its first tap, in the order in which weights are packed
    int64_t tap, tap_step;   // the k of its first tap, and from one to the next
} phase;

// One of y and x, said in one way. Extents of channels are per group.
typedef struct solve {
    const opwright_problem *problem;
    bool backward; // x
    axis axes[3];
    int64_t lanes, reduced; // channels of the output, of the input
    int64_t in_n, in_c, in_x[3], out_n, out_c, out_x[3];
    int64_t w_lane, w_reduced;
} solve;

INLINE int64_t modulo(int64_t a, int64_t b) { return (a % b + b) % b; }
INLINE int64_t divide_down(int64_t a, int64_t b) { return (a - modulo(a, b)) / b; }

static axis axis_of(const opwright_problem *p, int number, bool backward) {
    const int64_t stride = p->stride[number], dilation = p->dilation[number];
    axis a = {.taps = p->taps[number], .dilation = dilation, .pad = p->pad[number]};
    if (!backward) {
        a.out = p->small[number], a.in = p->big[number];
        a.in_step = stride, a.out_step = 1, a.classes = 1, a.common = 1, a.offset_step = dilation;
        return a;
    }
    int64_t common = stride, rest = dilation;
    while (rest != 0) {
        const int64_t next = common % rest;
        common = rest, rest = next;
    }
    a.out = p->big[number], a.in = p->small[number];
    a.in_step = 1, a.out_step = stride, a.classes = stride / common, a.common = common;
    a.offset_step = dilation / common;
    while (a.classes > 1 && a.inverse * a.offset_step % a.classes != 1)
        a.inverse++;
    return a;
}

// How many taps belong to a class, and how many to the classes before it.
INLINE int64_t class_taps(const axis *a, int64_t class) {
    return class < a->taps ? (a->taps - 1 - class) / a->classes + 1 : 0;
}
INLINE int64_t taps_before(const axis *a, int64_t class) {
    return class * (a->taps / a->classes) + least(class, a->taps % a->classes);
}

// Where tap k stands among the packed ones: classes one after the other, inputs ascending within a class.
INLINE int64_t tap_position(const axis *a, int64_t k, bool backward) {
    if (!backward)
        return k;
    const int64_t class = k % a->classes;
    return taps_before(a, class) + class_taps(a, class) - 1 - k / a->classes;
}

static phase phase_of(const axis *a, int64_t r, bool backward) {
    if (!backward)
        return (phase){a->out, a->taps, -a->pad, 0, 0, 1};
    phase p = {.count = r < a->out ? (a->out - r - 1) / a->out_step + 1 : 0, .tap_step = -a->classes};
    const int64_t sum = r + a->pad;
    if (sum % a->common != 0)
        return p;
    const int64_t class = sum / a->common % a->classes * a->inverse % a->classes;
    p.taps = class_taps(a, class);
    p.position = taps_before(a, class);
    p.tap = class + (p.taps - 1) * a->classes;
    p.offset = p.taps > 0 ? divide_down(sum - p.tap * a->dilation, a->out_step) : 0;
    return p;
}

static solve solve_of(const opwright_problem *p, bool backward) {
    solve s = {.problem = p, .backward = backward};
    for (int a = 0; a < 3; a++) {
        s.axes[a] = axis_of(p, a, backward);
        s.in_x[a] = backward ? p->small_x[a] : p->big_x[a];
        s.out_x[a] = backward ? p->big_x[a] : p->small_x[a];
    }
    s.lanes = backward ? p->B : p->A, s.reduced = backward ? p->A : p->B;
    s.in_n = backward ? p->small_n : p->big_n, s.in_c = backward ? p->small_c : p->big_c;
    s.out_n = backward ? p->big_n : p->small_n, s.out_c = backward ? p->big_c : p->small_c;
    s.w_lane = backward ? p->w_b : p->w_a, s.w_reduced = backward ? p->w_a : p->w_b;
    return s;
}

// The taps t of a phase that meet an input, for output q: [first, last).
INLINE void reach(const axis *a, const phase *p, int64_t q, int64_t *first, int64_t *last) {
    const int64_t at = q * a->in_step + p->offset;
    *first = at >= 0 ? 0 : least(p->taps, ceil_div(-at, a->offset_step));
    *last = at >= a->in ? 0 : least(p->taps, (a->in - 1 - at) / a->offset_step + 1);
    *last = most(*first, *last);
}

// The inputs that outputs [q0, q1) of all phases lie between: [low, high), not clipped to the tensor.
static void span(const axis *a, bool backward, int64_t q0, int64_t q1, int64_t *low, int64_t *high) {
    *low = INT64_MAX, *high = INT64_MIN;
    for (int64_t r = 0; r < a->out_step; r++) {
        const phase p = phase_of(a, r, backward);
        const int64_t end = least(q1, p.count);
        if (p.taps == 0 || end <= q0)
            continue;
        *low = least(*low, q0 * a->in_step + p.offset);
        *high = most(*high, (end - 1) * a->in_step + p.offset + (p.taps - 1) * a->offset_step + 1);
    }
    if (*low > *high)
        *low = *high = 0;
}

// Copying input.

// `count` elements, `step` apart, widened; for as many lanes.
INLINE vec load_line(const elem *p, int64_t step, int64_t count) {
    if (step == 1)
        return count >= LANES ? elem_load(p) : elem_load_part(p, count);
    float x[LANES] = {0};
    for (int64_t i = 0; i < least(count, LANES); i++)
        x[i] = elem_get(p + i * step);
    return vec_load(x);
}

INLINE void store_line(elem *p, int64_t step, vec v, int64_t count) {
    if (step == 1) {
        count >= LANES ? elem_store(p, v) : elem_store_part(p, v, count);
        return;
    }
    for (int64_t i = 0; i < least(count, LANES); i++)
        elem_put(p + i * step, v[i]);
}

// The units of channels [c, c + LANES*UNIT_CHANNELS) of one line of pixels: one channel, or a pair, a vector.
INLINE vec unit_line(const elem *p, int64_t channel_step, int64_t channels, int64_t pixel_step, int64_t count) {
    vec even = load_line(p, pixel_step, count);
#if OPWRIGHT_PAIRS
    uvec bits, odd = {0};
    memcpy(&bits, &even, sizeof bits);
    if (channels > 1) {
        const vec second = load_line(p + channel_step, pixel_step, count);
        memcpy(&odd, &second, sizeof odd);
    }
    bits = bits >> 16 | odd;
    memcpy(&even, &bits, sizeof even);
#else
    (void)channel_step, (void)channels;
#endif
    return even;
}

INLINE void units_store_part(unit *p, vec v, int64_t count) { vec_store_part((float *)(void *)p, v, count); }

// A square of LANES pixels and LANES units of channels, or less, from lines of pixels to lines of channels. Loops of a
// known length keep it in registers: 3 times as fast as through memory.
static void copy_transposed(const elem *from, int64_t channel_step, int64_t channels, int64_t pixel_step,
                            int64_t pixels, unit *to, int64_t pixel, int64_t channel_units) {
    vec v[LANES];
    UNROLL for (int64_t i = 0; i < LANES; i++)
        v[i] = i < channel_units ? unit_line(from + i * UNIT_CHANNELS * channel_step, channel_step,
                                             channels - i * UNIT_CHANNELS, pixel_step, pixels)
                                 : (vec){0};
    vec_transpose(v);
    UNROLL for (int64_t i = 0; i < LANES; i++)
        if (i < pixels)
            channel_units == LANES ? vec_store((float *)(void *)(to + i * pixel), v[i])
                                   : units_store_part(to + i * pixel, v[i], channel_units);
}

// Pixels [low, low + count) of a row of input, `pixel` units apart, zeros beyond the row's ends.
static void copy_row(const solve *s, const elem *row, int64_t low, int64_t count, unit *to, int64_t pixel) {
    const int64_t first = least(most(0, -low), count), last = most(first, least(count, s->axes[2].in - low));
    const int64_t reduced = s->reduced, step = s->in_x[2];
    memset(to, 0, (size_t)(first * pixel) * sizeof *to);
    memset(to + last * pixel, 0, (size_t)((count - last) * pixel) * sizeof *to);
    row += (low + first) * step;
    to += first * pixel;
    count = last - first;
    if (s->in_c == 1) {
        for (int64_t x = 0; x < count; x++, row += step, to += pixel) {
            if (sizeof(elem) * UNIT_CHANNELS == sizeof(unit)) {
                if (UNIT_CHANNELS == 2 && reduced % 2 == 1)
                    to[reduced / 2] = 0;
                memcpy(to, row, (size_t)reduced * sizeof *row);
                continue;
            }
            for (int64_t c = 0; c < reduced; c += LANES) {
                if (reduced - c >= LANES)
                    vec_store((float *)(void *)(to + c), elem_load(row + c));
                else
                    units_store_part(to + c, elem_load_part(row + c, reduced - c), reduced - c);
            }
        }
        return;
    }
    for (int64_t c = 0; c < reduced; c += LANES * UNIT_CHANNELS) {
        const int64_t channels = least(LANES, ceil_div(reduced - c, UNIT_CHANNELS));
        for (int64_t x = 0; x < count; x += LANES)
            copy_transposed(row + c * s->in_c + x * step, s->in_c, reduced - c, step, least(LANES, count - x),
                            to + x * pixel + c / UNIT_CHANNELS, pixel, channels);
    }
}

// Packing weights.

// One weight's lanes to where they belong: a vector, or the lower or upper halves of one.
INLINE void put_weights(unit *to, int64_t channel, vec v) {
#if OPWRIGHT_PAIRS
    uvec bits;
    memcpy(&bits, &v, sizeof bits);
    units old = units_load(to);
    bits = channel % 2 == 0 ? bits >> 16 : old | bits;
    memcpy(to, &bits, sizeof bits);
#else
    (void)channel;
    vec_store(to, v);
#endif
}

// Where the packed weights of each tap begin, taps counted as in the tensor: `to` has room for all of them.
static void list_positions(const solve *s, int64_t step, int64_t *to) {
    const int64_t *k = s->problem->taps;
    for (int64_t d = 0; d < k[0]; d++)
        for (int64_t h = 0; h < k[1]; h++)
            for (int64_t w = 0; w < k[2]; w++)
                *to++ = ((tap_position(&s->axes[0], d, s->backward) * k[1] +
                          tap_position(&s->axes[1], h, s->backward)) * k[2] +
                         tap_position(&s->axes[2], w, s->backward)) * step;
}

// Weights of `lanes` lanes from `from` on, as `[position of the tap][channel][width]`; lanes past the last one and the
// second half of an odd last pair are zero. Whichever way of the tensor is contiguous is read along.
static void pack_weights(const solve *s, const int64_t *positions, const elem *from, int64_t lanes, unit *to,
                         int64_t width) {
    const opwright_problem *p = s->problem;
    const int64_t *k = s->problem->taps;
    const int64_t taps = k[0] * k[1] * k[2];
    // A line of the tensor that is transposed: the reduced channels of a tap, or the taps, of one channel or of all.
    const bool taps_first = taps > 1 && p->w_k[2] == 1 && p->w_k[1] == k[2] && p->w_k[0] == k[1] * k[2];
    const bool joined = taps_first && s->w_reduced == taps;
    if (s->w_lane == 1 && lanes > 1) {
        for (int64_t t = 0; t < taps; t++) {
            const elem *line = from + t / (k[1] * k[2]) * p->w_k[0] + t / k[2] % k[1] * p->w_k[1] + t % k[2] * p->w_k[2];
            for (int64_t c = 0; c < s->reduced; c++, line += s->w_reduced) {
                unit *at = to + positions[t] * width + c / UNIT_CHANNELS * width;
                for (int64_t l = 0; l < width; l += LANES)
                    put_weights(at + l, c, lanes > l ? load_line(line + l, 1, lanes - l) : (vec){0});
            }
        }
        return;
    }
    const int64_t lines = joined ? 1 : taps_first ? s->reduced : taps;
    const int64_t length = joined ? taps * s->reduced : taps_first ? taps : s->reduced;
    const int64_t along = taps_first ? 1 : s->w_reduced;
    for (int64_t line = 0; line < lines; line++) {
        // The line's first element as channel and tap, counted on from there.
        int64_t channel = joined || !taps_first ? 0 : line, tap = taps_first ? 0 : line;
        const elem *start = from + channel * s->w_reduced + tap / (k[1] * k[2]) * p->w_k[0] +
                            tap / k[2] % k[1] * p->w_k[1] + tap % k[2] * p->w_k[2];
        for (int64_t at = 0; at < length; at += LANES) {
            const int64_t count = least(LANES, length - at);
            unit *places[LANES];
            int64_t halves[LANES];
            for (int64_t i = 0; i < count; i++) {
                places[i] = to + (positions[tap] + channel / UNIT_CHANNELS) * width;
                halves[i] = channel % UNIT_CHANNELS;
                if (!taps_first)
                    channel++;
                else if (++tap == taps)
                    tap = 0, channel++;
            }
            for (int64_t l = 0; l < width; l += LANES) {
                const int64_t here = most(0, least(LANES, lanes - l));
                const elem *lane = start + l * s->w_lane + at * along;
                vec v[LANES];
                UNROLL for (int64_t i = 0; i < LANES; i++)
                    v[i] = i < here ? load_line(lane + i * s->w_lane, along, count) : (vec){0};
                vec_transpose(v);
                UNROLL for (int64_t i = 0; i < LANES; i++)
                    if (i < count)
                        put_weights(places[i] + l, halves[i], v[i]);
            }
        }
    }
}

#endif
