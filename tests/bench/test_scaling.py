"""The figures of docs/SCALING.md that follow from the tables of splits."""

from __future__ import annotations

import numpy as np
import opwright_kernels as ok
import pytest
from opwright_kernels import _interface, _sharding, _split_calls
from support.draws import rng
from support.specs import FOLDER

from bench import scaling

PAGE = (FOLDER.parents[1] / "docs" / "SCALING.md").read_text()


def test_the_page_has_the_table_that_the_program_prints(capsys: pytest.CaptureFixture[str]) -> None:
    scaling.main()
    assert capsys.readouterr().out.strip() in PAGE


def test_the_page_names_the_rate_the_link_and_the_latency_of_the_program() -> None:
    assert (scaling.RATE, scaling.LINK, scaling.LATENCY) == (1e12, 25e9, 5e-6)
    text = " ".join(PAGE.split())
    assert "A worker does 10^12 operations and moves 25 GB a second, a message takes 5 us" in text


def test_neighbours_share_as_many_cells_as_the_page_says() -> None:
    assert "Neighbours share `(K - 1) * D + 1 - S` cells" in PAGE
    random = rng("cells that neighbours share")
    operation = vars(ok)["_OPERATIONS"]["convolution"]
    for _ in range(40):
        taps, stride, dilation = (int(random.integers(1, high)) for high in (6, 4, 4))
        geometry = {"strides": [stride], "dilations": [dilation], "pads_begin": [taps // 2], "pads_end": [0]}
        words = {"data_format": "NCX", "weights_format": "OIX"}
        inputs = [ok.TensorSpec(shape, np.float32) for shape in ((1, 2, 200), (2, 2, taps))]
        call = _split_calls.understood(operation, *_interface.bound(operation, inputs, geometry | words))
        option = next(option for option in call.options if option.split.window)
        cut = option.total // 2
        ranges = []
        for values in ((cut - 9, cut), (cut, cut + 9)):
            part = _sharding.part(call.facts, {option: values})
            assert part is not None
            ranges.append(next(own for own in part.inputs.values() if 2 in own)[2])
        (_, stop), (start, _) = ranges
        assert stop - start == (taps - 1) * dilation + 1 - stride, geometry
