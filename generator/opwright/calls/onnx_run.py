"""Executes an ONNX model on the generated package, and compares it with ONNX's reference evaluator if asked to.

In: a model file, and where its inputs come from. Out: a `RanModel`. The package's module `onnx` does the work; the
model is a stranger's, and what is wrong with it is a UsageError that names it.
"""

from __future__ import annotations

import importlib
import json
import math
import resource
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from ..console import bar, say, table
from ..errors import Failed, UsageError
from ..oracle.witness import Array
from .graph_run import VALUES
from .package import refusals

NEAR = 1e-3  # how far f32 results may be from the reference's, of the largest magnitude in an output; f16 ten times
MAX_CELLS = 2**28  # cells of an input that is drawn


@dataclass(frozen=True)
class Checked:
    """An output beside the reference's: the greatest difference by the greatest magnitude, and whether that is near."""

    name: str
    difference: float
    right: bool


@dataclass(frozen=True)
class RanModel:
    """What was run, and what the reference says of it; `checked` is empty unless that was asked for.

    `nodes` are the package's records of them: `Ran` of its module `onnx`.
    """

    inputs: Mapping[str, str]
    nodes: tuple[Any, ...]
    outputs: Mapping[str, Array]
    checked: tuple[Checked, ...]

    @property
    def right(self) -> bool:
        return all(one.right for one in self.checked)


@dataclass(frozen=True)
class Inputs:
    """Arrays by name (an empty name: the model's first input that has none), and how the others are drawn."""

    arrays: Sequence[tuple[str, Array]]
    seed: int = 0
    values: str = "integers"


def read_inputs(given: Sequence[str]) -> list[tuple[str, Array]]:
    """The arrays of `[NAME=]FILE.npy` arguments. UsageError where a file is none."""
    found = []
    for text in given:
        name, _, path = text.rpartition("=")
        try:
            found.append((name, np.load(path, allow_pickle=False)))
        except OSError as error:
            raise UsageError(f"--input {path}: {error.strerror or error}") from None
        except (ValueError, EOFError):
            raise UsageError(f"--input {path}: not a .npy file of a plain array") from None
    return found


def run(
    package: Any, path: Path, inputs: Inputs, threads: int | None, check: bool, console: Console | None
) -> RanModel:
    """Run a model, twice, so that times are those of kernels which are there; `console` shows progress."""
    integration = _integration(package)
    with _refused(integration, path), refusals(package), _memory():
        model = integration.load(path, threads=threads)
        arrays, origins = _arrays(model, inputs)
        with bar(console, "running", transient=True) as moved:
            model.run(arrays, progress=lambda done, total, ran: moved(ran.op_type, done, total))
        outputs = dict(zip(model.outputs, model.run(arrays), strict=True))
        checked = tuple(_checked(model.model, arrays, outputs, path)) if check else ()
    return RanModel(origins, model.report.nodes, outputs, checked)


@contextmanager
def _memory() -> Iterator[None]:
    """A stranger's model gets no more memory than there is: it fails, and the machine does not."""
    try:
        words = dict(line.split(":") for line in Path("/proc/meminfo").read_text().splitlines())
        used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        most = used + int(words["MemAvailable"].split()[0]) * 1024
    except (OSError, KeyError, ValueError):  # no Linux
        yield
        return
    before, hard = resource.getrlimit(resource.RLIMIT_AS)
    limits = [most, *(one for one in (before, hard) if one != resource.RLIM_INFINITY)]
    resource.setrlimit(resource.RLIMIT_AS, (min(limits), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (before, hard))


def _integration(package: Any) -> Any:
    try:
        return importlib.import_module(f"{package.__name__}.onnx")
    except ModuleNotFoundError as error:
        raise UsageError(f"models need {error.name}, which is not installed: pip install 'opwright[onnx]'") from None


@contextmanager
def _refused(integration: Any, path: Path) -> Any:
    try:
        yield
    except integration.ModelError as error:
        reason = str(error)
        raise UsageError(reason if reason.startswith(str(path)) else f"{path}: {reason}") from None
    except MemoryError as error:
        raise Failed(f"{path}: more memory is needed than there is: {error}") from None


def _arrays(model: Any, inputs: Inputs) -> tuple[dict[str, Array], dict[str, str]]:
    """An array for every input, and where each came from."""
    known = [one.name for one in model.inputs]
    found: dict[str, Array] = {}
    for name, array in inputs.arrays:
        free = [one for one in known if one not in found]
        own = name or (free[0] if free else "")
        if own not in known:
            raise UsageError(f"--input: the model has no input {own[:80]!r}; its inputs are {', '.join(known)}")
        found[own] = array
    origins = dict.fromkeys(found, "from --input")
    random = np.random.default_rng(inputs.seed)
    for one in model.inputs:
        if one.name not in found:
            found[one.name] = _drawn(one, random, VALUES[inputs.values])
            origins[one.name] = f"random {inputs.values}, seed {inputs.seed}"
    return found, origins


def _drawn(info: Any, random: np.random.Generator, draw: Callable[..., Array]) -> Array:
    """Random numbers as the graph declares an input; an extent that has a name or is open is 1."""
    import onnx

    declared = info.type.tensor_type
    if not info.type.HasField("tensor_type") or declared.elem_type == onnx.TensorProto.STRING:
        raise UsageError(f"input {info.name!r} is no tensor of numbers; it cannot be drawn")
    if not declared.HasField("shape"):
        raise UsageError(f"the shape of input {info.name!r} is open; give it with --input {info.name}=FILE.npy")
    shape = tuple(axis.dim_value if axis.HasField("dim_value") else 1 for axis in declared.shape.dim)
    if math.prod(shape) > MAX_CELLS:
        raise UsageError(f"input {info.name!r} has {math.prod(shape)} cells; give it with --input {info.name}=FILE.npy")
    return draw(random, shape).astype(onnx.helper.tensor_dtype_to_np_dtype(declared.elem_type))


def _checked(model: Any, inputs: Mapping[str, Array], outputs: Mapping[str, Array], path: Path) -> list[Checked]:
    from onnx.reference import ReferenceEvaluator

    try:
        wanted = ReferenceEvaluator(model).run(None, dict(inputs))
    except Exception as error:  # whatever the reference raises of a model that it cannot run
        raise Failed(f"{path}: ONNX's reference does not run it: {str(error) or type(error).__name__}") from None
    return [_compared(name, outputs[name], other) for name, other in zip(outputs, wanted, strict=True)]


def _compared(name: str, found: Any, wanted: Any) -> Checked:
    if not isinstance(found, np.ndarray) or not isinstance(wanted, np.ndarray) or found.dtype.kind in "OUS":
        same = np.array_equal(np.asarray(found, object), np.asarray(wanted, object))
        return Checked(name, 0.0 if same else math.inf, same)
    if found.shape != wanted.shape or found.dtype != wanted.dtype:
        return Checked(name, math.inf, False)
    near = NEAR if found.dtype.itemsize >= np.dtype(np.float32).itemsize else 10 * NEAR
    ours, theirs = found.astype(np.float64), wanted.astype(np.float64)
    finite = np.isfinite(theirs)
    if not np.array_equal(ours[~finite], theirs[~finite], equal_nan=True):
        return Checked(name, math.inf, False)
    scale = np.abs(theirs[finite]).max(initial=0.0) or 1.0
    difference = float(np.abs(ours[finite] - theirs[finite]).max(initial=0.0) / scale)
    return Checked(name, difference, difference <= near)


def show(ran: RanModel, out: Console) -> None:
    """Inputs, nodes with their times, outputs, and the check."""
    table(out, "inputs", ("input", "numbers"), list(ran.inputs.items()))
    rows = [
        (n.op_type, n.name, n.function or "ONNX's reference", f"{n.seconds * 1e3:.3f} ms", n.why) for n in ran.nodes
    ]
    table(out, "nodes", ("node", "name", "ran as", "time", "why"), rows)
    described = [(name, _words(value)) for name, value in ran.outputs.items()]
    table(out, "outputs", ("output", "holds"), described)
    here = sum(bool(node.function) for node in ran.nodes)
    say(out, f"{here} of {len(ran.nodes)} nodes ran on this package's kernels")
    for one in ran.checked:
        verdict = "agrees with ONNX's reference" if one.right else "DIFFERS from ONNX's reference"
        say(out, f"{one.name} {verdict}: at most {one.difference:.2g} of its greatest magnitude apart")


def as_json(ran: RanModel) -> str:
    fields = {
        "inputs": dict(ran.inputs),
        "nodes": [asdict(node) for node in ran.nodes],
        "outputs": {name: _words(value) for name, value in ran.outputs.items()},
        "checked": [asdict(one) for one in ran.checked],
    }
    return json.dumps(fields, indent=1)


def save(ran: RanModel, path: Path) -> None:
    """The outputs as one .npz file."""
    with open(path, "wb") as stream:
        np.savez(stream, **{name: np.asarray(value) for name, value in ran.outputs.items()})  # type: ignore[arg-type]


def _words(value: Any) -> str:
    return f"{value.dtype} {list(value.shape)}" if isinstance(value, np.ndarray) else type(value).__name__
