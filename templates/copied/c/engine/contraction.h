// Sums of products of two arrays: out[i, m, n] = sum over k of left[i, m, k] * right[i, k, n].
//
// Any array may have any strides, of either sign; the two operands may also have strides of 0. Rows are
// the axis of left and out only, columns that of right and out only, batches the axes of all three.
//
// Sums use float, for f64 double, for integers and bytes integers. The terms of a cell and their order depend only on the number of terms, never on
// the number of workers or the strides. `scratch` has at least the bytes that the function of the same name returns
// for team->workers (1 if team is NULL), aligned to 64 bytes.

#ifndef OPWRIGHT_CONTRACTION_H
#define OPWRIGHT_CONTRACTION_H

#include <stdint.h>

#include "names.h"
#include "opwright_product.h"

enum {
    OPWRIGHT_MAX_BATCHES = 8, // axes of batches
    OPWRIGHT_MAX_COPIED = 16, // axes of an operand that is copied
};

// An operand that is copied first: its original axes; the copy has no gaps, the last axis fastest. If it is bounded, cells
// outside [begin, end) of an axis are not read, and `fill` in the copy.
typedef struct opwright_copied {
    int64_t wanted; // 0: the operand is read in place; 1: copied; 2 to 6: it is bf16, f16, s8, u8, f32, and widened to the type of sums
    int64_t axes;
    int64_t extent[16], step[16];
    int64_t first; // its first cell
    int64_t bounded, begin[16], end[16], fill;
} opwright_copied;

typedef struct opwright_contraction {
    int64_t rows, columns, terms; // extents
    // Strides, in elements.
    int64_t left_row, left_term, right_term, right_column, out_row, out_column;
    int64_t elements; // whether out is of the dtype of left and right; otherwise it is of the type of sums
    int64_t finished; // whether a finishing function takes the sums: strides of out are then those of its cells
    int64_t batches;  // axes, the first outermost
    int64_t batch[8], left_batch[8], right_batch[8], out_batch[8];
    // For bytes: whether they are signed, and the type of sums in out: 0 s32, 1 f32, 2 s64, 3 f64.
    int64_t left_signed, right_signed, sums;
    int64_t left_zero, right_zero; // subtracted from each element
    int64_t swapped;               // for bytes and blocks: whether the given left is right here, and right left
    // For bf16 with matrix registers: 1 or 2 if left or right has floats, each of which is three bf16: contraction_split.h.
    int64_t split;
    // If there are axes of terms, they and those of rows take the place of the strides of left: its windows overlap.
    int64_t row_axes, row_extent[8], row_step[8], term_axes, term_extent[8], term_step[8];
    opwright_copied left, right; // the strides above are those of the copies
} opwright_contraction;

// `problem` is an opwright_contraction.
opwright_product_function OPWRIGHT_NAME(contract);
int64_t OPWRIGHT_NAME(contract_scratch)(const void *problem, int64_t workers);

// The same by blocks of rows: contraction_blocks.h.
opwright_pack_function OPWRIGHT_NAME(contract_pack);
opwright_block_function OPWRIGHT_NAME(contract_block);
int64_t OPWRIGHT_NAME(contract_rows)(const void *problem, int64_t tasks, const int64_t *cells);
int64_t OPWRIGHT_NAME(contract_packed)(const void *problem, int64_t products);
int64_t OPWRIGHT_NAME(contract_copied)(const void *problem);
int64_t OPWRIGHT_NAME(contract_block_scratch)(const void *problem, int64_t rows);

#endif
