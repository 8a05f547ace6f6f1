// Shared by y and x: the output in phases, and the reach of their taps.
//
// Along an axis of stride S, y has one phase: output q is reached from the inputs q*S + k*dilation - pad. x has S, one
// for each r: output q*S + r is reached from the inputs q + (r + pad - k*dilation)/S of those taps for which that is an
// integer. From here on both are the same: output q*out_step + r, inputs q*in_step + offset + t*offset_step for
// t in [0, taps), ascending.

#ifndef OPWRIGHT_PHASES_H
#define OPWRIGHT_PHASES_H

#include "problem.h"
#include "widths.h"

typedef struct axis {
    int64_t out, in, taps; // extents
    int64_t in_step, out_step;
    int64_t dilation, pad;
    int64_t classes; // taps k and k + classes belong to the same phase
    int64_t common;  // the greatest common divisor of stride and dilation
    int64_t inverse; // of dilation / common, modulo classes
    int64_t offset_step;
} axis;

typedef struct phase {
    int64_t count; // outputs
    int64_t taps;
    int64_t offset;
    int64_t position;        // of its first tap, in the order in which weights are packed
    int64_t tap, tap_step;   // the k of its first tap, and from one to the next
} phase;

// One description of solving for y and for x. Extents of channels are per group.
typedef struct solve {
    const opwright_problem *problem;
    bool backward; // x
    axis axes[3];
    int64_t lanes, reduced; // channels of the output, of the input
    int64_t in_n, in_c, in_x[3], out_n, out_c, out_x[3];
    int64_t w_lane, w_reduced;
    int64_t cell_n, cell_c, cell_x[3]; // of cells, if the output is a part of them in scratch: parts.h
} solve;

INLINE int64_t modulo(int64_t a, int64_t b) { return (a % b + b) % b; }
INLINE int64_t divide_down(int64_t a, int64_t b) { return (a - modulo(a, b)) / b; }

static inline axis axis_of(const opwright_problem *p, int number, bool backward) {
    const int64_t stride = p->stride[number], dilation = p->dilation[number];
    axis a = {.taps = p->taps[number], .dilation = dilation, .pad = p->pad[number]};
    if (!backward) {
        a.out = p->small[number], a.in = p->big[number];
        a.in_step = stride, a.out_step = 1, a.classes = 1, a.common = 1, a.offset_step = dilation;
        return a;
    }
    const int64_t common = gcd(stride, dilation);
    a.out = p->big[number], a.in = p->small[number];
    a.in_step = 1, a.out_step = stride, a.classes = stride / common, a.common = common;
    a.offset_step = dilation / common;
    while (a.classes > 1 && a.inverse * a.offset_step % a.classes != 1)
        a.inverse++;
    return a;
}

// How many taps belong to a class, and how many to the classes before it.
INLINE int64_t class_taps(const axis *a, int64_t class) {
    return class < a->taps ? (a->taps - 1 - class) / a->classes + 1 : 0;
}
INLINE int64_t taps_before(const axis *a, int64_t class) {
    return class * (a->taps / a->classes) + min(class, a->taps % a->classes);
}

// The position of tap k among the packed ones: classes one after the other, inputs ascending within a class.
INLINE int64_t tap_position(const axis *a, int64_t k, bool backward) {
    if (!backward)
        return k;
    const int64_t class = k % a->classes;
    return taps_before(a, class) + class_taps(a, class) - 1 - k / a->classes;
}

static inline phase phase_of(const axis *a, int64_t r, bool backward) {
    if (!backward)
        return (phase){a->out, a->taps, -a->pad, 0, 0, 1};
    if (a->out_step == 1) // as below, without the divisions
        return (phase){a->out, a->taps, a->pad - (a->taps - 1) * a->dilation, 0, a->taps - 1, -1};
    phase p = {.count = r < a->out ? (a->out - r - 1) / a->out_step + 1 : 0, .tap_step = -a->classes};
    const int64_t sum = r + a->pad;
    if (sum % a->common != 0)
        return p;
    const int64_t class = sum / a->common % a->classes * a->inverse % a->classes;
    p.taps = class_taps(a, class);
    p.position = taps_before(a, class);
    p.tap = class + (p.taps - 1) * a->classes;
    p.offset = p.taps > 0 ? divide_down(sum - p.tap * a->dilation, a->out_step) : 0;
    return p;
}

static inline solve solve_of(const opwright_problem *p, bool backward) {
    solve s = {.problem = p, .backward = backward};
    for (int a = 0; a < 3; a++) {
        s.axes[a] = axis_of(p, a, backward);
        s.in_x[a] = backward ? p->small_x[a] : p->big_x[a];
        s.out_x[a] = backward ? p->big_x[a] : p->small_x[a];
    }
    s.lanes = backward ? p->B : p->A, s.reduced = backward ? p->A : p->B;
    s.in_n = backward ? p->small_n : p->big_n, s.in_c = backward ? p->small_c : p->big_c;
    s.out_n = backward ? p->big_n : p->small_n, s.out_c = backward ? p->big_c : p->small_c;
    if (p->G * s.reduced == 1 && s.in_x[2] == 1) // with one channel, contiguous pixels count as channels last, too
        s.in_c = 1;
    s.w_lane = backward ? p->w_b : p->w_a, s.w_reduced = backward ? p->w_a : p->w_b;
    return s;
}

// The taps t of a phase with an input in bounds, for output q: [first, last).
INLINE void reach(const axis *a, const phase *p, int64_t q, int64_t *first, int64_t *last) {
    const int64_t at = q * a->in_step + p->offset;
    *first = at >= 0 ? 0 : min(p->taps, over(a->offset_step - 1 - at, a->offset_step));
    *last = at >= a->in ? 0 : min(p->taps, over(a->in - 1 - at, a->offset_step) + 1);
    *last = max(*first, *last);
}

// The range of inputs of outputs [q0, q1) of all phases: [low, high), not clipped to the tensor.
static inline void span(const axis *a, bool backward, int64_t q0, int64_t q1, int64_t *low, int64_t *high) {
    *low = INT64_MAX, *high = INT64_MIN;
    for (int64_t r = 0; r < a->out_step; r++) {
        const phase p = phase_of(a, r, backward);
        const int64_t end = min(q1, p.count);
        if (p.taps == 0 || end <= q0)
            continue;
        *low = min(*low, q0 * a->in_step + p.offset);
        *high = max(*high, (end - 1) * a->in_step + p.offset + (p.taps - 1) * a->offset_step + 1);
    }
    if (*low > *high)
        *low = *high = 0;
}

#endif
