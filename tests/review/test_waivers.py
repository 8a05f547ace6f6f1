"""What a project lets pass and how grave it finds things: every mistake in these files is refused by its name."""

from __future__ import annotations

import datetime
from pathlib import Path

import pytest
from opwright import cli
from opwright.language.source import SpecInvalid
from opwright.review.rules import RULES, SEVERITIES, SEVERITY
from opwright.review.waivers import expired, read_lock, read_waivers
from support import reviewing

TODAY = reviewing.TODAY
GOOD = {
    "rule": "docs-summary-changed", "fingerprint": "0123456789abcdef", "reason": "agreed", "expires": "2030-02-01",
}  # fmt: skip


def waiver(**other: str | None) -> str:
    """The text of one waiver, with other values, or without those that are None."""
    fields = {name: value for name, value in {**GOOD, **other}.items() if value is not None}
    return "  - {" + ", ".join(f"{name}: '{value}'" for name, value in fields.items()) + "}\n"


def refused(text: str) -> list[tuple[str, int, str]]:
    """The rule, line and sentence of every mistake in a waivers.yaml."""
    with pytest.raises(SpecInvalid) as caught:
        read_waivers(text, "spec/waivers.yaml", TODAY)
    assert {problem.mark.file for problem in caught.value.problems} == {"spec/waivers.yaml"}
    return [(problem.rule, problem.mark.line, problem.message) for problem in caught.value.problems]


@pytest.mark.parametrize(
    ("other", "rule", "says"),
    [
        ({"rule": "docs-sumary-changed"}, "value", "did you mean 'docs-summary-changed'"),
        ({"rule": None}, "missing-key", "'rule' is missing"),
        ({"fingerprint": "0123"}, "name", "a hash of hexadecimal digits"),
        ({"fingerprint": "0123456789ABCDEF"}, "name", "a hash of hexadecimal digits"),
        ({"fingerprint": None}, "missing-key", "'fingerprint' is missing"),
        ({"reason": None}, "missing-key", "'reason' is missing"),
        ({"expires": "next year"}, "name", "a date, as 2030-01-31"),
        ({"expires": "2030-02-30"}, "waiver-date", "'2030-02-30' is not a date"),
        ({"expires": "2030-07-01"}, "waiver-date", "within 180 days"),
        ({"expires": None}, "missing-key", "'expires' is missing"),
        ({"until": "2030-02-01"}, "unknown-key", "unknown key 'until'"),
    ],
)
def test_a_waiver_with_a_mistake_is_refused(other: dict[str, str | None], rule: str, says: str):
    [(found, line, message)] = refused("waivers:\n" + waiver(**other))
    assert (found, line) == (rule, 2)
    assert says in message


def test_a_waiver_may_stand_once():
    twice = "waivers:\n" + waiver() + waiver(reason="agreed again")
    assert [(rule, line) for rule, line, _ in refused(twice)] == [("waiver-twice", 3)]
    assert len(read_waivers("waivers:\n" + waiver() + waiver(fingerprint="f" * 16), "w", TODAY).waivers) == 2


def test_a_waiver_holds_through_its_last_day_and_for_180_days_at_most():
    last = TODAY + datetime.timedelta(days=180)
    [read] = read_waivers("waivers:\n" + waiver(expires=last.isoformat()), "w", TODAY).waivers
    assert not expired(read, last)
    assert expired(read, last + datetime.timedelta(days=1))


@pytest.mark.parametrize(
    ("text", "rule", "says"),
    [
        ("severity: {breakng: error}\n", "severity-axis", "did you mean 'breaking'"),
        ("severity: {docs-summary: error}\n", "severity-axis", "neither a value of an axis nor a rule"),
        ("severity: {none: error}\n", "severity-axis", "neither a value of an axis nor a rule"),
        ("severity: {Breaking: error}\n", "name", "a value of an axis, or the id of a rule"),
        ("severity: {breaking: fatal}\n", "value", "none of error, warning, notice, info"),
        ("severity: error\n", "kind", "expected a mapping"),
        ("severities: {}\n", "unknown-key", "did you mean 'severity'"),
        ("waivers: {}\n", "kind", "expected a list"),
        ("waivers: [\n", "yaml", "not YAML"),
    ],
)
def test_a_severity_of_nothing_and_a_file_that_is_none_are_refused(text: str, rule: str, says: str):
    [(found, _, message)] = refused(text)
    assert found == rule
    assert says in message


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("revisions: {Convolution: 00000000000000aa}\n", "name"),
        ("revisions: {Convolution@1: none}\n", "name"),
        ("revision: {}\n", "unknown-key"),
        ("revisions: []\n", "kind"),
    ],
)
def test_a_lock_with_a_mistake_is_refused(text: str, rule: str):
    with pytest.raises(SpecInvalid) as caught:
        read_lock(text, "spec/LOCK.yaml")
    assert [problem.rule for problem in caught.value.problems] == [rule]


@pytest.mark.parametrize("axis", SEVERITY)
@pytest.mark.parametrize("severity", SEVERITIES)
def test_every_value_of_an_axis_can_be_remapped_and_the_gravest_axis_holds(axis: str, severity: str):
    remapped = read_waivers(f"severity: {{{axis}: {severity}}}\n", "w", TODAY).severity
    concerned = 0
    for rule in RULES.values():
        moved = rule.kernel == "variants" and rule.action in ("removed", "changed")
        axes = {rule.contract, f"variants-{rule.action}" if moved else rule.kernel, rule.record} & SEVERITY.keys()
        gravest = min([{**SEVERITY, axis: severity}[found] for found in axes], key=SEVERITIES.index, default="info")
        assert rule.severity(remapped) == gravest
        concerned += axis in axes
    assert concerned


def test_a_rule_of_its_own_severity_is_no_longer_read_off_its_axes():
    remapped = read_waivers("severity: {docs: error, docs-summary-changed: notice}\n", "w", TODAY).severity
    assert RULES["docs-summary-changed"].severity(remapped) == "notice"
    assert RULES["docs-reason-changed"].severity(remapped) == "error"


def test_the_command_names_the_mistake_and_exits_with_3(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    for name, text in {**reviewing.specs(), "spec/waivers.yaml": "severity: {breakng: error}\n"}.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    assert cli.main(["diff", str(tmp_path / "spec"), str(tmp_path / "spec")]) == 3
    assert "spec/waivers.yaml:1:12: severity-axis: 'breakng'" in capsys.readouterr().err
