"""Random specs of one operation each: every key of the language, and what a new user would write otherwise than we do.

Everything comes from the generator given, so that a seed names its spec. Half of the specs index tensors as they like
(this module), half slide windows over spatial axes, many of these with a normal form (`random_windows`). A spec may be
one that the tool refuses; `accepted` draws until one is taken, and counts why others were not.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from opwright.generate import lower
from opwright.language.library import Library
from opwright.language.schema import Located
from opwright.language.source import SpecInvalid
from opwright.load import load_texts

from .random_windows import window
from .spec_drafts import NAMES, OPS, SYMBOLS, Draft, Rng

COMMON = """\
dims:
  shared_size: {min: 0, typical: 6, summary: a size that specs share}
attributes:
  - {name: alpha, symbol: AL, type: f32, default: "0.5", min: -4, max: 4, summary: A factor that specs share.}
let:
  three: {value: "3", summary: a number that specs share, source: page-1}
layouts:
  shared_order: {ab: [A, B], ba: [B, A]}
constraints:
  - {id: shared-rule, expr: AL < 3, say: the factor is small, argument: alpha, source: page-1}
classes:
  - {name: rest, summary: all that are left}
discrepancies:
  - {id: R1, page: One thing., library: Another thing., ruling: The page., why: It is older., concerns: [dtypes.*]}
"""
SOURCES = "pages:\n  page-1: {title: A page, release: '1.0', form: text}\n"


# Specs that index as they like.


def _extent(d: Draft, letters: dict[str, str]) -> str:
    """The extent of a new range letter."""
    kind = (
        "size" if not letters else d.one(["size"] * 5 + ["shared"] * 2 + ["attribute", "number", "quotient", "named"])
    )
    if kind == "shared" and letters:
        return str(d.one(list(letters.values())))
    if kind == "attribute":
        symbol = d.number(0)
        return symbol if d.chance(0.6) else f"{symbol} + 1"
    if kind == "number":
        return str(d.rng.integers(1, 4))
    size = d.size()
    if kind == "quotient":
        whole, groups = d.size(), d.number(1)
        argument = str(d.attributes[-1]["name"])
        condition = f"{whole} % {groups} == 0" if d.chance(0.5) else f"{groups} <= 64 and 0 == {whole} % {groups}"
        d.require(condition, argument)
        return f"{whole} / {groups}"
    return d.named(f"{size} * 2") if kind == "named" else size


def _output_axes(d: Draft, letters: dict[str, str]) -> Iterator[tuple[str, str]]:
    """Index and extent of each axis of the output."""
    rest = d.shuffled(letters)[: int(d.rng.integers(1, len(letters) + 1))]
    while rest:
        a = rest.pop()
        first = letters[a]
        whole = f"({first})" if " " in first else first
        kind = d.one(["plain"] * 6 + ["back", "offset", "merge", "merge", "scatter", "difference", "spread"])
        if kind == "back":
            yield f"{first} - 1 - {a}", first
        elif kind == "offset":
            shift = int(d.rng.integers(1, 3))
            yield f"{a} + {shift}", _sized(d, f"{first} + {shift + int(d.rng.integers(0, 2))}")
        elif kind == "spread":
            yield f"{a} * 2", _sized(d, f"{whole} * 2")
        elif kind in ("merge", "scatter", "difference") and rest:
            b = rest.pop()
            second = f"({letters[b]})" if " " in letters[b] else letters[b]
            if kind == "merge":
                yield f"{a} * {second} + {b}", _sized(d, f"{whole} * {second}")
            elif kind == "scatter":
                step = d.number(1)
                yield f"{a} * {step} + {b}", _sized(d, f"max({first} - 1, 0) * {step} + {second}")
            else:
                yield f"{b} - {a} + {first} - 1", _sized(d, f"max({first} + {second} - 1, 0)")
        else:
            yield a, first


def _sized(d: Draft, text: str) -> str:
    """An extent of the output: a size of its own, or the formula itself."""
    if d.chance(0.2) and "max" not in text:
        return text
    symbol = d.size(min=0)
    d.shape[symbol] = {"value": text, "summary": "what follows"} if d.chance(0.3) else text
    return symbol


def _input(d: Draft, letters: dict[str, str], optional: bool) -> tuple[dict[str, Any], str]:
    """A tensor, and how semantics read it."""
    name = d.take(NAMES)
    dims: dict[str, str] = {}
    indices = []
    for letter in d.shuffled(letters)[: int(d.rng.integers(1, 4))]:
        axis = f"{letter.upper()}{len(dims)}"
        kind = "plain" if optional else d.one(["plain"] * 6 + ["affine", "affine", "fixed", "diagonal", "back"])
        if kind == "plain":
            index, extent = letter, letters[letter]
        elif kind == "back":
            index, extent = f"{letters[letter]} - 1 - {letter}", letters[letter]
        elif kind == "fixed":
            index, extent = str(d.rng.integers(0, 2)), d.size()
        elif kind == "diagonal":
            index, extent = letter, d.size()
            dims[f"{axis}d"] = extent if d.chance(0.5) else f"{extent} * 2"
            indices.append(index)
        else:
            other = str(d.one(list(letters)))
            factor = str(d.one(["2", "-1", "3", *([d.number(1)] if d.chance(0.4) else [])]))
            index, extent = f"{letter} + {factor} * {other} - {d.rng.integers(0, 3)}", d.size()
        dims[axis] = extent
        indices.append(index)
    tensor: dict[str, Any] = {"name": name, "dims": dims}
    if optional:
        tensor["optional"] = True
    if d.chance(0.3):
        tensor["layout"] = d.layout(list(dims), int(d.one([1, 2, 2, 3])))
    return tensor, f"{name}[{', '.join(indices)}]"


def _tell(d: Draft, letters: dict[str, str], inputs: list[dict[str, Any]]) -> None:
    """Lets the first tensor tell every size that nobody else tells."""
    known = {extent for tensor in inputs if not tensor.get("optional") for extent in tensor["dims"].values()}
    unstated = [dim["symbol"] for dim in d.dims.values() if dim["symbol"] not in known | d.shape.keys()]
    if unstated:
        inputs.insert(0, {"name": d.take(NAMES), "dims": {f"T{number}": size for number, size in enumerate(unstated)}})


def _value(d: Draft, reads: list[str], depth: int = 0) -> str:
    """A formula over some reads."""
    if len(reads) == 1:
        own = reads[0]
        kind = d.one(["own"] * 6 + ["minus", "twice", "scaled", "max", "number", "half"]) if depth < 3 else "own"
        return {
            "own": own, "minus": f"-(-{own})", "twice": f"(2 * {own} - {own})", "max": f"max({own}, -1, 0.5)",
            "scaled": f"{own} * {d.real() if kind == 'scaled' else 1}", "half": f"{own} / 2",
            "number": f"({own} + {d.number(0) if kind == 'number' else 1})",
        }[kind]  # fmt: skip
    at = int(d.rng.integers(1, len(reads)))
    left, right = _value(d, reads[:at], depth + 1), _value(d, reads[at:], depth + 1)
    return str(
        d.one([f"{left} * {right}"] * 3 + [f"({left} + {right})", f"({left} - {right})", f"min({left}, {right})"])
    )


def _where(d: Draft, letters: dict[str, str]) -> str:
    a, b = (str(d.one(list(letters))) for _ in range(2))
    return str(d.one([
        f"{a} <= {b}", f"{a} % 2 == 0", f"{a} + {b} != 3", f"not ({a} == {b} or {b} == 1)", f"max({a}, 2) > {b}",
        f"floor({a} / 2) <= {b}", f"{a} < {letters[b]} and {b} >= 0", f"-{a} + 1 < 1", f"ceil({a} / 3) * 2 - {b} >= -1",
    ]))  # fmt: skip


def general(rng: Rng, op: str) -> Draft:
    """An operation without spatial axes."""
    d = Draft(rng, op)
    letters: dict[str, str] = {}
    for _ in range(int(rng.integers(1, 5))):
        letters[d.letter()] = _extent(d, letters)
    axes = list(_output_axes(d, letters))
    output: dict[str, Any] = {"name": d.take(NAMES), "dims": {f"A{n}": extent for n, (_, extent) in enumerate(axes)}}
    if d.chance(0.3):
        output["layout"] = d.layout(list(output["dims"]))
    made = [_input(d, letters, False) for _ in range(int(rng.integers(1, 4)))]
    if d.chance(0.3):
        made.append(_input(d, letters, True))
    inputs, reads = [tensor for tensor, _ in made], [read for _, read in made]
    first = len(inputs)
    _tell(d, letters, inputs)
    for tensor in inputs[: len(inputs) - first]:
        reads.append(f"{tensor['name']}[{', '.join('0' for _ in tensor['dims'])}]")
    semantics: dict[str, Any] = {"ranges": letters}
    reduction = d.one(["+=", "+=", "max="])
    if reduction == "max=" or d.chance(0.2):
        semantics["init"] = str(d.one(["-inf", "-inf", "0", "2", "-1.5", "inf"]))
    if d.chance(0.4):
        semantics["where"] = [_where(d, letters) for _ in range(int(rng.integers(1, 3)))]
    target = f"{output['name']}[{', '.join(index for index, _ in axes)}]"
    semantics["reduce"] = f"{target} {reduction} {_value(d, reads)}"
    if d.chance(0.5):
        semantics["finish"] = _finish(d, output, inputs)
    _classes(d, letters)
    return _finished(d, inputs, output, semantics)


def _finish(d: Draft, output: dict[str, Any], inputs: list[dict[str, Any]]) -> str:
    formals = [d.letter() for _ in output["dims"]]
    cell = f"{output['name']}[{', '.join(formals)}]"
    kinds = ["max({}, 0)", "-(-{})", "{} / max(count, 1)", "{} * 2 - 1", "{} + count", "min({}, 3.5) * 0.25"]
    text = str(d.one(kinds)).format(cell)
    if d.chance(0.4):
        name = d.take(NAMES)
        at = int(d.rng.integers(len(formals)))
        extent = list(output["dims"].values())[at]
        inputs.append({"name": name, "optional": True, "dims": {"B": extent}})
        text += f" + {name}[{formals[at]}]"
    if d.chance(0.2):
        text += f" * {d.real()}"
    return text


def _classes(d: Draft, letters: dict[str, str]) -> None:
    """Classes in which a size is known."""
    plain = [
        extent for extent in letters.values() if extent.isalnum() and not extent.isdigit() and extent not in d.lets
    ]
    if not plain or not d.chance(0.3):
        return
    one, other = str(d.one(plain)), str(d.one(plain))
    first: dict[str, Any] = {"name": "single", "when": f"{one} == 1", "let": {one: "1"}, "summary": "one of them"}
    if d.chance(0.3) and one != other:
        first = {"name": "square", "when": f"{one} == {other} and 1 <= {other}", "let": {one: other}}
    d.spec["classes"] = [first, "rest" if d.chance(0.5) else {"name": "others"}]


def _finished(d: Draft, inputs: list[dict[str, Any]], output: dict[str, Any], semantics: dict[str, Any]) -> Draft:
    inputs.sort(key=lambda tensor: bool(tensor.get("optional")))
    if d.chance(0.3):
        size = str(d.one([dim["symbol"] for dim in d.dims.values()]))
        text = str(d.one([f"{size} <= 40", f"{size} % 2 == 0 or {size} <= 3", f"not {size} == 7"]))
        d.require(text, str(inputs[0]["name"]))
    numbers = [a for a in d.attributes if a.get("type") == "s64"]
    if numbers and d.chance(0.4):
        attribute = d.one(numbers)
        symbol = str(attribute.get("symbol", attribute["name"]))
        d.require(f"{symbol} <= 3", str(attribute["name"]), nearest=f"min({symbol}, 3)")
    if d.chance(0.15):
        d.attributes.append("alpha" if d.chance(0.5) else {"use": "alpha", "default": "1", "reason": "It is a test."})
        semantics["reduce"] += " * AL"
        if d.chance(0.5):
            d.constraints.append("shared-rule")
    if d.chance(0.1):
        d.lets[d.take(SYMBOLS)] = {"use": "three"}
    d.spec = d.finish(inputs, output, semantics)
    return d


# Draws, and what they cover.


def draw(rng: Rng) -> Draft:
    """A spec of any family."""
    op = str(rng.choice(OPS))
    return window(rng, op) if rng.random() < 0.5 else general(rng, op)


def texts_of(drafts: Iterable[Draft]) -> dict[str, str]:
    """Specs with what they share, by file name."""
    own = {f"{draft.spec['op'].lower()}.yaml": draft.text() for draft in drafts}
    return {"_common.yaml": COMMON, "_sources.yaml": SOURCES, **own}


def accepted(
    rng: Rng, refusals: Counter[str] | None = None, family: Callable[[Rng], Draft] = draw
) -> tuple[Draft, Library]:
    """The next spec from which kernels follow."""
    while True:
        draft = family(rng)
        try:
            library = load_texts(texts_of([draft]))
            lower(library)
            return draft, library
        except SpecInvalid as invalid:
            if refusals is not None:
                refusals.update({problem.rule for problem in invalid.problems})


def keys_of(node: Any) -> set[str]:
    """The keys that a loaded spec states, as `Struct.key`."""
    if isinstance(node, dict):
        return set().union(*map(keys_of, node.values()))
    if isinstance(node, (tuple, list)):
        return set().union(*map(keys_of, node))
    if not dataclasses.is_dataclass(node) or isinstance(node, Located) or not hasattr(node, "at"):
        return set()
    found: set[str] = set()
    for field in dataclasses.fields(node):
        if field.metadata:
            value = getattr(node, field.name)
            default = field.default if field.default is not dataclasses.MISSING else None
            if value != default and value not in ({}, (), None):
                found |= {f"{type(node).__name__}.{field.name.rstrip('_')}"} | keys_of(value)
    return found
