"""Operations of one's own, exported to C with their kernels: calls give what the interpreter gives."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest
from opwright import cli
from opwright.load import load
from opwright.oracle.run_steps import compute_steps
from opwright_kernels import _schedules
from support.c_library import CLibrary, Refused
from support.capping import capped_at
from support.draws import FULL, rng
from support.package import ROOT, package
from support.random_chains import ATTENTION
from support.spec_packages import usable
from support.step_calls import StepCaller

from .test_build import needs, run

FORMULAS = Path(__file__).parents[1] / "data" / "formulas"
TEMPLATES = ROOT / "templates" / "interface"
# Lists of real numbers with defaults, steps that words choose, arrays that are read as one, an input that is -inf where
# it is omitted, a contraction of windows, an axis that a word leaves out, axes side by side; in the long form, all.
SOME = (
    "clip_channels",
    "two_reductions",
    "stack_and_mean",
    "attention_sinks",
    "banded",
    "offset_each",
    "gauss_kernel",
    "blocked",
    "centred_filters",
    "window_partition",
)
WIDE = """op: Wide
revision: 1
summary: Products that are summed in f64.
dims: {rows: {symbol: M}, columns: {symbol: N}, terms: {symbol: K}}
inputs: [{name: a, dims: {M: M, K: K}}, {name: b, dims: {N: N, K: K}}]
outputs: [{name: dst, dims: {M: M, N: N}}]
dtypes:
  - {a: f64, b: f64, dst: f64, accumulate: f64}
  - {a: f32, b: f32, dst: f64, accumulate: f64}
  - {a: s32, b: s32, dst: s64, accumulate: s64}
  - {a: s64, b: s8, dst: s64, accumulate: s64}
semantics:
  ranges: {m: M, n: N, k: K}
  steps:
    - sums[m, n] += a[m, k] * b[n, k]
    - dst[m, n] = max(sums[m, n], -1)
"""
WIDE_TYPES = (
    (np.float64, np.float64, np.float64), (np.float32, np.float32, np.float64), (np.int32, np.int32, np.int64),
    (np.int64, np.int8, np.int64),
)  # fmt: skip
# Of three factors, whose order each call chooses.
CHAIN = """op: Chain
revision: 1
summary: Products of three matrices, summed in f64.
dims: {i: {symbol: I}, j: {symbol: J}, k: {symbol: K}, l: {symbol: L}}
inputs: [{name: a, dims: {I: I, J: J}}, {name: b, dims: {J: J, K: K}}, {name: c, dims: {L: L, K: K}}]
outputs: [{name: dst, dims: {L: L, I: I}}]
dtypes:
  - {a: f64, b: f64, c: f64, dst: f64, accumulate: f64}
  - {a: f32, b: f32, c: f64, dst: f64, accumulate: f64}
semantics:
  ranges: {i: I, j: J, k: K, l: L}
  steps:
    - dst[l, i] += a[i, j] * b[j, k] * c[l, k] * 3
"""
# Of elements that lie apart: heads of 8 channels, in the second half of those of another array.
HEADS = """op: Heads
revision: 1
summary: Scores of queries and keys by heads, summed in f64.
dims: {t: {symbol: T}, u: {symbol: U}, d: {symbol: D}}
inputs: [{name: a, dims: {T: T, D: D}}, {name: b, dims: {U: U, E: 2 * D}}]
outputs: [{name: dst, dims: {H: H, T: T, U: U}}]
dtypes:
  - {a: f64, b: f64, dst: f64, accumulate: f64}
  - {a: f32, b: f64, dst: f64, accumulate: f64}
let: {H: D / 8}
semantics:
  ranges: {h: H, t: T, u: U, k: 8}
  steps:
    - scores[h, t, u] += a[t, h * 8 + k] * b[u, D + h * 8 + k]
    - dst[h, t, u] = scores[h, t, u] / 8
"""
# Of groups of an axis whose length each call tells: one program where it is that of the groups, one where it is not.
MERGE = """op: Merge
revision: 1
summary: Sums of values by the weights of groups of four channels.
dims: {t: {symbol: T}, s: {symbol: S}, h: {symbol: H}, d: {symbol: D}}
inputs: [{name: p, dims: {H: H, T: T, S: S}}, {name: v, dims: {S: S, D: D}}]
outputs: [{name: dst, dims: {T: T, D: D}}]
dtypes:
  - {p: f64, v: f64, dst: f64, accumulate: f64}
semantics:
  ranges: {t: T, s: S, h: H, d: 4}
  steps:
    - dst[t, h * 4 + d] += p[h, t, s] * v[s, h * 4 + d]
"""
NAMES = sorted({path.stem for path in FORMULAS.glob("*.yaml")}) if FULL else SOME
CALLS = 60 if FULL else 12


def test_kernels_of_the_library_agree_with_the_interpreter(tmp_path: Path) -> None:
    needs("cmake", "gcc")
    spec, package, source = tmp_path / "specs", tmp_path / "package", tmp_path / "source"
    spec.mkdir()
    for name in NAMES:
        (spec / f"{name}.yaml").write_text((FORMULAS / f"{name}.yaml").read_text())
    arguments = ["--spec", str(spec), "--output", str(package)]
    assert cli.main(["generate", *arguments]) == 0
    assert cli.main(["export", str(source), "--c", *arguments]) == 0
    run("cmake", "-S", source, "-B", tmp_path / "build", "-DOPWRIGHT_ISAS=portable")
    run("cmake", "--build", tmp_path / "build", "-j2")
    library = load(spec, tmp_path)
    built = CLibrary(next((tmp_path / "build").glob("*.so")), library)
    for op in library.ops:
        for call in StepCaller(op, rng("own specs in C", op.function)).legal(CALLS):
            wanted = compute_steps(op, call.inputs, call.attributes)
            made = built.call(op.function, call.inputs, call.attributes)
            shapes = built.infer(op.function, made)
            outputs = {n: np.empty(shape, wanted[n].dtype) for (shape, _), n in zip(shapes, wanted, strict=True)}
            given = [outputs.get(tensor.name) for tensor in op.outputs]
            built.run(op.function, built.call(op.function, call.inputs, call.attributes, given))
            for name, output in outputs.items():
                close = {"rtol": 1e-2 if output.itemsize == 2 else 1e-4, "atol": 1e-3}
                found, expected = (array.astype(np.float64) for array in (output, wanted[name]))
                np.testing.assert_allclose(found, expected, **close, err_msg=str(call))
    twice = built.call(
        "two_reductions", [np.ones((2, 3), np.float32)], {"sum_axes": [1], "extreme_axes": [-1], "dtype": "f32"}
    )
    with pytest.raises(Refused, match="axes that sum_axes does not name"):
        built.infer("two_reductions", twice)


def test_lanes_are_chosen_by_the_rows_of_the_package() -> None:
    source = (TEMPLATES / "sizes.c").read_text()
    rows = re.findall(r"^        .*, // (.*)$", source[source.index("static bool holds(") :], re.M)
    assert rows == [row.name for row in _schedules.SCHEDULES]
    for name in ("ENOUGH", "SERVED", "KEPT", "FARTHER"):
        assert re.search(rf"    {name} = {getattr(_schedules, name)},", source), name
    assert f"ROWS = {len(rows)}," in source
    struct = (TEMPLATES / "operation.h").read_text().partition("typedef struct opw_lanes {")[2].partition("}")[0]
    members = re.findall(r"\b(\w+)(?=[,;])", re.sub(r"//.*", "", struct))
    assert sorted(members) == sorted(field.name for field in fields(_schedules.Lanes))


@pytest.mark.skipif(not FULL, reason="OPWRIGHT_SWEEP=full: compiling engines takes a minute")
def test_steps_in_blocks_have_the_same_bits_as_in_python(tmp_path: Path) -> None:
    needs("cmake", "gcc")
    library, module = package({"causal.yaml": ATTENTION}, tmp_path, "blocks_in_c")
    spec, output = str(tmp_path / "blocks_in_c-project/spec/specs"), str(tmp_path / "blocks_in_c")
    assert cli.main(["export", str(tmp_path / "source"), "--c", "--spec", spec, "--output", output]) == 0
    isas = ";".join(usable(module))
    run("cmake", "-S", tmp_path / "source", "-B", tmp_path / "build", f"-DOPWRIGHT_ISAS={isas}", CC="gcc")
    run("cmake", "--build", tmp_path / "build", "-j2")
    built, draw = CLibrary(next((tmp_path / "build").glob("*.so")), library), rng("blocks in C")
    for batch, queries, keys in (((2,), 200, 200), ((), 130, 300), ((1, 2), 9, 7)):
        shapes = [(*batch, heads, rows, 24) for heads, rows in ((4, queries), (2, keys), (2, keys))]
        inputs = [draw.standard_normal(shape).astype(np.float32) for shape in shapes]
        found = np.empty(shapes[0], np.float32)
        built.run("causal_attention", built.call("causal_attention", inputs, {}, [found]))
        assert found.tobytes() == module.causal_attention(*inputs).tobytes()


def test_products_of_f64_have_the_same_bits_as_in_python(tmp_path: Path) -> None:
    needs("cmake", "gcc")
    library, module = package(
        {"wide.yaml": WIDE, "chain.yaml": CHAIN, "heads.yaml": HEADS, "merge.yaml": MERGE}, tmp_path, "wide_in_c"
    )
    if "avx2" not in usable(module):
        pytest.skip("this CPU lacks avx2")
    spec, output = str(tmp_path / "wide_in_c-project/spec/specs"), str(tmp_path / "wide_in_c")
    assert cli.main(["export", str(tmp_path / "source"), "--c", "--spec", spec, "--output", output]) == 0
    run("cmake", "-S", tmp_path / "source", "-B", tmp_path / "build", "-DOPWRIGHT_ISAS=avx2")
    run("cmake", "--build", tmp_path / "build", "-j2")
    built, draw = CLibrary(next((tmp_path / "build").glob("*.so")), library), rng("f64 in C")
    for rows, columns, terms in ((65, 40, 700), (5, 130, 64), (1, 9, 3)):
        for one, other, made in WIDE_TYPES:
            given = ((rows, terms), one), ((columns, terms), other)
            a, b = ((draw.standard_normal(shape) * 20).astype(dtype) for shape, dtype in given)
            found = np.empty((rows, columns), made)
            built.run("wide", built.call("wide", [a, b], {}, [found]))
            with capped_at(module, "avx2"):
                assert "a contraction for avx2" in str(module.explain("wide", a, b))
                assert found.tobytes() == module.wide(a, b).tobytes()
    for rows, columns, channels in ((65, 40, 64), (9, 130, 24), (3, 1, 8)):
        for dtype in (np.float64, np.float32):
            a = draw.standard_normal((rows, channels)).astype(dtype)
            b = draw.standard_normal((columns, 2 * channels))
            found = np.empty((channels // 8, rows, columns), np.float64)
            built.run("heads", built.call("heads", [a, b], {}, [found]))
            with capped_at(module, "avx2"):
                assert "a contraction for avx2" in str(module.explain("heads", a, b))
                assert found.tobytes() == module.heads(a, b).tobytes()
    for cells, fits in ((12, True), (13, False), (11, False), (0, False)):
        p, v = draw.standard_normal((3, 40, 50)), draw.standard_normal((50, cells))
        found = np.empty((40, cells), np.float64)
        built.run("merge", built.call("merge", [p, v], {}, [found]))
        with capped_at(module, "avx2"):
            assert ("sizes that fit" in str(module.explain("merge", p, v))) == fits
            assert found.tobytes() == module.merge(p, v).tobytes()
        whole = np.einsum("hts,shd->thd", p, np.pad(v, ((0, 0), (0, 13)))[:, :12].reshape(50, 3, 4)).reshape(40, 12)
        np.testing.assert_allclose(found, np.pad(whole, ((0, 0), (0, 1)))[:, :cells], rtol=1e-10)
    for i, j, k, l in ((40, 9, 50, 30), (300, 40, 6, 20), (7, 8, 9, 10)):  # noqa: E741
        terms = min(i * j * k + i * k * l, l * k * j + l * j * i)
        for dtype in (np.float64, np.float32):
            shapes = ((i, j), dtype), ((j, k), dtype), ((l, k), np.float64)
            factors = [draw.standard_normal(shape).astype(own) for shape, own in shapes]
            found = np.empty((l, i), np.float64)
            built.run("chain", built.call("chain", factors, {}, [found]))
            with capped_at(module, "avx2"):
                assert f": {terms:,} terms" in str(module.explain("chain", *factors))
                assert found.tobytes() == module.chain(*factors).tobytes()
            a, b, c = (factor.astype(np.float64) for factor in factors)
            np.testing.assert_allclose(found, 3 * (c @ (a @ b).T), rtol=1e-10)


def test_operations_that_are_named_like_an_engine_have_their_kernels(tmp_path: Path) -> None:
    """Kernels of `WindowPartition` were taken for an engine of windows, and left out."""
    spec, source = tmp_path / "specs", tmp_path / "source"
    spec.mkdir()
    product = (FORMULAS / "linear_gelu.yaml").read_text()
    for name in ("Contraction", "WindowData", "WindowF32"):
        text = "\n".join([f"op: {name}", *product.split("\n")[1:]])
        (spec / f"{name.lower()}.yaml").write_text(text)
    (spec / "window_partition.yaml").write_text((FORMULAS / "window_partition.yaml").read_text())
    arguments = ["--spec", str(spec), "--output", str(tmp_path / "package")]
    assert cli.main(["generate", *arguments]) == 0
    assert cli.main(["export", str(source), "--c", *arguments]) == 0
    kernels = {path.name for path in (tmp_path / "package/c").glob("*.c")}
    assert {path.name for path in (source / "c").glob("*.c")} == kernels
    assert {"contraction_f32.c", "window_f32_f32.c", "window_partition_f32.c"} <= kernels
    build, tables = ((source / name).read_text() for name in ("CMakeLists.txt", "interface/tables.c"))
    assert all(f"c/{name}" in build for name in kernels)
    assert "c/engine/contraction.c" in build
    assert "contract_f32_avx2" in tables


def exported(tmp_path: Path, *names: str) -> tuple[int, Path]:
    """The exit code of an export of operations of some names, and its folder."""
    spec, source = tmp_path / "specs", tmp_path / "source"
    spec.mkdir()
    for name in names:
        text = (FORMULAS / "swiglu.yaml").read_text().split("\n", 1)[1]
        (spec / f"{name.lower()}.yaml").write_text(f"op: {name}\n{text}")
    arguments = ["--spec", str(spec), "--output", str(tmp_path / "package")]
    assert cli.main(["generate", *arguments]) == 0
    return cli.main(["export", str(source), "--c", *arguments]), source


def test_operations_may_be_named_like_the_sources_of_the_library(tmp_path: Path) -> None:
    """The source of `Products` was written over that of contractions, and the library did not link."""
    code, source = exported(tmp_path, "Cpu", "Products", "Refuse", "Tables", "Text")
    assert code == 0
    build = (source / "CMakeLists.txt").read_text()
    for name in ("cpu", "products", "refuse", "text"):
        assert (source / f"interface/{name}.c").read_text() == (TEMPLATES / f"{name}.c").read_text()
        assert f"interface/{name}.c" in build
        assert f"interface/operations/{name}.c" in build
    assert "opwright_tables_sizes" in (source / "interface/operations/tables.c").read_text()


def test_operations_whose_names_in_c_meet_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, source = exported(tmp_path, "BatchNorm", "BatchNormInfer")
    assert code == 2
    assert (
        "batch_norm has a C name batch_norm_infer, as another operation has; give that one" in capsys.readouterr().err
    )
    assert not source.exists()


def test_specs_of_another_package_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "box.yaml").write_text((FORMULAS / "box_filter.yaml").read_text())
    assert cli.main(["export", str(tmp_path / "source"), "--c", "--spec", str(tmp_path)]) == 2
    assert "generated from other specs" in capsys.readouterr().err
    assert not (tmp_path / "source").exists()


def test_engines_of_windows_are_left_out(tmp_path: Path) -> None:
    """Loops compute windows: nothing calls these engines."""
    spec, package, source = tmp_path / "specs", tmp_path / "package", tmp_path / "source"
    spec.mkdir()
    (spec / "byte_convolution.yaml").write_text((ROOT / "bench/specs/byte_convolution.yaml").read_text())
    arguments = ["--spec", str(spec), "--output", str(package)]
    assert cli.main(["generate", *arguments]) == 0
    assert cli.main(["export", str(source), "--c", *arguments]) == 0
    engines = set(re.findall(r"c/engine/(\w+\.c)", (source / "CMakeLists.txt").read_text()))
    assert "contraction_bytes.c" in engines
    assert not engines & {"window.c", "window_bytes.c"}
