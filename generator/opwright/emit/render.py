"""From a library of operations to the texts of the generated package: path to content, nothing written.

In: a Library and the folder of templates. Out: a dict from relative path to text, in a fixed order. The environment
is strict: an undefined name is an error, and spec text is always escaped by a filter.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import jinja2
from jinja2.bccache import Bucket

from ..derive import signature
from ..derive.rewrites.as_steps import as_steps
from ..derive.sizes import SizeField, size_fields
from ..derive.variants import ISAS, PORTABLE, Variant, expand, row_name
from ..language import hashing
from ..language.dtypes import DTYPES
from ..language.library import Library
from ..language.model import Op
from ..language.source import Prose
from ..language.surface import CLASSES, FUNCTIONS, HANDED_ON, INNER
from ..memo import memoised
from ..project import CARRIED, TEMPLATE_SUFFIXES
from . import escape, prose, provenance, python_module, python_signature, reference, split_prose, tiles, wrap
from .entries import EntryFile, entries, entry_files, fast_isas
from .kernels import Kernel, kernel
from .links import links
from .onnx_table import onnx_table
from .output import Head, Output
from .printer import c
from .shared import COPIED, RENDERED, copied

SPLITS = "SHARDING.json"
PRINTED = ("c", "python", "docs")  # the folders of templates of a package


@dataclass(frozen=True)
class Unit:
    """The C files of one operation: its reference kernels, and the entries of its fast ones."""

    op: Op
    sizes_type: str
    sizes: tuple[SizeField, ...]
    signatures: tuple[signature.Signature, ...]
    entries: tuple[EntryFile, ...]
    dtypes: tuple[str, ...]
    fast: tuple[str, ...]  # dtype rows with entries
    rows: tuple[signature.RowTypes, ...]
    scratch: signature.Prototype
    fixed: signature.Prototype
    stems: tuple[signature.Stem, ...]

    @property
    def kernels(self) -> tuple[Kernel, ...]:
        """The reference kernels; lowered on first access, because a header needs only their signatures."""
        return tuple(map(kernel, _portable(self.op)))


def environment(templates: Path, kind: type[jinja2.Environment] = jinja2.Environment) -> jinja2.Environment:
    env = kind(
        loader=jinja2.FileSystemLoader(templates),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        auto_reload=False,
        bytecode_cache=_Compiled(),
    )
    env.filters |= {**escape.FILTERS, "c": c, "part": part, "uncommented": uncommented}
    return env


def part(text: str, names: Iterable[str]) -> str:
    """The filter around the text of kernels, or of declarations, of these names: a reader of parts collects them."""
    return text


def uncommented(text: str) -> str:
    """C without the lines that only comment on it."""
    return "".join(line for line in text.splitlines(keepends=True) if not line.lstrip().startswith("//"))


def _portable(op: Op) -> Iterator[Variant]:
    return (variant for variant in expand(op) if variant.isa == PORTABLE)


@memoised
def unit(op: Op) -> Unit:
    """The view of an operation's kernels."""
    dtypes = tuple(row_name(op, row) for row in op.dtypes)
    made = tuple(found for row in op.dtypes for found in entry_files(op, row))
    fast = tuple(dict.fromkeys(found.dtype for found in made))
    return Unit(
        op=op,
        sizes_type=signature.sizes_type(op),
        sizes=size_fields(op),
        signatures=tuple(map(signature.signature, _portable(op))),
        entries=made,
        dtypes=dtypes,
        fast=fast,
        rows=tuple(signature.row_types(op, row, fast=row_name(op, row) in fast) for row in op.dtypes),
        scratch=signature.scratch(op),
        fixed=signature.fixed(op),
        stems=signature.stems(op),
    )


Codes = dict[str, tuple[str, bytes]]

_CODES: Codes = {}  # of every template that this process has compiled, with the checksum of its text, by its place


class _Compiled(jinja2.BytecodeCache):
    """What this process has compiled serves every environment: 47 templates take 0.6 s (Intel Xeon, Python 3.11)."""

    def load_bytecode(self, bucket: Bucket) -> None:
        checksum, code = _CODES.get(bucket.key, ("", b""))
        if checksum == bucket.checksum:
            bucket.bytecode_from_string(code)

    def dump_bytecode(self, bucket: Bucket) -> None:
        _CODES[bucket.key] = bucket.checksum, bucket.bytecode_to_string()


def compiled(env: jinja2.Environment) -> Codes:
    """Load all templates of a package; their code, which another process may then have, too."""
    for name in env.list_templates(extensions=["j2"]):
        if name.split("/")[0] in PRINTED:
            env.get_template(name)
    return _CODES


def prepare(env: jinja2.Environment, library: Library, codes: Codes) -> None:
    """Load the templates and import the modules that a library needs, so that forked processes share them."""
    _CODES.update(codes)
    compiled(env)
    if any(op.stepped for op in library.ops):
        _steps()


def render(
    library: Library,
    templates: Path,
    spec_folder: str,
    env: jinja2.Environment | None = None,
) -> dict[str, str]:
    """Every file of the generated package except the manifest; pass `env` to reuse compiled templates."""
    return texts(outputs(library, templates, spec_folder), env or environment(templates))


def texts(files: Mapping[str, Output], env: jinja2.Environment) -> dict[str, str]:
    """The files as they are written."""
    return {
        path: tidy(path, output.text(env)) if output.rendered else output.text(env)
        for path, output in sorted(files.items())
    }


def outputs(library: Library, templates: Path, spec_folder: str) -> dict[str, Output]:
    """The same files, not yet rendered: a view is made on first use, and memoised with its operation."""
    files = of_library(library, templates, spec_folder)
    for op in library.every:
        files |= of_op(op, library)
    return files


def of_library(library: Library, templates: Path, spec_folder: str) -> dict[str, Output]:
    """The files that all operations share."""
    ops = library.ops

    def made(some: Iterable[Op] = ops) -> Iterator[Op]:
        return map(as_steps, some)

    head = Head(Prose(spec_folder))
    files = {"py.typed": Output("", lambda: {"text": ""})}
    files["__init__.py"] = Output(
        RENDERED["__init__.py"],
        lambda: {
            "head": head,
            "ops": ops,
            "gradients": library.gradients,
            "imports": _imports(),
            "exports": _exports(ops),
        },
    )
    files["__init__.pyi"] = Output(
        RENDERED["__init__.pyi"], lambda: _stub(head, map(python_signature.function, made()))
    )
    for name, path in copied(templates).items():
        files[name] = Output(f"{COPIED}/{name}", functools.partial(_copied, path, name))
    files |= tiles.files()
    files["_dtypes.py"] = Output(RENDERED["_dtypes.py"], lambda: {"head": head, "dtypes": tuple(DTYPES.values())})
    files["_isa.py"] = Output(RENDERED["_isa.py"], lambda: {"head": head, "isas": ISAS})
    files["include/opwright_kernels.h"] = Output(
        RENDERED["include/opwright_kernels.h"],
        lambda: {
            "head": head,
            "headers": [signature.header(op) for op in ops],
            "steps": any(op.stepped for op in made()),
        },
    )
    if any(op.stepped for op in made()):
        files["include/opwright_rows.h"] = _steps().rows(head)
    files["include/opwright_numeric.h"] = Output(RENDERED["include/opwright_numeric.h"], lambda: {"head": head})
    files["docs/API.md"] = Output(RENDERED["docs/API.md"], lambda: {"head": head, "ops": ops, "isas": ISAS})
    files["PROVENANCE.json"] = Output(
        "", lambda: {"text": _json({op.function: provenance.briefly(op) for op in made(library.every)})}
    )
    files["onnx/nodes.json"] = Output("", lambda: {"text": _json(onnx_table(ops))})
    entry = split_prose.entry
    files[SPLITS] = Output("", lambda: {"text": split_prose.as_json({op.function: entry(op) for op in library.every})})
    return files


def of_op(op: Op, library: Library) -> dict[str, Output]:
    """The files of one operation; a gradient for autograd has no page."""
    files: dict[str, Output] = _steps().files(op, library) if as_steps(op).stepped else _of_reduce(op, library)
    if op in library.gradients:
        del files[f"docs/{op.function}.md"]
    return files


def _steps() -> ModuleType:
    """The emitter of operations of steps: many modules, not imported for a package without them."""
    from .steps import files as step_files

    return step_files


def _of_reduce(op: Op, library: Library) -> dict[str, Output]:
    """The files of an operation of one `reduce`."""

    def head(*more: Any) -> Head:
        return Head(Prose(op.at.file), *more)

    def module() -> dict[str, Any]:
        texts = {"docstring": Prose(prose.docstring(op)), "deprecation": prose.deprecation(op)}
        return {"head": head(), "w": python_module.wrapper(op), "unit": unit(op), "links": links(op), **texts}

    def page() -> dict[str, Any]:
        return {"head": head(), "page": reference.page(op, python_module.wrapper(op), unit(op).kernels, library.pages)}

    def kernels(row: dict[str, str]) -> dict[str, Any]:
        lines = tuple(Prose(escape.c_comment_line(line)) for line in prose.unit_head(op, row, unit(op).sizes))
        semantic = head(Prose(hashing.shown_hash(op)), lines, signature.header(op))
        return {"head": semantic, "kernels": [k for k in unit(op).kernels if k.variant.row is row]}

    def fast(path: str) -> dict[str, Any]:
        found = entries(op, next(file for file in unit(op).entries if file.path == path))
        lines = tuple(Prose(escape.c_comment_line(line)) for line in prose.entries_head(op, found))
        return {"head": head(Prose(hashing.shown_hash(op)), lines, signature.header(op)), "e": found}

    files = {
        signature.header_path(op): Output("c/header.h.j2", lambda: {"head": head(), "unit": unit(op)}),
        f"_{op.function}.py": Output("python/op.py.j2", module),
        f"docs/{op.function}.md": Output("docs/op.md.j2", page),
    }
    for row in op.dtypes:
        dtype = row_name(op, row)
        files[signature.reference_path(op, dtype)] = Output("c/unit.c.j2", functools.partial(kernels, row))
        if fast_isas(op, row):
            for group in op.classes or (None,):
                path = signature.entries_path(op, dtype, group)
                files[path] = Output("c/entries.c.j2", functools.partial(fast, path))
    return files


def _copied(path: Path, name: str) -> dict[str, Any]:
    sign = "#" if path.suffix == ".py" else "//"
    line = f"{sign} Code generated by opwright from templates/{COPIED}/{name}. DO NOT EDIT.\n"
    return {"text": line + path.read_text(encoding="utf-8")}


def _stub(head: Head, given: Iterable[python_signature.Function]) -> dict[str, Any]:
    functions = [*given]
    lists = any("Integers" in function.imports for function in functions)
    return {"head": head, "functions": functions, "lists": lists, "handed_on": HANDED_ON}


def _json(value: Any) -> str:
    return json.dumps(value, indent=1, sort_keys=True) + "\n"


def _imports() -> list[str]:
    """The imports of re-exported names, by module."""
    modules = {module: sorted({*names, *INNER.get(module, ())}) for module, names in HANDED_ON.items()}
    return [_import(module, names) for module, names in sorted(modules.items())]


def _import(module: str, names: list[str]) -> str:
    line = f"from .{module} import {', '.join(names)}"
    if len(line) <= wrap.WIDTH:
        return line
    return "\n".join([f"from .{module} import (", *(f"    {name}," for name in names), ")"])


def _exports(ops: Iterable[Op]) -> list[str]:
    """The public names: classes, then functions."""
    return [*CLASSES, *sorted([*FUNCTIONS, *(op.function for op in ops)])]


def tidy(path: str, text: str) -> str:
    """No trailing blanks, at most two empty lines in a row, one newline at the end; long Python lines wrapped."""
    lines = [line for _, line in numbered(path, text)]
    return "\n".join(lines) + "\n" if lines else ""


def numbered(path: str, text: str) -> list[tuple[int, str]]:
    """The tidy lines, each with its line number in `text`."""
    pieces = wrap.wrap_lines(text) if path.endswith((".py", ".pyi")) else enumerate(text.split("\n"), start=1)
    lines: list[tuple[int, str]] = []
    empty = 2  # lines in a row, of which none stands at the beginning
    for number, line in pieces:
        line = line.rstrip()
        empty = 0 if line else empty + 1
        if empty <= 2:
            lines.append((number, line))
    while lines and not lines[-1][1]:
        lines.pop()
    return lines


@dataclass(frozen=True)
class Record:
    """The manifest's entry of an operation: its hashes, and its files with their kernels."""

    hashes: dict[str, Any]
    files: dict[str, list[str]]


def record(op: Op) -> Record:
    files: dict[str, list[str]] = {f"docs/{op.function}.md": []}
    for program in _steps().programs(op) if as_steps(op).stepped else (op,):
        files |= {f"_{program.function}.py": [], signature.header_path(program): []}
        for made in signature.signatures(program):
            files.setdefault(made.path, []).append(made.name)
    hashes = {"revision": op.revision, "semantic": hashing.semantic_hash(op), "full": hashing.full_hash(op)}
    return Record(hashes, files)


def manifest(files: dict[str, str], records: Mapping[str, Record], templates: Path, generator: Path) -> str:
    """MANIFEST.json: the sources of each output, and its hash; `records` by name of operation."""
    owners = {path: op for op, made in records.items() for path in made.files}
    variants = {path: names for made in records.values() for path, names in made.files.items()}
    outputs = {
        path: {"op": owners.get(path), "variants": variants.get(path, []), "sha256": hashing.text_hash(text)}
        for path, text in sorted(files.items())
    }
    whole = {
        "ops": {op: made.hashes for op, made in records.items()},
        "templates": hashing.folder_hash(templates, TEMPLATE_SUFFIXES),
        "generator": hashing.folder_hash(generator, (".py",), CARRIED.name),
        "outputs": outputs,
    }
    return _json(whole)
