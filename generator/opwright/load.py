"""From a folder of YAML files to a `Library` of complete operations.

In: paths. Out: model.py's dataclasses, with every `use` resolved. All problems of all files are collected and raised
together. Spec text is untrusted: sizes, depths and counts are bounded, anchors, aliases, tags and several
documents in a file are refused before anything is composed, and no Python object is ever constructed from YAML.
"""

from __future__ import annotations

import dataclasses
import functools
import os
import re
from collections.abc import Iterable
from pathlib import Path, PurePosixPath
from typing import Any, TypeVar

import yaml
from yaml.reader import ReaderError

from .check.stages import check_library, check_op
from .derive.rewrites.packed import bytewise
from .derive.rewrites.stated_shapes import listed
from .language.library import Common, Library, Sources
from .language.model import Attribute, Dim, Let, Op
from .language.schema import Problems
from .language.source import Mark, Problem, SpecInvalid, suggestion
from .language.structs import Node, Struct
from .project import GRADIENTS, RECORDS

MAX_BYTES = 256 * 1024
MAX_DEPTH = 12
MAX_EVENTS = 50_000
COMMON = "_common.yaml"
SOURCES = "_sources.yaml"
SUFFIXES = (".yaml", ".yml")
FILE_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}")

KINDS: dict[str, type[Node]] = {COMMON: Common, SOURCES: Sources}
LOADED = 256  # files that are remembered: twice those of a project of a hundred operations

N = TypeVar("N", bound=Node)


def load(folder: Path, root: Path | None = None) -> Library:
    """The operations of a folder, ordered by name.

    Marks name files relative to `root` (by default the folder's grandparent), with forward slashes,
    so that no output depends on the project's location. Raises SpecInvalid with every problem found.
    """
    problems = Problems()
    return load_texts(_texts(folder, root or _root(folder), problems), problems)


def load_with_gradients(folder: Path, root: Path | None = None) -> Library:
    """The same, and the derived gradients in the subfolder of that name, which autograd calls, as `gradients`."""
    problems = Problems()
    return with_gradients(load_texts(_all_texts(folder, root or _root(folder), problems), problems))


def with_gradients(library: Library) -> Library:
    """A library whose operations from the subfolder of derived gradients are its `gradients`."""
    folders = {op: PurePosixPath(op.at.file).parent for op in library.ops}
    inner = [op for op, folder in folders.items() if folder.name == GRADIENTS and folder.parent in folders.values()]
    ops, gradients = (tuple(op for op in library.ops if (op in inner) is wanted) for wanted in (False, True))
    return dataclasses.replace(library, ops=ops, gradients=gradients)


def _root(folder: Path) -> Path:
    return folder.resolve().parent.parent


def read_folder(folder: Path, root: Path) -> dict[str, str]:
    """File names and texts of a folder of specs with its derived gradients.

    Raises SpecInvalid if one must not be read.
    """
    problems = Problems()
    texts = _all_texts(folder, root, problems)
    if problems:
        raise SpecInvalid(problems)
    return texts


def _all_texts(folder: Path, root: Path, problems: Problems) -> dict[str, str]:
    inner = folder / GRADIENTS
    derived = _texts(inner, root, problems) if inner.is_dir() and any(inner.iterdir()) else {}
    return {**_texts(folder, root, problems), **derived}


def _texts(folder: Path, root: Path, problems: Problems) -> dict[str, str]:
    try:
        paths = sorted(path for path in folder.iterdir() if path.suffix in SUFFIXES and path.name not in RECORDS)
    except OSError as error:
        raise SpecInvalid([Problem(Mark(str(folder)), "file", f"cannot read the folder: {error.strerror}")]) from None
    texts = {}
    for path in paths:
        name = _relative(path, root)
        try:
            _check_path(path, folder, name)
            texts[name] = read_text(path, name)
        except SpecInvalid as invalid:
            problems.extend(invalid.problems)
    if not any(not Path(name).name.startswith("_") for name in texts) and not problems:
        problems.note(
            Mark(_relative(folder, root)), "file", "there is no operation in this folder (it has no *.yaml file)"
        )
    return texts


def _check_path(path: Path, folder: Path, name: str) -> None:
    if not FILE_NAME.fullmatch(path.name):
        message = f"{path.name!r} is not a valid name for a spec: use letters, digits, dots, dashes and underscores"
        raise SpecInvalid([Problem(Mark(name), "file-name", message)])
    try:
        inside = path.resolve().is_relative_to(folder.resolve())
    except (OSError, RuntimeError):  # a link to itself
        inside = False
    if not inside:
        raise SpecInvalid([Problem(Mark(name), "file-link", "links out of the folder are not followed")])


def _relative(path: Path, root: Path) -> str:
    resolved = Path(os.path.abspath(path))
    base = Path(os.path.abspath(root))
    return resolved.relative_to(base).as_posix() if resolved.is_relative_to(base) else path.name


def read_text(path: Path, name: str) -> str:
    """The text of one spec file. Raises SpecInvalid if it is too large, not a regular file or not UTF-8."""
    mark = Mark(name)
    try:
        if not path.is_file():
            raise SpecInvalid([Problem(mark, "file", "this is not a regular file")])
        with path.open("rb") as stream:
            data = stream.read(MAX_BYTES + 1)
    except OSError as error:
        raise SpecInvalid([Problem(mark, "file", f"cannot be read: {error.strerror}")]) from None
    return text_of(data, name)


def text_of(data: bytes, name: str) -> str:
    """The text of a spec file from its bytes, with the checks of `read_text`."""
    if len(data) > MAX_BYTES:
        raise SpecInvalid([Problem(Mark(name), "file-size", f"a spec file has at most {MAX_BYTES} bytes")])
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        line, column = _position(data[: error.start].decode("utf-8"))
        raise SpecInvalid([Problem(Mark(name, line, column), "file-encoding", "this byte is not UTF-8")]) from None


def _position(before: str) -> tuple[int, int]:
    return before.count("\n") + 1, len(before) - before.rfind("\n")


def load_texts(texts: dict[str, str], problems: Problems | None = None) -> Library:
    """The same as `load`, from file names and texts.

    Equal files beside equal shared entries give the very same operations, so that the two sides of a review and the
    loads of `generate --watch` share what is derived from them.
    """
    problems = problems if problems is not None else Problems()
    files = sorted(texts.items())
    shared = tuple((name, text) for name, text in files if Path(name).name in KINDS)
    drafts = []
    for name, text in files:
        stem = Path(name).name
        if stem.startswith("_") and stem not in KINDS:
            problems.note(Mark(name), "file", f"a file that starts with _ is {COMMON} or {SOURCES}")
            continue
        _, found = _decoded(text, name)
        problems.extend(found)
        if stem not in KINDS and not found:
            drafts.append((name, text))
    ops = []
    for name, text in drafts:
        op, found = _operation(text, name, shared)
        problems.extend(found)
        ops.append(op)
    if not problems:
        check_library(ops, problems)
    if problems:
        raise SpecInvalid(problems)
    common, sources = _shared_entries(shared)
    return Library(tuple(sorted(ops, key=lambda op: op.op)), sources.pages, common)


@functools.lru_cache(maxsize=LOADED)
def _operation(text: str, name: str, shared: tuple[tuple[str, str], ...]) -> tuple[Op, tuple[Problem, ...]]:
    """The operation of a file that could be decoded, completed by the files of shared entries, and its problems."""
    problems = Problems()
    common, sources = _shared_entries(shared)
    draft, _ = _decoded(text, name)
    assert isinstance(draft, Op)
    op = bytewise(listed(_complete(draft, common, problems), problems), problems)
    if not problems:
        check_op(op, sources.pages, problems)
    return op, tuple(problems)


def _shared_entries(shared: tuple[tuple[str, str], ...]) -> tuple[Common, Sources]:
    """What the files _common.yaml and _sources.yaml say; one that is missing or refused says nothing."""
    common, sources = Common(), Sources()
    for name, text in shared:
        found, _ = _decoded(text, name)
        common = found if isinstance(found, Common) else common
        sources = found if isinstance(found, Sources) else sources
    return common, sources


@functools.lru_cache(maxsize=2 * LOADED)
def _decoded(text: str, name: str) -> tuple[Node | None, tuple[Problem, ...]]:
    """The root of a file, with its problems and those of shared entries among themselves."""
    problems = Problems()
    found = decode(KINDS.get(Path(name).name, Op), text, name, problems)
    if isinstance(found, Common):
        _check_common(found, problems)
    return found, tuple(problems)


def decode(cls: type[N], text: str, name: str, problems: Problems) -> N | None:
    """The root of one YAML text, or None and the problems."""
    try:
        root = _composed(text, name)
    except SpecInvalid as invalid:
        problems.extend(invalid.problems)
        return None
    except yaml.MarkedYAMLError as error:
        where = error.problem_mark or error.context_mark
        mark = Mark(name, where.line + 1, where.column + 1) if where else Mark(name)
        problems.note(mark, "yaml", f"not YAML: {error.problem or error.context}")
        return None
    except ReaderError as error:
        mark = Mark(name, *_position(text[: error.position]))
        problems.note(mark, "yaml", f"the character U+{ord(text[error.position]):04X} is not allowed in YAML")
        return None
    except (yaml.YAMLError, ValueError, OverflowError, RecursionError) as error:
        problems.note(Mark(name), "yaml", f"not YAML: {str(error).splitlines()[0][:200]}")
        return None
    if root is None:
        problems.note(Mark(name), "yaml", "the file is empty")
        return None
    result: N = Struct(cls).decode(root, name, problems)
    return result


def _composed(text: str, name: str) -> yaml.Node | None:
    """The nodes of a text, by libyaml if PyYAML has it; errors are worded by PyYAML itself."""
    try:
        loader = yaml.CSafeLoader
        _refuse_hostile(text, name, loader)
        return yaml.compose(text, Loader=loader)
    except (AttributeError, yaml.YAMLError):
        _refuse_hostile(text, name, yaml.SafeLoader)
        return yaml.compose(text, Loader=yaml.SafeLoader)


def _refuse_hostile(text: str, name: str, loader: type[yaml.SafeLoader | yaml.CSafeLoader]) -> None:
    depth = 0
    for count, event in enumerate(yaml.parse(text, Loader=loader)):
        refused = None
        if count > MAX_EVENTS:
            refused = "yaml-size", f"a spec file has at most {MAX_EVENTS} nodes"
        elif isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None):
            message = "anchors and aliases are not part of the spec language; name shared entries in _common.yaml"
            refused = "yaml-anchor", message
        elif getattr(event, "tag", None) is not None:
            refused = "yaml-tag", "tags are not part of the spec language"
        elif isinstance(event, yaml.DocumentStartEvent) and depth < 0:
            refused = "yaml-documents", "a spec file has one document"
        elif isinstance(event, yaml.DocumentEndEvent):
            depth = -MAX_DEPTH
        elif isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if depth > MAX_DEPTH:
                refused = "yaml-depth", f"nested deeper than {MAX_DEPTH} levels"
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if refused is not None:
            start = event.start_mark
            mark = Mark(name, start.line + 1, start.column + 1) if start else Mark(name)
            raise SpecInvalid([Problem(mark, *refused)])


def _check_common(common: Common, problems: Problems) -> None:
    """Shared entries are found by name, so each has a unique name and no `use`."""
    lists: tuple[tuple[str, Iterable[Node]], ...] = (
        ("name", (*common.attributes, *common.classes)),
        ("id", (*common.constraints, *common.discrepancies)),
    )
    for key, items in lists:
        seen: set[tuple[type, str]] = set()
        for item in items:
            name = getattr(item, key)
            if not name or (type(item), name) in seen:
                problems.note(item.at, "shared-name", f"a shared entry needs a {key} of its own")
            seen.add((type(item), name or ""))
    shared: tuple[Node, ...]
    shared = (*common.attributes, *common.classes, *common.constraints, *common.discrepancies, *common.let.values())
    for item in shared:
        if getattr(item, "use", None) is not None:
            problems.note(item.at, "shared-use", f"an entry of {COMMON} cannot have `use`")


def _merge(base: N, over: N) -> N:
    """`base` with every key of `over`; its mark is that of `over` if `over` changes anything."""
    empty = type(over)()
    fields = [field.name for field in dataclasses.fields(over) if field.metadata]  # type: ignore[arg-type]
    given = {name: getattr(over, name) for name in fields if getattr(over, name) != getattr(empty, name)}
    at = over.at if given.keys() - {"use"} else base.at
    at = dataclasses.replace(at, keys=(*base.at.keys, *over.at.keys))  # each key with its own place
    return dataclasses.replace(base, **given, at=at)  # type: ignore[type-var]


def _resolve(items: Iterable[N], shared: dict[str, Any], what: str, problems: Problems) -> tuple[N, ...]:
    return tuple(_resolve_one(item, shared, what, problems) for item in items)


def _resolve_one(item: N, shared: dict[str, Any], what: str, problems: Problems) -> N:
    use = getattr(item, "use", None)
    if use is None:
        return item
    if use not in shared:
        message = f"there is no shared {what} '{use}' in {COMMON}{suggestion(use, shared)}"
        problems.note(item.at, f"unknown-{what}", message)
        return item
    base: N = shared[use]
    return _merge(base, item)


def _dim(dim: Dim) -> Dim:
    """`min` of a size defaults to 1 if it is an extent per axis, and to 0 if it is a count."""
    per_axis = bool(dim.per_axis)
    return dataclasses.replace(dim, per_axis=per_axis, min=int(per_axis) if dim.min is None else dim.min)


def _complete(draft: Op, common: Common, problems: Problems) -> Op:
    """The operation with every shared entry of _common.yaml resolved."""
    dims = {role: _dim(_merge(common.dims.get(role, Dim()), dim)) for role, dim in draft.dims.items()}
    attributes: tuple[Attribute, ...] = _resolve(
        draft.attributes, {str(a.name): a for a in common.attributes}, "attribute", problems
    )

    def lets(section: dict[str, Let]) -> dict[str, Let]:
        return {symbol: _resolve_one(let, common.let, "value", problems) for symbol, let in section.items()}

    return dataclasses.replace(
        draft,
        dims=dims,
        attributes=attributes,
        layouts={**common.layouts, **draft.layouts},
        constraints=_resolve(draft.constraints, {str(c.id): c for c in common.constraints}, "constraint", problems),
        classes=_resolve(draft.classes, {str(c.name): c for c in common.classes}, "class", problems),
        discrepancies=_resolve(
            draft.discrepancies, {str(d.id): d for d in common.discrepancies}, "discrepancy", problems
        ),
        let=lets(draft.let),
        padding=lets(draft.padding),
        shape=lets(draft.shape),
    )
