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

// For blocks of rows, which a kernel takes through several steps at a time: an engine packs one operand of all rows, then
// computes rows [begin, end) on one worker. Both take the scratch of the engine of the same name.
typedef void opwright_pack_function(const void *problem, const void *left, const void *right, void *packed,
                                    const opwright_team *team, void *scratch);
typedef void opwright_block_function(const void *problem, const void *left, const void *right, const void *packed,
                                     void *out, opwright_finish *finish, const void *context, int64_t begin, int64_t end,
                                     void *scratch);

// The destination of sums: memory between steps, the output itself, or the finishing function.
enum { OPWRIGHT_STORED, OPWRIGHT_OUTPUT, OPWRIGHT_FINISHED };

typedef struct opwright_product {
    opwright_product_function *run; // NULL: loops compute it
    const void *problem;            // its argument
    int64_t destination;
    int64_t shared, task;           // bytes of scratch before its own, of all workers and of each
    opwright_pack_function *pack;   // of blocks
    opwright_block_function *block;
    int64_t packed;                 // where what is packed begins, from the end of the steps' memory
} opwright_product;

// Phases that run block by block: each block of tasks is one worker's, from the first of them to the last. Its memory has
// what they leave for each other, then the engines' scratch.
typedef struct opwright_blocks {
    int64_t count, tasks;        // blocks, 0 if phases run one by one; tasks of all of them
    int64_t packed, bytes;       // bytes of what is packed; of each worker
    int64_t scratch;             // where the engines' begins, in a worker's memory
} opwright_blocks;

#if defined(__cplusplus)
}
#endif

#endif
