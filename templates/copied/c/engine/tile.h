// The one inner kernel of y and x: sums of products of broadcast scalars and vectors, held in registers.
//
// A tile of MR x NB has MR scalars of one operand against NB vectors of the other. Over channel lanes the scalars are
// neighbouring pixels and the vectors output channels; over width lanes the scalars are output channels and the vectors
// neighbouring pixels. The reduction is a list of runs, in which the scalars are contiguous and the vectors
// `step` apart. The runs alone determine the terms of a sum and their order, so tiles of any shape give the same bits.
//
// Figures: see engine.h.

#ifndef OPWRIGHT_TILE_H
#define OPWRIGHT_TILE_H

#include "lanes.h"

// One operand of a multiplication: a float, or with OPWRIGHT_PAIRS two bf16, the even channel in the lower half.
#if OPWRIGHT_PAIRS
typedef uint32_t unit;
typedef uvec units;
#define UNIT_CHANNELS 2
INLINE units units_splat(unit x) { return x - (uvec){0}; }
INLINE vec fused(vec sum, units a, units b) { return dot_pairs(sum, a, b); }
#else
typedef float unit;
typedef vec units;
#define UNIT_CHANNELS 1
INLINE units units_splat(unit x) { return vec_splat(x); }
INLINE vec fused(vec sum, units a, units b) { return sum + a * b; }
#endif

// The same in the sum's own register. gcc 12 uses another one and copies; 9x3 has none to spare and spilled six sums:
// 155 instead of 200 GFLOP/s over 48 channels. With a single vector of weights the scalar is the instruction's own
// operand.
#if defined(__FMA__) && !OPWRIGHT_PAIRS
#define FUSE(sum, a, b) __asm__("vfmadd231ps %2, %1, %0" : "+v"(sum) : "v"(a), "v"(b))
#else
#define FUSE(sum, a, b) (sum) = fused(sum, a, b)
#endif

typedef struct run {
    int64_t scalars; // from the tile's first scalar to the run's, in units
    int64_t vectors; // the same for the vectors
    int64_t length;
} run;

typedef struct operands {
    const unit *scalars;
    int64_t scalar_row;  // from one of the MR scalars to the next, in bytes
    const unit *vectors;
    int64_t step;        // from the vectors of one element of a run to those of the next
    const run *runs;
    int64_t run_count;
    void *out;
    bool elements;       // elements are stored; otherwise floats
    int64_t out_row;     // from the vectors of one of the MR to the next
    const float *bias;
    int64_t bias_row, bias_vector;
    bool streamed;       // stores past the caches, to elements that are not read again
    int64_t ahead;       // of sums over lanes: prefetch distance in units, 0 for none
    int64_t lane_step;   // of sums over lanes: from the weights of one output channel to those of the next
    const ivec *picks;   // of groups that share a vector: the lanes of each unit,
    int64_t picked;      // and the units per vector of scalars
    float *kept;         // of tiles of AMX: where sums of a part of the terms remain; NULL if the runs are all terms
    bool begun, more;    // whether it holds sums of earlier parts, and whether other parts follow
    bool shaped;         // the registers already have the shapes of a tile with as many rows
} operands;

INLINE const unit *unit_at(const unit *p, int64_t bytes) { return (const unit *)(const void *)((const char *)p + bytes); }
INLINE unit unit_get(const unit *p) {
    unit x;
    memcpy(&x, p, sizeof x);
    return x;
}
INLINE units units_load(const unit *p) {
    units v;
    memcpy(&v, p, sizeof v);
    return v;
}

// Whether one instruction picks lanes.
#if defined(__AVX2__)
#define VECTORS_PICK 1
INLINE units units_pick(const unit *p, ivec lanes) {
    const vec v = vec_pick(vec_load((const float *)(const void *)p), lanes);
    units u;
    memcpy(&u, &v, sizeof u);
    return u;
}
#else
#define VECTORS_PICK 0
INLINE units units_pick(const unit *p, ivec lanes) {
    (void)lanes;
    return units_load(p);
}
#endif

INLINE units units_load_part(const unit *p, int64_t n) {
    const vec v = vec_load_part((const float *)(const void *)p, n);
    units u;
    memcpy(&u, &v, sizeof u);
    return u;
}

INLINE void *out_at(const operands *o, void *out, int64_t at) {
    return o->elements ? (void *)((sum_cell *)out + at) : (void *)((float *)out + at);
}

// A literal saves address registers: 16x1 152-218 instead of 142-205 GFLOP/s, 28x1 200-215 instead of 165-178, 14x2 and
// 6x4 the same. Literal steps and lengths of runs add nothing to that.
#ifdef OPWRIGHT_FIXED_PITCH
#define SCALAR_ROW(o) OPWRIGHT_FIXED_PITCH
#else
#define SCALAR_ROW(o) (o)->scalar_row
#endif

// Prefetches the lines that a tile will store to, `NB` vectors of `MR` rows.
INLINE void prefetch_rows(const operands *o, int MR, int NB) {
    const int64_t size = o->elements ? (int64_t)sizeof(sum_cell) : 4, row = o->out_row * size, bytes = NB * LANES * size;
    const char *out = o->out;
    for (int m = 0; m < MR; m++, out += row)
        for (int64_t at = 0; at < bytes; at += 64)
            __builtin_prefetch(out + at, 1);
}

#define TILE(MR, NB)                                                                                                   \
    static void tile_##MR##x##NB(const operands *o) {                                                                  \
        const int64_t row = SCALAR_ROW(o), step = o->step, out_row = o->out_row;                                       \
        vec sum[MR][NB];                                                                                               \
        UNROLL for (int m = 0; m < MR; m++) UNROLL for (int b = 0; b < NB; b++) sum[m][b] = (vec){0};                  \
        if (!o->streamed)                                                                                              \
            prefetch_rows(o, MR, NB);                                                                                  \
        for (const run *r = o->runs, *last = r + o->run_count; r != last; r++) {                                       \
            const unit *s = o->scalars + r->scalars, *v = o->vectors + r->vectors;                                     \
            _Pragma("GCC unroll 4") for (const unit *end = s + r->length; s != end; s++, v += step) {                  \
                units f[NB];                                                                                           \
                UNROLL for (int b = 0; b < NB; b++) f[b] = units_load(v + b * LANES);                                  \
                UNROLL for (int m = 0; m < MR; m++) {                                                                  \
                    const units x = units_splat(unit_get(unit_at(s, m * row)));                                        \
                    UNROLL for (int b = 0; b < NB; b++) {                                                              \
                        if (NB > 1)                                                                                    \
                            FUSE(sum[m][b], x, f[b]);                                                                  \
                        else                                                                                           \
                            sum[m][b] = fused(sum[m][b], x, f[b]);                                                     \
                    }                                                                                                  \
                }                                                                                                      \
                UNROLL for (int m = 0; m < MR; m++) UNROLL for (int b = 0; b < NB; b++) PIN(sum[m][b]);                \
            }                                                                                                          \
        }                                                                                                              \
        const float *const bias = o->bias;                                                                             \
        const int64_t bias_row = o->bias_row, bias_vector = o->bias_vector;                                            \
        UNROLL for (int m = 0; m < MR; m++) UNROLL for (int b = 0; b < NB; b++)                                        \
            sum[m][b] += vec_load(bias + m * bias_row + b * bias_vector);                                              \
        sum_cell *const out = o->out;                                                                                      \
        float *const floats = o->out;                                                                                  \
        if (o->streamed)                                                                                               \
            UNROLL for (int m = 0; m < MR; m++) UNROLL for (int b = 0; b < NB; b++)                                    \
                sum_stream(out + m * out_row + b * LANES, sum[m][b]);                                                 \
        else if (sizeof(sum_cell) != sizeof(float) && o->elements)                                                         \
            UNROLL for (int m = 0; m < MR; m++) UNROLL for (int b = 0; b < NB; b++)                                    \
                sum_store(out + m * out_row + b * LANES, sum[m][b]);                                                  \
        else                                                                                                           \
            UNROLL for (int m = 0; m < MR; m++) UNROLL for (int b = 0; b < NB; b++)                                    \
                vec_store(floats + m * out_row + b * LANES, sum[m][b]);                                                \
    }

// The same for groups that share a vector: each lane has a scalar of its own, picked from a vector of them. Copies of
// the input with a vector for each unit, which need no picking, were half as fast over groups of 8 channels.
#define VECTOR_TILE(MR)                                                                                                \
    static void vector_tile_##MR(const operands *o) {                                                                  \
        const int64_t row = o->scalar_row, step = o->step, out_row = o->out_row;                                       \
        const ivec *const picks = o->picks, *const last_pick = picks + o->picked;                                      \
        vec sum[MR];                                                                                                   \
        UNROLL for (int m = 0; m < MR; m++) {                                                                          \
            __builtin_prefetch(o->out + m * out_row, 1);                                                               \
            sum[m] = (vec){0};                                                                                         \
        }                                                                                                              \
        for (const run *r = o->runs, *last = r + o->run_count; r != last; r++) {                                       \
            const unit *s = o->scalars + r->scalars, *v = o->vectors + r->vectors;                                     \
            const ivec *pick = picks;                                                                                  \
            for (const unit *end = v + r->length * step; v != end; v += step) {                                        \
                const units f = units_load(v);                                                                         \
                const ivec lanes = *pick;                                                                              \
                UNROLL for (int m = 0; m < MR; m++)                                                                    \
                    sum[m] = fused(sum[m], units_pick(unit_at(s, m * row), lanes), f);                                 \
                UNROLL for (int m = 0; m < MR; m++) PIN(sum[m]);                                                       \
                if (++pick == last_pick)                                                                               \
                    pick = picks, s += LANES;                                                                          \
            }                                                                                                          \
        }                                                                                                              \
        UNROLL for (int m = 0; m < MR; m++) sum[m] += vec_load(o->bias);                                               \
        if (sizeof(sum_cell) != sizeof(float) && o->elements)                                                              \
            UNROLL for (int m = 0; m < MR; m++) sum_store((sum_cell *)o->out + m * out_row, sum[m]);                      \
        else                                                                                                           \
            UNROLL for (int m = 0; m < MR; m++) vec_store((float *)o->out + m * out_row, sum[m]);                      \
    }

// Of `count` sums over lanes, at most 4, each added up to a lane of the result; the first four lanes repeat.
INLINE vec add_lanes(const vec *sum, int count) {
    const vec a = sum[0], b = count > 1 ? sum[1] : (vec){0}, c = count > 2 ? sum[2] : (vec){0}, d = count > 3 ? sum[3] : (vec){0};
    const vec ab = SHUFFLE(a, b, QUARTERS(MINGLE, 0, 1)) + SHUFFLE(a, b, QUARTERS(MINGLE, 2, 3));
    const vec cd = SHUFFLE(c, d, QUARTERS(MINGLE, 0, 1)) + SHUFFLE(c, d, QUARTERS(MINGLE, 2, 3));
    vec v = SHUFFLE(ab, cd, QUARTERS(QUARTER, 0, 1)) + SHUFFLE(ab, cd, QUARTERS(QUARTER, 2, 3));
#if LANES == 16
    v += SHUFFLE(v, v, 8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6, 7);
#endif
#if LANES >= 8
    v += SHUFFLE(v, v, QUARTERS_SWAPPED);
#endif
    return v;
}

// Sums over lanes of a run, for few output channels NB: the vectors of both operands are neighbours in it. What is
// loaded of its last vector ends with the run.
#define SUM_TILE(MR, NB)                                                                                               \
    static void sum_tile_##MR##x##NB(const operands *o) {                                                              \
        const int64_t row = o->scalar_row, lane = o->lane_step, ahead = o->ahead;                                      \
        vec sum[MR][NB];                                                                                               \
        UNROLL for (int m = 0; m < MR; m++) UNROLL for (int b = 0; b < NB; b++) sum[m][b] = (vec){0};                  \
        for (const run *r = o->runs, *last = r + o->run_count; r != last; r++) {                                       \
            const unit *s = o->scalars + r->scalars, *v = o->vectors + r->vectors;                                     \
            int64_t left = r->length;                                                                                  \
            for (; left >= LANES; left -= LANES, s += LANES, v += LANES) {                                             \
                units f[NB];                                                                                           \
                UNROLL for (int b = 0; b < NB; b++) f[b] = units_load(v + b * lane);                                   \
                if (ahead != 0)                                                                                        \
                    UNROLL for (int b = 0; b < NB; b++) __builtin_prefetch(unit_at(v + b * lane, ahead * 4), 0, 2);    \
                UNROLL for (int m = 0; m < MR; m++) {                                                                  \
                    const units x = units_load(unit_at(s, m * row));                                                   \
                    UNROLL for (int b = 0; b < NB; b++) sum[m][b] = fused(sum[m][b], x, f[b]);                         \
                }                                                                                                      \
                UNROLL for (int m = 0; m < MR; m++) UNROLL for (int b = 0; b < NB; b++) PIN(sum[m][b]);                \
            }                                                                                                          \
            if (left == 0)                                                                                             \
                continue;                                                                                              \
            UNROLL for (int m = 0; m < MR; m++) {                                                                      \
                const units x = units_load_part(unit_at(s, m * row), left);                                            \
                UNROLL for (int b = 0; b < NB; b++)                                                                    \
                    sum[m][b] = fused(sum[m][b], x, units_load_part(v + b * lane, left));                              \
            }                                                                                                          \
        }                                                                                                              \
        UNROLL for (int m = 0; m < MR; m++)                                                                            \
            vec_store((float *)o->out + m * o->out_row, add_lanes(sum[m], NB) + vec_load(o->bias));                    \
    }

// Single steps in place of runs, for sums too short to have any, stored as elements.
#define STEP_TILE(MR, NB)                                                                                              \
    static void step_tile_##MR##x##NB(const operands *o) {                                                             \
        const int64_t row = o->scalar_row, out_row = o->out_row;                                                       \
        sum_cell *const out = o->out;                                                                                      \
        vec sum[MR][NB];                                                                                               \
        UNROLL for (int m = 0; m < MR; m++) UNROLL for (int b = 0; b < NB; b++) {                                      \
            if (!o->streamed)                                                                                          \
                __builtin_prefetch(out + m * out_row + b * LANES, 1);                                                  \
            sum[m][b] = (vec){0};                                                                                      \
        }                                                                                                              \
        for (const run *r = o->runs, *last = r + o->run_count; r != last; r++) {                                       \
            const unit *s = o->scalars + r->scalars, *v = o->vectors + r->vectors;                                     \
            units f[NB];                                                                                               \
            UNROLL for (int b = 0; b < NB; b++) f[b] = units_load(v + b * LANES);                                      \
            UNROLL for (int m = 0; m < MR; m++) {                                                                      \
                const units x = units_splat(unit_get(unit_at(s, m * row)));                                            \
                UNROLL for (int b = 0; b < NB; b++) sum[m][b] = fused(sum[m][b], x, f[b]);                             \
            }                                                                                                          \
            UNROLL for (int m = 0; m < MR; m++) UNROLL for (int b = 0; b < NB; b++) PIN(sum[m][b]);                    \
        }                                                                                                              \
        UNROLL for (int m = 0; m < MR; m++) UNROLL for (int b = 0; b < NB; b++) {                                      \
            sum[m][b] += vec_load(o->bias + m * o->bias_row);                                                          \
            if (o->streamed)                                                                                           \
                sum_stream(out + m * out_row + b * LANES, sum[m][b]);                                                 \
            else                                                                                                       \
                sum_store(out + m * out_row + b * LANES, sum[m][b]);                                                  \
        }                                                                                                              \
    }

// The available shapes: up to MAX_NB rows for NB vectors. f32, AVX-512, 192 elements a run, of 250 GFLOP/s:
//   14x2 226-231, 7x2 223-228, 9x3 228, 16x1 see below, 6x4 226-231
// Four lanes, 32 registers (NEON): the largest shapes that gcc 12 keeps in registers, 16 sums for the 8 that two FMA of
// 4 cycles have in flight, 0.63 loads per FMA with 8x2 and 0.5 with 4x4. Rejected for spills in the
// unrolled loop: 12x2 9 vectors, 6x4 30, 14x2 51, 3x8 78.
// Rejected: 28x1 159-187 (every scalar costs a load, and the addresses more registers than there are).
#if OPWRIGHT_AMX
#define ROWS_32(T, NB)                                                                                                 \
    ROWS_16(T, NB)                                                                                                     \
    T(17, NB) T(18, NB) T(19, NB) T(20, NB) T(21, NB) T(22, NB) T(23, NB) T(24, NB) T(25, NB) T(26, NB) T(27, NB)      \
    T(28, NB) T(29, NB) T(30, NB) T(31, NB) T(32, NB)
#define TILES(T) ROWS_32(T, 1) ROWS_32(T, 2) ROWS_16(T, 3) ROWS_16(T, 4) ROWS_16(T, 8)
#define MAX_1 32
#define MAX_2 32
#define MAX_3 16
#define MAX_4 16
#define MAX_8 16
#elif LANES == 16
#define TILES(T)                                                                                                       \
    T(1, 1) T(2, 1) T(3, 1) T(4, 1) T(5, 1) T(6, 1) T(7, 1) T(8, 1) T(9, 1) T(10, 1) T(11, 1) T(12, 1) T(13, 1)        \
    T(14, 1) T(15, 1) T(16, 1)                                                                                         \
    T(1, 2) T(2, 2) T(3, 2) T(4, 2) T(5, 2) T(6, 2) T(7, 2) T(8, 2) T(9, 2) T(10, 2) T(11, 2) T(12, 2) T(13, 2)        \
    T(14, 2)                                                                                                           \
    T(1, 3) T(2, 3) T(3, 3) T(4, 3) T(5, 3) T(6, 3) T(7, 3) T(8, 3) T(9, 3)                                            \
    T(1, 4) T(2, 4) T(3, 4) T(4, 4) T(5, 4) T(6, 4)                                                                    \
    T(1, 8) T(2, 8)
#define MAX_1 16
#define MAX_2 14
#define MAX_3 9
#define MAX_4 6
#define MAX_8 2
#elif defined(__AVX2__)
#define TILES(T)                                                                                                       \
    T(1, 1) T(2, 1) T(3, 1) T(4, 1) T(5, 1) T(6, 1) T(7, 1) T(8, 1) T(9, 1) T(10, 1) T(11, 1) T(12, 1)                 \
    T(1, 2) T(2, 2) T(3, 2) T(4, 2) T(5, 2) T(6, 2)                                                                    \
    T(1, 3) T(2, 3) T(3, 3) T(4, 3)                                                                                    \
    T(1, 4) T(2, 4)                                                                                                    \
    T(1, 8)
#define MAX_1 12
#define MAX_2 6
#define MAX_3 4
#define MAX_4 2
#define MAX_8 1
#else
#define TILES(T)                                                                                                       \
    T(1, 1) T(2, 1) T(3, 1) T(4, 1) T(5, 1) T(6, 1) T(7, 1) T(8, 1) T(9, 1) T(10, 1) T(11, 1) T(12, 1)                 \
    T(1, 2) T(2, 2) T(3, 2) T(4, 2) T(5, 2) T(6, 2) T(7, 2) T(8, 2)                                                    \
    T(1, 3) T(2, 3) T(3, 3) T(4, 3) T(5, 3)                                                                            \
    T(1, 4) T(2, 4) T(3, 4) T(4, 4)                                                                                    \
    T(1, 8) T(2, 8)
#define MAX_1 12
#define MAX_2 8
#define MAX_3 5
#define MAX_4 4
#define MAX_8 2
#endif

#define VECTOR_TILES(T) T(1) T(2) T(3) T(4) T(5) T(6) T(7) T(8) T(9) T(10) T(11) T(12)
#define MAX_VECTORS 12

// By channels, up to a quarter of a vector's.
#if LANES == 16
#define SUM_TILES(T) T(1, 1) T(4, 1) T(5, 1) T(1, 2) T(4, 2) T(5, 2) T(1, 3) T(4, 3) T(5, 3) T(1, 4) T(4, 4) T(5, 4)
#elif LANES == 8
#define SUM_TILES(T) T(1, 1) T(4, 1) T(5, 1) T(1, 2) T(4, 2) T(5, 2)
#else
#define SUM_TILES(T) T(1, 1) T(4, 1)
#endif
#define MAX_SUMS 4
#define MORE_SUMS 5
#define MAX_PIXELS_SUMMED (LANES / 4)

// The last tile recomputes some rows.
#if !defined(__AVX2__) || LANES == 16
#define STEP_TILES(T) T(8, 1) T(12, 1) T(8, 2) T(12, 2) T(8, 3) T(4, 4) T(6, 4)
#else
#define STEP_TILES(T) T(4, 1) T(8, 1) T(4, 2) T(6, 2) T(4, 3) T(2, 4)
#endif
#define MAX_STEP_ROWS 12
#define MAX_STEP_VECTORS 4

// By vectors and rows; tiles.c compiles them once for all callers.
typedef void tile_function(const operands *);
#define TILE_TABLE OPWRIGHT_NAME(tiles)
#define VECTOR_TABLE OPWRIGHT_NAME(vector_tiles)
extern tile_function *const TILE_TABLE[9][MAX_1 + 1];
#define SUM_TABLE OPWRIGHT_NAME(sum_tiles)
extern tile_function *const VECTOR_TABLE[13];
extern tile_function *const SUM_TABLE[5][6];
#define STEP_TABLE OPWRIGHT_NAME(step_tiles)
extern tile_function *const STEP_TABLE[MAX_STEP_VECTORS + 1][MAX_STEP_ROWS + 1];
INLINE int64_t max_rows(int64_t nb) { return nb == 1 ? MAX_1 : nb == 2 ? MAX_2 : nb == 3 ? MAX_3 : nb == 4 ? MAX_4 : MAX_8; }

#endif
