"""In which order of axes a call's memory stands: channels_last is another word of the layout, not a copy.

In: the tensors and attributes of a call. Out: the same call in the words of its memory, and how its outputs are turned
back. Tensors may be real or fake; only shapes and strides are looked at.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from .._operation import Operation


@dataclass(frozen=True)
class Call:
    """A call as it is made, and by output the order in which its axes are what the caller means."""

    inputs: list[Any]
    attributes: list[Any]
    back: Mapping[str, tuple[int, ...]]


def in_memory(operation: Operation, inputs: Sequence[Any], attributes: Sequence[Any]) -> Call:
    """The call, with the words of layouts that its tensors' memory has.

    The first tensor that a word orders decides for all of them.
    """
    changed, said = list(inputs), list(attributes)
    back: dict[str, tuple[int, ...]] = {}
    names = list(operation.attributes)
    for attribute in dict.fromkeys(word for word, _ in operation.laid_out.values()):
        at = names.index(attribute)
        tensors = [t for t, (word, _) in operation.laid_out.items() if word == attribute]
        places = [n for n, info in enumerate(operation.inputs) if info.name in tensors and not info.states_shape]
        first = next((changed[n] for n in places if isinstance(changed[n], torch.Tensor)), None)
        if first is None or first.is_contiguous():
            continue
        wide = operation.laid_out[operation.inputs[places[0]].name][1]
        found = _other(operation, attribute, said[at], first, wide)
        if found is None:
            continue
        said[at], order = found
        for n in places:
            if isinstance(changed[n], torch.Tensor):
                changed[n] = changed[n].permute(order)
        turned = [name for name in tensors if name not in {info.name for info in operation.inputs}]
        back |= {name: tuple(sorted(range(len(order)), key=order.__getitem__)) for name in turned}
        for n, name in enumerate(names):
            if operation.states.get(name) in turned and said[n] is not None and len(said[n]) == len(order):
                said[n] = [said[n][axis] for axis in order]
        for n, info in enumerate(operation.inputs):
            if info.states_shape and turned and changed[n] is not None and len(changed[n]) == len(order):
                changed[n] = [changed[n][axis] for axis in order]
    return Call(changed, said, back)


def _other(
    operation: Operation, attribute: str, word: Any, tensor: torch.Tensor, wide: str
) -> tuple[str, tuple[int, ...]] | None:
    """Another word in whose order a tensor has no gaps, and that order; None where there is none."""
    facts = operation.resolve.__globals__
    table: Mapping[str, tuple[str, ...]] = facts["LAYOUTS"][attribute]
    own = facts["WORDS"][attribute].spellings.get(word)
    if own is None or tensor.ndim < len(table[own]) - bool(wide):
        return None
    ours = _axes(table[own], wide, tensor.ndim)
    for other, axes in table.items():
        theirs = _axes(axes, wide, tensor.ndim)
        order = tuple([ours.index(axis) for axis in theirs])
        if other != own and tensor.permute(order).is_contiguous():
            return other, order
    return None


def _axes(order: Sequence[str], wide: str, count: int) -> list[tuple[str, int]]:
    """The axes of a tensor with so many, by name and number among those that one name stands for."""
    several = count - len(order) + 1
    return [(axis, number) for axis in order for number in range(several if axis == wide else 1)]
