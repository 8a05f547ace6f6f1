// A pool of POSIX threads that serves one job at a time.
//
// A job has a ticket: its number of workers and the next one. A thread that increments `next` below `workers` with a
// compare-and-swap has claimed that worker, runs it and counts it as done. No thread reads a job without a claim, and a
// job does not end before every claim is done, so it lives in the pool and needs no reference count. The caller
// claims like every other thread: it never waits for a thread that has yet to wake up, only for running workers.
//
// A call from inside a job, and one that finds the pool busy with another caller's job, runs its workers itself, one
// after the other: nothing can deadlock, and no more threads run than CPUs and callers.
//
// Threads start when a job first needs them, at most one per other CPU. After a job they spin for a moment, because
// the next call often follows at once, then sleep, each on a condition variable of its own. A forked child has none of
// them: its pool starts from scratch.
//
// Linux may wake a thread on the caller's CPU although others are idle, and moves it milliseconds later: in a virtual
// machine, where the scheduler takes an idle CPU for a preempted one, calls of 9 ms with 0.1 s between them took 13
// to 18. So until it is awake, a thread's affinity excludes the CPUs that this job already uses.
//
// A program that has OpenMP's pool in it, as PyTorch has, may lend it: its threads spin for milliseconds after their work,
// and two pools would take the CPUs from each other. ResNet-50, batch 1, f32, two threads of an AMD EPYC (Zen 4), PyTorch
// 2.13: 105 to 130 ms with two pools, 70 ms with one.
//
// Figures: see engine.h.

#define _GNU_SOURCE
#include "opwright_pool.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <time.h>
#include <unistd.h>

enum {
    // Nanoseconds. Waking a sleeper costs 5000 to 70000 in a virtual machine, and one that wakes late makes its caller sleep,
    // which makes itself sleep before the next call. So a caller waits longer for a worker that runs than a thread for work.
    // Calls of 1182 x 197 f32 in a row, softmax's gradient, with two threads: 95 us where both are 20000, 55 with a caller's
    // 1000000, 48 with a thread's 100000 besides, no less with more; 137 us with one thread (Intel Xeon, 2 cores, gcc 12.2).
    SPIN = 100000,
    SPIN_CALLER = 1000000,
    ALONE = 20000,      // from then on whoever spins leaves its CPU to any other thread that wants it
    STACK = 4 << 20,    // bytes of a thread; the 128 KiB of some C libraries are too few
};

typedef struct sleeper sleeper;

struct sleeper {
    pthread_t thread;
    pthread_cond_t called;
    bool asleep;
    sleeper *next;
#if defined(__linux__)
    int cpu;           // where it fell asleep
    bool barred;       // whether it must restore its CPU affinity
    cpu_set_t allowed; // those
#endif
};

static struct {
    pthread_mutex_t lock;
    pthread_cond_t done;
    sleeper *sleepers;        // under the lock
    bool waiting;             // whether the caller sleeps; under the lock
    atomic_flag taken;        // held by the caller whose job it is
    int threads, max_threads;        // current and maximum number; owned by the caller of the job
    _Atomic uint64_t ticket;  // workers << 32 | next
    _Atomic int64_t finished; // workers of this job that are done
    void (*run)(void *context, int64_t worker);
    void *context;
} pool = {.lock = PTHREAD_MUTEX_INITIALIZER, .done = PTHREAD_COND_INITIALIZER, .taken = ATOMIC_FLAG_INIT};

static _Thread_local bool inside; // whether this thread runs a worker

// The functions of OpenMP's pool, as GNU's library has them; none where it is not borrowed.
typedef void open_region(void (*work)(void *data), void *data, unsigned threads, unsigned flags);
typedef int number(void);

static struct {
    _Atomic(open_region *) region; // set last
    number *thread, *threads, *max_threads;
} openmp;

typedef struct job {
    void (*run)(void *context, int64_t worker);
    void *context;
    int64_t workers;
} job;

static bool has_work(void)
{
    const uint64_t ticket = atomic_load(&pool.ticket);
    return (uint32_t)ticket < ticket >> 32;
}

static bool is_done(void)
{
    return atomic_load(&pool.finished) == (int64_t)(atomic_load(&pool.ticket) >> 32);
}

static int64_t now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

// Spins for so long on `ready`; whether it became true.
static bool spun(bool ready(void), int64_t nanoseconds)
{
    const int64_t begin = now();
    for (int64_t time = begin; time < begin + nanoseconds; time = now()) {
        if (time > begin + ALONE) {
            sched_yield();
        }
        for (int i = 0; i < 32; ++i) {
            if (ready()) {
                return true;
            }
#if defined(__x86_64__)
            __builtin_ia32_pause();
#elif defined(__aarch64__)
            __asm__ volatile("yield");
#endif
        }
    }
    return false;
}

// Runs a worker, which is one of so many.
static void run_one(int64_t worker, int64_t workers)
{
    inside = true;
    pool.run(pool.context, worker);
    inside = false;
    if (atomic_fetch_add(&pool.finished, 1) + 1 == workers) {
        pthread_mutex_lock(&pool.lock);
        if (pool.waiting) {
            pthread_cond_signal(&pool.done);
        }
        pthread_mutex_unlock(&pool.lock);
    }
}

// Claims and runs workers until none is left.
static void help(void)
{
    uint64_t ticket = atomic_load(&pool.ticket);
    while ((uint32_t)ticket < ticket >> 32) {
        if (!atomic_compare_exchange_weak(&pool.ticket, &ticket, ticket + 1)) {
            continue;
        }
        run_one((int64_t)(uint32_t)ticket, (int64_t)(ticket >> 32));
        ticket = atomic_load(&pool.ticket);
    }
}

// Excludes, while this many sleepers are woken, the caller's CPU and those of earlier sleepers from their affinity.
static void spread(int64_t threads)
{
#if defined(__linux__)
    cpu_set_t used, both, left;
    int cpu = sched_getcpu();
    CPU_ZERO(&used);
    for (sleeper *woken = pool.sleepers; woken != NULL && threads > 0; woken = woken->next, --threads) {
        if (cpu >= 0 && cpu < CPU_SETSIZE) {
            CPU_SET((size_t)cpu, &used);
        }
        if (pthread_getaffinity_np(woken->thread, sizeof woken->allowed, &woken->allowed) == 0) {
            CPU_AND(&both, &woken->allowed, &used);
            CPU_XOR(&left, &woken->allowed, &both);
            woken->barred = CPU_COUNT(&left) > 0 && pthread_setaffinity_np(woken->thread, sizeof left, &left) == 0;
        }
        cpu = woken->cpu;
    }
#else
    (void)threads;
#endif
}

// Restores the CPU affinity of an awake thread.
static void unbar(sleeper *self)
{
#if defined(__linux__)
    if (self->barred) {
        self->barred = false;
        pthread_setaffinity_np(self->thread, sizeof self->allowed, &self->allowed);
    }
#else
    (void)self;
#endif
}

// Wakes this many sleeping threads, or all.
static void wake(int64_t threads)
{
    pthread_mutex_lock(&pool.lock);
    if (pool.sleepers != NULL) {
        spread(threads);
    }
    for (; threads > 0 && pool.sleepers != NULL; --threads) {
        sleeper *const woken = pool.sleepers;
        pool.sleepers = woken->next;
        woken->asleep = false;
        pthread_cond_signal(&woken->called);
    }
    pthread_mutex_unlock(&pool.lock);
}

// Sleeps until woken, unless there is work already.
static void sleep_until_called(sleeper *self)
{
    pthread_mutex_lock(&pool.lock);
    if (!has_work()) {
        self->asleep = true;
        self->next = pool.sleepers;
        pool.sleepers = self;
#if defined(__linux__)
        self->cpu = sched_getcpu();
#endif
        while (self->asleep) {
            pthread_cond_wait(&self->called, &pool.lock);
        }
    }
    pthread_mutex_unlock(&pool.lock);
    unbar(self);
}

static void *serve(void *unused)
{
    (void)unused;
    sleeper self = {.thread = pthread_self(), .called = PTHREAD_COND_INITIALIZER};
    for (;;) {
        if (!spun(has_work, SPIN)) {
            sleep_until_called(&self);
        }
        help();
    }
    return NULL;
}

static int cpus(void)
{
#if defined(__linux__)
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) == 0) {
        return CPU_COUNT(&set);
    }
#endif
    const long online = sysconf(_SC_NPROCESSORS_ONLN);
    return online > 0 ? (int)online : 1;
}

// In a forked child, where the pool's threads do not exist, nor OpenMP's, and another thread may have held the lock.
static void start_anew(void)
{
    pthread_mutex_init(&pool.lock, NULL);
    pthread_cond_init(&pool.done, NULL);
    pool.threads = pool.max_threads = 0;
    pool.sleepers = NULL;
    pool.waiting = false;
    atomic_store(&pool.ticket, 0);
    atomic_store(&pool.finished, 0);
    atomic_store(&openmp.region, NULL);
    atomic_flag_clear(&pool.taken);
}

static void add_handler(void) { pthread_atfork(NULL, NULL, start_anew); }

static void mind_forks(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, add_handler);
}

// Starts threads up to this number, or up to the maximum. Only the caller of the job comes here.
static void grow(int64_t threads)
{
    mind_forks();
    pool.max_threads = cpus() > 1 ? cpus() - 1 : -1;
    sigset_t all, before;
    pthread_attr_t attributes;
    sigfillset(&all); // signals belong to the host program
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    pthread_attr_setstacksize(&attributes, STACK);
    pthread_t thread;
    while (pool.threads < threads && pool.threads < pool.max_threads) {
        if (pthread_create(&thread, &attributes, serve, NULL) != 0) {
            pool.max_threads = pool.threads;
            break;
        }
        ++pool.threads;
    }
    pthread_attr_destroy(&attributes);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

// Runs a job on the pool's own threads.
static void share(void (*work)(void *context, int64_t worker), void *context, int64_t workers)
{
    if (pool.threads < workers - 1 && (pool.max_threads == 0 || pool.threads < pool.max_threads)) {
        grow(workers - 1);
    }
    pool.run = work;
    pool.context = context;
    atomic_store(&pool.finished, 0);
    atomic_store(&pool.ticket, (uint64_t)workers << 32 | 1);
    wake(workers - 1);
    // The caller's share is always the first, which its cache may have from the call before: layer normalisation of 1000 x 197
    // f32 with two threads takes 0.7 of the time of shares that go to whoever comes first (Intel Xeon, 2 cores, gcc 12.2).
    run_one(0, workers);
    help();
    if (!spun(is_done, SPIN_CALLER)) {
        pthread_mutex_lock(&pool.lock);
        pool.waiting = true;
        while (!is_done()) {
            pthread_cond_wait(&pool.done, &pool.lock);
        }
        pool.waiting = false;
        pthread_mutex_unlock(&pool.lock);
    }
}

// The share of a thread of OpenMP's.
static void take_share(void *data)
{
    const job *const own = data;
    const int64_t threads = openmp.threads();
    inside = true;
    for (int64_t worker = openmp.thread(); worker < own->workers; worker += threads) {
        own->run(own->context, worker);
    }
    inside = false;
}

// Has the pool of the GNU OpenMP that the program has do the work: GOMP_parallel, omp_get_thread_num,
// omp_get_num_threads and omp_get_max_threads of one library.
void opwright_team_borrow(void *region, void *thread, void *threads, void *max_threads);

void opwright_team_borrow(void *region, void *thread, void *threads, void *max_threads)
{
    mind_forks();
    openmp.thread = (number *)thread;
    openmp.threads = (number *)threads;
    openmp.max_threads = (number *)max_threads;
    atomic_store(&openmp.region, (open_region *)region);
}

void opwright_team_run(void (*work)(void *context, int64_t worker), void *context, int64_t workers)
{
    if (workers <= 1 || workers > INT32_MAX || inside || atomic_flag_test_and_set(&pool.taken)) {
        for (int64_t worker = 0; worker < workers; ++worker) {
            work(context, worker);
        }
        return;
    }
    open_region *const region = atomic_load(&openmp.region);
    if (region != NULL) {
        job own = {work, context, workers};
        const int64_t usual = openmp.max_threads(); // a pool of another size would be made anew
        region(take_share, &own, (unsigned)(workers > usual ? workers : usual), 0);
    } else {
        share(work, context, workers);
    }
    atomic_flag_clear(&pool.taken);
}
