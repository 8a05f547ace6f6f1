// w, by the way that suits the problem.

#include "engine.h"

void OPWRIGHT_NAME(weights)(opwright_solve solve, const opwright_problem *problem, const elem *big, const elem *small,
                            const elem *bias, elem *weights, const opwright_sink *sink, const opwright_team *team,
                            void *scratch) {
    (void)sink;
    const opwright_problem p = tamed(problem);
    if (plain_fits(&p))
        plain(&p, solve, big, small, bias, weights, team);
    else if (!product_w(&p, big, small, weights, team, scratch) &&
             !OPWRIGHT_NAME(weights_columns)(&p, big, small, weights, team, scratch))
        OPWRIGHT_NAME(over_pixels)(&p, big, small, weights, team, scratch);
}

int64_t OPWRIGHT_NAME(weights_scratch)(opwright_solve solve, const opwright_problem *problem, int64_t workers, bool finished) {
    (void)solve;
    if (finished)
        return -1;
    const opwright_problem p = tamed(problem);
    if (plain_fits(&p))
        return 0;
    const int64_t product = product_w_scratch(&p, workers);
    if (product >= 0)
        return product;
    const int64_t columns = OPWRIGHT_NAME(weights_columns_scratch)(&p, workers);
    return columns >= 0 ? columns : OPWRIGHT_NAME(over_pixels_scratch)(&p, workers);
}

// The rows of its tiles are contiguous: their distance is a literal already.
int64_t OPWRIGHT_NAME(weights_fixed)(opwright_solve solve, const opwright_problem *problem, int64_t *values) {
    (void)solve, (void)problem, (void)values;
    return OPWRIGHT_NOT_FIXED;
}
