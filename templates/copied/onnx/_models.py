"""ONNX models on the kernels of this package: each node here where a spec covers it, by ONNX's reference otherwise.

In: a model. Out: its outputs, and a report of what ran where, and for how long. A model or an input that is wrong is
a ModelError before anything runs.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from os import PathLike
from typing import Any

import numpy as np
import onnx
import onnx.inliner
from google.protobuf.message import DecodeError
from onnx.reference import ReferenceEvaluator
from onnx.reference.op_run import OpRun

from ._nodes import NAMES, Call, table

Values = dict[str, Any]
GRAPHS = (onnx.AttributeProto.GRAPH, onnx.AttributeProto.GRAPHS)
MAX_NODES = 10**6  # of a model whose functions are written out


class ModelError(ValueError):
    """A model that cannot be read or run, or inputs that are not those of the model."""


@dataclass(frozen=True)
class Ran:
    """One run of a node. `function` is that of the package, or '' where ONNX's reference ran; `why` says why it did."""

    name: str
    op_type: str
    function: str
    why: str
    seconds: float


@dataclass(frozen=True)
class Report:
    """The nodes of a run in their order; those of the bodies of loops and branches come before the node itself."""

    nodes: tuple[Ran, ...]

    @property
    def here(self) -> tuple[Ran, ...]:
        return tuple(ran for ran in self.nodes if ran.function)

    @property
    def reference(self) -> tuple[Ran, ...]:
        return tuple(ran for ran in self.nodes if not ran.function)

    def __str__(self) -> str:
        lines = [f"{len(self.here)} of {len(self.nodes)} nodes ran on this package's kernels"]
        lines += [f"ONNX's reference: {ran.op_type} {ran.name}: {ran.why}" for ran in self.reference]
        return "\n".join(lines)


def read(path: str | PathLike[str]) -> onnx.ModelProto:
    """The model of a file, with its external data. ModelError where it is none, or where data lie elsewhere."""
    try:
        return onnx.load(path)
    except OSError as error:
        raise ModelError(f"{path}: {error.strerror or error}") from None
    except DecodeError:
        raise ModelError(f"{path}: not an ONNX model: its protobuf is corrupt") from None
    except (onnx.checker.ValidationError, ValueError, RuntimeError) as error:
        raise ModelError(f"{path}: {_line(error)}") from None


class Model:
    """A model that is ready to run.

    `threads` is that of every call. Raises ModelError where ONNX's checker refuses the model, unless it is `checked`
    already, or where an opset is not known.
    """

    def __init__(self, model: onnx.ModelProto, threads: int | None = None, *, checked: bool = False) -> None:
        self.threads, self.report = threads, Report(())
        model = model if checked else _checked(model)
        self.model = onnx.inliner.inline_local_functions(model) if model.functions else model
        self.graph = self.model.graph
        self.opsets = {NAMES.get(one.domain, one.domain): one.version for one in self.model.opset_import}
        self._ran: list[Ran] = []
        self.nodes = [_Node(node, self) for node in self.graph.node]
        self.constants = _constants(self.graph)
        self.inputs = [one for one in self.graph.input if one.name not in self.constants]
        self.outputs = [one.name for one in self.graph.output]
        last = {name: at for at, node in enumerate(self.nodes) for name in node.reads}
        self._dead = [[name for name in node.reads if last[name] == at] for at, node in enumerate(self.nodes)]

    def run(
        self,
        inputs: Mapping[str, Any] | Sequence[Any],
        progress: Callable[[int, int, Ran], None] | None = None,
    ) -> list[Any]:
        """The outputs, in the graph's order; inputs by name, or in the graph's order."""
        values = {**self.constants, **self._given(inputs)}
        self._ran = []
        for at, node in enumerate(self.nodes):
            started, why = time.perf_counter(), ""
            found, function, why = node.run(values)
            ran = Ran(node.name, node.proto.op_type, function, why, time.perf_counter() - started)
            self._ran.append(ran)
            values.update((name, value) for name, value in zip(node.proto.output, found) if name)
            for name in self._dead[at]:
                if name not in self.outputs:
                    values.pop(name, None)
            if progress is not None:
                progress(at + 1, len(self.nodes), ran)
        self.report = Report(tuple(self._ran))
        return [values[name] for name in self.outputs]

    def _given(self, inputs: Mapping[str, Any] | Sequence[Any]) -> Values:
        names = [one.name for one in self.inputs]
        if not isinstance(inputs, Mapping):
            if len(inputs) > len(names):
                raise ModelError(f"the model takes {len(names)} inputs ({', '.join(names)}), not {len(inputs)}")
            inputs = dict(zip(names, inputs))
        known = {one.name for one in self.graph.input}
        for name in inputs:
            if name not in known:
                raise ModelError(f"the model has no input {name!r}; its inputs are {', '.join(names)}")
        for name in names:
            if name not in inputs:
                raise ModelError(f"input {name!r} is missing")
        found: Values = {}
        symbols: dict[str, tuple[int, str]] = {}
        for one in self.graph.input:
            if one.name in inputs:
                value = inputs[one.name]
                found[one.name] = _array(value) if isinstance(value, onnx.TensorProto) else value
                _fits(one, found[one.name], symbols)
        return found

    @cached_property
    def nested(self) -> list[type[OpRun]]:
        """The kinds of nodes that run here inside the bodies of loops and branches, too."""
        opset = self.opsets.get("", 0)
        covered = [name for name, entries in table().items() if any(e.since <= opset for e in entries)]
        return [_nested(name, self) for name in covered if onnx.defs.has(name, opset, "")]


class _Node:
    """A node of the graph: a call of the package if a spec covers it, else an evaluator of its own, made when used."""

    def __init__(self, proto: onnx.NodeProto, model: Model) -> None:
        self.proto, self.model = proto, model
        self.name = proto.name or next(filter(None, proto.output), "")
        self.call = Call(proto, model.opsets.get("", 0))
        self.nests = any(one.type in GRAPHS for one in proto.attribute)
        self.reads = list(dict.fromkeys([*filter(None, proto.input), *_outer(proto)]))
        self._evaluators: dict[tuple[Any, ...], ReferenceEvaluator] = {}

    def run(self, values: Values) -> tuple[Sequence[Any], str, str]:
        """The outputs, the package's function that gave them, or why none did."""
        arrays = [values[name] if name else None for name in self.proto.input]
        try:
            found, function, why = self.call.outputs(arrays, self.model.threads)
        except MemoryError:
            raise ModelError(f"node {self.name!r} ({self.proto.op_type}): its outputs do not fit into memory") from None
        if function:
            return found, function, ""
        read = {name: values[name] for name in self.reads if name in values and values[name] is not None}
        try:
            return list(self._evaluator(read).run(None, read)), "", why
        except Exception as error:  # whatever the reference raises, of a node that it does not know or cannot compute
            raise ModelError(f"node {self.name!r} ({self.proto.op_type}): {_line(error)}") from error

    def _evaluator(self, values: Values) -> ReferenceEvaluator:
        """ONNX's reference for this node alone, with the types that its inputs have."""
        key = tuple((name, _kind(value)) for name, value in values.items())
        if key not in self._evaluators:
            inputs = [_described(name, value) for name, value in values.items()]
            outputs = [onnx.ValueInfoProto(name=name) for name in self.proto.output if name]
            model = onnx.helper.make_model(
                onnx.helper.make_graph([self.proto], "node", inputs, outputs),
                opset_imports=[onnx.helper.make_opsetid(*one) for one in self.model.opsets.items()],
            )
            self._evaluators[key] = ReferenceEvaluator(model, new_ops=self.model.nested if self.nests else None)
        return self._evaluators[key]


def _nested(op_type: str, model: Model) -> type[OpRun]:
    """A kind of node as ONNX's evaluator takes it, which runs as nodes of the graph do."""

    def made(self: Any, proto: onnx.NodeProto, params: dict[str, Any]) -> None:
        OpRun.__init__(self, proto, params)
        self.inner = _Node(proto, model)

    def run(self: Any, *values: Any, **_: Any) -> tuple[Any, ...]:
        node, started = self.inner, time.perf_counter()
        found, function, why = node.run(dict(zip(self.onnx_node.input, values)))
        model._ran.append(Ran(node.name, op_type, function, why, time.perf_counter() - started))
        return tuple(found)

    schema = onnx.defs.get_schema(op_type, model.opsets[""], "")
    return type(op_type, (OpRun,), {"__init__": made, "op_domain": "", "op_schema": schema, "_run": run})


def _checked(model: onnx.ModelProto) -> onnx.ModelProto:
    for one in model.opset_import:
        if one.domain in NAMES and one.version > onnx.defs.onnx_opset_version():
            newest = onnx.defs.onnx_opset_version()
            raise ModelError(
                f"opset {one.version} is newer than {newest}, the newest that onnx {onnx.__version__} knows"
            )
    functions = {(one.domain, one.name): one for one in model.functions}
    try:
        count = _count(model.graph.node, functions, {})
    except RecursionError:
        raise ModelError("its functions or bodies are nested too deeply") from None
    if count > MAX_NODES:
        raise ModelError(f"its functions call each other so often that it has more than {MAX_NODES:,} nodes")
    try:
        onnx.checker.check_model(model)
    except (onnx.checker.ValidationError, ValueError, RuntimeError) as error:
        raise ModelError(_line(error)) from None
    return model


def _count(nodes: Iterable[onnx.NodeProto], functions: Mapping[Any, Any], known: dict[Any, int]) -> int:
    """How many nodes there are once functions are written out; a function within itself counts as one node."""
    total = 0
    for node in nodes:
        key = (node.domain, node.op_type)
        if key in functions and key not in known:
            known[key] = 1
            known[key] = _count(functions[key].node, functions, known)
        total += known.get(key, 1)
        total += sum(_count(graph.node, functions, known) for graph in _graphs(node))
    return total


def _graphs(node: onnx.NodeProto) -> Iterator[onnx.GraphProto]:
    """The bodies that a node has."""
    for one in node.attribute:
        if one.type in GRAPHS:
            yield from [one.g] if one.type == GRAPHS[0] else one.graphs


def _constants(graph: onnx.GraphProto) -> Values:
    if graph.sparse_initializer:
        raise ModelError(f"sparse initializer {graph.sparse_initializer[0].values.name!r}: make it dense")
    return {one.name: _array(one) for one in graph.initializer}


def _array(tensor: onnx.TensorProto) -> np.ndarray[Any, Any]:
    try:
        return onnx.numpy_helper.to_array(tensor)
    except KeyError:
        raise ModelError(
            f"tensor {tensor.name!r} is of the type {tensor.data_type}, which onnx does not know"
        ) from None
    except (TypeError, ValueError) as error:
        raise ModelError(f"tensor {tensor.name!r}: {_line(error)}") from None


def _outer(node: onnx.NodeProto) -> Iterator[str]:
    """The names that the bodies of a node read of the graph around it."""
    for graph in _graphs(node):
        made = {one.name for one in (*graph.input, *graph.initializer)}
        made |= {name for inner in graph.node for name in inner.output}
        read = {name for inner in graph.node for name in (*inner.input, *_outer(inner))}
        read |= {one.name for one in graph.output}
        yield from sorted(read - made - {""})


def _fits(info: onnx.ValueInfoProto, value: Any, symbols: dict[str, tuple[int, str]]) -> None:
    """Refuse an array that is not as the graph declares it; a symbol stands for one extent throughout."""
    if not info.type.HasField("tensor_type"):
        return
    if not isinstance(value, (np.ndarray, np.generic)):
        raise ModelError(f"input {info.name!r} is a {type(value).__name__}, expected an array of NumPy")
    declared = info.type.tensor_type
    try:
        dtype = onnx.helper.tensor_dtype_to_np_dtype(declared.elem_type)
    except KeyError:
        raise ModelError(f"input {info.name!r} is of the type {declared.elem_type}, which onnx does not know") from None
    if value.dtype != dtype and declared.elem_type != onnx.TensorProto.STRING:
        raise ModelError(f"input {info.name!r} is of {value.dtype}, expected {dtype}")
    if not declared.HasField("shape"):
        return
    extents = [one.dim_param or (one.dim_value if one.HasField("dim_value") else "?") for one in declared.shape.dim]
    text = ", ".join(map(str, extents))
    if len(extents) != value.ndim:
        raise ModelError(f"input {info.name!r} has the shape {value.shape}, expected ({text})")
    for extent, axis in zip(value.shape, extents):
        if isinstance(axis, int) and axis != extent:
            raise ModelError(f"input {info.name!r} has the shape {value.shape}, expected ({text})")
        if isinstance(axis, str) and axis != "?":
            first, where = symbols.setdefault(axis, (extent, info.name))
            if first != extent:
                raise ModelError(f"{axis} is {extent} in input {info.name!r}, but {first} in input {where!r}")


def _kind(value: Any) -> Any:
    return str(value.dtype) if isinstance(value, (np.ndarray, np.generic)) else type(value).__name__


def _described(name: str, value: Any) -> onnx.ValueInfoProto:
    """An input of a graph with the type of a value, where ONNX has a word for it."""
    if isinstance(value, (np.ndarray, np.generic)):
        kind = (
            onnx.TensorProto.STRING if value.dtype.kind in "OU" else onnx.helper.np_dtype_to_tensor_dtype(value.dtype)
        )
        return onnx.helper.make_tensor_value_info(name, kind, None)
    return onnx.ValueInfoProto(name=name)


def _line(error: BaseException) -> str:
    """What an error says, in one line."""
    return " ".join(str(error).split())[:400] or type(error).__name__
