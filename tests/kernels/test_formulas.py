"""Operations as a new user writes them, on random calls: kernels, the interpreter and a formula in NumPy agree."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from opwright.language.library import Library
from opwright.language.model import Op
from support.draws import FULL, rng
from support.package import package
from support.spec_packages import instruction_set, serving
from support.step_calls import StepCall, StepCaller
from support.step_verdicts import difference, first_disagreement, outputs
from support.user_formulas import FORMULAS

SPECS = Path(__file__).parents[1] / "data" / "formulas"
NAMES = sorted(path.stem for path in SPECS.glob("*.yaml"))
if not FULL:  # compiling takes most of the time
    NAMES = sorted(str(name) for name in rng("formulas").permutation(NAMES)[:24])
CALLS = 60 if FULL else 8


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Library, ModuleType]]:
    folder = tmp_path_factory.mktemp("formulas")
    yield package({f"{name}.yaml": (SPECS / f"{name}.yaml").read_text() for name in NAMES}, folder, "formulas")


@pytest.mark.parametrize("name", NAMES)
def test_kernels_and_the_interpreter_agree_on_calls_right_and_wrong(
    made: tuple[Library, ModuleType], name: str
) -> None:
    library, module = made
    op = library.op(name)
    seen: Counter[str] = Counter()
    for isa in serving(module, op)[: None if FULL else 1]:
        with instruction_set(module, isa):
            problem = first_disagreement(module, op, rng(name, isa), CALLS, seen)
            assert problem is None, f"{isa}: {problem}"
    assert seen[f"{op.op} legal"] >= CALLS


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("name", sorted(FORMULAS.keys() & {*NAMES}))
def test_kernels_compute_what_a_formula_in_numpy_says(made: tuple[Library, ModuleType], name: str) -> None:
    library, module = made
    op = library.op(name)
    for call in StepCaller(op, rng("formula", name)).legal(CALLS):
        found = outputs(getattr(module, name)(*call.inputs, **call.attributes))
        with np.errstate(all="ignore"):
            expected = FORMULAS[name](_widened(op, call), _with_defaults(op, call.attributes))
        assert len(found) == len(expected)
        for array, wanted in zip(found, expected, strict=True):
            precision = 1e-2 if array.dtype.itemsize == 2 else 1e-4
            problem = difference(array, _stored(wanted, array.dtype), precision)
            assert array.shape == np.shape(wanted), f"{name}: {array.shape}, not {np.shape(wanted)}\n{call}"
            assert problem is None, f"{name}{problem}\n{call}"


def test_an_input_may_leave_out_an_axis_along_which_another_broadcasts(tmp_path: Path) -> None:
    text = (SPECS / "offset_each.yaml").read_text(encoding="utf-8")
    _, module = package({"offset_each.yaml": text}, tmp_path, "left_out")
    cells, one, all_of = (module.TensorSpec(shape, "float32") for shape in ((2, 3), (1,), ()))
    assert module.infer_shape("offset_each", cells, one, all_of, offset_kind="for_all") == ((2, 3), (1,))
    with pytest.raises(module.SpecError, match="offset"):
        module.infer_shape("offset_each", cells, one, one, offset_kind="per_channel")


def _widened(op: Op, call: StepCall) -> list[Any]:
    given = [None if array is None else np.asarray(array).astype(np.float64) for array in call.inputs]
    return given + [None] * (len(op.inputs) - len(given))


def _with_defaults(op: Op, attributes: dict[str, Any]) -> dict[str, Any]:
    """The attributes of a call, with the words that aliases stand for."""
    found: dict[str, Any] = {}
    for attribute in op.attributes:
        name, default = attribute.name or "", attribute.default
        value = attributes.get(name, default)
        if attribute.type == "string":
            spelled = {alias: str(word.value) for word in attribute.values or () for alias in word.aliases}
            value = spelled.get(value, value)
        elif name not in attributes and default is not None:
            value = default == "true" if attribute.type == "bool" else float(default)
            value = [value] if attribute.per or attribute.type == "s64[]" else value
            value = int(value) if attribute.type == "s64" else value
            value = [int(entry) for entry in value] if attribute.type == "s64[]" else value
        found[name] = value
    return found


def _stored(wanted: Any, dtype: np.dtype[Any]) -> Any:
    """What a formula says in the type of an output: integers saturate, and NaN is 0."""
    if dtype.kind not in "iu":
        return wanted
    limits = np.iinfo(dtype)
    return np.clip(np.rint(np.nan_to_num(wanted, posinf=limits.max, neginf=limits.min)), limits.min, limits.max)
