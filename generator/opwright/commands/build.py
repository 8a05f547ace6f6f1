"""`opwright build`: compiles the kernels of the generated package ahead of their first use."""

from __future__ import annotations

import argparse
import time

from ..console import console, say
from . import options as shared

EXAMPLE = "opwright build Convolution conv_transpose   # by either name; without names: all operations"


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("ops", nargs="*", metavar="OP", help="operations to build (default: all)")
    shared.folders(parser)


def run(options: argparse.Namespace) -> int:
    from ..calls import package

    kernels, out = package.kernels(shared.project(options)), console()
    functions = [package.function_of(kernels, op) for op in options.ops]
    started = time.perf_counter()
    for path in package.build(kernels, functions, out):
        say(out, str(path))
    say(out, f"built in {time.perf_counter() - started:.1f} s")
    return 0
