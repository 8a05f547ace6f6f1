// y and x as products of few rows: each weight meets so few pixels that reading the weights is most of the work.
//
// The pixels of all images are the rows. Weights are read once, in the order of memory, as chunks of
// the reduction, which are packed to panels `[panel][reduced channel][lane]` that stay in the cache beside the chunk's
// input; a tile finally adds the sums of the previous chunks. A task is a share of the output's channels. The
// input is copied for all tasks first, as `[chunk][row][channel]`, because its rows lie a power of two apart.

#include "engine.h"
#include "solve.h"

enum {
    MAX_PIXELS = 256, // measured with 196, where it is as fast as channels.c
    CHUNK_UNITS = 512, // of the reduction, for each vector of a panel: 256 to 1024 perform alike
    SHARE_VECTORS = 8, // packed at a time: 4 to 16 perform alike
    AHEAD_LINES = 4,   // of weights prefetched before they are packed
    AHEAD_ROWS = 16,   // the same where they lie across the panels
};

typedef struct plan {
    int64_t groups, rows, lanes, reduced;
    int64_t in_row, out_row, w_group, w_lane, w_reduced;
    int64_t vectors, wide;  // vectors of output channels; of a panel
    int64_t share, shares;  // vectors of a task; tasks of a group
    int64_t units, chunk, chunks; // of the reduction; of them in a chunk
    int64_t pitch;          // from a row of a chunk's input to the next, in units
    int64_t bias_bytes, copied_bytes, packed_bytes, sums_bytes;
} plan;

// Whether the problem is such a product.
static bool plan_of(plan *p, const opwright_problem *problem, bool backward, int64_t workers) {
    opwright_problem own = *problem;
    collapse(&own);
    for (int a = 0; a < 3; a++)
        if (own.taps[a] != 1 || own.stride[a] != 1 || own.pad[a] != 0 || own.small[a] != own.big[a] ||
            (a < 2 && own.big[a] != 1))
            return false;
    const solve s = solve_of(&own, backward);
    const bool images = own.big[2] == 1;
    *p = (plan){.groups = own.G, .rows = images ? own.N : own.big[2], .lanes = s.lanes, .reduced = s.reduced,
                .in_row = images ? s.in_n : s.in_x[2], .out_row = images ? s.out_n : s.out_x[2], .w_group = own.w_g,
                .w_lane = s.w_lane, .w_reduced = s.w_reduced};
    if ((!images && own.N != 1) || p->rows > min(MAX_PIXELS, s.lanes) || s.lanes < LANES || s.in_c != 1 ||
        s.out_c != 1 || (s.w_lane != 1 && s.w_reduced != 1))
        return false;
    p->vectors = ceil_div(p->lanes, LANES);
    p->wide = p->rows <= MAX_8 ? 8 : p->rows <= MAX_4 ? 4 : 2;
    while (p->wide / 2 >= p->vectors)
        p->wide /= 2;
    const int64_t fair = workers > 1 ? ceil_div(p->groups * p->vectors, 2 * workers) : p->vectors;
    p->share = ceil_div(min(fair, SHARE_VECTORS), p->wide) * p->wide;
    p->shares = ceil_div(p->vectors, p->share);
    p->units = ceil_div(p->reduced, UNIT_CHANNELS);
    p->chunks = ceil_div(p->units, CHUNK_UNITS / p->wide);
    p->chunk = ceil_div(ceil_div(p->units, p->chunks), LANES) * LANES;
    p->chunks = ceil_div(p->units, p->chunk);
    p->pitch = p->chunk + LANES;
    p->bias_bytes = p->groups * p->shares * p->share * LANES * 4;
    p->copied_bytes = p->groups * p->chunks * p->rows * p->pitch * 4;
    p->packed_bytes = p->chunk * p->share * LANES * 4;
    p->sums_bytes = p->rows * p->share * LANES * 4;
    return true;
}

typedef struct call {
    plan p;
    const elem *in, *weights;
    sum_cell *out;
    float *biases;
    unit *copied;
    char *workers;
} call;

static int64_t chunk_units(const plan *p, int64_t chunk) { return min(p->chunk, p->units - chunk * p->chunk); }

static void copy_task(const void *context, int64_t task, int64_t worker) {
    (void)worker;
    const call *c = context;
    const plan *p = &c->p;
    const int64_t group = task / p->chunks, chunk = task % p->chunks, units = chunk_units(p, chunk);
    const int64_t first = chunk * p->chunk * UNIT_CHANNELS;
    for (int64_t m = 0; m < p->rows; m++) {
        const elem *from = c->in + m * p->in_row + group * p->reduced;
        unit *to = c->copied + (task * p->rows + m) * p->pitch;
        for (int64_t u = 0; u < units; u += LANES) {
            const int64_t at = first + u * UNIT_CHANNELS;
            vec_store((float *)(void *)(to + u), channel_units(from + at, min(p->reduced - at, LANES * UNIT_CHANNELS)));
        }
    }
}

// Vectors of the panel that begins with vector v of `vectors`: lanes past the last one are zero.
static int64_t panel_width(const plan *p, int64_t v, int64_t vectors) {
    int64_t width = p->wide;
    while (width / 2 >= vectors - v)
        width /= 2;
    return width;
}

// Weights of one chunk and `vectors` vectors of lanes, the first of them `from`, `lanes` lanes at the most.
static void pack_share(const plan *p, const elem *from, int64_t channels, int64_t units, int64_t vectors, int64_t lanes,
                       unit *to) {
    const uintptr_t row = (uintptr_t)p->w_reduced * sizeof(elem);
    if (p->w_lane == 1) {
        for (int64_t u = 0; u < units; u++, from += UNIT_CHANNELS * p->w_reduced, channels -= UNIT_CHANNELS)
            for (int64_t v = 0, width; v < vectors; v += width) {
                width = panel_width(p, v, vectors);
                for (int64_t i = v; i < v + width; i++) {
                    const elem *line = from + i * LANES;
                    for (int64_t j = 0; j < UNIT_CHANNELS; j++)
                        __builtin_prefetch((const void *)((uintptr_t)line + (uintptr_t)(j + AHEAD_ROWS) * row));
                    vec_store((float *)(void *)(to + (v * units + u * width + i - v) * LANES),
                              i < vectors ? unit_line(line, p->w_reduced, channels, 1, lanes - i * LANES) : (vec){0});
                }
            }
        return;
    }
    for (int64_t v = 0, width; v < vectors; v += width) {
        width = panel_width(p, v, vectors);
        for (int64_t i = v; i < v + width; i++)
            for (int64_t u = 0; u < units; u += LANES) {
                const elem *line = from + i * LANES * p->w_lane + u * UNIT_CHANNELS;
                const int64_t left = channels - u * UNIT_CHANNELS, there = lanes - i * LANES;
                vec x[LANES];
                UNROLL for (int64_t l = 0; l < LANES; l++) {
                    __builtin_prefetch((const void *)((uintptr_t)(line + l * p->w_lane) + AHEAD_LINES * 64));
                    x[l] = l < there ? channel_units(line + l * p->w_lane, min(left, LANES * UNIT_CHANNELS)) : (vec){0};
                }
                vec_transpose(x);
                UNROLL for (int64_t l = 0; l < LANES; l++)
                    if (u + l < units)
                        vec_store((float *)(void *)(to + (v * units + (u + l) * width + i - v) * LANES), x[l]);
            }
    }
}

static void share_task(const void *context, int64_t task, int64_t worker) {
    const call *c = context;
    const plan *p = &c->p;
    const int64_t group = task / p->shares, first = task % p->shares * p->share;
    const int64_t vectors = min(p->share, p->vectors - first), lanes = min(p->share * LANES, p->lanes - first * LANES);
    unit *packed = (unit *)(void *)(c->workers + worker * (p->packed_bytes + p->sums_bytes));
    float *sums = (float *)(void *)((char *)packed + p->packed_bytes);
    const elem *from = c->weights + group * p->w_group + first * LANES * p->w_lane;
    sum_cell *out = c->out + group * p->lanes + first * LANES;
    const int64_t max_tile = max_rows(p->wide), tiles = ceil_div(p->rows, max_tile), longer = p->rows % tiles;
    for (int64_t chunk = 0; chunk < p->chunks; chunk++) {
        const int64_t units = chunk_units(p, chunk), channel = chunk * p->chunk * UNIT_CHANNELS;
        pack_share(p, from + channel * p->w_reduced, p->reduced - channel, units, vectors, lanes, packed);
        const run whole = {0, 0, units};
        const unit *copied = c->copied + (group * p->chunks + chunk) * p->rows * p->pitch;
        for (int64_t v = 0, width; v < vectors; v += width) {
            width = panel_width(p, v, vectors);
            const bool direct = chunk == p->chunks - 1 && lanes >= (v + width) * LANES;
            operands o = {.scalar_row = p->pitch * 4, .vectors = packed + v * units * LANES, .step = width * LANES,
                          .runs = &whole, .run_count = 1, .elements = direct, .bias_vector = LANES};
            o.out_row = direct ? p->out_row : p->share * LANES;
            o.bias_row = chunk == 0 ? 0 : p->share * LANES;
            for (int64_t t = 0, m = 0; t < tiles; t++) {
                const int64_t rows = p->rows / tiles + (t < longer);
                float *sum = sums + m * p->share * LANES + v * LANES;
                o.scalars = copied + m * p->pitch;
                o.bias = chunk == 0 ? c->biases + (task * p->share + v) * LANES : sum;
                o.out = direct ? (void *)(out + m * p->out_row + v * LANES) : (void *)sum;
                TILE_TABLE[width][rows](&o);
                m += rows;
            }
        }
    }
    for (int64_t v = 0, width; v < vectors; v += width) {
        width = panel_width(p, v, vectors);
        if (lanes >= (v + width) * LANES)
            continue;
        for (int64_t m = 0; m < p->rows; m++)
            for (int64_t i = v * LANES; i < lanes; i += LANES) {
                const vec x = vec_load(sums + m * p->share * LANES + i);
                sum_cell *to = out + m * p->out_row + i;
                lanes - i >= LANES ? sum_store(to, x) : sum_store_part(to, x, lanes - i);
            }
    }
}

bool product_fits(const opwright_problem *problem, bool backward) {
    plan p;
    return plan_of(&p, problem, backward, 1);
}

int64_t product_scratch(const opwright_problem *problem, bool backward, int64_t workers) {
    plan p;
    plan_of(&p, problem, backward, workers);
    return p.bias_bytes + p.copied_bytes + max(1, workers) * (p.packed_bytes + p.sums_bytes);
}

void product(const opwright_problem *problem, bool backward, const elem *in, const elem *weights, const elem *bias,
             sum_cell *out, const opwright_team *team, void *scratch) {
    call c = {.in = in, .weights = weights, .out = out, .biases = scratch};
    const plan *p = &c.p;
    plan_of(&c.p, problem, backward, team ? team->workers : 1);
    c.copied = (unit *)(void *)((char *)scratch + p->bias_bytes);
    c.workers = (char *)c.copied + p->copied_bytes;
    const int64_t padded = p->shares * p->share * LANES;
    for (int64_t g = 0; g < p->groups; g++)
        for (int64_t l = 0; l < padded; l += LANES) {
            const int64_t count = max(0, min(LANES, p->lanes - l));
            const vec v = bias && count > 0 ? elem_load_part(bias + g * p->lanes + l, count) : (vec){0};
            vec_store(c.biases + g * padded + l, v);
        }
    opwright_run(team, copy_task, &c, p->groups * p->chunks);
    opwright_run(team, share_task, &c, p->groups * p->shares);
}
