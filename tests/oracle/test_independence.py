"""The interpreter judges kernels, so that it reads a spec by itself."""

from __future__ import annotations

import ast
from pathlib import Path

import opwright.oracle

FOLDER = Path(opwright.oracle.__file__).parent


def test_nothing_that_the_interpreter_is_made_of_imports_what_it_judges() -> None:
    pending, seen = ["interpret", "run_steps", "validate_steps"], set[str]()
    while pending:
        module = pending.pop()
        seen.add(module)
        for node in ast.walk(ast.parse((FOLDER / f"{module}.py").read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.level == 2:
                assert (node.module or "").split(".")[0] in ("language", "memo"), f"{module} imports {node.module}"
            if isinstance(node, ast.ImportFrom) and node.level == 1 and node.module not in seen:
                pending.append(node.module or "")
    assert {"statements", "indices", "extents"} <= seen
