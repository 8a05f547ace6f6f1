"""Measured: the speedup of two processes over one, for a convolution net split by samples and by rows.

Run as `torchrun --nproc-per-node 2 bench/sharded.py`; prints Markdown. Each process has one thread. Turns of one
process and of both alternate, and medians are compared; the other process waits while one works. An argument is the
number of turns.
"""

from __future__ import annotations

import functools
import statistics
import sys
import time
from collections.abc import Callable

import opwright_kernels as ok
import torch
import torch.distributed as dist
from opwright_kernels.torch import distributed
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Replicate, Shard
from torch.nn.parallel import DistributedDataParallel

LISTS = {"strides": [1, 1], "pads_begin": [1, 1], "pads_end": [1, 1], "dilations": [1, 1]}
ATTRIBUTES = {**LISTS, "data_format": "NCX", "weights_format": "OIX"}
CHANNELS, EXTENT, LAYERS, TURNS = 32, 128, 4, 7


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        weights = [torch.nn.Parameter(torch.randn(CHANNELS, CHANNELS, 3, 3) / 17) for _ in range(LAYERS)]
        self.weights = torch.nn.ParameterList(weights)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for weights in self.weights:
            x = torch.ops.opwright.relu(torch.ops.opwright.convolution(x, weights, **ATTRIBUTES))
        return x


def elapsed(work: Callable[[], object], alone: bool) -> float:
    """Seconds until all working processes are done."""
    dist.barrier()
    start = time.perf_counter()
    if not alone or not dist.get_rank():
        work()
    own = torch.tensor(time.perf_counter() - start)
    dist.all_reduce(own, dist.ReduceOp.MAX)
    return float(own)


def row(turns: int, name: str, alone: Callable[[], object], both: Callable[[], object], more: int) -> None:
    """Prints the efficiency of `both`, which does `more` times the work of `alone`."""
    taken = [(elapsed(alone, True), elapsed(both, False)) for _ in range(turns + 2)][2:]
    one, two = (statistics.median(times) for times in zip(*taken))
    if not dist.get_rank():
        print(f"| {name} | {1e3 * one:.1f} ms | {1e3 * two:.1f} ms | {more * one / (2 * two):.0%} |", flush=True)


def image(samples: int, rows: int, columns: int) -> torch.Tensor:
    return torch.randn(samples, CHANNELS, rows, columns)


def main(turns: int = TURNS, extent: int = EXTENT) -> None:
    dist.init_process_group("gloo")
    torch.set_num_threads(1)
    ok.set_num_threads(1)
    mesh = init_device_mesh("cpu", (2,))
    net, parallel = Net(), DistributedDataParallel(Net())
    whole = [DTensor.from_local(one.detach(), mesh, [Replicate()]) for one in net.weights]

    def trained(model: torch.nn.Module, x: torch.Tensor) -> Callable[[], object]:
        return lambda: model(x).square().mean().backward()

    def rows_of(x: torch.Tensor) -> Callable[[], object]:
        strips = DTensor.from_local(x, mesh, [Shard(2)])

        def work() -> None:
            made = strips
            for weights in whole:
                made = distributed.call("convolution", made, weights, **ATTRIBUTES)
                made = DTensor.from_local(torch.ops.opwright.relu(made.to_local()), mesh, [Shard(2)])

        return work

    def inferred(x: torch.Tensor) -> Callable[[], object]:
        def work() -> None:
            with torch.no_grad():
                net(x)

        return work

    if not dist.get_rank():
        print("| split | one process | two processes | efficiency |\n|---|---|---|---|")
    row_of = functools.partial(row, turns)
    four, two = image(4, extent, extent), image(2, extent, extent)
    row_of("training, 4 samples in all", trained(net, four), trained(parallel, two), 1)
    row_of("training, 4 samples each", trained(net, four), trained(parallel, four), 2)
    for rows, columns in ((2 * extent, extent), (4 * extent, 4 * extent)):
        one = inferred(image(1, rows, columns))
        shape = f"forward, {rows} x {columns}"
        row_of(f"{shape} in all", one, rows_of(image(1, rows // 2, columns)), 1)
        row_of(f"{shape} each", one, rows_of(image(1, rows, columns)), 2)
        # the limit of the machine: two processes that never communicate
        row_of(f"{shape} each, nothing sent", one, inferred(image(1, rows, columns)), 2)
    dist.destroy_process_group()


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
