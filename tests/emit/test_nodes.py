"""Nodes of C: each has its macro, and what is printed of a tree means what the tree means."""

from __future__ import annotations

import gc
import os
import random
import subprocess
import weakref
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from opwright.emit import nodes, printer, render
from opwright.emit.nodes import Binary, Call, Cast, Conditional, Expr, For, Literal, Name, Unary
from support import checkout

ENVIRONMENT = render.environment(checkout.ROOT / "templates")
VALUES = {"a": 7, "b": 3, "c": 12, "d": 1}
OPERATORS = ("*", "/", "%", "+", "-", "<", "<=", ">", ">=", "==", "!=", "&&", "||")


def printed(node: Expr) -> str:
    return printer.c(ENVIRONMENT, node)


def test_every_kind_of_node_has_a_macro_and_every_macro_a_kind():
    module = ENVIRONMENT.get_template(printer.TEMPLATE).module
    macros = {name for name in vars(module) if not name.startswith("_")}
    assert macros == {"block", "brackets", *map(printer.macro_name, printer.KINDS)}


@pytest.mark.parametrize(
    ("node", "text"),
    [
        (Binary("*", nodes.plus(Name("a"), Name("b")), Name("c")), "(a + b) * c"),
        (Binary("-", Name("a"), nodes.plus(Name("b"), Name("c"))), "a - (b + c)"),
        (Binary("/", Name("a"), nodes.product([Name("b"), Name("c")])), "a / (b * c)"),
        (nodes.plus(Name("a"), nodes.plus(Name("b"), Name("c"))), "a + b + c"),
        (Unary("-", Unary("-", Name("a"))), "-(-a)"),
        (Unary("-", Binary("/", Name("a"), Name("b"))), "-(a / b)"),
        (Cast("float", Binary("*", Name("a"), Name("b"))), "(float)(a * b)"),
        (Binary("+", Name("s"), Conditional(Name("p"), Name("a"), nodes.ZERO)), "s + (p ? a : 0)"),
        (Binary("||", nodes.both([Name("a"), Name("b")]), Name("c")), "(a && b) || c"),
        (nodes.chosen(Name("w"), [Name("a"), Name("b"), Name("b")]), "w == 0 ? a : b"),
        (nodes.nested("min", [Name("a"), Name("b"), Name("a"), Name("c")]), "min(a, min(b, c))"),
        (nodes.added([(True, nodes.product([Name("a"), Name("b")])), (True, Name("c"))]), "-a * b - c"),
        (nodes.added([]), "0"),
        (nodes.real(float("-inf"), "f"), "-INFINITY"),
        (nodes.real(-0.0, "f"), "-0.0f"),
        (nodes.real(1e-30, ""), "1e-30"),
    ],
)
def test_brackets_stand_where_the_tree_needs_them_and_nowhere_else(node: Expr, text: str):
    assert printed(node) == text


def test_the_end_of_a_loop_is_one_operand_of_its_comparison() -> None:
    end = Conditional(Name("p"), Name("a"), Name("b"))
    assert "k < (p ? a : b);" in printed(nodes.For("k", nodes.ZERO, end, ()))


def drawn(source: random.Random, depth: int) -> tuple[Expr, int]:
    """A random tree and its value; no divisor is 0."""
    if depth == 0 or source.random() < 0.15:
        name = source.choice([*VALUES, ""])
        return (Name(name), VALUES[name]) if name else (Literal("5"), 5)
    (left, one), (right, other) = drawn(source, depth - 1), drawn(source, depth - 1)
    kind = source.random()
    if kind < 0.1:
        return (Unary("-", left), -one) if source.random() < 0.5 else (Unary("!", left), int(not one))
    if kind < 0.2:
        third, last = drawn(source, depth - 1)
        return Conditional(left, right, third), other if one else last
    if kind < 0.25:
        return Cast("int64_t", left), one
    if kind < 0.3:
        return Call("least", (left, right)), min(one, other)
    operator = source.choice(OPERATORS)
    if operator in "/%" and other == 0:
        operator = "-"
    quotient = 0 if other == 0 else abs(one) // abs(other) * (1 if (one < 0) == (other < 0) else -1)
    remainder = one - quotient * other
    results = {"*": one * other, "/": quotient, "%": remainder, "+": one + other, "-": one - other, "<": one < other}
    results |= {"<=": one <= other, ">": one > other, ">=": one >= other, "==": one == other, "!=": one != other}
    results |= {"&&": bool(one and other), "||": bool(one or other)}
    return Binary(operator, left, right), int(results[operator])


def test_a_compiler_reads_of_the_text_what_the_tree_says_and_has_no_warning(tmp_path: Path):
    source = random.Random(16)
    trees = [tree for tree in (drawn(source, 1 + number % 4) for number in range(400)) if abs(tree[1]) < 2**40]
    lines = [f"    failed += ({printed(tree)}) != {value};" for tree, value in trees]
    declared = [f"    volatile int64_t {name} = {value};" for name, value in VALUES.items()]
    text = [
        "#include <stdint.h>",
        "static int64_t least(int64_t x, int64_t y) { return x < y ? x : y; }",
        "int main(void)",
        "{",
        *declared,
        "    int failed = 0;",
        *lines,
        "    return failed != 0;",
        "}",
    ]
    (tmp_path / "trees.c").write_text("\n".join(text) + "\n", encoding="utf-8")
    flags = ["-std=c11", "-Wall", "-Wextra", "-Werror", "-Wno-bool-compare", "-Wno-int-in-bool-context"]
    subprocess.run([os.environ.get("CC", "cc"), *flags, "trees.c", "-o", "trees"], cwd=tmp_path, check=True)
    assert subprocess.run([tmp_path / "trees"]).returncode == 0


def test_equal_nodes_are_one_object_however_their_parts_are_given():
    tree = Binary("+", Name("a"), Literal("1"))
    assert tree is Binary(operator="+", left=Name(name="a"), right=Literal("1"))
    assert nodes.Declare("n_", tree) is nodes.Declare("n_", tree, "int64_t", changes=False)
    assert nodes.Declare("n_", tree) is not nodes.Declare("n_", tree, changes=True)
    assert tree is not Binary("+", Name("a"), Literal("2"))


def test_nodes_that_nobody_holds_are_freed():
    node = Call("nobody_else_calls_this", (Name("nor_names_this_"),))
    freed = weakref.ref(node), weakref.ref(node.arguments[0])
    assert nodes.names(node) == {"nor_names_this_"}
    del node
    gc.collect()
    assert [one() for one in freed] == [None, None]


def test_code_from_two_places_of_a_spec_is_the_same_without_them():
    def loop(source: str) -> nodes.For:
        body = nodes.Assign(Name("x"), nodes.ONE, source=f"{source}.0")
        return nodes.For("i_", nodes.ZERO, Name("n_"), (body,), source=source)

    one, other = loop("semantics.steps.0"), loop("semantics.steps.1")
    assert one is not other
    assert nodes.unplaced(one) is nodes.unplaced(other)
    assert printed(one) == printed(other) == printed(nodes.unplaced(one))


def test_each_node_of_a_tree_is_printed_once(monkeypatch: pytest.MonkeyPatch):
    """Kernels of all data types share most of their nodes: printing costs by what differs."""
    environment = render.environment(checkout.ROOT / "templates")
    macros, brackets = printer._macros(environment)
    counts: Counter[object] = Counter()

    def counted(kind: type):
        def macro(node: object) -> str:
            counts[node] += 1
            return macros[kind](node)

        return macro

    monkeypatch.setattr(printer, "_macros", lambda _: ({kind: counted(kind) for kind in macros}, brackets))
    tree: Expr = Name("leaf")
    for _ in range(12):
        tree = Binary("+", tree, tree)
    text = printer.c(environment, Call("f", (tree, tree)))
    assert text.count("leaf") == 2 * 2**12
    assert len(counts) == 14
    assert {*counts.values()} == {1}


def test_equal_parts_are_one_node_however_they_are_passed():
    made = For("i", nodes.ZERO, Name("n"), ())
    assert made is For("i", nodes.ZERO, Name("n"), (), None, None, "", 0)
    assert made is For(letter="i", begin=nodes.ZERO, end=Name("n"), body=()) is replace(made, unroll=0)
    assert made is not replace(made, unroll=2)
    assert nodes.Return() is nodes.Return()
    for wrong in ({"letter": "j"}, {"begun": nodes.ZERO}):
        with pytest.raises(TypeError, match="argument"):
            For("i", nodes.ZERO, Name("n"), (), **wrong)
    for parts in ((), ("i", nodes.ZERO), ("i", nodes.ZERO, Name("n"), (), None, None, "", 0, False, 1)):
        with pytest.raises(TypeError, match="argument"):
            For(*parts)
