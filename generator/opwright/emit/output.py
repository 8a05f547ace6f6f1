"""A file of the generated package before rendering: its template, its view, and its head.

In: a template and a function that makes the view. Out: text, on demand.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jinja2

from ..language.source import Prose


@dataclass(frozen=True)
class Head:
    """The head of a generated file."""

    file: Prose
    semantic_hash: Prose | None = None
    prose: tuple[Prose, ...] = ()
    header: str = ""  # of C: the header of its operation


@dataclass(frozen=True)
class Output:
    """One file of the package: its template and its view, made on demand.

    Without a template, or with one that is copied verbatim, the view's `text` is the file.
    """

    template: str
    view: Callable[[], dict[str, Any]]

    @property
    def rendered(self) -> bool:
        """Whether a template prints the view; otherwise the view has the text."""
        return self.template.endswith(".j2")

    def text(self, env: jinja2.Environment) -> str:
        """The text of the template, before `tidy`."""
        if self.rendered:
            return env.get_template(self.template).render(**self.view())
        return str(self.view()["text"])
