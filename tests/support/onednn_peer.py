"""oneDNN as a witness, through its C Graph API in a process of its own.

In: a `Call`. Out: oneDNN's output, or how it failed: `Unsupported` where it refuses, `Died` where its process ended or
took too long. The process that asks never crashes and never waits longer than its limit. `OneDnn.run` puts the call to
the library as it stands, in the library's spelling: what its users get. `Oracle.compute` asks in a way that avoids what
is known to be wrong there. R1 to R14 are the rulings that the specs record as discrepancies.
"""

from __future__ import annotations

import importlib.metadata
import os
import signal
import subprocess
import sys
from dataclasses import dataclass
from functools import cache
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np
from support.call import Call
from support.peer_geometry import Problem, channels_then_spatial, problem, spatial_first, wanted_shape

CHILD = Path(__file__).with_name("onednn_child.py")
LIBRARY_SPELLING = {"none": "None", "same_upper": "SAME_UPPER", "same_lower": "SAME_LOWER", "valid": "VALID"}
DTYPES = {"float32": "f32", "float16": "f16", "bfloat16": "bf16", "int32": "s32"}
TWINS = {
    "ConvolutionBackwardData": "ConvTranspose",
    "ConvTransposeBackwardData": "Convolution",
    "ConvTransposeBackwardWeights": "ConvolutionBackwardWeights",
}
TWIN_FORMATS = {"OIX": "IOX", "XIO": "XOI", "IOX": "OIX", "XOI": "XIO"}


@dataclass(frozen=True)
class Unsupported:
    """oneDNN refused with a status of its C API, at the function (without its prefix) that returned it."""

    status: str
    stage: str = ""


@dataclass(frozen=True)
class Died:
    """oneDNN's process ended, or was ended after the time limit."""

    reason: str


@cache
def library() -> Path | None:
    """The library of the installed package `onednn`, if there is one."""
    try:
        files = importlib.metadata.files("onednn") or []
    except importlib.metadata.PackageNotFoundError:
        files = []
    found = [Path(file.locate()).resolve() for file in files if file.name == "libdnnl.so.3"]
    return next((path for path in [*found, Path(sys.prefix, "lib", "libdnnl.so.3")] if path.is_file()), None)


def available() -> bool:
    """Whether oneDNN is installed."""
    return library() is not None


class OneDnn:
    """A running oneDNN. It starts when first asked, starts again after it died, and ends with `close` or `with`."""

    def __init__(self, seconds: float = 60, directory: Path | None = None, **environment: str) -> None:
        """Allow `seconds` for each call; run in `directory` with these variables added to the child's environment."""
        self._seconds, self._directory, self._environment = seconds, directory, environment
        self._child: subprocess.Popen[bytes] | None = None
        self._connection: Connection | None = None

    def run(self, call: Call) -> np.ndarray | Unsupported | Died:
        """What oneDNN says to this very call."""
        inputs = {number: array for number, array in enumerate(call.inputs) if array is not None}
        arrays = {number: np.array(array, order="C") for number, array in inputs.items()}
        dtype = DTYPES[arrays[0].dtype.name]
        op = {
            "kind": call.op,
            "attributes": library_attributes(call.attributes),
            "inputs": [
                {"id": number, "dtype": DTYPES[array.dtype.name], "dims": array.shape, "strides": _strides(array)}
                for number, array in arrays.items()
            ],
            "outputs": [{"id": len(call.inputs), "dtype": dtype, "dims": [None] * arrays[0].ndim, "strides": None}],
        }
        return self.ask({"ops": [op], "arrays": arrays})

    def ask(self, request: dict[str, Any]) -> Any:
        """The child's answer to a request, as `onednn_child` describes both."""
        self._start()
        try:
            self._connection.send(request)
            if not self._connection.poll(self._seconds):
                return self._buried(f"no answer within {self._seconds:g} s")
            verdict, answer = self._connection.recv()
        except (EOFError, OSError):
            return self._buried(None)
        return answer if verdict == "done" else Unsupported(answer[1], answer[0])

    def close(self) -> None:
        """End the child."""
        if self._child is not None:
            self._buried("closed")

    def __enter__(self) -> OneDnn:
        """Return itself: the child starts with the first call."""
        return self

    def __exit__(self, *_: object) -> None:
        """End the child."""
        self.close()

    def _start(self) -> None:
        if self._child is not None:
            return
        path = library()
        if path is None:
            raise FileNotFoundError("oneDNN is not installed: pip install onednn")
        self._connection, theirs = Pipe()
        command = [sys.executable, str(CHILD), str(path), str(theirs.fileno())]
        self._child = subprocess.Popen(
            command,
            env=environment(path.parent) | self._environment,
            cwd=self._directory,
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        theirs.close()

    def _buried(self, reason: str | None) -> Died:
        """End the child and say why: for the reason given, or else for the one that its exit code tells."""
        child, self._child = self._child, None
        self._connection.close()
        if reason is not None:
            child.kill()
        try:
            code = child.wait(timeout=5)
        except subprocess.TimeoutExpired:
            child.kill()
            code = child.wait()
        return Died(reason or (signal.Signals(-code).name if code < 0 else f"exit code {code}"))


class Oracle(OneDnn):
    """oneDNN where it can be believed.

    Capped at AVX2 and in f32, version 3.13.2 agreed with PyTorch on all of 17,000 random calls that `trusted` let
    through. With its AVX-512 kernels about 1 in 1,000 was silently wrong, most of them bf16 with few channels.
    """

    def __init__(self, seconds: float = 60) -> None:
        """Allow `seconds` for each call."""
        super().__init__(seconds, ONEDNN_MAX_CPU_ISA="AVX2")

    def compute(self, call: Call) -> np.ndarray | Unsupported | Died | None:
        """What a legal call must give, in its own type and arrangement; None where oneDNN can't say."""
        asked = trusted(call)
        answer = None if asked is None else self.run(asked)
        if not isinstance(answer, np.ndarray):
            return answer
        with np.errstate(over="ignore"):
            answer = answer.astype(call.inputs[0].dtype)
        posed = problem(call)
        if posed.finds == "weights" and posed.page_arrangement:
            return posed.restore(channels_then_spatial(answer) if posed.weights_last else answer)
        return answer


def environment(folder: Path) -> dict[str, str]:
    """The environment that the library in `folder` needs, without settings of ours that would change what it does."""
    ours = {name: value for name, value in os.environ.items() if not name.startswith(("ONEDNN_", "DNNL_"))}
    paths = [str(folder), *filter(None, [ours.get("LD_LIBRARY_PATH")])]
    runtime = folder / "libintelocl.so"
    driver = {"OCL_ICD_FILENAMES": str(runtime)} if runtime.is_file() else {}
    return ours | driver | {"LD_LIBRARY_PATH": os.pathsep.join(paths)}


def library_attributes(attributes: dict[str, Any]) -> dict[str, Any]:
    """Attributes of a page in oneDNN's spelling: only `auto_pad` differs (R3)."""
    return {
        name: LIBRARY_SPELLING.get(value, value) if name == "auto_pad" else value for name, value in attributes.items()
    }


def trusted(call: Call) -> Call | None:
    """The call in f32 whose answer by oneDNN must be ours for this legal call, or None where there is no such call.

    The answer still has to be rounded to the call's type, and, of ConvTransposeBackwardWeights in the page's
    arrangement (R1), to be brought to that. f32 because f16 is refused (R9) and bf16 has silent errors, see `Oracle`.
    """
    asked = problem(call)
    if any(array is not None and 0 in array.shape for array in call.inputs):  # R14
        return None
    if call.op == "ConvTranspose" and any(axis.output_padding >= axis.stride for axis in asked.axes):  # R7
        return None
    inputs = [array.astype(np.float32) if _is_float(array) else array for array in call.inputs]
    attributes, shape = dict(call.attributes), wanted_shape(call)
    if shape:  # R8
        inputs = inputs[:2]
        attributes["dst_shape" if call.op == "ConvolutionBackwardData" else "weights_shape"] = list(shape)
    if asked.page_arrangement:  # R1
        if asked.finds == "weights":
            attributes["weights_shape"] = _library_shape(asked)
        else:
            weights = asked.weights.astype(np.float32)
            inputs[1] = spatial_first(weights) if asked.weights_last else weights
    padding = list(attributes.pop("output_padding", None) or ())[: len(asked.axes)]
    if any(padding):  # R7: some ops refuse even zeros
        attributes["output_padding"] = padding
    stated = Call(call.op, tuple(inputs), attributes)
    same = attributes.get("auto_pad", "none").lower().startswith("same")
    padded = any(attributes.get("output_padding", ()))
    wrong = {
        "ConvolutionBackwardData": asked.groups > 1 or (same and padded),  # R10, R5
        "ConvTransposeBackwardData": padded or any(axis.dilation > 1 for axis in asked.axes),  # R7, R11
        "ConvTransposeBackwardWeights": padded or same,  # R7, R5
    }
    return _twin(stated, asked) if wrong.get(call.op) else stated


def _is_float(array: np.ndarray | None) -> bool:
    return array is not None and array.dtype != np.int32


def _library_shape(asked: Problem) -> list[int]:
    """The shape of the weights that the problem finds, in the library's arrangement."""
    rows, columns = asked.small.shape[1], asked.big.shape[1] // asked.groups
    kernel = [axis.kernel for axis in asked.axes]
    return [*kernel, columns, rows] if asked.weights_last else [rows, columns, *kernel]


def _strides(array: np.ndarray) -> list[int]:
    return [step // array.itemsize for step in array.strides]


def _twin(call: Call, asked: Problem) -> Call:
    """The same computation as the op of the other family, with every size and pad explicit."""
    default = "XOI" if call.op.startswith("ConvTranspose") else "XIO"
    attributes = {
        "strides": [axis.stride for axis in asked.axes],
        "pads_begin": [axis.begin for axis in asked.axes],
        "pads_end": [axis.end for axis in asked.axes],
        "dilations": [axis.dilation for axis in asked.axes],
        "groups": asked.groups,
        "data_format": "NXC" if asked.channels_last else "NCX",
        "weights_format": TWIN_FORMATS[call.attributes.get("weights_format", default)],
    }
    first, second = call.inputs[:2]
    if call.op == "ConvolutionBackwardData":
        attributes["output_padding"] = [axis.big - (axis.span - axis.begin - axis.end) for axis in asked.axes]
        inputs = first, second
    else:
        # A stated output_padding takes end padding back; beyond that it adds cells that no tap reaches.
        ends = [axis.end - axis.output_padding for axis in asked.axes]
        attributes["pads_end"] = [max(end, 0) for end in ends]
        reached = [slice(axis.big + min(end, 0)) for axis, end in zip(asked.axes, ends, strict=True)]
        cut = (slice(None), *reached) if asked.channels_last else (slice(None), slice(None), *reached)
        if call.op == "ConvTransposeBackwardData":
            inputs = first[cut], second
        else:
            attributes["weights_shape"] = call.attributes["weights_shape"]
            inputs = second[cut], first
    return Call(TWINS[call.op], inputs, attributes)
