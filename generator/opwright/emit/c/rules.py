"""Translates calls of rules in a generated `resolve` to C functions of the same names in templates/interface.

In: calls of the package's modules _rules.py and _axes.py. Out: C nodes, and the kind of each value.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass, field

from ..nodes import ZERO, Assign, Binary, Declare, Do, Expr, Index, Member, Name, Room, Stmt, Text, Unary, call, integer
from .expressions import C_TYPES, CONTEXT, NONE, NULL, Expressions, Value, address


@dataclass
class Rules(Expressions):
    """Translates calls that return a value (`make_`) and calls that only check (`do_`), by the name of the function."""

    outputs: tuple[str, ...] = ()
    tensors: Mapping[str, Expr] = field(default_factory=dict)  # the form of each input in the call's struct
    stated: Mapping[str, str] = field(default_factory=dict)  # by attribute, the output whose data type it selects
    axes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # of each tensor
    early: list[Stmt] = field(default_factory=list)  # early declarations
    choice: Name = NULL

    def variable(self, name: str, value: Value) -> Value:
        """A named value; assigned if it has an early declaration."""
        known = self.names.get(name)
        if value.kind not in C_TYPES or value.kind in ("axes", "places"):
            return value
        if known is not None and known.node == Name(f"{name}_opw"):
            self.body.append(Assign(known.node, value.node))
            return Value(known.node, value.kind, value.vectors)
        own = self.fresh(name)
        c_type = C_TYPES[value.kind].removeprefix("const ")
        self.body.append(Declare(own.name, value.node, c_type))
        return Value(own, value.kind, value.vectors)

    def options(self, node: ast.Call, *names: str) -> list[Expr]:
        given = {keyword.arg: keyword.value for keyword in node.keywords}
        return [self.node(given[name]) if name in given else NONE for name in names]

    def place_of(self, name: str, kind: str) -> Name:
        """The variable of a type with members: its early declaration, or a new one."""
        known = self.names.get(name)
        if known is not None and known.node == Name(f"{name}_opw"):
            self.body.append(Do(call(f"opw_begin_{C_TYPES[kind].removeprefix('opw_')}", address(known.node))))
            return Name(f"{name}_opw")
        return self.room(kind)

    def make_word(self, name: str, node: ast.Call) -> Value:
        words = address(Name(f"WORDS_{text_of(node.args[0])}"))
        return Value(call("opw_word", CONTEXT, *map(self.node, node.args[:2]), words), "word")

    def make_truth(self, name: str, node: ast.Call) -> Value:
        return self.value(node.args[1])

    def make_dtype_word(self, name: str, node: ast.Call) -> Value:
        attribute, given, _, default = node.args
        words = address(Name(f"WORDS_{text_of(attribute)}"))
        output = Text(self.stated[text_of(attribute)])
        return Value(
            call("opw_dtype_word", CONTEXT, *map(self.node, (attribute, given)), words, self.node(default), output),
            "word",
        )

    def make_dtype_row(self, name: str, node: ast.Call) -> Value:
        stated = entries_of(node.args[2]) if len(node.args) > 2 else []
        arguments: list[Expr] = [NULL, NULL, NULL]
        for output, pair in stated:
            assert isinstance(pair, ast.Tuple)
            arguments = [Text(output), *map(self.node, pair.elts)]
        self.body.append(Declare("row", call("opw_dtype_row", CONTEXT, *arguments)))
        self.names["row"] = Value(Name("row"), "row")
        return self.names["row"]

    def make_integer(self, name: str, node: ast.Call) -> Value:
        limits = self.options(node, "minimum", "maximum")
        return Value(call("opw_integer", CONTEXT, *map(self.node, node.args), *limits), "int")

    def make_real(self, name: str, node: ast.Call) -> Value:
        limits = self.options(node, "minimum", "maximum")
        return Value(call("opw_real", CONTEXT, *map(self.node, node.args), *limits), "real")

    def make_integers(self, name: str, node: ast.Call) -> Value | None:
        if isinstance(node.args[2], ast.Constant):  # a list with an entry per value of a size stays as given
            self.entries(node)
            return None
        arguments = [*map(self.node, node.args), *self.options(node, "minimum", "maximum", "surplus", "default")]
        return Value(call("opw_integers", CONTEXT, *arguments), "ints")

    def make_reals(self, name: str, node: ast.Call) -> Value | None:
        if len(node.args) == 2:
            self.entries(node, "opw_real_entries")
            return None
        default = next((k.value for k in node.keywords if k.arg == "default"), None)
        neutral: Expr = NULL if default is None else call("OPWRIGHT_REAL_OF", self.node(default))
        arguments = [*map(self.node, node.args), *self.options(node, "minimum", "maximum"), neutral]
        return Value(call("opw_spatial_reals", CONTEXT, *arguments), "reals")

    def entries(self, node: ast.Call, rule: str = "opw_entries") -> None:
        value = self.value(node.args[1])
        readable = Binary("||", call("OPWRIGHT_HAS", value.node), call("OPWRIGHT_EMPTY", value.node))
        self.body.append(Do(call(rule, CONTEXT, self.node(node.args[0]), readable)))

    def make_spatial_rank(self, name: str, node: ast.Call) -> Value:
        return Value(call("opw_spatial_rank", CONTEXT, *map(self.node, node.args)), "int")

    def make_int64(self, name: str, node: ast.Call) -> None:
        value = self.variable(name, self.value(node.args[1]))
        self.body.append(Do(call("opw_int64", CONTEXT, self.node(node.args[0]), self.extent(value))))
        self.names[name] = value

    def make_split(self, name: str, node: ast.Call) -> Value:
        room = self.place_of(name, "axes")
        shape, order, vectors = node.args[:3]
        if len(node.args) == 4:
            spatial = self.node(vectors)
            arguments = [self.at(shape), self.node(order), spatial, self.node(node.args[3])]
            self.body.append(Do(call("opw_split", CONTEXT, address(room), *arguments)))
            named = {text_of(vectors)} if isinstance(vectors, ast.Constant) and vectors.value else set[str]()
            return self.known(name, room, frozenset(named))
        names = frozenset(ast.literal_eval(vectors))
        arguments = [self.at(shape), self.at(order), self.node(vectors)]
        self.body.append(Do(call("opw_cut", CONTEXT, address(room), *arguments)))
        return self.known(name, room, names)

    def known(self, name: str, room: Name, vectors: frozenset[str]) -> Value:
        self.names[name] = Value(room, "axes", vectors)
        return self.names[name]

    def make_choose(self, name: str, node: ast.Call) -> Value:
        self.choose(node)
        return Value(call("opw_chosen", CONTEXT, address(self.choice), *map(self.node, node.args[:2])), "int")

    def choose(self, node: ast.Call) -> None:
        self.choice = self.fresh("choice")
        order, axes, arrangements = node.args[2:]
        self.body.append(Room(self.choice.name, "opw_choice", plain=True))
        arguments = (address(self.choice), self.node(order), self.at(axes))
        self.body.append(Do(call("opw_choose", *arguments)))
        assert isinstance(arrangements, ast.Tuple)
        for arrangement in arrangements.elts:
            assert isinstance(arrangement, ast.Tuple)
            for axis, value in entries_of(arrangement.elts[1]):
                assert isinstance(value, ast.Lambda)
                made = self.extent(self.value(value.body))
                self.body.append(Do(call("opw_known", CONTEXT, address(self.choice), Text(axis), made)))
            for axis, position in entries_of(arrangement.elts[2]):
                self.body.append(Do(call("opw_unknown", address(self.choice), Text(axis), self.node(position))))
            self.body.append(Do(call("opw_arrangement", CONTEXT, address(self.choice), self.node(arrangement.elts[0]))))

    def make_position(self, name: str, node: ast.Call) -> Value:
        end = any(keyword.arg == "end" for keyword in node.keywords)
        arguments = [*map(self.node, node.args), Name("true" if end else "false")]
        return Value(call("opw_position", CONTEXT, *arguments[:3], *arguments[3:]), "int")

    def make_positions(self, name: str, node: ast.Call) -> Value:
        return Value(call("opw_positions", CONTEXT, *map(self.node, node.args)), "ints")

    def make_before(self, name: str, node: ast.Call) -> Value:
        return Value(call("opw_before", CONTEXT, *map(self.node, node.args)), "int")

    def make_rest(self, name: str, node: ast.Call) -> Value:
        return Value(call("opw_rest", CONTEXT, *map(self.node, node.args)), "int")

    def make_present(self, name: str, node: ast.Call) -> Value:
        return Value(call("opw_present", *map(self.node, node.args)), "int")

    def make_placed(self, name: str, node: ast.Call) -> Value:
        room = self.place_of(name, "places")
        order, counts, spots = node.args
        for axis, count in entries_of(counts):
            arguments = (CONTEXT, address(room), Text(axis), self.node(count))
            self.body.append(Do(call("opw_place", *arguments)))
        for axis, position in entries_of(spots):
            arguments = (CONTEXT, address(room), Text(axis), self.at(position))
            self.body.append(Do(call("opw_say_place", *arguments)))
        self.body.append(Do(call("opw_placed", CONTEXT, address(room), self.node(order))))
        self.names[name] = Value(room, "places")
        return self.names[name]

    def make_ordered(self, name: str, node: ast.Call) -> Value:
        attribute, given, tensor, places = map(self.node, node.args)
        self.body.append(Do(call("opw_ordered", CONTEXT, attribute, given, tensor, address(places))))
        return self.names[name]

    def make_join(self, name: str, node: ast.Call) -> Value:
        order = self.value(node.args[0])
        extents = self.dictionary(node.args[1])
        if order.kind == "places":
            return Value(call("opw_join", CONTEXT, address(order.node), address(extents)), "ints")
        return Value(call("opw_join_order", CONTEXT, order.node, address(extents)), "ints")

    def dictionary(self, node: ast.expr, room: Expr | None = None) -> Expr:
        """A dictionary of extents."""
        into = room or self.room("axes")
        for axis, part in entries_of(node):
            value = self.value(part)
            if value.kind in ("int", "bool", "ints"):
                self.body.append(Do(call("opw_set", address(into), Text(axis), self.extent(value))))
            else:
                raise self.unknown(part)
        return into

    def make_broadcast_extent(self, name: str, node: ast.Call) -> Value:
        parts = node.args[1]
        assert isinstance(parts, ast.Tuple)
        kinds, made = self.parts(
            [(self.node(p.elts[0]), p.elts[1], self.node(p.elts[2])) for p in parts.elts if isinstance(p, ast.Tuple)]
        )
        arguments = (CONTEXT, self.node(node.args[0]), made, integer(len(parts.elts)))
        whole = call("opw_broadcast_extent", *arguments)
        if "ints" in kinds:
            return Value(whole, "ints")
        room = self.fresh("extent")
        self.body.append(Declare(room.name, whole, "opw_ints"))
        return Value(call("opw_at", address(room), ZERO), "int")

    def parts(self, parts: list[tuple[Expr, ast.expr, Expr]]) -> tuple[set[str], Expr]:
        """The inputs that determine a size: whether each is given, its extent, and whether it may broadcast."""
        kinds, rows = set[str](), list[Expr]()
        for name, given, stretches in parts:
            there: Expr = Name("true")
            if isinstance(given, ast.IfExp):
                there, given = Unary("!", self.node(given.test)), given.orelse
            if isinstance(given, ast.Call) and isinstance(given.func, ast.Attribute) and given.func.attr == "get":
                axes, (axis,) = given.func.value, given.args  # an axis that a word of a layout may leave out
                has = call("opw_has_axis", address(self.node(axes)), self.node(axis))
                there, given = has if there == Name("true") else Binary("&&", there, has), ast.Subscript(axes, axis)
            value = self.value(given)
            kinds.add(value.kind)
            if value.kind == "ints":
                part = self.fresh("part")
                self.body.append(Declare(part.name, value.node, "opw_ints"))
                value = Value(part, "ints")
            rows.append(call("OPWRIGHT_PART", name, there, stretches, self.extent(value)))
        return kinds, call("OPWRIGHT_PARTS", *rows)

    def make_stated(self, name: str, node: ast.Call) -> Value:
        whole = self.at(node.args[2]) if len(node.args) > 2 else NULL
        keeps = self.node(node.args[3]) if len(node.args) > 3 else Name("false")
        return Value(call("opw_stated", CONTEXT, *map(self.node, node.args[:2]), whole, keeps), "ints")

    def make_Shaped(self, name: str, node: ast.Call) -> None:  # noqa: N802  # named after the Python class
        self.names[name] = self.value(node.args[0])

    def make_several(self, name: str, node: ast.Call) -> None:
        self.body.append(Do(call("opw_several", CONTEXT, Text(name), self.tensors[name])))

    def make_concatenated(self, name: str, node: ast.Call) -> None:
        whole = Unary("&", Index(Member(CONTEXT, "inputs"), integer([*self.tensors].index(name))))
        spot = self.value(node.args[2]).node
        self.body.append(Do(call("opw_concatenate", CONTEXT, Text(name), self.tensors[name], whole, spot)))

    def make_stretched(self, name: str, node: ast.Call) -> Value:
        whole, parts = node.args
        assert isinstance(parts, ast.Tuple)
        no = Name("false")
        _, made = self.parts([(Text(""), part, no) for part in parts.elts])
        count = integer(len(parts.elts))
        return Value(call("opw_stretched", self.extent(self.value(whole)), made, count), "ints")

    def make_part(self, name: str, node: ast.Call) -> Value:
        whole, marks, number = node.args
        value = self.value(whole)
        made = call("opw_parts", self.extent(value), self.at(marks), self.node(number))
        if value.kind == "ints":
            return Value(made, "ints")
        room = self.fresh("part")
        self.body.append(Declare(room.name, made, "opw_ints"))
        return Value(call("opw_at", address(room), ZERO), "int")

    def make_parted(self, name: str, node: ast.Call) -> Value:
        before = self.names[name]
        room = self.fresh("places")
        self.early.append(Room(room.name, "opw_places"))
        marks = dict(entries_of(node.args[1]))
        for axis in self.axes[name.removesuffix("_at_")]:
            if axis not in marks:
                arguments = (CONTEXT, address(room), address(before.node), Text(axis))
                self.body.append(Do(call("opw_put_axis", *arguments)))
                continue
            pair = marks[axis]
            assert isinstance(pair, ast.Tuple)
            for number in range(ast.literal_eval(pair.elts[1])):
                names = (Text(axis), self.at(pair.elts[0]), integer(number), Text(f"{axis}_p{number}_"))
                self.body.append(Do(call("opw_put_part", CONTEXT, address(room), address(before.node), *names)))
        self.names[name] = Value(room, "places")
        return self.names[name]

    # Checks.

    def do(self, node: ast.expr) -> None:
        assert isinstance(node, ast.Call)
        name = ast.unparse(node.func).rpartition(".")[2]
        method = getattr(self, f"do_{name}", None)
        if method is not None:
            method(node)
        elif name in ("exact",):
            self.body.append(Do(call("(void)opw_exact", CONTEXT, *map(self.node, node.args))))
        elif name in ("axes_count", "before", "agrees", "distinct_axes"):
            self.body.append(Do(call(f"opw_{name}", CONTEXT, *map(self.node, node.args))))
        else:
            raise self.unknown(node)

    def do_extent(self, node: ast.Call) -> None:
        rule, argument, role, value, minimum = node.args
        arguments = (
            self.node(rule),
            self.node(argument),
            self.node(role),
            self.extent(self.value(value)),
            self.node(minimum),
        )
        self.body.append(Do(call("opw_at_least", CONTEXT, *arguments)))

    def do_choose(self, node: ast.Call) -> None:
        self.choose(node)
        made = call("opw_chosen", CONTEXT, address(self.choice), *map(self.node, node.args[:2]))
        self.body.append(Do(made))

    def do_output_bytes(self, node: ast.Call) -> None:
        shape, dtype = node.args
        assert isinstance(dtype, ast.Subscript)
        arguments = (self.at(shape), Name("row"), self.node(dtype.slice))
        self.body.append(Do(call("opw_output_bytes", CONTEXT, *arguments)))

    def do_bounded(self, node: ast.Call) -> None:
        what, value = node.args
        found = self.value(value)
        largest = call("opw_largest", address(self.stored(found).node)) if found.kind == "ints" else found.node
        self.body.append(Do(call("opw_bounded", CONTEXT, self.node(what), largest)))

    def do_blocks(self, node: ast.Call) -> None:
        name, value, tensor, places, axis, extent = node.args
        arguments = (*map(self.node, (name, value, tensor)), self.at(places), *map(self.node, (axis, extent)))
        self.body.append(Do(call("opw_blocks", CONTEXT, *arguments)))

    def do_fits(self, node: ast.Call) -> None:
        name, shape, axes, known = node.args
        arguments = (self.node(name), self.at(shape), self.at(axes), address(self.dictionary(known)))
        self.body.append(Do(call("opw_fits", CONTEXT, *arguments)))

    def do_per(self, node: ast.Call) -> None:
        kind = "reals" if self.value(node.args[1]).kind == "list of reals" else "ints"
        self.body.append(Do(call(f"opw_per_{kind}", CONTEXT, *map(self.node, node.args))))

    def do_presence(self, node: ast.Call) -> None:
        optional = self.node(node.keywords[0].value)
        self.body.append(Do(call("opw_presence", CONTEXT, *map(self.node, node.args), optional)))

    def do_counted(self, node: ast.Call) -> None:
        self.body.append(Do(call("opw_counted", CONTEXT, self.node(node.args[0]), Name("row"))))

    def do_divisor(self, node: ast.Call) -> None:
        value, message = node.args
        self.body.append(Do(call("opw_divisor", CONTEXT, self.extent(self.value(value)), self.node(message))))

    def do_not_negative(self, node: ast.Call) -> None:
        value, message = node.args
        self.body.append(Do(call("opw_not_negative", CONTEXT, self.extent(self.value(value)), self.node(message))))


def entries_of(node: ast.expr) -> list[tuple[str, ast.expr]]:
    assert isinstance(node, ast.Dict)
    return [(text_of(key), value) for key, value in zip(node.keys, node.values, strict=True) if key is not None]


def text_of(node: ast.expr | None) -> str:
    assert isinstance(node, ast.Constant)
    return str(node.value)
