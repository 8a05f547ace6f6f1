"""Options that several commands share, and the project that they name."""

from __future__ import annotations

import argparse
from pathlib import Path

from ..project import PACKAGE, Project, find


def folders(
    parser: argparse.ArgumentParser, output: str = f"the generated package (default: generated/{PACKAGE})"
) -> None:
    """--spec, --templates and --output; `output` describes the last one."""
    parser.add_argument("--spec", type=Path, help="the folder of spec files (default: spec/ of the project)")
    parser.add_argument("--templates", type=Path, help="the folder of templates (default: those of the project)")
    parser.add_argument("--output", type=Path, help=f"the generated package (default: generated/{PACKAGE})")


def as_json(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print JSON")


def natural_number(text: str) -> int:
    """An argument type: a non-negative integer."""
    value = int(text)
    if value < 0:
        raise ValueError(text)
    return value


def project(options: argparse.Namespace) -> Project:
    """The project named by the folders of a command line."""
    return find(options.spec, getattr(options, "templates", None), getattr(options, "output", None))
