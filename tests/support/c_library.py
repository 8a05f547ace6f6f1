"""The exported C library, compiled here and called through ctypes.

In: operations. Out: a `CLibrary` that takes a call as the Python function does and answers with shapes, a refusal or
results. Without kernels a library understands calls and refuses bad ones, which takes seconds to compile.
"""

from __future__ import annotations

import ctypes as c
import subprocess
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from opwright.derive.rewrites.as_steps import as_steps
from opwright.emit.c import interface as c_interface
from opwright.language.dtypes import DTYPES
from opwright.language.library import Library
from opwright.oracle import dtypes as oracle

NUMBERS = {dtype.numpy: number for number, dtype in enumerate(DTYPES.values(), start=1)}
NUMPY = {number: name for name, number in NUMBERS.items()}
ARRAYS = {DTYPES[name].numpy: dtype for name, dtype in oracle.NUMPY.items()}
STRICT = ("-std=c11", "-Wall", "-Wextra", "-Wconversion", "-Werror")


class Tensor(c.Structure):
    _fields_ = [
        ("data", c.c_void_p), ("dtype", c.c_int), ("ndim", c.c_int32), ("shape", c.c_void_p), ("strides", c.c_void_p)
    ]  # fmt: skip


class Several(c.Structure):
    _fields_ = [("entries", c.c_void_p), ("count", c.c_int64)]


class Error(c.Structure):
    _fields_ = [("rule", c.c_char * 96), ("argument", c.c_char * 96), ("message", c.c_char * 4096)]


class Run(c.Structure):
    _fields_ = [("workspace", c.c_void_p), ("bytes", c.c_size_t), ("team", c.c_void_p), ("threads", c.c_int64)]


class Memory(c.Structure):
    _fields_ = [("bytes", c.c_size_t), ("alignment", c.c_size_t)]


class Shape(c.Structure):
    _fields_ = [("given", c.c_bool), ("dtype", c.c_int), ("ndim", c.c_int32), ("shape", c.c_int64 * 64)]


TYPES = {
    "const opwright_tensor *": c.c_void_p,
    "opwright_tensors": Several,
    "int64_t": c.c_int64,
    "double": c.c_double,
    "bool": c.c_bool,
    "const char *": c.c_char_p,
    "opwright_list": Several,
    "opwright_reals": Several,
}


@dataclass
class CCall:
    """A call as C has it; `keeps` is what its pointers lead to."""

    struct: c.Structure
    outputs: int
    keeps: list[Any] = field(default_factory=list)


class Refused(Exception):  # noqa: N818  # an answer, as in the package
    """What C refuses: the rule, the argument, the message."""

    def __init__(self, error: Error) -> None:
        self.rule, self.argument, self.message = (getattr(error, n).decode() for n in ("rule", "argument", "message"))
        super().__init__(self.message)


def compiled(folder: Path, target: Path, compiler: Sequence[str] = ("gcc", "-O0"), flags: Sequence[str] = ()) -> Path:
    """The library of an export without kernels: it understands calls, infers shapes and refuses."""
    sources = [*sorted((folder / "interface").rglob("*.c")), folder / "c/engine/team.c"]
    include = [f"-I{folder / name}" for name in ("interface", "public", "include", "c/engine")]
    target.mkdir(parents=True, exist_ok=True)

    def made(source: Path) -> Path:
        out = target / f"{source.stem}.o"
        strict = STRICT if source.parent.name == "interface" else STRICT[:1]
        command = [
            *compiler,
            *strict,
            "-fPIC",
            "-fvisibility=hidden",
            *flags,
            *include,
            "-c",
            str(source),
            "-o",
            str(out),
        ]
        subprocess.run(command, check=True)
        return out

    with ThreadPoolExecutor(2) as pool:
        objects = [*pool.map(made, sources)]
    library = target / "libinterface.so"
    subprocess.run([*compiler, *flags, "-shared", "-o", library, *objects, "-lm", "-lpthread"], check=True)
    return library


def tensor(value: Any, keeps: list[Any], *, data: bool = True) -> Tensor:
    """An array, or the description of one, as C has it."""
    shape = (c.c_int64 * max(len(value.shape), 1))(*value.shape)
    made = Tensor(None, NUMBERS.get(_name(value.dtype), 0), len(value.shape), c.addressof(shape), None)
    keeps += [value, shape, made]
    if isinstance(value, np.ndarray):
        if not value.flags.c_contiguous:
            steps = (c.c_int64 * max(value.ndim, 1))(*(step // value.itemsize for step in value.strides))
            keeps.append(steps)
            made.strides = c.addressof(steps)
        made.data = value.__array_interface__["data"][0] if data else None
    return made


def _name(dtype: Any) -> str:
    name = str(np.dtype(dtype))
    return "bool_" if name == "bool" else name


class CLibrary:
    """A compiled library."""

    def __init__(self, path: Path, library: Library) -> None:
        self.lib = c.CDLL(str(path))
        self.ops = {op.function: as_steps(op) for op in library.ops}
        self.structs: dict[str, type[c.Structure]] = {}

    def struct(self, function: str) -> type[c.Structure]:
        if function not in self.structs:
            members = [(a.name, TYPES[a.c_type]) for a in c_interface.arguments(self.ops[function])]
            self.structs[function] = type(function, (c.Structure,), {"_fields_": members})
        return self.structs[function]

    def call(
        self, function: str, inputs: Sequence[Any], values: Mapping[str, Any], outputs: Sequence[Any] = ()
    ) -> CCall:
        """A call whose attributes are the given ones, and the defaults of the others."""
        members = c_interface.arguments(self.ops[function])
        made = CCall(self.struct(function)(), sum(a.role == "output" for a in members))
        given = dict(zip([a.name for a in members if a.role == "input"], inputs))
        results = dict(zip([a.name for a in members if a.role == "output"], outputs))
        for member in members:
            if member.role == "attribute":
                setattr(made.struct, member.name, self.attribute(member, values, made.keeps))
                continue
            value = given.get(member.name) if member.role == "input" else results.get(member.name)
            if value is None:
                continue
            if member.joined:
                parts = [c.addressof(tensor(part, made.keeps)) for part in value]
                entries = (c.c_void_p * max(len(parts), 1))(*parts)
                made.keeps.append(entries)
                setattr(made.struct, member.name, Several(c.addressof(entries), len(parts)))
            else:
                setattr(made.struct, member.name, c.addressof(tensor(value, made.keeps)))
        return made

    def attribute(self, member: c_interface.Argument, values: Mapping[str, Any], keeps: list[Any]) -> Any:
        if member.name not in values or values[member.name] is None:
            plain = {"NULL": None, "true": True, "false": False, "{NULL, 0}": Several(None, 0)}
            if member.default in plain:
                return 0 if member.c_type == "bool" and plain[member.default] is None else plain[member.default]
            if member.c_type == "const char *":
                return member.default.strip('"').encode()
            return TYPES[member.c_type](float(member.default) if member.c_type == "double" else int(member.default))
        value = values[member.name]
        if member.c_type == "const char *":
            return value.encode()
        if member.c_type in ("opwright_list", "opwright_reals"):
            kind = c.c_int64 if member.c_type == "opwright_list" else c.c_double
            entries = (kind * max(len(value), 1))(*value)
            keeps.append(entries)
            return Several(c.addressof(entries), len(value))
        return value

    def infer(self, function: str, call: CCall) -> list[tuple[tuple[int, ...], str]]:
        """Shapes and data types of the outputs that a call has. Refused where it breaks a rule."""
        return [found for found in self._shapes(function, call) if found is not None]

    def outputs(self, function: str, inputs: Sequence[Any], values: Mapping[str, Any]) -> list[Any]:
        """Arrays to write into; None for an output that a call does not have."""
        found = self._shapes(function, self.call(function, inputs, values))
        return [None if one is None else np.full(one[0], 7, ARRAYS[one[1]]) for one in found]

    def _shapes(self, function: str, call: CCall) -> list[tuple[tuple[int, ...], str] | None]:
        shapes, error = (Shape * call.outputs)(), Error()
        if getattr(self.lib, f"opwright_{function}_infer")(c.byref(call.struct), shapes, c.byref(error)):
            raise Refused(error)
        return [(tuple(s.shape[: s.ndim]), NUMPY[s.dtype]) if s.given else None for s in shapes]

    def workspace(self, function: str, call: CCall, run: Run) -> Memory:
        memory, error = Memory(), Error()
        if getattr(self.lib, f"opwright_{function}_workspace")(
            c.byref(call.struct), c.byref(run), c.byref(memory), c.byref(error)
        ):
            raise Refused(error)
        return memory

    def run(self, function: str, call: CCall, run: Run | None = None) -> None:
        """Run a call with memory as large as it says, or with `run` as it is."""
        error = Error()
        if run is None:
            run = Run(None, 0, None, 1)
        if run.workspace is None and run.bytes == 0:
            memory = self.workspace(function, call, run)
            raw = np.full(memory.bytes + 64, 0xFF, np.uint8)
            call.keeps.append(raw)
            start = raw.ctypes.data
            run.workspace, run.bytes = start + -start % 64, memory.bytes
        if getattr(self.lib, f"opwright_{function}")(c.byref(call.struct), c.byref(run), c.byref(error)):
            raise Refused(error)


class AsModule:
    """The library as a package: functions of arrays, which refuse by `SpecError`."""

    SpecError = Refused

    def __init__(self, library: CLibrary) -> None:
        self.library = library

    def __getattr__(self, function: str) -> Callable[..., Any]:
        def called(*inputs: Any, threads: int | None = None, out: Any = None, **attributes: Any) -> Any:
            made = self.library.outputs(function, inputs, attributes)
            call = self.library.call(function, inputs, attributes, made)
            self.library.run(function, call, Run(None, 0, None, threads or 1))
            present = tuple(one for one in made if one is not None)
            return present if len(present) != 1 else present[0]

        return called
