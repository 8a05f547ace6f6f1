"""Kernels that come with the package: compiled for every instruction set of a platform, put where `_load` looks.

In: operations and a folder. Out: the libraries of all their kernels in that folder. In the folder `_built` of a copy of
this package they serve without a compiler, a cache or the headers of Python. In API mode each is an extension of
Python's stable ABI; where that cannot be had it is a shared library. A library keeps the name of its unit, its content
and its mode.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from . import _build, _compiler, _isa, _team
from ._operation import Operation
from ._units import buildable, targets


def ship(operations: Sequence[Operation], folder: Path, progress: _build.Progress | None = None) -> list[Path]:
    """Compile the kernels of operations for all instruction sets that the compiler knows; their files in `folder`.

    BuildError where one does not compile.
    """
    every = {unit.name: unit for operation in operations for unit in operation.units(has)}
    units = [unit for unit in every.values() if not unit.probe or takes(unit.flags, unit.include, unit.probe)]
    units.append(_team.UNIT)
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for unit, library in zip(units, _build.build(units, progress), strict=True):
        target = buildable(targets(unit))
        paths.append(folder / f"{unit.name}-{target.content}.{target.mode}.so")
        shutil.copyfile(library, paths[-1])
    return paths


def has(isa: _isa.Isa) -> bool:
    """Whether the compiler makes code for an instruction set, whatever the CPU at hand."""
    return takes(isa.flags, (), "int known;\n")


@cache
def takes(flags: tuple[str, ...], include: tuple[Path, ...], probe: str) -> bool:
    return not _compiler.refused(_compiler.find().command, flags, include, probe)
