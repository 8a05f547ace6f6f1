// y, x and w of groups with one channel on either side, over channel lanes: the vectors are neighbouring channels.
//
// For tensors with channels last. Rows of output, pairs of them, then tiles of P pixels, then blocks of channels; a
// tile's accumulators live over all taps. It walks a row of input once and adds each column to every (row, pixel, kw)
// that reads it; weights are packed to [block][kd][kh][kw][LANES] first. Out-of-bounds taps are left out. A solve for
// big processes the outputs of each residue of the stride in turn: for these it is a solve for small with fewer taps
// and stride 1. Dilated rows and columns are split into undilated ones in the same way.
//
// Planes of tensors with channels first are transposed to scratch, LANES channels at a time, and back, and kernels of
// many taps copy channels last to it too. There rows are padded with zeros, so that no column needs a bounds check;
// blocks with an Inf or NaN among the weights check all the same. Copying every problem does not pay: 9.3 instead of
// 4.3 ms for 7x7 over 16 images of 56x56x96, where reading and computing no longer overlap. If rows have many taps,
// the copy has units of four bytes per lane: elements widened once, or pairs of neighbours for products of pairs.
//
// Sums for weights consist of chunks that depend only on the problem and are added in order.
//
// Figures: see engine.h.

#include "depthwise.h"

#define P (LANES == 8 ? 4 : 7) // pixels of a row of a tile over channel lanes, which has two rows
#define ROWS_OF_5 (LANES == 8 ? 2 : 5) // kernel rows of a w tile of 5 columns, of 7
#define ROWS_OF_7 (LANES == 8 ? 1 : 3)
// The maximum number of taps with code of their own: the usual ones, and those that the file is compiled for.
#if defined(OPWRIGHT_FIXED_TAPS)
enum { MAX_TAPS = OPWRIGHT_FIXED_TAPS > 7 ? OPWRIGHT_FIXED_TAPS : 7, MAX_ROWS = 5 };
#elif defined(OPWRIGHT_FIXED_W_COLUMNS)
enum { MAX_TAPS = OPWRIGHT_FIXED_W_COLUMNS > 7 ? OPWRIGHT_FIXED_W_COLUMNS : 7,
       MAX_ROWS = OPWRIGHT_FIXED_W_ROWS > 5 ? OPWRIGHT_FIXED_W_ROWS : 5 };
#else
enum { MAX_TAPS = 7, MAX_ROWS = 5 };
#endif

// The size of a unit in elements: a float, or a pair of elements.
#if defined(OPWRIGHT_F32)
#define UNIT_ELEMS 1
#else
#define UNIT_ELEMS 2
#endif

enum {
    TASK_BLOCKS = 64,     // maximum channels of a task
    LINE = 64 / sizeof(elem), // of the caches, in elements
    UNIT_TAPS = 5,        // minimum taps of a row for a copy of units
    MANY_TAPS = 60,       // minimum taps of a kernel for a copy also with channels last
};

// Input for many taps, in scratch: a widened element, or a pair with the one that the next tap reads.
INLINE vec unit_load(const elem *p) { return vec_load((const float *)(const void *)p); }
INLINE void unit_store(elem *p, vec v) { vec_store((float *)(void *)p, v); }
INLINE uvec vec_bits(vec v) {
    uvec bits;
    memcpy(&bits, &v, sizeof bits);
    return bits;
}
INLINE vec bits_vec(uvec bits) {
    vec v;
    memcpy(&v, &bits, sizeof v);
    return v;
}
INLINE vec pair_of(vec first, vec second) { return bits_vec(vec_bits(first) >> 16 | vec_bits(second)); }
INLINE vec pair_first(vec pair) { return bits_vec(vec_bits(pair) << 16); }
// The value of an element alone, or of a weight that is packed beside it.
INLINE vec alone(const bool units, vec v) { return units && OPWRIGHT_PAIRS ? pair_first(v) : v; }
// sum + x * w; of pairs, their first products or both.
INLINE vec multiply(const bool pairs, vec sum, vec x, vec w) {
#if OPWRIGHT_PAIRS
    if (pairs)
        return dot_pairs(sum, vec_bits(x), vec_bits(w));
#endif
    (void)pairs;
    return sum + x * w;
}

typedef struct tile {
    const elem *in;   // the block of channels at position 0
    const float *w;   // [kd][kh][kw][LANES]
    elem *out;        // the first pixel
    const int64_t *in_x, *in_size;
    int64_t w_x[3];
    taps d, h, w_taps; // of the first pixel; d is clipped
    int64_t in_step;  // from a pixel to the next, in steps of the taps
    int64_t shift;    // from the first row to the second, in steps of the taps
    int64_t rows, pixels, lanes;
    int64_t out_row, out_step; // from a row and a pixel to the next, in elements
    vec bias;
} tile;

// One row of input, for the rows of the tile that read it. `units`: it has units; neighbouring taps are then a pair,
// and the last of an odd number is single, as are all with `edge`.
INLINE void tile_walk(const int KW, const int S, const bool units, const bool edge, const bool first,
                      const bool second, const tile *t, const elem *in, const float *w, int64_t w_back, int64_t low,
                      int64_t high, vec acc[2][P]) {
    const int64_t pitch = t->w_taps.at_step * t->in_x[2], w_step = t->w_taps.k_step * LANES;
    const bool pairs = units && OPWRIGHT_PAIRS && !edge;
    if (KW > 0) {
        vec a[MAX_TAPS], b[MAX_TAPS];
        UNROLL for (int k = 0; k < KW; k++) {
            const bool paired = pairs && (KW % 2 == 0 || k < KW - 1);
            a[k] = first ? alone(units && !paired, vec_load(w + k * w_step)) : (vec){0};
            b[k] = second ? alone(units && !paired, vec_load(w - w_back + k * w_step)) : (vec){0};
        }
        UNROLL_ALL for (int c = 0; c < (P - 1) * S + KW; c++, in += pitch) {
            STEP(in);
            if (edge && (c < low || c >= high))
                continue;
            const vec x = units ? unit_load(in) : lanes_load(in, edge, t->lanes);
            UNROLL for (int k = 0; k < KW; k++) if (c >= k && (c - k) % S == 0 && (c - k) / S < P) {
                const bool paired = pairs && (KW % 2 == 0 || k < KW - 1);
                if (paired && k % 2 == 1)
                    continue;
                const vec v = alone(units && !paired, x);
                if (first)
                    acc[0][(c - k) / S] = multiply(paired, acc[0][(c - k) / S], v, a[k]);
                if (second)
                    acc[1][(c - k) / S] = multiply(paired, acc[1][(c - k) / S], v, b[k]);
            }
        }
    } else {
        // Taps that some pixel uses.
        int64_t k = max(0, low - (P - 1) * t->in_step), end = min(t->w_taps.count, high);
        if (pairs)
            k -= k % 2, end = min(t->w_taps.count, end + end % 2);
        const int64_t alone_from = pairs ? end - end % 2 : k;
        in += k * pitch, w += k * w_step;
        for (; pairs && k < alone_from; k += 2, in += 2 * pitch, w += 2 * w_step) {
            const vec a = first ? vec_load(w) : (vec){0}, b = second ? vec_load(w - w_back) : (vec){0};
            const elem *at = in;
            UNROLL for (int i = 0; i < P; i++, at += t->in_step * pitch) {
                STEP(at);
                const vec x = unit_load(at);
                if (first)
                    acc[0][i] = multiply(true, acc[0][i], x, a);
                if (second)
                    acc[1][i] = multiply(true, acc[1][i], x, b);
            }
            UNROLL for (int r = 0; r < 2; r++) UNROLL for (int i = 0; i < P; i++) PIN(acc[r][i]);
        }
        for (; k < end; k++, in += pitch, w += w_step) {
            const vec a = first ? alone(units, vec_load(w)) : (vec){0};
            const vec b = second ? alone(units, vec_load(w - w_back)) : (vec){0};
            const elem *at = in;
            int64_t c = k;
            UNROLL for (int i = 0; i < P; i++, at += t->in_step * pitch, c += t->in_step) {
                STEP(at);
                if (edge && (c < low || c >= high))
                    continue;
                const vec x = alone(units, units ? unit_load(at) : lanes_load(at, edge, t->lanes));
                if (first)
                    acc[0][i] += x * a;
                if (second)
                    acc[1][i] += x * b;
            }
            UNROLL for (int r = 0; r < 2; r++) UNROLL for (int i = 0; i < P; i++) PIN(acc[r][i]);
        }
    }
    UNROLL for (int r = 0; r < 2; r++) UNROLL for (int i = 0; i < P; i++) PIN(acc[r][i]);
}

INLINE void tile_run(const int KW, const int S, const bool units, const bool edge, const tile *t) {
    vec acc[2][P];
    UNROLL for (int r = 0; r < 2; r++) UNROLL for (int i = 0; i < P; i++) acc[r][i] = (vec){0};
    // Columns of the walk within the input.
    const int64_t low = taps_low(&t->w_taps), high = taps_high(&t->w_taps, t->in_size[2]);
    const int64_t shift = t->rows > 1 ? t->shift : 0, w_back = shift * t->h.k_step * t->w_x[1];
    for (int64_t jd = 0; jd < t->d.count; jd++)
        for (int64_t j = 0; j < t->h.count + shift; j++) {
            const int64_t h = t->h.at + j * t->h.at_step;
            if (h < 0 || h >= t->in_size[1])
                continue;
            const elem *in =
                t->in + (t->d.at + jd * t->d.at_step) * t->in_x[0] + h * t->in_x[1] + t->w_taps.at * t->in_x[2];
            const float *w = t->w + (t->d.k + jd * t->d.k_step) * t->w_x[0] +
                             (t->h.k + j * t->h.k_step) * t->w_x[1] + t->w_taps.k * LANES;
            const bool first = j < t->h.count, second = t->rows > 1 && j >= shift;
            if (first && second)
                tile_walk(KW, S, units, edge, true, true, t, in, w, w_back, low, high, acc);
            else if (first)
                tile_walk(KW, S, units, edge, true, false, t, in, w, w_back, low, high, acc);
            else if (second)
                tile_walk(KW, S, units, edge, false, true, t, in, w, w_back, low, high, acc);
        }
    if (t->rows == 2 && t->pixels == P && t->lanes == LANES) {
        UNROLL for (int r = 0; r < 2; r++) UNROLL for (int i = 0; i < P; i++)
            elem_store(t->out + r * t->out_row + i * t->out_step, acc[r][i] + t->bias);
        return;
    }
    float sums[2][P][LANES];
    UNROLL for (int r = 0; r < 2; r++) UNROLL for (int i = 0; i < P; i++) vec_store(sums[r][i], acc[r][i] + t->bias);
    for (int64_t r = 0; r < t->rows; r++)
        for (int64_t i = 0; i < t->pixels; i++)
            lanes_store(t->out + r * t->out_row + i * t->out_step, vec_load(sums[r][i]), true, t->lanes);
}

typedef void tile_function(const tile *t);
#define TILE(KW, S)                                                                                                    \
    static void tile_k##KW##_s##S(const tile *t) { tile_run(KW, S, false, false, t); }                                 \
    static void edge_k##KW##_s##S(const tile *t) { tile_run(KW, S, false, true, t); }
TILE(0, 1)
TILE(2, 1)
TILE(3, 1)
TILE(5, 1)
TILE(7, 1)
TILE(3, 2)
TILE(5, 2)

#ifdef OPWRIGHT_FIXED_TAPS
static void tile_fixed(const tile *t) { tile_run(OPWRIGHT_FIXED_TAPS, OPWRIGHT_FIXED_STEP, false, false, t); }
static void edge_fixed(const tile *t) { tile_run(OPWRIGHT_FIXED_TAPS, OPWRIGHT_FIXED_STEP, false, true, t); }
#endif

typedef struct row_of_tiles {
    int64_t taps, in_step;
    tile_function *inner, *edge;
} row_of_tiles;
static const row_of_tiles tiles[] = {
    {2, 1, tile_k2_s1, edge_k2_s1}, {3, 1, tile_k3_s1, edge_k3_s1}, {5, 1, tile_k5_s1, edge_k5_s1},
    {7, 1, tile_k7_s1, edge_k7_s1}, {3, 2, tile_k3_s2, edge_k3_s2}, {5, 2, tile_k5_s2, edge_k5_s2},
#ifdef OPWRIGHT_FIXED_TAPS
    {OPWRIGHT_FIXED_TAPS, OPWRIGHT_FIXED_STEP, tile_fixed, edge_fixed},
#endif
    {0, 0, tile_k0_s1, edge_k0_s1},
};

// The same for input of units; few blocks need bounds checks there.
#if UNIT_ELEMS > 1
static void units_edge(const tile *t) { tile_run(0, 1, true, true, t); }
static void units_k0(const tile *t) { tile_run(0, 1, true, false, t); }
static void units_k5(const tile *t) { tile_run(5, 1, true, false, t); }
static void units_k7(const tile *t) { tile_run(7, 1, true, false, t); }
#ifdef OPWRIGHT_FIXED_TAPS
static void units_fixed(const tile *t) { tile_run(OPWRIGHT_FIXED_TAPS, OPWRIGHT_FIXED_STEP, true, false, t); }
#endif
static const row_of_tiles unit_tiles[] = {
    {5, 1, units_k5, units_edge}, {7, 1, units_k7, units_edge},
#ifdef OPWRIGHT_FIXED_TAPS
    {OPWRIGHT_FIXED_TAPS, OPWRIGHT_FIXED_STEP, units_fixed, units_edge},
#endif
    {0, 0, units_k0, units_edge},
};
#else
#define unit_tiles tiles
#endif

static const row_of_tiles *tiles_for(const row_of_tiles *t, int64_t count, int64_t in_step) {
    while (t->taps != 0 && (t->taps != count || t->in_step != in_step))
        t++;
    return t;
}

// Prefetches the input rows that the next pair of rows is the first to read, and its outputs.
INLINE void prefetch_next(const tile *t, bool outputs) {
    for (int64_t j = t->h.count + t->shift; j < t->h.count + 3 * t->shift; j++) {
        const int64_t y = t->h.at + j * t->h.at_step;
        if (y < 0 || y >= t->in_size[1])
            continue;
        const elem *at = t->in + y * t->in_x[1] + max(0, t->w_taps.at) * t->in_x[2];
        for (int64_t i = 0; i < P * t->in_step; i++)
            __builtin_prefetch(at + i * t->w_taps.at_step * t->in_x[2], 0, 2);
    }
    for (int64_t r = 2; outputs && r < 4; r++)
        for (int64_t i = 0; i < P; i++)
            __builtin_prefetch(t->out + r * t->out_row + i * t->out_step, 1, 3);
}

// Rows of output [row, end), of one depth, over channels [0, G) from `in`, `out` and `bias` on. `padded`: rows of
// input have zeros beside them, and all lanes; `units`: the input has units.
static void lanes_rows(const solve *s, bool padded, bool units, const elem *in, const float *packed, const elem *bias, elem *out,
                       int64_t G, int64_t d, int64_t row, int64_t end) {
    const int64_t *K = s->problem->taps, width = s->axes[2].out;
    const lattice rows = lattice_of(s, 1), columns = lattice_of(s, 2);
    tile t = {.in_x = s->in_x, .in_size = s->backward ? s->problem->small : s->problem->big,
              .w_x = {K[1] * K[2] * LANES, K[2] * LANES, LANES},
              .in_step = columns.in_step, .shift = rows.in_step, .out_row = rows.step * s->out_x[1],
              .out_step = columns.step * s->out_x[2]};
    t.d = clipped(taps_of(s, 0, d), s->axes[0].in);
    // Prefetch the next pair of rows if the tensors exceed the second-level cache: 2.7 instead of 5.5 ms for
    // 16 images of 112x112x32.
    const bool far = s->problem->N * s->in_n > FAR;
    for (int64_t pair = row; pair < end; pair += 2 * rows.step)
        for (int64_t h = pair; h < min(pair + rows.step, end); h++) {
            t.rows = h + rows.step < end ? 2 : 1;
            t.h = taps_of(s, 1, h);
            elem *line = out + d * s->out_x[0] + h * s->out_x[1];
            for (int64_t phase = 0; phase < min(s->axes[2].out_step, width); phase++) {
                const taps first = taps_of(s, 2, phase);
                const row_of_tiles *kind = tiles_for(units ? unit_tiles : tiles, first.count, t.in_step);
                const int64_t walk = ((P - 1) * t.in_step + first.count - 1) * first.at_step;
                for (int64_t class = 0, start; class < columns.classes; class++) {
                    if ((start = phase + class * s->axes[2].out_step) >= width)
                        break;
                    for (int64_t o = start, q = class; o < width; o += P * columns.step, q += P * columns.classes) {
                        t.w_taps = first;
                        t.w_taps.at += q * s->axes[2].in_step;
                        t.pixels = P;
                        if (o + (P - 1) * columns.step >= width)
                            t.pixels = over(width - o + columns.step - 1, columns.step);
                        const bool inner = t.w_taps.at >= 0 && t.w_taps.at + walk < t.in_size[2];
                        for (int64_t g = 0; g < G; g += LANES) {
                            t.lanes = min(LANES, G - g);
                            t.in = in + g, t.out = line + o * s->out_x[2] + g;
                            t.w = packed + g * K[0] * K[1] * K[2];
                            t.bias = bias ? lanes_load(bias + g, true, t.lanes) : (vec){0};
                            if (far && g % LINE == 0)
                                prefetch_next(&t, h + 3 * rows.step < end);
                            (padded || (inner && t.lanes == LANES) ? kind->inner : kind->edge)(&t);
                        }
                    }
                }
            }
        }
}

// Squares of LANES channels by LANES neighbours: `count` neighbours of `lanes` channels, the rest 0.
INLINE void square_load(vec v[LANES], const elem *p, int64_t channel, int64_t lanes, int64_t count) {
    UNROLL for (int i = 0; i < LANES; i++)
        v[i] = i >= lanes ? (vec){0} : lanes_load(p + i * channel, true, count);
    vec_transpose(v);
}

// Weights as [block][kd][kh][kw][LANES], 0 in the lanes past the last channel.
typedef struct packing {
    const opwright_problem *p;
    const elem *weights;
    float *to;
    int32_t *non_finite; // of each block, whether it has an Inf or NaN
    int64_t pair;     // from a tap to its partner in a pair; 0: no pairs
} packing;

// Taps of a row and their neighbours, in place.
static void pair_taps(float *w, int64_t count, int64_t step) {
    for (int64_t i = 0; i < count; i++) {
        const int64_t k = step > 0 ? i : count - 1 - i;
        const bool there = k + step >= 0 && k + step < count;
        vec_store(w + k * LANES,
                  pair_of(vec_load(w + k * LANES), there ? vec_load(w + (k + step) * LANES) : (vec){0}));
    }
}

static void pack_block(const void *context, int64_t block, int64_t worker) {
    (void)worker;
    const packing *c = context;
    const opwright_problem *p = c->p;
    const int64_t count = volume(p->taps), lanes = min(LANES, p->G - block * LANES);
    const elem *from = c->weights + block * LANES * p->w_g;
    float *to = c->to + block * LANES * count;
    vec zero = {0}; // unless there is an Inf or NaN
    if (dense(p->taps, p->w_k)) {
        for (int64_t k = 0; k < count; k += LANES) {
            vec v[LANES];
            square_load(v, from + k, p->w_g, lanes, min(LANES, count - k));
            UNROLL for (int i = 0; i < LANES; i++) if (i < count - k) {
                vec_store(to + (k + i) * LANES, v[i]);
                zero += v[i] - v[i];
            }
        }
    } else
        for (int64_t k = 0; k < count; k++) {
            const elem *tap = tap_of(p, from, k);
            vec v = {0};
            if (p->w_g == 1)
                v = lanes_load(tap, true, lanes);
            else
                for (int64_t i = 0; i < lanes; i++)
                    v[i] = elem_get(tap + i * p->w_g);
            vec_store(to + k * LANES, v);
            zero += v - v;
        }
    c->non_finite[block] = uvec_any((uvec)(zero != zero));
    for (int64_t k = 0; c->pair != 0 && k < count; k += p->taps[2])
        pair_taps(to + k * LANES, p->taps[2], c->pair);
}

// Transposes a plane to channels last, and back.
static void interleave(const elem *from, int64_t channel, int64_t lanes, int64_t count, bool units, elem *to) {
    for (int64_t x = 0; x < count; x += LANES) {
        vec v[LANES];
        square_load(v, from + x, channel, lanes, min(LANES, count - x));
        UNROLL for (int i = 0; i < LANES; i++) if (i < count - x)
            units ? unit_store(to + (x + i) * LANES * UNIT_ELEMS, v[i]) : elem_store(to + (x + i) * LANES, v[i]);
    }
}

static void separate(const elem *from, int64_t channel, int64_t lanes, int64_t count, elem *to) {
    for (int64_t x = 0; x < count; x += LANES) {
        vec v[LANES];
        UNROLL for (int i = 0; i < LANES; i++)
            v[i] = i < count - x ? elem_load(from + (x + i) * LANES) : (vec){0};
        vec_transpose(v);
        UNROLL for (int i = 0; i < LANES; i++) if (i < lanes)
            lanes_store(to + i * channel + x, v[i], true, min(LANES, count - x));
    }
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
static int64_t plane_bytes(const int64_t size[3]) { return whole_lines(volume(size) * LANES * (int64_t)sizeof(elem)); }

typedef struct call {
    solve s;
    const elem *in, *bias;
    elem *out;
    const float *packed;
    const int32_t *non_finite;
    char *own;  // of the first worker
    int64_t own_bytes;
    int64_t rows, row_tasks, block_tasks;
} call;

static void last_task(const void *context, int64_t task, int64_t worker) {
    (void)worker;
    const call *c = context;
    const solve *s = &c->s;
    const int64_t first = task % c->block_tasks * TASK_BLOCKS * LANES;
    const int64_t G = min(TASK_BLOCKS * LANES, s->problem->G - first);
    task /= c->block_tasks;
    const int64_t row = task % c->row_tasks * c->rows, d = task / c->row_tasks % s->axes[0].out;
    const int64_t n = task / c->row_tasks / s->axes[0].out;
    lanes_rows(s, false, false, c->in + n * s->in_n + first, c->packed + first * volume(s->problem->taps),
               c->bias ? c->bias + first : 0, c->out + n * s->out_n + first, G, d, row,
               min(s->axes[1].out, row + c->rows));
}

// Kernels of many taps need dense input: with channels last, rows lie pages apart, in few sets of the first-level
// cache. 95 instead of 45 GFLOP/s for 31x31 over 28x28x256, 48 instead of 103 for 7x7 over 56x56x96.
static bool many_taps(const opwright_problem *p) {
    return volume(p->taps) > MANY_TAPS && volume(p->big) + volume(p->small) <= COPIED_PIXELS;
}

// Input in scratch: zeros beside its rows, also for all taps of the last tile.
typedef struct sheet {
    int64_t left, width, x[3];
    bool units;
    int64_t pair; // from a column to its partner in a pair; 0: no pairs
} sheet;

// Whether scratch has units. Rows of fewer taps gain less than the pairs cost.
static bool of_units(const solve *s) {
    return UNIT_ELEMS > 1 && s->problem->taps[2] >= UNIT_TAPS * s->axes[2].classes;
}

static sheet sheet_of(const solve *s) {
    const axis *a = &s->axes[2];
    const int64_t many = P * lattice_of(s, 2).classes, q = ceil_div(ceil_div(a->out, a->out_step), many) * many;
    int64_t low, high;
    span(a, s->backward, 0, 1, &low, &high);
    sheet to = {.left = max(0, -low)};
    to.width = to.left + max(a->in, (q - 1) * a->in_step + high);
    to.units = of_units(s), to.pair = to.units && OPWRIGHT_PAIRS ? a->offset_step : 0;
    scratch_distances(s->backward ? s->problem->small : s->problem->big, to.width, LANES * (to.units ? UNIT_ELEMS : 1),
                      to.x);
    return to;
}

INLINE void sheet_store(const bool units, elem *to, vec v) {
    if (!units)
        elem_store(to, v);
    else
        unit_store(to, OPWRIGHT_PAIRS ? pair_of(v, (vec){0}) : v);
}

INLINE void fill_sheet(const bool units, const solve *s, const sheet *c, const elem *in, int64_t lanes, elem *to) {
    const int64_t *size = s->backward ? s->problem->small : s->problem->big, rows = size[0] * size[1], width = size[2];
    const int64_t step = c->x[2];
    vec zero = {0};
    PIN(zero); // or gcc calls memset, for a vector or two
    elem *first = to;
    for (int64_t row = 0; row < rows; row++) {
        elem *line = to + row * c->x[1];
        for (int64_t w = 0; w < c->left; w++)
            sheet_store(units, line + w * step, zero);
        for (int64_t w = c->left + width; w < c->width; w++)
            sheet_store(units, line + w * step, zero);
    }
    to += c->left * step;
    if (channels_last(s->problem)) {
        for (int64_t d = 0; d < size[0]; d++)
            for (int64_t h = 0; h < size[1]; h++, to += c->x[1])
                for (int64_t w = 0; w < width; w++)
                    sheet_store(units, to + w * step,
                                lanes_load(in + d * s->in_x[0] + h * s->in_x[1] + w * s->in_x[2], true, lanes));
    } else {
        int64_t left = width;
        for (int64_t x = 0, count = rows * width; x < count; x += LANES) {
            vec v[LANES];
            square_load(v, in + x, s->in_c, lanes, min(LANES, count - x));
            UNROLL for (int i = 0; i < LANES; i++) if (i < count - x) {
                sheet_store(units, to, v[i]);
                to += step;
                if (--left == 0)
                    left = width, to += (c->width - width) * step;
            }
        }
    }
    for (int64_t row = 0; c->pair != 0 && row < rows; row++)
        for (int64_t w = 0; w + c->pair < c->width; w++) {
            elem *at = first + row * c->x[1] + w * step;
            unit_store(at, bits_vec(vec_bits(unit_load(at)) | vec_bits(unit_load(at + c->pair * step)) << 16));
        }
}

// One block of channels of one image, its input and, with channels first, its output in scratch.
static void block_task(const void *context, int64_t task, int64_t worker) {
    const call *c = context;
    const solve *s = &c->s;
    const opwright_problem *p = s->problem;
    const int64_t blocks = ceil_div(p->G, LANES), n = task / blocks, g = task % blocks * LANES;
    const int64_t lanes = min(LANES, p->G - g), *in_size = s->backward ? p->small : p->big;
    const int64_t *out_size = s->backward ? p->big : p->small;
    const sheet sheet = sheet_of(s);
    elem *in = (elem *)(void *)(c->own + worker * c->own_bytes);
    elem *out = in + volume(in_size) / in_size[2] * sheet.x[1];
    elem bias[LANES] = {0};
    if (c->bias)
        memcpy(bias, c->bias + g, (size_t)lanes * sizeof *bias);
    const elem *from = c->in + n * s->in_n + g * s->in_c;
    elem *to = c->out + n * s->out_n + g * s->out_c;
    opwright_problem q = interleaved(p, LANES, LANES);
    solve inner = solve_of(&q, s->backward);
    const bool last = channels_last(p);
    if (last)
        memcpy(inner.out_x, s->out_x, sizeof inner.out_x);
    memcpy(inner.in_x, sheet.x, sizeof inner.in_x);
    if (sheet.units)
        fill_sheet(UNIT_ELEMS > 1, s, &sheet, from, lanes, in);
    else
        fill_sheet(false, s, &sheet, from, lanes, in);
    if (!last && p->N * s->in_n > NEAR) {
        // Prefetches the next task's input, and this one's output, while computing: 0.6 instead of 0.9 ms for 5x5 over
        // 16 images of 960x7x7.
        prefetch(from + LANES * s->in_c, max(0, min(LANES, p->G - g - LANES)) * volume(in_size), 0);
        prefetch(to, lanes * volume(out_size), 1);
    }
    for (int64_t d = 0; d < s->axes[0].out; d++)
        lanes_rows(&inner, !c->non_finite[g / LANES], sheet.units, in + sheet.left * sheet.x[2],
                   c->packed + g * volume(p->taps), bias, last ? to : out, last ? lanes : LANES, d, 0, s->axes[1].out);
    if (!last)
        separate(out, s->out_c, lanes, volume(out_size), to);
}

static int64_t data_bytes(const solve *s) {
    const opwright_problem *p = s->problem;
    if (channels_last(p) && !many_taps(p))
        return 0;
    const int64_t *in_size = s->backward ? p->small : p->big;
    const int64_t in = volume(in_size) / in_size[2] * sheet_of(s).x[1] * (int64_t)sizeof(elem);
    return whole_lines(in) + (channels_last(p) ? 0 : plane_bytes(s->backward ? p->big : p->small));
}
static int64_t non_finite_bytes(const opwright_problem *p) { return whole_lines(ceil_div(p->G, LANES) * 4); }

int64_t depthwise_channels_scratch(const opwright_problem *p, bool backward, int64_t workers) {
    const solve s = solve_of(p, backward);
    return whole_lines(packed_bytes(p)) + non_finite_bytes(p) + workers * data_bytes(&s);
}

void depthwise_channels(const opwright_problem *p, bool backward, const elem *in, const elem *weights,
                        const elem *bias, elem *out, const opwright_team *team, void *scratch) {
    int32_t *non_finite = (int32_t *)(void *)((char *)scratch + whole_lines(packed_bytes(p)));
    call c = {.s = solve_of(p, backward), .in = in, .bias = bias, .out = out, .packed = scratch, .non_finite = non_finite,
              .own = (char *)non_finite + non_finite_bytes(p)};
    const bool sheets = !channels_last(p) || many_taps(p);
    const packing pack = {p, weights, scratch, non_finite,
                          sheets && OPWRIGHT_PAIRS && of_units(&c.s) ? backward ? -c.s.axes[2].classes : 1 : 0};
    const int64_t blocks = ceil_div(p->G, LANES);
    opwright_run(team, pack_block, &pack, blocks);
    c.own_bytes = data_bytes(&c.s);
    if (sheets) {
        opwright_run(team, block_task, &c, p->N * blocks);
        return;
    }
    const axis *axes = c.s.axes;
    const int64_t pairs = 2 * lattice_of(&c.s, 1).step, wide = axes[2].out * min(p->G, TASK_BLOCKS * LANES);
    c.rows = ceil_div(ceil_div(TASK_OUTPUTS, wide), pairs) * pairs;
    c.row_tasks = ceil_div(axes[1].out, c.rows);
    c.block_tasks = ceil_div(blocks, TASK_BLOCKS);
    opwright_run(team, last_task, &c, p->N * axes[0].out * c.row_tasks * c.block_tasks);
}

// Weights.

enum { FEWEST_COPIES = 8 }; // blocks of all images: fewer are too few tasks

// Whether planes are copied to scratch, a block of channels at a time. With channels last, for kernels of many taps:
// 31x31 over 28x28x256 f32 2.0 instead of 3.1 ms, f16 1.8 instead of 3.5.
static bool w_copied(const opwright_problem *p) {
    return !channels_last(p) || (many_taps(p) && p->N * ceil_div(p->G, LANES) >= FEWEST_COPIES);
}

// The scratch elements of one input element: wider if many taps read them.
static int64_t w_elems(const opwright_problem *p) { return many_taps(p) ? UNIT_ELEMS : 1; }

static int64_t own_bytes(const opwright_problem *p) {
    return w_copied(p) ? (plane_bytes(p->big) + plane_bytes(p->small)) * w_elems(p) : 0;
}

// `lanes` channels of a plane whose channels come last.
static void gather(const elem *from, const int64_t size[3], const int64_t x[3], int64_t lanes, bool units,
                   elem *to) {
    for (int64_t d = 0; d < size[0]; d++)
        for (int64_t h = 0; h < size[1]; h++) {
            const elem *row = from + d * x[0] + h * x[1];
            for (int64_t w = 0; w < size[2]; w++, to += units ? LANES * UNIT_ELEMS : LANES) {
                const vec v = lanes_load(row + w * x[2], true, lanes);
                units ? unit_store(to, v) : elem_store(to, v);
            }
        }
}

enum { SUM_PIXELS = 128, W_BLOCKS = 16, W_PIXELS = 4 }; // of a round; of a task; at once

INLINE vec w_load(const bool units, const elem *p, bool part, int64_t lanes) {
    return units ? unit_load(p) : lanes_load(p, part, lanes);
}

// PIXELS of a row from o on against KH rows of a kernel, `x` and `dy` those of pixel 0 and tap 0. Every column of the
// input is read once for all pixels and taps that use it: 2.2 instead of 5.6 reads for 5x5 taps. STEP is the stride of
// a kernel without dilation, or 0 for any of one pixel. `edge`: only the kernel rows that `rows` has a bit for, columns
// of the input, [0, width) when counted from tap 0 of pixel 0 at `column`, and the first lanes.
INLINE void w_pixels(const bool units, const int KH, const int KW, const int PIXELS, const int STEP_OF, const bool edge,
                     const opwright_problem *p, const elem *x, const elem *dy, int64_t lanes, uint32_t rows,
                     int64_t column, int64_t o, vec acc[MAX_ROWS][MAX_TAPS]) {
    const int64_t D = p->dilation[2], pitch = D * p->big_x[2], line = p->dilation[1] * p->big_x[1];
    const elem *at = x + o * p->stride[2] * p->big_x[2];
    int64_t c = column + o * p->stride[2];
    vec y[W_PIXELS];
    UNROLL for (int i = 0; i < PIXELS; i++) y[i] = w_load(units, dy + (o + i) * p->small_x[2], edge, lanes);
    UNROLL_ALL for (int i = 0; i < (PIXELS - 1) * STEP_OF + KW; i++, at += pitch, c += D) {
        STEP(at);
        if (edge && (uint64_t)c >= (uint64_t)p->big[2])
            continue;
        UNROLL for (int h = 0; h < KH; h++) {
            if (edge && !(rows >> h & 1))
                continue;
            const vec v = w_load(units, at + h * line, edge, lanes);
            if (STEP_OF == 0)
                acc[h][i] += y[0] * v;
            else
                UNROLL for (int j = 0; j < KW; j++) if (i >= j && (i - j) % STEP_OF == 0 && (i - j) / STEP_OF < PIXELS)
                    acc[h][j] += y[(i - j) / STEP_OF] * v;
        }
    }
    UNROLL for (int h = 0; h < KH; h++) UNROLL for (int j = 0; j < KW; j++) PIN(acc[h][j]);
}

// Pixels of a row from o on, in groups of W_PIXELS; for those in [low, high) all taps are in bounds.
INLINE int64_t w_row(const bool units, const int KH, const int KW, const int STEP_OF, const opwright_problem *p, const elem *x,
                     const elem *dy, int64_t lanes, uint32_t rows, int64_t column, int64_t low, int64_t high,
                     vec acc[MAX_ROWS][MAX_TAPS]) {
    const bool whole = lanes == LANES && rows == (1u << KH) - 1;
    int64_t o = 0;
    for (; o + W_PIXELS <= p->small[2]; o += W_PIXELS)
        if (whole && o >= low && o + W_PIXELS <= high)
            w_pixels(units, KH, KW, W_PIXELS, STEP_OF, false, p, x, dy, lanes, rows, column, o, acc);
        else
            w_pixels(units, KH, KW, W_PIXELS, STEP_OF, true, p, x, dy, lanes, rows, column, o, acc);
    return o;
}

// KH x KW taps from (kd, kh, kw) on over rows [row, end), added to sum[kd][kh][kw][LANES].
INLINE void w_run(const bool units, const int KH, const int KW, const opwright_problem *p, const elem *big, const elem *small,
                  int64_t lanes, const int64_t k[3], int64_t row, int64_t end, float *sum) {
    vec acc[MAX_ROWS][MAX_TAPS];
    UNROLL for (int i = 0; i < KH; i++) UNROLL for (int j = 0; j < KW; j++) acc[i][j] = (vec){0};
    const int64_t S = p->stride[2], D = p->dilation[2], column = k[2] * D - p->pad[2];
    const int64_t low = min(p->small[2], column < 0 ? ceil_div(-column, S) : 0);
    const int64_t room = p->big[2] - 1 - column - (KW - 1) * D;
    const int64_t high = max(low, min(p->small[2], room < 0 ? 0 : room / S + 1));
    for (; row < end; row++) {
        const int64_t od = row / p->small[1], oh = row % p->small[1];
        const int64_t d = od * p->stride[0] + k[0] * p->dilation[0] - p->pad[0];
        const int64_t h = oh * p->stride[1] + k[1] * p->dilation[1] - p->pad[1];
        if (d < 0 || d >= p->big[0])
            continue;
        const elem *dy = small + od * p->small_x[0] + oh * p->small_x[1];
        const elem *x = big + d * p->big_x[0] + h * p->big_x[1] + column * p->big_x[2];
        uint32_t rows = 0; // those with a row of input in bounds
        UNROLL for (int i = 0; i < KH; i++)
            rows |= (uint32_t)((uint64_t)(h + i * p->dilation[1]) < (uint64_t)p->big[1]) << i;
        if (rows == 0)
            continue;
        int64_t o = 0;
        if (KW > 1 && D == 1 && S == 1)
            o = w_row(units, KH, KW, 1, p, x, dy, lanes, rows, column, low, high, acc);
        else if (KW > 1 && D == 1 && S == 2)
            o = w_row(units, KH, KW, 2, p, x, dy, lanes, rows, column, low, high, acc);
        if (o == 0 && lanes == LANES && rows == (1u << KH) - 1) {
            for (; o < low; o++)
                w_pixels(units, KH, KW, 1, 0, true, p, x, dy, lanes, rows, column, o, acc);
            for (; o < high; o++)
                w_pixels(units, KH, KW, 1, 0, false, p, x, dy, lanes, rows, column, o, acc);
        }
        for (; o < p->small[2]; o++)
            w_pixels(units, KH, KW, 1, 0, true, p, x, dy, lanes, rows, column, o, acc);
    }
    UNROLL for (int i = 0; i < KH; i++) UNROLL for (int j = 0; j < KW; j++) {
        float *to = sum + (((k[0] * p->taps[1]) + k[1] + i) * p->taps[2] + k[2] + j) * LANES;
        vec_store(to, vec_load(to) + acc[i][j]);
    }
}

typedef void w_function(const opwright_problem *p, const elem *big, const elem *small, int64_t lanes,
                        const int64_t k[3], int64_t row, int64_t end, float *sum);
#define W_BLOCK(NAME, UNITS, KH, KW)                                                                                          \
    static void NAME(const opwright_problem *p, const elem *big, const elem *small, int64_t lanes, const int64_t k[3], \
                     int64_t row, int64_t end, float *sum) {                                                           \
        w_run(UNITS, KH, KW, p, big, small, lanes, k, row, end, sum);                                                         \
    }
W_BLOCK(w_several_3, false, 3, 3)
W_BLOCK(w_several_5, false, ROWS_OF_5, 5)
W_BLOCK(w_several_7, false, ROWS_OF_7, 7)
W_BLOCK(w_1, false, 1, 1)
W_BLOCK(w_3, false, 1, 3)
W_BLOCK(w_5, false, 1, 5)
W_BLOCK(w_7, false, 1, 7)
#ifdef OPWRIGHT_FIXED_W_COLUMNS
W_BLOCK(w_several_fixed, false, OPWRIGHT_FIXED_W_ROWS, OPWRIGHT_FIXED_W_COLUMNS)
W_BLOCK(w_fixed, false, 1, OPWRIGHT_FIXED_W_COLUMNS)
#endif

static const struct row_of_blocks {
    int64_t rows, columns;
    bool alone;  // only for kernels of just that width
    w_function *run;
} w_blocks[] = {
#ifdef OPWRIGHT_FIXED_W_COLUMNS
    {OPWRIGHT_FIXED_W_ROWS, OPWRIGHT_FIXED_W_COLUMNS, true, w_several_fixed},
    {1, OPWRIGHT_FIXED_W_COLUMNS, true, w_fixed},
#endif
    {3, 3, true, w_several_3}, {ROWS_OF_5, 5, true, w_several_5}, {ROWS_OF_7, 7, true, w_several_7},
    {1, 7, false, w_7},        {1, 5, false, w_5},                {1, 3, false, w_3},
    {1, 1, false, w_1},
};
#if UNIT_ELEMS > 1
W_BLOCK(w_units_1, true, 1, 1)
W_BLOCK(w_units_3, true, 1, 3)
W_BLOCK(w_units_7, true, 1, 7)
#ifdef OPWRIGHT_FIXED_W_COLUMNS
W_BLOCK(w_units_several_fixed, true, OPWRIGHT_FIXED_W_ROWS, OPWRIGHT_FIXED_W_COLUMNS)
#endif
static const struct row_of_blocks w_unit_blocks[] = {
#ifdef OPWRIGHT_FIXED_W_COLUMNS
    {OPWRIGHT_FIXED_W_ROWS, OPWRIGHT_FIXED_W_COLUMNS, true, w_units_several_fixed},
#endif
    {1, 7, false, w_units_7}, {1, 3, false, w_units_3}, {1, 1, false, w_units_1},
};
#else
#define w_unit_blocks w_blocks
#endif

// All taps over rows [row, end) of one image and `G` channels.
// Prefetching the rows of the next round costs more than it saves: 0.8 ms without, 1.1 with for 16 images of 14x14x512.
static void w_rows(const bool units, const opwright_problem *p, const elem *big, const elem *small, int64_t G,
                   int64_t row, int64_t end, float *sums) {
    const int64_t several = max(1, SUM_PIXELS / p->small[2]), K = volume(p->taps);
    for (; row < end; row += several)
        for (int64_t g = 0; g < G; g += LANES) {
            for (int64_t d = 0; d < p->taps[0]; d++)
                for (int64_t h = 0, rows; h < p->taps[1]; h += rows) {
                    rows = 1;
                    for (int64_t w = 0, columns; w < p->taps[2]; w += columns) {
                        const struct row_of_blocks *b = units ? w_unit_blocks : w_blocks;
                        while (b->rows > p->taps[1] - h || b->columns > p->taps[2] - w ||
                               (b->alone && b->columns != p->taps[2]))
                            b++;
                        rows = b->rows, columns = b->columns;
                        b->run(p, big + g, small + g, min(LANES, G - g), (int64_t[3]){d, h, w}, row,
                               min(end, row + several), sums + g * K);
                    }
                }
        }
}

typedef struct w_call {
    const opwright_problem *p;
    const elem *big, *small;
    elem *weights;
    float *sums;  // [chunk][block][tap][LANES]
    char *own;
    int64_t own_bytes, chunks, rows;  // rows of a chunk, counted over images too
} w_call;

// Channels of a task, in blocks.
static int64_t w_blocks_of(const opwright_problem *p) {
    return w_copied(p) ? 1 : min(W_BLOCKS, ceil_div(p->G, LANES));
}
static int64_t w_chunks(const opwright_problem *p) {
    const int64_t groups = ceil_div(ceil_div(p->G, LANES), w_blocks_of(p));
    const int64_t rows = w_copied(p) ? p->N : p->N * p->small[0] * p->small[1];
    return min(rows, ceil_div(W_TASKS, groups));
}

static void w_task(const void *context, int64_t task, int64_t worker) {
    const w_call *c = context;
    const opwright_problem *p = c->p;
    const int64_t blocks = ceil_div(p->G, LANES), of_task = w_blocks_of(p), groups = ceil_div(blocks, of_task);
    const int64_t chunk = task / groups, first = task % groups * of_task, g = first * LANES;
    const int64_t channels = min(of_task * LANES, p->G - g), in_image = p->small[0] * p->small[1];
    float *sums = c->sums + (chunk * blocks + first) * LANES * volume(p->taps);
    memset(sums, 0, (size_t)(ceil_div(channels, LANES) * LANES * volume(p->taps)) * 4);
    if (!w_copied(p)) {
        const int64_t end = min(p->N * in_image, (chunk + 1) * c->rows);
        for (int64_t row = chunk * c->rows, next; row < end; row = next) {
            const int64_t n = row / in_image;
            next = min(end, (n + 1) * in_image);
            w_rows(false, p, c->big + n * p->big_n + g, c->small + n * p->small_n + g, channels, row - n * in_image,
                   next - n * in_image, sums);
        }
        return;
    }
    elem *big = (elem *)(void *)(c->own + worker * c->own_bytes);
    const bool units = w_elems(p) > 1;
    elem *small = (elem *)(void *)((char *)big + plane_bytes(p->big) * w_elems(p));
    const opwright_problem q = interleaved(p, LANES, LANES * w_elems(p));
    for (int64_t n = chunk * c->rows; n < min(p->N, (chunk + 1) * c->rows); n++) {
        if (channels_last(p)) {
            gather(c->big + n * p->big_n + g, p->big, p->big_x, channels, units, big);
            gather(c->small + n * p->small_n + g, p->small, p->small_x, channels, units, small);
        } else {
            interleave(c->big + n * p->big_n + g * p->big_c, p->big_c, channels, volume(p->big), units, big);
            interleave(c->small + n * p->small_n + g * p->small_c, p->small_c, channels, volume(p->small), units, small);
        }
        if (!channels_last(p) && p->N * p->big_n > FAR && n + 1 < p->N) {
            prefetch(c->big + (n + 1) * p->big_n + g * p->big_c, channels * volume(p->big), 0);
            prefetch(c->small + (n + 1) * p->small_n + g * p->small_c, channels * volume(p->small), 0);
        }
        w_rows(units, &q, big, small, LANES, 0, in_image, sums);
    }
}

static void w_finish(const void *context, int64_t block, int64_t worker) {
    (void)worker;
    const w_call *c = context;
    const opwright_problem *p = c->p;
    const int64_t blocks = ceil_div(p->G, LANES), lanes = min(LANES, p->G - block * LANES), K = volume(p->taps);
    const float *sums = c->sums + block * K * LANES;
    elem *to = c->weights + block * LANES * p->w_g;
    for (int64_t k = 0; k < K; k += LANES) {
        vec v[LANES];
        UNROLL for (int i = 0; i < LANES; i++) {
            v[i] = (vec){0};
            for (int64_t chunk = 0; i < K - k && chunk < c->chunks; chunk++)
                v[i] += vec_load(sums + (chunk * blocks * K + k + i) * LANES);
        }
        if (dense(p->taps, p->w_k)) {
            vec_transpose(v);
            UNROLL for (int i = 0; i < LANES; i++) if (i < lanes)
                lanes_store(to + i * p->w_g + k, v[i], true, min(LANES, K - k));
            continue;
        }
        for (int64_t i = 0; i < min(LANES, K - k); i++) {
            elem *tap = (elem *)(uintptr_t)tap_of(p, to, k + i);
            if (p->w_g == 1) {
                lanes_store(tap, v[i], true, lanes);
                continue;
            }
            for (int64_t l = 0; l < lanes; l++)
                elem_put(tap + l * p->w_g, v[i][l]);
        }
    }
}

static int64_t sums_bytes(const opwright_problem *p) { return whole_lines(w_chunks(p) * packed_bytes(p)); }

int64_t depthwise_channels_w_scratch(const opwright_problem *p, int64_t workers) {
    return sums_bytes(p) + workers * own_bytes(p);
}

void depthwise_channels_w(const opwright_problem *p, const elem *big, const elem *small, elem *weights,
                          const opwright_team *team, void *scratch) {
    const int64_t blocks = ceil_div(p->G, LANES), rows = w_copied(p) ? p->N : p->N * p->small[0] * p->small[1];
    w_call c = {p, big, small, weights, scratch, (char *)scratch + sums_bytes(p), own_bytes(p), w_chunks(p), 0};
    c.rows = ceil_div(rows, c.chunks);
    c.chunks = ceil_div(rows, c.rows);
    opwright_run(team, w_task, &c, c.chunks * ceil_div(blocks, w_blocks_of(p)));
    opwright_run(team, w_finish, &c, blocks);
}

// Literal taps make y faster by (f32, AVX-512): 9x9 1.5, 1x9 1.3. Those of weights by: 4x4 1.6, 6x6 and 9x9 1.4, 13x13
// 1.1, 4x4 with stride 2 2.0; not 1x31, 0.96.
bool depthwise_channels_fixed(const opwright_problem *p, bool backward, int64_t *values) {
    const solve s = solve_of(p, backward);
    const int64_t step = lattice_of(&s, 2).in_step;
    int64_t max_taps = 0; // of the phases without code of their own
    for (int64_t phase = 0; phase < s.axes[2].out_step; phase++) {
        const int64_t count = taps_of(&s, 2, phase).count;
        if (tiles_for(tiles, count, step)->taps == 0)
            max_taps = max(max_taps, count);
    }
    values[0] = max_taps, values[1] = step;
    return max_taps > 1 && max_taps <= FIXED_COLUMNS && step <= 2;
}

bool depthwise_channels_w_fixed(const opwright_problem *p, int64_t *values) {
    const int64_t columns = p->taps[2];
    values[0] = max(1, min(p->taps[1], FIXED_SUMS / columns)), values[1] = columns;
    const struct row_of_blocks *b = w_blocks;
    while (b->columns != columns && b->columns != 1)
        b++;
    return b->columns != columns && columns <= FIXED_COLUMNS;
}
