"""Rules of operations whose semantics are steps: what each key may say, and what each step may read and write.

In: an operation whose entries are complete. Out: problems. What steps cannot say yet is refused here, with its place.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from ..language import expr
from ..language.expr import Binary, Call, Expr, Kind, Name, Number, Read
from ..language.model import Attribute, Op, Step, Tensor
from ..language.schema import Assignment, Located, place
from ..language.source import Mark, Problem, SpecInvalid, suggestion
from .call_plan import symbol_kinds
from .program import assignments, kind_of_extent, program, readable_lists

BETWEEN = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*")
# Functions whose values are no integers, so that rows that accumulate in s64 cannot have them.
INEXACT = frozenset(expr.REAL_FUNCTIONS) - {"abs", "sign", "select"}


def _unknown(word: str, known: Iterable[str], at: Mark, rule: str, what: str) -> Iterator[Problem]:
    choices = sorted(set(known))
    if word not in choices:
        yield Problem(at, rule, f"there is no {what} '{word}'{suggestion(word, choices)}")


# Keys.


def counted(op: Op) -> Iterator[Problem]:
    """What operations of steps must have, and what goes with `reduce` only."""
    if not op.outputs:
        yield Problem(op.at.key("outputs"), "one-output", "an operation has at least one output")
    if not op.inputs:
        yield Problem(op.at.key("inputs"), "one-input", "an operation reads at least one input")
    if not op.dtypes:
        yield Problem(op.at.key("dtypes"), "dtypes-none", "at least one row of data types is needed")
    said = op.semantics
    for key in ("reduce", "finish", "where", "init"):
        if key in dict(said.at.keys):
            message = f"'{key}' is a key of semantics with one `reduce`; a step says it itself"
            yield Problem(said.at.key(key), "steps-key", message)
    for key in ("normal_form", "classes"):
        if getattr(op, key):
            yield Problem(op.at.key(key), "steps-key", f"'{key}' is made from `reduce`; steps do not have it yet")
    for tensor in (*op.inputs, *op.outputs):
        for key in ("arrangements", "view", "shape_of", "parameter"):
            if getattr(tensor, key):
                yield Problem(tensor.at.key(key), "steps-key", f"'{key}' goes with `reduce`; steps do not have it yet")
    for attribute in op.attributes:
        if attribute.shape_of:
            yield Problem(attribute.at, "steps-key", "'shape_of' goes with `reduce`; steps do not have it yet")
    if op.spatial_rank.min > op.spatial_rank.max:
        message = "the least number of spatial axes is greater than the greatest"
        yield Problem(op.spatial_rank.at, "spatial-rank", message)


def tensors(op: Op) -> Iterator[Problem]:
    """Inputs and outputs: axes, layouts, which axes broadcast, which calls have them."""
    optional = False
    for tensor in op.inputs:
        absent = tensor.optional or tensor.when is not None
        if optional and not absent:
            yield Problem(tensor.at, "input-order", f"the required input '{tensor.name}' stands after an optional one")
        optional = optional or absent
        if tensor.absent is not None and not _is_number(tensor.absent):
            yield Problem(place(tensor.absent, tensor.at), "tensor-absent", "`absent` is a number, such as 0 or 1")
        if tensor.absent is not None and not tensor.optional:
            yield Problem(tensor.at, "tensor-absent", f"'{tensor.name}' is never left out; make it `optional` too")
    for tensor in op.outputs:
        if tensor.optional or tensor.absent or tensor.broadcast:
            message = "an output is not optional and does not broadcast; `when` says which calls have it"
            yield Problem(tensor.at, "output-key", message)
    for tensor in op.tensors:
        yield from _axes(op, tensor)
    yield from _attributes(op)


def _is_number(text: str) -> bool:
    try:
        return abs(float(text)) < 1e30
    except ValueError:
        return False


def _axes(op: Op, tensor: Tensor) -> Iterator[Problem]:
    if not tensor.dims:
        yield Problem(tensor.at, "tensor-axes", f"'{tensor.name}' needs dims: at least one axis or run of axes")
    for axis in tensor.broadcast:
        yield from _unknown(axis, tensor.dims, place(axis, tensor.at), "tensor-broadcast", f"axis of '{tensor.name}'")
    words = _words(op)
    for name, word in tensor.broadcast_if.items():
        yield from _unknown(name, words, place(name, tensor.at), "tensor-broadcast", "string attribute")
        yield from _unknown(word, words.get(name, ()), place(word, tensor.at), "tensor-broadcast", f"word of '{name}'")
    if len(tensor.broadcast_if) > 1 or (tensor.broadcast_if and not tensor.broadcast):
        yield Problem(tensor.at, "tensor-broadcast", "`broadcast_if` names one attribute, for the axes of `broadcast`")
    if tensor.layout is None:
        return
    at = place(tensor.layout, tensor.at)
    if tensor.layout not in words:
        yield from _unknown(tensor.layout, words, at, "layout-attribute", "string or truth attribute")
        return
    rows = op.layouts.get(tensor.layout, {})
    for word in words[tensor.layout]:
        left = {axis for axis, extent in tensor.dims.items() if _is_ones(extent.tree)} - set(rows.get(word, ()))
        if word not in rows:
            message = f"layouts has no row for the word '{word}' of '{tensor.layout}'{suggestion(word, rows)}"
            yield Problem(at, "layout-row", message)
        elif sorted((*rows[word], *left)) != sorted(tensor.dims):
            found, wanted = ", ".join(rows[word]), ", ".join(tensor.dims)
            message = f"layout {word} orders the axes {found}, but '{tensor.name}' has {wanted}"
            yield Problem(at, "layout-axes", f"{message}; only axes of extent 1 or ones(...) may be left out")


def _is_ones(tree: Expr) -> bool:
    return tree == Number(1) or (isinstance(tree, Call) and tree.function == "ones")


def _words(op: Op) -> dict[str, list[str]]:
    """The words of string attributes, and those of truth attributes."""
    found = {a.name or "": [v.value for v in a.values or ()] for a in op.attributes if a.type == "string"}
    return found | {a.name or "": ["false", "true"] for a in op.attributes if a.type == "bool"}


def _attributes(op: Op) -> Iterator[Problem]:
    dims = op.dims
    scalars = {dim.symbol for dim in dims.values() if not dim.per_axis and not dim.run}
    for attribute in op.attributes:
        name = attribute.name or ""
        if attribute.locates is not None:
            yield from _unknown(attribute.locates, dims, place(attribute.locates, attribute.at), "locates", "size")
            dim = dims.get(attribute.locates)
            if attribute.type not in ("s64", "s64[]") or (dim and dim.per_axis):
                message = f"'{name}' locates an axis as an s64, or the axes of a run as an s64[]"
                yield Problem(attribute.at, "locates", message)
            elif dim and attribute.type == "s64[]" and not dim.run:
                yield Problem(attribute.at, "locates", f"'{attribute.locates}' has one axis; make '{name}' an s64")
        if attribute.dtype_of is not None:
            outputs = [tensor.name for tensor in op.outputs]
            at = place(attribute.dtype_of, attribute.at)
            yield from _unknown(attribute.dtype_of, outputs, at, "dtype-of", "output")
            wanted = {row.get(attribute.dtype_of, "") for row in op.dtypes}
            if {value.value for value in attribute.values or ()} != wanted:
                message = f"the values of '{name}' are the data types of its output: {', '.join(sorted(wanted))}"
                yield Problem(attribute.at, "dtype-of", message)
        if attribute.per is not None:
            yield from _unknown(attribute.per, scalars, place(attribute.per, attribute.at), "attribute-per", "size")
        if attribute.type == "f32[]" and attribute.per is None:
            yield Problem(attribute.at, "attribute-per", f"'{name}' needs `per`: the size that it has an entry for")


def dtypes(op: Op) -> Iterator[Problem]:
    """Rows of data types name every tensor, and make values that their accumulator can hold."""
    names = {*(tensor.name for tensor in op.tensors), "accumulate"}
    seen: dict[tuple[str, ...], Mark] = {}
    for row in op.dtypes:
        at = place(next(iter(row), None), op.at.key("dtypes"))
        for name, dtype in row.items():
            yield from _unknown(name, names, place(name, at), "dtype-key", "tensor")
            legal = ("f32", "f64", "s64") if name == "accumulate" else expr_dtypes()
            if name in names and dtype not in legal:
                message = f"'{name}' may be {' or '.join(legal)}, not {dtype}"
                yield Problem(place(dtype, at), "dtype-value", message)
        if missing := names - row.keys():
            yield Problem(at, "dtype-missing", f"this row does not say {', '.join(sorted(missing))}")
            continue
        cells = tuple(row[name] for name in sorted(names - {"accumulate"}))
        if cells in seen:
            yield Problem(at, "dtype-row", f"this row of data types stands here a second time, after {seen[cells]}")
        seen[cells] = at
        if row["accumulate"] == "s64":
            yield from _whole(op, at)
    inputs: dict[tuple[str, ...], Mark] = {}
    told = {attribute.dtype_of for attribute in op.attributes}
    for row in op.dtypes:
        at = place(next(iter(row), None), op.at.key("dtypes"))
        chosen = [t.name for t in op.tensors if t not in op.outputs or t.name in told]
        key = tuple(row.get(name, "") for name in chosen)
        if key in inputs:
            message = f"a call cannot tell this row from that of {inputs[key]}"
            yield Problem(at, "dtype-row", f"{message}; an attribute with `dtype_of` can choose an output's data type")
        inputs.setdefault(key, at)


def expr_dtypes() -> tuple[str, ...]:
    """The data types that tensors of steps may have."""
    return ("f32", "bf16", "f16", "f64", "s32", "s8", "u8", "boolean")


def _whole(op: Op, row: Mark) -> Iterator[Problem]:
    """Steps that make real numbers, which a row that accumulates in s64 cannot hold."""
    real = {attribute.symbol or attribute.name for attribute in op.attributes if attribute.type == "f32"}
    real_lists = {attribute.name for attribute in readable_lists(op) if attribute.type == "f32[]"}
    for step in op.semantics.steps:
        for assignment in step.assignments:
            for node in _outside_indices(assignment.value):
                wrong = isinstance(node, Call) and node.function in INEXACT
                wrong = wrong or (isinstance(node, Binary) and node.op == "/")
                wrong = wrong or (isinstance(node, Number) and isinstance(node.value, float))
                wrong = wrong or (isinstance(node, Name) and node.id in real)
                if wrong or (isinstance(node, Read) and node.tensor in real_lists):
                    at = assignment.value_at.moved(node.column)
                    message = f"this makes real numbers, but the row of {row} accumulates in s64"
                    yield Problem(at, "dtype-accumulate", message)


def _outside_indices(tree: Expr) -> Iterator[Expr]:
    yield tree
    quotient = isinstance(tree, Call) and tree.function in ("floor", "ceil")
    for child in () if isinstance(tree, Read) or quotient else expr.children(tree):
        yield from _outside_indices(child)


# Runs in expressions over a call.


def runs(op: Op, expressions: Iterable[tuple[Located, str]]) -> Iterator[Problem]:
    """A run stands for itself, in ones() or in prod(): nothing reckons with single axes of it."""
    for located, what in expressions:
        tree = located.tree
        inner = tree.arguments[0] if isinstance(tree, Call) and tree.function == "ones" else tree
        if isinstance(inner, Name):
            continue
        for node in _bare(tree):
            if node.id in op.runs:
                message = f"{what} reckons with '{node.id}', which is a run of axes; only prod({node.id}) is a number"
                yield Problem(located.at.moved(node.column), "run-arithmetic", message)


def _bare(tree: Expr) -> Iterator[Name]:
    """The names of a tree that stand not alone in prod()."""
    if isinstance(tree, Name):
        yield tree
    alone = isinstance(tree, Call) and tree.function == "prod" and isinstance(tree.arguments[0], Name)
    for child in () if alone else expr.children(tree):
        yield from _bare(child)


# Steps.


def semantics(op: Op) -> Iterator[Problem]:
    """Every step by itself, in order; what it reads has been written."""
    for letter, extent in op.semantics.ranges.items():
        if expr.loose_names(extent.tree) & op.runs and not isinstance(extent.tree, Name):
            yield Problem(extent.at, "run-arithmetic", f"letter '{letter}' walks a run, so its extent is that run alone")
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
    words = _words(op)
    if step.by:
        at = place(step.by, step.at)
        yield from _unknown(step.by, words, at, "step-by", "string or truth attribute")
        if step.by in words and set(step.cases) != set(words[step.by]):
            wanted = ", ".join(words[step.by])
            yield Problem(at, "step-cases", f"the cases must be exactly the words of '{step.by}': {wanted}")
    first, *others = step.assignments
    for other in others:
        if (other.target, other.op) != (first.target, first.op):
            yield Problem(other.at, "step-cases", "all cases of a step assign to the same cells by the same operator")


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
            later = read.tensor in outputs or BETWEEN.fullmatch(read.tensor) is not None and read.tensor == target.tensor
            hint = "; no step before has written it" if later else suggestion(read.tensor, readable)
            message = f"'{read.tensor}' is nothing that this step can read{hint}"
            problems.append(Problem(where.moved(read.column), "step-read", message))
        else:
            problems += _cell(op, read, letters, scope, where)
    yield from problems
    if problems:
        return
    yield from _value(assignment, letters, scope)
    used = expr.names(assignment.value).union(*(expr.names(guard.tree) for guard in step.where)) & letters.keys()
    if assignment.op == "set" and (loose := used - expr.names(target)):
        message = f"'=' would give a cell a value for every {', '.join(sorted(loose))}; add (+=) or choose (max=, min=)"
        yield Problem(at, "step-letters", message)
    for guard in step.where:
        yield from _guard(guard, letters, scope)


def _between(op: Op, target: Read, at: Mark) -> Iterator[Problem]:
    """A name that steps give themselves: a new one, whose axes are distinct letters."""
    letters = op.semantics.ranges
    indices = [index.id for index in target.indices if isinstance(index, Name) and index.id in letters]
    if len(indices) != len(target.indices) or len(set(indices)) != len(indices):
        message = f"'{target.tensor}' is no output, so that its indices make its axes: distinct letters of ranges"
        yield Problem(at, "step-target", message)
    if not BETWEEN.fullmatch(target.tensor):
        yield Problem(at, "step-target", f"'{target.tensor}' is no lower-case identifier")
    targets = [a.target for step in op.semantics.steps for a in step.assignments if a.target.tensor == target.tensor]
    extents = [[letters[i.id].tree for i in t.indices if isinstance(i, Name) and i.id in letters] for t in targets]
    if any(other != extents[0] for other in extents):
        yield Problem(at, "step-target", f"the steps that write '{target.tensor}' give it different axes")


def _scope(op: Op, letters: Mapping[str, str]) -> dict[str, Kind]:
    kinds = {symbol: kind for symbol, kind in symbol_kinds(op).items()}
    return kinds | {letter: Kind("int", kind != "one") for letter, kind in letters.items()}


def _cell(op: Op, read: Read, letters: Mapping[str, str], scope: Mapping[str, Kind], at: Mark) -> Iterator[Problem]:
    """One cell: as many indices as its array has axes, each of the kind of its axis."""
    array = program(op).arrays[read.tensor]
    at = at.moved(read.column)
    if len(read.indices) != len(array.axes):
        names = ", ".join(axis.name for axis in array.axes)
        yield Problem(at, "semantics-indices", f"'{read.tensor}' takes {len(array.axes)} indices ({names})")
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
    if kind == "run":
        ranges = op.semantics.ranges
        of_run = extent.arguments[0] if isinstance(extent, Call) else extent
        if not isinstance(index, Name) or index.id not in run_letters or ranges[index.id].tree != of_run:
            message = f"axis {axis} of '{read.tensor}' is a run, so that its index is a letter of that run alone"
            yield Problem(at, "semantics-run", message)
        return
    if expr.names(index) & (run_letters | op.runs):
        yield Problem(at, "semantics-run", f"axis {axis} of '{read.tensor}' is no run, so no letter of a run walks it")
        return
    try:
        found = expr.kind_of(index, scope, at.moved(-read.column))
    except SpecInvalid as invalid:
        yield from invalid.problems
        return
    if found.base != "int":
        yield Problem(at, "semantics-index", f"the index of axis {axis} of '{read.tensor}' is no integer")
    elif found.vector != (kind == "spatial"):
        message = f"the index of axis {axis} of '{read.tensor}' must be {'per spatial axis' if kind != 'one' else 'one value'}"
        yield Problem(at, "semantics-vector", message)
    yield from _integers(index, set(letters), at)


def _integers(tree: Expr, letters: set[str], at: Mark) -> Iterator[Problem]:
    """Indices and guards are printed as C: sums, products, floor, ceil, %, min and max; divisors are of symbols."""
    for node in expr.walk(tree):
        calls = isinstance(node, Call) and node.function not in ("min", "max", "floor", "ceil", "prod")
        if isinstance(node, Read) or calls:
            yield Problem(at, "semantics-index", "an index is made with + - * % floor ceil min max and prod")
        if isinstance(node, Binary) and node.op in "/%" and expr.names(node.right) & letters:
            yield Problem(at, "semantics-index", "a divisor in an index is made of symbols, not of letters")
        if isinstance(node, Call) and node.function in ("floor", "ceil"):
            continue
    floored = {id(c.arguments[0]) for c in expr.walk(tree) if isinstance(c, Call) and c.function in ("floor", "ceil")}
    for node in expr.walk(tree):
        if isinstance(node, Binary) and node.op == "/" and id(node) not in floored and expr.names(node.left) & letters:
            yield Problem(at, "semantics-index", "a quotient of letters may leave a remainder; say floor(a / b)")


def _value(assignment: Assignment, letters: Mapping[str, str], scope: Mapping[str, Kind]) -> Iterator[Problem]:
    at = assignment.value_at
    try:
        kind = expr.kind_of(assignment.value, scope, at, step=True)
    except SpecInvalid as invalid:
        yield from invalid.problems
        return
    if kind.vector:
        yield Problem(at, "semantics-value", f"a cell takes one value, but this is {kind}")
    if kind.base == "bool" and assignment.op != "set":
        yield Problem(at, "semantics-value", "a truth value is assigned with '='; to count, add select(..., 1, 0)")
    for node in expr.walk(assignment.value):
        if isinstance(node, Call) and node.function in ("any", "all"):
            yield Problem(at.moved(node.column), "semantics-value", f"'{node.function}' is no function of values")


def _guard(guard: Located, letters: Mapping[str, str], scope: Mapping[str, Kind]) -> Iterator[Problem]:
    try:
        kind = expr.kind_of(guard.tree, scope, guard.at)
    except SpecInvalid as invalid:
        yield from invalid.problems
        return
    runs_used = {letter for letter, of in letters.items() if of == "run"} & expr.names(guard.tree)
    if kind.base != "bool" or runs_used:
        yield Problem(guard.at, "semantics-where", f"where compares integers of letters and symbols; this is {kind}")
    for node in expr.walk(guard.tree):
        real = isinstance(node, Number) and isinstance(node.value, float)
        if real or isinstance(node, Read) or (isinstance(node, Call) and node.function not in ("min", "max", "floor", "ceil")):
            message = "where compares integers, axis by axis, made with + - * % floor ceil min and max"
            yield Problem(guard.at.moved(node.column), "semantics-where", message)


def _complete(op: Op, written: set[str]) -> Iterator[Problem]:
    """Every output is written, every input and every letter is used."""
    for tensor in op.outputs:
        if tensor.name not in written:
            yield Problem(tensor.at, "output-unwritten", f"no step writes the output '{tensor.name}'")
    parts = program(op).parts
    read = {found.tensor for part in parts for found in part.reads}
    for tensor in op.data_inputs:
        if tensor.name not in read and not tensor.optional:
            yield Problem(tensor.at, "input-unused", f"no step reads the required input '{tensor.name}'")
    used = {letter for part in parts for letter in part.letters}
    for letter, extent in op.semantics.ranges.items():
        if letter not in used:
            yield Problem(extent.at, "letter-unused", f"no step uses the letter '{letter}'")


def list_attribute(op: Op, name: str) -> Attribute | None:
    """The attribute that steps read by an index under this name."""
    return next((attribute for attribute in readable_lists(op) if attribute.name == name), None)


def calls(op: Op) -> Iterator[Problem]:
    """Every call can be understood, and every kernel printed."""
    yield from ()
