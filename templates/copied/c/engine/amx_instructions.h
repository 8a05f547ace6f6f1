// The instructions of matrix registers, which are tmm0 to tmm7. In assembly, since intrinsics of gcc 12 tell the compiler that
// eight bytes of the shapes are read, of 64.

#ifndef OPWRIGHT_AMX_INSTRUCTIONS_H
#define OPWRIGHT_AMX_INSTRUCTIONS_H

#include <stdint.h>

// `shapes` is of 64 bytes, as the instructions have them.
#define AMX_SHAPE(shapes) __asm__ volatile("ldtilecfg %0" ::"m"(shapes))
#define AMX_SHAPES(shapes) __asm__ volatile("sttilecfg %0" : "=m"(shapes))

#define AMX_CLEAR(to) __asm__ volatile("tilezero %%tmm" #to ::)
#define AMX_LOAD(to, from, step) \
    __asm__ volatile("tileloadd (%0,%1,1), %%tmm" #to ::"r"(from), "r"((int64_t)(step)) : "memory")
#define AMX_STORE(from, to, step) \
    __asm__ volatile("tilestored %%tmm" #from ", (%0,%1,1)" ::"r"(to), "r"((int64_t)(step)) : "memory")
#define AMX_PRODUCT(instruction, sum, scalars, vectors) \
    __asm__ volatile(#instruction " %%tmm" #vectors ", %%tmm" #scalars ", %%tmm" #sum ::)

#endif
