"""Compiling and loading: the right key, one builder at a time, broken entries heal, errors say what to do."""

import contextlib
import dataclasses
import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import opwright_kernels
import pytest
from opwright_kernels import _build, _engine, _isa

PACKAGES = Path(opwright_kernels.__file__).parents[1]
CDEF = "int32_t twice(int32_t x);\nint32_t thrice(int32_t x);"

if not any(shutil.which(name) for name in ("cc", "gcc", "clang")):
    pytest.skip("a C compiler is missing", allow_module_level=True)
BEST = next(isa.name for isa in _isa.usable(_isa.ISAS) if isa.name != "avx512_bf16")  # for f32
has_headers = any((folder / "Python.h").is_file() for folder in _build._python_include())
modes = [pytest.param("api", marks=pytest.mark.skipif(not has_headers, reason="Python.h is missing")), "abi"]


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    """An empty cache of this test's own, and a clean environment."""
    for name in ("CC", "CFLAGS", "LDFLAGS", "OPWRIGHT_FFI"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("OPWRIGHT_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(_build, "BUILT", tmp_path / "none")
    _build._loaded.clear()
    return tmp_path / "cache"


def make_unit(folder, body="FACTOR * x", factor=2, name="demo", flags=("-O1", "-std=c11", "-Wall", "-Werror")):
    """A unit of two C files and a header under `folder`."""
    include = folder / "include"
    include.mkdir(parents=True, exist_ok=True)
    (include / "factor.h").write_text(f"#include <stdint.h>\n#define FACTOR {factor}\n")
    (folder / "twice.c").write_text(
        f'#include "factor.h"\nint32_t twice(int32_t x);\nint32_t twice(int32_t x) {{ return {body}; }}\n'
    )
    (folder / "thrice.c").write_text("#include <stdint.h>\nint32_t thrice(int32_t x) { return 3 * x; }\n")
    return _build.Unit(name, CDEF, (folder / "twice.c", folder / "thrice.c"), (include,), flags)


@pytest.mark.skipif(shutil.which("clang") is None, reason="clang is not installed")
@pytest.mark.parametrize("name", ["clang", "gcc"])
def test_flags_for_speed_are_left_out_where_a_compiler_lacks_them(unit, name, monkeypatch):
    if shutil.which(name) is None:
        pytest.skip(f"{name} is not installed")
    monkeypatch.setenv("CC", name)
    tuning = ("-fno-predictive-commoning", "-mllvm -disable-lsr", "-fno-such-flag")
    library = _build.load(dataclasses.replace(unit, tuning=tuning))
    assert library.lib.twice(21) == 42
    log = library.log.read_text()
    assert [flag in log for flag in tuning] == [name == "gcc", name == "clang", False]


def test_flags_for_speed_are_left_out_where_the_probe_is_not_taken_with_them(unit):
    probe = "#ifdef REFUSED\nint f(void) { return unknown_builtin(); }\n#endif\n"
    library = _build.load(dataclasses.replace(unit, tuning=("-DREFUSED", "-DTAKEN"), probe=probe))
    log = library.log.read_text()
    assert "-DTAKEN" in log
    assert "-DREFUSED" not in log


# Everything that lanes.h has an instruction for, of the elements at `from` and the floats at `numbers`.
LANES = """
#include "lanes.h"

void all_of(const elem *from, const float *numbers, const int32_t *places, elem *to, float *sums);
void all_of(const elem *from, const float *numbers, const int32_t *places, elem *to, float *sums) {
    ivec at;
    memcpy(&at, places, sizeof at);
    for (int64_t n = 0; n <= LANES; n++, sums += 8 * LANES, to += 2 * LANES) {
        vec_store_part(sums, vec_load_part(numbers, n), n);
        vec_store(sums + LANES, vec_pick(vec_load(numbers), at));
        vec_store(sums + 2 * LANES, elem_load(from + n));
        vec_store(sums + 3 * LANES, elem_load_part(from + n, n));
        sums[4 * LANES] = uvec_any((uvec)vec_load_part(numbers, n));
#if OPWRIGHT_WINDOWS
        vec_store(sums + 5 * LANES, elem_load_window(from, window_of(n / 2, n)));
#endif
#if OPWRIGHT_PAIRS
        const uvec pairs = pairs_load_part(from, 2 * n);
        vec_store(sums + 6 * LANES, dot_pairs(vec_load(numbers), pairs, pairs_load_part(from + n, n)));
#endif
        elem_store_part(to, vec_load(numbers) * (float)n, n);
        elem_stream(to + LANES, vec_load(numbers) * (float)n);
    }
    stream_end();
}
"""


@pytest.mark.parametrize(("label", "isa"), [(label, isa) for isa in _isa.usable(_isa.ISAS) for label in isa.dtypes])
def test_builtins_of_the_compiler_give_the_bits_of_the_intrinsics(label, isa, tmp_path):
    engine = _engine.unit(isa, label, "plain.c")
    (tmp_path / "lanes.c").write_text(LANES)
    element = "float" if label == "f32" else "uint16_t"
    cdef = (
        f"void all_of(const {element} *from, const float *numbers, const int32_t *places, {element} *to, float *sums);"
    )
    values = np.random.default_rng(1).normal(size=64).astype(np.float32)
    values[[3, 9, 33]] = np.inf, np.nan, 1e-40
    halves = np.random.default_rng(2).integers(0, 2**16, 64, dtype=np.uint16)
    source = values if label == "f32" else halves
    results = []
    for tuning in (engine.tuning, tuple(flag for flag in engine.tuning if flag != "-DOPWRIGHT_BUILTINS")):
        unit = dataclasses.replace(engine, name="lanes", cdef=cdef, sources=(tmp_path / "lanes.c",), tuning=tuning)
        library = _build.load(unit)
        assert library.log.read_text().count("-DOPWRIGHT_BUILTINS") <= (tuning == engine.tuning)
        sums, room = np.zeros((17, 128), np.float32), np.zeros(17 * 32 * source.itemsize + 64, np.uint8)
        start = -room.ctypes.data % 64  # streams want whole lines
        to = room[start : start + 17 * 32 * source.itemsize].view(source.dtype)
        places = np.arange(16, dtype=np.int32)[::-1] % 4
        buffers = [
            library.ffi.from_buffer(f"{kind}[]", array)
            for kind, array in (
                (element, source),
                ("float", values),
                ("int32_t", places),
                (element, to),
                ("float", sums),
            )
        ]
        library.lib.all_of(*buffers)
        assert sums.any()
        assert to.any()
        results.append(sums.tobytes() + to.tobytes())
    assert results[0] == results[1]


CALL = """
import warnings
import numpy as np
import opwright_kernels as ok

src, weights = np.ones((1, 6, 6, 20), np.float32), np.ones((3, 3, 20, 24), np.float32)
lists = {"strides": [1, 1], "pads_begin": [0, 0], "pads_end": [0, 0], "dilations": [1, 1]}
with warnings.catch_warnings(record=True) as said:
    warnings.simplefilter("always")
    assert (ok.convolution(src, weights, **lists) == 180).all()
print([str(warning.message) for warning in said])
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
    assert "left to portable kernels" in warned
    assert "what is -march?" in warned
    assert kernel == "portable"


@pytest.fixture
def unit(tmp_path):
    return make_unit(tmp_path / "c")


def entries(cache):
    return sorted(path.name for path in cache.iterdir() if path.is_dir())


def in_child(folder, package="opwright_kernels", **environment):
    """Another process that loads the unit under `folder` and prints twice(21)."""
    program = (
        f"from pathlib import Path; from {package} import _build;"
        f"f = Path({str(folder)!r});"
        f"u = _build.Unit('demo', {CDEF!r}, (f / 'twice.c', f / 'thrice.c'), (f / 'include',),"
        " ('-O1', '-std=c11', '-Wall', '-Werror'));"
        "print(_build.load(u).lib.twice(21))"
    )
    return subprocess.Popen(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": str(PACKAGES), **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.parametrize("mode", modes)
def test_a_unit_is_built_loaded_and_called_in_both_modes(unit, cache, monkeypatch, mode):
    monkeypatch.setenv("OPWRIGHT_FFI", mode)
    library = _build.load(unit)
    assert (library.lib.twice(21), library.lib.thrice(5)) == (42, 15)
    assert library.mode == mode
    assert library.path.parent.parent == cache
    assert library.ffi.sizeof("int32_t") == 4
    assert "twice.c" in library.log.read_text()
    assert sorted(path.name for path in library.path.parent.iterdir()) == sorted(
        [library.path.name, "build.log", "sha256"]
    )


def test_without_python_headers_the_mode_is_abi(unit, monkeypatch, tmp_path):
    monkeypatch.setattr(_build, "_python_include", lambda: [tmp_path])
    assert _build.load(unit).mode == "abi"


def test_api_mode_without_python_headers_says_what_to_install(unit, monkeypatch, tmp_path):
    monkeypatch.setattr(_build, "_python_include", lambda: [tmp_path])
    monkeypatch.setenv("OPWRIGHT_FFI", "api")
    with pytest.raises(_build.BuildError, match=r"Python\.h is missing.*apt install python3-dev"):
        _build.load(unit)


def test_an_unknown_mode_is_refused(unit, monkeypatch):
    monkeypatch.setenv("OPWRIGHT_FFI", "apl")
    with pytest.raises(_build.BuildError, match="OPWRIGHT_FFI is 'apl', expected 'api' or 'abi'"):
        _build.load(unit)


def test_a_cached_unit_is_not_compiled_again(unit, monkeypatch):
    path = _build.load(unit).path
    monkeypatch.setattr(_build, "_compile", None)
    assert _build.load(unit).path == path  # remembered by this process
    _build._loaded.clear()
    assert _build.load(unit).path == path  # found in the cache


# --- the key


def test_the_same_text_in_another_folder_has_the_same_key(tmp_path, cache):
    first, second = make_unit(tmp_path / "a"), make_unit(tmp_path / "elsewhere" / "b")
    assert _build.build([first]) == _build.build([second])
    assert len(entries(cache)) == 1


def test_whatever_changes_the_library_changes_the_key(tmp_path, monkeypatch):
    def content(mode="abi", **options):
        return _build._target(make_unit(tmp_path / "c", **options), mode).content

    contents = [
        content(),
        content(body="x + x"),
        content(factor=3),  # only a header differs
        content(name="demo2"),
        content(flags=("-O2", "-std=c11", "-Wall", "-Werror")),
        content(mode="api"),
    ]
    monkeypatch.setattr(_build.cffi, "__version__", "0.1")
    contents.append(content(mode="api"))
    assert len(set(contents)) == len(contents)
    assert content() == contents[0]  # which does not depend on cffi


def test_another_compiler_version_or_cpu_has_another_key(tmp_path, monkeypatch):
    def key(version, flags):
        compiler = tmp_path / "cc"
        compiler.write_text(f"#!/bin/sh\necho {version}\n")
        compiler.chmod(0o755)
        monkeypatch.setenv("CC", str(compiler))
        monkeypatch.setattr(_build, "cpu_flags", lambda: frozenset(flags))
        _build._identify.cache_clear()
        return _build._compiler().key

    assert len({key("gcc 12", {"avx2"}), key("gcc 13", {"avx2"}), key("gcc 12", {"avx2", "fma"})}) == 3
    assert key("gcc 12", {"a", "b"}) == key("gcc 12", {"b", "a"})


def test_native_is_refused(tmp_path):
    with pytest.raises(ValueError, match="name the features"):
        make_unit(tmp_path / "c", flags=("-march=native",))


def test_cflags_of_the_environment_are_not_honoured(unit, monkeypatch):
    monkeypatch.setenv("CFLAGS", "-no-such-flag")
    assert _build.load(unit).lib.twice(4) == 8


def test_libraries_of_two_contents_live_side_by_side(tmp_path):
    double, triple = (_build.load(make_unit(tmp_path / str(n), factor=n)) for n in (2, 3))
    assert (double.lib.twice(5), triple.lib.twice(5)) == (10, 15)


# --- builders at work


def test_two_processes_that_build_at_once_share_one_build(unit, cache, tmp_path):
    children = [in_child(tmp_path / "c") for _ in range(2)]
    for child in children:
        out, err = child.communicate(timeout=60)
        assert (child.returncode, out.strip()) == (0, "42"), err
    assert len(entries(cache)) == 1


def test_a_builder_waits_for_the_lock_and_then_finds_the_entry(unit, monkeypatch):
    (path,) = _build.build([unit])
    moved = path.parent.with_name("moved")
    path.parent.rename(moved)
    with open(path.parent.with_name(path.parent.name + ".lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        found = []
        waiter = threading.Thread(target=lambda: found.extend(_build.build([unit])))
        monkeypatch.setattr(_build, "_compile", None)
        waiter.start()
        waiter.join(0.2)
        assert waiter.is_alive()
        moved.rename(path.parent)
    waiter.join(20)
    assert found == [path]


def test_eight_threads_get_one_library_and_one_build(unit, cache, monkeypatch):
    compiled, libraries = [], []
    compile_ = _build._compile
    monkeypatch.setattr(_build, "_compile", lambda *arguments: (compiled.append(1), compile_(*arguments)))
    threads = [threading.Thread(target=lambda: libraries.append(_build.load(unit))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(compiled) == 1
    assert len(libraries) == 8
    assert len(set(map(id, libraries))) == 1


def test_many_units_are_built_with_their_progress_told(tmp_path):
    units = [make_unit(tmp_path / str(n), factor=n, name=f"demo{n}") for n in range(3)]
    told = []
    paths = _build.build(units, lambda *step: told.append(step))
    assert all(path.is_file() for path in paths)
    total = len(told)
    assert [(done, of) for _, done, of in told] == [(n + 1, total) for n in range(total)]
    assert {"demo0: twice.c", "demo1: thrice.c", "demo2: link"} <= {name for name, _, _ in told}
    again = []
    assert _build.build(units, lambda *step: again.append(step)) == paths
    assert again[-1][1:] == (total, total)


# --- entries that broke


def damage_truncate(path):
    path.write_bytes(path.read_bytes()[:1000])


def damage_library(path):
    path.unlink()


def damage_hash(path):
    (path.parent / "sha256").unlink()


def damage_unloadable(path):
    """What a library for another system looks like: as it was written, but no use here."""
    path.write_bytes(b"not a library")
    (path.parent / "sha256").write_text(hashlib.sha256(b"not a library").hexdigest())


@pytest.mark.parametrize("mode", modes)
@pytest.mark.parametrize("damage", [damage_truncate, damage_library, damage_hash, damage_unloadable])
def test_a_broken_entry_heals(unit, cache, monkeypatch, mode, damage):
    monkeypatch.setenv("OPWRIGHT_FFI", mode)
    (path,) = _build.build([unit])
    damage(path)
    assert _build.load(unit).lib.twice(21) == 42
    assert len(entries(cache)) == 1


def test_what_a_killed_builder_left_is_cleared_away(unit, cache):
    (path,) = _build.build([unit])
    leftover = path.parent.with_name(path.parent.name + ".tmp")
    path.parent.rename(leftover)
    assert _build.load(unit).lib.twice(1) == 2
    assert not leftover.exists()


# --- the cache folder


def test_the_cache_is_made_private(unit, cache):
    _build.build([unit])
    assert cache.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("mode", [0o777, 0o770, 0o720])
def test_a_cache_that_others_can_write_is_refused(unit, cache, mode):
    cache.mkdir()
    cache.chmod(mode)
    with pytest.raises(_build.BuildError, match="others can write to the kernel cache"):
        _build.load(unit)
    assert list(cache.iterdir()) == []


def test_a_cache_of_someone_else_is_refused(unit, cache, monkeypatch):
    monkeypatch.setattr(os, "getuid", lambda: cache.parent.stat().st_uid + 1)
    with pytest.raises(_build.BuildError, match=r"belongs to user \d+, not you; set OPWRIGHT_CACHE_DIR"):
        _build.load(unit)


def test_a_cache_that_cannot_be_made_is_told(unit, cache):
    cache.write_text("a file")
    with pytest.raises(_build.BuildError, match="cannot be made"):
        _build.load(unit)


def test_the_cache_follows_xdg_and_else_the_home_folder(tmp_path, monkeypatch):
    monkeypatch.delenv("OPWRIGHT_CACHE_DIR")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert _build._cache() == tmp_path / "xdg" / "opwright"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")  # which the XDG specification says to ignore
    assert _build._cache() == tmp_path / "home" / ".cache" / "opwright"


# --- compilers


def test_without_a_compiler_the_error_says_what_to_install(unit, monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(_build.BuildError, match=r"no C compiler: cc, gcc, clang not found.*apt install gcc"):
        _build.load(unit)
    with pytest.raises(_build.BuildError, match="no C compiler"):
        _build.build([unit])


def test_without_a_compiler_the_cache_still_serves(unit, monkeypatch, tmp_path):
    (path,) = _build.build([unit])
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(_build, "_python_include", list)
    assert _build.load(unit).path == path


def test_a_missing_cc_is_named(unit, monkeypatch):
    monkeypatch.setenv("CC", "no-such-cc -m64")
    with pytest.raises(_build.BuildError, match=r"no-such-cc not found on the PATH \(CC names it\)"):
        _build.load(unit)


def test_a_compiler_that_does_not_work_is_told(unit, monkeypatch, tmp_path):
    compiler = tmp_path / "cc"
    compiler.write_text("#!/bin/sh\necho licence expired\nexit 3\n")
    compiler.chmod(0o755)
    monkeypatch.setenv("CC", str(compiler))
    with pytest.raises(_build.BuildError, match=r"does not work: .*licence expired"):
        _build.load(unit)
    compiler.write_text("")
    with pytest.raises(_build.BuildError, match="cannot be run"):
        _build.load(unit)


def test_a_compile_error_shows_the_end_of_the_log_and_where_it_is(tmp_path, cache):
    broken = make_unit(tmp_path / "c", body="x + no_such_name")
    with pytest.raises(_build.BuildError, match="does not compile") as caught:
        _build.load(broken)
    assert "no_such_name" in str(caught.value)
    (log,) = cache.glob("*.log")
    assert str(log) in str(caught.value)
    assert "no_such_name" in log.read_text()
    assert "thrice.c" in log.read_text()  # what did compile is there too
    assert entries(cache) == []  # nothing half-made is left
    assert _build.load(make_unit(tmp_path / "c")).lib.twice(2) == 4


def test_one_broken_unit_does_not_keep_the_others_from_being_built(tmp_path, cache):
    units = [make_unit(tmp_path / "bad", body="x +", name="bad"), make_unit(tmp_path / "good", name="good")]
    with pytest.raises(_build.BuildError, match="bad does not compile"):
        _build.build(units)
    assert [name.split("-")[0] for name in entries(cache)] == ["good"]


# --- libraries that come with the package


@pytest.mark.parametrize("mode", modes)
def test_a_library_beside_the_package_needs_neither_compiler_nor_cache(unit, cache, monkeypatch, tmp_path, mode):
    monkeypatch.setenv("OPWRIGHT_FFI", mode)
    (path,) = _build.build([unit])
    built = tmp_path / "_built"
    shutil.copytree(path.parent, built / path.parent.name)
    shutil.rmtree(cache)
    monkeypatch.setattr(_build, "BUILT", built)
    monkeypatch.setenv("PATH", str(tmp_path))
    library = _build.load(unit)
    assert library.lib.twice(21) == 42
    assert library.path.is_relative_to(built)
    assert not cache.exists()


def test_a_broken_library_beside_the_package_is_passed_over(unit, cache, monkeypatch, tmp_path):
    (path,) = _build.build([unit])
    built = tmp_path / "_built"
    shutil.copytree(path.parent, built / path.parent.name)
    damage_truncate(built / path.parent.name / path.name)
    monkeypatch.setattr(_build, "BUILT", built)
    assert _build.load(unit).path == path


def test_the_folder_works_under_another_name_and_shares_the_cache(unit, cache, tmp_path):
    copy = tmp_path / "site" / "their_kernels"
    copy.mkdir(parents=True)
    (copy / "__init__.py").touch()
    for name in ("_arrays", "_build", "_dlpack", "_errors", "_isa", "_threads"):
        shutil.copy(Path(opwright_kernels.__file__).with_name(f"{name}.py"), copy)
    (path,) = _build.build([unit])
    child = in_child(tmp_path / "c", package="their_kernels", PYTHONPATH=str(copy.parent))
    out, err = child.communicate(timeout=60)
    assert (child.returncode, out.strip()) == (0, "42"), err
    assert entries(cache) == [path.parent.name]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="os.fork is missing")
def test_a_child_forked_during_a_load_can_load(unit):
    _build.load(unit)
    with _build._loading:
        child = os.fork()
        if child == 0:
            with contextlib.suppress(BaseException):
                os._exit(_build.load(unit).lib.twice(21))
            os._exit(1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 42
