"""What a generated file or line comes from: fields of specs, lines of templates, functions of the generator, commits."""

from __future__ import annotations

import difflib
import io
import json
import os
import random
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import jinja2
import pytest
from opwright import cli
from opwright.emit import render
from opwright.language.library import Library
from opwright.project import Project
from opwright.trace import edits, recording, why
from rich.console import Console
from support import checkout
from support.rendered import line_of, outputs

ROOT = checkout.ROOT
PACKAGE = ROOT / "generated" / "opwright_kernels"
KERNELS = "c/conv_transpose_f32.c"


pytestmark = pytest.mark.usefixtures("one_library")


# The command.


def run(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    code = cli.main(["why", *map(str, arguments)])
    return code, *capsys.readouterr()


def test_a_line_is_traced_by_the_names_in_it(capsys: pytest.CaptureFixture[str], texts: dict[str, str]):
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
def test_a_statement_is_traced_to_the_field_that_it_was_made_from(
    capsys: pytest.CaptureFixture[str], texts: dict[str, str], text: str, field: str
):
    found = json.loads(run(capsys, f"{PACKAGE / KERNELS}:{line_of(texts, KERNELS, text)}", "--json")[1])
    assert f"ConvTranspose.{field}" in [part["name"] for part in found["spec"] if part["because"] == "its statement"]


def test_a_rule_of_a_module_is_traced_to_its_constraint(capsys: pytest.CaptureFixture[str], texts: dict[str, str]):
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


def test_a_file_is_identified_by_all_that_was_read_for_it(
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
    "path", ["PROVENANCE.json", "SHARDING.json", "py.typed", "_rules.py", "include/opwright_numeric.h", "docs/API.md"]
)
def test_files_that_no_operation_owns_are_listed_too(capsys: pytest.CaptureFixture[str], path: str):
    code, out, errors = run(capsys, PACKAGE / path)
    assert (code, errors) == (0, "")
    assert out.splitlines()[0] == path


def test_a_file_of_a_derived_gradient_is_traced_to_its_spec(capsys: pytest.CaptureFixture[str]):
    code, out, errors = run(capsys, PACKAGE / "c" / "square_backward_f32.c", "--json")
    assert (code, errors) == (0, "")
    assert {part["file"] for part in json.loads(out)["spec"]} == {"spec/onednn_graph/gradients/square_backward.yaml"}


def test_the_manifest_is_identified_by_all_that_makes_a_package(capsys: pytest.CaptureFixture[str], tmp_path: Path):
    (tmp_path / "spec").mkdir()
    shutil.copy(ROOT / "tests" / "data" / "steps" / "add.yaml", tmp_path / "spec")
    code, out, _ = run(capsys, "MANIFEST.json", "--spec", tmp_path / "spec", "--output", tmp_path / "package", "--json")
    found = json.loads(out)
    assert (code, found["state"]) == (2, "missing")
    assert {part["name"] for part in found["spec"]} >= {"Add.inputs.src_0.name", "Add.revision"}


def test_a_file_of_steps_is_identified_by_the_functions_that_it_needs(capsys: pytest.CaptureFixture[str]):
    code, out, _ = run(capsys, PACKAGE / "c" / "relu_bf16.c", "--json")
    assert code == 0
    functions = {part["name"] for part in json.loads(out)["generator"]}
    assert functions >= {"step_unit", "unit_head", "shown_hash"}


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("c/convoluton_f32.c", "c/convoluton_f32.c is not a generated file (did you mean 'c/convolution_f32.c'?)"),
        ("convolution_f32.c", "convolution_f32.c is not a generated file (did you mean 'c/convolution_f32.c'?)"),
        ("/etc/passwd", f"/etc/passwd is not a generated file of {PACKAGE}; --spec and --output name another package"),
        ("py.typed:1", "py.typed has no line 1, it has 0"),
        (f"{KERNELS}:0", f"{KERNELS} has no line 0, it has "),
        (f"{KERNELS}:99999", f"{KERNELS} has no line 99999, it has "),
    ],
)
def test_what_is_not_generated_is_refused_with_the_nearest(capsys: pytest.CaptureFixture[str], name: str, message: str):
    code, out, errors = run(capsys, name)
    assert (code, out) == (2, "")
    assert errors.startswith(f"opwright why: {message}")


def test_a_file_that_was_edited_or_is_stale_is_explained_as_it_should_be_and_exits_2(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
):
    package = tmp_path / "package"
    shutil.copytree(PACKAGE, package)
    with (package / "py.typed").open("a", encoding="utf-8") as stream:
        stream.write("partial\n")
    code, out, _ = run(capsys, package / "py.typed", "--output", package)
    assert code == 2
    assert (
        out.splitlines()[-1] == "py.typed on disk is hand-edited; shown is the file that `opwright generate` generates"
    )
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


def answer_of(folder: Path, *arguments: str) -> Any:
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
    found = answer_of(repository, f"_conv_transpose.py:{line}")
    subjects = {part["name"].split(".")[-1]: part["commit"]["subject"] for part in found["spec"]}
    assert subjects.pop("say") == "Say it better"
    assert set(subjects.values()) <= {"Everything"}
    assert {part["commit"]["subject"] for part in (*found["templates"], *found["generator"])} == {"Everything"}
    with (repository / "templates" / "python" / "statements.py.j2").open("a", encoding="utf-8") as stream:
        stream.write("{# a line that is not committed #}\n")
    template = answer_of(repository, f"_conv_transpose.py:{line}")["templates"][-1]
    assert template["commit"]["subject"] == "Everything"


def test_outside_a_repository_it_says_so(tmp_path: Path):
    folder = checkout.copy(tmp_path / "project")
    ran = checkout.run(folder, "-m", "opwright", "why", "py.typed", GIT_CEILING_DIRECTORIES=str(tmp_path.parent))
    assert ran.returncode == 0, ran.stderr
    assert "commits\n  this is not a git repository, so commits are unknown\n" in ran.stdout
    assert answer_of(folder, "py.typed")["history"] is False


# What `why` names for a line is what changes it.


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


def test_the_fields_that_why_names_for_a_line_and_no_others_change_it(
    project: Project, library: Library, texts: dict[str, str]
):
    env = render.environment(project.templates)
    known = recording.fields(library)
    moving = unmoved = 0
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
            moving, unmoved = moving + moved, unmoved + (not moved)
    assert moving
    assert unmoved


def render_one(library: Library, project: Project, path: str, env: jinja2.Environment) -> str:
    """A file of an edited library; nothing where there is none."""
    try:
        return render.tidy(path, outputs(library, project)[path].text(env))
    except Exception:  # of whatever kind: most edits of a field cannot be rendered
        return ""


def moves(before: list[str], after: list[str], at: int) -> bool:
    """Whether a line has another text, or another place among lines that differ in number."""
    if len(before) == len(after):
        return before[at] != after[at]
    blocks = difflib.SequenceMatcher(None, before, after, autojunk=False).get_matching_blocks()
    return not any(block.a <= at < block.a + block.size for block in blocks)
