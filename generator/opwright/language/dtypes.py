"""Data types: all that the generator and the generated package know of each, in one table."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Dtype:
    """A data type: its name in specs and in NumPy, its C type, its bytes.

    `accumulates` says that terms may be added in it: then `suffix` ends its literals and functions in C. Elements of
    the others widen to float exactly. Tensors of kernels may have it but for those without `kernels`, which may state a
    shape; tensors of operations of steps may but for those without `steps`. `bits` is the type in whose name its memory
    is passed on where NumPy has no buffer for it.
    """

    name: str
    numpy: str
    c_type: str
    size: int
    accumulates: bool = False
    suffix: str = ""
    kernels: bool = True
    steps: bool = True
    bits: str = ""

    @property
    def module(self) -> str:
        """The Python module that has it."""
        return "ml_dtypes" if self.bits else "np"


DTYPES = {
    dtype.name: dtype
    for dtype in (
        Dtype("f32", "float32", "float", 4, accumulates=True, suffix="f"),
        Dtype("bf16", "bfloat16", "opwright_bf16", 2, bits="uint16"),
        Dtype("f16", "float16", "opwright_f16", 2),
        Dtype("s32", "int32", "int32_t", 4, kernels=False),
        Dtype("f64", "float64", "double", 8, accumulates=True),
        Dtype("s8", "int8", "int8_t", 1, kernels=False),
        Dtype("u8", "uint8", "uint8_t", 1, kernels=False),
        Dtype("boolean", "bool_", "uint8_t", 1, kernels=False),
        Dtype("f8_e4m3", "float8_e4m3fn", "uint8_t", 1, kernels=False, bits="uint8"),
        Dtype("f8_e5m2", "float8_e5m2", "uint8_t", 1, kernels=False, bits="uint8"),
        Dtype("s4", "int4", "uint8_t", 1, kernels=False, bits="uint8"),
        Dtype("u4", "uint4", "uint8_t", 1, kernels=False, bits="uint8"),
        Dtype("s64", "int64", "int64_t", 8, kernels=False, steps=False),
    )
}
ACCUMULATORS = tuple(name for name, dtype in DTYPES.items() if dtype.accumulates)
OF_KERNELS = tuple(name for name, dtype in DTYPES.items() if dtype.kernels)
OF_STEPS = tuple(name for name, dtype in DTYPES.items() if dtype.steps)
