"""The kernels are plain C: callable without Python, warning-free, and exactly the ones that the package lists."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import opwright_kernels as ok
import pytest
from support.compilers import COMPILERS, ENTRIES, SOURCES, STRICT, compile_with, engine_names, every_compiler
from support.draws import FULL, rng
from support.generated import PACKAGE

# ConvTranspose of [1, 2] with [1, 10, 100], stride 2, once as a whole and once in three parts.
PROGRAM = """
#include <opwright_kernels.h>
int main(void)
{
    const float src[2] = {1, 2}, weights[3] = {1, 10, 100}, bias[1] = {5};
    const float expected[5] = {6, 15, 107, 25, 205};
    float whole[5], split[5];
    const opwright_conv_transpose_sizes sizes = {
        1, 1, 1, {1, 1, 2}, {1, 1, 5}, {1, 1, 3}, {1, 1, 1}, 1, {0, 0, 0}, {1, 1, 2}, 0};
    conv_transpose_f32_ncx_iox_dense_portable(src, weights, bias, whole, &sizes, 0, 1);
    for (int64_t part = 0; part < 3; ++part) {
        conv_transpose_f32_ncx_iox_dense_portable(src, weights, bias, split, &sizes, part, 3);
    }
    for (int i = 0; i < 5; ++i) {
        if (!(whole[i] >= expected[i] && whole[i] <= expected[i] && split[i] >= whole[i] && split[i] <= whole[i])) {
            return 1 + i;
        }
    }
    return 0;
}
"""


@pytest.fixture(scope="module")
def kernel_object(tmp_path_factory: pytest.TempPathFactory) -> Path:
    kernel = tmp_path_factory.mktemp("kernel") / "kernel.o"
    compile_with("gcc", "-std=c11", "-O1", "-c", PACKAGE / "c" / "conv_transpose_f32.c", "-o", kernel)
    return kernel


@pytest.mark.parametrize(
    ("compiler", "language", "standard"),
    [("gcc", "c", "c11"), ("clang", "c", "c11"), ("g++", "c++", "c++11"), ("clang++", "c++", "c++11")],
)
def test_a_program_in_c_or_cplusplus_calls_a_kernel(
    kernel_object: Path, tmp_path: Path, compiler: str, language: str, standard: str
) -> None:
    source, program = tmp_path / "program", tmp_path / "program.out"
    source.write_text(PROGRAM)
    flags = (f"-std={standard}", *STRICT, "-x", language, source, "-x", "none", kernel_object, "-o", program)
    compile_with(compiler, *flags)
    assert subprocess.run([program], timeout=20, check=False).returncode == 0


def read(paths: Sequence[Any]) -> list[tuple[Any, str]]:
    """Files with compilers: both read what each template prints, but not of every operation; a short run has half of them."""
    if FULL:
        return [(path, name) for path in paths for name in COMPILERS]
    return [(path, COMPILERS[at % 2]) for at, path in enumerate(paths[::2])]


@pytest.mark.parametrize(("source", "compiler"), read(SOURCES), ids=lambda part: getattr(part, "stem", part))
def test_every_kernel_compiles_without_a_warning(source: Path, compiler: str) -> None:
    compile_with(compiler, "-std=c11", *STRICT, "-fsyntax-only", source)


@every_compiler
@pytest.mark.parametrize("source", ENTRIES, ids=lambda path: path.stem)
def test_every_entry_compiles_without_a_warning(source: Path, compiler: str) -> None:
    names = engine_names("avx2", source.stem.removesuffix("_depthwise").rpartition("_")[2])
    compile_with(compiler, "-std=c11", *STRICT, *names, "-fsyntax-only", source)


INCLUDE = PACKAGE / "include"
HEADERS = sorted(path.relative_to(INCLUDE).as_posix() for path in INCLUDE.rglob("*.h"))


@pytest.mark.parametrize(("header", "compiler"), read(HEADERS))
def test_every_header_stands_alone(tmp_path: Path, header: str, compiler: str) -> None:
    source = tmp_path / "only.c"
    source.write_text(f"#include <{header}>\n#include <{header}>\nint here;\n")
    compile_with(compiler, "-std=c11", *STRICT, "-fsyntax-only", source)


def with_entries(variant: ok.VariantInfo) -> bool:
    """Whether a kernel of the engine computes it; the others are functions of their own, one for every ISA."""
    function = next(name for name in ok.operations() if ok._OPERATIONS[name].name == variant.op)
    return variant.isa != "portable" and any(path.name.startswith(f"{function}_") for path in ENTRIES)


FAST = [variant for variant in ok.variants() if with_entries(variant)]


def test_the_headers_declare_the_variants_and_no_other_function(tmp_path: Path) -> None:
    (tmp_path / "header.c").write_text("#include <opwright_kernels.h>\n")
    compile_with("gcc", "-std=c11", "-E", "-P", tmp_path / "header.c", "-o", tmp_path / "header.i")
    text = (tmp_path / "header.i").read_text()
    declared = re.findall(r"^void (\w+)\(", text, re.MULTILINE)
    types = {*re.findall(r"^typedef \w+ (opwright_\w+)\(", text, re.MULTILINE)}  # of functions
    lists = [names for of, names in re.findall(r"\b(opwright_\w+)\s+([\w,\s]+);", text) if of in types]
    declared += [name for names in lists for name in names.split(",")]
    named = [variant.name for variant in ok.variants()]
    named += [variant.name + end for variant in FAST for end in ("_fixed", "_scratch")]
    assert sorted({name.strip() for name in declared}) == sorted(named)


def exported(objects: list[Path]) -> list[str]:
    command = ["nm", "-g", "--defined-only", *objects]
    listed = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    return sorted(line.split()[2] for line in listed.stdout.splitlines() if len(line.split()) == 3)


@pytest.mark.sweep
@pytest.mark.skipif(shutil.which("nm") is None, reason="nm is not installed")
def test_the_objects_export_the_variants_and_no_other_symbol(tmp_path: Path) -> None:
    sources = SOURCES if FULL else SOURCES[rng("exported").integers(8) :: 8]
    for source in sources:
        compile_with("gcc", "-std=c11", "-O0", "-c", source, "-o", tmp_path / f"{source.stem}.o")
    gradients = (variant for operation in ok._GRADIENTS.values() for variant in operation.variants)
    named = [variant.name for variant in (*ok.variants(), *gradients) if variant.isa == "portable"]
    found = {source.stem: exported([tmp_path / f"{source.stem}.o"]) for source in sources}
    assert all(found.values())
    assert {name for names in found.values() for name in names} <= {*named}
    if FULL:
        assert sorted(name for names in found.values() for name in names) == sorted(named)


@pytest.mark.skipif(shutil.which("nm") is None, reason="nm is not installed")
@pytest.mark.parametrize("isa", ["avx2", "avx512", "avx512_bf16", "amx_bf16"])
def test_the_entries_export_the_variants_of_their_instruction_set(tmp_path: Path, isa: str) -> None:
    wanted = [v.name for v in FAST if v.isa == isa]
    for source in ENTRIES:
        dtype = source.stem.removesuffix("_depthwise").rpartition("_")[2]
        depthwise = source.stem.endswith("_depthwise")
        if any(v.isa == isa and v.dtype == dtype and (v.group_class == "depthwise") is depthwise for v in FAST):
            names = engine_names(isa, dtype)
            compile_with("gcc", "-std=c11", "-O0", *names, "-c", source, "-o", tmp_path / f"{source.stem}.o")
    found = exported(sorted(tmp_path.glob("*.o")))
    assert found == sorted(name + end for name in wanted for end in ("", "_fixed", "_scratch"))


def test_the_names_say_what_the_variants_are() -> None:
    for variant in ok.variants():
        words = [variant.dtype, *map(str.lower, variant.layouts), variant.group_class, variant.isa]
        assert variant.name.endswith("_".join(filter(None, words)))
    assert len({variant.name for variant in ok.variants()}) == len(ok.variants())
