"""Finds and imports the generated package for the commands, and converts its errors to the tool's own.

In: a Project. Out: the module `opwright_kernels`, of which only public names are used.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console

from ..console import bar, say
from ..errors import Failed, UsageError
from ..language.dtypes import DTYPES
from ..language.source import suggestion
from ..project import COMMAND, PACKAGE, Project

TENSOR_DTYPES = {name: dtype.numpy for name, dtype in DTYPES.items()}


def kernels(project: Project) -> Any:
    """The generated package: the project's, or else the one that Python finds."""
    init = project.output / "__init__.py"
    if not init.is_file():
        if project.output.name == PACKAGE and importlib.util.find_spec(PACKAGE) is not None:
            return importlib.import_module(PACKAGE)
        raise UsageError(f"there is no generated package in {project.output}; make it with: {COMMAND}")
    name = project.output.name
    known = sys.modules.get(name)
    if known is None or Path(str(known.__file__)).resolve() != init.resolve():
        for module in [loaded for loaded in sys.modules if loaded == name or loaded.startswith(f"{name}.")]:
            del sys.modules[module]
        found = importlib.util.spec_from_file_location(name, init, submodule_search_locations=[str(project.output)])
        assert found is not None
        assert found.loader is not None
        known = sys.modules[name] = importlib.util.module_from_spec(found)
        found.loader.exec_module(known)
    return known


def function_of(package: Any, op: str) -> str:
    """The function of an operation, given by either of its names."""
    functions: tuple[str, ...] = package.operations()
    if op in functions:
        return op
    kernels = {variant.op: variant.name for variant in package.variants()}
    if op in kernels:  # a kernel is named after its function, which need not follow from the operation's name
        return max((name for name in functions if kernels[op].startswith(f"{name}_")), key=len)
    names = list(kernels)
    near = suggestion(op[:80], [*functions, *names])
    where = f"in the package {Path(str(package.__file__)).parent}; --output names another"
    raise UsageError(f"there is no operation {op[:80]!r}{near}; there are {', '.join(names)} {where}")


@contextmanager
def refusals(package: Any) -> Iterator[None]:
    """Converts the package's refusals to errors of the command line, with the same text."""
    try:
        yield
    except (package.SpecError, package.BuildError) as error:
        raise Failed(str(error)) from None


def build(package: Any, functions: Sequence[str], console: Console, into: Path | None = None) -> list[Path]:
    """Compile the kernels of some operations or of all, with a progress bar on a terminal or lines in a pipe.

    They go into the user's cache, or, for all instruction sets of this platform, into the folder `into`.
    """
    with refusals(package), _progress(console) as progress:
        return [Path(path) for path in package.build_kernels(*functions, progress=progress, into=into)]


@contextmanager
def _progress(console: Console) -> Iterator[Callable[[str, int, int], None]]:
    """The progress callback of a build."""
    if not console.is_terminal:
        yield lambda name, done, total: say(console, f"[{done}/{total}] {name}")
        return
    with bar(console, "building") as moved:
        yield lambda name, done, total: moved(name.rpartition(": ")[2], done, total)
