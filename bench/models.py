"""Models of PyTorch on the package's kernels, beside PyTorch's own and `torch.compile`: python bench/models.py.

Prints, for inference and a step of training, PyTorch's time by ours: above 1, the package is faster. The candidates
take turns in one process, and medians are compared.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable, Iterator
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


def step(model: Any, src: Any) -> None:
    for one in model.parameters():
        one.grad = None
    model(src).float().square().mean().backward()


def inference(model: Any, src: Any) -> None:
    with torch.no_grad():
        model(src)


def ours(run: Callable[..., None], model: Any, src: Any) -> None:
    with kernels.enabled():
        run(model, src)


def measured(name: str, batch: int, training: bool, seconds: float, compiled: bool) -> Iterator[tuple[str, float]]:
    """By peer, its time by ours."""
    torch.manual_seed(0)
    made, shape = MODELS[name]
    model, src = made().train(training), torch.randn(shape(batch))
    run = step if training else inference
    modes: dict[str, Callable[[], None]] = {"ours": lambda: ours(run, model, src), "eager": lambda: run(model, src)}
    if compiled:
        fast = torch.compile(model)
        modes["compile"] = lambda: run(fast, src)
    times: dict[str, list[float]] = {mode: [] for mode in modes}
    for call in modes.values():
        call()
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(times["ours"]) < 3:
        for mode, call in modes.items():
            start = time.perf_counter()
            call()
            times[mode].append(time.perf_counter() - start)
    mine = statistics.median(times.pop("ours"))
    for mode, found in times.items():
        yield mode, statistics.median(found) / mine


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--compile", action="store_true", help="beside torch.compile, too")
    parser.add_argument("--seconds", type=float, default=5.0, help="for each row")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--only", default="", help="rows whose name holds this")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    ok.set_num_threads(options.threads)
    for name in MODELS:
        for batch in (1, 16):
            for training in (False, True):
                row = f"{name} {'training' if training else 'inference'} {batch}"
                if options.only in row:
                    for peer, ratio in measured(name, batch, training, options.seconds, options.compile):
                        print(f"{row:24} {peer:8} {ratio:.2f}", flush=True)


if __name__ == "__main__":
    main()
