"""`opwright why FILE[:LINE]`: the origin of a generated file or of one of its lines.

In: a project and a path. Out: the templates, the functions of the generator and the fields of the specs that made it,
each with the commit that last changed it. The file is generated again in memory: `marking.py` records which line of
which template printed what, `origins.py` which functions made the texts, `footprint.py` which fields were read, as
`diff` does for its predictions.

A file depends on every field that was read for it: no other can change it. For a line, only those that change it are
shown: edit a field, generate the file again, and compare the line (`edits.py`). The fields tried are the source of
the line's statement, if it is one of C, those whose names or text occur in the line, and those that
shape every line; on request all that were read.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path, PurePosixPath

from rich.console import Console
from rich.text import Text
from rich.tree import Tree

from .. import parallel
from ..console import say
from ..emit import render
from ..emit.output import Output
from ..errors import UsageError
from ..language.library import Library
from ..language.schema import Assignment, Located
from ..language.source import suggestion
from ..load import load_with_gradients
from ..project import COMMAND, GENERATOR, Project
from ..write import MANIFEST, compare
from .edits import Trial
from .footprint import footprint, watching
from .history import Commit, History
from .marking import Line, Place, marked
from .origins import Origins, Step, traced
from .recording import Field, fields, record

STEPS = 4  # the number of innermost calls shown of a chain
SHAPING = ("semantics", "spatial_rank", "layouts")  # parts of a spec that affect lines without being named in them
MADE_FROM, TEXT, STATEMENT = "made from it", "its text", "its statement"


@dataclass(frozen=True)
class Part:
    """One origin of a file or a line; line 0 stands for the whole file."""

    name: str
    file: str
    line: int = 0
    because: str = ""
    commit: Commit | None = None


@dataclass(frozen=True)
class Why:
    """The answer. `state` is empty if the file on disk is the explained one; `reads` counts fields."""

    path: str
    line: int
    text: str
    state: str
    history: bool
    templates: tuple[Part, ...]
    generator: tuple[Part, ...]
    spec: tuple[Part, ...]
    reads: int
    unrendered: int = 0  # fields without an edit that could be rendered


def why(project: Project, name: str, every: bool = False) -> Why:
    """The origin of FILE or FILE:LINE; `every` tries all fields. Raises UsageError if the file is not generated."""
    file, _, digits = name.rpartition(":")
    file, line = (file, int(digits)) if file and digits.isdecimal() else (name, 0)
    specs = load_with_gradients(project.spec, project.root)
    path = _path(file, project, _outputs(specs, project))
    specs = _owner(specs, path)
    library, reads = record(specs)
    outputs = _outputs(library, project)
    output, origins, environment = outputs[path], Origins(), watching(project.templates)
    watched = dataclasses.replace(output, view=lambda: traced(output.view, origins, texts=bool(line)))
    made = footprint(path, watched, reads, environment)
    text = made.printed.text
    known = {path: field for path, field in fields(specs).items() if path in made.reads}
    lines = marked(environment, path, dataclasses.replace(output, view=lambda: made.view), text)
    if not 0 <= line <= len(lines) or (digits == "0" and file != name):
        raise UsageError(f"{path} has no line {digits}, it has {len(lines)}")
    chosen = lines[line - 1 : line] if line else lines
    teller = _Teller(project)
    if line:
        trial = Trial(specs, functools.partial(_outputs, project=project), environment, path, text.splitlines(), line)
        spec, unrendered = teller.moving(trial, known, chosen[0], every)
    else:
        spec, unrendered = teller.read(known), 0
    return Why(
        path=path,
        line=line,
        text=text.splitlines()[line - 1] if line else "",
        state=next((d.state for d in compare(project.output, {path: text}) if d.path == path), ""),
        history=teller.history.known,
        templates=teller.templates(chosen, bool(line)),
        generator=teller.generator(chosen[0] if line else (), origins),
        spec=spec,
        reads=len(known),
        unrendered=unrendered,
    )


def _outputs(library: Library, project: Project) -> dict[str, Output]:
    """Every file of the package, including the manifest."""
    outputs = render.outputs(library, project.templates, project.spec.relative_to(project.root).as_posix())

    def manifest() -> dict[str, str]:
        environment = render.environment(project.templates)
        files = {path: render.tidy(path, output.text(environment)) for path, output in outputs.items()}
        return {
            "text": render.manifest(
                files, {op.op: render.record(op) for op in library.every}, project.templates, GENERATOR
            )
        }

    return {**outputs, MANIFEST: Output("", manifest)}


def _owner(library: Library, path: str) -> Library:
    """The library with only the operation of a file; the whole library if several share the file."""
    ops, gradients = (
        tuple(op for op in side if path in render.of_op(op, library)) for side in (library.ops, library.gradients)
    )
    return dataclasses.replace(library, ops=ops, gradients=gradients) if ops or gradients else library


def _path(name: str, project: Project, outputs: Iterable[str]) -> str:
    """The path of a file inside the package, given relative to the current folder or to the package."""
    full = Path(os.path.abspath(name))
    inside = full.relative_to(project.output).as_posix() if full.is_relative_to(project.output) else name
    known = [*outputs]
    if inside in known:
        return inside
    if full.is_file() and inside == name:
        raise UsageError(
            f"{name} is not a generated file of {project.output}; --spec and --output name another package"
        )
    named = [path for path in known if PurePosixPath(path).name == PurePosixPath(inside).name]
    raise UsageError(f"{name} is not a generated file{suggestion(named[0] if named else inside, known)}")


class _Teller:
    """Names origins by file and line, with their history."""

    def __init__(self, project: Project) -> None:
        self.project = project
        self.root = project.root
        self.history = History(project.root)

    def part(self, name: str, file: Path, line: int = 0, because: str = "", lines: Iterable[int] = ()) -> Part:
        shown = next((file.relative_to(base) for base in self.bases() if file.is_relative_to(base)), file)
        return Part(name, shown.as_posix(), line, because, self.history.newest(file, [line, *lines]))

    def bases(self) -> tuple[Path, ...]:
        return (self.root, GENERATOR.parent.parent, GENERATOR.parent)

    def templates(self, lines: Iterable[Line], line: bool) -> tuple[Part, ...]:
        """The template lines that printed a line, the caller first; or all templates of a file."""
        places = dict.fromkeys(
            place
            for pieces in lines
            for piece in pieces
            if piece.text.strip()
            for place in piece.places
            if place.template
        )
        if line:
            return tuple(self._place(place) for place in places)
        macros: dict[str, dict[str, None]] = {}
        for place in places:
            macros.setdefault(place.template, {}).setdefault(place.macro)
        return tuple(
            self.part(", ".join(filter(None, found)), self.project.templates / template)
            for template, found in macros.items()
        )

    def _place(self, place: Place) -> Part:
        return self.part(place.macro, self.project.templates / place.template, place.line)

    def generator(self, line: Line, origins: Origins) -> tuple[Part, ...]:
        """The calls that made the most specific text of a line; without one, all calls of render.py."""
        chains = [origins.of(piece.text) for piece in line if piece.value]
        best = max(chains, key=len, default=())
        if best:
            return tuple(self._step(step, step.line) for step in best[-STEPS:])
        steps = sorted(origins.asked, key=lambda step: (step.module, step.line))
        return tuple(self._step(step) for step in steps) or (self.part("render", Path(render.__file__)),)

    def _step(self, step: Step, line: int = 0) -> Part:
        return self.part(step.function, Path(step.module), line)

    def read(self, known: Mapping[str, Field]) -> tuple[Part, ...]:
        """Every field that was read."""
        return tuple(self._field(field, "") for field in known.values())

    def moving(self, trial: Trial, known: Mapping[str, Field], line: Line, every: bool) -> tuple[tuple[Part, ...], int]:
        """The fields whose edit changes a line, and how many could not be tried because no edit could be rendered.

        The field of the line's own statement counts as changing it even if it could not be tried.
        """
        sources = {source for piece in line if piece.text.strip() for source in _source(piece.places)}
        why = {p: because for p, f in known.items() if (because := _made(f, sources) or _named(f, trial.text))}
        tried = [path for path in known if every or path in why or _shapes(path)] if trial.says else []
        moves = parallel.each(lambda path: trial.moves(known[path], why.get(path) == TEXT), tried)
        moved = {path for path, found in zip(tried, moves) if found or (found is None and why.get(path) == STATEMENT)}
        parts = tuple(self._field(known[path], why.get(path, MADE_FROM)) for path in known if path in moved)
        return parts, sum(found is None and path not in moved for path, found in zip(tried, moves))

    def _field(self, field: Field, because: str) -> Part:
        return self.part(field.path.removeprefix("ops."), self.root / field.at.file, field.at.line, because)


def _source(places: Iterable[Place]) -> list[str]:
    """The source of the innermost statement in an operation's spec."""
    return [place.field for place in places if not place.template][-1:]


def _made(field: Field, sources: Iterable[str]) -> str:
    """Whether a statement comes from a field, or from an entry that contains the field."""
    path = field.path.split(".", 2)[-1]
    return STATEMENT if any(source and f"{path}.".startswith(f"{source}.") for source in sources) else ""


def _named(field: Field, text: str) -> str:
    """How a line names a field; empty if it does not."""
    value = field.value.text if isinstance(field.value, (Located, Assignment)) else str(field.value)
    if not re.fullmatch(r"[\w.-]*", value) and value in text:
        return TEXT
    words = [name for name in sorted(field.names) if _stands(name, text)]
    return f"named {', '.join(words)}" if words else ""


def _shapes(path: str) -> bool:
    return path.split(".")[2:3] in ([part] for part in SHAPING)


def _stands(name: str, text: str) -> bool:
    """Whether a name occurs in a line, alone or as a part of another, as S in S_w; C has axes in lower case."""
    words = "|".join({re.escape(name), re.escape(name.lower())})
    return bool(re.search(rf"(?<![A-Za-z0-9])({words})(?![A-Za-z0-9])", text))


def as_json(found: Why) -> str:
    return json.dumps(asdict(found), indent=2)


def show(found: Why, out: Console) -> None:
    """A tree on a terminal, indented lines in a pipe."""
    edits = f"edits of {len(found.spec)} of the {found.reads} fields behind this file change the line"
    if found.unrendered:
        edits += f"; {found.unrendered} more could not be tried, because no edit of them can be rendered"
    read = f"{found.reads} fields were read, and no other can change this file"
    branches = {
        "templates": _rows(found.templates),
        "generator": _rows(found.generator),
        f"spec: {edits if found.line else read}": _grouped(found.spec),
        "commits": _commits(found),
    }
    head = f"{found.path}:{found.line}: {found.text.strip()}" if found.line else found.path
    tree = Tree(Text(head, "bold"))
    for title, rows in branches.items():
        branch = tree.add(Text(title, "bold"))
        for row in rows:
            branch.add(Text(row))
    if out.is_terminal:
        out.print(tree)
    else:
        for line in (head, *(line for title, rows in branches.items() for line in (title, *(f"  {r}" for r in rows)))):
            say(out, line)
    if found.state:
        say(out, f"{found.path} on disk is {found.state}; shown is the file that `{COMMAND}` generates")


def _commits(found: Why) -> list[str]:
    """Every commit named above, the newest first."""
    if not found.history:
        return ["this is not a git repository, so commits are unknown"]
    parts = (*found.templates, *found.generator, *found.spec)
    commits = sorted({part.commit for part in parts if part.commit}, reverse=True)
    return [f"{commit.hash}  {commit.date}  {commit.subject}" for commit in commits]


def _rows(parts: Iterable[Part]) -> list[str]:
    return [_row(f"{part.file}{f':{part.line}' if part.line else ''}", part.name, [part]) for part in parts]


def _row(place: str, name: str, parts: Iterable[Part]) -> str:
    newest = max((part.commit for part in parts if part.commit), default=None)
    return "  ".join(filter(None, (place, name, f"[{newest.hash}]" if newest else "")))


def _grouped(parts: Iterable[Part]) -> list[str]:
    """The fields of one entry of a spec in one row, with the newest of their commits."""
    groups: dict[tuple[str, str, str], list[Part]] = {}
    for part in parts:
        entry = ".".join(part.name.split(".")[:3])
        groups.setdefault((entry, part.file, part.because), []).append(part)
    rows = []
    for (entry, file, because), found in groups.items():
        names = ", ".join(filter(None, (part.name.removeprefix(entry).lstrip(".") for part in found)))
        lines = sorted({part.line for part in found})
        span = f"{lines[0]}-{lines[-1]}" if len(lines) > 1 else str(lines[0])
        text = f"{entry}{f' ({names})' if names else ''}{f': {because}' if because else ''}"
        rows.append(_row(f"{file}:{span}", text, found))
    return rows
