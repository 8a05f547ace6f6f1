"""Kernels that come with the package: compiled for every instruction set of a platform, put where `_load` looks.

In: operations and a folder. Out: the libraries of all their kernels in that folder. In the folder `_built` of a copy of
this package they serve without a compiler, a cache or the headers of Python. In API mode each is an extension of
Python's stable ABI; where that cannot be had it is a shared library. Units that need the same objects lie in one
library. An index says where each unit is, from what content and in which mode.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from . import _build, _compiler, _isa, _load, _team
from ._operation import Operation
from ._units import Unit, buildable, targets


def ship(operations: Sequence[Operation], folder: Path, progress: _build.Progress | None = None) -> list[Path]:
    """Compile the kernels of operations for all instruction sets that the compiler knows; their files in `folder`.

    BuildError where one does not compile.
    """
    every = {unit.name: unit for operation in operations for unit in operation.units(has)}
    units = [unit for unit in every.values() if not unit.probe or takes(unit.flags, unit.include, unit.probe)]
    together: dict[Any, list[Unit]] = {}
    for unit in units:
        alike = (unit.needs, unit.flags, unit.links) if unit.needs else unit.name
        together.setdefault(alike, []).append(unit)
    libraries = [replace(first, beside=tuple(others)) for first, *others in (*together.values(), [_team.UNIT])]
    folder.mkdir(parents=True, exist_ok=True)
    paths, index = [], []
    for unit, library in zip(libraries, _build.build(libraries, progress), strict=True):
        target = buildable(targets(unit))
        paths.append(folder / f"{unit.name}-{target.content}.{target.mode}.so")
        shutil.copyfile(library, paths[-1])
        index += [f"{one.unit.name} {one.content} {one.mode} {paths[-1].name}\n" for one in target.modules]
    (folder / _load.INDEX).write_text("".join(index), "utf-8")
    return paths


def has(isa: _isa.Isa) -> bool:
    """Whether the compiler makes code for an instruction set, whatever the CPU at hand."""
    return takes(isa.flags, (), "int known;\n")


@cache
def takes(flags: tuple[str, ...], include: tuple[Path, ...], probe: str) -> bool:
    return not _compiler.refused(_compiler.find().command, flags, include, probe)
