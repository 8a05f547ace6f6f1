// The ways to solve a problem, for one dtype and instruction set. What chooses among them is in engine.c.

#ifndef OPWRIGHT_ENGINE_H
#define OPWRIGHT_ENGINE_H

#include "lanes.h"
#include "names.h"
#include "problem.h"

#define over_channels OPWRIGHT_NAME(over_channels)
#define over_channels_scratch OPWRIGHT_NAME(over_channels_scratch)
#define over_columns OPWRIGHT_NAME(over_columns)
#define over_columns_fits OPWRIGHT_NAME(over_columns_fits)
#define over_columns_scratch OPWRIGHT_NAME(over_columns_scratch)

// y, or with `backward` x, over channel lanes.
void over_channels(const opwright_problem *problem, bool backward, const elem *in, const elem *weights,
                   const elem *bias, elem *out, const opwright_team *team, void *scratch);
int64_t over_channels_scratch(const opwright_problem *problem, bool backward, int64_t workers);

// The same over width lanes, for outputs of few channels and for products in a layout with contiguous columns.
bool over_columns_fits(const opwright_problem *problem, bool backward);
void over_columns(const opwright_problem *problem, bool backward, const elem *in, const elem *weights,
                  const elem *bias, elem *out, const opwright_team *team, void *scratch);
int64_t over_columns_scratch(const opwright_problem *problem, bool backward, int64_t workers);

// w.
void OPWRIGHT_NAME(weights)(const opwright_problem *problem, const elem *big, const elem *small, elem *weights,
                            const opwright_team *team, void *scratch);
int64_t OPWRIGHT_NAME(weights_scratch)(const opwright_problem *problem, int64_t workers);

#endif
