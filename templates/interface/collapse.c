// Axes of a call put in the order of memory, and together where every array goes through them as through one. The
// package's module _collapse.py gives the reasons.

#include "operation.h"

#include <string.h>

enum { SIZES = 8, MEMBERS = 2 * OPWRIGHT_INPUTS };

// The arrays that have a chain's sizes, where, and how far apart neighbours lie there.
typedef struct found_axes {
    int64_t count, sizes;
    int64_t extents[SIZES];
    opw_array *array[MEMBERS];
    int64_t spots[MEMBERS][SIZES], steps[MEMBERS][SIZES];
} found_axes;

// Finds the axes; false if some array lacks an axis.
static bool find_axes(const opw_operation *op, opw_array *arrays, const opw_chain *chain, found_axes *found)
{
    found->count = 0;
    for (const opw_chained *one = chain->axes; one->array != NULL; ++one) {
        opw_array *const array = &arrays[opw_array_of(op, arrays, one->array) - arrays];
        bool whole = true;
        for (int64_t n = 0; n < found->sizes; ++n) {
            opw_int room[OPWRIGHT_AXES];
            const opw_extent spots = opw_spots_of(array->places, one->axes[n], room);
            whole = whole && spots.count == 1;
            found->spots[found->count][n] = whole ? (int64_t)spots.at[0] : 0;
        }
        if (whole) {
            int64_t *const steps = found->steps[found->count];
            for (int64_t n = 0; n < found->sizes; ++n) {
                const int64_t spot = found->spots[found->count][n];
                steps[n] = array->shape[spot] == 1 ? 0 : array->strides[spot];
            }
            found->array[found->count++] = array;
        } else if (array->ndim > 0) {
            return false;
        }
    }
    return true;
}

static opw_int *entry_of(opw_axes *axes, const char *name)
{
    for (int64_t n = 0; n < axes->count; ++n) {
        if (strcmp(axes->entries[n].name, name) == 0) {
            return &axes->pool[axes->entries[n].first];
        }
    }
    return NULL;
}

// Whether neighbours of a size lie farther apart than those of another one, in the last array that tells; 1 cell does.
static bool farther(const found_axes *found, int64_t size, int64_t other)
{
    if ((found->extents[size] == 1) != (found->extents[other] == 1)) {
        return found->extents[size] == 1;
    }
    for (int64_t n = found->count - 1; n >= 0; --n) {
        const int64_t one = found->steps[n][size], two = found->steps[n][other];
        const int64_t far = one < 0 ? -one : one, near = two < 0 ? -two : two;
        if (far != near) {
            return far > near;
        }
    }
    return false;
}

static void exchange(int64_t *one, int64_t *other)
{
    const int64_t kept = *one;
    *one = *other;
    *other = kept;
}

// Whether neighbours of the array that tells lie in the order of its axes, without gaps.
static bool lies_plainly(const found_axes *found)
{
    const opw_array *const array = found->array[found->count - 1];
    int64_t cells = 1;
    bool plain = true;
    for (int64_t axis = array->ndim - 1; axis >= 0; --axis) {
        plain = plain && (array->shape[axis] == 1 || array->strides[axis] == cells);
        cells *= array->shape[axis];
    }
    return plain;
}

// Kernels are made for arrays in the order of their axes: only where the one that tells is not, is it another.
static void put_in_memory_order(found_axes *found)
{
    if (found->count == 0 || lies_plainly(found)) {
        return;
    }
    for (int64_t end = 1; end < found->sizes; ++end) {
        for (int64_t at = end; at > 0 && farther(found, at, at - 1); --at) {
            exchange(&found->extents[at], &found->extents[at - 1]);
            for (int64_t n = 0; n < found->count; ++n) {
                exchange(&found->steps[n][at], &found->steps[n][at - 1]);
            }
        }
    }
}

static bool through(const found_axes *found, int64_t outer, int64_t inner)
{
    bool one = true;
    for (int64_t n = 0; n < found->count; ++n) {
        one = one && found->steps[n][outer] == found->steps[n][inner] * found->extents[inner];
    }
    return one;
}

static void merge(found_axes *found)
{
    int64_t inner = found->sizes - 1;
    for (int64_t outer = inner - 1; outer >= 0; --outer) {
        if (found->extents[outer] == 1) {
            continue;
        }
        const bool alone = found->extents[inner] == 1;
        if (!alone && !through(found, outer, inner)) {
            inner = outer;
            continue;
        }
        for (int64_t n = 0; n < found->count; ++n) {
            found->steps[n][inner] = alone ? found->steps[n][outer] : found->steps[n][inner];
            found->steps[n][outer] = 0;
        }
        found->extents[inner] *= found->extents[outer];
        found->extents[outer] = 1;
    }
}

// Gives arrays the extents and steps that were found; one cell that serves all of them stays so.
static void reshape(const found_axes *found)
{
    for (int64_t n = 0; n < found->count; ++n) {
        opw_array *const array = found->array[n];
        bool cell = true;
        for (int64_t size = 0; size < found->sizes; ++size) {
            cell = cell && array->shape[found->spots[n][size]] == 1;
        }
        for (int64_t size = 0; size < found->sizes && !cell; ++size) {
            array->shape[found->spots[n][size]] = found->extents[size];
            array->strides[found->spots[n][size]] = found->steps[n][size];
        }
    }
}

// Whether extents or steps are others than before.
static bool changed(const found_axes *found, const found_axes *before)
{
    bool other = memcmp(found->extents, before->extents, (size_t)found->sizes * sizeof *found->extents) != 0;
    for (int64_t n = 0; n < found->count; ++n) {
        other = other || memcmp(found->steps[n], before->steps[n], (size_t)found->sizes * sizeof **found->steps) != 0;
    }
    return other;
}

static bool collapse(opw_context *x, opw_array *arrays, const opw_chain *chain)
{
    found_axes found = {.sizes = chain->count};
    bool some = chain->count <= SIZES && find_axes(x->op, arrays, chain, &found);
    for (int64_t n = 0; some && n < chain->count; ++n) {
        found.extents[n] = (int64_t)opw_first(opw_axis(&x->found.values, chain->sizes[n]));
        some = found.extents[n] > 0;
    }
    if (!some) {
        return false;
    }
    const found_axes before = found;
    put_in_memory_order(&found);
    merge(&found);
    if (!changed(&found, &before)) {
        return false;
    }
    reshape(&found);
    for (int64_t n = 0; n < chain->count; ++n) {
        *entry_of(&x->found.values, chain->sizes[n]) = found.extents[n];
        for (const char *const *letter = chain->letters[n]; *letter != NULL; ++letter) {
            opw_int *const own = entry_of(&x->found.letters, *letter);
            if (own != NULL) {
                *own = found.extents[n];
            }
        }
    }
    return true;
}

void opw_collapse(opw_context *x, opw_array *arrays)
{
    for (const opw_chain *chain = x->op->chains; chain != NULL && chain->count > 0; ++chain) {
        if (chain->apart == 0) {
            collapse(x, arrays, chain);
        }
    }
}

bool opw_collapse_more(opw_context *x, opw_array *arrays, const void *sizes, opw_plan *plan)
{
    uint64_t apart = 0, last = 0;
    for (const opw_chain *chain = x->op->chains; chain != NULL && chain->count > 0; ++chain) {
        apart |= chain->apart;
    }
    for (int64_t n = 0; apart >> n != 0; ++n) {
        last |= (uint64_t)(opw_lanes_of(x->op, sizes)[n] == x->op->phases[n].count - 1) << n;
    }
    bool some = false;
    for (const opw_chain *chain = x->op->chains; chain != NULL && chain->count > 0; ++chain) {
        if (chain->apart != 0 && (chain->apart & last) == 0) {
            some = collapse(x, arrays, chain) || some;
            plan->without |= chain->apart;
        }
    }
    return some;
}
