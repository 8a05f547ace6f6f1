"""The command `opwright`: parses arguments, calls one function per command, prints what it returns.

Exit codes: 0 done, 2 wrong usage, 3 a spec is invalid, 4 generated files are out of date, 1 anything else that failed.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from rich.console import Console

from . import __version__, schema
from .audit import command as audit
from .generate import generated
from .model import Common, Op, Sources
from .project import COMMAND, Project, find
from .source import SpecInvalid
from .write import compare, write

OK, FAILED, USAGE, INVALID, OUT_OF_DATE = 0, 1, 2, 3, 4
Handler = Callable[[argparse.Namespace], int]
SCHEMAS = {"op": Op, "common": Common, "sources": Sources}


def _project(options: argparse.Namespace) -> Project:
    return find(options.spec, options.templates, options.output)


def _generate(options: argparse.Namespace) -> int:
    project = _project(options)
    library, files = generated(project)
    out = _console()
    if options.check:
        if not any(path.startswith("c/") for path in files):
            out.print("opwright: nothing was compared: the specs make no kernel")
            return FAILED
        differences = compare(project.output, files)
        for difference in differences:
            out.print(str(difference), highlight=False, soft_wrap=True)
        if differences:
            out.print(f"{len(differences)} of {len(files)} files are out of date; mend them with: {COMMAND}", highlight=False)
            return OUT_OF_DATE
        out.print(f"{len(files)} files of {len(library.ops)} operations are up to date", highlight=False)
        return OK
    differences = write(project.output, files)
    for difference in differences:
        out.print(str(difference), highlight=False, soft_wrap=True)
    said = f"{len(differences)} changed" if differences else "nothing changed"
    out.print(f"{len(files)} files of {len(library.ops)} operations: {said}", highlight=False)
    return OK


def _schema(options: argparse.Namespace) -> int:
    root = SCHEMAS[options.kind]
    print(json.dumps(schema.json_schema(root, f"Opwright: {(root.__doc__ or '').strip()}"), indent=2))
    return OK


def _console() -> Console:
    return Console(highlight=False)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="opwright", description="From the specification of an operation to its kernels.")
    parser.add_argument("--version", action="version", version=f"opwright {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)

    def command(name: str, handler: Handler, summary: str, example: str) -> argparse.ArgumentParser:
        made = commands.add_parser(
            name,
            help=summary,
            description=summary,
            epilog=f"example:\n  {example}",
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        made.set_defaults(handler=handler)
        return made

    made = command(
        "generate",
        _generate,
        "Write the generated package from the specs.",
        "opwright generate --check   # in CI: exits 4 where generated files are out of date, and writes nothing",
    )
    made.add_argument("--check", action="store_true", help="compare only, never write")
    _folders(made)

    made = command(
        "schema",
        _schema,
        "Print the JSON Schema of the spec language, for editors.",
        "opwright schema > spec.schema.json   # then point the editor's YAML support at it",
    )
    made.add_argument("kind", nargs="?", choices=sorted(SCHEMAS), default="op", help="the kind of file (default: op)")

    audit.add(command)
    return parser


def _folders(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--spec", type=Path, help="the folder of spec files (default: spec/ of the project)")
    parser.add_argument("--templates", type=Path, help="the folder of templates (default: those of the project)")
    parser.add_argument("--output", type=Path, help="the package to write (default: generated/opwright_kernels)")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; its exit code."""
    options = _parser().parse_args(arguments)
    try:
        handler: Handler = options.handler
        return handler(options)
    except SpecInvalid as invalid:
        for problem in invalid.problems:
            print(problem, file=sys.stderr)
        print(f"{len(invalid.problems)} problems in the specs; nothing was written", file=sys.stderr)
        return INVALID
    except KeyboardInterrupt:
        return FAILED
