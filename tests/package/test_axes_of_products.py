"""The axes of random products as the engine takes them: each product once, and no copy that is read once."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import pytest
from opwright_kernels._contraction_shapes import Shape, Walk, beside, shaped

ROUNDS = 400


def arrays(rng: np.random.Generator, walks: list[dict[str, int]]) -> tuple[Walk, ...]:
    """Walks with the strides of dense arrays, each with its axes in a random order; `out`, `left`, `right` say where."""
    steps: list[dict[str, int]] = [{"left": 0, "right": 0, "out": 0} for _ in walks]
    for name in ("left", "right", "out"):
        cells = 1
        for number in rng.permutation(len(walks)):
            if walks[number][name]:
                steps[number][name] = cells
                cells *= walks[number]["extent"]
    return tuple(Walk(walk["extent"], **step) for walk, step in zip(walks, steps, strict=True))


def drawn(seed: int) -> Iterator[tuple[tuple[Walk, ...], tuple[bool, ...]]]:
    """Random products: axes of one operand, of both, of none, which both repeat, and summed ones of both or of one."""
    rng = np.random.default_rng(seed)
    kinds = ((1, 1, 1), (1, 0, 1), (0, 1, 1), (0, 0, 1), (1, 1, 0), (1, 0, 0))
    for _ in range(ROUNDS):
        chosen = [kinds[int(rng.integers(len(kinds)))] for _ in range(int(rng.integers(2, 6)))]
        walks = [
            {"extent": int(rng.integers(2, 40)), **dict(zip(("left", "right", "out"), kind, strict=True))}
            for kind in chosen
        ]
        yield arrays(rng, walks), tuple(not kind[2] for kind in chosen)


def cells(shape: Shape) -> int:
    return math.prod(walk.extent for walk in (shape.rows, shape.columns, shape.terms, *shape.batches))


@pytest.mark.parametrize("seed", range(3))
def test_every_cell_of_the_output_gets_each_of_its_terms_once(seed: int) -> None:
    for walks, reduced in drawn(seed):
        shape = shaped(walks, reduced)
        assert shape is None or cells(shape) == math.prod(walk.extent for walk in walks)


@pytest.mark.parametrize("seed", range(3))
def test_cells_that_both_operands_repeat_are_in_one_product_if_rows_and_columns_leave_room(seed: int) -> None:
    found = 0
    for walks, reduced in drawn(seed):
        shape = shaped(walks, reduced)
        made = [walk for walk, sums in zip(walks, reduced, strict=True) if not sums]
        rows, columns, none = (
            [walk for walk in made if (bool(walk.left), bool(walk.right)) == sides]
            for sides in ((True, False), (False, True), (False, False))
        )
        if shape is not None and len(none) == 1 and len(rows) + len(columns) <= 1:
            found += 1
            assert all(walk.left or walk.right for walk in shape.batches), (walks, reduced)
    assert found > 10


@pytest.mark.parametrize(("rows", "columns", "copied"), [(48, 500, "left"), (500, 48, "right")])
def test_the_smaller_of_two_operands_whose_terms_lie_in_other_orders_is_copied(
    rows: int, columns: int, copied: str
) -> None:
    walks = (Walk(rows, 36, 0, columns), Walk(columns, 0, 36, 1), Walk(4, 9, 1, 0), Walk(9, 1, 4, 0))
    shape = shaped(walks, (False, False, True, True))
    assert shape is not None
    assert {*shape.copied} == {copied}


@pytest.mark.parametrize("seed", range(3))
def test_an_operand_that_is_read_once_is_not_copied_for_longer_axes(seed: int) -> None:
    found = 0
    for walks, reduced in drawn(seed):
        shape = shaped(walks, reduced)
        made = [walk for walk, sums in zip(walks, reduced, strict=True) if not sums]
        if shape is None or sum(reduced) > 1 or any(not walk.left and walk.out for walk in made):
            continue
        found += 1
        assert "left" not in shape.copied, (walks, reduced)
    assert found > 10


@pytest.mark.parametrize(
    ("rows", "columns", "terms", "copied"),
    [(8, 9, 8, {"right"}), (8, 20, 8, set()), (200, 20, 64, {"right"}), (200, 32, 8, {"right"}), (200, 32, 64, set())],
)
def test_an_operand_is_not_copied_for_longer_axes_where_one_fills_vectors(
    rows: int, columns: int, terms: int, copied: set[str]
) -> None:
    walks = (
        Walk(rows, terms, 0, 10 * columns),
        Walk(10, 0, terms * columns, columns),
        Walk(columns, 0, 1, 1),
        Walk(terms, 1, columns, 0),
    )
    shape = shaped(walks, (False, False, False, True))
    assert shape is not None
    assert {*shape.copied} == copied


@pytest.mark.parametrize("seed", range(3))
def test_cells_that_lie_side_by_side_in_what_is_written_are_in_one_product_if_they_fill_some_of_a_vector(
    seed: int,
) -> None:
    found = 0
    for walks, reduced in drawn(seed):
        shape = shaped(walks, reduced)
        for near in [
            walk for walk in walks if walk.out == 1 and walk.extent >= 5 and bool(walk.left) != bool(walk.right)
        ]:
            if shape is not None:
                found += 1
                assert 1 in (shape.rows.out, shape.columns.out), (walks, near)
    assert found > 100


@pytest.mark.parametrize(
    ("columns", "cells", "terms", "expected"),
    [(1, 4, 60, True), (1, 3, 60, False), (9, 16, 60, False), (9, 64, 7, True)],
)
def test_loops_make_vectors_of_cells_beside_each_other(columns: int, cells: int, terms: int, expected: bool) -> None:
    """Of `y[h, o, w] += x[h, k, w] * z[o, k, w]`: with one column, of few cells and many terms, too."""
    rows, column = Walk(9, terms * cells, 0, columns * cells), Walk(columns, 0, terms * cells, cells)
    found = shaped((rows, column, Walk(terms, cells, cells, 0), Walk(cells, 1, 1, 1)), (False, False, True, False))
    assert found is not None
    assert beside(found) == expected


@pytest.mark.parametrize("seed", range(3))
def test_a_copy_has_cells_of_rows_and_columns_side_by_side_that_lie_so_unless_terms_do(seed: int) -> None:
    found = 0
    for walks, reduced in drawn(seed):
        shape = shaped(walks, reduced)
        for name, axes in shape.copied.items() if shape is not None else ():
            other = "right" if name == "left" else "left"
            near = [walk for walk in axes if getattr(walk, name) == 1 and walk.extent >= 5]
            own = [walk for walk in near if walk.out and not getattr(walk, other)]
            terms = [walk for walk in near if not walk.out]
            if terms:
                assert axes[-1].out == 0, (walks, reduced)
            elif own and name == "right":  # left is turned where several products read it
                found += 1
                assert (bool(axes[-1].out), bool(axes[-1].left)) == (True, False), (walks, reduced)
    assert found > 10
