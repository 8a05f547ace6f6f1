"""The changed C of a review as hunks: a change that many kernels share appears once.

In: a Review. Out: hunks of a unified diff, each with its files.
"""

from __future__ import annotations

import difflib
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from .impact import Impact


@dataclass(frozen=True)
class Hunk:
    """Lines that start with `+`, `-` or a blank, and how often each file contains them."""

    lines: tuple[str, ...]
    files: Mapping[str, int]


def hunks(impact: Impact) -> list[Hunk]:
    """The changed C files of both sides, by file and place."""
    old, new = impact.texts
    groups: dict[str, list[str]] = {}
    for path in sorted(path for path in impact.observed.files if path.endswith(".c")):
        sides = [text.get(path, "").splitlines() for text in (old, new)]
        compared = difflib.unified_diff(sides[0], sides[1], lineterm="", n=2)
        lines = list(compared)[2:]  # without the two lines of file names
        for hunk in re.split(r"^@@.*$\n?", "\n".join(lines), flags=re.MULTILINE):
            if hunk.strip():
                groups.setdefault(hunk.rstrip("\n"), []).append(path)
    return [Hunk(tuple(hunk.split("\n")), Counter(paths)) for hunk, paths in groups.items()]
