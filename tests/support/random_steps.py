"""Random operations of steps: every key and operator that only steps have, as a new user may put them together.

Everything comes from the generator given, so that a seed names its spec. The first input has every size, so that a call
tells them all; what else reads, writes and chooses is drawn over its letters.
"""

from __future__ import annotations

from typing import Any

from . import random_shapes
from .spec_drafts import NAMES, OPS, SYMBOLS, Draft, Rng
from .step_formulas import Formulas, Letter, Source

OPERATORS = ("+=", "+=", "max=", "min=", "*=")
FREE = sorted({*OPS} - {*"Explain Specialize Torch Dask Json Team Scratch Index Engine Main Sizes Kernel".split()})
BETWEEN = (
    "peak total_of q1 mean_of held kept more less_of near far top low part2 sizes1 phase1 lane task row_of".split()
)
FREE_NAMES = "input filter format hash total count sums lane task slice".split()  # of Python, C and other kernels
REAL_ROWS = ("f32", "f32", "bf16", "f16", "f64", "f8_e4m3", "f8_e5m2")
WHOLE_ROWS = ("s32", "s64", "u64", "s8", "u8", "s4", "u4", "boolean")
BYTES = ("f8_e4m3", "f8_e5m2", "boolean")  # which hold no rounded sums to compare


class StepDraft:
    """A spec of steps in the making."""

    def __init__(self, rng: Rng, op: str) -> None:
        self.d = d = Draft(rng, op)
        self.letters: list[Letter] = []
        self.sources: list[Source] = []
        self.whole = d.chance(0.25)
        self.rough = not self.whole and d.chance(0.6)
        self.formulas = Formulas(rng, self.letters, self.sources, self.whole)
        self.inputs: list[dict[str, Any]] = []
        self.outputs: list[dict[str, Any]] = []
        self.steps: list[Any] = []
        self.stored: dict[str, str] = {}  # the sort of each output
        self.spatial = ""
        self.vector_at = 0  # where the list with a number per spatial axis stands
        self.mode = str(d.one(random_shapes.MODES))
        self.integers: set[str] = set()  # inputs that are integers in all rows
        self.lacking = ""  # the size whose axis arrays may omit
        self.formulas.bits = self.whole and d.chance(0.5)
        self.formulas.plain = self.mode == "summed"

    # Sizes, attributes, inputs.

    def declare(self) -> None:
        d, f = self.d, self.formulas
        for _ in range(int(d.rng.integers(1, 4))):
            symbol = d.size(min=int(d.rng.integers(0, 2)))
            self.letters.append(Letter(d.letter(), symbol))
        if d.chance(0.2):
            self.letters.append(Letter(d.letter(), self.letters[0].extent))
        for _ in range(int(d.one((0, 1, 1, 2)))):
            symbol = d.take(SYMBOLS)
            d.dims[f"run_{len(d.dims)}"] = {"symbol": symbol, "run": True}
            self.letters.append(Letter(d.letter(), symbol, "run"))
        if d.chance(0.25):
            self.spatial = d.take(SYMBOLS)
            d.dims["space"] = {"symbol": self.spatial, "per_axis": True}
            least, most = d.one(((1, 1), (2, 2), (3, 3), (1, 2), (1, 3)))
            d.spec["spatial_rank"] = {"min": least, "max": most}
            self.letters.append(Letter(d.letter(), self.spatial, "spatial"))
            self.vector_at = len(d.attributes)
            vector = d.number(1, type="s64[]", length="spatial", neutral=1)
            f.vectors.append(vector)
        f.numbers += [letter.extent for letter in self.letters if letter.kind == "one"]
        if d.chance(0.4):
            f.numbers.append(d.number(0))
        if d.chance(0.4):
            symbol = d.number(1)
            f.divisors.append(symbol)
            if d.chance(0.6):
                self.letters.append(Letter(d.letter(), symbol if d.chance(0.5) else f"{symbol} + 1"))
        if d.chance(0.3) and not self.whole:
            f.reals.append(d.real())
        if d.chance(0.4):
            f.truths.append(self.truth())
        random_shapes.shared(self)
        random_shapes.named(self)
        random_shapes.ruled(self)

    def truth(self) -> str:
        d = self.d
        entry: dict[str, Any] = {"name": d.take(NAMES), "type": "bool"}
        entry |= {"required": True} if d.chance(0.4) else {"default": d.one(["true", "false"])}
        if d.chance(0.5):
            entry["symbol"] = d.take(SYMBOLS)
        d.attributes.append(entry)
        return str(entry.get("symbol", entry["name"]))

    def master(self) -> None:
        """The input that has every size; lists and numbers say where its runs stand."""
        d = self.d
        sizes = list(dict.fromkeys((x.extent, x.kind) for x in self.letters if " " not in x.extent))
        sizes = [size for size in sizes if size[0] in self.symbols()]
        runs = [size for size in sizes if size[1] == "run"]
        if self.spatial or len(runs) > 1:  # how many axes each has, only a list can say
            for symbol, _ in runs[0 if self.spatial else 1 :]:
                role = next(role for role, dim in d.dims.items() if dim["symbol"] == symbol)
                d.attributes.append({"name": d.take(NAMES), "type": "s64[]", "required": True, "locates": role})
        if not self.spatial and len(runs) == 1 and not self.mode and d.chance(0.4):
            sizes = self.located(sizes, runs[0])
        else:
            sizes = d.shuffled(sizes)
        axes = {f"{symbol[0].upper()}{number}": symbol for number, (symbol, _) in enumerate(sizes)}
        tensor: dict[str, Any] = {"name": d.take([*NAMES, *FREE_NAMES]), "dims": axes}
        located = {a.get("locates") for a in d.attributes}
        if not located - {None} and d.chance(0.3):
            tensor["layout"] = d.layout(list(axes))
        elif not self.spatial and not located - {None} and d.chance(0.15):
            plain = [axis for axis, (_, kind) in zip(axes, sizes, strict=True) if kind == "one"]
            tensor["joined"] = d.one(plain)
        random_shapes.lack(self, tensor, sizes)
        self.add(tensor, sizes)

    def located(self, sizes: list[tuple[str, str]], run: tuple[str, str]) -> list[tuple[str, str]]:
        """The run in front of a size whose place an attribute tells."""
        d = self.d
        rest = d.shuffled([size for size in sizes if size != run])
        at = next((role for role, dim in d.dims.items() if dim["symbol"] == rest[0][0]), "")
        default = {"default": str(-len(rest))} if d.chance(0.5) else {"required": True}
        d.attributes.append({"name": d.take(NAMES), "type": "s64", "locates": at, **default})
        return [run, *rest]

    def symbols(self) -> set[str]:
        return {str(dim["symbol"]) for dim in self.d.dims.values()}

    def add(self, tensor: dict[str, Any], sizes: list[tuple[str, str]]) -> None:
        self.inputs.append(tensor)
        self.sources.append(Source(tensor["name"], tuple(sizes)))

    def more(self) -> None:
        """Inputs of some of the sizes: stretched, optional, or there in some calls only; lists of an attribute."""
        d, f = self.d, self.formulas
        known = list(self.sources[0].axes)
        for _ in range(int(d.one((0, 1, 1, 2)))):
            sizes = d.shuffled(known)[: int(d.rng.integers(0, 3))]
            tensor: dict[str, Any] = {
                "name": d.take(NAMES),
                "dims": {f"{symbol[0].upper()}{number}": symbol for number, (symbol, _) in enumerate(sizes)},
            }
            if f.truths and d.chance(0.2):
                tensor |= {"when": f.truths[0], "optional": True}
            elif d.chance(0.3):
                tensor["optional"] = True
            if tensor.get("optional") and d.chance(0.5):
                tensor["absent"] = d.one(["1", "0", "-2"])
            axes = [axis for axis, (_, kind) in zip(tensor["dims"], sizes, strict=True) if kind != "spatial" or f.plain]
            if axes and d.chance(0.9 if f.plain else 0.4):
                tensor["broadcast"] = axes[: int(d.rng.integers(1, len(axes) + 1))]
                if d.chance(0.2):
                    tensor["broadcast_if"] = {d.word(["numpy", "none_at_all"]): "numpy"}
            elif self.lacking:
                random_shapes.lack(self, tensor, sizes)
            random_shapes.leave_out(self, tensor)
            self.add(tensor, sizes)
        self.inputs[1:] = sorted(self.inputs[1:], key=lambda tensor: bool(tensor.get("optional")))
        plain = [symbol for symbol, kind in known if kind == "one"]
        random_shapes.blocked(self)
        if plain and d.chance(0.3):
            kind = "s64[]" if self.whole or d.chance(0.4) else "f32[]"
            entry = {"name": d.take(NAMES), "type": kind, "per": d.one(plain)}
            d.attributes.append(entry | ({"required": True} if d.chance(0.5) else {"default": "2"}))
            self.sources.append(Source(entry["name"], ((entry["per"], "one"),)))

    # Steps.

    def step(self, output: bool) -> None:
        """An assignment to a name or an output, by a formula or by one for each word."""
        d, f = self.d, self.formulas
        chosen = d.shuffled(self.letters)[: int(d.rng.integers(1, min(len(self.letters), 4) + 1))]
        chosen += [x for x in self.letters if x.kind == "run" and x not in chosen and d.chance(0.5)]
        seen: dict[tuple[str, str], Letter] = {}
        for letter in chosen:  # a run or the spatial axes are walked by one letter of a step
            seen.setdefault((letter.extent, letter.kind) if letter.kind != "one" else (letter.name, ""), letter)
        scope = list(seen.values())
        written = [x for x in scope if d.chance(0.6)]
        f.letters = scope
        operator = str(d.one(OPERATORS))
        if len(written) == len(scope) or d.chance(0.3):
            operator, written, f.letters = "=", written, written
        if operator == "*=" and not self.rough:
            operator = "min="
        name = d.take(NAMES if output else BETWEEN)
        rough = self.rough and d.chance(0.5)
        sort = "rough" if rough or operator == "*=" else "small" if operator not in ("+=",) else "sums"
        spots = [random_shapes.spot(self, x) if output else (x.name, x.extent) for x in written]
        target = f"{name}[{', '.join(index for index, _ in spots)}]"
        make = f.rough if rough else f.exact
        if operator == "=" and not rough and d.chance(0.15):
            make = f.condition
        if operator == "+=" and not rough and d.chance(0.2):
            make = f.product
        step: dict[str, Any]
        if d.chance(0.2):
            words = ["one_way", "other_way"]
            by, cases = d.word(words), {word: f"{target} {operator} {make()}" for word in words}
            step = {"by": by, "cases": cases}
        elif f.truths and d.chance(0.1):
            flags = [a["name"] for a in d.attributes if a.get("type") == "bool"]
            step = {"by": flags[0], "cases": {word: f"{target} {operator} {make()}" for word in ("true", "false")}}
        else:
            step = {"do": f"{target} {operator} {make()}"}
        if f.letters and not f.plain and d.chance(0.25):
            step["where"] = [f.where()]
        self.steps.append(step["do"] if list(step) == ["do"] else step)
        extents = [extent for _, extent in spots]
        if output:
            extents = [
                random_shapes.outgrown(self, e)
                if x.kind == "one" and not self.formulas.plain and d.chance(0.1) and e in self.symbols()
                else e
                for e, x in zip(extents, written, strict=True)
            ]
            self.output(name, written, extents, sort)
        if operator in ("max=", "min=") and sort == "small":
            sort = "sums"  # what nothing reaches is infinite
        axes = tuple((extent, x.kind) for extent, x in zip(extents, written, strict=True))
        self.sources.append(Source(name, axes, sort))

    def output(self, name: str, letters: list[Letter], extents: list[str], sort: str) -> None:
        d = self.d
        dims: dict[str, str] = {
            f"{x.extent[0].upper()}{number}": extent
            for number, (extent, x) in enumerate(zip(extents, letters, strict=True))
        }
        tensor: dict[str, Any] = {"name": name, "dims": dims}
        if self.lacking in extents and d.chance(0.5):
            tensor["may_lack"] = [axis for axis, extent in dims.items() if extent == self.lacking][:1]
        if self.outputs and self.formulas.truths and d.chance(0.3):
            tensor["when"] = self.formulas.truths[0]
        elif len(dims) > 1 and d.chance(0.2):
            tensor["layout"] = d.layout(list(dims))
        self.outputs.append(tensor)
        self.stored[name] = sort

    def close(self) -> None:
        """What is not read or walked yet is, by the first step of all."""
        text = str(self.steps)
        unread = [t for t in self.inputs if f"{t['name']}[" not in text]
        letters = [x for x in self.letters if not _names(x.name, text)]
        if not unread and not letters:
            return
        name = self.d.take(BETWEEN)
        walked: dict[tuple[str, str], str] = {}
        terms = []
        for tensor in unread:
            sizes = next(source.axes for source in self.sources if source.name == tensor["name"])
            for size in sizes:
                own = [x for x in self.letters if (x.extent, x.kind) == size]
                walked.setdefault(size, next((x.name for x in own if x in letters), own[0].name))
            terms.append(f"{tensor['name']}[{', '.join(walked[size] for size in sizes)}]")
        rest = [x for x in letters if x.name not in walked.values()]
        terms += [f"number({x.name})" for x in rest]
        self.steps.insert(0, f"{name}[] max= {' + '.join(terms)}")

    # The rows.

    def rows(self) -> list[dict[str, str]]:
        d = self.d
        found: dict[tuple[str, ...], dict[str, str]] = {}
        lists = any(a.get("type") == "f32[]" for a in d.attributes)
        for _ in range(int(d.one((1, 1, 2)))):
            whole = self.whole and not lists and (self.formulas.bits or d.chance(0.8))
            accumulate = "s64" if whole else str(d.one(("f32", "f32", "f64")))
            pool = WHOLE_ROWS if whole else REAL_ROWS + (WHOLE_ROWS if d.chance(0.3) else ())
            row = {tensor["name"]: str(d.one(pool)) for tensor in self.inputs}
            if d.chance(0.6):
                row = dict.fromkeys(row, str(d.one(pool)))
            row |= {name: str(d.one(WHOLE_ROWS)) for name in sorted(self.integers)}
            for name, sort in self.stored.items():
                types = REAL_ROWS + WHOLE_ROWS
                types = tuple(x for x in types if x not in BYTES) if sort == "rough" else types
                row[name] = str(d.one(WHOLE_ROWS if whole else types))
            if "f64" in row.values() and not whole:
                accumulate = "f64"
            found.setdefault(tuple(row[t["name"]] for t in self.inputs), {**row, "accumulate": accumulate})
        return random_shapes.typed(self, list(found.values()))

    def spec(self) -> dict[str, Any]:
        d = self.d
        spec = d.spec
        spec["dims"] = {role: dim["symbol"] if list(dim) == ["symbol"] else dim for role, dim in d.dims.items()}
        spec["layouts"], spec["inputs"], spec["outputs"] = d.layouts, self.inputs, self.outputs
        spec["dtypes"] = self.rows()
        random_shapes.annotate(self, spec)
        spec["attributes"] = [
            a if "use" in a else {"reason": "A test gives names at random.", **a} for a in d.attributes
        ]
        spec["let"], spec["shape"], spec["constraints"] = d.lets, d.shape, d.constraints
        spec["semantics"] = {"ranges": {x.name: x.extent for x in self.letters}, "steps": self.steps}
        if any("refuse" in a for a in d.attributes):
            spec["discrepancies"] = ["R1"]
        return {key: value for key, value in spec.items() if value not in ({}, [])}


def _names(letter: str, text: str) -> bool:
    return any(word == letter for word in "".join(c if c.isalnum() or c == "_" else " " for c in text).split())


def steps(rng: Rng) -> Draft:
    """An operation of steps."""
    made = StepDraft(rng, str(rng.choice(FREE)))
    made.declare()
    made.master()
    made.more()
    random_shapes.integers(made)
    outputs = int(made.d.one((1, 1, 2, 3)))
    for _ in range(int(made.d.one((0, 1, 2, 3)))):
        made.step(False)
    for _ in range(outputs):
        made.step(True)
    if made.mode in ("filled", "stated", "ordered", "summed"):
        getattr(random_shapes, made.mode)(made)
    made.close()
    made.d.spec = made.spec()
    return made.d
