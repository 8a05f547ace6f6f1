// What this machine can do at most: multiplications and additions a second, and bytes read from memory.
// Compiled once for each vector length; LANES is the number of floats in a vector.

#include <stdint.h>
#include <string.h>
#ifdef DOTS
#include <immintrin.h>
#endif

typedef float vec __attribute__((vector_size(4 * LANES)));

#define CHAINS 12  // enough to hide the latency of 4 cycles at 2 a cycle, few enough for 16 registers
#define EACH(DO) DO(0) DO(1) DO(2) DO(3) DO(4) DO(5) DO(6) DO(7) DO(8) DO(9) DO(10) DO(11)

// Runs `rounds` rounds; the number of floating-point operations in them.
int64_t peak_multiply_add(int64_t rounds, float *sink) {
    vec a = {0}, b = {0};
    a += 0.999f;
    b += 1e-3f;
    __asm__ volatile("" : "+x"(a), "+x"(b));
#define START(i) vec sum##i = b;
#define STEP(i) sum##i = sum##i * a + b; __asm__ volatile("" : "+x"(sum##i));
#define END(i) b += sum##i;
    EACH(START)
    for (int64_t round = 0; round < rounds; ++round) {
        EACH(STEP)
    }
    EACH(END)
    memcpy(sink, &b, sizeof b);
    return rounds * CHAINS * LANES * 2;
}

// The same with dot products of pairs of bf16.
int64_t peak_dots(int64_t rounds, float *sink) {
#ifdef DOTS
    __m512bh pairs = (__m512bh)_mm512_set1_epi32(0x3f803f80);
    __m512 total = _mm512_setzero_ps();
#undef START
#undef STEP
#undef END
#define START(i) __m512 sum##i = total;
#define STEP(i) sum##i = _mm512_dpbf16_ps(sum##i, pairs, pairs); __asm__ volatile("" : "+x"(sum##i));
#define END(i) total += sum##i;
    __asm__ volatile("" : "+x"(pairs));
    EACH(START)
    for (int64_t round = 0; round < rounds; ++round) {
        EACH(STEP)
    }
    EACH(END)
    memcpy(sink, &total, sizeof total);
    return rounds * CHAINS * 16 * 4;
#else
    (void)rounds;
    *sink = 0;
    return 0;
#endif
}

// Reads `size` floats; the number of bytes in them.
int64_t peak_read(const float *from, int64_t size, float *sink) {
    vec sums[8] = {{0}};
    const int64_t step = 8 * LANES;
    for (int64_t at = 0; at + step <= size; at += step) {
        for (int i = 0; i < 8; ++i) {
            vec v;
            memcpy(&v, from + at + i * LANES, sizeof v);
            sums[i] += v;
        }
    }
    for (int i = 1; i < 8; ++i) sums[0] += sums[i];
    memcpy(sink, &sums[0], sizeof sums[0]);
    return size / step * step * 4;
}
