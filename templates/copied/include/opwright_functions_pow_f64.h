// Powers of f64, by the logarithm as a sum of two numbers; without instructions that fuse they are the C library's.
// See opwright_functions_f64.h, whose promises hold.

#ifndef OPWRIGHT_FUNCTIONS_POW_F64_H
#define OPWRIGHT_FUNCTIONS_POW_F64_H

#include <math.h>
#include <stdint.h>

#include "opwright_functions_f64.h"

#if defined(__FMA__) || defined(__ARM_FEATURE_FMA)
// x / 2^e in [0.69, 1.39) is in one of these pieces: of each, the inverse of a number in it, so short that r, the product less 1, is
// exact, and the logarithm of that number, of which the first part is a multiple of 2^-42, as e * ln(2) is.
enum { OPWRIGHT_POW_PIECES = 32 };
#define OPWRIGHT_POW_BEGIN 0x3fe62aaaaaaaaaaau
static const double opwright_pow_inverse_f64[OPWRIGHT_POW_PIECES] = {
    0x1.7p+0, 0x1.68p+0, 0x1.6p+0, 0x1.58p+0,
    0x1.5p+0, 0x1.48p+0, 0x1.4p+0, 0x1.4p+0,
    0x1.38p+0, 0x1.3p+0, 0x1.28p+0, 0x1.28p+0,
    0x1.2p+0, 0x1.18p+0, 0x1.18p+0, 0x1.1p+0,
    0x1.1p+0, 0x1.08p+0, 0x1.08p+0, 0x1p+0,
    0x1.fp-1, 0x1.e8p-1, 0x1.d8p-1, 0x1.c8p-1,
    0x1.cp-1, 0x1.bp-1, 0x1.a8p-1, 0x1.98p-1,
    0x1.9p-1, 0x1.88p-1, 0x1.8p-1, 0x1.78p-1,
};
static const double opwright_pow_log_f64[OPWRIGHT_POW_PIECES] = {
    -0x1.739d7f6bbdp-2, -0x1.5d1bdbf581p-2, -0x1.4618bc21c6p-2, -0x1.2e8e2bae12p-2,
    -0x1.1675cababap-2, -0x1.fb9186d5e4p-3, -0x1.c8ff7c79aap-3, -0x1.c8ff7c79aap-3,
    -0x1.9525a9cf46p-3, -0x1.5ff3070a7ap-3, -0x1.29552f82p-3, -0x1.29552f82p-3,
    -0x1.e27076e2bp-4, -0x1.6f0d28ae58p-4, -0x1.6f0d28ae58p-4, -0x1.f0a30c0118p-5,
    -0x1.f0a30c0118p-5, -0x1.f829b0e78p-6, -0x1.f829b0e78p-6, 0.0,
    0x1.0415d89e78p-5, 0x1.894aa149f8p-5, 0x1.4d3115d208p-4, 0x1.da72763844p-4,
    0x1.1178e8227ep-3, 0x1.5bf406b544p-3, 0x1.823c16551ap-3, 0x1.d1037f2656p-3,
    0x1.f991c6cb3cp-3, 0x1.1178e8227ep-2, 0x1.269621134ep-2, 0x1.3c25277333p-2,
};
static const double opwright_pow_log_rest_f64[OPWRIGHT_POW_PIECES] = {
    -0x1.a7389314feb5p-52, 0x1.8d6bdc9c7c238p-44, 0x1.3d82f484c84ccp-46, 0x1.67b1e99b72bd8p-45,
    -0x1.8380e731f55c4p-44, 0x1.d572aab993c87p-47, 0x1.7794f689f8434p-45, 0x1.7794f689f8434p-45,
    0x1.297137d9f158fp-44, 0x1.8586f183bebf2p-44, 0x1.5b967f4471dfcp-44, 0x1.5b967f4471dfcp-44,
    0x1.a342c2af0003cp-45, 0x1.4b4641b664613p-44, 0x1.4b4641b664613p-44, 0x1.d599e83368e91p-45,
    0x1.d599e83368e91p-45, -0x1.980267c7e09e4p-45, -0x1.980267c7e09e4p-45, 0.0,
    -0x1.dddc7f461c516p-44, 0x1.9a19a8be97661p-44, -0x1.53a2582f4e1efp-48, 0x1.a89401fa71733p-46,
    0x1.1ef78ce2d07f2p-45, -0x1.27023eb68981cp-46, 0x1.e0ddb9a631e83p-46, -0x1.84a7e75b6f6e4p-47,
    -0x1.90d04cd7cc834p-44, 0x1.1ef78ce2d07f2p-44, -0x1.1b61f10522625p-44, 0x1.83b54b606bd5cp-46,
};

// e^(high + low), where low is small.
OPWRIGHT_INLINE double opwright_exp_of_sum_f64(double high, double low)
{
    const double below = high > 710.0 ? 710.0 : high;
    const double within = below < -746.0 ? -746.0 : below;
    const double shifted = opwright_fma_f64(within, OPWRIGHT_LOG2E_F64, OPWRIGHT_SHIFT_F64);
    const double n = shifted - OPWRIGHT_SHIFT_F64;
    const double near = opwright_fma_f64(-n, OPWRIGHT_LN2_F64, within);
    const double r = near + opwright_fma_f64(-n, OPWRIGHT_LN2_REST_F64, opwright_pick_f64(within == high, low, 0.0));
    const double s = r * r, half = opwright_fma_f64(r, opwright_exp_polynomial_f64(r, s), 0.5);
    return opwright_scaled_f64(1.0 + opwright_fma_f64(s, half, r), shifted);
}

OPWRIGHT_INLINE double opwright_pow_f64(double x, double y)
{
    const double magnitude = opwright_abs_f64(x);
    const int tiny = magnitude < 0x1p-1022;
    const uint64_t bits = opwright_bits_f64(opwright_pick_f64(tiny, magnitude * 0x1p54, magnitude));
    const uint64_t exponent = bits - OPWRIGHT_POW_BEGIN + 0x3ff0000000000000u;
    const double e = opwright_exponent_number_f64(exponent) - opwright_pick_f64(tiny, 54.0, 0.0);
    const double m = opwright_double((exponent & 0xfffffffffffffu) + OPWRIGHT_POW_BEGIN);
    const uint64_t piece = exponent >> 47 & (OPWRIGHT_POW_PIECES - 1);
    const double r = opwright_fma_f64(m, opwright_pow_inverse_f64[piece], -1.0);
    // ln(1 + r) = r - r^2 / 2 + r^3 * p; all but the last term and the roundings of sums are exact.
    const double first = opwright_fma_f64(e, OPWRIGHT_LN2_F64, opwright_pow_log_f64[piece]);
    const double rest = opwright_fma_f64(e, OPWRIGHT_LN2_REST_F64, opwright_pow_log_rest_f64[piece]);
    const double half = 0.5 * r, square = half * r, lost = opwright_fma_f64(half, r, -square);
    const double second = first + r, third = second - square;
    double p = -0x1.99f31a623534bp-4;
    p = opwright_fma_f64(p, r, 0x1.c77e15592e292p-4);
    p = opwright_fma_f64(p, r, -0x1.fffff8ab4076fp-4);
    p = opwright_fma_f64(p, r, 0x1.24924524e6a5cp-3);
    p = opwright_fma_f64(p, r, -0x1.555555556ded1p-3);
    p = opwright_fma_f64(p, r, 0x1.99999999b46d9p-3);
    p = opwright_fma_f64(p, r, -0x1.ffffffffffffep-3);
    p = opwright_fma_f64(p, r, 0x1.5555555555554p-2);
    const double sums = ((first - second) + r) + ((second - third) - square);
    const double low = opwright_fma_f64(2.0 * square * r, p, rest + sums - lost);
    const double log = third + low, log_rest = (third - log) + low;
    const double high = y * log;
    const double finite = opwright_exp_of_sum_f64(high, opwright_fma_f64(y, log, -high) + y * log_rest);
    // A base of 0 or Inf gives 0 or Inf.
    const int edge = (magnitude == 0.0) | (magnitude == INFINITY);
    const int grows = (magnitude == 0.0) ^ (y > 0.0);
    const double result = opwright_pick_f64(edge, opwright_pick_f64(grows, INFINITY, 0.0), finite);
    const int integer = rint(y) == y;
    const int odd = integer & (rint(0.5 * y) != 0.5 * y);
    const double with_sign = opwright_pick_f64(odd, opwright_signed_f64(result, x), result);
    const int imaginary = (x < 0.0) & (magnitude < INFINITY) & (integer ^ 1);
    const double real = opwright_pick_f64((x != x) | (y != y), x + y, opwright_pick_f64(imaginary, NAN, with_sign));
    const int one = (x == 1.0) | (y == 0.0) | ((magnitude == 1.0) & (opwright_abs_f64(y) == INFINITY));
    return opwright_pick_f64(one, 1.0, real);
}
#else
static inline double opwright_pow_f64(double x, double y) { return pow(x, y); }
#endif

#endif
