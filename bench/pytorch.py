"""PyTorch: `aten.convolution`, which its functions call, and `aten.convolution_backward`.

It has one arrangement of weights, (O, I/G, X) or (I, O/G, X), and keeps it here even if the others get XIO.
Data with the channels last is what it calls `channels_last`; weights may then have either order; both are timed.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import torch

from .candidate import Ready, Refused
from .kinds import AnyTensors
from .own import OwnTensors, torch_modes
from .own import computed as computed_own
from .products import ProductTensors, torch_s
from .rows import INPUTS
from .steps import StepTensors, computed
from .tensors import Array

PLAIN, CHANNELS_LAST = "plain weights", "channels_last weights"
FORMATS = {2: torch.channels_last, 3: torch.channels_last_3d}


class Candidate:
    """PyTorch on the CPU."""

    def __init__(self, threads: int) -> None:
        torch.set_num_threads(threads)

    def versions(self) -> dict[str, str]:
        return {"PyTorch": torch.__version__}

    def modes(self, tensors: AnyTensors) -> list[str]:
        if isinstance(tensors, ProductTensors):
            return ["matmul"]
        if isinstance(tensors, OwnTensors):
            return torch_modes(tensors)
        if isinstance(tensors, StepTensors):
            return ["into an array of the caller" if tensors.row.case.reuses else "into a new array"]
        row = tensors.row
        last = row.layout == "NXC" and len(row.geometry.extent) in FORMATS and "weights" in INPUTS[row.op]
        return [CHANNELS_LAST, PLAIN] if last else [PLAIN]

    def ready(self, tensors: AnyTensors, mode: str) -> Ready:
        """A call whose result is contiguous in the row's layout."""
        if isinstance(tensors, ProductTensors):
            return torch_s(tensors, tensor, array)
        if isinstance(tensors, OwnTensors):
            return computed_own(tensors, mode, tensor, array)
        if isinstance(tensors, StepTensors):
            return computed(tensors, tensor, array)
        row, shape = tensors.row, tensors.row.geometry
        if shape.pads_begin != shape.pads_end:
            raise Refused("PyTorch pads both ends alike")
        rank = len(shape.extent)
        inputs = {name: tensor(tensors.canonical(name)) for name in INPUTS[row.op]}
        if "weights" in inputs:
            how = {"memory_format": FORMATS[rank]} if mode == CHANNELS_LAST else {}
            inputs["weights"] = inputs["weights"].contiguous(**how)
        found: list[Any] = [None]
        transposed = row.op.startswith("ConvTranspose")
        rests = shape.rests if transposed else (0,) * rank
        options = (shape.strides, shape.pads_begin, shape.dilations, transposed, rests, shape.groups)
        if "Backward" not in row.op:
            compute = partial(torch.ops.aten.convolution, *inputs.values(), None, *options)
        else:
            # Only the shape of the differentiated tensor is used; in a user's program it exists.
            given = {**inputs, row.solve: tensor(tensors.canonical(row.solve)).contiguous()}
            order = ("big", "small", "weights") if transposed else ("small", "big", "weights")
            compute = partial(_gradient, row.solve == "weights", *(given[name] for name in order), None, *options)

        def run() -> None:
            with torch.inference_mode():
                found[0] = plain(compute(), row.layout if row.solve != "weights" else None)

        return Ready(run=run, result=lambda: array(found[0]))


def _gradient(of_weights: bool, *arguments: Any) -> Any:
    mask = [not of_weights, of_weights, False]
    return torch.ops.aten.convolution_backward(*arguments, mask)[int(of_weights)]


def plain(result: Any, layout: str | None) -> Any:
    """The result with its elements in the order of the layout; weights in any order that PyTorch gives them."""
    if layout == "NCX":
        return result.contiguous()
    return result if layout is None else result.movedim(1, -1).contiguous().movedim(-1, 1)


def tensor(given: Array) -> Any:
    """The same memory as PyTorch sees it, which knows bf16 but not NumPy's."""
    if given.dtype.name != "bfloat16":
        return torch.from_numpy(given)
    return torch.from_numpy(given.view(np.int16)).view(torch.bfloat16)


def array(found: Any) -> Array:
    result: Array = found.float().numpy() if found.dtype == torch.bfloat16 else found.numpy()
    return result
