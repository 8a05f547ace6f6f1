// How many bf16 a float is the sum of: of three, which hold all of its bits. Of two, which hold it to 2^-16, where sums are stored as
// bf16, which hold these to 2^-9.

#ifndef OPWRIGHT_SPLIT_H
#define OPWRIGHT_SPLIT_H

enum { ALL_PARTS = 3, ROUNDED_PARTS = 2 };

#endif
