// The instruction sets of this CPU, and the best one that a kernel was compiled for.

#define _GNU_SOURCE
#include "operation.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#if defined(__x86_64__)
#include <cpuid.h>
#if defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif

// The CPUID bit of a feature: leaf 1, 7 or 0x80000001, register (0 eax to 3 edx), bit.
static const struct feature {
    const char *name;
    unsigned leaf, subleaf, word, bit;
} FEATURES[] = {
    {"cx16", 1, 0, 2, 13},      {"popcnt", 1, 0, 2, 23},    {"pni", 1, 0, 2, 0},        {"sse4_1", 1, 0, 2, 19},
    {"sse4_2", 1, 0, 2, 20},    {"ssse3", 1, 0, 2, 9},      {"avx", 1, 0, 2, 28},       {"f16c", 1, 0, 2, 29},
    {"fma", 1, 0, 2, 12},       {"movbe", 1, 0, 2, 22},     {"xsave", 1, 0, 2, 26},     {"avx2", 7, 0, 1, 5},
    {"bmi1", 7, 0, 1, 3},       {"bmi2", 7, 0, 1, 8},       {"avx512f", 7, 0, 1, 16},   {"avx512dq", 7, 0, 1, 17},
    {"avx512cd", 7, 0, 1, 28},  {"avx512bw", 7, 0, 1, 30},  {"avx512vl", 7, 0, 1, 31},  {"avx512_vnni", 7, 0, 2, 11},
    {"avx512_bf16", 7, 1, 0, 5}, {"amx_bf16", 7, 0, 3, 22}, {"amx_tile", 7, 0, 3, 24},    {"amx_int8", 7, 0, 3, 25},
    {"abm", 0x80000001, 0, 2, 5}, {"lahf_lm", 0x80000001, 0, 2, 0},
};

// The registers that the system saves: bit 2 those of AVX, bits 5 to 7 those of AVX-512, bits 17 and 18 those of AMX.
static unsigned saved(void)
{
    unsigned a = 0, b = 0, c = 0, d = 0;
    if (__get_cpuid(1, &a, &b, &c, &d) == 0 || (c >> 27 & 1) == 0) {
        return 0;
    }
    __asm__ volatile("xgetbv" : "=a"(a), "=d"(d) : "c"(0));
    return a;
}

// Asks for the matrix registers, which a process may use only once it has asked.
static bool matrix_registers(void)
{
#if defined(__linux__)
    const long request = 0x1023, data = 18; // asm/prctl.h: ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA
    return syscall(SYS_arch_prctl, request, data) == 0;
#else
    return false;
#endif
}

static bool has_feature(const char *name, size_t length)
{
    const bool matrix = memcmp(name, "amx", 3) == 0;
    const unsigned wanted = matrix ? 0x60000 : length >= 6 && memcmp(name, "avx512", 6) == 0 ? 0xE6 : 0x6;
    for (size_t n = 0; n < sizeof FEATURES / sizeof *FEATURES; ++n) {
        const struct feature *const one = &FEATURES[n];
        if (strlen(one->name) == length && memcmp(one->name, name, length) == 0) {
            unsigned words[4] = {0, 0, 0, 0};
            const int known =
                __get_cpuid_count(one->leaf, one->subleaf, &words[0], &words[1], &words[2], &words[3]);
            const bool vectors = matrix || memcmp(name, "avx", 3) == 0;
            return known != 0 && (words[one->word] >> one->bit & 1) != 0 &&
                   (!vectors || (saved() & wanted) == wanted) && (!matrix || matrix_registers());
        }
    }
    return false;
}
#else
static bool has_feature(const char *name, size_t length)
{
#if defined(__aarch64__)
    return length == 5 && memcmp(name, "asimd", length) == 0;
#else
    (void)name;
    (void)length;
    return false;
#endif
}
#endif

static bool has_all(const char *needs)
{
    while (*needs != 0) {
        const size_t length = strcspn(needs, " ");
        if (!has_feature(needs, length)) {
            return false;
        }
        needs += length + strspn(needs + length, " ");
    }
    return true;
}

// A bit for each instruction set that may be chosen, and the highest bit where that is not known; 0: OPWRIGHT_ISA names
// none.
static unsigned allowed(void)
{
    static _Atomic unsigned known = 1U << 31;
    unsigned found = atomic_load(&known);
    if (found == 1U << 31) {
        const char *const cap = getenv("OPWRIGHT_ISA");
        found = 0;
        for (unsigned n = 0; n < OPWRIGHT_ISAS; ++n) {
            found |= (unsigned)has_all(opw_isas[n].needs) << n;
            if (cap != NULL && strcmp(cap, opw_isas[n].name) == 0) {
                break;
            }
            found = n + 1 == OPWRIGHT_ISAS && cap != NULL && cap[0] != 0 ? 0 : found;
        }
        atomic_store(&known, found);
    }
    return found;
}

int64_t opw_best(opw_function *const functions[OPWRIGHT_ISAS])
{
    const unsigned found = allowed();
    for (int64_t n = OPWRIGHT_ISAS - 1; n >= 0; --n) {
        if (functions[n] != NULL && (found >> n & 1) != 0) {
            return n;
        }
    }
    return -1;
}
