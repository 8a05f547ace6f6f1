"""The rows of matrix products: sizes, dtypes, the transposed side, and the call of each candidate.

In: nothing. Out: rows beside those of rows.py, of the same form. `opwright bench --filter mat_mul` measures them.
"""

from __future__ import annotations

import ctypes
import math
import zlib
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np

from .candidate import Ready
from .tensors import NUMPY, Array, empty

DTYPES = {"f32": 4, "bf16": 2}
THREADS = (2, 1)
# Stacks, rows, columns, depth, and n or t for each factor: as it is, or transposed.
Sizes = tuple[tuple[int, ...], int, int, int]
SQUARE: tuple[Sizes, ...] = tuple(((), size, size, size) for size in (64, 128, 256, 512, 1024, 2048, 4096))
SKINNY: tuple[Sizes, ...] = (
    ((), 1, 4096, 4096), ((), 4096, 1, 4096), ((), 8, 4096, 4096), ((), 32, 4096, 1024), ((), 4096, 64, 64),
    ((), 4096, 16, 4096), ((), 64, 64, 4096), ((), 1000, 1000, 1000), ((), 197, 768, 3072),
)  # fmt: skip
STACKED: tuple[Sizes, ...] = (
    ((16,), 128, 128, 64),
    ((16,), 128, 64, 128),
    ((8, 12), 197, 197, 64),
    ((96,), 64, 64, 64),
)
SIDES = ("nn", "nt", "tn", "tt")


@dataclass(frozen=True)
class Product:
    """A row of products. `key` is its name in results."""

    stack: tuple[int, ...]
    rows: int
    columns: int
    depth: int
    sides: str
    dtype: str
    threads: int
    op: str = "MatMul"
    solve: str = "dst"

    @property
    def shape(self) -> str:
        sizes = "x".join(map(str, (*self.stack, self.rows, self.columns, self.depth)))
        return f"{sizes}_{self.sides}"

    @property
    def key(self) -> str:
        return f"mat_mul/{self.shape}/{self.dtype}/{self.threads}"

    @property
    def result_dtype(self) -> str:
        return self.dtype

    @property
    def flops(self) -> int:
        return 2 * math.prod((*self.stack, self.rows, self.columns, self.depth))

    def exact(self) -> Product:
        """The row with the same result before rounding."""
        return replace(self, dtype="f32", threads=1)

    def tensors(self) -> ProductTensors:
        return ProductTensors(self)


class ProductTensors:
    """The arrays of a row: factors of small integers, each in the order of memory of its side, and the result."""

    def __init__(self, row: Product) -> None:
        self.row = row
        extents = {"src": (row.rows, row.depth), "weights": (row.depth, row.columns)}
        dtype = NUMPY[row.dtype]
        self.arrays: dict[str, Array] = {}
        for (name, (first, last)), side in zip(extents.items(), row.sides, strict=True):
            generator = np.random.default_rng(zlib.crc32(f"{row.shape} {name}".encode()))
            values = generator.integers(-2, 3, (*row.stack, first, last), np.int8)
            turned = values.swapaxes(-1, -2) if side == "t" else values
            self.arrays[name] = empty(turned.shape, dtype)
            self.arrays[name][...] = turned
        self.arrays["dst"] = empty((*row.stack, row.rows, row.columns), dtype)
        self.forget()

    def factor(self, name: str) -> Array:
        """A factor in the order of the product, independent of its order in memory."""
        side = self.row.sides[name == "weights"]
        return self.arrays[name].swapaxes(-1, -2) if side == "t" else self.arrays[name]

    def canonical(self, name: str) -> Array:
        return self.arrays[name]

    @property
    def result(self) -> Array:
        return self.arrays["dst"]

    def forget(self) -> None:
        """Overwrite the result, so that unwritten cells are found."""
        self.result[...] = np.nan


def every() -> list[Product]:
    """Every row, the square ones first; stacks as attention has them."""
    sizes: list[tuple[Sizes, str]] = [(size, side) for size, side in product((*SQUARE, *SKINNY), SIDES)]
    sizes += [(size, side) for size, side in product(STACKED, ("nn", "nt"))]
    return [Product(*size, side, dtype, threads) for (size, side), threads, dtype in product(sizes, THREADS, DTYPES)]


# How each candidate computes them.


def exactly(tensors: ProductTensors) -> Ready:
    """In float64, which is exact for small integers."""

    def run() -> None:
        left, right = (tensors.factor(name).astype(np.float64) for name in ("src", "weights"))
        tensors.arrays["dst"] = left @ right

    return Ready(run=run, result=lambda: tensors.result)


def ours(tensors: ProductTensors, threads: int) -> Ready:
    """The public function of the package."""
    import opwright_kernels

    given = [tensors.arrays["src"], tensors.arrays["weights"]]
    sides: dict[str, Any] = {"transpose_a": tensors.row.sides[0] == "t", "transpose_b": tensors.row.sides[1] == "t"}
    out, function = tensors.result, opwright_kernels.mat_mul
    opwright_kernels.build_kernels("mat_mul")
    return Ready(lambda: function(*given, **sides, out=out, threads=threads), lambda: tensors.result, "mat_mul")


def torch_s(tensors: ProductTensors, tensor: Callable[[Array], Any], array: Callable[[Any], Array]) -> Ready:
    """PyTorch's `matmul`, of views where a factor is transposed."""
    import torch

    left, right, out = (tensor(part) for part in (tensors.factor("src"), tensors.factor("weights"), tensors.result))

    def run() -> None:
        with torch.inference_mode():
            torch.matmul(left, right, out=out)

    return Ready(run=run, result=lambda: array(out).astype(NUMPY[tensors.row.dtype]))


def onednn_s(candidate: Any, tensors: ProductTensors, types: dict[str, Any], dims: Any, argument: Any) -> Ready:
    """oneDNN's primitive on plain tensors."""
    library, handle = candidate.library, ctypes.c_void_p
    with ExitStack() as stack:

        def made(kind: str, create: str, *arguments: Any) -> Any:
            found = handle()
            library.call(create, ctypes.byref(found), *arguments)
            stack.callback(library.call, f"{kind}_destroy", found)
            return found

        arrays = [tensors.factor("src"), tensors.factor("weights"), tensors.result]
        kind = types[tensors.row.dtype][0]
        described = []
        for one in arrays:
            steps = dims(*(step // one.itemsize for step in one.strides))
            described.append(
                made("memory_desc", "memory_desc_create_with_strides", one.ndim, dims(*one.shape), kind, steps)
            )
        src, weights, dst = described
        create = "matmul_primitive_desc_create"
        description = made("primitive_desc", create, candidate.engine, src, weights, None, dst, None)
        primitive = made("primitive", "primitive_create", description)
        memories = [
            made("memory", "memory_create", md, candidate.engine, handle(one.ctypes.data))
            for md, one in zip(described, arrays, strict=True)
        ]
        given = (argument * 3)(*(argument(number, memory) for number, memory in zip((1, 33, 17), memories)))
        execute, wait = library.dll.dnnl_primitive_execute, library.dll.dnnl_stream_wait

        def run() -> None:
            if execute(primitive, candidate.stream, 3, given) | wait(candidate.stream):
                raise RuntimeError("primitive_execute failed")

        return Ready(run=run, result=lambda: tensors.result, how="matmul", close=stack.pop_all().close)
