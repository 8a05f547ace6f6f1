"""Operations on dask arrays: in parts of any chunks what one call gives, in threads and on workers that come and go."""

from __future__ import annotations

import ast
import importlib
import itertools
import os
import re
import signal
import sys
import time
import uuid
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import opwright_kernels as ok
import pytest
from opwright.load import load
from opwright_kernels import _sharding
from support.calls import Rng
from support.draws import FULL, rng
from support.package import package
from support.split_calls import splits, windowed
from support.step_calls import StepCaller

pytest.importorskip("dask.array", reason="dask is not installed: pip install 'opwright[dask]'")
distributed = pytest.importorskip("distributed", reason="distributed is not installed: pip install 'opwright[dask]'")
import dask  # noqa: E402
import dask.array as da  # noqa: E402
import opwright_kernels.dask as od  # noqa: E402

CONVOLVED = {"strides": [2, 1], "pads_begin": [1, 3], "pads_end": [2, 1], "dilations": [1, 2], "data_format": "NCX"}
POOLED = {"kernel": [3, 2], "strides": [2, 1], "pads_begin": [1, 0], "pads_end": [1, 1], "data_format": "NCX"}


def ints(random: Rng, *shape: int, dtype: Any = np.float32) -> Any:
    return random.integers(-3, 4, shape).astype(dtype)


def calls(random: Rng) -> Iterator[tuple[str, list[Any], dict[str, Any]]]:
    """Calls whose first input may be chunked along every axis, of all kinds of splits."""
    src = ints(random, 3, 6, 13, 11)
    yield (
        "convolution",
        [src, ints(random, 4, 3, 3, 2), ints(random, 4)],
        CONVOLVED | {"groups": 2, "weights_format": "OIX"},
    )
    yield "convolution", [src, ints(random, 4, 6, 3, 2), ints(random, 4)], CONVOLVED | {"weights_format": "OIX"}
    yield (
        "conv_transpose",
        [src, ints(random, 6, 2, 3, 2), None],
        CONVOLVED | {"weights_format": "IOX", "output_padding": [1, 0]},
    )
    yield (
        "convolution_backward_data",
        [src, ints(random, 6, 2, 3, 2)],
        CONVOLVED | {"weights_format": "OIX", "dst_shape": [3, 2, 25, 9]},
    )
    yield (
        "convolution_backward_weights",
        [ints(random, 3, 2, 25, 9), src],
        CONVOLVED | {"weights_format": "OIX", "weights_shape": [6, 2, 3, 2]},
    )
    yield "max_pool", [src], POOLED | {"rounding_type": "ceil"}
    yield "avg_pool", [src], POOLED | {"exclude_pad": True}
    yield "mat_mul", [ints(random, 3, 6, 13, 11), ints(random, 11, 7), ints(random, 7)], {}
    yield "soft_max", [src], {"axis": 1, "keep_stats": True}
    yield "reduce_max", [src], {"axes": [1, 3]}
    yield "reduce_sum", [src], {"axes": [0, 2], "keep_dims": True}
    yield "add", [src, ints(random, 6, 1, 11)], {}
    yield "prelu", [src, ints(random, 1, 6, 1, 1)], {"data_format": "NCX"}
    yield "static_transpose", [src], {"order": [2, 0, 3, 1]}
    resized = {"data_format": "NCX", "extents": [18, 20]}
    yield "interpolate", [ints(random, 3, 6, 12, 10)], resized | {"mode": "bilinear"}
    yield (
        "interpolate_backward",
        [ints(random, 3, 6, 12, 10), ints(random, 3, 6, 18, 20)],
        resized | {"mode": "bilinear"},
    )
    scales = [random.random((3, 3, 5)).astype(np.float32), ints(random, 3, 3, 5, dtype=np.int32)]
    yield "dynamic_dequantize", [ints(random, 3, 6, 5, dtype=np.int8), *scales], {"qtype": "per_group", "axis": 1}
    yield "relu", [ints(random, 5, 9, dtype=ml_dtypes.bfloat16)], {}


RECHUNK = re.compile(r"(\w+)\.rechunk\(({.*?})\)")


def rechunked(function: str, inputs: list[Any], attributes: dict[str, Any]) -> tuple[list[Any], Any]:
    """The inputs after every rechunk that an error names, and the lazy outputs."""
    parameters, inputs = [info.parameter for info in ok._OPERATIONS[function].inputs], list(inputs)
    for _ in range(16):
        try:
            return inputs, getattr(od, function)(*inputs, **attributes)
        except ok.SpecError as error:
            steps = RECHUNK.findall(str(error))
            assert steps, error
            for parameter, chunks in steps:
                at, wanted = parameters.index(parameter), ast.literal_eval(chunks)
                own = inputs[at]
                inputs[at] = [a.rechunk(wanted) for a in own] if isinstance(own, list) else own.rechunk(wanted)
    raise AssertionError(f"{function}: no chunks are right")


def chunked(random: Rng, function: str, inputs: list[Any], attributes: dict[str, Any]) -> Any:
    """Uneven chunks along axes that allow it: those that an error names are put together."""
    (array, *_), made = rechunked(function, [uneven(random, inputs[0]), *inputs[1:]], attributes)
    return array, made


def uneven(random: Rng, array: Any, most: int = 2) -> Any:
    return da.from_array(array, chunks=tuple(cuts(random, extent, most) for extent in array.shape))


def cuts(random: Rng, extent: int, most: int) -> tuple[int, ...]:
    bounds = sorted({0, extent, *map(int, random.integers(0, extent + 1, most))})
    return tuple(b - a for a, b in itertools.pairwise(bounds)) or (0,)


def test_random_calls_in_random_chunks_give_what_one_call_gives_and_every_error_names_a_rechunk_that_helps():
    random, split, folder = rng("chunks"), 0, Path("spec/onednn_graph").resolve()
    dask.config.set(scheduler="synchronous")
    stepped = [op for op in load(folder, folder.parents[1]).ops if op.stepped]
    for at in random.permutation(len(stepped))[: None if FULL else len(stepped) // 3]:
        op = stepped[at]
        for call in StepCaller(op, random, 1).legal(20 if FULL else 2):
            given: list[Any] = []
            for info, own in zip(ok._OPERATIONS[op.function].inputs, call.inputs, strict=True):
                if isinstance(own, list):
                    given.append([uneven(random, part) for part in own])
                else:
                    lazy = own is not None and not info.states_shape and random.random() < 0.8
                    given.append(uneven(random, own) if lazy else own)
            inputs, made = rechunked(op.function, given, call.attributes)
            arrays = [part for own in inputs for part in (own if isinstance(own, list) else [own])]
            split += any(array.npartitions > 1 for array in arrays if isinstance(array, da.Array))
            whole = getattr(ok, op.function)(*call.inputs, **call.attributes)
            outputs = [made if isinstance(made, tuple) else (made,), whole if isinstance(whole, tuple) else (whole,)]
            for lazy, wanted in zip(*outputs, strict=True):
                found = lazy.compute()
                assert (lazy.shape, found.shape, found.dtype) == (wanted.shape, wanted.shape, wanted.dtype)
                np.testing.assert_allclose(  # sums of split letters are rounded in another order
                    found.astype("f8"), wanted.astype("f8"), rtol=1e-5, atol=1e-6, err_msg=f"{op.op} {call}"
                )
    assert split > (500 if FULL else 15), split


def test_chunks_of_any_sizes_give_what_one_call_gives():
    random, split = rng("dask"), set[str]()
    for function, inputs, attributes in calls(random):
        whole = getattr(ok, function)(*inputs, **attributes)
        for _ in range(2):
            array, lazy = chunked(random, function, inputs, attributes)
            split |= {function} if array.npartitions > 1 else set()
            lazy, wanted = (made if isinstance(made, tuple) else (made,) for made in (lazy, whole))
            for one, other, found in zip(lazy, wanted, dask.compute(*lazy, scheduler="synchronous")):
                assert (one.shape, one.dtype) == (other.shape, other.dtype)
                if function.startswith("interpolate"):  # weights are quotients by the extents of a part
                    np.testing.assert_allclose(found, other, rtol=1e-5, atol=1e-5)
                else:
                    np.testing.assert_array_equal(found, other, f"{function} of chunks {array.chunks}")
    assert len(split) == 17, split


def test_windows_over_chunks_of_any_sizes_give_what_one_call_gives():
    """Halos are larger than chunks, chunks have one cell, strides fall between chunks, padding is beyond the ends."""
    random, folder, tried = rng("windows in chunks"), Path("spec/onednn_graph").resolve(), Counter[str]()
    dask.config.set(scheduler="synchronous")
    for op in load(folder, folder.parents[1]).ops:
        if not any(split.window for split in splits(op)):
            continue
        for inputs, attributes in itertools.islice(windowed(op, random), 20 if FULL else 4):
            given = []
            for info, own in zip(ok._OPERATIONS[op.function].inputs, inputs, strict=True):
                many = own is not None and not info.states_shape
                given.append(uneven(random, own, int(random.integers(1, 12))) if many else own)
            arrays, made = rechunked(op.function, given, attributes)
            tried[op.function] += any(array.npartitions > 1 for array in arrays if isinstance(array, da.Array))
            np.testing.assert_array_equal(
                made.compute(), getattr(ok, op.function)(*inputs, **attributes), f"{op.op} {attributes}"
            )
    assert len(tried) >= 9, tried
    assert min(tried.values()) > 1, tried


def test_a_shape_is_known_without_a_kernel_and_the_graph_grows_as_the_chunks_do(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(ok._OPERATIONS["convolution"], "call", None)
    sizes = []
    for chunks in (8, 16, 32):
        src = da.zeros((1, 2, 4 * chunks, 64), chunks=(1, 2, 4, 64), dtype="f4")
        attributes = CONVOLVED | {"strides": [1, 1], "weights_format": "OIX"}
        made = od.convolution(src, np.zeros((4, 2, 3, 3), "f4"), **attributes)
        assert (made.shape[2], made.dtype) == (4 * chunks + 1, np.float32)
        sizes.append(len(dict(made.__dask_graph__())) / chunks)
    assert max(sizes) < 1.2 * min(sizes) < 8


def test_no_part_looks_at_all_chunks():
    """Counted: what Python executes for a graph of 8 times the chunks is no more than 10 times as much."""

    def executed(chunks: int) -> int:
        lines = 0

        def counted(frame: Any, event: str, _: Any) -> Any:
            nonlocal lines
            lines += event == "line" and "opwright_kernels" in frame.f_code.co_filename
            return counted

        src = da.zeros((1, 1, 4 * chunks, 4), chunks=(1, 1, 4, 4), dtype=np.float32)
        before = sys.gettrace()
        sys.settrace(counted)
        try:
            od.convolution(src, np.ones((1, 1, 3, 3), np.float32), **CONVOLVED, weights_format="OIX")
        finally:
            sys.settrace(before)
        return lines

    executed(8)
    assert executed(512) <= 10 * executed(64)


def test_threads_that_are_none_are_refused_before_anything_is_computed():
    for threads in (0, -1, 1.5, "two"):
        with pytest.raises(ok.SpecError, match="rule threads"):
            od.relu(da.ones(3, dtype=np.float32), threads=threads)


def test_chunks_that_cannot_work_are_refused_with_the_rechunk_that_would():
    src = da.zeros((2, 6, 9, 9), chunks=(1, 2, 9, 9), dtype="f4")
    weights = np.zeros((4, 3, 3, 3), "f4")
    with pytest.raises(ok.SpecError, match=r"multiples of 3 along axis 1: src\.rechunk\({1: \(3, 3\)}\)"):
        od.convolution(src, weights, **CONVOLVED, groups=2, weights_format="OIX")
    with pytest.raises(ok.SpecError, match=r"needs all of it.*src\.rechunk\({1: -1}\)"):
        od.soft_max(src, axis=1)
    with pytest.raises(ok.SpecError, match=r"src\.rechunk\({1: -1}\)"):  # sums of bf16 would be rounded twice
        od.convolution(
            src.astype(ml_dtypes.bfloat16),
            np.zeros((4, 6, 3, 3), ml_dtypes.bfloat16),
            **CONVOLVED,
            weights_format="OIX",
        )
    with pytest.raises(ok.SpecError, match="compute_chunk_sizes"):
        od.relu(src[src > 0])


MEANS = """
op: ColumnMeans
revision: 1
summary: The sum of the means of columns.
dims: {rows: {symbol: K, run: true}, columns: J}
inputs: [{name: src, dims: {K: K, J: J}}]
outputs: [{name: dst, dims: {}}]
dtypes: [{src: f32, dst: f32, accumulate: f32}]
semantics:
  ranges: {k: K, j: J}
  steps: ["total[] += src[k, j]", "dst[] = total[] / prod(K)"]
"""


def test_parts_that_cannot_be_joined_are_refused_with_the_least_that_has_to_be_one_chunk(tmp_path: Path):
    _, module = package({"column_means.yaml": MEANS}, tmp_path, "column_means")
    lazy = importlib.import_module(f"{module.__name__}.dask")
    src = da.ones((6, 8), chunks=(3, 4), dtype="f4")
    with pytest.raises(module.SpecError, match=r"expected one chunk along k: src\.rechunk\({0: -1}\)"):
        lazy.column_means(src)
    for rechunk in ({0: -1}, {1: -1}):
        assert lazy.column_means(src.rechunk(rechunk)).compute() == 8


VOLUME = (144, 768, 768)
LIMIT = 300 * 2**20  # bytes of a worker: less than the volume


def test_workers_convolve_what_none_of_them_can_hold_and_what_one_that_dies_held_is_computed_again(tmp_path: Path):
    weights = np.ones((1, 1, 3, 3, 3), np.float32)
    attributes = {"strides": [1] * 3, "pads_begin": [1] * 3, "pads_end": [1] * 3, "dilations": [1] * 3}
    attributes |= {"data_format": "NCX", "weights_format": "OIX"}
    ok.convolution(np.ones((1, 1, 4, 4, 4), np.float32), weights, **attributes)  # compiled once, not by each worker

    def summed(block: Any) -> Any:
        (tmp_path / uuid.uuid4().hex).touch()
        return block.sum(dtype="f8").reshape((1,) * block.ndim)

    settings = {"n_workers": 2, "threads_per_worker": 1, "memory_limit": LIMIT, "dashboard_address": None}
    with distributed.Client(**settings) as client:
        volume = da.ones((1, 1, *VOLUME), chunks=(1, 1, 8, 768, 768), dtype="f4")
        assert volume.nbytes > LIMIT
        made = od.convolution(volume, weights, **attributes)
        parts = made.map_blocks(summed, chunks=(1,) * 5, dtype="f8", meta=np.empty((0,) * 5)).persist()
        client.cluster.scale(4)
        client.wait_for_workers(3, timeout=180)
        victim = max(_held(client, parts).items(), key=lambda found: found[1])[0]
        os.kill(client.run(os.getpid)[victim], signal.SIGKILL)
        assert float(parts.sum().compute()) == float(np.prod([3 * extent - 2 for extent in VOLUME], dtype=object))
        assert len(list(tmp_path.iterdir())) > parts.npartitions  # sums that only the victim held were computed again
        tasks = {dask.utils.key_split(key) for key in dict(made.__dask_graph__())}
        assert "convolution" in tasks

        random = rng("workers")
        for function, inputs, attributes in list(calls(random))[::4]:  # on four workers, one of which is new
            array, lazy = chunked(random, function, inputs, attributes)
            assert array.npartitions > 1
            wanted = getattr(ok, function)(*inputs, **attributes)
            lazy, wanted = (made[0] if isinstance(made, tuple) else made for made in (lazy, wanted))
            np.testing.assert_array_equal(lazy.compute(), wanted)


def slowly(block: Any, *, seconds: float) -> Any:
    time.sleep(seconds)
    return block


def test_workers_that_are_killed_at_any_moment_lose_nothing():
    """Two workers and four; each killed one is replaced by its nanny, and what it held or did is computed again."""
    random = rng("killed")
    settings = {"n_workers": 2, "threads_per_worker": 1, "memory_limit": 0, "dashboard_address": None}
    kinds = {function: (inputs, attributes) for function, inputs, attributes in calls(random)}
    with dask.config.set({"distributed.scheduler.allowed-failures": 99}), distributed.Client(**settings) as client:
        for workers in (2, 4):
            client.cluster.scale(workers)
            for _ in range(40 if FULL else 2):
                client.wait_for_workers(workers, timeout=180)
                function = str(random.choice(sorted(kinds)))
                inputs, attributes = kinds[function]
                _, made = rechunked(function, [uneven(random, inputs[0]), *inputs[1:]], attributes)
                seconds = float(random.random()) / 20
                outputs = [
                    one.map_blocks(slowly, seconds=seconds) for one in (made if isinstance(made, tuple) else (made,))
                ]
                running = client.persist(outputs)
                time.sleep(float(random.random()) * 0.4)
                processes = list(client.run(os.getpid, on_error="ignore").values())
                os.kill(int(random.choice(processes)), signal.SIGKILL)
                wanted = getattr(ok, function)(*inputs, **attributes)
                for found, other in zip(running, wanted if isinstance(wanted, tuple) else (wanted,)):
                    np.testing.assert_allclose(found.compute(), other, rtol=1e-5, atol=1e-5, err_msg=function)


def _held(client: Any, array: Any) -> dict[str, int]:
    """How many finished chunks each worker holds, once one of them holds two."""
    for _ in range(9000):  # minutes, on a machine with other work
        keys = set(map(str, dask.core.flatten(array.__dask_keys__())))
        held = {worker: len(keys & set(map(str, own))) for worker, own in client.has_what().items()}
        if max(held.values(), default=0) > 1:
            return held
        time.sleep(0.02)
    raise AssertionError("no worker finishes two chunks")


def test_the_block_of_the_guide_runs_as_written(capsys: pytest.CaptureFixture[str]):
    page = (Path(__file__).parents[2] / "docs" / "DASK.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    exec(compile(code, "DASK.md", "exec"), {})
    assert capsys.readouterr().out == "(1, 4, 64, 256, 256) float32 (16, 16, 16, 16)\n"


def test_every_operation_has_a_function_on_dask_arrays():
    assert set(od.__all__) == set(ok.operations()) <= _sharding.tables().keys()
    assert od.relu.__name__ == "relu"
    assert not hasattr(od, "no_operation")
