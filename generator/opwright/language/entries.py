"""The entries of a spec that callers see: sizes, attributes and tensors, as frozen dataclasses.

Each field is a key of the spec language with its meaning; model.py has the other entries.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from .schema import Flag, Formula, Integer, ListOf, Located, MapOf, OneOf, Text, Word
from .source import Mark
from .structs import Node, Struct, key

SYMBOL = Word(r"[A-Za-z][A-Za-z0-9]*", "a symbol (letters and digits)", identifier=True)
IDENTIFIER = Word(r"[a-z][a-z0-9]*(_[a-z0-9]+)*", "a lower-case identifier", identifier=True)
ATTRIBUTE = Word(
    IDENTIFIER.pattern, IDENTIFIER.what, identifier=True, alias=", with `page_name: {}` for the name on pages"
)
ROLE = Word(IDENTIFIER.pattern, IDENTIFIER.what)  # stands in texts alone, so that reserved words are free
OP_NAME = Word(r"[A-Z][A-Za-z0-9]*", "an operation's name (CamelCase)", identifier=True)
SLUG = Word(r"[A-Za-z0-9]+([-_.][A-Za-z0-9]+)*", "a short name of letters, digits and dashes")
AXIS = Word(r"[A-Z][A-Za-z0-9]*", "an axis name")
VALUE = Word(r"[A-Za-z][A-Za-z0-9_]*", "a word")
ATEN = Word(r"[a-z_][a-z0-9_]*(\.[A-Za-z0-9_]+)?", "the name of an operator of PyTorch, optionally with an overload")
THEIRS = Word(r"[a-z_][a-z0-9_]*", "an argument of PyTorch")
LITERAL = Word(r"[A-Za-z0-9_.-]+", "a plain value")
FIELD = Word(r"[a-z_]+(\.([A-Za-z0-9_-]+|\*))*", "a path of fields, such as attributes.strides.min")

SPATIAL_AXES = ("d", "h", "w")


def mark() -> Mark:
    return field(default_factory=Mark, compare=False, repr=False)


@dataclass(frozen=True)
class Dim(Node):
    """A size that tensors share, named by its role."""

    shorthand = "symbol"
    symbol: str = key(SYMBOL, "the letter that stands for it in expressions", default="")
    per_axis: bool | None = key(Flag(), "one value per spatial axis")
    run: bool | None = key(Flag(), "one value per axis of a run, which has any number of axes", silent=True)
    min: int | None = key(Integer(0), "the minimum extent")
    typical: int | None = key(Integer(1, 2**20), "a typical extent; helps to choose the innermost loop")
    summary: str | None = key(Text(), "what it counts")
    at: Mark = mark()


@dataclass(frozen=True)
class AllowedValue(Node):
    """A word that a string attribute takes."""

    shorthand = "value"
    value: str = key(VALUE, "the word", required=True, default="")
    aliases: tuple[str, ...] = key(ListOf(VALUE), "other spellings that mean the same", default=())
    at: Mark = mark()


@dataclass(frozen=True)
class RefusedValue(Node):
    """A word that callers may expect to work, and why it does not."""

    value: str = key(VALUE, "the word", required=True, default="")
    discrepancy: str = key(SLUG, "the discrepancy that explains it", required=True, default="")
    say: str = key(Text(), "what to use instead, and why", required=True, default="")
    at: Mark = mark()


@dataclass(frozen=True)
class Attribute(Node):
    """A parameter of an operation that is not a tensor."""

    shorthand = "use"
    use: str | None = key(IDENTIFIER, "a shared attribute of _common.yaml to start from")
    name: str | None = key(ATTRIBUTE, "its name in calls")
    page_name: str | None = key(VALUE, "its name on pages and in graph dumps, if calls cannot use it", silent=True)
    symbol: str | None = key(SYMBOL, "the letter that stands for it in expressions")
    type: str | None = key(OneOf(("s64", "s64[]", "string", "f32", "bool", "f32[]")), "its type")
    required: bool | None = key(Flag(), "whether every call must give it")
    default: str | None = key(Text(), "the value if a call omits it; a single number fills a list")
    min: int | None = key(Integer(), "the minimum of each entry")
    max: int | None = key(Integer(), "the maximum of each entry")
    length: str | None = key(OneOf(("spatial", "any")), "how many entries a list has")
    surplus: int | None = key(Integer(), "extra entries are accepted if all of them equal this")
    neutral: int | None = key(Integer(), "the value on spatial axes that a call does not have")
    values: tuple[AllowedValue, ...] | None = key(ListOf(Struct(AllowedValue)), "the words that a string may take")
    refuse: tuple[RefusedValue, ...] | None = key(ListOf(Struct(RefusedValue)), "words that are refused with a reason")
    shape_of: str | None = key(IDENTIFIER, "the output whose shape this list states")
    locates: str | None = key(ROLE, "the size or run whose position among the axes it gives", silent=True)
    dtype_of: str | None = key(IDENTIFIER, "the output whose data type this word selects", silent=True)
    per: str | None = key(
        SYMBOL, "the size that gives the number of entries; a single entry applies to all", silent=True
    )
    order_of: str | None = key(
        IDENTIFIER, "the tensor whose axes it orders: the first entry names the first axis", silent=True
    )
    extents_of: str | None = key(ROLE, "the run of axes whose extents it lists", silent=True)
    fills: str | None = key(
        ROLE, "the run with the same number of cells; -1 is computed from the other entries", silent=True
    )
    keeps: str | None = key(
        IDENTIFIER,
        "the boolean attribute that makes 0 stand for the extent of `fills` at the same position",
        silent=True,
    )
    blocks: dict[str, Located] | None = key(
        MapOf(ROLE, Formula()),
        "a size and the extent of its blocks: the list's entry at that axis; on all others it has 1",
        silent=True,
    )
    summary: str | None = key(Text(), "what it means")
    source: str | None = key(SLUG, "the page that states it, an entry of _sources.yaml")
    reason: str | None = key(Text(), "why it differs from the other operations' attribute of this name")
    at: Mark = mark()


@dataclass(frozen=True)
class Arrangement(Node):
    """One way to split the axes of a tensor over groups."""

    dims: dict[str, Located] = key(MapOf(AXIS, Formula()), "the extent of each axis", required=True, default={})
    index: dict[str, Located] = key(
        MapOf(AXIS, Formula()), "the index on each axis, in the tensor's view letters", required=True, default={}
    )
    summary: str | None = key(Text(), "which sources use it")
    at: Mark = mark()


@dataclass(frozen=True)
class Tensor(Node):
    """An input or an output."""

    name: str = key(IDENTIFIER, "its name in calls", required=True, default="")
    parameter: str | None = key(IDENTIFIER, "the name of its parameter in Python, if different")
    optional: bool = key(Flag(), "whether a call may omit it; an omitted input reads as zero", default=False)
    absent: str | None = key(Text(), "the number that an omitted input reads as; also `inf` or `-inf`", silent=True)
    when: Located | None = key(Formula(), "the calls that have it; others do not", silent=True)
    broadcast: tuple[str, ...] = key(
        ListOf(AXIS),
        "the axes that broadcast: the extent may be 1, and a run may have fewer axes",
        default=(),
        silent=True,
    )
    broadcast_if: dict[str, str] = key(
        MapOf(IDENTIFIER, VALUE),
        "the word of an attribute with which it broadcasts; it does not with other words",
        default={},
        silent=True,
    )
    broadcast_as: str | None = key(
        IDENTIFIER,
        "the input whose shape an output has: values at positions that share one element of the input are combined",
        silent=True,
    )
    may_lack: tuple[str, ...] = key(
        ListOf(AXIS),
        "axes that an array may omit, which then have extent 1; outputs omit those that inputs do",
        default=(),
        silent=True,
    )
    joined: str | None = key(AXIS, "the axis along which a list of any number of arrays is concatenated", silent=True)
    packed: str | None = key(AXIS, "the axis along which two numbers of four bits share a byte", silent=True)
    layout: str | None = key(IDENTIFIER, "the attribute that orders its axes")
    dims: dict[str, Located] = key(MapOf(AXIS, Formula()), "axis name to extent, outermost first", default={})
    view: tuple[str, ...] = key(ListOf(SYMBOL), "the index letters with which the semantics read it", default=())
    arrangements: dict[str, Arrangement] = key(
        MapOf(IDENTIFIER, Struct(Arrangement)), "ways to split its axes over groups", default={}
    )
    shape_of: str | None = key(IDENTIFIER, "the output whose shape this vector of integers states")
    summary: str | None = key(Text(), "what it holds")
    source: str | None = key(SLUG, "the page that states it")
    at: Mark = mark()

    @property
    def dims_by_arrangement(self) -> dict[str, dict[str, Located]]:
        """The extents of its axes, per arrangement; a tensor without arrangements has one, named ''."""
        return {name: arrangement.dims for name, arrangement in self.arrangements.items()} or {"": self.dims}


@dataclass(frozen=True)
class Aten(Node):
    """An operator of PyTorch whose calls this operation computes, or one result of them."""

    aten: str = key(
        ATEN, "its name in PyTorch's library `aten`, with the overload behind a dot", required=True, default=""
    )
    when: dict[str, str] = key(
        MapOf(THEIRS, LITERAL), "arguments that must have these values, such as `true`, `1` or `none`", default={}
    )
    arguments: dict[str, str] = key(
        MapOf(IDENTIFIER, THEIRS), "inputs and attributes, each with the argument that provides it", default={}
    )
    words: dict[str, str] = key(MapOf(IDENTIFIER, VALUE), "attributes that always have the same value", default={})
    gives: int = key(Integer(0, 7), "the number of the result that is the first output", default=0)
    at: Mark = mark()
