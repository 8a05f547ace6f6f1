"""What generated artefacts of two sides tell apart: signatures of Python, tables of PyTorch and ONNX, ways to split,
structs of C. Read off rendered texts, so that nothing here knows the review.

In: the libraries of both sides. Out: for each operation of both, what callers of an artefact lose or see changed, and
whether that is a break or another meaning.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator, Mapping
from typing import Any

from opwright.derive.signature import header_path
from opwright.emit import links, render
from opwright.emit.c import interface as c_interface
from opwright.language.library import Library
from opwright.language.model import Op
from opwright.project import find

from . import c_header
from .reviewing import FOLDER

OWN = ("out", "threads", "specialize")


def broken(before: Library, after: Library) -> Iterator[tuple[str, str, str]]:
    """An operation, the least contract that a review has to say, and why."""
    sides = [_texts(library) for library in (before, after)]
    olds, news = ({op.op: op for op in library.every} for library in (before, after))
    for name in sorted(olds.keys() & news.keys()):
        old, new = olds[name], news[name]
        if old in before.ops and new in after.ops:
            for why in _signatures(_function(sides[0], old), _function(sides[1], new)):
                yield name, "breaking", why
        for key in ("onnx", "split", "torch"):
            was, now = (side[key].get(op.function) for side, op in zip(sides, (old, new), strict=True))
            if was != now:
                yield name, key, f"{key}: {_first(was, now)}"
        was_members, now_members = _members(old), _members(new)
        if not {*was_members} <= {*now_members}:
            yield name, "breaking", f"C: {was_members} became {now_members}"
        elif was_members != now_members:
            yield name, "dangerous", f"C: {was_members} became {now_members}"
        was_kernels, now_kernels = (c_header.declarations(_header(side, op)) for side, op in zip(sides, (old, new)))
        if gone := was_kernels.keys() - now_kernels.keys():
            yield name, "kernels", f"kernels: {sorted(gone)[:3]} are not declared"
        for symbol in was_kernels.keys() & now_kernels.keys():
            if was_kernels[symbol] != now_kernels[symbol]:
                yield name, "header", f"kernels: {symbol}: {_first(was_kernels[symbol], now_kernels[symbol])}"
                break


def _first(was: Any, now: Any) -> str:
    """Where two tables begin to differ."""
    one, other = (json.dumps(side, sort_keys=True) for side in (was, now))
    at = next((n for n, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), 0)
    return f"...{one[max(at - 60, 0) : at + 60]} became ...{other[max(at - 60, 0) : at + 60]}"


def _texts(library: Library) -> dict[str, Any]:
    """The artefacts that operations share, each by function."""
    outputs = render.of_library(library, find().templates, FOLDER)
    env = render.environment(find().templates)
    nodes: dict[str, list[Any]] = {}
    for node in json.loads(outputs["onnx/nodes.json"].text(env)):
        node["attributes"] = sorted(node["attributes"], key=str)  # they are passed by name
        nodes.setdefault(node["function"], []).append(node)
    tree = ast.parse(outputs["__init__.pyi"].text(env))
    stubs = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
    shards = json.loads(outputs["SHARDING.json"].text(env))
    torch = {op.function: _linked(op) for op in library.every}
    headers = {op.function: render.of_op(op, library)[header_path(op)].text(env) for op in library.every}
    return {
        "headers": headers,
        "onnx": nodes,
        "stubs": stubs,
        "split": {name: _ways(found) for name, found in shards.items()},
        "torch": torch,
    }


def _linked(op: Op) -> Any:
    """What PyTorch is told of an operation, its own operators in any order."""
    found = links.links(op)
    entries = [(one.kind, one.op, one.of, one.tensors, one.words) for one in found.relations]
    calls = [(one.aten, one.when, one.arguments, one.words, one.gives or 0) for one in found.torch]
    return sorted(map(_ordered, entries)), sorted(map(_ordered, calls))


def _ordered(value: Any) -> str:
    return json.dumps([dict(part) if isinstance(part, Mapping) else part for part in value], sort_keys=True)


def _ways(table: Mapping[str, Any]) -> list[str]:
    """The ways to split, without the letters of formulas."""
    return sorted(
        json.dumps(
            {key: item for key, item in split.items() if key in ("kind", "joins", "when", "attributes")}, sort_keys=True
        )
        for split in table["splits"]
        if split["kind"] != "whole"  # which says of a size that there is no way
    )


def _header(side: Mapping[str, Any], op: Op) -> str:
    return str(side["headers"][op.function])


def _function(side: Mapping[str, Any], op: Op) -> ast.FunctionDef:
    found = side["stubs"][op.function]
    assert isinstance(found, ast.FunctionDef)
    return found


def _signatures(old: ast.FunctionDef, new: ast.FunctionDef) -> Iterator[str]:
    """What calls by the old signature the new one refuses, or takes otherwise."""
    if old.name != new.name:
        yield f"{old.name} is called {new.name}"
    positional = [[arg.arg for arg in side.args.args] for side in (old, new)]
    if positional[1][: len(positional[0])] != positional[0]:
        yield f"positions {positional[0]} became {positional[1]}"
    parameters = [_parameters(side) for side in (old, new)]
    for name, default in parameters[0].items():
        if name not in parameters[1]:
            yield f"{name} is no parameter"
        elif default is not None and default != parameters[1][name] and not _same(default, parameters[1][name]):
            yield f"{name} = {default} became {parameters[1][name]}"
    for name, default in parameters[1].items():
        if name not in parameters[0] and default is None:
            yield f"{name} is needed"
    kinds = [_annotations(side) for side in (old, new)]  # which schemas of PyTorch's operators are made of
    for name in kinds[0].keys() & kinds[1].keys():
        if kinds[1][name] not in (kinds[0][name], f"{kinds[0][name]} | None"):
            yield f"{name} is {kinds[0][name]}, then {kinds[1][name]}"
    returned = [ast.unparse(side.returns) if side.returns else "" for side in (old, new)]
    if returned[0] != returned[1]:
        yield f"returns {returned[0]}, then {returned[1]}"


def _same(was: str, now: str | None) -> bool:
    """2 and (2,) are one default."""
    values = [ast.literal_eval(side) if side else None for side in (was, now)]
    one, other = (list(value) if isinstance(value, (list, tuple)) else [value] for value in values)
    return bool(one == other)


def _parameters(function: ast.FunctionDef) -> dict[str, str | None]:
    """Each parameter with its default."""
    given = function.args
    places = [None] * (len(given.args) - len(given.defaults)) + [ast.unparse(d) for d in given.defaults]
    found: dict[str, str | None] = {arg.arg: default for arg, default in zip(given.args, places, strict=True)}
    for arg, default in zip(given.kwonlyargs, given.kw_defaults, strict=True):
        found[arg.arg] = None if default is None else ast.unparse(default)
    return {name: default for name, default in found.items() if name not in OWN}


def _annotations(function: ast.FunctionDef) -> dict[str, str]:
    given = (*function.args.args, *function.args.kwonlyargs)
    return {arg.arg: ast.unparse(arg.annotation) for arg in given if arg.annotation and arg.arg not in OWN}


def _members(op: Op) -> list[str]:
    return [f"{one.declared}" for one in c_interface.arguments(op)]
