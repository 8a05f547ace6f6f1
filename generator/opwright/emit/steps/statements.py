"""The statements that resolve a call of an operation of steps: positions of axes, and sizes from extents.

In: an operation of steps. Out: statements, one macro each in templates/python/step_statements.py.j2. At most one run of
a tensor may have a length that only its shape determines; a spec with two is refused.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ...derive.call_plan import Bind, Check, Compute, Extent, Join, Stated, plan
from ...derive.program import kind_of_extent
from ...derive.rewrites.parted import part_names, summed_sizes
from ...derive.rewrites.parted import symbol_of as symbol_of_extent
from ...language import expr
from ...language.expr import Call, Expr, Name, Number
from ...language.model import Attribute, Op, Tensor
from ...language.schema import Located
from ...language.source import Problem, SpecInvalid
from ...language.types import has_symbol, is_places, symbol_of, tells_rank
from ..printing import python
from ..python_module import Statement
from .reaches import ReachWriter


class StepWriter(ReachWriter):
    """Translates the plan of an operation of steps to statements."""

    def __init__(self, op: Op) -> None:
        super().__init__(op)
        self.counted: set[str] = set()  # runs whose number of axes is known; '' the spatial axes
        self.stated: set[str] = set()  # joint runs of the current tensor whose number of axes an attribute gives
        self.cut: set[str] = set()  # attributes that have been converted to positions

    def write(self) -> tuple[Statement, ...]:
        op = self.op
        for attribute in op.attributes:
            name = attribute.name or ""
            if attribute.type == "bool":
                self.add("truth", name=name, symbol=symbol_of(attribute))
            elif attribute.dtype_of:
                self.add("dtype_word", name=name, default=self.default_dtype(attribute))
            elif attribute.type == "string":
                self.parse(attribute)
        for tensor in op.inputs:
            if tensor.joined:
                self.add("several", name=tensor.name)
        stated = {str(a.dtype_of): a.name for a in op.attributes if a.dtype_of}
        self.add("step_dtypes", stated=stated)
        for attribute in op.attributes:
            if attribute.type in ("s64", "f32"):
                self.parse(attribute)
            elif attribute.per:
                self.add("list", name=attribute.name, function="reals" if attribute.type == "f32[]" else "integers")
        if op.spatial_rank.max == 0 or not self.vectors - op.runs:
            self.add("fixed_rank", rank=0)
        elif not tells_rank(op):
            self.add("fixed_rank", rank=op.spatial_rank.min)
            self.counted.add("")
            self.spatial_lists()
        for step in plan(op):
            if isinstance(step, Bind):
                self.bind(step)
            elif isinstance(step, Join):
                self.join(step)
            elif isinstance(step, Extent):
                self.step_extent(step)
            elif isinstance(step, Compute):
                self.compute(step)
            elif isinstance(step, Check):
                self.check(step)
            elif isinstance(step, Stated):
                attribute = step.attribute
                self.add("stated", name=attribute.name, symbol=step.symbol, whole=step.whole, keeps=attribute.keeps)
                self.counted.add(step.symbol)
        self.lists()
        for tensor in op.inputs:
            if tensor.when is not None:
                condition = python(tensor.when.tree, self.vectors)
                self.add("presence", name=tensor.name, when=condition, say=tensor.when.text, optional=tensor.optional)
        self.formulas()
        self.reaches()
        self.numbers()
        for tensor in op.outputs:
            self.output(tensor)
        self.summed()
        return tuple(self.statements)

    def default_dtype(self, attribute: Attribute) -> str:
        """The data type of the output if neither the attribute nor `out` gives one, as Python."""
        inputs = {tensor.name for tensor in self.op.inputs}
        if attribute.default in inputs:
            return f"_axes.dtype_of({attribute.default})"
        return repr(str(attribute.default)) if attribute.default else "None"

    # Positions of axes.

    def kinds(self, tensor: Tensor) -> dict[str, str]:
        return {axis: kind_of_extent(self.op, extent.tree) for axis, extent in tensor.dims.items()}

    def run_of(self, tree: Expr) -> str:
        return next(iter(expr.loose_names(tree) & self.op.runs))

    def counts(self, tensor: Tensor, unknown: str = "") -> dict[str, str]:
        """The number of axes that each axis of a tensor stands for, as Python."""
        found = {}
        for axis, kind in self.kinds(tensor).items():
            if kind in ("run", "ones"):
                symbol = self.run_of(tensor.dims[axis].tree)
                found[axis] = unknown if axis == unknown else f"{symbol}_n_"
            else:
                symbol = self.lackable(tensor, axis)
                found[axis] = "rank" if kind == "spatial" else f"{symbol}_n_" if symbol else "1"
        return found

    def left_out(self, tensor: Tensor, axis: str) -> bool:
        """Whether some word of the layout leaves out an axis."""
        return tensor.layout is not None and any(axis not in row for row in self.op.layouts[tensor.layout].values())

    def lackable(self, tensor: Tensor, axis: str) -> str:
        """The size of an axis that the array may omit; '' if it may not."""
        tree = tensor.dims[axis].tree
        return tree.id if axis in tensor.may_lack and isinstance(tree, Name) else ""

    def is_vector_axis(self, tree: Expr) -> bool:
        return bool(expr.loose_names(tree) & self.vectors)

    def joint(self, tensor: Tensor) -> list[str]:
        """The runs of a tensor that inputs broadcast to: only this array determines their number of axes here."""
        sizes = {step.symbol for step in plan(self.op) if isinstance(step, Join)}
        kinds, axes = self.kinds(tensor), tensor.dims if tensor in self.op.inputs else ()
        return [axis for axis in axes if kinds[axis] == "run" and self.run_of(tensor.dims[axis].tree) in sizes]

    def bind(self, step: Bind) -> None:
        tensor = step.tensor
        absent = not step.stated and (tensor.optional or tensor.when is not None)
        was_counted = "" in self.counted
        body = self._sub(lambda: self.bound(step))
        self.add("guarded" if absent else "plain", name=tensor.name, body=body)
        if "" in self.counted and not was_counted:
            self.spatial_lists()

    def spatial_lists(self) -> None:
        for attribute in self.op.attributes:
            if attribute.type in ("s64[]", "f32[]") and has_symbol(attribute):
                self.parse(attribute)

    def _sub(self, make: Any) -> tuple[Statement, ...]:
        """The statements that `make` adds."""
        before, self.statements = self.statements, []
        make()
        made, self.statements = tuple(self.statements), before
        return made

    def bound(self, step: Bind) -> None:
        tensor = step.tensor
        self.stated = set()
        self.locate(tensor)
        kinds, joint = self.kinds(tensor), self.joint(tensor)
        unknown = [
            axis
            for axis, kind in kinds.items()
            if kind in ("run", "ones") and (axis in joint or self.run_of(tensor.dims[axis].tree) not in self.counted)
            if axis not in self.stated
        ]
        unknown += [axis for axis, kind in kinds.items() if kind == "spatial" and "" not in self.counted]
        if len(unknown) > 1:
            message = f"no call determines how many axes {' and '.join(unknown)} of '{tensor.name}' have"
            hint = "an attribute with `locates` can give the position of one of them"
            raise SpecInvalid([Problem(tensor.at, "run-ambiguous", f"{message}; {hint}")])
        counts = self.counts(tensor)
        for axis in (axis for axis in counts if axis not in unknown and self.left_out(tensor, axis)):
            counts[axis] = f'({counts[axis]} if "{axis}" in {self.order(tensor)} else 0)'
        for axis in joint:
            counts[axis] = f"{tensor.name}_{axis}_n_"
        minimum = self.op.spatial_rank.min if any(kinds[axis] == "spatial" for axis in unknown) else 0
        fixed = self.lacked(tensor, {axis: count for axis, count in counts.items() if axis not in unknown}, minimum)
        if step.stated:
            giver = next(attribute for attribute in self.op.attributes if attribute.shape_of == tensor.name)
            if unknown:
                message = f"no input determines how many axes {' and '.join(unknown)} of '{tensor.name}' have"
                raise SpecInvalid([Problem(giver.at, "run-ambiguous", message)])
            self.add("stated_shape", name=tensor.name, giver=giver.name, count=fixed)
        elif not unknown:
            self.add("axes_count", name=tensor.name, count=fixed)
        elif kinds[unknown[0]] == "spatial":
            span = self.op.spatial_rank
            self.add("step_rank", name=tensor.name, fixed=fixed, min=span.min, max=span.max)
            self.counted.add("")
        else:
            self.add("rest", name=tensor.name, count=counts[unknown[0]], fixed=fixed)
            if unknown[0] not in joint:
                self.counted.add(self.run_of(tensor.dims[unknown[0]].tree))
        self.places(tensor, counts)
        self.learn(step)

    def lacked(self, tensor: Tensor, counts: dict[str, str], minimum: int) -> str:
        """The number of axes besides a run, as Python, and whether an optional one is present.

        `minimum` is the minimum number of axes of the run.
        """
        first = [axis for axis in tensor.may_lack if self.lackable(tensor, axis) not in self.counted]
        for axis in first:
            fixed = [*(count for other, count in counts.items() if other != axis), *([str(minimum)] if minimum else [])]
            others = " + ".join(fixed) or "0"
            self.add("present", name=tensor.name, count=counts[axis], fixed=others)
            self.counted.add(self.lackable(tensor, axis))
        return " + ".join(counts.values()) or "0"

    def locate(self, tensor: Tensor) -> None:
        """The attributes that describe this tensor's axes, if it is the first with them."""
        lists: list[str | None] = []
        for attribute in self.op.attributes:
            role = attribute.locates
            if role is None or attribute.name in self.cut:
                continue
            symbol = self.op.dims[role].symbol
            axes = [axis for axis, extent in tensor.dims.items() if extent.tree == Name(symbol)]
            if not axes:
                continue
            self.cut.add(attribute.name or "")
            if is_places(attribute):
                name = attribute.name
                self.add("positions", name=name, tensor=tensor.name, count=f"{symbol}_n_", others=tuple(lists))
                lists.append(name)
                self.counted.add(symbol)
                continue
            self.locate_one(tensor, attribute, axes[0], bool(self.op.dims[role].run))

    def locate_one(self, tensor: Tensor, attribute: Attribute, axis: str, run: bool) -> None:
        if tensor.layout is not None:
            message = f"'{attribute.name}' counts axes of '{tensor.name}', which must therefore have no layout"
            raise SpecInvalid([Problem(attribute.at, "locates", message)])
        order = list(tensor.dims)
        joint = self.joint(tensor)
        counts = self.counts(tensor) | {a: f"{tensor.name}_{a}_n_" for a in joint}
        first = order[: order.index(axis)]
        kinds = self.kinds(tensor)
        runs = [a for a in first if kinds[a] == "run"]
        unknown = [a for a in runs if a in joint or self.run_of(tensor.dims[a].tree) not in self.counted]
        if len(unknown) > 1 or any(kinds[a] == "spatial" for a in first):
            message = (
                f"more than one run precedes axis {axis} of '{tensor.name}', so '{attribute.name}' determines none"
            )
            raise SpecInvalid([Problem(attribute.at, "locates", message)])
        fixed = " + ".join(counts[a] for a in first if a not in unknown) or "0"
        self.add("position", name=attribute.name, tensor=tensor.name, end=run)
        if unknown:
            self.add("before", name=attribute.name, count=counts[unknown[0]], fixed=fixed)
            if unknown[0] in joint:
                self.stated.add(unknown[0])
            else:
                self.counted.add(self.run_of(tensor.dims[unknown[0]].tree))
        else:
            self.add("agrees", name=attribute.name, expected=fixed)

    def spots(self, tensor: Tensor) -> dict[str, str]:
        """The axes whose positions a list gives."""
        found = {}
        for attribute in self.op.attributes:
            if is_places(attribute) and self.has_axes_of_first(tensor, attribute):
                symbol = self.op.dims[attribute.locates or ""].symbol
                for axis, extent in tensor.dims.items():
                    if extent.tree in (Name(symbol), Call("ones", (Name(symbol),))):
                        found[axis] = f"{attribute.name}_at_"
        return found

    def has_axes_of_first(self, tensor: Tensor, attribute: Attribute) -> bool:
        """Whether a list places axes of a tensor: it has those of the first input with that run."""
        run = Name(self.op.dims[attribute.locates or ""].symbol)
        first = next((t for t in self.op.data_inputs if any(e.tree == run for e in t.dims.values())), tensor)
        return sorted(map(_whole_extent, tensor.dims.values())) == sorted(map(_whole_extent, first.dims.values()))

    def order(self, tensor: Tensor) -> str:
        if tensor.layout is None:
            return _tuple(f'"{axis}"' for axis in tensor.dims)
        attribute = self.op.attribute(tensor.layout)
        word = f'"true" if {attribute.name} else "false"' if attribute.type == "bool" else tensor.layout
        return f'LAYOUTS["{tensor.layout}"][{word}]'

    def places(self, tensor: Tensor, counts: dict[str, str]) -> None:
        self.stand(tensor, counts)
        if tensor.joined:
            self.add("concatenated", name=tensor.name, axis=tensor.joined)
        vectors = [axis for axis, kind in self.kinds(tensor).items() if kind != "one"]
        self.add("split", name=tensor.name, vectors=_tuple(f'"{axis}"' for axis in vectors))

    def stand(self, tensor: Tensor, counts: dict[str, str]) -> None:
        """The positions of a tensor's axes: in order, or as a list orders them."""
        self.add("places", name=tensor.name, order=self.order(tensor), counts=counts, spots=self.spots(tensor))
        for attribute in self.op.attributes:
            if attribute.order_of == tensor.name:
                self.add("ordered", name=attribute.name, tensor=tensor.name)

    def learn(self, step: Bind) -> None:
        """The sizes that the extents of a tensor determine, and the extents that it must have."""
        found = step.arrangements[0].axes
        solved = {axis.unknown for axis in found}
        before, after = dict[str, str](), dict[str, str]()
        for axis in found:
            if axis.known:
                known = after if expr.names(axis.extent.tree) & solved else before
                known[axis.axis] = self.print(axis.extent.tree, self.is_vector_axis(axis.extent.tree))
        if before:
            self.add("fits", name=step.tensor.name, known=before)
        for axis in found:
            if not axis.known:
                factor = self.print(axis.factor) if axis.factor is not None else ""
                fields = {"symbol": axis.unknown, "axis": axis.axis, "inverse": axis.inverse, "factor": factor}
                self.add("learned", name=step.tensor.name, **fields)
        if after:
            self.add("fits", name=step.tensor.name, known=after)

    def join(self, step: Join) -> None:
        if all(tensor.optional or tensor.when is not None for tensor, _, _ in step.axes):
            message = f"only optional inputs determine the size {step.symbol}, but calls may omit them all"
            raise SpecInvalid([Problem(step.axes[0][0].at, "extent-optional", message)])
        parts = []
        for tensor, axis, stretches in step.axes:
            condition = str(stretches)
            if stretches and tensor.broadcast_if:
                (name, word), *_ = tensor.broadcast_if.items()
                condition = f'{name} == "{word}"'
            axes = f"{tensor.name}_axes_"
            extent = f'{axes}.get("{axis}")' if self.left_out(tensor, axis) else f'{axes}["{axis}"]'
            absent = tensor.optional or tensor.when is not None
            parts.append((tensor.name, f"None if {tensor.name} is None else {extent}" if absent else extent, condition))
        self.add("broadcast_extent", symbol=step.symbol, parts=parts, run=step.symbol in self.op.runs)
        if step.symbol in self.op.runs:
            self.counted.add(step.symbol)

    def step_extent(self, step: Extent) -> None:
        if not step.dim.run or step.dim.min:
            self.extent(step)

    def lists(self) -> None:
        for attribute in self.op.attributes:
            if attribute.per:
                self.add("per", name=attribute.name, extent=attribute.per)
            for role, size in (attribute.blocks or {}).items():
                symbol = Name(self.op.dims[role].symbol)
                found = ((t.name, axis) for t in self.op.inputs for axis, e in t.dims.items() if e.tree == symbol)
                tensor, axis = next(found)
                fields = {"name": attribute.name, "tensor": tensor, "axis": axis}
                self.add("blocks", **fields, extent=self.print(size.tree))

    # Indices, outputs.

    def formulas(self) -> None:
        """Computed extents of outputs and letters: non-negative and without remainder."""
        extents = [extent for tensor in self.op.outputs if tensor.when is None for extent in tensor.dims.values()]
        trees = {extent.tree: extent.text for extent in (*extents, *self.op.semantics.ranges.values())}
        sizes = {dim.symbol for dim in self.op.dims.values()}
        for tree, text in trees.items():
            plain = isinstance(tree, (Name, Number)) and not expr.names(tree) - sizes
            if not plain and not expr.names(tree) & self.op.runs:
                self.add("not_negative", value=self.print(tree, self.is_vector_axis(tree)), say=text)

    def output(self, tensor: Tensor) -> None:
        self.stand(tensor, self.counts(tensor))
        extents = {axis: self.print(e.tree, self.is_vector_axis(e.tree)) for axis, e in tensor.dims.items()}
        self.add("shaped", name=tensor.name, extents=extents)
        if tensor.broadcast_as is not None:
            given = self.op.tensor(tensor.broadcast_as)
            self.add("shaped_as", name=tensor.name, input=given.name, absent=_absent(given))

    def summed(self) -> None:
        """The parts of sizes along which outputs are summed, and their positions in every tensor."""
        sizes = summed_sizes(self.op)
        for symbol, inputs in sizes.items():
            stretched = []
            for given in inputs:
                axis = next(axis for axis in given.broadcast if symbol_of_extent(given.dims[axis]) == symbol)
                extent = f'{given.name}_axes_["{axis}"]'
                stretched.append(f"None if {given.name} is None else {extent}" if _absent(given) else extent)
            parts = tuple(enumerate(part_names(symbol, len(inputs))))
            self.add("stretched", symbol=symbol, extents=stretched, parts=parts)
        for tensor in self.op.tensors:
            axes = {axis: symbol_of_extent(extent) for axis, extent in tensor.dims.items()}
            marks = {axis: (symbol, 2 ** len(sizes[symbol])) for axis, symbol in axes.items() if symbol in sizes}
            if marks:
                self.add("parted", name=tensor.name, marks=marks, absent=tensor in self.op.inputs and _absent(tensor))


def _absent(tensor: Tensor) -> bool:
    """Whether a call may omit an input."""
    return tensor.optional or tensor.when is not None


def _whole_extent(extent: Located) -> str:
    """The extent of an axis; for an axis of ones, that of its run."""
    return extent.text.removeprefix("ones(").removesuffix(")") if isinstance(extent.tree, Call) else extent.text


def _tuple(parts: Iterable[str]) -> str:
    found = list(parts)
    return f"({found[0]},)" if len(found) == 1 else f"({', '.join(found)})"
