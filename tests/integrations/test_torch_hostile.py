"""Any argument that PyTorch lets through is refused by a rule or computed, by compiled glue as without it, and nothing crashes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from support.draws import FULL

pytest.importorskip("torch", reason="PyTorch is not installed")
TESTS = Path(__file__).parents[1]
# One tensor, several with an optional one, a layout, a list of tensors, several outputs, a gradient; else all.
SOME: tuple[str, ...] = () if FULL else ("relu", "mat_mul", "convolution", "concat", "layer_norm", "gelu_backward")
# What PyTorch itself says of arguments that it does not hand on, and of transforms that it refuses.
ITS_OWN = (
    "opwright::",
    "Unknown keyword",
    "Please convert all Tensors to FakeTensors",
    "Expected primal to be floating point",
    "only Tensors of floating point dtype can require gradients",
)


def calls(glue: str) -> list[Any]:
    """What came of each call, in a process of its own."""
    environment = {**os.environ, "OPWRIGHT_TORCH_GLUE": glue, "PYTHONHASHSEED": "0"}
    command = [sys.executable, "-m", "support.torch_hostile", "hostile", "1", *SOME]
    done = subprocess.run(command, env=environment, cwd=TESTS, capture_output=True, text=True, check=False)
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert done.returncode == 0, f"{done.returncode} in {found[-1:]}\n{done.stderr[-2000:]}"
    return [line for line in found if len(line) > 2]


@pytest.mark.sweep
def test_hostile_arguments_are_refused_or_computed_and_the_next_call_is_as_before(tmp_path: Path) -> None:
    compiled, plain = calls("1"), calls("0")
    assert len(compiled) > 100 * len(SOME)
    legal: dict[str, Any] = {}
    for function, change, found, after in compiled:
        legal.setdefault(function, after)
        where = f"{function}: {change}: {found}"
        assert after == legal[function], where
        assert found[0] == found[1] == found[2], where
        assert not change.startswith("legal") or found[0] == after, where
        if found[0][0] == "error":
            assert any(words in found[0][2] for words in ITS_OWN), where
    assert compiled == plain


@pytest.mark.sweep
def test_hostile_arguments_of_pytorchs_functions_give_within_enabled_what_they_give_without(tmp_path: Path) -> None:
    some = () if FULL else ("conv2d", "mm into", "attention", "softmax")
    command = [sys.executable, "-m", "support.aten_hostile", *some]
    done = subprocess.run(command, cwd=TESTS, capture_output=True, text=True, check=False)
    *differ, count = done.stdout.splitlines() or [""]
    assert done.returncode == 0, f"{done.returncode} in {done.stderr.splitlines()[-1:]}"
    assert not [line for line in differ if line.startswith("[")]
    assert int(count) > 150
