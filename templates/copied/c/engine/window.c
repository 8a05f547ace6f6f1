// A contraction with indices of windows, as problems in normal form: see problem.h.
//
// OPWRIGHT_SOLVES names the engine. Sums are finished by its tasks, or where these have no whole sums, piece by piece:
// some images, or some rows of one, that stay in the cache. Pieces depend only on the problem.

#include "contraction_copy.h"
#include "solves.h"

#define SOLVE OPWRIGHT_JOIN(OPWRIGHT_PAIR(opwright, OPWRIGHT_SOLVES), OPWRIGHT_DTYPE, OPWRIGHT_ISA)
#define SOLVE_SCRATCH OPWRIGHT_JOIN(OPWRIGHT_JOIN(opwright, OPWRIGHT_SOLVES, scratch), OPWRIGHT_DTYPE, OPWRIGHT_ISA)

enum {
    NO_CUT = -1, CUT_IMAGES = 3,  // 0, 1, 2: along that axis
    FINISHED_CELLS = 8192,        // of a task
    BY_PIECES = 1, BY_TASKS = 2,  // how sums are finished
};

typedef struct opwright_window {
    opwright_problem problem;
    int64_t solve, exchanged;        // whether right is the first operand of the solve
    int64_t batches;                 // axes of equal problems
    int64_t batch[8], left_batch[8], right_batch[8], out_batch[8];
    // If sums are finished by pieces: one has `each` of `total` along `cut`, `inner` contiguous cells for each of these,
    // and as many lines as the axes before it. Strides of the problem's output are those of a piece.
    int64_t finished, cut, each, total, inner, sums_bytes;
    int64_t lines, line[8], line_sums[8], line_cell[8];
    opwright_copied left, right;
} opwright_window;

// One piece, and the start of its operand. False if no tap reaches it.
static bool piece_of(const opwright_window *w, int64_t first, opwright_problem *p, int64_t *offset) {
    const int64_t count = min(w->each, w->total - first);
    *p = w->problem;
    *offset = 0;
    if (w->cut == NO_CUT)
        return true;
    if (w->cut == CUT_IMAGES) {
        p->N = count;
        *offset = first * p->big_n;
        return true;
    }
    const int64_t a = w->cut, before = max(0, first * p->stride[a] - p->pad[a]);
    const int64_t reached = (count - 1) * p->stride[a] + (p->taps[a] - 1) * p->dilation[a] + 1;
    if (before >= p->big[a])
        return false;
    p->small[a] = count;
    p->pad[a] += before - first * p->stride[a];
    if (reached <= p->pad[a])
        return false;
    p->big[a] = min(p->big[a] - before, reached - p->pad[a]);
    *offset = before * p->big_x[a];
    return true;
}

typedef struct finishing {
    const opwright_window *w;
    const sum_cell *sums;
    opwright_finish *finish;
    const void *context;
    int64_t cell, cells, pieces; // the first; of a line; tasks of a line
} finishing;

static void finishing_task(const void *context, int64_t task, int64_t worker) {
    const finishing *f = context;
    const int64_t begin = task % f->pieces * FINISHED_CELLS;
    int64_t sums = begin, cell = f->cell + begin, rest = task / f->pieces;
    for (int64_t a = f->w->lines - 1; a >= 0; a--) {
        const int64_t i = rest % f->w->line[a];
        rest /= f->w->line[a];
        sums += i * f->w->line_sums[a], cell += i * f->w->line_cell[a];
    }
    f->finish(f->context, cell, min(FINISHED_CELLS, f->cells - begin), f->sums + sums, worker);
}

// Whether tasks can finish the sums of a problem, whose strides of the output are then those of the cells.
int64_t OPWRIGHT_NAME(window_finishes)(const void *problem) {
    const opwright_window *w = problem;
    return SOLVE_SCRATCH(w->solve, &w->problem, 1, true) >= 0;
}

int64_t OPWRIGHT_NAME(window_scratch)(const void *problem, int64_t workers) {
    const opwright_window *w = problem;
    int64_t maximum = 0;
    for (int64_t first = 0; first < w->total; first += w->each) {
        opwright_problem p;
        int64_t offset;
        if (piece_of(w, first, &p, &offset))
            maximum = max(maximum, SOLVE_SCRATCH(w->solve, &p, workers, w->finished == BY_TASKS));
    }
    return copied_bytes(&w->left) + copied_bytes(&w->right) + w->sums_bytes + maximum;
}

void OPWRIGHT_NAME(window)(const void *problem, const void *given_left, const void *given_right, void *result,
                           opwright_finish *finish, const void *context, const opwright_team *team, void *scratch) {
    const opwright_window *w = problem;
    sum_cell *const out = result;
    const copies o = copied_operands(&w->left, &w->right, given_left, given_right, scratch, team);
    const char *const left = (const char *)o.left, *const right = (const char *)o.right;
    const int64_t left_cell = cell_bytes(&w->left), right_cell = cell_bytes(&w->right);
    sum_cell *const sums = o.rest;
    scratch = (char *)o.rest + w->sums_bytes;
    int64_t products = 1, lines = 1;
    for (int64_t b = 0; b < w->batches; b++)
        products *= w->batch[b];
    for (int64_t a = 0; a < w->lines; a++)
        lines *= w->line[a];
    for (int64_t product = 0; product < products; product++) {
        int64_t left_at = 0, right_at = 0, out_at_ = 0, rest = product;
        for (int64_t b = w->batches - 1; b >= 0; b--) {
            const int64_t i = rest % w->batch[b];
            rest /= w->batch[b];
            left_at += i * w->left_batch[b], right_at += i * w->right_batch[b], out_at_ += i * w->out_batch[b];
        }
        const char *const of_left = left + left_at * left_cell, *const of_right = right + right_at * right_cell;
        const elem *const one = (const void *)(w->exchanged ? of_right : of_left);
        const elem *const other = (const void *)(w->exchanged ? of_left : of_right);
        if (w->finished == BY_TASKS) {
            const opwright_sink sink = {finish, context, out_at_};
            SOLVE(w->solve, &w->problem, one, other, NULL, NULL, &sink, team, scratch);
            continue;
        }
        for (int64_t first = 0; first < w->total; first += w->each) {
            opwright_problem p;
            int64_t offset;
            const bool reached = piece_of(w, first, &p, &offset);
            if (reached)
                SOLVE(w->solve, &p, one + offset, other, NULL, w->finished ? sums : out + out_at_, NULL, team, scratch);
            else
                memset(sums, 0, (size_t)w->sums_bytes);
            if (!w->finished)
                continue;
            const int64_t cells = min(w->each, w->total - first) * w->inner;
            const finishing f = {w, sums, finish, context, out_at_ + first * w->inner, cells, ceil_div(cells, FINISHED_CELLS)};
            opwright_run(team, finishing_task, &f, lines * f.pieces);
        }
    }
}
