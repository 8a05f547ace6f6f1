// Rows of one plane in scratch for lanes of neighbouring columns, which y, x and w of few channels share.
//
// Figures: see engine.h.

#ifndef OPWRIGHT_DEPTHWISE_ROWS_H
#define OPWRIGHT_DEPTHWISE_ROWS_H

#include "depthwise.h"
#include "lines.h"

// A call over width lanes. Output rows and columns are counted in q: out_step positions of the output are one q, its
// phases. A unit of work is a block of one plane; its input lies in scratch as [kd][row][residue of the column by
// in_step][column], widened, with zeros where there is no input, so that every tap is a vector at some offset.
enum {
    WIDTH_BYTES = 80 << 10,  // of a unit's input, unless it is one row
    WIDTH_COLUMNS = 2048,    // of a unit's output, in q
    WIDTH_ROWS = 4,          // at the least
    PICKED = 4,              // maximum distance of elements that vectors sort
    AHEAD = 8192 / sizeof(elem), // elements that are prefetched
};

typedef struct plan {
    int64_t low[2];        // input offset of the first tap of all phases, rows and columns
    int64_t blocks[2], q[2]; // blocks of a plane; q of a block
    int64_t lead, used;    // the offset of a line of scratch that aligns column 0, and its length
    int64_t line, row, plane; // distances in scratch
    int64_t in_rows;
    int64_t in_columns;    // positions of a row that are filled from the tensor or with zeros
    int64_t depth;         // planes
    int64_t rows_bytes, own_bytes;
    int64_t units;         // of all planes
    int64_t task_units;
} plan;

static plan plan_of(const solve *s) {
    plan c = {.depth = s->backward ? ceil_div(s->problem->taps[0], s->axes[0].classes) : s->problem->taps[0]};
    int64_t high[2];
    for (int a = 0; a < 2; a++)
        span(&s->axes[a + 1], s->backward, 0, 1, &c.low[a], &high[a]);
    const int64_t columns = ceil_div(s->axes[2].out, s->axes[2].out_step);
    const int64_t rows = ceil_div(s->axes[1].out, s->axes[1].out_step);
    c.blocks[1] = ceil_div(columns, WIDTH_COLUMNS);
    c.q[1] = ceil_div(columns, c.blocks[1]);
    c.in_columns = (c.q[1] - 1) * s->axes[2].in_step + high[1] - c.low[1] + 1;
    c.used = (ceil_div(c.q[1], LANES) + 1) * LANES + (high[1] - c.low[1]) / s->axes[2].in_step + 1;
    c.lead = c.low[1] < 0 ? (LANES - -c.low[1] / s->axes[2].in_step % LANES) % LANES : 0;
    c.line = ceil_div(c.lead + c.used + LANES, LANES) * LANES;
    c.row = c.line * s->axes[2].in_step;
    if (c.row % 512 == 0)
        c.row += LANES;
    const int64_t halo = high[0] - c.low[0] + 1, fit = WIDTH_BYTES / 4 / (c.row * c.depth);
    int64_t q = (fit - halo) / s->axes[1].in_step + 1;
    q = min(rows, max(q, WIDTH_ROWS));
    c.blocks[0] = ceil_div(rows, q);
    c.q[0] = ceil_div(rows, c.blocks[0]);
    c.in_rows = (c.q[0] - 1) * s->axes[1].in_step + halo;
    c.plane = c.in_rows * c.row;
    c.rows_bytes = whole_lines(c.depth * c.plane * 4);
    c.units = s->axes[0].out * c.blocks[0] * c.blocks[1];
    c.task_units = max(1, TASK_OUTPUTS / 2 / (c.q[0] * c.q[1] * s->axes[1].out_step * s->axes[2].out_step));
    return c;
}

// Zeros where a block of scratch has no input: columns before `first` and from `end` on in rows [top, bottom), and all
// other rows.
static void clear_block(const solve *s, const plan *c, int64_t planes, int64_t top, int64_t bottom, int64_t first,
                        int64_t end, float *to) {
    const int64_t step = s->axes[2].in_step;
    vec zero = {0};
    PIN(zero); // or gcc calls memset, for a vector or two
    for (int64_t r = 0; r < step; r++) {
        const int64_t low = first > r ? over(first - r + step - 1, step) : 0;
        const int64_t high = max(low, end > r ? over(end - r + step - 1, step) : 0);
        for (int64_t j = 0; j < planes; j++)
            for (int64_t i = 0; i < c->in_rows; i++) {
                float *line = to + j * c->plane + i * c->row + c->lead + r * c->line;
                const bool inside = i >= top && i < bottom;
                for (int64_t x = 0; x < (inside ? low : c->used); x += LANES)
                    vec_store(line + x, zero);
                for (int64_t x = high; inside && x < c->used; x += LANES)
                    vec_store(line + x, zero);
            }
    }
}

// `count` elements, `spacing` apart, widened, side by side; whole vectors are written, with zeros behind the last one.
INLINE void sort_line(const elem *from, const int64_t spacing, int64_t count, float *to) {
    const ivec place = LANE_NUMBERS * (int32_t)spacing;
    for (int64_t i = 0; i < count; i += LANES, from += LANES * spacing, to += LANES) {
        const int64_t there = (count - 1 - i) * spacing + 1;
        vec v = {0};
        if (spacing > PICKED)
            for (int64_t l = 0; l < min(LANES, count - i); l++)
                v[l] = elem_get(from + l * spacing);
        else
            UNROLL for (int64_t k = 0; k < spacing; k++) {
                const ivec lane = place - (int32_t)(k * LANES);
                const int64_t rest = there - k * LANES;
                const vec some = rest >= LANES ? elem_load(from + k * LANES) : rest > 0 ? elem_load_part(from + k * LANES, rest) : (vec){0};
                v = (vec)((ivec)v | ((ivec)vec_pick(some, lane & (LANES - 1)) & (lane >= 0) & (lane < LANES)));
            }
        vec_store(to, v);
    }
}

static void sort_apart(const elem *from, int64_t spacing, int64_t count, float *to) {
    switch (spacing) { // a literal
    case 2: sort_line(from, 2, count, to); return;
    case 3: sort_line(from, 3, count, to); return;
    case 4: sort_line(from, 4, count, to); return;
    default: sort_line(from, spacing, count, to);
    }
}

// `count` columns of a row, `spacing` apart, to positions from `first` on, split by their residue modulo `step`, `line` apart.
// Whole vectors are written, zeros past the last column.
INLINE void fill_row(const elem *row, int64_t spacing, int64_t first, int64_t count, int64_t step, int64_t line, float *to) {
    int64_t i = 0;
    if (step == 1 && spacing == 1) {
        for (; i + LANES <= count; i += LANES) {
            vec v = elem_load(row + i);
            PIN(v); // or gcc calls memcpy, for a vector or two
            vec_store(to + first + i, v);
        }
        if (i < count)
            vec_store(to + first + i, elem_load_part(row + i, count - i));
    } else if (step == 2 && spacing == 1) {
        float *even = to + first % 2 * line + first / 2, *odd = to + (first + 1) % 2 * line + (first + 1) / 2;
        for (; i + 2 * LANES <= count; i += 2 * LANES) {
            const vec a = elem_load(row + i), b = elem_load(row + i + LANES);
            vec_store(even + i / 2, SHUFFLE(a, b, EACH_LANE(EVEN_LANE)));
            vec_store(odd + i / 2, SHUFFLE(a, b, EACH_LANE(ODD_LANE)));
        }
        if (i < count) {
            const vec a = lanes_load(row + i, true, min(LANES, count - i));
            const vec b = count - i > LANES ? elem_load_part(row + i + LANES, count - i - LANES) : (vec){0};
            vec_store(even + i / 2, SHUFFLE(a, b, EACH_LANE(EVEN_LANE)));
            vec_store(odd + i / 2, SHUFFLE(a, b, EACH_LANE(ODD_LANE)));
        }
    } else
        for (int64_t r = 0; r < min(step, count); r++)
            sort_apart(row + r * spacing, step * spacing, ceil_div(count - r, step),
                       to + (first + r) % step * line + (first + r) / step);
}

// The input of a block of one plane, for the taps `d` of its depth. `clear`: the zeros around it are present already,
// from a block in the same place.
static void fill_block(const solve *s, const plan *c, const elem *in, const taps *d, int64_t q_row, int64_t q_column,
                       bool clear, float *to) {
    const int64_t x = q_column * s->axes[2].in_step + c->low[1], y = q_row * s->axes[1].in_step + c->low[0];
    const int64_t first = min(c->in_columns, max(0, -x));
    const int64_t end = max(first, min(c->in_columns, s->axes[2].in - x));
    const int64_t top = min(c->in_rows, max(0, -y)), bottom = max(top, min(c->in_rows, s->axes[1].in - y));
    if (!clear)
        clear_block(s, c, d->count, top, bottom, first, end, to);
    if (first == end)
        return;
    const bool far = s->problem->N * s->in_n > NEAR;
    for (int64_t j = 0; j < d->count; j++)
        for (int64_t i = top; i < bottom; i++) {
            const elem *row = in + (d->at + j * d->at_step) * s->in_x[0] + (y + i) * s->in_x[1] +
                              (x + first) * s->in_x[2];
            if (far) // planes follow each other
                prefetch(row + AHEAD, (end - first) * (int64_t)sizeof *row, 0);
            fill_row(row, s->in_x[2], first, end - first, s->axes[2].in_step, c->line, to + j * c->plane + i * c->row + c->lead);
        }
}

INLINE int64_t place(const solve *s, const plan *c, int64_t column) {
    const int64_t at = column - c->low[1], step = s->axes[2].in_step;
    return c->lead + (step == 1 ? at : at % step * c->line + at / step);
}

// The position of a unit in the call.
typedef struct unit {
    int64_t n, g, d, q_row, q_column;
} unit;

static unit unit_of(const plan *c, const opwright_problem *p, int64_t number) {
    unit u;
    u.q_column = number % c->blocks[1] * c->q[1], number /= c->blocks[1];
    u.q_row = number % c->blocks[0] * c->q[0], number /= c->blocks[0];
    const int64_t depth = c->units / c->blocks[0] / c->blocks[1];
    u.d = number % depth, number /= depth;
    u.g = number % p->G, u.n = number / p->G;
    return u;
}

static bool same_place(const unit *a, const unit *b) { return a->q_row == b->q_row && a->q_column == b->q_column; }

#endif
