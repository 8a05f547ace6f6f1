"""Rules of the dtype rows of operations of steps: the types of each tensor, and which are integers.

In: an operation of steps. Out: problems, each with its place.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import isinf

from ...language import expr
from ...language.dtypes import DTYPES
from ...language.expr import Binary, Call, Expr, Name, Number, Read
from ...language.kinds import Kind
from ...language.model import Op
from ...language.schema import Assignment, place
from ...language.source import Mark, Problem, unknown
from ...language.spelling import spell
from ..program import readable_lists
from ..whole import is_whole, kinds_in_steps
from .step_keys import is_number

# Functions with non-integer values, which rows that accumulate in s64 cannot use.
INTEGRAL = {name for name, dtype in expr.CONVERSIONS.items() if DTYPES[dtype].integer}
INEXACT = frozenset(expr.REAL_FUNCTIONS) - {"abs", "sign", "select"} - expr.BIT_FUNCTIONS - INTEGRAL


def dtypes(op: Op) -> Iterator[Problem]:
    """Rows of data types name every tensor, and their accumulator represents their values."""
    names = {*(tensor.name for tensor in op.tensors), "accumulate"}
    between = {made.target.tensor for step in op.semantics.steps for made in step.assignments} - names
    seen: dict[tuple[str, ...], Mark] = {}
    for row in op.dtypes:
        at = place(next(iter(row), None), op.at.key("dtypes"))
        for name, dtype in row.items():
            if name in between:
                message = f"'{name}' is an intermediate, whose values are those of `accumulate`"
                message += f"; leave it out here, and write `to_{dtype}(...)` where it is assigned to round it"
                yield Problem(place(name, at), "dtype-key", message)
                continue
            yield from unknown(name, names, place(name, at), "dtype-key", "tensor")
            legal = ("f32", "f64", "s64") if name == "accumulate" else tuple(DTYPES)
            if name in names and dtype not in legal:
                message = f"'{name}' may be {' or '.join(legal)}, not {dtype}"
                yield Problem(place(dtype, at), "dtype-value", message)
        if missing := names - row.keys():
            yield Problem(at, "dtype-missing", f"this row does not name {', '.join(sorted(missing))}")
            continue
        yield from _omitted(op, row)
        cells = tuple(row[name] for name in sorted(names - {"accumulate"}))
        if cells in seen:
            yield Problem(at, "dtype-row", f"this row of data types is a duplicate of the one at {seen[cells]}")
        seen[cells] = at
        whole = row["accumulate"] == "s64"
        made = [made for step in op.semantics.steps for made in step.assignments]
        integers = {one.target.tensor for one in made if expr.of_bits(one.value)} - {t.name for t in op.outputs}
        yield from () if whole else _bits(made, integers, at, _of_integers(op, row) | integers)
        made = [one for one in made if whole or one.target.tensor in integers]
        reason = f"the row of {at} accumulates in s64" if whole else "a step with functions of bits makes integers"
        yield from _whole(op, made, reason)
        yield from _real_inputs(op, row, at) if whole else ()
    inputs: dict[tuple[str, ...], Mark] = {}
    named = {attribute.dtype_of for attribute in op.attributes}
    for row in op.dtypes:
        at = place(next(iter(row), None), op.at.key("dtypes"))
        chosen = [t.name for t in op.tensors if t not in op.outputs or t.name in named]
        key = tuple(row.get(name, "") for name in chosen)
        if key in inputs:
            message = f"no call distinguishes this row from that of {inputs[key]}"
            yield Problem(at, "dtype-row", f"{message}; an attribute with `dtype_of` can choose an output's data type")
        inputs.setdefault(key, at)


def _omitted(op: Op, row: Mapping[str, str]) -> Iterator[Problem]:
    """Omitted inputs read as a number of their type."""
    for tensor in op.inputs:
        dtype = row[tensor.name]
        number = float(tensor.absent) if tensor.absent and is_number(tensor.absent) else 0.0
        if dtype in DTYPES and (not DTYPES[dtype].holds(number) or (isinf(number) and row["accumulate"] == "s64")):
            message = f"'{tensor.name}' is {dtype} in a row of dtypes, which has no {tensor.absent}"
            yield Problem(place(tensor.absent, tensor.at), "tensor-absent", f"{message}; choose another number")


def _of_integers(op: Op, row: Mapping[str, str]) -> set[str]:
    """The tensors and lists that hold integers in a row."""
    lists = {attribute.name or "" for attribute in readable_lists(op) if attribute.type != "f32[]"}
    return lists | {name for name, dtype in row.items() if dtype in DTYPES and DTYPES[dtype].integer}


def _bits(made: Sequence[Assignment], integers: set[str], at: Mark, whole: set[str]) -> Iterator[Problem]:
    """Functions of bits in a row of real numbers: they make an intermediate, of integers alone."""
    for assignment in made:
        target = assignment.target.tensor
        calls = [n for n in expr.walk(assignment.value) if isinstance(n, Call) and n.function in expr.BIT_FUNCTIONS]
        if target not in integers:
            for node in calls:
                message = f"{node.function}() takes integers, but the row of {at} accumulates in real numbers"
                hint = "; assign this to a name of its own and read that here, or say s64"
                yield Problem(assignment.value_at.moved(node.column), "dtype-accumulate", message + hint)
            continue
        if not calls:
            message = f"'{target}' holds integers, as another step makes it with a function of bits"
            hint = f"all steps that write it need one, as in bit_or({spell(assignment.value)}, 0)"
            yield Problem(assignment.value_at, "dtype-accumulate", f"{message}; {hint}")
        for read in dict.fromkeys(expr.reads(assignment.value)):
            if read.tensor not in whole:
                message = f"'{read.tensor}' holds real numbers in the row of {at}, but functions of bits take integers"
                yield Problem(assignment.value_at.moved(read.column), "dtype-accumulate", message)


def _whole(op: Op, assignments: Sequence[Assignment], reason: str) -> Iterator[Problem]:
    """What makes real numbers in assignments that make integers of 64 bits."""
    real = {attribute.symbol or attribute.name for attribute in op.attributes if attribute.type == "f32"}
    real_lists = {attribute.name for attribute in readable_lists(op) if attribute.type == "f32[]"}
    kinds = kinds_in_steps(op)
    for assignment in assignments:
        for node in _outside_integers(assignment.value, kinds):
            quotient = _is_quotient(node)
            wrong = quotient or (isinstance(node, Call) and node.function in (*INEXACT, "floor", "ceil"))
            wrong = wrong or (isinstance(node, Number) and not isinf(node.value) and isinstance(node.value, float))
            wrong = wrong or (isinstance(node, Name) and node.id in real)
            if wrong or (isinstance(node, Read) and node.tensor in real_lists):
                hint = "; write floor(a / b) or ceil(a / b), which divide integers" if quotient else ""
                message = f"this is a real number, but {reason}{hint}; f64 holds integers up to 2**53"
                yield Problem(assignment.value_at.moved(node.column), "dtype-accumulate", message)


def _is_quotient(node: Expr) -> bool:
    return isinstance(node, Binary) and node.op == "/"


def _real_inputs(op: Op, row: Mapping[str, str], at: Mark) -> Iterator[Problem]:
    """Inputs of real numbers whose cells a row that accumulates in s64 reads."""
    real = {t.name for t in op.inputs if row[t.name] in DTYPES and not DTYPES[row[t.name]].integer}
    for made in (made for step in op.semantics.steps for made in step.assignments):
        for read in expr.reads(made.value):
            if read.tensor in real:
                real.remove(read.tensor)
                message = f"'{read.tensor}' is {row[read.tensor]}, but the row of {at} accumulates in s64"
                hint = f"'{read.tensor}' a type of integers, or the row `accumulate: f32` or f64"
                problem = f"{message}, where real numbers are not available; give {hint}"
                yield Problem(made.value_at.moved(read.column), "dtype-accumulate", problem)


def _outside_integers(tree: Expr, kinds: Mapping[str, Kind]) -> Iterator[Expr]:
    """The nodes of a value, without indices, integers of letters and symbols, and quotients that are rounded."""
    rounded = isinstance(tree, Call) and tree.function in ("floor", "ceil")
    if rounded and is_whole(tree, kinds):
        return
    if rounded and _is_quotient(tree.arguments[0]):  # type: ignore[union-attr]
        tree = tree.arguments[0]  # type: ignore[union-attr]
    else:
        yield tree
    for child in () if isinstance(tree, Read) else expr.children(tree):
        yield from _outside_integers(child, kinds)
