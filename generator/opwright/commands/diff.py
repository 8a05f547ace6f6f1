"""`opwright diff`: two sides in, a report and an exit code out. Writes only LOCK.yaml, and only on request."""

from __future__ import annotations

import argparse
import dataclasses
import datetime
import json
import sys
from pathlib import Path

from rich.console import Console

from ..calls import call_text
from ..console import console, say, table
from ..errors import UsageError, inert
from ..language.source import SpecInvalid, suggestion
from ..project import Project
from ..review.findings import review
from ..review.records import LOCK, lock_of
from ..review.refused import Refused
from ..review.report import FORMATS, REFUSALS, explained
from ..review.rules import RULES, SEVERITIES
from ..review.sides import Side, SideInvalid, driven, folder, sides
from ..review.values import measured
from ..review.waivers import locked
from ..review.witness import called, witnessed
from ..write import replace
from . import options as shared

EXAMPLE = "opwright diff git:main --format markdown   # exits 1 on findings, 3 on a bad spec, 5 on a wrong prediction"
OK, FINDINGS, INVALID, WRONG = 0, 1, 3, 6


def arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of the command."""
    parser.add_argument(
        "sides",
        nargs="*",
        metavar="SIDE",
        help="BASE and HEAD: each a folder, a file or git:REF (default: the merge base with main, the working tree);"
        " or the seven arguments that git gives to an external diff",
    )
    parser.add_argument("--format", choices=sorted(FORMATS), default="text", help="the format of the report")
    parser.add_argument(
        "--fail-on",
        choices=SEVERITIES[:3],
        default="error",
        help="exit with 1 from this severity on (default: error)",
    )
    parser.add_argument("--with-code", action="store_true", help="show the changed C, equal hunks once")
    parser.add_argument("--no-witness", action="store_true", help="do not search for calls on which the sides differ")
    parser.add_argument(
        "--no-run", action="store_true", help="build and run nothing: take outcomes of calls from the specs alone"
    )
    parser.add_argument(
        "--with-values",
        action="store_true",
        help="run the old and new versions of changed kernels and compare results",
    )
    parser.add_argument(
        "--call", metavar="CALL", help="only show the outcome of one call on each side; written as for `explain`"
    )
    parser.add_argument("--rules", action="store_true", help="list the rules")
    parser.add_argument("--explain", metavar="RULE", help="describe one rule")
    parser.add_argument("--update-lock", action="store_true", help="write new revisions to spec/LOCK.yaml")
    parser.add_argument("--spec", type=Path, help="the folder of spec files (default: spec/ of the project)")
    parser.add_argument("--templates", type=Path, help="the folder of templates (default: those of the project)")


def run(options: argparse.Namespace) -> int:
    return diff(shared.project(options), options, console())


def diff(project: Project, options: argparse.Namespace, out: Console) -> int:
    """Run the command; its exit code."""
    if options.explain is not None:
        if options.explain not in RULES:
            raise UsageError(f"there is no rule {options.explain!r}{suggestion(options.explain, RULES)}")
        sys.stdout.write(explained(RULES[options.explain]))
        return OK
    if options.rules:
        columns = ("rule", "severity", "contract", "kernels", "record")
        table(out, "", columns, [(r.id, r.severity(), r.contract, r.kernel, r.record) for r in RULES.values()])
        return OK
    if options.update_lock:
        return _lock(project, out)
    return _driven(project, options) if driven(options.sides) else _compared(project, options)


def _driven(project: Project, options: argparse.Namespace) -> int:
    """Run as git's external diff: always 0, because git takes any other code for a crash of the driver."""
    try:
        if len(options.sides) == 1:
            raise UsageError(f"{options.sides[0]} is not merged")
        _compared(project, options)
    except (UsageError, SpecInvalid) as error:
        print(f"opwright diff: {error}", file=sys.stderr)
    return OK


def _compared(project: Project, options: argparse.Namespace) -> int:
    """Print the review of two sides; its exit code."""
    names = ("", "")
    try:
        base, head = sides(project, options.sides, options.spec is not None)
        names = base.name, head.name
        if options.call:
            return _call(project, base, head, options)
        found = review(project, base, head, datetime.date.today())
        if options.with_values:
            found = measured(project, found, lambda line: print(line, file=sys.stderr, flush=True))
        if not options.no_witness:
            found = witnessed(project, found, run=not options.no_run)
    except SideInvalid as invalid:
        refused = Refused(invalid.side, invalid.problems, *names)
        sys.stderr.write(REFUSALS["text"](refused))
        if options.format != "text":
            sys.stdout.write(REFUSALS[options.format](refused))
        return INVALID
    found = dataclasses.replace(found, threshold=options.fail_on)
    sys.stdout.write(FORMATS[options.format](found, options.with_code))
    return found.exit_code


def _call(project: Project, base: Side, head: Side, options: argparse.Namespace) -> int:
    """Run one call on both sides; 1 if the outcomes differ."""
    result = called(project, base, head, call_text.parse(options.call))
    json_text = json.dumps(result.as_json(), indent=2)
    sys.stdout.write((json_text if options.format == "json" else "\n".join(map(inert, result.lines()))) + "\n")
    return WRONG if result.wrong else OK if result.same else FINDINGS


def _lock(project: Project, out: Console) -> int:
    """Add the revisions of the working tree to LOCK.yaml; existing entries stay."""
    side = folder(project.spec, project.root)
    path = project.records / LOCK
    name = path.relative_to(project.root).as_posix()
    text = locked(side.library(), lock_of(side))
    if side.records.get(LOCK) != text:
        replace(path, text.encode("utf-8"))
    say(out, f"{name}: {text.count('@')} revisions")
    return OK
