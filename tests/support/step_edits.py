"""Edits of operations of steps: identities and near identities in values, indices, guards, choices, rows and defaults.

In: the texts of specs and a random generator. Out: other texts, with one or two edits. Formulas are taken as trees and
written again, so that an edit lands in any part of one.
"""

from __future__ import annotations

import copy
import random
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from opwright.language import expr
from opwright.language.source import SpecInvalid

from . import checkout, mutants, reviewing
from .tree_edits import TREES, NothingError, one_of, otherwise, printed, turned

Data = dict[str, Any]
Change = Callable[[Data, random.Random], None]
ASSIGNMENT = re.compile(r"^(\w+)(\[.*?\])\s*(\+=|\*=|max=|min=|=)\s*(.*)$", re.DOTALL)
OPERATORS = ("=", "+=", "*=", "max=", "min=")

# Statements of a spec.


def _assignments(op: Data) -> Iterator[tuple[Any, Any]]:
    """Each place that holds an assignment: the holder and the key."""
    steps = op["semantics"].get("steps", [])
    for number, step in enumerate(steps):
        if isinstance(step, str):
            yield steps, number
        else:
            if "do" in step:
                yield step, "do"
            for word in step.get("cases", {}):
                yield step["cases"], word


def value(op: Data, chance: random.Random) -> None:
    """A formula of a step with one change."""
    holder, key = one_of(chance, _assignments(op))
    found = ASSIGNMENT.match(str(holder[key]))
    if found is None:
        raise NothingError
    name, indices, sign, text = found.groups()
    change = one_of(chance, TREES)
    holder[key] = f"{name}{indices} {sign} {printed(change(expr.parse(text), chance))}"


def operator(op: Data, chance: random.Random) -> None:
    """Another operator in front of a value."""
    holder, key = one_of(chance, _assignments(op))
    found = ASSIGNMENT.match(str(holder[key]))
    if found is None:
        raise NothingError
    name, indices, _, text = found.groups()
    holder[key] = f"{name}{indices} {one_of(chance, OPERATORS)} {text}"


def guard(op: Data, chance: random.Random) -> None:
    """A guard comes, goes, or has one change; what comes holds always, or nearly."""
    steps = op["semantics"]["steps"]
    number = chance.randrange(len(steps))
    if isinstance(steps[number], str):
        steps[number] = {"do": steps[number]}
    step = steps[number]
    guards = step.setdefault("where", [])
    if guards and chance.random() < 0.4:
        guards.pop(chance.randrange(len(guards)))
    elif guards and chance.random() < 0.5:
        at = chance.randrange(len(guards))
        guards[at] = printed(one_of(chance, (turned, otherwise))(expr.parse(guards[at]), chance))
    else:
        letters = [x for x in op["semantics"]["ranges"] if re.search(rf"\b{x}\b", str(step))]
        form = one_of(
            chance, ["{x} >= 0", "{x} >= 1", "{x} < 1000", "{x} < 3", "{x} != 60", "{x} + 1 > {x}", "{x} != {x}"]
        )
        guards.append(form.replace("{x}", one_of(chance, letters)))
    if not guards:
        del step["where"]


def choice(op: Data, chance: random.Random) -> None:
    """The formulas of two words exchanged, or one word takes that of another one."""
    step = one_of(chance, (s for s in op["semantics"]["steps"] if isinstance(s, dict) and len(s.get("cases", {})) > 1))
    one, other = chance.sample(list(step["cases"]), 2)
    case = step["cases"][one]
    step["cases"][one] = step["cases"][other]
    if chance.random() < 0.5:
        step["cases"][other] = case


def chosen(op: Data, chance: random.Random) -> None:
    """A step without a choice has one whose formulas are the same, or nearly."""
    flags = [a for a in op.get("attributes", []) if isinstance(a, dict) and a.get("type") == "bool"]
    words = [a for a in op.get("attributes", []) if isinstance(a, dict) and a.get("values") and not a.get("dtype_of")]
    attribute = one_of(chance, [*flags, *words])
    spelled = ["true", "false"] if attribute in flags else [
        v["value"] if isinstance(v, dict) else v for v in attribute["values"]
    ]  # fmt: skip
    steps = op["semantics"]["steps"]
    number = one_of(chance, (n for n, s in enumerate(steps) if isinstance(s, str) or "do" in s))
    step = steps[number] if isinstance(steps[number], dict) else {"do": steps[number]}
    done = step.pop("do")
    steps[number] = {"by": attribute["name"], "cases": dict.fromkeys(spelled, done), **step}
    if chance.random() < 0.6:
        inner = {"semantics": {"ranges": op["semantics"]["ranges"], "steps": [done]}}
        value(inner, chance)
        steps[number]["cases"][one_of(chance, spelled)] = inner["semantics"]["steps"][0]


def order(op: Data, chance: random.Random) -> None:
    """A step stands elsewhere, twice, or no more."""
    steps = op["semantics"]["steps"]
    at = chance.randrange(len(steps))
    draw = chance.random()
    if draw < 0.3:
        steps.insert(chance.randint(0, len(steps)), copy.deepcopy(steps[at]))
    elif draw < 0.6:
        steps.insert(chance.randrange(len(steps)), steps.pop(at))
    elif len(steps) > 1:
        del steps[at]


def inlined(op: Data, chance: random.Random) -> None:
    """A value between steps goes; what it says stands in its place."""
    steps = op["semantics"]["steps"]
    outputs = {tensor["name"] for tensor in op["outputs"]}
    plain = [(n, ASSIGNMENT.match(s)) for n, s in enumerate(steps) if isinstance(s, str)]
    number, found = one_of(chance, ((n, m) for n, m in plain if m and m[3] == "=" and m[1] not in outputs))
    name = re.escape(f"{found[1]}{found[2]}")
    steps[:] = [_everywhere(s, lambda text: re.sub(name, f"({found[4]})", text)) if n != number else s
                for n, s in enumerate(steps)]  # fmt: skip
    del steps[number]


def parted(op: Data, chance: random.Random) -> None:
    """What a step of one output says in one formula is made in two steps."""
    steps = op["semantics"]["steps"]
    number, found = one_of(chance, ((n, m) for n, s in enumerate(steps) if isinstance(s, str) and (m := ASSIGNMENT.match(s)) and m[3] == "="))  # fmt: skip
    if not all(part.strip().isidentifier() for part in found[2].strip("[]").split(",") if part.strip()):
        raise NothingError
    steps[number : number + 1] = [f"halfway{found[2]} = {found[4]}", f"{found[1]}{found[2]} = halfway{found[2]}"]


def _everywhere(data: Any, make: Callable[[str], str]) -> Any:
    if isinstance(data, dict):
        return {key: _everywhere(item, make) for key, item in data.items()}
    return [_everywhere(item, make) for item in data] if isinstance(data, list) else make(data)


def row(op: Data, chance: random.Random) -> None:
    """A row of data types has another cell, goes, comes twice, or comes anew."""
    rows = op["dtypes"]
    at = chance.randrange(len(rows))
    kind = chance.random()
    if kind < 0.25 and len(rows) > 1:
        del rows[at]
    elif kind < 0.4:
        rows.insert(chance.randrange(len(rows)), rows.pop(at))
    else:
        made = dict(rows[at])
        key = one_of(chance, made)
        made[key] = one_of(chance, ["f32", "f64", "bf16", "f16", "s32", "s8", "u8", "boolean", "s64"])
        if kind < 0.7:
            rows[at] = made
        else:
            rows.insert(chance.randint(0, len(rows)), made)


def default(op: Data, chance: random.Random) -> None:
    """An attribute has another default, bound or need."""
    entry = one_of(chance, (a for a in op.get("attributes", []) if isinstance(a, dict)))
    kind = entry.get("type", "")
    key = one_of(chance, ["default", "default", "min", "max", "required"])
    if key == "required":
        entry.pop("default", None)
        entry["required"] = "true"
        return
    words = {"bool": ["true", "false"], "string": [str(v) for v in entry.get("values", []) if isinstance(v, str)]}
    if key != "default" and kind in words:
        raise NothingError
    entry[key] = one_of(chance, words.get(kind) or ["0", "1", "-1", "2", "0.5", "1.0", "60", "1000"])
    if key == "default":
        entry.pop("required", None)


def tensor(op: Data, chance: random.Random) -> None:
    """An input or output has another mark: stretched, lacking, optional, absent, there in some calls."""
    one = one_of(chance, [*op["inputs"], *op["outputs"]])
    axes = list(one.get("dims", {}))
    mark = one_of(
        chance, ["broadcast", "may_lack", "optional", "absent", "broadcast_if", "joined", "when", "layout", "order"]
    )
    if mark in one and chance.random() < 0.6:
        del one[mark]
    elif mark in ("broadcast", "may_lack"):
        one[mark] = chance.sample(axes, min(len(axes), chance.choice([1, 2])))
    elif mark == "optional":
        one[mark] = "true"
    elif mark == "absent":
        one[mark] = one_of(chance, ["0", "1", "-1", "1.0"])
    elif mark == "joined":
        one[mark] = one_of(chance, axes)
    elif mark == "order":
        op["inputs"].insert(chance.randrange(len(op["inputs"])), op["inputs"].pop(chance.randrange(len(op["inputs"]))))
    else:
        raise NothingError


def size(op: Data, chance: random.Random) -> None:
    """A size, range or named value by another formula, the same or nearly."""
    sections = [
        op["semantics"]["ranges"],
        op.get("let", {}),
        *(t.get("dims", {}) for t in (*op["inputs"], *op["outputs"])),
    ]
    holder = one_of(chance, (s for s in sections if s))
    key = one_of(chance, holder)
    entry = holder[key]
    text = entry["value"] if isinstance(entry, dict) and "value" in entry else entry
    if not isinstance(text, str):
        raise NothingError
    form = one_of(chance, ["{f} + 0", "{f} + 1", "max({f}, 0)", "min({f}, 60)", "min({f}, 3)", "2 * {f} - {f}", "{f} - 1 + 1",
                         "floor(({f}) / 1)", "floor((2 * {f} + 1) / 2)", "max({f}, 1)", "{f} + floor({f} / 50)"])  # fmt: skip
    made = form.replace("{f}", f"({text})")
    if isinstance(entry, dict):
        entry["value"] = made
    else:
        holder[key] = made


def least(op: Data, chance: random.Random) -> None:
    """Another least extent or number of axes."""
    role = one_of(chance, op["dims"])
    entry = op["dims"][role]
    entry = {"symbol": entry} if isinstance(entry, str) else entry
    op["dims"][role] = {**entry, "min": one_of(chance, ["0", "1", "2"])}


def constrained(op: Data, chance: random.Random) -> None:
    """A condition comes, or one that is there has a change."""
    own = [c for c in op.get("constraints", []) if isinstance(c, dict) and "expr" in c]
    if own and chance.random() < 0.5:
        rule = one_of(chance, own)
        rule["expr"] = printed(one_of(chance, (turned, otherwise))(expr.parse(rule["expr"]), chance))
        return
    entry = one_of(chance, op["dims"].values())
    symbol = entry["symbol"] if isinstance(entry, dict) else entry
    form = one_of(chance, ["{x} >= 0", "{x} < 60", "{x} != 3", "{x} + 1 > {x}", "{x} >= 1"])
    rule = {
        "id": "some-size",
        "expr": form.replace("{x}", symbol),
        "say": "it does not fit",
        "argument": op["inputs"][0]["name"],
    }
    op.setdefault("constraints", []).append(rule)


KINDS: tuple[Change, ...] = (
    value, value, value, value, value, value, operator, guard, guard, choice, chosen, order, inlined, parted, row, row,
    default, tensor, tensor, size, size, least, constrained,
)  # fmt: skip


def shipped() -> list[dict[str, str]]:
    """Each shipped operation of steps with what the specs share, without its ties to other ones."""
    folder = checkout.ROOT / "spec" / "onednn_graph"
    texts = {
        f"{reviewing.FOLDER}/{path.name}": path.read_text(encoding="utf-8") for path in sorted(folder.glob("*.yaml"))
    }
    shared = {name: text for name, text in texts.items() if name.rpartition("/")[2].startswith("_")}
    found = []
    for name, text in texts.items():
        data = mutants.plain(text)
        if name not in shared and "steps" in data.get("semantics", {}):
            data.pop("relations", None)
            data.pop("torch", None)
            found.append({**shared, name: mutants.written(data)})
    return found


def edits(texts: Mapping[str, str], count: int, chance: random.Random) -> Iterator[tuple[str, dict[str, str]]]:
    """What was done, and the texts after it; every third time two edits at once."""
    (name,) = (file for file in texts if not file.rpartition("/")[2].startswith("_"))
    before = mutants.plain(texts[name])
    for turn in range(count):
        after, kinds = copy.deepcopy(before), []
        try:
            for _ in range(2 if turn % 3 == 2 else 1):
                change = chance.choice(KINDS)
                change(after, chance)
                kinds.append(change.__name__)
        except (
            NothingError,
            KeyError,
            IndexError,
            TypeError,
            ValueError,
            SpecInvalid,
        ):  # one took what the other edits
            continue
        if after != before:
            yield " and ".join(kinds), {**texts, name: mutants.written(after)}
