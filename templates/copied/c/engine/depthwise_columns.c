// y and x of groups with one channel on either side, over width lanes: the vectors are neighbouring columns of one
// plane.
//
// For tensors with channels first. A unit of work is a block of one plane. Kernels of 3x3 without stride, and those of
// several such planes, read their input in place: masks exclude what is outside (0.9 instead of 2.4 ms for
// 3x3x3 over 108x16x28x28, whose planes would be copied three times). All others copy a unit's input to scratch,
// widened, with zeros around it, columns sorted by their residue modulo the stride: then each tap is a vector at some
// offset, whatever the stride and dilation. The usual kernels compute 2 or 4 rows of output at once, with their weights
// in registers; others walk a list of taps. A zero must not be multiplied by Inf or NaN: planes of channels with such a weight
// are left to plain.c.
//
// Figures: see engine.h.

#include "depthwise_rows.h"

enum { FEW_TAPS = 9 };
#define ZIP_LOW(i) ((i) & 1 ? LANES + (i) / 2 : (i) / 2)
#define ZIP_HIGH(i) ((i) & 1 ? LANES + LANES / 2 + (i) / 2 : LANES / 2 + (i) / 2)

typedef struct tap {
    int64_t offset; // in scratch, from the place of the output
    float w;
} tap;

#include "depthwise_columns_tiles.h"

// The distance from a row of output to the next one with the same taps, in scratch and in the tensor.
typedef struct pitch {
    int64_t in, out;
} pitch;

// C vectors of R rows of output from q on, all taps.
INLINE void taps_sum(const int R, const int C, const tap *t, int64_t count, const float *in, int64_t in_row, int64_t q, vec *acc) {
    UNROLL for (int v = 0; v < R * C; v++) acc[v] = (vec){0};
    for (int64_t i = 0; i < count; i++) {
        const vec w = vec_splat(t[i].w);
        UNROLL for (int v = 0; v < R * C; v++) acc[v] += vec_load(in + v / C * in_row + t[i].offset + q + v % C * LANES) * w;
        UNROLL for (int v = 0; v < R * C; v++) PIN(acc[v]);
    }
}

// C vectors of R rows of output from q on, of which `pixels` are in the row.
INLINE void row_vectors(const int R, const int C, const solve *s, const tap *list, const int64_t *ends, const float *in, pitch next,
                        int64_t q, int64_t pixels, vec bias, sum_cell *out) {
    const int64_t phases = s->axes[2].out_step;
    vec a[MAX_WIDTH_ROWS * 2], b[MAX_WIDTH_ROWS * 2];
    if (phases == 1) {
        taps_sum(R, C, list, ends[0], in, next.in, q, a);
        UNROLL for (int v = 0; v < R * C; v++) {
            const int64_t at = q + v % C * LANES, left = pixels - at;
            if (left > 0)
                sums_store(out + v / C * next.out + at, a[v] + bias, left < LANES, min(LANES, left));
        }
    } else if (phases == 2) {
        taps_sum(R, C, list, ends[0], in, next.in, q, a);
        taps_sum(R, C, list + ends[0], ends[1] - ends[0], in, next.in, q, b);
        UNROLL for (int v = 0; v < R * C; v++) {
            const vec low = SHUFFLE(a[v], b[v], EACH_LANE(ZIP_LOW)), high = SHUFFLE(a[v], b[v], EACH_LANE(ZIP_HIGH));
            const int64_t at = 2 * (q + v % C * LANES), left = pixels - at;
            sum_cell *to = out + v / C * next.out + at;
            if (left > 0)
                sums_store(to, low + bias, left < LANES, min(LANES, left));
            if (left > LANES)
                sums_store(to + LANES, high + bias, left < 2 * LANES, min(LANES, left - LANES));
        }
    } else {
        for (int64_t phase = 0, first = 0; phase < phases; first = ends[phase], phase++) {
            taps_sum(R, C, list + first, ends[phase] - first, in, next.in, q, a);
            UNROLL for (int v = 0; v < R * C; v++) {
                const int64_t at = (q + v % C * LANES) * phases + phase;
                for (int64_t i = 0; i < LANES && at + i * phases < pixels; i++)
                    sum_put(out + v / C * next.out + at + i * phases, a[v][i] + bias[0]);
            }
        }
    }
}

// R rows of output, `count` q of each, from their phases' taps. The sums of a single row would wait for each other.
INLINE void rows_run(const int R, const solve *s, const tap *list, const int64_t *ends, const float *in, pitch next, int64_t count,
                     int64_t pixels, vec bias, sum_cell *out) {
    int64_t q = 0;
    for (; count - q > LANES; q += 2 * LANES)
        row_vectors(R, 2, s, list, ends, in, next, q, pixels, bias, out);
    if (q < count)
        row_vectors(R, 1, s, list, ends, in, next, q, pixels, bias, out);
}
static void row_fast(const solve *s, const tap *list, const int64_t *ends, const float *in, pitch next, int64_t count, int64_t pixels,
                     vec bias, sum_cell *out) {
    rows_run(1, s, list, ends, in, next, count, pixels, bias, out);
}
static void rows_fast(const solve *s, const tap *list, const int64_t *ends, const float *in, pitch next, int64_t count, int64_t pixels,
                      vec bias, sum_cell *out) {
    rows_run(MAX_WIDTH_ROWS, s, list, ends, in, next, count, pixels, bias, out);
}

// The output of a unit whose input is in `rows`. weights: [kd][kh][kw]; list: room for all taps, ends: for all phases.
static void width_block(const solve *s, const plan *c, const float *rows, const taps *d, const float *weights,
                        vec bias, sum_cell *out, int64_t q_row, int64_t q_column, tap *list, int64_t *ends) {
    const int64_t *K = s->problem->taps;
    const int64_t columns = min(c->q[1], ceil_div(s->axes[2].out, s->axes[2].out_step) - q_column);
    const int64_t pixels = min(columns * s->axes[2].out_step, s->axes[2].out - q_column * s->axes[2].out_step);
    for (int64_t residue = 0; residue < min(s->axes[1].out_step, s->axes[1].out); residue++) {
        const taps h = taps_of(s, 1, residue);
        const int64_t end = min(q_row + c->q[0], ceil_div(s->axes[1].out - residue, s->axes[1].out_step));
        sum_cell *line = out + residue * s->out_x[1] + q_column * s->axes[2].out_step;
        // The usual kernels, several rows of a lattice at once.
        const lattice rows_of = lattice_of(s, 1);
        const row_of_widths *kind = widths, *last = widths + sizeof widths / sizeof *widths;
        while (kind < last && (kind->taps[0] != h.count || kind->taps[1] != K[2] || kind->in_step != rows_of.in_step))
            kind++;
        if (kind < last && (end - q_row) / rows_of.classes >= kind->rows && K[0] == 1 && d->count == 1 &&
            s->axes[1].out_step == 1 && s->axes[2].out_step == 1) {
            const taps w = taps_of(s, 2, 0);
            int64_t column[MAX_TAPS];
            float ordered[MAX_ALL];
            for (int64_t k = 0; k < w.count; k++)
                column[k] = place(s, c, w.at + k * w.at_step);
            for (int64_t i = 0; i < h.count; i++)
                for (int64_t k = 0; k < w.count; k++)
                    ordered[i * w.count + k] = weights[(h.k + i * h.k_step) * K[2] + w.k + k * w.k_step];
            for (int64_t class = 0; class < rows_of.step; class++) {
                // The last rows end with the block, overlapping those before.
                const int64_t members = (end - q_row - class + rows_of.step - 1) / rows_of.step;
                for (int64_t i = 0; i < members; i += kind->rows) {
                    i = min(i, members - kind->rows);
                    const int64_t row = q_row + class + i * rows_of.step;
                    kind->run(rows + ((row - q_row) * s->axes[1].in_step + h.at - c->low[0]) * c->row,
                              h.at_step * c->row, column, ordered, bias, columns, line + row * s->out_x[1],
                              rows_of.step * s->out_x[1]);
                }
            }
            continue;
        }
        int64_t count = 0;
        for (int64_t phase = 0; phase < s->axes[2].out_step; phase++) {
            const taps w = taps_of(s, 2, phase);
            for (int64_t i = 0; i < d->count; i++)
                for (int64_t j = 0; j < h.count; j++)
                    for (int64_t k = 0; k < w.count; k++) {
                        tap *t = &list[count++];
                        t->offset = i * c->plane + (h.at + j * h.at_step - c->low[0]) * c->row + place(s, c, w.at + k * w.at_step);
                        t->w = weights[((d->k + i * d->k_step) * K[1] + h.k + j * h.k_step) * K[2] + w.k +
                                       k * w.k_step];
                    }
            ends[phase] = count;
        }
        const pitch next = {s->axes[1].in_step * c->row, s->axes[1].out_step * s->out_x[1]};
        const int64_t at_once = end - q_row < MAX_WIDTH_ROWS ? 1 : MAX_WIDTH_ROWS;
        for (int64_t row = q_row; row < end; row += at_once) {
            // The last rows end with the block, overlapping those before.
            row = min(row, end - at_once);
            (at_once > 1 ? rows_fast : row_fast)(s, list, ends, rows + (row - q_row) * next.in, next, columns, pixels, bias,
                                                 line + row * next.out);
        }
    }
}

#if OPWRIGHT_WINDOWS
// R rows of output by a KH x KW kernel at once as in width_run, over several planes, from a tensor. Row 0 meets `row`
// and the rows `step` apart from there, column 0 `column` and so on; rows outside the tensor are left out.
INLINE void place_run(const int KH, const int KW, const int R, const solve *s, const elem *in, int64_t planes,
                      int64_t plane, int64_t row, int64_t step, int64_t column, int64_t column_step, const float *w,
                      vec bias, int64_t count, sum_cell *out, int64_t out_row) {
    const int64_t height = s->axes[1].in, width = s->axes[2].in;
    for (int64_t q = 0; q < count; q += LANES) {
        window lanes[MAX_TAPS];
        UNROLL for (int k = 0; k < KW; k++) {
            const int64_t at = column + q + k * column_step;
            lanes[k] = window_of(-at, width - at);
        }
        vec acc[MAX_WIDTH_ROWS];
        UNROLL for (int r = 0; r < R; r++) acc[r] = (vec){0};
        const elem *from = in + row * s->in_x[1] + column + q;
        const float *weights = w;
        for (int64_t j = 0; j < planes; j++, from += plane, weights += KH * KW) {
            vec tap[MAX_ALL];
            UNROLL for (int k = 0; k < KH * KW; k++) tap[k] = vec_splat(weights[k]);
            UNROLL for (int i = 0; i < R - 1 + KH; i++) {
                if ((uint64_t)(row + i * step) >= (uint64_t)height)
                    continue;
                UNROLL for (int k = 0; k < KW; k++) {
                    const vec x = elem_load_window(from + i * step * s->in_x[1] + k * column_step, lanes[k]);
                    UNROLL for (int r = 0; r < R; r++) if (i >= r && i - r < KH) acc[r] += x * tap[(i - r) * KW + k];
                }
            }
        }
        UNROLL for (int r = 0; r < R; r++)
            sums_store(out + r * out_row + q, acc[r] + bias, count - q < LANES, min(LANES, count - q));
    }
}

static void place_block(const solve *s, const plan *c, const elem *in, const taps *d, const float *weights, vec bias,
                        sum_cell *out, int64_t q_row, int64_t q_column, float *ordered) {
    // Planes follow each other: prefetches what is read and written soon.
    const bool far = s->problem->N * s->in_n > NEAR;
    const int64_t *K = s->problem->taps, end = min(q_row + c->q[0], s->axes[1].out);
    const taps h = taps_of(s, 1, 0), w = taps_of(s, 2, 0);
    const int64_t step = h.at_step, column = q_column + w.at, count = min(c->q[1], s->axes[2].out - q_column);
    float *to = ordered;
    for (int64_t j = 0; j < d->count; j++)
        for (int64_t i = 0; i < h.count; i++)
            for (int64_t k = 0; k < w.count; k++)
                *to++ = weights[((d->k + j * d->k_step) * K[1] + h.k + i * h.k_step) * K[2] + w.k + k * w.k_step];
    in += d->at * s->in_x[0];
    for (int64_t class = 0; class < step; class++) {
        const int64_t members = (end - q_row - class + step - 1) / step;
        for (int64_t i = 0; i < members; i += members >= 4 ? 4 : 1) {
            if (members >= 4)
                i = min(i, members - 4);
            const int64_t row = q_row + class + i * step;
            sum_cell *line = out + row * s->out_x[1] + q_column;
            if (far) {
                prefetch(in + (row + h.at) * s->in_x[1] + AHEAD, 4 * s->in_x[1] * (int64_t)sizeof *in, 0);
                prefetch(line + AHEAD, 4 * s->out_x[1] * (int64_t)sizeof *line, 1);
            }
            if (members >= 4)
                place_run(3, 3, 4, s, in, d->count, d->at_step * s->in_x[0], row + h.at, step, column, w.at_step,
                          ordered, bias, count, line, step * s->out_x[1]);
            else
                place_run(3, 3, 1, s, in, d->count, d->at_step * s->in_x[0], row + h.at, step, column, w.at_step,
                          ordered, bias, count, line, step * s->out_x[1]);
        }
    }
}
#endif

typedef struct width_call {
    solve s;
    plan plan;
    const elem *in, *bias;
    const tap_cell *weights;
    sum_cell *out;
    char *own;
} width_call;

// To [kd][kh][kw]; whether there is an Inf or NaN.
static bool read_weights(const opwright_problem *p, const tap_cell *from, float *to) {
    const int64_t K = volume(p->taps);
    vec zero = {0};
    for (int64_t k = 0; k < K; k += LANES) {
        vec v = {0};
        if (dense(p->taps, p->w_k))
            v = tap_load_part(from + k, min(LANES, K - k));
        else
            for (int64_t i = 0; i < min(LANES, K - k); i++)
                v[i] = tap_get(from + tap_at(p, k + i));
        zero += v - v;
        vec_store_part(to + k, v, min(LANES, K - k));
    }
    return uvec_any((uvec)(zero != zero));
}

static void width_task(const void *context, int64_t task, int64_t worker) {
    const width_call *c = context;
    const solve *s = &c->s;
    const opwright_problem *p = s->problem;
    const plan *b = &c->plan;
    char *own = c->own + worker * b->own_bytes;
    float *rows = (float *)(void *)own, *weights = (float *)(void *)(own + b->rows_bytes);
    tap *list = (tap *)(void *)((char *)weights + whole_lines(volume(p->taps) * 4));
    int64_t *ends = (int64_t *)(void *)(list + volume(p->taps));
    const int64_t all = p->N * p->G * b->units, end = min(all, (task + 1) * b->task_units);
    int64_t known = -1;  // whose weights are packed
    bool non_finite = false;
    unit last = {.q_row = -1};
    int64_t planes = 0;
    for (int64_t number = task * b->task_units; number < end; number++) {
        const unit u = unit_of(b, p, number);
        if (u.g != known) {
            known = u.g, non_finite = read_weights(p, c->weights + u.g * p->w_g, weights);
        }
        const elem *const in = c->in + u.n * s->in_n + u.g * s->in_c;
        if (non_finite) {
            opwright_problem plane = *p;
            plane.N = plane.G = 1;
            if (u.d == 0 && u.q_row == 0 && u.q_column == 0)
                OPWRIGHT_NAME(plain).solve(s->backward ? OPWRIGHT_X : OPWRIGHT_Y, &plane, in, (const void *)(c->weights + u.g * p->w_g),
                                           c->bias ? c->bias + u.g : NULL, c->out + u.n * s->out_n + u.g * s->out_c, NULL, NULL, NULL);
            continue;
        }
        const taps d = clipped(taps_of(s, 0, u.d), s->axes[0].in);
        if (!in_place(p) && p->N * s->in_n > FAR && volume(p->taps) <= FEW_TAPS) {
            // Memory is slower than so few products: 3.3 instead of 3.8 ms for 16 images of 32x112x112.
            const int64_t first = u.q_row * s->axes[1].out_step;
            const int64_t rows = min(b->q[0] * s->axes[1].out_step, s->axes[1].out - first);
            prefetch(c->out + u.n * s->out_n + u.g * s->out_c + u.d * s->out_x[0] + first * s->out_x[1],
                     rows * s->out_x[1] * (int64_t)sizeof *c->out, 1);
        }
        const vec bias = vec_splat(c->bias ? elem_get(c->bias + u.g) : 0);
#if OPWRIGHT_WINDOWS
        if (in_place(p)) {
            place_block(s, b, in, &d, weights, bias,
                        c->out + u.n * s->out_n + u.g * s->out_c + u.d * s->out_x[0], u.q_row, u.q_column,
                        (float *)(void *)list);
            continue;
        }
#endif
        fill_block(s, b, in, &d, u.q_row, u.q_column,
                   same_place(&u, &last) && d.count <= planes, rows);
        last = u, planes = d.count;
        width_block(s, b, rows, &d, weights, bias,
                    c->out + u.n * s->out_n + u.g * s->out_c + u.d * s->out_x[0], u.q_row, u.q_column, list, ends);
    }
}

static int64_t own_bytes(const solve *s, const plan *c) {
    const int64_t K = volume(s->problem->taps);
    return c->rows_bytes + whole_lines(K * 4) + whole_lines(K * (int64_t)sizeof(tap) + s->axes[2].out_step * 8);
}

// Literal taps make y faster by (f32, AVX-512): 9x9 1.4, 1x9 over 400 columns 1.1; not 1x7 over 28 columns, 0.88.
static int64_t fixed(opwright_solve solve, const opwright_problem *p, int64_t *values) {
    const struct solve s = solve_of(p, solve == OPWRIGHT_X);
    const int64_t rows = p->taps[1], columns = p->taps[2], step = lattice_of(&s, 1).in_step;
    values[0] = rows, values[1] = columns, values[2] = step;
    if (p->taps[0] != 1 || s.axes[1].out_step != 1 || s.axes[2].out_step != 1 || step > 2 || rows > FIXED_COLUMNS ||
        columns > FIXED_COLUMNS || (rows == 1 && (columns < 8 || s.axes[2].out < 4 * LANES)))
        return OPWRIGHT_NOT_FIXED;
    const row_of_widths *kind = widths, *last = widths + sizeof widths / sizeof *widths;
    while (kind < last && (kind->taps[0] != rows || kind->taps[1] != columns || kind->in_step != step))
        kind++;
    return kind == last ? OPWRIGHT_FIXED_DEPTHWISE_COLUMNS : OPWRIGHT_NOT_FIXED;
}

static int64_t scratch_bytes(opwright_solve solve, const opwright_problem *p, int64_t workers, bool finished) {
    (void)finished;
    const struct solve s = solve_of(p, solve == OPWRIGHT_X);
    const plan c = plan_of(&s);
    return workers * own_bytes(&s, &c);
}

static void solve_columns(opwright_solve solve, const opwright_problem *p, const elem *in, const elem *weights, const elem *bias,
                          sum_cell *out, const opwright_sink *sink, const opwright_team *team, void *scratch) {
    (void)sink;
    width_call c = {.s = solve_of(p, solve == OPWRIGHT_X), .in = in, .weights = (const void *)weights, .bias = bias, .out = out,
                    .own = scratch};
    c.plan = plan_of(&c.s);
    c.plan.own_bytes = own_bytes(&c.s, &c.plan);
    opwright_run(team, width_task, &c, ceil_div(p->N * p->G * c.plan.units, c.plan.task_units));
}

const opwright_way OPWRIGHT_NAME(depthwise_columns) = {NULL, scratch_bytes, solve_columns, fixed};
