"""The five published pages, where they are at hand: what the audit finds by itself, and nothing else."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from audit.pages_of import ROOT, audited, fields_with, library
from opwright.audit import forms
from opwright.audit.compare import audit, counts
from opwright.commands.audit import operation

PAGES = next((folder / "shared" / "pages" for folder in ROOT.parents if (folder / "shared" / "pages").is_dir()), None)
R1 = "inputs.weights.arrangements.library R1"
R2 = {"attributes.weights_format.values R2", "attributes.weights_format.default R2"}
# What is ruled on each page, by the number that its name starts with.
RULED = {
    "000": R2,
    "001": {R1, "dtypes.f16 R13"},
    "002": {"attributes.dst_shape.min R14"},
    "003": {"outputs.diff_weights.arrangements.library R1", "attributes.weights_shape.min R14"},
    "004": {R1},
}
HEADERS = {"attributes", "inputs", "outputs", "dtypes"}


def text_of(number: str) -> str:
    if PAGES is None:
        pytest.skip("the published pages (shared/pages beside the project) are missing")
    (path,) = Path(PAGES).glob(f"{number}_*.txt")
    return path.read_text(encoding="utf-8")


@pytest.mark.parametrize("number", RULED)
def test_a_published_page_contradicts_its_spec_only_where_the_ledger_rules(number: str) -> None:
    findings = audited(text_of(number))
    assert fields_with(findings, "contradiction", "silent") == set()
    assert fields_with(findings, "ruled") == RULED[number]


@pytest.mark.parametrize(("number", "lost"), [("001", HEADERS), ("003", set()), ("004", HEADERS)])
def test_a_page_of_whole_text_lost_its_cut_headers_and_nothing_else(number: str, lost: set[str]) -> None:
    assert fields_with(audited(text_of(number)), "lost") == lost


@pytest.mark.parametrize(("number", "attributes"), [("000", 9), ("002", 10)])
def test_a_scraped_page_lost_every_name_and_every_formula(number: str, attributes: int) -> None:
    lost = fields_with(audited(text_of(number)), "lost")
    assert sum(field.startswith("attributes.") for field in lost) == attributes
    assert {"inputs.weights.arrangements.library", "constraints.groups-divide-in-channels", "text"} <= lost
    assert not HEADERS & lost


def _facts(number: str) -> dict[str, Any]:
    """What the site says of a page: values and rulings, none of its sentences."""
    page = forms.read(text_of(number), "page")
    op = operation(page, library())
    findings = audit(op, page)
    differ = [f for f in findings if f.status in ("ruled", "contradiction", "silent")]
    return {
        "op": op.op,
        "form": page.form,
        "counts": counts(findings),
        "findings": [[f.field, f.page, f.spec, (f.ruling.ruling or "") if f.ruling else ""] for f in differ],
        "lost": list(dict.fromkeys(f.field for f in findings if f.status == "lost")),
    }


def test_the_site_shows_what_the_audit_finds_on_the_published_pages() -> None:
    shown = ROOT / "docs" / "site" / "audit.json"
    found = json.dumps([_facts(number) for number in RULED], indent=1) + "\n"
    if os.environ.get("OPWRIGHT_UPDATE_GOLDEN") == "1":
        shown.write_text(found, encoding="utf-8")
    assert shown.read_text(encoding="utf-8") == found, "OPWRIGHT_UPDATE_GOLDEN=1 takes it over"
