"""Every operation as an operator of PyTorch: its results, its schema, its shapes without data, its registrations."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import opwright_kernels as ok
import pytest
from opwright.language.model import Op
from opwright.load import load_with_gradients
from support.draws import FULL, rng
from support.specs import FOLDER
from support.step_verdicts import outputs

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
from opwright_kernels.torch._glue import GLUE  # noqa: E402
from support.torch_calls import bits, given, legal, moved, numbers  # noqa: E402

LIBRARY = load_with_gradients(FOLDER, FOLDER.parents[1])
OPS = LIBRARY.ops
CALLS = 20 if FULL else 3
CHECKS = ("test_schema", "test_autograd_registration", "test_faketensor", "test_aot_dispatch_dynamic")


@pytest.fixture(scope="module")
def operators(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    import opwright_kernels.torch

    ok._scratch.POISON = 0xFF
    yield getattr(torch.ops, opwright_kernels.torch.NAMESPACE)
    ok._scratch.POISON = None
    ok._operation.forget()


def assert_again_the_same(operator: Any, tensors: list[Any], attributes: dict[str, Any], first: list[Any]) -> None:
    """Calls like one before, from other memory, give the same bits in the same order of memory."""
    for _ in range(2):  # compiled glue knows the second of them
        again = outputs(operator(*map(moved, tensors), **attributes))
        for one, other in zip(first, again, strict=True):
            assert (one.dtype, one.shape, one.stride()) == (other.dtype, other.shape, other.stride())
            assert bits(one) == bits(other)


@pytest.mark.parametrize("op", OPS, ids=lambda op: op.function)
def test_an_operator_gives_what_the_function_gives_and_passes_the_checks_of_pytorch(op: Op, operators: Any) -> None:
    operator = getattr(operators, op.function).default
    made, checked = 0, 0
    for inputs, attributes in legal(op, rng("torch", op.op), 20 * CALLS):
        tensors = given(op, inputs)
        expected = outputs(getattr(ok, op.function)(*inputs, **attributes))
        first = outputs(operator(*tensors, **attributes))
        assert_again_the_same(operator, tensors, attributes, first)
        if all(torch.is_tensor(one) and one.numel() for one in tensors if one is not None) and GLUE.lib:
            assert GLUE.hits("opwright", op.function), "compiled glue remembers no such call"
        found = numbers(first[0] if len(first) == 1 else tuple(first))
        for one in found:
            if expected and one.shape == expected[0].shape:
                array = expected.pop(0)
                near = 1e-2 if array.dtype.itemsize < 4 else 1e-5
                np.testing.assert_allclose(one, array.astype(np.float64), rtol=near, atol=near)
            else:
                assert one.shape == (0,)  # an output that the call does not have
        assert not expected
        if (not checked or FULL) and all(np.isfinite(one).all() for one in found):  # no NaN equals another to PyTorch
            torch.library.opcheck(operator, tuple(tensors), attributes, test_utils=CHECKS)
            checked += 1
        made += 1
        if made >= CALLS and checked:
            return
    pytest.fail(f"{made} calls, of which {checked} were checked")


@pytest.mark.parametrize("op", LIBRARY.gradients, ids=lambda op: op.function)
def test_the_operator_of_a_derived_gradient_passes_the_checks_of_pytorch(op: Op, operators: Any) -> None:
    operator = getattr(operators, op.function).default
    inputs, attributes = next(iter(legal(op, rng("torch", op.op), 20)))
    torch.library.opcheck(operator, tuple(given(op, inputs)), attributes, test_utils=("test_schema", "test_faketensor"))


def test_a_square_operand_of_another_kind_does_not_decide_the_order_of_a_result(operators: Any) -> None:
    src, weights = torch.randn(4, 4), torch.randn(4, 4).t()
    for _ in range(3):  # compiled glue knows the later ones
        assert operators.mat_mul(src, weights).stride() == (4, 1)
        assert operators.add(weights, src).stride() == (1, 4)
    compiled = torch.compile(lambda a, b: operators.mat_mul(a, b), fullgraph=True, backend="aot_eager")
    assert compiled(src, weights).stride() == (4, 1)
