"""Folders and files that nobody but the user, and root, can have written.

In: the path of a folder, or names in one. Out: its real path; bytes and open entries. Code is loaded from there, so
each step is judged by what was opened, never by what a name led to a moment before. BuildError or OSError where the
owner or the mode of anything on the way lets somebody else in.
"""

from __future__ import annotations

import fcntl
import grp
import os
import pwd
import stat
from collections.abc import Container, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path, PurePath

from ._errors import BuildError

# Opens what is there, never what a link points at, without waiting for the other end of a pipe.
NO_LINK = os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
_FOLDER = os.O_DIRECTORY | NO_LINK
_STEP = _FOLDER | getattr(os, "O_PATH", os.O_RDONLY)  # parents need not be readable
_LINKS = 40  # on one path; as many as Linux follows
_ELSEWHERE = "set OPWRIGHT_CACHE_DIR"


def folder(path: Path) -> Path:
    """The real path of `path`, made where it does not exist, which nobody but the user, and root, can change.

    BuildError where somebody else can.
    """
    with ExitStack() as open_ones:
        try:
            at, real = _walked(path, open_ones)
        except OSError as error:
            raise BuildError(f"the kernel cache {path} cannot be made ({error}); {_ELSEWHERE}") from error
        status = os.fstat(at)
    if status.st_uid != os.geteuid():
        raise BuildError(f"the kernel cache {real} belongs to user {status.st_uid}, not you; {_ELSEWHERE}")
    if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise BuildError(f"others can write to the kernel cache {real}; chmod go-w it, or {_ELSEWHERE}")
    return real


def _walked(path: Path, open_ones: ExitStack) -> tuple[int, Path]:
    """The folder that `path` leads to, opened, and its real path."""

    def step(name: str, at: int | None = None) -> int:
        deeper = os.open(name, _STEP, dir_fd=at)
        open_ones.callback(os.close, deeper)
        return deeper

    trusted = {0, os.geteuid(), *_stand_in()}
    at, real, names, links = step("/"), Path("/"), list(path.parts[:0:-1]), 0
    while names:
        _check_parent(os.fstat(at), real, trusted)
        name = names.pop()
        status = _made(name, at)
        if not stat.S_ISLNK(status.st_mode):
            at, real = step(name, at), real.parent if name == ".." else real / name
            continue
        links += 1
        if status.st_uid not in trusted or links > _LINKS:
            link = f"the link {real / name}, which belongs to user {status.st_uid}"
            raise BuildError(f"the path to the kernel cache contains {link}; {_ELSEWHERE}")
        target = PurePath(os.readlink(name, dir_fd=at))
        names += reversed(target.parts[target.is_absolute() :])
        if target.is_absolute():
            at, real = step("/"), Path("/")
    return at, real


def _made(name: str, at: int) -> os.stat_result:
    """The status of what `name` stands for in a folder, a new folder where there is nothing."""
    try:
        return os.stat(name, dir_fd=at, follow_symlinks=False)
    except FileNotFoundError:
        with suppress(FileExistsError):  # somebody was faster
            os.mkdir(name, 0o700, dir_fd=at)
        return os.stat(name, dir_fd=at, follow_symlinks=False)


def _check_parent(status: os.stat_result, real: Path, trusted: Container[int]) -> None:
    """BuildError where somebody else could put another folder in the place of one in here."""
    if status.st_uid not in trusted:
        whose = f"which belongs to user {status.st_uid}, not you"
        raise BuildError(f"the kernel cache lies in {real}, {whose}; {_ELSEWHERE}")
    if status.st_mode & stat.S_ISVTX:
        return
    by_group = status.st_mode & stat.S_IWGRP and not _own_group(status.st_gid)
    if by_group or status.st_mode & stat.S_IWOTH:
        raise BuildError(f"the kernel cache lies in {real}, which others can write to; chmod go-w it, or {_ELSEWHERE}")


def _stand_in() -> set[int]:
    """The user whom root's files seem to belong to in a sandbox that does not know root."""
    try:
        maps = [line.split() for line in Path("/proc/self/uid_map").read_text("ascii").splitlines()]
        if all(int(first) != 0 for first, _, _ in maps):
            return {int(Path("/proc/sys/kernel/overflowuid").read_text("ascii"))}
    except (OSError, ValueError):
        pass
    return set()


def _own_group(group: int) -> bool:
    """Whether a group is the user's private one, as many systems give everybody: named so, and nobody else in it."""
    try:
        name, found = pwd.getpwuid(os.geteuid()).pw_name, grp.getgrgid(group)
    except (KeyError, OSError):
        return False
    return found.gr_name == name and set(found.gr_mem) <= {name}


@contextmanager
def opened(entry: Path) -> Iterator[int]:
    """A folder, open as long as this lasts. PermissionError unless it is the user's alone."""
    at = os.open(entry, os.O_RDONLY | _FOLDER)
    try:
        _check_file(os.fstat(at), entry.name)
        yield at
    finally:
        os.close(at)


def read(name: str, at: int) -> bytes:
    """The bytes of a file in an open folder. PermissionError unless it is the user's alone."""
    with open(os.open(name, os.O_RDONLY | NO_LINK, dir_fd=at), "rb") as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise PermissionError(f"{name} is not a file")
        _check_file(status, name)
        return file.read()


def _check_file(status: os.stat_result, name: str) -> None:
    if status.st_uid != os.geteuid() or status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise PermissionError(f"{name} is user {status.st_uid}'s, or others can write to it")


def is_still(at: int, path: Path) -> bool:
    """Whether `path` still stands for what was opened there."""
    try:
        return os.path.samestat(os.fstat(at), path.lstat())
    except FileNotFoundError:
        return False


def take(at: int, how: int) -> bool:
    """Lock an open file or folder unless somebody else has it; where a file system knows no locks nobody has."""
    try:
        fcntl.flock(at, how | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return True
    return True
