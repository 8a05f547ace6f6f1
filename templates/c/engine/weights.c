// The solve for the weights: a matrix product whose rows are (tap, channel of big), whose lanes are channels of small
// and whose reduction runs over the output pixels of the whole batch,
//     W[g,a,b,k] = sum over n, o of small[n, g*A + a, o] * big[n, g*B + b, o*stride + k*dilation - pad].
//
// Loops, outermost first:
//     task     a group, a range of small's channels and one of big's, and where dw is small a chunk of the blocks
//     block    a box of output pixels whose operands fit L2
//     lanes    1 to 4 vectors of small's channels, packed to a panel: [n][depth][height][phase][output][lane]. All
//              panels of a block are packed first, so that each pixel's channels are read once and in order.
//              Without pairs, channels that are neighbours and that meet no padding stay where they are, if few rows
//              meet them: tiles widen what they load
//     tap row  (kd, kh): the pixels whose input row exists form runs; padding in depth and height costs nothing
//     tile     MR neighbouring words of (kw, channel of big), broadcast, by the vectors: all sums stay in registers
//              while every run of the block is walked once
// Big is copied once per block to rows with their width zero-padded: [channel block][n][depth][height][phase][position]
// [channel]. What no tap meets, with a stride beyond the kernel, is not copied. With dilation and many channels, the
// taps of an output are walked one by one. With few channels, outputs r, r + phases, ... see every dilation-th input
// only: they are phase r, and in it the taps of an output are neighbours again. Words are floats or, with
// OPWRIGHT_PAIRS, two neighbouring outputs' bf16: of small always, and of big where its channels are neighbours or
// there is one tap, straight from the tensor; else rows are widened first.
//
// Axes without taps are merged to one. Few channels of small, many of big: the two change places. Small groups share a
// vector of lanes: in place of a broadcast word, each lane gets that of its own group, all picked out of one vector.
//
// A padding zero times an Inf or NaN of small would be NaN, where the tap does not exist: when packing meets one, taps
// are walked one by one where their input exists.
//
// Which terms are added up in which order depends on the problem only; the number of workers decides merely which tiles
// go together in a task. Chunks have a dw of their own each and are summed in their order.
#include "engine.h"
#include "lanes.h"
#include "weights_tiles.h"

// Elements are widened to floats, one by one.
#if !defined(OPWRIGHT_F32) && !OPWRIGHT_PAIRS
#define HALVES 1
#else
#define HALVES 0
#endif

// Bounds, in elements unless said.
enum {
    BLOCK = 128 * 1024,  // rows and panels of one block: with them in L2, dw streams past
    CHANNELS = 64,       // neighbours in the row scratch: a longer pitch would put all pixels into few sets of L1
    PART = 512,          // channels of a task
    PART_DW = 256 * 1024, PART_DW_IN_ONE = 64 * 1024,
    CHUNK_DW = 64 * 1024, CHUNKS_DW = 256 * 1024, // private dw: of one chunk, of all
    CHUNKS = 16,
    TASKS = 4, CHUNK_PIXELS = 1024, MOST_DW = 1024 * 1024, // where few tasks have many pixels: private dw of all
    TASK_MADDS = 1 << 21,
    AHEAD = 48,          // pixels
    STRIP = 32,          // pixels that go to all panels before the next ones do
    STREAM = 256,        // elements that are fetched ahead of a line's copy
    FULL = 16,           // channels of big from which a tap fills tiles by itself
    FAR = 512,           // positions
    STAYS_ROWS = 16,
    LINE = 64,           // bytes
    AHEAD_LINES = 4,     // of weights that are written, one stream for each channel: the hardware follows few
};

typedef struct plan {
    opwright_problem p;
    int64_t step[3], unit[3];      // the input moves step * unit from output to output; taps are at multiples of unit
    int64_t phases, positions;     // of the last axis: see pack_rows
    int64_t pace;                  // inputs from position to position of a row
    int64_t hop, reach;            // positions from tap to tap, and of all taps of an output
    int64_t jump;                  // positions from output to output of a row: step, less what no tap meets
    int64_t odd;                   // positions that follow a phase for the half pair at its end
    bool tight;                    // no input is met twice: rows hold pairs side by side as the panel does
    int64_t box[4], boxes[4], blocks;
    int64_t first_small;           // of its elements: outputs that no tap reaches are left out
    int64_t depth, height;         // input planes and rows of a box
    int64_t pixels;                // of a box, in the panel
    int64_t vectors, together;     // ceil(A / LANES), and how many of them go together
    int64_t a_part, a_parts, b_part, b_parts; // vectors, channels of a task
    int64_t chunks, tiles;         // tiles: tasks of one chunk
    int64_t dw;                    // floats of one task's dw
    int64_t merged, groups, each;  // groups in a vector of lanes, all groups, and small's channels of one
    bool in_one;                   // the whole reduction is one block: each group of lanes is written at once
    bool straight;                 // and its sums go straight to the weights
    bool lines;                    // phases are copied from whole lines
    bool stays;                    // small is used where it is, not packed
    int64_t floats[4], runs;       // scratch of a worker: rows, panel, dw, line
} plan;

// A stretch of outputs: where it begins in the panel, in pixels, or where small stays in elements; and in the rows, in
// positions.
typedef struct run {
    int64_t panel, row, count;
} run;

// Rows divide by strides and phases, which are 1 as a rule: a division takes as long as 20 additions.
INLINE int64_t floor_div(int64_t a, int64_t b) { return b == 1 ? a : a >= 0 ? a / b : -((b - 1 - a) / b); }
INLINE int64_t up_div(int64_t a, int64_t b) { return -floor_div(-a, b); }
INLINE int64_t round_up(int64_t a, int64_t b) { return ceil_div(a, b) * b; }

// Parts of at most `most` out of `all`, as even as multiples of `of` allow.
static int64_t even(int64_t all, int64_t most_, int64_t of) {
    const int64_t parts = ceil_div(all, most_);
    return most(1, round_up(ceil_div(all, most(parts, 1)), of));
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
        const int64_t low = most(0, up_div(p.pad[i] - (p.taps[i] - 1) * p.dilation[i], p.stride[i]));
        const int64_t end = least(p.small[i], floor_div(p.big[i] - 1 + p.pad[i], p.stride[i]) + 1);
        p.small[i] = most(0, end - low);
        if (p.small[i] == 0)
            continue;
        p.pad[i] -= low * p.stride[i];
        *first_small += low * p.small_x[i];
    }
    return p;
}

// The same problem, its axes merged where no tap tells them apart.
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

// The same problem, its rows along the columns of planes where these are narrow and taps lie above each other: 9.4 instead
// of 11.3 ms, 5x1 over 16x182x5, bf16. Where pixels of rows are neighbours, those of columns are picked one by one, which
// pays for the narrowest only.
static opwright_problem turned(opwright_problem p) {
    const int64_t narrow = p.big_c == 1 && p.small_c == 1 ? LANES - 1 : LANES / 3;
    if (p.taps[2] > 1 || p.taps[1] == 1 || p.small[2] > narrow || p.small[1] <= p.small[2])
        return p;
    const opwright_problem old = p;
    move_axis(&old, 1, &p, 2);
    move_axis(&old, 2, &p, 1);
    return p;
}

// Whether no tap of an output in the last axis lies outside the input.
static bool unpadded(const opwright_problem *p) {
    return p->pad[2] <= 0 &&
           (p->small[2] - 1) * p->stride[2] + (p->taps[2] - 1) * p->dilation[2] - p->pad[2] < p->big[2];
}

// How many small groups share a vector of lanes. Their channels of big are one vector too, out of which each lane picks
// its own group's. The last vector may hold fewer groups.
static int64_t groups_together(const opwright_problem *p) {
    return most(1, least(p->G, LANES / most(p->A, p->B)));
}

// The panel of one group of vectors, and behind it the lanes in which an Inf or NaN was met.
INLINE int64_t panel_floats(const plan *l) { return (l->pixels * l->together + 1) * LANES; }

// How many outputs' operands a block has room for. (Rows that a stride adds are not counted, as columns are: with them,
// 14.0 instead of 13.3 ms, a 16x16 kernel of stride 16, bf16.)
static int64_t block_room(const plan *l) {
    return most(1, BLOCK / (l->a_part * LANES + l->b_part * l->merged * l->jump));
}

static int64_t parts_of(const plan *l) {
    return l->p.G * ceil_div(l->vectors, l->a_part) * ceil_div(l->p.B, l->b_part);
}

// Whether sums of one block go straight to the weights.
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
        // Of one block, dw is that of the lanes that go together, and only where it does not go straight out.
        const bool small = l->in_one ? straight || dw * least(l->a_part, l->together) <= PART_DW_IN_ONE
                                     : dw * l->a_part <= PART_DW;
        if (spread && small)
            return;
        const bool can_a = l->a_part > l->together && !(spread && l->in_one), can_b = l->b_part > LANES;
        if (can_a && (!can_b || p->B * l->step[2] * a_parts <= p->A * b_parts))
            l->a_part = round_up(ceil_div(l->a_part, 2), l->together);
        else if (can_b)
            l->b_part = round_up(ceil_div(l->b_part, 2), LANES);
        else
            return;
    }
}

static plan plan_of(const opwright_problem *problem, int64_t workers) {
    plan l = {.merged = groups_together(problem), .groups = problem->G, .each = problem->A};
    l.p = turned(folded(trimmed(*problem, &l.first_small)));
    l.p.G = ceil_div(problem->G, l.merged), l.p.A *= l.merged;
    const opwright_problem *p = &l.p;
    const int64_t taps = p->taps[0] * p->taps[1] * p->taps[2];
    for (int i = 0; i < 3; i++) {
        l.unit[i] = gcd(p->stride[i], p->dilation[i]);
        l.step[i] = p->stride[i] / l.unit[i];
    }
    // Taps far apart are neighbours within a phase, or, where channels fill the tiles, walked one by one.
    l.hop = p->dilation[2] / l.unit[2], l.phases = 1;
    if (l.hop > 1 && (p->B < FULL || (p->taps[2] - 1) * l.hop > most(l.step[2] * p->small[2], FAR)))
        l.phases = l.hop, l.hop = 1;
    l.pace = l.hop > 1 ? l.unit[2] : p->dilation[2];
    l.reach = (p->taps[2] - 1) * l.hop + 1;
    l.jump = l.phases == 1 && l.hop == 1 && l.merged == 1 ? least(l.step[2], p->taps[2]) : l.step[2];
    l.tight = OPWRIGHT_PAIRS && p->taps[2] == 1 && l.merged == 1;
    l.vectors = ceil_div(p->A, LANES);
    l.together = least(l.vectors, l.vectors == 3 ? 3 : p->taps[2] * least(CHANNELS, p->B) <= most_rows[4] ? 4 : 2);
    const int64_t out[4] = {p->N, p->small[0], p->small[1], p->small[2]};
    const int64_t pixels = out[0] * out[1] * out[2] * out[3];
    // (big in its place was no faster: 0.50 instead of 0.45 ms, 1x1 56x56 64 -> 256, f32.)
    // Elsewhere a task reads a part of each pixel only, many times: 128 instead of 144 GFLOP/s, 1x1 56x56 64 -> 256.
    // (Looked at for Inf first, so that it may stay beside padding: 3.8 instead of 3.1 ms, 3 -> 32, 3x3 stride 2.)
    // Halves have tiles of even widths only: each tile widens them anew, which few rows pay for.
    const bool few_rows = taps * p->B <= STAYS_ROWS;
    l.stays = unpadded(p) && p->small_c == 1 && p->A % LANES == 0 && l.groups % l.merged == 0 && l.phases == 1 &&
              (HALVES ? few_rows && l.vectors % 2 == 0 && l.merged == 1
                      : !OPWRIGHT_PAIRS && (l.vectors <= l.together || few_rows));

    // The parts of a task, and how many chunks of the blocks: these decide the order of the sums.
    const int64_t dw = taps * l.vectors * LANES * p->B, madds = dw * pixels;
    l.chunks = 1;
    l.a_part = round_up(even(l.vectors, PART / LANES, 1), l.together);
    l.b_part = least(even(p->B, PART, LANES), most(p->B, 1));
    l.in_one = pixels <= block_room(&l);
    if (dw * p->G <= CHUNK_DW) {
        const int64_t fit = CHUNKS_DW / most(1, dw * p->G), worth = least(pixels / 256, p->G * madds / TASK_MADDS);
        l.chunks = most(1, least(least(CHUNKS, fit), worth));
        l.a_part = l.vectors, l.b_part = p->B;
    } else {
        split_parts(&l, 1, pixels);
        const int64_t fit = least(MOST_DW / (dw * p->G), pixels / CHUNK_PIXELS);
        l.chunks = most(1, least(ceil_div(TASKS, parts_of(&l)), fit));
    }

    // The largest box of outputs within the bounds: whole inner axes before a second step of an outer one. It decides
    // the order of the sums, so it must not depend on the number of workers.
    int64_t room = block_room(&l);
    if (l.chunks > 1) {
        const int64_t each = ceil_div(pixels, l.chunks);
        room = least(room, ceil_div(each, ceil_div(each, room)));
    }
    for (int i = 3; i >= 0; i--) {
        l.box[i] = out[i] == 0 ? 1 : least(out[i], even(out[i], room, i == 3 ? 2 : 1));
        l.boxes[i] = most(1, ceil_div(out[i], l.box[i]));
        room = l.box[i] == out[i] ? most(1, room / most(out[i], 1)) : 1;
    }
    l.blocks = l.boxes[0] * l.boxes[1] * l.boxes[2] * l.boxes[3];
    l.chunks = most(1, least(l.chunks, l.blocks));
    l.in_one = l.blocks == 1;
    l.straight = straight_out(&l);
    split_parts(&l, workers, pixels);
    l.a_part = most(l.a_part, 1);
    l.a_parts = ceil_div(l.vectors, l.a_part), l.b_parts = ceil_div(p->B, l.b_part);

    l.depth = (l.box[1] - 1) * l.step[0] + (p->taps[0] - 1) * p->dilation[0] / l.unit[0] + 1;
    l.height = (l.box[2] - 1) * l.step[1] + (p->taps[1] - 1) * p->dilation[1] / l.unit[1] + 1;
    l.depth = least(l.depth, ceil_div(p->big[0], l.unit[0]));
    l.height = round_up(least(l.height, ceil_div(p->big[1], l.unit[1])), l.step[1]);
    l.phases = least(l.phases, l.box[3]);
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
        l.floats[1] = round_up(ceil_div(l.a_part, l.together) * panel_floats(&l), 16);
    if (l.chunks == 1 && !l.straight)
        l.floats[2] = round_up(l.in_one ? taps * l.b_part * least(l.a_part, l.together) * LANES : l.dw, 16);
    // Where pixels are neighbours, a line is transposed whole before its phases are told apart.
    l.lines = (l.phases > 1 || l.jump != l.step[2]) && p->big_c != 1;
    if (l.lines) {
        const int64_t reach =
            least(p->big[2], (l.box[3] - 1) * p->stride[2] + (p->taps[2] - 1) * p->dilation[2] + 1);
        const int64_t in = reach * least(CHANNELS, l.b_part) * l.merged, line = l.box[3] * l.together * LANES;
        l.floats[3] = round_up(most(in, line) + LANES, 16);
    }
    return l;
}

#if LANES == 16
#define EVERY_OTHER_LANE 0, 2, 4, 6, 8, 10, 12, 14, 17, 19, 21, 23, 25, 27, 29, 31
#elif LANES == 8
#define EVERY_OTHER_LANE 0, 2, 4, 6, 9, 11, 13, 15
#else
#define EVERY_OTHER_LANE 0, 2, 5, 7
#endif

// LANES elements `apart`, the first n of them.
INLINE vec load_apart(const elem *from, int64_t apart, int64_t n) {
    if (apart == 1 || n == 1)
        return n == LANES ? elem_load(from) : elem_load_part(from, n);
    if (apart == 2 && n == LANES) {
        // The second begins one early: what follows the last element may not be there.
        const vec first = elem_load(from), second = elem_load(from + LANES - 1);
        return SHUFFLE(first, second, EVERY_OTHER_LANE);
    }
    elem some[LANES] = {0};
    if (n == LANES) {
        UNROLL for (int i = 0; i < LANES; i++) some[i] = from[i * apart];
    } else {
        for (int64_t i = 0; i < n; i++)
            some[i] = from[i * apart];
    }
    return elem_load(some);
}

INLINE void put(float *to, vec v, int64_t n) {
    if (n == LANES)
        vec_store(to, v);
    else
        vec_store_part(to, v, n);
}

#if OPWRIGHT_PAIRS
#define EVERY_SECOND(i) (i), 2 + (i), 4 + (i), 6 + (i), 8 + (i), 10 + (i), 12 + (i), 14 + (i), \
                        16 + (i), 18 + (i), 20 + (i), 22 + (i), 24 + (i), 26 + (i), 28 + (i), 30 + (i)

// The first n of 2 * LANES elements, the others 0; nothing past them is read.
INLINE uvec load_halves(const elem *from, int64_t n) {
    uvec halves = {0};
    if (n >= 2 * LANES)
        memcpy(&halves, from, sizeof halves);
    else if (n > 0)
        halves = pairs_load_part(from, n);
    return halves;
}
#endif

// How two bf16 become a word: an element and the one that lies `other` beyond it, of which `mask` is kept; of the last
// word, where `half`, only the first. With pairs false, words are floats.
typedef struct words {
    bool pairs, half;
    int64_t other;
    uint32_t mask;
} words;

// Remembers in which lanes an Inf or NaN was met: 0 times it is NaN.
INLINE void look(vec *seen, vec v, words way) {
#if OPWRIGHT_PAIRS
    if (way.pairs) {
        uvec bits;
        memcpy(&bits, &v, sizeof bits);
        *seen = dot_pairs(*seen, bits, (uvec){0});
        return;
    }
#endif
    (void)way;
    *seen += v * 0;
}

// LANES words, the first n of them, `apart` elements from one to the next.
INLINE vec load_words(const elem *from, int64_t apart, int64_t n, words way) {
#if OPWRIGHT_PAIRS
    if (way.pairs && apart == 2 && way.other == 1)
        return (vec)load_halves(from, 2 * n - way.half);
    if (way.pairs && apart == 4 && way.other == 2) {
        // The second begins one early: what follows the last element may not be there.
        const int64_t there = 4 * n - 1 - 2 * way.half;
        const uvec first = load_halves(from, there) & 0xffffu;
        const uvec second = load_halves(from + 2 * LANES - 1, there - 2 * LANES + 1) >> 16;
        return (vec)(SHUFFLE(first, second, EVERY_SECOND(0)) | SHUFFLE(first, second, EVERY_SECOND(1)) << 16);
    }
    if (way.pairs) {
        vec first = load_apart(from, apart, n);
        const vec second = way.half ? (vec){0} : load_apart(from + way.other, apart, n);
        uvec low, high;
        memcpy(&low, &first, sizeof low);
        memcpy(&high, &second, sizeof high);
        low = (low >> 16 | high) & way.mask;
        memcpy(&first, &low, sizeof low);
        return first;
    }
#endif
    (void)way;
    return load_apart(from, apart, n);
}

#if defined(OPWRIGHT_BF16) || defined(OPWRIGHT_F16)
// LANES channels of 2 * LANES pixels: pairs of pixels are transposed as one word.
INLINE void pack_square(float *to, int64_t pitch, const elem *from, int64_t c, int64_t ahead, vec seen[4]) {
    const words floats = {0};
    vec words_[LANES];
    UNROLL for (int row = 0; row < LANES; row++) {
        memcpy(words_ + row, from + row * c, sizeof *words_);
        __builtin_prefetch(from + row * c + ahead);
    }
    vec_transpose(words_);
    UNROLL for (int j = 0; j < LANES; j++) {
        uvec bits;
        memcpy(&bits, words_ + j, sizeof bits);
        const vec even = widen(__builtin_convertvector(bits & 0xffffu, hvec));
        const vec odd = widen(__builtin_convertvector(bits >> 16, hvec));
        look(seen + j % 2 * 2, even, floats);
        look(seen + j % 2 * 2 + 1, odd, floats);
        vec_store(to + 2 * j * pitch, even);
        vec_store(to + (2 * j + 1) * pitch, odd);
    }
}
#endif

// LANES pixels of two to four channels, side by side. A pixel is stored with what follows its channels, the next one
// upon that.
INLINE void pack_few(float *to, const elem *from, int64_t c, int64_t x, int64_t channels, words way, vec seen[4]) {
    vec v[4];
    UNROLL for (int i = 0; i < 4; i++) {
        v[i] = i < channels ? load_words(from + i * c, x, LANES, way) : (vec){0};
        look(seen + i, v[i], way);
    }
    const vec a = SHUFFLE(v[0], v[1], QUARTERS(MINGLE, 0, 1)), b = SHUFFLE(v[0], v[1], QUARTERS(MINGLE, 2, 3));
    const vec d = SHUFFLE(v[2], v[3], QUARTERS(MINGLE, 0, 1)), e = SHUFFLE(v[2], v[3], QUARTERS(MINGLE, 2, 3));
    float pixels[4][LANES];
    vec_store(pixels[0], SHUFFLE(a, d, QUARTERS(QUARTER, 0, 1)));
    vec_store(pixels[1], SHUFFLE(a, d, QUARTERS(QUARTER, 2, 3)));
    vec_store(pixels[2], SHUFFLE(b, e, QUARTERS(QUARTER, 0, 1)));
    vec_store(pixels[3], SHUFFLE(b, e, QUARTERS(QUARTER, 2, 3)));
    UNROLL for (int i = 0; i < LANES - 1; i++) memcpy(to + i * channels, pixels[i % 4] + i / 4 * 4, 16);
    for (int64_t i = 0; i < channels; i++)
        to[(LANES - 1) * channels + i] = pixels[3][LANES - 4 + i];
}

// count pixels of `channels` channels: to[pixel * pitch + channel]. Zeros follow up to `fill` channels, a multiple of
// LANES unless it is `channels`.
INLINE void pack_as(float *restrict to, int64_t pitch, const elem *restrict from, int64_t c, int64_t x, int64_t count,
                    int64_t channels, int64_t fill, words way, vec *all_seen) {
    vec seen[4] = {{0}, {0}, {0}, {0}};
    if (channels == 1)
        c = 1;
    if (c == 1 && x == channels && pitch == channels) {
        const int64_t all = count * channels;
        int64_t i = 0;
        for (; i + LANES <= all; i += LANES) {
            const vec v = load_words(from + i, 1, LANES, way);
            __builtin_prefetch(from + i + STREAM);
            look(seen, v, way);
            vec_store(to + i, v);
        }
        if (i < all) {
            const vec v = load_words(from + i, 1, all - i, way);
            look(seen, v, way);
            vec_store_part(to + i, v, all - i);
        }
    } else if (c == 1 && fill <= LANES) {
        // A vector of what a look finds would go to memory and back for each pixel above: 20 cycles.
        const int64_t ahead = 2 * STRIP / (way.pairs ? 2 : 1) * x;
        if (channels == LANES)
            for (int64_t pixel = 0; pixel < count; pixel++, to += pitch, from += x) {
                const vec v = load_words(from, 1, LANES, way);
                __builtin_prefetch(from + ahead, 0, 2);
                if (way.pairs)
                    __builtin_prefetch(from + way.other + ahead, 0, 2);
                look(seen, v, way);
                vec_store(to, v);
            }
        else
            for (int64_t pixel = 0; pixel < count; pixel++, to += pitch, from += x) {
                const vec v = load_words(from, 1, channels, way);
                __builtin_prefetch(from + ahead, 0, 2);
                if (way.pairs)
                    __builtin_prefetch(from + way.other + ahead, 0, 2);
                look(seen, v, way);
                vec_store_part(to, v, fill);
            }
    } else if (c == 1) {
        // Two strips on, both pixels of a pair, to L2: half a strip on, one of them, took 7.2 instead of 5.7 ms, 1x1 56x56
        // 64 -> 256, bf16.
        const int64_t ahead = 2 * STRIP / (way.pairs ? 2 : 1) * x;
        for (int64_t pixel = 0; pixel < count; pixel++, to += pitch, from += x) {
            int64_t i = 0;
            for (; i + LANES <= channels; i += LANES) {
                const vec v = load_words(from + i, 1, LANES, way);
                __builtin_prefetch(from + i + ahead, 0, 2);
                if (way.pairs)
                    __builtin_prefetch(from + i + way.other + ahead, 0, 2);
                look(seen + i / LANES % 4, v, way);
                vec_store(to + i, v);
            }
            if (i < channels) {
                const vec v = load_words(from + i, 1, channels - i, way);
                look(seen, v, way);
                put(to + i, v, least(LANES, fill - i));
                i += LANES;
            }
            for (; i < fill; i += LANES)
                vec_store(to + i, (vec){0});
        }
    } else if (channels <= 4 && pitch == channels && count >= LANES) {
        for (int64_t pixel = 0; pixel < count; pixel += LANES) {
            const int64_t at = least(pixel, count - LANES);
            pack_few(to + at * channels, from + at * x, c, x, channels, way, seen);
        }
    } else {
        const int64_t ahead = c > 4 * STREAM ? STREAM : LANES * c;
        const int64_t line = LINE / (int64_t)sizeof(elem);
        const bool half = way.half, words_lie = x == 1 || (way.pairs && x == 2 * way.other && way.other <= 2);
        for (int64_t i = 0; i < fill; i += LANES) {
            const int64_t rows = most(0, least(LANES, channels - i)), lanes = least(LANES, fill - i);
            int64_t pixel = 0;
#if defined(OPWRIGHT_BF16) || defined(OPWRIGHT_F16)
            if (rows == LANES && x == 1 && !way.pairs)
                for (; pixel + 2 * LANES <= count; pixel += 2 * LANES)
                    pack_square(to + pixel * pitch + i, pitch, from + i * c + pixel, c, ahead, seen);
#endif
            for (; pixel < count; pixel += LANES) {
                const int64_t n = least(LANES, count - pixel);
                const elem *first = from + i * c + pixel * x;
                way.half = half && pixel + n == count;
                float *out = to + pixel * pitch + i;
                vec v[LANES];
                if (rows == LANES && words_lie && n == LANES) {
                    UNROLL for (int row = 0; row < LANES; row++) {
                        v[row] = load_words(first + row * c, x, LANES, way);
                        __builtin_prefetch(first + row * c + ahead);
                        if (x > 2)
                            __builtin_prefetch(first + row * c + ahead + line);
                    }
                } else if (rows == LANES && words_lie) {
                    UNROLL for (int row = 0; row < LANES; row++) {
                        v[row] = load_words(first + row * c, x, n, way);
                        __builtin_prefetch(first + row * c + ahead);
                    }
                } else if (rows == LANES && n == LANES) {
                    UNROLL for (int row = 0; row < LANES; row++) {
                        v[row] = load_words(first + row * c, x, LANES, way);
                        __builtin_prefetch(first + row * c + ahead);
                        __builtin_prefetch(first + row * c + ahead + line);
                    }
                } else {
                    for (int64_t row = 0; row < LANES; row++)
                        v[row] = row < rows ? load_words(first + row * c, x, n, way) : (vec){0};
                }
                UNROLL for (int row = 0; row < LANES; row++) look(seen + row % 4, v[row], way);
                vec_transpose(v);
                if (lanes == LANES && n == LANES) {
                    UNROLL for (int j = 0; j < LANES; j++) vec_store(out + j * pitch, v[j]);
                } else if (lanes == LANES) {
                    UNROLL for (int j = 0; j < LANES; j++) if (j < n) vec_store(out + j * pitch, v[j]);
                } else {
                    UNROLL for (int j = 0; j < LANES; j++) if (j < n) vec_store_part(out + j * pitch, v[j], lanes);
                }
            }
        }
    }
    *all_seen += (seen[0] + seen[1]) + (seen[2] + seen[3]);
}

static void pack(float *restrict to, int64_t pitch, const elem *restrict from, int64_t c, int64_t x, int64_t count,
                 int64_t channels, int64_t fill, vec *seen) {
    pack_as(to, pitch, from, c, x, count, channels, fill, (words){0}, seen);
}
#if OPWRIGHT_PAIRS
static void pack_pairs(float *restrict to, int64_t pitch, const elem *restrict from, int64_t c, int64_t x,
                       int64_t count, int64_t channels, int64_t fill, words way, vec *seen) {
    way.pairs = true;
    pack_as(to, pitch, from, c, x, count, channels, fill, way, seen);
}
#endif

// An odd number of pixels, paired with those that follow them: the last one alone.
static void pack_words(float *to, int64_t pitch, const elem *from, int64_t c, int64_t x, int64_t count,
                       int64_t channels, int64_t fill, bool pairs, vec *seen) {
#if OPWRIGHT_PAIRS
    if (pairs) {
        const int64_t both = count / 2, together = x <= 2 && c != 1 && channels > 4 ? ceil_div(count, 2) : both;
        pack_pairs(to, pitch, from, c, 2 * x, together, channels, fill,
                   (words){.half = together != both, .other = x, .mask = ~0u}, seen);
        if (count % 2 && together == both)
            pack_pairs(to + both * pitch, pitch, from + 2 * both * x, c, 2 * x, 1, channels, fill,
                       (words){.other = 0, .mask = 0xffffu}, seen);
        return;
    }
#endif
    (void)pairs;
    pack(to, pitch, from, c, x, count, channels, fill, seen);
}

// count pixels, `apart`, of n floats each, side by side.
static void gather(float *to, const float *from, int64_t apart, int64_t count, int64_t n) {
    for (int64_t i = 0; i < count; i++)
        memcpy(to + i * n, from + i * apart, (size_t)n * sizeof *to);
}

// One task's place in the problem, and the block it is at.
typedef struct place {
    const plan *l;
    const elem *big, *small;
    int64_t merged, channels;       // groups that share the vector, and small's channels of them
    int64_t a0, a1, b0, b1;         // vectors of those, channels of big
    int64_t at[4], size[4];         // the box: n, then outputs
    float *line;                    // of widened pixels
    bool pairs;                     // words are pairs of bf16 of neighbouring outputs, not floats
} place;

// n words, each a pair of bf16: the upper halves of first and second, which were widened. `to` may be first.
static void make_pairs(float *to, const float *first, const float *second, int64_t n) {
    int64_t i = 0;
    for (uvec low, high; i + LANES <= n; i += LANES) {
        memcpy(&low, first + i, sizeof low);
        memcpy(&high, second + i, sizeof high);
        low = low >> 16 | (high & 0xffff0000u);
        memcpy(to + i, &low, sizeof low);
    }
    for (uint32_t low, high; i < n; i++) {
        memcpy(&low, first + i, sizeof low);
        memcpy(&high, second + i, sizeof high);
        low = low >> 16 | (high & 0xffff0000u);
        memcpy(to + i, &low, sizeof low);
    }
}

static void locate(place *o, int64_t block) {
    const plan *l = o->l;
    const int64_t out[4] = {l->p.N, l->p.small[0], l->p.small[1], l->p.small[2]};
    for (int i = 3; i >= 0; i--) {
        o->at[i] = block % l->boxes[i] * l->box[i];
        o->size[i] = least(l->box[i], out[i] - o->at[i]);
        block /= l->boxes[i];
    }
}

// Where row h of a block is: those that one tap meets are neighbours, so that their runs are one where rows are full.
INLINE int64_t row_place(const plan *l, int64_t h) {
    return l->step[1] == 1 ? h : h % l->step[1] * (l->height / l->step[1]) + h / l->step[1];
}

// The input positions [first, end) of a row's phase r that exist, of `positions` that its taps reach.
INLINE void row_inside(const place *o, int64_t r, int64_t *first, int64_t *end, int64_t *positions) {
    const opwright_problem *p = &o->l->p;
    const int64_t outputs = up_div(o->size[3] - r, o->l->phases), unit = o->l->pace;
    const int64_t begin = (o->at[3] + r) * p->stride[2] - p->pad[2];
    *positions = (outputs - 1) * o->l->step[2] + o->l->reach;
    *first = least(*positions, most(0, up_div(-begin, unit)));
    *end = most(*first, least(*positions, floor_div(p->big[2] - 1 - begin, unit) + 1));
}

// Whether zeros stand for input that does not exist.
static bool pads(const place *o) {
    for (int64_t r = 0; r < least(o->l->phases, o->size[3]); r++) {
        int64_t first, end, positions;
        row_inside(o, r, &first, &end, &positions);
        if (first > 0 || end < positions)
            return true;
    }
    return false;
}

// The input planes (axis 0) or rows (axis 1) of a block, in steps of unit from the first output's first tap: the first
// that exists.
INLINE int64_t first_inside(const place *o, int axis) {
    const opwright_problem *p = &o->l->p;
    return most(0, up_div(p->pad[axis] - o->at[axis + 1] * p->stride[axis], o->l->unit[axis]));
}

// A row of widened bf16 becomes one of pairs: each position, and the one that the next output has in its place. Where
// the outputs are odd in number, the taps of the last one follow behind the row, their second halves 0: it must not
// meet what another output's pair holds there, which may be Inf.
static void pair_row(const place *o, int64_t r, float *row, int64_t channels) {
    const plan *l = o->l;
    const int64_t outputs = ceil_div(o->size[3] - r, l->phases), taps = l->reach, apart = l->jump;
    const int64_t last = (outputs - 1) * apart;
    if (outputs % 2) {
        float *half = row + (l->positions - taps) * channels;
        clear(half, taps * channels);
        make_pairs(half, row + last * channels, half, taps * channels);
    }
    make_pairs(row, row, row + apart * channels, (last + taps - apart) * channels);
}

#if OPWRIGHT_PAIRS
// The same straight from the tensor: words [0, count) of the positions from `at` on, of which [first, end) exist, `x`
// apart; without `second` the second halves are 0. A position has `width` words, of which `channels` are there.
static void pack_row_pairs(const place *o, float *to, const elem *from, int64_t x, int64_t at, int64_t count,
                           int64_t first, int64_t end, bool second, int64_t channels, int64_t width) {
    const opwright_problem *p = &o->l->p;
    const int64_t apart = o->l->jump;
    vec seen = {0};
    for (int64_t i = 0, next; i < count; i = next) {
        const int64_t q = at + i, bounds[] = {first, end, first - apart, end - apart};
        const bool low = q >= first && q < end, high = second && q + apart >= first && q + apart < end;
        next = count;
        for (int j = 0; j < 4; j++)
            if (bounds[j] > q)
                next = least(next, bounds[j] - at);
        const words way = {.other = low && high ? apart * x : 0,
                           .mask = (low ? 0xffffu : 0) | (high ? 0xffff0000u : 0)};
        if (low || high)
            pack_pairs(to + i * width, width, from + (low ? q : q + apart) * x, p->big_c, x, next - i, channels, width,
                       way, &seen);
        else
            clear(to + i * width, (next - i) * width);
    }
}
#endif

// Input rows of a block: [channel block][n][depth][height][phase][position][channel]. Outputs r, r + phases, ... read
// phase r, whose positions lie `dilation` apart in the input, so that an output's taps are neighbours. Rows and
// positions that no tap meets are left out.
static void pack_rows(const place *o, float *rows) {
    const plan *l = o->l;
    const opwright_problem *p = &l->p;
    const int64_t cells = l->box[0] * l->depth * l->height * l->phases * l->positions;
    const int64_t deep_reach = (p->taps[0] - 1) * p->dilation[0] / l->unit[0] + 1;
    const int64_t high_reach = (p->taps[1] - 1) * p->dilation[1] / l->unit[1] + 1;
    const int64_t deep = (o->size[1] - 1) * l->step[0] + deep_reach, high = (o->size[2] - 1) * l->step[1] + high_reach;
    const int64_t d0 = first_inside(o, 0), h0 = first_inside(o, 1);
    const int64_t begin = o->at[3] * p->stride[2] - p->pad[2], low = most(0, begin);
    const int64_t beyond = least(
        p->big[2], begin + (o->size[3] - 1) * p->stride[2] + (p->taps[2] - 1) * p->dilation[2] + 1);
    vec seen = {0};
    for (int64_t b = o->b0; b < o->b1; b += CHANNELS) {
        const int64_t each = least(CHANNELS, o->b1 - b), channels = each * o->merged, width = each * l->merged;
        for (int64_t n = 0; n < o->size[0]; n++)
            for (int64_t d = d0; d < deep; d++) {
                const int64_t id = o->at[1] * p->stride[0] - p->pad[0] + d * l->unit[0];
                if (id >= p->big[0])
                    break;
                if (d % l->step[0] >= deep_reach)
                    continue;
                for (int64_t h = h0; h < high; h++) {
                    const int64_t ih = o->at[2] * p->stride[1] - p->pad[1] + h * l->unit[1];
                    if (ih >= p->big[1])
                        break;
                    if (h % l->step[1] >= high_reach)
                        continue;
                    const elem *from = o->big + (o->at[0] + n) * p->big_n + b * p->big_c + id * p->big_x[0] +
                                       ih * p->big_x[1];
                    if (l->lines && low < beyond)
                        pack(o->line, width, from + low * p->big_x[2], p->big_c, p->big_x[2], beyond - low, channels,
                             width, &seen);
                    for (int64_t r = 0; r < least(l->phases, o->size[3]); r++) {
                        const int64_t at_row = (n * l->depth + d - d0) * l->height + row_place(l, h - h0);
                        const int64_t place = at_row * l->phases + r;
                        float *to = rows + (b - o->b0) * cells + place * l->positions * width;
                        const int64_t outputs = up_div(o->size[3] - r, l->phases);
                        const int64_t origin = (o->at[3] + r) * p->stride[2] - p->pad[2];
                        int64_t first, end, positions;
                        row_inside(o, r, &first, &end, &positions);
                        const elem *at = from + origin * p->big_x[2];
                        const int64_t x = l->pace * p->big_x[2], line_x = l->pace * width;
                        const float *line = o->line + (origin - low) * width;
                        if (o->pairs && l->tight) {
                            pack_words(to, width, at, p->big_c, x * l->step[2], outputs, width, width, true, &seen);
                            continue;
                        }
#if OPWRIGHT_PAIRS
                        if (o->pairs && p->big_c == 1 && !l->lines && l->jump == l->step[2]) {
                            const int64_t last = (outputs - 1) * l->jump;
                            pack_row_pairs(o, to, at, x, 0, last + l->reach - l->jump, first, end, true, channels,
                                           width);
                            if (outputs % 2)
                                pack_row_pairs(o, to + (l->positions - l->reach) * width, at, x, last, l->reach, first,
                                               end, false, channels, width);
                            continue;
                        }
#endif
                        // Where positions are left out, each output's are a stretch of their own.
                        const bool whole = l->jump == l->step[2];
                        for (int64_t i = 0; i < (whole ? 1 : outputs); i++) {
                            float *out = to + i * l->jump * width;
                            const int64_t q = i * l->step[2], all = whole ? positions : l->reach;
                            const int64_t from_q = least(q + all, most(q, first));
                            const int64_t to_q = most(from_q, least(q + all, end));
                            clear(out, (from_q - q) * width);
                            out += (from_q - q) * width;
                            if (from_q < to_q && l->lines)
                                gather(out, line + from_q * line_x, line_x, to_q - from_q, width);
                            else if (from_q < to_q)
                                pack(out, width, at + from_q * x, p->big_c, x, to_q - from_q, channels, width, &seen);
                            clear(out + (to_q - from_q) * width, (q + all - to_q) * width);
                        }
                        if (o->pairs)
                            pair_row(o, r, to, width);
                    }
                }
            }
    }
}

// Words of the panel for the outputs of one phase of one row.
INLINE int64_t panel_pixels(const place *o, int64_t outputs) { return o->pairs ? round_up(outputs, 2) / 2 : outputs; }

// `count` outputs of a row to all panels of the vectors [v0, v1), from the word `at` on.
static void pack_outputs(const place *o, int64_t v0, int64_t v1, float *panels, const elem *from, int64_t x,
                         int64_t count, int64_t at) {
    const plan *l = o->l;
    const opwright_problem *p = &l->p;
    // Where a pixel's channels are neighbours, all are read before the next pixel's.
    const int64_t strip = p->small_c == 1 && v1 - v0 > l->together ? STRIP : most(count, 1);
    for (int64_t i = 0; i < count; i += strip)
        for (int64_t v = v0, together; v < v1; v += together) {
            together = least(l->together, v1 - v);
            const int64_t lanes = together * LANES, channels = least(lanes, o->channels - v * LANES);
            float *panel = panels + (v - v0) / l->together * panel_floats(l);
            vec *seen = (vec *)(void *)(panel + panel_floats(l) - LANES);
            pack_words(panel + (at + (o->pairs ? i / 2 : i)) * lanes, lanes, from + i * x + v * LANES * p->small_c,
                       p->small_c, x, least(strip, count - i), channels, lanes, o->pairs, seen);
        }
}

// Outputs of a block for the vectors [v0, v1) of channels, those that go together in a panel of their own: [n][depth]
// [height][phase][output][lane].
static void pack_panels(const place *o, int64_t v0, int64_t v1, float *panels) {
    const plan *l = o->l;
    const opwright_problem *p = &l->p;
    const elem *from = 0;
    int64_t to = 0, count = 0, at = 0;
    for (int64_t v = v0; v < v1; v += l->together)
        vec_store(panels + (v - v0) / l->together * panel_floats(l) + panel_floats(l) - LANES, (vec){0});
    for (int64_t n = 0; n < o->size[0]; n++)
        for (int64_t d = 0; d < o->size[1]; d++)
            for (int64_t h = 0; h < o->size[2]; h++)
                for (int64_t r = 0; r < least(l->phases, o->size[3]); r++) {
                    const elem *next = o->small + (o->at[0] + n) * p->small_n + (o->at[1] + d) * p->small_x[0] +
                                       (o->at[2] + h) * p->small_x[1] + (o->at[3] + r) * p->small_x[2];
                    const int64_t outputs = up_div(o->size[3] - r, l->phases);
                    // Rows that follow each other in memory are one.
                    const bool goes_on = count && l->phases == 1 && at == to + panel_pixels(o, count) &&
                                         (!o->pairs || count % 2 == 0) && next == from + count * p->small_x[2];
                    if (!goes_on) {
                        pack_outputs(o, v0, v1, panels, from, l->phases * p->small_x[2], count, to);
                        from = next, to = at, count = 0;
                    }
                    count += outputs;
                    at += panel_pixels(o, outputs);
                }
    pack_outputs(o, v0, v1, panels, from, l->phases * p->small_x[2], count, to);
}

// Whether a panel holds an Inf or NaN.
static bool met_special(const plan *l, const float *panel) {
    const vec seen = vec_load(panel + panel_floats(l) - LANES);
    return uvec_any((uvec)(seen != seen));
}


// Adds a run, to the last one where it goes on there.
INLINE void add_run(run *runs, int64_t *count, run next, int64_t panel_step, int64_t row_step) {
    run *last = runs + *count - 1;
    if (next.count <= 0)
        return;
    if (*count && last->panel + last->count * panel_step == next.panel &&
        last->row + last->count * row_step == next.row)
        last->count += next.count;
    else
        runs[(*count)++] = next;
}

// The runs of one tap row (kd, kh) of a block, in which panel and rows are walked in step. kw < 0: all taps of the row
// together, padding included; else one tap, where its input exists.
static int64_t runs_of(const place *o, int64_t kd, int64_t kh, int64_t kw, run *runs) {
    const plan *l = o->l;
    const opwright_problem *p = &l->p;
    const int64_t each = o->pairs ? 2 : 1;
    const int64_t panel_step = l->stays ? l->phases * p->small_x[2] : 1;
    const int64_t row_step = o->pairs && l->tight ? 1 : each * l->jump;
    const int64_t d0 = kd * (p->dilation[0] / l->unit[0]) - first_inside(o, 0);
    const int64_t h0 = kh * (p->dilation[1] / l->unit[1]) - first_inside(o, 1);
    int64_t count = 0, pixels = 0;
    for (int64_t n = 0; n < o->size[0]; n++)
        for (int64_t od = 0; od < o->size[1]; od++)
            for (int64_t oh = 0; oh < o->size[2]; oh++) {
                const int64_t id = (o->at[1] + od) * p->stride[0] + kd * p->dilation[0] - p->pad[0];
                const int64_t ih = (o->at[2] + oh) * p->stride[1] + kh * p->dilation[1] - p->pad[1];
                const bool inside = id >= 0 && id < p->big[0] && ih >= 0 && ih < p->big[1];
                const int64_t d = od * l->step[0] + d0, h = oh * l->step[1] + h0;
                for (int64_t r = 0; r < least(l->phases, o->size[3]); r++) {
                    const int64_t outputs = up_div(o->size[3] - r, l->phases);
                    const int64_t line = (n * l->depth + d) * l->height + (inside ? row_place(l, h) : 0);
                    const int64_t row = (line * l->phases + r) * l->positions;
                    const int64_t panel = l->stays ? (o->at[0] + n) * p->small_n +
                                                               (o->at[1] + od) * p->small_x[0] +
                                                               (o->at[2] + oh) * p->small_x[1] +
                                                               (o->at[3] + r) * p->small_x[2]
                                                         : pixels;
                    int64_t first = 0, end = outputs;
                    if (kw >= 0) {
                        int64_t from, to, positions;
                        row_inside(o, r, &from, &to, &positions);
                        first = least(outputs, most(0, up_div(from - kw * l->hop, l->step[2])));
                        end = least(outputs, floor_div(to - 1 - kw * l->hop, l->step[2]) + 1);
                    }
                    if (inside) {
                        const int64_t whole = l->tight ? ceil_div(end - first, each) : (end - first) / each;
                        const run next = {panel + first * panel_step, row + first * l->jump, whole};
                        add_run(runs, &count, next, panel_step, row_step);
                        if (o->pairs && outputs % 2 && !l->tight)
                            add_run(runs, &count, (run){panel + outputs / 2, row + l->positions - l->odd, 1},
                                    panel_step, row_step);
                    }
                    pixels += panel_pixels(o, outputs);
                }
            }
    return count;
}

typedef struct operands {
    const run *runs;
    int64_t count;
    const void *panel; // words; of halves that stay, elements
    const float *row;
    int64_t panel_scale, row_scale; // floats: of what runs count in
    int64_t panel_step, row_step;   // from output to output
    float *dw;
    int64_t pitch;
    bool first;
    ivec lanes;                     // merged groups: of a position's words, which each lane meets first
    int64_t channels;               // and how many of big one has
} operands;

// Rows hold words: floats, or pairs of bf16. So does the panel, or OTHER elements. FETCH: whether a panel's later pixels
// are fetched ahead.
#define TILE(NAME, OTHER, LOAD, WORD, WORDS, ADD, FETCH, MR, NB)                                                       \
    static void NAME##_##MR##x##NB(const operands *t) {                                                                \
        vec sum[MR][NB];                                                                                               \
        UNROLL for (int m = 0; m < MR; m++) UNROLL for (int v = 0; v < NB; v++) sum[m][v] = (vec){0};                  \
        const int64_t panel_step = t->panel_step, row_step = t->row_step;                                              \
        UNROLL for (int m = 0; m < MR; m++) UNROLL for (int v = 0; v < NB; v++)                                        \
            __builtin_prefetch(t->dw + m * t->pitch + v * LANES, 1);                                                   \
        for (int64_t i = 0; i < t->count; i++) {                                                                       \
            const OTHER *panel = (const OTHER *)t->panel + t->runs[i].panel * t->panel_scale;                          \
            const float *row = t->row + t->runs[i].row * t->row_scale;                                                 \
            _Pragma("GCC unroll 2") for (int64_t left = t->runs[i].count; left; left--) {                              \
                WORDS b[NB];                                                                                           \
                WORD a;                                                                                                \
                UNROLL for (int v = 0; v < NB; v++) LOAD(b[v], panel + v * LANES);                                     \
                UNROLL for (int v = 0; FETCH && v < NB; v += LINE / (LANES * sizeof *panel))                           \
                    __builtin_prefetch(panel + AHEAD * panel_step + v * LANES);                                        \
                UNROLL for (int m = 0; m < MR; m++) {                                                                  \
                    memcpy(&a, row + m, sizeof a);                                                                     \
                    UNROLL for (int v = 0; v < NB; v++) sum[m][v] = ADD(sum[m][v], a - (WORDS){0}, b[v]);              \
                }                                                                                                      \
                UNROLL for (int m = 0; m < MR; m++) UNROLL for (int v = 0; v < NB; v++) PIN(sum[m][v]);                \
                panel += panel_step, row += row_step;                                                                  \
            }                                                                                                          \
        }                                                                                                              \
        UNROLL for (int m = 0; m < MR; m++) UNROLL for (int v = 0; v < NB; v++) {                                      \
            float *to = t->dw + m * t->pitch + v * LANES;                                                              \
            vec_store(to, t->first ? sum[m][v] : vec_load(to) + sum[m][v]);                                            \
        }                                                                                                              \
    }
// The same for merged groups: taps x channels, a row's words of all groups being a vector. The loads of a tap's vectors
// beyond its own words stay within the scratch.
#define MERGED_TILE(NAME, WORDS, ADD, TAPS, MB)                                                                        \
    static void NAME##_##TAPS##x##MB(const operands *t) {                                                              \
        vec sum[TAPS][MB];                                                                                             \
        ivec lanes[MB];                                                                                                \
        UNROLL for (int m = 0; m < MB; m++) lanes[m] = t->lanes + m;                                                   \
        UNROLL for (int k = 0; k < TAPS; k++) UNROLL for (int m = 0; m < MB; m++) sum[k][m] = (vec){0};                \
        for (int64_t i = 0; i < t->count; i++) {                                                                       \
            const float *panel = (const float *)t->panel + t->runs[i].panel * t->panel_scale;                          \
            const float *row = t->row + t->runs[i].row * t->row_scale;                                                 \
            for (int64_t left = t->runs[i].count; left; left--) {                                                      \
                WORDS a, b;                                                                                            \
                memcpy(&b, panel, sizeof b);                                                                           \
                UNROLL for (int k = 0; k < TAPS; k++) {                                                                \
                    const vec all = vec_load(row + k * t->row_scale);                                                  \
                    UNROLL for (int m = 0; m < MB; m++) {                                                              \
                        const vec picked = vec_pick(all, lanes[m]);                                                    \
                        memcpy(&a, &picked, sizeof a);                                                                 \
                        sum[k][m] = ADD(sum[k][m], a, b);                                                              \
                    }                                                                                                  \
                }                                                                                                      \
                UNROLL for (int k = 0; k < TAPS; k++) UNROLL for (int m = 0; m < MB; m++) PIN(sum[k][m]);              \
                panel += t->panel_step, row += t->row_step;                                                            \
            }                                                                                                          \
        }                                                                                                              \
        UNROLL for (int k = 0; k < TAPS; k++) UNROLL for (int m = 0; m < MB; m++) {                                    \
            float *to = t->dw + (k * t->channels + m) * t->pitch;                                                      \
            vec_store(to, t->first ? sum[k][m] : vec_load(to) + sum[k][m]);                                            \
        }                                                                                                              \
    }
typedef void tile(const operands *);

#define ADD_FLOATS(sum, a, b) ((sum) + (a) * (b))
#define LOAD_WORDS(to, from) memcpy(&(to), from, sizeof(to))
#define FLOAT_TILE(MR, NB) TILE(floats, float, LOAD_WORDS, float, vec, ADD_FLOATS, false, MR, NB)
#define FLOAT_ENTRY(MR, NB) [NB][MR] = floats_##MR##x##NB,
#if OPWRIGHT_PAIRS
#define PAIR_TILE(MR, NB) TILE(pairs, float, LOAD_WORDS, uint32_t, uvec, dot_pairs, false, MR, NB)
#define PAIR_ENTRY(MR, NB) [NB][MR] = pairs_##MR##x##NB,
FEW_TILES(FLOAT_TILE)
TILES(PAIR_TILE)
static tile *const tiles[2][MOST_VECTORS + 1][MOST_ROWS + 1] = {{FEW_TILES(FLOAT_ENTRY)}, {TILES(PAIR_ENTRY)}};
#else
TILES(FLOAT_TILE)
static tile *const tiles[1][MOST_VECTORS + 1][MOST_ROWS + 1] = {{TILES(FLOAT_ENTRY)}};
#endif

// Where small stays and a task walks a part of each pixel at a time, which no hardware foresees: 4.2 instead of 6.5 ms,
// 10 taps of one channel, stride 5, to 512; 16 instead of 48 pixels ahead: 6.3 instead of 5.0, 1x1 112x112 16 -> 96. All
// tiles with it lose up to 5 %.
#if defined(OPWRIGHT_F32)
#define FAR_TILE(MR, NB) TILE(far, float, LOAD_WORDS, float, vec, ADD_FLOATS, true, MR, NB)
#define FAR_ENTRY(MR, NB) [NB][MR] = far_##MR##x##NB,
FAR_TILES(FAR_TILE)
static tile *const far_tiles[MOST_VECTORS + 1][MOST_ROWS + 1] = {FAR_TILES(FAR_ENTRY)};
#elif HALVES
#define LOAD_HALVES(to, from) (to) = elem_load(from)
#define HALF_TILE(MR, NB) TILE(halves, elem, LOAD_HALVES, float, vec, ADD_FLOATS, true, MR, NB)
#define HALF_ENTRY(MR, NB) [NB][MR] = halves_##MR##x##NB,
HALF_TILES(HALF_TILE)
static tile *const half_tiles[MOST_VECTORS + 1][MOST_ROWS + 1] = {HALF_TILES(HALF_ENTRY)};
#endif

#define MERGED_FLOATS(TAPS, MB) MERGED_TILE(merged_floats, vec, ADD_FLOATS, TAPS, MB)
#define MERGED_FLOATS_ENTRY(TAPS, MB) [TAPS][MB] = merged_floats_##TAPS##x##MB,
MERGED_TILES(MERGED_FLOATS)
#if OPWRIGHT_PAIRS
#define MERGED_PAIRS(TAPS, MB) MERGED_TILE(merged_pairs, uvec, dot_pairs, TAPS, MB)
#define MERGED_PAIRS_ENTRY(TAPS, MB) [TAPS][MB] = merged_pairs_##TAPS##x##MB,
MERGED_TILES(MERGED_PAIRS)
static tile *const merged_tiles[2][MOST_MERGED_TAPS + 1][LANES / 2 + 1] = {{MERGED_TILES(MERGED_FLOATS_ENTRY)},
                                                                          {MERGED_TILES(MERGED_PAIRS_ENTRY)}};
#else
static tile *const merged_tiles[1][MOST_MERGED_TAPS + 1][LANES / 2 + 1] = {{MERGED_TILES(MERGED_FLOATS_ENTRY)}};
#endif

// Rows of the next tile: as even as there are tiles for. One row alone takes as long as eight.
INLINE int64_t rows_together(tile *const *table, int64_t most_, int64_t left) {
    const int64_t parts = ceil_div(left, most_);
    int64_t rows = ceil_div(left, parts);
    if (table[rows])
        return rows;
    for (int64_t some = ceil_div(left, most(parts, 2)); some <= most_ && some < left; some++)
        if (table[some] && (parts > 2 || table[left - some]))
            return some;
    rows = ceil_div(rows, 2);
    while (!table[rows])
        rows--;
    return rows;
}

// The taps and channels of a row of merged groups, of which t tells where they begin.
static void multiply_merged(const plan *l, tile *const (*table)[LANES / 2 + 1], int64_t taps, operands t) {
    for (int lane = 0; lane < LANES; lane++)
        t.lanes[lane] = (int32_t)(least(lane / l->each, l->merged - 1) * t.channels);
    const ivec lanes = t.lanes;
    float *const dw = t.dw;
    // As even as may be; of many channels, half as many.
    const int64_t parts = table[least(taps, 3)][t.channels] ? 1 : 2, each = ceil_div(t.channels, parts);
    for (int64_t k = 0, now; k < taps; k += now, t.row += now * t.row_scale) {
        now = least(taps - k, MOST_MERGED_TAPS);
        now = ceil_div(taps - k, ceil_div(taps - k, now));
        while (!table[now][each])
            now--;
        for (int64_t b = 0, some; b < t.channels; b += some) {
            some = least(each, t.channels - b);
            t.lanes = lanes + (int32_t)b, t.dw = dw + (k * t.channels + b) * t.pitch;
            table[now][some](&t);
        }
    }
}

// dw of `vectors` vectors of lanes: [kd][kh][channel block][kw][channel][lane], or, where it goes straight out, as the
// weights are.
static void multiply(const place *o, int64_t vectors, const void *panel, const float *rows, bool special, run *runs,
                     float *dw, bool first) {
    const plan *l = o->l;
    const opwright_problem *p = &l->p;
    const int64_t cells = l->box[0] * l->depth * l->height * l->phases * l->positions, all = o->b1 - o->b0;
    const int64_t groups = special || l->straight || l->hop > 1 ? p->taps[2] : 1; // taps walked one by one
    tile *const *table = tiles[o->pairs][vectors];
#if HALVES
    if (l->stays)
        table = half_tiles[vectors];
#endif
    const int64_t most_now = most_rows[vectors];
    int64_t count = 0;
    for (int64_t kd = 0; kd < p->taps[0]; kd++)
        for (int64_t kh = 0; kh < p->taps[1]; kh++)
            for (int64_t kw = 0; kw < groups; kw++) {
                if (kw == 0 || special)
                    count = runs_of(o, kd, kh, special ? kw : -1, runs);
                if (count == 0 && !first)
                    continue;
                for (int64_t b = 0; b < all; b += CHANNELS) {
                    const int64_t channels = least(CHANNELS, all - b);
                    const int64_t together = groups == 1 ? p->taps[2] * channels : channels;
                    const int64_t start = ((kd * p->taps[1] + kh) * all + b) * p->taps[2] + kw * channels;
                    const int64_t width = channels * l->merged;
                    operands t = {runs, count, panel, 0, vectors * LANES, width, vectors * LANES,
                                  width * (o->pairs && l->tight ? 1 : l->jump * (o->pairs ? 2 : 1)), 0,
                                  vectors * LANES, first, {0}, channels};
                    if (l->stays)
                        t.panel_scale = 1, t.panel_step = l->phases * p->small_x[2];
                    float *to = dw + start * t.pitch;
                    if (l->straight) {
                        t.pitch = p->w_b;
                        to = dw + kd * p->w_k[0] + kh * p->w_k[1] + kw * p->w_k[2] + b * p->w_b;
                    }
                    t.row = rows + b * cells + kw * l->hop * width, t.dw = to;
                    if (l->merged > 1) {
                        multiply_merged(l, merged_tiles[o->pairs], together / channels, t);
                        continue;
                    }
                    for (int64_t m = 0, now; m < together; m += now, t.row += now, t.dw += now * t.pitch) {
                        now = rows_together(table, most_now, together - m);
                        tile *text = table[now];
#if defined(OPWRIGHT_F32)
                        if (l->stays && l->vectors > l->together && far_tiles[vectors][now])
                            text = far_tiles[vectors][now];
#endif
                        text(&t);
                    }
                }
            }
}

// Rounds dw of `vectors` vectors of lanes into the weights, which start at the group's first.
static void finish(const place *o, int64_t vector, int64_t vectors, const float *dw, elem *weights) {
    const opwright_problem *p = &o->l->p;
    const int64_t pitch = vectors * LANES, lanes = least(pitch, o->channels - vector * LANES), each = o->l->each;
    weights += vector * LANES * p->w_a;
    for (int64_t b0 = o->b0; b0 < o->b1; b0 += CHANNELS) {
        const int64_t channels = least(CHANNELS, o->b1 - b0), all = o->b1 - o->b0;
        const float *from = dw + p->taps[2] * (b0 - o->b0) * pitch;
        elem *to = weights + b0 * p->w_b;
        // In the order of the weights in memory.
        struct axis {
            int64_t count, to, from;
        } axes[4] = {
            {p->taps[0], p->w_k[0], p->taps[1] * p->taps[2] * all * pitch},
            {p->taps[1], p->w_k[1], p->taps[2] * all * pitch},
            {p->taps[2], p->w_k[2], channels * pitch},
            {channels, p->w_b, pitch},
        };
        for (int i = 0; i < 4; i++) {
            if (axes[i].to < 0) {
                to += (axes[i].count - 1) * axes[i].to, from += (axes[i].count - 1) * axes[i].from;
                axes[i].to = -axes[i].to, axes[i].from = -axes[i].from;
            }
            for (int j = i; j > 0 && axes[j].to > axes[j - 1].to; j--) {
                const struct axis other = axes[j];
                axes[j] = axes[j - 1], axes[j - 1] = other;
            }
        }
        int64_t places[LANES], rows[LANES], count = 0;
        for (int64_t i = 0; i < axes[0].count; i++)
            for (int64_t j = 0; j < axes[1].count; j++)
                for (int64_t k = 0; k < axes[2].count; k++)
                    for (int64_t m = 0; m < axes[3].count; m++) {
                        places[count] = i * axes[0].to + j * axes[1].to + k * axes[2].to + m * axes[3].to;
                        rows[count] = i * axes[0].from + j * axes[1].from + k * axes[2].from + m * axes[3].from;
                        if (p->w_a == 1 && (o->l->merged == 1 || p->w_g == each)) {
                            int64_t lane = 0;
                            for (; lane + LANES <= lanes; lane += LANES)
                                elem_store(to + places[0] + lane, vec_load(from + rows[0] + lane));
                            if (lane < lanes)
                                elem_store_part(to + places[0] + lane, vec_load(from + rows[0] + lane), lanes - lane);
                            continue;
                        }
                        const bool last = i + 1 == axes[0].count && j + 1 == axes[1].count && k + 1 == axes[2].count &&
                                          m + 1 == axes[3].count;
                        if (++count < LANES && !last)
                            continue;
                        const bool beside = places[count - 1] - places[0] == count - 1;
                        for (int64_t lane = 0; lane < lanes; lane += LANES) {
                            vec v[LANES];
                            if (beside && count == LANES && lanes - lane >= LANES && o->l->merged == 1) {
                                elem *out = to + lane * p->w_a + places[0];
                                UNROLL for (int64_t row = 0; row < LANES; row++) v[row] = vec_load(from + rows[row] + lane);
                                vec_transpose(v);
                                UNROLL for (int64_t a = 0; a < LANES; a++) {
                                    __builtin_prefetch((const void *)((uintptr_t)(out + a * p->w_a) + AHEAD_LINES * LINE), 1);
                                    elem_store(out + a * p->w_a, v[a]);
                                }
                                continue;
                            }
                            for (int64_t row = 0; row < LANES; row++)
                                v[row] = row < count ? vec_load(from + rows[row] + lane) : (vec){0};
                            vec_transpose(v);
                            for (int64_t a = 0; a < least(LANES, lanes - lane); a++) {
                                elem *out = to + (lane + a) / each * p->w_g + (lane + a) % each * p->w_a;
                                if (beside)
                                    elem_store_part(out + places[0], v[a], count);
                                else
                                    for (int64_t row = 0; row < count; row++)
                                        elem_put(out + places[row], v[a][row]);
                            }
                        }
                        count = 0;
                    }
    }
}

typedef struct call {
    const plan *l;
    const elem *big, *small;
    elem *weights;
    char *scratch;
    float *dw; // of all tasks, where there are chunks
} call;

static int64_t worker_bytes(const plan *l) {
    const int64_t floats = l->floats[0] + l->floats[1] + l->floats[2] + l->floats[3];
    return round_up(4 * floats + (int64_t)sizeof(run) * l->runs, 64);
}

static place task_place(const call *c, int64_t part, int64_t *group) {
    const plan *l = c->l;
    const opwright_problem *p = &l->p;
    const int64_t a = part % l->a_parts, b = part / l->a_parts % l->b_parts;
    *group = part / l->a_parts / l->b_parts;
    place o = {.l = l};
    o.merged = least(l->merged, l->groups - *group * l->merged), o.channels = o.merged * l->each;
    o.a0 = a * l->a_part, o.a1 = least(l->vectors, o.a0 + l->a_part);
    o.b0 = b * l->b_part, o.b1 = least(p->B, o.b0 + l->b_part);
    o.big = c->big + *group * l->merged * p->B * p->big_c;
    o.small = c->small + l->first_small + *group * p->A * p->small_c;
    return o;
}

static void reduce(const void *context, int64_t task, int64_t worker) {
    const call *c = context;
    const plan *l = c->l;
    const int64_t taps = l->p.taps[0] * l->p.taps[1] * l->p.taps[2];
    float *rows = (float *)(c->scratch + worker * worker_bytes(l)), *panels = rows + l->floats[0];
    float *dw = panels + l->floats[1];
    float *line = dw + l->floats[2];
    run *runs = (run *)(line + l->floats[3]);
    if (l->chunks > 1)
        dw = c->dw + task * l->dw;
    int64_t group;
    place o = task_place(c, task % l->tiles, &group);
    o.line = line;
    const int64_t chunk = task / l->tiles, begin = l->blocks * chunk / l->chunks;
    const int64_t end = l->blocks * (chunk + 1) / l->chunks;
    for (int64_t block = begin; block < end; block++) {
        locate(&o, block);
        const bool padded = pads(&o);
        int packed = -1; // rows as pairs: neither yet
        o.pairs = OPWRIGHT_PAIRS;
        if (!l->stays)
            pack_panels(&o, o.a0, o.a1, panels);
        for (int64_t v = o.a0, together; v < o.a1; v += together) {
            together = least(l->together, o.a1 - v);
            float *to = dw + (l->in_one ? 0 : (v - o.a0) * LANES * taps * (o.b1 - o.b0));
            if (l->straight)
                to = (float *)(void *)(c->weights + group * l->merged * l->p.w_g + o.b0 * l->p.w_b) + v * LANES;
            float *panel = panels + (v - o.a0) / l->together * panel_floats(l);
            const bool special = !l->stays && padded && met_special(l, panel);
            o.pairs = OPWRIGHT_PAIRS && !special;
            if (OPWRIGHT_PAIRS && special)
                pack_panels(&o, v, v + together, panel);
            if (packed != o.pairs)
                pack_rows(&o, rows);
            packed = o.pairs;
            multiply(&o, together, l->stays ? (const void *)(o.small + v * LANES) : panel, rows, special,
                     runs, to, block == begin);
            if (l->chunks == 1 && block + 1 == end && !l->straight)
                finish(&o, v, together, to, c->weights + group * l->merged * l->p.w_g);
        }
    }
}

// Sums the chunks of the lanes that go together, in their order.
static void combine(const void *context, int64_t task, int64_t worker) {
    (void)worker;
    const call *c = context;
    const plan *l = c->l;
    const int64_t taps = l->p.taps[0] * l->p.taps[1] * l->p.taps[2];
    const int64_t each = ceil_div(l->a_part, l->together), part = task / each;
    int64_t group;
    place o = task_place(c, part, &group);
    const int64_t v = o.a0 + task % each * l->together, together = least(l->together, o.a1 - v);
    if (together <= 0)
        return;
    const int64_t rows = LANES * taps * (o.b1 - o.b0);
    float *dw = c->dw + part * l->dw + (v - o.a0) * rows;
    for (int64_t i = 0; i < together * rows; i += LANES) {
        vec sum = vec_load(dw + i);
        for (int64_t chunk = 1; chunk < l->chunks; chunk++)
            sum += vec_load(dw + chunk * l->tiles * l->dw + i);
        vec_store(dw + i, sum);
    }
    finish(&o, v, together, dw, c->weights + group * l->merged * l->p.w_g);
}

// With stride 1 the operands can change places: big[i] meets small[i - k*dilation + pad], a tap of small with the order
// of taps reversed. Lanes are then big's channels, for which few channels of small are a reason.
static bool swaps(const opwright_problem *p) {
    if (p->stride[0] != 1 || p->stride[1] != 1 || p->stride[2] != 1)
        return false;
    return ceil_div(p->A, LANES) * p->B >= 2 * ceil_div(p->B, LANES) * p->A;
}
static opwright_problem swapped(const opwright_problem *p, int64_t *first_weight) {
    opwright_problem q = *p;
    q.A = p->B, q.B = p->A, q.w_a = p->w_b, q.w_b = p->w_a;
    q.small_n = p->big_n, q.small_c = p->big_c, q.big_n = p->small_n, q.big_c = p->small_c;
    *first_weight = 0;
    for (int i = 0; i < 3; i++) {
        q.small[i] = p->big[i], q.small_x[i] = p->big_x[i], q.big[i] = p->small[i], q.big_x[i] = p->small_x[i];
        q.pad[i] = (p->taps[i] - 1) * p->dilation[i] - p->pad[i];
        q.w_k[i] = -p->w_k[i];
        *first_weight += (p->taps[i] - 1) * p->w_k[i];
    }
    return q;
}

int64_t OPWRIGHT_NAME(weights_scratch)(const opwright_problem *p, int64_t workers) {
    int64_t first_weight;
    if (p->G * p->A * p->B == 0)
        return 0;
    const opwright_problem q = swaps(p) ? swapped(p, &first_weight) : *p;
    const plan l = plan_of(&q, workers);
    return workers * worker_bytes(&l) + (l.chunks > 1 ? l.chunks * l.tiles * l.dw * 4 : 0);
}

void OPWRIGHT_NAME(weights)(const opwright_problem *p, const elem *big, const elem *small, elem *weights,
                            const opwright_team *team, void *scratch) {
    if (p->G * p->A * p->B == 0)
        return;
    const int64_t workers = team ? team->workers : 1;
    const bool swap = swaps(p);
    int64_t first_weight = 0;
    const opwright_problem q = swap ? swapped(p, &first_weight) : *p;
    const plan l = plan_of(&q, workers);
    call c = {&l, swap ? small : big, swap ? big : small, weights + first_weight, scratch,
              (float *)((char *)scratch + workers * worker_bytes(&l))};
    opwright_run(team, reduce, &c, l.tiles * l.chunks);
    if (l.chunks > 1)
        opwright_run(team, combine, &c, l.tiles * ceil_div(l.a_part, l.together));
}
