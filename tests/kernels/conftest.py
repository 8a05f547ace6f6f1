"""What the tests of kernels share."""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterator
from pathlib import Path

import opwright_kernels
import pytest
from opwright_kernels import _isa, _operation, _scratch, _specialize
from support.draws import FULL, best_and_another


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Drops tests of a dtype on an instruction set that has no kernels for it: another one would serve the call.

    Without OPWRIGHT_SWEEP=full a test is run on its best instruction set and another, drawn by its name, without what
    its mark `short` leaves out, which names dtypes by instruction set, and of its other parameters with so many
    combinations that each value is among them.
    """
    kernels = {(variant.isa, variant.dtype) for variant in opwright_kernels.variants()}
    alike: dict[str, list[pytest.Item]] = {}  # tests that differ in their instruction sets, the best one last
    kept = set[str]()
    for item in items:
        values = item.callspec.params if isinstance(item, pytest.Function) and hasattr(item, "callspec") else {}
        isa, dtype = values.get("isa"), values.get("dtype")
        if isinstance(isa, _isa.Isa) and isinstance(dtype, str):
            short = None if FULL else item.get_closest_marker("short")
            if (isa.name, dtype) not in kernels or (short and dtype not in short.kwargs.get(isa.name, (dtype,))):
                continue
        if isa is None or getattr(isa, "name", isa) not in USABLE:
            kept.add(item.nodeid)
        else:
            alike.setdefault(item.nodeid.replace(getattr(isa, "name", isa), "", 1), []).append(item)
    for name, (*others, best) in alike.items():
        kept |= {item.nodeid for item in best_and_another(name, [best, *others])}
    if not FULL:
        kept = _covering([item for item in items if item.nodeid in kept])
    config.hook.pytest_deselected(items=[item for item in items if item.nodeid not in kept])
    items[:] = [item for item in items if item.nodeid in kept]


def _covering(items: list[pytest.Item]) -> set[str]:
    """So many of the items that each test has every row of its parameters, and every dtype on every instruction set.

    Tests with the mark `whole` keep all combinations.
    """
    covered, kept = set[object](), set[str]()
    for item in sorted(items, key=lambda item: zlib.crc32(item.nodeid.encode())):
        given = item.callspec.params if isinstance(item, pytest.Function) and hasattr(item, "callspec") else {}
        together = [("isa", "dtype"), *(mark.args[0] for mark in item.iter_markers("parametrize")), *given]
        names = [one.replace(" ", "").split(",") if isinstance(one, str) else one for one in together]
        test = item.nodeid.partition("[")[0]
        found = {(test, *((name, id(given[name])) for name in some if name in given)) for some in names}
        if not found <= covered or item.get_closest_marker("whole") or FOLDER not in item.path.parents:
            kept.add(item.nodeid)
            covered |= found
    return kept


FOLDER = Path(__file__).parent
# A row none of whose features this CPU has belongs to another architecture: test_aarch64.py has an emulator for that.
# One with kernels of integers alone has no kernel of its own here: test_byte_products.py.
USABLE = {isa.name for isa in _isa.usable(_isa.ISAS)}
HERE = [isa for isa in _isa.ISAS if (not isa.needs or isa.needs & _isa.cpu_flags()) and isa.dtypes != ("bytes",)]


@pytest.fixture(scope="module", params=HERE, ids=lambda isa: isa.name)
def isa(request: pytest.FixtureRequest) -> Iterator[str]:
    """Each instruction set in turn, chosen as a user chooses it; scratch memory holds NaN when a kernel gets it."""
    missing = request.param.needs - _isa.cpu_flags()
    if missing:
        pytest.skip(f"this CPU has no {', '.join(sorted(missing))}")
    before = os.environ.get("OPWRIGHT_ISA")
    os.environ["OPWRIGHT_ISA"] = request.param.name
    _operation.forget()
    _scratch.POISON = 0xFF
    yield request.param.name
    _scratch.POISON = None
    os.environ.pop("OPWRIGHT_ISA")
    if before is not None:
        os.environ["OPWRIGHT_ISA"] = before
    _operation.forget()


@pytest.fixture(
    scope="module", params=[False, True] if FULL else None, ids=["at-run-time", "constants"] if FULL else None
)
def specialize(isa: str, request: pytest.FixtureRequest) -> Iterator[bool]:
    """Sizes at run time, and in the full sweep as constants too, with room for as many libraries on each `isa`."""
    before = dict(_specialize._libraries)
    _specialize._libraries.clear()
    opwright_kernels.set_specialize(wanted := getattr(request, "param", False))
    yield wanted
    opwright_kernels.set_specialize(False)
    _specialize._libraries.update(before)
    _operation.forget()
