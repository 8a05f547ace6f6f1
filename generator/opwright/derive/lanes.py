"""The letters that the lanes of a phase may run along.

In: the steps of a phase. Out: letters; a call chooses among them by the strides of its arrays.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..language import expr
from ..language.expr import Name, Number, Read
from ..language.model import Op
from ..language.types import is_places
from .algebra.poly import NotPolynomial, affine
from .algebra.slopes import slope
from .contraction import over_pairs
from .picking import gathers
from .program import Axis, Part, Program
from .rewrites.accumulating import CLOSE
from .rewrites.joining import merged

ENOUGH = 16  # cells along which lanes pay
MAX_LANES = 3  # letters among which a call chooses
FARTHER, LONG = 8, 32  # cells between windows, and of each, for which lanes go along their cells
SMALL = 8  # steps of a phase that has lanes for views, too


def lane_letters(op: Op, found: Program, parts: Sequence[Part], own: Sequence[str]) -> tuple[str, ...]:
    """The letters that may be contiguous in memory: those that walk a last axis of a tensor or of contracted sums,

    the inner one of those that walk it together.
    """
    used = dict.fromkeys(letter for part in parts for letter in part.letters)
    sums = _sums(found, parts)
    whole = merged(found, parts) is not None  # two letters of one axis, of which one is made
    walked: dict[str, None] = {}
    for part in parts:
        for read in (part.target, *part.reads):
            last = range(len(read.indices))[-1:]
            for number in last if read.tensor in sums else _last_axes(op, found, read.tensor):
                letter = found.walks(read.tensor, number, read.indices[number])
                digits = found.digits(read.tensor, number, read.indices[number]) or ()
                inner = [name for name in digits[-1:] if not whole or _reduced_alone(parts, name)]
                inner = inner or [*_slid(found, parts, read, number)[:1]] or _shifted(found, part, read, number)
                walked |= dict.fromkeys([letter] if letter else inner)
    given = [part for part in parts if any(found.arrays[read.tensor].role == "input" for read in part.reads)]
    if given and walked and not any(letter in part.letters for part in given for letter in walked):
        walked = _before_one_cell(found, parts) | walked
    walked = walked or _close(op, found, parts) or _of_others(found, parts)
    named = _named(parts)
    walked = {letter: None for letter in walked if letter not in named} or walked
    if stands_alone(found, parts):  # the last axes may have few cells
        names = [index.id for index in reversed(parts[0].target.indices) if isinstance(index, Name)]
        walked |= dict.fromkeys(name for name in names if name in own and name not in named)
    written = [index.id for index in parts[-1].target.indices if isinstance(index, Name) and index.id in (own or used)]
    return (*walked,)[:MAX_LANES] or (*(written or own or used),)[-1:]


def copied_row(op: Op, found: Program, part: Part) -> str:
    """The letter of the last axis of a step that only copies cells of an input as they are; '' of other steps."""
    value, target = part.formulas[0].value, part.target
    plain = part.operator == "set" and not (part.by or part.where or len(part.formulas) > 1)
    if not plain or not isinstance(value, Read) or not value.indices or not isinstance(last := value.indices[-1], Name):
        return ""
    names, indices = (target.tensor, value.tensor), (*target.indices, *value.indices)
    arrays = [found.arrays[name] for name in names if name in found.arrays]
    if [array.role for array in arrays] != ["output", "input"] or target.indices[-1] != last or indices.count(last) > 2:
        return ""
    if any(row[target.tensor] != row[value.tensor] for row in op.dtypes):
        return ""
    ones = all(axis.kind == "one" for array in arrays for axis in array.axes)
    walked = all(slope(index, letter) is not None for index in indices for letter in part.letters)
    return last.id if ones and walked and found.is_inside(target) and found.is_inside(value) else ""


def view_letters(found: Program, parts: Sequence[Part], own: Sequence[str], lanes: Sequence[str]) -> tuple[str, ...]:
    """Further letters, along which neighbours may lie together in views: the second, and the last two, of the cells

    that a reduction of few steps writes, such as channels and rows of images, and what it reduces of an axis, if its
    lanes go along no reduced letter. Along others arrays are contiguous less often, and each makes the kernel longer.
    Sums of columns of a transposed matrix, 1000x700 f32, take 0.36 of the time of lanes along what they write (Intel
    Xeon with AVX-512, gcc 12.2), layer norm of 1333 rows of 97, transposed, 0.14, bf16 0.14, its gradient 0.15 (AMD
    EPYC, Zen 4, gcc 12.2).
    """
    outside = {read.tensor for part in parts for read in part.reads if found.arrays[read.tensor].role == "between"}
    outside -= {part.target.tensor for part in parts}
    reduces = any({*part.letters} - expr.names(part.target) for part in parts)
    if outside or not reduces or len(parts) > SMALL or any(over_pairs(found, part) for part in parts):
        return ()
    most = max((part.target.indices for part in parts), key=len)
    places = [index.id for index in most if isinstance(index, Name) and index.id in own]
    reduced = [
        letter
        for part in parts
        for read in part.reads
        for place in enumerate(read.indices)
        if (letter := found.walks(read.tensor, *place)) and letter not in expr.names(part.target)
    ]
    some = [*places[:2][-1:], *places[-1:], *places[-2:-1], *([] if {*reduced} & {*lanes} else reduced)]
    letters = {name: found.letters[name] for name in some}
    known = {*lanes} | _named(parts)
    free = [name for name, letter in letters.items() if letter.kind == "one" and name not in known and many(letter)]
    walked = {name for part in parts for name in part.letters}
    runs = any(found.letters[name].kind == "run" for name in walked)  # whose axes a call sorts by their strides
    once = sum(bool({*part.letters} - expr.names(part.target)) for part in parts) == 1
    return (*free,)[: MAX_LANES + once - len(lanes)] if lanes and not runs else ()


def row_letters(found: Program, parts: Sequence[Part], own: Sequence[str], lanes: Sequence[str]) -> tuple[str, ...]:
    """The letter of rows along the axis before the last one, for calls in which the last one has too few cells: rows of

    one task then lie that many cells apart. Only of steps that set cells of such rows, or add to each what the one
    before has: sums alone take as long along either. Softmax over the middle of 1000x37x3 f32 takes 0.17 of the time of
    lanes along 3 cells, of 1000x37x7 0.39, running sums of 100x300x5 0.6 (Intel Xeon with AVX-512, gcc 12.2).
    """
    if len(lanes) != 1 or lanes[0] not in own:
        return ()
    rows = dict[str, None]()
    for part in parts:
        for read in (part.target, *part.reads):
            before, last = [None, None, *(found.walks(read.tensor, *place) for place in enumerate(read.indices))][-2:]
            if last == lanes[0] and before and found.arrays[read.tensor].role != "between":
                rows[before] = None
    made = {name for part in parts for name in expr.names(part.target)}
    free = [name for name in rows if name in made and name not in {*own} | _named(parts)]
    return tuple(name for name in free if found.letters[name].kind == "one" and many(found.letters[name]))[:1]


def many(letter: Axis, enough: int = ENOUGH) -> bool:
    """Whether there may be enough cells."""
    return not isinstance(letter.extent, Number) or letter.extent.value >= enough


def _reduced_alone(parts: Sequence[Part], letter: str) -> bool:
    """Whether some step reduces a letter, and none that walks it reduces others."""
    reduced = [{*part.letters} - expr.names(part.target) for part in parts if letter in part.letters]
    return {letter} in reduced and all(some <= {letter} for some in reduced)


def _slid(found: Program, parts: Sequence[Part], read: Read, number: int) -> tuple[str, ...]:
    """The letter of a window's cells, if it is reduced, and the one that counts windows that begin FARTHER cells from

    each other, or as many as a call says, or of which each is in a row of its own; none for windows of fewer than LONG
    cells.

    Of 16 rows of 16000 f32, squares of 160 cells by 80 take 0.35 of the time of lanes along windows; of 132 rows of
    4000, sums of 20 by 10 0.95 and maxima 1.3, of 32 0.6 and 0.8 (AMD EPYC, Zen 4, gcc 12.2). `x[i, i + k]` summed over
    701 of 3001 rows takes 0.3 of its time, bf16 0.2 (Intel Xeon, gcc 12.2).
    """
    letters = [found.letters[name] for name in found.letters if name in expr.names(read.indices[number])]
    if len(letters) != 2 or any(letter.kind != "one" for letter in letters):
        return ()
    try:
        index = affine(read.indices[number], [letter.name for letter in letters]).with_symbols(found.sizes.values)
    except NotPolynomial:
        return ()
    factors = {name: factor.constant for name, factor in index.coefficients}
    kept = {name for part in parts for name in expr.names(part.target)}
    for cell, window in (letters, letters[::-1]):
        across = any(window.name in expr.names(index) for at, index in enumerate(read.indices) if at != number)
        far = across or abs(factors.get(window.name) or FARTHER) >= FARTHER
        if factors.get(cell.name) == 1 and far and cell.name not in kept and many(cell, LONG):
            return cell.name, window.name
    return ()


def _shifted(found: Program, part: Part, read: Read, number: int) -> list[str]:
    """The letter that a step reduces which alone moves an index, by one cell each, as in `x[w + 1]`."""
    index = read.indices[number]
    letters = [name for name in found.letters if name in expr.names(index)]
    reduced = [name for name in letters if found.letters[name].kind == "one" and name not in expr.names(part.target)]
    return reduced if len(letters) == 1 and reduced and slope(index, reduced[0]) == Number(1) else []


def _close(op: Op, found: Program, parts: Sequence[Part]) -> dict[str, None]:
    """The letters of cells that steps set which alone move the index of a last axis, by a few cells, `x[n, 2 * w]`."""
    letters = dict[str, None]()
    for part in parts:
        for read in (part.target, *part.reads):
            for number in _last_axes(op, found, read.tensor):
                names = [name for name in found.letters if name in expr.names(read.indices[number])]
                growth = slope(read.indices[number], names[0]) if len(names) == 1 else None
                close = isinstance(growth, Number) and 0 < growth.value <= CLOSE
                if close and found.letters[names[0]].kind == "one" and names[0] in expr.names(part.target):
                    letters[names[0]] = None
    return letters


def _before_one_cell(found: Program, parts: Sequence[Part]) -> dict[str, None]:
    """The letters that walk the axis before a last one of which steps name cells by numbers, as of complex numbers."""
    reads = [read for part in parts for read in (part.target, *part.reads) if len(read.indices) > 1]
    named = [read for read in reads if not expr.names(read.indices[-1]) & found.letters.keys()]
    letters = (found.walks(read.tensor, len(read.indices) - 2, read.indices[-2]) for read in named)
    return {letter: None for letter in letters if letter}


def _of_others(found: Program, parts: Sequence[Part]) -> dict[str, None]:
    """The letters along which lie together the cells of arrays that other phases make."""
    outside = {part.target.tensor for part in found.parts if part not in parts}
    letters = (
        found.walks(read.tensor, len(read.indices) - 1, read.indices[-1])
        for part in parts
        for read in part.reads
        if read.indices and read.tensor in outside and found.arrays[read.tensor].role == "between"
    )
    return {letter: None for letter in letters if letter}


def _named(parts: Sequence[Part]) -> set[str]:
    """The letters of what indices read: such cells lie apart."""
    reads = [read for part in parts for read in (part.target, *part.reads)]
    return {letter for read in reads for inner in gathers(read) for letter in expr.names(inner)}


def apart(op: Op, found: Program, parts: Sequence[Part], letter: str) -> bool:
    """Whether a letter's neighbours lie apart in sums that an engine has computed before the phase, or where another

    letter counts the cells between them; so do those that count along another axis than the last one with a letter:
    4x16x56x57x16 bf16 with channels first take 0.23 of the time of lanes along 16 channels (Intel Xeon, gcc 12.2).
    """
    sums = _sums(found, parts)
    reads = [read for part in parts for read in (part.target, *part.reads)]
    walked = [found.digits(read.tensor, *place) for read in reads for place in enumerate(read.indices)]
    walked += [_slid(found, parts, read, number)[::-1] for read in reads for number, _ in enumerate(read.indices)]
    before = [
        found.digits(read.tensor, number, index)
        for read in reads
        for number, index in enumerate(read.indices)
        if found.arrays[read.tensor].role != "between" and number not in _last_axes(op, found, read.tensor)
    ]
    counting = {outer for digits in walked if digits for outer in digits[:-1]}
    counting |= {digits[-1] for digits in before if digits}
    return letter in counting or any(
        found.walks(read.tensor, number, index) == letter
        for part in parts
        for read in part.reads
        if read.tensor in sums
        for number, index in enumerate(read.indices[:-1])
    )


def _sums(found: Program, parts: Sequence[Part]) -> set[str]:
    """The sums of the contractions of other phases."""
    return {other.target.tensor for other in found.parts if other not in parts and over_pairs(found, other)}


def moved(found: Program, parts: Sequence[Part], letter: str) -> Read | None:
    """The copy of one run, walked by `letter`, to another, if the phase does nothing else; else None."""
    part, value = parts[0], parts[0].formulas[0].value
    if len(parts) > 1 or part.by or part.where or part.operator != "set" or not isinstance(value, Read):
        return None
    arrays = [found.arrays[read.tensor] for read in (part.target, value)]
    runs = all(len(array.axes) == 1 and array.axes[0].kind == "run" for array in arrays)
    walked = {*part.target.indices, *value.indices} == {expr.Name(letter)}
    return value if runs and walked and not any(array.role in ("between", "list") for array in arrays) else None


def stands_alone(found: Program, parts: Sequence[Part]) -> bool:
    """Whether one step sets each cell by itself, always, and no letter is of several axes."""
    part = parts[0]
    alone = len(parts) == len(part.formulas) == 1 and part.operator == "set" and not (part.by or part.where)
    return alone and all(found.letters[name].kind == "one" for name in part.letters)


def _last_axes(op: Op, found: Program, name: str) -> Iterator[int]:
    """The axes of a tensor that may be the last one: a run may have no axes, and lists may reorder runs."""
    tensor = next((tensor for tensor in op.tensors if tensor.name == name), None)
    if tensor is None:
        return
    axes = found.arrays[name].axes
    placed = {attribute.locates for attribute in op.attributes if is_places(attribute)}
    anywhere = any(op.dims[role or ""].symbol in expr.names(axis.extent) for axis in axes for role in placed)
    for order in op.orders(tensor.layout).values() if tensor.layout else [[axis.name for axis in axes]]:
        for number in [n for name in reversed(order) for n, axis in enumerate(axes) if axis.name == name]:
            extent = axes[number].extent
            if isinstance(extent, Number) and 1 < extent.value < ENOUGH:
                continue  # too few cells in every call
            yield number
            if axes[number].kind not in ("run", "ones") and not anywhere:
                break
