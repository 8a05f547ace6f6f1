"""The generated kernels give what the rulings, the interpreter, PyTorch and oneDNN give.

Every comparison is `==`: data are small integers, whose sums are exact in f32, or values whose one rounding is known.
No test here can be skipped but those of the peers, so a run in which no kernel executed fails.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import ml_dtypes
import numpy as np
import opwright_kernels as ok
import pytest
from hypothesis import HealthCheck, given, settings
from opwright.load import load
from opwright.oracle import interpret
from opwright_kernels import _compiled, _isa, _load, _operation, _specialize
from support import onednn_peer, rulings, torch_peer
from support.call import Call
from support.calls import Drawn, calls, describe, random_call
from support.draws import FULL, rng
from support.generated import attempt, check, run, same, variant
from support.huge_calls import huge_call
from support.onednn_peer import Oracle
from support.package import ROOT, SPEC
from support.rulings import DTYPES, OPERATIONS

BEST = {next(isa.name for isa in _isa.usable(_isa.ISAS) if dtype in isa.dtypes) for dtype in DTYPES}
BF16, F16, F32 = np.dtype(ml_dtypes.bfloat16), np.dtype(np.float16), np.dtype(np.float32)
LIBRARY = load(SPEC, ROOT)
PLAIN = {"strides": [1], "pads_begin": [0], "pads_end": [0], "dilations": [1]}
PLAIN_2D = {name: value * 2 for name, value in PLAIN.items()}

pytestmark = pytest.mark.usefixtures("isa", "specialize")
every_op = pytest.mark.parametrize("op", OPERATIONS)
every_dtype = pytest.mark.parametrize("dtype", DTYPES)
quickly = settings(deadline=None, suppress_health_check=list(HealthCheck))


@pytest.fixture(scope="module", autouse=True)
def _compiled_as_by_users(isa: str) -> Iterator[None]:
    """The best instruction sets have the kernels that users get; those of others, as in other tests, hardly are optimised."""
    with pytest.MonkeyPatch.context() as patch:
        if isa in BEST:
            for name in ("CC", "OPWRIGHT_FFI"):
                patch.delenv(name, raising=False)
            for holder in ((_load, "_loaded"), (_compiled, "_libraries"), (_specialize, "_libraries")):
                patch.setattr(*holder, {})
            _operation.forget()
        yield
    _operation.forget()


# Against the witnesses


@settings(quickly, max_examples=10_000 if FULL else 200)
@given(calls())
def test_random_calls_give_what_the_rulings_give(drawn: Drawn) -> None:
    check(drawn.call)


@pytest.mark.whole
@every_dtype
@every_op
def test_random_calls_reach_every_kernel(op: str, dtype: str, isa: str) -> None:
    random = rng(op, dtype)
    serving = variant(random_call(random, op, dtype)).isa
    every = {v.name for v in ok.variants(op) if (v.dtype, v.isa) == (dtype, serving)}
    assert serving == isa or not any((v.dtype, v.isa) == (dtype, isa) for v in ok.variants(op))
    reached: set[str] = set()
    for _ in range(3000):
        call = random_call(random, op, dtype)
        if (name := variant(call).name) not in reached:
            check(call)
            reached.add(name)
        if reached >= every:
            break
    assert reached >= every != set()  # where registers are matrices, groups of one channel have those of another one


@pytest.mark.sweep
@every_dtype
@every_op
def test_a_sweep_of_random_calls_gives_what_the_rulings_give(op: str, dtype: str) -> None:
    random = rng("sweep", op, dtype)
    for number in range(20_000 if FULL else 100):
        check(random_call(random, op, dtype), threads=[None, 1, 2, 3][number % 4])


@every_op
def test_calls_of_huge_numbers_give_what_the_rulings_give(op: str) -> None:
    random, accepted = rng("huge", op), 0
    for _ in range(300):
        call = huge_call(random, op)
        answer = attempt(call)
        if isinstance(answer, ok.SpecError):
            assert answer.rule.endswith(("overflow", "-int64"))
            continue
        assert same(answer, rulings.compute(call)), describe(call)
        accepted += 1
    assert accepted > 100


@every_op
def test_random_calls_give_what_the_interpreter_gives(op: str) -> None:
    spec, random = LIBRARY.op(op), rng(op)
    for _ in range(400 if FULL else 40):
        call = random_call(random, op)
        assert same(run(call), interpret.compute(spec, call.inputs, call.attributes)), describe(call)


@pytest.mark.skipif(not torch_peer.available(), reason="PyTorch is not installed")
@every_op
def test_random_calls_give_what_pytorch_gives(op: str) -> None:
    random, compared = rng("torch", op), 0
    for _ in range(2000 if FULL else 80):
        call = random_call(random, op)
        if torch_peer.expressible(call) is None:
            assert same(run(call), torch_peer.compute(call)), describe(call)
            compared += 1
    assert compared > 50


@pytest.fixture(scope="module")
def oracle() -> Iterator[Oracle]:
    """OneDNN where it can be believed."""
    with Oracle(60) as peer:
        yield peer


@pytest.mark.skipif(not onednn_peer.available(), reason="oneDNN is not installed")
@every_op
def test_random_calls_give_what_onednn_gives(op: str, oracle: Oracle) -> None:
    random, compared = rng("onednn", op), 0
    for _ in range(1000 if FULL else 60):
        call = random_call(random, op)
        answer = oracle.compute(call)
        if answer is not None:
            assert isinstance(answer, np.ndarray), (describe(call), answer)
            assert same(run(call), answer), describe(call)
            compared += 1
    assert compared > 30


# Adjoint identities: the three operations of a family are one trilinear form


def inner(a: np.ndarray, b: np.ndarray) -> int:
    return int((a.astype(np.int64) * b.astype(np.int64)).sum())


@pytest.mark.parametrize("forward", ["Convolution", "ConvTranspose"])
def test_the_gradients_are_the_adjoints_of_the_forward_operation(forward: str) -> None:
    random = rng("adjoint", forward)
    for _ in range(150):
        call = random_call(random, forward, "f32")
        src, weights = call.inputs[:2]
        if 0 in weights.shape:  # both arrangements of R1 may fit, and each operation asks other tensors which does
            continue
        shape = run(replace(call, inputs=(src, weights))).shape
        dst = random.integers(-2, 3, shape).astype(np.float32)
        attributes = dict(call.attributes)
        stated = {"dst_shape": list(src.shape)} if forward == "Convolution" else {}
        back = run(Call(f"{forward}BackwardData", (dst, weights), attributes | stated))
        stated = {"weights_shape": list(weights.shape)}
        gradient = run(Call(f"{forward}BackwardWeights", (src, dst), attributes | stated))
        forth = run(replace(call, inputs=(src, weights)))
        assert inner(forth, dst) == inner(src, back) == inner(weights, gradient), describe(call)


# Padding, Inf and NaN


def test_an_infinite_weight_at_a_tap_in_the_padding_does_not_reach_the_result() -> None:
    src = np.array([[[1, 2]]], np.float32)
    weights = np.array([[[np.nan, 3, np.inf]]], np.float32)
    attributes = PLAIN | {"data_format": "NCX", "weights_format": "OIX"}
    padded = attributes | {"strides": [2], "pads_begin": [1]}  # outputs: taps 1 and 2 on 1, 2
    assert run(Call("Convolution", (src, weights), padded)).tolist() == [[[np.inf]]]
    only = attributes | {"strides": [9], "pads_begin": [1], "pads_end": [1], "dilations": [2]}
    assert run(Call("Convolution", (src[..., :1] * 7, weights), only | {"dilations": [1]})).tolist() == [[[21]]]


@every_dtype
@every_op
def test_inf_and_nan_reach_exactly_the_cells_that_their_taps_reach(op: str, dtype: str) -> None:
    random, unchanged, spoiled = rng("inf", op, dtype), 0, 0
    for _ in range(60):
        call = random_call(random, op, dtype)
        for array in call.inputs[:2]:
            assert array is not None
            if array.size and random.random() < 0.7:
                cells = random.integers(0, array.size, 1 + array.size // 20)
                array.reshape(-1)[cells] = random.choice([np.inf, -np.inf, np.nan], cells.size)
        answer = run(call)
        assert same(answer, rulings.compute(call)), describe(call)
        finite = np.isfinite(answer.astype(np.float32))
        unchanged, spoiled = unchanged + finite.sum(), spoiled + (~finite).sum()
    assert unchanged > 0 < spoiled


@every_dtype
@pytest.mark.parametrize("layout", ["NCX", "NXC"])
def test_inf_and_nan_beside_the_taps_of_few_channels_do_not_reach_the_result(layout: str, dtype: str) -> None:
    """An odd number of channels: what pairs the channels of neighbouring taps has one neighbour too many."""
    random = rng("few", layout, dtype)
    for number, (big, small) in enumerate([(1, 16), (3, 16), (3, 40), (5, 33), (1, 70), (3, 100)] * 2):
        strides, pads_begin, pads_end, kernel = (
            [int(i) for i in random.integers(*ends, 2)] for ends in [(1, 4), (0, 3), (0, 3), (1, 6)]
        )
        attributes = PLAIN | {"strides": strides, "pads_begin": pads_begin, "pads_end": pads_end, "dilations": [1, 1]}
        attributes |= {"data_format": layout, "weights_format": ["OIX", "XIO"][number % 2]}
        space = [int(i) for i in random.integers(6, 40, 2)]
        src = random.integers(-2, 3, (2, big, *space) if layout == "NCX" else (2, *space, big)).astype(DTYPES[dtype])
        shape = (small, big, *kernel) if attributes["weights_format"] == "OIX" else (*kernel, big, small)
        weights = random.integers(-2, 3, shape).astype(DTYPES[dtype])
        check(Call("Convolution", (src, weights), attributes))
        for array, count in [(src, 9), (weights, 1)][: 1 + number % 2]:
            array.reshape(-1)[random.integers(0, array.size, count)] = random.choice([np.inf, -np.inf, np.nan], count)
        check(Call("Convolution", (src, weights), attributes))
        back, axes = ("IOX", (0, 1)) if number % 2 == 0 else ("XOI", (2, 3))
        check(
            Call(
                "ConvTranspose",
                (src, weights.swapaxes(*axes)),
                attributes | {"strides": [1, 1], "weights_format": back},
            )
        )


@pytest.mark.parametrize("layout", ["NCX", "NXC"])
def test_inf_and_nan_of_channels_alone_reach_exactly_the_cells_that_their_taps_reach(layout: str) -> None:
    """Groups of one channel: what pairs rows multiplies no element by a weight of zero beside it."""
    random = rng("alone", layout)
    for number in range(24):
        channels, height, width = (int(random.integers(*ends)) for ends in [(1, 50), (3, 12), (3, 24)])
        dilations = [int(random.integers(1, 3)), 1]
        attributes = PLAIN_2D | {"dilations": dilations, "pads_begin": [int(i) for i in random.integers(0, 3, 2)]}
        attributes |= {"pads_end": [2, 1], "data_format": layout, "weights_format": "OIX", "groups": channels}
        src = random.integers(-2, 3, (2, channels, height, width) if layout == "NCX" else (2, height, width, channels))
        src, weights = src.astype(BF16), random.integers(-1, 2, (channels, 1, 3, 3)).astype(BF16)
        check(Call("Convolution", (src, weights), attributes))
        for array, count in [(src, 9), (weights, 1)][: 1 + number % 2]:
            array.reshape(-1)[random.integers(0, array.size, count)] = random.choice([np.inf, -np.inf, np.nan], count)
        check(Call("Convolution", (src, weights), attributes))


# One rounding


def sum_of(dtype: np.dtype[Any], terms: list[float], bias: float | None = None) -> np.ndarray:
    """The sum of terms as a Convolution makes it, and rounds it."""
    src = np.array(terms).astype(dtype).reshape(1, len(terms), 1)
    inputs = (src, np.ones((len(terms), 1, 1), dtype), None if bias is None else np.array([bias]).astype(dtype))
    return run(Call("Convolution", inputs, PLAIN)).reshape(())


@pytest.mark.parametrize(("dtype", "edge"), [(BF16, 256), (F16, 2048)])
def test_sums_and_bias_are_rounded_once_at_the_end(dtype: np.dtype[Any], edge: int) -> None:
    assert sum_of(dtype, [edge, 1, 1]) == edge + 2  # edge + 1 alone would fall back to edge
    assert sum_of(dtype, [edge, 1], bias=1) == edge + 2
    assert sum_of(dtype, [edge, 1]) == edge  # half way: to even
    assert sum_of(dtype, [edge, 3]) == edge + 4


@every_op
@pytest.mark.parametrize("dtype", ["bf16", "f16"])
def test_sums_beyond_the_integers_of_the_dtype_are_rounded_once(op: str, dtype: str) -> None:
    random, rounded = rng("round", op, dtype), 0
    for _ in range(40):
        call = random_call(random, op, dtype)
        wide = tuple(x if x is None or x.dtype == np.int32 else (x * 13).astype(x.dtype) for x in call.inputs)
        call = replace(call, inputs=wide)
        check(call)
        exact = rulings.exact(call)
        rounded += (exact != rulings.compute(call).astype(np.float64)).sum()
    assert rounded > 100


@pytest.mark.parametrize(("dtype", "large"), [(BF16, 2.0**127), (F16, 2.0**15), (F32, 2.0**127)])
def test_overflow_goes_to_infinity(dtype: np.dtype[Any], large: float) -> None:
    assert sum_of(dtype, [large, large]) == np.inf
    assert sum_of(dtype, [-large, -large]) == -np.inf
    assert sum_of(dtype, [large]) == large


@pytest.mark.parametrize(("dtype", "tiny"), [(BF16, 2.0**-133), (F16, 2.0**-24), (F32, 2.0**-149)])
def test_denormals_are_kept_but_where_products_are_made_in_pairs(dtype: np.dtype[Any], tiny: float, isa: str) -> None:
    if dtype == BF16 and isa in ("avx512_bf16", "amx_bf16"):  # their hardware knows no denormals; API.md says so
        assert sum_of(dtype, [tiny]) in (0, tiny)
        assert sum_of(dtype, [tiny, tiny]) in (0, 2 * tiny)
        return
    assert sum_of(dtype, [tiny]) == tiny
    assert sum_of(dtype, [tiny, tiny], bias=tiny) == 3 * tiny


@pytest.mark.parametrize(("dtype", "bits"), [(BF16, 0x7F81), (F16, 0x7C01), (F32, 0x7F800001)])
def test_a_nan_of_the_smallest_payload_stays_nan(dtype: np.dtype[Any], bits: int) -> None:
    integer = f"u{dtype.itemsize}"
    src = np.full((1, 1, 1), bits, integer).view(dtype)
    for sign in (1, -1):
        answer = run(Call("Convolution", (src, np.full((1, 1, 1), sign, dtype)), PLAIN))
        assert np.isnan(answer.astype(np.float64)).all()


# Threads


@every_dtype
@every_op
def test_every_number_of_threads_gives_the_same_bits(op: str, dtype: str) -> None:
    random = rng("threads", op, dtype)
    for _ in range(1000 if FULL else 80):
        call = random_call(random, op, dtype, values="normal")
        alone = run(call, threads=1).tobytes()
        assert {run(call, threads=threads).tobytes() for threads in (1, 2, 3, 8)} == {alone}, describe(call)


@every_op
def test_rounded_sums_are_near_the_exact_ones(op: str) -> None:
    random = rng("normal", op)
    for _ in range(40):
        call = random_call(random, op, "f32", values="normal")
        assert np.allclose(run(call), rulings.exact(call), rtol=1e-4, atol=1e-4), describe(call)
