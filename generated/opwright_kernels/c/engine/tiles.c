// The tiles of y and x, of every shape that tile.h lists: a file of its own, for they take as long to compile as the rest
// of channels.c.

#include "tile.h"

TILES(TILE)
VECTOR_TILES(VECTOR_TILE)

#define TILE_ROW(MR, NB) [NB][MR] = tile_##MR##x##NB,
#define VECTOR_ROW(MR) [MR] = vector_tile_##MR,
tile_function *const TILE_TABLE[9][17] = {TILES(TILE_ROW)};
tile_function *const VECTOR_TABLE[13] = {VECTOR_TILES(VECTOR_ROW)};
