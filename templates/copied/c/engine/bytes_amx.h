// The tiles of contraction_bytes.c by matrix registers: up to 32 rows of scalars against a panel of two vectors.
//
// Bytes are multiplied as they are, signed or not, so nothing has to be corrected.

#ifndef OPWRIGHT_BYTES_AMX_H
#define OPWRIGHT_BYTES_AMX_H

#include "amx.h"

// Products of four bytes, added: of signed or unsigned scalars by signed or unsigned vectors.
#define AMX_DOT_BYTES(sum, scalars, vectors)                  \
    if (left_signed && right_signed)                          \
        AMX_PRODUCT("tdpbssd", sum, scalars, vectors);        \
    else if (left_signed)                                     \
        AMX_PRODUCT("tdpbsud", sum, scalars, vectors);        \
    else if (right_signed)                                    \
        AMX_PRODUCT("tdpbusd", sum, scalars, vectors);        \
    else                                                      \
        AMX_PRODUCT("tdpbuud", sum, scalars, vectors)

// Units in whole registers: behind the last ones are zeros. Rows of scalars are `pitch` bytes apart. Sums of the
// chunks before are in `sums`, and those with this chunk go to `to`.
INLINE void amx_bytes(const int32_t *scalars, int64_t pitch, const ivec *panel, int64_t units, const int32_t *sums, int64_t row,
                      int32_t *to, int64_t to_row, bool begins, int64_t rows, bool below, bool left_signed, bool right_signed) {
    amx_configure(min(rows, AMX_ROWS), max(0, rows - AMX_ROWS), AMX_UNITS);
    if (begins) {
        AMX_CLEAR(0);
        AMX_CLEAR(1);
        if (below) {
            AMX_CLEAR(2);
            AMX_CLEAR(3);
        }
    } else {
        AMX_LOAD(0, sums, row * 4);
        AMX_LOAD(1, sums + LANES, row * 4);
        if (below) {
            AMX_LOAD(2, sums + AMX_ROWS * row, row * 4);
            AMX_LOAD(3, sums + AMX_ROWS * row + LANES, row * 4);
        }
    }
    for (int64_t u = 0; u < units; u += AMX_UNITS, scalars += AMX_UNITS, panel += 2 * AMX_UNITS) {
        const int32_t *const vectors = (const int32_t *)(const void *)panel;
        AMX_LOAD(4, scalars, pitch);
        AMX_LOAD(6, vectors, 2 * LANES * 4);
        AMX_LOAD(7, vectors + LANES, 2 * LANES * 4);
        AMX_DOT_BYTES(0, 4, 6);
        AMX_DOT_BYTES(1, 4, 7);
        if (below) {
            AMX_LOAD(5, (const char *)scalars + AMX_ROWS * pitch, pitch);
            AMX_DOT_BYTES(2, 5, 6);
            AMX_DOT_BYTES(3, 5, 7);
        }
    }
    AMX_STORE(0, to, to_row * 4);
    AMX_STORE(1, to + LANES, to_row * 4);
    if (below) {
        AMX_STORE(2, to + AMX_ROWS * to_row, to_row * 4);
        AMX_STORE(3, to + AMX_ROWS * to_row + LANES, to_row * 4);
    }
}

#endif
