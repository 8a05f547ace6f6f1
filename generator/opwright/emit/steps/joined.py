"""Short rows that follow one another, each beside a cell of its own or a row that is the same for all: several are one,
and the cells and that row are repeated.

In: a phase of one step that sets an output along its last axis, and the letter of tasks before that. Out: how many rows
a task has, a constant of the call, and what stands for such a cell or row.

Rows of narrow types are worth it, whose cells behind the last whole line take longest: 4000 x 70 bf16 times one for
each row take 0.43 of the time, 500 x 32 x 32 s8 times bf16 0.50. Of f32 alone, 4000 x 70 would take 1.21 (one thread
of an AMD Zen 5, gcc 12.2). Beside a row that is the same for all, f32 are, too: 20000 x 50 times such a row take 0.6 of
the time, bf16 0.5 (AMD Zen 3, gcc 12.2). Rows of few cells are, in all types.
"""

from __future__ import annotations

from typing import TypeGuard

from ...derive.program import summed_alone
from ...language import expr
from ...language.dtypes import DTYPES
from ...language.expr import Read
from .. import nodes
from ..nodes import ONE, ZERO, Binary, Call, Conditional, Declare, DeclareArray, Expr, Name, Stmt
from .cache_lines import LINE, costly
from .elements import Elements
from .repeats import CELLS

LONGEST, FEW = nodes.integer(128), Name("OPWRIGHT_FEW")  # cells of a row, at the most
LEAST = 2  # at the least
ROWS, GROUP, N = Name("joined_"), Name("group_"), Name("n_")
SEVERAL = Name("several_")  # whether there are more than one


def begun(elements: Elements) -> None:
    """The number of rows that are one, in a phase that may have such; nothing of others."""
    if not possible(elements) or "f16" in _types(elements):  # whose rows are converted in buffers
        return
    (part,), extents = elements.phase.parts, elements.program.letters
    lane, letter = _last(part.target)
    cells = elements.extent(extents[lane], 0)
    tests: list[Expr] = []
    rows = dict.fromkeys((part.target, *part.reads))
    for read in rows:
        if expr.Name(lane) in read.indices:
            tests.append(Binary("==", _stride(elements, read, lane), ONE))
        if {expr.Name(lane), expr.Name(letter)} <= {*read.indices}:
            tests.append(Binary("==", _stride(elements, read, letter), cells))
    own = [extents[name] for name in elements.phase.own if name != lane]
    tasks = nodes.chain("*", [elements.extent(one, number) for one in own for _, number in elements.copies(one)], ONE)
    count = Call(
        "opwright_joined", (cells, elements.extent(extents[letter], 0), tasks, Name("parts_"), _longest(elements))
    )
    elements.constant(ROWS.name, Conditional(nodes.both(tests), count, ONE))
    elements.constant(SEVERAL.name, Binary(">", ROWS, ONE))


def letter_of(elements: Elements) -> str:
    """The letter of rows that may be one; '' if there is none."""
    return _last(elements.phase.parts[0].target)[1] if ROWS.name in elements.declared else ""


def block(elements: Elements, row: Expr, otherwise: Expr) -> Expr:
    """The lanes of a block: those of a row."""
    return Conditional(SEVERAL, row, otherwise) if letter_of(elements) else otherwise


def grouped(
    elements: Elements, digits: list[tuple[str, Expr]], begins: list[Declare]
) -> tuple[list[tuple[str, Expr]], list[Declare]]:
    """The letters of tasks, of which one counts groups of rows, and what tasks begin with: the first row of a group."""
    letter = letter_of(elements)
    if not letter:
        return digits, begins
    found = [(name, extent) for name, extent in digits if name == letter]
    count = elements.constant("groups_", Call("opwright_ceil_by", (found[0][1], ROWS)))
    groups = [(GROUP.name, count) if one in found else one for one in digits]
    return groups, [Declare(letter, Binary("*", GROUP, ROWS)), *begins]


def lanes(elements: Elements, otherwise: Expr) -> Expr:
    """How many lanes a task has."""
    letter = letter_of(elements)
    if not letter:
        return otherwise
    lane, rows = (elements.program.letters[name] for name in _last(elements.phase.parts[0].target))
    some = Call("opwright_min", (ROWS, Binary("-", elements.extent(rows, 0), Name(letter))))
    return Conditional(SEVERAL, Binary("*", some, elements.extent(lane, 0)), otherwise)


def cell(tree: expr.Expr, elements: Elements) -> TypeGuard[Read]:
    """Whether a value is a cell that stands for a row, and differs from row to row."""
    return isinstance(tree, Read) and expr.Name(letter_of(elements)) in tree.indices


def repeated(elements: Elements, read: Read, row: str, room: str) -> list[Stmt]:
    """The rows that such cells stand for."""
    lane, letter = _last(elements.phase.parts[0].target)
    c_type, dtype = elements.c_type(read.tensor), elements.dtype(read.tensor)
    cells = elements.extent(elements.program.letters[lane], 0)
    arguments = (elements.address(read), _stride(elements, read, letter), ZERO, cells, N, Name(room))
    return [
        DeclareArray(room, c_type, CELLS + LINE),
        Declare(row, Call(f"opwright_repeated_{dtype}", arguments), f"const {c_type} *restrict", changes=True),
    ]


def begin(elements: Elements, read: Read) -> Expr | None:
    """Where a row begins that is the same for all rows that are one: in a buffer; None of other reads."""
    lane, letter = _last(elements.phase.parts[0].target)
    if _form(elements, read, letter, lane) != "again":
        return None
    name, room, dtype = f"{read.tensor}_begin_", f"{read.tensor}_cells_", elements.dtype(read.tensor)
    if not any(isinstance(one, Declare) and one.name == name for one in elements.repeated):
        cells, c_type = elements.extent(elements.program.letters[lane], 0), elements.c_type(read.tensor)
        copies = Call(f"opwright_copies_{dtype}", (Name(read.tensor), cells, Binary("*", ROWS, cells), Name(room)))
        elements.used.add(read.tensor)
        elements.repeated += [
            DeclareArray(room, c_type, CELLS),
            Declare(name, Conditional(SEVERAL, copies, Name(read.tensor)), f"const {c_type} *", changes=True),
        ]
    return Name(name)


def each(elements: Elements, read: Read, row: str, room: str) -> list[Stmt]:
    """The copies of a row that is the same for all rows of a task; none of other reads.

    Differences of 200 x 199 rows of 11 f32 take 0.31 of the time, bf16 0.24 (Intel Xeon, Sapphire Rapids, gcc 12.2).
    """
    lane, letter = _last(elements.phase.parts[0].target)
    if _form(elements, read, letter, lane) != "each":
        return []
    c_type, cells = elements.c_type(read.tensor), elements.extent(elements.program.letters[lane], 0)
    copies = Call(f"opwright_copies_{elements.dtype(read.tensor)}", (elements.address(read), cells, N, Name(room)))
    return [DeclareArray(room, c_type, CELLS), Declare(row, copies, f"const {c_type} *restrict", changes=True)]


def follows(elements: Elements) -> tuple[tuple[str, str], ...]:
    """The axes of tensors along which rows follow one another where they are one; none where they never are."""
    if not possible(elements):
        return ()
    (part,), (lane, letter) = elements.phase.parts, _last(elements.phase.parts[0].target)
    reads = [one for one in (part.target, *part.reads) if {expr.Name(lane), expr.Name(letter)} <= {*one.indices}]
    return tuple(dict.fromkeys((read.tensor, _axis(elements, read, letter)) for read in reads))


def possible(elements: Elements) -> bool:
    """Whether a phase sets each cell of an output from that of the same place, and one of the row or a row for all."""
    lane, parts = elements.lanes, elements.phase.parts
    if lane is None or lane.kind != "one" or len(parts) != 1 or len(parts[0].formulas) != 1 or elements.crossing:
        return False
    (part,), target = parts, parts[0].target
    value, letters = part.formulas[0].value, [index.id for index in target.indices[-2:] if isinstance(index, expr.Name)]
    if part.operator != "set" or part.where or part.by or len(letters) < 2 or letters[1] != lane.name:
        return False
    if isinstance(summed_alone(value) or value, Read):  # which is stored as it stands, without the values of a row
        return False
    before = elements.program.letters[letters[0]]
    if before.kind != "one" or before.name not in elements.phase.own or not elements.streams(target):
        return False
    forms = [_form(elements, read, before.name, lane.name) for read in (target, *part.reads)]
    roles = {elements.program.arrays[read.tensor].role for read in part.reads}
    calls = [node for node in expr.outside_indices(value) if isinstance(node, expr.Call)]
    return (
        "" not in forms
        and not {"again", "cell", "each"}.isdisjoint(forms)
        and roles == {"input"}
        and not costly(value)
        and not any(call.function == "pow" for call in calls)
        and expr.names_outside_indices(value).isdisjoint(letters)
        and all(_alone(node, before.name, lane.name) for node in expr.outside_indices(value))
    )


def _longest(elements: Elements) -> Expr:
    """Up to how many cells rows have that are one.

    The types of cells of rows do not count: 4096 x 45 f32 times u8 for each row take 0.31 of their time so.
    """
    (part,), (lane, letter) = elements.phase.parts, _last(elements.phase.parts[0].target)
    forms = {read: _form(elements, read, letter, lane) for read in (part.target, *part.reads)}
    sizes = [DTYPES[elements.dtype(read.tensor)].size for read, form in forms.items() if form not in ("cell", "other")]
    narrow, others = min(sizes) < DTYPES["f32"].size, not {"cell", "each"}.isdisjoint(forms.values())
    return FEW if others and not narrow else LONGEST


def _types(elements: Elements) -> set[str]:
    (part,) = elements.phase.parts
    return {elements.dtype(read.tensor) for read in (part.target, *part.reads)}


def _form(elements: Elements, read: Read, letter: str, lane: str) -> str:
    """Whether a read is a `row` of the letter, its `cell`, one row `again` and again, for all tasks or for `each`, or
    `other`, without any of these; '' if it is of no such form."""
    axes = elements.program.arrays[read.tensor].axes
    pairs = zip(axes, read.indices, strict=True)
    plain = [index.id for axis, index in pairs if axis.kind == "one" and isinstance(index, expr.Name)]
    named = [name for index in read.indices for name in expr.names(index) if name in (letter, lane)]
    forms = {(letter, lane): "row", (letter,): "cell", (): "other"}
    if named == [lane] and {*named} <= {*plain}:
        return "again" if len(read.indices) == 1 else "each"
    return forms.get(tuple(sorted(named, key=(letter, lane).index)), "") if {*named} <= {*plain} else ""


def _alone(node: expr.Expr, letter: str, lane: str) -> bool:
    """Whether a value that is the same along a row, but not for all rows, is a cell."""
    names = expr.names(node)
    return isinstance(node, Read) or letter not in names or lane in names


def _stride(elements: Elements, read: Read, letter: str) -> Expr:
    """The stride of the axis of an array that a letter walks."""
    return elements.member(f"{read.tensor}_{_axis(elements, read, letter)}")


def _axis(elements: Elements, read: Read, letter: str) -> str:
    """The axis of an array that a letter walks."""
    return elements.program.arrays[read.tensor].axes[read.indices.index(expr.Name(letter))].name


def _last(target: Read) -> tuple[str, str]:
    """The letters of the last axis of an output and of the one before."""
    before, lane = target.indices[-2:]
    assert isinstance(lane, expr.Name)
    assert isinstance(before, expr.Name)
    return lane.id, before.id
