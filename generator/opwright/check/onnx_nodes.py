"""What an operation says of ONNX: every entry names its own inputs, attributes and outputs, and gives all it requires.

In: an operation. Out: problems. Whether ONNX has such nodes is not known here: it need not be installed.
"""

from __future__ import annotations

from collections.abc import Iterator

from ..language.model import Onnx, Op
from ..language.onnx_nodes import output_of
from ..language.schema import place
from ..language.source import Problem, unknown
from .rules import repeated, stated


def onnx_nodes(op: Op) -> Iterator[Problem]:
    yield from repeated([(_known_by(entry), entry.at) for entry in op.onnx], "onnx-duplicate", "node of ONNX")
    for entry in op.onnx:
        yield from _entry(op, entry)


def _entry(op: Op, entry: Onnx) -> Iterator[Problem]:
    yield from stated(op, entry, "onnx-argument")
    outputs = [tensor.name for tensor in op.outputs]
    numbers = [attribute.name or "" for attribute in op.attributes if attribute.type == "f32"]
    for given in entry.gives:
        said = output_of(given)
        yield from unknown(said.output, outputs, place(given, entry.at), "onnx-output", "output")
        if said.rooted:
            yield from unknown(said.rooted, numbers, place(given, entry.at), "onnx-output", "attribute of type f32")
            if said.rooted not in entry.arguments:
                message = f"{given}: the entry for {entry.node} does not say where {said.rooted} comes from"
                yield Problem(place(given, entry.at), "onnx-output", message)
    if entry.until is not None and entry.until < entry.since:
        yield Problem(entry.at, "onnx-opset", f"it holds until opset {entry.until}, which is before {entry.since}")
    needed = [t.parameter or t.name for t in op.inputs if not t.optional and t.when is None]
    needed += [attribute.name or "" for attribute in op.attributes if attribute.required]
    missing = [name for name in needed if name not in entry.arguments and name not in entry.words]
    if missing:
        message = f"the entry for {entry.node} does not say where {', '.join(missing)} come from"
        yield Problem(entry.at, "onnx-missing", message)


def _known_by(entry: Onnx) -> str:
    """The node, its opset, the condition and the words: what tells one entry from another."""
    conditions = [f"{name} is {value}" for name, value in sorted({**entry.when, **entry.words}.items())]
    return ", ".join([f"{entry.node} since {entry.since}", *conditions])
