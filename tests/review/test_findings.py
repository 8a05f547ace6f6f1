"""Findings: revisions, waivers, the lock, the proof, every form of the report, and what the command returns."""

from __future__ import annotations

import dataclasses
import json
import re
from xml.etree import ElementTree

import jsonschema
import pytest
from opwright.language.source import SpecInvalid
from opwright.load import load_texts
from opwright.review import compare, rules
from opwright.review.findings import Review
from opwright.review.json_form import schema
from opwright.review.report import FORMATS
from support import checkout, reviewing
from support.small_edits import DOCS, FUNCTIONS, GUARD, OP, SAME_LOWER, SPECS, after
from support.specs import OTHERS, all_texts, untied


def ids(review: Review) -> list[str]:
    return [finding.rule.id for finding in review.findings]


def waiver(finding: object, expires: str = "2030-02-01") -> str:
    return f"waivers:\n  - {{rule: {finding.rule.id}, fingerprint: '{finding.fingerprint}', reason: agreed, expires: {expires}}}\n"


@pytest.fixture(scope="module")
def docs_only() -> Review:
    return reviewing.reviewed(SPECS, after(DOCS))


@pytest.fixture(scope="module")
def meaning() -> Review:
    return reviewing.reviewed(SPECS, after(GUARD))


# What is found.


def test_a_docs_only_edit_is_proven_docs_only(docs_only: Review):
    assert ids(docs_only) == ["docs-summary-changed"]
    assert docs_only.impact.unpredicted == []
    assert docs_only.impact.observed.files == {"docs/API.md", "docs/conv_transpose.md"}
    assert docs_only.impact.observed.kernels == frozenset()


def test_the_sentence_of_a_named_value_reaches_pages_and_no_module():
    shared = ("summary: the kernel's extent with its dilation", "summary: the extent of the dilated kernel")
    found = reviewing.reviewed(SPECS, after(shared, file="_common.yaml"))
    assert ids(found) == ["docs-summary-changed"]
    assert found.impact.unpredicted == []
    assert {path for path in found.impact.observed.files if not path.startswith("docs/")} == set()


def test_an_edit_of_a_shared_entry_is_one_finding_of_all_operations_that_share_it():
    found = reviewing.reviewed(SPECS, after(SAME_LOWER, file="_common.yaml"))
    assert sorted(ids(found)) == ["op-revision-kept", "padding-rule-changed"]
    (changed,) = [finding for finding in found.findings if finding.rule.id == "padding-rule-changed"]
    assert len(changed.ops) == 6
    assert str(changed.new) == "spec/onednn_graph/_common.yaml:101:19"


def test_a_blank_line_and_a_comment_are_a_matter_of_form_and_move_no_file():
    found = reviewing.reviewed(SPECS, after(("revision: 1\n", "\n# one\nrevision: 1\n")))
    assert ids(found) == ["format-text-changed"]
    assert found.impact.observed.files == frozenset()


def test_a_changed_meaning_needs_a_new_revision(meaning: Review):
    assert sorted(ids(meaning)) == ["op-revision-kept", "semantics-edge-changed"]
    raised = reviewing.reviewed(SPECS, after(GUARD, ("revision: 1", "revision: 2")))
    assert sorted(ids(raised)) == ["op-revision-raised", "semantics-edge-changed"]


def test_operations_that_come_and_go_take_their_kernels_with_them():
    product = (checkout.ROOT / "tests/data/matrix_product.yaml").read_text(encoding="utf-8")
    found = reviewing.reviewed(SPECS, {**SPECS, "spec/onednn_graph/matrix_product.yaml": product})
    assert ids(found) == ["op-added"]
    assert found.findings[0].moved.added
    assert found.impact.unpredicted == []
    back = reviewing.reviewed({**SPECS, "spec/onednn_graph/matrix_product.yaml": product}, SPECS)
    assert ids(back) == ["op-removed"]
    assert back.findings[0].moved.removed == found.findings[0].moved.added


def test_a_class_that_goes_takes_its_kernels_and_leaves_the_others_as_they_are():
    found = reviewing.reviewed(SPECS, after(("classes: [dense, depthwise, grouped]", "classes: [dense, grouped]")))
    assert "class-kernels-removed" in ids(found)
    assert found.impact.unpredicted == []
    assert found.impact.observed.kernels == frozenset()
    assert all("_depthwise" in name for name in found.impact.observed.removed)


def test_a_word_that_goes_on_as_an_alias_of_another_one_breaks_no_call():
    words = after(("valid, aliases: [VALID]", "unpadded, aliases: [VALID, valid]"), file="_common.yaml")
    words = reviewing.edited(words, "_common.yaml", ("      valid: 0\n", "      unpadded: 0\n"))
    found = reviewing.reviewed(SPECS, words)
    assert sorted(ids(found)) == ["attribute-value-aliased", "op-revision-kept"]
    assert [finding.rule.id for finding in found.failing("error")] == [
        "op-revision-kept"
    ]  # callers notice the new word
    assert found.impact.unpredicted == []


def test_words_that_order_axes_otherwise_are_no_renames_of_each_other():
    back = ("conv_transpose_backward_data.yaml", "convolution.yaml")
    text = SPECS[f"{reviewing.FOLDER}/{back[0]}"]
    block = text[text.index("    default: XOI") : text.index("    reason: The transposed")]
    words = (block, "    default: XIO\n    values: [OIX, XIO]\n")
    formats = ("formats: {IOX: OIX, XOI: XIO}", "formats: {OIX: OIX, XIO: XIO}")
    changed = reviewing.edited(SPECS, back[0], words, formats)
    changed = reviewing.edited(changed, back[1], ("formats: {OIX: IOX, XIO: XOI}", formats[1]))
    found = reviewing.reviewed(SPECS, changed)
    moved = {f.path.rpartition(".")[2]: f for f in found.findings if f.rule.area == "layout"}
    assert {word: f.rule.id for word, f in moved.items()} == {
        "IOX": "layout-word-removed", "XOI": "layout-word-removed", "OIX": "layout-word-added", "XIO": "layout-word-added"
    }  # fmt: skip
    for word, finding in moved.items():
        names = finding.moved.removed or finding.moved.added
        assert names
        assert all(f"_{word.lower()}_" in name for name in names)
    assert not {"attribute-value-renamed", "format-text-changed"} & set(ids(found))
    assert found.impact.unpredicted == []


def test_a_file_under_another_name_is_a_matter_of_the_record():
    moved = {name.replace("/convolution.yaml", "/conv.yaml"): text for name, text in SPECS.items()}
    assert ids(reviewing.reviewed(SPECS, moved)) == ["op-file-moved"]


def test_a_fingerprint_follows_the_values_and_not_the_place(meaning: Review):
    lower = reviewing.reviewed(SPECS, after(GUARD, ("revision: 1\n", "revision: 1\n\n\n")))
    assert {f.fingerprint for f in lower.findings} == {f.fingerprint for f in meaning.findings}
    other = reviewing.reviewed(SPECS, after((GUARD[0], "  init: 2\n")))
    assert not {f.fingerprint for f in other.findings} & {f.fingerprint for f in meaning.findings}


def test_an_edit_of_the_table_of_documents_moves_the_pages_that_cite_them_as_predicted():
    found = reviewing.reviewed(SPECS, after(("release: oneDNN 3.13.2", "release: oneDNN 3.14"), file="_sources.yaml"))
    assert ids(found) == ["source-page-changed"]
    assert found.impact.unpredicted == []
    assert found.impact.observed.files == {f"docs/{name}.md" for name in FUNCTIONS}
    assert found.findings[0].moved.files == found.impact.observed.files
    one = reviewing.reviewed(
        SPECS, after(("scraped page; attribute names", "a page; attribute names"), file="_sources.yaml")
    )
    assert {op for finding in one.findings for op in finding.ops} == {
        "ConvTransposeBackwardData",
        "ConvolutionBackwardData",
    }
    assert one.impact.observed.files == {"docs/conv_transpose_backward_data.md", "docs/convolution_backward_data.md"}


def test_a_document_under_another_short_name_is_one_finding_with_all_that_cites_it():
    moved = {name: text.replace("library-3.13", "library-3.14") for name, text in SPECS.items()}
    found = reviewing.reviewed(SPECS, moved)
    assert ids(found) == ["source-page-renamed"]
    assert (found.findings[0].was, found.findings[0].now) == ("library-3.13", "library-3.14")
    assert found.impact.unpredicted == []
    assert found.impact.observed.files == {f"docs/{name}.md" for name in FUNCTIONS}


def test_a_document_that_goes_with_all_its_citations_moves_what_was_predicted():
    gone = {
        name: re.sub(
            r",? ?source: library-3.13|\n +source: library-3.13$|^source: .*library-3.13.*\n",
            "",
            text,
            flags=re.MULTILINE,
        )
        for name, text in SPECS.items()
    }
    name = f"{reviewing.FOLDER}/_sources.yaml"
    gone[name] = gone[name][: gone[name].index("  library-3.13:")]
    found = reviewing.reviewed(SPECS, gone)
    assert "source-page-removed" in ids(found)
    assert "source-citation-removed" in ids(found)
    assert found.impact.unpredicted == []


def test_a_document_that_no_finding_tells_of_is_found_out(monkeypatch: pytest.MonkeyPatch):
    from opwright.review import compare

    whole = compare.edits
    monkeypatch.setattr(
        compare, "edits", lambda old, new: tuple(e for e in whole(old, new) if not e.path.startswith("pages"))
    )
    found = reviewing.reviewed(SPECS, after(("release: oneDNN 3.13.2", "release: oneDNN 3.14"), file="_sources.yaml"))
    assert "impact-unpredicted" in ids(found)
    assert "ConvTranspose: files changed unpredicted: docs/conv_transpose.md" in found.impact.unpredicted


def test_a_way_to_split_that_an_edit_takes_gives_or_changes_is_a_finding_of_its_own():
    texts = {f"{reviewing.FOLDER}/{name}": text for name, text in all_texts().items()}
    files = ("_common.yaml", "_sources.yaml", "reduce_sum.yaml", "bias_add.yaml")
    texts = {name: untied(text) for name, text in texts.items() if name.endswith(files)}
    total = ("dst[k, 0] = total[k]", "dst[k, 0] = sqrt(total[k])")
    cases = [
        ("reduce_sum.yaml", [total], "split-way-removed", "error", "splits.reduced"),
        ("reduce_sum.yaml", [("+= src[k, r]", "max= src[k, r]")], "split-way-changed", "warning", "splits.reduced"),
        ("bias_add.yaml", [("+ bias[c]", "+ bias[c] * prod(X)")], "split-way-removed", "error", "splits.space"),
    ]
    texts = reviewing.edited(
        texts, "reduce_sum.yaml", ("- dst[k, 0] += src[k, r]", "- total[k] += src[k, r]\n    - dst[k, 0] = total[k]")
    )
    for file, edit, rule, severity, path in cases:
        other = reviewing.edited(texts, file, *edit)
        with reviewing.nothing_rendered():
            (found,) = [f for f in reviewing.reviewed(texts, other).findings if f.rule.area == "split"]
            (back,) = [f for f in reviewing.reviewed(other, texts).findings if f.rule.area == "split"]
        assert (found.rule.id, found.severity, found.path) == (rule, severity, path)
        assert found.moved.files == {"SHARDING.json", f"docs/{file.replace('yaml', 'md')}"}
        assert back.rule.id == {"split-way-removed": "split-way-added"}.get(rule, rule)
        assert back.severity == {"error": "notice"}.get(severity, severity)


def test_a_deprecated_operation_still_runs_and_only_pages_and_python_mention_it():
    deprecated = after(("revision: 1\n", "revision: 1\ndeprecated: use Convolution\n"))
    added = reviewing.reviewed(SPECS, deprecated)
    assert ids(added) == ["op-deprecation-added"]
    assert added.impact.unpredicted == []
    assert added.impact.observed.files == {"_conv_transpose.py", "docs/conv_transpose.md"}
    assert ids(reviewing.reviewed(deprecated, SPECS)) == ["op-deprecation-removed"]
    other = after(("revision: 1\n", "revision: 1\ndeprecated: use another one\n"))
    assert ids(reviewing.reviewed(deprecated, other)) == ["op-deprecation-changed"]


def test_a_c_declaration_that_changes_under_its_name_is_one_finding():
    edit = [("batch: N, in", "samples: {symbol: N, min: 0, typical: 4, summary: samples}, in")]
    assert "symbol-declaration-changed" not in ids(reviewing.reviewed(SPECS, after(*edit)))  # a comment of C
    swapped = reviewing.reviewed(SPECS, after(("{batch: N, in_channels: IC", "{in_channels: IC, batch: N")))
    (found,) = [f for f in swapped.findings if f.rule.area == "symbol"]
    assert (found.severity, found.ops, found.path) == ("warning", ("ConvTranspose",), "opwright_conv_transpose_sizes")
    assert found.was.startswith("typedef struct opwright_conv_transpose_sizes { int64_t N; int64_t IC; int64_t OC;")
    assert found.now.startswith("typedef struct opwright_conv_transpose_sizes { int64_t IC; int64_t N; int64_t OC;")


# The proof.


def test_a_rule_that_promises_less_than_its_edit_does_is_found_out(monkeypatch: pytest.MonkeyPatch):
    rule = rules.RULES["semantics-edge-changed"]
    monkeypatch.setitem(rules.RULES, rule.id, dataclasses.replace(rule, kernel="none"))
    found = reviewing.reviewed(SPECS, after(GUARD))
    assert "impact-unpredicted" in ids(found)
    assert "semantics-edge-changed declares the effect 'none'" in found.impact.unpredicted[0]


def test_a_difference_that_no_finding_tells_is_found_out(monkeypatch: pytest.MonkeyPatch):
    from opwright.review import compare

    whole = compare.edits
    monkeypatch.setattr(
        compare, "edits", lambda old, new: tuple(e for e in whole(old, new) if e.path != "semantics.init")
    )
    found = reviewing.reviewed(SPECS, after(GUARD, DOCS))
    assert "impact-unpredicted" in ids(found)
    assert any("do not account for the whole difference" in text for text in found.impact.unpredicted)


# Waivers.


def test_a_waiver_lets_its_finding_pass_and_no_other(meaning: Review):
    edge = next(f for f in meaning.findings if f.rule.id == "semantics-edge-changed")
    found = reviewing.reviewed(SPECS, after(GUARD), waivers=waiver(edge))
    assert [f.rule.id for f in found.failing("error")] == ["op-revision-kept"]


def test_a_waiver_that_is_unused_or_expired_fails(docs_only: Review):
    summary = docs_only.findings[0]
    assert "waiver-entry-unused" in [
        f.rule.id for f in reviewing.reviewed(SPECS, SPECS, waivers=waiver(summary)).failing("error")
    ]
    expired = reviewing.reviewed(SPECS, after(DOCS), waivers=waiver(summary, "2029-12-31"))
    assert [f.rule.id for f in expired.failing("error")] == ["waiver-entry-expired"]


def test_a_waiver_of_more_than_180_days_is_refused(docs_only: Review):
    with pytest.raises(SpecInvalid, match="within 180 days"):
        reviewing.reviewed(SPECS, after(DOCS), waivers=waiver(docs_only.findings[0], "2031-01-01"))


# The forms.


@pytest.mark.parametrize("form", sorted(FORMATS))
def test_every_form_names_every_rule_that_fired(form: str, meaning: Review):
    text = FORMATS[form](meaning, True)
    assert all(rule in text for rule in ids(meaning))


def test_the_json_form_is_as_its_published_schema_says(meaning: Review):
    published = json.loads((checkout.ROOT / "docs/diff.schema.json").read_text(encoding="utf-8"))
    assert published == schema()
    found = json.loads(FORMATS["json"](meaning, True))
    jsonschema.validate(found, published)
    assert found["predicted"] is True
    assert len(found["findings"]) == 2


def test_junit_counts_errors_as_failures_and_sarif_says_where(meaning: Review):
    suite = ElementTree.fromstring(FORMATS["junit"](meaning, False))
    assert (suite.get("tests"), suite.get("failures")) == ("2", "2")
    run = json.loads(FORMATS["sarif"](meaning, False))["runs"][0]
    assert {result["ruleId"] for result in run["results"]} == set(ids(meaning))
    places = [result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] for result in run["results"]]
    assert places == ["spec/onednn_graph/conv_transpose.yaml"] * 2


def test_kernels_that_change_alike_are_shown_once(meaning: Review):
    hunks = json.loads(FORMATS["json"](meaning, True))["code"]
    assert len(meaning.impact.observed.kernels) == 36
    assert len([line for line in hunks if line.startswith("@@")]) < 36


def test_spec_text_stays_inert_in_every_form():
    nasty = "summary: 'The <script>alert(1)</script> ::error::x | `y` %0A'\nsource"
    text = SPECS[f"{reviewing.FOLDER}/{OP}"]
    line = next(line for line in text.splitlines() if line.startswith("summary:"))
    found = reviewing.reviewed(SPECS, {**SPECS, f"{reviewing.FOLDER}/{OP}": text.replace(f"{line}\nsource", nasty)})
    assert ids(found) == ["docs-summary-changed"]
    assert "%250A" in FORMATS["github"](found, False)
    assert [line.count("::notice") for line in FORMATS["github"](found, False).splitlines()] == [1, 0]
    ElementTree.fromstring(FORMATS["junit"](found, False))
    json.loads(FORMATS["sarif"](found, False))


def test_what_two_operations_claim_of_one_another_comes_and_goes_in_both():
    texts = reviewing.specs()
    without = {
        name: re.sub(r"  - \{equals: (Convolution|ConvTransposeBackwardData),.*\n", "", text)
        for name, text in texts.items()
    }
    assert {edit.rule for edit in compare.edits(load_texts(texts), load_texts(without))} == {"relation-claim-removed"}
    assert {edit.rule for edit in compare.edits(load_texts(without), load_texts(texts))} == {"relation-claim-added"}


@pytest.mark.parametrize(
    ("edit", "rule"),
    [
        # An attribute more, in the middle; the rest keeps its names.
        (
            ("attributes:\n", 'attributes:\n  - {name: extra, type: s64, default: "0", summary: New.}\n'),
            "c-abi-changed",
        ),
        (("name: alpha", "name: beta"), "c-api-changed"),
        (('name: alpha, type: f32, default: "0.5"', 'name: alpha, type: s64, default: "1"'), "c-api-changed"),
        (("op: Scale\n", "op: Scale\nfunction: scaled\n"), "c-api-changed"),
        (("Every row", "Each row"), None),
    ],
)
def test_a_finding_says_whether_c_programs_must_change_or_be_recompiled(edit, rule):
    texts = {f"{reviewing.FOLDER}/scale.yaml": OTHERS["scale.yaml"]}
    before, after = edit
    changed = OTHERS["scale.yaml"].replace(before, after)
    if before == "name: alpha":
        changed = changed.replace("alpha", "beta")
    with reviewing.nothing_rendered():
        review = reviewing.reviewed(texts, {f"{reviewing.FOLDER}/scale.yaml": changed})
    assert [finding.rule.id for finding in review.findings if finding.rule.area == "c"] == [rule] * bool(rule)


def test_an_entry_for_a_model_moves_no_page_of_another_folder():
    files = ("_common.yaml", "_sources.yaml", "sqrt.yaml")
    texts = {name: untied(text) for name, text in all_texts().items() if name in files}
    before, after = ({f"{side}/{name}": text for name, text in texts.items()} for side in ("a", "b"))
    entry = "onnx:\n  - {node: Sqrt, arguments: {src: X}}\n"
    review = reviewing.reviewed(before, after | {"b/sqrt.yaml": texts["sqrt.yaml"] + entry})
    found = {finding.rule.id for finding in review.findings if finding.rule.area != "lint"}
    assert found == {"onnx-node-added"}
