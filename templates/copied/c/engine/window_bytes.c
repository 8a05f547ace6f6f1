// Sums of products of bytes whose left operand is seen through windows, exactly: tiles read windows where they are.
//
// Left is copied first, with its border, as the instruction that multiplies takes it: bytes, 128 added to signed ones, or
// integers of 16 bits. A run of terms that lie side by side is filled up to whole units of GROUP terms. What tiles read
// past a run is multiplied by zeros, which right, signed and without a zero point, has there. The sums of columns correct
// for what was added to left and for its zero point. Rows of left and out are lines of windows, each an axis of equal
// distances, of which a tile takes neighbours.
//
// Of the time of the engine of products, which gathers windows: 3 to 64 channels 7x7 stride 2 0.70, 64 to 64 3x3 0.86, both
// with the borders copied as here (AMD EPYC Zen 5, gcc 12.2, one thread, u8 and s8).

#include "contraction_bytes_cells.h"
#include "contraction_copy.h"

enum {
    CELL = 4 / GROUP,    // bytes of a cell of left as it is multiplied
    OVER = 64,           // bytes of scratch behind left: tiles read past its last run
    BLOCK = 8,           // tiles of a task
    PARTS = 4,           // tasks for each worker
    HELD = 128 << 10,    // bytes of sums that wait to be finished
};

typedef struct byte_operands {
    const char *windows;
    int64_t row;           // bytes from a window to the next
    const int64_t *starts; // of the runs of a window
    int64_t runs, units;   // of a run
    const ivec *panel;
    int32_t *to;
    int64_t to_row, cells; // the distance of rows; cells of the last vector
    const int32_t *columns; // what is added to each column
} byte_operands;

#include "window_bytes_tiles.h"

typedef struct plan {
    opwright_contraction q;
    int64_t products, line, parts, tiles; // windows of a line, its tiles; tiles of a product
    int64_t run, runs, run_units, units, vectors;
    int64_t block, blocks, share, shares; // tiles and vectors of a task
    int64_t left_bytes, cells_bytes, packed_bytes, sums_bytes;
    bool stored;  // by tiles themselves
    int64_t taps; // of right where it is packed as it is given, else 0
} plan;

typedef struct call {
    const plan *p;
    copying copies;
    const char *left;
    char *cells; // left's, where its copy is converted to
    const uint8_t *right;
    ivec *packed;
    int32_t *columns;
    int64_t *starts;
    sink out;
    char *workers;
} call;

// The taps of right, if it is to be copied and what is given has them side by side, for whole units of channels.
static int64_t taps_beside(const opwright_contraction *q) {
    const opwright_copied *r = &q->right;
    const int64_t last = r->axes - 1;
    if (!r->wanted || last < 1 || r->extent[last] % GROUP != 0)
        return 0;
    int64_t taps = 1, a = last - 1;
    for (; a > 0 && r->step[a] == taps; a--)
        taps *= r->extent[a];
    return a == 0 && r->extent[0] == q->columns && taps * r->extent[last] == q->terms ? taps : 0;
}

static plan plan_of(const opwright_contraction *q, int64_t workers) {
    plan p = {.q = *q, .products = products_of(q)};
    p.line = q->row_axes > 0 ? q->row_extent[q->row_axes - 1] : 1;
    p.parts = ceil_div(p.line, MAX_WINDOWS);
    p.tiles = q->rows / max(1, p.line) * p.parts;
    p.run = q->term_step[q->term_axes - 1] == 1 ? q->term_extent[q->term_axes - 1] : 1;
    p.runs = q->terms / p.run;
    p.run_units = ceil_div(p.run, GROUP);
    p.units = p.runs * p.run_units;
    p.vectors = ceil_div(q->columns, LANES);
    p.stored = !q->finished && q->sums == 0 && q->out_column == 1;
    // Tiles share the columns of a task: those are divided first where there is little else, since right is long then.
    const int64_t tasks = PARTS * max(1, workers), row_bytes = LANES * 4 * MAX_WINDOWS * BLOCK;
    p.block = max(1, min(BLOCK, p.tiles));
    const int64_t wanted = ceil_div(p.vectors * p.products * ceil_div(p.tiles, p.block), tasks);
    p.share = round_up(max(1, min(wanted, p.vectors)), MAX_PANEL);
    if (!p.stored)
        p.share = min(p.share, max(1, HELD / row_bytes / MAX_PANEL) * MAX_PANEL);
    p.shares = ceil_div(p.vectors, p.share);
    p.block = max(1, min(p.block, p.products * p.tiles * p.shares / tasks));
    p.blocks = ceil_div(p.tiles, p.block);
    p.taps = taps_beside(q);
    p.left_bytes = copied_bytes(&q->left) + OVER;
    p.cells_bytes = CELL == 1 ? 0 : whole_lines(copied_cells(&q->left) * CELL) + OVER;
    p.packed_bytes = p.vectors * (p.units * (int64_t)sizeof(ivec) + LANES * 4);
    p.sums_bytes = p.stored ? 0 : p.share * LANES * 4 * MAX_WINDOWS * p.block;
    return p;
}

// A line of the copy of left, or several, and their cells as they are multiplied.
static void left_task(const void *context, int64_t task, int64_t worker) {
    const call *c = context;
    const copying *k = &c->copies;
    const bool is_signed = c->p->q.left_signed != 0;
    copy_task(k, task, worker);
    if (CELL == 1 && !is_signed)
        return;
    const int64_t first = task * k->each * k->length, count = min(k->each, k->lines - task * k->each) * k->length;
    const uint8_t *from = (const uint8_t *)k->to + first;
    char *to = c->cells + first * CELL;
    int64_t i = 0;
    for (; i + LANES * GROUP <= count; i += LANES * GROUP, to += sizeof(ivec)) {
        ivec_store((int32_t *)(void *)to, units_of(from + i, is_signed, true));
    }
    for (; i < count; i++, to += CELL) {
        const int32_t term = term_of(from[i], is_signed, true);
        memcpy(to, &term, CELL); // the lower bytes
    }
}

// LANES units of a column from unit u on, as long as there are some.
static ivec column_units(const plan *p, const uint8_t *column, int64_t u) {
    const int64_t step = p->q.right_term;
    const int64_t within = u % p->run_units * GROUP;
    int64_t run = u / p->run_units, from = within;
    if (step == 1 && p->run - within >= LANES * GROUP)
        return units_of(column + run * p->run + within, true, false);
    uint8_t terms[LANES * GROUP] = {0};
    for (int64_t t = 0; t < LANES * GROUP && run < p->runs; run++, from = 0) {
        const int64_t there = min(p->run - from, LANES * GROUP - t);
        const uint8_t *const at = column + (run * p->run + from) * step;
        if (step == 1)
            memcpy(terms + t, at, (size_t)there);
        else
            for (int64_t i = 0; i < there; i++)
                terms[t + i] = at[i * step];
        t += round_up(there, GROUP);
    }
    return units_of(terms, true, false);
}

// A vector of columns of all units, `width` apart, from right as it is given: the units of LANES taps at a time.
// 512 to 512 channels 3x3 over 7x7: 0.62 of the time in which weights are copied cell by cell first (AMD EPYC Zen 5, gcc 12.2).
static void pack_taps(const call *c, int64_t v, int64_t lanes, int64_t width, ivec *to) {
    const plan *p = c->p;
    const opwright_copied *r = &p->q.right;
    const int64_t channels = r->extent[r->axes - 1], step = r->step[r->axes - 1];
    // What may be read ends here, or a vector of bytes before: steps may be negative.
    const int64_t end = (p->q.columns - 1) * max(0, r->step[0]) + (channels - 1) * max(0, step) + p->taps - LANES;
    for (int64_t unit = 0; unit < channels / GROUP; unit++)
        for (int64_t first = 0; first < p->taps; first += LANES) {
            const int64_t taps = min(LANES, p->taps - first);
            vec x[LANES];
            UNROLL for (int l = 0; l < LANES; l++) {
                const int64_t at = (v * LANES + l) * r->step[0] + unit * GROUP * step + first;
                ivec units = {0};
                if (l < lanes && at + max(0, (GROUP - 1) * step) <= end)
                    put_beside(c->right + at, step, true, &units);
                else
                    for (int64_t t = 0; t < taps && l < lanes; t++)
                        units[t] = unit_of(c->right + at + t, step, GROUP, true, false);
                x[l] = units;
            }
            vec_transpose(x);
            UNROLL for (int t = 0; t < LANES; t++)
                if (t < taps)
                    to[((first + t) * (channels / GROUP) + unit) * width] = x[t];
        }
}

// A vector of columns of all units, and what corrects its sums.
static void pack_task(const void *context, int64_t v, int64_t worker) {
    (void)worker;
    const call *c = context;
    const plan *p = c->p;
    const opwright_contraction *q = &p->q;
    const int64_t width = min(MAX_PANEL, p->vectors - v / MAX_PANEL * MAX_PANEL), lanes = min(LANES, q->columns - v * LANES);
    const uint8_t *const right = c->right + v * LANES * q->right_column;
    ivec *const to = c->packed + v / MAX_PANEL * MAX_PANEL * p->units + v % MAX_PANEL;
    const bool beside = q->right_column == 1 && lanes == LANES;
    if (p->taps > 0)
        pack_taps(c, v, lanes, width, to);
    for (int64_t u = 0; p->taps == 0 && beside && u < p->units; u++) {
        const int64_t run = u / p->run_units, from = u % p->run_units * GROUP;
        const uint8_t *const at = right + (run * p->run + from) * q->right_term;
        if (p->run - from >= GROUP) {
            put_beside(at, q->right_term, true, to + u * width);
            continue;
        }
        ivec made;
        for (int l = 0; l < LANES; l++)
            made[l] = unit_of(at + l, q->right_term, p->run - from, true, false);
        to[u * width] = made;
    }
    for (int64_t u = 0; p->taps == 0 && !beside && u < p->units; u += LANES) {
        vec x[LANES];
        UNROLL for (int l = 0; l < LANES; l++) x[l] = l < lanes ? column_units(p, right + l * q->right_column, u) : (ivec){0};
        vec_transpose(x);
        UNROLL for (int l = 0; l < LANES; l++)
            if (l < p->units - u)
                to[(u + l) * width] = x[l];
    }
    const int32_t zero = (int32_t)q->left_zero + (GROUP == 4 && q->left_signed ? 128 : 0);
    ivec total = {0};
    for (int64_t u = 0; zero != 0 && u < p->units; u++)
        total += columns_sum(to[u * width], true);
    ivec_store(c->columns + v * LANES, total * -zero);
}

// Tiles of neighbouring lines against a share of the columns.
static void block_task(const void *context, int64_t task, int64_t worker) {
    const call *c = context;
    const plan *p = c->p;
    const opwright_contraction *q = &p->q;
    const int64_t first = task % p->shares * p->share, count = min(p->share, p->vectors - first);
    const int64_t block = task / p->shares % p->blocks, tile = block * p->block, last = min(p->tiles, tile + p->block);
    int64_t left, right, at;
    product_at(q, task / p->shares / p->blocks, &left, &right, &at);
    const int64_t row = tile / p->parts * p->line + tile % p->parts * p->line / p->parts;
    const int64_t end = last / p->parts * p->line + last % p->parts * p->line / p->parts;
    const int64_t cells = min(count * LANES, q->columns - first * LANES), step = q->row_step[q->row_axes - 1];
    int32_t *const sums = (int32_t *)(void *)(c->workers + worker * p->sums_bytes);
    at += row * q->out_row + first * LANES * q->out_column;
    byte_operands o = {.row = step * CELL, .starts = c->starts, .runs = p->runs, .units = p->run_units};
    o.to_row = p->stored ? q->out_row : p->share * LANES;
    int32_t *const to = p->stored ? (int32_t *)(void *)c->out.out + at : sums;
    for (int64_t v = 0; v < count; v += MAX_PANEL) {
        const int64_t width = min(MAX_PANEL, p->vectors - first - v);
        o.panel = c->packed + (first + v) * p->units;
        o.columns = c->columns + (first + v) * LANES;
        o.cells = p->stored ? min(LANES, cells - (v + width - 1) * LANES) : LANES;
        for (int64_t t = tile; t < last; t++) {
            const int64_t part = t % p->parts * p->line / p->parts, height = (t % p->parts + 1) * p->line / p->parts - part;
            const int64_t from = left + part * step + row_place(q, t / p->parts, 1);
            o.windows = c->left + from * CELL;
            o.to = to + (t / p->parts * p->line + part - row) * o.to_row + v * LANES;
            tiles[width][height](&o);
        }
    }
    for (int64_t n = 0; n < cells && !p->stored; n += PIECE)
        put_rows(q, &c->out, at + n * q->out_column, sums + n, o.to_row, end - row, min(PIECE, cells - n), worker);
}

int64_t OPWRIGHT_NAME(window_scratch)(const void *problem, int64_t workers) {
    const opwright_contraction *q = problem;
    const plan p = plan_of(q, workers);
    const int64_t operands = p.left_bytes + p.cells_bytes + (p.taps > 0 ? 0 : copied_bytes(&q->right));
    return operands + p.packed_bytes + whole_lines(p.runs * 8) + max(1, workers) * p.sums_bytes;
}

void OPWRIGHT_NAME(window)(const void *problem, const void *given_left, const void *given_right, void *out,
                           opwright_finish *finish, const void *context, const opwright_team *team, void *scratch) {
    const opwright_contraction *q = problem;
    const plan p = plan_of(q, team ? team->workers : 1);
    if (p.products == 0 || q->rows == 0 || q->columns == 0)
        return;
    char *const copy = scratch, *const cells = CELL == 1 ? copy : copy + p.left_bytes, *const other = copy + p.left_bytes + p.cells_bytes;
    call c = {.p = &p, .left = cells, .cells = cells, .out = {out, 0, finish, context}};
    const opwright_copied none = {0};
    const void *const first = q->swapped ? given_right : given_left, *const second = q->swapped ? given_left : given_right;
    const copies o = copied_operands(&none, p.taps > 0 ? &none : &q->right, second, second, other, team);
    c.right = o.right + (p.taps > 0 ? q->right.first : 0), c.packed = o.rest;
    c.columns = (int32_t *)(void *)(c.packed + p.units * p.vectors);
    c.starts = (int64_t *)(void *)((char *)c.packed + p.packed_bytes);
    c.workers = (char *)c.starts + whole_lines(p.runs * 8);
    for (int64_t r = 0; r < p.runs; r++)
        c.starts[r] = term_place(q, r * p.run) * CELL;
    c.copies = copying_of(&q->left, first, copy);
    opwright_run(team, left_task, &c, ceil_div(c.copies.lines, c.copies.each));
    opwright_run(team, pack_task, &c, p.vectors);
    opwright_run(team, block_task, &c, p.products * p.blocks * p.shares);
}
