"""What the public functions take, return, remember and tell."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import opwright_kernels as ok
import pytest
from opwright_kernels import _operation
from support import rulings
from support.calls import Call, describe, random_call
from support.draws import FULL, rng
from support.generated import attempt, run, same
from support.mutated_calls import mutated_call
from support.one_call import BIAS, EXPECTED, LISTS, SHAPE, SRC, WEIGHTS, call, integers, interface
from support.package import ROOT, package
from support.rulings import OPERATIONS, Accepted

BF16, F16, F32 = np.dtype(ml_dtypes.bfloat16), np.dtype(np.float16), np.dtype(np.float32)


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


def test_arrays_of_the_same_bytes_are_distinguished() -> None:
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
    resolutions = _operation.Operation.prepared
    monkeypatch.setattr(
        _operation.Operation, "prepared", lambda self, *rest: (longer.append(self.name), resolutions(self, *rest))[1]
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


# Messages.


def test_a_call_of_a_deprecated_operation_warns_the_caller_and_works(tmp_path: Path):
    text = (ROOT / "tests/data/matrix_product.yaml").read_text(encoding="utf-8")
    deprecated = text.replace("revision: 1\n", 'revision: 1\ndeprecated: use numpy\'s "matmul"\n')
    _, kernels = package({"matrix_product.yaml": deprecated}, tmp_path, "deprecated_kernels")
    with pytest.warns(DeprecationWarning, match='MatrixProduct is deprecated: use numpy\'s "matmul"') as caught:
        assert kernels.matrix_product(integers(2, 3), integers(3, 4)).shape == (2, 4)
    assert caught[0].filename == __file__
    assert "MatrixProduct is deprecated" in kernels.matrix_product.__doc__
