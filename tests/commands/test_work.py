"""How much is done for a command: nothing twice, and nothing that was not asked for. Counted, never timed."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator

import pytest
from opwright import load
from opwright.derive import nest
from opwright.derive.variants import expand, layout_choices
from opwright.emit import kernels, nodes, render
from opwright.emit.steps import module as step_module
from opwright.generate import generated
from opwright.oracle import sample
from opwright.project import find
from support import checkout, reviewing

SPECS = reviewing.specs()
HEAVY = ("numpy", "rich", "jinja2", "bs4", "docutils", "markdown_it", "watchfiles", "torch")


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> Iterator[Counter[str]]:
    """How often each kernel's view is made, and each nest derived, by name."""
    found: Counter[str] = Counter()
    build, derive = kernels._Typed.body, nest._Derivation.nest

    def counted_build(self: kernels._Typed) -> tuple[nodes.Stmt, ...]:
        found[self.variant.name] += 1
        return build(self)

    def counted_derive(self: nest._Derivation) -> nest.Nest:
        found[f"nest of {self.op.function}"] += 1
        return derive(self)

    monkeypatch.setattr(kernels._Typed, "body", counted_build)
    monkeypatch.setattr(nest._Derivation, "nest", counted_derive)
    return found


def imported(command: str) -> set[str]:
    """The packages that a command imports, by the names of their roots and of Opwright's own parts."""
    code = f"import sys\nfrom opwright import cli\ntry:\n    cli.main({command.split()!r})\nexcept SystemExit:\n    pass\nprint('MODULES', *sys.modules)"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    names = out.rpartition("MODULES ")[2].split()
    return {name if name.startswith("opwright.") else name.partition(".")[0] for name in names}


def test_generate_derives_every_nest_and_makes_every_kernel_once(made: Counter[str], monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(os, "cpu_count", lambda: 1)  # so that all of it is done in this process
    library, _ = generated(find())
    ops = [op for op in library.ops if not op.stepped]
    expected = Counter({variant.name: 1 for op in ops for variant in expand(op) if not variant.isa.fast})
    expected |= {f"nest of {op.function}": len(layout_choices(op)) * len(op.classes or [None]) for op in ops}
    assert made == expected


def test_a_review_renders_an_operation_that_was_edited_and_no_other(made: Counter[str]):
    before = reviewing.by_semantics("conv_transpose.yaml")
    after = reviewing.edited(before, "conv_transpose.yaml", ("  init: 0\n", "  init: 1\n"))
    reviewing.reviewed(before, before)  # what loading alone makes
    loaded = Counter(made)
    made.clear()
    found = reviewing.reviewed(before, after)
    made.subtract(loaded)
    kernels = Counter({name: count for name, count in made.items() if not name.startswith("nest of ")})
    others = {name: count for name, count in kernels.items() if name not in found.impact.observed.kernels}
    assert others == {}
    # BASE with its reads noted, BASE with its edits made, HEAD; that kernels follow from HEAD is found on its first row.
    expected = {name: 3 + ("_f32_" in name) for name in found.impact.observed.kernels}
    assert {name: kernels[name] for name in kernels.keys() - others} == expected


def test_an_edit_of_prose_makes_no_view_of_c_anew(made: Counter[str], monkeypatch: pytest.MonkeyPatch):
    from opwright.review import impact
    from opwright.trace import footprint

    asked: list[str] = []

    def noted(path: str, *rest: object) -> footprint.Taken:
        asked.append(path)
        return footprint.taken(path, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(impact, "taken", noted)
    edit = (
        "summary: The gradient of Convolution with respect to its src",
        "summary: A gradient of Convolution with respect to its src",
    )
    found = reviewing.reviewed(SPECS, reviewing.edited(SPECS, "conv_transpose.yaml", edit))
    assert found.impact.observed.files == {"docs/API.md", "docs/conv_transpose.md"}
    assert found.impact.observed.files <= {*asked}
    assert [path for path in asked if path.startswith(("c/", "include/"))] == []


@pytest.mark.parametrize("command", ["--help", "--version", "schema", "generate --help"])
def test_a_command_that_needs_no_library_imports_none(command: str):
    found = imported(command)
    assert found & {*HEAVY, "opwright.commands.diff", "opwright.commands.audit", "opwright.commands.demo"} == set()


def test_generate_and_diff_import_nothing_of_other_commands():
    for command in ("generate --check", "diff spec spec"):
        found = imported(command)
        assert "jinja2" in found
        assert found & {"bs4", "docutils", "markdown_it", "watchfiles", "torch", "opwright.commands.audit"} == set()


def test_the_stub_of_a_package_derives_no_kernels(monkeypatch: pytest.MonkeyPatch):
    made = load.load_texts(SPECS)
    files = render.of_library(made, checkout.ROOT / "templates", "spec/onednn_graph")
    monkeypatch.setattr(step_module, "staged", lambda op: pytest.fail(f"the phases of {op.op} were derived"))
    text = files["__init__.pyi"].text(render.environment(checkout.ROOT / "templates"))
    assert all(f"def {op.function}(" in text for op in made.ops)


def test_samples_that_sizes_alone_refuse_are_not_validated(monkeypatch: pytest.MonkeyPatch):
    validated = Counter[str]()
    validation = sample._Legal.validation

    def counted(self: sample._Legal) -> object:
        validated[self.op.op] += 1
        return validation(self)

    monkeypatch.setattr(sample._Legal, "validation", counted)
    for op in load.load_texts(SPECS).ops:
        if op.normal_form is not None:
            assert len([*sample.legal(op)]) == sample.CALLS
            assert validated[op.op] == sample.CALLS + sample.COLUMNS
