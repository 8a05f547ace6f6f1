"""Random operations of steps that write an array more than once, or read it at other indices than letters.

In: a random generator. Out: a spec. Arrays are overwritten in place, under conditions, after they were read; outputs
are put together of cells that different steps write; extremes and sums are read at windows and at quotients.
"""

from __future__ import annotations

from .random_programs import Programs

# What a step that overwrites makes of the values before.
OVER = ("{u} / (2 + {u} * {u})", "tanh({u})", "{u} + {v}", "max({u}, {v})", "{v} * {u}", "{v}")
# Pairs of places along an axis of twice as many columns, and the condition for each.
HALVES = (("2 * c", "2 * c + 1"), ("c", "C + c"), ("c", "2 * C - 1 - c"))
OPPOSITE = (("c < 2", "c >= 2"), ("c <= n", "not c <= n"), ("(c + n) % 2 == 0", "(c + n) % 2 != 0"))


class Rewrites(Programs):
    """Draws programs that rewrite."""

    def read(self, letters: str) -> str:
        """An element, of any array that has columns also at a window or a quotient."""
        moved = [name for name, index in self.arrays.items() if "c" in index and set(index) <= set(letters)]
        if not moved or self.rng.random() < 0.5:
            return super().read(letters)
        name = self.one(moved)
        places = ["c + k - 1", "2 * c - k", "c - k + 1"] if "k" in letters else ["C - 1 - c", "floor(c / 2)", "c + 1"]
        return f"{name}[{', '.join(self.one(places) if i == 'c' else i for i in self.arrays[name])}]"

    def step(self, name: str) -> None:
        kind = self.one(("once", "once", "over", "over", "guarded", "between", "joined", "twice"))
        if kind == "once":
            super().step(name)
            return
        letters = self.one(("nc", "ncx", "c"))
        cell, plain = f"{name}[{self.indices(letters)}]", super().value
        self.lines.append(f"{cell} {self.one(('=', '=', '+='))} {plain(letters)}")
        if kind in ("over", "twice"):
            for _ in range(1 + (kind == "twice")):
                form = self.one(OVER).format(u=cell, v=f"({plain(letters, 1)})")
                self.lines.append(f"{cell} = {form}")
        elif kind == "guarded":
            guard = self.one(("c <= n", "c > n", "c < 2 and n > 0") if "n" in letters else ("c < 2", "c % 2 == 1"))
            # a read may leave its array, where the step then does nothing
            self.lines.append(f"do: {cell} = {self.one(OVER).format(u=cell, v='1.5')}\n      where: [{guard}]")
        elif kind == "joined":
            self.lines.append(f"{cell} {self.one(('max=', 'min=', '*='))} tanh({cell}) + 0.25")
        else:
            self.lines.append(f"{name}u[{self.indices(letters)}] = tanh({cell})")
            self.lines.append(f"{cell} += {plain(letters, 1)} * {name}u[{self.indices(letters)}]")
        self.arrays[name] = letters

    def finish(self, name: str, source: str) -> str:
        """An output of cells that several steps write."""
        index = self.arrays[source]
        kind = self.one(("plain", "halves", "opposite", "numbers", "scattered", "over"))
        if kind == "plain" or "k" in index:
            return super().finish(name, source)
        values = [f"{source}[{self.indices(index)}] * ({self.value('ncx', 1)})" for _ in range(2)]
        if kind == "scattered":
            place = self.one(("c + k - 1", "c - k + 1"))
            self.lines.append(f"{name}[n, {place}, x] += {values[0]} * w[n, k]")
            self.lines.append(f"{name}[n, c, x] = tanh({name}[n, c, x] * b[c])")
        elif kind == "over":
            self.lines.append(f"{name}[n, c, x] = {self.one(('0', values[1]))}")
            self.lines.append(f"do: {name}[n, c, x] = {values[0]}\n      where: [{self.one(('c <= n', 'c < 2'))}]")
        elif kind == "opposite":
            pairs = zip(values, self.rng.permutation(OPPOSITE[int(self.rng.integers(3))]), strict=True)
            self.lines += [f"do: {name}[n, c, x] = {value}\n      where: [{guard}]" for value, guard in pairs]
        else:
            places = ("0", "1") if kind == "numbers" else HALVES[int(self.rng.integers(3))]
            self.lines += [
                f"{name}[n, {f'c, {place}' if kind == 'numbers' else place}, x] = {value}"
                for place, value in zip(places, values, strict=True)
            ]
            return "n2x" if kind == "halves" else "ncpx"
        return "ncx"
