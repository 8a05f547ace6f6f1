// y and x of groups with one channel on either side, over channel lanes: the vectors are neighbouring channels.
//
// For tensors with channels last. Rows of output, R at a time, then tiles of P pixels, then blocks of channels; a
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
// Figures: see engine.h.

#include "depthwise_blocks.h"

// Rows of a tile over channel lanes, and pixels of a row. With 16 registers two rows would need two sets of weights.
#define R (LANES == 8 ? 1 : 2)
#define P (LANES == 8 ? 8 : 7)
// The vectors of tiles of half as many pixels, and how many times the lines that a cache holds make these tiles faster:
// fewer sums use a column of bf16 once it is widened.
#define VECTORS_MOST (LANES == 8 ? 2 : 1)
#if defined(OPWRIGHT_BF16)
#define CROWDED 2
#else
#define CROWDED 1
#endif

enum {
    TASK_BLOCKS = 64,     // maximum channels of a task
    LINE = 64 / sizeof(elem), // of the caches, in elements
    UNIT_TAPS = 5,        // minimum taps of a row for a copy of units
    CACHE = 32 << 10, PAGE = 4096, // bytes of the first-level cache, and from a line to the next one of its set
};

// The value of an element alone, or of a weight that is packed beside it.
INLINE vec alone(const bool units, vec v) { return units && OPWRIGHT_PAIRS ? (vec)((uvec)v << 16) : v; }
// sum + x * w; of pairs, their first products or both.
INLINE vec multiply(const bool pairs, vec sum, vec x, vec w) {
#if OPWRIGHT_PAIRS
    if (pairs)
        return dot_pairs(sum, (uvec)x, (uvec)w);
#endif
    (void)pairs;
    return sum + x * w;
}

#include "depthwise_channels_tiles.h"

static const row_of_tiles *tiles_for(const row_of_tiles *t, int64_t count, int64_t in_step) {
    while (t->taps != 0 && (t->taps != count || t->in_step != in_step))
        t++;
    return t;
}

// Prefetches the input rows that the next rows of a tile are the first to read, and their outputs.
INLINE void prefetch_next(const tile *t, int64_t pixels, bool outputs) {
    for (int64_t j = t->h.count + (R - 1) * t->shift; j < t->h.count + (2 * R - 1) * t->shift; j++) {
        const int64_t y = t->h.at + j * t->h.at_step;
        if (y < 0 || y >= t->in_size[1])
            continue;
        const elem *at = t->in + y * t->in_x[1] + max(0, t->w_taps.at) * t->in_x[2];
        for (int64_t i = 0; i < pixels * t->in_step; i++)
            __builtin_prefetch(at + i * t->w_taps.at_step * t->in_x[2], 0, 2);
    }
    for (int64_t r = R; outputs && r < 2 * R; r++)
        for (int64_t i = 0; i < pixels; i++)
            __builtin_prefetch(t->out + r * t->out_row + i * t->out_step, 1, 3);
}

// Rows of output [row, end), of one depth, over channels [0, G) from `in`, `out` and `bias` on. `padded`: rows of
// input have zeros beside them, and all lanes; `units`: the input has units.
static void lanes_rows(const solve *s, bool padded, bool units, const elem *in, const float *packed, const elem *bias, sum_cell *out,
                       int64_t G, int64_t d, int64_t row, int64_t end) {
    const int64_t *K = s->problem->taps, width = s->axes[2].out;
    const lattice rows = lattice_of(s, 1), columns = lattice_of(s, 2);
    tile t = {.in_x = s->in_x, .in_size = s->backward ? s->problem->small : s->problem->big,
              .w_x = {K[1] * K[2] * LANES, K[2] * LANES, LANES}, .w_block = K[0] * K[1] * K[2] * LANES,
              .in_step = columns.in_step, .shift = rows.in_step, .out_row = rows.step * s->out_x[1],
              .out_step = columns.step * s->out_x[2]};
    t.d = clipped(taps_of(s, 0, d), s->axes[0].in);
    // Prefetch the next rows if the tensors exceed the second-level cache: 2.7 instead of 5.5 ms for
    // 16 images of 112x112x32.
    const bool far = s->problem->N * s->in_n > FAR;
    const int64_t at_once = far ? LINE : G / LANES * LANES; // channels
    // Lines of columns that the first-level cache holds: few if the distance of columns is a multiple of 1 KiB.
    const int64_t room = CACHE / max(64, gcd(s->in_x[2] * (int64_t)sizeof(elem), PAGE));
    for (int64_t first_row = row; first_row < end; first_row += R * rows.step)
        for (int64_t h = first_row; h < min(first_row + rows.step, end); h++) {
            t.rows = R > 1 && h + rows.step < end ? R : 1;
            t.h = taps_of(s, 1, h);
            taps all = t.h;
            all.count += t.rows > 1 ? t.shift : 0;
            t.row_first = taps_low(&all), t.row_end = min(all.count, taps_high(&all, t.in_size[1]));
            sum_cell *line = out + d * s->out_x[0] + h * s->out_x[1];
            for (int64_t phase = 0; phase < min(s->axes[2].out_step, width); phase++) {
                const taps first = taps_of(s, 2, phase);
                // Where the lines of a tile would push each other out before their next vectors are read, tiles read two
                // vectors at once: 14x14x512 takes 0.63 to 0.72 of the time, 7x7x1024 0.62 (AMD Zen 3, gcc 12.2).
                const int64_t reads = t.d.count * t.h.count * ((P - 1) * t.in_step + first.count);
                const bool crowded = VECTORS_MOST > 1 && !units && reads + P > room * CROWDED;
                const row_of_tiles *kind = tiles_for(crowded ? line_tiles : units ? unit_tiles : tiles, first.count, t.in_step);
                const int64_t vectors = crowded && kind->taps != 0 ? VECTORS_MOST : 1, wide = P / vectors;
                if (crowded && vectors == 1)
                    kind = tiles_for(tiles, first.count, t.in_step);
                const int64_t walk = ((wide - 1) * t.in_step + first.count - 1) * first.at_step;
                for (int64_t class = 0, start; class < columns.classes; class++) {
                    if ((start = phase + class * s->axes[2].out_step) >= width)
                        break;
                    const int64_t pixels = over(width - start + columns.step - 1, columns.step);
                    for (int64_t x = 0; x < pixels; x += wide) {
                        // With a row at a time the last tile recomputes some pixels.
                        const int64_t at = R == 1 ? max(0, min(x, pixels - wide)) : x;
                        t.w_taps = first;
                        t.w_taps.at += (class + at * columns.classes) * s->axes[2].in_step;
                        t.pixels = min(wide, pixels - at);
                        const bool inner = t.w_taps.at >= 0 && t.w_taps.at + walk < t.in_size[2];
                        for (int64_t g = 0, count; g < G; g += count) {
                            t.lanes = min(LANES, G - g);
                            // What is left over for a tile of several vectors takes one that checks all bounds.
                            const bool whole = G - g >= vectors * LANES;
                            const int64_t together = whole ? vectors * LANES : LANES;
                            count = t.lanes < LANES ? t.lanes : min(at_once, (G - g) / together * together);
                            t.blocks = ceil_div(count, LANES);
                            t.in = in + g, t.out = line + (start + at * columns.step) * s->out_x[2] + g;
                            t.w = packed + g * K[0] * K[1] * K[2];
                            t.bias = bias ? bias + g : 0;
                            if (far && g % LINE == 0)
                                prefetch_next(&t, wide, h + (2 * R - 1) * rows.step < end);
                            (padded || (inner && whole) ? kind->inner : whole ? kind->edge : kind->part)(&t);
                        }
                    }
                }
            }
        }
}

// Weights as [block][kd][kh][kw][LANES], 0 in the lanes past the last channel.
typedef struct packing {
    const opwright_problem *p;
    const tap_cell *weights;
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
    const tap_cell *from = c->weights + block * LANES * p->w_g;
    float *to = c->to + block * LANES * count;
    vec zero = {0}; // unless there is an Inf or NaN
    if (dense(p->taps, p->w_k)) {
        for (int64_t k = 0; k < count; k += LANES) {
            vec v[LANES];
            UNROLL for (int i = 0; i < LANES; i++)
                v[i] = i >= lanes ? (vec){0} : tap_load_part(from + k + i * p->w_g, min(LANES, count - k));
            vec_transpose(v);
            UNROLL for (int i = 0; i < LANES; i++) if (i < count - k) {
                vec_store(to + (k + i) * LANES, v[i]);
                zero += v[i] - v[i];
            }
        }
    } else
        for (int64_t k = 0; k < count; k++) {
            const tap_cell *tap = from + tap_at(p, k);
            vec v = {0};
            if (p->w_g == 1)
                v = tap_load_part(tap, lanes);
            else
                for (int64_t i = 0; i < lanes; i++)
                    v[i] = tap_get(tap + i * p->w_g);
            vec_store(to + k * LANES, v);
            zero += v - v;
        }
    c->non_finite[block] = uvec_any((uvec)(zero != zero));
    for (int64_t k = 0; c->pair != 0 && k < count; k += p->taps[2])
        pair_taps(to + k * LANES, p->taps[2], c->pair);
}

// Transposes a plane of channels last back.
static void separate(const sum_cell *from, int64_t channel, int64_t lanes, int64_t count, sum_cell *to) {
    for (int64_t x = 0; x < count; x += LANES) {
        vec v[LANES];
        UNROLL for (int i = 0; i < LANES; i++)
            v[i] = i < count - x ? sum_load(from + (x + i) * LANES) : (vec){0};
        vec_transpose(v);
        UNROLL for (int i = 0; i < LANES; i++) if (i < lanes)
            sums_store(to + i * channel + x, v[i], true, min(LANES, count - x));
    }
}

typedef struct call {
    solve s;
    const elem *in, *bias;
    sum_cell *out;
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

INLINE void fill_sheet(const bool units, const solve *s, const sheet *c, const elem *in, int64_t lanes, elem *first) {
    const int64_t *size = s->backward ? s->problem->small : s->problem->big, rows = size[0] * size[1], width = size[2];
    const int64_t step = c->x[2];
    vec zero = {0};
    PIN(zero); // or gcc calls memset, for a vector or two
    for (int64_t row = 0; row < rows; row++) {
        elem *line = first + row * c->x[1];
        for (int64_t w = 0; w < c->left; w++)
            put_input(units, false, line + w * step, zero);
        for (int64_t w = c->left + width; w < c->width; w++)
            put_input(units, false, line + w * step, zero);
    }
    copy_block(units, OPWRIGHT_PAIRS, size, s->in_x, channels_last(s->problem) ? 1 : s->in_c, lanes, in, step,
               (c->width - width) * step, first + c->left * step);
    for (int64_t row = 0; c->pair != 0 && row < rows; row++)
        for (int64_t w = 0; w + c->pair < c->width; w++) {
            elem *at = first + row * c->x[1] + w * step;
            unit_store(at, (vec)((uvec)unit_load(at) | (uvec)unit_load(at + c->pair * step) << 16));
        }
}

static int64_t sheet_bytes(const solve *s, const sheet *c) {
    const int64_t *size = s->backward ? s->problem->small : s->problem->big;
    return whole_lines(size[0] * size[1] * c->x[1] * (int64_t)sizeof(elem));
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
    sum_cell *out = (sum_cell *)(void *)((char *)in + sheet_bytes(s, &sheet));
    elem bias[LANES] = {0};
    if (c->bias)
        memcpy(bias, c->bias + g, (size_t)lanes * sizeof *bias);
    const elem *from = c->in + n * s->in_n + g * s->in_c;
    sum_cell *to = c->out + n * s->out_n + g * s->out_c;
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
        prefetch(from + LANES * s->in_c, max(0, min(LANES, p->G - g - LANES)) * volume(in_size) * (int64_t)sizeof *from, 0);
        prefetch(to, lanes * volume(out_size) * (int64_t)sizeof *to, 1);
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
    const sheet sheet = sheet_of(s);
    const int64_t out = volume(s->backward ? p->big : p->small) * LANES * (int64_t)sizeof(sum_cell);
    return sheet_bytes(s, &sheet) + (channels_last(p) ? 0 : whole_lines(out));
}
static int64_t non_finite_bytes(const opwright_problem *p) { return whole_lines(ceil_div(p->G, LANES) * 4); }

static int64_t scratch_bytes(opwright_solve solve, const opwright_problem *p, int64_t workers, bool finished) {
    (void)finished;
    const struct solve s = solve_of(p, solve == OPWRIGHT_X);
    return whole_lines(packed_bytes(p)) + non_finite_bytes(p) + workers * data_bytes(&s);
}

static void solve_channels(opwright_solve solve, const opwright_problem *p, const elem *in, const elem *weights, const elem *bias,
                           sum_cell *out, const opwright_sink *sink, const opwright_team *team, void *scratch) {
    (void)sink;
    const bool backward = solve == OPWRIGHT_X;
    int32_t *non_finite = (int32_t *)(void *)((char *)scratch + whole_lines(packed_bytes(p)));
    call c = {.s = solve_of(p, backward), .in = in, .bias = bias, .out = out, .packed = scratch, .non_finite = non_finite,
              .own = (char *)non_finite + non_finite_bytes(p)};
    const bool sheets = !channels_last(p) || many_taps(p);
    const packing pack = {p, (const void *)weights, scratch, non_finite,
                          sheets && OPWRIGHT_PAIRS && of_units(&c.s) ? backward ? -c.s.axes[2].classes : 1 : 0};
    const int64_t blocks = ceil_div(p->G, LANES);
    opwright_run(team, pack_block, &pack, blocks);
    c.own_bytes = data_bytes(&c.s);
    if (sheets) {
        opwright_run(team, block_task, &c, p->N * blocks);
        return;
    }
    const axis *axes = c.s.axes;
    const int64_t pairs = R * lattice_of(&c.s, 1).step, wide = axes[2].out * min(p->G, TASK_BLOCKS * LANES);
    c.rows = ceil_div(ceil_div(TASK_OUTPUTS, wide), pairs) * pairs;
    c.row_tasks = ceil_div(axes[1].out, c.rows);
    c.block_tasks = ceil_div(blocks, TASK_BLOCKS);
    opwright_run(team, last_task, &c, p->N * axes[0].out * c.row_tasks * c.block_tasks);
}

// Literal taps make y faster by (f32, AVX-512): 9x9 1.5, 1x9 1.3.
static int64_t fixed(opwright_solve solve, const opwright_problem *p, int64_t *values) {
    const struct solve s = solve_of(p, solve == OPWRIGHT_X);
    const int64_t step = lattice_of(&s, 2).in_step;
    int64_t max_taps = 0; // of the phases without code of their own
    for (int64_t phase = 0; phase < s.axes[2].out_step; phase++) {
        const int64_t count = taps_of(&s, 2, phase).count;
        if (tiles_for(tiles, count, step)->taps == 0)
            max_taps = max(max_taps, count);
    }
    values[0] = max_taps, values[1] = step;
    return max_taps > 1 && max_taps <= FIXED_COLUMNS && step <= 2 ? OPWRIGHT_FIXED_DEPTHWISE_CHANNELS : OPWRIGHT_NOT_FIXED;
}

const opwright_way OPWRIGHT_NAME(depthwise_channels) = {fits, scratch_bytes, solve_channels, fixed};
