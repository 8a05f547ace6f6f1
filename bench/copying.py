"""A copy of as many bytes as a row of steps reads and writes, to which memory-bound rows are compared."""

from __future__ import annotations

import torch

from .candidate import Ready
from .steps import StepTensors
from .tensors import Array


class Candidate:
    """PyTorch's copy between two allocated arrays, each with half of the bytes."""

    def __init__(self, threads: int) -> None:
        torch.set_num_threads(threads)

    def versions(self) -> dict[str, str]:
        return {}

    def modes(self, tensors: StepTensors) -> list[str]:
        return ["copy"]

    def ready(self, tensors: StepTensors, mode: str) -> Ready:
        source = torch.ones(max(tensors.row.bytes // 8, 1))
        target = torch.zeros_like(source)

        def result() -> Array:
            return target.numpy()

        return Ready(run=lambda: target.copy_(source), result=result)
