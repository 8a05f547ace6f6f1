"""oneDNN through its C API, in every mode that may be its fastest.

- Its primitives, convolution and deconvolution: on the plain tensors; with weights in the format that it prefers; with
  every tensor in the format that it prefers. Reorders to and from plain tensors are part of each call.
- Its Graph API: the operation itself, and its twin of the other family, on plain tensors.
"""

from __future__ import annotations

import ctypes
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

from support.onednn_child import CPU_ENGINE, DTYPES, IN_ORDER, Dims, Handle, Library
from support.onednn_child import Refused as LibraryRefused
from support.onednn_peer import library, library_attributes

from . import onednn_own
from .candidate import Ready, Refused
from .kinds import AnyTensors
from .onednn_objects import ALLOCATE, ARGUMENTS, Argument, Objects, step
from .own import OwnTensors
from .products import ProductTensors, onednn_s
from .rows import INPUTS, TWINS, Row
from .steps import StepTensors
from .tensors import Array, Tensors

ANY = 1  # dnnl_format_tag_any
FORWARD = 96  # dnnl_forward_inference
ALGORITHMS = {"convolution": 1, "deconvolution": 10}
INFO = 8  # dnnl_query_impl_info_str
# dnnl_query_<name>_md.
MDS = {"src": 129, "diff_src": 130, "weights": 131, "diff_weights": 132, "dst": 133, "diff_dst": 134}
# The tensors of a primitive of each family: by the computed tensor, its direction and their names in order.
ROLES = {
    "convolution": {
        "small": ("forward", {"src": "big", "weights": "weights", "dst": "small"}),
        "big": ("backward_data", {"diff_src": "big", "weights": "weights", "diff_dst": "small"}),
        "weights": ("backward_weights", {"src": "big", "diff_weights": "weights", "diff_dst": "small"}),
    },
    "deconvolution": {
        "big": ("forward", {"src": "small", "weights": "weights", "dst": "big"}),
        "small": ("backward_data", {"diff_src": "small", "weights": "weights", "diff_dst": "big"}),
        "weights": ("backward_weights", {"src": "small", "diff_weights": "weights", "diff_dst": "big"}),
    },
}
# The tensors whose format oneDNN chooses.
FORMATS = {"packed weights": ("weights",), "packed all": ("big", "small", "weights"), "plain": ()}


class Candidate:
    """oneDNN, which uses one thread for each CPU of the affinity mask."""

    def __init__(self, threads: int) -> None:
        path = library()
        if path is None:
            raise Refused("oneDNN is not installed: pip install onednn")
        self.library = Library(str(path))
        self.library.dll.dnnl_primitive_desc_query_md.restype = Handle
        stack = ExitStack()  # until the process ends
        self.engine = self.library.make(stack, "engine", CPU_ENGINE, ctypes.c_size_t(0))
        self.stream = self.library.make(stack, "stream", self.engine, IN_ORDER)

    def versions(self) -> dict[str, str]:
        class Version(ctypes.Structure):
            _fields_ = (("major", ctypes.c_int), ("minor", ctypes.c_int), ("patch", ctypes.c_int))

        ask = self.library.dll.dnnl_version
        ask.restype = ctypes.POINTER(Version)
        found = ask().contents
        return {"oneDNN": f"{found.major}.{found.minor}.{found.patch}"}

    def modes(self, tensors: AnyTensors) -> list[str]:
        if isinstance(tensors, ProductTensors):
            return ["matmul, plain"]
        if isinstance(tensors, OwnTensors):
            return list(onednn_own.FORMATS)
        if isinstance(tensors, StepTensors):
            return []  # its primitives are not bound here
        op = tensors.row.op
        return [f"{family}, {form}" for family in ROLES for form in FORMATS] + [f"graph {op}", f"graph {TWINS[op]}"]

    def ready(self, tensors: AnyTensors, mode: str) -> Ready:
        try:
            if isinstance(tensors, ProductTensors):
                return onednn_s(self, tensors, DTYPES, Dims, Argument)
            if isinstance(tensors, OwnTensors):
                return onednn_own.ready(self, tensors, mode)
            assert isinstance(tensors, Tensors)
            with ExitStack() as stack:
                if mode.startswith("graph "):
                    ready = self.graph(stack, tensors, mode.removeprefix("graph "))
                else:
                    family, form = mode.split(", ")
                    ready = _Primitive(self, stack, tensors, family, FORMATS[form]).ready()
                return replace(ready, close=stack.pop_all().close)
        except LibraryRefused as refused:
            raise Refused(f"{refused.stage}: {refused.status}") from None

    def graph(self, stack: ExitStack, tensors: Tensors, op: str) -> Ready:
        row = tensors.row
        if op == "ConvTransposeBackwardData" and max(row.geometry.dilations) > 1:
            raise Refused("R11: it drops dilations here, and may end its process")
        twin = Row(op, row.shape, row.dtype, row.layout, row.threads)
        names = (*INPUTS[op], row.solve)
        described = [_tensor(number, tensors.arrays[name], row.dtype) for number, name in enumerate(names)]
        request = {
            "kind": op,
            "attributes": library_attributes(twin.attributes()),
            "inputs": described[:-1],
            "outputs": described[-1:],
        }
        arrays = {number: tensors.arrays[name] for number, name in enumerate(names)}
        run, _ = self.library.compiled(stack, [request], arrays, self.engine, self.stream)
        return Ready(run=run, result=lambda: tensors.canonical(row.solve))


class _Primitive(Objects):
    """A convolution or deconvolution with the reorders that it needs."""

    def __init__(
        self, candidate: Candidate, stack: ExitStack, tensors: Tensors, family: str, free: tuple[str, ...]
    ) -> None:
        super().__init__(candidate, stack)
        self.tensors, self.family, self.free = tensors, family, free
        self.groups = tensors.row.geometry.groups

    def ready(self) -> Ready:
        row = self.tensors.row
        direction, roles = ROLES[self.family][row.solve]
        primitive_desc = self.description(direction, roles)
        primitive = self.made("primitive", "primitive_create", primitive_desc)
        arguments, before, after = [], [], []
        for role, name in roles.items():
            plain_md = self.plain(name)
            memory = self.memory(plain_md, self.tensors.arrays[name].ctypes.data)
            wanted = Handle(self.library.dll.dnnl_primitive_desc_query_md(primitive_desc, MDS[role], 0))
            if not self.library.dll.dnnl_memory_desc_equal(plain_md, wanted):
                other = self.memory(wanted, ALLOCATE)
                if name == row.solve:
                    after.append(self.reorder(wanted, other, plain_md, memory))
                else:
                    before.append(self.reorder(plain_md, memory, wanted, other))
                memory = other
            arguments.append((ARGUMENTS[role], memory))
        run = self.runs([*before, step(primitive, arguments), *after])
        info = ctypes.c_char_p()
        self.library.call("primitive_desc_query", primitive_desc, INFO, 0, ctypes.byref(info))
        return Ready(run, lambda: self.tensors.canonical(row.solve), (info.value or b"").decode())

    def description(self, direction: str, roles: dict[str, str]) -> Handle:
        shape = self.tensors.row.geometry
        mds: list[Handle | None] = [self.chosen(name) for name in roles.values()]
        if direction != "backward_data":
            mds.insert(2, None)  # bias
        steps = [
            Dims(*values)
            for values in (shape.strides, [step - 1 for step in shape.dilations], shape.pads_begin, shape.pads_end)
        ]
        algorithm = ALGORITHMS[self.family]
        if direction == "forward":
            given = (FORWARD, algorithm, *mds, *steps, None)
        else:
            hint = self.hint(steps)
            given = (algorithm, *mds, *steps, hint, None)
        create = f"{self.family}_{direction}_primitive_desc_create"
        return self.made("primitive_desc", create, self.engine, *given)

    def hint(self, steps: list[Any]) -> Handle:
        """The forward primitive that a backward one takes as its hint."""
        source, target = ("big", "small") if self.family == "convolution" else ("small", "big")
        mds = (self.chosen(source), self.chosen("weights"), None, self.chosen(target))
        create = f"{self.family}_forward_primitive_desc_create"
        return self.made("primitive_desc", create, self.engine, FORWARD, ALGORITHMS[self.family], *mds, *steps, None)

    def chosen(self, name: str) -> Handle:
        if name not in self.free:
            return self.plain(name)
        dims, _ = self.dims(name)
        dtype = DTYPES[self.tensors.row.dtype][0]
        return self.made("memory_desc", "memory_desc_create_with_tag", len(dims), Dims(*dims), dtype, ANY)

    def plain(self, name: str) -> Handle:
        dims, strides = self.dims(name)
        dtype = DTYPES[self.tensors.row.dtype][0]
        create = "memory_desc_create_with_strides"
        return self.made("memory_desc", create, len(dims), Dims(*dims), dtype, Dims(*strides))

    def dims(self, name: str) -> tuple[list[int], list[int]]:
        """Extents and distances in the library's order: data as (N, C, X), weights as ([G,] O, I, X)."""
        array = self.tensors.canonical(name)
        dims, strides = list(array.shape), _strides(array)
        if name != "weights":
            return dims, strides
        small = dims[0] // self.groups
        pairs = [(small, strides[0]), (dims[1], strides[1])]
        if self.family == "deconvolution":
            pairs.reverse()
        pairs += zip(dims[2:], strides[2:])
        if self.groups > 1:
            pairs.insert(0, (self.groups, small * strides[0]))
        return [extent for extent, _ in pairs], [stride for _, stride in pairs]


def _tensor(number: int, array: Array, dtype: str) -> dict[str, Any]:
    return {"id": number, "dtype": dtype, "dims": array.shape, "strides": _strides(array)}


def _strides(array: Array) -> list[int]:
    return [step // array.itemsize for step in array.strides]
