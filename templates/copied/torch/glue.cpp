// Calls of operators like one before, from the dispatcher's stack to the kernel without Python.
//
// In: operators that Python has registered, and of a call what Python found out: which kernels it runs, and what each of
// their arguments is, and which operators compute its gradients. Out: kernels at the places of the CPU and of autograd. A
// call that differs in nothing but the contents of its tensors gets memory for its results and runs the same kernels, and
// notes the same gradients; every other one is Python's. This is PyTorch's C++
// interface: its stable one has neither the key set of a call, nor a way to hand a call on below autograd, nor a question
// whether a tensor requires grad.

#include "reader.h"

#include <pthread.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include <ATen/EmptyTensor.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/FuncTorchTLS.h>
#include <ATen/TracerMode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/sum.h>
#include <c10/core/GradMode.h>
#include <c10/util/Exception.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

namespace {

constexpr size_t MAX_WORDS = 256;     // of the key of a call; a longer one is not remembered
constexpr size_t MAX_KNOWN = 1024;    // calls of an operator that are remembered; then all of them are forgotten
constexpr size_t MAX_ARGUMENTS = 24;  // of a kernel
constexpr size_t ALIGNMENT = 64;
constexpr int64_t KEPT = int64_t{64} << 20;  // bytes of memory between calls that a thread keeps at the most

using Stack = torch::jit::Stack;
using Kernel = c10::SafeKernelFunction;

// What an argument of a kernel is: a number or an address, the memory of a tensor of the call, that of a result, of
// something that is computed and not returned, or of a tensor of the call that is copied in another order first.
enum class Kind : int64_t { FIXED = 0, INPUT = 1, OUTPUT = 2, EXTRA = 3, COPY = 4 };

struct Argument {
    Kind kind;
    int64_t value;
};

// Memory that is copied: how its cells lie where they come from, in the order of the axes where they go to. `from` is a
// tensor of the call, or a place in memory that is not returned; `to` a result.
struct Copied {
    int64_t from;
    size_t to = 0;
    std::vector<int64_t> sizes = {}, strides = {};
};

struct Call {
    void *kernel;
    std::vector<Argument> arguments;
};

struct Result {
    c10::ScalarType dtype = c10::ScalarType::Undefined;  // of a result that the call does not have
    std::vector<int64_t> sizes = {}, strides = {};
    int64_t argument = -1;  // which is written, of a result that is an argument of the call
};

// Numbers of what Python need not keep any more.
struct Dead {
    std::vector<int64_t> numbers;
    Dead *next;
};

struct Operator;

// How the gradients of a call are computed that asks for some. Never freed, as nodes of graphs refer to it.
struct Gradients {
    // Where an argument comes from: it is a value, the gradient in an output, a tensor that is kept, or a shape that is.
    enum class From : int64_t { VALUE, SEED, KEPT, SHAPE };
    struct Part {
        From from;
        size_t place;
        c10::IValue value;
    };
    struct Backward {
        const c10::OperatorHandle *handle;
        std::vector<Part> parts;
    };
    // The gradient in an input: none, a result of an operator, or a sum over axes of the gradient in the first output.
    enum class Is : int64_t { NONE, RESULT, SUM };
    struct Found {
        Is is;
        size_t call, place;
        std::vector<int64_t> axes;
    };
    std::vector<size_t> inputs, outputs, shapes;  // of what is kept, the places among the tensors that the call has
    std::vector<size_t> seeded;                   // the outputs on which gradients depend
    std::vector<Backward> calls;
    std::vector<Found> found;
};

// The operators of one package.
struct Glue {
    std::vector<std::unique_ptr<Operator>> operators;
    std::mutex lock;
    std::atomic<bool> paused{false};
    int64_t epoch = 0;  // counts how often all calls were forgotten
    std::atomic<Dead *> dead{nullptr};
    std::vector<int64_t> left;  // of these, which only Python's own lock guards
    Glue *next = nullptr;
};
std::atomic<Glue *> glues{nullptr};

template <typename Function>
void for_each_glue(Function function) {
    for (Glue *glue = glues; glue; glue = glue->next) function(glue);
}

// What is known of a call. Without calls of kernels it is one that is left to Python.
struct Known {
    explicit Known(Glue *owner) : glue(owner) {}
    Known(const Known &) = delete;
    Known &operator=(const Known &) = delete;
    ~Known() {
        if (kept.empty()) return;
        Dead *last = new Dead{std::move(kept), glue->dead};
        while (!glue->dead.compare_exchange_weak(last->next, last)) {
        }
    }
    Glue *glue;
    std::vector<int64_t> key;
    std::vector<Call> calls;
    std::vector<Result> results;
    std::vector<Copied> copied, moved;  // before the calls, and after them
    std::vector<int64_t> kept;  // numbers of what Python keeps for it
    int64_t bytes = 0;          // of memory between steps, and of what is not returned
    int poison = -1;
    mutable std::unordered_map<uint64_t, const Gradients *> gradients;  // by the inputs that ask for some, a bit each
};

class Key {
public:
    void add(int64_t word) {
        if (count_ < MAX_WORDS) words_[count_] = word;
        ++count_;
    }
    void add(const void *data, size_t bytes) {
        add(static_cast<int64_t>(bytes));
        const char *at = static_cast<const char *>(data);
        for (size_t done = 0; done < bytes; done += sizeof(int64_t)) {
            int64_t word = 0;
            std::memcpy(&word, at + done, std::min(bytes - done, sizeof word));
            add(word);
        }
    }
    void add(c10::IntArrayRef numbers) {
        for (int64_t number : numbers) add(number);
    }
    bool fits() const { return count_ <= MAX_WORDS; }
    uint64_t hash() const {
        uint64_t hash = count_;
        for (size_t n = 0; n < count_; ++n) {
            hash = (hash ^ static_cast<uint64_t>(words_[n])) * 0x9E3779B97F4A7C15u;
            hash ^= hash >> 32;
        }
        return hash;
    }
    bool is(const std::vector<int64_t> &other) const {
        return other.size() == count_ && std::memcmp(other.data(), words_, count_ * sizeof *words_) == 0;
    }
    std::vector<int64_t> words() const { return {words_, words_ + count_}; }

private:
    int64_t words_[MAX_WORDS];
    size_t count_ = 0;
};

const c10::DispatchKeySet PLAIN =
    c10::DispatchKeySet(c10::DispatchKey::CPU) | c10::getAutogradRelatedKeySetFromBackend(c10::BackendComponent::CPUBit) |
    c10::getAutocastRelatedKeySetFromBackend(c10::BackendComponent::CPUBit) |
    c10::DispatchKeySet(c10::DispatchKey::ADInplaceOrView);

// The bytes from a tensor's first cell to the end of its last one. It is not empty.
uint64_t reach(const c10::TensorImpl *tensor) {
    int64_t last = 0;
    for (int64_t axis = 0; axis < tensor->dim(); ++axis) last += (tensor->size(axis) - 1) * tensor->stride(axis);
    return static_cast<uint64_t>(last + 1) * tensor->itemsize();
}

// Whether a tensor is nothing but dense memory of the CPU that is there, up to its last element, and aligned, as kernels
// read it: Python copies others.
bool is_plain(const at::TensorBase &tensor) {
    const c10::TensorImpl *impl = tensor.unsafeGetTensorImpl();
    const uint64_t keys = impl->key_set().raw_repr();
    if (!impl->key_set().has(c10::DispatchKey::CPU) || (keys & ~PLAIN.raw_repr()) != 0 || !impl->has_storage() ||
        impl->has_symbolic_sizes_strides() || impl->numel() <= 0) {
        return false;
    }
    if (impl->storage().nbytes() < static_cast<uint64_t>(impl->storage_offset()) * impl->itemsize() + reach(impl)) return false;
    return reinterpret_cast<uintptr_t>(tensor.const_data_ptr()) % impl->itemsize() == 0;
}

bool describe_list(const c10::IValue &value, Key &key) {
    const auto entries = value.toListRef();
    key.add(static_cast<int64_t>(entries.size()));
    for (const c10::IValue &entry : entries) {
        if (entry.isInt()) {
            key.add(entry.toInt());
        } else if (entry.isDouble()) {
            const double number = entry.toDouble();
            key.add(&number, sizeof number);
        } else if (entry.isBool()) {
            key.add(entry.toBool());
        } else {
            return false;
        }
    }
    return true;
}

// Adds to a key all that an argument is but the contents of a tensor; false where it is of a kind that is left to Python.
bool describe(const c10::IValue &value, Key &key) {
    if (value.isTensor()) {
        const at::Tensor &tensor = value.toTensor();
        if (!tensor.defined()) return key.add(8), true;
        if (!is_plain(tensor)) return false;
        key.add(1 + 16 * (static_cast<int64_t>(tensor.scalar_type()) + 256 * tensor.dim()));
        key.add(tensor.sizes());
        key.add(tensor.strides());
    } else if (value.isNone()) {
        key.add(2);
    } else if (value.isInt()) {
        key.add(3), key.add(value.toInt());
    } else if (value.isBool()) {
        key.add(4 + 16 * int64_t{value.toBool()});
    } else if (value.isDouble()) {
        const double number = value.toDouble();
        key.add(5), key.add(&number, sizeof number);
    } else if (value.isString()) {
        const std::string_view text = value.toStringView();
        key.add(6), key.add(text.data(), text.size());
    } else if (value.isIntList() || value.isDoubleList() || value.isBoolList() || value.isSymIntList()) {
        key.add(7 + 16 * (value.isDoubleList() ? 1 : value.isBoolList() ? 2 : 0));
        return describe_list(value, key);
    } else {
        return false;
    }
    return true;
}

struct Memory {  // of a thread, kept from call to call
    char *data = nullptr;
    int64_t bytes = 0;
    ~Memory() { std::free(data); }
    char *reserve(int64_t wanted) {
        if (wanted <= bytes) return data;
        std::free(data);
        bytes = 0;
        const size_t rounded = (static_cast<size_t>(wanted) + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
        data = static_cast<char *>(std::aligned_alloc(ALIGNMENT, rounded));
        bytes = data ? static_cast<int64_t>(rounded) : 0;
        return data;
    }
    void trim() {
        if (bytes > KEPT) std::free(std::exchange(data, nullptr)), bytes = 0;
    }
};
thread_local Memory memory;

template <size_t... N>
void call(void *kernel, const uintptr_t *arguments, std::index_sequence<N...>) {
    reinterpret_cast<void (*)(decltype(static_cast<void>(N), uintptr_t{})...)>(kernel)(arguments[N]...);
}

template <size_t COUNT>
void call_with(void *kernel, const uintptr_t *arguments) {
    call(kernel, arguments, std::make_index_sequence<COUNT>());
}

template <size_t... N>
void call_any(void *kernel, const uintptr_t *arguments, size_t count, std::index_sequence<N...>) {
    // Pointers and numbers of 64 bits are passed alike, so the number of arguments is all that matters.
    using Caller = void (*)(void *, const uintptr_t *);
    static constexpr Caller CALLERS[] = {call_with<N>...};
    CALLERS[count](kernel, arguments);
}

uintptr_t address(const void *data) { return reinterpret_cast<uintptr_t>(data); }

uintptr_t address(const c10::IValue &value) { return address(value.toTensor().const_data_ptr()); }

// The first byte of a tensor's cells and the one past the last.
std::pair<uintptr_t, uintptr_t> span(const at::Tensor &tensor) {
    const uintptr_t begin = address(tensor.const_data_ptr());
    return {begin, begin + reach(tensor.unsafeGetTensorImpl())};
}

// Whether the memory of an argument, which is written, may be that of another one, too.
bool is_shared(const Stack &stack, size_t first, size_t written) {
    const auto [begin, end] = span(stack[written].toTensor());
    for (size_t n = first; n < stack.size(); ++n) {
        if (n == written || !stack[n].isTensor() || !stack[n].toTensor().defined()) continue;
        const auto [other, last] = span(stack[n].toTensor());
        if (begin < last && other < end) return true;
    }
    return false;
}

// Runs a known call: false, with nothing done, where memory cannot be had or is shared.
bool run(const Known &known, Stack *stack, size_t count) {
    const size_t first = stack->size() - count;
    std::vector<at::Tensor> results, copies;
    results.reserve(known.results.size());
    char *room = nullptr;
    const at::AutoDispatchBelowADInplaceOrView plainly;  // for copies
    try {
        for (const Result &result : known.results) {
            results.emplace_back();
            if (result.argument >= 0) {
                const size_t written = first + static_cast<size_t>(result.argument);
                if (is_shared(*stack, first, written)) return false;
                results.back() = (*stack)[written].toTensor();
            } else if (result.dtype != c10::ScalarType::Undefined) {
                results.back() = at::detail::empty_strided_cpu(result.sizes, result.strides, result.dtype);
            }
        }
        for (const Copied &one : known.copied) {
            const at::Tensor &source = (*stack)[first + static_cast<size_t>(one.from)].toTensor();
            copies.push_back(at::detail::empty_cpu(one.sizes, source.options()));
            copies.back().copy_(source.as_strided(one.sizes, one.strides));
        }
    } catch (const c10::Error &) {
        return false;
    }
    if (known.bytes && !(room = memory.reserve(known.bytes))) return false;
    if (known.bytes && known.poison >= 0) std::memset(room, known.poison, static_cast<size_t>(known.bytes));
    for (const Call &one : known.calls) {
        uintptr_t arguments[MAX_ARGUMENTS];
        size_t n = 0;
        for (const Argument &argument : one.arguments) {
            switch (argument.kind) {
            case Kind::FIXED: arguments[n++] = static_cast<uintptr_t>(argument.value); break;
            case Kind::INPUT: arguments[n++] = address((*stack)[first + static_cast<size_t>(argument.value)]); break;
            case Kind::OUTPUT: {
                at::Tensor &result = results[static_cast<size_t>(argument.value)];
                arguments[n++] = address(result.numel() ? result.mutable_data_ptr() : nullptr);
                break;
            }
            case Kind::EXTRA: arguments[n++] = address(room + argument.value); break;
            case Kind::COPY: arguments[n++] = address(copies[static_cast<size_t>(argument.value)].const_data_ptr()); break;
            }
        }
        call_any(one.kernel, arguments, n, std::make_index_sequence<MAX_ARGUMENTS + 1>());
    }
    for (const Copied &one : known.moved) {
        at::Tensor &result = results[one.to];
        result.copy_(at::from_blob(room + one.from, one.sizes, one.strides, result.options()));
    }
    memory.trim();
    torch::jit::drop(*stack, count);
    for (at::Tensor &result : results) stack->emplace_back(std::move(result));
    return true;
}

// A call that Python is asked about: where its tensors are, and what Python says.
struct Asked {
    const Glue *glue;
    std::vector<uintptr_t> inputs;
    std::vector<const c10::TensorImpl *> written = {};  // by argument, one that is written, and a result
    std::vector<int64_t> answer = {}, kept = {};
    int poison = -1;
};
thread_local Asked *asked = nullptr;

// A call that Python notes the gradients of, and what it says of them.
struct Noted {
    const Glue *glue;
    std::vector<int64_t> answer = {};
};
thread_local Noted *noted = nullptr;

// Sets a variable of a thread, and back at the end.
template <typename T>
struct Within {
    T *&variable, *outer;
    Within(T *&where, T *inner) : variable(where), outer(std::exchange(where, inner)) {}
    Within(const Within &) = delete;
    Within &operator=(const Within &) = delete;
    ~Within() { variable = outer; }
};

struct Operator {
    Operator(Glue *owner, const c10::OperatorHandle &its)
        : glue(owner), handle(its), count(handle.schema().arguments().size()) {
        while (inputs < count && !handle.schema().arguments()[inputs].kwarg_only()) ++inputs;
    }
    Glue *glue;
    c10::OperatorHandle handle;
    size_t count;                          // of arguments
    size_t inputs = 0;                     // of these, which stand first
    std::shared_ptr<Kernel> on_cpu;        // Python's; another one whenever the operator's place is taken
    std::shared_ptr<Kernel> autograd;      // never another one
    std::unordered_map<uint64_t, std::shared_ptr<const Known>> known;  // by the hash of their keys
    std::atomic<int64_t> hits{0};
    std::vector<std::unique_ptr<torch::Library>> registered;
    std::map<std::vector<int64_t>, std::unique_ptr<const Gradients>> gradients;  // by what Python said, and the attributes

    bool is_written(size_t argument) const {
        const c10::AliasInfo *alias = handle.schema().arguments()[argument].alias_info();
        return alias && alias->isWrite();
    }
    bool describe_call(const Stack &stack, Key &key) const;
    std::shared_ptr<const Known> find(const Key &key) const;
    const Gradients *keep(const std::vector<int64_t> &words, const Stack &arguments);
    void record(c10::DispatchKeySet keys, c10::DispatchKeySet below, Stack *stack, uint64_t asking);
    void compute(const c10::OperatorHandle &handle, c10::DispatchKeySet keys, Stack *stack);
    void hand_on(const c10::OperatorHandle &handle, c10::DispatchKeySet keys, Stack *stack);
    std::shared_ptr<Known> ask(const c10::OperatorHandle &handle, c10::DispatchKeySet keys, Stack *stack);
};

// What Python said of a call, as it may be done again; false where it cannot be.
bool understand(Known &known, const Asked &told, const Stack &stack, size_t count) {
    const int64_t *at = told.answer.data(), *end = at + told.answer.size();
    std::vector<const at::Tensor *> results;
    std::vector<bool> written;
    std::vector<std::pair<uintptr_t, int64_t>> extra;  // memory that is not returned: where it was, and where it will be
    auto sized = [&at](Copied &one) {
        const int64_t axes = *at++;
        one.sizes.assign(at, at + axes), one.strides.assign(at + axes, at + 2 * axes);
        at += 2 * axes;
    };
    auto result_at = [&](uintptr_t place) {
        size_t found = 0;
        while (found < results.size() && (written[found] || address(results[found]->const_data_ptr()) != place)) ++found;
        return found;
    };
    for (size_t n = stack.size() - count; n < stack.size(); ++n) {
        if (stack[n].isNone() || (stack[n].isTensor() && !stack[n].toTensor().defined())) {
            results.push_back(nullptr);
            written.push_back(true);
            known.results.emplace_back();
            continue;
        }
        if (!stack[n].isTensor() || !stack[n].toTensor().has_storage()) return false;
        const at::Tensor &result = stack[n].toTensor();
        results.push_back(&result);
        written.push_back(result.numel() == 0);
        known.results.push_back({result.scalar_type(), result.sizes().vec(), result.strides().vec()});
        const auto own = std::find(told.written.begin(), told.written.end(), result.unsafeGetTensorImpl());
        if (own != told.written.end()) known.results.back().argument = own - told.written.begin();
    }
    while (at < end) {
        if (!*at) {
            Copied one{0, result_at(static_cast<uintptr_t>(at[2]))};
            const uintptr_t from = static_cast<uintptr_t>(at[1]);
            const auto last = std::find_if(extra.rbegin(), extra.rend(), [&](const auto &other) { return other.first == from; });
            if (one.to == results.size() || last == extra.rend()) return false;
            written[one.to] = true;
            one.from = last->second;
            at += 3;
            sized(one);
            known.moved.push_back(std::move(one));
            continue;
        }
        Call one{reinterpret_cast<void *>(static_cast<uintptr_t>(at[0])), {}};
        const int64_t number = at[1];
        if (number > static_cast<int64_t>(MAX_ARGUMENTS)) return false;
        at += 2;
        for (int64_t n = 0; n < number; ++n) {
            Argument argument{static_cast<Kind>(at[0]), at[1]};
            const int64_t value = at[1];
            const uintptr_t place = static_cast<uintptr_t>(at[2]);
            at += 3;
            if (argument.kind == Kind::COPY) {
                argument.value = static_cast<int64_t>(known.copied.size());
                known.copied.push_back({value});
                sized(known.copied.back());
            }
            const bool taken = argument.kind == Kind::INPUT || argument.kind == Kind::COPY;
            if (taken && told.inputs[static_cast<size_t>(value)] != place) return false;
            if (argument.kind == Kind::OUTPUT) {
                const size_t found = result_at(place);
                if (found < results.size()) {
                    written[found] = true;
                    argument.value = static_cast<int64_t>(found);
                } else {
                    argument.kind = Kind::EXTRA;
                }
            }
            if (argument.kind == Kind::EXTRA) {
                argument.value = known.bytes;
                extra.emplace_back(place, known.bytes);
                known.bytes += (value + int64_t{ALIGNMENT} - 1) / int64_t{ALIGNMENT} * int64_t{ALIGNMENT};
            }
            one.arguments.push_back(argument);
        }
        known.calls.push_back(std::move(one));
    }
    if (std::find(written.begin(), written.end(), false) != written.end()) return false;
    known.kept = told.kept;
    known.poison = told.poison;
    return true;
}

void Operator::hand_on(const c10::OperatorHandle &handle, c10::DispatchKeySet keys, Stack *stack) {
    std::shared_ptr<Kernel> kernel;
    {
        const std::lock_guard<std::mutex> guard(glue->lock);
        kernel = on_cpu;
    }
    kernel->callBoxed(handle, keys, stack);
}

// Has Python compute a call, and gives what it said of it.
std::shared_ptr<Known> Operator::ask(const c10::OperatorHandle &handle, c10::DispatchKeySet keys, Stack *stack) {
    Asked own{glue, {}};
    for (size_t n = stack->size() - count; n < stack->size(); ++n) {
        const c10::IValue &input = (*stack)[n];
        const bool tensor = input.isTensor() && input.toTensor().defined();
        own.inputs.push_back(tensor ? address(input) : 0);
        own.written.push_back(tensor && is_written(own.inputs.size() - 1) ? input.toTensor().unsafeGetTensorImpl() : nullptr);
    }
    const Within<Asked> within(asked, &own);
    const size_t below = stack->size() - count;
    hand_on(handle, keys, stack);
    auto found = std::make_shared<Known>(glue);
    if (own.answer.empty() || !understand(*found, own, *stack, stack->size() - below)) {
        found = std::make_shared<Known>(glue);
        found->kept = own.kept;
    }
    return found;
}

bool Operator::describe_call(const Stack &stack, Key &key) const {
    // TorchScript's tracer has seen most operators here; the others are still to be seen by it.
    if (glue->paused.load(std::memory_order_relaxed) || at::tracer::impl::is_dispatch_enabled()) return false;
    for (size_t n = stack.size() - count; n < stack.size(); ++n) {
        if (!describe(stack[n], key)) return false;
    }
    return key.fits();
}

// What is known under the hash of a key, for the holder of the lock.
std::shared_ptr<const Known> Operator::find(const Key &key) const {
    const auto at = known.find(key.hash());
    return at == known.end() ? nullptr : at->second;
}

void Operator::compute(const c10::OperatorHandle &handle, c10::DispatchKeySet keys, Stack *stack) {
    Key key;
    if (!describe_call(*stack, key)) return hand_on(handle, keys, stack);
    std::shared_ptr<const Known> found;
    int64_t epoch = 0;
    {
        const std::lock_guard<std::mutex> guard(glue->lock);
        found = find(key);
        epoch = glue->epoch;
    }
    if (!found) {
        const std::shared_ptr<Known> made = ask(handle, keys, stack);
        made->key = key.words();
        const std::lock_guard<std::mutex> guard(glue->lock);
        if (known.size() >= MAX_KNOWN) known.clear();
        if (epoch == glue->epoch) known.emplace(key.hash(), made);
        return;
    }
    if (!found->calls.empty() && key.is(found->key) && run(*found, stack, count)) {
        hits.fetch_add(1, std::memory_order_relaxed);
        return;
    }
    hand_on(handle, keys, stack);
}

// A known call and its node in the graph of autograd: puts its results on the stack, and returns those that have it.
// The address of what is known of gradients stands in the context as a number, which compiled autograd takes for a
// constant.
struct Recorded final : torch::autograd::Function<Recorded> {
    using List = torch::autograd::variable_list;

    static List forward(
        torch::autograd::AutogradContext *context, Operator *own, const Known *known, const Gradients *how,
        c10::DispatchKeySet below, Stack *stack, at::TensorList inputs) {
        const size_t first = stack->size() - own->count;
        if (run(*known, stack, own->count)) {
            own->hits.fetch_add(1, std::memory_order_relaxed);
        } else {
            own->hand_on(own->handle, below, stack);
        }
        List seeded, kept;
        for (const size_t n : how->seeded) seeded.push_back((*stack)[first + n].toTensor());
        for (const size_t n : how->inputs) kept.push_back(inputs[n]);
        for (const size_t n : how->outputs) kept.push_back((*stack)[first + n].toTensor());
        context->saved_data["how"] = static_cast<int64_t>(reinterpret_cast<intptr_t>(how));
        for (const size_t n : how->shapes) context->saved_data[std::to_string(n)] = inputs[n].sizes();
        context->save_for_backward(std::move(kept));
        return seeded;
    }

    static List backward(torch::autograd::AutogradContext *context, const List &seeds) {
        const auto &how = *reinterpret_cast<const Gradients *>(static_cast<intptr_t>(context->saved_data["how"].toInt()));
        const List kept = context->get_saved_variables();
        std::vector<Stack> made(how.calls.size());
        List found(how.found.size() + BESIDES);
        for (size_t n = 0; n < how.found.size(); ++n) {
            const Gradients::Found &one = how.found[n];
            if (one.is == Gradients::Is::NONE || !context->needs_input_grad(n)) continue;
            if (one.is == Gradients::Is::SUM) {
                found[n + BESIDES] = at::sum(seeds[0], one.axes);
                continue;
            }
            if (made[one.call].empty()) made[one.call] = compute(*context, how.calls[one.call], seeds, kept);
            found[n + BESIDES] = made[one.call][one.place].toTensor();
        }
        return found;
    }

private:
    static constexpr size_t BESIDES = 5;  // arguments of forward before the inputs

    static Stack compute(
        torch::autograd::AutogradContext &context, const Gradients::Backward &backward, const List &seeds, const List &kept) {
        Stack stack;
        for (const Gradients::Part &part : backward.parts) {
            switch (part.from) {
            case Gradients::From::VALUE: stack.push_back(part.value); break;
            case Gradients::From::SEED: stack.emplace_back(seeds[part.place]); break;
            case Gradients::From::KEPT: stack.emplace_back(kept[part.place]); break;
            case Gradients::From::SHAPE: stack.push_back(context.saved_data[std::to_string(part.place)]); break;
            }
        }
        backward.handle->callBoxed(&stack);
        return stack;
    }
};

// What Python said of gradients, of a call with these arguments.
const Gradients *Operator::keep(const std::vector<int64_t> &words, const Stack &arguments) {
    Key key;
    for (size_t n = inputs; n < count; ++n) (void)describe(arguments[n], key);
    std::vector<int64_t> name = key.words();
    name.insert(name.end(), words.begin(), words.end());
    std::unique_ptr<const Gradients> &place = gradients[name];
    if (place) return place.get();
    auto made = std::make_unique<Gradients>();
    auto next = [at = words.begin()]() mutable { return static_cast<size_t>(*at++); };
    for (std::vector<size_t> *places : {&made->inputs, &made->outputs, &made->shapes, &made->seeded}) {
        places->resize(next());
        for (size_t &one : *places) one = next();
    }
    made->calls.resize(next());
    for (Gradients::Backward &one : made->calls) {
        one.handle = &reinterpret_cast<const Operator *>(next())->handle;
        for (const c10::Argument &argument : one.handle->schema().arguments()) {
            enum Said : size_t { ABSENT, SEED, KEPT, SHAPE, ATTRIBUTE, DEFAULT };
            const size_t said = next(), value = next();
            Gradients::Part part{Gradients::From::VALUE, value, {}};
            if (said == SEED) part.from = Gradients::From::SEED;
            if (said == KEPT) part.from = Gradients::From::KEPT;
            if (said == SHAPE) part.from = Gradients::From::SHAPE;
            if (said == ATTRIBUTE) part.value = arguments[inputs + value];
            if (said == DEFAULT) part.value = *argument.default_value();
            one.parts.push_back(std::move(part));
        }
    }
    made->found.resize(next());
    for (Gradients::Found &one : made->found) {
        one.is = static_cast<Gradients::Is>(next());
        if (one.is == Gradients::Is::RESULT) one.call = next(), one.place = next();
        if (one.is == Gradients::Is::SUM) {
            one.axes.resize(next());
            for (int64_t &axis : one.axes) axis = static_cast<int64_t>(next());
        }
    }
    place = std::move(made);
    return place.get();
}

bool is_transformed() {  // by functorch, which takes Functions of Python alone
    const auto &transforms = at::functorch::functorchTLSAccessor();
    if (!transforms) return false;
    try {
        transforms->checkSupportsCppAutogradFunction();
    } catch (const c10::Error &) {
        return true;
    }
    return false;
}

// A call that asks for gradients in some inputs.
void Operator::record(c10::DispatchKeySet keys, c10::DispatchKeySet below, Stack *stack, uint64_t asking) {
    Key key;
    const size_t first = stack->size() - count;
    if (!asking || is_transformed() || !describe_call(*stack, key)) return autograd->callBoxed(handle, keys, stack);
    std::shared_ptr<const Known> found;
    const Gradients *how = nullptr;
    {
        const std::lock_guard<std::mutex> guard(glue->lock);
        found = find(key);
        if (found && key.is(found->key)) {
            const auto at = found->gradients.find(asking);
            if (at != found->gradients.end()) how = at->second;
        }
    }
    if (how) {
        c10::SmallVector<at::Tensor, 8> tensors;  // those that the call has
        for (size_t n = first; n < first + inputs; ++n) {
            if ((*stack)[n].isTensor() && (*stack)[n].toTensor().defined()) tensors.push_back((*stack)[n].toTensor());
        }
        Recorded::List made = Recorded::apply(this, found.get(), how, below, stack, at::TensorList(tensors));
        for (size_t n = 0; n < made.size(); ++n) (*stack)[first + how->seeded[n]] = std::move(made[n]);
        return;
    }
    const Stack arguments(stack->begin() + static_cast<Stack::difference_type>(first), stack->end());
    Noted own{glue};
    {
        const Within<Noted> within(noted, &own);
        autograd->callBoxed(handle, keys, stack);
    }
    if (own.answer.empty()) return;
    const std::lock_guard<std::mutex> guard(glue->lock);
    found = find(key);
    if (found && !found->calls.empty() && key.is(found->key)) found->gradients[asking] = keep(own.answer, arguments);
}

struct OnCpu final : c10::OperatorKernel {
    explicit OnCpu(Operator *own) : own(own) {}
    void operator()(const c10::OperatorHandle &handle, c10::DispatchKeySet keys, Stack *stack) {
        own->compute(handle, keys, stack);
    }
    Operator *own;
};

// Which of the first arguments ask for gradients, a bit each; 0 where one does that is not among the first 64, or in a
// list, or for a derivative of forward mode.
struct Asking {
    bool any = false;
    uint64_t bits = 0;
};

Asking asking_of(const Stack &stack, size_t count) {
    const bool recording = c10::GradMode::is_enabled();
    Asking found;
    bool odd = false;
    auto look = [&](const at::TensorBase &tensor, size_t n) {
        if (!tensor.defined() || !tensor.unsafeGetTensorImpl()->autograd_meta()) return;
        const bool forward = tensor._fw_grad(0).defined();
        if (!forward && !(recording && tensor.requires_grad())) return;
        found.any = true;
        odd = odd || forward || n >= 64;
        if (n < 64) found.bits |= uint64_t{1} << n;
    };
    for (size_t n = 0; n < count; ++n) {
        const c10::IValue &value = stack[stack.size() - count + n];
        if (value.isTensor()) {
            look(value.toTensor(), n);
        } else if (value.isList()) {
            for (const c10::IValue &entry : value.toListRef()) {
                if (entry.isTensor()) look(entry.toTensor(), 64);
            }
        }
    }
    if (odd) found.bits = 0;
    return found;
}

// At the place of autograd: straight on where nothing asks for it and nothing but the CPU comes after it.
struct AtAutograd final : c10::OperatorKernel {
    explicit AtAutograd(Operator *own) : own(own) {}
    void operator()(const c10::OperatorHandle &handle, c10::DispatchKeySet keys, Stack *stack) {
        const c10::DispatchKeySet below = keys & c10::after_ADInplaceOrView_keyset;
        if (below.highestPriorityTypeId() != c10::DispatchKey::CPU) return own->autograd->callBoxed(handle, keys, stack);
        const Asking asking = asking_of(*stack, own->count);
        if (asking.any) {
            own->record(keys, below, stack, asking.bits);
        } else {
            own->compute(handle, below, stack);
        }
    }
    Operator *own;
};

// PyTorch warns of every kernel that takes the place of another, as these are meant to.
struct Silent final : c10::WarningHandler {
    void process(const c10::Warning &) override {}
};

void put(Operator &own, const std::string &space, const char *name, c10::DispatchKey key, c10::BoxedKernel kernel) {
    Silent silent;
    const c10::WarningUtils::WarningHandlerGuard guard(&silent);
    own.registered.push_back(
        std::make_unique<torch::Library>(torch::Library::IMPL, space, key, __FILE__, static_cast<uint32_t>(__LINE__)));
    own.registered.back()->impl(name, torch::CppFunction::makeFromBoxedKernel(std::move(kernel)));
}

}  // namespace

#define PUBLIC extern "C" __attribute__((visibility("default")))

PUBLIC void *opwright_torch_new(void) {
    static const int forking = pthread_atfork(
        [] { for_each_glue([](Glue *glue) { glue->lock.lock(); }); },
        [] { for_each_glue([](Glue *glue) { glue->lock.unlock(); }); },
        [] { for_each_glue([](Glue *glue) { glue->lock.unlock(); }); });
    (void)forking;
    Glue *made = new Glue;
    made->next = glues;
    while (!glues.compare_exchange_weak(made->next, made)) {
    }
    return made;
}

// Takes the places of the kernels of an operator, which must be Python's. `known` is what an earlier call gave for it, or
// NULL. NULL where that cannot be done.
PUBLIC void *opwright_torch_add(
    void *glue, void *known, const char *space, const char *name, const char *overload, int autograd) {
    try {
        const std::string full = std::string(space) + "::" + name;
        const std::string own_name = std::string(name) + (*overload ? std::string(".") + overload : "");
        const c10::OperatorHandle handle = c10::Dispatcher::singleton().findSchemaOrThrow(full.c_str(), overload);
        Glue *owner = static_cast<Glue *>(glue);
        Operator *own = static_cast<Operator *>(known);
        auto kernel = [&](c10::DispatchKey key) { return std::make_shared<Kernel>(handle.getComputedKernelForDispatchKey(key)); };
        {
            auto on_cpu = kernel(c10::DispatchKey::CPU);
            auto at_autograd = autograd ? kernel(c10::DispatchKey::AutogradCPU) : nullptr;
            const std::lock_guard<std::mutex> guard(owner->lock);
            if (!own) {
                owner->operators.push_back(std::make_unique<Operator>(owner, handle));
                own = owner->operators.back().get();
            }
            own->on_cpu = std::move(on_cpu);
            own->autograd = std::move(at_autograd);
        }
        put(*own, space, own_name.c_str(), c10::DispatchKey::CPU,
            c10::BoxedKernel::makeFromFunctor(std::make_unique<OnCpu>(own)));
        if (autograd) {
            put(*own, space, own_name.c_str(), c10::DispatchKey::AutogradCPU,
                c10::BoxedKernel::makeFromFunctor(std::make_unique<AtAutograd>(own)));
        }
        return own;
    } catch (const std::exception &) {
        return nullptr;
    }
}

// Gives the places back; the operator stays, for calls that still run.
PUBLIC void opwright_torch_remove(void *known) { static_cast<Operator *>(known)->registered.clear(); }

// An object of Python for the place of `general`, the function that torch.ops calls for an operator; NULL where it stays.
// `memory` is what PyTorch says that `tensor` refers to, `wrap` and `translate` are functions of libtorch_python.
PUBLIC void *opwright_torch_reader(
    void *known, void *general, void *tensor, void *memory, void *parameter, void *wrap, void *translate) {
#ifdef OPWRIGHT_READER
    const PyGILState_STATE state = PyGILState_Ensure();
    reader::wrap = reinterpret_cast<decltype(reader::wrap)>(wrap);
    reader::translate = reinterpret_cast<decltype(reader::translate)>(translate);
    const auto object = [](void *address) { return static_cast<PyObject *>(address); };
    void *const made = reader::made(
        static_cast<Operator *>(known)->handle, object(general), object(tensor), memory, object(parameter));
    PyGILState_Release(state);
    return made;
#else
    return nullptr;
#endif
}

PUBLIC int64_t opwright_torch_hits(void *known) { return static_cast<Operator *>(known)->hits.exchange(0); }

// Whether the calling thread is within a call that Python is asked about.
PUBLIC int opwright_torch_asked(void *glue) { return asked && asked->glue == glue; }

// What Python says of a call: of each kernel its address and the number of its arguments, and of each argument its kind,
// its value (of memory that is not the call's, its bytes) and its address, and of a copy how the cells lie: the number of
// axes, their extents and their strides. `number` is that of what Python keeps for it.
PUBLIC void opwright_torch_tell(void *glue, const int64_t *words, int64_t count, int64_t number, int poison) {
    if (asked && asked->glue == glue) {
        asked->answer.insert(asked->answer.end(), words, words + count);
        asked->kept.push_back(number);
        asked->poison = poison;
    }
}

// That Python has copied what a kernel wrote to a result: 0, both addresses, and how the cells lie that it wrote.
PUBLIC void opwright_torch_moved(void *glue, const int64_t *words, int64_t count) {
    if (asked && asked->glue == glue) asked->answer.insert(asked->answer.end(), words, words + count);
}

// Whether the calling thread is within a call whose gradients Python is asked about.
PUBLIC int opwright_torch_noting(void *glue) { return noted && noted->glue == glue; }

// What Python says of the gradients of a call: the places of inputs, outputs and shapes that are kept, and of outputs
// on which gradients depend, then of each operator its address and where its arguments come from, then of each tensor
// that the call has where its gradient is found.
PUBLIC void opwright_torch_note(void *glue, const int64_t *words, int64_t count) {
    if (noted && noted->glue == glue) noted->answer.assign(words, words + count);
}

// The numbers of what Python need not keep any more, one after the other, and at the end -1.
PUBLIC int64_t opwright_torch_dead(void *glue) {
    Glue *own = static_cast<Glue *>(glue);
    if (own->left.empty()) {
        for (Dead *one = own->dead.exchange(nullptr); one;) {
            own->left.insert(own->left.end(), one->numbers.begin(), one->numbers.end());
            delete std::exchange(one, one->next);
        }
    }
    if (own->left.empty()) return -1;
    const int64_t number = own->left.back();
    own->left.pop_back();
    return number;
}

// Forgets all calls. While it is paused, every call is Python's.
PUBLIC void opwright_torch_forget(void *glue, int paused) {
    Glue *own = static_cast<Glue *>(glue);
    const std::lock_guard<std::mutex> guard(own->lock);
    own->paused = paused != 0;
    ++own->epoch;
    for (const auto &one : own->operators) one->known.clear();
}
