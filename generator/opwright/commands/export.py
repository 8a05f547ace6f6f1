"""`opwright export`: the generated package under another name, for projects that do not use this tool."""

from __future__ import annotations

import argparse
import keyword
import os
import shutil
import stat
from pathlib import Path

from ..console import console, say
from ..errors import UsageError, inert
from ..project import COMMAND, PACKAGE, Project
from . import options as shared

CACHES = "__pycache__"
EXAMPLE = "opwright export src/mylib --name kernels   # makes src/mylib/kernels, which does not import opwright"


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", type=Path, metavar="FOLDER", help="the folder to copy into")
    parser.add_argument("--c", nargs="*", metavar="OP", help="a C library in source, of these operations or of all")
    parser.add_argument("--name", default=PACKAGE, help=f"the copy's name (default: {PACKAGE})")
    shared.folders(parser)


def run(options: argparse.Namespace) -> int:
    if options.c is not None:
        return _library(options)
    target, name = export(shared.project(options), options.folder, options.name), options.name
    say(console(), f"{target}: import {name}; it needs numpy, cffi and ml_dtypes, and a C compiler at first use")
    return 0


def _library(options: argparse.Namespace) -> int:
    """Write the C library to the folder, which must not exist yet."""
    from . import export_c  # loads the specs, which a copy of the package does not need

    check_name(options.name)
    folder: Path = options.folder
    if folder.exists() or folder.is_symlink():
        raise UsageError(f"{shown(folder)} exists already; delete it first, or choose another one")
    try:
        export_c.export_c(shared.project(options), folder, options.name, options.c)
    except OSError as error:
        raise UsageError(f"{shown(folder)} cannot be written: {reason(error)}") from None
    say(console(), f"{folder}: cmake -S {folder} -B build && cmake --build build && cmake --install build")
    return 0


def export(project: Project, folder: Path, name: str) -> Path:
    """Copy the package to `folder / name`, which must not exist yet."""
    check_name(name)
    if not (project.output / "__init__.py").is_file():
        raise UsageError(f"there is no generated package in {project.output}; make it with: {COMMAND}")
    target, package = folder / name, project.output.resolve()
    if target.exists() or target.is_symlink():
        raise UsageError(f"{shown(target)} exists already; delete it first, or choose another --name")
    try:
        if package in (target.resolve(), *target.resolve().parents):
            raise UsageError(f"{shown(target)} lies inside the package itself")
        regular(package)
        _copied(package, target)
    except (OSError, RuntimeError) as error:  # a loop of links raises RuntimeError in older Pythons
        raise UsageError(f"{shown(target)} cannot be written: {reason(error)}") from None
    return target


def check_name(name: str) -> None:
    if not name.isidentifier() or not name.isascii() or keyword.iskeyword(name):
        raise UsageError(f"--name: {name!r} cannot be imported: it must be a Python identifier")


def regular(package: Path) -> None:
    """Refuse a package with links, pipes and the like, because their targets are not part of it."""
    for place, folders, files in os.walk(package):
        for entry in (*folders, *files):
            mode = os.lstat(os.path.join(place, entry)).st_mode
            if entry != CACHES and not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
                place_text = shown(Path(place) / entry)
                raise UsageError(f"{place_text} is neither a file nor a folder; make the package again with: {COMMAND}")


def _copied(package: Path, target: Path) -> None:
    """Copy the package; if that fails, remove the partial copy."""
    target.parent.mkdir(parents=True, exist_ok=True)
    target.mkdir()
    try:
        shutil.copytree(package, target, symlinks=True, ignore=shutil.ignore_patterns(CACHES), dirs_exist_ok=True)
    except BaseException:
        shutil.rmtree(target, ignore_errors=True)
        raise


def reason(error: Exception) -> str:
    """Why a copy failed, in one line; for several files the first reason."""
    several = error.args[0] if isinstance(error, shutil.Error) and error.args else None
    if isinstance(several, list) and several:
        return inert(str(several[0][-1])[:200])
    return inert(str(getattr(error, "strerror", None) or error)[:200])


def shown(path: Path) -> str:
    return inert(str(path)[-200:])
