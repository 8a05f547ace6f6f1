"""`opwright list`: the operations of a project, their kernels, and how much C these are."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict, dataclass

from rich.console import Console

from ..console import console, say, table
from ..derive.variants import expand, row_name
from ..errors import UsageError, count
from ..language.library import Library
from ..language.model import Op
from ..language.source import suggestion
from ..project import Project
from . import options as shared

EXAMPLE = "opwright list ConvTranspose --json   # one operation with the names of its kernels, for a program"
SHOWN_ROWS = 4  # rows of dtypes in a line of the table, so that a line fits a terminal


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("op", nargs="?", metavar="OP", help="one operation, with its kernels (default: all)")
    shared.as_json(parser)
    shared.folders(parser)


def run(options: argparse.Namespace) -> int:
    from ..load import load

    project = shared.project(options)
    found = listed(load(project.spec, project.root), project, options.op)
    if options.json:
        print(as_json(found))
    else:
        show(found, console(), project, variants=options.op is not None)
    return 0


@dataclass(frozen=True)
class Listed:
    """An operation and what is generated for it. `lines` and `bytes` count its C on disk."""

    op: str
    function: str
    revision: int
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    dtypes: tuple[str, ...]
    lines: int
    bytes: int
    variants: tuple[str, ...]


def listed(library: Library, project: Project, only: str | None = None) -> list[Listed]:
    """All operations, or the one of that name."""
    ops = [op for op in library.ops if only in (None, op.op, op.function)]
    if not ops:
        names = [name for op in library.ops for name in (op.op, op.function)]
        near = suggestion(only or "", names)
        raise UsageError(f"there is no operation {only!r}{near}; there are {', '.join(names[::2])}")
    return [_listed(op, project) for op in ops]


def _listed(op: Op, project: Project) -> Listed:
    dtypes = tuple(row_name(op, row) for row in op.dtypes)
    folder = project.output / "c"
    paths = [folder / f"{op.function}_{dtype}.c" for dtype in dtypes]
    paths += [path for dtype in dtypes for path in sorted(folder.glob(f"entries/{op.function}_{dtype}*.c"))]
    texts = [path.read_bytes() for path in paths if path.is_file()]
    return Listed(
        op=op.op,
        function=op.function,
        revision=op.revision,
        inputs=tuple(tensor.name + ("?" if tensor.optional else "") for tensor in op.inputs),
        outputs=tuple(tensor.name for tensor in op.outputs),
        dtypes=dtypes,
        lines=sum(text.count(b"\n") for text in texts),
        bytes=sum(map(len, texts)),
        variants=tuple(variant.name for variant in expand(op)),
    )


def as_json(found: list[Listed]) -> str:
    return json.dumps([asdict(entry) for entry in found], indent=2)


def show(found: list[Listed], out: Console, project: Project, variants: bool) -> None:
    columns = ("operation", "dtypes", "kernels", "lines of C", "KiB")
    rows = [(e.op, _dtypes(e, every=variants), len(e.variants), *_size(e)) for e in found]
    table(out, "operations", columns, rows)
    if variants:
        for entry in found:
            say(out, f"{entry.function}({', '.join(entry.inputs)}) -> {', '.join(entry.outputs)}")
            table(out, "", ("",), [(name,) for name in entry.variants])
    total = sum(len(entry.variants) for entry in found)
    size = sum(entry.bytes for entry in found) / 1024
    lines = sum(entry.lines for entry in found)
    say(out, f"{count(len(found), 'operation')}, {total} kernels, {lines} lines of C, {size:.0f} KiB")
    if absent := sum(not entry.bytes for entry in found):
        which = "nothing" if absent == len(found) else f"nothing of {count(absent, 'operation')}"
        say(
            out,
            f"{which} is generated in {project.output}; name another package with --output, or run opwright generate",
        )


def _size(entry: Listed) -> tuple[object, object]:
    """The lines and KiB of an operation's C, if it is generated."""
    return (entry.lines, round(entry.bytes / 1024)) if entry.bytes else ("-", "-")


def _dtypes(entry: Listed, every: bool) -> str:
    """The rows of dtypes, the first of them and the count of the others where there are many."""
    shown = entry.dtypes if every or len(entry.dtypes) <= SHOWN_ROWS + 1 else entry.dtypes[:SHOWN_ROWS]
    others = len(entry.dtypes) - len(shown)
    return ", ".join(shown) + (f" and {others} others" if others else "")
