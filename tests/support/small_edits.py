"""Small edits of ConvTranspose: of its prose, of a formula, of what a cell starts from."""

from __future__ import annotations

from . import reviewing

OP = "conv_transpose.yaml"
SPECS = reviewing.by_semantics(OP)
DOCS = (
    "summary: The gradient of Convolution with respect to its src",
    "summary: A gradient of Convolution with respect to its src",
)
SAME_LOWER = ("same_lower: ceil(T / 2)", "same_lower: floor(T / 2)")
FUNCTIONS = (
    "conv_transpose", "conv_transpose_backward_data", "conv_transpose_backward_weights",
    "convolution", "convolution_backward_data", "convolution_backward_weights",
)  # fmt: skip
GUARD = ("  init: 0\n", "  init: 1\n")


def after(*edits: tuple[str, str], file: str = OP) -> dict[str, str]:
    return reviewing.edited(SPECS, file, *edits)
