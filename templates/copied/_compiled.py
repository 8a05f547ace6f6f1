"""The libraries that hold an operation's kernels: which, compiled from what, for which instruction set.

In: the description of an operation. Out: compiled kernels, built where they are asked for.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence

from . import _engine, _isa, _load, _specialize, _team
from ._description import HERE, Description
from ._errors import BuildError
from ._units import Unit

_libraries: dict[tuple[str, ...], _load.Library] = {}
_choices: dict[tuple[str, str, str], tuple[_isa.Isa, tuple[tuple[str, str], ...]]] = {}


class Compiled(Description):
    """An operation whose kernels can be compiled."""

    def choice(self, label: str, part: str = "") -> tuple[_isa.Isa, tuple[tuple[str, str], ...]]:
        """The instruction set for a dtype row and library, and why not each of the others."""
        key = (self.function, label, part)
        chosen = _choices.get(key)
        if chosen is None:
            chosen = _choices[key] = self._chosen(label, part)
        return chosen

    def _chosen(self, label: str, part: str) -> tuple[_isa.Isa, tuple[tuple[str, str], ...]]:
        isas = self.isas(label, part)
        reasons = {isa.name: _isa.why_not(isa) for isa in isas}
        usable = _isa.usable(isas)
        for isa in usable:
            reasons[isa.name] = _load.fit(self.unit(isa, label, part if isa.fast else ""))
            if not reasons[isa.name]:
                break
        else:  # nothing can be had: what loading the plainest says is what there is to say
            isa = usable[-1]
        better = {other.name: f"{isa.name} is better" for other in isas[: isas.index(isa)]}
        reasons = {name: better.get(name) or reason for name, reason in reasons.items()}
        others = {
            other.name: reasons.get(other.name) or f"it has no kernels for {' '.join(filter(None, (label, part)))}"
            for other in _isa.ISAS
        }
        del others[isa.name]
        return isa, tuple(others.items())

    def declarations(self, isa: _isa.Isa, labels: Sequence[str], part: str) -> str:
        """The C declarations of the kernels of a library."""
        stems = [stem for stem in self.stems.values() if stem.dtype in labels and (not isa.fast or stem.part == part)]
        lines = [self.declared[stem.dtype][isa.fast].format(f"{stem.name}_{isa.name}") for stem in stems]
        return "\n".join([_team.CDEF + self.cdef, *lines, ""])

    def unit(self, isa: _isa.Isa, label: str, part: str, fixed: str = "", literals: _specialize.Literals = ()) -> Unit:
        """What is compiled for an instruction set: fast kernels one dtype row at a time, reference kernels together.

        The file `fixed` of the engine gets literals.
        """
        if not isa.fast:
            labels = [label for label, _ in self.rows]
            sources = tuple(HERE / "c" / f"{self.function}_{label}.c" for label in labels)
            name, flags = f"opwright_{self.function}_{isa.name}", _engine.REFERENCE_FLAGS
            return Unit(name, self.declarations(isa, labels, part), sources, (_engine.INCLUDE,), flags)
        group = ("channelwise_" if part else "") + ("weights" if self.fast[label] == "w" else "data")
        needs = _engine.objects(isa, label, group, fixed, literals)
        engine = needs[0]
        name = "_".join(filter(None, (self.function, label, part)))
        return Unit(
            f"opwright_{name}{'_fixed' if fixed else ''}_{isa.name}",
            self.declarations(isa, [label], part),
            (HERE / "c" / "entries" / f"{name}.c",),
            engine.include,
            engine.flags,
            engine.tuning,
            needs=needs,
            probe=engine.probe,
        )

    def units(self, has: Callable[[_isa.Isa], bool] | None = None) -> list[Unit]:
        """The libraries of all dtype rows, for the instruction sets in use or for all that a compiler `has`."""
        chosen = {
            (isa, label, part if isa.fast else ""): None
            for label, _ in self.rows
            for part in self.parts
            for isa in ([self.choice(label, part)[0]] if has is None else filter(has, self.isas(label, part)))
        }
        return [self.unit(*each) for each in chosen]

    def library(self, isa: _isa.Isa, label: str, part: str) -> _load.Library:
        """The compiled kernels, built at first use."""
        key = (self.function, isa.name, label if isa.fast else "", part)
        if key not in _libraries:
            try:
                _libraries[key] = _load.load(self.unit(isa, label, part))
            except BuildError:
                for each in self.parts:  # what keeps the compiler from running now may pass
                    _choices.pop((self.function, label, each), None)
                raise
            best = _isa.usable(self.isas(label, self.parts[0]))[0]
            if best.fast and not isa.fast:
                why = dict(self.choice(label, self.parts[0])[1])[best.name]
                warnings.warn(
                    f"{self.function}: {label} falls back to portable kernels, which are many times slower than those"
                    f" for {best.name}: {why}",
                    RuntimeWarning,
                    stacklevel=2,
                )
        return _libraries[key]


def forget() -> None:
    """Choose instruction sets anew."""
    _choices.clear()
    _isa.allowed.cache_clear()
