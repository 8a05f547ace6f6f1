"""Error bounds of the functions of values: part of the language, independent of the implementation.

A table only, which docs/SPEC.md prints.
"""

from __future__ import annotations

# In units in the last place of f32, for every argument and on every instruction set. 0: always the exact result; 0.5:
# the exact result, rounded to nearest.
F32_ULPS = {
    "exp": 1.0,
    "exp2": 1.0,
    "log": 1.0,
    "log1p": 1.0,
    "tanh": 1.0,
    "erf": 1.1,
    "sqrt": 0.5,
    "rsqrt": 1.5,
    "pow": 0.51,
    "abs": 0.0,
    "sign": 0.0,
    "round": 0.0,
    "floor": 0.0,
    "ceil": 0.0,
}

# In units in the last place of f64, of the functions that kernels have. Where CPUs do not fuse, `pow` is of
# the C library.
F64_ULPS = {"exp": 1.0, "exp2": 1.0, "log": 1.0, "log1p": 1.0, "tanh": 1.1, "erf": 1.4, "pow": 1.0}
