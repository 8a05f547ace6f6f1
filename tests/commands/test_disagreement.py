"""Kernels that do otherwise than their spec says, through the command: an error of the tool, with an exit code of its own."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from opwright import cli
from support import checkout

SPEC = (checkout.ROOT / "tests/data/average_pool.yaml").read_text(encoding="utf-8")
LOOP = "{{ s.letter }} < {{ s.end | c(s.end_level) }};"


def side(folder: Path, text: str) -> Path:
    specs = folder / "spec" / "onednn_graph"
    specs.mkdir(parents=True)
    (specs / "average_pool.yaml").write_text(text, encoding="utf-8")
    return specs


@pytest.mark.parametrize("broken", [False, True], ids=["right kernels", "wrong kernels"])
def test_a_package_that_errs_from_its_spec_on_a_witness_exits_6(
    broken: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    templates = tmp_path / "templates"
    shutil.copytree(checkout.ROOT / "templates", templates)
    nodes = templates / "c/nodes.c.j2"
    assert LOOP in nodes.read_text(encoding="utf-8")
    if broken:  # every loop leaves out its last turn
        nodes.write_text(
            nodes.read_text(encoding="utf-8").replace(LOOP, LOOP.replace(" <", " + 1 <")), encoding="utf-8"
        )
    monkeypatch.setenv("OPWRIGHT_ISA", "portable")
    monkeypatch.setenv("OPWRIGHT_CACHE_DIR", str(tmp_path / "cache"))
    old, new = "dst[n, c, x] / prod(K)", "2 * dst[n, c, x] / prod(K)"
    assert old in SPEC
    base, head = side(tmp_path / "base", SPEC), side(tmp_path / "head", SPEC.replace(old, new))
    code = cli.main(["diff", str(base), str(head), "--templates", str(templates)])
    printed = capsys.readouterr().out
    assert code == (6 if broken else 1), printed
    assert ("AN ERROR OF OPWRIGHT" in printed) == broken
