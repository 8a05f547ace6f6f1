// The tiles of y and x, of every shape in tile.h: a separate file, because they take as long to compile as the rest
// of channels.c.

#include "tile.h"
#if OPWRIGHT_AMX
#include "tile_amx.h"
#endif

TILES(TILE)
VECTOR_TILES(VECTOR_TILE)
SUM_TILES(SUM_TILE)
STEP_TILES(STEP_TILE)

#define TILE_ROW(MR, NB) [NB][MR] = tile_##MR##x##NB,
#define VECTOR_ROW(MR) [MR] = vector_tile_##MR,
#define SUM_ROW(MR, NB) [NB][MR] = sum_tile_##MR##x##NB,
#define STEP_ROW(MR, NB) [NB][MR] = step_tile_##MR##x##NB,
tile_function *const TILE_TABLE[9][MAX_1 + 1] = {TILES(TILE_ROW)};
tile_function *const VECTOR_TABLE[13] = {VECTOR_TILES(VECTOR_ROW)};
tile_function *const SUM_TABLE[5][6] = {SUM_TILES(SUM_ROW)};
tile_function *const STEP_TABLE[MAX_STEP_VECTORS + 1][MAX_STEP_ROWS + 1] = {STEP_TILES(STEP_ROW)};
