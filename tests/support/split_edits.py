"""Edits of specs that may take, give or change a way to split an operation.

In: the spec of one operation as plain data, and a random generator. Out: the same with one edit: a cell read elsewhere
along an axis, another operator, window or order of letters, a step that needs a whole row, a formula that knows an extent.
"""

from __future__ import annotations

import copy
import random
import re
from collections.abc import Iterator, Sequence
from typing import Any

from opwright.language.source import SpecInvalid

from . import step_edits
from .tree_edits import NothingError, one_of

Data = dict[str, Any]
READ = re.compile(r"\b(\w+)\[([^\[\]]+)\]")
INDICES = ("{x} + 1", "{x} - 1", "2 * {x}", "floor({x} / 2)", "0", "{E} - 1 - {x}", "min({x} + 1, {E} - 1)")


def _formulas(op: Data) -> Iterator[tuple[Any, Any]]:
    """Each place that holds an assignment or what follows it: the holder and the key."""
    yield from step_edits._assignments(op)
    yield from ((op["semantics"], key) for key in ("reduce", "finish") if key in op["semantics"])


def _read(text: str, chance: random.Random) -> tuple[re.Match[str], list[str]]:
    found = one_of(chance, READ.finditer(text))
    return found, [part.strip() for part in found[2].split(",")]


def elsewhere(op: Data, chance: random.Random) -> None:
    """A cell is read elsewhere along an axis, instead or in addition."""
    holder, key = one_of(chance, _formulas(op))
    target, sign, text = re.split(r"((?:\+|\*|max|min)?=) ", f"{holder[key]}", maxsplit=1)
    found, indices = _read(text, chance)
    at = chance.randrange(len(indices))
    index = chance.choice(INDICES).replace("{E}", op["semantics"]["ranges"].get(indices[at], "2"))
    indices[at] = index.replace("{x}", indices[at])
    read = f"{found[1]}[{', '.join(indices)}]"
    instead = chance.random() < 0.5
    made = f"{text[: found.start()]}{read}{text[found.end() :]}" if instead else f"{text} + {read}"
    holder[key] = f"{target}{sign} {made}"


def operator(op: Data, chance: random.Random) -> None:
    """Another reduction."""
    holder, key = one_of(chance, _formulas(op))
    holder[key] = re.sub(r"(\+|\*|max|min)?= ", f"{chance.choice(('+=', 'max=', 'min=', '*='))} ", holder[key], count=1)


def window(op: Data, chance: random.Random) -> None:
    """Another stride, dilation, padding or number in a formula."""
    places = [*_formulas(op), *((op[part], key) for part in ("let", "shape") for key in op.get(part, ()))]
    holder, key = one_of(chance, (place for place in places if isinstance(place[0][place[1]], str)))
    found = one_of(chance, re.finditer(r"\b([SDP][0-9]?|PB|PE|[0-9]+)\b", holder[key]))
    other = chance.choice(("0", "1", "2", f"({found[0]} + 1)", f"(2 * {found[0]})", "PB", "PE", "S", "D"))
    holder[key] = f"{holder[key][: found.start()]}{other}{holder[key][found.end() :]}"


def row(op: Data, chance: random.Random) -> None:
    """A step needs a whole row of what it made."""
    steps = op["semantics"]["steps"]
    plain = [(n, step_edits.ASSIGNMENT.match(step)) for n, step in enumerate(steps) if isinstance(step, str)]
    number, found = one_of(chance, ((n, m) for n, m in plain if m))
    name, place, sign, text = found.groups()
    letters = place.strip("[]").split(", ")
    gone = chance.choice(letters)
    whole = f"whole[{', '.join(letter for letter in letters if letter != gone)}]"
    reduced = f"{whole} {chance.choice(('+=', 'max=', 'min='))} value{place}"
    steps[number : number + 1] = [f"value{place} {sign} {text}", reduced, f"{name}{place} = value{place} - {whole}"]


def extent(op: Data, chance: random.Random) -> None:
    """A formula knows an extent."""
    holder, key = one_of(chance, _formulas(op))
    dims = [dim["symbol"] if isinstance(dim, dict) else dim for dim in op["dims"].values()]
    holder[key] = f"{holder[key]} {chance.choice('+*')} prod({chance.choice(dims)})"


def swapped(op: Data, chance: random.Random) -> None:
    """Two letters of a cell exchanged."""
    holder, key = one_of(chance, _formulas(op))
    found, indices = _read(str(holder[key]), chance)
    one, other = chance.sample(range(len(indices)), 2)
    indices[one], indices[other] = indices[other], indices[one]
    start, end = found.span()
    holder[key] = f"{holder[key][:start]}{found[1]}[{', '.join(indices)}]{holder[key][end:]}"


EDITS = (elsewhere, operator, window, window, row, extent, swapped, step_edits.guard, step_edits.tensor)
IMPOSSIBLE = (NothingError, SpecInvalid, KeyError, IndexError, ValueError, TypeError, AttributeError)


def edited(op: Data, chance: random.Random, kinds: Sequence[Any] = EDITS) -> Data | None:
    """The operation after one edit; none where it has no place for it."""
    made = copy.deepcopy(op)
    try:
        chance.choice(kinds)(made, chance)
    except IMPOSSIBLE:
        return None
    return made if made != op else None
