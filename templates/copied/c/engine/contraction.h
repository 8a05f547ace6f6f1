// Sums of products of two arrays: out[i, m, n] = sum over k of left[i, m, k] * right[i, k, n].
//
// Any array may have any distances between its cells, of either sign, 0 included for the two that are read. Rows are
// the axis that only left and out have, columns the one that only right and out have, batches those of all three.
//
// Sums are made in float, of bytes in integers: what a cell adds, and in which order, follows from the number of terms alone, never from the
// number of workers or the distances. `scratch` is memory of at least the bytes that the function of the same name tells
// for team->workers (1 where team is NULL), aligned to 64 bytes.

#ifndef OPWRIGHT_CONTRACTION_H
#define OPWRIGHT_CONTRACTION_H

#include <stdint.h>

#include "names.h"
#include "opwright_product.h"

enum {
    OPWRIGHT_MAX_BATCHES = 8, // axes of batches
    OPWRIGHT_MAX_COPIED = 16, // axes of an operand that is copied
};

// An operand that is copied first: its axes as they are, which then lie without gaps, the last one fastest.
typedef struct opwright_copied {
    int64_t wanted; // 0: the operand is read where it is; 1: copied; 2, 3, 4, 5: it is bf16, f16, s8, u8, and widened to float
    int64_t axes;
    int64_t extent[16], step[16];
    int64_t first; // where its cells begin
} opwright_copied;

typedef struct opwright_contraction {
    int64_t rows, columns, terms; // extents
    // Distances between neighbours, in elements.
    int64_t left_row, left_term, right_term, right_column, out_row, out_column;
    int64_t elements; // whether out is of the dtype of left and right; otherwise it is float
    int64_t finished; // whether sums go to what finishes them: distances in out are those of its cells
    int64_t batches;  // axes, the first outermost
    int64_t batch[8], left_batch[8], right_batch[8], out_batch[8];
    // Of bytes: whether they are signed, and what sums are in out: 0 s32, 1 f32, 2 s64, 3 f64.
    int64_t left_signed, right_signed, sums;
    opwright_copied left, right; // the distances above are those of the copies
} opwright_contraction;

// `problem` is an opwright_contraction.
opwright_product_function OPWRIGHT_NAME(contract);
int64_t OPWRIGHT_NAME(contract_scratch)(const void *problem, int64_t workers);

#endif
