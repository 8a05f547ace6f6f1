"""Hostile text that a spec may carry does nothing in what is generated from it: C, Python, Markdown."""

from __future__ import annotations

import ast
import re
import subprocess
from pathlib import Path

import numpy as np
import pytest
from markdown_it import MarkdownIt
from support.hostile import hostile_texts, with_hostile_texts
from support.package import package, spec_texts, write_package

NAMES = ("conv_transpose",)


def _texts() -> dict[str, str]:
    """One operation and what it shares, every free text hostile; relations need the other operations, so they go."""
    texts = spec_texts(*NAMES)
    head, _, rest = texts["conv_transpose.yaml"].partition("relations:\n")
    texts["conv_transpose.yaml"] = head + rest[rest.index("discrepancies:") :]
    return with_hostile_texts(texts)


@pytest.fixture(scope="module")
def clean(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("clean")
    texts = spec_texts(*NAMES)
    head, _, rest = texts["conv_transpose.yaml"].partition("relations:\n")
    texts["conv_transpose.yaml"] = head + rest[rest.index("discrepancies:") :]
    package(texts, folder, "inert_clean")
    return folder / "inert_clean"


@pytest.fixture(scope="module")
def attacked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("attacked")
    _, module = package(_texts(), folder, "inert_attacked")
    src = np.ones((1, 2, 2, 1), np.float32)
    result = module.conv_transpose(
        src, np.ones((1, 1, 1, 1), np.float32), strides=[1, 1], pads_begin=[0, 0], pads_end=[0, 0], dilations=[1, 1]
    )
    assert (result == src).all()
    return folder / "inert_attacked"


def test_the_texts_reach_the_package(attacked: Path) -> None:
    assert hostile_texts[-1].split()[0] in (attacked / "docs" / "conv_transpose.md").read_text(encoding="utf-8")


def test_the_c_holds_the_same_tokens_as_without_them(clean: Path, attacked: Path) -> None:
    for path in sorted(clean.rglob("*.[ch]")):
        other = attacked / path.relative_to(clean)
        tokens = [
            subprocess.run(
                ["gcc", "-std=c11", "-fpreprocessed", "-dD", "-E", "-P", file],
                capture_output=True,
                text=True,
                check=True,
            ).stdout
            for file in (path, other)
        ]
        assert tokens[0] == tokens[1], path.name


SCALARS = """op: Scalars
revision: 1
summary: Numbers that need no size.
dims: {n_cells: N}
inputs: [{name: x, dims: {N: N}}, {name: b, dims: {}}]
outputs: [{name: y, dims: {}}, {name: squares, dims: {}}]
dtypes: [{x: f32, b: f32, y: f32, squares: f32, accumulate: f32}]
semantics:
  ranges: {n: N}
  steps: ["y[] = b[] * 2", "squares[] += x[n] * x[n]"]
"""
SIDES = """op: Sides
revision: 1
summary: Rows that are copied, in blocks of no size.
dims: {a_cells: {symbol: A, min: 0}, x_cells: {symbol: X, min: 1}, y_cells: {symbol: Y, min: 0}}
inputs: [{name: x, dims: {A: A, X: X}}, {name: y, dims: {A: A, Y: Y}}]
outputs: [{name: z, dims: {A: A, Z: X + Y}}]
dtypes: [{x: f32, y: f32, z: f32, accumulate: f32}]
semantics:
  ranges: {a: A, b: X + Y}
  steps: ["z[a, b] = select(b >= X, y[a, min(max(b - X, 0), Y - 1)], x[a, min(b, X - 1)] * b)"]
"""


def test_the_c_compiles_without_a_warning(attacked: Path, tmp_path: Path) -> None:
    write_package({"scalars.yaml": SCALARS, "sides.yaml": SIDES}, tmp_path, "inert_small")
    small = [tmp_path / "inert_small" / "c" / f"{name}_f32.c" for name in ("scalars", "sides")]
    for path in (*small, *sorted((attacked / "c").glob("*.c"))):
        flags = ["-std=c11", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", "-trigraphs"]
        subprocess.run(["gcc", *flags, "-I", path.parents[1] / "include", path], check=True)


class _WithoutTexts(ast.NodeTransformer):
    def visit_Constant(self, node: ast.Constant) -> ast.Constant:
        return ast.Constant("") if isinstance(node.value, str) else node


def test_the_python_differs_in_the_contents_of_strings_only(clean: Path, attacked: Path) -> None:
    for path in sorted(clean.rglob("*.py")):
        trees = [ast.parse(file.read_text(encoding="utf-8")) for file in (path, attacked / path.relative_to(clean))]
        shapes = [ast.dump(_WithoutTexts().visit(tree)) for tree in trees]
        assert shapes[0] == shapes[1], path.name


def _structure(text: str) -> list[str]:
    """The kinds of block and inline marks of a Markdown text, runs of text and code counted as one."""
    kinds = []
    for token in MarkdownIt("commonmark").enable("table").parse(text):
        kinds.append(token.type)
        kinds += [child.type for child in token.children or ()]
    plain = {"text", "code_inline", "softbreak", "text_special"}
    return [kind for kind in kinds if kind not in plain]


def test_the_markdown_has_the_same_structure(clean: Path, attacked: Path) -> None:
    for path in sorted(clean.rglob("*.md")):
        texts = [file.read_text(encoding="utf-8") for file in (path, attacked / path.relative_to(clean))]
        assert _structure(texts[0]) == _structure(texts[1]), path.name
        assert not re.search(
            r"<script|javascript:alert\(1\)\)$", MarkdownIt("commonmark").enable("table").render(texts[1])
        )
