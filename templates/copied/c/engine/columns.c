// y and x over width lanes: the vectors are neighbouring columns of output, the scalars weights.
//
// For outputs of few channels, for which channel lanes would stay empty, and for products without taps in a layout with
// contiguous columns, which needs no transposition. A vector holds LANES outputs of one phase of phases.h; the rows of a tile
// are output channels. (Phases that reach the same inputs, where there are fewer channels than phases, took 1.0 to 1.7 times as
// long: AMD EPYC, Zen 4, f32.) Weights are packed `[group][output channel][tap][reduced channel]`, or
// `[...][reduced channel][tap of the row]` if a row has more taps than channels; input is copied
// `[plane][row][column % step][channel][column / step]`, a row when the first row of output needs it and over one that is no
// longer needed, or read in place. A task is a block of rows and columns of one image and group, and if these are few a share of
// its output channels. Loop order: rows, phases, groups of tile rows, columns.
//
// Short sums to many channels in contiguous rows cost less than storing them and listing their runs. All input of
// a block is copied first, steps are listed once for all rows with all taps, and rows are innermost, so that stores are
// sequential. Weights with an Inf or NaN use channel lanes if they would be multiplied by padding. 3 channels of
// 3x3 to 256, f32 48x48: 1.7 times as fast as over channels, bf16 2 times.
//
// Rejected: columns of all images as one row, for 1x1 over 7x7 and 14x14, gathered first: 320 channels to 1280 f32 0.92
// to 0.96 times as fast, bf16 0.95 to 1.0, 512 to 2048 0.97 to 1.03.
//
// Elsewhere, zeros beyond a row's ends are multiplied. If that gives NaN, the pixel is recomputed with in-bounds taps.
//
// Figures: see engine.h.

#include "engine.h"
#include "parts.h"
#include "solve.h"

enum {
    BLOCK_BYTES = 512 << 10, // of the copied rows: half of a second-level cache
    MANY_TASKS = 64,         // more are not made
    MAX_STEP = 8,           // maximum stride at which columns are sorted by remainder in registers
    AHEAD_LINES = 8,         // units of lines of channels that are prefetched before they are copied
    BLOCK_VECTORS = 32,      // maximum width of a block
    MIN_STRIDED = 4,       // reduced channels
    BRIEF_STEPS = 112,       // maximum terms of a short sum,
    BRIEF_TASKS = 16,        // and the wanted number of tasks
    SHARED_LANES = 32,       // fewer are not a task: each one copies the input
    SHARED_COLUMNS = 256,    // in total: products of more use channel lanes where these suit
};

typedef struct plan {
    solve s;
    int64_t channels; // reduced, in units
    bool in_turns;    // a row of output alternates between phases
    bool along_taps;  // runs go along the taps of a row, not along the channels
    bool brief;       // a tile's sums are steps, not runs, and its rows of output follow each other
    bool padded;      // rows have zeros beside them
    bool copied, in_place;
    int64_t channel_space;      // of a tap's packed weights, in units
    int64_t weights_pitch;      // from an output channel to the next
    int64_t channel_step;       // from a channel of a copied row to the next
    int64_t part_step;          // from the columns of one remainder to those of the next
    int64_t rows, columns;      // of a block, in q
    int64_t row_blocks, column_blocks, shares;
    int64_t slots;
    int64_t part_channels;              // of a part that a sink takes, 0 without one: those of a tile, or of a task
    int64_t rows_bytes, runs_bytes, buffer_bytes, part_bytes, bias_bytes, positions_bytes, weights_bytes;
} plan;

// Room in a copied row for the columns of input that a block's columns need.
static void widen_rows(plan *p, bool backward) {
    const axis *w = &p->s.axes[2];
    int64_t low, high;
    span(w, backward, 0, p->columns, &low, &high);
    p->part_step = ceil_div(high - low, w->in_step) + LANES;
    if (p->part_step * 4 % 2048 == 0)
        p->part_step += LANES;
}

static void plan_of(plan *p, opwright_problem *problem, bool backward, int64_t workers, bool finished) {
    collapse(problem);
    *p = (plan){.s = solve_of(problem, backward)};
    const solve *s = &p->s;
    const axis *d = &s->axes[0], *h = &s->axes[1], *w = &s->axes[2];
    p->channels = ceil_div(s->reduced, UNIT_CHANNELS);
    p->in_turns = w->out_step > 1 && s->out_x[2] == 1;
    const int64_t taps = d->taps * h->taps * w->taps;
    // Contiguous whole units are rows of scalars already.
    p->in_place = taps == 1 && sizeof(elem) * UNIT_CHANNELS == sizeof(unit) && s->w_reduced == 1 &&
                  s->reduced % UNIT_CHANNELS == 0 && s->w_lane % UNIT_CHANNELS == 0 &&
                  problem->w_g % UNIT_CHANNELS == 0;
    // If the last vectors, which end with the row, are few.
    const int64_t brief_columns = ceil_div(w->out, LANES) * LANES;
    p->brief = !OPWRIGHT_AMX && taps > 1 && taps * p->channels <= BRIEF_STEPS && s->lanes >= MAX_STEP_ROWS && s->out_x[2] == 1 &&
               h->out_step == 1 && w->out_step == 1 && w->out >= LANES && 4 * w->out >= 3 * brief_columns;
    p->along_taps = !p->brief && w->in_step == 1 && UNIT_CHANNELS == 1 && w->taps / w->classes > s->reduced;
    // Rows of a tile whose distance is near a multiple of 4 KiB would map to few sets of the first-level cache.
    const int64_t distance = taps * p->channels * 4 % 4096;
    p->channel_space = p->channels + (p->along_taps || p->brief || (distance >= 128 && distance <= 4096 - 128) ? 0 : 16);
    p->weights_pitch = p->in_place ? s->w_lane / UNIT_CHANNELS : taps * p->channel_space;

    const int64_t row_count = ceil_div(w->out, w->out_step), height = ceil_div(h->out, h->out_step);
    int64_t low, high;
    span(w, backward, 0, row_count, &low, &high);
    p->padded = low < 0 || high > w->in;
    p->copied = p->brief || p->padded || sizeof(elem) != sizeof(unit) || s->in_x[2] != 1 || w->in_step != 1 ||
                s->in_c * 4 % 2048 == 0;
    p->columns = min(row_count, (p->brief && height == 1 ? 4 : 1) * BLOCK_VECTORS * LANES);
    for (;;) {
        widen_rows(p, backward);
        if (p->columns <= 4 * LANES || d->taps * min(h->taps, h->in) * w->in_step * p->part_step * p->channels * 4 <= BLOCK_BYTES)
            break;
        p->columns = ceil_div(ceil_div(p->columns, 2), LANES) * LANES;
    }
    // Blocks of even width, rather than a narrow one at the end.
    p->column_blocks = ceil_div(row_count, p->columns);
    p->columns = min(p->columns, ceil_div(ceil_div(row_count, p->column_blocks), LANES) * LANES);
    p->column_blocks = ceil_div(row_count, p->columns);
    // Nor one narrower than a vector, because tiles are at least one vector wide.
    for (; p->brief && w->out - (p->column_blocks - 1) * p->columns < LANES; p->column_blocks = ceil_div(w->out, p->columns))
        p->columns += LANES;
    widen_rows(p, backward);
    // In place, a vector ends with the row: the shortest phase must have one in every block.
    p->copied |= w->out / w->out_step - (p->column_blocks - 1) * p->columns < LANES;
    p->channel_step = p->copied ? p->part_step * w->in_step : s->in_c;
    const int64_t row_bytes = d->taps * p->channels * p->part_step * w->in_step * 4;
    span(h, backward, 0, 1, &low, &high);
    p->slots = max(1, min(high - low, h->in));
    const int64_t planes = problem->N * problem->G * d->out * p->column_blocks;
    const int64_t most = finished ? min(height, lines_of_part(s->lanes * p->columns * w->out_step * h->out_step)) : height;
    p->rows = most;
    for (;;) {
        const int64_t tasks = planes * ceil_div(height, p->rows);
        if (p->rows == 1 || tasks >= MANY_TASKS || (tasks >= 8 && p->rows * h->in_step < 8 * p->slots))
            break;
        p->rows = ceil_div(p->rows, 2);
    }
    for (p->rows = p->brief ? most : p->rows; p->brief; p->rows = ceil_div(p->rows, 2)) {
        span(h, backward, 0, p->rows, &low, &high);
        p->slots = max(1, min(high - low, h->in));
        if (p->rows == 1 || (p->slots * row_bytes <= BLOCK_BYTES / 2 && planes * ceil_div(height, p->rows) >= BRIEF_TASKS))
            break;
    }
    p->row_blocks = ceil_div(height, p->rows);
    const int64_t wanted = ceil_div((p->copied ? 2 : 4) * max(workers, 2), planes * p->row_blocks);
    p->shares = max(1, min(wanted, s->lanes / SHARED_LANES));
    p->rows_bytes = p->copied ? whole_lines(p->slots * row_bytes) : 0;
    p->runs_bytes = whole_lines(taps * max(1, p->along_taps || p->brief ? p->channels : 1) * (int64_t)sizeof(run));
    p->buffer_bytes = whole_lines((ceil_div(p->columns, LANES) * LANES + LANES) * 16 * 4 * (p->in_turns ? w->out_step : 1));
    p->bias_bytes = whole_lines(problem->G * s->lanes * LANES * 4);
    p->positions_bytes = whole_lines(taps * (int64_t)sizeof(int64_t));
    p->weights_bytes = p->in_place ? 0 : whole_lines(problem->G * s->lanes * p->weights_pitch * 4);
    if (finished) {
        // Of one row, tiles are parts, whose lines are long enough.
        const bool tiles = p->brief || (s->out_c != 1 && p->rows == 1 && h->out_step == 1 && w->out_step == 1);
        p->part_channels = tiles ? min(s->lanes, MAX_1) : ceil_div(s->lanes, p->shares);
        p->part_bytes = store_parts(&p->s, p->part_channels, p->rows * h->out_step, min(w->out, p->columns * w->out_step));
    }
}

static int64_t worker_bytes(const plan *p) { return p->rows_bytes + p->runs_bytes + p->buffer_bytes + p->part_bytes; }

typedef struct call {
    plan p;
    const elem *in, *weights;
    sum_cell *out;
    const opwright_sink *sink;
    const unit *packed;
    float *biases;
    int64_t *positions;
    char *workers;
} call;

// The start of a tap's weights in a row of scalars, and the distance of its channels. Along taps, those of one
// class of columns are contiguous, with channels as the outer axis.
static void place_tap(const plan *p, int64_t position, int64_t tap, int64_t *begin, int64_t *step) {
    const axis *w = &p->s.axes[2];
    *begin = position * p->channel_space, *step = 1;
    if (!p->along_taps)
        return;
    const int64_t in_row = position % w->taps, class = p->s.backward ? tap % w->taps % w->classes : 0;
    const int64_t before = p->s.backward ? taps_before(w, class) : 0;
    *step = p->s.backward ? class_taps(w, class) : w->taps;
    *begin = (position - in_row + before) * p->channels + in_row - before;
}

// Weights as rows of scalars, LANES output channels per task.
static void pack_task(const void *context, int64_t task, int64_t worker) {
    (void)worker;
    const call *c = context;
    const plan *p = &c->p;
    const solve *s = &p->s;
    const opwright_problem *problem = s->problem;
    const int64_t taps = volume(problem->taps);
    const int64_t of_group = ceil_div(s->lanes, LANES), group = task / of_group, lane = task % of_group * LANES;
    const int64_t rows = min(LANES, s->lanes - lane);
    const elem *from = c->weights + group * problem->w_g + lane * s->w_lane;
    unit *to = (unit *)c->packed + (group * s->lanes + lane) * p->weights_pitch;
    unit *places[LANES];
    for (int64_t t = 0; t < taps; t++) {
        const elem *tap = from + tap_at(problem, t);
        int64_t begin, step;
        place_tap(p, c->positions[t], t, &begin, &step);
        for (int64_t row = 0; row < rows; row++)
            places[row] = to + row * p->weights_pitch + begin;
        if (step == 1)
            pack_scalars(s, tap, s->w_lane, rows, places);
        for (int64_t row = 0; row < rows && step != 1; row++) // along taps, of units of one channel
            for (int64_t i = 0; i < p->channels; i++)
                places[row][i * step] = (unit)elem_get(tap + row * s->w_lane + i * s->w_reduced);
    }
}

typedef struct block {
    const call *c;
    int64_t n, group, plane, plane_q, row0, row1, column0, column1;
    phase depth;
    int64_t depth_first, depth_last;
    const unit *base;
    int64_t plane_step, row_step, low_column;
    // The copied or requested rows: rows before placed_row are present.
    const elem *image;
    int64_t first_row; // of a brief block
    int64_t placed_row, placed_column, placed_columns;
    run *runs;
    float *buffer;
    sum_cell *cells; // of a part
    unit *rows;
    int64_t worker;
} block;

// The output of channel `channel` of all, as if it began with row and column 0; of a part, which begins with it, in scratch.
static sum_cell *image_of(const block *b, int64_t channel) {
    const solve *s = &b->c->p.s;
    if (!b->c->sink)
        return b->c->out + b->n * s->out_n + channel * s->out_c + b->plane * s->out_x[0];
    return b->cells - b->row0 * s->axes[1].out_step * s->out_x[1] - b->column0 * s->axes[2].out_step * s->out_x[2];
}

// Some channels of the block, from `channel` on, whose sums begin at `from`.
static void finish_channels(const block *b, int64_t channel, int64_t channels, const sum_cell *from) {
    const solve *s = &b->c->p.s;
    const int64_t row = b->row0 * s->axes[1].out_step, column = b->column0 * s->axes[2].out_step;
    const int64_t end = min(s->axes[2].out, b->column1 * s->axes[2].out_step);
    finish_part(s, b->c->sink, from,
                b->n * s->cell_n + channel * s->cell_c + b->plane * s->cell_x[0] + row * s->cell_x[1] + column * s->cell_x[2],
                channels, min(s->axes[1].out, b->row1 * s->axes[1].out_step) - row, 1, end - column, b->worker);
}

// Pixels [low, low + count) of a row of input as a line for each unit of channels, `line` units apart, zeros beyond
// the row's ends.
static void copy_columns(const solve *s, const elem *row, int64_t low, int64_t count, unit *to, int64_t line) {
    const int64_t first = min(max(0, -low), count), last = max(first, min(count, s->axes[2].in - low));
    for (int64_t c = 0; c < s->reduced; c += UNIT_CHANNELS) {
        memset(to + c / UNIT_CHANNELS * line, 0, (size_t)first * sizeof *to);
        memset(to + c / UNIT_CHANNELS * line + last, 0, (size_t)(line - last) * sizeof *to);
    }
    turn_pixels(s, row + (low + first) * s->in_x[2], last - first, to + first, line);
}

// The same for pixels at a small stride, `distance`, columns sorted by their remainder: vectors of all channels are
// loaded, and the lanes of these channels selected.
INLINE void copy_close(const plan *p, const elem *row, int64_t low, int64_t count, unit *to, int64_t distance) {
    const solve *s = &p->s;
    const int64_t step = s->axes[2].in_step, pixel = distance / step, extent = s->axes[2].in;
    const int64_t there = (extent - 1) * pixel + s->reduced; // elements of the row
    const ivec every = LANE_NUMBERS * (int32_t)distance;
    for (int64_t x = 0; x * step < count; x += LANES) {
        const int64_t first = (low + x * step) * pixel, end = first + distance * LANES;
        const elem *from = row + first;
        elem edge[MAX_STEP * LANES] = {0};
        if (first < 0 || end > there) {
            const int64_t begin = min(max(first, 0), there), length = max(0, min(end, there) - begin);
            memcpy(edge + (begin - first), row + begin, (size_t)length * sizeof *row);
            from = edge;
        }
        vec v[MAX_STEP];
        UNROLL for (int64_t j = 0; j < distance; j++)
            v[j] = elem_load(from + j * LANES);
        for (int64_t part = 0; part < step; part++)
            for (int64_t c = 0; c < s->reduced; c += UNIT_CHANNELS) {
                vec even = pick_lanes(v, 1, distance * LANES, every + (int32_t)(part * pixel + c));
#if OPWRIGHT_PAIRS
                const ivec odd = every + (int32_t)(part * pixel + c + 1);
                even = paired(even, c + 1 < s->reduced ? pick_lanes(v, 1, distance * LANES, odd) : (vec){0});
#endif
                vec_store((float *)(void *)(to + c / UNIT_CHANNELS * p->channel_step + part * p->part_step + x), even);
            }
    }
    for (int64_t c = 0; c < p->channels; c++)
        for (int64_t part = 0; part < step; part++) {
            const int64_t done = ceil_div(ceil_div(count, step), LANES) * LANES;
            memset(to + c * p->channel_step + part * p->part_step + done, 0, (size_t)(p->part_step - done) * sizeof *to);
        }
}

// One row of one channel, columns [low, low + count), sorted by their remainder; zeros beyond the row's ends.
static void copy_line(const block *b, const elem *row, int64_t channels, int64_t low, int64_t count, unit *to) {
    const plan *p = &b->c->p;
    const solve *s = &p->s;
    const int64_t step = s->axes[2].in_step, extent = s->axes[2].in;
    if (step == 1 && s->in_x[2] == 1) {
        const int64_t first = min(max(0, -low), count), last = max(first, min(count, extent - low));
        // Rows are short: whole vectors are stored into the row's spare room, with zeros after the last pixels.
        int64_t x = 0;
        for (; x < first; x += LANES)
            vec_store((float *)(void *)(to + x), (vec){0});
        for (x = first; x + LANES <= last; x += LANES)
            vec_store((float *)(void *)(to + x), unit_line(row + low + x, s->in_c, channels, 1, LANES));
        if (x < last)
            vec_store((float *)(void *)(to + x), unit_line(row + low + x, s->in_c, channels, 1, last - x));
        for (x += x < last ? LANES : 0; x + LANES <= p->part_step; x += LANES)
            vec_store((float *)(void *)(to + x), (vec){0});
        if (x < p->part_step)
            units_store_part(to + x, (vec){0}, p->part_step - x);
        return;
    }
    memset(to, 0, (size_t)(step * p->part_step) * sizeof *to);
    const ivec every = LANE_NUMBERS * (int32_t)step;
    for (int64_t x = 0; x * step < count; x += LANES) {
        const int64_t column = low + x * step;
        if (s->in_x[2] == 1 && step > 1 && step <= MAX_STEP && column >= 0 && column + step * LANES <= extent) {
            vec v[MAX_STEP];
            for (int64_t j = 0; j < step; j++)
                v[j] = unit_line(row + column + j * LANES, s->in_c, channels, 1, LANES);
            for (int64_t part = 0; part < step; part++)
                vec_store((float *)(void *)(to + part * p->part_step + x),
                          pick_lanes(v, 1, step * LANES, every + (int32_t)part));
            continue;
        }
        for (int64_t part = 0; part < step; part++) {
            // Column low + part + x*step.
            const int64_t first = max(x, low + part < 0 ? ceil_div(-low - part, step) : 0);
            const int64_t last = min(min(x + LANES, ceil_div(count - part, step)),
                                       low + part >= extent ? 0 : (extent - 1 - low - part) / step + 1);
            if (first < last) {
                const elem *from = row + (low + part + first * step) * s->in_x[2];
                const vec v = unit_line(from, s->in_c, channels, step * s->in_x[2], last - first);
                units_store_part(to + part * p->part_step + first, v, last - first);
            }
        }
    }
}

// Lines of channels are far apart and short: the hardware prefetcher does not predict the next one.
INLINE void ask_for(const elem *line, int64_t count) {
    for (int64_t x = 0; x < count; x += 64 / (int64_t)sizeof(elem))
        __builtin_prefetch(line + x);
}

static void place_columns(block *b) {
    const plan *p = &b->c->p;
    const solve *s = &p->s;
    int64_t high_column;
    span(&s->axes[2], s->backward, b->column0, b->column1, &b->low_column, &high_column);
    b->placed_column = b->low_column, b->placed_columns = high_column - b->low_column, b->placed_row = 0;
    b->image = b->c->in + b->n * s->in_n + b->group * s->reduced * s->in_c +
               (b->plane_q * s->axes[0].in_step + b->depth.offset) * s->in_x[0];
    if (p->copied) {
        b->row_step = p->channels * p->channel_step;
        b->plane_step = p->slots * b->row_step;
        b->base = b->rows;
        return;
    }
    b->plane_step = s->axes[0].offset_step * s->in_x[0], b->row_step = s->in_x[1];
    b->low_column = 0;
    b->base = (const unit *)(const void *)b->image;
}

// The rows of input that rows [row_q, end_q) of output need and those before did not: each plane is a ring of copied
// rows.
static void place_rows(block *b, int64_t row_q, int64_t end_q) {
    const plan *p = &b->c->p;
    const solve *s = &p->s;
    const axis *h = &s->axes[1];
    int64_t low, high;
    span(h, s->backward, row_q, end_q, &low, &high);
    b->first_row = max(low, 0);
    low = max(low, b->placed_row), high = max(low, min(high, h->in));
    b->placed_row = high;
    for (int64_t t = b->depth_first; t < b->depth_last; t++)
        for (int64_t row = low; row < high; row++) {
            const elem *from = b->image + t * s->axes[0].offset_step * s->in_x[0] + row * s->in_x[1];
            unit *to = b->rows + t * b->plane_step + (p->brief ? row - b->first_row : row % p->slots) * b->row_step;
            const int64_t distance = s->axes[2].in_step * s->in_x[2];
            if (p->copied && s->in_c == 1 && s->in_x[2] != 1 && distance <= MAX_STEP) {
                switch (distance) { // a literal, which keeps the vectors in registers
                case 2: copy_close(p, from, b->placed_column, b->placed_columns, to, 2); break;
                case 3: copy_close(p, from, b->placed_column, b->placed_columns, to, 3); break;
                case 4: copy_close(p, from, b->placed_column, b->placed_columns, to, 4); break;
                case 6: copy_close(p, from, b->placed_column, b->placed_columns, to, 6); break;
                default: copy_close(p, from, b->placed_column, b->placed_columns, to, distance);
                }
                continue;
            }
            if (p->copied && s->in_c == 1 && s->in_x[2] != 1 && s->axes[2].in_step == 1) {
                copy_columns(s, from, b->placed_column, b->placed_columns, to, p->channel_step);
                continue;
            }
            for (int64_t c = 0; c < p->channels; c++) {
                const elem *line = from + c * UNIT_CHANNELS * s->in_c;
                for (int64_t half = 0; half < UNIT_CHANNELS && s->in_x[2] == 1; half++)
                    ask_for(line + (AHEAD_LINES * UNIT_CHANNELS + half) * s->in_c + b->placed_column, b->placed_columns);
                if (p->copied)
                    copy_line(b, line, s->reduced - c * UNIT_CHANNELS, b->placed_column, b->placed_columns,
                              to + c * p->channel_step);
            }
        }
}

// The runs of one row of output and a phase of its columns, taps [first, last) of the columns; their `step`.
static int64_t list_runs(const block *b, const phase *rows, int64_t row_q, const phase *columns, int64_t first,
                         int64_t last, int64_t *count) {
    const plan *p = &b->c->p;
    const axis *h = &p->s.axes[1], *w = &p->s.axes[2];
    int64_t row_first, row_last;
    reach(h, rows, row_q, &row_first, &row_last);
    const int64_t at_row = row_q * h->in_step + rows->offset;
    const int64_t at_column = b->column0 * w->in_step + columns->offset - b->low_column;
    *count = 0;
    for (int64_t td = b->depth_first; td < b->depth_last; td++)
        for (int64_t th = row_first; th < row_last; th++) {
            const int64_t tap = ((b->depth.position + td) * h->taps + rows->position + th) * w->taps + columns->position;
            const int64_t row = at_row + th * h->offset_step;
            const int64_t line = td * b->plane_step + (p->copied ? row % p->slots : row) * b->row_step;
            if (p->along_taps) {
                for (int64_t c = 0; c < p->channels && first < last; c++)
                    b->runs[(*count)++] = (run){tap * p->channels + c * columns->taps + first,
                                                line + c * p->channel_step + at_column + first * w->offset_step, last - first};
                continue;
            }
            for (int64_t tw = first; tw < last; tw++) {
                const int64_t column = at_column + tw * w->offset_step;
                const int64_t at = p->copied ? column % w->in_step * p->part_step + column / w->in_step : column;
                b->runs[(*count)++] = (run){(tap + tw) * p->channel_space, line + at, p->channels};
            }
        }
    return p->along_taps ? w->offset_step : p->channel_step;
}

// Rows of a tile, [m][column], to the output: `columns` from `first` on, q_step and row_step elements apart.
static void finish(const float *from, int64_t pitch, int64_t rows, int64_t columns, sum_cell *to, int64_t q_step,
                   int64_t row_step) {
    for (int64_t x = 0; x < columns; x += LANES) {
        const int64_t count = min(LANES, columns - x);
        if (row_step != 1 || q_step == 1) {
            for (int64_t m = 0; m < rows; m++)
                store_line(to + m * row_step + x * q_step, q_step, vec_load(from + m * pitch + x), count);
            continue;
        }
        for (int64_t m = 0; m < rows; m += LANES)
            store_turned(from + m * pitch + x, pitch, min(LANES, rows - m), to + x * q_step + m, q_step, 1, count);
    }
}

// From a row of the buffer to the next.
INLINE int64_t buffer_pitch(const block *b) { return ceil_div(b->column1 - b->column0, LANES) * LANES; }

// All columns of the block for the rows of one tile: output channels from `channel` on. Alternating outputs are left in the buffer.
static void rows_of_tile(const block *b, const phase *rows, int64_t row_q, const phase *columns, int64_t number,
                         int64_t channel, int64_t mr, sum_cell *out, float *buffer) {
    const call *c = b->c;
    const plan *p = &c->p;
    const solve *s = &p->s;
    const axis *w = &s->axes[2];
    const int64_t q0 = b->column0, q1 = min(b->column1, columns->count), count = q1 - q0;
    operands o = {.runs = b->runs, .bias_row = LANES};
    o.step = list_runs(b, rows, row_q, columns, 0, columns->taps, &o.run_count);
    o.scalars = c->packed + channel * p->weights_pitch;
    if (p->in_place)
        o.scalars = c->packed + b->group * (s->problem->w_g / UNIT_CHANNELS) +
                    (channel - b->group * s->lanes) * p->weights_pitch;
    o.scalar_row = p->weights_pitch * (int64_t)sizeof(unit);
    o.bias = c->biases + channel * LANES;
    const int64_t q_step = w->out_step * s->out_x[2], row_step = s->out_c;
    sum_cell *to = out + (q0 * w->out_step + number) * s->out_x[2];
    o.elements = q_step == 1 && count >= LANES;
    const int64_t vectors = ceil_div(count, LANES), pitch = buffer_pitch(b);
    void *result = o.elements ? (void *)to : (void *)buffer;
    o.out_row = o.elements ? row_step : pitch;
    // Vectors are distributed evenly over tiles: a single one at the end takes longer than its share, 196 columns 1.08
    // times as long. The last tile ends with the row, and repeats columns of the previous one. Through scratch, columns
    // past the last one are computed and not stored.
    const int64_t whole = p->copied && !o.elements ? vectors : count / LANES;
    const int64_t max_wide = mr <= MAX_8 ? 8 : mr <= MAX_4 ? 4 : mr <= MAX_3 ? 3 : mr <= MAX_2 ? 2 : 1;
    for (int64_t v = 0; v < vectors;) {
        const int64_t left = vectors - v, tiles = max(ceil_div(left, max_wide), v == 0 && whole > 0 && whole < vectors ? 2 : 1);
        const int64_t even = ceil_div(left, tiles), nb = even > 4 ? left >= 8 ? 8 : 4 : even;
        const int64_t at = v + nb <= whole ? v * LANES : count - nb * LANES;
        o.vectors = b->base + at;
        o.out = out_at(&o, result, at);
        o.shaped = v > 0;
        TILE_TABLE[nb][mr](&o);
        v += nb;
    }
    // Columns with taps beyond the row's ends, where a zero there was multiplied by an Inf or a NaN.
    const int64_t inside = ceil_div(max(0, -columns->offset), w->in_step);
    const int64_t room = w->in - 1 - columns->offset - (columns->taps - 1) * w->offset_step;
    const int64_t outside = room < 0 ? 0 : room / w->in_step + 1;
    for (int64_t q = q0; columns->taps > 0 && q < q1; q++) {
        if (q >= inside && q < outside) {
            q = max(q, min(outside, q1) - 1);
            continue;
        }
        bool nan = false;
        for (int64_t m = 0; m < mr; m++) {
            const void *at = out_at(&o, result, m * o.out_row + q - q0);
            const float x = o.elements ? sum_get(at) : *(const float *)at;
            nan |= x != x;
        }
        if (!nan)
            continue;
        int64_t first, last;
        reach(w, columns, q, &first, &last);
        float again[MAX_1 * LANES];
        operands one = o;
        list_runs(b, rows, row_q, columns, first, last, &one.run_count);
        one.vectors = b->base + q - q0, one.out = again, one.out_row = LANES, one.elements = one.shaped = false;
        TILE_TABLE[1][mr](&one);
        for (int64_t m = 0; m < mr; m++)
            o.elements ? sum_put((sum_cell *)result + m * o.out_row + q - q0, again[m * LANES])
                       : (void)(((float *)result)[m * o.out_row + q - q0] = again[m * LANES]);
        list_runs(b, rows, row_q, columns, 0, columns->taps, &o.run_count);
    }
    if (o.elements || p->in_turns)
        return;
    if (s->out_c == 1 && s->out_x[2] == mr && w->out_step == 1)
        store_interleaved(buffer, pitch, mr, count * mr, to);
    else
        finish(buffer, pitch, mr, count, to, q_step, row_step);
}

// A row of output of all phases for one tile of channels, with alternating columns: stored one by one, those of 7
// channels of 65x65x33 took 1.5 times as long, f16 1.9 times.
static void row_in_turns(const block *b, const phase *rows, int64_t row_q, int64_t channel, int64_t mr, sum_cell *out) {
    const call *c = b->c;
    const solve *s = &c->p.s;
    const axis *w = &s->axes[2];
    const int64_t pitch = buffer_pitch(b), begin = b->column0 * w->out_step;
    for (int64_t pw = 0; pw < w->out_step; pw++) {
        const phase columns = phase_of(w, pw, s->backward);
        if (columns.count > b->column0)
            rows_of_tile(b, rows, row_q, &columns, pw, channel, mr, out, b->buffer + pw * mr * pitch);
    }
    for (int64_t m = 0; m < mr; m++)
        store_interleaved(b->buffer + m * pitch, mr * pitch, w->out_step,
                          min(w->out, b->column1 * w->out_step) - begin, out + m * s->out_c + begin);
}

// The steps of rows of output that have taps [first, last) of the rows, counted from row_q's first row of input.
static int64_t list_steps(const block *b, const phase *columns, int64_t first, int64_t last) {
    const plan *p = &b->c->p;
    const axis *h = &p->s.axes[1], *w = &p->s.axes[2];
    const int64_t at_column = b->column0 * w->in_step + columns->offset - b->low_column;
    run *r = b->runs;
    for (int64_t td = b->depth_first; td < b->depth_last; td++)
        for (int64_t th = first; th < last; th++)
            for (int64_t tw = 0; tw < w->taps; tw++) {
                const int64_t tap = ((b->depth.position + td) * h->taps + th) * w->taps + tw;
                const int64_t column = at_column + tw * w->offset_step;
                const int64_t at = td * b->plane_step + th * h->offset_step * b->row_step +
                                   column % w->in_step * p->part_step + column / w->in_step;
                for (int64_t c = 0; c < p->channels; c++)
                    *r++ = (run){tap * p->channels + c, at + c * p->channel_step, 1};
            }
    return r - b->runs;
}

// The shape of tiles with the least work; the last tiles of a row and of the lanes recompute some outputs.
static void step_shape(int64_t lanes, int64_t columns, int64_t *nb, int64_t *mr) {
    int64_t best = INT64_MAX;
    for (int64_t b = 1; b <= MAX_STEP_VECTORS && b * LANES <= columns; b++)
        for (int64_t m = 1; m <= min(MAX_STEP_ROWS, lanes); m++) {
            const int64_t cost = ceil_div(columns, b * LANES) * ceil_div(lanes, m) * (b * m + 4); // and the overhead of a step
            if (STEP_TABLE[b][m] && cost <= best)
                best = cost, *nb = b, *mr = m;
        }
}

// Lanes [first, first + lanes) of a block.
static void brief_block(block *b, int64_t first, int64_t lanes) {
    const call *c = b->c;
    const plan *p = &c->p;
    const solve *s = &p->s;
    const axis *h = &s->axes[1];
    const phase rows = phase_of(h, 0, s->backward), columns = phase_of(&s->axes[2], 0, s->backward);
    const int64_t count = b->column1 - b->column0;
    operands o = {.runs = b->runs, .scalar_row = p->weights_pitch * (int64_t)sizeof(unit), .bias_row = LANES,
                  .elements = true, .out_row = s->out_c};
    int64_t nb, mr;
    step_shape(lanes, count, &nb, &mr);
    place_rows(b, b->row0, b->row1);
    for (int64_t lane = 0; lane < lanes; lane += mr) {
        const int64_t channel = min(lane, lanes - mr);
        o.scalars = c->packed + (first + channel) * p->weights_pitch;
        o.bias = c->biases + (first + channel) * LANES;
        sum_cell *out = image_of(b, first + channel);
        int64_t listed_first = -1, listed_last = -1;
        for (int64_t q = b->row0; q < b->row1; q++) {
            int64_t row_first, row_last;
            reach(h, &rows, q, &row_first, &row_last);
            if (row_first != listed_first || row_last != listed_last)
                o.run_count = list_steps(b, &columns, row_first, row_last);
            listed_first = row_first, listed_last = row_last;
            const unit *in = b->base + (q * h->in_step + rows.offset - b->first_row) * b->row_step;
            sum_cell *to = out + q * s->out_x[1] + b->column0;
            for (int64_t x = 0; x < count; x += nb * LANES) {
                const int64_t at = min(x, count - nb * LANES);
                o.vectors = in + at, o.out = to + at;
                STEP_TABLE[nb][mr](&o);
            }
        }
        if (c->sink)
            finish_channels(b, first + lane, min(mr, lanes - lane), b->cells + (lane - channel) * s->out_c);
    }
}

static void task(const void *context, int64_t task, int64_t worker) {
    const call *c = context;
    const plan *p = &c->p;
    const solve *s = &p->s;
    const axis *d = &s->axes[0], *h = &s->axes[1], *w = &s->axes[2];
    char *mine = c->workers + worker * worker_bytes(p);
    block b = {.c = c, .worker = worker};
    b.rows = (unit *)(void *)mine;
    b.runs = (run *)(void *)(mine + p->rows_bytes);
    b.buffer = (float *)(void *)(mine + p->rows_bytes + p->runs_bytes);
    b.cells = (sum_cell *)(void *)(mine + p->rows_bytes + p->runs_bytes + p->buffer_bytes);
    const int64_t share = task % p->shares;
    task /= p->shares;
    b.column0 = task % p->column_blocks * p->columns, task /= p->column_blocks;
    b.column1 = min(b.column0 + p->columns, ceil_div(w->out, w->out_step));
    b.row0 = task % p->row_blocks * p->rows, task /= p->row_blocks;
    b.row1 = min(b.row0 + p->rows, ceil_div(h->out, h->out_step));
    b.plane = task % d->out, task /= d->out;
    b.group = task % s->problem->G, b.n = task / s->problem->G;
    b.depth = phase_of(d, b.plane % d->out_step, s->backward), b.plane_q = b.plane / d->out_step;
    reach(d, &b.depth, b.plane_q, &b.depth_first, &b.depth_last);
    place_columns(&b);

    const int64_t of_group = share * s->lanes / p->shares, lanes = (share + 1) * s->lanes / p->shares - of_group;
    const int64_t first = b.group * s->lanes + of_group;
    if (p->brief) {
        brief_block(&b, first, lanes);
        return;
    }
    sum_cell *image = image_of(&b, first);
    const bool by_tiles = c->sink && p->part_channels < lanes;
    const int64_t wide = b.column1 - b.column0;
    const int64_t limit = wide > 2 * LANES ? MAX_4 : wide > LANES ? MAX_2 : MAX_1;
    for (int64_t q = b.row0; q < b.row1; q++) {
        place_rows(&b, q, q + 1);
        for (int64_t r = 0; r < h->out_step && q * h->out_step + r < h->out; r++) {
            const phase rows = phase_of(h, r, s->backward);
            sum_cell *out = image + (q * h->out_step + r) * s->out_x[1];
            const int64_t of_lanes = ceil_div(lanes, limit);
            for (int64_t t = 0, channel = 0, mr; p->in_turns && t < of_lanes; t++, channel += mr) {
                mr = lanes / of_lanes + (t < lanes % of_lanes);
                row_in_turns(&b, &rows, q, first + channel, mr, out + channel * s->out_c);
            }
            for (int64_t pw = 0; !p->in_turns && pw < w->out_step; pw++) {
                const phase columns = phase_of(w, pw, s->backward);
                for (int64_t t = 0, channel = 0, mr; columns.count > b.column0 && t < of_lanes; t++, channel += mr) {
                    mr = lanes / of_lanes + (t < lanes % of_lanes);
                    rows_of_tile(&b, &rows, q, &columns, pw, first + channel, mr, by_tiles ? out : out + channel * s->out_c,
                                 b.buffer);
                    if (by_tiles)
                        finish_channels(&b, first + channel, mr, b.cells);
                }
            }
        }
    }
    if (c->sink && !by_tiles)
        finish_channels(&b, first, lanes, b.cells);
}

static bool fits(opwright_solve solve, const opwright_problem *problem) {
    const bool backward = solve == OPWRIGHT_X;
    opwright_problem own = *problem;
    plan p;
    plan_of(&p, &own, backward, 1, false);
    const struct solve *s = &p.s;
    const axis *w = &s->axes[2];
    const int64_t taps = own.taps[0] * own.taps[1] * own.taps[2];
    const bool product = taps == 1 && s->in_x[2] == 1 && s->out_x[2] == 1 &&
                         w->in_step == 1 && w->out_step == 1 && w->out >= LANES;
    // Channel lanes transpose, but share weights among all pixels and need no columns to fill a vector: 49 columns of
    // 16 images 1.4 times as fast, 196 1.05 times, 3136 0.7 times, in bf16 and f16 0.5 to 0.65 times.
    const bool shared = own.N * w->out > SHARED_COLUMNS && w->out < SHARED_COLUMNS;
    // Weights that are strided along the scalars are packed here but read in place there; contiguous ones are
    // transposed there. A square of weights costs as much as 0.4 of pixels: 1024 channels to 256 on 14x14 1.5 times as
    // fast.
    const bool across = !p.in_place && s->w_lane == 1 &&
                        5 * s->lanes * s->reduced > 2 * own.N * w->out * (s->lanes + s->reduced);
    // Copying what strides skip costs as much as 6 products of a vector, half empty or not, unless channels are few: 16
    // channels to 8, 3x3, stride 2 0.3 (NXC) to 0.7 times as fast, to 2 0.35 to 0.8, 3 to 8, 7x7 1.0, 3 to 4 1.7 times.
    const int64_t steps = s->axes[0].in_step * s->axes[1].in_step * w->in_step;
    const bool strided = w->in_step > 1 && s->reduced >= MIN_STRIDED && taps * (LANES - s->lanes) < 6 * LANES * steps;
    const bool fills = over_channels_fills(problem, backward);
    return (product && !shared && !(across && s->lanes >= LANES)) || (p.brief && !fills && !strided) ||
           (s->lanes < LANES && !fills && !strided);
}

static int64_t scratch_bytes(opwright_solve solve, const opwright_problem *problem, int64_t workers, bool finished) {
    opwright_problem own = *problem;
    plan p;
    if (finished && !has_lines(problem, solve == OPWRIGHT_X))
        return -1;
    plan_of(&p, &own, solve == OPWRIGHT_X, workers, finished);
    const int64_t bytes = p.bias_bytes + p.positions_bytes + p.weights_bytes + max(1, workers) * worker_bytes(&p);
    return p.brief ? max(bytes, OPWRIGHT_NAME(over_channels).scratch(solve, problem, workers, finished)) : bytes;
}

static void solve_columns(opwright_solve solve, const opwright_problem *problem, const elem *in, const elem *weights,
                          const elem *bias, sum_cell *out, const opwright_sink *sink, const opwright_team *team, void *scratch) {
    opwright_problem own = *problem;
    call c = {.in = in, .weights = weights, .out = out, .sink = sink};
    plan_of(&c.p, &own, solve == OPWRIGHT_X, team ? team->workers : 1, sink != NULL);
    const plan *p = &c.p;
    c.biases = scratch;
    c.positions = (int64_t *)(void *)((char *)scratch + p->bias_bytes);
    unit *packed = (unit *)(void *)((char *)c.positions + p->positions_bytes);
    c.workers = (char *)packed + p->weights_bytes;
    for (int64_t l = 0; l < own.G * p->s.lanes; l++)
        vec_store(c.biases + l * LANES, vec_splat(bias ? elem_get(bias + l) : 0));
    list_positions(&p->s, own.taps[2], 1, c.positions);
    c.packed = p->in_place ? (const unit *)(const void *)weights : packed;
    if (!p->in_place)
        opwright_run(team, pack_task, &c, own.G * ceil_div(p->s.lanes, LANES));
    if (p->brief && p->padded && !all_finite(packed, own.G * p->s.lanes * p->weights_pitch)) {
        OPWRIGHT_NAME(over_channels).solve(solve, problem, in, weights, bias, out, sink, team, scratch);
        return;
    }
    opwright_run(team, task, &c, own.N * own.G * p->s.axes[0].out * p->row_blocks * p->column_blocks * p->shares);
}

const opwright_way OPWRIGHT_NAME(over_columns) = {fits, scratch_bytes, solve_columns, NULL};
