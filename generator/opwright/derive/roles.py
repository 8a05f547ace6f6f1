"""The role of each letter of an assignment, determined only by the accesses in which it occurs.

In: the target, the reads, and letters. Out: a role for each letter. For a product of two reads they define
the contraction; for one read, whether it is pointwise or a reduction.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from ..language import expr
from ..language.expr import Read
from ..language.model import Op
from ..memo import memoised
from .program import program

BATCH = "batch"  # in the target and in every read
ROWS = "rows"  # in the target and in some reads, the first among them
COLUMNS = "columns"  # in the target and in some reads, the first not among them
STRETCHED = "stretched"  # in the target alone
REDUCED = "reduced"  # in reads alone
WINDOW = "window"  # prefix of a role: the letter moves an index together with another letter


def roles(target: Read, reads: Sequence[Read], letters: Iterable[str]) -> dict[str, str]:
    """The role of each letter; reads without letters do not count."""
    walked = [read for read in reads if read.indices]
    compound = _compound((target, *walked), frozenset(letters))
    result = {}
    for letter in letters:
        inside = [letter in expr.names(read) for read in walked]
        if letter not in expr.names(target):
            role = REDUCED
        elif all(inside) and inside:
            role = BATCH
        elif not any(inside):
            role = STRETCHED
        else:
            role = ROWS if inside[0] else COLUMNS
        result[letter] = f"{WINDOW} {role}" if letter in compound else role
    return result


def _compound(accesses: Iterable[Read], letters: frozenset[str]) -> frozenset[str]:
    """The letters that share an index with another one and never index a read alone."""
    found: set[str] = set()
    for access in accesses:
        for index in access.indices:
            sharing = expr.names(index) & letters
            if len(sharing) > 1:
                found |= sharing
    return frozenset(found)


@memoised
def role_table(op: Op) -> tuple[tuple[str, Mapping[str, str]], ...]:
    """The assignments of an operation as in the spec, with the roles of their letters."""
    if not op.stepped:
        assignment = op.semantics.assignment
        reads = tuple(dict.fromkeys(expr.reads(assignment.value)))
        return ((assignment.text, roles(assignment.target, reads, op.semantics.ranges)),)
    return tuple(
        (formula.assignment.text, roles(formula.assignment.target, formula.reads, part.letters))
        for part in program(op).parts
        for formula in part.formulas
    )
