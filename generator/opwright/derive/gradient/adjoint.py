"""Reverse mode over the steps of an operation: propagates gradients from each step to the values it reads.

In: an operation of steps, the inputs whose gradient is wanted, and the outputs that the gradient may take as inputs.
Out: a `Gradient`. Raises Underivable. Steps are walked from the last to the first; the gradient of an array is complete
when the last step that writes it is met, because nothing before that reads it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace

from ...language import expr
from ...language.expr import Binary, Call, Expr, Name, Number, Read
from ...language.model import Op
from ...language.spelling import spell
from ..program import Axis, Formula, Part
from .disjoint import disjoint, repeats
from .known import Known
from .placing import placed, put_in
from .rules import gradients
from .shared import fresh
from .statements import PREFIXES, Need, Share, Statement, Underivable, extent_of, inside, needs_of, plain
from .sums import Sums
from .terms import Sum, add, factor, grouped, product, quotient, select, terms_of, tree_of
from .versions import forward

LONG = 400  # length of a value, in characters, above which its terms are added in several steps


class Reverse:
    """The walk from the last step to the first."""

    def __init__(
        self, op: Op, of: Iterable[str], outputs: Iterable[str], hidden: frozenset[str], prefix: str = PREFIXES[0]
    ) -> None:
        self.op, self.found, self.prefix = op, forward(op), prefix
        self.of, self.outputs = tuple(of), tuple(outputs)
        self.needs = {part.number: self.needed(part) for part in self.found.parts}
        self.taken = {*self.found.arrays, *self.found.letters, *map(self.diff, (*self.of, *self.outputs))}
        self.active = self.moving()
        self.shares: dict[str, list[Share]] = {name: [] for name in self.active}
        self.settled: dict[str, tuple[Sum, Read | None]] = {}
        self.remote: dict[str, list[Share]] = {}
        self.statements: list[Statement] = []
        self.axes = {name: array.axes for name, array in self.found.arrays.items()}
        self.axes |= {self.diff(name): self.found.arrays[name].axes for name in (*self.of, *self.outputs)}
        self.known = Known(self.found, self.needs, hidden)
        self.sums = Sums(self.found, self.known, self.fresh, self.write_sum)

    def run(self) -> tuple[Statement, ...]:
        """The statements of the gradient, in the order in which they run."""
        for part in reversed(self.found.parts):
            name = part.target.tensor
            if name in self.active:
                if name not in self.settled:
                    self.settle(name, part)
                self.reverse(part)
        for name in self.of:
            self.finish(name)
        return tuple(self.statements)

    # Facts about the forward steps.

    def fresh(self, name: str) -> str:
        """An unused name."""
        made = fresh(name, self.taken)
        self.taken.add(made)
        return made

    def diff(self, name: str) -> str:
        return self.prefix + name

    def is_active(self, read: Read) -> bool:
        return read.tensor in self.active

    def moving(self) -> frozenset[str]:
        """The arrays that depend differentiably on the inputs."""
        found = set(self.of)
        for part in self.found.parts:
            if _moves(part, found):
                found.add(part.target.tensor)
        return frozenset(found)

    def moves(self, part: Part) -> bool:
        """Whether what a step computes depends differentiably on the inputs."""
        return _moves(part, self.active)

    def needed(self, part: Part) -> dict[str, frozenset[Need]]:
        """By word, the elements of a step that may be out of bounds."""
        return {
            formula.word: frozenset(needs_of(self.found, (part.target, *formula.reads))) for formula in part.formulas
        }

    # Arrays.

    def settle(self, name: str, last: Part) -> None:
        """The gradient of an array, in the letters of its elements, at the last step that writes it."""
        writers = [part for part in self.found.parts if part.target.tensor == name]
        self.refuse(name, writers)
        if name in self.outputs and self.shares[name]:
            cells = (last.target, *(share.target for share in self.shares[name]))
            cell = next((cell for cell in cells if plain(self.found, cell) is not None), None)
            if cell is None:
                raise Underivable(f"'{name}' is written at scattered cells and read again")
            read = Read(self.diff(name), cell.indices)
            self.shares[name].insert(0, Share(cell, {"": factor(read)}, None, self.names(cell)))
        direct, remote = placed(self.found, self.shares[name], writers)
        if remote and any(part.operator not in ("set", "sum") for part in writers):
            message = f"'{name}' is an extreme or a product and then read by more than letters"
            raise Underivable(message)
        self.remote[name] = remote
        if not direct:
            self.settled[name] = ((), None)
            return
        target = direct[0].target
        guarded = [share for share in direct if share.by or (share.guarded and share.letters <= self.names(target))]
        before = len(self.statements)
        value = self.sums.total([share for share in direct if share not in guarded], name)
        value = self.known.shorter(value)
        bare = all(isinstance(tree, (Read, Name)) for term in value for tree, _ in term.factors)
        if not guarded and ((len(value) <= 1 and bare) or self.continues(target, value)):
            self.settled[name] = (self.renamed_sum(value, name, before), target)
            return
        made = Read(self.fresh(self.diff(name)), self.letters_only(target))
        self.axes[made.tensor] = tuple(
            self.found.letters[index.id] for index in made.indices if isinstance(index, Name)
        )
        if value:
            self.statements.append(Statement(made, "set", {"": grouped(value)}))
        for number, share in enumerate(sorted(guarded, key=lambda share: not share.letters <= self.names(target))):
            first = number == 0 and not value and share.letters <= self.names(target)
            self.write(replace(share, target=made), "set" if first else "sum")
        self.settled[name] = (factor(made), target)

    def continues(self, target: Read, value: Sum) -> bool:
        """Whether a gradient is not stored: that of a function of exponentials, which one product keeps finite."""
        formula = self.known.formulas.get(target)
        if formula is None or not value or not self.known.has_exponential(formula):
            return False
        return self.known.grows(target) or len(spell(grouped(value))) <= LONG // 2

    def renamed_sum(self, value: Sum, name: str, before: int) -> Sum:
        """A gradient that is a single new sum reuses that sum."""
        made = self.statements[before:]
        if len(made) == 1 and value == factor(made[0].target) and name not in self.outputs:
            old, new = made[0].target, replace(made[0].target, tensor=self.fresh(self.diff(name)))
            self.statements[before:] = [replace(made[0], target=new)]
            self.axes[new.tensor] = self.axes[old.tensor]
            self.known.sums = {key: new if read == old else read for key, read in self.known.sums.items()}
            return factor(new)
        return value

    def refuse(self, name: str, writers: list[Part]) -> None:
        """Cases that reverse mode does not support."""
        first, last = writers[0].number, writers[-1].number
        for part in self.found.parts:
            if first < part.number <= last and any(read.tensor == name for read in part.reads):
                raise Underivable(f"step {part.number + 1} reads '{name}' between the steps that write it")
        if len(writers) > 1 and {part.operator for part in writers} - {"set", "sum"}:
            raise Underivable(f"'{name}' is written by several steps, of which not all add")
        for later in (part for part in writers if part.operator == "set"):
            before = (part for part in writers if part.number < later.number and self.moves(part))
            if not all(disjoint(self.found, part, later) for part in before):
                raise Underivable(f"step {later.number + 1} writes cells of '{name}' anew, and others stay")

    def names(self, read: Read) -> frozenset[str]:
        return expr.names(read) & self.found.letters.keys()

    def letters_only(self, read: Read) -> tuple[Expr, ...]:
        return tuple(index for index in read.indices if isinstance(index, Name))

    # Steps.

    def reverse(self, part: Part) -> None:
        """Propagate the gradient of a step's target to the values that it reads."""
        name = part.target.tensor
        value, target = self.settled[name]
        if name in self.outputs and not self.shares[name]:
            self.of_part(part, factor(Read(self.diff(name), part.target.indices)))
        elif value and target is not None:
            trees = {old.id: new for old, new in zip(target.indices, part.target.indices) if isinstance(old, Name)}
            seed = terms_of(expr.substitute(tree_of(value), trees))
            self.of_part(part, seed)
        for share in self.remote[name]:
            self.of_remote(part, share)

    def of_part(self, part: Part, seed: Sum) -> None:
        guards = tuple(guard.tree for guard in part.where)
        reduced = [letter for letter in part.letters if letter not in self.names(part.target)]
        chooses = part.operator in ("max", "min") and reduced
        if part.operator != "sum" and not reduced and repeats(self.found, part):
            raise Underivable(f"step {part.number + 1} may write a cell of '{part.target.tensor}' several times")
        if part.operator == "product" and reduced:
            found = {f.word: self.of_product(part, f, seed) for f in part.formulas}
        elif chooses:
            condition = self.attained(part, reduced)
            found = {f.word: self.chosen(f, condition, seed) for f in part.formulas}
        else:
            found = {f.word: gradients(f.value, seed, self.is_active) for f in part.formulas}
        walked = {f.word: frozenset(part.letters_of(f)) for f in part.formulas}
        if part.operator not in ("set", "sum") and len(set(walked.values())) > 1:
            raise Underivable(f"the cases of '{part.by}' take extremes or products over different letters")
        self.pass_on(found, part.by, walked, guards, self.needs[part.number])

    def pass_on(
        self,
        found: Mapping[str, Mapping[Read, Sum]],
        by: str | None,
        letters: Mapping[str, frozenset[str]],
        where: tuple[Expr, ...],
        needs: Mapping[str, frozenset[Need]],
    ) -> None:
        """Record the shares of every element that a step reads, one for all cases with the same letters."""
        for read in dict.fromkeys(read for one in found.values() for read in one):
            cases = {word: self.known.finite(one.get(read, ())) for word, one in found.items()}
            alike = dict.fromkeys((letters[word], needs[word]) for word, value in cases.items() if value)
            for walked, missing in alike:
                here = {w: v if (letters[w], needs[w]) == (walked, missing) else () for w, v in cases.items()}
                self.shares[read.tensor].append(Share(read, here, by, walked, where, missing))

    def chosen(self, formula: Formula, condition: Expr, seed: Sum) -> dict[Read, Sum]:
        found = gradients(formula.value, seed, self.is_active)
        return {read: select(condition, value, ()) for read, value in found.items()}

    def attained(self, part: Part, reduced: list[str]) -> Expr:
        """Whether an element is the first one that attains the extreme."""
        if plain(self.found, part.target) is None:
            raise Underivable(f"'{part.target.tensor}' takes extremes of scattered elements")
        target = part.target
        attains: dict[str, Expr] = {f.word: Binary("==", f.value, target) for f in part.formulas}
        letters = tuple(Name(letter) for letter in reduced)
        alone = len(letters) == 1 and self.found.letters[reduced[0]].kind == "one"
        place: Expr = letters[0] if alone else Call("number", letters)
        made = Read(self.fresh(f"{target.tensor}_first"), self.letters_only(target))
        self.axes[made.tensor] = tuple(self.found.letters[i.id] for i in made.indices if isinstance(i, Name))
        last = Number(float("inf"))
        values: dict[str, Expr] = {word: Call("select", (test, place, last)) for word, test in attains.items()}
        guards = tuple(guard.tree for guard in part.where)
        self.statements.append(Statement(made, "min", values, part.by, guards))
        return Binary("==", place, made)

    def of_product(self, part: Part, formula: Formula, seed: Sum) -> dict[Read, Sum]:
        """The product of all other factors: the product divided by this one, or, if one is 0, of the nonzero ones."""
        if part.by or plain(self.found, part.target) is None:
            raise Underivable(f"'{part.target.tensor}' multiplies values that an attribute selects, or scatters")
        target, value = part.target, formula.value
        indices, guards = self.letters_only(target), tuple(guard.tree for guard in part.where)
        zeros, rest = (Read(self.fresh(f"{target.tensor}_{word}"), indices) for word in ("zeros", "rest"))
        for read in (zeros, rest):
            self.axes[read.tensor] = tuple(self.found.letters[i.id] for i in indices if isinstance(i, Name))
        is_zero = Binary("==", value, Number(0))
        counted = Call("select", (is_zero, Number(1), Number(0)))
        self.statements.append(Statement(zeros, "sum", {"": counted}, None, guards))
        others = Call("select", (is_zero, Number(1), value))
        self.statements.append(Statement(rest, "product", {"": others}, None, guards))
        alone = select(Binary("==", zeros, Number(1)), factor(rest), ())
        among = select(Binary("==", zeros, Number(0)), quotient(factor(rest), terms_of(value)), ())
        return gradients(value, product(seed, select(is_zero, alone, among)), self.is_active)

    def of_remote(self, part: Part, share: Share) -> None:
        """A share at indices that are not plain letters is propagated through the step that made those elements."""
        own = plain(self.found, part.target)
        letters = [letter for letter in part.letters if letter not in self.names(part.target)]
        if own is None or share.by or part.by or set(letters) & share.letters:
            message = f"'{part.target.tensor}' is read at indices that are not letters, by a step with sums or extremes"
            raise Underivable(message)
        pairs = zip(part.target.indices, share.target.indices, strict=True)
        trees = {old.id: new for old, new in pairs if isinstance(old, Name)}
        (formula,) = part.formulas

        def at(tree: Expr) -> Expr:
            return put_in(self.found, tree, {Name(old): new for old, new in trees.items()})

        found = gradients(at(formula.value), share.value, self.is_active)
        moved = (Need(tuple(map(at, n.indices)), n.axes) for n in self.needs[part.number][""])
        guards = (*share.where, *(at(guard.tree) for guard in part.where))
        walked = share.letters | set(letters)
        self.pass_on({"": found}, None, {"": walked}, guards, {"": share.needs | frozenset(moved)})

    # Statements.

    def finish(self, name: str) -> None:
        """The statements that compute the gradient of an input."""
        merged: dict[object, Share] = {}
        for share in self.shares[name]:
            place = (share.target, share.by, share.letters, share.where, share.needs)
            before = merged.get(place)
            cases = {w: add(before.cases[w] if before else (), v) for w, v in share.cases.items()}
            merged[place] = replace(share, cases={w: self.known.shorter(v) for w, v in cases.items()})
        found = [self.summed(share) for share in merged.values() if any(share.cases.values())]
        found.sort(key=lambda share: not self.whole(share))
        for number, share in enumerate(found):
            target = replace(share.target, tensor=self.diff(name))
            self.axes[target.tensor] = self.axes[name]
            self.write(replace(share, target=target), "set" if number == 0 and self.whole(share) else "sum")

    def whole(self, share: Share) -> bool:
        return plain(self.found, replace(share.target)) is not None and share.letters == self.names(share.target)

    def summed(self, share: Share) -> Share:
        """A share without unknown sums: an elementwise value."""
        extra = share.letters - self.names(share.target)
        if share.by or not extra or plain(self.found, share.target) is None:
            return share
        if any(self.sums.summed(term, extra, share) is None for term in share.value):
            return share
        value = self.sums.total([share], share.target.tensor)
        return Share(share.target, {"": value}, None, share.letters - extra)

    def write_sum(self, share: Share, read: Read) -> None:
        self.axes[read.tensor] = tuple(self.found.letters[i.id] for i in read.indices if isinstance(i, Name))
        self.write(replace(share, target=read), "sum")

    def write(self, share: Share, op: str) -> None:
        """A share as a step: with all its terms and the conditions that its reads do not imply."""
        (value, *words) = share.cases.values()
        if not words and len(value) > 1 and len(spell(grouped(value))) > LONG:
            for half in (value[: len(value) // 2], value[len(value) // 2 :]):
                self.write(replace(share, cases={"": half}), op)
                op = "sum"
            return
        values = {word: grouped(value) if value else Number(0) for word, value in share.cases.items()}
        seen = {(i, a.extent, a.kind) for i, a in self.accesses((share.target, *_all_reads(values.values())))}
        missing = [n for n in share.needs if (n.indices[0], n.axes[0].extent, n.axes[0].kind) not in seen]
        where = (
            *share.where,
            *dict.fromkeys(guard for need in sorted(missing, key=str) for guard in inside(self.found, need)),
        )
        values = {
            word: self.counted(share, value, where) if value != Number(0) else value for word, value in values.items()
        }
        alike = len(set(values.values())) == 1
        only = {"": next(iter(values.values()))}
        self.statements.append(
            Statement(share.target, op, only if alike else values, None if alike else share.by, where)
        )

    def counted(self, share: Share, value: Expr, where: tuple[Expr, ...]) -> Expr:
        """A value times the extents of the letters that it does not name."""
        named = expr.names(share.target).union(*map(expr.names, (value, *where)))
        for letter in sorted(share.letters - named):
            value = tree_of(product(terms_of(value), terms_of(extent_of(self.found, letter))))
        return value

    def accesses(self, reads: Iterable[Read]) -> Iterable[tuple[Expr, Axis]]:
        for read in reads:
            yield from zip(read.indices, self.axes[read.tensor])


def _moves(part: Part, active: Collection[str]) -> bool:
    seed = factor(Name("seed"))
    return any(gradients(formula.value, seed, lambda read: read.tensor in active) for formula in part.formulas)


def _all_reads(values: Iterable[Expr]) -> list[Read]:
    return [read for value in values for read in expr.reads(value)]
