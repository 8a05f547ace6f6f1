"""Whatever the table of splits allows gives the whole: by the interpreter, for shipped operations and random ones."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from opwright.language.model import Op
from opwright.language.source import SpecInvalid
from opwright.load import load_texts, load_with_gradients
from opwright.oracle import sample
from opwright.oracle.step_sample import samples
from opwright.oracle.validate import validate
from opwright_kernels import _sharding
from support.calls import Rng
from support.draws import FULL, rng
from support.random_blocks import blocks
from support.random_specs import draw, texts_of
from support.random_steps import steps
from support.specs import FOLDER
from support.split_calls import facts, in_parts, results, splits, windowed

OPS = load_with_gradients(FOLDER, FOLDER.parents[1]).ops


def calls(op: Op, count: int) -> Iterator[tuple[Any, Any]]:
    """Legal calls with small integers."""
    if op.stepped:
        for made in samples(op, count, extents=(1, 2, 3, 5, 6)):
            arrays = [_integers(array) for array in made.arrays]
            yield [[a] if t.joined and a is not None else a for t, a in zip(op.inputs, arrays)], made.attributes
    else:
        found = sample.legal(op)
        with contextlib.suppress(KeyError):  # sizes that only an output of this sampler tells
            for number, (setting, inputs, _) in enumerate(list(found)):
                if number % 3 < count:
                    yield inputs, sample.arguments(op, setting).values


def _integers(array: Any) -> Any:
    if isinstance(array, (list, tuple)):
        return [_integers(part) for part in array]
    return array if array is None or np.dtype(array.dtype).kind != "f" else np.asarray(np.rint(array), array.dtype)


def ranges(random: Rng, total: int) -> list[tuple[int, int]]:
    """Uneven parts of all values: of one value, of none, and of many."""
    bounds = sorted(int(at) for at in random.integers(0, total + 1, int(random.integers(1, 4))))
    return list(zip([0, *bounds], [*bounds, total]))


def check(op: Op, inputs: Any, attributes: Any, random: Rng, kinds: Counter[str]) -> None:
    """Every option to split a call by itself, and two at once."""
    known = facts(op, inputs, attributes)
    options = [option for option in _sharding.options(splits(op), known) if option.total > 0]
    chosen = [[option] for option in options]
    if len(options) > 1:
        chosen.append([options[int(at)] for at in random.choice(len(options), 2, replace=False)])
    whole = results(op, inputs, attributes)
    for own in chosen:
        if len({(option.split.size, option.axis) for option in own}) < len(own):
            continue
        if any(_sharding.joins(own, name) is None for name in whole):
            continue
        found = in_parts(op, inputs, attributes, {option: ranges(random, option.total) for option in own})
        for name, (cells, count) in found.items():
            join = _sharding.joins(own, name)
            kinds[f"{'+'.join(option.split.kind for option in own)} {join}"] += 1
            message = f"{op.op} {name} along {[(option.split.letter, option.axis) for option in own]} of {attributes}"
            assert (count > 0).all() or not count.size, message
            if join in ("cells", "same", "max", "min"):
                np.testing.assert_array_equal(cells.astype(float), whole[name].astype(float), message)
            else:
                near = {"rtol": 1e-4, "atol": 1e-4} if join != "sum" else {"rtol": 1e-6, "atol": 1e-6}
                np.testing.assert_allclose(cells.astype(float), whole[name].astype(float), err_msg=message, **near)


def test_parts_of_shipped_operations_make_the_whole() -> None:
    random, kinds = rng("splits"), Counter[str]()
    for op in OPS:
        for inputs, attributes in calls(op, 6 if FULL else 2):
            check(op, inputs, attributes, random, kinds)
    assert {"cells cells", "groups cells", "halo cells", "partial sum", "partial max", "partial mean"} <= kinds.keys()


def test_parts_of_random_operations_make_the_whole() -> None:
    random, kinds, whole = rng("random splits"), Counter[str](), Counter[str]()
    for number in range(600 if FULL else 150):
        with contextlib.suppress(SpecInvalid):
            draft = steps(random) if number % 3 else draw(random)
            for op in load_texts(texts_of([draft])).ops:
                whole.update(split.kind for split in splits(op))
                for inputs, attributes in calls(op, 2 if FULL else 1):
                    check(op, inputs, attributes, random, kinds)
    assert {"cells cells", "halo cells"} <= kinds.keys()
    assert any(kind.startswith("partial ") for kind in kinds)
    assert whole["whole"]


def test_windows_are_cut_anywhere_whatever_their_strides_and_padding() -> None:
    random, kinds, tried = rng("windows"), Counter[str](), Counter[str]()
    for op in OPS:
        if any(split.window for split in splits(op)):
            for inputs, attributes in windowed(op, random):
                check(op, inputs, attributes, random, kinds)
                tried[op.op] += 1
                if tried[op.op] == (60 if FULL else 8):
                    break
    assert len(tried) == 10, tried
    assert min(tried.values()) > 2, tried
    assert {"halo cells", "partial sum"} <= kinds.keys()


def test_windows_whose_padding_is_one_number_are_cut_anywhere() -> None:
    lists = [f"  - {{name: pads_{side}, symbol: {symbol}, " for side, symbol in (("begin", "PB"), ("end", "PE"))]
    text = (FOLDER.parents[1] / "tests" / "data" / "average_pool.yaml").read_text(encoding="utf-8")
    kept = [line for line in text.splitlines() if not line.startswith(lists[1])]
    text = "\n".join(
        '  - {name: pad, symbol: P, type: s64, default: "0", min: 0, summary: Padding on both sides.}'
        if line.startswith(lists[0])
        else line.replace("PB + PE", "2 * P").replace("- PB", "- P")
        for line in kept
    )
    (op,) = load_texts({"average_pool.yaml": text}).ops
    (halo,) = (split for split in splits(op) if split.kind == "halo")
    assert halo.window is not None
    assert halo.window.kept
    random, kinds = rng("one number"), Counter[str]()
    for _ in range(400 if FULL else 60):
        rank = int(random.integers(1, 3))
        shape = [int(extent) for extent in random.integers(1, 12, rank)]
        attributes = {"kernel": random.integers(1, 5, rank).tolist(), "strides": random.integers(1, 5, rank).tolist()}
        attributes |= {"pad": int(random.integers(0, 6)), "data_format": "NCX"}
        inputs = [random.integers(-3, 4, (1, 2, *shape)).astype(np.float32)]
        if validate(op, inputs, attributes).accepted:
            check(op, inputs, attributes, random, kinds)
    assert kinds["halo cells"] > 40
    assert kinds["halo+halo cells"]


LEAST = """
op: Least
revision: 1
summary: The least beside each cell of an offset that may be stretched.
dims: {cells: {symbol: K, run: true}, rows: R}
inputs:
  - {name: src, dims: {R: R, K: K}}
  - {name: offset, dims: {K: K}, broadcast: [K]}
outputs: [{name: least, dims: {K: K}, broadcast_as: offset}]
dtypes: [{src: f32, offset: f32, least: f32, accumulate: f32}]
semantics:
  ranges: {k: K, r: R}
  steps: ["least[k] min= max(src[r, k], offset[k])"]
"""


def test_an_extreme_in_the_shape_of_a_stretched_input_is_joined_as_an_extreme() -> None:
    (op,) = load_texts({"least.yaml": LEAST}).ops
    random, kinds = rng("least"), Counter[str]()
    for _ in range(20):
        inputs = [random.integers(-9, 9, (3, 2, 4)).astype(np.float32)]
        inputs.append(random.integers(-9, 9, (1, 4) if random.random() < 0.5 else (1, 1)).astype(np.float32))
        check(op, inputs, {}, random, kinds)
    assert kinds["cells min"]


PLACED = """
op: Placed
revision: 1
summary: Cells at places that two extents tell.
spatial_rank: {{min: 1, max: 3}}
dims:
  batch: {{symbol: N, summary: samples}}
  channels: {{symbol: C, summary: channels}}
  src_spatial: {{symbol: I, per_axis: true, min: 1, summary: spatial extents of src}}
  dst_spatial: {{symbol: O, per_axis: true, min: 1, summary: spatial extents of dst}}
attributes:
  - {{name: data_format, type: string, default: NCX, values: [NCX, NXC], summary: The order of the axes.}}
  - {{name: extents, symbol: E, type: "s64[]", required: true, length: spatial, min: 1, neutral: 1, summary: The extents of dst.}}
layouts:
  data_format: {{NCX: [N, C, X], NXC: [N, X, C]}}
inputs:
  - {{name: src, layout: data_format, dims: {{N: N, C: C, X: I}}, summary: The cells.}}
outputs:
  - {{name: dst, layout: data_format, dims: {{N: N, C: C, X: O}}, summary: Those at the places.}}
dtypes:
  - {{src: f32, dst: f32, accumulate: f32}}
shape:
  O: E
semantics:
  ranges: {{n: N, c: C, o: O}}
  steps:
    - dst[n, c, o] = src[n, c, {}]
"""


def placed(index: str) -> Op:
    (op,) = load_texts({"placed.yaml": PLACED.format(index)}).ops
    return op


REPEAT = (
    "floor(o * I / O)",
    "min(floor((2 * o + 1) * I / (2 * O)), I - 1)",
    "min(max(floor((2 * I * o + I - O) / (2 * O)) + 1, 0), I - 1)",
)
DIFFER = (
    "min(o, I - 1)",
    "min(floor(o * I / O), 2)",
    "o * I / O % I",
    "I - 1 - floor(o * I / O)",
    "min(floor(o * (I + 1) / O), I - 1)",
)


@pytest.mark.parametrize("index", REPEAT)
def test_places_that_repeat_are_cut_at_whole_periods_with_what_they_reach_beside(index: str) -> None:
    op, random, kinds = placed(index), rng("periods", index), Counter[str]()
    for _ in range(200 if FULL else 30):
        rank = int(random.integers(1, 3))
        periods, own, other = (random.integers(1, 6, rank) for _ in range(3))
        inputs = [random.integers(-9, 9, (1, 2, *(periods * own))).astype(np.float32)]
        check(op, inputs, {"data_format": "NCX", "extents": (periods * other).tolist()}, random, kinds)
    assert kinds["periods cells"] > 10


@pytest.mark.parametrize("index", DIFFER)
def test_places_that_do_not_repeat_are_not_cut(index: str) -> None:
    try:
        op = placed(index)
    except SpecInvalid:  # places that cannot be shown to be inside
        return
    assert [split.kind for split in splits(op) if split.size == "O"] == ["whole"]


def test_blends_and_their_gradients_are_cut_along_space_and_scales_of_groups_along_channels() -> None:
    random, kinds = rng("blends"), Counter[str]()
    found = {op.op: op for op in OPS}
    for _ in range(120 if FULL else 20):
        rank = int(random.integers(1, 3))
        periods, own, other = (random.integers(1, 5, rank) for _ in range(3))
        src, dst = (random.integers(-9, 9, (1, 2, *(periods * each))).astype(np.float32) for each in (own, other))
        mode = ("nearest", ("linear", "bilinear")[rank - 1])[int(random.integers(2))]
        for name, inputs in (("Interpolate", [src]), ("InterpolateBackward", [src, dst])):
            attributes = {"mode": mode, "data_format": "NCX", "coordinate_transformation_mode": "half_pixel"}
            doubled = (periods * other == 2 * periods * own).all()
            given = {"scales": [2.0] * rank} if doubled else {"extents": (periods * other).tolist()}
            check(found[name], inputs, {**attributes, **given}, random, kinds)
        groups, each = int(random.integers(1, 6)), int(random.integers(1, 4))
        by = ("per_tensor", "per_channel", "per_group")[int(random.integers(3))]
        count = {"per_tensor": 1, "per_channel": groups * each, "per_group": groups}[by]
        shape = (2, count, 3) if by == "per_group" else (count,)
        inputs = [random.integers(0, 9, (2, groups * each, 3)).astype(np.uint8)]
        inputs += [random.integers(1, 4, shape).astype(np.float32), random.integers(0, 4, shape).astype(np.uint8)]
        check(found["DynamicDequantize"], inputs, {"qtype": by, "axis": 1}, random, kinds)
    assert kinds["periods cells"] > 60
    assert kinds["periods+periods cells"] > 1


def test_outputs_with_blocks_along_a_diagonal_are_whole() -> None:
    """Parts have the blocks; the cells beside them were in none."""
    kinds, random = Counter[str](), rng("blocks along a diagonal")
    for number in range(400 if FULL else 60):
        (op,) = load_texts({"blocks.yaml": blocks(random, f"Blocks{number}")}).ops
        for inputs, attributes in calls(op, 3):
            check(op, inputs, attributes, random, kinds)
    assert sum(kinds.values()) > 10
