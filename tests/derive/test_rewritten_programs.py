"""What programs compute once they are rewritten is what the interpreter computes: marks and idioms, term by term."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from opwright.derive.phases import staged
from opwright.language import expr
from opwright.language.model import Op
from opwright.language.source import SpecInvalid
from opwright.load import load_texts
from opwright.oracle import run_steps
from opwright.oracle.run_steps import compute_steps
from support.draws import FULL, rng
from support.random_idioms import idioms
from support.random_marks import Marks, cells
from support.random_other_cells import steps_of_other_cells
from support.run_program import run_program
from support.step_calls import StepCaller

COUNT, CALLS = (2000, 9) if FULL else (60, 6)
SPEC = """op: Mark
revision: 1
summary: Marks.
dims: {n_cells: N, k_cells: K, c_cells: C, m_cells: M}
inputs: [{name: at, dims: {N: N}}, {name: to, dims: {N: N}}, {name: s, dims: {N: N, K: K}}, {name: x, dims: {K: K, C: C}},
  {name: x2, dims: {M: M, C: C}}]
outputs: [{name: y, dims: {N: N, M: M}}]
dtypes: [{at: s64, to: s64, s: f64, x: f64, x2: f64, y: f64, accumulate: f64}]
semantics:
  ranges: {n: N, j: N, k: K, l: K, c: C, m: M}
  steps:
    - "first[] max= at[n] + to[j] + s[n, k] + s[n, l] + x[k, c] + x2[m, c]"
    - "STEP"
"""
SINGLE = {
    "what else the condition asks": "y[n, m] += select(at[n] == k and to[n] != 1, 2, 0) * x[k, c] * x2[m, c]",
    "what the summed letter asks": "y[j, m] += select(at[n] == k and to[n] != 1, 1, 0) * x[k, c] * x2[m, c] * s[j, l]",
    "a condition before that reads the cell": "y[j, m] += select(s[j, k] > 0, select(at[n] == k, x2[m, c], 0), 0)",
    "one beside a product": "y[n, m] += select(at[n] == k and s[j, k] > 0, x[k, c] * x2[m, c], 0)",
    "one of another maximum": "y[j, m] max= select(s[j, k] > 0, select(at[n] == k, x2[m, c], -inf), -inf)",
    "an index beside its axis": "y[j, m] += x2[m, c] * select(at[n - 1] == j, 2, 0)",
    "a cell beside its axis": "y[n, m] += select(at[n] == k, 1, 0) * x[k + 1, c] * x2[m, c]",
    "an index at a cell that is named": "y[j, m] += select(to[n] == m, 1, 0) * select(at[j] == n, 2, 0) * s[n, l] * s[j, l]",
    "a cell of one factor that divides all": "y[n, m] += s[n, k] * x[k, c] * x2[m, c] / at[n]",
    "a product that cells divide": "y[n, m] += s[n, k] / (at[n] + s[n, l]) * x[k, c] / to[n] * x2[m, c]",
    "a letter without terms": "y[n, m] += s[n, k] * s[n, l] * s[n, l + 1] * x[k, c] * x2[m, c]",
    "sums in cells that begin with nothing": "y[n, m] = x2[3 * m + 1, 0]"
    '"\n    - "y[n, m] += s[n, k] * x[k, c] * x2[m, c]',
    "a cell beside its axis that is not read": "y[n, m] += select(at[n] == k, select(s[n, l] > 0, x[k - 1, c], 1), 0)",
    "two that are picked": "t[n, m] += select(at[n] == k, 1, 0) * x[k, c] * x2[m, c]"
    '"\n    - "y[n, m] += select(to[n] == k, 1, 0) * x[k, c] * x2[m, c] * t[n, m]',
}


DIGIT = """op: Digit
revision: 1
summary: Sums along a letter of which one digit alone is read.
dims: {h_cells: {symbol: H, min: 0}, w_cells: {symbol: W, min: 1}}
inputs: [{name: e, dims: {H: H, W: W}}, {name: f, dims: {Z: H * W}}, {name: g, dims: {AXIS}}]
outputs: [{name: y, dims: {Z: H * W}}, {name: rows, dims: {H: H}}, {name: sums, dims: {}}]
dtypes: [{e: f64, f: f64, g: f64, y: f64, rows: f64, sums: f64, accumulate: f64}]
semantics:
  ranges: {h: H, w: W, z: H * W}
  steps:
    - "rows[h] += f[h * W + w]"
    - "y[z] = e[floor(z / W), z % W]"
    - "sums[] OPERATOR g[INDEX]"
"""
WRITTEN = """op: Written
revision: 1
summary: An output that copies of cells fill.
dims: {h_cells: H, k_cells: K, c_cells: {symbol: C, min: 1}, d_cells: {symbol: D, min: 1}}
inputs: [{name: e, dims: {H: H, C: C}}, {name: f, dims: {H: H, D: D}}, {name: g, dims: {K: K}}]
outputs: [{name: y, dims: {DIMS}}]
dtypes: [{e: f64, f: f64, g: f64, y: f64, accumulate: f64}]
semantics:
  ranges: {h: H, k: K, c: C, p: C / 4, q: 4, s: C + D}
  steps: ["whole[] += e[h, c] + f[h, s] + g[k] + e[q, p]", "STEP"]
"""
WRITTEN_BY = {
    "windows as rows": ("Z: H * K, C: C", "y[h * K + k, c] = e[h + k - 1, c]", 1),
    "quarters of an axis": ("H: H * 4, Q: C / 4", "y[h * 4 + q, p] = e[h, q * (C / 4) + p]", 1),
    "cells of quarters": ("H: H, C: C", "y[h, q * (C / 4) + p] = e[h, 4 * p + q]", 1),
    "two arrays": ("H: H, S: C + D", "y[h, s] = select(s < C, e[h, min(s, C - 1)], f[h, max(s - C, 0)])", 2),
    "others before": ("H: H, C: C", "y[h, c] = select(c >= 1, e[h, max(c - 1, 0)], f[h, 0])", 2),
    "others between": ("H: H, S: C + D", "y[h, s] = select(s >= 1 and s < C, e[h, min(s, C - 1)], f[h, 0])", 3),
}


GROUPS = """op: Groups
revision: 1
summary: Sums of groups, whose cells are one axis.
dims: {n_cells: N, g_cells: {symbol: G, min: 1}, p_cells: {symbol: P, min: 1}, e_cells: {symbol: E, min: 1}}
inputs: [{name: x, dims: {N: N, I: G * E}}, {name: w, dims: {G: G, P: P, E: E}}, {name: v, dims: {O: G * P, E: E}},
  {name: z, dims: {N: N, G: G, E: E}}]
outputs: [{name: y, dims: {N: N, O: G * P}}]
dtypes: [{x: f64, w: f64, v: f64, z: f64, y: f64, accumulate: f64}]
semantics:
  ranges: {n: N, o: G * P, e: E}
  steps: ["y[n, o] += PRODUCT", "y[n, o] = y[n, o] + w[0, 0, 0] + x[n, 0] + z[n, 0, 0] + v[o, 0]"]
"""

NAMING = """op: Naming
revision: 1
summary: Cells that others name, which steps make.
dims: {n_cells: N, k_cells: K, c_cells: C}
inputs: [{name: at, dims: {N: N, C: C}}, {name: x, dims: {K: K, C: C}}]
outputs: [{name: which, dims: {N: N, C: C}}, {name: y, dims: {N: N, C: C}}, {name: z, dims: {K: K, C: C}}]
dtypes: [{at: f64, x: f64, which: f64, y: f64, z: f64, accumulate: f64}]
semantics:
  ranges: {n: N, k: K, c: C}
  steps: ["which[n, c] = at[n, c]", "cell[n, c] = at[n, c] + 1", STEP]
"""
NAMED = {
    "read, by an output": ("y[n, c] += select(which[n, c] == k, x[k, c], 0)", "z[k, c] = x[k, c]"),
    "read, by what is cheap": ("y[n, c] += select(cell[n, c] == k, x[floor(k / 2), c], 0)", "z[k, c] = x[k, c]"),
    "written, by an output": ("z[k, c] += select(which[n, c] == k, at[n, c], 0)", "y[n, c] = x[n, c]"),
    "written, by what is cheap": ("z[k, c] += select(cell[n, c] == k, 1, 0)", "y[n, c] = x[n, c]"),
}


REPEATED = """op: Repeated
revision: 1
summary: Windows of cells that are repeated.
dims: {t_cells: T, s_cells: {symbol: S, min: 0}, c_cells: C, k_cells: K, j_cells: J, d_cells: {symbol: D, min: 1}}
inputs: [{name: x, dims: {C: C, T: T}}, {name: w, dims: {K: K, C: C, J: J}}, {name: u, dims: {D: D, S: S}}]
outputs: [{name: y, dims: {K: K, S: S}}, {name: most, dims: {}}]
dtypes: [{x: f64, w: f64, u: f64, y: f64, most: f64, accumulate: f64}]
semantics:
  ranges: {t: S, c: C, k: K, j: J, d: D}
  steps: ["most[] max= u[d, t] + w[k, c, j] + x[c, 0]", STEPS]
"""
ONCE = {
    "a quotient": ("y[k, t] += x[c, floor(t / 2) + j - 1] * w[k, c, j]",),
    "a quotient behind an offset": ("y[k, t] += x[c, floor((t - 1) / 3) - j] * w[k, c, j]",),
    "a quotient by a size": ("y[k, t] += x[c, floor(t / D)] * w[k, c, j]",),
    "extremes": ("y[k, t] = w[k, 0, 0]", "y[k, t] max= x[c, floor((t + 5) / 2) + j] + w[k, c, j]"),
    "products": ("y[k, t] *= x[c, floor((t + 1) / 2)] * w[k, 0, j]",),
    "no term": ("y[k, t] += w[k, c, j] * x[c, j]",),
    "neither letter": ("sums[t] += w[k, c, j]", "y[k, t] = sums[t]"),
    "both letters": ("sums[k, t] += x[floor(k / 2), c] * w[floor(k / 2), floor(t / 4), c]", "y[k, t] += sums[k, t]"),
}
SOME = {
    "the letter": "y[k, t] += x[c, floor(t / 2)] * w[k, c, t]",
    "two quotients": "y[k, t] += x[c, floor(t / 2)] * w[k, c, floor(t / 3)]",
    "a remainder": "y[k, t] += x[c, t % 3] * w[k, c, j]",
    "twice the letter": "y[k, t] += x[c, floor(2 * t / 3)] * w[k, c, j]",
}
QUOTIENTS = ("floor((t + j - 1) / 2)", "floor((2 * t + j - 3) / D)", "floor((t - j) / 2)")

RANGED = """op: Ranged
revision: 1
summary: Sums and extremes of the cells that a condition lets in.
dims: {n_cells: N, w_cells: W, d_cells: D}
inputs: [{name: x, dims: {N: N, W: W}}, {name: b, dims: {W: W, D: D}}]
outputs: [{name: y, dims: {N: N, D: D}}]
dtypes: [{x: f64, b: f64, y: f64, accumulate: f64}]
semantics:
  ranges: {n: N, p: D, w: W}
  steps: ["all[] += b[w, p]", STEPS]
"""
BOUNDED = {  # and how many comparisons bound loops
    "a window": ("y[n, p] += select(w >= floor(p * W / 3) and w < ceil((p + 1) * W / 3), x[n, w], 0)", 2),
    "an extreme": ("y[n, p] max= select(w <= 2 * p and x[n, w] > 0, x[n, w] * 2, -inf)", 1),
    "cells of two arrays": ("y[n, p] += select(p - w < 2, abs(x[n, w] - b[w, p]), 0)", 1),
    "real numbers": ("y[n, p] += select(w < W / 2 and w < 2.5, x[n, w], 0)", 0),
    "what is no letter of the sum": ("y[n, p] += select(p >= n and p % 2 == 0, x[n, w], 0)", 0),
    "an extreme of zeros": ("y[n, p] max= select(w <= p, x[n, w], 0)", 0),
    "a product": ("y[n, p] += select(w <= p, x[n, w] * b[w, p], 0)", 0),
}

BANDED = """op: Banded
revision: 1
summary: Products of a band.
dims: {i_cells: I, k_cells: K, d_cells: D}
inputs: [{name: x, dims: {I: I, J: I + K}}, {name: z, dims: {J: I + K, I: I, H: I}}, {name: w, dims: {K: K, D: D}}]
outputs: [{name: y, dims: {I: I, D: D}}, {name: most, dims: {}}]
dtypes: [{x: f64, z: f64, w: f64, y: f64, most: f64, accumulate: f64}]
semantics:
  ranges: {i: I, k: K, d: D}
  steps: ["most[] max= x[i, k] + z[k, i, 0] + w[k, d]", "y[i, d] += BAND * w[k, d]"]
"""


JOINED = """op: Joined
revision: 1
summary: Sums of terms in cells of one output.
dims: {a_cells: A, b_cells: {symbol: B, min: 0}, c_cells: C}
inputs: [{name: a, dims: {A: A, C: C}}, {name: b, dims: {B: B, C: C}}]
outputs: [{name: y, dims: {C: C, Y: 2 * A + B + 2}}, {name: most, dims: {}}]
dtypes: [{a: f64, b: f64, y: f64, most: f64, accumulate: f64}]
semantics:
  ranges: {i: A, j: B, c: C}
  steps: ["most[] max= a[i, c] + b[j, c]", STEPS]
"""
APART = {
    "pieces": ("y[c, i] += a[i, c]", "y[c, j + A] += b[j, c]"),
    "a gap between": ("y[c, j + 2 * A + 1] += -b[j, c]", "y[c, i] += a[i, c]"),
    "one that sets": ("y[c, i] = a[i, c]", "y[c, j + A] += b[j, c]"),
    "backwards": ("y[c, A - 1 - i] += a[i, c]", "y[c, B - 1 - j + A] += b[j, c]"),
    "cells apart": ("y[c, 2 * i + 1] += a[i, c]",),
    "cells apart, backwards": ("y[c, 2 * A - 2 * i] += a[i, c]",),
    "one that reduces": ("y[c, 2 * A + B] += a[i, c]", "y[c, A + j] += b[j, c]"),
}
SHARED = {
    "turns": ("y[c, 2 * i] += a[i, c]", "y[c, 2 * i + 1] += a[i, c] * 2"),
    "a piece that overlaps": ("y[c, i] += a[i, c]", "y[c, j + 1] += b[j, c]"),
    "the same cells": ("y[c, i] += a[i, c]", "y[c, i] += a[i, c] * 2"),
    "cells that are set": ("y[c, i] = a[i, c]", "y[c, A - 1 - i] += a[i, c]"),
    "cells that stand still": ("y[c, 0 * i + 1] += a[i, c]", "y[c, j + A + 2] += b[j, c]"),
    "a letter in both indices": ("y[c, i - c] += a[i, c]", "y[i, i + A] += a[i, c]"),
    "a product before": ("y[c, 2 * A + B] *= 2 * a[i, c]", "y[c, i] += a[i, c]"),
    "what it reads itself": ("y[c, i] += a[i, c]", "y[c, A + i] += y[c, i] + 1"),
    "a part of those": ("y[c, i] += a[i, c]", "y[c, A + B] += b[j, c]", "y[c, A + j + 1] += b[j, c]"),
}

GROUPED = """op: Grouped
revision: 1
summary: Sums over groups of terms.
dims: {g_cells: {symbol: G, min: 0}, n_cells: {symbol: N, min: 0}, k_cells: K, d_cells: D}
inputs: [{name: x, dims: {G: G, N: N, D: D}}, {name: p, dims: {G: G, N: N, K: K}}, {name: u, dims: {K: K, D: D}},
  {name: s, dims: {G: G, K: K}}]
outputs: [{name: y, dims: {K: K, D: D}}, {name: most, dims: {}}]
dtypes: [{x: f64, p: f64, u: f64, s: f64, y: f64, most: f64, accumulate: f64}]
semantics:
  ranges: {g: G, h: G, n: N, k: K, j: K, d: D, c: D}
  steps: ["most[] max= p[g, n, k] + x[h, n, c] + s[g, j] + u[k, d]", STEPS]
"""
IN_GROUPS = {
    "a product with a difference": ("y[k, d] += (x[g, n, d] - u[k, d]) * p[g, n, k]",),
    "one that cells of the sum divide": ("y[k, d] += p[g, n, k] * (x[g, n, d] - u[k, d]) / (1 + abs(u[k, d]))",),
    "one with a sum of two rows": ("y[k, d] += (x[g, n, d] + x[g, n, c]) * p[g, n, k]",),
    "products of other letters": ("y[k, d] += x[g, n, d] * p[g, n, k] + x[h, n, d] * p[h, n, k]",),
    "scales of groups": ("q[k, g, c] += x[g, n, c] * p[g, n, k]", "y[k, d] += q[k, g, d] * s[g, k]"),
    "groups": ("q[g, k, d] += x[g, n, d] * p[g, n, k]", "y[k, d] += q[g, k, d]"),
    "a letter that three have": ("y[k, d] += x[g, n, c] * u[k, c] * p[g, n, j] * u[j, d] * x[g, n, d]",),
}
QUADRATIC = """op: Quadratic
revision: 1
summary: Quadratic forms.
dims: {n_cells: {symbol: N, min: 0}, d_cells: D}
inputs: [{name: x, dims: {N: N, D: D}}, {name: a, dims: {N: N, D: D, E: D}}]
outputs: [{name: y, dims: {N: N}}]
dtypes: [{x: f64, a: f64, y: f64, accumulate: f64}]
semantics:
  ranges: {n: N, c: D, d: D}
  steps: ["t[n, d] += x[n, c] * a[n, c, d]", "y[n] += t[n, d] * x[n, d]"]
"""


def agrees(found: dict[str, Any], wanted: dict[str, Any], call: object, strict: bool = True) -> None:
    """Where the interpreter's cells are finite, those of the program are the same; factored sums may overflow else.

    Other cells of the program are not finite either, if it is `strict`.
    """
    for name, cells_of in wanted.items():
        made, want = np.ravel(found[name]).astype(np.float64), np.ravel(cells_of).astype(np.float64)
        finite = np.isfinite(want)
        assert np.allclose(made[finite], want[finite], rtol=1e-7, atol=1e-7), (name, call, made, want)
        assert not (strict and np.isfinite(made[~finite]).any()), (name, call, made, want)


def judged(op: Op, random: np.random.Generator, count: int) -> None:
    for number in range(count):
        sizes, given = cells(random, op, wild=number % 3 > 0)
        wanted = compute_steps(op, [given[tensor.name] for tensor in op.inputs], {})
        made = run_program(staged(op).program, sizes, given)
        # Sums without terms are 0 even if their factors are infinite, and max(-inf, 0) is where the interpreter has NaN.
        finite = not any(np.isinf(made[name]).any() for name in made.keys() - given.keys() - wanted.keys())
        agrees(made, wanted, (sizes, given), finite and all(sizes.values()))


@pytest.mark.parametrize("step", SINGLE.values(), ids=SINGLE)
def test_what_no_condition_lets_in_is_neither_read_nor_added(step: str) -> None:
    (op,) = load_texts({"mark.yaml": SPEC.replace("STEP", step)}).ops
    judged(op, rng("marks", step), 40)


def test_a_sum_may_be_multiplied_by_what_its_terms_read() -> None:
    (op,) = load_texts({"quadratic.yaml": QUADRATIC}).ops
    judged(op, rng("quadratic"), 20)


@pytest.mark.parametrize("steps", NAMED.values(), ids=NAMED)
def test_what_steps_make_may_name_cells(steps: tuple[str, ...]) -> None:
    (op,) = load_texts({"naming.yaml": NAMING.replace("STEP", ", ".join(f'"{step}"' for step in steps))}).ops
    judged(op, rng("naming", *steps), 20)


@pytest.mark.parametrize(("name", "steps"), IN_GROUPS.items(), ids=IN_GROUPS)
def test_sums_in_groups_and_of_products_with_sums_have_all_of_their_terms(name: str, steps: tuple[str, ...]) -> None:
    (op,) = load_texts({"grouped.yaml": GROUPED.replace("STEPS", ", ".join(f'"{step}"' for step in steps))}).ops
    judged(op, rng("grouped", *steps), 20)
    products = [phase.contraction for phase in staged(op).phases if phase.contraction]
    assert all(product.dense for product in products)
    assert len(products) == {"products of other letters": 0, "a letter that three have": 3}.get(name, 1)


@pytest.mark.parametrize("steps", [*APART.values(), *SHARED.values()], ids=[*APART, *SHARED])
def test_sums_of_one_term_are_assigned_where_no_other_step_writes(steps: tuple[str, ...]) -> None:
    """With the interpreter's bits: 0 to which -0 is added is 0."""
    text = JOINED.replace("STEPS", ", ".join(f'"{step}"' for step in steps))
    (op,) = load_texts({"joined.yaml": text}).ops
    random, found = rng("joined", *steps), staged(op).program
    sums = [part for part in found.parts if part.operator == "sum"]
    assert steps not in APART.values() or all({*part.letters} - expr.names(part.target) for part in sums)
    for _ in range(20):
        a, b, c = (int(random.integers(least, 4)) for least in (1, 0, 1))
        given = {"a": drawn_cells(random, (a, c)), "b": drawn_cells(random, (b, c))}
        wanted = compute_steps(op, [given["a"], given["b"]], {})
        made = run_program(found, {"A": a, "B": b, "C": c}, given)
        assert np.array_equal(made["y"], wanted["y"], equal_nan=True), (a, b, c)
        assert (np.signbit(made["y"]) == np.signbit(wanted["y"]))[wanted["y"] == 0].all(), (a, b, c)


def test_steps_read_other_cells_of_what_they_write_as_these_were_before() -> None:
    made = 0
    for number in range(COUNT):
        random = rng("other cells", number)
        text = steps_of_other_cells(random, "Others")
        try:
            (op,) = load_texts({"others.yaml": text}).ops
        except SpecInvalid:
            continue
        made += 1
        try:
            judged(op, random, CALLS)
        except Exception as error:
            raise AssertionError(f"{number}: {error}\n{text}") from error
    assert made > 0.8 * COUNT


def drawn_cells(random: np.random.Generator, shape: tuple[int, ...]) -> Any:
    return random.choice((np.inf, -np.inf, np.nan, -0.0, -0.0, 0.0, 1.0, -3.0), shape)


@pytest.mark.parametrize("operator", ["+=", "max=", "*="])
@pytest.mark.parametrize(("axis", "index"), [("H: H", "floor(z / W)"), ("W: W", "z % W")])
def test_a_sum_over_a_letter_has_all_of_its_terms_if_it_reads_one_digit(operator: str, axis: str, index: str) -> None:
    text = DIGIT.replace("AXIS", axis).replace("INDEX", index).replace("OPERATOR", operator)
    (op,) = load_texts({"digit.yaml": text}).ops
    judged(op, rng("digit", operator, axis), 30)


@pytest.mark.parametrize(
    ("product", "groups"),
    [
        ("x[n, floor(o / P) * E + e] * v[o, e]", True),
        ("x[n, e * G + floor(o / P)] * v[o, e]", True),
        ("x[n, floor(o / P) + e] * v[o, e]", False),
        ("z[n, floor(o / P), e] * v[o, e]", True),
        ("z[n, floor(o / P), e] * v[o - 1, e]", False),
        ("z[n, floor(o / P), e] * x[n, o]", False),
    ],
)
def test_a_letter_whose_quotient_counts_groups_is_two_and_sums_of_groups_are_products(
    product: str, groups: bool
) -> None:
    (op,) = load_texts({"groups.yaml": GROUPS.replace("PRODUCT", product)}).ops
    judged(op, rng("groups", product), 30)
    found = staged(op)
    assert ("o" not in found.program.letters) == groups
    assert any(phase.contraction is not None and phase.contraction.dense for phase in found.phases) == groups


@pytest.mark.parametrize(("what", "steps"), [*ONCE.items(), *((what, (step,)) for what, step in SOME.items())])
def test_sums_that_are_the_same_for_several_values_of_a_letter_are_made_once(what: str, steps: tuple[str, ...]) -> None:
    (op,) = load_texts({"repeated.yaml": REPEATED.replace("STEPS", ", ".join(f'"{step}"' for step in steps))}).ops
    judged(op, rng("repeated", *steps), 20)
    sums = [part for part in staged(op).program.parts if {*part.letters} - expr.names(part.target)]
    assert any("t" in part.letters for part in sums[1:]) == (what in SOME)


@pytest.mark.parametrize("index", QUOTIENTS)
def test_windows_of_cells_that_are_repeated_are_those_of_an_array(index: str) -> None:
    text = REPEATED.replace("STEPS", f'"y[k, t] += x[c, {index}] * w[k, c, j]"')
    (op,) = load_texts({"repeated.yaml": text}).ops
    judged(op, rng("repeated windows", index), 20)
    assert any(phase.contraction is not None and phase.contraction.slides for phase in staged(op).phases)


@pytest.mark.parametrize("band", ["x[i, i + k]", "z[i + k, i, i]"])
def test_cells_of_a_band_are_an_operand(band: str) -> None:
    (op,) = load_texts({"banded.yaml": BANDED.replace("BAND", band)}).ops
    judged(op, rng("band", band), 20)
    assert any(phase.contraction is not None and phase.contraction.dense for phase in staged(op).phases)


@pytest.mark.parametrize("name", BOUNDED)
def test_comparisons_that_let_terms_in_bound_loops(name: str) -> None:
    step, count = BOUNDED[name]
    (op,) = load_texts({"ranged.yaml": RANGED.replace("STEPS", f'"{step}"')}).ops
    judged(op, rng("ranged", name), 12)
    assert sum(len(part.where) for part in staged(op).program.parts) == count


def test_sums_that_other_steps_begin_keep_their_choices() -> None:
    steps = '"y[n, p] = -0.0 * x[n, 0]", "y[n, p] += select(w < p, x[n, w], 0)"'
    (op,) = load_texts({"ranged.yaml": RANGED.replace("STEPS", steps)}).ops
    assert not any(part.where for part in staged(op).program.parts)


GATED = """op: Gated
revision: 1
summary: Windows times weights, times a factor of each cell.
dims: {n_cells: N, c_cells: C, o_cells: O, h_cells: H, t_cells: T}
inputs: [{name: x, dims: {N: N, C: C, H: H + TAPS}}, {name: f, dims: {O: O, C: C, K: TAPS}}, {name: s, dims: {SCALE}},
  {name: z, dims: {N: N, H: H, T: T}}]
outputs: [{name: y, dims: {N: N, O: O, H: H}}]
dtypes: [{x: f64, f: f64, s: f64, z: f64, y: f64, accumulate: f64}]
semantics:
  ranges: {n: N, c: C, o: O, h: H, k: TAPS, t: T}
  steps: ["first[] max= z[n, h, t]", "y[n, o, h] += x[n, c, WINDOW] * f[o, c, k] * s[CELL] * 2 * s[CELL] * 2"]
"""


@pytest.mark.parametrize(("scale", "cell"), [("N: N, O: O, H: H", "n, o, h"), ("H: H", "h"), ("O: O", "o"), ("", "")])
@pytest.mark.parametrize(
    ("window", "taps", "there"),
    [("h + k", "T", True), ("h + k - 1", "3", True), ("h + k - 4", "3", False), ("h + k - 1", "T", False)],
)
def test_what_multiplies_all_terms_of_a_window_multiplies_its_sum(
    scale: str, cell: str, window: str, taps: str, there: bool
) -> None:
    text = GATED.replace("TAPS", taps).replace("SCALE", scale).replace("CELL", cell).replace("WINDOW", window)
    (op,) = load_texts({"gated.yaml": text}).ops
    judged(op, rng("gated", cell, window, taps), 20)
    weights = [part for part in staged(op).program.parts if {"c", "k", "h"} <= {*part.letters} - {"n"}]
    assert any(part.operator == "set" for part in weights) == (not there and "h" in cell)


def test_a_letter_that_is_named_may_have_digits() -> None:
    step = '"sums[] += f[z] * select(g[w] == z, 1, 0)"'
    text = DIGIT.replace("AXIS", "W: W").replace('"sums[] OPERATOR g[INDEX]"', step)
    (op,) = load_texts({"digit.yaml": text}).ops
    judged(op, rng("named digits"), 30)


def test_sums_that_one_step_leaves_have_arrays_of_their_own() -> None:
    text = """op: Lone
revision: 1
summary: A product of two sums, each of terms with letters of their own.
dims: {n_cells: N, k_cells: K, c_cells: C}
inputs: [{name: to, dims: {N: N}}, {name: u, dims: {N: N, C: C}}, {name: p, dims: {K: K}}, {name: q, dims: {C: C}}]
outputs: [{name: y, dims: {D: C, N: N}}]
dtypes: [{to: s64, u: f64, p: f64, q: f64, y: f64, accumulate: f64}]
semantics:
  ranges: {n: N, l: K, c: C, d: C}
  steps: ["y[d, n] += (select(c > 0 and abs(to[n]) == c, 1, 0) + q[d]) * (p[l] - u[n, c])"]
"""
    (op,) = load_texts({"lone.yaml": text}).ops
    judged(op, rng("lone"), 20)


@pytest.mark.parametrize("sum_", ["exp(x[n, h, w] - m[n]) * number(w)", "x[n, h, w] * number(h)", "x[n, h, w] * q[w]"])
def test_sums_that_use_no_element_twice_go_with_the_others_of_their_rows(sum_: str) -> None:
    text = f"""op: Place
revision: 1
summary: Where the weight of a plane lies.
dims: {{n_cells: N, h_cells: H, w_cells: W}}
inputs: [{{name: x, dims: {{N: N, H: H, W: W}}}}, {{name: q, dims: {{W: W}}}}]
outputs: [{{name: y, dims: {{N: N}}}}]
dtypes: [{{x: f64, q: f64, y: f64, accumulate: f64}}]
semantics:
  ranges: {{n: N, h: H, w: W}}
  steps: ["m[n] max= x[n, h, w] * q[w]", "s[n] += {sum_}", "y[n] = s[n] - m[n]"]
"""
    (op,) = load_texts({"place.yaml": text}).ops
    judged(op, rng("place", sum_), 8)
    assert len(staged(op).phases) == 1


OTHERS = (1380, 1455, 1559)  # sums of everything which are products; the greater of 0 and a sum of infinite factors


def test_programs_of_random_marks_compute_what_the_interpreter_computes() -> None:
    made = 0
    for number in (*range(COUNT), *OTHERS):
        random = rng("marks", number)
        text = Marks(random).text(str(random.choice(["s64", "s64", "f64"])))
        try:
            (op,) = load_texts({"mark.yaml": text}).ops
        except SpecInvalid:
            continue
        made += 1
        try:
            judged(op, random, CALLS)
        except Exception as error:
            raise AssertionError(f"{number}: {error}\n{text}") from error
    assert made > 0.9 * COUNT


class WildCaller(StepCaller):
    """Draws small calls of which some cells are not finite."""

    def facts(self, rank: int, tame: bool) -> dict[str, Any]:
        return super().facts(rank, True)

    def cells(self, dtype: np.dtype[Any], shape: Any) -> Any:
        found = super().cells(dtype, shape)
        if dtype.kind in "iub" or dtype.itemsize == 1:
            return found
        some = self.rng.choice((np.inf, -np.inf, np.nan, -0.0), shape)
        return np.where(self.rng.random(shape) < 0.1, some, found.astype(np.float64)).astype(dtype)


def test_programs_of_random_idioms_compute_what_the_interpreter_computes() -> None:
    """Before rounding to the types of outputs, for which the interpreter's own run stands."""
    made = 0
    for number in range(COUNT):
        random = rng("programs of idioms", number)
        text = idioms(random, "Idiom")
        try:
            (op,) = load_texts({"idiom.yaml": text}).ops
        except SpecInvalid:
            continue
        for call in WildCaller(op, random).legal(CALLS):
            run = run_steps.Run(op, call.validation)
            exact = run.row["accumulate"] == "s64" or run.integers or run.summed
            if exact or any(isinstance(array, list) for array in call.inputs):
                continue  # a program of its own, or one for each array
            program = staged(op).program
            given = {name: cells_of for name, cells_of in run.data.items() if name in program.arrays}
            with np.errstate(all="ignore"):
                run.results()
            wanted = {name: run.data[name] for name in call.validation.shapes}
            made += 1
            agrees(
                run_program(program, run.symbols, given, **call.validation.words), wanted, f"{number} {call}\n{text}"
            )
    assert made > COUNT


@pytest.mark.parametrize("name", WRITTEN_BY)
def test_copies_write_an_output_once_without_an_array_of_sums(name: str) -> None:
    dims, step, steps = WRITTEN_BY[name]
    (op,) = load_texts({"written.yaml": WRITTEN.replace("DIMS", dims).replace("STEP", step)}).ops
    found = staged(op).program
    assert not found.between()
    assert [part.operator for part in found.parts] == ["set"] * steps
