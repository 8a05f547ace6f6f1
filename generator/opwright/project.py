"""The folders of a project: specs, templates, and the generated package.

They belong to the working directory, or to a parent of it, that has specs. Elsewhere they are the checkout's own, or,
if Opwright is installed from a wheel, those in the wheel.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from .errors import UsageError

GENERATOR = Path(__file__).resolve().parent
CARRIED = GENERATOR / "data"
COMMAND = "opwright generate"
PACKAGE = "opwright_kernels"  # the import name of the generated package
# The relevant files of templates/: templates, and Python and C that are copied verbatim.
TEMPLATE_SUFFIXES = (".j2", ".py", ".c", ".cpp", ".h")
# Files of spec/ that are not specs: released revisions, and waivers of a review.
RECORDS = ("LOCK.yaml", "waivers.yaml")
GRADIENTS = "gradients"  # the folder beside specs that has derived gradients


@dataclass(frozen=True)
class Project:
    """The folders that a command works on. File names in outputs are relative to `root`."""

    root: Path
    spec: Path
    templates: Path
    output: Path

    @property
    def records(self) -> Path:
        """The folder of the records of a review: `spec/`, or the folder of specs if it lies elsewhere."""
        return self.root / self.spec.relative_to(self.root).parts[0]


def checkout() -> Path | None:
    """The root of the checkout that this module runs from, if it is one."""
    root = GENERATOR.parent.parent
    return root if (root / "spec").is_dir() and (root / "templates").is_dir() else None


def own_templates() -> Path:
    """The templates of the checkout that this module runs from, else those in the wheel."""
    own = checkout()
    return own / "templates" if own else CARRIED / "templates"


def _around(here: Path) -> Path | None:
    """The nearest folder with specs, from a directory up to the root of its repository."""
    for folder in (here, *here.parents):
        if any((folder / "spec").glob("**/*.yaml")):
            return folder
        if (folder / ".git").exists():
            return None
    return None


def find(spec: Path | None = None, templates: Path | None = None, output: Path | None = None) -> Project:
    """The project of a command: from its options, else from the working directory, else the checkout that it runs from.

    `spec` may be a folder of specs or the parent of a single one. The root is the folder above `spec/`, or
    the parent of a folder of specs that lies elsewhere.
    """
    own = checkout()
    base = _around(Path.cwd()) or own or Path.cwd()
    if spec is None:
        spec = base / "spec" if (base / "spec").is_dir() else CARRIED / "spec"
    folder = spec_folder(_resolved(spec))
    root = next((parent.parent for parent in folder.parents if parent.name == "spec"), folder.parent)
    if templates is None:
        places = [top / "templates" for top in (base, own) if top]
        templates = next((place for place in places if place.is_dir()), CARRIED / "templates")
    return Project(
        root=root,
        spec=folder,
        templates=_resolved(templates),
        output=_resolved(output or base / "generated" / PACKAGE),
    )


def _resolved(path: Path) -> Path:
    try:
        return path.resolve()
    except (OSError, RuntimeError) as error:  # a link to itself
        raise UsageError(f"{path} cannot be resolved: {error}") from None


def spec_folder(spec: Path) -> Path:
    """The folder of the *.yaml files: `spec` itself, or its only subfolder with such files."""
    if not spec.is_dir() or any(path.name not in RECORDS for path in (*spec.glob("*.yaml"), *spec.glob("*.yml"))):
        return spec
    inner = [child for child in sorted(spec.iterdir()) if child.is_dir() and any(child.glob("*.yaml"))]
    return inner[0] if len(inner) == 1 else spec
