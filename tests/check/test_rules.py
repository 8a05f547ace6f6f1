"""From texts to operations: every rule refuses its fixture, at a place, and all problems come together."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import opwright_kernels
import pytest
from opwright.check.names import PYTHON_NAMES
from opwright.emit.shared import modules
from opwright.language.reserved import FREE_BUILTINS
from opwright.language.schema import Spelled
from opwright.language.source import SpecInvalid
from opwright.load import load, load_texts
from support.specs import AVERAGE_POOL, FOLDER, MATRIX_PRODUCT, MAX_POOL, OTHERS, SCALE, edited, problems_of, real_texts

PLACE = re.compile(r"[\w./<>-]+:\d+:\d+: [\w-]+: .+", re.DOTALL)
SIX = [
    "ConvTranspose", "ConvTransposeBackwardData", "ConvTransposeBackwardWeights",
    "Convolution", "ConvolutionBackwardData", "ConvolutionBackwardWeights",
]  # fmt: skip

# The rule, a base text, and an edit of it that breaks the rule (and may break others on the way).
BROKEN: list[tuple[str, str, str, str]] = [
    # What the types say.
    ("unknown-key", MATRIX_PRODUCT, "summary:", "sumary:"),
    ("missing-key", MATRIX_PRODUCT, "revision: 1\n", ""),
    ("duplicate-key", MATRIX_PRODUCT, "revision: 1", "revision: 1\nrevision: 1"),
    ("duplicate-key", MATRIX_PRODUCT, "dims: {M: M, K: K}", "dims: {M: M, M: K}"),
    ("kind", MATRIX_PRODUCT, "dims: {rows: M, columns: N, depth: K}", "dims: [M]"),
    ("kind", MATRIX_PRODUCT, "revision: 1", "revision: one"),
    ("range", MATRIX_PRODUCT, "revision: 1", "revision: 0"),
    ("value", MATRIX_PRODUCT, "accumulate: f32", "accumulate: f23"),
    ("name", MATRIX_PRODUCT, "rows: M", "rows: M-1"),
    ("name-reserved", MATRIX_PRODUCT, "name: a,", "name: while,"),
    ("semantics-form", MATRIX_PRODUCT, "c[m, n] +=", "c[m, n] ="),
    ("semantics-form", MATRIX_PRODUCT, "c[m, n] +=", "c +="),
    ("expression", MATRIX_PRODUCT, "k: K}", "k: K +}"),
    # Completeness.
    ("attribute-incomplete", SCALE, "type: f32, ", ""),
    ("dim-incomplete", MATRIX_PRODUCT, "rows: M,", "rows: {min: 1},"),
    ("constraint-incomplete", SCALE, "say: alpha is greater than 0, ", ""),
    ("discrepancy-incomplete", SCALE, "semantics:", "discrepancies: [{id: R1, page: a, library: b, ruling: c}]\nsemantics:"),
    ("class-incomplete", SCALE, "semantics:", "classes: [{summary: all}]\nsemantics:"),
    ("let-form", AVERAGE_POOL, "shape:", "let: {T: {by: data_format}}\nshape:"),
    ("let-form", AVERAGE_POOL, "shape:", "let: {T: {value: 1, by: data_format, cases: {NCX: 1, NXC: 1}}}\nshape:"),
    ("one-output", MATRIX_PRODUCT, "  - {name: c, dims: {M: M, N: N}}", "  - {name: c, dims: {M: M, N: N}}\n  - {name: d, dims: {M: M}}"),
    ("one-input", MATRIX_PRODUCT, "inputs:\n  - {name: a, dims: {M: M, K: K}}\n  - {name: b, dims: {K: K, N: N}}", "inputs: []"),
    ("dtypes-none", MATRIX_PRODUCT, "dtypes:\n  - {a: f32, b: f32, c: f32, accumulate: f32}", "dtypes: []"),
    ("spatial-rank", AVERAGE_POOL, "{min: 1, max: 3}", "{min: 3, max: 1}"),
    # Names.
    ("op-name", MATRIX_PRODUCT, "op: MatMul", "op: Import"),
    ("op-name", MATRIX_PRODUCT, "op: MatMul", "op: InferShape"),
    ("op-name", MATRIX_PRODUCT, "op: MatMul", "op: Operation"),
    ("op-name", MATRIX_PRODUCT, "op: MatMul", "op: Team"),
    ("op-name", MATRIX_PRODUCT, "op: MatMul", "op: Scratch"),
    ("op-name", MATRIX_PRODUCT, "op: MatMul", "op: Engine"),
    ("op-name", MATRIX_PRODUCT, "op: MatMul", "op: Torch"),
    ("name-reserved", MATRIX_PRODUCT, "name: a,", "name: opwright_modulo,"),
    ("name-reserved", MATRIX_PRODUCT, "name: a,", "name: b_axes,"),
    ("name-taken", MATRIX_PRODUCT, "name: b,", "name: a,"),
    ("name-taken", MATRIX_PRODUCT, "depth: K", "depth: M"),
    ("name-taken", AVERAGE_POOL, "shape:", "let: {S: 1}\nshape:"),
    ("name-case", AVERAGE_POOL, "shape:", "let: {s: 1}\nshape:"),
    ("name-collision", SCALE.replace("alpha", "src_at"), "revision: 1", "revision: 2"),
    # Attributes.
    ("attribute-key", SCALE, 'default: "0.5"', 'default: "0.5", length: any'),
    ("attribute-range", SCALE, 'default: "0.5"', 'default: "0.5", min: 2, max: 1'),
    ("attribute-default", SCALE, 'default: "0.5"', "summary: no default"),
    ("attribute-default", SCALE, 'default: "0.5"', 'default: "0.5", required: true'),
    ("attribute-default", SCALE, 'default: "0.5"', "default: nan"),
    ("attribute-default", SCALE, 'default: "0.5"', 'default: "0.5", min: 1'),
    ("attribute-default", AVERAGE_POOL, 'default: "0"', 'default: "007"'),
    ("attribute-default", AVERAGE_POOL, "default: NCX", "default: NCW"),
    ("attribute-length", AVERAGE_POOL, "required: true, length: spatial", "required: true, length: any"),
    ("attribute-neutral", AVERAGE_POOL, "min: 1, neutral: 1", "min: 1"),
    ("attribute-neutral", AVERAGE_POOL, "min: 1, neutral: 1", "min: 1, neutral: 0"),
    ("attribute-values", AVERAGE_POOL, ", values: [NCX, NXC]", ""),
    ("attribute-values", AVERAGE_POOL, "[NCX, NXC]}", "[NCX, {value: NXC, aliases: [NCX]}]}"),
    ("refuse-discrepancy", AVERAGE_POOL, "[NCX, NXC]}", "[NCX, NXC], refuse: [{value: X, discrepancy: R9, say: no}]}"),
    # Tensors.
    ("input-order", SCALE, "{name: factor,", "{name: one, optional: true, dims: {N: N}}\n  - {name: two, dims: {N: N}}\n  - {name: factor,"),
    ("tensor-axes", SCALE, "factor, optional: true, dims: {N: N}", "factor, optional: true"),
    ("tensor-view", SCALE, "{name: factor,", "{name: factor, view: [n],"),
    ("tensor-parameter", SCALE, "{name: factor,", "{name: factor, parameter: other,"),
    ("output-key", SCALE, "{name: dst,", "{name: dst, optional: true,"),
    ("axis-case", MATRIX_PRODUCT, "{M: M, K: K}", "{Ab: M, AB: K}"),
    ("layout-attribute", AVERAGE_POOL, "src, layout: data_format", "src, layout: data_fromat"),
    ("layout-row", AVERAGE_POOL, "layouts:\n  data_format: {NCX", "layouts:\n  data_format: {NCW"),
    ("layout-axes", AVERAGE_POOL, "NCX: [N, C, X]", "NCX: [N, X]"),
    ("dtype-key", SCALE, "{src: f32,", "{scr: f32,"),
    ("dtype-missing", SCALE, "{src: f32, ", "{"),
    ("dtype-value", SCALE, "{src: f32,", "{src: s32,"),
    ("dtype-value", SCALE, "accumulate: f64", "accumulate: bf16"),
    ("dtype-row", SCALE, "accumulate: f64}", "accumulate: f64}\n  - {src: f32, factor: f32, dst: f32, accumulate: f32}"),
    ("dtype-unreached", SCALE, "accumulate: f64}", "accumulate: f64}\n  - {src: f32, factor: f32, dst: bf16, accumulate: f32}"),
    ("tensor-spatial", AVERAGE_POOL, "{N: N, C: C, X: I}", "{N: N, C: K, X: I}"),
    ("spatial-rank", AVERAGE_POOL, "spatial_rank: {min: 1, max: 3}", "spatial_rank: {min: 0, max: 0}"),
    ("spatial-rank", AVERAGE_POOL, "spatial_rank: {min: 1, max: 3}", "spatial_rank: {min: 0, max: 3}"),
    ("spatial-rank", MATRIX_PRODUCT, "dims:", "spatial_rank: {min: 1, max: 2}\ndims:"),
    ("dim-unused", MATRIX_PRODUCT, "rows: M,", "rows: M, more: Q,"),
    # Constraints and classes.
    ("constraint-id", SCALE, "id: alpha-is-positive", "id: alpha-range"),
    ("constraint-id", SCALE, "id: alpha-is-positive", "id: rows-extent"),
    ("constraint-id", SCALE, "id: alpha-is-positive", "id: out-shape"),
    ("constraint-argument", SCALE, "argument: alpha", "argument: alhpa"),
    ("nearest", SCALE, "argument: alpha", "argument: alpha, nearest: 1"),
    ("class-when", SCALE, "semantics:", "classes: [{name: one, when: M == 1}]\nsemantics:"),
    ("class-when", SCALE, "semantics:", "classes: [{name: one}, {name: two}]\nsemantics:"),
    ("class-name", SCALE, "semantics:", "classes: [{name: one, when: M == 1}, {name: one}]\nsemantics:"),
    ("class-let", SCALE, "semantics:", "classes: [{name: one, when: M == 1, let: {M: 2}}, {name: two}]\nsemantics:"),
    ("variants", AVERAGE_POOL, "semantics:", "classes: [" + "".join(f"{{name: c{i}, when: C == {i}}}, " for i in range(190))
        + "{name: rest}]\nsemantics:"),
    # Expressions.
    ("unknown-symbol", AVERAGE_POOL, "O: floor((I", "O: floor((J"),
    ("expression-read", AVERAGE_POOL, "floor((I + PB - K) / S)", "src[0]"),
    ("expression-real", AVERAGE_POOL, "(I + PB - K) / S) + 1", "(I + PB - K) / S) + 1.5"),
    ("expression-real", SCALE, "expr: alpha > 0", "expr: alpha / 2 > 0"),
    ("expression-kind", AVERAGE_POOL, "floor((I + PB - K) / S) + 1", "I == 1"),
    ("expression-kind", AVERAGE_POOL, "C: C, X: O", "C: C == 1, X: O"),
    ("expression-kind", SCALE, "expr: alpha > 0", "expr: M"),
    ("let-circle", AVERAGE_POOL, "shape:", "let: {A: B + 1, B: A}\nshape:"),
    ("let-by", AVERAGE_POOL, "shape:", "let: {T: {by: data_fromat, cases: {NCX: 1}}}\nshape:"),
    ("let-cases", AVERAGE_POOL, "shape:", "let: {T: {by: data_format, cases: {NCX: 1}}}\nshape:"),
    ("shape-symbol", AVERAGE_POOL, "  O: floor", "  P: floor"),
    ("never-known", AVERAGE_POOL, "shape:\n  O: floor((I + PB - K) / S) + 1\n", ""),
    ("size-stated-twice", MATRIX_PRODUCT, "semantics:", "shape: {K: N}\nsemantics:"),
    ("extent-unsolvable", MATRIX_PRODUCT, "{K: K, N: N}", "{K: K, N: N + M * N}"),
    ("extent-optional", SCALE, "{name: src,", "{name: src, optional: true,"),
    # Semantics.
    ("semantics-target", MATRIX_PRODUCT, "c[m, n] +=", "a[m, n] +="),
    ("semantics-indices", MATRIX_PRODUCT, "a[m, k]", "a[m]"),
    ("semantics-read", MATRIX_PRODUCT, "a[m, k]", "aa[m, k]"),
    ("semantics-read", MATRIX_PRODUCT, "a[m, k]", "c[m, k]"),
    ("semantics-vector", AVERAGE_POOL, "src[n, c, i * S", "src[n, k, i * S"),
    ("semantics-vector", MAX_POOL, "src[n, c, i * S + k - PB]", "src[n, c, 0]"),
    ("semantics-value", AVERAGE_POOL, "- PB]", "- PB] * k"),
    ("semantics-value", SCALE, "* alpha", "* 1.0e300"),
    ("semantics-value", SCALE, "* alpha", "* floor(m / 2)"),
    ("semantics-value", SCALE, "* alpha", "* (m % 2)"),
    ("semantics-init", MAX_POOL, "-inf", "nan"),
    ("semantics-init", MAX_POOL, "-inf", "1e99"),
    ("semantics-where", SCALE, "[m <= n]", "[m]"),
    ("semantics-where", SCALE, "[m <= n]", "['m <= 0.5']"),
    ("semantics-where", AVERAGE_POOL, "  finish", "  where: [any(k == 1)]\n  finish"),
    ("semantics-finish", AVERAGE_POOL, "finish: dst[n, c, x]", "finish: dst[n, c, x] + dst[n, c, x]"),
    ("semantics-finish", AVERAGE_POOL, "finish: dst[n, c, x]", "finish: dst[n, n, x]"),
    ("semantics-finish", AVERAGE_POOL, "finish: dst[n, c, x]", "finish: c * dst[n, c, x]"),
    ("semantics-finish", SCALE, "factor[n]", "factor[m]"),
    ("semantics-finish", SCALE, "factor[n]", "factor[n + 1]"),
    ("input-unused", MATRIX_PRODUCT, " * b[k, n]", ""),
    ("range-quotient", MATRIX_PRODUCT, "k: K}", "k: K / N}"),
    ("range-quotient", SCALE, "[m <= n]", "[m / 2 == n]"),
    ("range-quotient", AVERAGE_POOL, "max(count, 1)", "prod(K / S)"),
    ("size-quotient", MATRIX_PRODUCT, "{M: M, K: K}", "{M: M, K: K, Q: M * K / N}"),
    ("size-quotient", MATRIX_PRODUCT, "a[m, k]", "a[m, k + 4 / 2]"),
    ("neutral", AVERAGE_POOL, "min: 0, neutral: 0", "min: 0, neutral: 1"),
    ("neutral", AVERAGE_POOL.replace("max(count, 1)", "prod(S)"), "S, type: \"s64[]\", required: true, length: spatial, min: 1, neutral: 1",
        "S, type: \"s64[]\", required: true, length: spatial, min: 1, neutral: 2"),
    ("neutral", AVERAGE_POOL.replace("  finish", "  where: [k < S]\n  finish"), "length: spatial, min: 1, neutral: 1",
        "length: spatial, min: 0, neutral: 0"),
    ("semantics-index", MATRIX_PRODUCT, "a[m, k]", "a[m, k * k]"),
    ("semantics-index", MATRIX_PRODUCT, "a[m, k]", "a[m, k + " + "*".join(["(M + N + K + 1)"] * 20) + "]"),
    ("semantics-unsolvable", MATRIX_PRODUCT, "c[m, n] +=", "c[m, m] +="),
]  # fmt: skip

# The rule, a file of the real folder, and an edit of it that breaks the rule.
BROKEN_REAL: list[tuple[str, str, str, str]] = [
    ("unknown-attribute", "convolution.yaml", "- strides", "- stride"),
    ("unknown-value", "convolution.yaml", "{use: pad_begin}", "{use: pad_begn}"),
    ("unknown-constraint", "convolution.yaml", "[groups-divide-in-channels,", "[groups-divide-in-channel,"),
    ("unknown-class", "convolution.yaml", "[dense,", "[dens,"),
    ("unknown-discrepancy", "convolution.yaml", "- R9", "- R99"),
    ("shared-name", "_common.yaml", "- id: R4", "- id: R3"),
    ("shared-name", "_common.yaml", "- name: dilations\n", "- name: strides\n"),
    ("shared-use", "_common.yaml", "  - name: dilations\n", "  - name: dilations\n    use: strides\n"),
    ("refuse-discrepancy", "conv_transpose.yaml", "value: OIX, discrepancy: R2", "value: OIX, discrepancy: R22"),
    ("source-page", "conv_transpose.yaml", "source: [conv-transpose-3.1]", "source: [conv-transpose-3.2]"),
    ("arrangement-axes", "conv_transpose.yaml", "index: {I: c, O:", "index: {O:"),
    ("tensor-view", "conv_transpose.yaml", "view: [g, c, o, k]", "view: [g, c, o, o]"),
    ("tensor-view", "conv_transpose.yaml", "index: {I: c, O:", "index: {I: o, O:"),
    ("unknown-symbol", "conv_transpose.yaml", "index: {I: c, O:", "index: {I: cc, O:"),
    ("semantics-unsolvable", "conv_transpose.yaml", "index: {I: c, O:", "index: {I: c + 1, O:"),
    ("semantics-unsolvable", "conv_transpose.yaml", "weights[g, c, o, k]", "weights[g, c, o, k + 1]"),
    ("range-quotient", "conv_transpose.yaml", "[groups-divide-in-channels, groups", "[groups"),
    ("shape-of", "convolution_backward_data.yaml", "shape_of: diff_src", "shape_of: diff_scr"),
    ("shape-input", "convolution_backward_data.yaml", "    parameter: dst_shape_tensor\n", ""),
    ("shape-giver", "convolution_backward_data.yaml", "    optional: true\n    shape_of: diff_src\n", "    optional: true\n    shape_of: diff_src2\n"),
    ("relation-kind", "convolution.yaml", "{equals: ConvTransposeBackwardData,", "{"),
    ("relation-key", "convolution.yaml", "{equals: ConvTransposeBackwardData,", "{equals: ConvTransposeBackwardData, in: src,"),
    ("relation-tensor", "convolution.yaml", "in: src, with", "in: scr, with"),
    ("relation-tensor", "convolution.yaml", "with: {diff_dst: src", "with: {dif_dst: src"),
    ("relation-format", "convolution.yaml", "{OIX: IOX,", "{OIX: IXO,"),
    ("relation-format", "convolution.yaml", "{OIX: IOX,", "{OXI: IOX,"),
    ("relation-operation", "convolution.yaml", "{adjoint: ConvolutionBackwardData,", "{adjoint: ConvolutionBackwardsData,"),
    ("relation-with", "convolution.yaml", "with: {diff_dst: src, weights: weights, diff_src: dst}", "with: {diff_dst: src, diff_src: dst}"),
    ("relation-mutual", "conv_transpose.yaml", "equals: ConvolutionBackwardData", "equals: ConvolutionBackwardWeights"),
    ("normal-form", "convolution.yaml", "small: dst,", "small: dts,"),
    ("normal-form", "convolution.yaml", "weights[g, small, big, k]", "weights[g, small, k]"),
    ("normal-form", "convolution.yaml", "solve: y, big: src, small: dst", "solve: x, big: src, small: dst"),
    ("normal-form", "convolution.yaml", "bias: bias}", "bias: weights}"),
    ("normal-form", "convolution.yaml", "bias: bias}", "bias: bias, groups: g}"),
    ("normal-form", "convolution.yaml", "  PB: {use: pad_begin}", "  PB: {use: pad_begin, neutral: 1}"),
    ("normal-form", "convolution.yaml", "  - name: weights\n", "  - name: weights\n    optional: true\n"),
    ("name-reserved", "convolution.yaml", "  - name: weights\n", "  - name: scratch\n"),
    ("attribute-differs", "convolution.yaml", "- strides", "- {use: strides, max: 9}"),
    ("op-name", "convolution.yaml", "op: Convolution", "op: ConvTranspose"),
]  # fmt: skip


def test_the_operations_load() -> None:
    library = load(FOLDER)
    assert [op.op for op in library.ops if op.normal_form] == SIX
    assert str(library.op("Convolution").at) == "spec/onednn_graph/convolution.yaml:1:1"


@pytest.mark.parametrize("name", OTHERS)
def test_operations_of_other_families_load(name: str) -> None:
    assert problems_of({name: OTHERS[name]}) == ()


def test_several_families_load_together() -> None:
    assert problems_of({name: text for name, text in OTHERS.items() if name != "scale.yaml"}) == ()


@pytest.mark.parametrize(
    ("rule", "text", "old", "new"), BROKEN, ids=[f"{number}-{case[0]}" for number, case in enumerate(BROKEN)]
)
def test_a_broken_rule_is_named_with_its_place(rule: str, text: str, old: str, new: str) -> None:
    assert old in text
    problems = problems_of({"a.yaml": text.replace(old, new, 1)})
    assert rule in [problem.rule for problem in problems], problems
    assert all(PLACE.fullmatch(str(problem)) for problem in problems)


@pytest.mark.parametrize(
    ("rule", "name", "old", "new"), BROKEN_REAL, ids=[f"{number}-{case[0]}" for number, case in enumerate(BROKEN_REAL)]
)
def test_a_broken_rule_of_a_real_file_is_named_with_its_place(rule: str, name: str, old: str, new: str) -> None:
    problems = problems_of(edited(name, old, new))
    assert rule in [problem.rule for problem in problems], problems
    assert all(PLACE.fullmatch(str(problem)) for problem in problems)


@pytest.mark.parametrize(
    ("name", "old", "new", "line"),
    [
        ("convolution.yaml", "- strides", "- stride", "convolution.yaml:10:5: unknown-attribute: there is no shared attribute "
            "'stride' in _common.yaml (did you mean 'strides'?)"),
        ("convolution.yaml", "op: Convolution", "Op: Convolution", "convolution.yaml:1:1: unknown-key: unknown key 'Op' "
            "(did you mean 'op'?)"),
        ("_common.yaml", "    symbol: S\n", "    symbol: S\n    symbol: S\n", "_common.yaml:14:5: duplicate-key: 'symbol' appears twice; write it once"),
        ("convolution.yaml", "O: floor((I + PB", "O: floor((I + PBB", "convolution.yaml:53:17: unknown-symbol: unknown symbol 'PBB' "
            "(did you mean 'PB'?)"),
        ("convolution.yaml", '"max(S * (ceil(I / S)', '"max(S * (ceil(J / S)', "convolution.yaml:48:29: unknown-symbol: unknown symbol 'J'"),
        ("convolution.yaml", "k * D - PB] * weights", "k * D - PB] * wieghts", "convolution.yaml:62:89: semantics-read: 'wieghts' is not a "
            "tensor that can be read here (did you mean 'weights'?)"),
    ],
)  # fmt: skip
def test_problems_point_at_the_very_place_and_suggest(name: str, old: str, new: str, line: str) -> None:
    assert line in [str(problem) for problem in problems_of(edited(name, old, new))]


def test_problems_of_all_files_come_together_in_order() -> None:
    texts = edited("convolution.yaml", "- strides", "- stride")
    texts["conv_transpose.yaml"] = texts["conv_transpose.yaml"].replace("revision: 1", "revision: none")
    texts["_common.yaml"] = texts["_common.yaml"].replace("type: s64\n", "type: s46\n")
    problems = problems_of(texts)
    assert {problem.mark.file for problem in problems} >= {"_common.yaml", "conv_transpose.yaml", "convolution.yaml"}
    assert list(problems) == sorted(problems)


def test_a_size_without_a_stated_minimum_may_be_empty_and_a_spatial_one_not() -> None:
    pool = load_texts({"a.yaml": AVERAGE_POOL}).ops[0]
    assert {role: dim.min for role, dim in pool.dims.items()} == {
        "batch": 0,
        "channels": 0,
        "src_spatial": 1,
        "dst_spatial": 1,
    }


def test_names_know_where_they_stand() -> None:
    op = load_texts({"a.yaml": MATRIX_PRODUCT}).ops[0]
    (first, *_) = op.semantics.ranges
    assert isinstance(first, Spelled)
    assert str(first.at) == "a.yaml:13:12"


def test_the_folder_of_specs_is_named_relative_to_its_project(tmp_path: Path) -> None:
    folder = tmp_path / "spec" / "mine"
    folder.mkdir(parents=True)
    (folder / "a.yaml").write_text(MATRIX_PRODUCT.replace("op:", "opp:"))
    with pytest.raises(SpecInvalid) as caught:
        load(folder)
    assert {problem.mark.file for problem in caught.value.problems} == {"spec/mine/a.yaml"}


def test_an_empty_folder_and_a_missing_one_are_refused(tmp_path: Path) -> None:
    for folder, words in ((tmp_path, "there is no operation"), (tmp_path / "none", "cannot read the folder")):
        with pytest.raises(SpecInvalid, match=words):
            load(folder)


def test_no_operation_can_bear_the_name_of_a_module_or_page_of_the_package() -> None:
    package = Path(opwright_kernels.__file__).parent
    files = [*package.glob("*.py"), *package.glob("docs/*")]
    parts = {path.stem.strip("_").lower() for path in files} - set(opwright_kernels.operations())
    own = {op.function for op in load(FOLDER).ops} | set(opwright_kernels._GRADIENTS)
    assert parts - own <= modules()
    assert len(parts - own) > 10


def test_no_operation_can_use_a_name_that_its_python_module_binds() -> None:
    package = Path(opwright_kernels.__file__).parent
    bound: set[str] = set()
    for function in opwright_kernels.operations():
        for node in ast.parse((package / f"_{function}.py").read_text(encoding="utf-8")).body:
            if isinstance(node, (ast.Import, ast.ImportFrom)):
                bound |= {alias.asname or alias.name for alias in node.names}
            elif isinstance(node, (ast.Assign, ast.AnnAssign)):
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                bound |= {target.id for target in targets if isinstance(target, ast.Name)}
    assert {name for name in bound if not name.startswith("_")} <= PYTHON_NAMES
    assert len(bound) > 15


def test_no_generated_module_calls_a_builtin_whose_name_specs_may_use() -> None:
    package = Path(opwright_kernels.__file__).parent
    for function in opwright_kernels.operations():
        tree = ast.parse((package / f"_{function}.py").read_text(encoding="utf-8"))
        called = {
            node.func.id for node in ast.walk(tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
        }
        assert called & FREE_BUILTINS == set()


def test_the_fixtures_start_from_specs_that_load() -> None:
    assert problems_of(real_texts()) == ()
