"""The process in which a review runs generated kernels, because one of them may crash or never end.

In: the current folder has the package `opwright_kernels`, `calls.json` and `inputs.npz`; the arguments are the number
of the first call to make and the seconds that a call may take. Out: a line of JSON per call, and `<number>.<place>.npy`
for each output. Arrays are passed as unsigned integers of the same item size. Uses only public names of the package.
"""

from __future__ import annotations

import importlib
import json
import resource
import signal
import sys
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

PACKAGE = "opwright_kernels"
MEMORY = 16 * 2**30  # of address space, most of which compilers and threads only reserve
DTYPES = {"bf16": np.dtype(ml_dtypes.bfloat16), "f16": np.dtype(np.float16), "f32": np.dtype(np.float32),
          "f64": np.dtype(np.float64), "s32": np.dtype(np.int32), "s64": np.dtype(np.int64), "u64": np.dtype(np.uint64),
          "s8": np.dtype(np.int8), "u8": np.dtype(np.uint8),
          "f8_e4m3": np.dtype(ml_dtypes.float8_e4m3fn), "f8_e5m2": np.dtype(ml_dtypes.float8_e5m2),
          "s4": np.dtype(ml_dtypes.int4), "u4": np.dtype(ml_dtypes.uint4), "boolean": np.dtype(np.bool_)}  # fmt: skip


def main(first: int, seconds: int) -> None:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    _, maximum = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY if maximum < 0 else min(MEMORY, maximum), maximum))
    sys.path.insert(0, str(Path.cwd()))
    package = importlib.import_module(PACKAGE)
    calls = json.loads(Path("calls.json").read_text(encoding="utf-8"))
    with np.load("inputs.npz", allow_pickle=False) as arrays:
        for number, call in enumerate(calls):
            if number >= first:
                inputs = {name: _given(arrays, tensor) for name, tensor in call["tensors"].items()}
                inputs |= {name: np.array(vector, np.int32) for name, vector in call["vectors"].items()}
                print(json.dumps({"call": number, **_made(package, call, inputs, number, seconds)}), flush=True)


def _given(arrays: Any, tensor: dict[str, Any]) -> Any:
    """A tensor, or the list of tensors of a variadic input."""
    parts = [arrays[key].view(DTYPES[dtype]) for key, dtype in tensor["parts"]]
    return parts if tensor["list"] else parts[0]


def _made(package: Any, call: dict[str, Any], inputs: dict[str, Any], number: int, seconds: int) -> dict[str, Any]:
    """Make one call: the type and shape of its result, or the refusal."""
    arguments = {**{name: array for name, array in inputs.items() if not name.isdigit()}, **call["values"]}
    places = [inputs[name] for name in sorted(filter(str.isdigit, inputs), key=int)]
    try:
        package.infer_shape(call["function"], *places, **arguments)  # a refusal needs no kernels
        package.build_kernels(call["function"])
        kernel = package.explain(call["function"], *places, **arguments).variant.name
        signal.alarm(seconds)  # without a handler it ends the process, whatever C is doing
        result = getattr(package, call["function"])(*places, **arguments, threads=1)
        signal.alarm(0)
    except package.SpecError as error:
        return {"rule": error.rule}
    except package.BuildError as error:
        return {"trouble": f"its kernels cannot be built: {str(error).splitlines()[0]}"}
    except TypeError as error:
        return {"rule": f"TypeError: {error}"}
    except Exception as error:  # any error is an answer: the parent reports it as the trouble of this call
        return {"trouble": f"{type(error).__name__}: {error}"}
    outputs = result if isinstance(result, tuple) else (result,)
    for place, output in enumerate(outputs):
        np.save(f"{number}.{place}.npy", np.ascontiguousarray(output).view(f"u{output.dtype.itemsize}"))
    results = [(next(word for word, dtype in DTYPES.items() if dtype == o.dtype), list(o.shape)) for o in outputs]
    return {"outputs": results, "kernel": kernel}


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
