"""What the generator writes: the same bytes everywhere, moved by what it is made of and by nothing else."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from opwright.emit import render, wrap
from opwright.generate import generated
from opwright.language import expr
from opwright.language.library import Library
from opwright.language.model import Op
from opwright.project import find
from opwright.write import MANIFEST, compare
from support import checkout
from support.specs import TEXTS, sample_project

ROOT = checkout.ROOT
GOLDEN = Path(__file__).parent / "golden"
UPDATE = os.environ.get("OPWRIGHT_UPDATE_GOLDEN") == "1"
PROVENANCE = "PROVENANCE.json"


@pytest.fixture(scope="module")
def made() -> tuple[Library, dict[str, str]]:
    return generated(find())


@pytest.fixture(scope="module")
def files(made: tuple[Library, dict[str, str]]) -> dict[str, str]:
    return made[1]


@pytest.fixture(scope="module")
def sample(sample_package: tuple[Library, dict[str, str]]) -> dict[str, str]:
    return sample_package[1]


def edited(folder: Path, edit: Callable[[str, str], str]) -> dict[str, str]:
    return generated(sample_project(folder, edit))[1]


def different(one: dict[str, str], other: dict[str, str]) -> set[str]:
    assert one.keys() == other.keys()
    return {path for path in one if one[path] != other[path]}


# Determinism.


def test_no_surrounding_moves_a_byte(tmp_path: Path, sample: dict[str, str]):
    spec = sample_project(tmp_path).spec
    for number, (seed, locale, folder) in enumerate([("1", "C", "here"), ("4711", "tr_TR.UTF-8", "some where/else ß")]):
        copy = checkout.copy(tmp_path / folder)
        away = tmp_path / f"away{number}"
        away.mkdir()
        output = tmp_path / f"output{number}"
        ran = checkout.run(
            copy,
            "-m",
            "opwright",
            "generate",
            "--spec",
            str(spec),
            "--output",
            str(output),
            cwd=away,
            PYTHONHASHSEED=seed,
            LC_ALL=locale,
            LANG=locale,
        )
        assert ran.returncode == 0, ran.stdout + ran.stderr
        found = {p.relative_to(output).as_posix(): p.read_bytes() for p in output.rglob("*") if p.is_file()}
        assert found == {path: text.encode("utf-8") for path, text in sample.items()}


BESIDE = """op: Beside
revision: 1
summary: Products of cells that several letters reach beside their axes.
dims: {b_cells: B, t_cells: T, d_cells: D, e_cells: E}
inputs: [{name: x, dims: {B: B, T: T, D: D}}, {name: f, dims: {B: B, D: D, E: E}}, {name: s, dims: {T: T, D: D}}]
outputs: [{name: y, dims: {B: B, T: T, E: E}}]
dtypes: [{x: f32, f: f32, s: f32, y: f32, accumulate: f32}]
semantics:
  ranges: {b: B, t: T, d: D, e: E}
  steps: ["y[b, t, e] += x[b, t - 1, d] * f[b, d - 1, e - 1] * s[t, d]"]
"""


def test_conditions_on_several_letters_stand_in_one_order():
    program = "from opwright.derive.phases import staged; from opwright.load import load_texts; import sys; "
    program += "print(staged(load_texts({'beside.yaml': sys.argv[1]}).ops[0]).program.parts)"
    command = [sys.executable, "-c", program, BESIDE]
    environments = [{**os.environ, "PYTHONHASHSEED": seed} for seed in ("1", "4", "7")]
    runs = [subprocess.run(command, env=one, capture_output=True, text=True, check=True) for one in environments]
    assert len({run.stdout for run in runs}) == 1


def test_the_committed_package_is_what_the_specs_make(files: dict[str, str]):
    assert compare(ROOT / "generated" / "opwright_kernels", files) == []


def test_the_package_stays_small(made: tuple[Library, dict[str, str]]):
    """No source that is hard to read, and no repository that is slow to clone: bounds in bytes."""
    library, files = made
    sizes = {path: len(text.encode("utf-8")) for path, text in files.items()}
    sources = {path: size for path, size in sizes.items() if path.endswith((".c", ".py", ".md"))}
    assert {path: size for path, size in sources.items() if size > 200_000} == {}
    own = {op.op: sum(sizes[path] for path in render.of_op(op, library)) for op in (*library.ops, *library.gradients)}
    pointwise = {op.op for op in library.ops if op.stepped and _pointwise(op)}
    stepped = {op.op for op in library.ops if op.stepped}
    gradients = {op.op for op in library.gradients}
    assert len(pointwise) > 20
    assert sum(own[op] for op in pointwise) < 1_100_000
    assert sum(own[op] for op in stepped) < 7_470_000
    assert 0 < sum(own[op] for op in gradients) < 2_760_000
    assert sum(sizes.values()) - sum(own[op] for op in stepped | gradients) < 4_550_000


def _pointwise(op: Op) -> bool:
    """Whether each cell of the one output is an expression of one cell of each input."""
    assignments = [assignment for step in op.semantics.steps for assignment in step.assignments]
    reads = [node for one in assignments for node in expr.walk(one.value) if isinstance(node, expr.Read)]
    letters = {
        tuple(expr.names(index) for index in node.indices) for one in assignments for node in (one.target, *reads)
    }
    return len(op.semantics.steps) == len(letters) == 1 and assignments[0].op == "set"


def test_nothing_tells_where_or_when_it_was_made(files: dict[str, str]):
    for path, text in files.items():
        assert str(ROOT) not in text, path
        assert str(Path.home()) not in text, path


# What moves what.


def test_a_blank_line_or_a_comment_moves_line_numbers_only(tmp_path: Path, sample: dict[str, str]):
    moved = edited(tmp_path, lambda name, text: "# a comment\n\n" + text.replace("\ninputs:", "\n\n# more\ninputs:"))
    assert different(sample, moved) == {PROVENANCE, MANIFEST}


def reworded(node: Any, key: str = "") -> Any:
    """A spec with every text for people replaced."""
    if isinstance(node, dict):
        return {name: reworded(child, name) for name, child in node.items()}
    if isinstance(node, list):
        return [reworded(child, key) for child in node]
    return f"Written anew: {node}" if key in TEXTS and isinstance(node, str) else node


def test_an_edited_description_leaves_every_byte_of_c_alone(tmp_path: Path, sample: dict[str, str]):
    def edit(name: str, text: str) -> str:
        tree = yaml.load(text, Loader=yaml.BaseLoader)
        return yaml.safe_dump(reworded(tree), sort_keys=False, width=10_000)

    found = different(sample, edited(tmp_path, edit))
    assert {path for path in found if path.endswith((".c", ".h"))} == set()
    assert "docs/convolution.md" in found
    assert "_convolution.py" in found


def test_a_changed_formula_of_one_operation_moves_no_other_operation(tmp_path: Path, sample: dict[str, str]):
    def edit(name: str, text: str) -> str:
        assert name != "conv_transpose.yaml" or text.count("finish: dst[n, m, x] + bias[m]") == 1
        return (
            text.replace("finish: dst[n, m, x] + bias[m]", "finish: bias[m] + dst[n, m, x]")
            if name == "conv_transpose.yaml"
            else text
        )

    found = different(sample, edited(tmp_path, edit))
    assert found - {MANIFEST, PROVENANCE} == {
        *(f"c/conv_transpose_{dtype}.c" for dtype in ("f32", "bf16", "f16")),
        *(
            f"c/entries/conv_transpose_{dtype}{part}.c"
            for part in ("", "_depthwise")
            for dtype in ("f32", "bf16", "f16")
        ),
        "docs/conv_transpose.md",
    }


# What it looks like.

EXAMPLES = [
    "conv_transpose_f32_nxc_xoi_dense_portable",
    "conv_transpose_bf16_ncx_iox_depthwise_portable",
    "conv_transpose_backward_data_f32_ncx_iox_grouped_portable",
    "conv_transpose_backward_weights_f16_nxc_xoi_dense_portable",
    "convolution_f16_nxc_xio_grouped_portable",
    "convolution_backward_data_f32_ncx_oix_depthwise_portable",
    "convolution_backward_weights_bf16_ncx_oix_grouped_portable",
]


def golden(name: str, text: str) -> None:
    path = GOLDEN / name
    if UPDATE:
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    assert path.read_text(encoding="utf-8") == text, "look at the difference; OPWRIGHT_UPDATE_GOLDEN=1 takes it over"


@pytest.mark.parametrize("name", EXAMPLES)
def test_a_kernel_reads_as_it_did_when_it_was_reviewed(name: str, sample: dict[str, str]):
    (text,) = [text for path, text in sample.items() if path.endswith(".c") and f"void {name}(" in text]
    (function,) = re.findall(rf"^// [^\n]*\nvoid {name}\(.*?^}}\n", text, re.M | re.S)
    golden(f"{name}.c", function)


def test_the_head_of_a_file_reads_as_it_did_when_it_was_reviewed(sample: dict[str, str]):
    head, _, _ = sample["c/conv_transpose_bf16.c"].partition("\n#include")
    golden("conv_transpose_bf16_head.c", re.sub(r"(?<=// Meaning of the spec: )[0-9a-f]{16}", "...", head))


def test_golden_files_are_those_of_the_examples():
    assert {path.name for path in GOLDEN.iterdir()} == {
        *(f"{name}.c" for name in EXAMPLES),
        "conv_transpose_bf16_head.c",
    }


def test_breaking_long_lines_changes_no_meaning():
    conditions = " or ".join(f"(a{n} == b{n} and not c[{n}])" for n in range(12))
    keywords = ", ".join(f"name{n}={{1: ({n}, 2)}}" for n in range(14))
    terms = ", ".join(f"i * j + {n}" for n in range(16))
    sentence = "a long sentence, with (brackets) and a \\\\ backslash " * 6
    numbers = ", ".join(str(n) for n in range(60))
    long = (
        "def f(a, b):\n"
        f'    """A docstring of some length that is left alone, {"word " * 30}."""\n'
        f"    if not ({conditions}):\n"
        f"        raise g('x' , {keywords})\n"
        f"    return h(max({terms}) for i, j in zip(a, b) if i and j)\n"
        f'X = {{"key": "{sentence}", "other": ({numbers},), "strings": "a \\" ( b", "last": k(a)(b)}}\n'
    )
    short = wrap.wrap_python(long)
    assert ast.dump(ast.parse(short)) == ast.dump(ast.parse(long))
    assert max(len(line) for line in short.splitlines() if "docstring" not in line) <= wrap.WIDTH
    assert wrap.wrap_python(short) == short
