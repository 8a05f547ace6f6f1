// How far the functions of opwright_functions_f64.h are from the exact results.
// function_driver_f64: reads numbers of f64 from stdin until it ends, and as many powers; writes, function after function in the
// order of EACH, what the function makes of each, and then how far each result is from the exact one in ulp: what the C library
// says in long double. The last are the powers. A NaN or a sign of zero that is wrong is infinitely far.

#include <math.h>
#include <stdio.h>

#include "opwright_functions.h"

#define EACH(apply) apply(exp) apply(exp2) apply(log) apply(log1p) apply(tanh) apply(erf)
#define RESULTS(name) \
    static void result_##name(int n, const double *restrict x, double *restrict y) \
    { \
        for (int i = 0; i < n; ++i) { \
            y[i] = opwright_##name##_f64(x[i]); \
        } \
    }
EACH(RESULTS)

static void result_pow(int n, const double *restrict x, double *restrict y)
{
    for (int i = 0; i < n; ++i) {
        y[i] = opwright_pow_f64(x[i], x[n + i]);
    }
}

// Inf counts as the power of two behind the last number, as what rounds to it does.
static long double bounded(long double x) { return fabsl(x) > 0x1p1023L * 2 ? copysignl(0x1p1023L * 2, x) : x; }

static double distance(double got, long double exact)
{
    if (isnan(got) || isnan(exact)) {
        return isnan(got) && isnan(exact) ? 0.0 : INFINITY;
    }
    if (got == 0.0 && !signbit(got) != !signbit(exact)) {
        return INFINITY;
    }
    const long double within = bounded(exact);
    int e = -1022;
    if (within != 0.0L) {
        frexpl(within, &e);
        e = e > 1024 ? 1024 : e < -1021 ? -1021 : e;
    }
    return (double)(fabsl(bounded((long double)got) - within) / ldexpl(1.0L, e - 53 < -1074 ? -1074 : e - 53));
}

enum { MOST = 1 << 22 };
static double x[MOST], y[MOST], far[MOST];

int main(void)
{
    const int n = (int)fread(x, sizeof *x, MOST, stdin) / 2;
#define WRITE(name, exact) \
    result_##name(n, x, y); \
    for (int i = 0; i < n; ++i) { \
        far[i] = distance(y[i], exact); \
    } \
    fwrite(y, sizeof *y, (size_t)n, stdout); \
    fwrite(far, sizeof *far, (size_t)n, stdout);
#define WRITE_ONE(name) WRITE(name, name##l((long double)x[i]))
    EACH(WRITE_ONE)
    WRITE(pow, powl((long double)x[i], (long double)x[n + i]))
    return 0;
}
