"""`opwright explain`: what a call would do, from its text, without data."""

from __future__ import annotations

import argparse
import dataclasses
import importlib
import inspect
import json
from collections.abc import Mapping
from typing import Any

import numpy as np
from rich.console import Console

from ..calls import call_text
from ..calls.call_text import CallText, each_part
from ..calls.package import TENSOR_DTYPES, function_of, kernels, refusals
from ..console import console, say, table
from ..errors import UsageError
from ..language.source import suggestion
from ..project import Project
from . import options as shared

EXAMPLE = (
    "opwright explain 'conv_transpose(src f32[1,4,4,8], weights f32[2,2,8,8], strides=[1,1], pads_begin=[0,0],"
    " pads_end=[0,0], dilations=[1,1])'   # or a name, with --input src=f32[1,4,4,8] and --set strides=[1,1]"
)


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("call", metavar="CALL", nargs="?", help="an operation's name, or a complete call as text")
    parser.add_argument("--schedules", action="store_true", help="print the table that schedules kernels of steps")
    parser.add_argument("--sharding", action="store_true", help="how the operation CALL may be split, and why not")
    parser.add_argument(
        "--input", action="append", default=[], metavar="NAME=DTYPE[...]", help="an input, such as src=f32[1,8,8,16]"
    )
    parser.add_argument(
        "--set", action="append", default=[], metavar="NAME=VALUE", help="an attribute, such as strides=[1,1]"
    )
    shared.as_json(parser)
    shared.folders(parser)


def run(options: argparse.Namespace) -> int:
    if options.schedules:
        return schedules(kernels(shared.project(options)), options.json, console())
    if options.call is None:
        raise UsageError("explain takes a CALL or --schedules")
    if options.sharding:
        return sharding(shared.project(options), options.call, options.json, console())
    call = call_text.parse(options.call) if "(" in options.call else CallText(options.call)
    for argument in (*options.input, *options.set):
        call.add(*call_text.parse_argument(argument))
    project = shared.project(options)
    package = kernels(project)
    found = explanation(package, call)
    ties = {"gradient": gradient_of(project, found.op), "pytorch": stands_for(package, found.op)}
    if options.json:
        print(as_json(found, ties))
    else:
        show(found, ties, console())
    return 0


def schedules(package: Any, json_form: bool, out: Console) -> int:
    """Every row of the tables: a letter of a phase, and consecutive phases, use the first row whose condition holds."""
    tables = importlib.import_module(f"{package.__name__}._schedules")
    rows = [
        {"name": row.name, "when": row.when, "then": row.then, "figure": row.figure}
        for row in (*tables.SCHEDULES, *tables.BLOCKS)
    ]
    if json_form:
        print(json.dumps(rows, indent=2))
        return 0
    for row in rows:
        say(out, f"{row['name']}: where {row['when']}")
        say(out, f"    {row['then']}")
        say(out, f"    chosen by {row['figure']}")
    return 0


def sharding(project: Project, name: str, json_form: bool, out: Console) -> int:
    """The table of splits of an operation: what a part of each letter's values takes, changes and gives."""
    from ..derive.splitting.table import table as splits
    from ..emit.split_prose import lines
    from ..load import load

    ops = {known: op for op in load(project.spec, project.root).ops for known in (op.op, op.function)}
    if name not in ops:
        raise UsageError(f"there is no operation '{name}'{suggestion(name, ops)}")
    op = ops[name]
    if json_form:
        print(json.dumps([split.data() for split in splits(op)], indent=2))
        return 0
    for letter, sentence in lines(op):
        say(out, f"{letter}: {sentence}")
    if not lines(op):
        say(out, f"{op.op} may not be split: no letter runs over a size that is the extent of an axis")
    return 0


def gradient_of(project: Project, name: str) -> str:
    """The gradients of an operation, or whether one can be derived, or why not; '' without specs."""
    from ..gradients import COMMAND, why_none
    from ..load import load

    if not project.spec.is_dir():
        return ""
    library = load(project.spec, project.root)
    op = next((op for op in library.ops if op.op == name), None)
    if op is None:
        return ""
    claimed = [relation.gradient or relation.adjoint for relation in op.relations]
    claimed += [other.op for other in library.ops if any(r.gradient_of == name for r in other.relations)]
    if names := ", ".join(dict.fromkeys(filter(None, claimed))):
        return names
    reason = why_none(op)
    return f"none follows: {reason}" if reason else f"derived by: {COMMAND} {name}"


def stands_for(package: Any, name: str) -> str:
    """The operators of PyTorch that an operation stands for, with their conditions; '' if there are none."""
    operation = next(found for found in package._OPERATIONS.values() if name in (found.name, found.function))
    return "; ".join(
        entry.name + "".join(f", {argument} {value}" for argument, value in entry.when.items())
        for entry in operation.torch
    )


def explanation(package: Any, call: CallText) -> Any:
    """The package's Explanation of a call. A list passed for an input becomes a vector of int32."""
    function = function_of(package, call.function)
    parameters = inspect.signature(getattr(package, function)).parameters.values()
    inputs = {parameter.name for parameter in parameters if parameter.kind is parameter.POSITIONAL_OR_KEYWORD}
    arguments: dict[str, Any] = {
        name: each_part(given, lambda tensor: package.TensorSpec(tensor.shape, TENSOR_DTYPES[tensor.dtype]))
        for name, given in call.tensors.items()
    }
    for name, value in call.values.items():
        arguments[name] = _int32(name, value) if name in inputs and isinstance(value, list) else value
    unnamed = [arguments.pop(place) for place in sorted(filter(str.isdigit, arguments), key=int)]
    with refusals(package):
        try:
            return package.explain(function, *unnamed, **arguments)
        except package.SpecError:
            raise
        except TypeError as error:  # a missing or unknown argument
            raise UsageError(str(error)) from None


def _int32(name: str, value: list[int] | list[float]) -> np.ndarray[Any, Any]:
    try:
        return np.array(value, np.int32)
    except OverflowError:
        raise UsageError(f"{name}: its entries must fit into 32 bits, not {value}") from None


def as_json(found: Any, ties: Mapping[str, str]) -> str:
    return json.dumps({**dataclasses.asdict(found), **ties}, indent=2)


def show(found: Any, ties: Mapping[str, str], out: Console) -> None:
    """Tables on a terminal, the lines of `str` in a pipe."""
    if not out.is_terminal:
        say(out, str(found))
        for title, text in ties.items():
            if text:
                say(out, f"{title}: {text}")
        return
    variant = found.variant
    head = [("result", found.result), ("kernel", variant.name)]
    head += [("because", reason) for reason in found.why]
    head += [("threads", str(found.threads)), ("scratch memory", f"{found.scratch_bytes} bytes")]
    head += [("sizes", found.specialization)]
    head += [*found.schedules]
    head += [(title, text) for title, text in ties.items() if text]
    head += [("copied first", "; ".join(found.copies) or "nothing")]
    table(out, found.op, ("", ""), head)
    table(out, "rejected kernels", ("kernels", "because"), found.rejected)
    table(out, "what the spec derives from the call", ("", "value", "stated at"), found.steps)
