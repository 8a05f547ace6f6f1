// The struct of sizes of kernels of steps: sizes, strides, lanes, and the layout of their memory. The
// package's modules _step_sizes.py and _schedules.py give the reasons.

#include "operation.h"

#include <stdlib.h>
#include <string.h>

enum {
    ENOUGH = 16, // cells that fill vectors
    SERVED = 8,  // rows for which it pays to turn others
    KEPT = 256,  // cells of a lane that are kept
    FARTHER = 8, // distances of cells
    RUNS = 6,
    ALONG = 16,
};

// A run: its extents, and the strides of each array along it, with as few axes as all arrays allow.
typedef struct run {
    const char *symbol;
    int64_t count, extents[OPWRIGHT_AXES];
    int64_t arrays;
    struct {
        const char *array, *axis;
        int64_t strides[OPWRIGHT_AXES];
    } along[ALONG];
} run;

typedef struct planner {
    const opw_context *x;
    const opw_operation *op;
    const opw_array *arrays;
    int64_t runs;
    run run[RUNS];
} planner;

typedef struct candidate {
    const opw_lanes *lanes;
    int64_t extent;
    bool near, close, crossed, turned, follows, beside, nearest;
    int64_t served, kept, apart;
} candidate;

// The strides of an axis in elements; 0 for extents of 1, of which any cell is the only one. Returns how many.
static int64_t steps_of(const opw_array *array, const char *axis, int64_t *steps)
{
    opw_int room[OPWRIGHT_AXES];
    const opw_extent spots = opw_spots_of(array->places, axis, room);
    for (int64_t n = 0; n < spots.count; ++n) {
        steps[n] = array->shape[spots.at[n]] == 1 ? 0 : array->strides[spots.at[n]];
    }
    return spots.count;
}

static const char *symbol_of(const opw_array_info *info, const char *axis)
{
    for (const opw_pair *one = info->axes; one->name != NULL; ++one) {
        if (strcmp(one->name, axis) == 0) {
            return one->value;
        }
    }
    return "";
}

// Runs.

static void add_along(const planner *t, run *made, const opw_array_info *info, const opw_array *array)
{
    (void)t;
    for (const opw_pair *axis = info->axes; axis->name != NULL; ++axis) {
        if (strcmp(axis->value, made->symbol) == 0 && made->arrays < ALONG) {
            int64_t steps[OPWRIGHT_AXES];
            const int64_t count = steps_of(array, axis->name, steps);
            int64_t *const strides = made->along[made->arrays].strides;
            for (int64_t n = 0; n < made->count; ++n) {
                const int64_t own = n - (made->count - count);
                strides[n] = own < 0 ? 0 : steps[own];
            }
            made->along[made->arrays].array = info->name;
            made->along[made->arrays++].axis = axis->name;
        }
    }
}

// Whether axis `a` precedes axis `b`: its stride is larger in the first array where they differ.
static bool farther(const run *made, int64_t a, int64_t b)
{
    for (int64_t n = 0; n < made->arrays; ++n) {
        const int64_t mine = llabs(made->along[n].strides[a]), theirs = llabs(made->along[n].strides[b]);
        if (mine != theirs) {
            return mine > theirs;
        }
    }
    return false;
}

static void exchange(run *made, int64_t a, int64_t b)
{
    const int64_t extent = made->extents[a];
    made->extents[a] = made->extents[b];
    made->extents[b] = extent;
    for (int64_t n = 0; n < made->arrays; ++n) {
        const int64_t stride = made->along[n].strides[a];
        made->along[n].strides[a] = made->along[n].strides[b];
        made->along[n].strides[b] = stride;
    }
}

static void order(run *made)
{
    for (int64_t axis = 1; axis < made->count; ++axis) {
        for (int64_t at = axis; at > 0 && farther(made, at, at - 1); --at) {
            exchange(made, at, at - 1);
        }
    }
}

static bool through(const run *made, int64_t outer, int64_t inner)
{
    bool one = true;
    for (int64_t n = 0; n < made->arrays; ++n) {
        one = one && made->along[n].strides[outer] == made->along[n].strides[inner] * made->extents[inner];
    }
    return one;
}

static void merge(run *made)
{
    int64_t axes = 0;
    for (int64_t axis = 0; axis < made->count; ++axis) {
        if (made->extents[axis] == 1) {
            continue;
        }
        const bool joins = axes > 0 && through(made, axes - 1, axis);
        const int64_t to = joins ? axes - 1 : axes++;
        made->extents[to] = joins ? made->extents[to] * made->extents[axis] : made->extents[axis];
        for (int64_t n = 0; n < made->arrays; ++n) {
            made->along[n].strides[to] = made->along[n].strides[axis];
        }
    }
    if (axes == 0) {
        axes = made->extents[0] = 1;
        for (int64_t n = 0; n < made->arrays; ++n) {
            made->along[n].strides[0] = 0;
        }
    }
    made->count = axes;
}

static void find_run(planner *t, const char *symbol, bool counted)
{
    run *const made = &t->run[t->runs++];
    const opw_extent extents = opw_axis(&t->x->found.values, symbol);
    made->symbol = symbol;
    made->count = extents.count;
    made->arrays = 0;
    for (int64_t n = 0; n < extents.count; ++n) {
        made->extents[n] = (int64_t)extents.at[n];
    }
    for (int pass = 0; pass < 2; ++pass) { // outputs first
        for (int64_t n = 0; n < t->op->array_count; ++n) {
            if ((t->op->arrays[n].role == OPWRIGHT_WRITTEN) == (pass == 0)) {
                add_along(t, made, &t->op->arrays[n], &t->arrays[n]);
            }
        }
    }
    if (!counted) {
        order(made);
    }
    merge(made);
}

static const run *run_of(const planner *t, const char *symbol)
{
    for (int64_t n = 0; n < t->runs; ++n) {
        if (strcmp(t->run[n].symbol, symbol) == 0) {
            return &t->run[n];
        }
    }
    return NULL;
}

// Gives the axes of a run to one beside it that has one cell. Both have the same arrays in the same order.
static void exchange_runs(planner *t, const opw_pair *pair)
{
    run *const outer = &t->run[run_of(t, pair->name) - t->run], *const inner = &t->run[run_of(t, pair->value) - t->run];
    if (inner->count != 1 || inner->extents[0] != 1) {
        return;
    }
    inner->count = outer->count;
    memcpy(inner->extents, outer->extents, sizeof inner->extents);
    outer->count = outer->extents[0] = 1;
    for (int64_t n = 0; n < outer->arrays; ++n) {
        memcpy(inner->along[n].strides, outer->along[n].strides, sizeof inner->along[n].strides);
        outer->along[n].strides[0] = 0;
    }
}

// The strides along an axis, 0 for broadcasting; returns the number of axes.
static int64_t strides_of(const planner *t, const char *name, const char *axis, int64_t *strides)
{
    const opw_array *const array = opw_array_of(t->op, t->arrays, name);
    const opw_array_info *const info = t->op->arrays + (array - t->arrays);
    const run *const along = run_of(t, symbol_of(info, axis));
    for (int64_t n = 0; along != NULL && n < along->arrays; ++n) {
        if (strcmp(along->along[n].array, name) == 0 && strcmp(along->along[n].axis, axis) == 0) {
            memcpy(strides, along->along[n].strides, (size_t)along->count * sizeof *strides);
            return along->count;
        }
    }
    return steps_of(array, axis, strides);
}

// Lanes.

static bool absent(const planner *t, const char *name)
{
    for (int64_t n = 0; n < t->op->output_count; ++n) {
        if (strcmp(t->op->outputs[n].name, name) == 0) {
            return t->x->found.outputs[n].absent;
        }
    }
    return false;
}

// Whether tiles copy the second tensor to the first.
static bool crosses(const planner *t, const opw_lanes *letter)
{
    const opw_pair *const to = &letter->walks[0], *const from = &letter->walks[1];
    const opw_array *const written = opw_array_of(t->op, t->arrays, to->name);
    const opw_array *const read = opw_array_of(t->op, t->arrays, from->name);
    const run *const along = run_of(t, symbol_of(t->op->arrays + (written - t->arrays), to->value));
    int64_t to_steps[OPWRIGHT_AXES], from_steps[OPWRIGHT_AXES], across = -1;
    const int64_t count = strides_of(t, to->name, to->value, to_steps);
    strides_of(t, from->name, from->value, from_steps);
    for (int64_t n = 0; across < 0 && n + 1 < count; ++n) {
        across = from_steps[n] == 1 ? n : -1;
    }
    return along != NULL && written->dtype == read->dtype && across >= 0 && to_steps[count - 1] == 1 &&
           along->extents[along->count - 1] >= ENOUGH && along->extents[across] >= ENOUGH;
}

static int64_t cells_of(const planner *t, const char *const *letters)
{
    int64_t cells = 1;
    for (; *letters != NULL; ++letters) {
        const opw_extent own = opw_axis(&t->x->found.letters, *letters);
        for (int64_t n = 0; n < own.count; ++n) {
            cells *= (int64_t)own.at[n];
        }
    }
    return cells;
}

// The extent of an axis, and how far its neighbours lie apart; false if the call has no such axis.
static bool walked(const planner *t, const opw_pair *walk, int64_t *extent, int64_t *step)
{
    const opw_array *const array = opw_array_of(t->op, t->arrays, walk->name);
    const run *const along = run_of(t, symbol_of(t->op->arrays + (array - t->arrays), walk->value));
    opw_int room[OPWRIGHT_AXES];
    int64_t steps[OPWRIGHT_AXES];
    const opw_extent spots = opw_spots_of(array->places, walk->value, room);
    if (absent(t, walk->name) || (along == NULL && spots.count == 0)) {
        return false;
    }
    const int64_t count = strides_of(t, walk->name, walk->value, steps);
    *extent = along != NULL ? along->extents[along->count - 1] : array->shape[spots.at[spots.count - 1]];
    *step = count > 0 ? steps[count - 1] : 0;
    return true;
}

// How far neighbours lie apart in an array, along all of its axes that the letter walks.
static int64_t apart_in(const planner *t, const opw_lanes *letter, const char *name)
{
    opw_int found = 0;
    int64_t extent, step;
    for (const opw_pair *walk = letter->walks; walk->name != NULL; ++walk) {
        found += strcmp(walk->name, name) == 0 && walked(t, walk, &extent, &step) ? step : 0;
    }
    return (int64_t)opw_min(opw_max(found, -found), INT64_MAX);
}

// Whether all axes of a letter lie as one in the arrays that it walks.
static bool joined(const planner *t, const opw_lanes *letter)
{
    const opw_extent own = opw_axis(&t->x->found.letters, letter->letter);
    for (const opw_pair *walk = letter->walks; walk->name != NULL; ++walk) {
        int64_t steps[OPWRIGHT_AXES];
        opw_int cells = 1;
        const int64_t count = strides_of(t, walk->name, walk->value, steps);
        for (int64_t n = 1; n <= count && n <= own.count; ++n) {
            const int64_t extent = (int64_t)own.at[own.count - n];
            if (extent != 1 && steps[count - n] != opw_mul(cells, steps[count - 1])) {
                return false;
            }
            cells = opw_mul(cells, extent);
        }
    }
    return own.count > 0;
}

// How far neighbours along the one axis lie apart in memory; 0 if there are several axes.
static int64_t step_along(const planner *t, const opw_pair *walk)
{
    int64_t steps[OPWRIGHT_AXES];
    return strides_of(t, walk->name, walk->value, steps) == 1 ? steps[0] : 0;
}

// Whether neighbours lie together in what is written, and those of tasks in rows that are turned.
static bool turned(const planner *t, const opw_lanes *letter)
{
    bool found = letter->turns[0].name != NULL && letter->walks[0].name != NULL && step_along(t, &letter->walks[0]) == 1;
    for (const opw_pair *walk = letter->turns; walk->name != NULL; ++walk) {
        found = found && (step_along(t, walk) == 1 || step_along(t, walk) == -1);
    }
    return found;
}

// Whether rows of so many cells follow one another; those of f16 are converted one by one.
static bool follows(const planner *t, const opw_lanes *letter, int64_t cells)
{
    bool found = letter->follows[0].name != NULL;
    for (const opw_pair *walk = letter->follows; walk->name != NULL; ++walk) {
        int64_t steps[OPWRIGHT_AXES];
        found = found && !absent(t, walk->name) && opw_array_of(t->op, t->arrays, walk->name)->dtype != OPWRIGHT_F16 &&
                strides_of(t, walk->name, walk->value, steps) == 1 && steps[0] == cells;
    }
    return found;
}

// Counts the cells of axes that are one with that of a letter, too; false where their rows do not follow one another.
static bool beside(const planner *t, const opw_lanes *letter, const opw_pair *walk, int64_t step, int64_t *cells)
{
    bool found = true;
    for (const opw_pair *more = letter->beside; more->name != NULL; ++more) {
        int64_t rows, apart;
        if (strcmp(more->name, walk->name) == 0 && walked(t, more, &rows, &apart)) {
            found = found && step == 1 && apart == *cells;
            *cells *= rows;
        }
    }
    return found;
}

static candidate described(const planner *t, const opw_lanes *letter)
{
    candidate made = {
        .lanes = letter, .near = !letter->apart, .close = !letter->apart, .beside = true, .kept = cells_of(t, letter->kept)};
    const char *const alone[] = {letter->letter, NULL};
    const opw_extent own = opw_axis(&t->x->found.letters, letter->letter);
    bool any = false, ones = true;
    made.served = letter->serves[0] != NULL ? cells_of(t, letter->serves) : 0;
    for (const opw_pair *walk = letter->walks; walk->name != NULL; ++walk) {
        int64_t extent, step;
        if (walked(t, walk, &extent, &step)) {
            const int64_t apart = apart_in(t, letter, walk->name);
            any = true;
            ones = ones && step == 1;
            made.beside = beside(t, letter, walk, step, &extent) && made.beside;
            made.extent = extent > made.extent ? extent : made.extent;
            made.near = made.near && (step == 0 || step == 1);
            made.close = made.close && 0 <= step && step < letter->views;
            made.apart = apart > made.apart ? apart : made.apart;
        }
    }
    if (!any) { // it walks sums alone
        made.extent = own.count > 0 ? (int64_t)own.at[own.count - 1] : 1;
    }
    if (letter->joins && joined(t, letter)) {
        made.extent = cells_of(t, alone);
    }
    made.crossed = letter->moves && crosses(t, letter);
    made.turned = turned(t, letter);
    made.follows = any && ones && follows(t, letter, made.extent);
    return made;
}

// Whether lanes may go along a letter in this call.
static bool serves(const candidate *c)
{
    return c->beside && (c->lanes->views == 0 || (c->close && c->extent >= ENOUGH));
}

// Whether neighbours of all other letters that fill vectors lie FARTHER times as far apart.
static bool nearest(const candidate *made, int64_t count, int64_t at)
{
    bool any = false, all = true;
    for (int64_t n = 0; n < count; ++n) {
        if (n != at && serves(&made[n]) && made[n].extent >= ENOUGH) {
            any = true;
            all = all && opw_mul(FARTHER, made[at].apart) <= made[n].apart;
        }
    }
    return any && all;
}

// The rows of the table of schedules; the first whose condition holds is used. Letters with less than a third of the
// work of another are left out.
static bool holds(int row, const candidate *c)
{
    const bool enough = c->extent >= ENOUGH, own = c->lanes->own;
    const bool rows[] = {
        c->served >= SERVED && enough && c->kept <= KEPT, // turned
        c->crossed, // tiles
        own && c->near && enough, // block
        c->follows && c->lanes->least <= c->extent && !enough, // short rows
        c->lanes->copies && c->near && 1 < c->extent && !enough, // copied rows
        own && c->turned && enough, // turned rows
        !own && c->near && enough, // row
        !own && c->nearest && enough, // near row through room
        own && c->nearest && enough, // near block through room
        own && enough, // block through room
        enough, // row through room
        true, // rest
    };
    return rows[row];
}

static int64_t lanes_of(const planner *t, const opw_phase *phase, int64_t count)
{
    enum { ROWS = 12, LETTERS = 8 };
    candidate made[LETTERS];
    int64_t most = 0;
    for (int64_t n = 0; n < count; ++n) {
        made[n] = described(t, &phase->letters[n]);
        most = serves(&made[n]) && made[n].lanes->terms > most ? made[n].lanes->terms : most;
    }
    for (int64_t n = 0; n < count; ++n) {
        made[n].nearest = nearest(made, count, n);
    }
    for (int row = 0; row < ROWS; ++row) {
        int64_t best = -1;
        for (int64_t n = 0; n < count; ++n) {
            const bool first = best < 0 || made[n].lanes->terms > made[best].lanes->terms;
            const bool alike = best >= 0 && made[n].lanes->terms == made[best].lanes->terms;
            const bool works = serves(&made[n]) && 3 * made[n].lanes->terms >= most;
            if (works && holds(row, &made[n]) && (first || (alike && made[n].extent > made[best].extent))) {
                best = n;
            }
        }
        if (best >= 0) {
            return best;
        }
    }
    return 0;
}

// Members.

void opw_put_values(int64_t *at, const opw_field *field, opw_extent value)
{
    if (field->length == 0) {
        *at = (int64_t)value.at[0];
        return;
    }
    for (int64_t n = 0; n < field->length; ++n) {
        const int64_t own = n - (field->length - value.count);
        at[n] = own < 0 ? field->neutral : (int64_t)value.at[own];
    }
}

static void put_reals(double *at, const opw_field *field, const opw_real_values *reals)
{
    for (int64_t entry = 0; entry < reals->count; ++entry) {
        if (strcmp(reals->entries[entry].name, field->of) == 0) {
            const int64_t length = field->length > 0 ? field->length : 1;
            for (int64_t n = 0; n < length; ++n) {
                const int64_t own = n - (length - reals->entries[entry].count);
                at[n] = own < 0 ? (double)field->neutral : reals->pool[reals->entries[entry].first + own];
            }
        }
    }
}

static int64_t number_of_word(const planner *t, const char *name)
{
    const opw_word_list *list = t->op->words;
    const char *word = "";
    for (int64_t n = 0; n < t->x->found.words; ++n) {
        word = strcmp(t->x->found.word[n].name, name) == 0 ? t->x->found.word[n].word : word;
    }
    while (strcmp(list->name, name) != 0) {
        ++list;
    }
    int64_t number = 0;
    while (list->words[number + 1] != NULL && strcmp(list->words[number], word) != 0) {
        ++number;
    }
    return number;
}

static void put_strides(const planner *t, int64_t *at, const opw_field *field)
{
    int64_t strides[OPWRIGHT_AXES];
    const opw_array *const array = opw_array_of(t->op, t->arrays, field->of);
    const bool run = symbol_of(t->op->arrays + (array - t->arrays), field->axis)[0] != 0;
    const int64_t count = strides_of(t, field->of, field->axis, strides);
    const int64_t length = field->length > 0 ? field->length : 1;
    for (int64_t n = 0; n < length; ++n) {
        const int64_t own = run || field->length == 0 ? n : n - (length - count);
        at[n] = own < 0 || own >= count ? 0 : strides[own];
    }
}

static void put_member(const planner *t, int64_t *at, const opw_field *field)
{
    const run *const along = field->kind == OPWRIGHT_RANK || field->kind == OPWRIGHT_EXTENTS ? run_of(t, field->of) : 0;
    switch (field->kind) {
    case OPWRIGHT_VALUE: opw_put_values(at, field, opw_axis(&t->x->found.values, field->of)); break;
    case OPWRIGHT_REAL: put_reals((double *)(void *)at, field, &t->x->found.reals); break;
    case OPWRIGHT_RANK: *at = along->count; break;
    case OPWRIGHT_EXTENTS: memcpy(at, along->extents, (size_t)along->count * sizeof *at); break;
    case OPWRIGHT_WORD: *at = number_of_word(t, field->of); break;
    case OPWRIGHT_ABSENT: *at = absent(t, field->of); break;
    case OPWRIGHT_STRIDE: put_strides(t, at, field); break;
    default: break;
    }
}

static const opw_field *field_of(const opw_operation *op, enum opw_field_kind kind, const char *of)
{
    for (int64_t n = 0; n < op->field_count; ++n) {
        if (op->fields[n].kind == kind && strcmp(op->fields[n].of, of) == 0) {
            return &op->fields[n];
        }
    }
    return NULL;
}

static int64_t *member(const opw_operation *op, void *sizes, enum opw_field_kind kind, const char *of)
{
    const opw_field *const field = field_of(op, kind, of);
    return field != NULL ? (int64_t *)(void *)((char *)sizes + field->at) : NULL;
}

static bool unstored(const opw_operation *op, const opw_plan *plan, const char *name)
{
    bool found = false;
    for (int64_t n = 0; n < plan->product_count; ++n) {
        const opw_prepared *const product = &plan->products[n];
        const bool stored = product->engine == NULL || product->destination == OPWRIGHT_STORED;
        found = found || (!stored && strcmp(op->products[n].target.array, name) == 0);
    }
    for (int64_t n = 0; plan->blocked.blocks.count > 0 && n < op->blocks->count; ++n) {
        found = found || strcmp(op->blocks->arrays[n].name, name) == 0;
    }
    return found;
}

// The cells of an intermediate in which all tasks share: those of the pair that is stored there.
static opw_int cells_between(const planner *t, const opw_plan *plan, const opw_between *one, int64_t lane)
{
    opw_int cells = one->cells[lane];
    for (int64_t n = 0; n < plan->product_count; ++n) {
        const opw_product_of *const other = plan->of[n];
        if (other != &t->op->products[n] && strcmp(other->target.array, one->name) == 0) {
            cells = 1;
            for (const opw_pair *axis = other->target.letters; axis->name != NULL; ++axis) {
                const char *const letter[] = {axis->value, NULL};
                cells = opw_mul(cells, cells_of(t, letter));
            }
        }
    }
    return cells;
}

// The offset of each intermediate: those shared by all tasks, then those of a task.
static void lay_out(const planner *t, void *sizes, const int64_t *lanes, opw_plan *plan)
{
    const opw_found *const found = &t->x->found;
    const int64_t itemsize = t->op->integers ? 8 : opw_dtype_names[t->op->accumulate[found->row]].size;
    int64_t end[2] = {0, 0}, begins[sizeof found->between / sizeof *found->between];
    for (int64_t n = 0; n < found->betweens; ++n) {
        const opw_between *const one = &found->between[n];
        const bool own = one->phase >= 0;
        const opw_int cells = cells_between(t, plan, one, own && one->letters > 1 ? lanes[one->phase] : 0);
        const opw_int bytes = unstored(t->op, plan, one->name) ? 0 : opw_mul(cells, itemsize);
        begins[n] = end[own];
        end[own] = (int64_t)opw_min(opw_add(end[own], opw_lines(bytes)), INT64_MAX / 2);
    }
    for (int64_t n = 0; n < found->betweens; ++n) {
        int64_t *const at = member(t->op, sizes, OPWRIGHT_AT, found->between[n].name);
        if (at != NULL) {
            *at = begins[n] + (found->between[n].phase >= 0 ? end[0] : 0);
        }
    }
    plan->shared = end[0];
    plan->task = end[1];
    int64_t *const bytes = member(t->op, sizes, OPWRIGHT_BYTES, "");
    if (bytes != NULL) {
        *bytes = end[1];
    }
}

static void put_blocks(const planner *t, void *sizes, const opw_blocked *blocked)
{
    int64_t *const blocks = member(t->op, sizes, OPWRIGHT_BLOCKS, "");
    int64_t *const each = member(t->op, sizes, OPWRIGHT_EACH, "");
    if (blocks == NULL || blocked->blocks.count == 0) {
        return;
    }
    memcpy(blocks, &blocked->blocks, sizeof blocked->blocks);
    for (int64_t n = 0; n < t->op->blocks->count; ++n) {
        each[n] = blocked->each[n];
        *member(t->op, sizes, OPWRIGHT_AT, t->op->blocks->arrays[n].name) = blocked->at[n];
    }
}

// Which of the operands of all its pairs is which side of a contraction of several factors.
static void put_operands(const planner *t, void *sizes, const opw_plan *plan)
{
    int64_t *const at = member(t->op, sizes, OPWRIGHT_OPERANDS, "");
    for (const opw_orders *some = t->op->orders; some != NULL && some->count > 0; ++some) {
        for (int64_t n = 0; n < some->count; ++n) {
            const opw_product_of *const one = plan->of[some->numbers[n]];
            const char *const sides[] = {one->left.array, one->right.array};
            for (int64_t side = 0; side < 2; ++side) {
                int64_t place = 0;
                while (strcmp(some->operands[place], sides[side]) != 0) {
                    ++place;
                }
                at[2 * some->numbers[n] + side] = place;
            }
        }
    }
}

const int64_t *opw_lanes_of(const opw_operation *op, const void *sizes)
{
    return (const int64_t *)(const void *)((const char *)sizes + field_of(op, OPWRIGHT_LANES, "")->at);
}

void opw_plan_steps(const opw_context *x, const opw_array *arrays, void *sizes, opw_plan *plan)
{
    planner t;
    t.x = x;
    t.op = x->op;
    t.arrays = arrays;
    t.runs = 0;
    for (int64_t n = 0; n < t.op->field_count; ++n) {
        if (t.op->fields[n].kind == OPWRIGHT_RANK && t.runs < RUNS) {
            find_run(&t, t.op->fields[n].of, t.op->fields[n].axis[0] != 0);
        }
    }
    for (const opw_pair *pair = t.op->exchanged; pair->name != NULL; ++pair) {
        exchange_runs(&t, pair);
    }
    for (int64_t n = 0; n < t.op->field_count; ++n) {
        put_member(&t, (int64_t *)(void *)((char *)sizes + t.op->fields[n].at), &t.op->fields[n]);
    }
    int64_t *const lanes = member(t.op, sizes, OPWRIGHT_LANES, "");
    for (int64_t n = 0; n < t.op->phase_count; ++n) {
        const bool last = n >= 64 || (plan->without >> n & 1) == 0;
        lanes[n] = lanes_of(&t, &t.op->phases[n], t.op->phases[n].count - !last);
    }
    opw_plan_products(x, arrays, lanes, plan);
    opw_plan_blocks(x, lanes, plan);
    lay_out(&t, sizes, lanes, plan);
    put_blocks(&t, sizes, &plan->blocked);
    put_operands(&t, sizes, plan);
    opwright_product *const products = (opwright_product *)(void *)member(t.op, sizes, OPWRIGHT_PRODUCTS, "");
    for (int64_t n = 0; n < plan->product_count; ++n) {
        const opw_prepared *const one = &plan->products[n];
        const opwright_product none = {0};
        products[n] = none;
        if (one->engine != NULL) {
            products[n].run = one->engine->run;
            products[n].problem = &one->problem;
            products[n].destination = one->destination;
            products[n].shared = plan->shared;
            products[n].task = plan->task;
            products[n].pack = one->engine->pack;
            products[n].block = one->engine->block;
            products[n].packed = one->packed;
        }
    }
}

int64_t opw_plan_bytes(const opw_plan *plan, int64_t workers)
{
    opw_int products = 0;
    for (int64_t n = 0; n < plan->product_count; ++n) {
        const opw_prepared *const one = &plan->products[n];
        const bool whole = one->engine != NULL && !one->by_blocks;
        const opw_int bytes = whole ? one->engine->scratch(&one->problem, workers) : 0;
        products = opw_max(products, bytes);
    }
    const opw_blocked *const by = &plan->blocked;
    const opw_int own = opw_max(by->copied, opw_mul(by->blocks.bytes, workers));
    products = opw_max(products, opw_add(by->blocks.packed, own));
    const opw_int steps = opw_add(plan->shared, opw_mul(plan->task, workers));
    return (int64_t)opw_min(opw_add(steps, products), INT64_MAX);
}
