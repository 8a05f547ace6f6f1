// y and x, each by the way that suits the problem.

#include "engine.h"
#include "solves.h"

static void solve_data(const opwright_problem *problem, bool backward, const elem *in, const elem *weights,
                       const elem *bias, elem *out, const opwright_team *team, void *scratch) {
    const opwright_problem p = tamed(problem);
    if (plain_fits(&p))
        plain(&p, backward ? OPWRIGHT_X : OPWRIGHT_Y, in, weights, bias, out, team);
    else if (over_columns_fits(&p, backward))
        over_columns(&p, backward, in, weights, bias, out, team, scratch);
    else
        over_channels(&p, backward, in, weights, bias, out, team, scratch);
}

static int64_t data_scratch(const opwright_problem *problem, bool backward, int64_t workers) {
    const opwright_problem p = tamed(problem);
    if (plain_fits(&p))
        return 0;
    if (over_columns_fits(&p, backward))
        return over_columns_scratch(&p, backward, workers);
    return over_channels_scratch(&p, backward, workers);
}

static int64_t data_fixed(const opwright_problem *problem, bool backward, int64_t *values) {
    const opwright_problem p = tamed(problem);
    if (plain_fits(&p) || over_columns_fits(&p, backward) || !over_channels_fixed(&p, backward, values))
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
