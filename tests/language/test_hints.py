"""What people write from habit of C, NumPy and einsum: refused at its place, with what to write instead."""

from __future__ import annotations

import re

import pytest
from opwright.language.source import SpecInvalid
from opwright.load import load_texts

STEP = "c[m, n] += a[m, k] * b[k, n]"
SPEC = f"""op: Product
revision: 1
summary: A test.
dims: {{rows: M, columns: N, depth: K}}
inputs:
  - {{name: a, dims: {{M: M, K: K}}}}
  - {{name: b, dims: {{K: K, N: N}}}}
outputs:
  - {{name: c, dims: {{M: M, N: N}}}}
dtypes:
  - {{a: f32, b: f32, c: f32, accumulate: f32}}
semantics:
  ranges: {{m: M, n: N, k: K}}
  steps:
    - {STEP}
"""
# What a step becomes, and words of the refusal.
STEPS = {
    "c[m, n] = sum(a[m, k] * b[k, n])": "`dst[i] += value`, over the letters that do not stand on the left",
    "c[m, n] = a[m, k] * b[k, n]": "'=' would assign to a cell once for every k; accumulate with +=",
    "c = a @ b": "`c[m, n] += a[m, k] * b[k, n]`",
    "c[m, n] += a[m][k] * b[k][n]": "one pair of brackets, as in a[m, k]",
    "c[m, n] += a[m, k] ** 2": "pow(a, b)",
    "c[m, n] += a[m, k] // 2": "floor(a / b)",
    "c[m, n] += a[m, k];": "an entry of `steps`",
    "c(m, n) += a[m, k]": "an element is c[...]",
    "c[m, n] -= a[m, k]": "`dst[i] += -value`",
    "c[m, n] /= a[m, k]": "divide in the next step",
    "c[m, n] mean= a[m, k]": "divide in the next step",
    "c[m, n] argmax= a[m, k]": "number(k), inf)",
    "t += a[m, k] * b[k, n]": "or total[] for one number",
    "c[m, n] += a[m, :] * b[:, n]": "all values of a letter",
    "c[m, n] += a[m, k] if k < m else 0": "select(condition, a, b)",
    "c[m, n] += a[m, k] where k < m": "where: [k <= i]",
    "c[m, n] += a[m, k] && b[k, n]": "write `and`",
    "c[m, n] += a[m, k] ^ b[k, n]": "bit_xor(a, b), or pow(a, b)",
    "c[m, n] += relu(a[m, k])": "max(x, 0)",
    "c[m, n] += Sigmoid(a[m, k])": "1 / (1 + exp(-x))",
    "c[m, n] += np.exp(a[m, k])": "names have no dots",
    "c[m, n] += where(a[m, k] > 0, 1, 0)": "select(condition, a, b)",
    "c[m, n] += gelu(a[m, k])": "SPEC.md lists all",
    "c[m, n] += a[b[k, n], k]": "`dst[n] += select(at[n] == k, src[k], 0)`",
    "c[m, n] += a[m * K[0], k]": "K is no array: it stands for its entry of each axis; write K",
}
# What stands elsewhere, what it becomes, and words of the refusal.
ELSEWHERE = [
    ("c, dims: {M: M", "c, dims: {M: rows", "the symbol of 'rows' is M"),
    ("a: f32", "a: float32", "write f32"),
    ("a: f32", "a: int8", "write s8"),
    ("a: f32", "a: bool", "write boolean"),
    ("{a: f32, b: f32, c: f32, accumulate: f32}", "f32", "as in {name: value} but found a text"),
    ("dims: {rows: M, columns: N, depth: K}", "dims: [M, N, K]", "as in {name: value} but found a list"),
    ("{name: c, dims: {M: M, N: N}}", "{name: c, dims: {m: M, N: N}}", "such as 'M'"),
    ("{name: c, dims: {M: M, N: N}}", "{name: c, dims: {M: M, N: N}, dtype: f32}", "the keys here are name, "),
    ("name: a", "name: srcTensor", "such as 'src_tensor'"),
    ("op: Product", "op: my_op", "such as 'MyOp'"),
    ("summary: A test.", "summary: A test.\nspatial_rank: 2", "a mapping with min, max but found a text"),
    (f"- {STEP}", f"- {{do: '{STEP}', where: k <= m}}", "write [k <= m]"),
    ("k: K}\n", "k: range(K)}\n", "the extent alone"),
]


def refusal(text: str) -> str:
    with pytest.raises(SpecInvalid) as found:
        load_texts({"product.yaml": text})
    message = str(found.value)
    assert all(re.match(r"product\.yaml:\d+:\d+: [\w-]+: ", line) for line in message.splitlines())
    return message


def test_the_spec_itself_is_accepted() -> None:
    assert load_texts({"product.yaml": SPEC}).ops


@pytest.mark.parametrize("step", STEPS)
def test_a_step_in_another_language_is_refused_with_what_to_write(step: str) -> None:
    assert STEPS[step] in refusal(SPEC.replace(STEP, step))


@pytest.mark.parametrize(("old", "new", "words"), ELSEWHERE)
def test_an_entry_of_another_form_is_refused_with_what_to_write(old: str, new: str, words: str) -> None:
    assert old in SPEC
    assert words in refusal(SPEC.replace(old, new, 1))


def test_what_is_not_printable_is_not_repeated() -> None:
    assert "write [" not in refusal(SPEC.replace("summary: A test.", "summary: A test.\nsource: foo\u202ebar"))
