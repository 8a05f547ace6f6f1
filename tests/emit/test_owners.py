"""Numbers that copied files must repeat, because the package stands alone, are those of the generator."""

from __future__ import annotations

import re

import pytest
from opwright.derive import bounds
from opwright.emit.steps.kernels import MAX_AXES
from support import checkout

COPIED = checkout.ROOT / "templates" / "copied"
INTERFACE = checkout.ROOT / "templates" / "interface"


def value(text: str) -> int:
    """The value of a literal such as 64, 2**62 or (opw_int)1 << 62."""
    return int(eval(re.sub(r"\(\w+\)", "", text)))


@pytest.mark.parametrize(
    ("file", "pattern", "owner"),
    [
        (COPIED / "_rules.py", r"^INDEX_LIMIT = (.+)$", bounds.LIMIT),
        (COPIED / "_rules.py", r"index sums of at most (.+?)\"", bounds.LIMIT),
        (INTERFACE / "numbers.c", r"INDEX_LIMIT = (.+);$", bounds.LIMIT),
        (checkout.ROOT / "generator/opwright/emit/prose.py", r"no sum of an index exceeds (.+?)\.\"", bounds.LIMIT),
        (INTERFACE / "resolve.h", r"^enum \{ OPW_LINE = (\d+) \};", 64),
        (COPIED / "_scratch.py", r"^ALIGNMENT = (\d+)$", 64),
        (COPIED / "_step_sizes.py", r"^LINE = (\d+)", 64),
    ],
)
def test_a_number_that_two_files_need_is_the_same_in_both(file, pattern: str, owner: int) -> None:
    found = re.findall(pattern, file.read_text(encoding="utf-8"), re.MULTILINE)
    assert found
    assert {value(text) for text in found} == {owner}


def test_a_run_has_as_many_axes_in_c_as_in_its_struct_of_sizes() -> None:
    text = "".join(path.read_text(encoding="utf-8") for path in sorted(INTERFACE.glob("*.h*")))
    assert {int(number) for number in re.findall(r"OPWRIGHT_MAX_AXES[ =]+(\d+)", text)} <= {MAX_AXES}
