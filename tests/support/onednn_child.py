"""The worker that calls oneDNN's C Graph API. It runs alone in its process, because the library may end that process.

In: requests, pickled, over the connection whose descriptor is the second argument (the first is the library's path).
Out: one answer for each request. Requests are dictionaries:

- `{"ops": [...]}` builds and finalizes a graph; the answer lists for each partition whether the library supports it.
- `{"ops": [one], "arrays": {tensor id: array}}` also compiles and executes it; the answer is the output array, or a list of several.

An op is `{"kind", "attributes", "inputs", "outputs"}`. A tensor is `{"id", "dtype", "dims", "strides"}`, with "layout"
("strided" unless given) and "property" ("undef" unless given); dims and strides of None mean unknown, also entry by
entry. An answer is `("done", value)`, or `("refused", (stage, status))`. Imports nothing of the project.
"""

from __future__ import annotations

import ctypes
import resource
import sys
from collections.abc import Callable
from contextlib import ExitStack
from multiprocessing.connection import Connection
from typing import Any

import ml_dtypes
import numpy as np

MAX_NDIMS = 12
UNKNOWN_NDIMS = -1
UNKNOWN_DIM = -(2**63)
CPU_ENGINE = 1
FUSION = 1
IN_ORDER = 1

STATUS = [
    "success",
    "out_of_memory",
    "invalid_arguments",
    "unimplemented",
    "last_impl_reached",
    "runtime_error",
    "not_required",
    "invalid_graph",
    "invalid_graph_op",
    "invalid_shape",
    "invalid_data_type",
]
DTYPES = {
    "f16": (1, np.float16),
    "bf16": (2, ml_dtypes.bfloat16),
    "f32": (3, np.float32),
    "s32": (4, np.int32),
    "s8": (5, np.int8),
    "u8": (6, np.uint8),
    "boolean": (8, np.bool_),
    "f8_e5m2": (9, ml_dtypes.float8_e5m2),
    "f8_e4m3": (10, ml_dtypes.float8_e4m3fn),
    "s4": (11, ml_dtypes.int4),  # two to a byte in memory
    "u4": (12, ml_dtypes.uint4),
}
LAYOUTS = {"undef": 0, "any": 1, "strided": 2}
PROPERTIES = {"undef": 0, "variable": 1, "constant": 2}
# In the order of dnnl_graph_op_kind_t; two of them are no operations.
KINDS = {
    name: number
    for number, name in enumerate(
        "Abs AbsBackward Add AvgPool AvgPoolBackward BatchNormTrainingBackward BatchNormForwardTraining BatchNormInference "
        "BiasAdd BiasAddBackward Clamp ClampBackward Concat Convolution ConvolutionBackwardData ConvolutionBackwardWeights "
        "ConvTranspose ConvTransposeBackwardData ConvTransposeBackwardWeights Dequantize Divide DynamicDequantize "
        "DynamicQuantize Elu EluBackward End Exp GELU GELUBackward HardSwish HardSwishBackward Interpolate "
        "InterpolateBackward LayerNorm LayerNormBackward LeakyReLU Log LogSoftmax LogSoftmaxBackward MatMul Maximum MaxPool "
        "MaxPoolBackward Minimum Mish MishBackward Multiply PReLU PReLUBackward Quantize Reciprocal ReduceL1 ReduceL2 "
        "ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum ReLU ReLUBackward Reorder Round Sigmoid SigmoidBackward SoftMax "
        "SoftMaxBackward SoftPlus SoftPlusBackward Sqrt SqrtBackward Square SquaredDifference StaticReshape StaticTranspose "
        "Subtract Tanh TanhBackward TypeCast Wildcard HardSigmoid HardSigmoidBackward Select Pow GroupNorm GenIndex "
        "GreaterEqual RMSNorm Dropout".split()
    )
}
# By the first number of each range of dnnl_graph_op_attr_t: reals, lists of reals, integers, lists, truths, texts.
ATTRIBUTES = {
    name: first + number
    for first, names in {
        0x1: "alpha beta epsilon max min momentum",
        0x20: "scales",
        0x30: "axis begin_norm_axis groups",
        0x40: "axes dilations dst_shape kernel order output_padding pads_begin pads_end shape sizes src_shape strides "
        "weights_shape zps group_shape",
        0x60: "exclude_pad keep_dims keep_stats per_channel_broadcast special_zero transpose_a transpose_b use_affine "
        "use_dst",
        0x80: "auto_broadcast auto_pad coordinate_transformation_mode data_format mode qtype rounding_type weights_format "
        "accumulation_mode",
    }.items()
    for number, name in enumerate(names.split())
}
Dims = ctypes.c_int64 * MAX_NDIMS
Handle = ctypes.c_void_p


class LogicalTensor(ctypes.Structure):
    """`dnnl_graph_logical_tensor_t`."""

    _fields_ = (
        ("id", ctypes.c_size_t),
        ("ndims", ctypes.c_int),
        ("dims", Dims),
        ("data_type", ctypes.c_int),
        ("property", ctypes.c_int),
        ("layout_type", ctypes.c_int),
        ("strides", Dims),
    )

    @classmethod
    def of(cls, tensor: dict[str, Any]) -> LogicalTensor:
        """The library's view of a request's tensor."""
        dims, strides = tensor["dims"], tensor["strides"]
        ndims = UNKNOWN_NDIMS if dims is None else len(dims)
        unknown = [None] * max(ndims, 0)
        return cls(
            id=tensor["id"],
            ndims=ndims,
            dims=_dims(unknown if dims is None else dims),
            data_type=DTYPES[tensor["dtype"]][0],
            property=PROPERTIES[tensor.get("property", "undef")],
            layout_type=LAYOUTS[tensor.get("layout", "strided")],
            strides=_dims(unknown if strides is None else strides),
        )

    def array(self) -> np.ndarray:
        """A zeroed array with this tensor's type, extents and strides."""
        dtype = np.dtype(next(dtype for code, dtype in DTYPES.values() if code == self.data_type))
        dims, strides = list(self.dims[: self.ndims]), list(self.strides[: self.ndims])
        cells = 1 + sum((extent - 1) * stride for extent, stride in zip(dims, strides, strict=True)) if all(dims) else 0
        flat = np.zeros(max(cells, 1), dtype)
        return np.ndarray(dims, dtype, flat, strides=[stride * dtype.itemsize for stride in strides])


class Refused(Exception):  # noqa: N818 - an answer, not an error of this program
    """The library answered `status` at `stage`."""

    def __init__(self, stage: str, status: str) -> None:
        super().__init__(stage, status)
        self.stage, self.status = stage, status


class Library:
    """oneDNN, with statuses as exceptions and its objects destroyed by an ExitStack."""

    def __init__(self, path: str) -> None:
        self.dll = ctypes.CDLL(path)

    def call(self, name: str, *arguments: Any) -> None:
        """Call the function `dnnl_<name>`; anything but success raises `Refused`."""
        status = getattr(self.dll, f"dnnl_{name}")(*arguments)
        if status:
            raise Refused(name.removeprefix("graph_"), STATUS[status] if status < len(STATUS) else str(status))

    def make(self, stack: ExitStack, name: str, *arguments: Any) -> Handle:
        """Create a `dnnl_<name>` that the stack destroys."""
        handle = Handle()
        self.call(f"{name}_create", ctypes.byref(handle), *arguments)
        stack.callback(self.call, f"{name}_destroy", handle)
        return handle

    def answer(self, request: dict[str, Any]) -> Any:
        """Build the request's graph, and execute it where arrays are given."""
        with ExitStack() as stack:
            if "arrays" not in request:
                return [self._supported(partition) for partition in self._partitions(stack, request["ops"])]
            engine = self.make(stack, "engine", CPU_ENGINE, _size(0))
            stream = self.make(stack, "stream", engine, IN_ORDER)
            run, outputs = self.compiled(stack, request["ops"], request["arrays"], engine, stream)
            run()
            found = [np.ascontiguousarray(output).reshape(output.shape) for output in outputs]
            return found[0] if len(found) == 1 else found

    def _partitions(self, stack: ExitStack, ops: list[dict[str, Any]]) -> list[Handle]:
        graph = self.make(stack, "graph_graph", CPU_ENGINE)
        for number, op in enumerate(ops):
            handle = self.make(stack, "graph_op", _size(number), KINDS[op["kind"]], f"op_{number}".encode())
            for name, value in op["attributes"].items():
                self._set(handle, ATTRIBUTES[name], value)
            for end in ("input", "output"):
                for tensor in op[f"{end}s"]:
                    self.call(f"graph_op_add_{end}", handle, ctypes.byref(LogicalTensor.of(tensor)))
            self.call("graph_add_op", graph, handle)
        self.call("graph_graph_finalize", graph)
        self.call("graph_graph_filter", graph, FUSION)
        count = ctypes.c_size_t()
        self.call("graph_graph_get_partition_num", graph, ctypes.byref(count))
        partitions = (Handle * count.value)()
        self.call("graph_graph_get_partitions", graph, count, partitions)
        handles = [Handle(partition) for partition in partitions]
        for handle in handles:
            stack.callback(self.call, "graph_partition_destroy", handle)
        return handles

    def _set(self, op: Handle, attribute: int, value: Any) -> None:
        if isinstance(value, str):
            self.call("graph_op_set_attr_str", op, attribute, value.encode(), _size(len(value)))
        else:
            kind, dtype = ("f32", np.float32) if attribute < 0x30 else ("s64", np.int64)
            kind, dtype = ("bool", np.uint8) if attribute >= 0x60 else (kind, dtype)
            numbers = np.atleast_1d(np.asarray(value, dtype))
            self.call(f"graph_op_set_attr_{kind}", op, attribute, Handle(numbers.ctypes.data), _size(numbers.size))

    def _supported(self, partition: Handle) -> bool:
        flag = ctypes.c_uint8()
        self.call("graph_partition_is_supported", partition, ctypes.byref(flag))
        return bool(flag.value)

    def compiled(
        self, stack: ExitStack, ops: list[dict[str, Any]], arrays: dict[int, Any], engine: Handle, stream: Handle
    ) -> tuple[Callable[[], None], list[np.ndarray]]:
        """A function that executes a graph of one operation, and the arrays that it fills: of `arrays`, or made."""
        partitions = self._partitions(stack, ops)
        if len(partitions) != 1 or not self._supported(partitions[0]):
            raise Refused("partition_is_supported", "unimplemented")
        partition, op = partitions[0], ops[0]
        compiled = self.make(stack, "graph_compiled_partition", partition)
        inputs = [LogicalTensor.of(tensor) for tensor in op["inputs"]]
        outputs = [LogicalTensor.of(tensor) for tensor in op["outputs"]]
        pointers = (ctypes.POINTER(LogicalTensor) * len(inputs))(*map(ctypes.pointer, inputs))
        results = (ctypes.POINTER(LogicalTensor) * len(outputs))(*map(ctypes.pointer, outputs))
        sizes = _size(len(inputs)), _size(len(outputs))
        self.call("graph_partition_compile", partition, compiled, sizes[0], pointers, sizes[1], results, engine)
        query = "graph_compiled_partition_query_logical_tensor"
        for output in outputs:
            self.call(query, compiled, _size(output.id), ctypes.byref(output))

        def tensor(logical: LogicalTensor, array: np.ndarray) -> int | None:
            data = Handle(array.ctypes.data)
            return self.make(stack, "graph_tensor", ctypes.byref(logical), engine, data).value

        made = [arrays[output.id] if output.id in arrays else output.array() for output in outputs]
        sources = (Handle * len(inputs))(*(tensor(logical, arrays[logical.id]) for logical in inputs))
        target = (Handle * len(outputs))(*map(tensor, outputs, made))

        def run() -> None:
            self.call("graph_compiled_partition_execute", compiled, stream, sizes[0], sources, sizes[1], target)
            self.call("stream_wait", stream)

        return run, made


def _dims(values: list[int | None]) -> Dims:
    return Dims(*(UNKNOWN_DIM if value is None else value for value in values))


def _size(value: int) -> ctypes.c_size_t:
    return ctypes.c_size_t(value)


def serve(path: str, connection: Connection) -> None:
    """Answer requests until the other end closes the connection."""
    library = Library(path)
    while True:
        try:
            request = connection.recv()
        except EOFError:
            return
        try:
            connection.send(("done", library.answer(request)))
        except Refused as refusal:
            connection.send(("refused", (refusal.stage, refusal.status)))


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # it dies often, and leaves nothing behind
    serve(sys.argv[1], Connection(int(sys.argv[2])))
