"""The files that every generated package has regardless of its operations, and their sources.

In: the folder of templates. Out: paths in the package. Nothing is read or rendered here.
"""

from __future__ import annotations

import functools
from pathlib import Path, PurePath

from ..project import own_templates

COPIED = "copied"  # in templates/: files that are copied verbatim, each to its own path in the package
# Path in the package to the template that prints it.
RENDERED = {
    "__init__.py": "python/__init__.py.j2",
    "__init__.pyi": "python/__init__.pyi.j2",
    "_dtypes.py": "python/dtypes.py.j2",
    "_isa.py": "python/isa.py.j2",
    "include/opwright_kernels.h": "c/kernels.h.j2",
    "include/opwright_numeric.h": "c/numeric.h.j2",
    "docs/API.md": "docs/api.md.j2",
}
# Modules that users may add (integrations, `python -m`), the page of contents, and the folder of built kernels.
TO_COME = ("dask", "onnx", "torch", "main", "index", "built")


def copied(templates: Path) -> dict[str, Path]:
    """The files that are copied verbatim, by their paths in the package."""
    folder = templates / COPIED
    found = (path for path in folder.rglob("*") if path.suffix in (".py", ".c", ".cpp", ".h"))
    return {path.relative_to(folder).as_posix(): path for path in sorted(found)}


@functools.cache
def modules() -> frozenset[str]:
    """The modules and pages that no operation may be named after, without the leading underscore."""
    paths = [PurePath(name) for name in (*copied(own_templates()), *RENDERED)]
    own = [path for path in paths if path.parent.name in ("", "docs")]
    return frozenset({path.stem.strip("_").lower() for path in own} | set(TO_COME))
