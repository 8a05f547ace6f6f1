"""A copy of the checkout's sources in another folder, for tests that run commands in it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SOURCES = ("spec", "templates", "generator", "generated")


def copy(folder: Path) -> Path:
    """The folder, with everything in it that `opwright` reads, and what Python has compiled of it."""
    for name in SOURCES:
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns(".*"))
    return folder


def run(folder: Path, *arguments: str, cwd: Path | None = None, **environment: str) -> subprocess.CompletedProcess[str]:
    """Python with these arguments, on the checkout in `folder` and on no other."""
    path = os.pathsep.join(str(place) for place in (folder / "generator", folder / "generated", cwd or folder))
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=cwd or folder,
        env={**inherited, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1", **environment},
        capture_output=True,
        text=True,
    )
