"""The spec rules: whoever edits the semantics of an operation gets kernels that follow, or a refusal."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import opwright_kernels
import pytest
from opwright.language.source import SpecInvalid
from opwright.oracle import interpret
from support.package import edited, package, spec_texts, write_package

NORMAL_FORM = 'normal_form: {solve: x, big: dst, small: src, weights: "weights[g, small, big, k]", bias: bias}\n'
RELATIONS = "relations:\n"
FILE = "conv_transpose.yaml"
REDUCE = "src[n, g * (IC / G) + c, i] * weights[g, c, o, k]"
EDITS = {
    "a scale": ((REDUCE, "2 * " + REDUCE),),
    "the other sign of the tap offset": (("i * S + k * D - PB] +=", "i * S - k * D - PB] +="),),
    "max for sum": (("- PB] +=", "- PB] max="), ("init: 0", "init: -inf")),
    "a tap offset that grows with the kernel": (("i * S + k * D - PB] +=", "i * S + k * D - PB + K - 1] +="),),
    "a scaled bias": (("+ bias[m]", "- 3 * bias[m]"),),
    "only even taps": (("  reduce: dst", "  where: [k % 2 == 0]\n  reduce: dst"),),
}
LAYOUTS = [("NXC", "XOI"), ("NXC", "IOX"), ("NCX", "XOI"), ("NCX", "IOX")]


def _call(layout: tuple[str, str], groups: int) -> tuple[tuple[Any, ...], dict[str, Any]]:
    rng = np.random.default_rng(groups)

    def integers(*shape: int) -> Any:
        return rng.integers(-3, 4, shape).astype(np.float32)

    data, weights = layout
    src = integers(2, 4, 5, 6)
    kernel = integers(6, 4 // groups, 3, 2)
    if data == "NCX":
        src = src.transpose(0, 3, 1, 2)
    kernel = kernel if weights == "IOX" else kernel.transpose(2, 3, 1, 0)
    attributes = {
        "strides": [2, 3], "pads_begin": [1, 0], "pads_end": [0, 1], "dilations": [2, 1], "groups": groups,
        "data_format": data, "weights_format": weights,
    }  # fmt: skip
    return (src, kernel, integers(4)), attributes


def _without_normal_form(*changes: tuple[str, str]) -> dict[str, str]:
    texts = edited(spec_texts("conv_transpose"), FILE, (NORMAL_FORM, ""), *changes)
    head, _, rest = texts[FILE].partition(RELATIONS)
    return {**texts, FILE: head + rest[rest.index("discrepancies:") :]}


@pytest.mark.parametrize("edit", EDITS)
def test_the_generated_kernels_follow_an_edit_of_the_semantics(edit: str, tmp_path: Path) -> None:
    name = "edited_" + "".join(letter if letter.isalnum() else "_" for letter in edit)
    library, module = package(_without_normal_form(*EDITS[edit]), tmp_path, name)
    op = library.op("ConvTranspose")
    changed = False
    for layout in LAYOUTS:
        for groups in (1, 2):
            inputs, attributes = _call(layout, groups)
            result = module.conv_transpose(*inputs, **attributes)
            expected = interpret.compute(op, inputs, attributes)
            assert (result == expected).all()
            changed |= bool((result != opwright_kernels.conv_transpose(*inputs, **attributes)).any())
    assert changed


@pytest.mark.parametrize("edit", EDITS)
def test_generate_refuses_semantics_that_the_normal_form_contradicts(edit: str, tmp_path: Path) -> None:
    texts = edited(spec_texts(), FILE, *EDITS[edit])
    with pytest.raises(SpecInvalid, match="normal-form-disagrees"):
        write_package(texts, tmp_path, "contradiction")
    assert not (tmp_path / "contradiction").exists()
