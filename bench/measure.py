"""Times one row: checks every mode of every candidate, then times the best mode of each in turns.

In: a row and running workers. Out: the record for the results, as plain values.
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
from .kinds import AnyRow
from .process import LIMIT, Died, Process, Processes
from .steps import StepRow

ROUNDS = 5
ENOUGH = 3  # rounds, if those of each candidate differ by at most this factor:
CLOSE = 1.04
MAX_ROUNDS = 9  # rounds, if those of a candidate differ by more than this factor: the machine was slow for seconds
SPREAD = 1.3
BUDGET = 0.02  # seconds of each candidate in each round
SETTLE = 0.01  # seconds until the threads of the previous candidate stop spinning
SLOW = 0.5  # seconds of a first call from which on it is the only one
PICKING = 0.02  # seconds of each mode, to find the best
# So many times the best is far behind: such a mode is not called again if its first call was longer than a round,
# such a candidate takes no part in the rounds.
FAR = 4.0
NEAR = 1.15  # modes within this factor of the best take part in the rounds, at most two
REFERENCE_LIMIT = 120.0
BUILD_LIMIT = 300.0  # seconds to build our kernels if the cache lacks them


@dataclass
class References:
    """The exact results, in a file of `folder`. The last one is stored, because neighbouring rows share it."""

    workers: Processes
    folder: Path
    threads: int
    last: tuple[str, str] | None = None
    found: str | None = None

    def path(self, row: AnyRow) -> str | None:
        """The file with the exact result of a row; None if no witness is installed."""
        if (row.shape, row.solve) != self.last:
            self.last, self.found = (row.shape, row.solve), None
            asked = row.exact()
            path = str(self.folder / "reference.npy")
            worker = self.workers["reference", self.threads]
            with suppress(Refused):
                modes = worker.ask("open", asked)
                worker.ask("write", modes[0], path, limit=REFERENCE_LIMIT)
                worker.ask("close")
                self.found = path
        return self.found


def entrants(row: AnyRow, candidates: Sequence[str]) -> dict[str, AnyRow]:
    """The candidates that take turns in a row, and the row that each of them gets.

    Beside our own f16 stands our own f32, beside our steps a copy of as many bytes as they read and write.
    """
    found = dict.fromkeys(candidates, row)
    if isinstance(row, StepRow):
        return {**found, "copy": row} if "ours" in found else found
    return {**found, "ours_f32": replace(row, dtype="f32")} if row.dtype == "f16" and "ours" in found else found


def measure(row: AnyRow, candidates: Sequence[str], workers: Processes, references: References) -> dict[str, Any]:
    """The record of a row: for each candidate its seconds and mode, or the reason that there are none."""
    reference = references.path(row)
    rows = entrants(row, candidates)
    found = {name: _tried(given, workers, name, None if name == "copy" else reference) for name, given in rows.items()}
    _race(rows, workers, found)
    for name in rows:
        with suppress(Refused):
            workers[name, row.threads].ask("close")
    return {"key": row.key, "checked": reference is not None, "candidates": found}


def _tried(row: AnyRow, workers: Processes, name: str, reference: str | None) -> dict[str, Any]:
    """Prepares, calls and checks every mode: `modes` has the seconds of that call or the reason that there are none."""
    worker = workers[name, row.threads]
    modes: dict[str, Any] = {}
    how: dict[str, str] = {}
    try:
        waiting = worker.ask("open", row)
    except Refused as refused:
        return {"refused": str(refused)}
    for mode in waiting:
        try:
            how[mode] = worker.ask("describe", mode, limit=BUILD_LIMIT)
            if _good(modes) and _is_reference_code(how[mode]):
                modes[mode] = f"not called: {how[mode]}"
                continue
            first, cells = worker.ask("check", mode, reference)
            near = max(BUDGET, FAR * min(_good(modes).values(), default=first))
            if first < min(SLOW, near) and not cells:  # the first call also fills pages and caches
                first = min(first, *worker.ask("time", mode, PICKING)[0])
            modes[mode] = f"wrong in {cells} cells" if cells else first
        except Refused as refused:
            modes[mode] = str(refused)
            if isinstance(refused, Died):
                try:
                    worker.ask("open", row)
                except Refused:
                    break
    good = _good(modes)
    answer: dict[str, Any] = {"modes": modes}
    if good:
        mode = min(good, key=lambda mode: good[mode])
        return {**answer, "mode": mode, "how": how[mode], "seconds": good[mode]}
    wrong = [result for result in modes.values() if result.startswith("wrong")]
    return {**answer, "wrong": wrong[0]} if wrong else {**answer, "refused": next(iter(modes.values()), "no mode")}


def _good(modes: dict[str, Any]) -> dict[str, float]:
    """The modes with a correct result, and their seconds."""
    return {mode: seconds for mode, seconds in modes.items() if isinstance(seconds, float)}


def _is_reference_code(how: str) -> bool:
    """Whether oneDNN names its reference loops, which take minutes where another mode takes milliseconds."""
    return any(part.split(":")[0] == "ref" for part in how.split("+"))


def _race(rows: dict[str, AnyRow], workers: Processes, found: dict[str, dict[str, Any]]) -> None:
    """Runs rounds until they agree. Candidates take turns, a different one first in each round; medians go to `found`.

    A candidate far behind the best takes no part: its first time is exact enough, and its rounds would take most of
    the time of a run.
    """
    racing = []
    enough = min(SLOW, FAR * min((record["seconds"] for record in found.values() if "seconds" in record), default=0))
    for name, record in found.items():
        if record.get("seconds", LIMIT) < enough:
            good = _good(record["modes"])
            near = sorted((mode for mode in good if good[mode] <= NEAR * record["seconds"]), key=good.__getitem__)
            racing += [(name, mode) for mode in near[:2]]
    medians: dict[tuple[str, str], list[float]] = {entry: [] for entry in racing}
    for number in range(MAX_ROUNDS):
        agreed = CLOSE if number < ROUNDS else SPREAD
        if number >= ENOUGH and all(times and max(times) <= agreed * min(times) for times in medians.values()):
            break
        for entry in racing[number % len(racing) :] + racing[: number % len(racing)] if racing else ():
            name, mode = entry
            worker = workers[name, rows[name].threads]
            try:
                medians[entry].append(_round(worker, mode))
            except Refused:  # it died in a round: its earlier rounds count
                worker.ask("open", rows[name])
    for (name, mode), rounds in medians.items():
        record = found[name]
        if rounds and ("rounds" not in record or median(rounds) < record["seconds"]):
            record.update(seconds=median(rounds), rounds=rounds, mode=mode)


def _round(worker: Process, mode: str) -> float:
    """The median of a round of calls, in seconds."""
    time.sleep(SETTLE)
    return float(median(undisturbed(lambda: worker.ask("time", mode, BUDGET))))
