// The intrinsics that lanes.h uses, by their names in immintrin.h.
//
// That header takes 0.2 s to parse in every file (gcc 12.2). OPWRIGHT_BUILTINS defines the used part of it as gcc 12
// does, which gives the same machine code. Builtins depend on the compiler's version: the macro is for compilers that
// accept lanes.h with it without warnings, for the dtype and instruction set in question.

#ifndef OPWRIGHT_INTRINSICS_H
#define OPWRIGHT_INTRINSICS_H

#ifndef OPWRIGHT_BUILTINS
#include <immintrin.h>
#else

#define OPWRIGHT_VECTOR(type, name, bytes) typedef type name __attribute__((vector_size(bytes), may_alias))
OPWRIGHT_VECTOR(float, __m512, 64);
OPWRIGHT_VECTOR(float, __m256, 32);
OPWRIGHT_VECTOR(double, __m512d, 64);
OPWRIGHT_VECTOR(double, __m256d, 32);
OPWRIGHT_VECTOR(long long, __m512i, 64);
OPWRIGHT_VECTOR(long long, __m256i, 32);
OPWRIGHT_VECTOR(long long, __m128i, 16);
OPWRIGHT_VECTOR(long long, opwright_v4di, 32);
OPWRIGHT_VECTOR(int, opwright_v16si, 64);
OPWRIGHT_VECTOR(int, opwright_v8si, 32);
OPWRIGHT_VECTOR(short, opwright_v32hi, 64);
OPWRIGHT_VECTOR(short, opwright_v16hi, 32);
OPWRIGHT_VECTOR(short, opwright_v8hi, 16);
OPWRIGHT_VECTOR(char, opwright_v64qi, 64);
OPWRIGHT_VECTOR(char, opwright_v16qi, 16);
typedef opwright_v32hi __m512bh;
typedef uint32_t __mmask32;
typedef uint16_t __mmask16;
typedef uint8_t __mmask8;
#define OPWRIGHT_EVERY ((__mmask16)-1)

// The operand that a mask of all lanes never reads: undefined, because gcc would load zeros into a register.
#define OPWRIGHT_UNREAD(type) __extension__({ type unread = unread; unread; })

// Parts of memory.
#define _mm512_maskz_loadu_ps(there, p) __builtin_ia32_loadups512_mask(p, (__m512){0}, there)
#define _mm512_mask_storeu_ps(p, there, v) __builtin_ia32_storeups512_mask(p, v, there)
#define _mm256_maskload_ps(p, there)                                                                                   \
    __builtin_ia32_maskloadps256((const __m256 *)(const void *)(p), (opwright_v8si)(there))
#define _mm256_maskstore_ps(p, there, v)                                                                               \
    __builtin_ia32_maskstoreps256((__m256 *)(void *)(p), (opwright_v8si)(there), v)
#define _mm512_maskz_loadu_pd(there, p) __builtin_ia32_loadupd512_mask(p, (__m512d){0}, there)
#define _mm512_mask_storeu_pd(p, there, v) __builtin_ia32_storeupd512_mask(p, v, there)
#define _mm256_maskload_pd(p, there)                                                                                   \
    __builtin_ia32_maskloadpd256((const __m256d *)(const void *)(p), (opwright_v4di)(there))
#define _mm256_maskstore_pd(p, there, v)                                                                               \
    __builtin_ia32_maskstorepd256((__m256d *)(void *)(p), (opwright_v4di)(there), v)
#define _mm512_maskz_loadu_epi16(there, p)                                                                             \
    (__m512i)__builtin_ia32_loaddquhi512_mask((const short *)(p), (opwright_v32hi){0}, there)
#define _mm256_maskz_loadu_epi16(there, p)                                                                             \
    (__m256i)__builtin_ia32_loaddquhi256_mask((const short *)(p), (opwright_v16hi){0}, there)
#define _mm256_mask_storeu_epi16(p, there, v)                                                                          \
    __builtin_ia32_storedquhi256_mask((short *)(p), (opwright_v16hi)(v), there)

// Stores past the caches.
#define _mm_sfence() __builtin_ia32_sfence()
#define _mm512_stream_ps(p, v) __builtin_ia32_movntps512(p, v)
#define _mm256_stream_ps(p, v) __builtin_ia32_movntps256(p, v)
#define _mm256_stream_si256(p, v) __builtin_ia32_movntdq256(p, v)
#define _mm_stream_si128(p, v) __builtin_ia32_movntdq(p, v)

// Lanes.
#define _mm512_permutexvar_ps(lanes, v)                                                                                \
    __builtin_ia32_permvarsf512_mask(v, (opwright_v16si)(lanes), OPWRIGHT_UNREAD(__m512), OPWRIGHT_EVERY)
#define _mm256_permutevar8x32_ps(v, lanes) __builtin_ia32_permvarsf256(v, (opwright_v8si)(lanes))
#define _mm512_test_epi32_mask(a, b)                                                                                   \
    (__mmask16)__builtin_ia32_ptestmd512((opwright_v16si)(a), (opwright_v16si)(b), OPWRIGHT_EVERY)
#define _mm256_testz_si256(a, b) __builtin_ia32_ptestz256(a, b)

#define _mm512_permutexvar_epi16(lanes, v)                                                                             \
    (__m512i)__builtin_ia32_permvarhi512_mask((opwright_v32hi)(v), (opwright_v32hi)(lanes),                             \
                                              OPWRIGHT_UNREAD(opwright_v32hi), (__mmask32)-1)
#define _mm512_maskz_mov_epi16(there, v)                                                                               \
    (__m512i)__builtin_ia32_movdquhi512_mask((opwright_v32hi)(v), (opwright_v32hi){0}, there)
#define _mm512_castsi256_si512(v) (__m512i)__builtin_ia32_si512_256si((opwright_v8si)(v))
#define _mm512_inserti64x4(a, b, half)                                                                                 \
    (__m512i)__builtin_ia32_inserti64x4_mask((__m512i)(a), (opwright_v4di)(b), half, OPWRIGHT_UNREAD(__m512i), (__mmask8)-1)

// Integers.
#define _mm512_madd_epi16(a, b)                                                                                        \
    (__m512i)__builtin_ia32_pmaddwd512_mask((opwright_v32hi)(a), (opwright_v32hi)(b), OPWRIGHT_UNREAD(opwright_v16si), \
                                            OPWRIGHT_EVERY)
#define _mm256_madd_epi16(a, b) (__m256i)__builtin_ia32_pmaddwd256((opwright_v16hi)(a), (opwright_v16hi)(b))
#define _mm512_dpbusd_epi32(sum, a, b)                                                                                 \
    (__m512i)__builtin_ia32_vpdpbusd_v16si((opwright_v16si)(sum), (opwright_v16si)(a), (opwright_v16si)(b))

#define OPWRIGHT_MINGLED(name, kind, mask, a, b) (__m512i)name((kind)(a), (kind)(b), OPWRIGHT_UNREAD(kind), (mask)-1)
#define _mm512_unpacklo_epi8(a, b) OPWRIGHT_MINGLED(__builtin_ia32_punpcklbw512_mask, opwright_v64qi, uint64_t, a, b)
#define _mm512_unpackhi_epi8(a, b) OPWRIGHT_MINGLED(__builtin_ia32_punpckhbw512_mask, opwright_v64qi, uint64_t, a, b)
#define _mm512_unpacklo_epi16(a, b) OPWRIGHT_MINGLED(__builtin_ia32_punpcklwd512_mask, opwright_v32hi, __mmask32, a, b)
#define _mm512_unpackhi_epi16(a, b) OPWRIGHT_MINGLED(__builtin_ia32_punpckhwd512_mask, opwright_v32hi, __mmask32, a, b)
#define _mm_unpacklo_epi8(a, b) (__m128i)__builtin_ia32_punpcklbw128((opwright_v16qi)(a), (opwright_v16qi)(b))
#define _mm_unpackhi_epi8(a, b) (__m128i)__builtin_ia32_punpckhbw128((opwright_v16qi)(a), (opwright_v16qi)(b))
#define _mm_unpacklo_epi16(a, b) (__m128i)__builtin_ia32_punpcklwd128((opwright_v8hi)(a), (opwright_v8hi)(b))
#define _mm_unpackhi_epi16(a, b) (__m128i)__builtin_ia32_punpckhwd128((opwright_v8hi)(a), (opwright_v8hi)(b))

// Halves and floats.
#define _mm512_cvtepu8_epi32(v)                                                                                        \
    (__m512i)__builtin_ia32_pmovzxbd512_mask((opwright_v16qi)(v), OPWRIGHT_UNREAD(opwright_v16si), OPWRIGHT_EVERY)
#define _mm256_cvtepu8_epi32(v) (__m256i)__builtin_ia32_pmovzxbd256((opwright_v16qi)(v))
#define _mm512_cvtepu16_epi32(v)                                                                                       \
    (__m512i)__builtin_ia32_pmovzxwd512_mask((opwright_v16hi)(v), OPWRIGHT_UNREAD(opwright_v16si), OPWRIGHT_EVERY)
#define _mm512_cvtneps_pbh(v) __builtin_ia32_cvtneps2bf16_v16sf(v)
#define _mm512_cvtne2ps_pbh(second, first) __builtin_ia32_cvtne2ps2bf16_v32hi(second, first)
#define _mm512_dpbf16_ps(sum, a, b) __builtin_ia32_dpbf16ps_v16sf(sum, a, b)
#define _MM_FROUND_TO_NEAREST_INT 0
#define OPWRIGHT_CURRENT_DIRECTION 4
#define _mm512_cvtph_ps(v)                                                                                             \
    __builtin_ia32_vcvtph2ps512_mask((opwright_v16hi)(v), OPWRIGHT_UNREAD(__m512), (short)OPWRIGHT_EVERY, OPWRIGHT_CURRENT_DIRECTION)
#define _mm512_cvtps_ph(v, rounding)                                                                                   \
    (__m256i)__builtin_ia32_vcvtps2ph512_mask(v, rounding, OPWRIGHT_UNREAD(opwright_v16hi), OPWRIGHT_EVERY)
#define _mm256_cvtph_ps(v) __builtin_ia32_vcvtph2ps256((opwright_v8hi)(v))
#define _mm256_cvtps_ph(v, rounding) (__m128i)__builtin_ia32_vcvtps2ph256(v, rounding)

#endif

#endif
