"""The functions of f64 that values are made with: how far they are from exact, on every compiler and instruction set.

Instruction sets that multiply and add at once give the same bits.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from opwright.emit.steps.values import OF_ROWS
from opwright.language.functions import F64_ULPS
from opwright_kernels import _step_kernels
from support import functions
from support.compilers import INCLUDE, STRICT, compile_with
from support.functions import BUILDS, CONTRACTED, Build

ROOT = Path(__file__).parents[2]
DRIVER = Path(functions.__file__).parent / "function_driver_f64.c"
LOOPS = '#include "opwright_functions.h"\n' + "".join(
    f"void loop_{name}(int n, const double *restrict x, double *restrict y)\n"
    f"{{ for (int i = 0; i < n; ++i) y[i] = opwright_{name}_f64({'x[i], x[n + i]' if name == 'pow' else 'x[i]'}); }}\n"
    for name in F64_ULPS
)


@cache
def arguments() -> np.ndarray:
    """Every exponent with edges and random mantissas, both sides of where functions reduce or change, plain numbers."""
    random = np.random.default_rng(18)
    root = 0x6A09E667F3BCD  # the mantissa of sqrt(2)
    edges = [*range(2), *range(root - 2, root + 3), 2**51 - 1, 2**51, *range(2**52 - 2, 2**52)]
    mantissas = np.concatenate([np.tile(edges, (4096, 1)), random.integers(0, 2**52, (4096, 4))], 1).astype(np.uint64)
    patterns = ((np.arange(4096, dtype=np.uint64)[:, None] << np.uint64(52)) | mantissas).ravel().view(np.float64)
    n = np.arange(-1100, 1100)
    ends = [0.625, 0.92, 6, 20, 708.4, 709.79, 710, 745.2, 746, 1022, 1023, 1024, 1074, 1075, 1076, 2.0**53, 2.0**64]
    turns = [n + 0.5, (n + 0.5) * np.log(2), 2.0 ** np.arange(-60.5, 60) - 1, ends]
    boundaries = np.concatenate([*turns, *map(np.negative, turns)]).view(np.int64)
    around = (boundaries[:, None] + np.arange(-4, 5)).ravel().view(np.float64)
    ranges = [(-1.2, 1.2, 30_000), (0.5, 2, 20_000), (-20, 20, 20_000), (-750, 715, 20_000), (-1080, 1030, 20_000)]
    plain = [random.uniform(low, high, count) for low, high, count in ranges]
    found = np.concatenate([patterns, around, *plain])
    return np.where(np.isnan(found), np.nan, found)  # none signals: the C library makes NaN of their power 0


@cache
def exponents() -> np.ndarray:
    """For each argument a power: one whose result is a number of f64, or a special one."""
    random = np.random.default_rng(19)
    with np.errstate(all="ignore"):
        scale = 750 / np.maximum(np.abs(np.log(np.abs(arguments()))), 1e-9)
    powers = random.uniform(-1.02, 1.02, len(scale)) * np.nan_to_num(scale)
    special = [0, 1, 2, 3, 0.5, -0.5, -1, -2, -3, 2.0**53 - 1, 2.0**60, np.inf, -np.inf, np.nan, 5e-324, 1e300]
    return np.where(random.random(len(scale)) < 0.3, random.choice(special, len(scale)), powers)


def results(build: Build, folder: Path) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """What each function makes of the arguments, and how far that is from exact."""
    command = functions.program(build, folder, source=DRIVER)
    given = np.concatenate([arguments(), exponents()]).tobytes()
    done = subprocess.run(command, input=given, capture_output=True, timeout=300, check=True)
    rows = np.frombuffer(done.stdout, np.float64).reshape(len(F64_ULPS), 2, -1)
    return {name: (values, far) for name, (values, far) in zip(F64_ULPS, rows, strict=True)}


def check(name: str, values: np.ndarray, far: np.ndarray) -> None:
    at = int(far.argmax())
    assert len(far) == len(arguments())
    assert far[at] <= F64_ULPS[name], (
        f"{name}({arguments()[at].hex()}) is {values[at].hex()}, {far[at]:.3f} ulp from exact"
    )


@pytest.fixture(scope="module")
def references(tmp_path_factory: pytest.TempPathFactory) -> dict[bool, dict[str, tuple[np.ndarray, np.ndarray]]]:
    """The results of the first build that fuses, and of the first that does not."""
    first = {fuses(build): build for build in reversed(BUILDS) if build.compiler == "gcc"}
    return {fused: results(build, tmp_path_factory.mktemp("reference")) for fused, build in first.items()}


def fuses(build: Build) -> bool:
    return build.isa != "portable"


@pytest.mark.parametrize("build", BUILDS, ids=str)
def test_functions_keep_to_their_bounds_and_give_the_same_bits_everywhere(
    build: Build, tmp_path: Path, references: dict[bool, dict[str, tuple[np.ndarray, np.ndarray]]]
) -> None:
    for name, (values, far) in results(build, tmp_path).items():
        check(name, values, far)
        wanted = references[fuses(build)][name][0]
        number = ~np.isnan(wanted)
        assert np.array_equal(values[number].view(np.uint64), wanted[number].view(np.uint64)), name


@pytest.mark.parametrize("build", BUILDS, ids=str)
def test_functions_of_rows_give_the_bits_of_those_of_cells(
    build: Build, tmp_path: Path, references: dict[bool, dict[str, tuple[np.ndarray, np.ndarray]]]
) -> None:
    source = tmp_path / "rows.c"
    source.write_text(functions.rows("f64"))
    command = functions.program(build, tmp_path, source=source)
    done = subprocess.run(command, input=arguments().tobytes(), capture_output=True, timeout=300, check=True)
    rows = np.frombuffer(done.stdout, np.float64).reshape(-1, len(arguments()))
    for name, values in zip(OF_ROWS, rows, strict=True):
        wanted = references[fuses(build)][name][0]
        number = ~np.isnan(wanted)
        assert np.isnan(values[~number]).all(), name
        assert np.array_equal(values[number].view(np.uint64), wanted[number].view(np.uint64)), name


@pytest.mark.parametrize("build", CONTRACTED, ids=str)
def test_functions_keep_to_their_bounds_where_a_compiler_contracts(build: Build, tmp_path: Path) -> None:
    for name, (values, far) in results(build, tmp_path).items():
        check(name, values, far)


@pytest.mark.parametrize("build", BUILDS, ids=str)
def test_loops_of_functions_are_vectorised_as_kernels_are_compiled(build: Build, tmp_path: Path) -> None:
    if shutil.which(build.compiler) is None:
        pytest.skip(f"{build.compiler} is not installed")
    source = tmp_path / "loops.c"
    source.write_text(LOOPS)
    tell = "-Rpass=loop-vectorize" if build.compiler == "clang" else "-fopt-info-vec-optimized"
    flags = (*_step_kernels.FLAGS, *functions.isa_of(build).flags, *INCLUDE, tell)
    command = [build.compiler, *flags, "-c", source, "-o", tmp_path / "loops.o"]
    report = subprocess.run(command, capture_output=True, text=True, check=True).stderr
    lines = {int(line) for line in re.findall(r"loops\.c:(\d+):\d+: .*vectorized", report)}
    # tanh, erf and pow look up tables, and the C library's pow is a call.
    looked_up = set() if build.isa in ("avx2", "avx512") else {"tanh", "erf", "pow"}
    assert {name for number, name in enumerate(F64_ULPS) if 3 + 2 * number not in lines} <= looked_up


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
def test_the_header_is_clean_under_all_warnings(compiler: str, tmp_path: Path) -> None:
    source = tmp_path / "loops.c"
    source.write_text(LOOPS)
    compile_with(compiler, "-std=c11", "-O2", *STRICT, "-c", source, "-o", tmp_path / "loops.o")


def test_the_language_prints_the_bounds() -> None:
    text = (ROOT / "docs" / "SPEC.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `([^|]*)` \| [\d.]+ \| ([\d.]+) \|", text.partition("### Functions")[2], re.MULTILINE)
    printed = {name: float(ulp) for names, ulp in rows for name in names.split("`, `")}
    assert {name: printed[name] for name in F64_ULPS} == F64_ULPS
