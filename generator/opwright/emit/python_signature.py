"""The signature of an operation's Python function: its parameters, their types and defaults.

In: an operation. Out: strings for the templates under templates/python.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..language.model import Attribute, Op, Tensor


@dataclass(frozen=True)
class Parameter:
    """A parameter of the Python function."""

    name: str
    annotation: str
    default: str | None
    summary: str
    states_shape: bool = False

    @property
    def kind(self) -> str:
        """For an attribute: number, list (with the default None if it has one) or word."""
        return {"int": "number", "float": "number", "str": "word"}.get(self.annotation, "list")


@dataclass(frozen=True)
class Function:
    """The Python function of an operation: its parameters, and the type of `out`."""

    op: Op
    inputs: tuple[Parameter, ...]
    attributes: tuple[Parameter, ...]
    out_annotation: str

    @property
    def imports(self) -> tuple[str, ...]:
        """The types that the signature needs, in the order of linters."""
        lists = any("Integers" in parameter.annotation for parameter in self.attributes)
        return ("ArrayLike", "InputInfo", "Integers") if lists else ("ArrayLike", "InputInfo")


def parameter_name(tensor: Tensor) -> str:
    return tensor.parameter or tensor.name


def _input(tensor: Tensor) -> Parameter:
    absent = tensor.optional or tensor.when is not None
    kind = "list[ArrayLike] | tuple[ArrayLike, ...]" if tensor.joined else "ArrayLike"
    return Parameter(
        parameter_name(tensor),
        f"{kind} | None" if absent else kind,
        "None" if absent else None,
        tensor.summary or "",
        tensor.shape_of is not None,
    )


_ANNOTATIONS = {"s64": "int", "s64[]": "Integers", "string": "str", "f32": "float", "bool": "bool", "f32[]": "Any"}


def _attribute(attribute: Attribute) -> Parameter:
    kind = attribute.type or ""
    annotation = _ANNOTATIONS[kind]
    default = attribute.default
    if attribute.required:
        default = None
    elif default is None or attribute.dtype_of:
        default, annotation = "None", f"{annotation} | None"
    elif kind == "string":
        default = f'"{default}"'
    elif kind == "bool":
        default = str(default == "true")
    elif kind in ("s64[]", "f32[]"):
        spatial = attribute.length == "spatial"
        default = "None" if spatial else f"({default.strip('[]')},)" if default != "[]" else "()"
        annotation = f"{annotation} | None" if spatial else annotation
    return Parameter(attribute.name or "", annotation, default, attribute.summary or "")


def function(op: Op) -> Function:
    """The function of an operation; `out` is an array, or a tuple for several outputs."""
    return Function(
        op,
        tuple(_input(tensor) for tensor in op.inputs),
        tuple(_attribute(attribute) for attribute in op.attributes),
        "ArrayLike | None" if len(op.outputs) == 1 else "tuple[ArrayLike | None, ...] | None",
    )
