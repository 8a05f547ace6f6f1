"""A way to split an operation, as data.

Nothing here derives or runs one: `table.py` derives them, `templates/copied/_sharding.py` applies them to calls.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

WHOLE = "whole"
JOINED_EXACTLY = frozenset({"cells", "same", "max", "min"})  # joins that repeat every bit


@dataclass(frozen=True)
class Window:
    """Cell `small * stride + tap * dilation - pad` of the big axis belongs to window `small`.

    A name is that of a value of the call; a number stands for itself. `begin`, `end` and `extra` are the attributes
    that state the padding of a part and the cells that no window reaches, `zero` those that are 0 on a part, and
    `words` the words with which all of them hold. If it is `kept`, one number states the padding of both sides, on a
    part too: the windows that see it at a cut are dropped.
    """

    small: str
    big: str
    taps: str
    stride: str
    dilation: str
    pad: str
    begin: str = ""
    end: str = ""
    extra: str = ""
    zero: tuple[str, ...] = ()
    words: Mapping[str, str] = field(default_factory=dict)
    kept: bool = False


@dataclass(frozen=True)
class Split:
    """One letter, and what a part of its values needs and gives.

    `kind` is cells, groups, halo, periods, partial or whole. `size` is the symbol whose values are divided. `axes` says
    of each tensor which axes are cut: by `cells` (each value of the letter has as many as any other), by the windows'
    `small` or `big` side, or not at all. `joins` says how each output is made of parts: `cells` side by side, `same`
    in all, or by `sum`, `product`, `max`, `min`, `mean`; `stretched`, how those are that have one cell for all of them,
    in dtypes of `stretched_rows`. `attributes` change on a part: `count` becomes the number of
    values, `cells` is cut as an axis is. `states` are inputs and attributes that state the shape of an output. `once`
    are inputs that the first part alone gets. Where there is another size `beside`, the values are periods of both: as
    many as both have in common, and `reach` of them on each side are taken along and dropped; where the other size is
    1 and the split is `alone`, the values are those of `size`. `sizes` are lists that state extents: which size a
    part's state, '' for those that it leaves out. It holds where attributes have the values of `when`, tensors their
    `arrangements`, and dtypes are one of `rows` (all, if there are none). `why` says what forbids the split.
    """

    letter: str
    kind: str
    size: str
    axes: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    joins: Mapping[str, str] = field(default_factory=dict)
    stretched: Mapping[str, str] = field(default_factory=dict)
    attributes: Mapping[str, str] = field(default_factory=dict)
    states: Mapping[str, str] = field(default_factory=dict)
    once: tuple[str, ...] = ()
    beside: str = ""
    reach: int = 0
    alone: bool = False
    sizes: Mapping[str, str] = field(default_factory=dict)
    when: Mapping[str, int | str] = field(default_factory=dict)
    arrangements: Mapping[str, str] = field(default_factory=dict)
    rows: tuple[int, ...] = ()
    stretched_rows: tuple[int, ...] = ()
    window: Window | None = None
    why: str = ""

    @property
    def exact(self) -> bool:
        """Whether parts give the bits of the whole: no sum is split."""
        return bool(self.joins) and set(self.joins.values()) <= JOINED_EXACTLY

    def data(self) -> dict[str, Any]:
        """What is not empty, as plain data."""
        found = _filled(self)
        if self.window:
            found["window"] = _filled(self.window)
        return found


def _filled(made: Split | Window) -> dict[str, Any]:
    """The fields that are not empty."""
    return {one.name: value for one in dataclasses.fields(made) if (value := getattr(made, one.name))}
