"""Specs in the making: names that are taken once, and what every family of random specs adds at will."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import yaml

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
        """A relation of the operation to itself, which is well formed, if not true."""
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
