"""The six operations as the pages describe them: tensors, attributes and data types."""

from __future__ import annotations

from dataclasses import dataclass

import ml_dtypes
import numpy as np

DTYPES = {"f32": np.dtype(np.float32), "bf16": np.dtype(ml_dtypes.bfloat16), "f16": np.dtype(np.float16)}
AUTO_PADS = {
    "none": "none", "same_upper": "same_upper", "same_lower": "same_lower", "valid": "valid",
    "None": "none", "SAME_UPPER": "same_upper", "SAME_LOWER": "same_lower", "VALID": "valid",
}  # fmt: skip
LISTS = ("strides", "pads_begin", "pads_end", "dilations")  # required, one entry per spatial axis
COMMON = {*LISTS, "auto_pad", "groups", "data_format", "weights_format"}
INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1


@dataclass(frozen=True)
class Operation:
    """What a page says of its operation: the role of each input, the tensor it finds, the attributes it adds."""

    roles: tuple[str, ...]  # big, small, weights, bias, shape; the last two are optional
    finds: str
    transposed: bool = False
    adds: tuple[str, ...] = ()

    @property
    def shape_name(self) -> str:
        """The attribute that states the output's shape: '' where there is none."""
        return next((name for name in self.adds if name.endswith("_shape")), "")


OPERATIONS = {
    "Convolution": Operation(("big", "weights", "bias"), "small"),
    "ConvolutionBackwardData": Operation(
        ("small", "weights", "shape"), "big", adds=("output_padding", "dst_shape")
    ),
    "ConvolutionBackwardWeights": Operation(("big", "small", "shape"), "weights", adds=("weights_shape",)),
    "ConvTranspose": Operation(("small", "weights", "bias"), "big", True, ("output_padding",)),
    "ConvTransposeBackwardData": Operation(("big", "weights"), "small", True, ("output_padding",)),
    "ConvTransposeBackwardWeights": Operation(
        ("small", "big", "shape"), "weights", True, ("output_padding", "weights_shape")
    ),
}  # fmt: skip
