// The tiles of tile.h for bytes by matrix registers: up to 32 rows of scalars against a panel of two vectors.
//
// Bytes are multiplied as they are, signed or not, so nothing has to be corrected.

#ifndef OPWRIGHT_BYTES_AMX_H
#define OPWRIGHT_BYTES_AMX_H

#include "amx.h"
#include "tile.h"

// Products of four bytes, added: of signed or unsigned scalars by signed or unsigned vectors.
#define AMX_DOT_BYTES(sum, scalars, vectors)                  \
    if (left_signed && right_signed)                          \
        AMX_PRODUCT(tdpbssd, sum, scalars, vectors);        \
    else if (left_signed)                                     \
        AMX_PRODUCT(tdpbsud, sum, scalars, vectors);        \
    else if (right_signed)                                    \
        AMX_PRODUCT(tdpbusd, sum, scalars, vectors);        \
    else                                                      \
        AMX_PRODUCT(tdpbuud, sum, scalars, vectors)

// Units in whole registers: behind the last ones are zeros. Sums are added to `bias`, and go to `to`.
INLINE void amx_bytes(const operands *o, int32_t *to, int64_t to_row, int64_t rows, bool below, bool left_signed, bool right_signed) {
    const int32_t *const before = o->bias, *scalars = o->scalars, *vectors = o->vectors;
    const int64_t row = o->bias_row, pitch = o->scalar_row, units = o->runs->length;
    amx_configure(min(rows, AMX_ROWS), max(0, rows - AMX_ROWS), AMX_UNITS);
    amx_load_sums(before, row * 4, below, true);
    for (int64_t u = 0; u < units; u += AMX_UNITS, scalars += AMX_UNITS, vectors += 2 * LANES * AMX_UNITS) {
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
    amx_store_sums(to, to_row * 4, below, true);
}

#define OF_ROWS(BELOW, LEFT, RIGHT) amx_bytes(o, to, row, rows, BELOW, LEFT, RIGHT)
#define OF_SIGNS(LEFT, RIGHT) (rows > AMX_ROWS ? OF_ROWS(true, LEFT, RIGHT) : OF_ROWS(false, LEFT, RIGHT))
// Registers are stored to whole lines of memory, other sums through a buffer: 1000x1000x1000 0.65 of the time (Intel Xeon,
// Emerald Rapids, gcc 12.2).
static void amx_tile(const operands *o, int rows, int vectors) {
    int32_t buffer[2 * AMX_ROWS * 2 * LANES] __attribute__((aligned(64)));
    const bool whole = ((uintptr_t)o->out | (uintptr_t)o->out_row * 4) % 64 == 0 && !o->off;
    int32_t *const to = whole ? o->out : buffer;
    const int64_t row = whole ? o->out_row : 2 * LANES;
    if (o->left_signed)
        o->right_signed ? OF_SIGNS(true, true) : OF_SIGNS(true, false);
    else
        o->right_signed ? OF_SIGNS(false, true) : OF_SIGNS(false, false);
    for (int m = 0; m < rows && !whole; m++)
        for (int l = 0; l < vectors * LANES; l += LANES)
            vec_store((int32_t *)o->out + m * o->out_row + l, vec_load(buffer + m * row + l) + (o->off ? o->off[m] : 0));
}

#endif
