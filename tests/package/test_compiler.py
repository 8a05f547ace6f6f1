"""The C compiler: which one is asked, which flags it gets, and the error for one that is missing or unfit."""

import dataclasses
import os
import shutil
import subprocess
import sys

import opwright_kernels as ok
import pytest
from opwright_kernels import _build, _isa, _load, _units
from support.units import PACKAGES, entries, make_unit

if not any(shutil.which(name) for name in ("cc", "gcc", "clang")):
    pytest.skip("a C compiler is missing", allow_module_level=True)
pytestmark = pytest.mark.usefixtures("cache")
BEST = next(isa.name for isa in _isa.usable(_isa.ISAS) if not isa.fast or "f32" in isa.dtypes)  # for f32


@pytest.mark.skipif(shutil.which("clang") is None, reason="clang is not installed")
@pytest.mark.parametrize("name", ["clang", "gcc"])
def test_flags_for_speed_are_left_out_where_a_compiler_lacks_them(unit, name, monkeypatch):
    if shutil.which(name) is None:
        pytest.skip(f"{name} is not installed")
    monkeypatch.setenv("CC", name)
    tuning = ("-fno-predictive-commoning", "-mllvm -disable-lsr", "-fno-such-flag")
    library = _load.load(dataclasses.replace(unit, tuning=tuning))
    assert library.lib.twice(21) == 42
    log = library.log.read_text()
    assert [flag in log for flag in tuning] == [name == "gcc", name == "clang", False]


def test_flags_for_speed_are_left_out_where_the_probe_is_not_taken_with_them(unit):
    probe = "#ifdef REFUSED\nint f(void) { return unknown_builtin(); }\n#endif\n"
    library = _load.load(dataclasses.replace(unit, tuning=("-DREFUSED", "-DTAKEN"), probe=probe))

    log = library.log.read_text()
    assert "-DTAKEN" in log
    assert "-DREFUSED" not in log


# Everything that lanes.h has an instruction for, of the elements at `from` and the floats at `numbers`.
CALL = """


import warnings
import numpy as np
import opwright_kernels as ok

src, weights = np.ones((1, 6, 6, 20), np.float32), np.ones((3, 3, 20, 24), np.float32)
lists = {"strides": [1, 1], "pads_begin": [0, 0], "pads_end": [0, 0], "dilations": [1, 1]}
with warnings.catch_warnings(record=True) as shown:
    warnings.simplefilter("always")
    assert (ok.convolution(src, weights, **lists) == 180).all()
print([str(warning.message) for warning in shown])
print(ok.explain("convolution", src, weights, **lists).variant.isa)
"""


def what_a_call_says(compiler, **environment):
    environment = {**os.environ, "PYTHONPATH": str(PACKAGES), "CC": compiler, **environment}
    done = subprocess.run([sys.executable, "-c", CALL], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.mark.skipif(shutil.which("clang") is None, reason="clang is not installed")
def test_clang_makes_the_kernels_that_the_cpu_deserves():
    warned, kernel = what_a_call_says("clang")
    assert warned == "[]"
    assert kernel == BEST


@pytest.mark.skipif(BEST == "portable", reason="this CPU has portable kernels only")
def test_kernels_that_are_portable_because_of_the_compiler_come_with_a_warning(tmp_path):
    compiler = tmp_path / "old-cc"
    compiler.write_text(
        '#!/bin/sh\ncase "$*" in *-march=*) echo "error: what is -march?"; exit 1;; esac\nexec cc "$@"\n'
    )
    compiler.chmod(0o755)
    warned, kernel = what_a_call_says(str(compiler))
    assert "falls back to portable kernels" in warned
    assert "what is -march?" in warned
    assert kernel == "portable"


# --- compilers


def test_without_a_compiler_the_error_says_what_to_install(unit, monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ok.BuildError, match=r"no C compiler: cc, gcc, clang not found.*apt install gcc"):
        _load.load(unit)
    with pytest.raises(ok.BuildError, match="no C compiler"):
        _build.build([unit])


def test_without_a_compiler_the_cache_still_serves(unit, monkeypatch, tmp_path):
    (path,) = _build.build([unit])
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(_units, "python_include", list)
    assert _load.load(unit).path == path


def test_a_missing_cc_is_named(unit, monkeypatch):
    monkeypatch.setenv("CC", "no-such-cc -m64")
    with pytest.raises(ok.BuildError, match=r"no-such-cc not found on the PATH \(CC names it\)"):
        _load.load(unit)


def test_a_compiler_that_does_not_work_is_named_in_the_error(unit, monkeypatch, tmp_path):
    compiler = tmp_path / "cc"
    compiler.write_text("#!/bin/sh\necho licence expired\nexit 3\n")
    compiler.chmod(0o755)
    monkeypatch.setenv("CC", str(compiler))
    with pytest.raises(ok.BuildError, match=r"does not work: .*licence expired"):
        _load.load(unit)
    compiler.write_text("")
    with pytest.raises(ok.BuildError, match="cannot be run"):
        _load.load(unit)


def test_a_compile_error_shows_the_end_of_the_log_and_where_it_is(tmp_path, cache):
    broken = make_unit(tmp_path / "c", body="x + no_such_name")
    with pytest.raises(ok.BuildError, match="does not compile") as caught:
        _load.load(broken)
    assert "no_such_name" in str(caught.value)
    (log,) = cache.glob("*.log")
    assert str(log) in str(caught.value)
    assert "no_such_name" in log.read_text()
    assert "thrice.c" in log.read_text()  # what did compile is there too
    assert entries(cache) == []  # nothing half-made is left
    assert _load.load(make_unit(tmp_path / "c")).lib.twice(2) == 4


def test_one_broken_unit_does_not_keep_the_others_from_being_built(tmp_path, cache):
    units = [make_unit(tmp_path / "bad", body="x +", name="bad"), make_unit(tmp_path / "good", name="good")]
    with pytest.raises(ok.BuildError, match="bad does not compile"):
        _build.build(units)
    assert [name.split("-")[0] for name in entries(cache)] == ["good"]


def test_a_cc_that_is_no_command_is_named_in_the_error(unit, monkeypatch):
    monkeypatch.setenv("CC", "gcc 'x" + "y" * 9999)
    with pytest.raises(ok.BuildError, match=r"CC is .*\.\.\.., which is not a command: No closing quotation") as caught:
        _load.load(unit)
    assert len(str(caught.value)) < 200


@pytest.mark.parametrize("name", ["gcc", "clang"])
@pytest.mark.parametrize(
    ("flags", "freedom"),
    [
        ("-ffast-math", "to assume that NaN does not occur, to reorder sums"),
        ("-O0 -ffast-math", "to reorder sums"),
        ("-Ofast", "to reorder sums"),
        ("-ffinite-math-only", "to assume that NaN does not occur;"),
        ("-fno-signed-zeros", "to ignore the sign of zero;"),
        ("-freciprocal-math", "to multiply by reciprocals;"),
        ("-funsafe-math-optimizations", "to reorder sums"),
        ("-fno-signed-zeros -fno-trapping-math -fassociative-math", "to reorder sums"),
    ],
)
def test_a_compiler_that_breaks_the_numerics_is_refused(unit, cache, monkeypatch, name, flags, freedom):
    if shutil.which(name) is None:
        pytest.skip(f"{name} is not installed")
    monkeypatch.setenv("CC", f"{name} {flags}")
    with pytest.raises(ok.BuildError, match=f"breaks the numerics that kernels promise: .* is free .*{freedom}"):
        _load.load(unit)
    assert entries(cache) == []


def test_a_compiler_that_links_denormals_away_is_refused(unit, cache, monkeypatch, tmp_path):
    """As newer ones do with -mdaz-ftz, which leaves no trace in what they compile."""
    compiler = tmp_path / "newer"
    compiler.write_text('#!/bin/sh\ncase "$*" in *"-###"*) echo "ld crtfastmath.o";; *) exec gcc "$@";; esac\n')
    compiler.chmod(0o755)
    monkeypatch.setenv("CC", str(compiler))
    with pytest.raises(
        ok.BuildError, match=r"breaks the numerics that kernels promise: .* is free to take denormals for zero"
    ):
        _load.load(unit)
    assert entries(cache) == []


@pytest.mark.parametrize("name", ["gcc", "clang"])
def test_flags_that_keep_the_numerics_are_taken(unit, monkeypatch, name):
    if shutil.which(name) is None:
        pytest.skip(f"{name} is not installed")
    monkeypatch.setenv("CC", f"{name} -g -fno-math-errno -O3 -DFAST_MATH")
    assert _load.load(unit).lib.twice(4) == 8


@pytest.mark.parametrize("variable", ["OPWRIGHT_SPECIALIZE", "OPWRIGHT_NUM_THREADS"])
def test_a_number_of_five_thousand_digits_in_the_environment_is_refused_in_a_few_words(variable):
    program = (
        "import numpy as np, opwright_kernels as ok\n"
        "x, w = np.ones((1, 99, 99, 16), np.float32), np.ones((3, 3, 16, 8), np.float32)\n"
        "try: ok.convolution(x, w, strides=[1, 1], pads_begin=[0, 0], pads_end=[0, 0], dilations=[1, 1])\n"
        "except ok.SpecError as error: print(error.argument, len(str(error)))\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(PACKAGES), "OPWRIGHT_ISA": "portable", variable: "9" * 5000}
    environment.pop("OPWRIGHT_CACHE_DIR")
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    argument, length = done.stdout.split()
    assert (argument, int(length) < 400) == (variable, True)
