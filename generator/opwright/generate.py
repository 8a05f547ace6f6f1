"""From a project's folders to the texts of its generated package: load, lower, prove the normal forms, render.

In: a Project. Out: path to text, manifest included. Nothing is written here.
"""

from __future__ import annotations

from . import gradients, parallel
from .emit import lowerable, render
from .language.library import Library
from .language.source import Problem, SpecInvalid
from .load import load
from .oracle import prove
from .project import GENERATOR, Project
from .write import MANIFEST


def generated(project: Project) -> tuple[Library, dict[str, str]]:
    """The operations of a project and every file of their package. Raises SpecInvalid."""
    library = load(project.spec, project.root)
    lower(library)
    follow(library)
    prove_normal_forms(library)
    folder = project.spec.relative_to(project.root).as_posix()
    files = render.render(library, project.templates, folder)
    files[MANIFEST] = render.manifest(files, library, project.templates, GENERATOR)
    return library, files


def lower(library: Library) -> None:
    """Refuse a library with an operation from which no kernels follow."""
    problems = [problem for op in library.ops for problem in lowerable.problems(op)]
    if problems:
        raise SpecInvalid(problems)


def follow(library: Library) -> None:
    """Refuse a library with a derived gradient that does not follow from its operation."""
    problems = list(gradients.astray(library))
    if problems:
        raise SpecInvalid(problems)


def prove_normal_forms(library: Library) -> None:
    """Refuse a library in which a normal form says something else than the semantics."""
    forms = [(op, op.normal_form) for op in library.ops if op.normal_form is not None]
    differences = parallel.each(prove.agrees, [op for op, _ in forms])
    problems = [
        Problem(form.at, "normal-form-disagrees", difference)
        for (_, form), difference in zip(forms, differences, strict=True)
        if difference is not None
    ]
    if problems:
        raise SpecInvalid(problems)
