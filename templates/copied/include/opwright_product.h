// Sums of products that an engine computes for a kernel of steps, in place of its loops.

#ifndef OPWRIGHT_PRODUCT_H
#define OPWRIGHT_PRODUCT_H

#include <stdint.h>

#include "opwright_team.h"

#if defined(__cplusplus)
extern "C" {
#endif

// What follows sums cell by cell: takes cells [cell, cell + cells), whose sums lie side by side, on one of the workers.
typedef void opwright_finish(const void *context, int64_t cell, int64_t cells, const void *sums, int64_t worker);

// An engine: writes sums to `out`, or with a `finish` hands them to it and leaves `out` alone.
typedef void opwright_product_function(const void *problem, const void *left, const void *right, void *out,
                                       opwright_finish *finish, const void *context, const opwright_team *team,
                                       void *scratch);

// Where sums go: to memory between steps, to the output itself, or to what finishes them.
enum { OPWRIGHT_STORED, OPWRIGHT_OUTPUT, OPWRIGHT_FINISHED };

typedef struct opwright_product {
    opwright_product_function *run; // NULL: loops compute it
    const void *problem;            // what it is told
    int64_t way;
    int64_t shared, task;           // bytes of scratch before its own, of all workers and of each
} opwright_product;

#if defined(__cplusplus)
}
#endif

#endif
