// w of groups with one channel on either side, over channel lanes: the vectors are neighbouring channels.
//
// For tensors with channels last, and planes that are copied to scratch so, LANES channels at a time. A block of taps has its
// sums in registers while some rows are walked. Sums consist of chunks that depend only on the problem and are added in order.
//
// Figures: see engine.h.

#include "depthwise_blocks.h"

#include "depthwise_weights_tiles.h"

enum { FEWEST_COPIES = 8 }; // blocks of all images: fewer are too few tasks

// Whether planes are copied to scratch, a block of channels at a time. With channels last, for kernels of many taps:
// 31x31 over 28x28x256 f32 2.0 instead of 3.1 ms, f16 1.8 instead of 3.5.
static bool w_copied(const opwright_problem *p) {
    return !channels_last(p) || (many_taps(p) && p->N * ceil_div(p->G, LANES) >= FEWEST_COPIES);
}

// The scratch elements of one input element: wider if many taps read them.
static int64_t w_elems(const opwright_problem *p) { return many_taps(p) ? UNIT_ELEMS : 1; }

static int64_t plane_bytes(const int64_t size[3]) { return whole_lines(volume(size) * LANES * (int64_t)sizeof(elem)); }
static int64_t own_bytes(const opwright_problem *p) {
    return w_copied(p) ? (plane_bytes(p->big) + plane_bytes(p->small)) * w_elems(p) : 0;
}

enum { SUM_PIXELS = 128, W_BLOCKS = 16 }; // of a round; of a task

// All taps over rows [row, end) of one image and `G` channels.
// Prefetching the rows of the next round costs more than it saves: 0.8 ms without, 1.1 with for 16 images of 14x14x512.
static void w_rows(const bool units, const opwright_problem *p, const elem *big, const elem *small, int64_t G,
                   int64_t row, int64_t end, float *sums) {
    const int64_t several = max(1, SUM_PIXELS / p->small[2]), K = volume(p->taps);
    for (; row < end; row += several)
        for (int64_t g = 0; g < G; g += LANES) {
            for (int64_t d = 0; d < p->taps[0]; d++)
                for (int64_t h = 0, rows; h < p->taps[1]; h += rows) {
                    rows = 1;
                    for (int64_t w = 0, columns; w < p->taps[2]; w += columns) {
                        const row_of_blocks *b = units ? w_unit_blocks : w_blocks;
                        while (b->rows > p->taps[1] - h || b->columns > p->taps[2] - w ||
                               (b->alone && b->columns != p->taps[2]))
                            b++;
                        rows = b->rows, columns = b->columns;
                        b->run(p, big + g, small + g, min(LANES, G - g), (int64_t[3]){d, h, w}, row,
                               min(end, row + several), sums + g * K);
                    }
                }
        }
}

typedef struct call {
    const opwright_problem *p;
    const elem *big, *small;
    elem *weights;
    float *sums;  // [chunk][block][tap][LANES]
    char *own;
    int64_t own_bytes, chunks, rows;  // rows of a chunk, counted over images too
} call;

// Channels of a task, in blocks.
static int64_t w_blocks_of(const opwright_problem *p) {
    return w_copied(p) ? 1 : min(W_BLOCKS, ceil_div(p->G, LANES));
}
static int64_t w_chunks(const opwright_problem *p) {
    const int64_t groups = ceil_div(ceil_div(p->G, LANES), w_blocks_of(p));
    const int64_t rows = w_copied(p) ? p->N : p->N * p->small[0] * p->small[1];
    return min(rows, ceil_div(W_TASKS, groups));
}

static void reduce(const void *context, int64_t task, int64_t worker) {
    const call *c = context;
    const opwright_problem *p = c->p;
    const int64_t blocks = ceil_div(p->G, LANES), of_task = w_blocks_of(p), groups = ceil_div(blocks, of_task);
    const int64_t chunk = task / groups, first = task % groups * of_task, g = first * LANES;
    const int64_t channels = min(of_task * LANES, p->G - g), in_image = p->small[0] * p->small[1];
    float *sums = c->sums + (chunk * blocks + first) * LANES * volume(p->taps);
    memset(sums, 0, (size_t)(ceil_div(channels, LANES) * LANES * volume(p->taps)) * 4);
    if (!w_copied(p)) {
        const int64_t end = min(p->N * in_image, (chunk + 1) * c->rows);
        for (int64_t row = chunk * c->rows, next; row < end; row = next) {
            const int64_t n = row / in_image;
            next = min(end, (n + 1) * in_image);
            w_rows(false, p, c->big + n * p->big_n + g, c->small + n * p->small_n + g, channels, row - n * in_image,
                   next - n * in_image, sums);
        }
        return;
    }
    elem *big = (elem *)(void *)(c->own + worker * c->own_bytes);
    const bool units = w_elems(p) > 1;
    elem *small = (elem *)(void *)((char *)big + plane_bytes(p->big) * w_elems(p));
    const opwright_problem q = interleaved(p, LANES, LANES * w_elems(p));
    for (int64_t n = chunk * c->rows; n < min(p->N, (chunk + 1) * c->rows); n++) {
        const elem *from_big = c->big + n * p->big_n + g * p->big_c, *from_small = c->small + n * p->small_n + g * p->small_c;
        if (units) {
            copy_block(UNIT_ELEMS > 1, false, p->big, p->big_x, p->big_c, channels, from_big, LANES * UNIT_ELEMS, 0, big);
            copy_block(UNIT_ELEMS > 1, false, p->small, p->small_x, p->small_c, channels, from_small, LANES * UNIT_ELEMS, 0, small);
        } else {
            copy_block(false, false, p->big, p->big_x, p->big_c, channels, from_big, LANES, 0, big);
            copy_block(false, false, p->small, p->small_x, p->small_c, channels, from_small, LANES, 0, small);
        }
        if (!channels_last(p) && p->N * p->big_n > FAR && n + 1 < p->N) {
            prefetch(c->big + (n + 1) * p->big_n + g * p->big_c, channels * volume(p->big) * (int64_t)sizeof(elem), 0);
            prefetch(c->small + (n + 1) * p->small_n + g * p->small_c, channels * volume(p->small) * (int64_t)sizeof(elem), 0);
        }
        w_rows(units, &q, big, small, LANES, 0, in_image, sums);
    }
}

static void combine(const void *context, int64_t block, int64_t worker) {
    (void)worker;
    const call *c = context;
    const opwright_problem *p = c->p;
    const int64_t blocks = ceil_div(p->G, LANES), lanes = min(LANES, p->G - block * LANES), K = volume(p->taps);
    const float *sums = c->sums + block * K * LANES;
    elem *to = c->weights + block * LANES * p->w_g;
    for (int64_t k = 0; k < K; k += LANES) {
        vec v[LANES];
        UNROLL for (int i = 0; i < LANES; i++) {
            v[i] = (vec){0};
            for (int64_t chunk = 0; i < K - k && chunk < c->chunks; chunk++)
                v[i] += vec_load(sums + (chunk * blocks * K + k + i) * LANES);
        }
        if (dense(p->taps, p->w_k)) {
            vec_transpose(v);
            UNROLL for (int i = 0; i < LANES; i++) if (i < lanes)
                lanes_store(to + i * p->w_g + k, v[i], true, min(LANES, K - k));
            continue;
        }
        for (int64_t i = 0; i < min(LANES, K - k); i++) {
            elem *tap = to + tap_at(p, k + i);
            if (p->w_g == 1) {
                lanes_store(tap, v[i], true, lanes);
                continue;
            }
            for (int64_t l = 0; l < lanes; l++)
                elem_put(tap + l * p->w_g, v[i][l]);
        }
    }
}

static int64_t sums_bytes(const opwright_problem *p) { return whole_lines(w_chunks(p) * packed_bytes(p)); }

static int64_t scratch_bytes(opwright_solve solve, const opwright_problem *p, int64_t workers, bool finished) {
    (void)solve, (void)finished;
    return sums_bytes(p) + workers * own_bytes(p);
}

static void solve_channels(opwright_solve solve, const opwright_problem *p, const elem *big, const elem *small, const elem *bias,
                           sum_cell *weights, const opwright_sink *sink, const opwright_team *team, void *scratch) {
    (void)solve, (void)bias, (void)sink;
    const int64_t blocks = ceil_div(p->G, LANES), rows = w_copied(p) ? p->N : p->N * p->small[0] * p->small[1];
    call c = {p, big, small, weights, scratch, (char *)scratch + sums_bytes(p), own_bytes(p), w_chunks(p), 0};
    c.rows = ceil_div(rows, c.chunks);
    c.chunks = ceil_div(rows, c.rows);
    opwright_run(team, reduce, &c, c.chunks * ceil_div(blocks, w_blocks_of(p)));
    opwright_run(team, combine, &c, blocks);
}

// Literal taps make it faster by (f32, AVX-512): 4x4 1.6, 6x6 and 9x9 1.4, 13x13 1.1, 4x4 with stride 2 2.0; not 1x31, 0.96.
static int64_t fixed(opwright_solve solve, const opwright_problem *p, int64_t *values) {
    (void)solve;
    const int64_t columns = p->taps[2];
    values[0] = max(1, min(p->taps[1], FIXED_SUMS / columns)), values[1] = columns;
    const row_of_blocks *b = w_blocks;
    while (b->columns != columns && b->columns != 1)
        b++;
    return b->columns != columns && columns <= FIXED_COLUMNS ? OPWRIGHT_FIXED_DEPTHWISE_WEIGHTS : OPWRIGHT_NOT_FIXED;
}

const opwright_way OPWRIGHT_NAME(depthwise_weights) = {fits, scratch_bytes, solve_channels, fixed};
