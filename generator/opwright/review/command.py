"""`opwright diff`: sides in, a report and an exit code out. Nothing is written but LOCK.yaml, and that on request."""

from __future__ import annotations

import argparse
import dataclasses
import datetime
import json
import sys

from rich.console import Console

from ..calls import call_text
from ..console import say, table
from ..errors import UsageError
from ..language.source import inert, suggestion
from ..project import Project
from ..write import replace
from .findings import review
from .refused import Refused
from .report import FORMATS, REFUSALS, explained
from .rules import RULES, SEVERITIES
from .sides import Side, SideInvalid, folder, sides
from .values import measured
from .waivers import locked, read_lock
from .witness import called, witnessed

OK, FINDINGS, INVALID = 0, 1, 3
LOCK = "LOCK.yaml"


def arguments(parser: argparse.ArgumentParser) -> None:
    """What the command takes."""
    parser.add_argument(
        "sides",
        nargs="*",
        metavar="SIDE",
        help="BASE and HEAD: each a folder, a file or git:REF (default: the merge base with main, the working tree);"
        " or the seven arguments that git gives to an external diff",
    )
    parser.add_argument("--format", choices=sorted(FORMATS), default="text", help="the form of the report")
    parser.add_argument(
        "--fail-on", choices=SEVERITIES[:3], default="error", help="exit with 1 from this severity on (default: error)"
    )
    parser.add_argument("--with-code", action="store_true", help="show the C that changes, the same hunks once")
    parser.add_argument("--no-witness", action="store_true", help="search no calls on which the sides differ")
    parser.add_argument(
        "--no-run", action="store_true", help="build and run nothing: tell what the specs make of such a call"
    )
    parser.add_argument(
        "--with-values", action="store_true", help="run the old and the new kernels whose code changes, and compare"
    )
    parser.add_argument(
        "--call", metavar="CALL", help="tell what either side does with one call, written as for `explain`, and no more"
    )
    parser.add_argument("--rules", action="store_true", help="list the rules")
    parser.add_argument("--explain", metavar="RULE", help="tell all about one rule")
    parser.add_argument("--update-lock", action="store_true", help="write new revisions into spec/LOCK.yaml")


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
    names = ("", "")
    try:
        base, head = sides(project, options.sides)
        names = base.name, head.name
        if options.call:
            return _call(project, base, head, options)
        found = review(project, base, head, datetime.date.today())
        if options.with_values:
            found = measured(project, found)
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
    """Run one call on both sides; 1 where they do not do the same."""
    told = called(project, base, head, call_text.parse(options.call))
    json_text = json.dumps(told.as_json(), indent=2)
    sys.stdout.write((json_text if options.format == "json" else "\n".join(map(inert, told.lines()))) + "\n")
    return OK if told.same else FINDINGS


def _lock(project: Project, out: Console) -> int:
    """Add the revisions of the working tree to LOCK.yaml; what stands there stays."""
    side = folder(project.spec, project.root)
    path = project.records / LOCK
    name = path.relative_to(project.root).as_posix()
    text = locked(side.library(), read_lock(side.records.get(LOCK), name))
    if side.records.get(LOCK) != text:
        replace(path, text.encode("utf-8"))
    say(out, f"{name}: {text.count('@')} revisions")
    return OK
