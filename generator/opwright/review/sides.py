"""The two sides of a review: the specs before and after a change.

In: the arguments of the command line: a folder, a file, `git:REF`, or nothing. Out: a Side, its texts in memory and its
library. A side is never read from generated/, and nothing is written.
"""

from __future__ import annotations

import hashlib
import io
import os
import subprocess
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath

from ..errors import UsageError
from ..generate import lower, prove_derived, prove_normal_forms
from ..language.hashing import folder_files
from ..language.library import Library
from ..language.source import Mark, Problem, SpecInvalid
from ..load import MAX_BYTES, SUFFIXES, load_texts, read_folder, read_text, text_of, with_gradients
from ..project import CARRIED, GENERATOR, GRADIENTS, RECORDS, TEMPLATE_SUFFIXES, Project, spec_folder
from .tree import same

MAIN = ("origin/main", "main", "origin/master", "master")
DRIVER_ARGUMENTS = (
    7,
    9,
)  # the arguments that git passes to an external diff: path, old file, hex, mode, new file, hex, mode


@dataclass(frozen=True)
class Side:
    """One state of a set of specs. `only` names the file under review if there is a single one."""

    name: str
    texts: Mapping[str, str]
    records: Mapping[str, str]
    only: str | None = None
    tools: Mapping[str, Mapping[str, str]] = field(default_factory=dict)  # templates and generator: file to its hash

    def library(self) -> Library:
        """The operations. Raises SideInvalid if they cannot be used."""
        try:
            if not self.texts:
                return Library((), {})
            return with_gradients(load_texts(dict(self.texts)))
        except SpecInvalid as invalid:
            raise SideInvalid(self.name, invalid) from None

    def place(self, record: str) -> str:
        """The name of a file of records, which lies in the folder above the specs."""
        return f"{next(iter(self.texts), 'spec/').partition('/')[0]}/{record}"

    def prove(self, library: Library, other: Library) -> None:
        """Refuse what `generate` would refuse: no kernels, a normal form that disagrees with the semantics,
        or a derived gradient that does not follow from its operation.

        Only operations that differ from the other side are checked, so that small edits stay fast, and an edit
        of an operation is reviewed before its gradient is derived again.
        """
        others = {op.op: op for op in other.every}
        changed = tuple(op for op in library.every if not same(others.get(op.op), op))
        try:
            lower(Library(changed, library.pages))
            prove_normal_forms(Library(changed, library.pages))
            prove_derived(library, {op.op for op in changed})
        except SpecInvalid as invalid:
            raise SideInvalid(self.name, invalid) from None


class SideInvalid(SpecInvalid):
    """A side whose specs are refused; `side` names it."""

    def __init__(self, side: str, invalid: SpecInvalid) -> None:
        super().__init__(invalid.problems)
        self.side = side


def sides(project: Project, arguments: Sequence[str], named: bool = True) -> tuple[Side, Side]:
    """BASE and HEAD as the command line names them; `named`: the command line also names the project."""
    own = len(arguments) < 2 or any(argument.startswith("git:") for argument in arguments)
    if own and not named and not Path.cwd().is_relative_to(project.root):
        raise UsageError(f"there is no spec/ with specs in {Path.cwd()} or above it; --spec names another folder")
    if len(arguments) in DRIVER_ARGUMENTS:
        path, old, new = arguments[0], arguments[1], arguments[4]
        return _swapped(project, path, old, "before"), _swapped(project, path, new, "after")
    if len(arguments) > 2:
        raise UsageError("expected at most two sides: BASE and HEAD")
    base = side(project, arguments[0]) if arguments else revision(project, merge_base(project))
    head = side(project, arguments[1]) if len(arguments) > 1 else working_tree(project)
    if base.only or head.only:  # the one file, as it stands on both sides
        name = PurePosixPath(base.only or head.only or "").name
        base, head = replace(base, only=base.only or name), replace(head, only=head.only or name)
    return base, head


def side(project: Project, argument: str) -> Side:
    """A folder, a file, or `git:REF`."""
    if argument.startswith("git:"):
        return revision(project, argument.removeprefix("git:"))
    path = Path(argument)
    if path.is_dir():
        found = spec_folder(path.resolve())
        root = next((parent.parent for parent in found.parents if parent.name == "spec"), found.parent)
        return folder(found, root, argument)
    if path.is_file():
        return _swapped(project, path.name, str(path), argument)
    raise UsageError(f"there is no folder or file {argument!r}; a commit is written git:{argument}")


def working_tree(project: Project) -> Side:
    """The specs of the working tree."""
    tools = {name: _hashed(folder_files(path, suffixes)) for name, (path, suffixes) in _tools(project).items()}
    return replace(folder(project.spec, project.root), tools=tools)


def _tools(project: Project) -> dict[str, tuple[Path, tuple[str, ...]]]:
    """The parts of the tool that are stored with the specs, and their files that affect outputs."""
    found = {"templates": (project.templates, TEMPLATE_SUFFIXES), "generator": (GENERATOR, (".py", ".j2"))}
    return {name: part for name, part in found.items() if part[0].is_relative_to(project.root)}


def _hashed(files: Mapping[PurePosixPath, bytes]) -> dict[str, str]:
    """Each file with the hash of its contents; files that a wheel carries are skipped."""
    return {
        str(name): hashlib.sha256(data).hexdigest() for name, data in files.items() if name.parts[0] != CARRIED.name
    }


def folder(spec: Path, root: Path, name: str = "the working tree") -> Side:
    """The specs of a folder, with names relative to `root`."""
    if not spec.is_dir():
        raise UsageError(f"there is no folder of specs {spec}")
    top = PurePosixPath(spec.relative_to(root).as_posix() if spec.is_relative_to(root) else spec.name).parts[0]
    records = {record: root / top / record for record in RECORDS}
    try:
        texts = read_folder(spec, root)
        return Side(name, texts, {r: read_text(path, f"{top}/{r}") for r, path in records.items() if path.is_file()})
    except SpecInvalid as invalid:
        raise SideInvalid(name, invalid) from None


def revision(project: Project, ref: str) -> Side:
    """The specs of a commit, read through git. What `generate` would refuse in a folder is refused here."""
    place = project.spec.relative_to(project.root).as_posix()
    top = PurePosixPath(place).parts[0]
    if ref.startswith("-"):
        raise UsageError(f"{ref!r} is not a commit")
    texts, records = dict[str, str](), dict[str, str]()
    with tarfile.open(fileobj=io.BytesIO(_git(project, "archive", "--format=tar", ref, top))) as archive:
        for member in archive.getmembers():
            path = PurePosixPath(member.name)
            folder = str(path.parent)
            record = path.name in RECORDS and folder == top
            if path.suffix not in SUFFIXES or not (record or folder in (place, f"{place}/{GRADIENTS}")):
                continue
            stream = archive.extractfile(member) if member.isfile() else None
            try:
                if stream is None:
                    raise SpecInvalid([Problem(Mark(member.name), "file", "this is not a regular file")])
                (records if record else texts)[path.name if record else member.name] = text_of(
                    stream.read(MAX_BYTES + 1), member.name
                )
            except SpecInvalid as invalid:
                raise SideInvalid(f"git:{ref}", invalid) from None
    return Side(f"git:{ref}", texts, records, tools=_tools_of(project, ref))


def _tools_of(project: Project, ref: str) -> dict[str, dict[str, str]]:
    """The hashes of templates and generator in a commit, where it has them."""
    hashes = {}
    for name, (path, suffixes) in _tools(project).items():
        place = path.relative_to(project.root).as_posix()
        try:
            packed = _git(project, "archive", "--format=tar", ref, place)
        except UsageError:
            continue
        with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
            members = [m for m in archive.getmembers() if m.isfile() and m.name.endswith(suffixes)]
            streams = {PurePosixPath(m.name).relative_to(place): archive.extractfile(m) for m in members}
            files = {inside: stream.read() for inside, stream in streams.items() if stream is not None}
        hashes[name] = _hashed(files)
    return hashes


def merge_base(project: Project) -> str:
    """The commit where the working tree left the main line. Raises UsageError if unknown, as in a shallow clone."""
    head = _git(project, "rev-parse", "HEAD").decode().strip()
    for main in MAIN:
        try:
            return _git(project, "merge-base", head, main).decode().strip()
        except UsageError:
            continue
    shallow = _git(project, "rev-parse", "--is-shallow-repository").decode().strip() == "true"
    why = "; the clone is shallow: `git fetch --unshallow origin main` fetches it" if shallow else ""
    raise UsageError(
        f"there is no commit to compare with: HEAD has no common ancestor with {', '.join(MAIN)}{why};"
        " or name BASE, for example git:HEAD^"
    )


def _swapped(project: Project, path: str, file: str, name: str) -> Side:
    """The project's specs with the text of one file replaced; /dev/null removes it."""
    stem = PurePosixPath(path).name
    if stem in RECORDS:
        return _recorded(project, stem, file, name)
    beside = Path(file).resolve().parent
    own = (beside / "_common.yaml").is_file()  # a file that belongs to another folder of specs
    side = folder(beside, beside.parent.parent, name) if own else folder(project.spec, project.root, name)
    texts = dict(side.texts)
    known = next((key for key in texts if PurePosixPath(key).name == stem), None)
    inner = f"{GRADIENTS}/" if PurePosixPath(path).parent.name == GRADIENTS else ""
    key = known or f"{project.spec.relative_to(project.root).as_posix()}/{inner}{stem}"
    texts.pop(key, None)
    if Path(file) != Path("/dev/null"):
        try:
            texts[key] = read_text(Path(file), key)
        except SpecInvalid as invalid:
            raise SideInvalid(name, invalid) from None
    return Side(name, texts, side.records, stem)


def _recorded(project: Project, record: str, file: str, name: str) -> Side:
    """The project's specs with the lock or the waivers replaced."""
    side = folder(project.spec, project.root, name)
    try:
        text = None if Path(file) == Path("/dev/null") else read_text(Path(file), side.place(record))
    except SpecInvalid as invalid:
        raise SideInvalid(name, invalid) from None
    others = {key: known for key, known in side.records.items() if key != record}
    return Side(name, side.texts, others if text is None else {**others, record: text}, record)


def driven(arguments: Sequence[str]) -> bool:
    """Whether git called this as its external diff; for a path with conflicts it passes the path only."""
    return len(arguments) in DRIVER_ARGUMENTS or (len(arguments) == 1 and "GIT_DIFF_PATH_COUNTER" in os.environ)


def _git(project: Project, *arguments: str) -> bytes:
    """The output of git. Raises UsageError with git's message if it fails."""
    try:
        ran = subprocess.run(["git", "-C", str(project.root), *arguments], capture_output=True, check=False)
    except FileNotFoundError:
        raise UsageError("git is not installed; name two folders instead") from None
    if ran.returncode:
        errors = ran.stderr.decode("utf-8", "replace").strip().splitlines() or ["git failed"]
        raise UsageError(f"git {arguments[0]}: {errors[-1]}")
    return ran.stdout
