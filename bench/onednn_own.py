"""oneDNN's primitives for the rows of own.py: what follows a product or convolution is part of the primitive.

In: the candidate, tensors, and which of them have the format that oneDNN prefers. Out: a prepared call, with reorders.
"""

from __future__ import annotations

import ctypes
from contextlib import ExitStack
from typing import Any

from support.onednn_child import DTYPES, Dims, Handle

from .candidate import Ready
from .onednn_objects import ALLOCATE, ARGUMENTS, Objects, Step, step
from .own import OwnTensors
from .tensors import Array

ANY, FORWARD, DIRECT = 1, 96, 1  # dnnl_format_tag_any, dnnl_forward_inference, dnnl_convolution_direct
FORMATS = {"packed weights": ("weights",), "packed all": ("src", "weights", "dst"), "plain": ()}
NUMBERS = ARGUMENTS | {"residual": 2 << 15 | 2}  # of the second operand of the second operation that follows
MDS = {"src": 129, "weights": 131, "dst": 133}  # dnnl_query_<name>_md
RELU, GELU, ADD = 0x20, 0x31, 0x1FFF0  # dnnl_eltwise_<name>, dnnl_binary_add


class _Call(Objects):
    """The primitive of a row."""

    def __init__(self, candidate: Any, stack: ExitStack, tensors: OwnTensors, free: tuple[str, ...]) -> None:
        super().__init__(candidate, stack)
        self.tensors, self.free = tensors, free

    def seen(self, name: str) -> Array:
        """An array as the primitive has it: the bias of a product has two axes."""
        found = self.tensors.seen(name)
        return found[None] if name == "bias" and self.tensors.row.case.kind == "matmul" else found

    def described(self, name: str, chosen: bool) -> Handle:
        array = self.seen(name)
        kind, dims = DTYPES[self.tensors.dtype_of(name)][0], Dims(*array.shape)
        if chosen:
            return self.made("memory_desc", "memory_desc_create_with_tag", array.ndim, dims, kind, ANY)
        steps = Dims(*(distance // array.itemsize for distance in array.strides))
        return self.made("memory_desc", "memory_desc_create_with_strides", array.ndim, dims, kind, steps)

    def description(self) -> Handle:
        case = self.tensors.row.case
        mds = {name: self.described(name, name in self.free) for name in case.arrays}
        attributes = self.made("primitive_attr", "primitive_attr_create")
        if case.group == "fused":
            after = self.made("post_ops", "post_ops_create")
            none = ctypes.c_float(0)
            self.library.call("post_ops_append_eltwise", after, GELU if "residual" in mds else RELU, none, none)
            if "residual" in mds:
                self.library.call("post_ops_append_binary", after, ADD, mds["residual"])
            self.library.call("primitive_attr_set_post_ops", attributes, after)
        operands = [mds["src"], mds["weights"], mds.get("bias"), mds["dst"]]
        if case.kind == "matmul":
            return self.made("primitive_desc", "matmul_primitive_desc_create", self.engine, *operands, attributes)
        strides, pads = case.attributes["strides"], case.attributes["pads"]
        steps = [Dims(*values) for values in (strides, [0] * len(strides), pads, pads)]
        create = "convolution_forward_primitive_desc_create"
        return self.made("primitive_desc", create, self.engine, FORWARD, DIRECT, *operands, *steps, attributes)

    def steps(self) -> list[Step]:
        """What runs, in order."""
        description = self.description()
        arguments, before, after = [], list[Step](), list[Step]()
        for name in self.tensors.row.case.arrays:
            plain = self.described(name, chosen=False)
            memory = self.memory(plain, self.seen(name).ctypes.data)
            wanted = plain
            if name in MDS:
                wanted = Handle(self.library.dll.dnnl_primitive_desc_query_md(description, MDS[name], 0))
            if not self.library.dll.dnnl_memory_desc_equal(plain, wanted):
                other = self.memory(wanted, ALLOCATE)
                if name == "dst":
                    after.append(self.reorder(wanted, other, plain, memory))
                else:
                    before.append(self.reorder(plain, memory, wanted, other))
                memory = other
            arguments.append((NUMBERS[name], memory))
        return [*before, step(self.made("primitive", "primitive_create", description), arguments), *after]


def ready(candidate: Any, tensors: OwnTensors, mode: str) -> Ready:
    """The call in one of FORMATS."""
    with ExitStack() as stack:
        call = _Call(candidate, stack, tensors, FORMATS[mode])
        return Ready(run=call.runs(call.steps()), result=lambda: tensors.result, close=stack.pop_all().close)
