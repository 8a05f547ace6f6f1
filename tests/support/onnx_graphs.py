"""Random graphs of ONNX nodes for tests: several opsets, extents with names, initializers; and models that are wrong.

In: a random generator. Out: a model and its inputs, which ONNX's reference evaluator judges; or models by what is wrong
with them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from .onnx_models import Rng, real

OPSETS = (9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22)
UNARY = ("Abs", "Elu", "HardSigmoid", "HardSwish", "Identity", "LeakyRelu", "Mish", "Neg", "Relu", "Sigmoid", "Sin",
         "Softplus", "Tanh")  # fmt: skip
SINCE = {"HardSwish": 14, "Mish": 18}


class Graph:
    """A graph as it grows: arrays that have been made, by name, with the shapes that they have in this call."""

    def __init__(self, random: Rng) -> None:
        self.random, self.opset = random, int(random.choice(OPSETS))
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []
        self.shapes: dict[str, tuple[int, ...]] = {}
        self.inputs: dict[str, np.ndarray] = {}

    def extent(self, least: int = 1) -> int:
        return int(self.random.integers(least, 8))

    def given(self, shape: tuple[int, ...]) -> str:
        name = f"x{len(self.inputs)}"
        self.inputs[name], self.shapes[name] = real(self.random, *shape), shape
        return name

    def constant(self, value: np.ndarray) -> str:
        name = f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(value, name))
        return name

    def weights(self, *shape: int) -> str:
        return self.constant(real(self.random, *shape) / np.float32(max(1, np.prod(shape[1:])) ** 0.5))

    def node(self, kind: str, names: list[str], shape: tuple[int, ...], **attributes: Any) -> None:
        name = f"t{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, names, [name], f"node {name}", **attributes))
        self.shapes[name] = tuple(int(extent) for extent in shape)

    def some(self, *ranks: int) -> tuple[str, tuple[int, ...]] | None:
        """One of the arrays of a rank, later ones rather."""
        fit = [name for name, shape in self.shapes.items() if not ranks or len(shape) in ranks]
        if not fit:
            return None
        name = fit[max(self.random.integers(0, len(fit), 2))]
        return name, self.shapes[name]


def unary(graph: Graph, x: str, shape: tuple[int, ...]) -> None:
    kind = str(graph.random.choice([one for one in UNARY if SINCE.get(one, 1) <= graph.opset]))
    graph.node(kind, [x], shape)


def binary(graph: Graph, x: str, shape: tuple[int, ...]) -> None:
    kind = str(graph.random.choice(["Add", "Sub", "Mul", "Max", "Min", "Sum"]))
    alike = [name for name, other in graph.shapes.items() if other == shape]
    stretched = [1 if graph.random.random() < 0.4 else extent for extent in shape[graph.random.integers(0, 2) :]]
    other = str(graph.random.choice(alike)) if graph.random.random() < 0.5 else graph.weights(*stretched)
    names = [x, other] if graph.random.random() < 0.5 else [other, x]
    if kind in ("Max", "Min", "Sum"):
        names = [*names[: 1 + int(graph.random.integers(0, 2))], x]
    graph.node(kind, names, shape)


def convolution(graph: Graph, x: str, shape: tuple[int, ...]) -> None:
    random, rank = graph.random, len(shape) - 2
    groups = int(random.choice([one for one in (1, 2, 3, shape[1]) if shape[1] % one == 0]))
    channels = groups * int(random.integers(1, 4))
    kernel = [int(random.integers(1, min(3, extent) + 1)) for extent in shape[2:]]
    strides, pads = random.integers(1, 3, rank), random.integers(0, 2, 2 * rank)
    out = [(i + pads[a] + pads[a + rank] - kernel[a]) // strides[a] + 1 for a, i in enumerate(shape[2:])]
    names = [x, graph.weights(channels, shape[1] // groups, *kernel)]
    names += [graph.weights(channels)] if random.random() < 0.5 else []
    stated = {"group": groups, "strides": strides.tolist(), "pads": pads.tolist()}
    graph.node("Conv", names, (shape[0], channels, *out), **stated)


def pool(graph: Graph, x: str, shape: tuple[int, ...]) -> None:
    random, rank = graph.random, len(shape) - 2
    if random.random() < 0.3:
        kind = "GlobalMaxPool" if rank == 2 and random.random() < 0.5 else "GlobalAveragePool"  # the reference errs
        graph.node(kind, [x], (*shape[:2], *[1] * rank))
        return
    kernel = [int(random.integers(1, min(3, extent) + 1)) for extent in shape[2:]]
    strides = random.integers(1, 3, rank).tolist()
    out = [(i - k) // s + 1 for i, k, s in zip(shape[2:], kernel, strides)]
    kind = str(random.choice(["AveragePool", "MaxPool"]))
    graph.node(kind, [x], (*shape[:2], *out), kernel_shape=kernel, strides=strides)


def product(graph: Graph, x: str, shape: tuple[int, ...]) -> None:
    columns = graph.extent()
    graph.node("MatMul", [x, graph.weights(shape[-1], columns)], (*shape[:-1], columns))


def gemm(graph: Graph, x: str, shape: tuple[int, ...]) -> None:
    columns, turned = graph.extent(), int(graph.random.integers(0, 2))
    weights = graph.weights(*((columns, shape[1]) if turned else (shape[1], columns)))
    bias = graph.weights(*([columns] if graph.random.random() < 0.6 else [1, 1]))
    scale = {"alpha": 0.5, "beta": 2.0} if graph.random.random() < 0.4 else {}
    graph.node("Gemm", [x, weights, bias], (shape[0], columns), transB=turned, **scale)


def reduction(graph: Graph, x: str, shape: tuple[int, ...]) -> None:
    kind = str(graph.random.choice(["ReduceMean", "ReduceSum", "ReduceMax", "ReduceL2"]))
    axis, kept = int(graph.random.integers(1, len(shape))), int(graph.random.integers(0, 2))
    out = (*shape[:axis], *[1] * kept, *shape[axis + 1 :])
    if graph.opset >= (13 if kind == "ReduceSum" else 18):
        graph.node(kind, [x, graph.constant(np.array([axis]))], out, keepdims=kept)
    else:
        graph.node(kind, [x], out, keepdims=kept, axes=[axis])


def moved(graph: Graph, x: str, shape: tuple[int, ...]) -> None:
    random, kind = graph.random, str(graph.random.choice(["Transpose", "Concat", "Reshape", "Flatten", "Softmax"]))
    if kind == "Transpose":
        order = [0, *(1 + random.permutation(len(shape) - 1)).tolist()]
        graph.node(kind, [x], tuple(shape[axis] for axis in order), perm=order)
    elif kind == "Concat":
        axis = int(random.integers(1, len(shape)))
        graph.node(kind, [x, x], (*shape[:axis], 2 * shape[axis], *shape[axis + 1 :]), axis=axis)
    elif kind == "Reshape" and shape[0]:
        out = (shape[0], int(np.prod(shape[1:-1])), shape[-1])
        graph.node(kind, [x, graph.constant(np.array([0, -1, shape[-1]]))], out)
    elif kind == "Softmax":
        graph.node(kind, [x], shape, axis=-1 if graph.opset >= 11 else len(shape) - 1)
    else:
        graph.node("Flatten", [x], (shape[0], int(np.prod(shape[1:]))))


def norm(graph: Graph, x: str, shape: tuple[int, ...]) -> None:
    if graph.opset >= 17 and graph.random.random() < 0.5:
        graph.node("LayerNormalization", [x, graph.weights(shape[-1]), graph.weights(shape[-1])], shape, axis=-1)
        return
    if graph.opset < 14:  # the reference always trains
        return
    spread = graph.constant(np.abs(real(graph.random, shape[1])) + np.float32(0.5))
    graph.node("BatchNormalization", [x, *(graph.weights(shape[1]) for _ in range(3)), spread], shape)


GROWN: tuple[tuple[Callable[[Graph, str, tuple[int, ...]], None], tuple[int, ...]], ...] = (
    (unary, ()), (binary, ()), (convolution, (3, 4, 5)), (pool, (3, 4, 5)), (product, (2, 3, 4)), (gemm, (2,)),
    (reduction, (2, 3, 4, 5)), (moved, (2, 3, 4)), (norm, (3, 4)),
)  # fmt: skip


def random_graph(random: Rng) -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
    """A graph of 3 to 12 nodes whose first extent, and perhaps others, have names."""
    graph = Graph(random)
    batch = 0 if random.random() < 0.05 else graph.extent()
    for rank in random.choice([2, 3, 4, 5], int(random.integers(1, 3))):
        graph.given((batch, *(graph.extent() for _ in range(int(rank) - 1))))
    for _ in range(int(random.integers(3, 13))):
        grow, ranks = GROWN[int(random.integers(0, len(GROWN)))]
        found = graph.some(*ranks)
        if found:
            grow(graph, *found)
    used = {name for node in graph.nodes for name in node.input}
    outputs = [name for name in graph.shapes if name not in used and name not in graph.inputs] or [
        graph.nodes[-1].output[0]
    ]
    infos = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, ["N", *array.shape[1:]])
        for name, array in graph.inputs.items()
    ]
    made = helper.make_graph(
        graph.nodes,
        "random",
        infos,
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, [None] * len(graph.shapes[name])) for name in outputs],
        graph.constants,
    )
    return helper.make_model(made, opset_imports=[helper.make_opsetid("", graph.opset)]), graph.inputs
