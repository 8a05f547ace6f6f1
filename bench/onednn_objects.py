"""Objects of oneDNN's C API: what makes, reorders and executes, for the modules that build primitives.

In: a candidate and the stack that destroys its objects. Out: handles, and calls of several primitives.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Any

from support.onednn_child import Handle

from .candidate import Refused

ALLOCATE = Handle(2**64 - 1)
# DNNL_ARG_<name>.
ARGUMENTS = {"src": 1, "dst": 17, "weights": 33, "bias": 41, "diff_src": 129, "diff_dst": 145, "diff_weights": 161}
FROM, TO = ARGUMENTS["src"], ARGUMENTS["dst"]
Step = tuple[Handle, int, Any]


class Argument(ctypes.Structure):
    """`dnnl_exec_arg_t`."""

    _fields_ = (("arg", ctypes.c_int), ("memory", Handle))


class Objects:
    """What a primitive is made of."""

    def __init__(self, candidate: Any, stack: ExitStack) -> None:
        self.library, self.stack = candidate.library, stack
        self.engine, self.stream = candidate.engine, candidate.stream

    def made(self, kind: str, create: str, *arguments: Any) -> Handle:
        """The object that `dnnl_<create>` makes, and `dnnl_<kind>_destroy` destroys in the end."""
        handle = Handle()
        self.library.call(create, ctypes.byref(handle), *arguments)
        self.stack.callback(self.library.call, f"{kind}_destroy", handle)
        return handle

    def memory(self, md: Handle, where: Any) -> Handle:
        return self.made("memory", "memory_create", md, self.engine, where if where is ALLOCATE else Handle(where))

    def reorder(self, from_md: Handle, source: Handle, to_md: Handle, target: Handle) -> Step:
        create = "reorder_primitive_desc_create"
        described = self.made("primitive_desc", create, from_md, self.engine, to_md, self.engine, None)
        return step(self.made("primitive", "primitive_create", described), [(FROM, source), (TO, target)])

    def runs(self, steps: Sequence[Step]) -> Callable[[], None]:
        """A call that executes all of them."""
        execute, wait, stream = (
            self.library.dll.dnnl_primitive_execute,
            self.library.dll.dnnl_stream_wait,
            self.stream,
        )

        def run() -> None:
            status = 0
            for handle, count, given in steps:
                status |= execute(handle, stream, count, given)
            if status | wait(stream):
                raise Refused("primitive_execute failed")

        return run


def step(primitive: Handle, arguments: Sequence[tuple[int, Handle]]) -> Step:
    given = (Argument * len(arguments))(*(Argument(number, memory) for number, memory in arguments))
    return primitive, len(arguments), given
