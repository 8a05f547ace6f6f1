"""The places in the spec that errors and explanations of the generated package refer to.

In: an operation. Out: rules and named values to file:line, and the sentences of values without another name.
"""

from __future__ import annotations

from ..language.model import Op
from ..language.source import Mark
from ..language.types import symbol_of
from .python_module import named_values
from .python_signature import parameter_name


def _summaries(op: Op) -> dict[str, str]:
    """The descriptions of values without another name; prose, so it appears in no module."""
    named = named_values(op)
    return {symbol: let.summary for symbol, let in op.lets.items() if let.summary and named[symbol] == symbol}


def provenance(op: Op) -> dict[str, dict[str, str]]:
    """Rules and named values to file:line, and the descriptions of named values."""

    def place(mark: Mark) -> str:
        return f"{mark.file}:{mark.line}"

    rules: dict[str, str] = {
        "dtypes": place(op.at.key("dtypes")),
        "spatial-rank": place(op.at.key("spatial_rank")),
        "overflow": place(op.at.key("shape")),
        "memory": place(op.at.key("outputs")),
        "inexact-division": place(op.at.key("constraints")),
        "index-overflow": place(op.semantics.at),
        "negative-extent": place(op.semantics.at),
    }
    for attribute in op.attributes:
        for suffix in ("missing", "kind", "int64", "length", "range", "value"):
            rules[f"{attribute.name}-{suffix}"] = place(attribute.at)
    for tensor in (*op.inputs, *op.outputs):
        for suffix in ("missing", "kind", "int64", "length", "range", "rank", "shape", "shape-missing", "unwanted"):
            rules.setdefault(f"{tensor.name}-{suffix}", place(tensor.at))
            rules.setdefault(f"{parameter_name(tensor)}-{suffix}", place(tensor.at))
    for role, dim in op.dims.items():
        rules[f"{role.replace('_', '-')}-extent"] = place(dim.at)
    for constraint in op.constraints:
        rules[constraint.id or ""] = place(constraint.at)
    values = {dim.symbol: place(dim.at) for dim in op.dims.values()}
    values |= {symbol_of(a): place(a.at) for a in op.attributes}
    values |= {symbol: place(let.at) for symbol, let in op.lets.items()}
    values["classes"] = place(op.at.key("classes"))
    return {"rules": rules, "values": values, "summaries": _summaries(op)}


def briefly(op: Op) -> dict[str, object]:
    """The same with the operation's own file told once, and left out of its places."""
    found = provenance(op)
    own = {
        part: {name: at.removeprefix(op.at.file) for name, at in found[part].items()} for part in ("rules", "values")
    }
    return {"file": op.at.file, **own, "summaries": found["summaries"]}
