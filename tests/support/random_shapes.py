"""What random operations of steps say besides letters and formulas: named values, rules, shapes and types by attributes.

Each function adds one such thing to a draft, where it fits; `random_steps` calls them in the order of a spec.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .spec_drafts import NAMES, SYMBOLS
from .step_formulas import Formulas, Letter, Source

if TYPE_CHECKING:
    from .random_steps import StepDraft

# What none of the others may stand beside: it says by itself how many axes there are, and where.
MODES = ("", "", "", "ordered", "filled", "filled", "lacking", "stated", "summed")
ALPHA = "AL"  # the symbol of the attribute that specs share


def shared(made: StepDraft) -> None:
    """An attribute, a named value and a rule of _common.yaml."""
    d = made.d
    if d.chance(0.15) and not made.whole and not {ALPHA.lower(), "alpha"} & d.folded:
        d.attributes.append({"use": "alpha"})
        d.taken |= {ALPHA, "alpha"}
        d.folded |= {ALPHA.lower(), "alpha"}
        made.formulas.reals.append(ALPHA)
        if d.chance(0.5):
            d.constraints.append({"use": "shared-rule"})
    if d.chance(0.1):
        symbol = d.take(SYMBOLS)
        d.lets[symbol] = {"use": "three"}
        made.formulas.divisors.append(symbol)


def named(made: StepDraft) -> None:
    """Values of sizes and numbers that formulas call by a name: one formula, or one for each word."""
    d, f = made.d, made.formulas
    sizes = [letter.extent for letter in made.letters if letter.kind == "one" and letter.extent in made.symbols()]
    keys: dict[str, Any] = {"summary": "What follows."} if d.chance(0.2) else {}
    keys |= {"source": "page-1"} if d.chance(0.1) else {}
    if sizes and d.chance(0.3):
        size = d.one(sizes)
        divisor = d.one([*f.divisors, "2"])
        f.numbers.append(d.named(d.one([f"max({size} - 1, 0)", f"ceil({size} / {divisor})", f"{size} * 2"]), **keys))
    if d.chance(0.2):
        by, symbol = d.word(["near", "wide"]), d.take(SYMBOLS)
        d.lets[symbol] = {"by": by, "cases": {"near": "1", "wide": d.one(["2", *(f"{x} + 1" for x in f.divisors)])}}
        f.divisors.append(symbol)
    runs = [letter.extent for letter in made.letters if letter.kind == "run"]
    if runs and d.chance(0.2):
        f.numbers.append(d.named(f"min(prod({d.one(runs)}), 9)", **keys))
    if sizes and not made.whole and d.chance(0.2):
        f.numbers.append(d.named(f"max(scaled({d.one(sizes)}, {d.real()}), 0)", **keys))
    if made.spatial and d.chance(0.5):
        scale = {"name": d.take(NAMES), "type": "f32[]", "symbol": d.take(SYMBOLS), "length": "spatial", "neutral": 1}
        d.attributes.append({**scale, "default": "1"})
        f.vectors.append(d.named(f"max(scaled({made.spatial}, {scale['symbol']}), 1)", neutral=1))
    if made.spatial and f.vectors and d.chance(0.3):
        d.attributes[-1 if "surplus" in d.attributes[-1] else made.vector_at]["surplus"] = 1


def ruled(made: StepDraft) -> None:
    """A rule that calls keep more often than not, with the value that comes nearest."""
    d = made.d
    numbers = [a for a in d.attributes if a.get("type") == "s64" and "locates" not in a]
    sizes = [letter.extent for letter in made.letters if letter.kind == "one" and letter.extent in made.symbols()]
    if not numbers or not sizes or d.chance(0.6):
        return
    number, limit = d.one(numbers), f"{d.one(sizes)} + 2"
    symbol = number.get("symbol", number["name"])
    keys: dict[str, Any] = {"nearest": limit} if d.chance(0.5) else {}
    keys |= {"source": "page-1"} if d.chance(0.2) else {}
    d.require(d.one([f"{symbol} <= {limit}", f"{symbol} < 2 or {symbol} <= {limit}"]), number["name"], **keys)


def blocked(made: StepDraft) -> None:
    """A list of the extents of blocks of a size that the first input has."""
    if not made.inputs:
        return
    d, first = made.d, made.inputs[0]
    plain = {extent for extent, kind in made.sources[0].axes if kind == "one"}
    roles = [role for role, dim in d.dims.items() if dim["symbol"] in plain and not dim.get("run")]
    if roles and not {"layout", "may_lack", "optional", "when"} & first.keys() and d.chance(0.15):
        blocks = {d.one(roles): d.one(["2", "1", f"{d.one(sorted(plain))} + 1"])}
        d.attributes.append({"name": d.take(NAMES), "type": "s64[]", "default": "[]", "blocks": blocks})


def spot(made: StepDraft, letter: Letter) -> tuple[str, str]:
    """Where a letter writes an output, and the extent of that axis: mostly each cell, else in another order, or some."""
    d, x, extent = made.d, letter.name, letter.extent
    if letter.kind != "one" or made.formulas.plain or d.chance(0.85):
        return x, extent
    other = d.one(["last", "even", "odd", "next", "before"])
    return {
        "last": (f"{extent} - 1 - {x}", extent),
        "even": (f"2 * {x}", f"2 * ({extent})"),
        "odd": (f"{x} * 2 + 1", f"2 * ({extent})"),
        "next": (f"{x} + 1", f"{extent} + 1"),
        "before": (f"{x} - 1", extent),
    }[other]


def outgrown(made: StepDraft, extent: str) -> str:
    """An extent that only an output has, of at least so many cells."""
    d = made.d
    symbol = d.take(SYMBOLS)
    d.dims[f"grown_{len(d.dims)}"] = {"symbol": symbol}
    text = d.one([f"{extent} + 1", f"2 * {extent}", f"{extent}"])
    d.shape[symbol] = {"value": text} if d.chance(0.5) else text
    return symbol


def lack(made: StepDraft, tensor: dict[str, Any], sizes: list[tuple[str, str]]) -> None:
    """The first input may omit an axis, and so may others that have it."""
    d = made.d
    if made.mode != "lacking" or tensor.get("joined") or tensor.get("optional"):
        return
    plain = [(axis, size) for axis, size in zip(tensor["dims"], sizes, strict=True) if size[1] == "one"]
    plain = [(axis, size) for axis, size in plain if not made.lacking or size[0] == made.lacking]
    if plain and (not made.lacking or d.chance(0.6)):
        axis, (made.lacking, _) = d.one(plain)
        tensor["may_lack"] = [axis]


def leave_out(made: StepDraft, tensor: dict[str, Any]) -> None:
    """An input with axes that it has in one layout only; the first input tells their extents."""
    d = made.d
    axes = list(tensor["dims"])
    free = not {"optional", "broadcast", "may_lack"} & tensor.keys() and made.mode not in ("lacking", "summed")
    if axes and free and not {"layout", "may_lack"} & made.inputs[0].keys() and d.chance(0.6):
        remaining = [axis for axis in axes if d.chance(0.5)]
        name = d.word(["whole", "shared_by_all"])
        d.layouts[name] = {"whole": d.shuffled(axes), "shared_by_all": remaining}
        tensor["layout"] = name


def integers(made: StepDraft) -> None:
    """A step of integers among those of real numbers: it moves bits of integers alone, also if sums make them."""
    d, f = made.d, made.formulas
    sources = [source for source in made.sources if source.name in {tensor["name"] for tensor in made.inputs}]
    sources = [source for source in sources if len(source.axes) < 3]
    if made.whole or f.plain or not sources or d.chance(0.8):
        return
    source, name = d.one(sources), d.take(["bits_of", "masks", "hashed", "seeds"])
    letters = [next((x for x in made.letters if (x.extent, x.kind) == axis), None) for axis in source.axes]
    if None in letters or len({x.name for x in letters if x}) < len(letters):
        return
    made.integers = {source.name}
    own = Formulas(d.rng, [x for x in letters if x], [source], True, f.numbers, f.divisors, truths=f.truths, bits=True)
    operator = d.one(["=", "+=", "max=", "min="])
    indexed = own.letters if operator == "=" else [x for x in own.letters if d.chance(0.5)]
    target = f"{name}[{', '.join(x.name for x in indexed)}]"
    made.steps.append(f"{target} {operator} bit_{d.one(['and', 'or', 'xor'])}({own.exact()}, {own.exact()})")
    made.sources.append(Source(name, tuple((x.extent, x.kind) for x in indexed), "sums"))


def filled(made: StepDraft) -> None:
    """An output whose axes a list says: as many cells as a run of the first input, or as many as it likes."""
    d, f = made.d, made.formulas
    symbol, name = d.take(SYMBOLS), d.take(NAMES)
    d.dims["filling"] = {"symbol": symbol, "run": True}
    letter = Letter(d.letter(), symbol, "run")
    entry: dict[str, Any] = {"name": d.take(NAMES), "type": "s64[]", "required": True, "extents_of": "filling"}
    runs = [x for x in made.letters if x.kind == "run"]
    source = made.sources[0]
    value = f"number({letter.name}) % 5"
    if runs and not made.inputs[0].get("joined") and len([x for x in source.axes if x[1] == "run"]) == 1:
        role = next(role for role, dim in d.dims.items() if dim["symbol"] == runs[0].extent)
        entry["fills"] = role
        if d.chance(0.5):
            entry["keeps"] = d.take(NAMES)
            d.attributes.append({"name": entry["keeps"], "type": "bool", "default": d.one(["true", "false"])})
        if all(kind != "spatial" for _, kind in source.axes):
            at = [f"number({letter.name})" if kind == "run" else "0" for _, kind in source.axes]
            value = f"{source.name}[{', '.join(at)}]"
    d.attributes.append(entry)
    made.letters.append(letter)
    made.steps.append(f"{name}[{letter.name}] = {value}")
    made.outputs.append({"name": name, "dims": {"F": symbol}})
    made.stored[name] = "small"
    f.letters = made.letters


def stated(made: StepDraft) -> None:
    """An output whose shape a list says, and with it an extent that no input has."""
    d = made.d
    symbol, name = d.take(SYMBOLS), d.take(NAMES)
    d.dims["hint"] = {"symbol": symbol}
    letter = Letter(d.letter(), symbol)
    whole = [x for x in made.letters if x.kind == "one" and x.extent in made.symbols()]
    letters = d.shuffled([letter, *whole[:1]])
    made.letters.append(letter)
    tensor: dict[str, Any] = {
        "name": name,
        "dims": {f"{x.extent[0].upper()}{n}": x.extent for n, x in enumerate(letters)},
    }
    if len(letters) > 1 and d.chance(0.4):
        tensor["layout"] = d.layout(list(tensor["dims"]))
    made.formulas.letters = letters
    made.steps.append(f"{name}[{', '.join(x.name for x in letters)}] = {made.formulas.exact()}")
    made.outputs.append(tensor)
    made.stored[name] = "small"
    entry = {"name": d.take(NAMES), "type": "s64[]", "required": True, "length": "any", "shape_of": name}
    d.attributes.append(entry)
    made.sources.append(Source(name, tuple((x.extent, x.kind) for x in letters)))


def ordered(made: StepDraft) -> None:
    """A list orders the axes of an output that nothing else orders."""
    d = made.d
    free = [x for x in made.outputs if len(x["dims"]) > 0 and not {"layout", "when"} & x.keys()]
    if free:
        output = d.one(free)["name"]
        d.attributes.append({"name": d.take(NAMES), "type": "s64[]", "required": True, "order_of": output})


def summed(made: StepDraft) -> None:
    """An output with the shape of an input that broadcasts, in which what stands at stretched cells is put together."""
    d, f = made.d, made.formulas
    given = [tensor for tensor in made.inputs if tensor.get("broadcast")]
    if not given:
        return
    tensor, name = d.one(given), d.take(NAMES)
    axes = next(source.axes for source in made.sources if source.name == tensor["name"])
    own = [[x for x in made.letters if (x.extent, x.kind) == axis] for axis in axes]
    if all(own):
        f.letters = list({x.name: x for x in [*(d.one(xs) for xs in own), *d.shuffled(made.letters)[:1]]}.values())
        spots = [next(x.name for x in f.letters if (x.extent, x.kind) == axis) for axis in axes]
        start = f"{name}[{', '.join(spots)}] {d.one(['+=', 'max=', 'min='])}"
        if d.chance(0.3):
            words = ["one_way", "other_way"]
            made.steps.append({"by": d.word(words), "cases": {word: f"{start} {f.exact()}" for word in words}})
        else:
            made.steps.append(f"{start} {f.exact()}")
        made.outputs.append({"name": name, "dims": dict(tensor["dims"]), "broadcast_as": tensor["name"]})
        made.stored[name] = "sums"


def typed(made: StepDraft, rows: list[dict[str, str]]) -> list[dict[str, str]]:
    """A word that chooses the data type of an output, among rows that differ in nothing else."""
    d = made.d
    if not d.chance(0.3):
        return rows
    name = str(d.one(list(made.stored)))
    others = ("s32", "s8", "u8") if rows[0]["accumulate"] == "s64" else ("f32", "bf16", "s8", "s32")
    words = [rows[0][name], *(x for x in others if x != rows[0][name])][: int(d.rng.integers(1, 4))]
    if made.stored[name] == "rough":
        words = [x for x in words if x in ("f32", "bf16", "f64")] or words[:1]
    default = d.one([{"default": words[0]}, {"required": True}, {}])
    d.attributes.append({"name": d.take(NAMES), "type": "string", "dtype_of": name, "values": words, **default})
    return [{**rows[0], name: word} for word in words]


def annotate(made: StepDraft, spec: dict[str, Any]) -> None:
    """What people say of an operation, which changes nothing that it computes."""
    d = made.d
    extras: dict[str, Any] = {
        "description": 'More words about it, with `marks` and "quotes".',
        "deprecated": "Use another one.",
        "source": ["page-1"],
        "function": f"my_{spec['op'].lower()}",
        "relations": [{"equals": spec["op"], "with": {x["name"]: x["name"] for x in made.inputs + made.outputs}}],
    }
    words = [word for layout in d.layouts.values() for word in layout]
    if words and d.chance(0.5):
        extras["relations"][0]["formats"] = {words[0]: words[-1]}
    if len(d.lets) > 1 and d.chance(0.3):
        spec["padding"] = dict([d.lets.popitem()])
    for key, value in extras.items():
        if d.chance(0.1):
            spec[key] = value
    items = [*spec["inputs"], *spec["outputs"], *(a for a in d.attributes if "use" not in a)]
    for item in items:
        if d.chance(0.1):
            item["source"] = "page-1"
        if d.chance(0.15):
            item["summary"] = "What it is."
        if "type" in item and d.chance(0.1):
            item["page_name"] = d.one(["int", "lambda", "Alpha"]) + item["name"]
