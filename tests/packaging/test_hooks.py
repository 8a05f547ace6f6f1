"""The pre-commit hooks and the GitHub action do what their pages say: their commands run in a clone, on the wheel's tool."""

from __future__ import annotations

import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any

import pytest
import yaml
from support import checkout

ROOT = checkout.ROOT
HOOKS = {hook["id"]: hook for hook in yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text(encoding="utf-8"))}
ACTION = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
STEPS = ACTION["runs"]["steps"]
INSTALL, CHECK, SUMMARY, ANNOTATE = STEPS
pytestmark = pytest.mark.xdist_group("wheel")
SPEC = "spec/onednn_graph/conv_transpose.yaml"


def page(name: str) -> str:
    return (ROOT / "docs" / name).read_text(encoding="utf-8")


def run(command: str, folder: Path, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """A step as GitHub runs it."""
    shell = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", command]
    return subprocess.run(shell, cwd=folder, env=environment, capture_output=True, text=True)


def git(folder: Path, *arguments: str) -> None:
    identity = ["-c", "user.name=A", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false"]
    subprocess.run(["git", *identity, *arguments], cwd=folder, check=True, capture_output=True)


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The action's own first step, run in a fresh environment; without network, so what it needs is lent by this one."""
    for needed in ("hatchling", "pip", "jinja2"):
        if importlib.util.find_spec(needed) is None:
            pytest.skip(needed)
    if not all(map(shutil.which, ("git", "bash"))):
        pytest.skip("git and bash")
    venv = tmp_path_factory.mktemp("action") / "venv"
    subprocess.run([sys.executable, "-m", "venv", str(venv)], check=True)
    (purelib,) = venv.glob("lib/python*/site-packages")
    lent = dict.fromkeys(sysconfig.get_path(name) for name in ("purelib", "platlib"))
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    lent |= dict.fromkeys(
        str(Path(found.origin).parents[1])
        for name in ("yaml", "watchfiles")
        if (found := importlib.util.find_spec(name)) and found.origin
    )
    (purelib / "lent.pth").write_text("".join(f"{path}\n" for path in lent), encoding="utf-8")
    options = {
        "PIP_NO_INDEX": "1",
        "PIP_NO_DEPS": "1",
        "PIP_NO_BUILD_ISOLATION": "0",
    }  # pip reads the last one backwards
    environment = {
        **inherited,
        **options,
        "PATH": f"{venv / 'bin'}{os.pathsep}{os.environ['PATH']}",
        "OPWRIGHT_SOURCE": str(ROOT),
    }
    installed = run(INSTALL["run"], venv, environment)
    assert installed.returncode == 0, installed.stdout + installed.stderr
    assert (venv / "bin" / "opwright").is_file()
    return environment


@pytest.fixture(scope="module")
def project(environment: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project of the convolutions alone, which are checked and reviewed in a fifth of the time."""
    folder = tmp_path_factory.mktemp("project")
    specs = folder / "spec/onednn_graph"
    specs.mkdir(parents=True)
    for name in ("_*.yaml", "conv*.yaml"):
        for path in (ROOT / "spec/onednn_graph").glob(name):
            shutil.copy(path, specs)
    shutil.copytree(ROOT / "templates", folder / "templates")
    assert run("opwright generate", folder, environment).returncode == 0
    return folder


@pytest.fixture
def clone(tmp_path: Path, project: Path) -> Path:
    """The project with one commit, whose generated files are up to date."""
    folder = tmp_path / "clone"
    shutil.copytree(project, folder)
    git(folder, "init", "--quiet", "--initial-branch", "main")
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message", "Everything")
    return folder


def edit(folder: Path, old: str, new: str) -> None:
    path = folder / SPEC
    text = path.read_text(encoding="utf-8")
    assert text.count(old) == 1
    path.write_text(text.replace(old, new), encoding="utf-8")


def needs_diff(clone: Path, environment: dict[str, str]) -> None:
    if run("opwright diff --help", clone, environment).returncode:
        pytest.skip("opwright diff")


# The definitions and their pages.


def test_the_hooks_are_those_of_their_page():
    text = page("PRE_COMMIT.md")
    assert set(HOOKS) == set(re.findall(r"^ +- id: (\S+)$", text, re.M)) == {"opwright-check", "opwright-diff"}
    for name, hook in HOOKS.items():
        (row,) = re.findall(rf"^\| `{name}` \|.*$", text, re.M)
        assert f"| `{hook['entry']}` |" in row
        assert hook["language"] == "python"
        assert hook["pass_filenames"] is False


@pytest.mark.parametrize("name", sorted(HOOKS))
def test_a_hook_runs_also_for_a_commit_that_only_deletes_files(name: str):
    """pre-commit lists no deleted files, and leaves out a hook for which it lists none unless that always runs."""
    assert HOOKS[name]["always_run"] is True
    assert not {"files", "types", "exclude", "stages"} & HOOKS[name].keys()


def test_the_action_is_that_of_its_page():
    text = page("GITHUB_ACTION.md")
    names = [step["name"] for step in STEPS]
    assert [name for name in re.findall(r"^\| ([^|]+) \|", text, re.M) if name in names] == names
    for name, entry in ACTION["inputs"].items():
        assert f"| `{name}` | `{entry['default']}` |" in text
    workflow = next(yaml.safe_load(body) for body in re.findall(r"^```yaml\n(.*?)^```$", text, re.M | re.S))
    assert workflow["permissions"] == {"contents": "read"}


def test_no_step_has_an_expression_in_its_script():
    for step in STEPS:
        assert step["shell"] == "bash"
        assert "${{" not in step["run"]


def test_every_step_uses_the_inputs_that_there_are():
    used = {
        name
        for step in STEPS
        for value in step.get("env", {}).values()
        for name in re.findall(r"inputs\.([\w-]+)", value)
    }
    assert used == ACTION["inputs"].keys()


# Their commands.


def hook(name: str, folder: Path, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        shlex.split(HOOKS[name]["entry"]), cwd=folder, env=environment, capture_output=True, text=True
    )


def step(
    made: dict[str, Any], folder: Path, environment: dict[str, str], **inputs: str
) -> subprocess.CompletedProcess[str]:
    values = {name: inputs.get(name.replace("-", "_"), entry["default"]) for name, entry in ACTION["inputs"].items()}
    own = {
        key: re.sub(r"\$\{\{ inputs\.([\w-]+) \}\}", lambda m: values[m[1]], value)
        for key, value in made.get("env", {}).items()
    }
    return run(made["run"], folder, {**environment, **own, "GITHUB_STEP_SUMMARY": str(folder.parent / "summary.md")})


def test_check_passes_on_a_clean_clone_and_stops_an_edit_that_was_not_generated(
    clone: Path, environment: dict[str, str]
):
    assert hook("opwright-check", clone, environment).returncode == 0
    assert step(CHECK, clone, environment).returncode == 0
    edit(clone, "Added to every cell of its output channel.", "Added to each cell of its output channel.")
    for ran in (hook("opwright-check", clone, environment), step(CHECK, clone, environment)):
        assert ran.returncode == 4
        assert "stale: docs/conv_transpose.md" in ran.stdout
        assert "update them with: opwright generate" in ran.stdout
    mended = re.findall(r"^```sh\n(.*?)^```$", page("PRE_COMMIT.md"), re.M | re.S)[0]
    assert run(mended, clone, environment).returncode == 0
    assert hook("opwright-check", clone, environment).returncode == 0


def test_the_diff_hook_passes_words_and_stops_a_breaking_change(clone: Path, environment: dict[str, str]):
    needs_diff(clone, environment)
    assert hook("opwright-diff", clone, environment).returncode == 0
    edit(clone, "Added to every cell of its output channel.", "Added to each cell of its output channel.")
    assert hook("opwright-diff", clone, environment).returncode == 0
    edit(clone, "default: XOI", "default: IOX")
    ran = hook("opwright-diff", clone, environment)
    assert ran.returncode == 1, ran.stdout + ran.stderr
    assert SPEC in ran.stdout


def test_the_diff_hook_stops_a_commit_that_only_deletes_a_spec(clone: Path, environment: dict[str, str]):
    shutil.copy(ROOT / "tests/data/matrix_product.yaml", clone / "spec/onednn_graph/matrix_product.yaml")
    git(clone, "add", "--all")
    git(clone, "commit", "--quiet", "--message", "One more")
    git(clone, "rm", "--quiet", "spec/onednn_graph/matrix_product.yaml")
    ran = hook("opwright-diff", clone, environment)
    assert ran.returncode == 1, ran.stdout + ran.stderr
    assert "op-removed" in ran.stdout


def test_the_action_writes_a_summary_and_fails_where_it_annotates_an_error(clone: Path, environment: dict[str, str]):
    needs_diff(clone, environment)
    edit(clone, "default: XOI", "default: IOX")
    git(clone, "commit", "--quiet", "--all", "--message", "Another default")
    summary = step(SUMMARY, clone, environment)
    assert (summary.returncode, summary.stdout) == (0, ""), summary.stderr
    assert SPEC in (clone.parent / "summary.md").read_text(encoding="utf-8")
    annotated = step(ANNOTATE, clone, environment)
    assert annotated.returncode == 1, annotated.stdout + annotated.stderr
    assert re.search(rf"^::error file={SPEC},", annotated.stdout, re.M)
    assert step(ANNOTATE, clone, environment, base="git:HEAD").returncode == 0


def test_the_summary_step_fails_where_a_spec_is_invalid(clone: Path, environment: dict[str, str]):
    needs_diff(clone, environment)
    edit(clone, "op: ConvTranspose\n", "opp: ConvTranspose\n")
    assert step(SUMMARY, clone, environment, base="git:HEAD").returncode != 0
