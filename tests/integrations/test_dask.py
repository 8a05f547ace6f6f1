"""Operations on dask arrays: in parts of any chunks what one call gives, in threads and on workers that come and go."""

from __future__ import annotations

import ast
import itertools
import os
import re
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import opwright_kernels as ok
import pytest
from opwright_kernels import _sharding
from support.calls import Rng
from support.generated import rng

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
    yield "relu", [ints(random, 5, 9, dtype=ml_dtypes.bfloat16)], {}


def chunked(random: Rng, function: str, inputs: list[Any], attributes: dict[str, Any]) -> Any:
    """Uneven chunks along axes that allow it: those that an error names are put together."""
    first = inputs[0]
    array = da.from_array(first, chunks=tuple(cuts(random, extent) for extent in first.shape))
    for _ in range(first.ndim + 1):
        try:
            return array, getattr(od, function)(array, *inputs[1:], **attributes)
        except ok.SpecError as error:
            if "rechunk(" not in str(error):  # two sums of a kind each
                array = array.rechunk({0: -1})
                continue
            (wanted,) = re.findall(r"rechunk\(({.*})\)", str(error))
            array = array.rechunk(ast.literal_eval(wanted))
    raise AssertionError("no chunks are right")


def cuts(random: Rng, extent: int) -> tuple[int, ...]:
    bounds = sorted({0, extent, *map(int, random.integers(0, extent + 1, 2))})
    return tuple(b - a for a, b in itertools.pairwise(bounds))


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
                np.testing.assert_array_equal(found, other, f"{function} of chunks {array.chunks}")
    assert len(split) == 14, split


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


VOLUME = (144, 768, 768)
LIMIT = 300 * 2**20  # bytes of a worker: less than the volume


def test_workers_convolve_what_none_of_them_can_hold_and_one_that_dies_loses_nothing():
    weights = np.ones((1, 1, 3, 3, 3), np.float32)
    attributes = {"strides": [1] * 3, "pads_begin": [1] * 3, "pads_end": [1] * 3, "dilations": [1] * 3}
    attributes |= {"data_format": "NCX", "weights_format": "OIX"}
    ok.convolution(np.ones((1, 1, 4, 4, 4), np.float32), weights, **attributes)  # compiled once, not by each worker
    settings = {"n_workers": 2, "threads_per_worker": 1, "memory_limit": LIMIT, "dashboard_address": None}
    with distributed.Client(**settings) as client:
        volume = da.ones((1, 1, *VOLUME), chunks=(1, 1, 8, 768, 768), dtype="f4")
        assert volume.nbytes > LIMIT
        made = od.convolution(volume, weights, **attributes)
        total = made.sum(dtype="f8").persist()
        client.cluster.scale(4)
        client.wait_for_workers(3, timeout=60)
        os.kill(next(iter(client.run(os.getpid).values())), signal.SIGKILL)
        assert float(total.compute()) == float(np.prod([3 * extent - 2 for extent in VOLUME], dtype=object))
        tasks = {dask.utils.key_split(key) for key in dict(made.__dask_graph__())}
        assert "convolution" in tasks

        random = rng("workers")
        for function, inputs, attributes in list(calls(random))[::4]:
            array, lazy = chunked(random, function, inputs, attributes)
            assert array.npartitions > 1
            wanted = getattr(ok, function)(*inputs, **attributes)
            lazy, wanted = (made[0] if isinstance(made, tuple) else made for made in (lazy, wanted))
            np.testing.assert_array_equal(lazy.compute(), wanted)


def test_the_block_of_the_guide_runs_as_written(capsys: pytest.CaptureFixture[str]):
    page = (Path(__file__).parents[2] / "docs" / "DASK.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    exec(compile(code, "DASK.md", "exec"), {})
    assert capsys.readouterr().out == "(1, 4, 64, 256, 256) float32 (16, 16, 16, 16)\n"


def test_every_operation_has_a_function_on_dask_arrays():
    assert set(od.__all__) == set(ok.operations()) <= _sharding.tables().keys()
    assert od.relu.__name__ == "relu"
    assert not hasattr(od, "no_operation")
