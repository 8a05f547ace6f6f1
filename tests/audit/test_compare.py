"""What a page is found to say against the spec: exact sets, and one edit of a page for every field."""

from __future__ import annotations

import pytest
from audit.pages_of import audited, fields_with, library, text_of
from opwright.audit.compare import FIELDS, STATUSES

TRANSPOSED = [
    "strides",
    "pads_begin",
    "pads_end",
    "dilations",
    "auto_pad",
    "output_padding",
    "groups",
    "data_format",
    "weights_format",
]
R1 = "inputs.weights.arrangements.library R1"
R2 = {"attributes.weights_format.values R2", "attributes.weights_format.default R2"}
HEADERS = {"attributes", "inputs", "outputs", "dtypes"}
DIVISIONS = {"constraints.groups-divide-in-channels", "constraints.groups-divide-out-channels"}
NAMELESS = {f"attributes.{name}" for name in TRANSPOSED}

# Page, what is ruled, what is lost; nothing else disagrees.
EXPECTED = [
    ("simple_tables.rst", set(), set()),
    ("upstream.md", set(), set()),
    ("upstream_formats.md", {R1, *R2}, set()),
    ("upstream_flat.md", {"attributes.weights_shape.min R14"}, set()),
    ("grid_tables.rst", {"attributes.weights_shape.min R14"}, set()),
    (
        "grid_tables_flat.rst",
        {"outputs.diff_weights.arrangements.library R1", "attributes.weights_shape.min R14"},
        set(),
    ),
    ("page.html", {"attributes.dst_shape.min R14"}, set()),
    ("simple_tables_cut.rst", {R1, "dtypes.f16 R13"}, HEADERS),
    ("simple_tables_flat.rst", {R1}, HEADERS),
    (
        "scraped.txt",
        R2,
        NAMELESS | DIVISIONS | {"inputs.weights.arrangements.library", "inputs.weights.arrangements.page", "text"},
    ),
    (
        "scraped_flat.txt",
        {"attributes.dst_shape.min R14"},
        NAMELESS | DIVISIONS | {"attributes.dst_shape", "inputs.weights.arrangements.library"},
    ),
]


@pytest.mark.parametrize(("name", "ruled", "lost"), EXPECTED, ids=[case[0] for case in EXPECTED])
def test_a_page_disagrees_in_these_fields_and_no_others(name: str, ruled: set[str], lost: set[str]) -> None:
    findings = audited(text_of(name))
    assert fields_with(findings, "contradiction", "silent") == set()
    assert fields_with(findings, "ruled") == ruled
    assert fields_with(findings, "lost") == lost
    assert len(fields_with(findings, "agree")) > 40


# Page, what is replaced in it, status and field of what the audit then finds.
EDITS = [
    ("upstream.md", "[strides](@ref dnnl::graph::op::attr::strides)", "[stride](@ref x)", "contradiction", "attributes.stride"),
    ("upstream.md", "[strides](@ref dnnl::graph::op::attr::strides)", "[stride](@ref x)", "contradiction", "attributes.strides"),
    ("upstream.md", "[groups](@ref dnnl::graph::op::attr::groups)", "", "lost", "attributes.groups"),
    ("upstream.md", "A positive s64 value", "A positive s64 list", "contradiction", "attributes.groups.type"),
    ("upstream.md", "| s64        | A positive", "| f32        | A positive", "contradiction", "attributes.groups.type"),
    ("upstream.md", "| s64        | A positive", "|            | A positive", "lost", "attributes.groups.type"),
    ("upstream.md", "A positive s64 value", "A non-negative s64 value", "contradiction", "attributes.groups.min"),
    ("upstream.md", "A positive s64 value", "A s64 value", "silent", "attributes.groups.min"),
    ("upstream.md", "`1` by default", "`2` by default", "contradiction", "attributes.groups.default"),
    ("upstream.md", ", `1` by default", "", "silent", "attributes.groups.default"),
    ("upstream.md", "`NXC` (default)", "`NXC`", "silent", "attributes.data_format.default"),
    ("upstream.md", "`same_lower`, ", "", "contradiction", "attributes.auto_pad.values"),
    ("upstream.md", "`same_lower`, ", "`same_lower`, `causal`, ", "contradiction", "attributes.auto_pad.values"),
    ("upstream.md", "`same_lower`, ", "`SAME_LOWER`, ", "agree", "attributes.auto_pad.values"),
    ("upstream.md", "`OIX`, `XIO` (default)", "`OIX` (default), `XIO`", "contradiction", "attributes.weights_format.default"),
    ("upstream_formats.md", "`OIX`, `XIO` (default)", "`HWIO`, `XIO`", "contradiction", "attributes.weights_format.values"),
    ("upstream.md", "| 2     | `bias`        | Optional", "| 2     | `bias`        | Required", "contradiction", "inputs.bias.optional"),
    ("upstream.md", "| 2     | `bias`  ", "| 3     | `bias`  ", "contradiction", "inputs.bias.index"),
    ("upstream.md", "| 2     | `bias`        | Optional             |\n", "", "silent", "inputs.bias"),
    ("upstream.md", "| 1     | `weights`     | Required             |\n", "", "contradiction", "inputs.weights"),
    ("upstream.md", "| 2     | `bias` ", "| 2     | `basi` ", "contradiction", "inputs.basi"),
    ("upstream.md", "| 2     | `bias` ", "| 2     |        ", "lost", "inputs.bias"),
    ("upstream.md", "| 0     | `dst`", "| 0     | `out`", "contradiction", "outputs.out"),
    ("upstream.md", "| bf16 | bf16    | bf16 |", "| bf16 | f32     | bf16 |", "contradiction", "dtypes.bf16.weights"),
    ("upstream.md", "| bf16 | bf16    | bf16 | bf16 |\n", "", "silent", "dtypes.bf16"),
    ("upstream.md", "| f16  | f16     | f16  | f16  |", "| f64  | f64     | f64  | f64  |", "contradiction", "dtypes"),
    ("upstream.md", "| Src  | Weights |", "| Src  | Kernel  |", "contradiction", "dtypes"),
    ("upstream.md", "(out\\_channels, in\\_channels / groups,", "(out\\_channels, in\\_channels,", "contradiction", "inputs.weights.arrangements.library"),
    ("upstream.md", "(out\\_channels, in\\_channels / groups,", "(in\\_channels / groups, out\\_channels,", "contradiction", "inputs.weights.arrangements.library"),
    ("upstream.md", "for `OIX` format", "for `IOX` format", "contradiction", "attributes.weights_format.values"),
    ("upstream_formats.md", "(in\\_channels / groups, out\\_channels,", "(in\\_channels, out\\_channels,", "contradiction", "inputs.weights.arrangements.page"),
    ("upstream_formats.md", "(in\\_channels / groups, out\\_channels, spatial\\_shape)", "(in\\_channels, out\\_channels / groups, spatial\\_shape)", "contradiction", "inputs.weights.arrangements.page"),
    ("upstream.md", "must be divisible by groups", "must be divisible by strides", "contradiction", "constraints.in_channels"),
    ("simple_tables_flat.rst", "all zeros by default", "all ones by default", "contradiction", "attributes.output_padding.default"),
    ("simple_tables_flat.rst", "A positive s64 value", "A positive s64 list", "contradiction", "attributes.groups.type"),
    ("grid_tables_flat.rst", "0 ``src`` Required", "1 ``src`` Required", "contradiction", "inputs.src.index"),
    ("scraped.txt", "NCX, NXC (default)", "NCX, NHWC (default)", "contradiction", "attributes.data_format.values"),
    ("scraped.txt", "OIX, XIO (default)", "IOX, XOI (default)", "agree", "attributes.weights_format.values"),
    ("page.html", "<td><p>string</p></td>", "<td><p></p></td>", "lost", "attributes.auto_pad.type"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "old", "new", "status", "field"), EDITS, ids=[f"{n}-{e[-1]}" for n, e in enumerate(EDITS)]
)
def test_an_edit_of_a_page_is_found_in_its_field(name: str, old: str, new: str, status: str, field: str) -> None:
    text = text_of(name)
    assert old in text
    assert field in fields_with(audited(text.replace(old, new)), status)


def test_the_libraries_arrangement_on_a_page_leaves_nothing_to_rule() -> None:
    text = text_of("upstream_formats.md").replace("OIX", "IOX").replace("XIO", "XOI")
    text = text.replace("in\\_channels / groups, out\\_channels", "in\\_channels, out\\_channels / groups")
    text = text.replace("out\\_channels, in\\_channels / groups", "out\\_channels / groups, in\\_channels")
    findings = audited(text)
    assert "inputs.weights.arrangements.library" in fields_with(findings, "agree")
    assert fields_with(findings, "ruled") == set()


@pytest.mark.parametrize("lost", range(9))
def test_a_nameless_row_that_is_missing_does_not_shift_the_others(lost: int) -> None:
    head, *rows = text_of("scraped.txt").partition("Execution arguments")[0].split("\n       |\n")
    start, first = head.rsplit("|---|\n", 1)
    remaining = [row for n, row in enumerate([first, *rows]) if n != lost]
    rest = text_of("scraped.txt").partition("Execution arguments")[2]
    text = (
        start + "|---|\n" + "\n       |\n".join(remaining) + ("" if lost < 8 else "\n") + "Execution arguments" + rest
    )
    findings = audited(text)
    missing = f"attributes.{TRANSPOSED[lost]}"
    assert missing in fields_with(findings, "contradiction", "silent")
    assert fields_with(findings, "contradiction") <= {missing}


def test_a_ruling_covers_only_the_words_that_its_discrepancy_refuses() -> None:
    ruled = audited(text_of("upstream_formats.md"))
    other = audited(text_of("upstream_formats.md").replace("`OIX`, `XIO` (default)", "`OIX`, `HWIO` (default)"))
    assert fields_with(ruled, "ruled") >= R2
    assert {"attributes.weights_format.values", "attributes.weights_format.default"} <= fields_with(
        other, "contradiction"
    )


def test_every_concern_of_the_specs_is_a_field_of_the_audit() -> None:
    for op in library().ops:
        fields = {f"attributes.{a.name}.{fact}" for a in op.attributes for fact in FIELDS}
        for side, tensors in (("inputs", op.inputs), ("outputs", op.outputs)):
            fields |= {f"{side}.{t.name}.arrangements.{name}" for t in tensors for name in t.arrangements}
        shared = {"attributes.dst_shape.min", "attributes.weights_shape.min", "dtypes.*"}
        for discrepancy in op.discrepancies:
            assert set(discrepancy.concerns) <= fields | shared, (op.op, discrepancy.id)


def test_every_status_is_one_of_the_five() -> None:
    found = {finding.status for case in EXPECTED for finding in audited(text_of(case[0]))}
    assert found <= set(STATUSES)
