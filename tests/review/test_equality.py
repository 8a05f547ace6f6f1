"""What is called written otherwise is proven; what differs anywhere, however far out, is not."""

from __future__ import annotations

import dataclasses
import functools

import pytest
from opwright.language import expr
from opwright.language.model import Op
from opwright.language.schema import Assignment, Located
from opwright.language.source import Mark
from opwright.load import load_texts
from opwright.review import compare
from opwright.review.equality import Equality
from opwright.review.rules import RULES
from support import reviewing

SIZES_AGREE = "O == floor((I + PB + PE - EK) / S) + 1"
LEFT = "not any(OP != 0) or (R + PB + PE - EK) % S == 0"
PRODUCT = "src[n, g * (IC / G) + c, i] * weights[g, c, o, k]"
TOTAL = "max(S * (ceil(I / S) - 1) + EK - I, 0)"

# Operation, a formula, and others of which each says the same in every call.
SAME = [
    ("ConvTranspose", "(K - 1) * D + 1", ["K * D - D + 1", "1 + D * (K - 1)", "max((K - 1) * D + 1, 1)", "EK"]),
    ("ConvTranspose", "max(EK - S, 0)", ["max(0, EK - S)", "max(EK, S) - S", "EK - min(EK, S)", "max((K - 1) * D + 1 - S, 0)"]),
    ("ConvTranspose", "floor(T / 2)", ["T - ceil(T / 2)", "floor((2 * T + 1) / 4)", "ceil((T - 1) / 2)", "(T - T % 2) / 2"]),
    ("ConvTranspose", "S * (I - 1) + EK - PB - PE + OP", ["EK + S * I - S - PE - PB + OP"]),
    ("Convolution", "floor((I + PB + PE - EK) / S) + 1", ["floor((I + PB + PE - EK + S) / S)", "ceil((I + PB + PE - EK + 1) / S)"]),
    ("Convolution", TOTAL, ["max(S * ceil(I / S) - S + EK - I, 0)", "max(S * floor((I - 1) / S) + EK - I, 0)"]),
    ("Convolution", "OC / G", ["floor(OC / G)", "ceil(OC / G)"]),
]  # fmt: skip
# The same, for formulas that differ in some call.
OTHER = [
    ("ConvTranspose", "(K - 1) * D + 1", ["min((K - 1) * D + 1, 1000)", "(K - 1) * D + 1 + floor(K / 100000)", "K * D - S + 1"]),
    ("ConvTranspose", "max(EK - S, 0)", ["min(max(EK - S, 0), 12)", "max(EK - S, 1)", "EK - S", "max(EK - S, 0) % 64"]),
    ("ConvTranspose", "floor(T / 2)", ["ceil(T / 2)", "floor((T + min(floor(T / 9), 1)) / 2)", "T / 2", "floor((T + 1) / 2)"]),
    ("ConvTranspose", "S * (I - 1) + EK - PB - PE + OP", ["S * (I - 1) + EK - PB - PE + OP + floor(I / 32)"]),
    ("ConvTranspose", "IC", ["OC", "max(IC, 1)", "min(IC, OC) + max(IC - OC, 0) - max(0, IC - 4096)"]),
    ("Convolution", "floor((I + PB + PE - EK) / S) + 1", ["ceil((I + PB + PE - EK) / S) + 1", "(I + PB + PE - EK) / S + 1"]),
    ("Convolution", "OC / G", ["floor((OC + G - 1) / (G + 1))", "min(OC / G, 256)", "ceil(OC / (G + 1))"]),
]  # fmt: skip
# Operation, the rule, its condition, another one, and how it became.
ORDERED = [
    ("ConvTranspose", "output-padding-range", "OP < max(S, D)", "OP <= max(S, D) - 1", "rewritten"),
    ("ConvTranspose", "output-padding-range", "OP < max(S, D)", "OP < S or OP < D", "rewritten"),
    ("ConvTranspose", "output-padding-range", "OP < max(S, D)", "not (OP >= D and S <= OP)", "rewritten"),
    ("ConvTranspose", "output-padding-range", "OP < max(S, D)", "OP < max(S, D) + 1", "loosened"),
    ("ConvTranspose", "output-padding-range", "OP < max(S, D)", "OP < S + D", "loosened"),
    ("ConvTranspose", "output-padding-range", "OP < max(S, D)", "OP < max(S, D) and OP < 7", "tightened"),
    ("ConvTranspose", "output-padding-range", "OP < max(S, D)", "OP < min(max(S, D), 64)", "tightened"),
    ("ConvTranspose", "output-padding-range", "OP < max(S, D)", "OP < min(S + D, 4096)", "changed"),
    ("Convolution", "groups-divide-in-channels", "IC % G == 0", "IC == G * floor(IC / G)", "rewritten"),
    ("Convolution", "groups-divide-in-channels", "IC % G == 0", "IC % G == 0 and G <= 64", "tightened"),
    ("Convolution", "groups-divide-in-channels", "IC % G == 0", "IC % G == 0 or IC > 5000", "loosened"),
    ("ConvolutionBackwardData", "sizes-agree", SIZES_AGREE, "floor((I + PB + PE - (K - 1) * D - 1) / S) == O - 1", "rewritten"),
    ("ConvolutionBackwardData", "sizes-agree", SIZES_AGREE, SIZES_AGREE + " and I <= 4096", "tightened"),
    ("ConvolutionBackwardData", "sizes-agree", SIZES_AGREE, SIZES_AGREE.replace("EK", "EK - 1"), "changed"),
    ("ConvolutionBackwardData", "sizes-agree", SIZES_AGREE, SIZES_AGREE.replace(" + PE", ""), "changed"),
    ("ConvolutionBackwardData", "sizes-agree", SIZES_AGREE, SIZES_AGREE.replace("==", "<="), "loosened"),
    ("ConvTransposeBackwardWeights", "output-padding-is-what-is-left", LEFT, LEFT.replace("not any(OP != 0)", "all(OP == 0)"), "rewritten"),
    ("ConvTransposeBackwardWeights", "output-padding-is-what-is-left", LEFT, LEFT.replace("OP != 0", "OP > 0"), "rewritten"),
    ("ConvTransposeBackwardWeights", "output-padding-is-what-is-left", LEFT, LEFT.replace("OP != 0", "OP > 1"), "loosened"),
    ("ConvTransposeBackwardWeights", "output-padding-is-what-is-left", LEFT, LEFT.removeprefix("not any(OP != 0) or "), "tightened"),
]  # fmt: skip
SUMS = [
    (f"{PRODUCT}", True),
    ("weights[g, c, o, k] * src[n, c + IC / G * g, i]", True),
    ("src[n, g * (IC / G) + c, max(i, 0)] * weights[g, c, o, min(k, K - 1)]", True),
    (f"2 * {PRODUCT} / 2", True),
    (f"max({PRODUCT}, 0)", False),
    ("max(src[n, g * (IC / G) + c, i], 0) * weights[g, c, o, k]", False),
    (f"{PRODUCT} + 0", False),
    (f"{PRODUCT} + src[n, g * (IC / G) + c, i] - src[n, g * (IC / G) + c, i]", False),
    ("src[n, g * (IC / G) + c, i + floor(K / 100)] * weights[g, c, o, k]", False),
    (f"{PRODUCT} * (IC / IC)", False),
]


@functools.cache
def ops() -> dict[str, Op]:
    return {op.op: op for op in load_texts(reviewing.specs()).ops}


def located(text: str) -> Located:
    return Located(expr.parse(text), text, Mark())


@pytest.mark.parametrize(("name", "formula", "others"), SAME, ids=[row[1] for row in SAME])
def test_formulas_that_are_the_same_are_proven_to_be(name: str, formula: str, others: list[str]):
    sides = Equality(ops()[name], ops()[name])
    assert [other for other in others if not sides.same_formula(located(formula), located(other))] == []
    assert [other for other in others if not sides.same_formula(located(other), located(formula))] == []


@pytest.mark.parametrize(("name", "formula", "others"), OTHER, ids=[row[1] for row in OTHER])
def test_formulas_that_differ_in_some_call_are_not_called_the_same(name: str, formula: str, others: list[str]):
    sides = Equality(ops()[name], ops()[name])
    assert [other for other in others if sides.same_formula(located(formula), located(other))] == []


@pytest.mark.parametrize(
    ("name", "rule", "was", "now", "word"), ORDERED, ids=[f"{row[2]} to {row[3]}" for row in ORDERED]
)
def test_conditions_are_ordered_by_proof(name: str, rule: str, was: str, now: str, word: str):
    op = ops()[name]
    others = dataclasses.replace(op, constraints=tuple(c for c in op.constraints if c.id != rule))
    mirror = {"tightened": "loosened", "loosened": "tightened"}
    assert Equality(others, others).order(expr.parse(was), expr.parse(now)) == word
    assert Equality(others, others).order(expr.parse(now), expr.parse(was)) == mirror.get(word, word)


@pytest.mark.parametrize(("value", "same"), SUMS, ids=[row[0] for row in SUMS])
def test_sums_are_the_same_only_up_to_rounding(value: str, same: bool):
    op = ops()["ConvTranspose"]
    was = op.semantics.assignment
    now = Assignment(was.target, was.op, expr.parse(value), "", Mark())
    assert Equality(op, op).same_formula(was, now) is same


EK_INLINED = [('"max(EK - S, 0)"', '"max((K - 1) * D + 1 - S, 0)"'), ("(I - 1) + EK -", "(I - 1) + (K - 1) * D + 1 -")]
EK_SHIFTED = [
    ("{use: effective_kernel}", "(K - 1) * D + 2"),
    ('"max(EK - S, 0)"', '"max(EK - 1 - S, 0)"'),
    ("+ EK -", "- 1 + EK -"),
]
LETTERS = [
    ("{n: N, g: G, i: I,", "{i: N, g: G, n: I,"),
    ("dst[n, g * (OC / G) + o, i * S", "dst[i, g * (OC / G) + o, n * S"),
    ("src[n, g * (IC / G) + c, i]", "src[i, g * (IC / G) + c, n]"),
    ("dst[n, m, x] + bias[m]", "dst[x, n, m] + bias[n]"),
]


@pytest.mark.parametrize(
    "edits",
    [
        EK_INLINED,
        EK_SHIFTED,
        LETTERS,
        [("effective_kernel}\n", "effective_kernel}\n  Q: S * (I - 1)\n"), ("  O: S * (I - 1)", "  O: Q")],
        [("  PB: {use: pad_begin}\n", "  PB: {use: pad_begin}\n  P: PB + PE\n"), ("- PB - PE +", "- P +")],
    ],
    ids=["EK inlined", "EK shifted and shifted back", "letters exchanged", "a part named", "a sum named"],
)
def test_edits_that_hold_together_are_no_change_to_callers(edits: list[tuple[str, str]]):
    assert contracts(*edits) == {"none"}


@pytest.mark.parametrize(
    "edits",
    [
        EK_SHIFTED[:2],
        EK_SHIFTED[:1],
        [*EK_INLINED[:1], ("(I - 1) + EK -", "(I - 1) + (K - 1) * D -")],
        [("  PB: {use: pad_begin}\n", "  PB: {use: pad_begin}\n  P: IC / 3\n")],
        [
            ("  PB: {use: pad_begin}\n", "  PB: {use: pad_begin}\n  P: PB + PE + floor(PE / 77)\n"),
            ("- PB - PE +", "- P +"),
        ],
    ],
    ids=[
        "one shift left out",
        "not shifted back",
        "one less",
        "a quotient that nobody uses",
        "far out",
    ],
)
def test_edits_that_nearly_hold_together_are_breaking(edits: list[tuple[str, str]]):
    assert "breaking" in contracts(*edits)


def contracts(*edits: tuple[str, str]) -> set[str]:
    """What edits of ConvTranspose mean to callers."""
    before = reviewing.specs()
    after = reviewing.edited(before, "conv_transpose.yaml", *edits)
    return {RULES[edit.rule].contract for edit in compare.edits(load_texts(before), load_texts(after))}
