"""Every command and every snippet of the documents does what it seems to do."""

from __future__ import annotations

import contextlib
import io
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest
from opwright import cli
from opwright.language import library, model, structs
from support import checkout

ROOT = checkout.ROOT
README = (ROOT / "README.md").read_text(encoding="utf-8")
SPEC_PAGE = (ROOT / "docs" / "SPEC.md").read_text(encoding="utf-8")
PAGES = ("README.md", "CONTRIBUTING.md", "docs/SPEC.md")
EXAMPLE = "my-ops/linear_gelu.yaml"


def fences(text: str) -> list[tuple[str, str]]:
    return re.findall(r"^```(\w*)\n(.*?)^```$", text, re.M | re.S)


def snippets(text: str, language: str) -> list[str]:
    return [body for found, body in fences(text) if found == language]


def named(text: str, language: str) -> dict[str, str]:
    """The snippets that begin with a comment that names a file."""
    found = {}
    for body in snippets(text, language):
        first, _, rest = body.partition("\n")
        if name := re.fullmatch(r"(?:#|//) (\S+)", first):
            found[name[1]] = rest
    return found


def commands() -> list[str]:
    lines = []
    for page in PAGES:
        for body in snippets((ROOT / page).read_text(encoding="utf-8"), "sh"):
            lines += [line for line in body.splitlines() if line]
    return list(dict.fromkeys(lines))


def has_command(name: str) -> bool:
    with (
        pytest.raises(SystemExit) as ended,
        contextlib.redirect_stdout(io.StringIO()),
        contextlib.redirect_stderr(io.StringIO()),
    ):
        cli.main([name, "--help"])
    return ended.value.code == 0


@pytest.fixture(scope="module")
def workplace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkout in which the README's example stands where the README puts it, and is generated as it says."""
    folder = checkout.copy(tmp_path_factory.mktemp("readme"))
    example = folder / EXAMPLE
    example.parent.mkdir()
    example.write_text(named(README, "yaml")[EXAMPLE], encoding="utf-8")
    made = checkout.run(folder, "-m", "opwright", "generate", "--spec", "my-ops", "--output", "my_kernels")
    assert made.returncode == 0, made.stderr
    return folder


def test_the_documents_hold_commands_and_no_snippet_of_an_unknown_kind():
    assert {"make demo", "make test", "opwright generate", "opwright generate --check"} <= set(commands())
    kinds = {page: {language for language, _ in fences((ROOT / page).read_text(encoding="utf-8"))} for page in PAGES}
    assert kinds == {
        "README.md": {"yaml", "c", "python", "sh"},
        "CONTRIBUTING.md": {"sh"},
        "docs/SPEC.md": {"yaml", "text"},
    }


@pytest.mark.parametrize("command", commands())
def test_every_command_works(command: str, workplace: Path):
    program, *arguments = shlex.split(command)
    if program == "make":
        if not (ROOT / "Makefile").is_file() or shutil.which("make") is None:
            pytest.skip("Makefile or make")
        ran = subprocess.run(["make", "-n", *arguments], cwd=ROOT, capture_output=True, text=True)
    else:
        assert program == "opwright"
        if not has_command(arguments[0]):
            pytest.skip(f"opwright {arguments[0]}")
        ran = checkout.run(workplace, "-m", "opwright", *arguments)
    assert ran.returncode == 0, ran.stdout + ran.stderr


@pytest.mark.parametrize("number", range(len(snippets(README, "python"))))
def test_every_python_snippet_prints_what_stands_below_it(number: int, workplace: Path):
    snippet = workplace / f"snippet{number}.txt"
    snippet.write_text(snippets(README, "python")[number], encoding="utf-8")
    ran = checkout.run(workplace, "-m", "doctest", snippet.name)
    assert ran.returncode == 0, ran.stdout + ran.stderr


def test_excerpts_stand_in_their_files_in_their_order():
    excerpts = {**named(README, "yaml"), **named(README, "c")}
    del excerpts[EXAMPLE]
    assert len(excerpts) == 2
    for name, excerpt in excerpts.items():
        lines = iter((ROOT / name).read_text(encoding="utf-8").splitlines())
        for line in filter(None, excerpt.splitlines()):
            assert any(line == found for found in lines), f"{name} does not hold, or not here: {line}"


def test_the_operations_of_the_spec_page_compute(tmp_path: Path):
    pool, sums = [body for body in snippets(SPEC_PAGE, "yaml") if body.startswith("op:")]
    (tmp_path / "ops").mkdir()
    (tmp_path / "ops" / "average_pool.yaml").write_text(pool, encoding="utf-8")
    (tmp_path / "ops" / "log_sum_exp.yaml").write_text(sums, encoding="utf-8")
    made = checkout.run(ROOT, "-m", "opwright", "generate", "--spec", "ops", "--output", "pools", cwd=tmp_path)
    assert made.returncode == 0, made.stdout + made.stderr
    code = (
        "import numpy as np, pools\n"
        "means = pools.average_pool(np.arange(4, dtype=np.float32).reshape(1, 1, 4), kernel=[3], pads=[1])\n"
        "assert means.tolist() == [[[0.5, 1.0, 2.0, 2.5]]], means\n"
        "try:\n"
        "    pools.average_pool(np.zeros((1, 1, 4), np.float32), kernel=[3], pads=[2])\n"
        "except pools.SpecError as error:\n"
        "    assert (error.rule, error.nearest) == ('pads-small', [1]), error\n"
        "else:\n"
        "    raise AssertionError('pads of 2 were accepted')\n"
        "sums = pools.log_sum_exp(np.log(np.arange(1, 7, dtype=np.float32)).reshape(2, 3), axis=0)\n"
        "assert np.allclose(sums, np.log([5, 7, 9])), sums\n"
    )
    ran = checkout.run(ROOT, "-c", code, cwd=tmp_path)
    assert ran.returncode == 0, ran.stderr


def nodes() -> dict[str, type[structs.Node]]:
    return {
        name: found
        for name, found in {**vars(model), **vars(library)}.items()
        if isinstance(found, type) and issubclass(found, structs.Node) and found is not structs.Node
    }


def documented_keys() -> dict[str, dict[str, bool]]:
    """Class to key to whether it is required, as docs/SPEC.md has it."""
    keys: dict[str, dict[str, bool]] = {}
    section = SPEC_PAGE.split("\n## Keys\n")[1].split("\n## ")[0]
    for part in section.split("\n### ")[1:]:
        rows = re.findall(r"^\| `(\w+)`( \(required\))? \|", part, re.M)
        keys[part.split("\n")[0]] = {key: bool(required) for key, required in rows}
    return keys


def test_every_key_of_the_spec_language_is_documented_and_no_other():
    known = {
        name: {key: metadata["required"] for key, metadata in structs.keys_of(cls).items()}
        for name, cls in nodes().items()
    }
    assert documented_keys() == known


def test_the_page_says_what_the_schema_says_that_a_key_means():
    section = SPEC_PAGE.split("\n## Keys\n")[1].split("\n## ")[0]
    for part in section.split("\n### ")[1:]:
        cls = nodes()[part.split("\n")[0]]
        means = dict(re.findall(r"^\| `(\w+)`(?: \(required\))? \| .* \| (.*) \|$", part, re.M))
        assert means == {key: metadata["doc"] for key, metadata in structs.keys_of(cls).items()}
        assert (cls.__doc__ or "").split("\n")[0] in part


def test_every_shorthand_is_documented():
    section = SPEC_PAGE.split("\n## Keys\n")[1].split("\n## ")[0]
    for part in section.split("\n### ")[1:]:
        match = re.search(r"A bare text stands for its `(\w+)`", part)
        assert (match[1] if match else None) == nodes()[part.split("\n")[0]].shorthand


@pytest.mark.parametrize(
    "page",
    [*PAGES, "CHANGELOG.md", *sorted(p.relative_to(ROOT).as_posix() for p in ROOT.glob("generated/*/docs/*.md"))],
)
def test_links_lead_somewhere(page: str):
    text = (ROOT / page).read_text(encoding="utf-8")
    for target in re.findall(r"(?<!\\)\]\(([^)\s]+)\)", text):
        if target.startswith("https://"):
            continue
        file, _, anchor = target.partition("#")
        linked = (ROOT / page).parent / file if file else ROOT / page
        assert linked.exists(), target
        if anchor:
            headings = re.findall(r"^#+ (.+)$", linked.read_text(encoding="utf-8"), re.M)
            assert anchor in {heading.lower().replace(" ", "-") for heading in headings}, target


def test_contributing_names_files_that_are_there():
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    for name in re.findall(r"`((?:generator|templates|spec|docs|tests)/[\w./]+)`", text):
        assert (ROOT / name).exists() or "golden" in name, name
