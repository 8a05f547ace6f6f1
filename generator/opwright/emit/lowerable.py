"""Whether a spec can be lowered to kernels: a stage of generation that runs before rendering.

In: an operation that passed the rules of check/. Out: problems. After this stage nothing in the generator may fail on a
spec.
"""

from __future__ import annotations

from collections.abc import Iterator

from ..derive.sizes import size_fields
from ..derive.variants import PORTABLE, Variant, layout_choices
from ..language.model import Op
from ..language.source import Problem, SpecInvalid
from .entries import forms
from .kernels import kernel


def problems(op: Op) -> Iterator[Problem]:
    """Lowers every layout and class once; data types do not affect loops."""
    try:
        if op.stepped:
            from .steps import files  # not imported for a package without such operations

            files.step_wrapper(op)
            files.step_unit(op)
            return
        members = [member.name for member in size_fields(op)]
        for name in {name for name in members if members.count(name) > 1}:
            yield Problem(op.at, "name-collision", f"the name '{name}' would occur twice among the sizes of a kernel")
        for layouts in layout_choices(op):
            for group in op.classes or (None,):
                kernel(Variant(op, op.dtypes[0], layouts, group, PORTABLE))
        if op.normal_form is not None:
            forms(op, op.normal_form)
    except SpecInvalid as invalid:
        yield from invalid.problems
