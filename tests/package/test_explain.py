"""What the package tells of a call without making it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import opwright_kernels as ok
import pytest
from opwright_kernels import _isa
from support.calls import random_call
from support.draws import rng
from support.generated import PACKAGE, function, run
from support.one_call import BIAS, LISTS, SHAPE, SRC, WEIGHTS, interface
from support.rulings import OPERATIONS

BF16, F16, F32 = np.dtype(ml_dtypes.bfloat16), np.dtype(np.float16), np.dtype(np.float32)


# explain, infer_shape, variants


def test_explain_tells_pads_shapes_kernel_and_the_line_of_the_spec_behind_each() -> None:
    explanation = ok.explain("ConvTranspose", SRC, WEIGHTS, BIAS, auto_pad="same_upper", threads=2, **LISTS)
    assert (explanation.op, explanation.shape, explanation.dtype) == ("ConvTranspose", (2, 8, 10, 4), "float32")
    assert explanation.values["leading padding"] == (0, 0)
    assert explanation.values["padding behind"] == (1, 1)
    assert (explanation.values["in_channels"], explanation.values["out_channels"]) == (6, 4)
    assert explanation.values["dst_spatial"] == (8, 10)
    assert explanation.variant.name.startswith("conv_transpose_f32_nxc_xoi_dense_")
    assert explanation.arrangements == {"weights": "library"}
    assert explanation.threads == 2
    assert (explanation.scratch_bytes > 0) == (explanation.variant.isa != "portable")
    assert len(explanation.steps) == len(explanation.values)
    root = PACKAGE.parents[1]
    for _, _, place in explanation.steps:
        file, line = place.split(":")
        assert len(Path(root, file).read_text().splitlines()) >= int(line)
    assert explanation.variant.name in str(explanation)
    assert all(place in str(explanation) for _, _, place in explanation.steps)


def test_explain_tells_the_data_type_and_shape_of_every_output_of_a_call() -> None:
    src, gamma = ok.TensorSpec((4, 6), "bfloat16"), ok.TensorSpec((6,), "float32")
    first = str(ok.explain("layer_norm", src, gamma, gamma)).splitlines()[0]
    assert first == "LayerNorm -> bfloat16[4, 6], float32[4], float32[4]"
    alone = ok.explain("layer_norm", src, gamma, gamma, keep_stats=False)
    assert (alone.result, alone.dtypes) == ("bfloat16[4, 6]", ("bfloat16",))


def test_explain_tells_why_and_what_was_rejected() -> None:
    explanation = ok.explain("conv_transpose", SRC, WEIGHTS[:, :, :1], groups=2, **LISTS)
    assert explanation.variant.group_class == "grouped"
    assert "weights is arranged as library" in explanation.why
    rejected = dict(explanation.rejected)
    assert {"dense", "depthwise"} <= set(rejected)
    assert rejected["dense"] == "G == 1 does not hold (G = 2)"
    others = {isa.name for isa in _isa.ISAS} - {explanation.variant.isa}
    assert set(rejected) == {"dense", "depthwise"} | others


def test_explain_runs_nothing_and_needs_no_data() -> None:
    spec = ok.TensorSpec
    huge = spec((1, 2**40, 1), "float32"), spec((1, 1, 1), np.float32)
    plain = {"strides": [1], "pads_begin": [0], "pads_end": [0], "dilations": [1]}
    assert ok.explain("convolution", *huge, **plain).shape == (1, 2**40, 1)
    assert ok.infer_shape("Convolution", *huge, **plain) == (1, 2**40, 1)


def test_descriptions_and_arrays_mix() -> None:
    weights = ok.TensorSpec(WEIGHTS.shape, "float32")
    assert ok.infer_shape("conv_transpose", SRC, weights, interface(BIAS), **LISTS) == SHAPE
    with pytest.raises(ok.SpecError) as caught:
        ok.infer_shape("conv_transpose", weights, None, **LISTS)
    assert caught.value.rule == "weights-missing"
    with pytest.raises(ok.SpecError) as caught:
        ok.infer_shape("conv_transpose", [[1.0]], weights, **LISTS)
    assert caught.value.rule == "src-kind"


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", np.float32, ml_dtypes.bfloat16])
def test_a_description_takes_dtypes_by_name_and_by_type(dtype: Any) -> None:
    described = [ok.TensorSpec(array.shape, dtype) for array in (SRC, WEIGHTS, BIAS)]
    assert ok.infer_shape("conv_transpose", *described, **LISTS) == SHAPE


def test_a_description_with_a_negative_extent_is_refused() -> None:
    with pytest.raises(ValueError, match="negative"):
        ok.TensorSpec((1, -1), "float32")


def test_an_unknown_operation_is_refused_with_the_known_ones() -> None:
    for ask in (ok.explain, ok.infer_shape, ok.variants):
        with pytest.raises(ValueError, match=r"there is no operation 'conv'; there are .*, conv_transpose, "):
            ask("conv")


def test_inferred_shapes_are_the_shapes_of_results() -> None:
    for number in range(200):
        one = random_call(rng("infer", number))
        described = tuple(
            array if array is None or array.dtype == np.int32 else ok.TensorSpec(array.shape, array.dtype)
            for array in one.inputs
        )
        shape = ok.infer_shape(one.op, *described, **one.attributes)
        assert shape == run(one).shape == ok.explain(one.op, *one.inputs, **one.attributes).shape


def test_the_variants_of_the_operations_are_the_variants_of_the_package() -> None:
    assert {function(op) for op in OPERATIONS} <= set(ok.operations())
    every = [v.name for op in ok.operations() for v in ok.variants(op)]
    assert sorted(every) == sorted(v.name for v in ok.variants())
    for op, part in ((op, ok.variants(op)) for op in OPERATIONS):
        assert {v.op for v in part} == {op}
        assert {v.dtype for v in part} == {"f32", "bf16", "f16"}
        assert {v.group_class for v in part} == {"dense", "grouped", "depthwise"}
