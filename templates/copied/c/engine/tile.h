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
#include "tile_shapes.h"

// A sum and the term of two elements.
INLINE vec with_term(vec sum, vec a, vec b) {
#if defined(OPWRIGHT_SQUARES)
    const vec d = a - b;
    return sum + d * d;
#elif defined(OPWRIGHT_DISTANCES)
    return sum + vec_abs(a - b);
#elif defined(OPWRIGHT_S32) && defined(__AVX512F__) // the lower halves of lanes
    return sum + (vec)_mm512_mul_epi32((__m512i)a, (__m512i)b);
#elif defined(OPWRIGHT_S32) && defined(__AVX2__)
    return sum + (vec)_mm256_mul_epi32((__m256i)a, (__m256i)b);
#else
    return sum + a * b;
#endif
}

// One operand of a multiplication: a float, a double, or with OPWRIGHT_PAIRS two bf16, the even channel in the lower half; GROUP
// bytes, or as many integers of 16 bits.
#if defined(OPWRIGHT_BYTES)
typedef int32_t unit;
typedef ivec units;
#define UNIT_CHANNELS GROUP
INLINE units units_splat(unit x) { return vec_splat(x); }
INLINE vec fused(vec sum, units a, units b) { return dotted(sum, a, b); }
#elif OPWRIGHT_PAIRS
typedef uint32_t unit;
typedef uvec units;
#define UNIT_CHANNELS 2
INLINE units units_splat(unit x) { return x - (uvec){0}; }
INLINE vec fused(vec sum, units a, units b) { return dot_pairs(sum, a, b); }
#else
typedef real unit;
typedef vec units;
#define UNIT_CHANNELS 1
INLINE units units_splat(unit x) { return vec_splat(x); }
INLINE vec fused(vec sum, units a, units b) { return with_term(sum, a, b); }
#endif

// The same in the sum's own register. gcc 12 uses another one and copies; 9x3 has none to spare and spilled six sums:
// 155 instead of 200 GFLOP/s over 48 channels. With a single vector of weights the scalar is the instruction's own
// operand.
#if defined(__FMA__) && !defined(OPWRIGHT_BYTES) && !defined(OPWRIGHT_INTEGERS) && !OPWRIGHT_PAIRS && !defined(OPWRIGHT_SQUARES) && !defined(OPWRIGHT_DISTANCES)
#if defined(OPWRIGHT_F64)
#define FUSED "vfmadd231pd"
#else
#define FUSED "vfmadd231ps"
#endif
#define FUSE(sum, a, b) __asm__(FUSED " %2, %1, %0" : "+v"(sum) : "v"(a), "v"(b))
typedef vec units_there __attribute__((aligned(sizeof(real)), may_alias));
#define FUSE_AT(sum, a, p) __asm__(FUSED " %2, %1, %0" : "+v"(sum) : "v"(a), "m"(*(const units_there *)(const void *)(p)))
#else
#define FUSE(sum, a, b) (sum) = fused(sum, a, b)
#define FUSE_AT(sum, a, p) (sum) = fused(sum, a, units_load(p))
#endif

// The same with a scalar in memory, which the instruction spreads over all lanes.
#if defined(FUSED) && VECTOR_BYTES == 64
#define SPREADS 1
#if defined(OPWRIGHT_F64)
#define FUSE_SPREAD(sum, a, p) __asm__(FUSED " %2%{1to8%}, %1, %0" : "+v"(sum) : "v"(a), "m"(*(p)))
#else
#define FUSE_SPREAD(sum, a, p) __asm__(FUSED " %2%{1to16%}, %1, %0" : "+v"(sum) : "v"(a), "m"(*(p)))
#endif
#else
#define SPREADS 0
#define FUSE_SPREAD(sum, a, p) FUSE(sum, a, units_splat(unit_get(p)))
#endif

// The bytes of a unit, and of a sum; whether elements in memory are units as they lie.
enum { UNIT_BYTES = sizeof(unit), UNITS_LIE = sizeof(elem) * UNIT_CHANNELS == UNIT_BYTES };

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
    bool elements;       // elements are stored; otherwise sums
    int64_t out_row;     // from the vectors of one of the MR to the next
    int64_t rest;        // with STORES_PARTS, cells of the last vector; 0: all
    const real *bias;    // NULL: nothing, but for tiles of AMX
    int64_t bias_row, bias_vector;
    bool streamed;       // stores past the caches, to elements that are not read again
    int64_t ahead;       // of sums over lanes: prefetch distance in units, 0 for none
    int64_t lane_step;   // of sums over lanes: from the weights of one output channel to those of the next
    const ivec *picks;   // of groups that share a vector: the lanes of each unit,
    int64_t picked;      // and the units per vector of scalars
    real *kept;          // of tiles of AMX: where sums of a part of the terms remain; NULL if the runs are all terms
    bool begun, more;    // whether it holds sums of earlier parts, and whether other parts follow
    const real *off;     // of bytes: what is added to all sums of a row; NULL: nothing
    bool left_signed, right_signed; // of bytes: whether scalars and vectors are, for tiles of AMX
    bool next;           // whether to ask for the cells of the rows that follow, which the next tile stores
    int64_t split;       // of tiles of AMX, how many parts scalars have: tile_amx_split.h; else 0
    bool shaped;         // the registers already have the shapes of a tile with as many rows and units
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
#if defined(__AVX2__) && !defined(OPWRIGHT_64)
#define VECTORS_PICK 1
INLINE units units_pick(const unit *p, ivec lanes) {
    return (units)vec_pick(vec_load((const real *)(const void *)p), lanes);
}
#else
#define VECTORS_PICK 0
INLINE units units_pick(const unit *p, ivec lanes) {
    (void)lanes;
    return units_load(p);
}
#endif

INLINE units units_load_part(const unit *p, int64_t n) {
    return (units)vec_load_part((const real *)(const void *)p, n);
}

#if LANES > 2
// `count` sums over lanes, at most 4, each added up to a lane of the result; the first four lanes repeat.
INLINE vec add_lanes(const vec *sum, int count) {
    const vec a = sum[0], b = count > 1 ? sum[1] : (vec){0};
    const vec c = count > 2 ? sum[2] : (vec){0}, d = count > 3 ? sum[3] : (vec){0};
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
#endif

// Of a long sum that AMX multiplies at a time, so that a panel stays in the first-level cache: 2,250 GFLOP/s; 32 1,230,
// 64 1,720, 256 1,950, 512 1,740, or 1,550 with sums in rows of 4 KiB (Xeon, gcc 12.2). Whole registers multiply such a
// sum, at once too, so that its bits are those of its parts.
enum { PART_UNITS = 128 };

INLINE void *out_at(const operands *o, void *out, int64_t at) {
    return o->elements ? (void *)((sum_cell *)out + at) : (void *)((real *)out + at);
}

enum {
    MAX_SUMS = 4, MORE_SUMS = 5,      // pixels whose sums are over lanes,
    MAX_PIXELS_SUMMED = LANES / 4, // and channels
};

// By vectors and rows; tiles.c compiles them once for all callers.
typedef void tile_function(const operands *);
#define TILE_TABLE OPWRIGHT_NAME(tiles)
// Tiles whose scalars of a term lie side by side.
#if VECTOR_BYTES >= 32 && !OPWRIGHT_PAIRS && !defined(OPWRIGHT_BYTES)
#define TURNS 1
#define TURNED_TABLE OPWRIGHT_NAME(turned_tiles)
extern tile_function *const TURNED_TABLE[MAX_WIDE + 1][MAX_HIGH + 1];
#else
#define TURNS 0
#define TURNED_TABLE TILE_TABLE
#endif
#define PICKED_TABLE OPWRIGHT_NAME(picked_tiles)
#define SUM_TABLE OPWRIGHT_NAME(sum_tiles)
#define STEP_TABLE OPWRIGHT_NAME(step_tiles)
extern tile_function *const TILE_TABLE[MAX_WIDE + 1][MAX_HIGH + 1];
extern tile_function *const PICKED_TABLE[MAX_PICKED_ROWS + 1]; // by rows
extern tile_function *const SUM_TABLE[MAX_PIXELS_SUMMED + 1][MORE_SUMS + 1];
extern tile_function *const STEP_TABLE[MAX_STEP_VECTORS + 1][MAX_STEP_ROWS + 1];
INLINE int64_t max_rows(int64_t nb) { return nb == 1 ? MAX_1 : nb == 2 ? MAX_2 : nb == 3 ? MAX_3 : nb == 4 ? MAX_4 : MAX_8; }

#endif
