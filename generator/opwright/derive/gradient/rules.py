"""The gradient of a value with respect to each element that it reads: the rules of calculus as data.

In: a value of a step, and the gradient of its result. Out: the gradient of each element. Conditions and integers
have none; conversions to real types pass theirs on. At a kink it is the derivative of one side: for `max` and `min`
that of the first argument that attains the value, except that a tie with a constant gives 0; for `abs` at 0 it is 0.
"""

from __future__ import annotations

from collections.abc import Callable

from ...language import expr
from ...language.dtypes import DTYPES
from ...language.expr import CONVERSIONS, Binary, Call, Expr, Number, Read, Unary, parse
from .terms import (
    Sum,
    add,
    constant,
    literal,
    negative,
    product,
    quotient,
    select,
    terms_of,
    tree_of,
)

# The derivative of each function of x with the value y. Zero derivatives have no row.
OF_ONE = {
    "exp": parse("y"),
    "exp2": parse("0.6931471805599453 * y"),
    "log": parse("1 / x"),
    "log1p": parse("1 / (1 + x)"),
    "tanh": parse("1 - y * y"),
    "erf": parse("1.1283791670955126 * exp(-x * x)"),
    "sqrt": parse("0.5 / y"),
    "rsqrt": parse("-0.5 * y * y * y"),
    "abs": parse("sign(x)"),
}
# The conversions to real types: their rounding is not differentiated.
PASSING = frozenset(name for name, dtype in CONVERSIONS.items() if not DTYPES[dtype].integer)
# Of pow(a, b) with respect to a and b; at singular points their limits.
POW_BASE_ANY = parse("select(b == 0, 0, b * pow(a, b - 1))")
POW_EXPONENT = parse("y * log(a)")
POW_EXPONENT_ANY = parse("select(a == 0 and b >= 0, 0, y * log(a))")

Active = Callable[[Read], bool]
Gradients = dict[Read, Sum]


def gradients(tree: Expr, seed: Sum, active: Active) -> Gradients:
    """The gradient of each active element of a value with gradient `seed`, without zeros."""
    if isinstance(tree, Read):
        return {tree: seed} if seed and active(tree) else {}
    if not depends(tree, active) or not seed:
        return {}
    if isinstance(tree, Unary):
        return gradients(tree.operand, negative(seed), active) if tree.op == "-" else {}
    if isinstance(tree, Binary):
        return _of_operator(tree, seed, active)
    assert isinstance(tree, Call)
    return _of_call(tree, seed, active)


def depends(tree: Expr, active: Active) -> bool:
    """Whether a value depends on an active element."""
    return any(active(read) for read in expr.reads(tree))


def _total(*found: Gradients) -> Gradients:
    result: Gradients = {}
    for one in found:
        for read, value in one.items():
            result[read] = add(result.get(read, ()), value)
    return {read: value for read, value in result.items() if value}


def _of_operator(tree: Binary, seed: Sum, active: Active) -> Gradients:
    left, right = terms_of(tree.left), terms_of(tree.right)
    if tree.op in "+-":
        other = seed if tree.op == "+" else negative(seed)
        return _total(gradients(tree.left, seed, active), gradients(tree.right, other, active))
    if tree.op == "*":
        own, other = product(seed, right), product(seed, left)
    elif tree.op == "/":
        own = quotient(seed, right)
        other = negative(quotient(product(seed, left), product(right, right))) if right else ()
    else:
        return {}
    return _total(gradients(tree.left, own, active), gradients(tree.right, other, active))


def _of_call(tree: Call, seed: Sum, active: Active) -> Gradients:
    if tree.function == "select":
        return _of_select(tree, seed, active)
    if tree.function in ("min", "max"):
        return _of_extremum(tree, seed, active)
    if tree.function == "pow":
        return _of_pow(tree, seed, active)
    if tree.function in PASSING:
        return gradients(tree.arguments[0], seed, active)
    if tree.function not in OF_ONE:
        return {}
    (inner,) = tree.arguments
    derivative = terms_of(tidy(expr.substitute(OF_ONE[tree.function], {"x": inner, "y": tree}), tree))
    return gradients(inner, product(seed, derivative), active)


def tidy(derivative: Expr, tree: Call) -> Expr:
    """A derivative with the arguments of its new functions expanded; `tree` itself does not change."""

    def visit(node: Expr) -> Expr | None:
        if node == tree or isinstance(node, Read):
            return node
        if not isinstance(node, Call):
            return None
        return Call(node.function, tuple(tree_of(terms_of(argument)) for argument in node.arguments))

    return expr.changed(derivative, visit)


def _of_select(tree: Call, seed: Sum, active: Active) -> Gradients:
    condition, *branches = tree.arguments
    a, b = (gradients(branch, seed, active) for branch in branches)
    return {read: select(condition, a.get(read, ()), b.get(read, ())) for read in dict.fromkeys((*a, *b))}


def _of_extremum(tree: Call, seed: Sum, active: Active) -> Gradients:
    """min and max of two arguments; with more, of the first and the rest."""
    first, *others = tree.arguments
    rest = others[0] if len(others) == 1 else Call(tree.function, tuple(others))
    operator = ">" if tree.function == "max" else "<"
    if not depends(first, active):
        wins: Expr = Binary(operator, rest, first)
        return _total(gradients(rest, select(wins, seed, ()), active))
    wins = Binary(operator + "=" if depends(rest, active) else operator, first, rest)
    own = gradients(first, select(wins, seed, ()), active)
    return _total(own, gradients(rest, select(wins, (), seed), active))


def _of_pow(tree: Call, seed: Sum, active: Active) -> Gradients:
    base, exponent = tree.arguments
    names = {"a": base, "b": exponent, "y": tree}
    power = literal(exponent)
    own: Sum = ()
    if depends(base, active):
        if power == 1:
            own = constant(1)
        elif power:
            own = product(constant(power), terms_of(Call("pow", (base, Number(power - 1)))))
        elif power is None:
            own = terms_of(expr.substitute(POW_BASE_ANY, names))
    positive = isinstance(base, Number) and base.value > 0
    rule = POW_EXPONENT if positive else POW_EXPONENT_ANY
    other = terms_of(expr.substitute(rule, names)) if depends(exponent, active) else ()
    return _total(gradients(base, product(seed, own), active), gradients(exponent, product(seed, other), active))
