"""The operators on DTensors: placements from the tables of splits, and parts with attributes and halos of their own.

`register()` gives PyTorch the placements with which each operator needs nothing but its shards. `call(function, ...)`
also splits where a part has attributes of its own, such as groups, stated shapes and the padding of a cut: it moves the
halo alone, from neighbour to neighbour. docs/SCALING.md of Opwright says what splits how.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard
from torch.distributed.tensor.experimental import register_sharding

from .. import _interface, _sharding, _split_calls
from .._description import TensorSpec
from .._errors import Refusal
from .._sharding import SHARED, Range, SplitOption
from . import _operator
from ._exchange import Exchange, Fetched, Tied
from ._schema import outputs_of
from ._tensors import described, dtype_of

__all__ = ["call", "register"]

_PACKAGE: Any = importlib.import_module(__name__.rpartition(".")[0].rpartition(".")[0])
REDUCED = ("sum", "product", "max", "min")  # joins that DTensor has, by the same names


def register() -> None:
    """Tell DTensor how the operators of this package may be sharded."""
    for operation in (*_PACKAGE._OPERATIONS.values(), *_PACKAGE._GRADIENTS.values()):
        register_sharding(_operator(operation.function))(_strategy(operation))


def _strategy(operation: Any) -> Any:
    """What lists the placements of outputs and inputs with which an operator runs on shards as they are."""

    def strategy(*given: Any, **keywords: Any) -> list[Any]:
        inputs = [*given, *[None] * (len(operation.inputs) - len(given))]
        attributes = [keywords.get(name, operation.defaults.get(name)) for name in operation.attributes]
        understood = _split_calls.understood(operation, [_spec(v) for v in inputs], attributes)
        whole = [Replicate() for _ in outputs_of(operation)]
        found = [(whole, [_each(value, Replicate()) for value in given])]
        for option in understood.options:
            made = _placed(operation, understood, option, given)
            found += [made] if made else []
        return found

    return strategy


def _spec(value: Any) -> Any:
    if isinstance(value, (list, tuple)) and value and hasattr(value[0], "tensor_meta"):
        return [_spec(part) for part in value]
    meta = getattr(value, "tensor_meta", None)
    if meta is None:
        return value
    return TensorSpec(meta.shape, described("tensor", torch.empty(0, dtype=meta.dtype)))


def _each(value: Any, placement: Any) -> Any:
    """The placement of an argument that is a tensor, or of each in a list of them; None for any other."""
    if isinstance(value, (list, tuple)):
        return [_each(part, placement) for part in value]
    return placement if hasattr(value, "tensor_meta") else None


def _placed(operation: Any, understood: _split_calls.Call, option: SplitOption, given: Sequence[Any]) -> Any:
    """The placements of an option; None where shards are not enough."""
    split, facts = option.split, understood.facts
    if split.window or split.attributes or any(facts.attributes.get(name) is not None for name in split.states):
        return None
    if any(join not in (*REDUCED, "cells", "same") for join in split.joins.values()):
        return None
    outputs: list[Any] = []
    for name in outputs_of(operation):
        join = split.joins[name] if name in facts.outputs else "same"
        spot = _spot(option, facts, name)
        outputs.append(
            Partial(join) if join in REDUCED else Replicate() if spot is None or join == "same" else Shard(spot)
        )
    placements = []
    for info, value in zip(operation.inputs, given):
        spot = _spot(option, facts, info.name) if info.name in facts.shapes else None
        own = Partial("sum") if info.name in split.once else Replicate() if spot is None else Shard(spot)
        placements.append(_each(value, own))
    return outputs, placements


def _spot(option: SplitOption, facts: _sharding.Facts, name: str) -> int | None:
    """The axis of a tensor that is cut; None where it is the same for all."""
    for axis in option.split.axes.get(name, ()):
        spot = option.spot(facts, name, axis)
        if spot is not None and (facts.shapes[name][spot] != 1 or option.total == 1):
            return spot
    return None


def call(function: str, *inputs: Any, **attributes: Any) -> Any:
    """The outputs of an operation on DTensors that share a mesh, as DTensors, with their gradients.

    Each dimension of the mesh divides the letter along which the first sharded input lies. SpecError where the
    operation may not be split so.
    """
    operation = _PACKAGE._OPERATIONS[function]
    given, values = _interface.bound(operation, inputs, attributes)
    specs = [TensorSpec(v.shape, described("tensor", v.to_local())) if isinstance(v, DTensor) else v for v in given]
    understood = _split_calls.understood(operation, specs, values)
    try:
        return _Sharded(understood, given).outputs()
    except Refusal as refusal:
        raise operation.refused(refusal) from None


class _Sharded:
    """A call of which every process has a part."""

    def __init__(self, understood: _split_calls.Call, given: Sequence[Any]) -> None:
        self.call, self.given = understood, given
        self.operation, self.facts = understood.operation, understood.facts
        tensors = [value for value in given if isinstance(value, DTensor)]
        if not tensors:
            name = self.operation.inputs[0].parameter
            raise Refusal(f"{name}-kind", name, "no DTensor", "at least one DTensor", wrong_kind=True)
        self.mesh = tensors[0].device_mesh
        self.options = [self.option(dim) for dim in range(self.mesh.ndim)]

    def option(self, dim: int) -> tuple[SplitOption, list[Range]] | None:
        """The letter that a dimension of the mesh divides, and the range of each process along it."""
        for info, value in zip(self.operation.inputs, self.given):
            if not isinstance(value, DTensor) or not isinstance(value.placements[dim], Shard):
                continue
            own: Any = value.placements[dim]
            axis = own.dim
            for option in self.call.options:
                if _spot(option, self.facts, info.name) == axis:
                    return option, self.ranges(option, info.name, axis, self.mesh.size(dim))
            expected = f"a letter that may be split, or {info.parameter}.redistribute(...)"
            raise Refusal(f"{info.parameter}-placement", info.parameter, f"sharded along axis {axis}", expected)
        return None

    def ranges(self, option: SplitOption, name: str, axis: int, size: int) -> list[Range]:
        """The values of a letter that each process computes: as DTensor divides the output, or what is summed."""
        outputs = [output for output in self.facts.outputs if option.split.joins[output] == "cells"]
        spots = [(output, _spot(option, self.facts, output)) for output in outputs] or [(name, axis)]
        tensor, spot = next(((one, at) for one, at in spots if at is not None), (name, axis))
        extent = self.facts.shapes[tensor][spot]
        shards = _shards(option.total if option.split.window else extent, size)
        each = 1 if option.split.window else extent // option.total
        if any(start % each or stop % each for start, stop in shards):
            got = f"{extent} cells along axis {spot} for {size} processes"
            raise Refusal(f"{tensor}-placement", tensor, got, f"shards of multiples of {each} cells")
        return [(start // each, stop // each) for start, stop in shards]

    def outputs(self) -> Any:
        at = self.mesh.get_coordinate()
        assert at is not None
        aligned = [self.aligned(value) for value in self.given]
        local = [self.local(value) for value in aligned]
        for dim, found in enumerate(self.options):
            if found is not None:
                local = self.moved(local, aligned, dim, *found)
        recorded = [one for one in local if isinstance(one, torch.Tensor) and one.requires_grad]
        self.differentiable(recorded)
        chosen = {found[0]: found[1][at[dim]] for dim, found in enumerate(self.options) if found is not None}
        part = _sharding.part(self.facts, chosen) if all(a < b for a, b in chosen.values()) else None
        results: Mapping[str, Any] = {} if part is None else self.computed(local, part)
        made = [self.wrapped(name, results, at, recorded) for name in self.facts.outputs]
        return made[0] if len(made) == 1 else tuple(made)

    def differentiable(self, recorded: Sequence[Any]) -> None:
        """Refuses to record a greatest or least value of shares: it would have to go back to one of them."""
        for name in self.facts.outputs:
            for join in self.joins(name) if recorded and torch.is_grad_enabled() else ():
                if join not in (*SHARED, "sum", "mean"):
                    expected = "no gradient recorded (torch.no_grad()), or the reduced axis whole"
                    raise Refusal(f"{name}-gradient", name, f"shares joined by {join}", expected)

    def aligned(self, value: Any) -> Any:
        """A tensor with each dimension of the mesh either along the letter that it divides, or whole."""
        if not isinstance(value, DTensor):
            return value
        name = self.operation.inputs[next(n for n, v in enumerate(self.given) if v is value)].name
        placements: list[Any] = []
        for found, own in zip(self.options, value.placements):
            spot = _spot(found[0], self.facts, name) if found else None
            placements.append(own if isinstance(own, Shard) and own.dim == spot else Replicate())
        return value.redistribute(placements=placements)

    def local(self, value: Any) -> Any:
        """The shard of an aligned tensor; its gradient is a share of a sum where processes compute different parts."""
        if not isinstance(value, DTensor):
            return value
        gradients = [
            Partial() if found and not isinstance(own, Shard) else own
            for found, own in zip(self.options, value.placements)
        ]
        return value.to_local(grad_placements=gradients)

    def moved(
        self, local: list[Any], aligned: list[Any], dim: int, option: SplitOption, ranges: list[Range]
    ) -> list[Any]:
        """The tensors with what this process needs of them along one dimension of the mesh."""
        needs = [_sharding.part(self.facts, {option: own}) if own[0] < own[1] else None for own in ranges]
        found = []
        for info, value, whole in zip(self.operation.inputs, local, aligned):
            spot = _spot(option, self.facts, info.name) if info.name in self.facts.shapes else None
            if spot is not None and value is not None:
                wanted = [part.inputs.get(info.name, {}).get(spot, (0, 0)) if part else (0, 0) for part in needs]
                value = self.fetched(value, whole, dim, spot, wanted)
            found.append(value)
        return found

    def fetched(self, value: Any, whole: Any, dim: int, spot: int, wanted: list[Range]) -> Any:
        """The wanted range of a tensor: of its own shard, and from those who have the rest."""
        me, size = self.mesh.get_local_rank(dim), self.mesh.size(dim)
        if not isinstance(whole, DTensor) or not isinstance(whole.placements[dim], Shard):
            start, stop = wanted[me]
            return value.narrow(spot, start, stop - start)
        exchange = Exchange(self.mesh.get_group(dim), me, spot, _shards(whole.shape[spot], size), wanted)
        return Fetched.apply(value, exchange)  # type: ignore[no-untyped-call]

    def computed(self, local: list[Any], part: _sharding.Part) -> dict[str, Any]:
        inputs, attributes = _split_calls.part_of(self.call, part, local)
        own = {name: value for name, value in attributes.items() if value is not None}
        found = _operator(self.operation.function)(*inputs, **own)
        results = found if isinstance(found, tuple) else (found,)
        made = {}
        for name, result in zip(outputs_of(self.operation), results):
            for axis, (start, stop) in part.used.get(name, {}).items():
                result = result.narrow(axis, start, stop - start)
            made[name] = result * part.share if "mean" in self.joins(name) else result
        return made

    def joins(self, name: str) -> list[str]:
        return [found[0].split.joins[name] if found else "same" for found in self.options]

    def wrapped(self, name: str, results: Mapping[str, Any], at: Sequence[int], recorded: Sequence[Any]) -> DTensor:
        """An output as a DTensor; a process without a part has none of it, or what changes no share."""
        shape = list(self.facts.shapes[name])
        placements: list[Any] = []
        local_shape = list(shape)
        for dim, (found, join) in enumerate(zip(self.options, self.joins(name))):
            spot = _spot(found[0], self.facts, name) if found else None
            if join == "cells" and found is not None and spot is not None:
                placements.append(Shard(spot))
                start, stop = _shards(shape[spot], self.mesh.size(dim))[at[dim]]
                local_shape[spot] = stop - start
            elif join in ("mean", *REDUCED):
                placements.append(Partial("sum" if join == "mean" else join))
            else:
                placements.append(Replicate())
        result = results.get(name)
        if result is None:
            dtype = dtype_of(name, self.call.dtypes[name])
            result = torch.full(local_shape, _neutral(self.joins(name), dtype), dtype=dtype)
        if recorded and torch.is_grad_enabled() and result.is_floating_point():
            result = Tied.apply(result, *recorded)  # type: ignore[no-untyped-call]
        strides = torch.empty(shape, device="meta").stride()
        return DTensor.from_local(
            result.contiguous(), self.mesh, placements, run_check=False, shape=torch.Size(shape), stride=strides
        )


def _neutral(joins: Sequence[str], dtype: torch.dtype) -> float:
    """What changes nothing in any of some joins."""
    limits = torch.finfo(dtype) if dtype.is_floating_point else torch.iinfo(dtype)
    infinite = float("inf") if dtype.is_floating_point else None
    if "max" in joins:
        return -infinite if infinite else limits.min
    if "min" in joins:
        return infinite or limits.max
    return 1 if "product" in joins else 0


def _shards(extent: int, size: int) -> list[Range]:
    """How DTensor divides an axis."""
    each = -(-extent // size) or 1
    return [(min(extent, n * each), min(extent, (n + 1) * each)) for n in range(size)]
