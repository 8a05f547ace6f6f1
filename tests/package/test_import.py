"""What importing the package loads: nothing of an operation until it is asked for."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import opwright_kernels as ok
import pytest
from support import checkout


def _modules_after(statement: str) -> set[str]:
    """The modules that a new process has loaded after `statement`, beside those of numpy, cffi and ml_dtypes."""
    code = (
        f"import sys, numpy, cffi, ml_dtypes; before = set(sys.modules); {statement}; print(*set(sys.modules) - before)"
    )
    folder = str(Path(ok.__file__).parents[1])
    run = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, cwd=folder)
    return set(run.stdout.split())


def test_importing_the_package_loads_no_operation_and_no_parser() -> None:
    loaded = _modules_after("import opwright_kernels")
    assert not loaded & {f"opwright_kernels._{name}" for name in ok.operations()}
    assert "pycparser" not in loaded
    assert not [name for name in loaded if name.startswith("cffi.")]


def test_the_first_use_of_an_operation_loads_that_one_alone() -> None:
    name = ok.operations()[-1]
    loaded = _modules_after(f"import opwright_kernels; opwright_kernels.{name}; opwright_kernels.variants({name!r})")
    assert {f"opwright_kernels._{name}"} == loaded & {f"opwright_kernels._{name}" for name in ok.operations()}


def test_every_operation_is_an_attribute_listed_and_imported_by_name() -> None:
    everything: dict[str, object] = {}
    exec("from opwright_kernels import *", everything)
    assert {*ok.operations()} <= {*ok.__all__} & {*dir(ok)} & {*everything}
    assert all(everything[name] is getattr(ok, name) for name in ok.operations())


def test_what_the_package_lacks_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'opwright_kernels' has no attribute 'convolutoin'"):
        ok.convolutoin  # noqa: B018


@pytest.mark.parametrize("library", ["dask", "onnx", "torch"])
def test_an_integration_without_its_library_says_what_to_install(library: str) -> None:
    code = f"import sys; sys.modules[{library!r}] = None; import opwright_kernels.{library}"
    folder = Path(ok.__file__).parents[1]
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=folder)
    said = re.search(
        rf"opwright_kernels.{library} needs {library}.*, which is not installed: pip install '(.*)'$", run.stderr
    )
    assert said, run.stderr
    assert f'"{said[1]}"' in (checkout.ROOT / "pyproject.toml").read_text(encoding="utf-8")
