// How many bf16 a float is the sum of.

#ifndef OPWRIGHT_SPLIT_H
#define OPWRIGHT_SPLIT_H

enum { SPLIT_PARTS = 3 };

#endif
