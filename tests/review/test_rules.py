"""The table of rules: every row is well-formed, has its mirror or says why not, fires on an edit and is silent on others."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from pathlib import Path

import pytest
from opwright.language.model import Op
from opwright.language.structs import keys_of
from opwright.review.fields import FIELDS, INNER, MANY
from opwright.review.report import explained
from opwright.review.rules import CONTRACTS, KERNELS, RECORDS, RULES, SEVERITIES, SEVERITY, WITHOUT_RULE
from support import checkout, mutants, reviewing, specs

HERE = Path(__file__).parent
# Where an edit of fixtures.txt is made: the file, and the operation that stands alone while it is (all where none does).
PLACES = {
    "op": ("conv_transpose.yaml", "conv_transpose.yaml"),
    "common": ("_common.yaml", "conv_transpose.yaml"),
    "sources": ("_sources.yaml", "conv_transpose.yaml"),
    "weights": ("convolution_backward_weights.yaml", "convolution_backward_weights.yaml"),
    "weights-common": ("_common.yaml", "convolution_backward_weights.yaml"),
    "data": ("convolution_backward_data.yaml", "convolution_backward_data.yaml"),
    "product": ("matrix_product.yaml", "matrix_product.yaml"),
    "triangle": ("triangular_product.yaml", "triangular_product.yaml"),
    "pool": ("max_pool.yaml", "max_pool.yaml"),
    "steps": ("statistics.yaml", "statistics.yaml"),
    "related": ("conv_transpose.yaml", ""),
    "gelu": ("gelu.yaml", ""),
}
PROSE = re.compile(r"\s*(- )?(id|page|library|ruling|why|summary|reason|say|revision): ")
TOOLS = "test_changed_templates_and_a_changed_generator_are_reported_between_commits"
LOCK = "test_every_change_of_the_lock_is_a_finding_of_its_own"
WAIVERS = "test_every_change_of_waivers_and_severities_is_a_finding_of_its_own"
CLAIMED = "test_what_two_operations_claim_of_one_another_comes_and_goes_in_both"
C_CALLS = "test_a_finding_says_whether_c_programs_must_change_or_be_recompiled"
SPLITS = "test_a_way_to_split_that_an_edit_takes_gives_or_changes_is_a_finding_of_its_own"
# Rules that no edit of one file can fire, why, and the test that holds each.
ELSEWHERE = {
    "op-removed": ("a file goes", "test_operations_that_come_and_go_take_their_kernels_with_them"),
    "op-added": ("a file comes", "test_operations_that_come_and_go_take_their_kernels_with_them"),
    "op-file-moved": ("a file gets another name", "test_a_file_under_another_name_is_a_matter_of_the_record"),
    "op-revision-unlocked": ("about the lock", "test_a_new_revision_is_asked_to_be_locked_where_there_is_a_lock"),
    "symbol-declaration-changed": (
        "what follows from an edit in C",
        "test_a_c_declaration_that_changes_under_its_name_is_one_finding",
    ),
    **{f"lock-entry-{change}": ("about the lock", LOCK) for change in ("added", "removed", "changed")},
    **{f"lock-hash-{change}": ("about the lock", LOCK) for change in ("raised", "lowered")},
    **{f"waiver-entry-{change}": ("about waivers", WAIVERS) for change in ("added", "removed", "changed")},
    "waiver-severity-changed": ("about severities", WAIVERS),
    "template-files-changed": ("about the templates, not a spec", TOOLS),
    "generator-code-changed": ("about the generator, not a spec", TOOLS),
    **{f"relation-claim-{change}": ("two operations claim it", CLAIMED) for change in ("added", "removed")},
    "source-page-renamed": (
        "several files change together",
        "test_a_document_under_another_short_name_is_one_finding_with_all_that_cites_it",
    ),
    **{f"c-{kind}-changed": ("what follows from edits of names and members", C_CALLS) for kind in ("api", "abi")},
    **{
        f"split-way-{change}": ("what follows from edits of semantics", SPLITS)
        for change in ("added", "removed", "changed")
    },
    "lint-shared-unused": ("about one side", "test_a_shared_entry_that_no_operation_uses_is_noted"),
    "lint-entry-repeated": ("about one side", "test_what_two_operations_write_out_alike_is_noted_at_the_second"),
    "lint-page-uncited": ("about one side", "test_a_document_that_nothing_cites_is_noted"),
    "lint-relation-unanswered": ("about one side", "test_an_adjoint_that_only_one_side_knows_is_noted_there"),
    "lint-relation-uneven": (
        "about one side",
        "test_types_and_ranks_that_only_one_of_two_tied_operations_takes_are_noted",
    ),
    "waiver-entry-unused": ("about a waiver, not a spec", "test_a_waiver_that_is_unused_or_expired_fails"),
    "waiver-entry-expired": ("about a waiver, not a spec", "test_a_waiver_that_is_unused_or_expired_fails"),
    "impact-unpredicted": (
        "a mistake of the generator",
        "test_a_rule_that_promises_less_than_its_edit_does_is_found_out",
    ),
}
HOLDING = ("test_findings.py", "test_lint.py", "test_records.py", "test_sides.py")
# The words of a rule's change, and the words of the opposite change.
PAIRS = "added removed, widened narrowed, raised lowered, required optional, tightened loosened, opened closed"
OPPOSITE = {one: other for pair in PAIRS.split(", ") for one, other in (pair.split(), pair.split()[::-1])}
ITS_OWN_OPPOSITE = ("changed", "renamed", "rewritten", "reordered", "moved")
# An entry that comes is required or optional; when it goes, it does not matter which it was.
UNLIKE = {
    "attribute-optional-added": "attribute-parameter-removed",
    "attribute-parameter-removed": "attribute-optional-added",
    "input-optional-added": "input-tensor-removed",
    "input-tensor-removed": "input-optional-added",
}
BREAKS_IN_BOTH_DIRECTIONS = {"input-axes": "a call has one number of axes, the old or the new"}


@dataclass(frozen=True)
class Row:
    """One edit of fixtures.txt and the rules that it must fire, no more and no less."""

    rule: str
    fires: tuple[str, ...]
    where: str
    old: str
    new: str

    @property
    def backwards(self) -> bool:
        return self.where.endswith("<")

    @property
    def silent(self) -> bool:
        return self.rule not in self.fires

    def __str__(self) -> str:
        return f"{self.rule}{' is silent' if self.silent else ''}"


def rows() -> list[Row]:
    lines = (HERE / "fixtures.txt").read_text(encoding="utf-8").splitlines()
    found = []
    for line in lines:
        if line.strip() and not line.startswith("#"):
            rule, fires, where, *edit = (cell.removeprefix(" ").replace("\\n", "\n") for cell in line.split(" |", 4))
            found.append(Row(rule, tuple(sorted(fires.replace("=", rule).split())), where, *edit))
    return found


def base(where: str) -> dict[str, str]:
    """The operation that an edit is made in, with what it takes from the shared files and without its relations."""
    alone = PLACES[where][1]
    own = checkout.ROOT / "tests/data" / ("steps" if where == "steps" else "") / alone
    if alone and own.exists():
        return {f"{reviewing.FOLDER}/{alone}": own.read_text(encoding="utf-8")}
    texts = reviewing.specs()
    if not alone:
        every = {f"{reviewing.FOLDER}/{name}": text for name, text in specs.all_texts().items()}
        return texts if f"{reviewing.FOLDER}/{PLACES[where][0]}" in texts else every
    files = {
        name: text for name, text in texts.items() if name.endswith((f"/{alone}", "/_common.yaml", "/_sources.yaml"))
    }
    return {name: specs.untied(text) for name, text in files.items()}


def sides(row: Row) -> tuple[dict[str, str], dict[str, str]]:
    """The texts on both sides of an edit."""
    where = row.where.rstrip("<")
    places = ("op", "common") if where == "both" else (where,)
    new, *given = re.split(r" ?#BASE ", row.new)
    new, *more = re.split(r" ?#ALL ", new)
    steps = [step.partition(" => ") for step in more]
    texts = base(places[0])
    for step in given:
        name, (there, _, instead) = f"{reviewing.FOLDER}/{PLACES[places[0]][0]}", step.partition(" => ")
        assert there in texts[name], f"{there!r} does not stand there"
        texts[name] = texts[name].replace(there, instead)
    before, seen = dict(texts), False
    for place in places:
        name = f"{reviewing.FOLDER}/{PLACES[place][0]}"
        seen |= row.old in texts[name]
        text = texts[name].replace(row.old, new, -1 if where == "both" else 1)
        for pattern, _, instead in steps:
            lines = text.splitlines(keepends=True)
            text = "".join(line if PROSE.match(line) else re.sub(pattern, instead, line) for line in lines)
        texts[name] = text
    assert seen, f"{row.old!r} does not stand there"
    return (texts, before) if row.backwards else (before, texts)


def found(row: Row, *, back: bool = False) -> list[str]:
    """The rules of the edits, in order; a meaning that changed under its revision is reported where a row asks."""
    before, after = sides(row)[:: -1 if back else 1]
    rules = [rule for rule in reviewing.unproven(before, after) if RULES[rule].area not in ("lint", "split", "c")]
    return [rule for rule in rules if rule != "op-revision-kept" or rule in row.fires]


@pytest.mark.parametrize("row", rows(), ids=str)
def test_an_edit_gives_one_finding_of_its_rule_and_the_opposite_edit_one_of_its_mirror(row: Row):
    assert tuple(found(row)) == row.fires
    if row.fires == (row.rule,) and not RULES[row.rule].mirror.startswith("! "):
        assert found(row, back=True) == [RULES[row.rule].mirror]


def test_every_rule_has_an_edit_that_fires_it_and_one_near_by_that_does_not():
    fired = {row.rule for row in rows() if not row.silent}
    silent = {row.rule for row in rows() if row.silent}
    assert fired == silent == RULES.keys() - ELSEWHERE.keys()
    assert {rule for row in rows() for rule in row.fires} <= RULES.keys()


def test_a_rule_that_no_edit_can_fire_has_a_test_of_its_name():
    trees = [ast.parse((HERE / name).read_text(encoding="utf-8")) for name in HOLDING]
    tests = {node.name: ast.unparse(node) for tree in trees for node in tree.body if isinstance(node, ast.FunctionDef)}
    for rule, (why, test) in ELSEWHERE.items():
        assert len(why) > 8
        assert f"'{rule}'" in tests[test]


def test_no_rule_fires_where_nothing_changed():
    texts = reviewing.specs()
    spaced = {name: "# a comment\n\n" + text.replace("\n\n", "\n\n\n") for name, text in texts.items()}
    again = {name: mutants.written(mutants.plain(text)) for name, text in texts.items()}
    assert set(reviewing.unproven(texts, spaced)) == {"format-text-changed"}
    assert set(reviewing.unproven(texts, again)) == {"format-text-changed"}
    assert reviewing.unproven(texts, texts) == []


def test_every_rule_has_the_mirror_that_its_word_asks_for_or_a_reason_why_not():
    for rule in RULES.values():
        if rule.mirror.startswith("! "):
            assert len(rule.mirror) > 15, rule.id
            continue
        mirror = RULES[rule.mirror]
        assert mirror.mirror == rule.id
        assert mirror.direction == rule.direction
        if rule.action in OPPOSITE:
            opposite = rule.id.removesuffix(rule.action) + OPPOSITE[rule.action]
            assert mirror.id == UNLIKE.get(rule.id, opposite)
        else:
            assert rule.action in ITS_OWN_OPPOSITE, rule.id
            assert mirror is rule


def test_what_is_safe_one_way_is_not_safe_the_other_way():
    """Accepting more is compatible and accepting less is breaking; whatever is returned otherwise is never compatible."""
    for rule in RULES.values():
        if rule.id.removesuffix(f"-{rule.action}") in BREAKS_IN_BOTH_DIRECTIONS:
            continue
        if rule.direction == "in" and rule.action in OPPOSITE and not rule.mirror.startswith("! "):
            assert {rule.contract, RULES[rule.mirror].contract} == {"breaking", "compatible"}, rule.id
        if rule.direction == "out":
            assert rule.contract in ("breaking", "dangerous") or rule.kernel == "numerics", rule.id


def test_every_rule_is_made_of_known_words():
    for rule in RULES.values():
        assert re.fullmatch(r"[a-z]+(-[a-z]+){1,3}", rule.id)
        assert rule.contract in CONTRACTS
        assert rule.kernel in KERNELS
        assert rule.record in RECORDS
        assert rule.severity() in SEVERITIES
        assert rule.reason.endswith(".")
        assert rule.id in explained(rule)
    assert all(len(reason) > 10 for reason in WITHOUT_RULE.values())


def test_severity_is_read_off_the_axes_and_can_be_remapped():
    assert RULES["attribute-default-changed"].severity() == "error"
    assert RULES["class-kernels-removed"].severity() == "error"
    assert RULES["semantics-order-changed"].severity() == "warning"
    assert RULES["layout-word-added"].severity() == "notice"
    assert RULES["docs-summary-changed"].severity() == "info"
    assert RULES["docs-summary-changed"].severity({"docs": "warning"}) == "warning"
    assert RULES["layout-word-added"].severity({"layout-word-added": "error"}) == "error"
    assert set(SEVERITY.values()) == set(SEVERITIES)


def test_every_field_of_an_operation_stands_in_exactly_one_table():
    def classes(cls: type, seen: set[type]) -> set[type]:
        seen.add(cls)
        for metadata in keys_of(cls).values():
            kind = metadata["kind"]
            while hasattr(kind, "item"):
                kind = kind.item
            inner = getattr(kind, "cls", None)
            if inner is not None and inner not in seen:
                classes(inner, seen)
        return seen

    found = classes(Op, set())
    fields = {f"{cls.__name__}.{key}" for cls in found for key in keys_of(cls) if cls.__name__ != "NormalForm"}
    assert fields == {*FIELDS, *MANY, *INNER}
    assert len(fields) == len(FIELDS) + len(MANY) + len(INNER)


def test_an_optional_input_put_before_another_one_changes_what_positional_calls_pass():
    before = base("op")
    line = "  - {name: bias, optional: true"
    extra = "  - {name: extra, optional: true, dims: {C: OC}, summary: More.}\n"
    first = reviewing.edited(before, "conv_transpose.yaml", (line, extra + line))
    last = reviewing.edited(before, "conv_transpose.yaml", ("\noutputs:", f"{extra}\noutputs:"))
    cells = re.compile(r" bias: (\w+), dst")
    for texts, rule in ((first, "input-order-changed"), (last, "input-optional-added")):
        after = {name: cells.sub(r" bias: \1, extra: \1, dst", text) for name, text in texts.items()}
        rules = [found for found in reviewing.unproven(before, after) if RULES[found].area not in ("lint", "c")]
        assert rules == sorted([rule, "op-revision-kept"])
