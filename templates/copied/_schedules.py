"""Schedules of the kernels of steps, as tables: along which letter the lanes of a phase go, which phases go by blocks.

In: the letters that a phase's lanes may go along, and how a call's arrays lie in memory along each; or what consecutive
phases leave for each other. Out: a letter, or a number of blocks, and the row of the table that chose it. A row's
`holds` looks at roles, extents, distances and bytes and at nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

ENOUGH = 16  # cells that fill vectors
# Rows for which it pays to turn others, and most cells of each: with 4 rows, or 512 cells, 'row' takes 0.9 of the time
# (4096 x 64; 256 x 1024 x 512; AMD Zen 4, gcc 12.2, f32).
SERVED, KEPT = 8, 256
FARTHER = 8  # distances of cells


@dataclass(frozen=True)
class Lanes:
    """A letter that lanes may go along: whether tasks have it for themselves, and the axes of tensors that it walks."""

    letter: str
    own: bool
    walks: tuple[tuple[str, str], ...]
    moves: bool = False  # whether the phase does nothing but copy the second of the tensors to the first
    # of several steps, how many letters those have that walk it: the more, the more work is done in lanes
    terms: int = 0
    apart: bool = False  # whether its neighbours lie apart in sums of an engine
    serves: tuple[str, ...] = ()  # where cells are kept for several tasks, the letters of these
    kept: tuple[str, ...] = ()  # and those that the kept cells have besides
    turns: tuple[tuple[str, str], ...] = ()  # axes of tensors along which rows are turned for several tasks at once
    joins: bool = False  # whether rows are of all axes of the letter where these lie as one in all tensors
    views: int = 0  # where neighbours lie less than so many cells apart, it serves; 0: wherever they do
    follows: tuple[tuple[str, str], ...] = ()  # axes of tensors along which rows of the letter may follow one another
    copies: bool = False  # whether the phase only copies rows along it, those of several tasks together
    least: int = 2  # cells of rows that follow one another
    beside: tuple[tuple[str, str], ...] = ()  # axes of tensors whose rows are one with those of the letter


@dataclass(frozen=True)
class Candidate:
    """A letter in a call: how many cells it has, and how far its neighbours lie apart in each tensor that it walks."""

    lanes: Lanes
    extent: int
    steps: tuple[int, ...]
    crossed: bool = False  # of a copy, whether neighbours lie along different axes of the two tensors
    served: int = 0  # how many tasks use what is kept; 0 where nothing is
    kept: int = 0  # cells that are kept for each lane
    turned: bool = False  # whether rows that lie apart are turned, and what is written lies together
    apart: int = 0  # how far neighbours lie apart at the most
    follows: bool = False  # whether rows of the letter follow one another in all tensors, and many are one
    beside: bool = True  # whether rows that are one in the letter's form of the phase follow one another
    nearest: bool = False  # whether those of all other letters that fill vectors lie FARTHER times as far apart

    @property
    def near(self) -> bool:
        """Whether neighbours are neighbours in memory, or one cell for all, wherever they stand."""
        return not self.lanes.apart and all(step in (0, 1) for step in self.steps)

    @property
    def serves(self) -> bool:
        """Whether lanes may go along it in this call."""
        close = not self.lanes.apart and all(0 <= step < self.lanes.views for step in self.steps)
        return self.beside and (not self.lanes.views or (close and self.extent >= ENOUGH))


@dataclass(frozen=True)
class Phases:
    """Consecutive phases with tasks in common: how many, of all and of one product; bytes that each task leaves between

    them; bytes that products pack for the tasks of one.
    """

    tasks: int
    rows: int
    each: int
    packed: int

    @property
    def block(self) -> int:
        """Tasks of a block: what they leave fits a second-level cache; fewer do not pay for reading what is packed."""
        return max(min(BLOCK_BYTES // max(self.each, 1), -(-self.tasks // FEWEST_BLOCKS)), FEWEST_ROWS)


@dataclass(frozen=True)
class Schedule:
    """A row: for which letters, or phases, it holds, what kernels do then, and the figure that chose it."""

    name: str
    when: str
    then: str
    holds: Callable[[Any], bool]
    figure: str


# The first row that holds for a letter of the phase is taken; of several letters that which most steps walk, then the
# longest. Letters with less than a third of the work of another are left out: of the gradient of a max pool of 16 x 128
# x 28 x 28, 2 x 2 by 2, lanes that only begin its cells take 3.4 times as long as channels that lie apart (Sapphire
# Rapids, gcc 12.2, f32).
# Figures: one thread of an AMD Zen 5 with AVX-512, gcc 12.2, f32, time of what the row is chosen over to its own.
SCHEDULES = (
    Schedule(
        "turned",
        "a reduction over pairs of rows, 16 or more on one side, 8 or more on the other, of up to 256 cells",
        "blocks of 512 rows are turned, so that lanes are rows; they are kept for all rows of the other side",
        lambda c: c.served >= SERVED and c.extent >= ENOUGH and c.kept <= KEPT,
        "squared distances of 1024 x 1024 rows of 64 on AMD EPYC Zen 4, chosen over 'row': 3.7; 512 x 512 of 128: 2.0",
    ),
    Schedule(
        "tiles",
        "a copy whose neighbours lie along different axes of the two tensors, both of 16 cells or more",
        "squares of 16 x 16 cells are turned, so that both tensors are gone through a line at a time",
        lambda c: c.crossed,
        "transpose of 1024 x 1024 on AMD EPYC Zen 4, chosen over 'block through room', other work beside it: 7",
    ),
    Schedule(
        "block",
        "tasks have the letter for themselves, neighbours lie together, 16 or more",
        "tasks have blocks of up to 4096 lanes; reduced letters are loops around them",
        lambda c: c.lanes.own and c.near and c.extent >= ENOUGH,
        "none measured: it reads memory in order, which the other rows do not",
    ),
    Schedule(
        "short rows",
        "as 'block', of fewer cells, whose rows follow one another beside a cell of each, or a row that serves all",
        "many rows are one; cells and that row are repeated in a buffer",
        lambda c: c.follows and c.lanes.least <= c.extent < ENOUGH,
        "100000 x 10 by a row on AMD EPYC Zen 3, AVX2, chosen over 'block through room': 5; by a cell of each row: 4",
    ),
    Schedule(
        "copied rows",
        "as 'block', of fewer cells, which are only copied",
        "rows of many tasks are copied by one call, those of 16 bytes or less 16 bytes at a time",
        lambda c: c.lanes.copies and c.near and 1 < c.extent < ENOUGH,
        "480 x 641 x 3 cells, the second axis backwards, on AMD EPYC Zen 4, over 'near block through room': 3.6; u8 16",
    ),
    Schedule(
        "turned rows",
        "as 'block', but of some tensors neighbours lie apart and those of tasks together",
        "blocks of up to 64 lanes; rows of 16 tasks are turned at once, in squares of 16 x 16 cells",
        lambda c: c.lanes.own and c.turned and c.extent >= ENOUGH,
        "32 x 80 x 300 cells by 32 x 80, turned to 300 x 80 x 32, chosen over 'block through room': 23; a transpose of "
        "1000 x 700: 3.3, bf16 5.4",
    ),
    Schedule(
        "row",
        "the letter is reduced or of a row, neighbours lie together, 16 or more",
        "a task has whole rows, or pieces of long ones; what is reduced adds up in 32 lanes, put together in one order",
        lambda c: not c.lanes.own and c.near and c.extent >= ENOUGH,
        "softmax over the last axis of 1024 x 1024, cell by cell without vectors: 39",
    ),
    Schedule(
        "near row through room",
        "the letter is reduced or of a row, 16 or more cells, those of all other letters lie 8 times as far apart",
        "as 'row', in rows of up to 512 that are copied first",
        lambda c: not c.lanes.own and c.nearest and c.extent >= ENOUGH,
        "traces of 1000 matrices of 64 x 64, chosen over 'block through room': 3.3; bf16 2.7",
    ),
    Schedule(
        "near block through room",
        "tasks have the letter for themselves, 16 or more cells, those of all other letters lie 8 times as far apart",
        "as 'block', in blocks of up to 512; rows whose cells lie apart are copied first",
        lambda c: c.lanes.own and c.nearest and c.extent >= ENOUGH,
        "4 x 224 x 224 x 3 cells, the third axis backwards, chosen over 'block through room': 3.3; bf16 6.2",
    ),
    Schedule(
        "block through room",
        "tasks have the letter for themselves, it has 16 cells or more",
        "as 'block', in blocks of up to 512; rows whose cells lie apart are copied first",
        lambda c: c.lanes.own and c.extent >= ENOUGH,
        "none measured: it copies rows so that vectors are full",
    ),
    Schedule(
        "row through room",
        "the letter has 16 cells or more",
        "as 'row', in rows of up to 512 that are copied first",
        lambda c: c.extent >= ENOUGH,
        "none: what is left where no letter lies together",
    ),
    Schedule(
        "rest",
        "always",
        "as the others, with vectors that are filled in part",
        lambda c: True,
        "none: what is left",
    ),
)


def nearest(candidates: Sequence[Candidate]) -> list[Candidate]:
    """The same letters, each told whether its neighbours lie nearest, but for letters that fill no vector."""
    full = [one for one in candidates if one.serves and one.extent >= ENOUGH]
    others = [[two for two in full if two is not one] for one in candidates]
    alone = [
        bool(rest) and all(FARTHER * one.apart <= two.apart for two in rest) for one, rest in zip(candidates, others)
    ]
    return [replace(one, nearest=is_) for one, is_ in zip(candidates, alone)]


def chosen(candidates: Sequence[Candidate]) -> tuple[int, Schedule | None]:
    """The number of the letter to take, and the row that says so; none where a phase has no letters."""
    most = max((candidate.lanes.terms for candidate in candidates if candidate.serves), default=0)
    for row in SCHEDULES if candidates else ():
        fitting = [n for n, c in enumerate(candidates) if c.serves and 3 * c.lanes.terms >= most and row.holds(c)]
        if fitting:
            # A letter that walks no axis of a tensor is near by default, as t in rows of `x[t - 1, d]` between steps.
            by = [(one.lanes.terms, bool(one.steps), one.extent) for one in candidates]
            return max(fitting, key=by.__getitem__), row
    return 0, None


BLOCK_BYTES = 512 << 10  # that the tasks of a block leave for each other
WHOLE_BYTES = 1 << 20  # of all tasks, which a cache holds
FEWEST_BLOCKS, FEWEST_ROWS = 8, 16
AGAIN = 8  # bytes that are packed, and read again for each block, to those of a block

BLOCKS = (
    Schedule(
        "blocks",
        "phases leave more than 1 MiB for each other; each block of their tasks reads at most 8 times as much again",
        "each worker takes a block of tasks of 512 KiB, 16 or more, through all phases; products pack once",
        lambda p: p.each * p.tasks > WHOLE_BYTES and p.packed <= AGAIN * p.block * p.each,
        "attention of 16 x 1024 x 64, chosen over 'one by one': 1.5, with two threads 2.4; bf16 1.6 and 2.1; of 8 x "
        "4096 x 64, two threads: 1.7, bf16 1.8",
    ),
    Schedule(
        "one by one",
        "always",
        "each phase goes through all of its tasks before the next one begins",
        lambda p: True,
        "none: what is left",
    ),
)


def in_blocks(phases: Phases) -> tuple[int, Schedule]:
    """The number of blocks of consecutive phases, 0 where they run one by one, and the row that says so.

    Blocks begin where products do, if these have the rows of several.
    """
    row = next(row for row in BLOCKS if row.holds(phases))
    if row is not BLOCKS[0]:
        return 0, row
    if phases.rows <= phases.block:
        return -(-phases.tasks // phases.block), row
    return phases.tasks // phases.rows * -(-phases.rows // phases.block), row
