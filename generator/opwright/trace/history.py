"""The commit that last changed a file, or a line of it. Asks git, changes nothing.

In: paths inside a work tree. Out: commits; None for uncommitted lines. Without git, or outside a work tree,
`known` is false and there are no commits.
"""

from __future__ import annotations

import functools
import re
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path


@dataclass(frozen=True, order=True)
class Commit:
    """A commit; they are ordered by time. The date is that of UTC."""

    time: int
    hash: str
    subject: str

    @property
    def date(self) -> str:
        return datetime.fromtimestamp(self.time, timezone.utc).date().isoformat()


_BLAMED = re.compile(r"^([0-9a-f]{40}) .*?^committer-time (\d+)$.*?^summary ([^\n]*)$.*?^\t", re.MULTILINE | re.DOTALL)


class History:
    """The history of the files below a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.known = self._git("rev-parse", "--is-inside-work-tree").strip() == "true"

    def newest(self, file: Path, lines: Iterable[int] = ()) -> Commit | None:
        """The last commit that changed one of the lines, or without lines the file."""
        if not self.known:
            return None
        numbers = [number for number in lines if number]
        if not numbers:
            return self._file(file)
        blamed = self._lines(file)
        found = [blamed[number - 1] for number in numbers if number <= len(blamed)]
        return None if None in found else max((commit for commit in found if commit), default=None)

    @functools.cache  # noqa: B019  # a History lives as long as a command
    def _file(self, file: Path) -> Commit | None:
        fields = self._git("log", "-1", "--format=%ct%x09%h%x09%s", "--", str(file)).rstrip("\n").split("\t", 2)
        return Commit(int(fields[0]), *fields[1:]) if len(fields) == 3 else None

    @functools.cache  # noqa: B019
    def _lines(self, file: Path) -> list[Commit | None]:
        blamed = _BLAMED.findall(self._git("blame", "--line-porcelain", "--", str(file)))
        short = {hash: self._git("rev-parse", "--short", hash).strip() for hash in {hash for hash, _, _ in blamed}}
        return [Commit(int(time), short[hash], subject) if int(hash, 16) else None for hash, time, subject in blamed]

    def _git(self, *arguments: str) -> str:
        command = ["git", "--no-optional-locks", "-C", str(self.folder), *arguments]
        try:
            ran = subprocess.run(command, capture_output=True, encoding="utf-8", errors="replace", timeout=60)
        except (OSError, subprocess.TimeoutExpired):
            return ""
        return ran.stdout if ran.returncode == 0 else ""
