"""Chooses the gradient of an operation: for which inputs, from which outputs, and which forward steps are recomputed.

In: an operation of steps, and the requested inputs. Out: a `Gradient`. Raises Underivable. An output of the
forward operation becomes an input if that saves work; otherwise the required steps are recomputed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from ...language import expr
from ...language.expr import Call, Expr, Read
from ...language.model import Op
from ...language.spelling import spell
from ...memo import memoised
from ..program import Program
from ..rewrites.accumulating import loose_axes
from .adjoint import Reverse
from .inverse import gathered
from .shared import shared, shortened
from .statements import PREFIXES, Gradient, Statement, Underivable, plain
from .versions import forward, prepared

REAL = ("f32", "bf16", "f16", "f64")
SHORT = 100  # maximum length of an inlined value, in characters


def rows_of(op: Op, of: Iterable[str], outputs: Iterable[str]) -> list[dict[str, str]]:
    """The rows of data types in which these inputs and outputs are real numbers."""
    names = (*of, *outputs)
    return [row for row in op.dtypes if all(row[name] in REAL for name in names)]


def gradient(op: Op, of: tuple[str, ...] = ()) -> Gradient:
    """The gradient of an operation with respect to some inputs; by default, to all that have one."""
    op = prepared(op)
    if not op.stepped:
        raise Underivable("its semantics are one `reduce`, which steps cannot say")
    inputs = tuple(t.name for t in op.data_inputs if any(row[t.name] in REAL for row in op.dtypes))
    if not inputs:
        raise Underivable("no row of data types has an input of real numbers")
    if strange := [name for name in of if name not in inputs]:
        raise Underivable(f"'{strange[0]}' is not an input of real numbers; there are {', '.join(inputs)}")
    return _gradient(op, of or inputs, inputs)


@memoised
def _gradient(op: Op, wanted: tuple[str, ...], inputs: tuple[str, ...]) -> Gradient:
    outputs = tuple(t.name for t in op.outputs if rows_of(op, wanted, (t.name,)))
    ordered = [str(a.order_of) for a in op.attributes if a.order_of in outputs]
    if ordered:
        raise Underivable(f"an attribute orders the axes of '{ordered[0]}', which an input cannot be")
    if shared := [name for name in outputs if not _sums(op, name)]:
        raise Underivable(f"'{shared[0]}' has the shape of an input that broadcasts, and is no sum that no step reads")
    if not outputs or not rows_of(op, wanted, outputs):
        raise Underivable("no row of data types has real numbers both in its inputs and in its outputs")
    moving = Reverse(op, wanted, outputs, frozenset()).active
    outputs = tuple(name for name in outputs if name in moving)
    if not outputs:
        raise Underivable("its outputs change with its inputs only at jumps: the gradient is 0 everywhere")
    taken = {*inputs, *(attribute.name for attribute in op.attributes), *forward(op).letters}
    free = [prefix for prefix in PREFIXES if not taken & {prefix + name for name in (*wanted, *outputs)}]
    tried = ([_made(op, wanted, outputs, keep, prefix) for keep in (False, True)] for prefix in free)
    found = next((made for one in tried if (made := [*filter(None, one)])), [])
    if not found:
        words = ", ".join(PREFIXES)
        message = f"an output that it needs is missing from some calls, or the names with {words} in front are taken"
        raise Underivable(message)
    best = min(found, key=lambda one: cost(op, one))
    if not best.of:
        raise Underivable("the gradient is 0 everywhere")
    return best


def _sums(op: Op, name: str) -> bool:
    """Whether an output of an input's shape, if it is one, only gets sums of what shares an element."""
    parts = forward(op).parts
    return op.tensor(name).broadcast_as is None or all(
        (part.target.tensor != name or part.operator == "sum") and name not in {read.tensor for read in part.reads}
        for part in parts
    )


def _made(op: Op, of: tuple[str, ...], outputs: tuple[str, ...], keep: bool, prefix: str) -> Gradient | None:
    """The gradient with outputs as inputs wherever possible, or only where required; None if names collide."""
    found = forward(op)
    read = {read.tensor for part in found.parts for read in part.reads}
    hidden = frozenset(t.name for t in op.outputs if t.name not in read and not keep)
    wanted = {prefix + name for name in of}
    made = pruned(Reverse(op, of, outputs, hidden, prefix).run(), wanted)
    statements = tuple(shortened(shared(inlined(made, wanted, found), found), found))
    can = {tensor.name for tensor in op.outputs if tensor.when is None and exact(op, found, tensor.name)}
    must = {part.target.tensor for part in found.parts if not again(found, part.target.tensor)}
    reused, parts = _needed(found, statements, can if keep else can & must)
    made_again = {found.parts[number].target.tensor for number in parts}
    read_again = frozenset[str]().union(*(statement.reads for statement in statements)) & found.arrays.keys()
    if made_again & must or (read_again | made_again) & {prefix + name for name in (*of, *outputs)}:
        return None
    written = {statement.target.tensor for statement in statements}
    zero = tuple(name for name in of if prefix + name not in written)
    own = tuple(name for name in of if name not in zero)
    return Gradient(own, outputs, prefix, parts, statements, reused, zero)


def exact(op: Op, found: Program, name: str) -> bool:
    """Whether the stored output equals the steps' value: extremes are compared with the elements they came from."""
    writers = [part for part in found.parts if part.target.tensor == name]
    if all(part.operator not in ("max", "min") for part in writers):
        return any(row[name] in REAL for row in op.dtypes)
    values = [formula.value for part in writers for formula in part.formulas]
    inputs = {tensor.name for tensor in op.data_inputs}
    bare = all(isinstance(value, Read) and value.tensor in inputs for value in values)
    return bare and all(
        row[name] == row[value.tensor] for row in op.dtypes for value in values if isinstance(value, Read)
    )


def again(found: Program, name: str) -> bool:
    """Whether an array can be recomputed as an intermediate: by the letters of its cells."""
    writers = [part for part in found.parts if part.target.tensor == name]
    return all(plain(found, part.target) is not None or gathered(found, part) is not None for part in writers)


def pruned(statements: Sequence[Statement], wanted: set[str]) -> list[Statement]:
    """The statements that are needed."""
    found: list[Statement] = []
    needed = set(wanted)
    for statement in reversed(statements):
        if statement.target.tensor in needed:
            found.insert(0, statement)
            needed |= statement.reads
    return found


def inlined(statements: Sequence[Statement], wanted: set[str], forward: Program) -> list[Statement]:
    """Inlines short values that one other statement reads at the same letters."""
    found = list(statements)
    for name in dict.fromkeys(statement.target.tensor for statement in statements):
        writers = [statement for statement in found if statement.target.tensor == name]
        readers = [statement for statement in found if name in statement.reads]
        if name in wanted or len(writers) != 1 or len(readers) != 1:
            continue
        (statement,), (reader,) = writers, readers
        if _fits(statement, reader) and _everywhere(statement, forward):
            target, value = statement.target, statement.cases[""]
            cases = {word: _standing(inner, target, value) for word, inner in reader.cases.items()}
            found[found.index(reader)] = replace(reader, cases=cases)
            found.remove(statement)
    return found


def _fits(statement: Statement, reader: Statement) -> bool:
    """Whether a value can be inlined: computed equally often, over the same letters."""
    target = statement.target
    reads = [r for value in reader.cases.values() for r in expr.reads(value) if r.tensor == target.tensor]
    bare = statement.op == "set" and not statement.by and not statement.where
    if not bare or len(reads) != 1 or reads[0].indices != target.indices:
        return False
    own, whole = expr.names(target), frozenset[str]().union(*map(expr.names, reader.cases.values()))
    inner = own | {name for index in reader.target.indices for name in expr.names(index)}
    value = statement.cases[""]
    return len(spell(value)) <= SHORT and own <= expr.names(value) and not _others(whole | inner, own, reader)


def _everywhere(statement: Statement, forward: Program) -> bool:
    """Whether a statement reads elements that always exist, so that it has a value in every cell."""
    reads = (read for value in statement.cases.values() for read in expr.reads(value))
    return not any(loose_axes(forward, read) for read in reads if read.tensor in forward.arrays)


def _others(names: frozenset[str], own: frozenset[str], reader: Statement) -> bool:
    """Whether a statement walks letters that a value does not have."""
    indices = [i for value in reader.cases.values() for read in expr.reads(value) for i in read.indices]
    walked = {name for index in (*indices, *reader.target.indices) for name in expr.names(index)}
    return bool(walked & names - own)


def _standing(tree: Expr, read: Read, value: Expr) -> Expr:
    return expr.changed(tree, lambda node: value if node == read else None)


def _needed(found: Program, statements: Sequence[Statement], keep: set[str]) -> tuple[frozenset[str], tuple[int, ...]]:
    """The outputs that are used, and the numbers of the recomputed forward steps."""
    own = {statement.target.tensor for statement in statements}
    wanted = {name for statement in statements for name in statement.reads} - own
    reused: set[str] = set()
    parts: list[int] = []
    for part in reversed(found.parts):
        name = part.target.tensor
        if name in wanted and name in keep:
            reused.add(name)
        elif name in wanted:
            parts.insert(0, part.number)
            wanted |= {read.tensor for read in part.reads}
    return frozenset(reused), tuple(parts)


def cost(op: Op, made: Gradient) -> tuple[int, int, int]:
    """The cost: computed functions and steps, then the number of arrays."""
    found = forward(op)
    trees = [value for statement in made.statements for value in statement.cases.values()]
    trees += [formula.value for number in made.parts for formula in found.parts[number].formulas]
    calls = sum(isinstance(node, Call) and node.function in expr.REAL_FUNCTIONS for t in trees for node in expr.walk(t))
    reads = {read.tensor for tree in trees for read in expr.reads(tree)}
    return calls + len(made.parts) + len(made.statements), len(reads), len(made.reused)
