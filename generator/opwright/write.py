"""The only module that writes generated files, and the one that compares them with what is on disk.

In: a folder and the texts of all its files. Out: what differed. A file's bytes are its text in UTF-8 with line feeds,
whatever the platform. Files that are in the folder's manifest and in no output any more are removed; files that the
generator never made are left alone.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

MANIFEST = "MANIFEST.json"
# What a Python process or a build leaves in a package's folder; never taken for an orphan.
IGNORED = ("__pycache__", "_built")


@dataclass(frozen=True)
class Difference:
    """A file that is not as it should be: stale, hand-edited, missing or orphaned."""

    path: str
    state: str

    def __str__(self) -> str:
        return f"{self.state}: {self.path}"


def compare(folder: Path, files: Mapping[str, str]) -> list[Difference]:
    """How the folder differs from `files`, by path. Reads only.

    A file whose bytes are not those that the folder's own manifest records was edited by hand; one that agrees with
    that manifest and not with `files` is stale.
    """
    recorded = _recorded(folder)
    differences = []
    for path, text in files.items():
        try:
            found = (folder / path).read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            differences.append(Difference(path, "missing"))
            continue
        except IsADirectoryError:
            found = b""
        if found != text.encode("utf-8"):
            edited = path in recorded and hashlib.sha256(found).hexdigest() != recorded[path]
            differences.append(Difference(path, "hand-edited" if edited else "stale"))
    for path in _present(folder):
        if path not in files:
            differences.append(Difference(path, "orphaned"))
    return sorted(differences, key=lambda difference: difference.path)


def write(folder: Path, files: Mapping[str, str]) -> list[Difference]:
    """Make the folder hold `files`; what had to change. Each file is replaced whole; the manifest comes last."""
    differences = compare(folder, files)
    changed = {difference.path: difference.state for difference in differences}
    recorded = _recorded(folder)
    order = sorted(changed, key=lambda path: (path == MANIFEST, path))
    for path in order:
        target = folder / path
        if changed[path] != "orphaned":
            replace(target, files[path].encode("utf-8"))
        elif path in recorded:
            target.unlink()
            _prune(target.parent, folder)
    return differences


def _recorded(folder: Path) -> dict[str, str]:
    """Path to sha256, as the manifest on disk has it; nothing where it cannot be read."""
    try:
        outputs = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))["outputs"]
        return {path: str(output["sha256"]) for path, output in outputs.items() if _inside(path)}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}


def _inside(path: str) -> bool:
    parts = Path(path).parts
    return bool(parts) and not Path(path).is_absolute() and ".." not in parts


def _present(folder: Path) -> list[str]:
    found = []
    for base, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if name not in IGNORED)
        found += [(Path(base) / name).relative_to(folder).as_posix() for name in names]
    return sorted(found)


def replace(target: Path, data: bytes) -> None:
    """Put these bytes in the place of a file, whole or not at all."""
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
