"""Applies one edit to an operation: a comparison turns the old side into the new one step by step.

In: an operation and an edit. Out: another operation; nothing is changed in place.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..language import expr
from ..language.expr import Expr, Name
from ..language.model import AllowedValue, Attribute, Op, Tensor
from ..language.schema import Located
from ..language.types import symbol_of
from .tree import MISSING, Entry, Path, exact, get, identity, put, rename, reorder


def moved(op: Op, symbol: str, here: str, there: str, order: Sequence[str]) -> Op:
    taken: Op = put(op, (here, Entry(symbol)), MISSING)
    return placed(taken, (there, Entry(symbol)), getattr(op, here)[symbol], order)


def replaced(op: Op, path: Path, old: Any, item: Any) -> Op:
    result: Op = put(op, path, tuple(item if identity(found) == old else found for found in get(op, path)))
    return result


def placed(op: Op, path: Path, value: Any, order: Sequence[Any] | None, whole: Any = None) -> Op:
    """An item added or removed, the others in the given order; None if `whole` has no list."""
    made: Op = put(op, path, value)
    left = get(made, path[:-1])
    if not left and not whole:
        return made if whole == left else put(made, path[:-1], whole)
    return made if order is None else put(made, path[:-1], reorder(left, order))


def with_cells(op: Op, make: Callable[[Op], Op], name: str, rows: Sequence[Mapping[str, str]]) -> Op:
    """A tensor added or removed, together with its cell in each row of data types."""
    made = make(op)
    comes = any(tensor.name == name for tensor in (*made.inputs, *made.outputs))

    def row(old: Mapping[str, str]) -> dict[str, str]:
        rest = {key: dtype for key, dtype in old.items() if key != name}
        fit = (new for new in rows if name in new and rest.items() <= new.items())
        cell = next(fit, None) if comes else None
        return {key: {**rest, name: cell[name]}[key] for key in cell} if cell else rest

    return dataclasses.replace(made, dtypes=tuple(map(row, op.dtypes)))


def reordered(op: Op, path: Path, order: Sequence[Any], whole: Any) -> Op:
    """The items in the order of the new side; items that cannot be distinguished move with their owner."""
    now = reorder(get(op, path), order)
    result: Op = put(op, path, now if exact(now) == exact(whole) else whole)
    return result


def exchanged(was: Tensor, now: Tensor) -> bool:
    """Whether axes only exchange their names: those at one place have equal extents, and nothing refers to them."""
    named = (now.layout, now.broadcast, now.broadcast_if, now.may_lack, now.joined, now.packed, now.arrangements)
    others = [*was.dims] != [*now.dims] and {*was.dims} == {*now.dims}
    return others and not any(named) and exact([*was.dims.values()]) == exact([*now.dims.values()])


def turned(tensor: Tensor, letters: tuple[str, ...]) -> Tensor:
    """A tensor with other letters in its view, by position; unchanged if the numbers of letters differ."""
    if len(letters) != len(tensor.view):
        return tensor
    arrangements = tensor.arrangements
    between = [f"letter{number}" for number in range(len(letters))]  # two letters may be swapped
    for olds, news in ((tensor.view, between), (between, letters)):
        for old, new in zip(olds, news):
            arrangements = {
                name: dataclasses.replace(made, index={axis: rename(i, old, new) for axis, i in made.index.items()})
                for name, made in arrangements.items()
            }
    return dataclasses.replace(tensor, view=letters, arrangements=arrangements)


def lettered(op: Op, path: Path, letters: tuple[str, str], value: str | None) -> Op:
    """Rename a letter in all formulas and in its declaration; parameters and an input of the same name keep it."""
    made: Op = swapped(op, *letters) if letters[1] in symbols_of(op) else rename(op, *letters)
    if isinstance(get(op, path[:-1]), Attribute):
        attributes = tuple(dataclasses.replace(new, name=old.name) for old, new in zip(op.attributes, made.attributes))
        blamed = (dataclasses.replace(new, argument=old.argument) for old, new in zip(op.constraints, made.constraints))
        made = dataclasses.replace(made, attributes=attributes, constraints=tuple(blamed))
        if letters[0] in [tensor.name for tensor in op.inputs]:
            made = dataclasses.replace(made, inputs=op.inputs, dtypes=op.dtypes)
    result: Op = put(made, path, value)
    return result


def renamed_parameter(op: Op, section: str, old: str, new: str) -> Op:
    """Rename an attribute or an input; its counterpart of the same name keeps it."""
    made: Op = rename(op, old, new)
    others = [tensor.name for tensor in op.inputs] if section == "attributes" else [a.name for a in op.attributes]
    if old not in others:
        return made
    sections = ("constraints", "inputs", "dtypes") if section == "attributes" else ("constraints", "attributes")
    return dataclasses.replace(made, **{name: getattr(op, name) for name in sections})


def respelled(op: Op, path: Path, old: AllowedValue, new: AllowedValue) -> Op:
    """Swap a word with its alias; other added or removed spellings are edits of their own."""
    common = [spelling for spelling in new.aliases if spelling == old.value or spelling in old.aliases]
    gone = [spelling for spelling in old.aliases if spelling not in (*new.aliases, new.value)]
    result: Op = put(rename(op, old.value, new.value), (*path, Entry(new.value), "aliases"), (*common, *gone))
    return result


def moved_aliases(op: Op, path: Path, words: Sequence[AllowedValue]) -> tuple[dict[str, str], dict[str, str], Op]:
    """The aliases that moved to another word: the word of each before and after, and the resulting operation."""
    old, new = (_by_alias(values) for values in (get(op, path), words))
    common = {value.value for value in words} & {value.value for value in get(op, path)}
    moved = [alias for alias in new if alias in old and old[alias] != new[alias] and {old[alias], new[alias]} <= common]
    order = {alias: place for value in words for place, alias in enumerate(value.aliases)}

    def spelled(value: AllowedValue) -> AllowedValue:
        left = [alias for alias in value.aliases if alias not in moved]
        come = [alias for alias in moved if new[alias] == value.value]
        aliases = sorted([*left, *come], key=lambda alias: order.get(alias, -1)) if come else left
        return dataclasses.replace(value, aliases=tuple(aliases))

    made: Op = put(op, path, tuple(map(spelled, get(op, path)))) if moved else op
    return {alias: old[alias] for alias in moved}, {alias: new[alias] for alias in moved}, made


def _by_alias(values: Sequence[AllowedValue]) -> dict[str, str]:
    return {alias: value.value for value in values for alias in value.aliases}


def rename_letter(op: Op, old: str, new: str) -> Op:
    result: Op = put(op, ("semantics",), rename(op.semantics, old, new))
    return result


def relettered(op: Op, olds: Sequence[str], news: Sequence[str]) -> Op:
    """Rename letters in the semantics, by position; letters may be swapped."""
    made = op.semantics
    between = [f"letter{number}" for number in range(len(olds))]
    for here, there in ((olds, between), (between, news)):
        for old, new in zip(here, there, strict=True):
            made = rename(made, old, new)
    result: Op = put(op, ("semantics",), made)
    return result


def swapped(op: Op, one: str, other: str) -> Op:
    """Two letters swapped."""
    return rename(rename(rename(op, one, "letter0"), other, one), "letter0", other)


def symbols_of(op: Op) -> frozenset[str]:
    """The letters of sizes, attributes and named values."""
    attributes = (symbol_of(attribute) for attribute in op.attributes)
    return frozenset({*(dim.symbol for dim in op.dims.values()), *attributes, *op.lets})


def placed_letters(op: Op, formula: Located) -> Expr:
    """The stored expression, with the letters of its cell numbered by position."""
    tree = formula.tree
    own = next((read for read in expr.reads(tree) if read.tensor == op.output.name), None)
    for place, letter in enumerate(own.indices if own else ()):
        if isinstance(letter, Name):
            tree = rename(tree, letter.id, f"${place}")
    return tree
