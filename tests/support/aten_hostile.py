"""Random arguments of PyTorch's own functions, within `enabled()` and without it; a line for each that differs.

`python -m support.aten_hostile conv2d softmax` takes some functions, no name all of them. Before each call its name goes to
stderr, so that a crash names it; the last line has the number of calls.
"""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import opwright_kernels.torch as kernels
import torch
from support.torch_hostile import TENSORS
from torch.nn import functional

Function = tuple[Callable[..., Any], Sequence[torch.Tensor]]
# PyTorch itself crashes on memory that is not there; sizes beyond memory, and kinds that no kernel here sees, take long.
LEFT_OUT = {"freed", "shortened", "65 axes", "64 axes", "large", "huge", "dtype", "meta", "jagged", "nested"}

WRONG = {("attention", 0, "overlapping")}  # in PyTorch, whose result overlaps as the queries do


def functions() -> dict[str, Function]:
    some, image = torch.arange(12.0).reshape(3, 4) / 7, torch.randn(2, 4, 6, 5)
    other, stack = some.T.contiguous(), torch.randn(2, 3, 4)
    return {
        "conv2d": (lambda a, b, c: functional.conv2d(a, b, c, stride=2, padding=1), [image, torch.randn(6, 4, 3, 3), torch.randn(6)]),
        "conv1d": (lambda a, b: functional.conv1d(a, b, groups=2, dilation=2), [torch.randn(2, 4, 9), torch.randn(6, 2, 3)]),
        "conv_transpose2d": (
            lambda a, b, c: functional.conv_transpose2d(a, b, c, stride=2, output_padding=1),
            [image, torch.randn(4, 6, 3, 3), torch.randn(6)],
        ),
        "mm": (torch.mm, [some, other]),
        "mm into": (lambda a, b, c: torch.mm(a, b, out=c), [some, other, torch.empty(3, 3)]),
        "bmm": (torch.bmm, [stack, stack.mT.contiguous()]),
        "bmm into": (lambda a, b, c: torch.bmm(a, b, out=c), [stack, stack.mT.contiguous(), torch.empty(2, 3, 3)]),
        "addmm": (torch.addmm, [torch.randn(3), some, other]),
        "linear": (functional.linear, [stack, torch.randn(5, 4), torch.randn(5)]),
        "attention": (functional.scaled_dot_product_attention, [torch.randn(2, 2, 5, 8) for _ in range(3)]),
        "softmax": (lambda a: torch.softmax(a, -1), [some]),
        "log_softmax": (lambda a: torch.log_softmax(a, 0), [some]),
        "log": (torch.log, [some + 1]),
        **{one.__name__: (one, [some]) for one in (functional.gelu, functional.mish, functional.softplus, torch.tanh, torch.exp, torch.sqrt)},
    }  # fmt: skip


def outcome(call: Callable[[], Any]) -> tuple[Any, ...]:
    """The kind of an error, or what a result is and its numbers."""
    try:
        made = call()
        made.clone()
    except Exception as error:
        return "error", type(error).__name__
    facts = (
        str(made.dtype),
        tuple(made.shape),
        str(made.device),
        made.requires_grad,
        str(made.layout),
        type(made).__name__,
    )
    plain = facts[2] == "cpu" and made.layout is torch.strided and facts[-1] not in ("FakeTensor", "Wrapped")
    if not plain or made.is_nested or made.is_quantized:
        return "result", facts, None
    return "result", facts, made.detach().as_subclass(torch.Tensor).to(torch.complex128)


def same(one: tuple[Any, ...], other: tuple[Any, ...]) -> bool:
    if one[:2] != other[:2] or one[0] == "error" or one[2] is None:
        return one[:2] == other[:2]
    return torch.allclose(one[2], other[2], rtol=1e-4, atol=1e-4, equal_nan=True)


def main(wanted: Sequence[str]) -> None:
    torch.manual_seed(0)
    warnings.simplefilter("ignore")
    count = 0
    for name, (function, tensors) in functions().items():
        for at in range(len(tensors)) if not wanted or name in wanted else ():
            for change in (one for one in TENSORS if one not in LEFT_OUT):
                found = []
                for within in (False, True):
                    given = [one.clone() for one in tensors]
                    try:
                        given[at] = TENSORS[change](given[at], np.random.default_rng(0))
                    except Exception:  # a change that PyTorch does not let make of this tensor
                        break
                    print(json.dumps([name, at, change, within]), file=sys.stderr, flush=True)
                    with kernels.enabled() if within else torch.enable_grad():
                        found.append([outcome(lambda: function(*given)) for _ in range(3)])  # noqa: B023
                if len(found) == 2:
                    count += 1
                    for one, other in zip(*found):
                        if not same(one, other) and (name, at, change) not in WRONG:
                            print(json.dumps([name, at, change, str(one[:2]), str(other[:2])]))
                            break
    print(count)


if __name__ == "__main__":
    main(sys.argv[1:])
