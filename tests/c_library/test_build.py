"""The exported library builds, installs and links, by CMake and by pkg-config, with every compiler, and is right."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import opwright_kernels as ok
import pytest
from opwright.commands.export_c import export_c
from opwright.language.library import Library
from opwright.project import Project
from support.c_library import STRICT, CLibrary, Refused, Run, Tensor
from support.compilers import every_compiler
from support.draws import FULL, rng
from support.generated import PACKAGE
from support.step_calls import StepCaller

EXAMPLES = PACKAGE.parents[1] / "examples" / "c_library"
ROWS = "-1.0986 -1.0986 -1.0986\n-2.4076 -1.4076 -0.4076\n"
REFUSED = re.compile(r"log_softmax: rule axis-range: argument 'axis' is 2, expected within -2 to 1: .*\n")


def needs(*tools: str) -> None:
    for tool in tools:
        if shutil.which(tool) is None:
            pytest.skip(f"{tool} is not installed")


def run(*command: Any, **environment: str) -> str:
    """What a command says; the test fails with it where the command does."""
    done = subprocess.run(
        [*map(str, command)], capture_output=True, text=True, check=False, env={**os.environ, **environment}
    )
    assert done.returncode == 0, f"{command}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    return done.stdout


@pytest.fixture(scope="session")
def log_softmax(project: Project, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("log_softmax") / "source"
    export_c(project, folder, "opwright_kernels", ["log_softmax"])
    return folder


@pytest.fixture(scope="session")
def installed(log_softmax: Path) -> Path:
    needs("cmake", "gcc")
    build, prefix = log_softmax.parent / "build", log_softmax.parent / "prefix"
    run("cmake", "-S", log_softmax, "-B", build, "-DOPWRIGHT_ISAS=portable;avx2;avx512;neon", "-DOPWRIGHT_STRICT=ON",
        "-DCMAKE_INSTALL_LIBDIR=lib", f"-DCMAKE_INSTALL_PREFIX={prefix}", CC="gcc")  # fmt: skip
    run("cmake", "--build", build, "-j2")
    run("cmake", "--install", build)
    return prefix


def test_a_c_and_a_cpp_program_link_by_cmake(installed: Path, tmp_path: Path) -> None:
    needs("g++")
    run("cmake", "-S", EXAMPLES, "-B", tmp_path, f"-DCMAKE_PREFIX_PATH={installed}")
    run("cmake", "--build", tmp_path)
    printed = run(tmp_path / "log_softmax_c")
    assert printed.startswith(ROWS)
    assert REFUSED.fullmatch(printed[len(ROWS) :])
    assert run(tmp_path / "log_softmax_cpp") == "-1.3863 -0.4402\n"


@every_compiler
def test_a_c_and_a_cpp_program_link_by_pkg_config(compiler: str, installed: Path, tmp_path: Path) -> None:
    needs("pkg-config", compiler, "g++")
    library = str(installed / "lib")
    flags = run("pkg-config", "--cflags", "--libs", "opwright_kernels", PKG_CONFIG_PATH=f"{library}/pkgconfig").split()
    run(compiler, *STRICT, EXAMPLES / "log_softmax.c", *flags, "-o", tmp_path / "c")
    cpp = {"gcc": "g++", "clang": "clang++"}[compiler]
    run(cpp, "-std=c++11", *STRICT[1:], "-pthread", EXAMPLES / "log_softmax.cpp", *flags, "-o", tmp_path / "cpp")
    assert run(tmp_path / "c", LD_LIBRARY_PATH=library).startswith(ROWS)
    assert run(tmp_path / "cpp", LD_LIBRARY_PATH=library) == "-1.3863 -0.4402\n"


def test_the_library_exports_its_functions_and_nothing_else(installed: Path) -> None:
    needs("nm", "readelf")
    library = installed / "lib" / "libopwright_kernels.so"
    names = {line.split()[-1] for line in run("nm", "-D", "--defined-only", library).splitlines()}
    assert names == {f"opwright_log_softmax{ending}" for ending in ("", "_workspace", "_infer")}
    assert "libopwright_kernels.so.1" in run("readelf", "-d", library)


@pytest.mark.parametrize("isa", ["portable", "avx2"])
def test_valgrind_finds_nothing(isa: str, installed: Path, tmp_path: Path) -> None:
    needs("valgrind")
    flags = (f"-I{installed}/include/opwright_kernels", f"-L{installed}/lib", "-lopwright_kernels")
    run("gcc", "-g", EXAMPLES / "log_softmax.c", *flags, "-o", tmp_path / "program")
    command = ("valgrind", "-q", "--error-exitcode=9", "--leak-check=full", tmp_path / "program")
    assert run(*command, OPWRIGHT_ISA=isa, LD_LIBRARY_PATH=f"{installed}/lib").startswith(ROWS)


def sources(folder: Path, isa: str) -> tuple[str | Path, ...]:
    """What a program with all of the library in it is compiled from."""
    files = [*(folder / "interface").rglob("*.c"), *(folder / "c").glob("log_softmax*.c"), folder / "c/engine/team.c"]
    include = [f"-I{folder / name}" for name in ("interface", "public", "include", "c/engine")]
    return (*include, f"-DOPWRIGHT_HAS_{isa.upper()}", f"-DOPWRIGHT_ISA={isa}", *files, EXAMPLES / "log_softmax.c")


def test_sanitizers_find_nothing(log_softmax: Path, tmp_path: Path) -> None:
    needs("gcc")
    flags = ("-O0", "-std=c11", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")
    run("gcc", *flags, *sources(log_softmax, "portable"), "-lm", "-lpthread", "-o", tmp_path / "program")
    assert run(tmp_path / "program").startswith(ROWS)


def test_the_library_runs_on_aarch64(log_softmax: Path, tmp_path: Path) -> None:
    needs("aarch64-linux-gnu-gcc", "qemu-aarch64")
    program = tmp_path / "program"
    made = sources(log_softmax, "neon")
    run("aarch64-linux-gnu-gcc", "-O0", "-std=c11", "-static", *made, "-lm", "-lpthread", "-o", program)
    assert run("qemu-aarch64", program).startswith(ROWS)


@pytest.fixture(scope="session")
def kernels(installed: Path, library: Library) -> CLibrary:
    return CLibrary(installed / "lib" / "libopwright_kernels.so", library)


@pytest.mark.sweep
def test_results_are_those_of_python_for_any_number_of_threads(kernels: CLibrary, library: Library) -> None:
    op = next(op for op in library.ops if op.function == "log_softmax")
    for number, call in enumerate(StepCaller(op, rng("C results")).legal(80 if FULL else 12)):
        wanted = ok.log_softmax(*call.inputs, **call.attributes)
        both = list(wanted) if isinstance(wanted, tuple) else [wanted, None]
        results = [None if one is None else np.full(one.shape, 7, one.dtype) for one in both]
        made = kernels.call("log_softmax", call.inputs, call.attributes, results)
        kernels.run("log_softmax", made, Run(None, 0, None, 1 + number % 3))
        same = [a is None or (b is not None and a.tobytes() == b.tobytes()) for a, b in zip(both, results)]
        assert all(same), str(call)


@pytest.mark.parametrize(("address", "fewer"), [(0, 0), (64, 1), (1, 0)])
def test_a_workspace_that_does_not_do_is_refused_before_anything_is_written(
    address: int, fewer: int, kernels: CLibrary
) -> None:
    array, result = np.ones((40, 300), np.float32), np.full((40, 300), 7, np.float32)
    call = kernels.call("log_softmax", [array], {"axis": 0}, [result])
    wanted = kernels.workspace("log_softmax", call, Run(None, 0, None, 1))
    assert wanted.bytes > 0
    assert wanted.alignment == 64
    room = np.zeros(wanted.bytes + 128, np.uint8)
    start = room.ctypes.data + -room.ctypes.data % 64
    at = None if address == 0 else start + (1 if address == 1 else 0)
    with pytest.raises(Refused, match="rule workspace") as refused:
        kernels.run("log_softmax", call, Run(at, wanted.bytes - fewer, None, 1))
    assert f"at least {wanted.bytes} bytes, aligned to 64" in refused.value.message
    assert (result == 7).all()


def test_outputs_that_do_not_do_are_refused(kernels: CLibrary) -> None:
    array = np.ones((4, 6), np.float32)
    whole = np.zeros((8, 6), np.float32)
    for inputs, output, rule in [
        (array, np.zeros((4, 5), np.float32), "out-shape"),
        (array, np.zeros((4, 6), np.float64), "out-dtype"),
        (array, None, "out-missing"),
        (whole[:4], whole[3:7], "out-overlap"),
        (array, np.lib.stride_tricks.as_strided(whole, (4, 6), (4, 4)), "out-overlap"),
    ]:
        call = kernels.call("log_softmax", [inputs], {"axis": 1}, [output])
        with pytest.raises(Refused) as refused:
            kernels.run("log_softmax", call, Run(64, 2**40, None, 1))
        assert refused.value.rule == rule
    call = kernels.call("log_softmax", [array], {"axis": 1}, [np.zeros_like(array)])
    with pytest.raises(Refused, match="rule threads"):
        kernels.run("log_softmax", call, Run(64, 2**40, None, -1))


def test_a_description_of_an_output_that_is_none_is_refused_when_memory_is_asked_for(kernels: CLibrary) -> None:
    array = np.ones((4, 6), np.float32)
    call = kernels.call("log_softmax", [array], {"axis": 1}, [np.zeros_like(array)])
    target = [tensor for tensor in call.keeps if isinstance(tensor, Tensor)][-1]
    target.shape = None
    with pytest.raises(Refused, match=r"rule dst-kind: .* shape is NULL"):
        kernels.workspace("log_softmax", call, Run(None, 0, None, 1))
