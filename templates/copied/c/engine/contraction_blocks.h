// Blocks of rows, for several steps that go from block to block: right is packed once, for all products, and then each
// block of rows is multiplied on one worker, whose cache has what the steps before and after leave for each other.
//
// Rows are counted through all products. `swapped` exchanges left and right, rows and columns. Terms and their order are
// those of whole products.

#ifndef OPWRIGHT_CONTRACTION_BLOCKS_H
#define OPWRIGHT_CONTRACTION_BLOCKS_H

// The plan of up to `rows` rows of one product. `q->batches` stay, for the first cells of a product. Fewer rows need no
// more scratch: a block has few at the end of a product.
static void block_plan_of(plan *p, const opwright_contraction *contraction, int64_t rows) {
    *p = (plan){.q = *contraction};
    if (contraction->swapped)
        exchange(&p->q);
    p->products = products_of(&p->q);
    const bool registers = in_registers(&p->q);
    p->q.rows = rows;
    tiles_of(p, registers);
    p->stage_chunks = p->chunks, p->stage_vectors = p->share = p->vectors;
    p->block = max(1, min(block_of(p, BLOCK_TILES), FINISHED_BYTES / (max_rows(p->wide) * p->vectors * LANES * UNIT_BYTES)));
    const int64_t most = min(p->tiles, p->block) * max_rows(p->wide);
    p->right_bytes = p->chunks * p->chunk * p->vectors * LANES * UNIT_BYTES;
    p->left_bytes = p->in_place ? 0 : whole_lines(most * p->pitch * UNIT_BYTES);
    p->sums_bytes = whole_lines(most * p->share * LANES * UNIT_BYTES);
    p->kept_bytes = OPWRIGHT_AMX && most > max_rows(p->wide) && p->chunk > PART_UNITS ? most * round_up(p->wide, 2) * LANES * UNIT_BYTES : 0;
}

// Whether rows are counted in the order of an array, of which each has `cells` without gaps.
static bool in_order(const opwright_contraction *q, int64_t cells, int64_t row, const int64_t *batch) {
    int64_t step = cells * q->rows;
    bool same = q->rows == 1 || row == cells;
    for (int64_t b = q->batches - 1; b >= 0; b--) {
        same = same && (q->batch[b] == 1 || batch[b] == step);
        step *= q->batch[b];
    }
    return same;
}

// The rows of each product, 0 if it is not computed in blocks: `tasks` are its rows through all products, `cells` those
// of left, right and out that each has in the memory of a block, 0 if the whole of an array is there.
int64_t OPWRIGHT_NAME(contract_rows)(const void *problem, int64_t tasks, const int64_t *cells) {
    opwright_contraction q = *(const opwright_contraction *)problem;
    if (q.swapped)
        exchange(&q);
    const int64_t left = cells[q.swapped], right = cells[!q.swapped], out = cells[2];
    const opwright_copied *own = q.swapped ? &q.right : &q.left;
    const int64_t each = q.split ? 2 : 1; // strides of left count halves of floats
    if (q.split == 2 || right || !(left || out) || products_of(&q) * q.rows != tasks || q.columns <= 0 || q.terms <= 0)
        return 0;
    if (left && (own->wanted || own->first || !in_order(&q, left * each, q.left_row, q.left_batch)))
        return 0;
    return out && !in_order(&q, out, q.out_row, q.out_batch) ? 0 : q.rows;
}

// Bytes of what is packed of one product, or of all.
int64_t OPWRIGHT_NAME(contract_packed)(const void *problem, int64_t all) {
    const opwright_contraction *q = problem;
    plan p;
    block_plan_of(&p, q, 1);
    return (all ? p.products : 1) * p.right_bytes + copied_bytes(q->swapped ? &q->right : &q->left);
}

// Bytes of scratch while it is packed.
int64_t OPWRIGHT_NAME(contract_copied)(const void *problem) {
    const opwright_contraction *q = problem;
    return copied_bytes(q->swapped ? &q->left : &q->right);
}

// Bytes of a worker's scratch, for blocks of up to so many rows.
int64_t OPWRIGHT_NAME(contract_block_scratch)(const void *problem, int64_t rows) {
    plan p;
    block_plan_of(&p, problem, rows);
    return p.left_bytes + p.sums_bytes + p.kept_bytes;
}

static void pack_block_task(const void *context, int64_t task, int64_t worker) {
    (void)worker;
    const call *c = context;
    const plan *p = c->p;
    const int64_t each = ceil_div(PACKED_VECTORS, p->wide) * p->wide, pieces = ceil_div(p->vectors, each);
    const int64_t product = task / pieces / p->chunks, chunk = task / pieces % p->chunks, first = task % pieces * each;
    int64_t left, right, out;
    product_at(&p->q, product, &left, &right, &out);
    pack_right(p, c->right + right, chunk, first, min(each, p->vectors - first),
               c->packed + product * (p->right_bytes / UNIT_BYTES) + (chunk * p->chunk * p->vectors + first * packed_units(p, chunk)) * LANES);
}

// Packs right of all products to `packed`, behind the copy of left if that is not read as it is.
void OPWRIGHT_NAME(contract_pack)(const void *problem, const void *left, const void *right, void *packed,
                                  const opwright_team *team, void *scratch) {
    const opwright_contraction *q = problem;
    const opwright_copied *const own = q->swapped ? &q->right : &q->left;
    plan p;
    block_plan_of(&p, q, 1);
    if (own->wanted)
        copied_operand(own, q->swapped ? right : left, packed, team);
    call c = {.p = &p, .packed = (unit *)(void *)((char *)packed + copied_bytes(own))};
    c.right = copied_operand(q->swapped ? &q->left : &q->right, q->swapped ? left : right, scratch, team);
    const int64_t each = ceil_div(PACKED_VECTORS, p.wide) * p.wide;
    opwright_run(team, pack_block_task, &c, p.products * p.chunks * ceil_div(p.vectors, each));
}

// Rows [begin, end) of all products.
void OPWRIGHT_NAME(contract_block)(const void *problem, const void *left, const void *right, const void *packed, void *out,
                                   opwright_finish *finish, const void *context, int64_t begin, int64_t end, void *scratch) {
    const opwright_contraction *q = problem;
    const opwright_copied *const own = q->swapped ? &q->right : &q->left;
    const int64_t rows = q->swapped ? q->columns : q->rows;
    const elem *const first = own->wanted ? packed : (const elem *)(q->swapped ? right : left) + own->first;
    const unit *const panels = (const unit *)(const void *)((const char *)packed + copied_bytes(own));
    const sink whole = {out, 0, finish, context};
    for (int64_t count; begin < end; begin += count) {
        count = min(end - begin, rows - begin % rows);
        plan p;
        block_plan_of(&p, q, count);
        int64_t left_at, right_at, out_at;
        product_at(&p.q, begin / rows, &left_at, &right_at, &out_at);
        const call c = {.p = &p, .chunks = p.chunks, .vectors = p.vectors};
        const elem *const from = first + left_at + begin % rows * p.q.left_row;
        const sink put = sink_at(&p.q, whole, out_at + begin % rows * p.q.out_row);
        real *const sums = (real *)(void *)((char *)scratch + p.left_bytes);
        for (int64_t tile = 0, last; tile < p.tiles; tile = last) {
            last = min(p.tiles, tile + p.block);
            multiply(&p, &c, panels + begin / rows * (p.right_bytes / UNIT_BYTES), scratch, sums, from, put, tile, last, 0, p.vectors);
            put_rest(&p, &c, sums, put, tile, last, 0, p.vectors, 0);
        }
    }
}

#endif
