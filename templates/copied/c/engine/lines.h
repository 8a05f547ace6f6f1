// Lines of elements that lie apart in memory as vectors, and back.

#ifndef OPWRIGHT_LINES_H
#define OPWRIGHT_LINES_H

#include "lanes.h"

// Even and odd lanes of two vectors; even lanes of the first, then odd ones of the second.
#define EVEN_LANE(i) 2 * (i)
#define ODD_LANE(i) 2 * (i) + 1
#define OTHER_LANE(i) 2 * (i) + ((i) >= LANES / 2)

// `count` elements, `step` apart, widened; for as many lanes. Of every second one vectors are made from whole ones: products of
// complex numbers, 200x177x150 f32, take 0.67 of the time (Intel Xeon, gcc 12.2).
INLINE vec load_line(const elem *p, int64_t step, int64_t count) {
    if (step == 1 || count == 1)
        return count >= LANES ? elem_load(p) : elem_load_part(p, count);
    if (step == 2) {
        const int64_t cells = 2 * min(count, LANES) - 1, more = cells - LANES + 1; // from the last cell of the first vector on
        const vec first = cells >= LANES ? elem_load(p) : elem_load_part(p, max(cells, 0));
        const elem *const last = p + LANES - 1;
        return SHUFFLE(first, more >= LANES ? elem_load(last) : more > 1 ? elem_load_part(last, more) : (vec){0}, EACH_LANE(OTHER_LANE));
    }
    elem some[LANES] = {0};
    if (count >= LANES) {
        UNROLL for (int i = 0; i < LANES; i++) some[i] = p[i * step];
    } else
        for (int64_t i = 0; i < count; i++)
            some[i] = p[i * step];
    return elem_load(some);
}

INLINE void store_line(sum_cell *p, int64_t step, vec v, int64_t count) {
    if (step == 1) {
        count >= LANES ? sum_store(p, v) : sum_store_part(p, v, count);
        return;
    }
    for (int64_t i = 0; i < min(count, LANES); i++)
        sum_put(p + i * step, v[i]);
}

#endif
