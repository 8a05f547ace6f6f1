"""What callers give becomes arrays over their own memory, or is refused in words that help."""

import ctypes
import gc
import threading
import weakref

import cffi
import ml_dtypes
import numpy as np
import pytest
from opwright_kernels import _arrays, _dlpack, _words
from support.refused import refused

try:
    import torch
except ImportError:
    torch = None

needs_torch = pytest.mark.skipif(torch is None, reason="torch is missing")
bfloat16 = np.dtype(ml_dtypes.bfloat16)


# --- arrays


@pytest.mark.parametrize("dtype", [np.float32, np.float16, bfloat16, np.int32, np.float64, np.bool_])
def test_an_ndarray_passes_as_it_is(dtype):
    array = np.zeros((4, 6), dtype)
    assert _arrays.to_array("x", array) is array
    view = array[::2, ::-3].T
    assert _arrays.to_array("x", view) is view


def test_a_memory_map_is_an_array(tmp_path):
    mapped = np.memmap(tmp_path / "data", np.float32, "w+", shape=(3,))
    array = _arrays.to_array("x", mapped)
    assert type(array) is np.ndarray
    array[1] = 7
    assert mapped[1] == 7


def test_an_object_with_an_array_interface_shares_its_memory():
    class Holder:
        def __init__(self, array):
            self.__array_interface__ = array.__array_interface__
            self.array = array

    array = np.arange(6, dtype=np.float32).reshape(2, 3)[:, ::2]
    taken = _arrays.to_array("x", Holder(array))
    assert taken.strides == array.strides
    taken[1, 1] = 50
    assert array[1, 1] == 50


REFUSED = {
    "a list": [1.0, 2.0],
    "a Python scalar": 1.0,
    "a NumPy scalar": np.float32(1),
    "a bfloat16 scalar": ml_dtypes.bfloat16(1),
    "text": "src",
    "bytes": b"src",
    "None": None,
    "the type itself": np.ndarray,
    "an array of objects": np.array([None]),
    "a structured array": np.zeros(2, [("a", "f4")]),
    "an array of text": np.array(["a"]),
    "an array of dates": np.zeros(2, "M8[s]"),
    "an array of void": np.zeros(2, "V2"),
    "the other byte order": np.zeros(2, np.dtype(np.float32).newbyteorder()),
    "the other byte order of bfloat16": np.zeros(2, bfloat16.newbyteorder()),
    "a matrix": np.zeros((2, 2)).view(np.matrix),
    "a masked array": np.ma.array([1.0]),
    "a broken interface": type("Broken", (), {"__array_interface__": {"version": 3}})(),
}


@pytest.mark.filterwarnings("ignore::PendingDeprecationWarning")
@pytest.mark.parametrize("name", REFUSED)
def test_what_is_no_plain_array_of_numbers_is_refused(name):
    refusal = refused(_arrays.to_array, REFUSED[name])
    assert refusal.rule == "x-kind"
    assert refusal.wrong_kind
    assert "array" in refusal.expected
    assert refusal.got


def test_a_refusal_says_what_was_given():
    assert refused(_arrays.to_array, [1.0]).got == "[1.0] (list)"
    assert refused(_arrays.to_array, None).got == "None"
    assert refused(_arrays.to_array, np.zeros((2, 3), "V2")).got == "an array of dtype |V2"
    assert refused(_arrays.to_array, np.ma.zeros((2, 3))).got == "a float64 array of shape (2, 3) (MaskedArray)"


@pytest.mark.parametrize("value", ["x" * 10_000, list(range(10_000)), 10**4301, "two\nlines"], ids=range(4))
def test_a_description_is_short_and_one_line(value):
    words = _words.describe(value)
    assert len(words) < 100
    assert "\n" not in words


# --- DLPack


class Tensor(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),  # in elements; NULL means row by row
        ("byte_offset", ctypes.c_uint64),
    )


class Managed(ctypes.Structure):
    _fields_ = (("tensor", Tensor), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p))


class Versioned(ctypes.Structure):
    _fields_ = (
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("tensor", Tensor),
    )


class Capsule:
    """A producer of DLPack capsules made by hand, which counts the calls of its deleter."""

    def __init__(self, array, code, versioned=False, flags=0, major=1, lanes=1, device=1):
        self.array, self.versioned, self.kind, self.deleted = array, versioned, device, 0
        kind = Versioned if versioned else Managed
        self.managed = kind()
        tensor = self.managed.tensor
        self.shape = (ctypes.c_int64 * array.ndim)(*array.shape)
        self.strides = (ctypes.c_int64 * array.ndim)(*(step // array.itemsize for step in array.strides))
        tensor.data, tensor.ndim, tensor.device_type = array.ctypes.data, array.ndim, device
        tensor.code, tensor.bits, tensor.lanes = code, array.itemsize * 8, lanes
        tensor.shape = ctypes.cast(self.shape, ctypes.POINTER(ctypes.c_int64))
        tensor.strides = ctypes.cast(self.strides, ctypes.POINTER(ctypes.c_int64))
        if versioned:
            self.managed.major, self.managed.flags = major, flags
        self.deleter = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(self.delete)
        self.managed.deleter = ctypes.cast(self.deleter, ctypes.c_void_p)
        self.name = b"dltensor_versioned" if versioned else b"dltensor"

    def delete(self, address):
        assert address == ctypes.addressof(self.managed)
        self.deleted += 1

    def __dlpack_device__(self):
        return self.kind, 0

    def __dlpack__(self, **options):
        if options and not self.versioned:
            raise TypeError("no such keyword")
        make = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
        self.last = make(("PyCapsule_New", ctypes.pythonapi))(ctypes.addressof(self.managed), self.name, None)
        return self.last


@pytest.mark.parametrize("versioned", [False, True])
def test_a_bfloat16_capsule_is_read_in_place_and_deleted_once(versioned):
    memory = np.arange(12, dtype=np.float32).astype(bfloat16).reshape(3, 4)
    producer = Capsule(memory[::2, ::-1], 4, versioned)
    array = _arrays.to_array("x", producer)
    assert array.dtype == bfloat16
    assert array.tolist() == memory[::2, ::-1].tolist()
    assert array.flags.writeable
    array[0, 0] = 100
    assert memory[0, 3] == 100
    assert _dlpack._name_of(producer.last) == b"used_" + producer.name
    view = array[1:]
    del array
    gc.collect()
    assert producer.deleted == 0
    del view
    gc.collect()
    assert producer.deleted == 1


def test_a_capsule_that_says_read_only_gives_a_read_only_array():
    producer = Capsule(np.zeros(3, bfloat16), 4, versioned=True, flags=1)
    array = _arrays.to_array("x", producer)
    assert not array.flags.writeable
    del array
    assert producer.deleted == 1


def test_a_capsule_from_before_the_read_only_flag_gives_a_writable_array():
    memory = np.zeros(3, np.float32)
    producer = Capsule(memory, 2)
    _arrays.to_array("x", producer)[0] = 9
    assert memory[0] == 9


def test_an_empty_bfloat16_capsule_gives_an_empty_array():
    producer = Capsule(np.zeros((0, 3), bfloat16), 4)
    producer.managed.tensor.data = None
    assert _arrays.to_array("x", producer).shape == (0, 3)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"code": 10}, "code 10, 16 bits"),
        ({"code": 4, "lanes": 4}, "4 lanes"),
        ({"code": 4, "versioned": True, "major": 2}, "version is 2.0"),
    ],
)
def test_a_capsule_that_cannot_be_read_is_refused_and_left_to_its_producer(options, words):
    producer = Capsule(np.zeros(3, bfloat16), **options)
    refusal = refused(_arrays.to_array, producer)
    assert words in refusal.got
    assert refusal.rule == "x-kind"
    assert _dlpack._name_of(producer.last) == producer.name
    assert producer.deleted == 0


def test_memory_that_the_cpu_cannot_read_is_refused():
    refusal = refused(_arrays.to_array, Capsule(np.zeros(3, bfloat16), 4, device=2))
    assert refusal.got == "a Capsule on a GPU"
    assert refusal.expected == "one in the memory of the CPU"
    assert refusal.wrong_kind


@needs_torch
@pytest.mark.parametrize("name", ["float32", "float16", "bfloat16", "int32"])
def test_a_torch_tensor_shares_its_memory_both_ways(name):
    tensor = torch.arange(12).reshape(3, 4).to(getattr(torch, name))
    array = _arrays.to_array("x", tensor.T[1:, ::2])
    assert array.dtype.name == name
    assert array.tolist() == tensor.T[1:, ::2].tolist()
    array[0, 0] = 64
    assert tensor[0, 1] == 64
    tensor[2, 3] = 32
    assert array[2, 1] == 32


@needs_torch
@pytest.mark.parametrize("shape", [(), (0,), (3, 0, 2), (1, 1, 1)])
def test_odd_shapes_of_bfloat16_tensors_are_kept(shape):
    array = _arrays.to_array("x", torch.ones(shape, dtype=torch.bfloat16))
    assert (array.shape, array.dtype) == (shape, bfloat16)
    assert (array == 1).all()


@needs_torch
def test_the_array_keeps_a_bfloat16_tensor_alive_and_then_lets_it_go():
    tensor = torch.zeros(1000, dtype=torch.bfloat16)
    gone = weakref.ref(tensor.untyped_storage())
    array = _arrays.to_array("x", tensor)
    del tensor
    gc.collect()
    array[:] = 3
    assert array.astype(np.float32).sum() == 3000
    del array
    gc.collect()
    assert gone() is None


@needs_torch
@pytest.mark.parametrize("name", ["float32", "bfloat16"])
def test_a_tensor_that_requires_grad_is_refused_with_the_way_out(name):
    refusal = refused(_arrays.to_array, torch.zeros(3, dtype=getattr(torch, name), requires_grad=True))
    assert refusal.got == "a Tensor that requires grad"
    assert "detach()" in refusal.expected


@needs_torch
@pytest.mark.parametrize("case", ["sparse", "meta", "float8"])
def test_other_tensors_that_are_no_plain_memory_are_refused(case):
    tensor = {
        "sparse": lambda: torch.zeros(3, 3).to_sparse(),
        "meta": lambda: torch.zeros(3, device="meta"),
        "float8": lambda: torch.zeros(3).to(torch.float8_e4m3fn),
    }[case]()
    assert refused(_arrays.to_array, tensor).rule == "x-kind"


@needs_torch
def test_eight_threads_may_take_bfloat16_tensors_at_once():
    tensor = torch.ones(64, dtype=torch.bfloat16)
    sums = []

    def work():
        for _ in range(200):
            sums.append(float(_arrays.to_array("x", tensor)[3]))

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sums == [1.0] * 1600


# --- memory


def test_a_contiguous_array_is_not_copied():
    array = np.zeros((2, 3), bfloat16)
    same, copied = _arrays.contiguous(array)
    assert same is array
    assert not copied


@pytest.mark.parametrize("dtype", [np.float32, np.float16, bfloat16])
def test_other_strides_are_copied_to_c_order(dtype):
    array = np.arange(12).astype(dtype).reshape(3, 4).T[:, ::-1]
    copy, copied = _arrays.contiguous(array)
    assert copied
    assert copy.flags.c_contiguous
    assert copy.tolist() == array.tolist()


def test_unaligned_arrays_are_copied():
    array = np.frombuffer(bytearray(9), np.uint8)[1:].view(np.float32)
    copy, copied = _arrays.contiguous(array)
    assert copied
    assert copy.flags.aligned


def test_overlap_is_found_exactly():
    memory = np.zeros((4, 6), np.float32)
    assert _arrays.share_memory(memory, memory[2:, 3:])
    assert not _arrays.share_memory(memory[:2], memory[2:])
    assert not _arrays.share_memory(memory[:, ::2], memory[:, 1::2])  # interleaved
    assert not _arrays.share_memory(memory, memory.copy())


def test_an_empty_array_overlaps_nothing():
    memory = np.zeros((4, 6), bfloat16)
    assert not _arrays.share_memory(memory, memory[:0])
    assert not _arrays.share_memory(memory[:0], memory[:0])


def test_overlap_that_is_too_hard_to_tell_counts_as_overlap(monkeypatch):
    def too_hard(*_, **__):
        raise np.exceptions.TooHardError

    monkeypatch.setattr(np, "shares_memory", too_hard)
    assert _arrays.share_memory(np.zeros(1), np.zeros(1))


@pytest.mark.parametrize(
    ("dtype", "ctype"),
    [(np.float32, "float *"), (np.float64, "double *"), (np.float16, "uint16_t *"), (bfloat16, "uint16_t *")],
)
@pytest.mark.parametrize("shape", [(), (3,), (0, 3)])
def test_a_pointer_points_at_the_array_and_keeps_it_alive(dtype, ctype, shape):
    ffi = cffi.FFI()
    array = np.ones(shape, dtype)
    address, bits = array.ctypes.data, array.view(f"u{array.itemsize}")
    pointer = _arrays.pointer(ffi, ctype, array, True)
    assert int(ffi.cast("intptr_t", pointer)) == address
    if array.size:
        raw = ffi.buffer(ffi.cast("char *", pointer), array.itemsize)[:]
        assert raw == bits.tobytes()[: array.itemsize]


@pytest.mark.parametrize("dtype", [np.float32, np.float16, bfloat16])
def test_read_only_arrays_have_pointers_for_reading_only(dtype):
    ctype = "float *" if dtype is np.float32 else "uint16_t *"
    array = np.ones(3, dtype)
    array.flags.writeable = False
    assert _arrays.pointer(cffi.FFI(), ctype, array, False)
    with pytest.raises((ValueError, BufferError)):
        _arrays.pointer(cffi.FFI(), ctype, array, True)


@needs_torch
def test_what_is_derived_from_a_tensor_hands_itself_over():
    class Doubled(torch.Tensor):
        def __dlpack__(self, **given):
            return (torch.Tensor.as_subclass(self, torch.Tensor) * 2).__dlpack__(**given)

    tensor = torch.arange(6, dtype=torch.float32)
    assert _arrays.to_array("x", tensor.as_subclass(Doubled)).tolist() == [0, 2, 4, 6, 8, 10]
    assert _arrays.to_array("x", torch.nn.Parameter(tensor, requires_grad=False)).tolist() == [0, 1, 2, 3, 4, 5]
