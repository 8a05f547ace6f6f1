// Units of bytes: a few terms that one instruction multiplies and adds. And how their sums are stored.

#ifndef OPWRIGHT_CONTRACTION_BYTES_CELLS_H
#define OPWRIGHT_CONTRACTION_BYTES_CELLS_H

#include "contraction_cells.h"

enum { PIECE = 512 }; // cells that are converted at a time

// Whether operands are shifted to the signs of the instruction.
#define SHIFTED (GROUP == 4 && !OPWRIGHT_AMX)
enum { ONES = GROUP == 4 ? 0x01010101 : 0x00010001 }; // a unit of them

// What is to be subtracted from each byte of an operand as it is multiplied.
static inline int32_t left_zero_of(const opwright_contraction *q) {
    return (int32_t)q->left_zero + (SHIFTED && q->left_signed ? 128 : 0);
}
static inline int32_t right_zero_of(const opwright_contraction *q) {
    return (int32_t)q->right_zero - (SHIFTED && !q->right_signed ? 128 : 0);
}

// A term of a unit as it is multiplied.
INLINE int32_t term_of(uint8_t byte, bool is_signed, bool left) {
#if GROUP == 4
    return SHIFTED && left == is_signed ? byte ^ 0x80 : byte;
#else
    (void)left;
    return (uint16_t)(is_signed ? (int8_t)byte : (int16_t)byte);
#endif
}

// A unit of at most `count` terms, `step` apart; the others are 0.
INLINE int32_t unit_of(const uint8_t *from, int64_t step, int64_t count, bool is_signed, bool left) {
    uint32_t unit = 0;
    for (int64_t t = 0; t < min(GROUP, count); t++)
        unit |= (uint32_t)term_of(from[t * step], is_signed, left) << (t * (32 / GROUP));
    return (int32_t)unit;
}

// LANES units of terms that lie side by side.
INLINE ivec units_of(const uint8_t *from, bool is_signed, bool left) {
    ivec units;
#if GROUP == 4
    memcpy(&units, from, sizeof units);
    if (SHIFTED && left == is_signed)
        units ^= (int32_t)0x80808080;
#else
    (void)left;
    // Vectors, since gcc 12 widens such a loop cell by cell.
    typedef int8_t narrow_terms __attribute__((vector_size(GROUP * LANES)));
    typedef int16_t terms __attribute__((vector_size(2 * GROUP * LANES)));
    narrow_terms narrow;
    memcpy(&narrow, from, sizeof narrow);
    const terms wide = __builtin_convertvector(narrow, terms);
    units = (ivec)(is_signed ? wide : wide & 0xff);
#endif
    return units;
}

// Where a term of windows lies, from the first.
static inline int64_t term_place(const opwright_contraction *q, int64_t term) {
    int64_t place = 0;
    for (int64_t a = q->term_axes - 1; a >= 0; term /= q->term_extent[a], a--)
        place += term % q->term_extent[a] * q->term_step[a];
    return place;
}

// And the first term of a row of windows, of all axes of rows but the last `but`.
static inline int64_t row_place(const opwright_contraction *q, int64_t row, int64_t but) {
    int64_t place = 0;
    for (int64_t a = q->row_axes - 1 - but; a >= 0; row /= q->row_extent[a], a--)
        place += row % q->row_extent[a] * q->row_step[a];
    return place;
}

// The sum of a unit's terms.
INLINE int32_t unit_sum(int32_t unit, bool is_signed) {
    int32_t sum = 0;
#if GROUP == 4
    for (int t = 0; t < GROUP; t++) {
        const uint8_t term = (uint8_t)((uint32_t)unit >> (8 * t));
        sum += is_signed ? (int8_t)term : term;
    }
#else
    (void)is_signed;
    for (int t = 0; t < GROUP; t++)
        sum += (int16_t)((uint32_t)unit >> (16 * t));
#endif
    return sum;
}

// A vector of columns of a unit, at `to`: the bytes of each of its terms lie side by side. Assembled lane by lane, packing
// took most of the time of 32 x 4096 x 1024 (AMD Zen 4, gcc 12.2).
INLINE void put_beside(const uint8_t *from, int64_t step, bool is_signed, ivec *to) {
#if GROUP == 4
    __m128i x[GROUP], parts[GROUP];
    UNROLL for (int t = 0; t < GROUP; t++) memcpy(&x[t], from + t * step, sizeof x[t]);
    if (SHIFTED && !is_signed)
        UNROLL for (int t = 0; t < GROUP; t++) x[t] ^= (__m128i){0} + (long long)0x8080808080808080;
    const __m128i a = _mm_unpacklo_epi8(x[0], x[1]), b = _mm_unpacklo_epi8(x[2], x[3]);
    const __m128i c = _mm_unpackhi_epi8(x[0], x[1]), d = _mm_unpackhi_epi8(x[2], x[3]);
    parts[0] = _mm_unpacklo_epi16(a, b), parts[1] = _mm_unpackhi_epi16(a, b);
    parts[2] = _mm_unpacklo_epi16(c, d), parts[3] = _mm_unpackhi_epi16(c, d);
    UNROLL for (int i = 0; i < 4; i++) memcpy((char *)to + i * 16, &parts[i], 16);
#else
    ivec units = {0};
    UNROLL for (int t = 0; t < GROUP; t++) {
        const ivec terms = bytes_load(from + t * step);
        units |= ((is_signed ? terms << 24 >> 24 : terms) & 0xffff) << (16 * t);
    }
    *to = units;
#endif
}

// The sums of the terms of a unit of LANES columns.
INLINE ivec columns_sum(ivec units, bool is_signed) {
#if OPWRIGHT_AMX
    ivec sums;
    for (int l = 0; l < LANES; l++)
        sums[l] = unit_sum(units[l], is_signed);
    return sums;
#else
    (void)is_signed;
    return dotted((ivec){0}, (ivec){0} + ONES, units);
#endif
}

// The sum of a row's terms as they are multiplied.
INLINE int32_t left_sum(const int32_t *from, int64_t units, bool is_signed) {
    int32_t sum = 0;
    int64_t u = 0;
#if !OPWRIGHT_AMX
    ivec sums = {0};
    for (; u + LANES <= units; u += LANES)
        sums = dotted(sums, ivec_load(from + u), (ivec){0} + ONES);
    for (int l = 0; l < LANES; l++)
        sum += sums[l];
#endif
    for (; u < units; u++)
        sum += unit_sum(from[u], !SHIFTED && is_signed);
    return sum;
}

// Stores sums of rows, at most PIECE of each, converted to the type of out. Rows that are neighbours as a finishing
// function counts cells are finished together, so that short ones are not a call each.
static void put_rows(const opwright_contraction *q, const sink *s, int64_t at, const int32_t *sums, int64_t pitch, int64_t rows,
                     int64_t count, int64_t worker) {
    union { int32_t s32[PIECE]; float f32[PIECE]; int64_t s64[PIECE]; double f64[PIECE]; } to;
    const int64_t size = cell_size(q), most = s->finish && q->out_column == 1 && q->out_row == count ? PIECE / max(1, count) : 1;
    for (int64_t m = 0, together; m < rows; m += together, at += together * q->out_row) {
        together = min(most, rows - m);
        const int64_t cells = together * count;
        for (int64_t r = 0; r < together; r++) {
            const int32_t *const from = sums + (m + r) * pitch;
            const int64_t first = r * count;
            switch (q->sums) {
            case 0: for (int64_t i = 0; i < count; i++) to.s32[first + i] = from[i]; break;
            case 1: for (int64_t i = 0; i < count; i++) to.f32[first + i] = (float)from[i]; break;
            case 2: for (int64_t i = 0; i < count; i++) to.s64[first + i] = from[i]; break;
            default: for (int64_t i = 0; i < count; i++) to.f64[first + i] = from[i];
            }
        }
        if (s->finish && q->out_column == 1)
            s->finish(s->context, s->first + at, cells, &to, worker);
        else if (q->out_column == 1)
            memcpy(s->out + at * size, &to, (size_t)(cells * size));
        else
            for (int64_t i = 0; i < cells; i++) {
                const char *const cell = (const char *)&to + i * size;
                if (s->finish)
                    s->finish(s->context, s->first + at + i * q->out_column, 1, cell, worker);
                else
                    memcpy(s->out + (at + i * q->out_column) * size, cell, (size_t)size);
            }
    }
}

#endif
