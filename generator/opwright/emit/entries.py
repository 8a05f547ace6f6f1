"""The view of a fast kernel's entry, which turns one call of an operation into a problem in normal form.

In: an operation with a normal form, and a dtype row. Out: an `Entries` of strings for the C template to lay out.
Strides follow from the orders of axes and from the index of the weights, by the same algebra as the loop nests; nothing
here knows an operation or a layout. Entries of all instruction sets share one text: the macros of an entry
add the name.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ..derive.access import Access, access
from ..derive.algebra.poly import ZERO, Monomial, NotPolynomial, Poly
from ..derive.expansion import expansion
from ..derive.rules.normal_form import LETTERS
from ..derive.signature import (
    SIZES,
    Prototype,
    entries_path,
    fixed,
    group_name,
    library_part,
    prototype,
    scratch,
    sizes_type,
)
from ..derive.sizes import size_fields
from ..derive.variants import ISAS, Isa, layout_choices, row_name, stem
from ..language import expr
from ..language.expr import Read
from ..language.model import SPATIAL_AXES, GroupClass, NormalForm, Op
from ..language.source import Problem, SpecInvalid
from ..memo import memoised
from . import nodes
from .arithmetic import split_monomial
from .nodes import Binary, Expr, Index, Member, Name, PerAxis

# The function of a form that returns Form.first, named as in entries.c.j2: `problem_of` is its parameter.
FIRST_OF_FORM = "problem_of##_first"
STRUCT = Name("s")  # the struct of sizes, in the functions that fill problems
# The letters of a data tensor's axes.
DATA_LETTERS = ("n", "c", "x")
# The members of opwright_problem (templates/copied/c/engine/problem.h), in order.
MEMBERS = (
    *("N", "G", "A", "B", "small", "big", "taps", "stride", "dilation", "pad"),
    *("small_n", "small_c", "small_x", "big_n", "big_c", "big_x", "w_g", "w_a", "w_b", "w_k"),
)


@dataclass(frozen=True)
class Form:
    """How calls with the same layout words become problems: a C function, and the members that it sets.

    `first` is the offset of the weights with all letters at 0: not 0 if an index runs backwards.
    """

    words: tuple[str, ...]
    members: tuple[tuple[str, Expr], ...]
    first: Expr

    @property
    def shifted(self) -> bool:
        """Whether the weights start at another element than the first."""
        return self.first != nodes.ZERO

    @property
    def name(self) -> str:
        """A single word gets a prefix: it may be a keyword of C, or a function of its library."""
        return "_".join(self.words if len(self.words) > 1 else ("layout", *self.words) if self.words else ("any",))


@dataclass(frozen=True)
class Entry:
    """One text for a kernel of each instruction set; `kernels` names these."""

    name: str
    form: Form
    kernels: tuple[str, ...]


@dataclass(frozen=True)
class EntryFile:
    """The declarations of the fast kernels of one operation and one dtype row that share an engine."""

    path: str
    dtype: str
    isas: tuple[Isa, ...]
    prototype: Prototype
    scratch: Prototype
    fixed: Prototype
    groups: tuple[GroupClass | None, ...]
    names: tuple[str, ...]


@dataclass(frozen=True)
class Entries:
    """The definitions of the same kernels in their own file."""

    path: str
    dtype: str
    isas: tuple[Isa, ...]
    sizes_type: str
    prototype: Prototype
    scratch: Prototype
    fixed: Prototype
    engine: str
    solve: str
    arguments: tuple[Expr, ...]
    forms: tuple[Form, ...]
    entries: tuple[Entry, ...]

    @property
    def shifted(self) -> bool:
        """Whether some index of the weights starts at another element than the first."""
        return any(form.shifted for form in self.forms)


def fast_isas(op: Op, row: dict[str, str], group: str = "") -> tuple[Isa, ...]:
    """The instruction sets that have fast kernels for a dtype row and group class."""
    return tuple(isa for isa in ISAS if isa.fast and isa.serves(op, row, group))


def entry_files(op: Op, row: dict[str, str]) -> tuple[EntryFile, ...]:
    """The files of a dtype row's fast kernels, if it has any."""
    if op.normal_form is None or not fast_isas(op, row):
        return ()
    dtype = row_name(op, row)
    files: dict[str, list[GroupClass | None]] = {}
    for group in op.classes or (None,):
        files.setdefault(entries_path(op, dtype, group), []).append(group)
    return tuple(
        EntryFile(
            path=path,
            dtype=dtype,
            isas=fast_isas(op, row, group_name(groups[0])),
            prototype=prototype(op, row, fast=True),
            scratch=scratch(op),
            fixed=fixed(op),
            groups=tuple(groups),
            names=tuple(stem(op, dtype, _lower(words), group) for words in layout_choices(op) for group in groups),
        )
        for path, groups in files.items()
    )


def entries(op: Op, file: EntryFile) -> Entries:
    """The definitions of a file. Raises SpecInvalid."""
    form = op.normal_form
    assert form is not None
    made = forms(op, form)
    channelwise = any(library_part(op, group) for group in file.groups)
    each = zip(file.names, (one for one in made for _ in file.groups), strict=True)
    return Entries(
        path=file.path,
        dtype=file.dtype,
        isas=file.isas,
        sizes_type=sizes_type(op),
        prototype=file.prototype,
        scratch=file.scratch,
        fixed=file.fixed,
        engine=("channelwise_" if channelwise else "") + ("weights" if form.solve == "w" else "data"),
        solve=form.solve,
        arguments=_arguments(form, any(one.shifted for one in made)),
        forms=made,
        entries=tuple(Entry(name, one, tuple(f"{name}_{isa.name}" for isa in file.isas)) for name, one in each),
    )


@memoised
def forms(op: Op, form: NormalForm) -> tuple[Form, ...]:
    """One form for every combination of layout words."""
    try:
        return tuple(_form(op, form, words) for words in layout_choices(op))
    except NotPolynomial as error:
        raise SpecInvalid([Problem(form.at, "normal-form", str(error))]) from None


def _lower(words: dict[str, str]) -> tuple[str, ...]:
    return tuple(word.lower() for word in words.values())


def _arguments(form: NormalForm, shifted: bool) -> tuple[Expr, ...]:
    """The tensors of a call in the order of the engine's function for its solve."""
    big, small, bias = Name(form.big), Name(form.small), Name(form.bias or "NULL")
    weights: Expr = Name(_weights(form).tensor)
    if shifted:
        weights = Binary("+", weights, nodes.call(FIRST_OF_FORM, Name(SIZES)))
    none = Name("NULL")
    orders = {"y": (big, weights, bias, small), "x": (small, weights, bias, big), "w": (big, small, none, weights)}
    return orders[form.solve]


def _weights(form: NormalForm) -> Read:
    assert form.weights is not None
    assert isinstance(form.weights.tree, Read)
    return form.weights.tree


def _form(op: Op, form: NormalForm, words: dict[str, str]) -> Form:
    view = _View(op, form, words)
    members: dict[str, Expr] = {"G": view.poly(Poly.symbol(form.groups))}
    for prefix, letter, name in (("small", "A", form.small), ("big", "B", form.big)):
        members |= view.data(prefix, letter, name)
    for member, symbol, neutral in (("stride", form.stride, 1), ("dilation", form.dilation, 1), ("pad", form.pad, 0)):
        steps = [Poly.symbol(f"{symbol}_{suffix}") for suffix in view.suffixes]
        members[member] = view.per_axis(map(view.poly, steps), nodes.integer(neutral))
    members |= view.weights()
    return Form(_lower(words), tuple((m, members[m]) for m in MEMBERS), view.first())


class _View:
    """Prints the members of a problem for tensors, for one choice of layout words."""

    def __init__(self, op: Op, form: NormalForm, words: dict[str, str]) -> None:
        self.op, self.form, self.words = op, form, words
        self.expansion = expansion(op, None)
        self.suffixes = self.expansion.suffixes
        self.lengths = {field.name: field.length for field in size_fields(op)}

    def data(self, prefix: str, letter: str, name: str) -> dict[str, Expr]:
        """Extents and strides of a data tensor with the axes batch, channels and space."""
        batch, channels, space = (extent.tree for extent in self.op.tensor(name).dims.values())
        extents = [self.expansion.poly(space, suffix) for suffix in self.suffixes]
        read = Read(name, tuple(map(expr.Name, DATA_LETTERS)))
        accessed = access(self.op, read, self.words, self.expansion, DATA_LETTERS, {"x"})
        return {
            "N": self.poly(self.expansion.poly(batch, None)),
            letter: self.poly(self.expansion.poly(channels, None) / Poly.symbol(self.form.groups)),
            prefix: self.per_axis(map(self.poly, extents), nodes.ONE),
            f"{prefix}_n": self.distance(accessed, "n"),
            f"{prefix}_c": self.distance(accessed, "c"),
            f"{prefix}_x": self.distances(accessed, "x", extents[0]),
        }

    def weights(self) -> dict[str, Expr]:
        """The taps, and the strides of the weights per letter."""
        accessed = access(self.op, _weights(self.form), self.words, self.expansion, LETTERS, {"k"})
        walked = {letter: axis for axis in accessed.arrangements[0] for letter in axis.index.letters}
        extents = [walked[f"k_{suffix}"].extent for suffix in self.suffixes if f"k_{suffix}" in walked]
        if len(extents) < len(self.suffixes):
            message = "k must walk an axis of the weights that every spatial axis has"
            raise SpecInvalid([Problem(self.form.at, "normal-form", message)])
        return {
            "taps": self.per_axis(map(self.poly, extents), nodes.ONE),
            "w_g": self.distance(accessed, "g"),
            "w_a": self.distance(accessed, "small"),
            "w_b": self.distance(accessed, "big"),
            "w_k": self.distances(accessed, "k", extents[0]),
        }

    def first(self) -> Expr:
        """The offset of the weights with all letters at 0."""
        accessed = access(self.op, _weights(self.form), self.words, self.expansion, LETTERS, {"k"})
        starts = [sum((axis.index.offset * axis.stride for axis in axes), start=ZERO) for axes in accessed.arrangements]
        return self.chosen(accessed.tensor, starts)

    def distances(self, accessed: Access, letter: str, extent: Poly) -> Expr:
        """The stride of each axis; an axis that no call has becomes the outermost."""
        around = [value * extent for value in accessed.coefficient(f"{letter}_{self.suffixes[0]}")]
        own = [self.distance(accessed, f"{letter}_{suffix}") for suffix in self.suffixes]
        return self.per_axis(own, self.chosen(accessed.tensor, around))

    def distance(self, accessed: Access, letter: str) -> Expr:
        """The change of an address per step of a letter."""
        return self.chosen(accessed.tensor, accessed.coefficient(letter))

    def chosen(self, tensor: str, values: Iterable[Poly]) -> Expr:
        """A value, chosen at run time if arrangements differ."""
        return nodes.chosen(Member(STRUCT, f"{tensor}_arrangement"), list(map(self.poly, values)))

    def per_axis(self, values: Iterable[Expr], neutral: Expr) -> Expr:
        """Three values, the first ones for the axes that no call has."""
        missing = len(SPATIAL_AXES) - len(self.suffixes)
        return PerAxis((*[neutral] * missing, *values))

    def poly(self, value: Poly) -> Expr:
        """A polynomial in the members of the struct."""
        return nodes.added((factor < 0, self.product(powers, abs(factor))) for powers, factor in value.terms)

    def product(self, powers: Monomial, factor: int) -> Expr:
        above, quotients = split_monomial(powers, self.expansion.quotients)
        parts: list[Expr] = [Binary("/", self.size(dividend), self.size(divisor)) for dividend, divisor in quotients]
        parts += map(self.size, above)
        return nodes.product([*parts, nodes.integer(factor)] if factor != 1 or not parts else parts)

    def size(self, symbol: str) -> Expr:
        if symbol in self.lengths:
            return Member(STRUCT, symbol)
        name, _, suffix = symbol.rpartition("_")
        number = SPATIAL_AXES.index(suffix) - len(SPATIAL_AXES) + self.lengths[name]
        return Index(Member(STRUCT, name), nodes.integer(number))
