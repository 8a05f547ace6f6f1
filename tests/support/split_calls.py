"""Calls of the interpreter in parts, as the table of splits says, and the parts joined again.

In: an operation, arrays and attributes. Out: what a call means, as the runtime of splits takes it, and results.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np
from opwright.derive.splitting.table import table
from opwright.language import expr
from opwright.language.model import Op, Tensor
from opwright.oracle.indices import vectors
from opwright.oracle.interpret import compute
from opwright.oracle.run_steps import compute_steps
from opwright.oracle.validate import Validation, validate
from opwright.oracle.validate_steps import validate_steps
from opwright_kernels import _sharding
from opwright_kernels._sharding import Facts, Range, SplitOption

# Of calls with windows, by attribute: from, and below.
NUMBERS = (("strides", 1, 4), ("pads_begin", 0, 5), ("pads_end", 0, 5), ("dilations", 1, 3), ("kernel", 1, 4))
NUMBERS += (("output_padding", 0, 2),)
JOIN = {"sum": np.add, "product": np.multiply, "max": np.maximum, "min": np.minimum}


def splits(op: Op) -> tuple[_sharding.Split, ...]:
    return _sharding.splits([split.data() for split in table(op)])


def results(op: Op, inputs: Sequence[Any], attributes: Mapping[str, Any]) -> dict[str, Any]:
    """The outputs of a call by the interpreter."""
    if op.stepped:
        return compute_steps(op, inputs, attributes)
    return {op.output.name: compute(op, inputs, attributes)}


def facts(op: Op, inputs: Sequence[Any], attributes: Mapping[str, Any]) -> Facts:
    """What a legal call means."""
    call = validate_steps(op, inputs, attributes) if op.stepped else validate(op, inputs, attributes)
    assert call.accepted, call.violations
    shapes = {t.name: _shape(array) for t, array in zip(op.inputs, inputs) if array is not None}
    if op.stepped:
        shapes |= call.shapes
        places = dict(call.places)
    else:
        shapes[op.output.name] = call.shape
        places = {tensor.name: _places(op, tensor, call) for tensor in op.tensors}
    assert call.row is not None
    stated = {a.name: _plain(a.type, a.default) for a in op.attributes} | dict(attributes)
    names = tuple(output.name for output in op.outputs)
    return Facts(call.values, places, shapes, stated, op.dtypes.index(call.row), call.arrangements, names)


def _shape(array: Any) -> Any:
    return [part.shape for part in array] if isinstance(array, (list, tuple)) else array.shape


def _plain(kind: str | None, default: str | None) -> Any:
    return int(default) if default is not None and kind == "s64" else None if default is None else default


def _places(op: Op, tensor: Tensor, call: Validation) -> dict[str, tuple[int, ...]]:
    dims = tensor.dims_by_arrangement[call.arrangements.get(tensor.name, next(iter(tensor.dims_by_arrangement)))]
    order = op.layouts[tensor.layout][call.layouts[tensor.layout]] if tensor.layout else tuple(dims)
    rank = next((len(value) for value in call.values.values() if isinstance(value, tuple)), 0)
    found, at = {}, 0
    for axis in order:
        axes = rank if expr.loose_names(dims[axis].tree) & vectors(op) else 1
        found[axis], at = tuple(range(at, at + axes)), at + axes
    return found


def in_parts(
    op: Op, inputs: Sequence[Any], attributes: Mapping[str, Any], cut: Mapping[SplitOption, Sequence[Range]]
) -> Any:
    """The outputs of a call, computed for ranges of letters and joined."""
    whole = facts(op, inputs, attributes)
    outputs: dict[str, Any] = {}
    joins = {name: _sharding.joins(tuple(cut), name) for name in whole.outputs if name in whole.shapes}
    for ranges in product(*cut.values()):
        if any(start == stop for start, stop in ranges):
            continue
        part = _sharding.part(whole, dict(zip(cut, ranges)))
        if part is None:
            continue
        own = [
            None if t.name in part.without else _of(a, part.inputs.get(t.name, {})) for t, a in zip(op.inputs, inputs)
        ]
        for at, tensor in enumerate(op.inputs):
            if tensor.shape_of and own[at] is not None and tensor.shape_of in part.shapes:
                own[at] = np.asarray(part.shapes[tensor.shape_of], inputs[at].dtype)
        stated = {name: value for name, value in {**attributes, **part.attributes}.items() if value is not None}
        for name, array in results(op, own, stated).items():
            used = _of(array, part.used.get(name, {}))
            _join(outputs, name, joins[name], used, part, whole)
    return outputs


def _of(array: Any, ranges: Mapping[int, Range]) -> Any:
    if isinstance(array, (list, tuple)):
        return [_of(part, ranges) for part in array]
    for axis, (start, stop) in ranges.items() if array is not None else ():
        array = np.take(array, range(start, stop), axis)
    return array


def _join(outputs: dict[str, Any], name: str, join: str | None, used: Any, part: Any, whole: Facts) -> None:
    assert join is not None
    if name not in outputs:
        outputs[name] = (np.empty(whole.shapes[name], used.dtype), np.zeros(whole.shapes[name], int))
    cells, count = outputs[name]
    spot = [slice(None)] * cells.ndim
    for axis, (start, stop) in part.outputs.get(name, {}).items():
        spot[axis] = slice(start, stop)
    at = tuple(spot)
    assert used.shape == cells[at].shape, (used.shape, cells[at].shape)
    value = used * np.asarray(part.share, used.dtype) if join == "mean" else used
    combine = JOIN.get("sum" if join == "mean" else join)
    cells[at] = value if combine is None or not count[at].any() else combine(cells[at], value)
    count[at] += 1


def windowed(op: Op, random: np.random.Generator) -> Iterator[tuple[Any, Any]]:
    """Calls with one spatial axis of many cells, strides, dilations and paddings of all sizes, the largest too."""
    for _ in range(400):
        number = {name: int(random.integers(low, high)) for name, low, high in NUMBERS}
        attributes: dict[str, Any] = {}
        for attribute in op.attributes:
            name = attribute.name or ""
            if name in number:
                attributes[name] = [number[name]]
            elif attribute.type == "bool":
                attributes[name] = bool(random.integers(2))
            elif attribute.values and random.random() < 0.5:
                attributes[name] = attribute.values[int(random.integers(len(attribute.values)))].value
        attributes["data_format"] = "NCX"
        if "weights_format" in {a.name for a in op.attributes}:
            attributes["weights_format"] = next(
                w for w in ("OIX", "IOX") if w in {v.value for v in op.attribute("weights_format").values or ()}
            )
        shapes = {"C": 2, "O": 2, "I": 2, "N": 1}
        inputs = []
        for tensor in op.inputs:
            if tensor.shape_of or tensor.optional:
                inputs.append(None)
                continue
            dims = {
                axis: shapes.get(axis, 0)
                for axis in (("N", "C", "X") if "N" in (tensor.dims or {}) else ("O", "I", "X"))
            }
            spatial = number["kernel"] if "N" not in tensor.dims else int(random.integers(1, 15))
            inputs.append(random.integers(-3, 4, [extent or spatial for extent in dims.values()]).astype(np.float32))
        for attribute in op.attributes:
            if attribute.shape_of:
                stated = [1, 2, int(random.integers(1, 15))] if "N" in op.output.dims else [2, 2, number["kernel"]]
                attributes[attribute.name or ""] = stated
        judge = validate_steps if op.stepped else validate
        if judge(op, inputs, attributes).accepted:
            yield inputs, attributes
