// Functions of rows, which may be in place: each cell has the bits of the function of its name in opwright_functions_f32.h or _f64.h.
// Here they may use what C loops cannot express: one test of a vector sees whether it has rare cells, for which alone
// limits and denormals count; AVX-512 masks the last cells of a row; a permutation looks up a table that stays in registers.

#ifndef OPWRIGHT_FUNCTIONS_ROWS_H
#define OPWRIGHT_FUNCTIONS_ROWS_H

#include <stdint.h>

#include "opwright_functions_f32.h"
#include "opwright_functions_f64.h"

#if defined(__AVX2__)
#include "opwright_intrinsics.h"
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

// Vectors of AVX-512 and AVX2 share their code: what is called alike in both is written WIDE(add_ps).
#if defined(__AVX512F__)
#define OPWRIGHT_WIDE(name) _mm512_##name
typedef __m512 opwright_wide_f32;
typedef __m512d opwright_wide_f64;
typedef __m512i opwright_wide_bits;
#define OPWRIGHT_WIDE_BITS(name) _mm512_##name##_si512
#define OPWRIGHT_WIDE_OF_BITS(name) _mm512_castsi512_##name
#define OPWRIGHT_WIDE_SET1_64 _mm512_set1_epi64
#elif defined(__AVX2__) && defined(__FMA__)
#define OPWRIGHT_WIDE(name) _mm256_##name
typedef __m256 opwright_wide_f32;
typedef __m256d opwright_wide_f64;
typedef __m256i opwright_wide_bits;
#define OPWRIGHT_WIDE_BITS(name) _mm256_##name##_si256
#define OPWRIGHT_WIDE_OF_BITS(name) _mm256_castsi256_##name
#define OPWRIGHT_WIDE_SET1_64 _mm256_set1_epi64x
#endif
#if defined(OPWRIGHT_WIDE)
enum { OPWRIGHT_WIDE_F32 = sizeof(opwright_wide_f32) / sizeof(float), OPWRIGHT_WIDE_F64 = sizeof(opwright_wide_f64) / sizeof(double) };
#endif

#if defined(__AVX512F__)
// The first n cells, the others 1, of which no function is rare; and stores them.
static inline __m512 opwright_last_f32(const float *cells, int64_t n)
{
    const __mmask16 first = (__mmask16)((1u << n) - 1u);
    return _mm512_mask_mov_ps(_mm512_set1_ps(1.0f), first, _mm512_maskz_loadu_ps(first, cells));
}

static inline void opwright_put_rest_f32(float *to, __m512 cells, int64_t n)
{
    _mm512_mask_storeu_ps(to, (__mmask16)((1u << n) - 1u), cells);
}

static inline __m512d opwright_last_f64(const double *cells, int64_t n)
{
    const __mmask8 first = (__mmask8)((1u << n) - 1u);
    return _mm512_mask_mov_pd(_mm512_set1_pd(1.0), first, _mm512_maskz_loadu_pd(first, cells));
}

static inline void opwright_put_rest_f64(double *to, __m512d cells, int64_t n)
{
    _mm512_mask_storeu_pd(to, (__mmask8)((1u << n) - 1u), cells);
}

// Whether a cell is not in [least, greatest].
static inline int opwright_rare_f32(__m512 x, float least, float greatest)
{
    const __mmask16 within = _mm512_cmp_ps_mask(x, _mm512_set1_ps(least), _CMP_GE_OQ);
    return _mm512_mask_cmp_ps_mask(within, x, _mm512_set1_ps(greatest), _CMP_LE_OQ) != 0xffff;
}

static inline int opwright_rare_f64(__m512d x, double least, double greatest)
{
    const __mmask8 within = _mm512_cmp_pd_mask(x, _mm512_set1_pd(least), _CMP_GE_OQ);
    return _mm512_mask_cmp_pd_mask(within, x, _mm512_set1_pd(greatest), _CMP_LE_OQ) != 0xff;
}
#elif defined(OPWRIGHT_WIDE)
// All bits in the first n lanes. The cells of these, the others 0; and stores them: masks of stores are slow on AMD's. Softmax of
// 100000 rows of 10 takes 0.75 of the time of the last cells one by one (AMD EPYC Zen 3, gcc 12.2).
static inline __m256i opwright_first_lanes(int64_t n)
{
    const __m256i lanes = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    return _mm256_cmpgt_epi32(_mm256_set1_epi32((int32_t)opwright_min(n, 8)), lanes);
}

static inline __m256 opwright_rest_f32(const float *cells, int64_t n) { return _mm256_maskload_ps(cells, opwright_first_lanes(n)); }

static inline void opwright_put_rest_f32(float *to, __m256 cells, int64_t n)
{
    __m128 four = _mm256_castps256_ps128(cells);
    if (n & 4) {
        _mm_storeu_ps(to, four);
        four = _mm256_extractf128_ps(cells, 1);
        to += 4;
    }
    if (n & 2) {
        _mm_storel_pi((__m64 *)(void *)to, four);
        four = _mm_movehl_ps(four, four);
        to += 2;
    }
    if (n & 1) {
        _mm_store_ss(to, four);
    }
}

// The first n cells, the others 1, of which no function is rare.
static inline __m256 opwright_last_f32(const float *cells, int64_t n)
{
    return _mm256_blendv_ps(_mm256_set1_ps(1.0f), opwright_rest_f32(cells, n), _mm256_castsi256_ps(opwright_first_lanes(n)));
}

static inline __m256d opwright_last_f64(const double *cells, int64_t n)
{
    const __m256i first = _mm256_cmpgt_epi64(_mm256_set1_epi64x(n), _mm256_setr_epi64x(0, 1, 2, 3));
    return _mm256_blendv_pd(_mm256_set1_pd(1.0), _mm256_maskload_pd(cells, first), _mm256_castsi256_pd(first));
}

static inline void opwright_put_rest_f64(double *to, __m256d cells, int64_t n)
{
    __m128d two = _mm256_castpd256_pd128(cells);
    if (n & 2) {
        _mm_storeu_pd(to, two);
        two = _mm256_extractf128_pd(cells, 1);
        to += 2;
    }
    if (n & 1) {
        _mm_store_sd(to, two);
    }
}

// Whether a cell is not in [least, greatest].
static inline int opwright_rare_f32(__m256 x, float least, float greatest)
{
    const __m256 below = _mm256_cmp_ps(x, _mm256_set1_ps(least), _CMP_NGE_UQ);
    return _mm256_movemask_ps(_mm256_or_ps(below, _mm256_cmp_ps(x, _mm256_set1_ps(greatest), _CMP_GT_OQ)));
}

static inline int opwright_rare_f64(__m256d x, double least, double greatest)
{
    const __m256d below = _mm256_cmp_pd(x, _mm256_set1_pd(least), _CMP_NGE_UQ);
    return _mm256_movemask_pd(_mm256_or_pd(below, _mm256_cmp_pd(x, _mm256_set1_pd(greatest), _CMP_GT_OQ)));
}
#endif

#if defined(OPWRIGHT_WIDE)
// The functions of cells, of each cell of a vector: of vectors with rare cells.
#define OPWRIGHT_OF_RARE(name, dtype, c_type, pd) \
    static __attribute__((noinline, unused)) opwright_wide_##dtype opwright_##name##_rare_##dtype(opwright_wide_##dtype x) \
    { \
        c_type cells[sizeof x / sizeof(c_type)]; \
        OPWRIGHT_WIDE(storeu_##pd)(cells, x); \
        for (size_t i = 0; i < sizeof x / sizeof *cells; ++i) { \
            cells[i] = opwright_##name##_##dtype(cells[i]); \
        } \
        return OPWRIGHT_WIDE(loadu_##pd)(cells); \
    }
OPWRIGHT_OF_RARE(log, f32, float, ps)
OPWRIGHT_OF_RARE(log, f64, double, pd)

// e^x / 2^n, and n plus the number that leaves it in the low bits.
static inline opwright_wide_f32 opwright_power_lanes_f32(opwright_wide_f32 x, opwright_wide_f32 *shifted)
{
    const opwright_wide_f32 magic = OPWRIGHT_WIDE(set1_ps)(0x1.8p23f), one = OPWRIGHT_WIDE(set1_ps)(1.0f);
    *shifted = OPWRIGHT_WIDE(fmadd_ps)(x, OPWRIGHT_WIDE(set1_ps)(0x1.715476p+0f), magic);
    const opwright_wide_f32 n = OPWRIGHT_WIDE(sub_ps)(*shifted, magic);
    const opwright_wide_f32 near = OPWRIGHT_WIDE(fnmadd_ps)(n, OPWRIGHT_WIDE(set1_ps)(OPWRIGHT_LN2_F32), x);
    const opwright_wide_f32 r = OPWRIGHT_WIDE(fnmadd_ps)(n, OPWRIGHT_WIDE(set1_ps)(OPWRIGHT_LN2_REST_F32), near);
    opwright_wide_f32 p = OPWRIGHT_WIDE(set1_ps)(OPWRIGHT_EXP_F32_0);
    p = OPWRIGHT_WIDE(fmadd_ps)(p, r, OPWRIGHT_WIDE(set1_ps)(OPWRIGHT_EXP_F32_1));
    p = OPWRIGHT_WIDE(fmadd_ps)(p, r, OPWRIGHT_WIDE(set1_ps)(OPWRIGHT_EXP_F32_2));
    p = OPWRIGHT_WIDE(fmadd_ps)(p, r, OPWRIGHT_WIDE(set1_ps)(OPWRIGHT_EXP_F32_3));
    p = OPWRIGHT_WIDE(fmadd_ps)(p, r, OPWRIGHT_WIDE(set1_ps)(OPWRIGHT_EXP_F32_4));
    return OPWRIGHT_WIDE(fmadd_ps)(OPWRIGHT_WIDE(fmadd_ps)(p, r, one), r, one);
}

static inline opwright_wide_f64 opwright_pair_lanes_f64(opwright_wide_f64 r, double first, double second)
{
    return OPWRIGHT_WIDE(fmadd_pd)(r, OPWRIGHT_WIDE(set1_pd)(second), OPWRIGHT_WIDE(set1_pd)(first));
}

static inline opwright_wide_f64 opwright_power_lanes_f64(opwright_wide_f64 x, opwright_wide_f64 *shifted)
{
    const opwright_wide_f64 magic = OPWRIGHT_WIDE(set1_pd)(OPWRIGHT_SHIFT_F64);
    *shifted = OPWRIGHT_WIDE(fmadd_pd)(x, OPWRIGHT_WIDE(set1_pd)(OPWRIGHT_LOG2E_F64), magic);
    const opwright_wide_f64 n = OPWRIGHT_WIDE(sub_pd)(*shifted, magic);
    const opwright_wide_f64 near = OPWRIGHT_WIDE(fnmadd_pd)(n, OPWRIGHT_WIDE(set1_pd)(OPWRIGHT_LN2_F64), x);
    const opwright_wide_f64 r = OPWRIGHT_WIDE(fnmadd_pd)(n, OPWRIGHT_WIDE(set1_pd)(OPWRIGHT_LN2_REST_F64), near);
    const opwright_wide_f64 s = OPWRIGHT_WIDE(mul_pd)(r, r);
    opwright_wide_f64 p = opwright_pair_lanes_f64(r, OPWRIGHT_EXP_F64_0, OPWRIGHT_EXP_F64_1);
    p = OPWRIGHT_WIDE(fmadd_pd)(p, s, opwright_pair_lanes_f64(r, OPWRIGHT_EXP_F64_2, OPWRIGHT_EXP_F64_3));
    p = OPWRIGHT_WIDE(fmadd_pd)(p, s, opwright_pair_lanes_f64(r, OPWRIGHT_EXP_F64_4, OPWRIGHT_EXP_F64_5));
    p = OPWRIGHT_WIDE(fmadd_pd)(p, s, opwright_pair_lanes_f64(r, OPWRIGHT_EXP_F64_6, OPWRIGHT_EXP_F64_7));
    p = OPWRIGHT_WIDE(fmadd_pd)(p, s, opwright_pair_lanes_f64(r, OPWRIGHT_EXP_F64_8, OPWRIGHT_EXP_F64_9));
    const opwright_wide_f64 half = OPWRIGHT_WIDE(fmadd_pd)(r, p, OPWRIGHT_WIDE(set1_pd)(0.5));
    return OPWRIGHT_WIDE(add_pd)(OPWRIGHT_WIDE(set1_pd)(1.0), OPWRIGHT_WIDE(fmadd_pd)(s, half, r));
}

// Where n is less than a limit, one number, elsewhere another; and the product with 2^n.
#if defined(__AVX512F__)
#define OPWRIGHT_SCALED_PARTS(dtype, pd, epi, magic, bias, digits) \
    static inline opwright_wide_##dtype opwright_under_##dtype( \
        opwright_wide_##dtype n, opwright_wide_##dtype limit, opwright_wide_##dtype yes, opwright_wide_##dtype no) \
    { \
        return _mm512_mask_mov_##pd(no, _mm512_cmp_##pd##_mask(n, limit, _CMP_LT_OQ), yes); \
    } \
    static inline opwright_wide_##dtype opwright_times_##dtype(opwright_wide_##dtype y, opwright_wide_##dtype n) \
    { \
        return _mm512_scalef_##pd(y, n); \
    }
#else
#define OPWRIGHT_SCALED_PARTS(dtype, pd, epi, magic, bias, digits) \
    static inline opwright_wide_##dtype opwright_under_##dtype( \
        opwright_wide_##dtype n, opwright_wide_##dtype limit, opwright_wide_##dtype yes, opwright_wide_##dtype no) \
    { \
        return _mm256_blendv_##pd(no, yes, _mm256_cmp_##pd(n, limit, _CMP_LT_OQ)); \
    } \
    static inline opwright_wide_##dtype opwright_times_##dtype(opwright_wide_##dtype y, opwright_wide_##dtype n) \
    { \
        /* By two factors, each a power of two; twice the bias stands in the low bits, too. */ \
        const __m256i both = _mm256_cast##pd##_si256(_mm256_add_##pd(n, _mm256_set1_##pd(magic + 2 * bias))); \
        const __m256i first = _mm256_srli_##epi(_mm256_slli_##epi(both, digits), digits + 1); \
        const __m256i second = _mm256_sub_##epi(both, first); \
        y = _mm256_mul_##pd(y, _mm256_castsi256_##pd(_mm256_slli_##epi(first, digits))); \
        return _mm256_mul_##pd(y, _mm256_castsi256_##pd(_mm256_slli_##epi(second, digits))); \
    }
#endif
OPWRIGHT_SCALED_PARTS(f32, ps, epi32, 0x1.8p23f, 127.0f, 23)
OPWRIGHT_SCALED_PARTS(f64, pd, epi64, OPWRIGHT_SHIFT_F64, 1023.0, 52)

// An exponential: of what is not rare, an addition to the exponent multiplies by 2^n. Else numbers are limited, and denormals are made
// as integers: see opwright_scaled_f32. If an operand of the minimum and the maximum is NaN, they are the second one.
#define OPWRIGHT_EXP_LANES(dtype, pd, epi, least, greatest, low, high, magic, one, smallest, digits) \
    static inline opwright_wide_##dtype opwright_exp_lanes_##dtype(opwright_wide_##dtype x) \
    { \
        opwright_wide_##dtype shifted; \
        if (!opwright_rare_##dtype(x, least, greatest)) { \
            const opwright_wide_bits power = OPWRIGHT_WIDE_BITS(cast##pd)(opwright_power_lanes_##dtype(x, &shifted)); \
            const opwright_wide_bits scale = OPWRIGHT_WIDE(slli_##epi)(OPWRIGHT_WIDE_BITS(cast##pd)(shifted), digits); \
            return OPWRIGHT_WIDE_OF_BITS(pd)(OPWRIGHT_WIDE(add_##epi)(power, scale)); \
        } \
        x = OPWRIGHT_WIDE(max_##pd)(OPWRIGHT_WIDE(set1_##pd)(low), OPWRIGHT_WIDE(min_##pd)(OPWRIGHT_WIDE(set1_##pd)(high), x)); \
        const opwright_wide_##dtype power = opwright_power_lanes_##dtype(x, &shifted); \
        const opwright_wide_##dtype n = OPWRIGHT_WIDE(sub_##pd)(shifted, OPWRIGHT_WIDE(set1_##pd)(magic)); \
        const opwright_wide_##dtype limit = OPWRIGHT_WIDE(set1_##pd)(smallest), lift = OPWRIGHT_WIDE(set1_##pd)(digits - (smallest)); \
        const opwright_wide_##dtype lifted = opwright_under_##dtype(n, limit, OPWRIGHT_WIDE(add_##pd)(n, lift), n); \
        const opwright_wide_##dtype scaled = opwright_times_##dtype(power, lifted); \
        const opwright_wide_##dtype whole = OPWRIGHT_WIDE(set1_##pd)(one); \
        const opwright_wide_bits sum = OPWRIGHT_WIDE_BITS(cast##pd)(OPWRIGHT_WIDE(add_##pd)(scaled, whole)); \
        const opwright_wide_bits bits = OPWRIGHT_WIDE(sub_##epi)(sum, OPWRIGHT_WIDE_BITS(cast##pd)(whole)); \
        return opwright_under_##dtype(n, limit, OPWRIGHT_WIDE_OF_BITS(pd)(bits), scaled); \
    }
OPWRIGHT_EXP_LANES(f32, ps, epi32, -87.0f, 88.0f, -104.0f, 89.0f, 0x1.8p23f, 0x1p23f, -126.0f, 23)
OPWRIGHT_EXP_LANES(f64, pd, epi64, -708.0, 709.0, -746.0, 710.0, OPWRIGHT_SHIFT_F64, 0x1p52, -1022.0, 52)

static inline opwright_wide_f32 opwright_log_lanes_f32(opwright_wide_f32 x)
{
    if (opwright_rare_f32(x, 0x1p-126f, 0x1.fffffep127f)) {
        return opwright_log_rare_f32(x);
    }
    const opwright_wide_bits bits = OPWRIGHT_WIDE_BITS(castps)(x);
    const opwright_wide_bits from = OPWRIGHT_WIDE(sub_epi32)(bits, OPWRIGHT_WIDE(set1_epi32)(OPWRIGHT_ROOT_F32));
    const opwright_wide_bits e = OPWRIGHT_WIDE(srai_epi32)(from, 23);
    const opwright_wide_bits part = OPWRIGHT_WIDE(sub_epi32)(bits, OPWRIGHT_WIDE(slli_epi32)(e, 23));
    const opwright_wide_f32 f = OPWRIGHT_WIDE(sub_ps)(OPWRIGHT_WIDE_OF_BITS(ps)(part), OPWRIGHT_WIDE(set1_ps)(1.0f));
    const opwright_wide_f32 times = OPWRIGHT_WIDE(cvtepi32_ps)(e), square = OPWRIGHT_WIDE(mul_ps)(f, f);
    opwright_wide_f32 p = OPWRIGHT_WIDE(set1_ps)(OPWRIGHT_LOG_F32_0);
    p = OPWRIGHT_WIDE(fmadd_ps)(p, f, OPWRIGHT_WIDE(set1_ps)(OPWRIGHT_LOG_F32_1));
    p = OPWRIGHT_WIDE(fmadd_ps)(p, f, OPWRIGHT_WIDE(set1_ps)(OPWRIGHT_LOG_F32_2));
    p = OPWRIGHT_WIDE(fmadd_ps)(p, f, OPWRIGHT_WIDE(set1_ps)(OPWRIGHT_LOG_F32_3));
    p = OPWRIGHT_WIDE(fmadd_ps)(p, f, OPWRIGHT_WIDE(set1_ps)(OPWRIGHT_LOG_F32_4));
    p = OPWRIGHT_WIDE(fmadd_ps)(p, f, OPWRIGHT_WIDE(set1_ps)(OPWRIGHT_LOG_F32_5));
    p = OPWRIGHT_WIDE(fmadd_ps)(p, f, OPWRIGHT_WIDE(set1_ps)(OPWRIGHT_LOG_F32_6));
    p = OPWRIGHT_WIDE(fmadd_ps)(p, f, OPWRIGHT_WIDE(set1_ps)(OPWRIGHT_LOG_F32_7));
    const opwright_wide_f32 low = OPWRIGHT_WIDE(mul_ps)(times, OPWRIGHT_WIDE(set1_ps)(OPWRIGHT_LN2_REST_F32));
    const opwright_wide_f32 small = OPWRIGHT_WIDE(fmadd_ps)(square, OPWRIGHT_WIDE(fmadd_ps)(p, f, OPWRIGHT_WIDE(set1_ps)(-0.5f)), low);
    return OPWRIGHT_WIDE(fmadd_ps)(times, OPWRIGHT_WIDE(set1_ps)(OPWRIGHT_LN2_F32), OPWRIGHT_WIDE(add_ps)(f, small));
}

static inline opwright_wide_f64 opwright_log_lanes_f64(opwright_wide_f64 x)
{
    if (opwright_rare_f64(x, 0x1p-1022, 0x1.fffffffffffffp1023)) {
        return opwright_log_rare_f64(x);
    }
    const opwright_wide_bits root = OPWRIGHT_WIDE_SET1_64((int64_t)OPWRIGHT_ROOT_F64);
    const opwright_wide_bits lifted = OPWRIGHT_WIDE(add_epi64)(OPWRIGHT_WIDE_BITS(castpd)(x), OPWRIGHT_WIDE_SET1_64(0x3ff0000000000000));
    const opwright_wide_bits from = OPWRIGHT_WIDE(sub_epi64)(lifted, root), shift = OPWRIGHT_WIDE_SET1_64(0x4330000000000000);
    const opwright_wide_bits number = OPWRIGHT_WIDE_BITS(or)(OPWRIGHT_WIDE(srli_epi64)(from, 52), shift);
    const opwright_wide_f64 e = OPWRIGHT_WIDE(sub_pd)(OPWRIGHT_WIDE_OF_BITS(pd)(number), OPWRIGHT_WIDE(set1_pd)(0x1p52 + 1023.0));
    const opwright_wide_bits part = OPWRIGHT_WIDE(add_epi64)(OPWRIGHT_WIDE_BITS(and)(from, OPWRIGHT_WIDE_SET1_64(0xfffffffffffff)), root);
    const opwright_wide_f64 f = OPWRIGHT_WIDE(sub_pd)(OPWRIGHT_WIDE_OF_BITS(pd)(part), OPWRIGHT_WIDE(set1_pd)(1.0));
    const opwright_wide_f64 t = OPWRIGHT_WIDE(div_pd)(f, OPWRIGHT_WIDE(add_pd)(f, OPWRIGHT_WIDE(set1_pd)(2.0)));
    const opwright_wide_f64 s = OPWRIGHT_WIDE(mul_pd)(t, t), fourth = OPWRIGHT_WIDE(mul_pd)(s, s);
    opwright_wide_f64 p = opwright_pair_lanes_f64(s, OPWRIGHT_LOG_F64_1, OPWRIGHT_LOG_F64_0);
    p = OPWRIGHT_WIDE(fmadd_pd)(p, fourth, opwright_pair_lanes_f64(s, OPWRIGHT_LOG_F64_3, OPWRIGHT_LOG_F64_2));
    p = OPWRIGHT_WIDE(fmadd_pd)(p, fourth, opwright_pair_lanes_f64(s, OPWRIGHT_LOG_F64_5, OPWRIGHT_LOG_F64_4));
    p = OPWRIGHT_WIDE(fmadd_pd)(s, p, OPWRIGHT_WIDE(set1_pd)(OPWRIGHT_LOG_F64_6));
    const opwright_wide_f64 square = OPWRIGHT_WIDE(mul_pd)(OPWRIGHT_WIDE(mul_pd)(OPWRIGHT_WIDE(set1_pd)(0.5), f), f);
    const opwright_wide_f64 low = OPWRIGHT_WIDE(mul_pd)(e, OPWRIGHT_WIDE(set1_pd)(OPWRIGHT_LN2_REST_F64));
    const opwright_wide_f64 rest = OPWRIGHT_WIDE(fmadd_pd)(t, OPWRIGHT_WIDE(fmadd_pd)(s, p, square), low);
    const opwright_wide_f64 result = OPWRIGHT_WIDE(sub_pd)(f, OPWRIGHT_WIDE(sub_pd)(square, rest));
    return OPWRIGHT_WIDE(fmadd_pd)(e, OPWRIGHT_WIDE(set1_pd)(OPWRIGHT_LN2_F64), result);
}

// The numbers of a table that stand at these places, which lie in the lowest bits. Of the first piece, r takes the place of the last.
#if defined(__AVX512F__)
static inline __m512 opwright_at_f32(const float *table, __m512i places)
{
    return _mm512_permutexvar_ps(places, _mm512_zextps256_ps512(_mm256_loadu_ps(table)));
}

static inline __m512 opwright_last_lanes_f32(__m512 last, __m512 r)
{
    return _mm512_mask_mov_ps(last, _mm512_cmp_ps_mask(last, _mm512_setzero_ps(), _CMP_EQ_OQ), r);
}

static inline __m512d opwright_at_f64(const double *table, __m512i places)
{
    return _mm512_permutex2var_pd(_mm512_loadu_pd(table), places, _mm512_loadu_pd(table + 8));
}

static inline __m512d opwright_last_lanes_f64(__m512d last, __m512d r)
{
    return _mm512_mask_mov_pd(last, _mm512_cmp_pd_mask(last, _mm512_setzero_pd(), _CMP_EQ_OQ), r);
}
#else
static inline __m256 opwright_at_f32(const float *table, __m256i places) { return _mm256_permutevar8x32_ps(_mm256_loadu_ps(table), places); }

static inline __m256 opwright_last_lanes_f32(__m256 last, __m256 r)
{
    return _mm256_blendv_ps(last, r, _mm256_cmp_ps(last, _mm256_setzero_ps(), _CMP_EQ_OQ));
}
#endif

// The code of opwright_of_piece_f32 and _f64.
#define OPWRIGHT_OF_PIECE_LANES(dtype, c_type, pd, pieces) \
    OPWRIGHT_INLINE opwright_wide_##dtype opwright_of_piece_lanes_##dtype( \
        opwright_wide_##dtype x, opwright_wide_##dtype t, opwright_wide_bits places, const c_type *centers, const c_type(*parts)[pieces], int degree) \
    { \
        const opwright_wide_##dtype r = OPWRIGHT_WIDE(sub_##pd)(t, opwright_at_##dtype(centers, places)); \
        opwright_wide_##dtype p = opwright_at_##dtype(parts[0], places); \
        for (int i = 1; i < degree; ++i) { \
            p = OPWRIGHT_WIDE(fmadd_##pd)(p, r, opwright_at_##dtype(parts[i], places)); \
        } \
        p = OPWRIGHT_WIDE(fmadd_##pd)(p, r, opwright_last_lanes_##dtype(opwright_at_##dtype(parts[degree], places), r)); \
        return OPWRIGHT_WIDE(or_##pd)(p, OPWRIGHT_WIDE(and_##pd)(x, OPWRIGHT_WIDE(set1_##pd)((c_type)-0.0))); \
    } \
    /* The magnitude, and no more than an end. If an operand of the minimum is NaN, it is the second one. */ \
    static inline opwright_wide_##dtype opwright_limited_lanes_##dtype(opwright_wide_##dtype x, c_type end) \
    { \
        return OPWRIGHT_WIDE(min_##pd)(OPWRIGHT_WIDE(set1_##pd)(end), OPWRIGHT_WIDE(andnot_##pd)(OPWRIGHT_WIDE(set1_##pd)((c_type)-0.0), x)); \
    }
OPWRIGHT_OF_PIECE_LANES(f32, float, ps, OPWRIGHT_PIECES)
static inline opwright_wide_f32 opwright_tanh_lanes_f32(opwright_wide_f32 x)
{
    const opwright_wide_f32 t = opwright_limited_lanes_f32(x, OPWRIGHT_TANH_END_F32);
    const opwright_wide_f32 scaled = OPWRIGHT_WIDE(fmadd_ps)(t, OPWRIGHT_WIDE(set1_ps)(OPWRIGHT_TANH_SCALE_F32), OPWRIGHT_WIDE(set1_ps)(2.0f));
    const opwright_wide_bits piece = OPWRIGHT_WIDE(srli_epi32)(OPWRIGHT_WIDE_BITS(castps)(scaled), 22);
    return opwright_of_piece_lanes_f32(x, t, piece, opwright_tanh_centers_f32, opwright_tanh_parts_f32, OPWRIGHT_TANH_DEGREE);
}

static inline opwright_wide_f32 opwright_erf_lanes_f32(opwright_wide_f32 x)
{
    const opwright_wide_f32 t = opwright_limited_lanes_f32(x, OPWRIGHT_ERF_END_F32);
    const opwright_wide_f32 magic = OPWRIGHT_WIDE(set1_ps)(0x1.8p23f);
    const opwright_wide_bits piece = OPWRIGHT_WIDE_BITS(castps)(OPWRIGHT_WIDE(fmadd_ps)(t, OPWRIGHT_WIDE(set1_ps)(OPWRIGHT_ERF_SCALE_F32), magic));
    return opwright_of_piece_lanes_f32(x, t, piece, opwright_erf_centers_f32, opwright_erf_parts_f32, OPWRIGHT_ERF_DEGREE);
}

#if defined(__AVX512F__)
OPWRIGHT_OF_PIECE_LANES(f64, double, pd, OPWRIGHT_PIECES_F64)

static inline __m512d opwright_tanh_lanes_f64(__m512d x)
{
    const __m512d t = opwright_limited_lanes_f64(x, OPWRIGHT_TANH_END_F64);
    const __m512d scaled = _mm512_fmadd_pd(t, _mm512_set1_pd(OPWRIGHT_TANH_SCALE_F64), _mm512_set1_pd(3.0));
    const __m512i places = _mm512_srli_epi64(_mm512_castpd_si512(scaled), 50);
    return opwright_of_piece_lanes_f64(x, t, places, opwright_tanh_centers_f64, opwright_tanh_parts_f64, OPWRIGHT_TANH_DEGREE_F64);
}

static inline __m512d opwright_erf_lanes_f64(__m512d x)
{
    const __m512d t = opwright_limited_lanes_f64(x, OPWRIGHT_ERF_END_F64);
    const __m512d shifted = _mm512_fmadd_pd(t, _mm512_set1_pd(OPWRIGHT_ERF_SCALE_F64), _mm512_set1_pd(OPWRIGHT_SHIFT_F64));
    return opwright_of_piece_lanes_f64(
        x, t, _mm512_castpd_si512(shifted), opwright_erf_centers_f64, opwright_erf_parts_f64, OPWRIGHT_ERF_DEGREE_F64);
}
#endif
#endif

// A row by vectors, the last cells by one that may be short.
#define OPWRIGHT_ROW_BY_LANES(name, dtype, c_type, wide, pd) \
    static inline void opwright_##name##_row_##dtype(c_type *to, const c_type *from, int64_t n) \
    { \
        int64_t i = 0; \
        for (; i + wide <= n; i += wide) { \
            OPWRIGHT_WIDE(storeu_##pd)(to + i, opwright_##name##_lanes_##dtype(OPWRIGHT_WIDE(loadu_##pd)(from + i))); \
        } \
        if (i < n) { \
            opwright_put_rest_##dtype(to + i, opwright_##name##_lanes_##dtype(opwright_last_##dtype(from + i, n - i)), n - i); \
        } \
    }

#define OPWRIGHT_ROW_BY_CELLS(name, dtype, c_type) \
    static inline void opwright_##name##_row_##dtype(c_type *to, const c_type *from, int64_t n) \
    { \
        for (int64_t i = 0; i < n; ++i) { \
            to[i] = opwright_##name##_##dtype(from[i]); \
        } \
    }

#if defined(OPWRIGHT_WIDE)
#define OPWRIGHT_ROW_F32(name) OPWRIGHT_ROW_BY_LANES(name, f32, float, OPWRIGHT_WIDE_F32, ps)
#define OPWRIGHT_ROW_F64(name) OPWRIGHT_ROW_BY_LANES(name, f64, double, OPWRIGHT_WIDE_F64, pd)
#else
#define OPWRIGHT_ROW_F32(name) OPWRIGHT_ROW_BY_CELLS(name, f32, float)
#define OPWRIGHT_ROW_F64(name) OPWRIGHT_ROW_BY_CELLS(name, f64, double)
#endif
OPWRIGHT_ROW_F32(exp)
OPWRIGHT_ROW_F32(log)
OPWRIGHT_ROW_F32(tanh)
OPWRIGHT_ROW_F32(erf)
OPWRIGHT_ROW_F64(exp)
OPWRIGHT_ROW_F64(log)
#if defined(__AVX512F__)
OPWRIGHT_ROW_F64(tanh)
OPWRIGHT_ROW_F64(erf)
#else
OPWRIGHT_ROW_BY_CELLS(tanh, f64, double)
OPWRIGHT_ROW_BY_CELLS(erf, f64, double)
#endif

// Quotients of a row by one number, which may be in place. With AVX-512, of cells and a divisor of middle size, they are products
// with its inverse, to twice as many bits, put right by what these leave (Markstein): the bits of quotients, in half of the time
// (Intel Xeon, Sapphire Rapids). Rows of two vectors or less are divided sooner than the inverse is known.
#if defined(__AVX512F__)
static inline __m512 opwright_over_lanes_f32(__m512 x, __m512 divisor, __m512 inverse, __m512 rest)
{
    const __m512i bits = _mm512_castps_si512(x);
    const __m512i exponents = _mm512_sub_epi32(_mm512_slli_epi32(bits, 1), _mm512_set1_epi32((127 - 40) << 24));
    __mmask16 middle = _mm512_cmplt_epu32_mask(exponents, _mm512_set1_epi32(80 << 24));
    if (middle != 0xffff) {
        middle = (__mmask16)(middle | _mm512_cmpeq_epi32_mask(bits, _mm512_setzero_si512()));
    }
    if (middle != 0xffff) {
        return _mm512_div_ps(x, divisor);
    }
    const __m512 near = _mm512_fmadd_ps(x, inverse, _mm512_mul_ps(x, rest));
    return _mm512_fmadd_ps(_mm512_fnmadd_ps(near, divisor, x), inverse, near);
}
#endif

static inline void opwright_over_row_f32(float *to, const float *row, int64_t n, float divisor)
{
    int64_t i = 0;
#if defined(__AVX512F__)
    if (n > 32 && 0x1p-40f <= divisor && divisor <= 0x1p40f) {
        const __m512 all = _mm512_set1_ps(divisor), inverse = _mm512_set1_ps(1.0f / divisor);
        const __m512 rest = _mm512_mul_ps(_mm512_fnmadd_ps(all, inverse, _mm512_set1_ps(1.0f)), inverse);
        for (; i + 16 <= n; i += 16) {
            _mm512_storeu_ps(to + i, opwright_over_lanes_f32(_mm512_loadu_ps(row + i), all, inverse, rest));
        }
    }
    for (; i < n; i += 16) {
        const __mmask16 rest = (__mmask16)(n - i < 16 ? (1u << (n - i)) - 1u : 0xffffu);
        _mm512_mask_storeu_ps(to + i, rest, _mm512_div_ps(_mm512_maskz_loadu_ps(rest, row + i), _mm512_set1_ps(divisor)));
    }
#endif
    for (; i < n; ++i) {
        to[i] = row[i] / divisor;
    }
}

#endif
