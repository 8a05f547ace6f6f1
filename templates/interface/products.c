// Sums of products by the engine of contractions, in place of a phase of loops: what the package's _contractions.py
// says.

#include "operation.h"

#include <stdlib.h>
#include <string.h>

enum {
    WALKS = 64,
    HALF = 1,                                        // the engine of bf16
    BYTES = 3,                                       // the engine of signed and unsigned bytes
    DIFFERENCES = 4,                                 // the first of those that sum squares of differences, or their absolute values
    F64 = 6,                                         // the engine that adds up in f64
    S64 = 7,                                         // those that add up in s64: of any integers,
    S32 = 8,                                         // and of operands that 32 bits hold
    MAX_ZERO = 1 << 14,                              // of zero points, so that no correction overflows s32
    ENOUGH = 16,                                     // cells that fill vectors
    SOME = 5,                                        // cells that fill enough of a vector
    TOGETHER = 256,                                  // columns of rows that are finished together, as in contraction.c of the engine
    LANED_LEAST = 4,                                 // rows and columns, as in contraction_lanes.h of the engine
    OFTEN = 4,                                       // products that read the same rows, whose terms lie apart: all turn them otherwise
    REUSED = 4,                                      // products of each cell that pay for a copy whose only use is fewer, longer axes
    FULL_REUSED = 128,                               // the same where an axis fills vectors, the last one in part
    FULL_TERMS = 64,                                 // with as many and full vectors no copy pays
};

// An axis of a contraction: its extent, and how far neighbours lie apart in left, right and out, in elements.
typedef struct walk {
    int64_t extent, step[3];
} walk;

enum { LEFT, RIGHT, OUT };

typedef struct walks {
    int64_t count;
    walk at[WALKS];
} walks;

typedef struct shape {
    walk rows, columns, terms;
    walks batches;
    bool copied[2];
    walks copies[2];
} shape;

static bool nested(const walks *some, int name)
{
    bool one = true;
    for (int64_t n = 0; n + 1 < some->count; ++n) {
        one = one && some->at[n].step[name] == some->at[n + 1].step[name] * some->at[n + 1].extent;
    }
    return one;
}

static walks merged(const walks *some)
{
    walks result;
    result.count = 0;
    for (int64_t n = 0; n < some->count; ++n) {
        const walk *const next = &some->at[n];
        walk *const last = result.count > 0 ? &result.at[result.count - 1] : NULL;
        bool joins = last != NULL;
        for (int name = LEFT; joins && name <= OUT; ++name) {
            joins = last->step[name] == next->step[name] * next->extent;
        }
        if (joins) {
            last->extent *= next->extent;
            memcpy(last->step, next->step, sizeof last->step);
        } else {
            result.at[result.count++] = *next;
        }
    }
    return result;
}

static void push(walks *some, walk one)
{
    if (some->count < WALKS) {
        some->at[some->count++] = one;
    }
}

// By descending stride, ties by another stride.
static void sort(walks *some, int first, int second)
{
    for (int64_t n = 1; n < some->count; ++n) {
        for (int64_t at = n; at > 0; --at) {
            const walk a = some->at[at - 1], b = some->at[at];
            const int64_t by = llabs(b.step[first]) - llabs(a.step[first]);
            const int64_t then = second < 0 ? 0 : llabs(b.step[second]) - llabs(a.step[second]);
            if (by < 0 || (by == 0 && then <= 0)) {
                break;
            }
            some->at[at - 1] = b;
            some->at[at] = a;
        }
    }
}

// How an axis ranks to be that of each product: one whose cells fill vectors of what is written, or some of one, comes
// first.
static int inside(const walk *one)
{
    const bool near = llabs(one->step[OUT]) == 1;
    return near && one->extent >= ENOUGH ? 2 : near && one->extent >= SOME ? 1 : 0;
}

static void inside_first(walks *some)
{
    for (int64_t n = 1; n < some->count; ++n) {
        for (int64_t at = n; at > 0; --at) {
            const walk one = some->at[at], before = some->at[at - 1];
            const int ahead = inside(&one) - inside(&before);
            if (ahead < 0 || (ahead == 0 && one.extent <= before.extent)) {
                break;
            }
            some->at[at] = before;
            some->at[at - 1] = one;
        }
    }
}

// The first axis that makes one block of what is written with the other, so that its sums are finished together, comes first.
static void beside_first(walks *some, const walks *others)
{
    const walk none = {1, {0, 0, 0}}, *const other = others->count > 0 ? &others->at[0] : &none;
    for (int64_t n = 0; n < some->count; ++n) {
        const walk one = some->at[n];
        const bool near = llabs(other->step[OUT]) == 1 && one.step[OUT] == other->extent * other->step[OUT];
        if (near && one.extent >= ENOUGH && other->extent <= TOGETHER) {
            memmove(&some->at[1], &some->at[0], (size_t)n * sizeof one);
            some->at[0] = one;
            return;
        }
    }
}

static int64_t far(const walk *one, int name)
{
    return one->step[name] == 0 ? INT64_MAX : llabs(one->step[name]);
}

// How many cells of some axes lie one behind the other in an array.
static int64_t side_by_side(const walks *some, int name)
{
    int64_t cells = 1;
    for (int64_t more = 0; more != 1;) {
        more = 1;
        for (int64_t n = 0; n < some->count; ++n) {
            const walk one = some->at[n];
            more = llabs(one.step[name]) == cells && one.extent > more ? one.extent : more;
        }
        cells *= more;
    }
    return cells;
}

// An operand that is copied first, as it lies or in the order of axes; the copy has no gaps. What lies side by side of rows or
// columns, enough for vectors, does so in the copy, unless terms do, or it is turned.
static void copy(shape *made, int name, bool as_it_lies, bool turned, walks *batches, walks *own, walks *terms)
{
    const bool nearer = !as_it_lies && !turned && side_by_side(own, name) >= SOME && side_by_side(terms, name) == 1;
    walks *const groups[] = {batches, nearer ? terms : own, nearer ? own : terms};
    walk *order[3 * WALKS];
    int64_t count = 0, step = 1;
    made->copied[name] = true;
    made->copies[name].count = 0;
    for (int group = 0; group < 3; ++group) {
        for (int64_t n = 0; n < groups[group]->count; ++n) {
            walk *const one = &groups[group]->at[n];
            if (groups[group] == terms || one->step[name] != 0) {
                int64_t at = count++;
                for (; as_it_lies && at > 0 && far(order[at - 1], name) < far(one, name); --at) {
                    order[at] = order[at - 1];
                }
                order[at] = one;
            }
        }
    }
    for (int64_t n = 0; n < count; ++n) {
        push(&made->copies[name], *order[n]);
    }
    while (count > 0) {
        order[--count]->step[name] = step;
        step *= order[count]->extent > 1 ? order[count]->extent : 1;
    }
}

static double cells_of(const walks *some)
{
    double cells = 1;
    for (int64_t n = 0; n < some->count; ++n) {
        cells *= (double)some->at[n].extent;
    }
    return cells;
}

// Whether axes share cells of an array, as windows do.
static bool overlaps(const walks *some, const walks *others, int name)
{
    walks all = *some;
    for (int64_t n = 0; n < others->count; ++n) {
        push(&all, others->at[n]);
    }
    sort(&all, name, -1);
    int64_t reach = 0;
    for (int64_t n = all.count; n > 0; --n) {
        const int64_t step = llabs(all.at[n - 1].step[name]);
        if (step > 0 && step <= reach) {
            return true;
        }
        reach += step * (all.at[n - 1].extent - 1);
    }
    return false;
}

// Whether a copy of an operand makes one axis of its rows or columns, and each cell is read often enough for that.
static bool joins(const walks *own, int name, const walks *others, const walks *terms)
{
    walks real;
    real.count = 0;
    int64_t near = 0, longest = 0;
    for (int64_t n = 0; n < own->count; ++n) {
        const walk one = own->at[n];
        if (one.step[name] != 0) {
            push(&real, one);
            longest = one.extent > longest ? one.extent : longest;
            near = llabs(one.step[OUT]) == 1 && llabs(one.step[name]) == 1 && one.extent > near ? one.extent : near;
        }
    }
    if (longest >= ENOUGH && overlaps(&real, terms, name)) {
        return false;
    }
    if (near >= ENOUGH && near % (2 * ENOUGH) == 0 && cells_of(terms) >= FULL_TERMS) {
        return false;
    }
    const int64_t often = near < ENOUGH ? REUSED : FULL_REUSED;
    return merged(&real).count > 1 && nested(&real, OUT) && cells_of(others) >= (double)often;
}

// Axes as rows, columns, terms and batches; false if there are too many. Left may be `turned`: copied so that each product
// finds its terms side by side.
static bool shaped(const walks *axes, const bool *reduced, const bool *mixed, bool turned, shape *made)
{
    walks rows = {0}, columns = {0}, terms = {0}, batches = {0}, repeated = {0};
    for (int64_t n = 0; n < axes->count; ++n) {
        const walk one = axes->at[n];
        const bool left = one.step[LEFT] != 0, right = one.step[RIGHT] != 0;
        if (one.extent != 1) {
            push(reduced[n] ? &terms : left && right ? &batches : left ? &rows : right ? &columns : &repeated, one);
        }
    }
    walks *const shorter = cells_of(&rows) <= cells_of(&columns) ? &rows : &columns;
    for (int64_t n = 0; n < repeated.count; ++n) {
        push(shorter, repeated.at[n]);
    }
    bool wanted[2] = {turned, false};
    sort(&terms, LEFT, RIGHT);
    if (merged(&terms).count > 1) {
        walks by_right = terms;
        sort(&by_right, RIGHT, -1);
        const bool fewer = !nested(&terms, LEFT) || cells_of(&rows) < cells_of(&columns);
        if (fewer && nested(&by_right, RIGHT)) {
            terms = by_right;
        }
        wanted[LEFT] = wanted[LEFT] || !nested(&terms, LEFT);
        wanted[RIGHT] = wanted[RIGHT] || !nested(&terms, RIGHT);
    }
    sort(&rows, OUT, -1);
    sort(&columns, OUT, -1);
    sort(&batches, OUT, -1);
    wanted[LEFT] = wanted[LEFT] || joins(&rows, LEFT, &columns, &terms);
    wanted[RIGHT] = wanted[RIGHT] || joins(&columns, RIGHT, &rows, &terms);
    made->copied[LEFT] = made->copied[RIGHT] = false;
    if (wanted[LEFT] || mixed[LEFT]) {
        copy(made, LEFT, !wanted[LEFT], turned, &batches, &rows, &terms);
    }
    if (wanted[RIGHT] || mixed[RIGHT]) {
        copy(made, RIGHT, !wanted[RIGHT], false, &batches, &columns, &terms);
    }
    const walk none = {1, {0, 0, 0}};
    rows = merged(&rows);
    columns = merged(&columns);
    terms = merged(&terms);
    inside_first(&rows);
    inside_first(&columns);
    beside_first(&rows, &columns);
    beside_first(&columns, &rows);
    made->rows = rows.count > 0 ? rows.at[0] : none;
    made->columns = columns.count > 0 ? columns.at[0] : none;
    made->terms = terms.count > 0 ? terms.at[0] : none;
    made->batches = merged(&batches);
    for (int64_t n = 1; n < rows.count; ++n) {
        push(&made->batches, rows.at[n]);
    }
    for (int64_t n = 1; n < columns.count; ++n) {
        push(&made->batches, columns.at[n]);
    }
    int64_t again = 1;
    for (int64_t n = 0; n < made->batches.count; ++n) {
        const walk *const one = &made->batches.at[n];
        again = one->step[LEFT] == 0 ? (int64_t)opw_min(opw_mul(again, one->extent), OFTEN) : again;
    }
    if (again >= OFTEN && made->terms.step[LEFT] != 1 && !turned) {
        return shaped(axes, reduced, mixed, true, made);
    }
    bool many = made->batches.count > OPWRIGHT_MAX_BATCHES || terms.count > 1;
    for (int name = LEFT; name <= RIGHT; ++name) {
        many = many || (made->copied[name] && made->copies[name].count > OPWRIGHT_MAX_COPIED);
    }
    return !many;
}

// Whether each product is of a vector and a matrix, and of the matrices those cells lie side by side.
static bool vectors(const shape *made)
{
    for (int side = LEFT; side <= RIGHT; ++side) {
        const walk *const one = side == LEFT ? &made->columns : &made->rows;
        const walk *const other = side == LEFT ? &made->rows : &made->columns;
        bool near = false;
        for (int64_t n = 0; n < made->batches.count; ++n) {
            near = near || (llabs(made->batches.at[n].step[side]) == 1 && made->batches.at[n].extent >= 64);
        }
        const bool apart = llabs(other->step[side]) != 1 && llabs(made->terms.step[side]) != 1;
        if (one->extent == 1 && other->extent > 1 && apart && near) {
            return true;
        }
    }
    return false;
}

// Whether elements of different products are contiguous in all three arrays, which loops vectorise.
static bool beside(const shape *made)
{
    if (vectors(made)) {
        return true;
    }
    bool near = false, separate = true;
    const walk *const both[] = {&made->rows, &made->columns};
    const int64_t fewer = made->rows.extent < made->columns.extent ? made->rows.extent : made->columns.extent;
    const int64_t enough = fewer < LANED_LEAST ? LANED_LEAST : 64;
    for (int64_t n = 0; n < made->batches.count; ++n) {
        const walk *const one = &made->batches.at[n];
        const bool alike = llabs(one->step[OUT]) == 1 && llabs(one->step[LEFT]) == 1 && llabs(one->step[RIGHT]) == 1;
        near = near || (alike && one->extent >= enough);
    }
    for (int n = 0; n < 2; ++n) {
        separate = separate && (both[n]->extent == 1 || llabs(both[n]->step[OUT]) != 1);
    }
    return near && separate && (made->terms.extent < 8 || fewer < LANED_LEAST);
}

// Whether each element of an operand that is widened serves one product: loops widen as they read.
static bool once(const shape *made, const bool *widened)
{
    bool any = false;
    double cells = (double)made->rows.extent * (double)made->columns.extent * (double)made->terms.extent;
    for (int64_t n = 0; n < made->batches.count; ++n) {
        cells *= (double)made->batches.at[n].extent;
    }
    for (int side = LEFT; side <= RIGHT; ++side) {
        bool alone = widened[side] && (side == LEFT ? made->columns : made->rows).extent == 1;
        for (int64_t n = 0; n < made->batches.count; ++n) {
            const walk *const one = &made->batches.at[n];
            alone = alone && (one->step[side] != 0 || one->extent == 1);
        }
        any = any || alone;
    }
    return any && cells >= 1 << 19; // copies that stay in a cache cost little
}

// The data type in which each engine reads operands; bytes have two.
static const opwright_dtype owns[OPWRIGHT_ENGINES] = {
    OPWRIGHT_F32, OPWRIGHT_BF16, OPWRIGHT_F16, OPWRIGHT_S8, OPWRIGHT_F32, OPWRIGHT_F32, OPWRIGHT_F64, OPWRIGHT_S64, OPWRIGHT_S64,
};

static bool is_byte(opwright_dtype dtype)
{
    return dtype == OPWRIGHT_S8 || dtype == OPWRIGHT_U8 || dtype == OPWRIGHT_BOOLEAN;
}

static bool is_integer(opwright_dtype dtype)
{
    return is_byte(dtype) || dtype == OPWRIGHT_S32 || dtype == OPWRIGHT_S64;
}

// The engine for operands of two dtypes: their own, or the widest of several; -1 if there is none. Sums of another term
// than products have one of their own, which takes f32.
static int label_of(opwright_dtype a, opwright_dtype b, opwright_dtype accumulate, opw_term term)
{
    const bool bytes = (a == OPWRIGHT_S8 || a == OPWRIGHT_U8) && (b == OPWRIGHT_S8 || b == OPWRIGHT_U8);
    const bool sums = accumulate == OPWRIGHT_S32 || accumulate == OPWRIGHT_F32 || accumulate == OPWRIGHT_S64 ||
                      accumulate == OPWRIGHT_F64;
    const bool integers = (is_integer(a) || a == OPWRIGHT_U64) && (is_integer(b) || b == OPWRIGHT_U64);
    int label_a = is_integer(a) ? 0 : -1, label_b = is_integer(b) ? 0 : -1;
    for (int n = 0; n < BYTES; ++n) {
        label_a = a == owns[n] ? n : label_a;
        label_b = b == owns[n] ? n : label_b;
    }
    if (term == OPWRIGHT_OF_PRODUCTS && bytes && sums) {
        return BYTES;
    }
    if (term == OPWRIGHT_OF_PRODUCTS && integers && accumulate == OPWRIGHT_S64) {
        return opw_dtype_names[a].size < 8 && opw_dtype_names[b].size < 8 ? S32 : S64;
    }
    if (term == OPWRIGHT_OF_PRODUCTS && accumulate == OPWRIGHT_F64 && (label_a >= 0 || a == OPWRIGHT_F64) &&
        (label_b >= 0 || b == OPWRIGHT_F64)) {
        return F64;
    }
    if (accumulate != OPWRIGHT_F32 || label_a < 0 || label_b < 0) {
        return -1;
    }
    if (term != OPWRIGHT_OF_PRODUCTS) {
        return DIFFERENCES + (int)term - 1;
    }
    const bool halves = (a == OPWRIGHT_BF16 && is_byte(b)) || (b == OPWRIGHT_BF16 && is_byte(a)); // which bf16 holds
    return halves ? HALF : a == b ? label_a : 0;
}

static const opw_engine *engine_of(int label)
{
    opw_function *functions[OPWRIGHT_ISAS];
    for (int n = 0; n < OPWRIGHT_ISAS; ++n) {
        functions[n] = label < 0 ? NULL : (opw_function *)opw_engines[label][n].run;
    }
    const int64_t best = opw_best(functions);
    return best < 0 ? NULL : &opw_engines[label][best];
}

const opw_array *opw_array_of(const opw_operation *op, const opw_array *arrays, const char *name)
{
    for (int64_t n = 0; n < op->array_count; ++n) {
        if (strcmp(op->arrays[n].name, name) == 0) {
            return arrays + n;
        }
    }
    return NULL;
}

static const opw_int *value_of(const opw_axes *axes, const char *name, const char *rest)
{
    const size_t length = strlen(name);
    for (int64_t n = 0; n < axes->count; ++n) {
        const char *const own = axes->entries[n].name;
        if (strncmp(own, name, length) == 0 && strcmp(own + length, rest) == 0 && axes->entries[n].count == 1) {
            return axes->pool + axes->entries[n].first;
        }
    }
    return NULL;
}

// By how much a letter moves an index, which it may do together with others; 0 if it does not.
static int64_t factor_of(const opw_context *x, const char *index, const char *letter)
{
    const opw_int *const factor = strchr(index, '.') == NULL ? NULL : value_of(&x->found.slides, index, letter);
    return factor != NULL ? (int64_t)*factor : strcmp(index, letter) == 0;
}

// The extent of an axis of an array between steps: that of its letter, or its own if letters move along it together.
static opw_extent extent_between(const opw_context *x, const opw_pair *axis)
{
    return opw_axis(&x->found.letters, strchr(axis->value, '.') == NULL ? axis->value : axis->name);
}

// Steps of an access along each axis of each letter.
static int64_t step_along(const opw_context *x, const opw_accessed *access, const opw_array *array, const char *letter, int64_t number)
{
    opw_int room[OPWRIGHT_AXES];
    int64_t found = 0;
    const int64_t extents = opw_axis(&x->found.letters, letter).count;
    for (const opw_pair *axis = access->letters; array != NULL && axis->name != NULL; ++axis) {
        const opw_extent spots = opw_spots_of(array->places, axis->name, room);
        const int64_t own = number - (extents - spots.count), factor = factor_of(x, axis->value, letter);
        if (factor != 0 && own >= 0 && array->shape[spots.at[own]] != 1) {
            found = factor * array->strides[spots.at[own]];
        }
    }
    if (array != NULL) {
        return found;
    }
    int64_t step = 1, count = 0;
    while (access->letters[count].name != NULL) {
        ++count;
    }
    while (count-- > 0) {
        const opw_extent own = extent_between(x, &access->letters[count]);
        const int64_t factor = factor_of(x, access->letters[count].value, letter);
        for (int64_t n = own.count - 1; n >= 0; --n) {
            found = factor != 0 && n == number ? factor * step : found;
            step *= (int64_t)own.at[n];
        }
    }
    return found;
}

// Where the first element lies that an access reads. False if letters that move along an axis together may leave it.
static bool begins(const opw_context *x, const opw_accessed *access, const opw_array *array, int64_t *first)
{
    opw_int room[OPWRIGHT_AXES];
    int64_t behind = 1, count = 0;
    while (access->letters[count].name != NULL) {
        ++count;
    }
    *first = 0;
    while (count-- > 0) {
        const opw_pair *const axis = &access->letters[count];
        const opw_extent own = extent_between(x, axis);
        int64_t step = behind;
        for (int64_t n = 0; array == NULL && n < own.count; ++n) {
            behind *= (int64_t)own.at[n];
        }
        if (strchr(axis->value, '.') == NULL) {
            continue;
        }
        const opw_int *const offset = value_of(&x->found.slides, axis->value, "");
        const opw_int *const extent = value_of(&x->found.slides, axis->value, ".end");
        if (offset == NULL || extent == NULL) {
            return false;
        }
        if (array != NULL) {
            const opw_extent spots = opw_spots_of(array->places, axis->name, room);
            if (spots.count != 1 || array->shape[spots.at[0]] != *extent) {
                return false;
            }
            step = *extent != 1 ? array->strides[spots.at[0]] : 0;
        }
        opw_int low = *offset, high = *offset;
        for (int64_t n = 0; n < x->found.letters.count; ++n) {
            const char *const letter = x->found.letters.entries[n].name;
            const int64_t factor = factor_of(x, axis->value, letter);
            const opw_int move = factor != 0 ? opw_mul(factor, opw_axis(&x->found.letters, letter).at[0] - 1) : 0;
            low = opw_add(low, move < 0 ? move : 0);
            high = opw_add(high, move > 0 ? move : 0);
        }
        if (low < 0 || high >= *extent) {
            return false;
        }
        *first += (int64_t)*offset * step;
    }
    return true;
}

static bool walked(const opw_context *x, const opw_accessed *access, const char *letter)
{
    const opw_pair *axis = access->letters;
    while (axis->name != NULL && factor_of(x, axis->value, letter) == 0) {
        ++axis;
    }
    return axis->name != NULL;
}

static int64_t kind_of(opwright_dtype dtype, int label)
{
    const opwright_dtype widened[] = {OPWRIGHT_BF16, OPWRIGHT_F16, OPWRIGHT_S8, OPWRIGHT_U8, OPWRIGHT_F32, OPWRIGHT_S32, OPWRIGHT_S64};
    if (label == BYTES || dtype == owns[label]) {
        return 1;
    }
    if (dtype == OPWRIGHT_BOOLEAN || dtype == OPWRIGHT_U64) {
        return dtype == OPWRIGHT_BOOLEAN ? 5 : 8;
    }
    int64_t kind = 2;
    while (dtype != widened[kind - 2]) {
        ++kind;
    }
    return kind;
}

static void put_copied(opwright_copied *to, const shape *made, int name, int64_t kind, int64_t first)
{
    const opwright_copied none = {.first = first};
    *to = none;
    if (made->copied[name]) {
        to->wanted = kind;
        to->axes = made->copies[name].count;
        for (int64_t n = 0; n < to->axes; ++n) {
            to->extent[n] = made->copies[name].at[n].extent;
            to->step[n] = made->copies[name].at[n].step[name];
        }
    }
}

static void put_problem(opwright_contraction *q, const shape *made)
{
    const opwright_contraction none = {0};
    *q = none;
    q->rows = made->rows.extent;
    q->columns = made->columns.extent;
    q->terms = made->terms.extent;
    q->left_row = made->rows.step[LEFT];
    q->left_term = made->terms.step[LEFT];
    q->right_term = made->terms.step[RIGHT];
    q->right_column = made->columns.step[RIGHT];
    q->out_row = made->rows.step[OUT];
    q->out_column = made->columns.step[OUT];
    q->batches = made->batches.count;
    for (int64_t n = 0; n < q->batches; ++n) {
        q->batch[n] = made->batches.at[n].extent;
        q->left_batch[n] = made->batches.at[n].step[LEFT];
        q->right_batch[n] = made->batches.at[n].step[RIGHT];
        q->out_batch[n] = made->batches.at[n].step[OUT];
    }
}

static int64_t sums_of(opwright_dtype dtype)
{
    return dtype == OPWRIGHT_S32 ? 0 : dtype == OPWRIGHT_F32 ? 1 : dtype == OPWRIGHT_S64 ? 2 : 3;
}

// The target of finished sums: its letters in order, the one of the lanes last.
static void finished(const opw_product_of *one, const char *lane, opw_pair *letters)
{
    int64_t count = 0;
    for (int last = 0; last < 2; ++last) {
        for (const char *const *letter = one->finish; *letter != NULL; ++letter) {
            if ((strcmp(*letter, lane) == 0) == (last == 1)) {
                letters[count++] = (opw_pair){*letter, *letter};
            }
        }
    }
    letters[count] = (opw_pair){NULL, NULL};
}

// The zero points of both operands; false if one is no number that a call has, or too large.
static bool zero_points(const opw_context *x, const opw_product_of *one, int64_t *zeros)
{
    for (int n = LEFT; n <= RIGHT; ++n) {
        const opw_zero *const zero = &one->zeros[n];
        zeros[n] = zero->number;
        if (zero->name != NULL) {
            const opw_extent value = opw_axis(&x->found.values, zero->name);
            if (value.count != 1 || strcmp(zero->name, "?") == 0) {
                return false;
            }
            if (value.at[0] < -MAX_ZERO || value.at[0] > MAX_ZERO) {
                return false;
            }
            zeros[n] = (int64_t)value.at[0];
        }
        if (zeros[n] < -MAX_ZERO || zeros[n] > MAX_ZERO) {
            return false;
        }
    }
    return true;
}

static bool is_empty(const opw_axes *letters, const char *const *some)
{
    bool empty = false;
    for (; *some != NULL; ++some) {
        const opw_extent own = opw_axis(letters, *some);
        for (int64_t n = 0; n < own.count; ++n) {
            empty = empty || own.at[n] == 0;
        }
    }
    return empty;
}

// The data type of an operand that lies between steps.
static opwright_dtype between(const opw_product_of *one, int side, int64_t row, opwright_dtype accumulate)
{
    return one->dtypes[side] != NULL ? one->dtypes[side][row] : accumulate;
}

// Neither rows nor columns, nor the lanes of the engine, are contiguous in what is written: sums would be finished one by one.
static bool scattered(const shape *made)
{
    const walk *const rows = &made->rows, *const columns = &made->columns;
    const int64_t least = rows->extent < columns->extent ? rows->extent : columns->extent;
    bool along = (rows->extent != 1 && llabs(rows->step[OUT]) == 1) || (columns->extent != 1 && llabs(columns->step[OUT]) == 1);
    for (int64_t n = 0; n < made->batches.count; ++n) {
        const walk *const one = &made->batches.at[n];
        const bool near = one->step[LEFT] == 1 && one->step[RIGHT] == 1 && one->step[OUT] == 1;
        along = along || (near && one->extent >= ENOUGH && least >= LANED_LEAST);
    }
    return (rows->extent > 1 || columns->extent > 1) && !along;
}

// The problem of a contraction; sums may be finished before they are stored if `finishes`.
static opw_prepared prepared(const opw_context *x, const opw_array *arrays,
                                  const opw_product_of *one, const char *lane, bool finishes)
{
    opw_prepared none, found;
    none.engine = NULL;
    none.by_blocks = found.by_blocks = false;
    none.packed = found.packed = 0;
    none.destination = OPWRIGHT_STORED;
    for (const opw_pair *axis = one->target.letters; axis->name != NULL; ++axis) {
        if (strchr(axis->value, '.') != NULL) { // windows of what is written are left to loops
            return none;
        }
    }
    const opw_operation *const op = x->op;
    const opwright_dtype accumulate = op->accumulate[x->found.row];
    const opw_array *const left = opw_array_of(op, arrays, one->left.array);
    const opw_array *const right = opw_array_of(op, arrays, one->right.array);
    const opwright_dtype left_dtype = left != NULL ? left->dtype : between(one, LEFT, x->found.row, accumulate);
    const opwright_dtype right_dtype = right != NULL ? right->dtype : between(one, RIGHT, x->found.row, accumulate);
    const int label = label_of(left_dtype, right_dtype, accumulate, one->term);
    int64_t zeros[2], first[2];
    if (!begins(x, &one->left, left, &first[LEFT]) || !begins(x, &one->right, right, &first[RIGHT])) {
        return none;
    }
    if (is_empty(&x->found.letters, one->unless_empty)) {
        return none;
    }
    if (!zero_points(x, one, zeros) || (label != BYTES && (one->zeros[LEFT].name != NULL || one->zeros[RIGHT].name != NULL))) {
        return none;
    }
    found.engine = label < 0 ? NULL : engine_of(label);
    if (found.engine == NULL) {
        return none;
    }
    const opw_array *const output =
        one->output.array != NULL ? opw_array_of(op, arrays, one->output.array) : NULL;
    const opw_array *const unless = opw_array_of(op, arrays, one->unless);
    const opwright_dtype stored[] = {label == BYTES ? OPWRIGHT_S32 : accumulate,
                                     label == BYTES ? accumulate : owns[label]};
    const bool direct = output != NULL && (unless == NULL || !unless->given) &&
                        (output->dtype == stored[0] || output->dtype == stored[1]);
    opw_pair letters[OPWRIGHT_ENTRIES];
    opw_accessed target = one->target;
    found.destination = direct ? OPWRIGHT_OUTPUT : finishes ? OPWRIGHT_FINISHED : OPWRIGHT_STORED;
    if (direct) {
        target = one->output;
    } else if (found.destination == OPWRIGHT_FINISHED) {
        finished(one, lane, letters);
        target.letters = letters;
    }
    const opw_axes *const all = &x->found.letters;
    walks axes;
    bool reduced[WALKS];
    axes.count = 0;
    for (int64_t n = 0; n < all->count; ++n) {
        const char *const letter = all->entries[n].name;
        if (!walked(x, &one->left, letter) && !walked(x, &one->right, letter) && !walked(x, &target, letter)) {
            continue;
        }
        for (int64_t at = 0; at < all->entries[n].count; ++at) {
            const walk made = {(int64_t)all->pool[all->entries[n].first + at],
                               {step_along(x, &one->left, left, letter, at),
                                step_along(x, &one->right, right, letter, at),
                                step_along(x, &target, direct ? output : NULL, letter, at)}};
            if (axes.count == WALKS) {
                return none;
            }
            reduced[axes.count] = !walked(x, &target, letter);
            push(&axes, made);
        }
    }
    const bool mixed[] = {label != BYTES && left_dtype != owns[label], label != BYTES && right_dtype != owns[label]};
    shape made;
    const int64_t most = (255 + llabs(zeros[LEFT])) * (255 + llabs(zeros[RIGHT])); // of a term
    if (!shaped(&axes, reduced, mixed, false, &made)) {
        return none;
    }
    if (found.destination == OPWRIGHT_FINISHED && scattered(&made)) {
        return prepared(x, arrays, one, lane, false);
    }
    if ((label == BYTES && made.terms.extent > INT32_MAX / most) || beside(&made) || once(&made, mixed)) {
        return none;
    }
    const opwright_dtype sums = direct ? output->dtype : accumulate;
    put_problem(&found.problem, &made);
    put_copied(&found.problem.left, &made, LEFT, kind_of(left_dtype, label), first[LEFT]);
    put_copied(&found.problem.right, &made, RIGHT, kind_of(right_dtype, label), first[RIGHT]);
    found.problem.elements = label != BYTES && sums != accumulate;
    found.problem.finished = found.destination == OPWRIGHT_FINISHED;
    if (label == BYTES) {
        found.problem.left_signed = left_dtype == OPWRIGHT_S8;
        found.problem.right_signed = right_dtype == OPWRIGHT_S8;
        found.problem.left_zero = zeros[LEFT];
        found.problem.right_zero = zeros[RIGHT];
        found.problem.sums = sums_of(sums);
    }
    return found;
}

// How many products of two elements are added up.
static opw_int terms_of(const opw_context *x, const opw_product_of *one)
{
    opw_int terms = 1;
    for (int64_t n = 0; n < x->found.letters.count; ++n) {
        const char *const letter = x->found.letters.entries[n].name;
        const opw_extent own = opw_axis(&x->found.letters, letter);
        for (int64_t at = 0; at < own.count && (walked(x, &one->left, letter) || walked(x, &one->right, letter)); ++at) {
            terms = opw_mul(terms, own.at[at]);
        }
    }
    return terms;
}

static opw_prepared prepared_at(const opw_context *x, const opw_array *arrays, const int64_t *lanes, const opw_product_of *one)
{
    const bool finishes = one->finish[0] != NULL;
    const char *const lane = finishes ? x->op->phases[one->phase + 1].letters[lanes[one->phase + 1]].letter : "";
    return prepared(x, arrays, one, lane, finishes);
}

// The order of the pairs of some factors that has the fewest terms, if engines compute all of them.
static void take_order(const opw_context *x, const opw_array *arrays, const int64_t *lanes, const opw_orders *some, opw_plan *plan)
{
    opw_int least = 0;
    for (int64_t n = 0; n < some->count; ++n) {
        least = opw_add(least, terms_of(x, plan->of[some->numbers[n]]));
    }
    for (int64_t other = 0; other < some->others; ++other) {
        const opw_product_of *const own = &some->products[other * some->count];
        opw_prepared made[OPWRIGHT_PRODUCTS_OF];
        opw_int terms = 0;
        for (int64_t n = 0; n < some->count; ++n) {
            terms = opw_add(terms, terms_of(x, &own[n]));
        }
        bool taken = terms < least;
        for (int64_t n = 0; taken && n < some->count; ++n) {
            made[n] = prepared_at(x, arrays, lanes, &own[n]);
            taken = made[n].engine != NULL;
        }
        for (int64_t n = 0; taken && n < some->count; ++n) {
            plan->of[some->numbers[n]] = &own[n];
            plan->products[some->numbers[n]] = made[n];
        }
        least = taken ? terms : least;
    }
}

void opw_plan_products(const opw_context *x, const opw_array *arrays, const int64_t *lanes,
                            opw_plan *plan)
{
    plan->product_count = x->op->product_count;
    for (int64_t n = 0; n < plan->product_count; ++n) {
        plan->of[n] = &x->op->products[n];
        plan->products[n] = prepared_at(x, arrays, lanes, plan->of[n]);
    }
    for (const opw_orders *some = x->op->orders; some != NULL && some->count > 0; ++some) {
        take_order(x, arrays, lanes, some, plan);
    }
}
