// y and x, each by the way that suits the problem.

#include "engine.h"
#include "solves.h"

static int64_t bias_bytes(const opwright_problem *p) { return (p->B * (int64_t)sizeof(elem) + 63) & ~(int64_t)63; }

// Columns of big that every stride, tap and pad takes as a whole become channels, where neighbours lie like these: pairs
// and vectors of big are fuller. Channels that lie otherwise are planes of one tap each before: where they are summed,
// and pairs of them would have to be made. How many columns become one.
static int64_t fold(opwright_problem *p, bool backward) {
    const int64_t columns = gcd(gcd(p->big[2], p->taps[2]), gcd(p->stride[2], p->pad[2]));
    const bool alike = p->B == 1 || (p->big_x[2] == p->B * p->big_c && p->w_k[2] == p->B * p->w_b);
    const bool single = p->big[0] == 1 && p->small[0] == 1 && p->taps[0] == 1 && p->pad[0] == 0;
    const bool planes = OPWRIGHT_PAIRS && !backward && single && p->big_x[2] == 1;
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

// Rows shorter than a vector make short tiles. Where columns have no taps, columns are the rows.
static opwright_problem upright(const opwright_problem *problem) {
    opwright_problem p = tamed(problem);
    const bool free = p.taps[2] == 1 && p.stride[2] == 1 && p.pad[2] == 0 && p.small[2] == p.big[2];
    const bool last = p.big_c == 1 && p.small_c == 1;
    const bool whole = p.small_x[1] == p.small[2] && p.big_x[1] == p.big[2] && p.small_x[2] == 1 && p.big_x[2] == 1;
    if (free && (last || (whole && p.A >= LANES && p.B >= LANES)) && p.taps[1] > 1 && p.small[2] < LANES && p.small[1] > p.small[2]) {
        const opwright_problem old = p;
        move_axis(&old, 1, &p, 2);
        move_axis(&old, 2, &p, 1);
    }
    return p;
}

static void solve_data(const opwright_problem *problem, bool backward, const elem *in, const elem *weights,
                       const elem *bias, elem *out, const opwright_team *team, void *scratch) {
    opwright_problem p = upright(problem);
    if (plain_fits(&p)) {
        plain(&p, backward ? OPWRIGHT_X : OPWRIGHT_Y, in, weights, bias, out, team);
        return;
    }
    const int64_t columns = fold(&p, backward);
    if (backward && bias && columns > 1) {
        elem *biases = scratch;
        for (int64_t i = 0; i < p.B; i++)
            biases[i] = bias[i % problem->B];
        bias = biases;
        scratch = (char *)scratch + bias_bytes(&p);
    }
    if (over_products_fits(&p, backward))
        over_products(&p, backward, in, weights, bias, out, team, scratch);
    else if (over_columns_fits(&p, backward))
        over_columns(&p, backward, in, weights, bias, out, team, scratch);
    else
        over_channels(&p, backward, in, weights, bias, out, team, scratch);
}

static int64_t data_scratch(const opwright_problem *problem, bool backward, int64_t workers) {
    opwright_problem p = upright(problem);
    if (plain_fits(&p))
        return 0;
    const int64_t biases = fold(&p, backward) > 1 && backward ? bias_bytes(&p) : 0;
    if (over_products_fits(&p, backward))
        return biases + over_products_scratch(&p, backward, workers);
    if (over_columns_fits(&p, backward))
        return biases + over_columns_scratch(&p, backward, workers);
    return biases + over_channels_scratch(&p, backward, workers);
}

static int64_t data_fixed(const opwright_problem *problem, bool backward, int64_t *values) {
    opwright_problem p = upright(problem);
    if (plain_fits(&p))
        return OPWRIGHT_NOT_FIXED;
    fold(&p, backward);
    if (over_products_fits(&p, backward) || over_columns_fits(&p, backward) ||
        !over_channels_fixed(&p, backward, values))
        return OPWRIGHT_NOT_FIXED;
    return OPWRIGHT_FIXED_CHANNELS;
}

void OPWRIGHT_NAME(y)(const opwright_problem *problem, const elem *big, const elem *weights, const elem *bias,
                      elem *small, const opwright_team *team, void *scratch) {
    solve_data(problem, false, big, weights, bias, small, team, scratch);
}

void OPWRIGHT_NAME(x)(const opwright_problem *problem, const elem *small, const elem *weights, const elem *bias,
                      elem *big, const opwright_team *team, void *scratch) {
    solve_data(problem, true, small, weights, bias, big, team, scratch);
}

int64_t OPWRIGHT_NAME(y_scratch)(const opwright_problem *problem, int64_t workers) {
    return data_scratch(problem, false, workers);
}

int64_t OPWRIGHT_NAME(x_scratch)(const opwright_problem *problem, int64_t workers) {
    return data_scratch(problem, true, workers);
}

int64_t OPWRIGHT_NAME(y_fixed)(const opwright_problem *problem, int64_t *values) {
    return data_fixed(problem, false, values);
}

int64_t OPWRIGHT_NAME(x_fixed)(const opwright_problem *problem, int64_t *values) {
    return data_fixed(problem, true, values);
}
