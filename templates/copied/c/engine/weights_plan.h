// weights.c: how a problem is cut into tasks, blocks and panels, and where their scratch lies.
//
// Figures: see engine.h.

#ifndef OPWRIGHT_WEIGHTS_PLAN_H
#define OPWRIGHT_WEIGHTS_PLAN_H

#include "engine.h"
#include "lines.h"
#include "tile_shapes.h"

// Elements are widened to floats, one by one.
#if !defined(OPWRIGHT_F32) && !OPWRIGHT_PAIRS
#define HALVES 1
#else
#define HALVES 0
#endif

static const int64_t max_rows[] = {0, MAX_WORDS_1, MAX_WORDS_2, MAX_WORDS_3, MAX_WORDS_4}; // of a tile, by vectors

// Bounds, in elements unless stated otherwise.
enum {
    BLOCK = 128 * 1024,  // rows and panels of one block: they stay in L2 while dw streams
    CHANNELS = 64,       // neighbours in the row scratch: a longer pitch would map all pixels to few sets of L1
    PART = 512,          // channels of a task
    PART_DW = 256 * 1024, PART_DW_IN_ONE = 64 * 1024,
    CHUNK_DW = 64 * 1024, CHUNKS_DW = 256 * 1024, // private dw: of one chunk, of all
    CHUNKS = 16,
    TASKS = 4, CHUNK_PIXELS = 1024, MAX_DW = 1024 * 1024, // with few tasks of many pixels: private dw of all
    TASK_MADDS = 1 << 21,
    AHEAD = 48,          // pixels
    STRIP = 32,          // pixels that are packed to all panels before the next ones
    STREAM = 256,        // elements that are fetched ahead of a line's copy
    FULL = 16,           // minimum channels of big for a single tap to fill tiles
    FAR = 512,           // positions
    STAYS_ROWS = 16,
    LINE = 64,           // bytes
    AHEAD_LINES = 4,     // of weights that are written, one stream for each channel: the hardware tracks few streams
};

typedef struct plan {
    opwright_problem p;
    int64_t step[3], unit[3];      // the input moves step * unit from output to output; taps are at multiples of unit
    int64_t phases, positions;     // of the last axis: see pack_rows
    int64_t pace;                  // inputs from position to position of a row
    int64_t hop, reach;            // positions from tap to tap, and of all taps of an output
    int64_t jump;                  // positions from output to output of a row: step, minus positions that no tap reads
    int64_t odd;                   // positions that follow a phase for the half pair at its end
    bool tight;                    // no input is read twice: rows hold pairs side by side as the panel does
    int64_t box[4], boxes[4], blocks;
    int64_t first_small;           // of its elements: outputs that no tap reaches are left out
    int64_t depth, height;         // input planes and rows of a box
    int64_t pixels;                // of a box, in the panel
    int64_t vectors, panel_vectors;     // ceil(A / LANES), and how many of them go together
    int64_t a_part, a_parts, b_part, b_parts; // vectors, channels of a task
    int64_t chunks, tiles;         // tiles: tasks of one chunk
    int64_t dw;                    // floats of one task's dw
    int64_t merged, groups, each;  // groups in a vector of lanes, all groups, and small's channels of one
    bool in_one;                   // the whole reduction is one block: each group of lanes is written at once
    bool straight;                 // and its sums go straight to the weights
    bool lines;                    // phases are copied from whole lines
    bool stays;                    // small is used in place, not packed
    int64_t floats[4], runs;       // scratch of a worker: rows, panel, dw, line
} plan;

// A stretch of outputs: where it begins in the panel, in pixels, or where small stays in elements; and in the rows, in
// positions.
typedef struct run {
    int64_t panel, row, count;
} run;

// Rows divide by strides and phases, which are usually 1: a division takes as long as 20 additions.
INLINE int64_t floor_div(int64_t a, int64_t b) { return b == 1 ? a : a >= 0 ? a / b : -((b - 1 - a) / b); }
INLINE int64_t up_div(int64_t a, int64_t b) { return -floor_div(-a, b); }

// The size of parts of `all`, at most `limit`, as even as multiples of `of` allow.
static int64_t even(int64_t all, int64_t limit, int64_t of) {
    const int64_t parts = ceil_div(all, limit);
    return max(1, round_up(ceil_div(all, max(parts, 1)), of));
}

static bool folds(const opwright_problem *p) {
    for (int i = 1; i < 3; i++)
        if (p->taps[i] != 1 || p->stride[i] != 1 || p->pad[i] != 0 || p->small[i] != p->big[i])
            return false;
    return p->small[1] == 1 ||
           (p->small_x[1] == p->small_x[2] * p->small[2] && p->big_x[1] == p->big_x[2] * p->big[2]);
}

// The same problem without the outputs that no tap reaches: steps may be huge, and scratch must not be.
static opwright_problem trimmed(opwright_problem p, int64_t *first_small) {
    *first_small = 0;
    for (int i = 0; i < 3; i++) {
        const int64_t low = max(0, up_div(p.pad[i] - (p.taps[i] - 1) * p.dilation[i], p.stride[i]));
        const int64_t end = min(p.small[i], floor_div(p.big[i] - 1 + p.pad[i], p.stride[i]) + 1);
        p.small[i] = max(0, end - low);
        if (p.small[i] == 0)
            continue;
        p.pad[i] -= low * p.stride[i];
        *first_small += low * p.small_x[i];
    }
    return p;
}

// The same problem, its axes merged where no tap distinguishes them.
static opwright_problem folded(opwright_problem p) {
    for (int i = 0; i < 3; i++)
        if (p.taps[i] == 1)
            p.dilation[i] = p.stride[i];
    for (int axis = 0; axis < 3 && folds(&p); axis++) {
        p.small_x[2] = p.small[2] == 1 ? p.small_x[1] : p.small_x[2];
        p.big_x[2] = p.big[2] == 1 ? p.big_x[1] : p.big_x[2];
        p.small[2] *= p.small[1], p.big[2] *= p.big[1];
        const opwright_problem old = p;
        move_axis(&old, 0, &p, 1);
        p.small[0] = p.big[0] = p.N, p.taps[0] = p.stride[0] = p.dilation[0] = 1, p.pad[0] = 0;
        p.small_x[0] = p.small_n, p.big_x[0] = p.big_n, p.w_k[0] = 0;
        p.N = 1, p.small_n = p.big_n = 0;
    }
    return p;
}

// Whether no tap of an output in the last axis lies outside the input.
static bool unpadded(const opwright_problem *p) {
    return p->pad[2] <= 0 &&
           (p->small[2] - 1) * p->stride[2] + (p->taps[2] - 1) * p->dilation[2] - p->pad[2] < p->big[2];
}

// How many small groups share a vector of lanes. Their channels of big are one vector too, out of which each lane picks
// its own group's. The last vector may hold fewer groups.
static int64_t merged_groups(const opwright_problem *p) {
    return max(1, min(p->G, LANES / max(p->A, p->B)));
}

// The panel of one group of vectors, and behind it the lanes that hold an Inf or NaN.
INLINE int64_t panel_floats(const plan *l) { return (l->pixels * l->panel_vectors + 1) * LANES; }

// How many outputs' operands a block has room for. (Rows that a stride adds are not counted, as columns are: with them,
// 14.0 instead of 13.3 ms, a 16x16 kernel of stride 16, bf16.)
static int64_t block_room(const plan *l) {
    return max(1, BLOCK / (l->a_part * LANES + l->b_part * l->merged * l->jump));
}

static int64_t parts_of(const plan *l) {
    return l->p.G * ceil_div(l->vectors, l->a_part) * ceil_div(l->p.B, l->b_part);
}

// Whether sums of one block are stored to the weights directly.
static bool straight_out(const plan *l) {
    return l->in_one && l->merged == 1 && sizeof(elem) == sizeof(float) && l->p.w_a == 1 && l->p.A % LANES == 0;
}

// Halves the channels of a task until its dw is within bounds and there are tasks for all workers. Splitting small's
// channels packs big once more, and the other way round.
static void split_parts(plan *l, int64_t workers, int64_t pixels) {
    const opwright_problem *p = &l->p;
    const int64_t taps = p->taps[0] * p->taps[1] * p->taps[2];
    const bool straight = straight_out(l);
    for (;;) {
        const int64_t a_parts = ceil_div(l->vectors, l->a_part), b_parts = ceil_div(p->B, l->b_part);
        const int64_t dw = taps * l->b_part * LANES;
        const bool spread = workers == 1 || p->G * a_parts * b_parts * l->chunks >= 2 * workers ||
                            dw * l->a_part * (pixels / l->chunks) < TASK_MADDS;
        // With one block, dw covers the lanes of one set, and only if it is not stored directly.
        const bool small = l->in_one ? straight || dw * min(l->a_part, l->panel_vectors) <= PART_DW_IN_ONE
                                     : dw * l->a_part <= PART_DW;
        if (spread && small)
            return;
        const bool can_a = l->a_part > l->panel_vectors && !(spread && l->in_one), can_b = l->b_part > LANES;
        if (can_a && (!can_b || p->B * l->step[2] * a_parts <= p->A * b_parts))
            l->a_part = round_up(ceil_div(l->a_part, 2), l->panel_vectors);
        else if (can_b)
            l->b_part = round_up(ceil_div(l->b_part, 2), LANES);
        else
            return;
    }
}

static plan plan_of(const opwright_problem *problem, int64_t workers) {
    plan l = {.merged = merged_groups(problem), .groups = problem->G, .each = problem->A};
    l.p = folded(trimmed(*problem, &l.first_small));
    l.p.G = ceil_div(problem->G, l.merged), l.p.A *= l.merged;
    const opwright_problem *p = &l.p;
    const int64_t taps = p->taps[0] * p->taps[1] * p->taps[2];
    for (int i = 0; i < 3; i++) {
        l.unit[i] = gcd(p->stride[i], p->dilation[i]);
        l.step[i] = p->stride[i] / l.unit[i];
    }
    // Taps far apart are neighbours within a phase, or, where channels fill the tiles, walked one by one.
    l.hop = p->dilation[2] / l.unit[2], l.phases = 1;
    if (l.hop > 1 && (p->B < FULL || (p->taps[2] - 1) * l.hop > max(l.step[2] * p->small[2], FAR)))
        l.phases = l.hop, l.hop = 1;
    l.pace = l.hop > 1 ? l.unit[2] : p->dilation[2];
    l.reach = (p->taps[2] - 1) * l.hop + 1;
    l.jump = l.phases == 1 && l.hop == 1 && l.merged == 1 ? min(l.step[2], p->taps[2]) : l.step[2];
    l.tight = OPWRIGHT_PAIRS && p->taps[2] == 1 && l.merged == 1;
    l.vectors = ceil_div(p->A, LANES);
    l.panel_vectors = min(l.vectors, l.vectors == 3 ? 3 : OPWRIGHT_AMX || p->taps[2] * min(CHANNELS, p->B) <= max_rows[4] ? 4 : 2);
    const int64_t out[4] = {p->N, p->small[0], p->small[1], p->small[2]};
    const int64_t pixels = out[0] * out[1] * out[2] * out[3];
    // (big in its place was no faster: 0.50 instead of 0.45 ms, 1x1 56x56 64 -> 256, f32.)
    // Elsewhere a task reads a part of each pixel only, many times: 128 instead of 144 GFLOP/s, 1x1 56x56 64 -> 256.
    // (Looked at for Inf first, so that it may stay beside padding: 3.8 instead of 3.1 ms, 3 -> 32, 3x3 stride 2.)
    // Halves have tiles of even widths only: each tile widens them again, which few rows pay for.
    const bool few_rows = taps * p->B <= STAYS_ROWS;
    l.stays = unpadded(p) && p->small_c == 1 && p->A % LANES == 0 && l.groups % l.merged == 0 && l.phases == 1 &&
              (HALVES ? few_rows && l.vectors % 2 == 0 && l.merged == 1
                      : !OPWRIGHT_PAIRS && (l.vectors <= l.panel_vectors || few_rows));

    // The parts of a task, and how many chunks of the blocks: these decide the order of the sums.
    const int64_t dw = taps * l.vectors * LANES * p->B, madds = dw * pixels;
    l.chunks = 1;
    l.a_part = round_up(even(l.vectors, PART / LANES, 1), l.panel_vectors);
    l.b_part = min(even(p->B, PART, LANES), max(p->B, 1));
    l.in_one = pixels <= block_room(&l);
    if (dw * p->G <= CHUNK_DW) {
        const int64_t fit = CHUNKS_DW / max(1, dw * p->G), worth = min(pixels / 256, p->G * madds / TASK_MADDS);
        l.chunks = max(1, min(min(CHUNKS, fit), worth));
        l.a_part = l.vectors, l.b_part = p->B;
    } else {
        split_parts(&l, 1, pixels);
        const int64_t fit = min(MAX_DW / (dw * p->G), pixels / CHUNK_PIXELS);
        l.chunks = max(1, min(ceil_div(TASKS, parts_of(&l)), fit));
    }

    // The largest box of outputs within the bounds: whole inner axes before a second step of an outer one. It decides
    // the order of the sums, so it must not depend on the number of workers.
    int64_t room = block_room(&l);
    if (l.chunks > 1) {
        const int64_t each = ceil_div(pixels, l.chunks);
        room = min(room, ceil_div(each, ceil_div(each, room)));
    }
    for (int i = 3; i >= 0; i--) {
        l.box[i] = out[i] == 0 ? 1 : min(out[i], even(out[i], room, i == 3 ? 2 : 1));
        l.boxes[i] = max(1, ceil_div(out[i], l.box[i]));
        room = l.box[i] == out[i] ? max(1, room / max(out[i], 1)) : 1;
    }
    l.blocks = l.boxes[0] * l.boxes[1] * l.boxes[2] * l.boxes[3];
    l.chunks = max(1, min(l.chunks, l.blocks));
    l.in_one = l.blocks == 1;
    l.straight = straight_out(&l);
    split_parts(&l, workers, pixels);
    l.a_part = max(l.a_part, 1);
    l.a_parts = ceil_div(l.vectors, l.a_part), l.b_parts = ceil_div(p->B, l.b_part);

    l.depth = (l.box[1] - 1) * l.step[0] + (p->taps[0] - 1) * p->dilation[0] / l.unit[0] + 1;
    l.height = (l.box[2] - 1) * l.step[1] + (p->taps[1] - 1) * p->dilation[1] / l.unit[1] + 1;
    l.depth = min(l.depth, ceil_div(p->big[0], l.unit[0]));
    l.height = round_up(min(l.height, ceil_div(p->big[1], l.unit[1])), l.step[1]);
    l.phases = min(l.phases, l.box[3]);
    const bool uneven = OPWRIGHT_PAIRS && (l.phases > 1 || l.box[3] % 2 || p->small[2] % l.box[3] % 2);
    l.odd = uneven && !l.tight ? l.reach : 0;
    l.positions = (ceil_div(l.box[3], l.phases) - 1) * l.jump + l.reach + l.odd;
    if (l.tight)
        l.positions = ceil_div(l.box[3], 2);
    l.pixels = l.box[0] * l.box[1] * l.box[2] * (l.box[3] + (uneven ? l.phases : 0));
    l.runs = l.box[0] * l.box[1] * l.box[2] * l.phases * (l.odd ? 2 : 1);

    l.tiles = p->G * l.a_parts * l.b_parts;
    l.dw = taps * l.b_part * l.a_part * LANES;
    l.floats[0] = l.box[0] * l.depth * l.height * l.phases * l.positions * l.b_part * l.merged;
    l.floats[0] = round_up(l.floats[0] + (l.merged > 1 ? LANES : 0), 16);
    if (!l.stays)
        l.floats[1] = round_up(ceil_div(l.a_part, l.panel_vectors) * panel_floats(&l), 16);
    if (l.chunks == 1 && !l.straight)
        l.floats[2] = round_up(l.in_one ? taps * l.b_part * min(l.a_part, l.panel_vectors) * LANES : l.dw, 16);
    // Where pixels are neighbours, a line is transposed whole before it is split into phases.
    l.lines = (l.phases > 1 || l.jump != l.step[2]) && p->big_c != 1;
    if (l.lines) {
        const int64_t reach =
            min(p->big[2], (l.box[3] - 1) * p->stride[2] + (p->taps[2] - 1) * p->dilation[2] + 1);
        const int64_t in = reach * min(CHANNELS, l.b_part) * l.merged, line = l.box[3] * l.panel_vectors * LANES;
        l.floats[3] = round_up(max(in, line) + LANES, 16);
    }
    return l;
}

#endif
