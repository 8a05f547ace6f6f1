"""Measured results and their targets.

Results are lines of JSON in one file: `{"machine": ...}` at the start of each run, `{"key": ...}` for each row. A row
measured again replaces the older one, the last machine stands for all, with what was measured of it on other threads.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median
from typing import Any

from . import own, products, steps
from .kinds import AnyRow
from .machine import ceiling
from .own import OwnRow
from .products import Product
from .rows import FEW, Row, every
from .steps import StepRow

COUNTED = 1e-3  # seconds that the other library must take for a row to count
HEAVY = 50e6  # FLOP of a row that counts for the share of the peak
WIDE = 32  # channels of a row that counts for the share of the peak


@dataclass
class Results:
    """The newest record of every row, and of the machine."""

    machine: dict[str, Any] = field(default_factory=dict)
    records: dict[str, dict[str, Any]] = field(default_factory=dict)

    def rows(self) -> Iterator[tuple[Row, dict[str, Any]]]:
        """The measured rows, in the table's order. Records of rows that the table no longer has are left out."""
        return ((row, self.records[row.key]) for row in every() if row.key in self.records)

    def products(self) -> Iterator[Product]:
        """The measured rows of matrix products."""
        return (row for row in products.every() if row.key in self.records)

    def steps(self) -> Iterator[StepRow]:
        """The measured rows of operations of steps."""
        return (row for row in steps.every() if row.key in self.records)

    def own(self) -> Iterator[OwnRow]:
        """The measured rows of the benchmark's own specs."""
        return (row for row in own.every() if row.key in self.records)

    def seconds(self, row: AnyRow, candidate: str) -> float | None:
        found: float | None = self.records.get(row.key, {}).get("candidates", {}).get(candidate, {}).get("seconds")
        return found

    def ratio(self, row: AnyRow, against: str) -> float | None:
        """How many times as fast as a candidate we are: the median over the rounds that both took part in.

        A machine that is slow for seconds is slow for both in a round: of 4.9, 5.1, 8.5, 8.6 and 8.9 ms beside oneDNN's
        4.7, 4.7, 4.8, 8.5 and 8.6 the medians alone would say 0.56, the rounds say 0.95.
        """
        ours, other = self.seconds(row, "ours"), self.seconds(row, against)
        if not ours or not other:
            return None
        rounds = [self.records[row.key]["candidates"][name].get("rounds", ()) for name in ("ours", against)]
        paired = len(rounds[0]) == len(rounds[1]) > 0  # false if one is far behind or died
        return median(theirs / mine for mine, theirs in zip(*rounds, strict=True)) if paired else other / ours


def read(path: Path) -> Results:
    """The results of a file, none if there is no file. A truncated last line is ignored."""
    found = Results()
    if not path.is_file():
        return found
    for line in path.read_text(encoding="utf-8").splitlines():
        try:
            record = json.loads(line)
        except json.JSONDecodeError:
            continue
        if "machine" in record:
            measured = {name: found.machine.get(name, {}) | record["machine"][name] for name in ("peaks", "call")}
            found.machine = record["machine"] | measured
        else:
            found.records[record["key"]] = record
    return found


def append(path: Path, record: dict[str, Any]) -> None:
    """Append a record on a line of its own, even after a truncated line."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "a+b") as file:
        if file.tell():
            file.seek(-1, 2)
            if file.read(1) != b"\n":
                file.write(b"\n")
        file.write(json.dumps(record, separators=(",", ":")).encode() + b"\n")


@dataclass(frozen=True)
class Target:
    """A line of the table of targets: the rows, the quantity and the value that it must reach."""

    name: str
    rows: Callable[[Row], bool]
    value: Callable[[Results, Row], float | None]
    mean: float
    minimum: float | None
    average: Callable[[Sequence[float]], float]


@dataclass(frozen=True)
class Reached:
    """The result of a target. `mean` and `minimum` are None if no row counts."""

    target: Target
    values: dict[Row, float]

    @property
    def mean(self) -> float | None:
        return self.target.average(list(self.values.values())) if self.values else None

    @property
    def minimum(self) -> tuple[float, Row] | None:
        return min(((value, row) for row, value in self.values.items()), key=lambda pair: pair[0], default=None)

    @property
    def short(self) -> list[tuple[float, Row]]:
        """The rows below the allowed minimum, the worst first."""
        if self.target.minimum is None:
            return []
        found = [(value, row) for row, value in self.values.items() if value < self.target.minimum]
        return sorted(found, key=lambda pair: pair[0])

    @property
    def reached(self) -> bool | None:
        if self.mean is None:
            return None
        return self.mean >= self.target.mean and not self.short


def geomean(values: Sequence[float]) -> float:
    return math.exp(sum(map(math.log, values)) / len(values))


def arithmetic(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def against_onednn(found: Results, row: Row) -> float | None:
    return found.ratio(row, "onednn") if _counts(found, row, "onednn") else None


def against_torch(found: Results, row: Row) -> float | None:
    """Whether a row counts: if oneDNN does not support it, PyTorch's time decides."""
    baseline = "onednn" if found.seconds(row, "onednn") else "torch"
    return found.ratio(row, "torch") if _counts(found, row, baseline) else None


def against_own_f32(found: Results, row: Row) -> float | None:
    """Whether a row counts: if oneDNN does not support it in f32 either, our own time decides."""
    wide = replace(row, dtype="f32")
    baseline = (wide, "onednn") if found.seconds(wide, "onednn") else (row, "ours_f32")
    return found.ratio(row, "ours_f32") if _counts(found, *baseline) else None


def share_of_peak(found: Results, row: Row) -> float | None:
    """The share of the measured peak of multiply-adds; None without such a peak, or if memory is the limit."""
    seconds, peaks = found.seconds(row, "ours"), found.machine.get("peaks", {}).get(str(row.threads))
    if not seconds or not peaks:
        return None
    minimum = row.geometry.flops / ceiling(peaks, row.dtype)
    return minimum / seconds if minimum >= row.bytes / peaks["read"] else None


def _counts(found: Results, row: Row, baseline: str) -> bool:
    seconds = found.seconds(row, baseline)
    return seconds is not None and seconds >= COUNTED


def _heavy(row: Row) -> bool:
    shape = row.geometry
    wide = shape.groups == 1 and min(shape.big, shape.small) >= WIDE
    return row.dtype == "f32" and wide and shape.flops > HEAVY


def _data(row: Row) -> bool:
    return row.solve != "weights"


def _ours(name: str, rows: Callable[[Row], bool], mean: float, minimum: float) -> Target:
    return Target(name, rows, against_onednn, mean, minimum, geomean)


TARGETS = (
    _ours("f32, y and x, NXC", lambda row: row.dtype == "f32" and _data(row) and row.layout == "NXC", 1.08, 0.90),
    _ours("f32, y and x, NCX", lambda row: row.dtype == "f32" and _data(row) and row.layout == "NCX", 1.30, 0.90),
    _ours("f32, w", lambda row: row.dtype == "f32" and not _data(row), 1.12, 0.90),
    _ours("bf16, y and x", lambda row: row.dtype == "bf16" and _data(row), 1.15, 0.90),
    _ours("bf16, w", lambda row: row.dtype == "bf16" and not _data(row), 1.10, 0.85),
    Target(
        "f16 against our own f32 on the same shape",
        lambda row: row.dtype == "f16",
        against_own_f32,
        0.90,
        0.75,
        geomean,
    ),
    _ours(
        "ConvTranspose to 1-3 channels, both layouts",
        lambda row: row.op == "ConvTranspose" and row.geometry.big <= FEW,
        2.0,
        1.2,
    ),
    _ours("depthwise, NCX", lambda row: row.geometry.depthwise and row.layout == "NCX", 2.5, 1.5),
    Target("against PyTorch, all rows", lambda row: True, against_torch, 1.5, 1.0, geomean),
    Target("share of the FMA peak, f32, dense, compute-bound", _heavy, share_of_peak, 0.88, None, arithmetic),
)


def reached(found: Results, threads: int) -> list[Reached]:
    """Every target with the result of the rows on `threads` threads."""
    rows = [row for row, _ in found.rows() if row.threads == threads]
    answers = []
    for target in TARGETS:
        values = {row: target.value(found, row) for row in rows if target.rows(row)}
        answers.append(Reached(target, {row: value for row, value in values.items() if value is not None}))
    return answers
