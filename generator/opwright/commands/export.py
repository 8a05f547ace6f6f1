"""`opwright export`: the generated package under another name, for embedding in a project that never sees this tool."""

from __future__ import annotations

import argparse
import keyword
import shutil
from pathlib import Path

from ..console import console, say
from ..errors import UsageError
from ..project import COMMAND, PACKAGE, Project
from . import options as shared

EXAMPLE = "opwright export src/mylib --name kernels   # makes src/mylib/kernels, which imports nothing of opwright"


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", type=Path, metavar="FOLDER", help="the folder to copy into")
    parser.add_argument("--name", default=PACKAGE, help=f"the copy's name (default: {PACKAGE})")
    shared.folders(parser)


def run(options: argparse.Namespace) -> int:
    target, name = export(shared.project(options), options.folder, options.name), options.name
    say(console(), f"{target}: import {name}; it needs numpy, cffi and ml_dtypes, and a C compiler at first use")
    return 0


def export(project: Project, folder: Path, name: str) -> Path:
    """Copy the package to `folder / name`, which must not exist yet."""
    if not name.isidentifier() or not name.isascii() or keyword.iskeyword(name):
        raise UsageError(f"--name: {name!r} cannot be imported: it must be a Python identifier")
    if not (project.output / "__init__.py").is_file():
        raise UsageError(f"there is no generated package in {project.output}; make it with: {COMMAND}")
    target = folder / name
    if target.exists() or target.is_symlink():
        raise UsageError(f"{target} exists already; delete it first, or choose another --name")
    if project.output in (target.resolve(), *target.resolve().parents):
        raise UsageError(f"{target} lies inside the package itself")
    try:
        shutil.copytree(project.output, target, ignore=shutil.ignore_patterns("__pycache__"))
    except OSError as error:
        raise UsageError(f"{target} cannot be written: {error.strerror or error}") from None
    return target
