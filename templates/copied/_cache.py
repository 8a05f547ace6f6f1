"""The cache of compiled kernels: where it is, and which of its entries are sound.

In: a target, and the folder of an entry. Out: the path of a library that is what its builder put there and that nobody
but the user can have written. How entries come and go stands in `_entries`.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from . import _private
from ._errors import BuildError
from ._units import Target


def folder() -> Path:
    """The user's cache folder, made where it does not exist. BuildError where it is not private to the user."""
    if wanted := os.environ.get("OPWRIGHT_CACHE_DIR"):
        return _private.folder(Path(wanted).expanduser().absolute())
    base = Path(os.environ.get("XDG_CACHE_HOME", ""))
    try:
        return _private.folder((base if base.is_absolute() else Path.home() / ".cache") / "opwright")
    except RuntimeError as error:  # from Path.home
        if isinstance(error, BuildError):
            raise
        raise BuildError(f"no home folder for the kernel cache ({error}); set OPWRIGHT_CACHE_DIR") from error


def sound(target: Target, entry: Path) -> bool:
    """Whether the library in `entry` is the one that was put there: loading a truncated one can kill the process."""
    try:
        with in_use(target, entry):
            return True
    except OSError:
        return False


@contextmanager
def in_use(target: Target, entry: Path) -> Iterator[Path]:
    """The library of a sound entry, which nobody clears away as long as this lasts. OSError where it is not sound."""
    with _private.opened(entry) as at:
        if not _private.take(at, fcntl.LOCK_SH):
            raise FileNotFoundError(f"{entry} is being removed")
        with contextlib.suppress(OSError):
            os.utime(at)  # used now
        expected = _private.read("sha256", at).decode("ascii", "replace")
        if hashlib.sha256(_private.read(target.file, at)).hexdigest() != expected:
            raise OSError(f"{entry / target.file} has changed since it was built")
        yield entry / target.file
