"""Edits of the structure of specs: entries of every list and map that go, come, move, change places or names.

In: the texts of specs and a random generator. Out: other texts, with one or two edits. Specs are taken as plain data;
what an entry may become is taken from all entries that stand in the same field of some spec, so no field is named here
but in the edits that several fields take part in.
"""

from __future__ import annotations

import copy
import random
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

from opwright.language.schema import Formula, Statement
from opwright.language.structs import Struct, keys_of

from . import checkout, formula_edits, mutants
from .spots import PROSE, Data, NothingError, at, chosen, known, many, several, spots

Change = Callable[[Data, random.Random], None]
SHARED = ("_common.yaml", "_sources.yaml")


# Edits of one place.


def gone(library: Data, chance: random.Random) -> None:
    """An entry, or a key, goes."""
    spot = chosen(library, chance, lambda spot: True)
    del at(library, spot, 1)[spot.path[-1]]


def come(library: Data, chance: random.Random) -> None:
    """An entry comes that some spec has in the same field, at any place of the order."""
    spot = chosen(library, chance, many)
    place, holder = chance.randint(0, len(spot.data)), at(library, spot)
    if isinstance(holder, list):
        holder.insert(place, copy.deepcopy(chance.choice(known(f"{spot.field}[]"))))
        return
    key, item = chance.choice([pair for other in known(spot.field) for pair in other.items()])
    rest = [pair for pair in holder.items() if pair[0] != key]
    _fill(holder, [*rest[:place], (key, copy.deepcopy(item)), *rest[place:]])


def moved(library: Data, chance: random.Random) -> None:
    """The entries of a list or map stand in another order."""
    spot = chosen(library, chance, lambda spot: many(spot) and several(spot))
    holder = at(library, spot)
    order = list(holder.items() if isinstance(holder, dict) else holder)
    order.insert(chance.randrange(len(order)), order.pop(chance.randrange(len(order))))
    _fill(holder, order)


def swapped(library: Data, chance: random.Random) -> None:
    """Two entries of a map, or two keys of one kind, exchange what they hold."""
    spot = chosen(library, chance, lambda spot: isinstance(spot.data, dict) and several(spot))
    holder = at(library, spot)
    one, other = chance.sample(list(holder), 2)
    holder[one], holder[other] = holder[other], holder[one]


def replaced(library: Data, chance: random.Random) -> None:
    """A place holds what some spec has in the same field."""
    spot = chosen(library, chance, lambda spot: len(known(spot.field)) > 1)
    at(library, spot, 1)[spot.path[-1]] = copy.deepcopy(chance.choice(known(spot.field)))


def put(library: Data, chance: random.Random) -> None:
    """A key comes that the same kind of entry has elsewhere."""
    spot = chosen(library, chance, lambda spot: isinstance(spot.kind, Struct) and isinstance(spot.data, dict))
    name = spot.kind.cls.__name__  # type: ignore[attr-defined]
    absent = [key for key in keys_of(spot.kind.cls) if key not in spot.data and known(f"{name}.{key}")]  # type: ignore[attr-defined]
    if not absent:
        raise NothingError
    key = chance.choice(absent)
    at(library, spot)[key] = copy.deepcopy(chance.choice(known(f"{name}.{key}")))


def renamed(library: Data, chance: random.Random) -> None:
    """A name, for another one or for one that is there, in one place or throughout the specs."""
    spot = chosen(library, chance, lambda spot: isinstance(spot.data, str) and spot.data.isidentifier())
    new = chance.choice([f"{spot.data}x", *(word for word in known(spot.field) if isinstance(word, str))])
    if chance.random() < 0.3:
        at(library, spot, 1)[spot.path[-1]] = new
        return
    for file, data in library.items():
        between = mutants.renamed(file, mutants.renamed(file, data, new, "between"), spot.data, new)
        library[file] = mutants.renamed(file, between, "between", spot.data)


def number(library: Data, chance: random.Random) -> None:
    """A number is another one, some of them far."""
    spot = chosen(library, chance, lambda spot: isinstance(spot.data, str) and spot.data.lstrip("-").isdigit())
    at(library, spot, 1)[spot.path[-1]] = str(
        chance.choice([int(spot.data) + chance.choice([-1, 1]), *formula_edits.FAR])
    )


def formula(library: Data, chance: random.Random) -> None:
    """A formula with one change."""
    spot = chosen(library, chance, lambda spot: isinstance(spot.kind, (Formula, Statement)))
    target, sign, value = spot.data.partition("= ") if isinstance(spot.kind, Statement) else ("", "", spot.data)
    at(library, spot, 1)[spot.path[-1]] = f"{target}{sign}{formula_edits.edited(value, chance)}"


def _fill(holder: Any, entries: list[Any]) -> None:
    holder.clear()
    if isinstance(holder, dict):
        holder.update(entries)
    else:
        holder.extend(entries)


# Edits that several places take part in.


def _operation(library: Data, chance: random.Random) -> Data:
    files = [file for file in library if not file.endswith(SHARED)]
    found: Data = library[chance.choice(files)]
    return found


def _formulas_with(data: Any, make: Callable[[str], str]) -> Any:
    """Data with every text changed."""
    if isinstance(data, dict):
        return {key: item if key in PROSE else _formulas_with(item, make) for key, item in data.items()}
    return [_formulas_with(item, make) for item in data] if isinstance(data, list) else make(data)


def tensor_gone(library: Data, chance: random.Random) -> None:
    """An input goes, its cells with it, and what was stored of it."""
    op = _operation(library, chance)
    name = chance.choice(op["inputs"])["name"]
    op["inputs"] = [tensor for tensor in op["inputs"] if tensor["name"] != name]
    op["dtypes"] = [{key: cell for key, cell in row.items() if key != name} for row in op["dtypes"]]
    op.pop("normal_form", None)
    if name in op["semantics"].get("finish", ""):
        del op["semantics"]["finish"]


def tensor_come(library: Data, chance: random.Random) -> None:
    """An input comes, like one that is there, used or not."""
    op = _operation(library, chance)
    like = copy.deepcopy(chance.choice(op["inputs"]))
    old, like["name"] = like["name"], "extra"
    like["optional"] = chance.choice(["true", "false"])
    op["inputs"].insert(chance.randint(0, len(op["inputs"])), like)
    op["dtypes"] = [{**row, "extra": row[old]} for row in op["dtypes"]]
    finish = op["semantics"].get("finish", "")
    if old in finish and chance.random() < 0.7:
        op["semantics"]["finish"] = f"{finish} + {finish[finish.index(old) :].replace(old, 'extra', 1)}"
        op.pop("normal_form", None)


def attribute_gone(library: Data, chance: random.Random) -> None:
    """An attribute goes; formulas have a number in its place, or the case of one of its words."""
    op = _operation(library, chance)
    entry = chance.choice(op["attributes"])
    name = entry if isinstance(entry, str) else entry.get("use", entry.get("name"))
    shared = next(
        (
            a
            for file, data in library.items()
            if file.endswith("_common.yaml")
            for a in data["attributes"]
            if a["name"] == name
        ),
        {},
    )
    symbol = shared.get("symbol", entry.get("symbol", name) if isinstance(entry, dict) else name)
    value = chance.choice([shared.get("default", "1"), shared.get("neutral", "1"), "2"])
    remaining = [one for one in op["attributes"] if one is not entry]
    made = _formulas_with({**op, "attributes": []}, lambda text: re.sub(rf"\b{re.escape(symbol)}\b", value, text))
    op.clear()
    op.update(made, attributes=remaining)


def attribute_come(library: Data, chance: random.Random) -> None:
    """A number comes, required or with a default, and some formula reads it."""
    op = _operation(library, chance)
    entry = {
        "name": "extra",
        "symbol": "XTRA",
        "type": chance.choice(["s64", "s64[]"]),
        "min": chance.choice(["0", "1", "-3"]),
        "summary": "one more",
    }
    if entry["type"] == "s64[]":
        entry |= {"length": "spatial", "neutral": chance.choice(["0", "1"])}
    entry |= chance.choice([{"required": "true"}, {"default": chance.choice(["0", "1", "2"])}])
    op["attributes"].insert(chance.randint(0, len(op["attributes"])), entry)
    if chance.random() < 0.8:
        file = next(file for file, data in library.items() if data is op)
        found = [spot for spot in spots({file: op}) if isinstance(spot.kind, Formula) and "[" not in spot.data]
        spot = chance.choice(found)
        form = chance.choice(["({f}) + XTRA", "({f}) * XTRA", "({f}) + XTRA - 1", "max({f}, XTRA)"])
        logical = formula_edits.LOGICAL.search(spot.data)
        at({file: op}, spot, 1)[spot.path[-1]] = (
            f"({spot.data}) and {chance.choice(['XTRA < 3', 'XTRA >= 0', 'all(XTRA < 9)'])}"
            if logical
            else form.replace("{f}", spot.data)
        )


def word_gone(library: Data, chance: random.Random) -> None:
    """A word goes, and with it all that stands under it."""
    spot = chosen(library, chance, lambda spot: spot.field == "Attribute.values[]")
    word = spot.data["value"] if isinstance(spot.data, dict) else spot.data
    for file, data in library.items():
        library[file] = _without(data, word)


def word_come(library: Data, chance: random.Random) -> None:
    """A word comes, like one that is there wherever that has a part."""
    spot = chosen(library, chance, lambda spot: spot.field == "Attribute.values[]")
    word = spot.data["value"] if isinstance(spot.data, dict) else spot.data
    last = chance.random() < 0.5
    for file, data in library.items():
        library[file] = _doubled(data, word, last)


def _without(data: Any, word: str) -> Any:
    if isinstance(data, dict):
        return {key: _without(item, word) for key, item in data.items() if key != word}
    if isinstance(data, list):
        return [
            _without(item, word)
            for item in data
            if item != word and not (isinstance(item, dict) and item.get("value") == word)
        ]
    return data


def _doubled(data: Any, word: str, last: bool) -> Any:
    def both(entries: list[Any], found: int, copy_: Any) -> list[Any]:
        return [*entries, copy_] if last else [*entries[:found], copy_, *entries[found:]]

    if isinstance(data, dict):
        made = [(key, _doubled(item, word, last)) for key, item in data.items()]
        return dict(both(made, list(data).index(word), ("another", data[word])) if word in data else made)
    if isinstance(data, list):
        known = [item.get("value") if isinstance(item, dict) else item for item in data]
        made_list = [_doubled(item, word, last) for item in data]
        return both(made_list, known.index(word), "another") if word in known else made_list
    return data


def size_split(library: Data, chance: random.Random) -> None:
    """Where tensors had one size, one of them has a size of its own."""
    op = _operation(library, chance)
    role, entry = chance.choice(list(op["dims"].items()))
    symbol = entry["symbol"] if isinstance(entry, dict) else entry
    file = next(file for file, data in library.items() if data is op)
    places = [
        s for s in spots({file: op}) if isinstance(s.kind, Formula) and re.search(rf"\b{re.escape(symbol)}\b", s.data)
    ]
    if not places:
        raise NothingError
    spot = chance.choice(places)
    op["dims"][f"{role}_too"] = {**entry, "symbol": "TOO"} if isinstance(entry, dict) else "TOO"
    if symbol not in ("N", "IC", "OC") and isinstance(entry, str):
        op["dims"][f"{role}_too"] = {"symbol": "TOO", "per_axis": "true"}
    at(library, spot, 1)[spot.path[-1]] = re.sub(rf"\b{re.escape(symbol)}\b", "TOO", spot.data)


def inlined(library: Data, chance: random.Random) -> None:
    """A named value goes; what it says stands in its place, or nearly."""
    op = _operation(library, chance)
    file = next(file for file, data in library.items() if data is op)
    section = chance.choice([name for name in ("let", "padding", "shape") if op.get(name)] or ["let"])
    if not op.get(section):
        raise NothingError
    symbol = chance.choice(list(op[section]))
    entry = op[section][symbol]
    text = entry if isinstance(entry, str) else entry.get("value", "(K - 1) * D + 1")
    made = chance.choice([f"({text})", f"({text})", f"({text} + 1)"])
    rest = {name: item for name, item in op[section].items() if name != symbol}
    op[section] = rest
    library[file] = _formulas_with(op, lambda t: re.sub(rf"\b{re.escape(symbol)}\b", made, t))
    if not rest:
        library[file].pop(section)


def used(library: Data, chance: random.Random) -> None:
    """What a shared entry says stands in the operation itself, with one place of it changed."""
    op = _operation(library, chance)
    common = next((data for file, data in library.items() if file.endswith("_common.yaml")), None)
    names = [(n, e) for n, e in enumerate(op.get("constraints", [])) if isinstance(e, str)]
    if common is None or not names:
        raise NothingError
    place, name = chance.choice(names)
    entry = copy.deepcopy(next(c for c in common["constraints"] if c["id"] == name))
    if chance.random() < 0.5:
        entry["expr"] = formula_edits.edited(entry["expr"], chance)
    op["constraints"][place] = entry


SINGLE: tuple[Change, ...] = (gone, come, moved, swapped, replaced, put, renamed, number, formula)
JOINT: tuple[Change, ...] = (
    tensor_gone, tensor_come, attribute_gone, attribute_come, word_gone, word_come, size_split, inlined, used,
)  # fmt: skip


def text_of(name: str) -> str:
    """The text of one operation of steps."""
    return (checkout.ROOT / f"tests/data/steps/{name}.yaml").read_text(encoding="utf-8")


def free(texts: Mapping[str, str]) -> dict[str, str]:
    """Specs without their normal forms, which hold the semantics to what they are."""
    found = {name: mutants.plain(text) for name, text in texts.items()}
    return {
        name: mutants.written({key: item for key, item in data.items() if key != "normal_form"})
        for name, data in found.items()
    }


def edits(
    texts: Mapping[str, str], count: int, chance: random.Random, only: Collection[str] = ()
) -> Iterator[tuple[str, dict[str, str]]]:
    """What was done, and the texts after it; every third time two edits at once, unless `only` some are asked for."""
    before = {name: mutants.plain(text) for name, text in texts.items()}
    asked = [change for change in (*SINGLE, *JOINT) if change.__name__ in only]
    for turn in range(count):
        library, kinds = copy.deepcopy(before), []
        try:
            for _ in range(2 if turn % 3 == 2 and not only else 1):
                change = chance.choice(asked or (SINGLE if chance.random() < 0.7 else JOINT))
                change(library, chance)
                kinds.append(change.__name__)
        except (
            NothingError,
            KeyError,
            IndexError,
            TypeError,
            ValueError,
            AttributeError,
        ):  # one took what the other edits
            continue
        changed = {
            name: mutants.written(data) for name, data in library.items() if _order(data) != _order(before[name])
        }
        if changed:
            yield " and ".join(kinds), {**texts, **changed}


def _order(data: Any) -> Any:
    """Data whose comparison knows the order of keys."""
    if isinstance(data, dict):
        return [(key, _order(item)) for key, item in data.items()]
    return [_order(item) for item in data] if isinstance(data, list) else data
