// Tiles of scalars of several parts, each a matrix of 16 units of all rows of the tile: the parts of the first units, then
// those of the next ones, as contraction_split.h copies them. Included by tile_amx.h.

#ifndef OPWRIGHT_TILE_AMX_SPLIT_H
#define OPWRIGHT_TILE_AMX_SPLIT_H

#include "split.h"

// The first `parts` parts of each scalar against two vectors, or one; added to `sums` if these have begun.
INLINE void amx_sums_of_parts(const operands *o, int64_t vector, int rows, int parts, bool below, bool beside, float *sums) {
    const int64_t step = o->step * 4, part = rows * AMX_UNITS, all = o->split * part;
    const run *const r = o->runs;
    const unit *s = o->scalars + r->scalars / AMX_UNITS * all, *v = o->vectors + r->vectors + vector * LANES;
    uint32_t rest[AMX_UNITS * AMX_BLOCK * LANES] __attribute__((aligned(64)));
    amx_begin(o, below, beside, sums);
    for (int64_t left = r->length; left > 0; left -= AMX_UNITS, s += all, v += AMX_UNITS * o->step) {
        int64_t line = step;
        if (left < AMX_UNITS) {
            amx_fill((const float *)(const void *)v, o->step, left, beside ? 2 : 1, (float *)(void *)rest);
            v = rest, line = (beside ? 2 : 1) * LANES * 4;
        }
        AMX_LOAD(6, v, line);
        if (beside)
            AMX_LOAD(7, v + LANES, line);
        UNROLL for (int p = 0; p < parts; p++) {
            if (parts > 1)
                for (int u = p * AMX_UNITS / parts; u < (p + 1) * AMX_UNITS / parts; u++) {
                    __builtin_prefetch(v + (AMX_UNITS + u) * o->step);
                    if (beside)
                        __builtin_prefetch(v + (AMX_UNITS + u) * o->step + LANES);
                }
            AMX_LOAD(4, s + p * part, AMX_UNITS * 4);
            AMX_DOT(0, 4, 6);
            if (beside)
                AMX_DOT(1, 4, 7);
            if (below) {
                AMX_LOAD(5, s + p * part + AMX_ROWS * AMX_UNITS, AMX_UNITS * 4);
                AMX_DOT(2, 5, 6);
                if (beside)
                    AMX_DOT(3, 5, 7);
            }
        }
    }
    amx_store_sums(sums, AMX_SUMS_ROW, below, beside);
}

INLINE void amx_sums_of_all(const operands *o, int64_t vector, int rows, int parts, int wide, float *sums) {
    if (rows > AMX_ROWS)
        wide == 2 ? amx_sums_of_parts(o, vector, rows, parts, true, true, sums)
                  : amx_sums_of_parts(o, vector, rows, parts, true, false, sums);
    else
        wide == 2 ? amx_sums_of_parts(o, vector, rows, parts, false, true, sums)
                  : amx_sums_of_parts(o, vector, rows, parts, false, false, sums);
}

static __attribute__((noinline)) void amx_sums_of_first(const operands *o, int64_t vector, int rows, int wide, float *sums) {
    amx_sums_of_parts(o, vector, rows, 1, rows > AMX_ROWS, wide == 2, sums);
}

// Sums of all parts. One may be 0, and 0 times infinity is NaN: such sums are those of the first parts.
static void amx_split_sums(const operands *o, int64_t vector, int rows, int wide, float *sums) {
    float first[AMX_BLOCK * AMX_ROWS * AMX_BLOCK * LANES] __attribute__((aligned(64)));
    if (o->begun)
        memcpy(first, sums, (size_t)(rows * AMX_BLOCK * LANES) * sizeof *sums);
    if (o->split == ALL_PARTS)
        amx_sums_of_all(o, vector, rows, ALL_PARTS, wide, sums);
    else
        amx_sums_of_all(o, vector, rows, ROUNDED_PARTS, wide, sums);
    __mmask16 found = 0;
    for (int m = 0; m < rows; m++)
        for (int b = 0; b < wide; b++) {
            const __m512 x = _mm512_loadu_ps(sums + (m * AMX_BLOCK + b) * LANES);
            found |= _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q);
        }
    if (!found)
        return;
    amx_sums_of_first(o, vector, rows, wide, first);
    for (int i = 0; i < rows * AMX_BLOCK * LANES; i++)
        sums[i] = sums[i] != sums[i] ? first[i] : sums[i];
}

#endif
