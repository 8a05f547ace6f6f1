"""Computed, not measured: bytes that splits of three networks move between workers, and the resulting efficiency.

Run as `python bench/scaling.py`; prints Markdown. A worker computes RATE operations and moves LINK bytes a second, and
a message takes LATENCY seconds; nothing overlaps. Nothing is measured here.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import opwright_kernels as ok
from opwright.errors import count
from opwright_kernels import _interface, _sharding, _split_calls

RATE, LINK, LATENCY = 1e12, 25e9, 5e-6
WORKERS = (8, 64, 512, 4096)
BYTES = 4


@dataclass(frozen=True)
class Layer:
    """A call, the products that it sums, and how many times it occurs."""

    function: str
    shapes: tuple[tuple[int, ...], ...]
    attributes: dict[str, Any]
    terms: int
    times: int = 1


def convolution(
    batch: int, channels: int, out: int, space: tuple[int, ...], kernel: int, stride: int, times: int
) -> Layer:
    axes = len(space)
    pads = [kernel // 2] * axes
    attributes: dict[str, Any] = {
        "strides": [stride] * axes,
        "pads_begin": pads,
        "pads_end": pads,
        "dilations": [1] * axes,
    }
    attributes |= {"data_format": "NCX", "weights_format": "OIX"}
    shapes = (batch, channels, *space), (out, channels, *[kernel] * axes)
    windows = math.prod((size + 2 * (kernel // 2) - kernel) // stride + 1 for size in space)
    return Layer("convolution", shapes, attributes, batch * out * windows * channels * kernel**axes, times)


def resnet(batch: int) -> list[Layer]:
    """The convolutions of ResNet-50 for images of 224 x 224."""
    layers, channels = [convolution(batch, 3, 64, (224, 224), 7, 2, 1)], 64
    for width, size, blocks in ((64, 56, 3), (128, 28, 4), (256, 14, 6), (512, 7, 3)):
        layers.append(convolution(batch, channels, width, (size, size), 1, 1, 1))
        layers.append(convolution(batch, 4 * width, width, (size, size), 1, 1, blocks - 1))
        layers.append(convolution(batch, width, width, (size, size), 3, 1, blocks))
        layers.append(convolution(batch, width, 4 * width, (size, size), 1, 1, blocks))
        channels = 4 * width
    return layers


def unet(batch: int) -> list[Layer]:
    """The convolutions of a 3-D U-Net of five levels for volumes of 512^3."""
    levels = [(32 * 2**n, 512 // 2**n) for n in range(5)]
    return [convolution(batch, width, width, (size,) * 3, 3, 1, 4) for width, size in levels]


def transformer(batch: int) -> list[Layer]:
    """The products of 24 layers of width 2048 for 1024 tokens."""
    shapes = ((2048, 6144), (2048, 2048), (2048, 8192), (8192, 2048))
    return [
        Layer("mat_mul", ((batch, 1024, depth), (depth, width)), {}, batch * 1024 * depth * width, 24)
        for depth, width in shapes
    ]


NETWORKS = {"ResNet-50": resnet, "3-D U-Net": unet, "transformer": transformer}


def moved(layer: Layer, letter: str, workers: int) -> tuple[float, float] | None:
    """Operations of one worker and the bytes that it receives per layer; None if it has too few parts."""
    operations: Any = vars(ok)["_OPERATIONS"]
    operation = operations[layer.function]
    inputs = [ok.TensorSpec(shape, np.float32) for shape in layer.shapes]
    given, attributes = _interface.bound(operation, inputs, layer.attributes)
    call = _split_calls.understood(operation, given, attributes)
    options = [
        option
        for option in call.options
        if option.split.letter == letter and option.axis == 0 and option.total >= workers
    ]
    if not options:
        return None
    option = options[0]
    each = option.total // workers
    part = _sharding.part(call.facts, {option: (each * (workers // 2), each * (workers // 2 + 1))})
    assert part is not None
    received = 0.0
    for name, ranges in part.inputs.items():
        shape = call.facts.shapes[name]
        for axis, (start, stop) in ranges.items():
            beyond = max(0, stop - start - shape[axis] / workers)
            received += beyond * math.prod(shape) / shape[axis] * BYTES if option.split.window else 0
    for name, join in option.split.joins.items():
        received += 2 * math.prod(call.facts.shapes[name]) * BYTES if join == "sum" else 0
    return 2 * layer.terms / workers, received


def efficiency(work: float, received: float, messages: int) -> float:
    return work / RATE / (work / RATE + received / LINK + messages * LATENCY)


def by_letter(network: str, letter: str, workers: int, batch: int) -> tuple[float, float] | None:
    """The bytes that a worker receives in a forward pass, and the efficiency."""
    work = received = messages = 0.0
    for layer in NETWORKS[network](batch):
        found = moved(layer, letter, workers)
        if found is None:
            return None
        work += layer.times * found[0]
        received += layer.times * found[1]
        messages += layer.times * (2 if found[1] else 0)
    return received, efficiency(work, received, int(messages))


def trained(network: str, workers: int, batch: int) -> tuple[float, float]:
    """The same for a training step of `batch` samples a worker: gradients of weights are sums over all samples."""
    layers = NETWORKS[network](batch)
    weights = sum(math.prod(layer.shapes[1]) * layer.times for layer in layers)
    work = 3 * sum(layer.times * (moved(layer, _first(layer), 1) or (0, 0))[0] for layer in layers)
    received = 2 * weights * BYTES * (workers - 1) / workers
    return received, efficiency(work, received, 2 * math.ceil(math.log2(workers)))


def _first(layer: Layer) -> str:
    return "n" if layer.function == "convolution" else "b"


def rows() -> Iterator[tuple[str, str, list[tuple[float, float] | None]]]:
    for network, samples in (("ResNet-50", 32), ("3-D U-Net", 1), ("transformer", 4)):
        yield network, f"training, {count(samples, 'sample')} a worker", [trained(network, n, samples) for n in WORKERS]
    yield "3-D U-Net", "one volume, halos along one axis", [by_letter("3-D U-Net", "i", n, 1) for n in WORKERS]
    yield "transformer", "rows of one sample", [by_letter("transformer", "m", n, 1) for n in WORKERS]
    yield "transformer", "columns of weights", [by_letter("transformer", "n", n, 1) for n in WORKERS]
    yield "transformer", "partial sums", [by_letter("transformer", "k", n, 1) for n in WORKERS]


def main() -> None:
    print("| network | split | " + " | ".join(f"{n} workers" for n in WORKERS) + " |")
    print("|---|---|" + "---|" * len(WORKERS))
    for network, split, found in rows():
        cells = ["too few values" if one is None else f"{one[0] / 1e6:,.0f} MB, {one[1]:.0%}" for one in found]
        print(f"| {network} | {split} | " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main()
