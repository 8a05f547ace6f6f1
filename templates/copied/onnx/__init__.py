"""ONNX models on the kernels of this package: a backend of `onnx.backend`, and models with a report of what ran where.

Nodes that the specs cover run here; others are computed by ONNX's reference evaluator. docs/ONNX.md of Opwright says
how to use it.
"""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from typing import Any

from .._errors import missing

try:
    import onnx
    from onnx.backend.base import Backend as _Backend
    from onnx.backend.base import BackendRep, namedtupledict
except ModuleNotFoundError as error:
    raise missing(__name__, error, "onnx>=1.19") from None

from ._models import Model, ModelError, Ran, Report, read

__all__ = [
    "Backend",
    "Model",
    "ModelError",
    "Ran",
    "Report",
    "load",
    "prepare",
    "run_model",
    "run_node",
    "supports_device",
]


def load(model: str | PathLike[str] | onnx.ModelProto, *, threads: int | None = None) -> Model:
    """A model that is ready to run, of a file or as it is in memory. Raises ModelError where it is wrong."""
    return Model(model if isinstance(model, onnx.ModelProto) else read(model), threads)


class Prepared(BackendRep):  # type: ignore[misc, unused-ignore]
    """A prepared model, as `onnx.backend` has it; `model.report` says what ran where."""

    def __init__(self, model: Model) -> None:
        self.model = model

    def run(self, inputs: Any, **_: Any) -> tuple[Any, ...]:
        given = inputs if isinstance(inputs, (list, tuple, dict)) else [inputs]
        outputs: Any = namedtupledict("Outputs", self.model.outputs)
        found: tuple[Any, ...] = outputs(*self.model.run(given))
        return found


class Backend(_Backend):  # type: ignore[misc, unused-ignore]
    """The backend; it runs on the CPU alone."""

    @classmethod
    def prepare(cls, model: onnx.ModelProto, device: str = "CPU", **_: Any) -> Prepared:
        if not cls.supports_device(device):
            raise ModelError(f"device {device!r}: there are kernels for the CPU alone")
        return Prepared(load(model))

    @classmethod
    def run_node(
        cls, node: onnx.NodeProto, inputs: Any, device: str = "CPU", outputs_info: Any = None, **options: Any
    ) -> tuple[Any, ...]:
        """The outputs of one node, in the newest opset or that of the option `opset_version`."""
        from ._models import _described

        values = dict(zip(filter(None, node.input), inputs))
        graph = onnx.helper.make_graph(
            [node],
            "node",
            [_described(name, value) for name, value in values.items()],
            [onnx.ValueInfoProto(name=name) for name in node.output if name],
        )
        opset = onnx.helper.make_opsetid("", options.get("opset_version", onnx.defs.onnx_opset_version()))
        model = onnx.shape_inference.infer_shapes(onnx.helper.make_model(graph, opset_imports=[opset]))
        return Prepared(Model(model, checked=True)).run(values)

    @classmethod
    def supports_device(cls, device: str) -> bool:
        return device.partition(":")[0] == "CPU"


def run_model(model: onnx.ModelProto, inputs: Sequence[Any], device: str = "CPU", **options: Any) -> tuple[Any, ...]:
    """The outputs of a model."""
    return Backend.prepare(model, device, **options).run(inputs)


prepare, run_node, supports_device = Backend.prepare, Backend.run_node, Backend.supports_device
