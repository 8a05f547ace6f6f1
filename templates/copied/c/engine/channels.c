// y and x over channel lanes: the vectors are output channels, the scalars neighbouring pixels.
//
// Weights are packed to panels of 1 to 4 vectors, `[group][panel][tap][reduced channel][lane]`, taps in the order of
// the phases of phases.h. A task is a block of output rows and columns of one image and group, in steps of some rows. A
// step's rows of input are copied to scratch, except those that the previous step left there, as
// `[plane][row][column][channel]` with zeros where there is no input, or read in place if nothing has to be changed.
// The loops are panels, rows, phases, tiles. Out-of-bounds planes and rows of taps are left out of the runs, so
// padding there costs nothing. Zeros beyond a row's ends are multiplied; if that gives NaN (an Inf or NaN among the
// weights), the pixel is recomputed with in-bounds taps.
//
// Interleaved rows cross the rows in memory, which are short and have no taps. They are copied and finished in one
// pass, in memory order. So are rows that are contiguous in a plane and shorter than a vector: the 49
// pixels of 7x7 are 4 squares to transpose, not 7.
//
// Pairs of bf16 would be half empty if channels are few and odd. Then the channels of all taps of a row, adjacent in
// memory, form one line of elements, which is split into pairs: 27 products of a 3x3 kernel and 3 channels are 15
// pairs, not 18, and the input is copied unchanged. The second half of the last pair is multiplied by a weight of zero;
// blocks of input that contain Inf or NaN are checked pixel by pixel.
//
// One to four channels beyond whole vectors would leave most of a vector empty. They are summed over lanes of reduced
// channels instead, with one horizontal sum at the end: 33 channels of 5x5 110 -> 179 GFLOP/s.
//
// Groups of a few channels share a vector of outputs. Their input is copied side by side, so that each lane finds its
// group's scalar in the same vector: 32 groups of 8 channels, 56x56, f32 48 -> 92 GFLOP/s, bf16 75 -> 164.
//
// If a row has so many channels that few rows fit, and there are many weights, a step processes the channels in chunks,
// for more rows, and keeps its sums in scratch. This requires rows without zeros beside them.
//
// Small planes of many images use images as columns: a tile is one pixel of several images, all with the same taps, so
// padding costs nothing and a row of 4 pixels fills a tile. All input is copied first, as
// `[row][column][image][channel]`, and a task is a share of the panels, which it packs. 16 images of 512 channels, 3x3,
// f32: 7x7 168 -> 186 GFLOP/s, 14x14 196 -> 207, bf16 332 -> 368, 377 -> 411; 4x4 of stride 2 over 8x8 130 -> 186.
//
// If few pixels share the weights, a task is a share of the panels instead, which it packs for itself. The same holds
// for many weights and little input: all input is copied first, for all tasks. Rejected: weights in place, 0.55 to 1.0
// times as fast over 7x7 to 33x33 (Intel Xeon with AMX, f32).
//
// Figures: see engine.h.

#include "channels_pack.h"
#include "engine.h"

// One block of output.

typedef struct block {
    const call *c;
    int64_t n, group;
    int64_t plane;          // of the output
    int64_t first_row;      // among rows with the same spacing, in q
    int64_t row0, row1;     // counted among them
    int64_t column0, column1; // in q
    phase depth;
    int64_t depth_first, depth_last; // its taps with an input in bounds
    int64_t plane_q;
    // The input, copied or not: the pixel (slot, row, column) is at
    // base + slot*plane_step + (first_slot + (row - low_row)/row_divisor)%slots*row_step + (column - low_column)*pixel.
    const unit *base;
    int64_t plane_step, row_step, row_divisor, low_row, low_column;
    int64_t first_slot, slots;
    int64_t fresh; // the first row not copied yet
    int64_t part, parts; // of the rows to copy
    bool non_finite;     // an Inf or NaN has been copied
    int64_t first_channel, last_channel; // reduced, in units: the chunk
    int64_t first_panel;   // of the task
    run *runs;
    float *buffer, *line, *sums;
    sum_cell *cells; // of a part
    unit *rows;
    int64_t worker;
} block;

// The address of the row `row` below the first one.
INLINE int64_t slot_of(const block *b, int64_t row) {
    const int64_t slot = b->first_slot + over(row, b->row_divisor);
    return slot < b->slots ? slot : slot - b->slots;
}

static void place_input(block *b, bool first, bool copy) {
    const plan *p = &b->c->p;
    solve own = p->s;
    own.reduced = min(own.reduced - b->first_channel * UNIT_CHANNELS, p->chunk * UNIT_CHANNELS);
    const solve *s = &own;
    // Whether groups share a vector and its channels have the order of memory.
    const bool alike = VECTORS_PICK && p->channels == p->picked && s->reduced % UNIT_CHANNELS == 0 &&
                       groups_of(p, b->group) == p->shared_groups;
    if (p->shared_groups > 1 && alike)
        own.reduced *= p->shared_groups;
    const axis *d = &s->axes[0], *h = &s->axes[1], *w = &s->axes[2];
    const elem *image = b->c->in + b->n * s->in_n +
                        (b->group * p->shared_groups * p->s.reduced + b->first_channel * UNIT_CHANNELS) * s->in_c;
    const int64_t plane0 = b->plane_q * d->in_step + b->depth.offset;
    if (p->stacked) {
        b->row_step = w->in * p->pixel;
        b->plane_step = d->offset_step * h->in * b->row_step;
        b->row_divisor = 1;
        b->low_row = b->low_column = b->first_slot = 0;
        b->slots = INT64_MAX;
        b->base = b->rows + plane0 * h->in * b->row_step;
        return;
    }
    int64_t high_row, high_column;
    span(w, s->backward, b->column0, b->column1, &b->low_column, &high_column);
    if (far_dilated(w)) // there no zeros are multiplied
        b->low_column = max(b->low_column, 0), high_column = max(b->low_column, min(high_column, w->in));
    if (!p->copied || (p->inside && b->low_column >= 0 && high_column <= w->in)) {
        // A run's plane is counted from the first tap's, which may lie outside.
        b->plane_step = d->offset_step * s->in_x[0] / UNIT_CHANNELS;
        b->row_step = s->in_x[1] / UNIT_CHANNELS;
        b->row_divisor = 1;
        b->low_row = b->low_column = b->first_slot = 0;
        b->slots = INT64_MAX;
        b->base = (const unit *)(const void *)image + plane0 * (s->in_x[0] / UNIT_CHANNELS);
        return;
    }
    const int64_t before = b->low_row;
    span(h, s->backward, b->first_row + b->row0 * p->spacing, b->first_row + (b->row1 - 1) * p->spacing + 1, &b->low_row,
         &high_row);
    b->row_divisor = p->divisor;
    b->slots = p->slots;
    b->non_finite = b->non_finite && !(first && copy);
    b->first_slot = first ? 0 : (b->first_slot + (b->low_row - before) / b->row_divisor) % b->slots;
    const int64_t low_row = first ? b->low_row : max(b->low_row, b->fresh);
    b->fresh = high_row;
    b->row_step = row_units(p);
    b->plane_step = p->slots * b->row_step;
    b->base = b->rows;
    const int64_t columns = high_column - b->low_column; // of which the tensor has [first, last)
    const int64_t first_column = min(max(0, -b->low_column), columns);
    const int64_t last_column = max(first_column, min(columns, w->in - b->low_column));
    const int64_t next = (h->in == 1 ? p->columns * w->in_step * s->in_x[2] : b->row_divisor * s->in_x[1]) * (int64_t)sizeof(elem);
    for (int64_t t = b->depth_first; copy && t < b->depth_last; t++) {
        const elem *plane = image + (plane0 + t * d->offset_step) * s->in_x[0];
        if (p->interleaved) {
            unit *to = b->rows + t * b->plane_step;
            clear_ends(to, h->in, b->row_step, first_column, last_column, columns, p->pixel);
            copy_lines(s, plane + (b->low_column + first_column) * h->in, (last_column - first_column) * h->in, h->in,
                       to + first_column * p->pixel, b->row_step, p->pixel);
            continue;
        }
        if (p->contiguous && last_column - first_column == w->in) {
            const int64_t begin = max(low_row, 0), count = max(0, min(high_row, h->in) - begin);
            const int64_t end = begin + count * (b->part + 1) / b->parts;
            for (int64_t row = begin + count * b->part / b->parts, rows; row < end; row += rows) {
                const int64_t slot = slot_of(b, row - b->low_row);
                unit *to = b->rows + t * b->plane_step + slot * b->row_step;
                rows = min(end - row, b->slots - slot);
                clear_ends(to, rows, b->row_step, first_column, last_column, columns, p->pixel);
                copy_lines(s, plane + row * w->in, rows * w->in, w->in, to + first_column * p->pixel, p->pixel,
                           b->row_step);
            }
            continue;
        }
        for (int64_t row = max(low_row, 0); row < min(high_row, h->in); row++) {
            const int64_t slot = over(row - b->low_row, b->row_divisor);
            if (slot * b->row_divisor != row - b->low_row || (b->parts > 1 && slot % b->parts != b->part))
                continue;
            unit *to = b->rows + t * b->plane_step + slot_of(b, row - b->low_row) * b->row_step;
            const elem *from = plane + row * s->in_x[1];
#if OPWRIGHT_PAIRS
            if (p->line) {
                b->non_finite |= copy_line(s, from, b->low_column, high_column - b->low_column, to, b->row_step,
                                     h->in == 1 ? next : next / b->row_divisor * p->rows * p->spacing * h->in_step);
                continue;
            }
#endif
            if (p->shared_groups > 1 && !alike)
                copy_row_of_groups(p, from, b->low_column, high_column - b->low_column, groups_of(p, b->group), to);
            else
                copy_row(s, from, b->low_column, high_column - b->low_column, to, p->pixel, next);
        }
    }
}

// The runs of one row of output and a phase of its columns; taps [first, last) of the columns.
static int64_t list_runs(const block *b, const phase *rows, int64_t row_q, const phase *columns, int64_t first,
                         int64_t last, int64_t vector_step) {
    const plan *p = &b->c->p;
    const solve *s = &p->s;
    const axis *h = &s->axes[1], *w = &s->axes[2];
    int64_t row_first, row_last, count = 0;
    reach(h, rows, row_q, &row_first, &row_last);
    const int64_t at_row = row_q * h->in_step + rows->offset - b->low_row;
    const bool whole = p->shared_groups > 1 ? p->channels % p->picked == 0 : p->pixel == p->channels;
    const bool merged = p->line || (p->chunks == 1 && whole && w->offset_step == 1);
    const int64_t length = merged ? last - first : 1;
    if (first == last)
        return 0;
    for (int64_t td = b->depth_first; td < b->depth_last; td++)
        for (int64_t th = row_first; th < row_last; th++)
            for (int64_t tw = first; tw < last; tw += length) {
                run *r = &b->runs[count++];
                r->scalars = td * b->plane_step + slot_of(b, at_row + th * h->offset_step) * b->row_step +
                             tw * w->offset_step * p->pixel;
                const int64_t position = ((b->depth.position + td) * h->taps + rows->position + th) * p->row_taps +
                                         (columns->position + tw) * p->channels;
                r->vectors = position * vector_step;
                r->length = p->line ? p->row_taps : length * p->channels;
                if (p->chunks > 1)
                    r->vectors += b->first_channel * vector_step, r->length = b->last_channel - b->first_channel;
            }
    return count;
}

// A row of tiles: outputs [q0, q1) of one phase, by the runs of `o`.
typedef struct stretch {
    const unit *base; // the scalars of q = 0
    int64_t step;     // from a pixel to the next, in bytes
    void *out;        // of q = 0
    int64_t width;
    bool shares_vector; // groups share a vector
    int64_t rest;     // channels whose sums are over lanes
    bool added;       // `out` are sums that the bias is read from
} stretch;

// Of `o` only the place of a tile changes. (Copies of it would wait for the stores of its parts: 30 cycles each.)
// Rejected: prefetching the pixels of the next tile before each one, where the input is read in place: f32 of 1x1 0.93
// to 0.98 times as fast, 570x570 0.99; bf16 1.0 to 1.04.
static void tiles_of(operands *o, const stretch *s, int64_t q0, int64_t q1) {
    const float *bias = o->bias;
    if (o->run_count == 0 && s->added)
        return;
    if (s->rest > 0) {
        // The last tile recomputes some pixels.
        const int64_t rows = q1 - q0 < MAX_SUMS ? 1 : MAX_SUMS;
        for (int64_t q = q0; q < q1; q += rows) {
            const int64_t at = min(q, q1 - rows);
            o->scalars = unit_at(s->base, at * s->step);
            o->out = out_at(o, s->out, at * o->out_row);
            SUM_TABLE[s->rest][rows](o);
        }
        return;
    }
    const int64_t room = s->shares_vector ? MAX_PICKED_ROWS : max_rows(s->width);
    const int64_t limit = s->step % 4096 == 0 ? min(room, 9) : room;
    const int64_t count = q1 - q0, tiles = count <= limit ? count > 0 : ceil_div(count, limit);
    const int64_t shorter = over(count, max(tiles, 1)), longer = count - tiles * shorter;
    for (int64_t t = 0, q = q0, shaped = 0; t < tiles; t++) {
        const int64_t rows = shorter + (t < longer);
        o->shaped = rows == shaped, shaped = rows;
        o->scalars = unit_at(s->base, q * s->step);
        o->out = out_at(o, s->out, q * o->out_row);
        o->bias = bias + q * o->bias_row;
        (s->shares_vector ? PICKED_TABLE[rows] : TILE_TABLE[s->width][rows])(o);
        q += rows;
    }
    o->bias = bias;
}

#if OPWRIGHT_PAIRS
// Output q by single products, because only whole pairs of a line have runs.
static void again_by_halves(const plan *p, const operands *o, const stretch *s, int64_t q, int64_t first, int64_t last) {
    for (int64_t v = 0; v < s->width; v++) {
        vec sum = {0};
        for (const run *r = o->runs; r != o->runs + o->run_count; r++)
            for (int64_t e = first * p->s.reduced; e < last * p->s.reduced; e++) {
                const uvec half = (uvec){0} + (e % 2 == 0 ? 0xffffu : 0xffff0000u);
                const unit pair = unit_get(unit_at(s->base, q * s->step) + r->scalars + e / 2);
                sum = fused(sum, units_splat(pair) & half,
                            units_load(o->vectors + r->vectors + e / 2 * o->step + v * LANES) & half);
            }
        sum += vec_load(o->bias + v * o->bias_vector);
        void *at = out_at(o, s->out, q * o->out_row + v * LANES);
        o->elements ? sum_store(at, sum) : vec_store(at, sum);
    }
}
#endif

// Lanes of output q in which a vector contains a NaN.
INLINE uvec nan_at(const operands *o, const stretch *s, int64_t q) {
    uvec nan = {0};
    for (int64_t v = 0; v < s->width; v++) {
        const void *at = out_at(o, s->out, q * o->out_row + v * LANES);
        const vec x = o->elements ? sum_load(at) : vec_load(at);
        nan |= (uvec)(x != x);
    }
    return nan;
}

// Outputs [q0, q1) with taps beyond the row's ends: those that multiplied a zero there by an Inf or a NaN are
// recomputed with in-bounds taps.
static void again_where_nan(const block *b, operands *o, const stretch *s, const phase *rows, int64_t row_q,
                            const phase *columns, int64_t q0, int64_t q1) {
    uvec any = {0};
    for (int64_t q = q0; q < q1; q++)
        any |= nan_at(o, s, q);
    if (!uvec_any(any)) // one check for all outputs, which nearly always suffices
        return;
    for (int64_t q = q0; q < q1; q++) {
        if (!uvec_any(nan_at(o, s, q)))
            continue;
        int64_t first, last;
        reach(&b->c->p.s.axes[2], columns, q, &first, &last);
#if OPWRIGHT_PAIRS
        if (b->c->p.line) {
            again_by_halves(&b->c->p, o, s, q, first, last);
            continue;
        }
#endif
        o->run_count = list_runs(b, rows, row_q, columns, first, last, o->step);
        tiles_of(o, s, q, q + 1);
    }
}

// One row of one phase, added to the sums of the chunks before.
static void row_of_tiles(const block *b, operands *o, const phase *rows, int64_t row_q, const phase *columns,
                         int64_t width, void *row_out, int64_t pixel_out, const float *before) {
    const plan *p = &b->c->p;
    const axis *w = &p->s.axes[2];
    const int64_t q0 = b->column0, q1 = min(b->column1, columns->count);
    if (q0 >= q1)
        return;
    o->runs = b->runs;
    o->scalar_row = scalar_row(p);
    o->out_row = w->out_step * pixel_out;
    if (before)
        o->bias = before, o->bias_row = w->out_step * width * LANES;
    const unit *base = unit_at(b->base, (columns->offset - b->low_column) * pixel_bytes(p));
    const stretch s = {base, o->scalar_row, row_out, width, p->shared_groups > 1, o->lane_step > 0 ? p->rest : 0,
                       before && b->last_channel < p->channels};
    if (far_dilated(w)) {
        // Neighbours that reach the same inputs are processed separately, without zeros.
        for (int64_t q = q0, end; q < q1; q = end) {
            int64_t first, last, next_first, next_last;
            reach(w, columns, q, &first, &last);
            for (end = q + 1; end < q1; end++) {
                reach(w, columns, end, &next_first, &next_last);
                if (next_first != first || next_last != last)
                    break;
            }
            o->run_count = list_runs(b, rows, row_q, columns, first, last, o->step);
            tiles_of(o, &s, q, end);
        }
        return;
    }
    // Outputs whose taps all lie beyond the row's ends have no terms.
    const int64_t absent = -columns->offset - (columns->taps - 1) * w->offset_step, last = w->in - 1 - columns->offset;
    const int64_t first_with_taps = min(q1, max(q0, absent > 0 ? over(absent + w->in_step - 1, w->in_step) : 0));
    const int64_t past = max(first_with_taps, min(q1, last < 0 ? 0 : over(last, w->in_step) + 1));
    o->run_count = 0;
    tiles_of(o, &s, q0, first_with_taps);
    tiles_of(o, &s, past, q1);
    o->run_count = list_runs(b, rows, row_q, columns, 0, columns->taps, o->step);
    tiles_of(o, &s, first_with_taps, past);
    // Outputs before `inside` or from `outside` on have taps beyond the row's ends.
    const int64_t inside = over(max(0, -columns->offset) + w->in_step - 1, w->in_step);
    const int64_t room = w->in - 1 - columns->offset - (columns->taps - 1) * w->offset_step;
    const int64_t outside = max(inside, room < 0 ? 0 : over(room, w->in_step) + 1);
    if (columns->taps == 0 || p->chunks > 1) // of which none is padded
        return;
    if (b->non_finite) { // only lines are searched for them
        again_where_nan(b, o, &s, rows, row_q, columns, q0, q1);
        return;
    }
    if (b->c->finite)
        return;
    again_where_nan(b, o, &s, rows, row_q, columns, q0, min(q1, inside));
    again_where_nan(b, o, &s, rows, row_q, columns, max(q0, outside), q1);
}

// Stores pixels of the buffer, `[pixel][lane]`, to the output with stride `step`.
static void finish_row(const solve *s, const float *from, int64_t pitch, sum_cell *out, int64_t step, int64_t pixels,
                       int64_t lanes) {
    if (s->out_c == 1) {
        for (int64_t x = 0; x < pixels; x++)
            for (int64_t l = 0; l < lanes; l += LANES) {
                const vec v = vec_load(from + x * pitch + l);
                sum_cell *to = out + x * step + l;
                lanes - l >= LANES ? sum_store(to, v) : sum_store_part(to, v, lanes - l);
            }
        return;
    }
    for (int64_t l = 0; l < lanes; l += LANES)
        for (int64_t x = 0; x < pixels; x += LANES)
            store_turned(from + x * pitch + l, pitch, min(LANES, pixels - x), out + l * s->out_c + x * step, s->out_c, step, lanes - l);
}

// Sums of a panel's pixels for all images, `[pixel][image][lane]`, to the output.
static void finish_stacked(const block *b, int64_t panel) {
    const call *c = b->c;
    const plan *p = &c->p;
    const solve *s = &p->s;
    const int64_t width = panel_width(p, panel), first = panel_first(p, panel) * LANES;
    const int64_t planes = s->axes[0].out, rows = s->axes[1].out, pitch = stacked_pitch(p, width);
    const bool contiguous = s->out_x[0] == rows * s->out_x[1];
    sum_cell *out = c->out + (b->group * p->lanes + first) * s->out_c;
    for (int64_t image = 0; image < s->axes[2].out; image++, out += s->out_x[2])
        for (int64_t plane = 0; plane < (contiguous ? 1 : planes); plane++)
            finish_row(s, b->buffer + plane * rows * pitch + image * width * LANES, pitch, out + plane * s->out_x[0],
                       s->out_x[1], contiguous ? planes * rows : rows, min(width * LANES, s->lanes - first));
}

// All rows of the buffer, `[row][column][lane]`, whose pixels alternate in the output.
static void finish_interleaved(const block *b, sum_cell *out, int64_t columns, int64_t lanes, int64_t width) {
    const solve *s = &b->c->p.s;
    const int64_t pitch = width * LANES, rows = s->axes[1].out, pixels = columns * rows;
    for (int64_t l = 0; l < lanes; l += LANES)
        for (int64_t x = 0, row = 0, column = 0; x < pixels; x += LANES) {
            vec v[LANES];
            UNROLL for (int64_t i = 0; i < LANES; i++) {
                v[i] = i < pixels - x ? vec_load(b->buffer + (row * columns + column) * pitch + l) : (vec){0};
                if (++row == rows)
                    row = 0, column++;
            }
            vec_transpose(v);
            UNROLL for (int64_t i = 0; i < LANES; i++)
                if (i < lanes - l)
                    store_line(out + (l + i) * s->out_c + x, 1, v[i], pixels - x);
        }
}

// Whether a row of output has any taps.
static bool row_has_taps(const block *b, int64_t row) {
    const solve *s = &b->c->p.s;
    const axis *h = &s->axes[1];
    const phase rows = phase_of(h, row % h->out_step, s->backward);
    int64_t first, last;
    reach(h, &rows, row / h->out_step, &first, &last);
    return first < last && b->depth_first < b->depth_last;
}

// `count` sums, `step` from one to the next, which is 0 or 1. If `streamed`, whole lines are stored past the caches.
INLINE void put_line(sum_cell *to, const float *from, int64_t step, int64_t count, bool streamed) {
    enum { LINE = 64 / sizeof(sum_cell) };
    const int64_t head = streamed ? min(count, -(int64_t)((uintptr_t)to / sizeof *to) & (LINE - 1)) : 0;
    const int64_t past = streamed ? head + (count - head) / LINE * LINE : head;
    for (int64_t x = 0; x < head; x += LANES)
        sum_store_part(to + x, vec_load(from + x * step), min(LANES, head - x));
    for (int64_t x = head; x < past; x += LANES)
        sum_stream(to + x, vec_load(from + x * step));
    for (int64_t x = past; x < count; x += LANES)
        store_line(to + x, 1, vec_load(from + x * step), count - x);
}

// `rows` rows of the bias of each channel.
static void fill_rows(const block *b, sum_cell *out, int64_t rows, int64_t columns, int64_t lanes, const float *bias) {
    const solve *s = &b->c->p.s;
    const int64_t together = s->out_x[1] == columns ? rows : 1;
    float same[LANES];
    for (int64_t l = 0; l < lanes; l++) {
        vec_store(same, vec_splat(bias[l]));
        for (int64_t row = 0; row < rows; row += together)
            put_line(out + l * s->out_c + row * s->out_x[1], same, 0, together * columns, b->c->streamed);
    }
}

// A row of the buffer, past the caches.
static void finish_streamed(const block *b, sum_cell *out, int64_t columns, int64_t lanes, int64_t pitch) {
    const int64_t line = line_of(&b->c->p);
    for (int64_t l = 0; l < lanes; l += LANES) {
        for (int64_t x = 0; x < columns; x += LANES) {
            vec v[LANES];
            UNROLL for (int64_t i = 0; i < LANES; i++)
                v[i] = i < columns - x ? vec_load(b->buffer + (x + i) * pitch + l) : (vec){0};
            vec_transpose(v);
            UNROLL for (int64_t i = 0; i < LANES; i++)
                vec_store(b->line + i * line + x, v[i]);
        }
        for (int64_t i = 0; i < min(LANES, lanes - l); i++)
            put_line(out + (l + i) * b->c->p.s.out_c, b->line + i * line, 1, columns, true);
    }
}

// The first channel of a panel of the group; of the one behind the last, how many there are.
static int64_t panel_channel(const block *b, int64_t panel) {
    const plan *p = &b->c->p;
    return panel == p->panels ? groups_of(p, b->group) * p->s.lanes : panel_first(p, panel) * LANES;
}

// The output of a panel, as if it began with row and column 0; of a part in scratch.
static sum_cell *image_of(const block *b, int64_t panel) {
    const plan *p = &b->c->p;
    const solve *s = &p->s;
    const int64_t channel = panel_channel(b, panel);
    if (!b->c->sink)
        return b->c->out + b->n * s->out_n + (b->group * p->lanes + channel) * s->out_c + b->plane * s->out_x[0];
    const int64_t before = p->whole_pixels ? panel_channel(b, b->first_panel) : channel;
    return b->cells + (channel - before) * s->out_c - (b->first_row + b->row0 * p->spacing) * s->axes[1].out_step * s->out_x[1] -
           b->column0 * s->axes[2].out_step * s->out_x[2];
}

// Panels [panel, last) of the block, whose sums are a part.
static void finish_panels(const block *b, int64_t panel, int64_t last) {
    const plan *p = &b->c->p;
    const solve *s = &p->s;
    const axis *h = &s->axes[1], *w = &s->axes[2];
    const int64_t channel = panel_channel(b, panel), first = b->first_row + b->row0 * p->spacing;
    const int64_t column = b->column0 * w->out_step, columns = min(w->out, b->column1 * w->out_step) - column;
    // Rows with a distance have one phase.
    const int64_t row = first * h->out_step, end = min(h->out, (first + (b->row1 - b->row0) * p->spacing) * h->out_step);
    finish_part(s, b->c->sink, b->cells,
                b->n * s->cell_n + (b->group * p->lanes + channel) * s->cell_c + b->plane * s->cell_x[0] + row * s->cell_x[1] +
                    column * s->cell_x[2],
                panel_channel(b, last) - channel, ceil_div(end - row, p->spacing), p->spacing, columns, b->worker);
}

static void panel_of_block(const block *b, int64_t panel, const unit *weights) {
    const call *c = b->c;
    const plan *p = &c->p;
    const solve *s = &p->s;
    const axis *h = &s->axes[1], *w = &s->axes[2];
    const int64_t width = panel_width(p, panel), first = panel_first(p, panel) * LANES;
    const bool rest = is_rest(p, panel);
    const int64_t lanes = min(width * LANES, groups_of(p, b->group) * s->lanes - first);
    // Rejected: full panels store to the output directly although the last panel is not full: 56 channels f32 0.89
    // times as fast, bf16 1.06 times.
    operands o = {.vectors = weights, .step = rest ? 1 : width * LANES,
                  .lane_step = rest ? p->panel_units / LANES : 0, .bias_vector = LANES};
    o.bias = c->biases + b->group * group_width(p) * LANES + first;
    o.picks = c->picks, o.picked = p->picked;
    const int64_t column_first = b->column0 * w->out_step, column_last = min(w->out, b->column1 * w->out_step);
    sum_cell *image = image_of(b, panel);
    const int64_t first_q = b->first_row + b->row0 * p->spacing, end = b->first_row + b->row1 * p->spacing;
    const int64_t last = min(h->out, end * h->out_step) - 1;
    const int64_t pitch = p->stacked ? stacked_pitch(p, width) : (column_last - column_first) * width * LANES;
    const bool begun = b->first_channel > 0, done = b->last_channel == p->channels;
    int64_t buffered_rows = 0; // rows in the buffer
    float *sums = b->sums + (panel - b->first_panel) * p->panel_sums - column_first * width * LANES;
    int64_t filled = 0; // the first row that is not filled
    for (int64_t q = first_q; q < end; q += p->spacing)
        for (int64_t r = 0; r < h->out_step && q * h->out_step + r < h->out; r++, sums += pitch) {
            const int64_t row = q * h->out_step + r;
            if (row < filled)
                continue;
            const phase rows = phase_of(h, r, s->backward);
            sum_cell *out = image + row * s->out_x[1];
            if (p->empty_rows && !row_has_taps(b, row)) {
                for (filled = row + 1; p->spacing == 1 && filled <= last && !row_has_taps(b, filled);)
                    filled++;
                fill_rows(b, out + column_first, filled - row, column_last - column_first, lanes, o.bias);
                continue;
            }
            // Rows that are finished later start at the buffer's first column.
            const int64_t before = p->stacked ? b->plane * h->out + row : p->interleaved ? q : buffered_rows;
            void *to = !done       ? sums
                       : p->direct ? (void *)out
                                   : b->buffer + before * pitch - b->column0 * w->out_step * width * LANES;
            const int64_t pixel_out = p->direct && done ? s->out_x[2] : width * LANES;
            o.elements = p->direct && done, o.streamed = b->c->streamed && p->direct && done;
            // Lines of many planes, which the hardware does not prefetch: without a software prefetch, finishing 320
            // channels to 1280 of 7x7 took 3 times as long.
            if (done && !p->direct && !p->stacked && p->line_bytes == 0 && s->out_x[2] == 1)
                for (int64_t l = 0; l < lanes; l++)
                    for (int64_t x = column_first; x < column_last; x += 64 / (int64_t)sizeof(elem))
                        __builtin_prefetch(out + l * s->out_c + x, 1);
            for (int64_t pw = 0; pw < w->out_step; pw++) {
                const phase columns = phase_of(w, pw, s->backward);
                row_of_tiles(b, &o, &rows, q, &columns, width, out_at(&o, to, pw * pixel_out), pixel_out,
                             begun ? sums + pw * width * LANES : NULL);
            }
            if (p->line_bytes > 0 && c->streamed) {
                finish_streamed(b, out + column_first, column_last - column_first, lanes, width * LANES);
                continue;
            }
            if (!done || p->direct || p->interleaved || p->stacked || (++buffered_rows < p->finished_rows && row < last))
                continue;
            finish_row(s, b->buffer, width * LANES, out - (buffered_rows - 1) * s->out_x[1] + column_first * s->out_x[2],
                       s->out_x[2], buffered_rows * (column_last - column_first), lanes);
            buffered_rows = 0;
        }
    if (p->interleaved && done)
        finish_interleaved(b, image + column_first * s->out_x[2], column_last - column_first, lanes, width);
    if (c->sink && done && !p->whole_pixels)
        finish_panels(b, panel, panel + 1);
}

static block block_of(const call *c, int64_t worker) {
    const plan *p = &c->p;
    char *mine = c->workers + worker * worker_bytes(p);
    block b = {.c = c, .parts = 1, .last_channel = p->channels, .worker = worker};
    b.rows = (unit *)(void *)mine;
    b.runs = (run *)(void *)(mine + p->rows_bytes);
    b.buffer = (float *)(void *)(mine + p->rows_bytes + p->runs_bytes);
    b.line = (float *)(void *)((char *)b.buffer + p->buffer_bytes);
    b.sums = (float *)(void *)((char *)b.line + p->line_bytes);
    b.cells = (sum_cell *)(void *)((char *)b.sums + p->sums_bytes + p->panel_bytes);
    return b;
}

// Whether there is one. Blocks and threads share the rows evenly: 56 rows in blocks of at most 6 are 28 for each
// of two threads, not 30 and 26.
static bool place_block(block *b, int64_t n, int64_t group, int64_t plane, int64_t row_block, int64_t step,
                        int64_t column_block) {
    const plan *p = &b->c->p;
    const axis *d = &p->s.axes[0], *h = &p->s.axes[1], *w = &p->s.axes[2];
    b->n = n, b->group = group, b->plane = plane;
    const int64_t blocks = p->row_blocks / p->spacing;
    b->first_row = row_block / blocks;
    const int64_t height = ceil_div(ceil_div(h->out, h->out_step) - b->first_row, p->spacing), part = row_block % blocks;
    b->row0 = part * height / blocks + step * p->rows;
    b->row1 = min(b->row0 + p->rows, (part + 1) * height / blocks);
    b->column0 = column_block * p->columns;
    b->column1 = min(b->column0 + p->columns, ceil_div(w->out, w->out_step));
    b->depth = phase_of(d, plane % d->out_step, p->s.backward);
    b->plane_q = plane / d->out_step;
    reach(d, &b->depth, b->plane_q, &b->depth_first, &b->depth_last);
    return b->row0 < b->row1;
}

static void shared_task(const void *context, int64_t task, int64_t worker) {
    const call *c = context;
    const plan *p = &c->p;
    block b = block_of(c, worker);
    const int64_t share = task % p->groups_of_panels;
    task /= p->groups_of_panels;
    // Groups that share a vector also share cache lines with the next ones.
    const int64_t near = p->shared_groups > 1 ? p->groups : 1, group = task % near;
    task /= near;
    const int64_t column_block = task % p->column_blocks;
    task /= p->column_blocks;
    const int64_t row_block = task % p->row_blocks;
    task /= p->row_blocks;
    const int64_t planes = p->s.axes[0].out, G = p->groups / near;
    const int64_t first = share * p->panels / p->groups_of_panels, last = (share + 1) * p->panels / p->groups_of_panels;
    b.first_panel = first;
    for (int64_t step = 0; step < p->steps; step++) {
        if (!place_block(&b, task / planes / G, group + task / planes % G, task % planes, row_block, step, column_block))
            break;
        for (int64_t chunk = 0; chunk < p->chunks; chunk++) {
            b.first_channel = chunk * p->chunk, b.last_channel = min(p->channels, b.first_channel + p->chunk);
            place_input(&b, step == 0 || p->chunks > 1, true);
            for (int64_t panel = first; panel < last; panel++)
                panel_of_block(&b, panel, c->packed + packed_at(p, b.group, panel));
        }
        if (p->whole_pixels)
            finish_panels(&b, first, last);
    }
    if (c->streamed)
        stream_end();
}

// Input that is copied before: rows of a block.
static void precopy_task(const void *context, int64_t task, int64_t worker) {
    const call *c = context;
    const plan *p = &c->p;
    block b = block_of(c, worker);
    b.part = task % COPY_PARTS, b.parts = COPY_PARTS;
    task /= COPY_PARTS;
    b.rows = c->precopied + task * (copied_bytes(p) / (int64_t)sizeof *b.rows);
    const int64_t columns = task % p->column_blocks, rows = task / p->column_blocks % p->row_blocks;
    const int64_t image = task / blocks_of(p), plane = task / p->column_blocks / p->row_blocks % p->s.axes[0].out;
    if (place_block(&b, image / p->groups, image % p->groups, plane, rows, 0, columns))
        place_input(&b, true, true);
}

// The same of one image, as one of the columns.
static void stack_task(const void *context, int64_t task, int64_t worker) {
    (void)worker;
    const call *c = context;
    const plan *p = &c->p;
    solve own = p->s;
    const axis *d = &own.axes[0], *h = &own.axes[1];
    const int64_t images = own.axes[2].in, image = task / p->groups, group = task % p->groups, step = own.in_x[2];
    const bool contiguous = own.in_x[0] == h->in * own.in_x[1];
    const int64_t lines = contiguous ? 1 : d->in, pixels = contiguous ? d->in * h->in : h->in;
    const elem *from = c->in + image * step + group * own.reduced * own.in_c;
    unit *to = c->precopied + (group * d->in * h->in * images + image) * p->pixel;
    own.axes[2].in = pixels, own.in_x[2] = own.in_x[1];
    for (int64_t line = 0; line < lines; line++)
        copy_row(&own, from + line * own.in_x[0], 0, pixels, to + line * h->in * images * p->pixel, images * p->pixel,
                 step * (int64_t)sizeof(elem));
}

static void own_task(const void *context, int64_t task, int64_t worker) {
    const call *c = context;
    const plan *p = &c->p;
    block b = block_of(c, worker);
    const int64_t group = task / p->groups_of_panels, share = task % p->groups_of_panels;
    const int64_t first = share * p->panels / p->groups_of_panels, last = (share + 1) * p->panels / p->groups_of_panels;
    unit *packed = (unit *)(void *)((char *)b.sums + p->sums_bytes);
    const int64_t planes = p->s.axes[0].out;
    const int64_t steps = p->row_blocks * p->steps;
    const bool single = p->s.problem->N * planes * steps * p->column_blocks == 1;
    for (int64_t panel = first; panel < last; panel++) {
        pack_panel(c, group, panel, packed);
        for (int64_t n = 0; n < p->s.problem->N; n++)
            for (int64_t plane = 0; plane < planes; plane++)
                for (int64_t rows = 0; rows < steps; rows++)
                    for (int64_t columns = 0; columns < p->column_blocks; columns++) {
                        if (!place_block(&b, n, group, plane, rows / p->steps, rows % p->steps, columns))
                            continue;
                        if (p->stacked)
                            b.rows = c->precopied + group * (p->precopied_bytes / p->groups / (int64_t)sizeof *b.rows);
                        else if (p->precopied) {
                            const int64_t image = n * p->groups + group;
                            const int64_t number = ((image * planes + plane) * p->row_blocks + rows) * p->column_blocks + columns;
                            b.rows = c->precopied + number * (copied_bytes(p) / (int64_t)sizeof *b.rows);
                        }
                        place_input(&b, true, !p->precopied && (panel == first || !single));
                        panel_of_block(&b, panel, packed);
                    }
        if (p->stacked && !p->direct)
            finish_stacked(&b, panel);
    }
    if (c->streamed)
        stream_end();
}

bool over_channels_fills(const opwright_problem *problem, bool backward) {
    const solve s = solve_of(problem, backward);
    return groups_per_vector(&s) > 1;
}

static int64_t scratch_bytes(opwright_solve solve, const opwright_problem *problem, int64_t workers, bool finished) {
    opwright_problem own = *problem;
    plan p;
    if (finished && !has_lines(problem, solve == OPWRIGHT_X))
        return -1;
    plan_of(&p, &own, solve == OPWRIGHT_X, workers, finished);
    return p.bias_bytes + p.positions_bytes + p.weights_bytes + p.precopied_bytes +
           max(1, workers) * worker_bytes(&p);
}

static void solve_channels(opwright_solve solve, const opwright_problem *problem, const elem *in, const elem *weights,
                           const elem *bias, sum_cell *out, const opwright_sink *sink, const opwright_team *team, void *scratch) {
    opwright_problem own = *problem;
    call c = {.in = in, .weights = weights, .bias = bias, .out = out, .sink = sink};
    plan_of(&c.p, &own, solve == OPWRIGHT_X, team ? team->workers : 1, sink != NULL);
    const plan *p = &c.p;
    c.biases = scratch;
    c.positions = (int64_t *)(void *)((char *)scratch + p->bias_bytes);
    c.packed = (unit *)(void *)((char *)c.positions + p->positions_bytes);
    c.precopied = (unit *)(void *)((char *)c.packed + p->weights_bytes);
    c.workers = (char *)c.precopied + p->precopied_bytes;
    c.streamed = p->streamed && (uintptr_t)out % sizeof(vec) == 0;
    const int64_t tap = p->line ? p->s.reduced : p->channels * UNIT_CHANNELS;
    list_positions(&p->s, p->row_taps * UNIT_CHANNELS, tap, c.positions);
    for (int32_t k = 0; p->shared_groups > 1 && k < p->picked; k++)
        for (int i = 0; i < LANES; i++)
            c.picks[k][i] = (int32_t)(min(i / p->s.lanes, p->shared_groups - 1) * p->picked) + k;
    const int64_t padded = group_width(p) * LANES;
    for (int64_t g = 0; g < p->groups; g++)
        for (int64_t l = 0; l < padded; l += LANES) {
            const int64_t count = max(0, min(LANES, groups_of(p, g) * p->s.lanes - l));
            const vec v = bias && count > 0 ? elem_load_part(bias + g * p->lanes + l, count) : (vec){0};
            vec_store(c.biases + g * padded + l, v);
        }
    if (p->stacked)
        opwright_run(team, stack_task, &c, p->s.axes[2].in * p->groups);
    else if (p->precopied)
        opwright_run(team, precopy_task, &c, own.N * p->groups * blocks_of(p) * COPY_PARTS);
    if (p->own) {
        opwright_run(team, own_task, &c, p->groups * p->groups_of_panels);
        return;
    }
    opwright_run(team, pack_task, &c, p->groups * p->panels);
    if (c.streamed && p->direct && p->padded) {
        c.finite = all_finite(c.packed, p->weights_bytes / (int64_t)sizeof *c.packed);
        c.streamed = c.finite;
    }
    opwright_run(team, shared_task, &c,
                 own.N * p->groups * p->s.axes[0].out * p->row_blocks * p->column_blocks * p->groups_of_panels);
}

const opwright_way OPWRIGHT_NAME(over_channels) = {NULL, scratch_bytes, solve_channels, NULL};
