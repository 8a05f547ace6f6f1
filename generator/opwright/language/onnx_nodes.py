"""What a spec says of ONNX: the kinds of nodes that an operation computes, and where its arguments come from.

In: nothing, or the text of an operand. Out: the words of the spec language for them, and operands as terms.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from .entries import IDENTIFIER, OP_NAME, VALUE, mark
from .schema import Flag, Integer, ListOf, MapOf, Word
from .source import Mark
from .structs import Node, key

NAME = r"[A-Za-z_][A-Za-z0-9_]*"
_BOUND = r"(-?[0-9]+|[a-z_]+)?"
_GIVEN = rf"{NAME}(\.(shape|axes|dtype))?(\[{_BOUND}(:{_BOUND}(:-1)?)?\])?"
_NUMBER = r"-?([0-9]+(\.[0-9]+)?(e-?[0-9]+)?|inf)"
_PRODUCT = rf"{_GIVEN}( [*/] {_GIVEN})?"
_ALIGNED = rf"{NAME} like {_GIVEN}"
_TERM = rf"({_NUMBER}( per {_GIVEN})?|{_PRODUCT}|{_ALIGNED})"
OPERAND = Word(
    rf"{_TERM}( or {_TERM})*",
    "what a node gives, such as `pads[:half]`, `axes or data.axes`, `slope like X`, `strides or 1 per X.shape[2:]`",
)
GIVES = Word(
    rf"{IDENTIFIER.pattern}( \* {NAME})?( \+ {NAME}( \* {NAME})?)?"
    rf"|rsqrt\({IDENTIFIER.pattern} \+ {IDENTIFIER.pattern}\)",
    "an output, perhaps as in `dst * alpha + C * beta` of what the node gives, or `rsqrt(variance + epsilon)` of an "
    "output and an attribute",
)
ONNX_NAME = Word(NAME, "an input or attribute of a node")
GIVEN = Word(_PRODUCT, "what a node gives, such as `auto_pad`, `scales[0]` or `scales[2:] * X.shape[2:]`")
_WANTED = rf"([A-Za-z0-9_.-]+|> [0-9]+|{_GIVEN})"
WANTED = Word(
    rf"{_WANTED}( or {_WANTED})*",
    "a plain value, `integers`, `> 1`, what else the node gives, such as `X.shape[0]`, or several of these with `or`",
)
_AXES = Word(_GIVEN, "axes of an input, such as `X.axes[2:]`")
RELATIONS = ("*", "/", "like")
_PARTS = re.compile(rf"(?P<name>{NAME})(\.(?P<part>shape|axes|dtype))?(?P<cut>\[.*\])?")


@dataclass(frozen=True)
class Onnx(Node):
    """A kind of ONNX nodes that this operation computes."""

    node: str = key(OP_NAME, "its `op_type` in ONNX's own domain", required=True, default="")
    since: int = key(Integer(1, 1000), "the first opset in which the entry holds", default=1)
    until: int | None = key(Integer(1, 1000), "the last opset in which it holds")
    when: dict[str, str] = key(
        MapOf(GIVEN, WANTED), "what must have these values, such as `NOTSET`, `1` or `none`", default={}
    )
    arguments: dict[str, str] = key(
        MapOf(IDENTIFIER, OPERAND), "inputs and attributes, each with what it takes of the node", default={}
    )
    words: dict[str, str] = key(MapOf(IDENTIFIER, VALUE), "attributes that always have the same value", default={})
    ignores: tuple[str, ...] = key(ListOf(ONNX_NAME), "attributes of the node that change no result", default=())
    gives: tuple[str, ...] = key(
        ListOf(GIVES),
        "the outputs, in the node's order, such as `mean`, `dst * alpha + C * beta` or `rsqrt(variance + epsilon)`; by "
        "default the first",
        default=(),
    )
    folds: bool = key(
        Flag(),
        "whether a node of more inputs is computed of the first two, then of the result and the next, and so on; one "
        "input is the result",
        default=False,
    )
    inferred_shape: bool = key(
        Flag(),
        "whether outputs get the shape that ONNX infers: with axes of one cell, and without windows that begin in the "
        "padding",
        default=False,
    )
    mirrors: str | None = key(
        _AXES,
        "axes along which every array runs backwards, so that what the operation rounds up is rounded down",
    )
    at: Mark = mark()


@dataclass(frozen=True)
class Term:
    """One of the alternatives of an operand: a number, a value of the node, or a number for each cell of a value.

    `part` is the value's shape, the numbers of its axes, or its dtype; `cut` is an index or a slice of that, its bounds
    numbers, `half`, or attributes of the node; `other` is another term, by which it is multiplied or divided, cell by
    cell, or whose number of axes it gets: `relation` is `*`, `/` or `like`.
    """

    number: float | None
    name: str = ""
    part: str = ""
    cut: tuple[int | str | None, ...] = ()
    relation: str = ""
    other: Term | None = None


@dataclass(frozen=True)
class Given:
    """An output of the operation, and what becomes of it.

    It is multiplied by the value `factor` of the node, and `added` is added, multiplied by `weight`; or it is the
    reciprocal of the root of its sum with the attribute `rooted` of the operation.
    """

    output: str
    factor: str = ""
    added: str = ""
    weight: str = ""
    rooted: str = ""


def output_of(given: str) -> Given:
    """What an entry of `gives` says."""
    if given.startswith("rsqrt("):
        output, _, rooted = given.removeprefix("rsqrt(").removesuffix(")").partition(" + ")
        return Given(output, rooted=rooted)
    scaled, _, more = given.partition(" + ")
    output, _, factor = scaled.partition(" * ")
    added, _, weight = more.partition(" * ")
    return Given(output, factor, added, weight)


def terms(operand: str) -> tuple[Term, ...]:
    """The alternatives of an operand; the first that is there holds."""
    return tuple(map(_term, operand.split(" or ")))


def _term(text: str) -> Term:
    number, _, given = text.partition(" per ") if " per " in text or re.fullmatch(_NUMBER, text) else ("", "", text)
    value = float(number) if number else None
    if not given:
        return Term(value)
    first, relation, other = next(
        (given.partition(f" {one} ") for one in RELATIONS if f" {one} " in given), (given, "", "")
    )
    found = _PARTS.fullmatch(first)
    assert found is not None
    bounds = (found["cut"] or "")[1:-1].split(":") if found["cut"] else []
    cut = tuple(None if not bound else bound if bound.isidentifier() else int(bound) for bound in bounds)
    more = _term(other) if relation else None
    return Term(value, found["name"], found["part"] or "", cut, relation.strip(), more)
