"""Where a project's folders are: specs, templates, and the generated package.

The working directory, or what it lies in, decides where it has specs. Elsewhere these are the checkout's own, or, where
Opwright is installed from a wheel, those that the wheel carries.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from .errors import UsageError

GENERATOR = Path(__file__).resolve().parent
CARRIED = GENERATOR / "data"
COMMAND = "opwright generate"
PACKAGE = "opwright_kernels"  # the import name of the generated package
# What counts of templates/: what is rendered, and the Python and C that is copied as it is.
TEMPLATE_SUFFIXES = (".j2", ".py", ".c", ".h")
# Files of spec/ that are no specs: what was released, and what a review lets pass.
RECORDS = ("LOCK.yaml", "waivers.yaml")
GRADIENTS = "gradients"  # the folder beside specs that has derived gradients


@dataclass(frozen=True)
class Project:
    """The folders that a command works on. `root` is what file names in outputs are relative to."""

    root: Path
    spec: Path
    templates: Path
    output: Path

    @property
    def records(self) -> Path:
        """The folder of the records of a review: `spec/`, or a folder of specs that lies elsewhere."""
        return self.root / self.spec.relative_to(self.root).parts[0]


def checkout() -> Path | None:
    """The root of the checkout that this module runs from, if it is one."""
    root = GENERATOR.parent.parent
    return root if (root / "spec").is_dir() and (root / "templates").is_dir() else None


def own_templates() -> Path:
    """The templates of the checkout that this module runs from, else those that the wheel carries."""
    own = checkout()
    return own / "templates" if own else CARRIED / "templates"


def _around(here: Path) -> Path | None:
    """The folder with specs that a directory is or lies in, not above its repository."""
    for folder in (here, *here.parents):
        if any((folder / "spec").glob("**/*.yaml")):
            return folder
        if (folder / ".git").exists():
            return None
    return None


def find(spec: Path | None = None, templates: Path | None = None, output: Path | None = None) -> Project:
    """The project of a command: what its options name, else where it is called, else the checkout that it runs from.

    `spec` may be a folder of specs or one that holds a single such folder. The root is the folder above `spec/`, or
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
    """The folder that holds the *.yaml files: `spec` itself, or its only subfolder that has some."""
    if not spec.is_dir() or any(path.name not in RECORDS for path in (*spec.glob("*.yaml"), *spec.glob("*.yml"))):
        return spec
    inner = [child for child in sorted(spec.iterdir()) if child.is_dir() and any(child.glob("*.yaml"))]
    return inner[0] if len(inner) == 1 else spec
