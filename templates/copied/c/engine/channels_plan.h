// channels.c: how a problem is cut into blocks, steps, chunks and panels, and where their scratch lies.
//
// Figures: see engine.h.

#ifndef OPWRIGHT_CHANNELS_PLAN_H
#define OPWRIGHT_CHANNELS_PLAN_H

#include "engine.h"
#include "parts.h"
#include "solve.h"

enum {
    ROWS_BYTES = 256 << 10, // of a task's input: with a panel beside it, it stays in the second-level cache
    PRECOPY_BYTES = 4 << 20, // of all copied input: it stays in the third-level cache
    PANEL_BYTES = 768 << 10, // of a panel of weights: it stays in the second-level cache
    PRECOPY_PANELS = 8,     // fewer are too few tasks for that
    FEW_PIXELS = 256,       // with fewer, weights are not packed for all tasks; measured with 512 channels
    CHUNK_BYTES = 384 << 10, // the same of some of its channels, which are read once for many pixels
    SUMS_BYTES = 256 << 10, // that wait for the next chunk: these stay in the second-level cache, too
    FEW_IN_STEP = 96,       // pixels of a step for which weights beyond the second-level cache are read again
    MIN_STACKED = 8,      // images that are columns,
    STACKED_COLUMNS = 16,   // of rows of so many outputs at most,
    STACKED_PIXELS = 4096,  // outputs of all images: their sums of a panel stay in the second-level cache
    STACKED_UNITS = 2 * LANES, // reduced channels at least: each tap has a run
    STACKED_LANES = 2 * PRECOPY_PANELS * LANES, // shares of which are tasks
    MIN_CHUNK = 8 * LANES, // reduced channels, in units, of runs that are long enough
    BUFFER_COLUMNS = 256,   // outputs of a row that are finished at once
    COPY_PARTS = 4,         // that a block's copied rows are shared out as
    FINISHED_COLUMNS = 8 * LANES, // outputs of several rows
    SHORT_ROW = 2 * LANES,  // columns of input up to which rows are transposed together
    FEWEST_BLOCKS = 16,     // unless their weights are many
    CLIPPED = 6,            // dilation from which taps beyond a row's ends are left out
    // Groups of more pairs of channels, or units, use width lanes, except NXC groups whose units fill at most one
    // vector, and strided columns: NXC 8x8 1.9 times as fast (f32) and 2.1 (bf16), 2x2 1.25; 16 to 8 (f32) 1.0, 32 to
    // 8 0.8 to 0.9; NCX 4x4 1.0 and 1.5, 6x6 1.0 and 0.7; 8x8 of stride 2 2.2 to 4.6, x 1.3.
    MAX_SHARING = 32,
    NEAR_BYTES = 768 << 10, // of input and output of all groups, which reuse each other's cache lines
    MAX_PICKED = 4,        // vectors of a pixel's channels from which groups that share a vector pick their lanes
    SEARCHED_BYTES = 256 << 10, // of packed weights that are searched for Inf and NaN for that
    MAX_REST = LANES / 4,  // channels beyond whole vectors whose sums are over lanes
    LONG_SUM = 8 * LANES,   // minimum units for that
    AHEAD = 4,              // lines of weights that are prefetched before they are packed
    FAR_AHEAD = 16,         // the same where they lie across the panels
    COPY_AHEAD = 8 << 10,   // bytes of input that are prefetched before they are copied: further than the hardware prefetches
};

typedef struct plan {
    solve s;
    int64_t channels;      // reduced, in units
    bool line;             // the channels of all taps of a row are paired as one line
    int64_t row_taps;      // units of packed weights of a row of taps
    int64_t shared_groups;      // groups that share a vector of lanes
    int64_t picked;        // units of each group in a vector of input, from which lanes are picked
    int64_t groups, lanes; // counting such groups as one
    int64_t vectors, wide; // vectors of output channels; maximum vectors of a panel
    int64_t rest;          // output channels of the last panel, which have no vectors
    int64_t panels;
    bool copied;           // the input is copied to scratch
    bool inside;           // except by blocks without padding
    bool own;              // a task packs its own weights
    bool precopied;        // and all input has been copied before
    bool interleaved;      // neighbours in memory are pixels of neighbouring rows, and a block has all rows
    bool direct;           // tiles store to the output directly
    bool streamed;         // the output is stored past the caches, where it is aligned
    bool empty_rows;       // some rows of output have no taps, and are filled with the bias
    bool padded;           // rows have zeros beside them, which tiles multiply
    int64_t divisor;       // of the distances between the rows of input that a block needs: the others are not copied
    bool stacked;          // images are used as columns
    int64_t pixel;         // from a pixel to the next, in units; for a line rounded up
    int64_t spacing;         // distance of a step's rows, in q: that of the taps, so that rows share input rows
    int64_t rows, columns; // of a step, in q
    int64_t steps;         // of a block, one below the other
    int64_t finished_rows;          // rows that are finished at once
    bool contiguous;           // rows are copied together
    int64_t row_blocks, column_blocks, groups_of_panels;
    int64_t slots, slot_columns; // rows of a copied plane, taken in turns, and their pixels
    int64_t panel_units;   // of one vector's share of a packed panel
    int64_t panel_sums;    // of a panel that wait for the next chunk
    int64_t chunk, chunks; // of the reduced channels: a step copies one and adds its products before the next
    int64_t part_channels; // of a part that a sink takes, 0 without one: those of a panel,
    bool whole_pixels;     // or all panels of a task
    int64_t rows_bytes, precopied_bytes, runs_bytes, buffer_bytes, line_bytes, part_bytes, sums_bytes, panel_bytes, bias_bytes,
        positions_bytes, weights_bytes;
} plan;

INLINE bool is_rest(const plan *p, int64_t panel) { return p->rest > 0 && panel == p->panels - 1; }

// The first vector of the panel; vectors are distributed evenly.
INLINE int64_t panel_first(const plan *p, int64_t panel) {
    return is_rest(p, panel) ? p->vectors : panel * p->vectors / (p->panels - (p->rest > 0));
}
INLINE int64_t panel_width(const plan *p, int64_t panel) {
    return is_rest(p, panel) ? 1 : panel_first(p, panel + 1) - panel_first(p, panel);
}
// Vectors of all panels of a group.
INLINE int64_t group_width(const plan *p) { return p->vectors + (p->rest > 0); }

// The last set of groups counted as one may have fewer.
INLINE int64_t groups_of(const plan *p, int64_t group) {
    return min(p->shared_groups, p->s.problem->G - group * p->shared_groups);
}

INLINE bool far_dilated(const axis *w) { return w->offset_step >= CLIPPED * w->in_step; }

// How many groups share a vector if one would leave lanes empty; their channels of a pixel must fit a few vectors.
static int64_t groups_per_vector(const solve *s) {
    const int64_t G = s->problem->G, groups = min(LANES / s->lanes, G), units_ = ceil_div(s->reduced, UNIT_CHANNELS);
    if (groups < 2 || 4 * G * s->lanes < 3 * ceil_div(G, groups) * LANES || groups * s->reduced > MAX_PICKED * LANES)
        return 1;
    const bool few = s->lanes * units_ <= MAX_SHARING;
    const bool gains = s->in_c == 1 && s->out_c == 1 ? few || groups * units_ <= LANES : few && groups * s->lanes == LANES;
    return gains || s->axes[2].in_step * s->axes[2].out_step > 1 ? groups : 1;
}

// From a pixel of the input to the next.
INLINE int64_t pixel_bytes(const plan *p) {
    return p->line ? p->s.reduced * (int64_t)sizeof(elem) : p->pixel * (int64_t)sizeof(unit);
}

// Of a copied row, with room for a vector beyond it, which the last pair reads in part.
INLINE int64_t row_units(const plan *p) {
    return p->line ? ceil_div(p->slot_columns * p->s.reduced, UNIT_CHANNELS) + LANES : p->slot_columns * p->pixel;
}

// Of the distances between the rows of input that a block of so many rows, with `spacing` between them, needs.
static int64_t row_divisor(const axis *h, int64_t spacing, int64_t rows) {
    if (h->out_step != 1)
        return 1;
    return gcd(h->taps == 1 ? spacing * h->in_step : h->offset_step, rows == 1 ? 0 : spacing * h->in_step);
}

// The widest and then the highest step whose input fits into so many bytes, and enough blocks of steps for all threads.
static void shape_blocks(plan *p, int64_t bytes) {
    const solve *s = &p->s;
    const axis *d = &s->axes[0], *h = &s->axes[1], *w = &s->axes[2];
    const int64_t width = ceil_div(w->out, w->out_step), all_rows = ceil_div(h->out, h->out_step);
    p->spacing = h->out_step > 1 || h->taps == 1 ? 1 : min(all_rows, h->offset_step / gcd(h->offset_step, h->in_step));
    const int64_t height = ceil_div(all_rows, p->spacing), between = p->spacing * h->in_step;
    const int64_t tile = max_rows(p->wide), planes = s->problem->N * p->groups * d->out * p->spacing;
    const bool few_weights = d->taps * h->taps * w->taps * s->reduced * s->lanes * 4 < 200 << 10;
    int64_t low, high;
    span(h, s->backward, 0, 1, &low, &high);
    const int64_t row_reach = high - low, divisor = row_divisor(h, p->spacing, 2);
    span(w, s->backward, 0, 1, &low, &high);
    const int64_t column_reach = high - low;

    int64_t slots;
    const int64_t interleaved_rows = p->interleaved ? height : 1;
    p->columns = min(width, p->direct ? width : max(1, BUFFER_COLUMNS / (w->out_step * interleaved_rows)));
    if (p->part_channels > 0)
        p->columns = min(p->columns, lines_of_part(p->part_channels * w->out_step));
    for (;; p->columns = ceil_div(p->columns, 2)) {
        p->column_blocks = ceil_div(width, p->columns);
        if (p->column_blocks > 1)
            p->columns = ceil_div(ceil_div(width, p->column_blocks), tile) * tile;
        p->column_blocks = ceil_div(width, p->columns);
        p->slot_columns = column_reach + (p->columns - 1) * w->in_step;
        if (far_dilated(w)) // zeros beside a row are not multiplied
            p->slot_columns = min(p->slot_columns, w->in);
        slots = bytes / max(1, d->taps * row_units(p) * 4);
        const bool fits = interleaved_rows * ceil_div(row_reach, row_divisor(h, p->spacing, 1)) <= slots;
        const bool enough = !few_weights || height / interleaved_rows * planes * p->column_blocks >= FEWEST_BLOCKS;
        const bool far = 2 * column_reach >= p->columns * w->in_step; // halves of the columns are copied from nearly the same input
        if (p->columns <= 2 * tile || ((fits || far) && enough))
            break;
    }
    p->rows = slots * divisor <= row_reach ? 1 : 1 + (slots * divisor - row_reach) / between;
    if (p->part_channels > 0)
        p->rows = min(p->rows, lines_of_part(p->part_channels * p->columns * w->out_step * h->out_step));
    const int64_t fewest = few_weights ? min(height, ceil_div(FEWEST_BLOCKS, planes * p->column_blocks)) : 1;
    p->rows = ceil_div(height, max(fewest, ceil_div(height, p->rows)));
    if (p->interleaved)
        p->rows = height;
    if (p->shared_groups > 1) {
        const int64_t in_row = p->slot_columns * s->problem->G * s->reduced, out_row = p->columns * s->problem->G * s->lanes;
        while (p->rows > 1 &&
               (((p->rows - 1) * between + row_reach) * in_row + p->rows * out_row) * (int64_t)sizeof(elem) > NEAR_BYTES)
            p->rows = ceil_div(p->rows, 2);
    }
    p->divisor = row_divisor(h, p->spacing, p->rows);
    p->slots = ceil_div(row_reach + (p->rows - 1) * between, p->divisor);
    // Steps keep the rows of input that they share with the previous one.
    const int64_t steps = ceil_div(height, p->rows);
    p->steps = 1;
    if (p->copied && p->shared_groups == 1 && p->chunks == 1 && between % p->divisor == 0 && row_reach > between)
        p->steps = max(1, steps * planes * p->column_blocks / (2 * FEWEST_BLOCKS));
    p->steps = ceil_div(steps, ceil_div(steps, min(steps, p->steps)));
    p->row_blocks = p->spacing * ceil_div(steps, p->steps);
}

// Of an image and group.
INLINE int64_t blocks_of(const plan *p) { return p->s.axes[0].out * p->row_blocks * p->column_blocks; }

static int64_t copied_bytes(const plan *p) {
    return p->copied ? whole_lines(p->s.axes[0].taps * p->slots * row_units(p) * 4) : 0;
}

static bool has_empty_phases(const axis *a, bool backward) {
    for (int64_t r = 0; r < a->out_step; r++)
        if (phase_of(a, r, backward).taps == 0)
            return true;
    return false;
}

INLINE int64_t step_outputs(const plan *p) {
    const axis *h = &p->s.axes[1], *w = &p->s.axes[2];
    return p->rows * h->out_step * min(w->out, p->columns * w->out_step);
}

// Pixels whose distance is a multiple of 2 KiB map to few sets of the first-level cache.
INLINE int64_t copied_pixel(int64_t channels, int64_t in_step) {
    return channels * in_step * 4 % 2048 == 0 ? channels + 16 : channels;
}

// If rows of input are so long that few fit, weights beyond the second-level cache are read again for few pixels. Then
// higher steps process the channels in chunks: 2048 channels, taps 12 apart, 33 columns, 1.05 (NXC) and 1.13 times
// (NCX) as fast; 999 channels, taps 6 apart, 38 columns 1.12 and 1.35. Sums to 1024 channels do not stay in the cache,
// 0.75 times as fast over 512 channels of 2x2, f16. Rejected: parts of a panel that stay in the second-level cache, one
// for all rows of a step, 0.95 to 1.0 times as fast over 512 channels of 3x3; in the first-level one 0.7 to 0.9. Chunks
// of half as many channels: 0.96 to 1.0; of a quarter 0.82.
static void chunk_channels(plan *p) {
    const bool many = p->panel_units * group_width(p) * 4 > PANEL_BYTES;
    if (!p->copied || p->padded || !many || p->own || p->line || p->shared_groups > 1 || p->interleaved || p->rest > 0)
        return;
    plan more = *p;
    for (int64_t chunks = 2; step_outputs(p) < FEW_IN_STEP && p->row_blocks > p->spacing && p->chunk > MIN_CHUNK; chunks++) {
        more.chunk = ceil_div(ceil_div(p->channels, chunks), LANES) * LANES;
        more.chunks = ceil_div(p->channels, more.chunk);
        more.pixel = copied_pixel(more.chunk, p->s.axes[2].in_step);
        more.inside = false;
        shape_blocks(&more, CHUNK_BYTES);
        if (step_outputs(&more) * group_width(p) * LANES * 4 > SUMS_BYTES)
            return;
        *p = more;
    }
}

// Uses blocks of all rows, whose input is copied once, if the weights would be read more often with smaller blocks.
static void precopy_input(plan *p) {
    const int64_t panel = p->panel_units * p->wide * 4, weights = p->panel_units * group_width(p) * 4;
    const int64_t images = p->s.problem->N * p->groups;
    if (!p->copied || p->line || p->shared_groups > 1 || p->interleaved || panel > PANEL_BYTES ||
        p->groups * p->panels < PRECOPY_PANELS)
        return;
    plan precopied = *p;
    precopied.whole_pixels = false;
    precopied.part_channels = min(p->part_channels, p->wide * LANES);
    const int64_t planes = images * p->s.axes[0].out * p->spacing;
    shape_blocks(&precopied, PRECOPY_BYTES / planes);
    const int64_t blocks = images * blocks_of(&precopied), bytes = blocks * copied_bytes(&precopied);
    if (precopied.row_blocks > precopied.spacing || precopied.steps > 1 || bytes > PRECOPY_BYTES)
        return;
    if (p->panels * bytes >= p->s.problem->N * blocks_of(p) * p->steps * weights)
        return;
    *p = precopied;
    p->own = p->precopied = true;
    p->precopied_bytes = bytes;
}

// From a channel to the next of a row of sums that is turned before it is stored.
INLINE int64_t line_of(const plan *p) {
    return round_up(min(p->s.axes[2].out, p->columns * p->s.axes[2].out_step), LANES) + LANES;
}

// From a pixel's sums of all images to the next one's.
INLINE int64_t stacked_pitch(const plan *p, int64_t width) { return (p->s.axes[2].out * width + 1) * LANES; }

// Images as columns, if the planes' axis is unused: rows and columns take the place of planes and rows.
static bool stack_images(opwright_problem *p, bool backward) {
    const opwright_problem old = *p;
    const int64_t lanes = backward ? p->B : p->A, reduced = backward ? p->A : p->B;
    const int64_t *out = backward ? p->big : p->small, *in = backward ? p->small : p->big;
    const bool plane = p->taps[0] == 1 && p->small[0] == 1 && p->big[0] == 1 && p->pad[0] == 0;
    const int64_t columns = backward ? ceil_div(out[2], p->stride[2]) : out[2], taps = p->taps[1] * p->taps[2];
    if (!plane || taps == 1 || p->N < MIN_STACKED || columns > STACKED_COLUMNS || lanes < STACKED_LANES ||
        reduced < STACKED_UNITS * UNIT_CHANNELS || reduced % UNIT_CHANNELS != 0 || p->N * in[1] * in[2] > taps * lanes ||
        p->N * out[1] * out[2] > STACKED_PIXELS)
        return false;
    move_axis(&old, 1, p, 0);
    move_axis(&old, 2, p, 1);
    p->small[2] = p->big[2] = p->N;
    p->small_x[2] = p->small_n, p->big_x[2] = p->big_n, p->w_k[2] = p->w_k[1];
    p->taps[2] = p->stride[2] = p->dilation[2] = 1, p->pad[2] = 0;
    p->N = 1;
    return true;
}

static void plan_of(plan *p, opwright_problem *problem, bool backward, int64_t workers, bool finished) {
    collapse(problem);
    const bool stacked = !finished && stack_images(problem, backward);
    *p = (plan){.s = solve_of(problem, backward)};
    const solve *s = &p->s;
    const axis *d = &s->axes[0], *h = &s->axes[1], *w = &s->axes[2];
    p->channels = ceil_div(s->reduced, UNIT_CHANNELS);
    p->shared_groups = groups_per_vector(s);
    p->groups = ceil_div(problem->G, p->shared_groups);
    p->lanes = s->lanes * p->shared_groups;
    const int64_t taps = d->taps * h->taps * w->taps;
    // Phases of a row would have to begin with whole pairs.
    p->line = OPWRIGHT_PAIRS && p->shared_groups == 1 && s->reduced % UNIT_CHANNELS != 0 && w->classes == 1 &&
              w->offset_step == 1 && s->in_x[2] == s->reduced && (s->in_c == 1 || s->reduced == 1);
    p->row_taps = p->line ? ceil_div(w->taps * s->reduced, UNIT_CHANNELS) : w->taps * p->channels;
    p->panel_units = d->taps * h->taps * p->row_taps * LANES;
    p->rest = p->lanes > LANES && p->lanes % LANES <= MAX_REST && p->shared_groups == 1 && !p->line &&
              p->channels >= LANES && taps * p->channels >= LONG_SUM ? p->lanes % LANES : 0;
    p->vectors = ceil_div(p->lanes - p->rest, LANES);

    const int64_t row_count = ceil_div(w->out, w->out_step); // of the longest phase
    p->direct = s->out_c == 1 && p->lanes % LANES == 0 && problem->G % p->shared_groups == 0;
    // An odd vector turns the last two into three. With 16 registers 3 and 7 pixels have too few sums with two vectors:
    // 7x7 of 512 channels, 3x3, 1.12 times as fast with three (AMD Zen 3, gcc 12.2).
    const bool three = LANES == 8 && (row_count == 3 || row_count == 7) && p->vectors >= 3;
    const int64_t panels = three                                  ? ceil_div(p->vectors, 3)
                           : row_count <= 3 && p->vectors >= 4 ? ceil_div(p->vectors, 4)
                                                                  : max(1, p->vectors / 2);
    p->wide = ceil_div(p->vectors, panels);
    p->panels = panels + (p->rest > 0);

    int64_t low, high;
    span(w, backward, 0, row_count, &low, &high);
    const bool padded = low < 0 || high > w->in;
    const bool pixels_of_units = sizeof(elem) * UNIT_CHANNELS == sizeof(unit) && s->in_c == 1 &&
                                 s->reduced % UNIT_CHANNELS == 0;
    p->copied = padded || !pixels_of_units || p->shared_groups > 1;
    p->picked = VECTORS_PICK ? min(p->channels, LANES / p->shared_groups) : 1;
    p->pixel = p->shared_groups > 1 ? ceil_div(p->channels, p->picked) * LANES
               : p->copied          ? p->channels
                                    : s->in_x[2] / UNIT_CHANNELS;
    if (p->copied && p->shared_groups == 1 && !p->line)
        p->pixel = copied_pixel(p->pixel, w->in_step);
    p->chunks = 1, p->chunk = p->channels;
    p->padded = padded && !far_dilated(w);
    p->inside = pixels_of_units && p->shared_groups == 1 && s->in_x[2] == p->pixel * UNIT_CHANNELS;
    p->interleaved = s->in_c != 1 && s->out_c != 1 && p->shared_groups == 1 && h->taps == 1 && h->in == h->out &&
                     h->in_step == 1 && h->out_step == 1 && h->pad == 0 && h->in > 1 && s->in_x[1] == 1 &&
                     s->out_x[1] == 1 && s->in_x[2] == h->in && s->out_x[2] == h->out;
    p->own = problem->N * d->out * h->out * w->out <= FEW_PIXELS;
    if (finished) {
        // Lines of a panel's channels are short. Smaller steps read the weights more often.
        p->whole_pixels = s->out_c == 1 && !p->own && p->panel_units * group_width(p) * 4 <= PANEL_BYTES;
        p->part_channels = p->whole_pixels ? p->lanes : min(p->lanes, p->wide * LANES);
    }
    shape_blocks(p, ROWS_BYTES);

    if (stacked) {
        p->stacked = p->own = p->copied = p->precopied = true;
        p->interleaved = p->inside = false;
        p->pixel = copied_pixel(p->channels, 1);
        p->spacing = p->row_blocks = p->column_blocks = p->steps = 1;
        p->rows = ceil_div(h->out, h->out_step), p->columns = w->out;
        p->precopied_bytes = p->groups * d->in * h->in * w->in * p->pixel * 4;
    } else if (!p->own)
        precopy_input(p);
    chunk_channels(p);
    // Whole lines in any order are stored past the caches at 45 GB/s, into them at 13 to 30. With padding, results are
    // read again, unless all weights are finite.
    const int64_t wide = p->wide * LANES * (int64_t)sizeof(elem);
    const bool lines = sizeof(elem) == sizeof(float) || (wide % 64 == 0 && p->vectors % p->wide == 0) ||
                       (p->vectors == 1 && s->out_x[2] == p->lanes && w->out_step == 1);
    const bool large = outgrows_caches(s);
    p->streamed = !finished && lines && large && p->direct && p->shared_groups == 1 && s->out_n % LANES == 0 &&
                  s->out_x[0] % LANES == 0 && s->out_x[1] % LANES == 0 && s->out_x[2] % LANES == 0;
    const int64_t blocks = p->own ? p->groups : problem->N * p->groups * d->out * p->row_blocks * p->column_blocks;
    p->groups_of_panels = min(p->panels, max(1, ceil_div(4 * max(workers, 2), blocks)));

    const bool planes = p->shared_groups == 1 && !p->line && !p->interleaved && p->column_blocks == 1;
    p->contiguous = planes && s->in_c != 1 && s->in_x[2] == 1 && s->in_x[1] == w->in && w->in % LANES != 0 &&
                w->in < SHORT_ROW && p->divisor == 1;
    for (int a = 0; a < 2 && s->out_c != 1 && s->out_x[2] == 1 && p->chunks == 1; a++)
        p->empty_rows |= has_empty_phases(&s->axes[a], backward);
    const bool whole_rows = !p->interleaved && !p->empty_rows && p->spacing == 1 && p->column_blocks == 1;
    const bool short_lines = s->out_c != 1 && s->out_x[2] == 1 && s->out_x[1] == w->out && w->out % LANES != 0;
    p->finished_rows = whole_rows && short_lines ? max(1, FINISHED_COLUMNS / w->out) : 1;

    p->rows_bytes = p->precopied ? 0 : copied_bytes(p);
    p->runs_bytes = whole_lines(taps * (int64_t)sizeof(run));
    const int64_t outputs = min(w->out, p->columns * w->out_step) * (p->interleaved ? h->out : p->finished_rows); // at once
    p->buffer_bytes = p->direct ? 0 : whole_lines(outputs * p->wide * LANES * 4);
    if (p->stacked && !p->direct)
        p->buffer_bytes = whole_lines(d->out * h->out * stacked_pitch(p, p->wide) * 4);
    p->panel_bytes = p->own ? whole_lines(p->panel_units * p->wide * 4) : 0;
    p->panel_sums = p->chunks > 1 ? step_outputs(p) * p->wide * LANES : 0;
    p->sums_bytes = whole_lines(ceil_div(p->panels, p->groups_of_panels) * p->panel_sums * 4);
    p->bias_bytes = whole_lines(p->groups * group_width(p) * LANES * 4);
    p->positions_bytes = whole_lines(taps * (int64_t)sizeof(int64_t));
    p->weights_bytes = p->own ? 0 : whole_lines(p->groups * p->panel_units * group_width(p) * 4);
    p->streamed = p->streamed && (!p->padded || (!p->own && p->weights_bytes <= SEARCHED_BYTES));
    p->streamed |= !finished && p->empty_rows && p->shared_groups == 1 && large;
    p->line_bytes = p->streamed && p->empty_rows ? whole_lines(line_of(p) * LANES * 4) : 0;
    if (p->whole_pixels && p->groups_of_panels > 1)
        p->part_channels = min(p->lanes, ceil_div(p->panels, p->groups_of_panels) * p->wide * LANES);
    if (finished)
        p->part_bytes = store_parts(&p->s, p->part_channels, p->rows * p->spacing * h->out_step,
                                    min(w->out, p->columns * w->out_step));
}

// From one of a tile's pixels to the next, in bytes.
INLINE int64_t scalar_row(const plan *p) { return p->s.axes[2].in_step * pixel_bytes(p); }

static int64_t worker_bytes(const plan *p) {
    return p->rows_bytes + p->runs_bytes + p->buffer_bytes + p->line_bytes + p->sums_bytes + p->panel_bytes + p->part_bytes;
}

typedef struct call {
    plan p;
    const elem *in, *weights, *bias;
    sum_cell *out;
    const opwright_sink *sink;
    unit *packed, *precopied;
    float *biases;
    int64_t *positions;
    ivec picks[LANES]; // of the lanes of groups that share a vector: where their unit is, for each of `picked`
    char *workers;
    bool finite; // all weights are known to be finite
    bool streamed;
} call;

#endif
