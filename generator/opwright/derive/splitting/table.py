"""The table of splits of an operation: for every letter over a size of its tensors how it may be split, or why not.

In: an operation. Out: `Split`s, in the order of the letters. A letter has several where attributes or the arrangement
of a tensor decide, as the channels of a convolution do with one group.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping

from ...language.model import Op
from ...language.types import symbol_of
from ...memo import memoised
from ..algebra.poly import Poly
from . import cells, periods, windows
from .cells import Forbidden
from .form import Form, forms
from .split import WHOLE, Split


@memoised
def table(op: Op) -> tuple[Split, ...]:
    """How an operation may be split."""
    counts = [symbol for symbol in cells.symbols(op)[len(op.dims) :] if _divides(op, symbol)]
    found = [split for form in forms(op) for split in _of(op, form, counts)]
    for symbol in counts:
        for form in forms(op, frozenset({symbol})):
            for split in _of(op, form, ()):
                name = next(a.name or "" for a in op.attributes if symbol_of(a) == symbol)
                found.append(dataclasses.replace(split, when={name: 1}))
    return tuple(_distinct(_merged(found)))


def _divides(op: Op, symbol: str) -> bool:
    """Whether an attribute counts groups of some axis."""
    return any(
        symbol in extent.symbols for form in forms(op) for extent in form.letters.values() if isinstance(extent, Poly)
    )


def _of(op: Op, form: Form, counts: list[str] | tuple[()]) -> Iterator[Split]:
    """The splits of one form, those that are forbidden among them."""
    sizes: set[str] = set()
    reasons: dict[str, str] = {}
    seen: list[windows.WindowCut] = []
    for index in windows.windows(op, form):
        try:
            made = windows.cut(op, form, index)
        except Forbidden as reason:
            reasons.setdefault(index.small, str(reason))
            continue
        sides = {made.window.small, made.window.taps}
        if any(sides == {other.window.small, other.window.taps} for other in seen):
            continue
        sizes |= {made.window.small, made.window.big}
        reasons[index.tap] = "its values are the taps of the windows"
        seen.append(made)
        yield _windowed(op, form, index.small, made)
    own = {extent for tensor in op.tensors for _, extent in form.arrays[tensor.name]}
    for letter, extent in form.letters.items():
        size = next((s for s in cells.symbols(op) if Poly.symbol(s) == extent), None)
        if size is None or size in sizes or not (extent in own or size in counts):
            continue
        sizes.add(size)
        try:
            yield _celled(op, form, letter, size, cells.cut(op, form, size))
        except Forbidden as reason:
            repeated = list(_repeated(op, form, letter, size))
            sizes |= {split.beside for split in repeated}
            yield from repeated
            if repeated:
                continue
            axes = {t.name: {axis: WHOLE for axis, found in form.arrays[t.name] if found == extent} for t in op.tensors}
            cut_axes = {name: found for name, found in axes.items() if found}
            yield Split(
                letter, WHOLE, size, cut_axes, arrangements=form.arrangements, why=reasons.get(letter, str(reason))
            )


def _celled(op: Op, form: Form, letter: str, size: str, cut: cells.Cut) -> Split:
    counted = [a.name or "" for a in op.attributes if symbol_of(a) == size]
    attributes = dict.fromkeys(counted, "count")
    attributes |= {a.name or "": "cells" for a in op.attributes if a.per in cut.sizes}
    shares = set(cut.joins.values()) - {"cells", "same"}
    tensors = {tensor.name for tensor in op.tensors}
    return Split(
        letter,
        "partial" if shares and "cells" not in cut.joins.values() else "groups" if counted else "cells",
        size,
        {name: dict.fromkeys(axes, "cells") for name, axes in cut.axes.items() if name in tensors},
        cut.joins,
        cut.stretched,
        attributes,
        _stated(op, set(cut.axes)),
        cut.once,
        arrangements=form.arrangements,
        rows=_rows(op, cut.joins),
        stretched_rows=_rows(op, {**cut.joins, **cut.stretched}) if cut.stretched else (),
    )


def _repeated(op: Op, form: Form, letter: str, size: str) -> Iterator[Split]:
    """The splits of a letter whose places on the axis of another size repeat."""
    tensors = {tensor.name for tensor in op.tensors}
    for other in (dim.symbol for dim in op.dims.values() if dim.symbol != size):
        try:
            found = list(periods.cuts(op, form, size, other))
        except Forbidden:
            continue
        for cut in found:
            axes = {name: dict.fromkeys(own, "cells") for name, own in cut.axes.items() if name in tensors}
            yield Split(
                letter,
                "periods",
                size,
                axes,
                {t.name: "cells" if t.name in axes else "same" for t in op.outputs},
                beside=other,
                reach=cut.reach,
                alone=cut.alone,
                sizes=cut.attributes,
                when=dict(cut.words),
                arrangements=form.arrangements,
            )
        return


def _windowed(op: Op, form: Form, letter: str, cut: windows.WindowCut) -> Split:
    shares = set(cut.joins.values()) - {"cells", "same"}
    tensors = {tensor.name for tensor in op.tensors}
    return Split(
        letter,
        "partial" if shares else "halo",
        cut.size,
        {name: axes for name, axes in cut.axes.items() if name in tensors},
        cut.joins,
        states=_stated(op, set(cut.axes)),
        arrangements=form.arrangements,
        rows=_rows(op, cut.joins),
        window=cut.window,
    )


def _stated(op: Op, cut: set[str]) -> dict[str, str]:
    """The attributes and inputs that state the shape of an output that is cut, and which."""
    outputs = [output for output in op.outputs if output.name in cut]
    return {giver.name or "": output.name for output in outputs for giver in op.stated_by(output)}


def _rows(op: Op, joins: Mapping[str, str]) -> tuple[int, ...]:
    """The dtype rows in which parts lose nothing. () for all, (-1,) for none.

    Sums are stored as they are accumulated. Extremes are stored by types that keep the order, and NaN.
    """
    fits = []
    for row in op.dtypes:
        whole = row["accumulate"] == "s64"
        ordered = _ORDERED_WHOLE if whole else _ORDERED
        allowed = {"max": ordered, "min": ordered, "cells": {*row.values()}, "same": {*row.values()}}
        fits.append(all(row[name] in allowed.get(join, {row["accumulate"]}) for name, join in joins.items()))
    return () if all(fits) else tuple(number for number, fit in enumerate(fits) if fit) or (-1,)


_ORDERED = frozenset({"f64", "f32", "bf16", "f16", "f8_e5m2"})
_ORDERED_WHOLE = frozenset({"s64", "s32", "s8", "u8", "s4", "u4"})


def _merged(found: list[Split]) -> Iterator[Split]:
    """One of those that say the same in every arrangement, and of those that hold whatever an attribute is."""
    splits: list[Split] = []
    for split in found:
        plain = dataclasses.replace(split, arrangements={}, when={})
        twins = [other for other in splits if dataclasses.replace(other, arrangements={}, when={}) == plain]
        if any(not other.when for other in twins) and split.when:
            continue
        same = [other for other in twins if other.when == split.when and other.arrangements != split.arrangements]
        if same:
            splits[splits.index(same[0])] = dataclasses.replace(same[0], arrangements={})
        else:
            splits.append(split)
    yield from splits


def _distinct(found: Iterator[Split]) -> Iterator[Split]:
    """Without those that are forbidden where the same size may be split in some calls."""
    splits = list(found)
    sizes = {split.size for split in splits if split.kind != WHOLE}
    for split in splits:
        if split.kind != WHOLE or split.size not in sizes:
            sizes.add(split.size)
            yield split
