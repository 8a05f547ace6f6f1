// The solve for the weights over width lanes, for few channels on both sides: lanes are neighbouring columns of output,
// every weight has a vector of sums, whose lanes are added up at the end of a unit. 1.2 instead of 8.8 ms for 5x5 of
// one channel over 4x512x512, f32; 2.9 instead of 8.1 for 3x3 of two channels and three.
//
// A unit is a block of output rows and columns of one plane. Its outputs and its inputs are copied to scratch, widened,
// one channel after the other, with zeros around them; inputs sorted by their residue modulo the stride, so that each
// tap is a vector at some offset. A tile multiplies up to four channels of small by up to 12 (channel of big, tap).
//
// A zero must not be multiplied by Inf or NaN: a unit whose sums contain a NaN is solved again, without the zeros. Sums
// are those of chunks of units, which depend only on the problem, added in order.
//
// Figures: see engine.h.
#include "engine.h"
#include "lanes.h"

enum {
    FEW = OPWRIGHT_PAIRS ? LANES / 4 : LANES / 2, // channels: lanes of channels would be half empty, or pairs as fast
    MAX_BIG = 16,       // channels of big
    MAX_SPACING = 32,     // elements from column to column
    PICKED = 4,          // maximum distance of columns that vectors sort
    COLUMNS = 512,       // of a unit
    UNIT = 16 * 1024,    // floats of a unit's rows, without the halo of the taps
    MAX_UNIT = 64 * 1024,
    CHUNKS = 64, MAX_DW = 4 * 1024, CHUNKS_DW = 256 * 1024,
};

typedef struct plan {
    opwright_problem p;
    int64_t columns, rows;         // outputs of a unit
    int64_t small_line, big_line;  // floats of a row of outputs; of the inputs of one residue
    int64_t in_rows, in_columns;   // inputs of a unit
    int64_t blocks[2], units;      // of rows, of columns
    int64_t chunks, dw;            // floats of a chunk's sums of one group
    int64_t small, big, line;      // floats of scratch
} plan;

static plan plan_of(const opwright_problem *problem) {
    plan l = {.p = *problem};
    const opwright_problem *p = &l.p;
    l.blocks[1] = ceil_div(p->small[2], COLUMNS);
    l.columns = ceil_div(p->small[2], l.blocks[1]);
    l.small_line = ceil_div(l.columns, LANES) * LANES;
    const int64_t reach = (p->taps[2] - 1) * p->dilation[2];
    l.in_columns = (l.columns - 1) * p->stride[2] + reach + 1;
    l.big_line = l.small_line + ceil_div(reach / p->stride[2] + 1, LANES) * LANES;
    const int64_t row = p->B * p->stride[2] * l.big_line, high = (p->taps[1] - 1) * p->dilation[1] + 1;
    const int64_t each = p->A * l.small_line + p->stride[1] * row;
    l.rows = min(p->small[1], max(1, UNIT / each));
    l.blocks[0] = ceil_div(p->small[1], l.rows);
    l.rows = ceil_div(p->small[1], l.blocks[0]);
    l.in_rows = (l.rows - 1) * p->stride[1] + high;
    l.units = p->N * p->small[0] * l.blocks[0] * l.blocks[1];
    l.dw = ceil_div(p->A * p->B * p->taps[0] * p->taps[1] * p->taps[2], LANES) * LANES;
    l.chunks = max(1, min(min(CHUNKS, l.units), CHUNKS_DW / (l.dw * p->G)));
    l.small = p->A * l.rows * l.small_line;
    l.big = l.in_rows * row;
    const int64_t from_big = l.in_columns * p->big_x[2], from_small = l.columns * p->small_x[2];
    l.line = ceil_div(max(from_big, from_small), LANES) * LANES + (PICKED + 1) * p->stride[2] * LANES;
    return l;
}

// Whether small groups fill vectors of lanes together, which is faster: 0.22 instead of 0.49 ms, groups of two
// channels, 56x56. Planes that leave a third of the lanes empty are not: 1.5 instead of 1.2 ms, three groups of five
// and of seven.
static bool fills_lanes(const opwright_problem *p) {
    const int64_t groups_per_vector = LANES / max(p->A, p->B);
    return p->G > 1 && groups_per_vector > 1 &&
           (p->small_c == 1 || 4 * p->G * p->A >= 3 * ceil_div(p->G, groups_per_vector) * LANES);
}

// Whether it is a problem of few channels and long rows, whose plan it then writes.
static bool has_plan(const opwright_problem *p, plan *l) {
    const bool one_step = p->stride[0] == 1 && p->stride[1] == 1 && p->stride[2] == 1;
    const int64_t wide = one_step ? max(p->A, p->B) : p->A; // channels that could be lanes
    const bool near = p->small_x[2] > 0 && p->small_x[2] <= MAX_SPACING && p->big_x[2] > 0 &&
                      p->big_x[2] <= MAX_SPACING;
    if (wide > FEW || p->A > FEW || p->B > MAX_BIG || !near || p->small[2] < 2 * LANES || p->stride[2] > 8 ||
        fills_lanes(p))
        return false;
    // Sizes that overflow nothing below.
    for (int i = 0; i < 3; i++)
        if (p->taps[i] > MAX_DW || p->stride[i] > MAX_UNIT || p->dilation[i] > MAX_UNIT ||
            (p->taps[i] - 1) * p->dilation[i] > MAX_UNIT)
            return false;
    if (p->G < 1 || p->G > 64 || p->A * p->B * p->taps[0] * p->taps[1] > MAX_DW ||
        p->A * p->B * p->taps[0] * p->taps[1] * p->taps[2] > MAX_DW)
        return false;
    *l = plan_of(p);
    return l->big + l->small <= MAX_UNIT && l->line <= MAX_UNIT;
}

static int64_t worker_floats(const plan *l) { return l->small + l->big + l->line + l->dw * LANES; }

static bool fits(opwright_solve solve, const opwright_problem *p) {
    (void)solve;
    plan l;
    return has_plan(p, &l);
}

static int64_t scratch_bytes(opwright_solve solve, const opwright_problem *p, int64_t workers, bool finished) {
    (void)solve, (void)finished;
    const plan l = plan_of(p);
    return 4 * (workers * worker_floats(&l) + l.chunks * p->G * l.dw);
}

// Every `spacing`-th float, `count` of them, and arbitrary ones up to a multiple of LANES.
static void sort_out(float *to, const float *from, int64_t spacing, int64_t count) {
    if (spacing > PICKED) {
        for (int64_t i = 0; i < count; i++)
            to[i] = from[i * spacing];
        return;
    }
    const ivec place = LANE_NUMBERS * (int32_t)spacing;
    for (int64_t i = 0; i < count; i += LANES) {
        ivec all = {0};
        for (int64_t k = 0; k < spacing; k++) {
            const ivec at = place - (int32_t)(k * LANES);
            const vec some = vec_pick(vec_load(from + i * spacing + k * LANES), at & (LANES - 1));
            all |= (ivec)some & (at >= 0) & (at < LANES);
        }
        vec_store(to + i, (vec)all);
    }
}

// The same of up to LANES channels side by side.
static void sort_square(float *to, int64_t plane, const float *from, int64_t spacing, int64_t count, int64_t channels) {
    for (int64_t i = 0; i < count; i += LANES) {
        vec v[LANES];
        const int64_t n = min(LANES, count - i);
        UNROLL for (int j = 0; j < LANES; j++) v[j] = vec_load(from + (i + min(j, n - 1)) * spacing);
        vec_transpose(v);
        UNROLL for (int b = 0; b < LANES; b++) if (b < channels) {
            if (n == LANES)
                vec_store(to + b * plane + i, v[b]);
            else
                vec_store_part(to + b * plane + i, v[b], n);
        }
    }
}

static void widen_line(float *to, const elem *from, int64_t count) {
    int64_t i = 0;
    for (; i + LANES <= count; i += LANES) {
        __builtin_prefetch(from + i + 256);
        vec_store(to + i, elem_load(from + i));
    }
    if (i < count)
        vec_store(to + i, elem_load_part(from + i, count - i));
}

// Channels [0, channels) of columns [first, end), of which [0, size) exist: channel i's residue r modulo `step` goes to
// to + i * plane + r * pitch, `pitch` floats each, zeros around.
static void copy_row(float *line, float *to, int64_t plane, int64_t pitch, const elem *from, int64_t c,
                     int64_t x, int64_t channels, int64_t first, int64_t end, int64_t size, int64_t step) {
    const int64_t low = min(max(first, 0), end), high = max(low, min(end, size));
    // With channels last, a line has all channels; many channels are transposed.
    const bool mixed = x != 1 && c == 1, square = mixed && x > PICKED && channels > 1 && channels <= LANES;
    for (int64_t i = 0; i < channels; i++) {
        if (i == 0 || !mixed)
            widen_line(line, from + i * c + low * x, (high - low) > 0 ? (high - low - 1) * x + (mixed ? channels : 1) : 0);
        for (int64_t r = 0; r < step && !(square && i); r++) {
            // Columns first + r, first + r + step, ...: those in [low, high) are places [begin, stop).
            const int64_t begin = min(pitch, max(0, ceil_div(max(low - first - r, 0), step)));
            const int64_t stop = max(begin, min(pitch, ceil_div(max(high - first - r, 0), step)));
            float *row = to + i * plane + r * pitch;
            const float *at = line + (mixed ? i : 0) + (first + r + begin * step - low) * x;
            const int64_t all = stop - begin, whole = all / LANES * LANES;
            if (square) {
                sort_square(to + r * pitch + begin, plane, at, x * step, all, channels);
                for (int64_t b = 0; b < channels; b++) {
                    clear(row + b * plane, begin);
                    clear(row + b * plane + stop, pitch - stop);
                }
                continue;
            }
            sort_out(row + begin, at, x * step, whole);
            for (int64_t j = whole; j < all; j++)
                row[begin + j] = at[j * x * step];
            clear(row, begin);
            clear(row + stop, pitch - stop);
        }
    }
}

typedef struct unit {
    int64_t n, d, h, w, rows, columns;
} unit;

static unit unit_of(const plan *l, int64_t number) {
    const opwright_problem *p = &l->p;
    unit u;
    u.w = number % l->blocks[1] * l->columns, number /= l->blocks[1];
    u.h = number % l->blocks[0] * l->rows, number /= l->blocks[0];
    u.d = number % p->small[0], u.n = number / p->small[0];
    u.columns = min(l->columns, p->small[2] - u.w), u.rows = min(l->rows, p->small[1] - u.h);
    return u;
}

typedef struct operands {
    const float *small, *big;
    const int64_t *offsets;
    int64_t plane, small_row, big_row; // of channels of small; from row to row
    int64_t rows, vectors;
    float *sums;                       // [a][tap][lane]
    int64_t pitch, taps;               // the wanted taps
} operands;

#include "columns_tiles.h"

// All sums of taps in one plane (kd) of a unit whose operands are copied: sums[a][b][kh][kw][lane], `pitch` weights
// from a to a.
static void multiply(const plan *l, unit u, const float *small, const float *big, float *sums, int64_t pitch) {
    const opwright_problem *p = &l->p;
    const int64_t across = p->taps[2], each = p->taps[1] * across, all = p->B * each;
    const int64_t row = p->stride[2] * l->big_line, plane = l->in_rows * row;
    for (int64_t a = 0, now; a < p->A; a += now) {
        now = ceil_div(p->A - a, ceil_div(p->A - a, 4));
        int64_t max_taps = MAX_COLUMN_TAPS;
        while (!tiles[max_taps][now])
            max_taps--;
        for (int64_t k = 0, taps; k < all; k += taps) {
            taps = ceil_div(all - k, ceil_div(all - k, max_taps));
            int64_t text = taps, offsets[MAX_COLUMN_TAPS];
            while (!tiles[text][now])
                text++;
            for (int64_t i = 0; i < text; i++) {
                const int64_t tap = k + min(i, taps - 1), b = tap / each, kh = tap % each / across;
                const int64_t at = tap % across * p->dilation[2];
                offsets[i] = b * plane + kh * p->dilation[1] * row + at % p->stride[2] * l->big_line + at / p->stride[2];
            }
            const operands t = {small + a * l->rows * l->small_line, big, offsets, l->rows * l->small_line,
                                l->small_line, p->stride[1] * row, u.rows, ceil_div(u.columns, LANES),
                                sums + (a * pitch + k) * LANES, pitch, taps};
            tiles[text][now](&t);
        }
    }
}

// Sums the lanes of n vectors, in place; whether a sum is NaN.
static bool add_lanes(float *sums, int64_t n) {
    uvec nan = {0};
    for (int64_t i = 0; i < n; i += LANES) {
        vec v[LANES];
        UNROLL for (int j = 0; j < LANES; j++) v[j] = i + j < n ? vec_load(sums + (i + j) * LANES) : (vec){0};
        vec_transpose(v);
        UNROLL for (int half = LANES / 2; half > 0; half /= 2) UNROLL for (int j = 0; j < half; j++) v[j] += v[j + half];
        nan |= (uvec)(v[0] != v[0]);
        vec_store(sums + i, v[0]);
    }
    return uvec_any(nan);
}

// The sums directly from the tensors, without out-of-bounds terms.
static void multiply_exactly(const plan *l, unit u, const elem *small, const elem *big, float *sums, int64_t pitch) {
    const opwright_problem *p = &l->p;
    for (int64_t a = 0; a < p->A; a++)
        for (int64_t b = 0; b < p->B; b++)
            for (int64_t kh = 0; kh < p->taps[1]; kh++)
                for (int64_t kw = 0; kw < p->taps[2]; kw++) {
                    float sum = 0;
                    for (int64_t r = 0; r < u.rows; r++)
                        for (int64_t i = 0; i < u.columns; i++) {
                            const int64_t h = (u.h + r) * p->stride[1] + kh * p->dilation[1] - p->pad[1];
                            const int64_t w = (u.w + i) * p->stride[2] + kw * p->dilation[2] - p->pad[2];
                            if (h >= 0 && h < p->big[1] && w >= 0 && w < p->big[2])
                                sum += elem_get(small + a * p->small_c + (u.h + r) * p->small_x[1] +
                                                (u.w + i) * p->small_x[2]) *
                                       elem_get(big + b * p->big_c + h * p->big_x[1] + w * p->big_x[2]);
                        }
                    sums[a * pitch + (b * p->taps[1] + kh) * p->taps[2] + kw] = sum;
                }
}

typedef struct call {
    const plan *l;
    const elem *big, *small;
    elem *weights;
    float *scratch, *dw; // dw: [chunk][group]
} call;

static void reduce(const void *context, int64_t task, int64_t worker) {
    const call *c = context;
    const plan *l = c->l;
    const opwright_problem *p = &l->p;
    const int64_t group = task % p->G, chunk = task / p->G, across = p->B * p->taps[1] * p->taps[2];
    float *small = c->scratch + worker * worker_floats(l), *big = small + l->small, *sums = big + l->big;
    float *line = sums + l->dw * LANES, *dw = c->dw + task * l->dw;
    const elem *const from_small = c->small + group * p->A * p->small_c;
    const elem *const from_big = c->big + group * p->B * p->big_c;
    const int64_t row = p->stride[2] * l->big_line;
    clear(dw, l->dw);
    for (int64_t number = l->units * chunk / l->chunks; number < l->units * (chunk + 1) / l->chunks; number++) {
        const unit u = unit_of(l, number);
        const elem *y = from_small + u.n * p->small_n + u.d * p->small_x[0];
        for (int64_t r = 0; r < u.rows; r++)
            copy_row(line, small + r * l->small_line, l->rows * l->small_line, l->small_line,
                     y + (u.h + r) * p->small_x[1], p->small_c, p->small_x[2], p->A, u.w, u.w + u.columns,
                     p->small[2], 1);
        for (int64_t kd = 0; kd < p->taps[0]; kd++) {
            const int64_t d = u.d * p->stride[0] + kd * p->dilation[0] - p->pad[0];
            if (d < 0 || d >= p->big[0])
                continue;
            const elem *x = from_big + u.n * p->big_n + d * p->big_x[0];
            const int64_t top = u.h * p->stride[1] - p->pad[1], left = u.w * p->stride[2] - p->pad[2];
            for (int64_t h = 0; h < l->in_rows; h++) {
                float *to = big + h * row;
                if (top + h >= 0 && top + h < p->big[1])
                    copy_row(line, to, l->in_rows * row, l->big_line, x + (top + h) * p->big_x[1], p->big_c,
                             p->big_x[2], p->B, left, left + l->in_columns, p->big[2], p->stride[2]);
                else
                    for (int64_t b = 0; b < p->B; b++)
                        clear(to + b * l->in_rows * row, row);
            }
            multiply(l, u, small, big, sums, across);
            if (add_lanes(sums, p->A * across))
                multiply_exactly(l, u, y, x, sums, across);
            for (int64_t i = 0; i < p->A * across; i++)
                dw[kd * p->A * across + i] += sums[i];
        }
    }
}

// Sums the chunks of a group in their order: [kd][a][b][kh][kw].
static void combine(const void *context, int64_t group, int64_t worker) {
    (void)worker;
    const call *c = context;
    const opwright_problem *p = &c->l->p;
    const float *dw = c->dw + group * c->l->dw;
    int64_t i = 0;
    for (int64_t kd = 0; kd < p->taps[0]; kd++)
        for (int64_t a = 0; a < p->A; a++)
            for (int64_t b = 0; b < p->B; b++)
                for (int64_t kh = 0; kh < p->taps[1]; kh++)
                    for (int64_t kw = 0; kw < p->taps[2]; kw++, i++) {
                        float sum = 0;
                        for (int64_t chunk = 0; chunk < c->l->chunks; chunk++)
                            sum += dw[chunk * p->G * c->l->dw + i];
                        elem_put(c->weights + group * p->w_g + a * p->w_a + b * p->w_b + kd * p->w_k[0] +
                                     kh * p->w_k[1] + kw * p->w_k[2],
                                 sum);
                    }
}

static void solve_columns(opwright_solve solve, const opwright_problem *p, const elem *big, const elem *small, const elem *bias,
                          sum_cell *weights, const opwright_sink *sink, const opwright_team *team, void *scratch) {
    (void)solve, (void)bias, (void)sink;
    const int64_t workers = team ? team->workers : 1;
    const plan l = plan_of(p);
    const call c = {&l, big, small, weights, scratch, (float *)scratch + workers * worker_floats(&l)};
    opwright_run(team, reduce, &c, p->G * l.chunks);
    opwright_run(team, combine, &c, p->G);
}

const opwright_way OPWRIGHT_NAME(weights_columns) = {fits, scratch_bytes, solve_columns, NULL};
