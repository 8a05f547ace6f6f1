"""What the linter says of a set of specs, and that it comes as findings of the new side."""

from __future__ import annotations

import re

import pytest
from opwright.load import load_texts
from opwright.review.lint import lint
from support import reviewing
from support.specs import all_texts

SPECS = reviewing.specs()
BACK = "conv_transpose_backward_data.yaml"


def noted(texts: dict[str, str]) -> list[tuple[str, str]]:
    return [(note.rule, note.path) for note in lint(load_texts(texts))]


def without(file: str, pattern: str) -> dict[str, str]:
    """The specs with the lines of one file taken out that a pattern fits."""
    name = f"{reviewing.FOLDER}/{file}"
    text, count = re.subn(rf"^{pattern}\n", "", SPECS[name], flags=re.MULTILINE)
    assert count
    return {**SPECS, name: text}


@pytest.mark.parametrize("texts", [SPECS, all_texts()], ids=["convolutions", "all"])
def test_the_specs_of_this_project_leave_nothing_open(texts: dict[str, str]):
    assert noted(texts) == []


@pytest.mark.parametrize(
    ("section", "entry", "path"),
    [
        ("attributes:\n", "  - {name: extra, type: s64, default: '1', summary: More.}\n", "attributes.extra"),
        (
            "constraints:\n",
            "  - {id: extra, expr: 1 > 0, say: one is more than none, argument: groups}\n",
            "constraints.extra",
        ),
        ("let:\n", "  extra: {value: '1', summary: one}\n", "let.extra"),
        ("classes:\n", "  - {name: extra, summary: others}\n", "classes.extra"),
        ("layouts:\n", "  extra: {A: [N, C, X]}\n", "layouts.extra"),
        ("dims:\n", "  extra: {summary: others}\n", "dims.extra"),
    ],
)
def test_a_shared_entry_that_no_operation_uses_is_noted(section: str, entry: str, path: str):
    name = f"{reviewing.FOLDER}/_common.yaml"
    found = {**SPECS, name: re.sub(rf"^{section}", section + entry.replace("\\", ""), SPECS[name], flags=re.MULTILINE)}
    assert noted(found) == [("lint-shared-unused", path)]


def test_what_two_operations_write_out_alike_is_noted_at_the_second():
    constraint = "constraints:\n  - {id: extra, expr: G >= 1, say: there is a group, argument: groups}\n"
    texts = dict(SPECS)
    for file in (BACK, "conv_transpose_backward_weights.yaml"):
        texts = reviewing.edited(texts, file, ("constraints:\n", constraint))
    (note,) = lint(load_texts(texts))
    assert (note.rule, note.ops) == ("lint-entry-repeated", ("ConvTransposeBackwardWeights",))
    assert note.at.file.endswith("/conv_transpose_backward_weights.yaml")
    assert "as in ConvTransposeBackwardData, spec/onednn_graph/conv_transpose_backward_data.yaml:" in note.message


def test_a_document_that_nothing_cites_is_noted():
    texts = reviewing.edited(SPECS, "_sources.yaml", ("pages:\n", "pages:\n  extra:\n    title: More\n"))
    assert noted(texts) == [("lint-page-uncited", "pages.extra")]


def test_an_adjoint_that_only_one_side_knows_is_noted_there():
    texts = without(BACK, r"  - \{adjoint: ConvTranspose, .*")
    assert noted(texts) == [("lint-relation-unanswered", "relations.adjoint.ConvTransposeBackwardData")]


def test_types_and_ranks_that_only_one_of_two_tied_operations_takes_are_noted():
    texts = without(BACK, r"  - \{diff_dst: f16, .*")
    notes = [note for note in lint(load_texts(texts)) if note.ops == ("ConvTransposeBackwardData",)]
    assert {note.rule for note in notes} == {"lint-relation-uneven"}
    expected = {"Convolution has src f16 weights f16 dst f16", "ConvTranspose has src f16 weights f16 dst f16"}
    expected.add("ConvTransposeBackwardWeights has src f16 diff_dst f16 diff_weights f16")
    assert {note.message for note in notes} == expected
    texts = reviewing.edited(SPECS, BACK, ("max: 3}", "max: 2}"))
    assert any("has 1 to 3 spatial axes" in note.message for note in lint(load_texts(texts)))


def test_a_note_about_the_new_side_is_a_finding_that_can_be_waived():
    after = reviewing.edited(SPECS, "_sources.yaml", ("pages:\n", "pages:\n  extra:\n    title: More\n"))
    found = reviewing.reviewed(SPECS, after)
    assert [f.rule.id for f in found.findings] == ["lint-page-uncited", "source-page-added"]
    note = found.findings[0]
    assert (note.severity, str(note.new)) == ("notice", "spec/onednn_graph/_sources.yaml:4:5")
    waivers = (
        f"waivers: [{{rule: {note.rule.id}, fingerprint: '{note.fingerprint}', reason: soon, expires: 2030-02-01}}]\n"
    )
    waived = reviewing.reviewed(SPECS, after, old_waivers=waivers, waivers=waivers)
    assert [f.rule.id for f in waived.failing("notice")] == ["source-page-added"]
    assert [f.rule.id for f in reviewing.reviewed(after, SPECS).findings] == ["source-page-removed"]
