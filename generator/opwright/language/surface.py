"""The public names of every generated package besides its operations, and the modules that define them."""

from __future__ import annotations

import re

SETTINGS = ("get_num_threads", "get_specialize", "set_num_threads", "set_specialize")
# The re-exported names, by the module that defines them.
HANDED_ON = {
    "_description": ("TensorSpec", "VariantInfo"),
    "_errors": ("BuildError", "SpecError", "SpecTypeError"),
    "_explain": ("Explanation",),
    "_interface": SETTINGS,
}
# The names that it defines itself, and the private imports for them.
OWN = ("build_kernels", "explain", "infer_shape", "operations", "variants")
INNER = {"_interface": ("build",)}

PUBLIC = frozenset({*OWN, *(name for names in HANDED_ON.values() for name in names)})
CLASSES = tuple(sorted(name for name in PUBLIC if name[0].isupper()))
FUNCTIONS = tuple(sorted(PUBLIC - {*CLASSES}))
# Names that no operation's function may have.
TAKEN_BY_PACKAGE = frozenset({*FUNCTIONS, *(name for names in INNER.values() for name in names)})


def snake_case(name: str) -> str:
    """`ConvTransposeBackwardData` -> `conv_transpose_backward_data`."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()
