"""In which order the axes of an output lie in memory where a call gives no array for it.

In: where axes stand, and the strides of a call's arrays. Out: axes from the outermost to the innermost, or None for
the order in which they stand. As in NumPy and PyTorch, what is made of a view lies as the view does: kernels go
through both in the order of memory.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ._arrays import Array
from ._axes import Places


def order_of(
    own: Places, arrays: Mapping[str, Array], places: Mapping[str, Places], alike: Sequence[str] = ()
) -> tuple[int, ...] | None:
    """The order of the axes of an output that stand at `own`: that of the largest array that has them all.

    Those that are `alike` have others in the same places, which go with them. An array that has them in other places of
    each other, or one cell for all places of an axis, says nothing.
    """
    spots = sorted((spot, axis, number) for axis, found in own.items() for number, spot in enumerate(found))
    for name, array in sorted(arrays.items(), key=lambda item: -item[1].size):
        there = places.get(name, {})
        if all(len(there.get(axis, ())) == len(found) for axis, found in own.items()):
            at = [there[axis][number] for _, axis, number in spots]
        elif name in alike and array.ndim == len(spots):
            at = [*range(array.ndim)]
        else:
            continue
        steps = [0 if array.shape[spot] == 1 else abs(array.strides[spot]) for spot in at]
        plain = array.flags.c_contiguous or at != sorted(at)
        if plain or any(array.shape[spot] > 1 and step == 0 for spot, step in zip(at, steps)):
            return None
        order = tuple(sorted(range(len(steps)), key=lambda spot: -steps[spot]))
        return None if order == tuple(range(len(steps))) else order
    return None


def strides_of(shape: Sequence[int], cell: int, order: Sequence[int] | None = None) -> tuple[int, ...]:
    """The strides of an array without gaps, in bytes as its cells; with its axes in this order in memory."""
    strides = [0] * len(shape)
    for axis in reversed(range(len(shape)) if order is None else order):
        strides[axis] = cell
        cell *= shape[axis] or 1  # as in NumPy, where there are no cells
    return tuple(strides)
