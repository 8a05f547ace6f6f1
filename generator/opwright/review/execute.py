"""Runs calls on the package that is generated from one side's spec, in a process of its own.

In: an operation, the calls, and where the templates are. Out: the outcome of each call; a crash, a call that does
not end and a missing compiler are outcomes, too. The package is generated in a temporary folder with only the rows
of data types that the calls need, because compilation takes most of the time.
"""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..calls.call_text import CallText
from ..emit import render
from ..emit.python_signature import parameter_name
from ..language.library import Library, Page
from ..language.model import Op
from ..oracle.prove import agrees
from ..oracle.validate import NUMPY, Array
from ..oracle.witness import check
from ..project import Project
from .child import PACKAGE
from .evidence import Outcome
from .readings import Reading, data, one_array, terms

# Seconds for all work of one process; most of it is a cold build: 3 s (AMD Zen 5, two cores, GCC).
PATIENCE = 180
SECONDS = 10  # for one call
CHILD = [sys.executable, "-m", "opwright.review.child"]


@dataclass(frozen=True)
class Executed:
    """The outcome of a call, all outputs, and the kernel that ran; `trouble` if there was no answer."""

    outcome: Outcome | None = None
    results: tuple[Array, ...] = ()
    kernel: str = ""
    trouble: str = ""

    @property
    def result(self) -> Array | None:
        """As in Reading.result."""
        return one_array(self.results) if self.results else None


def execute(
    project: Project,
    op: Op,
    pages: Mapping[str, Page],
    calls: Sequence[CallText],
    values: str = "integers",
    isa: str = "",
) -> list[Executed]:
    """Run every call on the package of one operation, with the `values` that `data` defines.

    `isa` caps the instruction set, as OPWRIGHT_ISA does; the portable one compiles in a tenth of the time.
    """
    if op.normal_form is not None and (wrong := agrees(op)):
        return [Executed(trouble=f"`opwright generate` refuses it: {wrong}")] * len(calls)
    with tempfile.TemporaryDirectory(prefix="opwright-") as name:
        folder = Path(name)
        _package(project, _needed(op, calls), pages, folder / PACKAGE)
        _requests(op, calls, values, folder)
        answers: list[Executed] = []
        while len(answers) < len(calls):
            answers += _run(folder, len(answers), len(calls), isa)
        return answers


def _needed(op: Op, calls: Sequence[CallText]) -> Op:
    """The operation with only the rows of data types that the calls use, or the first row."""
    used = [reading.validation.row for call in calls if (reading := Reading(op, call)).outcome.accepted]
    rows = tuple(row for row in op.dtypes if any(row is one for one in used))
    return dataclasses.replace(op, dtypes=rows or op.dtypes[:1])


def _package(project: Project, op: Op, pages: Mapping[str, Page], folder: Path) -> None:
    place = project.spec.relative_to(project.root).as_posix()
    for path, text in render.render(Library((op,), dict(pages)), project.templates, place).items():
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")


def _requests(op: Op, calls: Sequence[CallText], values: str, folder: Path) -> None:
    inputs = {parameter_name(tensor) for tensor in op.inputs}
    arrays: dict[str, Array] = {}
    requests = []
    for number, call in enumerate(calls):
        tensors = {}
        for name, given in data(call, values).items():
            parts = given if isinstance(given, list) else [given]
            keys = [f"{number}.{name}.{place}" for place in range(len(parts))]
            arrays |= {key: part.view(f"u{part.dtype.itemsize}") for key, part in zip(keys, parts, strict=True)}
            dtypes = [part.dtype for part in call.tensors[name].parts]
            tensors[name] = {"parts": list(zip(keys, dtypes, strict=True)), "list": isinstance(given, list)}
        vectors = {name: value for name, value in call.values.items() if name in inputs and isinstance(value, list)}
        others = {name: value for name, value in call.values.items() if name not in vectors}
        requests.append({"function": call.function, "tensors": tensors, "vectors": vectors, "values": others})
    (folder / "calls.json").write_text(json.dumps(requests), encoding="utf-8")
    np.savez(folder / "inputs.npz", **arrays)  # type: ignore[arg-type]


def _run(folder: Path, first: int, count: int, isa: str) -> list[Executed]:
    """Run the calls from `first` on in a new process: to the last one, or to the one that ended the process."""
    generator = str(Path(__file__).parents[2])  # the folder that this process imports `opwright` from
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([generator, os.environ.get("PYTHONPATH", "")])}
    if isa:
        environment["OPWRIGHT_ISA"] = isa
    process = subprocess.Popen(
        [*CHILD, str(first), str(SECONDS)], cwd=folder, env=environment, encoding="utf-8", errors="replace",
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
    )  # fmt: skip
    try:
        output, complaint = process.communicate(timeout=PATIENCE)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)  # its compilers with it
        output, complaint = process.communicate()
        ended = f"was stopped after {PATIENCE} s"
    else:
        ended = _ended(process.returncode, complaint)
    answers = [_answer(folder, line) for line in output.splitlines()[: count - first]]
    return answers if len(answers) == count - first else [*answers, Executed(trouble=ended)]


def _ended(code: int, complaint: str) -> str:
    """How a process ended before it had made all of its calls."""
    if code == -signal.SIGALRM:
        return f"did not end within {SECONDS} s"
    if code < 0:
        return f"crashed ({signal.Signals(-code).name})"
    return f"ended with exit code {code}: {(complaint.strip().splitlines() or ['no message'])[-1]}"


def _answer(folder: Path, line: str) -> Executed:
    answer: dict[str, Any] = json.loads(line)
    if "trouble" in answer:
        return Executed(trouble=answer["trouble"])
    if "rule" in answer:
        return Executed(Outcome((answer["rule"],)))
    outputs = [(dtype, tuple(shape)) for dtype, shape in answer["outputs"]]
    results = []
    for place, (dtype, shape) in enumerate(outputs):
        stored = np.load(folder / f"{answer['call']}.{place}.npy", allow_pickle=False)
        results.append(stored.view(NUMPY[dtype]).reshape(shape))
    (dtype, shape), *others = outputs
    return Executed(Outcome((), dtype, shape, tuple(others)), tuple(results), answer["kernel"])


def disagreement(expected: Reading, found: Executed) -> str:
    """How a package departs from its spec, by the interpreter; empty if it does not."""
    outcome = found.outcome
    if outcome is None or expected.op is None:
        return ""
    if outcome.accepted and expected.outcome == outcome:
        if expected.result is None or found.result is None:
            return ""
        count = terms(expected.op, expected.validation)
        results = found.results if expected.op.stepped else found.result
        verdict = check(expected.op, *expected.arguments, count, results)
        return "" if verdict.right else f"the kernel's values are wrong: {verdict}"
    if not outcome.accepted and not expected.outcome.accepted:
        (rule,) = outcome.rules
        python = rule.startswith("TypeError: ") and any(
            "missing" in r or "unknown" in r for r in expected.outcome.rules
        )
        if python or _named(expected.op, rule) in expected.outcome.rules:
            return ""
    return f"the package {outcome}, but the spec's interpreter expects {expected.outcome}"


def _named(op: Op, rule: str) -> str:
    """A rule under the interpreter's name, which uses names of tensors and not of parameters."""
    for tensor in op.inputs:
        if tensor.parameter and rule.startswith(f"{tensor.parameter}-"):
            return tensor.name + rule[len(tensor.parameter) :]
    return rule
