// One call in normal form, and the threads that solve it.
//
// All six operations are one relation: tap k connects big[n, g*B + b, o*stride + k*dilation - pad] with
// small[n, g*A + a, o] through W[g, a, b, k]. Solved for small it is `y`, for big `x`, for W `w`. There are always
// three spatial axes; a missing leading one has extent 1, stride 1, dilation 1 and pad 0. Layouts are strides.

#ifndef OPWRIGHT_PROBLEM_H
#define OPWRIGHT_PROBLEM_H

#include <stdint.h>

#include "opwright_product.h"

typedef struct opwright_problem {
    int64_t N, G;                  // batch, groups
    int64_t A, B;                  // channels per group of small, of big
    int64_t small[3], big[3];      // spatial extents
    int64_t taps[3];               // extents of the kernel
    int64_t stride[3], dilation[3], pad[3];
    // Strides, in elements. Channels run over all groups.
    int64_t small_n, small_c, small_x[3];
    int64_t big_n, big_c, big_x[3];
    int64_t w_g, w_a, w_b, w_k[3];
} opwright_problem;

// What takes the sums of a problem in place of its output, whose strides are then those of the cells.
typedef struct opwright_sink {
    opwright_finish *finish;
    const void *context;
    int64_t first; // cell
} opwright_sink;

// A task of a call: `scratch` is the worker's own.
typedef void opwright_task(const void *context, int64_t task, int64_t worker);

typedef struct opwright_tasks {
    opwright_task *task;
    const void *context;
    int64_t count;
    _Atomic int64_t next;
} opwright_tasks;

static inline void opwright_work(void *shared, int64_t worker) {
    opwright_tasks *tasks = shared;
    for (int64_t task; (task = tasks->next++) < tasks->count;)
        tasks->task(tasks->context, task, worker);
}

// Runs all tasks, on the team if there is one and more than one task.
static inline void opwright_run(const opwright_team *team, opwright_task *task, const void *context, int64_t count) {
    opwright_tasks tasks = {task, context, count, 0};
    const int64_t workers = team == 0 || team->workers > count ? count : team->workers;
    if (team == 0 || workers <= 1)
        opwright_work(&tasks, 0);
    else
        team->run(opwright_work, &tasks, workers);
}

#endif
