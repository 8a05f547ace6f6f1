"""When a call needs a step: conditions on the outputs that it has, and on the words of its attributes.

In: the loops of a phase, and a step. Out: conditions in C.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...derive.needs import chosen_by, only_for
from ...derive.phases import staged
from ...derive.program import Part
from ...language.model import Op
from .. import nodes
from ..nodes import ZERO, Binary, Expr, Member
from .bounds import Bounds
from .integers import SIZES
from .roomy import overwritten
from .tasks import Tasks


def words_of(op: Op, name: str) -> list[str]:
    """The words of a string or boolean attribute, in the order of their numbers."""
    attribute = op.attribute(name)
    return ["false", "true"] if attribute.type == "bool" else [value.value for value in attribute.values or ()]


def optional_outputs(op: Op) -> frozenset[str]:
    """The outputs that some calls lack."""
    return frozenset(tensor.name for tensor in op.outputs if tensor.when is not None)


def absence(output: str) -> str:
    """The member of sizes that says whether a call lacks an output."""
    return f"{output}_absent_"


def is_word(loops: Tasks, attribute: str, words: Sequence[str]) -> Expr:
    """Whether an attribute has one of some words."""
    word = loops.constant(f"{attribute}_word_", Member(SIZES, f"word_{attribute}"))
    numbers = [words_of(loops.op, attribute).index(one) for one in words]
    return nodes.chain("||", [Binary("==", word, nodes.integer(number)) for number in numbers], ZERO)


def needed(loops: Tasks, part: Part, bounds: Callable[[Part], Bounds]) -> list[Expr]:
    """The conditions under which a call needs a step: optional outputs, and words that choose who reads its sums.

    `bounds` has those of the letters that a later step walks. Steps that reduce nothing cost less than a condition
    around them, which keeps them out of loops of others.
    """
    array, whole = part.target.tensor, staged(loops.op).program
    # The program of merged letters lacks the steps of other phases, which may read the array, too.
    found = whole if array in whole.arrays else loops.program
    outputs = only_for(found, optional_outputs(loops.op)).get(array, frozenset())
    lacked = [loops.member(absence(tensor.name)) for tensor in loops.op.outputs if tensor.name in outputs]
    attribute, words = chosen_by(whole).get(array, ("", frozenset[str]()))
    some = attribute and part.operator != "set" and words < {*words_of(loops.op, attribute)}
    chosen = [is_word(loops, attribute, sorted(words))] if some else []
    grown = [name for name, (output, _) in loops.grown.items() if array == output and part.operator == "set"]
    apart = [nodes.Unary("!", loops.in_place(name)) for name in grown]
    later = overwritten(loops, part, bounds)
    apart += [nodes.Unary("!", nodes.both(later))] if later else []
    return [*([nodes.Unary("!", nodes.both(lacked))] if lacked else []), *chosen, *apart]
