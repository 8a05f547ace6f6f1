// Functions of real numbers in f64: plain C11 without a branch or a call, so that a compiler vectorises a loop that calls
// them. They fuse multiplications and additions where the CPU can: no wider type emulates that where it cannot. With
// -ffp-contract=off every compiler gives the same bits, and so do all instruction sets that fuse. The coefficients of a
// polynomial are a near-minimax fit of the function in its comment. NaN, Inf and -0.0 follow Annex F of C; denormals are
// preserved. docs/SPEC.md of opwright, "Functions", has the error bounds.

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

// a * b + c, rounded once or twice.
static inline double opwright_fma_f64(double a, double b, double c)
{
#if defined(__FMA__) || defined(__ARM_FEATURE_FMA)
    return __builtin_fma(a, b, c);
#else
    return a * b + c;
#endif
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

// That for r, and s = r^2.
OPWRIGHT_INLINE double opwright_exp_polynomial_f64(double r, double s)
{
    double p = opwright_fma_f64(r, OPWRIGHT_EXP_F64_1, OPWRIGHT_EXP_F64_0);
    p = opwright_fma_f64(p, s, opwright_fma_f64(r, OPWRIGHT_EXP_F64_3, OPWRIGHT_EXP_F64_2));
    p = opwright_fma_f64(p, s, opwright_fma_f64(r, OPWRIGHT_EXP_F64_5, OPWRIGHT_EXP_F64_4));
    p = opwright_fma_f64(p, s, opwright_fma_f64(r, OPWRIGHT_EXP_F64_7, OPWRIGHT_EXP_F64_6));
    return opwright_fma_f64(p, s, opwright_fma_f64(r, OPWRIGHT_EXP_F64_9, OPWRIGHT_EXP_F64_8));
}

OPWRIGHT_INLINE double opwright_exp_f64(double x)
{
    const double below = x > 710.0 ? 710.0 : x;
    const double within = below < -746.0 ? -746.0 : below;
    const double shifted = opwright_fma_f64(within, OPWRIGHT_LOG2E_F64, OPWRIGHT_SHIFT_F64);
    const double n = shifted - OPWRIGHT_SHIFT_F64;
    const double r = opwright_fma_f64(-n, OPWRIGHT_LN2_REST_F64, opwright_fma_f64(-n, OPWRIGHT_LN2_F64, within));
    const double s = r * r, half = opwright_fma_f64(r, opwright_exp_polynomial_f64(r, s), 0.5);
    return opwright_scaled_f64(1.0 + opwright_fma_f64(s, half, r), shifted);
}

OPWRIGHT_INLINE double opwright_exp2_f64(double x)
{
    const double below = x > 1025.0 ? 1025.0 : x;
    const double within = below < -1076.0 ? -1076.0 : below;
    const double shifted = within + OPWRIGHT_SHIFT_F64;
    const double r = within - (shifted - OPWRIGHT_SHIFT_F64), s = r * r;
    // (2^r - 1 - r * ln(2)) / r^2 for |r| <= 0.5.
    double p = opwright_fma_f64(s, 0x1.c4907ec6adadcp-36, opwright_fma_f64(r, 0x1.e9d40266c5b84p-32, 0x1.e4cf1c3c27346p-28));
    p = opwright_fma_f64(p, s, opwright_fma_f64(r, 0x1.b524fae410c3ap-24, 0x1.62c0224038666p-20));
    p = opwright_fma_f64(p, s, opwright_fma_f64(r, 0x1.ffcbfc670e7cbp-17, 0x1.430912f86bf0ap-13));
    p = opwright_fma_f64(p, s, opwright_fma_f64(r, 0x1.5d87fe78a5275p-10, 0x1.3b2ab6fba4e78p-7));
    p = opwright_fma_f64(p, s, opwright_fma_f64(r, 0x1.c6b08d704a0c2p-5, 0x1.ebfbdff82c58fp-3));
    const double first = r * 0x1.62e42fefa39efp-1, sum = 1.0 + first;
    const double error = first - (sum - 1.0);
    return opwright_scaled_f64(sum + (error + opwright_fma_f64(s, p, r * 0x1.abc9e3b39803fp-56)), shifted);
}

// (ln((1 + t) / (1 - t)) / t - 2) / t^2 over t^2 for |t| <= 0.1716.
#define OPWRIGHT_LOG_F64_0 0x1.2b58e1fea56cfp-3
#define OPWRIGHT_LOG_F64_1 0x1.39fe54273f781p-3
#define OPWRIGHT_LOG_F64_2 0x1.7462b50978dd3p-3
#define OPWRIGHT_LOG_F64_3 0x1.c71c62e434ba9p-3
#define OPWRIGHT_LOG_F64_4 0x1.2492492df24c9p-2
#define OPWRIGHT_LOG_F64_5 0x1.99999999952d9p-2
#define OPWRIGHT_LOG_F64_6 0x1.5555555555558p-1

// ln(1 + f) + error + e * ln(2) for 1 + f in [sqrt(0.5), sqrt(2)).
OPWRIGHT_INLINE double opwright_log_of_parts_f64(double f, double error, double e)
{
    // With t = f / (2 + f), ln(1 + f) is 2 * t + t * r, and f - 2 * t is t * f.
    const double t = f / (2.0 + f), s = t * t, fourth = s * s;
    double p = opwright_fma_f64(s, OPWRIGHT_LOG_F64_0, OPWRIGHT_LOG_F64_1);
    p = opwright_fma_f64(p, fourth, opwright_fma_f64(s, OPWRIGHT_LOG_F64_2, OPWRIGHT_LOG_F64_3));
    p = opwright_fma_f64(p, fourth, opwright_fma_f64(s, OPWRIGHT_LOG_F64_4, OPWRIGHT_LOG_F64_5));
    const double square = 0.5 * f * f;
    const double rest = opwright_fma_f64(s, opwright_fma_f64(s, p, OPWRIGHT_LOG_F64_6), square);
    const double low = opwright_fma_f64(e, OPWRIGHT_LN2_REST_F64, error);
    return opwright_fma_f64(e, OPWRIGHT_LN2_F64, f - (square - opwright_fma_f64(t, rest, low)));
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

// tanh and erf, by sixteen pieces of their arguments' magnitudes: see opwright_of_piece_f32. A piece is looked up at its place.
enum { OPWRIGHT_PIECES_F64 = 16, OPWRIGHT_TANH_DEGREE_F64 = 14, OPWRIGHT_ERF_DEGREE_F64 = 13 };

OPWRIGHT_INLINE double opwright_of_piece_f64(double x, double t, uint64_t place, const double *centers,
                                             const double (*parts)[OPWRIGHT_PIECES_F64], int degree)
{
    const uint64_t here = place % OPWRIGHT_PIECES_F64; // of NaN any of them
    const double r = t - centers[here];
    double p = parts[0][here];
    for (int i = 1; i < degree; ++i) {
        p = opwright_fma_f64(p, r, parts[i][here]);
    }
    const double last = parts[degree][here];
    return opwright_signed_f64(opwright_fma_f64(p, r, opwright_pick_f64(last == 0.0, r, last)), x);
}

// tanh: the place is the exponent of 2.3606 * t + 3 and its first two bits behind the point; the first piece has the third.
#define OPWRIGHT_TANH_END_F64 19.0625
#define OPWRIGHT_TANH_SCALE_F64 0x1.2e298fb97ab5dp+1
static const double opwright_tanh_centers_f64[OPWRIGHT_PIECES_F64] = {
    0x1.bedb77a9b4ep+3, 0x1.15424347cf9p+4, 0.0, 0x1.46c9294b74p-2,
    0x1.44ce34f332p-1, 0x1.0d07d8bd61p+0, 0x1.7c1044cbfep+0, 0x1.e67e497e42p+0,
    0x1.440e6b78c98p+1, 0x1.b1143c28af8p+1, 0x1.0e7be1f1accp+2, 0x1.44bf2b28cbp+2,
    0x1.968b5bf2e14p+2, 0x1.017ddda23aap+3, 0x1.37902984ceep+3, 0x1.6e1cec206b8p+3,
};
static const double opwright_tanh_parts_f64[OPWRIGHT_TANH_DEGREE_F64 + 1][OPWRIGHT_PIECES_F64] = {
    {-0x1.7e5840dadb497p-62, -0x1.bdd97023082c8p-72, -0x1.cdcea6792d744p-10, -0x1.0cf0650caa4e7p-12,
     0x1.8665fbb5871e8p-12, -0x1.321b10b134106p-14, 0x1.3213c0c0c6ba3p-16, -0x1.991ef1b32362ep-20,
     -0x1.4551541f57d2p-24, 0x1.63fbaaf8d2377p-28, 0x1.9565edcf277e5p-33, -0x1.6e87c059db617p-38,
     -0x1.3bd336425fdb9p-40, -0x1.68d10819d5747p-45, -0x1.865a0aecbe5a9p-50, -0x1.a58cf354dea8fp-55},
    {0x1.610ac44b0b849p-59, 0x1.aecf952cf0051p-69, 0x1.2f8718f679af1p-8, -0x1.493cdc59a0a3bp-9,
     0x1.6ccd3e1a2a1a8p-11, -0x1.870776425510dp-14, -0x1.1fdf8cd02c95dp-16, 0x1.a7ad299be2734p-18,
     -0x1.94e59e942c8fcp-28, -0x1.5ad2b530f7f8ap-26, -0x1.cb85339d228b6p-32, 0x1.3332b0d5478ffp-34,
     0x1.1f5edd60d269dp-37, 0x1.3f518a7e66507p-42, 0x1.5c5e7013ea51fp-47, 0x1.70a79594bdb01p-52},
    {-0x1.cf08818dade69p-57, -0x1.1ec10cd4c7172p-66, -0x1.8aac00b70c964p-12, 0x1.227a5f0c97478p-9,
     -0x1.0a59fe0d8a73cp-9, 0x1.05ea3656ee6cep-11, -0x1.3029bf8aa8537p-15, -0x1.e703c42172267p-17,
     0x1.b4640b0e62a67p-21, 0x1.00e32b4134728p-24, -0x1.2c01f3e34475ep-31, -0x1.3551ebc30ac2cp-31,
     -0x1.c2ef2db262c4p-35, -0x1.ecdef273b5409p-40, -0x1.0ce18b4eaa225p-44, -0x1.1c2a9e6da7d31p-49},
    {0x1.5680975a6bfc4p-54, 0x1.a3dc5aeb54269p-64, -0x1.1f71263a7414p-7, 0x1.5194f7051c12cp-8,
     0x1.9398ced6f8e57p-12, -0x1.62f78c5bc9f71p-11, 0x1.7ce3d44e1b982p-13, 0x1.18339161dad3fp-16,
     -0x1.fee87aa3a403ap-19, -0x1.1e18f15631a7ap-23, 0x1.adede90bf7d51p-27, 0x1.fbeca97df3e0ep-29,
     0x1.541db49949311p-32, 0x1.71837e45c91aap-37, 0x1.92e3b9772bcdbp-42, 0x1.aa404b81b0a5bp-47},
    {-0x1.e372df42e310bp-52, -0x1.27ae09f4e3d27p-61, -0x1.0230137658185p-16, -0x1.263f9e086e3d1p-7,
     0x1.5ea2a43740e53p-8, -0x1.80631e344ec2fp-12, -0x1.83c945415abe6p-12, 0x1.9f7cfde031fd1p-16,
     0x1.92f353d265badp-17, 0x1.1d507e854c6eap-24, -0x1.958b908e4bd44p-24, -0x1.6c54bda58abb9p-26,
     -0x1.d5bdc9843e9f5p-30, -0x1.fce16c1e81fadp-35, -0x1.1563ba3c347e1p-39, -0x1.257c3343f41f5p-44},
    {0x1.2ea00c5c8721bp-49, 0x1.7296540f161d3p-59, 0x1.6656fee8a4ec3p-6, -0x1.ebd3f1f123878p-8,
     -0x1.02335b90ab45ep-7, 0x1.a1962042534cdp-9, 0x1.0608570591a3dp-12, -0x1.9a542aafe8e48p-13,
     -0x1.c549afb3ca6afp-16, 0x1.7c6ceb55047d1p-20, 0x1.2030b13736883p-21, 0x1.d0e4540ec98d1p-24,
     0x1.260d1a96351d8p-27, 0x1.3e128c0343505p-32, 0x1.5abf87bb2a3cep-37, 0x1.6edb53f79713bp-42},
    {-0x1.53c1d73de4f5fp-47, -0x1.a0242a8603b2cp-57, -0x1.4e79b54a5475fp-23, 0x1.c87dfbb872303p-6,
     -0x1.5f004d4da85c5p-8, -0x1.60f622901f3fp-8, 0x1.025435d54c2fdp-10, 0x1.36a6cef53f769p-11,
     0x1.f5ef5046216a5p-16, -0x1.5e30c9ad5fb11p-17, -0x1.57db54f4b89e8p-19, -0x1.082b8f4487741p-21,
     -0x1.4b0e792417d7fp-25, -0x1.65d49886370b7p-30, -0x1.8614af75f43f2p-35, -0x1.9cb39b7026434p-40},
    {0x1.53b697bb43208p-45, 0x1.a00d19829f787p-55, -0x1.ba1b9cc4be52fp-5, 0x1.874997d98e798p-10,
     0x1.e1cc8136f5a58p-6, -0x1.d81ede79643bbp-15, -0x1.0bf7bad148c26p-8, -0x1.15d98e96be40ap-10,
     0x1.711b46371b61dp-14, 0x1.a3acc5584da14p-15, 0x1.61b6ba4e9da26p-17, 0x1.098158c531b0ep-19,
     0x1.4b2f6a9b4035p-23, 0x1.65d5c3dc8c42dp-28, 0x1.8614aad49c11p-33, 0x1.9cb39ae1212c8p-38},
    {-0x1.2949ddaefaaa4p-43, -0x1.6c16755b3d7ccp-53, -0x1.9a27bbe96a4b4p-32, -0x1.293151c7bf373p-4,
     -0x1.67f5ec51537e2p-6, 0x1.3cae5dd991dd5p-6, 0x1.ed5572930d461p-8, 0x1.c4185b465ef8ep-12,
     -0x1.6f76f9c93ceefp-11, -0x1.8e058baac3017p-13, -0x1.39d29007c3028p-15, -0x1.d1cd8dc8beaa6p-18,
     -0x1.21d7f255beda9p-21, -0x1.391b9bc5452cep-26, -0x1.555224f2a5c21p-31, -0x1.691d332ae64d8p-36},
    {0x1.bdefcf3e427p-42, 0x1.1111da6554356p-51, 0x1.111111116729ep-3, 0x1.5d2590a4fa377p-5,
     -0x1.ce55676d38df8p-5, -0x1.4b50c4bfc202p-5, -0x1.b50298e92effp-9, 0x1.34ef84f5d0891p-8,
     0x1.64cea5d27db21p-9, 0x1.362bb60e697f3p-11, 0x1.d9fb32eb6eb86p-14, 0x1.5dca65cc377a8p-16,
     0x1.b2cebd79b8cf7p-20, 0x1.d5a9ced2b4411p-25, 0x1.fffb3b871f3aep-30, 0x1.0ed5e6756130cp-34},
    {-0x1.16b5577b41703p-40, -0x1.5555bc99c0d1dp-50, -0x1.5b3d5045fff97p-43, 0x1.46d0b7b389d09p-3,
     0x1.150b83c434182p-3, 0x1.111feeddb7d9ap-6, -0x1.953fb2db3c89ep-6, -0x1.4c1e4b205a14dp-6,
     -0x1.f27357ef402d2p-8, -0x1.8b0a4ca425e64p-10, -0x1.29411424fab41p-12, -0x1.b58327f7f619cp-15,
     -0x1.0fc497e483a1bp-18, -0x1.258a40b02d27p-23, -0x1.3ffd063c7842fp-28, -0x1.528b5ff5b19d6p-33},
    {0x1.16b54daa2e061p-39, 0x1.5555a98a6cb71p-49, -0x1.555555555553ep-2, -0x1.b905061105538p-3,
     -0x1.a044ca3c1b01ap-7, 0x1.bac4404aa8f99p-4, 0x1.6df4e7d90a5b8p-4, 0x1.9743348dfe9f7p-5,
     0x1.069ef6358c8b5p-6, 0x1.8eb7c94f4206ep-9, 0x1.29c3364a01dc1p-11, 0x1.b5a63d8408a7bp-14,
     0x1.0fc648af564c9p-17, 0x1.258a5076bbe62p-22, 0x1.3ffd06d19aec2p-27, 0x1.528b5ffad2663p-32},
    {-0x1.a20fff69c715fp-39, -0x1.000044f5074cep-48, -0x1.30b6933565f71p-58, -0x1.1dff5c49e99fbp-2,
     -0x1.89abfbbccd06p-2, -0x1.36f2082a662aep-2, -0x1.575a3ecf8e469p-3, -0x1.4f16fe8aeef33p-4,
     -0x1.941f56b4afd8p-6, -0x1.2c6bd03ef6365p-8, -0x1.bf06770a098d1p-11, -0x1.4849d6837db48p-13,
     -0x1.97aab1a08a388p-17, -0x1.b84f84880af8bp-22, -0x1.dffb8aab9d3f3p-27, -0x1.fbd10ffcf49ep-32},
    {0x1.a210003fc884ap-39, 0x1.000045be75399p-48, 0x1.5107fced07712p-69, 0x1.cf3404df89f6ep-1,
     0x1.5ed35e1345b67p-1, 0x1.8d8c86acac7dep-2, 0x1.7c8476f330c7p-3, 0x1.5e69f4f164b05p-4,
     0x1.994433443bd36p-6, 0x1.2d1d1b2b3d444p-8, 0x1.bf374dd798595p-11, 0x1.48506acd09bfcp-13,
     0x1.97ab53ed3a937p-17, 0x1.b84f8a72b0ac1p-22, 0x1.dffb8ae3e0c91p-27, 0x1.fbd10ffeed23bp-32},
    {0x1.fffffffffcbbep-1, 0x1.ffffffffffffp-1, 0.0, 0x1.3c205640014e6p-2,
     0x1.1f43e0b6e2621p-1, 0x1.9076cd80652d7p-1, 0x1.cdfe45f5ddbcdp-1, 0x1.e99c0b6cd1d9bp-1,
     0x1.f99094d1dcef1p-1, 0x1.fed28a253e175p-1, 0x1.ffc81608ad869p-1, 0x1.fff5bd62582ep-1,
     0x1.ffff342a2d763p-1, 0x1.fffff91ec1ca6p-1, 0x1.ffffffc4008eap-1, 0x1.fffffffe042efp-1},
};

OPWRIGHT_INLINE double opwright_tanh_f64(double x)
{
    const double magnitude = opwright_abs_f64(x);
    const double t = magnitude > OPWRIGHT_TANH_END_F64 ? OPWRIGHT_TANH_END_F64 : magnitude;
    const uint64_t place = opwright_bits_f64(opwright_fma_f64(t, OPWRIGHT_TANH_SCALE_F64, 3.0)) >> 50;
    return opwright_of_piece_f64(x, t, place, opwright_tanh_centers_f64, opwright_tanh_parts_f64, OPWRIGHT_TANH_DEGREE_F64);
}

// erf: the lowest bits of a sum.
#define OPWRIGHT_ERF_END_F64 5.9215
#define OPWRIGHT_ERF_SCALE_F64 0x1.4efe610a44145p+1
static const double opwright_erf_centers_f64[OPWRIGHT_PIECES_F64] = {
    0.0, 0x1.8dc2c1da5p-2, 0x1.89938997cep-1, 0x1.268dd9391ep+0,
    0x1.88c72379ebp+0, 0x1.e89fa18273p+0, 0x1.24d58c32c58p+1, 0x1.56c0a26e0d8p+1,
    0x1.871c8798748p+1, 0x1.b8976e7c678p+1, 0x1.e8457840c58p+1, 0x1.0d1629045dp+2,
    0x1.25bbd7f3d88p+2, 0x1.3e4a17c80bp+2, 0x1.561c77d3bep+2, 0x1.6e82533a4f4p+2,
};
static const double opwright_erf_parts_f64[OPWRIGHT_ERF_DEGREE_F64 + 1][OPWRIGHT_PIECES_F64] = {
    {0x1.c50e8a26d30dap-14, -0x1.31d683e67fbdep-15, -0x1.273b5d7d151b9p-14, 0x1.ae5b362d62586p-15,
     0x1.a62147ccb9572p-17, -0x1.4d0220f528f61p-16, 0x1.c197a51c65a88p-22, 0x1.e3fe67de01733p-19,
     -0x1.5c6a385980653p-23, -0x1.99349f7bab5dap-22, -0x1.964b9235d2c9bp-26, 0x1.441ef75aa0d59p-26,
     0x1.49cf49e5b7fa5p-28, 0x1.2c47e7f7f9d7ap-31, 0x1.401bf5e48f109p-35, 0x1.b46bbef1de5acp-40},
    {0x1.3227f1b415743p-17, 0x1.2c17d1400065p-12, -0x1.fb1361a94c894p-14, -0x1.03109c244c906p-13,
     0x1.5a1cbf1d129a3p-14, 0x1.ca77cf21d5d19p-16, -0x1.7a6d97d6ff7cap-16, -0x1.1525c72f73b4ep-18,
     0x1.8de4170489731p-19, 0x1.7dae4c938e283p-21, -0x1.01ee89b9a8607p-23, -0x1.1f650eb1ff81cp-24,
     -0x1.793d727e0dec2p-27, -0x1.100ac01d1bff1p-30, -0x1.0bfe9c4d66b0dp-34, -0x1.47dbcc5f861d3p-39},
    {-0x1.c1e436647bc3cp-11, 0x1.575061adc1df3p-13, 0x1.39a8f0d625f2ep-11, -0x1.c8a9a98042b1bp-13,
     -0x1.cfd3a92a7d32ep-13, 0x1.6aaca72c3123p-14, 0x1.cb4f0196761c6p-15, -0x1.cbabbaeea5349p-17,
     -0x1.264447f1d9ffp-17, 0x1.ba71aef886288p-25, 0x1.72a9f9d74c179p-21, 0x1.6f9936d640d55p-23,
     0x1.68bbf4472e575p-26, 0x1.addd27eb2bcf8p-30, 0x1.6f9bf1365a038p-34, 0x1.8daf6c23d025ap-39},
    {0x1.805b1462a4e46p-21, -0x1.049674df263f1p-9, 0x1.46d0505e9afbap-12, 0x1.1fb414749eabp-10,
     -0x1.7ee9c5fb5418fp-13, -0x1.79e11694490ap-12, 0x1.c27a8b82d6d77p-17, 0x1.18a3cf76c25dbp-14,
     0x1.43822496565cap-17, -0x1.42b72f4d3a9dap-18, -0x1.174c35ee1e581p-19, -0x1.7a1f591a75062p-22,
     -0x1.2c4ed51870622p-25, -0x1.3349f588dae58p-29, -0x1.d0f530671e7c3p-34, -0x1.c4d905f29124dp-39},
    {0x1.565a10cf240ep-8, -0x1.2f476f1d948abp-13, -0x1.0101f19d63a08p-8, -0x1.2d3f7acc593ccp-14,
     0x1.b3bd881f787a2p-10, 0x1.ee549ef27aa8cp-13, -0x1.82ca013ca910cp-12, -0x1.e3da9ffe76cb6p-14,
     0x1.5e0fb62a1c983p-16, 0x1.2f49baa857385p-16, 0x1.349d8661b717fp-18, 0x1.41a8da1f8db93p-21,
     0x1.aceb03b4a09d2p-25, 0x1.7f4b11835ef23p-29, 0x1.03f38cb2cffcep-33, 0x1.cbba68ec21a25p-39},
    {0x1.5c043d2480a47p-27, 0x1.708ffcad6a3dfp-7, 0x1.ad3bbfe0bde98p-10, -0x1.8e822d12aeb04p-8,
     -0x1.e2c2dbc7954fdp-10, 0x1.8eb159ebd485bp-10, 0x1.ca1a2ff80a62dp-11, -0x1.e382ca32ffca6p-16,
     -0x1.08205de61cde8p-13, -0x1.6857bde5c9f98p-15, -0x1.0d7931ccc2d51p-17, -0x1.c9f1aa5b6aee3p-21,
     -0x1.0670ac60bff59p-24, -0x1.9ec55f996ea97p-29, -0x1.fc17a6e8f7abp-34, -0x1.99dfa7bda097p-39},
    {-0x1.b82ce3cbaca22p-6, -0x1.167c31e32b70ap-8, 0x1.32deac28e78a8p-6, 0x1.121e05cf46034p-7,
     -0x1.5c9be401d5043p-8, -0x1.28de4f5c29527p-8, -0x1.964b43681697bp-12, 0x1.654a0de629f9fp-11,
     0x1.5ca7530399fc4p-12, 0x1.3ed367bad75fdp-14, 0x1.7d350687dff38p-17, 0x1.111cbde706d0bp-20,
     0x1.11a30c93ec812p-24, 0x1.8246c56bc0834p-29, 0x1.ae0e3534a79afp-34, 0x1.3df01267ab129p-39},
    {0x1.069b0a9bef826p-35, -0x1.9e36dd26fef5bp-5, -0x1.90666d24cba74p-6, 0x1.18f184160c3b8p-6,
     0x1.28ced7ef54947p-6, 0x1.87d9a4b0ae8a3p-9, -0x1.8ee642e5ee5ebp-9, -0x1.056b4b008393p-9,
     -0x1.394bc1cffdd3bp-11, -0x1.b78b12cbabd1p-14, -0x1.b6fa274805f96p-17, -0x1.0f242ccd63782p-20,
     -0x1.e0f57b76fd0abp-25, -0x1.31a94e01ec555p-29, -0x1.36f69db8eae41p-34, -0x1.a715e3d224812p-40},
    {0x1.ce2f21a033db1p-4, 0x1.5347dc653b69bp-5, -0x1.cbc0cfd148ed1p-5, -0x1.e1c68b70816dcp-5,
     -0x1.68dae69255a2fp-7, 0x1.8f0c488fe01e5p-7, 0x1.471a501589ap-7, 0x1.d0dd8f6f00a51p-9,
     0x1.a094832c9158ep-11, 0x1.dc7c2f0a4ce7ep-14, 0x1.985e0820f8ac1p-17, 0x1.b9e001c75868cp-21,
     0x1.5e55b89a3e3dap-25, 0x1.939af143ff22ep-30, 0x1.78f0ca23245aap-35, 0x1.d996e1f0021cap-41},
    {0x1.006930d699f94p-46, 0x1.5b2444420a978p-3, 0x1.2a21218d7bdc5p-3, 0x1.4c4abad7f2658p-6,
     -0x1.7f7f5d30f4a89p-5, -0x1.49db963404bb8p-5, -0x1.18b9a7e262f2bp-6, -0x1.1fd610c5947dp-8,
     -0x1.a03f0c393c813p-11, -0x1.91dcb71158f29p-14, -0x1.2d0b16ca2da8fp-17, -0x1.20c1d8e719507p-21,
     -0x1.9c8a902f1f514p-26, -0x1.b12cfb00bf5fdp-31, -0x1.74e014dea043cp-36, -0x1.b1f9cc504bbd4p-42},
    {-0x1.812746b0379e9p-2, -0x1.ce8654658de35p-3, 0x1.3640e5567d697p-5, 0x1.51c1cbeaa26bfp-3,
     0x1.0f4f62a7123cep-3, 0x1.faeb75f3a7a35p-5, 0x1.3723f9bc92c3ap-6, 0x1.f9cb2a5761709p-9,
     0x1.33381d8596dc3p-11, 0x1.000f914251218p-14, 0x1.53dc3902a1a19p-18, 0x1.23b1f27284e01p-22,
     0x1.79ec3b0184fdbp-27, 0x1.6b6612b9d27ep-32, 0x1.21538dca07f42p-37, 0x1.38cf6c413c33ep-43},
    {0x1.f4ef85a0641c3p-62, -0x1.81f73d36fdff9p-2, -0x1.ebe95ca64a426p-2, -0x1.61c5cbec8a6e4p-2,
     -0x1.50c763292a6ap-3, -0x1.cdc0a6be9cf07p-5, -0x1.c31989cd322d9p-7, -0x1.3091a6f411823p-9,
     -0x1.3eb3625fae653p-12, -0x1.d2021b7c4c8dbp-16, -0x1.14cb16955bbp-19, -0x1.ac614543af1dep-24,
     -0x1.fa12c99ea9b7fp-29, -0x1.bf77c71bc50bep-34, -0x1.4a893130a4d08p-39, -0x1.4cd006f82c365p-45},
    {0x1.06eba8214db69p-3, 0x1.f0d1422ff7cffp-1, 0x1.3ff6344f50ca8p-1, 0x1.3377aac52d9ffp-2,
     0x1.b700d618a1fa5p-4, 0x1.e3d7eb9b90d44p-6, 0x1.8a5baef238d1cp-8, 0x1.c6f63c4d79feep-11,
     0x1.a135364e811b3p-14, 0x1.0ec49ea221aaap-17, 0x1.223ea4b10fc56p-21, 0x1.978be365a2c23p-26,
     0x1.b90fdc26e49bcp-31, 0x1.67e5eda7ff89p-36, 0x1.eead31545b6e8p-42, 0x1.d0ed5f517f694p-48},
    {0.0, 0x1.ab3cd10412b5dp-2, 0x1.722ead0db8c0dp-1, 0x1.cae873526d74p-1,
     0x1.f0a112c027b69p-1, 0x1.fc7135d616122p-1, 0x1.ff60c757294fp-1, 0x1.ffec01fb2cd19p-1,
     0x1.fffdf751feda8p-1, 0x1.ffffda271e705p-1, 0x1.fffffdb25c8fp-1, 0x1.ffffffe866baap-1,
     0x1.ffffffff4411dp-1, 0x1.fffffffffb904p-1, 0x1.ffffffffffe94p-1, 0x1.ffffffffffffbp-1},
};

OPWRIGHT_INLINE double opwright_erf_f64(double x)
{
    const double magnitude = opwright_abs_f64(x);
    const double t = magnitude > OPWRIGHT_ERF_END_F64 ? OPWRIGHT_ERF_END_F64 : magnitude;
    const uint64_t place = opwright_bits_f64(opwright_fma_f64(t, OPWRIGHT_ERF_SCALE_F64, OPWRIGHT_SHIFT_F64));
    return opwright_of_piece_f64(x, t, place, opwright_erf_centers_f64, opwright_erf_parts_f64, OPWRIGHT_ERF_DEGREE_F64);
}

#endif
