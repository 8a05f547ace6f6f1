// The solves of one dtype and instruction set, each by the way that suits the problem.

#include "depthwise.h"
#include "engine.h"
#include "solves.h"

static void solve_data(const opwright_problem *problem, bool backward, const elem *in, const elem *weights,
                       const elem *bias, elem *out, const opwright_team *team, void *scratch) {
    if (depthwise_fits(problem))
        (backward ? depthwise_x : depthwise_y)(problem, in, weights, bias, out, team, scratch);
    else if (over_columns_fits(problem, backward))
        over_columns(problem, backward, in, weights, bias, out, team, scratch);
    else
        over_channels(problem, backward, in, weights, bias, out, team, scratch);
}

static int64_t data_scratch(const opwright_problem *problem, bool backward, int64_t workers) {
    if (depthwise_fits(problem))
        return (backward ? depthwise_x_scratch : depthwise_y_scratch)(problem, workers);
    if (over_columns_fits(problem, backward))
        return over_columns_scratch(problem, backward, workers);
    return over_channels_scratch(problem, backward, workers);
}

void OPWRIGHT_NAME(y)(const opwright_problem *problem, const elem *big, const elem *weights, const elem *bias,
                      elem *small, const opwright_team *team, void *scratch) {
    solve_data(problem, false, big, weights, bias, small, team, scratch);
}

void OPWRIGHT_NAME(x)(const opwright_problem *problem, const elem *small, const elem *weights, const elem *bias,
                      elem *big, const opwright_team *team, void *scratch) {
    solve_data(problem, true, small, weights, bias, big, team, scratch);
}

void OPWRIGHT_NAME(w)(const opwright_problem *problem, const elem *big, const elem *small, elem *weights,
                      const opwright_team *team, void *scratch) {
    (depthwise_fits(problem) ? depthwise_w : OPWRIGHT_NAME(weights))(problem, big, small, weights, team, scratch);
}

int64_t OPWRIGHT_NAME(y_scratch)(const opwright_problem *problem, int64_t workers) {
    return data_scratch(problem, false, workers);
}

int64_t OPWRIGHT_NAME(x_scratch)(const opwright_problem *problem, int64_t workers) {
    return data_scratch(problem, true, workers);
}

int64_t OPWRIGHT_NAME(w_scratch)(const opwright_problem *problem, int64_t workers) {
    return depthwise_fits(problem) ? depthwise_w_scratch(problem, workers) : OPWRIGHT_NAME(weights_scratch)(problem, workers);
}
