"""The result of a generated `resolve`, as calls that store it in the context.

In: the fields of a Resolution or of Steps. Out: nodes of C.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass

from ..nodes import Do, Expr, Name, Text, Unary, call, integer
from .expressions import CONTEXT, address
from .rules import Rules, entries_of, text_of


@dataclass
class Found(Rules):
    """Prints the results."""

    def report(self, function: str, *arguments: Expr) -> None:
        self.body.append(Do(call(f"opw_found_{function}", CONTEXT, *arguments)))

    def put(self, fields: Mapping[str, ast.expr]) -> None:
        """The fields of a legal call."""
        self.report("row", Name("row"))
        for name, word in entries_of(fields["words"]) if "words" in fields else ():
            self.report("word", Text(name), self.node(word))
        for symbol, node in entries_of(fields["values"]):
            self.put_value(symbol, node)
        self.report("terms", self.node(fields["terms"]))
        if "group_class" in fields:
            self.put_plain(fields)
        else:
            self.put_steps(fields)

    def put_value(self, symbol: str, node: ast.expr) -> None:
        value = self.value(node)
        if value.kind in ("real", "reals"):
            self.report(value.kind, Text(symbol), address(value.node) if value.kind == "reals" else value.node)
        elif value.kind in ("int", "bool", "ints"):
            self.report("value", Text(symbol), self.extent(value))
        elif value.kind != "word":
            raise self.unknown(node)

    def put_plain(self, fields: Mapping[str, ast.expr]) -> None:
        for name, arrangement in entries_of(fields["arrangements"]):
            self.report("value", Text(f"{name}_arrangement"), self.extent(self.value(arrangement)))
        self.report("class", self.node(fields["group_class"]))
        self.report("output", integer(0), self.at(fields["shape"]), Name("NULL"))

    def put_steps(self, fields: Mapping[str, ast.expr]) -> None:
        for number, (_, node) in enumerate(entries_of(fields["places"])):
            places = node.orelse if isinstance(node, ast.IfExp) else node
            self.report("places", integer(number), self.at(places))
        for number, (_, node) in enumerate(entries_of(fields["outputs"])):
            assert isinstance(node, ast.Call)
            self.report("output", integer(number), *map(self.at, node.args))
        for inner in ast.walk(fields["absent"]) if "absent" in fields else ():
            if isinstance(inner, ast.IfExp) and isinstance(inner.orelse, ast.Tuple):
                (name,) = ast.literal_eval(inner.orelse)
                self.report("absent", integer(self.outputs.index(name)), Unary("!", self.node(inner.test)))
        for name, node in entries_of(fields["between"]) if "between" in fields else ():
            assert isinstance(node, ast.Tuple)
            phase, cells = node.elts
            assert isinstance(cells, ast.Tuple)
            self.report("between", Text(name), self.node(phase))
            for part in cells.elts:
                self.report("cells", self.node(part))
        for letter, node in entries_of(fields["letters"]) if "letters" in fields else ():
            self.report("letter", Text(letter), self.extent(self.value(node)))
        for name, node in entries_of(fields["slides"]) if "slides" in fields else ():
            self.put_slide(name, node)

    def put_slide(self, name: str, node: ast.expr) -> None:
        """An index that letters move together, if the axis is a single one."""
        assert isinstance(node, ast.Tuple)
        factors, offset, extent = node.elts
        assert isinstance(factors, ast.Tuple)
        pairs = [pair.elts for pair in factors.elts if isinstance(pair, ast.Tuple)]
        named = [*((text_of(letter), factor) for letter, factor in pairs), ("", offset), (".end", extent)]
        values = [(rest, self.value(part)) for rest, part in named]
        for rest, value in values if all(value.kind == "int" for _, value in values) else ():
            self.report("slide", Text(f"{name}{rest}"), self.extent(value))
