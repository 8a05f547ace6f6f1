"""Calls of operations of steps put to oneDNN: what names, attributes and rows of the spec make of them.

In: an operation and a legal call. Out: oneDNN's outputs by name, or how it refused. Nothing here knows an operation.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from opwright.language.model import Op
from support.onednn_child import DTYPES
from support.onednn_peer import Died, OneDnn, Unsupported, library_attributes
from support.step_calls import StepCall

PACKED = ("s4", "u4")


def packed(array: Any) -> Any:
    """Numbers of four bits as the library has them: two to a byte, the first in the low bits, along the last axis."""
    cells = np.append(array.astype(np.int16).ravel() & 15, 0)[: array.size + array.size % 2]
    return (cells[::2] | cells[1::2] << 4).astype(np.uint8)


def asked(op: Op, call: StepCall) -> dict[str, Any] | None:
    """The request of a call; None where the library has no such types, or an input is left out before others."""
    row, shapes = call.validation.row or {}, call.validation.shapes
    given = [array for array in call.inputs if array is not None]
    if not set(row.values()) <= DTYPES.keys() | {"f64", "s64"} or any(a is None for a in call.inputs[: len(given)]):
        return None
    parts = [part for array in given for part in (array if isinstance(array, list) else [array])]
    names = [t.name for t, a in zip(op.inputs, given) for _ in (a if isinstance(a, list) else [a])]
    arrays = {number: np.array(part, order="C") for number, part in enumerate(parts)}
    if any(row[name] not in DTYPES for name in (*names, *shapes)) or any(row[name] in PACKED for name in shapes):
        return None
    if any(0 in array.shape for array in arrays.values()) or any(0 in shape for shape in shapes.values()):
        return None  # R14
    stated = {attribute.name: attribute for attribute in op.attributes}
    arrays = {number: packed(array) if row[names[number]] in PACKED else array for number, array in arrays.items()}
    attributes = {
        stated[name].page_name or name: list(value) if isinstance(value, (tuple, list)) else value
        for name, value in call.attributes.items()
        if not stated[name].dtype_of and value is not None
    }
    extents = [np.shape(part) for part in parts]
    inputs = [_tensor(number, row[name], extents[number]) for number, name in enumerate(names)]
    outputs = [_tensor(100 + n, row[name], shape) for n, (name, shape) in enumerate(shapes.items())]
    request = {"kind": op.op, "attributes": library_attributes(attributes), "inputs": inputs, "outputs": outputs}
    return {"ops": [request], "arrays": arrays}


def _tensor(number: int, dtype: str, shape: tuple[int, ...]) -> dict[str, Any]:
    strides = [int(np.prod(shape[at + 1 :], dtype=np.int64)) for at in range(len(shape))]
    return {"id": number, "dtype": dtype, "dims": list(shape), "strides": strides}


def answered(peer: OneDnn, op: Op, call: StepCall) -> dict[str, Any] | Unsupported | Died | None:
    """What oneDNN says; None where it was not asked."""
    request = asked(op, call)
    if request is None:
        return None
    answer = peer.ask(request)
    if isinstance(answer, (Unsupported, Died)):
        return answer
    found = answer if isinstance(answer, list) else [answer]
    return dict(zip(call.validation.shapes, found, strict=True))
