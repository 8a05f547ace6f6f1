"""`opwright demo`, from the specs to the picture, also where Python's headers are missing."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from support.draws import FULL

pytest.importorskip("matplotlib", reason="matplotlib, which ships the photograph, is not installed")
Image = pytest.importorskip("PIL.Image", reason="Pillow is not installed")
ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("mode", ["api", "abi"] if FULL else ["api"])
def test_the_demo_upsamples_a_photograph_and_executes_a_graph(tmp_path: Path, mode: str) -> None:
    paths = os.pathsep.join(str(ROOT / folder) for folder in ("generator", "generated"))
    answer = subprocess.run(
        [sys.executable, "-m", "opwright", "demo", "--output", str(tmp_path)],
        env={**os.environ, "PYTHONPATH": paths, "OPWRIGHT_FFI": mode},
        capture_output=True,
        text=True,
        check=False,
    )
    assert answer.returncode == 0, answer.stderr
    assert "nothing changed" in answer.stdout
    assert "against the spec's interpreter: equal" in answer.stdout
    assert "largest difference 0 of 255" in answer.stdout
    assert "docs/graphs/conv_transpose.json" in answer.stdout
    with Image.open(tmp_path / "before.png") as before, Image.open(tmp_path / "after.png") as after:
        assert after.size == (2 * before.width, 2 * before.height)
        assert abs(np.asarray(after, float).mean() - np.asarray(before, float).mean()) < 0.5
