// Rows and columns of floats and of integers as contraction_few.h multiplies them: which included this.

#ifndef OPWRIGHT_CONTRACTION_FEW_FLOATS_H
#define OPWRIGHT_CONTRACTION_FEW_FLOATS_H

#include "contraction_cells.h"
#include "tile.h"

enum {
    FEW_LANED_ROWS = 24, // of f32 and f64 where terms are contiguous and right has more than FEW_FAR bytes: 12x4096x4096 2.1,
    FEW_FAR = 1 << 20,   // 24x3072x768 1.2 times as fast as tiles, 16x256x512 0.9 (Intel Xeon with AVX-512, 2 MB of L2, gcc 12.2);
                         // with vectors of 32 bytes tiles of 12x4096x1024 take 0.74 of the time, of 24x2048x768 0.61
    FEW_PAIRED = 4,      // rows beyond which tiles of pairs are faster if right is in the cache: 5x64x128 bf16 1.55, 8x200x64 1.5 times
    FEW_NEAR = 128 << 10, // bytes of right (AMD Zen 4, gcc 12.2)
    FEW_TERMS = 8,       // rows of right that are read at the same time,
    FEW_GROUP = 1,       // each of one term
    FEW_STRETCH = LANES, // and so many columns of each,
    FEW_VECTORS = 1,     // whose sums have so many vectors
    FEW_TURNED = 1,      // cells of left then lie term by term: 8x512x512 f32 0.66, bf16 0.7 of the time of rows (Intel Xeon, gcc 12.2)
    FEW_LANED = sizeof(elem) == UNIT_BYTES ? 32 : 128, // minimum terms per row for a sum over lanes
    FEW_COLUMNS = VECTOR_BYTES == 64 ? 1024 : 4096, // of a task where columns lie side by side, so that right is read in long
    FEW_NARROW = 1024,   // runs: 1x4096x4096 f32 with 4096 of them 0.7 to 0.75 of the time (AMD Zen 3, gcc 12.2); and with more than
    FEW_PIECE = 256,     // columns that are split for another worker: 1x1111x3001 f32 with two threads 0.55 of the time of 1024
                         // (Intel Xeon, gcc 12.2)
    FEW_STREAMED = 2,    // so many rows, whose sums stay in the first-level cache
    FEW_LEFT = 131072,   // cells of left that are read again for each column
    FEW_TILED = 2 * LANES, // columns that follow one another in memory, for each of up to four rows of one tile, which has their sums in
                         // registers: 8x32x3000 f32 0.27 of the time, 4x20x3000 0.5, 8x128x1000 0.7, 2x100x300 1.2, with
                         // AVX2 4x31x3000 0.65, 3x17x300 0.7, 8x64x3000 by two tiles 1.45 (Sapphire Rapids, gcc 12.2)
    FEW_SHARED = 64,     // minimum columns for a copy of left
    FEW_SHARED_TURNED = 256, // the same if its terms lie apart: 8x4096x4096 bf16 takes 0.82 of the time of 64 (AMD Zen 5)
    FEW_BYTES = 64 << 10, // of right that a task reads, at least
};

static bool few_fits(const opwright_contraction *q) {
    const bool near = q->terms >= q->rows * FEW_LANED && q->rows * q->terms <= FEW_LEFT;
    const bool lanes = q->right_term == 1 && (q->rows <= 2 || near);
    const bool tiled = sizeof(elem) == UNIT_BYTES && q->right_column == 1 && q->right_term >= 0 && q->rows <= MAX_2;
    if (tiled && max(q->columns, q->right_term) <= min(q->rows, 4) * FEW_TILED)
        return false;
    if (OPWRIGHT_PAIRS && q->rows > FEW_PAIRED && q->columns * q->terms * (int64_t)sizeof(elem) <= FEW_NEAR)
        return false;
    const bool far = VECTOR_BYTES == 64 && sizeof(elem) == UNIT_BYTES && q->columns * q->terms * (int64_t)sizeof(elem) > FEW_FAR;
    const bool few = q->rows <= FEW_ROWS ? q->right_column == 1 || lanes : q->rows <= FEW_LANED_ROWS && far && lanes;
    return few && q->columns > q->rows && q->terms > 0;
}

static int64_t few_columns(const opwright_contraction *q, int64_t workers) {
    if (q->right_column == 1) {
        const int64_t most = q->rows > FEW_STREAMED ? FEW_NARROW : FEW_COLUMNS, fair = ceil_div(workers, max(1, products_of(q)));
        const int64_t pieces = min(round_up(ceil_div(q->columns, most), fair), ceil_div(q->columns, FEW_PIECE));
        return fair <= 1 ? most : round_up(ceil_div(q->columns, pieces), LANES);
    }
    return max(q->left_term == 1 ? FEW_SHARED : FEW_SHARED_TURNED, FEW_BYTES / (q->terms * (int64_t)sizeof(elem)));
}

// Rows of left's copy, and units from one to the next: where columns lie side by side, a unit is a term of the type of sums.
static int64_t few_copied(const opwright_contraction *q) { return q->rows; }
static int64_t few_pitch(const opwright_contraction *q) {
    return (q->right_column == 1 ? q->terms : ceil_div(q->terms, UNIT_CHANNELS)) + LANES;
}

// The terms of row `r` of left: as they are multiplied by columns side by side, else units and a vector of zeros.
static void few_row(const opwright_contraction *q, const elem *from, int64_t r, real *to) {
    int64_t t = 0;
    from += r * q->left_row;
    if (q->right_column == 1) {
        for (; t < q->terms; t++)
            to[t * q->rows + r] = elem_get(from + t * q->left_term);
        return;
    }
    to += r * few_pitch(q);
#if OPWRIGHT_PAIRS
    elem *const cells = (elem *)(void *)to;
    if (q->left_term == 1) {
        t = q->terms;
        memcpy(cells, from, (size_t)t * sizeof *cells);
    }
    for (; t < q->terms; t++)
        cells[t] = from[t * q->left_term];
    memset(cells + t, 0, (size_t)(2 * few_pitch(q) - t) * sizeof *cells);
#else
    if (q->left_term == 1)
        for (; t + LANES <= q->terms; t += LANES)
            vec_store(to + t, elem_load(from + t));
    for (; t < q->terms; t++)
        to[t] = elem_get(from + t * q->left_term);
    vec_store(to + t, (vec){0});
#endif
}

// LANES columns of a term, or less.
INLINE void few_read(const opwright_contraction *q, const elem *from, int64_t step, vec *to) {
    (void)q, (void)step;
    *to = elem_load(from);
}
INLINE void few_read_part(const opwright_contraction *q, const elem *from, int64_t terms, int64_t count, vec *to) {
    (void)q, (void)terms;
    *to = elem_load_part(from, min(LANES, count));
}
INLINE vec few_added(vec sum, vec a, vec b) { return with_term(sum, a, b); }

// A vector of a column's terms.
INLINE units few_load(const opwright_contraction *q, const elem *p) {
    (void)q;
#if OPWRIGHT_PAIRS
    return units_load((const unit *)(const void *)p);
#else
    return elem_load(p);
#endif
}
INLINE units few_load_part(const opwright_contraction *q, const elem *p, int64_t n) {
    (void)q;
#if OPWRIGHT_PAIRS
    return pairs_load_part(p, n);
#else
    return elem_load_part(p, n);
#endif
}

static void few_put(const opwright_contraction *q, const sink *s, int64_t at, const real *left, real *sums, int64_t count,
                    int64_t worker) {
    (void)left;
    put_rows(q, s, at, sums, FEW_COLUMNS, q->rows, count, worker);
}

#endif
