"""The data types of tensors in NumPy, for the oracle, and rounding to them.

In: values in float64 or int64. Out: arrays. The generator's own table (language/dtypes.py) is not used here, so that it
can be checked against this one.
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

NUMPY: dict[str, np.dtype[Any]] = {
    "f32": np.dtype(np.float32),
    "f64": np.dtype(np.float64),
    "f16": np.dtype(np.float16),
    "bf16": np.dtype(ml_dtypes.bfloat16),
    "s32": np.dtype(np.int32),
    "s64": np.dtype(np.int64),
    "u64": np.dtype(np.uint64),
    "s8": np.dtype(np.int8),
    "u8": np.dtype(np.uint8),
    "boolean": np.dtype(np.bool_),
    "f8_e4m3": np.dtype(ml_dtypes.float8_e4m3fn),
    "f8_e5m2": np.dtype(ml_dtypes.float8_e5m2),
    "s4": np.dtype(ml_dtypes.int4),
    "u4": np.dtype(ml_dtypes.uint4),
}


def rounded(values: npt.NDArray[np.float64], dtype: str) -> npt.NDArray[Any]:
    """float64 in another type, rounded once."""
    with np.errstate(over="ignore", invalid="ignore"):
        if dtype not in ("bf16", "f8_e4m3", "f8_e5m2"):
            return values.astype(NUMPY[dtype])
        # Through f32 rounded to odd, because the casts of ml_dtypes go through f32 and would round twice.
        near = values.astype(np.float32)
        near = np.where(np.abs(near) > np.abs(values), np.nextafter(near, np.float32(0)), near)
        odd = (near.view(np.uint32) | (near != values)).view(np.float32)
        return np.asarray(odd.astype(NUMPY[dtype]))


def stored(values: Any, dtype: str) -> Any:
    """Values in the type of a tensor: reals are rounded once, to integers half to even, and saturate."""
    if dtype == "boolean":
        return values != 0
    if dtype in ("s4", "u4"):
        minimum, maximum = (-8, 7) if dtype == "s4" else (0, 15)
        whole = np.where(np.isnan(values), 0, np.rint(values)) if values.dtype == np.float64 else values
        return np.clip(whole, minimum, maximum).astype(np.int8).astype(NUMPY[dtype])
    if dtype in ("s32", "s8", "u8"):
        limits = np.iinfo(NUMPY[dtype])
        whole = np.where(np.isnan(values), 0, np.rint(values)) if values.dtype == np.float64 else values
        return np.clip(whole, limits.min, limits.max).astype(limits.dtype)
    if dtype in ("s64", "u64"):
        limits = np.iinfo(NUMPY[dtype])
        if values.dtype != np.float64:
            return values.astype(limits.dtype)  # 64-bit values are not converted
        whole = np.where(np.isnan(values), 0, np.rint(values))
        inside = np.where((whole >= limits.min) & (whole < 2.0**limits.bits / (1 if dtype == "u64" else 2)), whole, 0)
        ends = [(whole < limits.min, limits.min), (inside != whole, limits.max)]
        return np.select([end for end, _ in ends], [limits.dtype.type(x) for _, x in ends], inside.astype(limits.dtype))
    return rounded(values.astype(np.float64), dtype)
