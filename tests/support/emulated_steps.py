"""Kernels of AVX-512 on a CPU without it, by the compiler emulating_cc.py.

In: a seed, how many calls of each, names of shipped operations of steps. Out: how many calls were right; an error names
the first one that was not.
"""

from __future__ import annotations

import functools
import sys

import numpy as np
import opwright_kernels as ok
from opwright.load import load
from opwright_kernels import _compiler, _isa

from .checkout import ROOT
from .step_calls import StepCaller
from .step_verdicts import disagreement, outputs

EMULATED = frozenset(["avx512bw", "avx512cd", "avx512dq", "avx512f", "avx512vl"])


def campaign(seed: int, count: int, names: list[str]) -> int:
    """Random calls on kernels of AVX-512, on one thread and on three, agree with the interpreter and with each other."""
    flags = _isa.cpu_flags() | EMULATED
    _isa.cpu_flags = _compiler.cpu_flags = lambda: flags
    library = load(ROOT / "spec" / "onednn_graph", ROOT)
    random, right = np.random.default_rng(seed), 0
    for op in map(library.op, names):
        for call in StepCaller(op, random).legal(count):
            shapes = [getattr(array, "shape", array) for array in call.inputs]
            chosen = ok.explain(op.op, *call.inputs, **call.attributes).variant.isa
            assert chosen == "avx512", (op.op, shapes, chosen)
            problem = disagreement(ok, op, call, threads=1)
            assert problem is None, (op.op, call.attributes, shapes, problem)
            function = functools.partial(getattr(ok, op.function), *call.inputs, **call.attributes)
            alone, shared = ([array.tobytes() for array in outputs(function(threads=n))] for n in (1, 3))
            assert alone == shared, (op.op, shapes)
            right += 1
    return right


if __name__ == "__main__":
    print(campaign(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]), "right")
