"""Whatever is added to the outputs is predicted from its own record, and a record that is wrong is found out."""

from __future__ import annotations

import dataclasses
import datetime
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from opwright.emit import render
from opwright.emit.output import Output
from opwright.language.library import Library
from opwright.language.model import Op
from opwright.language.source import Prose
from opwright.project import Project, find
from opwright.review.findings import Review, review
from opwright.review.sides import Side
from opwright.trace import footprint
from support import reviewing

SPECS = reviewing.by_semantics("conv_transpose.yaml")
# What a later kernel could look like: a view of its own, with a comment, numbers and a part that is not printed.
TEMPLATE = """\
// {{ fast.about }}
{% for lane in fast.lanes %}
void {{ lane.name }}(void);
static const int width_{{ loop.index }} = {{ lane.width }};
{% endfor %}
"""
INIT = ("  init: 0\n", "  init: 1\n")
PROSE = (
    "summary: The gradient of Convolution with respect to its src",
    "summary: A gradient of Convolution with respect to its src",
)


@dataclass(frozen=True)
class Lane:
    name: str
    width: int
    unprinted: str = ""


@dataclass(frozen=True)
class Fast:
    about: Prose
    lanes: tuple[Lane, ...]


Make = Callable[[Op], Fast]


def reviewed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, make: Make, *edits: tuple[str, str]) -> Review:
    """The review of an edit where every operation has one more C file."""
    found = find()
    templates = shutil.copytree(found.templates, tmp_path / "templates", dirs_exist_ok=True)
    (templates / "c" / "fast.c.j2").write_text(TEMPLATE, encoding="utf-8")
    outputs = render.outputs

    def more(library: Library, templates: Path, folder: str) -> dict[str, Output]:
        files = outputs(library, templates, folder)
        added = {
            f"c/fast_{op.function}.c": Output("c/fast.c.j2", lambda op=op: {"fast": make(op)}) for op in library.ops
        }
        return {**files, **added}

    monkeypatch.setattr(render, "outputs", more)
    project = Project(found.root, found.spec, templates, found.output)
    after = reviewing.edited(SPECS, "conv_transpose.yaml", *edits)
    return review(project, Side("before", SPECS, {}), Side("after", after, {}), datetime.date(2030, 1, 1))


def fast(op: Op) -> Fast:
    width = 8 + len(str(op.semantics.init)) + int(op.semantics.init)
    return Fast(Prose(op.summary), (Lane("one", width, op.summary), Lane("two", 8)))


FILE = "c/fast_conv_transpose.c"


def test_an_output_that_is_added_is_predicted_by_what_its_view_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    found = reviewed(tmp_path, monkeypatch, fast, INIT)
    assert found.impact.unpredicted == []
    assert FILE in found.impact.observed.files
    assert FILE in next(f for f in found.findings if f.rule.id == "semantics-edge-changed").moved.files


def test_what_stands_in_a_comment_or_is_not_printed_moves_no_token(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    found = reviewed(tmp_path, monkeypatch, fast, PROSE)
    assert found.impact.unpredicted == []
    assert FILE not in found.impact.observed.files


def test_what_is_read_and_comes_out_the_same_moves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    found = reviewed(tmp_path, monkeypatch, lambda op: Fast(Prose(), (Lane("one", len(str(op.semantics.init))),)), INIT)
    assert found.impact.unpredicted == []
    assert FILE not in found.impact.observed.files


def test_a_view_that_reads_past_its_stand_in_is_found_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    hidden = [0]

    def make(op: Op) -> Fast:
        hidden[0] += 1
        return Fast(Prose(), (Lane("one", hidden[0]),))

    found = reviewed(tmp_path, monkeypatch, make, INIT)
    assert f"ConvTranspose: files changed unpredicted: {FILE}" in found.impact.unpredicted


def test_prose_that_reaches_a_token_is_found_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    found = reviewed(tmp_path, monkeypatch, lambda op: Fast(Prose(), (Lane(Prose(op.summary.split()[0]), 1),)), PROSE)
    assert f"ConvTranspose: files changed unpredicted: {FILE}" in found.impact.unpredicted


def test_a_class_of_which_a_template_took_nothing_counts_as_a_whole():
    kinds = dataclasses.make_dataclass("Node", [("a", int), ("b", int)], frozen=True)
    one, other = kinds(1, 2), kinds(1, 3)

    def taken(view: Any, names: frozenset[str]) -> object:
        return footprint.taken("x.c", {"node": view}, {kinds: names} if names else {}, frozenset()).whole

    assert taken(one, frozenset()) != taken(other, frozenset())
    assert taken(one, frozenset({"a"})) == taken(other, frozenset({"a"}))
