// Threads that work on one call together.
//
// A kernel takes a team as a pointer, so it is not tied to a pool: bring your own, pass NULL for none, or use that
// of opwright_pool.h.

#ifndef OPWRIGHT_TEAM_H
#define OPWRIGHT_TEAM_H

#include <stdint.h>

#if defined(__cplusplus)
extern "C" {
#endif

// Runs work(context, worker) once for each worker in [0, workers), in parallel if possible, and returns when all
// have returned. Workers share tasks among themselves; no result depends on their number.
typedef void opwright_team_function(void (*work)(void *context, int64_t worker), void *context, int64_t workers);

typedef struct opwright_team {
    opwright_team_function *run;
    int64_t workers;
} opwright_team;

// The arguments of a kernel of steps after its arrays: their sizes, the first phase and the one after the last, a team,
// scratch.
#define OPWRIGHT_STEP_PARAMETERS(sizes) \
    const sizes *sizes_, int64_t first_, int64_t last_, const opwright_team *team_, void *scratch_

#if defined(__cplusplus)
}
#endif

#endif
