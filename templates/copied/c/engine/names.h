// The names of functions per dtype and instruction set.
//
// Compiled with -DOPWRIGHT_F32, -DOPWRIGHT_BF16, -DOPWRIGHT_F16, -DOPWRIGHT_F64 (products only), -DOPWRIGHT_S64 or
// -DOPWRIGHT_S32 (of integers, which wrap around; of elements that 32 bits hold), -DOPWRIGHT_BYTES (products of bytes), -DOPWRIGHT_SQUARES or -DOPWRIGHT_DISTANCES (of differences of f32, in place of products), and with
// -DOPWRIGHT_ISA=avx512 or another.

#ifndef OPWRIGHT_NAMES_H
#define OPWRIGHT_NAMES_H

#include <stdint.h>

// An element of a tensor; bf16 and f16 by their bit patterns.
#if defined(OPWRIGHT_BF16)
#define OPWRIGHT_DTYPE bf16
typedef uint16_t elem;
#elif defined(OPWRIGHT_F16)
#define OPWRIGHT_DTYPE f16
typedef uint16_t elem;
#elif defined(OPWRIGHT_F64)
#define OPWRIGHT_DTYPE f64
typedef double elem;
#elif defined(OPWRIGHT_S64) || defined(OPWRIGHT_S32)
#if defined(OPWRIGHT_S64)
#define OPWRIGHT_DTYPE s64
#else
#define OPWRIGHT_DTYPE s32
#endif
#define OPWRIGHT_INTEGERS
typedef int64_t elem;
#elif defined(OPWRIGHT_BYTES)
#define OPWRIGHT_DTYPE bytes
typedef uint8_t elem;
#elif defined(OPWRIGHT_SQUARES) || defined(OPWRIGHT_DISTANCES)
#if defined(OPWRIGHT_SQUARES)
#define OPWRIGHT_DTYPE squares
#else
#define OPWRIGHT_DTYPE distances
#endif
#define OPWRIGHT_F32 // their elements
typedef float elem;
#else
#define OPWRIGHT_DTYPE f32
typedef float elem;
#endif

#if defined(OPWRIGHT_F64) || defined(OPWRIGHT_INTEGERS) // lanes have 64 bits
#define OPWRIGHT_64
#endif

// The type of sums, of which vectors are made.
#if defined(OPWRIGHT_F64)
typedef double real;
#elif defined(OPWRIGHT_INTEGERS)
typedef int64_t real;
#elif defined(OPWRIGHT_BYTES)
typedef int32_t real;
#else
typedef float real;
#endif

// The type of stored y and x: elements, or with OPWRIGHT_WIDE floats, for code that continues with sums; of bytes, sums.
#if defined(OPWRIGHT_WIDE) || defined(OPWRIGHT_BYTES)
typedef real sum_cell;
#else
typedef elem sum_cell;
#endif

// The type of the weights of y and x, of groups with one channel: elements, or with OPWRIGHT_WIDE_TAPS floats.
#if defined(OPWRIGHT_WIDE_TAPS)
typedef float tap_cell;
#else
typedef elem tap_cell;
#endif

#define OPWRIGHT_JOIN_(a, b, c) a##_##b##_##c
#define OPWRIGHT_JOIN(a, b, c) OPWRIGHT_JOIN_(a, b, c)
#define OPWRIGHT_PAIR_(a, b) a##_##b
#define OPWRIGHT_PAIR(a, b) OPWRIGHT_PAIR_(a, b)

// Functions of the engine: OPWRIGHT_NAME(y) is opwright_y_f32_avx512.
#define OPWRIGHT_NAME(name) OPWRIGHT_JOIN(opwright_##name, OPWRIGHT_DTYPE, OPWRIGHT_ISA)
// Kernels, whose names have the dtype already, and the functions that return their scratch size.
#define OPWRIGHT_KERNEL(name) OPWRIGHT_PAIR(name, OPWRIGHT_ISA)
#define OPWRIGHT_SCRATCH(name) OPWRIGHT_JOIN(name, OPWRIGHT_ISA, scratch)
#define OPWRIGHT_FIXED(name) OPWRIGHT_JOIN(name, OPWRIGHT_ISA, fixed)

#endif
