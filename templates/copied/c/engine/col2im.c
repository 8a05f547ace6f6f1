// y and x for few output channels with equally dense inputs: products first, sums afterwards (known as col2im).
//
// A tile over columns has a row for each output channel, too few for its registers. Here all taps of a kernel's row are
// its rows, too: a product without taps gives the contribution of every input to the outputs around it, and every
// output is then the sum over its taps. A product costs one more store and load, little compared with a sum of many
// channels.
//
// Weights are packed `[group][tap][output channel][reduced channel]`, taps in the order of phases.h. A task is a block
// of rows and columns of one plane of output. For each tap in depth it copies the input as `[reduced
// channel][row][column]`, without padding and one row after the other, because taps need not know where rows end;
// multiplies for each tap in height the rows that this tap meets; then sums and stores row by row. Products outside the
// tensor are not computed, or left out of the sums, so no zero is ever multiplied.
//
// If pixels are long lines of channels, a product is a sum over lanes of the input in place, with a horizontal sum at
// the end: neither copied nor transposed. 512 channels to 1, 10 taps, f32 NXC: 5.9 -> 3.3 ms.
//
// Figures: see engine.h.

#include "engine.h"
#include "solve.h"

enum {
    BLOCK_BYTES = 640 << 10, // of a block's input and products: they stay in the second-level cache
    MAX_BYTES = 1 << 20,    // of the smallest block
    BLOCK_COLUMNS = 512,     // of the input at most, a few more with taps
    FEWEST_TASKS = 16,
    MAX_CHANNELS = 4,       // of the output; 5 to 8 are 0.8 to 1 times as fast with stride 1, 1.0 to 1.4 times with stride 2
    FEWEST_REDUCED = 16,     // with fewer, products cost more than they save
    AHEAD_LINES = 8,         // prefetched before they are copied
    LONG_SUM = 8 * LANES,    // minimum units of channels for products as sums over lanes,
    SUMMED = 16,             // and this many times the products: 14 times are 0.95 times as fast, 25 times 1.5 times
    MAX_SUMMED = LANES - 1, // channels of the output then
    AHEAD_SUMS = 8,          // pixels that are prefetched
};

typedef struct plan {
    solve s;
    int64_t channels;      // reduced, in units
    bool in_place;         // the input is read in place, products are sums over lanes
    int64_t row_products;  // of a row of taps
    int64_t weights_pitch; // from the weights of a product to the next
    bool separate_phases;            // the phases of rows have their products one after the other
    int64_t rows, columns; // of a block, in q
    int64_t row_blocks, column_blocks;
    int64_t line;          // from a channel of the copied input to the next
    int64_t product_line;  // from a product to the next
    int64_t sum_line;      // from one of the rows that are interleaved to the next
    int64_t weights_bytes, positions_bytes, input_bytes, products_bytes, sums_bytes, terms_bytes;
} plan;

// An odd number of cache lines, with a vector beyond `count`: neighbours map to different sets of the first-level
// cache.
static int64_t line_of(int64_t count) { return ((count + LANES + 15) / 16 | 1) * 16; }

// The existing rows, or columns, of the input that outputs [q0, q1) of all phases need.
static void needed(const axis *a, bool backward, int64_t q0, int64_t q1, int64_t *low, int64_t *high) {
    span(a, backward, q0, q1, low, high);
    *low = min(max(*low, 0), a->in);
    *high = max(*low, min(*high, a->in));
}

// The sizes of a block of p->rows and p->columns.
static void size_block(plan *p) {
    const solve *s = &p->s;
    const axis *d = &s->axes[0], *h = &s->axes[1], *w = &s->axes[2];
    int64_t low, high;
    span(h, s->backward, 0, p->rows, &low, &high);
    const int64_t in_rows = min(high - low, h->in);
    span(w, s->backward, 0, p->columns, &low, &high);
    const int64_t in_columns = min(high - low, w->in);
    p->line = line_of(in_rows * in_columns);
    p->product_line = line_of(p->rows * in_columns);
    p->input_bytes = p->channels * (p->in_place ? in_rows * in_columns : p->line) * 4;
    // The number of rows of taps: one phase's if the input is one plane, else all, to which planes add one after the
    // other.
    const int64_t tap_rows = p->separate_phases ? ceil_div(h->taps, h->classes) : d->taps * h->taps;
    p->products_bytes = whole_lines((tap_rows * p->row_products * p->product_line + 2 * LANES) * 4);
}

static void plan_of(plan *p, opwright_problem *problem, bool backward) {
    *p = (plan){.s = solve_of(problem, backward)};
    const solve *s = &p->s;
    const axis *d = &s->axes[0], *h = &s->axes[1], *w = &s->axes[2];
    const int64_t taps = d->taps * h->taps * w->taps;
    p->channels = ceil_div(s->reduced, UNIT_CHANNELS);
    p->row_products = w->taps * s->lanes;
    const bool units = sizeof(elem) * UNIT_CHANNELS == sizeof(unit) && s->in_c == 1 && s->reduced % UNIT_CHANNELS == 0 &&
                       s->in_n % UNIT_CHANNELS == 0 && s->in_x[0] % UNIT_CHANNELS == 0 &&
                       s->in_x[1] % UNIT_CHANNELS == 0 && s->in_x[2] % UNIT_CHANNELS == 0;
    p->in_place = MAX_PIXELS_SUMMED > 1 && units && p->channels >= LONG_SUM && p->channels >= SUMMED * p->row_products;
    p->weights_pitch = line_of(p->channels) - LANES;
    p->separate_phases = d->taps == 1;
    const int64_t height = ceil_div(h->out, h->out_step), width = ceil_div(w->out, w->out_step);
    p->rows = height, p->columns = width;
    if (width > BLOCK_COLUMNS)
        p->columns = ceil_div(ceil_div(width, ceil_div(width, BLOCK_COLUMNS)), LANES) * LANES;
    const int64_t planes = problem->N * problem->G * d->out;
    for (;;) {
        size_block(p);
        p->column_blocks = ceil_div(width, p->columns);
        const bool fits = p->input_bytes + p->products_bytes <= BLOCK_BYTES;
        const bool enough = planes * p->column_blocks * ceil_div(height, p->rows) >= FEWEST_TASKS;
        if (p->rows > 1 && (!fits || (!enough && p->rows > h->taps)))
            p->rows -= ceil_div(p->rows, 4);
        else if (p->columns > 8 * LANES && (!fits || (!enough && p->columns > w->taps)))
            p->columns = ceil_div(ceil_div(p->columns, 2), LANES) * LANES;
        else
            break;
    }
    p->row_blocks = ceil_div(height, p->rows);
    p->rows = ceil_div(height, p->row_blocks);
    p->row_blocks = ceil_div(height, p->rows);
    size_block(p);
    p->sum_line = line_of(p->columns);
    p->weights_bytes = whole_lines(problem->G * taps * s->lanes * p->weights_pitch * 4);
    p->positions_bytes = whole_lines(taps * (int64_t)sizeof(int64_t));
    p->sums_bytes = whole_lines(w->out_step * s->lanes * p->sum_line * 4);
    p->terms_bytes = whole_lines(taps * 3 * (int64_t)sizeof(int64_t));
}

static int64_t worker_bytes(const plan *p) {
    return (p->in_place ? 0 : p->input_bytes) + p->products_bytes + p->sums_bytes + p->terms_bytes;
}

// The contribution of a tap to a row of outputs: products of the input at column q + shift.
typedef struct term {
    const float *products; // of q = 0
    int64_t first, last;   // the q that have one
} term;

typedef struct call {
    plan p;
    const elem *in, *weights, *bias;
    sum_cell *out;
    unit *packed;
    int64_t *positions;
    char *workers;
} call;

// Weights.

// One group's weights of one output channel, along its taps if these are contiguous.
static void pack_task(const void *context, int64_t task, int64_t worker) {
    (void)worker;
    const call *c = context;
    const plan *p = &c->p;
    const solve *s = &p->s;
    const opwright_problem *problem = s->problem;
    const int64_t *k = problem->taps, taps = k[0] * k[1] * k[2];
    const int64_t group = task / s->lanes, lane = task % s->lanes;
    const elem *from = c->weights + group * problem->w_g + lane * s->w_lane;
    unit *to = c->packed + (group * taps * s->lanes + lane) * p->weights_pitch;
    const bool contiguous = problem->w_k[1] == k[2] * problem->w_k[2] && problem->w_k[0] == k[1] * k[2] * problem->w_k[2];
    const int64_t length = contiguous ? taps : k[2];
    for (int64_t t = 0; t < taps; t += length)
        for (int64_t i = 0; i < length; i += LANES) {
            const int64_t count = min(LANES, length - i);
            unit *places[LANES];
            for (int64_t j = 0; j < count; j++)
                places[j] = to + c->positions[t + i + j] * s->lanes * p->weights_pitch;
            pack_scalars(s, from + tap_at(problem, t) + i * problem->w_k[2], problem->w_k[2], count, places);
        }
}

// Blocks.

typedef struct block {
    const call *c;
    int64_t n, group, plane, plane_q, row0, row1, column0, column1;
    phase depth;
    int64_t depth_first, depth_last;
    int64_t low_row, high_row, low_column, high_column; // of the input
    unit *input;
    float *products, *sums;
    term *terms;
} block;

// Neighbouring pixels, to a line for each unit of channels.
static void copy_pixels(const plan *p, const elem *from, int64_t count, unit *to) {
    const solve *s = &p->s;
    if (s->in_c != 1 || s->in_x[2] == 1) {
        for (int64_t u = 0; u < p->channels; u++) {
            const elem *line = from + u * UNIT_CHANNELS * s->in_c;
            for (int64_t x = 0; x < count; x += LANES) {
                for (int64_t half = 0; half < UNIT_CHANNELS && x % (64 / (int64_t)sizeof(elem)) == 0; half++)
                    __builtin_prefetch(line + (AHEAD_LINES * UNIT_CHANNELS + half) * s->in_c + x);
                const vec v = unit_line(line + x * s->in_x[2], s->in_c, s->reduced - u * UNIT_CHANNELS, s->in_x[2], count - x);
                vec_store((float *)(void *)(to + u * p->line + x), v);
            }
        }
        return;
    }
    turn_pixels(s, from, count, to, p->line);
}

// The start of the rows of input that the block needs in one plane.
static const elem *input_at(const block *b, int64_t depth_tap) {
    const solve *s = &b->c->p.s;
    const axis *d = &s->axes[0];
    const int64_t plane = b->plane_q * d->in_step + b->depth.offset + depth_tap * d->offset_step;
    return b->c->in + b->n * s->in_n + b->group * s->reduced * s->in_c + plane * s->in_x[0] + b->low_row * s->in_x[1] +
           b->low_column * s->in_x[2];
}

// A row's last vector is written over its end, before the next
// row is.
static void copy_input(const block *b, int64_t depth_tap) {
    const plan *p = &b->c->p;
    const solve *s = &p->s;
    const axis *w = &s->axes[2];
    const elem *from = input_at(b, depth_tap);
    const int64_t rows = b->high_row - b->low_row, columns = b->high_column - b->low_column;
    if (columns == w->in && s->in_x[1] == columns * s->in_x[2]) {
        copy_pixels(p, from, rows * columns, b->input);
        return;
    }
    for (int64_t row = 0; row < rows; row++)
        copy_pixels(p, from + row * s->in_x[1], columns, b->input + row * columns);
}

// The products of one row of taps with `count` pixels.
static void multiply(const plan *p, const unit *weights, const unit *input, int64_t count, float *products) {
    const float zeros[LANES] = {0};
    const run all = {0, 0, p->channels};
    operands o = {.runs = &all, .run_count = 1, .scalar_row = p->weights_pitch * (int64_t)sizeof(unit), .step = p->line,
                  .out_row = p->product_line, .bias = zeros};
    const int64_t m = p->row_products, vectors = ceil_div(count, LANES);
    const int64_t wide = m <= MAX_8 ? 8 : m <= MAX_4 ? 4 : 2;
    for (int64_t v = 0; v < vectors;) {
        int64_t nb = wide;
        while (nb > vectors - v)
            nb /= 2;
        const int64_t limit = max_rows(nb), tiles = ceil_div(m, limit);
        for (int64_t t = 0, row = 0; t < tiles; t++) {
            const int64_t mr = m / tiles + (t < m % tiles);
            o.scalars = weights + row * p->weights_pitch;
            o.vectors = input + v * LANES;
            o.out = products + row * p->product_line + v * LANES;
            TILE_TABLE[nb][mr](&o);
            row += mr;
        }
        v += nb;
    }
}

// The same of `count` contiguous pixels in place. The next tile overwrites what a tile stores beyond its pixels.
static void multiply_lines(const plan *p, const unit *weights, const unit *input, int64_t count, float *products) {
    const float zeros[LANES] = {0};
    const run all = {0, 0, p->channels};
    const int64_t m = p->row_products, pixel = p->s.in_x[2] / UNIT_CHANNELS;
    const bool more = m > MAX_SUMS && ceil_div(m, MORE_SUMS) * MORE_SUMS < ceil_div(m, MAX_SUMS) * MAX_SUMS;
    const int64_t rows = m < MAX_SUMS ? 1 : more ? MORE_SUMS : MAX_SUMS;
    operands o = {.runs = &all, .run_count = 1, .scalar_row = p->weights_pitch * (int64_t)sizeof(unit), .lane_step = pixel,
                  .out_row = p->product_line, .bias = zeros};
    for (int64_t x = 0, nb; x < count; x += nb) {
        nb = min(MAX_PIXELS_SUMMED, count - x);
        o.vectors = input + x * pixel;
        for (int64_t row = 0; row < m; row += rows) {
            const int64_t at = min(row, m - rows);
            o.scalars = weights + at * p->weights_pitch;
            o.out = products + at * p->product_line + x;
            o.ahead = row == 0 ? AHEAD_SUMS * pixel : 0;
            SUM_TABLE[nb][rows](&o);
        }
    }
}

// One row of sums: outputs [column0, column0 + count) of one phase and channel.
static void add_terms(const block *b, int64_t terms, int64_t product, int64_t count, vec bias, float *to) {
    const ivec lane = LANE_NUMBERS;
    for (int64_t x = 0; x < count; x += LANES) {
        vec sum = {0};
        for (const term *t = b->terms; t != b->terms + terms; t++) {
            const int64_t first = t->first - x, last = t->last - x;
            if (first >= LANES || last <= 0)
                continue;
            vec v = vec_load(t->products + product + x);
            if (first > 0 || last < LANES)
                v = (vec)((ivec)v & (lane >= (int32_t)max(first, 0)) & (lane < (int32_t)min(last, LANES)));
            sum += v;
        }
        vec_store(to + x, sum + bias);
    }
}

// The first product that a block has of a row of taps.
INLINE int64_t product_of(const plan *p, int64_t td, const phase *rows, int64_t th) {
    return ((p->separate_phases ? 0 : td * p->s.axes[1].taps + rows->position) + th) * p->row_products;
}

// The taps of one row and phase that have products, in the order in which they are added.
static int64_t list_terms(const block *b, int64_t row_q, const phase *rows, const phase *columns) {
    const plan *p = &b->c->p;
    const solve *s = &p->s;
    const axis *h = &s->axes[1], *w = &s->axes[2];
    const int64_t width = b->high_column - b->low_column;
    int64_t first, last, count = 0;
    reach(h, rows, row_q, &first, &last);
    for (int64_t td = b->depth_first; td < b->depth_last; td++)
        for (int64_t th = first; th < last; th++)
            for (int64_t tw = 0; tw < columns->taps; tw++) {
                const int64_t shift = b->column0 + columns->offset + tw * w->offset_step;
                const int64_t product = product_of(p, td, rows, th) + (columns->position + tw) * s->lanes;
                // In one expression: with the offset in a variable, 1 or 2 channels of output take up to 1.15 times as
                // long (gcc 12, AMD Zen 5).
                const float *row = b->products + product * p->product_line + (row_q - b->row0) * width + shift
                                   - b->low_column;
                b->terms[count++] = (term){row, -shift, w->in - shift};
            }
    return count;
}

// Whether channels are neighbours in memory, and columns beside them.
INLINE bool channels_in_turns(const solve *s) {
    return s->lanes == 1 ? s->out_x[2] == 1 : s->out_c == 1 && s->out_x[2] == s->lanes;
}

static void sum_row(const block *b, int64_t row_q, const phase *rows, sum_cell *out) {
    const call *c = b->c;
    const plan *p = &c->p;
    const solve *s = &p->s;
    const axis *w = &s->axes[2];
    const int64_t step = w->out_step;
    for (int64_t r = 0; r < step; r++) {
        const phase columns = phase_of(w, r, s->backward);
        const int64_t terms = list_terms(b, row_q, rows, &columns), count = min(b->column1, columns.count) - b->column0;
        for (int64_t l = 0; l < s->lanes; l++) {
            const vec bias = vec_splat(c->bias ? elem_get(c->bias + b->group * s->lanes + l) : 0);
            add_terms(b, terms, l * p->product_line, count, bias, b->sums + (r * s->lanes + l) * p->sum_line);
        }
    }
    // Outputs that are adjacent in memory alternate between phases.
    const int64_t total = min(w->out, b->column1 * step) - b->column0 * step;
    out += b->column0 * step * s->out_x[2];
    if (channels_in_turns(s)) {
        store_interleaved(b->sums, p->sum_line, step * s->lanes, total * s->lanes, out);
        return;
    }
    for (int64_t l = 0; l < s->lanes; l++) {
        if (s->out_x[2] == 1) {
            store_interleaved(b->sums + l * p->sum_line, s->lanes * p->sum_line, step, total, out + l * s->out_c);
            continue;
        }
        for (int64_t r = 0; r < step; r++)
            for (int64_t x = 0; x * step + r < total; x++)
                sum_put(out + l * s->out_c + (x * step + r) * s->out_x[2], b->sums[(r * s->lanes + l) * p->sum_line + x]);
    }
}

// All products of one plane that rows of one phase need.
static void multiply_phase(const block *b, int64_t td, int64_t r) {
    const call *c = b->c;
    const plan *p = &c->p;
    const axis *d = &p->s.axes[0], *h = &p->s.axes[1];
    const phase rows = phase_of(h, r, p->s.backward);
    const int64_t width = b->high_column - b->low_column;
    for (int64_t th = 0; th < rows.taps; th++) {
        const int64_t from = b->row0 + rows.offset + th * h->offset_step;
        const int64_t low = max(from, 0), high = min(min(b->row1, rows.count) - b->row0 + from, h->in);
        const int64_t tap = (b->group * d->taps + b->depth.position + td) * h->taps + rows.position + th;
        const unit *weights = c->packed + tap * p->row_products * p->weights_pitch;
        float *products = b->products + product_of(p, td, &rows, th) * p->product_line + (low - from) * width;
        if (p->in_place) {
            const solve *s = &p->s;
            const elem *row = input_at(b, td) + (low - b->low_row) * s->in_x[1];
            const bool contiguous = s->in_x[1] == width * s->in_x[2];
            for (int64_t i = low; i < high; i += contiguous ? high - low : 1)
                multiply_lines(p, weights, (const unit *)(const void *)(row + (i - low) * s->in_x[1]),
                               contiguous ? (high - low) * width : width, products + (i - low) * width);
        } else if (low < high && width > 0)
            multiply(p, weights, b->input + (low - b->low_row) * width, (high - low) * width, products);
    }
}

static void task(const void *context, int64_t task, int64_t worker) {
    const call *c = context;
    const plan *p = &c->p;
    const solve *s = &p->s;
    const axis *d = &s->axes[0], *h = &s->axes[1], *w = &s->axes[2];
    char *mine = c->workers + worker * worker_bytes(p);
    block b = {.c = c};
    b.input = (unit *)(void *)mine;
    b.products = (float *)(void *)(mine + (p->in_place ? 0 : p->input_bytes)) + LANES;
    b.sums = (float *)(void *)((char *)(b.products - LANES) + p->products_bytes);
    b.terms = (term *)(void *)((char *)b.sums + p->sums_bytes);
    b.column0 = task % p->column_blocks * p->columns, task /= p->column_blocks;
    b.column1 = min(b.column0 + p->columns, ceil_div(w->out, w->out_step));
    b.row0 = task % p->row_blocks * p->rows, task /= p->row_blocks;
    b.row1 = min(b.row0 + p->rows, ceil_div(h->out, h->out_step));
    b.plane = task % d->out, task /= d->out;
    b.group = task % s->problem->G, b.n = task / s->problem->G;
    b.depth = phase_of(d, b.plane % d->out_step, s->backward), b.plane_q = b.plane / d->out_step;
    reach(d, &b.depth, b.plane_q, &b.depth_first, &b.depth_last);
    needed(h, s->backward, b.row0, b.row1, &b.low_row, &b.high_row);
    needed(w, s->backward, b.column0, b.column1, &b.low_column, &b.high_column);

    sum_cell *image = c->out + b.n * s->out_n + b.group * s->lanes * s->out_c + b.plane * s->out_x[0];
    const int64_t phases = p->separate_phases ? 1 : h->out_step;
    for (int64_t r = 0; r < h->out_step; r += phases) {
        for (int64_t td = b.depth_first; td < b.depth_last; td++) {
            if (r == 0 && !p->in_place)
                copy_input(&b, td);
            for (int64_t i = r; i < r + phases; i++)
                multiply_phase(&b, td, i);
        }
        for (int64_t q = b.row0; q < b.row1; q++)
            for (int64_t i = r; i < r + phases && q * h->out_step + i < h->out; i++) {
                const phase rows = phase_of(h, i, s->backward);
                sum_row(&b, q, &rows, image + (q * h->out_step + i) * s->out_x[1]);
            }
    }
}

static bool fits(opwright_solve solve, const opwright_problem *problem) {
    const bool backward = solve == OPWRIGHT_X;
    opwright_problem own = *problem;
    plan p;
    plan_of(&p, &own, backward);
    const struct solve *s = &p.s;
    const int64_t taps = own.taps[0] * own.taps[1] * own.taps[2];
    // Blocks of few rows copy the input several times over: 7x7 of 64 channels in blocks of three took twice as long.
    const bool high = 2 * p.rows >= min(ceil_div(s->axes[1].taps, s->axes[1].classes), s->axes[1].out);
    const bool dense = s->axes[0].in_step == 1 && s->axes[1].in_step == 1 && s->axes[2].in_step == 1;
    return dense && high && taps > 1 && s->lanes <= (p.in_place ? MAX_SUMMED : MAX_CHANNELS) && s->reduced >= FEWEST_REDUCED &&
           p.rows * p.columns >= LANES && p.input_bytes + p.products_bytes <= MAX_BYTES &&
           !over_channels_fills(problem, backward);
}

static int64_t scratch_bytes(opwright_solve solve, const opwright_problem *problem, int64_t workers, bool finished) {
    opwright_problem own = *problem;
    plan p;
    if (finished)
        return -1;
    plan_of(&p, &own, solve == OPWRIGHT_X);
    return p.positions_bytes + p.weights_bytes + max(1, workers) * worker_bytes(&p);
}

static void multiply_first(opwright_solve solve, const opwright_problem *problem, const elem *in, const elem *weights,
                           const elem *bias, sum_cell *out, const opwright_sink *sink, const opwright_team *team, void *scratch) {
    (void)sink;
    opwright_problem own = *problem;
    call c = {.in = in, .weights = weights, .bias = bias, .out = out};
    plan_of(&c.p, &own, solve == OPWRIGHT_X);
    const plan *p = &c.p;
    c.positions = scratch;
    c.packed = (unit *)(void *)((char *)scratch + p->positions_bytes);
    c.workers = (char *)c.packed + p->weights_bytes;
    list_positions(&p->s, own.taps[2], 1, c.positions);
    opwright_run(team, pack_task, &c, own.G * p->s.lanes);
    opwright_run(team, task, &c, own.N * own.G * p->s.axes[0].out * p->row_blocks * p->column_blocks);
}

const opwright_way OPWRIGHT_NAME(col2im) = {fits, scratch_bytes, multiply_first, NULL};
