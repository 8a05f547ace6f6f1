// Calls of an operation like one before, from their arguments to the kernel without a line of Python.
//
// In: what Python found out about calls: types and shapes of their arrays, attributes, and all that the kernel gets. Out:
// an object for the place of the operation's function `call`. A call that is like one of these, its arrays of the same
// strides, gets memory for its results and runs the same kernel; every other one, and every refusal, is Python's.

#include "records.h"

enum { MAX_RECORDS = 256 };  // of an operation

typedef struct {
    PyObject *general, *memory;
    Py_ssize_t count;
    Record *records[MAX_RECORDS];
} Calls;

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

// The inputs of a call, those of lists one after the other.
typedef struct {
    Py_ssize_t count, groups;
    Py_ssize_t group[MAX_INPUTS];
    Seen one[MAX_INPUTS];
    PyObject *kept[MAX_INPUTS];  // what was listed, as a list may change while others run
    Py_ssize_t keeps;
    uint64_t digest;
} Inputs;

static int add_input(Inputs *inputs, PyObject *value)
{
    if (inputs->count == MAX_INPUTS) {
        return 0;
    }
    Seen *const one = &inputs->one[inputs->count++];
    *one = seen(value);
    inputs->digest = digest_of(inputs->digest, one->rank, one->extents);
    return 1;
}

static int read_inputs(Inputs *inputs, PyObject *given)
{
    inputs->count = inputs->keeps = 0;
    inputs->digest = 0;
    inputs->groups = PyTuple_GET_SIZE(given);
    int fits = inputs->groups <= MAX_INPUTS;
    for (Py_ssize_t n = 0; fits && n < inputs->groups; ++n) {
        PyObject *const value = PyTuple_GET_ITEM(given, n);
        const int is_list = PyList_CheckExact(value) || PyTuple_CheckExact(value);
        inputs->group[n] = is_list ? PySequence_Fast_GET_SIZE(value) : -1;
        if (!is_list) {
            fits = add_input(inputs, value);
        }
        for (Py_ssize_t k = 0; fits && k < inputs->group[n]; ++k) {
            fits = inputs->keeps < MAX_INPUTS && k < PySequence_Fast_GET_SIZE(value);
            if (fits) {
                inputs->kept[inputs->keeps++] = Py_NewRef(PySequence_Fast_GET_ITEM(value, k));
                fits = add_input(inputs, inputs->kept[inputs->keeps - 1]);
            }
        }
    }
    return fits;
}

static void drop_inputs(Inputs *inputs)
{
    while (inputs->keeps) {
        Py_DECREF(inputs->kept[--inputs->keeps]);
    }
}

static int is_known(const Record *record, const Inputs *inputs, PyObject *attributes)
{
    if (record->inputs != inputs->count || record->groups != inputs->groups ||
        memcmp(record->group, inputs->group, (size_t)record->groups * sizeof *record->group) != 0) {
        return 0;
    }
    for (Py_ssize_t n = 0; n < record->inputs; ++n) {
        const Array *const known = &record->arrays[n];
        if (known->dtype ? !is_alike(&inputs->one[n], known, NPY_ARRAY_ALIGNED) : inputs->one[n].value != Py_None) {
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

// Asks Python for the team and the memory of a kernel. False with nothing raised where it does not say.
static int asked(const Calls *calls, const Piece *piece, int alone, PyObject *threads, uintptr_t *team, uintptr_t *memory)
{
    long long bytes = piece->bytes, found = 0;
    *team = *memory = 0;
    if (!alone) {
        PyObject *const crew = PyObject_CallOneArg(piece->crew, threads);
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

// Calls all kernels on arrays that lie at these addresses; false where Python does not say what they need.
static int ran(const Calls *calls, const Record *record, const uintptr_t *at, PyObject *threads)
{
    const int alone = threads == Py_None ? record->serial : PyLong_CheckExact(threads) && PyLong_AsLong(threads) == 1;
    PyErr_Clear();  // of a number that is too long
    for (Py_ssize_t number = 0; number < record->pieces; ++number) {
        const Piece *const piece = &record->piece[number];
        uintptr_t arguments[MAX_ARGUMENTS], team, memory;
        if (!asked(calls, piece, alone, threads, &team, &memory)) {
            return 0;
        }
        for (Py_ssize_t n = 0; n < piece->count; ++n) {
            const Slot slot = piece->slots[n];
            arguments[n] = slot.value + (slot.array < 0 ? 0 : at[slot.array]);
        }
        arguments[piece->count] = team;
        arguments[piece->count + 1] = memory;
        Py_BEGIN_ALLOW_THREADS
        call_kernel(piece->kernel, arguments, piece->count + 2);
        Py_END_ALLOW_THREADS
    }
    return 1;
}

// The results of a call that is known; NULL with nothing raised where it is Python's after all.
static PyObject *computed(const Calls *calls, const Record *record, const Seen *inputs, PyObject *out, PyObject *threads)
{
    uintptr_t at[MAX_INPUTS + MAX_OUTPUTS];  // by array
    PyObject *made[MAX_OUTPUTS] = {NULL};
    int given[MAX_OUTPUTS] = {0};
    PyObject *results = NULL;
    Py_ssize_t place = 0;
    for (Py_ssize_t k = 0; k < record->inputs; ++k) {
        at[k] = inputs[k].at;
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
        at[record->inputs + k] = target.at;
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
    if (!ran(calls, record, at, threads)) {
        goto end;
    }
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
        PyTuple_CheckExact(given[1])) {
        Inputs inputs;
        PyObject *results = NULL;
        const int fits = read_inputs(&inputs, given[0]);
        for (Py_ssize_t n = 0; fits && !results && n < calls->count; ++n) {
            Record *const record = calls->records[n];
            if (record->digest == inputs.digest && !(record->stated && given[2] != Py_None)) {
                ++record->users;  // tensors that are asked may let other threads run, which forget it
                results = is_known(record, &inputs, given[1])
                              ? computed(calls, record, inputs.one, given[2], given[3])
                              : NULL;
                release(record);
            }
        }
        drop_inputs(&inputs);
        if (results) {
            return results;
        }
    }
    return PyObject_Vectorcall(calls->general, given, (size_t)count, NULL);
}

// What new_record reads.
static PyObject *tell(PyObject *self, PyObject *words)
{
    Calls *const calls = PyCapsule_GetPointer(self, NULL);
    Record *const record = new_record(words);
    if (!record) {
        return NULL;
    }
    if (calls->count == MAX_RECORDS) {
        forget_all(calls);
    }
    calls->records[calls->count++] = record;
    Py_RETURN_NONE;
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
