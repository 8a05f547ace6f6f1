"""Sums of products under a comparison of a summed letter with one of the cells become products of all terms.

In: a program. Out: the same program, in which such a step is several: as of triangles, the other terms have a factor of
0. 0 times infinity is NaN: rows in which a sum is NaN are summed again, without what the condition leaves out. `l[i, j]
* b[j, n]` with `j <= i` of 257x257x130 f32 takes 0.45 of its time, bf16 0.38 (EPYC Zen 5, gcc 12.2, one thread).
"""

from __future__ import annotations

import dataclasses

from ...language import expr
from ...language.expr import Binary, Call, Expr, Name, Number, Read
from ..algebra.slopes import comparisons, slope
from ..contraction import letters_of, walked
from ..program import Array, Part, Program
from .lone_sums import divided_factors
from .pairing import is_product


def masked(found: Program) -> Program:
    """The program without such conditions."""
    for part in found.parts:
        found = _masked(found, part)
    return found


def _masked(found: Program, part: Part) -> Program:
    target, operator = part.target, part.operator
    if operator != "sum" or part.by or part.unless_empty or len(part.where) != 1 or target.tensor in found.integers:
        return found
    if found.arrays[target.tensor].role != "between" or not walked(found, target):
        return found
    condition, value = part.where[0].tree, part.formulas[0].value
    compared = _compared(found, part, condition)
    every, _ = divided_factors(value)
    factors = [factor for factor in every if compared and compared <= expr.names(factor)]
    if not factors:
        return found
    factor = min(factors, key=lambda tree: len(expr.names(tree) & found.letters.keys()))
    kept = Call("select", (condition, factor, Number(0)))

    # Sums are looked at, and summed again, in rows along the last axis, as lanes go. Other rows cannot be left out:
    # 300x300x200 f32 of `y[m, i] += a[j, i] * x[m, j]` where `j < i` take 6 times as long (Intel Xeon, gcc 12.2).
    cells = [letter for letter in letters_of(target) if letter]
    rows = cells[:-1] or cells
    axes = {letter: dataclasses.replace(found.letters[letter], name=letter) for letter in cells}
    whole, again = (Read(f"{word}_{part.number}_", tuple(map(Name, cells))) for word in ("masked", "again"))
    unsure = Read(f"unsure_{part.number}_", tuple(map(Name, rows)))
    if {whole.tensor, again.tensor, unsure.tensor} & found.arrays.keys():
        return found

    product = part.of(whole, "sum", expr.replaced(value, factor, kept))
    doubt = Binary(">", unsure, Number(0))
    total: Expr = Call("select", (doubt, again, whole))
    alone = sum(other.target.tensor == target.tensor for other in found.parts) == 1
    steps = (
        product,
        part.of(unsure, "max", Call("select", (Binary("==", whole, whole), Number(0), Number(1)))),
        dataclasses.replace(part.of(again, "sum", Call("select", (doubt, value, Number(0)))), where=part.where),
        part.of(target, "set", total) if alone else part.of(target, "sum", total),
    )
    arrays = {
        cell.tensor: Array(cell.tensor, "between", tuple(axes[name] for name in letters), seldom=cell is again)
        for cell, letters in ((whole, cells), (unsure, rows), (again, cells))
    }
    parts = found.instead(part, steps)
    made = dataclasses.replace(found, arrays={**found.arrays, **arrays}, parts=parts)
    return made if is_product(made, product) else found


def _compared(found: Program, part: Part, condition: Expr) -> set[str]:
    """The letters of a comparison of cells with terms, which leaves about half of them; none if it is not one."""
    trees = comparisons(condition) or []
    names = expr.names(condition) & found.letters.keys()
    simple = len(trees) == 1 and not expr.reads(condition)
    unit = simple and all(slope(trees[0], name) in (Number(1), Number(-1)) for name in names)
    sides = names & expr.names(part.target), names - expr.names(part.target)
    return {*names} if unit and all(len(side) == 1 for side in sides) else set()
