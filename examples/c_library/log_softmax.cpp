// LogSoftmax through the exported C library from C++, on threads of the caller's own.
//
// examples/README.md says how to build it.

#include <opwright_operations.h>

#include <cstdio>
#include <stdexcept>
#include <thread>
#include <vector>

// A team: every worker on a thread of its own.
static void run_workers(void (*work)(void *, int64_t), void *context, int64_t workers)
{
    std::vector<std::thread> others;
    for (int64_t worker = 1; worker < workers; ++worker) {
        others.emplace_back(work, context, worker);
    }
    work(context, 0);
    for (std::thread &other : others) {
        other.join();
    }
}

static void log_softmax(const std::vector<float> &from, std::vector<float> &to, int64_t rows, int64_t columns)
{
    const int64_t shape[] = {rows, columns};
    const opwright_tensor src = {const_cast<float *>(from.data()), OPWRIGHT_F32, 2, shape, nullptr};
    const opwright_tensor dst = {to.data(), OPWRIGHT_F32, 2, shape, nullptr};
    const opwright_team team = {run_workers, 2};
    opwright_log_softmax_call call = OPWRIGHT_LOG_SOFTMAX_DEFAULTS;
    opwright_run run = {nullptr, 0, &team, 0};
    opwright_memory memory;
    opwright_error error;
    call.src = &src;
    call.dst = &dst;
    if (opwright_log_softmax_workspace(&call, &run, &memory, &error) != OPWRIGHT_OK) {
        throw std::invalid_argument(error.message);
    }
    std::vector<unsigned char> room(memory.bytes + memory.alignment);
    const auto address = reinterpret_cast<uintptr_t>(room.data());
    run.workspace = room.data() + (memory.alignment - address % memory.alignment) % memory.alignment;
    run.workspace_bytes = memory.bytes;
    if (opwright_log_softmax(&call, &run, &error) != OPWRIGHT_OK) {
        throw std::invalid_argument(error.message);
    }
}

int main()
{
    const std::vector<float> numbers = {0, 0, 0, 0, 1, 2, 3, 4};
    std::vector<float> logarithms(numbers.size());
    log_softmax(numbers, logarithms, 2, 4);
    std::printf("%.4f %.4f\n", static_cast<double>(logarithms[0]), static_cast<double>(logarithms[7]));
    return 0;
}
