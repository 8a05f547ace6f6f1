"""The files of operations of steps.

In: an operation of steps and its library. Out: a dict from path to Output, nothing rendered.
"""

from __future__ import annotations

import functools
from typing import Any

from ...derive import signature
from ...derive.rewrites.as_steps import as_steps
from ...derive.variants import row_name
from ...language import hashing
from ...language.dtypes import DTYPES
from ...language.library import Library
from ...language.model import Op
from ...language.source import Prose
from .. import escape, prose
from ..links import links
from ..output import Head, Output
from . import prose as step_prose
from .kernels import step_unit
from .module import step_wrapper
from .rows import SUMS

__all__ = ["files", "rows", "step_unit", "step_wrapper"]


def rows(head: Head) -> Output:
    """The common header of kernels of steps."""
    halves = tuple(SUMS >> level for level in range(1, SUMS.bit_length()))
    view = {"head": head, "dtypes": tuple(DTYPES.values()), "halves": halves, "lanes": SUMS}
    return Output("c/step_rows.h.j2", lambda: view)


def files(op: Op, library: Library) -> dict[str, Output]:
    """The files of an operation of steps. Each view requests what it shows, so that its reads are recorded."""

    def head(*more: Any) -> Head:
        return Head(Prose(op.at.file), *more)

    def module() -> dict[str, Any]:
        made = as_steps(op)
        texts = {"docstring": Prose(step_prose.docstring(made)), "deprecation": prose.deprecation(made)}
        return {"head": head(), "w": step_wrapper(made), "links": links(made), **texts}

    def page() -> dict[str, Any]:
        made = as_steps(op)
        return {"head": head(), "page": step_prose.page(made, step_wrapper(made), library.pages)}

    def kernel(number: int) -> dict[str, Any]:
        made = as_steps(op)
        lines = tuple(Prose(escape.c_comment_line(line)) for line in step_prose.unit_head(made, made.dtypes[number]))
        semantic = head(Prose(hashing.shown_hash(made)), lines, signature.header(op))
        return {"head": semantic, "kernel": step_unit(made).kernels[number]}

    files = {
        signature.header_path(op): Output(
            "c/step_header.h.j2", lambda: {"head": head(), "unit": step_unit(as_steps(op))}
        ),
        f"_{op.function}.py": Output("python/step_op.py.j2", module),
        f"docs/{op.function}.md": Output("docs/step_op.md.j2", page),
    }
    for number, row in enumerate(op.dtypes):
        path = f"c/{op.function}_{row_name(op, row)}.c"
        files[path] = Output("c/step_unit.c.j2", functools.partial(kernel, number))
    return files
