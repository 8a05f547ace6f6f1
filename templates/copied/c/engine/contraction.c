// Sums of products by tiles: rows of left against vectors of columns of right.
//
// The terms are processed in chunks. For each chunk, right is packed to panels `[panel][term][lane]`, and rows of left
// are copied side by side, so that tiles read contiguous memory whatever the strides are. A stage is the data packed at
// a time: chunks of some vectors, few enough for the shared caches. A task of a stage is a block of rows against a
// share of its vectors. With many small products, each is a task of its own. With few rows, a task packs a share of the
// vectors for all of them, chunk by chunk, which then stays in its own cache.

#include "contraction_copy.h"
#include "contraction_few.h"
#include "contraction_lanes.h"
#include "contraction_split.h"
#include "contraction_tiny.h"

enum {
    CHUNK_UNITS = 512,         // of terms
    ONLY_CHUNK = OPWRIGHT_AMX ? 1024 : CHUNK_UNITS, // the same where no other follows, for which sums would wait: with it and what
                               // FAR_BYTES says, 2048x2048x2048 takes 0.75 to 0.93 of the time (Intel Xeon with AMX, gcc 12.2, bf16)
    STAGE_BYTES = 8 << 20,     // of right that is packed at a time
    ALONE_BYTES = OPWRIGHT_AMX ? 1 << 20 : 512 << 10, // of right, where a task packs its own
    SHARED_ALONE = 2 << 20,    // the same of several workers, which else wait for one another after each stage: 4 products of 128x128x3136
                               // on two threads take 0.8 of the time, bf16 0.63; 0.85 with AVX2 (Intel Xeon with AMX, gcc 12.2)
    AGAIN_BYTES = 512 << 10,   // of the rows of left of a task, which are read in place for each panel: 3136x256x64 0.93 to 0.97 of the
                               // time of copies, 12544x512x128 bf16 0.9, 2048x1024x1000 0.96 to 0.98 (AMD Zen 5, gcc 12.2)
    DENSE_BYTES = 4 << 20,     // where its rows lie without gaps, for up to DENSE_ROWS of left: 16x64x4096 0.83 of the time, 64x64x4096
    DENSE_ROWS = 64,           // 0.97, 128x64x2048 1.02 (AMD Zen 5, gcc 12.2, f32)
    NEAR_ROWS = 128,           // too few to pay for packing right
    WRITTEN_ROWS = 32,         // of a far out that tiles write side by side, where sums have up to SHORT_UNITS: the second-level cache's
    SHORT_UNITS = 64,          // prefetcher follows 64 pages, half of them for each of two threads of a core, and a line that it does not
                               // fetch is waited for. 3000x9x5001 0.2 of the time of 112 rows, bf16 0.26, AVX2 0.3; 200x9x100001 0.3,
                               // 2000x32x3000 0.9, 2000x128x3000 1 (Intel Xeon, gcc 12.2)
    COPIED_BYTES = 1 << 20,    // of left, where it is copied before all tasks
    LOW = VECTOR_BYTES == 32,  // tiles of 6 rows in place of 14, and L2 caches of 512 KB. With the figures of high tiles
                               // 197x768x3072 takes 1.08 to 1.3, 150x1000x1000 1.3 times as long (AMD Zen 3, gcc 12.2, f32)
    NEAR_BYTES = LOW ? 128 << 10 : 256 << 10, // of a chunk of right that is read in place: 11x13x60000, terms first, 0.44 of the time,
                               // 31x23x3000 0.77, 9x17x3000 0.6, 128x256x256 0.92 (Sapphire Rapids, gcc 12.2, f32)
    BLOCK_TILES = LOW ? 18 : 8, // of a task
    OWN_TILES = LOW ? 64 : 16, // maximum of all rows, where each task packs its share of right
    OWN_BYTES = LOW ? 128 << 10 : 256 << 10, // of that share, of one chunk; one of twice as much is all of right, so that left is
                               // copied chunk by chunk, too: 97x5000x101 f64 0.75 of the time, f32 0.85 (Intel Xeon, gcc 12.2)
    AGAIN_TILES = 8,           // that are read in place for each panel
    OWN_VECTORS = 4,           // of it at the least, where they are neighbours in memory
    OWN_COPIED = 4 << 20,      // of left, which is then copied before all tasks
    FINISHED_BYTES = 128 << 10, // of sums that a worker buffers until they are finished
    TOGETHER = 256,            // columns of rows that are finished together, maximum
    TASKS = 4,                 // for each worker, to balance their load
    PACKED_VECTORS = 8,        // of a task that packs
    FAR_BYTES = 2 << 20,       // of right that is packed, or of out: more is not in AMX's own cache, and asked for in advance.
                               // 12 products of 512x512x64 take 0.75 to 0.85 of the time (the same)
    REGISTER_COLUMNS = 128,    // maximum for which AMX exchanges the operands so that left need not be turned, and reads it in place
                               // where its rows spread over the sets of the first-level cache: 128x768x3072 transposed 590 us,
                               // packed 820 (Intel Xeon, Emerald Rapids, gcc 12.2); else its rows are copied for tiles of all rows,
                               // 128x2816x1024 transposed 0.83 of the time of tiles of SET_ROWS (Intel Xeon with AMX)
    TURNED_TERMS = 256,        // minimum for which rows that are neighbours in left become lanes of few columns: 4096x32x512 0.7
                               // to 0.9 of the time, 4096x16x64 0.9 (bf16) and 1.1, 100000x16x16 2 to 4 times (AMD Zen 4, gcc 12.2)
    TURNED_STEP = 800,         // bytes between terms of left, maximum, of which tiles read rows side by side in place: 100x50x3000 0.79
                               // of the time of copies, 197x50x1000 0.88, 31x33x5000 0.93; 247x197x333 1.05 (AMD Zen 3, gcc 12.2, f32);
                               // 64x64x64 0.84, 96x96x96 0.88, 197x197x197 0.96 (Sapphire Rapids, gcc 12.2, f32)
    SPLIT_BYTES = 512 << 10,   // of floats in parts, which a task copies for itself: registers read them from the second-level cache
    AHEAD = 16,                // terms that are prefetched before they are packed,
    AHEAD_LINES = 4,           // and lines of each column, where terms are contiguous
    SET_STRIDE = 2048,         // bytes between rows of left: multiples of it map to few sets of the first-level cache,
    SET_ROWS = 8,              // which holds the lines of so many rows
    FIRST_LEVEL = 32 << 10,    // bytes of it
    PARTS = STORES_PARTS && !OPWRIGHT_AMX, // whether tiles store the first cells of a vector
};

typedef struct plan {
    opwright_contraction q;        // the columns are lanes
    int64_t products;              // entries of all batches
    int64_t wide, vectors;         // vectors of a panel, of all columns
    int64_t units, chunk, chunks;  // terms; of them in a chunk
    int64_t tiles, block, blocks;  // tiles that cover the rows; of them in a block; blocks
    int64_t stage_chunks, stage_vectors;
    int64_t share;                 // vectors of a task
    int64_t pitch;                 // from a row of copied left to the next, in units
    bool alone;                    // each product is a task
    bool own;                      // each task packs its share of right, for all rows
    bool copied;                   // left is copied before the tasks of a stage
    bool in_place;                 // left is read in place
    bool right_in_place;           // and right: each panel is read by few tiles
    int64_t ragged;                // last terms whose vectors would end behind it: they are copied, and zeros
    bool turned;                   // left is read in place where its rows lie side by side
    int64_t right_bytes, copied_bytes, left_bytes, sums_bytes, kept_bytes;
} plan;

typedef struct call {
    const plan *p;
    const elem *left, *right; // of one product, or of the first if each is a task
    sink out;
    unit *copied, *packed;
    char *workers;
    int64_t first_chunk, chunks, first_vector, vectors; // of the stage
} call;

// Whether left's rows are read in place by AMX, of which right's columns are too few to pay for a copy.
static bool in_registers(const opwright_contraction *q) {
    return OPWRIGHT_AMX && !q->split && q->left_term == 1 && q->terms % UNIT_CHANNELS == 0 && q->terms >= LANES * UNIT_CHANNELS &&
           q->columns > 2 && q->columns <= REGISTER_COLUMNS && q->rows > q->columns;
}

// Whether left's rows are read in place, once, by tiles of all columns, whose vectors are nearly full: then that is
// faster than to read right in place. 16x4096x4096, terms side by side, 0.5 to 0.66 of the time (AMD Zen 4, gcc 12.2,
// f32); with 12 or 24 rows, 1.2 times.
static bool is_narrow(const opwright_contraction *q) {
    return !OPWRIGHT_AMX && q->left_term == 1 && UNITS_LIE && q->terms % UNIT_CHANNELS == 0 &&
           q->rows > q->columns && q->columns <= 2 * LANES && 5 * q->columns >= 4 * round_up(q->columns, LANES);
}

// How many bf16 each float of a side is.
static int64_t parts_of(const opwright_contraction *q) { return q->elements ? ROUNDED_PARTS : ALL_PARTS; }

static bool is_few(const opwright_contraction *q) { return !q->split && !in_registers(q) && few_fits(q); }

static bool is_tiny(const opwright_contraction *q) { return !q->split && tiny_fits(q); }

static int64_t laned_along(const opwright_contraction *q) { return q->split ? -1 : laned_axis(q); }

// Whether the transposed product, whose operands lie alike, has an eighth fewer vectors of sums, as 33x31 has against 31x33, and
// enough terms to pay for turning them: 31x33x5000, rows side by side, 0.84 of the time (AMD Zen 3, gcc 12.2, f32).
static bool is_fuller(const opwright_contraction *q) {
    const bool alike = (q->left_term == 1) == (q->right_term == 1) && (q->left_row == 1) == (q->right_column == 1);
    const int64_t vectors = q->rows * ceil_div(q->columns, LANES), turned = q->columns * ceil_div(q->rows, LANES);
    return LOW && alike && q->rows >= LANES && q->columns >= LANES && q->terms >= TURNED_TERMS && 8 * turned <= 7 * vectors;
}

// Whether to exchange columns and rows, right and left: lanes are the contiguous axis of out, or the longer one.
static bool exchanges(const opwright_contraction *q) {
    opwright_contraction other = *q;
    exchange(&other);
    if (q->split)
        return q->split == 2;
    if (tiny_fits(q) || tiny_fits(&other))
        return !tiny_fits(q) || (q->right_column != 1 && other.right_column == 1);
    if (in_registers(q) || in_registers(&other))
        return in_registers(&other);
    if (is_narrow(q) || is_narrow(&other))
        return is_narrow(&other);
    if (q->columns < q->rows && is_few(&other))
        return true;
    if (is_few(q))
        return false;
    // Rows of left that are neighbours are packed as lanes, where many terms pay for turning the sums.
    if (q->left_row == 1 && q->left_term != 1 && 2 * q->columns > LANES && q->columns <= 2 * LANES &&
        q->rows > 4 * q->columns && q->terms >= TURNED_TERMS)
        return true;
    // Fuller lanes, unless each row of left would be transposed for few columns.
    if (q->columns < LANES && q->rows >= LANES && (q->left_row == 1 || q->left_term != 1 || q->columns <= LANES / 4))
        return true;
    if (is_fuller(q) || is_fuller(&other))
        return is_fuller(q);
    return q->out_column != 1 && q->out_row == 1 && q->rows >= LANES;
}

// Vectors, tiles and chunks of one product; the chunks do not depend on its rows. `registers`: AMX reads left in place.
static void tiles_of(plan *p, bool registers) {
    const opwright_contraction *q = &p->q;
    p->vectors = max(1, ceil_div(q->columns, LANES));
    p->wide = p->vectors == 1 ? 1 : p->vectors == 3 && MAX_3 >= 8 ? 3 : 2;
    const int64_t again = min(q->rows, AGAIN_TILES * max_rows(p->wide)) * q->left_row * (int64_t)sizeof(elem);
    const bool narrow = p->vectors <= p->wide, spread = q->left_row * (int64_t)sizeof(elem) % SET_STRIDE != 0;
    p->units = ceil_div(q->terms, UNIT_CHANNELS);
    const bool rest = OPWRIGHT_AMX && p->units % LANES != 0 && p->units >= PART_UNITS && p->vectors > 4 * p->wide;
    p->in_place = q->left_term == 1 && UNITS_LIE && q->terms % UNIT_CHANNELS == 0 && !rest &&
                  ((registers && spread) || narrow || (spread && (p->vectors <= 2 * p->wide || again <= AGAIN_BYTES)));
    p->turned = TURNS && sizeof(elem) == UNIT_BYTES && q->left_row == 1 && q->left_term != 1 && q->left_term >= 0 &&
                q->left_term * (int64_t)sizeof(elem) <= TURNED_STEP;
    p->in_place = (p->in_place || p->turned) && !q->split;
    p->tiles = max(1, ceil_div(q->rows, p->in_place && !spread && !p->turned ? min(SET_ROWS, max_rows(p->wide)) : max_rows(p->wide)));
    p->chunks = max(1, ceil_div(p->units, narrow && p->in_place ? OWN_BYTES / (p->vectors * LANES * UNIT_BYTES) :
                                          p->units <= ONLY_CHUNK && !q->split ? ONLY_CHUNK : CHUNK_UNITS));
    p->chunk = max(1, ceil_div(ceil_div(p->units, p->chunks), LANES)) * LANES;
    p->chunks = ceil_div(p->units, p->chunk);
    p->pitch = q->split ? parts_of(q) * p->chunk : p->chunk + LANES;
}

// Whether lines of right, of which a panel has one for each term of a chunk, crowd into few sets of the first-level cache:
// packed, 50x1024x64 takes 0.48 of the time (AMD Zen 3, gcc 12.2, f32).
static bool crowds(const plan *p) {
    const int64_t step = p->q.right_term * (int64_t)sizeof(elem), apart = step & -step; // the largest power of 2 that divides it
    return apart > 64 && p->chunk * apart > FIRST_LEVEL;
}

// Tiles of a block, of up to `tiles`.
static int64_t block_of(const plan *p, int64_t tiles) {
    return p->q.split ? max(1, min(tiles, SPLIT_BYTES / (max_rows(p->wide) * p->pitch * UNIT_BYTES))) : tiles;
}

// Units of a copy of the last terms of right.
static int64_t last_cells(const plan *p) { return p->ragged > 0 ? (p->ragged - 1) * p->q.right_term + p->vectors * LANES : 0; }

static void plan_of(plan *p, const opwright_contraction *contraction, int64_t workers) {
    *p = (plan){.q = *contraction, .products = products_of(contraction)};
    opwright_contraction *q = &p->q;
    if (exchanges(q))
        exchange(q);
    tiles_of(p, in_registers(q));
    const int64_t vector_bytes = p->chunk * LANES * UNIT_BYTES;
    p->alone = p->products > 1 && (workers <= 1 || p->products >= 2 * workers) &&
               p->vectors * p->chunks * vector_bytes <= (workers > 1 ? SHARED_ALONE : ALONE_BYTES);
    const int64_t row_bytes = q->right_term * (int64_t)sizeof(elem);
    const bool dense = q->right_term == q->columns && q->rows <= DENSE_ROWS && q->terms * row_bytes <= DENSE_BYTES;
    const int64_t over = p->vectors * LANES - q->columns;
    p->ragged = over == 0 || p->units == 0 ? 0 : q->right_term <= 0 ? p->units : min(p->units, ceil_div(over, q->right_term));
    p->right_in_place = sizeof(elem) == UNIT_BYTES && q->right_column == 1 && q->rows <= NEAR_ROWS &&
                        q->right_term >= (over > 0) && p->ragged <= p->units - max(0, p->chunks - 1) * p->chunk &&
                        (dense || p->chunk * row_bytes <= NEAR_BYTES) && !(LOW && p->tiles > 1 && crowds(p));
    p->ragged *= p->right_in_place;
    p->stage_chunks = max(1, p->chunks), p->stage_vectors = p->vectors, p->share = p->vectors, p->block = block_of(p, BLOCK_TILES);
    if (!p->alone) {
        const int64_t maximum = max(1, STAGE_BYTES / vector_bytes); // vectors of one chunk
        // Sums of the chunks before a stage are in out: all of them, if its columns are whole vectors of floats.
        if ((!q->elements && !q->finished && q->out_column == 1 && q->columns % LANES == 0) || p->chunks == 1)
            p->stage_chunks = max(1, min(p->chunks, maximum / p->vectors));
        p->stage_vectors = min(p->vectors, max(1, maximum / p->stage_chunks / p->wide) * p->wide);
        p->share = p->stage_vectors;
        if (workers > 1) {
            p->block = max(1, min(p->block, p->tiles / (TASKS * workers)));
            const int64_t panels = ceil_div(p->stage_vectors, p->wide);
            if (p->tiles < TASKS * workers && panels >= workers) {
                p->block = block_of(p, min(BLOCK_TILES, p->tiles));
                const int64_t shares = min(panels, ceil_div(TASKS * workers, ceil_div(p->tiles, p->block)));
                p->share = ceil_div(panels, shares) * p->wide;
            }
        }
        const int64_t whole = p->chunks * q->rows * p->pitch * UNIT_BYTES;
        const bool spreads = workers <= 1 || p->tiles == 1 || p->vectors > (workers - 1) * p->wide; // a panel for each worker
        p->own = spreads && !q->split && !p->right_in_place && p->tiles <= OWN_TILES && p->chunks > 0 && (p->in_place || whole <= OWN_COPIED);
        if (p->own) {
            const int64_t fair = workers > 1 ? ceil_div(p->vectors, TASKS * workers) : p->vectors;
            p->stage_chunks = p->chunks, p->stage_vectors = p->vectors;
            p->block = min(BLOCK_TILES, LOW && workers > 1 ? ceil_div(p->tiles, TASKS * workers) : p->tiles); // that are copied
            const int64_t least = q->right_column == 1 ? min(OWN_VECTORS, ceil_div(p->vectors, max(1, workers))) : 1;
            const bool one = workers <= 1 && p->vectors * vector_bytes <= 2 * OWN_BYTES;
            p->share = round_up(one ? max(1, p->vectors) : max(least, min(fair, OWN_BYTES / vector_bytes)), p->wide);
            // The only task of each worker has as many vectors as the others', even if it splits a panel: 77x77 cells by 3000
            // terms f32 with two threads 0.77 of the time, 100x96 by 1000 0.75 (Intel Xeon, gcc 12.2).
            if (workers > 1 && p->vectors <= workers * p->share)
                p->share = min(p->share, ceil_div(p->vectors, workers));
        }
        p->copied_bytes = p->stage_chunks * q->rows * p->pitch * UNIT_BYTES;
        p->copied = !p->in_place && !q->split && (p->own ? p->share < p->vectors : (!p->right_in_place && p->stage_vectors == p->vectors && p->copied_bytes <= COPIED_BYTES));
    }
    if (q->finished) {
        const int64_t high = LOW && p->own ? p->tiles : p->block;
        p->share = max(1, min(p->share, FINISHED_BYTES / (high * max_rows(p->wide) * LANES * UNIT_BYTES)) / p->wide) * p->wide;
        if (p->alone)
            p->share = p->vectors, p->block = max(1, min(p->block, FINISHED_BYTES / (max_rows(p->wide) * p->vectors * LANES * UNIT_BYTES)));
    }
    p->copied_bytes = p->copied ? whole_lines(p->copied_bytes) : 0;
    p->blocks = ceil_div(p->tiles, p->block);
    const int64_t rows = (p->own ? p->tiles : p->block) * max_rows(p->wide);
    p->right_bytes = p->own ? p->share * vector_bytes : p->right_in_place ? last_cells(p) * UNIT_BYTES : p->stage_chunks * p->stage_vectors * vector_bytes;
    p->left_bytes = p->in_place || p->copied ? 0 : whole_lines(rows * p->pitch * UNIT_BYTES);
    p->sums_bytes = whole_lines(rows * p->share * LANES * UNIT_BYTES);
    p->kept_bytes = OPWRIGHT_AMX && rows > max_rows(p->wide) && p->chunk > PART_UNITS ? rows * round_up(p->wide, 2) * LANES * UNIT_BYTES : 0;
}

static int64_t chunk_units(const plan *p, int64_t chunk) { return min(p->chunk, p->units - chunk * p->chunk); }

// As both operands are packed: AMX multiplies LANES units at a time, and finds zeros behind the last ones.
static int64_t packed_units(const plan *p, int64_t chunk) {
    const int64_t units = chunk_units(p, chunk);
    return OPWRIGHT_AMX && !p->in_place && units >= PART_UNITS ? round_up(units, LANES) : units;
}

// The first row of a tile: tiles are as equal as possible.
static int64_t tile_row(const plan *p, int64_t tile) {
    return p->q.rows / p->tiles * tile + min(tile, p->q.rows % p->tiles);
}

// Vectors of the panel that begins with vector v of `vectors`.
static int64_t panel_width(const plan *p, int64_t v, int64_t vectors) { return min(p->wide, vectors - v); }

// Rows [row, row + rows) of left, the terms of a chunk.
static void copy_left(const plan *p, const elem *left, int64_t chunk, int64_t row, int64_t rows, unit *to) {
    const opwright_contraction *q = &p->q;
    const int64_t units = chunk_units(p, chunk), first = chunk * p->chunk * UNIT_CHANNELS;
    left += row * q->left_row + first * q->left_term;
    if (q->split) {
        const int64_t least = q->rows / p->tiles;
        for (int64_t m = 0, height; m < rows; m += height, left += height * q->left_row, to += height * p->pitch) {
            height = least + (row + m < q->rows % p->tiles * (least + 1));
            split_tile((const float *)(const void *)left, q->left_row / 2, q->left_term / 2, height, min(q->terms - first, units * UNIT_CHANNELS), to, parts_of(q));
        }
        return;
    }
    if (units_lie(q->left_term)) {
        for (int64_t m = 0; m < rows; m++, left += q->left_row, to += p->pitch)
            for (int64_t u = 0; u < units; u += LANES)
                vec_store((real *)(void *)(to + u), apart_units(left + u * UNIT_CHANNELS * q->left_term, q->left_term, q->terms - first - u * UNIT_CHANNELS));
        return;
    }
    for (int64_t m = 0; m < rows && packed_units(p, chunk) != units; m++)
        vec_store((real *)(void *)(to + m * p->pitch + packed_units(p, chunk) - LANES), (vec){0});
    for (int64_t u = 0; u < units; u += LANES)
        for (int64_t m = 0; m < rows; m += LANES)
            transpose(left + m * q->left_row + u * UNIT_CHANNELS * q->left_term, q->left_term,
                      q->terms - first - u * UNIT_CHANNELS, q->left_row, min(LANES, rows - m), to + m * p->pitch + u, p->pitch,
                      min(LANES, units - u));
}

// The panels of vectors [first, first + count) of right, the terms of a chunk: lanes past the last column are 0. If
// columns are contiguous, all vectors of a term are read before the next, so that whole lines of memory are read in
// order.
static void pack_beside(const plan *p, const elem *right, int64_t left, int64_t lanes, int64_t chunk, int64_t count, unit *to) {
    const opwright_contraction *q = &p->q;
    const int64_t units = packed_units(p, chunk);
    const uintptr_t line = (uintptr_t)q->right_term * sizeof(elem);
    for (int64_t u = 0; u < chunk_units(p, chunk); u++, right += UNIT_CHANNELS * q->right_term, left -= UNIT_CHANNELS)
        for (int64_t v = 0, width; v < count; v += width) {
            width = panel_width(p, v, count);
#if OPWRIGHT_PAIRS
            if (width == 2 && left > 1 && lanes >= (v + width) * LANES) {
                pair_lines(right + v * LANES, q->right_term, to + (v * units + u * width) * LANES);
                continue;
            }
#endif
            for (int64_t i = v; i < v + width; i++) {
                const elem *from = right + i * LANES;
                for (int64_t j = 0; j < UNIT_CHANNELS; j++)
                    __builtin_prefetch((const void *)((uintptr_t)from + (uintptr_t)(j + AHEAD) * line));
                vec_store((real *)(void *)(to + (v * units + u * width + i - v) * LANES),
                          unit_line(from, q->right_term, left, 1, lanes - i * LANES));
            }
        }
}

static void pack_right(const plan *p, const elem *right, int64_t chunk, int64_t first, int64_t count, unit *to) {
    const opwright_contraction *q = &p->q;
    const int64_t units = chunk_units(p, chunk), packed = packed_units(p, chunk), term = chunk * p->chunk * UNIT_CHANNELS;
    right += first * LANES * q->right_column + term * q->right_term;
    for (int64_t v = 0; v < count && packed > units; v += p->wide) {
        const int64_t line = panel_width(p, v, count) * LANES;
        memset(to + v * packed * LANES + units * line, 0, (size_t)((packed - units) * line * UNIT_BYTES));
    }
    if (q->right_column == 1) {
        pack_beside(p, right, q->terms - term, q->columns - first * LANES, chunk, count, to);
        return;
    }
    for (int64_t v = 0, width; v < count; v += width) {
        width = panel_width(p, v, count);
        for (int64_t i = v; i < v + width; i++) {
            const int64_t lanes = min(LANES, q->columns - (first + i) * LANES), step = width * LANES;
            const elem *from = right + i * LANES * q->right_column;
            unit *at = to + (v * packed + i - v) * LANES;
            if (!units_lie(q->right_term)) {
                for (int64_t u = 0; u < units; u++, from += UNIT_CHANNELS * q->right_term)
                    vec_store((real *)(void *)(at + u * step),
                              unit_line(from, q->right_term, q->terms - term - u * UNIT_CHANNELS, q->right_column, lanes));
                continue;
            }
            for (int64_t u = 0; u < units; u += LANES, from += LANES * UNIT_CHANNELS * q->right_term) {
                const int64_t left = q->terms - term - u * UNIT_CHANNELS;
                vec x[LANES];
                UNROLL for (int64_t l = 0; l < LANES; l++) {
                    __builtin_prefetch((const void *)((uintptr_t)(from + l * q->right_column) + AHEAD_LINES * 64));
                    x[l] = l < lanes ? apart_units(from + l * q->right_column, q->right_term, left) : (vec){0};
                }
                vec_transpose(x);
                UNROLL for (int64_t l = 0; l < LANES; l++)
                    if (u + l < units)
                        vec_store((real *)(void *)(at + (u + l) * step), x[l]);
            }
        }
    }
}

static int64_t out_bytes(const plan *p) { return p->products * p->q.rows * p->q.columns * cell_size(&p->q); }

// Whether tiles store sums to out themselves.
static bool stores(const opwright_contraction *q) { return q->out_column == 1 && !q->finished; }

// The first cell of a tile's rows and of vector `first` of the stage.
static sink sink_of(const plan *p, const call *c, sink put, int64_t tile, int64_t first) {
    return sink_at(&p->q, put, tile_row(p, tile) * p->q.out_row + (c->first_vector + first) * LANES * p->q.out_column);
}

// Whether rows of out follow one another and have all columns in one panel, the last vector of which they fill in part: tiles
// store it whole, and the next row over what it has too much, but for the last tile of a task. 50000x24x20 bf16 take 0.65
// of the time (AMD Zen 4, gcc 12.2).
static bool overlaps(const plan *p, const call *c, int64_t first, int64_t count) {
    const opwright_contraction *q = &p->q;
    const int64_t lanes = panel_width(p, 0, count) * LANES; // of a row that is stored whole; the last tile has as many cells
    return stores(q) && !OPWRIGHT_AMX && !PARTS && p->chunks == 1 && c->first_vector + first == 0 && q->out_row == q->columns &&
           q->columns % LANES != 0 && q->columns <= lanes && (q->rows / p->tiles + 1) * q->columns >= lanes;
}

// Tiles [tile, last) against vectors [first, first + count) of the stage, whose panels are `packed`. Sums of earlier
// chunks are added: in out if it is float and directly writable, else in `sums`.
static void multiply_rows(const plan *p, const call *c, const unit *packed, unit *copy, real *sums, const elem *left, sink put,
                          int64_t tile, int64_t last, int64_t first, int64_t count) {
    static const real zeros[LANES];
    const opwright_contraction *q = &p->q;
    const int64_t row = tile_row(p, tile), rows = tile_row(p, last) - row, size = cell_size(&p->q);
    const int64_t lanes = q->columns - (c->first_vector + first) * LANES;
    const int64_t least = q->rows / p->tiles, more = q->rows % p->tiles; // rows of a tile; tiles that have one more
    const bool beside = stores(q), floats = size == sizeof(real), turned = TURNS && p->turned;
    const bool over = overlaps(p, c, first, count);
    const bool far = OPWRIGHT_AMX && !p->alone && !p->own && p->right_bytes > FAR_BYTES;
    const bool far_out = OPWRIGHT_AMX && out_bytes(p) > FAR_BYTES;
    char *const out = sink_of(p, c, put, tile, first).out;
    for (int64_t chunk = c->first_chunk; chunk < c->first_chunk + c->chunks; chunk++) {
        const int64_t units = packed_units(p, chunk), before = (chunk - c->first_chunk) * p->chunk;
        const unit *scalars = copy;
        if (p->in_place)
            scalars = (const unit *)(const void *)(left + row * q->left_row + chunk * p->chunk * (turned ? q->left_term : UNIT_CHANNELS));
        else if (p->copied)
            scalars = c->copied + ((chunk - c->first_chunk) * q->rows + row) * p->pitch;
        else
            copy_left(p, left, chunk, row, rows, copy);
        const int64_t scalar_row = p->in_place ? q->left_row * (int64_t)sizeof(elem) : p->pitch * UNIT_BYTES;
        const int64_t part = p->kept_bytes > 0 ? PART_UNITS : units;
        real *const kept = sums + p->sums_bytes / UNIT_BYTES;
        int64_t shaped = 0; // rows of the tile before
        for (int64_t v = 0, width; v < count; v += width) {
            width = panel_width(p, v, count);
            const int64_t last_cells = lanes - (v + width - 1) * LANES; // of the panel's last vector
            const bool fits = beside && (last_cells >= LANES || PARTS);
            const bool direct = fits && (floats || chunk == p->chunks - 1);
            const bool in_output = fits && floats;
            run here[2] = {{0, 0, units}};
            operands o = {.scalar_row = scalar_row, .step = width * LANES, .runs = here, .run_count = 1, .split = q->split ? parts_of(q) : 0};
#if TURNS
            o.lane_step = q->left_term;
#endif
            o.vectors = packed + (before * c->vectors + (first + v) * units) * LANES;
            if (p->right_in_place) {
                o.vectors = packed + chunk * p->chunk * q->right_term + (c->first_vector + first + v) * LANES;
                o.step = q->right_term;
            }
            o.bias_row = chunk == 0 ? 0 : in_output ? q->out_row : p->share * LANES;
            o.bias_vector = chunk == 0 ? 0 : LANES;
            for (int64_t u = 0; u < units; u += part) {
                here[0] = (run){u, u * o.step, min(part, units - u)};
                if (p->ragged && chunk == p->chunks - 1) {
                    const unit *end = c->packed + (c->first_vector + first + v) * LANES;
                    const int64_t apart = ((intptr_t)end - (intptr_t)o.vectors) / UNIT_BYTES;
                    here[1] = (run){(units - p->ragged) * (turned ? q->left_term : 1), apart, p->ragged};
                    here[0].length -= p->ragged, o.run_count = 2;
                }
                o.begun = u > 0, o.more = u + part < units;
                const unit *next = o.vectors + (u + part) * o.step; // what the next part reads, asked for before each tile
                const int64_t lines = far ? part * o.step / LANES / (last - tile) : 0;
                for (int64_t t = tile, m = 0, height; t < last; t++, m += height) {
                    height = least + (t < more);
                    real *sum = sums + m * p->share * LANES + v * LANES;
                    char *to = beside ? out + (m * q->out_row + v * LANES) * size : 0;
                    const bool whole = direct || (over && t + 1 < last);
                    o.elements = whole && q->elements;
                    o.next = whole && far_out;
                    o.out_row = whole ? q->out_row : p->share * LANES;
                    o.rest = PARTS && whole && last_cells < LANES ? last_cells : 0;
                    o.scalars = unit_at(scalars, m * scalar_row);
                    o.bias = chunk == 0 ? OPWRIGHT_AMX ? zeros : 0 : in_output ? (const real *)(const void *)to : sum;
                    o.out = whole ? (void *)to : (void *)sum;
                    o.shaped = height == shaped;
                    shaped = height;
                    o.kept = o.begun || o.more ? kept + m * round_up(p->wide, 2) * LANES : 0;
                    for (int64_t l = 0; l < lines; l++, next += LANES)
                        __builtin_prefetch(next, 0, 2);
                    (turned ? TURNED_TABLE : TILE_TABLE)[width][height](&o);
                }
            }
        }
    }
}

// The same, few rows after few where more are too many to write side by side.
static void multiply(const plan *p, const call *c, const unit *packed, unit *copy, real *sums, const elem *left, sink put,
                     int64_t tile, int64_t last, int64_t first, int64_t count) {
    const bool waits = !OPWRIGHT_AMX && stores(&p->q) && count > p->wide && p->units <= SHORT_UNITS && out_bytes(p) > FAR_BYTES;
    const int64_t most = waits ? WRITTEN_ROWS / max_rows(p->wide) : last - tile;
    for (int64_t at = tile, top = tile_row(p, tile); at < last; at += most)
        multiply_rows(p, c, packed, copy, sums + (tile_row(p, at) - top) * p->share * LANES, left, put, at, min(last, at + most), first, count);
}

// Rows of all columns that are neighbours as a finishing function counts cells: together, so that short ones are not a call
// each: 4096x64x64 with GELU and a residual 0.93 of the time (AMD Zen 5, gcc 12.2, f32).
static void put_together(const plan *p, real *sums, const sink *put, int64_t rows, int64_t worker) {
    const int64_t columns = p->q.columns, pitch = p->share * LANES;
    for (int64_t m = 1; m < rows && pitch != columns; m++)
        memmove(sums + m * columns, sums + m * pitch, (size_t)columns * sizeof *sums);
    put_sums(&p->q, put, 0, sums, rows * columns, worker);
}

// Sums of the same tiles and vectors that no tile has stored.
static void put_rest(const plan *p, const call *c, real *sums, sink put, int64_t tile, int64_t last, int64_t first,
                     int64_t count, int64_t worker) {
    const opwright_contraction *q = &p->q;
    const int64_t rows = tile_row(p, last) - tile_row(p, tile), lanes = q->columns - (c->first_vector + first) * LANES;
    const int64_t pitch = p->share * LANES;
    int64_t stored = 0; // vectors that tiles have stored
    put = sink_of(p, c, put, tile, first);
    while (stores(q) && stored < count && (PARTS || lanes >= (stored + panel_width(p, stored, count)) * LANES))
        stored += panel_width(p, stored, count);
    if (q->finished && q->out_column == 1 && q->out_row == q->columns && c->first_vector + first == 0 && lanes <= count * LANES &&
        q->columns <= TOGETHER)
        put_together(p, sums, &put, rows, worker);
    else if (stored < count) {
        const int64_t m = overlaps(p, c, first, count) ? tile_row(p, last - 1) - tile_row(p, tile) : 0, i = stored * LANES;
        put_rows(q, &put, m * q->out_row + i * q->out_column, sums + m * pitch + i, pitch, rows - m, min(lanes, count * LANES) - i, worker);
    }
}

static int64_t worker_bytes(const plan *p) {
    return p->left_bytes + p->sums_bytes + p->kept_bytes + (p->alone || p->own ? p->right_bytes : 0) + (p->alone ? 64 : 0);
}

static void pack_task(const void *context, int64_t task, int64_t worker) {
    (void)worker;
    const call *c = context;
    const plan *p = c->p;
    const int64_t chunk = c->first_chunk + task % c->chunks, before = task % c->chunks * p->chunk;
    const int64_t each = ceil_div(PACKED_VECTORS, p->wide) * p->wide, first = task / c->chunks * each;
    if (first < c->vectors) {
        pack_right(p, c->right + c->first_vector * LANES * p->q.right_column, chunk, first, min(each, c->vectors - first),
                   c->packed + (before * c->vectors + first * packed_units(p, chunk)) * LANES);
        return;
    }
    const int64_t block = (first - ceil_div(c->vectors, each) * each) / each;
    const int64_t row = tile_row(p, block * p->block), last = tile_row(p, min(p->tiles, (block + 1) * p->block));
    copy_left(p, c->left, chunk, row, last - row, c->copied + ((chunk - c->first_chunk) * p->q.rows + row) * p->pitch);
}

static void block_task(const void *context, int64_t task, int64_t worker) {
    const call *c = context;
    const plan *p = c->p;
    const int64_t shares = ceil_div(c->vectors, p->share), first = task % shares * p->share;
    const int64_t tile = task / shares * p->block;
    const int64_t last = min(p->tiles, tile + p->block), count = min(p->share, c->vectors - first);
    char *own = c->workers + worker * worker_bytes(p);
    const unit *packed = p->right_in_place ? (const unit *)(const void *)c->right : c->packed;
    real *sums = (real *)(void *)(own + p->left_bytes);
    multiply(p, c, packed, (unit *)(void *)own, sums, c->left, c->out, tile, last, first, count);
    put_rest(p, c, sums, c->out, tile, last, first, count, worker);
}

// A share of the vectors for all rows, each chunk packed before it is multiplied.
static void own_task(const void *context, int64_t task, int64_t worker) {
    const call *c = context;
    const plan *p = c->p;
    call part = *c;
    char *own = c->workers + worker * worker_bytes(p);
    real *sums = (real *)(void *)(own + p->left_bytes);
    unit *packed = (unit *)(void *)(own + p->left_bytes + p->sums_bytes + p->kept_bytes);
    part.first_vector = task * p->share, part.vectors = min(p->share, p->vectors - part.first_vector), part.chunks = 1;
    for (part.first_chunk = 0; part.first_chunk < p->chunks; part.first_chunk++) {
        part.copied = c->copied + part.first_chunk * p->q.rows * p->pitch;
        pack_right(p, c->right, part.first_chunk, part.first_vector, part.vectors, packed);
        multiply(p, &part, packed, (unit *)(void *)own, sums, c->left, c->out, 0, p->tiles, 0, part.vectors);
    }
    put_rest(p, &part, sums, c->out, 0, p->tiles, 0, part.vectors, worker);
}

// The last terms of right as they lie, and zeros behind them.
static void copy_last(const plan *p, const elem *right, unit *to) {
    const int64_t cells = (p->ragged - 1) * p->q.right_term + p->q.columns;
    memset(to + cells, 0, (size_t)((last_cells(p) - cells) * UNIT_BYTES));
    memcpy(to, right + (p->q.terms - p->ragged) * p->q.right_term, (size_t)cells * sizeof *right);
}

static void product_task(const void *context, int64_t task, int64_t worker) {
    const call *c = context;
    const plan *p = c->p;
    int64_t left, right, out;
    product_at(&p->q, task, &left, &right, &out);
    char *own = c->workers + worker * worker_bytes(p);
    unit *packed = (unit *)(void *)(own + p->left_bytes + p->sums_bytes + p->kept_bytes);
    int64_t *const at = (int64_t *)(void *)(own + worker_bytes(p) - 64); // of right, as it is packed
    const bool again = *at == right;
    *at = right;
    for (int64_t chunk = 0; chunk < p->chunks && !p->right_in_place && !again; chunk++)
        pack_right(p, c->right + right, chunk, 0, p->vectors, packed + chunk * p->chunk * p->vectors * LANES);
    if (p->ragged && !again)
        copy_last(p, c->right + right, packed);
    call own_call = *c;
    own_call.packed = packed;
    const unit *panels = p->right_in_place ? (const unit *)(const void *)(c->right + right) : packed;
    const sink put = sink_at(&p->q, c->out, out);
    for (int64_t tile = 0, last; tile < p->tiles; tile = last) {
        last = min(p->tiles, tile + p->block);
        real *sums = (real *)(void *)(own + p->left_bytes);
        multiply(p, &own_call, panels, (unit *)(void *)own, sums, c->left + left, put, tile, last, 0, p->vectors);
        put_rest(p, &own_call, sums, put, tile, last, 0, p->vectors, worker);
    }
}

// Products that share right follow one another, so that a worker packs it once for several.
static void sharing_last(opwright_contraction *q) {
    const opwright_contraction old = *q;
    int64_t to = 0;
    for (int64_t shared = 0; shared < 2; shared++)
        for (int64_t b = 0; b < q->batches; b++)
            if ((old.right_batch[b] == 0) == (shared == 1)) {
                q->batch[to] = old.batch[b], q->out_batch[to] = old.out_batch[b];
                q->left_batch[to] = old.left_batch[b], q->right_batch[to++] = old.right_batch[b];
            }
}

// All cells of out are 0.
static void clear_task(const void *context, int64_t task, int64_t worker) {
    static const real zeros[LANES];
    const call *c = context;
    const plan *p = c->p;
    int64_t left, right, out;
    product_at(&p->q, task / p->q.rows, &left, &right, &out);
    out += task % p->q.rows * p->q.out_row;
    for (int64_t n = 0; n < p->q.columns; n += LANES)
        put_sums(&p->q, &c->out, out + n * p->q.out_column, zeros, min(LANES, p->q.columns - n), worker);
}

int64_t OPWRIGHT_NAME(contract_scratch)(const void *problem, int64_t workers) {
    const opwright_contraction *contraction = problem;
    plan p;
    plan_of(&p, contraction, workers);
    const int64_t operands = copied_bytes(&contraction->left) + copied_bytes(&contraction->right);
    if (laned_along(contraction) >= 0)
        return operands + max(1, workers) * laned_worker_bytes();
    if (is_tiny(&p.q))
        return operands + max(1, workers) * tiny_worker_bytes(&p.q);
    if (is_few(&p.q))
        return operands + max(1, workers) * few_worker_bytes(&p.q);
    return operands + p.copied_bytes + (p.alone || p.own ? 0 : p.right_bytes) + max(1, workers) * worker_bytes(&p);
}

void OPWRIGHT_NAME(contract)(const void *problem, const void *given_left, const void *given_right, void *out,
                             opwright_finish *finish, const void *context, const opwright_team *team, void *scratch) {
    const opwright_contraction *contraction = problem;
    plan p;
    plan_of(&p, contraction, team ? team->workers : 1);
    const copies o = copied_operands(&contraction->left, &contraction->right, given_left, given_right, scratch, team);
    const bool exchanged = exchanges(contraction);
    const elem *const left = exchanged ? o.right : o.left, *const right = exchanged ? o.left : o.right;
    scratch = o.rest;
    const sink whole = {out, 0, finish, context};
    call c = {.p = &p, .left = left, .right = right, .out = whole, .copied = scratch};
    if (p.products == 0 || p.q.rows == 0 || p.q.columns == 0)
        return;
    const int64_t axis = laned_along(contraction);
    if (axis >= 0) {
        laned_products(contraction, axis, o.left, o.right, whole, team, scratch);
        return;
    }
    if (is_tiny(&p.q)) {
        tiny_products(&p.q, p.products, left, right, whole, team, scratch);
        return;
    }
    if (is_few(&p.q)) {
        few_rows(&p.q, p.products, left, right, whole, team, scratch);
        return;
    }
    if (p.chunks == 0) {
        opwright_run(team, clear_task, &c, p.products * p.q.rows);
        return;
    }
    c.packed = (unit *)(void *)((char *)scratch + p.copied_bytes);
    c.workers = (char *)c.packed + (p.alone || p.own ? 0 : p.right_bytes);
    c.chunks = p.chunks, c.vectors = p.vectors;
    if (p.alone) {
        sharing_last(&p.q);
        for (int64_t w = 0; w < max(1, team ? team->workers : 1); w++) // nothing is packed yet
            *(int64_t *)(void *)(c.workers + (w + 1) * worker_bytes(&p) - 64) = INT64_MIN;
        opwright_run(team, product_task, &c, p.products);
        return;
    }
    for (int64_t product = 0; product < p.products; product++) {
        int64_t left_at, right_at, out_at_;
        product_at(&p.q, product, &left_at, &right_at, &out_at_);
        c.left = left + left_at, c.right = right + right_at, c.out = sink_at(&p.q, whole, out_at_);
        if (p.own) {
            c.first_vector = c.first_chunk = c.vectors = 0; // nothing of right
            if (p.copied)
                opwright_run(team, pack_task, &c, p.chunks * p.blocks);
            opwright_run(team, own_task, &c, ceil_div(p.vectors, p.share));
            continue;
        }
        if (p.ragged)
            copy_last(&p, c.right, c.packed);
        for (c.first_vector = 0; c.first_vector < p.vectors; c.first_vector += p.stage_vectors)
            for (c.first_chunk = 0; c.first_chunk < p.chunks; c.first_chunk += p.stage_chunks) {
                c.vectors = min(p.stage_vectors, p.vectors - c.first_vector);
                c.chunks = min(p.stage_chunks, p.chunks - c.first_chunk);
                const int64_t each = ceil_div(PACKED_VECTORS, p.wide) * p.wide;
                if (!p.right_in_place)
                    opwright_run(team, pack_task, &c, c.chunks * (ceil_div(c.vectors, each) + (p.copied ? p.blocks : 0)));
                opwright_run(team, block_task, &c, p.blocks * ceil_div(c.vectors, p.share));
            }
    }
}

#include "contraction_blocks.h"
