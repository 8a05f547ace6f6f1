"""What holds for every test."""

from __future__ import annotations

import functools
import os
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

# PyTorch and NumPy would start a thread per core in every worker of pytest-xdist: they then wait for one another.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
# How long an example takes says nothing on a machine that does other work, too.
settings.register_profile("untimed", settings(), deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")


@pytest.fixture(scope="module")
def one_library() -> Iterator[None]:
    """The specs are loaded once for a module, not once for each command."""
    from opwright import load
    from opwright.trace import why

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(load, "load", functools.cache(load.load))
        patch.setattr(why, "load_with_gradients", functools.cache(load.load_with_gradients))
        yield


@pytest.fixture(scope="session", autouse=True)
def _quick_compiler(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Kernels are compiled in a third of the time, but for those of test_conformance.py: see `quick_compiler`."""
    from support.spec_packages import quick_compiler

    with quick_compiler(tmp_path_factory.mktemp("compiler")):
        yield
