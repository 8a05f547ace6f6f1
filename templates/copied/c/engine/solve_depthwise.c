// y, x and w of groups with one channel on either side, each by the way that suits the problem. They are
// a separate library, so that other calls need not wait for its compilation.

#include "depthwise.h"
#include "engine.h"
#include "solves.h"

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
static bool data_over_lanes(const opwright_problem *p, bool backward) {
    const int64_t columns = backward ? ceil_div(p->big[2], p->stride[2]) : p->small[2];
    return over_lanes(p, columns) && (channels_last(p) || columns < LANES || !in_place(p));
}

static void data(const opwright_problem *problem, bool backward, const elem *in, const elem *weights,
                 const elem *bias, elem *out, const opwright_team *team, void *scratch) {
    const opwright_problem p = tamed(problem);
    if (is_plain(&p))
        plain(&p, backward ? OPWRIGHT_X : OPWRIGHT_Y, in, weights, bias, out, team);
    else
        (data_over_lanes(&p, backward) ? depthwise_channels : depthwise_columns)(&p, backward, in, weights, bias, out,
                                                                                 team, scratch);
}

static int64_t data_scratch(const opwright_problem *problem, bool backward, int64_t workers) {
    const opwright_problem p = tamed(problem);
    if (is_plain(&p))
        return 0;
    return (data_over_lanes(&p, backward) ? depthwise_channels_scratch : depthwise_columns_scratch)(&p, backward,
                                                                                                    workers);
}

void OPWRIGHT_NAME(channelwise_y)(const opwright_problem *problem, const elem *big, const elem *weights,
                                  const elem *bias, elem *small, const opwright_team *team, void *scratch) {
    data(problem, false, big, weights, bias, small, team, scratch);
}

void OPWRIGHT_NAME(channelwise_x)(const opwright_problem *problem, const elem *small, const elem *weights,
                                  const elem *bias, elem *big, const opwright_team *team, void *scratch) {
    data(problem, true, small, weights, bias, big, team, scratch);
}

void OPWRIGHT_NAME(channelwise_w)(const opwright_problem *problem, const elem *big, const elem *small, elem *weights,
                                  const opwright_team *team, void *scratch) {
    const opwright_problem p = tamed(problem);
    if (is_plain(&p))
        plain(&p, OPWRIGHT_W, big, small, NULL, weights, team);
    else
        (over_lanes(&p, p.small[2]) ? depthwise_channels_w : depthwise_columns_w)(&p, big, small, weights, team,
                                                                                  scratch);
}

int64_t OPWRIGHT_NAME(channelwise_y_scratch)(const opwright_problem *problem, int64_t workers) {
    return data_scratch(problem, false, workers);
}

int64_t OPWRIGHT_NAME(channelwise_x_scratch)(const opwright_problem *problem, int64_t workers) {
    return data_scratch(problem, true, workers);
}

int64_t OPWRIGHT_NAME(channelwise_w_scratch)(const opwright_problem *problem, int64_t workers) {
    const opwright_problem p = tamed(problem);
    if (is_plain(&p))
        return 0;
    return (over_lanes(&p, p.small[2]) ? depthwise_channels_w_scratch : depthwise_columns_w_scratch)(&p, workers);
}

static int64_t data_fixed(const opwright_problem *problem, bool backward, int64_t *values) {
    const opwright_problem p = tamed(problem);
    if (is_plain(&p))
        return OPWRIGHT_NOT_FIXED;
    if (data_over_lanes(&p, backward))
        return depthwise_channels_fixed(&p, backward, values) ? OPWRIGHT_FIXED_DEPTHWISE_CHANNELS : OPWRIGHT_NOT_FIXED;
    return depthwise_columns_fixed(&p, backward, values) ? OPWRIGHT_FIXED_DEPTHWISE_COLUMNS : OPWRIGHT_NOT_FIXED;
}

int64_t OPWRIGHT_NAME(channelwise_y_fixed)(const opwright_problem *problem, int64_t *values) {
    return data_fixed(problem, false, values);
}

int64_t OPWRIGHT_NAME(channelwise_x_fixed)(const opwright_problem *problem, int64_t *values) {
    return data_fixed(problem, true, values);
}

int64_t OPWRIGHT_NAME(channelwise_w_fixed)(const opwright_problem *problem, int64_t *values) {
    const opwright_problem p = tamed(problem);
    if (is_plain(&p))
        return OPWRIGHT_NOT_FIXED;
    if (over_lanes(&p, p.small[2]))
        return depthwise_channels_w_fixed(&p, values) ? OPWRIGHT_FIXED_DEPTHWISE_CHANNELS_W : OPWRIGHT_NOT_FIXED;
    return depthwise_columns_w_fixed(&p, values) ? OPWRIGHT_FIXED_DEPTHWISE_COLUMNS_W : OPWRIGHT_NOT_FIXED;
}
