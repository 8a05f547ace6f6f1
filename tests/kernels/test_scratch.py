"""Scratch memory stays within the bound that API.md states, for calls of any size, and the bound is needed in all its parts."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import opwright_kernels as ok
import pytest
from opwright_kernels import _isa
from support.calls import FAMILY, Rng
from support.draws import FULL, rng
from support.rulings import DTYPES, OPERATIONS

from bench import shapes

MIB = 2**20
ISAS = {isa.name: isa for isa in _isa.ISAS}
Extents = tuple[int, ...]


@dataclass(frozen=True)
class Sizes:
    """What the bound is stated in: a Convolution, `big` its input and `small` its output, or what is a gradient of it."""

    N: int
    G: int
    A: int
    B: int
    small: Extents
    taps: Extents
    stride: Extents
    dilation: Extents
    pads: tuple[Extents, Extents]

    @property
    def big(self) -> Extents:
        every = zip(self.small, self.stride, self.taps, self.dilation, *self.pads)
        return tuple((o - 1) * s + (k - 1) * d + 1 - begin - end for o, s, k, d, begin, end in every)


def parts(sizes: Sizes, finds: str, threads: int) -> dict[str, int]:
    """The terms of the bound, in bytes."""
    weights = 4 * math.prod(sizes.taps) * (sizes.A + 64) * (sizes.B + 64)
    axes = zip(sizes.small, sizes.stride, sizes.taps, sizes.dilation)
    padded = [(o - 1) * s + (k - 1) * d + 1 for o, s, k, d in axes]
    padded[-1] += 64 * sizes.stride[-1] * sizes.dilation[-1]
    images = sizes.N if finds == "weights" else 1
    rows = 4 * images * (sizes.A + sizes.B + 64) * math.prod(padded)
    return {
        "shared": MIB,
        "weights": sizes.G * weights,
        "of threads": threads * MIB,
        "weights of threads": threads * 256 * math.prod(sizes.taps) * (sizes.A + sizes.B),
        "rows of threads": threads * rows,
    }


def scratch(op: str, dtype: str, sizes: Sizes, layout: str, weights_format: str, threads: int) -> int:
    """What `explain` says; no tensor is made."""
    operation = OPERATIONS[op]
    small, big = ((sizes.N, sizes.G * c) for c in (sizes.A, sizes.B))
    shapes = {"small": (*small, *sizes.small), "big": (*big, *sizes.big)}
    if layout == "NXC":
        shapes = {name: (shape[0], *shape[2:], shape[1]) for name, shape in shapes.items()}
    channels = (sizes.G * sizes.A, sizes.B)
    shapes["weights"] = (*channels, *sizes.taps) if weights_format[-1] == "X" else (*sizes.taps, *channels[::-1])
    inputs: list[Any] = [ok.TensorSpec(shapes[role], DTYPES[dtype]) for role in operation.roles if role in shapes]
    if "shape" in operation.roles:
        inputs.append(np.array(shapes[operation.finds], np.int32))
    attributes = {"strides": sizes.stride, "dilations": sizes.dilation, "groups": sizes.G}
    attributes |= {"pads_begin": sizes.pads[0], "pads_end": sizes.pads[1]}
    formats = {"data_format": layout, "weights_format": weights_format}
    return ok.explain(op, *inputs, **attributes, **formats, threads=threads).scratch_bytes


def drawn(random: Rng) -> Sizes:
    """Sizes of all magnitudes, each mostly small."""

    def number(most: float) -> int:
        return int(most ** random.random())

    rank = int(random.integers(1, 4))
    few = 2 ** (12 / rank)
    channels = (1, 1) if random.random() < 0.3 else (number(1500), number(1500))
    small, taps, stride, dilation = (
        tuple(number(most) if random.random() < 0.8 else 1 for _ in range(rank)) for most in (few * 8, few, 300, 100)
    )
    room = [(o - 1) * s + (k - 1) * d for o, s, k, d in zip(small, stride, taps, dilation)]
    begin = tuple(number(r + 1) - 1 if random.random() < 0.5 else 0 for r in room)
    end = tuple(number(r - b + 1) - 1 if random.random() < 0.5 else 0 for r, b in zip(room, begin))
    return Sizes(number(32), number(600), *channels, small, taps, stride, dilation, (begin, end))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("op", OPERATIONS)
def test_scratch_memory_stays_within_its_bound(op: str, dtype: str, isa: str) -> None:
    random, operation = rng("scratch", op, dtype, isa), OPERATIONS[op]
    for _ in range(600 if FULL else 60):
        sizes, threads = drawn(random), int(random.choice([1, 2, 3, 8, 64]))
        layout, weights_format = str(random.choice(["NCX", "NXC"])), str(random.choice(FAMILY[operation.transposed]))
        try:
            needed = scratch(op, dtype, sizes, layout, weights_format, threads)
        except ok.SpecError as error:
            assert error.rule.endswith(("overflow", "-int64"))
            continue
        assert needed <= sum(parts(sizes, operation.finds, threads).values()), (sizes, layout, weights_format, threads)


# Of each part that grows, a call that needs it: many weights, which all threads share; few outputs, for which each packs
# its own; taps whose rows lie far apart.
NONE = ((0,), (0,))
HUNGRY = {
    "weights": (Sizes(1, 1, 1024, 1024, (600,), (64,), (1,), (1,), NONE), 1),
    "weights of threads": (Sizes(1, 1, 1024, 1024, (4,), (64,), (1,), (1,), NONE), 256),
    "rows of threads": (Sizes(1, 1, 1, 512, (8, 40), (4, 1), (19, 1), (26, 1), ((0, 0), (0, 0))), 64),
}


@pytest.mark.parametrize("part", HUNGRY)
def test_no_part_of_the_bound_can_be_left_out(part: str, isa: str) -> None:
    sizes, threads = HUNGRY[part]
    dtype = "bf16" if isa.endswith("_bf16") else "f32"
    bound = parts(sizes, "small", threads)
    needed = scratch("Convolution", dtype, sizes, "NXC", "OIX", threads)
    if ISAS[isa].fast:
        assert sum(bound.values()) - bound[part] < needed <= sum(bound.values())
    else:
        assert needed == 0


def test_the_threads_of_a_network_need_what_the_page_says(isa: str) -> None:
    """Over the shapes of the benchmark, 4.6 MiB for a thread at the most."""
    each = []
    for shape in shapes.TABLE:
        groups, axes = shape.groups, (shape.small_extent, shape.kernels, shape.strides, shape.dilations)
        sizes = Sizes(shape.batch, groups, shape.small // groups, shape.big // groups, *axes, NONE)
        sizes = replace(sizes, pads=(shape.pads_begin, shape.pads_end))
        for op in ("Convolution", "ConvolutionBackwardWeights"):
            one, two = (scratch(op, "bf16", sizes, "NCX", "OIX", threads) for threads in (1, 2))
            each.append((two - one) / MIB)
    if ISAS[isa].fast:
        assert max(each) < 4.7
        assert np.median(each) < 0.5
