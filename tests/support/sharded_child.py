"""Groups of processes: operators on DTensors against one call, and training in parallel against training alone.

`sharded_child.py 2:parts,trained 4:parts` runs each group in turn; every process prints what was right, by name.
"""

from __future__ import annotations

import itertools
import os
import runpy
import socket
import sys
import traceback
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))
import numpy as np
import opwright_kernels as ok
import torch
import torch.distributed as dist
from opwright.load import load
from opwright_kernels.torch import distributed
from support import sharded_random
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor
from torch.nn.parallel import DistributedDataParallel

CONVOLVED = {
    "strides": [1, 1],
    "pads_begin": [1, 1],
    "pads_end": [1, 1],
    "dilations": [1, 1],
    "data_format": "NCX",
    "weights_format": "OIX",
}
POOLED = {"strides": [2, 2], "pads_begin": [0, 0], "pads_end": [0, 0], "kernel": [2, 2], "data_format": "NCX"}

ops: Any = torch.ops.opwright


def ints(*shape: int) -> torch.Tensor:
    return torch.randint(-3, 4, shape).float()


def agrees(name: str, found: DTensor, wanted: torch.Tensor, placement: str) -> None:
    assert str(found.placements[0]).startswith(placement), (name, found.placements)
    whole = found.full_tensor()
    assert whole.shape == wanted.shape, (name, whole.shape, wanted.shape)
    assert torch.equal(whole, wanted), name


def by_placements(mesh: Any) -> None:
    """Operators on shards as they are: no collective."""
    from torch.distributed.tensor.debug import CommDebugMode

    src, weights, bias = ints(6, 4, 9, 8), ints(8, 4, 3, 3), ints(8)
    wanted = ops.convolution(src, weights, bias, **CONVOLVED)
    whole = [distribute_tensor(t, mesh, [Replicate()]) for t in (src, weights, bias)]
    cut = [
        distribute_tensor(src, mesh, [Shard(0)]),
        distribute_tensor(weights, mesh, [Shard(0)]),
        distribute_tensor(bias, mesh, [Shard(0)]),
    ]
    with CommDebugMode() as counted:
        batch = ops.convolution(cut[0], whole[1], whole[2], **CONVOLVED)
        channels = ops.convolution(whole[0], cut[1], cut[2], **CONVOLVED)
        partial = ops.convolution(
            distribute_tensor(src, mesh, [Shard(1)]),
            distribute_tensor(weights, mesh, [Shard(1)]),
            whole[2],
            **CONVOLVED,
        )
        soft = ops.soft_max(distribute_tensor(src, mesh, [Shard(2)]), axis=1)[0]
        rows = ops.mat_mul(distribute_tensor(src, mesh, [Shard(2)]), distribute_tensor(ints(8, 5), mesh, [Replicate()]))
        pooled = [ops.max_pool(distribute_tensor(src, mesh, [Shard(at)]), **POOLED) for at in (0, 1)]
    assert rows.placements[0] == Shard(2)
    for at, pool in enumerate(pooled):
        agrees("pool", pool, ops.max_pool(src, **POOLED), f"S({at})")
    agrees("batch", batch, wanted, "S(0)")
    agrees("channels", channels, wanted, "S(1)")
    agrees("partial sums", partial, wanted, "P")
    assert torch.equal(soft.full_tensor(), ops.soft_max(src, axis=1)[0])
    moved = {
        str(op): count
        for op, count in counted.get_comm_counts().items()
        if "scatter" not in str(op) and "broadcast" not in str(op)
    }
    assert not moved, moved
    for axis in (1, 2, 1):  # the strategy of one axis is not that of another
        found, wanted_rows = (
            ops.soft_max(one, axis=axis)[0] for one in (distribute_tensor(src, mesh, [Shard(2)]), src)
        )
        assert (found.placements[0] == Shard(2)) == (axis == 1)
        assert torch.equal(found.full_tensor(), wanted_rows)
    for axes in ([1, 2, 3], [0, 1], [1, 2, 3]):  # nor is that of one list of axes
        found = ops.reduce_sum(distribute_tensor(src, mesh, [Shard(0)]), axes=axes)
        assert found.placements[0].is_partial() == (0 in axes)
        assert torch.equal(found.full_tensor(), ops.reduce_sum(src, axes=axes))
    other = {**CONVOLVED, "pads_begin": [0, 1]}
    agrees(
        "other attributes",
        ops.convolution(cut[0], whole[1], whole[2], **other),
        ops.convolution(src, weights, bias, **other),
        "S(0)",
    )


def by_parts(mesh: Any) -> None:
    """Own attributes: groups, and halos between neighbours alone."""
    sent: list[torch.Tensor] = []
    original = dist.P2POp.__init__

    def counted(self: Any, op: Any, tensor: Any, *more: Any) -> None:
        sent.extend([tensor] if op is dist.isend else [])
        original(self, op, tensor, *more)

    dist.P2POp.__init__ = counted
    size = mesh.size()
    src, weights, bias = ints(2, 8, 13, 8), ints(8, 2, 3, 3), ints(8)
    grouped = {**CONVOLVED, "groups": 4}
    wanted = ops.convolution(src, weights, bias, **grouped)
    args = distribute_tensor(weights, mesh, [Replicate()]), distribute_tensor(bias, mesh, [Replicate()])
    agrees(
        "groups",
        distributed.call("convolution", distribute_tensor(src, mesh, [Shard(1)]), *args, **grouped),
        wanted,
        "S(1)",
    )
    assert not sent
    agrees(
        "rows",
        distributed.call("convolution", distribute_tensor(src, mesh, [Shard(2)]), *args, **grouped),
        wanted,
        "S(2)",
    )
    neighbours = (mesh.get_local_rank() > 0) + (mesh.get_local_rank() < size - 1)
    assert sum(tensor.numel() for tensor in sent) == neighbours * 2 * 8 * 1 * 8, [
        t.shape for t in sent
    ]  # one row to each
    sent.clear()
    image, resized = ints(2, 3, 4 * size, 6), {"mode": "nearest", "extents": [6 * size, 9], "data_format": "NCX"}
    found = distributed.call("interpolate", distribute_tensor(image, mesh, [Shard(2)]), **resized)
    agrees("places", found, ops.interpolate(image, **resized), "S(2)")
    assert sum(tensor.numel() for tensor in sent) == neighbours * 2 * 3 * 2 * 6  # a period, which is of two rows
    strided = {**CONVOLVED, "strides": [2, 1], "dilations": [2, 1], "groups": 4}
    wanted = ops.convolution(src, weights, bias, **strided)
    agrees(
        "strides",
        distributed.call("convolution", distribute_tensor(src, mesh, [Shard(2)]), *args, **strided),
        wanted,
        "S(2)",
    )
    spread = {**CONVOLVED, "strides": [2, 2], "weights_format": "IOX"}
    back = ints(8, 3, 3, 3)
    wanted = ops.conv_transpose(src, back, **spread)
    found = distributed.call(
        "conv_transpose",
        distribute_tensor(src, mesh, [Shard(2)]),
        distribute_tensor(back, mesh, [Replicate()]),
        **spread,
    )
    agrees("transposed", found, wanted, "S(2)")
    stated = {**CONVOLVED, "weights_shape": [3, 8, 3, 3]}
    seed = ints(2, 3, 13, 8)
    wanted = ops.convolution_backward_weights(src, seed, **stated)
    pair = [distribute_tensor(t, mesh, [Shard(2)]) for t in (src, seed)]
    agrees("sums over windows", distributed.call("convolution_backward_weights", *pair, **stated), wanted, "P")
    dist.P2POp.__init__ = original


def by_gradients(mesh: Any) -> None:
    """Gradients through `call` and through strategies are those of one process."""
    grouped = {**CONVOLVED, "groups": 4, "strides": [2, 1]}
    cases: list[tuple[Any, ...]] = [
        (distributed.call, "convolution", [ints(4, 8, 5, 8), ints(8, 2, 3, 3), ints(8)], grouped, at) for at in range(4)
    ]
    image, taps, bias = ints(4, 4, 5, 8), ints(8, 4, 3, 3), ints(8)
    cases += [(through, "max_pool", [ints(4, 4, 6, 8)], POOLED, at) for at in (0, 1)]
    cases += [(through, "avg_pool", [ints(4, 4, 6, 8)], {**POOLED, "exclude_pad": False}, at) for at in (0, 1)]
    cases += [
        (distributed.call, "convolution", [image, taps, bias], CONVOLVED, 1),  # the bias goes to one process
        (distributed.call, "conv_transpose", [image, ints(4, 2, 3, 3)], {**CONVOLVED, "weights_format": "IOX"}, 2),
        (distributed.call, "mat_mul", [ints(3, 8), ints(8, 5)], {}, 1),
        (distributed.call, "reduce_mean", [ints(2, 7)], {"axes": [1]}, 1),
        (through, "convolution", [image, taps, bias], CONVOLVED, 0),
        (through, "relu", [ints(4, 8)], {}, 0),
        (through, "multiply", [ints(4, 8), ints(4, 8)], {}, 0),  # gradients that were derived
        (through, "reduce_sum", [ints(4, 8)], {"axes": [1]}, 0),
        (through, "exp", [ints(4, 8) / 4], {}, 1),
        (through, "mat_mul", [ints(4, 8), ints(8, 5)], {}, 0),
    ]
    for called, function, inputs, attributes, at in cases:
        alone = [one.clone().requires_grad_() for one in inputs]
        sharded = [distribute_tensor(one, mesh, [Replicate() if n else Shard(at)]) for n, one in enumerate(inputs)]
        sharded = [one.requires_grad_() for one in sharded]
        wanted, found = getattr(ops, function)(*alone, **attributes), called(function, *sharded, **attributes)
        weight = ints(*wanted.shape)
        (wanted * weight).sum().backward()
        (found.redistribute(placements=[Replicate()]) * distribute_tensor(weight, mesh, [Replicate()])).sum().backward()
        for one, other in zip(sharded, alone):
            if called is distributed.call:
                assert one.grad.placements == one.placements, (function, at, one.grad.placements)
            assert torch.allclose(one.grad.full_tensor(), other.grad, rtol=1e-5), (function, at)


def through(function: str, *inputs: Any, **attributes: Any) -> Any:
    return getattr(ops, function)(*inputs, **attributes)


def by_joins(mesh: Any) -> None:
    """Shares of every join, some processes without one: what each of them adds changes nothing."""
    for size, function in itertools.product((3, 8), ("sum", "prod", "max", "min", "mean")):
        for src in (ints(2, size) + 4, -4 - ints(2, size)):
            found = distributed.call(f"reduce_{function}", distribute_tensor(src, mesh, [Shard(1)]), axes=[1])
            assert found.placements[0].is_partial()
            assert torch.allclose(found.full_tensor(), getattr(ops, f"reduce_{function}")(src, axes=[1])), function
    alone = ints(2, 8).requires_grad_()
    greatest = distribute_tensor(alone.detach(), mesh, [Shard(1)]).requires_grad_()
    ops.reduce_max(alone, axes=[1]).sum().backward()
    distributed.call("reduce_max", greatest, axes=[1]).sum().backward()
    assert torch.equal(greatest.grad.full_tensor(), alone.grad)


class Model(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.weights = torch.nn.Parameter(torch.randn(4, 3, 3, 3) / 5)
        self.bias = torch.nn.Parameter(torch.randn(4) / 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        weights = self.weights.transpose(0, 1).transpose(0, 1)  # a view, which is no parameter itself
        return ops.relu(ops.convolution(x, weights, self.bias, **CONVOLVED)).pow(2).mean()


def trained(mesh: Any) -> None:
    """Data-parallel training gives the gradients of one process."""
    torch.manual_seed(5)
    x = torch.randn(4 * mesh.size(), 3, 9, 9)
    alone = Model()
    alone(x).backward()
    own = x.chunk(mesh.size())[mesh.get_local_rank()]
    sharded = Model()
    fully_shard(sharded, mesh=mesh)
    models = {"DDP": DistributedDataParallel(Model()), "FSDP2": sharded}
    for (name, model), _ in itertools.product(models.items(), range(2)):  # a second step gathers what the first freed
        model.zero_grad()
        model(own).backward()
        for mine, wanted in zip(model.parameters(), alone.parameters()):
            found = mine.grad.full_tensor() if isinstance(mine.grad, DTensor) else mine.grad
            assert torch.allclose(found, wanted.grad, rtol=1e-4, atol=1e-6), name
    with torch.no_grad():
        assert torch.allclose(sharded(x), alone(x), rtol=1e-4)


def started(path: str) -> None:
    """A program of the project, as torchrun starts it."""
    sys.argv = [path, "1", "16"]
    runpy.run_path(str(Path(__file__).parents[2] / path), run_name="__main__")


def by_random(mesh: Any) -> None:
    """Random calls of some operations, on a mesh of one dimension and, of four processes, of two."""
    meshes = [mesh] if mesh.size() < 4 else [mesh, init_device_mesh("cpu", (2, 2))]
    random, kinds = np.random.default_rng(int(os.environ.get("SHARDED_SEED", 0))), Counter[str]()
    folder = Path(__file__).parents[2] / "spec" / "onednn_graph"
    known = list(load(folder, folder.parents[1]).ops)
    share = int(os.environ.get("SHARDED_SHARE", 6))
    chosen = [known[int(at)] for at in random.choice(len(known), len(known) // share, replace=False)]
    if share > 1:
        chosen += [op for op in known if op.function in ("convolution", "max_pool", "mat_mul", "group_norm")]
    for op in chosen:
        sharded_random.check(op, random, 6 if share == 1 else 2, meshes, kinds)
    assert {"wild", "gradient", "cells", "halo"} <= kinds.keys(), kinds


CHECKS: dict[str, Callable[[Any], None]] = {
    "placements": by_placements,
    "parts": by_parts,
    "joins": by_joins,
    "gradients": by_gradients,
    "random": by_random,
    "trained": trained,
}


def process(rank: int, asked: Sequence[str]) -> None:
    """One process of a group does what is asked, and prints the name of each check that holds."""
    os.environ |= {"RANK": str(rank), "LOCAL_RANK": str(rank)}
    torch.set_num_threads(1)
    if asked[0].endswith(".py"):
        started(asked[0])
        return
    dist.init_process_group("gloo")
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    for name in asked:
        torch.manual_seed(1)
        CHECKS[name](mesh)
        sys.stdout.write(f"{name}\n")  # one write: another process may be at the same line
        sys.stdout.flush()
    dist.destroy_process_group()


def group(processes: int, asked: Sequence[str]) -> None:
    """Forks the processes of a group, so that PyTorch is imported once; raises if one of them fails."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        os.environ |= {"MASTER_PORT": str(free.getsockname()[1]), "WORLD_SIZE": str(processes)}
    children = []
    for rank in range(processes):
        child = os.fork()
        if not child:
            code = 1
            try:
                process(rank, asked)
                code = 0
            except BaseException:
                traceback.print_exc()
            sys.stdout.flush()
            os._exit(code)
        children.append(child)
    for child in children:  # a process that fails closes its connections, which ends the others
        if os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]):
            sys.exit(1)


def main() -> None:
    os.environ["MASTER_ADDR"] = "127.0.0.1"
    ok.set_num_threads(1)
    distributed.register()
    for argument in sys.argv[1:]:
        processes, _, names = argument.partition(":")
        group(int(processes), names.split(","))


if __name__ == "__main__":
    main()
