"""What the generator writes: the same bytes everywhere, moved by what it is made of and by nothing else."""

from __future__ import annotations

import ast
import dataclasses
import hashlib
import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jinja2.meta
import pytest
import yaml
from markdown_it import MarkdownIt
from opwright import cli, generate
from opwright.commands import generate as command
from opwright.emit import render, wrap
from opwright.generate import generated
from opwright.language import expr
from opwright.language.library import Library
from opwright.language.model import Op
from opwright.load import load_texts
from opwright.project import Project, find
from opwright.write import MANIFEST, compare, write
from support import checkout

ROOT = checkout.ROOT
GOLDEN = Path(__file__).parent / "golden"
UPDATE = os.environ.get("OPWRIGHT_UPDATE_GOLDEN") == "1"
PROVENANCE = "PROVENANCE.json"


@pytest.fixture(scope="module")
def made() -> tuple[Library, dict[str, str]]:
    return generated(find())


@pytest.fixture(scope="module")
def files(made: tuple[Library, dict[str, str]]) -> dict[str, str]:
    return made[1]


def edited(folder: Path, edit: Callable[[str, str], str]) -> dict[str, str]:
    """What the project's specs make after `edit(name, text)` of each of their files."""
    spec = folder / "spec" / "onednn_graph"
    spec.mkdir(parents=True)
    for path in sorted((ROOT / "spec" / "onednn_graph").glob("*.yaml")):
        (spec / path.name).write_text(edit(path.name, path.read_text(encoding="utf-8")), encoding="utf-8")
    return generated(Project(folder, spec, ROOT / "templates", folder / "none"))[1]


def different(one: dict[str, str], other: dict[str, str]) -> set[str]:
    assert one.keys() == other.keys()
    return {path for path in one if one[path] != other[path]}


# Determinism.


def test_no_surrounding_moves_a_byte(tmp_path: Path, files: dict[str, str]):
    for number, (seed, locale, folder) in enumerate([("1", "C", "here"), ("4711", "tr_TR.UTF-8", "some where/else ß")]):
        copy = checkout.copy(tmp_path / folder)
        away = tmp_path / f"away{number}"
        away.mkdir()
        output = tmp_path / f"output{number}"
        ran = checkout.run(
            copy,
            "-m",
            "opwright",
            "generate",
            "--output",
            str(output),
            cwd=away,
            PYTHONHASHSEED=seed,
            LC_ALL=locale,
            LANG=locale,
        )
        assert ran.returncode == 0, ran.stdout + ran.stderr
        found = {p.relative_to(output).as_posix(): p.read_bytes() for p in output.rglob("*") if p.is_file()}
        assert found == {path: text.encode("utf-8") for path, text in files.items()}


def test_the_committed_package_is_what_the_specs_make(files: dict[str, str]):
    assert compare(ROOT / "generated" / "opwright_kernels", files) == []


def test_the_package_stays_small(made: tuple[Library, dict[str, str]]):
    """No source that is hard to read, and no repository that is slow to clone: bounds in bytes."""
    library, files = made
    sizes = {path: len(text.encode("utf-8")) for path, text in files.items()}
    sources = {path: size for path, size in sizes.items() if path.endswith((".c", ".py", ".md"))}
    assert {path: size for path, size in sources.items() if size > 200_000} == {}
    own = {op.op: sum(sizes[path] for path in render.of_op(op, library)) for op in library.ops}
    pointwise = {op.op for op in library.ops if op.stepped and _pointwise(op)}
    stepped = {op.op for op in library.ops if op.stepped}
    assert len(pointwise) > 20
    assert sum(own[op] for op in pointwise) < 1_000_000
    assert sum(own[op] for op in stepped) < 6_000_000
    assert sum(sizes.values()) - sum(own[op] for op in stepped) < 4_000_000


def _pointwise(op: Op) -> bool:
    """Whether each cell of the one output is an expression of one cell of each input."""
    assignments = [assignment for step in op.semantics.steps for assignment in step.assignments]
    reads = [node for one in assignments for node in expr.walk(one.value) if isinstance(node, expr.Read)]
    letters = {
        tuple(expr.names(index) for index in node.indices) for one in assignments for node in (one.target, *reads)
    }
    return len(op.semantics.steps) == len(letters) == 1 and assignments[0].op == "set"


def test_nothing_tells_where_or_when_it_was_made(files: dict[str, str]):
    for path, text in files.items():
        assert str(ROOT) not in text, path
        assert str(Path.home()) not in text, path


# What is compared.


def snapshot(folder: Path) -> dict[str, tuple[bytes, int]]:
    return {
        p.relative_to(folder).as_posix(): (p.read_bytes(), p.stat().st_mtime_ns)
        for p in folder.rglob("*")
        if p.is_file()
    }


@pytest.fixture
def package(tmp_path: Path, files: dict[str, str]) -> Path:
    folder = tmp_path / "package"
    write(folder, files)
    return folder


def check(folder: Path, capsys: pytest.CaptureFixture[str]) -> tuple[int, list[str]]:
    """The exit code of `generate --check` and the lines that tell of files; nothing may have been written."""
    before = snapshot(folder)
    code = cli.main(["generate", "--check", "--output", str(folder)])
    assert snapshot(folder) == before
    lines = capsys.readouterr().out.splitlines()
    return code, [line for line in lines if re.match(r"[a-z-]+: ", line)]


def test_check_passes_where_nothing_differs(package: Path, capsys: pytest.CaptureFixture[str]):
    assert check(package, capsys) == (command.OK, [])


def test_check_tells_stale_from_edited_missing_and_orphaned(package: Path, capsys: pytest.CaptureFixture[str]):
    manifest = json.loads((package / MANIFEST).read_text(encoding="utf-8"))
    stale = package / "c" / "convolution_f32.c"
    stale.write_text("// as an older generator made it\n", encoding="utf-8")
    manifest["outputs"]["c/convolution_f32.c"]["sha256"] = hashlib.sha256(stale.read_bytes()).hexdigest()
    (package / MANIFEST).write_text(json.dumps(manifest), encoding="utf-8")
    with (package / "_convolution.py").open("a", encoding="utf-8") as stream:
        stream.write("# a quick fix\n")
    (package / "py.typed").unlink()
    (package / "c" / "leftover.c").write_text("int leftover;\n", encoding="utf-8")
    code, lines = check(package, capsys)
    assert code == command.OUT_OF_DATE == 4
    assert set(lines) == {
        "stale: MANIFEST.json",
        "stale: c/convolution_f32.c",
        "hand-edited: _convolution.py",
        "missing: py.typed",
        "orphaned: c/leftover.c",
    }


def test_check_of_a_folder_that_is_not_there_finds_every_file_missing_and_makes_none(
    tmp_path: Path, files: dict[str, str], capsys: pytest.CaptureFixture[str]
):
    folder = tmp_path / "nowhere"
    code, lines = check(folder, capsys)
    assert code == command.OUT_OF_DATE
    *named, rest = lines
    assert set(named) <= {f"missing: {path}" for path in files}
    assert len(set(named)) == command.SHOWN
    assert rest == f"missing: {len(files) - command.SHOWN} more"
    assert not folder.exists()


def test_check_fails_when_nothing_was_compared(
    made: tuple[Library, dict[str, str]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
):
    monkeypatch.setattr(generate, "generated", lambda project: (made[0], {"__init__.py": ""}))
    assert cli.main(["generate", "--check", "--output", str(tmp_path)]) == command.FAILED
    assert "nothing was compared" in capsys.readouterr().out


def test_generate_mends_what_check_found(package: Path, capsys: pytest.CaptureFixture[str]):
    (package / "py.typed").unlink()
    (package / "_convolution.py").write_text("", encoding="utf-8")
    assert cli.main(["generate", "--output", str(package)]) == command.OK
    capsys.readouterr()
    assert check(package, capsys) == (command.OK, [])


def test_generate_leaves_a_file_alone_that_it_never_made(package: Path):
    mine = package / "notes.txt"
    mine.write_text("mine", encoding="utf-8")
    assert cli.main(["generate", "--output", str(package)]) == command.OK
    assert mine.read_text(encoding="utf-8") == "mine"


# What moves what.


def test_a_blank_line_or_a_comment_moves_line_numbers_only(tmp_path: Path, files: dict[str, str]):
    moved = edited(tmp_path, lambda name, text: "# a comment\n\n" + text.replace("\ninputs:", "\n\n# more\ninputs:"))
    assert different(files, moved) == {PROVENANCE, MANIFEST}


TEXTS = {"summary", "description", "say", "reason", "page", "library", "ruling", "why", "title", "release", "form"}


def retold(node: Any, key: str = "") -> Any:
    """A spec with every text for people replaced."""
    if isinstance(node, dict):
        return {name: retold(child, name) for name, child in node.items()}
    if isinstance(node, list):
        return [retold(child, key) for child in node]
    return f"Told anew: {node}" if key in TEXTS and isinstance(node, str) else node


def test_an_edited_description_leaves_every_byte_of_c_alone(tmp_path: Path, files: dict[str, str]):
    def edit(name: str, text: str) -> str:
        tree = yaml.load(text, Loader=yaml.BaseLoader)
        return yaml.safe_dump(retold(tree), sort_keys=False, width=10_000)

    found = different(files, edited(tmp_path, edit))
    assert {path for path in found if path.endswith((".c", ".h"))} == set()
    assert "docs/convolution.md" in found
    assert "_convolution.py" in found


def test_a_changed_formula_of_one_operation_moves_no_other_operation(tmp_path: Path, files: dict[str, str]):
    def edit(name: str, text: str) -> str:
        assert name != "conv_transpose.yaml" or text.count("finish: dst[n, m, x] + bias[m]") == 1
        return (
            text.replace("finish: dst[n, m, x] + bias[m]", "finish: bias[m] + dst[n, m, x]")
            if name == "conv_transpose.yaml"
            else text
        )

    found = different(files, edited(tmp_path, edit))
    assert found - {MANIFEST, PROVENANCE} == {
        *(f"c/conv_transpose_{dtype}.c" for dtype in ("f32", "bf16", "f16")),
        *(
            f"c/entries/conv_transpose_{dtype}{part}.c"
            for part in ("", "_depthwise")
            for dtype in ("f32", "bf16", "f16")
        ),
        "docs/conv_transpose.md",
    }


# What it looks like.

EXAMPLES = [
    "conv_transpose_f32_nxc_xoi_dense_portable",
    "conv_transpose_bf16_ncx_iox_depthwise_portable",
    "conv_transpose_backward_data_f32_ncx_iox_grouped_portable",
    "conv_transpose_backward_weights_f16_nxc_xoi_dense_portable",
    "convolution_f16_nxc_xio_grouped_portable",
    "convolution_backward_data_f32_ncx_oix_depthwise_portable",
    "convolution_backward_weights_bf16_ncx_oix_grouped_portable",
]


def golden(name: str, text: str) -> None:
    path = GOLDEN / name
    if UPDATE:
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    assert path.read_text(encoding="utf-8") == text, "look at the difference; OPWRIGHT_UPDATE_GOLDEN=1 takes it over"


@pytest.mark.parametrize("name", EXAMPLES)
def test_a_kernel_reads_as_it_did_when_it_was_reviewed(name: str, files: dict[str, str]):
    (text,) = [text for path, text in files.items() if path.endswith(".c") and f"void {name}(" in text]
    (function,) = re.findall(rf"^// [^\n]*\nvoid {name}\(.*?^}}\n", text, re.M | re.S)
    golden(f"{name}.c", function)


def test_the_head_of_a_file_reads_as_it_did_when_it_was_reviewed(files: dict[str, str]):
    head, _, _ = files["c/conv_transpose_bf16.c"].partition("\n#include")
    golden("conv_transpose_bf16_head.c", re.sub(r"(?<=// Meaning of the spec: )[0-9a-f]{64}", "...", head))


def test_golden_files_are_those_of_the_examples():
    assert {path.name for path in GOLDEN.iterdir()} == {
        *(f"{name}.c" for name in EXAMPLES),
        "conv_transpose_bf16_head.c",
    }


def test_breaking_long_lines_changes_no_meaning():
    conditions = " or ".join(f"(a{n} == b{n} and not c[{n}])" for n in range(12))
    keywords = ", ".join(f"name{n}={{1: ({n}, 2)}}" for n in range(14))
    terms = ", ".join(f"i * j + {n}" for n in range(16))
    sentence = "a long sentence, with (brackets) and a \\\\ backslash " * 6
    numbers = ", ".join(str(n) for n in range(60))
    long = (
        "def f(a, b):\n"
        f'    """A docstring of some length that is left alone, {"word " * 30}."""\n'
        f"    if not ({conditions}):\n"
        f"        raise g('x' , {keywords})\n"
        f"    return h(max({terms}) for i, j in zip(a, b) if i and j)\n"
        f'X = {{"key": "{sentence}", "other": ({numbers},), "strings": "a \\" ( b", "last": k(a)(b)}}\n'
    )
    short = wrap.wrap_python(long)
    assert ast.dump(ast.parse(short)) == ast.dump(ast.parse(long))
    assert max(len(line) for line in short.splitlines() if "docstring" not in line) <= wrap.WIDTH
    assert wrap.wrap_python(short) == short


# Templates.


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

    def page(said: str) -> str:
        source = "{{ s | markdown }}\n\n- Why: {{ s | markdown }}\n\n| a | b |\n|---|---|\n| {{ s | markdown }} | {{ s | code }} |\n"
        return plain.from_string(source).render(s=said)

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

    found = edited(tmp_path, edit)
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
