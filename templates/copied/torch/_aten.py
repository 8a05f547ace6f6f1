"""Operators of PyTorch's own library on the kernels of this package: what the specs say under `torch`, as calls.

In: an operator of `aten` and the operations that stand for it. Out: a kernel at the place of the CPU, below autograd
and autocast. A call that no entry fits, or that an operation refuses, goes to PyTorch's own, and the reason is noted.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import torch

from .._description import Aten
from .._errors import SpecError
from .._operation import Operation
from ._call import running
from ._glue import GLUE
from ._orders import words_of
from ._schema import outputs_of

Values = Sequence[Any]
Note = Callable[[str, str], None]  # of an operator and why a call of it went to PyTorch; "" where it did not
_LAST = {4: torch.channels_last, 5: torch.channels_last_3d}
_tracing: Callable[[], Any] = torch._C._get_tracing_state


class UnfitError(Exception):
    """A call that no entry of the specs stands for."""


def of_name(name: str) -> Any:
    """The operator of `aten` of a name, its overload behind a dot. AttributeError where PyTorch has none."""
    stem, _, overload = name.partition(".")
    return getattr(getattr(torch.ops.aten, stem), overload or "default")


class Entry:
    """One operation that stands for an operator, or for some results of it: as many as it has outputs."""

    def __init__(self, operation: Operation, aten: Aten, places: Mapping[str, int], results: int) -> None:
        self.operation, self.run = operation, running(operation)
        self.gives = range(aten.gives, min(aten.gives + len(outputs_of(operation)), results))
        self.conditions = [(places[name], value) for name, value in aten.when.items()]
        self.inputs = [places.get(aten.arguments.get(info.parameter, "")) for info in operation.inputs]
        self.attributes: list[tuple[int | None, Any]] = []
        for name in operation.attributes:
            word: Any = aten.words.get(name, operation.defaults.get(name))
            self.attributes.append((places.get(aten.arguments.get(name, "")), _TRUTH.get(word, word)))
        self.ordered = bool(words_of(operation))
        self.seeds = {at for name, at in places.items() if name.startswith("grad_")}

    def fits(self, values: Values) -> bool:
        return all(spelled(values[at]) == value for at, value in self.conditions)

    def call(self, values: Values, into: Any) -> Any:
        """The output of the operation, or those that are results. A SpecError where it refuses the call."""
        inputs: list[Any] = [None if at is None else values[at] for at in self.inputs]
        attributes = [other if at is None else _stated(values[at]) for at, other in self.attributes]
        last = _last(values, self.seeds) if self.ordered else None
        if last is not None:
            inputs[0] = inputs[0].contiguous(memory_format=last)
        found = self.run(inputs, attributes, into, self.inputs)
        if len(self.gives) > 1:
            return found
        found = found[0] if isinstance(found, tuple) else found
        if self.ordered and found.dim() in _LAST:
            written, found = found, found.contiguous(memory_format=last or torch.contiguous_format)
            if found is not written and GLUE.asked():
                GLUE.moved(written, found)
        return found


_TRUTH = {"true": True, "false": False}


def spelled(value: Any) -> str:
    """How a spec writes a plain value."""
    if isinstance(value, (bool, str)) or value is None:
        return str(value).lower()
    return f"{value:g}" if isinstance(value, (int, float)) else ""


def _stated(value: Any) -> Any:
    return list(value.shape) if isinstance(value, torch.Tensor) else value


def _sized(value: Any) -> Any:
    """A tensor's shape, strides and data type, without data."""
    if not isinstance(value, torch.Tensor):
        return value
    return torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device="meta")


def _sized_alike(meant: torch.Tensor) -> torch.Tensor:
    """Memory for a result, in the order that PyTorch gives it."""
    return torch.empty_strided(meant.shape, meant.stride(), dtype=meant.dtype)


def _ordered(found: torch.Tensor, meant: torch.Tensor) -> torch.Tensor:
    """A result in the order of memory that PyTorch gives it."""
    strides = zip(found.stride(), meant.stride(), found.shape)
    if all(ours == theirs or extent < 2 for ours, theirs, extent in strides) or not found.numel():
        return found
    return _sized_alike(meant).copy_(found)


def _last(values: Values, seeds: Collection[int]) -> torch.memory_format | None:
    """The order in which PyTorch gives its results: channels last if one of the tensors but for gradients has it."""
    for at, value in enumerate(values):
        if at not in seeds and isinstance(value, torch.Tensor) and not value.is_contiguous():
            last = _LAST.get(value.dim())
            if last is not None and value.is_contiguous(memory_format=last):
                return last
    return None


class Override:
    """An operator of `aten`, computed here where the specs allow it."""

    def __init__(self, name: str, entries: Sequence[tuple[Operation, Aten]], note: Note) -> None:
        self.name, self.note, self.operator = name, note, of_name(name)
        arguments = self.operator._schema.arguments
        places = {argument.name: at for at, argument in enumerate(arguments)}
        self.places = places
        self.defaults = [argument.default_value for argument in arguments]
        written = [at for at, argument in enumerate(arguments) if argument.alias_info and argument.alias_info.is_write]
        self.into = written[0] if written else None
        self.mask = places.get("output_mask")
        self.results = len(self.operator._schema.returns)
        self.named = {argument.name for argument in arguments if argument.kwarg_only}
        self.entries = [Entry(*entry, places, self.results) for entry in entries]
        self.own: Any = None  # PyTorch's kernel

    def __call__(self, keyset: Any, *given: Any, **named: Any) -> Any:
        values = [*given, *self.defaults[len(given) :]]
        for name, value in named.items():
            values[self.places[name]] = value
        try:
            if _tracing() is not None:  # PyTorch's own convolution calls one that TorchScript records
                raise UnfitError("torch.jit traces this call")
            found = self.computed(values)
        except (UnfitError, SpecError) as reason:
            self.note(self.name, reason.rule if isinstance(reason, SpecError) else str(reason))
            return self.own.call_boxed(keyset, *given, **named)
        self.note(self.name, "")
        return found

    def judge(self, values: Values) -> Any:
        """What PyTorch's results are like, without data; None where it has no rules for that.

        UnfitError where it refuses a call of these shapes and types, as its own kernel then says.
        """
        sized = [_sized(value) for value in values]
        named = {name: sized[self.places[name]] for name in self.named}
        try:
            return self.operator(*sized[: len(sized) - len(named)], **named)
        except NotImplementedError:
            return None
        except Exception:  # its rules divide by a stride of 0, for instance
            raise UnfitError("PyTorch refuses this call") from None

    def computed(self, values: Values) -> Any:
        """The results of a call. UnfitError or SpecError where it is none of ours; nothing has been written then."""
        meant = self.judge(values)
        if self.results == 1:
            into = None if self.into is None else values[self.into]
            entry = self.entry(0, values)
            found = entry.call(values, into)
            if into is None:
                return found if meant is None or entry.ordered else _ordered(found, meant)
            return found if found is into else into.copy_(found)
        asked = [True] * self.results if self.mask is None else values[self.mask]
        chosen = [self.entry(at, values) if wanted else None for at, wanted in enumerate(asked)]
        results: list[Any] = [None] * self.results
        for at, one in enumerate(chosen):
            if one is not None and results[at] is None:
                several = len(one.gives) > 1
                into = [_sized_alike(meant[n]) for n in one.gives] if several and meant is not None else None
                made = one.call(values, into)
                results[one.gives.start : one.gives.stop] = made if several else [made]
        return tuple(results)

    def entry(self, at: int, values: Values) -> Entry:
        for entry in self.entries:
            if at in entry.gives and entry.fits(values):
                return entry
        raise UnfitError("no operation stands for these arguments")


def overrides(operations: Sequence[Operation], note: Note) -> list[Override]:
    """What computes each operator of `aten` that specs name and this PyTorch has."""
    named: dict[str, list[tuple[Operation, Aten]]] = {}
    for operation in operations:
        for aten in operation.torch:
            named.setdefault(aten.name, []).append((operation, aten))
    return [Override(name, entries, note) for name, entries in named.items()]
