// The solves of one dtype and instruction set.

#ifndef OPWRIGHT_ENGINE_H
#define OPWRIGHT_ENGINE_H

#include "lanes.h"
#include "problem.h"

#if defined(OPWRIGHT_BF16)
#define OPWRIGHT_DTYPE bf16
#elif defined(OPWRIGHT_F16)
#define OPWRIGHT_DTYPE f16
#else
#define OPWRIGHT_DTYPE f32
#endif
#define OPWRIGHT_JOIN_(name, dtype, isa) opwright_##name##_##dtype##_##isa
#define OPWRIGHT_JOIN(name, dtype, isa) OPWRIGHT_JOIN_(name, dtype, isa)
#define OPWRIGHT_NAME(name) OPWRIGHT_JOIN(name, OPWRIGHT_DTYPE, OPWRIGHT_ISA)

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

#endif
