"""From a project's folders to the texts of its generated package: load, lower, prove the normal forms, render.

In: a Project. Out: path to text, manifest included. Nothing is written here.
"""

from __future__ import annotations

from collections.abc import Iterator

from . import parallel
from .emit import lowerable, render
from .language.library import Library
from .language.model import Op
from .language.source import Problem, SpecInvalid
from .load import load
from .oracle import prove
from .project import GENERATOR, Project
from .write import MANIFEST


def generated(project: Project) -> tuple[Library, dict[str, str]]:
    """The operations of a project and every file of their package. Raises SpecInvalid."""
    library = load(project.spec, project.root)
    env = render.environment(project.templates)

    def made(op: Op) -> tuple[list[Problem], dict[str, str]]:
        problems = [*lowerable.problems(op)] or [*_disagreement(op), *_astray(op, library)]
        return problems, {} if problems else render.texts(render.of_op(op, library), env)

    render.compile_templates(env, library)
    each = parallel.each(made, library.ops)
    if problems := [problem for found, _ in each for problem in found]:
        raise SpecInvalid(problems)
    folder = project.spec.relative_to(project.root).as_posix()
    files = render.texts(render.of_library(library, project.templates, folder), env)
    for _, texts in each:
        files |= texts
    files = dict(sorted(files.items()))
    files[MANIFEST] = render.manifest(files, library, project.templates, GENERATOR)
    return library, files


def lower(library: Library) -> None:
    """Refuse a library with an operation from which no kernels follow."""
    if problems := [problem for op in library.ops for problem in lowerable.problems(op)]:
        raise SpecInvalid(problems)


def prove_normal_forms(library: Library) -> None:
    """Refuse a library in which a normal form says something else than the semantics."""
    found = parallel.each(lambda op: [*_disagreement(op)], library.ops)
    if problems := [problem for problems in found for problem in problems]:
        raise SpecInvalid(problems)


def _astray(op: Op, library: Library) -> Iterator[Problem]:
    if any(relation.gradient_of for relation in op.relations):
        from . import gradients  # takes long to import, and is needed for derived gradients alone

        yield from gradients.astray(op, library)


def _disagreement(op: Op) -> Iterator[Problem]:
    difference = prove.agrees(op)
    if op.normal_form is not None and difference is not None:
        yield Problem(op.normal_form.at, "normal-form-disagrees", difference)
