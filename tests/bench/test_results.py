"""What is kept of measurements and made of them: means, targets, the page, the plot."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bench import products, report, results, steps
from bench.results import TARGETS, Results, append, geomean, reached, read
from bench.rows import Row, full
from docs.site import pictures

F32 = Row("Convolution", "resnet50_l1_3x3_b16", "f32", "NXC", 2)
HEAVY = Row("Convolution", "vgg16_conv4_2", "f32", "NXC", 2)
RGB = Row("ConvTranspose", "dcgan_rgb_b16", "f32", "NCX", 2)


def record(row: Any, ours: float | None, onednn: float | None, torch: float | None = None) -> dict[str, Any]:
    """A row in which candidates took so many seconds, or refused."""
    times = {"ours": ours, "onednn": onednn, "torch": torch}
    entries = {
        name: {"modes": {}, "refused": "no such thing"}
        if seconds is None
        else {"modes": {}, "mode": "w", "seconds": seconds}
        for name, seconds in times.items()
    }
    return {"key": row.key, "checked": True, "candidates": entries, "kernels": "k"}


def found(*records: dict[str, Any], **machine: Any) -> Results:
    return Results(machine, {entry["key"]: entry for entry in records})


def target(name: str, given: Results, threads: int = 2) -> results.Reached:
    return next(entry for entry in reached(given, threads) if entry.target.name.startswith(name))


def test_the_geometric_mean_of_a_half_and_two_is_one() -> None:
    assert geomean([0.5, 2.0]) == pytest.approx(1)


def test_a_target_has_the_mean_and_the_least_of_its_rows() -> None:
    entry = target("f32, y and x, NXC", found(record(F32, 0.010, 0.010), record(HEAVY, 0.010, 0.040)))
    assert entry.mean == pytest.approx(2)
    assert entry.minimum == (pytest.approx(1), F32)
    assert entry.reached
    assert entry.short == []


def test_a_ratio_is_that_of_calls_in_the_same_rounds() -> None:
    entry = record(F32, 0.020, 0.010)
    entry["candidates"]["ours"]["rounds"] = [0.010, 0.020, 0.020]
    entry["candidates"]["onednn"]["rounds"] = [0.010, 0.010, 0.020]
    assert found(entry).ratio(F32, "onednn") == 1
    entry["candidates"]["onednn"]["rounds"].pop()
    assert found(entry).ratio(F32, "onednn") == pytest.approx(0.5)


def test_a_target_is_missed_by_its_mean_or_by_one_row() -> None:
    slow_mean = target("f32, y and x, NXC", found(record(F32, 0.010, 0.0105)))
    assert slow_mean.reached is False
    assert slow_mean.short == []
    one_row = target("f32, y and x, NXC", found(record(F32, 0.010, 0.005), record(HEAVY, 0.010, 0.090)))
    assert one_row.mean is not None
    assert one_row.mean > 1.08
    assert one_row.reached is False
    assert [row for _, row in one_row.short] == [F32]


def test_rows_of_less_than_a_millisecond_of_onednn_do_not_count() -> None:
    given = found(record(F32, 0.01, 0.00099, 0.02))
    assert target("f32, y and x, NXC", given).values == {}
    assert target("against PyTorch", given).values == {}
    assert target("f32, y and x, NXC", given).reached is None


def test_only_rows_on_as_many_threads_count() -> None:
    given = found(record(F32, 0.01, 0.01))
    assert target("f32, y and x, NXC", given, threads=1).values == {}


def test_what_onednn_refuses_counts_against_pytorch_by_its_time() -> None:
    row = Row("Convolution", "resnet50_l1_3x3_b16", "f16", "NXC", 2)
    assert target("against PyTorch", found(record(row, 0.01, None, 0.5))).values == {row: pytest.approx(50)}


def test_f16_is_compared_with_our_own_f32_of_the_same_shape() -> None:
    half = Row(F32.op, F32.shape, "f16", F32.layout, F32.threads)
    measured = record(half, 0.02, None)
    measured["candidates"]["ours_f32"] = {"seconds": 0.01}
    assert target("f16", found(measured, record(F32, 0.5, 0.001))).values == {half: pytest.approx(0.5)}
    assert target("f16", found(measured, record(F32, 0.5, 0.0009))).values == {}
    assert target("f16", found(measured)).values == {half: pytest.approx(0.5)}
    assert target("f16", found(record(half, 0.02, None), record(F32, 0.01, 0.01))).values == {}


def test_transposes_to_few_channels_and_depthwise_rows_have_targets_of_their_own() -> None:
    depthwise = Row("Convolution", "mobilenet1_dw_14_b16", "f32", "NCX", 2)
    given = found(record(RGB, 0.01, 0.03), record(depthwise, 0.01, 0.02), record(F32, 0.01, 0.01))
    assert set(target("ConvTranspose to", given).values) == {RGB}
    assert set(target("depthwise", given).values) == {depthwise}


def test_heavy_rows_are_compared_with_the_measured_peak() -> None:
    peaks = {"2": {"multiply_add_256": 1e11, "multiply_add_512": 5e11, "read": 4e10}}
    given = found(record(HEAVY, HEAVY.geometry.flops / 4e11, 1.0), peaks=peaks)
    assert target("share of the FMA peak", given).values == {HEAVY: pytest.approx(0.8)}


def test_rows_that_memory_limits_are_not_compared_with_the_peak() -> None:
    peaks = {"2": {"multiply_add_512": 5e11, "read": 4e7}}
    assert HEAVY.bytes / 4e7 > HEAVY.geometry.flops / 5e11
    given = found(record(HEAVY, HEAVY.geometry.flops / 4e11, 1.0), peaks=peaks)
    assert not target("share of the FMA peak", given).values


def test_the_targets_are_those_of_the_project() -> None:
    assert [(entry.name, entry.mean, entry.minimum) for entry in TARGETS] == [
        ("f32, y and x, NXC", 1.08, 0.90),
        ("f32, y and x, NCX", 1.30, 0.90),
        ("f32, w", 1.12, 0.90),
        ("bf16, y and x", 1.15, 0.90),
        ("bf16, w", 1.10, 0.85),
        ("f16 against our own f32 on the same shape", 0.90, 0.75),
        ("ConvTranspose to 1-3 channels, both layouts", 2.0, 1.2),
        ("depthwise, NCX", 2.5, 1.5),
        ("against PyTorch, all rows", 1.5, 1.0),
        ("share of the FMA peak, f32, dense, compute-bound", 0.88, None),
    ]


def test_a_row_measured_again_replaces_the_older_and_a_line_cut_short_is_dropped(tmp_path: Path) -> None:
    path = tmp_path / "deeper" / "rows.jsonl"
    append(path, {"machine": {"peaks": {"2": {"read": 2.0}, "1": {"read": 9.0}}, "call": {}}})
    append(path, record(F32, 0.01, 0.01))
    append(path, record(F32, 0.02, 0.01))
    with open(path, "a", encoding="utf-8") as file:
        file.write('{"key": "convolution/res')
    append(path, record(HEAVY, 0.03, 0.01))
    append(path, {"machine": {"peaks": {"1": {"read": 1.0}}, "call": {"1": {"ours": 1e-6}}}})
    stored = read(path)
    assert stored.seconds(F32, "ours") == 0.02
    assert stored.seconds(HEAVY, "ours") == 0.03
    assert len(stored.records) == 2
    assert stored.machine == {"peaks": {"2": {"read": 2.0}, "1": {"read": 1.0}}, "call": {"1": {"ours": 1e-6}}}
    assert read(tmp_path / "nothing.jsonl").records == {}


def stored() -> Results:
    machine = {
        "described": {"CPU": "A | B"},
        "versions": {"oneDNN": "3.13.2"},
        "peaks": {"2": {"multiply_add_512": 5e11, "dots_512": 9e11, "read": 4e10}},
        "call": {"2": {"ours": 3e-6, "onednn": 3.4e-5}},
    }
    wrong = record(RGB, 0.01, 0.03)
    wrong["candidates"]["onednn"] = {"modes": {"graph": "wrong in 7 cells"}, "wrong": "wrong in 7 cells"}
    return found(record(F32, 0.01, 0.02, 0.03), record(HEAVY, 0.01, 0.005), wrong, **machine)


def test_the_page_says_what_was_reached_what_fell_short_and_what_failed() -> None:
    page = report.markdown(stored())
    assert "| f32, y and x, NXC | 2 | 1.00 | 1.08 | 0.50 | 0.90 | no | convolution/vgg16_conv4_2/f32/nxc/2 |" in page
    assert f"3 of {len(full())} problems" in page
    assert "| CPU | A \\| B |" in page
    assert "| oneDNN | wrong results | 1 | conv_transpose/dcgan_rgb_b16/f32/ncx/2 |" in page
    assert "| PyTorch | refused: no such thing | 2 |" in page
    assert "| Opwright | 3.0 us |" in page
    assert "| resnet50_l1_3x3_b16 | Convolution | 2.00 · 3.00 |" in page
    assert "| f32, y and x, NXC | 0.50 | convolution/vgg16_conv4_2/f32/nxc/2 |" in page
    assert report.markdown(stored()) == page


def test_products_and_operations_of_steps_have_a_page_of_their_own() -> None:
    product = record(products.every()[0], 0.01, 0.02, 0.03)
    step = record(steps.every()[0], 0.01, None, 0.005)
    page = report.others(found(product, step))
    assert "## Matrix products" in page
    assert "## Operations of steps" in page
    assert [ratio for _, _, ratio in pictures.operations(page)] == [3, 0.5]
    assert report.others(stored()) == ""
    assert "Matrix products" not in report.markdown(found(product, step))


@pytest.mark.parametrize(
    ("instructions", "name"),
    [
        ("avx2, avx512f, avx512_bf16", "OPERATIONS.md"),
        ("avx2", "OPERATIONS_AVX2.md"),
        ("asimd", "OPERATIONS_ASIMD.md"),
    ],
)
def test_instruction_sets_of_other_widths_have_pages_of_their_own(instructions: str, name: str) -> None:
    assert report.others_page(found(described={"instructions": instructions})) == name


def test_a_picture_has_a_dot_for_each_ratio_and_says_which_row_it_is() -> None:
    dots = list(pictures.convolutions(report.markdown(stored())))
    assert ("Convolution", "resnet50_l1_3x3_b16, f32 NXC, 2 threads", 3.0) in dots
    svg = pictures.picture(dots)
    assert svg.count("<circle") == len(dots)
    assert "<title>resnet50_l1_3x3_b16, f32 NXC, 2 threads: 3</title>" in svg


def test_the_plot_shows_points_of_both_candidates(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="matplotlib, which draws the plot, is not installed")
    image = pytest.importorskip("PIL.Image", reason="Pillow is not installed")
    report.draw(stored(), tmp_path / "full.png")
    report.draw(Results(), tmp_path / "empty.png")
    with image.open(tmp_path / "full.png") as full_plot, image.open(tmp_path / "empty.png") as empty:
        assert full_plot.size == empty.size
        colors = [len(np.unique(np.asarray(plot.convert("RGB")).reshape(-1, 3), axis=0)) for plot in (full_plot, empty)]
        assert colors[0] > colors[1]


def test_the_page_tells_how_many_rows_are_of_kernels_before_these() -> None:
    older = {**record(HEAVY, 0.010, 0.010), "kernels": "before"}
    assert "; 1 row measured with earlier kernels." in report.markdown(
        found(record(F32, 1, 1), older, versions={"kernels": "k"})
    )
    assert "before these" not in report.markdown(found(record(F32, 1, 1), versions={"kernels": "k"}))
