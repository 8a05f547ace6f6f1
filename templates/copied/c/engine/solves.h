// The three solves of the relation in problem.h, for one dtype and instruction set.
//
// Sums use float and are rounded once, to nearest even, when a cell is stored. The terms of a cell and their order
// depend only on the problem, never on the number of workers. Terms with an index outside its tensor
// do not exist: the value of their other factor, even Inf or NaN, does not matter. Outputs overlap no input.
//
// `scratch` has at least the bytes that `..._scratch` returns for team->workers (1 if team
// is NULL), aligned to 64 bytes; it is not read before it is written. Nothing else is allocated and nothing can fail.

//
// Some files have loops that are faster with sizes as literals. Compiled with these, they solve the problems with
// the same sizes, and give the same bits. The function `..._fixed` returns the file and writes the literals' values.

#ifndef OPWRIGHT_SOLVES_H
#define OPWRIGHT_SOLVES_H

#include <stdbool.h>

#include "names.h"
#include "problem.h"

// A file, and the macros of its literals, in the order of their values.
enum {
    OPWRIGHT_NOT_FIXED,      // sizes at run time are equally fast
    OPWRIGHT_FIXED_DEPTHWISE_CHANNELS,   // depthwise_channels.c: OPWRIGHT_FIXED_TAPS, _STEP
    OPWRIGHT_FIXED_DEPTHWISE_COLUMNS,    // depthwise_columns.c: OPWRIGHT_FIXED_ROWS, _COLUMNS, _STEP
    OPWRIGHT_FIXED_DEPTHWISE_WEIGHTS,    // depthwise_weights.c: OPWRIGHT_FIXED_W_ROWS, _W_COLUMNS
    OPWRIGHT_FIXED_WEIGHTS_COLUMNS,      // weights_columns.c: OPWRIGHT_FIXED_W_ROWS, _W_COLUMNS
};
enum { OPWRIGHT_MAX_FIXED = 4 }; // maximum number of values

// What is computed: small, big or the weights.
typedef enum opwright_solve { OPWRIGHT_Y, OPWRIGHT_X, OPWRIGHT_W } opwright_solve;

// `first` is big, for x small; `second` the weights, for w small. bias has one value per channel of y or x, or is NULL.
// A sink takes the sums of a task while they are in its cache; without one it is NULL. Its scratch is -1 where no task
// has whole sums.
typedef void opwright_solve_function(opwright_solve solve, const opwright_problem *p, const elem *first, const elem *second,
                                     const elem *bias, sum_cell *out, const opwright_sink *sink, const opwright_team *team,
                                     void *scratch);
typedef int64_t opwright_scratch_function(opwright_solve solve, const opwright_problem *p, int64_t workers, bool finished);
typedef int64_t opwright_fixed_function(opwright_solve solve, const opwright_problem *p, int64_t *values);

// y and x; w; the same of groups with one channel on either side. A library has one of these engines.
opwright_solve_function OPWRIGHT_NAME(data), OPWRIGHT_NAME(weights), OPWRIGHT_NAME(channelwise_data), OPWRIGHT_NAME(channelwise_weights);
opwright_scratch_function OPWRIGHT_NAME(data_scratch), OPWRIGHT_NAME(weights_scratch), OPWRIGHT_NAME(channelwise_data_scratch),
    OPWRIGHT_NAME(channelwise_weights_scratch);
opwright_fixed_function OPWRIGHT_NAME(data_fixed), OPWRIGHT_NAME(weights_fixed), OPWRIGHT_NAME(channelwise_data_fixed),
    OPWRIGHT_NAME(channelwise_weights_fixed);

#endif
