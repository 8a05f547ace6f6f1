"""Positions of the axes of a call's arrays, and the number of axes of each run: found by search, not solved.

In: arrays, and attributes that give positions. Out: the minimum lengths with which every tensor has as many axes as
its array. The generated validators solve for them, so this is an independent check.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

from ..language import expr
from ..language.expr import Call, Name
from ..language.model import Tensor
from .statements import axis_kind
from .step_call import Places, permuted
from .validate import Array, Validator


class AxisFinder(Validator):
    """A validator that finds the axes of runs."""

    arrays: dict[str, Array]
    places: dict[str, Places]
    spots: dict[str, tuple[int, ...]]  # by role, the value of the attribute that locates it
    orders: dict[str, tuple[int, ...]]  # by tensor, its order; by attribute, its extents

    def lengths(self) -> dict[str, int] | None:
        """The minimum numbers of axes of every run, and of the spatial axes (''), with which all tensors fit."""
        op, allowed = self.op, self.op.spatial_rank
        maximum = max((array.ndim for array in self.arrays.values()), default=0)
        counts = {op.dims[a.extents_of].symbol: len(self.orders[a.name or ""]) for a in op.attributes if a.extents_of}
        spans: dict[str, Sequence[int]] = {symbol: (count,) for symbol, count in counts.items()}
        spans |= {str(t.dims[axis].tree.id): (1, 0) for t in op.tensors for axis in t.may_lack}  # type: ignore[union-attr]
        spans |= {"": range(allowed.min, allowed.max + 1)}
        spans |= {run: range(maximum + 1) for run in sorted(op.runs - counts.keys())}
        tensors: list[str] = []
        for tensor in op.data_inputs:  # the first input that may omit an axis decides whether it is omitted
            tensors += [tensor.name] if tensor.name in self.arrays else []
            for symbol in (str(tensor.dims[axis].tree.id) for axis in tensor.may_lack):  # type: ignore[union-attr]
                if len(spans[symbol]) > 1:
                    fits = self.fitting(tensors, spans | {symbol: (1,)})
                    spans[symbol] = (1,) if fits else (0,)
        found = self.fitting(tensors, spans)
        if found is None:
            return None
        lengths, self.places = found
        return lengths

    def fitting(
        self, names: Sequence[str], spans: Mapping[str, Sequence[int]]
    ) -> tuple[dict[str, int], dict[str, Places]] | None:
        """The minimum numbers of axes with which some tensors fit, and the positions of their axes."""
        for found in itertools.product(*spans.values()):
            lengths = dict(zip(spans, found, strict=True))
            placed = {name: self.placed(self.op.tensor(name), self.arrays[name].ndim, lengths) for name in names}
            places = {name: place for name, place in placed.items() if place is not None}
            if len(places) == len(names) and self.located(places, names):
                return lengths, places
        return None

    def count(self, tensor: Tensor, axis: str, lengths: Mapping[str, int]) -> int:
        extent = tensor.dims[axis].tree
        kind = axis_kind(self.op, extent)
        if kind in ("run", "ones"):
            return lengths[next(iter(expr.loose_names(extent)))]
        if axis in tensor.may_lack and isinstance(extent, Name):
            return lengths[extent.id]
        return lengths[""] if kind == "spatial" else 1

    def order(self, tensor: Tensor) -> tuple[str, ...]:
        if tensor.layout is None:
            return tuple(tensor.dims)
        return tuple(self.op.layouts[tensor.layout][self.words[tensor.layout]])

    def broadcasts(self, tensor: Tensor) -> tuple[str, ...]:
        holds = all(self.words.get(name) == word for name, word in tensor.broadcast_if.items())
        return tensor.broadcast if holds else ()

    def placed(self, tensor: Tensor, ndim: int, lengths: Mapping[str, int]) -> Places | None:
        """The axes of an array of `ndim` axes; None if the lengths do not fit it."""
        order = self.order(tensor)
        counts = {axis: self.count(tensor, axis, lengths) for axis in order}
        for axis in self.broadcasts(tensor):
            if axis in counts and axis_kind(self.op, tensor.dims[axis].tree) == "run":
                rest = ndim - sum(count for other, count in counts.items() if other != axis)
                counts[axis] = min(max(rest, 0), counts[axis])
        if sum(counts.values()) != ndim:
            return None
        fixed: Places = {}
        for axis in order:
            spots = self.spots_of(tensor, axis, ndim)
            if spots is not None:
                if len(spots) != counts[axis]:
                    return None
                if any(spot in other for other in fixed.values() for spot in spots):
                    return None
                fixed[axis] = spots
        if tensor.name in self.orders:
            return permuted(order, counts, self.orders[tensor.name])
        free = iter(spot for spot in range(ndim) if not any(spot in spots for spots in fixed.values()))
        return {a: fixed[a] if a in fixed else tuple(next(free) for _ in range(counts[a])) for a in order}

    def spots_of(self, tensor: Tensor, axis: str, ndim: int) -> tuple[int, ...] | None:
        """The positions of a run from a list; None without a list. An invalid position never fits."""
        tree = tensor.dims[axis].tree
        inner = tree.arguments[0] if isinstance(tree, Call) and tree.function == "ones" else tree
        for attribute in self.op.attributes:
            role = attribute.locates
            if attribute.type == "s64[]" and role and inner == Name(self.op.dims[role].symbol):
                if len(tensor.dims) != len(self.first_with(inner).dims) or not self.same_extents(tensor, inner):
                    return None
                spots = self.spots.get(role)
                if spots is None or not all(-ndim <= spot < ndim for spot in spots):
                    return (-1,) * (ndim + 1)
                found = tuple(sorted({spot % ndim for spot in spots}))
                return found if len(found) == len(spots) else (-1,) * (ndim + 1)
        return None

    def first_with(self, extent: expr.Expr) -> Tensor:
        """The first input that has an axis of an extent."""
        return next(t for t in self.op.data_inputs if any(e.tree == extent for e in t.dims.values()))

    def same_extents(self, tensor: Tensor, run: expr.Expr) -> bool:
        """Whether a tensor has the axes of the first input with a run that a list places; ones(R) stands for R."""
        left = [extent.tree for extent in self.first_with(run).dims.values()]
        for extent in tensor.dims.values():
            tree = extent.tree
            inner = tree.arguments[0] if isinstance(tree, Call) and tree.function == "ones" else tree
            if inner not in left:
                return False
            left.remove(inner)
        return True

    def located(self, places: Mapping[str, Places], names: Sequence[str]) -> bool:
        """Whether axes are where attributes place them: an s64 counts the axes before its own, from the end if < 0."""
        for attribute in self.op.attributes:
            if attribute.locates is None or attribute.type != "s64":
                continue
            spots = self.spots.get(attribute.locates)
            symbol = Name(self.op.dims[attribute.locates].symbol)
            tensor = next(t for t in self.op.data_inputs if any(e.tree == symbol for e in t.dims.values()))
            if tensor.name in self.arrays and tensor.name not in names:
                continue
            if tensor.name not in places or spots is None:
                return False
            order, at = self.order(tensor), places[tensor.name]
            axis = next(axis for axis, extent in tensor.dims.items() if extent.tree == symbol)
            before = sum(len(at[other]) for other in order[: order.index(axis)])
            ndim = self.arrays[tensor.name].ndim
            inclusive = self.op.dims[attribute.locates].run and spots[0] == ndim
            if not inclusive and (not -ndim <= spots[0] < ndim or spots[0] % ndim != before):
                return False
            if inclusive and before != ndim:
                return False
        return True
