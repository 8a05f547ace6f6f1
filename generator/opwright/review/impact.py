"""What a change does to the generated files: predicted edit by edit, then proven by rendering both sides.

In: two libraries and the edits between them. Out: which files and kernels each edit moves, and what does not hold.
Files are compared by tokens: C without comments, Python without docstrings and comments, pages as they are; the
provenance and the manifest are records of the rest and not compared. Both sides are rendered by today's generator.

The prediction carries the base over, one edit at a time. Which fields a kernel's view depends on is recorded while
the base's view is made, so it holds for any set of templates: where no field that was read has changed, the old
kernels are predicted to stand, untouched. The proof renders HEAD from scratch and shares nothing with that.
"""

from __future__ import annotations

import ast
import dataclasses
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from .. import render
from ..kernel import Kernel
from ..model import Library, Op, Page
from ..project import Project
from ..recording import Field, fields, record
from ..variants import expand
from .compare import Edit
from .rules import KERNELS, RULES
from .tree import exact

UNCOMPARED = ("PROVENANCE.json", "MANIFEST.json", "py.typed")
_C = re.compile(r"//[^\n]*|/\*.*?\*/|(\"(?:\\.|[^\"\\])*\"|'(?:\\.|[^'\\])*'|\w+|[^\s\w])", re.DOTALL)
_KERNEL = re.compile(r"^void (\w+)\(", re.MULTILINE)


HEADER = "include/opwright_kernels.h"
_DECLARATION = re.compile(
    r"^typedef struct (?P<type>\w+) \{.*?^\} \w+;|^void (?P<function>\w+)\(.*?\);", re.MULTILINE | re.DOTALL
)


@dataclass(frozen=True)
class Output:
    """What an operation is rendered to: the text of each file, and of each kernel."""

    files: Mapping[str, str]
    kernels: Mapping[str, str]


@dataclass(frozen=True)
class Moved:
    """Files and kernels that differ; kernels that only one side has stand apart."""

    files: frozenset[str] = frozenset()
    kernels: frozenset[str] = frozenset()
    added: frozenset[str] = frozenset()
    removed: frozenset[str] = frozenset()

    def __or__(self, other: Moved) -> Moved:
        pairs = zip(dataclasses.astuple(self), dataclasses.astuple(other), strict=True)
        return Moved(*(one | two for one, two in pairs))

    @property
    def effect(self) -> str:
        """The least effect on kernels that a rule must have declared."""
        if self.added or self.removed:
            return "variants"
        return "code" if any(path.endswith((".c", ".h")) for path in self.files) else "none"


@dataclass
class Impact:
    """The effect of every edit, by its place in the list, and every sentence that says where the proof fails."""

    predicted: dict[int, Moved] = field(default_factory=dict)
    foreseen: Moved = field(default_factory=Moved)
    observed: Moved = field(default_factory=Moved)
    kernels: int = 0
    unpredicted: list[str] = field(default_factory=list)
    declared: dict[str, dict[str, tuple[str, str]]] = field(default_factory=dict)  # by operation and symbol
    texts: tuple[dict[str, str], dict[str, str]] = field(default_factory=lambda: ({}, {}))


def tokens(path: str, text: str) -> object:
    """What of a file reaches a compiler or an interpreter; of a page, what reaches a reader."""
    if path.endswith((".c", ".h")):
        return tuple(token for token in _C.findall(text) if token)
    if path.endswith((".py", ".pyi")):
        return _python(text)
    return text


def _python(text: str) -> str:
    tree = ast.parse(text)
    for node in ast.walk(tree):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)) and ast.get_docstring(node) is not None:
            node.body = node.body[1:] or [ast.Pass()]
    return ast.dump(tree)


def kernels_of(text: str) -> Iterator[tuple[str, str]]:
    """The kernels in a C file, each with its text."""
    starts = [*_KERNEL.finditer(text)]
    ends = [*(start.start() for start in starts[1:]), len(text)]
    return ((start[1], text[start.start() : end]) for start, end in zip(starts, ends, strict=True))


def _declarations(header: str) -> Iterator[tuple[str, str]]:
    """The structs and functions that a header declares, without its comments."""
    for found in _DECLARATION.finditer(header):
        yield found["type"] or found["function"], " ".join(re.sub(r"//[^\n]*", "", found[0]).split())


def seen(fields: Mapping[str, Field], path: str) -> object:
    """What reading a path tells: the value of a field, or of what holds fields which ones, in their order."""
    if path in fields:
        return exact(fields[path].value)
    return tuple(dict.fromkeys(p[len(path) + 1 :].partition(".")[0] for p in fields if p.startswith(f"{path}.")))


class Renderer:
    """Renders operations one by one and remembers."""

    def __init__(self, project: Project) -> None:
        self.templates: Path = project.templates
        self.folder = project.spec.relative_to(project.root).as_posix()
        self.units: list[tuple[Op, set[str], render.Unit]] = []
        self.made: dict[str, Output] = {}
        self.env = render.environment(project.templates)

    def record(self, op: Op) -> None:
        """Make the view of an operation's kernels and remember what it read."""
        standin, read = record(op)
        self.units.append((op, read, render.unit(standin)))

    def reused(self, op: Op) -> render.Unit | None:
        """The recorded view of an operation's kernels, where all that it read is the same."""
        now = fields(op)
        for base, read, unit in self.units:
            was = fields(base)
            if base.op == op.op and all(seen(was, path) == seen(now, path) for path in read):
                return dataclasses.replace(unit, op=op, kernels=tuple(_rebound(k, op) for k in unit.kernels))
        return None

    def predicted(self, op: Op | None, pages: Mapping[str, Page]) -> Output:
        """What an operation is rendered to, kernels that must be as recorded not made again."""
        unit = self.reused(op) if op is not None else None
        return self.rendered(op, pages, unit)

    def rendered(self, op: Op | None, pages: Mapping[str, Page], unit: render.Unit | None = None) -> Output:
        """An operation's files; without a unit, made from nothing that was recorded."""
        if op is None:
            return Output({}, {})
        key = repr((exact(op), exact(dict(pages)), unit is None))
        if key not in self.made:
            view = render.unit if unit is None else lambda _: unit
            texts = render.render(Library((op,), dict(pages)), self.templates, self.folder, view, self.env)
            files = {path: text for path, text in texts.items() if path not in UNCOMPARED}
            bodies = [kernels_of(text) for path, text in files.items() if path.endswith(".c")]
            self.made[key] = Output(files, {name: body for found in bodies for name, body in found})
        return self.made[key]


def _rebound(kernel: Kernel, op: Op) -> Kernel:
    """A kernel's view as one of another operation that says the same to it; rows are told by identity."""
    old = kernel.variant
    row = next(new for row, new in zip(old.op.dtypes, op.dtypes, strict=True) if row is old.row)
    return dataclasses.replace(kernel, variant=dataclasses.replace(old, op=op, row=row))


def _differ(path: str, old: str | None, new: str | None) -> bool:
    if old is None or new is None or old == new:
        return old != new
    return tokens(path, old) != tokens(path, new)


def moved(old: Output, new: Output) -> Moved:
    """What differs between two outputs."""
    return Moved(
        frozenset(p for p in {*old.files, *new.files} if _differ(p, old.files.get(p), new.files.get(p))),
        frozenset(k for k in old.kernels if k in new.kernels and _differ(".c", old.kernels[k], new.kernels[k])),
        frozenset(new.kernels.keys() - old.kernels.keys()),
        frozenset(old.kernels.keys() - new.kernels.keys()),
    )


def impact(project: Project, before: Library, after: Library, edits: Sequence[Edit]) -> Impact:
    """Predict the effect of every edit, then render both sides and hold the two against each other."""
    result = Impact()
    renderer = Renderer(project)
    olds, news = ({op.op: op for op in library.ops} for library in (before, after))
    by_op: dict[str, list[int]] = {}
    if exact(before.pages) != exact(after.pages):  # a document may move any page
        by_op = {op.op: [] for op in after.ops}
    for number, edit in enumerate(edits):
        by_op.setdefault(edit.op, []).append(number)
    for name, numbers in by_op.items():
        if not name:
            continue
        mine = [edits[number] for number in numbers]
        old = olds.get(next((edit.was for edit in mine if edit.rule == "op-renamed" and edit.now == name), name))
        _of_op(result, renderer, edits, numbers, (old, news.get(name)), (before.pages, after.pages))
    result.kernels = sum(len(expand(op)) for op in before.ops)
    return result


def _of_op(
    result: Impact,
    renderer: Renderer,
    edits: Sequence[Edit],
    numbers: Sequence[int],
    ops: tuple[Op | None, Op | None],
    pages: tuple[Mapping[str, Page], Mapping[str, Page]],
) -> None:
    """One operation: its edits made one after the other, then the proof."""
    old, new = ops
    if old is not None:
        renderer.record(old)
    base = renderer.predicted(old, pages[0])
    state, listed, output, waiting = old, pages[0], base, []
    for number in numbers:
        waiting.append(number)
        try:
            state, listed = edits[number].make(state), edits[number].pages(listed)
            now = renderer.predicted(state, listed)
        except Exception:  # an operation between two edits need not make sense; the next edit may mend it
            continue
        step = moved(output, now)
        for part in waiting:
            result.predicted[part] = step
        _declared(result, edits, waiting, step)
        output, waiting = now, []
    head = renderer.rendered(new, pages[1])
    foreseen, proof = moved(base, output), moved(base, head)
    name = new.op if new else old.op if old else ""
    if exact(state) != exact(new):
        result.unpredicted.append(f"{name}: the findings do not account for the whole difference")
    for said, found in (("files", "files"), ("kernels", "kernels"), ("new kernels", "added"), ("kernels", "removed")):
        predicted, observed = getattr(foreseen, found), getattr(proof, found)
        for sentence, names in (
            ("changed unpredicted", observed - predicted),
            ("predicted, unchanged", predicted - observed),
        ):
            if names:
                result.unpredicted.append(f"{name}: {said} {sentence}: {', '.join(sorted(names)[:5])}")
    if old is not None and new is not None:
        ours, theirs = (dict(_declarations(made.files[HEADER])) for made in (base, head))
        result.declared[name] = {n: (ours[n], theirs[n]) for n in ours if n in theirs and ours[n] != theirs[n]}
    result.foreseen |= foreseen
    result.observed |= proof
    for texts, made in zip(result.texts, (base, head), strict=True):
        texts.update(made.files)


def _declared(result: Impact, edits: Sequence[Edit], numbers: Sequence[int], step: Moved) -> None:
    """Hold the effect of a step against what its rules declare."""
    most = max((RULES[edits[number].rule].kernel for number in numbers), key=KERNELS.index)
    if KERNELS.index(step.effect) > KERNELS.index(most):
        rules = ", ".join(sorted({edits[number].rule for number in numbers}))
        what = sorted(step.added | step.removed | step.kernels or step.files)[0]
        op = edits[numbers[0]].op
        result.unpredicted.append(f"{op}: {rules} declares the effect '{most}' on kernels, but {what} changed")
