"""Existing models on the kernels of this package: operators of `aten` computed here while a `with` lasts.

In: the operations of the package. Out: `enabled()`, and `report()` of what ran here and what fell back to PyTorch. It
holds for the whole process, for autograd and for graphs that were compiled before or are compiled meanwhile.
"""

from __future__ import annotations

import threading
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from .._operation import Operation
from ._aten import Override, overrides
from ._glue import GLUE


@dataclass(frozen=True)
class Report:
    """What operators of `aten` did while kernels of the package were enabled, in numbers of calls.

    `here` ran on the package's kernels; `back` are calls of the same operators that went to PyTorch, with the rule that
    refused them; `others` are operators that no spec names, counted where `enabled(watch=True)` asked for them. `glue`
    is "compiled" where calls like one before go without Python, or says why they do not.
    """

    here: Mapping[str, int]
    back: Mapping[tuple[str, str], int]
    others: Mapping[str, int]
    glue: str = ""

    def __str__(self) -> str:
        lines = [f"{count} {name}" for name, count in sorted(self.here.items())]
        fallen = [f"{count} {name}: {why}" for (name, why), count in sorted(self.back.items())]
        others = [f"{count} {name}" for name, count in sorted(self.others.items())]
        parts = (("here", lines), ("back to PyTorch", fallen), ("PyTorch's own", others))
        return "\n".join(f"{title}: {', '.join(found)}" for title, found in parts if found) or "nothing ran"


class _Watch(TorchDispatchMode):  # type: ignore[no-untyped-call, misc, unused-ignore]
    """Counts the operators that nothing here stands for."""

    def __init__(self, known: set[str], counted: Counter[str]) -> None:
        super().__init__()  # type: ignore[no-untyped-call, unused-ignore]
        self.known, self.counted = known, counted

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = str(func).removeprefix("aten.").removesuffix(".default")
        if name not in self.known:
            self.counted[name] += 1
        return func(*args, **(kwargs or {}))


class Models:
    """Switches the kernels of a package on and off, and counts."""

    def __init__(self, operations: Sequence[Operation]) -> None:
        self.operations, self.lock, self.depth = operations, threading.RLock(), 0
        self.library: Any = None
        self.here: Counter[str] = Counter()
        self.back: Counter[tuple[str, str]] = Counter()
        self.others: Counter[str] = Counter()
        self.found: list[Override] = []
        self.fast_layers = True  # as it was before

    def note(self, name: str, why: str) -> None:
        if why:
            self.back[name, why] += 1
        else:
            self.here[name] += 1

    @contextmanager
    def enabled(self, *, watch: bool = False) -> Iterator[None]:
        """Run the operators of PyTorch that the specs name on the kernels of this package.

        PyTorch's shortcut for encoder layers, one kernel for all of a layer, is off. `watch` counts all other
        operators, too, which costs time for each of them.
        """
        with ExitStack() as stack:
            stack.enter_context(self.installed())
            if watch:
                stack.enter_context(_Watch({one.name for one in self.found}, self.others))
            yield

    @contextmanager
    def installed(self) -> Iterator[None]:
        counted = False
        try:
            with self.lock:
                self.depth, counted = self.depth + 1, True
                if self.depth == 1:
                    self.install()
            yield
        finally:  # also where an interrupt comes before the block begins
            with self.lock:
                self.depth -= counted
                if not self.depth:
                    self.remove()

    def install(self) -> None:
        for counted in (self.here, self.back, self.others):
            counted.clear()
        self.found = self.found or overrides(self.operations, self.note)
        self.fast_layers = torch.backends.mha.get_fastpath_enabled()
        library: Any = torch.library.Library
        self.library = library("aten", "IMPL")
        with warnings.catch_warnings():  # PyTorch warns of every kernel that takes the place of another
            warnings.simplefilter("ignore", UserWarning)
            for one in self.found:
                one.own = torch.library.get_kernel(f"aten::{one.name}", "CPU")
                self.library.impl(one.name, one, "CPU", with_keyset=True, allow_override=True)
        if GLUE.start():
            self.count()  # what ran before counts no more
            self.here.clear()
            for one in self.found:
                GLUE.add("aten", one.name, autograd=False)
        torch.backends.mha.set_fastpath_enabled(False)

    def remove(self) -> None:
        """Take back what `install` did, perhaps not all of it."""
        if self.library is None:
            return
        torch.backends.mha.set_fastpath_enabled(self.fast_layers)
        if GLUE.start():
            for one in self.found:
                GLUE.remove("aten", one.name)
        self.library._destroy()
        self.library = None

    def report(self) -> Report:
        """What ran since the kernels were enabled last."""
        with self.lock:
            self.count()
            return Report(dict(self.here), dict(self.back), dict(self.others), GLUE.state)

    def count(self) -> None:
        """Add the calls that Python did not see."""
        for one in self.found:
            if hits := GLUE.hits("aten", one.name):
                self.here[one.name] += hits
