"""Edits of formulas of steps taken as trees: identities, near identities, other operators, indices and reads."""

from __future__ import annotations

import dataclasses
import random
from typing import Any

from opwright.language import expr
from opwright.language.expr import Binary, Call, Expr, Name, Number, Read, Unary

# What a value may become; {f} is it, {g} another read of the formula, {c} a number.
SAME_OR_NEARLY = (
    "({f}) + 0", "({f}) * 1", "({f}) / 1", "-(-({f}))", "0 - (0 - ({f}))", "2 * ({f}) - ({f})", "({f}) * ({f}) / ({f})",
    "({f}) * 3 / 3", "({f}) / 3 * 3", "({f}) + {g} - {g}", "({f}) * {g} / {g}", "({f}) + 0 * {g}", "0.5 * ({f}) + 0.5 * ({f})",
    "max({f}, -{c})", "min({f}, {c})", "min(max({f}, -{c}), {c})", "max({f}, {f})", "abs({f})", "sign({f}) * abs({f})",
    "sqrt(({f}) * ({f}))", "log(exp({f}))", "exp(log({f}))", "round({f})", "floor({f})", "({f}) + 0.001", "({f}) * 1.01",
    "select({f} < {c}, {f}, {g})", "select({f} == {f}, {f}, 0)", "select({g} > {c}, 0, {f})", "select({f} > 0, {f}, -(-({f})))",
    "pow({f}, 1)", "pow({f}, 2) / ({f})", "1 / (1 / ({f}))", "tanh({f})", "({f}) - {c} + {c}", "max({f}, {g})",
)  # fmt: skip
FAR = ("0", "1", "3", "6", "20", "90", "1000", "60000")
INSTEAD = {
    "exp": "exp2", "exp2": "exp", "log": "log1p", "log1p": "log", "tanh": "erf", "erf": "tanh", "sqrt": "rsqrt",
    "rsqrt": "sqrt", "abs": "sign", "sign": "abs", "round": "floor", "floor": "ceil", "ceil": "floor", "max": "min", "min": "max",
    "to_bf16": "to_f16", "to_f8_e5m2": "to_f8_e4m3", "to_s8": "to_u8",
}  # fmt: skip
OTHER = {"+": "-", "-": "+", "*": "/", "/": "*", "<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "==",
         "and": "or", "or": "and", "%": "+"}  # fmt: skip


class NothingError(Exception):
    """The spec has nothing that could be edited so."""


def printed(tree: Expr) -> str:
    """A tree as text, with brackets around all that has parts."""
    if isinstance(tree, Number):
        return "inf" if tree.value == float("inf") else repr(tree.value)
    if isinstance(tree, Name):
        return tree.id
    if isinstance(tree, Unary):
        return f"({tree.op} {printed(tree.operand)})"
    if isinstance(tree, Binary):
        return f"({printed(tree.left)} {tree.op} {printed(tree.right)})"
    if isinstance(tree, Call):
        return f"{tree.function}({', '.join(map(printed, tree.arguments))})"
    return f"{tree.tensor}[{', '.join(map(printed, tree.indices))}]"


def _with(tree: Expr, old: Expr, new: Expr) -> Expr:
    """A tree with one node, known by its identity, replaced."""
    if tree is old:
        return new
    if isinstance(tree, Unary):
        return dataclasses.replace(tree, operand=_with(tree.operand, old, new))
    if isinstance(tree, Binary):
        return dataclasses.replace(tree, left=_with(tree.left, old, new), right=_with(tree.right, old, new))
    if isinstance(tree, Call):
        return dataclasses.replace(tree, arguments=tuple(_with(part, old, new) for part in tree.arguments))
    if isinstance(tree, Read):
        return dataclasses.replace(tree, indices=tuple(_with(part, old, new) for part in tree.indices))
    return tree


def one_of(chance: random.Random, items: Any) -> Any:
    found = list(items)
    if not found:
        raise NothingError
    return chance.choice(found)


def _values(tree: Expr) -> list[Expr]:
    """The nodes of a value that are numbers of tensors: not in an index, no condition."""
    found = []
    if isinstance(tree, Read):
        return [tree]
    if isinstance(tree, Call) and tree.function == "number":
        return []
    if isinstance(tree, Call) and tree.function == "select":
        found = [node for part in tree.arguments[1:] for node in _values(part)]
    elif not (isinstance(tree, Binary) and tree.op in (*expr.COMPARISONS, *expr.LOGIC)):
        found = [node for part in expr.children(tree) for node in _values(part)]
    if found:
        found.append(tree)
    return found


def wrapped(tree: Expr, chance: random.Random) -> Expr:
    """A part of a value, in something that leaves it as it is, or nearly."""
    node = one_of(chance, _values(tree))
    other = one_of(chance, expr.reads(tree))
    made = one_of(chance, SAME_OR_NEARLY)
    text = made.replace("{f}", printed(node)).replace("{g}", printed(other)).replace("{c}", one_of(chance, FAR))
    return _with(tree, node, expr.parse(f"({text})"))


def turned(tree: Expr, chance: random.Random) -> Expr:
    """The sides of an operator exchanged, or its parts taken together in another way."""
    node = one_of(chance, (n for n in expr.walk(tree) if isinstance(n, Binary)))
    inner = [side for side in (node.left, node.right) if isinstance(side, Binary)]
    left, right = printed(node.left), printed(node.right)
    forms = [f"{right} {node.op} {left}"]
    if node.op in "+-":
        forms += [f"-({right} - {left})", f"{left} - (-{right})"]
    for side in inner:
        one, other = printed(side.left), printed(side.right)
        forms.append(f"{one} {side.op} ({other} {node.op} {right})")
        forms.append(f"{left} {node.op} {one} {side.op} {other}")
        if node.op in "*/" and side.op in "+-":
            rest = right if side is node.left else left
            forms.append(f"{one} {node.op} {rest} {side.op} {other} {node.op} {rest}")
    return _with(tree, node, expr.parse(f"({one_of(chance, forms)})"))


def otherwise(tree: Expr, chance: random.Random) -> Expr:
    """Another function, operator or number, or a comparison that holds on its edge, too."""
    node = one_of(chance, (n for n in expr.walk(tree) if isinstance(n, (Call, Binary, Number))))
    if isinstance(node, Number):
        own = printed(node)
        text = one_of(chance, [f"{own} + 1", f"2 * {own}", f"-{own}", *FAR, f"{own} + 0.00001", f"{own} * 1"])
        return _with(tree, node, expr.parse(f"({text})"))
    if isinstance(node, Call):
        return _with(tree, node, dataclasses.replace(node, function=INSTEAD.get(node.function, "abs")))
    return _with(tree, node, dataclasses.replace(node, op=OTHER.get(node.op, "+")))


def reindexed(tree: Expr, chance: random.Random) -> Expr:
    """An index that is shifted, written in another way, or exchanged with its neighbour."""
    read = one_of(chance, (n for n in expr.walk(tree) if isinstance(n, Read) and n.indices))
    if len(read.indices) > 1 and chance.random() < 0.3:
        indices = list(read.indices)
        at = chance.randrange(len(indices) - 1)
        indices[at], indices[at + 1] = indices[at + 1], indices[at]
        return _with(tree, read, dataclasses.replace(read, indices=tuple(indices)))
    index = one_of(chance, read.indices)
    form = one_of(chance, ["{i} + 0", "{i} + 1", "{i} - 1", "{i} + 1 - 1", "2 * {i}", "2 * {i} - {i}", "floor({i} / 1)",
                         "max({i}, 0)", "min({i}, 60)", "min({i}, 2)", "{i} % 1000", "floor((2 * {i} + 1) / 2)", "0"])  # fmt: skip
    return _with(tree, index, expr.parse(form.replace("{i}", f"({printed(index)})")))


def reread(tree: Expr, chance: random.Random) -> Expr:
    """Another tensor that is read by the same formula, or a letter for another one."""
    reads = expr.reads(tree)
    read = one_of(chance, reads)
    others = [other for other in reads if other.tensor != read.tensor and len(other.indices) == len(read.indices)]
    if others and chance.random() < 0.6:
        return _with(tree, read, dataclasses.replace(read, tensor=one_of(chance, others).tensor))
    names = [node for index in read.indices for node in expr.walk(index) if isinstance(node, Name)]
    indices = [index for other in reads for index in other.indices]
    letters = sorted({node.id for index in indices for node in expr.walk(index) if isinstance(node, Name)})
    return _with(tree, one_of(chance, names), Name(one_of(chance, letters)))


TREES = (wrapped, wrapped, wrapped, turned, turned, otherwise, otherwise, reindexed, reread)
