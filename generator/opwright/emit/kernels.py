"""The view of one kernel: every name and every line's content chosen, for the C template to lay out.

In: a variant and its Nest. Out: a `Kernel` of strings and small nodes. All arithmetic on symbols happens here;
the template only writes C around it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from ..derive.missing_axes import ABSENT, MissingAxes, on_missing_axes
from ..derive.nest import Access, Axis, Loop, Nest, Solved, Within, derive, expansion, mixed_radix
from ..derive.poly import ONE, ZERO, Affine, NotPolynomial, Poly
from ..derive.variants import Variant
from ..language import expr
from ..language.expr import Read
from ..language.model import SPATIAL_AXES, Op
from ..language.source import Problem, SpecInvalid
from ..language.types import symbol_kinds, symbol_of
from ..memo import kept
from ..trace.recording import Prose
from .printing import Quotient, c_affine, c_condition, c_number, c_poly, c_real, quotient_name, split_monomial

C_TYPES = {"f32": "float", "f64": "double", "bf16": "opwright_bf16", "f16": "opwright_f16"}
LANES = 64
# What templates define inside a kernel.
RESERVED_NAMES = frozenset("sizes part parts task rest total task_begin task_end sum sums terms lane LANES".split())


@dataclass(frozen=True)
class Constant:
    """`const c_type name = value;`"""

    name: str
    value: str
    c_type: str = "int64_t"


@dataclass(frozen=True)
class Block:
    """Statements in one scope: constants, then what they guard. `kind` tells the template which macro prints it."""

    kind: str  # loop, if, update
    constants: list[Constant] = field(default_factory=list)
    body: list[Block] = field(default_factory=list)
    head: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Parameter:
    """A pointer parameter of a kernel."""

    name: str
    c_type: str
    dtype: str
    optional: bool
    is_output: bool


@dataclass(frozen=True)
class LaneBlock:
    """How the output is cut into blocks of accumulators."""

    letter: str
    begin: str
    end: str
    extent: str
    width: int


@dataclass(frozen=True)
class Kernel:
    """One C function."""

    variant: Variant
    name: str
    parameters: tuple[Parameter, ...]
    sizes_type: str
    constants: tuple[Constant, ...]
    accumulate: str
    init: str
    order: str
    total: str
    decoded: tuple[Constant, ...]
    task_constants: tuple[Constant, ...]
    lanes: LaneBlock | None
    lane_constants: tuple[Constant, ...]
    cells: tuple[str, str] | None
    nest: Block
    counts: bool
    store_at: str
    stored: str
    output: str

    @property
    def about(self) -> Prose:
        """How its cells are walked, and in which order each takes its terms."""
        cells = f"{self.lanes.width} cells along {self.lanes.letter} at a time" if self.lanes else "One cell at a time"
        first, _, rest = self.order.partition(", ")
        if not first:
            return Prose(f"{cells}; each has at most one term.")
        return Prose(f"{cells}; each takes its terms by {self.order}{', the last one fastest' if rest else ''}.")


def vector_axes(op: Op) -> tuple[str, ...]:
    """The names of an operation's spatial axes in C: the last of d, h, w."""
    return SPATIAL_AXES[3 - op.spatial_rank.max :]


@dataclass(frozen=True)
class SizeField:
    """A member of the struct of sizes that every kernel of an operation takes.

    Its summary is a name of the spec, no description: an edited description moves no C.
    """

    name: str
    length: int
    c_type: str
    neutral: int
    summary: Prose


@kept
def size_fields(op: Op) -> tuple[SizeField, ...]:
    """What kernels must know of a call: every size of a tensor, and every value that semantics mention."""
    kinds = symbol_kinds(op)
    semantics = op.semantics
    trees = [located.tree for located in (*semantics.ranges.values(), *semantics.where)]
    trees += [semantics.assignment.target, semantics.assignment.value]
    trees += [semantics.finish.tree] if semantics.finish else []
    mentioned = frozenset().union(*(expr.names(tree) for tree in trees))
    groups = [value.tree for group in op.classes for value in group.let.values()]
    mentioned |= frozenset().union(*(expr.names(tree) for tree in groups))
    form = op.normal_form
    mentioned |= {form.groups, form.stride, form.dilation, form.pad} if form else set()
    fields = []
    dims = {dim.symbol: (1, role) for role, dim in op.dims.items()}
    attributes = {symbol_of(a): (a.neutral or 0, a.name or "") for a in op.attributes if a.type != "string"}
    lets = {symbol: (let.neutral or 0, let.use or symbol) for symbol, let in op.lets.items()}
    for symbol, (neutral, summary) in {**lets, **attributes, **dims}.items():
        if symbol in dims or symbol in mentioned:
            vector = kinds[symbol].vector
            c_type = "double" if kinds[symbol].base == "real" else "int64_t"
            length = op.spatial_rank.max if vector else 0
            fields.append(SizeField(symbol, length, c_type, neutral, Prose(summary)))
    fields.sort(key=lambda found: (list(dims).index(found.name) if found.name in dims else len(dims), found.name))
    if uses_absent(op):
        summary = Prose("1 on the spatial axes that the call does not have")
        fields.append(SizeField(ABSENT, op.spatial_rank.max, "int64_t", 1, summary))
    for tensor in op.tensors:
        if len(tensor.arrangements) > 1:
            words = Prose(", ".join(f"{number} {name}" for number, name in enumerate(tensor.arrangements)))
            fields.append(SizeField(f"{tensor.name}_arrangement", 0, "int64_t", 0, words))
    return tuple(fields)


def uses_absent(op: Op) -> bool:
    """Whether some kernel must know which spatial axes a call does not have."""
    missing = MissingAxes(op)
    return any(not missing.fits(tree, value) for tree, value in on_missing_axes(op))


class _Names:
    """Hands out C identifiers; one that is taken twice is a spec whose names collide."""

    def __init__(self, op: Op) -> None:
        self.op = op
        self.taken: set[str] = set()

    def take(self, name: str) -> str:
        if name in self.taken:
            raise SpecInvalid(
                [Problem(self.op.at, "name-collision", f"the name '{name}' would stand twice in the C of {self.op.op}")]
            )
        self.taken.add(name)
        return name


class _Builder:
    """Collects the constants of every scope while the nest is printed.

    Scopes: 0 the function, 1 a task, 2 a block of lanes, then one per reduction loop.
    """

    FUNCTION, TASK, LANE = 0, 1, 2

    def __init__(self, variant: Variant, nest: Nest) -> None:
        self.variant, self.nest, self.op = variant, nest, variant.op
        self.names = _Names(variant.op)
        self.expansion = expansion(variant.op, variant.group_class.name if variant.group_class else None)
        self.scopes: list[list[Constant]] = [[], [], []]
        # A dot product walks the last output letter inside a task, so that a task's bounds serve all its cells.
        self.cells = nest.outputs[-1] if nest.outputs and nest.lanes is None else None
        self.tasks = nest.outputs[:-1] if self.cells else nest.outputs
        self.level: dict[str, int] = {letter: self.TASK for letter, _ in self.tasks}
        if self.cells:
            self.level[self.cells[0]] = self.LANE
        self.quotients: dict[Quotient, None] = {}
        self.used: set[str] = set()
        self.strides: dict[tuple[str, str], str] = {}
        self.row = variant.row
        self.real = C_TYPES[self.row["accumulate"]]
        finish = self.op.semantics.finish
        self.counts = finish is not None and "count" in expr.names(finish.tree)

    # Printing that remembers what it used.

    def poly(self, value: Poly) -> str:
        self.note(value)
        return c_poly(value)

    def affine(self, value: Affine) -> str:
        for _, coefficient in value.coefficients:
            self.note(coefficient)
        self.note(value.offset)
        return c_affine(value)

    def note(self, value: Poly) -> None:
        for monomial, _ in value.terms:
            self.used |= {name for name, _ in monomial}
            for quotient in split_monomial(monomial)[1]:
                self.quotients.setdefault(quotient)

    def define(self, level: int, name: str, value: str) -> str:
        self.scopes[level].append(Constant(self.names.take(name), value))
        return name

    def level_of(self, letters: Iterable[str]) -> int:
        return max((self.level[letter] for letter in letters), default=self.FUNCTION)

    # Bounds.

    def floor(self, value: Affine, divisor: Poly) -> str:
        return (
            self.affine(value) if divisor == ONE else f"opwright_floor_div({self.affine(value)}, {self.poly(divisor)})"
        )

    def ceil(self, value: Affine, divisor: Poly) -> str:
        return (
            self.affine(value) if divisor == ONE else f"opwright_ceil_div({self.affine(value)}, {self.poly(divisor)})"
        )

    def bounds(self, letter: str, condition: Within) -> tuple[str, str]:
        """First and past-the-last value of a letter for which `0 <= index < extent`."""
        coefficient = condition.index.coefficient(letter)
        rest = condition.index.without(letter)
        one = Affine.of({}, ONE)
        if self.expansion.positive(coefficient):
            past = condition.extent - one - rest
            high = (
                self.affine(condition.extent - rest) if coefficient == ONE else f"{self.floor(past, coefficient)} + 1"
            )
            return self.ceil(rest.scaled(Poly.number(-1)), coefficient), high
        divisor = -coefficient
        high = self.affine(rest + one) if divisor == ONE else f"{self.floor(rest, divisor)} + 1"
        return self.ceil(rest - condition.extent + one, divisor), high

    def loop_range(self, loop: Loop, extra: Sequence[Within], block: tuple[str, str] | None) -> tuple[str, str, int]:
        """The bounds of a loop as C, and the scope in which they are known."""
        lows, highs = ([block[0]], [block[1]]) if block else (["0"], [self.poly(loop.extent)])
        conditions = [*loop.within, *extra]
        if loop.solved is not None:
            reach = Affine.of({}, loop.solved.scale * (loop.solved.extent - ONE) + ONE)
            conditions.append(Within(loop.solved.right, reach))
        letters: set[str] = set()
        for condition in conditions:
            low, high = self.bounds(loop.letter, condition)
            lows.append(low)
            highs.append(high)
            letters |= {*condition.index.letters, *condition.extent.letters} - {loop.letter}
        level = max(self.level_of(letters), self.LANE if block else self.FUNCTION)
        return _nested("opwright_max", lows), _nested("opwright_min", highs), level

    # Accesses.

    def stride(self, accessed: Access, axis_name: str, value: Poly) -> str | None:
        if value == ONE:
            return None
        name = f"{accessed.tensor}_stride_{axis_name.removeprefix('X_').lower()}"
        if (accessed.tensor, axis_name) not in self.strides:
            self.strides[(accessed.tensor, axis_name)] = name
            self.define(self.FUNCTION, name, self.poly(value))
        return name

    def letter_stride(self, accessed: Access, letter: str) -> str | None:
        """The distance of a letter where arrangements differ: chosen at run time."""
        distances = accessed.coefficient(letter)
        if set(distances) == {ONE}:
            return None
        name = f"{accessed.tensor}_stride_{letter}"
        if (accessed.tensor, letter) not in self.strides:
            self.strides[(accessed.tensor, letter)] = name
            self.define(self.FUNCTION, name, self.chosen(accessed.tensor, [self.poly(d) for d in distances]))
        return name

    def first(self, accessed: Access) -> str | None:
        """Where letters at 0 stand, where arrangements differ and some axis is walked from its end."""
        starts = [sum((axis.index.offset * axis.stride for axis in axes), start=ZERO) for axes in accessed.ways]
        if all(start == ZERO for start in starts):
            return None
        name = f"{accessed.tensor}_first"
        if name not in self.names.taken:
            self.define(self.FUNCTION, name, self.chosen(accessed.tensor, [self.poly(start) for start in starts]))
        return name

    def chosen(self, tensor: str, texts: list[str]) -> str:
        result = texts[-1]
        self.used.add(f"{tensor}_arrangement")
        for number in reversed(range(len(texts) - 1)):
            if texts[number] != result:
                result = f"{tensor}_arrangement == {number} ? {texts[number]} : {result}"
        return result

    def base(self, accessed: Access, inner: str | None) -> tuple[str, set[str]]:
        """The element offset without the inner letter's part, and the letters it depends on."""
        parts: list[str] = []
        wrapped: list[tuple[str, str | None]] = []
        letters: set[str] = set()
        split = self.split(accessed, inner)
        if len(accessed.ways) == 1:
            for axis in accessed.ways[0]:
                index = axis.index.without(inner) if inner else axis.index
                if not index.letters and index.offset == ZERO:
                    continue
                text, stride = self.affine(index), self.stride(accessed, axis.name, axis.stride)
                compound = len(index.coefficients) + len(index.offset.terms) > 1
                if axis is split:
                    wrapped.append((text, stride))
                else:
                    parts.append(
                        text if stride is None else f"({text}) * {stride}" if compound else f"{text} * {stride}"
                    )
                letters |= set(index.letters)
        else:
            for letter in dict.fromkeys(name for axes in accessed.ways for axis in axes for name in axis.index.letters):
                if letter != inner:
                    stride = self.letter_stride(accessed, letter)
                    parts.append(letter if stride is None else f"{letter} * {stride}")
                    letters.add(letter)
            if first := self.first(accessed):
                parts.append(first)
        base = " + ".join(parts) or "0"
        for text, stride in wrapped:
            base = f"opwright_offset({base}, {text}, {stride})"
        return base, letters

    def split(self, accessed: Access, inner: str | None) -> Axis | None:
        """The axis of which the inner loop computes only a part of the index, where such a part may lie far outside.

        Times the stride that part may leave int64, and so may the step: a pad of 2**61, a stride where one cell fits.
        """
        if inner is None or len(accessed.ways) > 1:
            return None
        axes = (axis for axis in accessed.ways[0] if inner in axis.index.letters and axis.stride != ONE)
        extents = dict(self.nest.outputs) | self.expansion.extents
        return next((axis for axis in axes if mixed_radix(axis.index, axis.extent, extents) is None), None)

    def step(self, accessed: Access, letter: str, name: str) -> str | None:
        """The distance per inner letter: None for 0, '' for 1, else the name of a constant."""
        distances = set(accessed.coefficient(letter))
        if distances == {ZERO}:
            return None
        if distances == {ONE}:
            return ""
        if len(accessed.ways) > 1:
            return self.letter_stride(accessed, letter)
        if name not in self.names.taken:
            split = self.split(accessed, letter)
            total = next(iter(distances))
            value = self.poly(total)
            if split is not None and (factor := split.index.coefficient(letter)) != ONE:
                stride, others = self.stride(accessed, split.name, split.stride), total - factor * split.stride
                value = f"opwright_offset({self.poly(others)}, {self.poly(factor)}, {stride})"
            self.define(self.FUNCTION, name, value)
        return name

    def element(self, accessed: Access, name: str, inner: str | None, inner_letter: str | None) -> str:
        """`tensor[at + inner * step]`, its base defined in the outermost scope that knows it."""
        base, letters = self.base(accessed, inner_letter)
        at = self.define(self.level_of(letters), f"{name}_at", base) if base != "0" else ""
        if inner is None or inner_letter is None:
            return f"{accessed.tensor}[{at or '0'}]"
        step = self.step(accessed, inner_letter, f"{name}_step")
        if step is None:
            return f"{accessed.tensor}[{at or '0'}]"
        if self.split(accessed, inner_letter) is not None and step:
            return f"{accessed.tensor}[opwright_offset({at or '0'}, {inner}, {step})]"
        walked = f"{inner} * {step}" if step else inner
        return f"{accessed.tensor}[{at} + {walked}]" if at else f"{accessed.tensor}[{walked}]"

    def loaded(self, tensor: str, element: str) -> str:
        dtype = self.row[tensor]
        text = element if dtype in ("f32", "f64") else f"opwright_from_{dtype}({element})"
        text = (
            f"({self.real}){text}"
            if C_TYPES.get(dtype) != self.real and not (dtype != "f64" and self.real == "float")
            else text
        )
        return f"({tensor} ? {text} : 0)" if self.op.tensor(tensor).optional else text

    # The nest.

    def symbol(self, name: str) -> str:
        """A symbol inside a condition or a value, as C; the quotients and the class' sizes applied."""
        if name in self.expansion.extents and name in self.expansion.ones:
            return "0"
        if name in self.expansion.sizes:
            return f"({self.poly(self.expansion.sizes[name])})"
        self.used.add(name)
        return name

    def integer(self, tree: expr.Expr) -> str:
        if isinstance(tree, expr.Call) and tree.function == "prod":
            inside = tree.arguments[0]
            texts = [self.corrected(inside, suffix, 1) for suffix in self.expansion.suffixes]
            return " * ".join(f"({text})" if " " in text else text for text in texts) or "1"
        return c_condition(tree, self.symbol)

    def copied(self, tree: expr.Expr, suffix: str | None) -> str:
        vectors = self.expansion.vectors | self.expansion.vector_letters
        return c_condition(tree, lambda name: self.symbol(f"{name}_{suffix}" if name in vectors else name))

    def corrected(self, tree: expr.Expr, suffix: str | None, wanted: expr.Value) -> str:
        """The copy of a tree for a spatial axis, `wanted` where a call does not have that axis."""
        text = self.copied(tree, suffix)
        if suffix is None or self.expansion.missing.fits(tree, wanted):
            return text
        absent = f"{ABSENT}_{suffix}"
        self.used.add(absent)
        return f"{absent} || ({text})" if wanted is True else f"{absent} ? {wanted} : {text}"

    def guards(self) -> list[tuple[str, set[str]]]:
        result = []
        for guard in self.nest.guards:
            vectors = expr.names(guard) & (self.expansion.vectors | self.expansion.vector_letters)
            for suffix in self.expansion.suffixes if vectors else (None,):
                letters = {f"{name}_{suffix}" if name in vectors else name for name in expr.names(guard)}
                result.append((self.corrected(guard, suffix, True), letters & self.level.keys()))
        return result

    def solved_constants(self, loop: Loop, solved: Solved) -> tuple[str, str]:
        """Names of the step constants of a stepped loop: of its letter, and of the letter solved for."""
        coefficient = solved.right.coefficient(loop.letter)
        size = coefficient if self.expansion.positive(coefficient) else -coefficient
        scale = self.poly(solved.scale)
        divisor = f"opwright_gcd({scale}, {self.poly(size)})"
        step = self.define(self.FUNCTION, f"{loop.letter}_step", f"{scale} / {divisor}")
        sign = "" if self.expansion.positive(coefficient) else "-"
        # Not size * step / scale, which is the same: that product may leave int64.
        inner_step = self.define(self.FUNCTION, f"{solved.letter}_step", f"{sign}({self.poly(size)} / {divisor})")
        return step, inner_step

    def nested_loop(self, loop: Loop) -> Block:
        """A reduction loop; its letter becomes known one scope further in."""
        solved = loop.solved
        low, high, level = self.loop_range(loop, (), None)
        if solved is not None:
            level = max(level, self.TASK)
        if loop.within or solved is not None:
            high = self.define(level, f"{loop.letter}_end", high)
            if solved is not None and solved.scale != ONE:
                low = self.first_that_divides(loop, solved, level, low, high)
            low = self.define(level, f"{loop.letter}_begin", low)
        head = _loop_head(loop.letter, low, high)
        self.scopes.append([])
        scope = len(self.scopes) - 1
        self.level[self.names.take(loop.letter)] = scope
        if solved is not None:
            if solved.scale == ONE:
                self.define(scope, solved.letter, self.affine(solved.right))
            else:
                head |= self.stepped(loop, solved, level, low)
            self.level[solved.letter] = scope
        return Block("loop", self.scopes[scope], [], head)

    def first_that_divides(self, loop: Loop, solved: Solved, level: int, low: str, end: str) -> str:
        """The first value of a letter for which the solved equation has an integer solution."""
        low = self.define(level, f"{loop.letter}_low", low)
        slope = self.poly(solved.right.coefficient(loop.letter))
        rest = self.affine(solved.right.without(loop.letter))
        return f"opwright_first_multiple({', '.join((low, end, slope, rest, self.poly(solved.scale)))})"

    def stepped(self, loop: Loop, solved: Solved, level: int, begin: str) -> dict[str, str]:
        """What a loop needs to carry the solved letter along: it moves by a constant from one solution to the next."""
        step, solved_step = self.solved_constants(loop, solved)
        at_begin = solved.right.without(loop.letter) + Affine.of({begin: solved.right.coefficient(loop.letter)})
        first = f"({self.affine(at_begin)}) / {self.poly(solved.scale)}"
        solved_begin = self.define(level, f"{solved.letter}_begin", first)
        solved_letter = self.names.take(solved.letter)
        return {"step": step, "solved": solved_letter, "solved_begin": solved_begin, "solved_step": solved_step}

    def before(self) -> list[str]:
        """Conditions that no reduction letter decides: tests in front of the nest."""
        tests = []
        for condition in self.nest.before:
            if isinstance(condition, Within):
                index, extent = self.affine(condition.index), self.affine(condition.extent)
                # An index of 0 is not below its axis' start.
                start = index == "0"
                tests.append(f"0 < {extent}" if start else f"0 <= {index} && {index} < {extent}")
                continue
            right, scale = self.affine(condition.right), self.poly(condition.scale)
            level = max(self.level_of(condition.right.letters), self.TASK)
            value = right if condition.scale == ONE else f"opwright_floor_div({right}, {scale})"
            name = self.define(level, condition.letter, value)
            self.level[name] = level
            exact = [] if condition.scale == ONE else [f"{name} * {scale} == {right}"]
            tests.append(" && ".join([*exact, f"0 <= {name}", f"{name} < {self.poly(condition.extent)}"]))
        return tests

    def kernel(self) -> Kernel:
        """The whole function. The order of the steps is that of the scopes: what is known further out comes first."""
        op, nest = self.op, self.nest
        self.names.taken |= RESERVED_NAMES
        for name in (*(tensor.name for tensor in op.tensors), *(letter for letter, _ in nest.outputs)):
            self.names.take(name)
        total = " * ".join(_factor(self.poly(extent)) for _, extent in self.tasks) or "1"
        decoded = self.decoded()
        lanes = self.lane_block()
        output_at, output_step = self.output_element(lanes)
        root = self.walk(lanes)
        stored = self.stored(lanes)
        cells = (self.cells[0], self.poly(self.cells[1])) if self.cells else None
        return Kernel(
            variant=self.variant,
            name=self.variant.name,
            parameters=parameters(op, self.row),
            sizes_type=f"opwright_{op.function}_sizes",
            constants=tuple(self.function_constants()),
            accumulate=self.real,
            init=c_number(float(op.semantics.init), self.real),
            order=", ".join(self.order(lanes)),
            total=total,
            decoded=decoded,
            task_constants=tuple(self.scopes[self.TASK]),
            lanes=lanes,
            lane_constants=tuple(self.scopes[self.LANE]),
            cells=cells,
            nest=root,
            counts=self.counts,
            store_at=_plus(output_at, f"{lanes.letter}{output_step}") if lanes else output_at,
            stored=stored,
            output=op.output.name,
        )

    def order(self, lanes: LaneBlock | None) -> list[str]:
        """The reduction letters, outermost first."""
        letters = [loop.letter for loop in self.nest.reductions]
        return letters if lanes or self.nest.inner is None else [*letters, self.nest.inner.letter]

    def walk(self, lanes: LaneBlock | None) -> Block:
        """The reductions, each block inside the one before it, the update innermost."""
        nest = self.nest
        blocks = [_test(text) for text in self.before()]
        loops = [*nest.reductions, *([nest.inner] if nest.inner is not None else [])]
        waiting = {letter for loop in loops for letter in (loop.letter, *([loop.solved.letter] if loop.solved else []))}
        for letter in waiting:
            self.level.setdefault(letter, self.FUNCTION)
        pending = self.guards()

        def due() -> list[Block]:
            """The guards whose letters are all known by now."""
            ready = [guard for guard in pending if not guard[1] & waiting]
            for guard in ready:
                pending.remove(guard)
            return [_test(text) for text, _ in ready]

        blocks += due()
        for loop in loops:
            blocks.append(self.inner_loop(loop, lanes) if loop is nest.inner else self.nested_loop(loop))
            waiting -= {loop.letter, loop.solved.letter if loop.solved else loop.letter}
            blocks += [_test(text) for text in self.tests(loop)] + due()
        blocks.append(self.update(nest.inner.letter if nest.inner is not None else None, lanes))
        root = Block("scope")
        for outer, block in zip([root, *blocks], blocks):
            outer.body.append(block)
        return root

    def inner_loop(self, loop: Loop, lanes: LaneBlock | None) -> Block:
        """The innermost loop: over the lanes of a block, or over a reduction."""
        block: tuple[str, str] | None = None
        reach: tuple[Within, ...] = ()
        if lanes is not None and self.nest.lanes is not None:
            cell = self.nest.lanes.cell
            if cell == Affine.letter(lanes.letter):
                block = (lanes.begin, lanes.end)
            else:
                first, end = Affine.letter(lanes.begin), Affine.letter(lanes.end)
                reach = (Within(cell - first, end - first),)
        low, high, level = self.loop_range(loop, reach, block)
        if loop.within or reach:
            low = self.define(level, f"{loop.letter}_begin", low)
            high = self.define(level, f"{loop.letter}_end", high)
        if lanes is None or lanes.letter != loop.letter:
            self.names.take(loop.letter)
        self.scopes.append([])
        self.level[loop.letter] = len(self.scopes) - 1
        return Block("loop", self.scopes[-1], [], _loop_head(loop.letter, low, high))

    def tests(self, loop: Loop) -> list[str]:
        return [
            f"0 <= {self.affine(test.index)} && {self.affine(test.index)} < {self.affine(test.extent)}"
            for test in loop.tested
        ]

    def decoded(self) -> tuple[Constant, ...]:
        """How a task number tells the outer letters, the last one fastest."""
        result = []
        letters = list(self.tasks)
        divisor = ""
        for position, (letter, extent) in enumerate(reversed(letters)):
            text = _factor(self.poly(extent))
            quotient = f"task / ({divisor})" if " " in divisor else f"task / {divisor}" if divisor else "task"
            last = position == len(letters) - 1
            result.append(Constant(letter, quotient if last else f"{quotient} % {text}"))
            divisor = f"{text} * {divisor}" if divisor else text
        return tuple(reversed(result))

    def lane_block(self) -> LaneBlock | None:
        lanes = self.nest.lanes
        if lanes is None:
            return None
        begin, end = self.names.take(f"{lanes.position}_from"), self.names.take(f"{lanes.position}_to")
        self.level |= {begin: self.LANE, end: self.LANE}
        return LaneBlock(self.names.take(lanes.position), begin, end, self.poly(lanes.extent), LANES)

    def output_element(self, lanes: LaneBlock | None) -> tuple[str, str]:
        """Where the block's cells are stored: the base, and ` * step` where neighbours are not adjacent."""
        position = lanes.letter if lanes else None
        base, letters = self.base(self.nest.target, position)
        at = base
        if base != "0":
            at = self.define(max(self.level_of(letters), self.TASK), f"{self.nest.target.tensor}_at", base)
        if position is None:
            return at, ""
        step = self.step(self.nest.target, position, f"{self.nest.target.tensor}_step")
        return at, f" * {step}" if step else ""

    def update(self, inner: str | None, lanes: LaneBlock | None) -> Block:
        elements: dict[Read, str] = {}
        counted: dict[str, int] = {}
        for read, accessed in self.nest.reads:
            counted[read.tensor] = counted.get(read.tensor, 0) + 1
            name = read.tensor if counted[read.tensor] == 1 else f"{read.tensor}{counted[read.tensor]}"
            elements[read] = self.loaded(read.tensor, self.element(accessed, name, inner, inner))
        value = c_real(self.op.semantics.assignment.value, self.real, elements.__getitem__, self.integer)
        lane = ""
        if lanes is not None and self.nest.lanes is not None:
            offset = self.nest.lanes.cell - Affine.letter(lanes.begin)
            base = offset.without(inner or "")
            lane = self.affine(offset)
            if len(base.letters) > 1 and inner:
                at = self.define(self.level_of(base.letters), f"{lanes.letter}_at", self.affine(base))
                lane = self.affine(Affine.of({at: ONE, inner: offset.coefficient(inner)}))
        suffix = "f" if self.real == "float" else ""
        target = f"sums[{lane}]" if lanes else "sum"
        terms = f"terms[{lane}]" if lanes else "terms"
        head = {"target": target, "terms": terms, "value": value, "reduction": self.op.semantics.assignment.op}
        head |= {"function": f"opwright_maximum{suffix}", "counts": "yes" if self.counts else ""}
        return Block("update", [], [], head)

    def stored(self, lanes: LaneBlock | None) -> str:
        cell = f"sums[{lanes.letter} - {lanes.begin}]" if lanes else "sum"
        terms = f"terms[{lanes.letter} - {lanes.begin}]" if lanes else "terms"
        finish = self.op.semantics.finish
        text = cell
        if finish is not None:
            elements = {}
            for read, accessed in self.nest.finish_reads:
                base, _ = self.base(accessed, None)
                elements[read] = self.loaded(read.tensor, f"{read.tensor}[{base}]")

            def read_text(read: Read) -> str:
                return cell if read.tensor == self.op.output.name else elements[read]

            def integer(tree: expr.Expr) -> str:
                return terms if isinstance(tree, expr.Name) and tree.id == "count" else self.integer(tree)

            text = c_real(finish.tree, self.real, read_text, integer)
        dtype = self.row[self.op.output.name]
        if dtype in ("bf16", "f16"):
            text = f"opwright_to_{dtype}({'(float)(' + text + ')' if self.real == 'double' else text})"
        elif C_TYPES[dtype] != self.real:
            text = f"({C_TYPES[dtype]})({text})"
        return text

    def function_constants(self) -> list[Constant]:
        """Sizes that the kernel uses, quotients, then what was defined of them."""
        op = self.op
        unpacked = []
        for member in size_fields(op):
            if member.length:
                axes = vector_axes(op)
                names = [
                    (f"{member.name}_{axis}", f"sizes->{member.name}[{number}]") for number, axis in enumerate(axes)
                ]
            else:
                names = [(member.name, f"sizes->{member.name}")]
            for name, source in names:
                if name in self.used:
                    unpacked.append(Constant(self.names.take(name), source, member.c_type))
        quotients = [Constant(self.names.take(quotient_name(q)), f"{q[0]} / {q[1]}") for q in self.quotients]
        return [*unpacked, *quotients, *self.scopes[self.FUNCTION]]


def _test(condition: str) -> Block:
    return Block("if", [], [], {"condition": condition})


def _loop_head(letter: str, begin: str, end: str) -> dict[str, str]:
    stepped = dict.fromkeys(("step", "solved", "solved_begin", "solved_step"), "")
    return {"letter": letter, "begin": begin, "end": end, **stepped}


def _nested(function: str, texts: list[str]) -> str:
    texts = list(dict.fromkeys(texts))
    result = texts[-1]
    for text in reversed(texts[:-1]):
        result = f"{function}({text}, {result})"
    return result


def _plus(base: str, rest: str) -> str:
    return rest if base == "0" else f"{base} + {rest}"


def _factor(text: str) -> str:
    return f"({text})" if " " in text else text


def parameters(op: Op, row: dict[str, str]) -> tuple[Parameter, ...]:
    """The pointers that a kernel takes: data inputs, then the output."""
    return tuple(
        Parameter(t.name, C_TYPES[row[t.name]], row[t.name], t.optional, is_output=t.name == op.output.name)
        for t in op.tensors
    )


@kept
def _nest(op: Op, words: tuple[str, ...], group: str | None) -> Nest:
    """The nest of a layout and a class, which data types share."""
    group_class = next((found for found in op.classes if found.name == group), None)
    return derive(op, dict(zip(op.layout_attributes, words)), group_class)


@dataclass(frozen=True)
class _Identified:
    """A variant that is told from others of its operation by its name."""

    name: str
    variant: Variant = field(compare=False)


@kept
def _kernel(op: Op, identified: _Identified) -> Kernel:
    variant = identified.variant
    nest = _nest(op, variant.words, variant.group_class.name if variant.group_class else None)
    try:
        return _Builder(variant, nest).kernel()
    except NotPolynomial as error:
        raise SpecInvalid([Problem(op.semantics.assignment.at, "semantics-index", str(error))]) from None


def kernel(variant: Variant) -> Kernel:
    """The view of a variant. Raises SpecInvalid where there is no kernel."""
    return _kernel(variant.op, _Identified(variant.name, variant))
