"""The convolutions with their rendered texts, and what is read of the specs for each file."""

from __future__ import annotations

import re

import pytest
from opwright.emit import render
from opwright.language.library import Library
from opwright.project import Project, find
from opwright.trace import recording
from support.rendered import outputs
from support.specs import convolutions


@pytest.fixture(scope="module")
def project() -> Project:
    return find()


@pytest.fixture(scope="module")
def library(project: Project) -> Library:
    return convolutions()


@pytest.fixture(scope="module")
def texts(library: Library, project: Project) -> dict[str, str]:
    return render.render(library, project.templates, "spec/onednn_graph")


@pytest.fixture(scope="module")
def reads(library: Library, project: Project, texts: dict[str, str]) -> dict[str, set[str]]:
    """What is read of the specs for the files of one operation and those of all: each is made from a stand-in of its
    own, and must come out the same."""
    found = {}
    env = render.environment(project.templates)
    for path in texts:
        if re.search("convolution|backward|f16", path):
            continue
        standin, read = recording.record(library)
        output = outputs(standin, project)[path]
        read.clear()
        assert render.tidy(path, output.text(env)) == texts[path]
        found[path] = set(read)
    return found
