"""The command `opwright`: parses arguments, runs one command, converts its exceptions to an exit code.

Exit codes: 0 done, 2 wrong usage, 3 a spec is invalid, 4 generated files are out of date, 5 a review
found an effect that it had not predicted, 6 it found kernels that disagree with their spec, 141 the
output pipe was closed, 1 any other failure.
"""

from __future__ import annotations

import argparse
import atexit
import gc
import importlib
import os
import sys
from collections.abc import Sequence

from . import __version__
from .commands import SUMMARIES
from .errors import Failed, UsageError, count, printable
from .language.source import SpecInvalid

FAILED, USAGE, INVALID = 1, 2, 3
PROBLEMS = 100  # problems of invalid specs that are printed
UNHEARD = 141  # a shell's exit code for a program that wrote to a closed pipe


def _parser(asked: str | None) -> argparse.ArgumentParser:
    """The parser of all commands; only the requested one is imported and declares its arguments."""
    parser = argparse.ArgumentParser(
        prog="opwright", description="From the specification of an operation to its kernels."
    )
    parser.add_argument("--version", action="version", version=f"opwright {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name, summary in SUMMARIES.items():
        made = commands.add_parser(
            name, help=summary, description=summary, formatter_class=argparse.RawDescriptionHelpFormatter
        )
        if name == asked:
            command = importlib.import_module(f".commands.{name}", __package__)
            made.epilog = f"example:\n  {command.EXAMPLE}"
            made.set_defaults(run=command.run)
            command.arguments(made)
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; its exit code. A closed output pipe, as by `head`, ends it silently."""
    try:
        try:
            return _run_command(arguments)
        finally:
            sys.stdout.flush()
    except BrokenPipeError:
        # The rest of the buffer would fail again when the interpreter exits.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return UNHEARD


def _run_command(arguments: Sequence[str] | None) -> int:
    # Views are many small long-lived objects; collecting cycles among them took a sixth of a diff's time.
    gc.set_threshold(200_000, 20, 20)
    atexit.register(gc.freeze)  # a last look for cycles while the process ends took a twentieth of `generate --check`
    arguments = sys.argv[1:] if arguments is None else arguments
    asked = next((argument for argument in arguments if not argument.startswith("-")), None)
    options = _parser(asked).parse_args(arguments)
    try:
        return int(options.run(options))
    except SpecInvalid as invalid:
        for problem in invalid.problems[:PROBLEMS]:
            print(problem, file=sys.stderr)
        if len(invalid.problems) > PROBLEMS:
            print(f"... and {len(invalid.problems) - PROBLEMS} more", file=sys.stderr)
        print(f"{count(len(invalid.problems), 'problem')} in the specs; nothing was written", file=sys.stderr)
        return INVALID
    except UsageError as error:
        print(printable(f"opwright {options.command}: {error}"), file=sys.stderr)
        return USAGE
    except Failed as error:
        print(error, file=sys.stderr)
        return FAILED
    except OSError as error:  # a file vanished, a full disk; `main` handles a closed output pipe
        if isinstance(error, BrokenPipeError):
            raise
        print(printable(f"opwright {options.command}: {error}"), file=sys.stderr)
        return FAILED
    except KeyboardInterrupt:
        return FAILED
