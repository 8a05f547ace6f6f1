"""The rows of the benchmark's own specs, bench/specs: fused layers, and products and convolutions of bytes.

In: nothing. Out: rows beside those of rows.py, of the same form. `opwright bench --filter fused/` measures some.
"""

from __future__ import annotations

import atexit
import math
import tempfile
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from opwright.language.surface import snake_case
from support.package import package

from .candidate import Ready, Refused
from .case_row import CaseRow
from .tensors import NUMPY, Array, empty

SPECS = Path(__file__).with_name("specs")
THREADS = (2, 1)
FLOATS, BYTES = ("f32", "bf16"), ("s8", "u8")
EAGER, COMPILED = "eager", "torch.compile"
Extents = tuple[int, ...]


@dataclass(frozen=True)
class Case:
    """A call but for its dtype: arrays by name, in the order of the call, the result last.

    `torch` takes the inputs as PyTorch has them. `moved` arrays have their channels last, and `turned` ones are turned
    for oneDNN, whose primitive is `kind`. `dtypes` are those of the first array; bytes are multiplied by s8.
    """

    op: str
    name: str
    arrays: Mapping[str, Extents]
    torch: Callable[..., Any]
    kind: str
    dtypes: tuple[str, ...] = FLOATS
    attributes: Mapping[str, Any] = field(default_factory=dict)
    moved: tuple[str, ...] = ()
    turned: tuple[str, ...] = ()

    @property
    def group(self) -> str:
        return "bytes" if self.dtypes == BYTES else "fused"

    def seen(self, name: str, array: Any) -> Any:
        """An array with its axes in the peers' order."""
        return array.transpose(0, -1, *range(1, array.ndim - 1)) if name in self.moved else array


def _linear(src: Any, weights: Any, bias: Any, residual: Any) -> Any:
    from torch.nn import functional

    return functional.gelu(functional.linear(src, weights, bias)) + residual


def _convolution(src: Any, weights: Any, bias: Any = None, *, strides: list[int], pads: list[int]) -> Any:
    from torch.nn import functional

    found = functional.conv2d(src, weights, bias, strides, pads)
    return found if bias is None else found.relu()


def _product(src: Any, weights: Any) -> Any:
    import torch

    return torch._int_mm(src, weights) if src.dtype == torch.int8 else src @ weights


def _cases() -> list[Case]:
    cases = []
    for rows, outputs, inputs in (
        (4096, 64, 64),
        (197, 3072, 768),
        (197, 768, 3072),
        (1024, 1024, 1024),
        (8, 4096, 4096),
    ):
        arrays = {"src": (rows, inputs), "weights": (outputs, inputs), "bias": (outputs,), "residual": (rows, outputs)}
        cases.append(Case("ActivatedLinear", f"{rows}x{outputs}x{inputs}", {**arrays, "dst": (rows, outputs)}, _linear,
                          "matmul", turned=("weights",)))  # fmt: skip
    for batch, big, small, size, taps, stride in (
        (1, 64, 64, 56, 3, 1), (16, 64, 64, 56, 3, 1), (1, 256, 64, 56, 1, 1), (1, 64, 256, 56, 1, 1),
        (16, 256, 512, 28, 1, 2), (1, 512, 512, 7, 3, 1), (1, 3, 64, 224, 7, 2), (16, 128, 128, 28, 3, 1),
    ):  # fmt: skip
        steps = {"strides": [stride, stride], "pads": [taps // 2, taps // 2]}
        made = (size - 1) // stride + 1
        weights, name = (small, big, taps, taps), f"{batch}x{big}_{small}x{size}_{taps}s{stride}"
        last = {"src": (batch, size, size, big), "weights": weights, "dst": (batch, made, made, small)}
        first = {
            "src": (batch, big, size, size),
            "weights": weights,
            "bias": (small,),
            "dst": (batch, small, made, made),
        }
        torch = partial(_convolution, **steps)
        cases += [
            Case("ActivatedConvolution", f"{name}/ncx", first, torch, "convolution", FLOATS,
                 {**steps, "data_format": "NCX"}),
            Case("ActivatedConvolution", f"{name}/nxc", {key: last.get(key, (small,)) for key in first}, torch,
                 "convolution", FLOATS, {**steps, "data_format": "NXC"}, ("src", "dst")),
            Case("ByteConvolution", name, last, torch, "convolution", BYTES, steps, ("src", "dst")),
        ]  # fmt: skip
    for rows, columns, depth in (
        (64, 64, 64), (256, 256, 256), (1024, 1024, 1024), (2048, 2048, 2048), (1, 4096, 4096), (8, 4096, 4096),
        (32, 4096, 1024), (4096, 64, 64), (197, 768, 3072),
    ):  # fmt: skip
        arrays = {"src": (rows, depth), "weights": (depth, columns), "dst": (rows, columns)}
        cases.append(Case("ByteProduct", f"{rows}x{columns}x{depth}", arrays, _product, "matmul", BYTES))
    return cases


_BY_NAME = {f"{case.group}/{snake_case(case.op)}/{case.name}": case for case in _cases()}


@dataclass(frozen=True)
class OwnRow(CaseRow):
    """A row of a case."""

    @property
    def case(self) -> Case:
        return _BY_NAME[self.case_name]

    @property
    def result_dtype(self) -> str:
        return "s32" if self.case.group == "bytes" else self.dtype

    @property
    def flops(self) -> int:
        """Two for each term of a product."""
        weights, dst = self.case.arrays["weights"], self.case.arrays["dst"]
        terms = weights[0] if self.case.op == "ByteProduct" else math.prod(weights[1:])
        return 2 * math.prod(dst) * terms

    def tensors(self) -> OwnTensors:
        return OwnTensors(self)


class OwnTensors:
    """The arrays of a row: small integers, the same in every dtype; cells of fused layers are divided by 8."""

    def __init__(self, row: OwnRow) -> None:
        self.row, case = row, row.case
        self.arrays: dict[str, Array] = {}
        for name, extents in case.arrays.items():
            generator = np.random.default_rng(zlib.crc32(f"{case.name} {name}".encode()))
            least = 0 if case.group == "bytes" and name == "src" else -2  # which u8 holds, too
            self.arrays[name] = empty(extents, NUMPY[self.dtype_of(name)])
            self.arrays[name][...] = generator.integers(least, 3, extents, np.int8)
            if case.group == "fused":
                self.arrays[name] /= NUMPY[self.dtype_of(name)].type(8)
        self.forget()

    def dtype_of(self, name: str) -> str:
        if name == "dst" and self.row.dtype != "f64":
            return self.row.result_dtype
        return "s8" if name == "weights" and self.row.dtype == "u8" else self.row.dtype

    @property
    def inputs(self) -> list[Array]:
        return [array for name, array in self.arrays.items() if name != "dst"]

    @property
    def result(self) -> Array:
        return self.arrays["dst"]

    def seen(self, name: str) -> Array:
        """An array with its axes in the peers' order."""
        found: Array = self.row.case.seen(name, self.arrays[name])
        return found.T if name in self.row.case.turned else found

    def forget(self) -> None:
        """Overwrite the result, so that a cell that nobody writes is found."""
        self.result[...] = 77


def every() -> list[OwnRow]:
    """Every row."""
    return [OwnRow(name, dtype, n) for name, case in _BY_NAME.items() for dtype in case.dtypes for n in THREADS]


# How each candidate computes them.


@cache
def kernels() -> ModuleType:
    """The package of bench/specs, generated anew in each process; its compiled kernels are in the user's cache."""
    folder = tempfile.TemporaryDirectory()
    atexit.register(folder.cleanup)
    texts = {path.name: path.read_text(encoding="utf-8") for path in sorted(SPECS.glob("*.yaml"))}
    return package(texts, Path(folder.name), "bench_kernels")[1]


def ours(tensors: OwnTensors, threads: int) -> Ready:
    """The function of the package of bench/specs."""
    case = tensors.row.case
    function, given, out = getattr(kernels(), snake_case(case.op)), tensors.inputs, tensors.result
    run = partial(function, *given, **case.attributes, out=out, threads=threads)
    run()  # which compiles
    return Ready(run, lambda: tensors.result, case.op)


def torch_modes(tensors: OwnTensors) -> list[str]:
    """PyTorch multiplies matrices of s8, and fuses nothing unless it compiles."""
    case = tensors.row.case
    if case.group == "bytes":
        return [EAGER] if tensors.row.dtype == "f64" or (case.kind, tensors.row.dtype) == ("matmul", "s8") else []
    return [EAGER] if tensors.row.dtype == "f64" else [COMPILED, EAGER]


def computed(tensors: OwnTensors, mode: str, tensor: Callable[[Array], Any], array: Callable[[Any], Array]) -> Ready:
    """PyTorch's functions, compiled into one by Inductor or one after the other."""
    import torch

    case = tensors.row.case
    given = [tensor(case.seen(name, one)) for name, one in tensors.arrays.items() if name != "dst"]
    function: Any = case.torch
    if mode == COMPILED:
        torch.compiler.reset()  # after eight shapes of a function it compiles no more
        function = torch.compile(case.torch, dynamic=False)
    found: list[Any] = [None]

    def run() -> None:
        with torch.inference_mode():
            result = function(*given)
            if "dst" in case.moved:
                result = result.movedim(1, -1).contiguous()
            found[0] = result

    try:
        run()  # which compiles
    except Exception as error:
        raise Refused(str(error)) from None
    return Ready(run=run, result=lambda: array(found[0]))


def exact(tensors: OwnTensors) -> Ready:
    """PyTorch in float64."""
    import torch

    return computed(tensors, EAGER, torch.from_numpy, lambda found: found.contiguous().numpy())
