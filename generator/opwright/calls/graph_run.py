"""Executes a oneDNN graph dump of one operation and checks the result.

In: the call that graph_dump.py read, and the source of its data. Out: a `Ran`. Inputs have the strides of the graph
in memory, so the kernels see what oneDNN's user has. The graph is untrusted: nothing is allocated before all of it
is known to fit.
"""

from __future__ import annotations

import json
import math
import os
import time
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from ..console import table
from ..derive.program import program
from ..emit.python_signature import parameter_name
from ..errors import UsageError
from ..language.evaluate import evaluate
from ..language.library import Library
from ..language.model import Op, Tensor
from ..oracle.validate import NUMPY, validate
from ..oracle.validate_steps import validate_steps
from ..oracle.witness import Array, Verdict, check
from . import graph_dump
from .graph_dump import GraphCall, LogicalTensor
from .package import TENSOR_DTYPES, refusals

# The largest graph file that is read: a thousand times a dump of one operation.
MAX_TEXT = 4 * 2**20
FLOATS = ("bfloat16", "float8_e4m3fn", "float8_e5m2")  # a dtype that NumPy does not define
VALUES: dict[str, Callable[[np.random.Generator, tuple[int, ...]], Array]] = {
    "integers": lambda random, shape: random.integers(-4, 5, shape),
    "normal": lambda random, shape: random.standard_normal(shape),
}


@dataclass(frozen=True)
class Source:
    """The source of data: arrays by tensor id or argument name; for the others a seed and a distribution."""

    data: Mapping[str, Array]
    seed: int = 0
    values: str = "integers"


@dataclass(frozen=True)
class Described:
    """The description of an array; strides in elements."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    origin: str


@dataclass(frozen=True)
class Ran:
    """What was run, how fast, and the verdict of a witness."""

    op: str
    kernel: str
    threads: int
    seconds: float
    terms: int
    tensors: tuple[Described, ...]
    verdict: Verdict
    result: Array


def read_graph(path: Path, library: Library) -> GraphCall:
    """The call of a graph file."""
    try:
        with open(path, "rb") as stream:
            raw = stream.read(MAX_TEXT + 1)
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from None
    if len(raw) > MAX_TEXT:
        raise UsageError(f"{path}: larger than {MAX_TEXT >> 20} MiB, too large for a dump of one operation")
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise UsageError(f"{path}: not UTF-8 at byte {error.start}") from None
    return graph_dump.read(text, str(path), library)


def read_data(path: Path | None) -> dict[str, Array]:
    """The arrays of an .npz file; none without a file."""
    if path is None:
        return {}
    try:
        with zipfile.ZipFile(path) as archive:
            _affordable(
                sum(entry.file_size for entry in archive.infolist()), lambda reason: UsageError(f"{path}: {reason}")
            )
        with np.load(path, allow_pickle=False) as arrays:
            return {name: arrays[name] for name in arrays.files}
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror or error}") from None
    except (ValueError, EOFError, zipfile.BadZipFile) as error:
        raise UsageError(f"{path}: not an .npz file of plain arrays: {error}") from None


def run(package: Any, call: GraphCall, source: Source, threads: int | None = None) -> Ran:
    """Execute a call twice, so that the measured time excludes the build of the kernel."""
    op = call.op
    function = op.function
    shapes = _shapes(call, source)
    names = [parameter_name(tensor) for tensor in call.tensors[: len(shapes)]]
    described = [_stated(call, number, shapes, source) for number in range(len(shapes))]
    described = [
        package.TensorSpec(shapes[number], TENSOR_DTYPES[call.inputs[number].dtype]) if array is None else array
        for number, array in enumerate(described)
    ]
    with refusals(package):
        attributes = dict(call.attributes)
        asked = [described] if call.concatenates else described
        inferred = package.infer_shape(function, *asked, **attributes)
        plan = package.explain(function, *asked, threads=threads, **attributes)
    made = inferred if inferred and isinstance(inferred[0], tuple) else (inferred,)
    for logical, shape in zip(call.outputs, made, strict=True):
        _output_agrees(op, logical, shape)
    _fits(call, shapes, made)
    arrays = _arrays(call, shapes, described, source)
    given: list[Any] = [arrays] if call.concatenates else list(arrays)
    targets = tuple(_out(logical, shape) for logical, shape in zip(call.outputs, made, strict=True))
    out = targets[0] if len(op.outputs) == 1 else targets
    with refusals(package):
        seconds = math.inf
        for _ in range(2):
            started = time.perf_counter()
            result = getattr(package, function)(*given, **attributes, out=out, threads=threads)
            seconds = min(seconds, time.perf_counter() - started)
    results = result if isinstance(result, tuple) else (result,)
    terms = _terms(op, given, attributes)
    tensors = [
        _describe(name, array, origin)
        for name, array, origin in zip(names, arrays, _origins(call, source), strict=True)
    ]
    return Ran(
        op=op.op,
        kernel=plan.variant.name,
        threads=plan.threads,
        seconds=seconds,
        terms=terms,
        tensors=(*tensors, *(_describe(name, array, "computed") for name, array in _named(op, call, results))),
        verdict=check(op, given, attributes, terms, results[0] if not op.stepped else results),
        result=results[0],
    )


# Shapes first: nothing is allocated until all are known.


def _given(call: GraphCall, number: int, source: Source) -> Array | None:
    """The caller's data for an input, found by its parameter, its name in the spec, or its id in the graph."""
    tensor, logical = call.tensors[number], call.inputs[number]
    keys = (parameter_name(tensor), tensor.name, str(logical.id))
    return next((source.data[key] for key in keys if key in source.data), None)


def _shapes(call: GraphCall, source: Source) -> list[tuple[int, ...]]:
    """The shape of every input, from the graph or from the data; they must not contradict."""
    known = {
        key
        for tensor, logical in zip(call.tensors, call.inputs, strict=False)
        for key in (parameter_name(tensor), tensor.name, str(logical.id))
    }
    strange = sorted(source.data.keys() - known)
    if strange:
        raise UsageError(f"--data: there is no input {strange[0][:80]!r}; there are {', '.join(sorted(known))}")
    shapes = []
    for number, logical in enumerate(call.inputs):
        given = _given(call, number, source)
        name = parameter_name(call.tensors[number])
        if logical.shape is None and given is None:
            logical.node.at("shape").fail(
                f"the shape of {name} is unknown; pass its data with --data FILE.npz (key {name!r})"
            )
        if given is not None and logical.shape not in (None, given.shape):
            raise UsageError(f"--data: {name} has the shape {given.shape}, but the graph says {logical.shape}")
        shapes.append(given.shape if given is not None else logical.shape or ())
    return shapes


def _stated(call: GraphCall, number: int, shapes: list[tuple[int, ...]], source: Source) -> Array | None:
    """The content of an input that states the output's shape: from the data, else from the graph."""
    tensor, logical = call.tensors[number], call.inputs[number]
    if not tensor.shape_of:
        return None
    given = _given(call, number, source)
    if given is not None:
        return _converted(given, logical, parameter_name(tensor))
    if call.output.shape is None:
        name, output = parameter_name(tensor), tensor.shape_of
        logical.node.fail(f"the shape of {output} is unknown, and {name} states it; pass it with --data (key {name!r})")
    if logical.dtype != "s32":
        logical.node.at("dtype").fail(f"a shape is a vector of s32, not {logical.dtype}")
    if (len(call.output.shape),) != shapes[number] or max(call.output.shape, default=0) >= 2**31:
        logical.node.at("shape").fail(
            f"{list(shapes[number])} cannot hold the shape of {tensor.shape_of}, {list(call.output.shape)}"
        )
    return np.array(call.output.shape, np.int32)


def _output_agrees(op: Op, output: LogicalTensor, shape: tuple[int, ...]) -> None:
    if output.shape not in (None, shape):
        output.node.at("shape").fail(f"{list(output.shape or ())}, but the spec of {op.op} gives {list(shape)}")
    stride = output.stride
    reach = 0
    for extent, step in sorted(zip(shape, stride or (), strict=False), key=lambda pair: pair[1]):
        if extent > 1 and 0 not in shape:
            if step <= reach:
                output.node.at("stride").fail(f"with strides {list(stride or ())}, elements of the output share memory")
            reach += (extent - 1) * step


def _span(shape: tuple[int, ...], stride: tuple[int, ...] | None) -> int:
    """The number of memory cells from the first to the last."""
    if stride is None or 0 in shape:
        return math.prod(shape)
    return 1 + sum((extent - 1) * step for extent, step in zip(shape, stride, strict=True))


def _fits(call: GraphCall, shapes: list[tuple[int, ...]], made: Sequence[tuple[int, ...]]) -> None:
    """Refuse calls that exceed memory, naming the largest tensor. The check needs as much again, in f64."""
    tensors = [*zip(call.inputs, shapes, strict=True), *zip(call.outputs, made, strict=True)]
    spans = [
        max(_span(own, logical.stride), math.prod(own)) * NUMPY[logical.dtype].itemsize for logical, own in tensors
    ]
    largest = tensors[spans.index(max(spans))][0].node.at("shape")
    _affordable(sum(spans), lambda reason: UsageError(f"{largest.path}: {reason}"))


def _affordable(size: int, refusal: Callable[[str], UsageError]) -> None:
    limit = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 4
    if size > limit:
        quarter = f"a quarter of this machine's memory, {limit / 2**30:.1f} GiB"
        raise refusal(f"the tensors need {size / 2**30:.1f} GiB in total, more than {quarter}")


# Then the arrays.


def _arrays(call: GraphCall, shapes: list[tuple[int, ...]], described: list[Any], source: Source) -> list[Array]:
    """Every input, laid out. A tensor that the graph uses twice is one array."""
    random = np.random.default_rng(source.seed)
    made: dict[int, Array] = {}
    arrays = []
    for number, logical in enumerate(call.inputs):
        if logical.id not in made:
            content = described[number] if isinstance(described[number], np.ndarray) else _given(call, number, source)
            if content is None:
                content = VALUES[source.values](random, shapes[number]).astype(NUMPY[logical.dtype])
            content = _converted(content, logical, parameter_name(call.tensors[number]))
            made[logical.id] = _laid_out(content, logical.stride)
        arrays.append(made[logical.id])
    return arrays


def _converted(given: Array, logical: LogicalTensor, name: str) -> Array:
    """The caller's data in the tensor's type. NumPy's files store bf16 as two raw bytes; f32 is accepted, too."""
    wanted = NUMPY[logical.dtype]
    if given.dtype == wanted:
        return given
    if logical.dtype == "bf16" and given.dtype == np.dtype("V2"):
        return given.view(wanted)
    if logical.dtype == "bf16" and given.dtype == np.float32:
        return given.astype(wanted)
    raise UsageError(f"--data: {name} is {given.dtype}, but the graph says {logical.dtype}")


def _laid_out(content: Array, stride: tuple[int, ...] | None) -> Array:
    """The content in memory with these strides; gaps between elements are NaN."""
    if stride is None:
        return np.ascontiguousarray(content)
    view = _view(content.shape, stride, content.dtype)
    view[...] = content
    return view


def _view(shape: tuple[int, ...], stride: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    between = np.nan if dtype.kind == "f" or dtype.name in FLOATS else 0
    memory = np.full(_span(shape, stride), between, dtype)
    return np.ndarray(shape, dtype, memory, strides=[step * dtype.itemsize for step in stride])


def _out(output: LogicalTensor, shape: tuple[int, ...]) -> Array | None:
    """An array with the output's strides; None if the graph leaves them open."""
    return None if output.stride is None else _view(shape, output.stride, NUMPY[output.dtype])


def _named(op: Op, call: GraphCall, results: Sequence[Array]) -> Iterator[tuple[str, Array]]:
    """The outputs of the graph, by name."""
    return zip((tensor.name for tensor in op.outputs), results)


# The report.


def _terms(op: Op, arrays: list[Any], attributes: Mapping[str, Any]) -> int:
    """How many index tuples the semantics visit."""
    values = validate_steps(op, arrays, attributes).values if op.stepped else validate(op, arrays, attributes).values
    extents = {letter: evaluate(extent.tree, values) for letter, extent in op.semantics.ranges.items()}
    counts = {letter: math.prod(each) if isinstance(each, tuple) else each for letter, each in extents.items()}
    if not op.stepped:
        return math.prod(counts.values())
    return sum(math.prod(counts[letter] for letter in part.letters) for part in program(op).parts)


def _origins(call: GraphCall, source: Source) -> list[str]:
    def origin(number: int, tensor: Tensor) -> str:
        if _given(call, number, source) is not None:
            return "from --data"
        return "the output's shape" if tensor.shape_of else f"random {source.values}, seed {source.seed}"

    return [origin(number, tensor) for number, tensor in enumerate(call.tensors[: len(call.inputs)])]


def _describe(name: str, array: Array, origin: str) -> Described:
    strides = tuple(step // array.dtype.itemsize for step in array.strides)
    dtype = next(word for word, dtype in NUMPY.items() if dtype == array.dtype)
    return Described(name, dtype, array.shape, strides, origin)


def _compact(numbers: tuple[int, ...]) -> str:
    return f"[{','.join(map(str, numbers))}]"


def as_json(ran: Ran) -> str:
    fields = {name: getattr(ran, name) for name in ("op", "kernel", "threads", "seconds", "terms")}
    return json.dumps({**fields, "tensors": [asdict(t) for t in ran.tensors], "check": asdict(ran.verdict)}, indent=2)


def show(ran: Ran, out: Console) -> None:
    rows = [(t.name, f"{t.dtype}{_compact(t.shape)}", f"strides {_compact(t.strides)}", t.origin) for t in ran.tensors]
    table(out, ran.op, ("", "", "", ""), rows)
    rate = f"{ran.terms / ran.seconds / 1e9:.2f} billion terms a second"
    time_taken = f"{ran.seconds * 1e3:.3f} ms on {ran.threads} thread{'s' * (ran.threads > 1)}, {rate}"
    table(out, "", ("", ""), [("kernel", ran.kernel), ("time", time_taken), ("checked against", str(ran.verdict))])


def save(result: Array, path: Path) -> None:
    """Write the result as .npy; bf16 is stored as two raw bytes per element, which --data accepts."""
    try:
        with open(path, "wb") as stream:
            np.save(stream, np.ascontiguousarray(result))
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from None
