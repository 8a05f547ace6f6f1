// Lines of elements as vectors of units, and squares of them from lines one way to lines the other.

#ifndef OPWRIGHT_UNITS_H
#define OPWRIGHT_UNITS_H

#include "lines.h"
#include "tile.h"

// The units of channels [c, c + LANES*UNIT_CHANNELS) of one line of pixels: one channel, or a pair, a vector.
INLINE vec unit_line(const elem *p, int64_t channel_step, int64_t channels, int64_t pixel_step, int64_t count) {
    const vec even = load_line(p, pixel_step, count);
#if OPWRIGHT_PAIRS
    return paired(even, channels > 1 ? load_line(p + channel_step, pixel_step, count) : (vec){0});
#else
    (void)channel_step, (void)channels;
    return even;
#endif
}

#if OPWRIGHT_PAIRS
// Those of two channels along 2 * LANES pixels that are neighbours in memory, which is read by whole lines.
INLINE void pair_lines(const elem *p, int64_t channel_step, unit *to) {
    const __m512i first = _mm512_loadu_si512(p), second = _mm512_loadu_si512(p + channel_step);
    const uvec low = {0x200000, 0x210001, 0x220002, 0x230003, 0x240004, 0x250005, 0x260006, 0x270007,
                      0x280008, 0x290009, 0x2a000a, 0x2b000b, 0x2c000c, 0x2d000d, 0x2e000e, 0x2f000f};
    const uvec high = low + 0x100010;
    _mm512_storeu_si512(to, _mm512_permutex2var_epi16(first, (__m512i)low, second));
    _mm512_storeu_si512(to + LANES, _mm512_permutex2var_epi16(first, (__m512i)high, second));
}
#endif

// The units of neighbouring channels of one pixel.
INLINE vec channel_units(const elem *p, int64_t channels) {
#if OPWRIGHT_PAIRS
    return (vec)pairs_load_part(p, min(channels, 2 * LANES));
#else
    return load_line(p, 1, channels);
#endif
}

// The same of channels that lie `step` apart; of units_lie.
INLINE bool units_lie(int64_t step) { return step == 1 || (UNIT_CHANNELS == 1 && step == 2); }
INLINE vec apart_units(const elem *p, int64_t step, int64_t channels) {
    return step == 1 ? channel_units(p, channels) : load_line(p, step, channels);
}

INLINE void units_store_part(unit *p, vec v, int64_t count) { vec_store_part((real *)(void *)p, v, count); }

// A square of LANES pixels and LANES units of channels, or less, from lines of pixels to lines of channels; with
// weights the pixels are lanes. Loops of a known length keep it in registers: 3 times as fast as through memory.
static inline void transpose(const elem *from, int64_t channel_step, int64_t channels, int64_t pixel_step, int64_t pixels,
                      unit *to, int64_t pixel, int64_t channel_units) {
    vec v[LANES];
    UNROLL for (int64_t i = 0; i < LANES; i++)
        v[i] = i < channel_units ? unit_line(from + i * UNIT_CHANNELS * channel_step, channel_step,
                                             channels - i * UNIT_CHANNELS, pixel_step, pixels)
                                 : (vec){0};
    vec_transpose(v);
    UNROLL for (int64_t i = 0; i < LANES; i++)
        if (i < pixels)
            channel_units == LANES ? vec_store((real *)(void *)(to + i * pixel), v[i])
                                   : units_store_part(to + i * pixel, v[i], channel_units);
}

#endif
