"""`opwright wheel`: the package with kernels compiled for every instruction set, as one file to install."""

from __future__ import annotations

import argparse
import importlib.util
import platform
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

from rich.console import Console

from .. import __version__
from ..calls import package, wheel_file
from ..console import console, say
from ..errors import Failed, UsageError
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
    parser.add_argument("ops", nargs="*", metavar="OP", help="operations whose kernels to compile (default: all)")
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
        if options.spec is not None and options.output is None:
            project = generated(project, Path(scratch) / "generated" / options.name)
        wheel = made(project, options, Path(scratch), out)
        tagged = wheel if options.no_audit else audited(wheel, out)
        try:
            options.dist.mkdir(parents=True, exist_ok=True)
            path = options.dist / tagged.name
            path.write_bytes(tagged.read_bytes())
        except OSError as error:
            raise UsageError(f"{export.shown(options.dist)} cannot be written: {export.reason(error)}") from None
    say(out, f"{path}: {path.stat().st_size / 1e6:.1f} MB")
    return 0


def generated(project: Project, output: Path) -> Project:
    """A project with its package generated from its specs."""
    from ..generate import generated
    from ..write import write

    output.mkdir(parents=True)
    write(output, generated(project)[1])
    return replace(project, output=output)


def made(project: Project, options: argparse.Namespace, scratch: Path, out: Console) -> Path:
    """The wheel with the tag of this machine, in the folder `scratch`."""
    named = wheel_file.Named(options.name, options.version)
    folder = export.export(project, scratch / "root", options.name)
    kernels = package.kernels(project)
    functions = [package.function_of(kernels, op) for op in options.ops]
    libraries = package.build(kernels, functions, out, into=folder / BUILT)
    modes = {path.name.split(".")[-2] for path in libraries}
    return wheel_file.write(named, scratch / "root", modes == {"api"}, scratch)


def audited(wheel: Path, out: Console) -> Path:
    """The wheel with the tag of the oldest Linux that it runs on, if auditwheel is available."""
    if platform.system() != "Linux":
        return wheel
    if importlib.util.find_spec("auditwheel") is None:
        say(out, "auditwheel is missing, so the wheel has this machine's Linux tag: pip install 'opwright[wheel]'")
        return wheel
    folder = wheel.parent / "audited"
    command = [sys.executable, "-m", "auditwheel", "repair", "--strip", "--plat", "auto", "-w", str(folder), str(wheel)]
    ran = subprocess.run(command, capture_output=True, text=True)
    if ran.returncode:
        raise Failed(f"auditwheel refuses the wheel: {(ran.stderr or ran.stdout).strip()[-2000:]}")
    return next(folder.glob("*.whl"))
