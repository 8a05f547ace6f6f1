"""Static libraries of two exports: their names differ, and they link into one program."""

from __future__ import annotations

from pathlib import Path

import pytest
from opwright.commands.export_c import export_c
from opwright.project import Project
from support.c_library import STRICT
from support.compilers import every_compiler

from .test_build import needs, run

PROGRAM = Path(__file__).parents[1] / "support" / "two_libraries.c"
NAMES = ("opwright_kernels", "acme_kernels")
CROSS = ("-DCMAKE_SYSTEM_NAME=Linux", "-DCMAKE_SYSTEM_PROCESSOR=aarch64")


@pytest.fixture(scope="module")
def exported(project: Project, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("two")
    for name in NAMES:
        export_c(project, folder / name, name, ["relu"])
    return folder


@pytest.fixture(scope="module")
def installed(exported: Path) -> Path:
    needs("cmake", "gcc")
    return built(exported, exported / "gcc", "gcc")


def built(exported: Path, folder: Path, compiler: str, *flags: str) -> Path:
    """A prefix with both libraries."""
    for name in NAMES:
        build = folder / f"{name}-build"
        run("cmake", "-S", exported / name, "-B", build, f"-DCMAKE_C_COMPILER={compiler}", "-DOPWRIGHT_STATIC=ON",
            "-DOPWRIGHT_STRICT=ON", "-DOPWRIGHT_ISAS=portable", "-DCMAKE_INSTALL_LIBDIR=lib",
            f"-DCMAKE_INSTALL_PREFIX={folder / 'prefix'}", *flags)  # fmt: skip
        run("cmake", "--build", build)
        run("cmake", "--install", build)
    return folder / "prefix"


def linked(prefix: Path, compiler: str, program: Path, *flags: str) -> Path:
    include = [f"-I{prefix / 'include' / name}" for name in NAMES]
    libraries = [prefix / "lib" / f"lib{name}.a" for name in NAMES]
    run(compiler, *STRICT[1:], *flags, *include, PROGRAM, "-x", "none", *libraries, "-lm", "-lpthread", "-o", program)
    return program


@every_compiler
def test_static_libraries_of_two_exports_link_into_one_program(compiler: str, installed: Path, tmp_path: Path) -> None:
    cpp = {"gcc": "g++", "clang": "clang++"}[compiler]
    needs(compiler, cpp)
    c = linked(installed, compiler, tmp_path / "c", "-std=c11")
    assert run(c) == "0 2 0 4\nsrc-missing\n"
    assert run(linked(installed, cpp, tmp_path / "cpp", "-x", "c++", "-std=c++11")) == run(c)


def test_a_static_library_defines_its_functions_and_nothing_else(installed: Path) -> None:
    needs("nm")
    for name, prefix in zip(NAMES, ("opwright", "acme"), strict=True):
        listed = run("nm", "--extern-only", "--defined-only", installed / "lib" / f"lib{name}.a").splitlines()
        names = {line.split()[-1] for line in listed if len(line.split()) == 3}
        assert names == {f"{prefix}_relu{ending}" for ending in ("", "_workspace", "_infer")}


def test_static_libraries_run_on_aarch64(exported: Path, tmp_path: Path) -> None:
    compiler = "aarch64-linux-gnu-gcc"
    needs("cmake", compiler, "qemu-aarch64")
    prefix = built(exported, tmp_path, compiler, *CROSS)
    assert run("qemu-aarch64", linked(prefix, compiler, tmp_path / "c", "-static")).startswith("0 2 0 4\n")


def test_a_program_finds_static_libraries_by_cmake(installed: Path, tmp_path: Path) -> None:
    targets = " ".join(f"{name}::{name}_static" for name in NAMES)
    found = "\n".join(f"find_package({name} REQUIRED)" for name in NAMES)
    (tmp_path / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.16)\nproject(two LANGUAGES C)\n"
        f"{found}\nadd_executable(two {PROGRAM})\ntarget_link_libraries(two {targets})\n"
    )
    run("cmake", "-S", tmp_path, "-B", tmp_path / "build", f"-DCMAKE_PREFIX_PATH={installed}")
    run("cmake", "--build", tmp_path / "build")
    assert run(tmp_path / "build" / "two").startswith("0 2 0 4\n")
