// y, x and w of groups with one channel on either side, each by the way that suits the problem. They are
// a separate library, so that other calls need not wait for its compilation.

#include "depthwise.h"
#include "engine.h"

static bool is_plain(const opwright_problem *p) {
    return plain_fits(p) || p->A != 1 || p->B != 1 ||
           (!channels_last(p) && !(dense(p->big, p->big_x) && dense(p->small, p->small_x)));
}

// Whether lanes are channels: with channels last, or with planes small enough to be transposed whole, if columns
// (`columns` contiguous ones) would fill few lanes, or if taps are so many that the transposition costs little.
static bool over_lanes(const opwright_problem *p, int64_t columns) {
    return channels_last(p) || ((columns < LANES || volume(p->taps) >= TRANSPOSED_TAPS) && p->G >= LANES / 2 &&
                                volume(p->big) + volume(p->small) <= COPIED_PIXELS);
}
static bool solve_over_lanes(const opwright_problem *p, opwright_solve solve) {
    if (solve == OPWRIGHT_W)
        return over_lanes(p, p->small[2]);
    const int64_t columns = solve == OPWRIGHT_X ? ceil_div(p->big[2], p->stride[2]) : p->small[2];
    return over_lanes(p, columns) && (channels_last(p) || columns < LANES || !in_place(p));
}

void OPWRIGHT_NAME(channelwise)(opwright_solve solve, const opwright_problem *problem, const elem *first, const elem *second,
                                const elem *bias, sum_cell *out, const opwright_sink *sink, const opwright_team *team,
                                void *scratch) {
    (void)sink;
    const opwright_problem p = tamed(problem);
    const bool lanes = solve_over_lanes(&p, solve);
    const tap_cell *weights = (const void *)second; // of y and x
    if (is_plain(&p))
        plain(&p, solve, first, second, bias, out, team);
    else if (solve == OPWRIGHT_W) // which no library with floats as sums is asked for
        (lanes ? depthwise_channels_w : depthwise_columns_w)(&p, first, second, (void *)out, team, scratch);
    else
        (lanes ? depthwise_channels : depthwise_columns)(&p, solve == OPWRIGHT_X, first, weights, bias, out, team, scratch);
}

int64_t OPWRIGHT_NAME(channelwise_scratch)(opwright_solve solve, const opwright_problem *problem, int64_t workers, bool finished) {
    if (finished)
        return -1;
    const opwright_problem p = tamed(problem);
    const bool lanes = solve_over_lanes(&p, solve);
    if (is_plain(&p))
        return 0;
    if (solve == OPWRIGHT_W)
        return (lanes ? depthwise_channels_w_scratch : depthwise_columns_w_scratch)(&p, workers);
    return (lanes ? depthwise_channels_scratch : depthwise_columns_scratch)(&p, solve == OPWRIGHT_X, workers);
}

int64_t OPWRIGHT_NAME(channelwise_fixed)(opwright_solve solve, const opwright_problem *problem, int64_t *values) {
    const opwright_problem p = tamed(problem);
    if (is_plain(&p))
        return OPWRIGHT_NOT_FIXED;
    const bool lanes = solve_over_lanes(&p, solve), backward = solve == OPWRIGHT_X;
    const int64_t file = solve == OPWRIGHT_W ? lanes ? OPWRIGHT_FIXED_DEPTHWISE_CHANNELS_W : OPWRIGHT_FIXED_DEPTHWISE_COLUMNS_W
                         : lanes             ? OPWRIGHT_FIXED_DEPTHWISE_CHANNELS
                                             : OPWRIGHT_FIXED_DEPTHWISE_COLUMNS;
    const bool found = solve == OPWRIGHT_W ? (lanes ? depthwise_channels_w_fixed : depthwise_columns_w_fixed)(&p, values)
                                           : (lanes ? depthwise_channels_fixed : depthwise_columns_fixed)(&p, backward, values);
    return found ? file : OPWRIGHT_NOT_FIXED;
}
