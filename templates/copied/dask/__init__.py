"""The operations of this package on dask arrays: `opwright_kernels.dask.<function>`, lazily.

Each function takes what the function of its name in the package takes, with dask arrays for inputs, and returns dask
arrays, whose shapes and data types are known without calling a kernel. Inputs may be chunked along every axis that the
operation may be split along, as its reference page says; SpecError names the rechunk where they may not.
docs/DASK.md of Opwright says more.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable
from typing import Any

from .._errors import missing

try:
    from ._calls import called
except ModuleNotFoundError as error:
    raise missing(__name__, error, "dask[array]>=2026.8") from None

_PACKAGE: Any = importlib.import_module(__name__.rpartition(".")[0])

__all__ = list(_PACKAGE.operations())


def __getattr__(name: str) -> Callable[..., Any]:
    if name not in _PACKAGE._OPERATIONS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    own = getattr(_PACKAGE, name)

    @functools.wraps(own)
    def function(*inputs: Any, threads: int = 1, **attributes: Any) -> Any:
        return called(_PACKAGE._OPERATIONS[name], inputs, attributes, threads)

    function.__doc__ = f"On dask arrays, in parts that run on `threads` threads each:\n\n{own.__doc__}"
    globals()[name] = function
    return function


def __dir__() -> list[str]:
    return sorted({*globals(), *_PACKAGE.operations()})
