"""Indices that are said to stay inside their axes do so in every call."""

from __future__ import annotations

import itertools
import random

import pytest
from opwright.derive.algebra.inside import inside, sizes_of
from opwright.derive.algebra.poly import ONE, Poly
from opwright.language import expr
from opwright.language.expr import Binary, Call, Expr, Name, Number, Unary
from opwright.load import load_texts

SPEC = """op: Border
revision: 1
summary: Cells with borders.
dims: {cells: {symbol: H}, more: {symbol: Y}, groups: {symbol: G, min: 1}, all: {symbol: A}, half: {symbol: Z}, even: {symbol: E}, pairs: {symbol: V},
  windows: {symbol: W}}
attributes:
  - {name: pad, symbol: P, type: s64, required: true, min: 0, max: 4}
  - {name: shift, symbol: S, type: s64, required: true}
inputs: [{name: src, dims: {H: H}}, {name: most, dims: {G: G}}, {name: wide, dims: {A: A}}, {name: pairs_of, dims: {E: E}}]
outputs: [{name: dst, dims: {Y: Y, Z: Z, V: V, W: W}}]
dtypes: [{src: f32, most: f32, wide: f32, pairs_of: f32, dst: f32, accumulate: f32}]
shape: {Y: H + 2 * P, Z: floor((H + 1) / 2), V: E / 2, W: floor((H - 3) / 2) + 1}
constraints:
  - {id: room, expr: P < H, say: pads are less than cells, argument: pad}
  - {id: wide, expr: A == H or A == 1, say: wide has all cells or one, argument: wide}
semantics:
  ranges: {i: Y, z: Z, v: V, w: W}
  steps:
    - dst[i, z, v, w] = src[min(max(i - P, 0), H - 1)] + most[min(i, G - 1)] + wide[min(i, A - 1)] + pairs_of[2 * v]
"""
PAST: dict[str, Expr] = {
    "i": Binary("+", Name("H"), Binary("*", Number(2), Name("P"))),
    "h": Name("H"),
    "g": Name("G"),
    "z": Name("Z"),
    "v": Name("V"),
    "w": Name("W"),
    "e": Name("E"),
    "q": Binary("/", Name("E"), Number(2)),
}
KNOWN = [
    ("min(max(i - P, 0), H - 1)", "H"),
    ("min(max(i - P, P - i), 2 * (H - 1) + P - i)", "H"),
    ("max(h - P, P - h)", "H"),
    ("max(i - P, P - i) - 2 * max(i - P - H + 1, 0)", "H"),
    ("P - i + 2 * max(i - P, 0) - max(i - P - H + 1, 0) * 2", "H"),
    ("H - 1 - h", "H"),
    ("(h - S) % H", "H"),
    ("floor(h / G)", "H"),
    ("floor(g * H / G)", "H"),
    ("floor((h * G + g) / G)", "H"),
    ("min(h, A - 1)", "A"),
    ("2 * z", "H"),
    ("2 * v + 1", "E"),
    ("E - 1 - 2 * v", "E"),
    ("2 * q + 1", "E"),
    ("q + E / 2", "E"),
    ("2 * w + 2", "H"),
    ("min(2 * z + 1, H - 1)", "H"),
    ("min(max(2 * z + P - P, 0), 2 * (H - 1) - 2 * z)", "H"),
    ("g * H + h", "G * H"),
    ("floor(e / 2)", "E / 2"),
    ("floor((E - 1 - e) / 2)", "E / 2"),
    ("min(floor(h / G) + 1, H - 1)", "H"),
    ("min(floor(h * (H - 1) / G) + floor(i / 2), H - 1)", "H"),
    ("max(min(floor(max(i - P, 0) / G), H - 1), 0)", "H"),
    ("h + floor(g / 2)", "H + floor((G - 1) / 2)"),
    ("h + floor((2 * g + 1) / 3)", "H + floor((2 * (G - 1) + 1) / 3)"),
]
UNKNOWN = [
    ("i - P", "H"),
    ("2 * z + 1", "H"),
    ("2 * v + 2", "E"),
    ("2 * w + 3", "H"),
    ("min(max(i - P, P - i), 2 * H + P - i)", "H"),
    ("min(max(i - S, S - i), H - 1) - 1", "H"),
    ("min(i, A - 1)", "H - 1"),
    ("max(h, H) - 1", "P"),
    ("floor(h / G) + S", "H"),
    ("floor((e + 1) / 2)", "E / 2"),
    ("min(floor(h / G) - 1, H - 1)", "H"),
    ("min(floor((h - 2) / G) + 1, H - 1)", "H"),
    ("min(1 - floor(h / G), H - 1)", "H"),
    ("floor(h / G) + 1", "H"),
    ("h + floor(g / 2) + 1", "H + floor((G - 1) / 2)"),
    ("h + ceil(g / 2)", "H + floor((G - 1) / 2)"),
    ("h + floor((G - g) / 2)", "H + floor((G - (G - 1)) / 2)"),
]


def value(tree: Expr, names: dict[str, int]) -> int:
    if isinstance(tree, Number):
        return int(tree.value)
    if isinstance(tree, Name):
        return names[tree.id]
    if isinstance(tree, Call) and tree.function in ("floor", "ceil"):
        above, below = (value(side, names) for side in expr.children(tree.arguments[0]))
        return above // below if tree.function == "floor" else -(-above // below)
    parts = [value(child, names) for child in expr.children(tree)]
    if isinstance(tree, Call):
        return min(parts) if tree.function == "min" else max(parts)
    if isinstance(tree, Unary):
        return -parts[0]
    assert isinstance(tree, Binary)
    left, right = parts
    if tree.op == "/":
        return left // right
    return left % right if tree.op == "%" else {"+": left + right, "-": left - right, "*": left * right}[tree.op]


def calls() -> list[dict[str, int]]:
    """Sizes that satisfy the conditions."""
    found = itertools.product(range(4), range(1, 4), range(3), range(-2, 3))
    return [
        {"H": h, "G": g, "P": p, "S": s, "A": a, "Z": (h + 1) // 2, "E": 2 * h, "V": h, "W": (h - 1) // 2}
        for h, g, p, s in found
        if p < h
        for a in sorted({1, h})
    ]


CALLS = calls()


def is_inside(index: Expr, extent: Expr) -> bool:
    """Whether an index stays inside in small calls."""
    letters = [letter for letter in PAST if letter in expr.names(index)]
    for sizes in CALLS:
        cells = value(extent, sizes)
        for at in itertools.product(*(range(value(PAST[letter], sizes)) for letter in letters)):
            if not 0 <= value(index, {**sizes, **dict(zip(letters, at, strict=True))}) < cells:
                return False
    return True


(OP,) = load_texts({"border.yaml": SPEC}).ops
SIZES = sizes_of(OP)


def said(index: Expr, extent: Expr) -> bool:
    return inside(index, extent, SIZES, {x: PAST[x] for x in PAST if x in expr.names(index)})


@pytest.mark.parametrize(("index", "extent"), KNOWN)
def test_an_index_is_known_to_stay_inside(index: str, extent: str) -> None:
    trees = expr.parse(index), expr.parse(extent)
    assert is_inside(*trees)
    assert said(*trees)


@pytest.mark.parametrize(("index", "extent"), UNKNOWN)
def test_an_index_that_may_leave_its_axis_is_not_said_to_stay(index: str, extent: str) -> None:
    trees = expr.parse(index), expr.parse(extent)
    assert not is_inside(*trees)
    assert not said(*trees)


def drawn(source: random.Random, depth: int) -> Expr:
    if depth == 0 or source.random() < 0.2:
        return expr.parse(source.choice(("i", "h", "g", "H", "P", "A", "S", "0", "1", "2")))
    if (kind := source.random()) < 0.5:
        return Call(source.choice(("min", "max")), (drawn(source, depth - 1), drawn(source, depth - 1)))
    if kind < 0.6:
        return Binary("%", drawn(source, depth - 1), Name(source.choice("HG")))
    if kind < 0.65:
        return Call(source.choice(("floor", "ceil")), (Binary("/", drawn(source, depth - 1), Name("G")),))
    if kind < 0.75:
        factors = [expr.parse(source.choice(("2", "3", "P", "S", "A", "0 - 2"))), drawn(source, depth - 1)]
        source.shuffle(factors)
        return Binary("*", *factors)
    return Binary(source.choice("+--"), drawn(source, depth - 1), drawn(source, depth - 1))


def test_no_index_that_is_said_to_stay_inside_leaves_its_axis() -> None:
    source, told = random.Random(1), 0
    for _ in range(1000):
        index, extent = drawn(source, 3), expr.parse(source.choice(("H", "A", "H + P")))
        if said(index, extent):
            told += 1
            assert is_inside(index, extent), f"{index} in {extent}"
    assert told > 10


def test_sizes_are_known_by_those_that_they_are_made_of() -> None:
    assert SIZES.values["Y"] == Poly.symbol("H") + Poly.symbol("P") + Poly.symbol("P")
    assert Poly.symbol("H") - Poly.symbol("P") - ONE in SIZES.known
    assert SIZES.positive == {"G"}
