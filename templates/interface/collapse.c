// Axes of a call put together where every array goes through them as through one. The package's module _collapse.py
// gives the reasons.

#include "operation.h"

#include <string.h>

enum { SIZES = 8, MEMBERS = 2 * OPWRIGHT_INPUTS };

// The arrays that have a chain's sizes, and where.
typedef struct found_axes {
    int64_t count, sizes;
    opw_array *array[MEMBERS];
    int64_t spots[MEMBERS][SIZES];
} found_axes;

// Finds the axes; false if some array lacks an axis, or its axes do not stand side by side.
static bool find_axes(const opw_operation *op, opw_array *arrays, const opw_chain *chain, found_axes *found)
{
    found->count = 0;
    for (const opw_chained *one = chain->axes; one->array != NULL; ++one) {
        opw_array *const array = &arrays[opw_array_of(op, arrays, one->array) - arrays];
        bool whole = true;
        for (int64_t n = 0; n < found->sizes; ++n) {
            opw_int room[OPWRIGHT_AXES];
            const opw_extent spots = opw_spots_of(array->places, one->axes[n], room);
            int64_t *const own = found->spots[found->count];
            whole = whole && spots.count == 1;
            own[n] = whole ? (int64_t)spots.at[0] : 0;
            if (whole && n > 0 && own[n] != own[n - 1] + 1) {
                return false;
            }
        }
        if (whole) {
            found->array[found->count++] = array;
        } else if (array->ndim > 0) {
            return false;
        }
    }
    return true;
}

static int64_t step_of(const found_axes *found, int64_t array, int64_t size)
{
    const int64_t spot = found->spots[array][size];
    return found->array[array]->shape[spot] == 1 ? 0 : found->array[array]->strides[spot];
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

// Merges a size of `extents` into another one, in every array.
static void merge(const found_axes *found, opw_int *extents, int64_t outer, int64_t inner)
{
    for (int64_t n = 0; n < found->count; ++n) {
        opw_array *const array = found->array[n];
        const int64_t from = found->spots[n][outer], to = found->spots[n][inner];
        array->strides[to] = extents[inner] == 1 ? array->strides[from] : array->strides[to];
        array->shape[to] *= array->shape[from];
        array->shape[from] = 1;
    }
    extents[inner] *= extents[outer];
    extents[outer] = 1;
}

static bool through(const found_axes *found, const opw_int *extents, int64_t outer, int64_t inner)
{
    bool one = true;
    for (int64_t n = 0; n < found->count; ++n) {
        one = one && step_of(found, n, outer) == step_of(found, n, inner) * extents[inner];
    }
    return one;
}

static void collapse(opw_context *x, opw_array *arrays, const opw_chain *chain)
{
    found_axes found = {.sizes = chain->count};
    opw_int extents[SIZES];
    bool some = chain->count <= SIZES && find_axes(x->op, arrays, chain, &found);
    for (int64_t n = 0; some && n < chain->count; ++n) {
        extents[n] = opw_first(opw_axis(&x->found.values, chain->sizes[n]));
        some = extents[n] > 0;
    }
    if (!some) {
        return;
    }
    int64_t inner = chain->count - 1;
    for (int64_t outer = inner - 1; outer >= 0; --outer) {
        if (extents[outer] == 1) {
            continue;
        }
        if (extents[inner] == 1 || through(&found, extents, outer, inner)) {
            merge(&found, extents, outer, inner);
        } else {
            inner = outer;
        }
    }
    for (int64_t n = 0; n < chain->count; ++n) {
        *entry_of(&x->found.values, chain->sizes[n]) = extents[n];
        for (const char *const *letter = chain->letters[n]; *letter != NULL; ++letter) {
            opw_int *const own = entry_of(&x->found.letters, *letter);
            if (own != NULL) {
                *own = extents[n];
            }
        }
    }
}

void opw_collapse(opw_context *x, opw_array *arrays)
{
    for (const opw_chain *chain = x->op->chains; chain != NULL && chain->count > 0; ++chain) {
        collapse(x, arrays, chain);
    }
}
