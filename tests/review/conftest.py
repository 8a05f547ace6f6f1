"""What the tests of reviews share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from support import reviewing


@pytest.fixture(scope="module", autouse=True)
def _remembered() -> Iterator[None]:
    """Specs that several reviews have in common are worked on once."""
    with reviewing.remembered():
        yield
