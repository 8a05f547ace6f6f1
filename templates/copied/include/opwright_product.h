// Sums of products that an engine computes for a kernel of steps instead of its loops.

#ifndef OPWRIGHT_PRODUCT_H
#define OPWRIGHT_PRODUCT_H

#include <stdint.h>

#include "opwright_team.h"

#if defined(__cplusplus)
extern "C" {
#endif

// The finishing function: processes cells [cell, cell + cells), whose sums are contiguous, on one of the workers.
typedef void opwright_finish(const void *context, int64_t cell, int64_t cells, const void *sums, int64_t worker);

// An engine: writes sums to `out`, or passes them to `finish` and does not touch `out`.
typedef void opwright_product_function(const void *problem, const void *left, const void *right, void *out,
                                       opwright_finish *finish, const void *context, const opwright_team *team,
                                       void *scratch);

// The destination of sums: memory between steps, the output itself, or the finishing function.
enum { OPWRIGHT_STORED, OPWRIGHT_OUTPUT, OPWRIGHT_FINISHED };

typedef struct opwright_product {
    opwright_product_function *run; // NULL: loops compute it
    const void *problem;            // its argument
    int64_t destination;
    int64_t shared, task;           // bytes of scratch before its own, of all workers and of each
} opwright_product;

#if defined(__cplusplus)
}
#endif

#endif
