"""The names of a kernel during lowering: identifiers, the constants of each scope, the symbols that it uses.

Scopes: 0 the function, 1 a task, 2 a block of lanes, then one per reduction loop. A constant is declared in the
outermost scope that knows all of its letters.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ..derive.algebra.poly import Affine, Poly
from ..derive.expansion import expansion
from ..derive.rules.missing_axes import ABSENT
from ..derive.signature import PORTABLE_NAMES, SIZES
from ..derive.sizes import size_fields, vector_axes
from ..language import expr
from ..language.model import GroupClass, Op
from ..language.source import Problem, SpecInvalid
from ..memo import memoised
from . import nodes
from .arithmetic import Quotient, c_affine, c_condition, c_poly, quotient_name, split_monomial
from .nodes import Binary, Conditional, Declare, Expr, Index, Member, Name

FUNCTION, TASK, LANE = 0, 1, 2
# Names that kernels declare besides those of the spec.
OWN_NAMES = "total task_end task sum sums terms lane".split()


@memoised
def own_names(op: Op) -> dict[str, str]:
    """The names of a kernel's own variables: another name if the spec uses it."""
    spec = {tensor.name for tensor in op.tensors} | {dim.symbol for dim in op.dims.values()}
    spec |= {a.symbol or a.name or "" for a in op.attributes} | op.lets.keys() | op.semantics.ranges.keys()
    return {name: f"{name}_of_kernel" if name in spec else name for name in OWN_NAMES}


class Scopes:
    """The names of one kernel."""

    def __init__(self, op: Op, group: GroupClass | None) -> None:
        self.op = op
        self.expansion = expansion(op, group.name if group else None)
        self.declared: list[list[Declare]] = [[], [], []]
        self.level: dict[str, int] = {}
        self.taken: set[str] = {*PORTABLE_NAMES, *own_names(op).values()}
        self.used: set[str] = set()
        self.quotients: dict[Quotient, None] = {}

    # Names.

    def take(self, name: str) -> str:
        """A new identifier. Raises SpecInvalid if the names of a spec collide."""
        if name in self.taken:
            message = f"the name '{name}' would occur twice in the C of {self.op.op}"
            raise SpecInvalid([Problem(self.op.at, "name-collision", message)])
        self.taken.add(name)
        return name

    def define(self, level: int, name: str, value: Expr, source: str = "") -> str:
        self.declared[level].append(Declare(self.take(name), value, source=source))
        return name

    def opened(self) -> int:
        """A new innermost scope."""
        self.declared.append([])
        return len(self.declared) - 1

    def level_of(self, letters: Iterable[str]) -> int:
        return max((self.level[letter] for letter in letters), default=FUNCTION)

    def field_of(self, tensor: str) -> str:
        """The field of the spec that says what a tensor is."""
        return f"outputs.{tensor}" if tensor == self.op.output.name else f"inputs.{tensor}"

    # Values and their symbols.

    def poly(self, value: Poly) -> Expr:
        self._note(value)
        return c_poly(value, self.expansion.quotients)

    def affine(self, value: Affine) -> Expr:
        for _, coefficient in value.coefficients:
            self._note(coefficient)
        self._note(value.offset)
        return c_affine(value, self.expansion.quotients)

    def _note(self, value: Poly) -> None:
        for monomial, _ in value.terms:
            self.used |= {name for name, _ in monomial}
            for quotient in split_monomial(monomial, self.expansion.quotients)[1]:
                self.quotients.setdefault(quotient)

    def symbol(self, name: str) -> Expr:
        """A symbol inside a condition or a value, with the class' sizes applied and letters of one value left out."""
        if name in self.expansion.extents and name in self.expansion.ones:
            return nodes.ZERO
        if name in self.expansion.sizes:
            return self.poly(self.expansion.sizes[name])
        self.used.add(name)
        return Name(name)

    def chosen(self, tensor: str, values: Sequence[Expr]) -> Expr:
        """The value of the arrangement that the call has."""
        number = f"{tensor}_arrangement"
        self.used.add(number)
        return nodes.chosen(Name(number), values)

    # Conditions and integer values.

    def integer(self, tree: expr.Expr) -> Expr:
        if isinstance(tree, expr.Call) and tree.function == "prod":
            inside = tree.arguments[0]
            return nodes.product(self.corrected(inside, suffix, 1) for suffix in self.expansion.suffixes)
        return c_condition(tree, self.symbol)

    def corrected(self, tree: expr.Expr, suffix: str | None, wanted: int) -> Expr:
        """The copy of a tree for a spatial axis, `wanted` if a call does not have that axis."""
        vectors = self.expansion.vectors | self.expansion.vector_letters
        value = c_condition(tree, lambda name: self.symbol(f"{name}_{suffix}" if name in vectors else name))
        if suffix is None or self.expansion.missing.fits(tree, wanted):
            return value
        absent = self.symbol(f"{ABSENT}_{suffix}")
        if wanted is True:
            return Binary("||", absent, value)
        return Conditional(absent, nodes.integer(wanted), value)

    # The head of the function.

    def constants(self) -> tuple[Declare, ...]:
        """Sizes that the kernel uses, quotients, then constants defined from them."""
        unpacked = [constant for constant in _unpacked(self.op) if constant.name in self.used]
        for constant in unpacked:
            self.take(constant.name)
        quotients = [
            Declare(self.take(quotient_name(quotient)), Binary("/", *map(Name, quotient)))
            for quotient in self.quotients
        ]
        return (*unpacked, *quotients, *self.declared[FUNCTION])


@memoised
def _unpacked(op: Op) -> tuple[Declare, ...]:
    """Every size that a kernel may use, from the struct; a value per spatial axis becomes one constant per axis."""
    found = []
    for member in size_fields(op):
        place = Member(Name(SIZES), member.name)
        if not member.length:
            found.append(Declare(member.name, place, member.c_type))
            continue
        axes = enumerate(vector_axes(op))
        found += [Declare(f"{member.name}_{axis}", Index(place, nodes.integer(n)), member.c_type) for n, axis in axes]
    return tuple(found)
