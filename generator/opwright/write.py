"""The only module that writes generated files and compares them with those on disk.

In: a folder and the texts of all its files. Out: the differences. A file's bytes are its text in UTF-8 with line feeds
on every platform. Files in the folder's manifest that are no longer generated are removed; other files are
left alone.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from .errors import UsageError, inert

MANIFEST = "MANIFEST.json"
# Left in a package's folder by a Python process or a build; never an orphan.
IGNORED = ("__pycache__", "_built")
MAX_BYTES = 64 * 2**20  # the maximum size of a compared file


@dataclass(frozen=True)
class Difference:
    """A file that differs: stale, hand-edited, missing, orphaned or obstructed."""

    path: str
    state: str

    def __str__(self) -> str:
        return inert(f"{self.state}: {self.path}")


def compare(folder: Path, files: Mapping[str, str]) -> list[Difference]:
    """How the folder differs from `files`, by path. Reads regular files only. Raises UsageError if there is no folder.

    A file is hand-edited if its bytes differ from the folder's manifest, and stale if they agree with
    the manifest but not with `files`. A path is obstructed if a file cannot replace what is there.
    """
    _check_folder(folder)
    recorded = _recorded(folder)
    differences = []
    for path, text in files.items():
        if _obstacle(folder, path) is not None:
            differences.append(Difference(path, "obstructed"))
            continue
        found = _content(os.path.join(folder, path))
        if found is None:
            differences.append(Difference(path, "missing"))
        elif found != text.encode("utf-8"):
            edited = path in recorded and hashlib.sha256(found).hexdigest() != recorded[path]
            differences.append(Difference(path, "hand-edited" if edited else "stale"))
    for path in _present(folder):
        if path not in files:
            differences.append(Difference(path, "orphaned"))
    return sorted(differences, key=lambda difference: difference.path)


def write(folder: Path, files: Mapping[str, str]) -> list[Difference]:
    """Write `files` to the folder; returns the differences. Files are replaced atomically, the manifest last.

    Raises UsageError if that is impossible or would write outside the folder.
    """
    differences = compare(folder, files)
    changed = {difference.path: difference.state for difference in differences}
    recorded = _recorded(folder)
    order = sorted(changed, key=lambda path: (path == MANIFEST, path))
    obstacles = {_obstacle(folder, path) for path in files} - {None}
    if obstacles:
        named = inert(", ".join(sorted(map(str, obstacles))[:3]))
        raise UsageError(f"{named}: a link, or a file in place of a folder, or a folder in place of a file; delete it")
    try:
        for path in order:
            target = folder / path
            if changed[path] != "orphaned":
                replace(target, files[path].encode("utf-8"))
            elif path in recorded:
                target.unlink()
                _prune(target.parent, folder)
    except OSError as error:
        raise UsageError(f"{inert(str(folder))} cannot be written: {error.strerror or error}") from None
    return differences


def _check_folder(folder: Path) -> None:
    try:
        fits = stat.S_ISDIR(folder.lstat().st_mode)
    except FileNotFoundError:
        fits = True
    except OSError:  # a file among its parents, a name that is too long
        fits = False
    if not fits:
        raise UsageError(f"{inert(str(folder))} is not a folder and cannot be created")


def _obstacle(folder: Path, path: str) -> str | None:
    """The obstacle of a file: a link or a file where a folder belongs, or a folder in its own place."""
    place = str(folder)
    *outer, name = path.split("/")
    for part in outer:
        place = os.path.join(place, part)
        if not os.path.lexists(place):
            return None
        if os.path.islink(place) or not os.path.isdir(place):
            return place
    target = os.path.join(place, name)
    return target if os.path.isdir(target) and not os.path.islink(target) else None


def _content(path: str | Path) -> bytes | None:
    """The bytes of a regular file, b'' for a link or a pipe, and None if nothing exists."""
    try:
        handle = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))
    except FileNotFoundError:
        return None
    except OSError:  # a link, a socket, an unreadable file
        return b""
    try:
        status = os.fstat(handle)
        if not stat.S_ISREG(status.st_mode) or status.st_size > MAX_BYTES:
            return b""
        with open(handle, "rb", closefd=False) as stream:
            return stream.read()
    finally:
        os.close(handle)


def _recorded(folder: Path) -> dict[str, str]:
    """Path to sha256, from the manifest on disk; empty if it cannot be read."""
    try:
        outputs = json.loads((_content(folder / MANIFEST) or b"").decode("utf-8"))["outputs"]
        return {path: str(output["sha256"]) for path, output in outputs.items() if _inside(path)}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return {}


def _inside(path: str) -> bool:
    parts = Path(path).parts
    return bool(parts) and not Path(path).is_absolute() and ".." not in parts


def _present(folder: Path) -> list[str]:
    found = []
    for base, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if name not in IGNORED)
        inner = Path(base).relative_to(folder).as_posix()
        found += [name if inner == "." else f"{inner}/{name}" for name in names]
    return sorted(found)


def replace(target: Path, data: bytes) -> None:
    """Replace a file by these bytes, atomically."""
    target.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=".opwright-")
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(data)
        os.chmod(name, 0o644)
        os.replace(name, target)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def _prune(folder: Path, top: Path) -> None:
    while folder != top and not any(folder.iterdir()):
        folder.rmdir()
        folder = folder.parent
