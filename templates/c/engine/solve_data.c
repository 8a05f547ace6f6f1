// y and x, each by the way that suits the problem.

#include "depthwise.h"
#include "engine.h"
#include "solves.h"

static void solve_data(const opwright_problem *problem, bool backward, const elem *in, const elem *weights,
                       const elem *bias, elem *out, const opwright_team *team, void *scratch) {
    const opwright_problem p = tamed(problem);
    if (plain_fits(&p))
        plain(&p, backward ? OPWRIGHT_X : OPWRIGHT_Y, in, weights, bias, out, team);
    else if (depthwise_fits(&p))
        (backward ? depthwise_x : depthwise_y)(&p, in, weights, bias, out, team, scratch);
    else if (over_columns_fits(&p, backward))
        over_columns(&p, backward, in, weights, bias, out, team, scratch);
    else
        over_channels(&p, backward, in, weights, bias, out, team, scratch);
}

static int64_t data_scratch(const opwright_problem *problem, bool backward, int64_t workers) {
    const opwright_problem p = tamed(problem);
    if (plain_fits(&p))
        return 0;
    if (depthwise_fits(&p))
        return (backward ? depthwise_x_scratch : depthwise_y_scratch)(&p, workers);
    if (over_columns_fits(&p, backward))
        return over_columns_scratch(&p, backward, workers);
    return over_channels_scratch(&p, backward, workers);
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
