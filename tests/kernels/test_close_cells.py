"""Axes of a few cells, as of complex numbers, colours and coordinates: random steps over them agree with the interpreter.

Each operation is called with arrays in the order of their axes, of which all lanes are taken in one loop, and others.
"""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import ml_dtypes
import numpy as np
import opwright_kernels as kernels
import pytest
from opwright.derive.phases import staged
from opwright.load import load_texts
from support.draws import FULL, rng
from support.package import package
from support.spec_packages import instruction_set, serving
from support.step_verdicts import agree

Rng = np.random.Generator
SPECS, CALLS = (12, 20) if FULL else (3, 10)
WIDTHS = [("f32", "f32"), ("bf16", "bf16"), ("f16", "f16"), ("bf16", "f32"), ("f64", "f64"), ("s8", "f32")]


def drawn(random: Rng, number: int) -> str:
    """An operation on rows of a few cells: of numbers of them, of letters, sums, and cells two apart."""

    def one(*items: str) -> str:
        return items[int(random.integers(len(items)))]

    few, other = (int(random.integers(2, 5)) for _ in range(2))
    rows = one("n", "b, n")
    extents = rows.upper()

    def cell(name: str, cells: int) -> str:
        return f"{name}[{rows}, {random.integers(cells)}]"

    def formula() -> str:
        a, b, c = (one(cell("x", few), cell("w", other), f"s[{random.integers(few)}]", f"g[{rows}]") for _ in range(3))
        return one(f"{a} * {b} - {c}", f"max({a}, {b}) + {c}", f"({a} - {b}) * {c}", f"select({a} > {b}, {c}, {a})")

    steps = [f"y[{rows}, {at}] = {formula()}" for at in range(few)]
    kind = one("numbers", "letter", "sum", "between", "halves")
    if kind == "letter":
        steps = [f"y[{rows}, r] = x[{rows}, r] * g[{rows}] + s[r]"]
    elif kind == "sum":
        steps = [f"y[{rows}, r] += x[{rows}, i] * m[r, i]"]
    elif kind == "between":
        steps = [f"t[{rows}, r] += w[{rows}, q] * v[r, q]", f"y[{rows}, r] = t[{rows}, r] * x[{rows}, r] - g[{rows}]"]
    z = f"z[{rows}] = {formula()}" if kind != "halves" else f"z[{rows}] = h[{rows.replace('n', '2 * n')}] - "
    z += "" if kind != "halves" else f"h[{rows.replace('n', '2 * n + 1')}] * {cell('x', few)}"
    arrays = {
        "x": f"{extents}, {few}", "w": f"{extents}, {other}", "s": f"{few}", "g": extents, "m": f"{few}, {few}",
        "v": f"{few}, {other}", "h": extents.replace("N", "L"),
    }  # fmt: skip
    text = " ".join([*steps, z])
    inputs = {name: axes for name, axes in arrays.items() if f"{name}[" in text}
    outputs = {"y": arrays["x"], "z": extents}

    def told(found: dict[str, str]) -> str:
        dims = {
            name: [f"{'ABC'[at]}: {axis}" for at, axis in enumerate(text.split(", "))] for name, text in found.items()
        }
        return ", ".join(f"{{name: {name}, dims: {{{', '.join(axes)}}}}}" for name, axes in dims.items())

    pairs = [*dict(WIDTHS[at] for at in random.permutation(len(WIDTHS))).items()][:2]  # rows differ in their inputs
    dtypes = []
    for given, made in pairs:
        kinds = {**dict.fromkeys(inputs, given), **dict.fromkeys(outputs, made)}
        kinds["accumulate"] = "f64" if "f64" in (given, made) else "f32"
        dtypes.append("{" + ", ".join(f"{name}: {kind}" for name, kind in kinds.items()) + "}")
    halves = kind == "halves"
    letters = {"b": "B", "n": "N", "r": f"{few}", "i": f"{few}", "q": f"{other}"}
    used = {
        name: extent
        for name, extent in letters.items()
        if name in {*"".join(c if c.isalnum() else " " for c in text).split()}
    }
    return "\n".join([
        f"op: Close{number}", "revision: 1", "summary: Rows of a few cells.",
        f"dims: {{rows: {{symbol: N}}{', more: {symbol: B}' if 'b' in used else ''}{', all: {symbol: L}' if halves else ''}}}",
        f"inputs: [{told(inputs)}]", f"outputs: [{told(outputs)}]", f"dtypes: [{', '.join(dtypes)}]",
        *(["constraints: [{id: even, expr: L == 2 * N, say: h has pairs, argument: h}]"] if halves else []),
        f"semantics:\n  ranges: {{{', '.join(f'{name}: {extent}' for name, extent in used.items())}}}", "  steps:",
        *(f"    - {step}" for step in [*steps, z]), "",
    ])  # fmt: skip


@pytest.mark.sweep
@pytest.mark.parametrize("seed", range(40 if FULL else 2))
def test_steps_over_axes_of_a_few_cells_agree_with_the_interpreter(seed: int, tmp_path: Path) -> None:
    random = rng("close", seed)
    library, module = package({f"c{n}.yaml": drawn(random, n) for n in range(SPECS)}, tmp_path, f"close_{seed}")
    seen = agree(module, library.ops, CALLS, seed)
    assert all(seen[f"{op.op} legal"] for op in library.ops)


def drawn_turns(random: Rng, number: int) -> str:
    """Steps that take turns along an axis, `y[n, 2 * e]` and `y[n, 2 * e + 1]`; of all its cells, of some, or beside others."""

    def one(*items: str) -> str:
        return items[int(random.integers(len(items)))]

    few = int(random.integers(2, 6))
    rows, tail = one("n", "b, n"), one("", "", ", d")
    kind = one("all", "all", "missing", "beside", "behind", "between", "outer", "halves")
    places = [f"{few} * e + {turn}" if turn else f"{few} * e" for turn in random.permutation(few)]
    moved = {"behind": "E + ", "halves": f"{few} * E + "}.get(kind, "")

    def cell(name: str, at: str) -> str:
        return f"{name}[{at}, {rows}{tail}]" if kind == "outer" else f"{name}[{rows}, {at}{tail}]"

    def formula() -> str:
        near = cell("x", places[int(random.integers(few))])
        a, b, c = (one(near, near, cell("w", "e"), f"g[{rows}]", "s[e]") for _ in range(3))
        more = [f"exp({a} / 4) - {b}"] if random.integers(4) == 0 else []
        return one(f"{a} * {b} - {c}", f"max({a}, {b}) + {c}", f"{a}", f"select({a} > {b}, {c}, {a})", *more)

    written = places[1:] if kind == "missing" else places
    steps = [f"{cell('y', moved + at)} = {formula()}" for at in written]
    if kind == "between":
        steps = [f"{cell('t', 'e')} = {formula()}", *(f"{step} - {cell('t', 'e')}" for step in steps)]
    if kind == "beside":
        steps.append(f"{cell('y', f'{few} * E + e')} = {formula()}")
    elif kind == "behind":
        steps.insert(int(random.integers(len(steps) + 1)), f"{cell('y', 'e')} = {formula()}")
    elif kind == "halves":
        steps += [f"{cell('y', at)} = {formula()}" for at in places]
    z = f"z[{rows}] {one('+=', 'max=')} {cell('x', places[0])} * {one('s[e]', cell('x', places[1]))}"
    ends = {"beside": few + 1, "behind": few + 1, "halves": 2 * few}
    arrays = {name: [*rows.upper().split(", "), axis, *tail.upper().split(", ")[1:]] for name, axis in (
        ("x", f"{few} * E"), ("w", "E"), ("y", f"{ends.get(kind, few)} * E")
    )}  # fmt: skip
    if kind == "outer":
        for axes in arrays.values():
            axes.insert(0, axes.pop(next(at for at, axis in enumerate(axes) if "E" in axis)))
    arrays |= {"g": rows.upper().split(", "), "s": ["E"], "z": rows.upper().split(", ")}
    text = " ".join([*steps, *([] if tail else [z])])
    dims = {
        name: "{" + ", ".join(f"A{at}: {axis}" for at, axis in enumerate(axes)) + "}" for name, axes in arrays.items()
    }
    inputs = [name for name in "xwgs" if f"{name}[" in text]
    outputs = ["y"] if tail else ["y", "z"]
    dtypes = []
    for given, other in [*dict(WIDTHS[at] for at in random.permutation(len(WIDTHS))).items()][:2]:
        kinds = {**dict.fromkeys(inputs, given), **dict.fromkeys(outputs, other)}
        kinds["accumulate"] = "f64" if "f64" in (given, other) else "f32"
        dtypes.append("{" + ", ".join(f"{name}: {kind}" for name, kind in kinds.items()) + "}")
    used = {axis for name in inputs for axis in "BNED" if any(axis in extent for extent in arrays[name])}
    needed = {*"BNED"} & {*"".join(dims[name] for name in (*inputs, *outputs))} - used
    letters = {"b": "B", "n": "N", "e": "E", "d": "D"}
    walked = {name: extent for name, extent in letters.items() if name in {*rows.split(", "), "e", *tail.split(", ")}}
    attributes = [
        f"{{name: size_{one.lower()}, symbol: {one}, type: s64, required: true, min: 0, max: 40}}" for one in needed
    ]
    arrays_of = [", ".join(f"{{name: {name}, dims: {dims[name]}}}" for name in names) for names in (inputs, outputs)]
    return "\n".join([
        f"op: Turns{number}", "revision: 1", "summary: Steps that take turns along an axis.",
        f"dims: {{{', '.join(f'size_{axis.lower()}: {{symbol: {axis}}}' for axis in sorted(used))}}}",
        *([f"attributes: [{', '.join(attributes)}]"] if attributes else []),
        f"inputs: [{arrays_of[0]}]", f"outputs: [{arrays_of[1]}]", f"dtypes: [{', '.join(dtypes)}]",
        f"semantics:\n  ranges: {{{', '.join(f'{name}: {extent}' for name, extent in walked.items())}}}", "  steps:",
        *(f"    - {step}" for step in [*steps, *([] if tail else [z])]), "",
    ])  # fmt: skip


@pytest.mark.sweep
@pytest.mark.parametrize("seed", range(60 if FULL else 3))
def test_steps_that_take_turns_agree_with_the_interpreter(seed: int, tmp_path: Path) -> None:
    random = rng("turns", seed)
    library, module = package({f"t{n}.yaml": drawn_turns(random, n) for n in range(SPECS)}, tmp_path, f"turns_{seed}")
    seen = agree(module, library.ops, CALLS, seed)
    assert all(seen[f"{op.op} legal"] for op in library.ops)


def test_steps_that_take_turns_need_no_array_of_sums() -> None:
    """What all of them write is the whole axis; with one of them missing, or twice there, it is not."""
    text = TURNS.format(steps=", ".join(f'"y[n, {at}] = x[n, {at}]"' for at in ("3 * e + 1", "3 * e", "3 * e + 2")))
    assert [phase.own for phase in staged(load_texts({"turns.yaml": text}).ops[0]).phases] == [("n", "e")]
    for places in (("3 * e + 1", "3 * e"), ("3 * e + 1", "3 * e", "3 * e + 2", "3 * e + 1")):
        text = TURNS.format(steps=", ".join(f'"y[n, {at}] = x[n, {at}]"' for at in places))
        assert "y_sum_" in staged(load_texts({"turns.yaml": text}).ops[0]).program.arrays


TURNS = """op: Turns
revision: 1
summary: Cells that are copied by threes.
dims: {{rows: {{symbol: N}}, cells: {{symbol: E}}}}
inputs: [{{name: x, dims: {{N: N, E: 3 * E}}}}]
outputs: [{{name: y, dims: {{N: N, E: 3 * E}}}}]
dtypes: [{{x: f32, y: f32, accumulate: f32}}]
semantics: {{ranges: {{n: N, e: E}}, steps: [{steps}]}}
"""


MATRIX = """op: Matrix
revision: 1
summary: Points times a matrix, doubled, and the sum of their coordinates.
dims: {rows: {symbol: N}}
inputs: [{name: x, dims: {N: N, C: 3}}, {name: m, dims: {O: 3, I: 3}}]
outputs: [{name: y, dims: {N: N, O: 3}}, {name: twice, dims: {N: N, C: 3}}, {name: all, dims: {N: N}}]
dtypes:
  - {x: f32, m: f32, y: f32, twice: f32, all: f32, accumulate: f32}
  - {x: bf16, m: bf16, y: bf16, twice: bf16, all: f32, accumulate: f32}
semantics:
  ranges: {n: N, o: 3, i: 3}
  steps:
    - t[n, o] += m[o, i] * x[n, i]
    - y[n, o] = t[n, o] * 2
    - twice[n, i] = x[n, i] + x[n, i]
    - all[n] += x[n, i]
"""


@pytest.fixture(scope="module")
def matrix(tmp_path_factory: pytest.TempPathFactory) -> ModuleType:
    folder = tmp_path_factory.mktemp("matrix")
    return package({"matrix.yaml": MATRIX}, folder, "matrix_package")[1]


def test_steps_over_few_cells_are_one_phase_without_sums() -> None:
    (op,) = load_texts({"matrix.yaml": MATRIX}).ops
    (phase,) = staged(op).phases
    assert phase.own == ("n",)
    assert {part.operator for part in phase.parts} == {"set"}


@pytest.mark.parametrize("rows", [0, 1, 15, 64, 257, 5000])
def test_order_in_memory_and_threads_leave_the_bits_as_they_are(rows: int, matrix: ModuleType) -> None:
    random = rng("matrix", rows)
    x, m = random.standard_normal((rows, 3)).astype(np.float32), random.standard_normal((3, 3)).astype(np.float32)
    wide = np.zeros((rows, 5), np.float32)
    wide[:, 1:4] = x
    turned = np.asfortranarray(x)
    result = [one.tobytes() for one in matrix.matrix(x, m, threads=1)]
    for given in (x, turned, wide[:, 1:4], np.ascontiguousarray(x[::-1])[::-1]):
        for threads in (1, 2, 3):
            assert [one.tobytes() for one in matrix.matrix(given, m, threads=threads)] == result
    outputs = tuple(np.full((2 * rows, 2, *rest), 77, np.float32)[::2, 0] for rest in ((3,), (3,), ()))
    assert [one.tobytes() for one in matrix.matrix(x, m, out=outputs)] == result
    assert all((one.base[1::2] == 77).all() and (one.base[:, 1] == 77).all() for one in outputs)


BACKWARDS = """op: Backwards
revision: 1
summary: Rows of few cells in the other order.
dims: {batch: {symbol: N}, rows: {symbol: W}, cells: {symbol: C}}
inputs: [{name: x, dims: {N: N, W: W, C: C}}]
outputs: [{name: y, dims: {N: N, W: W, C: C}}]
dtypes:
  - {x: f32, y: f32, accumulate: f32}
  - {x: bf16, y: bf16, accumulate: f32}
  - {x: u8, y: u8, accumulate: f32}
  - {x: f64, y: f64, accumulate: f64}
semantics:
  ranges: {n: N, w: W, c: C}
  steps: ["y[n, w, c] = x[n, W - 1 - w, c]"]
"""


def test_rows_of_few_cells_are_turned_and_nothing_behind_them_is_read(tmp_path: Path) -> None:
    random = rng("backwards")
    library, module = package({"backwards.yaml": BACKWARDS}, tmp_path, "backwards_package")
    for isa in serving(module, library.op("Backwards")):
        with instruction_set(module, isa):
            for dtype in (np.float32, ml_dtypes.bfloat16, np.uint8, np.float64):
                for _ in range(20):
                    n, w, c = int(random.integers(1, 4)), int(random.integers(1, 90)), int(random.integers(1, 7))
                    x = random.integers(0, 200, (n, w, c)).astype(dtype)
                    x = [x, x[:, ::-1], np.asfortranarray(x), np.repeat(x, 2, 2)[..., ::2]][int(random.integers(4))]
                    room = np.zeros((n, w + 2, c), dtype)
                    module.backwards(x, out=room[:, 1:-1], threads=int(random.integers(1, 4)))
                    assert (room[:, 1:-1] == x[:, ::-1]).all(), (isa, dtype, x.shape, x.strides)
                    assert not room[:, 0].any()
                    assert not room[:, -1].any()


@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16])
def test_rows_of_cells_that_lie_near_are_copied_with_nothing_behind(dtype: type, isa: str) -> None:
    random = np.random.default_rng(len(isa))
    for step in (-5, -4, -3, -2, -1, 2, 3, 4, 5):
        for cells in sorted({1, 2, 31, 32, 33, 64, *(int(n) for n in random.integers(1, 150, 6))}):
            given = random.integers(-99, 99, (3, abs(step) * cells)).astype(dtype)[:, ::step]
            around = np.full((3, cells + 40), 7, dtype)
            found = kernels.reorder(given, out=around[:, :cells])
            assert np.array_equal(found.astype(np.float32), given.astype(np.float32)), (step, cells)
            assert (around[:, cells:] == dtype(7)).all(), (step, cells)
