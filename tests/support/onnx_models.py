"""ONNX nodes and models for tests: random nodes of the kinds that the specs cover, a network, hostile files.

In: a random generator. Out: models and inputs, judged by ONNX's reference evaluator.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

Drawn = tuple[onnx.ModelProto, list[np.ndarray]]
Rng = np.random.Generator
UNARY = (
    "Abs Elu Exp Gelu HardSigmoid HardSwish LeakyRelu Log LogSoftmax Mish Reciprocal Relu Round Sigmoid Softmax "
    "Softplus Sqrt Tanh"
).split()
BINARY = ("Add", "Div", "Max", "Min", "Mul", "Sub", "Sum", "GreaterOrEqual", "LessOrEqual")
SEVERAL = ("Max", "Min", "Sum")
REDUCE = ("ReduceL1", "ReduceL2", "ReduceMax", "ReduceMean", "ReduceMin", "ReduceProd", "ReduceSum")


def model_of(node: onnx.NodeProto, inputs: list[np.ndarray], opset: int, constants: int = 0) -> onnx.ModelProto:
    """A model of one node; the last `constants` of its inputs are initializers."""
    names = [name for name in node.input if name]
    split = len(names) - constants
    graph = helper.make_graph(
        [node],
        "one",
        [
            helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
            for name, array in zip(names[:split], inputs)
        ],
        [onnx.ValueInfoProto(name=name) for name in node.output if name],
        [numpy_helper.from_array(array, name) for name, array in zip(names[split:], inputs[split:])],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])
    model = onnx.shape_inference.infer_shapes(model, data_prop=True)
    for made in model.graph.output:
        if not made.type.tensor_type.elem_type:  # of the functions among the kinds ONNX infers nothing
            made.CopyFrom(helper.make_tensor_value_info(made.name, TensorProto.FLOAT, inputs[0].shape))
    return model


def real(random: Rng, *shape: int) -> np.ndarray:
    return random.standard_normal(shape).astype(np.float32)


def unary(random: Rng) -> Drawn:
    kind = str(random.choice(UNARY))
    x = real(random, *random.integers(1, 6, random.integers(1, 4)))
    if kind in ("Log", "Sqrt", "Reciprocal"):
        x = np.abs(x) + np.float32(0.1)
    attributes: dict[str, Any] = {}
    if kind in ("Elu", "LeakyRelu", "HardSigmoid") and random.random() < 0.7:
        attributes["alpha"] = float(random.uniform(0.1, 1.5))
    if kind == "HardSigmoid" and random.random() < 0.5:
        attributes["beta"] = float(random.uniform(0.1, 0.9))
    if kind in ("Softmax", "LogSoftmax") and random.random() < 0.7:
        attributes["axis"] = int(random.integers(-x.ndim, x.ndim))
    if kind == "Gelu" and random.random() < 0.5:
        attributes["approximate"] = "tanh"
    return model_of(helper.make_node(kind, ["x"], ["y"], **attributes), [x], int(random.integers(22, 24))), [x]


def binary(random: Rng) -> Drawn:
    kind = str(random.choice(BINARY))
    shape = [int(extent) for extent in random.integers(1, 5, random.integers(1, 4))]
    other = [1 if random.random() < 0.3 else extent for extent in shape[int(random.integers(0, len(shape))) :]]
    inputs = [real(random, *shape), real(random, *other) + np.float32(3)]
    if random.random() < 0.5 and kind != "Div":
        inputs.reverse()
    if kind in SEVERAL:
        inputs += [real(random, *other) for _ in range(int(random.integers(0, 3)))]
    node = helper.make_node(kind, list("abcd")[: len(inputs)], ["y"])
    return model_of(node, inputs, int(random.integers(13, 24))), inputs


def reduce(random: Rng) -> Drawn:
    kind, opset = str(random.choice(REDUCE)), int(random.choice([11, 12, 13, 17, 18, 20]))
    x = real(random, *random.integers(1, 5, random.integers(1, 5)))
    axes = random.permutation(x.ndim)[: random.integers(1, x.ndim + 1)].astype(np.int64)
    attributes: dict[str, Any] = {"keepdims": int(random.integers(0, 2))} if random.random() < 0.7 else {}
    given = [x]
    if random.random() < 0.8:
        if opset >= (13 if kind == "ReduceSum" else 18):
            given.append(axes)
        else:
            attributes["axes"] = axes.tolist()
    elif opset >= 18 and random.random() < 0.5:
        attributes["noop_with_empty_axes"] = 0
    node = helper.make_node(kind, ["x", "axes"][: len(given)], ["y"], **attributes)
    return model_of(node, given, opset, len(given) - 1), given[:1]


def convolution(random: Rng) -> Drawn:
    return _convolution(random, "Conv")


def transposed(random: Rng) -> Drawn:
    return _convolution(random, "ConvTranspose")


def _convolution(random: Rng, kind: str) -> Drawn:
    rank, groups = int(random.integers(1, 3)), int(random.integers(1, 4)) if kind == "Conv" else 1
    ic, oc = groups * int(random.integers(1, 4)), groups * int(random.integers(1, 4))
    kernel = [int(k) for k in random.integers(1, 4, rank)]
    x = real(random, int(random.integers(1, 3)), ic, *random.integers(7, 10, rank))
    w = real(random, *((oc, ic // groups) if kind == "Conv" else (ic, oc // groups)), *kernel)
    attributes: dict[str, Any] = {"group": groups} if groups > 1 or random.random() < 0.5 else {}
    if random.random() < 0.7:
        attributes["strides"] = [int(s) for s in random.integers(1, 4, rank)]
    if random.random() < 0.5:
        attributes["dilations"] = [int(s) for s in random.integers(1, 3, rank)]
    if random.random() < 0.5:
        attributes["kernel_shape"] = kernel
    if random.random() < 0.5:
        attributes["pads"] = [int(p) for p in random.integers(0, 2, 2 * rank)]
    elif kind == "Conv" and random.random() < 0.5:
        attributes["auto_pad"] = str(random.choice(["SAME_UPPER", "SAME_LOWER", "VALID", "NOTSET"]))
    if kind == "ConvTranspose" and "strides" in attributes and random.random() < 0.5:
        attributes["output_padding"] = [int(random.integers(0, s)) for s in attributes["strides"]]
    inputs = [x, w, *([real(random, oc)] if random.random() < 0.5 else [])]
    return model_of(helper.make_node(kind, ["x", "w", "b"][: len(inputs)], ["y"], **attributes), inputs, 22), inputs


def pool(random: Rng) -> Drawn:
    kind = str(random.choice(["AveragePool", "MaxPool", "GlobalAveragePool", "GlobalMaxPool"]))
    rank = int(random.integers(1, 4))
    x = real(random, int(random.integers(1, 3)), int(random.integers(1, 4)), *random.integers(5, 9, rank))
    attributes: dict[str, Any] = {}
    if not kind.startswith("Global"):
        kernel = [int(k) for k in random.integers(1, 4, rank)]
        attributes["kernel_shape"] = kernel
        if random.random() < 0.7:
            attributes["strides"] = [int(s) for s in random.integers(1, 4, rank)]
        if random.random() < 0.6:
            attributes["pads"] = [int(random.integers(0, k)) for k in (*kernel, *kernel)]
        if kind == "AveragePool" and random.random() < 0.5:
            attributes["count_include_pad"] = int(random.integers(0, 2))
        if kind == "MaxPool" and random.random() < 0.4:
            attributes["dilations"] = [int(d) for d in random.integers(1, 3, rank)]
            attributes.pop("pads", None)
        if random.random() < 0.4 and not attributes.get("count_include_pad"):
            attributes["ceil_mode"] = 1
    return model_of(helper.make_node(kind, ["x"], ["y"], **attributes), [x], 22), [x]


def pooled(model: onnx.ModelProto, x: np.ndarray) -> np.ndarray:
    """What a node of `pool` gives: the mean or the maximum of the cells of every window."""
    node, rank = model.graph.node[0], x.ndim - 2
    stated = {one.name: helper.get_attribute_value(one) for one in node.attribute}
    kernel = stated.get("kernel_shape", x.shape[2:])
    strides, pads = stated.get("strides", [1] * rank), stated.get("pads", [0] * 2 * rank)
    dilations = stated.get("dilations", [1] * rank)
    found = np.empty([axis.dim_value for axis in model.graph.output[0].type.tensor_type.shape.dim], np.float32)
    for at in np.ndindex(*found.shape[2:]):
        cells = x
        for axis in range(rank):
            places = at[axis] * strides[axis] - pads[axis] + np.arange(kernel[axis]) * dilations[axis]
            inside = places[(places >= 0) & (places < x.shape[2 + axis])]
            cells = cells.take(inside, axis=2 + axis)
        window = cells.reshape(*x.shape[:2], -1)
        counted = math.prod(kernel) if stated.get("count_include_pad") else window.shape[2]
        found[(..., *at)] = window.max(2) if "Max" in node.op_type else window.sum(2) / counted
    return found


def product(random: Rng) -> Drawn:
    m, k, n = (int(extent) for extent in random.integers(1, 8, 3))
    if random.random() < 0.5:
        batch = [int(extent) for extent in random.integers(1, 4, random.integers(0, 3))]
        inputs = [real(random, *batch, m, k), real(random, *(batch if random.random() < 0.5 else []), k, n)]
        return model_of(helper.make_node("MatMul", ["a", "b"], ["y"]), inputs, 13), inputs
    flips = [int(random.integers(0, 2)) for _ in range(2)]
    inputs = [real(random, *((k, m) if flips[0] else (m, k))), real(random, *((n, k) if flips[1] else (k, n)))]
    if random.random() < 0.7:
        shapes = ([n], [1, n], [], [1], [m, 1], [m, n])
        inputs.append(real(random, *shapes[int(random.integers(0, len(shapes)))]))
    attributes: dict[str, Any] = {"transA": flips[0], "transB": flips[1]}
    attributes |= {name: float(random.uniform(-2, 2)) for name in ("alpha", "beta") if random.random() < 0.4}
    return model_of(helper.make_node("Gemm", ["a", "b", "c"][: len(inputs)], ["y"], **attributes), inputs, 13), inputs


def norm(random: Rng) -> Drawn:
    kind = str(
        random.choice(["BatchNormalization", "LayerNormalization", "InstanceNormalization", "GroupNormalization"])
    )
    groups = int(random.integers(1, 4))
    channels = groups * int(random.integers(1, 4))
    x = real(random, 2, channels, *random.integers(2, 5, random.integers(1, 3)))
    attributes: dict[str, Any] = {"epsilon": float(random.choice([1e-5, 1e-3]))} if random.random() < 0.6 else {}
    inputs = [x, real(random, channels), real(random, channels)]
    if kind == "BatchNormalization":
        inputs += [real(random, channels), np.abs(real(random, channels)) + np.float32(0.1)]
    if kind == "GroupNormalization":
        attributes["num_groups"] = groups
    if kind == "LayerNormalization":
        axis = int(random.integers(1, x.ndim))
        attributes["axis"] = axis - int(random.integers(0, 2)) * x.ndim
        inputs = [x, real(random, *x.shape[axis:]), real(random, *x.shape[axis:])]
    outputs = ["y"]
    if kind == "BatchNormalization" and random.random() < 0.5:
        attributes |= {"training_mode": 1, "momentum": float(random.uniform(0, 1))}
        outputs = ["y", "mean", "variance"][: 3 if random.random() < 0.7 else 1]
    if kind == "LayerNormalization" and random.random() < 0.5:
        outputs = [["y", "mean"], ["y", "", "deviation"], ["y", "mean", "deviation"]][int(random.integers(0, 3))]
    names = list("xsbmv")[: len(inputs)]
    return model_of(helper.make_node(kind, names, outputs, **attributes), inputs, 21), inputs


def moved(random: Rng) -> Drawn:
    kind = str(random.choice(["Transpose", "Reshape", "Concat", "Where", "Clip", "PRelu", "Pow", "Cast"]))
    x = real(random, *random.integers(1, 5, 4))
    inputs, attributes, constants = [x], {}, 0
    if kind == "Transpose" and random.random() < 0.7:
        attributes["perm"] = random.permutation(4).tolist()
    if kind == "Reshape":
        inputs, constants = [x, np.array([0, -1, x.shape[3]], np.int64)], 1
    if kind == "Concat":
        attributes["axis"] = int(random.integers(-4, 4))
        inputs = [x, x[:], real(random, *x.shape)]
    if kind == "Where":
        inputs = [x > 0, x, real(random, *x.shape)]
    if kind == "Clip":
        inputs, constants = [x, np.array(-0.5, np.float32), np.array(0.5, np.float32)], 2
    if kind == "PRelu":
        inputs = [x, real(random, x.shape[1], 1, 1) if random.random() < 0.7 else real(random, x.shape[3])]
    if kind == "Pow":
        inputs, constants = [np.abs(x), np.array(random.choice([0.5, 2.0, 3.0]), np.float32)], 1
    if kind == "Cast":
        attributes["to"] = int(random.choice([TensorProto.FLOAT16, TensorProto.BFLOAT16]))
    node = helper.make_node(kind, list("abc")[: len(inputs)], ["y"], **attributes)
    return model_of(node, inputs, 18, constants), inputs[: len(inputs) - constants]


RESIZED = (  # what Interpolate says: a mode, the places of cells, how halves are rounded, whether scales are whole
    ("linear", "half_pixel", "", False),
    ("linear", "half_pixel_symmetric", "", False),
    ("linear", "pytorch_half_pixel", "", False),
    ("linear", "align_corners", "", False),
    ("nearest", "half_pixel", "round_prefer_ceil", False),
    ("nearest", "align_corners", "round_prefer_ceil", False),
    ("nearest", "half_pixel", "round_prefer_floor", False),
    ("nearest", "align_corners", "round_prefer_floor", False),
    ("nearest", "pytorch_half_pixel", "round_prefer_floor", True),
    ("nearest", "asymmetric", "floor", True),
)


def resized(random: Rng) -> Drawn:
    mode, places, rounding, whole = RESIZED[int(random.integers(0, len(RESIZED)))]
    rank = int(random.integers(1, 4))
    x = real(random, *random.integers(1, 3, 2), *random.integers(2, 6, rank))
    attributes: dict[str, Any] = {"mode": mode, "coordinate_transformation_mode": places}
    if rounding:
        attributes["nearest_mode"] = rounding
    extents = np.array(x.shape[2:]) * random.integers(1, 4, rank) if whole else random.integers(2, 9, rank)
    by_scales = random.random() < 0.5 and (places != "pytorch_half_pixel" or bool(np.all(extents > x.shape[2:])))
    if by_scales and not whole:  # a scale that f32 rounds down gives a cell less
        extents = np.array(x.shape[2:]) * random.integers(2, 4, rank)
    given = np.array(extents / x.shape[2:], np.float32) if by_scales else np.array(extents, np.int64)
    if (
        random.random() < 0.3
        and (whole or places == "half_pixel")
        and rounding != "round_prefer_ceil"
        and places[0] in "hp"
    ):
        attributes["axes"] = list(range(2, x.ndim))
    else:
        given = np.concatenate([np.array([1, 1], np.float32) if by_scales else np.array(x.shape[:2]), given])
    names = ["x", "", "scales"] if by_scales else ["x", "", "", "sizes"]
    return model_of(helper.make_node("Resize", names, ["y"], **attributes), [x, given], 19, 1), [x]


def quantised(random: Rng) -> Drawn:
    """Multiples of scales and back: of one scale, one of each channel, and one of each block."""
    x = real(random, *random.integers(1, 5, 3))
    axis = int(random.integers(-3, 3))
    way = str(random.choice(["tensor", "channel", "block"]))
    size = int(random.integers(1, 4))
    if way == "block":
        x = np.repeat(x, size, axis)
    attributes: dict[str, Any] = {} if way == "tensor" else {"axis": axis}
    if way == "block":
        attributes["block_size"] = size
        shape = tuple(n // size if at == axis % 3 else n for at, n in enumerate(x.shape))
    else:
        shape = () if way == "tensor" else (x.shape[axis],)
    small = np.dtype(random.choice(["uint8", "int8"]))
    scales = random.uniform(0.25, 1, shape).astype(np.float32)
    if way != "block" and random.random() < 0.4:
        zeros = random.integers(0, 5, shape).astype(small)
        node = helper.make_node("QuantizeLinear", ["x", "s", "z"], ["y"], **attributes)
        return model_of(node, [x, scales, zeros], 23), [x, scales, zeros]
    if random.random() < 0.5:
        small = helper.tensor_dtype_to_np_dtype(TensorProto.INT4 if small.kind == "i" else TensorProto.UINT4)
    inputs = [random.integers(0, 8, x.shape).astype(small)]
    inputs.append(scales.astype(np.float16 if random.random() < 0.3 else np.float32))
    if random.random() < 0.7:
        inputs.append(random.integers(0, 5, shape).astype(small))
    node = helper.make_node("DequantizeLinear", ["x", "s", "z"][: len(inputs)], ["y"], **attributes)
    return model_of(node, inputs, 23), inputs


def small_reals(random: Rng) -> Drawn:
    """Casts to and from real numbers of eight bits."""
    kind = int(random.choice([TensorProto.FLOAT8E4M3FN, TensorProto.FLOAT8E5M2]))
    x = (real(random, *random.integers(1, 6, random.integers(1, 4))) * 100).astype(np.float32)
    inputs, attributes = [x], {"saturate": 0}
    if random.random() < 0.5:
        inputs, attributes = [x.astype(helper.tensor_dtype_to_np_dtype(kind))], {}
    to = kind if attributes else TensorProto.FLOAT
    if random.random() < 0.5:
        node = helper.make_node("Cast", ["x"], ["y"], to=to, **attributes)
    else:
        node = helper.make_node("CastLike", ["x", "t"], ["y"], **attributes)
        inputs.append(np.zeros(1, helper.tensor_dtype_to_np_dtype(to)))
    return model_of(node, inputs, 21), inputs


KINDS: tuple[Callable[[Rng], Drawn], ...] = (
    unary, binary, reduce, convolution, transposed, pool, product, norm, moved, resized, quantised, small_reals,
)  # fmt: skip


def network(random: Rng, opset: int = 17) -> onnx.ModelProto:
    """A small network with named extents: all of it is covered but Flatten."""
    weights = {"w": real(random, 8, 3, 3, 3), "b": real(random, 8), "v": real(random, 8, 5)}
    nodes = [
        helper.make_node("Conv", ["x", "w", "b"], ["c"], pads=[1, 1, 1, 1], strides=[2, 2]),
        helper.make_node("Relu", ["c"], ["r"]),
        helper.make_node("GlobalAveragePool", ["r"], ["g"]),
        helper.make_node("Flatten", ["g"], ["f"]),
        helper.make_node("MatMul", ["f", "v"], ["m"]),
        helper.make_node("Softmax", ["m"], ["y"], axis=-1),
    ]
    graph = helper.make_graph(
        nodes,
        "network",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 3, "H", "W"])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", 5])],
        [numpy_helper.from_array(array, name) for name, array in weights.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])


def mutated(random: Rng, data: bytes) -> bytes:
    """Some bytes of a file changed, cut or doubled."""
    found = bytearray(data)
    for _ in range(int(random.integers(1, 6))):
        at = int(random.integers(0, max(1, len(found))))
        match int(random.integers(0, 3)):
            case 0:
                found[at : at + 1] = random.bytes(1)
            case 1:
                del found[at : at + int(random.integers(1, 20))]
            case _:
                found[at:at] = found[at : at + int(random.integers(1, 20))]
    return bytes(found)


def reworded(random: Rng, data: bytes) -> bytes:
    """Some fields of a model with other values of their own types, or without any."""
    model = onnx.ModelProto.FromString(data)
    for _ in range(int(random.integers(1, 4))):
        fields = list(_fields(model))
        message, field = fields[int(random.integers(0, len(fields)))]
        value = getattr(message, field.name)
        if random.random() < 0.2:
            message.ClearField(field.name)
        elif field.message_type:
            if field.is_repeated:
                value.add().CopyFrom(value[int(random.integers(0, len(value)))])
            else:
                value.Clear()
        elif field.is_repeated:
            value[int(random.integers(0, len(value)))] = _other(random, field, value[0])
        else:
            setattr(message, field.name, _other(random, field, value))
    return model.SerializeToString()


def _fields(message: Any) -> Iterator[tuple[Any, Any]]:
    """Every field that is set in a message and those inside, each with its message."""
    for field, value in message.ListFields():
        yield message, field
        if field.message_type:
            for inner in value if field.is_repeated else [value]:
                yield from _fields(inner)


def _other(random: Rng, field: Any, value: Any) -> Any:
    """Another value of the type of a field."""
    if field.enum_type:
        return int(random.choice(list(field.enum_type.values_by_number)))
    if isinstance(value, str):
        return str(random.choice(["", "x", "y", "Conv", "kernel_shape", "ai.onnx.ml", value + "'"]))
    if isinstance(value, bytes):
        return value[: len(value) // 2] if random.random() < 0.5 else random.bytes(4)
    if isinstance(value, float):
        return float(random.choice([0.0, -1.0, math.nan, math.inf]))
    far = 2**50 if field.type == field.TYPE_INT64 else 2**31 - 1  # no machine has so much memory
    return int(random.choice([-far, -1, 0, 1, 2, 7, far]))


def near(found: np.ndarray, wanted: np.ndarray) -> bool:
    """Whether two results agree as f32 or lower sums in another order do."""
    if found.shape != wanted.shape or found.dtype != wanted.dtype:
        return False
    bound = 1e-2 if found.dtype.itemsize == 2 else 2e-5
    scale = float(np.abs(wanted.astype(np.float64)).max(initial=1.0))
    assert math.isfinite(scale)
    return bool(np.allclose(found.astype(np.float64), wanted.astype(np.float64), rtol=bound, atol=bound * scale))
