"""The outputs of the convolutions before they are text, and where a text stands in them."""

from __future__ import annotations

from opwright.emit import render
from opwright.emit.output import Output
from opwright.language.library import Library
from opwright.project import Project


def outputs(library: Library, project: Project) -> dict[str, Output]:
    return render.outputs(library, project.templates, "spec/onednn_graph")


def line_of(texts: dict[str, str], path: str, text: str) -> int:
    return next(number for number, line in enumerate(texts[path].splitlines(), start=1) if text in line)
