"""The generated package stands alone, is typed, and its stubs say what its functions take."""

from __future__ import annotations

import ast
import importlib.metadata
import importlib.util
import inspect
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import opwright_kernels
import pytest
from support import checkout

ROOT = checkout.ROOT
PACKAGE = ROOT / "generated" / "opwright_kernels"
STUB = ast.parse((PACKAGE / "__init__.pyi").read_text(encoding="utf-8"))

# What a stranger's process does: nothing of the tool can be imported, and nothing of it has been.
STRANGER = """
import sys
BLOCKED = {"opwright", "opwright_kernels", "jinja2", "yaml", "rich", "markdown_it"}

class Block:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in BLOCKED:
            raise ImportError(f"{name} is blocked")

sys.meta_path.insert(0, Block())
import numpy as np
import strange_kernels as sk

src = np.arange(2 * 3 * 3 * 2, dtype=np.float32).reshape(2, 3, 3, 2)
weights = np.arange(2 * 2 * 4 * 2, dtype=np.float32).reshape(2, 2, 4, 2)
call = dict(strides=[2, 2], pads_begin=[0, 0], pads_end=[0, 0], dilations=[1, 1])
dst = sk.conv_transpose(src, weights, **call)
expected = np.einsum("nhwc,klmc->nhkwlm", src, weights).reshape(2, 6, 6, 4)
assert dst.tolist() == expected.tolist()
assert sk.infer_shape("ConvTranspose", src, weights, **call) == (2, 6, 6, 4)
explained = sk.explain("conv_transpose", src, weights, **call)
assert explained.variant.name.startswith("conv_transpose_f32_nxc_xoi_dense_"), explained
try:
    sk.conv_transpose(src, weights, **{**call, "strides": [0, 2]})
except sk.SpecError as error:
    assert error.spec.startswith("spec/onednn_graph/"), error.spec
else:
    raise AssertionError("a stride of 0 was accepted")
assert not BLOCKED & {name.partition(".")[0] for name in sys.modules}, sys.modules.keys()
"""


def test_a_copy_under_another_name_works_where_nothing_of_the_tool_can_be_imported(tmp_path: Path):
    shutil.copytree(PACKAGE, tmp_path / "strange_kernels", ignore=shutil.ignore_patterns("__pycache__"))
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    ran = subprocess.run(
        [sys.executable, "-c", STRANGER],
        cwd=tmp_path,
        env={**inherited, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert ran.returncode == 0, ran.stderr


def tool(name: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    if importlib.util.find_spec(name) is None:
        pytest.skip(name)
    return subprocess.run([sys.executable, "-m", name, *arguments], cwd=ROOT, capture_output=True, text=True)


def test_mypy_strict_finds_nothing_in_generator_and_generated(tmp_path: Path):
    for stubs in ("types-PyYAML", "types-cffi"):
        try:
            importlib.metadata.distribution(stubs)
        except importlib.metadata.PackageNotFoundError:
            pytest.skip(stubs)
    ran = tool("mypy", "--strict", "--cache-dir", str(tmp_path))
    assert ran.returncode == 0, ran.stdout


def test_ruff_finds_nothing():
    ran = tool("ruff", "check", "--no-cache", ".")
    assert ran.returncode == 0, ran.stdout


def test_the_package_says_that_it_is_typed():
    assert (PACKAGE / "py.typed").read_bytes() == b""


def test_no_line_of_generated_python_is_longer_than_120():
    for path in PACKAGE.glob("*.py*"):
        assert max(map(len, path.read_text(encoding="utf-8").splitlines()), default=0) <= 120, path.name


def stub_functions() -> dict[str, ast.FunctionDef]:
    return {node.name: node for node in STUB.body if isinstance(node, ast.FunctionDef)}


def stub_names() -> set[str]:
    """The public names of the stub: its functions, and what it imports under its own name."""
    imported = {
        alias.name
        for node in STUB.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
        if alias.asname == alias.name
    }
    return imported | stub_functions().keys()


def stub_parameters(node: ast.FunctionDef) -> list[tuple[str, Any, Any]]:
    """Name, kind and default of each parameter; no default is `inspect.Parameter.empty`."""
    kinds = inspect.Parameter
    positional = [(a, kinds.POSITIONAL_ONLY) for a in node.args.posonlyargs]
    positional += [(a, kinds.POSITIONAL_OR_KEYWORD) for a in node.args.args]
    defaults = [kinds.empty] * (len(positional) - len(node.args.defaults)) + [
        ast.literal_eval(d) for d in node.args.defaults
    ]
    found: list[tuple[str, Any, Any]] = [(a.arg, kind, d) for (a, kind), d in zip(positional, defaults, strict=True)]
    if node.args.vararg:
        found.append((node.args.vararg.arg, kinds.VAR_POSITIONAL, kinds.empty))
    for argument, default in zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True):
        found.append((argument.arg, kinds.KEYWORD_ONLY, kinds.empty if default is None else ast.literal_eval(default)))
    if node.args.kwarg:
        found.append((node.args.kwarg.arg, kinds.VAR_KEYWORD, kinds.empty))
    return found


def test_the_stub_names_what_the_package_exports():
    assert stub_names() == set(opwright_kernels.__all__)


@pytest.mark.parametrize("name", stub_functions())
def test_the_stub_of_a_function_agrees_with_the_function(name: str):
    signature = inspect.signature(getattr(opwright_kernels, name))
    runtime = [(p.name, p.kind, p.default) for p in signature.parameters.values()]
    assert stub_parameters(stub_functions()[name]) == runtime
    annotations = {p.name: p.annotation for p in signature.parameters.values()}
    node = stub_functions()[name]
    stated = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
    assert {a.arg: ast.unparse(a.annotation) for a in stated if a.annotation} == {
        a.arg: annotations[a.arg] for a in stated
    }
    assert node.returns is not None
    assert ast.unparse(node.returns) == signature.return_annotation


@pytest.mark.parametrize("function", opwright_kernels.operations())
def test_every_function_and_its_page_say_what_it_takes(function: str):
    doc = inspect.getdoc(getattr(opwright_kernels, function)) or ""
    page = (PACKAGE / "docs" / f"{function}.md").read_text(encoding="utf-8")
    parameters = inspect.signature(getattr(opwright_kernels, function)).parameters
    for name in parameters:
        assert f"{name}:" in doc or f"{name} (" in doc or f"`{name}`" in doc, name
        if name not in ("out", "threads", "specialize"):
            assert f"| `{name}` |" in page, name
    rows = [line for line in page.splitlines() if line.startswith("| `")]
    stems, _, ending = page.partition("The name of a kernel ends in its instruction set: ")
    for variant in opwright_kernels.variants(function):
        if ending:
            assert f"- `{variant.name.removesuffix(f'_{variant.isa}')}`" in stems
            assert variant.isa in ending.partition(".")[0].split(", ")
        elif variant.isa == "portable":
            assert f"| `{variant.name}` |" in page
        else:
            (row,) = [line for line in rows if line.startswith(f"| `{variant.isa}` |")]
            assert variant.dtype in row.split("|")[2].replace(",", "").split()
