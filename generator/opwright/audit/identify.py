"""Matches the rows of a page's table with the attributes of a spec.

A row with a name belongs to the attribute of that name. Rows without a name are matched with the remaining attributes
so that both orders are preserved and the rows' contents fit best.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from ..language.model import Attribute, Op
from . import facts

Match = tuple[facts.Row, Attribute | None, str]

# Words that descriptions use for a part of an attribute's name.
MEANS = {
    "begin": ("front", "top", "left", "begin", "before"),
    "end": ("back", "bottom", "right", "end", "after"),
    "dilations": ("stretch", "dilat"),
    "groups": ("divided", "group"),
    "auto": ("calculated", "automatic"),
    "output": ("additional", "output"),
    "strides": ("stride", "moved"),
    "data": ("src", "input"),
    "format": ("interpret", "layout", "format"),
    "pads": ("padding", "zeros"),
}
MAX_ROWS = 100


def spec_facts(attribute: Attribute) -> dict[str, str | None]:
    """The spec's facts of an attribute, in the terms of facts.attribute_facts."""
    return {
        "type": attribute.type,
        "min": None if attribute.min is None else str(attribute.min),
        "values": " ".join(allowed.value for allowed in attribute.values or ()) or None,
        "default": attribute.default,
        "required": "true" if attribute.required else "false",
    }


def identify(rows: Sequence[facts.Row], op: Op) -> list[Match]:
    """Each row with its attribute, or None for an attribute that the spec does not have."""
    by_name = {attribute.page_name or str(attribute.name): attribute for attribute in op.attributes}
    named = {id(row): by_name.get(row.name) for row in rows if row.name}
    left = [a for a in op.attributes if all(a is not other for other in named.values())]
    nameless = [row for row in rows if not row.name][:MAX_ROWS]
    scores = [[_score(row, attribute, spec_facts(attribute)) for attribute in left] for row in nameless]
    chosen = dict(zip(map(id, nameless), _aligned(scores), strict=True))
    result: list[Match] = []
    for row in rows:
        if row.name:
            result.append((row, named[id(row)], ""))
        elif id(row) in chosen:
            n = chosen[id(row)]
            how = f"row {row.number + 1}: the name is lost; taken by the row's order and content"
            result.append((row, None if n is None else left[n], how))
    return result


def _score(row: facts.Row, attribute: Attribute, holds: dict[str, str | None]) -> float:
    """How well a row fits: by facts that agree or disagree, and by its description."""
    page_facts = facts.attribute_facts(row)
    score = 1.0
    for field, spec in holds.items():
        stated = page_facts[field]
        if stated is not None or (spec is None and field == "values"):
            score += 1 if set((stated or "").split()) == set((spec or "").split()) else -0.5
    return score + 0.8 * sum(_mentions(row, attribute))


def _mentions(row: facts.Row, attribute: Attribute) -> list[bool]:
    """For each part of an attribute's name whether the row's description mentions it."""
    description = row.cells["description"].text.casefold()
    parts = str(attribute.name).split("_")
    return [bool(re.search("|".join(MEANS.get(part, (part,))), description)) for part in parts]


def misdescribed(row: facts.Row, attribute: Attribute, op: Op) -> Attribute | None:
    """The attribute that a row's description fits, if it does not fit the row's own attribute."""
    if all(_mentions(row, attribute)):
        return None
    return next((other for other in op.attributes if all(_mentions(row, other))), None)


def _aligned(scores: Sequence[Sequence[float]]) -> list[int | None]:
    """The attribute of each row, by an alignment in order with gaps on both sides that maximises the sum of scores."""
    rows, columns = len(scores), len(scores[0]) if scores else 0
    best = [[0.0] * (columns + 1) for _ in range(rows + 1)]
    for r in range(rows - 1, -1, -1):
        for c in range(columns - 1, -1, -1):
            best[r][c] = max(best[r + 1][c], best[r][c + 1], scores[r][c] + best[r + 1][c + 1])
    result: list[int | None] = []
    c = 0
    for r in range(rows):
        while c < columns and best[r][c] == best[r][c + 1] != best[r + 1][c]:
            c += 1
        if c < columns and best[r][c] == scores[r][c] + best[r + 1][c + 1]:
            result.append(c)
            c += 1
        else:
            result.append(None)
    return result
