// Vectors of LANES floats, of doubles or integers of 64 bits for such types, and conversions between them and elements of one dtype. The rest of the engine does not
// depend on an instruction set: all differences are here.
//
// Compiled once per dtype (OPWRIGHT_F32, OPWRIGHT_BF16, OPWRIGHT_F16, OPWRIGHT_F64, OPWRIGHT_S64 or OPWRIGHT_S32) and instruction set (the compiler's flags).
// GCC's vector extensions are as fast as intrinsics here and compile in a third of the time.

#ifndef OPWRIGHT_LANES_H
#define OPWRIGHT_LANES_H

#include "widths.h"

#if defined(__AVX2__)
#include "opwright_intrinsics.h"
#elif defined(__ARM_NEON) && defined(OPWRIGHT_F16)
#include <arm_neon.h>
#endif

INLINE vec vec_load(const real *p) {
    vec v;
    memcpy(&v, p, sizeof v);
    return v;
}
INLINE void vec_store(real *p, vec v) { memcpy(p, &v, sizeof v); }
INLINE vec vec_splat(real x) { return x - (vec){0}; }
INLINE ivec ivec_load(const int32_t *p) {
    ivec v;
    memcpy(&v, p, sizeof v);
    return v;
}
INLINE void ivec_store(int32_t *p, ivec v) { memcpy(p, &v, sizeof v); }

#if LANES == 16
#define EACH_LANE(f) \
    f(0), f(1), f(2), f(3), f(4), f(5), f(6), f(7), f(8), f(9), f(10), f(11), f(12), f(13), f(14), f(15)
#elif LANES == 8
#define EACH_LANE(f) f(0), f(1), f(2), f(3), f(4), f(5), f(6), f(7)
#elif LANES == 4
#define EACH_LANE(f) f(0), f(1), f(2), f(3)
#else
#define EACH_LANE(f) f(0), f(1)
#endif
#define SAME_LANE(i) (i)
#define LANE_NUMBERS ((ivec){EACH_LANE(SAME_LANE)})
INLINE void clear(real *to, int64_t n) { memset(to, 0, (size_t)max(n, 0) * sizeof *to); }

// The first n of LANES cells, the others 0; nothing past them is read.
INLINE vec vec_load_part(const real *p, int64_t n) {
#if defined(OPWRIGHT_64) && defined(__AVX512F__) && !defined(__SANITIZE_ADDRESS__) // which sees no masked loads
    return (vec)_mm512_maskz_loadu_pd((__mmask8)((1u << n) - 1), (const double *)(const void *)p);
#elif defined(OPWRIGHT_64) && defined(__AVX2__) && !defined(__SANITIZE_ADDRESS__)
    return (vec)_mm256_maskload_pd((const double *)(const void *)p, (__m256i)(LANE_NUMBERS < n));
#elif defined(__AVX512F__) && !defined(__SANITIZE_ADDRESS__)
    return (vec)_mm512_maskz_loadu_ps((__mmask16)((1u << n) - 1), (const float *)(const void *)p);
#elif defined(__AVX2__) && !defined(__SANITIZE_ADDRESS__)
    return (vec)_mm256_maskload_ps((const float *)(const void *)p, (__m256i)(LANE_NUMBERS < (int32_t)n));
#else
    vec v = {0};
    memcpy(&v, p, (size_t)n * sizeof *p);
    return v;
#endif
}

INLINE void vec_store_part(real *p, vec v, int64_t n) {
#if defined(OPWRIGHT_64) && defined(__AVX512F__) && !defined(__SANITIZE_ADDRESS__)
    _mm512_mask_storeu_pd((double *)(void *)p, (__mmask8)((1u << n) - 1), (__m512d)v);
#elif defined(OPWRIGHT_64) && defined(__AVX2__) && !defined(__SANITIZE_ADDRESS__)
    _mm256_maskstore_pd((double *)(void *)p, (__m256i)(LANE_NUMBERS < n), (__m256d)v);
#elif defined(__AVX512F__) && !defined(__SANITIZE_ADDRESS__)
    _mm512_mask_storeu_ps((float *)(void *)p, (__mmask16)((1u << n) - 1), (__m512)v);
#elif defined(__AVX2__) && !defined(__SANITIZE_ADDRESS__)
    _mm256_maskstore_ps((float *)(void *)p, (__m256i)(LANE_NUMBERS < (int32_t)n), (__m256)v);
#else
    memcpy(p, &v, (size_t)n * sizeof *p);
#endif
}

// Whether one instruction stores the first cells of a vector of sums, as floats and as elements.
#if (defined(__AVX512BW__) && defined(__AVX512VL__)) || (defined(__AVX2__) && !defined(OPWRIGHT_BF16) && !defined(OPWRIGHT_F16))
#define STORES_PARTS 1
#else
#define STORES_PARTS 0
#endif

#if !defined(OPWRIGHT_64) // of which there are products only
INLINE vec vec_abs(vec v) { return (vec)((uvec)v & 0x7fffffff); }

// Picks the lanes with the indices `lanes`.
INLINE vec vec_pick(vec v, ivec lanes) {
#if defined(__AVX512F__)
    return (vec)_mm512_permutexvar_ps((__m512i)lanes, (__m512)v);
#elif defined(__AVX2__)
    return (vec)_mm256_permutevar8x32_ps((__m256)v, (__m256i)lanes);
#else
    vec picked;
    for (int i = 0; i < LANES; i++)
        picked[i] = v[lanes[i]];
    return picked;
#endif
}

INLINE bool uvec_any(uvec v) {
#if defined(__AVX512F__)
    return _mm512_test_epi32_mask((__m512i)v, (__m512i)v) != 0;
#elif defined(__AVX2__)
    return !_mm256_testz_si256((__m256i)v, (__m256i)v);
#else
    uint32_t any = 0;
    for (int i = 0; i < LANES; i++)
        any |= v[i];
    return any != 0;
#endif
}
#endif

#if (defined(OPWRIGHT_BF16) || defined(OPWRIGHT_F16))
INLINE hvec hvec_load(const elem *p) {
    hvec v;
    memcpy(&v, p, sizeof v);
    return v;
}
INLINE hvec hvec_load_part(const elem *p, int64_t n) {
#if defined(__AVX512BW__) && defined(__AVX512VL__)
    return (hvec)_mm256_maskz_loadu_epi16((__mmask16)((1u << n) - 1), p);
#else
    hvec v = {0};
    memcpy(&v, p, 2 * (size_t)n);
    return v;
#endif
}
INLINE void hvec_store_part(elem *p, hvec v, int64_t n) {
#if defined(__AVX512BW__) && defined(__AVX512VL__)
    _mm256_mask_storeu_epi16(p, (__mmask16)((1u << n) - 1), (__m256i)v);
#else
    memcpy(p, &v, 2 * (size_t)n);
#endif
}
#endif

#if defined(OPWRIGHT_BF16)

#if defined(__AVX512F__) // gcc 12 widens by halves: 6 instructions
INLINE vec widen(hvec h) { return (vec)((uvec)_mm512_cvtepu16_epi32((__m256i)h) << 16); }
#else
INLINE vec widen(hvec h) {
    return (vec)(__builtin_convertvector(h, uvec) << 16);
}
#endif
// To nearest even; NaN stays NaN. The instruction treats denormals as zeros, as products of pairs do.
#if defined(__AVX512BF16__)
INLINE hvec narrow(vec v) { return (hvec)_mm512_cvtneps_pbh((__m512)v); }
#else
INLINE hvec narrow(vec v) {
    const uvec bits = (uvec)v, nan = (uvec)(v != v);
    const uvec rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16, quiet = (bits >> 16) | 0x40u;
    return __builtin_convertvector((rounded & ~nan) | (quiet & nan), hvec);
}
#endif

#elif defined(OPWRIGHT_F16)

#if defined(__AVX512F__)
INLINE vec widen(hvec h) { return (vec)_mm512_cvtph_ps((__m256i)h); }
INLINE hvec narrow(vec v) { return (hvec)_mm512_cvtps_ph((__m512)v, _MM_FROUND_TO_NEAREST_INT); }
#elif defined(__F16C__)
INLINE vec widen(hvec h) { return (vec)_mm256_cvtph_ps((__m128i)h); }
INLINE hvec narrow(vec v) { return (hvec)_mm256_cvtps_ph((__m256)v, _MM_FROUND_TO_NEAREST_INT); }
#elif defined(__ARM_NEON)
INLINE vec widen(hvec h) { return (vec)vcvt_f32_f16((float16x4_t)h); }
INLINE hvec narrow(vec v) { return (hvec)vcvt_f16_f32((float32x4_t)v); }
#else
INLINE vec widen(hvec h) {
    uvec x = __builtin_convertvector(h, uvec), sign = (x & 0x8000u) << 16, magnitude = x & 0x7fffu;
    // Through a float whose exponent is too small by 112, corrected by a product that is exact for denormals, too.
    const uvec non_finite = (uvec)(magnitude >= 0x7c00u), bits = (uvec)((vec)(magnitude << 13) * 0x1p112f);
    return (vec)((bits & ~non_finite) | (((magnitude << 13) | 0x7f800000u) & non_finite) | sign);
}
INLINE hvec narrow(vec v) {
    const uvec bits = (uvec)v;
    uvec sign = (bits >> 16) & 0x8000u, magnitude = bits & 0x7fffffffu;
    uvec nan = (uvec)(magnitude > 0x7f800000u), infinite = (uvec)(magnitude >= 0x477ff000u);
    uvec normal = (magnitude - 0x38000000u + 0xfffu + ((magnitude >> 13) & 1u)) >> 13;
    // A denormal is rounded by an addition whose unit in the last place is 2^-24.
    const uvec denormal = (uvec)((vec)magnitude + 0.5f) - 0x3f000000u;
    uvec tiny = (uvec)(magnitude < 0x38800000u);
    uvec result = (denormal & tiny) | (normal & ~tiny);
    result = (result & ~infinite) | (0x7c00u & infinite);
    result = (result & ~nan) | ((0x7e00u | ((magnitude >> 13) & 0x3ffu)) & nan);
    return __builtin_convertvector(result | sign, hvec);
}
#endif

#endif

#if !defined(OPWRIGHT_BYTES) // whose values depend on their signs
// Elements widened to float, floats rounded to elements, LANES of them or the first n.
#if defined(OPWRIGHT_BF16) || defined(OPWRIGHT_F16)
INLINE vec elem_load(const elem *p) { return widen(hvec_load(p)); }
INLINE vec elem_load_part(const elem *p, int64_t n) { return widen(hvec_load_part(p, n)); }
INLINE void elem_store(elem *p, vec v) {
    hvec h = narrow(v);
    memcpy(p, &h, sizeof h);
}
INLINE void elem_store_part(elem *p, vec v, int64_t n) { hvec_store_part(p, narrow(v), n); }
INLINE float elem_get(const elem *p) { return elem_load_part(p, 1)[0]; }
INLINE void elem_put(elem *p, float x) { elem_store_part(p, vec_splat(x), 1); }
#else
INLINE vec elem_load(const elem *p) { return vec_load(p); }
INLINE vec elem_load_part(const elem *p, int64_t n) { return vec_load_part(p, n); }
INLINE void elem_store(elem *p, vec v) { vec_store(p, v); }
INLINE void elem_store_part(elem *p, vec v, int64_t n) { vec_store_part(p, v, n); }
INLINE real elem_get(const elem *p) { return *p; }
INLINE void elem_put(elem *p, real x) { *p = x; }
#endif

// Stores past the caches data that is too large to stay there; `p` is aligned to the vector. stream_end() comes last.
#if VECTOR_BYTES < 32 || defined(OPWRIGHT_64) // products store none so
INLINE void elem_stream(elem *p, vec v) { elem_store(p, v); }
INLINE void stream_end(void) {}
#else
INLINE void stream_end(void) { _mm_sfence(); }
#if LANES == 16 && defined(OPWRIGHT_F32)
INLINE void elem_stream(elem *p, vec v) { _mm512_stream_ps(p, (__m512)v); }
#elif LANES == 16
INLINE void elem_stream(elem *p, vec v) { _mm256_stream_si256((__m256i *)(void *)p, (__m256i)narrow(v)); }
#elif defined(OPWRIGHT_F32)
INLINE void elem_stream(elem *p, vec v) { _mm256_stream_ps(p, (__m256)v); }
#else
INLINE void elem_stream(elem *p, vec v) { _mm_stream_si128((__m128i *)(void *)p, (__m128i)narrow(v)); }
#endif
#endif

#endif

// Sums as they are stored: see names.h.
#if defined(OPWRIGHT_WIDE) || defined(OPWRIGHT_BYTES)
#define sum_load vec_load
#define sum_get(p) (*(const real *)(p))
#define sum_store vec_store
#define sum_store_part vec_store_part
#define sum_put(p, x) ((void)(*(p) = (x)))
#define sum_stream vec_store
#else
#define sum_load elem_load
#define sum_get elem_get
#define sum_store elem_store
#define sum_store_part elem_store_part
#define sum_put elem_put
#define sum_stream elem_stream
#endif

// A load of LANES neighbouring elements of which only lanes [first, end) exist. The others are 0, and not read. With
// OPWRIGHT_WINDOWS such a load is as cheap as a full one.
#if defined(OPWRIGHT_64) || defined(OPWRIGHT_BYTES)
#define OPWRIGHT_WINDOWS 0
#elif defined(__AVX512BW__) && defined(__AVX512VL__)
#define OPWRIGHT_WINDOWS 1
typedef __mmask16 window;
INLINE window window_of(int64_t first, int64_t end) {
    const uint32_t below = end >= LANES ? 0xffffu : end > 0 ? (1u << end) - 1 : 0;
    return (window)(below & (first >= LANES ? 0 : first > 0 ? 0xffffu << first : 0xffffu));
}
#elif defined(__AVX2__) && defined(OPWRIGHT_F32)
#define OPWRIGHT_WINDOWS 1
typedef ivec window;
INLINE window window_of(int64_t first, int64_t end) {
    const ivec lane = LANE_NUMBERS;
    return (lane >= (int32_t)min(max(first, 0), LANES)) & (lane < (int32_t)max(min(end, LANES), 0));
}
#else
#define OPWRIGHT_WINDOWS 0
#endif

#if OPWRIGHT_WINDOWS
INLINE vec elem_load_window(const elem *p, window lanes) {
#if defined(__SANITIZE_ADDRESS__)
    vec v = {0};
    for (int i = 0; i < LANES; i++)
#if LANES == 16
        if (lanes >> i & 1)
#else
        if (lanes[i])
#endif
            v[i] = elem_get(p + i);
    return v;
#elif LANES == 8
    return (vec)_mm256_maskload_ps(p, (__m256i)lanes);
#elif defined(OPWRIGHT_F32)
    return (vec)_mm512_maskz_loadu_ps(lanes, p);
#else
    return widen((hvec)_mm256_maskz_loadu_epi16(lanes, p));
#endif
}
#endif

// Transposes LANES vectors of LANES, first within quarters of four lanes, then the quarters: every shuffle
// takes each half from one vector, which is one cheap instruction (a general one halves the speed).
#if defined(__clang__) || __GNUC__ >= 12
#define SHUFFLE(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
#define SHUFFLE(a, b, ...) __builtin_shuffle(a, b, (ivec){__VA_ARGS__})
#endif
#define QUARTER(q, i, j) (q) + (i), (q) + (j), LANES + (q) + (i), LANES + (q) + (j)
#define MINGLE(q, i, j) (q) + (i), LANES + (q) + (i), (q) + (j), LANES + (q) + (j)
#if LANES == 16
#define QUARTERS(f, i, j) f(0, i, j), f(4, i, j), f(8, i, j), f(12, i, j)
#define QUARTERS_SWAPPED 4, 5, 6, 7, 0, 1, 2, 3, 12, 13, 14, 15, 8, 9, 10, 11
#define LANES_FROM(q) (q), (q) + 1, (q) + 2, (q) + 3
#define EVEN LANES_FROM(0), LANES_FROM(8), LANES_FROM(16), LANES_FROM(24)
#define ODD LANES_FROM(4), LANES_FROM(12), LANES_FROM(20), LANES_FROM(28)
#elif LANES == 8
#define QUARTERS(f, i, j) f(0, i, j), f(4, i, j)
#define QUARTERS_SWAPPED 4, 5, 6, 7, 0, 1, 2, 3
#define EVEN 0, 1, 2, 3, 8, 9, 10, 11
#define ODD 4, 5, 6, 7, 12, 13, 14, 15
#elif LANES == 4
#define QUARTERS(f, i, j) f(0, i, j)
#endif
#if LANES == 2
INLINE void vec_transpose(vec v[LANES]) {
    const vec a = SHUFFLE(v[0], v[1], 0, 2);
    v[1] = SHUFFLE(v[0], v[1], 1, 3);
    v[0] = a;
}
#else
INLINE void vec_transpose(vec v[LANES]) {
    UNROLL for (int i = 0; i < LANES; i += 4) {
        const vec a = SHUFFLE(v[i], v[i + 1], QUARTERS(MINGLE, 0, 1)), b = SHUFFLE(v[i], v[i + 1], QUARTERS(MINGLE, 2, 3));
        const vec c = SHUFFLE(v[i + 2], v[i + 3], QUARTERS(MINGLE, 0, 1));
        const vec d = SHUFFLE(v[i + 2], v[i + 3], QUARTERS(MINGLE, 2, 3));
        v[i] = SHUFFLE(a, c, QUARTERS(QUARTER, 0, 1)), v[i + 1] = SHUFFLE(a, c, QUARTERS(QUARTER, 2, 3));
        v[i + 2] = SHUFFLE(b, d, QUARTERS(QUARTER, 0, 1)), v[i + 3] = SHUFFLE(b, d, QUARTERS(QUARTER, 2, 3));
    }
#if LANES == 16
    UNROLL for (int i = 0; i < 4; i++) {
        const vec a = SHUFFLE(v[i], v[i + 4], EVEN), b = SHUFFLE(v[i], v[i + 4], ODD);
        const vec c = SHUFFLE(v[i + 8], v[i + 12], EVEN), d = SHUFFLE(v[i + 8], v[i + 12], ODD);
        v[i] = SHUFFLE(a, c, EVEN), v[i + 4] = SHUFFLE(b, d, EVEN);
        v[i + 8] = SHUFFLE(a, c, ODD), v[i + 12] = SHUFFLE(b, d, ODD);
    }
#elif LANES == 8
    UNROLL for (int i = 0; i < 4; i++) {
        const vec a = SHUFFLE(v[i], v[i + 4], EVEN);
        v[i + 4] = SHUFFLE(v[i], v[i + 4], ODD);
        v[i] = a;
    }
#endif
}
#endif

#if OPWRIGHT_PAIRS
// Pairs of bf16 that were widened.
INLINE vec paired(vec first, vec second) { return (vec)((uvec)first >> 16 | (uvec)second); }

// The first n of LANES pairs' 2 * LANES elements, the others 0; nothing past them is read.
INLINE uvec pairs_load_part(const elem *p, int64_t n) {
#if defined(__SANITIZE_ADDRESS__)
    uvec v = {0};
    memcpy(&v, p, 2 * (size_t)n);
    return v;
#else
    return (uvec)_mm512_maskz_loadu_epi16((__mmask32)((1ull << n) - 1), p);
#endif
}

// Products of pairs of bf16, summed in float: sum[i] + a[2i] b[2i] + a[2i+1] b[2i+1].
INLINE vec dot_pairs(vec sum, uvec a, uvec b) {
    return (vec)_mm512_dpbf16_ps((__m512)sum, (__m512bh)a, (__m512bh)b);
}
#endif

#if defined(OPWRIGHT_BYTES)
// LANES contiguous bytes, widened.
INLINE ivec bytes_load(const uint8_t *p) {
#if LANES >= 8
    __m128i v = {0};
    memcpy(&v, p, LANES);
#if LANES == 16
    return (ivec)_mm512_cvtepu8_epi32(v);
#else
    return (ivec)_mm256_cvtepu8_epi32(v);
#endif
#else
    ivec v;
    for (int i = 0; i < LANES; i++)
        v[i] = p[i];
    return v;
#endif
}

// Products of GROUP terms of each lane, added to sums: of unsigned by signed bytes, or of two integers of 16 bits.
#if defined(__AVX512VNNI__)
#define GROUP 4
INLINE ivec dotted(ivec sum, ivec a, ivec b) { return (ivec)_mm512_dpbusd_epi32((__m512i)sum, (__m512i)a, (__m512i)b); }
#else
#define GROUP 2
#if LANES == 16
INLINE ivec dotted(ivec sum, ivec a, ivec b) { return sum + (ivec)_mm512_madd_epi16((__m512i)a, (__m512i)b); }
#elif LANES == 8
INLINE ivec dotted(ivec sum, ivec a, ivec b) { return sum + (ivec)_mm256_madd_epi16((__m256i)a, (__m256i)b); }
#else
INLINE ivec dotted(ivec sum, ivec a, ivec b) { return sum + (a << 16 >> 16) * (b << 16 >> 16) + (a >> 16) * (b >> 16); }
#endif
#endif
#endif

#endif
