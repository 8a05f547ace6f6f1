"""What the glue is told of gradients, so that it notes and computes those of a call like one before without Python.

In: a call that asks for gradients, and its results. Out: numbers, which glue.cpp reads, and kernels that tell them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from ._glue import GLUE
from ._gradients import Autograd, Gradient, arguments, differentiable, seed_of, summed_over
from ._schema import outputs_of
from ._tensors import has_row

_NONE, _RESULT, _SUM = range(3)  # what the gradient in an input is, in glue.cpp
_ABSENT, _SEED, _KEPT, _SHAPE, _ATTRIBUTE, _DEFAULT = range(6)  # where an argument comes from, there


def noted(asked: Autograd, ctx: Any, inputs: Sequence[Any], result: Any) -> list[int | str] | None:
    """What the glue is told of a call whose gradients are set up. Inputs that are left out do not count.

    None where Python has to compute them: inputs that are lists, data types that no row mixes, other words of
    layouts, and other shapes than those of the inputs, which it refuses.
    """
    needed = asked.saved.get(tuple([n for n, one in enumerate(inputs) if one is not None and differentiable(one)]))
    if needed is None:
        return None
    outputs = result if isinstance(result, tuple) else (result,)
    seeded = [n for n in range(len(outputs)) if n not in needed.silent]
    values = {("input", asked.names[n]): inputs[n] for n in needed.inputs if inputs[n] is not None}
    values |= {("output", asked.outputs[n]): outputs[n] for n in needed.outputs}
    values |= {("seed", name): one for name, one in zip(asked.outputs, outputs)}
    calls: dict[str, list[int | str]] = {}
    found: list[int | str] = []
    present = [n for n, value in enumerate(inputs) if value is not None]
    for n in present:
        one = asked.names[n]
        gradient = asked.known.get(one)
        if not differentiable(inputs[n]):
            found.append(_NONE)
        elif gradient is None:
            axes = summed_over(asked.operation, outputs[0].ndim, ctx.attributes, one)
            found += [_SUM, len(axes), *axes]
        else:
            function = gradient.operation.function
            if function not in calls:
                told = _call(asked, gradient, values, ctx.attributes, present, seeded)
                if gradient.unsure and not _fits(asked, gradient, ctx, values):
                    return None
                if told is None:
                    return None
                calls[function] = [function, *told]
            place = outputs_of(gradient.operation).index(gradient.results[one])
            found += [_RESULT, list(calls).index(function), place]
    kept = [present.index(n) for n in needed.inputs if n in present]
    shapes = [present.index(n) for n in needed.shapes if n in present]
    places = [word for group in (kept, needed.outputs, shapes, seeded) for word in (len(group), *group)]
    return [*places, len(calls), *[word for call in calls.values() for word in call], len(present), *found]


def _fits(asked: Autograd, gradient: Gradient, ctx: Any, values: Mapping[tuple[str, str], Any]) -> bool:
    """Whether gradients have the shapes of their inputs, as the rules of the operation that computes them say."""
    seeds = {name: value for (kind, name), value in values.items() if kind == "seed"}
    inputs, attributes = arguments(gradient, ctx, values, seeds)
    inputs = [value.to("meta") if isinstance(value, torch.Tensor) else value for value in inputs]
    try:
        found = asked.operators(gradient.operation.function)(*inputs, **attributes)
    except ValueError:  # refused; so will the gradient be
        return False
    shapes = dict(zip(outputs_of(gradient.operation), found if isinstance(found, tuple) else (found,)))
    return all(
        tuple(shapes[name].shape) == ctx.shapes.get(of, shapes[name].shape) for of, name in gradient.results.items()
    )


def _call(
    asked: Autograd,
    gradient: Gradient,
    values: Mapping[tuple[str, str], Any],
    attributes: Mapping[str, Any],
    present: Sequence[int],
    seeded: Sequence[int],
) -> list[int] | None:
    """Where the arguments of an operator that computes a gradient come from; None where Python has to call it."""
    other = gradient.operation
    given = [
        seed_of(info, values[pair]) if pair[0] == "seed" else values.get(pair)
        for info, pair in zip(other.inputs, gradient.inputs)
    ]
    if getattr(other, "joined", ()) or not has_row(other, given):
        return None
    kept = [pair for pair in values if pair[0] != "seed"]
    words: list[int] = []
    for value, (kind, name) in zip(given, gradient.inputs):
        if value is None:
            words += [_ABSENT, 0]
        else:
            words += (
                [_SEED, seeded.index(asked.outputs.index(name))]
                if kind == "seed"
                else [_KEPT, kept.index((kind, name))]
            )
    sources = {name: (kind, own) for name, kind, own in gradient.attributes}
    forward = list(asked.operation.attributes)
    for name in other.attributes:
        kind, own = sources.get(name, ("default", ""))
        if kind == "shape":
            words += [_SHAPE, present.index(asked.names.index(own))]
        elif kind == "attribute":
            value = attributes[own]
            if isinstance(value, str) and gradient.words.get(value, value) != value:
                return None
            words += [_ATTRIBUTE, forward.index(own)]
        else:
            words += [_DEFAULT, 0]
    return words


def recorded(asked: Autograd, kernel: Callable[..., Any], space: str) -> Callable[..., Any] | None:
    """A kernel that notes its gradient, of inputs and then a dict of attributes; None for one that takes lists."""
    if getattr(asked.operation, "joined", ()) or asked.operation.stating:
        return None

    class Recorded(torch.autograd.Function):  # type: ignore[misc, unused-ignore]
        @staticmethod
        def forward(ctx: Any, *args: Any) -> Any:
            *given, attributes = args
            found = kernel(*given, **attributes)
            left_out = [None] * (len(asked.names) - len(given))
            inputs = [*given, *left_out]
            asked.setup(ctx, inputs, found, {**asked.operation.defaults, **attributes})
            if GLUE.noting() and (words := noted(asked, ctx, inputs, found)) is not None:
                GLUE.note(space, words)
            return found

        @staticmethod
        def backward(ctx: Any, *grads: Any) -> Any:
            found = asked.backward(ctx, *grads)
            count = len(ctx.needs_input_grad) - 1
            return (*(found if isinstance(found, tuple) else (found,))[:count], None)

    return Recorded.apply  # type: ignore[no-any-return, unused-ignore]
