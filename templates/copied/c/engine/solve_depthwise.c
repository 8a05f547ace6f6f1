// y, x and w of groups with one channel on either side, each by the way that suits the problem. They are
// a separate library, so that other calls need not wait for its compilation.

#include "depthwise.h"

static const opwright_way *chosen(opwright_solve solve, const opwright_problem *p) {
    static const opwright_way *const ways[] = {&OPWRIGHT_NAME(plain), &OPWRIGHT_NAME(depthwise_channels),
                                               &OPWRIGHT_NAME(depthwise_columns)};
    const bool gaps = !channels_last(p) && !(dense(p->big, p->big_x) && dense(p->small, p->small_x));
    return p->A != 1 || p->B != 1 || gaps ? ways[0] : way_of(ways, solve, p);
}

void OPWRIGHT_NAME(channelwise)(opwright_solve solve, const opwright_problem *problem, const elem *first, const elem *second,
                                const elem *bias, sum_cell *out, const opwright_sink *sink, const opwright_team *team,
                                void *scratch) {
    const opwright_problem p = tamed(problem);
    chosen(solve, &p)->solve(solve, &p, first, second, bias, out, sink, team, scratch);
}

int64_t OPWRIGHT_NAME(channelwise_scratch)(opwright_solve solve, const opwright_problem *problem, int64_t workers, bool finished) {
    const opwright_problem p = tamed(problem);
    return finished ? -1 : chosen(solve, &p)->scratch(solve, &p, workers, false);
}

int64_t OPWRIGHT_NAME(channelwise_fixed)(opwright_solve solve, const opwright_problem *problem, int64_t *values) {
    const opwright_problem p = tamed(problem);
    const opwright_way *way = chosen(solve, &p);
    return way->fixed ? way->fixed(solve, &p, values) : OPWRIGHT_NOT_FIXED;
}
