// y and x over channel lanes: the vectors are output channels, the scalars neighbouring pixels.
//
// Weights are packed to panels of 1 to 4 vectors, `[group][panel][tap][reduced channel][lane]`, taps in the order of
// the phases of phases.h. A task is a block of output rows and columns of one image and group, in steps of some rows. A
// step's rows of input are copied to scratch, but for those that the step before has left there, as
// `[plane][row][column][channel]` with zeros where there is no input, or read in place where nothing has to be changed.
// Then panels outermost, rows, phases, tiles. Planes and rows of taps that fall outside are left out of the runs, so
// padding there costs nothing. Zeros beside a row's ends are multiplied; where that gives NaN (an Inf or NaN among the
// weights) the pixel is done again from its own taps alone.
//
// Interleaved rows lie across those of memory, because memory's are short and without taps. They are copied and finished
// all together, as the lines that memory has. So are rows that follow each other in a plane and fill no vectors: 49
// pixels of 7x7 are 4 squares to transpose, not 7.
//
// Pairs of bf16 would be half empty where channels are few and odd. There the channels of all taps of a row, neighbours
// in memory, are one line of elements which pairs divide: 27 products of a 3x3 kernel and 3 channels are 15 pairs, not
// 18, and the input is copied as it lies. The last pair's second half meets a weight of zero: blocks of input that hold
// an Inf or NaN have their pixels looked at.
//
// One to four channels beyond whole vectors would leave most of one empty. Theirs are sums over lanes of reduced channels
// instead, added up at the end: 33 channels of 5x5 110, now 179 GFLOP/s.
//
// Where a row has so many channels that few rows fit, and weights are many, a step takes a chunk of the channels after the
// other, for more rows, and its sums wait in scratch. That takes rows without zeros beside them.
//
// Small planes of many images have images for columns: a tile is one pixel of some images, all of which meet the same taps,
// so that nothing is spent on padding and a row of 4 pixels fills a tile. All input is copied first, as
// `[row][column][image][channel]`, and a task is a share of the panels, which it packs. 16 images of 512 channels, 3x3, f32:
// 7x7 168 and now 186 GFLOP/s, 14x14 196 and 207, bf16 332 and 368, 377 and 411; 4x4 of stride 2 over 8x8 130 and 186.
//
// Where few pixels share the weights, a task is a share of the panels instead, which it packs for itself or reads where
// they are. So it is where weights are many and the input is little: all of that is copied first, for all tasks.

#include "engine.h"
#include "solve.h"

enum {
    ROWS_BYTES = 256 << 10, // of a task's input: with a panel beside it, it stays in the second-level cache
    KEPT_BYTES = 4 << 20,   // of all copied input that waits in the third-level cache while a panel of weights, in the
    PANEL_BYTES = 768 << 10, // second-level cache, meets it
    KEPT_PANELS = 8,        // fewer are too few tasks for that
    FEW_PIXELS = 256,       // weights of fewer are not packed for all, measured with 512 channels
    CHUNK_BYTES = 384 << 10, // the same of some of its channels, which are read once for many pixels
    SUMS_BYTES = 256 << 10, // that wait for the next ones: these stay in the second-level cache too
    FEW_IN_STEP = 96,       // pixels of a step for which weights beyond the second-level cache come anew
    LEAST_STACKED = 8,      // images that are columns,
    STACKED_COLUMNS = 16,   // of rows of so many outputs at most,
    STACKED_PIXELS = 4096,  // outputs of all images: their sums of a panel stay in the second-level cache
    STACKED_UNITS = 2 * LANES, // reduced channels at least: each tap has a run
    STACKED_LANES = 2 * KEPT_PANELS * LANES, // shares of which are tasks
    LEAST_CHUNK = 8 * LANES, // reduced channels, in units, of runs that are long enough
    BUFFER_COLUMNS = 256,   // outputs of a row that are finished at once
    KEPT_PARTS = 4,         // that a block's copied rows are shared out as
    HELD_COLUMNS = 8 * LANES, // outputs of several rows
    SHORT_ROW = 2 * LANES,  // columns of input up to which rows are transposed together
    FEWEST_BLOCKS = 16,     // unless their weights are many
    CLIPPED = 6,            // dilation from which taps beyond a row's ends are left out
    // Groups of more pairs of channels are left to width lanes, which 4x4 of NXC is 0.7 times as fast over, 6x6 1.8 times;
    // NCX, where both transpose, has its match at 8.
    MOST_SHARING = 16,
    NEAR_BYTES = 768 << 10, // of input and output of all groups, which find each other's lines in the cache
    MOST_PICKED = 4,        // vectors of a pixel's channels that groups which share a vector pick theirs from
    STREAMED_BYTES = 4 << 20, // of an output from which on it is stored past the caches
    SEARCHED_BYTES = 256 << 10, // of packed weights that are searched for Inf and NaN for that
    MOST_REST = LANES / 4,  // channels beyond whole vectors whose sums are over lanes
    LONG_SUM = 8 * LANES,   // units from which on they are
    AHEAD = 4,              // lines of weights that are asked for before they are packed
    FAR_AHEAD = 16,         // the same where they lie across the panels
    COPY_AHEAD = 8 << 10,   // bytes of input that are asked for before they are copied: further than the hardware looks
};

typedef struct plan {
    solve s;
    int64_t channels;      // reduced, in units
    bool line;             // the channels of all taps of a row are paired as one line
    int64_t row_taps;      // units of packed weights of a row of taps
    int64_t together;      // groups that share a vector of lanes
    int64_t groups, lanes; // with those taken as one
    int64_t vectors, wide; // vectors of output channels; vectors of a panel, at the most
    int64_t rest;          // output channels of the last panel, which have no vectors
    int64_t panels;
    bool copied;           // the input is copied to scratch
    bool inside;           // but not by blocks that meet no padding
    bool own;              // a task packs its own weights
    bool kept;             // and all input has been copied before
    bool in_place;         // weights are read where they are
    bool interleaved;      // neighbours in memory are pixels of neighbouring rows, and a block has all rows
    bool direct;           // tiles write to the output
    bool spread;           // some columns or rows of output have no taps, and none in the buffer
    int64_t met;           // of the phases of columns, those that have their place in the buffer
    bool padded;           // rows have zeros beside them, which tiles multiply
    bool streamed;         // and that past the caches, where it is aligned
    int64_t divisor;       // of the distances between the rows of input that a block needs: the others are not copied
    bool stacked; // columns are images
    int64_t pixel;         // from a pixel to the next, in units; of a line it is the next higher number
    int64_t apart;         // rows of a step, in q: as far as the taps are, so that they meet the same rows of input
    int64_t rows, columns; // of a step, in q
    int64_t steps;         // of a block, one below the other
    int64_t held;          // rows that are finished at once
    bool joined;           // rows are copied together
    int64_t row_blocks, column_blocks, groups_of_panels;
    int64_t slots, slot_columns; // rows of a copied plane, taken in turns, and their pixels
    int64_t panel_units;   // of one vector's share of a packed panel
    int64_t panel_sums;    // of a panel that wait for the next chunk
    int64_t chunk, chunks; // of the reduced channels: a step copies one and adds its products before the next
    int64_t rows_bytes, kept_bytes, runs_bytes, buffer_bytes, line_bytes, sums_bytes, panel_bytes, bias_bytes,
        positions_bytes, spread_bytes, weights_bytes;
} plan;

INLINE bool is_rest(const plan *p, int64_t panel) { return p->rest > 0 && panel == p->panels - 1; }

// The vector that it begins with; vectors are shared out evenly.
INLINE int64_t panel_first(const plan *p, int64_t panel) {
    return is_rest(p, panel) ? p->vectors : panel * p->vectors / (p->panels - (p->rest > 0));
}
INLINE int64_t panel_width(const plan *p, int64_t panel) {
    return is_rest(p, panel) ? 1 : panel_first(p, panel + 1) - panel_first(p, panel);
}
// Vectors of all panels of a group.
INLINE int64_t group_width(const plan *p) { return p->vectors + (p->rest > 0); }

// Of those that are taken as one, the last ones may be fewer.
INLINE int64_t groups_of(const plan *p, int64_t group) {
    return least(p->together, p->s.problem->G - group * p->together);
}

INLINE bool far_dilated(const axis *w) { return w->offset_step >= CLIPPED * w->in_step; }

// How many groups share a vector where one would leave lanes empty: what they reach of a pixel has to fit a few vectors.
static int64_t groups_together(const solve *s) {
    const int64_t groups = least(LANES / s->lanes, s->problem->G);
    const bool small = s->lanes * s->reduced <= (s->in_c == 1 && s->out_c == 1 ? MOST_SHARING : MOST_SHARING / 2);
    const bool fit = groups * s->lanes * 4 >= LANES * 3 && groups * s->reduced <= MOST_PICKED * LANES;
    return groups > 1 && small && fit ? groups : 1;
}

// From a pixel of the input to the next.
INLINE int64_t pixel_bytes(const plan *p) {
    return p->line ? p->s.reduced * (int64_t)sizeof(elem) : p->pixel * (int64_t)sizeof(unit);
}

// Of a copied row, with room for a vector beyond it, of which the last pair takes a half.
INLINE int64_t row_units(const plan *p) {
    return p->line ? ceil_div(p->slot_columns * p->s.reduced, UNIT_CHANNELS) + LANES : p->slot_columns * p->pixel;
}

// Of the distances between the rows of input that a block of so many rows, `apart` from each other, needs.
static int64_t row_divisor(const axis *h, int64_t apart, int64_t rows) {
    if (h->out_step != 1)
        return 1;
    return gcd(h->taps == 1 ? apart * h->in_step : h->offset_step, rows == 1 ? 0 : apart * h->in_step);
}

// The widest and then the highest step whose input fits into so many bytes, and blocks of steps, enough to share out.
static void shape_blocks(plan *p, int64_t bytes) {
    const solve *s = &p->s;
    const axis *d = &s->axes[0], *h = &s->axes[1], *w = &s->axes[2];
    const int64_t width = ceil_div(w->out, w->out_step), all_rows = ceil_div(h->out, h->out_step);
    p->apart = h->out_step > 1 || h->taps == 1 ? 1 : least(all_rows, h->offset_step / gcd(h->offset_step, h->in_step));
    const int64_t height = ceil_div(all_rows, p->apart), between = p->apart * h->in_step;
    const int64_t tile = most_rows(p->wide), planes = s->problem->N * p->groups * d->out * p->apart;
    const bool few_weights = d->taps * h->taps * w->taps * s->reduced * s->lanes * 4 < 200 << 10;
    int64_t low, high;
    span(h, s->backward, 0, 1, &low, &high);
    const int64_t row_reach = high - low, divisor = row_divisor(h, p->apart, 2);
    span(w, s->backward, 0, 1, &low, &high);
    const int64_t column_reach = high - low;

    int64_t slots;
    const int64_t together = p->interleaved ? height : 1;
    p->columns = least(width, p->direct ? width : most(1, BUFFER_COLUMNS / (w->out_step * together)));
    for (;; p->columns = ceil_div(p->columns, 2)) {
        p->column_blocks = ceil_div(width, p->columns);
        if (p->column_blocks > 1)
            p->columns = ceil_div(ceil_div(width, p->column_blocks), tile) * tile;
        p->column_blocks = ceil_div(width, p->columns);
        p->slot_columns = column_reach + (p->columns - 1) * w->in_step;
        if (far_dilated(w)) // zeros beside a row are not multiplied
            p->slot_columns = least(p->slot_columns, w->in);
        slots = bytes / most(1, d->taps * row_units(p) * 4);
        const bool fits = together * ceil_div(row_reach, row_divisor(h, p->apart, 1)) <= slots;
        const bool enough = !few_weights || height / together * planes * p->column_blocks >= FEWEST_BLOCKS;
        const bool far = 2 * column_reach >= p->columns * w->in_step; // halves of the columns are copied from much the same
        if (p->columns <= 2 * tile || ((fits || far) && enough))
            break;
    }
    p->rows = slots * divisor <= row_reach ? 1 : 1 + (slots * divisor - row_reach) / between;
    const int64_t fewest = few_weights ? least(height, ceil_div(FEWEST_BLOCKS, planes * p->column_blocks)) : 1;
    p->rows = ceil_div(height, most(fewest, ceil_div(height, p->rows)));
    if (p->interleaved)
        p->rows = height;
    if (p->together > 1) {
        const int64_t in_row = p->slot_columns * s->problem->G * s->reduced, out_row = p->columns * s->problem->G * s->lanes;
        while (p->rows > 1 && (((p->rows - 1) * between + row_reach) * in_row + p->rows * out_row) * (int64_t)sizeof(elem) > NEAR_BYTES)
            p->rows = ceil_div(p->rows, 2);
    }
    p->divisor = row_divisor(h, p->apart, p->rows);
    p->slots = ceil_div(row_reach + (p->rows - 1) * between, p->divisor);
    // Steps keep the rows of input that they share with the one before.
    const int64_t steps = ceil_div(height, p->rows);
    p->steps = 1;
    if (p->copied && p->together == 1 && p->chunks == 1 && between % p->divisor == 0 && row_reach > between)
        p->steps = most(1, steps * planes * p->column_blocks / (2 * FEWEST_BLOCKS));
    p->steps = ceil_div(steps, ceil_div(steps, least(steps, p->steps)));
    p->row_blocks = p->apart * ceil_div(steps, p->steps);
}

// Of an image and group.
INLINE int64_t blocks_of(const plan *p) { return p->s.axes[0].out * p->row_blocks * p->column_blocks; }

static int64_t copied_bytes(const plan *p) {
    return p->copied ? rounded(p->s.axes[0].taps * p->slots * row_units(p) * 4) : 0;
}

// The phases before r that have taps.
static int64_t phases_met(const axis *a, int64_t r, bool backward) {
    int64_t met = 0;
    for (int64_t i = 0; i < r; i++)
        met += phase_of(a, i, backward).taps > 0;
    return met;
}

// The columns of `count` that have a place in the buffer, where the first one is of the first phase.
static int64_t columns_met(const plan *p, int64_t count) {
    const axis *w = &p->s.axes[2];
    return p->spread ? count / w->out_step * p->met + phases_met(w, count % w->out_step, p->s.backward) : count;
}

INLINE int64_t step_outputs(const plan *p) {
    const axis *h = &p->s.axes[1], *w = &p->s.axes[2];
    return p->rows * h->out_step * least(w->out, p->columns * w->out_step);
}

// Pixels whose distance is a multiple of 2 KiB share few sets of the first-level cache.
INLINE int64_t copied_pixel(int64_t channels, int64_t in_step) {
    return channels * in_step * 4 % 2048 == 0 ? channels + 16 : channels;
}

// Where rows of input are so long that few fit, weights beyond the second-level cache are read again for few pixels. Then
// higher steps take some channels after the other: 2048 channels, taps 12 apart, 33 columns, 1.05 (NXC) and 1.13 times
// (NCX) as fast; 999 channels, taps 6 apart, 38 columns 1.12 and 1.35. Sums to 1024 channels do not stay in the cache, 0.75
// times as fast over 512 channels of 2x2, f16. Rejected: parts of a panel that stay in the second-level cache, one for all
// rows of a step, 0.95 to 1.0 times as fast over 512 channels of 3x3; in the first-level one 0.7 to 0.9. Chunks of half
// as many channels: 0.96 to 1.0; of a quarter 0.82.
static void chunk_channels(plan *p) {
    const bool many = p->panel_units * group_width(p) * 4 > PANEL_BYTES;
    if (!p->copied || p->padded || !many || p->own || p->line || p->together > 1 || p->interleaved || p->rest > 0)
        return;
    plan more = *p;
    for (int64_t chunks = 2; step_outputs(p) < FEW_IN_STEP && p->row_blocks > p->apart && p->chunk > LEAST_CHUNK; chunks++) {
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

// Takes blocks of all rows, whose input is copied once, where the weights would be read for each block more often.
static void keep_input(plan *p) {
    const int64_t panel = p->panel_units * p->wide * 4, weights = p->panel_units * group_width(p) * 4;
    const int64_t images = p->s.problem->N * p->groups;
    if (!p->copied || p->line || p->together > 1 || p->interleaved || panel > PANEL_BYTES ||
        p->groups * p->panels < KEPT_PANELS)
        return;
    plan kept = *p;
    const int64_t planes = images * p->s.axes[0].out * p->apart;
    shape_blocks(&kept, KEPT_BYTES / planes);
    const int64_t blocks = images * blocks_of(&kept), bytes = blocks * copied_bytes(&kept);
    if (kept.row_blocks > kept.apart || kept.steps > 1 || bytes > KEPT_BYTES)
        return;
    if (p->panels * bytes >= p->s.problem->N * blocks_of(p) * p->steps * weights)
        return;
    *p = kept;
    p->own = p->kept = true;
    p->kept_bytes = bytes;
}

// A vector of neighbouring outputs that begins with some phase: columns of the buffer, counted from `first`, that of a
// first phase; -1 for those that are not there.
typedef struct pattern {
    ivec lanes;
    int64_t first;
} pattern;

// From a channel to the next of a row's columns that have taps.
INLINE int64_t line_of(const plan *p) {
    const int64_t columns = columns_met(p, least(p->s.axes[2].out, p->columns * p->s.axes[2].out_step));
    return ceil_div(columns, LANES) * LANES + LANES;
}

static void list_patterns(const plan *p, pattern *patterns) {
    const axis *w = &p->s.axes[2];
    for (int64_t r = 0; r < w->out_step; r++) {
        int32_t met = 0;
        patterns[r].first = phases_met(w, r, p->s.backward);
        for (int64_t lane = 0; lane < LANES; lane++)
            patterns[r].lanes[lane] = phase_of(w, (r + lane) % w->out_step, p->s.backward).taps > 0 ? met++ : -1;
    }
}

// From a pixel's sums of all images to the next one's.
INLINE int64_t stacked_pitch(const plan *p, int64_t width) { return (p->s.axes[2].out * width + 1) * LANES; }

// Images as columns, where planes have an axis to spare: rows and columns take the place of planes and rows.
static bool stack_images(opwright_problem *p, bool backward) {
    const opwright_problem old = *p;
    const int64_t lanes = backward ? p->B : p->A, reduced = backward ? p->A : p->B;
    const int64_t *out = backward ? p->big : p->small, *in = backward ? p->small : p->big;
    const bool plane = p->taps[0] == 1 && p->small[0] == 1 && p->big[0] == 1 && p->pad[0] == 0;
    const int64_t columns = backward ? ceil_div(out[2], p->stride[2]) : out[2], taps = p->taps[1] * p->taps[2];
    if (!plane || taps == 1 || p->N < LEAST_STACKED || columns > STACKED_COLUMNS || lanes < STACKED_LANES ||
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

static void plan_of(plan *p, opwright_problem *problem, bool backward, int64_t workers) {
    collapse(problem);
    const bool stacked = stack_images(problem, backward);
    *p = (plan){.s = solve_of(problem, backward)};
    const solve *s = &p->s;
    const axis *d = &s->axes[0], *h = &s->axes[1], *w = &s->axes[2];
    p->channels = ceil_div(s->reduced, UNIT_CHANNELS);
    p->together = groups_together(s);
    p->groups = ceil_div(problem->G, p->together);
    p->lanes = s->lanes * p->together;
    const int64_t taps = d->taps * h->taps * w->taps;
    // Phases of a row would have to begin with whole pairs.
    p->line = OPWRIGHT_PAIRS && p->together == 1 && s->reduced % UNIT_CHANNELS != 0 && w->classes == 1 &&
              w->offset_step == 1 && s->in_x[2] == s->reduced && (s->in_c == 1 || s->reduced == 1);
    p->row_taps = p->line ? ceil_div(w->taps * s->reduced, UNIT_CHANNELS) : w->taps * p->channels;
    p->panel_units = d->taps * h->taps * p->row_taps * LANES;
    p->rest = p->lanes > LANES && p->lanes % LANES <= MOST_REST && p->together == 1 && !p->line &&
              p->channels >= LANES && taps * p->channels >= LONG_SUM ? p->lanes % LANES : 0;
    p->vectors = ceil_div(p->lanes - p->rest, LANES);

    const int64_t row_count = ceil_div(w->out, w->out_step); // of the longest phase
    p->direct = s->out_c == 1 && p->lanes % LANES == 0 && problem->G % p->together == 0;
    // An odd vector makes three of the last two.
    const int64_t panels = row_count <= 3 && p->vectors >= 4 ? ceil_div(p->vectors, 4) : most(1, p->vectors / 2);
    p->wide = ceil_div(p->vectors, panels);
    p->panels = panels + (p->rest > 0);

    int64_t low, high;
    span(w, backward, 0, row_count, &low, &high);
    const bool padded = low < 0 || high > w->in;
    const bool pixels_of_units = sizeof(elem) * UNIT_CHANNELS == sizeof(unit) && s->in_c == 1 &&
                                 s->reduced % UNIT_CHANNELS == 0;
    p->copied = padded || !pixels_of_units || p->together > 1;
    p->pixel = p->together > 1 ? p->channels * LANES : p->copied ? p->channels : s->in_x[2] / UNIT_CHANNELS;
    if (p->copied && p->together == 1 && !p->line)
        p->pixel = copied_pixel(p->pixel, w->in_step);
    p->chunks = 1, p->chunk = p->channels;
    p->padded = padded && !far_dilated(w);
    p->inside = pixels_of_units && p->together == 1 && s->in_x[2] == p->pixel * UNIT_CHANNELS;
    p->interleaved = s->in_c != 1 && s->out_c != 1 && p->together == 1 && h->taps == 1 && h->in == h->out &&
                     h->in_step == 1 && h->out_step == 1 && h->pad == 0 && h->in > 1 && s->in_x[1] == 1 &&
                     s->out_x[1] == 1 && s->in_x[2] == h->in && s->out_x[2] == h->out;
    shape_blocks(p, ROWS_BYTES);

    p->own = problem->N * d->out * h->out * w->out <= FEW_PIXELS;
    if (stacked) {
        p->stacked = p->own = p->copied = p->kept = true;
        p->interleaved = p->inside = false;
        p->pixel = copied_pixel(p->channels, 1);
        p->apart = p->row_blocks = p->column_blocks = p->steps = 1;
        p->rows = ceil_div(h->out, h->out_step), p->columns = w->out;
        p->kept_bytes = p->groups * d->in * h->in * w->in * p->pixel * 4;
    } else if (!p->own)
        keep_input(p);
    chunk_channels(p);
    // In place the panel's lines lie far apart, in few sets of the second-level cache, and every row of output reads them
    // again: 4 columns, 64 rows half as fast as packed, 7 and 28 0.8 times, 14 and 14 1.15 times, 7 and 7 1.0 to 1.4.
    const bool few_rows = problem->N * d->out * h->out <= w->out;
    p->in_place = p->own && !stacked && few_rows && p->together == 1 && sizeof(elem) == sizeof(unit) && s->w_lane == 1 &&
                  s->lanes % LANES == 0;
    // Whole lines in any order go past the caches at 45 GB/s, into them at 13 to 30. Where there is padding results are
    // read again, unless all weights are finite.
    const int64_t wide = p->wide * LANES * (int64_t)sizeof(elem);
    const bool lines = sizeof(elem) == sizeof(float) || (wide % 64 == 0 && p->vectors % p->wide == 0) ||
                       (p->vectors == 1 && s->out_x[2] == p->lanes && w->out_step == 1);
    const bool large = problem->N * d->out * h->out * w->out * p->groups * p->lanes >= STREAMED_BYTES / (int64_t)sizeof(elem);
    p->streamed = lines && large && p->direct && p->together == 1 && s->out_n % LANES == 0 &&
                  s->out_x[0] % LANES == 0 && s->out_x[1] % LANES == 0 && s->out_x[2] % LANES == 0;
    const int64_t blocks = p->own ? p->groups : problem->N * p->groups * d->out * p->row_blocks * p->column_blocks;
    p->groups_of_panels = least(p->panels, most(1, ceil_div(4 * most(workers, 2), blocks)));

    const bool planes = p->together == 1 && !p->line && !p->interleaved && p->column_blocks == 1;
    p->joined = planes && s->in_c != 1 && s->in_x[2] == 1 && s->in_x[1] == w->in && w->in % LANES != 0 &&
                w->in < SHORT_ROW && p->divisor == 1;
    p->met = w->out_step;
    for (int a = 0; a < 3 && s->out_c != 1 && s->out_x[2] == 1 && p->chunks == 1; a++)
        p->spread |= phases_met(&s->axes[a], s->axes[a].out_step, backward) < s->axes[a].out_step;
    if (p->spread)
        p->met = phases_met(w, w->out_step, backward);
    p->held = !p->interleaved && !p->spread && p->apart == 1 && p->column_blocks == 1 && s->out_c != 1 && s->out_x[2] == 1 &&
              s->out_x[1] == w->out && w->out % LANES != 0 ? most(1, HELD_COLUMNS / w->out) : 1;

    p->rows_bytes = p->kept ? 0 : copied_bytes(p);
    p->runs_bytes = rounded(taps * (int64_t)sizeof(run));
    const int64_t finished = least(w->out, p->columns * w->out_step) * (p->interleaved ? h->out : p->held); // at once
    p->buffer_bytes = p->direct ? 0 : rounded(columns_met(p, finished) * p->wide * LANES * 4);
    if (p->stacked && !p->direct)
        p->buffer_bytes = rounded(d->out * h->out * stacked_pitch(p, p->wide) * 4);
    p->line_bytes = p->spread ? line_of(p) * LANES * 4 : 0;
    p->spread_bytes = p->spread ? rounded(w->out_step * (int64_t)sizeof(pattern)) : 0;
    p->panel_bytes = p->own && !p->in_place ? rounded(p->panel_units * p->wide * 4) : 0;
    p->panel_sums = p->chunks > 1 ? step_outputs(p) * p->wide * LANES : 0;
    p->sums_bytes = rounded(ceil_div(p->panels, p->groups_of_panels) * p->panel_sums * 4);
    p->bias_bytes = rounded(p->groups * group_width(p) * LANES * 4);
    p->positions_bytes = rounded(taps * (int64_t)sizeof(int64_t));
    p->weights_bytes = p->own ? 0 : rounded(p->groups * p->panel_units * group_width(p) * 4);
    p->streamed = p->streamed && (!p->padded || (!p->own && p->weights_bytes <= SEARCHED_BYTES));
    p->streamed |= p->spread && p->together == 1 && large;
}

// From one of a tile's pixels to the next, in bytes.
INLINE int64_t scalar_row(const plan *p) { return p->s.axes[2].in_step * pixel_bytes(p); }

static int64_t worker_bytes(const plan *p) {
    return p->rows_bytes + p->runs_bytes + p->buffer_bytes + p->line_bytes + p->sums_bytes + p->panel_bytes;
}

typedef struct call {
    plan p;
    const elem *in, *weights, *bias;
    elem *out;
    unit *packed, *kept;
    float *biases;
    int64_t *positions;
    pattern *patterns;
    char *workers;
    bool finite; // all weights are known to be
    bool streamed;
} call;

// Input.

// Pixels [low, low + count) of a row of input, `pixel` units apart, zeros beyond the row's ends. The row that comes next
// lies `next` further.
static void copy_row(const solve *s, const elem *row, int64_t low, int64_t count, unit *to, int64_t pixel,
                     int64_t next) {
    const int64_t first = least(most(0, -low), count), last = most(first, least(count, s->axes[2].in - low));
    const int64_t reduced = s->reduced, step = s->in_x[2];
    memset(to, 0, (size_t)(first * pixel) * sizeof *to);
    memset(to + last * pixel, 0, (size_t)((count - last) * pixel) * sizeof *to);
    row += (low + first) * step;
    to += first * pixel;
    count = last - first;
    if (s->in_c == 1) {
        // Pixels side by side, here and there, are one long line of channels.
        const bool joined = step == reduced && pixel * UNIT_CHANNELS == reduced;
        const int64_t lines = joined ? 1 : count, length = joined ? count * reduced : reduced;
        if (length <= LANES * UNIT_CHANNELS) { // one mask for all
            const int64_t units_ = ceil_div(length, UNIT_CHANNELS);
            for (int64_t x = 0; x < lines; x++, row += step, to += pixel)
                units_store_part(to, channel_units(row, length), units_);
            return;
        }
        for (int64_t x = 0; x < lines; x++, row += step, to += pixel)
            for (int64_t c = 0; c < length; c += LANES * UNIT_CHANNELS) {
                __builtin_prefetch((const void *)((uintptr_t)(row + c) + COPY_AHEAD), 0, 2);
                const vec v = channel_units(row + c, length - c);
                if (length - c >= LANES * UNIT_CHANNELS)
                    vec_store((float *)(void *)(to + c / UNIT_CHANNELS), v);
                else
                    units_store_part(to + c / UNIT_CHANNELS, v, ceil_div(length - c, UNIT_CHANNELS));
            }
        return;
    }
    for (int64_t c = 0; c < reduced; c += LANES * UNIT_CHANNELS) {
        const int64_t channels = least(LANES, ceil_div(reduced - c, UNIT_CHANNELS));
        for (int64_t x = 0; x < count; x += LANES) {
            for (int64_t i = 0; i < channels * UNIT_CHANNELS && count >= LANES; i++) // rows of less share their lines
                __builtin_prefetch((const void *)((uintptr_t)(row + (c + i) * s->in_c + x * step) + (uintptr_t)next), 0,
                                   2);
            transpose(row + c * s->in_c + x * step, s->in_c, reduced - c, step, least(LANES, count - x),
                            to + x * pixel + c / UNIT_CHANNELS, pixel, channels);
        }
    }
}

#if OPWRIGHT_PAIRS
// The same as a line of elements, `length` units with what lies beyond. Whether one of them is Inf or NaN. What is
// `next` further is copied after the tiles of this step: the hardware has forgotten where the line goes on.
static bool copy_line(const solve *s, const elem *row, int64_t low, int64_t count, unit *to, int64_t length,
                      int64_t next) {
    const int64_t first = least(most(0, -low), count), last = most(first, least(count, s->axes[2].in - low));
    elem *begin = (elem *)(void *)to + first * s->reduced, *end = (elem *)(void *)(to + length);
    const int64_t elements = (last - first) * s->reduced;
    uvec found = {0};
    memset(to, 0, (size_t)((char *)begin - (char *)to));
    row += (low + first) * s->reduced;
    for (int64_t i = 0; i < elements; i += LANES * UNIT_CHANNELS) {
        __builtin_prefetch((const void *)((uintptr_t)(row + i) + (uintptr_t)next), 0, 2);
        const vec v = channel_units(row + i, elements - i);
        memcpy(begin + i, &v, sizeof v);
        found |= not_finite(&v);
    }
    memset(begin + elements, 0, (size_t)((char *)end - (char *)(begin + elements)));
    return uvec_any(found);
}
#endif

// Zeros in `rows` rows of `count` pixels, but for pixels [first, last).
static void clear_ends(unit *to, int64_t rows, int64_t row_step, int64_t first, int64_t last, int64_t count,
                       int64_t pixel) {
    for (int64_t row = 0; row < rows; row++, to += row_step) {
        memset(to, 0, (size_t)(first * pixel) * sizeof *to);
        memset(to + last * pixel, 0, (size_t)((count - last) * pixel) * sizeof *to);
    }
}

// `pixels` pixels side by side, of which every `length` are a line: they go `step` apart, lines `line_step`.
static void copy_lines(const solve *s, const elem *pixel0, int64_t pixels, int64_t length, unit *to, int64_t step,
                       int64_t line_step) {
    for (int64_t c = 0; c < s->reduced; c += LANES * UNIT_CHANNELS) {
        const int64_t channels = least(LANES, ceil_div(s->reduced - c, UNIT_CHANNELS));
        const elem *from = pixel0 + c * s->in_c;
        int64_t at = 0;
        unit *line = to + c / UNIT_CHANNELS;
        for (int64_t x = 0; x < pixels; x += LANES) {
            // The next channels' lines, a plane apart.
            for (int64_t i = 0; i < LANES * UNIT_CHANNELS && x % (64 / (int64_t)sizeof(elem)) == 0; i++)
                __builtin_prefetch((const void *)((uintptr_t)(from + x) +
                                                  (uintptr_t)((LANES * UNIT_CHANNELS + i) * s->in_c) * sizeof(elem)), 0, 2);
            vec v[LANES];
            UNROLL for (int64_t i = 0; i < LANES; i++)
                v[i] = i < channels ? unit_line(from + i * UNIT_CHANNELS * s->in_c + x, s->in_c,
                                                s->reduced - c - i * UNIT_CHANNELS, 1, pixels - x)
                                    : (vec){0};
            vec_transpose(v);
            UNROLL for (int64_t i = 0; i < LANES; i++) {
                if (i < pixels - x)
                    units_store_part(line + at * step, v[i], channels);
                if (++at == length)
                    at = 0, line += line_step;
            }
        }
    }
}

// The same for groups that share a vector, `groups` of them: a vector for each unit of channels, its lanes those of the
// lane's group.
static void copy_row_of_groups(const plan *p, const elem *row, int64_t low, int64_t count, int64_t groups, unit *to) {
    const solve *s = &p->s;
    const int64_t first = least(most(0, -low), count), last = most(first, least(count, s->axes[2].in - low));
    memset(to, 0, (size_t)(first * p->pixel) * sizeof *to);
    memset(to + last * p->pixel, 0, (size_t)((count - last) * p->pixel) * sizeof *to);
    const int64_t there = groups * s->reduced;
    ivec begin, absent; // the first channel of the lane's group
    for (int i = 0; i < LANES; i++)
        absent[i] = i < groups * s->lanes ? 0 : -1, begin[i] = (int32_t)(i / s->lanes * s->reduced) | absent[i];
    for (int64_t x = first; x < last; x += LANES) {
        const int64_t pixels = least(LANES, last - x);
        const elem *from = row + (low + x) * s->in_x[2];
        vec v[MOST_PICKED][LANES];
        // Pixels are far apart, each in lines of its own, where one has many groups.
        for (int64_t i = 0; i < LANES && s->in_c == 1; i++)
            __builtin_prefetch((const char *)(from + (2 * LANES + i) * s->in_x[2]));
        for (int64_t j = 0, c = 0; c < there; j++, c += LANES)
            if (s->in_c == 1)
                UNROLL for (int64_t i = 0; i < LANES; i++)
                    v[j][i] = i < pixels ? load_line(from + i * s->in_x[2] + c, 1, there - c) : (vec){0};
            else {
                UNROLL for (int64_t i = 0; i < LANES; i++)
                    v[j][i] = c + i < there ? load_line(from + (c + i) * s->in_c, s->in_x[2], pixels) : (vec){0};
                vec_transpose(v[j]);
            }
        for (int64_t c = 0; c < p->channels; c++) {
            unit *at = to + x * p->pixel + c * LANES;
            const ivec even = (begin + (int32_t)c * UNIT_CHANNELS) | absent;
#if OPWRIGHT_PAIRS
            const ivec odd = 2 * c + 1 < s->reduced ? (even + 1) | absent : (ivec){0} - 1;
            for (int64_t i = 0; i < pixels; i++, at += p->pixel) {
                const vec low_half = pick_lanes(&v[0][i], LANES, there, even);
                const vec high_half = pick_lanes(&v[0][i], LANES, there, odd);
                uvec low_bits, high_bits;
                memcpy(&low_bits, &low_half, sizeof low_bits);
                memcpy(&high_bits, &high_half, sizeof high_bits);
                low_bits = low_bits >> 16 | high_bits;
                memcpy(at, &low_bits, sizeof low_bits);
            }
#else
            for (int64_t i = 0; i < pixels; i++, at += p->pixel)
                vec_store(at, pick_lanes(&v[0][i], LANES, there, even));
#endif
        }
    }
}

// Weights.

// One weight's lanes to where they belong: a vector, or the lower or upper halves of one.
INLINE void put_weights(unit *to, int64_t channel, bool over, vec v) {
#if OPWRIGHT_PAIRS
    uvec bits;
    memcpy(&bits, &v, sizeof bits);
    units old = units_load(to);
    bits = channel % 2 != 0 ? old | bits : over ? bits >> 16 : old | bits >> 16;
    memcpy(to, &bits, sizeof bits);
#else
    (void)channel, (void)over;
    vec_store(to, v);
#endif
}

INLINE int64_t taps_of(const opwright_problem *p) { return p->taps[0] * p->taps[1] * p->taps[2]; }

// From the first tap's weight to that of tap t.
INLINE int64_t tap_at(const opwright_problem *p, int64_t t) {
    const int64_t *k = p->taps;
    return t / (k[1] * k[2]) * p->w_k[0] + t / k[2] % k[1] * p->w_k[1] + t % k[2] * p->w_k[2];
}

// Weights of `lanes` lanes from `from` on, as `[position of the tap][channel][width]`; lanes past the last one and the
// second half of an odd last pair are zero. Whichever way of the tensor is contiguous is read along.
static void pack_weights(const plan *plan, const int64_t *positions, const elem *from, int64_t lanes, unit *to,
                         int64_t width) {
    const solve *s = &plan->s;
    const opwright_problem *p = s->problem;
    if (plan->line) // halves of a pair come in any order
        memset(to, 0, (size_t)(plan->panel_units / LANES * width) * sizeof *to);
    const int64_t *k = s->problem->taps;
    const int64_t taps = taps_of(p);
    // A line of the tensor that is transposed: the reduced channels of a tap, or the taps, of one channel or of all.
    const bool taps_first = taps > 1 && p->w_k[2] == 1 && p->w_k[1] == k[2] && p->w_k[0] == k[1] * k[2];
    const bool joined = taps_first && s->w_reduced == taps;
    if (s->w_lane == 1 && lanes > 1) {
        for (int64_t t = 0; t < taps; t++) {
            const elem *line = from + tap_at(p, t);
            for (int64_t channel = 0; channel < s->reduced; channel++, line += s->w_reduced) {
                const int64_t place = positions[t] + channel;
                unit *at = to + place / UNIT_CHANNELS * width;
                for (int64_t l = 0; l < width; l += LANES) {
                    __builtin_prefetch((const void *)((uintptr_t)(line + l) + FAR_AHEAD * sizeof(elem) * (uintptr_t)s->w_reduced));
                    put_weights(at + l, place, !plan->line, lanes > l ? load_line(line + l, 1, lanes - l) : (vec){0});
                }
            }
        }
        return;
    }
#if OPWRIGHT_PAIRS
    // Pairs as such, where the taps of a channel fill half a vector.
    if (taps_first && !plan->line && taps >= LANES / 2) {
        for (int64_t channel = 0; channel < s->reduced; channel += UNIT_CHANNELS)
            for (int64_t t = 0; t < taps; t += LANES)
                for (int64_t l = 0; l < width; l += LANES) {
                    const elem *lane = from + channel * s->w_reduced + t + l * s->w_lane;
                    vec v[LANES];
                    UNROLL for (int64_t i = 0; i < LANES; i++) {
                        __builtin_prefetch((const void *)((uintptr_t)(lane + i * s->w_lane) + AHEAD * 64));
                        v[i] = i < lanes - l ? unit_line(lane + i * s->w_lane, s->w_reduced, s->reduced - channel, 1, taps - t)
                                             : (vec){0};
                    }
                    vec_transpose(v);
                    UNROLL for (int64_t i = 0; i < LANES; i++)
                        if (i < taps - t)
                            vec_store((float *)(void *)(to + (positions[t + i] + channel) / UNIT_CHANNELS * width + l), v[i]);
                }
        return;
    }
#endif
    const int64_t lines = joined ? 1 : taps_first ? s->reduced : taps;
    const int64_t length = joined ? taps * s->reduced : taps_first ? taps : s->reduced;
    const int64_t along = taps_first ? 1 : s->w_reduced;
    for (int64_t line = 0; line < lines; line++) {
        // The line's first element as channel and tap, counted on from there.
        int64_t channel = joined || !taps_first ? 0 : line, tap = taps_first ? 0 : line;
        const elem *start = from + channel * s->w_reduced + tap_at(p, tap);
        // Lines are short and far apart: without a hint, 512 channels of 3x3 take 7 times as long as one long line.
        if (taps_first && line + AHEAD < lines)
            for (int64_t l = 0; l < lanes; l++)
                __builtin_prefetch(start + AHEAD * s->w_reduced + l * s->w_lane);
        for (int64_t at = 0; at < length; at += LANES) {
            const int64_t count = least(LANES, length - at);
            unit *places[LANES];
            int64_t halves[LANES];
            for (int64_t i = 0; i < count; i++) {
                const int64_t place = positions[tap] + channel;
                places[i] = to + place / UNIT_CHANNELS * width;
                halves[i] = place % UNIT_CHANNELS;
                if (!taps_first)
                    channel++;
                else if (++tap == taps)
                    tap = 0, channel++;
            }
            for (int64_t l = 0; l < width; l += LANES) {
                const int64_t here = most(0, least(LANES, lanes - l));
                const elem *lane = start + l * s->w_lane + at * along;
                // Lines lie a power of two apart: without a hint, 512 channels of 3x3 take 2.3 times as long, joined 1.6 times.
                if (!taps_first || joined)
                    for (int64_t i = 0; i < here; i++)
                        __builtin_prefetch((const void *)((uintptr_t)(lane + i * s->w_lane) + AHEAD * 64));
                vec v[LANES];
                UNROLL for (int64_t i = 0; i < LANES; i++)
                    v[i] = i < here ? load_line(lane + i * s->w_lane, along, count) : (vec){0};
                vec_transpose(v);
                UNROLL for (int64_t i = 0; i < LANES; i++)
                    if (i < count)
                        put_weights(places[i] + l, halves[i], !plan->line, v[i]);
            }
        }
    }
}

// All reduced channels of one tap and lane, as units `step` apart.
INLINE void pack_tap(const plan *p, const elem *from, unit *to, int64_t step) {
    for (int64_t c = 0; c < p->channels; c++, from += UNIT_CHANNELS * p->s.w_reduced, to += step)
#if OPWRIGHT_PAIRS
        *to = from[0] | (2 * c + 1 < p->s.reduced ? (uint32_t)from[p->s.w_reduced] << 16 : 0);
#else
        *to = elem_get(from);
#endif
}

// Weights of groups that share a vector, as `[position of the tap][channel][lane]`. They are few.
static void pack_groups(const plan *p, const elem *from, const int64_t *positions, int64_t groups, unit *to) {
    const solve *s = &p->s;
    for (int64_t t = 0; t < taps_of(s->problem); t++)
        for (int64_t lane = 0; lane < LANES; lane++) {
            unit *at = to + positions[t] / UNIT_CHANNELS * LANES + lane;
            if (lane < groups * s->lanes)
                pack_tap(p, from + lane / s->lanes * s->problem->w_g + lane % s->lanes * s->w_lane +
                                tap_at(s->problem, t), at, LANES);
            else
                for (int64_t c = 0; c < p->channels; c++)
                    at[c * LANES] = 0;
        }
}

// Weights of the channels beyond whole vectors, as `[channel][position of the tap][reduced channel]`.
static void pack_rest(const plan *p, const elem *from, const int64_t *positions, unit *to) {
    for (int64_t lane = 0; lane < p->rest; lane++, from += p->s.w_lane, to += p->panel_units / LANES)
        for (int64_t t = 0; t < taps_of(p->s.problem); t++)
            pack_tap(p, from + tap_at(p->s.problem, t), to + positions[t] / UNIT_CHANNELS, 1);
}

// Weights of one panel: `units` of `width` vectors for each packed tap and channel, lanes past the last one zero.
static void pack_panel(const call *c, int64_t group, int64_t panel, unit *to) {
    const plan *p = &c->p;
    const solve *s = &p->s;
    const int64_t width = panel_width(p, panel) * LANES, first = panel_first(p, panel) * LANES;
    const elem *from = c->weights + group * p->together * s->problem->w_g + first * s->w_lane;
    if (p->together > 1) {
        pack_groups(p, from, c->positions, groups_of(p, group), to);
        return;
    }
    if (is_rest(p, panel))
        pack_rest(p, from, c->positions, to);
    else
        pack_weights(p, c->positions, from, least(width, s->lanes - first), to, width);
}

// Where a panel's weights are.
INLINE int64_t packed_at(const plan *p, int64_t group, int64_t panel) {
    return (group * group_width(p) + panel_first(p, panel)) * p->panel_units;
}

static void pack_task(const void *context, int64_t task, int64_t worker) {
    (void)worker;
    const call *c = context;
    const plan *p = &c->p;
    const int64_t group = task / p->panels, panel = task % p->panels;
    pack_panel(c, group, panel, c->packed + packed_at(p, group, panel));
}

// One block of output.

typedef struct block {
    const call *c;
    int64_t n, group;
    int64_t plane;          // of the output
    int64_t first_row;      // of those that are as far apart, in q
    int64_t row0, row1;     // counted among them
    int64_t column0, column1; // in q
    phase depth;
    int64_t depth_first, depth_last; // its taps that meet an input
    int64_t plane_q;
    // The input, copied or not: the pixel (slot, row, column) stands at
    // base + slot*plane_step + (first_slot + (row - low_row)/row_divisor)%slots*row_step + (column - low_column)*pixel.
    const unit *base;
    int64_t plane_step, row_step, row_divisor, low_row, low_column;
    int64_t first_slot, slots;
    int64_t fresh; // the first row that is not there yet
    int64_t part, parts; // of the rows to copy
    bool wild;     // an Inf or NaN has been copied
    int64_t first_channel, last_channel; // reduced, in units: the chunk
    int64_t first_panel;   // of the task
    run *runs;
    float *buffer, *line, *sums;
    unit *rows;
} block;

// Where the row `row` below the first one stands.
INLINE int64_t slot_of(const block *b, int64_t row) {
    const int64_t slot = b->first_slot + over(row, b->row_divisor);
    return slot < b->slots ? slot : slot - b->slots;
}

static void place_input(block *b, bool first, bool copy) {
    const plan *p = &b->c->p;
    solve own = p->s;
    own.reduced = least(own.reduced - b->first_channel * UNIT_CHANNELS, p->chunk * UNIT_CHANNELS);
    const solve *s = &own;
    const axis *d = &s->axes[0], *h = &s->axes[1], *w = &s->axes[2];
    const elem *image = b->c->in + b->n * s->in_n +
                        (b->group * p->together * p->s.reduced + b->first_channel * UNIT_CHANNELS) * s->in_c;
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
        b->low_column = most(b->low_column, 0), high_column = most(b->low_column, least(high_column, w->in));
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
    span(h, s->backward, b->first_row + b->row0 * p->apart, b->first_row + (b->row1 - 1) * p->apart + 1, &b->low_row,
         &high_row);
    b->row_divisor = p->divisor;
    b->slots = p->slots;
    b->wild = b->wild && !(first && copy);
    b->first_slot = first ? 0 : (b->first_slot + (b->low_row - before) / b->row_divisor) % b->slots;
    const int64_t low_row = first ? b->low_row : most(b->low_row, b->fresh);
    b->fresh = high_row;
    b->row_step = row_units(p);
    b->plane_step = p->slots * b->row_step;
    b->base = b->rows;
    const int64_t columns = high_column - b->low_column; // of which the tensor has [first, last)
    const int64_t first_column = least(most(0, -b->low_column), columns);
    const int64_t last_column = most(first_column, least(columns, w->in - b->low_column));
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
        if (p->joined && last_column - first_column == w->in) {
            const int64_t begin = most(low_row, 0), count = most(0, least(high_row, h->in) - begin);
            const int64_t end = begin + count * (b->part + 1) / b->parts;
            for (int64_t row = begin + count * b->part / b->parts, rows; row < end; row += rows) {
                const int64_t slot = slot_of(b, row - b->low_row);
                unit *to = b->rows + t * b->plane_step + slot * b->row_step;
                rows = least(end - row, b->slots - slot);
                clear_ends(to, rows, b->row_step, first_column, last_column, columns, p->pixel);
                copy_lines(s, plane + row * w->in, rows * w->in, w->in, to + first_column * p->pixel, p->pixel,
                           b->row_step);
            }
            continue;
        }
        for (int64_t row = most(low_row, 0); row < least(high_row, h->in); row++) {
            const int64_t slot = over(row - b->low_row, b->row_divisor);
            if (slot * b->row_divisor != row - b->low_row || (b->parts > 1 && slot % b->parts != b->part))
                continue;
            unit *to = b->rows + t * b->plane_step + slot_of(b, row - b->low_row) * b->row_step;
            const elem *from = plane + row * s->in_x[1];
#if OPWRIGHT_PAIRS
            if (p->line) {
                b->wild |= copy_line(s, from, b->low_column, high_column - b->low_column, to, b->row_step,
                                     h->in == 1 ? next : next / b->row_divisor * p->rows * p->apart * h->in_step);
                continue;
            }
#endif
            if (p->together > 1)
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
    const int64_t *w_k = s->problem->w_k;
    int64_t row_first, row_last, count = 0;
    reach(h, rows, row_q, &row_first, &row_last);
    const int64_t at_row = row_q * h->in_step + rows->offset - b->low_row;
    const bool merged = p->line || (p->chunks == 1 && (p->pixel == p->channels || p->together > 1) && w->offset_step == 1 &&
                        (!p->in_place || columns->tap_step * w_k[2] == p->channels * vector_step));
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
                r->vectors = p->in_place ? (b->depth.tap + td * b->depth.tap_step) * w_k[0] +
                                               (rows->tap + th * rows->tap_step) * w_k[1] +
                                               (columns->tap + tw * columns->tap_step) * w_k[2]
                                         : position * vector_step;
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
    bool together;    // groups share a vector
    int64_t rest;     // channels whose sums are over lanes
    bool added;       // `out` are sums that the bias is read from
} stretch;

// All of `o` stays but where a tile is. (Copies of it would wait for the stores of its parts: 30 cycles each.)
// Rejected: hints for the pixels of the next tile before each one, where the input is read in place: f32 of 1x1 0.93 to
// 0.98 times as fast, 570x570 0.99; bf16 1.0 to 1.04.
static void tiles_of(operands *o, const stretch *s, int64_t q0, int64_t q1) {
    const float *bias = o->bias;
    if (o->run_count == 0 && s->added)
        return;
    if (s->rest > 0) {
        // The last tile does some pixels again.
        const int64_t rows = q1 - q0 < MOST_SUMS ? 1 : MOST_SUMS;
        for (int64_t q = q0; q < q1; q += rows) {
            const int64_t at = least(q, q1 - rows);
            o->scalars = unit_at(s->base, at * s->step);
            o->out = out_at(o, s->out, at * o->out_row);
            SUM_TABLE[s->rest][rows](o);
        }
        return;
    }
    const int64_t room = s->together ? MOST_VECTORS : most_rows(s->width);
    const int64_t limit = s->step % 4096 == 0 ? least(room, 9) : room;
    const int64_t count = q1 - q0, tiles = count <= limit ? count > 0 : ceil_div(count, limit);
    const int64_t shorter = over(count, most(tiles, 1)), longer = count - tiles * shorter;
    for (int64_t t = 0, q = q0; t < tiles; t++) {
        const int64_t rows = shorter + (t < longer);
        o->scalars = unit_at(s->base, q * s->step);
        o->out = out_at(o, s->out, q * o->out_row);
        o->bias = bias + q * o->bias_row;
        (s->together ? VECTOR_TABLE[rows] : TILE_TABLE[s->width][rows])(o);
        q += rows;
    }
    o->bias = bias;
}

#if OPWRIGHT_PAIRS
// Output q by single products, for only whole pairs of a line have runs.
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
        o->elements ? elem_store(at, sum) : vec_store(at, sum);
    }
}
#endif

// Lanes of output q in which a vector holds a NaN.
INLINE uvec nan_at(const operands *o, const stretch *s, int64_t q) {
    uvec nan = {0};
    for (int64_t v = 0; v < s->width; v++) {
        const void *at = out_at(o, s->out, q * o->out_row + v * LANES);
        const vec x = o->elements ? elem_load(at) : vec_load(at);
        nan |= (uvec)(x != x);
    }
    return nan;
}

// Outputs [q0, q1), which have taps beyond the row's ends: those whose zeros met an Inf or a NaN are done again.
static void again_where_nan(const block *b, operands *o, const stretch *s, const phase *rows, int64_t row_q,
                            const phase *columns, int64_t q0, int64_t q1) {
    uvec any = {0};
    for (int64_t q = q0; q < q1; q++)
        any |= nan_at(o, s, q);
    if (!uvec_any(any)) // once for all, as it nearly always is
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
    const int64_t q0 = b->column0, q1 = least(b->column1, columns->count);
    if (q0 >= q1)
        return;
    o->runs = b->runs;
    o->scalar_row = scalar_row(p);
    o->out_row = p->met * pixel_out;
    if (before)
        o->bias = before, o->bias_row = w->out_step * width * LANES;
    const stretch s = {unit_at(b->base, (columns->offset - b->low_column) * pixel_bytes(p)), o->scalar_row, row_out, width, p->together > 1,
                       o->lane_step > 0 ? p->rest : 0, before && b->last_channel < p->channels};
    if (far_dilated(w)) {
        // Neighbours that reach the same inputs are a stretch of their own, without zeros.
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
    // Outputs all of whose taps lie beyond the row's ends have no terms.
    const int64_t absent = -columns->offset - (columns->taps - 1) * w->offset_step, last = w->in - 1 - columns->offset;
    const int64_t met = least(q1, most(q0, absent > 0 ? over(absent + w->in_step - 1, w->in_step) : 0));
    const int64_t past = most(met, least(q1, last < 0 ? 0 : over(last, w->in_step) + 1));
    o->run_count = 0;
    tiles_of(o, &s, q0, met);
    tiles_of(o, &s, past, q1);
    o->run_count = list_runs(b, rows, row_q, columns, 0, columns->taps, o->step);
    tiles_of(o, &s, met, past);
    // Outputs before `inside` or from `outside` on have taps beyond the row's ends.
    const int64_t inside = over(most(0, -columns->offset) + w->in_step - 1, w->in_step);
    const int64_t room = w->in - 1 - columns->offset - (columns->taps - 1) * w->offset_step;
    const int64_t outside = most(inside, room < 0 ? 0 : over(room, w->in_step) + 1);
    if (columns->taps == 0 || p->chunks > 1) // of which none is padded
        return;
    if (b->wild) { // they are looked for in lines only
        again_where_nan(b, o, &s, rows, row_q, columns, q0, q1);
        return;
    }
    if (b->c->finite)
        return;
    again_where_nan(b, o, &s, rows, row_q, columns, q0, least(q1, inside));
    again_where_nan(b, o, &s, rows, row_q, columns, most(q0, outside), q1);
}

// Pixels of the buffer, `[pixel][lane]`, to those of the output, `step` apart.
static void finish_row(const solve *s, const float *from, int64_t pitch, elem *out, int64_t step, int64_t pixels,
                       int64_t lanes) {
    if (s->out_c == 1) {
        for (int64_t x = 0; x < pixels; x++)
            for (int64_t l = 0; l < lanes; l += LANES) {
                const vec v = vec_load(from + x * pitch + l);
                elem *to = out + x * step + l;
                lanes - l >= LANES ? elem_store(to, v) : elem_store_part(to, v, lanes - l);
            }
        return;
    }
    for (int64_t l = 0; l < lanes; l += LANES)
        for (int64_t x = 0; x < pixels; x += LANES) {
            const int64_t count = least(LANES, pixels - x);
            vec v[LANES];
            UNROLL for (int64_t i = 0; i < LANES; i++)
                v[i] = i < count ? vec_load(from + (x + i) * pitch + l) : (vec){0};
            vec_transpose(v);
            elem *to = out + l * s->out_c + x * step;
            UNROLL for (int64_t i = 0; i < LANES; i++)
                if (i < lanes - l)
                    store_line(to + i * s->out_c, step, v[i], count);
        }
}

// Sums of a panel's pixels for all images, `[pixel][image][lane]`, to the output.
static void finish_stacked(const block *b, int64_t panel) {
    const call *c = b->c;
    const plan *p = &c->p;
    const solve *s = &p->s;
    const int64_t width = panel_width(p, panel), first = panel_first(p, panel) * LANES;
    const int64_t planes = s->axes[0].out, rows = s->axes[1].out, pitch = stacked_pitch(p, width);
    const bool joined = s->out_x[0] == rows * s->out_x[1];
    elem *out = c->out + (b->group * p->lanes + first) * s->out_c;
    for (int64_t image = 0; image < s->axes[2].out; image++, out += s->out_x[2])
        for (int64_t plane = 0; plane < (joined ? 1 : planes); plane++)
            finish_row(s, b->buffer + plane * rows * pitch + image * width * LANES, pitch, out + plane * s->out_x[0],
                       s->out_x[1], joined ? planes * rows : rows, least(width * LANES, s->lanes - first));
}

// All rows of the buffer, `[row][column][lane]`, whose pixels the output has in turns.
static void finish_interleaved(const block *b, elem *out, int64_t columns, int64_t lanes, int64_t width) {
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
static bool row_met(const block *b, int64_t row) {
    const solve *s = &b->c->p.s;
    const axis *h = &s->axes[1];
    const phase rows = phase_of(h, row % h->out_step, s->backward);
    int64_t first, last;
    reach(h, &rows, row / h->out_step, &first, &last);
    return first < last && b->depth_first < b->depth_last;
}

INLINE vec either(uvec which, vec a, vec b) {
    uvec x, y;
    memcpy(&x, &a, sizeof x), memcpy(&y, &b, sizeof y);
    x = (x & which) | (y & ~which);
    memcpy(&a, &x, sizeof a);
    return a;
}

// Of neighbouring outputs of one channel those of [x, end): the first `columns` from the columns with taps, `alone` where
// there are none, and behind.
INLINE void spread_part(const call *c, const float *from, int64_t columns, vec alone, elem *to, int64_t x, int64_t end,
                        bool streamed) {
    const int64_t step = c->p.s.axes[2].out_step, met = c->p.met;
    ivec lane;
    for (int i = 0; i < LANES; i++)
        lane[i] = i;
    int64_t r = x;
    if (x < columns)
        r = x % step, from += x / step * met;
    for (; x < least(end, columns); x += LANES) {
        const pattern *pick = &c->patterns[r];
        const ivec there = (pick->lanes >= 0) & (lane < (int32_t)least(columns - x, LANES));
        const vec v = either((uvec)there, vec_pick(vec_load(from + pick->first), pick->lanes & (LANES - 1)), alone);
        if (end - x < LANES)
            elem_store_part(to + x, v, end - x);
        else if (streamed)
            elem_stream(to + x, v);
        else
            elem_store(to + x, v);
        for (r += LANES; r >= step; r -= step)
            from += met;
    }
    for (; x + LANES <= end; x += LANES)
        streamed ? elem_stream(to + x, alone) : elem_store(to + x, alone);
    if (x < end)
        elem_store_part(to + x, alone, end - x);
}

// All `total` of them. Only whole lines go past the caches.
static void spread_line(const call *c, const float *from, int64_t columns, int64_t total, vec alone, elem *to) {
    enum { LINE = 64 / sizeof(elem) };
    const int64_t head = c->streamed ? least(total, -(int64_t)((uintptr_t)to / sizeof(elem)) & (LINE - 1)) : 0;
    const int64_t past = c->streamed ? head + (total - head) / LINE * LINE : 0;
    spread_part(c, from, columns, alone, to, 0, head, false);
    spread_part(c, from, columns, alone, to, head, past, true);
    spread_part(c, from, columns, alone, to, past, total, false);
}

// `met` rows of the buffer, one or none, `[column with taps][lane]`, to the output's columns, with the bias between, and
// `empty` rows of bias behind.
static void finish_spread(const block *b, elem *out, int64_t columns, int64_t lanes, int64_t width, const float *bias,
                          int64_t met, int64_t empty) {
    const plan *p = &b->c->p;
    const solve *s = &p->s;
    const int64_t pitch = width * LANES, line = line_of(p), compact = columns_met(p, columns);
    const int64_t joined = s->out_x[1] == columns ? met + empty : 1; // rows
    for (int64_t l = 0; l < lanes; l += LANES) {
        for (int64_t x = 0; met > 0 && x < compact; x += LANES) {
            vec v[LANES];
            UNROLL for (int64_t i = 0; i < LANES; i++)
                v[i] = i < compact - x ? vec_load(b->buffer + (x + i) * pitch + l) : (vec){0};
            vec_transpose(v);
            UNROLL for (int64_t i = 0; i < LANES; i++)
                vec_store(b->line + i * line + x, v[i]);
        }
        for (int64_t i = 0; i < least(LANES, lanes - l); i++)
            for (int64_t row = 0; row < met + empty; row += joined)
                spread_line(b->c, b->line + i * line, row < met ? columns : 0, joined * columns, vec_splat(bias[l + i]),
                            out + (l + i) * s->out_c + row * s->out_x[1]);
    }
}

static void panel_of_block(const block *b, int64_t panel, const unit *weights) {
    const call *c = b->c;
    const plan *p = &c->p;
    const solve *s = &p->s;
    const axis *h = &s->axes[1], *w = &s->axes[2];
    const int64_t width = panel_width(p, panel), first = panel_first(p, panel) * LANES;
    const bool rest = is_rest(p, panel);
    const int64_t lanes = least(width * LANES, groups_of(p, b->group) * s->lanes - first);
    // Rejected: the full ones of panels of which the last is not full store to the output, 56 channels f32 0.89 times as
    // fast, bf16 1.06 times.
    operands o = {.vectors = weights, .step = rest ? 1 : p->in_place ? s->w_reduced : width * LANES,
                  .lane_step = rest ? p->panel_units / LANES : 0, .bias_vector = LANES};
    o.bias = c->biases + b->group * group_width(p) * LANES + first;
    const int64_t column_first = b->column0 * w->out_step, column_last = least(w->out, b->column1 * w->out_step);
    elem *image = c->out + b->n * s->out_n + (b->group * p->lanes + first) * s->out_c + b->plane * s->out_x[0];
    const int64_t first_q = b->first_row + b->row0 * p->apart, end = b->first_row + b->row1 * p->apart;
    const int64_t last = least(h->out, end * h->out_step) - 1;
    const int64_t pitch = p->stacked ? stacked_pitch(p, width) : (column_last - column_first) * width * LANES;
    const bool begun = b->first_channel > 0, done = b->last_channel == p->channels;
    int64_t held = 0; // rows in the buffer
    float *sums = b->sums + (panel - b->first_panel) * p->panel_sums - column_first * width * LANES;
    int64_t spread = 0; // the first row that is not in the output yet
    for (int64_t q = first_q; q < end; q += p->apart)
        for (int64_t r = 0; r < h->out_step && q * h->out_step + r < h->out; r++, sums += pitch) {
            const int64_t row = q * h->out_step + r;
            if (p->spread && row < spread)
                continue;
            const phase rows = phase_of(h, r, s->backward);
            elem *out = image + row * s->out_x[1];
            const bool met = !p->spread || row_met(b, row);
            // What is finished later stands in the buffer from its first column on.
            const int64_t before = p->stacked ? b->plane * h->out + row : p->interleaved ? q : held;
            void *to = !done       ? sums
                       : p->direct ? (void *)out
                                   : b->buffer + before * pitch - b->column0 * p->met * width * LANES;
            const int64_t pixel_out = p->direct && done ? s->out_x[2] : width * LANES;
            o.elements = p->direct && done, o.streamed = b->c->streamed && p->direct && done;
            // Lines of many planes, which the hardware does not see coming: finishing 320 channels to 1280 of 7x7 took 3 times
            // as long without a hint.
            if (done && !p->direct && !p->stacked && !p->spread && s->out_x[2] == 1)
                for (int64_t l = 0; l < lanes; l++)
                    for (int64_t x = column_first; x < column_last; x += 64 / (int64_t)sizeof(elem))
                        __builtin_prefetch(out + l * s->out_c + x, 1);
            for (int64_t pw = 0, place = 0; pw < w->out_step && met; pw++) {
                const phase columns = phase_of(w, pw, s->backward);
                if (p->spread && columns.taps == 0)
                    continue;
                row_of_tiles(b, &o, &rows, q, &columns, width, out_at(&o, to, place++ * pixel_out), pixel_out,
                             begun ? sums + pw * width * LANES : NULL);
            }
            if (p->spread) {
                for (spread = row + 1; p->apart == 1 && spread <= last && !row_met(b, spread);)
                    spread++;
                finish_spread(b, out + column_first, column_last - column_first, lanes, width, o.bias, met,
                              spread - row - met);
                continue;
            }
            if (!done || p->direct || p->interleaved || p->stacked || (++held < p->held && row < last))
                continue;
            finish_row(s, b->buffer, width * LANES, out - (held - 1) * s->out_x[1] + column_first * s->out_x[2],
                       s->out_x[2], held * (column_last - column_first), lanes);
            held = 0;
        }
    if (p->interleaved && done)
        finish_interleaved(b, image + column_first * s->out_x[2], column_last - column_first, lanes, width);
}

static block block_of(const call *c, int64_t worker) {
    const plan *p = &c->p;
    char *mine = c->workers + worker * worker_bytes(p);
    block b = {.c = c, .parts = 1, .last_channel = p->channels};
    b.rows = (unit *)(void *)mine;
    b.runs = (run *)(void *)(mine + p->rows_bytes);
    b.buffer = (float *)(void *)(mine + p->rows_bytes + p->runs_bytes);
    b.line = (float *)(void *)((char *)b.buffer + p->buffer_bytes);
    b.sums = (float *)(void *)((char *)b.line + p->line_bytes);
    return b;
}

// Whether there is one. Blocks share the rows evenly, and so do threads: 56 rows in blocks of 6 at the most are 28 for each
// of two, not 30 and 26.
static bool place_block(block *b, int64_t n, int64_t group, int64_t plane, int64_t row_block, int64_t step,
                        int64_t column_block) {
    const plan *p = &b->c->p;
    const axis *d = &p->s.axes[0], *h = &p->s.axes[1], *w = &p->s.axes[2];
    b->n = n, b->group = group, b->plane = plane;
    const int64_t blocks = p->row_blocks / p->apart;
    b->first_row = row_block / blocks;
    const int64_t height = ceil_div(ceil_div(h->out, h->out_step) - b->first_row, p->apart), part = row_block % blocks;
    b->row0 = part * height / blocks + step * p->rows;
    b->row1 = least(b->row0 + p->rows, (part + 1) * height / blocks);
    b->column0 = column_block * p->columns;
    b->column1 = least(b->column0 + p->columns, ceil_div(w->out, w->out_step));
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
    // Groups that share a vector share cache lines with the next ones, too.
    const int64_t near = p->together > 1 ? p->groups : 1, group = task % near;
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
            b.first_channel = chunk * p->chunk, b.last_channel = least(p->channels, b.first_channel + p->chunk);
            place_input(&b, step == 0 || p->chunks > 1, true);
            for (int64_t panel = first; panel < last; panel++)
                panel_of_block(&b, panel, c->packed + packed_at(p, b.group, panel));
        }
    }
    if (c->streamed)
        stream_end();
}

// Input that is kept: rows of a block.
static void keep_task(const void *context, int64_t task, int64_t worker) {
    const call *c = context;
    const plan *p = &c->p;
    block b = block_of(c, worker);
    b.part = task % KEPT_PARTS, b.parts = KEPT_PARTS;
    task /= KEPT_PARTS;
    b.rows = c->kept + task * (copied_bytes(p) / (int64_t)sizeof *b.rows);
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
    const bool joined = own.in_x[0] == h->in * own.in_x[1];
    const int64_t lines = joined ? 1 : d->in, pixels = joined ? d->in * h->in : h->in;
    const elem *from = c->in + image * step + group * own.reduced * own.in_c;
    unit *to = c->kept + (group * d->in * h->in * images + image) * p->pixel;
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
        const unit *weights = packed;
        if (p->in_place)
            weights = (const unit *)(const void *)(c->weights + group * p->s.problem->w_g + panel_first(p, panel) * LANES);
        else
            pack_panel(c, group, panel, packed);
        for (int64_t n = 0; n < p->s.problem->N; n++)
            for (int64_t plane = 0; plane < planes; plane++)
                for (int64_t rows = 0; rows < steps; rows++)
                    for (int64_t columns = 0; columns < p->column_blocks; columns++) {
                        if (!place_block(&b, n, group, plane, rows / p->steps, rows % p->steps, columns))
                            continue;
                        if (p->stacked)
                            b.rows = c->kept + group * (p->kept_bytes / p->groups / (int64_t)sizeof *b.rows);
                        else if (p->kept) {
                            const int64_t image = n * p->groups + group;
                            const int64_t number = ((image * planes + plane) * p->row_blocks + rows) * p->column_blocks + columns;
                            b.rows = c->kept + number * (copied_bytes(p) / (int64_t)sizeof *b.rows);
                        }
                        place_input(&b, true, !p->kept && (panel == first || !single));
                        panel_of_block(&b, panel, weights);
                    }
        if (p->stacked && !p->direct)
            finish_stacked(&b, panel);
    }
    if (c->streamed)
        stream_end();
}

bool over_channels_fills(const opwright_problem *problem, bool backward) {
    const solve s = solve_of(problem, backward);
    return groups_together(&s) > 1;
}

int64_t over_channels_scratch(const opwright_problem *problem, bool backward, int64_t workers) {
    opwright_problem own = *problem;
    plan p;
    plan_of(&p, &own, backward, workers);
    return p.bias_bytes + p.positions_bytes + p.spread_bytes + p.weights_bytes + p.kept_bytes + most(1, workers) * worker_bytes(&p);
}

bool over_channels_fixed(const opwright_problem *problem, bool backward, int64_t *values) {
    opwright_problem own = *problem;
    plan p;
    plan_of(&p, &own, backward, 1);
    values[0] = scalar_row(&p);
    return p.vectors == 1 && p.together == 1;
}

void over_channels(const opwright_problem *problem, bool backward, const elem *in, const elem *weights,
                   const elem *bias, elem *out, const opwright_team *team, void *scratch) {
    opwright_problem own = *problem;
    call c = {.in = in, .weights = weights, .bias = bias, .out = out};
    plan_of(&c.p, &own, backward, team ? team->workers : 1);
    const plan *p = &c.p;
    c.biases = scratch;
    c.positions = (int64_t *)(void *)((char *)scratch + p->bias_bytes);
    c.patterns = (pattern *)(void *)((char *)c.positions + p->positions_bytes);
    c.packed = (unit *)(void *)((char *)c.patterns + p->spread_bytes);
    c.kept = (unit *)(void *)((char *)c.packed + p->weights_bytes);
    c.workers = (char *)c.kept + p->kept_bytes;
    c.streamed = p->streamed && (uintptr_t)out % sizeof(vec) == 0;
    const int64_t tap = p->line ? p->s.reduced : p->channels * UNIT_CHANNELS;
    list_positions(&p->s, p->row_taps * UNIT_CHANNELS, tap, c.positions);
    if (p->spread)
        list_patterns(p, c.patterns);
    const int64_t padded = group_width(p) * LANES;
    for (int64_t g = 0; g < p->groups; g++)
        for (int64_t l = 0; l < padded; l += LANES) {
            const int64_t count = most(0, least(LANES, groups_of(p, g) * p->s.lanes - l));
            const vec v = bias && count > 0 ? elem_load_part(bias + g * p->lanes + l, count) : (vec){0};
            vec_store(c.biases + g * padded + l, v);
        }
    if (p->stacked)
        opwright_run(team, stack_task, &c, p->s.axes[2].in * p->groups);
    else if (p->kept)
        opwright_run(team, keep_task, &c, own.N * p->groups * blocks_of(p) * KEPT_PARTS);
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
