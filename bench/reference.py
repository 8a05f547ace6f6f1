"""The exact results that candidates are checked against: PyTorch in float64, which calls neither oneDNN nor us.

It is no candidate: it has one mode, computes once and writes the result to a file.
"""

from __future__ import annotations

import torch
from support import torch_peer
from support.call import Call

from .candidate import Ready
from .kinds import AnyTensors
from .own import OwnTensors
from .own import exact as exact_own
from .products import ProductTensors, exactly
from .rows import INPUTS
from .steps import StepTensors, exact


class Candidate:
    """The witness of the conformance tests."""

    def __init__(self, threads: int) -> None:
        torch.set_num_threads(threads)

    def versions(self) -> dict[str, str]:
        return {}

    def modes(self, tensors: AnyTensors) -> list[str]:
        return ["float64"]

    def ready(self, tensors: AnyTensors, mode: str) -> Ready:
        if isinstance(tensors, ProductTensors):
            return exactly(tensors)
        if isinstance(tensors, OwnTensors):
            return exact_own(tensors)
        if isinstance(tensors, StepTensors):
            return exact(tensors)
        row = tensors.row
        call = Call(row.op, tuple(tensors.arrays[side] for side in INPUTS[row.op]), row.attributes())

        def run() -> None:
            tensors.arrays[row.solve] = torch_peer.compute(call)

        return Ready(run=run, result=lambda: tensors.canonical(row.solve))
