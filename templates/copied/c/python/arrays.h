// The arguments that stand for arrays: where the cells of one lie, and whether it is like one that is known.
//
// In: arrays of NumPy, and tensors of the types that `adopt` was told of, whose library hands out the structure of
// dlpack.h (https://dmlc.github.io/dlpack/latest/c_api.html) by a function in C. Out: a Seen, which says the same of both
// and owns nothing. Whatever else is given, and tensors that are more than their memory says, are unknown here.
#ifndef OPWRIGHT_ARRAYS_H
#define OPWRIGHT_ARRAYS_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#define NPY_NO_DEPRECATED_API NPY_1_7_API_VERSION
#include <numpy/arrayobject.h>
#include <stdint.h>
#include <string.h>

typedef struct {
    PyArray_Descr *dtype;  // NULL: the call leaves it out
    int code, bits;        // the same as tensors have it; a code below 0 where they have none
    int rank;
    npy_intp *extents, *strides;  // in cells, in bytes
    npy_intp bytes;               // of all cells; 0 where there are none
    npy_intp below, above;        // bytes before the first cell, and behind its begin, that cells reach to
    int returned, in_place;
    int streamed;  // an output for which Python finds memory
    int target;    // an output that calls like this one give, or leave to be made, or either
} Array;

enum { EITHER, MADE, GIVEN };

typedef struct {
    PyObject *value;
    PyArray_Descr *dtype;  // NULL: code and bits say it
    int code, bits;
    int rank, is_known, flags;
    const npy_intp *extents, *strides;
    npy_intp unit;  // bytes, of strides
    uintptr_t at;
} Seen;

typedef struct {  // DLTensor
    void *data;
    int32_t device_type, device;
    int32_t rank;
    uint8_t code, bits;
    uint16_t lanes;
    int64_t *extents, *strides;
    uint64_t offset;
} Tensor;

typedef struct {  // DLPackExchangeAPI, version 1
    uint32_t major, minor;
    void *older, *allocate, *managed_from, *managed_to;
    int (*tensor_from)(void *value, Tensor *tensor);
} Exchange;

enum { MAX_TYPES = 2, ON_CPU = 1, COMPLEX = 5, FIRST_PAGE = 4096 };  // addresses below it belong to no process

static PyTypeObject *tensor_types[MAX_TYPES];
static int (*tensor_from)(void *value, Tensor *tensor);

static int is_tensor(const PyTypeObject *type)
{
    return tensor_from && (type == tensor_types[0] || type == tensor_types[1]);
}

static Seen seen_as_tensor(PyObject *value)
{
    Seen seen = {.value = value};
    Tensor tensor;
    if (tensor_from(value, &tensor) < 0) {
        PyErr_Clear();
        return seen;
    }
    const npy_intp unit = tensor.bits / 8;
    const uintptr_t at = (uintptr_t)tensor.data + tensor.offset;
    if (tensor.device_type == ON_CPU && tensor.lanes == 1 && unit && at >= FIRST_PAGE && (!tensor.rank || tensor.strides)) {
        seen = (Seen){
            .value = value, .code = tensor.code, .bits = tensor.bits, .rank = tensor.rank, .is_known = 1,
            .flags = NPY_ARRAY_WRITEABLE | (at % (uintptr_t)unit ? 0 : NPY_ARRAY_ALIGNED),
            .extents = (const npy_intp *)tensor.extents, .strides = (const npy_intp *)tensor.strides, .unit = unit, .at = at,
        };
    }
    return seen;
}

static Seen seen(PyObject *value)
{
    if (!PyArray_CheckExact(value)) {
        return is_tensor(Py_TYPE(value)) ? seen_as_tensor(value) : (Seen){.value = value};
    }
    PyArrayObject *const array = (PyArrayObject *)value;
    return (Seen){
        .value = value, .dtype = PyArray_DESCR(array), .rank = PyArray_NDIM(array), .is_known = 1,
        .flags = PyArray_FLAGS(array), .extents = PyArray_DIMS(array), .strides = PyArray_STRIDES(array), .unit = 1,
        .at = (uintptr_t)PyArray_DATA(array),
    };
}

// A method's answer as a number; -1 where it gives none.
static long long answer(PyObject *value, PyObject *method)
{
    PyObject *const found = PyObject_CallMethodNoArgs(value, method);
    const long long number = found ? PyLong_AsLongLong(found) : -1;
    Py_XDECREF(found);
    return number;
}

// Whether a tensor is no more than its memory says, and ends within it. Python refuses others, with words.
static int is_plain(const Seen *one, const Array *known)
{
    static PyObject *requires_grad, *is_neg, *is_conj, *storage_offset, *untyped_storage, *nbytes;
    if (!nbytes) {
        requires_grad = PyUnicode_InternFromString("requires_grad");
        is_neg = PyUnicode_InternFromString("is_neg");
        is_conj = PyUnicode_InternFromString("is_conj");
        storage_offset = PyUnicode_InternFromString("storage_offset");
        untyped_storage = PyUnicode_InternFromString("untyped_storage");
        nbytes = PyUnicode_InternFromString("nbytes");
    }
    PyObject *const grad = PyObject_GetAttr(one->value, requires_grad);
    Py_XDECREF(grad);
    int plain = 0;
    if (grad == Py_False && !answer(one->value, is_neg) && (one->code != COMPLEX || !answer(one->value, is_conj))) {
        PyObject *const storage = PyObject_CallMethodNoArgs(one->value, untyped_storage);
        const long long begin = storage ? answer(one->value, storage_offset) : -1;
        const long long held = begin < 0 ? -1 : answer(storage, nbytes);
        Py_XDECREF(storage);
        plain = begin >= 0 && begin * one->unit + known->above <= held;
    }
    PyErr_Clear();
    return plain;
}

static int is_alike(const Seen *one, const Array *known, int flags)
{
    if (!one->is_known || one->rank != known->rank || (one->flags & flags) != flags ||
        memcmp(one->extents, known->extents, (size_t)known->rank * sizeof *known->extents) != 0) {
        return 0;
    }
    for (int n = 0; known->bytes && n < known->rank; ++n) {
        if (one->strides[n] * one->unit != known->strides[n] && known->extents[n] != 1) {
            return 0;
        }
    }
    if (one->dtype) {
        return one->dtype == known->dtype;
    }
    return one->code == known->code && one->bits == known->bits && is_plain(one, known);
}

static int is_apart(const Array *a, uintptr_t at_a, const Array *b, uintptr_t at_b)
{
    const uintptr_t end_a = at_a + (uintptr_t)a->above, end_b = at_b + (uintptr_t)b->above;
    return at_a - (uintptr_t)a->below >= end_b || at_b - (uintptr_t)b->below >= end_a;
}

static void release_array(Array *array)
{
    Py_XDECREF((PyObject *)array->dtype);
    PyMem_Free(array->extents);
}

// dtype, code, bytes of a cell, shape, strides, returned, in_place, streamed, target
static int read_array(PyObject *words, Array *array)
{
    PyObject *dtype, *shape, *strides;
    int item;
    if (!PyArg_ParseTuple(
            words, "OiiO!O!pppi", &dtype, &array->code, &item, &PyTuple_Type, &shape, &PyTuple_Type, &strides,
            &array->returned, &array->in_place, &array->streamed, &array->target)) {
        return 0;
    }
    if (dtype == Py_None) {
        return 1;
    }
    const Py_ssize_t rank = PyTuple_GET_SIZE(shape);
    if (!PyArray_DescrCheck(dtype) || rank > NPY_MAXDIMS || PyTuple_GET_SIZE(strides) != rank) {
        PyErr_SetString(PyExc_ValueError, "no dtype, too many axes, or not as many strides");
        return 0;
    }
    array->extents = PyMem_Calloc(2 * (size_t)rank + 1, sizeof *array->extents);
    if (!array->extents) {
        PyErr_NoMemory();
        return 0;
    }
    array->rank = (int)rank;
    array->strides = array->extents + rank;
    array->dtype = (PyArray_Descr *)Py_NewRef(dtype);
    array->bits = 8 * item;
    array->bytes = array->above = item;
    for (int n = 0; n < array->rank; ++n) {
        const npy_intp extent = array->extents[n] = PyLong_AsSsize_t(PyTuple_GET_ITEM(shape, n));
        const npy_intp stride = array->strides[n] = PyLong_AsSsize_t(PyTuple_GET_ITEM(strides, n));
        array->bytes *= extent;
        *(stride < 0 ? &array->below : &array->above) += (stride < 0 ? -stride : stride) * (extent - 1);
    }
    if (!array->bytes) {
        array->below = array->above = 0;
    }
    return !PyErr_Occurred();
}

// From the types of tensors and the capsule in which their library says how it hands them out: whether this can be used.
PyObject *opwright_calls_adopt(PyObject *types, PyObject *capsule)
{
    const Exchange *const exchange = PyCapsule_GetPointer(capsule, "dlpack_exchange_api");
    if (!exchange || !PyTuple_CheckExact(types) || PyTuple_GET_SIZE(types) != MAX_TYPES) {
        return PyErr_Occurred() ? NULL : PyErr_Format(PyExc_ValueError, "not %d types", MAX_TYPES);
    }
    if (exchange->major != 1 || !exchange->tensor_from || sizeof(npy_intp) != sizeof(int64_t)) {
        Py_RETURN_FALSE;
    }
    for (Py_ssize_t n = 0; n < MAX_TYPES; ++n) {
        tensor_types[n] = (PyTypeObject *)Py_NewRef(PyTuple_GET_ITEM(types, n));
    }
    tensor_from = exchange->tensor_from;
    Py_RETURN_TRUE;
}

#endif
