// y, x and w without taps as products of matrices, which contraction.h computes: where pixels are so few that reading or
// writing the weights is most of the work.

#include "contraction.h"
#include "engine.h"
#include "solve.h"

enum {
    MAX_PIXELS = 256,     // unless each is an image
    MAX_W_PIXELS = 2048,  // with more, blocks that stay in the cache are as fast: NCX 1.1 to 1.7 times at 1024 to 2048, NXC 1.06
                          // to 1.2, 0.8 to 1.0 at 8192; matrix registers 0.95 to 1.5 at 3136 to 12544 (Intel Xeon with AMX)
    FEW_W_PIXELS = 256,   // with more, few channels on either side stay where they are, 0.8 to 0.9
    MIN_W_CHANNELS = 32,
};

// Sums of neighbouring channels, of one pixel or of all channels of several, on their way to the output.
typedef struct biased {
    const elem *bias;
    sum_cell *out;
    int64_t row; // from a pixel to the next
} biased;

static void add_bias(const void *context, int64_t cell, int64_t cells, const void *sums, int64_t worker) {
    (void)worker;
    const biased *b = context;
    const int64_t row = b->row == 1 ? cells : b->row; // of one channel there is one row
    int64_t i = 0;
    for (int64_t channel = b->row == 1 ? 0 : cell % row; i < cells; channel = 0)
        for (const int64_t end = min(cells, i + row - channel); i < end;) {
            const int64_t count = min(LANES, end - i);
            const vec added = b->row == 1 ? vec_splat(elem_get(b->bias)) : elem_load_part(b->bias + channel, count);
            store_line(b->out + cell + i, 1, vec_load_part((const float *)sums + i, count) + added, count);
            i += count, channel += count;
        }
}

static void pass_on(const void *context, int64_t cell, int64_t cells, const void *sums, int64_t worker) {
    const opwright_sink *sink = context;
    sink->finish(sink->context, sink->first + cell, cells, sums, worker);
}

// Merges what it can to one axis of pixels, or images of one pixel to such an axis. Whether that is all there is.
static bool pixels_of(opwright_problem *p) {
    collapse(p);
    for (int a = 0; a < 3; a++)
        if (p->taps[a] != 1 || p->stride[a] != 1 || p->pad[a] != 0 || p->small[a] != p->big[a] ||
            (a < 2 && p->big[a] != 1))
            return false;
    if (p->big[2] == 1) {
        p->small[2] = p->big[2] = p->N;
        p->small_x[2] = p->small_n, p->big_x[2] = p->big_n;
        p->N = 1;
    }
    return p->N == 1;
}

// The product, if the problem is one: of y and x, whose rows are pixels and columns output channels; and of w, whose rows and
// columns are channels and terms pixels.
static bool data_of(const opwright_problem *problem, bool backward, opwright_contraction *q) {
    opwright_problem own = *problem;
    if (!pixels_of(&own))
        return false;
    const solve s = solve_of(&own, backward);
    const int64_t rows = own.big[2], channels = own.G * s.lanes;
    *q = (opwright_contraction){.rows = rows, .columns = s.lanes, .terms = s.reduced, .left_row = s.in_x[2], .left_term = s.in_c,
                                .right_term = s.w_reduced, .right_column = s.w_lane, .out_row = rows == 1 ? channels : s.out_x[2],
                                .out_column = s.out_c, .elements = sizeof(sum_cell) == sizeof(elem), .batches = 1,
                                .batch = {own.G}, .left_batch = {s.reduced * s.in_c}, .right_batch = {own.w_g},
                                .out_batch = {s.lanes * s.out_c}};
    return (rows <= MAX_PIXELS || problem->N == rows) && s.in_c == 1 && s.out_c == 1 && q->out_row >= channels;
}

static bool weights_of(const opwright_problem *problem, opwright_contraction *q) {
    opwright_problem own = *problem;
    bool beside;
    whole(&own, &beside);
    if (!pixels_of(&own))
        return false;
    const int64_t pixels = own.big[2];
    *q = (opwright_contraction){.rows = own.B, .columns = own.A, .terms = pixels, .left_row = own.big_c, .left_term = own.big_x[2],
                                .right_term = own.small_x[2], .right_column = own.small_c, .out_row = own.w_b,
                                .out_column = own.w_a, .elements = true, .batches = 1, .batch = {own.G},
                                .left_batch = {own.B * own.big_c}, .right_batch = {own.A * own.small_c},
                                .out_batch = {own.w_g}};
    return pixels <= FEW_W_PIXELS || ((OPWRIGHT_AMX || pixels <= MAX_W_PIXELS) && min(own.A, own.B) >= MIN_W_CHANNELS);
}

static bool product_of(opwright_solve solve, const opwright_problem *problem, opwright_contraction *q) {
    return solve == OPWRIGHT_W ? weights_of(problem, q) : data_of(problem, solve == OPWRIGHT_X, q);
}

static bool fits(opwright_solve solve, const opwright_problem *problem) {
    opwright_contraction q;
    return product_of(solve, problem, &q);
}

// Of y and x, with a finishing function or without.
static int64_t scratch_bytes(opwright_solve solve, const opwright_problem *problem, int64_t workers, bool finished) {
    (void)finished;
    opwright_contraction q;
    product_of(solve, problem, &q);
    const int64_t without_bias = OPWRIGHT_NAME(contract_scratch)(&q, workers);
    q.finished = solve != OPWRIGHT_W;
    return max(without_bias, OPWRIGHT_NAME(contract_scratch)(&q, workers));
}

static void multiply(opwright_solve solve, const opwright_problem *problem, const elem *first, const elem *second, const elem *bias,
                     sum_cell *out, const opwright_sink *sink, const opwright_team *team, void *scratch) {
    opwright_contraction q;
    product_of(solve, problem, &q);
    q.finished = bias || sink;
    const biased b = {bias, out, q.out_row};
    OPWRIGHT_NAME(contract)(&q, first, second, out, sink ? pass_on : bias ? add_bias : 0, sink ? (const void *)sink : &b, team,
                            scratch);
}

const opwright_way OPWRIGHT_NAME(product) = {fits, scratch_bytes, multiply, NULL};
