"""`opwright why`: the origin of a generated file or of one of its lines."""

from __future__ import annotations

import argparse

from ..console import console
from . import options as shared

EXAMPLE = "opwright why generated/opwright_kernels/c/convolution_f32.c:150   # without the line: for the whole file"
OK, USAGE = 0, 2


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE[:LINE]", help="a generated file; its path from here or in the package")
    parser.add_argument(
        "--every", action="store_true", help="for a line: try every field that was read, not only those that it names"
    )
    shared.as_json(parser)
    shared.folders(parser)


def run(options: argparse.Namespace) -> int:
    from ..trace import why

    found = why.why(shared.project(options), options.file, options.every)
    if options.json:
        print(why.as_json(found))
    else:
        why.show(found, console())
    return USAGE if found.state else OK
