// The tiles of weights.c by matrix registers: up to 16 rows by four vectors of lanes.
//
// Rows lie pixel by pixel, as panels do, and the instruction wants them row by row: up to 16 pairs of pixels are transposed
// at a time, as many as divide the first run. What is left of a run is multiplied beside zeros.

#ifndef OPWRIGHT_WEIGHTS_AMX_H
#define OPWRIGHT_WEIGHTS_AMX_H

#include "amx.h"

// `units` pairs of pixels of rows and of a panel, at most as many as registers have.
INLINE void amx_outer(const float *row, int64_t row_step, int rows, const float *panel, int64_t panel_step, int vectors,
                      int64_t units, int64_t all) {
    float left[AMX_ROWS * AMX_UNITS] __attribute__((aligned(64)));
    float right[AMX_UNITS * 4 * LANES] __attribute__((aligned(64)));
    vec x[AMX_UNITS];
    UNROLL for (int u = 0; u < AMX_UNITS; u++)
        x[u] = u >= units ? (vec){0} : rows == AMX_ROWS ? vec_load(row + u * row_step) : vec_load_part(row + u * row_step, rows);
    vec_transpose(x);
    UNROLL for (int m = 0; m < AMX_ROWS; m++) vec_store(left + m * AMX_UNITS, x[m]);
    if (units < all) {
        amx_fill(panel, panel_step, units, vectors, right);
        panel = right, panel_step = vectors * LANES;
    }
    AMX_LOAD(4, left, AMX_UNITS * 4);
    AMX_LOAD(6, panel, panel_step * 4);
    AMX_DOT(0, 4, 6);
    if (vectors > 1) {
        AMX_LOAD(7, panel + LANES, panel_step * 4);
        AMX_DOT(1, 4, 7);
    }
    if (vectors > 2) {
        AMX_LOAD(6, panel + 2 * LANES, panel_step * 4);
        AMX_DOT(2, 4, 6);
    }
    if (vectors > 3) {
        AMX_LOAD(7, panel + 3 * LANES, panel_step * 4);
        AMX_DOT(3, 4, 7);
    }
}

INLINE void amx_sums(const operands *t, int rows, int vectors) {
    float sums[AMX_ROWS * 4 * LANES] __attribute__((aligned(64)));
    const int64_t all = amx_units(t->count > 0 ? t->runs->count : AMX_UNITS);
    amx_configure(rows, rows, all);
    AMX_CLEAR(0);
    AMX_CLEAR(1);
    AMX_CLEAR(2);
    AMX_CLEAR(3);
    for (int64_t i = 0; i < t->count; i++) {
        const float *panel = (const float *)t->panel + t->runs[i].panel * t->panel_scale;
        const float *row = t->row + t->runs[i].row * t->row_scale;
        int64_t units = t->runs[i].count;
        for (; units >= all; units -= all, panel += all * t->panel_step, row += all * t->row_step)
            all == AMX_UNITS ? amx_outer(row, t->row_step, rows, panel, t->panel_step, vectors, AMX_UNITS, AMX_UNITS)
                             : amx_outer(row, t->row_step, rows, panel, t->panel_step, vectors, all, all);
        if (units > 0)
            amx_outer(row, t->row_step, rows, panel, t->panel_step, vectors, units, all);
    }
    AMX_STORE(0, sums, 4 * LANES * 4);
    AMX_STORE(1, sums + LANES, 4 * LANES * 4);
    AMX_STORE(2, sums + 2 * LANES, 4 * LANES * 4);
    AMX_STORE(3, sums + 3 * LANES, 4 * LANES * 4);
    for (int m = 0; m < rows; m++)
        for (int v = 0; v < vectors; v++) {
            float *to = t->dw + m * t->pitch + v * LANES;
            const vec sum = vec_load(sums + (m * 4 + v) * LANES);
            vec_store(to, t->first ? sum : vec_load(to) + sum);
        }
}

static void amx_pairs(const operands *t, int rows, int vectors) {
    switch (vectors) { // a literal
    case 1: amx_sums(t, rows, 1); return;
    case 2: amx_sums(t, rows, 2); return;
    case 3: amx_sums(t, rows, 3); return;
    default: amx_sums(t, rows, 4);
    }
}

#endif
