"""The gradient of an operation as a spec: derived, written as YAML, and read again like one that a person wrote.

In: an operation of steps. Out: the text of the spec, and its operation. Raises Underivable, with the reason. Nothing is
written here.
"""

from __future__ import annotations

from collections.abc import Sequence

from .derive.gradient.choose import gradient
from .derive.gradient.signature import derived
from .derive.gradient.statements import Underivable
from .derive.gradient.text import text
from .emit import lowerable
from .language.model import Op
from .language.source import SpecInvalid
from .load import load_texts

COMMAND = "opwright gradient"


def gradient_text(op: Op, of: Sequence[str] = ()) -> tuple[str, Op]:
    """The spec of the gradient of an operation, in some of its inputs or in all."""
    made = gradient(op, of)
    head = f"Derived from the semantics of {op.op} by: {COMMAND} {op.op}"
    if made.without:
        head += f"\nThe gradient in {', '.join(made.without)} is 0 everywhere."
    written = text(derived(op, made), head)
    try:
        (found,) = load_texts({f"{op.function}_backward.yaml": written}).ops
        problems = list(lowerable.problems(found))
    except SpecInvalid as invalid:
        problems = list(invalid.problems)
    if problems:
        raise Underivable(f"the spec that follows cannot be said: {problems[0].rule}: {problems[0].message}")
    return written, found
