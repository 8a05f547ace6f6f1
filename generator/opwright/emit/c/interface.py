"""The C interface of an operation: the struct of a call, the functions, and the tables that drive its kernels.

In: an operation. Out: a view for the templates of templates/interface. The members of the struct of a call and their
order are the contract with C callers: `arguments` is its only owner, which the review reads, too.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...derive.narrow import dtype_of
from ...derive.phases import staged
from ...derive.rewrites.as_steps import as_steps
from ...derive.rewrites.fitting import SUFFIX, fitting
from ...derive.rewrites.parted import parted
from ...derive.sizes import size_fields
from ...derive.variants import ISAS, row_name
from ...language.dtypes import DTYPES
from ...language.library import Library
from ...language.model import Attribute, Op
from ...language.source import Problem, SpecInvalid
from ...memo import memoised
from .. import provenance, python_module, python_signature, render
from ..nodes import Declare, Expr, Member, Name, Stmt, call, integer
from ..steps import files
from ..steps.contraction import ContractionView
from .expressions import ARGUMENTS, Value
from .resolve import Resolve, pruned

# The C type of an attribute, and its kind of value; a list with `per` is a list of entries.
_TYPES = {
    "s64": ("int64_t", "int"),
    "f32": ("double", "real"),
    "bool": ("bool", "bool"),
    "string": ("const char *", "word"),
    "s64[]": ("opwright_list", "list"),
    "f32[]": ("opwright_reals", "list of reals"),
}
_ROLES = {"input": "INPUT", "list": "LISTED", "output": "WRITTEN"}


@dataclass(frozen=True)
class Argument:
    """A member of the struct of a call, and its default."""

    name: str
    c_type: str
    role: str  # input, attribute, output
    default: str
    summary: str
    optional: bool = False
    states_shape: bool = False
    joined: str = ""  # of a list of tensors, the axis along which they are joined

    @property
    def declared(self) -> str:
        return f"{self.c_type}{'' if self.c_type.endswith('*') else ' '}{self.name}"


@dataclass(frozen=True)
class FieldView:
    name: str
    kind: str
    of: str
    axis: str
    length: int
    neutral: int


@dataclass(frozen=True)
class StemView:
    """Kernels by instruction set; NULL if there is none."""

    row: int
    words: tuple[str, ...]
    group: str
    kernels: tuple[str, ...]
    scratch: tuple[str, ...]


@dataclass(frozen=True)
class Interface:
    """One operation for C callers."""

    op: Op
    arguments: tuple[Argument, ...]
    wrapper: Any
    statements: tuple[Stmt, ...]
    fields: tuple[FieldView, ...]
    stems: tuple[StemView, ...]
    layouts: tuple[str, ...]
    absent: Mapping[str, tuple[int, ...]]
    defaults: Mapping[str, tuple[str, ...]]  # of lists with an entry per value of a size
    # parameters of each row's kernels: C type, name, whether read-only
    parameters: tuple[tuple[tuple[str, str, bool], ...], ...]
    provenance: Mapping[str, Mapping[str, str]]
    fitting: Interface | None  # of calls whose sizes fit

    @property
    def called(self) -> str:
        """The operation whose calls it takes."""
        return self.op.function.removesuffix(SUFFIX)

    @property
    def inputs(self) -> tuple[Argument, ...]:
        return tuple(argument for argument in self.arguments if argument.role == "input")

    @property
    def outputs(self) -> tuple[Argument, ...]:
        return tuple(argument for argument in self.arguments if argument.role == "output")

    @property
    def rows(self) -> tuple[tuple[str, ...], ...]:
        """For each row the data types of the inputs, then of the outputs."""
        names = [t.name for t in (*self.op.inputs, *self.op.outputs)]
        return tuple(tuple(row[name].upper() for name in names) for row in self.op.dtypes)

    @property
    def integers(self) -> str:
        arrays = getattr(self.wrapper, "arrays", ())  # operations of one `reduce` have none between steps
        return "true" if any(array.dtype for array in arrays if array.role == "between") else "false"

    @property
    def accumulate(self) -> tuple[str, ...]:
        return tuple(row["accumulate"].upper() for row in self.op.dtypes)

    def narrow(self, product: ContractionView) -> tuple[tuple[str, ...], ...]:
        """Of both operands, their data type in each row if they are between steps and narrow."""
        found = staged(parted(self.op)).program
        return tuple(
            tuple(dtype_of(self.op, row, found.arrays[name], found).upper() for row in self.op.dtypes)
            if name in found.narrow
            else ()
            for name, _ in (product.left, product.right)
        )

    def sizes_between(self, name: str) -> tuple[int, ...]:
        """The bytes of an element of an array between steps, by row."""
        found = staged(parted(self.op)).program
        return tuple(DTYPES[dtype_of(self.op, row, found.arrays[name], found)].size for row in self.op.dtypes)

    def bits(self, numbers: Sequence[int]) -> int:
        """A number of 64 bits, of which these are set."""
        return sum(1 << number for number in numbers)

    @property
    def arrays(self) -> tuple[Any, ...]:
        """The arrays that kernels of steps take."""
        return tuple(array for array in self.wrapper.arrays if array.role != "between")

    @property
    def pieces(self) -> tuple[str, str] | None:
        """The joined axis and its size, if the arrays of the only joined input are processed one after the other."""
        (found, *others) = self.wrapper.joined.values() or [("", "")]
        return found if found[1] and not others else None

    @property
    def roles(self) -> Mapping[str, str]:
        return _ROLES


@memoised
def arguments(op: Op) -> tuple[Argument, ...]:
    """The members of the struct of a call, in their order: inputs, attributes, outputs."""
    found = []
    for tensor in op.inputs:
        name = python_signature.parameter_name(tensor)
        optional = tensor.optional or tensor.when is not None
        c_type = "opwright_tensors" if tensor.joined else "const opwright_tensor *"
        default = "{NULL, 0}" if tensor.joined else "NULL"
        more = (optional, tensor.shape_of is not None, tensor.joined or "")
        found.append(Argument(name, c_type, "input", default, tensor.summary or "", *more))
    for attribute in op.attributes:
        c_type = _TYPES[attribute.type or ""][0]
        found.append(Argument(attribute.name or "", c_type, "attribute", _default(attribute), attribute.summary or ""))
    for tensor in op.outputs:
        summary, absent = tensor.summary or "", tensor.when is not None
        found.append(Argument(tensor.name, "const opwright_tensor *", "output", "NULL", summary, absent))
    return tuple(found)


def _default(attribute: Attribute) -> str:
    """The default of an attribute; empty for a required one."""
    kind, default = attribute.type or "", attribute.default
    missing = attribute.required or default is None or bool(attribute.dtype_of)
    if kind in ("s64[]", "f32[]"):
        return "{NULL, 0}"
    if kind == "string":
        return "NULL" if missing else f'"{default}"'
    if kind == "bool":
        return "false" if missing else str(default)
    return "0" if missing else str(default)


# The limits of templates/interface: tensors of a call, axes of a tensor, words, names of sizes.
LIMITS = {"tensors": 12, "axes of a tensor": 12, "words": 8, "sizes": 40}
# Names of the header that functions of operations must not use: opwright_<name>.
HEADER_NAMES = frozenset("dtype error list memory reals run shape team team_function tensor tensors".split())
CPP_WORDS = frozenset(
    "and and_eq bitand bitor catch class compl concept const_cast decltype delete dynamic_cast explicit export friend "
    "module mutable namespace new noexcept not not_eq operator or or_eq private protected public reinterpret_cast "
    "requires static_assert static_cast template this throw try typeid typename using virtual xor xor_eq".split()
)


def _refused(op: Op) -> str:
    """Why an operation cannot have a C interface; '' if it can."""
    words = sum(attribute.type in ("string", "bool") for attribute in op.attributes)
    sizes = len(op.dims) + len(op.lets) + len(op.attributes)
    axes = max((len(tensor.dims) for tensor in op.tensors), default=0)
    counts = (max(len(op.inputs), len(op.outputs)), axes, words, sizes)
    for (what, maximum), count in zip(LIMITS.items(), counts, strict=True):
        if count > maximum:
            return f"it has {count} {what}, but the C interface allows at most {maximum}"
    if op.function in HEADER_NAMES:
        return f"opwright_{op.function} is another name in its header; rename the function with `function`"
    bad = next((argument.name for argument in arguments(op) if argument.name in CPP_WORDS), "")
    return f"{bad!r} is a reserved word of C++, and its header must compile as C++" if bad else ""


def interface(op: Op, library: Library, env: Any) -> Interface:
    """The view of an operation. Raises SpecInvalid if it or one of its rules has no translation to C."""
    made = as_steps(op)
    refused = _refused(made)
    if refused:
        raise SpecInvalid([Problem(op.at, "c-interface", refused)])
    wrapper: Any = files.step_wrapper(made) if made.stepped else python_module.wrapper(op)
    return Interface(
        op=made,
        arguments=arguments(made),
        wrapper=wrapper,
        statements=_resolve(made, library, env),
        fields=_step_fields(wrapper) if made.stepped else _plain_fields(op),
        stems=_step_stems(made) if made.stepped else _plain_stems(op),
        layouts=() if made.stepped else tuple(op.layout_attributes),
        absent=_absent(made) if made.stepped else {},
        defaults={a.name or "": _entries(a) for a in made.attributes if _entries(a)},
        parameters=_step_parameters(made) if made.stepped else (),
        provenance=provenance.provenance(made),
        fitting=interface(fits, library, env) if (fits := fitting(made)) else None,
    )


def _entries(attribute: Attribute) -> tuple[str, ...]:
    """The default of a list, if it is the same for every call."""
    default = str(attribute.default or "[]").strip("[]")
    same = (attribute.type or "").endswith("[]") and not attribute.required and attribute.length != "spatial"
    return tuple(entry.strip() for entry in default.split(",")) if same and default else ()


def _resolve(op: Op, library: Library, env: Any) -> tuple[Stmt, ...]:
    """The rules of a call, as the operation's Python module has them."""
    text = render.texts({"module": render.of_op(op, library)[f"_{op.function}.py"]}, env)["module"]
    tree = next(n for n in ast.parse(text).body if isinstance(n, ast.FunctionDef) and n.name == "resolve")
    made = Resolve(op.op, op.at, outputs=tuple(tensor.name for tensor in op.outputs))
    made.stated = {a.name or "": str(a.dtype_of) for a in op.attributes if a.dtype_of}
    made.axes = {tensor.name: tuple(tensor.dims) for tensor in op.tensors}
    first: list[Stmt] = []
    members: dict[str, Expr] = {}
    for number, tensor in enumerate(op.inputs):
        name = python_signature.parameter_name(tensor)
        seen = call("opw_input", Name("opw"), integer(number))
        first.append(Declare(f"*{name}", seen, "opw_seen "))
        made.names[name] = Value(made.fresh(name), "seen")
        members[name] = Member(ARGUMENTS, name)
    made.tensors = members
    for attribute in op.attributes:
        name = attribute.name or ""
        node: Expr = Member(ARGUMENTS, name)
        if _entries(attribute):
            kind = "reals" if attribute.type == "f32[]" else "list"
            node = call(f"opw_{kind}_or", node, Name(f"DEFAULT_{name}"))
        made.names[name] = Value(node, _TYPES[attribute.type or ""][1])
    return pruned((*first, *made.written(tree)))


# Tables.


def _plain_fields(op: Op) -> tuple[FieldView, ...]:
    return tuple(FieldView(f.name, "VALUE", f.name, "", f.length, f.neutral) for f in size_fields(op))


def _step_fields(wrapper: Any) -> tuple[FieldView, ...]:
    def kind(member: Any) -> str:
        return "REAL" if member.c_type == "double" else str(member.kind.upper())

    return tuple(FieldView(f.name, kind(f), f.of, f.axis, f.length, f.neutral) for f in wrapper.fields)


def _guarded(op: Op, row: dict[str, str], name: Callable[[str], str], group: str = "") -> tuple[str, ...]:
    """A function for each instruction set that is compiled in."""
    found = []
    for isa in ISAS:
        guard = f"OPWRIGHT_ON_{isa.name.upper()}({name(isa.name)})"
        found.append(guard if isa.serves(op, row, group) else "NULL")
    return tuple(found)


def _plain_stems(op: Op) -> tuple[StemView, ...]:
    rows = {row_name(op, row): number for number, row in enumerate(op.dtypes)}
    views = []
    for stem in render.unit(op).stems:
        row = op.dtypes[rows[stem.dtype]]
        kernels = _guarded(op, row, lambda isa, name=stem.name: f"{name}_{isa}", stem.group)  # type: ignore[misc]
        scratch = _guarded(op, row, lambda isa, name=stem.name: f"{name}_{isa}_scratch", stem.group)  # type: ignore[misc]
        views.append(StemView(rows[stem.dtype], stem.words, stem.group, kernels, ("NULL", *scratch[1:])))
    return tuple(views)


def _step_stems(op: Op) -> tuple[StemView, ...]:
    views = []
    for number, row in enumerate(op.dtypes):
        name = f"{op.function}_{row_name(op, row)}"
        kernels = _guarded(op, row, lambda isa, name=name: f"{name}_{isa}")  # type: ignore[misc]
        views.append(StemView(number, (), "", kernels, ("NULL",) * len(ISAS)))
    return tuple(views)


def _step_parameters(op: Op) -> tuple[tuple[tuple[str, str, bool], ...], ...]:
    kernels = files.step_unit(op).kernels
    return tuple(tuple((p.c_type, p.name, p.reads) for p in kernel.parameters) for kernel in kernels)


def _absent(op: Op) -> dict[str, tuple[int, ...]]:
    """For each input and row, the bits of the element that it reads as where a call omits it."""
    import ml_dtypes  # registers its types with NumPy by name

    found = {}
    for tensor in op.inputs:
        bits = []
        for row in op.dtypes:
            name = DTYPES[row[tensor.name]].numpy
            dtype = np.dtype(getattr(ml_dtypes, name, None) or name)
            raw = np.full((), float(tensor.absent or 0), dtype).tobytes()
            bits.append(int.from_bytes(raw, "little"))
        found[tensor.name] = tuple(bits)
    return found
