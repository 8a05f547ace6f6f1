// Groups with one channel on either side, by the way that suits the problem: OVER_CHANNELS, OVER_COLUMNS or plain. y and x
// are a library, and w another, so that calls of one need not wait for the compilation of the other: ENGINE names its
// functions.

#include "depthwise.h"

static const opwright_way *chosen(opwright_solve solve, const opwright_problem *p) {
    const bool gaps = !channels_last(p) && !(dense(p->big, p->big_x) && dense(p->small, p->small_x));
    if (p->A != 1 || p->B != 1 || gaps || OPWRIGHT_NAME(plain).fits(solve, p))
        return &OPWRIGHT_NAME(plain);
    return OVER_CHANNELS.fits(solve, p) ? &OVER_CHANNELS : &OVER_COLUMNS;
}

void ENGINE()(opwright_solve solve, const opwright_problem *problem, const elem *first, const elem *second, const elem *bias,
              sum_cell *out, const opwright_sink *sink, const opwright_team *team, void *scratch) {
    const opwright_problem p = tamed(problem);
    chosen(solve, &p)->solve(solve, &p, first, second, bias, out, sink, team, scratch);
}

int64_t ENGINE(_scratch)(opwright_solve solve, const opwright_problem *problem, int64_t workers, bool finished) {
    const opwright_problem p = tamed(problem);
    return finished ? -1 : chosen(solve, &p)->scratch(solve, &p, workers, false);
}

int64_t ENGINE(_fixed)(opwright_solve solve, const opwright_problem *problem, int64_t *values) {
    const opwright_problem p = tamed(problem);
    const opwright_way *way = chosen(solve, &p);
    return way->fixed ? way->fixed(solve, &p, values) : OPWRIGHT_NOT_FIXED;
}
