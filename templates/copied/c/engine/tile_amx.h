// The tiles of tile.h by matrix registers.
//
// A block has up to 32 rows and two vectors: four registers of sums, two of scalars, two of vectors. Up to 16 units of a run
// are multiplied at a time, as many as divide the first one, and what is left of it beside zeros: the runs alone determine
// the terms of a sum and their order, as in tile.h.

#ifndef OPWRIGHT_TILE_AMX_H
#define OPWRIGHT_TILE_AMX_H

#include "amx.h"
#include "tile.h"

enum { AMX_BLOCK = 2 }; // registers of rows, and of vectors, of a block

// The units of a product of each row against two vectors of each, or one.
INLINE void amx_multiply(const uint32_t *scalars, int64_t row, const uint32_t *vectors, int64_t step, bool below, bool beside) {
    AMX_LOAD(6, vectors, step * 4);
    AMX_LOAD(4, scalars, row);
    AMX_DOT(0, 4, 6);
    if (beside) {
        AMX_LOAD(7, vectors + LANES, step * 4);
        AMX_DOT(1, 4, 7);
    }
    if (below) {
        AMX_LOAD(5, (const char *)scalars + AMX_ROWS * row, row);
        AMX_DOT(2, 5, 6);
        if (beside)
            AMX_DOT(3, 5, 7);
    }
}

// The last units of a run, fewer than that, with zeros behind them.
INLINE void amx_multiply_rest(const uint32_t *scalars, int64_t row, const uint32_t *vectors, int64_t step, int64_t units, int rows,
                              bool below, bool beside) {
    uint32_t left[AMX_BLOCK * AMX_ROWS * AMX_UNITS] __attribute__((aligned(64)));
    uint32_t right[AMX_UNITS * AMX_BLOCK * LANES] __attribute__((aligned(64)));
    for (int m = 0; m < rows; m++)
        vec_store((float *)(void *)(left + m * AMX_UNITS),
                  vec_load_part((const float *)(const void *)((const char *)scalars + m * row), units));
    const int wide = beside ? 2 : 1;
    amx_fill((const float *)(const void *)vectors, step, units, wide, (float *)(void *)right);
    amx_multiply(left, AMX_UNITS * 4, right, wide * LANES, below, beside);
}

enum { AMX_SUMS_ROW = AMX_BLOCK * LANES * 4 }; // bytes from a row of sums of a block to the next

// The registers of sums: `sums` if these have begun, else 0.
INLINE void amx_begin(const operands *o, bool below, bool beside, const float *sums) {
    if (o->begun) {
        amx_load_sums(sums, AMX_SUMS_ROW, below, beside);
        return;
    }
    AMX_CLEAR(0);
    AMX_CLEAR(1);
    if (below) {
        AMX_CLEAR(2);
        AMX_CLEAR(3);
    }
}

// Sums of all runs, added to `sums` if these have begun; from a row of `sums` to the next two vectors.
INLINE void amx_sums(const operands *o, int64_t vector, int rows, bool below, bool beside, int64_t units, float *sums) {
    const int64_t row = o->scalar_row, step = o->step;
    amx_begin(o, below, beside, sums);
    for (const run *r = o->runs, *last = r + o->run_count; r != last; r++) {
        const unit *s = o->scalars + r->scalars, *v = o->vectors + r->vectors + vector * LANES;
        int64_t left = r->length;
        for (; left >= units; left -= units, s += units, v += units * step)
            amx_multiply(s, row, v, step, below, beside);
        if (left > 0)
            amx_multiply_rest(s, row, v, step, left, rows, below, beside);
    }
    amx_store_sums(sums, AMX_SUMS_ROW, below, beside);
}

// `rows` rows of `wide` vectors of sums, to the output. Two vectors of elements are a line, which is stored at once: 4096x64x64
// 0.7 of the time (Intel Xeon, Emerald Rapids, gcc 12.2).
INLINE void amx_put(const operands *o, int64_t vector, int rows, int wide, bool elements, bool streamed, const float *sums) {
    const int64_t out_row = o->out_row, bias_row = o->bias_row, bias_vector = o->bias_vector;
    const float *bias = o->bias + vector * bias_vector;
    float *floats = (float *)o->out + vector * LANES;
    sum_cell *cells = (sum_cell *)o->out + vector * LANES;
    for (int m = 0; m < rows; m++, sums += AMX_BLOCK * LANES, bias += bias_row, floats += out_row, cells += out_row) {
        if (sizeof(sum_cell) == 2 && elements && !streamed && wide == 2) {
            const vec first = vec_load(sums) + vec_load(bias), second = vec_load(sums + LANES) + vec_load(bias + bias_vector);
            const __m512i line = (__m512i)_mm512_cvtne2ps_pbh((__m512)second, (__m512)first);
            memcpy(cells, &line, sizeof line);
            continue;
        }
        for (int b = 0; b < wide; b++) {
            const vec sum = vec_load(sums + b * LANES) + vec_load(bias + b * bias_vector);
            if (streamed)
                sum_stream(cells + b * LANES, sum);
            else if (elements)
                sum_store(cells + b * LANES, sum);
            else
                vec_store(floats + b * LANES, sum);
        }
    }
}

INLINE void amx_put_all(const operands *o, int64_t vector, int rows, int wide, const float *sums) {
    if (o->streamed)
        amx_put(o, vector, rows, wide, true, true, sums);
    else if (o->elements)
        amx_put(o, vector, rows, wide, true, false, sums);
    else
        amx_put(o, vector, rows, wide, false, false, sums);
}

#include "tile_amx_split.h"

static void amx_tile(const operands *o, int rows, int vectors) {
    float local[AMX_BLOCK * AMX_ROWS * AMX_BLOCK * LANES] __attribute__((aligned(64)));
    const bool whole = o->begun || o->run_count == 0 || o->runs->length >= PART_UNITS;
    const int64_t units = whole || o->split ? AMX_UNITS : amx_units(o->runs->length);
    if (!o->shaped)
        amx_configure(min(rows, AMX_ROWS), max(0, rows - AMX_ROWS), units);
    for (int v = 0; v < vectors; v += AMX_BLOCK) {
        const int wide = (int)min(AMX_BLOCK, vectors - v);
        float *const sums = o->kept ? o->kept + v * rows * LANES : local;
        if (o->next && !o->more)
            for (int m = 0; m < rows; m++)
                __builtin_prefetch((sum_cell *)o->out + v * LANES + (rows + m) * o->out_row, 1);
        if (o->split)
            amx_split_sums(o, v, rows, wide, sums);
        else if (rows > AMX_ROWS)
            wide == 2 ? amx_sums(o, v, rows, true, true, units, sums) : amx_sums(o, v, rows, true, false, units, sums);
        else
            wide == 2 ? amx_sums(o, v, rows, false, true, units, sums) : amx_sums(o, v, rows, false, false, units, sums);
        if (!o->more)
            wide == 2 ? amx_put_all(o, v, rows, 2, sums) : amx_put_all(o, v, rows, 1, sums);
    }
}

#endif
