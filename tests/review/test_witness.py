"""Witnesses: the call that a finding shows, what either side does with it, and kernels that crash or never end."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import jsonschema
import pytest
from opwright import cli
from opwright.calls import call_text
from opwright.load import load_texts
from opwright.project import find
from opwright.review import execute, findings
from opwright.review.evidence import Witness
from opwright.review.findings import Finding, Review
from opwright.review.impact import Impact
from opwright.review.json_form import schema
from opwright.review.report import FORMATS
from opwright.review.values import measured
from opwright.review.witness import witnessed
from support import checkout, judged_edits, reviewing, specs

LISTS = "strides=[{}], pads_begin=[0], pads_end=[0], dilations=[{}]"
PLAIN = f"conv_transpose(src f32[1,1,1], weights f32[1,1,1], {LISTS.format(1, 1)}"
OPERATION = f"{reviewing.FOLDER}/scale.yaml"
SCALE = {OPERATION: specs.SCALE}
ENDLESS = ("ranges: {m: M, n: N}", "ranges: {m: M, n: N, z: M * 1000000000000}")
FINISH = ("+ factor[n] * 0.5", "+ factor[n] * 2")


def base() -> dict[str, str]:
    """ConvTranspose alone, with what it takes from the shared files."""
    files = tuple(f"{reviewing.FOLDER}/{name}.yaml" for name in ("conv_transpose", "_common", "_sources"))
    texts = {name: text for name, text in reviewing.specs().items() if name in files}
    return {name: specs.untied(text) for name, text in texts.items()}


def changed(where: str, *edits: tuple[str, str]) -> dict[str, str]:
    return reviewing.edited(base(), {"op": "conv_transpose.yaml", "common": "_common.yaml"}[where], *edits)


@pytest.fixture
def unproven(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reviews without the proof of their effect, which has tests of its own."""
    monkeypatch.setattr(findings.impact, "impact", lambda *_: Impact())


def found(review: Review, rule: str) -> Finding:
    (finding,) = [f for f in review.findings if f.rule.id == rule]
    return finding


def witness(review: Review, rule: str) -> Witness:
    result = found(review, rule).witness
    assert result is not None
    return result


def scaled(*edits: tuple[str, str]) -> dict[str, str]:
    return reviewing.edited(SCALE, "scale.yaml", *edits)


def facts(witness: Witness) -> tuple[str, str, str]:
    return str(witness.call), str(witness.base), str(witness.head)


# The search. Each row: rule, file, edit, the call, before and after.
SEARCHED = [
    ("attribute-range-narrowed", "common", "surplus: 0\n    min: 0", "surplus: 0\n    min: 0\n    max: 7",
     PLAIN.replace("strides=[1]", "strides=[9]") + ", output_padding=[8])",
     "returns f32[1,9,1]", "refused: output_padding-range"),
    ("attribute-default-changed", "common", 'default: "1"', 'default: "2"',
     PLAIN + ")", "returns f32[1,1,1]", "refused: inexact-division, groups-divide-in-channels"),
    ("padding-rule-changed", "common", "same_lower: ceil(T / 2)", "same_lower: floor(T / 2)",
     PLAIN.replace("weights f32[1,1,1]", "weights f32[2,1,1]") + ', auto_pad="same_lower")',
     "returns f32[1,1,1]", "returns f32[1,2,1]"),
    ("shape-formula-changed", "op", "O: S * (I - 1) + EK", "O: S * I + EK",
     PLAIN + ")", "returns f32[1,1,1]", "returns f32[1,2,1]"),
    ("dtypes-row-removed", "op", "  - {src: f16, weights: f16, bias: f16, dst: f16, accumulate: f32}\n", "",
     PLAIN.replace("f32[", "f16[") + ")", "returns f16[1,1,1]", "refused: dtypes"),
    ("layout-word-removed", "op", "values: [IOX, XOI]", "values: [XOI]",
     PLAIN + ', weights_format="IOX")', "returns f32[1,1,1]", "refused: weights_format-value"),
    ("attribute-alias-removed", "common", "aliases: [VALID]", "aliases: []",
     PLAIN + ', auto_pad="VALID")', "returns f32[1,1,1]", "refused: auto_pad-value"),
    ("constraint-condition-tightened", "common", "OP < max(S, D)\n", "OP < max(S, D) - 1\n",
     PLAIN + ")", "returns f32[1,1,1]", "refused: output-padding-range"),
    ("constraint-condition-loosened", "common", "OP < max(S, D)\n", "OP < max(S, D) + 1\n",
     PLAIN + ", output_padding=[1])", "refused: output-padding-range", "returns f32[1,2,1]"),
    ("dim-minimum-raised", "common", "batch: {min: 0,", "batch: {min: 1,",
     PLAIN.replace("src f32[1,1,1]", "src f32[0,1,1]") + ")", "returns f32[0,1,1]", "refused: batch-extent"),
    ("rank-range-narrowed", "op", "{min: 1, max: 3}", "{min: 2, max: 3}",
     PLAIN + ")", "returns f32[1,1,1]", "refused: spatial-rank"),
    ("input-need-required", "op", "name: bias, optional: true,", "name: bias,",
     PLAIN + ")", "returns f32[1,1,1]", "refused: bias-missing"),
    ("op-renamed", "op", "op: ConvTranspose", "op: Deconvolution",
     PLAIN + ")", "returns f32[1,1,1]", "refused: op-missing"),
]  # fmt: skip


@pytest.mark.usefixtures("unproven")
@pytest.mark.parametrize(
    ("rule", "where", "old", "new", "call", "before", "after"), SEARCHED, ids=[row[0] for row in SEARCHED]
)
def test_the_witness_is_the_shortest_call_on_which_the_sides_differ(
    rule: str, where: str, old: str, new: str, call: str, before: str, after: str
):
    review = witnessed(find(), reviewing.reviewed(base(), changed(where, (old, new))), run=False)
    assert facts(witness(review, rule)) == (call, before, after)


SWAPPED = ("aliases: [SAME_UPPER]", "aliases: [SAME_LOWER]")
TURNED = [(SWAPPED[0], "aliases: [X]"), (SWAPPED[1], SWAPPED[0]), ("aliases: [X]", SWAPPED[1])]
AGREE = ("/ S) + 1\n", "/ S) + 1 and I <= 4096\n")
# Edits that show in few calls: by place, by keyword, by an alias, far out, or in sizes that depend on each other.
RARE = [
    ("input-order-changed", "conv_transpose.yaml", lambda text: _exchanged(text, "  - {name: src", "  - name: weights\n", "  - {name: bias")),
    ("input-parameter-changed", "convolution_backward_data.yaml", ("dst_shape_tensor", "dst_shape_list")),
    ("input-arrangement-reordered", "conv_transpose.yaml", lambda text: _exchanged(text, "      library:", "      page:", "    summary: The kernel")),
    ("attribute-alias-moved", "_common.yaml", TURNED),
    ("constraint-condition-tightened", "convolution_backward_data.yaml", AGREE),
    ("constraint-condition-tightened", "_common.yaml", ("OP < max(S, D)\n", "OP < min(max(S, D), 64)\n")),
    ("padding-rule-changed", "_common.yaml", ("same_upper: floor(T / 2)", "same_upper: floor((T + min(floor(T / 9), 1)) / 2)")),
    ("padding-rule-changed", "conv_transpose.yaml", ('"max(EK - S, 0)"', '"min(max(EK - S, 0), 12)"')),
    ("shape-formula-changed", "conv_transpose.yaml", ("- PE + OP", "- PE + OP + floor(I / 32)")),
    ("value-formula-changed", "_common.yaml", ("value: (K - 1) * D + 1,", 'value: "min((K - 1) * D + 1, 1000)",')),
    ("value-formula-changed", "conv_transpose.yaml", ("effective_kernel}\n", "effective_kernel}\n  Q: (I - 1) / 2\n")),
    ("dtypes-row-added", "conv_transpose.yaml", ("dtypes:\n", "dtypes:\n  - {src: f32, weights: f32, bias: f16, dst: f16, accumulate: f32}\n")),
]  # fmt: skip


def _exchanged(text: str, one: str, other: str, end: str) -> str:
    """Two neighbouring parts of a text, the other way round."""
    first, second, last = (text.index(mark) for mark in (one, other, end))
    return text[:first] + text[second:last] + text[first:second] + text[last:]


@pytest.mark.usefixtures("unproven")
@pytest.mark.parametrize(("rule", "file", "edit"), RARE, ids=[f"{row[0]} {number}" for number, row in enumerate(RARE)])
def test_a_witness_is_found_where_few_calls_differ_and_makes_the_finding_breaking(rule: str, file: str, edit):
    before = reviewing.specs()
    name = f"{reviewing.FOLDER}/{file}"
    text = edit(before[name]) if callable(edit) else before[name]
    for old, new in () if callable(edit) else [edit] if isinstance(edit, tuple) else edit:
        text = text.replace(old, new)
    review = witnessed(find(), reviewing.reviewed(before, {**before, name: text}), run=False)
    shown = [finding for finding in review.findings if finding.rule.id == rule]
    assert shown
    assert all(finding.witness.call and finding.witness.base.accepted for finding in shown)
    assert {(finding.rule.contract, finding.severity) for finding in shown} == {("breaking", "error")}


@pytest.mark.usefixtures("unproven")
def test_a_call_that_gives_other_values_is_shown_with_the_first_of_them():
    semantics = {name: re.sub(r"^normal_form: .*\n", "", text, flags=re.MULTILINE) for name, text in base().items()}
    doubled = reviewing.edited(semantics, "conv_transpose.yaml", ("+= src[n", "+= 2 * src[n"))
    review = witnessed(find(), reviewing.reviewed(semantics, doubled), run=False)
    shown = witness(review, "semantics-sum-changed")
    assert facts(shown) == (PLAIN + ")", "returns f32[1,1,1]", "returns f32[1,1,1]")
    assert shown.differs == "1 of 1 values differ, first [0, 0, 0]: -3 -> -6; largest difference 8388608 ulp"
    assert not shown.executed


@pytest.mark.usefixtures("unproven")
def test_a_renamed_input_is_shown_by_keyword():
    review = witnessed(find(), reviewing.reviewed(SCALE, scaled(("factor", "weight"))), run=False)
    shown = witness(review, "input-tensor-renamed")
    assert facts(shown) == (
        "scale(src f32[1,1], factor f32[1])", "returns f32[1,1]", "refused: unknown-attribute"
    )  # fmt: skip


@pytest.mark.usefixtures("unproven")
def test_each_of_two_findings_is_shown_a_call_of_its_own():
    after = changed("op", ("values: [IOX, XOI]", "values: [XOI]"), ("min: 1, max: 3", "min: 1, max: 2"))
    review = witnessed(find(), reviewing.reviewed(base(), after), run=False)
    assert str(witness(review, "layout-word-removed").head) == "refused: weights_format-value"
    assert str(witness(review, "rank-range-narrowed").head) == "refused: spatial-rank"


@pytest.mark.usefixtures("unproven")
@pytest.mark.parametrize("turned", [False, True])
def test_a_break_that_also_admits_calls_is_shown_by_a_call_that_it_refuses(turned: bool):
    """An extent of 0 becomes 1, or the other way round: there are calls that only the old side takes, and others."""
    file = f"{reviewing.FOLDER}/scores.yaml"
    before = {file: (checkout.ROOT / "tests" / "data" / "steps" / "causal.yaml").read_text(encoding="utf-8")}
    after = {file: before[file].replace("T: T, W: W}", 'T: T, W: "max(W, 1)"}', 1)}
    assert before != after
    sides = (after, before) if turned else (before, after)
    shown = witness(judged_edits.reviewed(*sides), "input-axes-changed")
    assert shown.base.accepted
    assert not shown.head.accepted


@pytest.mark.parametrize(
    ("where", "old", "new"),
    [
        ("op", "summary: The gradient of", "summary: A gradient of"),
        ("op", "O: S * (I - 1) + EK", "O: EK + S * (I - 1)"),
        ("common", "ruling: As the library has it.", "ruling: As ONNX has it."),
        ("op", "revision: 1", "revision: 2"),
        ("common", "aliases: [VALID]", "aliases: [VALID, Valid]"),
    ],
)
def test_what_no_caller_notices_has_no_witness(where: str, old: str, new: str):
    review = witnessed(find(), reviewing.reviewed(base(), changed(where, (old, new))), run=False)
    assert [finding.witness for finding in review.findings] == [None] * len(review.findings)
    assert review.findings


@pytest.mark.usefixtures("unproven")
def test_a_search_in_vain_says_how_many_calls_it_tried():
    after = changed("common", ("batch: {min: 0, typical: 4,", "batch: {min: 0, typical: 5,"))
    review = witnessed(find(), reviewing.reviewed(base(), after), run=False)
    shown = witness(review, "dim-typical-changed")
    assert shown.call is None
    assert f"no call found on which they differ ({shown.tried} tried)" in FORMATS["text"](review, False)
    assert shown.tried >= 100


# Both packages, generated and called.


@pytest.fixture(scope="module")
def executed() -> Review:
    """Of a small operation: a constraint, a type and the meaning changed, one row taken away."""
    two = specs.SCALE.replace("dtypes:\n", "dtypes:\n  - {src: f16, factor: f16, dst: f16, accumulate: f32}\n")
    after = two.replace(*FINISH).replace("alpha > 0", "alpha > 1").replace("  - {src: f16", "  - {src: bf16")
    return witnessed(
        find(),
        reviewing.reviewed(
            {OPERATION: two}, {OPERATION: after.replace("factor: f16, dst: f16", "factor: bf16, dst: bf16")}
        ),
    )


def test_a_witness_is_executed_on_both_sides(executed: Review):
    shown = witness(executed, "constraint-condition-tightened")
    assert facts(shown) == ("scale(src f32[1,1])", "returns f32[1,1]", "refused: alpha-is-positive")
    shown = witness(executed, "dtypes-row-removed")
    assert (str(shown.base), str(shown.head)) == ("returns f16[1,1]", "refused: dtypes")
    shown = witness(executed, "semantics-finish-changed")
    assert "alpha=" in str(shown.call)  # the default is refused by the new constraint
    assert shown.differs.startswith("1 of 1 values differ")
    assert all(f.witness.executed for f in executed.findings if f.witness)
    assert [f.witness.notes for f in executed.findings if f.witness] == [()] * 3


def test_every_form_has_the_call_and_what_was_done_with_it(executed: Review):
    shown = witness(executed, "dtypes-row-removed")
    for form, make in FORMATS.items():
        assert str(shown.call) in make(executed, False).replace("%2C", ","), form
    document = json.loads(FORMATS["json"](executed, False))
    jsonschema.validate(document, schema())
    (one,) = [f["witness"] for f in document["findings"] if f["rule"] == "dtypes-row-removed"]
    assert one["base"] == {"accepted": True, "rules": [], "dtype": "f16", "shape": [1, 1]}
    assert one["head"] == {"accepted": False, "rules": ["dtypes"], "dtype": None, "shape": None}


def rendered_otherwise(monkeypatch: pytest.MonkeyPatch, old: str, new: str) -> None:
    """Packages for execution get C with one text for another."""
    render = execute.render.render

    def other(*arguments: object, **options: object) -> dict[str, str]:
        files = render(*arguments, **options)
        return {path: text.replace(old, new) if path.endswith(".c") else text for path, text in files.items()}

    monkeypatch.setattr(execute.render, "render", other)


@pytest.mark.usefixtures("unproven")
def test_a_kernel_that_crashes_is_a_note_of_its_witness(monkeypatch: pytest.MonkeyPatch):
    review = reviewing.reviewed(SCALE, scaled(FINISH))
    rendered_otherwise(monkeypatch, ")\n{\n", ")\n{\n    __builtin_trap();\n")
    shown = witness(witnessed(find(), review), "semantics-finish-changed")
    assert [note.partition(" (")[0] for note in shown.notes] == [
        "before, not executed: crashed", "after, not executed: crashed"
    ]  # fmt: skip
    assert not shown.executed
    assert shown.differs


def test_a_kernel_that_does_not_end_is_stopped_and_the_next_call_made(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(execute, "SECONDS", 1)
    op = load_texts(scaled(ENDLESS)).ops[0]
    calls = [call_text.parse(text) for text in ("scale(src f32[1,1])", "scale(src f32[1,1], alpha=-1)")]
    endless, refused = execute.execute(find(), op, {}, calls)
    assert endless.trouble == "did not end within 1 s"
    assert str(refused.outcome) == "refused: alpha-is-positive"


@pytest.mark.usefixtures("unproven")
def test_the_search_computes_nothing_that_takes_long_whatever_a_spec_says():
    started = time.process_time()
    review = witnessed(find(), reviewing.reviewed(SCALE, scaled(ENDLESS)))
    assert witness(review, "semantics-range-added").call is None
    assert time.process_time() - started < 20


def test_a_spec_of_which_no_package_is_made_is_not_executed():
    """Its fast kernels would follow the normal form, which the semantics no longer say."""
    op = load_texts(changed("op", ("+= src[n", "+= 2 * src[n"))).ops[0]
    (answer,) = execute.execute(find(), op, {}, [call_text.parse(f"{PLAIN})")])
    assert answer.trouble.startswith("`opwright generate` refuses it: the normal form of ConvTranspose gives")


@pytest.mark.usefixtures("unproven")
def test_without_a_compiler_the_specs_tell_what_the_call_does(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setenv("CC", "no-such-compiler")
    monkeypatch.setenv("OPWRIGHT_CACHE_DIR", str(tmp_path / "cache"))
    shown = witness(witnessed(find(), reviewing.reviewed(SCALE, scaled(FINISH))), "semantics-finish-changed")
    assert len(shown.notes) == 2
    assert all("not executed: its kernels cannot be built: no C compiler" in note for note in shown.notes)
    assert not shown.executed
    assert shown.differs.startswith("1 of 1 values differ")


@pytest.mark.usefixtures("unproven")
def test_a_package_that_errs_from_its_spec_is_named_an_error_of_opwright(monkeypatch: pytest.MonkeyPatch):
    rendered_otherwise(monkeypatch, "* 0.5", "* 0.75")
    shown = witness(witnessed(find(), reviewing.reviewed(SCALE, scaled(FINISH))), "semantics-finish-changed")
    assert [note.partition(":")[0] for note in shown.notes] == ["AN ERROR OF OPWRIGHT, before"]


# Values.


def test_the_values_of_changed_kernels_are_measured_and_of_no_others():
    after = scaled(("src[m, n] * alpha", "alpha * (src[m, n] * 3 - src[m, n] * 2)"))
    review = measured(find(), reviewing.reviewed(SCALE, after))
    assert review.values is not None
    calls = {value.kernel: value.calls for value in review.values.values()}
    assert set(calls) == {f"scale_f32_{isa}" for isa in ("portable", "avx2", "avx512", "neon")}
    assert calls["scale_f32_portable"] > 0
    assert "values " in FORMATS["text"](review, False)
    jsonschema.validate(json.loads(FORMATS["json"](review, False)), schema())
    same = measured(find(), reviewing.reviewed(SCALE, scaled(("alpha > 0", "alpha > 1"))))
    assert same.values == {}


# The command.


def written(folder: Path, texts: dict[str, str]) -> str:
    for name, text in texts.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return str(folder / "spec")


def test_a_call_is_made_on_both_sides(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    old, new = written(tmp_path / "old", SCALE), written(tmp_path / "new", scaled(("alpha > 0", "alpha > 1")))
    assert cli.main(["diff", old, new, "--call", "scale(src f32[2,3], alpha=1.5)"]) == 0
    assert "before: returns f32[2,3]; after: returns f32[2,3]; the values are the same" in capsys.readouterr().out
    assert cli.main(["diff", old, new, "--call", "scale(src f32[2,3], alpha=0.5)", "--format", "json"]) == 1
    assert json.loads(capsys.readouterr().out)["head"]["rules"] == ["alpha-is-positive"]
    assert cli.main(["diff", old, new, "--call", "scal(src f32[2,3])"]) == 2
    assert "did you mean 'scale'" in capsys.readouterr().err


def test_the_same_witness_is_found_at_every_run(tmp_path: Path):
    old, new = written(tmp_path / "old", base()), written(tmp_path / "new", changed("op", ("S * (I - 1)", "S * I")))
    command = [sys.executable, "-m", "opwright", "diff", old, new, "--no-run"]
    outputs = [
        subprocess.run(command, env={**os.environ, "PYTHONHASHSEED": seed}, capture_output=True, text=True, check=False)
        for seed in ("1", "2")
    ]
    assert "witness: conv_transpose(" in outputs[0].stdout
    assert outputs[0].stdout == outputs[1].stdout
