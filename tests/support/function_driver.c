// How far the functions of opwright_functions_f32.h are from the exact results.
// function_driver: reads pairs of f32 from stdin until it ends; writes what each function makes of the first of each
// pair, function after function in the order of EACH, and then the powers of the pairs.
// function_driver NAME FIRST LAST STRIDE: walks the f32 whose bits are in [FIRST, LAST), one of STRIDE batches. Prints
// the worst distance in ulp, the bits of its argument, how many results have the wrong sign of zero or are NaN where they
// should not be or the reverse, and a checksum of the results' bits. What is exact is what the C library says in double;
// with LANES defined, its vector library.

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "opwright_functions_f32.h"

enum { BATCH = 4096 };

#define ONE_BY_ONE(name, function) \
    static void exact_##name(const double *x, double *y) \
    { \
        for (int i = 0; i < BATCH; ++i) { \
            y[i] = function(x[i]); \
        } \
    }
#ifdef LANES
#include <immintrin.h>
#define IN_LANES(name) \
    __m512d _ZGVeN8v_##name(__m512d); \
    static void exact_##name(const double *x, double *y) \
    { \
        for (int i = 0; i < BATCH; i += 8) { \
            _mm512_storeu_pd(y + i, _ZGVeN8v_##name(_mm512_loadu_pd(x + i))); \
        } \
    }
#else
#define IN_LANES(name) ONE_BY_ONE(name, name)
#endif
#define RESULTS(name) \
    static void result_##name(const float *restrict x, float *restrict y) \
    { \
        for (int i = 0; i < BATCH; ++i) { \
            y[i] = opwright_##name##_f32(x[i]); \
        } \
    }
#define EACH(apply) \
    apply(exp) apply(exp2) apply(log) apply(log1p) apply(tanh) apply(erf) apply(sqrt) apply(rsqrt) apply(abs) \
    apply(round) apply(floor) apply(ceil) apply(sign)

static double rsqrt(double x) { return 1.0 / sqrt(x); }
static double sign(double x) { return x > 0.0 ? 1.0 : x < 0.0 ? -1.0 : x; }

IN_LANES(exp)
IN_LANES(exp2)
IN_LANES(log)
IN_LANES(log1p)
IN_LANES(tanh)
IN_LANES(erf)
ONE_BY_ONE(sqrt, sqrt)
ONE_BY_ONE(rsqrt, rsqrt)
ONE_BY_ONE(abs, fabs)
ONE_BY_ONE(round, rint)
ONE_BY_ONE(floor, floor)
ONE_BY_ONE(ceil, ceil)
ONE_BY_ONE(sign, sign)
EACH(RESULTS)

static void powers(const float *restrict x, const float *restrict y, float *restrict z)
{
    for (int i = 0; i < BATCH; ++i) {
        z[i] = opwright_pow_f32(x[i], y[i]);
    }
}

static const struct {
    const char *name;
    void (*result)(const float *, float *);
    void (*exact)(const double *, double *);
} FUNCTIONS[] = {
#define ROW(name) {#name, result_##name, exact_##name},
    EACH(ROW)
};
enum { COUNT = sizeof FUNCTIONS / sizeof *FUNCTIONS };

static int values(void)
{
    size_t room = 1 << 20, count = 0, got = 0;
    float(*pairs)[2] = malloc(room * sizeof *pairs);
    while (pairs && (got = fread(pairs + count, sizeof *pairs, room - count, stdin)) > 0) {
        count += got;
        if (count == room) {
            room *= 2;
            pairs = realloc(pairs, room * sizeof *pairs);
        }
    }
    if (!pairs) {
        return 1;
    }
    static float x[BATCH], y[BATCH], z[BATCH];
    for (size_t which = 0; which <= COUNT; ++which) {
        for (size_t first = 0; first < count; first += BATCH) {
            const size_t here = count - first < BATCH ? count - first : BATCH;
            for (size_t i = 0; i < here; ++i) {
                x[i] = pairs[first + i][0];
                y[i] = pairs[first + i][1];
            }
            if (which < COUNT) {
                FUNCTIONS[which].result(x, z);
            } else {
                powers(x, y, z);
            }
            fwrite(z, sizeof *z, here, stdout);
        }
    }
    free(pairs);
    return 0;
}

// The distance of neighbouring f32 where x is.
static double ulp(double x)
{
    const int e = (int)(opwright_bits_f64(x) >> 52 & 0x7ff) - 1023;
    return opwright_double((uint64_t)((e < -126 ? -126 : e) - 23 + 1023) << 52);
}

// Inf counts as the power of two behind the last number, as what rounds to it does.
static double bounded(double x) { return x > 0x1p128 ? 0x1p128 : x < -0x1p128 ? -0x1p128 : x; }

static double distance(float got, double exact)
{
    const double within = bounded(exact);
    const double error = fabs(bounded((double)got) - within);
    return error == 0.0 ? 0.0 : error / ulp(fabs(within) < 0x1p127 ? within : 0x1p127);
}

static int walk(const char *name, uint64_t first, uint64_t last, uint64_t stride)
{
    static float x[BATCH], got[BATCH];
    static double wide[BATCH], exact[BATCH];
    size_t which = 0;
    while (which < COUNT && strcmp(FUNCTIONS[which].name, name) != 0) {
        ++which;
    }
    if (which == COUNT) {
        return 2;
    }
    double worst = 0.0;
    uint64_t at = first, wrong = 0, sum = 0;
    for (uint64_t begin = first; begin < last; begin += BATCH * stride) {
        for (uint32_t i = 0; i < BATCH; ++i) {
            x[i] = opwright_float((uint32_t)begin + i);
            wide[i] = (double)x[i];
        }
        FUNCTIONS[which].result(x, got);
        FUNCTIONS[which].exact(wide, exact);
        for (uint32_t i = 0; i < BATCH; ++i) {
            const int nan = got[i] != got[i];
            wrong += nan != (exact[i] != exact[i]) || (got[i] == 0.0f && !signbit(got[i]) != !signbit(exact[i]));
            sum += (nan ? 0x7fc00000u : opwright_bits(got[i])) * (begin + i + 1);
            const double error = distance(got[i], exact[i]);
            if (error > worst) {
                worst = error;
                at = begin + i;
            }
        }
    }
    printf("%.4f %08llx %llu %016llx\n", worst, (unsigned long long)at, (unsigned long long)wrong,
           (unsigned long long)sum);
    return 0;
}

static uint64_t number(const char *word) { return strtoull(word, NULL, 0); }

int main(int count, char **words)
{
    return count == 5 ? walk(words[1], number(words[2]), number(words[3]), number(words[4])) : values();
}
