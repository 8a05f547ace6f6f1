// y and x of groups with one channel on either side, or w of these with OPWRIGHT_OF_WEIGHTS, each by the way that suits the
// problem. They are separate libraries, so that other calls need not wait for their compilation.

#include "depthwise.h"

#if defined(OPWRIGHT_OF_WEIGHTS)
#define ENGINE(part) OPWRIGHT_NAME(channelwise_weights##part)
static const opwright_way *const over_channels = &OPWRIGHT_NAME(depthwise_weights), *const over_columns = &OPWRIGHT_NAME(weights_columns);
#else
#define ENGINE(part) OPWRIGHT_NAME(channelwise_data##part)
static const opwright_way *const over_channels = &OPWRIGHT_NAME(depthwise_channels), *const over_columns = &OPWRIGHT_NAME(depthwise_columns);
#endif

static const opwright_way *chosen(opwright_solve solve, const opwright_problem *p) {
    const bool gaps = !channels_last(p) && !(dense(p->big, p->big_x) && dense(p->small, p->small_x));
    if (p->A != 1 || p->B != 1 || gaps || OPWRIGHT_NAME(plain).fits(solve, p))
        return &OPWRIGHT_NAME(plain);
    return over_channels->fits(solve, p) ? over_channels : over_columns;
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
