// Products of so few rows that reading right is most of the work: it is read once, in place, and nothing is packed.
//
// If columns are contiguous, sums of a block of columns stay in the cache while the terms are added, FEW_TERMS units of
// them at a time. If terms are contiguous, each column is a sum over lanes, FEW_SHARING rows at a time. A task is a block
// of columns of one product.

#ifndef OPWRIGHT_CONTRACTION_FEW_H
#define OPWRIGHT_CONTRACTION_FEW_H

enum { FEW_ROWS = 8 };
#if defined(OPWRIGHT_BYTES)
#include "contraction_few_bytes.h"
#else
#include "contraction_few_floats.h"
#endif
#include "contraction_few_lanes.h"

typedef struct few {
    const opwright_contraction *q;
    const elem *left, *right;
    sink out;
    int64_t columns, stretches; // of a task; of a product
    char *workers;
} few;

// A worker's scratch: sums of columns, and a copy of left.
static int64_t few_worker_bytes(const opwright_contraction *q) {
    return whole_lines(few_copied(q) * (FEW_COLUMNS + few_pitch(q)) * UNIT_BYTES);
}

// Units [t, t + many) of columns [0, count), whose sums are FEW_COLUMNS apart.
INLINE void few_terms(const opwright_contraction *q, const elem *right, int64_t t, int64_t count, const real *left, real *sums,
                      int rows, int many) {
    const int64_t step = FEW_GROUP * q->right_term, row = FEW_TURNED ? 1 : few_pitch(q), unit_step = FEW_TURNED ? rows : 1;
    right += t * step, left += t * unit_step;
    for (int64_t n = 0; n < count; n += FEW_STRETCH) {
        vec x[FEW_TERMS][FEW_VECTORS];
        if (count - n >= FEW_STRETCH && (t + many) * FEW_GROUP <= q->terms)
            UNROLL for (int i = 0; i < many; i++) few_read(q, right + i * step + n, q->right_term, x[i]);
        else
            UNROLL for (int i = 0; i < many; i++)
                few_read_part(q, right + i * step + n, q->terms - (t + i) * FEW_GROUP, count - n, x[i]);
        UNROLL for (int v = 0; v < FEW_VECTORS; v++) {
            real *const at = sums + n + v * LANES;
            vec sum[FEW_ROWS + 1];
            UNROLL for (int r = 0; r < rows; r++) sum[r] = vec_load(at + r * FEW_COLUMNS);
            UNROLL for (int a = 0; a < (FEW_TURNED ? many : rows); a++) UNROLL for (int b = 0; b < (FEW_TURNED ? rows : many); b++) {
                const int i = FEW_TURNED ? a : b, r = FEW_TURNED ? b : a; // cells of left as they lie
                sum[r] = few_added(sum[r], vec_splat(left[r * row + i * unit_step]), x[i][v]);
            }
            UNROLL for (int r = 0; r < rows; r++) vec_store(at + r * FEW_COLUMNS, sum[r]);
        }
    }
}

INLINE void few_beside(const opwright_contraction *q, const elem *right, int64_t count, const real *left, real *sums, int rows) {
    const int64_t units = ceil_div(q->terms, FEW_GROUP);
    int64_t t = 0;
    for (; t + FEW_TERMS <= units; t += FEW_TERMS)
        few_terms(q, right, t, count, left, sums, rows, FEW_TERMS);
    if (FEW_TERMS > 4 && t + 4 <= units)
        few_terms(q, right, t, count, left, sums, rows, 4), t += 4;
    if (FEW_TERMS > 4 && t + 2 <= units)
        few_terms(q, right, t, count, left, sums, rows, 2), t += 2;
    for (; t < units; t++)
        few_terms(q, right, t, count, left, sums, rows, 1);
}

// Of any number of rows.
static void few_columns_beside(const opwright_contraction *q, const elem *right, int64_t count, const real *left, real *sums) {
    switch (few_copied(q)) { // a literal
    case 1: few_beside(q, right, count, left, sums, 1); return;
    case 2: few_beside(q, right, count, left, sums, 2); return;
    case 3: few_beside(q, right, count, left, sums, 3); return;
    case 4: few_beside(q, right, count, left, sums, 4); return;
    case 5: few_beside(q, right, count, left, sums, 5); return;
    case 6: few_beside(q, right, count, left, sums, 6); return;
    case 7: few_beside(q, right, count, left, sums, 7); return;
    case 8: few_beside(q, right, count, left, sums, 8); return;
#if defined(OPWRIGHT_BYTES)
    case 9: few_beside(q, right, count, left, sums, 9); return;
#endif
    }
}

static void few_task(const void *context, int64_t task, int64_t worker) {
    const few *f = context;
    const opwright_contraction *q = f->q;
    const int64_t rows = few_copied(q), pitch = few_pitch(q), first = task % f->stretches * f->columns;
    const int64_t last = min(q->columns, first + f->columns);
    real *const sums = (real *)(void *)(f->workers + worker * few_worker_bytes(q)), *const left = sums + rows * FEW_COLUMNS;
    int64_t left_at, right_at, out_at_;
    product_at(q, task / f->stretches, &left_at, &right_at, &out_at_);
    for (int64_t r = 0; r < rows; r++)
        few_row(q, f->left + left_at, r, left);
    for (int64_t n = first; n < last; n += FEW_COLUMNS) {
        const int64_t count = min(FEW_COLUMNS, last - n);
        const elem *const right = f->right + right_at + n * q->right_column;
        if (q->right_column == 1) {
            for (int64_t r = 0; r < rows; r++)
                memset(sums + r * FEW_COLUMNS, 0, (size_t)round_up(count, FEW_STRETCH) * sizeof *sums);
            few_columns_beside(q, right, count, left, sums);
        } else
            few_laned_rows(q, right, count, (const unit *)(const void *)left, pitch, sums, rows);
        few_put(q, &f->out, out_at_ + n * q->out_column, left, sums, count, worker);
    }
}

static void few_rows(const opwright_contraction *q, int64_t products, const elem *left, const elem *right, sink out,
                     const opwright_team *team, void *scratch) {
    few f = {.q = q, .left = left, .right = right, .out = out, .workers = scratch};
    f.columns = few_columns(q, team ? team->workers : 1);
    f.stretches = ceil_div(q->columns, f.columns);
    opwright_run(team, few_task, &f, products * f.stretches);
}

#endif
