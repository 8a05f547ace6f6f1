// Consecutive phases of a call block by block. The package's modules _phase_blocks.py and _schedules.py give the reasons.

#include "operation.h"

#include <string.h>

enum {
    BLOCK_BYTES = 512 << 10,
    WHOLE_BYTES = 1 << 20,
    FEWEST_BLOCKS = 8,
    FEWEST_ROWS = 16,
    AGAIN = 8,
};

static int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

static int64_t larger(int64_t a, int64_t b) { return a > b ? a : b; }

// The blocks of phases whose tasks leave `each` bytes for each other; 0 if they run one by one.
static int64_t count_of(int64_t tasks, int64_t rows, int64_t each, int64_t packed)
{
    const int64_t fair = ceil_div(tasks, FEWEST_BLOCKS), fitting = BLOCK_BYTES / larger(each, 1);
    const int64_t block = larger(fitting < fair ? fitting : fair, FEWEST_ROWS);
    if (opw_mul(each, tasks) <= WHOLE_BYTES || packed > opw_mul(opw_mul(AGAIN, block), each)) {
        return 0;
    }
    return rows <= block ? ceil_div(tasks, block) : tasks / rows * ceil_div(rows, block);
}

// Elements of an array that each task has in the memory of a block; 0 for others.
static int64_t stored_of(const opw_block_phases *own, const int64_t *stored, const char *name)
{
    int64_t found = 0;
    for (int64_t n = 0; n < own->count; ++n) {
        found = strcmp(own->arrays[n].name, name) == 0 ? stored[n] : found;
    }
    return found;
}

// The rows of each product, as they are or with the operands exchanged; 0 if tasks are not such rows.
static int64_t rows_of(opw_prepared *product, int64_t tasks, const int64_t *cells)
{
    int64_t found = 0;
    for (int64_t swapped = 0; swapped < 2 && found == 0; ++swapped) {
        product->problem.swapped = swapped;
        found = product->engine->rows(&product->problem, tasks, cells);
    }
    return found;
}

static bool inside(const opw_block_phases *own, int64_t phase) { return own->first <= phase && phase < own->last; }

void opw_plan_blocks(const opw_context *x, const int64_t *lanes, opw_plan *plan)
{
    const opw_operation *const op = x->op;
    const opw_block_phases *const own = op->blocks;
    opw_blocked *const made = &plan->blocked;
    const opw_blocked none = {0};
    int64_t cells[OPWRIGHT_BLOCK_ARRAYS], stored[OPWRIGHT_BLOCK_ARRAYS], tasks = 1, rows = INT64_MAX, each = 0, packed = 0;
    *made = none;
    for (int64_t n = 0; own != NULL && own->letters[n] != NULL; ++n) {
        const opw_extent extents = opw_axis(&x->found.letters, own->letters[n]);
        for (int64_t at = 0; at < extents.count; ++at) {
            tasks = (int64_t)opw_min(opw_mul(tasks, extents.at[at]), INT64_MAX);
        }
    }
    if (own == NULL || tasks == 0) {
        return;
    }
    for (int64_t n = 0; n < plan->product_count; ++n) { // pairs in another order leave other arrays
        if (plan->of[n] != &op->products[n]) {
            return;
        }
    }
    for (const opw_block_rows *one = own->rows; one->lanes != NULL; ++one) {
        if (strchr(one->lanes, (char)('0' + lanes[one->phase])) == NULL) {
            return;
        }
    }
    for (int64_t n = 0; n < own->count; ++n) {
        for (int64_t at = 0; at < x->found.betweens; ++at) {
            const opw_between *const one = &x->found.between[at];
            if (strcmp(one->name, own->arrays[n].name) == 0) {
                stored[n] = cells[n] = (int64_t)(opw_min(one->cells[0], INT64_MAX) / tasks);
            }
        }
        for (int64_t at = 0; at < plan->product_count; ++at) {
            const bool gone = plan->products[at].destination != OPWRIGHT_STORED && plan->products[at].engine != NULL;
            stored[n] = gone && strcmp(op->products[at].target.array, own->arrays[n].name) == 0 ? 0 : stored[n];
        }
        made->each[n] = stored[n] * own->arrays[n].sizes[x->found.row];
        each += made->each[n];
    }
    for (int64_t n = 0; n < plan->product_count; ++n) {
        const opw_product_of *const one = &op->products[n];
        opw_prepared *const product = &plan->products[n];
        if (!inside(own, one->phase)) {
            continue;
        }
        const bool after = (one->output.array != NULL && inside(own, one->copy)) || one->finish[0] != NULL;
        if (product->engine == NULL || product->engine->rows == NULL || (after && product->destination == OPWRIGHT_STORED)) {
            return;
        }
        const bool finished = product->destination == OPWRIGHT_FINISHED;
        const int64_t given[] = {stored_of(own, stored, one->left.array), stored_of(own, stored, one->right.array),
                                 stored_of(own, finished ? cells : stored, one->target.array)};
        const int64_t found = rows_of(product, tasks, given);
        if (found == 0) {
            return;
        }
        rows = found < rows ? found : rows;
        packed += product->engine->packed(&product->problem, 0);
    }
    made->blocks.count = count_of(tasks, rows, each, packed);
    if (made->blocks.count == 0) {
        return;
    }
    const int64_t most = ceil_div(tasks, made->blocks.count);
    made->blocks.tasks = tasks;
    for (int64_t n = 0; n < own->count; ++n) {
        made->at[n] = made->blocks.scratch;
        made->blocks.scratch += (int64_t)opw_lines(most * made->each[n]);
    }
    for (int64_t n = 0; n < plan->product_count; ++n) {
        opw_prepared *const product = &plan->products[n];
        if (inside(own, op->products[n].phase)) {
            product->by_blocks = true;
            product->packed = made->blocks.packed;
            made->blocks.packed += (int64_t)opw_lines(product->engine->packed(&product->problem, 1));
            made->blocks.bytes = larger(made->blocks.bytes, product->engine->block_scratch(&product->problem, most));
            made->copied = larger(made->copied, product->engine->copied(&product->problem));
        }
    }
    made->blocks.bytes = made->blocks.scratch + (int64_t)opw_lines(made->blocks.bytes);
}
