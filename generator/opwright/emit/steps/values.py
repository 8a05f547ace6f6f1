"""The values of steps as C nodes: conversions, functions, comparisons, and integers.

In: expressions of a step, and how the names and elements in them are written. Out: nodes in the type that a row of
data types accumulates in.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Container, Mapping, Set
from dataclasses import dataclass, field

from ...derive.algebra.slopes import minus, slope
from ...derive.program import summed_alone
from ...derive.whole import is_whole
from ...language import expr
from ...language.dtypes import DTYPES
from ...language.expr import COMPARISONS, LOGIC, Read
from ...language.kinds import Kind
from .. import nodes
from ..nodes import Assign, Binary, Call, Cast, Conditional, Expr, Literal, Stmt, Unary
from . import named_rows
from .chosen import called_once
from .kept import kept, number_of, reckoned

# Types without arithmetic in C, and the type that their elements are widened to.
NARROW = {"bf16": "f32", "f16": "f32", "f8_e4m3": "f32", "f8_e5m2": "f32", "s4": "s64", "u4": "s64"}
# Types in which every bit pattern is a distinct number, so that a copy needs no arithmetic.
WHOLE = {"f32", "f64", "bf16", "f16", "s32", "s8", "u8", "f8_e4m3", "f8_e5m2"}
MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "==": "==", "!=": "!="}
OF_ROWS = ("exp", "log", "tanh", "erf")  # functions of opwright_functions_rows.h
SMALL = (expr.Number(2), expr.Number(3), expr.Number(4))  # exponents of powers that are products
_UNSIGNED = {"+", "-", "*"}
_LIMITED = {"max": "raised", "min": "lowered"}
OF_INTEGERS = ("prod", "number", "named", "cell", "stride")  # functions whose results are integers


@dataclass(frozen=True)
class Values:
    """Prints values in one accumulator type; `integer` prints integers, `read` and `dtype` describe elements."""

    accumulate: str
    kinds: Mapping[str, Kind]
    integer: Callable[[expr.Expr], Expr]
    read: Callable[[Read], Expr]
    dtype: Callable[[str], str]
    extremes: Container[str] = ()  # arrays of extremes of bytes

    @property
    def c_type(self) -> str:
        return DTYPES[self.accumulate].c_type

    def number(self, value: float) -> Expr:
        if self.accumulate != "s64":
            return nodes.real(float(value), DTYPES[self.accumulate].suffix)
        if value in (float("inf"), float("-inf")):
            return Literal("INT64_MAX" if value > 0 else "INT64_MIN")
        return nodes.integer(int(value))

    def is_truth(self, tree: expr.Expr) -> bool:
        if isinstance(tree, expr.Unary):
            return tree.op == "not"
        if isinstance(tree, expr.Binary):
            return tree.op in (*COMPARISONS, *LOGIC)
        if isinstance(tree, expr.Name):
            return self.kinds[tree.id].base == "bool"
        if not isinstance(tree, expr.Call):
            return False
        return tree.function == "within" or (tree.function == "select" and self.is_truth(tree.arguments[1]))

    def is_whole(self, tree: expr.Expr) -> bool:
        """Whether a tree consists of integers only, so that integers represent it exactly."""
        return is_whole(tree, self.kinds)

    def cell(self, tree: expr.Expr) -> Expr:
        """The value of a cell; a boolean as 1 or 0."""
        if self.is_truth(tree):
            return Conditional(self.truth(tree), self.number(1), self.number(0))
        return self.value(tree)

    def value(self, tree: expr.Expr) -> Expr:
        if isinstance(tree, expr.Number):
            return self.number(tree.value)
        if isinstance(tree, Read):
            return self.loaded(self.read(tree), self.dtype(tree.tensor))
        if isinstance(tree, expr.Name):
            return Cast(self.c_type, self.integer(tree)) if self.accumulate != "s64" else self.integer(tree)
        if isinstance(tree, expr.Unary):
            return (
                self.arithmetic("-", self.number(0), self.value(tree.operand))
                if self.accumulate == "s64"
                else Unary("-", self.value(tree.operand))
            )
        if isinstance(tree, expr.Binary) and tree.op != "%":
            return self.arithmetic(tree.op, self.value(tree.left), self.value(tree.right))
        if not isinstance(tree, expr.Call) or tree.function in OF_INTEGERS or self._floors(tree):
            return Cast(self.c_type, self.integer(tree)) if self.accumulate != "s64" else self.integer(tree)
        return self.function(tree)

    def _floors(self, tree: expr.Call) -> bool:
        return tree.function in ("floor", "ceil") and self.is_whole(tree)

    def function(self, tree: expr.Call) -> Expr:
        if tree.function == "select":
            return self.choice(*called_once(*tree.arguments))
        if tree.function == "pow" and (power := self.power(*tree.arguments)) is not None:
            return power
        if self.accumulate == "f32" and tree.function in ("min", "max") and _limits(tree.arguments[-1]):
            *others, limit = tree.arguments
            value = self.value(others[0] if len(others) == 1 else dataclasses.replace(tree, arguments=tuple(others)))
            return Call(f"opwright_{_LIMITED[tree.function]}_f32", (value, self.bound(limit)))
        divides = self.accumulate == "s64" and tree.function in ("floor", "ceil")
        arguments = [self.value(one) for one in (expr.children(tree.arguments[0]) if divides else tree.arguments)]
        if tree.function in ("min", "max"):
            result = arguments[0]
            for other in arguments[1:]:
                result = self.combined(tree.function, result, other)
            return result
        if (dtype := expr.CONVERSIONS.get(tree.function)) is not None:
            return self.converted(arguments[0], dtype)
        return Call(f"opwright_{tree.function}_{self.accumulate}", tuple(arguments))

    def bound(self, number: expr.Expr) -> Expr:
        """A constant that values are compared with."""
        return self.value(number)

    def converted(self, value: Expr, dtype: str) -> Expr:
        """A value as a tensor of a type holds it.

        Integers stay real numbers: gcc 12 with -fno-trapping-math takes `(double)(int)x` for a truncation, with -0.0.
        """
        if self.accumulate == "s64" or not DTYPES[dtype].integer:
            return self.loaded(self.stored(value, dtype), dtype)
        _, _, least, greatest = DTYPES[dtype].exact or (0, 0, 0, 0)
        suffix = "_f32" if self.accumulate == "f32" else ""
        whole = Call(f"opwright_whole{suffix}", (value, self.number(least), self.number(greatest)))
        return Binary("+", whole, self.number(0))

    def choice(self, condition: expr.Expr, yes: expr.Expr, no: expr.Expr) -> Expr:
        """One of two values; for two quotients by the same divisor, the quotient of the selected dividend."""
        quotients = isinstance(yes, expr.Binary) and isinstance(no, expr.Binary) and yes.op == no.op == "/"
        if quotients and yes.right == no.right:  # type: ignore[union-attr]
            yes, no, divisor = yes.left, no.left, yes.right  # type: ignore[union-attr]
            return self.arithmetic("/", self.choice(condition, yes, no), self.value(divisor))
        return self.either(condition, yes, no)

    def either(self, condition: expr.Expr, yes: expr.Expr, no: expr.Expr) -> Expr:
        """One of two values, of which the other need not be computed."""
        return Conditional(self.truth(condition), self.value(yes), self.value(no))

    def power(self, base: expr.Expr, exponent: expr.Expr) -> Expr | None:
        """A power by a small constant: a square is rounded once, others of f32 keep the error bound of `pow`.

        Three factors of bf16, of 8 bits each, need no more than f32. In f64 each product is rounded.
        """
        value = self.value(base)
        if exponent == expr.Number(2):
            return self.arithmetic("*", value, value)
        if self.accumulate == "s64" or exponent not in SMALL:
            return None
        cube = exponent == expr.Number(3)
        if self.accumulate == "f32" and not (cube and self.fits(base, "bf16")):
            return Call("opwright_cube_f32" if cube else "opwright_fourth_f32", (value,))
        square = Binary("*", value, value)
        return Binary("*", square, value if cube else square)

    def arithmetic(self, op: str, left: Expr, right: Expr) -> Expr:
        if self.accumulate == "s64" and op in _UNSIGNED:  # wraps around, which is undefined for signed integers in C
            return Cast("int64_t", Binary(op, Cast("uint64_t", left), Cast("uint64_t", right)))
        return Binary(op, left, right)

    def combined(self, operator: str, left: Expr, right: Expr) -> Expr:
        """Two values combined by `+=`, `*=`, `max=` or `min=`."""
        if operator in ("sum", "product"):
            return self.arithmetic("+" if operator == "sum" else "*", left, right)
        suffix = DTYPES[self.accumulate].suffix
        name = f"opwright_{operator}" if self.accumulate == "s64" else f"opwright_{operator}imum{suffix}"
        return Call(name, (left, right))

    def truth(self, tree: expr.Expr) -> Expr:
        if isinstance(tree, expr.Unary):
            return Unary("!", self.truth(tree.operand))
        if isinstance(tree, expr.Name):
            return Binary("!=", self.integer(tree), nodes.ZERO)
        if isinstance(tree, expr.Call) and tree.function == "within":
            return named_rows.there(self.integer, tree.arguments)
        if isinstance(tree, expr.Call):
            condition, yes, no = map(self.truth, tree.arguments)
            return Conditional(condition, yes, no)
        assert isinstance(tree, expr.Binary)
        if tree.op in LOGIC:
            return Binary({"and": "&&", "or": "||"}[tree.op], self.truth(tree.left), self.truth(tree.right))
        if self.is_whole(tree.left) and self.is_whole(tree.right):
            return self.compared(tree)
        return Binary(tree.op, self.value(tree.left), self.value(tree.right))

    def compared(self, tree: expr.Binary) -> Expr:
        """A comparison of integers."""
        return Binary(tree.op, self.integer(tree.left), self.integer(tree.right))

    def copied(self, tree: expr.Expr, dtype: str) -> Expr:
        """The value stored in a cell of a type; a copied cell of the same type skips the accumulator."""
        if isinstance(tree, Read) and self.dtype(tree.tensor) == dtype and dtype in WHOLE:
            return self.read(tree)
        made = kept(tree, dtype, self) if isinstance(tree, expr.Call) else None
        if (made := made or reckoned(tree, dtype, self)) is not None:
            return made
        cell = summed_alone(tree)
        if cell is not None and self.dtype(cell.tensor) == dtype and dtype in ("bf16", "f16"):
            return Call("opwright_plus_zero", (self.read(cell),))
        if dtype == "bf16" and self.accumulate == "f32" and not self.rounds(tree, dtype):
            if isinstance(tree, expr.Call) and tree.function == "abs" and isinstance(tree.arguments[0], Read):
                return Call("opwright_abs_bf16", (self.read(tree.arguments[0]),))
            return Call("opwright_cut_bf16", (self.value(tree),))
        return self.stored(self.cell(tree), dtype)

    def rounds(self, tree: expr.Expr, dtype: str) -> bool:
        """Whether values of f32 are rounded to bf16."""
        return dtype == "bf16" and self.accumulate == "f32" and not self.fits(tree, dtype)

    def fits(self, tree: expr.Expr, dtype: str) -> bool:
        """Whether a value is always a bf16 number, so that no rounding is needed."""
        if isinstance(tree, Read):
            return self.dtype(tree.tensor) == dtype
        if isinstance(tree, expr.Number):
            return float(tree.value) in (0.0, 1.0, float("inf"), float("-inf"))
        if isinstance(tree, expr.Unary):
            return tree.op == "-" and self.fits(tree.operand, dtype)
        if isinstance(tree, expr.Binary) and tree.op == "+" and tree.right == expr.Number(0):
            return self.fits(tree.left, dtype)
        if isinstance(tree, expr.Call) and expr.CONVERSIONS.get(tree.function) == dtype:
            return True
        if not isinstance(tree, expr.Call) or tree.function not in ("max", "min", "abs", "select"):
            return False
        values = tree.arguments[1:] if tree.function == "select" else tree.arguments
        return not self.is_truth(tree) and all(self.fits(value, dtype) for value in values)

    def loaded(self, element: Expr, dtype: str) -> Expr:
        """An element in the accumulator."""
        if dtype == "boolean":
            return Cast(self.c_type, Binary("!=", element, nodes.ZERO))
        if dtype in NARROW:
            element, dtype = Call(f"opwright_from_{dtype}", (element,)), NARROW[dtype]
        if (dtype, self.accumulate) == ("s64", "f32"):
            return Call("opwright_f32_of_s64", (element,))
        return element if dtype == self.accumulate else Cast(self.c_type, element)

    def stored(self, value: Expr, dtype: str) -> Expr:
        """A value in the type of a tensor."""
        if dtype == self.accumulate:
            return value
        if dtype == "boolean":
            return Cast("uint8_t", Binary("!=", value, self.number(0)))
        if dtype in ("s32", "s8", "u8", "s4", "u4") or (dtype in ("s64", "u64") and self.accumulate != "s64"):
            return Call(f"opwright_{dtype}_of_{self.accumulate}", (value,))
        if dtype in NARROW:
            single = value if self.accumulate == "f32" else Call("opwright_odd", (Cast("double", value),))
            return Call(f"opwright_to_{dtype}", (single,))
        return Cast(DTYPES[dtype].c_type, value)


def _limits(tree: expr.Expr) -> bool:
    """Whether a value is a number other than 0: between two zeros, the sign of the result would depend on the order."""
    return number_of(tree) not in (None, 0)


@dataclass(frozen=True)
class LaneValues(Values):
    """Values in a loop over lanes; loop invariants are computed before it."""

    lane: str = ""
    hoist: Callable[[expr.Expr], Expr] = field(kw_only=True)
    opaque: Callable[[expr.Expr], Expr] = field(kw_only=True)
    row: Callable[[expr.Call], Expr] = field(kw_only=True)
    wide: Callable[[Read], Expr] = field(kw_only=True)
    limit: Callable[[expr.Expr], tuple[Expr, Expr] | None] = field(kw_only=True)
    counted: Callable[[expr.Name], Expr | None] = field(kw_only=True)
    reduces: bool = field(kw_only=True)  # whether lanes are terms of one cell
    alone: Read | None = field(kw_only=True)  # the element that is stored as it stands

    def value(self, tree: expr.Expr) -> Expr:
        if isinstance(tree, Read) and self.lane in expr.names(tree) and self.by_rows(tree):
            return self.wide(tree)
        if isinstance(tree, expr.Name) and tree.id == self.lane and self.accumulate == "f32":
            number = self.counted(tree)
            if number is not None:
                return number
        if isinstance(tree, expr.Number) or self.lane in expr.names(tree):
            return super().value(tree)
        return self.hoist(tree)

    def either(self, condition: expr.Expr, yes: expr.Expr, no: expr.Expr) -> Expr:
        """One of two values; where rows of narrow cells are read for one of them alone, both are computed.

        Without masks for such cells gcc 12 reads them one by one, in branches: the gradient of relu of 1000 x 1003 bf16
        takes 0.04 of its time, `select` 0.1 (AMD Zen 3, AVX2). With a gradient of ELU, which reads the same for both,
        it takes 1.3 of it.
        """
        alone = ({*expr.reads(yes)} ^ {*expr.reads(no)}) - {*expr.reads(condition)}
        elsewhere = any(self.anywhere(read) for read in (*expr.reads(yes), *expr.reads(no)))
        if self.accumulate != "f32" or elsewhere or not self.narrow(alone):
            return super().either(condition, yes, no)
        return Call("opwright_either_f32", (self.truth(condition), self.value(yes), self.value(no)))

    def compared(self, tree: expr.Binary) -> Expr:
        """A comparison of integers: where a letter of lanes is left of a limit, of positions in the row, in 32 bits.

        Vectors of 64-bit integers have half of the lanes of f32: 4096 cells of a row that is masked from a place on
        take 0.4 of their time, bf16 0.37 (AMD EPYC Zen 3, AVX2, gcc 12.2).
        """
        growth = slope(minus(tree.left, tree.right), self.lane)
        if self.accumulate == "f32" and growth in (expr.Number(1), expr.Number(-1)):
            rises = growth == expr.Number(1)
            ends = self.limit(minus(tree.right, tree.left) if rises else minus(tree.left, tree.right))
            if ends is not None:
                return Binary(tree.op if rises else MIRRORED[tree.op], *ends)
        return super().compared(tree)

    def bound(self, number: expr.Expr) -> Expr:
        return self.opaque(number)

    def truth(self, tree: expr.Expr) -> Expr:
        """A condition; of two, the second of which alone reads rows of narrow cells, or tests numbers, both are asked.

        Where one is asked after the other, gcc 12 reads such cells in branches: `x > 0 and y > 0` of 1M bf16 takes 0.04
        of the time (AMD Zen 3, AVX2), blends of cells that two numbers name 0.3 (Intel Xeon). What may lie outside an
        array is read only where another condition holds.
        """
        if not isinstance(tree, expr.Binary) or tree.op not in LOGIC or any(map(self.anywhere, expr.reads(tree))):
            return super().truth(tree)
        narrow = self.narrow({*expr.reads(tree.right)} - {*expr.reads(tree.left)})
        if not narrow and not any(map(_is_within, expr.walk(tree.right))):
            return super().truth(tree)
        name = {"and": "opwright_both", "or": "opwright_any"}[tree.op]
        return Call(name, (self.truth(tree.left), self.truth(tree.right)))

    def narrow(self, reads: Set[Read]) -> bool:
        """Whether there are rows of cells narrower than values among some that are not widened before."""
        rows = [read for read in reads if self.lane in expr.names(read) and not self.by_rows(read)]
        return any(DTYPES[self.dtype(read.tensor)].size < DTYPES["f32"].size for read in rows)

    def function(self, tree: expr.Call) -> Expr:
        return self.row(tree) if self.of_rows(tree) else super().function(tree)

    def by_rows(self, read: Read) -> bool:
        """Whether cells are widened a row at a time: compilers do not make vectors of the instruction for f16."""
        return self.dtype(read.tensor) == "f16" and self.accumulate == "f32" and not self.anywhere(read)

    def anywhere(self, read: Read) -> bool:
        """Whether the cells of lanes lie where an index says, so that they make no row, or where none may be."""
        nodes = (node for index in read.indices for node in expr.walk(index))
        named = [node for node in nodes if isinstance(node, Read) or _names_cell(node)]
        return any(self.lane in expr.names(node) for node in named) and not self.named(read)

    def named(self, read: Read) -> bool:
        """Whether rows of numbers name the cells, which are taken before the loop, but where they are all it stores."""
        return read != self.alone and named_rows.is_row(read, self.lane)

    def of_rows(self, tree: expr.Expr) -> bool:
        """Whether a value is computed a row at a time.

        Powers of f32 only of terms, whose loop compilers make no vectors of: 2048 sums of 784 take 0.14 (Zen 5). Those
        of f64 look up tables, which compilers make no vectors of under a condition: 0.25 (Intel Xeon).
        """
        if not isinstance(tree, expr.Call) or self.accumulate == "s64":
            return False
        powers = self.reduces or self.accumulate == "f64"
        return tree.function in OF_ROWS or (powers and tree.function == "pow" and tree.arguments[1] not in SMALL)


def _is_within(node: expr.Expr) -> bool:
    return isinstance(node, expr.Call) and node.function == "within"


def _names_cell(node: expr.Expr) -> bool:
    return isinstance(node, expr.Call) and node.function in ("named", "cell")


def updated(values: Values, operator: str, cell: Expr, made: Expr, source: str) -> Assign:
    """Combines a term with a cell."""
    if operator in ("sum", "product") and values.accumulate != "s64":
        return Assign(cell, made, "+=" if operator == "sum" else "*=", source=source)
    if operator in ("max", "min") and values.accumulate == "f32":
        return Assign(cell, Call(f"opwright_{operator}_so_far_f32", (cell, made)), source=source)
    return Assign(cell, values.combined(operator, cell, made), source=source)


def scanned(values: Values, operator: str, cell: Expr, neighbour: Expr, source: str) -> Stmt:
    """Combines a cell with the extreme up to its neighbour."""
    if values.accumulate != "f32":
        return updated(values, operator, cell, neighbour, source)
    return Assign(cell, Call(f"opwright_{operator}_scanned_f32", (neighbour, cell)), source=source)
