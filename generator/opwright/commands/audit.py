"""The command `opwright audit`: reads pages, compares each with the spec of its operation, prints the findings.

Exit codes: 0 nothing at the threshold, 1 findings, 2 a page is unreadable or of no known operation.
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path

from ..audit import report
from ..audit.page import Page
from ..audit.report import Audited
from ..console import console
from ..errors import UsageError
from ..language.library import Library
from ..language.model import Op
from ..language.source import suggestion
from ..load import load
from ..project import find

EXAMPLE = "opwright audit page.rst --fail-on lost   # exits 1 if the page contradicts the spec or has lost a cell"
OK, FINDINGS, USAGE = 0, 1, 2
# The findings that each threshold counts; a contradiction with a ruling never counts.
THRESHOLDS = {
    "contradiction": ("contradiction",),
    "lost": ("contradiction", "lost"),
    "silent": ("contradiction", "lost", "silent"),
}
TITLE = re.compile(r"[A-Z][A-Za-z0-9]{2,60}")
SENTENCE = re.compile(r"(?:\W{0,4})([A-Z][A-Za-z0-9]{2,60})(?= operation\b|\W*$)")


class UnknownOperationError(UsageError):
    """A page of an operation without a spec; the message says what to do."""


def arguments(made: argparse.ArgumentParser) -> None:
    """The arguments of the command."""
    made.add_argument(
        "pages", metavar="PAGE", nargs="+", type=Path, help="scraped text, reStructuredText, Markdown or HTML"
    )
    made.add_argument("--op", help="the operation of the pages (default: from their titles)")
    made.add_argument("--format", choices=("text", "json"), default="text", help="the output format (default: text)")
    made.add_argument(
        "--fail-on", choices=tuple(THRESHOLDS), default="contradiction", help="which findings make the exit code 1"
    )
    made.add_argument("--all", action="store_true", help="list the fields that agree too")
    made.add_argument("--spec", type=Path, help="the folder of spec files (default: spec/ of the project)")


def run(options: argparse.Namespace) -> int:
    """Run the command; its exit code."""
    from ..audit.compare import audit
    from ..audit.forms import read_page
    from ..audit.reference import against, is_reference, today

    project = find(options.spec)
    library = load(project.spec, project.root)
    done: list[Audited] = []
    failed = False
    for path in options.pages:
        try:
            page = read_page(path)
            op = operation(page, library, options.op)
            now = today(op, library, project)
            done.append(Audited(page, op.op, against(op, page, now) if is_reference(page, now) else audit(op, page)))
        except UsageError as error:
            print(f"opwright audit: {error}", file=sys.stderr)
            failed = True
    _show(done, options)
    counted = THRESHOLDS[options.fail_on]
    found = any(finding.status in counted for audited in done for finding in audited.findings)
    return USAGE if failed else FINDINGS if found else OK


def _show(done: list[Audited], options: argparse.Namespace) -> None:
    if options.format == "json":
        print(report.as_json(done))
        return
    out = console()
    for audited in done:
        if out.is_terminal:
            report.print_table(out, audited, options.all)
        else:
            print(report.text(audited, options.all))


def operation(page: Page, library: Library, name: str | None = None) -> Op:
    """The operation of a page: the one given, or the one of its title."""
    titles = [name] if name else _titles(page)
    known = {key: op for op in library.ops for key in (op.op, op.function)}
    names = [op.op for op in library.ops]
    for title in titles:
        if title in known:
            return known[title]
    if name:
        raise UnknownOperationError(f"there is no operation '{name}'{suggestion(name, names)}")
    if not titles:
        raise UnknownOperationError(f"{page.file}: this page has no title; name its operation with --op")
    hint = suggestion(titles[0], names)
    raise UnknownOperationError(f"{page.file}: there is no spec of '{titles[0]}'{hint}; --op names another operation")


def _titles(page: Page) -> list[str]:
    """Candidates for the title: lines of one word, else the first words of sentences."""
    texts = list(page.texts)
    lines = [text.text for text in texts if TITLE.fullmatch(text.text)]
    subjects = [found[1] for text in texts if (found := SENTENCE.match(text.text))]
    phrases = re.findall(r"\b([A-Z]\w{2,60}) operation\b", texts[0].text) if texts else []
    return [*lines, *(subjects or phrases)[:1]]
