"""The worked example of docs/REVIEWING.md: its edits are made and its commands run, and the page shows what they print.

With OPWRIGHT_UPDATE_GOLDEN=1 the page is given the outputs of today, to be read in review. All of it must be as on the
page, but for one thing: waivers expire, so the test puts a day ahead in the place of the page's.
"""

from __future__ import annotations

import datetime
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from opwright.review.rules import RULES
from support import checkout

PAGE = checkout.ROOT / "docs/REVIEWING.md"
FENCE = re.compile(r"^```(console|diff|yaml)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
EXPIRES = re.compile(r"(?<=expires: )\d{4}-\d\d-\d\d")


class Shell:
    """A repository with the project on its branch main, and a shell in it that finds `opwright`."""

    def __init__(self, folder: Path) -> None:
        self.root = checkout.copy(folder / "project")
        pages = self.root / "tests/audit/pages"
        shutil.copytree(checkout.ROOT / "tests/audit/pages", pages)
        (self.root / "spec/waivers.yaml").unlink(missing_ok=True)
        command = folder / "bin/opwright"
        command.parent.mkdir()
        command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m opwright "$@"\n', encoding="utf-8")
        command.chmod(0o755)
        self.environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "GIT"))},
            "PATH": f"{command.parent}{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": f"{self.root / 'generator'}{os.pathsep}{self.root / 'generated'}",
            "PYTHONDONTWRITEBYTECODE": "1",
            "GIT_CONFIG_GLOBAL": os.devnull,
            **{
                f"GIT_{who}_{what}": value
                for who in ("AUTHOR", "COMMITTER")
                for what, value in (("NAME", "t"), ("EMAIL", "t@example.org"))
            },
        }
        self.status = 0
        for setup in ("git init --quiet -b main", "git add .", "git commit --quiet -m all"):
            assert self.run(setup) == "", setup

    def run(self, command: str, text: str = "") -> str:
        """What a command prints, to both streams; `$?` in it is the exit code of the one before."""
        ran = subprocess.run(
            ["bash", "-c", f"(exit {self.status}); {command}"], cwd=self.root, env=self.environment, input=text,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip
        self.status = ran.returncode
        return ran.stdout


def played(page: str, shell: Shell) -> str:
    """The page with what its commands print today."""
    ahead = (datetime.date.today() + datetime.timedelta(days=60)).isoformat()

    def block(found: re.Match[str]) -> str:
        kind, text = found.groups()
        if kind == "diff":
            assert shell.run("git apply --unidiff-zero -", text) == ""
            assert shell.status == 0
        elif kind == "yaml":
            first, _, rest = text.partition("\n")
            (shell.root / first.removeprefix("# ")).write_text(EXPIRES.sub(ahead, rest), encoding="utf-8")
        else:
            commands = [line for line in text.splitlines() if line.startswith("$ ")]
            text = "".join(f"{command}\n{shell.run(command[2:])}" for command in commands)
        return f"```{kind}\n{text}```"

    return FENCE.sub(block, page)


MISSING = [name for name in ("git", "bash", "gcc") if shutil.which(name) is None]


@pytest.mark.skipif(bool(MISSING), reason=f"{', '.join(MISSING)} is not installed")
def test_the_example_prints_what_the_page_shows(tmp_path: Path):
    page = PAGE.read_text(encoding="utf-8")
    now = played(page, Shell(tmp_path))
    if os.environ.get("OPWRIGHT_UPDATE_GOLDEN") == "1":
        PAGE.write_text(now, encoding="utf-8")
        page = now
    assert now == page
    codes = re.findall(r"^\$ echo \$\?\n(\d+)$", now, re.MULTILINE)
    assert codes == ["1", "0"]  # what the example tells: refused before the waivers, passed after them


def test_every_rule_that_the_page_names_exists():
    page = PAGE.read_text(encoding="utf-8")
    prose = FENCE.sub("", page)
    named = set(re.findall(r"`([a-z]+(?:-[a-z]+)+)`", prose))
    assert named
    assert named <= RULES.keys()
