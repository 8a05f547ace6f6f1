"""The interpreter judges kernels, so that it reads a spec by itself."""

from __future__ import annotations

import ast
from pathlib import Path

import opwright.oracle


def test_no_module_of_the_oracle_imports_what_it_judges() -> None:
    modules = sorted(Path(opwright.oracle.__file__).parent.glob("*.py"))
    assert len(modules) > 10
    for module in modules:
        for node in ast.walk(ast.parse(module.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.level == 2:
                assert (node.module or "").split(".")[0] in ("language", "memo"), f"{module.name} imports {node.module}"
