"""What the generated module of an operation says of it, and the names of its kernels.

In: fields that generated code fills in. Out: the variants, and the places of rules. Nothing here compiles or runs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import numpy as np

from . import _isa
from ._dtypes import DTYPES
from ._errors import Refusal
from ._rules import Resolution

ArrayLike = Any  # an array, or anything with __array_interface__ or DLPack
Integers = Sequence[int] | np.ndarray[Any, Any]

HERE = Path(__file__).parent
API = "docs/API.md"
# Rules of the package itself, each stated in a section of API.md.
API_RULES = {"out": "out", "threads": "threads", "specialize": "specialize", "memory": "memory"}


@dataclass(frozen=True)
class InputInfo:
    """An input: its parameter, whether it may be absent, and whether it is a vector that states a shape."""

    name: str
    parameter: str
    optional: bool
    states_shape: bool


@dataclass(frozen=True)
class SizeField:
    """A member of the struct of sizes: its symbol, its length (0: one number), what stands for missing axes."""

    name: str
    length: int
    neutral: int


@dataclass(frozen=True)
class Stem:
    """What kernels of all instruction sets share: their name but for its end, and what they are specialised for.

    `part` names the library of the fast ones, where the group class has an engine of its own.
    """

    name: str
    dtype: str
    layouts: tuple[str, ...]
    group_class: str
    part: str


@dataclass(frozen=True)
class Related:
    """An operation that computes a gradient of another, the input in which it does, and whose tensors are which.

    `kind` is gradient; adjoint, where the other is linear in that input; or gradient_of, stated by the gradient itself,
    whose tensors have the same names. `tensors` and `words` go from its tensors to the other's, and from the other's
    words of layouts to its own.
    """

    kind: str
    op: str
    of: str
    tensors: Mapping[str, str]
    words: Mapping[str, str]


@dataclass(frozen=True)
class Aten:
    """An operator of PyTorch that an operation stands for, or for one result of it.

    `when` says what some of its arguments must be, `arguments` which of them each input and attribute of the operation
    takes, `words` what other attributes always are, `gives` which of its results the first output is.
    """

    name: str
    when: Mapping[str, str]
    arguments: Mapping[str, str]
    words: Mapping[str, str]
    gives: int


@dataclass(frozen=True)
class VariantInfo:
    """One kernel of the package: what it is specialised for, and its C name."""

    name: str
    op: str
    dtype: str
    layouts: tuple[str, ...]
    group_class: str | None
    isa: str


@dataclass(frozen=True)
class TensorSpec:
    """The description of a tensor, for `explain` and `infer_shape`: no data is needed to ask."""

    shape: tuple[int, ...]
    dtype: Any

    def __post_init__(self) -> None:
        object.__setattr__(self, "shape", tuple(int(extent) for extent in self.shape))
        object.__setattr__(self, "dtype", DTYPES[self.dtype] if self.dtype in DTYPES else np.dtype(self.dtype))
        if any(extent < 0 for extent in self.shape):
            raise ValueError(f"a shape has no negative extents: {self.shape}")

    @property
    def size(self) -> int:
        return math.prod(self.shape)


@dataclass(frozen=True, eq=False, kw_only=True)
class Description:
    """What the generated module says of an operation."""

    name: str
    function: str
    inputs: tuple[InputInfo, ...]
    output: str
    attributes: Mapping[str, str] = field(default_factory=dict)  # name to kind: number, list, word, or any
    defaults: Mapping[str, object] = field(default_factory=dict)
    rows: tuple[tuple[str, Mapping[str, str]], ...]
    layouts: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    classes: tuple[tuple[str, str], ...] = ()
    # dtype rows that have fast kernels, each with what these solve for: y, x or w
    fast: Mapping[str, str] = field(default_factory=dict)
    kernels: tuple[tuple[str, str, tuple[str, ...], str, str], ...] = ()  # the fields of Stem; (): one for each row
    cdef: str = ""  # the C types of its kernels
    # Per dtype row, what declares a portable and a fast kernel of the name {0}.
    declared: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    sizes: tuple[SizeField, ...] = ()
    named: Mapping[str, str]
    arrangements: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    resolve: Callable[..., Resolution]
    # By tensor, the word that orders its axes, and the axis that stands for several.
    laid_out: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    states: Mapping[str, str] = field(default_factory=dict)  # by attribute, the output whose shape it states
    added: Mapping[str, str] = field(default_factory=dict)  # an input added to the output, and the axis it goes along
    relations: tuple[Related, ...] = ()
    torch: tuple[Aten, ...] = ()

    @cached_property
    def stating(self) -> tuple[int, ...]:
        """The positions of the inputs that are vectors and state a shape."""
        return tuple(position for position, info in enumerate(self.inputs) if info.states_shape)

    @cached_property
    def variants(self) -> tuple[VariantInfo, ...]:
        """Every kernel, in the order of dtype row, layouts, group class and instruction set."""
        return tuple(
            VariantInfo(f"{s.name}_{isa.name}", self.name, s.dtype, s.layouts, s.group_class or None, isa.name)
            for s in self.stems.values()
            for isa in self.isas(s.dtype, s.part)
        )

    @cached_property
    def stems(self) -> dict[tuple[str, tuple[str, ...], str], Stem]:
        """What kernels share but for their instruction sets, by dtype row, layouts and group class."""
        kernels = self.kernels or [(f"{self.function}_{label}", label, (), "", "") for label, _ in self.rows]
        return {(stem.dtype, stem.layouts, stem.group_class): stem for stem in (Stem(*row) for row in kernels)}

    def stem(self, resolution: Resolution) -> Stem:
        """The one that serves a call."""
        words = tuple(resolution.words[name] for name in self.layouts)
        return self.stems[self.rows[resolution.row][0], words, resolution.group_class or ""]

    def isas(self, label: str, part: str = "") -> tuple[_isa.Isa, ...]:
        """The instruction sets that have kernels for a dtype row, and for a group class with an engine of its own."""
        has = label in self.fast
        return tuple(
            isa for isa in _isa.ISAS if not isa.fast or (has and label in isa.dtypes and not (part and isa.matrices))
        )

    def kernel_name(self, resolution: Resolution, isa: str) -> str:
        return f"{self.stem(resolution).name}_{isa}"

    @cached_property
    def parts(self) -> tuple[str, ...]:
        """The libraries of fast kernels of a dtype row; a group class with an engine of its own has its own."""
        return tuple(sorted({stem.part for stem in self.stems.values()}))

    def spec(self, rule: str, argument: str) -> str:
        """Where a rule is stated: file:line of the spec, or a section of the API."""
        head = rule.split("-")[0]
        if head in API_RULES:
            return f"{API}#{API_RULES[head]}"
        places = provenance()[self.function]
        if rule == "overflow" and argument in places["values"]:
            return places["values"][argument]
        return places["rules"].get(rule, f"{API}#rules")

    def refused(self, refusal: Refusal) -> Exception:
        return refusal.error(self.function, self.spec(refusal.rule, refusal.argument))


@cache
def provenance() -> dict[str, dict[str, dict[str, str]]]:
    """Where the spec says what: operation to rule or value to file:line, and to the sentences of values."""
    import json

    loaded = json.loads((HERE / "PROVENANCE.json").read_text(encoding="utf-8"))
    for places in loaded.values():
        file = places.pop("file")
        for part in (places["rules"], places["values"]):
            part.update({name: file + at for name, at in part.items() if at.startswith(":")})
    told: dict[str, dict[str, dict[str, str]]] = loaded
    return told
