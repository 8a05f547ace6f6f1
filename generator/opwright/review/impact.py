"""The effect of a change on the generated files: predicted edit by edit, then proven by rendering both sides.

In: two libraries and the edits between them. Out: the files and kernels that each edit changes, and every violated
prediction. Files are compared by tokens: C without comments, Python without docstrings and comments, pages as they are;
the provenance and the manifest only record the rest and are not compared. The current generator renders both sides.

The prediction uses two facts about each output, recorded while BASE was rendered (footprint.py): which fields of the
spec its view and template read, and which attributes its template took from its view. If none of these fields changed,
the output is predicted to stay. Otherwise the edit is applied, only the view is rebuilt, and the values that the
template took from it are compared, except those in comments and docstrings (the class Prose). So a field that is read
without effect, such as a formula that is rewritten but prints the same, changes nothing. No template runs on an edited
spec, and no text is compared. The effect on kernels that a rule declares is an upper bound: an edit that is predicted
to do more is an error.

The proof renders HEAD from scratch and compares texts. It shares no view with the prediction, whose last view is of
BASE with all edits applied. It fails if a rule or an edit is wrong, if a field reaches an output without its recorder,
if a template prints a value that it did not take as an attribute, and if a Prose text reaches a token.
"""

from __future__ import annotations

import ast
import dataclasses
import functools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from .. import parallel
from ..derive.as_steps import as_steps
from ..derive.signature import header_path, signatures
from ..derive.variants import expand
from ..emit import render
from ..emit.output import Output
from ..language.library import Library, Page
from ..language.model import Op
from ..language.source import INCONSISTENT
from ..project import Project
from ..trace.footprint import Attributes, Taken, Watching, footprint, taken, watching
from ..trace.recording import fields, record
from .rules import KERNELS, RULES
from .tree import exact
from .walk import Edit

UNCOMPARED = ("PROVENANCE.json", "SHARDING.json", "MANIFEST.json", "py.typed")
_C = re.compile(r"//[^\n]*|/\*.*?\*/|(\"(?:\\.|[^\"\\])*\"|'(?:\\.|[^'\\])*'|\w+|[^\s\w])", re.DOTALL)
_KERNEL = re.compile(r"^void (\w+)\(", re.MULTILINE)
_FORM = re.compile(r"^static opwright_problem (\w+)\(.*?^}", re.MULTILINE | re.DOTALL)
_ENTRY = re.compile(r"^KERNEL\((\w+), (\w+)\)$", re.MULTILINE)
_DECLARATION = re.compile(
    r"^typedef struct (?P<type>\w+) \{.*?^\} \w+;|^void (?P<function>\w+)\(.*?\);"
    r"|^typedef void (?P<of>\w+)\([^;]*\);\n(?P=of)\n(?P<functions>[\s\w,]+);",  # kernels of steps
    re.MULTILINE | re.DOTALL,
)


@dataclass(frozen=True)
class Moved:
    """Files and kernels that differ; kernels that only one side has are listed separately."""

    files: frozenset[str] = frozenset()
    kernels: frozenset[str] = frozenset()
    added: frozenset[str] = frozenset()
    removed: frozenset[str] = frozenset()

    def __or__(self, other: Moved) -> Moved:
        pairs = zip(dataclasses.astuple(self), dataclasses.astuple(other), strict=True)
        return Moved(*(one | two for one, two in pairs))

    @property
    def effect(self) -> str:
        """The minimum effect on kernels that a rule must declare."""
        if self.added or self.removed:
            return "variants"
        return "code" if any(path.endswith((".c", ".h")) for path in self.files) else "none"


@dataclass
class Impact:
    """The effect of every edit, by its index, and one sentence per failure of the proof."""

    predicted: dict[int, Moved] = field(default_factory=dict)
    foreseen: Moved = field(default_factory=Moved)
    observed: Moved = field(default_factory=Moved)
    kernels: int = 0
    unpredicted: list[str] = field(default_factory=list)
    declared: dict[str, dict[str, tuple[str, str]]] = field(default_factory=dict)  # by operation and symbol
    texts: tuple[dict[str, str], dict[str, str]] = field(default_factory=lambda: ({}, {}))

    def add(self, other: Impact) -> None:
        """Merge the effect of other edits, on other operations."""
        self.predicted |= other.predicted
        self.foreseen |= other.foreseen
        self.observed |= other.observed
        self.unpredicted += other.unpredicted
        self.declared |= other.declared
        for ours, theirs in zip(self.texts, other.texts, strict=True):
            ours.update(theirs)


def tokens(path: str, text: str) -> object:
    """The part of a file that a compiler or interpreter sees; for a page, what a reader sees."""
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


def kernels_of(op: Op | None, files: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Every kernel of an operation with its text; fast kernels of all instruction sets share the text of one entry.

    Kernels of steps share the file of their dtype row.
    """
    entries: dict[str, str] = {}
    if op is None:
        return
    if as_steps(op).stepped:
        yield from ((made.name, files[made.path]) for made in signatures(op))
        return
    for path, text in files.items():
        if path.startswith("c/entries/"):
            entries |= _entries(text)
        elif path.startswith(f"c/{op.function}_"):
            starts = [*_KERNEL.finditer(text)]
            ends = [*(start.start() for start in starts[1:]), len(text)]
            yield from ((start[1], text[start.start() : end]) for start, end in zip(starts, ends, strict=True))
    for variant in expand(op):
        if variant.isa.fast:
            yield variant.name, entries[variant.name.removesuffix(f"_{variant.isa.name}")]


def _entries(text: str) -> Iterator[tuple[str, str]]:
    """Each entry of a file: the function that fills its problem, and the macro that instantiates its kernel."""
    forms = {found[1]: found[0] for found in _FORM.finditer(text)}
    macro = text[text.index("#define KERNEL(") : text.index("\nKERNEL(")]
    return ((found[1], forms[found[2]] + macro) for found in _ENTRY.finditer(text))


def _declarations(op: Op | None, files: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """The structs and functions that an operation's header declares, without its comments."""
    for found in _DECLARATION.finditer(files[header_path(op)]) if op else ():
        names = found["functions"] or found["type"] or found["function"]
        declaration = found[0].removesuffix(f"{names};") if found["functions"] else found[0]
        text = " ".join(re.sub(r"//[^\n]*", "", declaration).split())
        yield from ((name, text) for name in re.findall(r"\w+", names))


def seen(root: Library) -> Mapping[str, object]:
    """What reading each path yields: the value of a field, or the names of a group's fields in order."""
    told: dict[str, Any] = {}
    for path, found in fields(root).items():
        told[path] = exact(found.value)
        while "." in path:
            path, _, name = path.rpartition(".")
            told.setdefault(path, {})[name] = None
    told |= {f"ops.{op.op}.at": op.at.file for op in root.ops}  # lines and columns appear in no compared output
    return {path: tuple(value) if isinstance(value, dict) else value for path, value in told.items()}


class Piece:
    """A stand-in for the tokens of one file, computed on demand."""

    def __init__(self, make: Callable[[], Taken]) -> None:
        self.make = make

    @functools.cached_property
    def taken(self) -> Taken:
        return self.make()


Pieces = Mapping[str, Piece]


class Carried:
    """One operation of BASE, rendered with its reads recorded, and updated edit by edit."""

    def __init__(self, op: Op | None, pages: Mapping[str, Page], project: Project, environment: Watching) -> None:
        self.op, self.project, self.pages = op, project, dict(pages)
        base = _library(op, pages)
        standin, reads = record(base)
        outputs = self.outputs(standin)
        self.made = {path: footprint(path, output, reads, environment) for path, output in outputs.items()}
        self.seen = seen(base)
        self.attributes: dict[str, Attributes] = {}  # by template, for files that BASE does not have
        for path, made in self.made.items():
            self.learn(outputs[path].template, made.attributes)
        names = _kernels(op)
        self.pieces = {
            path: Piece(functools.partial(taken, path, made.view, made.attributes, names))
            for path, made in self.made.items()
        }

    def learn(self, template: str, attributes: Attributes) -> None:
        """Record what a template takes from views, in addition to what is known already."""
        known = self.attributes.get(template, {})
        both = {cls: known.get(cls, frozenset()) | attributes.get(cls, frozenset()) for cls in {*known, *attributes}}
        self.attributes[template] = both

    def outputs(self, library: Library) -> dict[str, Output]:
        """The outputs that are compared. Copied files do not change."""
        folder = self.project.spec.relative_to(self.project.root).as_posix()
        outputs = render.outputs(library, self.project.templates, folder)
        copied = {path for path, output in outputs.items() if output.template and not output.rendered}
        return {path: output for path, output in outputs.items() if path not in UNCOMPARED and path not in copied}

    def anew(self, path: str, output: Output, kernels: frozenset[str]) -> Taken:
        known = self.made.get(path)
        attributes = known.attributes if known else self.attributes.get(output.template, {})
        return taken(path, output.view(), attributes, kernels)

    def edited(self, op: Op | None, pages: Mapping[str, Page]) -> Pieces:
        """The pieces of an edited operation: those of BASE if none of the fields that they read has changed."""
        library, names = _library(op, pages), _kernels(op)
        now = seen(library)
        changed = {path for path in {*self.seen, *now} if self.seen.get(path) != now.get(path)}
        return {
            path: self.pieces[path]
            if path in self.made and not self.made[path].reads & changed and (op is None) == (self.op is None)
            else Piece(functools.partial(self.anew, path, output, names))
            for path, output in self.outputs(library).items()
        }

    def texts(self) -> dict[str, str]:
        return {path: made.text for path, made in self.made.items()}


def _library(op: Op | None, pages: Mapping[str, Page]) -> Library:
    return Library((op,) if op else (), dict(pages))


def _kernels(op: Op | None) -> frozenset[str]:
    return frozenset(variant.name for variant in expand(op)) if op else frozenset()


def foreseen(old: Pieces, new: Pieces) -> Moved:
    """The predicted differences between two states of an operation."""
    both = old.keys() & new.keys()
    differ = {path for path in both if old[path] is not new[path] and old[path].taken != new[path].taken}
    files = differ | (old.keys() ^ new.keys())
    was, now = ({k: v for p in files if p in side and p.endswith(".c") for k, v in side[p].taken.kernels.items()}
                for side in (old, new))  # fmt: skip
    return _moved(files, was, now, lambda one, two: one != two)


def observed(olds: Op | None, old: Mapping[str, str], news: Op | None, new: Mapping[str, str]) -> Moved:
    """The differences between the texts of two sides."""
    files = {path for path in {*old, *new} if _differ(path, old.get(path), new.get(path))}
    was, now = dict(kernels_of(olds, old)), dict(kernels_of(news, new))
    return _moved(files, was, now, functools.partial(_differ, ".c"))


def _moved(
    files: Iterable[str], was: Mapping[str, Any], now: Mapping[str, Any], differ: Callable[[Any, Any], bool]
) -> Moved:
    kernels = frozenset(name for name in was.keys() & now.keys() if differ(was[name], now[name]))
    return Moved(frozenset(files), kernels, frozenset(now.keys() - was.keys()), frozenset(was.keys() - now.keys()))


def _differ(path: str, old: str | None, new: str | None) -> bool:
    if old is None or new is None or old == new:
        return old != new
    return tokens(path, old) != tokens(path, new)


def impact(project: Project, before: Library, after: Library, edits: Sequence[Edit]) -> Impact:
    """Predict the effect of every edit, then render both sides and compare."""
    olds, news = ({op.op: op for op in library.ops} for library in (before, after))
    by_op: dict[str, list[int]] = {}
    if exact(before.pages) != exact(after.pages):  # a document may change any page
        by_op = {op.op: [] for op in after.ops}
    for number, edit in enumerate(edits):
        by_op.setdefault(edit.op, []).append(number)

    names = [name for name in by_op if name]
    environment = watching(project.templates)
    if len(names) > 1:  # operations share the compiled templates, also in forked processes
        ops = tuple(op for side in (olds, news) for name, op in side.items() if name in by_op)
        outputs = render.outputs(Library(ops, {}), project.templates, "").values()
        environment.compiled({output.template for output in outputs if output.rendered})

    def of_op(name: str) -> Impact:
        numbers = by_op[name]
        mine = [edits[number] for number in numbers]
        old = olds.get(next((edit.was for edit in mine if edit.rule == "op-renamed" and edit.now == name), name))
        made, carried = Impact(), Carried(old, before.pages, project, environment)
        _of_op(made, carried, edits, numbers, (old, news.get(name)), after.pages, environment)
        return made

    result = Impact(kernels=sum(len(expand(op)) for op in before.ops))
    for made in parallel.each(of_op, names):
        result.add(made)
    return result


def _of_op(
    result: Impact,
    carried: Carried,
    edits: Sequence[Edit],
    numbers: Sequence[int],
    ops: tuple[Op | None, Op | None],
    pages: Mapping[str, Page],
    environment: Watching,
) -> None:
    """One operation: apply its edits one after the other, then prove the result with the documents of HEAD."""
    state, new = ops
    outputs, head = carried.outputs(_library(new, pages)), {}
    for path, output in outputs.items():
        environment.taken()
        head[path] = render.tidy(path, output.text(environment))
        if output.template not in carried.attributes:
            carried.learn(output.template, environment.taken())
    listed: Mapping[str, Page] = carried.pages
    pieces: Pieces = carried.pieces
    waiting = []
    for number in numbers:
        waiting.append(number)
        try:
            before = state, listed
            state, listed = edits[number].make(state), edits[number].pages(listed)
            told = (
                state is before[0] and listed is before[1] and len(waiting) == 1
            )  # an edit of the records, not of the spec
            now = pieces if told else carried.edited(state, listed)
            step = foreseen(pieces, now)
        except INCONSISTENT:  # the edit waits for the next one; the proof fails if none completes it
            continue
        for part in waiting:
            result.predicted[part] = step
        _declared(result, edits, waiting, step)
        pieces, waiting = now, []
    base = carried.texts()
    prediction, proof = foreseen(carried.pieces, pieces), observed(ops[0], base, new, head)
    name = new.op if new else edits[numbers[0]].op
    if exact(state) != exact(new):
        result.unpredicted.append(f"{name}: the findings do not account for the whole difference")
    for said, found in (("files", "files"), ("kernels", "kernels"), ("new kernels", "added"), ("kernels", "removed")):
        predicted, seen_ = getattr(prediction, found), getattr(proof, found)
        for sentence, names in (
            ("changed unpredicted", seen_ - predicted),
            ("predicted, unchanged", predicted - seen_),
        ):
            if names:
                result.unpredicted.append(f"{name}: {said} {sentence}: {', '.join(sorted(names)[:5])}")
    was, now_ = (dict(_declarations(op, files)) for op, files in zip(ops, (base, head), strict=True))
    kept = was.keys() & now_.keys()
    result.declared[name] = {symbol: (was[symbol], now_[symbol]) for symbol in kept if was[symbol] != now_[symbol]}
    result.foreseen, result.observed, result.texts = prediction, proof, (base, head)


def _declared(result: Impact, edits: Sequence[Edit], numbers: Sequence[int], step: Moved) -> None:
    """Compare the effect of a step with what its rules declare."""
    maximum = max((RULES[edits[number].rule].kernel for number in numbers), key=KERNELS.index)
    if KERNELS.index(step.effect) > KERNELS.index(maximum):
        rules = ", ".join(sorted({edits[number].rule for number in numbers}))
        what = sorted(step.added | step.removed | step.kernels or step.files)[0]
        op = edits[numbers[0]].op
        result.unpredicted.append(f"{op}: {rules} declares the effect '{maximum}' on kernels, but {what} changed")
