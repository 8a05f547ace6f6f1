"""Operators on DTensors and data-parallel training, in processes that talk through gloo."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import opwright_kernels as ok
import pytest

pytest.importorskip("torch", reason="PyTorch is not installed: make peers")
CHILD = Path(__file__).parents[1] / "support" / "sharded_child.py"


def test_shards_train_and_give_what_one_call_gives_and_move_only_what_the_table_says():
    """One program forks all groups of processes: PyTorch is imported once."""
    ok.relu(np.zeros(1, np.float32))  # compiled once, not by each process
    asked = [
        "2:placements,parts,gradients,random,trained",
        "2:examples/sharded_convolution.py",
        "2:bench/sharded.py",
        "4:parts,joins,random",
    ]
    ran = subprocess.run(
        [sys.executable, str(CHILD), *asked],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert ran.returncode == 0, ran.stderr[-5000:]
    table = [line for line in ran.stdout.splitlines() if line.startswith("|")]
    assert len(table) == 2 + 8  # the benchmark's heading, and its rows
    assert all(re.fullmatch(r"\|( [^|]+ \|){3} \d+% \|", line) for line in table[2:])
    lines = Counter(line for line in ran.stdout.splitlines() if line not in table)
    rows = "2 processes, (1, 8, 32, 48) of (1, 8, 64, 48) here"
    assert lines == {"placements": 2, "parts": 6, "gradients": 2, "joins": 4, "random": 6, "trained": 2, rows: 1}
