"""`opwright export --c`: the operations as a C library in source, with everything that its build needs.

In: a project with a generated package, and the operations to take. Out: a folder with sources, headers, a build for
CMake and files for find_package and pkg-config. Kernels and their flags are those of the package.
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
from ..derive.variants import ISAS
from ..emit import render
from ..emit.c import interface as c_interface
from ..emit.output import Head
from ..errors import UsageError, inert
from ..language.dtypes import DTYPES
from ..language.library import Library
from ..language.source import Prose
from ..load import load_with_gradients
from ..project import Project

INTERFACE_VERSION = 1  # the version in the soname: raised when a released prototype or struct changes
FOLDER = "interface"  # folders in templates/ and in an export
SOURCES = (
    *(
        "axes.c",
        "collapse.c",
        "cpu.c",
        "numbers.c",
        "phase_blocks.c",
        "products.c",
        "refuse.c",
        "run.c",
        "sizes.c",
        "text.c",
    ),
    "tables.c",
)
OPERATIONS = f"{FOLDER}/operations"  # the sources of the operations, which may be named like those of SOURCES
FUNCTIONS = ("", "_workspace", "_infer", "_call")  # what follows an operation's function in the names of its header
WINDOW_ENGINES = ("window.c", "window_bytes.c")  # their main files
ENGINE_LABELS = ("f32", "bf16", "f16", "bytes", "squares", "distances", "f64", "s64", "s32")


@dataclass
class Group:
    """Sources compiled with the same flags, for one instruction set."""

    name: str
    isa: str
    flags: tuple[str, ...]
    tuning: tuple[str, ...]
    sources: list[str] = field(default_factory=list)


def export_c(project: Project, folder: Path, name: str, ops: Sequence[str]) -> None:
    """Write the library of some operations, or of all, to `folder`, which must not exist yet."""
    kernels = package.kernels(project)
    library = load_with_gradients(project.spec, project.root)
    derived = {name: op.function for op in library.gradients for name in (op.op, op.function)}
    wanted = {derived.get(op) or package.function_of(kernels, op) for op in ops}
    _same_operations(project, library, kernels)
    env = render.environment(project.templates)
    made = [op for op in library.every if op.function in wanted or not wanted]
    _distinct([op.function for op in made])
    views = [c_interface.interface(op, library, env) for op in made]
    units = _units(kernels, [op.function for op in made])
    groups = _groups(units, project.output)
    spec = project.spec.relative_to(project.root).as_posix()
    for path in _files(project.output, groups):
        _copied(project.output / path, folder / path)
    for source in sorted((project.templates / FOLDER).glob("*.[ch]")):
        _copied(source, folder / FOLDER / source.name)
    _copied(project.output / "include/opwright_team.h", folder / "public/opwright_team.h")
    for path, (template, view) in texts(spec, views, units, groups, name).items():
        text = render.tidy(path, env.get_template(f"{FOLDER}/{template}").render(**view))
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text, encoding="utf-8")


def _same_operations(project: Project, library: Library, kernels: Any) -> None:
    """Refuse a package that was generated from other specs."""
    generated, specified = set(kernels.operations()), {op.function for op in library.ops}
    if generated != specified:
        lacking = ", ".join(sorted(specified - generated)[:3]) or "fewer operations"
        spec, output = inert(str(project.spec)), inert(str(project.output))
        message = f"{output} was generated from other specs than those in {spec}, which have {lacking}"
        raise UsageError(
            f"{message}; run opwright generate --spec {spec} --output FOLDER, and give --output FOLDER here"
        )


def _distinct(functions: Sequence[str]) -> None:
    """Refuse operations of which one's function would have the name of what another's header declares."""
    for function in functions:
        for end in FUNCTIONS[1:]:
            if f"{function}{end}" in functions:
                message = f"the operation {function} has a C name {function}{end}, as another operation has"
                raise UsageError(f"{message}; give that one another name by `function`, or export them apart")


def _copied(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, target)


def texts(
    spec: str, views: Sequence[c_interface.Interface], units: Sequence[Any], groups: Sequence[Group], name: str
) -> dict[str, tuple[str, dict[str, Any]]]:
    """The rendered files: path to template and view."""
    programs = [program for view in views for program in (view, view.fitting) if program is not None]
    steps: list[Any] = [program.wrapper for program in programs if program.op.stepped]
    places = [("", "docs/API.md#rules"), *((rule, f"docs/API.md#{rule}") for rule in ("out", "threads", "memory"))]
    given = {
        "head": Head(Prose(spec)),
        "dtypes": tuple(DTYPES.values()),
        "isas": ISAS,
        "name": name,
        "version": __version__,
        "interface": INTERFACE_VERSION,
        "prefix": prefix(name),
        "ops": views,
        "groups": groups,
        "engines": {label: _engines(label, units) for label in ENGINE_LABELS},
        "sections": places,
        # Arrays of C hold at least one.
        "products": max([1, *(len(wrapper.contractions) for wrapper in steps)]),
        "block_arrays": max([1, *(len(wrapper.blocks.arrays) for wrapper in steps if wrapper.blocks)]),
        "interface_sources": [*SOURCES, *(f"operations/{program.op.function}.c" for program in programs)],
    }

    def printed(template: str, *names: str) -> tuple[str, dict[str, Any]]:
        return template, {known: given[known] for known in names}

    build = ("name", "version", "interface", "groups", "isas", "interface_sources")
    files = {
        "public/opwright_calls.h": printed("calls.h.j2", "dtypes", "interface"),
        f"public/{prefix(name)}_operations.h": printed("operations.h.j2", "head", "ops", "interface", "prefix"),
        f"{FOLDER}/tables.c": printed("tables.c.j2", "head", "dtypes", "isas", "engines", "sections"),
        f"{FOLDER}/instruction_sets.h": printed("instruction_sets.h.j2", "head", "isas", "products", "block_arrays"),
        "CMakeLists.txt": printed("CMakeLists.txt.j2", *build),
        "config.cmake.in": printed("config.cmake.in.j2", "name"),
        f"{name}.pc.in": printed("package.pc.in.j2", "name"),
    }
    for view in programs:
        unit = None if view.op.stepped else render.unit(view.op)
        parameters = {"head": Head(Prose(view.op.at.file)), "i": view, "unit": unit, "prefix": prefix(name)}
        files[f"{OPERATIONS}/{view.op.function}.c"] = "operation.c.j2", parameters
    return files


def prefix(name: str) -> str:
    """What begins the names of a library's functions, structs and macros: its name without the ending `_kernels`."""
    return name.removesuffix("_kernels") or name


def _engines(label: str, units: Iterable[Any]) -> list[str]:
    """The instruction sets that have an engine of contractions for a dtype, in order."""
    names = {unit.name for unit in units if _engine_file(unit)}
    return [isa.name if f"opwright_contraction_{label}_{isa.name}" in names else "" for isa in ISAS]


def _units(kernels: Any, functions: Iterable[str]) -> list[Any]:
    """The units of the package for some operations, with their dependencies and the thread team."""
    team = importlib.import_module(f"{kernels.__name__}._team").UNIT
    found: dict[tuple[str, str], Any] = {(team.name, _engine_file(team)): team}
    for function in functions:
        operation = importlib.import_module(f"{kernels.__name__}._{function}").OPERATION
        for unit in operation.units(lambda isa: True):
            if _engine_file(unit) not in WINDOW_ENGINES:  # loops compute windows here
                for one in (unit, *unit.needs):
                    found.setdefault((one.name, _engine_file(one)), one)
    return list(found.values())


def _engine_file(unit: Any) -> str:
    """The name of an engine's main file, or '' of an operation's unit, which may be named like that of an engine."""
    source = unit.sources[0]
    return source.name if source.parent.name == "engine" else ""


def _isa(flags: Sequence[str]) -> str:
    return next((flag.partition("=")[2] for flag in flags if flag.startswith("-DOPWRIGHT_ISA=")), "portable")


def _groups(units: Iterable[Any], output: Path) -> list[Group]:
    """The sources of units, grouped by flags."""
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
    return sorted({*sources, *(path.relative_to(output).as_posix() for path in headers)})
