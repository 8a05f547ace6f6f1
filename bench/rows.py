"""The rows of the benchmark: one operation on one shape in one dtype and layout, on so many threads.

In: nothing. Out: rows in a fixed order, the sample of them that `make bench` takes, and each row as a call.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from opwright.language.surface import snake_case

from .shapes import SHAPES, TABLE, Shape

SOLVES = {
    "Convolution": "small",
    "ConvolutionBackwardData": "big",
    "ConvolutionBackwardWeights": "weights",
    "ConvTranspose": "big",
    "ConvTransposeBackwardData": "small",
    "ConvTransposeBackwardWeights": "weights",
}
"""Which of the three tensors each operation computes."""
TWINS = {
    "Convolution": "ConvTransposeBackwardData",
    "ConvolutionBackwardData": "ConvTranspose",
    "ConvolutionBackwardWeights": "ConvTransposeBackwardWeights",
}
TWINS |= {twin: op for op, twin in TWINS.items()}
"""The operation of the other family that computes the same from the same arrays."""
INPUTS = {
    "Convolution": ("big", "weights"),
    "ConvolutionBackwardData": ("small", "weights"),
    "ConvolutionBackwardWeights": ("big", "small"),
    "ConvTranspose": ("small", "weights"),
    "ConvTransposeBackwardData": ("big", "weights"),
    "ConvTransposeBackwardWeights": ("small", "big"),
}
DTYPES = {"f32": 4, "bf16": 2, "f16": 2}
"""The dtypes, and the bytes of an element."""
LAYOUTS = ("NXC", "NCX")
THREADS = (2, 1)
FEW = 3  # channels of a last layer
NUMBERS = {shape.name: number for number, shape in enumerate(TABLE)}
SAMPLED = 2  # shapes for each operation, dtype, layout and number of threads


@dataclass(frozen=True)
class Row:
    """A row of convolutions. `key` is its name in results."""

    op: str
    shape: str
    dtype: str
    layout: str
    threads: int

    @property
    def key(self) -> str:
        return f"{snake_case(self.op)}/{self.shape}/{self.dtype}/{self.layout.lower()}/{self.threads}"

    @property
    def solve(self) -> str:
        return SOLVES[self.op]

    @property
    def problem(self) -> tuple[str, str, str, str, int]:
        """The key that a row shares with that of the operation's counterpart."""
        return self.solve, self.shape, self.dtype, self.layout, self.threads

    @property
    def result_dtype(self) -> str:
        return self.dtype

    @property
    def geometry(self) -> Shape:
        return SHAPES[self.shape]

    @property
    def bytes(self) -> int:
        """The minimum of bytes that move between memory and the CPU."""
        return self.geometry.elements * DTYPES[self.dtype]

    def exact(self) -> Row:
        """The row with the same result before rounding."""
        return Row(self.op, self.shape, "f32", "NCX", 1)

    def extents(self, tensor: str) -> tuple[int, ...]:
        """The shape of a tensor as the call takes it: data in the row's layout, weights with the channels beside."""
        shape, last = self.geometry, self.layout == "NXC"
        if tensor == "weights":
            channels = (shape.small, shape.big // shape.groups)
            return (*shape.kernels, *reversed(channels)) if last else (*channels, *shape.kernels)
        channel, space = (shape.big, shape.extent) if tensor == "big" else (shape.small, shape.small_extent)
        return (shape.batch, *space, channel) if last else (shape.batch, channel, *space)

    def attributes(self) -> dict[str, Any]:
        """The attributes of the call, under the page's names."""
        shape, last = self.geometry, self.layout == "NXC"
        formats = ("XIO", "OIX") if self.op.startswith("Convolution") else ("XOI", "IOX")
        given: dict[str, Any] = {
            "strides": list(shape.strides),
            "pads_begin": list(shape.pads_begin),
            "pads_end": list(shape.pads_end),
            "dilations": list(shape.dilations),
            "groups": shape.groups,
            "data_format": self.layout,
            "weights_format": formats[0] if last else formats[1],
        }
        if self.solve == "weights":
            given["weights_shape"] = list(self.extents("weights"))
        if self.op == "ConvolutionBackwardData":
            given["dst_shape"] = list(self.extents("big"))
        if self.op == "ConvTranspose" and any(shape.rests):
            given["output_padding"] = list(shape.rests)
        return given


def every() -> list[Row]:
    """Every row, in the order of the table of shapes."""
    combined = product(TABLE, SOLVES, THREADS, DTYPES, LAYOUTS)
    return [Row(op, shape.name, dtype, layout, threads) for shape, op, threads, dtype, layout in combined]


def full() -> list[Row]:
    """Every problem once, which is half of the rows, in the same order.

    An operation and its twin are one problem on the same arrays: ours is one kernel, oneDNN stands with the faster of
    the two anyway. The shapes are dealt out between them; layers of one to three channels go to ConvTranspose.
    """
    return [row for row in every() if row.op == _asked(row.shape, row.solve)]


def sample() -> list[Row]:
    """The same sample every time: shapes are dealt to every combination of the rest, f16 together with f32."""
    dealt = sorted((shape.name for shape in TABLE), key=_mixed)
    hands = product(range(SAMPLED), SOLVES, THREADS, LAYOUTS, (("f32", "f16"), ("bf16",)))
    rows = []
    for _, op, threads, layout, dtypes in hands:
        shape = next(name for name in dealt if _asked(name, SOLVES[op]) == op)
        dealt.remove(shape)
        dealt.append(shape)
        rows += [Row(op, shape, dtype, layout, threads) for dtype in dtypes]
    return rows


def chosen(everything: bool, words: Sequence[str] = (), threads: Sequence[int] = ()) -> list[Row]:
    """The rows to measure, in that order: the sample, then, if asked for, all problems.

    `words` choose among all rows, too: the ones whose key holds each of them.
    """
    rows = sample()
    if everything or words:
        # Shapes are shuffled, so that an unfinished run is a fair sample.
        rows += sorted(every() if words else full(), key=lambda row: (_mixed(row.shape), row.solve))
    wanted = [row for row in rows if not threads or row.threads in threads]
    return list(dict.fromkeys(row for row in wanted if all(word in row.key for word in words)))


def _asked(shape: str, solve: str) -> str:
    """The operation through which a problem is measured."""
    pair = [op for op, solved in SOLVES.items() if solved == solve]
    if solve == "big" and SHAPES[shape].big <= FEW:
        return "ConvTranspose"
    return pair[(NUMBERS[shape] + list(SOLVES.values()).index(solve)) % 2]


def _mixed(name: str) -> int:
    return zlib.crc32(name.encode())
