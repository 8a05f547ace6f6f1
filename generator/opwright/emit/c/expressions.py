"""Expressions of a generated `resolve` as C nodes: numbers, booleans, words, and comprehensions over spatial axes.

In: Python ASTs of the text that templates/python prints. Out: nodes, and statements that must precede them.
The Python module is the only owner of every rule; it is translated here, not written again. Integers are
opw_int; their sums and products are functions, because they saturate.
"""

from __future__ import annotations

import ast
from collections import Counter
from dataclasses import dataclass, field

from ...language.source import Mark, Problem, SpecInvalid
from ..nodes import (
    ONE,
    ZERO,
    Assign,
    Binary,
    Call,
    Conditional,
    Declare,
    Do,
    Expr,
    For,
    Literal,
    Member,
    Name,
    Room,
    Stmt,
    Text,
    Unary,
    call,
    integer,
    names_of,
    real,
)

CONTEXT, ARGUMENTS = Name("opw"), Name("opw_call")
NULL, NONE = Name("NULL"), Name("OPWRIGHT_NONE")
_FUNCTIONS = {ast.Add: "opw_add", ast.Sub: "opw_sub", ast.Mult: "opw_mul"}
_SIGNS = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*"}
_COMPARED = {ast.Eq: "==", ast.NotEq: "!=", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">="}
_DIVISIONS = ("exact", "modulo", "floor_div", "ceil_div", "scaled")
# Names that are not variables.
_OWN = frozenset(("opw", "opw_call", "row", "group_class"))
C_TYPES = {
    "int": "opw_int",
    "real": "double",
    "bool": "bool",
    "word": "const char *",
    "ints": "opw_ints",
    "reals": "opw_doubles",
    "axes": "opw_axes",
    "places": "opw_places",
    "order": "opw_order",
}


@dataclass(frozen=True)
class Value:
    """A name or an expression in C: its node and its kind, a key of C_TYPES or `seen`, `list`, `tensors`."""

    node: Expr
    kind: str
    vectors: frozenset[str] = frozenset()  # of axes: those that stand for several


def address(node: Expr) -> Expr:
    return Unary("&", node)


@dataclass
class Expressions:
    """Translates expressions; `body` receives the statements that must precede the current one."""

    function: str
    mark: Mark  # of the operation
    names: dict[str, Value] = field(default_factory=dict)
    body: list[Stmt] = field(default_factory=list)
    taken: Counter[str] = field(default_factory=Counter)  # C names, and their number of uses

    def unknown(self, node: ast.AST) -> SpecInvalid:
        """The error for Python that has no translation to C."""
        text = f"the rules of {self.function} use {ast.unparse(node)[:200]!r}, which has no translation to C"
        return SpecInvalid([Problem(self.mark, "c-interface", text)])

    def fresh(self, name: str) -> Name:
        """An unused C name: that of the spec at its first use."""
        self.taken[name] += 1
        return Name(f"{name}_{self.taken[name]}_" if self.taken[name] > 1 or name in _OWN else name)

    def stored(self, value: Value) -> Value:
        """A value with an address."""
        if value.kind not in ("ints", "reals") or isinstance(value.node, (Name, Member)):
            return value
        name = self.fresh("value")
        self.body.append(Declare(name.name, value.node, C_TYPES[value.kind]))
        return Value(name, value.kind)

    def extent(self, value: Value) -> Expr:
        """A value as an opw_extent."""
        return call("OPWRIGHT_RUN" if value.kind == "ints" else "OPWRIGHT_ONE", self.stored(value).node)

    def at(self, node: ast.expr) -> Expr:
        """The address of a value."""
        return address(self.stored(self.value(node)).node)

    def room(self, kind: str) -> Name:
        """A new variable of a type with members, empty."""
        name = self.fresh(kind)
        self.body += [Room(name.name, C_TYPES[kind])]
        return name

    def value(self, node: ast.expr) -> Value:
        """An expression and its kind."""
        method = getattr(self, f"_{type(node).__name__.lower()}", None)
        if method is None:
            raise self.unknown(node)
        found: Value = method(node)
        return found

    def node(self, node: ast.expr) -> Expr:
        return self.value(node).node

    def _constant(self, node: ast.Constant) -> Value:
        if isinstance(node.value, bool):
            return Value(Name("true" if node.value else "false"), "bool")
        if isinstance(node.value, int):
            return Value(integer(node.value), "int")
        if isinstance(node.value, float):
            return Value(real(node.value, ""), "real")
        if isinstance(node.value, str):
            return Value(Text(node.value), "word")
        return Value(NULL, "none")

    def _name(self, node: ast.Name) -> Value:
        if node.id not in self.names:
            raise self.unknown(node)
        return self.names[node.id]

    def _binop(self, node: ast.BinOp) -> Value:
        if isinstance(node.left, ast.Tuple):  # (0,) * rank
            (entry,) = node.left.elts
            return Value(call("opw_repeated", self.node(entry), self.node(node.right)), "ints")
        left, right = self.value(node.left), self.value(node.right)
        if "real" in (left.kind, right.kind) and type(node.op) in _SIGNS:
            return Value(Binary(_SIGNS[type(node.op)], left.node, right.node), "real")
        if isinstance(node.op, ast.FloorDiv):
            return Value(call("opw_floor_div", CONTEXT, left.node, right.node), "int")
        if type(node.op) not in _FUNCTIONS:
            raise self.unknown(node)
        return Value(call(_FUNCTIONS[type(node.op)], left.node, right.node), "int")

    def _unaryop(self, node: ast.UnaryOp) -> Value:
        inner = self.value(node.operand)
        if isinstance(node.op, ast.Not):
            return Value(Unary("!", inner.node), "bool")
        return Value(Unary("-", inner.node), inner.kind)

    def _boolop(self, node: ast.BoolOp) -> Value:
        sign = "&&" if isinstance(node.op, ast.And) else "||"
        result, *rest = [self.node(part) for part in node.values]
        for part in rest:
            result = Binary(sign, result, part)
        return Value(result, "bool")

    def _compare(self, node: ast.Compare) -> Value:
        (operator,), (other,) = node.ops, node.comparators
        if isinstance(operator, (ast.Is, ast.IsNot)):
            return Value(Binary("==" if isinstance(operator, ast.Is) else "!=", self.node(node.left), NULL), "bool")
        left, right = self.value(node.left), self.value(other)
        if isinstance(operator, ast.In):
            return Value(call("opw_has", right.node, left.node), "bool")
        if left.kind == "word":
            same = call("opw_is", left.node, right.node)
            return Value(same if isinstance(operator, ast.Eq) else Unary("!", same), "bool")
        return Value(Binary(_COMPARED[type(operator)], left.node, right.node), "bool")

    def _ifexp(self, node: ast.IfExp) -> Value:
        yes, no = self.value(node.body), self.value(node.orelse)
        return Value(Conditional(self.node(node.test), yes.node, no.node), yes.kind)

    def _attribute(self, node: ast.Attribute) -> Value:
        if node.attr != "shape":
            raise self.unknown(node)
        seen = self.value(node.value)
        return seen if seen.kind == "ints" else Value(Member(seen.node, "shape"), "ints")

    def _subscript(self, node: ast.Subscript) -> Value:
        text = ast.unparse(node.value)
        if text == "_axes.DTYPE_OF":
            return self.value(node.slice)
        if isinstance(node.value, ast.Subscript) and text.startswith("LAYOUTS["):
            name = ast.literal_eval(node.value.slice)
            return Value(call("opw_ordering", Name(f"LAYOUTS_{name}"), self.node(node.slice)), "order")
        inner = self.value(node.value) if not isinstance(node.value, ast.Subscript) else None
        if inner is not None and inner.kind == "axes":
            axis = ast.literal_eval(node.slice)
            found = call("opw_axis", address(inner.node), Text(axis))
            if axis in inner.vectors:
                return Value(call("opw_ints_of", found), "ints")
            return Value(call("opw_first", found), "int")
        if isinstance(node.value, ast.Subscript):  # places["C"][0]
            places = self.value(node.value.value)
            axis = ast.literal_eval(node.value.slice)
            return Value(call("opw_spot", address(places.node), Text(axis)), "int")
        raise self.unknown(node)

    def _tuple(self, node: ast.Tuple) -> Value:
        """Numbers, or the names of axes."""
        if all(isinstance(part, ast.Constant) and isinstance(part.value, str) for part in node.elts):
            return Value(call("OPWRIGHT_ORDER", *[Text(ast.literal_eval(part)) for part in node.elts], NULL), "order")
        room = self.room("ints")
        for part in node.elts:
            self.body.append(Do(call("opw_append", address(room), self.node(part))))
        return Value(room, "ints")

    def _call(self, node: ast.Call) -> Value:
        text = ast.unparse(node.func)
        name = text.rpartition(".")[2]
        first = node.args[0] if node.args else None
        if isinstance(first, ast.GeneratorExp):
            return self.walked(name.strip("_"), first)
        if name == "max" and len(node.args) == 1 and first is not None:  # of a tuple, 0 of none
            return Value(call("opw_largest", self.at(first)), "int")
        if name in ("min", "max"):
            result, *rest = [self.node(part) for part in node.args]
            for part in rest:
                result = call(f"opw_{name}", result, part)
            return Value(result, "int")
        if name == "tuple" and first is not None:
            return self.value(first)
        if name in _DIVISIONS:
            return Value(call(f"opw_{name}", CONTEXT, *[self.node(part) for part in node.args]), "int")
        if name in ("times", "divided", "less"):
            return self._inverse("exact" if name == "divided" else name, *[self.value(part) for part in node.args])
        if name == "len" and first is not None:
            return Value(call("opw_count", self.at(first)), "int")
        if name == "dtype_of" and first is not None:
            return Value(call("opw_dtype_of", self.node(first)), "word")
        if name == "sum_" and isinstance(first, ast.Tuple):
            result, *rest = [self.node(part) for part in first.elts]
            for part in rest:
                result = call("opw_add", result, part)
            return Value(result, "int")
        raise self.unknown(node)

    def _inverse(self, name: str, value: Value, factor: Value) -> Value:
        if value.kind == "int":
            return Value(call(f"opw_{name}", CONTEXT, value.node, factor.node), "int")
        room = self.fresh("each")
        made = call("opw_each", CONTEXT, Name(f"opw_{name}"), self.extent(value), self.extent(factor))
        self.body.append(Declare(room.name, made, "opw_ints"))
        return Value(room, "ints")

    # What walks spatial axes.

    def walked(self, function: str, node: ast.GeneratorExp) -> Value:
        """A comprehension over vectors: as a tuple, or as the argument of a function."""
        (walk,) = node.generators
        vectors = walk.iter.args if isinstance(walk.iter, ast.Call) else [walk.iter]
        letters = walk.target.elts if isinstance(walk.target, ast.Tuple) else [walk.target]
        over = [self.stored(self.value(vector)) for vector in vectors]
        if ast.unparse(node.elt) == ast.unparse(walk.target):
            if function == "tuple":
                return over[0]
            if function == "prod":
                return Value(call("opw_prod", address(over[0].node)), "int")
        outer, self.body = self.body, []
        names = dict(self.names)
        at = self.fresh("at")
        for letter, vector in zip(letters, over, strict=True):
            entry = ast.unparse(letter)
            kind = "real" if vector.kind == "reals" else "int"
            own = Name(self.fresh(entry.strip("_")).name)
            read = call("opw_real_at" if kind == "real" else "opw_at", address(vector.node), at)
            self.body.append(Declare(own.name, read, C_TYPES[kind]))
            self.names[entry] = Value(own, kind)
        entry_value = self.value(node.elt)
        room, begin, step = self.folded(function, entry_value, node)
        used = names_of([*self.body, step])
        loop = [*(one for one in self.body if not isinstance(one, Declare) or one.name in used), step]
        self.body, self.names = outer, names
        self.body.append(begin)
        self.body.append(For(at.name, ZERO, call("opw_count", address(over[0].node)), tuple(loop)))
        return room

    def folded(self, function: str, entry: Value, node: ast.GeneratorExp) -> tuple[Value, Stmt, Stmt]:
        """The variable that a loop fills, its initial value, and the statement for an entry."""
        if function == "tuple":
            room = self.fresh("ints")
            return Value(room, "ints"), Room(room.name, "opw_ints"), Do(call("opw_append", address(room), entry.node))
        kind = "bool" if function in ("all", "any") else "int"
        room = self.fresh(function)
        folds: dict[str, tuple[Expr, Expr]] = {
            "all": (Name("true"), Binary("&&", room, entry.node)),
            "any": (Name("false"), Binary("||", room, entry.node)),
            "prod": (ONE, call("opw_mul", room, entry.node)),
            "max": (ZERO, call("opw_max", room, entry.node)),
        }
        if function not in folds:
            raise self.unknown(node)
        begin, then = folds[function]
        return Value(room, kind), Declare(room.name, begin, C_TYPES[kind], changes=True), Assign(room, then)


__all__ = ["ARGUMENTS", "CONTEXT", "C_TYPES", "NONE", "NULL", "Call", "Expressions", "Literal", "Value", "address"]
