"""What is compiled, and the names that follow from its content.

In: C files, declarations, flags. Out: a `Target`, a unit in one mode, under whose name its library is built and found.

An entry of the cache is a directory `<unit>-<content>-<toolchain>` with the library, its SHA-256 and the build log.
`content` hashes what the library is made from: C text, declarations, flags, platform, and for API mode Python's ABI and
cffi. `toolchain` hashes who made it: the compiler's own version output and the CPU's features. Neither holds a path.
"""

from __future__ import annotations

import dataclasses
import os
import re
import sys
import sysconfig
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import cffi

from ._errors import BuildError
from ._words import quoted

Mode = Literal["api", "abi", "object"]

_INCLUDED = re.compile(r'^[ \t]*#[ \t]*include[ \t]*["<]([^">\n]+)[">]', re.MULTILINE)
_RECIPE = "7"  # raised when kernels are compiled otherwise than before: part of every content hash


@dataclass(frozen=True)
class Unit:
    """What becomes one extension, or one object that extensions need.

    `cdef` holds plain C declarations (no `...`), `sources` the C files that define them, `include` the folders of the
    headers that these include, `flags` the flags for compiling and linking, complete but for -fPIC and -I. `tuning` are
    flags for the sake of speed, of a word or more each: each is left out where the compiler refuses `probe` with it or
    warns. `needs` are units of one file each that become objects and are linked in. `probe` is C that every compiler
    must take that is fit for the unit. `system` are folders of headers, and `links` words for the linker, that do not
    count as content: the unit's name tells them. A `plain` one is never an extension of Python. Units
    `beside` it have the same flags and needs and lie in the same library, each as a module of its own.
    """

    name: str
    cdef: str
    sources: tuple[Path, ...]
    include: tuple[Path, ...]
    flags: tuple[str, ...]
    tuning: tuple[str, ...] = ()
    needs: tuple[Unit, ...] = ()
    probe: str = ""
    system: tuple[Path, ...] = ()
    links: tuple[str, ...] = ()
    plain: bool = False
    beside: tuple[Unit, ...] = ()

    def __post_init__(self) -> None:
        if not self.name.isidentifier():
            raise ValueError(f"unit name {self.name!r} is not an identifier")
        if any("native" in flag for flag in self.flags):
            raise ValueError(f"unit {self.name}: 'native' in its flags means another CPU elsewhere; name the features")
        if any(len(unit.sources) != 1 for unit in self.needs):
            raise ValueError(f"unit {self.name} needs a unit that is not one file, which has no one object")


@dataclass(frozen=True)
class Target:
    """A unit in one mode, and the names that follow from its content."""

    unit: Unit
    mode: Mode
    content: str

    @property
    def module(self) -> str:
        return f"_opwright_{self.unit.name}_{self.content}"

    @property
    def stem(self) -> str:
        return f"{self.unit.name}-{self.content}-"

    @property
    def file(self) -> str:
        """The name of its library in an entry."""
        return f"{self.module}.{'o' if self.mode == 'object' else 'so'}"

    @property
    def needs(self) -> list[Target]:
        return [target(unit, "object") for unit in self.unit.needs]

    @property
    def modules(self) -> list[Target]:
        """What its library holds, each as a target of its own."""
        units = [dataclasses.replace(self.unit, beside=()), *self.unit.beside]
        return [target(unit, self.mode) for unit in units] if self.unit.beside else [self]

    def steps(self) -> list[str]:
        """What its build does, for a progress bar."""
        glue = ["cffi glue"] if self.mode == "api" else []
        made = [
            f"{unit.name}: {step}"
            for unit in (self.unit, *self.unit.beside)
            for step in [*(path.name for path in unit.sources), *glue]
        ]
        return [*made, f"{self.unit.name}: link"] if self.mode != "object" else made


def targets(unit: Unit) -> list[Target]:
    """The unit in the modes to look for, the better one first. BuildError where OPWRIGHT_FFI names no mode."""
    return [target(unit, mode) for mode in (("abi",) if unit.plain else modes())]


def modes() -> tuple[Mode, ...]:
    """The modes that OPWRIGHT_FFI allows, the better one first. BuildError where it names no mode."""
    wanted = os.environ.get("OPWRIGHT_FFI")
    if not wanted:
        return "api", "abi"
    if wanted not in ("api", "abi"):
        raise BuildError(f"OPWRIGHT_FFI is {quoted(wanted)}, expected 'api' or 'abi'")
    return ("api",) if wanted == "api" else ("abi",)


def target(unit: Unit, mode: Mode) -> Target:
    """The unit in one mode."""
    parts: list[str | bytes] = [_RECIPE, unit.name, mode, unit.cdef, *unit.flags, sys.platform, os.uname().machine]
    parts += ["tuning", *unit.tuning, unit.probe]
    parts.append(str(sysconfig.get_config_var("MULTIARCH")))  # glibc or musl
    parts += [target(needed, "object").content for needed in unit.needs]
    parts += [target(other, mode).content for other in unit.beside]
    if mode == "api":
        parts += [str(sysconfig.get_config_var("SOABI")), cffi.__version__]
    for source in unit.sources:
        parts += [source.name, source.read_bytes()]
    for header in headers(unit):
        parts += [header.name, header.read_bytes()]
    return Target(unit, mode, digest(parts)[:24])


def headers(unit: Unit) -> list[Path]:
    """The headers that a unit's files and its probe include, and those that these include in turn.

    A header is looked for beside the file that includes it and in the folders of the unit; one that lies in neither is
    the system's. One that a condition leaves out counts, too.
    """
    found: list[Path] = []
    wanted = [(unit.include, name) for name in _INCLUDED.findall(unit.probe)]
    wanted += [name for source in unit.sources for name in _included(source, unit)]
    for folders, name in wanted:  # which grows
        header = next((path for folder in folders if (path := folder / name).is_file()), None)
        if header and header not in found:
            found.append(header)
            wanted += _included(header, unit)
    return found


def _included(file: Path, unit: Unit) -> list[tuple[tuple[Path, ...], str]]:
    """What a file includes: names, each with the folders to look in, in their order."""
    folders = (file.parent, *unit.include)
    return [(folders, name) for name in _INCLUDED.findall(file.read_text("utf-8", "surrogateescape"))]


def digest(parts: Sequence[str | bytes]) -> str:
    """SHA-256 over `parts`, each with its length, so that no two lists of parts look alike."""
    import hashlib  # which loads OpenSSL; a package that was shipped with its kernels hashes nothing

    total = hashlib.sha256()
    for part in parts:
        data = part.encode("utf-8", "surrogateescape") if isinstance(part, str) else part
        total.update(b"%d:" % len(data))
        total.update(data)
    return total.hexdigest()


def python_include() -> list[Path]:
    """The folders of Python's headers, which API mode needs."""
    return [Path(folder) for name in ("include", "platinclude") if (folder := sysconfig.get_path(name))]


def buildable(wanted: Sequence[Target]) -> Target:
    """The first of a unit's targets that can be compiled here. BuildError where API mode lacks Python's headers."""
    for one in wanted:
        if one.mode == "abi" or any((folder / "Python.h").is_file() for folder in python_include()):
            return one
    raise BuildError(
        "OPWRIGHT_FFI is 'api', but Python.h is missing: install Python's headers "
        "(Debian and Ubuntu: apt install python3-dev; Fedora: dnf install python3-devel), or unset it"
    )
