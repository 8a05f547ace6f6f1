"""Specs for tests: the real folder as texts, edits of them, and small operations of other families."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml
from opwright.generate import lower
from opwright.language.library import Library
from opwright.language.source import Problem, SpecInvalid
from opwright.load import load_texts
from opwright.project import Project

FOLDER = Path(__file__).parents[2] / "spec" / "onednn_graph"


def all_texts() -> dict[str, str]:
    """All files of the project's folder by name."""
    return {path.name: path.read_text(encoding="utf-8") for path in sorted(FOLDER.glob("*.yaml"))}


def _convolution_texts() -> dict[str, str]:
    return {name: text for name, text in all_texts().items() if "\nnormal_form:" in text}


def untied(text: str) -> str:
    """A spec without its ties to other operations to PyTorch and to ONNX, which name what it declares once more."""
    return re.sub(r"^(relations|torch|onnx):\n(  .*\n)+", "", text, flags=re.M)


@functools.cache
def _shared(file: str) -> str:
    """What the convolutions take of a file that all operations share."""
    text, users = all_texts()[file], list(_convolution_texts().values())
    users += [] if file == "_common.yaml" else [_shared("_common.yaml")]
    used = _words(users)
    lines, dropped = text.splitlines(keepends=True), set[int]()
    for (_, section), end in _spans(yaml.compose(text).value, len(lines)):
        entries = (
            section.value if isinstance(section, yaml.MappingNode) else [(entry, entry) for entry in section.value]
        )
        for (name, entry), last in _spans(entries, end):
            known = name if name is not entry else next(v for k, v in entry.value if k.value in ("name", "id"))
            if known.value not in used:
                dropped.update(line for line in range(name.start_mark.line, last) if lines[line].strip())
    return "".join(line for number, line in enumerate(lines) if number not in dropped)


def _words(texts: Sequence[str]) -> set[str]:
    """Every key and every plain value of some texts."""
    return {token.value for text in texts for token in yaml.scan(text) if isinstance(token, yaml.ScalarToken)}


def _spans(entries: Sequence[tuple[Any, Any]], end: int) -> Iterator[tuple[tuple[Any, Any], int]]:
    """Entries of a list or map, each with the line behind its last one."""
    ends = [key.start_mark.line for key, _ in entries[1:]]
    return zip(entries, [*ends, end], strict=True)


def real_texts() -> dict[str, str]:
    """The six convolutions, which are what has a normal form, and what they share, by file name."""
    return {"_common.yaml": _shared("_common.yaml"), "_sources.yaml": _shared("_sources.yaml"), **_convolution_texts()}


def convolutions() -> Library:
    """The library of the six convolutions, with the places that the project's own files have."""
    texts = {name: text for name, text in all_texts().items() if name.startswith("_")} | _convolution_texts()
    return load_texts({f"spec/{FOLDER.name}/{name}": text for name, text in texts.items()})


TEXTS = {"summary", "description", "say", "reason", "page", "library", "ruling", "why", "title", "release", "form"}
"""The keys that hold text for people."""
SAMPLE = ("concat", "layer_norm", "mat_mul", "max_pool", "quantize", "reduce_sum", "static_transpose", "type_cast")


def sample_texts() -> dict[str, str]:
    """The convolutions and an operation of each other kind, with those to which they are related, by file name."""
    texts = all_texts()
    trees = {name: yaml.load(text, Loader=yaml.BaseLoader) for name, text in texts.items()}
    files = {tree["op"]: name for name, tree in trees.items() if "op" in tree}
    wanted = [*_convolution_texts(), *(f"{name}.yaml" for name in SAMPLE)]
    for name in wanted:  # grows while it is walked
        words = {
            word for relation in trees[name].get("relations", ()) for word in relation.values() if isinstance(word, str)
        }
        wanted += [files[op] for op in sorted(words & files.keys()) if files[op] not in wanted]
    return {name: text for name, text in texts.items() if name.startswith("_") or name in wanted}


def sample_project(folder: Path, edit: Callable[[str, str], str] = lambda name, text: text) -> Project:
    """A project of the sample, after `edit(name, text)` of each of its files."""
    spec = folder / "spec" / FOLDER.name
    spec.mkdir(parents=True)
    for name, text in sample_texts().items():
        (spec / name).write_text(edit(name, text), encoding="utf-8")
    return Project(folder, spec, FOLDER.parents[1] / "templates", folder / "generated")


def edited(name: str, old: str, new: str) -> dict[str, str]:
    """The real texts with the first `old` of one file replaced, which must be there."""
    texts = real_texts()
    assert old in texts[name], f"{name} does not hold {old!r}"
    return {**texts, name: texts[name].replace(old, new, 1)}


def problems_of(texts: Mapping[str, str]) -> tuple[Problem, ...]:
    """What is wrong with a set of texts; nothing for a set that loads."""
    try:
        lower(load_texts(dict(texts)))
    except SpecInvalid as invalid:
        return invalid.problems
    return ()


MATRIX_PRODUCT = """\
op: MatMul
revision: 1
summary: A product of two matrices.
dims: {rows: M, columns: N, depth: K}
inputs:
  - {name: a, dims: {M: M, K: K}}
  - {name: b, dims: {K: K, N: N}}
outputs:
  - {name: c, dims: {M: M, N: N}}
dtypes:
  - {a: f32, b: f32, c: f32, accumulate: f32}
semantics:
  ranges: {m: M, n: N, k: K}
  reduce: c[m, n] += a[m, k] * b[k, n]
"""

AVERAGE_POOL = """\
op: AvgPool
revision: 1
summary: The mean of every window.
spatial_rank: {min: 1, max: 3}
dims:
  batch: N
  channels: C
  src_spatial: {symbol: I, per_axis: true}
  dst_spatial: {symbol: O, per_axis: true}
attributes:
  - {name: strides, symbol: S, type: "s64[]", required: true, length: spatial, min: 1, neutral: 1}
  - {name: kernel, symbol: K, type: "s64[]", required: true, length: spatial, min: 1, neutral: 1}
  - {name: pads_begin, symbol: PB, type: "s64[]", default: "0", length: spatial, min: 0, neutral: 0}
  - {name: data_format, type: string, default: NCX, values: [NCX, NXC]}
layouts:
  data_format: {NCX: [N, C, X], NXC: [N, X, C]}
inputs:
  - {name: src, layout: data_format, dims: {N: N, C: C, X: I}}
outputs:
  - {name: dst, layout: data_format, dims: {N: N, C: C, X: O}}
dtypes:
  - {src: f32, dst: f32, accumulate: f32}
  - {src: bf16, dst: bf16, accumulate: f32}
shape:
  O: floor((I + PB - K) / S) + 1
semantics:
  ranges: {n: N, c: C, i: O, k: K}
  reduce: dst[n, c, i] += src[n, c, i * S + k - PB]
  finish: dst[n, c, x] / max(count, 1)
"""

MAX_POOL = (
    AVERAGE_POOL.replace("AvgPool", "MaxPool")
    .replace("mean", "maximum")
    .replace("+= src", "max= src")
    .replace("  finish: dst[n, c, x] / max(count, 1)\n", "  init: -inf\n")
)

SCALE = """\
op: Scale
revision: 1
summary: Every row is multiplied by a factor of the call and one of its column.
dims: {rows: M, columns: N}
attributes:
  - {name: alpha, type: f32, default: "0.5"}
inputs:
  - {name: src, dims: {M: M, N: N}}
  - {name: factor, optional: true, dims: {N: N}}
outputs:
  - {name: dst, dims: {M: M, N: N}}
dtypes:
  - {src: f32, factor: f32, dst: f32, accumulate: f64}
constraints:
  - {id: alpha-is-positive, expr: alpha > 0, say: alpha is greater than 0, argument: alpha}
semantics:
  ranges: {m: M, n: N}
  where: [m <= n]
  reduce: dst[m, n] += src[m, n] * alpha
  finish: dst[m, n] + factor[n] * 0.5
"""

OTHERS = {
    "mat_mul.yaml": MATRIX_PRODUCT,
    "avg_pool.yaml": AVERAGE_POOL,
    "max_pool.yaml": MAX_POOL,
    "scale.yaml": SCALE,
}
