"""`opwright export --c`: the operations as a C library in source, with all that a build of it needs.

In: a project whose package is generated, and the operations to take. Out: a folder with sources, headers, a build for
CMake and what find_package and pkg-config read. Kernels and their flags are those of the package.
"""

from __future__ import annotations

import importlib
import shutil
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .. import __version__
from ..calls import package
from ..derive.as_steps import as_steps
from ..derive.variants import ISAS
from ..emit import c_interface, render
from ..emit.escape import c_string  # noqa: F401  # what templates print text by
from ..emit.output import Head
from ..language.dtypes import DTYPES
from ..language.library import Library
from ..language.source import Prose
from ..load import load
from ..project import Project

INTERFACE_VERSION = 1  # the soname's: grows where a prototype or a struct of what was released changes
FOLDER = "interface"  # of templates/, and of an export
SOURCES = ("axes.c", "cpu.c", "numbers.c", "products.c", "run.c", "sizes.c", "text.c", "tables.c")
ENGINE_LABELS = ("f32", "bf16", "f16", "bytes")


@dataclass
class Group:
    """Sources that are compiled with the same flags, for one instruction set."""

    name: str
    isa: str
    flags: tuple[str, ...]
    tuning: tuple[str, ...]
    sources: list[str] = field(default_factory=list)


def export_c(project: Project, folder: Path, name: str, ops: Sequence[str]) -> None:
    """Write the library of some operations, or of all, to `folder`, which must not exist yet."""
    kernels = package.kernels(project)
    wanted = {package.function_of(kernels, op) for op in ops} or set(kernels.operations())
    library = load(project.spec, project.root)
    env = render.environment(project.templates)
    made = [op for op in library.ops if op.function in wanted]
    views = [c_interface.interface(op, library, env) for op in made]
    units = _units(kernels, [op.function for op in made])
    groups = _groups(units, project.output)
    texts = _texts(project, views, groups, name, library)
    for path in _files(project.output, groups):
        _copied(project.output / path, folder / path)
    for source in sorted((project.templates / FOLDER).glob("*.[ch]")):
        _copied(source, folder / FOLDER / source.name)
    _copied(project.output / "include/opwright_team.h", folder / "public/opwright_team.h")
    for path, (template, view) in texts.items():
        text = render.tidy(path, env.get_template(f"{FOLDER}/{template}").render(**view))
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text, encoding="utf-8")


def _copied(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, target)


def _texts(
    project: Project, views: Sequence[c_interface.Interface], groups: Sequence[Group], name: str, library: Library
) -> dict[str, tuple[str, dict[str, Any]]]:
    """What is printed: path to template and view."""
    head = Head(Prose(project.spec.relative_to(project.root).as_posix()))
    common: dict[str, Any] = {"head": head, "dtypes": tuple(DTYPES.values()), "isas": ISAS, "name": name}
    units = {view.op.function: render.unit(view.op) for view in views if not as_steps(view.op).stepped}
    places = [("", "docs/API.md#rules"), *((rule, f"docs/API.md#{rule}") for rule in ("out", "threads", "memory"))]
    contracts = any(not isinstance(view.wrapper, tuple) and getattr(view.wrapper, "contractions", ()) for view in views)
    engines = {label: _engines(label) if contracts else [""] * len(ISAS) for label in ENGINE_LABELS}
    sources = [*SOURCES, *(f"{view.op.function}.c" for view in views)]
    build = {**common, "version": __version__, "interface": INTERFACE_VERSION, "groups": groups}
    return {
        "public/opwright_operations.h": ("operations.h.j2", {**common, "ops": views, "version": INTERFACE_VERSION}),
        f"{FOLDER}/tables.c": ("tables.c.j2", {**common, "engines": engines, "sections": places}),
        f"{FOLDER}/instruction_sets.h": ("instruction_sets.h.j2", common),
        "CMakeLists.txt": ("CMakeLists.txt.j2", {**build, "interface_sources": sources}),
        "config.cmake.in": ("config.cmake.in.j2", common),
        f"{name}.pc.in": ("package.pc.in.j2", common),
        **{
            f"{FOLDER}/{view.op.function}.c": (
                "operation.c.j2",
                {"head": Head(Prose(view.op.at.file)), "i": view, "unit": units.get(view.op.function)},
            )
            for view in views
        },
    }


def _engines(label: str) -> list[str]:
    """The instruction sets that have an engine of contractions for a dtype, each in its place."""
    found = []
    for isa in ISAS:
        takes = label in isa.dtypes or (label == "bytes" and "f32" in isa.dtypes)
        found.append(isa.name if takes else "")
    return found


def _units(kernels: Any, functions: Iterable[str]) -> list[Any]:
    """The units of the package that operations are compiled from, with those that they need."""
    found: dict[str, Any] = {}
    for function in functions:
        operation = importlib.import_module(f"{kernels.__name__}._{function}").OPERATION
        for unit in operation.units(lambda isa: True):
            for one in (unit, *unit.needs):
                found.setdefault(one.name, one)
    return list(found.values())


def _isa(flags: Sequence[str]) -> str:
    return next((flag.partition("=")[2] for flag in flags if flag.startswith("-DOPWRIGHT_ISA=")), "portable")


def _groups(units: Iterable[Any], output: Path) -> list[Group]:
    """The sources of units, those with the same flags together."""
    found: dict[tuple[Any, ...], Group] = {}
    for unit in units:
        isa = _isa(unit.flags)
        key = (unit.flags, unit.tuning)
        if key not in found:
            found[key] = Group(f"{isa}_{len(found)}", isa, unit.flags, unit.tuning)
        sources = [source.resolve().relative_to(output.resolve()).as_posix() for source in unit.sources]
        found[key].sources += [source for source in sources if source not in found[key].sources]
    return list(found.values())


def _files(output: Path, groups: Iterable[Group]) -> list[str]:
    """The files of the package that a build reads."""
    headers = [path for folder in ("include", "c/engine") for path in (output / folder).rglob("*.h")]
    sources = {source for group in groups for source in group.sources}
    return sorted({*sources, "c/engine/team.c", *(path.relative_to(output).as_posix() for path in headers)})
