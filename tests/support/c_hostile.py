"""Calls of a C library with members that no call should have, in a process of its own: it answers, and does not crash.

In: a compiled library, how many calls of each operation, and perhaps names of operations. Each member of a legal call
is changed, one at a time: pointers that are NULL, counts and axes below 0 and beyond any array, extents and strides at
the limits of 64 bits, data types that are none, addresses that are not aligned; and what is beside the call: the
workspace, the number of threads, the places of answers. Out, on stdout: a line for each answer that is none, and at the
end the numbers of answers. Before each call its name goes to stderr, so that a crash names it. Nothing here knows an
operation.
"""

from __future__ import annotations

import ctypes as c
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from opwright.load import load_with_gradients

from .c_library import CCall, CLibrary, Error, Memory, Refused, Run, Several, Shape, Tensor
from .draws import rng
from .spec_calls import Caller
from .specs import FOLDER
from .step_calls import StepCaller

LIMITS = (-1, -(2**63), 2**62, 2**63 - 1)
AXES = 70  # for which lists of a changed tensor have room: more than any array has
KINDS = (0, -1, 99, 2**31 - 1, -(2**31))
Set = Callable[[], None]


def numbers(address: int | None, count: int, fill: int) -> Any:
    """A list as long as the most axes that are asked for, which begins as the given one."""
    made = (c.c_int64 * AXES)(*([fill] * AXES))
    if address:
        made[:count] = (c.c_int64 * count).from_address(address)[:]
    return made


def of_tensor(tensor: Tensor, call: CCall) -> Iterator[tuple[str, Set]]:
    """Every change of a tensor; each is undone by the next."""
    before = {name: getattr(tensor, name) for name, _ in Tensor._fields_}
    rank = tensor.ndim
    shape = numbers(before["shape"], rank, 1)
    dense = [int(np.prod(shape[axis + 1 : rank], dtype=object)) for axis in range(rank)]
    strides = numbers(before["strides"], rank, 1)
    if not before["strides"]:
        strides[:rank] = dense
    call.keeps += [shape, strides]
    own = {"shape": c.addressof(shape), "strides": c.addressof(strides)}

    def put(**members: Any) -> Set:
        def changed() -> None:
            for name, value in {**before, **members}.items():
                setattr(tensor, name, value)

        return changed

    for kind in KINDS:
        yield f"dtype {kind}", put(dtype=kind)
    for axes in (-1, 65, rank + 1, 64, 2**31 - 1, -(2**31)):
        yield f"ndim {axes}", put(ndim=axes, **(own if axes <= AXES else {}))
    for name in ("data", "shape"):
        yield f"{name} NULL", put(**{name: None})
    yield "data not aligned", put(data=(before["data"] or 0) + 1)
    for name, entries in (("shape", shape), ("strides", strides)):
        for axis in range(rank):
            kept = entries[axis]
            for value in (*LIMITS, 0):
                entries[axis] = value
                yield f"{name}[{axis}] {value}", put(**own)
            entries[axis] = kept
    put()()


def changes(call: CCall) -> Iterator[tuple[str, Set]]:
    """Every change of a call, with its name; each is undone before the next."""
    for at, tensor in enumerate([kept for kept in call.keeps if isinstance(kept, Tensor)]):
        for name, change in of_tensor(tensor, call):
            yield f"tensor {at} {name}", change
    for name, kind in type(call.struct)._fields_:
        before = getattr(call.struct, name)
        if kind is Several:
            entries, count = before.entries, before.count
            for other in ((None, 1), (entries, -1), (entries, -(2**63)), (None, 2**63 - 1)):
                yield f"{name} {other}", lambda name=name, other=other: setattr(call.struct, name, Several(*other))
            before = Several(entries, count)
        elif kind in (c.c_void_p, c.c_char_p):
            yield f"{name} NULL", lambda name=name: setattr(call.struct, name, None)
        else:
            for value in (
                (*LIMITS, 0) if kind is c.c_int64 else (float("nan"), float("-inf")) if kind is c.c_double else ()
            ):
                yield f"{name} {value}", lambda name=name, value=value: setattr(call.struct, name, value)
        setattr(call.struct, name, before)


class Asking:
    """What a library answers, by its three functions of an operation."""

    def __init__(self, library: CLibrary, function: str, call: CCall) -> None:
        self.call, self.error = call, Error()
        names = [f"opwright_{function}{ending}" for ending in ("_infer", "_workspace", "")]
        self.infer, self.workspace, self.run = [getattr(library.lib, name) for name in names]
        self.room = np.zeros(4096 + 64, np.uint8)

    def answers(self, run: Run | None = None) -> list[tuple[str, int, str, str]]:
        """Of each function its code, rule and message."""
        memory, shapes = Memory(), (Shape * max(self.call.outputs, 1))()
        start = self.room.ctypes.data
        given = run or Run(start + -start % 64, 2**40, None, 1)
        found = []
        for name, ask in (
            ("infer", lambda *error: self.infer(c.byref(self.call.struct), shapes, *error)),
            (
                "workspace",
                lambda *error: self.workspace(c.byref(self.call.struct), c.byref(given), c.byref(memory), *error),
            ),
            ("run", lambda *error: self.run(c.byref(self.call.struct), c.byref(given), *error)),
        ):
            c.memset(c.byref(self.error), 0x55, c.sizeof(Error))
            code = ask(c.byref(self.error))
            said = [getattr(self.error, part)[:200].decode(errors="replace") for part in ("rule", "message")]
            found.append((name, code, *said))
            if ask(None) != code:
                found.append((f"{name} without an error", -1, "", ""))
        return found


def runs(start: int, needed: int) -> Iterator[tuple[str, Run]]:
    """What may be wrong beside a call."""
    for threads in (*LIMITS[:2], 0, 257, 2**63 - 1):
        yield f"{threads} threads", Run(start, max(needed, 64), None, threads)
    if needed:
        yield "no workspace", Run(None, needed, None, 1)
        yield "a workspace that is not aligned", Run(start + 8, needed, None, 1)
        yield "a workspace too small", Run(start, needed - 1, None, 1)
        yield "a workspace of no bytes", Run(start, 0, None, 1)


def main(path: str, count: int, only: list[str]) -> None:
    library = load_with_gradients(FOLDER, FOLDER.parents[1])
    library = replace(library, ops=[op for op in library.every if not only or op.function in only])
    compiled, total, refused = CLibrary(Path(path), library), 0, 0
    for op in library.ops:
        caller: Any = (StepCaller if op.stepped else Caller)(op, rng("hostile C", op.function))
        for drawn in caller.legal(count):
            outputs = compiled.outputs(op.function, drawn.inputs, drawn.attributes)
            call = compiled.call(op.function, drawn.inputs, drawn.attributes, outputs)
            asking = Asking(compiled, op.function, call)
            *_, (_, _, legal, _) = asking.answers()
            try:
                needed = compiled.workspace(op.function, call, Run(None, 0, None, 1)).bytes
            except Refused:  # a library of rules alone has no kernels that would need any
                needed = 0
            start = asking.room.ctypes.data
            for name, run in [("legal", None), *runs(start + -start % 64, needed)]:
                print(op.function, name, file=sys.stderr, flush=True)
                for asked, code, rule, message in asking.answers(run):
                    if code not in (0, 1) or (code == 1 and f"rule {rule}" not in message):
                        print(op.function, name, asked, code, rule, message[:150])
                    if run and asked == "run" and "workspace" in name and rule != "workspace":
                        print(op.function, name, asked, code, rule, message[:150])
            for name, change in changes(call):
                change()
                print(op.function, name, file=sys.stderr, flush=True)
                answers = asking.answers()
                for asked, code, rule, message in answers:
                    if code not in (0, 1) or (code == 1 and not (rule and f"{op.function}: rule {rule}" in message)):
                        print(op.function, name, asked, code, rule, message[:150])
                total += 1
                refused += answers[-1][2] != legal
    print(total, refused)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3:])
