"""Sums of sums of products, as of groups of terms with a scale each, are sums of all terms at once.

In: a program and its operation. Out: the program in which `y[n, o] += q[n, o, g] * s[o, g]` sums x * w * s, if each q
is a sum of `x[n, g, k] * w[o, g, k]`, nothing else reads these, and one product in which each element is used often
makes all of it. 32 groups of 32 terms, 200x300 cells f32, take 0.09 of their time, bf16 0.08 (Intel Xeon, gcc 12.2, one
thread).
"""

from __future__ import annotations

import dataclasses

from ...language import expr
from ...language.expr import Name, Read
from ...language.model import Op
from ..contraction import contraction, walked
from ..program import Part, Program
from .lone_sums import factors_of
from .pairing import is_product, paired


def at_once(found: Program, op: Op) -> Program:
    """The program with such sums."""
    for part in found.parts:
        if _adds(found, part) and not is_product(found, part):
            found = next((made for read in part.reads if (made := _joined(found, op, part, read))), found)
    return found


def _adds(found: Program, part: Part) -> bool:
    """Whether a step adds up terms, and does so whatever the call."""
    plain = part.operator == "sum" and not (part.by or part.where or part.unless_empty)
    return plain and part.target.tensor not in found.integers


def _joined(found: Program, op: Op, part: Part, inner: Read) -> Program | None:
    """The program in which a step sums the terms of sums that it reads as a factor; None if that is no such product."""
    users = [one for one in found.parts for read in (one.target, *one.reads) if read.tensor == inner.tensor]
    if len(users) != 2 or users[1] is not part or not _adds(found, maker := users[0]):
        return None
    if maker.target.tensor != inner.tensor:  # an input that both read
        return None
    value = part.formulas[0].value
    if inner not in [*factors_of(value)] or not walked(found, inner) or not walked(found, maker.target):
        return None
    if len(inner.indices) != len(maker.target.indices):  # of axes that are 1 long
        return None
    changed = {one.target.tensor for one in found.parts[found.parts.index(maker) : found.parts.index(part)]}
    letters = {
        old.id: new for old, new in zip(maker.target.indices, inner.indices, strict=True) if isinstance(old, Name)
    }
    terms = maker.formulas[0].value
    own = {*maker.letters} - letters.keys()
    if own & {*part.letters} or changed & {read.tensor for read in maker.reads} or _exact(op, maker):
        return None
    every = own | {name for new in letters.values() for name in expr.names(new)}
    if not {*part.letters} <= every or len(every) > len(maker.letters):
        return None
    value = expr.replaced(value, inner, expr.substitute(terms, letters))
    whole = dataclasses.replace(part, letters=tuple(letter for letter in found.letters if letter in every))
    whole = whole.of(part.target, "sum", value)
    parts = tuple(whole if one is part else one for one in found.parts if one is not maker)
    arrays = {name: array for name, array in found.arrays.items() if name != inner.tensor}
    made = dataclasses.replace(found, arrays=arrays, parts=parts)
    split = paired(made)
    sums = [one for one in split.parts if one not in parts and one.operator == "sum"] or [whole]
    product = contraction(split, sums[0]) if len(sums) == 1 else None
    return made if product is not None and product.dense else None


def _exact(op: Op, maker: Part) -> bool:
    """Whether a step may sum products of bytes, which engines sum as integers and a factor would make real numbers."""
    inputs = {tensor.name for tensor in op.inputs}
    reads = {read.tensor for read in maker.reads}
    return all(name not in inputs or any(row.get(name) in ("s8", "u8") for row in op.dtypes) for name in reads)
