// Random products of small integers by the engine of contractions, held against plain loops. Prints how many agree; exits
// with 1 at the first that does not. Compiled with the names of the engine: see names.h.

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "contraction.h"

static uint64_t state = 88172645463325252u;

static int64_t below(int64_t n) {
    state ^= state << 13, state ^= state >> 7, state ^= state << 17;
    return (int64_t)(state % (uint64_t)n);
}

static int64_t extent(void) {
    static const int64_t some[] = {1, 1, 2, 3, 4, 5, 8, 9, 16, 17, 33, 70, 130};
    return below(20) == 0 ? 0 : some[below(13)];
}

static int64_t calls; // of the finishing function

// The sums that a finishing function gets go to where cells would be stored, negated.
static void negate(const void *context, int64_t cell, int64_t cells, const void *sums, int64_t worker) {
    (void)worker;
    calls++;
    for (int64_t i = 0; i < cells; i++)
        ((elem *)context)[cell + i] = -((const elem *)sums)[i];
}

static elem *numbers(int64_t count) {
    elem *made = malloc((size_t)count * sizeof *made);
    for (int64_t i = 0; i < count; i++)
        made[i] = (elem)(below(7) - 3);
    return made;
}

static int product(void) {
    const bool far = below(60) == 0; // out is more than the second-level cache holds
    const int64_t b = far || below(3) ? 1 : 1 + below(40), m = far ? 600 + below(90) : extent(), n = far ? 1000 + below(90) : extent();
    const int64_t k = far || below(6) ? extent() : 500 + below(700);
    const int turned[3] = {(int)below(2), (int)below(2), (int)below(3) == 0}, finished = below(3) == 0;
    opwright_contraction q = {.rows = m, .columns = n, .terms = k, .batches = b > 1, .batch = {b}, .finished = finished};
    const int64_t x = below(4) ? 1 : 2, y = below(4) ? 1 : 2; // how far neighbours lie apart in left and right
    q.left_row = x * (turned[0] ? 1 : k), q.left_term = x * (turned[0] ? m : 1);
    q.right_term = y * (turned[1] ? 1 : n), q.right_column = y * (turned[1] ? k : 1);
    q.out_row = turned[2] ? 1 : n, q.out_column = turned[2] ? m : 1;
    q.left_batch[0] = x * m * k, q.right_batch[0] = below(3) ? y * k * n : 0, q.out_batch[0] = m * n;
    elem *const left = numbers(x * b * m * k), *const right = numbers(y * b * k * n), *const out = numbers(b * m * n);
    void *const scratch = aligned_alloc(64, (size_t)(OPWRIGHT_NAME(contract_scratch)(&q, 1) + 127) / 64 * 64);
    calls = 0;
    OPWRIGHT_NAME(contract)(&q, left, right, finished ? 0 : out, finished ? negate : 0, out, 0, scratch);
    int64_t wrong = 0;
    for (int64_t p = 0; p < b; p++)
        for (int64_t r = 0; r < m; r++)
            for (int64_t c = 0; c < n; c++) {
                elem sum = 0;
                for (int64_t t = 0; t < k; t++)
                    sum += left[p * q.left_batch[0] + r * q.left_row + t * q.left_term] *
                           right[p * q.right_batch[0] + t * q.right_term + c * q.right_column];
                wrong += out[p * m * n + r * q.out_row + c * q.out_column] != (finished ? -sum : sum);
            }
    if (wrong)
        printf("%d wrong: %d x %d by %d terms, %d products, turned %d %d %d, finished %d\n", (int)wrong, (int)m, (int)n, (int)k,
               (int)b, turned[0], turned[1], turned[2], finished);
    const bool lone = b == 1 && k && m > 3 && n > 3 && 2 * calls > m * n; // sums that are finished one by one
    if (lone)
        printf("%d calls: %d x %d by %d terms, %d products, turned %d %d %d\n", (int)calls, (int)m, (int)n, (int)k, (int)b, turned[0],
               turned[1], turned[2]);
    free(left), free(right), free(out), free(scratch);
    return wrong == 0 && !lone;
}

int main(int count, char **given) {
    const int64_t wanted = count > 1 ? atoll(given[1]) : 100;
    for (int64_t i = 0; i < wanted; i++)
        if (!product())
            return 1;
    printf("%d agree\n", (int)wanted);
    return 0;
}
