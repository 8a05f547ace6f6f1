// Runs kernels on calls from a file, for test_sanitizers.py. Every array has its exact size, so that the sanitizers see
// any access beside it; outputs are filled with 0xA5 first, so that a cell that no kernel writes shows.
//
// Scratch memory has its exact size, too, and holds 0xFF, which is a NaN of every dtype. Workers of a team take turns,
// the last one first; with OPWRIGHT_THREADS each has a thread of its own, and so have the parts of reference kernels.
//
// argv[1] holds calls, argv[2] takes the outputs. A call is seven numbers: which kernel, how many parts, the bytes of
// the sizes, of three inputs (-1: NULL) and of the output; then the sizes and the inputs.
// The text below this file defines `run`, which names the kernels: it
// computes part `part` of `parts`, or with a team of `parts` workers everything at once.

#define _POSIX_C_SOURCE 200112L
#if defined(__AMX_BF16__)
#define _GNU_SOURCE
#include <sys/syscall.h>
#include <unistd.h>
#endif

#include <opwright_kernels.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if defined(OPWRIGHT_THREADS)
#include <pthread.h>
#define TEAM(parts) ((parts) == 1 ? NULL : &(opwright_team){at_once, (parts)})
#else
#define TEAM(parts) ((parts) == 1 ? NULL : &(opwright_team){backwards, (parts)})
#endif

static void run(int64_t kernel, void **blocks, int64_t part, int64_t parts);

static inline void backwards(void (*work)(void *context, int64_t worker), void *context, int64_t workers)
{
    while (workers-- > 0) {
        work(context, workers);
    }
}

#if defined(OPWRIGHT_THREADS)
typedef struct worker {
    pthread_t thread;
    void (*work)(void *context, int64_t worker);
    void *context;
    int64_t number;
} worker;

static void *serve(void *start)
{
    const worker *self = start;
#if defined(OPWRIGHT_RACE) // all do the work of the first, for a test of the test
    self->work(self->context, 0);
#else
    self->work(self->context, self->number);
#endif
    return NULL;
}

static void at_once(void (*work)(void *context, int64_t worker), void *context, int64_t workers)
{
    worker *all = calloc((size_t)workers, sizeof *all);
    for (int64_t i = 0; i < workers; ++i) {
        all[i] = (worker){.work = work, .context = context, .number = i};
        if (pthread_create(&all[i].thread, NULL, serve, &all[i]) != 0) {
            exit(3);
        }
    }
    for (int64_t i = 0; i < workers; ++i) {
        pthread_join(all[i].thread, NULL);
    }
    free(all);
}

typedef struct job {
    int64_t kernel, parts;
    void **blocks;
} job;

static void run_part(void *context, int64_t part)
{
    const job *self = context;
    run(self->kernel, self->blocks, part, self->parts);
}
#endif

static inline void *scratch_of(int64_t bytes)
{
    void *block = NULL;
    if (posix_memalign(&block, 64, (size_t)bytes) != 0) {
        exit(3);
    }
    memset(block, 0xFF, (size_t)bytes);
    return block;
}

static void *take(FILE *calls, int64_t bytes)
{
    if (bytes < 0) {
        return NULL;
    }
    void *block = malloc((size_t)bytes);
    if (block == NULL || fread(block, 1, (size_t)bytes, calls) != (size_t)bytes) {
        exit(3);
    }
    return block;
}

int main(int count, char **names)
{
#if defined(__AMX_BF16__)
    syscall(SYS_arch_prctl, 0x1023, 18); // asks for the matrix registers: ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA
#endif
    int64_t head[7];
    FILE *calls = fopen(names[1], "rb");
    FILE *answers = fopen(names[2], "wb");
    if (count != 3 || calls == NULL || answers == NULL) {
        return 2;
    }
    while (fread(head, sizeof head, 1, calls) == 1) {
        void *blocks[5];
        for (int i = 0; i < 4; ++i) {
            blocks[i] = take(calls, head[2 + i]);
        }
        const size_t bytes = (size_t)head[6];
        blocks[4] = malloc(bytes);
        memset(blocks[4], 0xA5, bytes);
#if defined(OPWRIGHT_THREADS)
        at_once(run_part, &(job){head[0], head[1], blocks}, head[1]);
#else
        for (int64_t part = 0; part < head[1]; ++part) {
            run(head[0], blocks, part, head[1]);
        }
#endif
        fwrite(blocks[4], 1, bytes, answers);
        for (int i = 0; i < 5; ++i) {
            free(blocks[i]);
        }
    }
    fclose(calls);
    return fclose(answers);
}
