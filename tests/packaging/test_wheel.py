"""The wheel carries both packages, the specs and the templates, and works away from the checkout."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from support import checkout

ROOT = checkout.ROOT
pytestmark = pytest.mark.xdist_group("wheel")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    for needed in ("hatchling", "pip"):
        if importlib.util.find_spec(needed) is None:
            pytest.skip(needed)
    folder = tmp_path_factory.mktemp("wheel")
    options = ["--no-deps", "--no-build-isolation", "--no-index", "--disable-pip-version-check"]
    ran = subprocess.run(
        [sys.executable, "-m", "pip", "wheel", *options, "-w", str(folder), str(ROOT)],
        capture_output=True,
        text=True,
        cwd=folder,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    (made,) = folder.glob("*.whl")
    return made


def files(folder: Path) -> set[str]:
    return {
        path.relative_to(folder).as_posix()
        for path in folder.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }


def test_it_holds_both_packages_the_specs_and_the_templates(wheel: Path):
    wanted = {f"opwright/{name}" for name in files(ROOT / "generator" / "opwright")}
    wanted |= {f"opwright_kernels/{name}" for name in files(ROOT / "generated" / "opwright_kernels")}
    wanted |= {f"opwright/data/spec/{name}" for name in files(ROOT / "spec")}
    wanted |= {f"opwright/data/templates/{name}" for name in files(ROOT / "templates")}
    with zipfile.ZipFile(wheel) as archive:
        included = {name for name in archive.namelist() if ".dist-info/" not in name}
    assert included == wanted


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of a fresh environment with the wheel in it; what the wheel needs is lent by the tests' own."""
    folder = tmp_path_factory.mktemp("installed") / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--system-site-packages", "--without-pip", str(folder)], check=True)
    python = folder / ("Scripts" if os.name == "nt" else "bin") / "python"
    options = ["--no-deps", "--no-index", "--disable-pip-version-check"]
    ran = subprocess.run(
        [sys.executable, "-m", "pip", "--python", str(python), "install", *options, str(wheel)],
        capture_output=True,
        text=True,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    purelib = Path(subprocess.run(
        [python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"], check=True, capture_output=True, text=True
    ).stdout.strip())  # fmt: skip
    # A path file adds a folder and does not read the path files in it: an editable install there stays unseen.
    lent = [path for path in sys.path if Path(path).name in ("site-packages", "dist-packages")]
    (purelib / "lent.pth").write_text("".join(f"{path}\n" for path in lent), encoding="utf-8")
    return python


def run(program: Path, *arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    return subprocess.run([program, *arguments], cwd=cwd, env=inherited, capture_output=True, text=True)


def test_installed_it_generates_the_same_package_from_the_specs_it_carries(installed: Path, tmp_path: Path):
    ran = run(installed.parent / "opwright", "generate", "--output", "made", cwd=tmp_path)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    expected = ROOT / "generated" / "opwright_kernels"
    assert files(tmp_path / "made") == files(expected)
    different = [
        name for name in files(expected) if (tmp_path / "made" / name).read_bytes() != (expected / name).read_bytes()
    ]
    assert different == []


def test_installed_it_is_the_wheel_that_is_imported(installed: Path, tmp_path: Path):
    code = "import opwright, opwright_kernels; print(opwright.__file__); print(opwright_kernels.__file__)"
    ran = run(installed, "-c", code, cwd=tmp_path)
    places = [Path(line) for line in ran.stdout.splitlines()]
    assert len(places) == 2, ran.stderr
    assert all(place.is_relative_to(installed.parent.parent) for place in places), places
