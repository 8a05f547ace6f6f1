"""Random calls on DTensors in one group of processes, against one process: placements of all kinds, and what is sent.

In: operations, how many calls, and a mesh. Every process draws the same calls; one that is wrong raises on all of them.
A *wild* call shards each tensor along any axis, or holds it as a sum. A *table* call shards along a letter as the table
of splits says: then nothing is sent but halos, whose cells the table tells.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np
import opwright_kernels as ok
import torch
import torch.distributed as dist
from opwright.language.model import Op
from opwright_kernels import _interface, _sharding, _split_calls
from opwright_kernels._description import TensorSpec
from opwright_kernels.torch import _tensors
from opwright_kernels.torch._tensors import flat
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor

from .split_calls import windowed
from .step_calls import StepCaller

Rng = np.random.Generator
ops: Any = torch.ops.opwright


def calls(op: Op, random: Rng, count: int) -> Iterator[tuple[list[Any], dict[str, Any]]]:
    """Legal calls on f32 numbers that are integers."""
    if not op.stepped:
        for number, found in enumerate(windowed(op, random)):
            if number == count:
                return
            yield found
    for call in StepCaller(op, random, 1).legal(count) if op.stepped else ():
        yield list(call.inputs), call.attributes


def tensor_of(array: Any) -> Any:
    """A tensor of an array, whatever its strides; lists of them, and what is no array, likewise."""
    if isinstance(array, list):
        return [tensor_of(part) for part in array]
    return torch.from_numpy(np.array(array)) if isinstance(array, np.ndarray) else array


def wild(random: Rng, mesh: Any, tensor: torch.Tensor) -> DTensor:
    """A tensor on a mesh, along each dimension of which it is whole, sharded along some axis, or a sum."""
    placements: list[Any] = []
    for _ in range(mesh.ndim):
        kinds = ["whole", *(["shard"] * 2 if tensor.ndim else []), *(["sum"] if tensor.is_floating_point() else [])]
        kind = str(random.choice(kinds))
        axis = int(random.integers(0, tensor.ndim)) if tensor.ndim else 0
        placements.append(Shard(axis) if kind == "shard" else Partial() if kind == "sum" else Replicate())
    plain = [Replicate() if own.is_partial() else own for own in placements]
    whole = distribute_tensor(tensor, mesh, plain, src_data_rank=None)
    if plain == placements:
        return whole
    first = all(at == 0 for at, own in zip(mesh.get_coordinate(), placements) if own.is_partial())
    share = whole.to_local() if first else torch.zeros_like(whole.to_local())
    return DTensor.from_local(share, mesh, placements, run_check=False, shape=whole.shape, stride=whole.stride())


def each(value: Any, made: Any) -> Any:
    if isinstance(value, list):
        return [each(part, made) for part in value]
    return made(value) if isinstance(value, torch.Tensor) else value


def compared(label: str, found: Any, wanted: Any) -> None:
    found, wanted = (one if isinstance(one, tuple) else (one,) for one in (found, wanted))
    assert len(found) == len(wanted), label
    for one, other in zip(found, wanted):
        whole = one.full_tensor() if isinstance(one, DTensor) else one
        assert (whole.shape, whole.dtype) == (other.shape, other.dtype), (label, whole.shape, other.shape)
        near = torch.allclose(whole.double(), other.double(), rtol=1e-4, atol=1e-4, equal_nan=True)
        assert near, (label, whole, other)


def graded(random: Rng, function: str, given: list[Any], attributes: dict[str, Any], sharded: Any, label: str) -> bool:
    """Whether there is a gradient; where there is, it is that of one process."""
    floats = [at for at, one in enumerate(given) if isinstance(one, torch.Tensor) and one.is_floating_point()]
    alone = [one.clone().requires_grad_() if at in floats else one for at, one in enumerate(given)]
    try:
        wanted = getattr(ops, function)(*alone, **attributes)
        wanted = wanted[0] if isinstance(wanted, tuple) else wanted
        if not wanted.requires_grad or not wanted.numel():
            return False
        weight = torch.from_numpy(random.integers(-3, 4, wanted.shape).astype(np.float32))
        (wanted * weight).sum().backward()
    except (RuntimeError, ok.SpecError):  # it has none
        return False
    own = [one.detach().requires_grad_() if at in floats else one for at, one in enumerate(sharded)]
    found = getattr(ops, function)(*own, **attributes)
    found = found[0] if isinstance(found, tuple) else found
    mesh = found.device_mesh
    whole = found.redistribute(placements=[Replicate()] * mesh.ndim)
    (whole * distribute_tensor(weight, mesh, [Replicate()] * mesh.ndim, src_data_rank=None)).sum().backward()
    for at in floats:
        if alone[at].grad is not None:
            compared(f"{label}, gradient of input {at}", own[at].grad, alone[at].grad)
    return True


def halo(call: Any, option: Any, mesh: Any, name: str, spot: int, extent: int) -> int:
    """The cells along an axis that a process gets from others, as the table says."""
    output = next(one for one in call.facts.outputs if option.split.joins[one] in ("cells", "sum"))
    spots = [option.spot(call.facts, output, own) for own in option.split.axes.get(output, ())]
    cut = next((one for one in spots if one is not None), None)
    each = 1 if option.split.window or cut is None else call.facts.shapes[output][cut] // option.total
    start, stop = (at // each for at in shard(mesh, option.total if cut is None else call.facts.shapes[output][cut]))
    part = _sharding.part(call.facts, {option: (start, stop)}) if start < stop else None
    low, high = part.inputs.get(name, {}).get(spot, (0, 0)) if part else (0, 0)
    first, last = shard(mesh, extent)
    return (high - low) - max(0, min(high, last) - max(low, first))


def shard(mesh: Any, extent: int) -> tuple[int, int]:
    """The cells of an axis that this process has along the first dimension of a mesh."""
    each, me = -(-extent // mesh.size(0)), mesh.get_local_rank(0)
    return min(extent, me * each), min(extent, (me + 1) * each)


def held(call: Any, option: Any) -> bool:
    """Whether every output that is cut has the axis."""
    cut = [name for name in call.facts.outputs if option.split.joins[name] == "cells"]
    return all(
        any(option.spot(call.facts, name, own) is not None for own in option.split.axes.get(name, ())) for name in cut
    )


class Counted:
    """What this process sends: collectives by name, and bytes to neighbours."""

    def __enter__(self) -> Counted:
        from torch.distributed.tensor.debug import CommDebugMode

        self.received, self.mode = 0, CommDebugMode()
        self.original = dist.P2POp.__init__

        def counted(operation: Any, op: Any, tensor: Any, *more: Any, **named: Any) -> None:
            self.received += tensor.numel() * tensor.element_size() if op is dist.irecv else 0
            self.original(operation, op, tensor, *more, **named)

        dist.P2POp.__init__ = counted
        self.mode.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        dist.P2POp.__init__ = self.original
        self.mode.__exit__(*error)

    @property
    def collectives(self) -> dict[str, int]:
        return {str(op): count for op, count in self.mode.get_comm_counts().items() if count}


def by_table(op: Op, given: list[Any], attributes: dict[str, Any], mesh: Any, kinds: Counter[str]) -> None:
    """Each letter of the table along the first dimension of the mesh: nothing is sent but halos."""
    operation = ok._OPERATIONS[op.function]
    described = each(given, _described)
    call = _split_calls.understood(operation, described, _interface.bound(operation, given, attributes)[1])
    for option in call.options if not any(isinstance(one, list) for one in given) else ():
        placed, expected = [], 0
        for info, value in zip(operation.inputs, given):
            spots = [option.spot(call.facts, info.name, own) for own in option.split.axes.get(info.name, ())]
            spot = next((one for one in spots if one is not None), None)
            if info.states_shape or not isinstance(value, torch.Tensor):
                placed.append(value)
                continue
            cut = spot is not None and (value.shape[spot] != 1 or option.total == 1)
            placements = [Shard(spot) if cut else Replicate()] + [Replicate()] * (mesh.ndim - 1)
            placed.append(distribute_tensor(value, mesh, placements, src_data_rank=None))
            if option.split.neighbours and cut and value.numel():
                row = value.numel() // value.shape[spot] * value.element_size()
                expected += row * halo(call, option, mesh, info.name, spot, value.shape[spot])
        shards = [(one.shape, own) for one in flat(placed) if isinstance(one, DTensor) for own in one.placements[:1]]
        cuts = [shape[own.dim] for shape, own in shards if own.is_shard()]
        if option.split.beside:
            spots = [
                (one, option.spot(call.facts, one, own))
                for one in call.facts.outputs
                for own in option.split.axes.get(one, ())
            ]
            cuts += [call.facts.shapes[one][at] for one, at in spots if at is not None]
        units = [1 if option.split.window else cells // option.total for cells in cuts if option.total]
        if not units or any(not unit or -(-cells // mesh.size(0)) % unit for cells, unit in zip(cuts, units)):
            continue  # nothing is cut, or DTensor cuts groups
        joins = {option.split.joins[one] for one in call.facts.outputs}
        if option.total < mesh.size(0) and ("same" in joins or not held(call, option)):
            continue  # a process without a part could not give what all have
        label = f"{op.function} by {option.split.letter} {attributes} {[getattr(one, 'shape', one) for one in given]}"
        with named(label), Counted() as counted:
            found = getattr(ops, op.function)(*placed, **attributes)
        compared(label, found, getattr(ops, op.function)(*given, **attributes))
        assert not counted.collectives, (label, counted.collectives)
        assert counted.received == expected, (label, counted.received, expected)
        kinds[option.split.kind] += 1


def _described(tensor: torch.Tensor) -> TensorSpec:
    return TensorSpec(tensor.shape, _tensors.described("tensor", torch.empty(0, dtype=tensor.dtype)))


@contextmanager
def named(label: str) -> Iterator[None]:
    """Whatever is raised names the call."""
    try:
        yield
    except Exception as error:
        raise AssertionError(label) from error


def check(op: Op, random: Rng, count: int, meshes: list[Any], kinds: Counter[str]) -> None:
    """Some calls of an operation, each on one of the meshes."""
    states = [info.states_shape for info in ok._OPERATIONS[op.function].inputs]
    for inputs, attributes in calls(op, random, count):
        given = [tensor_of(one) for one in inputs]
        mesh = meshes[int(random.integers(0, len(meshes)))]
        sharded = [one if stated else each(one, partial(wild, random, mesh)) for one, stated in zip(given, states)]
        placed = [(tuple(one.shape), one.placements) for one in flat(sharded) if isinstance(one, DTensor)]
        if not placed:
            continue
        label = f"{op.function} {attributes} {placed}"
        with named(label):
            compared(
                label,
                getattr(ops, op.function)(*sharded, **attributes),
                getattr(ops, op.function)(*given, **attributes),
            )
            kinds["wild"] += 1
            kinds["gradient"] += graded(random, op.function, given, attributes, sharded, label)
        by_table(op, given, attributes, mesh, kinds)
