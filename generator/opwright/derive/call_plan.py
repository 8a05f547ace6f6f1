"""The order in which a call is resolved: from shapes and attributes to every named value and the output's shape.

In: an operation. Out: a tuple of steps, each of which needs only the results of earlier ones. The generated
validators follow these steps; the interpreter does not, and so is an independent check.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from ..language import expr
from ..language.expr import Binary, Expr, Name, Unary
from ..language.model import Attribute, Constraint, Dim, Let, Op, Tensor
from ..language.schema import Located
from ..language.source import Problem, SpecInvalid
from ..language.types import formulas, has_symbol, symbol_kinds, symbol_of, tells_rank
from ..memo import memoised


@dataclass(frozen=True)
class AxisBinding:
    """The fact from one axis of a tensor: `known` is compared, or `unknown` is solved from the extent.

    `inverse` says how: `same` (U), `times` (U / factor, so U = extent * factor), `divided` (U * factor), or
    `less` (U + factor).
    """

    axis: str
    extent: Located
    known: bool
    unknown: str | None = None
    inverse: str = "same"
    factor: Expr | None = None


@dataclass(frozen=True)
class BindArrangement:
    """The axes of a tensor in one of its arrangements; a tensor without arrangements has one way, named ''."""

    name: str
    axes: tuple[AxisBinding, ...]


@dataclass(frozen=True)
class ParseAttribute:
    attribute: Attribute


@dataclass(frozen=True)
class Bind:
    """Take the extents of a tensor: of an input, or of an output whose shape the call states."""

    tensor: Tensor
    arrangements: tuple[BindArrangement, ...]
    stated: bool = False


@dataclass(frozen=True)
class Extent:
    """A size that is now known must be at least its minimum."""

    role: str
    dim: Dim


@dataclass(frozen=True)
class Compute:
    symbol: str
    let: Let
    vector: bool


@dataclass(frozen=True)
class Check:
    constraint: Constraint


@dataclass(frozen=True)
class Join:
    """A size that inputs broadcast to: each of them, the axis that has it, and whether that axis may be 1 or fewer."""

    symbol: str
    axes: tuple[tuple[Tensor, str, bool], ...]


@dataclass(frozen=True)
class Stated:
    """A list gives the extents of a run; `whole` is the run with the same number of elements, '' if there is none."""

    attribute: Attribute
    symbol: str
    whole: str


Step = ParseAttribute | Bind | Extent | Compute | Check | Join | Stated


def _solve(tree: Expr, known: set[str]) -> tuple[str, str, Expr | None] | None:
    """The one unknown size of an extent, and how it follows; None if it is not a product, quotient or sum."""
    if isinstance(tree, Name):
        return tree.id, "same", None
    if not isinstance(tree, Binary):
        return None
    if tree.op == "/" and isinstance(tree.left, Name) and expr.names(tree.right) <= known:
        return tree.left.id, "times", tree.right
    for operators, inverse in ((("*",), "divided"), (("+", "-"), "less")):
        if tree.op in operators and (found := _taken_out(tree, operators, known)):
            return found[0], inverse, found[1]
    return None


def _taken_out(tree: Expr, operators: tuple[str, ...], known: set[str]) -> tuple[str, Expr | None] | None:
    """The unknown name that occurs once in a chain of operators, and the chain without it."""
    if isinstance(tree, Name):
        return tree.id, None
    if not isinstance(tree, Binary) or tree.op not in operators:
        return None
    if expr.names(tree.right) <= known:
        found = _taken_out(tree.left, operators, known)
        if found is None:
            return None
        symbol, rest = found
        if rest is not None:
            return symbol, Binary(tree.op, rest, tree.right)
        return symbol, tree.right if tree.op != "-" else Unary("-", tree.right)
    if tree.op == "-" or not expr.names(tree.left) <= known:
        return None
    found = _taken_out(tree.right, operators, known)
    return found and (found[0], tree.left if found[1] is None else Binary(tree.op, tree.left, found[1]))


def may_be_negative(op: Op, symbol: str) -> bool:
    """Whether a size is solved from an extent by a difference, or by a factor of unknown sign."""
    positive = {dim.symbol for dim in op.dims.values()}
    positive |= {symbol_of(a) for a in op.attributes if a.min is not None and a.min >= 0}
    axes = (
        axis
        for step in plan(op)
        if isinstance(step, Bind)
        for arrangement in step.arrangements
        for axis in arrangement.axes
    )
    return any(
        axis.unknown == symbol and axis.factor is not None
        and (axis.inverse == "less" or not expr.names(axis.factor) <= positive)
        for axis in axes
    )  # fmt: skip


def broadcast_sizes(op: Op) -> dict[str, tuple[tuple[Tensor, str, bool], ...]]:
    """The sizes that inputs broadcast to, each with the axes of inputs that have it."""
    found: dict[str, list[tuple[Tensor, str, bool]]] = {}
    for tensor in op.data_inputs:
        for axis, extent in tensor.dims.items():
            if isinstance(extent.tree, Name):
                found.setdefault(extent.tree.id, []).append((tensor, axis, axis in tensor.broadcast))
    return {symbol: tuple(axes) for symbol, axes in found.items() if any(broadcast for _, _, broadcast in axes)}


def _plain_first(dims: Mapping[str, Located], known: set[str]) -> list[tuple[str, Located]]:
    """The axes, those from which a size would follow behind one that has it: G * C and G say both, even if G is 0."""
    plain = {extent.tree.id for extent in dims.values() if isinstance(extent.tree, Name)} - known
    follows = {axis for axis, extent in dims.items() if not isinstance(extent.tree, Name)}
    follows = {axis for axis in follows if expr.names(dims[axis].tree) & plain}
    return sorted(dims.items(), key=lambda axis: axis[0] in follows)


def _bind(
    tensor: Tensor, known: set[str], sizes: Collection[str], stated: bool, joint: Collection[str] = ()
) -> tuple[Bind, set[str]]:
    arrangements = []
    learned: set[str] = set()
    for number, (name, dims) in enumerate(tensor.dims_by_arrangement.items()):
        axes = []
        here = set(known)
        for axis, extent in _plain_first(dims, known):
            if isinstance(extent.tree, Name) and extent.tree.id in joint:
                continue
            if expr.names(extent.tree) <= here:
                axes.append(AxisBinding(axis, extent, True))
                continue
            solved = _solve(extent.tree, here)
            if solved is None or solved[0] not in sizes:
                message = f"the extent of axis {axis} of '{tensor.name}' cannot be solved for a single unknown size"
                message += (
                    f"; give it a symbol of its own, and state in `let` or `constraints` how {extent.text} follows"
                )
                raise SpecInvalid([Problem(extent.at, "extent-unsolvable", message)])
            axes.append(AxisBinding(axis, extent, False, *solved))
            here.add(solved[0])
        arrangements.append(BindArrangement(name, tuple(axes)))
        new = here - known
        if number and new != learned:
            message = f"the arrangements of '{tensor.name}' do not determine the same sizes"
            raise SpecInvalid([Problem(tensor.at, "arrangements-differ", message)])
        learned = new
    return Bind(tensor, tuple(arrangements), stated), learned


def _solvable(op: Op, tensor: Tensor, known: set[str]) -> bool:
    """Whether each extent has one unknown size at most. A tensor of plain axes that has more waits for later inputs."""
    here = set(known)
    kinds = symbol_kinds(op)
    for _, extent in _plain_first(tensor.dims, known):
        unknown = expr.names(extent.tree) - here
        if len(unknown) > 1 and not any(kinds[name].vector for name in unknown):
            return False
        here |= unknown
    return True


def _listed(op: Op) -> list[Stated]:
    """The lists that give the extents of a run."""
    roles = [(attribute, attribute.extents_of, attribute.fills) for attribute in op.attributes if attribute.extents_of]
    return [Stated(a, op.dims[role].symbol, op.dims[whole].symbol if whole else "") for a, role, whole in roles]


def _never_known(
    lets: Mapping[str, Let], dims: Iterable[tuple[str, Dim]], constraints: Iterable[Constraint]
) -> list[Problem]:
    """Values that no call determines."""
    problems = [
        Problem(let.at, "never-known", f"'{symbol}' depends on something that no call determines")
        for symbol, let in lets.items()
    ]
    problems += [
        Problem(dim.at, "never-known", f"no input, attribute or formula determines '{dim.symbol}' ({role})")
        for role, dim in dims
    ]
    problems += [
        Problem(c.at, "never-known", f"constraint '{c.id}' depends on something that no call determines")
        for c in constraints
    ]
    return problems


@memoised
def plan(op: Op) -> tuple[Step, ...]:
    """The steps of a call. Raises SpecInvalid for values that no call determines."""
    kinds = symbol_kinds(op)
    steps: list[Step] = []
    known: set[str] = set()
    scalars = [a for a in op.attributes if a.type not in ("s64[]", "f32[]")]
    lists = [a for a in op.attributes if a.type in ("s64[]", "f32[]") and has_symbol(a)]
    for attribute in (*scalars, *lists):
        steps.append(ParseAttribute(attribute))
        if has_symbol(attribute):
            known.add(symbol_of(attribute))
    waiting = broadcast_sizes(op)

    dims = {dim.symbol: (role, dim) for role, dim in op.dims.items()}
    all_sizes = frozenset(dims)
    lets, constraints, listed = dict(op.lets), list(op.constraints), _listed(op)

    def settle() -> None:
        progress = True
        while progress:
            progress = False
            for step in [step for step in listed if step.symbol not in known and step.whole in {"", *known}]:
                steps.append(step)
                known.add(step.symbol)
            for symbol in [s for s in dims if s in known]:
                steps.append(Extent(*dims.pop(symbol)))
                progress = True
            for constraint in [c for c in constraints if c.expr and expr.names(c.expr.tree) <= known]:
                constraints.remove(constraint)
                steps.append(Check(constraint))
                progress = True
            if progress:
                continue
            for symbol, let in list(lets.items()):
                if all(expr.names(formula.tree) <= known for formula in formulas(let)):
                    steps.append(Compute(symbol, lets.pop(symbol), kinds[symbol].vector))
                    known.add(symbol)
                    progress = True
                    break

    stated_outputs = [tensor for tensor in op.outputs if op.stated_by(tensor)]
    early = bool(op.semantics.steps) and not tells_rank(op)  # attributes are all known before the first input
    pending = [*op.data_inputs, *stated_outputs]
    while pending:
        settled = known | lets.keys() if early else known
        tensor = next((one for one in pending if _solvable(op, one, settled)), pending[0])
        pending.remove(tensor)
        if early and any(expr.names(extent.tree) & lets.keys() for extent in tensor.dims.values()):
            settle()
        step, learned = _bind(tensor, known, all_sizes, tensor in stated_outputs, waiting.keys() - known)
        for symbol in learned & lets.keys():
            message = f"'{tensor.name}' already determines '{symbol}'; make the formula in shape a constraint"
            raise SpecInvalid([Problem(lets[symbol].at, "size-stated-twice", message)])
        steps.append(step)
        known |= learned
        for symbol, axes in waiting.items():
            if symbol not in known and not any(one in pending for one, _, _ in axes):
                steps.append(Join(symbol, axes))
                known.add(symbol)
        settle()
    settle()
    if problems := _never_known(lets, dims.values(), constraints):
        raise SpecInvalid(problems)
    return tuple(steps)
