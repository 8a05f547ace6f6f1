// Rows of floats as sums of several bf16 each: products by matrix registers of bf16 are then those of floats by bf16.
//
// Each part has the upper half of what is left of a cell, the last of two parts is rounded. Attention of 24x256x64 and 8x1024x64
// bf16 takes 0.82 of the time of three parts (Intel Xeon with AMX, gcc 12.2). The parts of 16 units of a tile's rows are matrices,
// one after the other, which registers read line by line.
// Strides of such an operand count bf16, two for each cell.

#ifndef OPWRIGHT_CONTRACTION_SPLIT_H
#define OPWRIGHT_CONTRACTION_SPLIT_H

#include "contraction_cells.h"
#include "split.h"

enum { SPLIT_AHEAD = 128 }; // bytes

#if OPWRIGHT_AMX && OPWRIGHT_PAIRS
// What a part leaves: of infinite cells nothing.
INLINE vec split_rest(vec x) {
    const __m512 bits = (__m512)_mm512_and_si512((__m512i)x, _mm512_set1_epi32(-65536));
    const __mmask16 finite = _mm512_fpclass_ps_mask((__m512)x, 0x18) ^ 0xffff;
    return (vec)_mm512_maskz_sub_ps(finite, (__m512)x, bits);
}

// The parts of the terms of one row, `part` units from one to the next: those in both vectors, the first ones in `a`.
INLINE void split_units(vec a, vec b, unit *to, int64_t part, int parts) {
    const __m512i upper = _mm512_set_epi16(63, 61, 59, 57, 55, 53, 51, 49, 47, 45, 43, 41, 39, 37, 35, 33, 31, 29, 27, 25, 23, 21, 19,
                                           17, 15, 13, 11, 9, 7, 5, 3, 1);
    const __m512i quiet = _mm512_set1_epi32(1 << 22); // a NaN whose bits are all in its lower half stays one
    a = (vec)_mm512_mask_or_epi32((__m512i)a, _mm512_cmp_ps_mask((__m512)a, (__m512)a, _CMP_UNORD_Q), (__m512i)a, quiet);
    b = (vec)_mm512_mask_or_epi32((__m512i)b, _mm512_cmp_ps_mask((__m512)b, (__m512)b, _CMP_UNORD_Q), (__m512i)b, quiet);
    UNROLL for (int i = 0; i < parts; i++, to += part) {
        const bool rounded = parts == ROUNDED_PARTS && i == parts - 1;
        const __m512i cells = rounded ? (__m512i)_mm512_cvtne2ps_pbh((__m512)b, (__m512)a)
                                      : _mm512_permutex2var_epi16((__m512i)a, upper, (__m512i)b);
        vec_store((real *)(void *)to, (vec)cells);
        a = split_rest(a), b = split_rest(b);
    }
}

INLINE vec split_load(const float *from, int64_t count) {
    return count >= LANES ? vec_load(from) : count <= 0 ? (vec){0} : vec_load_part(from, count);
}

// `count` cells, `step` floats from one to the next.
INLINE vec split_gather(const float *from, int64_t step, int64_t count) {
    float line[LANES] = {0};
    if (step == 1)
        return split_load(from, count);
    for (int64_t l = 0; l < min(LANES, count); l++)
        line[l] = from[l * step];
    return vec_load(line);
}

// The rows of a tile, `row` and `term` floats from one cell to the next.
INLINE void split_to(const float *left, int64_t row, int64_t term, int64_t rows, int64_t terms, unit *to, int parts) {
    const int64_t both = LANES * UNIT_CHANNELS, part = rows * LANES;
    if (term == 1) {
        for (int64_t t = 0; t < terms; t += both, to += parts * part)
            for (int64_t m = 0; m < rows; m++) {
                const float *from = left + m * row + t;
                __builtin_prefetch((const void *)((uintptr_t)from + SPLIT_AHEAD)), __builtin_prefetch((const void *)((uintptr_t)from + SPLIT_AHEAD + 64));
                split_units(split_load(from, terms - t), split_load(from + LANES, terms - t - LANES), to + m * LANES, part, parts);
            }
        return;
    }
    for (int64_t t = 0; t < terms; t += both, to += parts * part)
        for (int64_t m = 0; m < rows; m += LANES) {
            vec v[UNIT_CHANNELS][LANES];
            for (int j = 0; j < UNIT_CHANNELS; j++) {
                for (int64_t l = 0; l < LANES; l++) {
                    const int64_t at = t + j * LANES + l;
                    v[j][l] = at < terms ? split_gather(left + m * row + at * term, row, rows - m) : (vec){0};
                }
                vec_transpose(v[j]);
            }
            for (int64_t l = 0; l < min(LANES, rows - m); l++)
                split_units(v[0][l], v[1][l], to + (m + l) * LANES, part, parts);
        }
}

static void split_tile(const float *left, int64_t row, int64_t term, int64_t rows, int64_t terms, unit *to, int64_t parts) {
    if (parts == ALL_PARTS)
        split_to(left, row, term, rows, terms, to, ALL_PARTS);
    else
        split_to(left, row, term, rows, terms, to, ROUNDED_PARTS);
}
#else
static void split_tile(const float *left, int64_t row, int64_t term, int64_t rows, int64_t terms, unit *to, int64_t parts) {
    (void)left, (void)row, (void)term, (void)rows, (void)terms, (void)to, (void)parts;
}
#endif

#endif
