"""The cases of operations of steps: the shapes of each, and PyTorch's call that computes the same.

In: nothing. Out: `CASES`. PyTorch writes into the array of the caller where `Case.reuses` says that its function can;
ours always does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

Extents = tuple[int, ...]


@dataclass(frozen=True)
class Case:
    """A call but for its dtype: `inputs` by extents, `torch` takes them and the result to write, and returns it.

    `kinds` are dtypes of inputs that are not the row's, by position; `dst` that of the result. `dtypes` are those of
    rows. `positive` inputs are above 0.
    """

    group: str
    op: str
    name: str
    inputs: tuple[Extents, ...]
    torch: Callable[..., Any]
    attributes: Mapping[str, Any] = field(default_factory=dict)
    reuses: bool = True
    kinds: Mapping[int, str] = field(default_factory=dict)
    dst: str = ""
    dtypes: tuple[str, ...] = ("f32", "bf16")
    positive: bool = False


def aten(name: str) -> Any:
    """A function of PyTorch that writes into its `out` argument."""
    import torch

    function: Any = torch.ops.aten
    for part in name.split("."):
        function = getattr(function, part)
    return function


def _out(name: str, *rest: Any) -> Callable[..., Any]:
    """A function of PyTorch of all inputs and some constants, with an `out`."""
    return lambda *given: aten(name)(*given[:-1], *rest, out=given[-1])


def copied(x: Any, out: Any) -> Any:
    """`x` in an array that is there from the first call on."""
    return out.resize_(x.shape).copy_(x)


def _wide(extents: Extents) -> str:
    return "x".join(map(str, extents))


def _pointwise() -> list[Case]:
    cases = []
    for size in (1 << 10, 1 << 14, 1 << 17, 1 << 20, 1 << 24):
        one, two = ((size,),), ((size,), (size,))
        cases += [
            Case("pointwise", "relu", f"{size}", one, lambda x, out: aten("clamp_min.out")(x, 0, out=out)),
            Case("pointwise", "add", f"{size}", two, _out("add.out")),
        ]
    for op, torch, rest in (
        ("multiply", "mul.out", ()), ("divide", "div.out", ()), ("maximum", "maximum.out", ()),
        ("exp", "exp.out", ()), ("tanh", "tanh.out", ()), ("sigmoid", "sigmoid.out", ()), ("square", "square.out", ()),
        ("mish", "mish.out", ()), ("hard_swish", "hardswish.out", ()), ("absolute", "abs.out", ()),
    ):  # fmt: skip
        count = 2 if op in ("multiply", "divide", "maximum") else 1
        cases.append(Case("pointwise", op, "1000003", ((1000003,),) * count, _out(torch, *rest)))
    long: tuple[Extents, ...] = ((1 << 20,),)
    cases += [
        Case("pointwise", "log", "1048576", long, _out("log.out"), positive=True),
        Case("pointwise", "sqrt", "1048576", long, _out("sqrt.out"), positive=True),
        Case("pointwise", "power", "1048576_cube", long, _out("pow.Tensor_Scalar_out", 3.0), {"beta": 3.0}),
        Case("pointwise", "gelu", "1048576_erf", long, _out("gelu.out"), {"mode": "gelu_erf"}),
        Case("pointwise", "gelu", "1048576_tanh", long,
             lambda x, out: aten("gelu.out")(x, approximate="tanh", out=out), {"mode": "gelu_tanh"}),
    ]  # fmt: skip
    return cases


def _broadcast() -> list[Case]:
    shapes: tuple[tuple[Extents, Extents], ...] = (
        ((1024, 1024), (1024,)), ((1024, 1024), (1024, 1)), ((32, 64, 56, 56), (64, 1, 1)), ((4096, 64), (64,)),
        ((256, 1, 512), (1, 128, 512)), ((64, 197, 100), (100,)), ((32, 3136, 64), (1, 1, 64)), ((1, 512), (2048, 1)),
    )  # fmt: skip
    cases = [
        Case("broadcast", op, f"{_wide(a)}_{_wide(b)}", (a, b), _out(f"{'mul' if op == 'multiply' else op}.out"))
        for op in ("add", "multiply")
        for a, b in shapes
    ]
    src = (16, 64, 56, 56)

    def biased(x: Any, bias: Any, out: Any) -> Any:
        return aten("add.out")(x, bias.view(-1, 1, 1), out=out)

    cases.append(Case("broadcast", "bias_add", f"{_wide(src)}_ncx", (src, (64,)), biased, {"data_format": "NCX"}))
    return cases


def _reductions() -> list[Case]:
    cases = []
    for shape, axes in (
        ((1024, 1024), [1]), ((1024, 1024), [0]), ((64, 128, 256), [1]), ((4096, 4096), [1]), ((4096, 4096), [0]),
        ((65536, 64), [1]), ((100000, 10), [1]), ((1 << 20,), [0]), ((32, 64, 56, 56), [0, 2, 3]),
        ((3, 333, 777), [0, 1]),
        ((64, 1000), [1]), ((16, 100, 100), [1, 2]), ((4096, 4096), [0, 1]),
    ):  # fmt: skip
        name = f"{_wide(shape)}_{_wide(tuple(axes))}"
        cases += [
            Case("reductions", "reduce_sum", name, (shape,), _out("sum.IntList_out", axes), {"axes": axes}),
            Case("reductions", "reduce_max", name, (shape,), _out("amax.out", axes), {"axes": axes}),
        ]
    cases += [
        Case("reductions", "reduce_mean", "1024x1024_1", ((1024, 1024),), _out("mean.out", [1]), {"axes": [1]}),
        Case("reductions", "reduce_l2", "1024x1024_1", ((1024, 1024),),
             lambda x, out: aten("linalg_vector_norm.out")(x, 2.0, [1], out=out), {"axes": [1]}),
    ]  # fmt: skip
    return cases


def _rows() -> list[Case]:
    cases = []
    for shape, axis in (((1024, 1024), 1), ((12, 197, 197), 2), ((4096, 64), 1), ((128, 30522), 1), ((64, 100, 56), 1)):
        name, given = f"{_wide(shape)}_{axis}", {"axis": axis}
        cases += [
            Case("softmax", "soft_max", name, (shape,), _out("_softmax.out", axis, False), given),
            Case("softmax", "log_softmax", name, (shape,), _out("_log_softmax.out", axis, False), given),
        ]
    shape = (1024, 1024)

    def softmax(d: Any, y: Any, out: Any) -> Any:
        return aten("_softmax_backward_data.out")(d, y, 1, d.dtype, grad_input=out)

    def log_softmax(d: Any, y: Any, out: Any) -> Any:
        return aten("_log_softmax_backward_data.out")(d, y, 1, d.dtype, out=out)

    for op, torch in (("soft_max_backward", softmax), ("log_softmax_backward", log_softmax)):
        cases.append(Case("softmax", op, f"{_wide(shape)}_1", (shape, shape), torch, {"axis": 1}))
    return cases


def _layer_norm(shape: Extents) -> Case:
    def torch(x: Any, gamma: Any, beta: Any, out: Any) -> Any:
        stats = [x.new_empty((*shape[:-1], 1)) for _ in range(2)]
        return aten("native_layer_norm.out")(x, shape[-1:], gamma, beta, 1e-5, out0=out, out1=stats[0], out2=stats[1])[
            0
        ]

    inputs = (shape, shape[-1:], shape[-1:])
    return Case("norms", "layer_norm", _wide(shape), inputs, torch, {"keep_stats": False})


def _norms() -> list[Case]:
    cases = [_layer_norm(shape) for shape in ((1024, 1024), (4096, 768), (8, 197, 768), (16384, 64), (2048, 4096))]

    def rms(x: Any, gamma: Any, _: Any) -> Any:
        import torch

        return torch.nn.functional.rms_norm(x, gamma.shape, gamma, 1e-5)

    cases += [Case("norms", "rms_norm", _wide(s), (s, s[-1:]), rms, reuses=False) for s in ((1024, 1024), (512, 4096))]

    shape, c = (16, 64, 56, 56), (64,)

    def layer_backward(x: Any, d: Any, mean: Any, variance: Any, gamma: Any, beta: Any, _: Any) -> Any:
        rstd = (variance + 1e-5).rsqrt()
        mask = [True, True, True]
        normal = (x.shape[-1],)
        return aten("native_layer_norm_backward")(d, x, normal, mean[:, None], rstd[:, None], gamma, beta, mask)[0]

    flat = (4096, 768)
    cases.append(Case("norms", "layer_norm_backward", _wide(flat), (flat, flat, (4096,), (4096,), (768,), (768,)),
                      layer_backward, reuses=False, positive=True))  # fmt: skip
    for layout, extents in (("NCX", shape), ("NXC", (16, 56, 56, 64))):
        name, given = f"{_wide(shape)}_{layout.lower()}", {"data_format": layout}

        def first(x: Any, layout: str = layout) -> Any:
            return x if layout == "NCX" else x.movedim(-1, 1)

        def group(x: Any, gamma: Any, beta: Any, _: Any, first: Any = first) -> Any:
            import torch

            return torch.nn.functional.group_norm(first(x), 8, gamma, beta, 1e-5)

        def batch(x: Any, mean: Any, variance: Any, gamma: Any, beta: Any, _: Any, first: Any = first) -> Any:
            mean, variance = mean.clone(), variance.clone()
            return aten("native_batch_norm")(first(x), gamma, beta, mean, variance, True, 0.5, 1e-5)[0]

        def backward(x: Any, d: Any, mean: Any, variance: Any, gamma: Any, _: Any, first: Any = first) -> Any:
            given = (gamma, mean, variance, mean, (variance + 1e-5).rsqrt())
            return aten("native_batch_norm_backward")(first(d), first(x), *given, True, 1e-5, [True] * 3)[0]

        def inference(x: Any, gamma: Any, beta: Any, mean: Any, variance: Any, _: Any, first: Any = first) -> Any:
            return aten("native_batch_norm")(first(x), gamma, beta, mean, variance, False, 0.5, 1e-5)[0]

        cases += [
            Case("norms", "group_norm", name, (extents, c, c), group,
                 {**given, "groups": 8, "keep_stats": False}, reuses=False),
            Case("norms", "batch_norm_forward_training", name, (extents, c, c, c, c), batch,
                 {**given, "epsilon": 1e-5}, reuses=False),
            Case("norms", "batch_norm_inference", name, (extents, c, c, c, c), inference,
                 {**given, "epsilon": 1e-5}, reuses=False, positive=True),
            Case("norms", "batch_norm_training_backward", name, (extents, extents, c, c, c), backward,
                 {**given, "epsilon": 1e-5}, reuses=False, positive=True),
        ]  # fmt: skip
    return cases


def _pools() -> list[Case]:
    cases = []
    for rank, shape, kernel, stride, pad in (
        (2, (8, 64, 112, 112), 3, 2, 1), (2, (16, 128, 28, 28), 2, 2, 0), (1, (16, 64, 4000), 3, 2, 1),
        (3, (2, 32, 16, 56, 56), 2, 2, 0), (2, (16, 512, 7, 7), 7, 1, 0), (2, (4, 96, 35, 35), 3, 1, 1),
    ):  # fmt: skip
        for layout in ("NCX", "NXC"):
            cases += _pool(rank, shape, (kernel, stride, pad), layout)
    return cases


def _pool(rank: int, shape: Extents, window: Extents, layout: str) -> list[Case]:
    kernel, stride, pad = ([n] * rank for n in window)
    extents = shape if layout == "NCX" else (shape[0], *shape[2:], shape[1])
    name = f"{_wide(shape)}_{window[0]}s{window[1]}_{layout.lower()}"
    given = {"kernel": kernel, "strides": stride, "pads_begin": pad, "pads_end": pad, "data_format": layout}
    last = layout == "NXC"

    def functional(function: str, **more: Any) -> Callable[..., Any]:
        def run(x: Any, _: Any) -> Any:
            import torch

            found: Any = getattr(torch.nn.functional, f"{function}_pool{rank}d")
            return found(x.movedim(-1, 1) if last else x, kernel, stride, pad, **more)

        return run

    space = tuple((extent + 2 * window[2] - window[0]) // window[1] + 1 for extent in shape[2:])
    out = (shape[0], shape[1], *space) if not last else (shape[0], *space, shape[1])

    def backward(x: Any, d: Any, _: Any) -> Any:
        x, d = (a.movedim(-1, 1) if last else a for a in (x, d))
        _, places = aten(f"max_pool{rank}d_with_indices")(x, kernel, stride, pad)
        call = aten(f"max_pool{rank}d_with_indices_backward")
        return call(d, x, kernel, stride, pad, [1] * rank, False, places)

    cases = [
        Case("pools", "max_pool", name, (extents,), functional("max"), given, reuses=False),
        Case("pools", "avg_pool", name, (extents,), functional("avg", count_include_pad=False),
             {**given, "exclude_pad": True}, reuses=False),
    ]  # fmt: skip
    if rank > 1 and window[0] < 4:  # PyTorch's need the places of the maxima: both look for them here
        cases.append(Case("pools", "max_pool_backward", name, (extents, out), backward, given, reuses=False))
    if rank > 1:
        cases.append(Case("pools", "avg_pool_backward", name, (out,), _averaged(rank, extents, given, last),
                          {**given, "exclude_pad": True, "src_shape": list(extents)}, reuses=False,
                          dtypes=("f32", "bf16") if rank == 2 else ("f32",)))  # fmt: skip
    return cases


def _averaged(rank: int, extents: Extents, given: Mapping[str, Any], last: bool) -> Callable[..., Any]:
    """The gradient of average pooling, which needs a src of the right shape."""

    def run(d: Any, _: Any) -> Any:
        src = d.new_empty(extents)
        src, d = (a.movedim(-1, 1) if last else a for a in (src, d))
        window = (given["kernel"], given["strides"], given["pads_begin"])
        return aten(f"avg_pool{rank}d_backward")(d, src, *window, False, False, None)

    return run


def _moves() -> list[Case]:
    cases = []
    for layout in ("NCX", "NXC"):
        shape = (4, 64, 56, 56) if layout == "NCX" else (4, 56, 56, 64)
        for mode in ("nearest", "bilinear"):

            def resize(x: Any, _: Any, mode: str = mode, last: bool = layout == "NXC") -> Any:
                import torch

                given: Any = {} if mode == "nearest" else {"align_corners": False}
                mode = "nearest-exact" if mode == "nearest" else mode
                return torch.nn.functional.interpolate(x.movedim(-1, 1) if last else x, (112, 112), mode=mode, **given)

            def spread(x: Any, d: Any, _: Any, mode: str = mode, last: bool = layout == "NXC") -> Any:
                x, d = (a.movedim(-1, 1) if last else a for a in (x, d))
                if mode == "nearest":
                    return aten("_upsample_nearest_exact2d_backward")(d, [112, 112], list(x.shape))
                return aten("upsample_bilinear2d_backward")(d, [112, 112], list(x.shape), False)

            attributes = {"mode": mode, "extents": [112, 112], "data_format": layout}
            name = f"4x64x56x56_{mode}_{layout.lower()}"
            large = (4, 64, 112, 112) if layout == "NCX" else (4, 112, 112, 64)
            cases += [
                Case("moves", "interpolate", name, (shape,), resize, attributes, reuses=False),
                Case("moves", "interpolate_backward", name, (shape, large), spread, attributes, reuses=False),
            ]
    for extents, order in (
        ((1024, 1024), [1, 0]), ((1000, 777), [1, 0]), ((16, 64, 56, 56), [0, 2, 3, 1]),
        ((16, 56, 56, 64), [0, 3, 1, 2]),
        ((8, 197, 12, 64), [0, 2, 1, 3]), ((64, 64, 64, 64), [3, 2, 1, 0]), ((4096, 4096), [1, 0]),
    ):  # fmt: skip
        name = f"{_wide(extents)}_{_wide(tuple(order))}"
        cases.append(Case("moves", "static_transpose", name, (extents,),
                          lambda x, out, order=order: copied(x.permute(order), out), {"order": order}))  # fmt: skip
    flat = ((1 << 20,),)
    cases += [
        Case("moves", "static_reshape", "1024x1024_flat", ((1024, 1024),), lambda x, out: copied(x.view(-1), out),
             {"shape": [1 << 20], "special_zero": False}),
        Case("moves", "reorder", "1024x1024", ((1024, 1024),), copied),
        Case("moves", "type_cast", "1048576_f32_bf16", flat, copied, dst="bf16", dtypes=("f32",)),
        Case("moves", "type_cast", "1048576_f32_f16", flat, copied, dst="f16", dtypes=("f32",)),
        Case("moves", "type_cast", "1048576_bf16_f32", flat, copied, dst="f32", dtypes=("bf16",)),
    ]  # fmt: skip
    for dst in ("u8", "s8"):

        def quantize(x: Any, _: Any, dst: str = dst) -> Any:
            import torch

            if x.dtype == torch.float64:  # which says what is right
                low = 0 if dst == "u8" else -128
                return (x / 0.03125 + 3).round().clamp(low, low + 255)
            kind = torch.quint8 if dst == "u8" else torch.qint8
            return torch.quantize_per_tensor(x, 0.03125, 3, kind).int_repr()

        given = {"scales": [0.03125], "zps": [3], "axis": 0}
        cases.append(Case("moves", "quantize", f"1048576_{dst}", flat, quantize, given, reuses=False, dst=dst,
                          dtypes=("f32",)))  # fmt: skip
    return cases


CASES: tuple[Case, ...] = (*_pointwise(), *_broadcast(), *_reductions(), *_rows(), *_norms(), *_pools(), *_moves())
