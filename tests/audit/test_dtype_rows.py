"""Tables that say several things at once: columns of two tensors, cells of several data types, truth by its word."""

from __future__ import annotations

import pytest
from audit.pages_of import fields_with
from opwright.audit import forms
from opwright.audit.compare import audit
from opwright.load import load
from support.specs import FOLDER

PAGE = """\
SoftMaxBackward
===============

### Inputs

| Index | Argument Name | Required or Optional |
|:------|:--------------|:---------------------|
| 0     | `diff_dst`    | Required             |
| 1     | `dst`         | Required             |

### Outputs

| Index | Argument Name | Required or Optional |
|:------|:--------------|:---------------------|
| 0     | `diff_src`    | Required             |

## Supported data types

| Dst / Diff_dst | Diff_src  |
|:---------------|:----------|
| f32            | f32       |
| bf16           | f32, bf16 |
"""


@pytest.mark.parametrize(
    ("old", "new", "contradicted"),
    [
        ("", "", set()),
        ("f32, bf16", "f16", {"dtypes.bf16.dst", "dtypes.bf16.diff_src"}),
        ("f32, bf16", "f32, f16", {"dtypes.bf16.diff_src"}),
        ("`dst`  ", "`src` / `dst`", set()),
        ("`dst`  ", "`result`", {"inputs.result", "inputs.dst"}),
    ],
)
def test_a_row_of_several_types_agrees_if_each_stands_in_a_row_of_the_spec(
    old: str, new: str, contradicted: set[str]
) -> None:
    op = load(FOLDER, FOLDER.parents[1]).op("SoftMaxBackward")
    found = audit(op, forms.read(PAGE.replace(old, new, 1) if old else PAGE, "page"))
    assert fields_with(found, "contradiction") == contradicted
