"""Makes a package from spec texts, for tests that change a spec and look at what follows."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType

from opwright.generate import generated
from opwright.language.library import Library
from opwright.project import find
from opwright.write import write

from .specs import all_texts, real_texts

ROOT = Path(__file__).resolve().parents[2]
SPEC = ROOT / "spec" / "onednn_graph"


def spec_texts(*names: str) -> dict[str, str]:
    """The project's own spec files by name, the convolutions' unless some are named; shared files always."""
    found = {name: text for name, text in all_texts().items() if name.startswith("_") or Path(name).stem in names}
    return found if names else real_texts()


def edited(texts: Mapping[str, str], file: str, *changes: tuple[str, str]) -> dict[str, str]:
    """Spec texts with pieces of one file replaced; a piece that is not there once is a mistake of the test."""
    text = texts[file]
    for old, new in changes:
        assert text.count(old) == 1, f"{old!r} stands {text.count(old)} times in {file}"
        text = text.replace(old, new)
    return {**texts, file: text}


def write_package(texts: Mapping[str, str], folder: Path, name: str) -> Library:
    """Generate the package `name` in `folder` from spec texts; SpecInvalid where they are refused."""
    spec = folder / f"{name}-project" / "spec" / "specs"
    spec.mkdir(parents=True, exist_ok=True)
    for file, text in texts.items():
        (spec / file).write_text(text, encoding="utf-8")
    project = find(spec, ROOT / "templates", folder / name)
    library, files = generated(project)
    write(project.output, files)
    return library


def package(texts: Mapping[str, str], folder: Path, name: str) -> tuple[Library, ModuleType]:
    """The library of spec texts, and the package generated from them, imported as `name`."""
    library = write_package(texts, folder, name)
    location = folder / name / "__init__.py"
    found = importlib.util.spec_from_file_location(name, location, submodule_search_locations=[str(location.parent)])
    assert found is not None
    assert found.loader is not None
    module = importlib.util.module_from_spec(found)
    sys.modules[name] = module
    found.loader.exec_module(module)
    return library, module
