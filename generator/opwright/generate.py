"""From a project's folders to the texts of its generated package: load, lower, prove the normal forms, render.

In: a Project. Out: path to text, manifest included. Nothing is written here.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence, Set

from . import parallel
from .emit import lowerable, render, split_prose
from .language.library import Library
from .language.model import Op
from .language.source import Problem, SpecInvalid
from .load import load_with_gradients
from .oracle import prove
from .project import GENERATOR, Project
from .write import MANIFEST


@dataclasses.dataclass
class _Made:
    """The files of one operation, or those that all operations share."""

    problems: Sequence[Problem] = ()
    texts: Mapping[str, str] = dataclasses.field(default_factory=dict)
    record: render.Record | None = None
    splits: str = ""


def generated(project: Project) -> tuple[Library, dict[str, str]]:
    """The operations of a project and every file of their package. Raises SpecInvalid."""
    env = render.environment(project.templates)
    with parallel.beside(lambda: render.compiled(env)) as codes:
        library = load_with_gradients(project.spec, project.root)
        render.prepare(env, library, codes())
    ops = library.every
    folder = project.spec.relative_to(project.root).as_posix()

    def made(op: Op | None) -> _Made:
        if op is None:
            try:
                files = render.of_library(library, project.templates, folder)
                del files[render.SPLITS]  # the entry of an operation is made with it
                return _Made(texts=render.texts(files, env))
            except SpecInvalid:  # of an operation, which names itself
                return _Made()
        if problems := [*lowerable.problems(op)] or [*_disagreement(op), *_astray(op, library)]:
            return _Made(problems)
        texts = render.texts(render.of_op(op, library), env)
        return _Made(texts=texts, record=render.record(op), splits=split_prose.entry(op))

    shared, *each = parallel.each(made, (None, *ops))
    if problems := [problem for found in each for problem in found.problems]:
        raise SpecInvalid(problems)
    files = dict(sorted((path, text) for found in (shared, *each) for path, text in found.texts.items()))
    files[render.SPLITS] = split_prose.as_json({op.function: e.splits for op, e in zip(ops, each)})
    records = {op.op: found.record for op, found in zip(ops, each, strict=True) if found.record}
    files[MANIFEST] = render.manifest(files, records, project.templates, GENERATOR)
    return library, files


def lower(library: Library) -> None:
    """Refuse a library with an operation that cannot be lowered to kernels."""
    if problems := [problem for op in library.ops for problem in lowerable.problems(op)]:
        raise SpecInvalid(problems)


def prove_normal_forms(library: Library) -> None:
    """Refuse a library with a normal form that contradicts the semantics."""
    found = parallel.each(lambda op: [*_disagreement(op)], library.ops)
    if problems := [problem for problems in found for problem in problems]:
        raise SpecInvalid(problems)


def prove_derived(library: Library, changed: Set[str]) -> None:
    """Refuse a derived gradient among some names that does not follow from its operation."""
    if problems := [problem for op in library.every if op.op in changed for problem in _astray(op, library)]:
        raise SpecInvalid(problems)


def _astray(op: Op, library: Library) -> Iterator[Problem]:
    if any(relation.gradient_of for relation in op.relations):
        from . import gradients  # slow to import, and needed for derived gradients only

        yield from gradients.astray(op, library)


def _disagreement(op: Op) -> Iterator[Problem]:
    difference = prove.agrees(op)
    if op.normal_form is not None and difference is not None:
        yield Problem(op.normal_form.at, "normal-form-disagrees", difference)
