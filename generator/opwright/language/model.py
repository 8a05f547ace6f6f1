"""The model of a spec as frozen dataclasses: the keys of the spec language, each with its meaning.

The fields are the keys of the YAML files. `load.py` creates these from text and resolves every `use`, so that
operations are complete after loading; check/ verifies what the types alone cannot express.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..memo import memoised
from .dtypes import DTYPES
from .entries import AXIS as AXIS
from .entries import FIELD as FIELD
from .entries import IDENTIFIER as IDENTIFIER
from .entries import OP_NAME as OP_NAME
from .entries import ROLE as ROLE
from .entries import SLUG as SLUG
from .entries import SPATIAL_AXES as SPATIAL_AXES
from .entries import SYMBOL as SYMBOL
from .entries import VALUE as VALUE
from .entries import AllowedValue as AllowedValue
from .entries import Arrangement as Arrangement
from .entries import Aten as Aten
from .entries import Attribute as Attribute
from .entries import Dim as Dim
from .entries import RefusedValue as RefusedValue
from .entries import Tensor as Tensor
from .entries import mark as mark
from .onnx_nodes import Onnx as Onnx
from .schema import (
    ASSIGNMENTS,
    Assignment,
    Formula,
    Integer,
    ListOf,
    Located,
    MapOf,
    OneOf,
    Statement,
    Text,
)
from .source import Mark
from .structs import Node, Struct, key
from .surface import snake_case


@dataclass(frozen=True)
class Let(Node):
    """A named value: one expression, or one per word of a string attribute."""

    shorthand = "value"
    use: str | None = key(IDENTIFIER, "a shared value of _common.yaml")
    value: Located | None = key(Formula(), "the expression")
    by: str | None = key(IDENTIFIER, "the string attribute that selects")
    cases: dict[str, Located] = key(MapOf(VALUE, Formula()), "the expression for each of its words", default={})
    neutral: int | None = key(Integer(), "the value on spatial axes that a call does not have")
    summary: str | None = key(Text(), "what it is")
    source: str | None = key(SLUG, "the page that states it")
    at: Mark = mark()


@dataclass(frozen=True)
class Constraint(Node):
    """A condition that every legal call satisfies."""

    shorthand = "use"
    use: str | None = key(SLUG, "a shared constraint of _common.yaml")
    id: str | None = key(SLUG, "the rule's name in errors")
    expr: Located | None = key(Formula(), "the condition")
    say: str | None = key(Text(), "the condition as a sentence")
    argument: str | None = key(IDENTIFIER, "the argument that a caller would change")
    nearest: Located | None = key(Formula(), "the nearest legal value of that argument")
    source: str | None = key(SLUG, "the page that states it")
    at: Mark = mark()


@dataclass(frozen=True)
class GroupClass(Node):
    """A family of calls that gets kernels of its own, because some sizes are then known."""

    shorthand = "use"
    use: str | None = key(IDENTIFIER, "a shared class of _common.yaml")
    name: str | None = key(IDENTIFIER, "its part of kernel names")
    when: Located | None = key(Formula(), "the calls that belong to it; if omitted, all that remain")
    let: dict[str, Located] = key(MapOf(SYMBOL, Formula()), "the sizes that are known, with their values", default={})
    summary: str | None = key(Text(), "what it is")
    at: Mark = mark()


@dataclass(frozen=True)
class Step(Node):
    """An assignment over all values of its letters, complete before the next one. A bare text stands for its `do`."""

    shorthand = "do"
    do: Assignment | None = key(Statement(tuple(ASSIGNMENTS)), "the assignment")
    where: tuple[Located, ...] = key(
        ListOf(Formula()), "only letters for which all of these hold take part", default=()
    )
    by: str | None = key(IDENTIFIER, "the string or boolean attribute that selects")
    cases: dict[str, Assignment | None] = key(
        MapOf(VALUE, Statement(tuple(ASSIGNMENTS))), "the assignment for each of its words", default={}
    )
    at: Mark = mark()

    @property
    def assignments(self) -> tuple[Assignment, ...]:
        """`do`, or one per case."""
        found = (self.do,) if self.do is not None else self.cases.values()
        return tuple(assignment for assignment in found if assignment is not None)


@dataclass(frozen=True)
class Semantics(Node):
    """What the operation computes: an assignment over all values of the range letters, or several steps."""

    ranges: dict[str, Located] = key(
        MapOf(SYMBOL, Formula()),
        "each range letter and its extent, in the order of accumulation",
        required=True,
        default={},
    )
    init: str = key(Text(), "the value of a cell that no assignment reaches: a number, `inf` or `-inf`", default="0")
    where: tuple[Located, ...] = key(
        ListOf(Formula()), "only index tuples for which all of these hold take part", default=()
    )
    steps: tuple[Step, ...] = key(
        ListOf(Struct(Step)), "several assignments, instead of `reduce`", default=(), silent=True
    )
    reduce: Assignment | None = key(Statement(("+", "max")), "out[...] += value, or out[...] max= value")
    finish: Located | None = key(
        Formula(), "the stored value, from the accumulated cell; `count` is the number of its terms"
    )
    at: Mark = mark()

    @property
    def assignment(self) -> Assignment:
        """`reduce`; the loader ensures that it is present."""
        assert self.reduce is not None
        return self.reduce


@dataclass(frozen=True)
class NormalForm(Node):
    """Which tensor of a convolution the operation computes: the big one, the small one or the weights."""

    solve: str = key(
        OneOf(("x", "y", "w")), "the tensor that is computed: x big, y small, w weights", required=True, default=""
    )
    big: str = key(IDENTIFIER, "the tensor that is indexed with strides", required=True, default="")
    small: str = key(IDENTIFIER, "the other data tensor", required=True, default="")
    weights: Located | None = key(
        Formula(), "the weights as name[group, small channel, big channel, tap]", required=True
    )
    bias: str | None = key(IDENTIFIER, "the tensor added per output channel")
    groups: str = key(SYMBOL, "the number of groups", default="G")
    stride: str = key(SYMBOL, "the stride", default="S")
    dilation: str = key(SYMBOL, "the dilation", default="D")
    pad: str = key(SYMBOL, "the padding in front", default="PB")
    at: Mark = mark()


@dataclass(frozen=True)
class Relation(Node):
    """A relation to another operation, which tests verify."""

    equals: str | None = key(OP_NAME, "an operation that computes the same result")
    adjoint: str | None = key(OP_NAME, "the operation that is the adjoint in one input")
    in_: str | None = key(IDENTIFIER, "for adjoint: the input in which this operation is linear")
    gradient: str | None = key(OP_NAME, "the operation that computes the gradient")
    of: str | None = key(IDENTIFIER, "for gradient: the input with respect to which it is taken")
    gradient_of: str | None = key(
        OP_NAME, "the operation whose gradient this one is, as derived from its semantics", silent=True
    )
    with_: dict[str, str] = key(
        MapOf(IDENTIFIER, IDENTIFIER), "the other operation's tensors, each with this one's", default={}
    )
    formats: dict[str, str] = key(MapOf(VALUE, VALUE), "layout words, each with the other operation's", default={})
    at: Mark = mark()


@dataclass(frozen=True)
class Discrepancy(Node):
    """A disagreement between the sources, and the ruling."""

    shorthand = "use"
    use: str | None = key(SLUG, "a shared discrepancy of _common.yaml")
    id: str | None = key(SLUG, "its name")
    page: str | None = key(Text(), "what the pages say")
    library: str | None = key(Text(), "what the library does")
    ruling: str | None = key(Text(), "what this specification says")
    why: str | None = key(Text(), "why")
    concerns: tuple[str, ...] = key(
        ListOf(FIELD), "the fields it rules on, as `opwright audit` names them; `*` stands for any one part", default=()
    )
    at: Mark = mark()


@dataclass(frozen=True)
class RankRange(Node):
    """How many spatial axes the tensors may have."""

    min: int = key(Integer(0, 3), "the minimum", required=True, default=0)
    max: int = key(Integer(0, 3), "the maximum", required=True, default=0)
    at: Mark = mark()


@dataclass(frozen=True, eq=False)  # hashed by identity, so that derived results can be memoised
class Op(Node):
    """One operation."""

    op: str = key(OP_NAME, "the operation's name", required=True, default="")
    function_: str | None = key(
        IDENTIFIER, "the name of its function, if not the operation's name in snake case", silent=True
    )
    revision: int = key(Integer(1, 10**6), "raised whenever the meaning changes", required=True, default=1)
    summary: str = key(Text(), "one sentence", required=True, default="")
    description: str | None = key(Text(), "further explanation")
    deprecated: str | None = key(Text(), "says that the operation will be removed and what to use instead; calls warn")
    source: tuple[str, ...] = key(ListOf(SLUG), "the pages it was transcribed from", default=())
    spatial_rank: RankRange = key(Struct(RankRange), "how many spatial axes", default=RankRange())
    dims: dict[str, Dim] = key(MapOf(ROLE, Struct(Dim)), "the sizes by their roles", required=True, default={})
    attributes: tuple[Attribute, ...] = key(
        ListOf(Struct(Attribute)), "the attributes, in the page's order", default=()
    )
    layouts: dict[str, dict[str, tuple[str, ...]]] = key(
        MapOf(IDENTIFIER, MapOf(VALUE, ListOf(AXIS))), "the order of axes for each word of an attribute", default={}
    )
    inputs: tuple[Tensor, ...] = key(
        ListOf(Struct(Tensor)), "the inputs, in the page's order", required=True, default=()
    )
    outputs: tuple[Tensor, ...] = key(ListOf(Struct(Tensor)), "the outputs", required=True, default=())
    dtypes: tuple[dict[str, str], ...] = key(
        ListOf(MapOf(IDENTIFIER, OneOf(tuple(DTYPES)))), "the supported rows", required=True, default=()
    )
    let: dict[str, Let] = key(MapOf(SYMBOL, Struct(Let)), "named values", default={})
    padding: dict[str, Let] = key(MapOf(SYMBOL, Struct(Let)), "named values that make the padding", default={})
    shape: dict[str, Let] = key(MapOf(SYMBOL, Struct(Let)), "the extents that only the output has", default={})
    constraints: tuple[Constraint, ...] = key(ListOf(Struct(Constraint)), "the conditions on a call", default=())
    classes: tuple[GroupClass, ...] = key(
        ListOf(Struct(GroupClass)), "families of calls; the first whose condition holds applies", default=()
    )
    semantics: Semantics = key(Struct(Semantics), "what it computes", required=True, default=Semantics())
    normal_form: NormalForm | None = key(Struct(NormalForm), "the form that fast kernels are made from")
    relations: tuple[Relation, ...] = key(ListOf(Struct(Relation)), "relations to other operations", default=())
    torch: tuple[Aten, ...] = key(
        ListOf(Struct(Aten)),
        "the operators of PyTorch that it stands for; the first that fits a call",
        default=(),
        silent=True,
    )
    onnx: tuple[Onnx, ...] = key(
        ListOf(Struct(Onnx)), "the nodes of ONNX that it computes; the first that fits one", default=(), silent=True
    )
    discrepancies: tuple[Discrepancy, ...] = key(ListOf(Struct(Discrepancy)), "where sources disagree", default=())
    at: Mark = mark()

    @property
    @memoised
    def function(self) -> str:
        """The name of its Python function and the stem of its C names: `function`, or its name in snake_case."""
        return self.function_ or snake_case(self.op)

    @property
    @memoised
    def tensors(self) -> tuple[Tensor, ...]:
        """Data inputs and outputs, without shape inputs."""
        return (*self.data_inputs, *self.outputs)

    @property
    @memoised
    def data_inputs(self) -> tuple[Tensor, ...]:
        return tuple(tensor for tensor in self.inputs if not tensor.shape_of)

    @property
    def output(self) -> Tensor:
        return self.outputs[0]

    @property
    def stepped(self) -> bool:
        """Whether its semantics are steps."""
        return bool(self.semantics.steps)

    @property
    @memoised
    def runs(self) -> frozenset[str]:
        """The symbols of sizes that are runs of axes."""
        return frozenset(dim.symbol for dim in self.dims.values() if dim.run)

    def tensor(self, name: str) -> Tensor:
        return next(tensor for tensor in (*self.inputs, *self.outputs) if tensor.name == name)

    def attribute(self, name: str) -> Attribute:
        return next(attribute for attribute in self.attributes if attribute.name == name)

    @property
    def lets(self) -> dict[str, Let]:
        """Every computed value: let, padding and shape."""
        return {**self.let, **self.padding, **self.shape}

    @property
    @memoised
    def layout_attributes(self) -> tuple[str, ...]:
        """The attributes that order the axes of some tensor, in order of use."""
        return tuple(dict.fromkeys(tensor.layout for tensor in self.tensors if tensor.layout))

    def orders(self, layout: str) -> dict[str, tuple[str, ...]]:
        """The orders of axes that calls may ask for, by the words of their attribute; `layouts` may have more."""
        attribute = self.attribute(layout)
        words = ["false", "true"] if attribute.type == "bool" else [value.value for value in attribute.values or ()]
        return {word: tuple(order) for word, order in self.layouts[layout].items() if word in words}

    def stated_by(self, output: Tensor) -> tuple[Tensor | Attribute, ...]:
        """The shape inputs and attributes that state an output's shape; the first one given wins."""
        givers: tuple[Tensor | Attribute, ...] = (*self.inputs, *self.attributes)
        return tuple(giver for giver in givers if giver.shape_of == output.name)
