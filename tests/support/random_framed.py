"""Random choices by where a cell lies: between one value and what lies inside a frame, or between values on both sides
of places along one axis.

In: a generator of random numbers. Out: a spec's text.
"""

from __future__ import annotations

import numpy as np

Rng = np.random.Generator
ROWS = ("f32", "bf16", "u8")


def spec_of_frame(rng: Rng, op: str) -> str:
    """A step that pads, moves or crops some axes, by numbers or by an attribute, in either spelling of a choice."""
    letters = "abc"[: rng.integers(1, 4)]
    moved = [c for c in letters if rng.random() < 0.7] or [letters[-1]]
    shape, inside, cells = list[str](), list[str](), list[str]()
    for c in letters:
        size = c.upper()
        if c not in moved:
            cells.append(c)
            continue
        before = str(rng.choice(["0", "1", "3", "P"]))
        behind = str(rng.choice(["0", "2", "P", "P + 1"]))
        same = rng.random() < 0.2
        shape.append(f"  {size}Y: {size if same else f'{size} + {before} + {behind}'}")
        cell = f"{c} - {before}"
        if before != "0" or rng.random() < 0.2:
            inside.append(str(rng.choice([f"{c} >= {before}", f"{before} <= {c}", f"{c} > {before} - 1"])))
        if behind != "0" or rng.random() < 0.2:
            inside.append(str(rng.choice([f"{c} < {size} + {before}", f"{c} <= {size} + {before} - 1"])))
        bounds = [f"min(max({cell}, 0), {size} - 1)", f"max(min({cell}, {size} - 1), 0)", cell]
        cells.append(str(rng.choice(bounds, p=[0.7, 0.15, 0.15])))
    value = f"x[{', '.join(cells)}]"
    value = str(rng.choice([value, value, f"max({value}, 1) * z[{letters[0]}]", f"x[{', '.join(cells)}] + 1"]))
    if not inside:
        inside.append(f"{moved[0]} >= 1")
    rng.shuffle(inside)
    clamps = all("min" in cell for cell in cells if "- " in cell)
    rim = str(rng.choice(["0", "1", "-inf", "V"])) if clamps or rng.random() < 0.2 else "0"
    if rng.random() < 0.5:
        chosen = f"select({' and '.join(inside)}, {value}, {rim})"
    else:
        opposite = {" >= ": " < ", " < ": " >= ", " <= ": " > ", " > ": " <= "}
        outside = [next(one.replace(a, b) for a, b in opposite.items() if a in one) for one in inside]
        chosen = f"select({' or '.join(outside)}, {rim}, {value})"
    sizes = [f"{{symbol: {c.upper()}, min: {rng.integers(0, 2)}}}" for c in letters]
    roles = [f"size_{c}: {size}" for c, size in zip(letters, sizes, strict=True)]
    roles += [f"out_{c}: {c.upper()}Y" for c in moved]
    target = {c: f"{c.upper()}Y" if c in moved else c.upper() for c in letters}
    scaled = "z[" in value
    names = ["x", *("z" if scaled else ""), "y"]
    rows = [f"  - {{{', '.join(f'{n}: {dtype}' for n in names)}, accumulate: f32}}" for dtype in ROWS]
    extra = f"  - {{name: z, dims: {{ZX: {target[letters[0]]}}}}}\n" if scaled and letters[0] not in moved else ""
    if scaled and not extra:
        chosen, extra = chosen.replace(f"z[{letters[0]}]", "z[]"), "  - {name: z, dims: {}}\n"
    return f"""op: {op}
revision: 1
summary: Cells in a frame.
dims: {{{", ".join(roles)}}}
attributes:
  - {{name: pad, symbol: P, type: s64, default: "2", summary: Cells around.}}
  - {{name: value, symbol: V, type: f32, default: "3", summary: The value of the frame.}}
inputs:
  - {{name: x, dims: {{{", ".join(f"{c.upper()}X: {c.upper()}" for c in letters)}}}}}
{extra}outputs:
  - {{name: y, dims: {{{", ".join(f"{c.upper()}T: {target[c]}" for c in letters)}}}}}
dtypes:
{chr(10).join(rows)}
shape:
{chr(10).join(shape)}
semantics:
  ranges: {{{", ".join(f"{c}: {target[c]}" for c in letters)}}}
  steps:
    - y[{", ".join(letters)}] = {chosen}
"""


def spec_of_sides(rng: Rng, op: str) -> str:
    """A step that joins two or three arrays along an axis, or has other values before or behind some cells."""
    letters = "abc"[: rng.integers(1, 4)]
    along = str(rng.choice([*letters]))
    names = "xyz"[: rng.integers(2, 4)]
    sizes = {name: (name.upper(), int(rng.integers(0, 2))) for name in names}
    begins = [
        " + ".join(["0", *(sizes[name][0] for name in names[:n])]).removeprefix("0 + ") for n in range(len(names))
    ]
    values = []
    for name, begin in zip(names, begins, strict=True):
        place = along if begin == "0" else f"{along} - ({begin})" if "+" in begin else f"{along} - {begin}"
        bound = [f"min({place}, {sizes[name][0]} - 1)"] if begin == "0" else [f"max({place}, 0)"]
        bound.append(f"min(max({place}, 0), {sizes[name][0]} - 1)")
        # What only ends inside its own array is clamped on both sides, unless it is the first or the last.
        cell = str(rng.choice(bound if name in (names[0], names[-1]) else bound[1:]))
        read = f"{name}[{', '.join(cell if c == along else c for c in letters)}]"
        values.append(str(rng.choice([read, read, f"max({read}, 1)", f"{read} * {along}"])))
    chosen = values[-1]
    if rng.random() < 0.5:  # the first one within, or the last one
        for value, begin in zip(values[-2::-1], begins[:0:-1], strict=True):
            test = str(rng.choice([f"{along} < {begin}", f"{begin} > {along}", f"{along} <= {begin} - 1"]))
            chosen = f"select({test}, {value}, {chosen})"
    else:
        chosen = values[0]
        for value, begin in zip(values[1:], begins[1:], strict=True):
            test = str(rng.choice([f"{along} >= {begin}", f"{begin} <= {along}", f"{along} > {begin} - 1"]))
            chosen = f"select({test}, {value}, {chosen})"
    if rng.random() < 0.3:
        inside = f"{along} >= {begins[1]} and {along} < {begins[1]} + {sizes[names[1]][0]}"
        chosen = f"select({inside}, {values[1]}, {chosen})"
    roles = [f"size_{name}: {{symbol: {symbol}, min: {least}}}" for name, (symbol, least) in sizes.items()]
    roles += [f"size_{c}: {{symbol: {c.upper()}, min: 0}}" for c in letters if c != along]
    whole = " + ".join(symbol for symbol, _ in sizes.values())
    inputs = [
        f"  - {{name: {name}, dims: {{{', '.join(f'{c.upper()}X: {symbol if c == along else c.upper()}' for c in letters)}}}}}"
        for name, (symbol, _) in sizes.items()
    ]
    arrays = [*names, "to"]
    rows = [f"  - {{{', '.join(f'{n}: {dtype}' for n in arrays)}, accumulate: f32}}" for dtype in ROWS]
    extents = {c: whole if c == along else c.upper() for c in letters}
    return f"""op: {op}
revision: 1
summary: Cells on sides.
dims: {{{", ".join(roles)}}}
inputs:
{chr(10).join(inputs)}
outputs:
  - {{name: to, dims: {{{", ".join(f"{c.upper()}T: {extents[c]}" for c in letters)}}}}}
dtypes:
{chr(10).join(rows)}
semantics:
  ranges: {{{", ".join(f"{c}: {extents[c]}" for c in letters)}}}
  steps:
    - to[{", ".join(letters)}] = {chosen}
"""
