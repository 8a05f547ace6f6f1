"""What holds for every test."""

from __future__ import annotations

import os

# PyTorch would start a thread per core in every worker of pytest-xdist: they then wait for one another.
os.environ.setdefault("OMP_NUM_THREADS", "1")
