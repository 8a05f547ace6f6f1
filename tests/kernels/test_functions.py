"""The functions of f32 that values are made with: how far they are from exact, on every compiler and instruction set.

With OPWRIGHT_SWEEP=full and OPWRIGHT_UPDATE_GOLDEN=1, what a walk over all f32 finds is recorded in docs/functions.json.
"""

from __future__ import annotations

import json
import os
import platform
import re
import shutil
import subprocess
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from opwright.emit.steps.values import OF_ROWS
from opwright.language import expr
from opwright.language.functions import F32_ULPS
from opwright_kernels import _engine, _isa, _step_kernels
from support import functions
from support.compilers import INCLUDE, STRICT, compile_with
from support.draws import FULL
from support.functions import BUILDS, CONTRACTED, EMULATED, UNARY, Build, Walk

ROOT = Path(__file__).parents[2]
RECORD = ROOT / "docs" / "functions.json"
UPDATE = os.environ.get("OPWRIGHT_UPDATE_GOLDEN") == "1"
# Of so many batches of 4096 numbers one is walked over in short form.
STRIDE = 1021
LOOPS = '#include "opwright_functions_f32.h"\n' + "".join(
    f"void loop_{name}(int n, const float *restrict x, const float *restrict y, float *restrict z)\n"
    f"{{ for (int i = 0; i < n; ++i) z[i] = opwright_{name}_f32({'x[i], y[i]' if name == 'pow' else 'x[i]'}); }}\n"
    for name in F32_ULPS
)
# Rows of 700 cells and a divisor each, the last cell divided in place.
OVER = """
#include <stdio.h>
#include <string.h>
#include "opwright_functions_rows.h"
static float row[701], made[701];
int main(void)
{
    int64_t wrong = 0, all = 0;
    while (fread(row, sizeof *row, 701, stdin) == 701) {
        opwright_over_row_f32(made, row, 699, row[700]);
        made[699] = row[699];
        opwright_over_row_f32(made + 699, made + 699, 1, row[700]);
        for (int i = 0; i < 700; ++i, ++all) {
            const float wanted = row[i] / row[700];
            wrong += wanted == wanted ? memcmp(&wanted, made + i, sizeof wanted) != 0 : made[i] == made[i];
        }
    }
    printf("%d differ of %d\\n", (int)wrong, (int)all);
    return 0;
}
"""


def recorded() -> dict[str, dict[str, str | float]]:
    """What the last walk over all f32 found, by function."""
    functions: dict[str, dict[str, str | float]] = json.loads(RECORD.read_text())["functions"]
    return functions


@cache
def arguments() -> np.ndarray:
    worst = [int(str(row["at"]), 16) for row in recorded().values()]
    return functions.sample(worst, np.random.default_rng(17))


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> dict[str, np.ndarray]:
    """The results of the first build."""
    return functions.results(functions.program(BUILDS[0], tmp_path_factory.mktemp("reference")), arguments())


def check(name: str, got: np.ndarray) -> None:
    wanted = functions.exact(name, arguments())
    assert np.array_equal(np.isnan(got), np.isnan(wanted)), name
    zero = got == 0
    assert np.array_equal(np.signbit(got[zero]), np.signbit(wanted[zero])), name
    far = np.nan_to_num(functions.distances(got, wanted))
    at = int(far.argmax())
    assert far[at] <= F32_ULPS[name], (
        f"{name}{tuple(arguments()[at])} is {got[at]}, {far[at]:.3f} ulp from {wanted[at]}"
    )


@pytest.mark.parametrize("build", BUILDS, ids=str)
def test_functions_keep_to_their_bounds_and_give_the_same_bits_everywhere(
    build: Build, tmp_path: Path, reference: dict[str, np.ndarray]
) -> None:
    got = functions.results(functions.program(build, tmp_path), arguments())
    for name, values in got.items():
        check(name, values)
        assert np.array_equal(values, reference[name], equal_nan=True), name


@pytest.mark.parametrize("build", BUILDS, ids=str)
def test_functions_of_rows_give_the_bits_of_those_of_cells(
    build: Build, tmp_path: Path, reference: dict[str, np.ndarray]
) -> None:
    source = tmp_path / "rows.c"
    source.write_text(functions.rows("f32"))
    cells = np.ascontiguousarray(arguments()[:, 0])
    command = functions.program(build, tmp_path, source=source)
    done = subprocess.run(command, input=cells.tobytes(), capture_output=True, timeout=300, check=True)
    got = np.frombuffer(done.stdout, np.float32).reshape(-1, len(cells))
    for name, values in zip(OF_ROWS, got, strict=True):
        wanted = reference[name]
        assert np.array_equal(np.isnan(values), np.isnan(wanted)), name
        number = ~np.isnan(wanted)
        assert np.array_equal(values[number].view(np.uint32), wanted[number].view(np.uint32)), name


@pytest.mark.parametrize("build", BUILDS, ids=str)
def test_quotients_of_a_row_by_one_number_have_the_bits_of_quotients(build: Build, tmp_path: Path) -> None:
    rng = np.random.default_rng(31)
    cells = rng.integers(0, 2**32, (600, 700), np.uint32).view(np.float32)
    cells[::3] = rng.random((200, 700), np.float32) + 0.5
    cells[1::6, ::5] = 0
    divisors = np.concatenate(
        [rng.integers(0, 2**32, 200, np.uint32).view(np.float32), rng.random(400, np.float32) * 9]
    )
    cells[599] = (cells[0].astype(np.float64) + 2.0**-25) * divisors[599]  # close to the middle of two numbers
    source = tmp_path / "over.c"
    source.write_text(OVER)
    given = np.concatenate([cells, divisors[:, None]], axis=1, dtype=np.float32)
    command = functions.program(build, tmp_path, source=source)
    done = subprocess.run(command, input=given.tobytes(), capture_output=True, timeout=300, check=True)
    assert done.stdout == b"0 differ of 420000\n"


@pytest.mark.parametrize("build", CONTRACTED, ids=str)
def test_functions_keep_to_their_bounds_where_a_compiler_contracts(build: Build, tmp_path: Path) -> None:
    for name, values in functions.results(functions.program(build, tmp_path), arguments()).items():
        check(name, values)


@pytest.mark.parametrize("build", BUILDS, ids=str)
def test_loops_of_functions_are_vectorised(build: Build, tmp_path: Path) -> None:
    if shutil.which(build.compiler) is None:
        pytest.skip(f"{build.compiler} is not installed")
    source = tmp_path / "loops.c"
    source.write_text(LOOPS)
    tell = "-Rpass=loop-vectorize" if build.compiler == "clang" else "-fopt-info-vec-optimized"
    # Without -fno-trapping-math gcc makes no vectors of floor.
    flags = (*_step_kernels.FLAGS, *functions.isa_of(build).flags, *INCLUDE, tell)
    command = [build.compiler, *flags, "-c", source, "-o", tmp_path / "loops.o"]
    report = subprocess.run(command, capture_output=True, text=True, check=True).stderr
    lines = {int(line) for line in re.findall(r"loops\.c:(\d+):\d+: .*vectorized", report)}
    # tanh and erf look up tables: not every compiler makes vectors of that where no instruction gathers.
    looked_up = {"tanh", "erf"} if build.isa in ("portable", "neon") else set()
    assert {name for number, name in enumerate(F32_ULPS) if 3 + 2 * number not in lines} <= looked_up


@pytest.mark.parametrize("compiler", ["gcc", "clang", EMULATED.compiler])
def test_the_header_is_clean_under_all_warnings(compiler: str, tmp_path: Path) -> None:
    source = tmp_path / "loops.c"
    source.write_text(LOOPS)
    compile_with(
        compiler, "-std=c11", "-O2", *STRICT, "-Wno-unused-parameter", "-c", source, "-o", tmp_path / "loops.o"
    )


@pytest.mark.sweep
def test_all_numbers_keep_to_the_bounds_and_give_what_is_recorded(tmp_path: Path) -> None:
    """Against the C library's double, its vector library where there is one; without FULL one of STRIDE stretches.

    A change of any result has to be recorded anew, and that walks over all numbers.
    """
    best = [build for build in BUILDS if build.compiler == "gcc" and isa_here(build)][-1]
    more = ("-std=gnu11", "-DLANES", "-lmvec") if best.isa == "avx512" and platform.libc_ver()[0] == "glibc" else ()
    command = functions.program(best, tmp_path, *more)
    found = {name: functions.walk(command, name, STRIDE) for name in UNARY}
    every = {name: functions.walk(command, name, 1) for name in UNARY} if FULL else {}
    if FULL and UPDATE:
        record(every, found, best, "the vector library of glibc, in double" if more else "the C library, in double")
    for name, row in [*found.items(), *every.items()]:
        assert row.wrong == 0, name
        assert row.ulp <= F32_ULPS[name], (name, hex(row.at))
    for key, rows in (("sampled", found), ("checksum", every)):
        for name, row in rows.items():
            assert f"{row.checksum:016x}" == recorded()[name][key], f"{name} gives other results: walk over all of them"


def record(every: dict[str, Walk], found: dict[str, Walk], build: Build, against: str) -> None:
    cpu = re.search(r"model name\s*: (.*)", Path("/proc/cpuinfo").read_text())
    version = subprocess.run([build.compiler, "--version"], capture_output=True, text=True, check=True).stdout
    about = {
        "what": "the worst of all 2^32 numbers of f32: its distance from the exact result in ulp, and its bits",
        "against": against,
        "cpu": cpu[1] if cpu else platform.machine(),
        "compiler": version.splitlines()[0],
        "flags": " ".join((*_engine.REFERENCE_FLAGS, *functions.isa_of(build).flags)),
    }
    rows = {
        name: {
            "ulp": row.ulp,
            "at": f"{row.at:08x}",
            "checksum": f"{row.checksum:016x}",
            "sampled": f"{found[name].checksum:016x}",
        }
        for name, row in every.items()
    }
    RECORD.write_text(json.dumps({**about, "functions": rows}, indent=2) + "\n")


def isa_here(build: Build) -> bool:
    return functions.isa_of(build).needs <= _isa.cpu_flags()


def test_what_all_numbers_gave_is_recorded_and_keeps_to_the_bounds() -> None:
    assert set(recorded()) == set(UNARY) == set(F32_ULPS) - {"pow"}
    for name, row in recorded().items():
        assert F32_ULPS[name] - 0.2 < float(row["ulp"]) <= F32_ULPS[name], name


def test_every_function_of_real_numbers_has_a_bound() -> None:
    assert set(F32_ULPS) == set(expr.REAL_FUNCTIONS) - {"select", *expr.BIT_FUNCTIONS, *expr.CONVERSIONS} | {
        "floor",
        "ceil",
    }


def test_the_language_prints_the_bounds() -> None:
    text = (ROOT / "docs" / "SPEC.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `([^|]*)` \| ([\d.]+) \|", text.partition("### Functions")[2], re.MULTILINE)
    assert {name: float(ulp) for names, ulp in rows for name in names.split("`, `")} == F32_ULPS
