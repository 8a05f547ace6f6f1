// Many products of a few rows, columns and terms: their sums stay in registers, and both operands are read in place.
//
// A task is a group of products. What other ways set up for a product takes longer than its terms: 4096 products of
// 3x32 by 3 terms, f32, take 0.2 of the time of contraction_few.h (AMD Zen 5, gcc 12.2).

#ifndef OPWRIGHT_CONTRACTION_TINY_H
#define OPWRIGHT_CONTRACTION_TINY_H

#include "contraction_cells.h"
#include "tile.h"

enum {
    TINY_MAX = 1024,                           // terms of all cells of a product; with more, tiles are as fast:
                                               // 64x16 by 2 terms f32 121 ns, 197 here;
    TINY_FEW_ROWS = OPWRIGHT_PAIRS ? 4 : 8,    // but with so few rows up to
    TINY_FEW = OPWRIGHT_PAIRS ? 16384 : 32768, // 8x64 by 64 terms f32 0.58 of the time, 4x64 by 64 bf16 0.69,
    TINY_TERMS = 128,                          // 1x64 by 512 terms f32 1.18 (AMD Zen 5, gcc 12.2)
    TINY_SOME_ROWS = OPWRIGHT_PAIRS ? 0 : 16,  // and with so many rows and terms, and columns that fill no vectors, up to
    TINY_SOME_TERMS = 8, TINY_SOME = 8192,     // 9x17 by 11 f32 0.8, 13x5 by 29 0.7, 16x16 by 16 1.2 (Intel Xeon, gcc 12.2)
    TINY_CELLS = 48,                           // terms of all cells that are added up cell by cell, where no columns lie side by
                                               // side: 20000 products of 3x1 by 4 f32 0.45 of the time, 2x2 by 2 0.28,
                                               // 4x4 by 4 1.2 (Sapphire Rapids, gcc 12.2)
    TINY_GROUP = 8192,                         // of a task
    TINY_ROWS = VECTOR_BYTES == 64 ? 8 : 4,           // of a tile of one vector; half of them where it has two
};

typedef struct tiny {
    const opwright_contraction *q;
    const elem *left, *right;
    sink out;
    int64_t products, group;
    char *workers;
} tiny;

static bool tiny_fits(const opwright_contraction *q) {
    const bool some = q->rows <= TINY_SOME_ROWS && q->terms >= TINY_SOME_TERMS && q->columns % LANES;
    const int64_t most = q->rows <= TINY_FEW_ROWS ? TINY_FEW : some ? TINY_SOME : TINY_MAX;
    const int64_t each = q->rows * q->columns * q->terms;
    const bool fits = q->right_column == 1 ? q->terms <= TINY_TERMS && each <= most : each <= TINY_CELLS;
    return products_of(q) > 1 && q->terms > 0 && fits;
}

// Sums that are finished are put together first.
static int64_t tiny_worker_bytes(const opwright_contraction *q) {
    return q->finished ? whole_lines(q->rows * q->columns * UNIT_BYTES) : 0;
}

INLINE void tiny_tile(const opwright_contraction *q, const elem *left, const elem *right, int64_t count, vec *sums, int rows, int vectors) {
    vec sum[TINY_ROWS] = {{0}};
    const int64_t rest = count - (vectors - 1) * LANES;
    for (int64_t t = 0; t < q->terms; t++) {
        const elem *const scalars = left + t * q->left_term, *const from = right + t * q->right_term;
        vec x[2];
        UNROLL for (int v = 0; v < vectors - 1; v++)
            x[v] = elem_load(from + v * LANES);
        x[vectors - 1] = rest == LANES ? elem_load(from + (vectors - 1) * LANES) : elem_load_part(from + (vectors - 1) * LANES, rest);
        UNROLL for (int r = 0; r < rows; r++) {
            const vec scalar = vec_splat(elem_get(scalars + r * q->left_row));
            UNROLL for (int v = 0; v < vectors; v++)
                sum[r * vectors + v] = with_term(sum[r * vectors + v], scalar, x[v]);
        }
    }
    UNROLL for (int i = 0; i < rows * vectors; i++)
        sums[i] = sum[i];
}

// Of up to TINY_ROWS vectors of sums.
static void tiny_rows(const opwright_contraction *q, const elem *left, const elem *right, int64_t count, vec *sums, int64_t rows, int64_t vectors) {
    switch (rows) { // literals
    case 1: vectors == 1 ? tiny_tile(q, left, right, count, sums, 1, 1) : tiny_tile(q, left, right, count, sums, 1, 2); return;
    case 2: vectors == 1 ? tiny_tile(q, left, right, count, sums, 2, 1) : tiny_tile(q, left, right, count, sums, 2, 2); return;
#if VECTOR_BYTES == 64
    case 3: vectors == 1 ? tiny_tile(q, left, right, count, sums, 3, 1) : tiny_tile(q, left, right, count, sums, 3, 2); return;
    case 4: vectors == 1 ? tiny_tile(q, left, right, count, sums, 4, 1) : tiny_tile(q, left, right, count, sums, 4, 2); return;
    case 5: tiny_tile(q, left, right, count, sums, 5, 1); return;
    case 6: tiny_tile(q, left, right, count, sums, 6, 1); return;
    case 7: tiny_tile(q, left, right, count, sums, 7, 1); return;
    case 8: tiny_tile(q, left, right, count, sums, 8, 1); return;
#else
    case 3: tiny_tile(q, left, right, count, sums, 3, 1); return;
    case 4: tiny_tile(q, left, right, count, sums, 4, 1); return;
#endif
    }
}

// The same cell by cell.
static void tiny_cells(const opwright_contraction *q, const elem *left, const elem *right, char *out, real *together) {
    const int64_t rows = q->rows, columns = q->columns, terms = q->terms, left_term = q->left_term, right_term = q->right_term;
    const bool plain = sizeof(elem) == sizeof(real) || !q->elements;
    real *const sums = together ? together : (real *)(void *)out;
    const int64_t row = together ? columns : q->out_row, column = together ? 1 : q->out_column;
    for (int64_t m = 0; m < rows; m++)
        for (int64_t n = 0; n < columns; n++) {
            const elem *a = left + m * q->left_row, *b = right + n * q->right_column;
            vec sum = {0};
            for (int64_t t = 0; t < terms; t++, a += left_term, b += right_term)
                sum = with_term(sum, vec_splat(elem_get(a)), vec_splat(elem_get(b)));
            if (plain || together)
                sums[m * row + n * column] = sum[0];
            else
                store_cells(q, out + (m * row + n * column) * cell_size(q), sum, 1);
        }
}

// The sums of one product: to out, or row by row to `together` if they are to be finished.
static void tiny_product(const tiny *p, const elem *left, const elem *right, char *out, real *together) {
    const opwright_contraction *q = p->q;
    const int64_t size = cell_size(q);
    if (q->right_column != 1) {
        tiny_cells(q, left, right, out, together);
        return;
    }
    for (int64_t n = 0; n < q->columns; n += 2 * LANES) {
        const int64_t count = min(2 * LANES, q->columns - n), vectors = ceil_div(count, LANES), most = TINY_ROWS / vectors;
        for (int64_t m = 0, rows; m < q->rows; m += rows) {
            vec sums[TINY_ROWS];
            rows = min(most, q->rows - m);
            tiny_rows(q, left + m * q->left_row, right + n, count, sums, rows, vectors);
            for (int64_t r = 0; r < rows; r++)
                for (int64_t v = 0; v < vectors; v++) {
                    const int64_t at = n + v * LANES;
                    if (together)
                        vec_store_part(together + (m + r) * q->columns + at, sums[r * vectors + v], min(LANES, q->columns - at));
                    else
                        store_cells(q, out + ((m + r) * q->out_row + at * q->out_column) * size, sums[r * vectors + v], q->columns - at);
                }
        }
    }
}

static void tiny_task(const void *context, int64_t task, int64_t worker) {
    const tiny *p = context;
    const opwright_contraction *q = p->q;
    real *const together = (real *)(void *)(p->workers + worker * tiny_worker_bytes(q));
    const int64_t first = task * p->group, last = min(p->products, first + p->group), inner = q->batches - 1;
    int64_t left, right, out, at = first % q->batch[inner]; // along the innermost batches, whose products need no division
    product_at(q, first, &left, &right, &out);
    for (int64_t product = first; product < last; product++) {
        const elem *const from = p->left + left, *const other = p->right + right;
        if (!p->out.finish)
            tiny_product(p, from, other, p->out.out + out * cell_size(q), 0);
        else {
            tiny_product(p, from, other, 0, together);
            if (q->out_column == 1 && q->out_row == q->columns)
                put_sums(q, &p->out, out, together, q->rows * q->columns, worker);
            else
                for (int64_t m = 0; m < q->rows; m++)
                    put_sums(q, &p->out, out + m * q->out_row, together + m * q->columns, q->columns, worker);
        }
        if (++at < q->batch[inner])
            left += q->left_batch[inner], right += q->right_batch[inner], out += q->out_batch[inner];
        else if (at = 0, product + 1 < last)
            product_at(q, product + 1, &left, &right, &out);
    }
}

static void tiny_products(const opwright_contraction *q, int64_t products, const elem *left, const elem *right, sink out,
                          const opwright_team *team, void *scratch) {
    tiny p = {.q = q, .left = left, .right = right, .out = out, .products = products, .workers = scratch};
    p.group = max(1, TINY_GROUP / (q->rows * q->columns * q->terms));
    opwright_run(team, tiny_task, &p, ceil_div(products, p.group));
}

#endif
