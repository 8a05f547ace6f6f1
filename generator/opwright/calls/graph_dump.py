"""Reads a graph with one operation that oneDNN dumped (ONEDNN_GRAPH_DUMP=graph).

In: the text of an untrusted JSON file, and the known operations. Out: a `GraphCall` with every name,
type and length checked, or a UsageError that names the key at fault. Whether the call is legal is not checked here.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from ..errors import UsageError
from ..language.expr import Name
from ..language.library import Library
from ..language.model import Attribute, Op, Tensor
from ..language.source import suggestion

UNKNOWN = -(2**63)
MAX_AXES = 12
NOT_GIVEN = [0] * MAX_AXES
DTYPES = ("f32", "f16", "bf16", "s32", "s64", "u64", "s8", "u8", "boolean", "f8_e4m3", "f8_e5m2", "s4", "u4")
# Attributes that partitioning adds to an operation.
ADDED = ("partition_id", "backend")
_VALUES: dict[str, tuple[type, ...]] = {"string": (str,), "f32": (int, float), "bool": (bool, int)}


@dataclass(frozen=True)
class Node:
    """A value of the file and its place."""

    value: Any
    path: str

    def fail(self, message: str) -> NoReturn:
        raise UsageError(f"{self.path}: {message}")

    def at(self, key: str | int) -> Node:
        """An existing entry."""
        plain = isinstance(key, str) and re.fullmatch(r"\w{1,80}", key, re.ASCII)
        step = f".{key}" if plain else f"[{json.dumps(key)[:80]}]"
        return Node(self.value[key], self.path + step)

    def need(self, key: str) -> Node:
        """A required entry."""
        if key not in self.mapping():
            self.fail(f"the key {key!r} is missing")
        return self.at(key)

    def mapping(self) -> dict[str, Any]:
        if not isinstance(self.value, dict):
            self.fail(f"an object is expected, not {brief(self.value)}")
        return self.value

    def entries(self) -> list[Node]:
        if not isinstance(self.value, list):
            self.fail(f"a list is expected, not {brief(self.value)}")
        return [self.at(number) for number in range(len(self.value))]

    def text(self) -> str:
        if not isinstance(self.value, str):
            self.fail(f"a string is expected, not {brief(self.value)}")
        return self.value

    def integer(self) -> int:
        if type(self.value) is not int or not UNKNOWN <= self.value < 2**63:
            self.fail(f"a 64-bit integer is expected, not {brief(self.value)}")
        return self.value

    def real(self) -> float:
        if isinstance(self.value, bool) or not isinstance(self.value, (int, float)):
            self.fail(f"a number is expected, not {brief(self.value)}")
        return float(self.value)

    def word(self, allowed: Sequence[str]) -> str:
        if self.text() not in allowed:
            near = suggestion(self.text()[:80], allowed)
            self.fail(f"{brief(self.value)} is none of {', '.join(allowed)}{near}")
        return self.text()


@dataclass(frozen=True)
class LogicalTensor:
    """A tensor of a graph. `shape` and `stride` (in elements) are None if the graph does not fully know them."""

    id: int
    dtype: str
    shape: tuple[int, ...] | None
    stride: tuple[int, ...] | None
    node: Node


@dataclass(frozen=True)
class GraphCall:
    """The operation of a graph: its inputs in the spec's order; the last optional ones may be absent.

    A variadic input stands in the place of its arrays; outputs are those of the graph.
    """

    op: Op
    inputs: tuple[LogicalTensor, ...]
    outputs: tuple[LogicalTensor, ...]
    attributes: Mapping[str, Any]

    @property
    def output(self) -> LogicalTensor:
        return self.outputs[0]

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        """The name of each input in the spec."""
        return (self.op.inputs * len(self.inputs))[: len(self.inputs)] if self.concatenates else self.op.inputs

    @property
    def concatenates(self) -> bool:
        return self.op.inputs[0].joined is not None


def brief(value: object) -> str:
    """A JSON value in a few printable characters."""
    text = json.dumps(value)
    return text if len(text) <= 60 else text[:57] + "..."


def read(text: str, name: str, library: Library) -> GraphCall:
    """The operation of a graph. `name` prefixes every JSON path in errors."""
    root = Node(_parsed(text, name), f"{name}: $")
    ops = root.need("graph").entries()
    if len(ops) != 1:
        _not_one(root.at("graph"), ops)
    node = ops[0]
    kind = node.need("kind")
    names = [op.op for op in library.ops]
    if kind.text() not in names:
        near = suggestion(kind.text()[:80], names)
        kind.fail(f"there is no operation {brief(kind.value)}{near}; there are {', '.join(names)}")
    op = next(op for op in library.ops if op.op == kind.value)
    attributes = _attributes(node.need("attrs"), op)
    inputs, outputs = _inputs(node.need("inputs"), op), _outputs(node.need("outputs"), op)
    return GraphCall(op, inputs, outputs, {**_implied(op, outputs), **attributes})


def _implied(op: Op, outputs: Sequence[LogicalTensor]) -> dict[str, Any]:
    """Attributes that graphs lack: they follow from the outputs and their data types."""
    found: dict[str, Any] = {}
    for attribute in op.attributes:
        stated = [tensor.name for tensor in op.outputs].index(attribute.dtype_of) if attribute.dtype_of else None
        if stated is not None and stated < len(outputs):
            found[attribute.name or ""] = outputs[stated].dtype
    for number, tensor in enumerate(op.outputs):
        if tensor.when is not None and isinstance(tensor.when.tree, Name):
            found[tensor.when.tree.id] = number < len(outputs)
    return found


def _parsed(text: str, name: str) -> Any:
    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        made = dict(pairs)
        if len(made) != len(pairs):
            keys = [key for key, _ in pairs]
            twice = next(key for key in keys if keys.count(key) > 1)
            raise ValueError(f"the key {brief(twice)} occurs twice in one object")
        return made

    try:
        return json.loads(text, object_pairs_hook=once)
    except RecursionError:
        raise UsageError(f"{name}: not a graph: nested too deeply") from None
    except ValueError as error:
        raise UsageError(f"{name}: not JSON that can be read: {error}") from None


def _not_one(graph: Node, ops: Sequence[Node]) -> NoReturn:
    if not ops:
        graph.fail("the graph has no operation; one is expected")
    kinds = ascii(", ".join(node.need("kind").text()[:80] for node in ops[:8]))[1:-1] + (
        ", ..." if len(ops) > 8 else ""
    )
    graph.fail(f"the graph has {len(ops)} operations ({kinds}), but only one can run: keep one, delete the others")


def _attributes(node: Node, op: Op) -> dict[str, Any]:
    known = {attribute.page_name or attribute.name or "": attribute for attribute in op.attributes}
    found = {}
    for name in node.mapping():
        if name in ADDED:
            continue
        if name not in known:
            near = suggestion(name[:80], known)
            node.at(name).fail(f"{op.op} has no such attribute{near}; it has {', '.join(known)}")
        value = _value(node.at(name), known[name])
        if value != NOT_GIVEN:
            found[known[name].name or ""] = value
    for name, attribute in known.items():
        if attribute.required and attribute.name not in found:
            node.fail(f"{op.op} needs the attribute {name!r}")
    return found


def _value(node: Node, attribute: Attribute) -> Any:
    """The value of an attribute, with the type from the spec."""
    wanted = attribute.type or ""
    if node.need("type").text() != wanted:
        node.at("type").fail(f"{attribute.name} is of type {wanted}, not {brief(node.at('type').value)}")
    value = node.need("value")
    if wanted == "s64[]":
        return [entry.integer() for entry in value.entries()]
    if wanted == "f32[]":
        return [entry.real() for entry in value.entries()]
    if wanted == "s64":
        return value.integer()
    truth = wanted == "bool"
    if not isinstance(value.value, _VALUES[wanted]) or (isinstance(value.value, bool) and not truth):
        value.fail(f"a value of type {wanted} is expected, not {brief(value.value)}")
    if truth and value.value not in (0, 1):
        value.fail(f"0, 1, false or true is expected, not {brief(value.value)}")
    return bool(value.value) if truth else value.value


def _inputs(node: Node, op: Op) -> tuple[LogicalTensor, ...]:
    minimum = sum(not tensor.optional and tensor.when is None for tensor in op.inputs)
    tensors = node.entries()
    if not minimum <= len(tensors) <= (len(tensors) if op.inputs[0].joined else len(op.inputs)):
        names = ", ".join(tensor.name + ("?" if tensor.optional else "") for tensor in op.inputs)
        count = f"{minimum} to {len(op.inputs)}" if minimum < len(op.inputs) else str(minimum)
        node.fail(f"{op.op} takes {count} inputs ({names}), not {len(tensors)}")
    found = tuple(map(_tensor, tensors))
    for number, tensor in enumerate(found):
        same = [other for other in found[:number] if other.id == tensor.id]
        if any((other.shape, other.dtype) != (tensor.shape, tensor.dtype) for other in same):
            tensor.node.at("id").fail(f"{tensor.id} is the id of another input of another shape or type")
    return found


def _outputs(node: Node, op: Op) -> tuple[LogicalTensor, ...]:
    tensors = node.entries()
    lowest = sum(tensor.when is None for tensor in op.outputs)
    if not lowest <= len(tensors) <= len(op.outputs):
        names = ", ".join(tensor.name + ("?" if tensor.when else "") for tensor in op.outputs)
        has = "one output" if len(op.outputs) == 1 else f"{lowest} to {len(op.outputs)} outputs"
        node.fail(f"{op.op} has {has} ({names}), not {len(tensors)}")
    return tuple(map(_tensor, tensors))


def _tensor(node: Node) -> LogicalTensor:
    shape = _extents(node.need("shape"))
    layout = node.need("layout_type")
    if layout.text() == "opaque":
        layout.fail("only oneDNN knows an opaque layout; dump the graph before it is compiled")
    strided = layout.word(("strided", "any", "undef")) == "strided"
    stride = _extents(node.need("stride")) if strided else None
    if shape is None and stride is not None:
        node.at("stride").fail("the strides of a tensor of unknown shape cannot be known")
    if shape is not None and stride is not None and len(shape) != len(stride):
        node.at("stride").fail(f"{len(stride)} strides for {len(shape)} axes")
    return LogicalTensor(node.need("id").integer(), node.need("dtype").word(DTYPES), shape, stride, node)


def _extents(node: Node) -> tuple[int, ...] | None:
    """Non-negative extents or strides; None if some are unknown."""
    entries = node.entries()
    if len(entries) > MAX_AXES:
        node.fail(f"{len(entries)} axes; oneDNN has at most {MAX_AXES}")
    values = tuple(entry.integer() for entry in entries)
    for entry, value in zip(entries, values, strict=True):
        if value < 0 and value != UNKNOWN:
            entry.fail(f"{value} is negative; unknown is written {UNKNOWN}")
    return None if UNKNOWN in values else values
