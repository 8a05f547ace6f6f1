"""The kernels of operations of steps: parameters, the struct of sizes, one function of phases for each row.

In: an operation of steps and a row of data types. Out: a `StepKernel`, which templates print.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from ...derive.algebra.inside import neutral
from ...derive.narrow import dtype_of
from ...derive.phases import Phase, Staged, block_of_tasks, staged
from ...derive.program import Part
from ...derive.rewrites.growing import growing
from ...derive.rewrites.parted import parted
from ...derive.rewrites.row_blocks import one_block
from ...derive.variants import ISAS, row_name
from ...language import expr
from ...language.dtypes import DTYPES
from ...language.model import Op
from ...language.types import symbol_kinds
from ...memo import memoised
from .. import nodes
from ..nodes import Declare, Member, Name, Stmt
from . import partials, wholes
from .blocks import Blocks, blocks
from .finish import Finish
from .integers import SIZES
from .lowering import Lowering
from .needs import absence
from .orders import orders

MAX_AXES = 64


@dataclass(frozen=True)
class Parameter:
    """A pointer parameter of kernels: an input, a list, an output, or an intermediate."""

    name: str
    c_type: str
    role: str

    @property
    def reads(self) -> bool:
        """Whether kernels only read it."""
        return self.role in ("input", "list")


@dataclass(frozen=True)
class Member_:  # noqa: N801  # a member in C, next to the node of that name
    """A member of the struct of sizes: `kind` is the source of its value, `of` and `axis` its owner."""

    name: str
    # value, rank, extents, stride, word, absent, at, bytes, lanes, products, operands, blocks, each; of rank, `axis`:
    # whether axes keep order
    kind: str
    of: str
    axis: str = ""
    length: int = 0
    neutral: int = 0
    c_type: str = "int64_t"
    summary: str = ""


@dataclass(frozen=True)
class PhaseFunction:
    """One C function: a phase with its lanes along one letter; the arrays that it uses."""

    name: str
    body: tuple[Stmt, ...]
    arrays: tuple[Parameter, ...]
    private: frozenset[str]
    finishes: str = ""  # the sums that it processes elementwise
    partial: Partial | None = None  # how it takes long rows of few tasks

    @property
    def sized(self) -> bool:
        """Whether it needs the sizes, which say where arrays between steps lie, too."""
        return any(array.role == "between" for array in self.arrays) or SIZES.name in nodes.names_of(self.body)


@dataclass(frozen=True)
class Partial:
    """Rows in pieces: how many, the function whose tasks these are, and the one that joins their results."""

    count: tuple[Stmt, ...]
    pieces: PhaseFunction
    joined: PhaseFunction
    c_type: str  # of the results


@dataclass(frozen=True)
class Product:
    """A contraction that an engine may compute: its number, its arrays, and what may process its sums.

    Arrays are names, with whether each is an intermediate.
    """

    number: int
    left: tuple[str, bool]
    right: tuple[str, bool]
    sums: str
    c_type: str  # of the sums
    output: str  # the output that may receive the sums directly, '' if there is none
    finishes: tuple[PhaseFunction, ...]
    lanes: int  # the phase whose lanes select among them
    operands: tuple[tuple[str, bool], ...]  # those that may be left and right, if calls choose them


@dataclass(frozen=True)
class PhaseView:
    """A phase: a function for each letter of lanes; `finished`: the product that may run it, or -1."""

    functions: tuple[PhaseFunction, ...]
    product: Product | None
    finished: int

    @property
    def partial(self) -> bool:
        """Whether it may take rows in pieces."""
        return any(function.partial is not None for function in self.functions)

    @property
    def guard(self) -> str:
        """The condition under which its functions run."""
        return "if (product_->run == 0) " if self.product else "if (call_.pieces_ == 1) " if self.partial else ""

    @property
    def finishes(self) -> tuple[PhaseFunction, ...]:
        """The functions that may process the sums of its product."""
        return self.product.finishes if self.product is not None else ()


@dataclass(frozen=True)
class StepKernel:
    """The kernel of a row: its phases with their functions, compiled for every instruction set."""

    name: str
    dtype: str
    row: dict[str, str]
    sizes_type: str
    parameters: tuple[Parameter, ...]
    phases: tuple[PhaseView, ...]
    blocks: Blocks | None  # the phases that a call may run block by block
    private: tuple[str, ...]  # the arrays of which each worker has its own
    kernels: tuple[str, ...]  # its name for each instruction set

    @property
    def partial(self) -> bool:
        """Whether a phase may take rows in pieces."""
        return any(phase.partial for phase in self.phases)

    @property
    def product_of_blocks(self) -> int:
        """A product that runs where phases go by blocks: the memory of steps is the same for all."""
        assert self.blocks is not None
        phases = self.phases[self.blocks.first : self.blocks.last]
        return next(phase.product.number for phase in phases if phase.product is not None)


@dataclass(frozen=True)
class StepUnit:
    """The C files of an operation of steps."""

    op: Op
    sizes_type: str
    members: tuple[Member_, ...]
    kernels: tuple[StepKernel, ...]


@memoised
def step_unit(op: Op) -> StepUnit:
    """The view of an operation's kernels."""
    op = parted(op)
    kernels = tuple(step_kernel(op, row) for row in op.dtypes)
    return StepUnit(op, f"opwright_{op.function}_sizes", members(op), kernels)


def step_kernel(op: Op, row: dict[str, str]) -> StepKernel:
    """The kernel of a dtype row."""
    name = f"{op.function}_{row_name(op, row)}"
    taken = tuple(parameter for parameter in parameters(op, row) if parameter.role != "between")
    names = tuple(f"{name}_{isa.name}" for isa in ISAS if isa.serves(op, row))
    sizes = f"opwright_{op.function}_sizes"
    own = tuple(sorted(staged(op).owned()))
    return StepKernel(name, row_name(op, row), row, sizes, taken, phases_of(op, row, name), blocks(op), own, names)


def phases_of(op: Op, row: dict[str, str], name: str) -> tuple[PhaseView, ...]:
    """The phases of a kernel, with products that an engine may compute instead of some."""
    phases = staged(op).phases
    sums = [phase.contraction.target.tensor for phase in phases if phase.contraction is not None]
    views = []
    for number, phase in enumerate(phases):
        functions = tuple(_function(op, row, name, number, letter) for letter in phase.lanes or (None,))
        taken = phase.parts[0].reads[0].tensor if phase.copies else phase.finishes
        product = _product(op, row, name, number, sums) if phase.contraction is not None else None
        views.append(PhaseView(functions, product, sums.index(taken) if taken else -1))
    return tuple(views)


def _product(op: Op, row: dict[str, str], name: str, number: int, sums: list[str]) -> Product:
    found = staged(op)
    contraction = found.phases[number].contraction
    assert contraction is not None
    target = contraction.target.tensor
    after = found.phases[number + 1] if number + 1 < len(found.phases) else Phase((), ())
    finishes = tuple(_finish(op, row, name, number + 1, letter) for letter in after.lanes if after.finishes)
    copies = (phase.copies for phase in found.phases if phase.copies and phase.parts[0].reads[0].tensor == target)
    own = sums.index(target)
    others = (name for some in orders(op) if own in some.numbers for name in some.operands)
    left, right, *operands = (
        (name, found.program.arrays[name].role == "between")
        for name in (contraction.left.tensor, contraction.right.tensor, *others)
    )
    c_type, output = DTYPES[row["accumulate"]].c_type, next(copies, "") or ""
    return Product(own, left, right, target, c_type, output, finishes, number + 1, tuple(operands))


def _function(op: Op, row: dict[str, str], name: str, number: int, letter: str | None) -> PhaseFunction:
    found, phase = staged(op).along(number, letter)
    found, phase = growing(op, found, phase, row, letter, Lowering(op, row, found, phase, letter).is_number)
    if letter and block_of_tasks(found.program, phase) == letter:
        program, parts = one_block(found.program, phase.parts, letter)
        found, phase = replace(found, program=program), replace(phase, parts=parts)
    lowering = Lowering(op, row, found, phase, letter)
    own = f"{name}_{number}{f'_{letter}' if letter else ''}"
    made = _named(op, row, lowering, own)
    return replace(made, partial=_partial(op, row, lowering, own)) if letter else made


def _partial(op: Op, row: dict[str, str], whole: Lowering, name: str) -> Partial | None:
    part = partials.reduction(whole)
    if part is None or whole.phase.contraction or whole.phase.copies or whole.phase.finishes:
        return None
    assert whole.lanes is not None
    given = op, row, whole.staged, whole.phase, whole.lanes.name, part
    pieces, joined = partials.Pieces(*given), partials.Joined(*given)
    functions = _named(op, row, pieces, f"{name}_pieces"), _named(op, row, joined, f"{name}_joined")
    return Partial(partials.Pieces(*given).count(), *functions, pieces.room)


def _finish(op: Op, row: dict[str, str], name: str, number: int, letter: str) -> PhaseFunction:
    lowering = Finish(op, row, staged(op), staged(op).phases[number], letter)
    return _named(op, row, lowering, f"{name}_{number}_{letter}_of_sums", lowering.sums_of)


def _named(op: Op, row: dict[str, str], lowering: Lowering, name: str, finishes: str = "") -> PhaseFunction:
    body = lowering.body()
    arrays = tuple(
        p
        for p in parameters(op, row)
        if p.name in lowering.used and p.name != finishes and not lowering.is_number(p.name)
    )
    calls = [Declare(p.name, Member(Name("call_"), p.name)) for p in arrays if p.role != "between"]
    kept, body = wholes.inlined(calls, body, loops=1)
    named = tuple(p for p in arrays if p.role == "between" or p.name in {one.name for one in kept})
    return PhaseFunction(name, body, named, lowering.staged.private, finishes)


def parameters(op: Op, row: dict[str, str]) -> tuple[Parameter, ...]:
    """Inputs, lists, outputs, then intermediates."""
    return _parameters(op, op.dtypes.index(row))


@memoised
def _parameters(op: Op, number: int) -> tuple[Parameter, ...]:
    found, row = staged(op), op.dtypes[number]
    result = []
    for role in ("input", "list", "output", "between"):
        for array in found.arrays.values():
            if array.role == role:
                dtype = dtype_of(op, row, array, found.program)
                result.append(Parameter(array.name, DTYPES[dtype].c_type, role))
    return tuple(result)


@memoised
def members(op: Op) -> tuple[Member_, ...]:
    """The struct of sizes, which kernels of all rows share."""
    found = staged(op)
    used = _used_symbols(found)
    result = []
    counted = any(map(_counts, found.program.parts)) or any(phase.contraction for phase in found.phases)
    for symbol, kind in symbol_kinds(op).items():
        if symbol in op.runs:
            summary = f"axes of the run {symbol}"
            result.append(Member_(f"{symbol}_rank", "rank", symbol, "counted" if counted else "", summary=summary))
            result.append(Member_(f"{symbol}_extents", "extents", symbol, length=MAX_AXES, neutral=1))
        elif symbol in used:
            length = op.spatial_rank.max if kind.vector else 0
            c_type = "double" if kind.base == "real" else "int64_t"
            result.append(Member_(symbol, "value", symbol, length=length, neutral=neutral(op, symbol), c_type=c_type))
    for array in found.arrays.values():
        if array.role == "between":
            result.append(Member_(f"{array.name}_at", "at", array.name))
            continue
        for axis in array.axes:
            if axis.kind != "ones":
                length = {"run": MAX_AXES, "spatial": op.spatial_rank.max}.get(axis.kind, 0)
                result.append(Member_(f"{array.name}_{axis.name}", "stride", array.name, axis.name, length))
    words = dict.fromkeys(part.by for part in found.program.parts if part.by)
    result += [Member_(f"word_{name}", "word", name) for name in words]
    result += [Member_(absence(tensor.name), "absent", tensor.name) for tensor in op.outputs if tensor.when is not None]
    result += [Member_("task_bytes_", "bytes", "")] if found.owned() else []
    result.append(Member_("lanes_", "lanes", "", length=len(found.phases)))
    products = sum(phase.contraction is not None for phase in found.phases)
    result += [Member_("products_", "products", "", length=products, c_type="opwright_product")] if products else []
    if orders(op):
        summary = "of each product of several factors, left and right among the operands of all its pairs"
        result.append(Member_("operands_", "operands", "", length=2 * products, summary=summary))
    together = blocks(op)
    if together is not None:
        result.append(Member_("blocks_", "blocks", "", c_type="opwright_blocks"))
        result.append(Member_("each_", "each", "", length=len(together.arrays)))
    return tuple(result)


def _counts(part: Part) -> bool:
    """Whether a step numbers cells, so that axes of runs must keep their order."""
    trees = [*(guard.tree for guard in part.where), part.target, *(formula.value for formula in part.formulas)]
    return any(isinstance(node, expr.Call) and node.function == "number" for tree in trees for node in expr.walk(tree))


def _used_symbols(found: Staged) -> frozenset[str]:
    program = found.program
    trees = [axis.extent for axis in program.letters.values()]
    trees += [axis.extent for array in program.arrays.values() for axis in array.axes]
    for part in program.parts:
        trees += [guard.tree for guard in part.where] + [part.target]
        trees += [formula.value for formula in part.formulas]
    return frozenset[str]().union(*map(expr.names, trees))
