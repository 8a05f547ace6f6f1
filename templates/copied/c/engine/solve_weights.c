// w, by the way that suits the problem.

#include "engine.h"
#include "solves.h"

void OPWRIGHT_NAME(w)(const opwright_problem *problem, const elem *big, const elem *small, elem *weights,
                      const opwright_team *team, void *scratch) {
    const opwright_problem p = tamed(problem);
    if (plain_fits(&p))
        plain(&p, OPWRIGHT_W, big, small, NULL, weights, team);
    else if (!OPWRIGHT_NAME(weights_columns)(&p, big, small, weights, team, scratch))
        OPWRIGHT_NAME(weights)(&p, big, small, weights, team, scratch);
}

int64_t OPWRIGHT_NAME(w_scratch)(const opwright_problem *problem, int64_t workers) {
    const opwright_problem p = tamed(problem);
    if (plain_fits(&p))
        return 0;
    const int64_t columns = OPWRIGHT_NAME(weights_columns_scratch)(&p, workers);
    return columns >= 0 ? columns : OPWRIGHT_NAME(weights_scratch)(&p, workers);
}

// The rows of its tiles are contiguous: their distance is a literal already.
int64_t OPWRIGHT_NAME(w_fixed)(const opwright_problem *problem, int64_t *values) {
    (void)problem, (void)values;
    return OPWRIGHT_NOT_FIXED;
}
