// The addresses of a contraction's cells, and how they are written.

#ifndef OPWRIGHT_CONTRACTION_CELLS_H
#define OPWRIGHT_CONTRACTION_CELLS_H

#include "contraction.h"
#include "problem.h"
#include "tile.h"
#if !defined(OPWRIGHT_BYTES)
#include "units.h"
#endif

enum {
    TURNED_ROWS = 64, // of sums that are transposed at a time
    TURNED_LEAST = 4, // rows and columns of which some are: 4000x333 to 10 columns with a bias f32 0.58 of the time, f64 0.83,
                      // 300 products of 9x70 by 64 terms f32 0.85, bf16 0.72, of 5 rows 0.9 (Intel Xeon, gcc 12.2)
};

// The bytes of a cell of out.
static inline int64_t cell_size(const opwright_contraction *q) {
#if defined(OPWRIGHT_BYTES)
    return q->sums < 2 ? 4 : 8;
#else
    return q->elements ? (int64_t)sizeof(elem) : (int64_t)sizeof(real);
#endif
}

// The transposed product: columns and rows exchanged, right and left.
static inline void exchange(opwright_contraction *q) {
    const opwright_contraction old = *q;
    q->rows = old.columns, q->columns = old.rows;
    q->left_row = old.right_column, q->left_term = old.right_term;
    q->right_column = old.left_row, q->right_term = old.left_term;
    q->out_row = old.out_column, q->out_column = old.out_row;
    q->left_signed = old.right_signed, q->right_signed = old.left_signed;
    q->left_zero = old.right_zero, q->right_zero = old.left_zero;
    q->split = old.split ? 3 - old.split : 0;
    memcpy(q->left_batch, old.right_batch, sizeof q->left_batch);
    memcpy(q->right_batch, old.left_batch, sizeof q->right_batch);
}

// Entries of all batches.
static inline int64_t products_of(const opwright_contraction *q) {
    int64_t products = 1;
    for (int64_t b = 0; b < q->batches; b++)
        products *= q->batch[b];
    return products;
}

// The first cells of a product's arrays.
static inline void product_at(const opwright_contraction *q, int64_t product, int64_t *left, int64_t *right, int64_t *out) {
    *left = *right = *out = 0;
    for (int64_t b = q->batches - 1; b >= 0; b--) {
        const int64_t i = product % q->batch[b];
        product /= q->batch[b];
        *left += i * q->left_batch[b], *right += i * q->right_batch[b], *out += i * q->out_batch[b];
    }
}

// The destination of sums: cells of `out`, or a finishing function, which counts cells from `first`.
typedef struct sink {
    char *out;
    int64_t first;
    opwright_finish *finish;
    const void *context;
} sink;

static inline sink sink_at(const opwright_contraction *q, sink s, int64_t at) {
    if (!s.finish)
        s.out += at * cell_size(q);
    s.first += at;
    return s;
}

#if !defined(OPWRIGHT_BYTES) // whose sums are converted
// A vector of sums to `count` cells of out, or as many as it has.
static inline void store_cells(const opwright_contraction *q, char *out, vec sums, int64_t count) {
    const int64_t step = q->out_column;
    if (q->elements) {
        store_line((elem *)(void *)out, step, sums, count);
        return;
    }
    real *to = (real *)(void *)out;
    if (step == 1)
        count >= LANES ? vec_store(to, sums) : vec_store_part(to, sums, count);
    else
        for (int64_t i = 0; i < min(count, LANES); i++)
            to[i * step] = sums[i];
}

// `count` sums to cells along the columns.
static inline void put_sums(const opwright_contraction *q, const sink *s, int64_t at, const real *sums, int64_t count, int64_t worker) {
    if (!s->finish)
        for (int64_t i = 0; i < count; i += LANES)
            store_cells(q, s->out + (at + i * q->out_column) * cell_size(q), vec_load(sums + i), count - i);
    else if (q->out_column == 1)
        s->finish(s->context, s->first + at, count, sums, worker);
    else
        for (int64_t i = 0; i < count; i++)
            s->finish(s->context, s->first + at + i * q->out_column, 1, sums + i, worker);
}

// Sums of rows that are neighbours in out: turned, so that whole lines are written. Where these follow one another, as many
// as are turned at a time are one line.
static void put_turned(const opwright_contraction *q, const sink *s, int64_t at, const real *sums, int64_t pitch, int64_t rows,
                       int64_t columns, int64_t worker) {
    opwright_contraction turned = *q;
    exchange(&turned);
    real cells[LANES * TURNED_ROWS];
    for (int64_t m = 0; m < rows; m += TURNED_ROWS)
        for (int64_t n = 0; n < columns; n += LANES) {
            const int64_t count = min(TURNED_ROWS, rows - m), lines = min(LANES, columns - n);
            for (int64_t i = 0; i < count; i += LANES) {
                vec x[LANES];
                UNROLL for (int64_t l = 0; l < LANES; l++)
                    x[l] = vec_load(sums + min(m + i + l, rows - 1) * pitch + n);
                vec_transpose(x);
                UNROLL for (int64_t l = 0; l < LANES; l++)
                    vec_store_part(cells + l * count + i, x[l], min(LANES, count - i));
            }
            const bool one = q->out_column == count;
            for (int64_t l = 0; l < (one ? 1 : lines); l++)
                put_sums(&turned, s, at + m + (n + l) * q->out_column, cells + l * count, one ? lines * count : count, worker);
        }
}

// Sums of `rows` rows, `pitch` apart, of `columns` columns each.
static void put_rows(const opwright_contraction *q, const sink *s, int64_t at, const real *sums, int64_t pitch, int64_t rows,
                     int64_t columns, int64_t worker) {
    if (q->out_column != 1 && q->out_row == 1 && rows >= TURNED_LEAST && columns >= TURNED_LEAST)
        put_turned(q, s, at, sums, pitch, rows, columns, worker);
    else
        for (int64_t m = 0; m < rows; m++)
            put_sums(q, s, at + m * q->out_row, sums + m * pitch, columns, worker);
}
#endif

#endif
