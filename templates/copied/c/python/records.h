// What is known of calls: their arrays, their attributes, and the kernels that compute them.
//
// In: words of Python. Out: records, which live as long as they have users.
#ifndef OPWRIGHT_RECORDS_H
#define OPWRIGHT_RECORDS_H

#include "arrays.h"

enum {
    MAX_INPUTS = 64,     // that a call lists
    MAX_OUTPUTS = 16,
    MAX_ARGUMENTS = 24,  // of a kernel
};

typedef struct {  // an argument of a kernel
    Py_ssize_t array;  // whose memory it is; -1: none's
    uintptr_t value;   // bytes behind its first cell, or the argument itself
} Slot;

typedef struct {  // a call of a kernel
    uintptr_t kernel;
    int64_t bytes;  // of memory for one thread
    PyObject *crew;  // from `threads`, the team and the bytes of memory
    Py_ssize_t count;
    Slot *slots;
} Piece;

typedef struct {
    Py_ssize_t users;
    PyObject *attributes;
    Py_ssize_t inputs, outputs, results, groups, pieces;
    Array *arrays;      // inputs, then outputs
    Py_ssize_t *group;  // by argument, how many arrays it lists; -1: it is one
    Piece *piece;
    uint64_t digest;     // of the shapes of the inputs
    int serial, listed;  // serial: a call that says nothing of threads has one; listed: its `out` may be a list or tuple
    int stated;          // its `out` states a type
} Record;

static void release(Record *record)
{
    if (--record->users) {
        return;
    }
    for (Py_ssize_t n = 0; n < record->inputs + record->outputs; ++n) {
        release_array(&record->arrays[n]);
    }
    for (Py_ssize_t n = 0; n < record->pieces; ++n) {
        Py_XDECREF(record->piece[n].crew);
        PyMem_Free(record->piece[n].slots);
    }
    Py_XDECREF(record->attributes);
    PyMem_Free(record->arrays);
    PyMem_Free(record->group);
    PyMem_Free(record->piece);
    PyMem_Free(record);
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

// crew, kernel, bytes, slots: pairs of an array and a value
static int read_piece(PyObject *words, Piece *piece)
{
    PyObject *crew, *slots;
    unsigned long long kernel;
    long long bytes;
    if (!PyArg_ParseTuple(words, "OKLO!", &crew, &kernel, &bytes, &PyTuple_Type, &slots)) {
        return 0;
    }
    const Py_ssize_t count = PyTuple_GET_SIZE(slots);
    *piece = (Piece){
        .kernel = (uintptr_t)kernel, .bytes = bytes, .crew = Py_NewRef(crew), .count = count,
        .slots = PyMem_Calloc((size_t)count + 1, sizeof(Slot)),
    };
    if (!piece->slots || count + 2 > MAX_ARGUMENTS) {
        PyErr_SetString(PyExc_ValueError, "too many arguments");
        return 0;
    }
    for (Py_ssize_t n = 0; n < count; ++n) {
        unsigned long long value;
        if (!PyArg_ParseTuple(PyTuple_GET_ITEM(slots, n), "nK", &piece->slots[n].array, &value)) {
            return 0;
        }
        piece->slots[n].value = (uintptr_t)value;
    }
    return 1;
}

static int read_record(PyObject *groups, PyObject *inputs, PyObject *outputs, PyObject *pieces, Record *record)
{
    for (Py_ssize_t n = 0; n < record->inputs + record->outputs; ++n) {
        const int is_input = n < record->inputs;
        Array *const array = &record->arrays[n];
        if (!read_array(PyTuple_GET_ITEM(is_input ? inputs : outputs, is_input ? n : n - record->inputs), array)) {
            return 0;
        }
        record->results += !is_input && array->returned;
        record->digest = is_input ? digest_of(record->digest, array->rank, array->extents) : record->digest;
    }
    for (Py_ssize_t n = 0; n < record->groups; ++n) {
        record->group[n] = PyLong_AsSsize_t(PyTuple_GET_ITEM(groups, n));
    }
    for (Py_ssize_t n = 0; n < record->pieces; ++n) {
        if (!read_piece(PyTuple_GET_ITEM(pieces, n), &record->piece[n])) {
            return 0;
        }
    }
    return !PyErr_Occurred();
}

// A record of a call, of one user; NULL with an error raised where the words are not of this kind.
// attributes, groups, inputs, outputs, pieces, serial, listed, stated
static Record *new_record(PyObject *words)
{
    PyObject *attributes, *groups, *inputs, *outputs, *pieces;
    int serial, listed, stated;
    if (!PyArg_ParseTuple(
            words, "O!O!O!O!O!ppp", &PyTuple_Type, &attributes, &PyTuple_Type, &groups, &PyTuple_Type, &inputs,
            &PyTuple_Type, &outputs, &PyTuple_Type, &pieces, &serial, &listed, &stated)) {
        return NULL;
    }
    if (PyTuple_GET_SIZE(inputs) > MAX_INPUTS || PyTuple_GET_SIZE(outputs) > MAX_OUTPUTS) {
        return (Record *)PyErr_Format(PyExc_ValueError, "too many arrays");
    }
    Record *const record = PyMem_Calloc(1, sizeof *record);
    if (!record) {
        return (Record *)PyErr_NoMemory();
    }
    *record = (Record){
        .users = 1, .attributes = Py_NewRef(attributes), .inputs = PyTuple_GET_SIZE(inputs),
        .outputs = PyTuple_GET_SIZE(outputs), .groups = PyTuple_GET_SIZE(groups), .pieces = PyTuple_GET_SIZE(pieces),
        .serial = serial, .listed = listed, .stated = stated,
    };
    record->arrays = PyMem_Calloc((size_t)(record->inputs + record->outputs), sizeof *record->arrays);
    record->group = PyMem_Calloc((size_t)record->groups + 1, sizeof *record->group);
    record->piece = PyMem_Calloc((size_t)record->pieces, sizeof *record->piece);
    if (!record->arrays || !record->group || !record->piece) {
        record->inputs = record->outputs = record->pieces = 0;
        release(record);
        return (Record *)PyErr_NoMemory();
    }
    if (!read_record(groups, inputs, outputs, pieces, record)) {
        release(record);
        return NULL;
    }
    return record;
}

#endif
