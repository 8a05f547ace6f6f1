"""Pages as a browser shows them: headless Chromium, without network and with a profile that is thrown away."""

from __future__ import annotations

import html
import json
import re
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome")
QUIET = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--hide-scrollbars",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
)  # fmt: skip
SCHEMES = {"dark": 0, "light": 1}  # blink's preferredColorScheme


def executable() -> str | None:
    return next((found for name in NAMES if (found := shutil.which(name))), None)


def _run(page: str, *flags: str) -> str:
    browser = executable()
    assert browser is not None
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "page.html")
        path.write_text(page, encoding="utf-8")
        command = [browser, *QUIET, f"--user-data-dir={folder}/profile", *flags, path.as_uri()]
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=120).stdout


def screenshot(page: str, target: Path, scheme: str, size: tuple[int, int]) -> None:
    """A picture of the top of a page, in one colour scheme."""
    _run(
        page,
        f"--blink-settings=preferredColorScheme={SCHEMES[scheme]}",
        f"--window-size={size[0]},{size[1]}",
        f"--screenshot={target}",
    )


def measured(page: str, width: int, script: str) -> Any:
    """What a script says of `frame`, the document of a page that is shown `width` pixels wide, untouched otherwise."""
    return measured_all([(page, width)], script)[0]


def measured_all(shown: Sequence[tuple[str, int]], script: str) -> list[Any]:
    """What a script says of each of several pages and widths; one browser shows all of them."""
    pages = json.dumps([{"page": page, "width": width} for page, width in shown]).replace("<", "\\u003c")
    # a frame's handler stands before its page loads: one that a frame in the markup gets later may miss the event
    harness = f"""<!doctype html><body><pre id="results"></pre><script>
    const pages = {pages}, results = [];
    let left = pages.length;
    pages.forEach((one, at) => {{
      const shown = document.createElement("iframe");
      shown.style = `border:0;width:${{one.width}}px;height:800px`;
      shown.onload = () => {{
        const frame = shown.contentDocument;
        results[at] = (() => {{ {script} }})();
        left -= 1;
        if (!left) document.getElementById("results").textContent = JSON.stringify(results);
      }};
      shown.srcdoc = one.page;
      document.body.append(shown);
    }});</script>"""
    results = re.search(
        r'<pre id="results">(.*?)</pre>', _run(harness, "--dump-dom", "--window-size=1200,900"), re.DOTALL
    )
    assert results is not None
    found: list[Any] = json.loads(html.unescape(results[1]))
    return found
