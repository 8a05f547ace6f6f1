// The three solves where a group has one channel on either side: A == B == 1.
//
// The contract is that of the functions in engine.h. `depthwise_fits` tells whether a problem may be given to them.

#ifndef OPWRIGHT_DEPTHWISE_H
#define OPWRIGHT_DEPTHWISE_H

#include "lanes.h"
#include "names.h"
#include "problem.h"

#define depthwise_fits OPWRIGHT_NAME(depthwise_fits)
#define depthwise_y OPWRIGHT_NAME(depthwise_y)
#define depthwise_x OPWRIGHT_NAME(depthwise_x)
#define depthwise_w OPWRIGHT_NAME(depthwise_w)
#define depthwise_y_scratch OPWRIGHT_NAME(depthwise_y_scratch)
#define depthwise_x_scratch OPWRIGHT_NAME(depthwise_x_scratch)
#define depthwise_w_scratch OPWRIGHT_NAME(depthwise_w_scratch)

bool depthwise_fits(const opwright_problem *p);

void depthwise_y(const opwright_problem *p, const elem *big, const elem *weights, const elem *bias, elem *small,
                 const opwright_team *team, void *scratch);
void depthwise_x(const opwright_problem *p, const elem *small, const elem *weights, const elem *bias, elem *big,
                 const opwright_team *team, void *scratch);
void depthwise_w(const opwright_problem *p, const elem *big, const elem *small, elem *weights,
                 const opwright_team *team, void *scratch);
int64_t depthwise_y_scratch(const opwright_problem *p, int64_t workers);
int64_t depthwise_x_scratch(const opwright_problem *p, int64_t workers);
int64_t depthwise_w_scratch(const opwright_problem *p, int64_t workers);

#endif
