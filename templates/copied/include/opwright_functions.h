// Functions for the values of steps: functions of real numbers, conversions to integers, walks over strides.
// A function's name ends in its type. Those of f32 and f64 have headers of their own; what these lack is the C library's.

#ifndef OPWRIGHT_FUNCTIONS_H
#define OPWRIGHT_FUNCTIONS_H

#include <math.h>
#include <stdint.h>

#include "opwright_functions_f32.h"
#include "opwright_functions_f64.h"
#include "opwright_functions_pow_f64.h"
#include "opwright_narrow.h"

static inline double opwright_sqrt_f64(double x) { return sqrt(x); }
static inline double opwright_rsqrt_f64(double x) { return 1.0 / sqrt(x); }
static inline double opwright_round_f64(double x) { return rint(x); }
static inline double opwright_floor_f64(double x) { return floor(x); }
static inline double opwright_ceil_f64(double x) { return ceil(x); }
static inline double opwright_sign_f64(double x) { return x > 0.0 ? 1.0 : x < 0.0 ? -1.0 : x; }

static inline int64_t opwright_abs_s64(int64_t x) { return x < 0 ? (int64_t)(0 - (uint64_t)x) : x; }
static inline int64_t opwright_sign_s64(int64_t x) { return (x > 0) - (x < 0); }

// To integers: a real number is rounded half to even and clamped to the range of the type; NaN becomes 0.
static inline double opwright_whole(double x, double min, double max)
{
    const double rounded = rint(x);
    return rounded >= max ? max : rounded > min ? rounded : rounded <= min ? min : 0.0;
}

static inline int32_t opwright_s32_of_f64(double x) { return (int32_t)opwright_whole(x, INT32_MIN, INT32_MAX); }
static inline int8_t opwright_s8_of_f64(double x) { return (int8_t)opwright_whole(x, INT8_MIN, INT8_MAX); }
static inline uint8_t opwright_u8_of_f64(double x) { return (uint8_t)opwright_whole(x, 0, UINT8_MAX); }

static inline uint8_t opwright_s4_of_f64(double x) { return (uint8_t)((int8_t)opwright_whole(x, -8, 7) & 0xf); }
static inline uint8_t opwright_u4_of_f64(double x) { return (uint8_t)opwright_whole(x, 0, 15); }

// 64 bits: the maxima of s64 and u64 are not doubles; the first numbers beyond them are.
static inline int64_t opwright_s64_of_f64(double x)
{
    const double whole = rint(x);
    return whole >= 0x1p63 ? INT64_MAX : whole >= -0x1p63 ? (int64_t)whole : whole == whole ? INT64_MIN : 0;
}

static inline uint64_t opwright_u64_of_f64(double x)
{
    const double whole = rint(x);
    return whole >= 0x1p64 ? UINT64_MAX : whole > 0.0 ? (uint64_t)whole : 0;
}

static inline int64_t opwright_s64_of_f32(float x) { return opwright_s64_of_f64((double)x); }
static inline uint64_t opwright_u64_of_f32(float x) { return opwright_u64_of_f64((double)x); }

// The same for f32, without a branch. Rounded values fit exactly, except the maximum of s32.
static inline float opwright_whole_f32(float x, float min, float max)
{
    const float rounded = opwright_round_f32(opwright_pick_f32(x == x, x, 0.0f));
    const float below = opwright_pick_f32(rounded > max, max, rounded);
    return opwright_pick_f32(below < min, min, below);
}

static inline int32_t opwright_s32_of_f32(float x)
{
    const uint32_t saturated = 0u - (uint32_t)(x >= 0x1p31f);
    const int32_t whole = (int32_t)opwright_whole_f32(x, -0x1p31f, 0x1.fffffep30f);
    return (int32_t)(((uint32_t)whole & ~saturated) | ((uint32_t)INT32_MAX & saturated));
}

static inline int8_t opwright_s8_of_f32(float x) { return (int8_t)(int32_t)opwright_whole_f32(x, INT8_MIN, INT8_MAX); }
static inline uint8_t opwright_u8_of_f32(float x) { return (uint8_t)(int32_t)opwright_whole_f32(x, 0, UINT8_MAX); }
static inline uint8_t opwright_s4_of_f32(float x) { return (uint8_t)((int32_t)opwright_whole_f32(x, -8, 7) & 0xf); }
static inline uint8_t opwright_u4_of_f32(float x) { return (uint8_t)(int32_t)opwright_whole_f32(x, 0, 15); }

static inline int8_t opwright_min_s8(int8_t a, int8_t b) { return a < b ? a : b; }
static inline int8_t opwright_max_s8(int8_t a, int8_t b) { return a > b ? a : b; }
static inline uint8_t opwright_min_u8(uint8_t a, uint8_t b) { return a < b ? a : b; }
static inline uint8_t opwright_max_u8(uint8_t a, uint8_t b) { return a > b ? a : b; }
static inline int16_t opwright_min_s16(int16_t a, int16_t b) { return a < b ? a : b; }
static inline int16_t opwright_max_s16(int16_t a, int16_t b) { return a > b ? a : b; }
static inline int16_t opwright_abs_s16(int16_t a) { return (int16_t)(a < 0 ? -a : a); }
static inline int8_t opwright_s8_of_s16(int16_t x) { return (int8_t)opwright_min_s16(opwright_max_s16(x, INT8_MIN), INT8_MAX); }
static inline uint8_t opwright_u8_of_s16(int16_t x) { return (uint8_t)opwright_min_s16(opwright_max_s16(x, 0), UINT8_MAX); }

// Extremes of bytes: where there are none, they are infinite, which is far from all sums of bytes that 16 bits hold.
static inline int16_t opwright_s16_of_f32(float x) { return (int16_t)(x < -0x1p14f ? -0x1p14f : x > 0x1p14f ? 0x1p14f : x); }
static inline int16_t opwright_s16_of_f64(double x) { return (int16_t)(x < -0x1p14 ? -0x1p14 : x > 0x1p14 ? 0x1p14 : x); }
static inline int16_t opwright_s16_of_s64(int64_t x) { return (int16_t)(x < -16384 ? -16384 : x > 16384 ? 16384 : x); }

static inline int32_t opwright_min_s32(int32_t a, int32_t b) { return a < b ? a : b; }
static inline int32_t opwright_max_s32(int32_t a, int32_t b) { return a > b ? a : b; }

// An integer as f32, rounded once. AVX2 has no instruction for it in vectors: integers of more than 53 bits get a last bit that
// says whether those behind it were all 0, so that rounding to double first is exact; its high and low half become doubles by
// their bits. Quantising 1M f32 with a list of zero points takes 0.2 of the time of conversions one by one (AMD EPYC Zen 3, gcc 12.2).
static inline float opwright_f32_of_s64(int64_t x)
{
#if defined(__AVX2__) && !defined(__AVX512DQ__)
    const uint64_t bits = (uint64_t)x, behind = bits & 0x7ffu;
    const uint64_t odd = (bits - behind) | ((behind + 0x7ffu) & 0x800u);
    const uint64_t exact = 0u - (uint64_t)(x < INT64_C(1) << 52 && x > -(INT64_C(1) << 52));
    const uint64_t kept = (bits & exact) | (odd & ~exact);
    const double high = opwright_double(kept >> 32 ^ 0x4530000080000000u); // 2^84 + 2^63 + the high half
    const double low = opwright_double((kept & 0xffffffffu) | 0x4330000000000000u); // 2^52 + the low half
    return (float)(high - 0x1.00000801p84 + low);
#else
    return (float)x;
#endif
}

static inline int64_t opwright_clamped(int64_t x, int64_t min, int64_t max)
{
    return x < min ? min : x > max ? max : x;
}

static inline int32_t opwright_s32_of_s64(int64_t x) { return (int32_t)opwright_clamped(x, INT32_MIN, INT32_MAX); }
static inline int8_t opwright_s8_of_s64(int64_t x) { return (int8_t)opwright_clamped(x, INT8_MIN, INT8_MAX); }
static inline uint8_t opwright_u8_of_s64(int64_t x) { return (uint8_t)opwright_clamped(x, 0, UINT8_MAX); }
static inline uint8_t opwright_s4_of_s64(int64_t x) { return (uint8_t)(opwright_clamped(x, -8, 7) & 0xf); }
static inline uint8_t opwright_u4_of_s64(int64_t x) { return (uint8_t)opwright_clamped(x, 0, 15); }

// Bits of integers in two's complement. Shifts go by y modulo 64; to the right the sign follows.
static inline int64_t opwright_bit_and_s64(int64_t x, int64_t y) { return x & y; }
static inline int64_t opwright_bit_or_s64(int64_t x, int64_t y) { return x | y; }
static inline int64_t opwright_bit_xor_s64(int64_t x, int64_t y) { return x ^ y; }
static inline int64_t opwright_bit_not_s64(int64_t x) { return ~x; }
static inline int64_t opwright_shift_left_s64(int64_t x, int64_t y) { return (int64_t)((uint64_t)x << (y & 63)); }
static inline int64_t opwright_shift_right_s64(int64_t x, int64_t y)
{
    return x < 0 ? ~(int64_t)(~(uint64_t)x >> (y & 63)) : (int64_t)((uint64_t)x >> (y & 63));
}

// Quotients of integers, rounded down and up; by 0 they are 0, and the negative of INT64_MIN wraps around.
static inline int64_t opwright_floor_s64(int64_t a, int64_t b)
{
    if (b == 0 || b == -1)
        return b ? (int64_t)(0u - (uint64_t)a) : 0;
    return a / b - (a % b != 0 && (a < 0) != (b < 0));
}

static inline int64_t opwright_ceil_s64(int64_t a, int64_t b)
{
    if (b == 0 || b == -1)
        return b ? (int64_t)(0u - (uint64_t)a) : 0;
    return a / b + (a % b != 0 && (a < 0) == (b < 0));
}

// What few calls need is outlined: inlined, it takes registers from the loops that every call runs.
#if defined(__GNUC__)
#define OPWRIGHT_OUTLINED static __attribute__((noinline, unused))
#else
#define OPWRIGHT_OUTLINED static inline
#endif

// A run of axes is walked row by row, a row along its last axis: the number of rows,
OPWRIGHT_OUTLINED int64_t opwright_rows_of_many(int64_t rank, const int64_t *extents)
{
    int64_t rows = 1;
    for (int64_t axis = 0; axis + 1 < rank; ++axis) {
        rows *= extents[axis];
    }
    return rows;
}

static inline int64_t opwright_rows(int64_t rank, const int64_t *extents)
{
    return rank <= 1 ? 1 : rank == 2 ? extents[0] : opwright_rows_of_many(rank, extents);
}

// and the start of a row in an array with these strides. The first axis needs no division: most runs have two axes.
OPWRIGHT_OUTLINED int64_t opwright_row_offset_of_many(int64_t row, int64_t rank, const int64_t *extents, const int64_t *strides)
{
    int64_t offset = 0;
    for (int64_t axis = rank - 2; axis > 0; --axis) {
        offset += row % extents[axis] * strides[axis];
        row /= extents[axis];
    }
    return offset + row * strides[0];
}

// The row that a loop over rows was at, where it starts, and how many follow it along the last axis but one.
typedef struct {
    int64_t row, start, left;
} opwright_walk;
#define OPWRIGHT_NO_ROW {0, 0, 0}

// The start of a row, most often of the one that follows. Functions of 8x12x64 rows of 64 f32 that lie in the order of the
// second and third axis take 0.78 to 0.88 of the time that divisions take (AMD Zen 5, gcc 12.2).
static inline int64_t opwright_walked_of_many(int64_t row, int64_t rank, const int64_t *extents, const int64_t *strides, opwright_walk *walk)
{
    if (row == walk->row + 1 && walk->left > 0) {
        walk->start += strides[rank - 2];
        --walk->left;
    } else if (row != walk->row) {
        walk->start = opwright_row_offset_of_many(row, rank, extents, strides);
        walk->left = extents[rank - 2] - 1 - row % extents[rank - 2];
    }
    walk->row = row;
    return walk->start;
}

// Most runs have two axes at most: compilers put all but that where it is called from few places.
static inline int64_t opwright_walked(int64_t row, int64_t rank, const int64_t *extents, const int64_t *strides, opwright_walk *walk)
{
    return rank <= 1 ? 0 : rank == 2 ? row * strides[0] : opwright_walked_of_many(row, rank, extents, strides, walk);
}

// The offset of the cell of a run with this index, the last axis fastest.
static inline int64_t opwright_cell_offset(int64_t cell, int64_t rank, const int64_t *extents, const int64_t *strides)
{
    int64_t offset = 0;
    for (int64_t axis = rank - 1; axis > 0; --axis) {
        offset += cell % extents[axis] * strides[axis];
        cell /= extents[axis];
    }
    return offset + cell * strides[0];
}

#endif
