"""The nodes of ONNX that the operations of a package compute, as data for its module `onnx`.

In: operations. Out: entries of plain values, in the order of the specs. A term of an operand is its number, name, part,
cut, relation and other term; what is given begins with the index of an output (language/onnx_nodes.py).
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterable
from typing import Any

from ..language.model import Onnx, Op
from ..language.onnx_nodes import Given, output_of, terms

REMEMBERED = 2**10  # operands: entries share most


def onnx_table(ops: Iterable[Op]) -> list[dict[str, Any]]:
    """Every entry of every operation."""
    return [_entry(op, entry) for op in ops for entry in op.onnx]


def _entry(op: Op, entry: Onnx) -> dict[str, Any]:
    kinds = {tensor.parameter or tensor.name: "tensors" if tensor.joined else "tensor" for tensor in op.inputs}
    inputs = [name for name in kinds if name in entry.arguments]
    kinds |= {attribute.name or "": attribute.type or "" for attribute in op.attributes}
    outputs = [tensor.name for tensor in op.outputs]
    return {
        "function": op.function,
        "node": entry.node,
        "since": entry.since,
        "until": entry.until,
        "when": [_condition(*condition) for condition in entry.when.items()],
        "inputs": [[name, kinds[name], _terms(entry.arguments[name])] for name in inputs],
        "attributes": [[name, kinds[name], _terms(o)] for name, o in entry.arguments.items() if name not in inputs],
        "words": {name: {"true": True, "false": False}.get(word, word) for name, word in entry.words.items()},
        "ignores": list(entry.ignores),
        "gives": [_given(output_of(given), outputs) for given in entry.gives or outputs[:1]],
        "folds": entry.folds,
        "inferred_shape": entry.inferred_shape,
        "mirrors": _terms(entry.mirrors)[0] if entry.mirrors else None,
    }


def _given(given: Given, outputs: list[str]) -> list[Any]:
    output, *more = dataclasses.astuple(given)
    return [outputs.index(output), *more]


def _condition(given: str, wanted: str) -> list[Any]:
    """What is compared, and the values that it may have: a text, or another term where it is a place in the node."""
    texts = wanted.split(" or ")
    placed = [any(mark in text for mark in ("[", ".shape", ".axes")) for text in texts]
    return [_terms(given)[0], [_terms(text)[0] if place else text for text, place in zip(texts, placed)]]


@functools.lru_cache(REMEMBERED)
def _terms(operand: str) -> list[list[Any]]:
    return [list(dataclasses.astuple(term)) for term in terms(operand)]
