// Products of so few rows that reading right is most of the work: it is read once, in place, and nothing is packed.
//
// If columns are contiguous, sums of a block of columns stay in the cache while the terms are added, TERMS at a time.
// If terms are contiguous, each column is a sum over lanes. A task is a block of columns of one product.

#ifndef OPWRIGHT_CONTRACTION_FEW_H
#define OPWRIGHT_CONTRACTION_FEW_H

#include "contraction_cells.h"

enum {
    FEW_ROWS = 8,
    FEW_PAIRED = 4,      // rows beyond which tiles of pairs are faster if right is in the cache: 5x64x128 bf16 1.55, 8x200x64 1.5 times
    FEW_NEAR = 128 << 10, // bytes of right (AMD Zen 4, gcc 12.2)
    FEW_TERMS = 8,       // rows of right that are read at the same time
    FEW_LANED = 128,     // minimum terms per row for a sum over lanes
    FEW_COLUMNS = 1024,  // of a task where columns lie side by side
    FEW_CHAINS = 4,      // independent accumulators
    FEW_BOTH = 2,        // columns that share the loads of left
    FEW_LEFT = 65536,    // cells of left that are read again for each column
    FEW_SHARED = 64,     // minimum columns for a copy of left
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
    return q->rows <= FEW_ROWS && q->columns > q->rows && q->terms > 0 && (q->right_column == 1 || lanes);
}

static int64_t few_columns(const opwright_contraction *q) {
    if (q->right_column == 1)
        return FEW_COLUMNS;
    return max(FEW_SHARED, FEW_BYTES / (q->terms * (int64_t)sizeof(elem)));
}

// A worker's scratch: a widened copy of left, and sums of columns.
static int64_t few_worker_bytes(const opwright_contraction *q) {
    return (q->rows * ((q->terms + LANES) * 4 + FEW_COLUMNS * 4) + 63) & ~(int64_t)63;
}

// Columns [0, count), `rows` at a time, whose sums are `FEW_COLUMNS` apart. Left lies term by term.
INLINE void few_terms(const elem *right, int64_t term, int64_t terms, int64_t count, const float *left, float *sums, int rows,
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
                    sum[r] += vec_splat(left[t * rows + r]) * x;
            }
        } else {
            for (int64_t t = 0; t < terms; t++) {
                const vec x = elem_load_part(right + t * term + n, there);
                UNROLL for (int r = 0; r < rows; r++)
                    sum[r] += vec_splat(left[t * rows + r]) * x;
            }
        }
        UNROLL for (int r = 0; r < rows; r++)
            vec_store(sums + r * FEW_COLUMNS + n, sum[r]);
    }
}

INLINE void few_beside(const opwright_contraction *q, const elem *right, int64_t count, const float *left, float *sums, int rows) {
    int64_t t = 0;
    for (; t + FEW_TERMS <= q->terms; t += FEW_TERMS)
        few_terms(right + t * q->right_term, q->right_term, FEW_TERMS, count, left + t * rows, sums, rows, true);
    if (t < q->terms)
        few_terms(right + t * q->right_term, q->right_term, q->terms - t, count, left + t * rows, sums, rows, false);
}

INLINE float lanes_added(vec v) {
    float x[LANES];
    vec_store(x, v);
    for (int64_t width = LANES / 2; width > 0; width /= 2)
        for (int64_t i = 0; i < width; i++)
            x[i] += x[i + width];
    return x[0];
}

// Sums of columns over lanes, with enough accumulators to hide the latency of additions. Left has rows of `pitch`
// cells. One column at a time is a single stream through memory, which is the bottleneck of few rows: eight at a time
// read 9 GB/s in place of 22 (AMD Zen 4, gcc 12.2, 1 x 4096 x 4096, bf16). With more rows, it is the loads of left:
// two columns share them. A column adds in the same order whichever stands beside it.
INLINE void few_lanes(const elem *right, int64_t column, int64_t terms, const float *left, int64_t pitch, float *sums, int rows,
                      int columns, int chains) {
    vec sum[FEW_ROWS][FEW_BOTH][FEW_CHAINS], x[FEW_BOTH];
    UNROLL for (int r = 0; r < rows; r++) UNROLL for (int c = 0; c < columns; c++) UNROLL for (int a = 0; a < chains; a++)
        sum[r][c][a] = (vec){0};
    int64_t t = 0;
    for (; t + chains * LANES <= terms; t += chains * LANES)
        UNROLL for (int a = 0; a < chains; a++) {
            UNROLL for (int c = 0; c < columns; c++) x[c] = elem_load(right + c * column + t + a * LANES);
            UNROLL for (int r = 0; r < rows; r++) {
                const vec l = vec_load(left + r * pitch + t + a * LANES);
                UNROLL for (int c = 0; c < columns; c++) sum[r][c][a] += l * x[c];
            }
        }
    for (; t < terms; t += LANES) {
        const int64_t there = min(LANES, terms - t);
        UNROLL for (int c = 0; c < columns; c++) x[c] = elem_load_part(right + c * column + t, there);
        UNROLL for (int r = 0; r < rows; r++) {
            const vec l = vec_load_part(left + r * pitch + t, there);
            UNROLL for (int c = 0; c < columns; c++) sum[r][c][0] += l * x[c];
        }
    }
    UNROLL for (int r = 0; r < rows; r++) UNROLL for (int c = 0; c < columns; c++) {
        UNROLL for (int a = 1; a < chains; a++) sum[r][c][0] += sum[r][c][a];
        sums[r * FEW_COLUMNS + c] = lanes_added(sum[r][c][0]);
    }
}

// The functions for a number of rows.
#define FEW(ROWS)                                                                                                      \
    static void few_beside_##ROWS(const opwright_contraction *q, const elem *right, int64_t count, const float *left,  \
                                  float *sums) {                                                                       \
        few_beside(q, right, count, left, sums, ROWS);                                                                 \
    }                                                                                                                  \
    static void few_lanes_##ROWS(const opwright_contraction *q, const elem *right, int64_t count, const float *left,   \
                                 float *sums) {                                                                        \
        const int chains = ROWS <= 2 ? FEW_CHAINS : ROWS <= 4 ? FEW_CHAINS / 2 : 1;                                    \
        const int64_t column = q->right_column, pitch = q->terms + LANES;                                              \
        int64_t n = 0;                                                                                                 \
        for (; ROWS > 2 && n + FEW_BOTH <= count; n += FEW_BOTH)                                                       \
            few_lanes(right + n * column, column, q->terms, left, pitch, sums + n, ROWS, FEW_BOTH, chains);            \
        for (; n < count; n++)                                                                                         \
            few_lanes(right + n * column, column, q->terms, left, pitch, sums + n, ROWS, 1, chains);                   \
    }
FEW(1) FEW(2) FEW(3) FEW(4)
FEW(5) FEW(6) FEW(7) FEW(8)

typedef void few_function(const opwright_contraction *q, const elem *right, int64_t count, const float *left, float *sums);
static few_function *const FEW_BESIDE[] = {0, few_beside_1, few_beside_2, few_beside_3, few_beside_4,
                                           few_beside_5, few_beside_6, few_beside_7, few_beside_8};
static few_function *const FEW_LANES[] = {0, few_lanes_1, few_lanes_2, few_lanes_3, few_lanes_4,
                                          few_lanes_5, few_lanes_6, few_lanes_7, few_lanes_8};

static void few_task(const void *context, int64_t task, int64_t worker) {
    const few *f = context;
    const opwright_contraction *q = f->q;
    float *sums = (float *)(void *)(f->workers + worker * f->worker_bytes), *copy = sums + q->rows * FEW_COLUMNS;
    int64_t left_at, right_at, out_at_;
    product_at(q, task / f->stretches, &left_at, &right_at, &out_at_);
    const bool beside = q->right_column == 1;
    const int64_t pitch = q->terms + LANES, first = task % f->stretches * f->columns;
    const int64_t last = min(q->columns, first + f->columns);
    for (int64_t r = 0; r < q->rows; r++) {
        const elem *from = f->left + left_at + r * q->left_row;
        int64_t t = 0;
        if (!beside && q->left_term == 1)
            for (; t + LANES <= q->terms; t += LANES)
                vec_store(copy + r * pitch + t, elem_load(from + t));
        for (; t < q->terms; t++)
            copy[beside ? t * q->rows + r : r * pitch + t] = elem_get(from + t * q->left_term);
    }
    for (int64_t n = first; n < last; n += FEW_COLUMNS) {
        const int64_t count = min(FEW_COLUMNS, last - n);
        if (beside)
            memset(sums, 0, (size_t)(q->rows * FEW_COLUMNS) * sizeof *sums);
        (beside ? FEW_BESIDE : FEW_LANES)[q->rows](q, f->right + right_at + n * q->right_column, count, copy, sums);
        for (int64_t r = 0; r < q->rows; r++)
            put_sums(q, &f->out, out_at_ + r * q->out_row + n * q->out_column, sums + r * FEW_COLUMNS, count, worker);
    }
}

static void few_rows(const opwright_contraction *q, int64_t products, const elem *left, const elem *right, sink out,
                     const opwright_team *team, void *scratch) {
    few f = {.q = q, .left = left, .right = right, .out = out, .workers = scratch};
    f.columns = few_columns(q);
    f.stretches = ceil_div(q->columns, f.columns);
    f.worker_bytes = few_worker_bytes(q);
    opwright_run(team, few_task, &f, products * f.stretches);
}

#endif
