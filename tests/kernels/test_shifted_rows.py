"""Arrays that steps copy to the inside of others, whose axes and letters stand in any order: by rows of what they write."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from opwright.load import load_texts
from opwright.oracle.validate import NUMPY
from support.draws import FULL, rng
from support.package import package, write_package
from support.step_verdicts import agree

KINDS = ("f32", "bf16", "u8", "f64", "s32")
SPECS, CALLS = (24, 20) if FULL else (6, 8)
SPEC = """op: {name}
revision: 1
summary: An array inside of another one.
dims: {{{sizes}}}
inputs: [{{name: src, dims: {{{given}}}}}]
outputs: [{{name: dst, dims: {{{made}}}}}]
dtypes: [{{src: {kind}, dst: {kind}, accumulate: {accumulate}}}]
semantics:
  ranges: {{{ranges}}}
  steps: ["{dst} {operator} {src}"]
"""


def framed(name: str, kind: str, axes: str, read: str, ranges: str, around: dict[str, tuple[int, int]]) -> str:
    """A spec that copies an array with the axes `read` to one with `axes`, so many cells before and behind it."""
    cells = {x: f"{x} + {around[x][0]}" if around[x][0] else x for x in axes}
    return SPEC.format(
        name=name,
        kind=kind,
        accumulate="f64" if kind == "f64" else "f32",
        sizes=", ".join(f"{x}_cells: {x.upper()}" for x in axes),
        given=", ".join(f"I{x}: {x.upper()}" for x in read),
        made=", ".join(f"O{x}: '{x.upper()}{f' + {sum(around[x])}' if sum(around[x]) else ''}'" for x in axes),
        ranges=", ".join(f"{x}: {x.upper()}" for x in ranges),
        dst=f"dst[{', '.join(cells[x] for x in axes)}]",
        operator="=",
        src=f"src[{', '.join(read)}]",
    )


def drawn(random: np.random.Generator, name: str) -> str:
    axes = "bcde"[: int(random.integers(2, 5))]
    around = {x: (int(random.integers(0, 3)), int(random.integers(0, 3))) for x in axes}
    written, ranges, read = ("".join(random.permutation([*axes])) for _ in range(3))
    read = written if random.random() < 0.7 else read
    return framed(name, str(random.choice([*KINDS])), written, read, ranges, around)


@pytest.mark.sweep
@pytest.mark.parametrize("seed", range(30 if FULL else 2))
def test_arrays_inside_of_others_agree_with_the_interpreter(seed: int, tmp_path: Path) -> None:
    random = rng("shifted rows", seed)
    texts = {f"framed{number}.yaml": drawn(random, f"Framed{number}") for number in range(SPECS)}
    library, module = package(texts, tmp_path, f"shifted_rows_{seed}")
    seen = agree(module, library.ops, CALLS, seed)
    assert all(seen[f"{op.op} legal"] for op in library.ops)


@pytest.mark.parametrize("ranges", ["bcd", "dcb", "cdb", "bdc"])
def test_rows_of_what_is_written_are_copied_whatever_letter_a_spec_names_first(ranges: str, tmp_path: Path) -> None:
    text = framed("Framed", "f32", "bcd", "bcd", ranges, {"b": (0, 0), "c": (1, 1), "d": (2, 3)})
    write_package({"framed.yaml": text}, tmp_path, "ordered")
    code = (tmp_path / "ordered" / "c" / "framed_f32.c").read_text()
    copies = re.findall(r"opwright_copy_rows_4\(.*\);", code)
    assert copies
    for copy in copies:  # rows lie as far apart as neighbours of `c`, cells as those of `d`
        assert re.search(r"dst_Oc, dst_Od, src .*, src_Ic, src_Id, rows_, n_", copy), copy


@pytest.mark.parametrize(("kind", "channels"), [("f32", 3), ("bf16", 3), ("u8", 4), ("f32", 15)])
def test_pixels_of_few_channels_inside_of_others_are_copied_by_rows(kind: str, channels: int, tmp_path: Path) -> None:
    text = framed("Pixels", kind, "bcde", "bcde", "bcde", {"b": (0, 0), "c": (1, 1), "d": (1, 1), "e": (0, 0)})
    (op,) = load_texts({"pixels.yaml": text}).ops
    _, module = package({"pixels.yaml": text}, tmp_path, f"pixels_{kind}_{channels}")
    src = np.arange(2 * 9 * 40 * channels).reshape(2, 9, 40, channels).astype(NUMPY[op.dtypes[0]["src"]])
    (row,) = (words for lanes, words in module.explain("pixels", src).schedules if lanes.startswith("lanes"))
    assert row.startswith("copied rows")
    wanted = np.pad(src, ((0, 0), (1, 1), (1, 1), (0, 0)))
    assert np.array_equal(module.pixels(src), wanted)
