// y and x, each by the way that suits the problem.

#include "engine.h"

enum { FAR = 128 }; // minimum distance of taps for long enough rows; a shorter one gains nothing

static int64_t bias_bytes(const opwright_problem *p) { return whole_lines(p->G * p->B * (int64_t)sizeof(elem)); }

// Columns of big that every stride, tap and pad moves as a whole become channels if their strides allow it: pairs and
// vectors of big are fuller. Summed channels with other strides become planes of one tap each first, if pairs of them
// would have to be assembled and they are few: 64 of 2x2 took 2.8 times as long. Returns how many columns become one.
static int64_t fold(opwright_problem *p, bool backward) {
    const int64_t columns = gcd(gcd(p->big[2], p->taps[2]), gcd(p->stride[2], p->pad[2]));
    const bool alike = p->B == 1 || (p->big_x[2] == p->B * p->big_c && p->w_k[2] == p->B * p->w_b);
    const bool single = p->big[0] == 1 && p->small[0] == 1 && p->taps[0] == 1 && p->pad[0] == 0;
    const bool planes = OPWRIGHT_PAIRS && !backward && single && p->big_x[2] == 1 && p->B <= columns;
    const bool gains = backward || OPWRIGHT_PAIRS;
    if (!gains || p->G > 1 || p->dilation[2] > 1 || columns == 1 || !(alike || planes))
        return 1;
    if (!alike) {
        p->big[0] = p->taps[0] = p->B;
        p->big_x[0] = p->big_c, p->w_k[0] = p->w_b;
        p->B = 1;
    }
    if (p->B == 1)
        p->big_c = p->big_x[2], p->w_b = p->w_k[2];
    p->B *= columns;
    p->big_x[2] *= columns, p->w_k[2] *= columns;
    p->big[2] /= columns, p->taps[2] /= columns, p->stride[2] /= columns, p->pad[2] /= columns;
    return columns;
}

// A single row with distant taps becomes many rows of that length: its taps lie one below the other, and copied rows
// serve all of them. The last rows of either side may be shorter, so that columns [first, last) have the same number of
// rows. This gives up to three problems: the one at `first`, and its position.
static opwright_problem wrapped(const opwright_problem *problem, int64_t first, int64_t *last) {
    opwright_problem p = tamed(problem);
    const int64_t far = p.dilation[2];
    *last = INT64_MAX;
    if (far < FAR || p.stride[2] != 1 || p.pad[2] % far != 0 || p.small[2] < far || p.big[2] < far ||
        p.small[1] != 1 || p.big[1] != 1 || p.taps[1] != 1 || p.pad[1] != 0)
        return p;
    *last = far;
    if (first < p.small[2] % far)
        *last = p.small[2] % far;
    if (first < p.big[2] % far)
        *last = min(*last, p.big[2] % far);
    const opwright_problem row = p;
    move_axis(&row, 2, &p, 1);
    p.dilation[1] = p.dilation[2] = 1, p.pad[1] /= far, p.pad[2] = 0, p.taps[2] = 1;
    p.small[1] = ceil_div(row.small[2] - first, far), p.big[1] = ceil_div(row.big[2] - first, far);
    p.small[2] = p.big[2] = *last - first;
    p.small_x[1] = far * row.small_x[2], p.big_x[1] = far * row.big_x[2];
    *last = *last < far ? *last : INT64_MAX;
    return p;
}

// Rows shorter than a vector make short tiles. If columns have no taps, columns become the rows.
static opwright_problem upright(const opwright_problem *problem) {
    opwright_problem p = *problem;
    const bool free = p.taps[2] == 1 && p.stride[2] == 1 && p.pad[2] == 0 && p.small[2] == p.big[2];
    const bool last = p.big_c == 1 && p.small_c == 1;
    const bool dense = p.small_x[1] == p.small[2] && p.big_x[1] == p.big[2] && p.small_x[2] == 1 && p.big_x[2] == 1;
    if (free && (last || (dense && p.A >= LANES && p.B >= LANES)) && p.taps[1] > 1 && p.small[2] < LANES &&
        p.small[1] > p.small[2]) {
        const opwright_problem old = p;
        move_axis(&old, 1, &p, 2);
        move_axis(&old, 2, &p, 1);
    }
    return p;
}

static const opwright_way *const ways[] = {&OPWRIGHT_NAME(plain), &OPWRIGHT_NAME(product), &OPWRIGHT_NAME(col2im),
                                           &OPWRIGHT_NAME(over_columns), &OPWRIGHT_NAME(over_channels)};

// The way of a problem, whose cells or columns become channels where they can: how many, and whether those of one channel are
// neighbours then.
static const opwright_way *way_of_rows(opwright_problem *p, opwright_solve solve, int64_t *cells, bool *beside) {
    *beside = false, *cells = 1;
    if (ways[0]->fits(solve, p))
        return ways[0];
    *cells = whole(p, beside);
    if (*cells == 1)
        *cells = fold(p, solve == OPWRIGHT_X);
    return way_of(ways + 1, solve, p);
}

static void solve_rows(opwright_solve solve, opwright_problem p, const elem *in, const elem *weights, const elem *bias,
                       sum_cell *out, const opwright_sink *sink, const opwright_team *team, void *scratch) {
    bool beside;
    int64_t cells;
    const int64_t channels = p.B;
    const opwright_way *way = way_of_rows(&p, solve, &cells, &beside);
    if (solve == OPWRIGHT_X && bias && cells > 1) {
        elem *biases = scratch;
        for (int64_t i = 0; i < p.G * p.B; i++)
            biases[i] = bias[beside ? i / cells : i % channels];
        bias = biases;
        scratch = (char *)scratch + bias_bytes(&p);
    }
    way->solve(solve, &p, in, weights, bias, out, sink, team, scratch);
}

// -1 if there is to be a sink, and the way that suits the problem has none.
static int64_t rows_scratch(opwright_solve solve, opwright_problem p, int64_t workers, bool finished) {
    bool beside;
    int64_t cells;
    const opwright_way *way = way_of_rows(&p, solve, &cells, &beside);
    const int64_t bytes = way->scratch(solve, &p, workers, finished);
    return bytes < 0 || solve != OPWRIGHT_X || cells == 1 ? bytes : bytes + bias_bytes(&p);
}

void OPWRIGHT_NAME(data)(opwright_solve solve, const opwright_problem *problem, const elem *in, const elem *weights,
                         const elem *bias, sum_cell *out, const opwright_sink *sink, const opwright_team *team, void *scratch) {
    const bool backward = solve == OPWRIGHT_X;
    const int64_t in_step = backward ? problem->small_x[2] : problem->big_x[2];
    const int64_t out_step = backward ? problem->big_x[2] : problem->small_x[2];
    for (int64_t first = 0, last; first < INT64_MAX; first = last) {
        const opwright_problem p = wrapped(problem, first, &last);
        opwright_sink rest;
        if (sink)
            rest = *sink, rest.first += first * out_step;
        solve_rows(solve, upright(&p), in + first * in_step, weights, bias, sink ? NULL : out + first * out_step,
                   sink ? &rest : NULL, team, scratch);
    }
}

int64_t OPWRIGHT_NAME(data_scratch)(opwright_solve solve, const opwright_problem *problem, int64_t workers, bool finished) {
    int64_t bytes = 0;
    for (int64_t first = 0, last; first < INT64_MAX && bytes >= 0; first = last) {
        const opwright_problem p = wrapped(problem, first, &last);
        const int64_t rows = rows_scratch(solve, upright(&p), workers, finished);
        bytes = rows < 0 ? -1 : max(bytes, rows);
    }
    return bytes;
}

// Their tiles are as fast with distances at run time: one vector of output channels with the distance as a literal, 13 rows
// 0.99 to 1.02 (AMD Zen 4, gcc 12.2).
int64_t OPWRIGHT_NAME(data_fixed)(opwright_solve solve, const opwright_problem *problem, int64_t *values) {
    (void)solve, (void)problem, (void)values;
    return OPWRIGHT_NOT_FIXED;
}
