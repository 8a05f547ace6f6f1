// Sums of products of bytes, signed or not, exactly. See contraction.h; sums are integers of 32 bits.
//
// Terms are processed in units: four bytes if one instruction multiplies unsigned by signed bytes, else two 16-bit
// integers. With four, 128 is added to a signed left operand and subtracted from an unsigned right one. The sums of rows
// and columns give the correction of the sums of products for that, and for zero points. Left may be windows that overlap:
// rows of it are gathered run by run.

#include "contraction_copy.h"
#include "contraction_few.h"

enum {
    MAX_TILE = MAX_2,
    WIDE = 2,                // vectors of a panel; the last one has what is left, but of AMX
    CHUNK = 512,             // units that are processed at a time
    PITCH = CHUNK + 16,      // from a row of copied left to the next: a constant, so that tiles need one address
    STAGE = 4 << 20,         // bytes of right that are packed at a time
    ALONE = 512 << 10,       // bytes of right, where a task is a product
    HELD = 128 << 10,        // bytes of sums of a block,
    HELD_AMX = 2 << 20,      // and of those that the tiles of AMX store to out themselves, so that left is copied once: s8 512 cubed
                             // 0.75, 4096x64x64 0.5 of the time together with left in place (Intel Xeon, Emerald Rapids, gcc 12.2)
    BLOCK = 8,               // tiles of a block
    PARTS = 4,               // tasks for each worker
    PACKED = 8,              // vectors of a task that packs
    AHEAD = 32,              // terms that are prefetched before they are packed
    SET_STRIDE = 2048,       // bytes between rows of left: multiples of it map to few sets of the first-level cache
    OVER = 64,               // bytes that are copied at a time, from a copy of left that has so many more
};

typedef struct plan {
    opwright_contraction q;
    int64_t products, vectors, tiles, units, chunks, block, share, stage, rows;
    bool alone;
    int32_t left_zero, right_zero; // of what is multiplied
    int64_t run;                   // contiguous terms of left, if rows are gathered
    bool in_place;                 // AMX reads left's rows where they are
    int64_t pitch;                 // bytes from a row of left, or of its copy, to the next
    int64_t right_bytes, left_bytes, sums_bytes;
} plan;

typedef struct call {
    const plan *p;
    const uint8_t *left, *right;
    sink out;
    ivec *packed;
    int32_t *columns; // the correction of each column's sums in the stage
    int64_t *runs;    // where each run of a gathered row begins
    char *workers;
    int64_t first, vectors; // of the stage
} call;

// Whether tiles store sums to out themselves.
static bool stores(const opwright_contraction *q) { return !q->finished && q->sums == 0 && q->out_column == 1; }

// Lanes are the contiguous axis of out, or the longer one.
static bool exchanges(const opwright_contraction *q) {
    if (q->term_axes > 0)
        return false;
    return (q->columns < LANES && q->rows > q->columns) || (q->out_column != 1 && q->out_row == 1 && q->rows >= LANES);
}

static void plan_of(plan *p, const opwright_contraction *contraction, int64_t workers) {
    *p = (plan){.q = *contraction, .products = products_of(contraction)};
    opwright_contraction *q = &p->q;
    if (exchanges(q))
        exchange(q);
    p->left_zero = left_zero_of(q), p->right_zero = right_zero_of(q);
    p->run = q->term_axes > 0 && q->term_step[q->term_axes - 1] == 1 ? q->term_extent[q->term_axes - 1] : 1;
    p->vectors = round_up(ceil_div(max(1, q->columns), LANES), OPWRIGHT_AMX ? WIDE : 1);
    p->tiles = max(1, ceil_div(q->rows, MAX_TILE));
    p->units = round_up(max(1, ceil_div(q->terms, GROUP)), OPWRIGHT_AMX ? LANES : 1); // whole registers
    p->chunks = ceil_div(p->units, CHUNK);
    const int64_t vector_bytes = p->units * (int64_t)sizeof(ivec);
    p->alone = p->products > 1 && (workers <= 1 || p->products >= 2 * workers) && p->vectors * vector_bytes <= ALONE;
    p->stage = p->alone ? p->vectors : min(p->vectors, max(1, STAGE / vector_bytes / WIDE) * WIDE);
    p->block = min(BLOCK, p->tiles);
    if (!p->alone && workers > 1)
        p->block = max(1, min(p->block, p->tiles / (PARTS * workers)));
    p->rows = p->block * MAX_TILE;
    const bool stored = OPWRIGHT_AMX && p->chunks == 1 && stores(q);
    p->share = min(p->stage, max(1, (stored ? HELD_AMX : HELD) / (p->rows * LANES * 4) / WIDE) * WIDE);
    const int64_t wanted = ceil_div(PARTS * workers, ceil_div(p->tiles, p->block)); // shares of a block
    if (stored && !p->alone && workers > 1)
        p->share = min(p->share, round_up(ceil_div(p->stage, wanted), WIDE));
    p->in_place = OPWRIGHT_AMX && q->term_axes == 0 && q->left_term == 1 && q->terms % (LANES * GROUP) == 0 && p->right_zero == 0 &&
                  q->left_row % SET_STRIDE != 0;
    p->pitch = p->in_place ? q->left_row : PITCH * 4;
    p->right_bytes = p->stage * (vector_bytes + LANES * 4);
    p->left_bytes = whole_lines(p->rows * (PITCH + 1) * 4);
    p->sums_bytes = whole_lines(p->rows * p->share * LANES * 4);
}

// The first row of a tile: tiles are as equal as possible; those of AMX, which have whole registers, as high as possible.
static int64_t tile_row(const plan *p, int64_t tile) {
    return OPWRIGHT_AMX ? min(p->q.rows, tile * MAX_TILE) : p->q.rows / p->tiles * tile + min(tile, p->q.rows % p->tiles);
}

// Vectors of the panel that has vector v of `vectors`.
static int64_t panel_width(int64_t v, int64_t vectors) { return min(WIDE, vectors - v / WIDE * WIDE); }

static int64_t chunk_units(const plan *p, int64_t chunk) { return min(CHUNK, p->units - chunk * CHUNK); }

// Rows [row, row + rows) of the terms of a chunk, run by run.
static void gather_left(const call *c, const uint8_t *left, int64_t chunk, int64_t row, int64_t rows, int32_t *to) {
    const plan *p = c->p;
    const opwright_contraction *q = &p->q;
    const int64_t units = chunk_units(p, chunk), first = chunk * CHUNK * GROUP, count = min(units * GROUP, q->terms - first);
    const bool is_signed = q->left_signed, over = q->left.wanted != 0;
    uint8_t room[CHUNK * GROUP + LANES * GROUP + OVER];
    for (int64_t m = 0; m < rows; m++, to += PITCH) {
        uint8_t *const terms = GROUP == 4 ? (uint8_t *)to : room; // units are their terms: a row has room for what is copied past it
        const uint8_t *const from = left + row_place(q, row + m, 0);
        int64_t before = first % p->run;
        const int64_t *run = c->runs + first / p->run;
        for (int64_t t = 0, length; t < count; t += length, before = 0, run++) {
            length = min(p->run - before, count - t);
            if (!over)
                memcpy(terms + t, from + *run + before, (size_t)length);
            else
                for (int64_t i = 0; i < length; i += OVER)
                    memcpy(terms + t + i, from + *run + before + i, OVER);
        }
        memset(terms + count, SHIFTED && is_signed ? 0x80 : 0, LANES * GROUP); // which are 0 when they are shifted
        for (int64_t u = 0; u < units && (GROUP != 4 || (SHIFTED && is_signed)); u += LANES)
            ivec_store(to + u, units_of(terms + u * GROUP, is_signed, true));
    }
}

static void copy_left(const call *c, const uint8_t *left, int64_t chunk, int64_t row, int64_t rows, int32_t *to) {
    const plan *p = c->p;
    const opwright_contraction *q = &p->q;
    const int64_t units = chunk_units(p, chunk), first = chunk * CHUNK * GROUP;
    const bool is_signed = q->left_signed;
    if (q->term_axes > 0) {
        gather_left(c, left, chunk, row, rows, to);
        return;
    }
    left += row * q->left_row + first * q->left_term;
    for (int64_t m = 0; m < rows; m++, left += q->left_row, to += PITCH) {
        int64_t u = 0;
        if (q->left_term == 1)
            for (; (u + LANES) * GROUP <= q->terms - first && u + LANES <= units; u += LANES)
                ivec_store(to + u, units_of(left + u * GROUP, is_signed, true));
        for (; q->left_term == 1 && u < units; u += LANES) {
            uint8_t terms[LANES * GROUP];
            memset(terms, SHIFTED && is_signed ? 0x80 : 0, sizeof terms); // which are 0 when they are shifted
            memcpy(terms, left + u * GROUP, (size_t)min(LANES * GROUP, max(0, q->terms - first - u * GROUP)));
            ivec_store(to + u, units_of(terms, is_signed, true));
        }
        for (; u < units; u++)
            to[u] = unit_of(left + u * GROUP * q->left_term, q->left_term, q->terms - first - u * GROUP, is_signed, true);
    }
}

// The units [u, u + LANES) of LANES columns, each a vector of terms that lie side by side.
static void turned(const uint8_t *from, int64_t column, bool is_signed, ivec *to, int64_t step) {
    vec x[LANES];
    UNROLL for (int l = 0; l < LANES; l++) x[l] = units_of(from + l * column, is_signed, false);
    vec_transpose(x);
    UNROLL for (int l = 0; l < LANES; l++) to[l * step] = x[l];
}

// Units [u, last) of the columns of vector v of a chunk of right, `step` vectors apart.
static void pack_vector(const plan *p, const uint8_t *right, int64_t chunk, int64_t v, int64_t u, int64_t last, ivec *to, int64_t step) {
    const opwright_contraction *q = &p->q;
    const int64_t first = chunk * CHUNK * GROUP, lanes = q->columns - v * LANES;
    const bool is_signed = q->right_signed;
    right += first * q->right_term + v * LANES * q->right_column;
    const int64_t whole = lanes >= LANES ? min(last, (q->terms - first) / GROUP) : 0;
    if (q->right_term == 1)
        for (; u + LANES <= whole; u += LANES)
            turned(right + u * GROUP, q->right_column, is_signed, to + u * step, step);
    for (; q->right_term == 1 && u < last; u += LANES) {
        uint8_t terms[LANES][LANES * GROUP];
        ivec made[LANES];
        memset(terms, SHIFTED && !is_signed ? 0x80 : 0, sizeof terms);
        for (int64_t l = 0; l < min(LANES, lanes); l++)
            memcpy(terms[l], right + u * GROUP + l * q->right_column, (size_t)min(LANES * GROUP, max(0, q->terms - first - u * GROUP)));
        turned(terms[0], sizeof terms[0], is_signed, made, 1);
        for (int64_t l = 0; l < min(LANES, last - u); l++)
            to[(u + l) * step] = made[l];
    }
    for (; u < last; u++) {
        ivec made = {0};
        for (int64_t l = 0; l < min(LANES, lanes); l++)
            made[l] = unit_of(right + u * GROUP * q->right_term + l * q->right_column, q->right_term,
                              q->terms - first - u * GROUP, is_signed, false);
        to[u * step] = made;
    }
}

// Units of whole vectors of columns that lie side by side, row by row of memory, so that its lines are read once: where
// columns are taken 16 units at a time, rows 4 KiB apart leave the first-level cache before they are read again.
static void pack_beside(const plan *p, const uint8_t *right, int64_t whole, int64_t units, int64_t count, int64_t vectors, ivec *to) {
    const opwright_contraction *q = &p->q;
    const bool is_signed = q->right_signed;
    for (int64_t u = 0; u < whole; u++, right += GROUP * q->right_term)
        for (int64_t v = 0; v < count; v++) {
            const uint8_t *from = right + v * LANES;
            for (int64_t t = 0; t < GROUP && v * LANES % 64 == 0; t++)
                __builtin_prefetch((const void *)((uintptr_t)from + (uintptr_t)((t + AHEAD) * q->right_term)));
            put_beside(from, q->right_term, is_signed, to + v / WIDE * WIDE * units + v % WIDE + u * panel_width(v, vectors));
        }
}

// Vectors [first, first + count) of the stage, all chunks. All vectors of some units are read before the next units, so
// that lines of memory are read once.
static void pack_right(const call *c, const uint8_t *right, ivec *packed, int32_t *columns, int64_t first, int64_t count) {
    const plan *p = c->p;
    const opwright_contraction *q = &p->q;
    for (int64_t chunk = 0; chunk < p->chunks; chunk++) {
        const int64_t units = chunk_units(p, chunk), term = chunk * CHUNK * GROUP;
        const int64_t full = q->right_column == 1 ? min(count, max(0, q->columns / LANES - c->first - first)) : 0;
        const int64_t whole = full > 0 ? min(units, (q->terms - term) / GROUP) : 0;
        ivec *const to = packed + chunk * CHUNK * c->vectors + first * units;
        pack_beside(p, right + term * q->right_term + (c->first + first) * LANES, whole, units, full, count, to);
        for (int64_t u = 0; u < units; u += LANES)
            for (int64_t v = 0, last = min(units, u + LANES); v < count; v++)
                pack_vector(p, right, chunk, c->first + first + v, v < full ? max(u, whole) : u, last,
                            to + v / WIDE * WIDE * units + v % WIDE, panel_width(v, count));
    }
    for (int64_t v = first; v < first + count && p->left_zero != 0; v++) {
        const int64_t width = panel_width(v - first, count);
        ivec total = {0};
        for (int64_t chunk = 0; chunk < p->chunks; chunk++) {
            const int64_t units = chunk_units(p, chunk);
            const ivec *from = packed + chunk * CHUNK * c->vectors + v / WIDE * WIDE * units + v % WIDE;
            for (int64_t u = 0; u < units; u++)
                total += columns_sum(from[u * width], p->q.right_signed);
        }
        ivec_store(columns + v * LANES, (total - p->right_zero * (int32_t)p->q.terms) * -p->left_zero);
    }
}

// Tiles [tile, last) against vectors [first, first + count) of the stage. Tiles store whole vectors of sums themselves, if
// nothing is converted.
static void multiply(const call *c, const uint8_t *left, const ivec *packed, const int32_t *columns, char *own, int64_t at,
                     int64_t tile, int64_t last, int64_t first, int64_t count, int64_t worker) {
    static const int32_t zeros[WIDE * LANES];
    const plan *p = c->p;
    const opwright_contraction *q = &p->q;
    const int64_t row = tile_row(p, tile), rows = tile_row(p, last) - row, column = (c->first + first) * LANES;
    const int64_t cells = min(count * LANES, q->columns - column), pitch = p->share * LANES;
    const int64_t whole = cells / LANES, stored = !stores(q) ? 0 : whole == count ? count : whole / WIDE * WIDE; // vectors
    int32_t *off = (int32_t *)(void *)own, *copy = off + p->rows, *sums = (int32_t *)(void *)(own + p->left_bytes);
    const sink put = sink_at(q, c->out, at + row * q->out_row + column * q->out_column);
    columns = p->left_zero != 0 ? columns + first * LANES : 0;
    memset(off, 0, (size_t)rows * sizeof *off);
    for (int64_t chunk = 0; chunk < p->chunks; chunk++) {
        const bool ends = chunk == p->chunks - 1;
        if (!p->in_place)
            copy_left(c, left, chunk, row, rows, copy);
        if (p->right_zero != 0)
            for (int64_t m = 0; m < rows; m++)
                off[m] -= p->right_zero * left_sum(copy + m * PITCH, chunk_units(p, chunk), q->left_signed);
        const run here = {0, 0, chunk_units(p, chunk)};
        operands o = {.scalar_row = p->pitch, .runs = &here, .run_count = 1, .left_signed = q->left_signed, .right_signed = q->right_signed};
        const uint8_t *const scalars = p->in_place ? left + row * q->left_row + chunk * CHUNK * GROUP : (const uint8_t *)copy;
        for (int64_t v = 0; v < count; v += WIDE) {
            const int64_t width = panel_width(v, count);
            const bool direct = ends && v < stored;
            const int32_t *const added = columns ? columns + v * LANES : zeros;
            o.step = width * LANES, o.out_row = direct ? q->out_row : pitch;
            o.bias_row = chunk > 0 ? pitch : 0, o.bias_vector = LANES;
            o.vectors = (const unit *)(const void *)(packed + chunk * CHUNK * c->vectors + (first + v) * here.length);
            for (int64_t t = tile; t < last; t++) {
                const int64_t m = tile_row(p, t) - row, height = tile_row(p, t + 1) - row - m;
                int32_t *const sum = sums + m * pitch + v * LANES;
                o.scalars = unit_at((const unit *)(const void *)scalars, m * p->pitch);
                o.bias = chunk > 0 ? sum : added;
                o.off = ends && p->right_zero != 0 ? off + m : 0;
                o.out = direct ? (int32_t *)(void *)put.out + m * q->out_row + v * LANES : sum;
                TILE_TABLE[width][height](&o);
            }
        }
    }
    for (int64_t m = 0; m < rows && stores(q); m++)
        for (int64_t n = stored * LANES; n < cells; n += LANES)
            vec_store_part((int32_t *)(void *)put.out + m * q->out_row + n, vec_load(sums + m * pitch + n), min(LANES, cells - n));
    for (int64_t n = 0; n < cells && !stores(q); n += PIECE)
        put_rows(q, &c->out, at + row * q->out_row + (column + n) * q->out_column, sums + n, pitch, rows, min(PIECE, cells - n), worker);
}

static int64_t worker_bytes(const plan *p) { return p->left_bytes + p->sums_bytes + (p->alone ? p->right_bytes : 0); }

static void pack_task(const void *context, int64_t task, int64_t worker) {
    (void)worker;
    const call *c = context;
    const int64_t first = task * PACKED;
    pack_right(c, c->right, c->packed, c->columns, first, min(PACKED, c->vectors - first));
}

static void block_task(const void *context, int64_t task, int64_t worker) {
    const call *c = context;
    const plan *p = c->p;
    const int64_t shares = ceil_div(c->vectors, p->share), first = task % shares * p->share, tile = task / shares * p->block;
    multiply(c, c->left, c->packed, c->columns, c->workers + worker * worker_bytes(p), 0, tile,
             min(p->tiles, tile + p->block), first, min(p->share, c->vectors - first), worker);
}

static void product_task(const void *context, int64_t task, int64_t worker) {
    const call *c = context;
    const plan *p = c->p;
    int64_t left, right, out;
    product_at(&p->q, task, &left, &right, &out);
    char *own = c->workers + worker * worker_bytes(p);
    ivec *packed = (ivec *)(void *)(own + p->left_bytes + p->sums_bytes);
    int32_t *columns = (int32_t *)(void *)(packed + p->units * p->stage);
    pack_right(c, c->right + right, packed, columns, 0, p->vectors);
    for (int64_t tile = 0; tile < p->tiles; tile += p->block)
        for (int64_t first = 0; first < p->vectors; first += p->share)
            multiply(c, c->left + left, packed, columns, own, out, tile, min(p->tiles, tile + p->block), first,
                     min(p->share, p->vectors - first), worker);
}

static int64_t runs_bytes(const plan *p) { return p->q.term_axes > 0 ? whole_lines(p->q.terms / p->run * 8) : 0; }

int64_t OPWRIGHT_NAME(contract_scratch)(const void *problem, int64_t workers) {
    const opwright_contraction *contraction = problem;
    plan p;
    plan_of(&p, contraction, workers);
    const int64_t operands = copied_bytes(&contraction->left) + copied_bytes(&contraction->right) + OVER;
    if (few_fits(&p.q))
        return operands + max(1, workers) * few_worker_bytes(&p.q);
    return operands + runs_bytes(&p) + (p.alone ? 0 : p.right_bytes) + max(1, workers) * worker_bytes(&p);
}

void OPWRIGHT_NAME(contract)(const void *problem, const void *given_left, const void *given_right, void *out,
                             opwright_finish *finish, const void *context, const opwright_team *team, void *scratch) {
    const opwright_contraction *contraction = problem;
    plan p;
    plan_of(&p, contraction, team ? team->workers : 1);
    const bool swapped = contraction->swapped != 0;
    const void *const first = swapped ? given_right : given_left, *const second = swapped ? given_left : given_right;
    const copies o = copied_operands(&contraction->left, &contraction->right, first, second, scratch, team);
    const bool exchanged = exchanges(contraction);
    const uint8_t *const left = exchanged ? o.right : o.left, *const right = exchanged ? o.left : o.right;
    int64_t *const runs = (int64_t *)(void *)((char *)o.rest + OVER);
    if (p.products == 0 || p.q.rows == 0 || p.q.columns == 0)
        return;
    const sink whole = {out, 0, finish, context};
    if (few_fits(&p.q)) {
        few_rows(&p.q, p.products, left, right, whole, team, runs);
        return;
    }
    for (int64_t r = 0; p.q.term_axes > 0 && r < p.q.terms / p.run; r++)
        runs[r] = term_place(&p.q, r * p.run);
    scratch = (char *)runs + runs_bytes(&p);
    call c = {.p = &p, .left = left, .right = right, .out = whole, .packed = scratch, .runs = runs};
    c.columns = (int32_t *)(void *)(c.packed + p.units * p.stage);
    c.workers = (char *)scratch + (p.alone ? 0 : p.right_bytes);
    c.vectors = p.vectors;
    if (p.alone) {
        opwright_run(team, product_task, &c, p.products);
        return;
    }
    for (int64_t product = 0; product < p.products; product++) {
        int64_t left_at, right_at, out_at_;
        product_at(&p.q, product, &left_at, &right_at, &out_at_);
        c.left = left + left_at, c.right = right + right_at;
        c.out = sink_at(&p.q, whole, out_at_);
        for (c.first = 0; c.first < p.vectors; c.first += p.stage) {
            c.vectors = min(p.stage, p.vectors - c.first);
            opwright_run(team, pack_task, &c, ceil_div(c.vectors, PACKED));
            opwright_run(team, block_task, &c, ceil_div(p.tiles, p.block) * ceil_div(c.vectors, p.share));
        }
    }
}
