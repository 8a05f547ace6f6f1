// w, by the way that suits the problem.

#include "engine.h"

static const opwright_way *const ways[] = {&OPWRIGHT_NAME(plain), &OPWRIGHT_NAME(product), &OPWRIGHT_NAME(weights_columns),
                                           &OPWRIGHT_NAME(over_pixels)};

void OPWRIGHT_NAME(weights)(opwright_solve solve, const opwright_problem *problem, const elem *big, const elem *small,
                            const elem *bias, elem *weights, const opwright_sink *sink, const opwright_team *team,
                            void *scratch) {
    const opwright_problem p = tamed(problem);
    way_of(ways, solve, &p)->solve(solve, &p, big, small, bias, weights, sink, team, scratch);
}

int64_t OPWRIGHT_NAME(weights_scratch)(opwright_solve solve, const opwright_problem *problem, int64_t workers, bool finished) {
    const opwright_problem p = tamed(problem);
    return finished ? -1 : way_of(ways, solve, &p)->scratch(solve, &p, workers, false);
}

// The rows of its tiles are contiguous: their distance is a literal already.
int64_t OPWRIGHT_NAME(weights_fixed)(opwright_solve solve, const opwright_problem *problem, int64_t *values) {
    (void)solve, (void)problem, (void)values;
    return OPWRIGHT_NOT_FIXED;
}
