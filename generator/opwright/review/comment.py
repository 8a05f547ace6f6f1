"""A review as a comment on a pull request: Markdown within GitHub's size limit.

In: a Review. Out: text. The counts come first, then a row per finding, then the details of each finding, the most
severe first. Omitted parts are counted, and the command that shows them is given.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial

from ..emit.escape import code, markdown
from ..errors import inert
from . import words
from .advice import advice
from .findings import Finding, Review

MAX_COMMENT_BYTES = 65_536  # GitHub counts characters; bytes are never fewer
RESERVE = 1_000  # for the sentences about omitted parts
FOR_ROWS = MAX_COMMENT_BYTES // 3
IN_A_ROW = 80  # characters of a value in the table; the details show more
CUT = 2_000  # characters of a value in the details


class Comment:
    """Blocks of text within a limit of bytes."""

    def __init__(self, maximum: int) -> None:
        self.blocks: list[str] = []
        self.left = maximum

    def fits(self, block: str) -> bool:
        return len(block.encode()) + 1 <= self.left

    def add(self, block: str) -> bool:
        """Add a block, if there is room for it."""
        if not self.fits(block):
            return False
        self.left -= len(block.encode()) + 1
        self.blocks.append(block)
        return True

    def text(self) -> str:
        return "\n".join(self.blocks) + "\n"


def as_markdown(review: Review, with_code: bool = False) -> str:
    """The comment."""
    made = Comment(MAX_COMMENT_BYTES - RESERVE)
    for line in head(words.lead(review), review.base, review.head):
        made.add(line[: MAX_COMMENT_BYTES // 8])
    made.add(f"{markdown(words.summary(review))}\n")
    rows = [_row(finding, review) for finding in review.findings]
    listed = _some(["| | rule | where | was | is | kernels |\n|---|---|---|---|---|---|", *rows], made, FOR_ROWS) - 1
    shown = 0
    for finding in review.findings[:listed]:
        whole, cut = _about(finding, review), partial(_about, finding, review, CUT)
        if not (made.add(whole) or made.add(cut())):
            break
        shown += 1
    if shown < len(review.findings):
        rest = f"{len(review.findings) - shown} more findings: run {code(_again(review))}"
        made.blocks.append(f"\n{rest}; the rows above list {listed} of {len(review.findings)}.")
    if with_code and review.impact.observed.kernels and not made.add(_code(review)):
        made.blocks.append(f"\nThe changed C is too long for a comment: run {code(f'{_again(review)} --with-code')}")
    return made.text()


def head(lead: str, base: str, side: str) -> Iterator[str]:
    """The head of a comment: counts by contract, and the two sides."""
    yield f"### Spec review: {markdown(lead)}\n"
    yield f"base {code(inert(base))}, head {code(inert(side))}\n"


def _again(review: Review) -> str:
    """The command that prints the whole review."""
    return review.findings[0].reproduce if review.findings else "opwright diff"


def _some(blocks: Iterable[str], made: Comment, maximum: int) -> int:
    """Add as many blocks as fit in `maximum` bytes; how many were added."""
    limit, count = made.left - maximum, 0
    for block in blocks:
        if made.left - len(block.encode()) - 1 < limit or not made.add(block):
            break
        count += 1
    return count


def _row(finding: Finding, review: Review) -> str:
    moved = finding.moved
    count = len(moved.kernels | moved.added | moved.removed)
    where = f"{markdown(words.ops(finding))} {code(finding.place)}"
    was, now = (code(_short(value, IN_A_ROW)) for value in (finding.was, finding.now))
    effect = f"{count} of {review.impact.kernels}" if count else ""
    cells = (f"**{words.severity(finding)}**", code(finding.rule.id), where, was, now, effect)
    return f"| {' | '.join(cells)} |"


def _short(text: str, maximum: int) -> str:
    return text if len(text) <= maximum else f"{text[:maximum]}\u2026"


def _about(finding: Finding, review: Review, maximum: int | None = None) -> str:
    """The details of a finding, folded; `maximum` cuts its values to that many characters."""
    about = [f"- {markdown(finding.rule.reason)}", f"- action: {markdown(advice(finding))}"]
    about += [f"- waived: {markdown(finding.waived)}"] if finding.waived else []
    about += [f"- kernels: {code(words.kernels(finding, review))}"]
    about += [f"- {code(inert(line))}" for line in words.witness(finding)]
    about += [f"- fingerprint {code(finding.fingerprint)}; again with {code(finding.reproduce)}"]
    title = markdown(_short(f"{finding.rule.id}: {finding.path}", CUT))
    values = [*_value("-", finding.was, maximum), *_value("+", finding.now, maximum)]
    fenced = ["```diff", *values, "```", ""] if values else []
    return "\n".join(["", f"<details><summary>{title}</summary>", "", *fenced, *about, "", "</details>"])


def _value(sign: str, text: str, maximum: int | None) -> list[str]:
    """A value as lines of a diff; the sign before each line keeps it inside the fence."""
    shown = text if maximum is None else text[:maximum]
    lines = [f"{sign} {inert(line)}" for line in shown.splitlines()]
    return [*lines, f"{sign} ... {len(text) - maximum} more characters"] if maximum and len(text) > maximum else lines


def _code(review: Review) -> str:
    fenced = "\n".join(words.code_changes(review)).replace("```", "` ` `")
    return "\n".join(["", "<details><summary>Changed C</summary>", "", "```diff", fenced, "```", "", "</details>"])
