"""Calls of operators of PyTorch with arguments that they do not expect, made in a process of its own.

In: a seed, and how many calls of each operation. Out, on stdout: a line of JSON for each call, first its name, then what
came of it: a refusal's rule, another error, or the results. A process that crashes leaves a name without an outcome. Every
call is made three times, so that compiled glue sees it, and after each the legal call that it was made of is made
again: it has to give what it gave. Nothing here knows an operation.
"""

from __future__ import annotations

import json
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import opwright_kernels as ok
import opwright_kernels.torch as kernels
import torch
from opwright.load import load_with_gradients
from torch.utils._python_dispatch import TorchDispatchMode

from . import torch_calls
from .draws import rng as seeded
from .specs import FOLDER

Change = Callable[[Any, np.random.Generator], Any]
MANY, TOO_MANY = 2**40, 2**61  # extents of which no memory holds the cells, and no array their number
DTYPES = [one for one in vars(torch).values() if isinstance(one, torch.dtype)]


class Plain(torch.Tensor):
    """A subclass that changes nothing."""


class Counting(torch.Tensor):
    """A subclass that sees every function."""

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return super().__torch_function__(func, types, args, kwargs or {})


class Wrapped(torch.Tensor):
    """A subclass without memory of its own, around a tensor."""

    @staticmethod
    def __new__(cls, inner: Any) -> Any:
        made = torch.Tensor._make_wrapper_subclass(cls, inner.shape, strides=inner.stride(), dtype=inner.dtype)
        made.held = inner
        return made

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        inner = [
            [part.held if isinstance(part, cls) else part for part in one]
            if isinstance(one, (list, tuple))
            else getattr(one, "held", one)
            for one in args
        ]
        return func(*inner, **(kwargs or {}))


def misaligned(given: Any, _: Any) -> Any:
    """The same cells, one byte off."""
    room = bytearray(given.numel() * given.element_size() + 1)
    made = torch.frombuffer(room, dtype=torch.uint8, offset=1)
    made.copy_(given.contiguous().flatten().view(torch.uint8))
    return made.view(given.dtype).view(given.shape) if given.element_size() == 1 else unaligned(given)


def unaligned(given: Any) -> Any:
    raw = np.zeros(given.numel() * given.element_size() + 1, np.uint8)
    raw[1:] = given.contiguous().flatten().view(torch.uint8).numpy()
    return torch.frombuffer(raw, dtype=given.dtype, offset=1, count=given.numel()).view(given.shape)


def freed(given: Any, _: Any) -> Any:
    made = given.clone()
    made.untyped_storage().resize_(0)
    return made


def shortened(given: Any, _: Any) -> Any:
    """Memory that ends before the last cell."""
    made = given.clone()
    made.untyped_storage().resize_(made.untyped_storage().nbytes() - 1)
    return made


def inference(given: Any, _: Any) -> Any:
    with torch.inference_mode():
        return given.clone()


def negated(given: Any, _: Any) -> Any:
    return torch.complex(given.float(), -given.float()).conj().imag


def last(given: Any, _: Any) -> Any:
    order = {4: torch.channels_last, 5: torch.channels_last_3d}.get(given.dim())
    return given.contiguous(memory_format=order) if order else given.t().contiguous().t()


def gapped(given: Any, rng: Any) -> Any:
    axis = int(rng.integers(given.dim()))
    return given.repeat_interleave(2, axis).narrow(axis, 0, 2 * given.shape[axis])[
        tuple(slice(None, None, 2 if n == axis else 1) for n in range(given.dim()))
    ]


def overlapping(given: Any, _: Any) -> Any:
    flat = given.contiguous().flatten()
    strides = [1] * given.dim()
    return flat.as_strided(given.shape, strides)


def large(extent: int) -> Change:
    def changed(given: Any, rng: Any) -> Any:
        axis = int(rng.integers(given.dim()))
        return given.narrow(axis, 0, 1).expand(*(extent if n == axis else e for n, e in enumerate(given.shape)))

    return changed


def other_extent(given: Any, rng: Any) -> Any:
    axis = int(rng.integers(given.dim()))
    shape = list(given.shape)
    shape[axis] = int(rng.choice([0, 1, shape[axis] + 1, 2 * shape[axis]]))
    return given.new_ones(shape)


def turned(given: Any, rng: Any) -> Any:
    return given.permute(*map(int, rng.permutation(given.dim())))


def fake(given: Any, _: Any) -> Any:
    with torch._subclasses.FakeTensorMode() as mode:
        return mode.from_tensor(given)


# What may be done to a tensor. Whatever PyTorch itself refuses to make is left out.
TENSORS: dict[str, Change] = {
    "meta": lambda one, _: one.to("meta"),
    "dtype": lambda one, rng: one.to(DTYPES[int(rng.integers(len(DTYPES)))]),
    "complex": lambda one, _: one.to(torch.complex64).conj(),
    "sparse": lambda one, _: one.to_sparse(),
    "sparse_csr": lambda one, _: one.to_sparse_csr(),
    "quantised": lambda one, _: torch.quantize_per_tensor(one.float(), 0.1, 0, torch.quint8),
    "mkldnn": lambda one, _: one.to_mkldnn(),
    "nested": lambda one, _: torch.nested.nested_tensor([one, one]),
    "jagged": lambda one, _: torch.nested.nested_tensor([one, one], layout=torch.jagged),
    "rank more": lambda one, _: one.unsqueeze(0),
    "rank less": lambda one, _: one[0],
    "scalar": lambda one, _: one.flatten()[0],
    "64 axes": lambda one, _: one.new_ones((1,) * 64),
    "65 axes": lambda one, _: one.new_ones((1,) * 65),
    "channels last": last,
    "turned": turned,
    "gapped": gapped,
    "overlapping": overlapping,
    "expanded": lambda one, _: one.flatten()[0].expand(one.shape),
    "large": large(MANY),
    "huge": large(TOO_MANY),
    "extent": other_extent,
    "misaligned": misaligned,
    "freed": freed,
    "shortened": shortened,
    "inference": inference,
    "negative": negated,
    "requires grad": lambda one, _: one.clone().requires_grad_(),
    "parameter": lambda one, _: torch.nn.Parameter(one.clone()),
    "recorded": lambda one, _: one.clone().requires_grad_() * 1,
    "subclass": lambda one, _: one.as_subclass(Plain),
    "counting": lambda one, _: one.as_subclass(Counting),
    "wrapped": lambda one, _: Wrapped(one),
    "fake": fake,
    "nothing": lambda one, _: None,
    "array": lambda one, _: one.numpy(),
    "list": lambda one, _: one.tolist(),
    "of one": lambda one, _: [one],
    "number": lambda one, _: 3,
    "text": lambda one, _: "src",
    "undefined": lambda one, _: torch.empty(0),
}
VALUES = (None, True, 0, -1, 2**31, 2**63 - 1, -(2**63), 2**70, 0.5, float("nan"), float("inf"), "", "x" * 300, "日本", [],
          [1], [-1], [2**62] * 3, [1] * 70, ["a"], [None], [0.5], (1, 1), {}, b"x", torch.ones(2), torch.tensor(1),
          np.int64(1), np.ones(2), object)  # fmt: skip


class Watching(TorchDispatchMode):  # type: ignore[no-untyped-call, misc, unused-ignore]
    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*args, **(kwargs or {}))


def in_thread(call: Callable[[], Any]) -> Any:
    made: list[Any] = []

    def run() -> None:
        try:
            made.append(call())
        except BaseException as error:
            made.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    if isinstance(made[0], BaseException):
        raise made[0]
    return made[0]


def within(block: Any) -> Callable[[Callable[[], Any]], Any]:
    def run(call: Callable[[], Any]) -> Any:
        with block():
            return call()

    return run


def deterministic(call: Callable[[], Any]) -> Any:
    torch.use_deterministic_algorithms(True)
    try:
        return call()
    finally:
        torch.use_deterministic_algorithms(False)


# Where a legal call may be made: the results have to be the same.
PLACES: dict[str, Callable[[Callable[[], Any]], Any]] = {
    "inference mode": within(torch.inference_mode),
    "no grad": within(torch.no_grad),
    "deterministic": deterministic,
    "mode": within(Watching),
    "thread": in_thread,
    "another default dtype": within(lambda: default(torch.set_default_dtype, torch.float64, torch.float32)),
    "another default device": within(lambda: torch.device("meta")),
    "enabled": within(kernels.enabled),
    "anomaly": within(lambda: torch.autograd.set_detect_anomaly(True)),
}


class default:  # noqa: N801  # a block
    def __init__(self, setter: Any, there: Any, back: Any) -> None:
        self.setter, self.there, self.back = setter, there, back

    def __enter__(self) -> None:
        self.setter(self.there)

    def __exit__(self, *_: Any) -> None:
        self.setter(self.back)


def transformed(call: Callable[[list[Any]], Any], tensors: list[Any], at: int) -> dict[str, Callable[[], Any]]:
    """Transforms of `torch.func` of a call in one tensor."""

    def of(one: Any) -> Any:
        return call([*tensors[:at], one, *tensors[at + 1 :]])

    one = tensors[at]
    return {
        "vmap": lambda: torch.func.vmap(of)(one[None]),
        "grad": lambda: torch.func.grad(lambda x: first(of(x)).double().sum())(one),
        "jvp": lambda: torch.func.jvp(of, (one,), (one,)),
        "functionalize": lambda: torch.func.functionalize(of)(one),
        "forward mode": lambda: dual(of, one),
    }


def first(found: Any) -> Any:
    return found[0] if isinstance(found, tuple) else found


def dual(of: Callable[[Any], Any], one: Any) -> Any:
    with torch.autograd.forward_ad.dual_level():
        return of(torch.autograd.forward_ad.make_dual(one, torch.ones_like(one)))


def outcome(call: Callable[[], Any]) -> Any:
    """What came of a call, as JSON has it."""
    try:
        found = call()
    except ok.SpecError as error:
        return ["refused", error.rule, error.argument]
    except MemoryError:
        return ["memory"]
    except Exception as error:
        return ["error", type(error).__name__, str(error).splitlines()[0][:160] if str(error) else ""]
    return ["results", *map(digest, found if isinstance(found, tuple) else (found,))]


def digest(one: Any) -> Any:
    if not isinstance(one, torch.Tensor):
        return type(one).__name__
    one = getattr(one, "held", one)
    facts = [str(one.dtype), list(map(str, one.shape)), one.device.type, one.requires_grad]
    if one.device.type == "cpu" and type(one).__name__ != "FakeTensor":
        facts.append(hash(torch_calls.bits(one.as_subclass(torch.Tensor))))
    return facts


def too_large(call: Callable[[list[Any]], Any], inputs: list[Any]) -> bool:
    """Whether a call is refused, or writes more cells than there is memory for: others only take long."""
    try:
        found = call([one.to("meta") if torch.is_tensor(one) else one for one in inputs])
    except Exception:
        return True
    return any(one.numel() >= MANY for one in (found if isinstance(found, tuple) else (found,)))


def calls(operator: Any, tensors: list[Any], attributes: dict[str, Any], rng: Any) -> Iterator[tuple[str, Any]]:
    """Every change of a legal call, with its name."""

    def call(inputs: list[Any], **values: Any) -> Any:
        return operator(*inputs, **{**attributes, **values})

    spots = [n for n, one in enumerate(tensors) if isinstance(one, torch.Tensor) or (one and torch.is_tensor(one[0]))]
    for at in spots:
        for name, change in TENSORS.items():
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    value = tensors[at]
                    made = [change(value[0], rng), *value[1:]] if isinstance(value, list) else change(value, rng)
            except Exception:
                continue
            inputs = [*tensors[:at], made, *tensors[at + 1 :]]
            if name == "large" and not too_large(call, inputs):
                continue
            yield f"{at} {name}", lambda inputs=inputs: call(inputs)
        if isinstance(tensors[at], torch.Tensor):
            for name, run in transformed(lambda inputs: call(inputs), tensors, at).items():
                yield f"{at} {name}", run
    for name in attributes:
        for value in VALUES:
            yield f"{name}={str(value)[:20]!r}", lambda name=name, value=value: call(tensors, **{name: value})
    yield "too few", lambda: operator(*tensors[:-1])
    yield "too many", lambda: operator(*tensors, tensors[0], **attributes)
    yield "no such", lambda: call(tensors, no_such=1)
    for name, place in PLACES.items():
        yield f"legal: {name}", lambda place=place: place(lambda: call(tensors))


def said(*words: Any) -> None:
    print(json.dumps(words), flush=True)


def main(seed: str, count: int, only: list[str]) -> None:
    warnings.simplefilter("ignore")
    library = load_with_gradients(FOLDER, FOLDER.parents[1])
    for op in library.every:
        if only and op.function not in only:
            continue
        operator, rng = getattr(torch.ops.opwright, op.function).default, seeded(seed, op.op)
        drawn = 0
        for inputs, attributes in torch_calls.legal(op, rng, 30 * count):
            tensors = torch_calls.given(op, inputs)
            if not all(one.numel() for one in tensors if torch.is_tensor(one)):
                continue
            before = partial(operator, *tensors, **attributes)
            legal = [outcome(before) for _ in range(3)]
            said(op.function, "legal", legal, legal[0])
            for name, call in calls(operator, tensors, attributes, rng):
                said(op.function, name)
                found = [outcome(call) for _ in range(3)]
                said(op.function, name, found, outcome(before))
            drawn += 1
            if drawn == count:
                break


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3:])
