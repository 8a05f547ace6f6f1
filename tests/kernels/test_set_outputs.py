"""Outputs whose cells steps only set: borders, pieces that lie one behind the other, parts that are written twice."""

from __future__ import annotations

import itertools
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from opwright.derive.phases import staged
from opwright.load import load_texts
from opwright.oracle.run_steps import compute_steps
from support.draws import FULL, rng
from support.package import package
from support.random_blocks import blocks
from support.spec_packages import instruction_set, serving
from support.step_verdicts import agree

SPECS, CALLS = (30, 20) if FULL else (6, 8)
KINDS = ("f32", "bf16", "f16", "u8", "f64", "s32")
ATTRIBUTES = """attributes:
  - {name: pad, symbol: P, type: s64, default: '1', min: 0, summary: Cells in front.}
  - {name: value, symbol: V, type: f32, default: '2', summary: The value of cells around others.}
"""


def drawn(random: np.random.Generator, name: str) -> str:
    """A spec of two to four steps that set cells of one output, or add one term to each of some."""

    def one(items: list[str]) -> str:
        return str(random.choice(items))

    letters = [*"abc"[: int(random.integers(1, 4))]]
    along = one(letters)
    form = one(["pieces", "border", "border", "shifted", "twice"])
    kind = one([*KINDS])
    row = f"accumulate: {'f64' if kind == 'f64' else 'f32'}"
    order = [str(letter) for letter in random.permutation(letters)]
    inputs, types, ranges = dict[str, str](), [f"dst: {kind}"], {x: x.upper() for x in letters}

    def given(number: int, axis: str, kind: str) -> str:
        """The name of an input whose axis in place of `along` has the letter `axis`, in any order."""
        axes = [str(x) for x in random.permutation(letters)]
        inputs[f"src{number}"] = ", ".join(f"X{x}: {axis.upper() if x == along else x.upper()}" for x in axes)
        types.append(f"src{number}: {kind}")
        return f"src{number}[{', '.join(axis if x == along else x for x in axes)}]"

    def dst(place: str) -> str:
        return f"dst[{', '.join(place if x == along else x for x in order)}]"

    other = kind if random.random() < 0.8 else one(["f32", "u8"]) if kind != "f64" else "f32"
    extent, steps = along.upper(), list[str]()
    if form in ("pieces", "twice"):
        pieces = [*"klm"[: int(random.integers(2, 4))]]
        ranges |= {x: x.upper() for x in pieces}
        ends = ["0"]
        for number, piece in enumerate(pieces):
            value = given(number, piece, other)
            value = one([value, value, f"{value} + 1"])
            steps.append(f"{dst(f'{ends[-1]} + {piece}' if ends[-1] != '0' else piece)} {one(['=', '+='])} {value}")
            ends.append(f"{ends[-1]} + {piece.upper()}" if number else piece.upper())
        extent = ends[-1] if form == "pieces" else f"max({ends[-1]}, {pieces[0].upper()} + 1)"
        if form == "twice":
            steps.append(f"{dst('1 + ' + pieces[0])} {one(['=', '+='])} {given(9, pieces[0], other)}")
        ranges.pop(along)
        steps = [steps[int(at)] for at in random.permutation(len(steps))]
    elif form == "border":
        extent = f"{along.upper()} + P + {int(random.integers(0, 3))}"
        steps.append(f"{dst(f'{along} + P')} = {given(0, along, other)}")
        if random.random() < 0.4:
            steps.append(f"{dst('P')} = 1") if len(letters) == 1 else None
        if random.random() < 0.3:
            ranges["q"] = "P"
            steps.append(f"{dst('q')} = {int(random.integers(-1, 3)) if kind != 'u8' else 2}")
        if random.random() < 0.4:
            ranges["o"] = extent
            steps.insert(0, f"{dst('o')} = {one(['3', 'P', '0.5', 'V'])}")
    else:
        ranges[along] = f"{along.upper()} + P"
        extent = f"{along.upper()} + P"
        value = given(0, along, other).replace(f"[{along}", f"[{along} - P").replace(f" {along}", f" {along} - P")
        steps.append(f"{dst(along)} {one(['+=', '='])} {value}")
    held = [x for x in letters if x != along]
    symbols = [*held, *([along] if form in ("border", "shifted") else []), *(x for x in "klm" if x in ranges)]
    axes = ", ".join(f"Y{x}: '{extent if x == along else x.upper()}'" for x in order)
    pads = form in ("border", "shifted")
    return f"""op: {name}
revision: 1
summary: Cells that steps set.
dims: {{{", ".join(f"{x}_cells: {x.upper()}" for x in symbols)}}}
{ATTRIBUTES if pads else ""}
inputs: [{", ".join(f"{{name: {name}, dims: {{{dims}}}}}" for name, dims in inputs.items())}]
outputs: [{{name: dst, dims: {{{axes}}}}}]
dtypes: [{{{", ".join(types)}, {row}}}]
semantics:
  ranges: {{{", ".join(f"{x}: '{e}'" for x, e in ranges.items())}}}
  steps: [{", ".join(f'"{step}"' for step in steps)}]
"""


@pytest.mark.sweep
@pytest.mark.parametrize("seed", range(40 if FULL else 2))
def test_outputs_that_steps_only_set_agree_with_the_interpreter(seed: int, tmp_path: Path) -> None:
    random = rng("set outputs", seed)
    texts = {f"set{number}.yaml": drawn(random, f"Set{number}") for number in range(SPECS)}
    library, module = package(texts, tmp_path, f"set_outputs_{seed}")
    seen = agree(module, library.ops, CALLS, seed)
    assert all(seen[f"{op.op} legal"] for op in library.ops)


def test_pieces_that_lie_one_behind_the_other_need_no_array_of_sums() -> None:
    random = rng("pieces")
    texts = [drawn(random, "Pieces") for _ in range(60)]
    whole = [text for text in texts if "max(" not in text and "pad" not in text]
    assert len(whole) > 5
    for text in whole:
        (op,) = load_texts({"pieces.yaml": text}).ops
        assert "dst_sum_" not in staged(op).arrays, text


def test_rows_around_a_piece_need_no_array_of_sums() -> None:
    random = rng("rows around")
    texts = [drawn(random, "Around") for _ in range(200)]
    around = [text for text in texts if "pad" in text and "dims: {Ya: 'A + P" in text and "+=" not in text]
    around = [text for text in around if "dst[q" not in text and "dst[P]" not in text and "a - P" not in text]
    assert len(around) > 8
    assert sum("dst[o" in text for text in around) > 2
    for text in around:
        (op,) = load_texts({"around.yaml": text}).ops
        assert "dst_sum_" not in staged(op).arrays, text


BORDER = """op: Border
revision: 1
summary: Cells that change from channels first to last, within a border.
dims: {batch: {symbol: N}, channels: {symbol: C}, rows: {symbol: H}, columns: {symbol: W}}
inputs: [{name: x, dims: {N: N, C: C, H: H, W: W}}]
outputs: [{name: y, dims: {N: N, Y: H + 3, Z: W + 2, C: C}}]
dtypes:
  - {x: f32, y: f32, accumulate: f32}
  - {x: bf16, y: bf16, accumulate: f32}
  - {x: u8, y: u8, accumulate: f32}
  - {x: f64, y: f64, accumulate: f64}
semantics:
  ranges: {n: N, c: C, h: H, w: W}
  steps: ["y[n, h + 1, w + 2, c] = x[n, c, h, w]"]
"""


def test_cells_inside_a_border_are_turned_by_squares_and_in_parts_of_them(tmp_path: Path) -> None:
    random = rng("border")
    library, module = package({"border.yaml": BORDER}, tmp_path, "border_package")
    for isa in serving(module, library.op("Border")):
        with instruction_set(module, isa):
            for dtype in (np.float32, ml_dtypes.bfloat16, np.uint8, np.float64):
                for _ in range(8):
                    n, c, h, w = (int(random.integers(1, most)) for most in (3, 50, 5, 50))
                    x = random.integers(1, 200, (n, c, h, w)).astype(dtype)
                    x = [x, x, x[..., ::-1], np.ascontiguousarray(x.T).T][int(random.integers(4))]
                    room = np.full((n, h + 5, w + 2, c), 7, dtype)
                    module.border(x, out=room[:, 1:-1], threads=int(random.integers(1, 4)))
                    wanted = np.pad(x.transpose(0, 2, 3, 1), ((0, 0), (1, 2), (2, 0), (0, 0)))
                    assert (room[:, 1:-1] == wanted).all(), (isa, dtype, x.shape, x.strides)
                    assert (room[:, [0, -1]] == 7).all()


DIAGONAL = """op: Diagonal
revision: 1
summary: A row along the diagonal of a matrix, another one along the other diagonal, and the sums of all rows.
dims: {b_cells: B, c_cells: C}
inputs: [{name: x, dims: {B: B, C: C}}]
outputs: [{name: one, dims: {B: B, P: C, Q: C}}, {name: other, dims: {B: B, P: C, Q: C}}, {name: sums, dims: {P: C, Q: C}}]
dtypes: [{x: bf16, one: bf16, other: bf16, sums: f32, accumulate: f32}]
semantics:
  ranges: {b: B, c: C}
  steps: ["one[b, c, c] = x[b, c]", "other[b, c, C - 1 - c] = x[b, c]", "sums[c, c] += x[b, c]"]
"""


def test_a_letter_may_walk_two_axes_of_an_output(tmp_path: Path) -> None:
    _, module = package({"diagonal.yaml": DIAGONAL}, tmp_path, "diagonal")
    for shape in ((2, 3), (1, 1), (0, 4), (3, 70)):
        x = (np.arange(np.prod(shape)).reshape(shape) % 9 - 4).astype(ml_dtypes.bfloat16)
        wanted = np.zeros((*shape, shape[1]), x.dtype)
        wanted[:, range(shape[1]), range(shape[1])] = x
        one, other, sums = module.diagonal(x, threads=2)
        assert np.array_equal(one, wanted)
        assert np.array_equal(other, wanted[..., ::-1])
        assert np.array_equal(sums, wanted.astype(np.float32).sum(0))


@pytest.mark.sweep
@pytest.mark.parametrize("seed", range(20 if FULL else 1))
def test_blocks_along_a_diagonal_agree_with_the_interpreter(seed: int, tmp_path: Path) -> None:
    """Cells beside blocks held what their memory did before, as letters that walk two axes walked one alone."""
    random = rng("blocks along a diagonal", seed)
    texts = {f"blocks{number}.yaml": blocks(random, f"Blocks{number}") for number in range(SPECS)}
    library, module = package(texts, tmp_path, f"diagonal_blocks_{seed}")
    agree(module, library.ops, CALLS, seed)


BEHIND = """op: Behind
revision: 1
summary: Pieces one behind the other, of which one is added to what a step before them adds.
dims: {k: {symbol: K}, l: {symbol: L}, m: {symbol: M}}
inputs: [{name: a, dims: {A: K}}, {name: b, dims: {A: L}}, {name: c, dims: {A: M}}, {name: d, dims: {A: K}}]
outputs: [{name: y, dims: {A: 'max(K + L + M, K + 1)'}}]
dtypes: [{a: f32, b: f32, c: f32, d: f32, y: f32, accumulate: f32}]
semantics:
  ranges: {k: K, l: L, m: M}
  steps: ["y[1 + k] += d[k]", "y[k] = a[k]", "y[K + l] = b[l]", "y[K + L + m] += c[m]"]
"""


def test_a_piece_between_others_may_have_no_cells(tmp_path: Path) -> None:
    """Steps were taken to write apart from each other because a third one was taken to write at least one cell."""
    library, module = package({"behind.yaml": BEHIND}, tmp_path, "behind_package")
    for sizes in itertools.product((0, 1, 5), (0, 1, 2), (0, 1, 3)):
        given = [np.arange(1, n + 1, dtype=np.float32) for n in (*sizes, sizes[0])]
        assert (module.behind(*given) == compute_steps(library.ops[0], given, {})["y"]).all(), sizes
