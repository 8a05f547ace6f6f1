"""Random specs that slide windows over spatial axes: pools and convolutions solved for each side, with normal forms."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from .spec_drafts import NAMES, OPS, SYMBOLS, Draft, Rng

RANKS = [(1, 1), (2, 2), (3, 3), (1, 2), (2, 3), (1, 3), (1, 3)]


@dataclass
class _Window:
    """The symbols of a window: `big` cells meet `small` ones through `taps`."""

    big: str
    small: str
    taps: str
    stride: str
    dilation: str
    pad: str
    end: str


def _vector(d: Draft, least: int, neutral: int, computed: list[str]) -> str:
    """A value per spatial axis: an attribute, or a named value."""
    if d.chance(0.15):
        symbol = d.take(SYMBOLS)
        d.lets[symbol] = {"value": str(d.one(computed)), "neutral": neutral}
        return symbol
    entry: dict[str, Any] = {
        "name": d.take(NAMES),
        "type": "s64[]",
        "length": "spatial",
        "min": least,
        "neutral": neutral,
    }
    if d.chance(0.6):
        entry["symbol"] = d.take(SYMBOLS)
    if d.chance(0.3):
        entry["max"] = least + 4
    if d.chance(0.3):
        entry["surplus"] = neutral
    entry |= {"required": True} if d.chance(0.5) else {"default": str(least + int(d.rng.integers(0, 2)))}
    d.attributes.append(entry)
    return str(entry.get("symbol", entry["name"]))


def _symbols(d: Draft) -> _Window:
    big, small, taps = (d.size(per_axis=True) for _ in range(3))
    stride = _vector(d, 1, 1, ["1", "2", taps])
    dilation = _vector(d, 1, 1, ["1", "2"])
    pad = _vector(d, 0, 0, ["0", f"{taps} - 1", f"floor(({taps} - 1) * {dilation} / 2)", "1"])
    end = _vector(d, 0, 0, ["0", pad])
    if d.chance(0.2):
        word = d.word(["explicit", "none", "same"])
        own, pad = pad, d.take(SYMBOLS)
        cases = {"explicit": own, "none": "0", "same": f"floor({taps} / 2)"}
        d.spec["padding"] = {pad: {"by": word, "cases": cases, "neutral": 0, "summary": "padding in front"}}
    return _Window(big, small, taps, stride, dilation, pad, end)


def window(rng: Rng, op: str) -> Draft:
    """An operation over spatial axes."""
    d, w = _started(rng, op)
    return _pool(d, w) if d.chance(0.35) else _Convolution(d, w, d.chance(0.7)).draft()


def form(rng: Rng, dtypes: Sequence[str] = ("f32", "bf16", "f16")) -> Draft:
    """An operation with a normal form, most often with rows that have fast kernels."""
    d, w = _started(rng, str(rng.choice(OPS)))
    d.fast = list(dtypes)
    return _Convolution(d, w, True).draft()


def _started(rng: Rng, op: str) -> tuple[Draft, _Window]:
    d = Draft(rng, op)
    least, most = d.one(RANKS)
    d.spec["spatial_rank"] = {"min": least, "max": most}
    return d, _symbols(d)


def _data(d: Draft, name: str, batch: str, channels: str, space: str, layouts: dict[str, Any]) -> dict[str, Any]:
    """A data tensor: its axes in an order of its own, in that of a word, or in the plain one."""
    tensor: dict[str, Any] = {"name": name, "dims": {"N": batch, "C": channels, "X": space}}
    kind = d.one(["shared", "shared", "own", "none"])
    if kind == "shared":
        tensor["layout"] = layouts.setdefault("data", None) or d.layout(["N", "C", "X"], int(d.one([1, 2, 2, 3])))
        layouts["data"] = tensor["layout"]
    elif kind == "own":
        tensor["layout"] = d.layout(["N", "C", "X"])
    return tensor


def _sizes(d: Draft, w: _Window) -> str:
    """What makes the small size of the big one."""
    return f"floor(({w.big} + {w.pad} + {w.end} - ({w.taps} - 1) * {w.dilation} - 1) / {w.stride}) + 1"


def _pool(d: Draft, w: _Window) -> Draft:
    """A window without weights; its taps are stated."""
    batch, channels = d.size(), d.size()
    dims = {role: dim for role, dim in d.dims.items() if dim["symbol"] != w.taps}
    d.dims = dims
    entry = {"name": d.take(NAMES), "symbol": w.taps, "type": "s64[]", "length": "spatial", "min": 1, "neutral": 1}
    d.attributes.append({**entry, "required": True} if d.chance(0.5) else {**entry, "default": "2"})
    layouts: dict[str, Any] = {}
    src = _data(d, d.take(NAMES), batch, channels, w.big, layouts)
    dst = _data(d, d.take(NAMES), batch, channels, w.small, layouts)
    d.shape[w.small] = _sizes(d, w)
    n, c, i, k = (d.letter() for _ in range(4))
    tap = f"({w.taps} - 1 - {k})" if d.chance(0.2) else k
    at = f"{i} * {w.stride} + {tap} * {w.dilation} - {w.pad}"
    read, cell = f"{src['name']}[{n}, {c}, {at}]", f"{dst['name']}[{n}, {c}, {i}]"
    reduction = d.one(["+=", "max="])
    semantics: dict[str, Any] = {"ranges": {n: batch, c: channels, i: w.small, k: w.taps}}
    if reduction == "max=":
        semantics["init"] = "-inf"
    if d.chance(0.3):
        semantics["where"] = [d.one([f"{k} % 2 == 0", f"{k} <= {i}", f"{at} != 1", f"{k} + 1 < 3 or {c} > 0"])]
    semantics["reduce"] = f"{cell} {reduction} {read}"
    p, q, x = (d.letter() for _ in range(3))
    own = f"{dst['name']}[{p}, {q}, {x}]"
    if d.chance(0.6):
        kinds = ["{} / max(count, 1)", f"{{}} / prod({w.taps})", f"{{}} + prod({w.stride} + 1)", "-(-{})", "max({}, 0)"]
        semantics["finish"] = d.one(kinds).format(own)
    inputs = [src]
    if d.chance(0.3):
        inputs.append({"name": d.take(NAMES), "optional": True, "dims": {"C": channels}})
        semantics["finish"] = f"{semantics.get('finish', own)} + {inputs[-1]['name']}[{q}]"
    if d.chance(0.5):
        argument = str(d.attributes[-1]["name"])
        d.require(
            d.one([f"2 * {w.taps} > 1", f"all({w.taps} >= 1) and not any({w.taps} > 9)", f"prod({w.taps}) <= 64"]),
            argument,
        )
    d.spec = d.finish(inputs, dst, semantics)
    return d


class _Convolution:
    """A convolution, solved for the small side, the big one or the weights, with or without groups."""

    def __init__(self, d: Draft, w: _Window, form: bool) -> None:
        self.d, self.w, self.form = d, w, form
        self.solve = d.one(["x", "y", "w"])
        self.batch, self.bigs, self.smalls = d.size(), d.size(), d.size()
        self.grouped = d.chance(0.6)
        self.groups = d.number(1) if self.grouped else d.named("1")
        self.layouts: dict[str, Any] = {}

    def each(self, channels: str) -> str:
        return f"{channels} / {self.groups}" if self.grouped else channels

    def draft(self) -> Draft:
        d, w = self.d, self.w
        self.n, self.g, self.i, self.k, self.b, self.a = (d.letter() for _ in range(6))
        big = _data(d, d.take(NAMES), self.batch, self.bigs, w.big, self.layouts)
        small = _data(d, d.take(NAMES), self.batch, self.smalls, w.small, self.layouts)
        weights, read, form = self.weights()
        ranges = {
            self.n: self.batch,
            self.i: w.small,
            self.k: w.taps,
            self.b: self.each(self.bigs),
            self.a: self.each(self.smalls),
        }
        if self.grouped:
            ranges[self.g] = self.groups
            for channels in (self.bigs, self.smalls):
                argument = next(str(a["name"]) for a in d.attributes if self.groups in (a.get("symbol"), a["name"]))
                d.require(f"{channels} % {self.groups} == 0", argument)
            if d.chance(0.6):
                self.classes()
        order = d.shuffled(ranges)
        cells = {
            "x": f"{big['name']}[{self.n}, {self.index(self.bigs, self.b)}, {self.i} * {w.stride} + {self.k} * {w.dilation} - {w.pad}]",
            "y": f"{small['name']}[{self.n}, {self.index(self.smalls, self.a)}, {self.i}]",
            "w": read,
        }
        tensors = {"x": big, "y": small, "w": weights}
        target, output = cells.pop(self.solve), tensors.pop(self.solve)
        inputs = list(tensors.values())
        reads = d.shuffled(cells.values())
        semantics: dict[str, Any] = {"ranges": {letter: ranges[letter] for letter in order}}
        semantics["reduce"] = f"{target} += {' * '.join(reads)}"
        bias = self.bias(output, inputs, semantics)
        self.shapes(output, inputs)
        if self.form:
            names = {"groups": self.groups, "stride": w.stride, "dilation": w.dilation, "pad": w.pad}
            d.spec["normal_form"] = {
                "solve": self.solve,
                "big": big["name"],
                "small": small["name"],
                "weights": form,
                **names,
            }
            if bias:
                d.spec["normal_form"]["bias"] = bias
        d.spec = d.finish(inputs, output, semantics)
        return d

    def index(self, channels: str, letter: str) -> str:
        return f"{self.g} * ({self.each(channels)}) + {letter}" if self.grouped else letter

    def classes(self) -> None:
        g, b, a = self.groups, self.bigs, self.smalls
        classes = [
            {"name": "dense", "when": f"{g} == 1", "let": {g: "1"}},
            {"name": self.d.one(["depthwise", "single"]), "when": f"{b} == {g} and {g} == {a}", "let": {b: g, a: g}},
            {"name": "half", "when": f"{b} == {g}", "let": {b: g}},
        ]
        self.d.spec["classes"] = [c for c in classes if self.d.chance(0.6)] + [{"name": "grouped"}]

    def weights(self) -> tuple[dict[str, Any], str, str]:
        """The tensor, how semantics read it, and what the normal form calls it."""
        d, w = self.d, self.w
        name = d.take(NAMES)
        tap = f"{w.taps} - 1 - {{k}}" if d.chance(0.25) else "{k}"
        tensor: dict[str, Any] = {"name": name}
        axes = ["O", "I", "X"]
        if self.grouped or d.chance(0.5):
            view = {"g": d.letter(), "a": d.letter(), "b": d.letter(), "k": d.letter()}
            order = d.shuffled(view)
            tensor["view"] = [view[role] for role in order]
            a, b, g, k = view["a"], view["b"], view["g"], tap.format(k=view["k"])
            each_a, each_b = self.each(self.smalls), self.each(self.bigs)
            spread_a = {"O": f"{g} * ({each_a}) + {a}", "I": b, "X": k}
            spread_b = {"O": a, "I": f"{g} * ({each_b}) + {b}", "X": k}
            arrangements = {
                "by_small": {"dims": {"O": self.smalls, "I": each_b, "X": w.taps}, "index": spread_a},
                "by_big": {"dims": {"O": each_a, "I": self.bigs, "X": w.taps}, "index": spread_b},
            }
            chosen = list(arrangements) if d.chance(0.4) else [d.one(list(arrangements))]
            if d.chance(0.3):
                arrangements["by_small"]["summary"] = "Who writes it so."
            tensor["arrangements"] = {word: arrangements[word] for word in d.shuffled(chosen)}
            roles = {"g": self.g if self.grouped else "0", "a": self.a, "b": self.b, "k": self.k}
            names = {"g": "g", "a": "small", "b": "big", "k": "k"}
            read = f"{name}[{', '.join(roles[role] for role in order)}]"
            form = f"{name}[{', '.join(names[role] for role in order)}]"
        else:
            tensor["dims"] = {"O": self.smalls, "I": self.bigs, "X": w.taps}
            read = f"{name}[{self.a}, {self.b}, {tap.format(k=self.k)}]"
            form = f"{name}[small, big, k]"
        if d.chance(0.6):
            tensor["layout"] = d.layout(axes, int(d.one([1, 2])))
        return tensor, read, form

    def bias(self, output: dict[str, Any], inputs: list[dict[str, Any]], semantics: dict[str, Any]) -> str:
        d = self.d
        if self.solve == "w" or d.chance(0.4):
            return ""
        name = d.take(NAMES)
        p, q, x = (d.letter() for _ in range(3))
        inputs.append(
            {"name": name, "dims": {"C": output["dims"]["C"]}, **({"optional": True} if d.chance(0.6) else {})}
        )
        semantics["finish"] = f"{output['name']}[{p}, {q}, {x}] + {name}[{q}]"
        return name

    def shapes(self, output: dict[str, Any], inputs: list[dict[str, Any]]) -> None:
        """Lets a formula or the call say how large the output is."""
        d, w = self.d, self.w
        if self.solve == "y":
            d.shape[w.small] = _sizes(d, w)
            return
        argument = str(inputs[0]["name"])
        formula = f"({w.small} - 1) * {w.stride} + ({w.taps} - 1) * {w.dilation} + 1 - {w.pad} - {w.end}"
        if self.solve == "x" and d.chance(0.5):
            d.shape[w.big] = formula
            return
        name = d.take(NAMES)
        if d.chance(0.5):
            inputs.append({"name": name, "parameter": f"{name}_tensor", "shape_of": output["name"], "optional": True})
            d.attributes.append({"name": name, "type": "s64[]", "length": "any", "shape_of": output["name"]})
        elif d.chance(0.5):
            inputs.append({"name": name, "shape_of": output["name"]})
        else:
            d.attributes.append(
                {"name": name, "type": "s64[]", "length": "any", "shape_of": output["name"], "required": True}
            )
        d.require(f"{w.small} == {_sizes(d, w)}", argument)
