"""Axes of a call put in the order of memory, and together where every array goes through them as through one.

In: a resolved call, its arrays, and which sizes kernels do not tell apart. Out: the call and the arrays as kernels see
them: H and W become 1 and H * W, and C and W change places where channels lie side by side. What a call means, and
every refusal, is that of the arrays as they were given.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from numpy.lib.stride_tricks import as_strided

from ._arrays import Array
from ._axes import Places


@dataclass(frozen=True)
class Chain:
    """Sizes from the outermost to the innermost: the letters of each, and by array the axes that have them.

    `apart`: the phases that tell them apart with lanes along the last of their letters.
    """

    sizes: tuple[str, ...]
    letters: tuple[tuple[str, ...], ...]
    axes: Mapping[str, tuple[str, ...]]
    apart: tuple[int, ...] = ()


def collapsed(
    chains: Iterable[Chain],
    values: Mapping[str, Any],
    letters: Mapping[str, tuple[int, ...]],
    arrays: Mapping[str, Array],
    places: Mapping[str, Places],
) -> tuple[Mapping[str, Any], Mapping[str, tuple[int, ...]], Mapping[str, Array]]:
    """Values, extents of letters and arrays with as few axes as arrays allow; where extents are 0, as they are."""
    for chain in chains:
        extents = [values[size] for size in chain.sizes]
        spots = {
            name: [places[name][axis][0] for axis in axes]
            for name, axes in chain.axes.items()
            if name in arrays and all(len(places.get(name, {}).get(axis, ())) == 1 for axis in axes)
        }
        if 0 in extents or any(name not in spots and arrays[name].ndim for name in chain.axes if name in arrays):
            continue
        steps = {name: _steps_of(arrays[name], at) for name, at in spots.items()}
        # Kernels are made for arrays in the order of their axes: only where the one that tells is not, is it another.
        turned = bool(spots) and not arrays[[*spots][-1]].flags.c_contiguous
        made = _beside(*_merged(*_ordered(extents, steps, turned)), {name: arrays[name].itemsize for name in spots})
        if made == (extents, steps):
            continue
        extents, steps = made
        walked = {letter: (extent,) for own, extent in zip(chain.letters, extents) for letter in own}
        values = {**values, **dict(zip(chain.sizes, extents))}
        letters = {letter: walked.get(letter, extent) for letter, extent in letters.items()}
        arrays = {**arrays, **{name: _reshaped(arrays[name], spots[name], extents, steps[name]) for name in spots}}
    return values, letters, arrays


def _steps_of(array: Array, spots: Iterable[int]) -> list[int]:
    return [0 if array.shape[spot] == 1 else array.strides[spot] for spot in spots]


def _ordered(
    extents: Sequence[int], steps: dict[str, list[int]], turned: bool
) -> tuple[list[int], dict[str, list[int]]]:
    """The sizes; `turned` by how far neighbours lie apart in the last array that tells, those of 1 cell first."""

    def far(size: int) -> tuple[int, ...]:
        return (int(extents[size] == 1), *[abs(own[size]) for own in reversed(steps.values())])

    return _taken(sorted(range(len(extents)), key=far, reverse=True) if turned else range(len(extents)), extents, steps)


def _merged(extents: list[int], steps: dict[str, list[int]]) -> tuple[list[int], dict[str, list[int]]]:
    """The sizes, of which two are merged where one has 1 cell or every array goes through both as through one."""
    inner = len(extents) - 1
    for outer in reversed(range(inner)):
        alone = extents[inner] == 1
        if extents[outer] == 1:
            continue
        if alone or all(own[outer] == own[inner] * extents[inner] for own in steps.values()):
            for own in steps.values():
                own[inner], own[outer] = own[outer] if alone else own[inner], 0
            extents[inner], extents[outer] = extents[outer] * extents[inner], 1
        else:
            inner = outer
    return extents, steps


def _beside(
    extents: list[int], steps: dict[str, list[int]], cell: Mapping[str, int]
) -> tuple[list[int], dict[str, list[int]]]:
    """The sizes, the last but one that along which cells lie together in most arrays that the last strides through."""
    *others, last = range(len(extents))
    beside = [
        sum(abs(own[size]) == cell[name] != abs(own[last]) for name, own in steps.items()) * (extents[size] > 1)
        for size in others
    ]
    if not any(beside):
        return extents, steps
    moved = beside.index(max(beside))
    return _taken([*others[:moved], *others[moved + 1 :], moved, last], extents, steps)


def _taken(
    order: Iterable[int], extents: Sequence[int], steps: Mapping[str, list[int]]
) -> tuple[list[int], dict[str, list[int]]]:
    """The sizes in an order."""
    order = [*order]
    return [extents[size] for size in order], {name: [own[size] for size in order] for name, own in steps.items()}


def _reshaped(array: Array, spots: Sequence[int], extents: Sequence[int], steps: Sequence[int]) -> Array:
    """An array with other extents and steps at some places; one cell that serves all of them stays so."""
    if all(array.shape[spot] == 1 for spot in spots):
        return array
    shape, strides = [*array.shape], [*array.strides]
    for spot, extent, step in zip(spots, extents, steps):
        shape[spot], strides[spot] = extent, step
    raw = as_strided(array.view(f"u{array.itemsize}"), shape, strides)
    return raw.view(array.dtype)  # NumPy's interface of arrays cannot name all types of ml_dtypes
