"""`opwright gradient`: the gradient of an operation, derived from its semantics, as a spec."""

from __future__ import annotations

import argparse
from dataclasses import replace
from typing import TYPE_CHECKING

from ..console import console, say
from ..errors import Failed, UsageError, inert
from ..language.source import suggestion
from . import options as shared

if TYPE_CHECKING:
    from rich.console import Console

    from ..language.library import Library
    from ..language.model import Op
    from ..project import Project

EXAMPLE = "opwright gradient MatMul --of weights   # prints a spec; --write writes it beside MatMul or over the old"
OK, FAILED = 0, 1


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("op", nargs="?", metavar="OP", help="the operation; without one, --check checks all")
    parser.add_argument(
        "--of", action="append", default=[], metavar="INPUT", help="an input to differentiate by (default: all)"
    )
    parser.add_argument("--write", action="store_true", help="write the spec to the folder of specs")
    parser.add_argument(
        "--check", action="store_true", help="check gradients that the specs claim against finite differences, in f64"
    )
    shared.folders(parser)


def run(options: argparse.Namespace) -> int:
    from ..load import load, load_with_gradients

    project, out = shared.project(options), console()
    if options.check:
        library = load_with_gradients(project.spec, project.root)
        return _check(replace(library, ops=library.every), options.op, out)
    if options.op is None:
        raise UsageError("an operation is needed, or --check")
    return _derive(load(project.spec, project.root), project, options, out)


def _derive(library: Library, project: Project, options: argparse.Namespace, out: Console) -> int:
    from ..gradients import Underivable, gradient_text, left_out
    from ..project import GRADIENTS
    from ..write import replace as write

    names = [name for op in library.ops for name in (op.op, op.function)]
    if options.op not in names:
        raise UsageError(f"there is no operation {options.op!r}{suggestion(options.op, names)}")
    op = library.op(options.op)
    there = _there(op, project) if options.write else None
    try:
        text, found = gradient_text(op, options.of, there)
    except Underivable as reason:
        raise Failed(f"no gradient of {op.op} is derived: {reason}") from None
    if not options.write:
        print(text, end="")
        return OK
    name = f"{found.function}.yaml"
    derived = project.spec / GRADIENTS / name
    target = derived if derived.exists() else project.spec / name
    there = next((other for other in library.ops if other.op == found.op), None)
    if there is not None and not any(relation.gradient_of == op.op for relation in there.relations):
        raise Failed(f"there is a hand-written {found.op} at {there.at}; nothing was written")
    write(target, text.encode("utf-8"))
    say(out, f"written to {inert(str(target))}")
    if missing := left_out(op, options.of, found):
        count = len(missing)
        say(
            out, f"left out, as before: {count} row{'s' * (count > 1)} of data types; remove the file first to have all"
        )
        for row in missing:
            say(out, f"  {row}")
    return OK


def _there(op: Op, project: Project) -> Op | None:
    """The derived gradient that was written before, in either folder; None also if it is no valid spec."""
    from ..language.source import SpecInvalid
    from ..load import load_with_gradients

    try:
        known = load_with_gradients(project.spec, project.root).every
    except SpecInvalid:
        return None
    return next((one for one in known if any(r.gradient_of == op.op for r in one.relations)), None)


def _check(library: Library, only: str | None, out: Console) -> int:
    """Check every claim of a gradient, or those about one operation."""
    from ..gradients import astray, claims
    from ..oracle.slopes import disagreement

    problems = [str(problem) for op in library.ops for problem in astray(op, library)]
    checked = 0
    for forward, backward, tie in claims(library):
        if only in (None, forward.op, forward.function, backward.op, backward.function):
            checked += 1
            difference = disagreement(forward, backward, tie)
            problems += [difference] if difference is not None else []
    for problem in problems:
        say(out, problem)
    if not checked:
        raise Failed("nothing was checked: no spec claims a gradient of steps")
    say(out, f"{checked} gradients, {len(problems)} of them wrong" if problems else f"{checked} gradients agree")
    return FAILED if problems else OK
