// Products of so few rows that reading right is most of the work: it is read once, in place, and nothing is packed.
//
// If columns are contiguous, sums of a block of columns stay in the cache while the terms are added,
// FEW_TERMS at a time. If terms are contiguous, each column is a sum over lanes, FEW_SHARING rows at a time. A task is a
// block of columns of one product.

#ifndef OPWRIGHT_CONTRACTION_FEW_H
#define OPWRIGHT_CONTRACTION_FEW_H

#include "contraction_cells.h"
#include "tile.h"

enum {
    FEW_ROWS = 8,
    FEW_LANED_ROWS = 24, // of f32 and f64 where terms are contiguous and right has more than FEW_FAR bytes: 12x4096x4096 2.1,
    FEW_FAR = 1 << 20,   // 24x3072x768 1.2 times as fast as tiles, 16x256x512 0.9 (Intel Xeon with AVX-512, 2 MB of L2, gcc 12.2);
                         // with vectors of 32 bytes tiles of 12x4096x1024 take 0.74 of the time, of 24x2048x768 0.61
    FEW_PAIRED = 4,      // rows beyond which tiles of pairs are faster if right is in the cache: 5x64x128 bf16 1.55, 8x200x64 1.5 times
    FEW_NEAR = 128 << 10, // bytes of right (AMD Zen 4, gcc 12.2)
    FEW_TERMS = 8,       // rows of right that are read at the same time
    FEW_LANED = sizeof(elem) == UNIT_BYTES ? 32 : 128, // minimum terms per row for a sum over lanes
    FEW_COLUMNS = VECTOR_BYTES == 64 ? 1024 : 4096, // of a task where columns lie side by side, so that right is read in long
    FEW_NARROW = 1024,   // runs: 1x4096x4096 f32 with 4096 of them 0.7 to 0.75 of the time (AMD Zen 3, gcc 12.2); and with more than
    FEW_STREAMED = 2,    // so many rows, whose sums stay in the first-level cache
    FEW_LEFT = 131072,   // cells of left that are read again for each column
    FEW_SHARED = 64,     // minimum columns for a copy of left
    FEW_TURNED = 256,    // the same if its terms lie apart: 8x4096x4096 bf16 takes 0.82 of the time of 64 (AMD Zen 5)
    FEW_BYTES = 64 << 10, // of right that a task reads, at least
};

typedef struct few {
    const opwright_contraction *q;
    const elem *left, *right;
    sink out;
    int64_t columns, stretches; // of a task; of a product
    int64_t worker_bytes;
    char *workers;
} few;

static bool few_fits(const opwright_contraction *q) {
    const bool near = q->terms >= q->rows * FEW_LANED && q->rows * q->terms <= FEW_LEFT;
    const bool lanes = q->right_term == 1 && (q->rows <= 2 || near);
    if (OPWRIGHT_PAIRS && q->rows > FEW_PAIRED && q->columns * q->terms * (int64_t)sizeof(elem) <= FEW_NEAR)
        return false;
    const bool far = VECTOR_BYTES == 64 && sizeof(elem) == UNIT_BYTES && q->columns * q->terms * (int64_t)sizeof(elem) > FEW_FAR;
    const bool few = q->rows <= FEW_ROWS ? q->right_column == 1 || lanes : q->rows <= FEW_LANED_ROWS && far && lanes;
    return few && q->columns > q->rows && q->terms > 0;
}

static int64_t few_columns(const opwright_contraction *q, int64_t workers) {
    if (q->right_column == 1)
        return q->rows > FEW_STREAMED ? FEW_NARROW : max(FEW_NARROW, min(FEW_COLUMNS, round_up(ceil_div(q->columns, workers), LANES)));
    return max(q->left_term == 1 ? FEW_SHARED : FEW_TURNED, FEW_BYTES / (q->terms * (int64_t)sizeof(elem)));
}

// Units of a row in the copy of left where terms are contiguous.
static int64_t few_pitch(const opwright_contraction *q) { return ceil_div(q->terms, UNIT_CHANNELS) + LANES; }

// A worker's scratch: a copy of left, and sums of columns.
static int64_t few_worker_bytes(const opwright_contraction *q) {
    return whole_lines(q->rows * ((q->terms + LANES + FEW_COLUMNS) * UNIT_BYTES));
}

// Columns [0, count), `rows` at a time, whose sums are `FEW_COLUMNS` apart. Left lies term by term.
INLINE void few_terms(const elem *right, int64_t term, int64_t terms, int64_t count, const real *left, real *sums, int rows,
                      int many) {
    for (int64_t n = 0; n < count; n += LANES) {
        vec sum[FEW_ROWS];
        const int64_t there = min(LANES, count - n);
        UNROLL for (int r = 0; r < rows; r++)
            sum[r] = vec_load(sums + r * FEW_COLUMNS + n);
        if (many) {
            UNROLL for (int t = 0; t < FEW_TERMS; t++) {
                const vec x = there == LANES ? elem_load(right + t * term + n) : elem_load_part(right + t * term + n, there);
                UNROLL for (int r = 0; r < rows; r++)
                    sum[r] = with_term(sum[r], vec_splat(left[t * rows + r]), x);
            }
        } else {
            for (int64_t t = 0; t < terms; t++) {
                const vec x = elem_load_part(right + t * term + n, there);
                UNROLL for (int r = 0; r < rows; r++)
                    sum[r] = with_term(sum[r], vec_splat(left[t * rows + r]), x);
            }
        }
        UNROLL for (int r = 0; r < rows; r++)
            vec_store(sums + r * FEW_COLUMNS + n, sum[r]);
    }
}

INLINE void few_beside(const opwright_contraction *q, const elem *right, int64_t count, const real *left, real *sums, int rows) {
    int64_t t = 0;
    for (; t + FEW_TERMS <= q->terms; t += FEW_TERMS)
        few_terms(right + t * q->right_term, q->right_term, FEW_TERMS, count, left + t * rows, sums, rows, true);
    if (t < q->terms)
        few_terms(right + t * q->right_term, q->right_term, q->terms - t, count, left + t * rows, sums, rows, false);
}

#if OPWRIGHT_PAIRS
INLINE units few_load(const opwright_contraction *q, const elem *p) {
    (void)q;
    return units_load((const unit *)(const void *)p);
}
INLINE units few_load_part(const opwright_contraction *q, const elem *p, int64_t n) {
    (void)q;
    return pairs_load_part(p, n);
}
#else
INLINE units few_load(const opwright_contraction *q, const elem *p) {
    (void)q;
    return elem_load(p);
}
INLINE units few_load_part(const opwright_contraction *q, const elem *p, int64_t n) {
    (void)q;
    return elem_load_part(p, n);
}
#endif
#include "contraction_few_lanes.h"

// Of any number of rows.
static void few_columns_beside(const opwright_contraction *q, const elem *right, int64_t count, const real *left, real *sums) {
    switch (q->rows) { // a literal
    case 1: few_beside(q, right, count, left, sums, 1); return;
    case 2: few_beside(q, right, count, left, sums, 2); return;
    case 3: few_beside(q, right, count, left, sums, 3); return;
    case 4: few_beside(q, right, count, left, sums, 4); return;
    case 5: few_beside(q, right, count, left, sums, 5); return;
    case 6: few_beside(q, right, count, left, sums, 6); return;
    case 7: few_beside(q, right, count, left, sums, 7); return;
    case 8: few_beside(q, right, count, left, sums, 8); return;
    }
}

// The terms of a row of left, and a vector of zeros.
static void few_row(const opwright_contraction *q, const elem *from, unit *to) {
    int64_t t = 0;
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

static void few_task(const void *context, int64_t task, int64_t worker) {
    const few *f = context;
    const opwright_contraction *q = f->q;
    real *sums = (real *)(void *)(f->workers + worker * f->worker_bytes), *terms = sums + q->rows * FEW_COLUMNS;
    unit *rows = (unit *)(void *)terms;
    int64_t left_at, right_at, out_at_;
    product_at(q, task / f->stretches, &left_at, &right_at, &out_at_);
    const bool beside = q->right_column == 1;
    const int64_t pitch = few_pitch(q), first = task % f->stretches * f->columns;
    const int64_t last = min(q->columns, first + f->columns);
    for (int64_t r = 0; r < q->rows; r++) {
        const elem *from = f->left + left_at + r * q->left_row;
        if (!beside)
            few_row(q, from, rows + r * pitch);
        else
            for (int64_t t = 0; t < q->terms; t++)
                terms[t * q->rows + r] = elem_get(from + t * q->left_term);
    }
    for (int64_t n = first; n < last; n += FEW_COLUMNS) {
        const int64_t count = min(FEW_COLUMNS, last - n);
        const elem *right = f->right + right_at + n * q->right_column;
        if (beside) {
            for (int64_t r = 0; r < q->rows; r++)
                clear(sums + r * FEW_COLUMNS, round_up(count, LANES));
            few_columns_beside(q, right, count, terms, sums);
        } else
            few_laned_rows(q, right, count, rows, pitch, sums, q->rows);
        put_rows(q, &f->out, out_at_ + n * q->out_column, sums, FEW_COLUMNS, q->rows, count, worker);
    }
}

static void few_rows(const opwright_contraction *q, int64_t products, const elem *left, const elem *right, sink out,
                     const opwright_team *team, void *scratch) {
    few f = {.q = q, .left = left, .right = right, .out = out, .workers = scratch};
    f.columns = few_columns(q, team ? team->workers : 1);
    f.stretches = ceil_div(q->columns, f.columns);
    f.worker_bytes = few_worker_bytes(q);
    opwright_run(team, few_task, &f, products * f.stretches);
}

#endif
