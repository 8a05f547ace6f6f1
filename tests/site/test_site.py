"""The site: it builds without a warning, its tutorials run as they are written, and its pages fit narrow windows."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest
from support import browser

ROOT = Path(__file__).parents[2]
PAGES = sorted([ROOT / "docs/site/index.md", *(ROOT / "docs/site/tutorials").glob("*.md")])
BLOCK = re.compile(r'(?:<!-- needs: (\w+) -->\n)?```(\w+)(?: title="([^"]+)")?\n(.*?)```', re.DOTALL)
INSTALLS = re.compile(r"^pip install .*$", re.MULTILINE)  # the suite has what it needs
PORTABLE = "-DOPWRIGHT_ISAS=portable"  # tests/c_library builds for all instruction sets


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_blocks_of_a_page_run_in_their_order(page: Path, tmp_path: Path) -> None:
    python: list[str] = []
    environment = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": os.pathsep.join([str(tmp_path), str(ROOT / "generator"), str(ROOT / "generated")]),
    }
    for needs, language, title, text in BLOCK.findall(page.read_text(encoding="utf-8")):
        if needs and shutil.which(needs, path=environment["PATH"]) is None and find_spec(needs) is None:
            pytest.skip(f"{needs} is not installed")
        if title:
            target = tmp_path / title
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text, encoding="utf-8")
            continue
        assert language in ("sh", "python"), f"{page.name}: nothing runs a block of {language}"
        if language == "python":
            python.append(text)  # the blocks of a page are one program
        script = (
            "\n".join(python)
            if language == "python"
            else INSTALLS.sub("", text).replace("cmake -S", f"cmake {PORTABLE} -S")
        )
        command = [sys.executable, "-c", script] if language == "python" else ["bash", "-euo", "pipefail", "-c", script]
        ran = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300)
        assert ran.returncode == 0, f"{text}\n{ran.stdout}\n{ran.stderr}"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    pytest.importorskip("material", reason="MkDocs Material is not installed")
    target = tmp_path_factory.mktemp("site")
    ran = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(target)],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
    )
    assert ran.returncode == 0, ran.stderr  # a link or an anchor that leads nowhere is a warning, and ends it
    yield target


def test_the_site_has_every_page_and_every_table(site: Path) -> None:
    operations = {page.stem for page in (ROOT / "generated/opwright_kernels/docs").glob("*.md")}
    assert {page.stem for page in (site / "reference").glob("*.html")} == operations
    assert {page.stem for page in (site / "tables").glob("*.html")} == {
        "schedules",
        "sharding",
        "disagreements",
        "audit",
    }
    assert "soft_max" in (site / "search/search_index.json").read_text(encoding="utf-8")
    formulas = (site / "reference/soft_max.html").read_text(encoding="utf-8")
    assert formulas.count("<math") >= 5
    assert formulas.count("<p>where mode is") == 4
    assert not re.search(r"<p>\d+\. ", formulas), "the number of a step is text, not that of a list"
    assert "\\mathrm" not in re.sub(r'title="[^"]*"', "", formulas)


def test_an_option_of_a_command_is_never_broken_behind_its_hyphens(site: Path) -> None:
    text = (site / "REVIEWING.html").read_text(encoding="utf-8")
    assert '<span class="option">--fail-on</span>' in text
    assert not re.search(r"<code>(?:[^<]*\s)?--[a-z]", text)
    assert ".option { white-space: nowrap; }" in (site / "site/site.css").read_text(encoding="utf-8")


def test_pages_fetch_nothing_from_elsewhere(site: Path) -> None:
    for page in site.rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        fetched = re.findall(r'<(?:script|img|link)[^>]+(?:src|href)="(https?://[^"]+)"', text)
        assert not [one for one in fetched if "canonical" not in one], page


def test_every_link_within_the_site_leads_to_a_file(site: Path) -> None:
    assert (site / "index.html").is_file()
    for page in set(site.rglob("*.html")) - {site / "404.html"}:
        for link in re.findall(r'<a[^>]+href="([^"#?:]+)[^":]*"', page.read_text(encoding="utf-8")):
            target = page.parent / link
            assert (target / "index.html" if target.is_dir() else target).is_file(), f"{page}: {link}"


@pytest.mark.skipif(browser.executable() is None, reason="Chromium is not installed")
def test_pages_fit_narrow_and_wide_windows_and_their_tables_and_pictures_answer(site: Path) -> None:
    shown = []
    for page in (
        "index",
        "site/compare",
        "reference/soft_max",
        "tables/sharding",
        "tables/audit",
        "bench/OPERATIONS",
    ):
        text = (site / f"{page}.html").read_text(encoding="utf-8")
        text = text.replace("<head>", f'<head><base href="{(site / page).parent.as_uri()}/">')
        shown += [(page, text, width) for width in (360, 1200)]
    script = """
    const head = frame.querySelector("article thead th"), sizes = [frame.documentElement.scrollWidth, frame.body.innerText.length];
    for (let clicks = 0; head && clicks < 2; clicks++) head.click();
    const first = head ? frame.querySelector("article tbody tr").innerText : "";
    const dots = [...frame.querySelectorAll("circle")], field = frame.querySelector(".picture input");
    if (field) {
      field.value = "bf16 1024x1024";
      field.dispatchEvent(new frame.defaultView.Event("input", {bubbles: true}));
    }
    return [...sizes, first, dots.length, dots.filter((dot) => !dot.style.display).map((dot) => dot.textContent)];
    """
    found = browser.measured_all([(text, width) for _, text, width in shown], script)
    for (page, _, width), (across, characters, first, dots, left) in zip(shown, found, strict=True):
        assert across <= width, page
        assert characters > 500, page
        assert page != "tables/sharding" or first.startswith("type_cast")  # the last name comes first
        assert all("bf16" in name and "1024x1024" in name for name in left)
        assert (page == "bench/OPERATIONS") == (0 < len(left) < dots)
