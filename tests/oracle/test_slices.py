"""Parts of large calls: their results are the same parts of the results of the whole."""

from __future__ import annotations

import numpy as np
import pytest
from opwright.calls.graph_run import _terms
from opwright.language.model import Op
from opwright.load import load
from opwright.oracle import slices, witness
from opwright.oracle.run_steps import compute_steps
from opwright.oracle.slices import sliced
from opwright.oracle.some_cells import some_cells
from opwright.oracle.step_sample import samples
from support.draws import FULL
from support.specs import FOLDER

OPS = [op for op in load(FOLDER, FOLDER.parents[1]).ops if op.stepped]


def cut(op: Op) -> int:
    """How many calls had a part, of which each was what the whole says."""
    found = 0
    for sample in samples(op, 6, extents=(2, 3, 4)):
        terms = _terms(op, list(sample.arrays), sample.attributes)
        part = sliced(op, sample.arrays, sample.attributes, terms, terms // 2)
        if part is None:
            continue
        whole = part.of(op, compute_steps(op, sample.arrays, sample.attributes))
        for name, cells in compute_steps(op, part.inputs, part.attributes).items():
            np.testing.assert_array_equal(cells, whole[name])
        found += 1
    return found


def test_a_part_of_a_call_gives_that_part_of_its_results() -> None:
    tried = OPS if FULL else OPS[::5]
    assert sum(bool(cut(op)) for op in tried) > 0.7 * len(tried)


def test_a_large_result_that_is_wrong_in_a_part_is_called_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(witness, "INTERPRETED", 10)
    monkeypatch.setattr(witness, "SLICED", 200)
    op = next(op for op in OPS if op.op == "SoftMax")
    src = np.random.default_rng(1).normal(size=(20, 30)).astype(np.float32)
    (right,) = compute_steps(op, [src], {"axis": 1}).values()
    verdict = witness.check(op, [src], {"axis": 1}, 2400, [right])
    assert (verdict.right, verdict.ulp) == (True, 0)
    assert "values along B" in str(verdict)
    wrong = right.copy()
    wrong[0] += 1
    assert not witness.check(op, [src], {"axis": 1}, 2400, [wrong]).right


def test_a_few_cells_of_many_terms_are_checked_where_all_together_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only a cell of more terms than that is not, and the verdict says so."""
    for name, terms in (("INTERPRETED", 100), ("SLICED", 20), ("PATIENT", 64)):
        monkeypatch.setattr(witness, name, terms)
    monkeypatch.setattr(slices, "sliced", lambda *_: None)
    op = next(op for op in OPS if op.op == "ReduceSum")
    src = np.arange(240, dtype=np.float32).reshape(4, 60)
    right, wrong = (np.array(sums, np.float32) for sums in (src.sum(1), src.sum(1) + 64))
    verdict = witness.check(op, [src], {"axes": [1]}, 240, [right])
    assert verdict.ulp == 0
    assert "of 4 cells" in str(verdict)
    assert not witness.check(op, [src], {"axes": [1]}, 240, [wrong]).right
    whole = witness.check(op, [src], {"axes": [0, 1]}, 240, [np.array(src.sum(), np.float32)])
    assert str(whole) == "not checked: 240 terms are too many for the interpreter, more than 64 of a cell"


def test_a_part_of_a_call_that_states_a_shape_states_a_smaller_one() -> None:
    op = next(op for op in OPS if op.op == "AvgPoolBackward")
    sample = next(sample for sample in samples(op, 30, extents=(2, 3, 4)) if sample.arrays[0].shape[0] > 1)
    terms = _terms(op, list(sample.arrays), sample.attributes)
    part = sliced(op, sample.arrays, sample.attributes, terms, terms // 2)
    assert part is not None
    assert part.attributes["src_shape"] != sample.attributes["src_shape"]
    (made,) = compute_steps(op, part.inputs, part.attributes).values()
    assert list(made.shape) == part.attributes["src_shape"]


def test_each_output_has_as_many_cells_checked_as_its_own_sums_allow() -> None:
    """A gradient of weights sums over all rows, that of src over one."""
    op = next(op for op in OPS if op.op == "LayerNormBackward")
    rows, columns = 200, 30
    src = np.broadcast_to(np.float32(2), (rows, columns))
    means = np.broadcast_to(np.float32(1), (rows,))
    some = some_cells(op, [src, src, means, means, src[0], src[0]], {}, 60_000)
    assert some is not None
    counts = {name: len(places) for name, places in some.places.items()}
    assert counts["diff_src"] > counts["diff_gamma"] > 0


def computed(op: Op) -> int:
    """How many calls had cells that could be computed alone, each as in the whole."""
    found = 0
    for sample in samples(op, 6, extents=(0, 2, 3, 4)):
        some = some_cells(op, sample.arrays, sample.attributes, 500)
        if some is None:
            continue
        whole = some.of(compute_steps(op, sample.arrays, sample.attributes))
        assert some.expected.keys() == whole.keys()
        for name, cells in some.expected.items():
            np.testing.assert_allclose(cells.astype(float), whole[name].astype(float), rtol=1e-6, atol=1e-12)
        found += 1
    return found


def test_cells_that_are_computed_alone_are_those_of_the_whole() -> None:
    tried = OPS if FULL else OPS[1::4]
    assert sum(bool(computed(op)) for op in tried) > 0.8 * len(tried)


@pytest.mark.parametrize(
    ("name", "shapes", "attributes"),
    [
        ("StaticReshape", [(2**13, 2**13)], {"shape": [64, -1], "special_zero": False}),
        ("PReLU", [(64, 64, 64, 256), (1, 64, 1, 1)], {"data_format": "NCX", "per_channel_broadcast": True}),
        ("MatMul", [(4096, 4096), (4096, 4096)], {}),
    ],
)
def test_a_large_call_is_checked_on_some_of_its_cells(
    name: str, shapes: list[tuple[int, ...]], attributes: dict[str, object]
) -> None:
    """The arrays are one cell of memory, so that a copy of one would show."""
    op = next(op for op in OPS if op.op == name)
    inputs = [np.broadcast_to(np.float32(2), shape) for shape in shapes]
    terms = _terms(op, inputs, attributes)
    some = some_cells(op, inputs, attributes, witness.SLICED)
    assert terms >= 2**26
    assert some is not None
    expected = {"MatMul": 4 * 4096.0}.get(name, 2.0)
    assert {float(cell) for cells in some.expected.values() for cell in cells} == {expected}
