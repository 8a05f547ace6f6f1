// Sums of products of bytes, signed or not, exactly. See contraction.h; sums are integers of 32 bits.
//
// Terms are processed in units: four bytes if one instruction multiplies unsigned by signed bytes, else two 16-bit
// integers. With four, 128 is added to a signed left operand and subtracted from an unsigned right one. The sums of rows
// and columns give the correction of the sums of products for that, and for zero points. Left may be windows that overlap:
// rows of it are gathered run by run.

#include "contraction_copy.h"
#include "contraction_cells.h"

#if OPWRIGHT_AMX
#include "bytes_amx.h"
#define MAX_TILE 32
#elif LANES == 16
#define MAX_TILE 14
#define TILES_OF(T, NB) T(1, NB) T(2, NB) T(3, NB) T(4, NB) T(5, NB) T(6, NB) T(7, NB) T(8, NB) T(9, NB) T(10, NB) \
    T(11, NB) T(12, NB) T(13, NB) T(14, NB)
#else
#define MAX_TILE 6
#define TILES_OF(T, NB) T(1, NB) T(2, NB) T(3, NB) T(4, NB) T(5, NB) T(6, NB)
#endif

enum {
    WIDE = 2,                // vectors of a panel
    CHUNK = 512,             // units that are processed at a time
    PITCH = CHUNK + 16,      // from a row of copied left to the next: a constant, so that tiles need one address
    STAGE = 4 << 20,         // bytes of right that are packed at a time
    ALONE = 512 << 10,       // bytes of right, where a task is a product
    HELD = 128 << 10,        // bytes of sums of a block
    BLOCK = 8,               // tiles of a block
    PARTS = 4,               // tasks for each worker
    PACKED = 8,              // vectors of a task that packs
    PIECE = 256,             // cells that are converted at a time
    OVER = 64,               // bytes that are copied at a time, from a copy of left that has so many more
};

// Whether operands are shifted to the signs of the instruction.
#define SHIFTED (GROUP == 4 && !OPWRIGHT_AMX)

typedef struct plan {
    opwright_contraction q;
    int64_t products, vectors, tiles, units, chunks, block, share, stage, rows;
    bool alone;
    int32_t left_zero, right_zero; // of what is multiplied
    int64_t run;                   // contiguous terms of left, if rows are gathered
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

// Lanes are the contiguous axis of out, or the longer one.
static bool exchanges(const opwright_contraction *q) {
    if (q->term_axes > 0)
        return false;
    return (q->columns < LANES && q->rows > q->columns) || (q->out_column != 1 && q->out_row == 1 && q->rows >= LANES);
}

static void plan_of(plan *p, const opwright_contraction *contraction, int64_t workers) {
    *p = (plan){.q = *contraction, .products = 1};
    opwright_contraction *q = &p->q;
    if (exchanges(q))
        exchange(q);
    for (int64_t b = 0; b < q->batches; b++)
        p->products *= q->batch[b];
    p->left_zero = (int32_t)q->left_zero + (SHIFTED && q->left_signed ? 128 : 0);
    p->right_zero = (int32_t)q->right_zero - (SHIFTED && !q->right_signed ? 128 : 0);
    p->run = q->term_axes > 0 && q->term_step[q->term_axes - 1] == 1 ? q->term_extent[q->term_axes - 1] : 1;
    p->vectors = ceil_div(max(1, q->columns), LANES * WIDE) * WIDE;
    p->tiles = max(1, ceil_div(q->rows, MAX_TILE));
    p->units = max(1, ceil_div(q->terms, GROUP));
    p->chunks = ceil_div(p->units, CHUNK);
    const int64_t vector_bytes = p->units * (int64_t)sizeof(ivec);
    p->alone = p->products > 1 && (workers <= 1 || p->products >= 2 * workers) && p->vectors * vector_bytes <= ALONE;
    p->stage = p->alone ? p->vectors : min(p->vectors, max(1, STAGE / vector_bytes / WIDE) * WIDE);
    p->block = min(BLOCK, p->tiles);
    if (!p->alone && workers > 1)
        p->block = max(1, min(p->block, p->tiles / (PARTS * workers)));
    p->rows = p->block * MAX_TILE;
    p->share = min(p->stage, max(1, HELD / (p->rows * LANES * 4) / WIDE) * WIDE);
    p->right_bytes = p->stage * (vector_bytes + LANES * 4);
    p->left_bytes = whole_lines(p->rows * (PITCH + 1) * 4);
    p->sums_bytes = whole_lines(p->rows * p->share * LANES * 4);
}

static int64_t tile_row(const plan *p, int64_t tile) {
    return p->q.rows / p->tiles * tile + min(tile, p->q.rows % p->tiles);
}

static int64_t chunk_units(const plan *p, int64_t chunk) { return min(CHUNK, p->units - chunk * CHUNK); }

// A term of a unit as it is multiplied.
INLINE int32_t term_of(uint8_t byte, bool is_signed, bool left) {
#if GROUP == 4
    return SHIFTED && left == is_signed ? byte ^ 0x80 : byte;
#else
    (void)left;
    return (uint16_t)(is_signed ? (int8_t)byte : (int16_t)byte);
#endif
}

// A unit of at most `count` terms, `step` apart; the others are 0.
INLINE int32_t unit_of(const uint8_t *from, int64_t step, int64_t count, bool is_signed, bool left) {
    uint32_t unit = 0;
    for (int64_t t = 0; t < min(GROUP, count); t++)
        unit |= (uint32_t)term_of(from[t * step], is_signed, left) << (t * (32 / GROUP));
    return (int32_t)unit;
}

// LANES units of terms that lie side by side.
INLINE ivec units_of(const uint8_t *from, bool is_signed, bool left) {
    ivec units;
#if GROUP == 4
    memcpy(&units, from, sizeof units);
    if (SHIFTED && left == is_signed)
        units ^= (int32_t)0x80808080;
#else
    (void)left;
    int16_t terms[GROUP * LANES];
    for (int i = 0; i < GROUP * LANES; i++)
        terms[i] = is_signed ? (int8_t)from[i] : from[i];
    memcpy(&units, terms, sizeof units);
#endif
    return units;
}

// Where the runs of a gathered row begin.
static void find_runs(const plan *p, int64_t *runs) {
    const opwright_contraction *q = &p->q;
    for (int64_t r = 0; r < q->terms / p->run; r++) {
        int64_t rest = r * p->run;
        runs[r] = 0;
        for (int64_t a = q->term_axes - 1; a >= 0; rest /= q->term_extent[a], a--)
            runs[r] += rest % q->term_extent[a] * q->term_step[a];
    }
}

// Rows [row, row + rows) of the terms of a chunk, run by run.
static void gather_left(const call *c, const uint8_t *left, int64_t chunk, int64_t row, int64_t rows, int32_t *to) {
    const plan *p = c->p;
    const opwright_contraction *q = &p->q;
    const int64_t units = chunk_units(p, chunk), first = chunk * CHUNK * GROUP, count = min(units * GROUP, q->terms - first);
    const bool is_signed = q->left_signed, over = q->left.wanted != 0;
    uint8_t terms[CHUNK * GROUP + LANES * GROUP + OVER];
    for (int64_t m = 0; m < rows; m++, to += PITCH) {
        const uint8_t *from = left;
        for (int64_t a = q->row_axes - 1, rest = row + m; a >= 0; rest /= q->row_extent[a], a--)
            from += rest % q->row_extent[a] * q->row_step[a];
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
        for (int64_t u = 0; u < units; u += LANES) {
            const ivec v = units_of(terms + u * GROUP, is_signed, true);
            memcpy(to + u, &v, sizeof v);
        }
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
            for (; (u + LANES) * GROUP <= q->terms - first && u + LANES <= units; u += LANES) {
                const ivec v = units_of(left + u * GROUP, is_signed, true);
                memcpy(to + u, &v, sizeof v);
            }
        for (; u < units; u++)
            to[u] = unit_of(left + u * GROUP * q->left_term, q->left_term, q->terms - first - u * GROUP, is_signed, true);
        for (; OPWRIGHT_AMX && u % LANES != 0; u++) // to whole registers
            to[u] = 0;
    }
}

// The sum of a unit's terms.
INLINE int32_t unit_sum(int32_t unit, bool is_signed) {
    int32_t sum = 0;
#if GROUP == 4
    for (int t = 0; t < GROUP; t++) {
        const uint8_t term = (uint8_t)((uint32_t)unit >> (8 * t));
        sum += is_signed ? (int8_t)term : term;
    }
#else
    (void)is_signed;
    for (int t = 0; t < GROUP; t++)
        sum += (int16_t)((uint32_t)unit >> (16 * t));
#endif
    return sum;
}

// A vector of columns of a unit: the bytes of each of its terms lie side by side. Assembled lane by lane, packing took
// most of the time of 32 x 4096 x 1024 (AMD Zen 4, gcc 12.2).
INLINE ivec beside(const uint8_t *from, int64_t step, bool is_signed) {
    ivec units = {0};
    UNROLL for (int t = 0; t < GROUP; t++) {
        const ivec terms = bytes_load(from + t * step);
#if GROUP == 4
        units |= terms << (8 * t);
#else
        units |= ((is_signed ? terms << 24 >> 24 : terms) & 0xffff) << (16 * t);
#endif
    }
#if GROUP == 4
    if (SHIFTED && !is_signed)
        units ^= (int32_t)0x80808080;
#endif
    return units;
}

// The units [u, u + LANES) of LANES columns, each a vector of terms that lie side by side.
static void turned(const uint8_t *from, int64_t column, bool is_signed, ivec *to, int64_t step) {
    vec x[LANES];
    UNROLL for (int l = 0; l < LANES; l++) {
        const ivec units = units_of(from + l * column, is_signed, false);
        memcpy(&x[l], &units, sizeof units);
    }
    vec_transpose(x);
    UNROLL for (int l = 0; l < LANES; l++) memcpy(to + l * step, &x[l], sizeof x[l]);
}

// Units [u, last) of the columns of vector v of a chunk of right.
static void pack_vector(const plan *p, const uint8_t *right, int64_t chunk, int64_t v, int64_t u, int64_t last, ivec *to) {
    const opwright_contraction *q = &p->q;
    const int64_t first = chunk * CHUNK * GROUP, lanes = q->columns - v * LANES;
    const bool is_signed = q->right_signed;
    right += first * q->right_term + v * LANES * q->right_column;
    const int64_t whole = lanes >= LANES ? min(last, (q->terms - first) / GROUP) : 0;
    if (q->right_column == 1)
        for (; u < whole; u++)
            to[u * WIDE] = beside(right + u * GROUP * q->right_term, q->right_term, is_signed);
    else if (q->right_term == 1)
        for (; u + LANES <= whole; u += LANES)
            turned(right + u * GROUP, q->right_column, is_signed, to + u * WIDE, WIDE);
    for (; u < last; u++) {
        ivec made = {0};
        for (int64_t l = 0; l < min(LANES, lanes); l++)
            made[l] = unit_of(right + u * GROUP * q->right_term + l * q->right_column, q->right_term,
                              q->terms - first - u * GROUP, is_signed, false);
        to[u * WIDE] = made;
    }
}

// The sums of the terms of a unit of LANES columns.
INLINE ivec columns_sum(ivec units, bool is_signed) {
#if OPWRIGHT_AMX
    ivec sums;
    for (int l = 0; l < LANES; l++)
        sums[l] = unit_sum(units[l], is_signed);
    return sums;
#else
    (void)is_signed;
    return dotted((ivec){0}, (ivec){0} + (GROUP == 4 ? 0x01010101 : 0x00010001), units);
#endif
}

// Vectors [first, first + count) of the stage, all chunks. All vectors of some units are read before the next units, so
// that lines of memory are read once.
static void pack_right(const call *c, const uint8_t *right, ivec *packed, int32_t *columns, int64_t first, int64_t count) {
    const plan *p = c->p;
    for (int64_t chunk = 0; chunk < p->chunks; chunk++) {
        const int64_t units = chunk_units(p, chunk);
        for (int64_t u = 0; u < units; u += LANES)
            for (int64_t v = first; v < first + count; v++)
                pack_vector(p, right, chunk, c->first + v, u, min(units, u + LANES),
                            packed + chunk * CHUNK * c->vectors + v / WIDE * WIDE * units + v % WIDE);
    }
    for (int64_t v = first; v < first + count && p->left_zero != 0; v++) {
        ivec total = {0};
        for (int64_t chunk = 0; chunk < p->chunks; chunk++) {
            const int64_t units = chunk_units(p, chunk);
            const ivec *from = packed + chunk * CHUNK * c->vectors + v / WIDE * WIDE * units + v % WIDE;
            for (int64_t u = 0; u < units; u++)
                total += columns_sum(from[u * WIDE], p->q.right_signed);
        }
        total = (total - p->right_zero * (int32_t)p->q.terms) * -p->left_zero;
        memcpy(columns + v * LANES, &total, sizeof total);
    }
}

// Rows of scalars against a panel: sums of the chunks before are in `sums`.
#if OPWRIGHT_AMX
static void multiplied(const opwright_contraction *q, int64_t rows, const int32_t *scalars, const ivec *panel, int64_t units,
                 int32_t *sums, int64_t row, bool begins) {
#define OF_SIGNS(LEFT, RIGHT)                                                                                          \
    rows > AMX_ROWS ? amx_bytes(scalars, PITCH, panel, units, sums, row, begins, rows, true, LEFT, RIGHT)              \
                    : amx_bytes(scalars, PITCH, panel, units, sums, row, begins, rows, false, LEFT, RIGHT)
    if (q->left_signed)
        q->right_signed ? (OF_SIGNS(true, true)) : (OF_SIGNS(true, false));
    else
        q->right_signed ? (OF_SIGNS(false, true)) : (OF_SIGNS(false, false));
}
#else
INLINE void sums_of(const int32_t *scalars, const ivec *panel, int64_t units, int32_t *sums, int64_t row, bool begins,
                 int MR, int NB) {
    ivec sum[MAX_TILE][WIDE]; // literals: an array of variable length would stay in memory
    UNROLL for (int m = 0; m < MR; m++) UNROLL for (int b = 0; b < NB; b++) sum[m][b] = (ivec){0};
    for (int64_t u = 0; u < units; u++) {
        ivec x[WIDE];
        UNROLL for (int b = 0; b < NB; b++) x[b] = panel[u * WIDE + b];
        UNROLL for (int m = 0; m < MR; m++) {
            const ivec s = (ivec){0} + scalars[m * PITCH + u];
            UNROLL for (int b = 0; b < NB; b++) sum[m][b] = dotted(sum[m][b], s, x[b]);
        }
    }
    UNROLL for (int m = 0; m < MR; m++) UNROLL for (int b = 0; b < NB; b++) {
        int32_t *to = sums + m * row + b * LANES;
        ivec before = {0};
        if (!begins)
            memcpy(&before, to, sizeof before);
        const ivec after = sum[m][b] + before; // the address of a sum would keep all of them in memory
        memcpy(to, &after, sizeof after);
    }
}

typedef void tile_of(const int32_t *, const ivec *, int64_t, int32_t *, int64_t, bool);
#define DEFINE(MR, NB)                                                                                                 \
    static void tile_##MR(const int32_t *scalars, const ivec *panel, int64_t units, int32_t *sums,      \
                          int64_t row, bool begins) {                                                                  \
        sums_of(scalars, panel, units, sums, row, begins, MR, NB);                                                 \
    }
TILES_OF(DEFINE, 2)
#define LISTED(MR, NB) tile_##MR,
static tile_of *const TILE_OF[MAX_TILE + 1] = {0, TILES_OF(LISTED, 2)};

static void multiplied(const opwright_contraction *q, int64_t rows, const int32_t *scalars, const ivec *panel, int64_t units,
                 int32_t *sums, int64_t row, bool begins) {
    (void)q;
    TILE_OF[rows](scalars, panel, units, sums, row, begins);
}
#endif

// Stores the sums of a row, converted to the type of out.
static void put_row(const opwright_contraction *q, const sink *s, int64_t at, const int32_t *sums, const int32_t *columns,
                    int32_t off, int64_t count, int64_t worker) {
    if (!s->finish && q->sums == 0 && q->out_column == 1) {
        int32_t *restrict to = (int32_t *)(void *)s->out + at;
        for (int64_t i = 0; i < count; i++)
            to[i] = (int32_t)((uint32_t)sums[i] + (uint32_t)columns[i] + (uint32_t)off);
        return;
    }
    union { int32_t s32[PIECE]; float f32[PIECE]; int64_t s64[PIECE]; double f64[PIECE]; } to;
    for (int64_t n = 0; n < count; n += PIECE, at += PIECE * q->out_column) {
        const int64_t cells = min(PIECE, count - n);
#define CONVERTED(name, type)                                                                                    \
    for (int64_t i = 0; i < cells; i++)                                                                                \
        to.name[i] = (type)(int32_t)((uint32_t)sums[n + i] + (uint32_t)columns[n + i] + (uint32_t)off);                                                       \
    if (!s->finish && q->out_column == 1)                                                                              \
        memcpy((type *)(void *)s->out + at, to.name, (size_t)cells * sizeof(type));                                    \
    else if (!s->finish)                                                                                               \
        for (int64_t i = 0; i < cells; i++)                                                                            \
            ((type *)(void *)s->out)[at + i * q->out_column] = to.name[i];
        switch (q->sums) {
        case 0: CONVERTED(s32, int32_t) break;
        case 1: CONVERTED(f32, float) break;
        case 2: CONVERTED(s64, int64_t) break;
        default: CONVERTED(f64, double) break;
        }
        const int64_t size = q->sums < 2 ? 4 : 8;
        if (s->finish && q->out_column == 1)
            s->finish(s->context, s->first + at, cells, &to, worker);
        else if (s->finish)
            for (int64_t i = 0; i < cells; i++)
                s->finish(s->context, s->first + at + i * q->out_column, 1, (const char *)&to + i * size, worker);
    }
}

// Tiles [tile, last) against vectors [first, first + count) of the stage.
static void multiply(const call *c, const uint8_t *left, const ivec *packed, const int32_t *columns, char *own, int64_t at,
                     int64_t tile, int64_t last, int64_t first, int64_t count, int64_t worker) {
    static const int32_t zeros[PIECE];
    const plan *p = c->p;
    const opwright_contraction *q = &p->q;
    const int64_t row = tile_row(p, tile), rows = tile_row(p, last) - row;
    int32_t *off = (int32_t *)(void *)own, *copy = off + p->rows, *sums = (int32_t *)(void *)(own + p->left_bytes);
    memset(off, 0, (size_t)rows * sizeof *off);
    for (int64_t chunk = 0; chunk < p->chunks; chunk++) {
        const int64_t units = chunk_units(p, chunk);
        copy_left(c, left, chunk, row, rows, copy);
        if (p->right_zero != 0)
            for (int64_t m = 0; m < rows; m++) {
                int32_t sum = 0;
                for (int64_t u = 0; u < units; u++)
                    sum += unit_sum(copy[m * PITCH + u], !SHIFTED && q->left_signed);
                off[m] -= p->right_zero * sum;
            }
        for (int64_t v = 0; v < count; v += WIDE)
            for (int64_t t = tile; t < last; t++) {
                const int64_t m = tile_row(p, t) - row, height = tile_row(p, t + 1) - row - m;
                multiplied(q, height, copy + m * PITCH, packed + chunk * CHUNK * c->vectors + (first + v) * units, units,
                           sums + (m * p->share + v) * LANES, p->share * LANES, chunk == 0);
            }
    }
    const int64_t column = (c->first + first) * LANES, cells = min(count * LANES, q->columns - column);
    const bool corrected = p->left_zero != 0;
    for (int64_t n = 0; n < cells; n += PIECE)
        for (int64_t m = 0; m < rows; m++)
            put_row(q, &c->out, at + (row + m) * q->out_row + (column + n) * q->out_column, sums + m * p->share * LANES + n,
                    corrected ? columns + first * LANES + n : zeros, off[m], min(PIECE, cells - n), worker);
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
    return copied_bytes(&contraction->left) + copied_bytes(&contraction->right) + OVER + runs_bytes(&p) +
           (p.alone ? 0 : p.right_bytes) + max(1, workers) * worker_bytes(&p);
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
    if (p.q.term_axes > 0)
        find_runs(&p, runs);
    scratch = (char *)runs + runs_bytes(&p);
    call c = {.p = &p, .left = left, .right = right, .out = {out, 0, finish, context}, .packed = scratch, .runs = runs};
    c.columns = (int32_t *)(void *)(c.packed + p.units * p.stage);
    c.workers = (char *)scratch + (p.alone ? 0 : p.right_bytes);
    c.vectors = p.vectors;
    if (p.alone) {
        opwright_run(team, product_task, &c, p.products);
        return;
    }
    const int64_t size = p.q.sums < 2 ? 4 : 8;
    for (int64_t product = 0; product < p.products; product++) {
        int64_t left_at, right_at, out_at_;
        product_at(&p.q, product, &left_at, &right_at, &out_at_);
        c.left = left + left_at, c.right = right + right_at;
        c.out = (sink){finish ? out : (char *)out + out_at_ * size, out_at_, finish, context};
        for (c.first = 0; c.first < p.vectors; c.first += p.stage) {
            c.vectors = min(p.stage, p.vectors - c.first);
            opwright_run(team, pack_task, &c, ceil_div(c.vectors, PACKED));
            opwright_run(team, block_task, &c, ceil_div(p.tiles, p.block) * ceil_div(c.vectors, p.share));
        }
    }
}
