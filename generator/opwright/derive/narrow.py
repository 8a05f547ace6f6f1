"""Arrays between steps whose cells are those of a narrow data type, as copies of an input are: engines read them so.

In: a program, and the contractions of its phases. Out: for each such operand the input or output whose type it has, or
the type that its values are converted to. A copy in the type that values are made in would be widened without need.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ..language import expr
from ..language.dtypes import DTYPES
from ..language.expr import Binary, Call, Expr, Number, Read
from ..language.model import Op
from .contraction import Contraction
from .program import Array, Part, Program, list_dtype

CHOOSE = ("select", "max", "min")  # whose value is one of their arguments
NARROW = ("bf16", "f16", "s8", "u8")  # of which engines have operands


def narrow(
    found: Program, products: Iterable[Contraction], private: Iterable[str], outputs: Mapping[str, str]
) -> dict[str, str]:
    """By operand, an input, an output or a type. `outputs` are those whose types attributes state."""
    result = {}
    for name in dict.fromkeys(read.tensor for product in products for read in (product.left, product.right)):
        if found.arrays[name].role == "between" and name not in {*private} | found.integers:
            parts = [part for part in found.parts if part.target.tensor == name]
            plain = all(part.operator == "set" for part in parts)
            kinds = {
                outputs[part.by or ""] if _stated(part, outputs) else _kind(found, formula.value)
                for part in parts
                for formula in part.formulas
            }
            kinds -= {""}
            if plain and len(kinds) == 1 and (kind := kinds.pop()) is not None:
                result[name] = kind
    return result


def _stated(part: Part, outputs: Mapping[str, str]) -> bool:
    """Whether an attribute that states an output's type chooses among a step's values, each converted to its word."""
    words = {formula.word: formula.value for formula in part.formulas if formula.word in NARROW}
    return part.by in outputs and all(
        isinstance(value, Call) and expr.CONVERSIONS.get(value.function) == word for word, value in words.items()
    )


def _kind(found: Program, value: Expr) -> str | None:
    """The input that a value is read of, or the type that it is converted to; '' for 0, which all types have."""
    if isinstance(value, Call) and value.function == "select":
        kinds = {_kind(found, one) for one in value.arguments[1:]} - {""}
        return kinds.pop() if len(kinds) == 1 else None
    if isinstance(value, Binary) and value.op == "+" and value.right == Number(0):
        return _kind(found, value.left)
    if isinstance(value, Binary) and value.op == "*":  # by 0 or 1
        left, right = value.left, value.right
        truth = next((one for one in (right, left) if isinstance(one, Read) and one.tensor in found.truths), None)
        return _kind(found, left if truth is right else right) if truth is not None else None
    if isinstance(value, Read) and found.arrays[value.tensor].role == "input":
        return value.tensor
    if isinstance(value, Call) and expr.CONVERSIONS.get(value.function) in NARROW:
        return expr.CONVERSIONS[value.function]
    if isinstance(value, Call) and value.function in CHOOSE:
        kinds = {_kind(found, one) for one in value.arguments[value.function == "select" :]} - {""}
        return next(iter(kinds), "") if len(kinds) < 2 else None
    return "" if value == Number(0) else None


def dtype_of(op: Op, row: Mapping[str, str], array: Array, found: Program) -> str:
    """The data type of an array in the kernel of a row."""
    if array.role == "list":
        return list_dtype(op, array.name)
    if array.role != "between":
        return row[array.name]
    kind, wide = found.narrow.get(array.name, ""), row["accumulate"]
    dtype = row.get(kind, kind)
    if dtype in NARROW and DTYPES[dtype].size < DTYPES[wide].size:
        return dtype
    return "s64" if array.name in found.integers else wide
