"""Nodes of ONNX on the kernels: the cases that the onnx package generates, random nodes, and what the specs say."""

from __future__ import annotations

import warnings
from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from support.draws import FULL, rng

onnx = pytest.importorskip("onnx", reason="onnx is not installed")
from onnx.reference import ReferenceEvaluator  # noqa: E402
from opwright_kernels.onnx import Backend, ModelError, load  # noqa: E402
from opwright_kernels.onnx._nodes import table  # noqa: E402
from support.onnx_models import KINDS, model_of, near, pool, pooled, real  # noqa: E402

# Why cases of covered operators run on the reference: the start of the reason, and what it is of the operation as the
# oneDNN Graph set has it. The pages give the data types; pointwise kernels of more would not fit their megabyte.
REASONS = {
    "refuses it by its rule dtypes": "no rows for integers, f64, and types of two or sixteen bits",
    "outputs that are asked for": "MaxPool gives no indices of maxima",
    "to is ": "TypeCast knows f32, bf16 and f16, and Quantize f8",
    "input.dtype is ": "Dequantize takes f8, TypeCast f32, bf16 and f16",
    "target_type.dtype is ": "TypeCast knows f32, bf16 and f16, and Quantize f8",
    "y_zero_point.dtype is ": "Quantize gives u8, s8 and f8",
    "y_scale.shape is ": "Quantize has a scale of all cells or of each channel",
    "pads is 1": "padding that counts ends before the last window does",
    "dilations is 2": "AvgPool has no dilations",
    "output_shape": "ConvTranspose follows its padding, here padding follows the output by a formula",
    "beta takes one number": "Pow has one exponent",
    "mode is ": "Interpolate has no cubic blends, no crops, and no roundings but to the nearest",
    "antialias": "Interpolate takes no means",
    "keep_aspect_ratio_policy": "Interpolate takes every extent as it is stated",
    "scales is ": "Interpolate places cells by extents, ONNX by a scale that gives no whole ones",
    "scales * X.shape is ": "Interpolate places cells by extents, ONNX by a scale that gives no whole ones",
    "saturate is 1": "Quantize rounds what is beyond f8 to infinity or NaN",
    "sizes is 3 1": "Interpolate puts a single cell in the middle, pytorch_half_pixel at the first one",
}


@pytest.fixture(scope="module", autouse=True)
def _quick(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    yield


def cases() -> Iterator[Any]:
    """The cases of nodes that a spec covers, but for those in which ONNX spells a node by others."""
    from onnx.backend.test.case.node import collect_testcases

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        for case in collect_testcases(None):
            if "_expanded" not in case.name and {node.op_type for node in case.model.graph.node} & table().keys():
                yield case


def test_every_case_of_a_covered_node_passes_and_what_the_reference_runs_has_a_reason_that_is_listed() -> None:
    here, reasons, wrong = Counter(), defaultdict(set), []
    for case in cases():
        model = load(case.model)
        for inputs, outputs in case.data_sets:
            found = model.run(inputs)
            for one, wanted in zip(found, outputs):
                other = onnx.numpy_helper.to_array(wanted) if isinstance(wanted, onnx.TensorProto) else wanted
                if not isinstance(one, np.ndarray):
                    continue
                plain = [value.astype(np.float64) if value.dtype.kind in "fV" else value for value in (one, other)]
                if one.dtype != other.dtype or one.shape != other.shape:
                    wrong.append(f"{case.name}: {one.dtype} {one.shape}, not {other.dtype} {other.shape}")
                elif not np.allclose(*plain, rtol=case.rtol, atol=case.atol, equal_nan=True):
                    wrong.append(f"{case.name}: other numbers")
            here.update(ran.op_type for ran in model.report.here)
            for ran in model.report.reference:
                if ran.op_type in table() and not any(known in ran.why for known in REASONS):
                    reasons[ran.op_type].add(ran.why)
    assert not wrong
    assert not reasons
    assert table().keys() - here.keys() == {"GlobalLpPool"}  # of which onnx has no cases
    assert sum(here.values()) >= 329


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_a_random_node_gives_what_the_reference_gives_and_runs_here(kind: Any) -> None:
    random, here = rng("onnx", kind.__name__), 0
    for _ in range(300 if FULL else 40):
        model, inputs = kind(random)
        names = [one.name for one in model.graph.input]
        made = load(model)
        found = made.run(inputs)
        here += len(made.report.here)
        if kind is pool:  # the reference errs in padded ones, in extents and in what it counts
            wanted = [pooled(model, inputs[0])]
        else:
            wanted = ReferenceEvaluator(model).run(None, dict(zip(names, inputs)))
        assert all(map(near, found, wanted)), onnx.printer.to_text(model)
    assert here >= (300 if FULL else 40) * 0.9


@pytest.mark.parametrize("p", [1, 2])
def test_a_norm_over_all_spatial_axes_runs_here(p: int) -> None:
    x = real(rng("norm", p), 2, 3, 4, 5)
    model = load(model_of(onnx.helper.make_node("GlobalLpPool", ["x"], ["y"], p=p), [x], 22))
    (found,) = model.run([x])
    assert model.report.here
    assert near(found, (np.abs(x) ** p).sum((2, 3), keepdims=True) ** (1 / p))


def test_scales_of_channels_lie_along_the_axis_that_a_node_states_however_many_cells_the_first_has() -> None:
    x, scales = np.ones((3, 1, 3), np.float32), np.array([1, 2, 4], np.float32)
    made = load(model_of(onnx.helper.make_node("QuantizeLinear", ["x", "s"], ["y"], axis=-1), [x, scales], 13))
    back = load(
        model_of(onnx.helper.make_node("DequantizeLinear", ["x", "s"], ["y"], axis=2), [x.astype(np.int8), scales], 13)
    )
    assert made.run([x, scales])[0].tolist() == [[[1, 0, 0]]] * 3
    assert back.run([x.astype(np.int8), scales])[0].tolist() == [[[1, 2, 4]]] * 3
    assert made.report.here
    assert back.report.here


def test_scales_of_blocks_of_no_stated_size_are_not_read_as_those_of_channels() -> None:
    inputs = [np.ones((2, 4), np.uint8), np.ones((2, 2), np.float32)]
    model = load(model_of(onnx.helper.make_node("DequantizeLinear", ["x", "s"], ["y"], axis=1), inputs, 21))
    with pytest.raises(ModelError, match="DequantizeLinear"):
        model.run(inputs)


@pytest.mark.parametrize("opset", [7, 8, 9, 10])
def test_resizing_of_opsets_that_the_reference_lacks_repeats_cells(opset: int) -> None:
    random = rng("upsample", opset)
    x, scales = real(random, 2, 3, 4, 5), np.array([1, 1, 3, 2], np.float32)
    names = ["x"] if opset < 9 else ["x", "scales"]
    stated = {"scales": scales.tolist()} if opset < 9 else {}
    node = onnx.helper.make_node("Upsample" if opset < 10 else "Resize", names, ["y"], mode="nearest", **stated)
    model = load(model_of(node, [x, scales][: len(names)], opset, len(names) - 1))
    (found,) = model.run([x])
    assert model.report.here
    assert np.array_equal(found, x.repeat(3, axis=2).repeat(2, axis=3))


def test_entries_name_what_the_schemas_of_their_opsets_have() -> None:
    newest = onnx.defs.onnx_opset_version()
    for entry in (entry for entries in table().values() for entry in entries):
        assert entry.since <= newest
        opsets = [one for one in range(entry.since, (entry.until or newest) + 1) if onnx.defs.has(entry.node, one, "")]
        schemas = [onnx.defs.get_schema(entry.node, one, "") for one in opsets]
        # A name of one of its opsets is absent in the others; nothing may be strange to all of them.
        known = {one.name for schema in schemas for one in schema.inputs} | set().union(
            *(s.attributes for s in schemas)
        )
        assert not entry.names - known - {""}, entry


def test_covered_nodes_have_an_entry_in_every_opset() -> None:
    lacking = defaultdict(set)
    for schema in onnx.defs.get_all_schemas_with_history():
        if not schema.domain and not schema.deprecated and schema.name in table():
            opset = schema.since_version
            if not any(one.since <= opset <= (one.until or opset) for one in table()[schema.name]):
                lacking[schema.name].add(opset)
    assert lacking == {
        "BatchNormalization": {1},  # with outputs for the next step of training alone
        "GlobalLpPool": {1},  # p may be a fraction
        "Upsample": {1},  # scales by axis names
    }


def test_the_backend_runs_a_node_and_only_on_the_cpu() -> None:
    node = onnx.helper.make_node("Relu", ["x"], ["y"])
    x = np.array([-1, 2], np.float32)
    (found,) = Backend.run_node(node, [x])
    assert found.tolist() == [0, 2]
    assert Backend.supports_device("CPU:0")
    assert not Backend.supports_device("CUDA")
    with pytest.raises(ValueError, match="there are kernels for the CPU alone"):
        Backend.prepare(onnx.helper.make_model(onnx.helper.make_graph([node], "g", [], [])), "CUDA")
