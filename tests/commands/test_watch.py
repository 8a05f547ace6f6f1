"""`opwright generate --watch` on a project of its own: what it says of each save, and how it ends."""

from __future__ import annotations

import functools
import os
import queue
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from support import checkout
from support.specs import MATRIX_PRODUCT

pytest.importorskip("watchfiles")
pytestmark = pytest.mark.skipif(os.name == "nt", reason="POSIX signals")
SECONDS = 60
STAMP = r"\d\d:\d\d:\d\d "


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    (folder / "spec").mkdir(parents=True)
    (folder / "spec" / "mat_mul.yaml").write_text(MATRIX_PRODUCT, encoding="utf-8")
    shutil.copytree(checkout.ROOT / "templates", folder / "templates")
    return folder


class Watch:
    """A running watch; its lines come as they are printed."""

    def __init__(self, project: Path) -> None:
        options = ["--spec", "spec", "--templates", "templates", "--output", "out"]
        path = os.pathsep.join(str(checkout.ROOT / name) for name in ("generator", "generated"))
        self.process = subprocess.Popen(
            [sys.executable, "-u", "-m", "opwright", "generate", "--watch", *options],
            cwd=project,
            env={**os.environ, "PYTHONPATH": path},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            # A shell that runs tests in the background has them ignore Ctrl-C, and they would pass that on.
            preexec_fn=functools.partial(signal.signal, signal.SIGINT, signal.SIG_DFL),
        )
        self.lines: queue.Queue[str] = queue.Queue()
        threading.Thread(target=self.read, daemon=True).start()

    def read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.put(line.rstrip("\n"))

    def line(self) -> str:
        return self.lines.get(timeout=SECONDS)

    def silent(self, seconds: float) -> bool:
        time.sleep(seconds)
        return self.lines.empty()

    def end(self) -> int:
        self.process.send_signal(signal.SIGINT)
        return self.process.wait(timeout=SECONDS)


@pytest.fixture
def watch(project: Path) -> Iterator[Watch]:
    running = Watch(project)
    try:
        yield running
    finally:
        running.process.kill()
        running.process.wait(timeout=SECONDS)


def save(path: Path, text: str) -> None:
    """As editors do: at no time is the file half written."""
    new = path.parents[1].parent / "being-saved"
    new.write_text(text, encoding="utf-8")
    new.replace(path)


def test_a_save_a_broken_spec_and_its_repair_are_each_one_line(watch: Watch, project: Path):
    spec, kernel = project / "spec" / "mat_mul.yaml", project / "out" / "c" / "mat_mul_f32.c"
    assert re.fullmatch(STAMP + r"all specs: \d+ files changed in \d+\.\d s", watch.line())
    assert kernel.is_file()

    save(spec, MATRIX_PRODUCT.replace("A product", "The product"))
    assert re.fullmatch(STAMP + r"mat_mul\.yaml: \d files changed in \d+\.\d s", watch.line())
    assert "The product" in (project / "out" / "docs" / "mat_mul.md").read_text(encoding="utf-8")

    before = kernel.stat().st_mtime_ns
    save(spec, MATRIX_PRODUCT.replace("revision", "revison"))
    assert re.fullmatch(STAMP + r"mat_mul\.yaml: nothing was written", watch.line())
    assert (
        watch.line() == "spec/mat_mul.yaml:1:1: missing-key: 'revision' is missing: raised whenever the meaning changes"
    )
    assert watch.line() == "spec/mat_mul.yaml:2:1: unknown-key: unknown key 'revison' (did you mean 'revision'?)"
    assert kernel.stat().st_mtime_ns == before

    save(spec, MATRIX_PRODUCT.replace("A product", "The product"))
    assert re.fullmatch(STAMP + r"mat_mul\.yaml: nothing changed in \d+\.\d s", watch.line())
    assert kernel.stat().st_mtime_ns == before
    assert watch.end() == 0
    assert watch.lines.empty()


def test_templates_are_watched_and_other_files_are_not(watch: Watch, project: Path):
    watch.line()
    template = project / "templates" / "c" / "step_unit.c.j2"
    text = template.read_text(encoding="utf-8")
    save(template, text.replace('#include "opwright_rows.h"', '#include "opwright_rows.h" // all of it'))
    assert re.fullmatch(STAMP + r"c/step_unit\.c\.j2: 2 files changed in \d+\.\d s", watch.line())
    save(template, text + "{% if %}")
    assert re.fullmatch(STAMP + r"c/step_unit\.c\.j2: nothing was written", watch.line())
    assert watch.line().startswith(f"c/step_unit.c.j2:{len(text.splitlines()) + 1}: ")
    save(template, text.replace("steps.define(kernel)", "no_such_name"))
    assert re.fullmatch(STAMP + r"c/step_unit\.c\.j2: nothing was written", watch.line())
    assert watch.line() == "'no_such_name' is undefined"
    for name in ("spec/notes.txt", "spec/.mat_mul.yaml.swp", "templates/c/step_unit.c.j2~"):
        (project / name).write_text("", encoding="utf-8")
    assert watch.silent(3)
    assert watch.end() == 0


def test_a_new_spec_and_a_removed_one_are_saves_too(watch: Watch, project: Path):
    watch.line()
    other = project / "spec" / "mat_mul_2.yaml"
    save(other, MATRIX_PRODUCT.replace("op: MatMul", "op: MatMulTwo"))
    assert "mat_mul_2.yaml: " in watch.line()
    assert (project / "out" / "c" / "mat_mul_two_f32.c").is_file()
    other.unlink()
    assert "mat_mul_2.yaml: " in watch.line()
    assert not (project / "out" / "c" / "mat_mul_two_f32.c").exists()
    assert watch.end() == 0


def test_nothing_of_the_time_of_day_reaches_a_file(watch: Watch, project: Path):
    stamp = watch.line()[:8]
    assert not [
        path for path in (project / "out").rglob("*") if path.is_file() and stamp in path.read_text(encoding="utf-8")
    ]
    assert watch.end() == 0


def test_a_folder_that_is_not_there_cannot_be_watched(tmp_path: Path):
    ran = checkout.run(checkout.ROOT, "-m", "opwright", "generate", "--watch", "--spec", "nowhere", cwd=tmp_path)
    assert ran.returncode == 2
    assert re.fullmatch(r"opwright generate: there is no folder \S*nowhere to watch\n", ran.stderr)


def test_to_check_and_to_watch_exclude_each_other(tmp_path: Path):
    ran = checkout.run(checkout.ROOT, "-m", "opwright", "generate", "--watch", "--check", cwd=tmp_path)
    assert ran.returncode == 2
    assert "not allowed with argument" in ran.stderr
