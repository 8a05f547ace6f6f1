// Every solve as a plain loop over the cells of its output, for problems that the other ways do not support: empty
// tensors, and strides, dilations and pads that dwarf the tensors.
//
// Cells (g, p, q, x) are sums over (c, r). Along an axis, the relation determines the index t of the first factor from
// x and r: for y and w, t is that of big; for x, that of small.

#include "engine.h"
#include "opwright_numeric.h"

#if defined(OPWRIGHT_BF16)
#define WIDENED(x) opwright_from_bf16(x)
#define ROUNDED(x) opwright_to_bf16(x)
#elif defined(OPWRIGHT_F16)
#define WIDENED(x) opwright_from_f16(x)
#define ROUNDED(x) opwright_to_f16(x)
#else
#define WIDENED(x) (x)
#define ROUNDED(x) (x)
#endif
#if defined(OPWRIGHT_WIDE)
#undef ROUNDED
#define ROUNDED(x) (x)
#endif
#if defined(OPWRIGHT_WIDE_TAPS)
#define WIDENED_TAP(x) (x)
#else
#define WIDENED_TAP(x) WIDENED(x)
#endif

typedef struct nest {
    opwright_solve solve;
    const opwright_problem *problem;
    int64_t P, Q, C;
    const int64_t *cells, *terms, *inside; // extents of x, r and t
    const elem *first, *bias;
    const tap_cell *second;
    sum_cell *out;
    int64_t first_g, first_p, first_q, first_c, second_g, second_p, second_q, second_c, out_g, out_p, out_q;
    const int64_t *first_x, *second_x, *out_x;
} nest;

// The t for x and r along an axis, or -1 if there is none.
static int64_t partner(const nest *n, int axis, int64_t x, int64_t r) {
    const opwright_problem *p = n->problem;
    const int64_t stride = p->stride[axis], dilation = p->dilation[axis], pad = p->pad[axis];
    int64_t t;
    if (n->solve == OPWRIGHT_X) {
        const int64_t ahead = x + pad - r * dilation;
        t = ahead >= 0 && ahead % stride == 0 ? ahead / stride : -1;
    } else {
        const int64_t o = n->solve == OPWRIGHT_Y ? x : r, k = n->solve == OPWRIGHT_Y ? r : x;
        t = o * stride + k * dilation - pad;
    }
    return t >= 0 && t < n->inside[axis] ? t : -1;
}

static float sum(const nest *n, const elem *first, const tap_cell *second, const int64_t x[3]) {
    float total = 0;
    for (int64_t r0 = 0; r0 < n->terms[0]; r0++) {
        const int64_t t0 = partner(n, 0, x[0], r0);
        for (int64_t r1 = 0; t0 >= 0 && r1 < n->terms[1]; r1++) {
            const int64_t t1 = partner(n, 1, x[1], r1);
            for (int64_t r2 = 0; t1 >= 0 && r2 < n->terms[2]; r2++) {
                const int64_t t2 = partner(n, 2, x[2], r2);
                if (t2 < 0)
                    continue;
                const elem *a = first + t0 * n->first_x[0] + t1 * n->first_x[1] + t2 * n->first_x[2];
                const tap_cell *b = second + r0 * n->second_x[0] + r1 * n->second_x[1] + r2 * n->second_x[2];
                for (int64_t c = 0; c < n->C; c++)
                    total += WIDENED(a[c * n->first_c]) * WIDENED_TAP(b[c * n->second_c]);
            }
        }
    }
    return total;
}

static void task(const void *context, int64_t task, int64_t worker) {
    (void)worker;
    const nest *n = context;
    const int64_t q = task % n->Q, p = task / n->Q % n->P, g = task / n->Q / n->P;
    const elem *first = n->first + g * n->first_g + p * n->first_p + q * n->first_q;
    const tap_cell *second = n->second + g * n->second_g + p * n->second_p + q * n->second_q;
    sum_cell *out = n->out + g * n->out_g + p * n->out_p + q * n->out_q;
    const float bias = n->bias ? WIDENED(n->bias[g * n->Q + q]) : 0;
    int64_t x[3];
    for (x[0] = 0; x[0] < n->cells[0]; x[0]++)
        for (x[1] = 0; x[1] < n->cells[1]; x[1]++)
            for (x[2] = 0; x[2] < n->cells[2]; x[2]++)
                out[x[0] * n->out_x[0] + x[1] * n->out_x[1] + x[2] * n->out_x[2]] =
                    ROUNDED(sum(n, first, second, x) + bias);
}

static bool has_none(const int64_t extents[3]) { return extents[0] == 0 || extents[1] == 0 || extents[2] == 0; }

static bool fits(opwright_solve solve, const opwright_problem *p) {
    (void)solve;
    if (p->N == 0 || p->A == 0 || p->B == 0 || has_none(p->small) || has_none(p->big) || has_none(p->taps))
        return true;
    for (int i = 0; i < 3; i++) {
        const int64_t reach = (p->small[i] - 1) * p->stride[i] + (p->taps[i] - 1) * p->dilation[i];
        if (reach / 4 > p->big[i] + 256)
            return true;
    }
    return false;
}

static int64_t scratch_bytes(opwright_solve solve, const opwright_problem *p, int64_t workers, bool finished) {
    (void)solve, (void)p, (void)workers;
    return finished ? -1 : 0;
}

static void solve_plainly(opwright_solve solve, const opwright_problem *p, const elem *first, const elem *second, const elem *bias,
                          sum_cell *out, const opwright_sink *sink, const opwright_team *team, void *scratch) {
    (void)sink, (void)scratch;
    nest n = {.solve = solve, .problem = p, .first = first, .second = (const void *)second, .bias = bias, .out = out};
    const bool w = solve == OPWRIGHT_W, x = solve == OPWRIGHT_X;
    n.cells = w ? p->taps : x ? p->big : p->small;
    n.terms = w ? p->small : p->taps;
    n.inside = x ? p->small : p->big;
    n.first_g = x ? p->A * p->small_c : p->B * p->big_c;
    n.first_x = x ? p->small_x : p->big_x;
    if (w) {
        n.P = p->A, n.Q = p->B, n.C = p->N;
        n.first_q = p->big_c, n.first_c = p->big_n;
        n.second_g = p->A * p->small_c, n.second_p = p->small_c, n.second_c = p->small_n, n.second_x = p->small_x;
        n.out_g = p->w_g, n.out_p = p->w_a, n.out_q = p->w_b, n.out_x = p->w_k;
    } else {
        n.P = p->N, n.Q = x ? p->B : p->A, n.C = x ? p->A : p->B;
        n.first_p = x ? p->small_n : p->big_n, n.first_c = x ? p->small_c : p->big_c;
        n.second_g = p->w_g, n.second_q = x ? p->w_b : p->w_a, n.second_c = x ? p->w_a : p->w_b, n.second_x = p->w_k;
        n.out_p = x ? p->big_n : p->small_n, n.out_q = x ? p->big_c : p->small_c, n.out_x = x ? p->big_x : p->small_x;
        n.out_g = n.Q * n.out_q;
    }
    if (!has_none(n.cells))
        opwright_run(team, task, &n, p->G * n.P * n.Q);
}

const opwright_way OPWRIGHT_NAME(plain) = {fits, scratch_bytes, solve_plainly, NULL};
