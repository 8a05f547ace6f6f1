"""Calls of the operations of steps in tests/data, written by hand: the function, the inputs, the attributes."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import ml_dtypes
import numpy as np

F32, BF16 = np.dtype(np.float32), np.dtype(ml_dtypes.bfloat16)
E4M3, E5M2 = ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2
GENERATOR = np.random.default_rng(17)


def whole(*shape: int, dtype: Any = F32) -> Any:
    """Small integers, of which sums and products are exact."""
    if np.dtype(dtype) == np.bool_:
        return GENERATOR.integers(0, 2, shape).astype(bool)
    least = 0 if np.dtype(dtype).kind == "u" else -4
    return GENERATOR.integers(least, 5, shape).astype(dtype)


def real(*shape: int, dtype: Any = F32) -> Any:
    return GENERATOR.normal(size=shape).astype(dtype)


def edges(dtype: Any) -> Any:
    """Numbers of few bits, their neighbours and the points between them, denormals, what is too large, infinity, NaN."""
    cells = [np.arange(256, dtype=np.uint8).view(kind).astype(np.float64) for kind in (E4M3, E5M2)]
    near = np.concatenate(
        [*cells, *[(some[1:] + some[:-1]) / 2 for some in cells], [1e30, -1e30, 464, 464.01, 61440, 61439, 15.5]]
    )
    return np.concatenate([near, np.nextafter(near.astype(dtype), dtype(np.inf)), near * 0.999, near * 1.001]).astype(
        dtype
    )


LARGE = [0.5, 1.5, -0.5, 1e30, -1e30, 2.0**63, -(2.0**63), 2.0**64, 2.0**64 - 2.0**41, 2.0**62, np.nan, np.inf, -np.inf]
WIDE = np.array([0, 5, 2**31, 2**63 - 1, 2**63, 2**64 - 1], np.uint64)

# The function, the inputs, the attributes.
Call = tuple[str, Sequence[Any], Mapping[str, Any]]
CALLS: tuple[Call, ...] = (
    *(("soft_max", [real(3, 5, 4)], {"axis": axis}) for axis in (0, 1, 2, -1, -3)),
    ("soft_max", [real(7)], {}),
    ("soft_max", [real(2, 300, 2, 3, dtype=BF16)], {"axis": 1}),
    ("soft_max", [real(2, 700, dtype=np.float16)], {"axis": 0}),
    ("soft_max", [real(3, 4, dtype=np.float64)], {}),
    ("add", [whole(2, 3, 4), whole(2, 3, 4)], {"auto_broadcast": "none"}),
    ("add", [whole(2, 3, 4), whole(4)], {}),
    ("add", [whole(3, 1), whole(2, 1, 5)], {}),
    ("add", [whole(), whole(2, 1, 5)], {}),
    ("add", [whole(), whole()], {}),
    ("add", [whole(1000, dtype=BF16), whole(1, dtype=BF16)], {}),
    ("add", [whole(6, 2, dtype=np.int32) * 2**29, whole(2, dtype=np.int32) * 2**29], {}),
    ("add", [whole(5, dtype=np.uint8), whole(3, 1, dtype=np.int8)], {}),
    *(("gelu", [real(2, 1500)], {"mathematical": word}) for word in ("gelu_erf", "gelu_tanh")),
    ("mat_mul", [whole(5, 7), whole(7, 3)], {}),
    ("mat_mul", [whole(2, 1, 5, 7), whole(4, 7, 3), whole(3)], {}),
    ("mat_mul", [whole(7, 5), whole(3, 7)], {"transpose_a": True, "transpose_b": True}),
    ("mat_mul", [whole(5, 0), whole(0, 3)], {}),
    *(("mat_mul", [whole(*a), whole(*b)], {}) for a, b in (((7,), (7, 3)), ((2, 7), (7,)), ((7,), (7,)), ((7,), (2, 4, 7, 3)), ((3, 2, 7), (7,)))),
    ("mat_mul", [whole(7), whole(2, 3, 7), whole(3)], {"transpose_a": True, "transpose_b": True}),
    *(("static_transpose", [whole(2, 3, 4)], {"order": order}) for order in ((0, 1, 2), [2, 0, 1], [1, -1, -3])),
    ("static_transpose", [whole(300, 5, dtype=np.int8)], {"order": [1, 0]}),
    ("static_transpose", [whole(dtype=np.int8)], {"order": []}),
    ("static_transpose", [whole(0, 3)], {"order": (1, 0)}),
    *(("concat", [[whole(2, 3), whole(2, 0), whole(2, 5)]], {"axis": axis}) for axis in (1, -1)),
    ("concat", [[whole(4, 3, dtype=BF16)] * 3], {"axis": 0}),
    ("concat", [[whole(2, 3, 300), whole(2, 2, 300), whole(2, 1, 300)]], {"axis": 1}),
    ("concat", [[whole(3, dtype=np.int8)]], {"axis": 0}),
    *(("arg_max", [whole(3, 4, 5)], {"axes": axes}) for axes in ((0,), [2, 0], (1, -1, 0), ())),
    ("arg_max", [whole(2, 300, dtype=np.int8)], {"axes": [0]}),
    ("flattened", [whole(3, 5, 2)], {}),
    ("flattened", [whole(1)], {}),
    ("flattened", [whole(0, 3)], {}),
    *(
        ("max_pool_backward", [whole(2, *extents, 3), whole(2, *pooled, 3)], {"kernel": kernel, "strides": strides, "pads": pads})
        for extents, pooled, kernel, strides, pads in (
            ((9,), (5,), [3], [2], [1]),
            ((6, 5), (6, 2), [1, 2], [1, 2], [0, 0]),
            ((4, 3, 5), (3, 3, 3), [2, 3, 3], [1, 1, 2], [0, 1, 1]),
        )
    ),
    *(
        ("static_reshape", [whole(2, 3, 4)], {"shape": shape, "special_zero": zero})
        for shape, zero in (((4, 6), False), ([-1], False), ([0, -1], True), ((0, 0, 4, 1), True), ([24, -1], True), ([6, 2, 2], False))
    ),
    ("static_reshape", [whole(0, 3, dtype=np.int8)], {"shape": (5, 0), "special_zero": False}),
    ("static_reshape", [whole(700, 2, dtype=np.int8)], {"shape": (20, 70), "special_zero": False}),
    ("static_reshape", [whole()], {"shape": [], "special_zero": False}),
    ("filled", [real(1)], {"extents": (3, 0, 2)}),
    ("filled", [real(1)], {"extents": [3, 400]}),
    ("interpolate", [whole(2, 5)], {"extents": [13]}),
    *(("interpolate", [whole(2, 10, 3)], {"scales": scales}) for scales in ([0.7, 2.5], (1, 1.0), np.array([0.15, 3.34]))),
    *(("narrow_cast", [edges(np.float32)], {"dtype": word}) for word in ("f8_e4m3", "f8_e5m2", "s4", "u4")),
    *(("narrow_cast", [edges(np.float64)], {"dtype": word}) for word in ("f8_e4m3", "f8_e5m2", "bf16")),
    *(("narrow_cast", [np.arange(256, dtype=np.uint8).view(kind)], {"dtype": "f32"}) for kind in (E4M3, E5M2, ml_dtypes.int4)),
    ("narrow_cast", [np.arange(16, dtype=np.int8).astype(ml_dtypes.uint4)], {"dtype": "s8"}),
    ("narrow_cast", [np.arange(-8, 8, dtype=np.int8).astype(ml_dtypes.int4)], {"dtype": "s32"}),
    *(("narrow_cast", [np.arange(-20, 21, dtype=np.int32)], {"dtype": word}) for word in ("s4", "u4")),
    *(("narrow_cast", [np.array(LARGE * 4, dtype)], {"dtype": word}) for dtype in (F32, np.float64) for word in ("s64", "u64")),
    *(("narrow_cast", [WIDE], {"dtype": word}) for word in ("s64", "s32", "bf16")),
    *(("narrow_cast", [WIDE.astype(np.int64)], {"dtype": word}) for word in ("u64", "f32")),
    *(("bits", [whole(3, 4, dtype=np.int32) * 12345, whole(4, dtype=np.int32) * 77], {"by": by}) for by in (0, 1, 31, 65)),
    ("bits", [whole(9, dtype=np.uint8) * 50, whole(1, dtype=np.uint8) * 7], {}),
    ("avg_pool_backward", [whole(2, 5, 3)], {"kernel": [2], "strides": [2], "src_shape": (2, 11, 3)}),
    ("avg_pool_backward", [whole(2, 3, 4, 2)], {"kernel": [2, 4], "pads": [0, 1], "src_shape": [2, 3, 5, 3], "data_format": "NCX"}),
    *(
        ("grouped", [whole(3, 6, 5, dtype=ml_dtypes.uint4), real(*scales), whole(*zps, dtype=np.int32)], {"qtype": "per_group", "axis": axis, **expected})
        for axis, scales, zps, expected in (
            (1, (3, 2, 5), (3, 1, 5), {"group_shape": [1, 3, 1]}),
            (0, (1, 6, 5), (1, 6, 5), {}),
            (-1, (3, 6, 5), (3, 6, 5), {"group_shape": (1, 1, 1)}),
        )
    ),
    ("grouped", [whole(4, 3, dtype=ml_dtypes.int4), whole(3, dtype=BF16)], {"qtype": "per_channel"}),
    ("joined_rows", [[real(2, 3), real(4, 3)]], {}),
    ("mat_mul", [whole(2, 300, 9, dtype=BF16), whole(9, 301, dtype=BF16)], {}),
    *(
        ("reduce_sum", [whole(3, 4, 5)], {"axes": axes, "keep_dims": keep})
        for axes, keep in itertools.product(((0,), [1, 2], (), (-1, 0), (0, 1, 2)), (False, True))
    ),
    ("reduce_sum", [whole(3, 4, 5)], {}),
    ("reduce_sum", [whole(0, 4)], {"axes": (0,)}),
    ("reduce_sum", [whole(40, 40, dtype=np.int8)], {"axes": (1,)}),
    *(("layer_norm", [real(4, 3, 5), real(3, 5), real(3, 5)], {"begin_norm_axis": begin}) for begin in (1, -2)),
    ("layer_norm", [real(4, 3, 5)], {"begin_norm_axis": 2, "use_affine": False, "keep_stats": False}),
    ("layer_norm", [real(4, 3), real(4, 3), None], {"begin_norm_axis": 0}),
    ("layer_norm", [real(4, 30, dtype=BF16), real(30), real(30)], {}),
    ("batch_norm_forward_training", [real(4, 5, 3), real(3), np.abs(real(3))], {"epsilon": 1e-3}),
    ("batch_norm_forward_training", [real(4, 3, 5, 2), real(3), np.abs(real(3))], {"epsilon": 1e-3, "data_format": "NCX"}),
    ("type_cast", [np.array([-0.0, 0.5, 1.5, 2.5, -300, 300, np.nan, np.inf, -np.inf], np.float32)], {"dtype": "s8"}),
    ("type_cast", [np.array([-0.0, 0.5, np.nan, 0.0], np.float32)], {"dtype": "boolean"}),
    ("type_cast", [real(700)], {"dtype": "bf16"}),
    ("type_cast", [real(3, 2, dtype=BF16)], {"dtype": "f32"}),
    ("type_cast", [whole(3, 2, dtype=np.int8)], {"dtype": "f32"}),
    ("select", [whole(3, 4, dtype=bool), whole(2, 1, 1), whole(4)], {}),
    ("greater_equal", [np.array([1, np.nan, 2], np.float32), np.array([1, 1, np.nan], np.float32)], {}),
    ("greater_equal", [whole(2, 3, dtype=np.int32), whole(3, dtype=np.int32)], {}),
    ("quantize", [real(2, 3, 4) * 10], {"scales": [0.5, 0.25, 2], "zps": [3, 100, -7], "dtype": "s8"}),
    ("quantize", [real(2, 3, 4) * 100], {"scales": (0.5,), "axis": -1}),
    *(
        ("max_pool", [whole(*shape)], {"kernel": kernel, "strides": strides, "pads": pads, "data_format": word})
        for shape, kernel, strides, pads, word in (
            ((2, 9, 3), [3], [2], [1], "NXC"),
            ((2, 3, 9, 8), [3, 2], [2, 3], [1, 0], "NCX"),
            ((1, 4, 5, 6, 2), [2, 3, 1], [1, 2, 1], [0, 1, 0], "NXC"),
        )
    ),
    ("max_pool", [whole(2, 600, 1)], {"kernel": [5], "dilations": [2]}),
    ("spread", [whole(2, 5)], {"kernel": [3], "strides": [2]}),
    ("spread", [whole(2, 5, 4)], {"kernel": [3, 2], "strides": [2, 3]}),
    ("nearest", [whole(2, 5)], {"extents": [13]}),
    ("nearest", [whole(2, 5, 4, 3)], {"extents": [3, 9, 1]}),
    ("nearest", [whole(2)], {"extents": []}),
    ("causal_scores", [real(2, 4, 5, 8), real(2, 2, 7, 8)], {"scale": 0.5}),
    ("causal_scores", [real(4, 5, 8), real(4, 3, 8)], {}),
    ("statistics", [real(3, 400)], {}),
    ("statistics", [real()], {}),
)  # fmt: skip


def label(call: Call) -> str:
    function, inputs, attributes = call
    shapes = [array.shape for array in inputs[0]] if isinstance(inputs[0], list) else inputs[0].shape
    return f"{function}-{shapes}-{attributes}"
