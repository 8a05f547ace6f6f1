"""What the benchmark measures: the table of shapes, the rows made of it, and the sample among them."""

from __future__ import annotations

from collections import Counter

import opwright_kernels as ok
import pytest

from bench import case_row, own, products, steps
from bench.rows import FEW, INPUTS, LAYOUTS, SOLVES, TWINS, Row, chosen, every, full, sample
from bench.shapes import NETWORKS, ODD, SHAPES, TABLE, Shape
from bench.tensors import NUMPY, wrong


def test_there_are_enough_shapes_and_no_two_share_a_name_or_a_geometry() -> None:
    assert len(NETWORKS) >= 60
    assert len(ODD) >= 20
    names = [shape.name for shape in TABLE]
    assert len(set(names)) == len(names)
    assert all(shape.source for shape in TABLE)
    geometries = Counter(
        (s.batch, s.big, s.small, s.groups, s.extent, s.kernels, s.strides, s.dilations, s.pads_begin, s.pads_end)
        for s in TABLE
    )
    assert max(geometries.values()) == 1


def test_the_shapes_are_of_every_kind_that_was_asked_for() -> None:
    kinds = {
        "1-D": lambda s: len(s.extent) == 1,
        "2-D": lambda s: len(s.extent) == 2,
        "3-D": lambda s: len(s.extent) == 3,
        "batch 16": lambda s: s.batch == 16,
        "depthwise": lambda s: s.depthwise,
        "grouped": lambda s: s.groups > 1 and not s.depthwise,
        "dilated": lambda s: max(s.dilations) > 1,
        "dilated depthwise": lambda s: s.depthwise and max(s.dilations) > 1,
        "first layer": lambda s: s.big == 3 and s.small > 3,
        "7x7 tail": lambda s: s.kernels == (7, 7) and s.small == 3,
        "stride over kernel": lambda s: all(step > taps for step, taps in zip(s.strides, s.kernels)),
        "inverse STFT": lambda s: s.kernels == (1024,) and s.strides == (256,) and s.big == 1,
        "one-sided padding": lambda s: s.pads_begin != s.pads_end,
    }
    assert [kind for kind, holds in kinds.items() if not any(map(holds, TABLE))] == []


@pytest.mark.parametrize("op", SOLVES)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_shape_is_legal_for_every_operation_and_gives_the_extents_of_the_row(op: str, layout: str) -> None:
    for name in (*SHAPES,):
        row = Row(op, name, "f32", layout, 1)
        inputs = [ok.TensorSpec(row.extents(side), NUMPY["f32"]) for side in INPUTS[op]]
        assert ok.infer_shape(op, *inputs, **row.attributes()) == row.extents(row.solve), row.key


def test_rows_are_all_shapes_operations_dtypes_layouts_and_threads() -> None:
    rows = every()
    assert len({row.key for row in rows}) == len(rows) == len(TABLE) * 6 * 3 * 2 * 2
    assert set(full()) < set(rows)


def test_a_full_run_asks_for_every_problem_once_and_for_each_operation_as_often_as_for_its_twin() -> None:
    rows = full()
    problems = Counter(row.problem for row in rows)
    assert set(problems.values()) == {1}
    assert len(problems) == len(TABLE) * 3 * 3 * 2 * 2
    operations = Counter(row.op for row in rows)
    assert set(operations) == set(SOLVES)
    assert max(operations.values()) < 1.5 * min(operations.values())
    assert all(row.op == "ConvTranspose" for row in rows if row.solve == "big" and row.geometry.big <= FEW)


def test_a_twin_takes_the_same_arrays_and_computes_the_same_tensor() -> None:
    for op, twin in TWINS.items():
        assert SOLVES[op] == SOLVES[twin]
        assert set(INPUTS[op]) == set(INPUTS[twin])
        assert TWINS[twin] == op != twin


def test_the_sample_is_the_same_every_time_and_covers_every_combination() -> None:
    rows = sample()
    assert rows == sample()
    assert len(set(rows)) == len(rows)
    combinations = Counter((row.op, row.dtype, row.layout, row.threads) for row in rows)
    assert len(combinations) == 6 * 3 * 2 * 2
    assert set(combinations.values()) == {2}
    assert len({row.shape for row in rows}) > 0.8 * len(TABLE)


def test_the_sample_has_the_f32_row_that_every_f16_row_is_compared_with() -> None:
    rows = set(sample())
    assert all(Row(row.op, row.shape, "f32", row.layout, row.threads) in rows for row in rows if row.dtype == "f16")


def test_all_rows_begin_with_the_sample_and_leave_none_out() -> None:
    rows = chosen(everything=True)
    assert rows[: len(sample())] == sample()
    assert len(rows) == len(full())
    assert set(rows) == set(full())


def test_words_choose_among_all_rows_by_their_keys() -> None:
    rows = chosen(False, ["hifigan", "conv_transpose/", "bf16"], threads=[1])
    assert {row.shape for row in rows} == {name for name in SHAPES if "hifigan" in name}
    assert {(row.op, row.dtype, row.threads) for row in rows} == {("ConvTranspose", "bf16", 1)}
    assert {row.layout for row in rows} == set(LAYOUTS)


def test_a_shape_knows_its_small_side_its_rests_and_its_operations() -> None:
    shape = Shape("s", "", 2, 6, 4, (10, 9), (3, 2), 2, (1, 0), groups=2)
    assert shape.small_extent == (5, 4)
    assert shape.rests == (1, 1)
    assert shape.flops == 2 * 2 * 4 * 3 * (5 * 3 - 1) * (4 * 2)  # one tap of fifteen falls into the padding
    assert shape.elements == 2 * (6 * 90 + 4 * 20) + 4 * 3 * 6


def test_matrix_products_are_rows_of_both_dtypes_thread_counts_and_sides_that_only_words_ask_for() -> None:
    rows = products.every()
    assert len({row.key for row in rows}) == len(rows)
    assert {row.dtype for row in rows} == {"f32", "bf16"}
    assert {row.threads for row in rows} == {1, 2}
    assert {row.sides for row in rows} == {"nn", "nt", "tn", "tt"}
    assert case_row.chosen(rows, ["mat_mul", "512x512x512_tt"], [1]) == [
        products.Product((), 512, 512, 512, "tt", dtype, 1) for dtype in ("f32", "bf16")
    ]
    assert case_row.chosen(rows, []) == []


def test_a_transposed_factor_lies_the_other_way_round_and_the_exact_product_is_of_both() -> None:
    other = products.Product((2,), 3, 4, 5, "tt", "f32", 1).tensors()
    assert other.arrays["src"].shape == (2, 5, 3)
    assert other.factor("src").shape == (2, 3, 5)
    assert other.factor("weights").shape == (2, 5, 4)
    exact = products.exactly(other)
    exact.run()
    assert (exact.result() == other.factor("src") @ other.factor("weights")).all()


def test_rows_of_steps_are_cases_in_their_dtypes_that_only_words_ask_for() -> None:
    rows = steps.every()
    assert len({row.key for row in rows}) == len(rows)
    assert {row.case.group for row in rows} == {
        "pointwise", "broadcast", "reductions", "softmax", "norms", "pools", "moves"
    }  # fmt: skip
    assert case_row.chosen(rows, ["reduce_sum/1024x1024_0/"], [1]) == [
        steps.StepRow("reductions/reduce_sum/1024x1024_0", dtype, 1) for dtype in ("f32", "bf16")
    ]
    row = case_row.chosen(rows, ["max_pool/16x64x4000_3s2_nxc/bf16"], [2])[0]
    assert row.bytes == 2 * 16 * 64 * (4000 + 2000)


@pytest.mark.parametrize(
    "name", ["softmax/soft_max/64x100x56_1", "reductions/reduce_max/64x1000_1", "moves/quantize/1048576_s8"]
)
def test_a_row_of_steps_is_what_pytorch_computes(name: str) -> None:
    pytest.importorskip("torch")
    tensors = steps.StepRow(name, "f32", 1).tensors()
    ready = steps.ours(tensors, 1)
    ready.run()
    exact = steps.exact(tensors.row.exact().tensors())
    exact.run()
    assert wrong(ready.result(), exact.result(), tensors.row.result_dtype) == 0
    ready.result()[...] = 0
    assert wrong(ready.result(), exact.result(), tensors.row.result_dtype) > 0


def test_rows_of_the_benchmarks_own_specs_are_fused_layers_and_bytes_that_only_words_ask_for() -> None:
    rows = own.every()
    assert len({row.key for row in rows}) == len(rows)
    assert {(row.case.group, row.dtype) for row in rows} == {
        ("fused", "f32"), ("fused", "bf16"), ("bytes", "s8"), ("bytes", "u8")
    }  # fmt: skip
    assert case_row.chosen(rows, ["byte_product/64x64x64/u8"], [1]) == [
        own.OwnRow("bytes/byte_product/64x64x64", "u8", 1)
    ]
    assert own.OwnRow("bytes/byte_product/1x4096x4096", "s8", 1).flops == 2 * 4096 * 4096
    assert own.OwnRow("fused/activated_convolution/1x64_64x56_3s1/nxc", "f32", 1).flops == 2 * 56**2 * 64 * 64 * 9


@pytest.mark.parametrize("name", ["fused/activated_linear/8x4096x4096", "bytes/byte_product/256x256x256"])
def test_a_row_of_an_own_spec_is_what_pytorch_computes(name: str) -> None:
    pytest.importorskip("torch")
    for dtype in own.OwnRow(name, "", 1).case.dtypes:
        tensors = own.OwnRow(name, dtype, 1).tensors()
        ready = own.ours(tensors, 1)
        ready.run()
        exact = own.exact(tensors.row.exact().tensors())
        exact.run()
        assert wrong(ready.result(), exact.result(), tensors.row.result_dtype) == 0
        tensors.forget()
        assert wrong(ready.result(), exact.result(), tensors.row.result_dtype) > 0
