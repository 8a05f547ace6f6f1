// The width of vectors and what follows from it without intrinsics: enough for files without loops over elements.
// It is separate from lanes.h because immintrin.h takes 0.15 s to parse, more than such a file.
//
// Figures: see engine.h.

#ifndef OPWRIGHT_WIDTHS_H
#define OPWRIGHT_WIDTHS_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "names.h"

#if defined(__AVX512F__)
#define VECTOR_BYTES 64
#elif defined(__AVX2__)
#define VECTOR_BYTES 32
#else
#define VECTOR_BYTES 16
#endif
#if defined(OPWRIGHT_64)
#define LANES (VECTOR_BYTES / 8)
#else
#define LANES (VECTOR_BYTES / 4)
#endif

// Products of pairs of bf16 are summed in one instruction.
#if defined(OPWRIGHT_BF16) && defined(__AVX512BF16__) && !defined(OPWRIGHT_WIDE_TAPS)
#define OPWRIGHT_PAIRS 1
#else
#define OPWRIGHT_PAIRS 0
#endif

// And many of them, or of four bytes, by registers of 16 rows.
#if (OPWRIGHT_PAIRS && defined(__AMX_BF16__)) || (defined(OPWRIGHT_BYTES) && defined(__AMX_INT8__))
#define OPWRIGHT_AMX 1
#else
#define OPWRIGHT_AMX 0
#endif

typedef real vec __attribute__((vector_size(VECTOR_BYTES))); // of integers for bytes
#if defined(OPWRIGHT_64)
typedef int64_t ivec __attribute__((vector_size(VECTOR_BYTES)));
typedef uint64_t uvec __attribute__((vector_size(VECTOR_BYTES)));
#else
typedef int32_t ivec __attribute__((vector_size(VECTOR_BYTES)));
typedef uint32_t uvec __attribute__((vector_size(VECTOR_BYTES)));
#endif
typedef uint16_t hvec __attribute__((vector_size(2 * LANES)));

#define INLINE static inline __attribute__((always_inline, unused))
// With the other spelling clang 14 unrolls after it has given arrays of sums their memory, and keeps them there.
#ifdef __clang__
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define UNROLL _Pragma("GCC unroll 32")
#endif

// Keeps a vector in its register across an unrolled loop body. Without it gcc 12 spills the accumulators of a 14x2
// tile: 142 instead of 226 GFLOP/s.
#if defined(__x86_64__)
#define PIN(v) __asm__("" : "+v"(v))
#elif defined(__aarch64__)
#define PIN(v) __asm__("" : "+w"(v))
#else
#define PIN(v) (void)0
#endif

// Gives a vector another place behind a loop. Rounding sums to elements takes registers too: gcc 12 kept one of the sums of
// 6x2 vectors of 32 bytes in memory for that, in the loop as well.
#if defined(__AVX2__) && VECTOR_BYTES == 32
#define LEAVE(v)                                                                                                       \
    do {                                                                                                               \
        vec left_;                                                                                                     \
        __asm__("vmovaps %1, %0" : "=x"(left_) : "x"(v));                                                              \
        (v) = left_;                                                                                                   \
    } while (0)
#else
#define LEAVE(v) (void)0
#endif

// Keeps the compiler from computing every step of a pointer ahead, which spills.
#define STEP(p) __asm__("" : "+r"(p))

INLINE int64_t min(int64_t a, int64_t b) { return a < b ? a : b; }
INLINE int64_t max(int64_t a, int64_t b) { return a > b ? a : b; }
INLINE int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
INLINE int64_t round_up(int64_t a, int64_t b) { return ceil_div(a, b) * b; }

// Bytes rounded up to whole cache lines.
INLINE int64_t whole_lines(int64_t bytes) { return round_up(bytes, 64); }
// Division by a divisor that is usually 1.
INLINE int64_t over(int64_t a, int64_t b) { return b == 1 ? a : a / b; }
INLINE int64_t gcd(int64_t a, int64_t b) {
    while (b != 0) {
        const int64_t rest = a % b;
        a = b, b = rest;
    }
    return a < 0 ? -a : a;
}

#endif
