// The tiles of the weights gradient: rows x vectors of lanes, with all sums in registers.
//
// GFLOP/s of one thread in cache, f32, 192 pixels, where bare products reach 230 (AVX-512) and 116 (AVX2):
//     16 lanes: 14x2 228, 8x2 215, 8x3 226, 6x4 224, 28x1 216, 14x1 202, 4x2 179
//      8 lanes: 6x2 113, 3x3 102, 2x4 98, 12x1 91
// Rejected:
//     16 lanes: 9x3 147-167 (gcc 12 spills it once its loop is unrolled; 216 where not)
//      8 lanes: 4x3 44 (spills), 3x4 97
//     rows unrolled four times: 28x1 208, 8x2 202 instead of 204 and 210, and twice the code

#ifndef OPWRIGHT_WEIGHTS_TILES_H
#define OPWRIGHT_WEIGHTS_TILES_H

// most_rows: by vectors. MERGED_TILES: taps x channels of big, for groups that share a vector.
#define MAX_TILE_ROWS 28
#define MAX_VECTORS 4
#if LANES == 16
#if OPWRIGHT_AMX
#define TILES(T) ROWS_16(T, 1) ROWS_16(T, 2) ROWS_16(T, 3) ROWS_16(T, 4)
static const int64_t max_rows[] = {0, 16, 16, 16, 16};
#else
#define TILES(T)                                                                                                       \
    T(1, 1) T(2, 1) T(3, 1) T(4, 1) T(5, 1) T(6, 1) T(7, 1) T(8, 1) T(9, 1) T(10, 1) T(12, 1) T(14, 1) T(15, 1)        \
    T(16, 1) T(18, 1) T(20, 1) T(21, 1) T(24, 1) T(28, 1)                                                              \
    T(1, 2) T(2, 2) T(3, 2) T(4, 2) T(5, 2) T(6, 2) T(7, 2) T(8, 2) T(9, 2) T(10, 2) T(11, 2) T(12, 2) T(13, 2)        \
    T(14, 2) T(1, 3) T(2, 3) T(3, 3) T(4, 3) T(5, 3) T(6, 3) T(7, 3) T(8, 3)                                           \
    T(1, 4) T(2, 4) T(3, 4) T(4, 4) T(5, 4) T(6, 4)
static const int64_t max_rows[] = {0, 28, 14, 8, 6};
#endif
#define MERGED_TILES(T)                                                                                                \
    T(1, 1) T(2, 1) T(3, 1) T(5, 1) T(7, 1) T(1, 2) T(2, 2) T(3, 2) T(5, 2) T(7, 2) T(1, 3) T(2, 3) T(3, 3) T(5, 3)    \
    T(1, 4) T(2, 4) T(3, 4) T(5, 4) T(1, 5) T(2, 5) T(3, 5) T(1, 6) T(2, 6) T(3, 6) T(1, 7) T(2, 7) T(3, 7)            \
    T(1, 8) T(2, 8)
#define MAX_MERGED_TAPS 7
#elif LANES == 8
#define TILES(T)                                                                                                       \
    T(1, 1) T(2, 1) T(3, 1) T(4, 1) T(6, 1) T(8, 1) T(10, 1) T(12, 1)                                                  \
    T(1, 2) T(2, 2) T(3, 2) T(4, 2) T(5, 2) T(6, 2) T(1, 3) T(2, 3) T(3, 3) T(1, 4) T(2, 4)
static const int64_t max_rows[] = {0, 12, 6, 3, 2};
#define MERGED_TILES(T)                                                                                                \
    T(1, 1) T(2, 1) T(3, 1) T(5, 1) T(1, 2) T(2, 2) T(3, 2) T(5, 2) T(1, 3) T(2, 3) T(3, 3) T(1, 4) T(2, 4)
#define MAX_MERGED_TAPS 5
#else
#define TILES(T)                                                                                                       \
    T(1, 1) T(2, 1) T(3, 1) T(4, 1) T(6, 1) T(8, 1)                                                                    \
    T(1, 2) T(2, 2) T(3, 2) T(4, 2) T(6, 2) T(8, 2) T(1, 3) T(2, 3) T(3, 3) T(4, 3) T(1, 4) T(2, 4) T(3, 4) T(4, 4)
static const int64_t max_rows[] = {0, 8, 8, 4, 4};
#define MERGED_TILES(T) T(1, 1) T(2, 1) T(3, 1) T(1, 2) T(2, 2) T(3, 2)
#define MAX_MERGED_TAPS 3
#endif

// The common shapes of up to 16 rows for pixels with a large stride.
#if LANES == 16
#define FAR_TILES(T) T(2, 4) T(3, 4) T(4, 4) T(5, 4) T(6, 4) T(4, 2) T(5, 2) T(7, 2) T(8, 2) T(9, 2) T(10, 2) T(12, 2)
#else
#define FAR_TILES(T) T(1, 4) T(2, 4) T(3, 2) T(4, 2) T(5, 2) T(6, 2)
#endif

// The same for halves in place, and for few rows.
#define HALF_TILES(T) FAR_TILES(T) HALF_REST(T)
#if LANES == 16
#define HALF_REST(T) T(1, 4) T(1, 2) T(2, 2)
#else
#define HALF_REST(T) T(1, 2) T(2, 2)
#endif

// For the rare block in which bf16 cannot be multiplied in pairs: padding beside Inf or NaN.
#define FEW_TILES(T) T(1, 1) T(1, 2) T(1, 3) T(1, 4)

#endif
