// Many products whose cells lie side by side in all three arrays: each lane of a vector has a product of its own.
//
// A task has some vectors of products, and a block of rows and columns. It packs a chunk of terms of both operands, so
// that tiles read contiguous memory whatever the distances are, and adds up in a buffer until the last chunk.

#ifndef OPWRIGHT_CONTRACTION_LANES_H
#define OPWRIGHT_CONTRACTION_LANES_H

#include "contraction_cells.h"
#include "tile.h"

enum {
    LANED_TILE = VECTOR_BYTES == 32 ? 3 : 4, // rows and columns of a tile, whose sums are in registers
    LANED_VECTORS = 4,               // of a task
    LANED_ROWS = 4 * LANED_TILE,     // of a task
    LANED_COLUMNS = 8 * LANED_TILE,
    LANED_TERMS = 32,                // of a chunk
    LANED_LEAST = 4,                 // rows and columns, for which packing pays
};

typedef struct laned {
    opwright_contraction q; // the batches but that of the lanes
    int64_t lanes, groups;  // cells along that axis; groups of LANED_VECTORS vectors of it
    int64_t row_blocks, column_blocks;
    const elem *left, *right;
    sink out;
    char *workers;
} laned;

// The axis of batches along which the cells of all three lie side by side; -1 if there is none.
static int64_t laned_axis(const opwright_contraction *q) {
    for (int64_t b = 0; b < q->batches; b++)
        if (q->batch[b] >= LANES && q->left_batch[b] == 1 && q->right_batch[b] == 1 && q->out_batch[b] == 1)
            return q->rows >= LANED_LEAST && q->columns >= LANED_LEAST && q->terms > 0 ? b : -1;
    return -1;
}

static int64_t laned_worker_bytes(void) {
    return whole_lines((LANED_ROWS * LANED_COLUMNS + LANED_TERMS * (LANED_ROWS + LANED_COLUMNS)) * LANED_VECTORS * LANES * UNIT_BYTES);
}

// Terms of `count` rows or columns, vector by vector: [vector][term][row or column][lane].
static void laned_pack(const elem *from, int64_t term, int64_t each, int64_t terms, int64_t count, int64_t lanes, int64_t pitch,
                       real *to) {
    for (int64_t t = 0; t < terms; t++)
        for (int64_t i = 0; i < count; i++) {
            const elem *at = from + t * term + i * each;
            for (int64_t l = 0, v = 0; l < lanes; l += LANES, v++)
                vec_store(to + ((v * LANED_TERMS + t) * pitch + i) * LANES,
                          lanes - l >= LANES ? elem_load(at + l) : elem_load_part(at + l, lanes - l));
        }
}

INLINE void laned_tile(const real *left, const real *right, int64_t terms, bool first, real *sums, int rows, int columns) {
    vec sum[LANED_TILE][LANED_TILE];
    UNROLL for (int r = 0; r < rows; r++)
        UNROLL for (int c = 0; c < columns; c++)
            sum[r][c] = first ? (vec){0} : vec_load(sums + (r * LANED_COLUMNS + c) * LANES);
    for (int64_t t = 0; t < terms; t++, left += LANED_ROWS * LANES, right += LANED_COLUMNS * LANES) {
        vec x[LANED_TILE];
        UNROLL for (int r = 0; r < rows; r++)
            x[r] = vec_load(left + r * LANES);
        UNROLL for (int c = 0; c < columns; c++) {
            const vec y = vec_load(right + c * LANES);
            UNROLL for (int r = 0; r < rows; r++)
                sum[r][c] = with_term(sum[r][c], x[r], y);
        }
    }
    UNROLL for (int r = 0; r < rows; r++)
        UNROLL for (int c = 0; c < columns; c++)
            vec_store(sums + (r * LANED_COLUMNS + c) * LANES, sum[r][c]);
}

// The rest of columns one by one.
INLINE void laned_rows(const real *left, const real *right, int64_t terms, bool first, real *sums, int64_t columns, int rows) {
    int64_t c = 0;
    for (; c + LANED_TILE <= columns; c += LANED_TILE)
        laned_tile(left, right + c * LANES, terms, first, sums + c * LANES, rows, LANED_TILE);
    for (; c < columns; c++)
        laned_tile(left, right + c * LANES, terms, first, sums + c * LANES, rows, 1);
}

static void laned_rows_of_tile(const real *left, const real *right, int64_t terms, bool first, real *sums, int64_t columns, int64_t rows) {
    switch (rows) { // a literal
    case 1: laned_rows(left, right, terms, first, sums, columns, 1); return;
    case 2: laned_rows(left, right, terms, first, sums, columns, 2); return;
    case 3: laned_rows(left, right, terms, first, sums, columns, 3); return;
    default: laned_rows(left, right, terms, first, sums, columns, LANED_TILE);
    }
}

static void laned_task(const void *context, int64_t task, int64_t worker) {
    const laned *p = context;
    const opwright_contraction *q = &p->q;
    real *const sums = (real *)(void *)(p->workers + worker * laned_worker_bytes());
    real *const left = sums + LANED_ROWS * LANED_COLUMNS * LANED_VECTORS * LANES;
    real *const right = left + LANED_TERMS * LANED_ROWS * LANED_VECTORS * LANES;
    const int64_t lane = task % p->groups * LANED_VECTORS * LANES, lanes = min(LANED_VECTORS * LANES, p->lanes - lane);
    task /= p->groups;
    const int64_t row = task % p->row_blocks * LANED_ROWS, rows = min(LANED_ROWS, q->rows - row);
    task /= p->row_blocks;
    const int64_t column = task % p->column_blocks * LANED_COLUMNS, columns = min(LANED_COLUMNS, q->columns - column);
    int64_t left_at, right_at, out;
    product_at(q, task / p->column_blocks, &left_at, &right_at, &out);
    left_at += lane + row * q->left_row, right_at += lane + column * q->right_column;
    for (int64_t term = 0; term < q->terms; term += LANED_TERMS) {
        const int64_t terms = min(LANED_TERMS, q->terms - term);
        laned_pack(p->left + left_at + term * q->left_term, q->left_term, q->left_row, terms, rows, lanes, LANED_ROWS, left);
        laned_pack(p->right + right_at + term * q->right_term, q->right_term, q->right_column, terms, columns, lanes,
                   LANED_COLUMNS, right);
        for (int64_t v = 0; v * LANES < lanes; v++)
            for (int64_t r = 0; r < rows; r += LANED_TILE)
                laned_rows_of_tile(left + (v * LANED_TERMS * LANED_ROWS + r) * LANES,
                                   right + v * LANED_TERMS * LANED_COLUMNS * LANES, terms, term == 0,
                                   sums + (v * LANED_ROWS + r) * LANED_COLUMNS * LANES, columns, min(LANED_TILE, rows - r));
    }
    opwright_contraction along = *q;
    along.out_column = 1;
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; c < columns; c++) {
            real cell[LANED_VECTORS * LANES];
            for (int64_t v = 0; v * LANES < lanes; v++)
                vec_store(cell + v * LANES, vec_load(sums + ((v * LANED_ROWS + r) * LANED_COLUMNS + c) * LANES));
            put_sums(&along, &p->out, out + lane + (row + r) * q->out_row + (column + c) * q->out_column, cell, lanes, worker);
        }
}

static void laned_products(const opwright_contraction *q, int64_t axis, const elem *left, const elem *right, sink out,
                           const opwright_team *team, void *scratch) {
    laned p = {.q = *q, .left = left, .right = right, .out = out, .workers = scratch, .lanes = q->batch[axis]};
    p.q.batch[axis] = 1;
    p.groups = ceil_div(p.lanes, LANED_VECTORS * LANES);
    p.row_blocks = ceil_div(q->rows, LANED_ROWS), p.column_blocks = ceil_div(q->columns, LANED_COLUMNS);
    opwright_run(team, laned_task, &p, products_of(&p.q) * p.column_blocks * p.row_blocks * p.groups);
}

#endif
