"""In which order of axes a call's memory stands: channels_last is another word of the layout, not a copy.

In: the tensors and attributes of a call. Out: the same call in the words of its memory, and how its outputs are turned
back. Tensors may be real, fake, or arrays of the same memory; only shapes and strides are looked at.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from numpy import ndarray

from .._operation import Operation

_WORDS: dict[int, tuple[Word, ...]] = {}  # by identity: operations last as long as the package


class Call(NamedTuple):
    """A call as it is made, and by output the order in which its axes are what the caller means."""

    inputs: list[Any]
    attributes: list[Any]
    back: Mapping[str, tuple[int, ...]]


@dataclass(frozen=True)
class Word:
    """An attribute that orders axes: its place, the places of the inputs that it orders, and of lists of extents."""

    attribute: str
    at: int
    inputs: tuple[int, ...]
    outputs: tuple[str, ...]
    lists: tuple[int, ...]  # among the attributes
    vectors: tuple[int, ...]  # among the inputs
    wide: str  # the axis that stands for several
    known: dict[Any, Any] = field(default_factory=dict)  # by word and number of axes, the other words and their orders


def words_of(found: Operation) -> tuple[Word, ...]:
    """The attributes of an operation that order axes, worked out once."""
    known = _WORDS.get(id(found))
    if known is None:
        known = _WORDS[id(found)] = _words(found)
    return known


def _words(found: Operation) -> tuple[Word, ...]:
    names = list(found.attributes)
    own = {info.name for info in found.inputs}
    words = []
    for attribute in dict.fromkeys(word for word, _ in found.laid_out.values()):
        ordered = [name for name, (word, _) in found.laid_out.items() if word == attribute]
        outputs = tuple(name for name in ordered if name not in own)
        inputs = tuple(n for n, info in enumerate(found.inputs) if info.name in ordered and not info.states_shape)
        if inputs:
            wide = found.laid_out[found.inputs[inputs[0]].name][1]
            lists = tuple(n for n, name in enumerate(names) if found.states.get(name) in outputs)
            vectors = tuple(n for n, info in enumerate(found.inputs) if info.states_shape and outputs)
            words.append(Word(attribute, names.index(attribute), inputs, outputs, lists, vectors, wide))
    return tuple(words)


def in_memory(operation: Operation, inputs: list[Any], attributes: list[Any]) -> Call:
    """The call, with the words of layouts that its tensors' memory has.

    The first tensor that a word orders decides for all of them.
    """
    changed, changed_attributes = inputs, attributes
    back: dict[str, tuple[int, ...]] = {}
    for word in words_of(operation):
        first = next((inputs[n] for n in word.inputs if inputs[n] is not None), None)
        if first is None or is_contiguous(first):
            continue
        found = _other(operation, word, changed_attributes[word.at], first)
        if found is None:
            continue
        if not back and changed is inputs:
            changed, changed_attributes = list(inputs), list(attributes)
        (changed_attributes[word.at], order, turned), permuted = found
        for n in word.inputs:
            if changed[n] is not None:
                changed[n] = permuted if inputs[n] is first else _permuted(changed[n], order)
        back |= dict.fromkeys(word.outputs, turned)
        for values, places in ((changed_attributes, word.lists), (changed, word.vectors)):
            for n in places:
                if values[n] is not None and len(values[n]) == len(order):
                    values[n] = [values[n][axis] for axis in order]
    return Call(changed, changed_attributes, back)


def is_contiguous(value: Any) -> bool:
    """Whether a tensor or an array has no gaps, in the order of its axes."""
    found: bool = value.flags.c_contiguous if type(value) is ndarray else value.is_contiguous()
    return found


def _permuted(value: Any, order: tuple[int, ...]) -> Any:
    return value.transpose(order) if type(value) is ndarray else value.permute(order)


def same_order(tensors: Sequence[torch.Tensor]) -> list[int] | None:
    """The order of axes in which tensors, all of the same strides, have no gaps; None where there is none."""
    first = tensors[0]
    shape, strides = first.shape, first.stride()
    if any(one.stride() != strides or one.shape != shape for one in tensors[1:]):
        return None
    order = sorted(range(len(strides)), key=lambda axis: -strides[axis])
    return order if first.permute(order).is_contiguous() else None


def _other(
    operation: Operation, word: Word, spelling: Any, tensor: Any
) -> tuple[tuple[str, tuple[int, ...], tuple[int, ...]], Any] | None:
    """Another word in whose order a tensor has no gaps, that order, the way back, and the tensor so ordered."""
    key = (spelling, tensor.ndim)
    known = word.known.get(key)
    if known is None:
        known = word.known[key] = _orders(operation, word, spelling, tensor.ndim)
    for found in known:
        permuted = _permuted(tensor, found[1])
        if is_contiguous(permuted):
            return found, permuted
    return None


def _orders(
    operation: Operation, word: Word, spelling: Any, count: int
) -> list[tuple[str, tuple[int, ...], tuple[int, ...]]]:
    facts = operation.resolve.__globals__
    table: Mapping[str, tuple[str, ...]] = facts["LAYOUTS"][word.attribute]
    own = facts["WORDS"][word.attribute].spellings.get(spelling)
    if own is None or count < len(table[own]) - bool(word.wide):
        return []
    ours, found = _axes(table[own], word.wide, count), []
    for other, axes in table.items():
        order = tuple([ours.index(axis) for axis in _axes(axes, word.wide, count)])
        if other != own:
            found.append((other, order, tuple(sorted(range(count), key=order.__getitem__))))
    return found


def _axes(order: Sequence[str], wide: str, count: int) -> list[tuple[str, int]]:
    """The axes of a tensor with so many, by name and number among those that one name stands for."""
    several = count - len(order) + 1
    return [(axis, number) for axis in order for number in range(several if axis == wide else 1)]
