"""Run in an environment without a compiler: an installed package agrees with the interpreter of its specs.

Arguments: the package's name, the folder of its specs, the calls of each operation and instruction set. What is printed
ends with the time of the import and of the first call, in seconds of CPU.
"""

from __future__ import annotations

import importlib
import json
import sys
import time
from collections import Counter
from pathlib import Path

import cffi  # with NumPy and ml_dtypes what the package needs, and no part of its import
import ml_dtypes
import numpy as np

assert cffi
assert ml_dtypes


def main(name: str, specs: Path, calls: int) -> None:
    started = time.process_time()
    module = importlib.import_module(name)
    imported = time.process_time() - started
    from opwright.load import load
    from support import spec_packages, step_verdicts
    from support.step_calls import StepCaller

    library, checked, first, seen = load(specs, specs.parent), 0, None, Counter[str]()
    for op in library.ops:
        if first is None and op.semantics.steps:
            call = next(StepCaller(op, np.random.default_rng(0)).legal(1))
            started = time.process_time()
            getattr(module, op.function)(*call.inputs, **call.attributes)
            first = time.process_time() - started
        for isa in spec_packages.usable(module):
            if isa not in {variant.isa for variant in module.variants(op.op)}:
                continue
            with spec_packages.instruction_set(module, isa):
                agree = step_verdicts if op.semantics.steps else spec_packages
                problem = agree.first_disagreement(module, op, np.random.default_rng(0), calls, seen)
                assert problem is None, f"{isa}: {problem}"
                checked += 1
    compiling = [part for part in ("_build", "_compiler", "_cache") if f"{name}.{part}" in sys.modules]
    print(json.dumps({"checked": checked, "compiling": compiling, "import": imported, "first": first}))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]))
