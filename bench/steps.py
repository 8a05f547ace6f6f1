"""The rows of operations of steps: each case of step_cases.py in each of its dtypes, and how candidates compute them.

In: nothing. Out: rows beside those of rows.py, of the same form. `opwright bench --filter softmax` measures some.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from .candidate import Ready
from .case_row import CaseRow
from .step_cases import CASES, Case
from .tensors import NUMPY, Array, empty

THREADS = (2, 1)
LARGE = 48 << 20  # bytes that no cache of common machines holds
_BY_NAME = {f"{case.group}/{case.op}/{case.name}": case for case in CASES}


@dataclass(frozen=True)
class StepRow(CaseRow):
    """A row of a case."""

    @property
    def case(self) -> Case:
        return _BY_NAME[self.case_name]

    @property
    def result_dtype(self) -> str:
        return self.case.dst or self.dtype

    @property
    def bytes(self) -> int:
        """The least that must move between memory and the CPU."""
        read: int = sum(math.prod(extents) for extents in self.case.inputs) * NUMPY[self.dtype].itemsize
        written: int = math.prod(result_extents(self)) * NUMPY[self.result_dtype].itemsize
        return read + written

    def tensors(self) -> StepTensors:
        return StepTensors(self)


class StepTensors:
    """The arrays of a row: numbers that bf16 holds, the same in every dtype, and the result, which ours says."""

    def __init__(self, row: StepRow) -> None:
        self.row, case = row, row.case
        self.inputs: list[Array] = []
        for number, extents in enumerate(case.inputs):
            generator = np.random.default_rng(zlib.crc32(f"{case.name} {number}".encode()))
            values = generator.standard_normal(extents, np.float32).astype(NUMPY["bf16"])
            array = empty(extents, NUMPY[row.dtype])
            array[...] = abs(values) + NUMPY["bf16"].type(0.5) if case.positive else values
            self.inputs.append(array)
        self.result: Array = np.empty(0)

    def outputs(self) -> list[Array]:
        """Arrays to write into, the first of them the result."""
        import opwright_kernels as kernels

        attributes = dict(self.row.case.attributes)
        asked = getattr(kernels, self.row.case.op)
        dtype = NUMPY[self.row.result_dtype]
        if self.row.case.dst:
            attributes["dtype"] = self.row.case.dst
        made = asked(*self.inputs, **attributes)
        found = [empty(one.shape, one.dtype) for one in (made if isinstance(made, tuple) else (made,))]
        assert found[0].dtype == dtype
        self.result = found[0]
        self.forget()
        return found

    def forget(self) -> None:
        """Overwrite the result, so that a cell that nobody writes is found."""
        self.result[...] = 77


def every() -> list[StepRow]:
    """Every row."""
    return [StepRow(name, dtype, n) for name, case in _BY_NAME.items() for dtype in case.dtypes for n in THREADS]


@cache
def result_extents(row: StepRow) -> tuple[int, ...]:
    """The extents of the result, the first of several."""
    import opwright_kernels as kernels

    given = [kernels.TensorSpec(extents, NUMPY[row.dtype].name) for extents in row.case.inputs]
    stated = {"dtype": row.case.dst} if row.case.dst else {}
    found: Any = kernels.infer_shape(row.case.op, *given, **row.case.attributes, **stated)
    return tuple(found[0] if found and isinstance(found[0], tuple) else found)


# How each candidate computes them.


def ours(tensors: StepTensors, threads: int) -> Ready:
    """The public function of the package."""
    import opwright_kernels

    case, given = tensors.row.case, tensors.inputs
    function, attributes = getattr(opwright_kernels, case.op), dict(case.attributes)
    outputs = tensors.outputs()
    out: Any = tuple(outputs) if len(outputs) > 1 else outputs[0]
    return Ready(lambda: function(*given, **attributes, out=out, threads=threads), lambda: tensors.result, case.op)


def computed(tensors: StepTensors, tensor: Callable[[Array], Any], array: Callable[[Any], Array]) -> Ready:
    """PyTorch's function; into an array that is there already where it can."""
    import torch

    case = tensors.row.case
    given = [tensor(one) for one in tensors.inputs]
    names = {"bf16": torch.bfloat16, "f16": torch.float16}
    # Without cells until the first call; in float64 where the exact result is asked for.
    kind = torch.float64 if tensors.row.dtype == "f64" else names.get(tensors.row.result_dtype, torch.float32)
    with torch.inference_mode():
        found = [torch.empty(0, dtype=kind)]

    def run() -> None:
        with torch.inference_mode():
            found[0] = plain(case.torch(*given, found[0]), case)

    return Ready(run=run, result=lambda: array(found[0]))


def plain(result: Any, case: Case) -> Any:
    """The result in the order of the row: PyTorch has channels in front."""
    return result.movedim(1, -1).contiguous() if case.attributes.get("data_format") == "NXC" else result


def exact(tensors: StepTensors) -> Ready:
    """PyTorch in float64."""
    import torch

    return computed(tensors, torch.from_numpy, lambda found: found.numpy())
