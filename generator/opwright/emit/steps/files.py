"""The files of operations of steps.

In: an operation of steps and its library. Out: a dict from path to Output, nothing rendered.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from ...derive import signature
from ...derive.rewrites.as_steps import as_steps
from ...derive.rewrites.fitting import SUFFIX, fitting, fitting_sizes
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

    def page() -> dict[str, Any]:
        made = as_steps(op)
        return {"head": Head(Prose(op.at.file)), "page": step_prose.page(made, step_wrapper(made), library.pages)}

    files = _of_program(op, lambda: as_steps(op))
    files[f"docs/{op.function}.md"] = Output("docs/step_op.md.j2", page)
    for fits in programs(op)[1:]:
        files |= _of_program(fits, lambda: programs(op)[1])
    return files


def programs(op: Op) -> tuple[Op, ...]:
    """The operation, and what it is for calls whose sizes fit, if it differs."""
    fits = fitting(as_steps(op))
    return (op,) if fits is None else (op, fits)


def _of_program(op: Op, program: Callable[[], Op]) -> dict[str, Output]:
    """The module and the kernels of an operation, or of what it is for calls whose sizes fit."""

    def head(*more: Any) -> Head:
        return Head(Prose(op.at.file), *more)

    def module() -> dict[str, Any]:
        made = program()
        texts = {"docstring": Prose(step_prose.docstring(made)), "deprecation": prose.deprecation(made)}
        fits = {"function": made.function + SUFFIX, "sizes": fitting_sizes(made)} if fitting(made) else None
        return {"head": head(), "w": step_wrapper(made), "links": links(made), "fits": fits, **texts}

    def kernel(number: int) -> dict[str, Any]:
        made = program()
        lines = tuple(Prose(escape.c_comment_line(line)) for line in step_prose.unit_head(made, made.dtypes[number]))
        semantic = head(Prose(hashing.shown_hash(made)), lines, signature.header(op))
        return {"head": semantic, "kernel": step_unit(made).kernels[number]}

    files = {
        signature.header_path(op): Output("c/step_header.h.j2", lambda: {"head": head(), "unit": step_unit(program())}),
        f"_{op.function}.py": Output("python/step_op.py.j2", module),
    }
    for number, row in enumerate(op.dtypes):
        path = f"c/{op.function}_{row_name(op, row)}.c"
        files[path] = Output("c/step_unit.c.j2", functools.partial(kernel, number))
    return files
