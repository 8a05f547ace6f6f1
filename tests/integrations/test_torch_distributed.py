"""Operators on DTensors and data-parallel training, in processes that talk through gloo."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import numpy as np
import opwright_kernels as ok
import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed: make peers")
CHILD = Path(__file__).parents[1] / "support" / "sharded_child.py"


def run(processes: int, *asked: str) -> None:
    """Every process does what is asked, and says so."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    told = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": str(processes), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, str(CHILD), *asked]
    children = [
        subprocess.Popen(
            command,
            env={**os.environ, **told, "RANK": str(rank), "LOCAL_RANK": str(rank)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(processes)
    ]
    for child in children:
        out, error = child.communicate(timeout=120)
        assert child.returncode == 0, error[-3000:]
        assert out.split() == list(asked)


@pytest.mark.parametrize(("processes", "asked"), [(2, ("placements", "parts", "trained")), (4, ("parts",))])
def test_shards_give_what_one_call_gives_and_move_only_what_the_table_says(processes: int, asked: tuple[str, ...]):
    ok.relu(np.zeros(1, np.float32))  # compiled once, not by each process
    run(processes, *asked)


def test_the_example_runs_under_torchrun():
    example = Path(__file__).parents[2] / "examples" / "sharded_convolution.py"
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", str(example)]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=120, env={**os.environ, "OMP_NUM_THREADS": "1"}
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout == "2 processes, (1, 8, 32, 48) of (1, 8, 64, 48) here\n"
