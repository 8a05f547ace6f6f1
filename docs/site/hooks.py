"""The pages of the site that are made when it is built: reference, tables, results.

In: the generated package, the specs and bench/. Out: files of MkDocs. Links that lead out of docs/ are turned to these
pages, or to plain text where they lead to a file that the site does not have.
"""

from __future__ import annotations

import json
import posixpath
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files
from opwright.language.model import Op
from opwright.load import load

from docs.site import pictures

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "generated" / "opwright_kernels"
LINK = re.compile(r"(?<!!)\[([^\]]*)\]\(([^)#\s]+)(#[^)\s]*)?\)")
INLINE = re.compile(r"<code>([^<]*)</code>")
OPTION = re.compile(r"(?<![\w-])--?[a-z][\w-]*")
# Where files of the repository stand on the site.
MOVED = {"generated/opwright_kernels/docs": "reference", "bench": "bench"}


START = "site/index.md"


def on_config(config: Any) -> Any:
    """List the operations beside the pages of the reference."""
    reference = next(entry["Reference"] for entry in config.nav if "Reference" in entry)
    functions = sorted(page.stem for page in (PACKAGE / "docs").glob("*.md") if page.stem != "API")
    reference.append({"Operations": [{name: f"reference/{name}.md"} for name in functions]})
    return config


def on_files(files: Files, config: Any) -> Files:
    """Add what is made."""
    for path, text in pages():
        files.append(File.generated(config, path, content=text))
    for picture in (ROOT / "bench").glob("*.png"):
        files.append(File.generated(config, f"bench/{picture.name}", abs_src_path=str(picture)))
    start = files.get_file_from_path(START)
    assert start is not None
    start.dest_uri = "index.html"  # to which the name of the site leads on every page
    return files


def pages() -> Iterator[tuple[str, str]]:
    """The made pages: their paths on the site, and their texts."""
    for page in sorted((PACKAGE / "docs").glob("*.md")):
        # Blocks in a list are indented by 3 there, as GitHub has it; Python's Markdown wants 4, and a free line behind.
        text = re.sub(r"^ {3}(?! )", "    ", page.read_text(encoding="utf-8"), flags=re.MULTILINE)
        text = re.sub(r"^    ```\n(?=.)", "    ```\n\n", text, flags=re.MULTILINE)
        yield f"reference/{page.name}", text
    for page in sorted((ROOT / "bench").glob("*.md")):
        dots = pictures.convolutions if page.name == "RESULTS.md" else pictures.operations
        yield f"bench/{page.name}", results(page.read_text(encoding="utf-8"), dots)
    ops = load(ROOT / "spec" / "onednn_graph", ROOT).ops
    yield "tables/schedules.md", schedules()
    yield "tables/sharding.md", sharding()
    yield "tables/disagreements.md", disagreements(ops)
    yield "tables/audit.md", audited(json.loads((Path(__file__).parent / "audit.json").read_text(encoding="utf-8")))


def results(page: str, dots: Callable[[str], Iterable[pictures.Dot]]) -> str:
    """A page of results with a picture of all of its rows behind the first heading."""
    title, _, rest = page.partition("\n")
    caption = "PyTorch's time divided by ours, a dot for each row; the pointer on a dot shows which."
    return f"{title}\n\n{caption}\n\n{pictures.picture(list(dots(page)))}\n{rest}"


def schedules() -> str:
    """The rows of schedules, in the order in which a kernel tries them."""
    from opwright_kernels._schedules import SCHEDULES

    rows = [[row.name, row.when, row.then, row.figure] for row in SCHEDULES]
    return "# Schedules\n\nA kernel of steps takes the first row whose condition holds.\n\n" + _table(
        ("schedule", "where", "what it does", "chosen by"), rows
    )


def sharding() -> str:
    """Every operation with the ways in which it may be split."""
    tables: dict[str, Any] = json.loads((PACKAGE / "SHARDING.json").read_text(encoding="utf-8"))
    rows = []
    for function, table in sorted(tables.items()):
        if not (PACKAGE / "docs" / f"{function}.md").exists():  # a derived gradient has no page
            continue
        kinds: dict[str, list[str]] = {}
        for split in table["splits"]:
            kinds.setdefault(split["kind"], []).append(f"`{split['size']}`")
        words = "; ".join(f"{kind}: {', '.join(dict.fromkeys(names))}" for kind, names in kinds.items())
        rows.append([f"[{function}](../reference/{function}.md)", words])
    return "# Ways to split an operation\n\nEach follows from the semantics; the pages have the details.\n\n" + _table(
        ("operation", "sizes by kind of split"), rows
    )


def disagreements(ops: tuple[Op, ...]) -> str:
    """What the sources of each operation disagree about, and what holds."""
    parts = [
        "# Where sources disagree\n\nThe published pages and the library differ here. The specs record both, and rule."
    ]
    for op in ops:
        if op.discrepancies:
            parts.append(f"## {op.op}\n")
            rows = [[one.page or "", one.library or "", one.ruling or "", one.why or ""] for one in op.discrepancies]
            parts.append(_table(("the pages", "the library", "what holds", "why"), rows))
    return "\n".join(parts) + "\n"


def audited(found: list[dict[str, Any]]) -> str:
    """What `opwright audit` finds on published pages; tests/audit holds the file against the pages, where they are."""
    parts = [
        "# What the audit found\n\n"
        "`opwright audit PAGE` compares a published page with the spec of its operation, field by field. "
        "These are its findings on pages of the oneDNN Graph documentation, as they were collected: scraped "
        "text, and sources some of which had lost their line breaks or cells. A difference that a spec "
        "records and rules on is *ruled*, any other a *contradiction*; *lost* is what the text no longer "
        "says. [Where sources disagree](disagreements.md) has all rulings.\n"
    ]
    for page in found:
        counts = page["counts"]
        words = f"{counts['agree']} fields agree, {counts['ruled']} are ruled, {counts['contradiction']} contradict"
        parts.append(f"## {page['op']}, {page['form']}\n\n{words}, {counts['lost']} are lost.\n")
        rows = [[f"`{field}`", one, other, ruling] for field, one, other, ruling in page["findings"]]
        parts.append(_table(("field", "the page", "the spec", "what holds"), rows))
        if page["lost"]:
            parts.append(f"Lost: {', '.join(f'`{field}`' for field in page['lost'])}.\n")
    return "\n".join(parts)


def _table(heads: tuple[str, ...], rows: list[list[str]]) -> str:
    lines = [f"| {' | '.join(heads)} |", "|" + " --- |" * len(heads)]
    lines += [f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |" for row in rows]
    return "\n".join(lines) + "\n"


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """Turn links to files of the repository to pages of the site."""
    source = page.file.src_uri
    return LINK.sub(lambda link: _turned(link, source, files), markdown)


def on_page_content(html: str, page: Any, config: Any, files: Files) -> str:
    """Keep the options of a command, such as `--fail-on`, in one line each."""
    return INLINE.sub(lambda code: OPTION.sub(r'<span class="option">\g<0></span>', code[0]), html)


def _turned(link: re.Match[str], source: str, files: Files) -> str:
    text, target, anchor = link[1], link[2], link[3] or ""
    if "://" in target or files.get_file_from_path(
        posixpath.normpath(posixpath.join(posixpath.dirname(source), target))
    ):
        return link[0]
    inside = posixpath.normpath(posixpath.join("docs", posixpath.dirname(source), target))
    for folder, place in MOVED.items():
        if inside.startswith(f"{folder}/"):
            moved = place + inside.removeprefix(folder)
            if files.get_file_from_path(moved):
                return f"[{text}]({posixpath.relpath(moved, posixpath.dirname(source))}{anchor})"
    return text if "`" in text else f"{text} (`{inside}`)" if text != inside else f"`{text}`"
