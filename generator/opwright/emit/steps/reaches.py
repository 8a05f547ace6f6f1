"""The statements that check that indices of steps fit in 64 bits, divisors are positive, and numbers of letters exact.

In: an operation of steps. Out: statements of a generated `resolve`.
"""

from __future__ import annotations

from ...derive.program import program
from ...derive.whole import divisors, exact_quotients, whole_trees
from ...language import expr
from ...language.expr import Binary, Call, Expr, Name, Number
from ...language.model import Op
from ...language.spelling import spell
from ..printing import python
from ..python_module import Writer


class ReachWriter(Writer):
    """Writes the checks of a call's sizes."""

    def __init__(self, op: Op) -> None:
        super().__init__(op)
        self.program = program(op)

    def reaches(self) -> None:
        """The bounds of integers other than plain letters, and their divisors."""
        bounded, divided = set[str](), set[str]()
        for say, tree in whole_trees(self.op):
            if isinstance(tree, (Name, Number)):
                continue
            for node in divisors(tree):
                text = python(node, self.vectors)
                if not isinstance(node, Number) and text not in divided:
                    self.add("divisor", value=text, say=spell(node))
                divided.add(text)
            for quotient in exact_quotients(tree):
                text = python(quotient, self.vectors)
                if text not in divided:
                    self.add("exactly", value=text)
                divided.add(text)
            text, each = (python(self.reach(tree), self.vectors, wrap=wrap) for wrap in ("max", "tuple"))
            if text != each and not self.op.spatial_rank.min:  # a call may have no spatial axis
                text = f"max({each}, default=0)"
            if text not in bounded:
                self.add("bound", value=text, say=say)
            bounded.add(text)

    def reach(self, tree: Expr) -> Expr:
        """A bound of an index' magnitude: letters at their extents, every minus as a plus."""
        if isinstance(tree, Name) and tree.id in self.program.letters:
            return self.program.letters[tree.id].extent
        if isinstance(tree, expr.Unary):
            return self.reach(tree.operand)
        if isinstance(tree, Binary):
            if tree.op == "%":
                return self.reach(tree.right)
            if tree.op == "/":
                return self.reach(tree.left)
            return Binary("*" if tree.op == "*" else "+", self.reach(tree.left), self.reach(tree.right))
        if isinstance(tree, Call) and tree.function == "number":
            return self.span(tree)
        if isinstance(tree, Call) and tree.function != "prod":
            result, *rest = map(self.reach, tree.arguments)
            for other in rest:
                result = Binary("+", result, other)
            return result
        return tree

    def span(self, tree: Call) -> Expr:
        """The number of values of the letters of number()."""
        letters = [self.program.letters[name.id] for name in tree.arguments if isinstance(name, Name)]
        factors = [x.extent if x.kind == "one" else Call("prod", (x.extent,)) for x in letters]
        result, *rest = factors
        for factor in rest:
            result = Binary("*", result, factor)
        return result

    def numbers(self) -> None:
        """Numbers of letters that become real: the type of a row's values must hold all of them."""
        real = [part for part in self.program.parts if part.target.tensor not in self.program.integers]
        values = [node for part in real for formula in part.formulas for node in expr.outside_indices(formula.value)]
        numbers = [node for node in values if isinstance(node, Call) and node.function == "number"]
        for text in dict.fromkeys(python(self.span(number), self.vectors) for number in numbers):
            self.add("counted", value=text)
