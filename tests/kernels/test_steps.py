"""Operations of steps, from YAML to called kernels: each held against the interpreter, on views, threads and no cells."""

from __future__ import annotations

import ctypes
import subprocess
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from opwright.derive.arguments import in_place
from opwright.derive.phases import staged
from opwright.language.library import Library
from opwright.oracle.run_steps import compute_steps
from opwright.oracle.validate_steps import validate_steps
from opwright_kernels import _isa
from support.compilers import INCLUDE
from support.hand_calls import CALLS, Call, label, real, whole
from support.package import package

SPECS = Path(__file__).parents[1] / "data" / "steps"
F32, BF16 = np.dtype(np.float32), np.dtype(ml_dtypes.bfloat16)
E4M3, E5M2 = ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2
GENERATOR = np.random.default_rng(17)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Library, ModuleType]:
    texts = {path.name: path.read_text(encoding="utf-8") for path in sorted(SPECS.glob("*.yaml"))}
    return package(texts, tmp_path_factory.mktemp("steps"), "steps_package")


def outputs(result: Any) -> list[Any]:
    return list(result) if isinstance(result, tuple) else [result]


def same(found: Any, expected: Any) -> None:
    """Equal where numbers are whole, else as near as f32, or the output's type, allows."""
    assert found.shape == expected.shape
    assert found.dtype == expected.dtype
    precision = {BF16: 1e-2, np.dtype(np.float16): 2e-3}.get(found.dtype, 1e-5)
    if found.dtype.itemsize == 1 and found.dtype.kind == "V":
        assert found.astype(np.float64).tobytes() == expected.astype(np.float64).tobytes()
    np.testing.assert_allclose(found.astype(np.float64), expected.astype(np.float64), rtol=precision, atol=precision)


@pytest.mark.parametrize("call", CALLS, ids=label)
def test_a_kernel_computes_what_the_interpreter_does(made: tuple[Library, ModuleType], call: Call) -> None:
    library, kernels = made
    function, inputs, attributes = call
    expected = compute_steps(library.op(function), inputs, attributes)
    found = outputs(getattr(kernels, function)(*inputs, **attributes))
    assert len(found) == len(expected)
    for array, name in zip(found, expected, strict=True):
        same(array, expected[name])


def test_tensors_may_have_the_names_of_the_parameters_around_them(
    made: tuple[Library, ModuleType], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Compiled with the declarations that cffi makes glue of, which others do without."""
    monkeypatch.setenv("OPWRIGHT_FFI", "api")
    library, kernels = made
    inputs = [real(2, 3), real(2), real(3), real(3), None]
    expected = compute_steps(library.op("NamedLikeParameters"), inputs, {})
    for array, name in zip(kernels.named_like_parameters(*inputs), expected, strict=True):
        same(array, expected[name])


HERE = {row.name: row for row in _isa.ISAS}
ONE_EACH = tuple({call[0]: call for call in CALLS if getattr(call[1][0], "dtype", None) == F32}.values())


@pytest.mark.parametrize("isa", [name for name in ("portable", "avx2", "neon") if HERE[name].needs <= _isa.cpu_flags()])
def test_every_instruction_set_gives_the_same_bits(
    made: tuple[Library, ModuleType], isa: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each is one file compiled with other flags, without fused multiply-add; only engines of contractions fuse."""
    library, kernels = made
    best = [outputs(getattr(kernels, function)(*inputs, **given)) for function, inputs, given in ONE_EACH]
    monkeypatch.setenv("OPWRIGHT_ISA", isa)
    kernels._operation.forget()
    try:
        for (function, inputs, given), wanted in zip(ONE_EACH, best, strict=True):
            assert kernels.explain(function, *inputs, **given).variant.isa == isa
            found = outputs(getattr(kernels, function)(*inputs, **given))
            if any(phase.contraction for phase in staged(library.op(function)).phases):
                for array, other in zip(found, wanted, strict=True):
                    same(array, other)
            else:
                assert_bits(found, wanted)
    finally:
        monkeypatch.undo()
        kernels._operation.forget()


def views(array: Any) -> list[Any]:
    """The same cells in other orders of memory: transposed, backwards, with gaps."""
    if array.ndim == 0:
        return [array.copy()] * 3
    gaps = np.empty([2 * extent for extent in array.shape], array.dtype)[
        tuple(slice(None, None, 2) for _ in array.shape)
    ]
    gaps[...] = array
    backwards = array[tuple(slice(None, None, -1) for _ in array.shape)].copy()
    return [array.T.copy().T, backwards[tuple(slice(None, None, -1) for _ in array.shape)], gaps]


def viewed_as(given: Any, number: int) -> Any:
    if isinstance(given, list):
        return [views(array)[number] for array in given]
    return None if given is None else views(given)[number]


@pytest.mark.parametrize("number", range(3))
@pytest.mark.parametrize("call", CALLS[::2], ids=label)
def test_views_and_out_change_no_value_and_threads_no_bit(
    made: tuple[Library, ModuleType], call: Call, number: int
) -> None:
    """The order of memory may choose another letter for lanes, and so another order of sums."""
    _, kernels = made
    function, inputs, attributes = call
    run = getattr(kernels, function)
    expected = outputs(run(*inputs, **attributes, threads=1))
    assert_bits(outputs(run(*inputs, **attributes, threads=4)), expected)
    viewed = [viewed_as(array, number) for array in inputs]
    targets = [views(np.zeros_like(array))[number] for array in expected]
    out = targets[0] if len(targets) == 1 else tuple(targets)
    alone = outputs(run(*viewed, **attributes, out=out, threads=1))
    for array, wanted in zip(alone, expected, strict=True):
        same(array, wanted)
    copies = [array.copy() for array in alone]
    assert_bits(outputs(run(*viewed, **attributes, out=out, threads=3)), copies)
    assert all(
        np.shares_memory(array, target) for array, target in zip(outputs(out), targets, strict=True) if array.size
    )


def assert_bits(found: Sequence[Any], expected: Sequence[Any]) -> None:
    for array, wanted in zip(found, expected, strict=True):
        assert array.tobytes() == wanted.tobytes()


REFUSED: tuple[tuple[Call, str], ...] = (
    (("soft_max", [real(2, 3)], {"axis": 2}), "axis-range"),
    (("soft_max", [real()], {"axis": 0}), "axis-range"),
    (("soft_max", [whole(2, dtype=np.int32)], {}), "dtypes"),
    (("add", [whole(3), whole(4)], {}), "src_1-shape"),
    (("add", [whole(3), whole(1)], {"auto_broadcast": "none"}), "src_1-shape"),
    (("mat_mul", [whole(), whole(3, 4)], {}), "src-rank"),
    (("mat_mul", [whole(3), whole(4)], {}), "weights-shape"),
    (("arg_max", [np.broadcast_to(np.float32(0), (2**25,))], {"axes": [0]}), "index-overflow"),
    *(
        (("static_reshape", [whole(2, 3)], {"shape": shape, "special_zero": zero}), "shape-range")
        for shape, zero in (
            ((5,), False),
            ([-1, -1], False),
            ([4, -1], False),
            ([-2, -3], False),
            ([0, -1], False),
            ((2, 3, 0), True),
        )
    ),
    (("static_reshape", [whole(0, 3)], {"shape": [0, -1], "special_zero": True}), "shape-range"),
    (("static_reshape", [whole(2, 3)], {"shape": 6, "special_zero": True}), "shape-kind"),
    (("filled", [whole(1)], {"extents": [-1]}), "extents-range"),
    (("avg_pool_backward", [whole(2, 5, 3)], {"kernel": [2], "src_shape": (2, 6)}), "src_shape-length"),
    (("avg_pool_backward", [whole(2, 5, 3)], {"kernel": [2], "src_shape": (2, -6, 3)}), "src_shape-range"),
    (("avg_pool_backward", [whole(2, 5, 3)], {"kernel": [2], "src_shape": (2, 6, 4)}), "diff_src-shape"),
    (("avg_pool_backward", [whole(2, 5, 3)], {"kernel": [2], "src_shape": (2, 7, 3)}), "pooled-size"),
    (("avg_pool_backward", [whole(2, 5, 3)], {"kernel": [2], "src_shape": 6}), "src_shape-kind"),
    (("interpolate", [whole(2, 5)], {}), "one-of-them"),
    (("interpolate", [whole(2, 5)], {"scales": [1, 2]}), "scales-length"),
    (("interpolate", [whole(2, 5)], {"scales": [-1.0]}), "scales-range"),
    (("interpolate", [whole(2, 5)], {"scales": 2.0}), "scales-kind"),
    (("interpolate", [whole(2, 5)], {"scales": ["2"]}), "scales-kind"),
    (("interpolate", [whole(2, 5)], {"scales": [np.inf]}), "inexact-division"),
    (("concat", [[whole(2, 3), whole(3, 3)]], {"axis": 1}), "src-shape"),
    (("concat", [[whole(2, 3), whole(3)]], {"axis": 1}), "src-rank"),
    (("concat", [[whole(2, 3), whole(2, 3, dtype=BF16)]], {"axis": 1}), "dtypes"),
    (("concat", [[]], {"axis": 0}), "src-kind"),
    (("concat", [whole(2, 3)], {"axis": 2}), "src-kind"),
    (("static_transpose", [whole(2, 3)], {"order": [1]}), "order-length"),
    (("static_transpose", [whole(2, 3)], {"order": [1, 1]}), "order-range"),
    (("static_transpose", [whole(2, 3)], {"order": [2, 0]}), "order-range"),
    (("static_transpose", [whole(2, 3)], {"order": 1}), "order-kind"),
    (("mat_mul", [whole(2, 3), whole(4, 5)], {}), "weights-shape"),
    (("mat_mul", [whole(2, 3), whole(3, 5)], {"transpose_a": 1}), "transpose_a-kind"),
    (("reduce_sum", [whole(2, 3)], {"axes": [0, 0]}), "axes-range"),
    (("reduce_sum", [whole(2, 3)], {"axes": [2]}), "axes-range"),
    (("layer_norm", [real(4, 3), real(3), None], {"use_affine": False}), "gamma-unwanted"),
    (("layer_norm", [real(4, 3), real(4), None], {}), "gamma-shape"),
    (("type_cast", [real(3)], {}), "dtype-missing"),
    (("type_cast", [whole(3, dtype=np.int8)], {"dtype": "bf16"}), "dtype-value"),
    (("quantize", [real(2, 3)], {"scales": [1, 2], "axis": 1}), "scales-length"),
    (("quantize", [real(2, 3)], {"scales": 1.0}), "scales-kind"),
    (("max_pool", [whole(2, 3)], {"kernel": [1]}), "spatial-rank"),
    (("max_pool", [whole(2, 3, 4)], {"kernel": [9]}), "dst-spatial-extent"),
    (("causal_scores", [real(3, 5, 8), real(2, 3, 8)], {}), "heads-in-groups"),
)


@pytest.mark.parametrize(("call", "rule"), REFUSED, ids=lambda part: part if isinstance(part, str) else part[0])
def test_a_call_that_breaks_a_rule_is_refused_by_both(made: tuple[Library, ModuleType], call: Call, rule: str) -> None:
    library, kernels = made
    function, inputs, attributes = call
    with pytest.raises(kernels.SpecError) as caught:
        getattr(kernels, function)(*inputs, **attributes)
    assert caught.value.rule == rule
    assert ".yaml:" in caught.value.spec
    if rule != "dtype-missing":  # which `out` can say
        assert not validate_steps(library.op(function), inputs, attributes).accepted


def test_the_dtype_of_out_is_taken_where_the_attribute_is_not_given(made: tuple[Library, ModuleType]) -> None:
    out = np.empty(3, np.int8)
    assert made[1].type_cast(np.array([1.5, -7, 1000], np.float32), out=out) is out
    assert out.tolist() == [2, -7, 127]


def test_out_that_shares_memory_with_an_input_is_refused(made: tuple[Library, ModuleType]) -> None:
    array, wide = real(4, 4), real(5, 4)
    for call in (
        lambda: made[1].soft_max(array, out=array),
        lambda: made[1].add(wide[:4], array, out=wide[1:]),
        lambda: made[1].add(array, array.T, out=array),
        lambda: made[1].static_transpose(array, order=[1, 0], out=array),
    ):
        with pytest.raises(made[1].SpecError, match="shares memory"):
            call()


def test_out_may_be_an_input_of_which_each_cell_makes_one_cell_alone(made: tuple[Library, ModuleType]) -> None:
    library, kernels = made
    tried = set()
    for function, inputs, attributes in CALLS:
        op, run = library.op(function), getattr(kernels, function)
        if len(op.outputs) > 1 or not in_place(op):
            continue
        expected = run(*inputs, **attributes)
        for number, tensor in enumerate(op.inputs):
            given = [None if array is None else array.copy() for array in inputs]
            target = given[number]
            if tensor.name not in in_place(op)[op.output.name] or target.shape != expected.shape:
                continue
            if target.dtype != expected.dtype or attributes.get("order") not in (None, (0, 1, 2)):
                continue
            assert run(*given, **attributes, out=target, threads=2) is target
            assert target.tobytes() == expected.tobytes()
            tried.add((function, tensor.name))
    assert tried >= {("add", "src_0"), ("add", "src_1"), ("gelu", "src"), ("static_transpose", "src")}


def test_only_steps_that_reduce_nothing_and_read_a_cell_where_they_write_it_work_in_place(
    made: tuple[Library, ModuleType],
) -> None:
    found = {op.function: in_place(op) for op in made[0].ops}
    assert found["add"] == {"dst": ("src_0", "src_1")}
    assert found["select"] == {"dst": ("cond", "src_0", "src_1")}
    assert found["type_cast"] == {"dst": ("src",)}
    for function in ("soft_max", "layer_norm", "mat_mul", "nearest", "concat", "statistics", "flattened", "bits"):
        assert found[function] == {}


def test_lists_that_are_put_together_first_are_so_in_each_call(made: tuple[Library, ModuleType]) -> None:
    (rows,) = (inputs for function, inputs, _ in CALLS if function == "joined_rows")
    for parts in (rows[0], [part + 1 for part in rows[0]], rows[0][::-1], [part[:, ::-1] for part in rows[0]] * 2):
        once, again = (made[1].joined_rows(parts) for _ in range(2))
        assert once.tobytes() == again.tobytes() == made[1].joined_rows([np.concatenate(parts)]).tobytes()


def test_explain_and_infer_shape_know_operations_of_steps(made: tuple[Library, ModuleType]) -> None:
    kernels = made[1]
    given = kernels.TensorSpec((4, 3, 5), "float32")
    assert kernels.infer_shape("reduce_sum", given, axes=[1], keep_dims=True) == (4, 1, 5)
    assert kernels.infer_shape("layer_norm", given, begin_norm_axis=1, use_affine=False) == ((4, 3, 5), (4,), (4,))
    several = [kernels.TensorSpec((2, 3), "float32"), real(2, 5)]
    assert kernels.infer_shape("concat", several, axis=1) == (2, 8)
    assert kernels.infer_shape("static_transpose", given, order=[2, 0, 1]) == (5, 4, 3)
    assert kernels.infer_shape("static_reshape", given, shape=[0, -1], special_zero=True) == (4, 15)
    assert "copied first: nothing" in str(kernels.explain("concat", several, axis=1))
    assert "src: steps read several of its arrays" in str(kernels.explain("joined_rows", [real(2, 3), real(1, 3)]))
    explanation = str(kernels.explain("soft_max", given, axis=1))
    assert "soft_max_f32_" in explanation
    assert "(before" in explanation or "before" in explanation


EDGES = np.array(
    [-np.nan, -np.inf, -3e38, -2147483904, -2147483648, -200, -128.5, -2.5, -0.5, -1e-45, -0.0], np.float32
)


@pytest.mark.parametrize("dtype", ["s8", "u8", "s32"])
def test_f32_becomes_an_integer_as_f64_does(dtype: str, tmp_path: Path) -> None:
    """Rounded half to even, clamped, NaN as 0: where the f32 and the f64 conversion differ, one of them is wrong."""
    name = {"s8": "int8_t", "u8": "uint8_t", "s32": "int32_t"}[dtype]
    source = tmp_path / "both.c"
    source.write_text(
        '#include "opwright_functions.h"\n'
        f"void both(int n, const float *x, {name} *a, {name} *b)\n"
        f"{{ for (int i = 0; i < n; ++i) {{ a[i] = opwright_{dtype}_of_f32(x[i]);"
        f" b[i] = opwright_{dtype}_of_f64((double)x[i]); }} }}\n"
    )
    library = tmp_path / "both.so"
    flags = ["-std=c11", "-O3", "-ffp-contract=off", "-fno-trapping-math", "-shared", "-fPIC"]
    subprocess.run(["cc", *flags, *INCLUDE, str(source), "-o", str(library), "-lm"], check=True)
    bits = np.arange(0, 2**32, 1021, dtype=np.uint64).astype(np.uint32).view(np.float32)
    values = np.concatenate([EDGES, -EDGES, bits, np.arange(-1000, 1000, dtype=np.float32) / 4])
    integers = np.dtype(name.removesuffix("_t"))
    found, wanted = np.zeros(values.size, integers), np.ones(values.size, integers)
    both = ctypes.CDLL(str(library)).both
    both(values.size, *(ctypes.c_void_p(array.ctypes.data) for array in (values, found, wanted)))
    assert np.array_equal(found, wanted)
