// Rows and columns of bytes as contraction_few.h multiplies them: which included this. A row of ones beneath left gives the sums of
// columns, where they are needed.

#ifndef OPWRIGHT_CONTRACTION_FEW_BYTES_H
#define OPWRIGHT_CONTRACTION_FEW_BYTES_H

#include "contraction_bytes_cells.h"

enum {
    FEW_TERMS = 4,       // units of columns that are read at the same time, each of
    FEW_GROUP = GROUP,   // so many terms
    FEW_VECTORS = GROUP == 4 ? GROUP : 1, // and so many vectors of columns
    FEW_STRETCH = FEW_VECTORS * LANES,
    FEW_TURNED = 0,      // left is copied row by row
    FEW_COLUMNS = 1024,   // of a task where columns lie side by side
    FEW_SHARED = 64,      // minimum columns for a copy of left
    FEW_BYTES = 64 << 10, // of right that a task reads, at least
};

static bool few_fits(const opwright_contraction *q) {
    return !OPWRIGHT_AMX && q->term_axes == 0 && q->rows <= FEW_ROWS && q->columns > q->rows && q->terms > 0 &&
           (q->right_column == 1 || q->right_term == 1);
}

static int64_t few_columns(const opwright_contraction *q, int64_t workers) {
    (void)workers;
    return q->right_column == 1 ? FEW_COLUMNS : max(FEW_SHARED, FEW_BYTES / q->terms);
}

// Rows of left's copy, and units from one to the next.
static int64_t few_copied(const opwright_contraction *q) { return q->rows + (left_zero_of(q) != 0); }
static int64_t few_pitch(const opwright_contraction *q) { return round_up(ceil_div(q->terms, GROUP), LANES); }

// The terms of row `r` of left, and zeros; ones of the row beneath.
static void few_row(const opwright_contraction *q, const uint8_t *from, int64_t r, int32_t *to) {
    int64_t u = 0;
    to += r * few_pitch(q);
    if (r < q->rows)
        from += r * q->left_row;
    for (; r < q->rows && q->left_term == 1 && (u + LANES) * GROUP <= q->terms; u += LANES)
        ivec_store(to + u, units_of(from + u * GROUP, q->left_signed, true));
    for (; u < few_pitch(q); u++)
        to[u] = r == q->rows ? ONES : unit_of(from + u * GROUP * q->left_term, q->left_term, q->terms - u * GROUP, q->left_signed, true);
}

// FEW_STRETCH columns of a unit, whose terms are `step` apart. Of four vectors, lane 4 i + j of vector v is column 16 i + 4 v + j:
// what is mingled within each 128 bits.
INLINE void few_read(const opwright_contraction *q, const uint8_t *from, int64_t step, ivec *to) {
#if GROUP == 4
    __m512i x[GROUP];
    const __m512i signs = (__m512i){0} + (SHIFTED && !q->right_signed ? (long long)0x8080808080808080 : 0);
    UNROLL for (int t = 0; t < GROUP; t++) {
        memcpy(&x[t], from + t * step, sizeof x[t]);
        x[t] ^= signs;
    }
    const __m512i a = _mm512_unpacklo_epi8(x[0], x[1]), b = _mm512_unpacklo_epi8(x[2], x[3]);
    const __m512i c = _mm512_unpackhi_epi8(x[0], x[1]), d = _mm512_unpackhi_epi8(x[2], x[3]);
    to[0] = (ivec)_mm512_unpacklo_epi16(a, b), to[1] = (ivec)_mm512_unpackhi_epi16(a, b);
    to[2] = (ivec)_mm512_unpacklo_epi16(c, d), to[3] = (ivec)_mm512_unpackhi_epi16(c, d);
#else
    put_beside(from, step, q->right_signed, to);
#endif
}

// Those of its terms and columns that are there, beside zeros.
static __attribute__((noinline)) void few_read_part(const opwright_contraction *q, const uint8_t *from, int64_t terms, int64_t count,
                                                    ivec *to) {
    uint8_t part[GROUP][FEW_STRETCH];
    memset(part, SHIFTED && !q->right_signed ? 0x80 : 0, sizeof part);
    for (int64_t t = 0; t < min(GROUP, terms); t++)
        memcpy(part[t], from + t * q->right_term, (size_t)min(FEW_STRETCH, count));
    few_read(q, part[0], FEW_STRETCH, to);
}
INLINE vec few_added(vec sum, vec a, vec b) { return dotted(sum, a, b); }

// LANES units of a column's terms.
INLINE ivec few_load(const opwright_contraction *q, const uint8_t *from) { return units_of(from, q->right_signed, false); }
INLINE ivec few_load_part(const opwright_contraction *q, const uint8_t *from, int64_t terms) {
    uint8_t part[LANES * GROUP];
    memset(part, SHIFTED && !q->right_signed ? 0x80 : 0, sizeof part); // zeros, behind them
    memcpy(part, from, (size_t)terms);
    return few_load(q, part);
}

// Sums of FEW_STRETCH columns in order.
static void few_order(int32_t *sums) {
    int32_t mingled[FEW_STRETCH];
    memcpy(mingled, sums, sizeof mingled);
    for (int v = 0; v < FEW_VECTORS; v++)
        for (int i = 0; i < LANES / 4; i++)
            memcpy(sums + LANES * i + 4 * v, mingled + LANES * v + 4 * i, 16);
}

// Corrects and stores the sums of `count` columns.
static void few_put(const opwright_contraction *q, const sink *s, int64_t at, const int32_t *left, int32_t *sums, int64_t count,
                    int64_t worker) {
    const int32_t left_zero = left_zero_of(q), right_zero = right_zero_of(q), rest = left_zero * right_zero * (int32_t)q->terms;
    const int32_t *const ones = sums + q->rows * FEW_COLUMNS;
    for (int64_t r = 0; r < few_copied(q) && FEW_VECTORS > 1 && q->right_column == 1; r++)
        for (int64_t n = 0; n < count; n += FEW_STRETCH)
            few_order(sums + r * FEW_COLUMNS + n);
    for (int64_t r = 0; r < q->rows; r++) {
        int32_t *const of = sums + r * FEW_COLUMNS;
        const int32_t off = right_zero == 0 ? 0 : -right_zero * left_sum(left + r * few_pitch(q), few_pitch(q), q->left_signed);
        for (int64_t i = 0; i < count; i++)
            of[i] += off + (left_zero != 0 ? rest - left_zero * ones[i] : 0);
        for (int64_t i = 0; i < count; i += PIECE)
            put_rows(q, s, at + r * q->out_row + i * q->out_column, of + i, 0, 1, min(PIECE, count - i), worker);
    }
}

#endif
