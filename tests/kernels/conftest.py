"""What the tests of kernels share."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from opwright_kernels import _isa, _operation


@pytest.fixture(scope="module", params=_isa.ISAS, ids=lambda isa: isa.name)
def isa(request: pytest.FixtureRequest) -> Iterator[str]:
    """Each instruction set in turn, chosen as a user chooses it."""
    missing = request.param.needs - _isa.cpu_flags()
    if missing:
        pytest.skip(f"this CPU has no {', '.join(sorted(missing))}")
    before = os.environ.get("OPWRIGHT_ISA")
    os.environ["OPWRIGHT_ISA"] = request.param.name
    _operation.forget()
    yield request.param.name
    os.environ.pop("OPWRIGHT_ISA")
    if before is not None:
        os.environ["OPWRIGHT_ISA"] = before
    _operation.forget()
