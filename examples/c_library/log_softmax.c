// LogSoftmax through the exported C library: shapes, workspace, the call, and what a refusal says.
//
// examples/README.md says how to build it.

#include <opwright_operations.h>

#include <stdio.h>
#include <stdlib.h>

int main(void)
{
    const float numbers[2][3] = {{0, 0, 0}, {1, 2, 3}};
    float logarithms[2][3];
    const int64_t shape[2] = {2, 3};
    opwright_tensor src = {(void *)numbers, OPWRIGHT_F32, 2, shape, NULL};
    opwright_tensor dst = {logarithms, OPWRIGHT_F32, 2, shape, NULL};
    opwright_log_softmax_call call = OPWRIGHT_LOG_SOFTMAX_DEFAULTS;
    opwright_run run = {NULL, 0, NULL, 1};
    opwright_memory memory;
    opwright_error error;

    call.src = &src;
    call.dst = &dst;
    if (opwright_log_softmax_workspace(&call, &run, &memory, &error) != OPWRIGHT_OK) {
        fprintf(stderr, "%s\n", error.message);
        return 1;
    }
    if (memory.bytes > 0) { // a multiple of the alignment, as aligned_alloc wants it
        run.workspace = aligned_alloc(memory.alignment, memory.bytes);
        run.workspace_bytes = memory.bytes;
    }
    if (opwright_log_softmax(&call, &run, &error) != OPWRIGHT_OK) {
        fprintf(stderr, "%s\n", error.message);
        free(run.workspace);
        return 1;
    }
    for (int row = 0; row < 2; ++row) {
        printf("%.4f %.4f %.4f\n", (double)logarithms[row][0], (double)logarithms[row][1], (double)logarithms[row][2]);
    }
    call.axis = 2;
    if (opwright_log_softmax(&call, &run, &error) == OPWRIGHT_REFUSED) {
        printf("%s\n", error.message);
    }
    free(run.workspace);
    return 0;
}
