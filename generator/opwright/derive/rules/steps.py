"""Rules of steps: legal reads and writes, letters, and that every call can be resolved.

In: an operation of steps with valid keys. Out: problems, each with its place.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from ...language import expr
from ...language.expr import Binary, Call, Expr, Name, Number, Read
from ...language.kinds import Kind, kind_of
from ...language.model import Op, Step, Tensor
from ...language.reserved import refusal_in_c
from ...language.schema import Assignment, Located, place
from ...language.source import Mark, Problem, SpecInvalid, suggestion, unknown
from ...language.types import symbol_kinds
from ..program import assignments, kind_of_extent, program, readable_lists
from ..whole import divisors, within_values
from .step_keys import words_of_attributes

BETWEEN = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*")
READABLE = 8  # names of what a step can read, in a refusal


def semantics(op: Op) -> Iterator[Problem]:
    """Every step by itself, in order; its reads have been written."""
    for letter, extent in op.semantics.ranges.items():
        if expr.loose_names(extent.tree) & op.runs and not isinstance(extent.tree, Name):
            yield Problem(
                extent.at, "run-arithmetic", f"letter '{letter}' walks a run, so its extent is that run alone"
            )
    found = [problem for step in op.semantics.steps for problem in _form(op, step)]
    yield from found
    if found:
        return
    written: set[str] = set()
    for step in op.semantics.steps:
        found = [problem for _, assignment in assignments(step) for problem in _step(op, step, assignment, written)]
        yield from found
        if found:
            return
        written.add(next(iter(step.assignments)).target.tensor)
    yield from _complete(op, written)


def _form(op: Op, step: Step) -> Iterator[Problem]:
    if (step.do is None) == (not step.cases) or bool(step.by) != bool(step.cases):
        yield Problem(step.at, "step-form", "a step has either `do`, or `by` with a case per word of that attribute")
        return
    words = words_of_attributes(op)
    if step.by:
        at = place(step.by, step.at)
        yield from unknown(step.by, words, at, "step-by", "string or truth attribute")
        if step.by in words and set(step.cases) != set(words[step.by]):
            wanted = ", ".join(words[step.by])
            yield Problem(at, "step-cases", f"the cases must be exactly the words of '{step.by}': {wanted}")
    first, *others = step.assignments
    for other in others:
        if (other.target, other.op) != (first.target, first.op):
            message = "all cases of a step assign to the same cells by the same operator"
            hint = "in `let`, a value with `by` and `cases` can choose an index"
            yield Problem(other.at, "step-cases", f"{message}; {hint}")


def _step(op: Op, step: Step, assignment: Assignment, written: set[str]) -> Iterator[Problem]:
    target, at = assignment.target, assignment.at
    outputs, inputs = {t.name for t in op.outputs}, {t.name for t in op.data_inputs}
    lists = {attribute.name or "" for attribute in readable_lists(op)}
    if target.tensor in inputs | lists:
        yield Problem(at, "step-target", f"'{target.tensor}' is an input; a step assigns to an output or a new name")
        return
    if target.tensor not in outputs:
        yield from _between(op, target, at)
    letters = {letter: kind_of_extent(op, extent.tree) for letter, extent in op.semantics.ranges.items()}
    scope = _scope(op, letters)
    problems = [*_cell(op, target, letters, scope, at)]
    readable = inputs | lists | written
    for read in expr.reads(assignment.value):
        where = assignment.value_at
        if read.tensor not in readable:
            made = {one.target.tensor for other in op.semantics.steps for one in other.assignments}
            known = suggestion(read.tensor, readable) or f"; it can read {', '.join(sorted(readable)[:READABLE])}"
            hint = "; no earlier step has written it" if read.tensor in outputs | made else known
            message = f"'{read.tensor}' cannot be read by this step{hint}"
            problems.append(Problem(where.moved(read.column), "step-read", message))
        else:
            problems += _cell(op, read, letters, scope, where)
    yield from problems
    if problems:
        return
    yield from _value(assignment, letters, scope)
    used = expr.names(assignment.value).union(*(expr.names(guard.tree) for guard in step.where)) & letters.keys()
    if assignment.op == "set" and (loose := used - expr.names(target)):
        message = (
            f"'=' would assign to a cell once for every {', '.join(sorted(loose))}; accumulate with +=, max= or min="
        )
        yield Problem(at, "step-letters", message)
    for guard in step.where:
        yield from _guard(guard, letters, scope)


def _between(op: Op, target: Read, at: Mark) -> Iterator[Problem]:
    """The name of an intermediate is new, and its axes are distinct letters."""
    letters = op.semantics.ranges
    indices = [index.id for index in target.indices if isinstance(index, Name) and index.id in letters]
    if len(indices) != len(target.indices) or len(set(indices)) != len(indices):
        message = (
            f"'{target.tensor}' is not an output, so its indices define its axes and must be distinct letters of ranges"
        )
        yield Problem(at, "step-target", message)
    if not BETWEEN.fullmatch(target.tensor) or len(target.tensor) > 64:
        yield Problem(
            at, "step-target", f"'{target.tensor[:70]}' is not a lower-case identifier of at most 64 characters"
        )
    if (refused := refusal_in_c(target.tensor, BETWEEN.pattern)) is not None:
        yield Problem(at, "name-reserved", refused)
    targets = [a.target for step in op.semantics.steps for a in step.assignments if a.target.tensor == target.tensor]
    extents = [[letters[i.id].tree for i in t.indices if isinstance(i, Name) and i.id in letters] for t in targets]
    if any(other != extents[0] for other in extents):
        yield Problem(at, "step-target", f"the steps that write '{target.tensor}' define different axes")


def _scope(op: Op, letters: Mapping[str, str]) -> dict[str, Kind]:
    return dict(symbol_kinds(op)) | {letter: Kind("int", kind != "one") for letter, kind in letters.items()}


def _cell(op: Op, read: Read, letters: Mapping[str, str], scope: Mapping[str, Kind], at: Mark) -> Iterator[Problem]:
    """An element has one index per axis of its array, each of the kind of its axis."""
    array = program(op).arrays[read.tensor]
    at = at.moved(read.column)
    if len(read.indices) != len(array.axes):
        names = ", ".join(axis.name for axis in array.axes)
        wanted = f"{len(array.axes)} {'index' if len(array.axes) == 1 else 'indices'} ({names})"
        yield Problem(at, "semantics-indices", f"'{read.tensor}' takes {wanted}, not {len(read.indices)}")
        return
    for axis, index in zip(array.axes, read.indices, strict=True):
        yield from _index(op, read, axis.name, axis.kind, axis.extent, index, letters, scope, at)


def _index(
    op: Op,
    read: Read,
    axis: str,
    kind: str,
    extent: Expr,
    index: Expr,
    letters: Mapping[str, str],
    scope: Mapping[str, Kind],
    at: Mark,
) -> Iterator[Problem]:
    run_letters = {letter for letter, of in letters.items() if of == "run"}
    alone = expr.loose_names(index) & (run_letters | op.runs)
    if kind == "ones":
        if index != Number(0):
            message = f"axis {axis} of '{read.tensor}' has extent 1 for each axis of a run; its index is 0"
            yield Problem(at, "semantics-run", message)
        return
    if kind == "run":
        ranges = op.semantics.ranges
        if isinstance(index, Name) and index.id in run_letters and ranges[index.id].tree == extent:
            return
        if alone or isinstance(index, Name):
            message = (
                f"axis {axis} of '{read.tensor}' is a run: its index is a letter of that run alone, or the number of"
            )
            yield Problem(at, "semantics-run", f"{message} a cell in it, such as number(x)")
            return
    elif alone:
        yield Problem(
            at, "semantics-run", f"axis {axis} of '{read.tensor}' is not a run, so a letter of a run cannot index it"
        )
        return
    try:
        found = kind_of(index, scope, at.moved(-read.column))
    except SpecInvalid as invalid:
        yield from invalid.problems
        return
    if inner := expr.reads(index):
        name = inner[0].tensor
        message = f"the index of axis {axis} of '{read.tensor}' reads an array; compare that with a letter of the axis"
        message += ": `dst[n] += select(at[n] == k, src[k], 0)`"
        if name in symbol_kinds(op):
            message = f"{name} is no array: it stands for its entry of each axis; write {name}"
        yield Problem(at, "semantics-index", message)
        return
    if found.base != "int":
        yield Problem(at, "semantics-index", f"the index of axis {axis} of '{read.tensor}' is not an integer")
    elif found.vector != (kind == "spatial"):
        wanted = "per spatial axis" if kind == "spatial" else "one value"
        yield Problem(at, "semantics-vector", f"the index of axis {axis} of '{read.tensor}' must be {wanted}")
    yield from _integers(index, set(letters), at)
    yield from _numbers(index, letters, at.moved(-read.column))


def _integers(tree: Expr, letters: set[str], at: Mark) -> Iterator[Problem]:
    """Indices and guards are printable as C: sums, products, floor, ceil, %, min and max; divisors use symbols only."""
    for node in expr.walk(tree):
        calls = isinstance(node, Call) and node.function not in ("min", "max", "floor", "ceil", "prod", "number")
        if isinstance(node, Read) or calls:
            yield Problem(at, "semantics-index", "an index may only use + - * % floor ceil min max prod and number")
    yield from _quotients(tree, letters, at, "index")


def _quotients(tree: Expr, letters: set[str], at: Mark, what: str) -> Iterator[Problem]:
    """Divisors of integers use symbols only, which a call can check; quotients with letters must be rounded."""
    if any(expr.names(divisor) & letters for divisor in divisors(tree)):
        hint = "" if what != "value" else "; a real number in the quotient, as in floor((m + 0.0) / n), makes it real"
        yield Problem(at, f"semantics-{what}", f"an integer divisor may contain symbols, but no letters{hint}")
    floored = {id(c.arguments[0]) for c in expr.walk(tree) if isinstance(c, Call) and c.function in ("floor", "ceil")}
    for node in expr.walk(tree):
        if isinstance(node, Binary) and node.op == "/" and id(node) not in floored and expr.names(node.left) & letters:
            yield Problem(at, f"semantics-{what}", "a quotient of letters may leave a remainder; write floor(a / b)")


def _value(assignment: Assignment, letters: Mapping[str, str], scope: Mapping[str, Kind]) -> Iterator[Problem]:
    at = assignment.value_at
    try:
        kind = kind_of(assignment.value, scope, at, step=True)
    except SpecInvalid as invalid:
        yield from invalid.problems
        return
    if kind.vector:
        advice = "; of a letter x of several axes, number(x) is one value"
        yield Problem(at, "semantics-value", f"a cell holds one value, but this is {kind}{advice}")
    if kind.base == "bool" and assignment.op != "set":
        message = "a truth value is assigned with '='; other operators combine numbers, such as select(..., 1, 0)"
        yield Problem(at, "semantics-value", message)
    yield from _numbers(assignment.value, letters, at)
    for node in expr.walk(assignment.value):
        if isinstance(node, Call) and node.function in ("any", "all", "scaled"):
            message = f"'{node.function}' is not a function of values"
            if node.function != "scaled":
                message += "; `where` takes conditions, each of which must hold on every spatial axis"
            yield Problem(at.moved(node.column), "semantics-value", message)
    for tree in within_values(assignment.value, scope):
        yield from _quotients(tree, set(letters), at, "value")


def _guard(guard: Located, letters: Mapping[str, str], scope: Mapping[str, Kind]) -> Iterator[Problem]:
    try:
        kind = kind_of(guard.tree, scope, guard.at)
    except SpecInvalid as invalid:
        yield from invalid.problems
        return
    runs_used = {letter for letter, of in letters.items() if of == "run"} & expr.loose_names(guard.tree)
    yield from _numbers(guard.tree, letters, guard.at)
    for letter in sorted(runs_used):
        message = f"'{letter}' is a letter of several axes; number({letter}) is one value, which where can compare"
        yield Problem(guard.at, "semantics-where", message)
    if kind.base != "bool":
        yield Problem(guard.at, "semantics-where", f"where compares integers of letters and symbols; this is {kind}")
    for node in expr.walk(guard.tree):
        real = isinstance(node, Number) and isinstance(node.value, float)
        if (
            real
            or isinstance(node, Read)
            or (isinstance(node, Call) and node.function not in ("min", "max", "floor", "ceil", "number"))
        ):
            message = "where compares integers, axis by axis, made with + - * % floor ceil min max and number"
            yield Problem(guard.at.moved(node.column), "semantics-where", message)
    yield from _quotients(guard.tree, set(letters), guard.at, "where")


def _numbers(tree: Expr, letters: Mapping[str, str], at: Mark) -> Iterator[Problem]:
    """number() takes only letters."""
    for node in expr.walk(tree):
        if isinstance(node, Call) and node.function in expr.LETTER_FUNCTIONS:
            for argument in node.arguments:
                if not isinstance(argument, Name) or argument.id not in letters:
                    message = f"'{node.function}' takes letters of ranges, as in {node.function}(k)"
                    yield Problem(at.moved(argument.column), "step-number", message)


def _complete(op: Op, written: set[str]) -> Iterator[Problem]:
    """Every output is written, and every input and letter is used."""
    for tensor in op.outputs:
        if tensor.name not in written:
            yield Problem(tensor.at, "output-unwritten", f"no step writes the output '{tensor.name}'")
    parts = program(op).parts
    read = {found.tensor for part in parts for found in part.reads}
    for tensor in op.data_inputs:
        if tensor.name not in read and not tensor.optional and not _tells(op, tensor):
            yield Problem(tensor.at, "input-unused", f"no step reads the required input '{tensor.name}'")
    used = {letter for part in parts for letter in part.letters}
    for letter, extent in op.semantics.ranges.items():
        if letter not in used:
            yield Problem(extent.at, "letter-unused", f"no step uses the letter '{letter}'")


def _tells(op: Op, tensor: Tensor) -> bool:
    """Whether an input that no step reads is needed to determine a shape, a size or a row of dtypes."""
    if tensor.optional or tensor.when is not None:
        return False
    if any(output.broadcast_as == tensor.name for output in op.outputs):
        return True
    others = [t for t in op.data_inputs if t is not tensor and not t.optional and t.when is None]
    known = {extent.tree for other in others for axis, extent in other.dims.items() if axis not in other.broadcast}
    rows = {tuple(row.get(other.name) for other in others) for row in op.dtypes}
    sizes = any(isinstance(extent.tree, Name) and extent.tree not in known for extent in tensor.dims.values())
    return sizes or len(rows) < len(op.dtypes)
