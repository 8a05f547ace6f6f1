"""Calls for the judges of calls without Python: drawn ones, and what comes of one with Python and without."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import opwright_kernels as ok

F32, BF16 = np.float32, ml_dtypes.bfloat16
Call = tuple[str, tuple[Any, ...], dict[str, Any]]
ROWS = {"keep_stats": True}


def drawn(draw: random.Random) -> Call:
    """A legal call of an operation, with arrays of some extents."""
    extents = tuple(draw.choice((1, 2, 3, 7, 16, 33)) for _ in range(draw.randint(1, 3)))
    dtype = draw.choice((F32, BF16))
    numbers = np.random.default_rng(draw.getrandbits(32))

    def array(*shape: int, kind: Any = dtype) -> np.ndarray[Any, Any]:
        return numbers.integers(-3, 4, shape).astype(kind)

    last = extents[-1]
    calls: list[Call] = [
        ("relu", (array(*extents),), {}),
        ("gelu", (array(*extents),), {"mode": draw.choice(("gelu_erf", "gelu_tanh"))}),
        ("power", (array(*extents),), {"beta": draw.choice((2.0, -1.0, 0.0, -0.0))}),
        ("add", (array(*extents), array(last)), {}),
        ("multiply", (array(*extents), array(*extents)), {}),
        ("select", (array(*extents, kind=bool), array(*extents), array(last)), {}),
        ("mat_mul", (array(4, last), array(last, 3), draw.choice((None, array(3)))), {}),
        ("soft_max", (array(*extents),), {"axis": draw.choice((-1, 0))}),
        ("reduce_sum", (array(*extents),), {"axes": draw.choice(([0], (-1,), [])), "keep_dims": draw.random() < 0.5}),
        ("layer_norm", (array(4, last), array(last, kind=F32), array(last, kind=F32)), ROWS),
        *convolutions(draw, array),
        ("type_cast", (array(*extents, kind=F32),), {"dtype": draw.choice(("bf16", "f16"))}),
    ]
    return draw.choice(calls)


def convolutions(draw: random.Random, array: Callable[..., Any]) -> list[Call]:
    """Calls of operations that are the engine's, with two inputs or three."""
    few, many, size, step = draw.choice((1, 2, 3)), draw.choice((1, 4, 17)), draw.choice((1, 2, 3)), draw.choice((1, 2))
    last = draw.random() < 0.5
    options: dict[str, Any] = {
        "strides": [step, step],
        "pads_begin": [1, 0],
        "pads_end": [0, 0],
        "dilations": [1, 1],
        "data_format": "NXC" if last else "NCX",
    }

    def data(batch: int, channels: int, rows: int, columns: int) -> Any:
        return array(batch, rows, columns, channels) if last else array(batch, channels, rows, columns)

    rows, columns = (8 - size) // step + 1, (9 - size) // step + 1
    weights = array(many, few, size, size)
    forward = {**options, "weights_format": "OIX"}
    gradient = {**forward, "weights_shape": list(weights.shape)}
    return [
        ("convolution", (data(2, few, 7, 9), weights, draw.choice((None, array(many)))), forward),
        ("conv_transpose", (data(2, many, 5, 4), weights, None), {**options, "weights_format": "IOX"}),
        ("convolution_backward_weights", (data(2, few, 7, 9), data(2, many, rows, columns)), gradient),
    ]


def outcome(function: Callable[..., Any], inputs: tuple[Any, ...], options: dict[str, Any]) -> Any:
    """What a call gives, or how it is refused; of `out`, which result it is; and all arrays that it was given."""
    out = options.get("out")
    targets = out if isinstance(out, (tuple, list)) else (out,)
    try:
        made = function(*inputs, **options)
        results = made if isinstance(made, tuple) else (made,)
        same = [[one is target for target in targets] for one in results]
        strides = [one.strides if isinstance(one, np.ndarray) else one.stride() for one in results]
        found: Any = type(made), same, [(one.dtype, one.shape, cells(one)) for one in results], strides
    except (ok.SpecError, TypeError, ValueError, OverflowError) as error:
        found = type(error), str(error)
    return found, [cells(one) for one in (*inputs, *targets)]


def cells(one: Any) -> Any:
    """The bytes of an array or tensor, None where it has none that can be read."""
    if isinstance(one, np.ndarray):
        return one.tobytes()
    torch: Any = sys.modules.get("torch")
    if torch is None or type(one) not in (torch.Tensor, torch.nn.Parameter):
        return None
    try:
        if one.layout is torch.strided and one.untyped_storage().nbytes() < reach(one):
            return None  # it was cut
        return one.detach().contiguous().flatten().view(torch.uint8).numpy().tobytes()
    except (RuntimeError, TypeError):
        return None


def reach(one: Any) -> int:
    """The bytes from the begin of a tensor's storage to the end of its last cell."""
    last = sum((extent - 1) * step for extent, step in zip(one.shape, one.stride(), strict=True))
    return int((one.storage_offset() + last + 1) * one.element_size()) if one.numel() else 0


def through_python(name: str) -> Callable[..., Any]:
    """The generated function with Python's call at its place."""
    module = sys.modules[f"opwright_kernels._{name}"]

    def function(*inputs: Any, **options: Any) -> Any:
        found = module.OPERATION.__dict__.pop("call", None)
        try:
            return getattr(ok, name)(*inputs, **options)
        finally:
            if found is not None:
                module.OPERATION.__dict__["call"] = found

    return function


def known(call: Call) -> Any:
    """The result of a call, of which calls.c is told."""
    name, inputs, options = call
    for _ in range(2):
        made = getattr(ok, name)(*inputs, **options)
    return made


def frames(function: Callable[[], Any]) -> set[str]:
    """The functions of Python that a call goes through."""
    seen: set[str] = set()
    sys.setprofile(lambda frame, event, _: seen.add(frame.f_code.co_name) if event == "call" else None)
    try:
        function()
    finally:
        sys.setprofile(None)
    return seen - {"<lambda>"}
