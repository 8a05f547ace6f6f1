// Operands whose distances no order of loops fits, or whose elements are narrower than the other's, are copied first.

#ifndef OPWRIGHT_CONTRACTION_COPY_H
#define OPWRIGHT_CONTRACTION_COPY_H

#include "contraction.h"
#include "solve.h"

#if defined(OPWRIGHT_BYTES)
typedef uint8_t copied_elem;
#else
typedef elem copied_elem;
#endif

static int64_t copied_cells(const opwright_copied *c) {
    int64_t cells = c->wanted ? 1 : 0;
    for (int64_t a = 0; a < c->axes; a++)
        cells *= c->extent[a];
    return cells;
}

static int64_t copied_bytes(const opwright_copied *c) {
    return (copied_cells(c) * (int64_t)sizeof(copied_elem) + 63) & ~(int64_t)63;
}

#if defined(OPWRIGHT_F32) && !defined(OPWRIGHT_BYTES)
// A half's value.
static float half_value(uint16_t half) {
    const uint32_t sign = (uint32_t)(half & 0x8000u) << 16, magnitude = half & 0x7fffu;
    uint32_t bits = magnitude << 13;
    float value;
    memcpy(&value, &bits, sizeof value);
    value *= 0x1p112f;
    memcpy(&bits, &value, sizeof bits);
    bits = (magnitude >= 0x7c00u ? magnitude << 13 | 0x7f800000u : bits) | sign;
    memcpy(&value, &bits, sizeof value);
    return value;
}
#endif

static copied_elem copied_cell(const opwright_copied *c, const void *from, int64_t at) {
#if defined(OPWRIGHT_F32) && !defined(OPWRIGHT_BYTES)
    if (c->wanted == 2) {
        const uint32_t bits = (uint32_t)((const uint16_t *)from)[at] << 16;
        float value;
        memcpy(&value, &bits, sizeof value);
        return value;
    }
    if (c->wanted == 3)
        return half_value(((const uint16_t *)from)[at]);
    if (c->wanted == 4)
        return (float)((const int8_t *)from)[at];
    if (c->wanted == 5)
        return (float)((const uint8_t *)from)[at];
#else
    (void)c;
#endif
    return ((const copied_elem *)from)[at];
}

typedef struct copying {
    const opwright_copied *c;
    const void *from;
    copied_elem *to;
    int64_t length; // of the last axis
} copying;

// A line along the last axis.
static void copy_task(const void *context, int64_t task, int64_t worker) {
    (void)worker;
    const copying *k = context;
    const opwright_copied *c = k->c;
    int64_t at = 0, rest = task;
    for (int64_t a = c->axes - 2; a >= 0; a--) {
        at += rest % c->extent[a] * c->step[a];
        rest /= c->extent[a];
    }
    const int64_t step = c->axes ? c->step[c->axes - 1] : 0;
    for (int64_t i = 0; i < k->length; i++, at += step)
        k->to[task * k->length + i] = copied_cell(c, k->from, at);
}

// The operand to read: where it is, or its copy in `to`.
static const copied_elem *copied_operand(const opwright_copied *c, const void *from, void *to, const opwright_team *team) {
    if (!c->wanted)
        return from;
    const copying k = {c, from, to, c->axes ? c->extent[c->axes - 1] : 1};
    const int64_t cells = copied_cells(c);
    if (cells > 0)
        opwright_run(team, copy_task, &k, cells / k.length);
    return to;
}

#endif
