// Calls of an operation like one before, from their arguments to the kernel without a line of Python.
//
// In: what Python found out about calls: types and shapes of their arrays, attributes, and all that the kernel gets. Out:
// an object for the place of the operation's function `call`. A call that is like one of these, its arrays of the same
// strides, gets memory for its results and runs the same kernel; every other one, and every refusal, is Python's.

#include "arrays.h"

enum { MAX_RECORDS = 256, MAX_ARGUMENTS = 24, MAX_NUMBERS = 3 };  // of an operation; of a kernel; of these behind arrays

typedef struct {
    Py_ssize_t users;
    PyObject *plan, *attributes, *crew;  // crew: from `threads`, the team and the bytes of memory
    Py_ssize_t inputs, lists, outputs, results;
    Array *arrays;  // inputs, then outputs
    uintptr_t *list, kernel, numbers[MAX_NUMBERS];  // numbers: what the kernel gets behind its arrays
    Py_ssize_t count;
    int64_t bytes;          // of memory for one thread
    uint64_t digest;        // of the shapes of the inputs
    int listed;             // its `out` may be a list or tuple
    int serial, stated;     // serial: a call that says nothing of threads has one; stated: its `out` states a type
} Record;

typedef struct {
    PyObject *general, *memory;
    Py_ssize_t count;
    Record *records[MAX_RECORDS];
} Calls;

static void release(Record *record)
{
    if (--record->users) {
        return;
    }
    for (Py_ssize_t n = 0; n < record->inputs + record->outputs; ++n) {
        release_array(&record->arrays[n]);
    }
    Py_XDECREF(record->plan);
    Py_XDECREF(record->attributes);
    Py_XDECREF(record->crew);
    PyMem_Free(record->arrays);
    PyMem_Free(record->list);
    PyMem_Free(record);
}

static void forget_all(Calls *calls)
{
    const Py_ssize_t count = calls->count;
    calls->count = 0;
    for (Py_ssize_t n = 0; n < count; ++n) {
        release(calls->records[n]);
    }
}

// Whether an attribute is the one that is known, of the same type and, of floating-point numbers, of the same bits.
static int is_same(PyObject *given, PyObject *known)
{
    PyTypeObject *const type = Py_TYPE(known);
    if (Py_TYPE(given) != type) {
        return 0;
    }
    if (type == &PyList_Type || type == &PyTuple_Type) {
        const Py_ssize_t count = PySequence_Fast_GET_SIZE(known);
        if (PySequence_Fast_GET_SIZE(given) != count) {
            return 0;
        }
        for (Py_ssize_t n = 0; n < count; ++n) {
            if (!is_same(PySequence_Fast_GET_ITEM(given, n), PySequence_Fast_GET_ITEM(known, n))) {
                return 0;
            }
        }
        return 1;
    }
    if (type == &PyFloat_Type) {
        const double a = PyFloat_AS_DOUBLE(given), b = PyFloat_AS_DOUBLE(known);
        return memcmp(&a, &b, sizeof a) == 0;
    }
    if (given == known) {
        return 1;
    }
    return (type == &PyLong_Type || type == &PyUnicode_Type) && PyObject_RichCompareBool(given, known, Py_EQ) == 1;
}

// How the shapes of arrays differ from others, in a number that compares faster than all of them.
static uint64_t digest_of(uint64_t digest, int rank, const npy_intp *extents)
{
    digest = digest * 31 + (uint64_t)rank;
    for (int n = 0; n < rank; ++n) {
        digest = (digest ^ (uint64_t)extents[n]) * UINT64_C(0x9E3779B97F4A7C15);
    }
    return digest;
}

static int is_known(const Record *record, const Seen *inputs, PyObject *attributes)
{
    for (Py_ssize_t n = 0; n < record->inputs; ++n) {
        const Array *const known = &record->arrays[n];
        if (known->dtype ? !is_alike(&inputs[n], known, NPY_ARRAY_ALIGNED) : inputs[n].value != Py_None) {
            return 0;
        }
    }
    return attributes == record->attributes || is_same(attributes, record->attributes);
}

// The array that a call gives for a result, a new reference; NULL where it gives none.
static PyObject *target_of(PyObject *out, const Record *record, Py_ssize_t place)
{
    PyObject *target = out;
    if (record->listed && (PyTuple_CheckExact(out) || PyList_CheckExact(out))) {
        target = PySequence_Fast_GET_SIZE(out) == record->results ? PySequence_Fast_GET_ITEM(out, place) : out;
    }
    return target == Py_None ? NULL : Py_NewRef(target);
}

// Pointers and numbers of 64 bits are passed alike, so that the number of arguments is all that matters.
static void call_kernel(uintptr_t kernel, const uintptr_t *a, Py_ssize_t count)
{
#define W uintptr_t
#define W6 W, W, W, W, W, W
#define A2(n) a[n], a[n + 1]
#define A6(n) A2(n), A2(n + 2), A2(n + 4)
    switch (count) {
    case 6: ((void (*)(W6))kernel)(A6(0)); break;
    case 7: ((void (*)(W6, W))kernel)(A6(0), a[6]); break;
    case 8: ((void (*)(W6, W, W))kernel)(A6(0), A2(6)); break;
    case 9: ((void (*)(W6, W, W, W))kernel)(A6(0), A2(6), a[8]); break;
    case 10: ((void (*)(W6, W, W, W, W))kernel)(A6(0), A2(6), A2(8)); break;
    case 11: ((void (*)(W6, W, W, W, W, W))kernel)(A6(0), A2(6), A2(8), a[10]); break;
    case 12: ((void (*)(W6, W6))kernel)(A6(0), A6(6)); break;
    case 13: ((void (*)(W6, W6, W))kernel)(A6(0), A6(6), a[12]); break;
    case 14: ((void (*)(W6, W6, W, W))kernel)(A6(0), A6(6), A2(12)); break;
    case 15: ((void (*)(W6, W6, W, W, W))kernel)(A6(0), A6(6), A2(12), a[14]); break;
    case 16: ((void (*)(W6, W6, W, W, W, W))kernel)(A6(0), A6(6), A2(12), A2(14)); break;
    case 17: ((void (*)(W6, W6, W, W, W, W, W))kernel)(A6(0), A6(6), A2(12), A2(14), a[16]); break;
    case 18: ((void (*)(W6, W6, W6))kernel)(A6(0), A6(6), A6(12)); break;
    case 19: ((void (*)(W6, W6, W6, W))kernel)(A6(0), A6(6), A6(12), a[18]); break;
    case 20: ((void (*)(W6, W6, W6, W, W))kernel)(A6(0), A6(6), A6(12), A2(18)); break;
    case 21: ((void (*)(W6, W6, W6, W, W, W))kernel)(A6(0), A6(6), A6(12), A2(18), a[20]); break;
    case 22: ((void (*)(W6, W6, W6, W, W, W, W))kernel)(A6(0), A6(6), A6(12), A2(18), A2(20)); break;
    case 23: ((void (*)(W6, W6, W6, W, W, W, W, W))kernel)(A6(0), A6(6), A6(12), A2(18), A2(20), a[22]); break;
    case 24: ((void (*)(W6, W6, W6, W6))kernel)(A6(0), A6(6), A6(12), A6(18)); break;
    default: break;
    }
#undef W
#undef W6
#undef A2
#undef A6
}

// Asks Python for the team and the memory of a call. False with nothing raised where it does not say.
static int asked(const Calls *calls, const Record *record, PyObject *threads, uintptr_t *team, uintptr_t *memory)
{
    long long bytes = record->bytes, found = 0;
    const int alone = threads == Py_None ? record->serial : PyLong_CheckExact(threads) && PyLong_AsLong(threads) == 1;
    *team = *memory = 0;
    if (!alone) {
        PyObject *const crew = PyErr_Occurred() ? NULL : PyObject_CallOneArg(record->crew, threads);
        const int good = crew && PyTuple_CheckExact(crew) && PyArg_ParseTuple(crew, "LL", &found, &bytes);
        Py_XDECREF(crew);
        if (!good) {
            PyErr_Clear();
            return 0;
        }
        *team = (uintptr_t)found;
    }
    if (bytes) {
        PyObject *const size = PyLong_FromLongLong(bytes);
        PyObject *const at = size ? PyObject_CallOneArg(calls->memory, size) : NULL;
        *memory = at ? (uintptr_t)PyLong_AsUnsignedLongLong(at) : 0;
        Py_XDECREF(size);
        Py_XDECREF(at);
        if (PyErr_Occurred() || !*memory) {
            PyErr_Clear();
            return 0;
        }
    }
    return 1;
}

// The results of a call that is known; NULL with nothing raised where it is Python's after all.
static PyObject *computed(const Calls *calls, const Record *record, const Seen *inputs, PyObject *out, PyObject *threads)
{
    uintptr_t arguments[MAX_ARGUMENTS], at[MAX_ARGUMENTS];  // at: by array
    PyObject *made[MAX_ARGUMENTS] = {NULL};  // by output
    int given[MAX_ARGUMENTS] = {0};
    PyObject *results = NULL;
    Py_ssize_t n = 0, place = 0;
    for (Py_ssize_t k = 0; k < record->inputs; ++k) {
        at[k] = record->arrays[k].dtype ? inputs[k].at : record->arrays[k].absent;
        if (record->arrays[k].passed) {
            arguments[n++] = at[k];
        }
    }
    for (Py_ssize_t k = 0; k < record->lists; ++k) {
        arguments[n++] = record->list[k];
    }
    for (Py_ssize_t k = 0; k < record->outputs; ++k) {
        const Array *const known = &record->arrays[record->inputs + k];
        if (known->returned && out != Py_None) {
            made[k] = target_of(out, record, place++);
        }
        given[k] = made[k] != NULL;
        if (known->target == (given[k] ? MADE : GIVEN)) {
            goto end;
        }
        if (!made[k] && !known->streamed) {
            Py_INCREF(known->dtype);
            made[k] = PyArray_NewFromDescr(
                &PyArray_Type, known->dtype, known->rank, known->extents, known->strides, NULL, 0, NULL);
        }
        const Seen target = made[k] ? seen(made[k]) : (Seen){0};
        if (!is_alike(&target, known, NPY_ARRAY_BEHAVED)) {
            goto end;
        }
        arguments[n++] = at[record->inputs + k] = target.at;
    }
    for (Py_ssize_t k = 0; k < record->outputs; ++k) {  // the caller's share no memory with what is read, or each other
        const Array *const own = &record->arrays[record->inputs + k];
        for (Py_ssize_t other = 0; given[k] && other < record->inputs + k; ++other) {
            const Array *const known = &record->arrays[other];
            const int is_input = other < record->inputs;
            if (is_input ? !known->dtype : !given[other - record->inputs]) {
                continue;
            }
            const int is_itself = is_input && known->in_place && inputs[other].value == made[k];
            if (!is_itself && !is_apart(known, at[other], own, at[record->inputs + k])) {
                goto end;
            }
        }
    }
    uintptr_t team, memory;
    if (!asked(calls, record, threads, &team, &memory)) {
        goto end;
    }
    for (Py_ssize_t k = 0; k < record->count; ++k) {
        arguments[n++] = record->numbers[k];
    }
    arguments[n++] = team;
    arguments[n++] = memory;
    const uintptr_t kernel = record->kernel;
    Py_BEGIN_ALLOW_THREADS
    call_kernel(kernel, arguments, n);
    Py_END_ALLOW_THREADS
    if (record->results > 1) {
        results = PyTuple_New(record->results);
    }
    place = 0;
    for (Py_ssize_t k = 0; k < record->outputs; ++k) {
        if (record->arrays[record->inputs + k].returned && (record->results == 1 || results)) {
            if (record->results == 1) {
                results = made[k];
            } else {
                PyTuple_SET_ITEM(results, place++, made[k]);
            }
            made[k] = NULL;
        }
    }
end:
    for (Py_ssize_t k = 0; k < record->outputs; ++k) {
        Py_XDECREF(made[k]);
    }
    if (!results) {
        PyErr_Clear();
    }
    return results;
}

// inputs, attributes, out, threads, specialize
static PyObject *call(PyObject *self, PyObject *const *given, Py_ssize_t count)
{
    Calls *const calls = PyCapsule_GetPointer(self, NULL);
    if (calls->count && count == 5 && given[4] == Py_None && PyTuple_CheckExact(given[0]) &&
        PyTuple_CheckExact(given[1]) && PyTuple_GET_SIZE(given[0]) == calls->records[0]->inputs) {
        Seen inputs[MAX_ARGUMENTS];
        uint64_t digest = 0;
        for (Py_ssize_t n = 0; n < PyTuple_GET_SIZE(given[0]); ++n) {
            inputs[n] = seen(PyTuple_GET_ITEM(given[0], n));
            digest = digest_of(digest, inputs[n].rank, inputs[n].extents);
        }
        for (Py_ssize_t n = 0; n < calls->count; ++n) {
            Record *const record = calls->records[n];
            if (record->digest != digest || (record->stated && given[2] != Py_None)) {
                continue;
            }
            ++record->users;  // tensors that are asked may let other threads run, which forget it
            PyObject *const results =
                is_known(record, inputs, given[1]) ? computed(calls, record, inputs, given[2], given[3]) : NULL;
            release(record);
            if (results) {
                return results;
            }
        }
    }
    return PyObject_Vectorcall(calls->general, given, (size_t)count, NULL);
}

// plan, attributes, crew, inputs, lists, outputs, numbers, kernel, bytes, serial, listed, stated
static PyObject *tell(PyObject *self, PyObject *words)
{
    Calls *const calls = PyCapsule_GetPointer(self, NULL);
    PyObject *plan, *attributes, *crew, *inputs, *lists, *outputs, *numbers;
    unsigned long long kernel;
    long long bytes;
    int serial, listed, stated;
    if (!PyArg_ParseTuple(
            words, "OO!OO!O!O!O!KLppp", &plan, &PyTuple_Type, &attributes, &crew, &PyTuple_Type, &inputs, &PyTuple_Type,
            &lists, &PyTuple_Type, &outputs, &PyTuple_Type, &numbers, &kernel, &bytes, &serial, &listed,
            &stated)) {
        return NULL;
    }
    const Py_ssize_t in = PyTuple_GET_SIZE(inputs), few = PyTuple_GET_SIZE(lists), made = PyTuple_GET_SIZE(outputs);
    const Py_ssize_t count = PyTuple_GET_SIZE(numbers);
    if (count > MAX_NUMBERS || in + few + made + count + 2 > MAX_ARGUMENTS) {
        Py_RETURN_FALSE;
    }
    Record *const record = PyMem_Calloc(1, sizeof *record);
    Array *const arrays = PyMem_Calloc((size_t)(in + made), sizeof *arrays);
    uintptr_t *const list = PyMem_Calloc((size_t)few + 1, sizeof *list);
    if (!record || !arrays || !list) {
        PyMem_Free(record);
        PyMem_Free(arrays);
        PyMem_Free(list);
        return PyErr_NoMemory();
    }
    *record = (Record){
        .users = 1, .plan = Py_NewRef(plan), .attributes = Py_NewRef(attributes), .crew = Py_NewRef(crew),
        .inputs = in, .lists = few, .outputs = made, .arrays = arrays, .list = list, .kernel = (uintptr_t)kernel,
        .count = count, .bytes = bytes, .serial = serial, .listed = listed, .stated = stated,
    };
    for (Py_ssize_t n = 0; n < in + made; ++n) {
        if (!read_array(n < in ? PyTuple_GET_ITEM(inputs, n) : PyTuple_GET_ITEM(outputs, n - in), &arrays[n])) {
            release(record);
            return NULL;
        }
        record->results += n >= in && arrays[n].returned;
        record->digest = n < in ? digest_of(record->digest, arrays[n].rank, arrays[n].extents) : record->digest;
    }
    for (Py_ssize_t n = 0; n < few; ++n) {
        list[n] = (uintptr_t)PyLong_AsUnsignedLongLong(PyTuple_GET_ITEM(lists, n));
    }
    for (Py_ssize_t n = 0; n < count; ++n) {
        record->numbers[n] = (uintptr_t)PyLong_AsUnsignedLongLong(PyTuple_GET_ITEM(numbers, n));
    }
    if (PyErr_Occurred()) {
        release(record);
        return NULL;
    }
    if (calls->count == MAX_RECORDS) {
        forget_all(calls);
    }
    calls->records[calls->count++] = record;
    Py_RETURN_TRUE;
}

static PyObject *forget(PyObject *self, PyObject *nothing)
{
    (void)nothing;
    forget_all(PyCapsule_GetPointer(self, NULL));
    Py_RETURN_NONE;
}

// For the function that computes calls in general and the one that finds memory: `call`, `tell` and `forget`.
// They live as long as the process, as operations do.
PyObject *opwright_calls_new(PyObject *general, PyObject *memory)
{
    static PyMethodDef methods[] = {
        {"call", (PyCFunction)(void (*)(void))call, METH_FASTCALL, NULL},
        {"tell", tell, METH_VARARGS, NULL},
        {"forget", forget, METH_NOARGS, NULL},
    };
    if (!PyArray_API && _import_array() < 0) {
        return NULL;
    }
    Calls *const calls = PyMem_Calloc(1, sizeof *calls);
    PyObject *const self = calls ? PyCapsule_New(calls, NULL, NULL) : PyErr_NoMemory();
    if (!self) {
        PyMem_Free(calls);
        return NULL;
    }
    calls->general = Py_NewRef(general);
    calls->memory = Py_NewRef(memory);
    PyObject *const made = Py_BuildValue(
        "NNN", PyCFunction_New(&methods[0], self), PyCFunction_New(&methods[1], self),
        PyCFunction_New(&methods[2], self));
    Py_DECREF(self);
    return made;
}
