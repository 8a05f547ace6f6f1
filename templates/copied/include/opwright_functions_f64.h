// Functions of real numbers in f64: plain C11 without a branch or a call, so that a compiler vectorises a loop that calls
// them. They multiply and add in separate steps: no wider type emulates a fused step where a CPU lacks it. With
// -ffp-contract=off every compiler and instruction set gives the same bits. The coefficients of a polynomial are a
// near-minimax fit of the function in its comment. NaN, Inf and -0.0 follow Annex F of C; denormals are preserved.
// docs/SPEC.md of opwright, "Functions", has the error bounds.

#ifndef OPWRIGHT_FUNCTIONS_F64_H
#define OPWRIGHT_FUNCTIONS_F64_H

#include <math.h>
#include <stdint.h>

#include "opwright_functions_f32.h"

// Selects one of two numbers by their bits, as opwright_pick_f32. For baseline x86-64 gcc 12 makes no vectors of masks of 64
// bits, but of conditional expressions under -fno-trapping-math. Arguments are clamped by these everywhere, which is one
// instruction: exp takes 0.62 ns per cell, with masks 0.74 (AMD Zen 5, gcc 12.2, AVX-512, rows of 1024 cells).
static inline double opwright_pick_f64(int condition, double yes, double no)
{
#if defined(__SSE2__) && !defined(__SSE4_2__) && !defined(__clang__)
    return condition ? yes : no;
#else
    const uint64_t mask = 0u - (uint64_t)condition;
    return opwright_double((opwright_bits_f64(yes) & mask) | (opwright_bits_f64(no) & ~mask));
#endif
}

static inline double opwright_abs_f64(double x) { return opwright_double(opwright_bits_f64(x) & 0x7fffffffffffffffu); }

// The magnitude of one number with the sign of another.
static inline double opwright_signed_f64(double magnitude, double sign)
{
    const uint64_t bits = opwright_bits_f64(magnitude) & 0x7fffffffffffffffu;
    return opwright_double(bits | (opwright_bits_f64(sign) & 0x8000000000000000u));
}

// Adding this to x, |x| < 2^51, leaves the integer next to x in the low bits of the sum.
#define OPWRIGHT_SHIFT_F64 0x1.8p52

// y * 2^n for n in [-1100, 1100] and y in [0.5, 2], rounded once if the result is a denormal. `shifted` is n plus the shift.
static inline double opwright_scaled_f64(double y, double shifted)
{
    const uint64_t both = opwright_bits_f64(shifted) - 0x4338000000000000u + 2 * 1023;
    const uint64_t first = both >> 1;
    return y * opwright_double(first << 52) * opwright_double((both - first) << 52);
}

// ln(2) in two parts: the product of the first one and an exponent is exact.
#define OPWRIGHT_LN2_F64 0x1.62e42fefa3p-1
#define OPWRIGHT_LN2_REST_F64 0x1.3de6af278ece6p-42

// (e^r - 1 - r - r^2 / 2) / r^3 for |r| <= ln(2) / 2, in pairs of terms, of which a CPU computes several at a time.
#define OPWRIGHT_EXP_F64_0 0x1.af38c67fbb53ep-26
#define OPWRIGHT_EXP_F64_1 0x1.1f66eff4fc984p-29
#define OPWRIGHT_EXP_F64_2 0x1.71de0da24602dp-19
#define OPWRIGHT_EXP_F64_3 0x1.27e4e1ed9933ep-22
#define OPWRIGHT_EXP_F64_4 0x1.a01a01a7c73c0p-13
#define OPWRIGHT_EXP_F64_5 0x1.a01a01a47ccd9p-16
#define OPWRIGHT_EXP_F64_6 0x1.11111111109afp-7
#define OPWRIGHT_EXP_F64_7 0x1.6c16c16c167dfp-10
#define OPWRIGHT_EXP_F64_8 0x1.5555555555556p-3
#define OPWRIGHT_EXP_F64_9 0x1.5555555555555p-5
#define OPWRIGHT_LOG2E_F64 0x1.71547652b82fep+0

// e^(near - rest) for |near| <= ln(2) / 2, as a sum of two numbers.
OPWRIGHT_INLINE double opwright_exp_of_parts_f64(double near, double rest, double *low)
{
    const double r = near - rest, s = r * r;
    double p = OPWRIGHT_EXP_F64_0 + r * OPWRIGHT_EXP_F64_1;
    p = p * s + (OPWRIGHT_EXP_F64_2 + r * OPWRIGHT_EXP_F64_3);
    p = p * s + (OPWRIGHT_EXP_F64_4 + r * OPWRIGHT_EXP_F64_5);
    p = p * s + (OPWRIGHT_EXP_F64_6 + r * OPWRIGHT_EXP_F64_7);
    p = p * s + (OPWRIGHT_EXP_F64_8 + r * OPWRIGHT_EXP_F64_9);
    // 1 + near, the error of this sum, and what is small.
    const double sum = 1.0 + near;
    const double error = near - (sum - 1.0);
    *low = error + (s * (0.5 + r * p) - rest);
    return sum;
}

OPWRIGHT_INLINE double opwright_exp_f64(double x)
{
    const double below = x > 710.0 ? 710.0 : x;
    const double within = below < -746.0 ? -746.0 : below;
    const double shifted = within * OPWRIGHT_LOG2E_F64 + OPWRIGHT_SHIFT_F64;
    double low;
    const double n = shifted - OPWRIGHT_SHIFT_F64, rest = n * OPWRIGHT_LN2_REST_F64;
    const double high = opwright_exp_of_parts_f64(within - n * OPWRIGHT_LN2_F64, rest, &low);
    return opwright_scaled_f64(high + low, shifted);
}

OPWRIGHT_INLINE double opwright_exp2_f64(double x)
{
    const double below = x > 1025.0 ? 1025.0 : x;
    const double within = below < -1076.0 ? -1076.0 : below;
    const double shifted = within + OPWRIGHT_SHIFT_F64;
    const double r = within - (shifted - OPWRIGHT_SHIFT_F64), s = r * r;
    // (2^r - 1 - r * ln(2)) / r^2 for |r| <= 0.5.
    double p = 0x1.e4cf1c3c27346p-28 + r * 0x1.e9d40266c5b84p-32 + s * 0x1.c4907ec6adadcp-36;
    p = p * s + (0x1.62c0224038666p-20 + r * 0x1.b524fae410c3ap-24);
    p = p * s + (0x1.430912f86bf0ap-13 + r * 0x1.ffcbfc670e7cbp-17);
    p = p * s + (0x1.3b2ab6fba4e78p-7 + r * 0x1.5d87fe78a5275p-10);
    p = p * s + (0x1.ebfbdff82c58fp-3 + r * 0x1.c6b08d704a0c2p-5);
    const double first = r * 0x1.62e42fefa39efp-1;
    const double sum = 1.0 + first;
    const double error = first - (sum - 1.0);
    return opwright_scaled_f64(sum + (error + (s * p + r * 0x1.abc9e3b39803fp-56)), shifted);
}

// ln(1 + f) + error + e * ln(2) for 1 + f in [sqrt(0.5), sqrt(2)).
OPWRIGHT_INLINE double opwright_log_of_parts_f64(double f, double error, double e)
{
    // With t = f / (2 + f), ln(1 + f) is 2 * t + t * r, and f - 2 * t is t * f.
    const double t = f / (2.0 + f), s = t * t, fourth = s * s;
    // (ln((1 + t) / (1 - t)) / t - 2) / t^2 over t^2 for |t| <= 0.1716.
    double p = 0x1.39fe54273f781p-3 + s * 0x1.2b58e1fea56cfp-3;
    p = p * fourth + (0x1.c71c62e434ba9p-3 + s * 0x1.7462b50978dd3p-3);
    p = p * fourth + (0x1.99999999952d9p-2 + s * 0x1.2492492df24c9p-2);
    const double r = s * (0x1.5555555555558p-1 + s * p);
    const double square = 0.5 * f * f;
    const double low = e * OPWRIGHT_LN2_REST_F64 + error;
    return e * OPWRIGHT_LN2_F64 + (f - (square - (t * (square + r) + low)));
}

// The bits of sqrt(0.5), and the exponent e that leaves x / 2^e in [sqrt(0.5), sqrt(2)), for bits of a positive normal x: as
// 1023 + e, in the bits from the 52nd on.
#define OPWRIGHT_ROOT_F64 0x3fe6a09e667f3bcdu
static inline uint64_t opwright_exponent_f64(uint64_t bits) { return bits - OPWRIGHT_ROOT_F64 + 0x3ff0000000000000u; }

// e as a number.
static inline double opwright_exponent_number_f64(uint64_t exponent)
{
    return opwright_double(0x4330000000000000u | exponent >> 52) - (0x1p52 + 1023.0);
}

OPWRIGHT_INLINE double opwright_log_f64(double x)
{
    const int tiny = x < 0x1p-1022;
    const uint64_t exponent = opwright_exponent_f64(opwright_bits_f64(opwright_pick_f64(tiny, x * 0x1p54, x)));
    const double f = opwright_double((exponent & 0xfffffffffffffu) + OPWRIGHT_ROOT_F64) - 1.0;
    const double e = opwright_exponent_number_f64(exponent) - opwright_pick_f64(tiny, 54.0, 0.0);
    const double positive = opwright_pick_f64(x < INFINITY, opwright_log_of_parts_f64(f, 0.0, e), x);
    return opwright_pick_f64(x > 0.0, positive, opwright_pick_f64(x == 0.0, -INFINITY, NAN));
}

OPWRIGHT_INLINE double opwright_log1p_f64(double x)
{
    const double sum = 1.0 + x;
    const uint64_t exponent = opwright_exponent_f64(opwright_bits_f64(sum));
    const double e = opwright_exponent_number_f64(exponent);
    const double f = opwright_double((exponent & 0xfffffffffffffu) + OPWRIGHT_ROOT_F64) - 1.0;
    // What the sum has lost, times 2^-e, over 1 + f. From 2^64 on nothing of it is left.
    const double other = sum - x;
    const double lost = (x - (sum - other)) + (1.0 - other);
    const double scale = opwright_double((2046u - (exponent >> 52)) << 52);
    const double error = opwright_pick_f64(x < 0x1p64, lost * scale / (1.0 + f), 0.0);
    const double result = opwright_log_of_parts_f64(f, error, e);
    const double above = opwright_pick_f64(sum < INFINITY, opwright_signed_f64(result, x), x);
    return opwright_pick_f64(x > -1.0, above, opwright_pick_f64(x == -1.0, -INFINITY, NAN));
}

OPWRIGHT_INLINE double opwright_tanh_f64(double x)
{
    const double magnitude = opwright_abs_f64(x);
    // From 20 on the result rounds to 1.
    const double within = magnitude > 20.0 ? 20.0 : magnitude;
    const double shifted = 2.0 * within * OPWRIGHT_LOG2E_F64 + OPWRIGHT_SHIFT_F64;
    double low;
    const double n = shifted - OPWRIGHT_SHIFT_F64, rest = n * OPWRIGHT_LN2_REST_F64;
    const double high = opwright_exp_of_parts_f64(2.0 * within - n * OPWRIGHT_LN2_F64, rest, &low);
    const double scale = opwright_double((opwright_bits_f64(shifted) + 1023u) << 52);
    // (tanh(x) / x - 1) / x^2 over x^2 for |x| <= 0.626 is a quotient of polynomials, which shares its division with
    // 1 - 2 / (e^2x + 1) of larger numbers. There, what the sum under the division has lost counts.
    const double s = within * within;
    const double above = s * (-0x1.5555555555555p-2 + s * (-0x1.4fda02551ce36p-6 + s * -0x1.a1b3d43715fc9p-13));
    const double under = 1.0 + s * (0x1.d8927a098f004p-2 + s * (0x1.7d9aacd9d9061p-6 + s * 0x1.b120cfa6d109bp-13));
    const int small = magnitude < 0.625;
    const double power = (high + low) * scale;
    const double sum = power + 1.0;
    const double lost = (low - (high + low - high)) * scale + (1.0 - (sum - power));
    const double quotient = opwright_pick_f64(small, above, -2.0) / opwright_pick_f64(small, under, sum);
    const double change = opwright_pick_f64(small, 0.0, 0.5 * quotient * quotient * lost);
    const double first = opwright_pick_f64(small, within, 1.0);
    const double second = first * quotient;
    const double result = first + second;
    return opwright_signed_f64(result + ((first - result + second) + change), x);
}

OPWRIGHT_INLINE double opwright_erf_f64(double x)
{
    const double magnitude = opwright_abs_f64(x);
    // From 6 on the result rounds to 1.
    const double within = magnitude > 6.0 ? 6.0 : magnitude;
    // x^2 in two parts, of which the first one has no error: the square of the first half of the bits of x.
    const double half = opwright_double(opwright_bits_f64(within) & 0xfffffffff8000000u);
    const double square = half * half, more = (within - half) * (within + half);
    const double shifted = square * -OPWRIGHT_LOG2E_F64 + OPWRIGHT_SHIFT_F64;
    double low;
    const double n = shifted - OPWRIGHT_SHIFT_F64, rest = n * OPWRIGHT_LN2_REST_F64 + more;
    const double high = opwright_exp_of_parts_f64(-square - n * OPWRIGHT_LN2_F64, rest, &low);
    const double power = (high + low) * opwright_double((opwright_bits_f64(shifted) + 1023u) << 52);
    // erf(x) / x - 1 over x^2 for x <= 0.922, and (1 - erf(x)) * e^(x^2) for x in [0.84375, 6], as quotients.
    const int small = magnitude < 0.92;
    const double t = opwright_pick_f64(small, within * within, within);
    double above = opwright_pick_f64(small, -0x1.53d24ea829dc9p-16, 0x1.07cce7850805bp-7);
    above = above * t + opwright_pick_f64(small, -0x1.fca3b9bcc69d1p-12, 0x1.4117c7c6e3b62p-4);
    above = above * t + opwright_pick_f64(small, -0x1.1ea2a67215acbp-7, 0x1.6b36e07a4a4acp-2);
    above = above * t + opwright_pick_f64(small, -0x1.88592cca111e6p-5, 0x1.d5cf011fcb615p-1);
    above = above * t + opwright_pick_f64(small, -0x1.44cb864a77719p-2, 0x1.5d57e441331c5p+0);
    above = above * t + opwright_pick_f64(small, 0x1.06eba8214db69p-3, 0x1.fffffecbee7fcp-1);
    double under = opwright_pick_f64(small, 0.0, 0x1.d39472e3312cfp-7);
    under = under * t + opwright_pick_f64(small, 0x1.53a34001c3b2fp-16, 0x1.1c8cd88c40683p-3);
    under = under * t + opwright_pick_f64(small, 0x1.64743712dc467p-11, 0x1.4595411f2cbf6p-1);
    under = under * t + opwright_pick_f64(small, 0x1.5a4aa2e3eae45p-7, 0x1.b1f56e425ddf0p+0);
    under = under * t + opwright_pick_f64(small, 0x1.7da69cf2580bcp-4, 0x1.5d85ddb661b75p+1);
    under = under * t + opwright_pick_f64(small, 0x1.d62845cb9261bp-2, 0x1.3f1aa92323098p+1);
    under = under * t + 1.0;
    const double factor = opwright_pick_f64(small, within, -power);
    return opwright_signed_f64(opwright_pick_f64(small, within, 1.0) + factor * (above / under), x);
}

#endif
