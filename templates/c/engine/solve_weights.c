// w, by the way that suits the problem.

#include "depthwise.h"
#include "engine.h"
#include "solves.h"

void OPWRIGHT_NAME(w)(const opwright_problem *problem, const elem *big, const elem *small, elem *weights,
                      const opwright_team *team, void *scratch) {
    const opwright_problem p = tamed(problem);
    if (plain_fits(&p))
        plain(&p, OPWRIGHT_W, big, small, NULL, weights, team);
    else
        (depthwise_fits(&p) ? depthwise_w : OPWRIGHT_NAME(weights))(&p, big, small, weights, team, scratch);
}

int64_t OPWRIGHT_NAME(w_scratch)(const opwright_problem *problem, int64_t workers) {
    const opwright_problem p = tamed(problem);
    if (plain_fits(&p))
        return 0;
    return (depthwise_fits(&p) ? depthwise_w_scratch : OPWRIGHT_NAME(weights_scratch))(&p, workers);
}
