"""Every shipped operation of steps on random calls of oneDNN's: what the spec means is what its users get."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from opwright.language.model import Op
from opwright.load import load
from opwright.oracle.run_steps import compute_steps
from opwright.oracle.validate_steps import validate_steps
from support import onednn_peer
from support.draws import FULL, rng
from support.onednn_child import DTYPES
from support.onednn_peer import Died, OneDnn, Unsupported
from support.onednn_steps import answered
from support.specs import FOLDER
from support.step_calls import StepCall, StepCaller
from support.step_verdicts import difference

OPS = [op for op in load(FOLDER, FOLDER.parents[1]).ops if op.stepped]
CALLS, WANTED = (60, 12) if FULL else (14, 1)
# Of which the library makes no partition alone, on no call.
ALONE = {"BiasAddBackward", "Pow", "Reciprocal"}


def one_cell(call: StepCall) -> bool:
    """Whether a vector of one number serves several cells, of which the library reads what lies behind it."""
    return any(array is not None and array.shape == (1,) for array in call.inputs[1:])


# Calls that the specs rule on by a discrepancy, because the library reads or writes what is not there.
RULED: dict[str, Callable[[StepCall], bool]] = {
    "DynamicDequantize": one_cell,
    "DynamicQuantize": one_cell,
    "RMSNorm": one_cell,
    "GroupNorm": lambda call: call.inputs[0].ndim == 2 or (call.validation.row or {})["mean"] == "bf16",
}
LOWEST = {"MaxPool"}  # whose windows without a cell give the least number of the output's type


@pytest.fixture(scope="module")
def peer() -> Iterator[OneDnn]:
    if not onednn_peer.available():
        pytest.skip("oneDNN is not installed")
    with OneDnn(30) as found:
        yield found


def rows(op: Op) -> Iterator[Op]:
    """The operation with each of its rows of data types alone that the library may have."""
    for row in op.dtypes:
        if set(row.values()) <= DTYPES.keys() | {"f64", "s64"} and row["accumulate"] != "f64":
            yield dataclasses.replace(op, dtypes=(row,))


def compared(peer: OneDnn, op: Op) -> tuple[int, str | None]:
    """How many calls the library answered, and the first on which the spec says another thing."""
    found = 0
    for call in StepCaller(op, rng(f"{op.op}e"), 1).legal(CALLS):
        if found == WANTED:
            break
        answer = None if RULED.get(op.op, lambda _: False)(call) else answered(peer, op, call)
        if answer is None or isinstance(answer, (Unsupported, Died)):
            continue
        found += 1
        for name, wanted in compute_steps(op, call.inputs, call.attributes).items():
            cells = wanted
            if op.op in LOWEST:
                cells = np.where(np.isneginf(wanted), ml_dtypes.finfo(wanted.dtype).min, wanted)
            problem = disagreeing(answer[name], cells)
            if problem is not None:
                return found, f"{op.op}: {name}{problem}, for {call.attributes} of {[_shape(a) for a in call.inputs]}"
    return found, None


def disagreeing(found: Any, wanted: Any) -> str | None:
    """How a result differs; where ours is no finite number, theirs is none either, or the call was no fair one."""
    if found.shape != wanted.shape:
        return f" has the shape {found.shape}, not {wanted.shape}"
    if wanted.dtype.kind in "fV" and not np.isfinite(wanted).all():  # "V" are bf16 and other types of ml_dtypes
        found, wanted = (np.where(np.isfinite(wanted), array, 0) for array in (found, wanted))
    return difference(found, wanted, 3e-2 if wanted.dtype.itemsize < 4 else 2e-4)


def _shape(array: Any) -> Any:
    return array.shape if isinstance(array, np.ndarray) else array


def test_a_shipped_operation_gives_what_onednn_gives(peer: OneDnn) -> None:
    results = [(op.op, *compared(peer, alone)) for op in OPS for alone in rows(op)]
    assert [problem for _, _, problem in results if problem is not None] == []
    heard = [name for name, count, _ in results if count]
    silent = {op.op for op in OPS} - set(heard)
    print(f"{len(heard)} of {len(results)} rows of data types were answered; no row of {', '.join(sorted(silent))}")
    assert silent >= ALONE
    assert len(silent) < 16, silent
    if FULL:
        assert silent == ALONE


@pytest.mark.parametrize("kind", [ml_dtypes.int4, ml_dtypes.uint4])
def test_groups_of_numbers_of_four_bits_are_those_of_onednn(peer: OneDnn, kind: Any) -> None:
    op = next(op for op in OPS if op.op == "DynamicDequantize")
    random = rng("groups")
    least = int(ml_dtypes.iinfo(kind).min)
    src, zps = (
        random.integers(least, least + 16, s).astype(np.int8).astype(kind) for s in ((1, 2, 8, 4), (1, 2, 2, 4))
    )
    inputs = (src, (random.integers(1, 9, (1, 2, 2, 4)) / 8).astype(np.float32), zps)
    attributes = {"qtype": "per_group", "group_shape": [1, 1, 4, 1], "axis": 2}
    answer = answered(peer, op, StepCall(inputs, attributes, validate_steps(op, inputs, attributes)))
    assert isinstance(answer, dict), answer
    np.testing.assert_array_equal(answer["dst"], compute_steps(op, inputs, attributes)["dst"])


def test_the_library_says_itself_what_the_specs_rule_on(peer: OneDnn) -> None:
    op = next(op for op in OPS if op.op == "MaxPool")
    src = np.ones((1, 1, 2), np.float32)
    attributes = {"strides": [1], "pads_begin": [2], "pads_end": [0], "kernel": [1], "data_format": "NCX"}
    (ours,) = compute_steps(op, [src], attributes).values()
    assert np.isneginf(ours).sum() == 2
    request = {
        "kind": "MaxPool",
        "attributes": attributes,
        "inputs": [{"id": 0, "dtype": "f32", "dims": [1, 1, 2], "strides": [2, 2, 1]}],
        "outputs": [{"id": 1, "dtype": "f32", "dims": [1, 1, 4], "strides": [4, 4, 1]}],
    }
    theirs = peer.ask({"ops": [request], "arrays": {0: src}})
    assert isinstance(theirs, np.ndarray)
    np.testing.assert_array_equal(theirs, np.where(np.isneginf(ours), np.finfo(np.float32).min, ours))
