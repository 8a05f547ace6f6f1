"""The review of operations of steps: every edit has a rule, is predicted, and no edit that callers notice is harmless."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from unittest import mock

import pytest
from opwright.project import find
from opwright.review import witness
from opwright.review.findings import Review
from opwright.review.values import measured
from opwright.review.witness import witnessed
from support import reviewing, step_edits

SPECS = Path(__file__).parents[1] / "data" / "steps"
FOLDER = "spec/onednn_graph"
# The file, what stands there, what it becomes, and the rules of the findings beside that of the revision.
BREAKING: tuple[tuple[str, str, str, set[str]], ...] = (
    ("soft_max", "max= src", "min= src", {"semantics-sum-changed"}),
    ("soft_max", "/ total[b, a]", "/ (total[b, a] + 1)", {"semantics-sum-changed"}),
    ("soft_max", 'default: "-1"', 'default: "1"', {"attribute-default-changed"}),
    ("soft_max", "  - {src: f64, dst: f64, accumulate: f64}\n", "", {"dtypes-row-removed"}),
    ("add", "values: [none, numpy]", "values: [numpy]", {"attribute-value-removed"}),
    ("add", ", broadcast: [X], broadcast_if: {auto_broadcast: numpy}, summary: The", ", summary: The", {"input-axes-changed"}),
    ("gelu", "gelu_erf: dst[x] = 0.5", "gelu_erf: dst[x] = 0.25", {"semantics-sum-changed"}),
    ("reduce_sum", "dst[k, 0] +=", "dst[k, 0] max=", {"semantics-sum-changed"}),
    ("layer_norm", "absent: 1", "absent: 2", {"semantics-finish-changed"}),
    ("layer_norm", "dims: {B: B}, when: keep_stats}\n  - {name: v", "dims: {B: B}}\n  - {name: v", {"output-axes-changed", "symbol-declaration-changed"}),
    ("causal", "where: [t <= q + T - Q]", "where: [t <= q]", {"semantics-sum-changed"}),
    ("stretched", "C: C}, broadcast_as: factor", "C: C}", {"output-axes-changed", "symbol-declaration-changed"}),
    ("mat_mul", "may_lack: [M, N]", "may_lack: [M]", {"output-axes-changed"}),
    ("concat", "joined: C, ", "", {"input-axes-changed"}),
    ("static_reshape", ", keeps: special_zero", "", {"attribute-shape-changed"}),
    ("grouped", "blocks: {channels: W}", "blocks: {channels: 1}", {"attribute-shape-changed"}),
    ("grouped", "per_channel: [G],", "per_channel: [B, G, A],", {"layout-order-changed"}),
    ("arg_max", "min= select(src[k, r] == peaks", "min= select(src[k, r] >= peaks", {"semantics-sum-changed"}),
    ("static_transpose", "order_of: dst", "order_of: src", {"attribute-shape-changed"}),
    ("max_pool", "O: floor((I", "O: ceil((I", {"shape-formula-changed"}),
)  # fmt: skip
HARMLESS = (
    ("soft_max", "summary: Their shares.", "summary: The shares.", "docs-summary-changed"),
    ("soft_max", "summary: the axes behind", "summary: what stands behind", "docs-summary-changed"),
)


def found(name: str, old: str, new: str) -> tuple[set[str], set[str]]:
    """The rules of the findings of an edit, and what they mean to callers; nothing moved that was not predicted."""
    before = {f"{FOLDER}/{name}.yaml": (SPECS / f"{name}.yaml").read_text(encoding="utf-8")}
    review = reviewing.reviewed(before, reviewing.edited(before, f"{name}.yaml", (old, new)))
    assert review.impact.unpredicted == []
    findings = [
        finding for finding in review.findings if not finding.rule.id.startswith(("op-revision", "split-", "c-"))
    ]
    return {finding.rule.id for finding in findings}, {finding.rule.contract for finding in findings}


@pytest.mark.parametrize(
    ("name", "old", "new", "rules"), BREAKING, ids=lambda part: part if isinstance(part, str) else ""
)
def test_an_edit_that_callers_notice_is_breaking(name: str, old: str, new: str, rules: set[str]) -> None:
    ids, contracts = found(name, old, new)
    assert ids == rules
    assert "breaking" in contracts


@pytest.mark.parametrize(("name", "old", "new", "rule"), HARMLESS)
def test_prose_is_prose(name: str, old: str, new: str, rule: str) -> None:
    assert found(name, old, new) == ({rule}, {"none"})


# One more word, and its case.
WORD = (("gelu_tanh]", "gelu_tanh, none]"), ("        gelu_tanh:", "        none: dst[x] = src[x]\n        gelu_tanh:"))


def both(name: str, edits: Sequence[tuple[str, str]]) -> Iterator[Review]:
    """The reviews of edits of an operation and of taking them back, in which all moves as predicted."""
    before = {f"{FOLDER}/{name}.yaml": (SPECS / f"{name}.yaml").read_text(encoding="utf-8")}
    after = reviewing.edited(before, f"{name}.yaml", *edits)
    for sides in ((before, after), (after, before)):
        review = reviewing.reviewed(*sides)
        assert review.impact.unpredicted == []
        yield review


def own_rules(review: Review) -> set[str]:
    return {f.rule.id for f in review.findings if not f.rule.id.startswith(("op-revision", "split-", "c-"))}


def test_the_case_of_a_word_that_comes_or_goes_is_part_of_that_edit() -> None:
    assert [own_rules(review) for review in both("gelu", WORD)] == [
        {"attribute-value-added"},
        {"attribute-value-removed"},
    ]


def test_a_word_that_comes_hides_no_change_of_other_cases() -> None:
    for review in both("gelu", (*WORD, ("gelu_erf: dst[x] = 0.5", "gelu_erf: dst[x] = 0.25"))):
        assert "semantics-sum-changed" in own_rules(review)


def test_an_order_of_axes_that_no_word_asks_for_moves_no_kernel() -> None:
    edits = [("NXC: [N, X, C]}", "NXC: [N, X, C], XNC: [X, N, C]}")]
    assert [own_rules(review) for review in both("max_pool", edits)] == [
        {"layout-table-added"},
        {"layout-table-removed"},
    ]


def test_a_tensor_that_comes_or_goes_changes_names_of_kernels_as_predicted() -> None:
    """Kernels of rows of several types are named after all of them."""
    edits = [
        ("\noutputs:", "\n  - {name: extra, optional: true, dims: {N: N}}\noutputs:"),
        ("cells: s32,", "cells: s32, extra: f32,"),
    ]
    for review in both("max_pool", edits):
        assert review.impact.observed.added
        assert review.impact.observed.removed


def test_outputs_in_another_order_change_names_of_kernels_as_predicted() -> None:
    one, other = (
        f"  - {{name: {name}, layout: data_format, dims: {{N: N, C: C, X: O}}}}\n" for name in ("dst", "cells")
    )
    for review in both("max_pool", [(one + other, other + one)]):
        assert "output-order-changed" in own_rules(review)


def test_a_file_of_steps_under_another_name_is_a_matter_of_the_record() -> None:
    text = (SPECS / "gelu.yaml").read_text(encoding="utf-8")
    review = reviewing.reviewed({f"{FOLDER}/gelu.yaml": text}, {f"{FOLDER}/other.yaml": text})
    assert own_rules(review) == {"op-file-moved"}
    assert review.impact.unpredicted == []


def test_another_letter_in_all_steps_is_no_change_to_callers() -> None:
    text = (SPECS / "gelu.yaml").read_text(encoding="utf-8")
    after = text.replace("x: X}\n  steps", "z: X}\n  steps").replace("dst[x]", "dst[z]").replace("src[x]", "src[z]")
    review = reviewing.reviewed({f"{FOLDER}/gelu.yaml": text}, {f"{FOLDER}/gelu.yaml": after})
    contracts = {finding.rule.contract for finding in review.findings if not finding.rule.id.startswith("op-revision")}
    assert contracts == {"none"}


# Edits of which no call shows anything: the same values.
WITHOUT_CALL = {("soft_max", "max= src"), ("arg_max", "min= select(src[k, r] == peaks")}


@pytest.mark.parametrize(("name", "old", "new", "rules"), BREAKING, ids=[f"{row[0]}-{row[1][:20]}" for row in BREAKING])
def test_an_edit_that_callers_notice_has_a_call_that_shows_it(name: str, old: str, new: str, rules: set[str]) -> None:
    before = {f"{FOLDER}/{name}.yaml": (SPECS / f"{name}.yaml").read_text(encoding="utf-8")}
    with reviewing.nothing_rendered(), mock.patch.object(witness, "TRIES", 120):
        review = reviewing.reviewed(before, reviewing.edited(before, f"{name}.yaml", (old, new)))
        shown = witnessed(find(), review, run=False)
    shows = [f.witness for f in shown.findings if f.rule.id in rules and f.witness and f.witness.call]
    assert all(not call.same for call in shows)
    assert bool(shows) == ((name, old) not in WITHOUT_CALL)


# What steps say otherwise and in the same meaning, but for rounding.
SAME = (
    ("soft_max", (("exp(src[b, c, a] - peak[b, a])\n", "exp(-peak[b, a] + src[b, c, a])\n"),)),
    ("soft_max", (("peak", "top"),)),
    ("batch_norm", (("momentum * mean[c] + (1 - momentum) * own[c]", "own[c] * (1 - momentum) + mean[c] * momentum"),)),
    ("max_pool", (("o * S + k * D - P", "k * D + (o * S - P)"),)),
    ("quantize", (("round(src[b, c, a] / scales[c]) + zps[c]", "zps[c] + round(src[b, c, a] / scales[c])"),)),
    ("soft_max", (("{b: B, c: C, a: A}", "{p: B, c: C, q: A}"), ("[b, c, a]", "[p, c, q]"), ("[b, a]", "[p, q]"))),
)
# What looks alike and is none: a rounding may jump, a sign is another one, an infinity cancels.
NEAR = (
    ("quantize", (("src[b, c, a] / scales[c]", "(src[b, c, a] * 3) / (3 * scales[c])"),)),
    ("soft_max", (("total[b, a] += exp(src[b, c, a] - peak[b, a])", "total[b, a] += exp(peak[b, a] - src[b, c, a])"),)),
    ("add", (("src_0[x] + src_1[x]", "src_0[x] + src_1[x] - src_1[x] + src_1[x]"),)),
    ("add", (("src_0[x] + src_1[x]", "2 * src_0[x] - src_0[x] + src_1[x]"),)),
    (
        "soft_max",
        (("exp(src[b, c, a] - peak[b, a])\n", "exp(src[b, c, a] * src[b, c, a] / src[b, c, a] - peak[b, a])\n"),),
    ),
)
# The same but where a rounding jumps or a value is infinite: the text before, and after.
UNLIKE = (
    ("exp(floor(3 * (src[b, c, a] / 3)) - peak[b, a])", "exp(floor(src[b, c, a]) - peak[b, a])"),
    ("exp(src[b, c, a] * (2 - peak[b, a]))", "exp(2 * src[b, c, a] - src[b, c, a] * peak[b, a])"),
)


def steps_rules(name: str, edits: tuple[tuple[str, str], ...]) -> set[str]:
    """The rules of all findings, that of a kept revision among them."""
    before = {f"{FOLDER}/{name}.yaml": (SPECS / f"{name}.yaml").read_text(encoding="utf-8")}
    return set(reviewing.unproven(before, reviewing.edited(before, f"{name}.yaml", *edits)))


@pytest.mark.parametrize(("name", "edits"), SAME)
def test_steps_that_are_proven_the_same_are_no_change_to_callers(name: str, edits: tuple[tuple[str, str], ...]) -> None:
    assert steps_rules(name, edits) in ({"semantics-sum-rewritten"}, {"semantics-range-renamed"})


@pytest.mark.parametrize(("name", "edits"), NEAR)
def test_steps_that_are_not_proven_the_same_are_a_change(name: str, edits: tuple[tuple[str, str], ...]) -> None:
    assert steps_rules(name, edits) == {"semantics-sum-changed", "op-revision-kept"}


@pytest.mark.parametrize(("was", "now"), UNLIKE)
def test_formulas_that_an_infinity_or_a_rounding_tells_apart_are_a_change(was: str, now: str) -> None:
    text = (SPECS / "soft_max.yaml").read_text(encoding="utf-8")
    before, after = (text.replace("exp(src[b, c, a] - peak[b, a])", formula) for formula in (was, now))
    found = reviewing.unproven({f"{FOLDER}/soft_max.yaml": before}, {f"{FOLDER}/soft_max.yaml": after})
    assert "semantics-sum-changed" in found


def test_a_size_that_an_attribute_locates_is_no_longer_found_where_it_is_written_as_a_sum() -> None:
    """The attribute speaks of the first input that has the size alone."""
    (before,) = (texts for texts in step_edits.shipped() if f"{FOLDER}/dynamic_quantize.yaml" in texts)
    text = before[f"{FOLDER}/dynamic_quantize.yaml"]
    after = {**before, f"{FOLDER}/dynamic_quantize.yaml": text.replace('"C": "C"', '"C": "C + 0"', 1)}
    assert "input-axes-changed" in reviewing.unproven(before, after)


def test_a_finding_shows_the_guards_and_the_choices_of_steps() -> None:
    for name, old, new in (
        ("causal", "where: [t <= q + T - Q]", "where: [t <= q]"),
        ("gelu", "= 0.5 * src[x] * (1 + erf", "= 0.25 * src[x] * (1 + erf"),
    ):
        before = {f"{FOLDER}/{name}.yaml": (SPECS / f"{name}.yaml").read_text(encoding="utf-8")}
        with reviewing.nothing_rendered():
            found = reviewing.reviewed(before, reviewing.edited(before, f"{name}.yaml", (old, new)))
        (edit,) = (e for f in found.findings for e in f.edits if e.rule == "semantics-sum-changed")
        assert old.partition("= ")[2] in edit.was or old.partition("[")[2] in edit.was
        assert "nothing" not in edit.was
        assert edit.was != edit.now


def test_a_witness_of_steps_is_executed_on_the_packages_of_both_sides() -> None:
    before = {f"{FOLDER}/concat.yaml": (SPECS / "concat.yaml").read_text(encoding="utf-8")}
    after = reviewing.edited(before, "concat.yaml", ("= src[b, c, a]", "= src[b, c, a] + src[b, c, a]"))
    review = reviewing.reviewed(before, after)
    (shown,) = (f.witness for f in witnessed(find(), review).findings if f.rule.id == "semantics-sum-changed")
    assert shown
    assert shown.executed
    assert "src [f32[" in str(shown.call)
    assert not shown.same
    assert shown.notes == ()


def test_values_of_kernels_of_steps_are_run_and_compared() -> None:
    text = (SPECS / "statistics.yaml").read_text(encoding="utf-8")
    before = {f"{FOLDER}/statistics.yaml": text}
    after = reviewing.edited(before, "statistics.yaml", ("/ (most[] - least[])", "/ (2 * most[] - least[])"))
    review = reviewing.reviewed(before, after)
    found = measured(find(), review).values or {}
    run = {name: value for name, value in found.items() if value.calls}
    assert {name.rpartition("_")[0] for name in run} == {"statistics_f32"}
    assert all(value.ulp > 0 for value in run.values())
