"""Windows of single channels whose data, weights and sums have their axes in any orders, as channels first and last."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest
from opwright.derive.phases import staged
from opwright.language.expr import Name
from opwright.load import load_texts
from support.draws import FULL, rng
from support.package import package
from support.step_verdicts import agree

SPECS, CALLS = (24, 12) if FULL else (5, 6)
SPEC = """op: {name}
revision: 1
summary: Windows of single channels.
dims: {{{sizes}}}
inputs: [{inputs}]
outputs: [{{name: dst, dims: {{{made}}}}}]
{shape}
dtypes:
  - {{{f32}, accumulate: f32}}
  - {{{bf16}, accumulate: f32}}
semantics:
  ranges: {{{ranges}}}
  steps: {steps}
"""
TAPS = {"h": "p", "w": "q"}
FOLLOWING = ("", "max({}, 0)", "max({} + bias[c], 0)", "{} * 2")


def windows(
    name: str, solved: str, data: str, other: str, kernel: str, step: int = 1, pad: int = 0, following: str = ""
) -> str:
    """A spec of windows over `h` and `w`, or `w` alone: sums of `data` at windows, of cells spread over windows, or of

    both, which are weights. `data` is what windows move on, `other` what they are numbered by, `kernel` the weights.
    """
    extents = {"h": "H", "w": "W", "b": "B", "c": "C", "p": "3", "q": "3"}
    wide = {"h": "I", "w": "J"} if solved == "small" else {}
    shape = [f"{x.upper()}: floor(({wide[x]} + {2 * pad - 3}) / {step}) + 1" for x in data if x in wide]

    def moved(letter: str) -> str:
        index = f"{step} * {letter}" if step > 1 else letter
        return f"{index} + {TAPS[letter]} - {pad}" if pad else f"{index} + {TAPS[letter]}"

    def extent(letter: str) -> str:
        over = f"{step} * {letter.upper()}" if step > 1 else letter.upper()
        if letter in wide:
            return wide[letter]
        return f"{over} + {3 - step - 2 * pad}"

    cells = {
        "big": ", ".join(moved(x) if x in TAPS else x for x in data),
        "small": ", ".join(other),
        "weights": ", ".join(kernel),
    }
    axes = {
        "big": ", ".join(f"G{x}: '{extent(x) if x in TAPS else x.upper()}'" for x in data),
        "small": ", ".join(f"S{x}: {x.upper()}" for x in other),
        "weights": ", ".join(f"K{x}: {extents[x]}" for x in kernel),
    }
    given = [one for one in cells if one != solved]
    given = given if solved == "small" else given[::-1]  # whose extents tell those of the others
    bias = ["{name: bias, dims: {C: C}}"] if "bias" in following else []
    inputs = [f"{{name: {one}, dims: {{{axes[one]}}}}}" for one in given] + bias
    names = [*given, *(["bias"] if bias else []), "dst"]
    target = "total" if following else "dst"
    terms = f"{target}[{cells[solved]}] += " + " * ".join(f"{one}[{cells[one]}]" for one in given)
    steps = [terms, *([f"dst[{cells[solved]}] = {following.format(f'total[{cells[solved]}]')}"] if following else [])]
    letters = dict.fromkeys([*data, *other, *kernel])
    return SPEC.format(
        name=name,
        sizes=", ".join(
            [f"{x}_cells: {x.upper()}" for x in letters if extents[x] == x.upper()]
            + [f"{x}_wide: {size}" for x, size in wide.items() if x in data]
        ),
        shape=f"shape: {{{', '.join(shape)}}}" if shape else "",
        inputs=", ".join(inputs),
        made=axes[solved],
        f32=", ".join(f"{one}: f32" for one in names),
        bf16=", ".join(f"{one}: bf16" for one in names),
        ranges=", ".join(f"{x}: {extents[x]}" for x in letters),
        steps=steps,
    )


def drawn(random: np.random.Generator, name: str) -> str:
    axes = [*("bchw" if random.random() < 0.6 else "bcw")]
    taps = [TAPS[x] for x in axes if x in TAPS]
    data, other = ("".join(random.permutation(axes)) for _ in range(2))
    kernel = "".join(random.permutation(["c", *taps] if random.random() < 0.7 else taps))
    solved = str(random.choice(["small", "small", "big", "weights"]))
    kernel = kernel if solved != "weights" else "".join(random.permutation(["c", *taps]))
    step, pad = (1, int(random.integers(0, 2))) if random.random() < 0.6 else (2, 0)
    following = str(random.choice([*FOLLOWING])) if solved == "small" else ""
    return windows(name, solved, data, other, kernel, step, pad, following)


@pytest.mark.sweep
@pytest.mark.parametrize("seed", range(30 if FULL else 2))
def test_windows_of_axes_in_any_order_agree_with_the_interpreter(seed: int, tmp_path: Path) -> None:
    random = rng("windows across", seed)
    texts = {f"across{number}.yaml": drawn(random, f"Across{number}") for number in range(SPECS)}
    library, module = package(texts, tmp_path, f"windows_across_{seed}")
    seen = agree(module, library.ops, CALLS, seed)
    assert all(seen[f"{op.op} legal"] for op in library.ops)


@pytest.mark.parametrize(("data", "other"), [*itertools.permutations(["bchw", "bhwc", "cbhw"], 2)])
def test_sums_of_single_channels_lie_as_the_data_do_whose_windows_they_are(data: str, other: str) -> None:
    for kernel in ("cpq", "pq"):
        (op,) = load_texts({"across.yaml": windows("Across", "small", data, other, kernel)}).ops
        (sums,) = (part.target for phase in staged(op).phases if phase.contraction for part in phase.parts)
        assert "".join(index.id for index in sums.indices if isinstance(index, Name)) == data


@pytest.mark.parametrize("kernel", ["cpq", "pq"])
@pytest.mark.parametrize("following", FOLLOWING)
@pytest.mark.parametrize(("data", "other"), [("bchw", "bhwc"), ("bhwc", "bchw"), ("bchw", "wbch")])
def test_windows_that_change_the_order_of_axes_are_the_engines(
    data: str, other: str, following: str, kernel: str, tmp_path: Path
) -> None:
    text = windows("Across", "small", data, other, kernel, 1, 1, following)
    _, module = package({"across.yaml": text}, tmp_path, f"across_{data}_{other}_{kernel}_{FOLLOWING.index(following)}")
    random, extents = rng(data, other, following, kernel), {"b": 2, "c": 20, "h": 33, "w": 35}
    big = random.integers(-4, 5, [extents[x] for x in data]).astype(np.float32)
    weights = random.integers(-4, 5, [20, 3, 3][-len(kernel) :]).astype(np.float32)
    bias = [np.ones(20, np.float32)] if "bias" in following else []
    found = module.across(big, weights, *bias)
    padded = np.pad(big.transpose([data.index(x) for x in "bchw"]), ((0, 0), (0, 0), (1, 1), (1, 1)))
    views = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (2, 3))
    total = np.einsum(f"bchwpq,{kernel}->{other}", views, weights)
    wanted = {"": total, "max({}, 0)": total.clip(0), "max({} + bias[c], 0)": (total + 1).clip(0), "{} * 2": total * 2}
    assert np.array_equal(found, wanted[following])
    assert "a contraction with windows" in str(module.explain("across", big, weights, *bias))
