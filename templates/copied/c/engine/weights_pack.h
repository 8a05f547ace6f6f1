// weights.c: the operands of one block, copied or transposed to rows of big and panels of small.
//
// Figures: see engine.h.

#ifndef OPWRIGHT_WEIGHTS_PACK_H
#define OPWRIGHT_WEIGHTS_PACK_H

#include "weights_plan.h"

INLINE void put(float *to, vec v, int64_t n) {
    if (n == LANES)
        vec_store(to, v);
    else
        vec_store_part(to, v, n);
}

#if OPWRIGHT_PAIRS
// The first n of 2 * LANES elements, the others 0; nothing past them is read.
INLINE uvec load_halves(const elem *from, int64_t n) {
    uvec halves = {0};
    if (n >= 2 * LANES)
        memcpy(&halves, from, sizeof halves);
    else if (n > 0)
        halves = pairs_load_part(from, n);
    return halves;
}
#endif

// How two bf16 form a word: an element and the one `other` after it, masked by `mask`; with `half`, the last
// word has only the first. With pairs false, words are floats.
typedef struct words {
    bool pairs, half;
    int64_t other;
    uint32_t mask;
} words;

// Records which lanes contain an Inf or NaN: 0 times it is NaN.
INLINE void look(vec *seen, vec v, words pairing) {
#if OPWRIGHT_PAIRS
    if (pairing.pairs) {
        *seen = dot_pairs(*seen, (uvec)v, (uvec){0});
        return;
    }
#endif
    (void)pairing;
    *seen += v * 0;
}

// LANES words, the first n of them, `spacing` elements from one to the next.
INLINE vec load_words(const elem *from, int64_t spacing, int64_t n, words pairing) {
#if OPWRIGHT_PAIRS
    if (pairing.pairs && spacing == 2 && pairing.other == 1)
        return (vec)load_halves(from, 2 * n - pairing.half);
    if (pairing.pairs && spacing == 4 && pairing.other == 2) {
        // The second load begins one early: the memory after the last element may not exist.
        const int64_t there = 4 * n - 1 - 2 * pairing.half;
        const uvec first = load_halves(from, there) & 0xffffu;
        const uvec second = load_halves(from + 2 * LANES - 1, there - 2 * LANES + 1) >> 16;
        return (vec)(SHUFFLE(first, second, EACH_LANE(EVEN_LANE)) | SHUFFLE(first, second, EACH_LANE(ODD_LANE)) << 16);
    }
    if (pairing.pairs) {
        const vec first = load_line(from, spacing, n);
        const vec second = pairing.half ? (vec){0} : load_line(from + pairing.other, spacing, n);
        return (vec)((uvec)paired(first, second) & pairing.mask);
    }
#endif
    (void)pairing;
    return load_line(from, spacing, n);
}

// LANES contiguous pixels of two to four channels. A pixel is stored together with what follows its channels, which the
// next one overwrites.
INLINE void pack_few(float *to, const elem *from, int64_t c, int64_t x, int64_t channels, words pairing,
                     vec seen[4]) {
    vec v[4];
    UNROLL for (int i = 0; i < 4; i++) {
        v[i] = i < channels ? load_words(from + i * c, x, LANES, pairing) : (vec){0};
        look(seen + i, v[i], pairing);
    }
    const vec a = SHUFFLE(v[0], v[1], QUARTERS(MINGLE, 0, 1)), b = SHUFFLE(v[0], v[1], QUARTERS(MINGLE, 2, 3));
    const vec d = SHUFFLE(v[2], v[3], QUARTERS(MINGLE, 0, 1)), e = SHUFFLE(v[2], v[3], QUARTERS(MINGLE, 2, 3));
    float pixels[4][LANES];
    vec_store(pixels[0], SHUFFLE(a, d, QUARTERS(QUARTER, 0, 1)));
    vec_store(pixels[1], SHUFFLE(a, d, QUARTERS(QUARTER, 2, 3)));
    vec_store(pixels[2], SHUFFLE(b, e, QUARTERS(QUARTER, 0, 1)));
    vec_store(pixels[3], SHUFFLE(b, e, QUARTERS(QUARTER, 2, 3)));
    UNROLL for (int i = 0; i < LANES - 1; i++) memcpy(to + i * channels, pixels[i % 4] + i / 4 * 4, 16);
    for (int64_t i = 0; i < channels; i++)
        to[(LANES - 1) * channels + i] = pixels[3][LANES - 4 + i];
}

// n words of neighbouring channels. Prefetches both pixels of a pair two strips ahead to L2: one of them half a strip ahead took
// 7.2 instead of 5.7 ms, 1x1 56x56 64 -> 256, bf16.
INLINE vec next_words(const elem *from, int64_t n, int64_t ahead, words pairing, vec *seen) {
    const vec v = load_words(from, 1, n, pairing);
    __builtin_prefetch(from + ahead, 0, 2);
    if (pairing.pairs)
        __builtin_prefetch(from + pairing.other + ahead, 0, 2);
    look(seen, v, pairing);
    return v;
}

// count pixels of `channels` channels: to[pixel * pitch + channel]. Zeros follow up to `fill` channels, a multiple of
// LANES unless it is `channels`.
INLINE void pack_as(float *restrict to, int64_t pitch, const elem *restrict from, int64_t c, int64_t x, int64_t count,
                    int64_t channels, int64_t fill, words pairing, vec *all_seen) {
    vec seen[4] = {{0}, {0}, {0}, {0}};
    if (channels == 1)
        c = 1;
    if (c == 1 && x == channels && pitch == channels) {
        const int64_t all = count * channels;
        int64_t i = 0;
        for (; i + LANES <= all; i += LANES) {
            const vec v = load_words(from + i, 1, LANES, pairing);
            __builtin_prefetch(from + i + STREAM);
            look(seen, v, pairing);
            vec_store(to + i, v);
        }
        if (i < all) {
            const vec v = load_words(from + i, 1, all - i, pairing);
            look(seen, v, pairing);
            vec_store_part(to + i, v, all - i);
        }
    } else if (c == 1 && fill <= LANES) {
        // A vector of search results would go to memory and back for each pixel above: 20 cycles.
        const int64_t ahead = 2 * STRIP / (pairing.pairs ? 2 : 1) * x;
        if (channels == LANES)
            for (int64_t pixel = 0; pixel < count; pixel++, to += pitch, from += x)
                vec_store(to, next_words(from, LANES, ahead, pairing, seen));
        else
            for (int64_t pixel = 0; pixel < count; pixel++, to += pitch, from += x)
                vec_store_part(to, next_words(from, channels, ahead, pairing, seen), fill);
    } else if (c == 1) {
        const int64_t ahead = 2 * STRIP / (pairing.pairs ? 2 : 1) * x;
        for (int64_t pixel = 0; pixel < count; pixel++, to += pitch, from += x) {
            int64_t i = 0;
            for (; i + LANES <= channels; i += LANES)
                vec_store(to + i, next_words(from + i, LANES, ahead, pairing, seen + i / LANES % 4));
            if (i < channels) {
                const vec v = load_words(from + i, 1, channels - i, pairing);
                look(seen, v, pairing);
                put(to + i, v, min(LANES, fill - i));
                i += LANES;
            }
            for (; i < fill; i += LANES)
                vec_store(to + i, (vec){0});
        }
    } else if (channels <= 4 && pitch == channels && count >= LANES) {
        for (int64_t pixel = 0; pixel < count; pixel += LANES) {
            const int64_t at = min(pixel, count - LANES);
            pack_few(to + at * channels, from + at * x, c, x, channels, pairing, seen);
        }
    } else {
        const int64_t ahead = c > 4 * STREAM ? STREAM : LANES * c;
        const int64_t line = LINE / (int64_t)sizeof(elem);
        const bool half = pairing.half;
        const bool contiguous_words = x == 1 || (pairing.pairs ? x == 2 * pairing.other && pairing.other <= 2 : x == 2);
        for (int64_t i = 0; i < fill; i += LANES) {
            const int64_t rows = max(0, min(LANES, channels - i)), lanes = min(LANES, fill - i);
            for (int64_t pixel = 0; pixel < count; pixel += LANES) {
                const int64_t n = min(LANES, count - pixel);
                const elem *first = from + i * c + pixel * x;
                pairing.half = half && pixel + n == count;
                float *out = to + pixel * pitch + i;
                vec v[LANES];
                if (rows == LANES && contiguous_words && n == LANES) {
                    UNROLL for (int row = 0; row < LANES; row++) {
                        v[row] = load_words(first + row * c, x, LANES, pairing);
                        __builtin_prefetch(first + row * c + ahead);
                        if (x > (pairing.pairs ? 2 : 1))
                            __builtin_prefetch(first + row * c + ahead + line);
                    }
                } else if (rows == LANES && contiguous_words) {
                    UNROLL for (int row = 0; row < LANES; row++) {
                        v[row] = load_words(first + row * c, x, n, pairing);
                        __builtin_prefetch(first + row * c + ahead);
                    }
                } else if (rows == LANES && n == LANES) {
                    UNROLL for (int row = 0; row < LANES; row++) {
                        v[row] = load_words(first + row * c, x, LANES, pairing);
                        __builtin_prefetch(first + row * c + ahead);
                        __builtin_prefetch(first + row * c + ahead + line);
                    }
                } else {
                    for (int64_t row = 0; row < LANES; row++)
                        v[row] = row < rows ? load_words(first + row * c, x, n, pairing) : (vec){0};
                }
                UNROLL for (int row = 0; row < LANES; row++) look(seen + row % 4, v[row], pairing);
                vec_transpose(v);
                if (lanes == LANES && n == LANES) {
                    UNROLL for (int j = 0; j < LANES; j++) vec_store(out + j * pitch, v[j]);
                } else if (lanes == LANES) {
                    UNROLL for (int j = 0; j < LANES; j++) if (j < n) vec_store(out + j * pitch, v[j]);
                } else {
                    UNROLL for (int j = 0; j < LANES; j++) if (j < n) vec_store_part(out + j * pitch, v[j], lanes);
                }
            }
        }
    }
    *all_seen += (seen[0] + seen[1]) + (seen[2] + seen[3]);
}

static void pack(float *restrict to, int64_t pitch, const elem *restrict from, int64_t c, int64_t x, int64_t count,
                 int64_t channels, int64_t fill, vec *seen) {
    pack_as(to, pitch, from, c, x, count, channels, fill, (words){0}, seen);
}
#if OPWRIGHT_PAIRS
static void pack_pairs(float *restrict to, int64_t pitch, const elem *restrict from, int64_t c, int64_t x,
                       int64_t count, int64_t channels, int64_t fill, words pairing, vec *seen) {
    pairing.pairs = true;
    pack_as(to, pitch, from, c, x, count, channels, fill, pairing, seen);
}
#endif

// An odd number of pixels, paired with those that follow them: the last one alone.
static void pack_words(float *to, int64_t pitch, const elem *from, int64_t c, int64_t x, int64_t count,
                       int64_t channels, int64_t fill, bool pairs, vec *seen) {
#if OPWRIGHT_PAIRS
    if (pairs) {
        const int64_t both = count / 2, pair_count = x <= 2 && c != 1 && channels > 4 ? ceil_div(count, 2) : both;
        pack_pairs(to, pitch, from, c, 2 * x, pair_count, channels, fill,
                   (words){.half = pair_count != both, .other = x, .mask = ~0u}, seen);
        if (count % 2 && pair_count == both)
            pack_pairs(to + both * pitch, pitch, from + 2 * both * x, c, 2 * x, 1, channels, fill,
                       (words){.other = 0, .mask = 0xffffu}, seen);
        return;
    }
#endif
    (void)pairs;
    pack(to, pitch, from, c, x, count, channels, fill, seen);
}

// count pixels, `spacing`, of n floats each, side by side.
static void gather(float *to, const float *from, int64_t spacing, int64_t count, int64_t n) {
    for (int64_t i = 0; i < count; i++)
        memcpy(to + i * n, from + i * spacing, (size_t)n * sizeof *to);
}

// One task's part of the problem, and its current block.
typedef struct place {
    const plan *l;
    const elem *big, *small;
    int64_t merged, channels;       // groups that share the vector, and small's channels of them
    int64_t a0, a1, b0, b1;         // vectors of those, channels of big
    int64_t at[4], size[4];         // the box: n, then outputs
    float *line;                    // of widened pixels
    bool pairs;                     // words are pairs of bf16 of neighbouring outputs, not floats
} place;

// n words, each a pair of bf16: the upper halves of first and second, which were widened. `to` may be first.
static void make_pairs(float *to, const float *first, const float *second, int64_t n) {
    for (int64_t i = 0; i < n; i += LANES) {
        const int64_t here = min(LANES, n - i);
        const uvec low = (uvec)vec_load_part(first + i, here), high = (uvec)vec_load_part(second + i, here);
        vec_store_part(to + i, (vec)(low >> 16 | (high & 0xffff0000u)), here);
    }
}

static void locate(place *o, int64_t block) {
    const plan *l = o->l;
    const int64_t out[4] = {l->p.N, l->p.small[0], l->p.small[1], l->p.small[2]};
    for (int i = 3; i >= 0; i--) {
        o->at[i] = block % l->boxes[i] * l->box[i];
        o->size[i] = min(l->box[i], out[i] - o->at[i]);
        block /= l->boxes[i];
    }
}

// The position of row h of a block: rows of one tap are adjacent, so that full rows form one run.
INLINE int64_t row_place(const plan *l, int64_t h) {
    return l->step[1] == 1 ? h : h % l->step[1] * (l->height / l->step[1]) + h / l->step[1];
}

// The input positions [first, end) of a row's phase r that exist, of `positions` that its taps reach.
INLINE void row_inside(const place *o, int64_t r, int64_t *first, int64_t *end, int64_t *positions) {
    const opwright_problem *p = &o->l->p;
    const int64_t outputs = up_div(o->size[3] - r, o->l->phases), unit = o->l->pace;
    const int64_t begin = (o->at[3] + r) * p->stride[2] - p->pad[2];
    *positions = (outputs - 1) * o->l->step[2] + o->l->reach;
    *first = min(*positions, max(0, up_div(-begin, unit)));
    *end = max(*first, min(*positions, floor_div(p->big[2] - 1 - begin, unit) + 1));
}

// Whether zeros replace out-of-bounds input.
static bool pads(const place *o) {
    for (int64_t r = 0; r < min(o->l->phases, o->size[3]); r++) {
        int64_t first, end, positions;
        row_inside(o, r, &first, &end, &positions);
        if (first > 0 || end < positions)
            return true;
    }
    return false;
}

// The input planes (axis 0) or rows (axis 1) of a block, in steps of unit from the first output's first tap: the first
// that exists.
INLINE int64_t first_inside(const place *o, int axis) {
    const opwright_problem *p = &o->l->p;
    return max(0, up_div(p->pad[axis] - o->at[axis + 1] * p->stride[axis], o->l->unit[axis]));
}

// A row of widened bf16 becomes one of pairs: each position, and the one that the next output has in its place. Where
// the outputs are odd in number, the taps of the last one follow behind the row, their second halves 0: it must not
// be multiplied by another output's second half, which may be Inf.
static void pair_row(const place *o, int64_t r, float *row, int64_t channels) {
    const plan *l = o->l;
    const int64_t outputs = ceil_div(o->size[3] - r, l->phases), taps = l->reach, spacing = l->jump;
    const int64_t last = (outputs - 1) * spacing;
    if (outputs % 2) {
        float *half = row + (l->positions - taps) * channels;
        clear(half, taps * channels);
        make_pairs(half, row + last * channels, half, taps * channels);
    }
    make_pairs(row, row, row + spacing * channels, (last + taps - spacing) * channels);
}

#if OPWRIGHT_PAIRS
// The same straight from the tensor: words [0, count) of the positions from `at` on, of which [first, end) exist, `x`
// apart; without `second` the second halves are 0. A position has `width` words, of which `channels` are there.
static void pack_row_pairs(const place *o, float *to, const elem *from, int64_t x, int64_t at, int64_t count,
                           int64_t first, int64_t end, bool second, int64_t channels, int64_t width) {
    const opwright_problem *p = &o->l->p;
    const int64_t spacing = o->l->jump;
    vec seen = {0};
    for (int64_t i = 0, next; i < count; i = next) {
        const int64_t q = at + i, bounds[] = {first, end, first - spacing, end - spacing};
        const bool low = q >= first && q < end, high = second && q + spacing >= first && q + spacing < end;
        next = count;
        for (int j = 0; j < 4; j++)
            if (bounds[j] > q)
                next = min(next, bounds[j] - at);
        const words pairing = {.other = low && high ? spacing * x : 0,
                           .mask = (low ? 0xffffu : 0) | (high ? 0xffff0000u : 0)};
        if (low || high)
            pack_pairs(to + i * width, width, from + (low ? q : q + spacing) * x, p->big_c, x, next - i, channels, width,
                       pairing, &seen);
        else
            clear(to + i * width, (next - i) * width);
    }
}
#endif

// Input rows of a block: [channel block][n][depth][height][phase][position][channel]. Outputs r, r + phases, ... read
// phase r, whose positions lie `dilation` apart in the input, so that an output's taps are neighbours. Rows and
// positions that no tap meets are left out.
static void pack_rows(const place *o, float *rows) {
    const plan *l = o->l;
    const opwright_problem *p = &l->p;
    const int64_t cells = l->box[0] * l->depth * l->height * l->phases * l->positions;
    const int64_t deep_reach = (p->taps[0] - 1) * p->dilation[0] / l->unit[0] + 1;
    const int64_t high_reach = (p->taps[1] - 1) * p->dilation[1] / l->unit[1] + 1;
    const int64_t deep = (o->size[1] - 1) * l->step[0] + deep_reach, high = (o->size[2] - 1) * l->step[1] + high_reach;
    const int64_t d0 = first_inside(o, 0), h0 = first_inside(o, 1);
    const int64_t begin = o->at[3] * p->stride[2] - p->pad[2], low = max(0, begin);
    const int64_t beyond = min(
        p->big[2], begin + (o->size[3] - 1) * p->stride[2] + (p->taps[2] - 1) * p->dilation[2] + 1);
    vec seen = {0};
    for (int64_t b = o->b0; b < o->b1; b += CHANNELS) {
        const int64_t each = min(CHANNELS, o->b1 - b), channels = each * o->merged, width = each * l->merged;
        for (int64_t n = 0; n < o->size[0]; n++)
            for (int64_t d = d0; d < deep; d++) {
                const int64_t id = o->at[1] * p->stride[0] - p->pad[0] + d * l->unit[0];
                if (id >= p->big[0])
                    break;
                if (d % l->step[0] >= deep_reach)
                    continue;
                for (int64_t h = h0; h < high; h++) {
                    const int64_t ih = o->at[2] * p->stride[1] - p->pad[1] + h * l->unit[1];
                    if (ih >= p->big[1])
                        break;
                    if (h % l->step[1] >= high_reach)
                        continue;
                    const elem *from = o->big + (o->at[0] + n) * p->big_n + b * p->big_c + id * p->big_x[0] +
                                       ih * p->big_x[1];
                    if (l->lines && low < beyond)
                        pack(o->line, width, from + low * p->big_x[2], p->big_c, p->big_x[2], beyond - low, channels,
                             width, &seen);
                    for (int64_t r = 0; r < min(l->phases, o->size[3]); r++) {
                        const int64_t at_row = (n * l->depth + d - d0) * l->height + row_place(l, h - h0);
                        const int64_t place = at_row * l->phases + r;
                        float *to = rows + (b - o->b0) * cells + place * l->positions * width;
                        const int64_t outputs = up_div(o->size[3] - r, l->phases);
                        const int64_t origin = (o->at[3] + r) * p->stride[2] - p->pad[2];
                        int64_t first, end, positions;
                        row_inside(o, r, &first, &end, &positions);
                        const elem *at = from + origin * p->big_x[2];
                        const int64_t x = l->pace * p->big_x[2], line_x = l->pace * width;
                        const float *line = o->line + (origin - low) * width;
                        if (o->pairs && l->tight) {
                            pack_words(to, width, at, p->big_c, x * l->step[2], outputs, width, width, true, &seen);
                            continue;
                        }
#if OPWRIGHT_PAIRS
                        if (o->pairs && p->big_c == 1 && !l->lines && l->jump == l->step[2]) {
                            const int64_t last = (outputs - 1) * l->jump;
                            pack_row_pairs(o, to, at, x, 0, last + l->reach - l->jump, first, end, true, channels,
                                           width);
                            if (outputs % 2)
                                pack_row_pairs(o, to + (l->positions - l->reach) * width, at, x, last, l->reach, first,
                                               end, false, channels, width);
                            continue;
                        }
#endif
                        // If positions are left out, each output's are separate.
                        const bool whole = l->jump == l->step[2];
                        for (int64_t i = 0; i < (whole ? 1 : outputs); i++) {
                            float *out = to + i * l->jump * width;
                            const int64_t q = i * l->step[2], all = whole ? positions : l->reach;
                            const int64_t from_q = min(q + all, max(q, first));
                            const int64_t to_q = max(from_q, min(q + all, end));
                            clear(out, (from_q - q) * width);
                            out += (from_q - q) * width;
                            if (from_q < to_q && l->lines)
                                gather(out, line + from_q * line_x, line_x, to_q - from_q, width);
                            else if (from_q < to_q)
                                pack(out, width, at + from_q * x, p->big_c, x, to_q - from_q, channels, width, &seen);
                            clear(out + (to_q - from_q) * width, (q + all - to_q) * width);
                        }
                        if (o->pairs)
                            pair_row(o, r, to, width);
                    }
                }
            }
    }
}

// Words of the panel for the outputs of one phase of one row.
INLINE int64_t panel_pixels(const place *o, int64_t outputs) { return o->pairs ? round_up(outputs, 2) / 2 : outputs; }

// `count` outputs of a row to all panels of the vectors [v0, v1), from the word `at` on.
static void pack_outputs(const place *o, int64_t v0, int64_t v1, float *panels, const elem *from, int64_t x,
                         int64_t count, int64_t at) {
    const plan *l = o->l;
    const opwright_problem *p = &l->p;
    // Where a pixel's channels are neighbours, all are read before the next pixel's.
    const int64_t strip = p->small_c == 1 && v1 - v0 > l->panel_vectors ? STRIP : max(count, 1);
    for (int64_t i = 0; i < count; i += strip)
        for (int64_t v = v0, panel_vectors; v < v1; v += panel_vectors) {
            panel_vectors = min(l->panel_vectors, v1 - v);
            const int64_t lanes = panel_vectors * LANES, channels = min(lanes, o->channels - v * LANES);
            float *panel = panels + (v - v0) / l->panel_vectors * panel_floats(l);
            vec *seen = (vec *)(void *)(panel + panel_floats(l) - LANES);
            pack_words(panel + (at + (o->pairs ? i / 2 : i)) * lanes, lanes, from + i * x + v * LANES * p->small_c,
                       p->small_c, x, min(strip, count - i), channels, lanes, o->pairs, seen);
        }
}

// Outputs of a block for the vectors [v0, v1) of channels, each set of vectors in a panel of its own: [n][depth]
// [height][phase][output][lane].
static void pack_panels(const place *o, int64_t v0, int64_t v1, float *panels) {
    const plan *l = o->l;
    const opwright_problem *p = &l->p;
    const elem *from = 0;
    int64_t to = 0, count = 0, at = 0;
    for (int64_t v = v0; v < v1; v += l->panel_vectors)
        vec_store(panels + (v - v0) / l->panel_vectors * panel_floats(l) + panel_floats(l) - LANES, (vec){0});
    for (int64_t n = 0; n < o->size[0]; n++)
        for (int64_t d = 0; d < o->size[1]; d++)
            for (int64_t h = 0; h < o->size[2]; h++)
                for (int64_t r = 0; r < min(l->phases, o->size[3]); r++) {
                    const elem *next = o->small + (o->at[0] + n) * p->small_n + (o->at[1] + d) * p->small_x[0] +
                                       (o->at[2] + h) * p->small_x[1] + (o->at[3] + r) * p->small_x[2];
                    const int64_t outputs = up_div(o->size[3] - r, l->phases);
                    // Rows that follow each other in memory are one.
                    const bool contiguous = count && l->phases == 1 && at == to + panel_pixels(o, count) &&
                                         (!o->pairs || count % 2 == 0) && next == from + count * p->small_x[2];
                    if (!contiguous) {
                        pack_outputs(o, v0, v1, panels, from, l->phases * p->small_x[2], count, to);
                        from = next, to = at, count = 0;
                    }
                    count += outputs;
                    at += panel_pixels(o, outputs);
                }
    pack_outputs(o, v0, v1, panels, from, l->phases * p->small_x[2], count, to);
}

// Whether a panel holds an Inf or NaN.
static bool has_non_finite(const plan *l, const float *panel) {
    const vec seen = vec_load(panel + panel_floats(l) - LANES);
    return uvec_any((uvec)(seen != seen));
}

#endif
