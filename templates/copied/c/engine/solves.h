// The three solves of the relation in problem.h, for one dtype and instruction set.
//
// Sums use float and are rounded once, to nearest even, when a cell is stored. The terms of a cell and their order
// depend only on the problem, never on the number of workers. Terms with an index outside its tensor
// do not exist: the value of their other factor, even Inf or NaN, does not matter. Outputs overlap no input.
//
// `scratch` has at least the bytes that the function of the same name returns for team->workers (1 if team
// is NULL), aligned to 64 bytes; it is not read before it is written. Nothing else is allocated and nothing can fail.

//
// Some files have loops that are faster with sizes as literals. Compiled with these, they solve the problems with
// the same sizes, and give the same bits. The function `..._fixed` returns the file and writes the literals' values.

#ifndef OPWRIGHT_SOLVES_H
#define OPWRIGHT_SOLVES_H

#include "names.h"
#include "problem.h"

// A file, and the macros of its literals, in the order of their values.
enum {
    OPWRIGHT_NOT_FIXED,      // sizes at run time are equally fast
    OPWRIGHT_FIXED_CHANNELS, // tiles.c: OPWRIGHT_FIXED_PITCH
    OPWRIGHT_FIXED_DEPTHWISE_CHANNELS,   // depthwise_channels.c: OPWRIGHT_FIXED_TAPS, _STEP
    OPWRIGHT_FIXED_DEPTHWISE_COLUMNS,    // depthwise_columns.c: OPWRIGHT_FIXED_ROWS, _COLUMNS, _STEP
    OPWRIGHT_FIXED_DEPTHWISE_CHANNELS_W, // depthwise_channels.c: OPWRIGHT_FIXED_W_ROWS, _W_COLUMNS
    OPWRIGHT_FIXED_DEPTHWISE_COLUMNS_W,  // depthwise_columns.c: OPWRIGHT_FIXED_W_ROWS, _W_COLUMNS
};
enum { OPWRIGHT_MAX_FIXED = 4 }; // maximum number of values

// small from big; bias has one value per channel of small, or is NULL.
void OPWRIGHT_NAME(y)(const opwright_problem *p, const elem *big, const elem *weights, const elem *bias,
                      sum_cell *small, const opwright_team *team, void *scratch);
int64_t OPWRIGHT_NAME(y_scratch)(const opwright_problem *p, int64_t workers);
int64_t OPWRIGHT_NAME(y_fixed)(const opwright_problem *p, int64_t *values);

// big from small; bias has one value per channel of big, or is NULL.
void OPWRIGHT_NAME(x)(const opwright_problem *p, const elem *small, const elem *weights, const elem *bias,
                      sum_cell *big, const opwright_team *team, void *scratch);
int64_t OPWRIGHT_NAME(x_scratch)(const opwright_problem *p, int64_t workers);
int64_t OPWRIGHT_NAME(x_fixed)(const opwright_problem *p, int64_t *values);

// weights from both.
void OPWRIGHT_NAME(w)(const opwright_problem *p, const elem *big, const elem *small, elem *weights,
                      const opwright_team *team, void *scratch);
int64_t OPWRIGHT_NAME(w_scratch)(const opwright_problem *p, int64_t workers);
int64_t OPWRIGHT_NAME(w_fixed)(const opwright_problem *p, int64_t *values);

// The same for groups with one channel on either side, by a separate engine.
void OPWRIGHT_NAME(channelwise_y)(const opwright_problem *p, const elem *big, const elem *weights, const elem *bias,
                                  sum_cell *small, const opwright_team *team, void *scratch);
void OPWRIGHT_NAME(channelwise_x)(const opwright_problem *p, const elem *small, const elem *weights, const elem *bias,
                                  sum_cell *big, const opwright_team *team, void *scratch);
void OPWRIGHT_NAME(channelwise_w)(const opwright_problem *p, const elem *big, const elem *small, elem *weights,
                                  const opwright_team *team, void *scratch);
int64_t OPWRIGHT_NAME(channelwise_y_scratch)(const opwright_problem *p, int64_t workers);
int64_t OPWRIGHT_NAME(channelwise_y_fixed)(const opwright_problem *p, int64_t *values);
int64_t OPWRIGHT_NAME(channelwise_x_scratch)(const opwright_problem *p, int64_t workers);
int64_t OPWRIGHT_NAME(channelwise_x_fixed)(const opwright_problem *p, int64_t *values);
int64_t OPWRIGHT_NAME(channelwise_w_scratch)(const opwright_problem *p, int64_t workers);
int64_t OPWRIGHT_NAME(channelwise_w_fixed)(const opwright_problem *p, int64_t *values);

#endif
