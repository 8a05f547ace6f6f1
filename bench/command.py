"""`opwright bench`: measures rows, stores the results and reports them.

In: options. Out: lines of JSON in the results folder, a page and a plot beside them or, with `report`, in `bench/`.
"""

from __future__ import annotations

import os
import tempfile
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from opwright.console import say, table
from opwright.errors import UsageError
from rich.console import Console

from . import case_row, machine, own, products, report, results, steps
from .candidate import CANDIDATES, Refused
from .disturbed import undisturbed
from .kinds import AnyRow
from .measure import References, entrants, measure
from .process import Processes, processes
from .rows import THREADS, Row, chosen, full
from .shapes import CELL

HERE = Path(__file__).parent
RESULTS = HERE / "results"


@dataclass(frozen=True)
class Options:
    """The arguments. `folder` has the results; `words` select rows by their keys."""

    folder: Path = RESULTS
    everything: bool = False
    words: tuple[str, ...] = ()
    candidates: tuple[str, ...] = tuple(CANDIDATES)
    threads: tuple[int, ...] = THREADS
    again: bool = False


def listed(options: Options, out: Console) -> None:
    """Print the keys of the rows that would be measured."""
    for row in _rows(options):
        say(out, row.key)


def written(options: Options, out: Console, folder: Path = HERE) -> None:
    """Write the pages and the plot from stored results: that of convolutions, and that of other operations."""
    found = results.read(options.folder / "rows.jsonl")
    if not found.records:
        raise UsageError(f"there are no results in {options.folder.name}; measure some first: opwright bench")
    folder.mkdir(parents=True, exist_ok=True)
    pages = {report.others_page(found): report.others(found)}
    if any(found.rows()):
        plot: str | None = report.PLOT
        try:
            report.draw(found, folder / report.PLOT)
            say(out, f"written: {folder.name}/{plot}")
        except ImportError:
            plot = None
            say(out, "no plot: matplotlib is not installed; pip install 'opwright[bench]'")
        pages[report.PAGE] = report.markdown(found, plot)
    for name, text in pages.items():
        if text:
            (folder / name).write_text(text, encoding="utf-8")
            say(out, f"written: {folder.name}/{name}")


def run(options: Options, out: Console) -> bool:
    """Measure the rows that have no result yet. Returns whether all of our results were correct."""
    _check(options)
    rows = _rows(options)
    if not rows:
        raise UsageError("no row's key holds all of these words; see: opwright bench --full --list")
    path = options.folder / "rows.jsonl"
    with processes() as workers:
        record = _machine(options, workers, out)
        kernels = record["versions"].get("kernels")
        known = results.read(path).records
        missing = [row for row in rows if options.again or not _known(row, known.get(row.key), kernels, options)]
        _announce(options, rows, missing, out)
        results.append(path, {"machine": record})
        with tempfile.TemporaryDirectory() as folder:
            references = References(workers, Path(folder), max(options.threads))
            for number, row in enumerate(missing, 1):
                found = {**measure(row, options.candidates, workers, references), "kernels": kernels}
                results.append(path, found)
                say(out, f"[{number}/{len(missing)}] {report.line(row, found)}")
    _conclude(path, options, out)
    written(options, out, options.folder)
    stored = results.read(path).records
    return not any("wrong" in stored[row.key]["candidates"].get("ours", {}) for row in rows)


def _rows(options: Options) -> list[AnyRow]:
    others: list[AnyRow] = [*products.every(), *steps.every(), *own.every()]
    return [
        *chosen(options.everything, options.words, options.threads),
        *case_row.chosen(others, options.words, options.threads),
    ]


def _check(options: Options) -> None:
    unknown = sorted(set(options.candidates) - CANDIDATES.keys())
    if unknown:
        raise UsageError(f"there is no candidate {unknown[0]!r}; there are {', '.join(CANDIDATES)}")
    cpus = len(os.sched_getaffinity(0))
    if min(options.threads) < 1 or max(options.threads) > cpus:
        raise UsageError(f"threads must be from 1 to {cpus}, the CPUs of this process; choose with --threads")


def _known(row: AnyRow, record: dict[str, Any] | None, kernels: str | None, options: Options) -> bool:
    if record is None or record["kernels"] != kernels:
        return False
    return entrants(row, options.candidates).keys() <= set(record["candidates"])


def _announce(
    options: Options,
    rows: list[AnyRow],
    missing: list[AnyRow],
    out: Console,
) -> None:
    total = len(full())
    if not options.everything and not options.words:
        say(out, f"a sample of {len(rows)} of {total} rows, about ten minutes; all of them, in hours: --full")
    if len(missing) < len(rows):
        say(out, f"{len(rows) - len(missing)} rows were measured before with these kernels; anew: --again")


def _machine(options: Options, workers: Processes, out: Console) -> dict[str, Any]:
    """The machine and the candidates today: descriptions, peaks, the cost of the smallest call."""
    versions: dict[str, str] = {}
    calls: dict[str, dict[str, float]] = {}
    for threads in options.threads:
        for name in options.candidates:
            worker = workers[name, threads]
            try:
                versions |= worker.ask("versions")
                modes = worker.ask("open", Row("Convolution", CELL.name, "f32", "NCX", threads))
            except Refused as refused:
                if name == "ours":
                    raise UsageError(str(refused)) from None
                say(out, f"{report.NAMES[name]}: {refused}")
                continue
            calls.setdefault(str(threads), {})[name] = min(_timed(worker, mode) for mode in modes)
    peaks = {str(threads): machine.peaks(threads) for threads in options.threads}
    for count, figures in peaks.items():
        text = ", ".join(f"{name} {figure / 1e9:.0f}" for name, figure in figures.items())
        say(out, f"peak on {count} threads, in GFLOP/s and GB/s: {text}")
    return {"described": machine.described(), "versions": versions, "peaks": peaks, "call": calls}


def _timed(worker: Any, mode: str) -> float:
    try:
        worker.ask("check", mode, None)  # PyTorch's first call starts its threads
        return float(median(undisturbed(lambda: worker.ask("time", mode, 0.02))))
    except Refused:
        return float("inf")


def _conclude(path: Path, options: Options, out: Console) -> None:
    found = results.read(path)
    for threads in options.threads if any(found.rows()) else ():
        title = f"targets, {threads} threads"
        say(out, f"{title}; a target means all rows, this is what was measured:")
        table(out, title, report.TARGET_COLUMNS, report.target_rows(found, threads))
