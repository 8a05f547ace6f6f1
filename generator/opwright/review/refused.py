"""The report for a side whose specs are refused, so that nothing can be compared, in every form of a review.

In: a Refused. Out: text in the same formats as a review. The command exits with 3.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from xml.etree import ElementTree

from ..emit.escape import code, markdown
from ..errors import count, inert
from ..language.source import Problem
from . import ci, comment, page
from .json_form import SCHEMA_VERSION, place
from .rules import CONTRACTS

EXIT = 3


@dataclass(frozen=True)
class Refused:
    """A side that cannot be used. `base` and `head` are empty if they were not determined."""

    side: str
    problems: Sequence[Problem]
    base: str = ""
    head: str = ""

    @property
    def lead(self) -> str:
        return f"{self.side}: {count(len(self.problems), 'problem')} in its specs"

    @property
    def sides(self) -> dict[str, str]:
        return {name: side for name, side in (("base", self.base), ("head", self.head)) if side}


def as_text(refused: Refused) -> str:
    return "".join(f"{line}\n" for line in [*map(str, refused.problems), inert(refused.lead)])


def as_json(refused: Refused) -> str:
    """As docs/diff.schema.json says: no findings, and the problems."""
    problems = [{**(place(p.mark) or {}), "rule": p.rule, "message": p.message} for p in refused.problems]
    whole: dict[str, Any] = {
        "version": SCHEMA_VERSION, "base": refused.base or None, "head": refused.head or None, "exit_code": EXIT,
        "contracts": dict.fromkeys(CONTRACTS, 0), "predicted": None, "kernels": 0, "findings": [], "values": None,
        "code": [], "invalid": {"side": refused.side, "problems": problems},
    }  # fmt: skip
    return json.dumps(whole, indent=2) + "\n"


def as_markdown(refused: Refused) -> str:
    made = comment.Comment(comment.MAX_COMMENT_BYTES - comment.RESERVE)
    for line in comment.head(refused.lead, refused.base or "unknown", refused.head or "unknown"):
        made.add(line[: comment.MAX_COMMENT_BYTES // 8])
    lines = [f"- {code(inert(str(p.mark)))} {code(p.rule)}: {markdown(inert(p.message))}" for p in refused.problems]
    shown = next((n for n, line in enumerate(lines) if not made.add(line)), len(lines))
    if shown < len(lines):
        made.blocks.append(f"\nand {len(lines) - shown} more")
    return made.text()


def as_github(refused: Refused) -> str:
    lines = [ci.annotation("error", p.rule, p.mark, [p.message]) for p in refused.problems]
    return "".join(f"{line}\n" for line in [*lines, inert(refused.lead)])


def as_junit(refused: Refused) -> str:
    """One case per problem, each an error."""
    count = len(refused.problems)
    made = ci.suite("opwright diff", {**refused.sides, "invalid": refused.side}, count, failures=0, errors=count)
    for problem in refused.problems:
        case = ElementTree.SubElement(made, "testcase", classname="specs", name=inert(f"{problem.rule} {problem.mark}"))
        ElementTree.SubElement(case, "error", message=inert(problem.message), type=inert(problem.rule))
    return ci.xml(made)


def as_sarif(refused: Refused) -> str:
    rules = ({"id": name} for name in sorted({problem.rule for problem in refused.problems}))
    results = (ci.result(p.rule, "error", p.message, p.mark) for p in refused.problems)
    return ci.sarif(rules, results, EXIT, **refused.sides, invalid=refused.side)


def as_html(refused: Refused) -> str:
    return page.rendered("refused.html.j2", refused=refused)
