// One call in normal form, and the threads that solve it.
//
// All six operations are one relation: tap k connects big[n, g*B + b, o*stride + k*dilation - pad] with
// small[n, g*A + a, o] through W[g, a, b, k]. Solved for small it is `y`, for big `x`, for W `w`. There are always
// three spatial axes; a missing leading one has extent 1, stride 1, dilation 1 and pad 0. Layouts are strides.

#ifndef OPWRIGHT_PROBLEM_H
#define OPWRIGHT_PROBLEM_H

#include <stdatomic.h>
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
    int64_t count, workers;
    _Atomic int64_t next;
} opwright_tasks;

// A worker takes a part of what is left, first many tasks and single ones at last: neighbours share lines of memory, and a
// small task may be done before another is taken. With two threads 24 x 99 rows of 101 cells by 32 terms f32 take 0.84,
// 512 products of 24x20 by 24 terms 0.54 of the time of single ones (Intel Xeon, gcc 12.2).
enum { OPWRIGHT_PARTS = 8 }; // of each worker

static inline void opwright_work(void *shared, int64_t worker) {
    opwright_tasks *tasks = shared;
    int64_t task = tasks->next;
    while (task < tasks->count) {
        const int64_t part = (tasks->count - task) / (OPWRIGHT_PARTS * tasks->workers), end = task + (part > 1 ? part : 1);
        if (!atomic_compare_exchange_weak(&tasks->next, &task, end))
            continue;
        for (; task < end; task++)
            tasks->task(tasks->context, task, worker);
        task = tasks->next;
    }
}

// Runs all tasks, on the team if there is one and more than one task.
static inline void opwright_run(const opwright_team *team, opwright_task *task, const void *context, int64_t count) {
    const int64_t workers = team == 0 || team->workers < 1 ? 1 : team->workers > count ? count : team->workers;
    opwright_tasks tasks = {task, context, count, workers, 0};
    if (workers <= 1)
        opwright_work(&tasks, 0);
    else
        team->run(opwright_work, &tasks, workers);
}

#endif
