"""Translates a generated `resolve` to C: each statement calls the function of the same name in templates/interface.

In: the text of an operation's Python module, and the C names of the arguments. Out: C nodes. The first
broken rule ends the function, as an exception does in Python.
"""

from __future__ import annotations

import ast
from collections import Counter
from dataclasses import dataclass, replace

from ..nodes import (
    ZERO,
    Assign,
    Call,
    Conditional,
    Declare,
    Do,
    Expr,
    If,
    Member,
    Name,
    Return,
    Room,
    Stmt,
    Text,
    call,
    names_of,
)
from .expressions import C_TYPES, CONTEXT, NULL, Value, address
from .found import Found
from .rules import entries_of

# Initial values of numbers and words.
_EMPTY: dict[str, Expr] = {"int": ZERO, "real": ZERO, "bool": Name("false"), "word": NULL, "order": NULL}
REFUSED = If(Member(CONTEXT, "refused"), (Return(),))


@dataclass
class Resolve(Found):
    """Translates the statements of one function to C."""

    def written(self, function: ast.FunctionDef) -> tuple[Stmt, ...]:
        """The whole function."""
        for statement in function.body[1:]:
            self.statement(statement)
        return (*self.early, *self.body)

    def statement(self, node: ast.stmt) -> None:
        if isinstance(node, ast.Assign):
            self.assign(node)
        elif isinstance(node, ast.Expr):
            self.do(node.value)
        elif isinstance(node, ast.If):
            self.branch(node)
        elif isinstance(node, ast.Return) and isinstance(node.value, ast.Call):
            self.put({keyword.arg or "": keyword.value for keyword in node.value.keywords})
            return
        else:
            raise self.unknown(node)
        if not isinstance(node, ast.If) and any(isinstance(inner, ast.Call) for inner in ast.walk(node)):
            self.body.append(REFUSED)

    # Branches.

    def branch(self, node: ast.If) -> None:
        raised = node.body[0]
        if isinstance(raised, ast.Raise) and isinstance(raised.exc, ast.Call):
            self.broken(node.test, raised.exc)
            return
        chosen = self.word_by_class(node)
        if chosen is not None:
            self.body.append(Declare("group_class", chosen, "char *"))
            self.names["group_class"] = Value(Name("group_class"), "word")
            return
        for one in _chain(node):
            self.names |= {name: self.before(name, value) for name, value in self.assigned(one.body).items()}
            test = self.node(one.test)
            outer, self.body = self.body, []
            for statement in one.body:
                self.statement(statement)
            body, self.body = tuple(self.body), outer
            self.body.append(If(test, body))
            self.body.append(REFUSED)

    def word_by_class(self, node: ast.If) -> Expr | None:
        """The class of a call, from a chain that only determines it."""
        chain = _chain(node)
        bodies = [*[one.body for one in chain], chain[-1].orelse]
        if any(len(body) != 1 or not ast.unparse(body[0]).startswith("group_class = ") for body in bodies):
            return None
        values = [self.node(body[0].value) for body in bodies if isinstance(body[0], ast.Assign)]
        result = values[-1]
        for one, value in zip(reversed(chain), reversed(values[:-1]), strict=True):
            result = Conditional(self.node(one.test), value, result)
        return result

    def assigned(self, body: list[ast.stmt]) -> dict[str, Value]:
        """The names that a block defines, with their kinds, by a trial translation."""
        trial = replace(self, names=dict(self.names), body=[], early=[], taken=Counter(self.taken))
        for statement in body:
            trial.statement(statement)
        return {n: v for n, v in trial.names.items() if n not in self.names or v != self.names[n]}

    def before(self, name: str, value: Value) -> Value:
        """A variable that a block sets; where the block does not run, it has the value from before."""
        known, made = self.names.get(name), self.declared(name, value)
        if known is not None and known.kind == made.kind and known.node != made.node:
            self.body.append(Assign(made.node, known.node))
        return made

    def declared(self, name: str, value: Value) -> Value:
        """A variable that outlives the block that sets it."""
        if name in self.names and self.names[name].node == Name(f"{name}_opw"):
            return self.names[name]
        c_type = C_TYPES[value.kind]
        if value.kind in _EMPTY:
            c_type = c_type.removeprefix("const ")
            self.early.append(Declare(f"{name}_opw", _EMPTY[value.kind], c_type, changes=value.kind != "word"))
        else:
            self.early.append(Room(f"{name}_opw", c_type))
        return Value(Name(f"{name}_opw"), value.kind, value.vectors)

    # Assignments.

    def assign(self, node: ast.Assign) -> None:
        (target,) = node.targets
        if isinstance(target, ast.Tuple):
            self.pair(target, node.value)
            return
        assert isinstance(target, ast.Name)
        name = target.id
        if isinstance(node.value, ast.Call):
            function = ast.unparse(node.value.func).rpartition(".")[2]
            method = getattr(self, f"make_{function}", None)
            if method is not None:
                made = method(name, node.value)
                if made is not None:
                    self.names[name] = self.variable(name, made)
                return
        if isinstance(node.value, ast.Constant) and node.value.value is None:
            self.names[name] = Value(NULL, "word")
            return
        if isinstance(node.value, ast.IfExp) and isinstance(node.value.body, ast.Dict):
            return
        self.names[name] = self.variable(name, self.value(node.value))

    def pair(self, target: ast.Tuple, value: ast.expr) -> None:
        """`giver, shape = stated_shape(...)`, and the places and shape of an output that copies those of an input."""
        names = [part.id for part in target.elts if isinstance(part, ast.Name)]
        if isinstance(value, ast.Tuple):
            for name, part in zip(names, value.elts, strict=True):
                self.names[name] = self.copied(name, self.value(part))
            return
        assert isinstance(value, ast.Call)
        output, length, tensors, lists = value.args
        tensor = next(iter(entries_of(tensors)), None)
        listed = next(iter(entries_of(lists)), None)
        shape = self.place_of(names[1], "ints")
        empty = call("OPWRIGHT_NO_LIST")
        made = call(
            "opw_stated_shape", CONTEXT, self.node(output), self.node(length),
            Text(tensor[0]) if tensor else NULL, self.tensors[tensor[0]] if tensor else NULL,
            Text(listed[0]) if listed else NULL, self.node(listed[1]) if listed else empty, address(shape),
        )  # fmt: skip
        self.names[names[0]] = self.variable(names[0], Value(made, "word"))
        self.names[names[1]] = Value(shape, "ints")

    def copied(self, name: str, value: Value) -> Value:
        known = self.names.get(name)
        if known is not None and known.node == Name(f"{name}_opw"):
            self.body.append(Assign(known.node, value.node))
            return Value(known.node, value.kind)
        return value

    def broken(self, test: ast.expr, refusal: ast.Call) -> None:
        """A constraint: the refusal of a call, the offending values, and the nearest legal ones."""
        condition = self.node(test)
        outer, self.body = self.body, []
        such = {"bool": "_truth", "word": "_word", "real": "_real", "reals": "_reals"}
        for keyword in refusal.keywords:
            value = self.value(keyword.value)
            argument = address(value.node) if value.kind == "reals" else self.extent(value)
            argument = value.node if value.kind in ("bool", "word", "real") else argument
            ending = such.get(value.kind, "")
            self.body.append(Do(call(f"opw_such{ending}", CONTEXT, Text(keyword.arg or ""), argument)))
        if len(refusal.args) > 3:
            nearest = refusal.args[3]
            assert isinstance(nearest, ast.Lambda)
            made = self.extent(self.value(nearest.body))
            self.body.append(Do(call("opw_nearest", CONTEXT, made)))
        refusal_call = call("opw_broken", CONTEXT, *map(self.node, refusal.args[:3]))
        values, self.body = tuple(self.body), outer
        self.body.append(If(condition, (If(refusal_call, values), Return())))


def _chain(node: ast.If) -> list[ast.If]:
    """The branches of an `if` and its `elif`s."""
    chain = [node]
    while len(chain[-1].orelse) == 1 and isinstance(chain[-1].orelse[0], ast.If):
        chain.append(chain[-1].orelse[0])
    return chain


def pruned(statements: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
    """The statements without unused variables; calls that check are kept."""
    while True:
        used = names_of(statements)
        needed = tuple(found for one in statements for found in _pruned(one, used))
        if needed == statements:
            return needed
        statements = needed


def _pruned(one: Stmt, used: frozenset[str]) -> tuple[Stmt, ...]:
    if isinstance(one, If):
        body = tuple(found for inner in one.body for found in _pruned(inner, used))
        return (replace(one, body=body),) if body else ()
    if isinstance(one, (Declare, Room)) and one.name.lstrip("*") not in used:
        checks = isinstance(one, Declare) and isinstance(one.value, Call) and CONTEXT in one.value.arguments
        plain = isinstance(one, Declare) and one.name.startswith("*")
        return (Do(one.value),) if checks and not plain and isinstance(one, Declare) else ()
    return (one,)
