"""The C library understands and refuses calls as Python does: the same shapes, the same messages, letter by letter."""

from __future__ import annotations

import ctypes as c
import importlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import opwright_kernels as ok
import pytest
from opwright import cli
from opwright.emit import render
from opwright.emit.c import interface as c_interface
from opwright.language.library import Library
from opwright.language.model import Op
from opwright.language.source import SpecInvalid
from opwright.project import Project
from opwright_kernels import TensorSpec, _interface
from support.c_library import CCall, CLibrary, Error, Refused, Run, Shape, Tensor
from support.draws import FULL, rng
from support.spec_calls import Caller
from support.step_calls import StepCaller

CONVOLUTION = {"strides": [1, 1], "pads_begin": [0, 0], "pads_end": [0, 0], "dilations": [1, 1]}


def operation_of(op: Op) -> Any:
    """An operation of the package; derived gradients have no public function."""
    return importlib.import_module(f"opwright_kernels._{op.function}").OPERATION


def in_python(op: Op, inputs: Any, values: Any) -> list[tuple[int, ...]] | str:
    """The shapes of a call, or the message of its refusal."""
    operation = operation_of(op)
    try:
        shapes = _interface.infer_shape(operation, *_interface.bound(operation, inputs, values))
    except ok.SpecError as error:
        return str(error)
    return [shapes] if not shapes or isinstance(shapes[0], int) else [*shapes]


def in_c(rules: CLibrary, op: Op, inputs: Any, values: Any) -> list[tuple[int, ...]] | str:
    try:
        return [shape for shape, _ in rules.infer(op.function, rules.call(op.function, inputs, values))]
    except Refused as refused:
        return refused.message


@pytest.mark.sweep
def test_c_refuses_what_python_refuses_with_the_same_message(rules: CLibrary, library: Library) -> None:
    refused = legal = 0
    for op in library.ops:
        caller: Any = (StepCaller if op.stepped else Caller)(op, rng("C rules", op.function))
        required = {attribute.name for attribute in op.attributes if attribute.required}
        for drawn in [*caller.legal(60 if FULL else 3)]:
            for call in (drawn, *(caller.nearly(drawn) for _ in range(3))):
                if required <= call.attributes.keys():
                    wanted = in_python(op, call.inputs, call.attributes)
                    assert in_c(rules, op, call.inputs, call.attributes) == wanted, f"{op.op}: {call}"
                    refused += isinstance(wanted, str)
                    legal += not isinstance(wanted, str)
    assert refused > 250
    assert legal > 250


CALLS: dict[str, tuple[str, list[Any], dict[str, Any]]] = {
    "a word that is almost one": ("soft_max", [TensorSpec((2, 3), "float32")], {"axis": 1, "mode": "inf_as_zeros"}),
    "a word that is none": ("soft_max", [TensorSpec((2, 3), "float32")], {"axis": 1, "mode": "x'\n\t\"\\é"}),
    "a refused word": (
        "conv_transpose",
        [TensorSpec((1, 4, 5, 6), "float32"), TensorSpec((3, 3, 4, 6), "float32")],
        {**CONVOLUTION, "weights_format": "OIX"},
    ),
    "sizes beyond int64": (
        "convolution",
        [TensorSpec((1, 9, 9, 4), "float32"), TensorSpec((3, 3, 4, 6), "float32")],
        {**CONVOLUTION, "pads_begin": [2**63 - 1, 0], "pads_end": [2**63 - 1, 0]},
    ),
    "an output beyond int64": (
        "convolution",
        [TensorSpec((1, 9, 9, 4), "float32"), TensorSpec((3, 3, 4, 6), "float32")],
        {**CONVOLUTION, "pads_begin": [2**40, 2**40]},
    ),
    "a number beyond its range": ("elu", [TensorSpec((2,), "float32")], {"alpha": -0.1}),
    "a tiny number": ("elu", [TensorSpec((2,), "float32")], {"alpha": -1e-9}),
    "a huge number": ("elu", [TensorSpec((2,), "float32")], {"alpha": -1e300}),
    "a list of many": ("reduce_sum", [TensorSpec((2, 3), "float32")], {"axes": [0, 1, 1, 0, 5]}),
    "axes that are not there": ("reduce_sum", [TensorSpec((), "float32")], {"axes": [0]}),
    "no tensor": ("mat_mul", [None, TensorSpec((2, 3), "float32")], {}),
    "dtypes that no row has": (
        "mat_mul",
        [TensorSpec((2, 2), "float32"), TensorSpec((2, 2), "bfloat16")],
        {},
    ),
    "a dtype that no row has": ("mat_mul", [TensorSpec((2, 2), "float16")] * 2, {"dtype": "bf16"}),
    "a factor of nothing": (
        "static_reshape",
        [TensorSpec((2, 3), "float32")],
        {"shape": [-1, 0], "special_zero": False},
    ),
    "two open extents": ("static_reshape", [TensorSpec((2, 3), "float32")], {"shape": [-1, -1], "special_zero": False}),
    "an axis twice": ("static_transpose", [TensorSpec((2, 3), "float32")], {"order": [1, 1]}),
    "arrays that do not join": (
        "concat",
        [[TensorSpec((2, 3), "float32"), TensorSpec((2, 3, 1), "float32")]],
        {"axis": 0},
    ),
}


@pytest.mark.parametrize("named", CALLS)
def test_messages_are_those_of_python(named: str, rules: CLibrary) -> None:
    function, inputs, values = CALLS[named]
    wanted = in_python(rules.ops[function], inputs, values)
    assert isinstance(wanted, str), wanted
    assert in_c(rules, rules.ops[function], inputs, values) == wanted


def relu(rules: CLibrary, **members: Any) -> tuple[CCall, np.ndarray]:
    """A call of ReLU whose input is changed before it is made."""
    array, result = np.ones((2, 3), np.float32), np.full((2, 3), 7, np.float32)
    call = rules.call("relu", [array], {}, [result])
    given = next(tensor for tensor in call.keeps if isinstance(tensor, Tensor))
    for name, value in members.items():
        setattr(given, name, value)
    return call, result


@pytest.mark.parametrize(
    ("members", "rule", "message"),
    [
        ({"dtype": 99}, "src-kind", "unknown data type"),
        ({"dtype": 0}, "src-kind", "unknown data type"),
        ({"ndim": -1}, "src-kind", "0 to 64 axes"),
        ({"ndim": 65}, "src-kind", "0 to 64 axes"),
        ({"shape": None}, "src-kind", "whose shape is NULL"),
        ({"shape": [2, -1]}, "src-kind", "extents of at least 0"),
        ({"shape": [2**62, 2**62]}, "src-kind", "2**63 - 1 bytes"),
        ({"data": None}, "src-kind", "whose data is NULL"),
        ({"data": 4097}, "src-kind", "not aligned"),
    ],
)
def test_tensors_that_are_none_are_refused_and_nothing_is_written(
    members: dict[str, Any], rule: str, message: str, rules: CLibrary
) -> None:
    extents = (c.c_int64 * 2)(*(members.get("shape") or (2, 3)))
    if members.get("shape"):
        members = {"shape": c.addressof(extents)}
    call, result = relu(rules, **members)
    with pytest.raises(Refused, match=r"relu: rule .*; see ") as refused:
        rules.run("relu", call, Run(64, 2**40, None, 1))
    assert refused.value.rule == rule
    assert message in refused.value.message.replace("\\", "")
    assert (result == 7).all()


def test_pointers_that_are_null_are_refused(rules: CLibrary) -> None:
    error, shapes = Error(), (Shape * 1)()
    call, _ = relu(rules)
    assert rules.lib.opwright_relu(None, None, c.byref(error)) == 1
    assert error.rule == b"call-kind"
    assert rules.lib.opwright_relu(None, None, None) == 1
    assert rules.lib.opwright_relu_infer(c.byref(call.struct), None, c.byref(error)) == 1
    assert rules.lib.opwright_relu_workspace(c.byref(call.struct), None, None, c.byref(error)) == 1
    assert rules.lib.opwright_relu_infer(c.byref(call.struct), shapes, None) == 0
    for name, rule in (("mode", b"mode-kind"), ("src", b"src-missing")):
        call = rules.call("soft_max", [np.ones((2, 3), np.float32)], {"axis": 1})
        setattr(call.struct, name, None)
        assert rules.lib.opwright_soft_max_infer(c.byref(call.struct), shapes, c.byref(error)) == 1
        assert error.rule == rule


def test_operations_that_a_header_cannot_name_are_refused(library: Library, project: Project) -> None:
    env = render.environment(project.templates)
    relu_ = next(op for op in library.ops if op.function == "relu")
    for name in ("shape", "tensor"):
        with pytest.raises(SpecInvalid, match=f"opwright_{name} is another name"):
            c_interface.interface(replace(relu_, function_=name), library, env)


def test_export_says_what_it_refuses(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["export", str(tmp_path), "--c"]) != 0
    assert "exists already" in capsys.readouterr().err
    assert cli.main(["export", str(tmp_path / "new"), "--c", "no_such_operation"]) != 0
    assert "no operation 'no_such_operation'" in capsys.readouterr().err
    assert not (tmp_path / "new").exists()


def test_a_derived_gradient_is_exported_by_its_name(tmp_path: Path) -> None:
    assert cli.main(["export", str(tmp_path / "new"), "--c", "SquareBackward", "relu"]) == 0
    header = (tmp_path / "new" / "public" / "opwright_operations.h").read_text()
    assert "opwright_square_backward(" in header
    assert "opwright_relu(" in header
    assert "opwright_square(" not in header
