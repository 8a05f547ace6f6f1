// Sums of few rows by columns whose terms are contiguous, over lanes: included where few_load and few_load_part read the units of
// a column's terms, and FEW_COLUMNS is the distance of rows of sums.

#ifndef OPWRIGHT_CONTRACTION_FEW_LANES_H
#define OPWRIGHT_CONTRACTION_FEW_LANES_H

enum {
    FEW_CHAINS = 4,      // independent accumulators
    FEW_STREAMS = VECTOR_BYTES == 64 ? 1 : 4, // columns that one or two rows read at the same time
    FEW_SHARING = 4,     // columns that share the loads of left, and rows those of right
    FEW_PAGE = 4096,            // bytes of memory whose addresses are looked up together,
    FEW_AHEAD = 8 * FEW_PAGE,   // and how far ahead
};
enum { FEW_UNIT_TERMS = LANES * UNIT_CHANNELS }; // terms of a vector

// Sums of columns over lanes, with enough accumulators to hide the latency of additions. Left has rows of `pitch`
// units, with zeros behind their terms. One column at a time is a single stream through memory, which is the bottleneck
// of few rows: eight at a time read 9 GB/s in place of 22 (AMD Zen 4, gcc 12.2, 1 x 4096 x 4096, bf16). A line of each page
// is prefetched that is so far behind it: where pages are small, the next one is known by then. That takes 0.63 of the time
// of prefetching each line of the next column, of 1 x 2048 x 11008 0.72, bf16 0.85 and 0.54 (AMD Zen 4), and prefetching that
// 0.82 and 0.69 of doing without (AMD Zen 5). Without AVX-512 it is FEW_STREAMS at a time: one reads
// 8 GB/s, four 12 to 15 (AMD Zen 3, gcc 12.2, the same of f32). With more rows,
// it is the loads of left: FEW_SHARING columns share them. A column adds in the same order whichever stands beside it.
// Lanes of FEW_SHARING columns are added up at a time.
INLINE void few_lanes(const opwright_contraction *q, const elem *right, const unit *left, int64_t pitch, vec (*sums)[FEW_SHARING],
                      int rows, int columns, int chains) {
    const int64_t column = q->right_column, terms = q->terms;
    vec sum[FEW_SHARING][FEW_SHARING][FEW_CHAINS];
    units x[FEW_SHARING];
    UNROLL for (int r = 0; r < rows; r++) UNROLL for (int c = 0; c < columns; c++) UNROLL for (int a = 0; a < chains; a++)
        sum[r][c][a] = (vec){0};
    int64_t t = 0;
    const int64_t bytes = max(column * (int64_t)sizeof *right, 1), ahead = ceil_div(FEW_AHEAD, bytes) * bytes;
    for (; t + chains * FEW_UNIT_TERMS <= terms; t += chains * FEW_UNIT_TERMS) {
        if (columns == 1 && FEW_STREAMS == 1 && (uintptr_t)(right + t) % FEW_PAGE < (uintptr_t)chains * VECTOR_BYTES)
            __builtin_prefetch((const void *)((uintptr_t)(right + t) + (uintptr_t)ahead));
        UNROLL for (int a = 0; a < chains; a++) {
            UNROLL for (int c = 0; c < columns; c++) x[c] = few_load(q, right + c * column + t + a * FEW_UNIT_TERMS);
            UNROLL for (int r = 0; r < rows; r++) {
                const units l = units_load(left + r * pitch + t / UNIT_CHANNELS + a * LANES);
                UNROLL for (int c = 0; c < columns; c++) sum[r][c][a] = fused(sum[r][c][a], l, x[c]);
            }
        }
    }
    for (; t < terms; t += FEW_UNIT_TERMS) {
        const int64_t there = min(FEW_UNIT_TERMS, terms - t);
        UNROLL for (int c = 0; c < columns; c++) x[c] = few_load_part(q, right + c * column + t, there);
        UNROLL for (int r = 0; r < rows; r++) {
            const units l = units_load(left + r * pitch + t / UNIT_CHANNELS);
            UNROLL for (int c = 0; c < columns; c++) sum[r][c][0] = fused(sum[r][c][0], l, x[c]);
        }
    }
    UNROLL for (int r = 0; r < rows; r++) UNROLL for (int c = 0; c < columns; c++) {
        UNROLL for (int a = 1; a < chains; a++) sum[r][c][0] += sum[r][c][a];
        sums[r][c] = sum[r][c][0];
    }
}

// The sums of up to FEW_SHARING columns.
INLINE void few_group(const opwright_contraction *q, const elem *right, int count, const unit *left, int64_t pitch, real *sums, int rows) {
    const int64_t column = q->right_column;
    vec sum[FEW_SHARING][FEW_SHARING] = {{{0}}};
    // As many columns as have their sums in registers: with 16 of them, two beside 4 rows 4x4096x1024 f32 take 0.75 of the
    // time, 6x2048x256 0.77; beside 3 rows 1.3.
    const int together = VECTOR_BYTES == 64 || rows < FEW_SHARING ? FEW_SHARING : FEW_SHARING / 2;
    const int chains = rows > 2 ? 1 : FEW_STREAMS == 1 ? FEW_CHAINS : FEW_STREAMS / 2 / rows;
    if ((rows > 2 || FEW_STREAMS > 1) && count == FEW_SHARING)
        UNROLL for (int c = 0; c < FEW_SHARING; c += together) {
            vec some[FEW_SHARING][FEW_SHARING];
            few_lanes(q, right + c * column, left, pitch, some, rows, together, chains);
            UNROLL for (int r = 0; r < rows; r++) UNROLL for (int b = 0; b < together; b++) sum[r][c + b] = some[r][b];
        }
    else
        UNROLL for (int c = 0; c < count; c++) {
            vec one[FEW_SHARING][FEW_SHARING];
            few_lanes(q, right + c * column, left, pitch, one, rows, 1, chains);
            UNROLL for (int r = 0; r < rows; r++) sum[r][c] = one[r][0];
        }
    UNROLL for (int r = 0; r < rows; r++) {
#if LANES == 2
        UNROLL for (int c = 0; c < count; c++) sums[r * FEW_COLUMNS + c] = sum[r][c][0] + sum[r][c][1];
#else
        const vec added = add_lanes(sum[r], count);
        memcpy(sums + r * FEW_COLUMNS, &added, (size_t)count * sizeof *sums);
#endif
    }
}

// Of all columns.
INLINE void few_laned(const opwright_contraction *q, const elem *right, int64_t count, const unit *left, int64_t pitch, real *sums,
                      int rows) {
    int64_t n = 0;
    for (; n + FEW_SHARING <= count; n += FEW_SHARING)
        few_group(q, right + n * q->right_column, FEW_SHARING, left, pitch, sums + n, rows);
    for (; n < count; n++)
        few_group(q, right + n * q->right_column, 1, left, pitch, sums + n, rows);
}

// Of any number of rows that share their columns.
static void few_laned_sharing(const opwright_contraction *q, const elem *right, int64_t count, const unit *left, int64_t pitch, real *sums,
                              int64_t rows) {
    switch (rows) { // a literal
    case 1: few_laned(q, right, count, left, pitch, sums, 1); return;
    case 2: few_laned(q, right, count, left, pitch, sums, 2); return;
    case 3: few_laned(q, right, count, left, pitch, sums, 3); return;
    case 4: few_laned(q, right, count, left, pitch, sums, 4); return;
    }
}

// `rows` rows of left, `each` of which share the loads of right.
static void few_laned_rows(const opwright_contraction *q, const elem *right, int64_t count, const unit *left, int64_t pitch, real *sums,
                           int64_t rows) {
    const int64_t each = rows <= FEW_SHARING ? count : FEW_SHARING;
    for (int64_t c = 0; c < count; c += each)
        for (int64_t r = 0; r < rows; r += FEW_SHARING)
            few_laned_sharing(q, right + c * q->right_column, min(each, count - c), left + r * pitch, pitch,
                              sums + r * FEW_COLUMNS + c, min(FEW_SHARING, rows - r));
}

#endif
