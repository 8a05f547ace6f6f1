"""`opwright generate`: writes the package from the specs, compares it with them, or writes it after every save."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..errors import count
from ..project import COMMAND, Project
from . import options as shared

if TYPE_CHECKING:
    from ..write import Difference

EXAMPLE = "opwright generate --check   # in CI: exits 4 if generated files are out of date, and writes nothing"
OK, FAILED, OUT_OF_DATE = 0, 1, 4
SHOWN = 20  # files listed per state


def arguments(parser: argparse.ArgumentParser) -> None:
    mode = parser.add_mutually_exclusive_group()
    mode.add_argument("--check", action="store_true", help="compare only, never write")
    mode.add_argument("--watch", action="store_true", help="write again after every save of a spec or template")
    shared.folders(parser)


def run(options: argparse.Namespace) -> int:
    project = shared.project(options)
    if options.watch:
        from ..console import console
        from . import watch

        watch.watch(project, console())
        return OK
    if options.check:
        return _check(project)

    from ..errors import inert
    from ..generate import generated
    from ..write import write

    library, files = generated(project)
    differences = write(project.output, files)
    made = {difference.path for difference in differences if difference.state == "missing"}
    if made >= files.keys():
        outcome = f"written to {inert(str(project.output))}"
    else:
        _print(differences)
        outcome = f"{len(differences)} changed" if differences else "nothing changed"
    print(f"{count(len(files), 'file')} of {count(len(library.ops), 'operation')}: {outcome}")
    return OK


def _print(differences: Sequence[Difference]) -> None:
    """Print a line per file; if many have the same state, the first ones and the number of others."""
    for state in sorted({difference.state for difference in differences}):
        of_state = [difference for difference in differences if difference.state == state]
        for difference in of_state[:SHOWN]:
            print(difference)
        if len(of_state) > SHOWN:
            print(f"{state}: {len(of_state) - SHOWN} more")


def _check(project: Project) -> int:
    """Compare the files on disk with those that the specs generate; nothing is written."""
    from ..generate import generated
    from ..write import compare

    library, files = generated(project)
    if not any(path.startswith("c/") for path in files):
        print("opwright: nothing was compared: the specs generate no kernel")
        return FAILED
    differences = compare(project.output, files)
    _print(differences)
    if differences:
        stale = f"{len(differences)} of {count(len(files), 'file')} {'is' if len(differences) == 1 else 'are'}"
        print(f"{stale} out of date; update them with: {COMMAND}")
        return OUT_OF_DATE
    print(f"{count(len(files), 'file')} of {count(len(library.ops), 'operation')} are up to date")
    return OK
