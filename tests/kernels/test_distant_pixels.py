"""Groups of one channel, channels last, whose pixels lie a multiple of 1 KiB apart: tiles of fewer pixels, by whole lines."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support.call import Call
from support.draws import rng
from support.generated import check, run
from support.rulings import DTYPES

pytestmark = pytest.mark.usefixtures("isa")


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("groups", "pitch"), [(256, 256), (512, 512), (250, 512), (20, 512), (8, 256), (263, 512)])
def test_pixels_far_apart_give_what_the_rulings_give(groups: int, pitch: int, dtype: str) -> None:
    """All channels of a pixel, and some of them as a view; rows shorter than tiles, taps with tiles and without."""
    random = rng("distant", str(groups), str(pitch), dtype)
    for columns in (1, 4, 13):
        kernel, stride, dilation, begin, end = random.integers(
            [[1], [1], [1], [0], [0]], [[5], [3], [3], [3], [3]], (5, 2)
        )
        rows = 1 + (kernel[0] - 1) * dilation[0]
        extent = [rows + int(random.integers(3)), columns * stride[1] + (kernel[1] - 1) * dilation[1]]
        names = {"strides": stride, "pads_begin": begin, "pads_end": end, "dilations": dilation}
        attributes: dict[str, Any] = {name: value.tolist() for name, value in names.items()}
        attributes |= {"groups": groups, "data_format": "NXC", "weights_format": "OIX"}
        src = random.integers(-2, 3, (2, *extent, pitch)).astype(DTYPES[dtype])[..., :groups]
        weights = random.integers(-2, 3, (groups, 1, *kernel)).astype(DTYPES[dtype])
        bias = random.integers(-2, 3, groups).astype(DTYPES[dtype])
        forward = Call("Convolution", (src, weights, bias), attributes)
        check(forward)
        dst = np.zeros((*run(forward).shape[:-1], pitch), src.dtype)[..., :groups]
        dst[...] = random.integers(-2, 3, dst.shape)
        check(Call("ConvolutionBackwardData", (dst, weights), attributes | {"dst_shape": [2, *extent, groups]}))
