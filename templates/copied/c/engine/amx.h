// The matrix registers of AMX: 16 rows of 16 units by 16 units of 16 lanes. A unit is a pair of bf16, or four bytes.
//
// Compilers know no such register, so nothing but what includes this file uses any. 16 units of 16 rows against a vector
// of each take 5 ns; from the first-level cache 3,400 GFLOP/s of bf16 are reached, by vectors of pairs 115 (Intel Xeon
// with AMX, gcc 12.2).

#ifndef OPWRIGHT_AMX_H
#define OPWRIGHT_AMX_H

#include "amx_instructions.h"
#include "lanes.h"

enum {
    AMX_ROWS = 16,  // of a register, of 64 bytes each
    AMX_UNITS = 16, // of a row
};

// As the instruction reads it.
typedef struct amx_shapes {
    uint8_t palette, start_row, reserved[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
} amx_shapes;

// The registers: sums 0 to 3; scalars 4 and 5; vectors 6 and 7.
#define AMX_DOT(sum, scalars, vectors) AMX_PRODUCT(tdpbf16ps, sum, scalars, vectors)

// How many units of a run of `length` are multiplied at a time, which decides how its terms are rounded: all at once, or the
// largest part of which nothing is left, unless that takes more than two products more, which is what a rest costs.
INLINE int64_t amx_units(int64_t length) {
    if (length <= AMX_UNITS)
        return length;
    for (uint32_t all = (uint32_t)length, units = AMX_UNITS; all / units <= all / AMX_UNITS + 2; units--)
        if (all % units == 0)
            return units;
    return AMX_UNITS;
}

// `rows` rows of the sums 0 and 1 and of the scalars 4, `below` of the sums 2 and 3 and of the scalars 5, products of
// `units` units. To read the shapes takes 5 ns, to write them 45, and neighbouring tiles mostly agree.
INLINE void amx_configure(int64_t rows, int64_t below, int64_t units) {
    amx_shapes shapes = {.palette = 1}, before;
    for (int t = 0; t < 8; t++) {
        const int64_t here = t >= 6 ? units : t < 2 || t == 4 ? rows : below;
        shapes.rows[t] = (uint8_t)here;
        shapes.row_bytes[t] = (uint16_t)(here == 0 ? 0 : t == 4 || t == 5 ? 4 * units : 64);
    }
    AMX_SHAPES(before);
    if (memcmp(&shapes, &before, sizeof shapes) != 0)
        AMX_SHAPE(shapes);
}

// The sums 0 and, beside it, 1, and below these 2 and 3: from memory, whose rows are `row` bytes apart,
INLINE void amx_load_sums(const void *from, int64_t row, bool below, bool beside) {
    const char *const first = from, *const second = first + AMX_ROWS * row;
    AMX_LOAD(0, first, row);
    if (beside)
        AMX_LOAD(1, first + 4 * LANES, row);
    if (below) {
        AMX_LOAD(2, second, row);
        if (beside)
            AMX_LOAD(3, second + 4 * LANES, row);
    }
}

// and back.
INLINE void amx_store_sums(void *to, int64_t row, bool below, bool beside) {
    char *const first = to, *const second = first + AMX_ROWS * row;
    AMX_STORE(0, first, row);
    if (beside)
        AMX_STORE(1, first + 4 * LANES, row);
    if (below) {
        AMX_STORE(2, second, row);
        if (beside)
            AMX_STORE(3, second + 4 * LANES, row);
    }
}

// Vectors of `units` units, fewer than a register has, `wide` of each side by side, and zeros behind them.
INLINE void amx_fill(const real *from, int64_t step, int64_t units, int wide, real *to) {
    for (int64_t u = 0; u < AMX_UNITS; u++)
        for (int v = 0; v < wide; v++, to += LANES)
            vec_store(to, u < units ? vec_load(from + u * step + v * LANES) : (vec){0});
}

#endif
