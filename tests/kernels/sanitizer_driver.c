// Runs kernels on calls from a file, for test_sanitizers.py. Every array has its exact size, so that the sanitizers see
// any access beside it; outputs are filled with 0xA5 first, so that a cell that no kernel writes shows.
//
// argv[1] holds calls, argv[2] takes the outputs. A call is seven numbers: which kernel, how many parts, the bytes of
// the sizes, of three inputs (-1: NULL) and of the output; then the sizes and the inputs.
// The text above this file defines `run`, which names the kernels.

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
        for (int64_t part = 0; part < head[1]; ++part) {
            run(head[0], blocks, part, head[1]);
        }
        fwrite(blocks[4], 1, bytes, answers);
        for (int i = 0; i < 5; ++i) {
            free(blocks[i]);
        }
    }
    fclose(calls);
    return fclose(answers);
}
