// Calls of operators from Python, their arguments read without PyTorch's reader where all of them are plain.
//
// In: the function that an operator of torch.ops calls. Out: an object for its place, which reads tensors, numbers, texts
// and lists of integers, and hands every other call to that function. PyTorch's reader asks a dict for each keyword
// twice, by text that it makes anew: of the 6.2 us of a convolution of 64 cells it takes 4.5 (AMD Zen 5, Python 3.11,
// PyTorch 2.13).

#ifdef OPWRIGHT_READER
#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030A0000
#include <Python.h>

#include <exception>
#include <vector>

#include <ATen/PythonTorchFunctionTLS.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>

namespace reader {

// Functions of libtorch_python, whose headers take seconds to compile: what makes a tensor one of Python, and an exception.
PyObject *(*wrap)(const at::TensorBase &);
void (*translate)(const std::exception_ptr &);

using Stack = std::vector<c10::IValue>;

enum class Kind { TENSOR, INT, INTS, REAL, TRUTH, TEXT, OTHER };

struct Argument {
    PyObject *name;
    Kind kind;
    bool optional, named;  // by keyword alone
    std::optional<c10::IValue> otherwise;  // where it is left out
};

// A tensor of Python up to its first member.
struct Tensor {
    PyObject_HEAD
    at::Tensor tensor;
};

PyTypeObject *classes[2];  // torch.Tensor and torch.nn.Parameter, which are read; others may have a meaning of their own

struct Reader {
    PyObject_HEAD
    const c10::OperatorHandle *handle;
    std::vector<Argument> *arguments;
    PyObject *general;
};

Kind kind_of(const c10::Type &type) {
    switch (type.kind()) {
    case c10::TypeKind::TensorType: return Kind::TENSOR;
    case c10::TypeKind::IntType:
    case c10::TypeKind::SymIntType: return Kind::INT;
    case c10::TypeKind::FloatType: return Kind::REAL;
    case c10::TypeKind::BoolType: return Kind::TRUTH;
    case c10::TypeKind::StringType: return Kind::TEXT;
    case c10::TypeKind::ListType: return kind_of(*type.containedType(0)) == Kind::INT ? Kind::INTS : Kind::OTHER;
    default: return Kind::OTHER;
    }
}

bool read_int(PyObject *given, int64_t &number) {
    if (!given || Py_TYPE(given) != &PyLong_Type) return false;
    int overflow = 0;
    number = PyLong_AsLongLongAndOverflow(given, &overflow);
    return !overflow;
}

bool read_ints(PyObject *given, Stack &stack) {
    const bool is_list = Py_TYPE(given) == &PyList_Type;
    if (!is_list && Py_TYPE(given) != &PyTuple_Type) return false;
    const Py_ssize_t count = is_list ? PyList_Size(given) : PyTuple_Size(given);
    c10::List<int64_t> numbers;
    numbers.reserve(static_cast<size_t>(count));
    for (Py_ssize_t n = 0; n < count; ++n) {
        int64_t number = 0;
        if (!read_int(is_list ? PyList_GetItem(given, n) : PyTuple_GetItem(given, n), number)) return false;
        numbers.push_back(number);
    }
    stack.emplace_back(std::move(numbers));
    return true;
}

bool read(PyObject *given, const Argument &argument, Stack &stack) {
    if (!given) {
        if (argument.otherwise) stack.push_back(*argument.otherwise);
        return argument.otherwise.has_value();
    }
    if (given == Py_None) {
        stack.emplace_back();
        return argument.optional;
    }
    PyTypeObject *const type = Py_TYPE(given);
    int64_t number = 0;
    switch (argument.kind) {
    case Kind::TENSOR:
        if (type != classes[0] && type != classes[1]) return false;
        stack.emplace_back(reinterpret_cast<const Tensor *>(given)->tensor);
        return true;
    case Kind::INT:
        if (!read_int(given, number)) return false;
        stack.emplace_back(number);
        return true;
    case Kind::INTS: return read_ints(given, stack);
    case Kind::REAL:
        if (type != &PyFloat_Type) return false;
        stack.emplace_back(PyFloat_AsDouble(given));
        return true;
    case Kind::TRUTH:
        if (given != Py_True && given != Py_False) return false;
        stack.emplace_back(given == Py_True);
        return true;
    case Kind::TEXT: {
        Py_ssize_t size = 0;
        const char *const text = type == &PyUnicode_Type ? PyUnicode_AsUTF8AndSize(given, &size) : nullptr;
        if (!text) return false;
        stack.emplace_back(std::string(text, static_cast<size_t>(size)));
        return true;
    }
    case Kind::OTHER: return false;
    }
    return false;
}

// Whether a call is all plain: then its arguments are on the stack.
bool read_all(const Reader &own, PyObject *positional, PyObject *named, Stack &stack) {
    // A mode may want to see the call first.
    if (at::impl::PythonTorchFunctionTLS::stack_len() || at::impl::PythonTorchFunctionTLS::peek_skip_next()) return false;
    const size_t first = static_cast<size_t>(PyTuple_Size(positional));
    Py_ssize_t left = named ? PyDict_Size(named) : 0;
    if (first > own.arguments->size()) return false;
    stack.reserve(own.arguments->size());
    for (size_t n = 0; n < own.arguments->size(); ++n) {
        const Argument &argument = (*own.arguments)[n];
        PyObject *given = nullptr;
        if (n < first) {
            if (argument.named) return false;
            given = PyTuple_GetItem(positional, static_cast<Py_ssize_t>(n));
        } else if (left) {
            given = PyDict_GetItemWithError(named, argument.name);
            if (given) --left;
        }
        if (!read(given, argument, stack)) return false;
    }
    return !left;
}

struct Released {  // Python's lock
    PyThreadState *state = PyEval_SaveThread();
    Released() = default;
    Released(const Released &) = delete;
    Released &operator=(const Released &) = delete;
    ~Released() { PyEval_RestoreThread(state); }
};

PyObject *call(PyObject *self, PyObject *positional, PyObject *named) {
    const Reader &own = *reinterpret_cast<Reader *>(self);
    try {
        Stack stack;
        if (read_all(own, positional, named, stack)) {
            {
                const Released released;
                own.handle->callBoxed(&stack);
            }
            if (stack.size() == 1) return wrap(stack[0].toTensor());
            PyObject *const results = PyTuple_New(static_cast<Py_ssize_t>(stack.size()));
            for (size_t n = 0; results && n < stack.size(); ++n) {
                PyTuple_SetItem(results, static_cast<Py_ssize_t>(n), wrap(stack[n].toTensor()));
            }
            return results;
        }
    } catch (...) {
        translate(std::current_exception());
        return nullptr;
    }
    PyErr_Clear();
    return PyObject_Call(own.general, positional, named);
}

Py_hash_t hash(PyObject *self) { return PyObject_Hash(reinterpret_cast<Reader *>(self)->general); }

PyObject *attribute(PyObject *self, PyObject *name) {
    return PyObject_GetAttr(reinterpret_cast<Reader *>(self)->general, name);
}

PyObject *type() {
    static PyType_Slot slots[] = {
        {Py_tp_call, reinterpret_cast<void *>(call)},
        {Py_tp_hash, reinterpret_cast<void *>(hash)},  // operators are found in dicts by it
        {Py_tp_getattro, reinterpret_cast<void *>(attribute)},
        {0, nullptr},
    };
    static PyType_Spec spec = {"opwright.Reader", sizeof(Reader), 0, Py_TPFLAGS_DEFAULT, slots};
    static PyObject *const made = PyType_FromSpec(&spec);
    return made;
}

// An object for the place of `general`; nullptr where a tensor is not what is known of them.
PyObject *made(const c10::OperatorHandle &handle, PyObject *general, PyObject *tensor, const void *memory, PyObject *parameter) {
    if (*reinterpret_cast<const void *const *>(&reinterpret_cast<Tensor *>(tensor)->tensor) != memory) return nullptr;
    for (const c10::Argument &result : handle.schema().returns()) {
        if (kind_of(*result.type()) != Kind::TENSOR) return nullptr;
    }
    classes[0] = Py_TYPE(tensor);
    classes[1] = reinterpret_cast<PyTypeObject *>(parameter);
    PyObject *const own_type = type();
    Reader *const own = own_type ? PyObject_New(Reader, reinterpret_cast<PyTypeObject *>(own_type)) : nullptr;
    if (!own) return nullptr;
    own->handle = &handle;
    own->arguments = new std::vector<Argument>;
    own->general = general;
    Py_IncRef(general);
    for (const c10::Argument &argument : handle.schema().arguments()) {
        c10::TypePtr type = argument.type();
        const bool optional = type->kind() == c10::TypeKind::OptionalType;
        if (optional) type = type->containedType(0);
        own->arguments->push_back(
            {PyUnicode_InternFromString(argument.name().c_str()), kind_of(*type), optional, argument.kwarg_only(),
             argument.default_value()});
    }
    return reinterpret_cast<PyObject *>(own);
}

}  // namespace reader
#endif
