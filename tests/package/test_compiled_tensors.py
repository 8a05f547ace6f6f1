"""Calls of steps with tensors and views, without Python: the same results, refusals and memory as through Python."""

from __future__ import annotations

import os
import random
import sys
import threading
import weakref
from collections.abc import Iterator
from typing import Any

import numpy as np
import opwright_kernels as ok
import pytest
from opwright_kernels import _compiled_calls, _operation
from support.compiled_calls import BF16, F32, Call, drawn, frames, known, outcome, through_python

torch: Any = pytest.importorskip("torch", reason="PyTorch is not installed")
hostile: Any = pytest.importorskip("support.torch_hostile")

CHANGES = sorted({*hostile.TENSORS} - {"large"})  # whose sums would take a year


@pytest.fixture(autouse=True)
def compiled() -> Iterator[None]:
    """Calls answered a second time are told of, and tensors are read where they are."""
    if _compiled_calls._new is None:
        _compiled_calls.start()
    if _compiled_calls._new is None:
        pytest.skip(_compiled_calls.state)
    yield
    _operation.forget()


def tensor(array: Any) -> Any:
    """The same cells as a tensor of their own memory."""
    if array.dtype.name == "bfloat16":
        return torch.from_numpy(array.view(np.int16).copy()).view(torch.bfloat16)
    return torch.from_numpy(array.copy())


def turned(draw: random.Random, array: Any) -> Any:
    """The same cells in the order, and with the gaps and signs of strides, of some view."""
    order = draw.sample(range(array.ndim), array.ndim)
    view = np.array(array.transpose(order), order="C").transpose(np.argsort(order))
    for axis in range(array.ndim):
        choice = draw.randrange(4)
        cut = tuple(slice(None, None, 2 if n == axis else 1) for n in range(array.ndim))
        back = tuple(slice(None, None, -1 if n == axis else 1) for n in range(array.ndim))
        view = np.repeat(view, 2, axis)[cut] if choice == 1 else view[back].copy()[back] if choice == 2 else view
    return view


@pytest.mark.filterwarnings("ignore")  # of PyTorch: sparse layouts, quantised types
@pytest.mark.parametrize("case", range(30))
def test_tensors_give_what_they_give_through_python(case: int) -> None:
    """Whatever a tensor may be, and wherever it stands: an input, `out`, or both."""
    seed = f"tensors {case} {os.environ.get('OPWRIGHT_SEED', '')}"
    draw = random.Random(seed)
    name, arrays, options = call = drawn(draw)
    made = known(call)
    results = made if isinstance(made, tuple) else (made,)
    known((name, tuple(None if one is None else tensor(one) for one in arrays), options))
    for turn in range(25):
        at, change = draw.randrange(len(arrays)), draw.choice(CHANGES)
        form, mixed = draw.choice(("legal", "input", "out", "in place", "beside")), draw.random() < 0.3

        def make(at: int = at, change: str = change, form: str = form, mixed: bool = mixed, turn: int = turn) -> Any:
            numbers = np.random.default_rng(turn)
            inputs = [one if one is None or (mixed and n != at) else tensor(one) for n, one in enumerate(arrays)]
            outs = [tensor(np.full_like(one, 5)) for one in results]
            if form == "input" and inputs[at] is not None:
                inputs[at] = hostile.TENSORS[change](inputs[at], numbers)
            if form == "out":
                outs[0] = hostile.TENSORS[change](outs[0], numbers)
            if form == "in place":
                outs[0] = inputs[at]
            if form == "beside" and inputs[at] is not None and inputs[at].ndim:
                inputs[at] = torch.cat([inputs[at], inputs[at]])[: len(inputs[at])]
                outs[0] = inputs[at].view(inputs[at].shape)
            out = outs if len(outs) > 1 else outs[0]
            return tuple(inputs), {**options} if form in ("legal", "input") else {**options, "out": out}

        try:
            make()
        except Exception:  # of whatever kind: PyTorch makes no such tensor
            continue
        wanted = outcome(through_python(name), *make())
        for _ in range(2):
            found = outcome(getattr(ok, name), *make())  # apart: PyTorch crashes where it prints cut tensors
            assert found == wanted, (name, change, form, at)


@pytest.mark.parametrize("case", range(40))
def test_views_give_what_they_give_through_python(case: int) -> None:
    draw = random.Random(f"views {case} {os.environ.get('OPWRIGHT_SEED', '')}")
    name, arrays, options = call = drawn(draw)
    made = known(call)
    results = made if isinstance(made, tuple) else (made,)
    for _ in range(8):
        seed, has_out, as_tensors = draw.random(), draw.random() < 0.5, draw.random() < 0.3

        def make(seed: float = seed, has_out: bool = has_out, as_tensors: bool = as_tensors) -> Any:
            again = random.Random(seed)
            inputs = [one if one is None else turned(again, one) for one in arrays]
            outs: list[Any] = [turned(again, np.full_like(one, 5)) for one in results]
            if as_tensors:
                inputs = [one if one is None or min(one.strides, default=0) < 0 else strided(one) for one in inputs]
            out = tuple(outs) if len(outs) > 1 else outs[0]
            return tuple(inputs), {**options, "out": out} if has_out else options

        wanted = outcome(through_python(name), *make())
        for _ in range(3):
            found = outcome(getattr(ok, name), *make())
            assert found == wanted, (name, options)


def strided(view: Any) -> Any:
    """A tensor of the same strides as a view."""
    base = view
    while isinstance(base.base, np.ndarray):
        base = base.base
    whole = tensor(base)
    begin = (view.__array_interface__["data"][0] - base.__array_interface__["data"][0]) // view.itemsize
    return whole.as_strided(view.shape, [step // view.itemsize for step in view.strides], begin)


@pytest.mark.parametrize("case", range(20))
def test_plain_tensors_and_views_meet_no_python(case: int) -> None:
    draw = random.Random(f"frames of tensors {case} {os.environ.get('OPWRIGHT_SEED', '')}")
    name, arrays, options = drawn(draw)
    function, scratch = getattr(ok, name), {"address", "memory"}  # which finds memory for the kernel
    tensors = tuple(None if one is None else tensor(one) for one in arrays)
    views = tuple(None if one is None else np.repeat(one, 2, axis=-1)[..., ::2] for one in arrays)
    for inputs in (tensors, views):
        if inputs is views and name.startswith("conv"):
            continue  # which Python copies for the engine
        made = known((name, inputs, options))
        results = made if isinstance(made, tuple) else (made,)
        assert frames(lambda inputs=inputs: function(*inputs, **options)) - scratch == {name}
        if not getattr(sys.modules[f"opwright_kernels._{name}"].OPERATION, "dtype_attributes", None):
            outs = tuple(tensor(one) if inputs is tensors else np.copy(one, order="K") for one in results)
            out = outs if len(outs) > 1 else outs[0]
            known((name, inputs, {**options, "out": out}))
            assert frames(lambda inputs=inputs, out=out: function(*inputs, **options, out=out)) - scratch == {name}


def test_a_view_that_another_call_had_as_out_decides_nothing_of_results() -> None:
    rows = np.arange(12, dtype=F32).reshape(3, 4)
    column = np.zeros((4, 3), F32).T
    call: Call = ("relu", (rows,), {"out": column})
    known(call)
    known(call)
    for _ in range(3):
        assert ok.relu(rows).strides == (16, 4)
        assert ok.relu(rows, out=column) is column
    turned_rows = np.array(rows.T, order="C").T
    known(("relu", (turned_rows,), {"out": np.zeros((3, 4), F32)}))
    for _ in range(3):
        assert ok.relu(turned_rows).strides == (4, 12)


def test_tensors_live_no_longer_than_their_calls() -> None:
    row = torch.ones(77)
    known(("relu", (row,), {}))
    base = sys.getrefcount(row), sys.getrefcount(False)
    for _ in range(100):
        out = torch.empty(77)
        assert ok.relu(row, out=out) is out
        assert sys.getrefcount(out) == 2
        gone = weakref.ref(out)
        del out
        assert gone() is None
    assert sys.getrefcount(row) == base[0]
    assert abs(sys.getrefcount(False) - base[1]) < 20


def test_a_tensor_that_needs_gradients_or_was_cut_is_refused_after_others_were_taken() -> None:
    row = torch.ones(5)
    known(("relu", (row,), {}))
    for bad in (torch.ones(5, requires_grad=True), torch.full((5,), 1 + 2j).conj().imag, hostile.shortened(row, None)):
        for _ in range(2):
            with pytest.raises(ok.SpecError):
                ok.relu(bad)
            with pytest.raises(ok.SpecError):
                ok.relu(row, out=bad)
        assert ok.relu(row).tolist() == [1] * 5


@pytest.mark.parametrize("case", range(20))
def test_lists_of_arrays_give_what_they_give_through_python(case: int) -> None:
    draw = random.Random(f"lists {case} {os.environ.get('OPWRIGHT_SEED', '')}")
    axis, dtype = draw.randrange(3), draw.choice((F32, BF16, np.int8))
    shapes = [[*shape] for shape in [(3, 4, 5)] * draw.randint(1, 4)]
    for shape in shapes:
        shape[axis] = draw.choice((0, 1, 3, 7, 16))
    wanted_shape = [sum(shape[axis] for shape in shapes) if n == axis else e for n, e in enumerate(shapes[0])]
    for turn in range(12):
        form, kind = draw.choice(("plain", "views", "tensors", "mixed", "few", "twice")), draw.choice((list, tuple))
        to = draw.choice(("none", "plain", "view", "tensor", "first", "short", "part"))

        def make(turn: int = turn, form: str = form, kind: Any = kind, to: str = to) -> Any:
            numbers, again = np.random.default_rng(turn), random.Random(turn)
            parts: list[Any] = [numbers.integers(-9, 9, shape).astype(dtype) for shape in shapes]
            whole: Any = np.full(wanted_shape, 5, dtype)
            if to == "part":  # of the memory of the result
                parts[0] = whole[: shapes[0][0], : shapes[0][1], : shapes[0][2]]
            if form == "views":
                parts = [turned(again, part) for part in parts]
            elif form in ("tensors", "mixed"):
                parts = [part if form == "mixed" and n % 2 else tensor(part) for n, part in enumerate(parts)]
            elif form == "few":
                parts = parts[1:]
            elif form == "twice":
                parts = [parts[0]] * len(parts)
            given = {"view": turned(again, whole), "tensor": tensor(whole), "short": whole[:-1], "first": parts[:1]}
            out = {} if to == "none" else {"out": given.get(to, whole)}
            return (kind(parts),), {"axis": axis, **out}

        wanted = outcome(through_python("concat"), *make())
        for _ in range(2):
            found = outcome(ok.concat, *make())
            assert found == wanted, (form, to)


def test_lists_of_arrays_meet_no_python() -> None:
    parts, axis = [np.ones((3, 4), F32), np.zeros((3, 5), F32), np.ones((3, 2), F32)], {"axis": 1}
    for given in (parts, tuple(parts), [tensor(one) for one in parts], [np.asfortranarray(one) for one in parts]):
        out = known(("concat", (given,), axis))
        known(("concat", (given,), {**axis, "out": out}))
        assert frames(lambda given=given: ok.concat(given, **axis)) <= {"concat"}
        assert frames(lambda given=given, out=out: ok.concat(given, **axis, out=out)) <= {"concat"}


def test_a_list_that_loses_its_arrays_while_a_kernel_runs_keeps_them() -> None:
    call: Call = ("concat", ([np.ones((512, 512), F32), np.full((512, 512), 2, F32)],), {"axis": 0})
    known(call)
    wrong: list[int] = []
    for _ in range(50):
        parts = [np.ones((512, 512), F32), np.full((512, 512), 2, F32)]
        thief = threading.Thread(target=parts.clear)
        thief.start()
        try:
            found = ok.concat(parts, axis=0)
            wrong.append(int((found[:512] != 1).sum() + (found[512:] != 2).sum()))
        except ok.SpecError:  # the list was empty before it was read
            pass
        thief.join()
    assert not any(wrong)
