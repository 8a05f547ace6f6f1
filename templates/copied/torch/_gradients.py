"""Gradients of operators: which operation of the package computes each, and the calls that follow from a forward call.

In: the operations, whose specs relate them. Out: what PyTorch's autograd needs of an operator. An input without a
gradient is refused by name when a call asks for one; outputs on which no gradient depends are not differentiable.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch

from .._description import Related
from .._errors import Refusal
from .._operation import Operation
from ._schema import outputs_of
from ._tensors import cast, flat, has_row


@dataclass(frozen=True)
class Gradient:
    """An operation that computes gradients of another.

    `inputs` says of each of its inputs what it is of the forward call: an input, an output, the gradient in an output
    (seed), or absent. `attributes` names the forward attribute that each of its own takes, or the input whose shape it
    states. `results` are its outputs, by the input in which each is the gradient.
    """

    operation: Operation
    inputs: tuple[tuple[str, str], ...]
    attributes: tuple[tuple[str, str, str], ...]
    results: Mapping[str, str]
    words: Mapping[str, str]

    @property
    def unsure(self) -> tuple[str, ...]:
        """Attributes that a forward call may leave out and on which the shape of the gradient may depend."""
        states, defaults = {*self.operation.states.values()}, self.operation.defaults
        if states.issuperset(self.results.values()):
            return ()
        return tuple(name for name, kind, _ in self.attributes if kind != "shape" and defaults.get(name, 0) is None)

    @property
    def seeds(self) -> tuple[str, ...]:
        return tuple(name for kind, name in self.inputs if kind == "seed")


class Saved(NamedTuple):
    """What the gradients that a call asks for need of it: places of outputs without gradients, of inputs whose shapes
    count, of saved inputs and outputs, and what each saved one is.
    """

    silent: tuple[int, ...]
    shapes: tuple[int, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    keys: tuple[tuple[str, str], ...]


def gradients(operations: Sequence[Operation]) -> dict[str, dict[str, Gradient]]:
    """By function and input, the operation that computes the gradient.

    What the forward operation says comes before what a gradient says of itself, and of several the first by name.
    """
    by_name = {operation.name: operation for operation in operations}
    found: dict[str, dict[str, Gradient]] = {operation.function: {} for operation in operations}
    claims = [(forward, by_name.get(one.op), one) for forward in operations for one in forward.relations]
    claims.sort(key=lambda claim: (claim[0].name, claim[2].op))
    for forward, other, related in claims:
        if related.kind != "gradient_of" and other is not None:
            made = _stated(forward, other, related)
            if made is not None:
                found[forward.function].setdefault(related.of, made)
    for backward, origin, related in claims:
        if related.kind == "gradient_of" and origin is not None:
            made = _derived(origin, backward)
            for of in made.results if made else ():
                found[origin.function].setdefault(of, made)  # type: ignore[arg-type]
    return found


def _stated(forward: Operation, other: Operation, related: Related) -> Gradient | None:
    outputs = outputs_of(forward)
    named = any(own in outputs for theirs, own in related.tensors.items() if theirs.startswith("diff_"))
    inputs = []
    for info in other.inputs:
        own = related.tensors.get(info.name, "")
        seeded = info.name.startswith("diff_") if named else info.name != own
        seed = own in outputs and (related.kind == "adjoint" or seeded)
        inputs.append(("seed" if seed else "output" if own in outputs else "input" if own else "absent", own))
    results = {own: theirs for theirs, own in related.tensors.items() if theirs in outputs_of(other)}
    return _linked(forward, other, inputs, results, related.words)


def _derived(forward: Operation, other: Operation) -> Gradient | None:
    ours, outputs = {info.name for info in forward.inputs}, outputs_of(forward)
    inputs = []
    for info in other.inputs:
        seeded = info.name.partition("_")[2]
        kind = "input" if info.name in ours else "output" if info.name in outputs else "seed"
        inputs.append((kind, seeded if kind == "seed" else info.name))
    results = {name.partition("_")[2]: name for name in outputs_of(other)}
    return _linked(forward, other, inputs, results, {})


def _linked(
    forward: Operation, other: Operation, inputs: list[tuple[str, str]], results: dict[str, str], words: Any
) -> Gradient | None:
    """The gradient with its attributes; None where an input or an attribute of it follows from nothing."""
    origin = {theirs: own for own, theirs in results.items()}
    attributes = []
    for name in other.attributes:
        if name in forward.attributes:
            attributes.append((name, "attribute", name))
        elif other.states.get(name) in origin:
            attributes.append((name, "shape", origin[other.states[name]]))
        elif name not in other.defaults:
            return None
    if any(kind == "absent" and not info.optional for (kind, _), info in zip(inputs, other.inputs)):
        return None
    return Gradient(other, tuple(inputs), tuple(attributes), results, words)


def lacking(operation: Operation, known: Mapping[str, Gradient], name: str) -> Refusal:
    """The refusal of a call that asks for a gradient that no operation of the package computes."""
    others = ", ".join(sorted({*known, *operation.added}))
    expected = f"a tensor without requires_grad: no operation of this package computes the gradient of {operation.name}"
    expected += f" in {name}, only in {others}" if others else f" in {name}, or in any other input"
    return Refusal(f"{name}-gradient", name, "a tensor that requires grad", expected)


def _unfit(gradient: Gradient, name: str, made: Sequence[int], wanted: Sequence[int]) -> Refusal:
    """The refusal of a gradient that has another shape than its input, cells of which the call left out."""
    got = f"a tensor that requires grad, of shape {list(wanted)}"
    expected = f"shape {list(made)}, which {gradient.operation.function} computes for the attributes of the call"
    return Refusal(f"{name}-gradient", name, got, f"{expected}, or a stated {' or '.join(gradient.unsure)}")


class Autograd:
    """What autograd asks of one operator. `operators` finds operators by function."""

    def __init__(
        self, operation: Operation, known: Mapping[str, Gradient], operators: Callable[[str], Callable[..., Any]]
    ) -> None:
        self.operation, self.known, self.operators = operation, known, operators
        self.names, self.outputs = [info.name for info in operation.inputs], outputs_of(operation)
        self.seeded = {seed for gradient in known.values() for seed in gradient.seeds}
        self.seeded |= {operation.output} if operation.added else set()
        self.saved: dict[tuple[int, ...], Saved] = {}  # by the places of the inputs in which a call asks for gradients

    def setup(
        self, ctx: Any, inputs: Sequence[Any], output: Any, keyword_only_inputs: Mapping[str, Any] | None = None
    ) -> None:
        """Keep what the gradients that a call asks for will need. A SpecError where there is none in an input."""
        results = output if isinstance(output, tuple) else (output,)
        if not any(result.is_floating_point() for result in results):
            ctx.mark_non_differentiable(*results)
            return
        asked = tuple([n for n, value in enumerate(inputs) if value is not None and differentiable(value)])
        needed = self.saved.get(asked)
        if needed is None:
            needed = self.saved[asked] = self.saves(asked)
        if needed.silent:
            ctx.mark_non_differentiable(*[results[n] for n in needed.silent])
        ctx.attributes = keyword_only_inputs or {}
        ctx.shapes = {self.names[n]: _shape(inputs[n]) for n in needed.shapes}
        for n in needed.outputs:
            if n and _is_absent(results[n], inputs):
                parameter = self.operation.inputs[asked[0]].parameter
                got = f"a tensor that requires grad, in a call without the output {self.outputs[n]}"
                expected = f"a call that returns {self.outputs[n]}, from which the gradient is computed"
                raise self.operation.refused(Refusal(f"{parameter}-gradient", parameter, got, expected))
        saved = [inputs[n] for n in needed.inputs] + [results[n] for n in needed.outputs]
        ctx.counts = [len(value) if isinstance(value, (list, tuple)) else None for value in saved]
        ctx.keys = needed.keys
        ctx.save_for_backward(*_spread(saved))

    def saves(self, asked: tuple[int, ...]) -> Saved:
        """What is kept of a call that asks for gradients in some inputs. A SpecError where there is none in one."""
        for n in asked:
            if self.names[n] not in self.known and self.names[n] not in self.operation.added:
                raise self.operation.refused(lacking(self.operation, self.known, self.operation.inputs[n].parameter))
        used = [self.known[self.names[n]] for n in asked if self.names[n] in self.known]
        pairs = {pair for gradient in used for pair in gradient.inputs}
        shaped = {own for gradient in used for _, kind, own in gradient.attributes if kind == "shape"}
        lists = {self.names[n] for n in asked} & set(getattr(self.operation, "joined", ()))
        lists |= {own for gradient in used if gradient.unsure for own in gradient.results if own in self.names}
        inputs = tuple([n for n, name in enumerate(self.names) if ("input", name) in pairs])
        outputs = tuple([n for n, name in enumerate(self.outputs) if ("output", name) in pairs])
        return Saved(
            silent=tuple([n for n, name in enumerate(self.outputs) if name not in self.seeded]),
            shapes=tuple([n for n, name in enumerate(self.names) if name in shaped | lists]),
            inputs=inputs,
            outputs=outputs,
            keys=(*(("input", self.names[n]) for n in inputs), *(("output", self.outputs[n]) for n in outputs)),
        )

    def backward(self, ctx: Any, *grads: Any) -> Any:
        """The gradients in the inputs; each operation that computes several is called once."""
        values, seeds = _gathered(ctx), dict(zip(self.outputs, grads))
        made: dict[str, dict[str, Any]] = {}
        found: list[Any] = []
        for one, needed in zip(self.names, ctx.needs_input_grad):  # inputs left out at the end have none
            if not (any(needed) if isinstance(needed, (list, tuple)) else needed):
                found.append(None)
            elif one in self.known:
                gradient = self.known[one]
                function = gradient.operation.function
                if function not in made:
                    made[function] = self.results(gradient, ctx, values, seeds)
                result = made[function][gradient.results[one]]
                if gradient.unsure and tuple(result.shape) != ctx.shapes[one]:
                    raise self.operation.refused(_unfit(gradient, one, result.shape, ctx.shapes[one]))
                found.append(_fitted(result, ctx.shapes.get(one)))
            else:
                seed = seeds[self.operation.output]
                found.append(seed.sum(summed_over(self.operation, seed.ndim, ctx.attributes, one)))
        return tuple(found) if len(found) > 1 else found[0]

    def results(
        self, gradient: Gradient, ctx: Any, values: Mapping[tuple[str, str], Any], seeds: Mapping[str, Any]
    ) -> dict[str, Any]:
        """The outputs of the operation that computes a gradient, by name.

        Data types that no row of it mixes are computed in f32; autograd hands each gradient on in its input's type.
        """
        inputs, attributes = arguments(gradient, ctx, values, seeds)
        if not has_row(gradient.operation, inputs):
            inputs = [cast(value, torch.float32) for value in inputs]
        found = self.operators(gradient.operation.function)(*inputs, **attributes)
        return dict(zip(outputs_of(gradient.operation), found if isinstance(found, tuple) else (found,)))


def arguments(
    gradient: Gradient, ctx: Any, values: Mapping[tuple[str, str], Any], seeds: Mapping[str, Any]
) -> tuple[list[Any], dict[str, Any]]:
    """The inputs and attributes of the operation that computes a gradient."""
    inputs = [
        seed_of(info, seeds[name]) if kind == "seed" else None if kind == "absent" else values[kind, name]
        for info, (kind, name) in zip(gradient.operation.inputs, gradient.inputs)
    ]
    attributes: dict[str, Any] = {}
    for name, kind, own in gradient.attributes:
        value = list(ctx.shapes[own]) if kind == "shape" else ctx.attributes[own]
        attributes[name] = gradient.words.get(value, value) if isinstance(value, str) else value
    return inputs, attributes


def differentiable(value: Any) -> bool:
    if isinstance(value, torch.Tensor):
        return value.requires_grad
    parts = value if isinstance(value, (list, tuple)) else ()
    return any(isinstance(part, torch.Tensor) and part.requires_grad for part in parts)


def _shape(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return tuple(value.shape)
    return [_shape(part) for part in value] if isinstance(value, (list, tuple)) else None


def _spread(values: Iterable[Any]) -> list[Any]:
    return [part for value in values for part in (value if isinstance(value, (list, tuple)) else (value,))]


def _gathered(ctx: Any) -> dict[tuple[str, str], Any]:
    left = iter(ctx.saved_tensors)
    return {
        key: next(left) if count is None else [next(left) for _ in range(count)]
        for key, count in zip(ctx.keys, ctx.counts)
    }


def _is_absent(output: torch.Tensor, inputs: Sequence[Any]) -> bool:
    """Whether an output stands for one that the call does not have: empty, where no input is."""
    return output.numel() == 0 and all(part.numel() for part in flat(inputs))


def seed_of(info: Any, seed: torch.Tensor) -> torch.Tensor | None:
    """The gradient in an output; none in one that the call lacked, where the operation does without."""
    return None if info.optional and seed.shape == (0,) else seed


def _fitted(found: Any, shape: Any) -> Any:
    """The gradient in an input, cut where several inputs were joined."""
    if not isinstance(shape, list):
        return found
    axes = range(found.ndim)
    whole = [[sum(part[n] for part in shape) if n == axis else shape[0][n] for n in axes] for axis in axes]
    axis = whole.index(list(found.shape))
    return list(torch.split(found, [part[axis] for part in shape], axis))


def summed_over(operation: Operation, axes: int, attributes: Mapping[str, Any], one: str) -> list[int]:
    """Of the gradient in an input that is added along one axis of the output: all others, over which it is a sum."""
    facts, axis = operation.resolve.__globals__, operation.added[one]
    attribute, wide = operation.laid_out[operation.output]
    word = facts["WORDS"][attribute].spellings[attributes[attribute]]
    order = facts["LAYOUTS"][attribute][word]
    several = axes - len(order) + 1
    labels = [label for label in order for _ in range(several if label == wide else 1)]
    return [n for n, label in enumerate(labels) if label != axis]
