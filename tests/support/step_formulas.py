"""Random values, conditions and indices of steps: what a new user would write of the letters and arrays at hand.

Numbers are of three sorts: `small` ones are few halves, `sums` are many of them, and `rough` ones are rounded. What
decides, as a comparison or floor does, is made of small ones only, so that kernels and the interpreter decide alike.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from .spec_drafts import Rng


@dataclass(frozen=True)
class Letter:
    """A letter of ranges: its extent, and what it walks: `one` axis, the `spatial` ones, or a `run`."""

    name: str
    extent: str
    kind: str = "one"


@dataclass(frozen=True)
class Source:
    """What a step may read: its axes by extent and kind, and the sort of its numbers."""

    name: str
    axes: tuple[tuple[str, str], ...]
    sort: str = "small"


@dataclass
class Formulas:
    """Draws formulas over some letters and sources."""

    rng: Rng
    letters: list[Letter]
    sources: list[Source]
    whole: bool  # no real numbers
    numbers: list[str] = field(default_factory=list)  # attributes that are at least 0, and sizes
    divisors: list[str] = field(default_factory=list)  # attributes that are at least 1
    reals: list[str] = field(default_factory=list)
    truths: list[str] = field(default_factory=list)
    vectors: list[str] = field(default_factory=list)  # lists with a number per spatial axis
    bits: bool = False  # whether bits of integers may be moved
    plain: bool = False  # whether letters stand alone in indices, and nowhere else

    def one(self, items: Sequence[str]) -> str:
        return items[int(self.rng.integers(len(items)))]

    def chance(self, share: float) -> bool:
        return bool(self.rng.random() < share)

    # Reads.

    def readable(self, rough: bool = False) -> list[Source]:
        """Sources whose runs and spatial axes some letter walks."""
        walked = {(letter.extent, letter.kind) for letter in self.letters}
        return [
            source
            for source in self.sources
            if all(axis in walked or (axis[1] == "one" and not self.plain) for axis in source.axes)
            and (rough or source.sort != "rough")
        ]

    def read(self, source: Source) -> str:
        """An element of a source; a sum as a small number."""
        text = f"{source.name}[{', '.join(self.index(*axis) for axis in source.axes)}]"
        if source.sort == "small":
            return text
        return f"min(max({text}, -4), 4)"

    def index(self, extent: str, kind: str) -> str:
        """An index of an axis of that extent; runs are walked by their letter alone."""
        own = [letter.name for letter in self.letters if (letter.extent, letter.kind) == (extent, kind)]
        if kind == "ones":
            return "0"
        if kind == "run" or self.plain:
            return own[0]
        if kind == "spatial":
            plain = self.one(own)
            forms = [plain] * 3 + [f"{extent} - 1 - {plain}", f"{plain} + 1", f"floor({plain} / 2)"]
            forms += [f"{plain} * {vector} - 1" for vector in self.vectors]
            return self.one(forms)
        ones = [letter.name for letter in self.letters if letter.kind == "one"]
        if not own and not ones:
            return self.one(["0", f"{extent} - 1", *self.numbers[:1]])
        letter = self.one(own) if own and self.chance(0.85) else self.one(ones or own)
        other = self.one(ones or own)
        forms = [letter] * 6 if own else []
        forms += [
            f"{extent} - 1 - {letter}", f"{letter} + {other} - 1", f"min({letter} + 1, {extent} - 1)",
            f"max({letter} - 1, 0)", f"floor({letter} / 2)", f"ceil({letter} / 3) * 2", f"-{letter} + {extent} - 1",
        ]  # fmt: skip
        forms += [f"({letter} + {number}) % {self.one(self.divisors)}" for number in self.numbers if self.divisors]
        forms += [f"{letter} * {divisor} - {other}" for divisor in self.divisors]
        return self.one(forms)

    # Numbers.

    def integer(self) -> str:
        """A small integer of letters and symbols."""
        plain = [letter.name for letter in self.letters if letter.kind == "one"]
        runs = [f"number({letter.name})" for letter in self.letters if letter.kind != "one"]
        forms = ["1", "2", "3"]
        if self.plain:
            return self.one(forms)
        for letter in plain + runs:
            forms += [f"({letter} % 4)", f"(floor({letter} / 3) % 5)", f"min({letter}, 3)"]
        forms += [f"max({a} - {b}, -3)" for a in plain[:1] for b in plain[-1:]] + [f"min({n}, 4)" for n in self.numbers]
        forms += [f"(ceil({letter} / {divisor}) % 3)" for letter in plain for divisor in self.divisors]
        return self.one(forms)

    def atom(self) -> str:
        sources = [source for source in self.readable() if source.axes or source.sort == "small"]
        if sources and self.chance(0.7):
            return self.read(sources[int(self.rng.integers(len(sources)))])
        if not self.whole and self.chance(0.3):
            return self.one(["0.5", "-1.5", *self.reals])
        return self.integer()

    def exact(self, depth: int = 0) -> str:
        """A small number."""
        if depth > 2:
            return self.atom()
        a, b = self.exact(depth + 1), self.exact(depth + 1)
        forms = [
            self.atom(), self.atom(), f"({a} + {b})", f"({a} - {b})", f"-({a})", f"abs({a})", f"min({a}, {b}, 3)",
            f"max({a}, {b})", f"sign({a})", f"select({self.condition(depth + 1)}, {a}, {b})",
            f"{self.atom()} * {self.atom()}", f"({a} - {b}) * 2",
        ]  # fmt: skip
        if self.bits:
            forms += [
                f"bit_{self.one(('and', 'or', 'xor'))}({a}, {b})", f"bit_not({a})",
                f"shift_right({a}, {self.one(('1', b))})", f"shift_left({a}, {self.one('12')})",
            ]  # fmt: skip
        if self.whole:
            forms += [f"{self.one(('floor', 'ceil'))}({a} / {self.one(('2', '3', '7', '(-5)', b))})"]
        forms += [f"{self.one(('to_s8', 'to_u8', 'to_s32', 'to_s4', 'to_u4'))}({a})"]
        if not self.whole:
            forms += [f"to_{self.one(('f32', 'bf16', 'f16', 'f8_e5m2', 'f8_e4m3'))}({a})"]
            forms += [f"round({a} * 0.5)", f"floor({a} / 2)", f"ceil(0.25 * {a})", f"({a}) / 2", f"round(-({a}) / 2)"]
        return self.one(forms)

    def product(self) -> str:
        """A factor times another, which steps may store: sums of such may be contractions."""
        return f"{self.atom()} * ({self.exact(1)})"

    def condition(self, depth: int = 0) -> str:
        compare = self.one(["==", "!=", "<", "<=", ">", ">="])
        forms = [f"{self.atom()} {compare} {self.atom()}", f"{self.integer()} {compare} {self.integer()}", *self.truths]
        if depth < 2:
            a, b = self.condition(depth + 1), self.condition(depth + 1)
            forms += [f"({a} and {b})", f"({a} or {b})", f"not ({a})"]
        return self.one(forms)

    def where(self) -> str:
        """A condition of integers."""
        plain = [letter.name for letter in self.letters if letter.kind == "one"]
        spatial = [letter.name for letter in self.letters if letter.kind == "spatial"]
        forms = [f"{letter} % 2 == 0" for letter in plain] + [f"{letter} >= 1" for letter in spatial]
        forms += [f"{a} <= {b} or {a} == 3" for a in plain for b in plain if a != b]
        forms += [f"number({letter.name}) % 3 != 1" for letter in self.letters if letter.kind == "run"]
        forms += [f"floor({a} / {d}) < 4" for a in plain for d in self.divisors]
        forms += [f"{truth} or {letter} > 0" for truth in self.truths for letter in plain]
        return self.one(forms or ["1 < 2"])

    def rough(self) -> str:
        """A number that is rounded."""
        v, w = self.exact(1), self.exact(1)
        forms = [
            f"exp(min(max({v}, -3), 3))", f"exp2(min({v}, 4))", f"log(abs({v}) + 1)", f"log1p(abs({v}))", f"tanh({v})",
            f"erf({v} / 2)", f"sqrt(abs({v}))", f"rsqrt(abs({v}) + 1)", f"pow(abs({v}) + 0.5, {self.one(['2', '0.5', '-1'])})",
            f"({v}) / (abs({w}) + 1)", f"({v}) * 0.1",
        ]  # fmt: skip
        forms += [f"({v}) / max(prod({x.extent}), 1)" for x in self.letters if x.kind == "run"]
        sources = [source for source in self.readable(rough=True) if source.sort == "rough"]
        for source in sources[-2:]:
            read = f"{source.name}[{', '.join(self.index(*axis) for axis in source.axes)}]"
            forms += [
                f"{read} + {v}",
                f"({v}) - 2 * {read}",
                f"max({read}, {v})",
                f"tanh({read})",
                f"abs({read}) / 3",
            ] * 2
        return self.one(forms)
