"""Times one row: every way of every candidate checked first, the best of each then timed in turns.

In: a row and running workers. Out: what is written into the results, as plain values.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any

from .candidate import Refused
from .disturbed import undisturbed
from .process import LIMIT, Died, Process, Processes
from .products import Product
from .rows import Row
from .steps import StepRow

ROUNDS = 5
ENOUGH = 3  # rounds, where those of each candidate lie so close together:
CLOSE = 1.04
MAX_ROUNDS = 9  # rounds, where those of one lie so far apart: the machine was slow for some seconds
APART = 1.3
BUDGET = 0.02  # seconds of each candidate in each round
SETTLE = 0.01  # seconds in which the threads of the one who was timed last stop spinning
SLOW = 0.5  # a first call of so many seconds is the only one
PICKING = 0.02  # seconds of each way, to find the best
# So many times the best is far behind: such a way is not called again if its first call was longer than a round,
# such a candidate takes no part in the rounds.
FAR = 4.0
NEAR = 1.15  # ways that lie so close to the best go to the rounds, two at the most
REFERENCE_LIMIT = 120.0
BUILD_LIMIT = 300.0  # for our kernels, where the cache lacks them


@dataclass
class References:
    """The exact results, in a file of `folder`: that of the last relation asked for is kept, neighbours share it."""

    workers: Processes
    folder: Path
    threads: int
    last: tuple[str, str] | None = None
    found: str | None = None

    def path(self, row: Row | Product | StepRow) -> str | None:
        """The file with the exact result of a row, or None where there is nobody to ask."""
        if (row.shape, row.solve) != self.last:
            self.last, self.found = (row.shape, row.solve), None
            asked = row.exact()
            path = str(self.folder / "reference.npy")
            worker = self.workers["reference", self.threads]
            with suppress(Refused):
                ways = worker.ask("open", asked)
                worker.ask("write", ways[0], path, limit=REFERENCE_LIMIT)
                worker.ask("close")
                self.found = path
        return self.found


def entrants(row: Row | Product | StepRow, candidates: Sequence[str]) -> dict[str, Row | Product | StepRow]:
    """Who takes turns in a row, and the row as each gets it.

    Beside our own f16 stands our own f32, beside our steps a copy of as many bytes as they read and write.
    """
    found = dict.fromkeys(candidates, row)
    if isinstance(row, StepRow):
        return {**found, "copy": row} if "ours" in found else found
    return {**found, "ours_f32": replace(row, dtype="f32")} if row.dtype == "f16" and "ours" in found else found


def measure(
    row: Row | Product | StepRow, candidates: Sequence[str], workers: Processes, references: References
) -> dict[str, Any]:
    """The record of a row: for each candidate its seconds, its way, or why there are none."""
    reference = references.path(row)
    rows = entrants(row, candidates)
    found = {name: _tried(given, workers, name, None if name == "copy" else reference) for name, given in rows.items()}
    _race(rows, workers, found)
    for name in rows:
        with suppress(Refused):
            workers[name, row.threads].ask("close")
    return {"key": row.key, "checked": reference is not None, "candidates": found}


def _tried(row: Row | Product | StepRow, workers: Processes, name: str, reference: str | None) -> dict[str, Any]:
    """Every way prepared, called once and checked: `ways` holds the seconds of that call, or why there is none."""
    worker = workers[name, row.threads]
    ways: dict[str, Any] = {}
    how: dict[str, str] = {}
    try:
        waiting = worker.ask("open", row)
    except Refused as refused:
        return {"refused": str(refused)}
    for way in waiting:
        try:
            how[way] = worker.ask("describe", way, limit=BUILD_LIMIT)
            if _good(ways) and _is_reference_code(how[way]):
                ways[way] = f"not called: {how[way]}"
                continue
            first, cells = worker.ask("check", way, reference)
            near = max(BUDGET, FAR * min(_good(ways).values(), default=first))
            if first < min(SLOW, near) and not cells:  # the first call of all pays for pages and caches
                first = min(first, *worker.ask("time", way, PICKING)[0])
            ways[way] = f"wrong in {cells} cells" if cells else first
        except Refused as refused:
            ways[way] = str(refused)
            if isinstance(refused, Died):
                try:
                    worker.ask("open", row)
                except Refused:
                    break
    good = _good(ways)
    answer: dict[str, Any] = {"ways": ways}
    if good:
        way = min(good, key=lambda way: good[way])
        return {**answer, "way": way, "how": how[way], "seconds": good[way]}
    wrong = [said for said in ways.values() if said.startswith("wrong")]
    return {**answer, "wrong": wrong[0]} if wrong else {**answer, "refused": next(iter(ways.values()), "no way")}


def _good(ways: dict[str, Any]) -> dict[str, float]:
    """The ways that computed the right thing, and their seconds."""
    return {way: seconds for way, seconds in ways.items() if isinstance(seconds, float)}


def _is_reference_code(how: str) -> bool:
    """Whether oneDNN names one of its plain loops, which take minutes where another way takes milliseconds."""
    return any(part.split(":")[0] == "ref" for part in how.split("+"))


def _race(rows: dict[str, Row | Product | StepRow], workers: Processes, found: dict[str, dict[str, Any]]) -> None:
    """Rounds in which the candidates take turns until they agree, each beginning with another; medians go into `found`.

    Who is far behind the best takes no part: what was found first says so well enough, and rounds of it are most of
    the time that a run takes.
    """
    racing = []
    enough = min(SLOW, FAR * min((record["seconds"] for record in found.values() if "seconds" in record), default=0))
    for name, record in found.items():
        if record.get("seconds", LIMIT) < enough:
            good = _good(record["ways"])
            near = sorted((way for way in good if good[way] <= NEAR * record["seconds"]), key=lambda way: good[way])
            racing += [(name, way) for way in near[:2]]
    medians: dict[tuple[str, str], list[float]] = {entry: [] for entry in racing}
    for number in range(MAX_ROUNDS):
        agreed = CLOSE if number < ROUNDS else APART
        if number >= ENOUGH and all(times and max(times) <= agreed * min(times) for times in medians.values()):
            break
        for entry in racing[number % len(racing) :] + racing[: number % len(racing)] if racing else ():
            name, way = entry
            worker = workers[name, rows[name].threads]
            try:
                medians[entry].append(_round(worker, way))
            except Refused:  # it died in a round: what it did before stands
                worker.ask("open", rows[name])
    for (name, way), rounds in medians.items():
        record = found[name]
        if rounds and ("rounds" not in record or median(rounds) < record["seconds"]):
            record.update(seconds=median(rounds), rounds=rounds, way=way)


def _round(worker: Process, way: str) -> float:
    """The median of a round of calls, in seconds."""
    time.sleep(SETTLE)
    return float(median(undisturbed(lambda: worker.ask("time", way, BUDGET))))
