"""Templates: what they take, and that no text of a spec becomes structure of what they print."""

from __future__ import annotations

import ast
import dataclasses
import re
from pathlib import Path
from typing import Any

import jinja2.meta
import pytest
import yaml
from markdown_it import MarkdownIt
from opwright.commands import export_c
from opwright.emit import render
from opwright.emit.c import interface as c_interface
from opwright.generate import generated
from opwright.language.library import Library
from opwright.load import load_texts
from support import checkout
from support.specs import TEXTS, sample_project

ROOT = checkout.ROOT


@pytest.fixture(scope="module")
def made(sample_package: tuple[Library, dict[str, str]]) -> tuple[Library, dict[str, str]]:
    return sample_package


@pytest.fixture(scope="module")
def files(made: tuple[Library, dict[str, str]]) -> dict[str, str]:
    return made[1]


def rendered_templates(monkeypatch: pytest.MonkeyPatch, library: Library) -> dict[str, set[str]]:
    """The templates that the generator renders itself, with the parameters that it gives them."""
    found: dict[str, set[str]] = {}
    made = render.environment(ROOT / "templates")
    get = made.get_template

    class Watched:
        def __init__(self, name: str) -> None:
            self.name = name

        def render(self, **parameters: Any) -> str:
            found[self.name] = set(parameters)
            return get(self.name).render(**parameters)

    class Environment:
        def get_template(self, name: str) -> Watched:
            return Watched(name)

    monkeypatch.setattr(render, "environment", lambda templates: Environment())
    render.render(library, ROOT / "templates", "spec/onednn_graph")
    return found


def test_templates_declare_the_parameters_that_they_use_and_are_given(
    made: tuple[Library, dict[str, str]], monkeypatch: pytest.MonkeyPatch
):
    env = render.environment(ROOT / "templates")
    steps = load_texts({"soft_max.yaml": (ROOT / "tests/data/steps/soft_max.yaml").read_text(encoding="utf-8")})
    ops = (*made[0].ops, *steps.ops)
    rendered = rendered_templates(monkeypatch, dataclasses.replace(made[0], ops=ops))
    views = [c_interface.interface(op, made[0], env) for op in made[0].ops]
    for template, view in export_c.texts("spec", views, (), (), "kernels").values():
        rendered[f"interface/{template}"] = {*view}
    declaring = set()
    for path in sorted((ROOT / "templates").rglob("*.j2")):
        name = path.relative_to(ROOT / "templates").as_posix()
        text = path.read_text(encoding="utf-8")
        opening = re.match(r"\{# (.*?) #\}\n", text, re.S)
        assert opening, f"{name} does not open with a comment"
        used = jinja2.meta.find_undeclared_variables(env.parse(text))
        if "Parameters:" in opening[1]:
            declaring.add(name)
            declared = set(re.findall(r"`(\w+)`", opening[1].split("Parameters:")[1]))
            assert declared == used == rendered[name], name
        else:
            assert used == set(), f"{name} is made of macros, which take all that they use"
    assert declaring == rendered.keys()


# Spec text in other languages.

HOSTILE = [
    "# A heading", "- a list", "1. a list", "1) a list", "+ a list", "> a quote", "=== underline", "--- underline", "``` fence",
    "a | b || c \\| d \\\\| e", "`code` and ``code``", "*em* **strong** _em_ __strong__ ~~gone~~", "<script>alert(1)</script>",
    "[a link](https://example.org)", "![an image](x)", "<https://example.org>", "https://example.org", "www.example.org",
    "a@example.org", "&lt;b&gt; &amp; &#60;", "$x$ and $$y$$", "ends in a backslash \\", '""" \' """ \\""" {{ x }} {% y %} {# z #}',
    "*/ int x; /* ??/", "<!-- comment -->", "--> out",
]  # fmt: skip


def structure(page: str) -> list[tuple[str, str]]:
    """The tokens of a page without its text: what is a heading, a cell, a link or HTML stays."""
    found = []
    for token in MarkdownIt("gfm-like", {"html": True, "linkify": False}).parse(page):
        found.append((token.type, token.tag))
        # Escapes and breaks part a run of text; neither is structure.
        found += [
            (child.type, child.tag)
            for child in token.children or ()
            if child.type not in ("text", "text_special", "softbreak")
        ]
    return found


@pytest.mark.parametrize("text", HOSTILE)
def test_no_text_of_a_spec_becomes_structure_of_a_page(text: str):
    plain = render.environment(ROOT / "templates")

    def page(words: str) -> str:
        source = "{{ s | markdown }}\n\n- Why: {{ s | markdown }}\n\n| a | b |\n|---|---|\n| {{ s | markdown }} | {{ s | code }} |\n"
        return plain.from_string(source).render(s=words)

    assert structure(page(text)) == structure(page("harmless"))
    assert not re.search(r"(?<!\\)(?:https?:|www\.|@)//?\w", plain.from_string("{{ s | markdown }}").render(s=text))


def test_hostile_texts_everywhere_leave_pages_and_modules_as_they_are_built(tmp_path: Path, files: dict[str, str]):
    everything = " ".join(HOSTILE)

    def rewritten(node: Any, key: str = "") -> Any:
        if isinstance(node, dict):
            return {name: rewritten(child, name) for name, child in node.items()}
        if isinstance(node, list):
            return [rewritten(child, key) for child in node]
        return everything if key in TEXTS and isinstance(node, str) else node

    def edit(name: str, text: str) -> str:
        return yaml.safe_dump(rewritten(yaml.load(text, Loader=yaml.BaseLoader)), sort_keys=False, width=10_000)

    found = generated(sample_project(tmp_path, edit))[1]
    for path in found:
        if path.endswith(".md"):
            assert structure(found[path]) == structure(files[path]), path
        if path.endswith(".py"):
            assert names(found[path]) == names(files[path]), path


def names(module: str) -> list[str]:
    """Every name and attribute of a module, in order: what runs, its texts aside."""
    nodes = ast.walk(ast.parse(module))
    return [
        node.id if isinstance(node, ast.Name) else node.attr
        for node in nodes
        if isinstance(node, (ast.Name, ast.Attribute))
    ]
