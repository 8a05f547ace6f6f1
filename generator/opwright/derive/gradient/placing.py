"""The shares of an array by the letters of its cells, so that they can be added.

In: shares at any indices, and the steps that write the array. Out: those that are, or can be, at the letters of one
step; and those at other indices, which go on through the steps that made the cells.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from ...language import expr
from ...language.expr import Call, Expr, Name, Read
from ..program import Part, Program
from ..rewrites.respelling import counted
from .inverse import solved
from .statements import Need, Share, plain
from .terms import terms_of, tree_of


def placed(found: Program, shares: Iterable[Share], writers: list[Part]) -> tuple[list[Share], list[Share]]:
    """The shares of an array indexed by the letters of its elements, and those at other indices."""
    canonical = next((part.target for part in writers if plain(found, part.target) is not None), None)
    direct, remote = [], []
    for share in shares:
        if canonical is not None and not all(_passes(found, part, share) for part in writers):
            share = _at_cells(found, share, canonical)
        own = plain(found, share.target)
        if own is None:
            remote.append(share)
            continue
        canonical = canonical or share.target
        direct.append(_moved(share, own, plain(found, canonical) or (), canonical))
    return direct, remote


def _passes(found: Program, part: Part, share: Share) -> bool:
    """Whether a share at other indices than letters can go on through the step that made its elements."""
    summed = set(part.letters) - expr.names(part.target)
    return plain(found, share.target) is not None or (
        part.operator in ("set", "sum") and not (share.by or part.by or summed & share.letters)
    )


def _at_cells(found: Program, share: Share, cell: Read) -> Share:
    """A share indexed by the letters of its elements, solved for those that reach them; itself if that fails."""
    letters = plain(found, cell) or ()
    solution = solved(found, share.target, letters, share.letters)
    if solution is None:
        return share

    def at(tree: Expr) -> Expr:
        return put_in(found, tree, solution.trees)

    cases = {word: terms_of(at(tree_of(value))) for word, value in share.cases.items()}
    needs = {Need(tuple(map(at, need.indices)), need.axes) for need in share.needs}
    inside = {need for need in needs if all(isinstance(i, Name) and i.id in letters for i in need.indices)}
    walked = frozenset(share.letters - solution.letters | {*letters, *solution.counting})
    where = (*map(at, share.where), *solution.where)
    return Share(cell, cases, share.by, walked, where, frozenset((*(needs - inside), *solution.needs)))


def put_in(found: Program, tree: Expr, trees: Mapping[Expr, Expr]) -> Expr:
    """A tree with others in place of letters, or of indices. The number of such letters becomes a formula."""

    def visit(node: Expr) -> Expr | None:
        if isinstance(node, Call) and node.function == "number":
            named = all(isinstance(trees.get(name, name), Name) for name in node.arguments)
            digits = None if named else counted(found, node)
            return trees.get(node) if digits is None else expr.changed(digits, trees.get)
        return trees.get(node)

    return expr.changed(tree, visit)


def _moved(share: Share, own: tuple[str, ...], letters: tuple[str, ...], target: Read) -> Share:
    """A share with its letters replaced by those of another step for the same axes."""
    if own == letters:
        return replace(share, target=target)
    names: dict[str, str] = dict(zip(own, letters, strict=True))
    before = {new: old for old, new in names.items()}
    for new in before:
        if new in share.letters and new not in names:
            free = before[new]
            while free in before:  # all of them have the extent of one axis
                free = before[free]
            names[new] = free
    trees: dict[str, Expr] = {old: Name(new) for old, new in names.items()}
    cases = {word: terms_of(expr.substitute(tree_of(value), trees)) for word, value in share.cases.items()}
    needs = frozenset(Need(tuple(expr.substitute(i, trees) for i in need.indices), need.axes) for need in share.needs)
    where = tuple(expr.substitute(guard, trees) for guard in share.where)
    moved = frozenset(names.get(letter, letter) for letter in share.letters)
    return Share(target, cases, share.by, moved, where, needs)
