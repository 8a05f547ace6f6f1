"""Compiling and loading: the right key, one builder at a time, progress, and libraries that come with the package."""

import contextlib
import fcntl
import os
import shutil
import threading
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import opwright_kernels as ok
import pytest
from opwright_kernels import _build, _compiler, _load, _ship, _units
from support.generated import PACKAGE
from support.units import entries, in_child, make_unit, modes

if not any(shutil.which(name) for name in ("cc", "gcc", "clang")):
    pytest.skip("a C compiler is missing", allow_module_level=True)
pytestmark = pytest.mark.usefixtures("cache")


@pytest.mark.parametrize("mode", modes)
def test_a_unit_is_built_loaded_and_called_in_both_modes(unit, cache, monkeypatch, mode):
    monkeypatch.setenv("OPWRIGHT_FFI", mode)
    library = _load.load(unit)
    assert (library.lib.twice(21), library.lib.thrice(5)) == (42, 15)
    assert library.mode == mode
    assert library.path.parent.parent == cache
    assert library.ffi.sizeof("int32_t") == 4
    assert "twice.c" in library.log.read_text()
    assert sorted(path.name for path in library.path.parent.iterdir()) == sorted(
        [library.path.name, "build.log", "sha256"]
    )


def test_without_python_headers_the_mode_is_abi(unit, monkeypatch, tmp_path):
    monkeypatch.setattr(_units, "python_include", lambda: [tmp_path])
    assert _load.load(unit).mode == "abi"


def test_api_mode_without_python_headers_says_what_to_install(unit, monkeypatch, tmp_path):
    monkeypatch.setattr(_units, "python_include", lambda: [tmp_path])
    monkeypatch.setenv("OPWRIGHT_FFI", "api")
    with pytest.raises(ok.BuildError, match=r"Python\.h is missing.*apt install python3-dev"):
        _load.load(unit)


def test_an_unknown_mode_is_refused(unit, monkeypatch):
    monkeypatch.setenv("OPWRIGHT_FFI", "apl")
    with pytest.raises(ok.BuildError, match="OPWRIGHT_FFI is 'apl', expected 'api' or 'abi'"):
        _load.load(unit)


def test_a_cached_unit_is_not_compiled_again(unit, monkeypatch):
    path = _load.load(unit).path
    monkeypatch.setattr(_build._Building, "compile", None)
    assert _load.load(unit).path == path  # remembered by this process
    _load._loaded.clear()
    assert _load.load(unit).path == path  # found in the cache


# --- the key


def test_the_same_text_in_another_folder_has_the_same_key(tmp_path, cache):
    first, second = make_unit(tmp_path / "a"), make_unit(tmp_path / "elsewhere" / "b")
    assert _build.build([first]) == _build.build([second])
    assert len(entries(cache)) == 1


def test_whatever_changes_the_library_changes_the_key(tmp_path, monkeypatch):
    def content(mode="abi", **options):
        return _units.target(make_unit(tmp_path / "c", **options), mode).content

    contents = [
        content(),
        content(body="x + x"),
        content(factor=3),  # only a header differs
        content(name="demo2"),
        content(flags=("-O2", "-std=c11", "-Wall", "-Werror")),
        content(mode="api"),
    ]
    monkeypatch.setattr(_units.cffi, "__version__", "0.1")
    contents.append(content(mode="api"))
    assert len(set(contents)) == len(contents)
    assert content() == contents[0]  # which does not depend on cffi


def test_an_edited_operation_leaves_the_keys_of_the_others(tmp_path):
    """A kernel is compiled anew where a file changes that it is made from, and nowhere else."""
    package = Path(
        shutil.copytree(PACKAGE, tmp_path / "opwright_kernels", ignore=shutil.ignore_patterns("__pycache__"))
    )

    def keys():
        def moved(unit):
            names = [path.relative_to(PACKAGE) for path in unit.sources]
            include = tuple(package / path.relative_to(PACKAGE) for path in unit.include)
            needs = tuple(map(moved, unit.needs))
            return replace(unit, sources=tuple(package / name for name in names), include=include, needs=needs)

        return {
            (operation.function, label, isa.name): _units.target(moved(operation.unit(isa, label, "")), "abi").content
            for operation in map(ok._OPERATIONS.__getitem__, ("convolution", "conv_transpose", "relu", "relu_backward"))
            for label, _ in operation.rows
            for isa in operation.isas(label)
        }

    before = keys()
    for header, moves in (
        ("opwright/relu.h", {"relu"}),
        ("opwright/convolution.h", {"convolution"}),
        ("opwright_kernels.h", set()),
        ("opwright_rows.h", {"relu", "relu_backward"}),
        ("opwright_types.h", {"convolution", "conv_transpose", "relu", "relu_backward"}),
    ):
        path = package / "include" / header
        path.write_text(path.read_text("utf-8").replace("#endif", "// edited\n#endif"), "utf-8")
        after = keys()
        assert {key[0] for key in before if before[key] != after[key]} == moves, header
        before = after


def test_another_compiler_version_or_cpu_has_another_key(tmp_path, monkeypatch):
    def key(version, flags):
        compiler = tmp_path / "cc"
        compiler.write_text(f"#!/bin/sh\necho {version}\n")
        compiler.chmod(0o755)
        monkeypatch.setenv("CC", str(compiler))
        monkeypatch.setattr(_compiler, "cpu_flags", lambda: frozenset(flags))
        _compiler._answers.clear()
        return _compiler.find().key

    assert len({key("gcc 12", {"avx2"}), key("gcc 13", {"avx2"}), key("gcc 12", {"avx2", "fma"})}) == 3
    assert key("gcc 12", {"a", "b"}) == key("gcc 12", {"b", "a"})


def test_native_is_refused(tmp_path):
    with pytest.raises(ValueError, match="name the features"):
        make_unit(tmp_path / "c", flags=("-march=native",))


def test_cflags_of_the_environment_are_not_honoured(unit, monkeypatch):
    monkeypatch.setenv("CFLAGS", "-no-such-flag")
    assert _load.load(unit).lib.twice(4) == 8


def test_libraries_of_two_contents_live_side_by_side(tmp_path):
    double, triple = (_load.load(make_unit(tmp_path / str(n), factor=n)) for n in (2, 3))
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
        monkeypatch.setattr(_build._Building, "compile", None)
        waiter.start()
        waiter.join(0.2)
        assert waiter.is_alive()
        moved.rename(path.parent)
    waiter.join(20)
    assert found == [path]


def test_eight_threads_get_one_library_and_one_build(unit, cache, monkeypatch):
    compiled, libraries = [], []
    compile_ = _build._Building.compile
    monkeypatch.setattr(_build._Building, "compile", lambda *all_: (compiled.append(1), compile_(*all_)))
    threads = [threading.Thread(target=lambda: libraries.append(_load.load(unit))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(compiled) == 1
    assert len(libraries) == 8
    assert len(set(map(id, libraries))) == 1


def test_many_units_are_built_and_their_progress_is_shown(tmp_path):
    units = [make_unit(tmp_path / str(n), factor=n, name=f"demo{n}") for n in range(3)]
    progress = []
    paths = _build.build(units, lambda *step: progress.append(step))
    assert all(path.is_file() for path in paths)
    total = len(progress)
    assert [(done, of) for _, done, of in progress] == [(n + 1, total) for n in range(total)]
    assert {"demo0: twice.c", "demo1: thrice.c", "demo2: link"} <= {name for name, _, _ in progress}
    again = []
    assert _build.build(units, lambda *step: again.append(step)) == paths
    assert again[-1][1:] == (total, total)


def test_a_unit_that_the_compiler_refuses_is_fit_where_any_compiler_has_made_it(unit, cache, monkeypatch):
    refused = replace(unit, probe="#error too plain")
    assert "too plain" in _load.fit(refused)
    (path,) = _build.build([refused])
    with monkeypatch.context() as patch:  # the folder may hold thousands of entries
        patch.setattr(_load, "_entries", None)
        assert _load.fit(refused) == ""
    path.parent.rename(path.parent.with_name(path.parent.name[:-12] + "0" * 12))
    assert _load.fit(refused) == ""


# --- libraries that come with the package


def ship(unit, path, built, monkeypatch):
    """The library at `path` as a file of a package's folder of built ones."""
    target = next(target for target in _units.targets(unit) if target.file == path.name)
    built.mkdir()
    shipped = built / f"{unit.name}-{target.content}.{target.mode}.so"
    shutil.copy(path, shipped)
    (built / _load.INDEX).write_text(f"{unit.name} {target.content} {target.mode} {shipped.name}\n")
    monkeypatch.setattr(_load, "BUILT", built)
    _load.shipped.cache_clear()
    return shipped


@pytest.mark.parametrize("mode", modes)
def test_a_library_beside_the_package_needs_neither_compiler_nor_cache(unit, cache, monkeypatch, tmp_path, mode):
    monkeypatch.setenv("OPWRIGHT_FFI", mode)
    (path,) = _build.build([unit])
    shipped = ship(unit, path, tmp_path / "_built", monkeypatch)
    shutil.rmtree(cache)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert _load.fit(unit) == ""
    library = _load.load(unit)
    assert library.lib.twice(21) == 42
    assert library.path == shipped
    assert not cache.exists()


@pytest.mark.parametrize("mode", modes)
def test_units_that_need_the_same_object_are_shipped_in_one_library(cache, monkeypatch, tmp_path, mode):
    """Each is loaded as it would be from a library of its own, and the object is there once."""
    monkeypatch.setenv("OPWRIGHT_FFI", mode)
    (tmp_path / "common.c").write_text("int opwright_common(int x);\nint opwright_common(int x) { return x + 1; }\n")
    flags = ("-O1", "-std=c11")
    common = _units.Unit("common", "", (tmp_path / "common.c",), (), flags)

    def made(name, factor, needs=(common,)):
        source = tmp_path / f"{name}.c"
        added = "opwright_common(x)" if needs else "x"
        declared = f"int opwright_common(int x);\nint {name}(int x);\n"
        source.write_text(f"{declared}int {name}(int x) {{ return {factor} * {added}; }}\n")
        return _units.Unit(name, f"int {name}(int x);", (source,), (), flags, needs=needs)

    units = [made("one", 1), made("two", 2), made("alone", 5, ()), made("three", 3)]
    operation = SimpleNamespace(units=lambda has: units)
    built = tmp_path / "_built"
    files = _ship.ship([operation], built)
    assert [path.name.split("-")[0] for path in files] == ["one", "alone", "opwright_team"]
    monkeypatch.setattr(_load, "BUILT", built)
    _load.shipped.cache_clear()
    shutil.rmtree(cache)
    monkeypatch.setenv("PATH", str(tmp_path))
    found = {unit.name: _load.load(unit) for unit in units}
    assert [getattr(found[name].lib, name)(10) for name in ("one", "two", "three", "alone")] == [11, 22, 33, 50]
    assert {found[name].path for name in ("one", "two", "three")} == {files[0]}
    before = _units.target(replace(units[0], beside=tuple(units[1:])), mode).content
    changed = _units.target(replace(units[0], beside=(*units[1:3], made("three", 4))), mode).content
    assert before != changed


def test_a_broken_library_beside_the_package_is_passed_over(unit, cache, monkeypatch, tmp_path):
    (path,) = _build.build([unit])
    ship(unit, path, tmp_path / "_built", monkeypatch).write_bytes(b"\x7fELF")
    assert _load.load(unit).path == path


def test_a_library_beside_the_package_made_for_another_mode_is_passed_over(unit, cache, monkeypatch, tmp_path):
    (path,) = _build.build([unit])
    ship(unit, path, tmp_path / "_built", monkeypatch)
    other = "abi" if path.parent.name.startswith(_units.target(unit, "api").stem) else "api"
    monkeypatch.setenv("OPWRIGHT_FFI", other)
    assert _load.load(unit).path.is_relative_to(cache)


def test_the_folder_works_under_another_name_and_shares_the_cache(unit, cache, tmp_path):
    copy = tmp_path / "site" / "their_kernels"
    copy.mkdir(parents=True)
    (copy / "__init__.py").touch()
    for module in Path(ok.__file__).parent.glob("_[!_]*.py"):
        shutil.copy(module, copy)
    (path,) = _build.build([unit])
    child = in_child(tmp_path / "c", package="their_kernels", PYTHONPATH=str(copy.parent))
    out, err = child.communicate(timeout=60)
    assert (child.returncode, out.strip()) == (0, "42"), err
    assert entries(cache) == [path.parent.name]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="os.fork is missing")
def test_a_child_forked_during_a_load_can_load(unit):
    _load.load(unit)
    with _load._loading:
        child = os.fork()
        if child == 0:
            with contextlib.suppress(BaseException):
                os._exit(_load.load(unit).lib.twice(21))
            os._exit(1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 42
