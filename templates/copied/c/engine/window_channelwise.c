// Windows of contractions: all three solves of groups with one channel on either side.

#include "window.h"

static int64_t solve_scratch(const opwright_window *w, const opwright_problem *p, int64_t workers) {
    if (w->solve == SOLVE_W)
        return OPWRIGHT_NAME(channelwise_w_scratch)(p, workers);
    return w->solve == SOLVE_X ? OPWRIGHT_NAME(channelwise_x_scratch)(p, workers) : OPWRIGHT_NAME(channelwise_y_scratch)(p, workers);
}

static void solve_window(const opwright_window *w, const opwright_problem *p, const elem *first, const elem *second, sum_cell *out,
                         const opwright_team *team, void *scratch) {
    if (w->solve == SOLVE_X)
        OPWRIGHT_NAME(channelwise_x)(p, first, second, NULL, out, team, scratch);
    else if (w->solve == SOLVE_Y)
        OPWRIGHT_NAME(channelwise_y)(p, first, second, NULL, out, team, scratch);
    else
        OPWRIGHT_NAME(channelwise_w)(p, first, second, out, team, scratch);
}

int64_t OPWRIGHT_NAME(window_scratch)(const void *problem, int64_t workers) { return windows_scratch(problem, workers); }

void OPWRIGHT_NAME(window)(const void *problem, const void *left, const void *right, void *out, opwright_finish *finish,
                             const void *context, const opwright_team *team, void *scratch) {
    solve_windows(problem, left, right, out, finish, context, team, scratch);
}
