"""Which rules apply to a spec, and in which order.

In: complete operations. Out: problems, appended to the loader's list. A stage runs only if the stages
before it found nothing. Lowering checks whether kernels follow from the semantics (emit/lowerable.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ..derive.rules.normal_form import normal_form
from ..language.library import Page
from ..language.model import Op
from ..language.schema import Problems
from ..language.source import Problem, SpecInvalid
from . import declarations, expressions, library, names, semantics
from .onnx_nodes import onnx_nodes
from .rules import Rule
from .torch_calls import torch_calls


def check_op(op: Op, pages: Mapping[str, Page], problems: Problems) -> None:
    """Record every rule that one operation breaks."""

    def sources(op: Op) -> Iterator[Problem]:
        return declarations.sources(op, pages)

    stages = _of_steps() if op.stepped else STAGES
    for stage in (*stages[:1], (*stages[1], sources), *stages[2:]):
        found = [problem for rule in stage for problem in _broken(rule, op)]
        problems.extend(found)
        if found:
            return


def _of_steps() -> tuple[tuple[Rule, ...], ...]:
    """The rules of operations of steps: many modules, not imported for a library without steps."""
    from .step_stages import STAGES_OF_STEPS

    return STAGES_OF_STEPS


def _broken(rule: Rule, op: Op) -> Iterator[Problem]:
    """The problems of one rule, yielded or raised."""
    try:
        yield from rule(op)
    except SpecInvalid as invalid:
        yield from invalid.problems


def check_library(ops: Sequence[Op], problems: Problems) -> None:
    """Record every rule that the operations break together."""
    for rule in (library.distinct_operations, library.same_attributes, library.related):
        problems.extend(rule(ops))


STAGES: tuple[tuple[Rule, ...], ...] = (
    (declarations.complete, declarations.counted, declarations.plain),
    (
        names.names,
        declarations.attributes,
        declarations.tensors,
        declarations.dtypes,
        declarations.constraints,
        declarations.classes,
    ),
    (declarations.variant_count, declarations.relations, torch_calls, onnx_nodes, expressions.symbols),
    (expressions.expressions,),
    (semantics.semantics, normal_form),
    (expressions.steps,),
)
