// What kernels use of AVX-512, by AVX2 and loops, so that a CPU without it runs their code: see emulated_steps.py.
//
// Included before everything else. Instructions of bf16 are left out.

#pragma once
#include <alloca.h>
#include <immintrin.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

#define OPWRIGHT_INTRINSICS_PARTS_H // which would read the compiler's own
#define __AVX512F__ 1
#define __AVX512BW__ 1
#define __AVX512CD__ 1
#define __AVX512DQ__ 1
#define __AVX512VL__ 1
#define EMU static inline __attribute__((always_inline, unused))
#define ARR(T, N, name, v) T name[N]; memcpy(name, &v, 64)
EMU __m512 emu_psof(const float *a) { __m512 r; memcpy(&r, a, 64); return r; }
EMU __m512d emu_pdof(const double *a) { __m512d r; memcpy(&r, a, 64); return r; }
EMU __m512i emu_siof(const void *a) { __m512i r; memcpy(&r, a, 64); return r; }
EMU __m256i emu_hof(const void *a) { __m256i r; memcpy(&r, a, 32); return r; }

#define _mm512_set1_ps(x) ({ float x_ = (x); float a_[16]; for (int i_ = 0; i_ < 16; i_++) a_[i_] = x_; emu_psof(a_); })
#define _mm512_set1_pd(x) ({ double x_ = (x); double a_[8]; for (int i_ = 0; i_ < 8; i_++) a_[i_] = x_; emu_pdof(a_); })
EMU __m512i emu_set1_32(int32_t x) { int32_t a[16]; for (int i = 0; i < 16; i++) a[i] = x; return emu_siof(a); }
EMU __m512i emu_set1_16(int16_t x) { int16_t a[32]; for (int i = 0; i < 32; i++) a[i] = x; return emu_siof(a); }
EMU __m512i emu_set1_64(int64_t x) { int64_t a[8]; for (int i = 0; i < 8; i++) a[i] = x; return emu_siof(a); }
#define _mm512_set1_epi32 emu_set1_32
#define _mm512_set1_epi16 emu_set1_16
#define _mm512_set1_epi64 emu_set1_64
EMU __m512i emu_set_32(int p, int o, int n, int m, int l, int k, int j, int i, int h, int g, int f, int e, int d, int c, int b, int a) {
    const int32_t v[16] = {a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p}; return emu_siof(v); }
#define _mm512_set_epi32 emu_set_32
#define _mm512_set_epi16(...) ({ const int16_t b_[32] = {__VA_ARGS__}; int16_t a_[32]; for (int i_ = 0; i_ < 32; i_++) a_[i_] = b_[31 - i_]; emu_siof(a_); })

EMU __m512 emu_add(__m512 a, __m512 b) { return a + b; }
EMU __m512 emu_sub(__m512 a, __m512 b) { return a - b; }
EMU __m512 emu_mul(__m512 a, __m512 b) { return a * b; }
#define _mm512_add_ps emu_add
#define _mm512_sub_ps emu_sub
#define _mm512_mul_ps emu_mul
EMU __m512d emu_addd(__m512d a, __m512d b) { return a + b; }
EMU __m512d emu_subd(__m512d a, __m512d b) { return a - b; }
EMU __m512d emu_muld(__m512d a, __m512d b) { return a * b; }
#define _mm512_add_pd emu_addd
#define _mm512_sub_pd emu_subd
#define _mm512_mul_pd emu_muld
EMU __m256 emu_half(__m512 a, int h) { __m256 r; memcpy(&r, (const char *)&a + 32 * h, 32); return r; }
EMU __m512 emu_both(__m256 a, __m256 b) { __m512 r; memcpy(&r, &a, 32); memcpy((char *)&r + 32, &b, 32); return r; }
#define EMU3(name, op) EMU __m512 name(__m512 a, __m512 b, __m512 c) { \
    return emu_both(op(emu_half(a, 0), emu_half(b, 0), emu_half(c, 0)), op(emu_half(a, 1), emu_half(b, 1), emu_half(c, 1))); }
#define EMU2(name, op) EMU __m512 name(__m512 a, __m512 b) { \
    return emu_both(op(emu_half(a, 0), emu_half(b, 0)), op(emu_half(a, 1), emu_half(b, 1))); }
EMU3(emu_fmadd, _mm256_fmadd_ps)
EMU3(emu_fnmadd, _mm256_fnmadd_ps)
EMU2(emu_div, _mm256_div_ps)
EMU2(emu_min, _mm256_min_ps)
EMU2(emu_max, _mm256_max_ps)
EMU2(emu_or, _mm256_or_ps)
EMU2(emu_and, _mm256_and_ps)
EMU2(emu_andnot, _mm256_andnot_ps)
#define _mm512_fmadd_ps emu_fmadd
#define _mm512_fnmadd_ps emu_fnmadd
#define _mm512_div_ps emu_div
#define _mm512_min_ps emu_min
#define _mm512_max_ps emu_max
#define _mm512_or_ps emu_or
#define _mm512_and_ps emu_and
#define _mm512_andnot_ps emu_andnot
#define _mm512_or_pd(a, b) ((__m512d)emu_or((__m512)(a), (__m512)(b)))
#define _mm512_and_pd(a, b) ((__m512d)emu_and((__m512)(a), (__m512)(b)))
#define _mm512_andnot_pd(a, b) ((__m512d)emu_andnot((__m512)(a), (__m512)(b)))
EMU __m512d emu_divd(__m512d a, __m512d b) { return a / b; }
EMU __m512d emu_fmaddd(__m512d a, __m512d b, __m512d c) { ARR(double, 8, x, a); ARR(double, 8, y, b); ARR(double, 8, z, c); for (int i = 0; i < 8; i++) x[i] = __builtin_fma(x[i], y[i], z[i]); return emu_pdof(x); }
#define _mm512_div_pd emu_divd
#define _mm512_fmadd_pd emu_fmaddd
#define _mm512_fnmadd_pd(a, b, c) emu_fmaddd(-(a), b, c)
EMU __m512d emu_mind(__m512d a, __m512d b) { ARR(double, 8, x, a); ARR(double, 8, y, b); for (int i = 0; i < 8; i++) x[i] = x[i] < y[i] ? x[i] : y[i]; return emu_pdof(x); }
EMU __m512d emu_maxd(__m512d a, __m512d b) { ARR(double, 8, x, a); ARR(double, 8, y, b); for (int i = 0; i < 8; i++) x[i] = x[i] > y[i] ? x[i] : y[i]; return emu_pdof(x); }
#define _mm512_min_pd emu_mind
#define _mm512_max_pd emu_maxd
#define _mm512_max_pd emu_maxd

EMU __m512 emu_scalef(__m512 a, __m512 b) { ARR(float, 16, x, a); ARR(float, 16, y, b);
    for (int i = 0; i < 16; i++) x[i] = y[i] != y[i] ? y[i] : (float)__builtin_ldexp((double)x[i], (int)__builtin_floorf(y[i])); return emu_psof(x); }
EMU __m512d emu_scalefd(__m512d a, __m512d b) { ARR(double, 8, x, a); ARR(double, 8, y, b);
    for (int i = 0; i < 8; i++) x[i] = y[i] != y[i] ? y[i] : __builtin_ldexp(x[i], (int)__builtin_floor(y[i])); return emu_pdof(x); }
#define _mm512_scalef_ps emu_scalef
#define _mm512_scalef_pd emu_scalefd

EMU __m512 emu_loadps(const void *p) { __m512 r; memcpy(&r, p, 64); return r; }
EMU __m512d emu_loadpd(const void *p) { __m512d r; memcpy(&r, p, 64); return r; }
EMU __m512i emu_loadsi(const void *p) { __m512i r; memcpy(&r, p, 64); return r; }
#define _mm512_loadu_ps emu_loadps
#define _mm512_loadu_pd emu_loadpd
#define _mm512_loadu_si512 emu_loadsi
#define _mm512_storeu_ps(p, v) ({ const __m512 v_ = (v); memcpy((void *)(p), &v_, 64); })
#define _mm512_storeu_pd(p, v) ({ const __m512d v_ = (v); memcpy((void *)(p), &v_, 64); })
#define _mm512_storeu_si512(p, v) ({ const __m512i v_ = (v); memcpy((void *)(p), &v_, 64); })
EMU void emu_aligned(const void *p) { if ((uintptr_t)p % 64) __builtin_trap(); }
#define _mm512_stream_ps(p, v) ({ emu_aligned(p); _mm512_storeu_ps(p, v); })
#define _mm512_stream_si512(p, v) ({ emu_aligned(p); _mm512_storeu_si512(p, v); })

#define EMU_MASKED(suffix, V, T, N, of) \
EMU V emu_maskz_loadu_##suffix(uint64_t m, const void *p) { T a[N]; for (int i = 0; i < N; i++) { a[i] = 0; if (m >> i & 1) memcpy(a + i, (const T *)p + i, sizeof(T)); } return of(a); } \
EMU void emu_mask_storeu_##suffix(void *p, uint64_t m, V v) { T a[N]; memcpy(a, &v, sizeof a); for (int i = 0; i < N; i++) if (m >> i & 1) memcpy((T *)p + i, a + i, sizeof(T)); } \
EMU V emu_mask_mov_##suffix(V x, uint64_t m, V y) { T a[N], b[N]; memcpy(a, &x, sizeof a); memcpy(b, &y, sizeof b); for (int i = 0; i < N; i++) if (m >> i & 1) a[i] = b[i]; return of(a); } \
EMU V emu_maskz_mov_##suffix(uint64_t m, V y) { T b[N]; memcpy(b, &y, sizeof b); for (int i = 0; i < N; i++) if (!(m >> i & 1)) b[i] = 0; return of(b); }
EMU_MASKED(ps, __m512, float, 16, emu_psof)
EMU_MASKED(pd, __m512d, double, 8, emu_pdof)
EMU_MASKED(epi32, __m512i, int32_t, 16, emu_siof)
EMU_MASKED(epi16, __m512i, int16_t, 32, emu_siof)
EMU_MASKED(epi8, __m512i, int8_t, 64, emu_siof)
EMU_MASKED(h16, __m256i, int16_t, 16, emu_hof)
#define _mm512_maskz_loadu_ps emu_maskz_loadu_ps
#define _mm512_maskz_loadu_pd emu_maskz_loadu_pd
#define _mm512_maskz_loadu_epi32 emu_maskz_loadu_epi32
#define _mm512_maskz_loadu_epi16 emu_maskz_loadu_epi16
#define _mm512_maskz_loadu_epi8 emu_maskz_loadu_epi8
#define _mm256_maskz_loadu_epi16 emu_maskz_loadu_h16
#define _mm512_mask_storeu_ps emu_mask_storeu_ps
#define _mm512_mask_storeu_pd emu_mask_storeu_pd
#define _mm512_mask_storeu_epi32 emu_mask_storeu_epi32
#define _mm512_mask_storeu_epi16 emu_mask_storeu_epi16
#define _mm512_mask_storeu_epi8 emu_mask_storeu_epi8
#define _mm256_mask_storeu_epi16 emu_mask_storeu_h16
#define _mm512_mask_mov_ps emu_mask_mov_ps
#define _mm512_mask_mov_pd emu_mask_mov_pd
#define _mm512_mask_mov_epi32 emu_mask_mov_epi32
#define _mm512_mask_mov_epi16 emu_mask_mov_epi16
#define _mm512_maskz_mov_epi16 emu_maskz_mov_epi16

EMU int emu_compared(double a, double b, int kind) { return kind == _CMP_LT_OQ ? a < b : kind == _CMP_LE_OQ ? a <= b : kind == _CMP_GE_OQ ? a >= b : kind == _CMP_EQ_OQ ? a == b : a != a || b != b; }
EMU uint16_t emu_cmp(__m512 a, __m512 b, int kind) { ARR(float, 16, x, a); ARR(float, 16, y, b); uint16_t m = 0; for (int i = 0; i < 16; i++) m |= (uint16_t)(emu_compared(x[i], y[i], kind) << i); return m; }
EMU uint8_t emu_cmpd(__m512d a, __m512d b, int kind) { ARR(double, 8, x, a); ARR(double, 8, y, b); uint8_t m = 0; for (int i = 0; i < 8; i++) m |= (uint8_t)(emu_compared(x[i], y[i], kind) << i); return m; }
#define EMU_KNOWN(kind) _Static_assert((kind) == _CMP_UNORD_Q || (kind) == _CMP_LT_OQ || (kind) == _CMP_LE_OQ || (kind) == _CMP_GE_OQ || (kind) == _CMP_EQ_OQ, "")
#define _mm512_cmp_ps_mask(a, b, kind) ({ EMU_KNOWN(kind); emu_cmp(a, b, kind); })
#define _mm512_cmp_pd_mask(a, b, kind) ({ EMU_KNOWN(kind); emu_cmpd(a, b, kind); })
#define _mm512_mask_cmp_ps_mask(m, a, b, kind) ((__mmask16)((m) & _mm512_cmp_ps_mask(a, b, kind)))
#define _mm512_mask_cmp_pd_mask(m, a, b, kind) ((__mmask8)((m) & _mm512_cmp_pd_mask(a, b, kind)))
EMU uint16_t emu_denormal(__m512 a) { ARR(uint32_t, 16, x, a); uint16_t m = 0; for (int i = 0; i < 16; i++) m |= (uint16_t)(((x[i] & 0x7f800000) == 0 && (x[i] & 0x7fffff) != 0) << i); return m; }
#define _mm512_fpclass_ps_mask(a, kind) ({ _Static_assert((kind) == 0x20, ""); emu_denormal(a); })

EMU __m512 emu_permutexvar_ps(__m512i idx, __m512 v) { ARR(int32_t, 16, k, idx); ARR(float, 16, x, v); float r[16]; for (int i = 0; i < 16; i++) r[i] = x[k[i] & 15]; return emu_psof(r); }
#define _mm512_permutexvar_ps emu_permutexvar_ps
#define _mm512_permutex2var_pd(a, idx, b) ((__m512d)emu_permutex2var_epi64((__m512i)(a), idx, (__m512i)(b)))
#define EMU_PERM(suffix, T, N) \
EMU __m512i emu_permutexvar_##suffix(__m512i idx, __m512i v) { ARR(T, N, k, idx); ARR(T, N, x, v); T r[N]; for (int i = 0; i < N; i++) r[i] = x[k[i] & (N - 1)]; return emu_siof(r); } \
EMU __m512i emu_permutex2var_##suffix(__m512i a, __m512i idx, __m512i b) { ARR(T, N, k, idx); ARR(T, N, x, a); ARR(T, N, y, b); T r[N]; for (int i = 0; i < N; i++) r[i] = k[i] & N ? y[k[i] & (N - 1)] : x[k[i] & (N - 1)]; return emu_siof(r); } \
EMU __m512i emu_add_##suffix(__m512i a, __m512i b) { ARR(T, N, x, a); ARR(T, N, y, b); for (int i = 0; i < N; i++) x[i] = (T)((uint64_t)x[i] + (uint64_t)y[i]); return emu_siof(x); } \
EMU __m512i emu_sub_##suffix(__m512i a, __m512i b) { ARR(T, N, x, a); ARR(T, N, y, b); for (int i = 0; i < N; i++) x[i] = (T)((uint64_t)x[i] - (uint64_t)y[i]); return emu_siof(x); } \
EMU __m512i emu_mullo_##suffix(__m512i a, __m512i b) { ARR(T, N, x, a); ARR(T, N, y, b); for (int i = 0; i < N; i++) x[i] = (T)((uint64_t)x[i] * (uint64_t)y[i]); return emu_siof(x); } \
EMU uint64_t emu_cmpge_##suffix(__m512i a, __m512i b) { ARR(T, N, x, a); ARR(T, N, y, b); uint64_t m = 0; for (int i = 0; i < N; i++) m |= (uint64_t)(x[i] >= y[i]) << i; return m; } \
EMU uint64_t emu_cmpeq_##suffix(__m512i a, __m512i b) { ARR(T, N, x, a); ARR(T, N, y, b); uint64_t m = 0; for (int i = 0; i < N; i++) m |= (uint64_t)(x[i] == y[i]) << i; return m; } \
EMU __m512i emu_unpacklo_##suffix(__m512i a, __m512i b) { ARR(T, N, x, a); ARR(T, N, y, b); T r[N]; for (int q = 0; q < 4; q++) for (int i = 0; i < N / 8; i++) r[q * (N / 4) + 2 * i] = x[q * (N / 4) + i], r[q * (N / 4) + 2 * i + 1] = y[q * (N / 4) + i]; return emu_siof(r); } \
EMU __m512i emu_unpackhi_##suffix(__m512i a, __m512i b) { ARR(T, N, x, a); ARR(T, N, y, b); T r[N]; for (int q = 0; q < 4; q++) for (int i = 0; i < N / 8; i++) r[q * (N / 4) + 2 * i] = x[q * (N / 4) + N / 8 + i], r[q * (N / 4) + 2 * i + 1] = y[q * (N / 4) + N / 8 + i]; return emu_siof(r); }
EMU_PERM(epi8, int8_t, 64)
EMU_PERM(epi16, int16_t, 32)
EMU_PERM(epi32, int32_t, 16)
EMU_PERM(epi64, int64_t, 8)
#define _mm512_permutexvar_epi16 emu_permutexvar_epi16
#define _mm512_permutexvar_epi32 emu_permutexvar_epi32
#define _mm512_permutex2var_epi16 emu_permutex2var_epi16
#define _mm512_permutex2var_epi32 emu_permutex2var_epi32
#define _mm512_add_epi16 emu_add_epi16
#define _mm512_add_epi32 emu_add_epi32
#define _mm512_sub_epi16 emu_sub_epi16
#define _mm512_sub_epi32 emu_sub_epi32
#define _mm512_add_epi64 emu_add_epi64
#define _mm512_sub_epi64 emu_sub_epi64
#define _mm512_mullo_epi16 emu_mullo_epi16
#define _mm512_mullo_epi32 emu_mullo_epi32
#define _mm512_mullo_epi64 emu_mullo_epi64
#define _mm512_cmpge_epi16_mask (__mmask32)emu_cmpge_epi16
#define _mm512_cmpge_epi32_mask (__mmask16)emu_cmpge_epi32
#define _mm512_cmpeq_epi16_mask (__mmask32)emu_cmpeq_epi16
#define _mm512_cmpeq_epi32_mask (__mmask16)emu_cmpeq_epi32
#define _mm512_unpacklo_epi8 emu_unpacklo_epi8
#define _mm512_unpackhi_epi8 emu_unpackhi_epi8
#define _mm512_unpacklo_epi16 emu_unpacklo_epi16
#define _mm512_unpackhi_epi16 emu_unpackhi_epi16
#define _mm512_unpacklo_epi32 emu_unpacklo_epi32
#define _mm512_unpackhi_epi32 emu_unpackhi_epi32
#define _mm512_unpacklo_epi64 emu_unpacklo_epi64
#define _mm512_unpackhi_epi64 emu_unpackhi_epi64
EMU uint16_t emu_cmplt_epu32(__m512i a, __m512i b) { ARR(uint32_t, 16, x, a); ARR(uint32_t, 16, y, b); uint16_t m = 0; for (int i = 0; i < 16; i++) m |= (uint16_t)((x[i] < y[i]) << i); return m; }
#define _mm512_cmplt_epu32_mask emu_cmplt_epu32
#define _mm512_setzero_si512() emu_set1_32(0)
#define _mm512_setzero_ps() _mm512_set1_ps(0)
#define _mm512_setzero_pd() _mm512_set1_pd(0)
EMU uint8_t emu_cmpgt_epu64(__m512i a, __m512i b) { ARR(uint64_t, 8, x, a); ARR(uint64_t, 8, y, b); uint8_t m = 0; for (int i = 0; i < 8; i++) m |= (uint8_t)((x[i] > y[i]) << i); return m; }
#define _mm512_cmpgt_epu64_mask emu_cmpgt_epu64
EMU uint8_t emu_cmpneq_epi64(__m512i a, __m512i b) { ARR(uint64_t, 8, x, a); ARR(uint64_t, 8, y, b); uint8_t m = 0; for (int i = 0; i < 8; i++) m |= (uint8_t)((x[i] != y[i]) << i); return m; }
#define _mm512_cmpneq_epi64_mask emu_cmpneq_epi64
EMU __m512i emu_mulhi_epu16(__m512i a, __m512i b) { ARR(uint16_t, 32, x, a); ARR(uint16_t, 32, y, b); for (int i = 0; i < 32; i++) x[i] = (uint16_t)((uint32_t)x[i] * y[i] >> 16); return emu_siof(x); }
#define _mm512_mulhi_epu16 emu_mulhi_epu16
EMU __m512i emu_srli32(__m512i a, unsigned n) { ARR(uint32_t, 16, x, a); for (int i = 0; i < 16; i++) x[i] >>= n; return emu_siof(x); }
EMU __m512i emu_slli32(__m512i a, unsigned n) { ARR(uint32_t, 16, x, a); for (int i = 0; i < 16; i++) x[i] <<= n; return emu_siof(x); }
#define _mm512_srli_epi32 emu_srli32
#define _mm512_slli_epi32 emu_slli32
EMU __m512i emu_srai32(__m512i a, unsigned n) { ARR(int32_t, 16, x, a); for (int i = 0; i < 16; i++) x[i] >>= n; return emu_siof(x); }
EMU __m512i emu_srli64(__m512i a, unsigned n) { ARR(uint64_t, 8, x, a); for (int i = 0; i < 8; i++) x[i] >>= n; return emu_siof(x); }
EMU __m512i emu_slli64(__m512i a, unsigned n) { ARR(uint64_t, 8, x, a); for (int i = 0; i < 8; i++) x[i] <<= n; return emu_siof(x); }
#define _mm512_srai_epi32 emu_srai32
#define _mm512_srli_epi64 emu_srli64
#define _mm512_slli_epi64 emu_slli64
EMU __m512 emu_cvt32(__m512i a) { ARR(int32_t, 16, x, a); float r[16]; for (int i = 0; i < 16; i++) r[i] = (float)x[i]; return emu_psof(r); }
#define _mm512_cvtepi32_ps emu_cvt32
EMU __m512i emu_andsi(__m512i a, __m512i b) { return a & b; }
#define _mm512_and_si512 emu_andsi
#define _mm512_or_si512(a, b) ((__m512i)(a) | (__m512i)(b))
EMU __m512i emu_mask_or(__m512i s, uint16_t m, __m512i a, __m512i b) { ARR(uint32_t, 16, r, s); ARR(uint32_t, 16, x, a); ARR(uint32_t, 16, y, b); for (int i = 0; i < 16; i++) if (m >> i & 1) r[i] = x[i] | y[i]; return emu_siof(r); }
#define _mm512_mask_or_epi32 emu_mask_or
EMU uint16_t emu_test32(__m512i a, __m512i b) { ARR(uint32_t, 16, x, a); ARR(uint32_t, 16, y, b); uint16_t m = 0; for (int i = 0; i < 16; i++) m |= (uint16_t)(((x[i] & y[i]) != 0) << i); return m; }
#define _mm512_test_epi32_mask emu_test32
EMU __m512i emu_shuffle4(__m512i a, __m512i b, int k) { char x[64], y[64], r[64]; memcpy(x, &a, 64); memcpy(y, &b, 64);
    memcpy(r, x + 16 * (k & 3), 16); memcpy(r + 16, x + 16 * (k >> 2 & 3), 16); memcpy(r + 32, y + 16 * (k >> 4 & 3), 16); memcpy(r + 48, y + 16 * (k >> 6 & 3), 16); return emu_siof(r); }
#define _mm512_shuffle_i32x4 emu_shuffle4
#define _mm512_shuffle_f32x4(a, b, k) ((__m512)emu_shuffle4((__m512i)(a), (__m512i)(b), k))
EMU __m512 emu_permute(__m512 a, int k) { ARR(float, 16, x, a); float r[16]; for (int i = 0; i < 16; i++) r[i] = x[(i & 12) + (k >> 2 * (i & 3) & 3)]; return emu_psof(r); }
#define _mm512_permute_ps emu_permute
EMU __m512 emu_movehdup(__m512 a) { ARR(float, 16, x, a); float r[16]; for (int i = 0; i < 16; i++) r[i] = x[i | 1]; return emu_psof(r); }
#define _mm512_movehdup_ps emu_movehdup
EMU __m512 emu_compress(uint16_t m, __m512 a) { ARR(float, 16, x, a); float r[16] = {0}; for (int i = 0, k = 0; i < 16; i++) if (m >> i & 1) r[k++] = x[i]; return emu_psof(r); }
#define _mm512_maskz_compress_ps emu_compress
EMU __m512i emu_insert4(__m512i a, __m256i b, int k) { char x[64]; memcpy(x, &a, 64); memcpy(x + 32 * k, &b, 32); return emu_siof(x); }
#define _mm512_inserti64x4 emu_insert4
#define _mm512_insertf32x8(a, b, k) ((__m512)emu_insert4((__m512i)(a), (__m256i)(b), k))
EMU __m512i emu_cast256(__m256i a) { char x[64]; memset(x, 0xa5, 64); memcpy(x, &a, 32); return emu_siof(x); }
EMU __m512i emu_zext256(__m256i a) { char x[64] = {0}; memcpy(x, &a, 32); return emu_siof(x); }
#define _mm512_castsi256_si512 emu_cast256
#define _mm512_castps256_ps512(a) ((__m512)emu_cast256((__m256i)(a)))
#define _mm512_zextps256_ps512(a) ((__m512)emu_zext256((__m256i)(a)))
#define _mm512_castps_si512(a) ((__m512i)(a))
#define _mm512_castsi512_ps(a) ((__m512)(a))
#define _mm512_castps_pd(a) ((__m512d)(a))
#define _mm512_castpd_si512(a) ((__m512i)(a))
#define _mm512_castsi512_pd(a) ((__m512d)(a))
EMU __m256 emu_low(__m512 a) { return emu_half(a, 0); }
#define _mm512_castps512_ps256 emu_low
#define _mm512_castps512_ps128(a) _mm256_castps256_ps128(emu_low(a))
#define _mm512_extractf64x4_pd(a, k) ((__m256d)emu_half((__m512)(a), k))
EMU __m512 emu_cvtph(__m256i a) { return emu_both(_mm256_cvtph_ps(_mm256_castsi256_si128(a)), _mm256_cvtph_ps(_mm256_extracti128_si256(a, 1))); }
#define _mm512_cvtph_ps emu_cvtph
EMU __m256i emu_cvtps(__m512 a) { return _mm256_inserti128_si256(_mm256_castsi128_si256(_mm256_cvtps_ph(emu_half(a, 0), 0)), _mm256_cvtps_ph(emu_half(a, 1), 0), 1); }
#define _mm512_cvtps_ph(a, k) emu_cvtps(a)
EMU __m512i emu_cvtu16(__m256i a) { uint16_t x[16]; uint32_t r[16]; memcpy(x, &a, 32); for (int i = 0; i < 16; i++) r[i] = x[i]; return emu_siof(r); }
EMU __m512i emu_cvtu8(__m128i a) { uint8_t x[16]; uint32_t r[16]; memcpy(x, &a, 16); for (int i = 0; i < 16; i++) r[i] = x[i]; return emu_siof(r); }
EMU __m256i emu_cvt64(__m512i a) { ARR(int64_t, 8, x, a); int32_t r[8]; for (int i = 0; i < 8; i++) r[i] = (int32_t)x[i]; return emu_hof(r); }
#define _mm512_cvtepu16_epi32 emu_cvtu16
#define _mm512_cvtepu8_epi32 emu_cvtu8
#define _mm512_cvtepi64_epi32 emu_cvt64
EMU __m256 emu_gather(__m512i a, const void *p, int scale) { ARR(int64_t, 8, x, a); __m256 r; float f[8]; for (int i = 0; i < 8; i++) memcpy(f + i, (const char *)p + x[i] * scale, 4); memcpy(&r, f, 32); return r; }
#define _mm512_i64gather_ps emu_gather
EMU __m256 emu_mask_gather(__m256 r, __mmask8 k, __m512i a, const void *p, int scale) { ARR(int64_t, 8, x, a); float f[8]; memcpy(f, &r, 32); for (int i = 0; i < 8; i++) if (k >> i & 1) memcpy(f + i, (const char *)p + x[i] * scale, 4); memcpy(&r, f, 32); return r; }
#define _mm512_mask_i64gather_ps emu_mask_gather
EMU __m512i emu_madd(__m512i a, __m512i b) { ARR(int16_t, 32, x, a); ARR(int16_t, 32, y, b); int32_t r[16]; for (int i = 0; i < 16; i++) r[i] = (int32_t)((uint32_t)(x[2 * i] * y[2 * i]) + (uint32_t)(x[2 * i + 1] * y[2 * i + 1])); return emu_siof(r); }
#define _mm512_madd_epi16 emu_madd
EMU __m512i emu_dpbusd(__m512i s, __m512i a, __m512i b) { ARR(int32_t, 16, r, s); ARR(uint8_t, 64, x, a); ARR(int8_t, 64, y, b); for (int i = 0; i < 64; i++) r[i / 4] = (int32_t)((uint32_t)r[i / 4] + (uint32_t)(x[i] * y[i])); return emu_siof(r); }
#define _mm512_dpbusd_epi32 emu_dpbusd
#undef __FMA__ // sums of products are added in assembly where it is there
#define __builtin_cpu_supports(name) 0 // instructions of bf16 are asked for where the CPU has them
#define __asm__(...)
