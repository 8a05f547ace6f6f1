"""From a project's folders to the texts of its generated package: load, lower, prove the normal forms, render.

In: a Project. Out: path to text, manifest included. Nothing is written here.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence

from . import parallel
from .emit import lowerable, render
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


def generated(project: Project) -> tuple[Library, dict[str, str]]:
    """The operations of a project and every file of their package. Raises SpecInvalid."""
    library = load_with_gradients(project.spec, project.root)
    ops = (*library.ops, *library.gradients)
    env = render.environment(project.templates)
    folder = project.spec.relative_to(project.root).as_posix()

    def made(op: Op | None) -> _Made:
        if op is None:
            try:
                return _Made(texts=render.texts(render.of_library(library, project.templates, folder), env))
            except SpecInvalid:  # of an operation, which names itself
                return _Made()
        if problems := [*lowerable.problems(op)] or [*_disagreement(op), *_astray(op, library)]:
            return _Made(problems)
        return _Made(texts=render.texts(render.of_op(op, library), env), record=render.record(op))

    render.compile_templates(env, library)
    shared, *each = parallel.each(made, (None, *ops))
    if problems := [problem for found in each for problem in found.problems]:
        raise SpecInvalid(problems)
    files = dict(sorted((path, text) for found in (shared, *each) for path, text in found.texts.items()))
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


def _astray(op: Op, library: Library) -> Iterator[Problem]:
    if any(relation.gradient_of for relation in op.relations):
        from . import gradients  # slow to import, and needed for derived gradients only

        yield from gradients.astray(op, library)


def _disagreement(op: Op) -> Iterator[Problem]:
    difference = prove.agrees(op)
    if op.normal_form is not None and difference is not None:
        yield Problem(op.normal_form.at, "normal-form-disagrees", difference)
