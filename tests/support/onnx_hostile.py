"""Models of ONNX that are wrong, each with what the refusal says: cycles, bodies, extents beyond memory, functions."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

node = helper.make_node
CONDITION = helper.make_tensor_value_info("c", TensorProto.BOOL, ())


def value(name: str, *shape: Any, kind: int = TensorProto.FLOAT) -> Any:
    return helper.make_tensor_value_info(name, kind, shape)


def model(nodes: list[Any], inputs: list[Any], output: Any = None, constants: list[Any] | None = None) -> Any:
    graph = helper.make_graph(nodes, "g", inputs, [output or value("y", 2)], constants or [])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid("local", 1)])


def one(kind: str, *names: str, **attributes: Any) -> Any:
    """A model of one node of two cells."""
    return model([node(kind, list(names), ["y"], **attributes)], [value(name, 2) for name in dict.fromkeys(names)])


def weights(**fields: Any) -> Any:
    """A model of a tensor whose fields do not belong together."""
    return model([node("Relu", ["w"], ["y"])], [], value("y", "n"), [TensorProto(name="w", data_type=1, **fields)])


def sized(kind: str, extents: list[int], names: list[str], shape: list[int]) -> Any:
    """A model of a node that makes so many cells."""
    nodes = [node(kind, names, ["y"])]
    inputs = [value("x", *shape)] if "x" in names else []
    return model(nodes, inputs, value("y", *[None] * len(extents)), [numpy_helper.from_array(np.array(extents), "s")])


def branches(*nodes: Any, **other: Any) -> Any:
    body = helper.make_graph(list(nodes), "then", [], [value("t", 2)])
    return model([node("If", ["c"], ["y"], then_branch=body, **{"else_branch": body, **other})], [CONDITION])


def functions(count: int, calls: int, last: Any) -> Any:
    """Functions of which each calls the next so often."""
    made = model([node("F0", ["x"], ["y"], domain="local")], [value("x", 2)])
    opsets = list(made.opset_import)
    for at in range(count):
        names = ["a", *(f"t{call}" for call in range(calls - 1)), "b"]
        inner = [node(f"F{at + 1}", [a], [b], domain="local") for a, b in pairwise(names)]
        made.functions.append(
            helper.make_function("local", f"F{at}", ["a"], ["b"], inner if at + 1 < count else [last], opsets)
        )
    return made


def endless() -> Any:
    """A loop whose array doubles in every round."""
    body = helper.make_graph(
        [node("Identity", ["going"], ["still"]), node("Concat", ["a", "a"], ["b"], axis=0)],
        "body",
        [value("at", kind=TensorProto.INT64), value("going", kind=TensorProto.BOOL), value("a", "n")],
        [value("still", kind=TensorProto.BOOL), value("b", "m")],
    )
    constants = [numpy_helper.from_array(np.array(60), "trips"), numpy_helper.from_array(np.array(True), "go")]
    return model([node("Loop", ["trips", "go", "x"], ["y"], body=body)], [value("x", 2)], value("y", "q"), constants)


# By name: the model, and what the refusal says. Models that ask for memory are last.
HOSTILE: dict[str, tuple[Callable[[], Any], str]] = {
    "nothing": (onnx.ModelProto, "ir_version"),
    "no graph": (lambda: onnx.ModelProto(ir_version=8, opset_import=[helper.make_opsetid("", 17)]), "graph"),
    "a cycle": (
        lambda: model([node("Add", ["x", "y"], ["a"]), node("Relu", ["a"], ["y"])], [value("x", 2)]),
        "input 'y' of node: name: OpType: Add",
    ),
    "an input from nowhere": (lambda: model([node("Relu", ["q"], ["y"])], [value("x", 2)]), "input 'q'"),
    "an output from nowhere": (lambda: model([node("Relu", ["x"], ["z"])], [value("x", 2)]), "output 'y'"),
    "two makers": (lambda: model([node("Relu", ["x"], ["y"])] * 2, [value("x", 2)]), "'y'"),
    "too few inputs": (lambda: one("Conv", "x"), "input size 1"),
    "too many inputs": (lambda: one("Relu", "x", "x"), "input size 2"),
    "an attribute of another type": (lambda: one("Softmax", "x", axis="a"), "axis"),
    "an attribute that it lacks": (lambda: one("Relu", "x", zzz=1), "zzz"),
    "a domain without opset": (lambda: one("Relu", "x", domain="evil"), "'evil'"),
    "an operator that nobody has": (lambda: one("Relu", "x", domain="local"), "(Relu)"),
    "other types": (
        lambda: model([node("Add", ["x", "z"], ["y"])], [value("x", 2), value("z", 2, kind=TensorProto.INT64)]),
        "float32 != int64",
    ),
    "too few bytes": (lambda: weights(dims=[2**40], raw_data=b"1234"), "too small"),
    "fewer than no cells": (lambda: weights(dims=[-1], raw_data=b"1234"), "Negative"),
    "a branch that reads nothing": (lambda: branches(node("Relu", ["none"], ["t"])), "input 'none'"),
    "a branch that is a number": (lambda: branches(node("Identity", ["c"], ["t"]), else_branch=3), "else_branch"),
    "steps of nothing": (
        lambda: model(
            [node("Conv", ["x", "w"], ["y"], strides=[0, 0])], [value("x", 1, 1, 4, 4), value("w", 1, 1, 1, 1)]
        ),
        "(Conv)",
    ),
    "a function within itself": (lambda: functions(1, 1, node("F0", ["a"], ["b"], domain="local")), "Cycle"),
    "functions that double": (lambda: functions(30, 2, node("Relu", ["a"], ["b"])), "1,000,000 nodes"),
    "functions in functions": (lambda: functions(3000, 1, node("Relu", ["a"], ["b"])), "too deeply"),
    "padding without end": (
        lambda: model(
            [node("Conv", ["x", "w"], ["y"], pads=[2**40] * 4)], [value("x", 1, 1, 4, 4), value("w", 1, 1, 1, 1)]
        ),
        "(Conv)",
    ),
    "a constant without end": (lambda: sized("ConstantOfShape", [2**44], ["s"], []), "(ConstantOfShape)"),
    "an array without end": (lambda: sized("Expand", [2**30, 2**30], ["x", "s"], [1]), "(Expand)"),
    "a picture without end": (
        lambda: sized("Resize", [1, 1, 2**24, 2**24], ["x", "", "", "s"], [1, 1, 2, 2]),
        "(Resize)",
    ),
    "a loop without end": (endless, "(Concat)"),
}
