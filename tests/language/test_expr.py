"""The expression language: what parses, of which kind it is, what it is worth, and that its Python print agrees."""

from __future__ import annotations

import ast
import math
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from opwright.emit.printing import python
from opwright.language import expr
from opwright.language.evaluate import evaluate
from opwright.language.expr import Binary, Call, Expr, Inexact, Name, Number, Read, Unary, parse
from opwright.language.kinds import Kind, kind_of
from opwright.language.source import Mark, SpecInvalid

INT, VECTOR, BOOL, REAL = Kind("int"), Kind("int", True), Kind("bool"), Kind("real")
SCOPE = {"a": INT, "b": INT, "S": VECTOR, "K": VECTOR, "alpha": REAL}


def refusal(text: str) -> str:
    with pytest.raises(SpecInvalid) as caught:
        parse(text, Mark("a.yaml", 3, 7))
    (problem,) = caught.value.problems
    return str(problem)


def kind_refusal(text: str) -> str:
    with pytest.raises(SpecInvalid) as caught:
        kind_of(parse(text), SCOPE, Mark("a.yaml", 3, 7))
    return str(caught.value)


@pytest.mark.parametrize(
    ("text", "tree"),
    [
        ("1 + 2 * a", Binary("+", Number(1), Binary("*", Number(2), Name("a")))),
        ("a - b - 1", Binary("-", Binary("-", Name("a"), Name("b")), Number(1))),
        ("(a - b) % -2", Binary("%", Binary("-", Name("a"), Name("b")), Unary("-", Number(2)))),
        ("not a < b or a == 1 and b == 2", Binary("or", Unary("not", Binary("<", Name("a"), Name("b"))),
            Binary("and", Binary("==", Name("a"), Number(1)), Binary("==", Name("b"), Number(2))))),
        ("floor(a / b)", Call("floor", (Binary("/", Name("a"), Name("b")),))),
        ("max(a, b, 0)", Call("max", (Name("a"), Name("b"), Number(0)))),
        ("src[n, i * 2]", Read("src", (Name("n"), Binary("*", Name("i"), Number(2))))),
        ("-inf", Unary("-", Number(math.inf))),
        ("0.5e-3", Number(0.0005)),
    ],
)  # fmt: skip
def test_text_parses_to_the_tree_that_it_reads_as(text: str, tree: Expr) -> None:
    assert parse(text) == tree


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a +", "a.yaml:3:10: expression: expected a value but found 'the end'"),
        (
            "(a + b",
            "a.yaml:3:13: expression: expected ')' but found 'the end'; "
            "inside {...} and [...] an expression with commas needs quotes",
        ),
        ("a b", "a.yaml:3:9: expression: unexpected 'b' after the end of the expression"),
        (
            "a; b",
            "a.yaml:3:8: expression: ';' is not part of the expression language; each step is an entry of `steps`",
        ),
        ("a ** b", "a.yaml:3:10: expression: expected a value but found '*'; write pow(a, b)"),
        ("flor(a / b)", "a.yaml:3:7: expression: there is no function 'flor' (did you mean 'floor'?)"),
        ("floor(a)", "a.yaml:3:7: expression: 'floor' takes a quotient, as in floor(a / b)"),
        ("min(a)", "a.yaml:3:7: expression: 'min' takes 2 to 8 arguments, not 1"),
        ("any(a, b)", "a.yaml:3:7: expression: 'any' takes 1 argument, not 2"),
        ("a < b < 3", "a.yaml:3:9: expression: comparisons do not chain; combine them with 'and'"),
        ("9223372036854775808", "a.yaml:3:7: expression: 9223372036854775808 does not fit into 64 bits"),
        (
            "a.b",
            "a.yaml:3:8: expression: '.' is not part of the expression language; names have no dots: exp(x), src[i]",
        ),
        ("٣", "a.yaml:3:7: expression: '٣' is not part of the expression language"),
    ],
)
def test_what_is_no_expression_is_refused_at_its_column(text: str, message: str) -> None:
    assert refusal(text) == message


@pytest.mark.parametrize("text", ["(" * 60 + "a" + ")" * 60, "-" * 60 + "a", "a" + "+a" * 100, "not " * 60 + "a"])
def test_deep_expressions_are_refused(text: str) -> None:
    assert "deeper than" in refusal(text) or "nested operations" in refusal(text)


def test_long_expressions_are_refused() -> None:
    assert "at most 500 characters" in refusal("a" * 501)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("a + 1", INT),
        ("a + S", VECTOR),
        ("S < K", Kind("bool", True)),
        ("any(S < K)", BOOL),
        ("prod(S)", INT),
        ("a / b * 0.5", REAL),
        ("floor(S / a)", VECTOR),
        ("alpha > 0", BOOL),
        ("src[a, S]", REAL),
    ],
)
def test_kinds_follow_from_symbols(text: str, kind: Kind) -> None:
    assert kind_of(parse(text), SCOPE, Mark()) == kind


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a + aa", "3:11: expression: unknown symbol 'aa' (did you mean 'a'?)"),
        ("(a < b) + 1", "expected a number but found a truth value"),
        ("a and b", "'and' combines truth values"),
        ("not a", "'not' takes a truth value"),
        ("any(a < b)", "'any' takes a value per spatial axis"),
        ("any(S)", "'any' takes truth values"),
        ("prod(S < K)", "'prod' takes integers"),
        ("alpha % 2", "'%' takes integers"),
        ("ceil(alpha / 2)", "'ceil' takes a quotient of integers"),
        ("src[0.5]", "an index must be an integer"),
    ],
)
def test_mixed_kinds_are_refused(text: str, message: str) -> None:
    assert message in kind_refusal(text)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("-7 % 3", 2),
        ("7 % -3", 1),
        ("-6 / 3", -2),
        ("floor(-7 / 2)", -4),
        ("ceil(-7 / 2)", -3),
        ("S * 2 + a", (9, 11)),
        ("all(S == K)", False),
        ("prod(S)", 6),
        ("max(S, 2)", (2, 3)),
        ("min(a, b, 1)", 1),
        ("not any(S != K) or a == 5", True),
        ("b != 0 and a / b == 1", False),
        ("b == 0 or a / b == 1", True),
    ],
)
def test_values_are_exact_integers(text: str, value: object) -> None:
    assert (
        evaluate(parse(text), {"a": 5, "b": 0 if "b" in text and "min" not in text else 3, "S": (2, 3), "K": (2, 4)})
        == value
    )


@pytest.mark.parametrize("text", ["7 / 2", "7 / 0", "7 % 0", "floor(1 / 0)", "ceil(S / 0)", "S / 2"])
def test_a_remainder_or_a_divisor_of_zero_is_an_error(text: str) -> None:
    with pytest.raises(Inexact):
        evaluate(parse(text), {"S": (2, 3)})


# Random integer and truth expressions, and what their Python print computes.


def numbers(leaves: st.SearchStrategy[Expr]) -> st.SearchStrategy[Expr]:
    return st.recursive(leaves, _combined, max_leaves=8)


def _combined(inner: st.SearchStrategy[Expr]) -> st.SearchStrategy[Expr]:
    pairs = st.tuples(inner, inner)
    return st.one_of(
        st.builds(lambda op, pair: Binary(op, *pair), st.sampled_from(expr.ARITHMETIC), pairs),
        st.builds(lambda f, pair: Call(f, pair), st.sampled_from(["min", "max"]), pairs),
        st.builds(lambda f, pair: Call(f, (Binary("/", *pair),)), st.sampled_from(["floor", "ceil"]), pairs),
        inner.map(lambda tree: Unary("-", tree)),
    )


SCALARS = st.one_of(st.integers(0, 5).map(Number), st.sampled_from("ab").map(Name))
VECTORS = st.one_of(SCALARS, st.sampled_from("SK").map(Name))


def truths(values: st.SearchStrategy[Expr]) -> st.SearchStrategy[Expr]:
    compared = st.builds(Binary, st.sampled_from(expr.COMPARISONS), values, values)
    joined = st.builds(Binary, st.sampled_from(expr.LOGIC), compared, compared)
    return st.one_of(compared, joined, compared.map(lambda tree: Unary("not", tree)))


RULES = SimpleNamespace(
    exact=lambda a, b: evaluate(Binary("/", Number(a), Number(b)), {}),
    modulo=lambda a, b: evaluate(Binary("%", Number(a), Number(b)), {}),
    floor_div=lambda a, b: a // b,
    ceil_div=lambda a, b: -(-a // b),
)
BUILTINS = {"min": min, "max": max, "any": any, "all": all, "prod": math.prod, "tuple": tuple, "zip": zip}


def printed(tree: Expr, symbols: dict[str, Any]) -> Any:
    text = python(tree, {"S", "K"})
    ast.parse(text, mode="eval")
    return eval(text, {"__builtins__": BUILTINS, "rules": RULES, **symbols})


@settings(max_examples=400)
@given(
    st.one_of(numbers(SCALARS), numbers(VECTORS), truths(numbers(SCALARS)), truths(numbers(VECTORS))),
    st.fixed_dictionaries({"a": st.integers(-4, 9), "b": st.integers(-4, 9)}),
    st.lists(st.tuples(st.integers(-3, 5), st.integers(-3, 5)), min_size=1, max_size=3),
)
def test_printed_python_agrees_with_the_value(
    tree: Expr, scalars: dict[str, int], pairs: list[tuple[int, int]]
) -> None:
    first, second = zip(*pairs, strict=True)
    symbols: dict[str, Any] = {**scalars, "S": first, "K": second}
    try:
        value = evaluate(tree, symbols)
    except Inexact:
        with pytest.raises(ArithmeticError):
            printed(tree, symbols)
        return
    assert printed(tree, symbols) == value


@settings(max_examples=200)
@given(st.text(max_size=60))
def test_any_text_parses_or_is_refused(text: str) -> None:
    try:
        parse(text)
    except SpecInvalid as invalid:
        rules = {problem.rule for problem in invalid.problems}
        assert rules == {"expression"}
