"""Random operations of steps that are put together of idioms, each of which kernels treat in a way of its own.

Scans, groups found by a quotient, windows, products with zero points, rows of arithmetic, normalisations, places of
maxima, conversions, bits, stretched sums, words: each makes arrays of arrays that are there. In: a random generator.
Out: the text of a spec.
"""

from __future__ import annotations

from collections.abc import Callable

from .idiom_spec import RUNS, Array, IdiomSpec, Rng


class Idioms(IdiomSpec):
    """Idioms: each adds steps, and arrays for those that follow."""

    def arithmetic(self) -> None:
        """Rows of cheap arithmetic, one read by another."""
        v, name = self.array(), self.name()
        other = next((a for a in self.arrays[::-1] if a is not v and {*a.letters} <= {*v.letters}), v)
        a, b = self.cell(v), self.cell(other)
        form = self.one(("{a} - {b}", "{a} + 2 * {b}", "max({a}, {b})", "{a} * {b}", "abs({a}) - 1",
                         "select({a} > {b}, {a}, 1)" if not {None} & {v.most, other.most} else "{a} + {b}", "{a} + number({l})"))  # fmt: skip
        letter = self.one(v.letters) if v.letters else ""
        if "number" in form and not letter:
            form = "-{a}"
        text = form.replace("{a}", a).replace("{b}", b).replace("{l}", letter)
        most = self.most(v, other, by=3)
        most = most + 100_000 if most and "number" in form else most
        order = v.letters if self.chance(0.7) else self.shuffled(v.letters)
        self.made(Array(name, order, most), f"{name}[{', '.join(order)}] = {text}")

    def reduction(self) -> None:
        v, name = self.array(), self.name()
        kept, sign = self.some(v.letters), self.one(("+=", "+=", "max=", "min="))
        a = self.cell(v)
        text = self.one((a, f"{a} * {a}", f"abs({a})", f"max({a}, 0)", f"{a} - 1"))
        left = [letter for letter in v.letters if letter not in kept]
        guards = [f"{x} % 2 == 0" for x in left if x not in RUNS] + [f"{x} >= 1" for x in left if x not in RUNS]
        guard = f"\n      where: [{self.one(guards)}]" if guards and self.chance(0.25) else ""
        most = self.most(v, v, by=10_000) if sign == "+=" else self.most(v, v)
        if sign != "+=":  # what nothing reaches is infinite
            most = None if most is None else 1e9
        step = f"{name}[{', '.join(kept)}] {sign} {text}"
        self.made(Array(name, kept, most), f"do: {step}{guard}" if guard else step)

    def scan(self) -> None:
        """A running sum, maximum or minimum along an axis, from either end."""
        v, name = self.array(), self.name()
        along = [letter for letter in v.letters if letter not in RUNS]
        if not along:
            return
        at = self.one(along)
        other = f"{at}2"
        self.ranges.setdefault(other, self.ranges[at])
        sign = self.one(("+=", "+=", "max=", "min="))
        guard = f"{other} {self.one(('<=', '<', '>=', '>'))} {at}"
        read = self.cell(v, **{at: other})
        text = self.one((read, f"{read} * {read}", f"{read} + 1"))
        most = (self.most(v, v, by=200) if sign == "+=" else 1e9) if v.most is not None else None
        target, nothing = f"{name}[{', '.join(v.letters)}]", {"+=": "0", "max=": "-inf", "min=": "inf"}[sign]
        chosen = f"{target} {sign} select({guard}, {text}, {nothing})"
        self.made(
            Array(name, v.letters, most),
            chosen if self.chance(0.3) else f'do: {target} {sign} {text}\n      where: ["{guard}"]',
        )

    def groups(self) -> None:
        """Channels in groups, which a quotient of the letter finds."""
        v = self.array()
        if "c" not in v.letters or "g" in self.ranges:
            return
        self.attributes.append('{name: groups, symbol: G, type: s64, default: "1", min: 1}')
        self.constraints.append(
            "{id: groups-divide, expr: C % G == 0, say: groups divide the channels, argument: groups}"
        )
        self.lets.append("W: C / G")
        self.ranges |= {"g": "G", "w": "W"}
        name, of = self.name(), self.name()
        kept = [letter for letter in v.letters if letter != "c" and self.chance(0.6)]
        letters = self.shuffled([*kept, "g"])
        sign = self.one(("+=", "max=", "min="))
        read = self.cell(v, c="g * W + w")
        most = (self.most(v, by=10_000) if sign == "+=" else 1e9) if v.most is not None else None
        summed = self.made(Array(name, letters, most), f"{name}[{', '.join(letters)}] {sign} {read}")
        back = self.cell(summed, g="floor(c / W)")
        text = self.one(
            (f"{self.cell(v)} - {back}", f"{back} * {self.cell(v)}", f"max({self.cell(v)}, {back})", f"{back} + c % W")
        )
        most = self.most(v, summed, by=2)
        order = tuple(x for x in v.letters if x == "c" or x in text) if self.chance(0.2) else v.letters
        order = v.letters if any(f"{x}" not in order for x in v.letters if x in summed.letters) else order
        if set(order) != set(v.letters) and self.cell(v) in text:
            order = v.letters
        most = most + 200 if most is not None else None
        self.made(Array(of, order, most), f"{of}[{', '.join(order)}] = {text}")

    def window(self) -> None:
        """A window along an axis: stride, dilation and padding are attributes, taps an input or plain."""
        v = self.array()
        along = [letter for letter in v.letters if letter in "ch"]
        number = sum(letter.startswith("o") for letter in self.ranges)
        if not along or number > 1:
            return
        at, o, k = self.one(along), f"o{number}", f"k{number}"
        s, p, d = (f"{x}{number}" for x in ("S", "P", "D"))
        self.attributes += [
            f'{{name: stride{number}, symbol: {s}, type: s64, default: "1", min: 1}}',
            f'{{name: pad{number}, symbol: {p}, type: s64, default: "0", min: 0}}',
        ]
        if self.chance(0.4):
            self.attributes.append(f'{{name: dilation{number}, symbol: {d}, type: s64, default: "1", min: 1}}')
        else:
            d = "1"
        extent, taps = self.ranges[at], f"K{number}"
        weighed = self.chance(0.4)
        self.ranges |= {k: taps}
        self.lets.append(
            f"E{number}: max(floor(({extent} + 2 * {p} - ({taps} - 1) * {d} - 1) / {s}) + 1, 0)"
            if d != "1"
            else f"E{number}: max(floor(({extent} + 2 * {p} - {taps}) / {s}) + 1, 0)"
        )
        self.ranges |= {o: f"E{number}"}
        factor = ""
        if weighed:
            self.dims.append(f"taps{number}: {{symbol: {taps}, min: 1}}")
            others = [x for x in v.letters if x != at and x not in RUNS]
            own = [self.one(others), k] if others and self.chance(0.5) else [k]
            self.extra(f"taps{number}", own)
            factor = f" * taps{number}[{', '.join(own)}]"
        else:
            self.attributes.append(f'{{name: kernel{number}, symbol: {taps}, type: s64, default: "2", min: 1}}')
        index = f"{o} * {s} + {k}{'' if d == '1' else f' * {d}'} - {p}"
        sign = "+=" if weighed else self.one(("+=", "max=", "min="))
        name = self.name()
        letters = tuple(o if letter == at else letter for letter in v.letters)
        most = (self.most(v, by=60) if sign == "+=" else 1e9) if v.most is not None else None
        self.made(
            Array(name, letters, most), f"{name}[{', '.join(letters)}] {sign} {self.cell(v, **{at: index})}{factor}"
        )

    def product(self) -> None:
        """A product with a matrix, perhaps of bytes with zero points, of packed numbers, or of differences."""
        v = self.array(exact=True)
        if "c" not in v.letters or "m" in self.ranges:
            return
        self.dims.append("of_m: {symbol: M}")
        self.ranges["m"] = "M"
        letters = self.one(("mc", "cm"))
        packed = self.chance(0.25) and ", packed: C"
        if packed and self.chance(0.5):
            self.fixed["weights"] = self.one(("s4", "u4"))
            self.extra("weights", letters, packed)
        else:
            self.extra("weights", letters)
        read, other = self.cell(v), f"weights[{', '.join(letters)}]"
        zero = self.one(("", "", "za", "zb", "both"))
        if zero in ("za", "both"):
            self.attributes.append('{name: za, symbol: ZA, type: s64, default: "1"}')
            read = f"({read} - ZA)"
        if zero in ("zb", "both"):
            self.extra("zeros", ["m"])
            other = f"({other} - zeros[m])"
        if self.chance(0.15):
            read, other = f"({read} - {other})", f"({read} - {other})"
        name = self.name()
        kept = tuple(letter for letter in v.letters if letter != "c")
        order = self.shuffled([*kept, "m"])
        made = self.made(Array(name, order, self.most(v, by=5000)), f"{name}[{', '.join(order)}] += {read} * {other}")
        if self.chance(0.5):
            bias, of = self.extra("bias", ["m"], ", optional: true" if self.chance(0.4) else ""), self.name()
            form = self.one(("max({p} + {b}, 0)", "{p} * {b}", "{p} + {b}", "min({p}, {b})"))
            text = form.replace("{p}", f"{made.name}[{', '.join(order)}]").replace("{b}", self.cell(bias))
            self.made(Array(of, order, self.most(v, by=20_000)), f"{of}[{', '.join(order)}] = {text}")

    def normalised(self) -> None:
        """Shares of exponentials, or a mean and a deviation, over some letters."""
        v = self.array()
        kept = self.some(v.letters)
        if len(kept) == len(v.letters):
            return
        low, total, of = self.name(), self.name(), self.name()
        read, row, whole = self.cell(v), f"[{', '.join(kept)}]", f"[{', '.join(v.letters)}]"
        self.real = True
        if self.chance(0.5):
            self.steps += [f"{low}{row} max= {read}", f"{total}{row} += exp({read} - {low}{row})"]
            text = self.one((f"exp({read} - {low}{row}) / {total}{row}", f"{read} - {low}{row} - log({total}{row})"))
        else:
            self.steps += [f"{low}{row} += {read}", f"{total}{row} += {read} * {read}"]
            text = f"({read} - 0.125 * {low}{row}) * rsqrt({total}{row} + 1)"
        self.made(Array(of, v.letters, None), f"{of}{whole} = {text}")

    def mean(self) -> None:
        """A sum of terms that their number, or one less, divides, or a mean and the variance about it."""
        v = self.array()
        kept = self.some(v.letters)
        gone = [letter for letter in v.letters if letter not in kept]
        if not gone:
            return
        self.real = True
        name, row = self.name(), f"[{', '.join(kept)}]"
        cells = [f"prod({self.ranges[letter]})" if letter in RUNS else self.ranges[letter] for letter in gone]
        other = self.one([*cells, "4"])
        of = self.one((f"{' / '.join(cells)}", f"({' * '.join(cells)})", f"({' * '.join(cells)} - 1)", other))
        read = self.cell(v)
        text = self.one((read, f"{read} * {read}", f"abs({read} - 1)", f"{other} * {read}"))
        guards = [f"{x} % 2 == 0" for x in gone if x not in RUNS] if "- 1)" not in of else []
        guard = f"\n      where: [{self.one(guards)}]" if guards and self.chance(0.25) else ""
        shares = f"{text} / {of}"
        if self.chance(0.25) and v.most is not None:
            shares = f"select({read} > 0, {shares}, 0)"
        step = f"{name}{row} += {shares}"
        made = self.made(Array(name, kept, None), f"do: {step}{guard}" if guard else step)
        if self.chance(0.5):
            far, about = self.name(), f"({read} - {self.cell(made)})"
            self.made(Array(far, kept, None), f"{far}{row} += {about} * {about} / {of}")

    def gated(self) -> None:
        """Cells beside functions of an input with few of their letters."""
        v = self.array()
        letters = [letter for letter in v.letters if letter in self.core]
        if not letters or any("gate" in text for text in self.inputs):
            return
        gate, name = self.extra("gate", self.shuffled(self.some(letters) or letters[:1])), self.name()
        self.real = True
        form = self.one(("{a} / (1 + exp(-{g}))", "({a} - {g}) / sqrt({g} * {g} + 1)", "{a} * rsqrt({g} * {g} + 2) - exp2({g})",
                         "max({a}, log1p(abs({g})))", "select({g} > 0, {a} * tanh({g}), erf({g}) - 1)"))  # fmt: skip
        text = form.replace("{a}", self.cell(v)).replace("{g}", self.cell(gate))
        self.made(Array(name, v.letters, None), f"{name}[{', '.join(v.letters)}] = {text}")

    def place(self) -> None:
        """Where the first of the greatest, or least, is."""
        v = self.array(exact=True)
        kept = self.some(v.letters)
        gone = [letter for letter in v.letters if letter not in kept]
        if not gone:
            return
        peak, at, row = self.name(), self.name(), f"[{', '.join(kept)}]"
        sign = self.one(("max=", "min="))
        read = self.cell(v)
        self.real = True
        self.steps.append(f"{peak}{row} {sign} {read}")
        text = f"select({read} == {peak}{row}, number({', '.join(gone)}), inf)"
        self.made(Array(at, kept, 1e9), f"{at}{row} min= {text}")

    def conversion(self) -> None:
        v, name = self.array(exact=True), self.name()
        kind = self.one(("bf16", "f16", "f32", "s8", "u8", "s32", "f8_e4m3", "f8_e5m2", "s4", "u4"))
        self.real = self.real or "f" in kind
        order = v.letters if self.chance(0.7) else self.shuffled(v.letters)
        factor = self.one(("", " * 3", " + 1"))
        self.made(
            Array(name, order, self.most(v, by=4)), f"{name}[{', '.join(order)}] = to_{kind}({self.cell(v)}{factor})"
        )

    def turned(self) -> None:
        """Cells read from the other end, around the end, beyond it, or at every second place."""
        v, name = self.array(), self.name()
        along = [letter for letter in v.letters if letter in "ch"]
        if not along:
            return
        at = self.one(along)
        extent = self.ranges[at]
        index = self.one((f"{extent} - 1 - {at}", f"{at} + 1", f"{at} - 2", f"floor({at} / 2)", f"2 * {at}",
                          f"min({at} + 1, {extent} - 1)", f"max({at} - 1, 0)", f"floor({at} / 4) * 4"))  # fmt: skip
        read = self.cell(v, **{at: index})
        self.made(
            Array(name, v.letters, self.most(v, by=3)),
            f"{name}[{', '.join(v.letters)}] = {read} + {self.cell(v) if self.chance(0.5) else '1'}",
        )

    def word(self) -> None:
        """A formula that a word or a truth value chooses."""
        v, name = self.array(), self.name()
        mode = f"mode{sum('mode' in text for text in self.attributes)}"
        self.attributes.append(f"{{name: {mode}, type: string, default: plain, values: [plain, other, third]}}")
        target = f"{name}[{', '.join(v.letters)}]"
        a = self.cell(v)
        forms = self.shuffled((a, f"{a} * {a}", f"max({a}, 0)", f"2 * {a} - 1", f"abs({a})"))
        cases = "".join(
            f"\n        {word}: {target} = {form}"
            for word, form in zip(("plain", "other", "third"), forms, strict=False)
        )
        self.made(Array(name, v.letters, self.most(v, v, by=2)), f"by: {mode}\n      cases:{cases}")

    def stretched(self) -> None:
        """An input that broadcasts, and perhaps the sum of what stands at its cells."""
        v = self.array()
        letters = [letter for letter in v.letters if letter in self.core]
        if not letters or any("offset" in text for text in self.inputs):
            return
        chosen = self.some(letters) or tuple(letters[:1])
        wide = self.some(chosen) or chosen[:1]
        self.extra("offset", chosen, f", broadcast: [{', '.join(x.upper() for x in wide)}]")
        name, offset = self.name(), Array("offset", chosen, 3)
        form = self.one(("{a} + {b}", "{a} * {b}", "max({a}, {b})"))
        text = form.replace("{a}", self.cell(v)).replace("{b}", self.cell(offset))
        made = self.made(Array(name, v.letters, self.most(v, by=4)), f"{name}[{', '.join(v.letters)}] = {text}")
        if self.chance(0.4) and made.most is not None:
            sign = self.one(("+=", "max=", "min="))
            self.steps.append(f"of_offset[{', '.join(chosen)}] {sign} {self.cell(made)}")
            self.outputs.append(f"{{name: of_offset, dims: {{{self.axes(chosen)}}}, broadcast_as: offset}}")
            self.stored["of_offset"] = Array("of_offset", chosen, 1e9)

    def bits(self) -> None:
        """Integers of an input, mixed by their bits."""
        if any("ids" in text for text in self.inputs):
            return
        letters = self.shuffled(self.some(self.core) or self.core[:1])
        self.extra("ids", letters)
        self.fixed["ids"] = self.one(("s32", "u8", "s8", "s64", "u64"))
        name = self.name()
        read = f"ids[{', '.join(letters)}]"
        text = self.one((f"bit_and({read} * 5 + 3, 7)", f"bit_xor({read}, shift_right({read}, 1))",
                         f"bit_or(bit_and(shift_left({read}, 2), 12), 1)"))  # fmt: skip
        self.made(Array(name, letters, 16), f"{name}[{', '.join(letters)}] = {text}")

    def stretch(self) -> None:
        """Cells repeated along an axis that only a stated shape gives."""
        v = self.array()
        if "p" in self.ranges or self.kept:
            return
        self.dims.append("of_p: {symbol: L}")
        self.ranges["p"] = "L"
        name, letters = self.name(), self.shuffled([*v.letters, "p"])
        form = self.one(("{a}", "{a} + p % 3", "{a} * (p % 2)", "select(p == 1, {a}, 1)" if v.most else "{a}"))
        most = self.most(v, by=3)
        text = form.replace("{a}", self.cell(v))
        self.made(Array(name, letters, most + 3 if most else most), f"{name}[{', '.join(letters)}] = {text}")

    def admitted(self) -> None:
        """An input that a truth value lets in, and that may be left out."""
        v = self.array()
        if any("guest" in text for text in self.optional):
            return
        letters = self.some(v.letters) or v.letters[:1]
        self.attributes.append(f'{{name: admits, type: bool, default: "{self.one(("true", "false"))}"}}')
        absent = self.one(("", ", absent: 1", ", absent: 2"))
        self.extra("guest", letters, f", optional: true, when: admits{absent}")
        name = self.name()
        text = self.one(("{a} * {g}", "{a} + {g}", "max({a}, {g})")).replace("{a}", self.cell(v))
        text = text.replace("{g}", f"guest[{', '.join(letters)}]")
        self.made(Array(name, v.letters, self.most(v, by=4)), f"{name}[{', '.join(v.letters)}] = {text}")

    def draw(self) -> str:
        """Some idioms one after the other, as the text of a spec."""
        kinds: tuple[Callable[[], None], ...] = (
            self.arithmetic, self.arithmetic, self.reduction, self.reduction, self.scan, self.groups, self.groups,
            self.window, self.window, self.product, self.product, self.normalised, self.mean, self.gated, self.place, self.conversion,
            self.turned, self.word, self.stretched, self.bits, self.stretch, self.admitted,
        )  # fmt: skip
        for _ in range(int(self.rng.integers(1, 6))):
            kinds[int(self.rng.integers(len(kinds)))]()
        return self.text()


def idioms(rng: Rng, op: str) -> str:
    """The text of a spec."""
    return Idioms(rng, op).draw()
