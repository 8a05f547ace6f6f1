// w over width lanes, of few channels on both sides, or of groups with one: lanes are neighbouring columns of output, every
// weight of a block has a vector of sums, whose lanes are added up at the end of a unit. 1.2 instead of 8.8 ms for 5x5 of one
// channel over 4x512x512, f32; 2.9 instead of 8.1 for 3x3 of two channels and three.
//
// A unit is a block of output rows and columns of one plane. The inputs of one channel are copied to scratch, widened, with
// zeros around them, sorted by their residue modulo the stride, so that each tap is a vector at some offset. Each channel of
// small is multiplied by them in turn; its columns are copied too where they are no neighbours.
//
// A zero must not be multiplied by Inf or NaN: groups whose sums contain a NaN are left to plain.c. Sums are those of chunks of
// units, which depend only on the problem, added in order.
//
// Figures: see engine.h.

#include "depthwise_rows.h"

#include <math.h>

enum {
    FEW = OPWRIGHT_PAIRS ? LANES / 4 : LANES / 2, // channels: lanes of channels would be half empty, or pairs as fast
    MAX_BIG = 16,     // channels of big
    MAX_GROUPS = 64,
    MAX_SPACING = 32, // elements from column to column
    MAX_STEP = 8,
    MAX_DW = 4 * 1024, MAX_UNIT = 64 * 1024, // weights of a group; floats of a unit
    FINISHED = 64,    // groups of a task
};

INLINE float vec_sum(vec v) {
    UNROLL for (int half = LANES / 2; half > 0; half /= 2) UNROLL for (int i = 0; i < half; i++) v[i] += v[i + half];
    return v[0];
}

#include "weights_columns_tiles.h"

typedef struct call {
    solve s;
    plan plan;
    const elem *big, *small;
    elem *weights;
    float *sums; // [chunk][g][a][b][k]
    char *own;
    int64_t chunks, chunk_units, groups; // groups of a task
    int64_t dw;                          // weights of a group
    int64_t small_bytes;                 // of a unit's columns of small, if these are copied
} call;

// Columns of small for one plane of a unit, as a tile reads them.
typedef struct outputs {
    const elem *from;
    int64_t channel, row, rows, columns;
} outputs;

// All taps of one channel of either side over a unit, whose rows of big are `in`.
static void unit_sums(const solve *s, const plan *c, const float *in, const taps *d, const outputs *o, const elem *dy, float *sum) {
    const opwright_problem *p = s->problem;
    const int64_t *K = p->taps, D = p->dilation[1];
    memset(sum, 0, (size_t)volume(K) * 4);
    for (int64_t j = 0; j < d->count; j++)
        for (int64_t h = 0, several; h < K[1]; h += several) {
            several = 1;
            for (int64_t w = 0, columns; w < K[2]; w += columns) {
                const int64_t first = w * p->dilation[2] - p->pad[2];
                const float *at = in + j * c->plane + h * D * c->row;
                float *to = sum + ((d->k + j) * K[1] + h) * K[2] + w;
                const row_of_width_blocks *b = width_w_blocks;
                while (b->rows > K[1] - h || b->columns > K[2] - w || (b->alone && K[2] % b->columns != 0) ||
                       (b->stride != 0 && (b->stride != s->axes[1].in_step || D != 1)))
                    b++;
                several = b->rows, columns = b->columns;
                int64_t column[MAX_TAPS];
                for (int64_t k = 0; k < columns; k++)
                    column[k] = place(s, c, first + k * p->dilation[2]);
                b->run(at, D * c->row, s->axes[1].in_step * c->row, column, dy, o->row, o->rows, o->columns, to, K[2]);
            }
        }
}

// Columns of small, from the first of a unit on, where they are or as neighbours.
static outputs outputs_of(const call *c, const unit *u, const elem *from, elem *copy) {
    const solve *s = &c->s;
    const opwright_problem *p = s->problem;
    outputs o = {from, p->small_c, s->out_x[1], min(c->plan.q[0], s->axes[1].out - u->q_row),
                 min(c->plan.q[1], s->axes[2].out - u->q_column)};
    if (c->small_bytes == 0)
        return o;
    o.from = copy, o.row = c->plan.q[1], o.channel = c->plan.q[0] * o.row;
    for (int64_t a = 0; a < p->A; a++)
        for (int64_t row = 0; row < o.rows; row++)
            for (int64_t x = 0; x < o.columns; x++)
                copy[a * o.channel + row * o.row + x] = from[a * p->small_c + row * s->out_x[1] + x * s->out_x[2]];
    return o;
}

static void task(const void *context, int64_t task, int64_t worker) {
    const call *c = context;
    const solve *s = &c->s;
    const plan *b = &c->plan;
    const opwright_problem *p = s->problem;
    const int64_t K = volume(p->taps), groups = ceil_div(p->G, c->groups), chunk = task / groups;
    float *rows = (float *)(void *)(c->own + worker * b->own_bytes), *part = rows + b->rows_bytes / 4;
    elem *copy = (elem *)(void *)((char *)part + whole_lines(K * 4));
    unit last = {.q_row = -1};
    int64_t planes = 0;
    for (int64_t g = task % groups * c->groups, end = min(p->G, g + c->groups); g < end; g++) {
        float *sums = c->sums + (chunk * p->G + g) * c->dw;
        memset(sums, 0, (size_t)c->dw * 4);
        for (int64_t i = chunk * c->chunk_units; i < min(p->N * b->units, (chunk + 1) * c->chunk_units); i++) {
            const int64_t n = i / b->units;
            const unit u = unit_of(b, p, (n * p->G + g) * b->units + i % b->units);
            const taps d = clipped(taps_of(s, 0, u.d), s->axes[0].in);
            const elem *small = c->small + n * p->small_n + g * p->A * p->small_c + u.d * p->small_x[0];
            // 3.5 instead of 5.0 ms for 16 images of 32x112x112.
            const bool far = p->N * p->big_n > FAR && n + 1 < p->N && b->units == 1;
            const outputs o = outputs_of(c, &u, small + u.q_row * s->out_x[1] + u.q_column * s->out_x[2], copy);
            for (int64_t of_big = 0; of_big < p->B; of_big++) {
                const elem *big = c->big + n * p->big_n + (g * p->B + of_big) * p->big_c;
                fill_block(s, b, big, &d, u.q_row, u.q_column, same_place(&u, &last) && d.count <= planes, rows);
                last = u, planes = d.count;
                if (far)
                    prefetch(big + p->big_n, p->big_c * (int64_t)sizeof(elem), 0);
                for (int64_t a = 0; a < p->A; a++) {
                    if (far && of_big == 0)
                        prefetch(small + a * p->small_c + p->small_n, p->small_c * (int64_t)sizeof(elem), 0);
                    unit_sums(s, b, rows, &d, &o, o.from + a * o.channel, part);
                    float *to = sums + (a * p->B + of_big) * K;
                    for (int64_t k = 0; k < K; k++)
                        to[k] += part[k];
                }
            }
        }
    }
}

// Adds the chunks of some groups in their order.
static void combine(const void *context, int64_t task, int64_t worker) {
    (void)worker;
    const call *c = context;
    const opwright_problem *p = c->s.problem;
    const int64_t K = volume(p->taps);
    for (int64_t g = task * FINISHED; g < min(p->G, (task + 1) * FINISHED); g++) {
        bool finite = true;
        for (int64_t i = 0; i < c->dw; i++) {
            float sum = 0;
            for (int64_t chunk = 0; chunk < c->chunks; chunk++)
                sum += c->sums[(chunk * p->G + g) * c->dw + i];
            elem_put(c->weights + g * p->w_g + i / K / p->B * p->w_a + i / K % p->B * p->w_b + tap_at(p, i % K), sum);
            finite &= !isnan(sum);
        }
        opwright_problem group = *p;
        group.G = 1;
        if (!finite)
            OPWRIGHT_NAME(plain).solve(OPWRIGHT_W, &group, c->big + g * p->B * p->big_c, c->small + g * p->A * p->small_c, NULL,
                                       c->weights + g * p->w_g, NULL, NULL, NULL);
    }
}

static call call_of(const opwright_problem *p) {
    call c = {.s = solve_of(p, false), .dw = p->A * p->B * volume(p->taps)};
    c.plan = plan_of(&c.s);
    if (p->small_x[2] != 1 && p->small[2] > 1)
        c.small_bytes = whole_lines((p->A * c.plan.q[0] * c.plan.q[1] + LANES) * (int64_t)sizeof(elem));
    c.plan.own_bytes = c.plan.rows_bytes + whole_lines(volume(p->taps) * 4) + c.small_bytes;
    const int64_t units = p->N * c.plan.units;
    c.chunk_units = ceil_div(units, min(units, ceil_div(W_TASKS, p->G)));
    c.chunks = ceil_div(units, c.chunk_units);
    c.groups = ceil_div(c.plan.task_units, c.chunk_units);
    return c;
}

// Whether small groups fill vectors of lanes together, which is faster: 0.22 instead of 0.49 ms, groups of two
// channels, 56x56. Planes that leave a third of the lanes empty are not: 1.5 instead of 1.2 ms, three groups of five
// and of seven.
static bool fills_lanes(const opwright_problem *p) {
    const int64_t groups_per_vector = LANES / max(p->A, p->B);
    return p->G > 1 && groups_per_vector > 1 &&
           (p->small_c == 1 || 4 * p->G * p->A >= 3 * ceil_div(p->G, groups_per_vector) * LANES);
}

// Few channels and long rows.
static bool fits(opwright_solve solve, const opwright_problem *p) {
    (void)solve;
    const bool one_step = p->stride[0] == 1 && p->stride[1] == 1 && p->stride[2] == 1;
    const int64_t wide = one_step ? max(p->A, p->B) : p->A; // channels that could be lanes
    const bool near = p->small_x[2] > 0 && p->small_x[2] <= MAX_SPACING && p->big_x[2] > 0 && p->big_x[2] <= MAX_SPACING;
    if (wide > FEW || p->B > MAX_BIG || !near || p->small[2] < 2 * LANES || p->stride[2] > MAX_STEP || p->G < 1 ||
        p->G > MAX_GROUPS || fills_lanes(p))
        return false;
    // Sizes that overflow nothing below.
    for (int i = 0; i < 3; i++)
        if (p->taps[i] > MAX_DW || p->stride[i] > MAX_UNIT || p->dilation[i] > MAX_UNIT ||
            (p->taps[i] - 1) * p->dilation[i] > MAX_UNIT)
            return false;
    if (p->A * p->B * p->taps[0] * p->taps[1] > MAX_DW || p->A * p->B * volume(p->taps) > MAX_DW)
        return false;
    const struct solve s = solve_of(p, false);
    return plan_of(&s).rows_bytes <= MAX_UNIT * 4;
}

static int64_t sums_bytes(const call *c) { return whole_lines(c->chunks * c->s.problem->G * c->dw * 4); }

static int64_t scratch_bytes(opwright_solve solve, const opwright_problem *p, int64_t workers, bool finished) {
    (void)solve, (void)finished;
    const call c = call_of(p);
    return sums_bytes(&c) + workers * c.plan.own_bytes;
}

static void solve_columns(opwright_solve solve, const opwright_problem *p, const elem *big, const elem *small, const elem *bias,
                          sum_cell *weights, const opwright_sink *sink, const opwright_team *team, void *scratch) {
    (void)solve, (void)bias, (void)sink;
    call c = call_of(p);
    c.big = big, c.small = small, c.weights = weights, c.sums = scratch, c.own = (char *)scratch + sums_bytes(&c);
    opwright_run(team, task, &c, c.chunks * ceil_div(p->G, c.groups));
    opwright_run(team, combine, &c, ceil_div(p->G, FINISHED));
}

// Literal taps make it faster by (f32, AVX-512): 1x9 1.3; not 1x31, 0.92.
static int64_t fixed(opwright_solve solve, const opwright_problem *p, int64_t *values) {
    (void)solve;
    const int64_t columns = p->taps[2];
    values[0] = max(1, min(p->taps[1], FIXED_SUMS / columns)), values[1] = columns;
    const row_of_width_blocks *b = width_w_blocks;
    while (b->columns != columns && b->columns != 1)
        b++;
    return b->columns != columns && columns <= FIXED_COLUMNS ? OPWRIGHT_FIXED_WEIGHTS_COLUMNS : OPWRIGHT_NOT_FIXED;
}

const opwright_way OPWRIGHT_NAME(weights_columns) = {fits, scratch_bytes, solve_columns, fixed};
