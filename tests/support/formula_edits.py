"""Edits of the formulas of specs, by text: algebra that holds, algebra that nearly holds, names and numbers exchanged.

In: the texts of specs and a random generator. Out: other texts, with one or two formulas edited.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from opwright.language.library import Library
from opwright.language.schema import Located
from opwright.language.types import formulas
from opwright.load import load_texts

NAME = re.compile(r"\b[A-Za-z]\w*\b(?!\s*[\[(])")
NUMBER = re.compile(r"\b\d+\b")
LOGICAL = re.compile(r"==|!=|<|>|\bnot\b")
# What a number may become; {f} is the formula, {x} a name in it, {c} a number.
NUMBERS = [
    "({f}) + 0", "({f}) * 1", "max({f}, {f})", "({f}) + {x} - {x}", "{f} + floor({x} / {c})", "min({f}, {c})",
    "max({f}, {c})", "max({f}, 0)", "floor(({f}) / 1)", "({f}) * 2 - ({f})", "({f}) + floor(({x} + 1) / 2) - ceil({x} / 2)",
    "({f}) + ceil({x} / 2) - floor({x} / 2)", "({f}) - min({x}, 0)", "({f}) + max({x} - {c}, 0)", "2 * floor(({f}) / 2)",
    "({f}) % {c}", "({f}) + 1", "-(-({f}))", "({f}) + {x} % 1", "min({f}, ({f}) + {x})", "({f}) + floor(1 / ({x} + 1))",
]  # fmt: skip
CONDITIONS = [
    "({f}) and {x} >= 0", "({f}) and {x} <= {c}", "({f}) or {x} > {c}", "not (not ({f}))", "({f}) and ({f})",
    "({f}) and {x} != {c}", "({f}) or {x} != {x}", "({f}) and {x} + 1 > {x}", "({f}) and {x} < {c} + {x}",
]  # fmt: skip
FAR = (0, 1, 2, 3, 5, 7, 12, 32, 64, 100, 1000, 4096, 60000)


@dataclass(frozen=True)
class Place:
    """A formula and where it stands."""

    file: str
    line: int
    text: str


def places(library: Library) -> list[Place]:
    """The formulas that stand in one line, each once."""
    found = {}
    for op in library.ops:
        located: list[Located] = [f for let in op.lets.values() for f in formulas(let)]
        located += [c.expr for c in op.constraints if c.expr]
        located += [
            e for t in (*op.inputs, *op.outputs) for dims in t.dims_by_arrangement.values() for e in dims.values()
        ]
        tensors = (*op.inputs, *op.outputs)
        located += [i for t in tensors for one in t.arrangements.values() for i in one.index.values()]
        located += [*op.semantics.ranges.values(), *([op.semantics.finish] if op.semantics.finish else [])]
        reduced = op.semantics.assignment
        found |= {(f.at.file, f.at.line, f.text): None for f in located}
        found[reduced.at.file, reduced.at.line, reduced.text.split("=", 1)[1].strip()] = None
    return [Place(*key) for key in found]


def edits(texts: Mapping[str, str], count: int, chance: random.Random) -> Iterator[tuple[str, dict[str, str]]]:
    """What was done, and the texts after it; every third time in two places."""
    known = places(load_texts(texts))
    for number in range(count):
        after, kinds = dict(texts), []
        for place in chance.sample(known, 2 if number % 3 == 2 else 1):
            new = edited(place.text, chance)
            lines = after[place.file].split("\n")
            line = lines[place.line - 1]
            quoted = f'"{place.text}"' in line or f"'{place.text}'" in line
            lines[place.line - 1] = line.replace(place.text, new if quoted else f'"{new}"', 1)
            after[place.file] = "\n".join(lines)
            kinds.append(f"{place.file.rsplit('/', 1)[-1]}:{place.line}: {place.text} -> {new}")
        yield "; ".join(kinds), after


def edited(text: str, chance: random.Random) -> str:
    """A formula with one change."""
    names = [name for name in NAME.findall(text) if name not in ("not", "and", "or")] or ["1"]
    name, far = chance.choice(names), str(chance.choice(FAR))
    draw = chance.random()
    if draw < 0.6:
        made = chance.choice(CONDITIONS if LOGICAL.search(text) else NUMBERS)
        return made.replace("{f}", text).replace("{x}", name).replace("{c}", far)
    if draw < 0.75 and NUMBER.search(text):
        found = chance.choice(list(NUMBER.finditer(text)))
        return text[: found.start()] + chance.choice([far, str(int(found.group()) + 1)]) + text[found.end() :]
    if draw < 0.9:
        return re.sub(rf"\b{name}\b", chance.choice(names), text, count=1)
    return text.replace("floor", "ceil", 1) if "floor" in text else text.replace("max", "min", 1)
