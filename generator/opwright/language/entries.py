"""The entries of a spec that a caller meets: sizes, attributes and tensors, as frozen dataclasses.

In: nothing. Out: the words of the spec language for them, each with its meaning; model.py has the others.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from .schema import Flag, Formula, Integer, ListOf, Located, MapOf, Node, OneOf, Struct, Text, Word, key
from .source import Mark

SYMBOL = Word(r"[A-Za-z][A-Za-z0-9]*", "a symbol (letters and digits)", identifier=True)
IDENTIFIER = Word(r"[a-z][a-z0-9]*(_[a-z0-9]+)*", "a lower-case identifier", identifier=True)
OP_NAME = Word(r"[A-Z][A-Za-z0-9]*", "an operation's name (CamelCase)", identifier=True)
SLUG = Word(r"[A-Za-z0-9]+([-_.][A-Za-z0-9]+)*", "a short name of letters, digits and dashes")
AXIS = Word(r"[A-Z][A-Za-z0-9]*", "an axis name")
VALUE = Word(r"[A-Za-z][A-Za-z0-9_]*", "a word")
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
    run: bool | None = key(Flag(), "one value per axis of a run of its own, which has any number of axes", silent=True)
    min: int | None = key(Integer(0), "the least legal extent")
    typical: int | None = key(Integer(1, 2**20), "an everyday extent; decides which loop is worth being innermost")
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
    name: str | None = key(IDENTIFIER, "its name in calls")
    page_name: str | None = key(
        VALUE, "its name on pages and in graph dumps, where calls cannot bear that", silent=True
    )
    symbol: str | None = key(SYMBOL, "the letter that stands for it in expressions")
    type: str | None = key(OneOf(("s64", "s64[]", "string", "f32", "bool", "f32[]")), "its type")
    required: bool | None = key(Flag(), "whether every call must give it")
    default: str | None = key(Text(), "the value of a call that does not give it; one number fills a list")
    min: int | None = key(Integer(), "the least legal value of each entry")
    max: int | None = key(Integer(), "the greatest legal value of each entry")
    length: str | None = key(OneOf(("spatial", "any")), "how many entries a list has")
    surplus: int | None = key(Integer(), "entries beyond the length are accepted when they all equal this")
    neutral: int | None = key(Integer(), "the value on spatial axes that a call does not have")
    values: tuple[AllowedValue, ...] | None = key(ListOf(Struct(AllowedValue)), "the words a string may be")
    refuse: tuple[RefusedValue, ...] | None = key(ListOf(Struct(RefusedValue)), "words that are refused with a reason")
    shape_of: str | None = key(IDENTIFIER, "the output whose shape this list states")
    locates: str | None = key(
        IDENTIFIER, "the size whose axis, or the run whose axes, it says the place of", silent=True
    )
    dtype_of: str | None = key(IDENTIFIER, "the output whose data type this word states", silent=True)
    per: str | None = key(
        SYMBOL, "the size that the list has an entry for each of; one entry serves them all", silent=True
    )
    order_of: str | None = key(IDENTIFIER, "the tensor whose axes it orders: which one stands first, ...", silent=True)
    extents_of: str | None = key(IDENTIFIER, "the run of axes whose extents it lists", silent=True)
    fills: str | None = key(
        IDENTIFIER, "the run that has as many cells as those extents; -1 is what is left of them", silent=True
    )
    keeps: str | None = key(
        IDENTIFIER, "the truth attribute with which 0 is the extent of `fills` at its place", silent=True
    )
    summary: str | None = key(Text(), "what it means")
    source: str | None = key(SLUG, "the page that says so, an entry of _sources.yaml")
    reason: str | None = key(Text(), "why it differs from the other operations' attribute of this name")
    at: Mark = mark()


@dataclass(frozen=True)
class Arrangement(Node):
    """One way in which the axes of a tensor may be split over groups."""

    dims: dict[str, Located] = key(MapOf(AXIS, Formula()), "the extent of each axis", required=True, default={})
    index: dict[str, Located] = key(
        MapOf(AXIS, Formula()), "the index on each axis, in the tensor's view letters", required=True, default={}
    )
    summary: str | None = key(Text(), "who writes it so")
    at: Mark = mark()


@dataclass(frozen=True)
class Tensor(Node):
    """An input or an output."""

    name: str = key(IDENTIFIER, "its name in calls", required=True, default="")
    parameter: str | None = key(IDENTIFIER, "the name of its parameter in Python, where that must differ")
    optional: bool = key(Flag(), "whether a call may leave it out; it then reads as zero", default=False)
    absent: str | None = key(Text(), "the number that it reads as where it is left out", silent=True)
    when: Located | None = key(
        Formula(), "the calls that have it; where it does not hold, it is not there", silent=True
    )
    broadcast: tuple[str, ...] = key(
        ListOf(AXIS),
        "the axes that may have extent 1, or of a run be fewer, and then serve all",
        default=(),
        silent=True,
    )
    broadcast_if: dict[str, str] = key(
        MapOf(IDENTIFIER, VALUE),
        "the word of an attribute without which it does not broadcast",
        default={},
        silent=True,
    )
    may_lack: tuple[str, ...] = key(
        ListOf(AXIS),
        "the axes that an array may lack, as extents of 1; outputs lack what inputs do",
        default=(),
        silent=True,
    )
    joined: str | None = key(
        AXIS, "the axis along which it is joined from any number of arrays, given as a list", silent=True
    )
    layout: str | None = key(IDENTIFIER, "the attribute that orders its axes")
    dims: dict[str, Located] = key(MapOf(AXIS, Formula()), "axis name to extent, outermost first", default={})
    view: tuple[str, ...] = key(ListOf(SYMBOL), "the index letters by which semantics read it", default=())
    arrangements: dict[str, Arrangement] = key(MapOf(IDENTIFIER, Struct(Arrangement)), "ways to split it", default={})
    shape_of: str | None = key(IDENTIFIER, "the output whose shape this vector of integers states")
    summary: str | None = key(Text(), "what it holds")
    source: str | None = key(SLUG, "the page that says so")
    at: Mark = mark()

    @property
    def ways(self) -> dict[str, dict[str, Located]]:
        """The extents of its axes, per arrangement; a tensor without arrangements has one way, named ''."""
        return {name: way.dims for name, way in self.arrangements.items()} or {"": self.dims}
