"""A call of an operator on DTensors, of which every process computes a part.

In: an operation, its inputs (tensors among them are DTensors of one mesh), its attributes. Out: DTensors. Each
dimension of the mesh divides the letter along which the first sharded input lies, where the table of splits allows it;
inputs that lie otherwise are redistributed. Nothing here records gradients.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard

from .. import _sharding, _split_calls
from .._description import TensorSpec
from .._errors import Refusal
from .._sharding import Range, SplitOption
from ._exchange import Exchange
from ._fake import absent as nothing
from ._schema import outputs_of
from ._tensors import described, dtype_of, flat

Cut = tuple[SplitOption, list[Range]]  # a letter, and the range of each process along a dimension of the mesh
_REDUCED = {"sum": "sum", "mean": "sum", "product": "product", "max": "max", "min": "min"}  # as DTensor calls them


class Sharded:
    """A call, and the letter that each dimension of the mesh divides."""

    def __init__(self, operation: Any, given: Sequence[Any], attributes: Sequence[Any]) -> None:
        self.operation = operation
        self.call = _split_calls.understood(operation, [_spec(value) for value in given], attributes)
        self.facts = self.call.facts
        parameter = operation.inputs[0].parameter
        tensors = flat(given)
        found = [value for value in tensors if isinstance(value, DTensor)]
        if not found:
            raise Refusal(f"{parameter}-kind", parameter, "no DTensor", "at least one DTensor", wrong_kind=True)
        self.mesh = found[0].device_mesh
        self.given = [
            value if info.states_shape else on(self.mesh, value) for info, value in zip(operation.inputs, given)
        ]
        at = self.mesh.get_coordinate()
        assert at is not None
        self.at = at
        self.cuts: list[Cut | None] = []
        self.gathered: list[Refusal] = []
        for dim in range(self.mesh.ndim):
            self.cuts.append(self.cut(dim))

    def check(self) -> None:
        """Raises Refusal where a sharded input is put together because the letter may not be split."""
        for refusal in self.gathered:
            raise refusal

    def cut(self, dim: int) -> Cut | None:
        """The letter that a dimension of the mesh divides: of the first sharded input whose letter may be split."""
        for info, value in zip(self.operation.inputs, self.given):
            for tensor in flat([value]):
                own: Any = tensor.placements[dim] if isinstance(tensor, DTensor) else None
                if isinstance(own, Shard):
                    try:
                        return self.along(dim, info, own.dim)
                    except Refusal as refusal:
                        self.gathered.append(refusal)
                    break
        return None

    def along(self, dim: int, info: Any, axis: int) -> Cut:
        """The letter along an axis of an input, and who computes which of its values."""
        got, expected = (
            f"sharded along axis {axis}",
            f"a letter that may be split, or {info.parameter}.redistribute(...)",
        )
        refused = Refusal(f"{info.parameter}-placement", info.parameter, got, expected)
        before = [found[0] for found in self.cuts if found is not None]
        for option in self.call.options:
            if _spot(option, self.facts, info.name) != axis or not option.total:
                continue
            clash = any((one.split.size, one.axis) == (option.split.size, option.axis) for one in before)
            nested = option in before and not option.split.neighbours
            joins = [_sharding.joins((*before, option), name) for name in self.facts.outputs]
            traced = option.split.neighbours and torch.compiler.is_compiling()
            lacks = any(  # the axis, so that the process with the only part would have it alone
                option.split.joins[name] == "cells" and _spot(option, self.facts, name) is None
                for name in self.facts.outputs
            )
            if (clash and not nested) or None in joins or traced or lacks:
                raise refused
            ranges = self.ranges(dim, option, info.name, axis)
            idle = any(start >= stop for start, stop in ranges)
            if idle and "same" in (option.split.joins[name] for name in self.facts.outputs):
                raise refused  # a process without a part would not have what all have
            return option, ranges
        raise refused

    def ranges(self, dim: int, option: SplitOption, name: str, axis: int) -> list[Range]:
        """The values of a letter that each process computes: as DTensor divides the output, or what is summed."""
        outputs = [output for output in self.facts.outputs if option.split.joins[output] == "cells"]
        spots = [(output, _spot(option, self.facts, output)) for output in outputs] or [(name, axis)]
        tensor, spot = next(((one, at) for one, at in spots if at is not None), (name, axis))
        within = (0, option.total)
        for found, at in zip(self.cuts, self.at):
            if found is not None and found[0] is option:
                within = found[1][at]
        each = 1 if option.split.window else _sharding.extent(self.facts, tensor, spot) // option.total
        shards = _shards((within[1] - within[0]) * each, self.mesh.size(dim))
        if not each or any(start % each or stop % each for start, stop in shards):
            got = f"{(within[1] - within[0]) * each} cells along axis {spot} for {len(shards)} processes"
            raise Refusal(f"{tensor}-placement", tensor, got, f"shards of multiples of {each} cells")
        return [(within[0] + start // each, within[0] + stop // each) for start, stop in shards]

    def outputs(self, operator: Any) -> Any:
        """The outputs, computed by an operator on this process's part of the inputs."""
        aligned = [self.aligned(info.name, value) for info, value in zip(self.operation.inputs, self.given)]
        local = [_local(value) for value in aligned]
        for dim, found in enumerate(self.cuts):
            if found is not None and found[0].split.neighbours:
                local = self.moved(local, aligned, dim, *found)
        chosen = {found[0]: found[1][self.at[dim]] for dim, found in enumerate(self.cuts) if found is not None}
        part = _sharding.part(self.facts, chosen) if all(a < b for a, b in chosen.values()) else None
        results: Mapping[str, Any] = {} if part is None else self.computed(operator, local, part)
        made = [self.wrapped(name, results.get(name)) for name in outputs_of(self.operation)]
        return made[0] if len(made) == 1 else tuple(made)

    def aligned(self, name: str, value: Any) -> Any:
        """A tensor with each dimension of the mesh along the letter that it divides, or whole.

        Of one that every process has, windows read neighbours' cells where they are.
        """
        if isinstance(value, (list, tuple)):
            return [self.aligned(name, part) for part in value]
        if not isinstance(value, DTensor):
            return value
        placements: list[Any] = []
        for found, own in zip(self.cuts, value.placements):
            spot = _spot(found[0], self.facts, name) if found else None
            there = found is not None and found[0].split.neighbours and own.is_replicate()
            placements.append(Replicate() if spot is None or there else Shard(spot))
        return value.redistribute(placements=placements)

    def moved(self, local: list[Any], aligned: list[Any], dim: int, option: SplitOption, ranges: list[Range]) -> Any:
        """The tensors with the cells under the windows of this process, along one dimension of the mesh."""
        needs = [_sharding.part(self.facts, {option: own}) if own[0] < own[1] else None for own in ranges]
        found = []
        for info, value, whole in zip(self.operation.inputs, local, aligned):
            spot = _spot(option, self.facts, info.name)
            if spot is not None and isinstance(whole, DTensor):
                wanted = [part.inputs.get(info.name, {}).get(spot, (0, 0)) if part else (0, 0) for part in needs]
                value = self.fetched(value, whole, dim, spot, wanted)
            found.append(value)
        return found

    def fetched(self, value: Any, whole: DTensor, dim: int, spot: int, wanted: list[Range]) -> Any:
        """The wanted range of a tensor: of its own shard, and from those who have the rest."""
        me, size = self.mesh.get_local_rank(dim), self.mesh.size(dim)
        if whole.placements[dim].is_replicate():
            start, stop = wanted[me]
            return value.narrow(spot, start, stop - start)
        return Exchange(self.mesh.get_group(dim), me, spot, _shards(whole.shape[spot], size), wanted).fetched(value)

    def computed(self, operator: Any, local: list[Any], part: _sharding.Part) -> dict[str, Any]:
        inputs, attributes = _split_calls.part_of(self.call, part, local)
        inputs = [value.tolist() if isinstance(value, np.ndarray) else value for value in inputs]
        own = {name: value for name, value in attributes.items() if value is not None}
        found = operator(*inputs, **own)
        made = {}
        for name, result in zip(outputs_of(self.operation), found if isinstance(found, tuple) else (found,)):
            for axis, (start, stop) in part.used.get(name, {}).items():
                result = result.narrow(axis, start, stop - start)
            made[name] = result * part.share if "mean" in self.joins(name) else result
        return made

    def joins(self, name: str) -> list[str]:
        """How an output is made of parts, by dimension of the mesh."""
        absent = name not in self.facts.outputs
        return ["same" if found is None or absent else found[0].split.joins[name] for found in self.cuts]

    def wrapped(self, name: str, result: Any) -> DTensor:
        """An output as a DTensor; a process without a part has none of it, or what changes no share."""
        absent = name not in self.facts.outputs
        shape = [0] if absent else list(self.facts.shapes[name])
        joins, placements, local_shape = self.joins(name), list[Any](), list(shape)
        for dim, (found, join) in enumerate(zip(self.cuts, joins)):
            spot = _spot(found[0], self.facts, name) if found and join == "cells" else None
            if spot is not None:
                placements.append(Shard(spot))
                start, stop = _shards(local_shape[spot], self.mesh.size(dim))[self.at[dim]]
                local_shape[spot] = stop - start
            else:
                placements.append(Partial(_REDUCED[join]) if join in _REDUCED else Replicate())
        if absent:
            result = nothing(torch.device("cpu"))
        elif result is None:
            dtype = dtype_of(name, self.call.dtypes[name])
            result = torch.full(local_shape, _neutral(joins, dtype), dtype=dtype)
        strides = torch.empty(shape, device="meta").stride()
        return DTensor.from_local(
            result.contiguous(), self.mesh, placements, run_check=False, shape=torch.Size(shape), stride=strides
        )


def on(mesh: Any, value: Any) -> Any:
    """A tensor that is no DTensor as one that every process has: autograd's zeros, and constants."""
    if isinstance(value, (list, tuple)):
        return [on(mesh, part) for part in value]
    if isinstance(value, torch.Tensor) and not isinstance(value, DTensor):
        return DTensor.from_local(value, mesh, [Replicate()] * mesh.ndim, run_check=False)
    return value


def _local(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return [_local(part) for part in value]
    return value.to_local() if isinstance(value, DTensor) else value


def _spec(value: Any) -> Any:
    if isinstance(value, (list, tuple)) and flat([value]):
        return [_spec(part) for part in value]
    if isinstance(value, torch.Tensor):
        return TensorSpec(value.shape, described("tensor", torch.empty(0, dtype=value.dtype)))
    return value


def _spot(option: SplitOption, facts: _sharding.Facts, name: str) -> int | None:
    """The axis of a tensor that is cut; None where it is the same for all."""
    for axis in option.split.axes.get(name, ()) if name in facts.shapes else ():
        spot = option.spot(facts, name, axis)
        if spot is not None and (_sharding.extent(facts, name, spot) != 1 or option.total == 1):
            return spot
    return None


def _neutral(joins: Sequence[str], dtype: torch.dtype) -> float:
    """What changes nothing in any of some joins."""
    extreme = {"max": -1, "min": 1}.get(next(iter({"max", "min"} & {*joins}), ""), 0)
    if not extreme:
        return 1 if "product" in joins else 0
    if dtype.is_floating_point:
        return extreme * float("inf")
    return torch.iinfo(dtype).min if extreme < 0 else torch.iinfo(dtype).max


def _shards(extent: int, size: int) -> list[Range]:
    """How DTensor divides an axis."""
    each = -(-extent // size) or 1
    return [(min(extent, n * each), min(extent, (n + 1) * each)) for n in range(size)]
