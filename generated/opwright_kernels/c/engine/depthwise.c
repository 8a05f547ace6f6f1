// y, x and w where a group has one channel on either side.
//
// Channel lanes serve tensors with channels last: lanes are neighbouring channels. Rows of output, pairs of them, then
// tiles of P pixels, then blocks of channels; a tile's accumulators live over all taps. It walks a row of input once
// and adds each column to every (row, pixel, kw) it belongs to; weights are packed to [block][kd][kh][kw][LANES] first.
// Taps that fall outside are left out, so no padding is ever multiplied. A solve for big takes the outputs of each
// residue of the stride in turn: for these it is a solve for small with fewer taps and stride 1. Dilated rows and
// columns are split into plain ones in the same way. Planes of tensors with channels first that are narrower than a
// vector are transposed to scratch, LANES channels at a time, and back.
//
// Width lanes serve the other tensors with channels first: lanes are neighbouring columns of one plane. A unit of work
// is a block of one plane. Its input is copied to scratch, widened, with zeros around it, columns sorted by their
// residue modulo the stride: then each tap is a vector at some offset, whatever the stride and dilation. The usual
// kernels make 2 or 4 rows of output at once, with their weights in registers; others go through a list of taps. A
// zero times Inf or NaN must not appear: channels with such a weight take the list and mask what falls outside, and a
// gradient of weights that turned out NaN is made again with masks.
//
// Sums for weights are made of chunks that follow from the problem alone, added up in order.

#include "depthwise.h"

#include <math.h>

#define UNROLL_ALL _Pragma("GCC unroll 64")
#define P (LANES == 8 ? 4 : 7) // pixels of a row of a tile over channel lanes, which has two rows
#define ROWS_OF_5 (LANES == 8 ? 2 : 5) // kernel rows of a w tile of 5 columns, of 7
#define ROWS_OF_7 (LANES == 8 ? 1 : 3)
enum { MAX_TAPS = 7, MAX_ROWS = 5 }; // that tiles have text for

enum {
    TASK_OUTPUTS = 32768, // of a task, about
    TASK_BLOCKS = 64,     // of channels, of a task, at the most
    W_TASKS = 16,         // of a solve for weights, at the least: chunks make up for few channels
    NARROW_PIXELS = 8192, // of planes that are transposed whole, at the most
    FAR = 1 << 20,        // elements that do not stay in the second-level cache
    FEW_TAPS = 9,
};

// Keeps a pointer that is stepped from being computed ahead, once for every step, which spills.
#define STEP(p) __asm__("" : "+r"(p))

// The taps that one output position meets on one axis: tap j is k + j*k_step and reads input at + j*at_step.
// at_step is positive: a solve for x takes its taps backwards.
typedef struct taps {
    int64_t count, k, k_step, at, at_step;
} taps;

// A solve for small or for big: the same loops with the tensors exchanged.
typedef struct solve {
    const opwright_problem *p;
    bool backward;  // for big
    const int64_t *in_size, *out_size, *in_x, *out_x;
    int64_t in_n, in_c, out_n, out_c;
    // Per axis: outputs `out_step` apart meet the same taps, on inputs `in_step` apart. A backward solve has out_step
    // such phases; in the one of its first output k, if there is a tap k, taps are k_step apart.
    int64_t in_step[3], out_step[3], k_step[3], at_step[3];
} solve;

static int64_t common(int64_t a, int64_t b) {
    while (b != 0) {
        const int64_t rest = a % b;
        a = b, b = rest;
    }
    return a;
}

static solve solve_of(const opwright_problem *p, bool backward) {
    solve s = {p, false, p->big, p->small, p->big_x, p->small_x, p->big_n, p->big_c, p->small_n, p->small_c,
               {0}, {0}, {0}, {0}};
    if (backward)
        s = (solve){p, true, p->small, p->big, p->small_x, p->big_x, p->small_n, p->small_c, p->big_n, p->big_c,
                    {0}, {0}, {0}, {0}};
    for (int a = 0; a < 3; a++) {
        const int64_t S = p->stride[a], D = p->dilation[a], divisor = common(S, D);
        s.in_step[a] = backward ? 1 : S;
        s.out_step[a] = backward ? S : 1;
        s.k_step[a] = backward ? S / divisor : 1;
        s.at_step[a] = backward ? D / divisor : D;
    }
    return s;
}

// Division, where the divisor is 1 most of the time.
INLINE int64_t over(int64_t a, int64_t b) { return b == 1 ? a : a / b; }

static taps taps_of(const solve *s, int axis, int64_t out) {
    const opwright_problem *p = s->p;
    const int64_t K = p->taps[axis], S = p->stride[axis], D = p->dilation[axis], at = out + p->pad[axis];
    const int64_t k_step = s->k_step[axis], at_step = s->at_step[axis];
    if (!s->backward)
        return (taps){K, 0, 1, out * S - p->pad[axis], D};
    for (int64_t k = 0; k < least(K, k_step); k++)
        if (S == 1 || (at - k * D) % S == 0) {
            const int64_t count = over(K - k + k_step - 1, k_step), last = k + (count - 1) * k_step;
            return (taps){count, last, -k_step, over(at - last * D, S), at_step};
        }
    return (taps){0, 0, 1, 0, 1};
}

// Where t begins and ends to lie in [0, size).
INLINE int64_t taps_low(const taps *t) {
    return t->at < 0 ? over(t->at_step - 1 - t->at, t->at_step) : 0;
}
INLINE int64_t taps_high(const taps *t, int64_t size) {
    return t->at < size ? over(size - t->at + t->at_step - 1, t->at_step) : 0;
}

// Without the taps that fall outside [0, size).
static taps clipped(taps t, int64_t size) {
    const int64_t first = taps_low(&t), end = least(t.count, taps_high(&t, size));
    return (taps){most(0, end - first), t.k + first * t.k_step, t.k_step, t.at + first * t.at_step, t.at_step};
}

// Outputs `step` apart, in positions of the output, meet inputs a whole number of taps' steps apart, `in_step` of
// them: dilated rows and columns are several plain ones, `classes`.
typedef struct lattice {
    int64_t classes, step, in_step;
} lattice;

static lattice lattice_of(const solve *s, int axis) {
    const int64_t classes = s->at_step[axis] / common(s->in_step[axis], s->at_step[axis]);
    return (lattice){classes, s->out_step[axis] * classes, s->in_step[axis] * classes / s->at_step[axis]};
}

// Channel lanes.

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

// All lanes, or where `part` the first few: a mask where that is free, a branch elsewhere.
INLINE vec lanes_load(const elem *p, bool part, int64_t lanes) {
    return part && (LANES == 16 || lanes < LANES) ? elem_load_part(p, lanes) : elem_load(p);
}
INLINE void lanes_store(elem *p, vec v, bool part, int64_t lanes) {
    if (part && (LANES == 16 || lanes < LANES))
        elem_store_part(p, v, lanes);
    else
        elem_store(p, v);
}

// One row of input, for the rows of the tile that it belongs to.
INLINE void tile_walk(const int KW, const int S, const bool edge, const bool first, const bool second, const tile *t,
                      const elem *in, const float *w, int64_t w_back, int64_t low, int64_t high, vec acc[2][P]) {
    const int64_t pitch = t->w_taps.at_step * t->in_x[2], w_step = t->w_taps.k_step * LANES;
    if (KW > 0) {
        vec a[MAX_TAPS], b[MAX_TAPS];
        UNROLL for (int k = 0; k < KW; k++) {
            a[k] = first ? vec_load(w + k * w_step) : (vec){0};
            b[k] = second ? vec_load(w - w_back + k * w_step) : (vec){0};
        }
        UNROLL_ALL for (int c = 0; c < (P - 1) * S + KW; c++, in += pitch) {
            STEP(in);
            if (edge && (c < low || c >= high))
                continue;
            const vec x = lanes_load(in, edge, t->lanes);
            UNROLL for (int k = 0; k < KW; k++) if (c >= k && (c - k) % S == 0 && (c - k) / S < P) {
                if (first)
                    acc[0][(c - k) / S] += x * a[k];
                if (second)
                    acc[1][(c - k) / S] += x * b[k];
            }
        }
    } else {
        for (int64_t k = 0; k < t->w_taps.count; k++, in += pitch, w += w_step) {
            const vec a = first ? vec_load(w) : (vec){0}, b = second ? vec_load(w - w_back) : (vec){0};
            const elem *at = in;
            int64_t c = k;
            UNROLL for (int i = 0; i < P; i++, at += t->in_step * pitch, c += t->in_step) {
                STEP(at);
                if (edge && (c < low || c >= high))
                    continue;
                const vec x = lanes_load(at, edge, t->lanes);
                if (first)
                    acc[0][i] += x * a;
                if (second)
                    acc[1][i] += x * b;
            }
        }
    }
    UNROLL for (int r = 0; r < 2; r++) UNROLL for (int i = 0; i < P; i++) PIN(acc[r][i]);
}

INLINE void tile_run(const int KW, const int S, const bool edge, const tile *t) {
    vec acc[2][P];
    UNROLL for (int r = 0; r < 2; r++) UNROLL for (int i = 0; i < P; i++) acc[r][i] = (vec){0};
    // Columns of the walk that lie in the input.
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
                tile_walk(KW, S, edge, true, true, t, in, w, w_back, low, high, acc);
            else if (first)
                tile_walk(KW, S, edge, true, false, t, in, w, w_back, low, high, acc);
            else if (second)
                tile_walk(KW, S, edge, false, true, t, in, w, w_back, low, high, acc);
        }
    UNROLL for (int r = 0; r < 2; r++) {
        if (r == t->rows)
            break;
        UNROLL for (int i = 0; i < P; i++) if (!edge || i < t->pixels)
            lanes_store(t->out + r * t->out_row + i * t->out_step, acc[r][i] + t->bias, edge, t->lanes);
    }
}

typedef void tile_function(const tile *t);
#define TILE(KW, S)                                                                                                    \
    static void tile_k##KW##_s##S(const tile *t) { tile_run(KW, S, false, t); }                                        \
    static void edge_k##KW##_s##S(const tile *t) { tile_run(KW, S, true, t); }
TILE(0, 1)
TILE(2, 1)
TILE(3, 1)
TILE(5, 1)
TILE(7, 1)
TILE(3, 2)
TILE(5, 2)

static const struct row_of_tiles {
    int64_t taps, in_step;
    tile_function *inner, *edge;
} tiles[] = {
    {2, 1, tile_k2_s1, edge_k2_s1}, {3, 1, tile_k3_s1, edge_k3_s1}, {5, 1, tile_k5_s1, edge_k5_s1},
    {7, 1, tile_k7_s1, edge_k7_s1}, {3, 2, tile_k3_s2, edge_k3_s2}, {5, 2, tile_k5_s2, edge_k5_s2},
    {0, 0, tile_k0_s1, edge_k0_s1},
};

static const struct row_of_tiles *tiles_for(int64_t count, int64_t in_step) {
    const struct row_of_tiles *t = tiles;
    while (t->taps != 0 && (t->taps != count || t->in_step != in_step))
        t++;
    return t;
}

// Asks for the input rows that the next pair of rows is the first to meet, and for its outputs.
INLINE void prefetch_next(const solve *s, const tile *t, bool outputs) {
    const int64_t ahead = t->h.at + (t->h.count + t->shift) * t->h.at_step;
    for (int64_t y = ahead; y < least(ahead + 2 * s->in_step[1], t->in_size[1]); y++) {
        const elem *at = t->in + y * t->in_x[1] + most(0, t->w_taps.at) * t->in_x[2];
        for (int64_t i = 0; i < P * s->in_step[2]; i++)
            __builtin_prefetch(at + i * t->in_x[2], 0, 2);
    }
    for (int64_t r = 2; outputs && r < 4; r++)
        for (int64_t i = 0; i < P; i++)
            __builtin_prefetch(t->out + r * t->out_row + i * t->out_step, 1, 3);
}

// Rows of output [row, end), of one depth, over channels [0, G) from `in`, `out` and `bias` on.
static void lanes_rows(const solve *s, const elem *in, const float *packed, const elem *bias, elem *out, int64_t G,
                       int64_t d, int64_t row, int64_t end) {
    const int64_t *K = s->p->taps, width = s->out_size[2];
    const lattice rows = lattice_of(s, 1), columns = lattice_of(s, 2);
    tile t = {.in_x = s->in_x, .in_size = s->in_size, .w_x = {K[1] * K[2] * LANES, K[2] * LANES, LANES},
              .in_step = columns.in_step, .shift = rows.in_step, .out_row = rows.step * s->out_x[1],
              .out_step = columns.step * s->out_x[2]};
    t.d = clipped(taps_of(s, 0, d), s->in_size[0]);
    // Ask for the next pair of rows, where the tensors are beyond the second-level cache: 2.7 instead of 5.5 ms for
    // 16 images of 112x112x32.
    const bool far = rows.classes == 1 && columns.classes == 1 && s->p->N * s->in_n > FAR;
    for (int64_t pair = row; pair < end; pair += 2 * rows.step)
        for (int64_t h = pair; h < least(pair + rows.step, end); h++) {
            t.rows = h + rows.step < end ? 2 : 1;
            t.h = taps_of(s, 1, h);
            elem *line = out + d * s->out_x[0] + h * s->out_x[1];
            for (int64_t phase = 0; phase < least(s->out_step[2], width); phase++) {
                const taps first = taps_of(s, 2, phase);
                const struct row_of_tiles *kind = tiles_for(first.count, t.in_step);
                const int64_t walk = ((P - 1) * t.in_step + first.count - 1) * first.at_step;
                for (int64_t class = 0, start; class < columns.classes; class++) {
                    if ((start = phase + class * s->out_step[2]) >= width)
                        break;
                    for (int64_t o = start, q = class; o < width; o += P * columns.step, q += P * columns.classes) {
                        t.w_taps = first;
                        t.w_taps.at += q * s->in_step[2];
                        t.pixels = P;
                        if (o + (P - 1) * columns.step >= width)
                            t.pixels = over(width - o + columns.step - 1, columns.step);
                        const bool inner = t.pixels == P && t.w_taps.at >= 0 && t.w_taps.at + walk < t.in_size[2];
                        for (int64_t g = 0; g < G; g += LANES) {
                            t.lanes = least(LANES, G - g);
                            t.in = in + g, t.out = line + o * s->out_x[2] + g;
                            t.w = packed + g * K[0] * K[1] * K[2];
                            t.bias = bias ? lanes_load(bias + g, true, t.lanes) : (vec){0};
                            if (far)
                                prefetch_next(s, &t, h + 3 * rows.step < end);
                            (inner && t.lanes == LANES ? kind->inner : kind->edge)(&t);
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
} packing;

static int64_t volume(const int64_t x[3]) { return x[0] * x[1] * x[2]; }
// Whether positions of a tensor follow each other without gaps.
static bool dense(const int64_t size[3], const int64_t distance[3]) {
    return (size[2] == 1 || distance[2] == 1) && (size[1] == 1 || distance[1] == size[2]) &&
           (size[0] == 1 || distance[0] == size[1] * size[2]);
}

static void pack_block(const void *context, int64_t block, int64_t worker) {
    (void)worker;
    const packing *c = context;
    const opwright_problem *p = c->p;
    const int64_t count = volume(p->taps), lanes = least(LANES, p->G - block * LANES);
    const elem *from = c->weights + block * LANES * p->w_g;
    float *to = c->to + block * LANES * count;
    if (dense(p->taps, p->w_k)) {
        for (int64_t k = 0; k < count; k += LANES) {
            vec v[LANES];
            square_load(v, from + k, p->w_g, lanes, least(LANES, count - k));
            UNROLL for (int i = 0; i < LANES; i++) if (i < count - k)
                vec_store(to + (k + i) * LANES, v[i]);
        }
        return;
    }
    for (int64_t k = 0; k < count; k++) {
        const elem *tap = from + k / (p->taps[1] * p->taps[2]) * p->w_k[0] + k / p->taps[2] % p->taps[1] * p->w_k[1] +
                          k % p->taps[2] * p->w_k[2];
        vec v = {0};
        if (p->w_g == 1)
            v = lanes_load(tap, true, lanes);
        else
            for (int64_t i = 0; i < lanes; i++)
                v[i] = elem_get(tap + i * p->w_g);
        vec_store(to + k * LANES, v);
    }
}

// Channels of a plane side by side, as a tensor with channels last, and back.
static void interleave(const elem *from, int64_t channel, int64_t lanes, int64_t count, elem *to) {
    for (int64_t x = 0; x < count; x += LANES) {
        vec v[LANES];
        square_load(v, from + x, channel, lanes, least(LANES, count - x));
        UNROLL for (int i = 0; i < LANES; i++) if (i < count - x)
            elem_store(to + (x + i) * LANES, v[i]);
    }
}

static void separate(const elem *from, int64_t channel, int64_t lanes, int64_t count, elem *to) {
    for (int64_t x = 0; x < count; x += LANES) {
        vec v[LANES];
        UNROLL for (int i = 0; i < LANES; i++)
            v[i] = i < count - x ? elem_load(from + (x + i) * LANES) : (vec){0};
        vec_transpose(v);
        UNROLL for (int i = 0; i < LANES; i++) if (i < lanes)
            lanes_store(to + i * channel + x, v[i], true, least(LANES, count - x));
    }
}

// The problem of one block of channels whose planes were interleaved.
static opwright_problem interleaved(const opwright_problem *p, int64_t lanes) {
    opwright_problem q = *p;
    q.N = 1, q.G = lanes, q.big_c = q.small_c = 1;
    q.big_x[2] = q.small_x[2] = LANES;
    for (int a = 1; a >= 0; a--) {
        q.big_x[a] = q.big_x[a + 1] * p->big[a + 1];
        q.small_x[a] = q.small_x[a + 1] * p->small[a + 1];
    }
    return q;
}

static int64_t aligned(int64_t bytes) { return (bytes + 63) & ~(int64_t)63; }

// Width lanes.

// A call over width lanes. Output rows and columns are counted in q: out_step positions of the output are one q, its
// phases. A unit of work is a block of one plane; its input lies in scratch as [kd][row][residue of the column by
// in_step][column], widened, with zeros where there is no input, so that every tap is a vector at some offset.
enum {
    WIDTH_BYTES = 80 << 10,  // of a unit's input, where it is not one row
    WIDTH_COLUMNS = 2048,    // of a unit's output, in q
    WIDTH_ROWS = 4,          // at the least
    MAX_WIDTH_ROWS = 4, MAX_WIDTH_VECTORS = 2, // that there is text for
    FEW_REGISTERS = LANES == 8, // 16 of them: the weights stay in memory
    FINISH_CHANNELS = 64,
};
#if LANES == 16
#define EACH_LANE(f)                                                                                                   \
    f(0), f(1), f(2), f(3), f(4), f(5), f(6), f(7), f(8), f(9), f(10), f(11), f(12), f(13), f(14), f(15)
#elif LANES == 8
#define EACH_LANE(f) f(0), f(1), f(2), f(3), f(4), f(5), f(6), f(7)
#else
#define EACH_LANE(f) f(0), f(1), f(2), f(3)
#endif
#define EVEN_LANE(i) 2 * (i)
#define ODD_LANE(i) 2 * (i) + 1
#define ZIP_LOW(i) ((i) & 1 ? LANES + (i) / 2 : (i) / 2)
#define ZIP_HIGH(i) ((i) & 1 ? LANES + LANES / 2 + (i) / 2 : LANES / 2 + (i) / 2)

INLINE float vec_sum(vec v) {
    UNROLL for (int half = LANES / 2; half > 0; half /= 2) UNROLL for (int i = 0; i < half; i++) v[i] += v[i + half];
    return v[0];
}

typedef struct plan {
    int64_t low[2];        // input offset of the first tap of all phases, rows and columns
    int64_t blocks[2], q[2]; // blocks of a plane; q of a block
    int64_t lead, used;    // where a line of scratch begins, so that column 0 is aligned, and how long it is
    int64_t line, row, plane; // distances in scratch
    int64_t in_rows;
    int64_t in_columns;    // positions of a row that are filled from the tensor or with zeros
    int64_t depth;         // planes
    int64_t rows_bytes, own_bytes;
    int64_t units;         // of all planes
    int64_t task_units;
} plan;

typedef struct tap {
    int64_t offset;   // in scratch, from the place of the output
    int64_t row, column; // of the input, from the output's
    float w;
} tap;

// Lowest and highest input offset of any tap, from the input of its output's q.
static void reach(const solve *s, int axis, int64_t *low, int64_t *high) {
    *low = INT64_MAX, *high = INT64_MIN;
    for (int64_t phase = 0; phase < s->out_step[axis]; phase++) {
        const taps t = taps_of(s, axis, phase);
        if (t.count > 0) {
            *low = least(*low, t.at);
            *high = most(*high, t.at + (t.count - 1) * t.at_step);
        }
    }
    if (*low > *high)
        *low = *high = 0;
}

static plan plan_of(const solve *s) {
    plan c = {.depth = s->backward ? ceil_div(s->p->taps[0], s->k_step[0]) : s->p->taps[0]};
    int64_t high[2];
    for (int a = 0; a < 2; a++)
        reach(s, a + 1, &c.low[a], &high[a]);
    const int64_t columns = ceil_div(s->out_size[2], s->out_step[2]), rows = ceil_div(s->out_size[1], s->out_step[1]);
    c.blocks[1] = ceil_div(columns, WIDTH_COLUMNS);
    c.q[1] = ceil_div(columns, c.blocks[1]);
    c.in_columns = (c.q[1] - 1) * s->in_step[2] + high[1] - c.low[1] + 1;
    c.used = (ceil_div(c.q[1], LANES) + 1) * LANES + (high[1] - c.low[1]) / s->in_step[2] + 1;
    c.lead = c.low[1] < 0 ? (LANES - -c.low[1] / s->in_step[2] % LANES) % LANES : 0;
    c.line = ceil_div(c.lead + c.used + LANES, LANES) * LANES;
    c.row = c.line * s->in_step[2];
    if (c.row % 512 == 0)
        c.row += LANES;
    const int64_t halo = high[0] - c.low[0] + 1, fit = WIDTH_BYTES / 4 / (c.row * c.depth);
    int64_t q = (fit - halo) / s->in_step[1] + 1;
    q = least(rows, most(q, WIDTH_ROWS));
    c.blocks[0] = ceil_div(rows, q);
    c.q[0] = ceil_div(rows, c.blocks[0]);
    c.in_rows = (c.q[0] - 1) * s->in_step[1] + halo;
    c.plane = c.in_rows * c.row;
    c.rows_bytes = aligned(c.depth * c.plane * 4);
    c.units = s->out_size[0] * c.blocks[0] * c.blocks[1];
    c.task_units = most(1, TASK_OUTPUTS / 2 / (c.q[0] * c.q[1] * s->out_step[1] * s->out_step[2]));
    return c;
}

// Zeros where a block of scratch has no input: columns before `first` and from `end` on in rows [top, bottom), and all
// other rows.
static void clear_block(const solve *s, const plan *c, int64_t planes, int64_t top, int64_t bottom, int64_t first,
                        int64_t end, float *to) {
    const int64_t step = s->in_step[2];
    vec zero = {0};
    PIN(zero); // or gcc calls memset, for a vector or two
    for (int64_t r = 0; r < step; r++) {
        const int64_t low = first > r ? over(first - r + step - 1, step) : 0;
        const int64_t high = most(low, end > r ? over(end - r + step - 1, step) : 0);
        for (int64_t j = 0; j < planes; j++)
            for (int64_t i = 0; i < c->in_rows; i++) {
                float *line = to + j * c->plane + i * c->row + c->lead + r * c->line;
                const bool inside = i >= top && i < bottom;
                for (int64_t x = 0; x < (inside ? low : c->used); x += LANES)
                    vec_store(line + x, zero);
                for (int64_t x = high; inside && x < c->used; x += LANES)
                    vec_store(line + x, zero);
            }
    }
}

// `count` columns of a row, to positions from `first` on, split by their residue modulo `step`, `line` apart. Whole
// vectors are written, zeros past the last column.
INLINE void fill_row(const elem *row, int64_t first, int64_t count, int64_t step, int64_t line, float *to) {
    int64_t i = 0;
    if (step == 1) {
        for (; i + LANES <= count; i += LANES) {
            vec v = elem_load(row + i);
            PIN(v); // or gcc calls memcpy, for a vector or two
            vec_store(to + first + i, v);
        }
        if (i < count)
            vec_store(to + first + i, elem_load_part(row + i, count - i));
    } else if (step == 2) {
        float *even = to + first % 2 * line + first / 2, *odd = to + (first + 1) % 2 * line + (first + 1) / 2;
        for (; i + 2 * LANES <= count; i += 2 * LANES) {
            const vec a = elem_load(row + i), b = elem_load(row + i + LANES);
            vec_store(even + i / 2, SHUFFLE(a, b, EACH_LANE(EVEN_LANE)));
            vec_store(odd + i / 2, SHUFFLE(a, b, EACH_LANE(ODD_LANE)));
        }
        if (i < count) {
            const vec a = lanes_load(row + i, true, least(LANES, count - i));
            const vec b = count - i > LANES ? elem_load_part(row + i + LANES, count - i - LANES) : (vec){0};
            vec_store(even + i / 2, SHUFFLE(a, b, EACH_LANE(EVEN_LANE)));
            vec_store(odd + i / 2, SHUFFLE(a, b, EACH_LANE(ODD_LANE)));
        }
    } else {
        for (; i < count; i++)
            to[(first + i) % step * line + (first + i) / step] = elem_get(row + i);
    }
}

// Asks for `count` elements.
INLINE void prefetch(const elem *p, int64_t count, const int write) {
    for (int64_t i = 0; i < count; i += 64 / (int64_t)sizeof *p)
        write ? __builtin_prefetch(p + i, 1, 3) : __builtin_prefetch(p + i, 0, 2);
}

// The input of a block of one plane, for the taps `d` of its depth. `clear`: the zeros around it are there, left by a
// block in the same place.
static void fill_block(const solve *s, const plan *c, const elem *in, const taps *d, int64_t q_row, int64_t q_column,
                       bool clear, float *to) {
    const int64_t x = q_column * s->in_step[2] + c->low[1], y = q_row * s->in_step[1] + c->low[0];
    const int64_t first = least(c->in_columns, most(0, -x));
    const int64_t end = most(first, least(c->in_columns, s->in_size[2] - x));
    const int64_t top = least(c->in_rows, most(0, -y)), bottom = most(top, least(c->in_rows, s->in_size[1] - y));
    if (!clear)
        clear_block(s, c, d->count, top, bottom, first, end, to);
    if (first == end)
        return;
    for (int64_t j = 0; j < d->count; j++)
        for (int64_t i = top; i < bottom; i++)
            fill_row(in + (d->at + j * d->at_step) * s->in_x[0] + (y + i) * s->in_x[1] + x + first, first, end - first,
                     s->in_step[2], c->line, to + j * c->plane + i * c->row + c->lead);
}

INLINE int64_t place(const solve *s, const plan *c, int64_t column) {
    const int64_t at = column - c->low[1], step = s->in_step[2];
    return c->lead + (step == 1 ? at : at % step * c->line + at / step);
}

// R rows of output by a KH x KW kernel at once, S rows of input apart: each vector of input feeds all rows it belongs
// to. `column[kw]` is the place of a tap.
INLINE void width_run(const int KH, const int KW, const int S, const int R, const int C, const float *in, int64_t row,
                      const int64_t *column, const float *w, vec bias, int64_t count, elem *out, int64_t out_row) {
    vec weights[MAX_TAPS * MAX_TAPS];
    UNROLL_ALL for (int k = 0; k < KH * KW; k++) weights[k] = vec_splat(w[k]);
    for (int64_t q = 0; q < count; q += C * LANES) {
        // The last vectors of a row end where it ends, those before it notwithstanding.
        if (q > 0 && q + C * LANES > count)
            q = count - C * LANES;
        vec acc[MAX_WIDTH_ROWS][MAX_WIDTH_VECTORS];
        UNROLL for (int r = 0; r < R; r++) UNROLL for (int v = 0; v < C; v++) acc[r][v] = (vec){0};
        UNROLL for (int i = 0; i < (R - 1) * S + KH; i++) UNROLL for (int k = 0; k < KW; k++) {
            vec x[MAX_WIDTH_VECTORS];
            UNROLL for (int v = 0; v < C; v++) x[v] = vec_load(in + i * row + column[k] + q + v * LANES);
            UNROLL for (int r = 0; r < R; r++) if (i >= r * S && i - r * S < KH)
                UNROLL for (int v = 0; v < C; v++) acc[r][v] += x[v] * weights[(i - r * S) * KW + k];
        }
        UNROLL for (int r = 0; r < R; r++) UNROLL for (int v = 0; v < C; v++) {
            elem *to = out + r * out_row + q + v * LANES;
            if (count >= C * LANES)
                elem_store(to, acc[r][v] + bias);
            else if (count > v * LANES)
                lanes_store(to, acc[r][v] + bias, true, least(LANES, count - v * LANES));
        }
    }
}

typedef void width_function(const float *in, int64_t row, const int64_t *column, const float *w, vec bias,
                            int64_t count, elem *out, int64_t out_row);
#define WIDTH(K, S, R, C)                                                                                              \
    static void width_k##K##_s##S(const float *in, int64_t row, const int64_t *column, const float *w, vec bias,       \
                                  int64_t count, elem *out, int64_t out_row) {                                         \
        width_run(K, K, S, R, C, in, row, column, w, bias, count, out, out_row);                                       \
    }
WIDTH(3, 1, 4, 1)
WIDTH(3, 2, 2, 1)
WIDTH(5, 1, 4, FEW_REGISTERS + 1)
WIDTH(5, 2, 2, FEW_REGISTERS + 1)
WIDTH(7, 1, 4, 2)

static const struct row_of_widths {
    int64_t taps, in_step, rows;
    width_function *run;
} widths[] = {{3, 1, 4, width_k3_s1}, {3, 2, 2, width_k3_s2}, {5, 1, 4, width_k5_s1}, {5, 2, 2, width_k5_s2},
              {7, 1, 4, width_k7_s1}};

// The first `count` lanes, of these the ones whose column at + lane*step lies in [0, size); else 0.
INLINE vec within(vec v, int64_t at, int64_t step, int64_t size, int64_t count) {
    UNROLL for (int i = 0; i < LANES; i++) if (i >= count || (uint64_t)(at + i * step) >= (uint64_t)size) v[i] = 0;
    return v;
}

// C vectors of one row of output from q on, all taps. `exact` leaves out taps that fall outside, one lane by one.
INLINE void taps_sum(const int C, const bool exact, const solve *s, const tap *t, int64_t count, const float *in,
                     int64_t row, int64_t q_column, int64_t q, vec acc[C]) {
    for (int64_t i = 0; i < count; i++) {
        const vec w = vec_splat(t[i].w);
        if (exact && (uint64_t)(row * s->in_step[1] + t[i].row) >= (uint64_t)s->in_size[1])
            continue;
        UNROLL for (int v = 0; v < C; v++) {
            const vec x = vec_load(in + t[i].offset + q + v * LANES);
            if (!exact) {
                acc[v] += x * w;
                continue;
            }
            const int64_t at = (q_column + q + v * LANES) * s->in_step[2] + t[i].column;
            acc[v] += within(x * w, at, s->in_step[2], s->in_size[2], LANES);
        }
        UNROLL for (int v = 0; v < C; v++) PIN(acc[v]);
    }
}

// C vectors of a row of output from q on, of which `pixels` are in the row.
INLINE void row_vectors(const int C, const bool exact, const solve *s, const tap *list, const int64_t *ends,
                        const float *in, int64_t row, int64_t q_column, int64_t q, int64_t pixels, vec bias,
                        elem *out) {
    const int64_t phases = s->out_step[2];
    if (phases == 1) {
        vec acc[MAX_WIDTH_ROWS] = {{0}};
        taps_sum(C, exact, s, list, ends[0], in, row, q_column, q, acc);
        UNROLL for (int v = 0; v < C; v++) {
            const int64_t left = pixels - q - v * LANES;
            if (left > 0)
                lanes_store(out + q + v * LANES, acc[v] + bias, left < LANES, least(LANES, left));
        }
    } else if (phases == 2) {
        vec a[MAX_WIDTH_ROWS] = {{0}}, b[MAX_WIDTH_ROWS] = {{0}};
        taps_sum(C, exact, s, list, ends[0], in, row, q_column, q, a);
        taps_sum(C, exact, s, list + ends[0], ends[1] - ends[0], in, row, q_column, q, b);
        UNROLL for (int v = 0; v < C; v++) {
            const vec low = SHUFFLE(a[v], b[v], EACH_LANE(ZIP_LOW)), high = SHUFFLE(a[v], b[v], EACH_LANE(ZIP_HIGH));
            const int64_t left = pixels - 2 * (q + v * LANES);
            elem *to = out + 2 * (q + v * LANES);
            if (left > 0)
                lanes_store(to, low + bias, left < LANES, least(LANES, left));
            if (left > LANES)
                lanes_store(to + LANES, high + bias, left < 2 * LANES, least(LANES, left - LANES));
        }
    } else {
        for (int64_t phase = 0, first = 0; phase < phases; first = ends[phase], phase++) {
            vec acc[MAX_WIDTH_ROWS] = {{0}};
            taps_sum(C, exact, s, list + first, ends[phase] - first, in, row, q_column, q, acc);
            UNROLL for (int v = 0; v < C; v++)
                for (int64_t i = 0; i < LANES && (q + v * LANES + i) * phases + phase < pixels; i++)
                    elem_put(out + (q + v * LANES + i) * phases + phase, acc[v][i] + bias[0]);
        }
    }
}

// One row of output, `count` q of it, from its phases' taps.
static void rows_fast(const solve *s, const tap *list, const int64_t *ends, const float *in, int64_t row,
                      int64_t q_column, int64_t count, int64_t pixels, vec bias, elem *out) {
    int64_t q = 0;
    for (; count - q > LANES; q += 2 * LANES)
        row_vectors(2, false, s, list, ends, in, row, q_column, q, pixels, bias, out);
    if (q < count)
        row_vectors(1, false, s, list, ends, in, row, q_column, q, pixels, bias, out);
}
static void rows_exact(const solve *s, const tap *list, const int64_t *ends, const float *in, int64_t row,
                       int64_t q_column, int64_t count, int64_t pixels, vec bias, elem *out) {
    for (int64_t q = 0; q < count; q += LANES)
        row_vectors(1, true, s, list, ends, in, row, q_column, q, pixels, bias, out);
}

// The output of a unit whose input is in `rows`. weights: [kd][kh][kw]; list: room for all taps, ends: for all phases.
static void width_block(const solve *s, const plan *c, const float *rows, const taps *d, const float *weights,
                        bool special, vec bias, elem *out, int64_t q_row, int64_t q_column, tap *list, int64_t *ends) {
    const int64_t *K = s->p->taps, columns = least(c->q[1], ceil_div(s->out_size[2], s->out_step[2]) - q_column);
    const int64_t pixels = least(columns * s->out_step[2], s->out_size[2] - q_column * s->out_step[2]);
    for (int64_t residue = 0; residue < least(s->out_step[1], s->out_size[1]); residue++) {
        const taps h = taps_of(s, 1, residue);
        const int64_t end = least(q_row + c->q[0], ceil_div(s->out_size[1] - residue, s->out_step[1]));
        elem *line = out + residue * s->out_x[1] + q_column * s->out_step[2];
        // The usual kernels, several rows of a lattice at once.
        const lattice rows_of = lattice_of(s, 1);
        const struct row_of_widths *kind = widths, *last = widths + sizeof widths / sizeof *widths;
        while (kind < last && (kind->taps != h.count || kind->taps != K[2] || kind->in_step != rows_of.in_step))
            kind++;
        if (kind < last && (end - q_row) / rows_of.classes >= kind->rows && K[0] == 1 && d->count == 1 && !special &&
            s->out_step[1] == 1 && s->out_step[2] == 1) {
            const taps w = taps_of(s, 2, 0);
            int64_t column[MAX_TAPS];
            float ordered[MAX_TAPS * MAX_TAPS];
            for (int64_t k = 0; k < w.count; k++)
                column[k] = place(s, c, w.at + k * w.at_step);
            for (int64_t i = 0; i < h.count; i++)
                for (int64_t k = 0; k < w.count; k++)
                    ordered[i * w.count + k] = weights[(h.k + i * h.k_step) * K[2] + w.k + k * w.k_step];
            for (int64_t class = 0; class < rows_of.step; class++) {
                // The last rows end where the block ends, those before them notwithstanding.
                const int64_t members = (end - q_row - class + rows_of.step - 1) / rows_of.step;
                for (int64_t i = 0; i < members; i += kind->rows) {
                    i = least(i, members - kind->rows);
                    const int64_t row = q_row + class + i * rows_of.step;
                    kind->run(rows + ((row - q_row) * s->in_step[1] + h.at - c->low[0]) * c->row, h.at_step * c->row,
                              column, ordered, bias, columns, line + row * s->out_x[1], rows_of.step * s->out_x[1]);
                }
            }
            continue;
        }
        int64_t count = 0;
        for (int64_t phase = 0; phase < s->out_step[2]; phase++) {
            const taps w = taps_of(s, 2, phase);
            for (int64_t i = 0; i < d->count; i++)
                for (int64_t j = 0; j < h.count; j++)
                    for (int64_t k = 0; k < w.count; k++) {
                        tap *t = &list[count++];
                        t->row = h.at + j * h.at_step, t->column = w.at + k * w.at_step;
                        t->offset = i * c->plane + (t->row - c->low[0]) * c->row + place(s, c, t->column);
                        t->w = weights[((d->k + i * d->k_step) * K[1] + h.k + j * h.k_step) * K[2] + w.k +
                                       k * w.k_step];
                    }
            ends[phase] = count;
        }
        for (int64_t row = q_row; row < end; row++)
            (special ? rows_exact : rows_fast)(s, list, ends, rows + (row - q_row) * s->in_step[1] * c->row, row,
                                               q_column, columns, pixels, bias,
                                               line + row * s->out_step[1] * s->out_x[1]);
    }
}

typedef struct width_call {
    solve s;
    plan plan;
    const elem *in, *weights, *bias;
    elem *out;
    char *own;
} width_call;

// Where in the call a unit is.
typedef struct unit {
    int64_t n, g, d, q_row, q_column;
} unit;

static unit unit_of(const plan *c, const opwright_problem *p, int64_t number) {
    unit u;
    u.q_column = number % c->blocks[1] * c->q[1], number /= c->blocks[1];
    u.q_row = number % c->blocks[0] * c->q[0], number /= c->blocks[0];
    const int64_t depth = c->units / c->blocks[0] / c->blocks[1];
    u.d = number % depth, number /= depth;
    u.g = number % p->G, u.n = number / p->G;
    return u;
}

static bool same_place(const unit *a, const unit *b) { return a->q_row == b->q_row && a->q_column == b->q_column; }

static const elem *tap_of(const opwright_problem *p, const elem *weights, int64_t k) {
    return weights + k / (p->taps[1] * p->taps[2]) * p->w_k[0] + k / p->taps[2] % p->taps[1] * p->w_k[1] +
           k % p->taps[2] * p->w_k[2];
}

static void width_task(const void *context, int64_t task, int64_t worker) {
    const width_call *c = context;
    const solve *s = &c->s;
    const opwright_problem *p = s->p;
    const plan *b = &c->plan;
    char *own = c->own + worker * b->own_bytes;
    float *rows = (float *)(void *)own, *weights = (float *)(void *)(own + b->rows_bytes);
    tap *list = (tap *)(void *)((char *)weights + aligned(volume(p->taps) * 4));
    int64_t *ends = (int64_t *)(void *)(list + volume(p->taps));
    const int64_t all = p->N * p->G * b->units, end = least(all, (task + 1) * b->task_units);
    int64_t known = -1;  // whose weights are there
    bool special = false;
    unit last = {.q_row = -1};
    int64_t planes = 0;
    for (int64_t number = task * b->task_units; number < end; number++) {
        const unit u = unit_of(b, p, number);
        if (u.g != known) {
            known = u.g, special = false;
            const elem *from = c->weights + u.g * p->w_g;
            int64_t k = 0;
            for (int64_t kd = 0; kd < p->taps[0]; kd++)
                for (int64_t kh = 0; kh < p->taps[1]; kh++)
                    for (int64_t kw = 0; kw < p->taps[2]; kw++, k++) {
                        weights[k] = elem_get(from + kd * p->w_k[0] + kh * p->w_k[1] + kw * p->w_k[2]);
                        special |= !isfinite(weights[k]);
                    }
        }
        const taps d = clipped(taps_of(s, 0, u.d), s->in_size[0]);
        fill_block(s, b, c->in + u.n * s->in_n + u.g * s->in_c, &d, u.q_row, u.q_column,
                   same_place(&u, &last) && d.count <= planes, rows);
        last = u, planes = d.count;
        if (p->N * s->in_n > FAR && volume(p->taps) <= FEW_TAPS) {
            // Memory is slower than so few products: 3.3 instead of 3.8 ms for 16 images of 32x112x112.
            const int64_t first = u.q_row * s->out_step[1];
            const int64_t rows = least(b->q[0] * s->out_step[1], s->out_size[1] - first);
            prefetch(c->out + u.n * s->out_n + u.g * s->out_c + u.d * s->out_x[0] + first * s->out_x[1],
                     rows * s->out_x[1], 1);
            if (u.g + 1 < p->G && b->units == 1)
                prefetch(c->in + u.n * s->in_n + (u.g + 1) * s->in_c, s->in_c, 0);
        }
        width_block(s, b, rows, &d, weights, special, vec_splat(c->bias ? elem_get(c->bias + u.g) : 0),
                    c->out + u.n * s->out_n + u.g * s->out_c + u.d * s->out_x[0], u.q_row, u.q_column, list, ends);
    }
}

static void width_solve(const width_call *c, const opwright_team *team) {
    opwright_run(team, width_task, c, ceil_div(c->s.p->N * c->s.p->G * c->plan.units, c->plan.task_units));
}

// Weights over width lanes: KH x KW taps of rows S apart, R rows of dy at once so that each vector of input serves all
// of them. Lanes are added up at the end.
INLINE void width_w_run(const int KH, const int KW, const int S, const int R, const float *in, int64_t row,
                        int64_t row_step, const int64_t *column, const elem *dy, int64_t dy_row, int64_t rows,
                        int64_t count, float *sum, int64_t sum_row) {
    vec acc[MAX_ROWS][MAX_TAPS];
    UNROLL for (int i = 0; i < KH; i++) UNROLL for (int k = 0; k < KW; k++) acc[i][k] = (vec){0};
    int64_t o = 0;
    for (; o + R <= rows; o += R)
        for (int64_t q = 0; q < count; q += LANES) {
            const float *at = in + o * row_step + q;
            vec y[MAX_WIDTH_ROWS];
            UNROLL for (int r = 0; r < R; r++) y[r] = q + LANES <= count
                                                          ? elem_load(dy + (o + r) * dy_row + q)
                                                          : elem_load_part(dy + (o + r) * dy_row + q, count - q);
            UNROLL for (int i = 0; i < (R - 1) * S + KH; i++) UNROLL for (int k = 0; k < KW; k++) {
                const vec x = vec_load(at + i * row + column[k]);
                UNROLL for (int r = 0; r < R; r++) if (i >= r * S && i - r * S < KH) acc[i - r * S][k] += x * y[r];
            }
            UNROLL for (int i = 0; i < KH; i++) UNROLL for (int k = 0; k < KW; k++) PIN(acc[i][k]);
        }
    for (; R > 1 && o < rows; o++)
        for (int64_t q = 0; q < count; q += LANES) {
            const float *at = in + o * row_step + q;
            const vec y = q + LANES <= count ? elem_load(dy + o * dy_row + q)
                                             : elem_load_part(dy + o * dy_row + q, count - q);
            UNROLL for (int i = 0; i < KH; i++) UNROLL for (int k = 0; k < KW; k++)
                acc[i][k] += vec_load(at + i * row + column[k]) * y;
            UNROLL for (int i = 0; i < KH; i++) UNROLL for (int k = 0; k < KW; k++) PIN(acc[i][k]);
        }
    UNROLL for (int i = 0; i < KH; i++) UNROLL for (int k = 0; k < KW; k++) sum[i * sum_row + k] += vec_sum(acc[i][k]);
}

typedef void width_w_function(const float *in, int64_t row, int64_t row_step, const int64_t *column, const elem *dy,
                              int64_t dy_row, int64_t rows, int64_t count, float *sum, int64_t sum_row);
#define WIDTH_W(NAME, KH, KW, S, R)                                                                                    \
    static void NAME(const float *in, int64_t row, int64_t row_step, const int64_t *column, const elem *dy,            \
                     int64_t dy_row, int64_t rows, int64_t count, float *sum, int64_t sum_row) {                       \
        width_w_run(KH, KW, S, R, in, row, row_step, column, dy, dy_row, rows, count, sum, sum_row);                   \
    }
WIDTH_W(width_w_3x3_s1, 3, 3, 1, 4)
WIDTH_W(width_w_3x3_s2, 3, 3, 2, 2)
WIDTH_W(width_w_3x3, 3, 3, 1, 1)
WIDTH_W(width_w_5x5_s1, ROWS_OF_5, 5, 1, 4)
WIDTH_W(width_w_5x5_s2, ROWS_OF_5, 5, 2, 2)
WIDTH_W(width_w_5x5, ROWS_OF_5, 5, 1, 1)
WIDTH_W(width_w_7x7_s1, ROWS_OF_7, 7, 1, 4)
WIDTH_W(width_w_7x7, ROWS_OF_7, 7, 1, 1)
WIDTH_W(width_w_7, 1, 7, 1, 1)
WIDTH_W(width_w_5, 1, 5, 1, 1)
WIDTH_W(width_w_3, 1, 3, 1, 1)
WIDTH_W(width_w_1, 1, 1, 1, 1)

static const struct row_of_width_blocks {
    int64_t rows, columns;
    int64_t stride;  // of undilated rows; 0: any, dilated ones too
    bool alone;      // only for kernels of just that width
    width_w_function *run;
} width_w_blocks[] = {
    {3, 3, 1, true, width_w_3x3_s1}, {3, 3, 2, true, width_w_3x3_s2}, {3, 3, 0, true, width_w_3x3},
    {ROWS_OF_5, 5, 1, true, width_w_5x5_s1}, {ROWS_OF_5, 5, 2, true, width_w_5x5_s2},
    {ROWS_OF_5, 5, 0, true, width_w_5x5}, {ROWS_OF_7, 7, 1, true, width_w_7x7_s1},
    {ROWS_OF_7, 7, 0, true, width_w_7x7}, {1, 7, 0, false, width_w_7}, {1, 5, 0, false, width_w_5},
    {1, 3, 0, false, width_w_3}, {1, 1, 0, false, width_w_1},
};

typedef struct width_w_call {
    solve s;
    plan plan;
    const elem *big, *small;
    elem *weights;
    float *sums;     // [chunk][g][k]
    char *own;
    int64_t chunks, chunk_units, channels; // channels of a task
} width_w_call;

// One tap, the products that have an input alone.
static float width_w_exact(const solve *s, const float *in, int64_t row, const elem *dy, int64_t rows, int64_t count,
                           int64_t y, int64_t x) {
    vec acc = {0};
    for (int64_t o = 0; o < rows; o++, y += s->in_step[1], in += row) {
        if ((uint64_t)y >= (uint64_t)s->in_size[1])
            continue;
        for (int64_t q = 0; q < count; q += LANES) {
            const vec product = vec_load(in + q) * lanes_load(dy + o * s->out_x[1] + q, true, least(LANES, count - q));
            acc += within(product, x + q * s->in_step[2], s->in_step[2], s->in_size[2], count - q);
        }
    }
    return vec_sum(acc);
}

static void width_w_unit(const solve *s, const plan *c, const float *in, const taps *d, const elem *dy, unit u,
                         bool exact, float *sum) {
    const opwright_problem *p = s->p;
    const int64_t *K = p->taps, rows = least(c->q[0], s->out_size[1] - u.q_row);
    const int64_t count = least(c->q[1], s->out_size[2] - u.q_column), D = p->dilation[1];
    const elem *from = dy + u.q_row * s->out_x[1] + u.q_column;
    memset(sum, 0, (size_t)volume(K) * 4);
    for (int64_t j = 0; j < d->count; j++)
        for (int64_t h = 0, several; h < K[1]; h += several) {
            several = 1;
            for (int64_t w = 0, columns; w < K[2]; w += columns) {
                const int64_t first = w * p->dilation[2] - p->pad[2];
                const float *at = in + j * c->plane + h * D * c->row;
                float *to = sum + ((d->k + j) * K[1] + h) * K[2] + w;
                if (exact) {
                    columns = 1;
                    *to = width_w_exact(s, at + place(s, c, first), s->in_step[1] * c->row, from, rows, count,
                                        u.q_row * s->in_step[1] + h * D - p->pad[1],
                                        u.q_column * s->in_step[2] + first);
                    continue;
                }
                const struct row_of_width_blocks *b = width_w_blocks;
                while (b->rows > K[1] - h || b->columns > K[2] - w || (b->alone && b->columns != K[2]) ||
                       (b->stride != 0 && (b->stride != s->in_step[1] || D != 1)))
                    b++;
                several = b->rows, columns = b->columns;
                int64_t column[MAX_TAPS];
                for (int64_t k = 0; k < columns; k++)
                    column[k] = place(s, c, first + k * p->dilation[2]);
                b->run(at, D * c->row, s->in_step[1] * c->row, column, from, s->out_x[1], rows, count, to, K[2]);
            }
        }
}

static void width_w_task(const void *context, int64_t task, int64_t worker) {
    const width_w_call *c = context;
    const solve *s = &c->s;
    const plan *b = &c->plan;
    const opwright_problem *p = s->p;
    const int64_t K = volume(p->taps), groups = ceil_div(p->G, c->channels), chunk = task / groups;
    float *rows = (float *)(void *)(c->own + worker * b->own_bytes), *part = rows + b->rows_bytes / 4;
    unit last = {.q_row = -1};
    int64_t planes = 0;
    for (int64_t g = task % groups * c->channels, end = least(p->G, g + c->channels); g < end; g++) {
        float *sum = c->sums + (chunk * p->G + g) * K;
        memset(sum, 0, (size_t)K * 4);
        for (int64_t i = chunk * c->chunk_units; i < least(p->N * b->units, (chunk + 1) * c->chunk_units); i++) {
            const int64_t n = i / b->units;
            const unit u = unit_of(b, p, (n * p->G + g) * b->units + i % b->units);
            const taps d = clipped(taps_of(s, 0, u.d), s->in_size[0]);
            const elem *dy = c->small + n * p->small_n + g * p->small_c + u.d * p->small_x[0];
            fill_block(s, b, c->big + n * p->big_n + g * p->big_c, &d, u.q_row, u.q_column,
                       same_place(&u, &last) && d.count <= planes, rows);
            last = u, planes = d.count;
            // 3.5 instead of 5.0 ms for 16 images of 32x112x112.
            if (p->N * p->big_n > FAR && n + 1 < p->N && b->units == 1) {
                prefetch(c->big + (n + 1) * p->big_n + g * p->big_c, p->big_c, 0);
                prefetch(dy + p->small_n, p->small_c, 0);
            }
            width_w_unit(s, b, rows, &d, dy, u, false, part);
            // A zero beside the input times Inf or NaN: again, without the zeros.
            bool finite = true;
            for (int64_t k = 0; k < K; k++)
                finite &= !isnan(part[k]);
            if (!finite)
                width_w_unit(s, b, rows, &d, dy, u, true, part);
            for (int64_t k = 0; k < K; k++)
                sum[k] += part[k];
        }
    }
}

static void width_w_finish(const void *context, int64_t task, int64_t worker) {
    (void)worker;
    const width_w_call *c = context;
    const opwright_problem *p = c->s.p;
    const int64_t K = volume(p->taps);
    for (int64_t g = task * FINISH_CHANNELS; g < least(p->G, (task + 1) * FINISH_CHANNELS); g++) {
        int64_t k = 0;
        for (int64_t kd = 0; kd < p->taps[0]; kd++)
            for (int64_t kh = 0; kh < p->taps[1]; kh++)
                for (int64_t kw = 0; kw < p->taps[2]; kw++, k++) {
                    float sum = 0;
                    for (int64_t chunk = 0; chunk < c->chunks; chunk++)
                        sum += c->sums[(chunk * p->G + g) * K + k];
                    elem_put(c->weights + g * p->w_g + kd * p->w_k[0] + kh * p->w_k[1] + kw * p->w_k[2], sum);
                }
    }
}

// Choice and calls.

static bool channels_last(const opwright_problem *p) { return p->big_c == 1 && p->small_c == 1; }

bool depthwise_fits(const opwright_problem *p) {
    return p->A == 1 && p->B == 1 &&
           (channels_last(p) || (dense(p->big, p->big_x) && dense(p->small, p->small_x)));
}

static int64_t packed_bytes(const opwright_problem *p) { return ceil_div(p->G, LANES) * LANES * volume(p->taps) * 4; }
static int64_t plane_bytes(const int64_t size[3]) { return aligned(volume(size) * LANES * (int64_t)sizeof(elem)); }

typedef struct call {
    solve s;
    const elem *in, *bias;
    elem *out;
    const float *packed;
    char *own;  // of the first worker
    int64_t own_bytes;
    int64_t rows, row_tasks, block_tasks;
} call;

static void last_task(const void *context, int64_t task, int64_t worker) {
    (void)worker;
    const call *c = context;
    const solve *s = &c->s;
    const int64_t first = task % c->block_tasks * TASK_BLOCKS * LANES, G = least(TASK_BLOCKS * LANES, s->p->G - first);
    task /= c->block_tasks;
    const int64_t row = task % c->row_tasks * c->rows, d = task / c->row_tasks % s->out_size[0];
    const int64_t n = task / c->row_tasks / s->out_size[0];
    lanes_rows(s, c->in + n * s->in_n + first, c->packed + first * volume(s->p->taps), c->bias ? c->bias + first : 0,
               c->out + n * s->out_n + first, G, d, row, least(s->out_size[1], row + c->rows));
}

static void first_task(const void *context, int64_t task, int64_t worker) {
    const call *c = context;
    const solve *s = &c->s;
    const opwright_problem *p = s->p;
    const int64_t blocks = ceil_div(p->G, LANES), n = task / blocks, g = task % blocks * LANES;
    const int64_t lanes = least(LANES, p->G - g);
    elem *in = (elem *)(void *)(c->own + worker * c->own_bytes);
    elem *out = (elem *)(void *)((char *)in + plane_bytes(s->in_size));
    elem bias[LANES] = {0};
    if (c->bias)
        memcpy(bias, c->bias + g, (size_t)lanes * sizeof *bias);
    interleave(c->in + n * s->in_n + g * s->in_c, s->in_c, lanes, volume(s->in_size), in);
    if (p->N * s->in_n > FAR) {
        // What the next task reads, and this one's output, while it computes.
        const int64_t next = g + LANES;
        prefetch(c->in + n * s->in_n + next * s->in_c, most(0, least(LANES, p->G - next)) * volume(s->in_size), 0);
        prefetch(c->out + n * s->out_n + g * s->out_c, lanes * volume(s->out_size), 1);
    }
    const opwright_problem q = interleaved(p, LANES);
    const solve inner = solve_of(&q, s->backward);
    for (int64_t d = 0; d < s->out_size[0]; d++)
        lanes_rows(&inner, in, c->packed + g * volume(p->taps), bias, out, LANES, d, 0, s->out_size[1]);
    separate(out, s->out_c, lanes, volume(s->out_size), c->out + n * s->out_n + g * s->out_c);
}

// Whether planes are so narrow that they would fill few lanes, and small enough to be transposed whole.
static bool few_columns(const opwright_problem *p, int64_t columns) {
    return columns < LANES && p->G >= LANES / 2 && volume(p->big) + volume(p->small) <= NARROW_PIXELS;
}
static bool wide(const solve *s) {
    return !channels_last(s->p) && !few_columns(s->p, ceil_div(s->out_size[2], s->out_step[2]));
}

static int64_t width_own(const solve *s, const plan *c) {
    const int64_t K = volume(s->p->taps);
    return c->rows_bytes + aligned(K * 4) + aligned(K * (int64_t)sizeof(tap) + s->out_step[2] * 8);
}

static int64_t scratch_of(const opwright_problem *p, bool backward, int64_t workers) {
    const solve s = solve_of(p, backward);
    if (wide(&s)) {
        const plan c = plan_of(&s);
        return workers * width_own(&s, &c);
    }
    return aligned(packed_bytes(p)) + (channels_last(p) ? 0 : workers * (plane_bytes(p->big) + plane_bytes(p->small)));
}

static void run(const opwright_problem *p, bool backward, const elem *in, const elem *weights, const elem *bias,
                elem *out, const opwright_team *team, void *scratch) {
    const solve s = solve_of(p, backward);
    if (wide(&s)) {
        width_call c = {s, plan_of(&s), in, weights, bias, out, scratch};
        c.plan.own_bytes = width_own(&s, &c.plan);
        width_solve(&c, team);
        return;
    }
    const packing pack = {p, weights, scratch};
    const int64_t blocks = ceil_div(p->G, LANES);
    opwright_run(team, pack_block, &pack, blocks);
    call c = {.s = s, .in = in, .bias = bias, .out = out, .packed = scratch,
              .own = (char *)scratch + aligned(packed_bytes(p)),
              .own_bytes = plane_bytes(p->big) + plane_bytes(p->small)};
    if (!channels_last(p)) {
        opwright_run(team, first_task, &c, p->N * blocks);
        return;
    }
    const int64_t pairs = 2 * lattice_of(&s, 1).step, wide = s.out_size[2] * least(p->G, TASK_BLOCKS * LANES);
    c.rows = ceil_div(ceil_div(TASK_OUTPUTS, wide), pairs) * pairs;
    c.row_tasks = ceil_div(s.out_size[1], c.rows);
    c.block_tasks = ceil_div(blocks, TASK_BLOCKS);
    opwright_run(team, last_task, &c, p->N * s.out_size[0] * c.row_tasks * c.block_tasks);
}

void depthwise_y(const opwright_problem *p, const elem *big, const elem *weights, const elem *bias, elem *small,
                 const opwright_team *team, void *scratch) {
    run(p, false, big, weights, bias, small, team, scratch);
}
void depthwise_x(const opwright_problem *p, const elem *small, const elem *weights, const elem *bias, elem *big,
                 const opwright_team *team, void *scratch) {
    run(p, true, small, weights, bias, big, team, scratch);
}
int64_t depthwise_y_scratch(const opwright_problem *p, int64_t workers) { return scratch_of(p, false, workers); }
int64_t depthwise_x_scratch(const opwright_problem *p, int64_t workers) { return scratch_of(p, true, workers); }

// Weights.

enum { SUM_PIXELS = 128, W_BLOCKS = 16 }; // of a round; of a task

// KH x KW taps from (kd, kh, kw) on over rows [row, end), added to sum[kd][kh][kw][LANES].
INLINE void w_run(const int KH, const int KW, const opwright_problem *p, const elem *big, const elem *small,
                  int64_t lanes, const int64_t k[3], int64_t row, int64_t end, float *sum) {
    vec acc[MAX_ROWS][MAX_TAPS];
    UNROLL for (int i = 0; i < KH; i++) UNROLL for (int j = 0; j < KW; j++) acc[i][j] = (vec){0};
    const bool part = lanes < LANES;
    const int64_t S = p->stride[2], D = p->dilation[2], column = k[2] * D - p->pad[2];
    const int64_t pitch = D * p->big_x[2], line = p->dilation[1] * p->big_x[1], width = p->big[2];
    // The pixels all of whose taps meet an input column.
    const int64_t low = least(p->small[2], column < 0 ? ceil_div(-column, S) : 0);
    const int64_t room = width - 1 - column - (KW - 1) * D;
    const int64_t high = most(low, least(p->small[2], room < 0 ? 0 : room / S + 1));
    for (; row < end; row++) {
        const int64_t od = row / p->small[1], oh = row % p->small[1];
        const int64_t d = od * p->stride[0] + k[0] * p->dilation[0] - p->pad[0];
        const int64_t h = oh * p->stride[1] + k[1] * p->dilation[1] - p->pad[1];
        if (d < 0 || d >= p->big[0])
            continue;
        const bool whole = !part && h >= 0 && h + (KH - 1) * p->dilation[1] < p->big[1];
        const elem *dy = small + od * p->small_x[0] + oh * p->small_x[1];
        const elem *x = big + d * p->big_x[0] + h * p->big_x[1] + column * p->big_x[2];
        for (int64_t o = 0; o < p->small[2]; o++) {
            if (whole && o == low)
                for (; o < high; o++) {
                    const vec y = elem_load(dy + o * p->small_x[2]);
                    const elem *at = x + o * S * p->big_x[2];
                    UNROLL for (int i = 0; i < KH; i++) UNROLL for (int j = 0; j < KW; j++)
                        acc[i][j] += y * elem_load(at + i * line + j * pitch);
                    UNROLL for (int i = 0; i < KH; i++) UNROLL for (int j = 0; j < KW; j++) PIN(acc[i][j]);
                }
            if (o == p->small[2])
                break;
            const vec y = lanes_load(dy + o * p->small_x[2], true, lanes);
            const elem *at = x + o * S * p->big_x[2];
            UNROLL for (int i = 0; i < KH; i++) {
                if ((uint64_t)(h + i * p->dilation[1]) >= (uint64_t)p->big[1])
                    continue;
                UNROLL for (int j = 0; j < KW; j++) if ((uint64_t)(column + o * S + j * D) < (uint64_t)width)
                    acc[i][j] += y * lanes_load(at + i * line + j * pitch, true, lanes);
            }
            UNROLL for (int i = 0; i < KH; i++) UNROLL for (int j = 0; j < KW; j++) PIN(acc[i][j]);
        }
    }
    UNROLL for (int i = 0; i < KH; i++) UNROLL for (int j = 0; j < KW; j++) {
        float *to = sum + (((k[0] * p->taps[1]) + k[1] + i) * p->taps[2] + k[2] + j) * LANES;
        vec_store(to, vec_load(to) + acc[i][j]);
    }
}

typedef void w_function(const opwright_problem *p, const elem *big, const elem *small, int64_t lanes,
                        const int64_t k[3], int64_t row, int64_t end, float *sum);
#define W_BLOCK(NAME, KH, KW)                                                                                          \
    static void NAME(const opwright_problem *p, const elem *big, const elem *small, int64_t lanes, const int64_t k[3], \
                     int64_t row, int64_t end, float *sum) {                                                           \
        w_run(KH, KW, p, big, small, lanes, k, row, end, sum);                                                         \
    }
W_BLOCK(w_several_3, 3, 3)
W_BLOCK(w_several_5, ROWS_OF_5, 5)
W_BLOCK(w_several_7, ROWS_OF_7, 7)
W_BLOCK(w_1, 1, 1)
W_BLOCK(w_3, 1, 3)
W_BLOCK(w_5, 1, 5)
W_BLOCK(w_7, 1, 7)

static const struct row_of_blocks {
    int64_t rows, columns;
    bool alone;  // only for kernels of just that width
    w_function *run;
} w_blocks[] = {
    {3, 3, true, w_several_3}, {ROWS_OF_5, 5, true, w_several_5}, {ROWS_OF_7, 7, true, w_several_7},
    {1, 7, false, w_7},        {1, 5, false, w_5},                {1, 3, false, w_3},
    {1, 1, false, w_1},
};

// Asks for the rows that the next round over this block of channels reads.
static void prefetch_round(const opwright_problem *p, const elem *big, const elem *small, int64_t row, int64_t end) {
    for (; row < end; row++) {
        const int64_t d = row / p->small[1], o = row % p->small[1], S = p->stride[1];
        for (int64_t i = 0; i < p->small[2]; i++)
            __builtin_prefetch(small + d * p->small_x[0] + o * p->small_x[1] + i * p->small_x[2], 0, 2);
        const int64_t first = most(0, o * S + (p->taps[1] - 1) * p->dilation[1] - p->pad[1] - S + 1);
        for (int64_t y = first; d == 0 && y < least(first + S, p->big[1]); y++)
            for (int64_t i = 0; i < p->big[2]; i++)
                __builtin_prefetch(big + y * p->big_x[1] + i * p->big_x[2], 0, 2);
    }
}

// All taps over rows [row, end) of one image and `G` channels.
static void w_rows(const opwright_problem *p, const elem *big, const elem *small, int64_t G, int64_t row, int64_t end,
                   float *sums) {
    const int64_t several = most(1, SUM_PIXELS / p->small[2]), K = volume(p->taps);
    const bool far = p->N * p->big_n > FAR;
    for (; row < end; row += several)
        for (int64_t g = 0; g < G; g += LANES) {
            if (far)
                prefetch_round(p, big + g, small + g, row + several, least(end, row + 2 * several));
            for (int64_t d = 0; d < p->taps[0]; d++)
                for (int64_t h = 0, rows; h < p->taps[1]; h += rows) {
                    rows = 1;
                    for (int64_t w = 0, columns; w < p->taps[2]; w += columns) {
                        const struct row_of_blocks *b = w_blocks;
                        while (b->rows > p->taps[1] - h || b->columns > p->taps[2] - w ||
                               (b->alone && b->columns != p->taps[2]))
                            b++;
                        rows = b->rows, columns = b->columns;
                        b->run(p, big + g, small + g, least(LANES, G - g), (int64_t[3]){d, h, w}, row,
                               least(end, row + several), sums + g * K);
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
    return channels_last(p) ? least(W_BLOCKS, ceil_div(p->G, LANES)) : 1;
}
static int64_t w_chunks(const opwright_problem *p) {
    const int64_t groups = ceil_div(ceil_div(p->G, LANES), w_blocks_of(p));
    const int64_t rows = channels_last(p) ? p->N * p->small[0] * p->small[1] : p->N;
    return least(rows, ceil_div(W_TASKS, groups));
}

static void w_task(const void *context, int64_t task, int64_t worker) {
    const w_call *c = context;
    const opwright_problem *p = c->p;
    const int64_t blocks = ceil_div(p->G, LANES), of_task = w_blocks_of(p), groups = ceil_div(blocks, of_task);
    const int64_t chunk = task / groups, first = task % groups * of_task, g = first * LANES;
    const int64_t channels = least(of_task * LANES, p->G - g), in_image = p->small[0] * p->small[1];
    float *sums = c->sums + (chunk * blocks + first) * LANES * volume(p->taps);
    memset(sums, 0, (size_t)(ceil_div(channels, LANES) * LANES * volume(p->taps)) * 4);
    if (channels_last(p)) {
        const int64_t end = least(p->N * in_image, (chunk + 1) * c->rows);
        for (int64_t row = chunk * c->rows, next; row < end; row = next) {
            const int64_t n = row / in_image;
            next = least(end, (n + 1) * in_image);
            w_rows(p, c->big + n * p->big_n + g, c->small + n * p->small_n + g, channels, row - n * in_image,
                   next - n * in_image, sums);
        }
        return;
    }
    elem *big = (elem *)(void *)(c->own + worker * c->own_bytes);
    elem *small = (elem *)(void *)((char *)big + plane_bytes(p->big));
    const opwright_problem q = interleaved(p, LANES);
    for (int64_t n = chunk * c->rows; n < least(p->N, (chunk + 1) * c->rows); n++) {
        interleave(c->big + n * p->big_n + g * p->big_c, p->big_c, channels, volume(p->big), big);
        interleave(c->small + n * p->small_n + g * p->small_c, p->small_c, channels, volume(p->small), small);
        if (p->N * p->big_n > FAR && n + 1 < p->N) {
            prefetch(c->big + (n + 1) * p->big_n + g * p->big_c, channels * volume(p->big), 0);
            prefetch(c->small + (n + 1) * p->small_n + g * p->small_c, channels * volume(p->small), 0);
        }
        w_rows(&q, big, small, LANES, 0, in_image, sums);
    }
}

static void w_finish(const void *context, int64_t block, int64_t worker) {
    (void)worker;
    const w_call *c = context;
    const opwright_problem *p = c->p;
    const int64_t blocks = ceil_div(p->G, LANES), lanes = least(LANES, p->G - block * LANES), K = volume(p->taps);
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
                lanes_store(to + i * p->w_g + k, v[i], true, least(LANES, K - k));
            continue;
        }
        for (int64_t i = 0; i < least(LANES, K - k); i++)
            for (int64_t l = 0; l < lanes; l++)
                elem_put((elem *)(uintptr_t)tap_of(p, to, k + i) + l * p->w_g, v[i][l]);
    }
}

static int64_t sums_bytes(const opwright_problem *p) { return aligned(w_chunks(p) * packed_bytes(p)); }

static width_w_call width_w_of(const opwright_problem *p) {
    width_w_call c = {.s = solve_of(p, false)};
    c.plan = plan_of(&c.s);
    c.plan.own_bytes = c.plan.rows_bytes + aligned(volume(p->taps) * 4);
    const int64_t units = p->N * c.plan.units;
    c.chunk_units = ceil_div(units, least(units, ceil_div(W_TASKS, p->G)));
    c.chunks = ceil_div(units, c.chunk_units);
    c.channels = ceil_div(c.plan.task_units, c.chunk_units);
    return c;
}

int64_t depthwise_w_scratch(const opwright_problem *p, int64_t workers) {
    if (!channels_last(p) && !few_columns(p, p->small[2])) {
        const width_w_call c = width_w_of(p);
        return aligned(c.chunks * p->G * volume(p->taps) * 4) + workers * c.plan.own_bytes;
    }
    return sums_bytes(p) + (channels_last(p) ? 0 : workers * (plane_bytes(p->big) + plane_bytes(p->small)));
}

void depthwise_w(const opwright_problem *p, const elem *big, const elem *small, elem *weights,
                 const opwright_team *team, void *scratch) {
    if (!channels_last(p) && !few_columns(p, p->small[2])) {
        width_w_call c = width_w_of(p);
        c.s.p = p, c.big = big, c.small = small, c.weights = weights, c.sums = scratch;
        c.own = (char *)scratch + aligned(c.chunks * p->G * volume(p->taps) * 4);
        opwright_run(team, width_w_task, &c, c.chunks * ceil_div(p->G, c.channels));
        opwright_run(team, width_w_finish, &c, ceil_div(p->G, FINISH_CHANNELS));
        return;
    }
    const int64_t blocks = ceil_div(p->G, LANES), rows = channels_last(p) ? p->N * p->small[0] * p->small[1] : p->N;
    w_call c = {p, big, small, weights, scratch, (char *)scratch + sums_bytes(p),
                plane_bytes(p->big) + plane_bytes(p->small), w_chunks(p), 0};
    c.rows = ceil_div(rows, c.chunks);
    c.chunks = ceil_div(rows, c.rows);
    opwright_run(team, w_task, &c, c.chunks * ceil_div(blocks, w_blocks_of(p)));
    opwright_run(team, w_finish, &c, blocks);
}
