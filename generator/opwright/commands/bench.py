"""`opwright bench`: the benchmark of a checkout's folder `bench/`, with its options.

The work is done there: like the tests, it calls the peers, and neither is part of a wheel.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from rich.console import Console

from ..console import console
from ..errors import UsageError
from ..project import checkout

EXAMPLE = "opwright bench --filter hifigan --filter f32 --threads 2   # without options: a sample of about ten minutes"
OK, FAILED = 0, 1


def arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    parser.add_argument("--full", action="store_true", help="all rows instead of a sample; resumes where it stopped")
    parser.add_argument(
        "--filter",
        action="append",
        default=[],
        metavar="WORD",
        help="only rows whose key contains WORD, of all rows",
    )
    parser.add_argument(
        "--candidates", type=_words, metavar="LIST", help="of ours,onednn,torch (default: all that are installed)"
    )
    parser.add_argument("--threads", type=_numbers, metavar="LIST", help="thread counts, such as 1,2 (default: both)")
    parser.add_argument("--again", action="store_true", help="measure again what was measured before")
    parser.add_argument("--results", type=Path, metavar="FOLDER", help="the folder of results (default: bench/results)")
    instead = parser.add_mutually_exclusive_group()
    instead.add_argument("--list", action="store_true", help="print the keys of the rows, measure nothing")
    instead.add_argument(
        "--report", action="store_true", help="write bench/RESULTS.md and its plot from results, measure nothing"
    )


def run(options: argparse.Namespace) -> int:
    return OK if bench(options, console()) else FAILED


def bench(options: argparse.Namespace, out: Console) -> bool:
    """Whether it succeeded and all results of our kernels were right."""
    root = checkout()
    if root is None or not (root / "bench").is_dir():
        raise UsageError("the benchmark is part of a checkout, not of an installed package")
    sys.path[:0] = [str(root), str(root / "tests")]
    from bench import command

    given = {
        "folder": options.results and options.results.resolve(),
        "everything": options.full,
        "words": tuple(options.filter),
        "candidates": options.candidates,
        "threads": options.threads,
        "again": options.again,
    }
    asked = command.Options(**{name: value for name, value in given.items() if value})
    if options.list:
        command.listed(asked, out)
    elif options.report:
        command.written(asked, out)
    else:
        return command.run(asked, out)
    return True


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split(","))


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(","))
