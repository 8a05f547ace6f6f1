"""Random specs of values of bytes: sums, differences and products that 16 bits hold, and others that they do not.

Some have extremes of bytes in them, of which some rows have none.
"""

from __future__ import annotations

import numpy as np

SPEC = """op: NAME
revision: 1
summary: Values of bytes.
dims: {n_rows: N, d_cells: D}
inputs:
  - {name: a, dims: {N: N, D: D}}
  - {name: b, dims: {D: D}}
  - {name: c, dims: {N: N}}
outputs: [{name: y, dims: {N: N, D: D}}]
dtypes: [{a: A_KIND, b: B_KIND, c: C_KIND, y: Y_KIND, accumulate: ACC}]
semantics:
  ranges: {n: N, d: D}
  steps:
    - {do: "m[n] EXTREME= a[n, d]", where: [d >= FIRST]}
    - y[n, d] = VALUE
"""
READS = ("a[n, d]", "a[n, d]", "b[d]", "c[n]", "3", "127", "255", "1000", "20000")
FORMS = ("({0} + {1})", "({0} - {1})", "({0} * {1})", "max({0}, {1})", "min({0}, {1})", "abs({0} - {1})", "(-{0})")


def spec_of_bytes(random: np.random.Generator, op: str, given: str = "") -> str:
    """The text of a spec whose output is one value of bytes, or of bytes and integers of 32 bits, or one that is given."""
    extreme, first = str(random.choice(["min", "max"])), str(random.choice([0, 3]))
    beside = str(random.choice(["0 * c[n] - b[d]", "0 * c[n] + b[d] - m[n]", "max(m[n], b[d]) - 0 * c[n]"]))

    def value(depth: int) -> str:
        if depth == 0 or random.integers(5) == 0:
            return str(random.choice(READS))
        return str(random.choice(FORMS)).format(value(depth - 1), value(depth - 1))

    made = given or f"a[n, d] + {beside} + {value(int(random.integers(1, 4)))}"
    text = SPEC.replace("NAME", op).replace("VALUE", made)
    text = text.replace("EXTREME", extreme).replace("FIRST", first)
    for name in "ABCY":
        kinds = ["s8", "s8", "u8", "u8"] + (["s32"] if name in "BC" and not given else [])
        text = text.replace(f"{name}_KIND", str(random.choice(kinds)))
    return text.replace("ACC", str(random.choice(["f64", "f64", "s64"])))
