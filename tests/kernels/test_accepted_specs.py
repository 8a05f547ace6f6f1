"""Specs that users wrote otherwise than the shipped ones: each is accepted, builds, loads, and means what it says.

Every case once gave wrong values, did not compile, or was refused for no reason.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from opwright.generate import lower
from opwright.language.library import Library
from opwright.language.source import SpecInvalid
from opwright.load import load_texts
from opwright.oracle import prove
from support.draws import rng
from support.package import package
from support.spec_packages import first_disagreement, instruction_set, serving, usable

A = np.arange(5, dtype=np.float32)
HEAD = "op: {name}\nrevision: 1\nsummary: An operation of a test.\n"
F32 = "dtypes: [{a: f32, b: f32, accumulate: f32}]\n"
PAIR = (
    "dims: {rows: {symbol: M, min: 0}}\ninputs: [{name: a, dims: {X: M}}]\noutputs: [{name: b, dims: {X: M}}]\n" + F32
)
REFERENCE = {
    "NegatedTwice": PAIR + "semantics: {ranges: {m: M}, reduce: 'b[m] += -(-a[m])', finish: '-(-b[m])'}\n",
    "ANamedExtentOfCellsBetween": PAIR.replace("outputs: [{name: b, dims: {X: M}}", "outputs: [{name: b, dims: {X: Z}}")
        + "let: {Z: 2 * M}\nsemantics: {ranges: {m: M, k: 3}, reduce: 'b[2 * m + k] += a[m]', finish: 'b[z] + 1'}\n",
    "OneSizeOnTwoAxes": (
        "dims: {rows: {symbol: U, min: 0}, columns: {symbol: V, min: 1}}\n"
        "inputs: [{name: a, dims: {A: U, B: U, C: 2 * V, D: V * U}}]\noutputs: [{name: b, dims: {A: U}}]\n" + F32
        + "semantics: {ranges: {m: U, v: V}, reduce: 'b[m] += a[m, m, v, v]'}\n"
    ),
    "ReadsOutsideAlways": PAIR.replace("{X: M}}]\nout", "{X: M}}, {name: c, dims: {Y: N}}]\nout").replace(
        "min: 0}}", "min: 0}, other: {symbol: N, min: 0}}").replace("b: f32", "b: f32, c: f32")
        + "semantics: {ranges: {m: M}, init: 3, reduce: 'b[m] += a[m] * c[m - m + 2]'}\n",
    "DivisibleAndSmall": (
        "dims: {channels: {symbol: C, min: 0}}\nattributes: [{name: groups, symbol: G, type: s64, min: 1, default: '2'}]\n"
        "constraints: [{id: groups-divide, expr: G <= 64 and 0 == C % G, say: groups divide, argument: groups}]\n"
        "inputs: [{name: a, dims: {X: C}}]\noutputs: [{name: b, dims: {X: C}}]\n" + F32
        + "semantics: {ranges: {g: G, c: C / G}, reduce: 'b[g * (C / G) + c] += a[g * (C / G) + c]'}\n"
    ),
    "Unfold": (
        "dims: {rows: {symbol: H, min: 1}, columns: {symbol: W, min: 1}, channels: {symbol: C, min: 0},"
        " cells: {symbol: Z, min: 0}, up: {symbol: OH, min: 0}, along: {symbol: OW, min: 0}, places: {symbol: L, min: 0}}\n"
        "attributes: [{name: high, symbol: KH, type: s64, min: 1, required: true},"
        " {name: wide, symbol: KW, type: s64, min: 1, required: true}]\n"
        "inputs: [{name: a, dims: {C: C, H: H, W: W}}]\noutputs: [{name: b, dims: {Z: Z, L: L, U: OH, V: OW}}]\n" + F32
        + "let: {CK: C * KH}\nshape: {Z: CK * KW, OH: 'max(H - KH + 1, 0)', OW: 'max(W - KW + 1, 0)', L: OH * OW}\n"
        "semantics: {ranges: {c: C, p: KH, q: KW, y: OH, x: OW, u: OH, v: OW},"
        " reduce: 'b[c * (KH * KW) + p * KW + q, y * OW + x, u, v] += a[c, y + p, x + q]'}\n"
    ),
    "NamedAsKernelsNameTheirOwn": (
        "dims: {rows: {symbol: total, min: 0}, columns: {symbol: task, min: 0}}\n"
        "attributes: [{name: terms, type: s64, min: 1, default: '2'}]\n"
        "inputs: [{name: sum, dims: {X: total, Y: task}}]\noutputs: [{name: sums, dims: {X: total}}]\n"
        + F32.replace("a:", "sum:").replace("b:", "sums:")
        + "semantics: {ranges: {lane: total, y: task}, reduce: 'sums[lane] += sum[lane, y * terms]', finish: 'sums[lane] / count'}\n"
    ),
    "NamedGroups": (
        "dims: {channels: {symbol: C, min: 0}}\nattributes: [{name: groups, symbol: G, type: s64, min: 1, default: '2'}]\n"
        "let: {E: C / G}\ninputs: [{name: a, dims: {X: C}}]\noutputs: [{name: b, dims: {X: C}}]\n" + F32
        + "semantics: {ranges: {g: G, c: E}, reduce: 'b[g * E + c] += a[g * E + c]'}\n"
    ),
    "BackwardInTwoArrangements": (
        "dims: {rows: {symbol: M, min: 0}, columns: {symbol: N, min: 0}}\n"
        "inputs: [{name: c, dims: {R: M, S: N}}, {name: a, view: [r, s], arrangements: {"
        "plain: {dims: {R: M, S: N}, index: {R: M - 1 - r, S: s}}, turned: {dims: {R: N, S: M}, index: {R: s, S: M - 1 - r}}}}]\n"
        "outputs: [{name: b, dims: {R: M, S: N}}]\n" + F32.replace("a:", "c: f32, a:")
        + "semantics: {ranges: {m: M, n: N}, reduce: 'b[m, n] += a[m, n] * c[m, n]'}\n"
    ),
    "ScatterOfWhatIsReadByBoth": (
        "dims: {rows: {symbol: M, min: 0}, steps: {symbol: V, min: 1}, cells: {symbol: P, min: 0}, span: {symbol: Q, min: 0}}\n"
        "attributes: [{name: far, symbol: T, type: s64, min: 1, default: '2'}, {name: near, symbol: Y, type: s64, min: 1, default: '1'}]\n"
        "inputs: [{name: a, dims: {V: V, P: P, M: M}}]\noutputs: [{name: b, dims: {Q: Q}}]\n" + F32
        + "shape: {Q: (V - 1) * T + M}\n"
        "semantics: {ranges: {m: V, i: M, k: M}, reduce: 'b[m * T + i] += a[m, m + Y * i - 2, k]'}\n"
    ),
    "StepsOnTwoAxes": (
        "dims: {rows: {symbol: M, min: 0}, columns: {symbol: N, min: 0}, reads: {symbol: R, min: 0}}\n"
        "inputs: [{name: c, dims: {N: N, M: M}}, {name: a, dims: {R: R, M: M}}]\noutputs: [{name: b, dims: {M: M}}]\n"
        + F32.replace("a:", "c: f32, a:")
        + "semantics: {ranges: {m: M, n: N}, reduce: 'b[m] += a[n - m, M - 1 - m] * c[n, m]'}\n"
    ),
    "RealWithinLimits": PAIR.replace("inputs:", "attributes: [{name: f, type: f32, default: '0', min: -1, max: 2}]\ninputs:")
        + "semantics: {ranges: {m: M}, reduce: 'b[m] += a[m] * f'}\n",
    "QuotientBesideAnotherSize": (
        "dims: {channels: {symbol: A, min: 0}, cells: {symbol: C, min: 0}}\n"
        "attributes: [{name: divisor, symbol: B, type: s64, min: 1, default: '2'}]\n"
        "constraints: [{id: divides, expr: A % B == 0, say: groups divide, argument: divisor}]\n"
        "inputs: [{name: a, dims: {P: A, Q: A / B, R: C}}]\noutputs: [{name: b, dims: {P: A}}]\n" + F32
        + "semantics: {ranges: {m: A, q: A / B, r: C}, reduce: 'b[m] += a[m, q, r]'}\n"
    ),
    "NamesOfRules": (
        "dims: {rows: {symbol: M, min: 0}}\nattributes: [{name: rule, type: s64, default: '1'},"
        " {name: say, type: s64, default: '1'}, {name: op, type: s64, default: '1'}, {name: argument, type: s64, default: '1'}]\n"
        "constraints: [{id: small, expr: rule < say + argument, say: it is small, argument: rule}]\n"
        "inputs: [{name: a, dims: {X: M}}]\noutputs: [{name: b, dims: {X: M}}]\n" + F32
        + "semantics: {ranges: {m: M}, reduce: 'b[m] += a[m] * rule'}\n"
    ),
}  # fmt: skip

WINDOW = """\
spatial_rank: {ranks}
dims: {{batch: {{symbol: N, min: 0}}, ins: {{symbol: IC, min: 0}}, outs: {{symbol: OC, min: 0}},
  src_space: {{symbol: I, per_axis: true}}, dst_space: {{symbol: O, per_axis: true}}, taps: {{symbol: K, per_axis: true}}}}
attributes:
  - {{name: steps, symbol: S, type: "s64[]", default: "1", length: spatial, min: 1, neutral: 1}}
  - {{name: reach, symbol: D, type: "s64[]", default: "1", length: spatial, min: 1, neutral: 1}}
  - {{name: front, symbol: PB, type: "s64[]", default: "0", length: spatial, min: 0, neutral: 0}}
{attributes}dtypes:
  - {{a: f32, w: f32, b: f32, accumulate: f32}}
let: {{G: "1"}}
"""
ORDERS = """\
  - {name: order, type: string, default: NCX, values: [NCX, NXC]}
layouts: {order: {NCX: [N, C, X], NXC: [N, X, C]}}
"""
SIZE = "floor((I + PB - (K - 1) * D - 1) / S) + 1"
BIG, SMALL, TAPS = "{N: N, C: IC, X: I}", "{N: N, C: OC, X: O}", "{O: OC, I: IC, X: K}"


def _window(ranks: str, layout: str, body: str) -> str:
    text = WINDOW.format(ranks=ranks, attributes=ORDERS if layout else "") + body
    return text.replace("LAYOUT", "layout: order, " if layout else "")


FORWARD = (
    (
        f"inputs: [{{name: a, LAYOUTdims: {BIG}}}, {{name: w, dims: {TAPS}}}]\noutputs: [{{name: b, LAYOUTdims: {SMALL}}}]\n"
        f"shape: {{O: {SIZE}}}\nsemantics: {{ranges: {{n: N, o: OC, i: O, c: IC, k: K}}, "
        "reduce: 'b[n, o, i] += a[n, c, i * S + k * D - PB] * w[o, c, k]'}\n"
        "normal_form: {solve: y, big: a, small: b, weights: 'w[small, big, k]'}\n"
    )
    .replace("w[small, big, k]", "w[g, small, big, k]")
    .replace(
        f"dims: {TAPS}",
        f"view: [g, o, c, k], arrangements: {{only: {{dims: {TAPS}, index: {{O: g * OC + o, I: c, X: TAP}}}}}}",
    )
    .replace("w[o, c, k]", "w[0, o, c, k]")
)
BACKWARD = FORWARD.replace(f"name: a, LAYOUTdims: {BIG}", f"name: a, LAYOUTdims: {SMALL}").replace(
    f"name: b, LAYOUTdims: {SMALL}", f"name: b, LAYOUTdims: {BIG}").replace(
    f"shape: {{O: {SIZE}}}", "shape: {I: (O - 1) * S + (K - 1) * D + 1 - PB}").replace(
    "b[n, o, i] += a[n, c, i * S + k * D - PB]", "b[n, c, i * S + k * D - PB] += a[n, o, i]").replace(
    "solve: y, big: a, small: b", "solve: x, big: b, small: a")  # fmt: skip
WEIGHTS = (
    f"inputs: [{{name: a, LAYOUTdims: {BIG}}}, {{name: w, LAYOUTdims: {SMALL}}}]\n"
    "outputs: [{name: b, view: [g, o, c, k], arrangements: {only: "
    f"{{dims: {TAPS}, index: {{O: g * OC + o, I: c, X: TAP}}}}}}}}]\n"
    f"constraints: [{{id: fits, expr: O == {SIZE}, say: sizes fit, argument: a}}]\n"
    "semantics: {ranges: {n: N, o: OC, i: O, c: IC, k: K}, reduce: 'b[0, o, c, k] += a[n, c, i * S + k * D - PB] * w[n, o, i]'}\n"
    "normal_form: {solve: w, big: a, small: w, weights: 'b[g, small, big, k]'}\n"
).replace("{name: w, LAYOUT", "{name: w, LAYOUT")
STATED = '  - {name: shape_of_b, type: "s64[]", required: true, length: any, shape_of: b}\n'


def _stated(text: str) -> str:
    return (
        text.replace("dtypes:", "DTYPES", 1)
        .replace("attributes:\n", "attributes:\n" + STATED)
        .replace("DTYPES", "dtypes:")
    )


FAST = {
    "LineForward": _window("{min: 1, max: 1}", "order", FORWARD.replace("TAP", "k")),
    "LineBackward": _window("{min: 1, max: 1}", "order", BACKWARD.replace("TAP", "K - 1 - k")),
    "LineWeights": _stated(_window("{min: 1, max: 1}", "", WEIGHTS.replace("TAP", "K - 1 - k"))),
    "PlaneForward": _window("{min: 2, max: 2}", "", FORWARD.replace("TAP", "K - 1 - k")),
    "PlaneBackward": _window("{min: 1, max: 2}", "", BACKWARD.replace("TAP", "k")),
    "PlaneWeights": _stated(_window("{min: 2, max: 2}", "order", WEIGHTS.replace("TAP", "k"))),
    "VolumeForward": _window("{min: 1, max: 3}", "order", FORWARD.replace("TAP", "K - 1 - k")),
}
BUILT = Iterator[tuple[Library, ModuleType]]


def _texts(bodies: dict[str, str]) -> dict[str, str]:
    return {f"{name}.yaml": HEAD.format(name=name) + body for name, body in bodies.items()}


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> BUILT:
    folder = Path(tmp_path_factory.mktemp("accepted"))
    yield package(_texts(REFERENCE), folder, "accepted_reference")


@pytest.fixture(scope="module")
def fast(tmp_path_factory: pytest.TempPathFactory) -> BUILT:
    folder = Path(tmp_path_factory.mktemp("fast"))
    yield package(_texts(FAST), folder, "accepted_fast")


@pytest.mark.parametrize("name", REFERENCE)
def test_a_spec_of_a_new_user_agrees_with_the_interpreter(name: str, reference: tuple[Library, ModuleType]) -> None:
    library, module = reference
    assert first_disagreement(module, library.op(name), rng(name), 25) is None


def test_an_attribute_may_be_called_as_a_parameter_of_the_package_is(reference: tuple[Library, ModuleType]) -> None:
    _, module = reference
    assert module.infer_shape("NamesOfRules", A, op=2, rule=1) == A.shape
    assert module.explain("NamesOfRules", A, op=2, say=3).shape == A.shape


def test_an_axis_that_letters_do_not_walk_to_its_end_is_refused_with_what_to_write() -> None:
    body = REFERENCE["DivisibleAndSmall"].replace("min: 1, default", "default").replace("C % G == 0", "G > 0")
    text = _texts(
        {
            "Spread": body.replace("{g: G, c: C / G}", "{g: C}").replace(
                "b[g * (C / G) + c] += a[g * (C / G) + c]", "b[g * G] += a[g]"
            )
        }
    )
    with pytest.raises(SpecInvalid, match="if letters together walk a whole axis, its extent is their product"):
        lower(load_texts(text))


@pytest.mark.parametrize("name", FAST)
def test_a_normal_form_of_a_new_user_agrees_with_the_interpreter(name: str, fast: tuple[Library, ModuleType]) -> None:
    library, module = fast
    op = library.op(name)
    kernels = {variant.isa for variant in module.variants(name)}
    assert {*usable(module)} <= kernels | {"avx512_vnni", "avx512_bf16", "amx_int8", "amx_bf16"}
    for isa in serving(module, op):
        with instruction_set(module, isa):
            assert first_disagreement(module, op, rng(name, isa), 40) is None, isa


def test_a_last_extent_of_one_is_what_the_window_sees(fast: tuple[Library, ModuleType]) -> None:
    """All steps along an axis of one cell are alike, but those of the axes that it then stands for are not."""
    _, module = fast
    src, weights = np.ones((1, 3, 1), np.float32), np.ones((1, 3, 3), np.float32)
    for isa in usable(module):
        with instruction_set(module, isa):
            found = module.line_forward(src, weights, front=[2], order="NCX")
            assert found.tolist() == [[[3.0]]], isa


def test_a_normal_form_whose_weights_leave_cells_unwritten_is_found_out() -> None:
    text = _texts({"Gap": FAST["LineWeights"].replace("{O: OC, I: IC, X: K}", "{O: 2 * OC, I: IC, X: K}")})
    difference = prove.agrees(load_texts(text).op("Gap"))
    assert difference is not None
    assert "nan" in difference
