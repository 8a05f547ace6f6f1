"""A call that breaks a rule is refused: by the rule's name, with a way out, before anything is written."""

from __future__ import annotations

import importlib
import re
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import opwright_kernels as ok
import pytest
from support.generated import PACKAGE
from support.legal_calls import BASES, CD, CW, LISTS, SHAPES, TD, TW, C, T, call, int32, one_channel, zeros

ROOT = PACKAGE.parents[1]
BF16, F16, F32 = ml_dtypes.bfloat16, np.float16, np.float32
# Operation, what is changed, the rule, the argument, the nearest valid value (None: there is none).
VALUES: list[tuple[str, dict[str, Any], str, str, Any]] = [
    # lists: range, length, int64
    (T, {"strides": [0, 1]}, "strides-range", "strides", [1, 1]),
    (T, {"strides": [2, -3]}, "strides-range", "strides", [2, 1]),
    (C, {"strides": [0, 0]}, "strides-range", "strides", [1, 1]),
    (T, {"dilations": [1, 0]}, "dilations-range", "dilations", [1, 1]),
    (CW, {"dilations": [-1, 1]}, "dilations-range", "dilations", [1, 1]),
    (T, {"pads_begin": [-1, 1]}, "pads_begin-range", "pads_begin", [0, 1]),
    (TD, {"pads_end": [1, -7]}, "pads_end-range", "pads_end", [1, 0]),
    (C, {"pads_begin": [-1, 0], "auto_pad": "valid"}, "pads_begin-range", "pads_begin", [0, 0]),
    (T, {"output_padding": [0, -1]}, "output_padding-range", "output_padding", [0, 0]),
    (T, {"strides": [2]}, "strides-length", "strides", None),
    (T, {"strides": []}, "strides-length", "strides", None),
    (T, {"dilations": [1, 1, 1]}, "dilations-length", "dilations", None),
    (CD, {"pads_begin": [1, 1, 0]}, "pads_begin-length", "pads_begin", None),
    (TW, {"pads_end": (1,)}, "pads_end-length", "pads_end", None),
    (T, {"output_padding": [1]}, "output_padding-length", "output_padding", None),
    (T, {"output_padding": [0, 0, 1]}, "output_padding-length", "output_padding", None),
    (T, {"strides": [2**63, 1]}, "strides-int64", "strides", None),
    (C, {"dilations": [1, -(2**63) - 1]}, "dilations-int64", "dilations", None),
    (C, {"pads_end": np.array([2**63, 1], np.uint64)}, "pads_end-int64", "pads_end", None),
    (C, {"groups": 2**64}, "groups-int64", "groups", None),
    # output_padding against strides and dilations
    (T, {"output_padding": [2, 0]}, "output-padding-range", "output_padding", [1, 0]),
    (T, {"output_padding": [0, 9], "dilations": [1, 3]}, "output-padding-range", "output_padding", [0, 2]),
    (TD, {"output_padding": [0, 2]}, "output-padding-range", "output_padding", [0, 1]),
    (TD, {"output_padding": [1, 0]}, "output-padding-is-what-is-left", "output_padding", None),
    (TW, {"output_padding": [1, 1]}, "output-padding-is-what-is-left", "output_padding", None),
    # groups
    (T, {"groups": 0}, "groups-range", "groups", 1),
    (C, {"groups": -2}, "groups-range", "groups", 1),
    (C, {"groups": 3}, "groups-divide-in-channels", "groups", None),
    (CW, {"groups": 3}, "groups-divide-in-channels", "groups", None),
    (T, {"groups": 4}, "groups-divide-in-channels", "groups", None),
    (T, {"groups": 3, "weights": zeros(3, 3, 4, 2)}, "groups-divide-out-channels", "groups", None),
    # words
    (T, {"auto_pad": "same"}, "auto_pad-value", "auto_pad", ...),
    (T, {"auto_pad": "Same_Upper"}, "auto_pad-value", "auto_pad", "same_upper"),
    (C, {"auto_pad": "NONE"}, "auto_pad-value", "auto_pad", "none"),
    (C, {"auto_pad": ""}, "auto_pad-value", "auto_pad", None),
    (T, {"data_format": "nxc"}, "data_format-value", "data_format", ...),
    (C, {"data_format": "NHWC"}, "data_format-value", "data_format", ...),
    (T, {"weights_format": "OIX"}, "weights_format-value", "weights_format", None),
    (TD, {"weights_format": "XIO"}, "weights_format-value", "weights_format", None),
    (TW, {"weights_format": "OIX"}, "weights_format-value", "weights_format", None),
    (C, {"weights_format": "XOI"}, "weights_format-value", "weights_format", ...),
    (CD, {"weights_format": "IOX"}, "weights_format-value", "weights_format", ...),
    # dtypes
    (T, {"weights": zeros(3, 3, 4, 6, dtype=F16)}, "dtypes", "weights", None),
    (T, {"bias": zeros(4, dtype=BF16)}, "dtypes", "bias", None),
    (T, {"src": zeros(1, 4, 5, 6, dtype=np.float64)}, "dtypes", "src", None),
    (C, {"src": zeros(1, 7, 9, 4, dtype=np.int8), "weights": zeros(3, 3, 4, 6, dtype=np.int8)}, "dtypes", ..., None),
    (CD, {"dst_shape_tensor": np.array([1, 7, 9, 4])}, "dtypes", "dst_shape_tensor", None),
    (CW, {"weights_shape_tensor": zeros(4)}, "dtypes", "weights_shape_tensor", None),
    # ranks
    (T, {"src": zeros(4, 6)}, "spatial-rank", "src", None),
    (T, {"src": zeros(1, 1, 1, 1, 1, 6)}, "spatial-rank", "src", None),
    (C, {"src": zeros()}, "spatial-rank", "src", None),
    (T, {"weights": zeros(3, 4, 6)}, "weights-rank", "weights", None),
    (T, {"bias": zeros(1, 4)}, "bias-rank", "bias", None),
    (CW, {"diff_dst": zeros(1, 4, 5, 6, 1)}, "diff_dst-rank", "diff_dst", None),
    # shapes
    (T, {"bias": zeros(6)}, "bias-shape", "bias", (4,)),
    (C, {"bias": zeros(5)}, "bias-shape", "bias", (6,)),
    (T, {"weights": zeros(3, 3, 6, 4)}, "weights-shape", "weights", ...),
    (C, {"weights": zeros(3, 3, 5, 6)}, "weights-shape", "weights", (3, 3, 4, 6)),
    (CD, {"weights": zeros(3, 3, 4, 5)}, "weights-shape", "weights", (3, 3, 4, 6)),
    (TD, {"weights": zeros(3, 3, 5, 6)}, "weights-shape", "weights", (3, 3, 4, 6)),
    (CW, {"diff_dst": zeros(2, 4, 5, 6)}, "diff_dst-shape", "diff_dst", (1, 4, 5, 6)),
    (CW, {"diff_dst": zeros(1, 4, 4, 6)}, "sizes-agree", ..., None),
    (TW, {"src": zeros(1, 4, 4, 6)}, "sizes-agree", ..., None),
    (C, {"src": zeros(1, 0, 9, 4)}, "src-spatial-extent", "src", None),
    (C, {"weights": zeros(3, 0, 4, 6)}, "kernel-spatial-extent", "weights", None),
    (C, {"src": zeros(1, 1, 9, 4), "pads_end": [0, 0]}, "dst-spatial-extent", "dst", None),
    (T, {"src": zeros(1, 1, 1, 6), "pads_begin": [3, 3]}, "dst-spatial-extent", "dst", None),
    # stated shapes
    (CD, {"dst_shape": None}, "diff_src-shape-missing", ..., None),
    (CW, {"weights_shape": None}, "diff_weights-shape-missing", ..., None),
    (CD, {"dst_shape": [1, 7, 9]}, "dst_shape-length", "dst_shape", None),
    (CD, {"dst_shape": [1, 7, 9, -4]}, "dst_shape-range", "dst_shape", [1, 7, 9, 0]),
    (CD, {"dst_shape": [1, 7, 0, 4]}, "src-spatial-extent", "dst_shape", None),
    (CD, {"dst_shape": [1, 9, 9, 4]}, "sizes-agree", "dst_shape", None),
    (CD, {"dst_shape": [2, 7, 9, 4]}, "diff_src-shape", "dst_shape", (1, 7, 9, 4)),
    (CD, {"dst_shape": [1, 7, 9, 5]}, "diff_src-shape", "dst_shape", (1, 7, 9, 4)),
    (CD, {"dst_shape_tensor": int32(1, 7, 9)}, "dst_shape_tensor-length", "dst_shape_tensor", None),
    (CD, {"dst_shape_tensor": zeros(2, 2, dtype=np.int32)}, "dst_shape_tensor-rank", "dst_shape_tensor", None),
    (CD, {"dst_shape_tensor": int32(-1, 7, 9, 4)}, "dst_shape_tensor-range", "dst_shape_tensor", [0, 7, 9, 4]),
    (CW, {"weights_shape": [3, 3, 4, 5]}, "diff_weights-shape", "weights_shape", ...),
    (TW, {"weights_shape": [3, 3, 5, 6]}, "diff_weights-shape", "weights_shape", ...),
    (TW, {"weights_shape": [0, 3, 4, 6]}, "kernel-spatial-extent", "weights_shape", None),
    (CD, {"dst_shape": [1, 2**63, 9, 4]}, "dst_shape-int64", "dst_shape", None),
    # 64 bits and memory
    (C, one_channel(strides=[2**63 - 1]), "index-overflow", ..., None),
    (C, one_channel(pads_begin=[2**63 - 1]), "overflow", ..., None),
    (C, one_channel(pads_begin=[2**62], pads_end=[2**62]), "overflow", ..., None),
    (T, {"dilations": [2**63 - 1, 1]}, "overflow", "EK", None),
    (T, {"strides": [2**62, 1]}, "overflow", "O", None),
    (T, {"strides": [2**40, 2**40]}, "memory", "out", None),
    (C, one_channel(pads_begin=[2**61 - 2]), "memory", "out", None),
    (T, {"strides": [2**28, 2**28]}, "memory", "out", None),
    (C, one_channel(pads_end=[2**50]), "memory", "out", None),
    # out and threads
    (T, {"out": zeros(1, 7, 9, 5)}, "out-shape", "out", (1, 7, 9, 4)),
    (T, {"out": zeros(1, 4, 7, 9)}, "out-shape", "out", (1, 7, 9, 4)),
    (T, {"out": zeros(1, 7, 9, 4, dtype=np.float64)}, "out-dtype", "out", None),
    (T, {"out": zeros(1, 7, 9, 4, dtype=F16)}, "out-dtype", "out", None),
    (T, {"threads": 0}, "threads", "threads", 1),
    (T, {"threads": -4}, "threads", "threads", 1),
    (T, {"threads": 2**63}, "threads", "threads", None),
]

# Arguments of a wrong kind altogether: TypeErrors too.
KINDS: list[tuple[str, dict[str, Any], str, str, Any]] = [
    *((T, {name: [True, 1]}, f"{name}-kind", name, None) for name in LISTS),
    *((T, {name: [1.0, 2.0]}, f"{name}-kind", name, [1, 2]) for name in LISTS),
    *((T, {name: [1.5, 1]}, f"{name}-kind", name, None) for name in LISTS),
    *((T, {name: ["1", "1"]}, f"{name}-kind", name, None) for name in LISTS),
    *((T, {name: "11"}, f"{name}-kind", name, None) for name in LISTS),
    *((T, {name: 1}, f"{name}-kind", name, None) for name in LISTS),
    *((T, {name: None}, f"{name}-kind", name, None) for name in LISTS),
    *((T, {name: {1, 2}}, f"{name}-kind", name, None) for name in LISTS),
    *((T, {name: np.ones(2)}, f"{name}-kind", name, None) for name in LISTS),
    *((T, {name: np.ones((1, 2), int)}, f"{name}-kind", name, None) for name in LISTS),
    *((T, {name: np.ones(2, bool)}, f"{name}-kind", name, None) for name in LISTS),
    *((T, {"groups": wrong}, "groups-kind", "groups", None) for wrong in (True, "1", [1], np.bool_(True), 1.5)),
    (T, {"groups": 2.0}, "groups-kind", "groups", 2),
    (T, {"output_padding": [0, 0.0]}, "output_padding-kind", "output_padding", [0, 0]),
    (CD, {"dst_shape": [1, 7, 9, "4"]}, "dst_shape-kind", "dst_shape", None),
    (T, {"auto_pad": 0}, "auto_pad-kind", "auto_pad", None),
    (T, {"data_format": b"NXC"}, "data_format-kind", "data_format", None),
    (T, {"weights_format": None}, "weights_format-kind", "weights_format", None),
    (T, {"src": None}, "src-missing", "src", None),
    (T, {"src": [[1.0]]}, "src-kind", "src", None),
    (T, {"weights": "weights"}, "weights-kind", "weights", None),
    (T, {"weights": np.array([["a"]])}, "weights-kind", "weights", None),
    (T, {"bias": np.array([None])}, "bias-kind", "bias", None),
    (T, {"bias": 1.0}, "bias-kind", "bias", None),
    (T, {"src": zeros(1, 4, 5, 6, dtype=">f4")}, "src-kind", "src", None),
    (T, {"src": np.ma.masked_array(zeros(1, 4, 5, 6))}, "src-kind", "src", None),
    (CD, {"dst_shape_tensor": [1, 7, 9, 4]}, "dst_shape_tensor-kind", "dst_shape_tensor", None),
    (T, {"out": [0.0]}, "out-kind", "out", None),
    *((T, {"threads": wrong}, "threads", "threads", None) for wrong in (True, "2", 1.5, [2])),
    (T, {"threads": 2.0}, "threads", "threads", 2),
]
ROWS = VALUES + KINDS
every_row = pytest.mark.parametrize(
    ("op", "changes", "rule", "argument", "nearest"),
    ROWS,
    ids=[row[2] for row in ROWS],
)

SUBJECTS = {"index-overflow": "reduce: ", "overflow": " + ", "spatial-rank": "spatial_rank"}  # how the spec says it


def broken_rule(op: str, **changes: Any) -> str | None:
    try:
        call(op, **changes)
    except ok.SpecError as error:
        return error.rule
    return None


def refusal(op: str, **changes: Any) -> ok.SpecError:
    with pytest.raises(ok.SpecError) as caught:
        call(op, **changes)
    return caught.value


@pytest.mark.parametrize("op", BASES)
def test_the_calls_that_the_table_spoils_are_legal(op: str) -> None:
    assert call(op).shape == SHAPES[op]


@every_row
def test_the_refusal_names_the_rule_the_argument_and_the_way_out(
    op: str, changes: dict[str, Any], rule: str, argument: str, nearest: Any
) -> None:
    error = refusal(op, **changes)
    assert (error.op, error.rule) == (op, rule)
    assert error.argument == argument or argument is ...
    assert error.nearest == nearest or nearest is ...
    assert error.got
    assert error.expected
    for words in (error.op, error.rule, error.argument, error.got, error.expected, error.spec):
        assert words in str(error)


@every_row
def test_wrong_kinds_are_type_errors_and_wrong_values_are_not(
    op: str, changes: dict[str, Any], rule: str, argument: str, nearest: Any
) -> None:
    wrong_kind = any(changes is row[1] for row in KINDS)
    assert isinstance(refusal(op, **changes), TypeError) == wrong_kind


@every_row
def test_the_place_that_the_refusal_points_at_states_the_rule(
    op: str, changes: dict[str, Any], rule: str, argument: str, nearest: Any
) -> None:
    error = refusal(op, **changes)
    if error.spec.startswith("docs/"):
        file, section = error.spec.split("#")
        headings = re.findall(r"^#+ (.+)$", (PACKAGE / file).read_text(), re.MULTILINE)
        assert section in {heading.lower().replace(" ", "-") for heading in headings}
        return
    file, line = error.spec.split(":")
    lines = Path(ROOT, file).read_text().splitlines()[int(line) - 1 :][:4]
    head = re.sub("-(kind|int64|length|range|value|rank|shape-missing|missing|shape|extent)$", "", error.rule)
    subjects = {error.rule, head, head.replace("-", "_"), head.removesuffix("_tensor"), SUBJECTS.get(error.rule)}
    assert any(subject in "\n".join(lines) for subject in subjects if subject), (error.rule, lines)


@every_row
def test_a_refused_call_writes_nothing(
    op: str, changes: dict[str, Any], rule: str, argument: str, nearest: Any
) -> None:
    out = np.full(SHAPES[op], 7, F32)
    refusal(op, **{"out": out} | changes)
    assert (out == 7).all()


@pytest.mark.parametrize("op", [T, TD, TW])
@pytest.mark.parametrize(("given", "instead"), [("OIX", "IOX"), ("XIO", "XOI")])
def test_the_formats_that_one_page_lists_by_mistake_are_refused_with_its_name(
    op: str, given: str, instead: str
) -> None:
    error = refusal(op, weights_format=given)
    assert f"use {instead}" in error.expected
    assert "page of ConvTransposeBackwardData of release 3.2" in error.expected
    assert "R2" in error.expected


def test_the_nearest_valid_value_keeps_the_rule() -> None:
    tried = 0
    for op, changes, rule, argument, _ in ROWS:
        nearest = refusal(op, **changes).nearest
        if nearest is not None and argument in changes and rule not in ("out-shape", "weights-shape", "bias-shape"):
            if argument.endswith("_tensor"):
                nearest = int32(*nearest)
            assert broken_rule(op, **changes | {argument: nearest}) != rule
            tried += 1
    assert tried > 20


# Arguments that are missing, unknown or too many: Python's own TypeError


def test_a_missing_attribute_is_a_type_error() -> None:
    with pytest.raises(TypeError, match="strides"):
        ok.conv_transpose(zeros(1, 4, 5, 6), zeros(3, 3, 4, 6), pads_begin=[1, 1], pads_end=[1, 1], dilations=[1, 1])
    with pytest.raises(TypeError, match="strides"):
        ok.explain(T, zeros(1, 4, 5, 6), zeros(3, 3, 4, 6), pads_begin=[1, 1], pads_end=[1, 1], dilations=[1, 1])


@pytest.mark.parametrize("name", ["stride", "dst_shape", "Groups"])
def test_an_unknown_attribute_is_a_type_error(name: str) -> None:
    with pytest.raises(TypeError, match=name):
        call(T, **{name: [1, 1]})
    with pytest.raises(TypeError, match=name):
        ok.infer_shape(T, **BASES[T], **LISTS, **{name: [1, 1]})


def test_attributes_are_no_positional_arguments() -> None:
    with pytest.raises(TypeError):
        ok.conv_transpose(zeros(1, 4, 5, 6), zeros(3, 3, 4, 6), None, [1, 1], [0, 0], [0, 0], [1, 1])
    with pytest.raises(TypeError):
        ok.infer_shape(T, zeros(1, 4, 5, 6), zeros(3, 3, 4, 6), None, [1, 1], **LISTS)


# out


def test_an_output_that_overlaps_an_input_is_refused_and_one_beside_it_is_not() -> None:
    memory = np.arange(1000, dtype=F32)
    src = memory[:120].reshape(1, 4, 5, 6)
    for start in (0, 1, 119):
        before = memory.copy()
        error = refusal(T, src=src, out=memory[start : start + 252].reshape(1, 7, 9, 4))
        assert (error.rule, error.argument) == ("out-overlap", "out")
        assert "src" in error.got
        assert np.array_equal(memory, before)
    assert call(T, src=src, out=memory[120:372].reshape(1, 7, 9, 4)) is not None


def test_an_output_that_interleaves_with_an_input_without_sharing_a_byte_is_accepted() -> None:
    memory = np.zeros((2 * 252), F32)
    out, bias = memory[::2].reshape(1, 7, 9, 4), memory[1:8:2]
    bias[:] = 5
    assert call(T, bias=bias, out=out) is out
    assert (out == 5).all()


@pytest.mark.parametrize("name", ["weights", "bias"])
def test_an_output_that_shares_memory_with_any_input_is_refused(name: str) -> None:
    memory = zeros(252)
    given = memory[: BASES[T][name].size].reshape(BASES[T][name].shape)
    error = refusal(T, **{name: given, "out": memory.reshape(1, 7, 9, 4)})
    assert (error.rule, name in error.got) == ("out-overlap", True)


def test_a_read_only_output_is_refused() -> None:
    out = zeros(1, 7, 9, 4)
    out.flags.writeable = False
    assert refusal(T, out=out).rule == "out-read-only"


def test_an_output_whose_cells_share_memory_is_refused() -> None:
    step = np.lib.stride_tricks
    broadcast = step.as_strided(zeros(1), (1, 7, 9, 4), (0, 0, 0, 0))
    window = step.as_strided(zeros(100), (1, 7, 9, 4), (4, 36, 4, 4))
    for out in (broadcast, window):
        error = refusal(T, out=out)
        assert (error.rule, error.argument) == ("out-overlap", "out")
        assert not out.any()


# The environment and the pool


@pytest.mark.parametrize("value", [0, True, "2"])
def test_set_num_threads_refuses_by_the_same_rule(value: Any) -> None:
    with pytest.raises(ok.SpecError) as caught:
        ok.set_num_threads(value)
    assert (caught.value.op, caught.value.rule) == ("set_num_threads", "threads")
    assert caught.value.spec == "docs/API.md#threads"


def test_a_refusal_of_the_library_is_the_same_through_explain_and_infer_shape() -> None:
    for ask in (ok.explain, ok.infer_shape):
        with pytest.raises(ok.SpecError) as caught:
            ask(T, **BASES[T], **LISTS | {"strides": [0, 1]})
        assert str(caught.value) == str(refusal(T, strides=[0, 1]))


def test_the_table_is_long_and_reaches_every_family_of_rules() -> None:
    endings = {"range", "length", "int64", "value", "kind", "rank", "shape", "missing", "extent", "overflow", "dtype"}
    assert len(ROWS) >= 80
    assert endings <= {row[2].rsplit("-", 1)[-1] for row in ROWS}
    assert {row[0] for row in ROWS} == set(BASES)


def test_a_refusal_of_a_derived_gradient_names_the_line_of_its_spec() -> None:
    operation = importlib.import_module("opwright_kernels._square_backward").OPERATION
    with pytest.raises(ok.SpecError) as refused:
        operation.call([np.zeros(2, F32), np.zeros(3, F32)], (), None, None, None)
    assert refused.value.rule == "diff_dst-shape"
    assert refused.value.spec.startswith("spec/onednn_graph/gradients/square_backward.yaml:")
