"""Our thread team and PyTorch's pool, used in turns: python bench/pools.py.

Prints, for calls of several sizes, how long a pair of calls takes when the sides take turns, by the sum of what each
takes by itself. At 1 they do not disturb each other; workers that kept the cores busy after a call would show as more.
"""

from __future__ import annotations

import argparse
import functools
import statistics
import time
from collections.abc import Callable

import numpy as np
import opwright_kernels as ok
import torch

SIZES = (64, 128, 256, 512)  # of square products, here by both sides, and of what PyTorch adds
REPEATS = 9


def per_call(call: Callable[[], object], seconds: float) -> float:
    """The mean time of a call."""
    count, start = 0, time.perf_counter()
    while (spent := time.perf_counter() - start) < seconds or not count:
        call()
        count += 1
    return spent / count


def ratio(ours: Callable[[], object], theirs: Callable[[], object], seconds: float) -> float:
    """The time in turns by the sum of the times alone; the median of repeats that take turns."""

    def both() -> None:
        ours()
        theirs()

    found = []
    for _ in range(REPEATS):
        turns, alone = per_call(both, seconds), per_call(ours, seconds) + per_call(theirs, seconds)
        found.append(turns / alone)
    return statistics.median(found)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--seconds", type=float, default=0.1, help="for each of the figures of a repeat")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    ok.set_num_threads(options.threads)
    print(f"{options.threads} threads: time in turns by the sum of the times alone")
    for size in SIZES:
        array = np.random.default_rng(size).normal(size=(size, size)).astype(np.float32)
        tensor = torch.from_numpy(array)
        ours = functools.partial(ok.mat_mul, array, array)
        theirs: dict[str, Callable[[], object]] = {
            "product": functools.partial(torch.mm, tensor, tensor),
            "gelu": functools.partial(torch.nn.functional.gelu, tensor),
        }
        for name, call in theirs.items():
            ours()
            call()
            found = ratio(ours, call, options.seconds)
            print(f"product of {size:4} here, {name:8} of PyTorch  {found:.2f}", flush=True)


if __name__ == "__main__":
    main()
