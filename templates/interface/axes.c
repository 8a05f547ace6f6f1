// Tensors and the positions of their axes: the rules of _axes.py and _rules.py.

#include "operation.h"

#include <string.h>

static opw_extent run_of(const opw_ints *values) { return (opw_extent){true, values->count, values->at}; }

static void say(opw_text *text, opw_extent value, const char *empty)
{
    for (int64_t at = 0; at < value.count; ++at) {
        opw_put(text, at > 0 ? "x" : "");
        opw_put_int(text, value.at[at]);
    }
    if (value.count == 0) {
        opw_put(text, empty);
    }
}

static void put_shape(opw_text *text, const opw_ints *shape)
{
    opw_put(text, "shape ");
    opw_put_tuple(text, shape->at, shape->count);
    opw_put(text, " (");
    opw_put_int(text, shape->count);
    opw_put(text, " axes)");
}

const opw_seen *opw_input(const opw_context *x, int64_t number)
{
    return x->given[number] ? &x->inputs[number] : NULL;
}

// Dictionaries.

void opw_set(opw_axes *axes, const char *name, opw_extent extent)
{
    if (axes->count == OPWRIGHT_ENTRIES || axes->used + extent.count > OPWRIGHT_POOL) {
        return; // more than any rank that passes the rules
    }
    axes->entries[axes->count].name = name;
    axes->entries[axes->count].run = extent.run;
    axes->entries[axes->count].first = axes->used;
    axes->entries[axes->count].count = extent.count;
    for (int64_t at = 0; at < extent.count; ++at) {
        axes->pool[axes->used + at] = extent.at[at];
    }
    axes->used += extent.count;
    ++axes->count;
}

static opw_extent entry(const opw_axes *axes, int64_t at)
{
    return (opw_extent){axes->entries[at].run, axes->entries[at].count, axes->pool + axes->entries[at].first};
}

static int64_t found_at(const opw_axes *axes, const char *name)
{
    for (int64_t at = 0; at < axes->count; ++at) {
        if (strcmp(axes->entries[at].name, name) == 0) {
            return at;
        }
    }
    return -1;
}

opw_extent opw_axis(const opw_axes *axes, const char *name)
{
    static const opw_int none = 1;
    const int64_t at = found_at(axes, name);
    return at < 0 ? (opw_extent){false, 1, &none} : entry(axes, at);
}

bool opw_has_axis(const opw_axes *axes, const char *name)
{
    return found_at(axes, name) >= 0;
}

opw_order opw_ordering(const opw_layout *layouts, const char *word)
{
    while (layouts[1].word != NULL && !opw_is(layouts->word, word)) {
        ++layouts;
    }
    return layouts->order;
}

bool opw_has(opw_order order, const char *axis)
{
    while (*order != NULL && strcmp(*order, axis) != 0) {
        ++order;
    }
    return *order != NULL;
}

// Tensors.

static void put_row(opw_text *text, const opw_context *x, const opwright_dtype *row)
{
    opw_put(text, "(");
    const char *between = "";
    for (int64_t n = 0; n < x->op->input_count; ++n) {
        if (x->given[n]) {
            opw_put(text, between);
            opw_put(text, x->op->inputs[n].name);
            opw_put(text, " ");
            opw_put(text, opw_dtype_names[row[n]].numpy);
            between = ", ";
        }
    }
    opw_put(text, ")");
}

static int64_t misfits(const opw_context *x, const opwright_dtype *row)
{
    int64_t count = 0;
    for (int64_t n = 0; n < x->op->input_count; ++n) {
        count += x->given[n] && x->inputs[n].dtype != row[n];
    }
    return count;
}

static bool alike(const opw_context *x, const opwright_dtype *row, const opwright_dtype *other)
{
    bool same = true;
    for (int64_t n = 0; n < x->op->input_count; ++n) {
        same = same && (!x->given[n] || row[n] == other[n]);
    }
    return same;
}

static void refuse_stated(opw_context *x, int64_t output, const char *attribute, const char *dtype)
{
    if (!opw_refuse(x, attribute, "-value", attribute)) {
        return;
    }
    const opw_operation *const op = x->op;
    const int64_t width = op->input_count + op->output_count;
    for (int64_t n = 1; n < OPWRIGHT_DTYPES; ++n) {
        if (strcmp(opw_dtype_names[n].word, dtype) == 0) {
            opw_put_word(&x->got, opw_dtype_names[n].numpy, INT64_MAX);
        }
    }
    const char *between = "";
    for (int64_t number = 0; number < op->row_count; ++number) {
        const opwright_dtype *const row = op->rows + number * width;
        bool listed = misfits(x, row) != 0;
        for (int64_t before = 0; before < number && !listed; ++before) {
            const opwright_dtype *const other = op->rows + before * width;
            listed = misfits(x, other) == 0 && other[output] == row[output];
        }
        if (!listed) {
            opw_put(&x->expected, between);
            opw_put(&x->expected, opw_dtype_names[row[output]].numpy);
            between = " or ";
        }
    }
    opw_put(&x->expected, ", with these inputs");
}

int64_t opw_dtype_row(opw_context *x, const char *output, const char *attribute, const char *dtype)
{
    const opw_operation *const op = x->op;
    const int64_t width = op->input_count + op->output_count;
    int64_t nearest = 0, minimum = INT64_MAX, stated = -1;
    for (int64_t n = 0; output != NULL && n < op->output_count; ++n) {
        if (strcmp(op->outputs[n].name, output) == 0) {
            stated = op->input_count + n;
        }
    }
    for (int64_t number = 0; number < op->row_count; ++number) {
        const opwright_dtype *const row = op->rows + number * width;
        const int64_t missed = misfits(x, row);
        if (missed == 0 && (stated < 0 || opw_is(opw_dtype_names[row[stated]].word, dtype))) {
            return number;
        }
        if (missed < minimum) {
            minimum = missed;
            nearest = number;
        }
    }
    if (minimum == 0) {
        refuse_stated(x, stated, attribute, dtype);
        return 0;
    }
    const opwright_dtype *const near = op->rows + nearest * width;
    int64_t wrong = 0;
    while (!x->given[wrong] || x->inputs[wrong].dtype == near[wrong]) {
        ++wrong;
    }
    if (opw_refuse(x, "dtypes", "", op->inputs[wrong].name)) {
        const char *between = "";
        for (int64_t n = 0; n < op->input_count; ++n) {
            if (x->given[n]) {
                opw_put(&x->got, between);
                opw_put(&x->got, op->inputs[n].name);
                opw_put(&x->got, " ");
                opw_put(&x->got, opw_dtype_names[x->inputs[n].dtype].numpy);
                between = ", ";
            }
        }
        for (int64_t number = 0; number < op->row_count; ++number) {
            bool listed = false;
            for (int64_t before = 0; before < number; ++before) {
                listed = listed || alike(x, op->rows + number * width, op->rows + before * width);
            }
            if (!listed) {
                opw_put(&x->expected, number > 0 ? " or " : "");
                put_row(&x->expected, x, op->rows + number * width);
            }
        }
    }
    return 0;
}

const char *opw_dtype_of(const opw_seen *tensor) { return opw_dtype_names[tensor->dtype].word; }

const char *opw_dtype_word(opw_context *x, const char *name, const char *value, const opw_words *words,
                                const char *fallback, const char *output)
{
    for (int64_t n = 0; value == NULL && n < x->op->output_count; ++n) {
        if (strcmp(x->op->outputs[n].name, output) == 0) {
            value = x->dtypes[n];
        }
    }
    if (value == NULL && fallback != NULL) {
        value = words->spellings->word;
        for (const opw_spelling *one = words->spellings; one->word != NULL; ++one) {
            value = strcmp(one->word, fallback) == 0 ? fallback : value;
        }
    }
    if (value == NULL) {
        if (opw_refuse(x, name, "-missing", name)) {
            opw_put(&x->got, "not given");
            opw_put(&x->expected, "the data type of the output, given here or by `out`");
        }
        return words->spellings->means;
    }
    return opw_word(x, name, value, words);
}

opw_int opw_spatial_rank(opw_context *x, const char *name, const opw_seen *tensor,
                                   opw_int fixed, int64_t minimum, int64_t maximum)
{
    const opw_int rank = tensor->shape.count - fixed;
    if (rank >= minimum && rank <= maximum) {
        return rank;
    }
    if (opw_refuse(x, "spatial-rank", "", name)) {
        put_shape(&x->got, &tensor->shape);
        opw_put_int(&x->expected, minimum + fixed);
        if (maximum > minimum) {
            opw_put(&x->expected, " to ");
            opw_put_int(&x->expected, maximum + fixed);
        }
        opw_put(&x->expected, " axes");
    }
    return 0;
}

void opw_axes_count(opw_context *x, const char *name, const opw_seen *tensor, opw_int count)
{
    if (tensor->shape.count != count && opw_refuse(x, name, "-rank", name)) {
        put_shape(&x->got, &tensor->shape);
        opw_put_int(&x->expected, count);
        opw_put(&x->expected, " axes");
    }
}

static void not_stated(opw_context *x, const char *output, const char *tensor_name, const char *list_name)
{
    if (!opw_refuse(x, output, "-shape-missing", tensor_name != NULL ? tensor_name : list_name)) {
        return;
    }
    opw_put(&x->got, "not given");
    opw_put(&x->expected, "the shape of ");
    opw_put(&x->expected, output);
    opw_put(&x->expected, ", as ");
    opw_put(&x->expected, tensor_name != NULL ? tensor_name : "");
    opw_put(&x->expected, tensor_name != NULL && list_name != NULL ? " or " : "");
    opw_put(&x->expected, list_name != NULL ? list_name : "");
}

static int64_t stated_by_tensor(opw_context *x, const char *name, const opwright_tensor *tensor,
                                opw_ints *shape)
{
    if (tensor->ndim != 1) {
        opw_ints own;
        own.count = tensor->ndim;
        for (int64_t at = 0; at < own.count; ++at) {
            own.at[at] = tensor->shape[at];
        }
        if (opw_refuse(x, name, "-rank", name)) {
            opw_put(&x->got, "a int32 array of shape ");
            opw_put_tuple(&x->got, own.at, own.count);
            opw_put(&x->expected, "a vector of int32");
        }
        return 0;
    }
    const int64_t step = tensor->strides != NULL ? tensor->strides[0] : 1;
    shape->count = tensor->shape[0] < OPWRIGHT_AXES ? tensor->shape[0] : OPWRIGHT_AXES;
    for (int64_t at = 0; at < shape->count; ++at) {
        shape->at[at] = ((const int32_t *)tensor->data)[at * step];
    }
    return tensor->shape[0];
}

const char *opw_stated_shape(opw_context *x, const char *output, opw_int length, const char *tensor_name,
                                  const opwright_tensor *tensor, const char *list_name, opwright_list list,
                                  opw_ints *shape)
{
    const bool listed = list_name != NULL && (list.entries != NULL || list.count != 0);
    const char *const name = tensor != NULL ? tensor_name : list_name != NULL ? list_name : tensor_name;
    int64_t count = 0;
    shape->count = 0;
    if (x->refused) {
        return name;
    }
    if (listed) {
        opw_entries(x, list_name, list.count >= 0 && list.entries != NULL);
    }
    if (!listed && tensor == NULL) {
        not_stated(x, output, tensor_name, list_name);
    }
    if (x->refused) {
        return name;
    }
    if (tensor != NULL) {
        count = stated_by_tensor(x, tensor_name, tensor, shape);
    } else {
        count = list.count;
        for (int64_t at = 0; at < count; ++at) {
            opw_append(shape, list.entries[at]);
        }
    }
    if (count != length && opw_refuse(x, name, "-length", name)) {
        opw_put_shown(&x->got, shape->at, shape->count, count);
        opw_put(&x->got, " (");
        opw_put_int(&x->got, count);
        opw_put(&x->got, " entries)");
        opw_put_int(&x->expected, length);
        opw_put(&x->expected, " entries, the shape of ");
        opw_put(&x->expected, output);
    }
    opw_ints nearest = *shape;
    bool within = true;
    for (int64_t at = 0; at < shape->count; ++at) {
        nearest.at[at] = opw_max(shape->at[at], 0);
        within = within && shape->at[at] >= 0;
    }
    if (!within && opw_refuse(x, name, "-range", name)) {
        opw_put_shown(&x->got, shape->at, shape->count, shape->count);
        opw_put(&x->expected, "every entry >= 0");
        opw_put_shown(&x->nearest, nearest.at, nearest.count, nearest.count);
    }
    return name;
}

static void put_array(opw_context *x, int64_t number)
{
    opw_put(&x->got, "array ");
    opw_put_int(&x->got, number);
}

void opw_several(opw_context *x, const char *name, opwright_tensors parts)
{
    const opwright_tensor *const first = parts.entries[0];
    for (int64_t number = 1; number < parts.count; ++number) {
        const opwright_tensor *const part = parts.entries[number];
        if (part->dtype != first->dtype && opw_refuse(x, "dtypes", "", name)) {
            put_array(x, number);
            opw_put(&x->got, " of ");
            opw_put(&x->got, opw_dtype_names[part->dtype].numpy);
            opw_put(&x->expected, opw_dtype_names[first->dtype].numpy);
            opw_put(&x->expected, ", as array 0");
        }
        if (part->ndim != first->ndim && opw_refuse(x, name, "-rank", name)) {
            put_array(x, number);
            opw_put(&x->got, " with ");
            opw_put_int(&x->got, part->ndim);
            opw_put(&x->got, " axes");
            opw_put_int(&x->expected, first->ndim);
            opw_put(&x->expected, ", as array 0");
        }
    }
}

void opw_concatenate(opw_context *x, const char *name, opwright_tensors parts, opw_seen *whole,
                       int64_t spot)
{
    if (x->refused) {
        return;
    }
    const opw_ints first = whole->shape;
    opw_int extent = 0;
    for (int64_t number = 0; number < parts.count; ++number) {
        const opwright_tensor *const part = parts.entries[number];
        opw_ints wanted = first, own = first;
        bool same = true;
        wanted.at[spot] = part->shape[spot];
        for (int64_t at = 0; at < own.count; ++at) {
            own.at[at] = part->shape[at];
            same = same && own.at[at] == wanted.at[at];
        }
        if (!same && opw_refuse(x, name, "-shape", name)) {
            put_array(x, number);
            opw_put(&x->got, " of shape ");
            opw_put_tuple(&x->got, own.at, own.count);
            opw_put_tuple(&x->expected, first.at, first.count);
            opw_put(&x->expected, ", as array 0, in all axes but ");
            opw_put_int(&x->expected, spot);
            opw_put_tuple(&x->nearest, wanted.at, wanted.count);
        }
        extent = opw_add(extent, part->shape[spot]);
    }
    whole->shape.at[spot] = extent;
}

void opw_presence(opw_context *x, const char *name, const opw_seen *value, bool wanted, const char *written,
                       bool optional)
{
    if (value != NULL && !wanted && opw_refuse(x, name, "-unwanted", name)) {
        opw_put(&x->got, "given");
        opw_put(&x->expected, "omitted, unless ");
        opw_put(&x->expected, written);
    }
    if (value == NULL && wanted && !optional && opw_refuse(x, name, "-missing", name)) {
        opw_put(&x->got, "not given");
        opw_put(&x->expected, "an array, since ");
        opw_put(&x->expected, written);
    }
}

// Axes in order.

void opw_split(opw_context *x, opw_axes *axes, const opw_ints *shape, opw_order order,
                    const char *spatial, opw_int rank)
{
    int64_t at = 0;
    axes->count = axes->used = 0;
    for (; *order != NULL && !x->refused; ++order) {
        const bool run = spatial != NULL && strcmp(*order, spatial) == 0;
        const int64_t count = run ? (int64_t)rank : 1;
        opw_set(axes, *order, (opw_extent){run, count, shape->at + at});
        at += count;
    }
}

static const char *const *in_order(opw_order order, const char *name)
{
    while (*order != NULL && strcmp(*order, name) != 0) {
        ++order;
    }
    return *order != NULL ? order : NULL;
}

void opw_place(opw_context *x, opw_places *places, const char *axis, opw_int count)
{
    if (x->refused || places->count == OPWRIGHT_PLACED) {
        return;
    }
    places->entries[places->count].name = axis;
    places->entries[places->count].count = count < 0 ? 0 : count > OPWRIGHT_AXES ? OPWRIGHT_AXES : (int64_t)count;
    places->entries[places->count++].located = false;
}

static int64_t place_at(const opw_places *places, const char *axis)
{
    for (int64_t at = 0; at < places->count; ++at) {
        if (strcmp(places->entries[at].name, axis) == 0) {
            return at;
        }
    }
    return -1;
}

void opw_say_place(opw_context *x, opw_places *places, const char *axis, const opw_ints *spots)
{
    const int64_t at = place_at(places, axis);
    if (x->refused || at < 0) {
        return;
    }
    places->entries[at].located = true;
    places->entries[at].count = spots->count;
    for (int64_t n = 0; n < spots->count; ++n) {
        places->entries[at].spots[n] = (int8_t)spots->at[n];
    }
}

void opw_placed(opw_context *x, opw_places *places, opw_order order)
{
    bool taken[2 * OPWRIGHT_AXES] = {false};
    int64_t free = 0, count = 0;
    opw_places sorted;
    if (x->refused) {
        places->count = 0;
        return;
    }
    for (; *order != NULL; ++order) {
        const int64_t at = place_at(places, *order);
        if (at >= 0) {
            sorted.entries[count++] = places->entries[at];
            for (int64_t n = 0; places->entries[at].located && n < places->entries[at].count; ++n) {
                taken[places->entries[at].spots[n]] = true;
            }
        }
    }
    sorted.count = count;
    for (int64_t at = 0; at < count; ++at) {
        for (int64_t n = 0; !sorted.entries[at].located && n < sorted.entries[at].count; ++n) {
            while (free < OPWRIGHT_AXES && taken[free]) {
                ++free;
            }
            sorted.entries[at].spots[n] = (int8_t)(free < OPWRIGHT_AXES ? free++ : OPWRIGHT_AXES - 1);
        }
    }
    *places = sorted;
}

int64_t opw_spot(const opw_places *places, const char *axis)
{
    const int64_t at = place_at(places, axis);
    return at < 0 || places->entries[at].count == 0 ? 0 : places->entries[at].spots[0];
}

void opw_cut(opw_context *x, opw_axes *axes, const opw_ints *shape, const opw_places *places,
                  opw_order vectors)
{
    axes->count = axes->used = 0;
    for (int64_t at = 0; at < places->count && !x->refused; ++at) {
        const bool run = in_order(vectors, places->entries[at].name) != NULL;
        opw_int own[OPWRIGHT_AXES] = {1};
        for (int64_t n = 0; n < places->entries[at].count; ++n) {
            own[n] = shape->at[places->entries[at].spots[n]];
        }
        const opw_extent extent = {run, run ? places->entries[at].count : 1, own};
        opw_set(axes, places->entries[at].name, extent);
    }
}

opw_ints opw_join(opw_context *x, const opw_places *places, const opw_axes *extents)
{
    opw_ints shape;
    shape.count = 0;
    for (int64_t at = 0; at < places->count && !x->refused; ++at) {
        const opw_extent extent = opw_axis(extents, places->entries[at].name);
        for (int64_t n = 0; n < places->entries[at].count && n < extent.count; ++n) {
            shape.at[places->entries[at].spots[n]] = extent.at[n];
            ++shape.count;
        }
    }
    return shape;
}

opw_ints opw_join_order(opw_context *x, opw_order order, const opw_axes *extents)
{
    opw_ints shape;
    shape.count = 0;
    for (; *order != NULL && !x->refused; ++order) {
        const opw_extent extent = opw_axis(extents, *order);
        for (int64_t n = 0; n < extent.count; ++n) {
            opw_append(&shape, extent.at[n]);
        }
    }
    return shape;
}

opw_int opw_position(opw_context *x, const char *name, opw_int value, const char *tensor,
                               opw_int axes, bool end)
{
    const opw_int maximum = end ? axes : axes - 1;
    if (value >= -axes && value <= maximum) {
        return value < 0 ? value + axes : value;
    }
    if (opw_refuse(x, name, "-range", name)) {
        opw_put_int(&x->got, value);
        if (axes > 0) {
            opw_put(&x->expected, "within ");
            opw_put_int(&x->expected, -axes);
            opw_put(&x->expected, " to ");
            opw_put_int(&x->expected, maximum);
            opw_put(&x->expected, ": ");
            opw_put(&x->expected, tensor);
            opw_put(&x->expected, " has ");
            opw_put_int(&x->expected, axes);
            opw_put(&x->expected, " axes");
        } else {
            opw_put(&x->expected, tensor);
            opw_put(&x->expected, " with at least one axis");
        }
        if (maximum >= 0) {
            opw_put_int(&x->nearest, opw_min(opw_max(value, -axes), maximum));
        }
    }
    return 0;
}

static void put_entries(opw_text *text, opwright_list value)
{
    opw_put(text, "[");
    for (int64_t at = 0; at < value.count; ++at) {
        opw_put(text, at > 0 ? ", " : "");
        opw_put_int(text, value.entries[at]);
    }
    opw_put(text, "]");
}

opw_ints opw_positions(opw_context *x, const char *name, opwright_list value, const char *tensor,
                                 opw_int axes)
{
    opw_ints found;
    bool taken[OPWRIGHT_AXES] = {false};
    bool once = true;
    found.count = 0;
    opw_entries(x, name, value.count >= 0 && (value.entries != NULL || value.count == 0));
    for (int64_t at = 0; at < value.count && !x->refused; ++at) {
        const int64_t spot = (int64_t)opw_position(x, name, value.entries[at], tensor, axes, false);
        once = once && !taken[spot];
        taken[spot] = !x->refused;
    }
    for (int64_t spot = 0; spot < axes; ++spot) {
        if (taken[spot]) {
            opw_append(&found, spot);
        }
    }
    if (!once && opw_refuse(x, name, "-range", name)) {
        put_entries(&x->got, value);
        opw_put(&x->expected, "each axis at most once");
        opw_put_shown(&x->nearest, found.at, found.count, found.count);
    }
    return found;
}

void opw_blocks(opw_context *x, const char *name, opwright_list value, const char *tensor, const opw_places *places,
                const char *axis, opw_int extent)
{
    const int64_t own = opw_spot(places, axis);
    opw_ints wanted;
    bool same = true;
    wanted.count = 0;
    opw_entries(x, name, value.count >= 0 && (value.entries != NULL || value.count == 0));
    if (x->refused) {
        return;
    }
    for (int64_t at = 0; at < places->count; ++at) {
        for (int64_t n = 0; n < places->entries[at].count; ++n) {
            opw_append(&wanted, wanted.count == own ? extent : 1);
        }
    }
    same = value.count == 0 || value.count == wanted.count;
    for (int64_t at = 0; same && at < value.count; ++at) {
        same = value.entries[at] == wanted.at[at];
    }
    if (!same && opw_refuse(x, name, "-value", name)) {
        put_entries(&x->got, value);
        opw_put_list(&x->expected, wanted.at, wanted.count);
        opw_put(&x->expected, ": blocks of ");
        opw_put_int(&x->expected, extent);
        opw_put(&x->expected, " along axis ");
        opw_put_int(&x->expected, own);
        opw_put(&x->expected, " of ");
        opw_put(&x->expected, tensor);
        opw_put(&x->expected, ", or [] for any");
        opw_put_shown(&x->nearest, wanted.at, wanted.count, wanted.count);
    }
}

void opw_distinct_axes(opw_context *x, const char *name, opw_ints places, const char *other, opw_ints others)
{
    for (int64_t at = 0; at < places.count && !x->refused; ++at) {
        for (int64_t spot = 0; spot < others.count; ++spot) {
            if (places.at[at] == others.at[spot] && opw_refuse(x, name, "-range", name)) {
                opw_put(&x->got, "axis ");
                opw_put_int(&x->got, places.at[at]);
                opw_put(&x->expected, "axes that ");
                opw_put(&x->expected, other);
                opw_put(&x->expected, " does not name");
            }
        }
    }
}

opw_int opw_before(opw_context *x, const char *name, opw_int place, opw_int fixed)
{
    if (place < fixed && opw_refuse(x, name, "-range", name)) {
        opw_put(&x->got, "axis ");
        opw_put_int(&x->got, place);
        opw_put(&x->expected, "at least ");
        opw_put_int(&x->expected, fixed);
        opw_put(&x->expected, ", the number of axes before it");
        opw_put_int(&x->nearest, fixed);
    }
    return place < fixed ? 0 : place - fixed;
}

void opw_agrees(opw_context *x, const char *name, opw_int place, opw_int expected)
{
    if (place != expected && opw_refuse(x, name, "-range", name)) {
        opw_put(&x->got, "axis ");
        opw_put_int(&x->got, place);
        opw_put(&x->expected, "axis ");
        opw_put_int(&x->expected, expected);
        opw_put_int(&x->nearest, expected);
    }
}

opw_int opw_rest(opw_context *x, const char *name, const opw_seen *tensor, opw_int fixed)
{
    if (tensor->shape.count >= fixed) {
        return tensor->shape.count - fixed;
    }
    if (opw_refuse(x, name, "-rank", name)) {
        put_shape(&x->got, &tensor->shape);
        opw_put(&x->expected, "at least ");
        opw_put_int(&x->expected, fixed);
        opw_put(&x->expected, " axes");
    }
    return 0;
}

opw_int opw_present(const opw_seen *tensor, opw_int fixed) { return tensor->shape.count > fixed; }

void opw_ordered(opw_context *x, const char *name, opwright_list value, const char *tensor,
                      opw_places *places)
{
    int64_t axes = 0, order[OPWRIGHT_AXES];
    for (int64_t at = 0; at < places->count; ++at) {
        axes += places->entries[at].count;
    }
    opw_entries(x, name, value.count >= 0 && (value.entries != NULL || value.count == 0));
    if (x->refused) {
        return;
    }
    if (value.count != axes && opw_refuse(x, name, "-length", name)) {
        opw_put_int(&x->got, value.count);
        opw_put(&x->got, " entries");
        opw_put_int(&x->expected, axes);
        opw_put(&x->expected, ", one for each axis of ");
        opw_put(&x->expected, tensor);
        return;
    }
    for (int64_t at = 0; at < axes; ++at) {
        order[at] = -1;
    }
    bool once = true;
    for (int64_t at = 0; at < axes && !x->refused; ++at) {
        const int64_t spot = (int64_t)opw_position(x, name, value.entries[at], tensor, axes, false);
        once = once && order[spot] < 0;
        order[spot] = at;
    }
    if (!once && opw_refuse(x, name, "-range", name)) {
        put_entries(&x->got, value);
        opw_put(&x->expected, "each axis once");
    }
    for (int64_t at = 0; at < places->count && !x->refused; ++at) {
        for (int64_t n = 0; n < places->entries[at].count; ++n) {
            places->entries[at].spots[n] = (int8_t)order[places->entries[at].spots[n]];
        }
    }
}

static void put_axes(opw_text *text, const opw_axes *axes)
{
    for (int64_t at = 0; at < axes->count; ++at) {
        opw_put(text, at > 0 ? ", " : "");
        opw_put(text, axes->entries[at].name);
        opw_put(text, " = ");
        say(text, entry(axes, at), "no axes");
    }
}

void opw_fits(opw_context *x, const char *name, const opw_ints *shape, const opw_axes *found,
                   const opw_axes *known)
{
    bool fit = true;
    for (int64_t at = 0; at < known->count; ++at) {
        const int64_t own = found_at(found, known->entries[at].name);
        fit = fit && (own < 0 || opw_same(entry(found, own), entry(known, at)));
    }
    if (!fit && opw_refuse(x, name, "-shape", name)) {
        opw_put(&x->got, "of shape ");
        opw_put_tuple(&x->got, shape->at, shape->count);
        opw_put(&x->got, " (");
        put_axes(&x->got, found);
        opw_put(&x->got, ")");
        put_axes(&x->expected, known);
    }
}

opw_ints opw_broadcast_extent(opw_context *x, const char *symbol, const opw_part *parts, int64_t count)
{
    opw_ints whole;
    whole.count = 0;
    for (int64_t n = 0; n < count; ++n) {
        whole.count = parts[n].given && parts[n].extent.count > whole.count ? parts[n].extent.count : whole.count;
    }
    for (int64_t at = 0; at < whole.count; ++at) {
        whole.at[at] = 1;
    }
    for (int64_t n = 0; n < count; ++n) {
        for (int64_t at = 0; parts[n].given && at < parts[n].extent.count; ++at) {
            const int64_t to = whole.count - parts[n].extent.count + at;
            whole.at[to] = whole.at[to] == 1 ? parts[n].extent.at[at] : whole.at[to];
        }
    }
    for (int64_t n = 0; n < count && !x->refused; ++n) {
        const opw_extent own = parts[n].extent;
        bool fit = !parts[n].given || own.count == whole.count || parts[n].stretches;
        for (int64_t at = 0; parts[n].given && at < own.count; ++at) {
            fit = fit && (own.at[at] == whole.at[whole.count - own.count + at] ||
                          (own.at[at] == 1 && parts[n].stretches));
        }
        if (!fit && opw_refuse(x, parts[n].name, "-shape", parts[n].name)) {
            opw_put(&x->got, "such that ");
            opw_put(&x->got, symbol);
            opw_put(&x->got, " = ");
            say(&x->got, own, "no axes");
            opw_put(&x->expected, symbol);
            opw_put(&x->expected, " = ");
            say(&x->expected, run_of(&whole), "no axes");
            opw_put(&x->expected, parts[n].stretches ? ", or 1 where it is stretched" : "");
        }
    }
    return whole;
}

static void refuse_stated_extents(opw_context *x, const char *name, opwright_list value, opw_int cells,
                                  const opw_ints *whole)
{
    if (opw_refuse(x, name, "-range", name)) {
        put_entries(&x->got, value);
        opw_put(&x->expected, "extents of ");
        opw_put_int(&x->expected, cells);
        opw_put(&x->expected, " cells, as ");
        say(&x->expected, run_of(whole), "no axes");
        opw_put(&x->expected, " has");
    }
}

opw_ints opw_stated(opw_context *x, const char *name, opwright_list value, const opw_ints *whole,
                              bool keeps)
{
    opw_ints found;
    found.count = 0;
    opw_entries(x, name, value.count >= 0 && (value.entries != NULL || value.count == 0));
    if (x->refused) {
        return found;
    }
    const int64_t minimum = whole == NULL ? 0 : -1;
    bool within = true, within_axes = true;
    opw_int others = 1;
    int64_t open = -1, opens = 0;
    for (int64_t at = 0; at < value.count; ++at) {
        within = within && value.entries[at] >= minimum;
        within_axes = within_axes && !(keeps && whole != NULL && at >= whole->count && value.entries[at] == 0);
    }
    if (!within && opw_refuse(x, name, "-range", name)) {
        put_entries(&x->got, value);
        opw_put(&x->expected, "extents of at least ");
        opw_put_int(&x->expected, minimum);
    }
    if (!within_axes && opw_refuse(x, name, "-range", name)) {
        put_entries(&x->got, value);
        opw_put(&x->got, ", with a 0 behind the last axis of ");
        say(&x->got, run_of(whole), "no axes");
        opw_put(&x->expected, "0 only where there is an extent to keep");
    }
    if (value.count > OPWRIGHT_AXES && opw_refuse(x, name, "-length", name)) {
        opw_put_int(&x->got, value.count);
        opw_put(&x->got, " entries");
        opw_put(&x->expected, "at most 64");
    }
    for (int64_t at = 0; at < value.count && !x->refused; ++at) {
        const bool keep = whole != NULL && keeps && value.entries[at] == 0;
        opw_append(&found, keep ? whole->at[at] : value.entries[at]);
        if (whole != NULL && found.at[at] == -1) {
            open = at;
            ++opens;
        }
    }
    for (int64_t at = 0; at < found.count; ++at) {
        others = found.at[at] == -1 && whole != NULL ? others : opw_mul(others, found.at[at]);
    }
    if (whole == NULL || x->refused) {
        return found;
    }
    const opw_int cells = opw_prod(whole);
    if (opens == 1 && others != 0 && cells % others == 0) {
        found.at[open] = cells / others;
        opens = 0;
    }
    if (opens > 0 || opw_prod(&found) != cells) {
        refuse_stated_extents(x, name, value, cells, whole);
    }
    return found;
}

// Parts of sizes along which outputs are summed.

opw_ints opw_stretched(opw_extent whole, const opw_part *parts, int64_t count)
{
    opw_ints marks;
    marks.count = whole.count;
    for (int64_t at = 0; at < whole.count; ++at) {
        marks.at[at] = 0;
        for (int64_t bit = 0; bit < count; ++bit) {
            const int64_t own = at - (whole.count - parts[bit].extent.count);
            const opw_int mine = own < 0 ? 1 : parts[bit].extent.at[own];
            marks.at[at] |= (opw_int)(parts[bit].given && mine != whole.at[at]) << bit;
        }
    }
    return marks;
}

opw_ints opw_parts(opw_extent whole, const opw_ints *marks, int64_t number)
{
    opw_ints found;
    found.count = 0;
    for (int64_t at = 0; at < whole.count; ++at) {
        if (marks->at[at] == number) {
            opw_append(&found, whole.at[at]);
        }
    }
    if (!whole.run && found.count == 0) {
        opw_append(&found, 1);
    }
    return found;
}

void opw_put_axis(opw_context *x, opw_places *to, const opw_places *from, const char *axis)
{
    const int64_t at = place_at(from, axis);
    if (!x->refused && at >= 0 && to->count < OPWRIGHT_PLACED) {
        to->entries[to->count++] = from->entries[at];
    }
}

opw_extent opw_spots_of(const opw_places *places, const char *axis, opw_int *room)
{
    for (int64_t at = 0; places != NULL && at < places->count; ++at) {
        if (strcmp(places->entries[at].name, axis) == 0) {
            for (int64_t n = 0; n < places->entries[at].count; ++n) {
                room[n] = places->entries[at].spots[n];
            }
            return (opw_extent){true, places->entries[at].count, room};
        }
    }
    return (opw_extent){true, 0, room};
}

void opw_put_part(opw_context *x, opw_places *to, const opw_places *from, const char *axis,
                       const opw_ints *marks, int64_t number, const char *part)
{
    const int64_t at = place_at(from, axis);
    if (x->refused || at < 0 || to->count == OPWRIGHT_PLACED) {
        return;
    }
    const int64_t behind = marks->count - from->entries[at].count;
    int64_t count = 0;
    for (int64_t n = 0; n < from->entries[at].count; ++n) {
        if (marks->at[behind + n] == number) {
            to->entries[to->count].spots[count++] = from->entries[at].spots[n];
        }
    }
    to->entries[to->count].name = part;
    to->entries[to->count].located = false;
    to->entries[to->count++].count = count;
}

// Arrangements.

static void begin_arrangement(opw_choice *choice)
{
    choice->fits = choice->whole = true;
    choice->extents.count = choice->extents.used = 0;
    choice->unknowns = 0;
}

void opw_choose(opw_choice *choice, opw_order order, const opw_axes *axes)
{
    choice->axes = axes;
    choice->order = order;
    choice->count = 0;
    choice->chosen = -1;
    choice->nearest = false;
    choice->expected.length = 0;
    choice->expected.letters[0] = 0;
    begin_arrangement(choice);
}

void opw_known(opw_context *x, opw_choice *choice, const char *axis, opw_extent extent)
{
    const opw_extent none = {extent.run, 0, extent.at};
    if (x->refused) { // a fraction, which fits no tensor
        x->refused = false;
        choice->fits = choice->whole = false;
        opw_set(&choice->extents, axis, none);
        return;
    }
    choice->fits = choice->fits && opw_same(extent, opw_axis(choice->axes, axis));
    opw_set(&choice->extents, axis, extent);
}

void opw_unknown(opw_choice *choice, const char *axis, const char *written)
{
    choice->unknown_axis[choice->unknowns] = axis;
    choice->unknown[choice->unknowns++] = written;
}

static void put_expected(opw_choice *choice, const char *axis)
{
    opw_put(&choice->expected, axis);
    opw_put(&choice->expected, " = ");
    for (int64_t n = 0; n < choice->unknowns; ++n) {
        if (strcmp(choice->unknown_axis[n], axis) == 0) {
            opw_put(&choice->expected, choice->unknown[n]);
            return;
        }
    }
    const opw_extent extent = opw_axis(&choice->extents, axis);
    say(&choice->expected, extent, "none that divides");
}

void opw_arrangement(opw_context *x, opw_choice *choice, const char *name)
{
    if (choice->fits && choice->chosen < 0) {
        choice->chosen = choice->count;
    }
    opw_put(&choice->expected, choice->count > 0 ? "; or " : "");
    if (name[0] != 0) {
        opw_put(&choice->expected, name);
        opw_put(&choice->expected, ": ");
    }
    for (opw_order axis = choice->order; *axis != NULL; ++axis) {
        opw_put(&choice->expected, axis == choice->order ? "" : ", ");
        put_expected(choice, *axis);
    }
    if (choice->whole && !choice->nearest) {
        choice->nearest = true;
        for (int64_t at = 0; at < choice->axes->count; ++at) {
            if (found_at(&choice->extents, choice->axes->entries[at].name) < 0) {
                opw_set(&choice->extents, choice->axes->entries[at].name, entry(choice->axes, at));
            }
        }
        choice->near = opw_join_order(x, choice->order, &choice->extents);
    }
    ++choice->count;
    begin_arrangement(choice);
}

int64_t opw_chosen(opw_context *x, opw_choice *choice, const char *name, const char *argument)
{
    if (choice->chosen >= 0) {
        return choice->chosen;
    }
    if (opw_refuse(x, name, "-shape", argument)) {
        const opw_ints shape = opw_join_order(&(opw_context){0}, choice->order, choice->axes);
        opw_put(&x->got, "of shape ");
        opw_put_tuple(&x->got, shape.at, shape.count);
        opw_put(&x->got, " (");
        for (opw_order axis = choice->order; *axis != NULL; ++axis) {
            opw_put(&x->got, axis == choice->order ? "" : ", ");
            opw_put(&x->got, *axis);
            opw_put(&x->got, " = ");
            say(&x->got, opw_axis(choice->axes, *axis), "");
        }
        opw_put(&x->got, ")");
        opw_put(&x->expected, choice->expected.letters);
        if (choice->nearest) {
            opw_put_tuple(&x->nearest, choice->near.at, choice->near.count);
        }
    }
    return 0;
}

// Results of formulas.

static void refuse_below(opw_context *x, opw_extent value, int64_t minimum, const char *rule, const char *what,
                         const char *written, const char *expected)
{
    bool enough = true;
    for (int64_t at = 0; at < value.count; ++at) {
        enough = enough && value.at[at] >= minimum;
    }
    if (!enough && opw_refuse(x, rule, "", "shape")) {
        opw_put(&x->got, what);
        opw_put(&x->got, written);
        opw_put(&x->got, " = ");
        say(&x->got, value, "no axes");
        opw_put(&x->expected, expected);
    }
}

void opw_divisor(opw_context *x, opw_extent value, const char *written)
{
    refuse_below(x, value, 1, "inexact-division", "a divisor ", written, "a divisor of at least 1");
}

void opw_not_negative(opw_context *x, opw_extent value, const char *written)
{
    refuse_below(x, value, 0, "negative-extent", "an extent ", written, "an extent of at least 0");
}

void opw_counted(opw_context *x, opw_int value, int64_t row)
{
    const opwright_dtype dtype = x->op->accumulate[row];
    const opw_int one = 1;
    const opw_int limit = dtype == OPWRIGHT_F32 ? one << 24 : dtype == OPWRIGHT_F64 ? one << 53 : one << 62;
    if (value > limit && opw_refuse(x, "index-overflow", "", "shape")) {
        opw_put_int(&x->got, value);
        opw_put(&x->got, " cells to number");
        opw_put(&x->expected, "at most ");
        opw_put_int(&x->expected, limit);
        opw_put(&x->expected, ", exact in ");
        opw_put(&x->expected, opw_dtype_names[dtype].numpy);
    }
}

void opw_output_bytes(opw_context *x, const opw_ints *shape, int64_t row, const char *name)
{
    if (x->refused) {
        return;
    }
    const opw_operation *const op = x->op;
    int64_t number = 0;
    while (number < op->output_count - 1 && strcmp(op->outputs[number].name, name) != 0) {
        ++number;
    }
    const opwright_dtype dtype = op->rows[row * (op->input_count + op->output_count) + op->input_count + number];
    const opw_int bytes = opw_mul(opw_prod(shape), opw_dtype_names[dtype].size);
    if (bytes > INT64_MAX && opw_refuse(x, "memory", "", "out")) {
        opw_put(&x->got, "an output of shape ");
        opw_put_tuple(&x->got, shape->at, shape->count);
        opw_put(&x->expected, "at most 2**63 - 1 bytes");
    }
}

// Results.

void opw_found_row(opw_context *x, int64_t row) { x->found.row = row; }
void opw_found_class(opw_context *x, const char *word) { x->found.group_class = word; }
void opw_found_terms(opw_context *x, opw_int terms) { x->found.terms = terms; }

void opw_found_value(opw_context *x, const char *name, opw_extent value)
{
    opw_set(&x->found.values, name, value);
}

void opw_found_letter(opw_context *x, const char *letter, opw_extent extent)
{
    opw_set(&x->found.letters, letter, extent);
}

void opw_found_slide(opw_context *x, const char *name, opw_extent value)
{
    opw_set(&x->found.slides, name, value);
}

void opw_found_places(opw_context *x, int64_t number, const opw_places *places)
{
    x->found.places[number] = *places;
}

void opw_found_absent(opw_context *x, int64_t number, bool absent)
{
    x->found.outputs[number].absent = absent;
}

void opw_found_between(opw_context *x, const char *name, int64_t phase)
{
    opw_between *const made = &x->found.between[x->found.betweens++];
    made->name = name;
    made->phase = phase;
    made->letters = 0;
}

void opw_found_cells(opw_context *x, opw_int cells)
{
    opw_between *const last = &x->found.between[x->found.betweens - 1];
    last->cells[last->letters++] = cells;
}

static void put_real_values(opw_context *x, const char *name, const double *values, int64_t count)
{
    opw_real_values *const reals = &x->found.reals;
    if (reals->count == OPWRIGHT_WORDS || reals->used + count > 2 * OPWRIGHT_AXES) {
        return;
    }
    reals->entries[reals->count].name = name;
    reals->entries[reals->count].first = reals->used;
    reals->entries[reals->count++].count = count;
    memcpy(reals->pool + reals->used, values, (size_t)count * sizeof *values);
    reals->used += count;
}

void opw_found_real(opw_context *x, const char *name, double value) { put_real_values(x, name, &value, 1); }

void opw_found_reals(opw_context *x, const char *name, const opw_doubles *values)
{
    put_real_values(x, name, values->at, values->count);
}

void opw_found_word(opw_context *x, const char *name, const char *word)
{
    if (x->found.words < OPWRIGHT_WORDS) {
        x->found.word[x->found.words].name = name;
        x->found.word[x->found.words++].word = word;
    }
}

void opw_found_output(opw_context *x, int64_t number, const opw_ints *shape,
                           const opw_places *places)
{
    opw_output *const output = &x->found.outputs[number];
    output->name = x->op->outputs[number].name;
    output->absent = false;
    output->shape = *shape;
    if (places != NULL) {
        output->places = *places;
    }
}
