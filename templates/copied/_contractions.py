"""Sums of products by the engine of contractions, in place of a phase of loops.

In: what a contraction reads and writes, letter by letter, and the arrays of a call. Out: a `Product` to run, or None
where the engine has no kernel: for these dtypes, on this CPU. Nothing here knows an operation.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from typing import Any

import numpy as np

from . import _engine, _isa, _load, _team
from ._arrays import Array
from ._dtypes import DTYPES
from ._errors import BuildError
from ._units import Unit

STORED, OUTPUT, FINISHED = range(3)  # where sums go: opwright_product.h
MAX_BATCHES = 8  # axes of batches that the engine walks
MAX_COPIED = 16  # axes of an operand that it copies
LABELS = {DTYPES["float32"]: "f32", DTYPES["bfloat16"]: "bf16", DTYPES["float16"]: "f16"}
WIDEST = DTYPES["float32"]  # which holds the others
BYTES = "bytes"  # the engine of signed and unsigned bytes, whose sums are s32
BYTE_TYPES = {DTYPES["int8"]: 1, DTYPES["uint8"]: 0}  # whether they are signed
BYTE_SUMS = {DTYPES["int32"]: 0, WIDEST: 1, DTYPES["int64"]: 2, DTYPES["float64"]: 3}  # how its sums are stored
MAX_BYTE_TERMS = (2**31 - 1) // 255**2  # of which no sum leaves s32
WIDENED = {
    DTYPES["bfloat16"]: 2,
    DTYPES["float16"]: 3,
    DTYPES["int8"]: 4,
    DTYPES["uint8"]: 5,
}  # how the engine is told to widen what it copies
CDEF = """
typedef void opwright_finish(const void *context, int64_t cell, int64_t cells, const void *sums, int64_t worker);
typedef void opwright_product_function(const void *problem, const void *left, const void *right, void *out,
    opwright_finish *finish, const void *context, const opwright_team *team, void *scratch);
typedef struct opwright_product {
    opwright_product_function *run;
    const void *problem;
    int64_t way;
    int64_t shared, task;
} opwright_product;
"""
ENGINE_CDEF = """
typedef struct opwright_copied {
    int64_t wanted;
    int64_t axes;
    int64_t extent[16], step[16];
} opwright_copied;
typedef struct opwright_contraction {
    int64_t rows, columns, terms;
    int64_t left_row, left_term, right_term, right_column, out_row, out_column;
    int64_t elements, finished;
    int64_t batches;
    int64_t batch[8], left_batch[8], right_batch[8], out_batch[8];
    int64_t left_signed, right_signed, sums;
    opwright_copied left, right;
} opwright_contraction;
"""


@dataclass(frozen=True)
class Accessed:
    """An array, and the letter that walks each of its axes."""

    array: str
    letters: Mapping[str, str]


@dataclass(frozen=True)
class Contraction:
    """A phase that adds up products; `copy` is the phase that copies its sums to `output`, -1 where none does."""

    phase: int
    copy: int
    unless: str  # the input that the copy adds, '' where it adds none: only without it the sums are the output
    output: Accessed | None
    target: Accessed
    left: Accessed
    right: Accessed
    finish: tuple[str, ...]  # the letters of the phase after it, where that can take the sums as they come


@dataclass(frozen=True)
class Walk:
    """An axis of a contraction: its extent, and how far neighbours lie apart in left, right and out, in elements."""

    extent: int
    left: int
    right: int
    out: int


@dataclass(frozen=True)
class Shape:
    """A contraction as the engine takes it. An operand in `copied` is copied first: its axes, the last one fastest."""

    rows: Walk
    columns: Walk
    terms: Walk
    batches: tuple[Walk, ...]
    copied: Mapping[str, tuple[Walk, ...]]


@dataclass(frozen=True)
class Engine:
    """The engine of a dtype, for the best instruction set that can be used."""

    isa: _isa.Isa
    library: _load.Library
    function: Any
    scratch: Any


@dataclass(frozen=True)
class Product:
    """A contraction of a call: what the engine is told, and the `way` that its sums go."""

    engine: Engine
    problem: Any  # of the engine's ffi
    left: str
    right: str
    way: int

    def put(self, ffi: Any, member: Any, shared: int, task: int) -> None:
        """Fill in an `opwright_product` of another ffi; the memory of steps is `shared` bytes and `task` a worker."""
        own = self.engine.library.ffi
        member.run = ffi.cast("opwright_product_function *", int(own.cast("uintptr_t", self.engine.function)))
        member.problem = ffi.cast("void *", int(own.cast("uintptr_t", self.problem)))
        member.way, member.shared, member.task = self.way, shared, task

    def told(self) -> str:
        """What the engine makes of it, in words."""
        q = self.problem
        times = "".join(f"{q.batch[n]} x " for n in range(q.batches))
        copies = [name for name in ("left", "right") if getattr(q, name).wanted]
        copied = f", {' and '.join(copies)} copied first" if copies else ""
        sizes = f"{times}{q.rows} rows, {q.columns} columns, {q.terms} terms"
        finished = ", finished before they are stored" if self.way == FINISHED else ""
        return f"a contraction for {self.engine.isa.name}: {sizes}{copied}{finished}"

    def bytes(self, workers: int) -> int:
        """Of the memory that a run needs beside its arrays, copies of operands among it."""
        return int(self.engine.scratch(self.problem, workers))


def prepared(
    contraction: Contraction,
    letters: Mapping[str, tuple[int, ...]],
    arrays: Mapping[str, Array],
    places: Mapping[str, Mapping[str, tuple[int, ...]]],
    accumulate: np.dtype[Any],
    given: Container[str],
    lane: str,
) -> Product | None:
    """A contraction of a call, of which the arrays in `given` are not left out.

    Arrays between steps are in neither mapping; they lie in the order of their axes, and sums that are finished as they
    come are counted in that of the phase which does so, whose lanes go along the letter `lane`.
    """
    left, right, target = contraction.left, contraction.right, contraction.target
    dtypes = {
        access.array: arrays[access.array].dtype if access.array in arrays else accumulate for access in (left, right)
    }
    label = label_of({*dtypes.values()}, accumulate)
    found = engine(label) if label else None
    if found is None:
        return None
    dtype = next((dtype for dtype, name in LABELS.items() if name == label), accumulate)
    output = contraction.output
    stored = (DTYPES["int32"], accumulate) if label == BYTES else (WIDEST, dtype)
    direct = output is not None and contraction.unless not in given and arrays[output.array].dtype in stored
    way = OUTPUT if direct else FINISHED if contraction.finish else STORED
    if direct and output is not None:
        target = output
    elif way == FINISHED:
        target = Accessed(target.array, {n: n for n in sorted(contraction.finish, key=lambda letter: letter == lane)})
    accesses = (left, right, target)
    steps = [_steps(access, letters, arrays.get(access.array), places.get(access.array, {})) for access in accesses]
    used = {
        letter: extents for letter, extents in letters.items() if any(letter in a.letters.values() for a in accesses)
    }
    spots = [(letter, number) for letter, extents in used.items() for number in range(len(extents))]
    walks = tuple(
        Walk(used[letter][number], *(step.get((letter, number), 0) for step in steps)) for letter, number in spots
    )
    kept = frozenset(target.letters.values())
    own = BYTE_TYPES if label == BYTES else {dtype: 0}
    mixed = tuple(name for name, access in (("left", left), ("right", right)) if dtypes[access.array] not in own)
    shape = shaped(walks, tuple(letter not in kept for letter, _ in spots), mixed)
    if shape is None or (label == BYTES and shape.terms.extent > MAX_BYTE_TERMS):
        return None
    if beside(shape):
        return None
    made = arrays[output.array].dtype if direct and output is not None else accumulate
    kinds = {
        name: 1 if dtypes[a.array] in own else WIDENED[dtypes[a.array]]
        for name, a in (("left", left), ("right", right))
    }
    told = {**_members(shape, kinds), "elements": int(made != accumulate), "finished": int(way == FINISHED)}
    if label == BYTES:
        signs = {f"{n}_signed": BYTE_TYPES[dtypes[a.array]] for n, a in (("left", left), ("right", right))}
        told |= {**signs, "elements": 0, "sums": BYTE_SUMS[made]}
    return Product(found, found.library.ffi.new("opwright_contraction *", told), left.array, right.array, way)


def _steps(
    access: Accessed,
    letters: Mapping[str, tuple[int, ...]],
    array: Array | None,
    places: Mapping[str, tuple[int, ...]],
) -> dict[tuple[str, int], int]:
    """How far neighbours along each axis of each letter lie apart in an array, in elements."""
    found: dict[tuple[str, int], int] = {}
    if array is None:
        step = 1
        for letter in reversed([*access.letters.values()]):
            for number in reversed(range(len(letters[letter]))):
                found[letter, number] = step
                step *= letters[letter][number]
        return found
    for axis, letter in access.letters.items():
        spots = places.get(axis, ())
        first = len(letters[letter]) - len(spots)
        for number, spot in enumerate(spots):
            if array.shape[spot] != 1:
                found[letter, first + number] = array.strides[spot] // array.itemsize
    return found


@lru_cache(1024)
def shaped(walks: tuple[Walk, ...], reduced: tuple[bool, ...], mixed: tuple[str, ...] = ()) -> Shape | None:
    """Axes as rows, columns, terms and batches; operands in `mixed` are copied. None where there are too many axes."""
    axes = [(walk, sums) for walk, sums in zip(walks, reduced, strict=True) if walk.extent != 1]
    terms = [walk for walk, sums in axes if sums]
    rows = [walk for walk, sums in axes if not sums and walk.left and not walk.right]
    columns = [walk for walk, sums in axes if not sums and walk.right and not walk.left]
    batches = [walk for walk, sums in axes if not sums and bool(walk.left) == bool(walk.right)]
    wanted = {*mixed}
    orders = {"left": [batches, rows, terms], "right": [batches, columns, terms]}
    terms = sorted(terms, key=lambda walk: (abs(walk.left), abs(walk.right)), reverse=True)
    if len(merged(terms)) > 1:
        by_right = sorted(terms, key=lambda walk: abs(walk.right), reverse=True)
        if not nested(terms, "left") and nested(by_right, "right"):
            terms = by_right
        wanted |= {name for name in orders if not nested(terms, name)}
    rows, columns, batches = (
        sorted(some, key=lambda walk: abs(walk.out), reverse=True) for some in (rows, columns, batches)
    )
    wanted |= {"left"} if len(merged(rows)) > 1 and nested(rows, "out") else set()
    wanted |= {"right"} if len(merged(columns)) > 1 and nested(columns, "out") else set()
    copied = {}
    for name, own in (("left", rows), ("right", columns)):
        if name in wanted:
            order = [walk for walk in (*batches, *own, *terms) if getattr(walk, name) or walk in terms or walk in own]
            copied[name] = tuple(order)
            lies = dict(zip(map(id, order), _dense(order), strict=True))
            batches, rows, columns, terms = (_moved(some, name, lies) for some in (batches, rows, columns, terms))
    row, *more_rows = sorted(merged(rows), key=lambda walk: walk.extent, reverse=True) or [Walk(1, 0, 0, 0)]
    column, *more_columns = sorted(merged(columns), key=lambda walk: walk.extent, reverse=True) or [Walk(1, 0, 0, 0)]
    term, *more_terms = merged(terms) or [Walk(1, 0, 0, 0)]
    outer = (*merged(batches), *more_rows, *more_columns)
    many = len(outer) > MAX_BATCHES or any(len(order) > MAX_COPIED for order in copied.values())
    return None if more_terms or many else Shape(row, column, term, outer, copied)


def beside(shape: Shape) -> bool:
    """Whether cells of different products lie side by side in what is written, which loops make vectors of.

    With more terms or fewer such cells the tiles of the engine pay for their stores one by one: with 3 terms and 128
    cells loops take 0.25 of its time, with 16 terms and 8 cells 4 times as long (AMD Zen 4, gcc 12.2, f32).
    """
    near = any(abs(walk.out) == 1 and walk.extent >= 64 for walk in shape.batches if walk.left and walk.right)
    apart = all(abs(walk.out) != 1 for walk in (shape.rows, shape.columns) if walk.extent != 1)
    return near and apart and shape.terms.extent < 8


def _dense(order: Sequence[Walk]) -> list[int]:
    """How far neighbours lie apart where axes lie without gaps, the last one fastest."""
    return [math.prod(max(walk.extent, 1) for walk in order[number + 1 :]) for number in range(len(order))]


def _moved(walks: Iterable[Walk], name: str, lies: Mapping[int, int]) -> list[Walk]:
    """Axes that lie otherwise in an operand; the objects that `lies` knows by their identity live in the caller."""
    return [replace(walk, **{name: lies[id(walk)]}) if id(walk) in lies else walk for walk in walks]


def nested(walks: Sequence[Walk], name: str) -> bool:
    """Whether an array goes through axes as through one."""
    steps = [(getattr(walk, name), walk.extent) for walk in walks]
    return all(outer == inner * extent for (outer, _), (inner, extent) in itertools.pairwise(steps))


def merged(walks: Sequence[Walk]) -> list[Walk]:
    """Neighbouring axes put together where all arrays go through both as through one."""
    kept: list[Walk] = []
    for walk in walks:
        if kept and all(nested([kept[-1], walk], name) for name in ("left", "right", "out")):
            kept[-1] = replace(walk, extent=kept[-1].extent * walk.extent)
        else:
            kept.append(walk)
    return kept


def _members(shape: Shape, kinds: Mapping[str, int]) -> dict[str, Any]:
    """The members of the engine's struct."""
    return {
        "rows": shape.rows.extent,
        "columns": shape.columns.extent,
        "terms": shape.terms.extent,
        "left_row": shape.rows.left,
        "left_term": shape.terms.left,
        "right_term": shape.terms.right,
        "right_column": shape.columns.right,
        "out_row": shape.rows.out,
        "out_column": shape.columns.out,
        "batches": len(shape.batches),
        "batch": [walk.extent for walk in shape.batches],
        "left_batch": [walk.left for walk in shape.batches],
        "right_batch": [walk.right for walk in shape.batches],
        "out_batch": [walk.out for walk in shape.batches],
        "left": _copied(shape, "left", kinds),
        "right": _copied(shape, "right", kinds),
    }


def _copied(shape: Shape, name: str, kinds: Mapping[str, int]) -> dict[str, Any]:
    """What the engine is told of an operand that it copies first."""
    axes = shape.copied.get(name)
    if axes is None:
        return {"wanted": 0}
    steps = [getattr(walk, name) for walk in axes]
    return {"wanted": kinds[name], "axes": len(axes), "extent": [walk.extent for walk in axes], "step": steps}


def isas(label: str) -> tuple[_isa.Isa, ...]:
    """The instruction sets whose engine takes a dtype; bytes, that of all which have one of floats."""
    return tuple(isa for isa in _isa.ISAS if label in isa.dtypes or (label == BYTES and "f32" in isa.dtypes))


@cache
def unit(isa: _isa.Isa, label: str) -> Unit:
    """The library of the engine."""
    driver, *needs = _engine.objects(isa, label, BYTES if label == BYTES else "contraction")
    name = f"{label}_{isa.name}"
    functions = (
        f"opwright_product_function opwright_contract_{name};\n"
        f"int64_t opwright_contract_scratch_{name}(const opwright_contraction *contraction, int64_t workers);\n"
    )
    return replace(
        driver,
        name=f"opwright_contraction_{name}",
        cdef=_team.CDEF + CDEF + ENGINE_CDEF + functions,
        needs=tuple(needs),
    )


_engines: dict[tuple[str, tuple[_isa.Isa, ...]], Engine | None] = {}


def engine(label: str) -> Engine | None:
    """The engine of a dtype, compiled at first use; None where there is none for this CPU or this compiler."""
    key = (label, _isa.allowed())
    if key not in _engines:
        _engines[key] = _loaded(label)
    return _engines[key]


def label_of(dtypes: set[np.dtype[Any]], accumulate: np.dtype[Any]) -> str:
    """The dtype in which the engine takes operands: their own, or the widest of several; '' where there is none."""
    if dtypes <= BYTE_TYPES.keys() and accumulate in BYTE_SUMS:
        return BYTES
    if accumulate != WIDEST or not dtypes <= LABELS.keys() | BYTE_TYPES.keys():
        return ""
    return LABELS[next(iter(dtypes))] if len(dtypes) == 1 else LABELS[WIDEST]


def best(label: str) -> _isa.Isa | None:
    """The best instruction set that has an engine of a dtype which can be had here."""
    return next((isa for isa in _isa.usable(isas(label)) if not _load.fit(unit(isa, label))), None)


def _loaded(label: str) -> Engine | None:
    isa = best(label)
    if isa is None:
        return None
    try:
        library = _load.load(unit(isa, label))
    except BuildError:
        return None
    name = f"{label}_{isa.name}"
    function = library.ffi.addressof(library.lib, f"opwright_contract_{name}")
    return Engine(isa, library, function, getattr(library.lib, f"opwright_contract_scratch_{name}"))
