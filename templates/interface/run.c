// A call from its arguments to its kernel: validates and resolves the arguments and calls the kernel, or refuses.
//
// Nothing is allocated, and nothing is written before the call has been validated.

#define _GNU_SOURCE
#include "operation.h"
#include "opwright_pool.h"

#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum {
    MAX_WORKERS = 256,
    SERIAL_TERMS = 1 << 18, // fewer are done by the calling thread: the package's _operation.py
};

// Tensors.

static const opwright_tensor *tensor_at(const void *call, const opw_argument *argument)
{
    const opwright_tensor *tensor;
    memcpy(&tensor, (const char *)call + argument->at, sizeof tensor);
    return tensor;
}

static opwright_tensors tensors_at(const void *call, const opw_argument *argument)
{
    opwright_tensors tensors;
    memcpy(&tensors, (const char *)call + argument->at, sizeof tensors);
    return tensors;
}

static opw_ints shape_of(const opwright_tensor *tensor)
{
    opw_ints shape;
    shape.count = tensor->ndim;
    for (int64_t n = 0; n < shape.count; ++n) {
        shape.at[n] = tensor->shape[n];
    }
    return shape;
}

// A data type as NumPy prints it; rows of data types name the class of booleans.
static const char *printed(opwright_dtype dtype)
{
    return dtype == OPWRIGHT_BOOLEAN ? "bool" : opw_dtype_names[dtype].numpy;
}

static void describe(opw_text *text, const opwright_tensor *tensor)
{
    const opw_ints shape = shape_of(tensor);
    opw_put(text, "a ");
    opw_put(text, printed(tensor->dtype));
    opw_put(text, " array of shape ");
    opw_put_tuple(text, shape.at, shape.count);
}

// Of an axis that nothing is walked along, the stride that it has without gaps, whatever the caller says.
static void strides_of(const opwright_tensor *tensor, int64_t *strides)
{
    bool empty = false;
    for (int64_t n = 0; n < tensor->ndim; ++n) {
        empty = empty || tensor->shape[n] == 0;
    }
    opw_int step = 1;
    for (int64_t n = tensor->ndim - 1; n >= 0; --n) {
        const bool walked = !empty && tensor->shape[n] > 1;
        strides[n] = tensor->strides != NULL && walked ? tensor->strides[n] : (int64_t)opw_min(step, INT64_MAX);
        step = opw_mul(step, walked ? tensor->shape[n] : 1);
    }
}

static bool without_gaps(const opwright_tensor *tensor)
{
    int64_t step = 1;
    bool plain = true, empty = false;
    for (int64_t n = tensor->ndim - 1; tensor->strides != NULL && n >= 0; --n) {
        plain = plain && (tensor->shape[n] == 1 || tensor->strides[n] == step);
        empty = empty || tensor->shape[n] == 0;
        step *= tensor->shape[n] > 1 ? tensor->shape[n] : 1;
    }
    return plain || empty;
}

// The bytes that a tensor spans, and the number of them before its first element.
static opw_int span(const opwright_tensor *tensor, opw_int *before)
{
    const opw_int size = opw_dtype_names[tensor->dtype].size;
    opw_int cells = 1, behind = 1, step = 1;
    *before = 0;
    for (int64_t n = tensor->ndim - 1; n >= 0; --n) {
        const opw_int stride = tensor->strides != NULL ? tensor->strides[n] : step;
        const opw_int reach = opw_mul(stride, tensor->shape[n] - 1);
        *before = reach < 0 ? opw_sub(*before, reach) : *before;
        behind = reach > 0 ? opw_add(behind, reach) : behind;
        step = opw_mul(step, tensor->shape[n] > 1 ? tensor->shape[n] : 1);
        cells = tensor->shape[n] == 0 ? 0 : cells;
    }
    *before = cells == 0 ? 0 : opw_mul(*before, size);
    return cells == 0 ? 0 : opw_mul(opw_add(behind, *before / size), size);
}

static void refuse_shape(opw_context *x, const char *name, const char *ending, const opwright_tensor *tensor,
                         const char *expected)
{
    if (opw_refuse(x, name, ending, name)) {
        const opw_ints shape = shape_of(tensor);
        opw_put(&x->got, "shape ");
        opw_put_tuple(&x->got, shape.at, shape.count);
        opw_put(&x->expected, expected);
    }
}

static void refuse_plainly(opw_context *x, const char *name, const char *ending, const char *got,
                           const char *expected)
{
    if (opw_refuse(x, name, ending, name)) {
        opw_put(&x->got, got);
        opw_put(&x->expected, expected);
    }
}

// Checks a tensor before its use; with `data`, also its memory.
static void checked(opw_context *x, const char *name, const opwright_tensor *tensor, bool data)
{
    opw_int before;
    if (tensor == NULL) {
        refuse_plainly(x, name, "-missing", "None", "an array");
        return;
    }
    if ((int)tensor->dtype < 1 || (int)tensor->dtype >= OPWRIGHT_DTYPES) {
        refuse_plainly(x, name, "-kind", "a tensor of an unknown data type", "one of opwright_dtype");
    } else if (tensor->ndim < 0 || tensor->ndim > OPWRIGHT_MAX_AXES) {
        refuse_plainly(x, name, "-kind", "a tensor of more axes than there may be, or fewer than 0", "0 to 64 axes");
    } else if (tensor->ndim > 0 && tensor->shape == NULL) {
        refuse_plainly(x, name, "-kind", "a tensor whose shape is NULL", "an extent for each axis");
    }
    for (int64_t n = 0; !x->refused && n < tensor->ndim; ++n) {
        if (tensor->shape[n] < 0) {
            refuse_shape(x, name, "-kind", tensor, "extents of at least 0");
        }
    }
    if (x->refused) {
        return;
    }
    if (span(tensor, &before) > INT64_MAX) {
        refuse_shape(x, name, "-kind", tensor, "at most 2**63 - 1 bytes");
    } else if (data && tensor->data == NULL && span(tensor, &before) > 0) {
        refuse_plainly(x, name, "-kind", "a tensor whose data is NULL", "memory for its elements");
    } else if (data && (uintptr_t)tensor->data % (uintptr_t)opw_dtype_names[tensor->dtype].size != 0) {
        refuse_plainly(x, name, "-kind", "a tensor whose data is not aligned", "an address that fits its data type");
    }
}

static void checked_list(opw_context *x, const opw_argument *argument, bool data)
{
    const opwright_tensors tensors = tensors_at(x->call, argument);
    if (tensors.count < 1 || tensors.entries == NULL) {
        const bool missing = tensors.entries == NULL && tensors.count == 0;
        refuse_plainly(x, argument->name, missing ? "-missing" : "-kind", missing ? "None" : "no arrays",
                       missing ? "an array" : "a list of at least one array");
        return;
    }
    for (int64_t n = 0; n < tensors.count && !x->refused; ++n) {
        checked(x, argument->name, tensors.entries[n], data);
    }
}

// Resolves a call by one program.
static void understood_by(opw_context *x, const opw_operation *op, const void *call, bool data)
{
    x->op = op;
    x->call = call;
    x->refused = false;
    x->found.words = x->found.betweens = 0;
    x->found.row = 0;
    x->found.group_class = NULL;
    x->found.values.count = x->found.values.used = x->found.letters.count = x->found.letters.used = 0;
    x->found.reals.count = x->found.reals.used = x->found.slides.count = x->found.slides.used = 0;
    x->found.terms = 0;
    if (call == NULL) {
        refuse_plainly(x, "call", "-kind", "NULL", "the arguments of a call");
        return;
    }
    for (int64_t n = 0; n < op->input_count && !x->refused; ++n) {
        const opw_argument *const argument = &op->inputs[n];
        const opwright_tensor *first = NULL;
        x->found.places[n].count = 0;
        if (argument->joined != NULL) {
            checked_list(x, argument, data);
            first = x->refused ? NULL : tensors_at(call, argument).entries[0];
        } else {
            first = tensor_at(call, argument);
            if (first != NULL || !argument->optional) {
                checked(x, argument->name, first, data || argument->states_shape);
            }
        }
        x->given[n] = first != NULL;
        if (first != NULL && !x->refused) {
            x->inputs[n].dtype = first->dtype;
            x->inputs[n].shape = shape_of(first);
        }
    }
    for (int64_t n = 0; n < op->output_count && !x->refused; ++n) {
        const opwright_tensor *const tensor = tensor_at(call, &op->outputs[n]);
        const bool known = tensor != NULL && (int)tensor->dtype >= 1 && (int)tensor->dtype < OPWRIGHT_DTYPES;
        x->dtypes[n] = known ? opw_dtype_names[tensor->dtype].word : NULL;
    }
    if (!x->refused) {
        op->resolve(x);
    }
}

// Resolves a call, by the program for sizes that fit if they do.
static void understood(opw_context *x, const opw_operation *op, const void *call, bool data)
{
    understood_by(x, op, call, data);
    if (!x->refused && op->fitting != NULL) {
        understood_by(x, op->fitting, call, data);
        if (x->refused) {
            understood_by(x, op, call, data);
        }
    }
}

// Outputs.

static void refuse_out(opw_context *x, const char *rule, const opwright_tensor *tensor)
{
    if (opw_refuse(x, rule, "", "out") && tensor != NULL) {
        describe(&x->got, tensor);
    }
}

static bool overlaps_itself(const opwright_tensor *tensor)
{
    int64_t strides[OPWRIGHT_AXES], order[OPWRIGHT_AXES], count = 0;
    strides_of(tensor, strides);
    for (int64_t n = 0; n < tensor->ndim; ++n) {
        if (tensor->shape[n] == 0) {
            return false;
        }
        const int64_t step = strides[n] < 0 ? -strides[n] : strides[n];
        int64_t at = count;
        if (tensor->shape[n] > 1) {
            for (; at > 0 && (strides[order[at - 1]] < 0 ? -strides[order[at - 1]] : strides[order[at - 1]]) > step;
                 --at) {
                order[at] = order[at - 1];
            }
            order[at] = n;
            ++count;
        }
    }
    opw_int reach = 1;
    for (int64_t n = 0; n < count; ++n) {
        const int64_t step = strides[order[n]] < 0 ? -strides[order[n]] : strides[order[n]];
        if (step < reach) {
            return true;
        }
        reach += (opw_int)step * (tensor->shape[order[n]] - 1);
    }
    return false;
}

static bool share_memory(const opwright_tensor *a, const opwright_tensor *b)
{
    opw_int before_a, before_b;
    const opw_int bytes_a = span(a, &before_a), bytes_b = span(b, &before_b);
    const opw_int at_a = (opw_int)(uintptr_t)a->data - before_a;
    const opw_int at_b = (opw_int)(uintptr_t)b->data - before_b;
    return bytes_a > 0 && bytes_b > 0 && at_a < at_b + bytes_b && at_b < at_a + bytes_a;
}

static bool same_cells(const opwright_tensor *a, const opwright_tensor *b)
{
    int64_t strides_a[OPWRIGHT_AXES], strides_b[OPWRIGHT_AXES];
    bool same = a->data == b->data && a->dtype == b->dtype && a->ndim == b->ndim;
    for (int64_t n = 0; same && n < a->ndim; ++n) {
        same = a->shape[n] == b->shape[n];
    }
    if (!same) {
        return false;
    }
    strides_of(a, strides_a);
    strides_of(b, strides_b);
    for (int64_t n = 0; n < a->ndim; ++n) {
        same = same && (a->shape[n] == 1 || strides_a[n] == strides_b[n]);
    }
    return same;
}

static bool same_places(const opw_places *a, const opw_places *b)
{
    bool same = a->count == b->count;
    for (int64_t n = 0; same && n < a->count; ++n) {
        same = strcmp(a->entries[n].name, b->entries[n].name) == 0 && a->entries[n].count == b->entries[n].count &&
               memcmp(a->entries[n].spots, b->entries[n].spots, (size_t)a->entries[n].count) == 0;
    }
    return same;
}

static void refuse_sharing(opw_context *x, const char *with)
{
    if (opw_refuse(x, "out-overlap", "", "out")) {
        opw_put(&x->got, "an array that shares memory with ");
        opw_put(&x->got, with);
        opw_put(&x->expected, "memory of its own");
    }
}

static void refuse_overlap(opw_context *x, int64_t number, const opwright_tensor *target)
{
    const opw_operation *const op = x->op;
    for (int64_t n = 0; n < op->input_count && !x->refused; ++n) {
        const bool may = op->steps && op->in_place[number * op->input_count + n] != 0 && x->given[n] &&
                         same_places(&x->found.places[n], &x->found.outputs[number].places);
        const opwright_tensor *one = NULL;
        opwright_tensors many = {&one, 1};
        if (op->inputs[n].joined != NULL) {
            many = tensors_at(x->call, &op->inputs[n]);
        } else {
            one = tensor_at(x->call, &op->inputs[n]);
        }
        for (int64_t at = 0; at < many.count; ++at) {
            const opwright_tensor *const part = many.entries[at];
            if (part != NULL && !(may && same_cells(part, target)) && share_memory(part, target)) {
                refuse_sharing(x, op->inputs[n].name);
            }
        }
    }
    for (int64_t n = 0; n < op->output_count && !x->refused; ++n) {
        const opwright_tensor *const other = n == number ? NULL : tensor_at(x->call, &op->outputs[n]);
        if (other != NULL && !x->found.outputs[n].absent && share_memory(other, target)) {
            refuse_sharing(x, "another output");
        }
    }
}

static void checked_output(opw_context *x, int64_t number)
{
    const opw_operation *const op = x->op;
    const opw_output *const output = &x->found.outputs[number];
    const opwright_tensor *const target = tensor_at(x->call, &op->outputs[number]);
    const opwright_dtype dtype =
        op->rows[x->found.row * (op->input_count + op->output_count) + op->input_count + number];
    if (output->absent || target == NULL) {
        if (output->absent != (target == NULL) && opw_refuse(x, "out-missing", "", "out")) {
            opw_put(&x->got, output->absent ? "a tensor for " : "no tensor for ");
            opw_put(&x->got, output->name);
            opw_put(&x->expected, output->absent ? "none: the call does not have it" : "one to write into");
        }
        return;
    }
    if (target->dtype != dtype) {
        refuse_out(x, "out-dtype", target);
        opw_put(&x->expected, "dtype ");
        opw_put(&x->expected, printed(dtype));
    }
    const opw_ints shape = shape_of(target);
    const opw_extent own = OPWRIGHT_RUN(shape), wanted = OPWRIGHT_RUN(output->shape);
    if (!x->refused && !opw_same(own, wanted)) {
        refuse_out(x, "out-shape", target);
        opw_put(&x->expected, "shape ");
        opw_put_tuple(&x->expected, wanted.at, wanted.count);
        opw_put_tuple(&x->nearest, wanted.at, wanted.count);
    }
    if (x->refused) {
        if (op->steps) {
            opw_put(&x->expected, " for ");
            opw_put(&x->expected, output->name);
        }
        return;
    }
    if (overlaps_itself(target)) {
        refuse_out(x, "out-overlap", NULL);
        opw_put(&x->got, "an array whose cells share memory");
        opw_put(&x->expected, "cells that do not overlap");
    }
    refuse_overlap(x, number, target);
}

// Kernels of convolutions require arrays without gaps; the caller must copy others.
static void checked_gaps(opw_context *x)
{
    const opw_operation *const op = x->op;
    for (int64_t n = 0; n < op->input_count + op->output_count && !op->steps; ++n) {
        const bool output = n >= op->input_count;
        const opw_argument *const argument = output ? &op->outputs[n - op->input_count] : &op->inputs[n];
        const opwright_tensor *const tensor = tensor_at(x->call, argument);
        if (tensor != NULL && !argument->states_shape && !without_gaps(tensor)) {
            refuse_plainly(x, argument->name, "-contiguous", "a tensor with gaps between its elements",
                           "elements one after the other, in the order of its shape");
        }
    }
}

// Checks the outputs that a call has been given; with `data`, also their memory.
static void checked_targets(opw_context *x, bool data)
{
    for (int64_t n = 0; !x->refused && n < x->op->output_count; ++n) {
        const opwright_tensor *const target = tensor_at(x->call, &x->op->outputs[n]);
        if (target != NULL) {
            checked(x, x->op->outputs[n].name, target, data);
        }
    }
}

static void checked_outputs(opw_context *x)
{
    const opw_operation *const op = x->op;
    checked_targets(x, true);
    for (int64_t n = 0; n < op->output_count && !x->refused; ++n) {
        checked_output(x, n);
    }
    if (!x->refused) {
        checked_gaps(x);
    }
}

// Threads and memory.

static int64_t cpus(void)
{
    int64_t count = 0;
#if defined(__linux__)
    cpu_set_t set;
    count = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 0;
#endif
    count = count > 0 ? count : (int64_t)sysconf(_SC_NPROCESSORS_ONLN);
    return count > 0 ? count : 1;
}

static int64_t workers_of(opw_context *x, const opwright_run *run)
{
    const int64_t wanted = run == NULL ? 1 : run->team != NULL ? run->team->workers : run->threads;
    const bool team = run != NULL && run->team != NULL;
    if ((wanted < 0 || (team && (wanted < 1 || run->team->run == NULL || wanted > MAX_WORKERS))) &&
        opw_refuse(x, "threads", "", team ? "team" : "threads")) {
        opw_put_int(&x->got, wanted);
        opw_put(&x->expected, team ? "a function, and 1 to 256 workers" : "an integer >= 1");
        opw_put(&x->nearest, team ? "" : "1");
    }
    const int64_t usual = x->found.terms < SERIAL_TERMS ? 1 : cpus();
    const int64_t workers = wanted == 0 ? usual : wanted;
    return workers > MAX_WORKERS ? MAX_WORKERS : workers < 1 ? 1 : workers;
}

static opwright_reals reals_at(const void *call, const opw_array_info *info)
{
    opwright_reals reals;
    memcpy(&reals, (const char *)call + info->at, sizeof reals);
    return info->reals != NULL ? opw_reals_or(reals, *info->reals) : reals;
}

static opwright_list list_at(const void *call, const opw_array_info *info)
{
    opwright_list list;
    memcpy(&list, (const char *)call + info->at, sizeof list);
    return info->ints != NULL ? opw_list_or(list, *info->ints) : list;
}

// Whether the tensors of an input are copied into one: kernels read across them.
static bool copied_together(const opw_operation *op, int64_t input)
{
    return op->inputs[input].joined != NULL && op->joined_axis == NULL;
}

// Bytes in addition to the kernel's own: joined inputs, lists of real numbers, and outputs that kernels write although
// the call lacks them.
static opw_int bytes_beside(const opw_context *x)
{
    const opw_operation *const op = x->op;
    opw_int bytes = 0;
    for (int64_t n = 0; n < op->input_count; ++n) {
        if (copied_together(op, n)) {
            const opw_int size = opw_dtype_names[x->inputs[n].dtype].size;
            bytes = opw_add(bytes, opw_lines(opw_mul(opw_prod(&x->inputs[n].shape), size)));
        }
    }
    for (int64_t n = 0; n < op->array_count; ++n) {
        if (op->arrays[n].role == OPWRIGHT_LISTED && op->arrays[n].dtype == OPWRIGHT_F32) {
            bytes += opw_lines((opw_int)sizeof(float) * reals_at(x->call, &op->arrays[n]).count);
        }
    }
    for (int64_t n = 0; n < op->output_count; ++n) {
        if (x->found.outputs[n].absent) {
            bytes = opw_add(bytes, opw_lines(opw_mul(opw_prod(&x->found.outputs[n].shape), 8)));
        }
    }
    return bytes;
}

// Steps.

static const opw_places LISTED = {1, {{"E", 1, false, {0}}}};

static void put_tensor(opw_array *array, const opwright_tensor *tensor, const opw_places *places)
{
    array->given = true;
    array->dtype = tensor->dtype;
    array->ndim = tensor->ndim;
    array->data = tensor->data;
    array->places = places;
    if (tensor->ndim > 0) {
        memcpy(array->shape, tensor->shape, (size_t)tensor->ndim * sizeof *array->shape);
        strides_of(tensor, array->strides);
    }
}

static void put_output(const opw_context *x, opw_array *array, int64_t number, char **beside)
{
    const opw_operation *const op = x->op;
    const opw_output *const output = &x->found.outputs[number];
    const opwright_tensor *const target = tensor_at(x->call, &op->outputs[number]);
    int64_t shape[OPWRIGHT_AXES];
    for (int64_t n = 0; n < output->shape.count; ++n) {
        shape[n] = (int64_t)output->shape.at[n];
    }
    const opwright_dtype dtype =
        op->rows[x->found.row * (op->input_count + op->output_count) + op->input_count + number];
    const opwright_tensor made = {NULL, dtype, (int32_t)output->shape.count, shape, NULL};
    bool given = target != NULL && !output->absent && target->dtype == dtype && target->ndim == made.ndim;
    for (int32_t n = 0; given && n < made.ndim; ++n) {
        given = target->shape[n] == shape[n];
    }
    put_tensor(array, given ? target : &made, &output->places);
    if (output->absent && *beside != NULL) {
        array->data = *beside;
        *beside += opw_lines(opw_mul(opw_prod(&output->shape), 8));
    }
}

static void put_list(const opw_context *x, opw_array *array, const opw_array_info *info, char **beside)
{
    array->given = true;
    array->dtype = info->dtype;
    array->ndim = 1;
    array->strides[0] = 1;
    array->places = &LISTED;
    array->data = NULL;
    if (info->dtype != OPWRIGHT_F32) {
        const opwright_list list = list_at(x->call, info);
        array->shape[0] = list.count;
        memcpy(&array->data, &list.entries, sizeof array->data);
        return;
    }
    const opwright_reals reals = reals_at(x->call, info);
    array->shape[0] = reals.count;
    if (*beside != NULL) {
        float *const to = (float *)(void *)*beside;
        array->data = *beside;
        *beside += opw_lines((opw_int)sizeof(float) * reals.count);
        for (int64_t n = 0; n < reals.count; ++n) {
            to[n] = (float)reals.entries[n];
        }
    }
}

static void copy_cells(char *to, const int64_t *strides, const opwright_tensor *tensor)
{
    const int64_t size = opw_dtype_names[tensor->dtype].size, axes = tensor->ndim;
    const char *from = tensor->data;
    int64_t steps[OPWRIGHT_AXES], at[OPWRIGHT_AXES] = {0}, axis = 0;
    strides_of(tensor, steps);
    for (int64_t n = 0; n < axes; ++n) {
        if (tensor->shape[n] == 0) {
            return;
        }
    }
    while (axis >= 0) {
        memcpy(to, from, (size_t)size);
        for (axis = axes - 1; axis >= 0 && ++at[axis] == tensor->shape[axis]; --axis) {
            to -= (at[axis] - 1) * strides[axis] * size;
            from -= (at[axis] - 1) * steps[axis] * size;
            at[axis] = 0;
        }
        if (axis >= 0) {
            to += strides[axis] * size;
            from += steps[axis] * size;
        }
    }
}

static void put_joined(const opw_context *x, opw_array *array, int64_t input, char **beside)
{
    const opw_seen *const seen = &x->inputs[input];
    const opw_argument *const argument = &x->op->inputs[input];
    const opw_places *const places = &x->found.places[input];
    int64_t shape[OPWRIGHT_AXES];
    opw_int room[OPWRIGHT_AXES];
    for (int64_t n = 0; n < seen->shape.count; ++n) {
        shape[n] = (int64_t)seen->shape.at[n];
    }
    const opwright_tensor whole = {*beside, seen->dtype, (int32_t)seen->shape.count, shape, NULL};
    put_tensor(array, &whole, places);
    if (*beside != NULL) {
        const opwright_tensors parts = tensors_at(x->call, argument);
        const int64_t spot = (int64_t)opw_spots_of(places, argument->joined, room).at[0];
        const int64_t size = opw_dtype_names[seen->dtype].size;
        char *to = *beside;
        for (int64_t n = 0; n < parts.count; ++n) {
            copy_cells(to, array->strides, parts.entries[n]);
            to += parts.entries[n]->shape[spot] * array->strides[spot] * size;
        }
        *beside += opw_lines(opw_mul(opw_prod(&seen->shape), size));
    }
}

// All arrays of a call; `piece` is the current one of joined inputs. The additional memory may be NULL.
static void put_arrays(const opw_context *x, opw_array *arrays, int64_t piece, char *beside)
{
    const opw_operation *const op = x->op;
    int64_t input = 0, output = 0;
    for (int64_t n = 0; n < op->array_count; ++n) {
        const opw_array_info *const info = &op->arrays[n];
        if (info->role == OPWRIGHT_LISTED) {
            put_list(x, &arrays[n], info, &beside);
        } else if (info->role == OPWRIGHT_WRITTEN) {
            put_output(x, &arrays[n], output++, &beside);
        } else {
            const opw_argument *const argument = &op->inputs[input];
            const opwright_tensor *const tensor = argument->joined != NULL ? tensors_at(x->call, argument).entries[piece]
                                                                   : tensor_at(x->call, argument);
            if (copied_together(op, input)) {
                put_joined(x, &arrays[n], input, &beside);
            } else if (tensor != NULL) {
                put_tensor(&arrays[n], tensor, &x->found.places[input]);
            } else { // one cell stands for an omitted input
                const opwright_dtype dtype = op->rows[x->found.row * (op->input_count + op->output_count) + input];
                const uint64_t *const cell = argument->absent + x->found.row;
                const opwright_tensor stand_in = {NULL, dtype, 0, NULL, NULL};
                put_tensor(&arrays[n], &stand_in, NULL);
                memcpy(&arrays[n].data, &cell, sizeof cell);
                arrays[n].given = false;
            }
            ++input;
        }
    }
}

// The slice of an array with the joined axis that belongs to the current piece.
static int64_t cut(opw_context *x, opw_array *arrays, int64_t begin)
{
    const opw_operation *const op = x->op;
    opw_int room[OPWRIGHT_AXES], extent = 0;
    if (op->joined_axis == NULL) {
        return 0;
    }
    for (int64_t n = 0, input = 0; n < op->array_count; ++n) {
        if (op->arrays[n].role == OPWRIGHT_INPUT && op->inputs[input++].joined != NULL) {
            extent = arrays[n].shape[opw_spots_of(arrays[n].places, op->joined_axis, room).at[0]];
        }
    }
    for (int64_t n = 0, input = 0; n < op->array_count; ++n) {
        const bool piece = op->arrays[n].role == OPWRIGHT_INPUT && op->inputs[input++].joined != NULL;
        for (const opw_pair *axis = op->arrays[n].sizes; !piece && axis->name != NULL; ++axis) {
            const opw_extent spots = opw_spots_of(arrays[n].places, axis->name, room);
            if (strcmp(axis->value, op->joined_size) == 0 && spots.count > 0) {
                const int64_t size = opw_dtype_names[arrays[n].dtype].size;
                const int64_t ahead = begin * arrays[n].strides[spots.at[0]] * size;
                arrays[n].data = arrays[n].data == NULL ? NULL : arrays[n].data + ahead;
                arrays[n].shape[spots.at[0]] = (int64_t)extent;
            }
        }
    }
    for (int64_t n = 0; n < x->found.values.count; ++n) {
        if (strcmp(x->found.values.entries[n].name, op->joined_size) == 0) {
            x->found.values.pool[x->found.values.entries[n].first] = extent;
        }
    }
    return begin + (int64_t)extent;
}

static int64_t pieces(const opw_context *x)
{
    int64_t count = 1;
    for (int64_t n = 0; n < x->op->input_count && x->op->joined_axis != NULL; ++n) {
        count = x->op->inputs[n].joined != NULL ? tensors_at(x->call, &x->op->inputs[n]).count : count;
    }
    return count;
}

static opw_stem stem_of(opw_context *x)
{
    const opw_operation *const op = x->op;
    for (int64_t n = 0; n < op->stem_count; ++n) {
        const opw_stem *const stem = &op->stems[n];
        bool fits = stem->row == x->found.row;
        fits = fits && (stem->group == NULL || opw_is(stem->group, x->found.group_class));
        for (int64_t at = 0; fits && op->layouts[at] != NULL; ++at) {
            for (int64_t word = 0; word < x->found.words; ++word) {
                fits = fits && (strcmp(x->found.word[word].name, op->layouts[at]) != 0 ||
                                strcmp(x->found.word[word].word, stem->words[at]) == 0);
            }
        }
        if (fits) {
            return *stem;
        }
    }
    return op->stems[0];
}

static void fill_sizes(const opw_context *x, void *sizes)
{
    for (int64_t n = 0; n < x->op->field_count; ++n) {
        int64_t *const at = (int64_t *)(void *)((char *)sizes + x->op->fields[n].at);
        opw_put_values(at, &x->op->fields[n], opw_axis(&x->found.values, x->op->fields[n].of));
    }
}

static int64_t best_of(opw_context *x, const opw_stem *stem)
{
    const int64_t best = opw_best(stem->kernels);
    if (best < 0) {
        if (opw_refuse(x, "isa", "", "OPWRIGHT_ISA")) {
            opw_put(&x->got, "a name that no instruction set has");
            opw_put(&x->expected, "one of:");
            for (int64_t n = 0; n < OPWRIGHT_ISAS; ++n) {
                opw_put(&x->expected, n > 0 ? ", " : " ");
                opw_put(&x->expected, opw_isas[n].name);
            }
        }
    }
    return best < 0 ? 0 : best;
}

// Plans the current piece of a call. What is known of the call stays as it is: another time its arrays are as given.
static void plan_piece(opw_context *x, opw_array *arrays, void *sizes, opw_plan *made)
{
    made->without = 0;
    if (x->op->chains == NULL) {
        opw_plan_steps(x, arrays, sizes, made);
        return;
    }
    const opw_axes values = x->found.values, letters = x->found.letters;
    opw_collapse(x, arrays);
    opw_plan_steps(x, arrays, sizes, made);
    if (opw_collapse_more(x, arrays, sizes, made)) {
        opw_plan_steps(x, arrays, sizes, made);
    }
    x->found.values = values;
    x->found.letters = letters;
}

// The kernel's own memory, for a number of workers.
static opw_int bytes_of(opw_context *x, void *sizes, size_t size, int64_t workers)
{
    const opw_stem stem = stem_of(x);
    const int64_t isa = best_of(x, &stem);
    opw_int bytes = 0;
    int64_t begin = 0;
    memset(sizes, 0, size);
    if (!x->op->steps) {
        fill_sizes(x, sizes);
        return isa > 0 ? x->op->scratch(stem.scratch[isa], sizes, workers) : 0;
    }
    for (int64_t piece = 0; piece < pieces(x); ++piece) {
        opw_array arrays[2 * OPWRIGHT_INPUTS];
        opw_plan made;
        put_arrays(x, arrays, piece, NULL);
        begin = cut(x, arrays, begin);
        plan_piece(x, arrays, sizes, &made);
        bytes = opw_max(bytes, opw_plan_bytes(&made, workers));
    }
    return bytes;
}

typedef struct job {
    const opw_operation *op;
    const opw_stem *stem;
    void *const *at;
    const void *sizes;
    int64_t row, workers;
} job;

static void part_of(void *context, int64_t worker)
{
    const job *const j = context;
    j->op->run_part[j->row](j->stem->kernels[0], j->at, j->sizes, worker, j->workers);
}

static void run_plainly(opw_context *x, void *sizes, const opwright_team *team, char *memory)
{
    const opw_operation *const op = x->op;
    const opw_stem stem = stem_of(x);
    const int64_t isa = best_of(x, &stem);
    void *at[2 * OPWRIGHT_INPUTS];
    int64_t count = 0;
    fill_sizes(x, sizes);
    for (int64_t n = 0; n < op->input_count; ++n) {
        if (!op->inputs[n].states_shape) {
            const opwright_tensor *const tensor = tensor_at(x->call, &op->inputs[n]);
            at[count++] = tensor != NULL ? tensor->data : NULL;
        }
    }
    at[count] = tensor_at(x->call, &op->outputs[0])->data;
    if (isa > 0) {
        op->run[x->found.row](stem.kernels[isa], at, sizes, team, memory);
        return;
    }
    const int64_t workers = team != NULL ? team->workers : 1;
    job j = {op, &stem, at, sizes, x->found.row, workers};
    if (team == NULL) {
        part_of(&j, 0);
    } else {
        team->run(part_of, &j, workers);
    }
}

static void run_steps(opw_context *x, void *sizes, const opwright_team *team, char *memory, char *beside)
{
    const opw_operation *const op = x->op;
    const opw_stem stem = stem_of(x);
    const int64_t isa = best_of(x, &stem);
    int64_t begin = 0;
    for (int64_t piece = 0; piece < pieces(x); ++piece) {
        opw_array arrays[2 * OPWRIGHT_INPUTS];
        opw_plan made;
        void *at[2 * OPWRIGHT_INPUTS];
        put_arrays(x, arrays, piece, beside);
        begin = cut(x, arrays, begin);
        plan_piece(x, arrays, sizes, &made);
        for (int64_t n = 0; n < op->array_count; ++n) {
            at[n] = arrays[n].data;
        }
        op->run[x->found.row](stem.kernels[isa], at, sizes, team, memory);
    }
}

int opw_infer_call(const opw_operation *op, const void *call, opwright_shape *shapes, opwright_error *error)
{
    opw_context x;
    understood(&x, op, call, false);
    if (shapes == NULL) {
        refuse_plainly(&x, "shapes", "-kind", "NULL", "room for a shape of each output");
    }
    for (int64_t n = 0; n < op->output_count && !x.refused; ++n) {
        const opw_output *const output = &x.found.outputs[n];
        shapes[n].given = !output->absent;
        shapes[n].dtype = op->rows[x.found.row * (op->input_count + op->output_count) + op->input_count + n];
        shapes[n].ndim = (int32_t)output->shape.count;
        for (int64_t at = 0; at < output->shape.count; ++at) {
            shapes[n].shape[at] = (int64_t)output->shape.at[at];
        }
    }
    return opw_report(&x, error);
}

int opw_workspace_of(const opw_operation *op, const void *call, void *sizes, size_t size,
                          const opwright_run *run, opwright_memory *memory, opwright_error *error)
{
    opw_context x;
    understood(&x, op, call, false);
    if (memory == NULL) {
        refuse_plainly(&x, "memory", "-kind", "NULL", "room for the answer");
    }
    checked_targets(&x, false);
    if (!x.refused) {
        const opw_int beside = bytes_beside(&x);
        const opw_int bytes = opw_add(beside, opw_lines(bytes_of(&x, sizes, size, workers_of(&x, run))));
        if (bytes > INT64_MAX && opw_refuse(&x, "memory", "", "workspace")) {
            opw_put_int(&x.got, bytes);
            opw_put(&x.got, " bytes");
            opw_put(&x.expected, "at most 2**63 - 1 bytes");
        }
        if (!x.refused) {
            memory->bytes = (size_t)bytes;
            memory->alignment = OPW_LINE;
        }
    }
    return opw_report(&x, error);
}

int opw_run_call(const opw_operation *op, const void *call, void *sizes, size_t size, const opwright_run *run,
                      opwright_error *error)
{
    opw_context x;
    understood(&x, op, call, true);
    if (!x.refused) {
        checked_outputs(&x);
    }
    const int64_t workers = x.refused ? 1 : workers_of(&x, run);
    const opw_int beside = x.refused ? 0 : bytes_beside(&x);
    const opw_int bytes = x.refused ? 0 : opw_add(beside, opw_lines(bytes_of(&x, sizes, size, workers)));
    const size_t has = run == NULL ? 0 : run->workspace_bytes;
    char *const memory = run == NULL ? NULL : run->workspace;
    const bool misaligned = (uintptr_t)memory % OPW_LINE != 0;
    if (bytes > 0 && (memory == NULL || bytes > (opw_int)has || misaligned) &&
        opw_refuse(&x, "workspace", "", "workspace")) {
        opw_put_int(&x.got, memory == NULL ? 0 : (opw_int)has);
        opw_put(&x.got, memory == NULL ? " bytes at NULL" : misaligned ? " bytes, misaligned" : " bytes");
        opw_put(&x.expected, "at least ");
        opw_put_int(&x.expected, bytes);
        opw_put(&x.expected, " bytes, aligned to 64");
    }
    if (!x.refused) {
        const opwright_team own = {opwright_team_run, workers};
        const opwright_team *const team = run != NULL && run->team != NULL ? run->team : &own;
        char *const scratch = memory == NULL ? NULL : memory + (size_t)beside;
        memset(sizes, 0, size);
        if (op->steps) {
            run_steps(&x, sizes, workers > 1 ? team : NULL, scratch, memory);
        } else {
            run_plainly(&x, sizes, workers > 1 ? team : NULL, scratch);
        }
    }
    return opw_report(&x, error);
}
