"""The refusal that a conversion of an argument raises."""

import pytest
from opwright_kernels._errors import Refusal

try:
    import torch
except ImportError:
    torch = None


def refused(call, *arguments):
    with pytest.raises(Refusal) as caught:
        call("x", *arguments)
    assert caught.value.argument == "x"
    return caught.value
