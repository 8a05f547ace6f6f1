"""Doubles the size of a picture with a depthwise ConvTranspose, shows a refused call, and explains a legal one."""

import numpy as np
import opwright_kernels as ok

picture = np.random.default_rng(0).random((1, 24, 32, 3), dtype=np.float32)  # batch, rows, columns, colours
taps = np.array([0.25, 0.75, 0.75, 0.25], np.float32)
weights = np.repeat(np.outer(taps, taps)[:, :, None, None], 3, axis=3)  # rows, columns, 1 channel a group, groups
steps = {"strides": [2, 2], "pads_begin": [1, 1], "pads_end": [1, 1], "dilations": [1, 1], "groups": 3}

larger = ok.conv_transpose(picture, weights, **steps)
print(picture.shape, "->", larger.shape)

try:
    ok.conv_transpose(picture, weights, **{**steps, "groups": 2})
except ok.SpecError as error:
    print(error)

print(ok.explain("conv_transpose", picture, weights, **steps))
