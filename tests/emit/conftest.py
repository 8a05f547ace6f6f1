"""The package of a sample of the operations, generated once for all tests of this folder."""

from __future__ import annotations

import pytest
from opwright.generate import generated
from opwright.language.library import Library
from support.specs import sample_project


@pytest.fixture(scope="session")
def sample_package(tmp_path_factory: pytest.TempPathFactory) -> tuple[Library, dict[str, str]]:
    return generated(sample_project(tmp_path_factory.mktemp("sample")))
