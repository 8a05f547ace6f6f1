// y, x and w of kernels whose groups have one channel on either side. They are a library of their own, so that other
// calls need not wait for its compilation.

#include "depthwise.h"
#include "engine.h"
#include "solves.h"

static bool is_plain(const opwright_problem *p) { return plain_fits(p) || !depthwise_fits(p); }

void OPWRIGHT_NAME(channelwise_y)(const opwright_problem *problem, const elem *big, const elem *weights,
                                  const elem *bias, elem *small, const opwright_team *team, void *scratch) {
    const opwright_problem p = tamed(problem);
    if (is_plain(&p))
        plain(&p, OPWRIGHT_Y, big, weights, bias, small, team);
    else
        depthwise_y(&p, big, weights, bias, small, team, scratch);
}

void OPWRIGHT_NAME(channelwise_x)(const opwright_problem *problem, const elem *small, const elem *weights,
                                  const elem *bias, elem *big, const opwright_team *team, void *scratch) {
    const opwright_problem p = tamed(problem);
    if (is_plain(&p))
        plain(&p, OPWRIGHT_X, small, weights, bias, big, team);
    else
        depthwise_x(&p, small, weights, bias, big, team, scratch);
}

void OPWRIGHT_NAME(channelwise_w)(const opwright_problem *problem, const elem *big, const elem *small, elem *weights,
                                  const opwright_team *team, void *scratch) {
    const opwright_problem p = tamed(problem);
    if (is_plain(&p))
        plain(&p, OPWRIGHT_W, big, small, NULL, weights, team);
    else
        depthwise_w(&p, big, small, weights, team, scratch);
}

int64_t OPWRIGHT_NAME(channelwise_y_scratch)(const opwright_problem *problem, int64_t workers) {
    const opwright_problem p = tamed(problem);
    return is_plain(&p) ? 0 : depthwise_y_scratch(&p, workers);
}

int64_t OPWRIGHT_NAME(channelwise_x_scratch)(const opwright_problem *problem, int64_t workers) {
    const opwright_problem p = tamed(problem);
    return is_plain(&p) ? 0 : depthwise_x_scratch(&p, workers);
}

int64_t OPWRIGHT_NAME(channelwise_w_scratch)(const opwright_problem *problem, int64_t workers) {
    const opwright_problem p = tamed(problem);
    return is_plain(&p) ? 0 : depthwise_w_scratch(&p, workers);
}
