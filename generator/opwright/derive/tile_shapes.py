"""The shapes of register tiles: how many rows by how many vectors have all their sums in registers.

In: nothing. Out: families of shapes, each by the registers that there are. Templates print a function for each shape.

Figures are GFLOP/s of one thread in cache, f32, gcc 12.2, on an AMD EPYC of family 26 (Zen 5), where bare products
reach 250 with 16 lanes and 116 with 8; those of 4 lanes are vectors that gcc 12.2 spills in the unrolled loop.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

Shape = tuple[int, int]  # rows, vectors
AMX, SIXTEEN, EIGHT, FOUR = "OPWRIGHT_AMX", "VECTOR_BYTES == 64", "VECTOR_BYTES == 32", "VECTOR_BYTES == 16"
EVERY = "LANES"


@dataclass(frozen=True)
class Shapes:
    """The shapes of a family for some registers, a condition of C."""

    registers: str
    shapes: tuple[Shape, ...]

    @property
    def most(self) -> list[Shape]:
        """The maximum rows of each number of vectors, behind that number."""
        wide = sorted({vectors for _, vectors in self.shapes})
        return [(vectors, max(rows for rows, of in self.shapes if of == vectors)) for vectors in wide]

    @property
    def rows(self) -> int:
        return max(rows for rows, _ in self.shapes)


@dataclass(frozen=True)
class Family:
    """Tiles of one kind, for each kind of registers in the order in which these are asked for."""

    name: str
    sets: tuple[Shapes, ...]

    @property
    def rows(self) -> int:
        return max(some.rows for some in self.sets)

    @property
    def vectors(self) -> int:
        return max(vectors for some in self.sets for _, vectors in some.shapes)

    def without(self, registers: str) -> Family:
        """Those for all other registers."""
        return Family(self.name, tuple(some for some in self.sets if some.registers != registers))


def _family(name: str, sets: Mapping[str, Iterable[Shape]]) -> Family:
    return Family(name, tuple(Shapes(registers, tuple(shapes)) for registers, shapes in sets.items()))


def _up_to(most: Mapping[int, int]) -> list[Shape]:
    """All rows up to the maximum of each number of vectors."""
    return [(rows, vectors) for vectors, limit in most.items() for rows in range(1, limit + 1)]


def _of(rows_by_vectors: Mapping[int, Iterable[int]]) -> list[Shape]:
    return [(rows, vectors) for vectors, some in rows_by_vectors.items() for rows in some]


# y, x and products: scalars of each row against vectors, in runs of 192 elements.
#   16 lanes: 14x2 226-231, 7x2 223-228, 9x3 228, 6x4 226-231, 16x1 142-205. Rejected: 28x1 159-187 (every scalar costs
#             a load, and the addresses more registers than there are).
#   4 lanes:  16 sums are enough for the 8 that two FMA of 4 cycles have in flight; 0.63 loads per FMA with 8x2, 0.5
#             with 4x4. Rejected for spills: 12x2 9, 6x4 30, 14x2 51, 3x8 78.
DATA = _family(
    "tile",
    {
        AMX: _up_to({1: 32, 2: 32, 3: 16, 4: 16, 8: 16}),
        SIXTEEN: _up_to({1: 16, 2: 14, 3: 9, 4: 6, 8: 2}),
        EIGHT: _up_to({1: 12, 2: 6, 3: 4, 4: 2, 8: 1}),
        FOUR: _up_to({1: 12, 2: 8, 3: 5, 4: 4, 8: 2}),
    },
)
# The same of panels of products, whose scalars of a term lie side by side.
TURNED = _family("turned_tile", {SIXTEEN: _up_to({1: 16, 2: 14, 3: 9}), EIGHT: _up_to({1: 12, 2: 6})})
# Groups that share a vector.
PICKED = _family("picked_tile", {EVERY: _up_to({1: 12})})
# Sums over lanes: pixels by channels, of which a quarter of a vector has room.
SUMMED = _family(
    "sum_tile",
    {
        SIXTEEN: _of(dict.fromkeys((1, 2, 3, 4), (1, 4, 5))),
        EIGHT: _of(dict.fromkeys((1, 2), (1, 4, 5))),
        FOUR: _of({1: (1, 4)}),
    },
)
# Single steps in place of runs; the last tile recomputes some rows.
STEPS = _family(
    "step_tile",
    {
        EIGHT: _of({1: (4, 8), 2: (4, 6), 3: (4,), 4: (2,)}),
        EVERY: _of({1: (8, 12), 2: (8, 12), 3: (8,), 4: (4, 6)}),
    },
)

# w: neighbouring words of rows against vectors of lanes, over 192 pixels.
#   16 lanes: 14x2 228, 8x2 215, 8x3 226, 6x4 224, 28x1 216, 14x1 202, 4x2 179. Rejected: 9x3 147-167 (spilled once its
#             loop is unrolled; 216 where not), and rows unrolled four times, 28x1 208, 8x2 202 instead of 204 and 210.
#   8 lanes:  6x2 113, 3x3 102, 2x4 98, 12x1 91. Rejected: 4x3 44 (spills), 3x4 97.
_WEIGHTS = {
    AMX: _up_to({1: 16, 2: 16, 3: 16, 4: 16}),
    SIXTEEN: _of(
        {
            1: (*range(1, 11), 12, 14, 15, 16, 18, 20, 21, 24, 28),
            2: range(1, 15),
            3: range(1, 9),
            4: range(1, 7),
        }
    ),
    EIGHT: _of({1: (1, 2, 3, 4, 6, 8, 10, 12), 2: range(1, 7), 3: range(1, 4), 4: (1, 2)}),
    FOUR: _of({1: (1, 2, 3, 4, 6, 8), 2: (1, 2, 3, 4, 6, 8), 3: range(1, 5), 4: range(1, 5)}),
}
WEIGHTS = _family("words", _WEIGHTS)
# The rare block in which bf16 cannot be multiplied in pairs: padding beside Inf or NaN.
FEW = _family("floats", {EVERY: _of(dict.fromkeys((1, 2, 3, 4), (1,)))})
# The common shapes of up to 16 rows, for pixels far apart.
_FAR = {
    SIXTEEN: _of({4: (2, 3, 4, 5, 6), 2: (4, 5, 7, 8, 9, 10, 12)}),
    EVERY: _of({4: (1, 2), 2: (3, 4, 5, 6)}),
}
FAR = _family("far", _FAR)
# The same for halves that stay in the tensor, and for few rows.
HALVES = _family(
    "halves",
    {SIXTEEN: [*_FAR[SIXTEEN], (1, 4), (1, 2), (2, 2)], EVERY: [*_FAR[EVERY], (1, 2), (2, 2)]},
)
# Groups that share a vector: taps by channels of big.
MERGED = _family(
    "merged",
    {
        SIXTEEN: _of(
            {
                **dict.fromkeys((1, 2), (1, 2, 3, 5, 7)),
                **dict.fromkeys((3, 4), (1, 2, 3, 5)),
                **dict.fromkeys((5, 6, 7), (1, 2, 3)),
                8: (1, 2),
            }
        ),
        EIGHT: _of({1: (1, 2, 3, 5), 2: (1, 2, 3, 5), 3: (1, 2, 3), 4: (1, 2)}),
        FOUR: _of(dict.fromkeys((1, 2), (1, 2, 3))),
    },
)
# Windows of bytes: windows by vectors of columns. The scalar of a window takes a register of its own.
BYTE_WINDOWS = _family("byte_windows", {SIXTEEN: _up_to({1: 14, 2: 14}), EVERY: _up_to({1: 6, 2: 6})})

# Groups with one channel on either side, over channel lanes. y and x: taps of a row, and the step of pixels; 0 taps are
# any number, in a loop. Lines: two vectors of half as many pixels. Units of f16 and bf16 are for many taps. w: rows and
# columns of taps, widest first.
WALKS: tuple[Shape, ...] = ((1, 1), (2, 1), (3, 1), (5, 1), (7, 1), (3, 2), (5, 2), (0, 1))
LINE_WALKS: tuple[Shape, ...] = ((1, 1), (2, 1), (3, 1), (3, 2))
UNIT_WALKS: tuple[Shape, ...] = ((5, 1), (7, 1), (0, 1))
BLOCKS = ((3, 3), ("ROWS_OF_5", 5), ("ROWS_OF_7", 7), (1, 7), (1, 5), (1, 3), (1, 1))
UNIT_BLOCKS: tuple[Shape, ...] = ((1, 7), (1, 3), (1, 1))
# The same over width lanes. y and x: taps on a side, the step of rows, rows at once, vectors; with 16 registers the
# weights of 5x5 stay in memory. w: rows and columns of taps, the stride (0: any), rows at once.
STRIPS = ((3, 1, 4, "1"), (3, 2, 2, "1"), (5, 1, 4, "1 + (LANES == 8)"), (5, 2, 2, "1 + (LANES == 8)"), (7, 1, 4, "2"))
WIDTH_BLOCKS = (
    *((3, 3, stride, at_once) for stride, at_once in ((1, 4), (2, 2), (0, 1))),
    *(("ROWS_OF_5", 5, stride, at_once) for stride, at_once in ((1, 4), (2, 2), (0, 1))),
    *(("ROWS_OF_7", 7, stride, at_once) for stride, at_once in ((1, 4), (0, 1))),
    *((1, columns, 0, 1) for columns in (7, 5, 3, 1)),
)
