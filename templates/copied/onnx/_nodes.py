"""A node of an ONNX model as a call of this package: what the specs say under `onnx`.

In: a node, its opset, and its inputs. Out: its outputs, or why no operation here computes it. What `nodes.json` holds
is printed from the specs; nothing here knows an operation.
"""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import numpy as np
import onnx

PACKAGE: Any = importlib.import_module(__name__.split(".onnx.")[0])
Term = tuple["float | None", str, str, "list[Any]", str, "Term | None"]
NAMES = {"ai.onnx": "", "": ""}  # ONNX's own domain, in its two spellings


class UnfitError(Exception):
    """Why an entry does not stand for a node, and how many of its conditions hold."""

    def __init__(self, why: str, held: int = 0) -> None:
        super().__init__(why)
        self.held = held


@dataclass(frozen=True)
class Entry:
    """One entry of a spec.

    A term is a number, a name, a part of its value, an index or slice of that, and its relation to another term. What
    is given is an output, the names of a factor and of what is added with a factor of its own, or the attribute in the
    sum of which it is the reciprocal root.
    """

    function: str
    node: str
    since: int
    until: int | None
    when: list[tuple[Term, list[Any]]]
    inputs: list[tuple[str, str, list[Term]]]
    attributes: list[tuple[str, str, list[Term]]]
    words: Mapping[str, Any]
    ignores: list[str]
    gives: list[tuple[int, str, str, str, str]]
    folds: bool
    inferred_shape: bool
    mirrors: Term | None

    @cached_property
    def terms(self) -> list[Term]:
        operands = [*self.inputs, *self.attributes]
        found: list[Term] = [term for _, _, alternatives in operands for term in alternatives]
        for first, wanted in self.when:
            others: list[Any] = [one for one in wanted if isinstance(one, list)]
            found += [first, *others]
        return found + [term[5] for term in found if term[5]]

    @cached_property
    def names(self) -> set[str]:
        """What the entry uses of a node."""
        given = {name for _, *names, _ in self.gives for name in names}
        bounds = {bound for term in self.terms for bound in term[3] if isinstance(bound, str)} - {"half"}
        return {term[1] for term in self.terms} | bounds | given | set(self.ignores)


@cache
def table() -> Mapping[str, tuple[Entry, ...]]:
    """The entries by the type of their nodes."""
    found: dict[str, tuple[Entry, ...]] = {}
    for fields in json.loads((Path(__file__).parent / "nodes.json").read_text(encoding="utf-8")):
        entry = Entry(**fields)
        found[entry.node] = (*found.get(entry.node, ()), entry)
    return found


@dataclass
class Call:
    """A node as the entries see it: which of them may fit, and how its inputs and attributes are called."""

    node: onnx.NodeProto
    opset: int
    entries: tuple[Entry, ...] = ()
    inputs: list[tuple[str, bool]] = field(default_factory=list)  # each with whether it takes several
    stated: dict[str, Any] = field(default_factory=dict)
    defaults: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        known = table().get(self.node.op_type, ()) if self.node.domain in NAMES else ()
        self.entries = tuple(e for e in known if e.since <= self.opset <= (e.until or self.opset))
        if not self.entries:
            return
        schema = onnx.defs.get_schema(self.node.op_type, self.opset, "")
        several = onnx.defs.OpSchema.FormalParameterOption.Variadic
        self.inputs = [(one.name, one.option == several) for one in schema.inputs]
        self.stated = {one.name: _plain(onnx.helper.get_attribute_value(one)) for one in self.node.attribute}
        for name, attribute in schema.attributes.items():
            if attribute.default_value.type:
                self.defaults[name] = _plain(onnx.helper.get_attribute_value(attribute.default_value))

    def outputs(self, values: Sequence[Any], threads: int | None = None) -> tuple[list[Any], str, str]:
        """The outputs, and the function that gave them; or none, and why: the rule that refused the call."""
        unfit, refused = UnfitError("", -1), ""
        for entry in self.entries:
            try:
                return self.computed(entry, values, threads), entry.function, ""
            except UnfitError as reason:
                unfit = max(unfit, reason, key=lambda one: one.held)
            except PACKAGE.SpecError as refusal:
                if refusal.rule == "memory":
                    raise MemoryError from None
                refused = refused or f"{entry.function} refuses it by its rule {refusal.rule}"
        return [], "", refused or str(unfit) or "no operation stands for it"

    def computed(self, entry: Entry, values: Sequence[Any], threads: int | None) -> list[Any]:
        if len(self.node.output) > len(entry.gives) and any(list(self.node.output)[len(entry.gives) :]):
            raise UnfitError(f"{entry.function} gives {len(entry.gives)} of the outputs that are asked for")
        given = self.given(values)
        if entry.folds and len(values) == 1:
            return [np.copy(values[0])]
        if entry.folds and len(values) > 2:
            return self.computed(entry, [*self.computed(entry, values[:2], threads), *values[2:]], threads)
        for held, (term, wanted) in enumerate(entry.when):
            value = value_of(term, given)
            others = [one if isinstance(one, str) else spelled(value_of(one, given)) for one in wanted]
            if not any(_is(value, other) for other in others):
                raise UnfitError(f"{_named(term)} is {spelled(value)[:40]}, not {' or '.join(others)[:60]}", held)
        self.complete(entry, given)
        back = tuple(value_of(entry.mirrors, given)) if entry.mirrors else ()
        inputs = [_converted(name, kind, _first(terms, kind, given), back) for name, kind, terms in entry.inputs]
        attributes = dict(entry.words)
        for name, kind, terms in entry.attributes:
            value = _first(terms, kind, given)
            if value is not None:
                attributes[name] = _converted(name, kind, value)
        named = dict(zip((name for name, _, _ in entry.inputs), inputs))
        found = _function(entry.function)(**named, **attributes, threads=threads)
        found = [np.flip(one, back) for one in (found if isinstance(found, tuple) else (found,))]
        outputs = []
        for at, *names, rooted in entry.gives[: len(self.node.output)]:
            if rooted:
                outputs.append(1 / np.sqrt(found[at] + np.float32(attributes[rooted])))
            else:
                outputs.append(_scaled(found[at], *(given.get(name) for name in names)))
        return self.shaped(outputs, values) if entry.inferred_shape else outputs

    def shaped(self, outputs: Sequence[Any], values: Sequence[Any]) -> list[Any]:
        """The outputs as ONNX infers them: with its axes of one cell, and up to its extents. UnfitError if none fit."""
        types = {
            name: onnx.helper.make_tensor_type_proto(onnx.helper.np_dtype_to_tensor_dtype(value.dtype), value.shape)
            for name, value in zip(self.node.input, values)
            if value is not None
        }
        schema = onnx.defs.get_schema(self.node.op_type, self.opset, "")
        opsets = [onnx.helper.make_opsetid("", self.opset)]
        try:
            inferred = onnx.shape_inference.infer_node_outputs(schema, self.node, types, opset_imports=opsets)
        except onnx.shape_inference.InferenceError:
            raise UnfitError("ONNX infers no shape") from None
        found = []
        for name, output in zip(self.node.output, outputs):
            extents = [axis.dim_value for axis in inferred[name].tensor_type.shape.dim] if name else output.shape
            if [one for one in extents if one != 1] == [one for one in output.shape if one != 1]:
                output = output.reshape(extents)
            if len(extents) != output.ndim or any(here > there for here, there in zip(extents, output.shape)):
                raise UnfitError(f"ONNX infers the shape {extents}, not {list(output.shape)}")
            found.append(output[tuple(map(slice, extents))])
        return found

    def given(self, values: Sequence[Any]) -> dict[str, Any]:
        """What the node gives by the names of its schema: attributes, defaults, and inputs."""
        found = {**self.defaults, **self.stated}
        for at, (name, several) in enumerate(self.inputs):
            if several:  # the last of a schema
                found[name] = list(values[at:])
            elif at < len(values) and values[at] is not None:
                found[name] = values[at]
        return found

    def complete(self, entry: Entry, given: Mapping[str, Any]) -> None:
        """Refuse a node that says more than the entry takes: an attribute of its own, or one more input."""
        for name, value in self.stated.items():
            if name not in entry.names and (name not in self.defaults or self.defaults[name] != value):
                raise UnfitError(f"{entry.function} does not take {name}", len(entry.when))
        for name, several in self.inputs:
            if name in given and name not in entry.names and not (several and not given[name]):
                raise UnfitError(f"{entry.function} does not take {name}", len(entry.when))
            if several:
                taken = [term[3] for term in entry.terms if term[1] == name and term[2] == ""]
                if [] not in taken and len(given[name]) != len(taken):
                    raise UnfitError(
                        f"{entry.function} takes {len(taken)} of {name}, not {len(given[name])}", len(entry.when)
                    )


@cache
def _function(name: str) -> Callable[..., Any]:
    found: Callable[..., Any] = getattr(PACKAGE, name)
    return found


def _plain(value: Any) -> Any:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value


def spelled(value: Any) -> str:
    """How a spec writes a plain value; a list of the same number throughout, as that number; none without any."""
    if value is None or isinstance(value, (bool, str)):
        return str(value).lower() if not isinstance(value, str) else value
    if isinstance(value, (list, np.ndarray)):
        cells = [spelled(cell) for cell in np.ravel(value).tolist()]
        return cells[0] if len(set(cells)) == 1 else " ".join(cells) or "none"
    if not isinstance(value, (int, float, np.number)):
        return str(value)
    return str(int(value)) if value == np.trunc(value) and np.isfinite(value) else f"{value:g}"


def value_of(term: Term, given: Mapping[str, Any]) -> Any:
    """The value of a term; None where the node does not give it."""
    number, name, part, cut, relation, more = term
    if not name:
        return number
    value = given.get(name)
    if value is None:
        return None
    if part == "dtype":
        return value.dtype.name
    if part:
        value = list(range(value.ndim)) if part == "axes" else list(value.shape)
    if cut:
        value = _cut(value, [given.get(bound, bound) if isinstance(bound, str) else bound for bound in cut])
    if more:
        other = value_of(more, given)
        return _aligned(value, other) if relation == "like" else _cellwise(value, relation, other)
    return value if number is None else [number] * len(value)


def _cellwise(value: Any, relation: str, other: Any) -> Any:
    """A product or quotient, cell by cell; None where the cells do not match."""
    if value is None or other is None or np.shape(value) != np.shape(other):
        return None
    if relation == "*":
        return np.multiply(value, other, dtype=np.float64)
    return np.divide(value, other, dtype=np.float64) if np.all(other) else None


def _scaled(value: Any, factor: Any, added: Any, weight: Any) -> Any:
    """`value * factor + added * weight`, rounded once; of these what there is. UnfitError where that is stretched."""
    if added is None and factor in (None, 1):
        return value
    wide = value.astype(np.float32) * np.float32(1 if factor is None else factor)
    if added is not None:
        wide = wide + added.astype(np.float32) * np.float32(1 if weight is None else weight)
    if wide.shape != value.shape:
        raise UnfitError("what is added has more cells than the result")
    return wide.astype(value.dtype)


def _aligned(value: Any, other: Any) -> Any:
    """With axes of one cell in front, as many as the other has."""
    lacking = 0 if other is None else np.ndim(other) - np.ndim(value)
    return np.reshape(value, (1,) * lacking + np.shape(value)) if lacking > 0 else value


def _integers(value: Any) -> bool:
    """Whether all cells are integers, or above one by no more than an f32 rounds: their floors are what is meant."""
    return value is not None and bool(np.all(np.mod(value, 1) <= np.abs(value) * 2.0**-23))


def _is(value: Any, wanted: str) -> bool:
    """Whether a value is what a condition says: a text, `integers`, or `> 1` of all cells."""
    if wanted == "integers":
        return _integers(value)
    if wanted.startswith("> "):
        return value is not None and bool(np.all(np.greater(value, int(wanted[2:]))))
    return spelled(value) == wanted


def _named(term: Term) -> str:
    name = ".".join(filter(None, term[1:3]))
    return f"{name} {term[4]} {_named(term[5])}" if term[5] else name


def _cut(value: Any, cut: Sequence[Any]) -> Any:
    bounds = [len(value) // 2 if bound == "half" else bound for bound in cut]
    try:
        return value[bounds[0]] if len(bounds) == 1 else value[slice(*bounds)]
    except (IndexError, TypeError):  # beyond the end, or a bound that the node does not give
        return None


def _first(terms: Sequence[Term], kind: str, given: Mapping[str, Any]) -> Any:
    """The first alternative that is there; a list without entries only if no other is."""
    found = [value for term in terms if (value := value_of(term, given)) is not None]
    full = [value for value in found if not (kind.endswith("[]") and np.size(value) == 0)]
    return next(iter([*full, *found]), None)


def _converted(name: str, kind: str, value: Any, back: tuple[int, ...] = ()) -> Any:
    """A value as an argument of the package, mirrored along axes. UnfitError where it is not of its kind."""
    if kind in ("tensor", "tensors"):
        value = np.asarray(value) if isinstance(value, np.generic) else value
        return np.flip(value, back) if back else value
    try:
        if kind.endswith("[]"):
            if np.ndim(value) > 1:
                raise UnfitError(f"{name} takes a list of numbers")
            return [_KINDS[kind[:-2]](one) for one in np.ravel(value).tolist()]
        return _KINDS[kind](value.item() if isinstance(value, np.ndarray) else value)
    except ValueError:
        raise UnfitError(f"{name} takes one number") from None


_KINDS: Mapping[str, Callable[[Any], Any]] = {"s64": int, "f32": float, "bool": bool, "string": str}
