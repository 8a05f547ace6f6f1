"""Operations that compute gradients, called from C: they give what the interpreter gives, and refuse what it refuses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from opwright.commands.export_c import export_c
from opwright.language.library import Library
from opwright.project import Project
from support import spec_packages, step_verdicts
from support.c_library import AsModule, CLibrary
from support.draws import FULL, rng
from support.spec_calls import Caller
from support.step_calls import StepCaller

from .test_build import needs, run

# A derived gradient, one of the pages, and one of windows that scatter; in the long form, all.
SOME = ("square_backward", "soft_max_backward", "max_pool_backward")
CALLS = 20 if FULL else 12


@pytest.mark.sweep
def test_gradients_called_from_c_agree_with_the_interpreter(project: Project, library: Library, tmp_path: Path) -> None:
    needs("cmake", "gcc", "nm")
    ops = [op for op in library.ops if op.function in SOME or (FULL and "backward" in op.function)]
    export_c(project, tmp_path / "source", "opwright_kernels", [op.function for op in ops])
    flags = ("-DOPWRIGHT_ISAS=portable", "-DOPWRIGHT_STRICT=ON", "-DCMAKE_BUILD_TYPE=Debug")
    run("cmake", "-S", tmp_path / "source", "-B", tmp_path / "build", *flags, CC="gcc")
    run("cmake", "--build", tmp_path / "build", "-j2")
    built = tmp_path / "build" / "libopwright_kernels.so"
    module: Any = AsModule(CLibrary(built, library))
    for op in ops:
        caller: Any = (StepCaller if op.stepped else Caller)(op, rng("gradients in C", op.function))
        disagreement: Any = (step_verdicts if op.stepped else spec_packages).disagreement
        for number, call in enumerate(caller.legal(CALLS)):
            for one in (call, caller.nearly(call)):
                problem = disagreement(module, op, one, 1 + 2 * (number % 2))
                assert problem is None, f"{op.op}: {problem}\n{one}"
    used = {line.split()[-1].partition("@")[0] for line in run("nm", "-D", "--undefined-only", built).splitlines()}
    assert not {name for name in used if "alloc" in name or name in ("free", "posix_memalign", "mmap")}
