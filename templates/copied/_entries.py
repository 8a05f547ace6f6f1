"""How entries of the cache come and go: who builds one, and what is cleared away.

In: the folder that is to be an entry. Out: an entry that is whole or not there, because it is built in a folder of its
own and renamed. One builder at a time holds an entry's lock, which saves work and is needed for nothing else: who has
waited for long enough builds without it, and the first to be done wins.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import platform
import re
import shutil
import stat
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from . import _private

WARNED_AFTER = 10.0  # seconds without a sign of life from a builder, until those who wait for it are warned
TAKEN_OVER_AFTER = 60.0  # and until they wait no longer; each file that is compiled is such a sign
EXPIRES_AFTER = 90 * 24 * 3600  # seconds since an entry was used last
_POLL = 0.02  # seconds between looks at a lock
_ENTRY = re.compile(r"\w+-[0-9a-f]{24}-[0-9a-f]{12}(\.lock|\.log)?")

_given_up: set[str] = set()  # the builders that this process has waited for in vain
_locked: set[Path] = set()  # the locks that it holds


@contextmanager
def turn(entry: Path, done: Callable[[], bool]) -> Iterator[None]:
    """Wait until nobody else builds `entry`, or until it is `done`, or until that takes too long."""
    path = entry.with_name(entry.name + ".lock")
    at = _lock_file(path)
    try:
        while (mine := _taken(at, entry, done)) and not _private.is_still(at, path):  # somebody cleared it away
            os.close(at)
            at = _lock_file(path)
        if mine:
            _locked.add(path)
            with contextlib.suppress(OSError):
                os.truncate(at, 0)
                os.pwrite(at, f"process {os.getpid()} on {platform.node()}".encode(), 0)
        try:
            yield
        finally:
            if mine:  # closing alone would not do: a child forked meanwhile has the file open too
                _locked.discard(path)
                with contextlib.suppress(OSError):
                    fcntl.flock(at, fcntl.LOCK_UN)
    finally:
        os.close(at)


def alive() -> None:
    """Give those who wait for locks of this process a sign of life."""
    for path in list(_locked):
        with contextlib.suppress(OSError):
            os.utime(path, follow_symlinks=False)


def _taken(at: int, entry: Path, done: Callable[[], bool]) -> bool:
    """Wait for the lock of an entry; False where whoever has it need not, or cannot, be waited for any longer."""
    sign, heard, warned = 0, 0.0, False
    while not _private.take(at, fcntl.LOCK_EX):
        holder = os.pread(at, 200, 0).decode("utf-8", "replace") or "another process"
        if sign != (sign := os.fstat(at).st_mtime_ns):
            heard = time.monotonic()
        silent = time.monotonic() - heard
        if silent > TAKEN_OVER_AFTER:
            _given_up.add(holder)
        if holder in _given_up or done():
            return False
        if silent > WARNED_AFTER and not warned:
            warned = True
            warnings.warn(
                f"waiting for {holder}, which builds {entry.name} in {entry.parent} and has made no progress for"
                f" {silent:.0f} s; after {TAKEN_OVER_AFTER:.0f} s this process builds it itself",
                RuntimeWarning,
                stacklevel=2,
            )
        time.sleep(_POLL)
    return True


def _lock_file(path: Path) -> int:
    """The lock file at `path`, open. What somebody else put there, when the folder let them, makes room for it."""
    while True:
        try:
            at = os.open(path, os.O_RDWR | os.O_CREAT | _private.NO_LINK, 0o600)
        except OSError:
            status = path.lstat()
            if stat.S_ISREG(status.st_mode) and status.st_uid == os.geteuid():
                raise
            remove(path)
            continue
        status = os.fstat(at)
        if stat.S_ISREG(status.st_mode) and status.st_uid == os.geteuid():
            return at
        os.close(at)
        remove(path)


@contextmanager
def workplace(entry: Path) -> Iterator[Path]:
    """A new folder beside `entry` to build it in, which is gone afterwards, or cleared away later by somebody else."""
    while True:
        work = _folder_beside(entry)
        try:
            at = os.open(work, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except FileNotFoundError:
            continue  # somebody cleared it away at once
        if _private.take(at, fcntl.LOCK_EX) and _private.is_still(at, work):
            break
        os.close(at)
    try:
        yield work
    finally:
        with contextlib.suppress(OSError):
            fcntl.flock(at, fcntl.LOCK_UN)  # of the entry, by now, if all went well
        os.close(at)
        shutil.rmtree(work, ignore_errors=True)


def put(work: Path, entry: Path, good: Callable[[], bool]) -> None:
    """Make the folder `work` the entry, unless somebody else has just put a good one there."""
    if good():
        return
    remove(entry)
    try:
        work.rename(entry)
    except OSError:
        if not good():
            raise


def _folder_beside(entry: Path) -> Path:
    """A new, empty folder of a name that nobody has."""
    folder = entry.with_name(f"{entry.name}.{os.urandom(8).hex()}.tmp")
    folder.mkdir(mode=0o700)
    return folder


def remove(entry: Path) -> None:
    """Take an entry, or what else is there, away at once, whoever put it there; then delete what can be deleted."""
    if not os.path.lexists(entry):
        return
    aside = _folder_beside(entry)
    try:
        entry.rename(aside / "entry" if entry.is_symlink() or not entry.is_dir() else aside)
    except FileNotFoundError:
        pass  # somebody was faster
    finally:
        shutil.rmtree(aside, ignore_errors=True)


def clear(folder: Path) -> None:
    """Clear away what builders that ended have left, and what nobody has used for so long."""
    oldest = time.time() - EXPIRES_AFTER
    for item in list(os.scandir(folder)):
        path = Path(item.path)
        with contextlib.suppress(OSError):
            if item.name.endswith(".tmp"):
                _clear(path, lambda status: True)
            elif _ENTRY.fullmatch(item.name) and item.stat(follow_symlinks=False).st_mtime < oldest:
                _clear(path, lambda status: status.st_mtime < oldest)


def _clear(path: Path, unused: Callable[[os.stat_result], bool]) -> None:
    """Remove a folder or a lock, unless somebody is at it."""
    at = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        if not _private.take(at, fcntl.LOCK_EX) or not _private.is_still(at, path) or not unused(os.fstat(at)):
            return
        if not stat.S_ISDIR(os.fstat(at).st_mode):
            path.unlink()
        elif path.suffix == ".tmp":
            shutil.rmtree(path, ignore_errors=True)
        else:
            remove(path)
    finally:
        os.close(at)
