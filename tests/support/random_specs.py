"""Random specs of one operation each: every key of the language, and what a new user would write otherwise than we do.

Everything comes from the generator given, so that a seed names its spec. Half of the specs index tensors as they like
(this module), half slide windows over spatial axes, many of these with a normal form (`random_windows`). A spec may be
one that the tool refuses; `accepted` draws until one is taken, and counts why others were not.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import yaml
from opwright.language.load import load_texts
from opwright.language.model import Library
from opwright.language.schema import Located
from opwright.language.source import SpecInvalid

Rng = np.random.Generator

SYMBOLS = "I E N O S K D C M U V W Z A B F H J P Q R T X Y L IC OC KH KW Dx M1 Pi NAN1 EOF1 E2 AB Rank i e".split()
NAMES = (
    "src dst a b x y w data input1 weights bias scale image index1 value spec op key name dtype axis array np numpy math "
    "result plan order extents gamma y0 j1 exp free div time read write signal select strides kernel team scratch "
    "lib ffi say rule argument nearest got expected row1 part1 sum1 lane1 total1 n c g k small big m i cells steps".split()
)
OPS = (
    "Foo Conv Exp Free Div Read Engine Team Scratch Explain Specialize Torch Dask Json Numpy Math Select Index Time Main "
    "Gather Roll Trace Unfold Outer Norm Pool Scan Diag Stencil Kernel Sizes Gamma MatMul Conv2D FFT HTTPServer A B1"
).split()
LETTERS = "m n i j k c g o p q r t u v x y z xy ii u1 g1 k1 oc".split()
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


class _Plain(yaml.SafeDumper):
    """YAML without anchors."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


class Draft:
    """A spec in the making: names that are taken once, and entries in the order of the keys."""

    def __init__(self, rng: Rng, op: str) -> None:
        self.rng = rng
        self.fast = ["f32", "bf16", "f16"]  # the rows of a normal form
        self.taken: set[str] = set()
        self.folded: set[str] = set()
        self.spec: dict[str, Any] = {
            "op": op,
            "revision": int(rng.integers(1, 4)),
            "summary": "An operation of a test.",
        }
        self.dims: dict[str, dict[str, Any]] = {}
        self.attributes: list[Any] = []
        self.constraints: list[Any] = []
        self.lets: dict[str, Any] = {}
        self.shape: dict[str, Any] = {}
        self.layouts: dict[str, dict[str, list[str]]] = {}

    def chance(self, share: float) -> bool:
        return bool(self.rng.random() < share)

    def one(self, items: Sequence[Any]) -> Any:
        return items[int(self.rng.integers(len(items)))]

    def take(self, pool: Sequence[str]) -> str:
        """A name that nothing else has, not even in another case."""
        free = [name for name in pool if name not in self.taken and name.lower() not in self.folded]
        name = self.one(free)
        self.taken.add(name)
        self.folded.add(name.lower())
        return str(name)

    def letter(self) -> str:
        """A letter of a range, which may differ from a symbol in case only."""
        free = [name for name in LETTERS if name not in self.taken]
        name = self.one(free)
        self.taken.add(name)
        return str(name)

    def size(self, **keys: Any) -> str:
        """A size with a symbol of its own."""
        symbol = self.take(SYMBOLS)
        entry: dict[str, Any] = {"symbol": symbol}
        if self.chance(0.5):
            entry["min"] = int(self.rng.integers(0, 3))
        if self.chance(0.3):
            entry["typical"] = int(self.one([1, 4, 64]))
        if self.chance(0.3):
            entry["summary"] = "cells"
        shared = "shared_size" not in self.dims and not keys and self.chance(0.1)
        self.dims["shared_size" if shared else f"size_{len(self.dims)}"] = {**entry, **keys}
        return symbol

    def number(self, least: int, **keys: Any) -> str:
        """An attribute that is one integer; what formulas call it."""
        entry: dict[str, Any] = {"name": self.take(NAMES), "type": "s64", "min": least}
        if self.chance(0.7):
            entry["symbol"] = self.take(SYMBOLS)
        if self.chance(0.3):
            entry["max"] = least + 6
        entry |= {"required": True} if self.chance(0.4) else {"default": str(least + int(self.rng.integers(0, 3)))}
        self.attributes.append({**entry, **keys})
        return str(entry.get("symbol", entry["name"]))

    def real(self) -> str:
        entry: dict[str, Any] = {"name": self.take(NAMES), "type": "f32", "symbol": self.take(SYMBOLS)}
        entry |= {"required": True} if self.chance(0.4) else {"default": str(self.one(["0.5", "-2", "1e0", "0"]))}
        self.attributes.append(entry)
        return str(entry["symbol"])

    def word(self, words: Iterable[str], **keys: Any) -> str:
        """A string attribute; its name."""
        name = self.take(NAMES)
        values: list[Any] = [
            word if self.chance(0.7) else {"value": word, "aliases": [f"{word}_too"]} for word in words
        ]
        first = values[0] if isinstance(values[0], str) else values[0]["value"]
        entry: dict[str, Any] = {"name": name, "type": "string", "values": values}
        entry |= {"required": True} if self.chance(0.3) else {"default": first}
        if self.chance(0.2):
            entry["refuse"] = [{"value": "old_word", "discrepancy": "R1", "say": "use another one"}]
        self.attributes.append({**entry, **keys})
        return name

    def named(self, text: str, **keys: Any) -> str:
        """A named value."""
        symbol = self.take(SYMBOLS)
        self.lets[symbol] = {"value": text, **keys} if keys or self.chance(0.5) else text
        return symbol

    def require(self, text: str, argument: str, **keys: Any) -> None:
        rule = f"rule-{len(self.constraints)}"
        self.constraints.append({"id": rule, "expr": text, "say": "a rule of a test", "argument": argument, **keys})

    def layout(self, axes: list[str], words: int = 2) -> str:
        """An attribute that orders some axes."""
        orders = [axes, *(self.shuffled(axes) for _ in range(words - 1))]
        names = [
            f"w{number}" if self.chance(0.8) else self.one(["int", "exp", "long"]) + str(number)
            for number in range(words)
        ]
        if words == 1 and self.chance(0.5):
            names = [self.one(["double", "malloc", "plain"])]
        name = self.word(names)
        self.layouts[name] = dict(zip(names, orders, strict=True))
        return name

    def finish(self, inputs: list[dict[str, Any]], output: dict[str, Any], semantics: dict[str, Any]) -> dict[str, Any]:
        """The spec with what every family adds at will."""
        spec, chance = self.spec, self.chance
        if chance(0.2):
            spec["description"] = 'More words about it, with `marks` and "quotes".'
        if chance(0.1):
            spec["deprecated"] = "Use another one."
        if chance(0.2):
            spec["source"] = ["page-1"]
        items: list[dict[str, Any]] = [*inputs, output, *(a for a in self.attributes if isinstance(a, dict))]
        for item in [*items, *(c for c in self.constraints if isinstance(c, dict))]:
            if chance(0.1):
                item["source"] = "page-1"
        for item in items:
            if chance(0.2):
                item["summary"] = "What it is."
        if any("refuse" in a for a in self.attributes) or chance(0.2):
            own = {"id": "R1", "page": "A.", "library": "B.", "ruling": "A.", "why": "So."}
            spec["discrepancies"] = ["R1"] if chance(0.5) else [{**own, "concerns": ["attributes.*"]}]
        spec["dims"] = {role: dim["symbol"] if list(dim) == ["symbol"] else dim for role, dim in self.dims.items()}
        spec["attributes"] = [
            a if isinstance(a, str) else {"reason": "A test gives names at random.", **a} for a in self.attributes
        ]
        spec["layouts"] = self.layouts
        spec["inputs"], spec["outputs"] = inputs, [output]
        spec["dtypes"] = self.rows([str(t["name"]) for t in inputs if "shape_of" not in t], str(output["name"]))
        for row in spec["dtypes"]:
            row |= {str(t["name"]): "s32" for t in inputs if "shape_of" in t}
        spec["let"], spec["shape"], spec["constraints"] = self.lets, self.shape, self.constraints
        spec["semantics"] = semantics
        if chance(0.2):
            spec["relations"] = [self.relation(inputs, output)]
        return {key: value for key, value in spec.items() if value not in ({}, [])}

    def relation(self, inputs: list[dict[str, Any]], output: dict[str, Any]) -> dict[str, Any]:
        """A tie of the operation to itself, which is well said, if not true."""
        data = [tensor["name"] for tensor in inputs if "shape_of" not in tensor]
        relation = {"with": {name: name for name in [*data, output["name"]]}}
        kind = self.one(["equals", "adjoint", "gradient"])
        relation |= {"adjoint": {"in": data[0]}, "gradient": {"of": data[0]}}.get(kind, {})
        words = [word for tensor in [*inputs, output] for word in self.layouts.get(tensor.get("layout", ""), {})]
        return {kind: self.spec["op"], **relation, **({"formats": {words[0]: words[-1]}} if words else {})}

    def rows(self, inputs: list[str], output: str) -> list[dict[str, str]]:
        """Rows of data types that calls can tell apart."""
        if "normal_form" in self.spec and self.chance(0.8):  # which has fast kernels then
            names = self.shuffled(self.fast)[: int(self.one([1, 1, 2]))]
            return [{**dict.fromkeys([*inputs, output], name), "accumulate": "f32"} for name in names]
        rows: dict[tuple[str, ...], dict[str, str]] = {}
        for _ in range(int(self.one([1, 1, 2, 3]))):
            dtype = str(self.one(["f32", "f32", "bf16", "f16", "f64"]))
            types = (
                [dtype] * len(inputs) if self.chance(0.8) else [str(self.one(["f32", "bf16", "f64"])) for _ in inputs]
            )
            stored = dtype if self.chance(0.7) else str(self.one(["f32", "bf16", "f16", "f64"]))
            accumulate = "f64" if dtype == "f64" else str(self.one(["f32", "f32", "f64"]))
            row = {**dict(zip(inputs, types, strict=True)), output: stored, "accumulate": accumulate}
            rows.setdefault(tuple(types), row)
        return list(rows.values())

    def text(self) -> str:
        return yaml.dump(self.spec, Dumper=_Plain, sort_keys=False, width=110)

    def shuffled(self, items: Iterable[Any]) -> list[Any]:
        items = list(items)
        return [items[at] for at in self.rng.permutation(len(items))]


# Specs that index as they like.


def _extent(d: Draft, letters: dict[str, str]) -> str:
    """The extent of a new range letter."""
    kind = "size" if not letters else d.one(["size"] * 5 + ["shared"] * 2 + ["attribute", "number", "quotient", "named"])
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
        said = f"{whole} % {groups} == 0" if d.chance(0.5) else f"{groups} <= 64 and 0 == {whole} % {groups}"
        d.require(said, argument)
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
    told = {extent for tensor in inputs if not tensor.get("optional") for extent in tensor["dims"].values()}
    untold = [dim["symbol"] for dim in d.dims.values() if dim["symbol"] not in told | d.shape.keys()]
    if untold:
        inputs.insert(0, {"name": d.take(NAMES), "dims": {f"T{number}": size for number, size in enumerate(untold)}})


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
    from .random_windows import window

    op = str(rng.choice(OPS))
    return window(rng, op) if rng.random() < 0.5 else general(rng, op)


def texts_of(drafts: Iterable[Draft]) -> dict[str, str]:
    """Specs with what they share, by file name."""
    own = {f"{draft.spec['op'].lower()}.yaml": draft.text() for draft in drafts}
    return {"_common.yaml": COMMON, "_sources.yaml": SOURCES, **own}


def accepted(
    rng: Rng, refusals: Counter[str] | None = None, family: Callable[[Rng], Draft] = draw
) -> tuple[Draft, Library]:
    """The next spec that loads."""
    while True:
        draft = family(rng)
        try:
            return draft, load_texts(texts_of([draft]))
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
