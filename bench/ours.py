"""Our kernels: the public function, validation included, writing into an array of the caller."""

from __future__ import annotations

import json
import platform
from pathlib import Path

import numpy as np
import opwright_kernels
from opwright import __version__
from opwright.language.hashing import text_hash
from opwright.language.surface import snake_case

from .candidate import Ready, Refused
from .kinds import AnyTensors
from .own import OwnTensors
from .own import ours as ours_of_own
from .products import ProductTensors, ours
from .rows import INPUTS
from .steps import StepTensors
from .steps import ours as ours_of_steps


class Candidate:
    """The generated package."""

    def __init__(self, threads: int) -> None:
        self.threads = threads

    def versions(self) -> dict[str, str]:
        """`kernels` is a hash of the generated code; other generated files do not affect timings."""
        manifest = Path(opwright_kernels.__file__).with_name("MANIFEST.json").read_text(encoding="utf-8")
        code = [entry for entry in json.loads(manifest)["outputs"].items() if entry[0].endswith((".c", ".h", ".py"))]
        versions = {"opwright": __version__, "python": platform.python_version(), "numpy": np.__version__}
        return {**versions, "kernels": text_hash(json.dumps(sorted(code)))[:12]}

    def modes(self, tensors: AnyTensors) -> list[str]:
        return ["opwright"]

    def ready(self, tensors: AnyTensors, mode: str) -> Ready:
        if isinstance(tensors, ProductTensors):
            return ours(tensors, self.threads)
        if isinstance(tensors, OwnTensors):
            return ours_of_own(tensors, self.threads)
        if isinstance(tensors, StepTensors):
            return ours_of_steps(tensors, self.threads)
        row = tensors.row
        name = snake_case(row.op)
        function, attributes = getattr(opwright_kernels, name), row.attributes()
        inputs, out, threads = [tensors.arrays[side] for side in INPUTS[row.op]], tensors.result, self.threads
        opwright_kernels.build_kernels(name)
        try:
            variant = opwright_kernels.explain(name, *inputs, **attributes).variant.name
        except opwright_kernels.SpecError as error:
            raise Refused(str(error)) from None
        return Ready(
            run=lambda: function(*inputs, out=out, threads=threads, **attributes),
            result=lambda: tensors.canonical(row.solve),
            how=variant,
        )
