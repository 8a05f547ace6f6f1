"""PyTorch's fused attention within `enabled()`: random calls give what PyTorch gives, others go back, and the report says why."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from support.draws import FULL

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
functional = torch.nn.functional
ATTENTION = "_scaled_dot_product_flash_attention_for_cpu"
BACKWARD = f"{ATTENTION}_backward"
CALLS = 60 if FULL else 10
# How much further from f64 than PyTorch's: as a factor, and in parts of a tensor's norm.
FACTOR, NEAR = 1.3, {torch.float32: 1e-5, torch.bfloat16: 5e-3, torch.float16: 1e-3}
# In what order heads, places and cells of queries, keys and values lie in memory, for (batch, head, place, cell).
ORDERS = ((0, 1, 2, 3), (0, 2, 1, 3), (1, 0, 2, 3), (2, 0, 1, 3))


@pytest.fixture(scope="module", autouse=True)
def kernels(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    import opwright_kernels.torch

    yield opwright_kernels.torch


def laid(order: tuple[int, ...], shape: tuple[int, ...], dtype: Any) -> Any:
    """Random numbers whose axes lie in memory in some order."""
    made = torch.randn([shape[axis] for axis in order]).to(dtype)
    return made.permute(sorted(range(4), key=order.__getitem__))


def strides(one: Any) -> list[int]:
    return [stride for stride, extent in zip(one.stride(), one.shape, strict=True) if extent > 1]


def mask_of(rng: Any, shape: tuple[int, ...], dtype: Any) -> Any:
    """What some queries see of the keys, or numbers that are added, for some of the axes alone; None for all alike."""
    kind = rng.choice(["none", "seen", "added", "added in f32"])
    if kind == "none":
        return None
    own = [extent if rng.random() < 0.6 else 1 for extent in shape][int(rng.choice([0, 2])) :]
    if kind == "seen":
        return torch.rand(own) < 0.7  # now and then a query sees nothing
    return torch.randn(own).to(torch.float32 if kind == "added in f32" else dtype)


def exactly(named: dict[str, Any]) -> dict[str, Any]:
    mask = named.get("attn_mask")
    return named if mask is None or mask.dtype is torch.bool else {**named, "attn_mask": mask.double()}


def step(query: Any, key: Any, value: Any, seed: Any, **named: Any) -> list[Any]:
    """A result, and the gradients in its inputs."""
    given = [one.detach().requires_grad_() for one in (query, key, value)]
    made = functional.scaled_dot_product_attention(*given, **named)
    return [made.detach(), *torch.autograd.grad(made, given, seed.to(made.dtype))]


@pytest.mark.parametrize("dtype", NEAR, ids=str)
def test_random_calls_and_their_gradients_are_as_near_to_f64_as_those_of_pytorch(kernels: Any, dtype: Any) -> None:
    rng = np.random.default_rng(3)
    torch.manual_seed(3)
    for number in range(CALLS):
        batch, heads, depth = (int(n) for n in rng.choice([1, 2, 3, 8, 17], 3))
        queries, keys = (int(n) for n in rng.choice([1, 5, 16, 33, 64], 2))
        named: dict[str, Any] = {"is_causal": bool(rng.random() < 0.5)}
        if rng.random() < 0.5:
            named["scale"] = float(rng.choice([0.25, 0.7, 1.5]))
        orders = [ORDERS[int(rng.integers(len(ORDERS)))] for _ in range(4)]
        if named["is_causal"]:
            keys = queries
        else:
            named["attn_mask"] = mask_of(rng, (batch, heads, queries, keys), dtype)
        shapes = [(batch, heads, extent, depth) for extent in (queries, keys, keys, queries)]
        tensors = [laid(order, shape, dtype) for order, shape in zip(orders, shapes, strict=True)]
        call = f"{number}: {shapes} {orders} {named}"
        theirs = step(*tensors, **named)
        exact = step(*[one.double() for one in tensors], **exactly(named))
        with kernels.enabled():
            found = [step(*tensors, **named) for _ in range(3)]  # by Python, then as the glue remembers
        assert kernels.report().here == {ATTENTION: 3, BACKWARD: 3}, call
        assert not kernels.report().back, call
        for mine in found:
            for one, other, wanted in zip(mine, theirs, exact, strict=True):
                norm = wanted.norm().clamp_min(0.1 * wanted.numel() ** 0.5)  # a gradient may be 0
                far, near = float((one - wanted).norm() / norm), float((other - wanted).norm() / norm)
                assert far <= FACTOR * near + NEAR[dtype], (call, far, near)
                assert strides(one) == strides(other), call
                assert one.dtype is other.dtype


def test_a_model_may_mix_both_sides_as_the_logarithms_of_sums_are_the_same(kernels: Any) -> None:
    query, key, value, seed = torch.randn(4, 2, 3, 20, 8).unbind()
    mask = torch.where(torch.rand(20, 20) < 0.5, -torch.inf, 0)
    mask[4] = -torch.inf  # of this query's sum, which is 0, the logarithm is 0 by definition
    operators = [getattr(torch.ops.aten, name) for name in (ATTENTION, BACKWARD)]
    theirs = operators[0](query, key, value, attn_mask=mask)
    with kernels.enabled():
        found = operators[0](query, key, value, attn_mask=mask)
        mixed = operators[1](seed, query, key, value, *theirs, 0.0, False, attn_mask=mask)
    wanted = operators[1](seed, query, key, value, *found, 0.0, False, attn_mask=mask)
    assert not found[1][..., 4].any()
    torch.testing.assert_close((*found, *mixed), (*theirs, *wanted), rtol=1e-4, atol=1e-4)


def test_a_gradient_that_would_take_much_memory_between_its_steps_is_that_of_pytorch(kernels: Any) -> None:
    query, key, value, seed = torch.randn(4, 1, 2, 700, 16).unbind()
    wanted = step(query, key, value, seed)
    with kernels.enabled():
        found = step(query, key, value, seed)
    assert kernels.report().here == {ATTENTION: 1}
    assert kernels.report().back == {(BACKWARD, "memory"): 1}
    torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("change", "here"),
    [
        ({"enable_gqa": True}, {}),
        ({"dropout_p": 0.5}, {"bmm": 2, "_safe_softmax": 1}),
    ],
    ids=["grouped", "dropped"],
)
def test_attention_that_no_entry_fits_is_that_of_pytorch_or_of_steps(kernels: Any, change: Any, here: Any) -> None:
    query, key, value = torch.randn(3, 2, 4, 5, 8).unbind()
    if "enable_gqa" in change:
        key, value = key[:, ::2], value[:, ::2]
    torch.manual_seed(0)
    wanted = functional.scaled_dot_product_attention(query, key, value, **change)
    with kernels.enabled(watch=True):
        torch.manual_seed(0)
        found = functional.scaled_dot_product_attention(query, key, value, **change)
    torch.testing.assert_close(found, wanted)
    report = kernels.report()
    assert {name: n for name, n in report.here.items() if name != "copy_"} == here
    assert {name for name, _ in report.back} == ({ATTENTION} if not here else set())
