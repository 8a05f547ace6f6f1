"""What provably changes nothing is not called a change: operands in another order, and defaults that are written out.

A short run takes every fourth spec; OPWRIGHT_SWEEP=full takes all.
"""

from __future__ import annotations

import copy
import dataclasses
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from opwright.language import expr
from opwright.language.expr import Binary, Call, Expr, Read, Unary
from opwright.language.schema import Formula, Located, Statement
from opwright.load import load_texts
from opwright.review import compare
from opwright.review.commuted import alike
from opwright.review.rules import RULES
from support import checkout, mutants, reviewing, spots
from support.specs import all_texts
from support.tree_edits import printed

STRIDE = 1 if os.environ.get("OPWRIGHT_SWEEP") == "full" else 3
SHARED = {f"{reviewing.FOLDER}/{name}": text for name, text in all_texts().items() if name.startswith("_")}
TURNED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
SYMMETRIC = ("+", "*", "==", "!=", "and", "or", "min", "max", "bit_and", "bit_or", "bit_xor")
# What a key means that is left out: for entries of a class, by key.
WRITTEN_OUT = {
    "Op": {"function": "{function}"},
    "Dim": {"run": "false", "per_axis": "false"},
    "Attribute": {"required": "false", "page_name": "{name}"},
    "Tensor": {"optional": "false", "absent": "0"},
}


def specs() -> Iterator[tuple[str, Any, dict[str, str]]]:
    """File, data, and the texts of other files: shipped operations, and those that were written for tests."""
    shipped = [(Path(name).stem, text) for name, text in all_texts().items() if not name.startswith("_")]
    for name, text in shipped[::STRIDE]:
        data = mutants.plain(text)
        data.pop("relations", None)
        yield f"{reviewing.FOLDER}/{name}.yaml", data, SHARED
    for path in sorted((checkout.ROOT / "tests/data").glob("*/*.yaml"))[::STRIDE]:
        yield f"{reviewing.FOLDER}/{path.name}", mutants.plain(path.read_text(encoding="utf-8")), {}


def turned(tree: Expr) -> Expr:
    """Every symmetric operation with its operands in another order, as far as all have a value."""
    if isinstance(tree, Unary):
        return dataclasses.replace(tree, operand=turned(tree.operand))
    if isinstance(tree, Read):
        return dataclasses.replace(tree, indices=tuple(map(turned, tree.indices)))
    if isinstance(tree, Call):
        operands = tuple(map(turned, tree.arguments))
        values = tree.function in ("min", "max") and any(isinstance(node, Read) for node in expr.walk(tree))
        free = tree.function in SYMMETRIC and not values
        return dataclasses.replace(tree, arguments=operands[::-1] if free else operands)
    if not isinstance(tree, Binary):
        return tree
    left, right = turned(tree.left), turned(tree.right)
    partial = any(isinstance(node, Binary) and node.op in "/%" for node in expr.walk(tree))
    if tree.op in TURNED or (tree.op in SYMMETRIC and not (partial and tree.op in ("and", "or"))):
        return Binary(TURNED.get(tree.op, tree.op), right, left)
    return Binary(tree.op, left, right)


def found(before: dict[str, str], after: dict[str, str]) -> list[str]:
    """Edits that a caller may notice, both ways."""
    base, head = load_texts(before), load_texts(after)
    edits = [edit for sides in ((base, head), (head, base)) for edit in compare.edits(*sides)]
    return [f"{edit.rule}: {edit.path}" for edit in edits if RULES[edit.rule].contract != "none"]


def test_operands_in_another_order_are_no_change_to_callers():
    wrong, changed = {}, 0
    for file, data, others in specs():
        after = copy.deepcopy(data)
        for spot in list(spots.spots({file: after})):
            if isinstance(spot.kind, (Formula, Statement)):
                target, sign, value = (
                    spot.data.partition("= ") if isinstance(spot.kind, Statement) else ("", "", spot.data)
                )
                holder = spots.at({file: after}, spot, 1)
                holder[spot.path[-1]] = f"{target}{sign}{printed(turned(expr.parse(value)))}"
        sides = [{**others, file: mutants.written(side)} for side in (data, after)]
        changed += sides[0] != sides[1]
        if findings := found(sides[0], sides[1]):
            wrong[file] = findings
    assert wrong == {}
    assert changed > 20


@pytest.mark.parametrize(
    ("was", "now", "same"),
    [
        ("a - b", "b - a", False),
        ("a < b", "b < a", False),
        ("a < b", "b > a", True),
        ("(a + b) + c", "c + (b + a)", True),
        ("(a + b) + c", "a + (b + c)", False),
        ("a > 0 and b % a == 0", "b % a == 0 and a > 0", False),
        ("a > 0 and b == 0", "0 == b and 0 < a", True),
        ("floor(a / b)", "floor(b / a)", False),
        ("max(a, 0)", "max(0, a)", True),
        ("max(x[i], 0)", "max(0, x[i])", False),
    ],
)
def test_only_symmetric_operands_change_places(was: str, now: str, same: bool):
    sides = [Located(expr.parse(text), text, None) for text in (was, now)]  # type: ignore[arg-type]
    assert alike(*sides) == same


def test_defaults_that_are_written_out_are_no_change_to_callers():
    wrong, taken = {}, set()
    for file, data, others in specs():
        before = {**others, file: mutants.written(data)}
        (op,) = load_texts(before).ops
        places = [("Op", ())] + [
            (spot.kind.cls.__name__, spot.path)  # type: ignore[attr-defined]
            for spot in spots.spots({file: data})
            if hasattr(spot.kind, "cls") and isinstance(spot.data, dict)
        ]
        after = copy.deepcopy(data)
        for cls, path in places:
            holder = after
            for step in path:
                holder = holder[step]
            absent = op.stepped and holder.get("optional") == "true" and "when" not in holder
            for key, value in WRITTEN_OUT.get(cls, {}).items():
                if key in holder or "use" in holder or (key == "absent" and not absent):
                    continue
                holder[key] = value.format(function=op.function, name=holder.get("name"))
                taken.add((cls, key))
        if findings := found(before, {**others, file: mutants.written(after)}):
            wrong[file] = findings
    assert wrong == {}
    assert len(taken) == 7
