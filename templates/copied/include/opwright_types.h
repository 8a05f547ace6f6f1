// Types of kernel arguments without a standard C type.

#ifndef OPWRIGHT_TYPES_H
#define OPWRIGHT_TYPES_H

#include <stdint.h>

typedef uint16_t opwright_bf16; // bfloat16, as its bit pattern
typedef uint16_t opwright_f16;  // IEEE binary16, as its bit pattern

#endif
