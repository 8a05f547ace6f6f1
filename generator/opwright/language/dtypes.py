"""Data types: everything that the generator and the generated package know about each, in one table."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Dtype:
    """A data type: its name in specs and in NumPy, its C type, its bytes.

    `accumulates`: sums may use it; `suffix` then ends its literals and functions in C. Elements of the others convert
    to float exactly. Tensors of operations of steps may have any type; those of other operations only types with
    `kernels`, except that s32 may state a shape. `bits` is the type whose buffer NumPy passes on if it has none for
    this one. `exact` describes its few-bit values: how many bits, their common factor, the minimum and the maximum.
    """

    name: str
    numpy: str
    c_type: str
    size: int
    accumulates: bool = False
    suffix: str = ""
    kernels: bool = True
    bits: str = ""
    exact: tuple[int, float, float, float] | None = None

    def holds(self, value: float) -> bool:
        """Whether this type represents a number; f32 and f64 round every number of a spec."""
        if math.isinf(value):
            return self.infinite
        if self.exact is None:
            return True
        digits, step, minimum, maximum = self.exact
        return minimum <= value <= maximum and value % max(step, 2.0 ** (math.frexp(value)[1] - digits)) == 0

    @property
    def integer(self) -> bool:
        """Whether all its numbers are integers; a boolean's are 0 and 1."""
        return self.exact is not None and self.exact[1] == 1

    @property
    def infinite(self) -> bool:
        """Whether it has an infinity."""
        return self.name in ("f32", "f64", "bf16", "f16", "f8_e5m2")

    @property
    def module(self) -> str:
        """The Python module that defines it."""
        return "ml_dtypes" if self.bits else "np"


DTYPES = {
    dtype.name: dtype
    for dtype in (
        Dtype("f32", "float32", "float", 4, accumulates=True, suffix="f"),
        Dtype("bf16", "bfloat16", "opwright_bf16", 2, bits="uint16", exact=(8, 2.0**-133, -3e38, 3e38)),
        Dtype("f16", "float16", "opwright_f16", 2, exact=(11, 2.0**-24, -65504, 65504)),
        Dtype("s32", "int32", "int32_t", 4, kernels=False, exact=(32, 1, -(2**31), 2**31 - 1)),
        Dtype("f64", "float64", "double", 8, accumulates=True),
        Dtype("s8", "int8", "int8_t", 1, kernels=False, exact=(8, 1, -128, 127)),
        Dtype("u8", "uint8", "uint8_t", 1, kernels=False, exact=(8, 1, 0, 255)),
        Dtype("boolean", "bool_", "uint8_t", 1, kernels=False, exact=(1, 1, 0, 1)),
        Dtype("f8_e4m3", "float8_e4m3fn", "uint8_t", 1, kernels=False, bits="uint8", exact=(4, 2.0**-9, -448, 448)),
        Dtype("f8_e5m2", "float8_e5m2", "uint8_t", 1, kernels=False, bits="uint8", exact=(3, 2.0**-16, -57344, 57344)),
        Dtype("s4", "int4", "uint8_t", 1, kernels=False, bits="uint8", exact=(4, 1, -8, 7)),
        Dtype("u4", "uint4", "uint8_t", 1, kernels=False, bits="uint8", exact=(4, 1, 0, 15)),
        Dtype("s64", "int64", "int64_t", 8, kernels=False, exact=(64, 1, -(2**63), 2**63 - 1)),
        Dtype("u64", "uint64", "uint64_t", 8, kernels=False, exact=(64, 1, 0, 2**64 - 1)),
    )
}
ACCUMULATORS = tuple(name for name, dtype in DTYPES.items() if dtype.accumulates)
OF_KERNELS = tuple(name for name, dtype in DTYPES.items() if dtype.kernels)
