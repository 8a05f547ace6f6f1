"""What kernels of steps are derived from: slopes of indices, values that are shared, letters for lanes, schedules."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from opwright.derive import lanes
from opwright.derive.algebra import slopes
from opwright.derive.phases import staged
from opwright.emit import nodes
from opwright.emit.steps.kernels import members, step_unit
from opwright.language import expr
from opwright.language.expr import Binary, Call, Expr, Name, Number, Unary
from opwright.language.library import Library
from opwright.load import load, load_texts
from opwright_kernels import _schedules
from opwright_kernels._schedules import Candidate, Lanes
from support.checkout import ROOT
from support.package import write_package

OPERATORS = ("+", "-", "*")


@pytest.fixture(scope="module")
def library() -> Library:
    return load(Path(ROOT) / "spec" / "onednn_graph")


def drawn(source: random.Random, depth: int) -> Expr:
    if depth == 0 or source.random() < 0.2:
        return source.choice([Name("x"), Name("S"), Name("P"), Number(source.randint(-2, 2))])
    if source.random() < 0.15:
        return Unary("-", drawn(source, depth - 1))
    return Binary(source.choice(OPERATORS), drawn(source, depth - 1), drawn(source, depth - 1))


def value(tree: Expr, names: dict[str, int]) -> int:
    if isinstance(tree, Number):
        return int(tree.value)
    if isinstance(tree, Name):
        return names[tree.id]
    if isinstance(tree, Unary):
        return -value(tree.operand, names)
    assert isinstance(tree, Binary)
    left, right = value(tree.left, names), value(tree.right, names)
    return {"+": left + right, "-": left - right, "*": left * right}[tree.op]


@pytest.mark.parametrize("seed", range(300))
def test_an_index_is_its_rest_and_its_slope_times_the_letter(seed: int) -> None:
    source = random.Random(seed)
    tree = drawn(source, 4)
    slope = slopes.slope(tree, "x")
    for _ in range(5):
        names = {name: source.randint(-9, 9) for name in ("x", "S", "P")}
        assert value(slopes.folded(tree), names) == value(tree, names)
        if slope is not None:
            rest = value(slopes.without(tree, "x"), names)
            assert value(tree, names) == rest + value(slope, names) * names["x"]
            if sign := slopes.sign(slope, {"S": 1}):
                assert sign * value(slope, {**names, "S": abs(names["S"]) + 1}) >= 1


def test_a_letter_under_a_quotient_or_squared_has_no_slope() -> None:
    for text in ("floor(x / 2)", "x * x", "min(x, 3)", "x % 2"):
        assert slopes.slope(expr.parse(text), "x") is None


def functions(library: Library, op: str) -> list[tuple[str, int]]:
    """The costly functions of an operation's kernels: each with how many letters its step walks."""
    parts = staged(library.op(op)).program.parts
    trees = [(part, node) for part in parts for formula in part.formulas for node in expr.walk(formula.value)]
    return [(node.function, len(part.letters)) for part, node in trees if isinstance(node, Call)]


def test_softmax_has_its_exponentials_once(library: Library) -> None:
    assert [name for name, _ in functions(library, "SoftMax")].count("exp") == 1


def test_a_root_that_serves_many_cells_is_drawn_once_for_them(library: Library) -> None:
    assert ("sqrt", 1) in functions(library, "LayerNorm")
    assert ("sqrt", 2) not in functions(library, "LayerNorm")


@pytest.mark.parametrize(
    ("op", "letters"), [("ReLU", {"x"}), ("SoftMax", {"c", "a"}), ("ReduceSum", {"k", "r"}), ("MaxPool", {"c", "o"})]
)
def test_lanes_may_go_along_the_letters_that_lie_together_in_some_layout(
    library: Library, op: str, letters: set[str]
) -> None:
    phase = staged(library.op(op)).phases[0]
    assert letters <= {*phase.lanes}


def test_neighbours_along_all_but_the_last_axis_of_sums_lie_apart() -> None:
    text = (Path(ROOT) / "tests" / "data" / "formulas" / "masked_attention.yaml").read_text(encoding="utf-8")
    (op,) = load_texts({"masked_attention.yaml": text}).ops
    number = next(n for n, phase in enumerate(staged(op).phases) if {"s", "t"} <= {*phase.lanes})
    found = {}
    for letter in staged(op).phases[number].lanes:
        own, phase = staged(op).along(number, letter)
        found[letter] = lanes.apart(op, own.program, phase.parts, letter)
    assert found == {"s": False, "t": True}


def test_neighbours_between_which_another_letter_counts_lie_apart() -> None:
    text = """op: Kron
revision: 1
summary: A Kronecker product.
dims: {rows: {symbol: I}, columns: {symbol: J}, more_rows: {symbol: K}, more_columns: {symbol: L}}
inputs: [{name: a, dims: {I: I, J: J}}, {name: b, dims: {K: K, L: L}}]
outputs: [{name: dst, dims: {R: I * K, C: J * L}}]
dtypes: [{a: f32, b: f32, dst: f32, accumulate: f32}]
semantics:
  ranges: {i: I, j: J, k: K, l: L}
  steps: ["dst[i * K + k, j * L + l] = a[i, j] * b[k, l]"]
"""
    (op,) = load_texts({"kron.yaml": text}).ops
    (phase,) = staged(op).phases
    found = {letter: lanes.apart(op, staged(op).program, phase.parts, letter) for letter in phase.lanes}
    assert found == {"l": False, "j": True}


def test_the_first_row_that_holds_for_a_letter_is_taken_and_the_last_one_always_holds() -> None:
    own, reduced = Lanes("a", True, ()), Lanes("c", False, ())
    copied = Lanes("c", True, (), copies=True)
    apart = Lanes("b", True, (), apart=True)  # near in the arrays of the call, not in sums of an engine
    cases = [
        ([Candidate(own, 100, (1, 1)), Candidate(reduced, 1000, (100,))], 0, "block"),
        ([Candidate(own, 1, (0, 0)), Candidate(reduced, 1000, (1, 1))], 1, "row"),
        ([Candidate(apart, 100, (1,)), Candidate(reduced, 1000, (1,))], 1, "row"),
        ([Candidate(own, 100, (1, 7), apart=7), Candidate(reduced, 1000, (9,), apart=9)], 0, "block through room"),
        ([Candidate(own, 3, (5,), apart=5), Candidate(reduced, 1000, (9,), apart=9)], 1, "row through room"),
        (
            [Candidate(Lanes("a", False, (), terms=3), 99, (1,)), Candidate(Lanes("c", False, (), terms=9), 20, (1,))],
            1,
            "row",
        ),
        ([Candidate(own, 3, (5,), apart=5), Candidate(reduced, 5, (9,), apart=9)], 1, "rest"),
        ([Candidate(own, 99, (1, 50)), Candidate(own, 30, (1, 80), turned=True)], 1, "turned rows"),
        ([Candidate(own, 99, (1, 50), apart=50), Candidate(reduced, 20, (6,), apart=6)], 1, "near row through room"),
        ([Candidate(own, 99, (1, 50), apart=50), Candidate(reduced, 20, (7,), apart=7)], 0, "block through room"),
        ([Candidate(own, 99, (1, 50), apart=50), Candidate(own, 20, (6,), apart=6)], 1, "near block through room"),
        ([Candidate(own, 99, (7,), apart=7), Candidate(own, 3, (1,), apart=1, follows=True)], 1, "short rows"),
        ([Candidate(own, 99, (7,), apart=7), Candidate(own, 1, (1,), apart=1, follows=True)], 0, "block through room"),
        ([Candidate(own, 99, (7,), apart=7), Candidate(copied, 3, (1, 1), apart=2)], 1, "copied rows"),
        ([Candidate(own, 99, (7,), apart=7), Candidate(copied, 3, (1, 2), apart=3)], 0, "block through room"),
        ([Candidate(own, 99, (1,)), Candidate(own, 3, (1,), follows=True)], 0, "block"),
        ([Candidate(own, 99, (7,), apart=7), Candidate(own, 3, (1,), apart=1)], 0, "block through room"),
    ]
    for candidates, number, name in cases:
        chosen, row = _schedules.chosen(_schedules.nearest(candidates))
        assert (chosen, row and row.name) == (number, name)
    assert _schedules.chosen([]) == (0, None)
    assert all(row.when and row.then and row.figure for row in _schedules.SCHEDULES)


def test_what_walks_no_channel_is_counted_once_for_all_channels(library: Library) -> None:
    counts, rest = staged(library.op("AvgPool")).phases
    assert [part.target.tensor for part in counts.parts] == ["cells"]
    assert {"n", "c", "o"} <= {*rest.own}


def test_two_letters_of_one_axis_become_one_along_which_lanes_may_go(library: Library) -> None:
    (phase,) = staged(library.op("GroupNorm")).phases
    assert {*phase.own} == {"n", "g"}
    assert phase.merged is not None
    (whole,) = phase.merged.phases
    assert whole.lanes == ("g_k_",) == phase.lanes[-1:]
    assert whole.own == ("n",)
    walked = [part.letters for part in whole.parts if "x" in part.letters]
    assert walked
    assert all({"g_k_", "x"} <= {*letters} and not {"g", "k"} & {*letters} for letters in walked)


def test_arrays_that_only_merged_letters_need_have_bytes_for_each_worker() -> None:
    text = (Path(ROOT) / "tests" / "data" / "formulas" / "group_gain.yaml").read_text(encoding="utf-8")
    (op,) = load_texts({"group_gain.yaml": text}).ops
    assert not staged(op).private
    assert staged(op).owned() == {"power_of_g_k_"}
    assert "task_bytes_" in {member.name for member in members(op)}


def test_tasks_walk_the_largest_array_as_it_lies(tmp_path: Path) -> None:
    spec = """op: RowSums
revision: 1
summary: Scaled sums of rows.
dims: {d: {symbol: D}, b: {symbol: B}, c: {symbol: C}}
inputs: [{name: scale, dims: {B: B}}, {name: src, dims: {D: D, B: B, C: C}}]
outputs: [{name: dst, dims: {D: D, B: B}}]
dtypes: [{scale: f32, src: f32, dst: f32, accumulate: f32}]
semantics:
  ranges: {b: B, c: C, d: D}
  steps:
    - dst[d, b] += scale[b] * src[d, b, c]
"""
    write_package({"row_sums.yaml": spec}, tmp_path, "rows_package")
    kernels = (tmp_path / "rows_package" / "c" / "row_sums_f32.c").read_text()
    assert "int64_t d = first_task_ / B" in kernels
    assert "int64_t b = first_task_ / D" not in kernels


ROWS = """op: Rows
revision: 1
summary: Sums of cells that lie a row apart.
dims: {rows: {symbol: R, min: 1}, cells: {symbol: C, min: 1}, windows: Q}
inputs: [{name: x, dims: {R: R, C: C}}]
outputs: [{name: y, dims: {Q: Q, C: C}}]
dtypes: [{x: f32, y: f32, accumulate: f32}]
shape: {Q: SHAPE}
semantics: {ranges: {q: Q, c: C, r: EXTENT}, steps: ["y[q, c] += x[INDEX, c]"]}
"""


@pytest.mark.parametrize(
    ("shape", "extent", "index", "fetched"),
    [
        ("1", "R", "r", "opwright_ahead"),
        ("R - 4", "5", "q + r", "opwright_soon"),
        ("R - 4", "5", "q * 2 + r", "opwright_soon"),
        ("R / 5", "5", "q * 5 + r", ""),  # no cell is in two windows
    ],
)
def test_rows_of_long_sums_and_of_windows_that_overlap_are_fetched(
    shape: str, extent: str, index: str, fetched: str
) -> None:
    text = ROWS.replace("SHAPE", shape).replace("EXTENT", extent).replace("INDEX", index)
    (op,) = load_texts({"rows.yaml": text}).ops
    (kernel,) = step_unit(op).kernels

    def calls(code: nodes.Code) -> set[str]:
        own = {code.function} if isinstance(code, nodes.Call) else set[str]()
        return own.union(*map(calls, nodes.parts(code)))

    made = [stmt for phase in kernel.phases for function in phase.functions for stmt in function.body]
    assert set[str]().union(*map(calls, made)) & {"opwright_ahead", "opwright_soon"} == {*fetched.split()}


LINEAR_ATTENTION = """\
op: LinearAttention
revision: 1
summary: Sums of what other steps make.
dims: {batch: {symbol: N}, tokens: {symbol: T}, cells: {symbol: D}}
inputs: [{name: q, dims: {N: N, T: T, D: D}}, {name: k, dims: {N: N, T: T, D: D}}]
outputs: [{name: y, dims: {N: N, T: T, D: D}}]
dtypes: [{q: f32, k: f32, y: f32, accumulate: f32}]
semantics:
  ranges: {n: N, t: T, d: D, e: D}
  steps:
    - fq[n, t, d] = exp(q[n, t, d])
    - fk[n, t, d] = exp(k[n, t, d])
    - squares[n, d, e] += fk[n, t, d] * k[n, t, e]
    - keys[n, d] += fk[n, t, d]
    - parts[n, t] += fq[n, t, d] * keys[n, d]
    - sums[n, t, e] += fq[n, t, d] * squares[n, d, e]
    - y[n, t, e] = sums[n, t, e] / parts[n, t]
"""


def test_lanes_go_along_what_other_phases_leave_together() -> None:
    """2 x 6 x 197 x 40 f32 take 0.61 of the time that they take with lanes along heads (Zen 5, gcc 12.2)."""
    (op,) = load_texts({"linearattention.yaml": LINEAR_ATTENTION}).ops
    phases = staged(op).phases
    (sums,) = [phase for phase in phases if any(part.target.tensor == "parts" for part in phase.parts)]
    assert sums.lanes == ("d",)


CUBES = """op: Cubes
revision: 1
summary: Sums of cubes over windows.
dims: {c_cells: C, h_cells: H, w_cells: W}
inputs: [{name: x, dims: {C: C, H: H, W: W}}]
outputs: [{name: y, dims: {C: C, O: H - 2, P: W - 2}}]
dtypes: [{x: f32, y: f32, accumulate: f32}]
semantics:
  ranges: {c: C, o: H - 2, p: W - 2, k: 3, l: 3}
  steps: ["s[c, o, p] += pow(x[c, o + k, p + l], 3)", "y[c, o, p] = pow(s[c, o, p], 1 / 3)"]
"""


def innermost(statement: object) -> list[str]:
    """The letters of the loops within a statement that have none within themselves."""
    body = getattr(statement, "body", ())
    within = [letter for one in body for letter in innermost(one)]
    return within or ([statement.letter] if isinstance(statement, nodes.For) else [])


def test_rows_that_a_task_adds_up_are_walked_along_their_cells_whichever_letter_has_lanes() -> None:
    (kernel,) = step_unit(load_texts({"cubes.yaml": CUBES}).ops[0]).kernels
    functions = [function for phase in kernel.phases for function in phase.functions]
    assert len(functions) > 1
    for function in functions:
        assert "k" not in [letter for one in function.body for letter in innermost(one)]
