"""Sums of cells that indices name: rows that are looked up, and rows that are added where they belong."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from opwright.derive.phases import staged
from opwright.derive.picking import gathers
from opwright.emit.steps.module import step_wrapper
from opwright.language.expr import Call
from opwright.load import load_texts
from opwright.oracle.run_steps import compute_steps
from support.draws import FULL, rng
from support.package import package, write_package
from support.spec_packages import instruction_set, serving_one_of_many
from support.step_verdicts import first_disagreement

SPECS, CALLS = (40, 20) if FULL else (4, 6)
NEUTRAL = {"+=": "0", "max=": "-inf", "min=": "inf", "*=": "1"}
KINDS = (("f32", "f32"), ("bf16", "f32"), ("s32", "s64"), ("s8", "f32"), ("f16", "f64"), ("f16", "f32"))


def drawn(random: np.random.Generator, name: str) -> str:
    """A spec: some letters of what is read, some named by indices of other letters, in the output or not."""

    def one(items: list[str]) -> str:
        return str(random.choice(items))

    def axes(letters: list[str], loose: Sequence[str] = ()) -> str:
        other = {letter: f"X{letter.upper()}" for letter in loose}  # the extent of an axis that a letter may leave
        return ", ".join(f"{letter.upper()}{letter}: {other.get(letter, letter.upper())}" for letter in letters)

    def shuffled(letters: list[str]) -> list[str]:
        return [str(letter) for letter in random.permutation(letters)]

    kind, accumulate = KINDS[int(random.integers(len(KINDS)))]
    operator = "+=" if accumulate == "s64" else one([*NEUTRAL, "+="])
    given = shuffled([*"bn"])[: int(random.integers(1, 3))]  # the letters of indices
    named = [*"kl"[: int(random.integers(1, 3))]]
    read = shuffled([*named, *(["c"] if random.random() < 0.7 else []), *(given if random.random() < 0.5 else [])])
    free = [letter for letter in dict.fromkeys([*given, *read]) if letter not in named]
    kept = [letter for letter in free if random.random() < 0.6]
    put = shuffled([*kept, *(letter for letter in named if random.random() < 0.4)]) or ["c"]
    read = read if "c" in read or "c" not in put else [*read, "c"]
    cells = {letter: f"i{letter}[{', '.join(given)}]" for letter in named}
    forms = ["{0}", "{0} - 1"] if accumulate == "s64" else ["{0}", "{0} - 1", "floor({0} * 0.5)", "abs({0})"]
    numbered = len(named) > 1 and random.random() < 0.5  # both by their number
    told = {"k": "number(k, l)"} if numbered else {x: x for x in named}
    tests = [one(["{0} == {1}", "{1} == {0}"]).format(one(forms).format(cells[x]), told[x]) for x in told]
    value = f"x[{', '.join(read)}]"
    if operator == "+=" and random.random() < 0.5:
        term = " * ".join([*(f"select({test}, 1, 0)" for test in tests), value])
    else:
        term = f"select({' and '.join(tests)}, {value}, {NEUTRAL[operator]})"
    weighed = operator == "+=" and "c" in read and random.random() < 0.4
    put = [letter for letter in put if letter != "c"] + ["m"] if weighed else put
    term = f"{term} * w[c, m]" if weighed else term
    letters = [*dict.fromkeys([*given, *read, *put, *named])]
    index = one(["s32", "s8", "s64"]) if accumulate == "s64" else one(["s32", "s64", "u8", "f32"])
    inputs = [f"  - {{name: i{letter}, dims: {{{axes(given)}}}}}" for letter in told]
    loose = [letter for letter in named if random.random() < 0.2]
    inputs += [f"  - {{name: x, dims: {{{axes(read, loose)}}}}}"]
    inputs += ["  - {name: w, dims: {C: C, M: M}}"] if weighed else []
    inputs += [
        f"  - {{name: like_{one}, dims: {{A: {one.upper()}}}}}"
        for one in dict.fromkeys([*put, *loose])
        if one in loose or one not in [*given, *read, "m"]
    ]
    names = [line.split("name: ")[1].split(",")[0] for line in inputs]
    types = ", ".join(f"{each}: {index if each[0] == 'i' else kind}" for each in names)
    sizes = ", ".join(f"{one.lower()}_cells: {one.upper()}" for one in [*letters, *(f"x{one}" for one in loose)])
    return f"""op: {name}
revision: 1
summary: What indices name.
dims: {{{sizes}}}
inputs:
{chr(10).join(inputs)}
outputs:
  - {{name: dst, dims: {{{axes(put)}}}}}
dtypes:
  - {{{types}, dst: {kind}, accumulate: {accumulate}}}
semantics:
  ranges: {{{", ".join(f"{letter}: {letter.upper()}" for letter in shuffled(letters))}}}
  steps:
    - {"dst"}[{", ".join(put)}] {operator} {term}
"""


LOOKUP = """op: Lookup
revision: 1
summary: Rows.
dims: {{{sizes}}}
inputs: [{inputs}]
outputs: [{output}]
dtypes: [{{{types}, y: {kind}, accumulate: f32}}]
semantics:
  ranges: {{{ranges}}}
  steps: ["{step}"]
"""
READ, PUT, ONE = "y[n, c] += ", "y[k, c] += ", "select(at[n] == k, 1, 0)"


def tensor(name: str, letters: list[str]) -> str:
    return f"{{name: {name}, dims: {{{', '.join(f'{one.upper()}: {one.upper()}' for one in letters)}}}}}"


def lookup(step: str) -> str:
    """A spec of one step, by what it reads and writes."""
    output, *reads = ((name, letters.split(", ")) for name, letters in re.findall(r"\b(\w+)\[([\w, ]+)\]", step))
    letters = [*dict.fromkeys(letter for _, found in (output, *reads) for letter in found)]
    return LOOKUP.format(
        sizes=", ".join(f"{letter}_cells: {letter.upper()}" for letter in letters),
        inputs=", ".join(tensor(*read) for read in reads),
        output=tensor(*output),
        types=", ".join(f"{name}: {'s64' if name == 'at' else 'f32'}" for name, _ in reads),
        ranges=", ".join(f"{letter}: {letter.upper()}" for letter in letters),
        step=step,
        kind="f32",
    )


@pytest.mark.parametrize(
    ("step", "products"),
    [
        (f"{READ}{ONE} * x[k, c]", 0),
        (f"{READ}select(k == at[n], x[k, c], 0)", 0),
        (f"y[n, m] += {ONE} * x[k, c] * w[c, m]", 1),
        (f"{PUT}x[n, c] * {ONE} * like[k]", 0),
        (f"y[k, m] += {ONE} * (x[n, c] * w[c, m]) * like[k]", 1),
        ("y[k, c] max= select(at[n] == k, x[n, c] * like[k], -inf)", 0),
    ],
)
def test_conditions_that_name_a_letter_choose_its_cells(step: str, products: int) -> None:
    (op,) = load_texts({"lookup.yaml": lookup(step)}).ops
    found = staged(op)
    named = [part for part in found.program.parts if any(gathers(read) for read in (part.target, *part.reads))]
    assert len(named) == 1
    assert sum(phase.contraction is not None for phase in found.phases) == products
    assert "k" not in named[0].letters, "all terms are tried"


@pytest.mark.parametrize(
    ("step", "once"),
    [
        ("y[n, c] += select(at[n] == k, x[k, c], 0)", False),
        ("y[n, c] += select(floor(at[n] * 0.5) == k, x[k, c], 0)", True),
        ("y[n, c] += select(spot[n] == k, x[k, c], 0)", True),
        ("y[n] += select(floor(at[n] * 0.5) == k, x[k], 0)", False),
        ("y[k, c] += select(floor(at[n] * 0.5) == k, x[n, c], 0) * like[k]", True),
    ],
)
def test_numbers_that_values_tell_are_computed_once_for_all_cells(step: str, once: bool) -> None:
    (op,) = load_texts({"lookup.yaml": lookup(step)}).ops
    told = [name for name in staged(op).program.integers if name.startswith("told_")]
    assert bool(told) == once


def test_cells_that_rows_of_numbers_name_are_taken_before_what_is_made_of_them(tmp_path: Path) -> None:
    text = lookup("y[c, n] += select(floor(spot[n]) + t == k, x[c, k] * weight[n, t], 0)")
    (op,) = load_texts({"blend.yaml": text}).ops
    assert [axis.name for axis in staged(op).program.arrays["told_0_"].axes] == ["t", "n"]
    write_package({"blend.yaml": text}, tmp_path, "blends")
    (kernels,) = tmp_path.glob("blends/c/*.c")
    assert re.search(
        r"opwright_taken_f32\(x \+ c \* x_C, offset_0_ \+ \(.*\), n_, x_room_\)", kernels.read_text("utf-8")
    )


def test_what_is_not_0_where_no_cell_is_named_is_left_out_there(tmp_path: Path) -> None:
    text = lookup(f"y[n] += {ONE} * x[k]").replace('["', '["w[n] max= select(at[n] == k, x[k], -inf)", "')
    ends = lookup("y[n] += select(at[n] == k and to[n] == l, x[k, l] * v[n], 0)").replace("op: Lookup", "op: Ends")
    texts = {"text.yaml": text.replace('x[k]"]', 'x[k] * w[n]"]'), "ends.yaml": ends.replace("v[n]", "v[n + 1]")}
    library, module = package(texts, tmp_path, "numbers_left_out")
    (part,) = (part for part in staged(library.ops[0]).program.parts if any(read.tensor == "x" for read in part.reads))
    assert isinstance(value := part.formulas[0].value, Call)
    assert value.function == "select"  # nothing is read where no cell is named
    given = {"at": np.arange(-3, 43), "to": np.arange(46, dtype=np.float32) % 3, "v": np.ones(46, np.float32)}
    for op, x in zip(library.ops, (np.full((37, 2), np.inf), np.arange(1, 38)), strict=True):
        args = [{**given, "x": x.astype(np.float32)}[tensor.name] for tensor in op.inputs]
        np.testing.assert_array_equal(getattr(module, op.function)(*args), compute_steps(op, args, {})["y"])


@pytest.mark.parametrize(("factor", "once"), [("(v[n] * 2 - 1)", True), ("v[n]", False)])
def test_what_is_put_into_cells_that_values_tell_is_computed_once_if_it_takes_long(factor: str, once: bool) -> None:
    text = lookup(f"y[c, k] += select(floor(spot[n]) == k, x[c, n] * {factor}, 0) * like[k]")
    (op,) = load_texts({"put.yaml": text.replace(" * like[k]", "")}).ops
    assert any(name.startswith("weight_") for name in staged(op).program.arrays) == once


def test_tasks_share_rows_of_cells_that_are_there_and_that_loops_read(tmp_path: Path) -> None:
    one = lookup("y[m, n, c] += select(-at[n, m] == k, x[k, c], 0)")  # numbers are made of cells one by one
    two = lookup("y[c, n, m] += select(at[m] == k, x[k, c, n] * v[m, c], 0)").replace("op: Lookup", "op: Turned")
    write_package({"one.yaml": one, "two.yaml": two}, tmp_path, "shared")
    kernels, turned = (path.read_text("utf-8") for path in sorted(tmp_path.glob("shared/c/*.c")))
    assert "at_row_" not in kernels
    assert turned.count("opwright_across_f32(x ") == 1
    assert re.search(r"if \(holds_\d+_\) \{[^}]*opwright_across_f32\(x ", turned)


def test_rows_of_bytes_that_are_looked_up_are_copied(tmp_path: Path) -> None:
    text = lookup("y[n, c] += select(at[n] == k, x[k, c], 0)").replace("x: f32, y: f32", "x: u8, y: u8")
    write_package({"bytes.yaml": text}, tmp_path, "bytes")
    (kernels,) = tmp_path.glob("bytes/c/*.c")
    assert "opwright_put_row(y_row_, x_row_, n_, past_)" in kernels.read_text("utf-8")


def test_numbers_of_cells_along_several_axes_are_divided_only_where_these_do_not_lie_within_each_other(
    tmp_path: Path,
) -> None:
    put = lookup("y[n, p, q] += select(to[n, k] == number(p, q), x[n, k], 0) * like[p, q]").replace(" * like[p, q]", "")
    take = lookup("y[n, k] += select(to[n, k] == number(p, q), x[n, p, q], 0)").replace("op: Lookup", "op: Taken")
    library, module = package({"put.yaml": put, "take.yaml": take}, tmp_path, "numbered")
    for op in library.ops:
        assert [phase.own for phase in staged(op).phases] == [("n",) if op.op == "Lookup" else ("n", "k")]
    texts = [path.read_text("utf-8") for path in sorted(tmp_path.glob("numbered/c/*.c"))]
    assert ["opwright_floor_div(" in text for text in texts] == [False, True]
    assert "x_P_Q_nested_ ? " in texts[1]
    random = rng("numbered")
    to = random.integers(-2, 32, (3, 40)).astype(np.float32)
    x, like = random.integers(-9, 9, (3, 40)).astype(np.float32), np.zeros((5, 6), np.float32)
    expected = compute_steps(library.ops[0], [to, x, like], {})["y"]
    np.testing.assert_array_equal(module.lookup(to, x, like, threads=2), expected)
    for given in (
        cells := random.integers(-9, 9, (3, 5, 6)).astype(np.float32),
        cells[:, ::-1],
        np.asfortranarray(cells),
    ):
        expected = compute_steps(library.ops[1], [to, given], {})["y"]
        np.testing.assert_array_equal(module.taken(to, given, threads=2), expected)


@pytest.mark.sweep
def test_cells_that_indices_name_are_those_of_the_interpreter(tmp_path: Path) -> None:
    random = rng("named letters")
    names = [f"Named{number}" for number in range(SPECS)]
    texts = {f"named{number}.yaml": drawn(random, name) for number, name in enumerate(names)}
    seen: Counter[str] = Counter()
    library, module = package(texts, tmp_path, "named_letters")
    for op in library.ops:
        for isa in serving_one_of_many(module, op):
            with instruction_set(module, isa):
                found = first_disagreement(module, op, rng(op.op, isa), CALLS, seen)
                assert found is None, f"{texts[f'{op.op.lower()}.yaml']}{isa}: {found}"
    assert all(seen[f"{name} legal"] >= CALLS for name in names)


STEPS = (
    "y[n, c] += select(at[n] == k, x[k, c], 0)",
    "y[n, c] += select(at[n, c] == k, x[n, k], 0)",
    "y[n, c] += select(at[n] == k and to[c] == l, x[k, l], 0)",
    "y[n, c] += select(at[n] + c == k, x[n, k], 0)",
    "y[n, c] += select(at[n] == k, 1, 0) * x[k, c]",
    "y[k, c] += x[n, c] * (select(at[n] == k, 2, 0) * v[n])",
    "y[n] += select(at[n] == k and to[n] == c, select(v[k] > 0, 3, 0), 0) * x[k, c]",
    "y[n, m] += select(at[n] == k, x[k, c] * v[m, c], 0)",
    "y[n, c] max= select(at[n, l] == k, x[k, c], -inf)",
    "y[k, c] += select(at[n] == k, x[n, c], 0)",
    "y[n, k] += select(at[n, c] == k, x[n, c], 0)",
    "y[k] max= select(at[n] == k, x[n, c], -inf)",
    "y[k] min= select(at[n] == k, x[n, c] - v[m, l], inf)",
    "y[k] *= select(at[n] - 1 == k, x[k, n, c], 1)",
    "y[k, c] += select(at[n] == k and to[n] == l, v[n] * x[l, c], 0)",
    "y[n, m, c] += select(at[m, n] == k, v[c, n, m] * x[k, n, c], 0)",
    "y[n, c] max= select(abs(at[n, c]) == number(k, l), x[n, l, c, k], -inf)",
    "y[c, n] += select(at[n] == number(m, k, l), x[c, k, l] * (v[m] + l), 0)",
    "y[c, n] += select(at[n] == k and to[n] == l, x[c, k, l] * v[n], 0)",
    "y[c, k] += select(floor(at[n] / 1) == k, x[c, n] * (v[n] * 2 - 1), 0)",
    "y[c, n] += select(at[m, n] == k and to[n] == l, v[m, n] * x[c, k, l], 0)",
)
ANY = (-(2**63), -(2**63) + 1, -(2**31), -1, 2**24 + 1, 2**31, 2**62, 2**63 - 1)


@pytest.mark.parametrize("kind", ["f32", "bf16"])
def test_indices_may_be_any_numbers(tmp_path: Path, kind: str) -> None:
    random = rng(f"any indices {kind}")
    texts, called = dict[str, str](), dict[str, list[tuple[str, list[str]]]]()
    for number, step in enumerate(STEPS):
        (_, put), *reads = ((name, letters.split(", ")) for name, letters in re.findall(r"\b(\w+)\[([\w, ]*)\]", step))
        letters = [*dict.fromkeys(letter for found in (put, *(one for _, one in reads)) for letter in found)]
        known = {letter for _, found in reads for letter in found}
        reads += [("like", [letter]) for letter in put if letter not in known]
        texts[f"any{number}.yaml"] = LOOKUP.format(
            sizes=", ".join(f"{letter}_cells: {letter.upper()}" for letter in letters),
            inputs=", ".join(tensor(*read) for read in reads),
            output=tensor("y", put),
            types=", ".join(f"{name}: {'s64' if name in ('at', 'to') else kind}" for name, _ in reads),
            ranges=", ".join(f"{letter}: {letter.upper()}" for letter in letters),
            step=step,
            kind=kind,
        ).replace("op: Lookup", f"op: Any{number}")
        called[f"Any{number}"] = reads
    library, module = package(texts, tmp_path, f"any_indices_{kind}")
    for op in library.ops:
        for isa in serving_one_of_many(module, op):
            with instruction_set(module, isa):
                for extents in ((3, 7), (17, 40), (0, 2)):
                    sizes = {one: int(random.integers(*extents)) for one in "cklmn"}
                    given = [_drawn(random, name, [sizes[x] for x in found], kind) for name, found in called[op.op]]
                    given = [np.flip(one) if random.random() < 0.3 else one for one in given]
                    expected = compute_steps(op, given, {})["y"]
                    found = getattr(module, op.function)(*given, threads=2)
                    np.testing.assert_allclose(found.astype(np.float64), expected.astype(np.float64), rtol=1e-2)
                    zeros = (expected.astype(np.float64) == 0) & (op.semantics.steps[0].do.op == "sum")
                    assert (np.signbit(found) == np.signbit(expected))[zeros].all()


@pytest.mark.parametrize("form", ["at[n] + half", "half + at[n] + c", "at[n] - half - 0.5"])
def test_indices_beside_a_real_number_name_cells_where_both_make_an_integer(tmp_path: Path, form: str) -> None:
    text = LOOKUP.format(
        sizes="n_cells: N, k_cells: K, c_cells: C",
        inputs=", ".join([tensor("at", ["n"]), tensor("x", ["k", "c"])]),
        output=tensor("y", ["n", "c"]),
        types="at: s64, x: f32",
        ranges="n: N, k: K, c: C",
        step=f"y[n, c] += select({form} == k, x[k, c], 0)",
        kind="f32",
    ).replace("outputs:", "attributes: [{name: half, type: f32, required: true}]\noutputs:")
    library, module = package({"lookup.yaml": text}, tmp_path, f"real_{len(form)}")
    for half in (0.5, 1.0, -1.5):
        given = [np.arange(-3, 9), np.arange(1, 13, dtype=np.float32).reshape(4, 3)]
        expected = compute_steps(library.ops[0], given, {"half": half})["y"]
        np.testing.assert_array_equal(module.lookup(*given, half=half), expected)


def _drawn(random: np.random.Generator, name: str, shape: list[int], kind: str) -> np.ndarray:
    """Indices inside and outside of axes; numbers, some of which are infinite, NaN or -0."""
    if name in ("at", "to"):
        return np.where(random.random(shape) < 0.6, random.integers(0, 9, shape), random.choice(ANY, shape))
    numbers = np.where(
        random.random(shape) < 0.2, random.choice((np.inf, np.nan, -0.0), shape), random.integers(-3, 4, shape)
    )
    return numbers.astype(np.float32 if kind == "f32" else ml_dtypes.bfloat16)


def test_a_lookup_is_an_operand_of_its_own_type_and_has_terms_for_each_index_alone() -> None:
    reads = [("w", ["k", "c"]), ("v", ["m", "c"]), ("at", ["n"])]
    text = LOOKUP.format(
        sizes=", ".join(f"{letter}_cells: {letter.upper()}" for letter in "kcmn"),
        inputs=", ".join(tensor(*read) for read in reads),
        output=tensor("y", ["n", "m"]),
        types="w: bf16, v: bf16, at: s64",
        ranges=", ".join(f"{letter}: {letter.upper()}" for letter in "kcmn"),
        step="y[n, m] += select(at[n] == k, w[k, c] * v[m, c], 0)",
        kind="bf16",
    )
    (op,) = load_texts({"lookup.yaml": text}).ops
    assert dict(staged(op).program.narrow) == {"picked_0_": "w"}
    assert not any("K" in terms for terms in step_wrapper(op).terms)


VOTES = """op: Votes
revision: 1
summary: The weight of the rows that are greatest in each column, and how many cells each number has.
dims: {n_cells: N, c_cells: C, k_cells: K}
inputs: [{name: x, dims: {N: N, C: C}}, {name: w, dims: {N: N}}, {name: like, dims: {K: K}}]
outputs: [{name: votes, dims: {C: C}}, {name: numbers, dims: {K: K}}]
dtypes: [{x: f32, w: f32, like: f32, votes: f32, numbers: f32, accumulate: f32}]
semantics:
  ranges: {n: N, c: C, k: K}
  steps:
    - peak[n] max= x[n, c]
    - at[n] min= select(x[n, c] == peak[n], c, inf)
    - votes[c] += select(at[n] == c, w[n], 0)
    - cell[n, c] = floor(x[n, c])
    - numbers[k] += select(cell[n, c] == k, 1, 0)
    - numbers[k] += like[k]
"""


def test_what_one_phase_finds_may_name_cells_of_another(tmp_path: Path) -> None:
    """More indices than a task has, and a view that repeats them."""
    random = rng("votes")
    _, module = package({"votes.yaml": VOTES}, tmp_path, "votes")
    for shape in ((3, 7), (2, 5000), (5000, 2)):
        x = random.integers(0, 5, shape).astype(np.float32)
        w, like = random.integers(1, 4, shape[0]).astype(np.float32), np.zeros(5, np.float32)
        for given in (x, np.broadcast_to(x[:, :1], shape)):
            for threads in (1, 3):
                votes, numbers = module.votes(given, w, like, threads=threads)
                assert np.array_equal(votes, np.bincount(given.argmax(1), w, shape[1])), (shape, threads)
                assert np.array_equal(numbers, np.bincount(given.astype(int).ravel(), None, 5)), (shape, threads)
