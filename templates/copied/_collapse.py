"""Axes of a call put together where every array goes through them as through one: H and W become 1 and H * W.

In: a resolved call, its arrays, and which sizes kernels do not tell apart. Out: the call and the arrays as kernels see
them. What a call means, and every refusal, is that of the arrays as they were given.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ._arrays import Array
from ._axes import Places


@dataclass(frozen=True)
class Chain:
    """Sizes from the outermost to the innermost: the letters of each, and by array the axes that have them."""

    sizes: tuple[str, ...]
    letters: tuple[tuple[str, ...], ...]
    axes: Mapping[str, tuple[str, ...]]


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
        missing = any(name not in spots and arrays[name].ndim for name in chain.axes if name in arrays)
        beside = all(two == one + 1 for at in spots.values() for one, two in itertools.pairwise(at))
        if missing or not beside or 0 in extents:
            continue
        steps = [_steps_of(arrays[name], at) for name, at in spots.items()]
        moves = list(_moves(extents, steps))
        if not moves:
            continue
        made = _moved(extents, moves)
        walked = {letter: (extent,) for own, extent in zip(chain.letters, made) for letter in own}
        values = {**values, **dict(zip(chain.sizes, made))}
        letters = {letter: walked.get(letter, extent) for letter, extent in letters.items()}
        arrays = {**arrays, **{name: _reshaped(arrays[name], at, moves) for name, at in spots.items()}}
    return values, letters, arrays


def _steps_of(array: Array, spots: Iterable[int]) -> list[int]:
    return [0 if array.shape[spot] == 1 else array.strides[spot] for spot in spots]


def _moves(extents: list[int], steps: list[list[int]]) -> Iterator[tuple[int, int]]:
    """The sizes that vanish, each with the one that it is merged into: of extent 1, or gone through as one with it."""
    inner = len(extents) - 1
    whole = extents[inner]
    near = [own[inner] for own in steps]
    for outer in reversed(range(inner)):
        far = [own[outer] for own in steps]
        if extents[outer] == 1:
            continue
        if whole == 1 or far == [step * whole for step in near]:
            yield outer, inner
            near = far if whole == 1 else near
            whole *= extents[outer]
        else:
            inner, whole, near = outer, extents[outer], far


def _moved(extents: list[int], moves: list[tuple[int, int]]) -> list[int]:
    made = [*extents]
    for outer, inner in moves:
        made[outer], made[inner] = 1, made[outer] * made[inner]
    return made


def _reshaped(array: Array, spots: list[int], moves: list[tuple[int, int]]) -> Array:
    """A view of an array with merged axes."""
    shape = [*array.shape]
    for spot, extent in zip(spots, _moved([shape[spot] for spot in spots], moves)):
        shape[spot] = extent
    return array.reshape(shape)
