"""The view of one operation's reference page: the content of its sections, from the spec alone.

In: an operation, its Python view and its kernels. Out: a `Page` of plain texts. The template escapes all of them
with the filters `markdown` and `code`; formulas come from printing.latex, which prints names and numbers only.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from ..derive.variants import ISAS, row_name
from ..language.library import Page
from ..language.model import Attribute, Op, Tensor
from ..language.schema import Located
from ..language.types import symbol_of
from . import prose, split_prose
from .kernels import Kernel
from .printing import latex
from .python_module import Wrapper
from .python_signature import parameter_name

TYPES = {"s64": "integer", "s64[]": "integers", "string": "text", "f32": "number"}


@dataclass(frozen=True)
class TensorEntry:
    """A row of the inputs' or outputs' table."""

    position: int
    name: str
    needed: str
    layout: str
    meaning: str


@dataclass(frozen=True)
class ShapeEntry:
    """The shape of a tensor in one layout word and one arrangement."""

    tensor: str
    arrangement: str
    word: str
    order: str
    shape: str


@dataclass(frozen=True)
class ArrangementEntry:
    """The index of an element in view letters."""

    tensor: str
    name: str
    element: str
    index: str
    meaning: str


@dataclass(frozen=True)
class AttributeEntry:
    """A row of the attributes' table. `words` are pairs of a value and its aliases."""

    name: str
    symbol: str
    type: str
    words: tuple[tuple[str, tuple[str, ...]], ...]
    default: str
    length: str
    limits: str
    meaning: str
    refused: tuple[tuple[str, str], ...]
    reason: str


@dataclass(frozen=True)
class FormulaEntry:
    """A named value: one formula, or one per word of an attribute."""

    symbol: str
    meaning: str
    by: str
    cases: tuple[tuple[str, str, str], ...]  # word or '', text, LaTeX
    source: str


@dataclass(frozen=True)
class RuleEntry:
    """A constraint, or a minimum extent."""

    id: str
    say: str
    condition: str
    argument: str
    nearest: str


@dataclass(frozen=True)
class KernelEntry:
    """The kernels of one group class and one layout: a name per dtype row and instruction set."""

    name: str
    dtype: str
    words: str
    group_class: str
    about: str


@dataclass(frozen=True)
class FastEntry:
    """The fast kernels of one instruction set."""

    isa: str
    dtypes: str
    exception: str


@dataclass(frozen=True)
class ReferencePage:
    """The content of a reference page, section by section."""

    op: Op
    signature: tuple[str, ...]
    sizes: tuple[tuple[str, str, str, int, str], ...]
    statement: str
    statement_latex: str
    ranges: str
    where: tuple[str, ...]
    finish: str
    finish_latex: str
    vectors: str
    inputs: tuple[TensorEntry, ...]
    outputs: tuple[TensorEntry, ...]
    shapes: tuple[ShapeEntry, ...]
    arrangements: tuple[ArrangementEntry, ...]
    attributes: tuple[AttributeEntry, ...]
    values: tuple[FormulaEntry, ...]
    padding: tuple[FormulaEntry, ...]
    shape: tuple[FormulaEntry, ...]
    rules: tuple[RuleEntry, ...]
    dtypes: tuple[tuple[str, ...], ...]
    dtype_columns: tuple[str, ...]
    classes: tuple[tuple[str, str, str], ...]
    kernels: tuple[KernelEntry, ...]
    fast: tuple[FastEntry, ...]
    relations: tuple[tuple[str, str, str], ...]
    splits: tuple[tuple[str, str], ...]
    sources: tuple[tuple[str, Page | None], ...]


def page(op: Op, wrapped: Wrapper, kernels: Sequence[Kernel], pages: Mapping[str, Page]) -> ReferencePage:
    """The reference page of an operation."""
    semantics = op.semantics
    return ReferencePage(
        op=op,
        signature=_signature(op, wrapped),
        sizes=tuple(
            (dim.symbol, role, "yes" if dim.per_axis else "no", dim.min or 0, dim.summary or "")
            for role, dim in op.dims.items()
        ),
        statement=semantics.assignment.text,
        statement_latex=_statement_latex(op),
        ranges=prose.ranges(op),
        where=tuple(guard.text for guard in semantics.where),
        finish=semantics.finish.text if semantics.finish else "",
        finish_latex=latex(semantics.finish.tree) if semantics.finish else "",
        vectors=prose.enumerated([*prose.vector_symbols(op), *prose.vector_letters(op)]),
        inputs=tuple(_tensor(op, tensor, number) for number, tensor in enumerate(op.inputs, start=1)),
        outputs=tuple(_tensor(op, tensor, number) for number, tensor in enumerate(op.outputs, start=1)),
        shapes=tuple(entry for tensor in op.tensors for entry in _shapes(op, tensor)),
        arrangements=tuple(entry for tensor in op.tensors for entry in _arrangements(tensor)),
        attributes=tuple(_attribute(attribute) for attribute in op.attributes),
        values=formulas(op, "let"),
        padding=formulas(op, "padding"),
        shape=formulas(op, "shape"),
        rules=rules(op),
        dtypes=tuple(tuple(row.values()) for row in op.dtypes),
        dtype_columns=tuple(op.dtypes[0]),
        classes=tuple(
            (group.name or "", group.when.text if group.when else "", group.summary or "") for group in op.classes
        ),
        kernels=tuple(_kernel(kernel) for kernel in kernels),
        fast=tuple(_fast(op)),
        relations=relations(op),
        splits=split_prose.lines(op),
        sources=tuple((name, pages.get(name)) for name in cited_pages(op)),
    )


def _signature(op: Op, wrapped: Wrapper) -> tuple[str, ...]:
    """The parameters as in a call; `*` separates positional from keyword parameters."""
    inputs = [f"{p.name}={p.default}" if p.default else p.name for p in wrapped.inputs]
    keywords = [f"{p.name}={p.default}" if p.default else p.name for p in wrapped.attributes]
    return (*inputs, "*", *keywords, "out=None", "threads=None", "specialize=None")


def _statement_latex(op: Op) -> str:
    assignment = op.semantics.assignment
    target, value = latex(assignment.target), latex(assignment.value)
    if assignment.op == "max":
        return rf"{target} \leftarrow \max\left({target},\ {value}\right)"
    return rf"{target} \mathrel{{+}}= {value}"


def _tensor(op: Op, tensor: Tensor, position: int) -> TensorEntry:
    if tensor.shape_of:
        return TensorEntry(
            position,
            parameter_name(tensor),
            "optional" if tensor.optional else "required",
            "vector",
            tensor.summary or "",
        )
    return TensorEntry(
        position, tensor.name, "optional" if tensor.optional else "required", tensor.layout or "", tensor.summary or ""
    )


def _shapes(op: Op, tensor: Tensor) -> list[ShapeEntry]:
    entries = []
    for name, dims in tensor.dims_by_arrangement.items():
        orders = op.layouts[tensor.layout] if tensor.layout else {"": tuple(dims)}
        for word, shape in prose.shapes(op, tensor, dims):
            entries.append(ShapeEntry(tensor.name, name, word, ", ".join(orders[word]), shape))
    return entries


def _arrangements(tensor: Tensor) -> list[ArrangementEntry]:
    element = f"{tensor.name}[{', '.join(tensor.view)}]"
    return [
        ArrangementEntry(
            tensor.name,
            name,
            element,
            ", ".join(f"{axis} = {index.text}" for axis, index in arrangement.index.items()),
            arrangement.summary or "",
        )
        for name, arrangement in tensor.arrangements.items()
    ]


def _attribute(attribute: Attribute) -> AttributeEntry:
    length = ""
    if attribute.type == "s64[]":
        length = "one per spatial axis" if attribute.length == "spatial" else "any"
        if attribute.surplus is not None:
            length += f"; more if the rest is {attribute.surplus}"
        if attribute.shape_of:
            length = f"one per axis of {attribute.shape_of}"
    return AttributeEntry(
        name=attribute.name or "",
        symbol=symbol_of(attribute),
        type=TYPES[attribute.type or ""],
        words=tuple((allowed.value, allowed.aliases) for allowed in attribute.values or ()),
        default="" if attribute.required else "not given" if attribute.default is None else attribute.default,
        length=length,
        limits=prose.limits(attribute),
        meaning=attribute.summary or "",
        refused=tuple((bad.value, f"{bad.say} ({bad.discrepancy})") for bad in attribute.refuse or ()),
        reason=attribute.reason or "",
    )


def formulas(op: Op, section: str) -> tuple[FormulaEntry, ...]:
    entries = []
    for symbol, let in getattr(op, section).items():
        named: dict[str, Located] = {"": let.value} if let.value is not None else let.cases
        cases = tuple((word, formula.text, latex(formula.tree)) for word, formula in named.items())
        entries.append(FormulaEntry(symbol, let.summary or "", let.by or "", cases, let.source or ""))
    return tuple(entries)


def rules(op: Op) -> tuple[RuleEntry, ...]:
    rules = []
    for role, dim in op.dims.items():
        if (dim.min or 0) > 0:
            every = "every extent" if dim.per_axis else "the extent"
            say = f"{every} of {role} is at least {dim.min}"
            rules.append(RuleEntry(f"{role.replace('_', '-')}-extent", say, f"{dim.symbol} >= {dim.min}", "", ""))
    for constraint in op.constraints:
        rules.append(
            RuleEntry(
                constraint.id or "",
                constraint.say or "",
                constraint.expr.text if constraint.expr else "",
                constraint.argument or "",
                constraint.nearest.text if constraint.nearest else "",
            )
        )
    return tuple(rules)


def _kernel(kernel: Kernel) -> KernelEntry:
    variant = kernel.variant
    group = variant.group_class.name or "" if variant.group_class else ""
    return KernelEntry(kernel.name, variant.dtype, ", ".join(variant.words), group, kernel.about)


def _fast(op: Op) -> Iterator[FastEntry]:
    for isa in ISAS:
        dtypes = [row_name(op, row) for row in op.dtypes if isa.fast and isa.serves(op, row)]
        if dtypes:
            yield FastEntry(isa.name, ", ".join(dtypes), isa.exception)


def relations(op: Op) -> tuple[tuple[str, str, str], ...]:
    """The claim, the other operation, and the names of its tensors and layout words here."""
    entries = []
    for relation in op.relations:
        claims = (
            (relation.equals, "computes the same as"),
            (relation.adjoint, f"is linear in {relation.in_}, and its adjoint there is"),
            (relation.gradient, f"has as its gradient with respect to {relation.of}"),
            (relation.gradient_of, "is the gradient of"),
        )
        pairs = [f"its {theirs} is {ours}" for theirs, ours in relation.with_.items()]
        pairs += [f"its {theirs} for {ours}" for ours, theirs in relation.formats.items()]
        entries += [(claim, other, ", ".join(pairs)) for other, claim in claims if other]
    return tuple(entries)


def cited_pages(op: Op) -> list[str]:
    """Every page that the operation or one of its parts cites, in the order of the spec."""
    cited = [attribute.source for attribute in op.attributes]
    cited += [tensor.source for tensor in (*op.inputs, *op.outputs)]
    cited += [let.source for let in op.lets.values()]
    cited += [constraint.source for constraint in op.constraints]
    return list(dict.fromkeys([*op.source, *filter(None, cited)]))
