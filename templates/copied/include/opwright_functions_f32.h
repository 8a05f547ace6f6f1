// Functions of real numbers in f32: plain C11 without a branch or a call, so that a compiler vectorises a loop that calls
// them; only tanh and erf have tables. With -ffp-contract=off every compiler and instruction set gives the same bits. The coefficients of a
// polynomial are a minimax fit of the function in its comment. NaN, Inf and -0.0 follow Annex F of C; denormals are
// preserved. docs/SPEC.md of opwright, "Functions", has the error bounds.

#ifndef OPWRIGHT_FUNCTIONS_F32_H
#define OPWRIGHT_FUNCTIONS_F32_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "opwright_numeric.h"

// Loops with a call are not vectorised, so even long functions are inlined.
#if defined(__GNUC__)
#define OPWRIGHT_INLINE static inline __attribute__((always_inline))
#else
#define OPWRIGHT_INLINE static inline
#endif

// Selects one of two numbers by their bits. With a conditional expression a compiler may move their computation into a
// branch, where it does not vectorise arithmetic that could raise an exception.
static inline float opwright_pick_f32(int condition, float yes, float no)
{
    const uint32_t mask = 0u - (uint32_t)condition;
    return opwright_float((opwright_bits(yes) & mask) | (opwright_bits(no) & ~mask));
}

// Both of two conditions, or one of them, without a branch.
static inline int opwright_both(int a, int b) { return a & b; }
static inline int opwright_any(int a, int b) { return a | b; }

// The same where masks of cells of any size make a conditional expression the faster one.
#if defined(__AVX512BW__)
static inline float opwright_either_f32(int condition, float yes, float no) { return condition ? yes : no; }
#else
static inline float opwright_either_f32(int condition, float yes, float no) { return opwright_pick_f32(condition, yes, no); }
#endif

// The larger and the smaller of a number and a limit that is neither 0 nor NaN: one instruction of x86, which gives the number if
// that is NaN. Of limits that compilers know they make branches and masks of several tests: gcc 12.2 takes ten
// instructions for min(max(x, -1), 1) in AVX2, two for limits that are opaque.
static inline float opwright_raised_f32(float x, float limit) { return limit > x ? limit : x; }
static inline float opwright_lowered_f32(float x, float limit) { return limit < x ? limit : x; }

static inline float opwright_opaque_f32(float x)
{
#if defined(__GNUC__) && defined(__SSE2__)
    __asm__("" : "+x"(x));
#elif defined(__GNUC__) && defined(__aarch64__)
    __asm__("" : "+w"(x));
#endif
    return x;
}

static inline uint64_t opwright_bits_f64(double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static inline double opwright_double(uint64_t bits)
{
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

// Compilers know less of masks of bits: sums of abs(p - q) along 5001 rows of 77 bf16 take 0.78 of the time with their own
// function, largest numbers of columns 0.78 (AMD EPYC, Zen 4, gcc 12.2).
static inline float opwright_abs_f32(float x)
{
#if defined(__GNUC__)
    return __builtin_fabsf(x);
#else
    return opwright_float(opwright_bits(x) & 0x7fffffffu);
#endif
}

// The running maximum or minimum and one more number; a NaN wins over everything. An iteration of a loop waits for two
// x86 instructions; with the `max` of values it would wait for three.
static inline float opwright_max_so_far_f32(float so_far, float x)
{
    return opwright_pick_f32(x != x, x, x > so_far ? x : so_far);
}

static inline float opwright_min_so_far_f32(float so_far, float x)
{
    return opwright_pick_f32(x != x, x, x < so_far ? x : so_far);
}

// The same of a running value that the next one waits for: a test that is hardly ever true is no part of what it waits for.
// The running maximum of 1024 rows of 1024 takes 0.3 of the time (AMD EPYC Zen 4, gcc 12.2).
static inline float opwright_max_scanned_f32(float so_far, float x)
{
    if (so_far != so_far) {
        return so_far;
    }
    return so_far > x ? so_far : x;
}

static inline float opwright_min_scanned_f32(float so_far, float x)
{
    if (so_far != so_far) {
        return so_far;
    }
    return so_far < x ? so_far : x;
}

// The magnitude of one number with the sign of another.
static inline float opwright_signed_f32(float magnitude, float sign)
{
    return opwright_float((opwright_bits(magnitude) & 0x7fffffffu) | (opwright_bits(sign) & 0x80000000u));
}

// Half to even: no number from 2^23 on has a fraction, and adding 2^23 to a smaller one rounds it.
static inline float opwright_round_f32(float x)
{
#if defined(__SSE4_1__) || defined(__aarch64__)
    return rintf(x); // one instruction; elsewhere a call
#else
    const float magnitude = opwright_abs_f32(x);
    const float rounded = (magnitude + 0x1p23f) - 0x1p23f;
    return opwright_signed_f32(opwright_pick_f32(magnitude < 0x1p23f, rounded, magnitude), x);
#endif
}

static inline float opwright_floor_f32(float x)
{
#if defined(__SSE4_1__) || defined(__aarch64__)
    return floorf(x); // likewise
#else
    const float rounded = opwright_round_f32(x);
    return opwright_signed_f32(rounded - opwright_pick_f32(rounded > x, 1.0f, 0.0f), x);
#endif
}

static inline float opwright_ceil_f32(float x)
{
#if defined(__SSE4_1__) || defined(__aarch64__)
    return ceilf(x);
#else
    const float rounded = opwright_round_f32(x);
    return opwright_signed_f32(rounded + opwright_pick_f32(rounded < x, 1.0f, 0.0f), x);
#endif
}

// -1, 1, or the number itself if it is a zero or NaN.
static inline float opwright_sign_f32(float x)
{
    return opwright_pick_f32((x < 0.0f) | (x > 0.0f), opwright_signed_f32(1.0f, x), x);
}

static inline float opwright_sqrt_f32(float x) { return sqrtf(x); }

static inline float opwright_rsqrt_f32(float x) { return 1.0f / sqrtf(x); }

// y * 2^n for n in [-151, 129] and y in [0.5, 2], rounded once if the result is a denormal. `shifted` is n plus 1.5 * 2^23,
// which leaves n in the low bits. Below 2^-126, y * 2^(n + 149) is rounded to an integer, the bits of the result: an instruction
// that makes a denormal, or a 0 of what is less, takes a hundred cycles. Rows of masked scores, exp(-10000), take 0.04 of the
// time (Intel Xeon, Sapphire Rapids, gcc 12.2; AVX2 0.06).
static inline float opwright_scaled_f32(float y, float shifted)
{
    const int low = shifted < 0x1.8p23f - 126.0f; // not where it is NaN
    const uint32_t both = opwright_bits(shifted) - 0x4b400000u + 2u * 127u + ((0u - (uint32_t)low) & 149u);
    const uint32_t first = both >> 1;
    const float scaled = y * opwright_float(first << 23) * opwright_float((both - first) << 23);
    return opwright_either_f32(low, opwright_float(opwright_bits(scaled + 0x1p23f) - 0x4b000000u), scaled);
}

// a * b + c of finite numbers, rounded once; of a result that is a denormal and not exact, no more than its last bit
// may differ. CPUs without such an instruction add in double and round to odd: the final rounding to float then equals
// a single rounding.
static inline float opwright_fma_f32(float a, float b, float c)
{
#if defined(__FMA__) || defined(__ARM_FEATURE_FMA)
    return __builtin_fmaf(a, b, c);
#else
    const double product = (double)a * (double)b, sum = product + (double)c;
    const double other = sum - product;
    const uint64_t lost = opwright_bits_f64((product - (sum - other)) + ((double)c - other));
    const uint64_t bits = opwright_bits_f64(sum);
    const uint64_t inexact = ((lost << 1) | (0u - (lost << 1))) >> 63;
    const uint64_t even = ~bits & inexact;
    return (float)opwright_double(bits + (even & 1u) - ((even & (lost ^ bits) >> 63) << 1));
#endif
}

// Products of three and of four equal numbers, rounded once but for 2^-22 of the last bit: the square's own rounding error is a
// number, which the last operation takes in. Beyond the limits results are Inf. 1M cubes take 0.7 of the time of products in
// f64 (AMD EPYC Zen 3, gcc 12.2).
OPWRIGHT_INLINE float opwright_cube_f32(float x)
{
    const float below = opwright_pick_f32(x > 0x1p43f, 0x1p43f, x);
    const float within = opwright_pick_f32(below < -0x1p43f, -0x1p43f, below);
    const float square = within * within, lost = opwright_fma_f32(within, within, -square);
    return opwright_fma_f32(square, within, lost * within);
}

OPWRIGHT_INLINE float opwright_fourth_f32(float x)
{
    const float below = opwright_pick_f32(x > 0x1p33f, 0x1p33f, x);
    const float within = opwright_pick_f32(below < -0x1p33f, -0x1p33f, below);
    const float square = within * within, lost = opwright_fma_f32(within, within, -square);
    return opwright_fma_f32(square, square, (square + square) * lost);
}

// (e^r - 1 - r) / r^2 for |r| <= ln(2) / 2.
#define OPWRIGHT_EXP_F32_0 0x1.6a4d60p-10f
#define OPWRIGHT_EXP_F32_1 0x1.12398ep-7f
#define OPWRIGHT_EXP_F32_2 0x1.5558b0p-5f
#define OPWRIGHT_EXP_F32_3 0x1.555492p-3f
#define OPWRIGHT_EXP_F32_4 0x1.fffffcp-2f

// e^r for the same r.
OPWRIGHT_INLINE float opwright_exp_of_rest_f32(float r)
{
    float p = OPWRIGHT_EXP_F32_0;
    p = opwright_fma_f32(p, r, OPWRIGHT_EXP_F32_1);
    p = opwright_fma_f32(p, r, OPWRIGHT_EXP_F32_2);
    p = opwright_fma_f32(p, r, OPWRIGHT_EXP_F32_3);
    p = opwright_fma_f32(p, r, OPWRIGHT_EXP_F32_4);
    return opwright_fma_f32(opwright_fma_f32(p, r, 1.0f), r, 1.0f);
}

// ln(2) in two parts: the product of the first one and an exponent is exact.
#define OPWRIGHT_LN2_F32 0x1.62e4p-1f
#define OPWRIGHT_LN2_REST_F32 0x1.7f7d1cp-20f

OPWRIGHT_INLINE float opwright_exp_f32(float x)
{
    const float below = opwright_pick_f32(x > 89.0f, 89.0f, x);
    const float within = opwright_pick_f32(below < -104.0f, -104.0f, below);
    const float shifted = opwright_fma_f32(within, 0x1.715476p+0f, 0x1.8p23f);
    const float n = shifted - 0x1.8p23f;
    const float rest = opwright_fma_f32(-n, OPWRIGHT_LN2_REST_F32, opwright_fma_f32(-n, OPWRIGHT_LN2_F32, within));
    return opwright_scaled_f32(opwright_exp_of_rest_f32(rest), shifted);
}

static inline float opwright_exp2_f32(float x)
{
    const float below = opwright_pick_f32(x > 129.0f, 129.0f, x);
    const float within = opwright_pick_f32(below < -151.0f, -151.0f, below);
    const float shifted = within + 0x1.8p23f;
    const float r = within - (shifted - 0x1.8p23f);
    // (2^r - 1) / r for |r| <= 0.5.
    float p = 0x1.417a5cp-13f;
    p = opwright_fma_f32(p, r, 0x1.5f0946p-10f);
    p = opwright_fma_f32(p, r, 0x1.3b2dd2p-7f);
    p = opwright_fma_f32(p, r, 0x1.c6af7ap-5f);
    p = opwright_fma_f32(p, r, 0x1.ebfbdcp-3f);
    p = opwright_fma_f32(p, r, 0x1.62e430p-1f);
    return opwright_scaled_f32(opwright_fma_f32(r, p, 1.0f), shifted);
}

// (ln(1 + f) - f + f^2 / 2) / f^3 for 1 + f in [sqrt(0.5), sqrt(2)].
#define OPWRIGHT_LOG_F32_0 -0x1.38c2a6p-4f
#define OPWRIGHT_LOG_F32_1 0x1.055ce8p-3f
#define OPWRIGHT_LOG_F32_2 -0x1.0d82a4p-3f
#define OPWRIGHT_LOG_F32_3 0x1.22d96ep-3f
#define OPWRIGHT_LOG_F32_4 -0x1.547288p-3f
#define OPWRIGHT_LOG_F32_5 0x1.99a01ap-3f
#define OPWRIGHT_LOG_F32_6 -0x1.000226p-2f
#define OPWRIGHT_LOG_F32_7 0x1.555554p-2f

// ln(1 + f) + error + e * ln(2).
OPWRIGHT_INLINE float opwright_log_of_parts_f32(float f, float error, float e)
{
    float p = OPWRIGHT_LOG_F32_0;
    p = opwright_fma_f32(p, f, OPWRIGHT_LOG_F32_1);
    p = opwright_fma_f32(p, f, OPWRIGHT_LOG_F32_2);
    p = opwright_fma_f32(p, f, OPWRIGHT_LOG_F32_3);
    p = opwright_fma_f32(p, f, OPWRIGHT_LOG_F32_4);
    p = opwright_fma_f32(p, f, OPWRIGHT_LOG_F32_5);
    p = opwright_fma_f32(p, f, OPWRIGHT_LOG_F32_6);
    p = opwright_fma_f32(p, f, OPWRIGHT_LOG_F32_7);
    const float low = opwright_fma_f32(e, OPWRIGHT_LN2_REST_F32, error);
    const float small = opwright_fma_f32(f * f, opwright_fma_f32(p, f, -0.5f), low);
    return opwright_fma_f32(e, OPWRIGHT_LN2_F32, f + small);
}

// The bits of sqrt(0.5), and the exponent e that leaves x / 2^e in [sqrt(0.5), sqrt(2)), for bits of a positive normal x.
#define OPWRIGHT_ROOT_F32 0x3f3504f3
static inline int32_t opwright_exponent_f32(uint32_t bits) { return (int32_t)(bits - OPWRIGHT_ROOT_F32) >> 23; }

OPWRIGHT_INLINE float opwright_log_f32(float x)
{
    const uint32_t tiny = 0u - (uint32_t)(x < 0x1p-126f);
    const uint32_t bits = opwright_bits(opwright_pick_f32(x < 0x1p-126f, x * 0x1p23f, x));
    const int32_t e = opwright_exponent_f32(bits);
    const float f = opwright_float(bits - ((uint32_t)e << 23)) - 1.0f;
    const float result = opwright_log_of_parts_f32(f, 0.0f, (float)(e - (int32_t)(tiny & 23u)));
    const float positive = opwright_pick_f32(x < INFINITY, result, x);
    return opwright_pick_f32(x > 0.0f, positive, opwright_pick_f32(x == 0.0f, -INFINITY, NAN));
}

OPWRIGHT_INLINE float opwright_log1p_f32(float x)
{
    const float sum = 1.0f + x;
    const int32_t e = opwright_exponent_f32(opwright_bits(sum));
    // 2^-e * (1 + x) - 1 without the rounding of the sum, and its own rounding error.
    const float part = opwright_float(opwright_bits(x) - ((uint32_t)e << 23));
    const float one = opwright_float(((uint32_t)(127 - e) & (0u - (uint32_t)(e < 127))) << 23) - 1.0f;
    const float f = part + one;
    const float other = f - part;
    const float error = (part - (f - other)) + (one - other);
    const float result = opwright_log_of_parts_f32(f, error - error * f, (float)e);
    const float above = opwright_pick_f32(sum < INFINITY, opwright_signed_f32(result, x), x);
    return opwright_pick_f32(x > -1.0f, above, opwright_pick_f32(x == -1.0f, -INFINITY, NAN));
}

// tanh and erf, by eight pieces of their arguments' magnitudes: of each, a number c near its middle, where the function of c is
// close to a number of f32, and the coefficients of a polynomial in r, what the magnitude is more than c. In the first piece c is
// 0, and r is added to what the polynomial gives. From the end on the result rounds to 1.
enum { OPWRIGHT_PIECES = 8, OPWRIGHT_TANH_DEGREE = 7, OPWRIGHT_ERF_DEGREE = 6 };

OPWRIGHT_INLINE float opwright_of_piece_f32(float x, float t, uint32_t piece, const float *centers,
                                            const float (*parts)[OPWRIGHT_PIECES], int degree)
{
    const uint32_t here = piece % OPWRIGHT_PIECES; // of NaN any of them
    const float r = t - centers[here];
    float p = parts[0][here];
    for (int i = 1; i < degree; ++i) {
        p = opwright_fma_f32(p, r, parts[i][here]);
    }
    const float last = parts[degree][here];
    return opwright_signed_f32(opwright_fma_f32(p, r, opwright_pick_f32(last == 0.0f, r, last)), x);
}

// tanh: the piece is the exponent of 3.3259 * t + 2 and its first bit behind the point.
#define OPWRIGHT_TANH_END_F32 9.0156f
#define OPWRIGHT_TANH_SCALE_F32 0x1.a9b87ap+1f
static const float opwright_tanh_centers_f32[OPWRIGHT_PIECES] = {
    0.0f, 0x1.d3d158p-2f, 0x1.cd9fbep-1f, 0x1.7fbd4p+0f, 0x1.330076p+1f, 0x1.d09e26p+1f, 0x1.5a79dp+2f, 0x1.f6a6fcp+2f,
};
static const float opwright_tanh_parts_f32[OPWRIGHT_TANH_DEGREE + 1][OPWRIGHT_PIECES] = {
    {-0x1.4a2a04p-5f, 0x1.7c013ep-6f, 0x1.3e019ep-7f, -0x1.fed246p-9f,
     -0x1.839362p-18f, 0x1.25a5c4p-15f, 0x1.497996p-20f, 0x1.5931b6p-27f},
    {-0x1.e76p-8f, -0x1.daa23ap-5f, 0x1.b80088p-7f, 0x1.de5f54p-8f,
     -0x1.6fc6c4p-11f, -0x1.05b2d2p-13f, -0x1.224188p-18f, -0x1.1a59cep-25f},
    {0x1.148f4cp-3f, -0x1.abb81p-7f, -0x1.d023d2p-5f, -0x1.6346ep-9f,
     0x1.b36ad4p-9f, 0x1.7f6b04p-12f, 0x1.59735cp-17f, 0x1.495c02p-24f},
    {-0x1.914248p-13f, 0x1.5a39cp-3f, 0x1.b3de9ep-5f, -0x1.98f576p-6f,
     -0x1.3b71e8p-7f, -0x1.e58846p-11f, -0x1.af409cp-16f, -0x1.a35284p-23f},
    {-0x1.5552b4p-2f, -0x1.f7fe62p-4f, 0x1.67e9cep-4f, 0x1.681cd4p-4f,
     0x1.517cccp-6f, 0x1.e8f54ep-10f, 0x1.bd1522p-15f, 0x1.b1a92p-22f},
    {-0x1.aa0412p-23f, -0x1.65c398p-2f, -0x1.64b77ep-2f, -0x1.4f8884p-3f,
     -0x1.05bb2ep-5f, -0x1.6fbc2p-9f, -0x1.4de9f2p-14f, -0x1.448f4ap-21f},
    {0x1.91a502p-31f, 0x1.a26bf8p-1f, 0x1.f17458p-2f, 0x1.72c528p-3f,
     0x1.0a18fcp-5f, 0x1.703d84p-9f, 0x1.4ceab6p-14f, 0x1.438194p-21f},
    {0.0f, 0x1.b5c6c6p-2f, 0x1.6f253p-1f, 0x1.cf5772p-1f,
     0x1.f79da6p-1f, 0x1.ff47cp-1f, 0x1.fffaccp-1f, 0x1.fffff6p-1f},
};

OPWRIGHT_INLINE float opwright_tanh_f32(float x)
{
    const float magnitude = opwright_abs_f32(x);
    const float t = opwright_pick_f32(magnitude > OPWRIGHT_TANH_END_F32, OPWRIGHT_TANH_END_F32, magnitude);
    const uint32_t piece = opwright_bits(opwright_fma_f32(t, OPWRIGHT_TANH_SCALE_F32, 2.0f)) >> 22;
    return opwright_of_piece_f32(x, t, piece, opwright_tanh_centers_f32, opwright_tanh_parts_f32, OPWRIGHT_TANH_DEGREE);
}

// erf: pieces of 17/32, the lowest bits of a sum.
#define OPWRIGHT_ERF_END_F32 3.98f
#define OPWRIGHT_ERF_SCALE_F32 0x1.e1e1e2p+0f
static const float opwright_erf_centers_f32[OPWRIGHT_PIECES] = {
    0.0f, 0x1.0f9aap-1f, 0x1.1077ap+0f, 0x1.97b2cp+0f, 0x1.104398p+1f, 0x1.53e18p+1f, 0x1.98282p+1f, 0x1.dc7dp+1f,
};
static const float opwright_erf_parts_f32[OPWRIGHT_ERF_DEGREE + 1][OPWRIGHT_PIECES] = {
    {-0x1.50ee96p-6f, -0x1.8585cap-5f, 0x1.4294fep-7f, 0x1.fef04ap-7f,
     -0x1.a661b2p-10f, -0x1.12e898p-9f, -0x1.7bdc04p-12f, -0x1.d55e1cp-10f},
    {0x1.e6d652p-4f, -0x1.a2ad38p-11f, -0x1.08cfeep-4f, -0x1.7ba232p-8f,
     0x1.913bdap-7f, 0x1.ffdc2cp-9f, 0x1.d99968p-12f, 0x1.83b59ep-16f},
    {-0x1.ad0f8ap-11f, 0x1.77c03p-3f, 0x1.845d52p-5f, -0x1.927186p-5f,
     -0x1.adfcf4p-6f, -0x1.3aefdep-8f, -0x1.a176c8p-12f, 0x1.70abc4p-13f},
    {-0x1.811a0ap-2f, -0x1.fc7572p-4f, 0x1.39ef7ep-3f, 0x1.f0c5bp-4f,
     0x1.0cedfap-5f, 0x1.17bc9cp-8f, 0x1.23b84ep-12f, 0x1.42debp-17f},
    {-0x1.326786p-20f, -0x1.ce9a54p-2f, -0x1.8c2804p-2f, -0x1.23556ap-3f,
     -0x1.aa50f8p-6f, -0x1.5466dcp-9f, -0x1.21a31cp-13f, -0x1.3715fcp-17f},
    {0x1.06eba8p-3f, 0x1.b406a4p-1f, 0x1.743696p-2f, 0x1.6ddd4ap-4f,
     0x1.90d9b8p-7f, 0x1.00664cp-10f, 0x1.6b5b6ep-15f, 0x1.22706ap-20f},
    {0.0f, 0x1.17ff5ap-1f, 0x1.bc4632p-1f, 0x1.f38dfcp-1f,
     0x1.fea774p-1f, 0x1.ffe94cp-1f, 0x1.ffff26p-1f, 0x1.fffffcp-1f},
};

OPWRIGHT_INLINE float opwright_erf_f32(float x)
{
    const float magnitude = opwright_abs_f32(x);
    const float t = opwright_pick_f32(magnitude > OPWRIGHT_ERF_END_F32, OPWRIGHT_ERF_END_F32, magnitude);
    const uint32_t piece = opwright_bits(opwright_fma_f32(t, OPWRIGHT_ERF_SCALE_F32, 0x1.8p23f));
    return opwright_of_piece_f32(x, t, piece, opwright_erf_centers_f32, opwright_erf_parts_f32, OPWRIGHT_ERF_DEGREE);
}

// The binary logarithm of a positive finite x, in double.
static inline double opwright_log2_of_f32(float x)
{
    const uint64_t begin = 0x3fe6a09e667f3bcdu;  // sqrt(0.5)
    const uint64_t from = opwright_bits_f64((double)x) - begin + 0x3ff0000000000000u;
    const double e = opwright_double(0x4330000000000000u | from >> 52) - (0x1p52 + 1023.0);
    const double m = opwright_double((from & 0xfffffffffffffu) + begin);
    const double s = (m - 1.0) / (m + 1.0);
    // log2((1 + s) / (1 - s)) / s over s^2 for |s| <= 0.1716.
    const double z = s * s;
    double p = 0x1.21b1bfb36d826p-2;
    p = p * z + 0x1.47954858f6730p-2;
    p = p * z + 0x1.a61a2f1b52968p-2;
    p = p * z + 0x1.2776c292d8e86p-1;
    p = p * z + 0x1.ec709dc53ccabp-1;
    p = p * z + 0x1.71547652b8251p+1;
    return e + s * p;
}

// 2^t, rounded once.
static inline float opwright_exp2_of_f64(double t)
{
    const double shifted = t + 0x1.8p52;
    const double r = t - (shifted - 0x1.8p52);
    // (2^r - 1) / r for |r| <= 0.5.
    double p = 0x1.fde5f8c68c22ep-17;
    p = p * r + 0x1.445c844c626f9p-13;
    p = p * r + 0x1.5d8a8603a0917p-10;
    p = p * r + 0x1.3b29f39ce18c3p-7;
    p = p * r + 0x1.c6b08ac0665c2p-5;
    p = p * r + 0x1.ebfbe07787bb8p-3;
    p = p * r + 0x1.62e42ff0e1953p-1;
    const double within = (1.0 + r * p) * opwright_double((opwright_bits_f64(shifted) + 1023u) << 52);
    // Beyond 200, 0x43480000, f32 has only 0 and Inf. The comparison uses 32-bit integers: gcc 12 does not vectorise a
    // comparison of doubles that selects a float for baseline x86-64.
    const uint32_t rough = opwright_bits((float)t);
    const float beyond = opwright_pick_f32(rough >> 31 == 0, INFINITY, 0.0f);
    return opwright_pick_f32((rough & 0x7fffffffu) > 0x43480000u, beyond, (float)within);
}

static inline float opwright_pow_f32(float x, float y)
{
    const float magnitude = opwright_abs_f32(x);
    const float finite = opwright_exp2_of_f64((double)y * opwright_log2_of_f32(magnitude));
    // A base of 0 or Inf gives 0 or Inf.
    const int edge = (magnitude == 0.0f) | (magnitude == INFINITY);
    const int grows = (magnitude == 0.0f) ^ (y > 0.0f);
    const float result = opwright_pick_f32(edge, opwright_pick_f32(grows, INFINITY, 0.0f), finite);
    const float half = 0.5f * y;
    const int integer = opwright_round_f32(y) == y;
    const int odd = integer & (opwright_round_f32(half) != half);
    const float with_sign = opwright_float(opwright_bits(result) ^ (opwright_bits(x) & (uint32_t)odd << 31));
    const int imaginary = (x < 0.0f) & (magnitude < INFINITY) & (integer ^ 1);
    const float real = opwright_pick_f32((x != x) | (y != y), x + y, opwright_pick_f32(imaginary, NAN, with_sign));
    const int one = (x == 1.0f) | (y == 0.0f) | ((magnitude == 1.0f) & (opwright_abs_f32(y) == INFINITY));
    return opwright_pick_f32(one, 1.0f, real);
}

#endif
