"""What a generated file or line comes from: fields of specs, lines of templates, functions of the generator, commits."""

from __future__ import annotations

import dataclasses
import difflib
import io
import json
import os
import random
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jinja2
import pytest
from opwright import cli
from opwright.emit import render
from opwright.emit.output import Output
from opwright.language import expr
from opwright.language.library import Library
from opwright.language.schema import Located, Node, Spelled
from opwright.project import Project, find
from opwright.trace import edits, marking, origins, recording, why
from rich.console import Console
from support import checkout
from support.specs import convolutions

ROOT = checkout.ROOT
PACKAGE = ROOT / "generated" / "opwright_kernels"
KERNELS = "c/conv_transpose_f32.c"


@pytest.fixture(scope="module")
def project() -> Project:
    return find()


@pytest.fixture(scope="module")
def library(project: Project) -> Library:
    return convolutions()


def outputs(library: Library, project: Project) -> dict[str, Output]:
    return render.outputs(library, project.templates, "spec/onednn_graph")


@pytest.fixture(scope="module")
def texts(library: Library, project: Project) -> dict[str, str]:
    return render.render(library, project.templates, "spec/onednn_graph")


@pytest.fixture(scope="module")
def reads(library: Library, project: Project, texts: dict[str, str]) -> dict[str, set[str]]:
    """What is read of the specs for the files of one operation and those of all: each is made from a stand-in of its
    own, and must come out the same."""
    found = {}
    env = render.environment(project.templates)
    for path in texts:
        if re.search("convolution|backward|f16", path):
            continue
        standin, read = recording.record(library)
        output = outputs(standin, project)[path]
        read.clear()
        assert render.tidy(path, output.text(env)) == texts[path]
        found[path] = set(read)
    return found


# Fields.


def changed(value: Any, path: str, kept: set[str]) -> Any:
    """The same piece of a spec with every field changed that is not among `kept`."""
    if isinstance(value, Node) or not path:
        names = [field.name for field in dataclasses.fields(value) if field.name != "at"]
        inner = {name: changed(getattr(value, name), f"{path}.{name}".lstrip("."), kept) for name in names}
        return dataclasses.replace(value, **inner)
    if isinstance(value, dict):
        return {key: changed(entry, f"{path}.{key}", kept) for key, entry in value.items()}
    if recording._branches(value):
        return tuple(changed(entry, f"{path}.{label}", kept) for label, entry in recording._labelled(value))
    if path in kept:
        return value
    if isinstance(value, Located):
        return dataclasses.replace(value, tree=expr.Number(7), text="7")
    return value + 1 if isinstance(value, int) else f"{value}x"


def test_no_field_that_was_not_read_moves_a_file(
    library: Library, project: Project, texts: dict[str, str], reads: dict[str, set[str]]
):
    env = render.environment(project.templates)
    standin, naming = recording.record(library)
    assert outputs(standin, project).keys() == texts.keys()  # which files there are is read apart from what they hold
    for path, read in reads.items():
        other = changed(library, "", read | naming)
        if path == KERNELS:
            assert other.ops[0].summary != library.ops[0].summary
        made = [output for name, output in outputs(other, project).items() if name == path]
        assert [render.tidy(path, output.text(env)) for output in made] == [texts[path]], path


def test_no_prose_of_a_spec_is_read_for_a_kernel(reads: dict[str, set[str]]):
    prose = ("summary", "description", "reason", "source", "say")
    for path, read in reads.items():
        if path.startswith("c/"):
            assert {field for field in read if field.split(".")[-1] in prose} == set(), path


def test_a_file_of_one_operation_is_made_from_that_operation(reads: dict[str, set[str]]):
    assert {field.split(".")[1] for field in reads[KERNELS] if field.startswith("ops.")} == {"ConvTranspose"}


@pytest.mark.parametrize(
    ("use", "path"),
    [
        (lambda d: d["N"], "dims.N"),
        (lambda d: d.get("N"), "dims.N"),
        (lambda d: d.get("Z"), "dims"),
        (lambda d: "N" in d, "dims"),
        (lambda d: bool(d), "dims"),
        (lambda d: len(d), "dims"),
        (lambda d: list(d), "dims"),
        (lambda d: list(d.keys()), "dims"),
        (lambda d: list(d.values()), "dims.N"),
        (lambda d: list(d.items()), "dims.N"),
        (lambda d: dict(d), "dims.N"),
        (lambda d: {**d}, "dims.N"),
        (lambda d: d | {}, "dims.N"),
        (lambda d: {} | d, "dims.N"),
        (lambda d: {}.update(d), "dims.N"),
        (lambda d: d == {}, "dims.N"),
        (lambda d: d != {}, "dims.N"),
        (lambda d: d.copy(), "dims.N"),
        (lambda d: list(reversed(d)), "dims"),
        (lambda d: json.dumps(d, default=str), "dims.N"),
    ],
)
def test_every_way_to_read_a_mapping_is_noticed(library: Library, use: Callable[[Any], Any], path: str):
    standin, read = recording.record(library.op("Convolution").tensor("src"))
    use(standin.dims)
    assert path in read


def test_a_stand_in_of_a_field_that_is_replaced_has_told_of_all_others(library: Library):
    standin, read = recording.record(library.op("Convolution"))
    replaced = dataclasses.replace(standin.attribute("strides"), min=2)
    assert replaced.min == 2
    assert {"attributes.strides.max", "attributes.strides.summary", "attributes.strides.at"} <= read


def test_every_field_stands_where_the_specs_have_it(library: Library, project: Project):
    for field in recording.fields(library.op("ConvTranspose")).values():
        line = (project.root / field.at.file).read_text(encoding="utf-8").splitlines()[field.at.line - 1]
        said = field.value.text if isinstance(field.value, Located) else field.value
        if isinstance(field.value, (Located, Spelled)):  # a default stands nowhere
            assert said[:30] in line, field
        if field.path == "attributes.strides.min":
            assert line.strip() == "min: 1"


# Templates.


def test_the_text_of_every_piece_stands_in_the_line_of_the_template_that_is_named(
    library: Library, project: Project, texts: dict[str, str]
):
    env = render.environment(project.templates)
    found = outputs(library, project)
    for path, text in texts.items():
        lines = marking.marked(env, path, found[path], text)
        assert ["".join(piece.text for piece in line).strip() for line in lines][:1] == [
            line.strip() for line in text.splitlines()
        ][:1]
        assert len(lines) == len(text.splitlines())
        for pieces in lines:
            for piece in pieces:
                if piece.value or not piece.text.strip() or not piece.places:
                    continue
                place = piece.places[-1]
                source = (project.templates / place.template).read_text(encoding="utf-8").splitlines()
                assert piece.text.strip() in source[place.line - 1], (path, piece)


def line_of(texts: dict[str, str], path: str, text: str) -> int:
    return next(number for number, line in enumerate(texts[path].splitlines(), start=1) if text in line)


def test_a_template_that_measures_its_own_text_is_named_without_a_line():
    env = jinja2.Environment(
        loader=jinja2.DictLoader({"a.j2": "{% macro m() %}word{% endmacro %}{{ m() | length }} {{ m() }}\n"})
    )
    output = Output("a.j2", dict)
    assert output.text(env) == "4 word"
    (line,) = marking.marked(env, "a.txt", output, "4 word\n")
    assert line == (marking.Piece("4 word", (marking.Place("a.j2"),)),)


def test_macros_are_named_with_their_callers():
    sources = {
        "top.j2": '{% import "low.j2" as low %}\nfirst\n{% for n in (1, 2) %}\n{{ low.twice(n) | indent(2, first=True) -}}\n{% endfor %}\n',
        "low.j2": "{% macro twice(n) %}\na{{ n }}\n\nb{{ n }}\n{% endmacro %}\n",
    }
    env = jinja2.Environment(
        loader=jinja2.DictLoader(sources), trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True
    )
    output = Output("top.j2", dict)
    text = render.tidy("x.txt", output.text(env))
    assert text == "first\n  a1\n\n  b1\n  a2\n\n  b2\n"
    found = [
        [
            (place.template, place.line, place.macro)
            for place in dict.fromkeys(p for piece in line if piece.text.strip() for p in piece.places)
        ]
        for line in marking.marked(env, "x.txt", output, text)
    ]
    a, b = ([("top.j2", 4, ""), ("low.j2", number, "twice")] for number in (2, 4))
    assert found == [[("top.j2", 2, "")], a, [], b, a, [], b]


# Functions of the generator.


def test_texts_of_a_view_are_traced_to_the_functions_that_made_them(library: Library, project: Project):
    standin, _ = recording.record(library)
    found = origins.Origins()
    origins.traced(outputs(standin, project)[KERNELS].view, found)
    stride = [step.function for step in found.of("weights_stride_i")]
    assert stride[0] == "kernel"
    assert {"lowered", "elements", "_stride"} <= {*stride}
    first = next(iter(found.of("bias may be NULL and then counts as 0.")))
    assert Path(first.module).name == "prose.py"
    assert {"kernel", "unit_head", "semantic_hash"} <= {step.function for step in found.asked}
    assert found.of("a text that nobody makes") == ()


# The command.


def run(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    code = cli.main(["why", *map(str, arguments)])
    return code, *capsys.readouterr()


def test_a_line_is_told_by_the_names_in_it(capsys: pytest.CaptureFixture[str], texts: dict[str, str]):
    line = line_of(texts, KERNELS, "const int64_t k_h_step = S_h / ")
    code, out, _ = run(capsys, f"{PACKAGE / KERNELS}:{line}", "--json")
    found = json.loads(out)
    assert code == 0
    assert found["text"].strip().startswith("const int64_t k_h_step")
    assert [part["file"] for part in found["templates"]][:3] == [
        f"templates/c/{name}.c.j2" for name in ("unit", "kernel", "nodes")
    ]
    assert [part["name"] for part in found["templates"][1:]] == ["define", "block", "declare", "binary", "name", "call"]
    assert "steps" in [part["name"] for part in found["generator"]]
    assert {Path(part["file"]).name for part in found["generator"]} <= {"lowering.py", "ranges.py", "scopes.py"}
    symbol = next(part for part in found["spec"] if part["name"] == "ConvTranspose.attributes.strides.symbol")
    assert symbol["because"] == "named S"
    spec_line = (ROOT / symbol["file"]).read_text(encoding="utf-8").splitlines()[symbol["line"] - 1]
    assert spec_line.strip() == "symbol: S"
    assert not [part for part in found["spec"] if ".attributes.groups." in part["name"]]


@pytest.mark.parametrize(
    ("text", "field"),
    [
        ("const int64_t k_h_step = S_h / ", "semantics.ranges.k"),
        ("const int64_t weights_stride_i = ", "inputs.weights.name"),
        ("for (int64_t c = 0; c < IC; ++c) {", "semantics.ranges.c"),
        ("sums[lane] = 0.0f;", "semantics.init"),
        ("sums[dst_w_at + i_w * S_w] += src", "semantics.reduce"),
        ("dst[dst_at + dst_w] = sums", "semantics.finish"),
    ],
)
def test_a_statement_is_told_by_the_field_that_it_was_made_from(
    capsys: pytest.CaptureFixture[str], texts: dict[str, str], text: str, field: str
):
    found = json.loads(run(capsys, f"{PACKAGE / KERNELS}:{line_of(texts, KERNELS, text)}", "--json")[1])
    assert f"ConvTranspose.{field}" in [part["name"] for part in found["spec"] if part["because"] == "its statement"]


def test_a_rule_of_a_module_is_told_by_its_constraint(capsys: pytest.CaptureFixture[str], texts: dict[str, str]):
    line = line_of(texts, "_conv_transpose.py", "in_channels must be divisible by groups")
    found = json.loads(run(capsys, f"_conv_transpose.py:{line}", "--json")[1])
    assert [(part["file"], part["name"]) for part in found["templates"]][-1] == (
        "templates/python/statements.py.j2",
        "check",
    )
    assert {"name": "ConvTranspose.constraints.groups-divide-in-channels.say", "because": "its text"}.items() <= {
        (key, part[key])
        for part in found["spec"]
        if part["name"].endswith("groups-divide-in-channels.say")
        for key in ("name", "because")
    }


def test_a_file_is_told_by_all_that_was_read_for_it(
    capsys: pytest.CaptureFixture[str], reads: dict[str, set[str]], library: Library
):
    code, out, _ = run(capsys, KERNELS, "--json")
    found = json.loads(out)
    assert code == 0
    assert {f"ops.{part['name']}" for part in found["spec"]} == reads[KERNELS] & recording.fields(library).keys()
    assert {Path(part["file"]).name for part in found["templates"]} == {
        *("unit.c.j2", "kernel.c.j2", "nodes.c.j2", "signature.c.j2")
    }
    assert {Path(part["file"]).name for part in found["generator"]} >= {"kernels.py", "prose.py", "hashing.py"}


@pytest.mark.parametrize(
    "path", ["PROVENANCE.json", "py.typed", "_rules.py", "include/opwright_numeric.h", "docs/API.md"]
)
def test_files_that_no_operation_owns_are_told_too(capsys: pytest.CaptureFixture[str], path: str):
    code, out, errors = run(capsys, PACKAGE / path)
    assert (code, errors) == (0, "")
    assert out.splitlines()[0] == path


def test_the_manifest_is_told_by_all_that_makes_a_package(capsys: pytest.CaptureFixture[str], tmp_path: Path):
    (tmp_path / "spec").mkdir()
    shutil.copy(ROOT / "tests" / "data" / "steps" / "add.yaml", tmp_path / "spec")
    code, out, _ = run(capsys, "MANIFEST.json", "--spec", tmp_path / "spec", "--output", tmp_path / "package", "--json")
    found = json.loads(out)
    assert (code, found["state"]) == (2, "missing")
    assert {part["name"] for part in found["spec"]} >= {"Add.inputs.src_0.name", "Add.revision"}


def test_a_file_of_steps_is_told_by_the_functions_that_were_asked_for_it(capsys: pytest.CaptureFixture[str]):
    code, out, _ = run(capsys, PACKAGE / "c" / "relu_bf16.c", "--json")
    assert code == 0
    functions = {part["name"] for part in json.loads(out)["generator"]}
    assert functions >= {"step_unit", "unit_head", "semantic_hash"}


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("c/convoluton_f32.c", "c/convoluton_f32.c is not a generated file (did you mean 'c/convolution_f32.c'?)"),
        ("convolution_f32.c", "convolution_f32.c is not a generated file (did you mean 'c/convolution_f32.c'?)"),
        ("/etc/passwd", "/etc/passwd is not a generated file"),
        ("py.typed:1", "py.typed has no line 1, it has 0"),
        (f"{KERNELS}:0", f"{KERNELS} has no line 0, it has "),
        (f"{KERNELS}:99999", f"{KERNELS} has no line 99999, it has "),
    ],
)
def test_what_is_not_generated_is_refused_with_the_nearest(capsys: pytest.CaptureFixture[str], name: str, message: str):
    code, out, errors = run(capsys, name)
    assert (code, out) == (2, "")
    assert errors.startswith(f"opwright why: {message}")


def test_a_file_that_was_edited_or_is_stale_is_told_as_it_should_be_and_exits_2(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
):
    package = tmp_path / "package"
    shutil.copytree(PACKAGE, package)
    with (package / "py.typed").open("a", encoding="utf-8") as stream:
        stream.write("partial\n")
    code, out, _ = run(capsys, package / "py.typed", "--output", package)
    assert code == 2
    assert out.splitlines()[-1] == "py.typed on disk is hand-edited; this is how `opwright generate` makes it"
    (package / "MANIFEST.json").unlink()
    assert "py.typed on disk is stale;" in run(capsys, package / "py.typed", "--output", package)[1]
    (package / "py.typed").unlink()
    code, out, _ = run(capsys, package / "py.typed", "--output", package, "--json")
    assert (code, json.loads(out)["state"]) == (2, "missing")


def test_it_is_plain_in_a_pipe_and_a_tree_on_a_terminal(project: Project):
    found = why.why(project, "include/opwright_numeric.h:20")
    piped, terminal = io.StringIO(), io.StringIO()
    why.show(found, Console(file=piped))
    why.show(found, Console(file=terminal, force_terminal=True, width=200))
    assert "\x1b" not in piped.getvalue()
    assert "\ntemplates\n  templates/c/numeric.h.j2:21" in piped.getvalue()
    assert re.search("├── .*templates", terminal.getvalue())


# History.


def git(folder: Path, *arguments: str) -> str:
    identity = ["-c", "user.name=A", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false"]
    return subprocess.run(
        ["git", *identity, "-C", str(folder), *arguments], check=True, capture_output=True, text=True
    ).stdout


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    if shutil.which("git") is None:
        pytest.skip("git")
    folder = checkout.copy(tmp_path / "project")
    git(folder, "init", "--quiet")
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message", "Everything")
    return folder


def told(folder: Path, *arguments: str) -> Any:
    ran = checkout.run(folder, "-m", "opwright", "why", *arguments, "--json")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return json.loads(ran.stdout)


def test_each_part_has_the_commit_that_last_moved_it(repository: Path, texts: dict[str, str]):
    common = repository / "spec" / "onednn_graph" / "_common.yaml"
    old = "say: in_channels must be divisible by groups"
    text = common.read_text(encoding="utf-8")
    assert text.count(old) == 1
    common.write_text(text.replace(old, "say: the input channels must be divisible by groups"), encoding="utf-8")
    assert checkout.run(repository, "-m", "opwright", "generate").returncode == 0
    git(repository, "commit", "--quiet", "--all", "--message", "Say it better")
    line = line_of(texts, "_conv_transpose.py", old.removeprefix("say: "))
    found = told(repository, f"_conv_transpose.py:{line}")
    subjects = {part["name"].split(".")[-1]: part["commit"]["subject"] for part in found["spec"]}
    assert subjects.pop("say") == "Say it better"
    assert set(subjects.values()) <= {"Everything"}
    assert {part["commit"]["subject"] for part in (*found["templates"], *found["generator"])} == {"Everything"}
    with (repository / "templates" / "python" / "statements.py.j2").open("a", encoding="utf-8") as stream:
        stream.write("{# a line that is not committed #}\n")
    template = told(repository, f"_conv_transpose.py:{line}")["templates"][-1]
    assert template["commit"]["subject"] == "Everything"


def test_outside_a_repository_it_says_so(tmp_path: Path):
    folder = checkout.copy(tmp_path / "project")
    ran = checkout.run(folder, "-m", "opwright", "why", "py.typed", GIT_CEILING_DIRECTORIES=str(tmp_path.parent))
    assert ran.returncode == 0, ran.stderr
    assert "commits\n  this is not a git repository, so commits are unknown\n" in ran.stdout
    assert told(folder, "py.typed")["history"] is False


# What is told of a line is what moves it.


EXAMPLE = re.compile(r"opwright why generated/opwright_kernels/(\S+):(\d+)")


def test_the_documented_example_is_a_line_that_says_something(
    capsys: pytest.CaptureFixture[str], texts: dict[str, str]
):
    contributing = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    with pytest.raises(SystemExit):
        cli.main(["why", "--help"])
    examples = {found.groups() for page in (contributing, capsys.readouterr().out) for found in EXAMPLE.finditer(page)}
    assert len(examples) == 1
    ((path, line),) = examples
    assert re.search(r"\w", texts[path].splitlines()[int(line) - 1])
    found = json.loads(run(capsys, f"{path}:{line}", "--json")[1])
    assert {part["because"].split()[0] for part in found["spec"]} >= {"named", "made"}


def test_a_letter_of_an_axis_is_not_the_symbol_of_a_size(capsys: pytest.CaptureFixture[str], texts: dict[str, str]):
    kernels = "c/convolution_f32.c"
    size = line_of(texts, kernels, "const int64_t I_d = sizes->I[0]")
    axis = line_of(texts, kernels, "const int64_t weights_stride_i = ")
    of_size, of_axis = (
        {part["name"] for part in json.loads(run(capsys, f"{kernels}:{n}", "--json")[1])["spec"]} for n in (size, axis)
    )
    assert "Convolution.dims.src_spatial.symbol" in of_size
    assert not [name for name in of_size if ".weights." in name]
    assert "Convolution.inputs.weights.arrangements.library.dims.I" in of_axis
    assert not [name for name in of_axis if ".src_spatial." in name]


def sampled_lines(texts: dict[str, str], count: int) -> list[tuple[str, int]]:
    chosen = random.Random(7)
    files = [path for path in texts if path.startswith(("c/conv", "_conv")) and path.endswith((".c", ".py"))]
    found = []
    while len(found) < count:
        path = chosen.choice(files)
        lines = texts[path].splitlines()
        number = chosen.randrange(len(lines))
        if re.search(r"[a-z]{2}.*[=(]", lines[number]) and not lines[number].lstrip().startswith(("//", "#", '"')):
            found.append((path, number + 1))
    return found


LINES = 40 if os.environ.get("OPWRIGHT_SWEEP") == "full" else 2


def test_the_fields_that_are_told_of_a_line_and_no_other_that_it_names_move_it(
    project: Project, library: Library, texts: dict[str, str]
):
    env = render.environment(project.templates)
    known = recording.fields(library)
    told = untold = 0
    for path, number in sampled_lines(texts, LINES):
        before = texts[path].splitlines()
        names = {f"ops.{part.name}" for part in why.why(project, f"{path}:{number}").spec}
        op = next(
            op
            for op in library.ops
            if op.function == re.fullmatch(r"(?:c/|c/entries/)?_?(.+?)(?:_b?f\d\d.*)?\.(?:c|py)", path)[1]
        )
        beside = [
            p
            for p in known
            if p.startswith(f"ops.{op.op}.") and p not in names and why._named(known[p], before[number - 1])
        ]
        for field in [*names, *beside[:6]]:
            after = [render_one(made, project, path, env) for made in edits.edits(library, known[field])]
            moved = any(text != "" and moves(before, text.splitlines(), number - 1) for text in after)
            assert moved == (field in names), (path, number, before[number - 1], field)
            told, untold = told + moved, untold + (not moved)
    assert told
    assert untold


def render_one(library: Library, project: Project, path: str, env: jinja2.Environment) -> str:
    """A file of an edited library; nothing where there is none."""
    try:
        return render.tidy(path, outputs(library, project)[path].text(env))
    except Exception:
        return ""


def moves(before: list[str], after: list[str], at: int) -> bool:
    """Whether a line has another text, or another place among lines that differ in number."""
    if len(before) == len(after):
        return before[at] != after[at]
    kept = difflib.SequenceMatcher(None, before, after, autojunk=False).get_matching_blocks()
    return not any(block.a <= at < block.a + block.size for block in kept)
