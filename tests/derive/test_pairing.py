"""Products whose operands repeat cells, or whose sums a condition chooses, become contractions if that is proven."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest
from opwright.derive.phases import staged
from opwright.derive.rewrites.pairing import near_last
from opwright.emit.steps.kernels import step_unit
from opwright.load import load_texts

FORMULAS = Path(__file__).parents[1] / "data" / "formulas"
SPEC = """op: Scores
revision: 1
summary: Heads of queries that share heads of keys.
dims: {{heads: {{symbol: H, min: 1}}, key_heads: {{symbol: G{positive}}}, queries: Q, keys: K, width: W}}
attributes:
  - {{name: each, symbol: R, type: s64, default: 1, min: 1, summary: The heads of queries for a head of keys.}}
inputs:
  - {{name: query, dims: {{H: H, Q: Q, W: W}}}}
  - {{name: key, dims: {{G: G, K: K, W: W}}}}
outputs:
  - {{name: dst, dims: {{H: H, Q: Q, K: K}}}}
dtypes:
  - {{query: f32, key: f32, dst: f32, accumulate: f32}}
constraints:
  - {{id: heads-share, expr: {constraint}, say: Heads must fit., argument: key}}
let: {{S: {let}}}
semantics:
  ranges: {{h: H, q: Q, k: K, w: W}}
  steps:
    - do: score[h, q, k] += query[h, q, w] * key[{index}, k, w]
      where: [{where}]
    - dst[h, q, k] = exp(score[h, q, k])
"""
EXACT = {"positive": ", min: 1", "constraint": "H % G == 0", "let": "H / G", "where": "q >= 0"}


def contractions(**fields: str) -> int:
    (op,) = load_texts({"scores.yaml": SPEC.format(**fields)}).ops
    return sum(phase.contraction is not None for phase in staged(op).phases)


@pytest.mark.parametrize("index", ["floor(h / S)", "floor(h * G / H)", "floor(G * h / H)"])
def test_an_operand_may_repeat_cells_that_are_known_to_be_inside(index: str) -> None:
    assert contractions(**EXACT, index=index) == 1


@pytest.mark.parametrize(
    ("index", "changed"),
    [
        ("floor(h / S)", {"let": "floor(H / G)"}),
        ("floor(h / R)", {}),
        ("floor(h * H / G)", {}),
        ("floor((h + 1) * G / H)", {}),
        ("floor(h * G / H)", {"positive": "", "constraint": "H >= G", "let": "H"}),
    ],
)
def test_cells_that_may_be_outside_are_left_to_loops(index: str, changed: dict[str, str]) -> None:
    """A term outside an array is left out; as 0 times infinity it would not be a number."""
    assert contractions(**{**EXACT, **changed}, index=index) == 0


GRAM = """op: Gram
revision: 1
summary: Products of rows.
dims: {rows: C, cells: T, columns: D}
inputs:
  - {name: x, dims: {C: C, T: T}}
outputs:
  - {name: dst, dims: {C: C, D: D}}
dtypes:
  - {x: f32, dst: f32, accumulate: f32}
shape: {D: C}
semantics:
  ranges: {c: C, d: D, t: T}
  steps: ["dst[c, d] += x[c, t] * x[d, t] / T"]
"""


def test_a_letter_of_the_output_s_size_walks_the_axis_whose_size_it_is() -> None:
    (op,) = load_texts({"gram.yaml": GRAM}).ops
    (product,) = filter(None, (phase.contraction for phase in staged(op).phases))
    assert {product.left.tensor, product.right.tensor} == {"x"}


@pytest.mark.parametrize(
    ("where", "found"),
    [
        ("k <= q", 1),
        ("k <= q, q <= k + 3", 0),
        ("w <= q", 1),
        ("q < w + 2", 1),
        ("w == q", 0),
        ("2 * w <= q", 0),
        ("w <= 3", 0),
        ("w <= q, q <= w + 3", 0),
        ("w <= k + q", 0),
    ],
)
def test_one_condition_on_the_sums_is_applied_after_them_and_one_comparison_of_terms_before(
    where: str, found: int
) -> None:
    assert contractions(**{**EXACT, "where": where}, index="floor(h / S)") == found


TRACE = """op: Trace
revision: 1
summary: The trace of a product of three.
dims: {{rows: N, inner: J, columns: K}}
inputs:
  - {{name: a, dims: {{N: N, J: J}}}}
  - {{name: b, dims: {{J: J, K: K}}}}
  - {{name: c, dims: {{N: N, K: K}}}}
outputs:
  - {{name: dst, dims: {dims}}}
dtypes:
  - {{a: f32, b: f32, c: f32, dst: f32, accumulate: f32}}
semantics:
  ranges: {{i: N, j: J, k: K{ranges}}}
  steps: ["{target} += a[i, j] * b[j, k] * c[i, k]"]
"""


@pytest.mark.parametrize(
    ("dims", "ranges", "target"), [("{}", "", "dst[]"), ("{A: 1}", ", o: 1", "dst[o]"), ("{N: N}", "", "dst[i]")]
)
def test_a_product_whose_sum_is_one_cell_is_of_pairs_too(dims: str, ranges: str, target: str) -> None:
    (op,) = load_texts({"trace.yaml": TRACE.format(dims=dims, ranges=ranges, target=target)}).ops
    assert sum(phase.contraction is not None for phase in staged(op).phases) == 1


PRODUCT = """
op: Scaled
revision: 1
summary: A product with a further factor.
dims: {{rows: M, columns: N, inner: K}}
inputs:
  - {{name: a, dims: {{M: M, K: K}}}}
  - {{name: b, dims: {{K: K, N: N}}}}
  - {{name: s, dims: {dims}}}
outputs:
  - {{name: dst, dims: {{M: M, N: N}}}}
dtypes:
  - {{a: f32, b: f32, s: f32, dst: f32, accumulate: f32}}
semantics:
  ranges: {{m: M, n: N, k: K}}
  steps:
    - dst[m, n] += {value}
"""


@pytest.mark.parametrize(
    ("dims", "value", "found"),
    [
        ("{N: N}", "a[m, k] * b[k, n] * s[n]", 1),
        ("{M: M}", "a[m, k] * (s[m] * b[k, n])", 1),
        ("{K: K}", "a[m, k] * s[k] * b[k, n]", 1),
        ("{K: K}", "a[m, k] * exp(s[k]) * b[k, n] * 0.5", 1),
        ("{K: K, N: N}", "s[k, n] * a[m, k] * b[k, n]", 1),
        ("{M: M, N: N}", "a[m, k] * b[k, n] * s[m, n]", 1),  # a factor of all cells multiplies their sums
        ("{M: M, K: K, N: N}", "a[m, k] * b[k, n] * s[m, k, n]", 0),
        ("{M: M}", "a[m, k] * b[k, n] / s[m]", 1),
        ("{N: N}", "2 * a[m, k] / (s[n] + 1) * b[k, n]", 1),
        ("{K: K}", "exp(a[m, k]) * b[k, n] / s[k] / K", 1),
        ("{M: M, N: N}", "a[m, k] * b[k, n] / s[m, n]", 0),
    ],
)
def test_a_factor_with_the_letters_of_another_is_multiplied_into_it(dims: str, value: str, found: int) -> None:
    (op,) = load_texts({"scaled.yaml": PRODUCT.format(dims=dims, value=value)}).ops
    assert sum(phase.contraction is not None for phase in staged(op).phases) == found


def test_sums_computed_with_the_factor_that_they_read_are_copied_by_no_engine() -> None:
    """The factor of `dst` has all letters: it needs no array, and its sums are a step of a phase, and no contraction."""
    text = (FORMULAS / "hat_interpolate.yaml").read_text(encoding="utf-8")
    (op,) = load_texts({"hat_interpolate.yaml": text}).ops
    assert [(len(phase.parts), phase.contraction, phase.copies) for phase in staged(op).phases] == [(2, None, None)]
    assert len(step_unit(op).kernels) == len(op.dtypes)


@pytest.mark.parametrize(("name", "found"), [("transposed_blur", 1), ("three_factor", 2)])
def test_spread_windows_and_scaled_chains_are_contractions(name: str, found: int) -> None:
    """A cell of a spread window sums over its taps, though each letter occurs in an index of the output."""
    (op,) = load_texts({f"{name}.yaml": (FORMULAS / f"{name}.yaml").read_text(encoding="utf-8")}).ops
    assert sum(phase.contraction is not None for phase in staged(op).phases) == found


JOINED = """
op: Joined
revision: 1
summary: Sums of products of three.
dims: {{one: A, two: B, three: C, four: D}}
inputs:
  - {{name: x, dims: {x}}}
  - {{name: y, dims: {y}}}
  - {{name: z, dims: {z}}}
outputs:
  - {{name: dst, dims: {dst}}}
dtypes:
  - {{x: f32, y: f32, z: f32, dst: f32, accumulate: f32}}
semantics:
  ranges: {{a: A, b: B, c: C, d: D}}
  steps:
    - dst[{out}] += x[{left}] * y[{middle}] * z[{right}]
"""


@pytest.mark.parametrize(
    ("product", "found"),
    [
        ("ab,bc,ca->a", 1),  # of all cells of a quadratic form, one pair is a contraction
        ("ad,bd,cd->abc", 1),  # the products of a pair are its operand
        ("ad,bd,cd->abcd", 0),
        ("ab,bc,ca->ab", 1),  # a factor of all cells multiplies their sums
        ("ab,ab,ab->a", 0),
    ],
)
def test_loops_compute_the_pairs_of_a_product_that_are_no_contractions(product: str, found: int) -> None:
    factors, out = product.split("->")
    names = dict(zip("xyz", factors.split(","), strict=True)) | {"dst": out}
    dims = {name: f"{{{', '.join(f'{c.upper()}: {c.upper()}' for c in letters)}}}" for name, letters in names.items()}
    indices = dict(zip(("left", "middle", "right", "out"), (", ".join(letters) for letters in names.values())))
    text = JOINED.format(**dims, **indices)
    if "d" not in product:
        text = text.replace(", four: D", "").replace(", d: D", "")
    if "c" not in product:
        text = text.replace(", three: C", "").replace(", c: C", "")
    (op,) = load_texts({"joined.yaml": text}).ops
    assert sum(phase.contraction is not None for phase in staged(op).phases) == found


MIXED = """op: Mixed
revision: 1
summary: Linear layers, of which each sample has its own mixture.
dims: {{samples: {{symbol: B}}, layers: {{symbol: E}}, terms: {{symbol: I}}, columns: {{symbol: O}}}}
inputs: [{{name: x, dims: {{B: B, I: I}}}}, {{name: gate, dims: {{B: B, E: E}}}}, {{name: w, dims: {{{w}}}}}]
outputs: [{{name: y, dims: {{B: B, O: O}}}}]
dtypes: [{{x: bf16, gate: bf16, w: bf16, y: f32, accumulate: f32}}]
semantics:
  ranges: {{b: B, e: E, i: I, o: O}}
  steps: ["y[b, o] += {value}"]
"""


@pytest.mark.parametrize("factors", [*itertools.permutations(["x[b, i]", "gate[b, e]", "w[{}]"])])
@pytest.mark.parametrize("axes", ["eoi", "eio", "oei"])
def test_the_first_pair_sums_along_the_axis_that_is_nearer_to_the_last_one(factors: tuple[str, ...], axes: str) -> None:
    w = ", ".join(f"{letter.upper()}: {letter.upper()}" for letter in axes)
    value = " * ".join(factors).format(", ".join(axes))
    (op,) = load_texts({"mixed.yaml": MIXED.format(w=w, value=value)}).ops
    first = next(phase.contraction for phase in staged(op).phases if phase.contraction is not None)
    assert first.reduced == ("i",)


@pytest.mark.parametrize(
    ("letters", "reads", "found"),
    [
        ("ikv", ("vj", "jik"), "vik"),
        ("abcd", ("abr", "rcd"), "abcd"),
        ("acbd", ("abr", "cdr"), "abcd"),
        ("bei", ("be", "bi"), "bei"),
        ("ijb", ("ikb", "jkb"), "ijb"),
    ],
)
def test_letters_of_one_factor_stay_together_in_a_pair_those_of_last_axes_at_the_end(
    letters: str, reads: tuple[str, ...], found: str
) -> None:
    """They are then one axis of rows or of columns."""
    assert "".join(near_last(letters, *reads)) == found
