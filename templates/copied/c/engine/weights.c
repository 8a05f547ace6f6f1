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
// [channel]. Positions that no tap reads, with a stride beyond the kernel, are not copied. With dilation and many
// channels, the taps of an output are walked one by one. With few channels, outputs r, r + phases, ... see every
// dilation-th input only: they are phase r, and in it the taps of an output are neighbours again. Words are floats or,
// with OPWRIGHT_PAIRS, two neighbouring outputs' bf16: of small always, and of big where its channels are neighbours or
// there is one tap, straight from the tensor; else rows are widened first.
//
// Axes without taps are merged to one. With few channels of small and many of big, the two are swapped. Small groups
// share a vector of lanes: instead of a broadcast word, each lane gets that of its own group, all picked from one
// vector.
//
// A padding zero times an Inf or NaN of small would be NaN, although the tap does not exist: if packing finds one, taps
// are walked one by one where their input exists.
//
// The terms and their order depend only on the problem; the number of workers only decides which tiles
// share a task. Each chunk has its own dw; these are summed in order.
//
// Figures: see engine.h.
#include "engine.h"
#include "weights_pack.h"

// Adds a run, or extends the last one if it is adjacent.
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
                for (int64_t r = 0; r < min(l->phases, o->size[3]); r++) {
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
                        first = min(outputs, max(0, up_div(from - kw * l->hop, l->step[2])));
                        end = min(outputs, floor_div(to - 1 - kw * l->hop, l->step[2]) + 1);
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
    ivec lanes;                     // merged groups: the first of a position's words for each lane
    int64_t channels;               // and how many channels of big a group has
} operands;

// Words that an instruction multiplies in pairs.
#if OPWRIGHT_PAIRS
INLINE uvec words_load(const float *p) { return (uvec)vec_load(p); }
#endif
#if OPWRIGHT_AMX
#include "weights_amx.h"
#endif
#include "weights_tiles.h"

// Rows of the next tile: as even as the tile shapes allow. A single row takes as long as eight.
INLINE int64_t rows_at_once(tile *const *table, int64_t row_limit, int64_t left) {
    const int64_t parts = ceil_div(left, row_limit);
    int64_t rows = ceil_div(left, parts);
    if (table[rows])
        return rows;
    for (int64_t some = ceil_div(left, max(parts, 2)); some <= row_limit && some < left; some++)
        if (table[some] && (parts > 2 || table[left - some]))
            return some;
    rows = ceil_div(rows, 2);
    while (!table[rows])
        rows--;
    return rows;
}

// The taps and channels of a row of merged groups, of which t tells where they begin.
static void multiply_merged(const plan *l, tile *const (*table)[MAX_MERGED_TAPS + 1], int64_t taps, operands t) {
    for (int lane = 0; lane < LANES; lane++)
        t.lanes[lane] = (int32_t)(min(lane / l->each, l->merged - 1) * t.channels);
    const ivec lanes = t.lanes;
    float *const dw = t.dw;
    // As even as possible; with many channels, half as many.
    const int64_t parts = table[t.channels][min(taps, 3)] ? 1 : 2, each = ceil_div(t.channels, parts);
    for (int64_t k = 0, now; k < taps; k += now, t.row += now * t.row_scale) {
        now = min(taps - k, MAX_MERGED_TAPS);
        now = ceil_div(taps - k, ceil_div(taps - k, now));
        while (!table[each][now])
            now--;
        for (int64_t b = 0, some; b < t.channels; b += some) {
            some = min(each, t.channels - b);
            t.lanes = lanes + (int32_t)b, t.dw = dw + (k * t.channels + b) * t.pitch;
            table[some][now](&t);
        }
    }
}

// dw of `vectors` vectors of lanes: [kd][kh][channel block][kw][channel][lane], or, if it is stored directly, in the
// layout of the weights.
static void multiply(const place *o, int64_t vectors, const void *panel, const float *rows, bool non_finite, run *runs,
                     float *dw, bool first) {
    const plan *l = o->l;
    const opwright_problem *p = &l->p;
    const int64_t cells = l->box[0] * l->depth * l->height * l->phases * l->positions, all = o->b1 - o->b0;
    const int64_t groups = non_finite || l->straight || l->hop > 1 ? p->taps[2] : 1; // taps walked one by one
    tile *const *table = floats_tiles[vectors];
    tile *const (*merged)[MAX_MERGED_TAPS + 1] = merged_floats_tiles;
#if OPWRIGHT_PAIRS
    if (o->pairs)
        table = pairs_tiles[vectors], merged = merged_pairs_tiles;
#elif HALVES
    if (l->stays)
        table = halves_tiles[vectors];
#endif
    const int64_t max_now = max_rows[vectors];
    int64_t count = 0;
    for (int64_t kd = 0; kd < p->taps[0]; kd++)
        for (int64_t kh = 0; kh < p->taps[1]; kh++)
            for (int64_t kw = 0; kw < groups; kw++) {
                if (kw == 0 || non_finite)
                    count = runs_of(o, kd, kh, non_finite ? kw : -1, runs);
                if (count == 0 && !first)
                    continue;
                for (int64_t b = 0; b < all; b += CHANNELS) {
                    const int64_t channels = min(CHANNELS, all - b);
                    const int64_t scalar_rows = groups == 1 ? p->taps[2] * channels : channels;
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
                        multiply_merged(l, merged, scalar_rows / channels, t);
                        continue;
                    }
                    for (int64_t m = 0, now; m < scalar_rows; m += now, t.row += now, t.dw += now * t.pitch) {
                        now = rows_at_once(table, max_now, scalar_rows - m);
                        tile *text = table[now];
#if defined(OPWRIGHT_F32)
                        if (l->stays && l->vectors > l->panel_vectors && far_tiles[vectors][now])
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
    const int64_t pitch = vectors * LANES, lanes = min(pitch, o->channels - vector * LANES), each = o->l->each;
    weights += vector * LANES * p->w_a;
    for (int64_t b0 = o->b0; b0 < o->b1; b0 += CHANNELS) {
        const int64_t channels = min(CHANNELS, o->b1 - b0), all = o->b1 - o->b0;
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
                            for (int64_t a = 0; a < min(LANES, lanes - lane); a++) {
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
    return whole_lines(4 * floats + (int64_t)sizeof(run) * l->runs);
}

static place task_place(const call *c, int64_t part, int64_t *group) {
    const plan *l = c->l;
    const opwright_problem *p = &l->p;
    const int64_t a = part % l->a_parts, b = part / l->a_parts % l->b_parts;
    *group = part / l->a_parts / l->b_parts;
    place o = {.l = l};
    o.merged = min(l->merged, l->groups - *group * l->merged), o.channels = o.merged * l->each;
    o.a0 = a * l->a_part, o.a1 = min(l->vectors, o.a0 + l->a_part);
    o.b0 = b * l->b_part, o.b1 = min(p->B, o.b0 + l->b_part);
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
        for (int64_t v = o.a0, panel_vectors; v < o.a1; v += panel_vectors) {
            panel_vectors = min(l->panel_vectors, o.a1 - v);
            float *to = dw + (l->in_one ? 0 : (v - o.a0) * LANES * taps * (o.b1 - o.b0));
            if (l->straight)
                to = (float *)(void *)(c->weights + group * l->merged * l->p.w_g + o.b0 * l->p.w_b) + v * LANES;
            float *panel = panels + (v - o.a0) / l->panel_vectors * panel_floats(l);
            const bool non_finite = !l->stays && padded && has_non_finite(l, panel);
            o.pairs = OPWRIGHT_PAIRS && !non_finite;
            if (OPWRIGHT_PAIRS && non_finite)
                pack_panels(&o, v, v + panel_vectors, panel);
            if (packed != o.pairs)
                pack_rows(&o, rows);
            packed = o.pairs;
            multiply(&o, panel_vectors, l->stays ? (const void *)(o.small + v * LANES) : panel, rows, non_finite,
                     runs, to, block == begin);
            if (l->chunks == 1 && block + 1 == end && !l->straight)
                finish(&o, v, panel_vectors, to, c->weights + group * l->merged * l->p.w_g);
        }
    }
}

// Sums the chunks of one group of lanes, in order.
static void combine(const void *context, int64_t task, int64_t worker) {
    (void)worker;
    const call *c = context;
    const plan *l = c->l;
    const int64_t taps = l->p.taps[0] * l->p.taps[1] * l->p.taps[2];
    const int64_t each = ceil_div(l->a_part, l->panel_vectors), part = task / each;
    int64_t group;
    place o = task_place(c, part, &group);
    const int64_t v = o.a0 + task % each * l->panel_vectors, panel_vectors = min(l->panel_vectors, o.a1 - v);
    if (panel_vectors <= 0)
        return;
    const int64_t rows = LANES * taps * (o.b1 - o.b0);
    float *dw = c->dw + part * l->dw + (v - o.a0) * rows;
    for (int64_t i = 0; i < panel_vectors * rows; i += LANES) {
        vec sum = vec_load(dw + i);
        for (int64_t chunk = 1; chunk < l->chunks; chunk++)
            sum += vec_load(dw + chunk * l->tiles * l->dw + i);
        vec_store(dw + i, sum);
    }
    finish(&o, v, panel_vectors, dw, c->weights + group * l->merged * l->p.w_g);
}

// With stride 1 the operands can be swapped: big[i] meets small[i - k*dilation + pad], a tap of small with the order
// of taps reversed. Lanes are then big's channels, which is better for few channels of small.
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

static int64_t scratch_bytes(opwright_solve solve, const opwright_problem *p, int64_t workers, bool finished) {
    (void)solve, (void)finished;
    int64_t first_weight;
    if (p->G * p->A * p->B == 0)
        return 0;
    const opwright_problem q = swaps(p) ? swapped(p, &first_weight) : *p;
    const plan l = plan_of(&q, workers);
    return workers * worker_bytes(&l) + (l.chunks > 1 ? l.chunks * l.tiles * l.dw * 4 : 0);
}

static void solve_pixels(opwright_solve solve, const opwright_problem *p, const elem *big, const elem *small, const elem *bias,
                         sum_cell *weights, const opwright_sink *sink, const opwright_team *team, void *scratch) {
    (void)solve, (void)bias, (void)sink;
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
        opwright_run(team, combine, &c, l.tiles * ceil_div(l.a_part, l.panel_vectors));
}

const opwright_way OPWRIGHT_NAME(over_pixels) = {NULL, scratch_bytes, solve_pixels, NULL};
