"""Two small changes of a spec at once, chosen at random: those of mutants.py, and those that no table of kinds makes.

In: a seed. Out: a base and a head, both of which the loader takes. What a change alone leaves predictable may not stay so
beside another one, because an operation between the two edits need not make sense.
"""

from __future__ import annotations

import copy
import functools
import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from opwright.language.source import SpecInvalid
from opwright.load import load_texts

from . import checkout, mutants, reviewing, specs

Data = dict[str, Any]
Change = Callable[[Data, random.Random], Data]
OWN = ("average_pool", "matrix_product", "max_pool", "triangular_product")  # of tests/data
SHARED = ("_common.yaml", "_sources.yaml")
TRIES = 400


@dataclass(frozen=True)
class Pair:
    """Two changes by their names, and the texts of both sides."""

    names: tuple[str, ...]
    before: Mapping[str, str]
    after: Mapping[str, str]


def bases() -> list[dict[str, str]]:
    """Sets of specs that changes are made in: each operation alone, without its ties to others, and all together."""
    texts = reviewing.specs()
    shared = {name: text for name, text in texts.items() if name.endswith(SHARED)}
    alone = [{**shared, name: specs.untied(text)} for name, text in texts.items() if name not in shared]
    own = [
        {f"{reviewing.FOLDER}/{name}.yaml": (checkout.ROOT / f"tests/data/{name}.yaml").read_text(encoding="utf-8")}
        for name in OWN
    ]
    return [*alone, *own, texts]


def operations(library: Data) -> list[str]:
    return [name for name in library if not name.endswith(SHARED)]


# Changes of whole entries and files. Each makes new data, or the same where it has nothing to change.


def _in_one(make: Callable[[Data, random.Random], None]) -> Change:
    def change(library: Data, chance: random.Random) -> Data:
        name = chance.choice(operations(library))
        data = copy.deepcopy(library[name])
        make(data, chance)
        return {**library, name: data}

    return change


def _row_added(data: Data, chance: random.Random) -> None:
    """Types that no row takes yet: a narrow one, with some tensors in f32."""
    outputs = [tensor["name"] for tensor in data["outputs"]]
    inputs = [key for key in data["dtypes"][0] if key not in (*outputs, "accumulate")]
    known = [[row[key] for key in inputs] for row in data["dtypes"]]
    kind = chance.choice(["bf16", "f16", "f32"])
    row = {key: value if value == "s32" else chance.choice([kind, "f32"]) for key, value in data["dtypes"][0].items()}
    row["accumulate"] = chance.choice(["f32", "f32", "f64"])
    if [row[key] for key in inputs] not in known:
        data["dtypes"].insert(chance.randint(0, len(data["dtypes"])), row)


def _row_replaced(data: Data, chance: random.Random) -> None:
    """Another output or accumulator: bf16 that returns f32, a sum in f64."""
    row = chance.choice(data["dtypes"])
    key = chance.choice([list(row)[-2], "accumulate"])
    row[key] = chance.choice(["f32", "f64"] if key == "accumulate" else ["f32", "bf16", "f16"])


def _rows_fewer(data: Data, chance: random.Random) -> None:
    del data["dtypes"][chance.randrange(len(data["dtypes"]))]


def _said(data: Data, chance: random.Random) -> None:
    """Another `say`, `ruling`, or `page`, wherever one stands."""
    found = [entry for entry in _entries(data) if {"say", "ruling", "page", "why"} & entry.keys()]
    if found:
        entry = chance.choice(found)
        key = chance.choice([key for key in ("say", "ruling", "page", "why") if key in entry])
        entry[key] = f"{entry[key]} indeed"


def _discrepancy_added(data: Data, chance: random.Random) -> None:
    case = {"id": "R99", "page": "One thing.", "library": "Another.", "ruling": "The other.", "why": "It runs."}
    data.setdefault("discrepancies", []).append(case)


def _constraint_added(data: Data, chance: random.Random) -> None:
    if data.get("attributes"):
        first = data["attributes"][0]
        argument = first if isinstance(first, str) else first.get("use", first.get("name"))
        rule = {"id": "rank-is-small", "expr": "2 > 1", "say": "two is more than one", "argument": argument}
        data.setdefault("constraints", []).insert(0, rule)


def _value_added(data: Data, chance: random.Random) -> None:
    symbol = next(entry["symbol"] if isinstance(entry, dict) else entry for entry in data["dims"].values())
    data.setdefault("let", {})["XYZ"] = {"value": f"{symbol} + 1", "summary": "one more"}


def _typical(data: Data, chance: random.Random) -> None:
    role = chance.choice(list(data["dims"]))
    entry = data["dims"][role]
    entry = entry if isinstance(entry, dict) else {"symbol": entry}
    data["dims"][role] = {**entry, "typical": str(chance.choice([1, 2, 5, 1000]))}


def _revision(data: Data, chance: random.Random) -> None:
    data["revision"] = str(int(data["revision"]) + 1)


def _deprecated(data: Data, chance: random.Random) -> None:
    data["deprecated"] = "use another one"


def _renamed_op(library: Data, chance: random.Random) -> Data:
    name = chance.choice(operations(library))
    old = library[name]["op"]
    return {file: mutants.renamed(file, data, old, f"{old}New") for file, data in library.items()}


def _moved(library: Data, chance: random.Random) -> Data:
    name = chance.choice(operations(library))
    return {(file.replace(".yaml", "_moved.yaml") if file == name else file): data for file, data in library.items()}


def _gone(library: Data, chance: random.Random) -> Data:
    gone = chance.choice(operations(library))
    op = library[gone]["op"]

    def kept_of(data: Data) -> Data:
        ties = [tie for tie in data.get("relations", ()) if op not in tie.values()]
        return {**data, "relations": ties} if ties != data.get("relations", []) else data

    return {file: kept_of(data) for file, data in library.items() if file != gone}


def _come(library: Data, chance: random.Random) -> Data:
    stem = chance.choice(OWN)
    name = f"{reviewing.FOLDER}/{stem}_other.yaml"
    data = mutants.plain((checkout.ROOT / f"tests/data/{stem}.yaml").read_text(encoding="utf-8"))
    return {**library, name: {**data, "op": f"{data['op']}Other"}}


WHOLE: dict[str, Change] = {
    **{
        make.__name__.strip("_"): _in_one(make)
        for make in (
            _row_added, _row_replaced, _rows_fewer, _said, _discrepancy_added, _constraint_added, _value_added, _typical,
            _revision, _deprecated,
        )
    },
    "renamed_op": _renamed_op, "moved": _moved, "gone": _gone, "come": _come,
}  # fmt: skip


def _entries(data: Any) -> Iterator[Data]:
    if isinstance(data, dict):
        yield data
    for inner in data.values() if isinstance(data, dict) else data if isinstance(data, list) else ():
        yield from _entries(inner)


def pair(seed: int, sets: list[dict[str, str]]) -> Pair:
    """Two changes in one of the sets of specs that together are no mistake, the same for the same seed."""
    chance = random.Random(seed)
    texts = chance.choice([*sets[:-1] * 2, sets[-1]])
    return _made(texts, [lambda library: _changed(library, chance)] * 2)


def chosen(names: tuple[str, ...], texts: dict[str, str]) -> Pair:
    """Changes of WHOLE by their names, one after the other."""
    chance = random.Random(0)
    return _made(texts, [functools.partial(_named, name, chance) for name in names])


def _named(name: str, chance: random.Random, library: Data) -> tuple[str, Data]:
    return name, WHOLE[name](library, chance)


def _made(texts: dict[str, str], changes: list[Callable[[Data], tuple[str, Data]]]) -> Pair:
    library = {name: mutants.plain(text) for name, text in texts.items()}
    before = {name: mutants.written(data) for name, data in library.items()}
    for _ in range(TRIES):
        names, now = [], dict(library)
        try:
            for change in changes:
                was = now
                name, now = change(now)
                names.append(name)
        except (
            KeyError,
            IndexError,
            TypeError,
            ValueError,
            AttributeError,
        ):  # the one took away what the other changes
            continue
        after = {name: mutants.written(data) for name, data in now.items()}
        if was != now and was != library and _taken(after):
            return Pair(tuple(names), before, after)
    raise AssertionError(f"no pair of changes that the loader takes, in {TRIES} tries")


def _changed(library: Data, chance: random.Random) -> tuple[str, Data]:
    if chance.random() < 0.4:
        name = chance.choice(list(WHOLE))
        return name, WHOLE[name](library, chance)
    file = chance.choice(list(library))
    by_spot: dict[tuple[str, str], list[mutants.Mutant]] = {}
    for mutant in mutants.mutants(file, library[file]):
        by_spot.setdefault((mutant.spot, mutant.how), []).append(mutant)
    mutant = chance.choice(by_spot[chance.choice(list(by_spot))])
    return mutant.name, {**library, **mutant.edited(library)}


def _taken(texts: dict[str, str]) -> bool:
    try:
        load_texts(texts)
    except SpecInvalid:
        return False
    return True
