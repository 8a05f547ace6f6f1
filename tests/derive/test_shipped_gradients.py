"""The derived gradients of shipped operations that have no page for one: they follow, and differences agree."""

from __future__ import annotations

from pathlib import Path

import pytest
from opwright.emit import lowerable
from opwright.gradients import astray
from opwright.language.library import Library
from opwright.load import load_texts
from opwright.oracle.slopes import disagreement, tied
from support.specs import all_texts

FOLDER = Path(__file__).parents[2] / "spec" / "onednn_graph" / "gradients"
FILES = sorted(FOLDER.glob("*.yaml"))


@pytest.fixture(scope="module")
def library() -> Library:
    return load_texts({**all_texts(), **{path.name: path.read_text(encoding="utf-8") for path in FILES}})


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.stem))
def test_it_follows_from_its_operation_and_kernels_follow_from_it(library: Library, path: Path) -> None:
    op = next(op for op in library.ops if op.at.file == path.name)
    (origin,) = [library.op(relation.gradient_of) for relation in op.relations if relation.gradient_of]
    assert list(astray(op, library)) == []
    assert list(lowerable.problems(op)) == []
    assert disagreement(origin, op, tied(origin, op), count=2) is None


def test_there_are_gradients_of_products_norms_and_reductions() -> None:
    stems = {path.stem for path in FILES}
    assert {"mat_mul_backward", "group_norm_backward", "rms_norm_backward", "reduce_prod_backward"} <= stems
