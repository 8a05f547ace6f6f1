"""The command: exit codes, formats, and how it finds the operation of a page."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from audit.pages_of import PAGES, ROOT, library, text_of
from opwright.cli import main
from opwright.commands import audit as command
from opwright.load import load

SPEC = ["--spec", str(ROOT / "spec")]
FOLDER = ROOT / "spec" / "onednn_graph"
CLEAN, LOSSY, RULED = (str(PAGES / name) for name in ("upstream.md", "scraped.txt", "upstream_formats.md"))


@pytest.fixture(autouse=True)
def _specs_are_loaded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "load", lambda spec, root: library() if spec == FOLDER else load(spec, root))


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ([CLEAN], 0),
        ([RULED], 0),
        ([RULED, "--fail-on", "silent"], 0),
        ([LOSSY], 0),
        ([LOSSY, "--fail-on", "lost"], 1),
        ([CLEAN, LOSSY, "--fail-on", "silent"], 1),
        ([CLEAN, "--op", "ConvTranspose"], 0),
        ([CLEAN, "--op", "convolution_backward_data"], 1),
        ([CLEAN, "--op", "Convolutoin"], 2),
        ([str(PAGES)], 2),
        ([CLEAN, str(PAGES / "no such page")], 2),
    ],
)
def test_the_exit_code_says_what_was_found(arguments: list[str], code: int, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["audit", *arguments, *SPEC]) == code
    assert (capsys.readouterr().err != "") == (code == 2)


def test_an_invalid_spec_exits_with_3(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("op: 3\n", encoding="utf-8")
    assert main(["audit", CLEAN, "--spec", str(tmp_path)]) == 3


def test_an_unknown_title_gets_a_suggestion(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "page.md"
    page.write_text(text_of("upstream.md").replace("Convolution", "Convolutoin"), encoding="utf-8")
    assert main(["audit", str(page), *SPEC]) == 2
    assert "there is no spec of 'Convolutoin' (did you mean 'Convolution'?)" in capsys.readouterr().err


def test_the_last_line_of_a_page_sums_it_up(capsys: pytest.CaptureFixture[str]) -> None:
    main(["audit", RULED, *SPEC])
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1].endswith(": ConvTranspose (Markdown): 57 agree, 3 ruled (R2, R1), 0 contradict, 0 silent, 0 lost")
    assert [line.split()[0] for line in lines if line[:1].strip()] == ["ruled", "ruled", "ruled", lines[-1].split()[0]]


def test_json_holds_every_finding_with_both_places(capsys: pytest.CaptureFixture[str]) -> None:
    main(["audit", LOSSY, RULED, "--format", "json", *SPEC])
    pages = json.loads(capsys.readouterr().out)["pages"]
    assert [page["op"] for page in pages] == ["ConvTransposeBackwardData", "ConvTranspose"]
    for page in pages:
        assert sum(page["summary"].values()) == len(page["findings"])
        assert {f["ruling"]["id"] for f in page["findings"] if f["status"] == "ruled"} <= {"R1", "R2"}
        assert all(f["spec"]["file"].startswith("spec/onednn_graph/") and f["page"]["line"] for f in page["findings"])


def test_all_lists_the_fields_that_agree(capsys: pytest.CaptureFixture[str]) -> None:
    main(["audit", CLEAN, "--all", *SPEC])
    lines = capsys.readouterr().out.splitlines()
    assert sum(line.startswith("agree ") for line in lines) == 54
