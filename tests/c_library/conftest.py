"""The C library of all shipped operations, without kernels: it understands calls and refuses bad ones."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from opwright.commands.export_c import export_c
from opwright.language.library import Library
from opwright.load import load_with_gradients
from opwright.project import Project, find
from support.c_library import CLibrary, compiled


@pytest.fixture(scope="session")
def project() -> Project:
    return find()


@pytest.fixture(scope="session")
def library(project: Project) -> Library:
    """All operations that an export has: derived gradients, too."""
    library = load_with_gradients(project.spec, project.root)
    return replace(library, ops=library.every)


@pytest.fixture(scope="session")
def exported(project: Project, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("c_library") / "all"
    export_c(project, folder, "opwright_kernels", ())
    return folder


@pytest.fixture(scope="session")
def rules(exported: Path, library: Library) -> CLibrary:
    if shutil.which("gcc") is None:
        pytest.skip("gcc is not installed")
    return CLibrary(compiled(exported, exported.parent / "rules"), library)
