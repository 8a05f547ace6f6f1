// The three solves by the relation itself, cell by cell: correct for every problem.
//
// A task is one batch and one channel (y, x) or one pair of channels (w); a cell takes its terms by channel and tap.

#include "engine.h"

#include <stddef.h>

#include "lanes.h"

typedef struct call {
    const opwright_problem *p;
    const elem *in, *weights, *bias;
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

// The position on small from which tap k meets big position i, on one axis; -1 where there is none.
INLINE int64_t meeting(const opwright_problem *p, int axis, int64_t i, int64_t k) {
    const int64_t scaled = i + p->pad[axis] - k * p->dilation[axis], s = p->stride[axis];
    return scaled >= 0 && scaled % s == 0 && scaled / s < p->small[axis] ? scaled / s : -1;
}

static void y_task(const void *context, int64_t task, int64_t worker) {
    (void)worker;
    const call *c = context;
    const opwright_problem *p = c->p;
    const int64_t n = task / (p->G * p->A), channel = task % (p->G * p->A), g = channel / p->A, a = channel % p->A;
    EACH3(d, h, w, p->small) {
        float sum = 0;
        for (int64_t b = 0; b < p->B; b++)
            EACH3(kd, kh, kw, p->taps) {
                const int64_t id = met(p, 0, d, kd), ih = met(p, 1, h, kh), iw = met(p, 2, w, kw);
                if (id < 0 || ih < 0 || iw < 0)
                    continue;
                sum += elem_get(c->in + n * p->big_n + (g * p->B + b) * p->big_c + at(p->big_x, id, ih, iw)) *
                       elem_get(c->weights + g * p->w_g + a * p->w_a + b * p->w_b + at(p->w_k, kd, kh, kw));
            }
        sum += c->bias ? elem_get(c->bias + channel) : 0;
        elem_put(c->out + n * p->small_n + channel * p->small_c + at(p->small_x, d, h, w), sum);
    }
}

static void x_task(const void *context, int64_t task, int64_t worker) {
    (void)worker;
    const call *c = context;
    const opwright_problem *p = c->p;
    const int64_t n = task / (p->G * p->B), channel = task % (p->G * p->B), g = channel / p->B, b = channel % p->B;
    EACH3(d, h, w, p->big) {
        float sum = 0;
        for (int64_t a = 0; a < p->A; a++)
            EACH3(kd, kh, kw, p->taps) {
                const int64_t od = meeting(p, 0, d, kd), oh = meeting(p, 1, h, kh), ow = meeting(p, 2, w, kw);
                if (od < 0 || oh < 0 || ow < 0)
                    continue;
                sum += elem_get(c->in + n * p->small_n + (g * p->A + a) * p->small_c + at(p->small_x, od, oh, ow)) *
                       elem_get(c->weights + g * p->w_g + a * p->w_a + b * p->w_b + at(p->w_k, kd, kh, kw));
            }
        sum += c->bias ? elem_get(c->bias + channel) : 0;
        elem_put(c->out + n * p->big_n + channel * p->big_c + at(p->big_x, d, h, w), sum);
    }
}

// `in` is big, `weights` small.
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
                       elem_get(c->weights + n * p->small_n + (g * p->A + a) * p->small_c + at(p->small_x, d, h, w));
            }
        elem_put(c->out + g * p->w_g + a * p->w_a + b * p->w_b + at(p->w_k, kd, kh, kw), sum);
    }
}

void OPWRIGHT_NAME(opwright_y)(const opwright_problem *p, const elem *big, const elem *weights, const elem *bias,
                               elem *small, const opwright_team *team, void *scratch) {
    (void)scratch;
    const call c = {p, big, weights, bias, small};
    opwright_run(team, y_task, &c, p->N * p->G * p->A);
}

void OPWRIGHT_NAME(opwright_x)(const opwright_problem *p, const elem *small, const elem *weights, const elem *bias,
                               elem *big, const opwright_team *team, void *scratch) {
    (void)scratch;
    const call c = {p, small, weights, bias, big};
    opwright_run(team, x_task, &c, p->N * p->G * p->B);
}

void OPWRIGHT_NAME(opwright_w)(const opwright_problem *p, const elem *big, const elem *small, elem *weights,
                               const opwright_team *team, void *scratch) {
    (void)scratch;
    const call c = {p, big, small, NULL, weights};
    opwright_run(team, w_task, &c, p->G * p->A * p->B);
}

#define NO_SCRATCH(name)                                                                                               \
    int64_t OPWRIGHT_NAME(name)(const opwright_problem *p, int64_t workers) {                                          \
        (void)p, (void)workers;                                                                                        \
        return 0;                                                                                                      \
    }
NO_SCRATCH(opwright_y_scratch)
NO_SCRATCH(opwright_x_scratch)
NO_SCRATCH(opwright_w_scratch)
