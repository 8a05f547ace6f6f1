// The package's own pool of POSIX threads (c/engine/team.c), for any number of workers and callers: a team is
// `{opwright_team_run, 4}`.

#ifndef OPWRIGHT_POOL_H
#define OPWRIGHT_POOL_H

#include "opwright_team.h"

#if defined(__cplusplus)
extern "C" {
#endif

opwright_team_function opwright_team_run;

#if defined(__cplusplus)
}
#endif

#endif
