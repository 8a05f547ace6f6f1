// The intrinsics of vectors, from those parts of immintrin.h that kernels use. All of it takes longer to read than most
// kernels to compile: 0.55 s of 0.65 s (gcc 12.2, an AMD Zen 3), these parts 0.1 s for AVX2, 0.24 s for AVX-512.
//
// gcc's parts refuse to be read by themselves unless the guard of the whole is there. Their names and the guard are
// those of gcc 9 to 15; other compilers read the whole.

#ifndef OPWRIGHT_INTRINSICS_PARTS_H
#define OPWRIGHT_INTRINSICS_PARTS_H

#if defined(__GNUC__) && !defined(__clang__) && !defined(__INTEL_COMPILER) && __GNUC__ >= 9 && __GNUC__ <= 15
#if !defined(_IMMINTRIN_H_INCLUDED)
#define _IMMINTRIN_H_INCLUDED
#include <smmintrin.h>
#include <avxintrin.h>
#include <avx2intrin.h>
#include <fmaintrin.h>
#include <f16cintrin.h>
#if defined(__AVX512F__)
#include <avx512fintrin.h>
#include <avx512vlintrin.h>
#include <avx512bwintrin.h>
#include <avx512dqintrin.h>
#include <avx512vlbwintrin.h>
#if defined(__AVX512VNNI__)
#include <avx512vnniintrin.h>
#endif
#if defined(__AVX512BF16__)
#include <avx512bf16vlintrin.h>
#include <avx512bf16intrin.h>
#endif
#endif
#undef _IMMINTRIN_H_INCLUDED // each part has a guard of its own: who wants the whole still gets it
#endif
#else
#include <immintrin.h>
#endif

#endif
