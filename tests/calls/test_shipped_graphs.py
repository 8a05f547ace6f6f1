"""`opwright run` on operations of steps: a random call of every shipped one, written as a graph of oneDNN."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import opwright_kernels as ok
import pytest
from opwright.calls import graph_run
from opwright.language.model import Op
from opwright.load import load
from opwright.oracle.validate import NUMPY
from support.draws import FULL, rng
from support.specs import FOLDER
from support.step_calls import StepCall, StepCaller

LIBRARY = load(FOLDER, FOLDER.parents[1])
STEPPED = [op for op in LIBRARY.ops if op.stepped]
# Each has kernels of its own to compile: those that graphs say in other words, and some of the others.
OTHERWISE = [
    op for op in STEPPED if len(op.outputs) > 1 or op.inputs[0].joined or any(a.dtype_of for a in op.attributes)
]
OPS = STEPPED if FULL else [*OTHERWISE[::2], *(op for op in STEPPED[::6] if op not in OTHERWISE)]
WORD = {dtype: word for word, dtype in NUMPY.items()}


@pytest.fixture(scope="module", autouse=True)
def _quick(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    yield


def logical(number: int, dtype: str, shape: tuple[int, ...]) -> dict[str, Any]:
    stride = [int(np.prod(shape[axis + 1 :], dtype=int)) for axis in range(len(shape))]
    return {"id": number, "dtype": dtype, "shape": [*shape], "stride": stride, "layout_type": "strided"}


def graph(op: Op, call: StepCall) -> dict[str, Any]:
    """The call as oneDNN dumps it: no data type of an output is an attribute, truth is 0 or 1."""
    attributes = {}
    for attribute in op.attributes:
        value = call.attributes.get(attribute.name or "")
        if value is not None and not attribute.dtype_of:
            value = int(value) if attribute.type == "bool" else value
            attributes[attribute.page_name or attribute.name] = {"type": attribute.type, "value": value}
    (first, *_), given = call.inputs, [array for array in call.inputs if array is not None]
    inputs = [logical(n, WORD[a.dtype], a.shape) for n, a in enumerate(first if isinstance(first, list) else given)]
    row, shapes = call.validation.row or {}, call.validation.shapes
    outputs = [logical(100 + n, row[name], shape) for n, (name, shape) in enumerate(shapes.items())]
    node = {"id": 0, "name": "one", "kind": op.op, "attrs": attributes, "inputs": inputs, "outputs": outputs}
    return {"version": "3.13.0", "engine_kind": "cpu", "fpmath_mode": "strict", "graph": [node]}


def sayable(call: StepCall) -> bool:
    """Whether a graph can leave out what the call does: no input but the last ones."""
    absent = [array is None for array in call.inputs]
    return absent == sorted(absent)


@pytest.mark.parametrize("op", OPS, ids=lambda op: op.function)
def test_a_graph_of_a_shipped_operation_is_run_and_right(op: Op, tmp_path: Path) -> None:
    calls = StepCaller(op, rng(op.op, "graph"), 1).legal(20)
    call = next(call for call in calls if sayable(call))
    path = tmp_path / "graph.json"
    path.write_text(json.dumps(graph(op, call)))
    ran = graph_run.run(ok, graph_run.read_graph(path, LIBRARY), graph_run.Source({}, values="normal"), threads=1)
    assert ran.verdict.right, ran.verdict
    assert "interpreter" in ran.verdict.witness
