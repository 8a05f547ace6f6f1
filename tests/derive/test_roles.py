"""The roles of letters follow from the accesses in which they stand."""

from __future__ import annotations

import pytest
from opwright.derive.roles import roles
from opwright.language import expr
from opwright.language.expr import Read

SPECS = {
    "out[i, m, n] a[i, m, k] b[i, k, n]": {"i": "batch", "m": "rows", "n": "columns", "k": "reduced"},
    "out[x] a[x]": {"x": "batch"},
    "out[x] a[x, k]": {"x": "batch", "k": "reduced"},
    "out[x, y] a[x] b[x]": {"x": "batch", "y": "stretched"},
    "out[x] a[x + k] w[k]": {"x": "window rows", "k": "window reduced"},
}


@pytest.mark.parametrize("text", SPECS)
def test_a_letter_has_the_role_of_its_accesses(text: str) -> None:
    accesses = [access(part) for part in text.replace("] ", "]|").split("|")]
    letters = SPECS[text]
    assert roles(accesses[0], accesses[1:], letters) == letters


def access(text: str) -> Read:
    name, _, indices = text.rstrip("]").partition("[")
    trees = [expr.Name(part) if " " not in part else sum_of(part) for part in indices.split(", ")]
    return Read(name, tuple(trees))


def sum_of(text: str) -> expr.Expr:
    left, right = text.split(" + ")
    return expr.Binary("+", expr.Name(left), expr.Name(right))
