"""The libraries that hold an operation's kernels: which, compiled from what, for which instruction set.

In: the description of an operation. Out: compiled kernels, built where they are asked for.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass

from . import _engine, _isa, _load, _specialize, _team
from ._description import HERE, Description
from ._engine import DEPTHWISE
from ._errors import BuildError
from ._units import Unit

C_TYPES = {"float32": "float", "float64": "double", "bfloat16": "opwright_bf16", "float16": "opwright_f16"}

_libraries: dict[tuple[str, ...], _load.Library] = {}
_choices: dict[tuple[str, str], tuple[_isa.Isa, tuple[tuple[str, str], ...]]] = {}


@dataclass(frozen=True)
class Compiled(Description):
    """An operation whose kernels can be compiled."""

    def choice(self, label: str) -> tuple[_isa.Isa, tuple[tuple[str, str], ...]]:
        """The instruction set for a dtype row, and why not each of the others."""
        key = (self.function, label)
        chosen = _choices.get(key)
        if chosen is None:
            chosen = _choices[key] = self._chosen(self.isas(label), label)
        return chosen

    def _chosen(self, isas: Sequence[_isa.Isa], label: str) -> tuple[_isa.Isa, tuple[tuple[str, str], ...]]:
        reasons = {isa.name: _isa.why_not(isa) for isa in isas}
        usable = _isa.usable(isas)
        for isa in usable:
            reasons[isa.name] = _load.fit(self.unit(isa, label, self.parts(isa)[0]))
            if not reasons[isa.name]:
                break
        else:  # nothing can be had: what loading the plainest says is what there is to say
            isa = usable[-1]
        better = {other.name: f"{isa.name} is better" for other in isas[: isas.index(isa)]}
        reasons = {name: better.get(name) or reason for name, reason in reasons.items()}
        others = {other.name: reasons.get(other.name) or f"it has no kernels for {label}" for other in _isa.ISAS}
        del others[isa.name]
        return isa, tuple(others.items())

    def cdef(self, isa: _isa.Isa, labels: Sequence[str], part: str) -> str:
        """The C declarations of the kernels of a library."""
        declared = [f"{m.c_type} {m.name}{f'[{m.length}]' if m.length else ''};" for m in self.sizes]
        members = "".join(f"    {line}\n" for line in declared)
        sizes = f"opwright_{self.function}_sizes"
        lines = ["typedef uint16_t opwright_bf16;\ntypedef uint16_t opwright_f16;\n"]
        lines.append(f"typedef struct {sizes} {{\n{members}}} {sizes};\n" + (_team.CDEF if isa.fast else ""))
        for variant in self.variants:
            own = isa.fast and variant.group_class == DEPTHWISE
            if variant.isa == isa.name and variant.dtype in labels and own == (part == DEPTHWISE):
                row = dict(self.rows)[variant.dtype]
                data = [info for info in self.inputs if not info.states_shape]
                pointers = [f"const {C_TYPES[row[info.parameter]]} *{info.name}" for info in data]
                pointers += [f"{C_TYPES[row[self.output]]} *{self.output}", f"const {sizes} *sizes"]
                head = f"void {variant.name}({', '.join(pointers)}"
                if isa.fast:
                    lines.append(f"{head}, const opwright_team *team, void *scratch);\n")
                    lines.append(f"int64_t {variant.name}_scratch(const {sizes} *sizes, int64_t workers);\n")
                    lines.append(f"int64_t {variant.name}_fixed(const {sizes} *sizes, int64_t *values);\n")
                else:
                    lines.append(f"{head}, int64_t part, int64_t parts);\n")
        return "".join(lines)

    def unit(self, isa: _isa.Isa, label: str, part: str, fixed: str = "", literals: _specialize.Literals = ()) -> Unit:
        """What is compiled for an instruction set: fast kernels one dtype row at a time, reference kernels together.

        The file `fixed` of the engine gets literals.
        """
        if not isa.fast:
            labels = [label for label, _ in self.rows]
            sources = tuple(HERE / "c" / f"{self.function}_{label}.c" for label in labels)
            name, flags = f"opwright_{self.function}_{isa.name}", _engine.REFERENCE_FLAGS
            return Unit(name, self.cdef(isa, labels, part), sources, (_engine.INCLUDE,), flags)
        group = part or ("weights" if self.fast[label] == "w" else "data")
        needs = _engine.objects(isa, label, group, fixed, literals)
        engine = needs[0]
        name = "_".join(filter(None, (self.function, label, part)))
        return Unit(
            f"opwright_{name}{'_fixed' if fixed else ''}_{isa.name}",
            self.cdef(isa, [label], part),
            (HERE / "c" / "entries" / f"{name}.c",),
            engine.include,
            engine.flags,
            engine.tuning,
            needs=needs,
            probe=engine.probe,
        )

    def library(self, isa: _isa.Isa, label: str, part: str) -> _load.Library:
        """The compiled kernels, built at first use."""
        key = (self.function, isa.name, label if isa.fast else "", part)
        if key not in _libraries:
            try:
                _libraries[key] = _load.load(self.unit(isa, label, part))
            except BuildError:
                _choices.pop((self.function, label), None)  # what keeps the compiler from running now may pass
                raise
            best = _isa.usable(self.isas(label))[0]
            if best.fast and not isa.fast:
                why = dict(self.choice(label)[1])[best.name]
                warnings.warn(
                    f"{self.function}: {label} is left to portable kernels, many times slower than those for"
                    f" {best.name}: {why}",
                    RuntimeWarning,
                    stacklevel=2,
                )
        return _libraries[key]


def forget() -> None:
    """Choose instruction sets anew."""
    _choices.clear()
    _isa.allowed.cache_clear()
