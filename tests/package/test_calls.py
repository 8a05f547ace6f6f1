"""What the public functions take, return, remember and tell."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import opwright_kernels as ok
import pytest
from opwright_kernels import _isa, _operation, _threads
from support import rulings
from support.calls import Call, describe, mutated_call, random_call
from support.generated import FULL, PACKAGE, attempt, function, rng, run, same
from support.package import ROOT, package
from support.rulings import OPERATIONS, Accepted

BF16, F16, F32 = np.dtype(ml_dtypes.bfloat16), np.dtype(np.float16), np.dtype(np.float32)
LISTS: dict[str, Any] = {"strides": [2, 2], "pads_begin": [1, 0], "pads_end": [0, 1], "dilations": [1, 1]}


def integers(*shape: int, dtype: Any = F32) -> np.ndarray:
    return np.random.default_rng(list(shape)).integers(-3, 4, shape).astype(dtype)


SRC, WEIGHTS, BIAS = integers(2, 4, 5, 6), integers(3, 3, 4, 6), integers(4)
EXPECTED = ok.conv_transpose(SRC, WEIGHTS, BIAS, **LISTS)
SHAPE = (2, 8, 10, 4)


def call(src: Any = SRC, weights: Any = WEIGHTS, bias: Any = BIAS, **more: Any) -> Any:
    return ok.conv_transpose(src, weights, bias, **{**LISTS, **more})


@pytest.fixture
def _threads_as_they_were(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_threads, "_chosen", None)
    monkeypatch.delenv("OPWRIGHT_NUM_THREADS", raising=False)


# Arrays in


def strided(array: np.ndarray) -> np.ndarray:
    """Every second element of a larger array, in every axis."""
    large = np.full([2 * extent for extent in array.shape], 99, array.dtype)
    view = large[tuple(slice(1, None, 2) for _ in array.shape)]
    view[...] = array
    return view


def reversed_(array: np.ndarray) -> np.ndarray:
    """Negative strides on every axis."""
    backwards = tuple(slice(None, None, -1) for _ in array.shape)
    return np.ascontiguousarray(array[backwards])[backwards]


def offset(array: np.ndarray) -> np.ndarray:
    return np.concatenate([np.full(3, 99, array.dtype), array.ravel()])[3:].reshape(array.shape)


def unaligned(array: np.ndarray) -> np.ndarray:
    return np.frombuffer(b"x" + array.tobytes(), array.dtype, offset=1).reshape(array.shape)


def transposed(array: np.ndarray) -> np.ndarray:
    return np.moveaxis(np.ascontiguousarray(np.moveaxis(array, 0, -1)), -1, 0)


def read_only(array: np.ndarray) -> np.ndarray:
    copy = array.copy()
    copy.flags.writeable = False
    return copy


def interface(array: np.ndarray) -> Any:
    """An object that is no array but has the interface of one."""

    class Holder:
        __array_interface__ = array.__array_interface__
        keep = array

    return Holder()


VIEWS = [strided, reversed_, offset, unaligned, transposed, read_only, np.asfortranarray, interface]


# NumPy's array interface has no bfloat16.
VIEWS_OF_DTYPES = [(view, dtype) for view in VIEWS for dtype in (F32, F16, BF16) if (view, dtype) != (interface, BF16)]


@pytest.mark.parametrize(("view", "dtype"), VIEWS_OF_DTYPES)
def test_every_kind_of_view_gives_what_a_plain_array_gives(view: Any, dtype: np.dtype[Any]) -> None:
    arrays = [array.astype(dtype) for array in (SRC, WEIGHTS, BIAS)]
    assert same(call(*map(view, arrays)), call(*arrays))


@pytest.mark.parametrize("view", VIEWS)
def test_only_what_must_be_copied_is_copied_and_explain_says_so(view: Any) -> None:
    copies = ok.explain("conv_transpose", view(SRC), WEIGHTS, BIAS, **LISTS).copies
    if view is unaligned:
        assert copies == ("src: its elements are not aligned",)
    elif view in (strided, reversed_, transposed, np.asfortranarray):
        assert copies == ("src: its elements are not contiguous",)
    else:
        assert copies == ()


def test_inputs_are_not_changed() -> None:
    before = [array.copy() for array in (SRC, WEIGHTS, BIAS)]
    call(threads=3)
    assert all(np.array_equal(*pair) for pair in zip(before, (SRC, WEIGHTS, BIAS), strict=True))


def test_torch_tensors_are_inputs() -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    tensors = [torch.from_numpy(array.copy()) for array in (SRC, WEIGHTS, BIAS)]
    assert same(call(*tensors), EXPECTED)
    mixed = [tensors[0].permute(3, 2, 1, 0).contiguous().permute(3, 2, 1, 0), WEIGHTS, tensors[2]]
    assert same(call(*mixed), EXPECTED)
    halves = call(*(tensor.to(torch.bfloat16) for tensor in tensors))
    assert same(halves, call(*(array.astype(BF16) for array in (SRC, WEIGHTS, BIAS))))


def test_objects_with_dlpack_alone_are_inputs() -> None:
    class Capsule:
        def __init__(self, array: np.ndarray) -> None:
            self.array = array

        def __dlpack__(self, **options: Any) -> Any:
            return self.array.__dlpack__(**options)

        def __dlpack_device__(self) -> tuple[int, int]:
            return self.array.__dlpack_device__()

    assert same(call(*map(Capsule, (SRC, WEIGHTS, BIAS))), EXPECTED)
    out = np.zeros(SHAPE, F32)
    holder = Capsule(out)
    assert call(out=holder) is holder
    assert same(out, EXPECTED)


# out=


@pytest.mark.parametrize("view", [np.copy, strided, reversed_, offset, transposed, np.asfortranarray])
def test_an_output_of_any_strides_is_written_and_returned(view: Any) -> None:
    out = view(np.full(SHAPE, 99, F32))
    assert call(out=out) is out
    assert same(out, EXPECTED)


def test_cells_around_a_strided_output_are_left_alone() -> None:
    large = np.full((2, 8, 10, 8), 99, F32)
    call(out=large[..., ::2])
    assert same(large[..., ::2].copy(), EXPECTED)
    assert (large[..., 1::2] == 99).all()


def test_a_torch_tensor_is_an_output_and_comes_back_as_given() -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    for out in (torch.empty(SHAPE), torch.empty((4, 10, 8, 2)).permute(3, 2, 1, 0)):
        assert call(out=out) is out
        assert same(np.ascontiguousarray(out.numpy()), EXPECTED)
    out = torch.empty(SHAPE, dtype=torch.bfloat16)
    halves = [array.astype(BF16) for array in (SRC, WEIGHTS, BIAS)]
    assert call(*halves, out=out) is out
    assert same(out.float().numpy(), call(*halves).astype(F32))


# Attributes


@pytest.mark.parametrize(
    "kind", [tuple, np.array, lambda x: np.array(x, np.uint8), lambda x: [np.int16(e) for e in x], lambda x: map_(x)]
)
def test_integers_come_in_lists_tuples_and_integer_arrays(kind: Any) -> None:
    lists = {name: kind(entries) for name, entries in LISTS.items()}
    assert same(ok.conv_transpose(SRC, WEIGHTS, BIAS, groups=np.int64(1), **lists), EXPECTED)


def map_(entries: list[int]) -> tuple[np.ndarray, ...]:
    """Integers as 0-d arrays."""
    return tuple(np.array(entry) for entry in entries)


def test_the_spellings_of_the_library_are_aliases() -> None:
    for ours, theirs in [("none", "None"), ("same_upper", "SAME_UPPER"), ("valid", "VALID")]:
        assert same(call(auto_pad=theirs), call(auto_pad=ours))


def test_twelve_zeros_of_output_padding_are_none() -> None:
    assert same(call(output_padding=[0] * 12), EXPECTED)


def test_an_empty_batch_gives_an_empty_output_and_no_channels_give_the_bias() -> None:
    assert call(SRC[:0]).shape == (0, 8, 10, 4)
    assert call(SRC[..., :0], WEIGHTS[..., :0]).tolist() == np.broadcast_to(BIAS, SHAPE).tolist()
    assert not call(SRC[..., :0], WEIGHTS[..., :0], None).any()
    assert call(weights=WEIGHTS[:, :, :0], bias=BIAS[:0]).shape == (2, 8, 10, 0)


# Threads


@pytest.fixture(params=["portable", ""], ids=["portable", "best"])
def _isa_of_the_call(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Reference kernels, then the best that this CPU has."""
    with monkeypatch.context() as patched:
        patched.setenv("OPWRIGHT_ISA", request.param)
        _operation.forget()
        yield
    _operation.forget()


@pytest.mark.usefixtures("_threads_as_they_were", "_isa_of_the_call")
def test_a_call_uses_the_threads_of_its_argument_else_of_the_program_else_of_the_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked, team = [], _operation._team.team
    monkeypatch.setattr(_operation._threads, "run", lambda kernel, parts: (asked.append(parts), kernel(0, 1)))
    monkeypatch.setattr(_operation._team, "team", lambda workers: (asked.append(workers), team(workers))[1])
    monkeypatch.setattr(_operation, "SERIAL_TERMS", 0)
    monkeypatch.setenv("OPWRIGHT_NUM_THREADS", "3")
    results = [call()]
    ok.set_num_threads(5)
    results += [call(), call(threads=2), call(threads=np.int8(1))]
    assert asked == [3, 5, 2]
    assert ok.get_num_threads() == 5
    assert all(same(result, EXPECTED) for result in results)


@pytest.mark.usefixtures("_threads_as_they_were")
def test_a_wrong_environment_is_refused_before_anything_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPWRIGHT_NUM_THREADS", "many")
    monkeypatch.setattr(_operation, "SERIAL_TERMS", 0)
    out = np.full(SHAPE, 7, F32)
    with pytest.raises(ok.SpecError) as caught:
        call(out=out)
    assert (caught.value.rule, caught.value.argument) == ("threads", "OPWRIGHT_NUM_THREADS")
    assert (out == 7).all()


def test_eight_threads_of_the_program_may_call_at_once() -> None:
    calls = [random_call(rng("at once", number)) for number in range(40)]
    expected = [rulings.compute(one) for one in calls]
    failures: list[str] = []

    def caller(number: int) -> None:
        order = np.random.default_rng(number).permutation(len(calls))
        for index in order:
            if not same(run(calls[index], threads=1 + number % 3), expected[index]):
                failures.append(describe(calls[index]))

    threads = [threading.Thread(target=caller, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(300)
    assert not any(thread.is_alive() for thread in threads)
    assert failures == []


def test_another_thread_works_on_while_a_kernel_runs() -> None:
    """The kernel releases the GIL: someone counts on between its start and its end."""
    src, weights = np.zeros((1, 40, 40, 64), F32), np.zeros((3, 3, 64, 64), F32)
    plain = {name: [int(name in ("strides", "dilations"))] * 2 for name in LISTS}
    ok.conv_transpose(src, weights, threads=1, **plain)
    moments: list[float] = []
    done = threading.Event()

    def tick() -> None:
        while not done.is_set():
            moments.append(time.perf_counter())
            time.sleep(0.0005)

    ticker = threading.Thread(target=tick)
    ticker.start()
    within = 0
    for _ in range(50):
        start = time.perf_counter()
        ok.conv_transpose(src, weights, threads=1, **plain)
        end = time.perf_counter()
        margin = (end - start) / 4
        within += sum(start + margin < moment < end - margin for moment in moments)
        if within > 3:
            break
    done.set()
    ticker.join()
    assert within > 3


FORK = """
import os, signal
import numpy as np
import opwright_kernels as ok
lists = dict(strides=[1], pads_begin=[0], pads_end=[0], dilations=[1])
src, weights = np.ones((4, 300, 8), np.float32), np.ones((3, 8, 8), np.float32)
expected = ok.conv_transpose(src, weights, threads=2, **lists)
child = os.fork()
if child == 0:
    signal.alarm(20)
    again = ok.conv_transpose(src, weights, threads=3, **lists)
    os._exit(42 if np.array_equal(again, expected) else 1)
assert np.array_equal(ok.conv_transpose(src, weights, threads=2, **lists), expected)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="os.fork is missing")
def test_a_forked_child_can_call() -> None:
    answer = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", FORK],
        env={**os.environ, "PYTHONPATH": str(PACKAGE.parent)},
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    assert answer.stdout.strip() == "42"


# What the package remembers of a call


@pytest.mark.parametrize("wrong", [True, 1.0, np.True_, np.float32(1), "1"])
def test_what_equals_an_integer_is_refused_after_a_legal_call_with_it(wrong: Any) -> None:
    legal = {**LISTS, "strides": [1, 1]}
    ok.conv_transpose(SRC, WEIGHTS, **legal)
    with pytest.raises(ok.SpecTypeError) as caught:
        ok.conv_transpose(SRC, WEIGHTS, **{**legal, "strides": [1, wrong]})
    assert caught.value.rule == "strides-kind"
    if wrong != "1":
        with pytest.raises(ok.SpecTypeError):
            ok.conv_transpose(SRC, WEIGHTS, groups=wrong, **legal)


def test_arrays_of_the_same_bytes_are_told_apart() -> None:
    ones = np.array([1, 1])
    expected = call(strides=[1, 1])
    for _ in range(2):
        assert same(call(strides=ones), expected)
        for other in (ones.view(np.int32), ones.view(np.float64), ones.tobytes()):
            with pytest.raises(ok.SpecError):
                call(strides=other)


def test_a_list_that_has_changed_is_looked_at_anew() -> None:
    strides = [1, 1]
    first = call(strides=strides)
    strides[0] = 2
    assert call(strides=strides).shape[1] > first.shape[1]


def test_a_remembered_call_is_still_refused_for_its_output_and_threads() -> None:
    call()
    for more in ({"out": np.zeros(3, F32)}, {"threads": 0}, {"threads": True}):
        with pytest.raises(ok.SpecError):
            call(**more)


def test_another_shape_dtype_or_stated_shape_gives_another_result() -> None:
    assert call(SRC[:1]).shape == (1, 8, 10, 4)
    assert call(SRC[:, :3]).shape == (2, 6, 10, 4)
    assert call(*(array.astype(F16) for array in (SRC, WEIGHTS, BIAS))).dtype == F16
    assert call(*(array.astype(BF16) for array in (SRC, WEIGHTS, BIAS))).dtype == BF16
    gradient = integers(1, 3, 2)
    plain = {"strides": [2], "pads_begin": [0], "pads_end": [0], "dilations": [1]}
    for size in (6, 5, 6):
        stated = np.array([1, size, 3], np.int32)
        back = ok.convolution_backward_data(gradient, integers(1, 3, 2), stated, **plain)
        assert back.shape == (1, size, 3)


def test_more_signatures_than_are_remembered_give_right_results() -> None:
    plain = {"strides": [1], "pads_begin": [0], "pads_end": [0], "dilations": [1]}
    for _ in range(2):
        for extent in range(1, _operation._remember.MAX_CALLS + 100):
            result = ok.conv_transpose(np.ones((1, extent, 1), F32), np.ones((1, 1, 1), F32), **plain)
            assert result.shape == (1, extent, 1)
            assert result[0, -1, 0] == 1
    assert len(_operation.CALLS) <= _operation._remember.MAX_CALLS


def plain(one: Call) -> Call:
    """The same call, its integers Python's own and its arrays contiguous."""
    attributes = {
        name: np.asarray(value).tolist() if np.ndim(value) or isinstance(value, np.generic) else value
        for name, value in one.attributes.items()
    }
    inputs = tuple(None if array is None else array.copy(order="C") for array in one.inputs)
    return replace(one, inputs=inputs, attributes=attributes)


def test_a_repeated_call_of_plain_arrays_takes_the_short_way(monkeypatch: pytest.MonkeyPatch) -> None:
    """A repeated call finds the plan that the first one left, and prepares nothing."""
    calls = [plain(random_call(rng("short way", op), op)) for op in OPERATIONS]
    expected = [run(one) for one in calls]
    longer: list[str] = []
    long_way = _operation.Operation.prepared
    monkeypatch.setattr(
        _operation.Operation, "prepared", lambda self, *rest: (longer.append(self.name), long_way(self, *rest))[1]
    )
    for one, result in zip(calls, expected, strict=True):
        assert same(run(one), result)
        assert same(run(one, threads=2), result)
    fast = [one.op for one in calls if ok.explain(one.op, *one.inputs, **one.attributes).variant.isa != "portable"]
    assert not set(longer) & set(fast)


def test_a_remembered_output_may_touch_an_input_but_share_no_cell_with_it() -> None:
    size = EXPECTED.size
    memory = np.zeros(SRC.size + 2 * size + WEIGHTS.size, F32)
    src = memory[size : size + SRC.size].reshape(SRC.shape)
    src[...] = SRC
    weights = memory[2 * size + SRC.size :].reshape(WEIGHTS.shape)
    weights[...] = WEIGHTS
    starts = {0: "", size + SRC.size: "", 1: "src", size + SRC.size - 1: "src", size + SRC.size + 1: "weights"}
    call(src, weights)
    for start, shared in starts.items():
        out = memory[start : start + size].reshape(SHAPE)
        if shared:
            with pytest.raises(ok.SpecError, match=f"shares memory with {shared}"):
                call(src, weights, out=out)
        else:
            assert call(src, weights, out=out) is out
            assert same(out, EXPECTED)
    assert same(src, SRC)
    assert same(weights, WEIGHTS)
    with pytest.raises(ok.SpecError, match="shares memory with bias"):
        call(src, weights, memory[3:7], out=memory[:size].reshape(SHAPE))


def test_the_values_of_the_inputs_are_not_remembered() -> None:
    src = SRC.copy()
    first = call(src)
    src += 1
    assert not same(call(src), first)
    assert same(call(src - 1), first)


# explain, infer_shape, variants


def test_explain_tells_pads_shapes_kernel_and_the_line_of_the_spec_behind_each() -> None:
    told = ok.explain("ConvTranspose", SRC, WEIGHTS, BIAS, auto_pad="same_upper", threads=2, **LISTS)
    assert (told.op, told.shape, told.dtype) == ("ConvTranspose", (2, 8, 10, 4), "float32")
    assert told.values["padding in front"] == (0, 0)
    assert told.values["padding behind"] == (1, 1)
    assert (told.values["in_channels"], told.values["out_channels"]) == (6, 4)
    assert told.values["dst_spatial"] == (8, 10)
    assert told.variant.name.startswith("conv_transpose_f32_nxc_xoi_dense_")
    assert told.arrangements == {"weights": "library"}
    assert told.threads == 2
    assert (told.scratch_bytes > 0) == (told.variant.isa != "portable")
    assert len(told.steps) == len(told.values)
    root = PACKAGE.parents[1]
    for _, _, place in told.steps:
        file, line = place.split(":")
        assert len(Path(root, file).read_text().splitlines()) >= int(line)
    assert told.variant.name in str(told)
    assert all(place in str(told) for _, _, place in told.steps)


def test_explain_tells_why_and_what_was_rejected() -> None:
    told = ok.explain("conv_transpose", SRC, WEIGHTS[:, :, :1], groups=2, **LISTS)
    assert told.variant.group_class == "grouped"
    assert "weights is arranged as library" in told.why
    rejected = dict(told.rejected)
    assert {"dense", "depthwise"} <= set(rejected)
    assert rejected["dense"] == "G == 1 does not hold (G = 2)"
    others = {isa.name for isa in _isa.ISAS} - {told.variant.isa}
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


# The verdict of the validators


def test_the_verdict_on_mutated_calls_is_that_of_the_rulings() -> None:
    verdicts = {"accepted": 0, "refused": 0}
    for number in range(40_000 if FULL else 4000):
        one = mutated_call(rng("verdict", number))
        expected = rulings.verdict(one)
        try:
            answer: Any = ok.infer_shape(one.op, *one.inputs, **one.attributes)
        except (ok.SpecError, TypeError) as error:
            answer = error
        if isinstance(answer, tuple):
            assert isinstance(expected, Accepted), (number, describe(one), expected)
            assert answer == expected.shape, (number, describe(one))
            verdicts["accepted"] += 1
        elif isinstance(expected, Accepted):
            assert answer.rule in ("overflow", "index-overflow", "memory"), (number, describe(one), answer)
            assert largest(expected, one.attributes) > 2**60, (number, describe(one), answer)
        else:
            verdicts["refused"] += 1
    assert min(verdicts.values()) > 1000


def largest(found: Accepted, attributes: dict[str, Any]) -> int:
    """The largest number of a legal call."""
    lists = [value for value in attributes.values() if isinstance(value, (list, tuple, np.ndarray))]
    return max(int(entry) for entries in [found.shape, found.strides, found.dilations, *lists] for entry in entries)


def test_refusals_are_the_same_whether_asked_or_called() -> None:
    for number in range(400):
        one = mutated_call(rng("asked", number))
        if isinstance(answer := attempt(one), ok.SpecError) and answer.rule != "memory":
            with pytest.raises(ok.SpecError) as caught:
                ok.infer_shape(one.op, *one.inputs, **one.attributes)
            assert str(caught.value) == str(answer)


def test_results_of_mutated_calls_that_are_legal_are_right() -> None:
    checked = 0
    for number in range(600):
        one = mutated_call(rng("legal", number))
        found = rulings.verdict(one)
        if isinstance(found, Accepted) and found.elements < 10**6:
            answer = attempt(one)
            if not isinstance(answer, Exception):
                assert same(answer, rulings.compute(one)), describe(one)
                checked += 1
    assert checked > 150


# What is told.


def test_a_call_of_a_deprecated_operation_warns_the_caller_and_works(tmp_path: Path):
    text = (ROOT / "tests/data/matrix_product.yaml").read_text(encoding="utf-8")
    told = text.replace("revision: 1\n", 'revision: 1\ndeprecated: use numpy\'s "matmul"\n')
    _, kernels = package({"matrix_product.yaml": told}, tmp_path, "deprecated_kernels")
    with pytest.warns(DeprecationWarning, match='MatrixProduct is deprecated: use numpy\'s "matmul"') as caught:
        assert kernels.matrix_product(integers(2, 3), integers(3, 4)).shape == (2, 4)
    assert caught[0].filename == __file__
    assert "MatrixProduct is deprecated" in kernels.matrix_product.__doc__
