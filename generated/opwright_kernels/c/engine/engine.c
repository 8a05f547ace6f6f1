// The solves of one dtype and instruction set, each by the way that suits the problem.

#include "engine.h"
#include "solves.h"

static void solve_data(const opwright_problem *problem, bool backward, const elem *in, const elem *weights,
                       const elem *bias, elem *out, const opwright_team *team, void *scratch) {
    if (over_columns_fits(problem, backward))
        over_columns(problem, backward, in, weights, bias, out, team, scratch);
    else
        over_channels(problem, backward, in, weights, bias, out, team, scratch);
}

static int64_t data_scratch(const opwright_problem *problem, bool backward, int64_t workers) {
    return over_columns_fits(problem, backward) ? over_columns_scratch(problem, backward, workers)
                                                : over_channels_scratch(problem, backward, workers);
}

void OPWRIGHT_NAME(y)(const opwright_problem *problem, const elem *big, const elem *weights, const elem *bias,
                      elem *small, const opwright_team *team, void *scratch) {
    solve_data(problem, false, big, weights, bias, small, team, scratch);
}

void OPWRIGHT_NAME(x)(const opwright_problem *problem, const elem *small, const elem *weights, const elem *bias,
                      elem *big, const opwright_team *team, void *scratch) {
    solve_data(problem, true, small, weights, bias, big, team, scratch);
}

int64_t OPWRIGHT_NAME(y_scratch)(const opwright_problem *problem, int64_t workers) {
    return data_scratch(problem, false, workers);
}

int64_t OPWRIGHT_NAME(x_scratch)(const opwright_problem *problem, int64_t workers) {
    return data_scratch(problem, true, workers);
}

typedef struct call {
    const opwright_problem *p;
    const elem *in, *small;
    elem *out;
} call;

// Three nested loops over [0, extents).
#define EACH3(d, h, w, extents)                                                                                        \
    for (int64_t d = 0; d < (extents)[0]; d++)                                                                         \
        for (int64_t h = 0; h < (extents)[1]; h++)                                                                     \
            for (int64_t w = 0; w < (extents)[2]; w++)

INLINE int64_t at(const int64_t distance[3], int64_t d, int64_t h, int64_t w) {
    return d * distance[0] + h * distance[1] + w * distance[2];
}

// The position on big that small position o meets at tap k, on one axis; -1 where there is none.
INLINE int64_t met(const opwright_problem *p, int axis, int64_t o, int64_t k) {
    const int64_t i = o * p->stride[axis] + k * p->dilation[axis] - p->pad[axis];
    return i >= 0 && i < p->big[axis] ? i : -1;
}

// One pair of channels.
static void w_task(const void *context, int64_t task, int64_t worker) {
    (void)worker;
    const call *c = context;
    const opwright_problem *p = c->p;
    const int64_t g = task / (p->A * p->B), a = task / p->B % p->A, b = task % p->B;
    EACH3(kd, kh, kw, p->taps) {
        float sum = 0;
        for (int64_t n = 0; n < p->N; n++)
            EACH3(d, h, w, p->small) {
                const int64_t id = met(p, 0, d, kd), ih = met(p, 1, h, kh), iw = met(p, 2, w, kw);
                if (id < 0 || ih < 0 || iw < 0)
                    continue;
                sum += elem_get(c->in + n * p->big_n + (g * p->B + b) * p->big_c + at(p->big_x, id, ih, iw)) *
                       elem_get(c->small + n * p->small_n + (g * p->A + a) * p->small_c + at(p->small_x, d, h, w));
            }
        elem_put(c->out + g * p->w_g + a * p->w_a + b * p->w_b + at(p->w_k, kd, kh, kw), sum);
    }
}

void OPWRIGHT_NAME(w)(const opwright_problem *problem, const elem *big, const elem *small, elem *weights,
                      const opwright_team *team, void *scratch) {
    (void)scratch;
    const call c = {problem, big, small, weights};
    opwright_run(team, w_task, &c, problem->G * problem->A * problem->B);
}

int64_t OPWRIGHT_NAME(w_scratch)(const opwright_problem *problem, int64_t workers) {
    (void)problem, (void)workers;
    return 0;
}
