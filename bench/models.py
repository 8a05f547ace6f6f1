"""Models of PyTorch on the package's kernels, beside PyTorch's own and `torch.compile`: python bench/models.py.

Prints, for inference and a step of training, PyTorch's time by ours: above 1, the package is faster. With `--compile`
also the time of `torch.compile` by ours, and `both`, its time by that of the same graphs on the package's kernels. The
candidates take turns in one process, and medians are compared.
"""

from __future__ import annotations

import argparse
import itertools
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import opwright_kernels as ok
import opwright_kernels.torch as kernels
import torch

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from support.torch_models import Block, ResNet, UNet

MODELS: dict[str, tuple[Callable[[], Any], Callable[[int], tuple[int, ...]]]] = {
    "resnet50": (ResNet, lambda batch: (batch, 3, 224, 224)),
    "unet": (UNet, lambda batch: (batch, 3, 128, 128)),
    "block": (lambda: Block(512, 8), lambda batch: (batch, 128, 512)),
}

Row = tuple[str, int, bool]  # model, batch, training
DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16}


def step(model: Any, src: Any) -> None:
    for one in model.parameters():
        one.grad = None
    model(src).float().square().mean().backward()


def inference(model: Any, src: Any) -> None:
    with torch.no_grad():
        model(src)


def timed(call: Callable[[], None], within: Any) -> float:
    """The time of a call within a block, whose beginning and end are not counted."""
    with within():
        start = time.perf_counter()
        call()
        return time.perf_counter() - start


def measured(row: Row, dtype: Any, seconds: float, compiled: bool) -> Iterator[tuple[str, float]]:
    """By peer, its time by ours."""
    name, batch, training = row
    torch.manual_seed(0)
    made, shape = MODELS[name]
    model, src = made().train(training).to(dtype), torch.randn(shape(batch)).to(dtype)
    run = step if training else inference
    modes: dict[str, tuple[Any, Any]] = {"ours": (model, kernels.enabled), "eager": (model, nullcontext)}
    if compiled:
        graphs = torch.compile(model)
        modes |= {"compile": (graphs, nullcontext), "both": (graphs, kernels.enabled)}
    times: dict[str, list[float]] = {mode: [] for mode in modes}
    calls = {mode: (partial(run, called, src), within) for mode, (called, within) in modes.items()}
    for call in calls.values():
        timed(*call)
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(times["ours"]) < 3:
        for mode, call in calls.items():
            times[mode].append(timed(*call))
    medians = {mode: statistics.median(found) for mode, found in times.items()}
    yield "eager", medians["eager"] / medians["ours"]
    if compiled:
        yield "compile", medians["compile"] / medians["ours"]
        yield "both", medians["compile"] / medians["both"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--compile", action="store_true", help="beside torch.compile, too")
    parser.add_argument("--seconds", type=float, default=5.0, help="for each row")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--only", default="", help="rows whose name holds this")
    parser.add_argument("--dtype", choices=DTYPES, default="f32")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    ok.set_num_threads(options.threads)
    for row in itertools.product(MODELS, (1, 16), (False, True)):
        name = f"{row[0]} {'training' if row[2] else 'inference'} {row[1]} {options.dtype}"
        if options.only in name:
            for peer, ratio in measured(row, DTYPES[options.dtype], options.seconds, options.compile):
                print(f"{name:28} {peer:8} {ratio:.2f}", flush=True)


if __name__ == "__main__":
    main()
