"""Rules about the normal form that a spec asserts: what fast kernels rely on, beyond the values that prove.py compares.

In: an operation with valid names and kinds. Out: problems.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...language import expr
from ...language.expr import Name, Read
from ...language.kinds import Kind
from ...language.model import NormalForm, Op, Tensor
from ...language.schema import place
from ...language.source import Mark, Problem, suggestion
from ...language.types import spatial, symbol_kinds
from ...memo import memoised
from ..algebra.conditions import divisible
from ..algebra.poly import ONE, NotPolynomial, Poly
from ..expansion import expansion
from .missing_axes import MissingAxes

# The letters of the relation, as `weights` names them.
LETTERS = ("g", "small", "big", "k")


def normal_form(op: Op) -> Iterator[Problem]:
    """Record why the normal form of an operation, if it has one, is invalid."""
    form = op.normal_form
    if form is None:
        return
    found = [*_tensors(op, form), *_symbols(op, form)]
    yield from found
    if not found:
        yield from _roles(op, form)
        yield from _channels(op, form)
        yield from _neutrals(op, form)


def _problem(word: str | None, form: NormalForm, message: str) -> Problem:
    return Problem(place(word, form.at), "normal-form", message)


def _tensors(op: Op, form: NormalForm) -> Iterator[Problem]:
    tensors = [tensor.name for tensor in op.tensors]
    for name in (form.big, form.small, *([form.bias] if form.bias else [])):
        if name not in tensors:
            yield _problem(name, form, f"there is no tensor '{name}'{suggestion(name, tensors)}")
        elif name != form.bias and not _is_data(op, op.tensor(name)):
            yield _problem(name, form, f"'{name}' must have three axes in one arrangement: batch, channels and space")
    weights = form.weights
    tree = weights.tree if weights else None
    roles = [index.id for index in tree.indices if isinstance(index, Name)] if isinstance(tree, Read) else []
    if not isinstance(tree, Read) or tree.tensor not in tensors or sorted(roles) != sorted(LETTERS):
        message = "weights must name the tensor and the order of its indices, as in weights[g, small, big, k]"
        yield Problem(weights.at if weights else form.at, "normal-form", message)


def _is_data(op: Op, tensor: Tensor) -> bool:
    """Whether a tensor's axes are batch, channels and the spatial ones."""
    return len(tensor.dims) == 3 and spatial(tensor.dims, op) == tuple(tensor.dims)[2:]


def _symbols(op: Op, form: NormalForm) -> Iterator[Problem]:
    kinds = symbol_kinds(op)
    for letter in LETTERS:
        if letter in kinds:
            yield _problem(None, form, f"'{letter}' is a letter of normal forms; rename the symbol")
    for symbol, vector in ((form.groups, False), (form.stride, True), (form.dilation, True), (form.pad, True)):
        if kinds.get(symbol) != Kind("int", vector):
            wanted = "a value per spatial axis" if vector else "one value"
            yield _problem(symbol, form, f"'{symbol}' must be a symbol of this operation with {wanted}")


def _roles(op: Op, form: NormalForm) -> Iterator[Problem]:
    """The solved tensor is the output; the other two are required inputs, and the bias an optional one."""
    assert form.weights is not None
    assert isinstance(form.weights.tree, Read)
    parts = {"x": form.big, "y": form.small, "w": form.weights.tree.tensor}
    if parts[form.solve] != op.output.name:
        message = f"`solve: {form.solve}` computes '{parts[form.solve]}', but the output is '{op.output.name}'"
        yield _problem(form.solve, form, message)
    inputs = [name for part, name in parts.items() if part != form.solve]
    for name in (*inputs, *([form.bias] if form.bias else [])):
        tensor = op.tensor(name)
        if tensor is op.output:
            yield _problem(name, form, f"'{name}' is both the output and an input of the normal form")
        elif tensor.optional and name in inputs:
            yield _problem(name, form, f"'{name}' must be required: fast kernels always read it")
    if form.bias and form.solve == "w":
        yield _problem(form.bias, form, "an operation that computes weights has no bias")
    elif form.bias:
        channels = list(op.output.dims.values())[1].tree
        if [extent.tree for extent in op.tensor(form.bias).dims.values()] != [channels]:
            yield _problem(form.bias, form, f"'{form.bias}' must have one axis, of the channels of '{op.output.name}'")


def _channels(op: Op, form: NormalForm) -> Iterator[Problem]:
    """Groups divide both channels."""
    exact = divisible(op)
    for name in (form.big, form.small):
        channels = list(op.tensor(name).dims.values())[1]
        each = channels_per_group(op, channels.tree, form, None)
        whole = each is not None and all(power > 0 for monomial, _ in each.terms for _, power in monomial)
        if not whole and (channels.tree, Name(form.groups)) not in exact:
            message = f"a constraint must state that {form.groups} divides the channels of '{name}', as in"
            yield Problem(channels.at, "normal-form", f"{message} {channels.text} % {form.groups} == 0")


def channels_per_group(op: Op, channels: expr.Expr, form: NormalForm, group: str | None) -> Poly | None:
    """The channels of a group, in the class of calls of that name; None if it is not a polynomial."""
    known = expansion(op, group)
    try:
        each = known.poly(channels, None) / Poly.symbol(form.groups).substitute(known.sizes)
        return each.substitute(known.defined)
    except NotPolynomial:
        return None


@memoised
def is_channelwise(op: Op, group: str) -> bool:
    """Whether the groups of a class of calls have one channel on either side."""
    form = op.normal_form
    if form is None:
        return False
    sides = (list(op.tensor(name).dims.values())[1].tree for name in (form.big, form.small))
    return all(channels_per_group(op, channels, form, group) == ONE for channels in sides)


def _neutrals(op: Op, form: NormalForm) -> Iterator[Problem]:
    """On a missing spatial axis the single tap reads the single cell."""
    missing = MissingAxes(op)
    for symbol, wanted in ((form.stride, 1), (form.dilation, 1), (form.pad, 0)):
        if not missing.fits(Name(symbol), wanted):
            at: Mark = next((let.at for name, let in op.lets.items() if name == symbol), place(symbol, form.at))
            message = f"'{symbol}' must be {wanted} on a spatial axis that a call does not have (neutral: {wanted})"
            yield Problem(at, "normal-form", message)
