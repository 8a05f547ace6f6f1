// Products of so few rows of bytes that reading right is most of the work: it is read once, in place, and nothing is packed.
//
// If columns are contiguous, sums of a block of columns stay in the cache while the terms are added. If terms are
// contiguous, each column is a sum over lanes. A row of ones beneath left gives the sums of columns, where they are needed.
// A task is a block of columns of one product.

#ifndef OPWRIGHT_CONTRACTION_BYTES_FEW_H
#define OPWRIGHT_CONTRACTION_BYTES_FEW_H

#include "contraction_bytes_cells.h"

enum {
    FEW_ROWS = 8,
    FEW_COLUMNS = 1024,   // of a task where columns lie side by side
    FEW_UNITS = 4,        // units of such columns that are read at the same time
    FEW_SHARED = 64,      // minimum columns for a copy of left
    FEW_BYTES = 64 << 10, // of right that a task reads, at least
};

typedef struct few {
    const opwright_contraction *q;
    const uint8_t *left, *right;
    sink out;
    int32_t left_zero, right_zero; // of what is multiplied
    int64_t columns, stretches;    // of a task; of a product
    int64_t rows, pitch;           // of left's copy, with that of ones; units from one of them to the next
    char *workers;
} few;

static bool few_fits(const opwright_contraction *q) {
    return !OPWRIGHT_AMX && q->term_axes == 0 && q->rows <= FEW_ROWS && q->columns > q->rows && q->terms > 0 &&
           (q->right_column == 1 || q->right_term == 1);
}

static few few_of(const opwright_contraction *q, int32_t left_zero, int32_t right_zero) {
    few f = {.q = q, .left_zero = left_zero, .right_zero = right_zero};
    f.columns = q->right_column == 1 ? FEW_COLUMNS : max(FEW_SHARED, FEW_BYTES / q->terms);
    f.stretches = ceil_div(q->columns, f.columns);
    f.rows = q->rows + (left_zero != 0);
    f.pitch = round_up(ceil_div(q->terms, GROUP), LANES);
    return f;
}

static int64_t few_worker_bytes(const few *f) { return whole_lines(f->rows * (f->pitch + FEW_COLUMNS) * 4); }

// A row of left, zeros behind its terms; returns the sum of its terms.
static int32_t few_row(const few *f, const uint8_t *from, int32_t *to) {
    const opwright_contraction *q = f->q;
    int64_t u = 0;
    for (; q->left_term == 1 && (u + LANES) * GROUP <= q->terms; u += LANES)
        ivec_store(to + u, units_of(from + u * GROUP, q->left_signed, true));
    for (; u < f->pitch; u++)
        to[u] = unit_of(from + u * GROUP * q->left_term, q->left_term, q->terms - u * GROUP, q->left_signed, true);
    return f->right_zero != 0 ? left_sum(to, f->pitch, q->left_signed) : 0;
}

#if GROUP == 4
enum { FEW_STRETCH = LANES * GROUP };
// GROUP vectors of a unit of FEW_STRETCH columns. Lane 4 i + j of vector v is column 16 i + 4 v + j: what is mingled within
// each 128 bits.
INLINE void few_unit(const uint8_t *from, int64_t step, int64_t terms, bool is_signed, ivec *to) {
    __m512i x[GROUP];
    const __m512i signs = (__m512i){0} + (SHIFTED && !is_signed ? (long long)0x8080808080808080 : 0);
    UNROLL for (int t = 0; t < GROUP; t++) {
        x[t] = signs;
        if (t < terms)
            memcpy(&x[t], from + t * step, sizeof x[t]);
        x[t] ^= signs;
    }
    const __m512i a = _mm512_unpacklo_epi8(x[0], x[1]), b = _mm512_unpacklo_epi8(x[2], x[3]);
    const __m512i c = _mm512_unpackhi_epi8(x[0], x[1]), d = _mm512_unpackhi_epi8(x[2], x[3]);
    to[0] = (ivec)_mm512_unpacklo_epi16(a, b), to[1] = (ivec)_mm512_unpackhi_epi16(a, b);
    to[2] = (ivec)_mm512_unpacklo_epi16(c, d), to[3] = (ivec)_mm512_unpackhi_epi16(c, d);
}

// Sums of FEW_STRETCH columns in order.
static void few_order(int32_t *sums) {
    int32_t mingled[FEW_STRETCH];
    memcpy(mingled, sums, sizeof mingled);
    for (int v = 0; v < GROUP; v++)
        for (int i = 0; i < LANES / 4; i++)
            memcpy(sums + LANES * i + 4 * v, mingled + LANES * v + 4 * i, 16);
}
#else
enum { FEW_STRETCH = LANES };
INLINE void few_unit(const uint8_t *from, int64_t step, int64_t terms, bool is_signed, ivec *to) {
    *to = (ivec){0};
    if (terms >= GROUP)
        put_beside(from, step, is_signed, to);
    else
        for (int l = 0; l < LANES; l++)
            (*to)[l] = unit_of(from + l, step, terms, is_signed, false);
}
static void few_order(int32_t *sums) { (void)sums; }
#endif
enum { FEW_VECTORS = FEW_STRETCH / LANES };

// Units [u, u + units) of columns that fill whole stretches.
INLINE void few_units(const few *f, const uint8_t *right, int64_t u, int64_t count, const int32_t *left, int32_t *sums, int rows,
                      int units) {
    const opwright_contraction *q = f->q;
    const int64_t unit = GROUP * q->right_term;
    right += u * unit;
    for (int64_t n = 0; n + FEW_STRETCH <= count; n += FEW_STRETCH, right += FEW_STRETCH, sums += FEW_STRETCH) {
        ivec x[FEW_UNITS][FEW_VECTORS];
        UNROLL for (int i = 0; i < units; i++)
            few_unit(right + i * unit, q->right_term, q->terms - (u + i) * GROUP, q->right_signed, x[i]);
        UNROLL for (int r = 0; r < rows; r++) UNROLL for (int v = 0; v < FEW_VECTORS; v++) {
            int32_t *const at = sums + r * FEW_COLUMNS + v * LANES;
            ivec sum = ivec_load(at);
            UNROLL for (int i = 0; i < units; i++) sum = dotted(sum, (ivec){0} + left[r * f->pitch + u + i], x[i][v]);
            ivec_store(at, sum);
        }
    }
}

// Columns that lie side by side.
INLINE void few_beside(const few *f, const uint8_t *right, int64_t count, const int32_t *left, int32_t *sums, int rows) {
    const opwright_contraction *q = f->q;
    const int64_t units = ceil_div(q->terms, GROUP);
    int64_t u = 0, whole = count / FEW_STRETCH * FEW_STRETCH;
    for (; whole > 0 && u + FEW_UNITS <= units; u += FEW_UNITS)
        few_units(f, right, u, count, left, sums, rows, FEW_UNITS);
    for (; whole > 0 && u < units; u++)
        few_units(f, right, u, count, left, sums, rows, 1);
    for (int r = 0; r < rows; r++)
        for (int64_t n = 0; n < whole; n += FEW_STRETCH)
            few_order(sums + r * FEW_COLUMNS + n);
    for (u = 0; whole < count && u < units; u++)
        for (int64_t n = whole; n < count; n += LANES) {
            ivec x = {0};
            for (int64_t l = 0; l < min(LANES, count - n); l++)
                x[l] = unit_of(right + u * GROUP * q->right_term + n + l, q->right_term, q->terms - u * GROUP, q->right_signed, false);
            UNROLL for (int r = 0; r < rows; r++) {
                int32_t *const at = sums + r * FEW_COLUMNS + n;
                ivec_store(at, dotted(ivec_load(at), (ivec){0} + left[r * f->pitch + u], x));
            }
        }
}

// LANES units of a column's terms.
INLINE ivec few_load(const opwright_contraction *q, const uint8_t *from) { return units_of(from, q->right_signed, false); }
INLINE ivec few_load_part(const opwright_contraction *q, const uint8_t *from, int64_t terms) {
    uint8_t part[LANES * GROUP];
    memset(part, SHIFTED && !q->right_signed ? 0x80 : 0, sizeof part); // zeros, behind them
    memcpy(part, from, (size_t)terms);
    return few_load(q, part);
}
#include "contraction_few_lanes.h"

// Of any number of rows.
static void few_columns_beside(const few *f, const uint8_t *right, int64_t count, const int32_t *left, int32_t *sums) {
    switch (f->rows) { // a literal
    case 1: few_beside(f, right, count, left, sums, 1); return;
    case 2: few_beside(f, right, count, left, sums, 2); return;
    case 3: few_beside(f, right, count, left, sums, 3); return;
    case 4: few_beside(f, right, count, left, sums, 4); return;
    case 5: few_beside(f, right, count, left, sums, 5); return;
    case 6: few_beside(f, right, count, left, sums, 6); return;
    case 7: few_beside(f, right, count, left, sums, 7); return;
    case 8: few_beside(f, right, count, left, sums, 8); return;
    case 9: few_beside(f, right, count, left, sums, 9); return;
    }
}

// Corrects and stores the sums of columns [n, n + count).
static void few_put(const few *f, int64_t at, int64_t n, int64_t count, int32_t *sums, const int32_t *off, int64_t worker) {
    const opwright_contraction *q = f->q;
    const int32_t *const ones = sums + q->rows * FEW_COLUMNS, rest = f->left_zero * f->right_zero * (int32_t)q->terms;
    for (int64_t r = 0; r < q->rows; r++) {
        int32_t *const of = sums + r * FEW_COLUMNS;
        for (int64_t i = 0; i < count; i++)
            of[i] += off[r] + (f->left_zero != 0 ? rest - f->left_zero * ones[i] : 0);
        for (int64_t i = 0; i < count; i += PIECE)
            put_rows(q, &f->out, at + r * q->out_row + (n + i) * q->out_column, of + i, 0, 1, min(PIECE, count - i), worker);
    }
}

static void few_task(const void *context, int64_t task, int64_t worker) {
    const few *f = context;
    const opwright_contraction *q = f->q;
    int32_t *const left = (int32_t *)(void *)(f->workers + worker * few_worker_bytes(f)), *const sums = left + f->rows * f->pitch;
    int64_t left_at, right_at, out_at_;
    product_at(q, task / f->stretches, &left_at, &right_at, &out_at_);
    const int64_t first = task % f->stretches * f->columns, last = min(q->columns, first + f->columns);
    int32_t off[FEW_ROWS];
    for (int64_t r = 0; r < q->rows; r++)
        off[r] = -f->right_zero * few_row(f, f->left + left_at + r * q->left_row, left + r * f->pitch);
    for (int64_t u = 0; u < f->pitch && f->rows > q->rows; u++)
        left[q->rows * f->pitch + u] = GROUP == 4 ? 0x01010101 : 0x00010001;
    for (int64_t n = first; n < last; n += FEW_COLUMNS) {
        const int64_t count = min(FEW_COLUMNS, last - n);
        const uint8_t *const right = f->right + right_at + n * q->right_column;
        if (q->right_column == 1) {
            memset(sums, 0, (size_t)(f->rows * FEW_COLUMNS) * sizeof *sums);
            few_columns_beside(f, right, count, left, sums);
        } else
            few_laned_rows(q, right, count, left, f->pitch, sums, f->rows);
        few_put(f, out_at_, n, count, sums, off, worker);
    }
}

#endif
