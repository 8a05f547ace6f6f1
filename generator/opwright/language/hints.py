"""What to write in place of what other languages have: ends of the sentences that refuse it, or nothing."""

from __future__ import annotations

import re
from collections.abc import Iterable

# Functions that people look for, with what computes the same.
FUNCTIONS = {
    "sum": "add up by `dst[i] += value`, over the letters that do not stand on the left",
    "mean": "add up by `+=`, and divide in the next step",
    "argmax": "take two steps: `peak[n] max= x[n, k]`, then `at[n] min= select(x[n, k] == peak[n], number(k), inf)`",
    "relu": "write max(x, 0)",
    "sigmoid": "write 1 / (1 + exp(-x))",
    "silu": "write x / (1 + exp(-x))",
    "softplus": "write log1p(exp(x))",
    "square": "write pow(x, 2)",
    "where": "write select(condition, a, b)",
    "clip": "write min(max(x, low), high)",
    "isnan": "write x != x",
    "mod": "write a % b",
    "trunc": "write sign(x) * floor(abs(x))",
    "int": "write floor(x), or to_s32(x), which rounds and saturates",
    "float": "integers beside real numbers are converted",
    "range": "write the extent alone, as in {k: K}",
    "index": "write number(k), the number of a letter's value",
    "sin": "take a table of its values as an input",
}
FUNCTIONS |= {
    "average": FUNCTIONS["mean"], "argmin": FUNCTIONS["argmax"], "sqr": FUNCTIONS["square"], "clamp": FUNCTIONS["clip"],
    "cos": FUNCTIONS["sin"], "tan": FUNCTIONS["sin"], "fmod": FUNCTIONS["mod"], "arange": FUNCTIONS["range"],
    "if": FUNCTIONS["where"], "cond": FUNCTIONS["where"], "swish": FUNCTIONS["silu"], "dot": FUNCTIONS["sum"],
    "matmul": FUNCTIONS["sum"], "reduce_sum": FUNCTIONS["sum"],
}  # fmt: skip
# Signs of C and Python.
SIGNS = {
    "**": "write pow(a, b)",
    "//": "write floor(a / b)",
    "&&": "write `and`",
    "||": "write `or`",
    "&": "write bit_and(a, b), or `and` between conditions",
    "|": "write bit_or(a, b), or `or` between conditions",
    "^": "write bit_xor(a, b), or pow(a, b)",
    "~": "write bit_not(a)",
    "<<": "write shift_left(a, b)",
    ">>": "write shift_right(a, b)",
    "!": "write `not`",
    "?": "write select(condition, a, b)",
    "@": "a product of matrices is `c[m, n] += a[m, k] * b[k, n]`",
    ":": "an index is one number, and `+=` goes through all values of a letter",
    ".": "names have no dots: exp(x), src[i]",
    ";": "each step is an entry of `steps`",
    "[": "indices stand in one pair of brackets, as in a[m, k]",
    "if": "write select(condition, a, b), or give the step a `where`",
    "where": "conditions stand beside the step: {do: 'dst[i] += src[k]', where: [k <= i]}",
}
OPERATORS = {
    "-": "add what is negative, as in `dst[i] += -value`",
    "/": "multiply, or divide in the next step",
    "argmax": FUNCTIONS["argmax"],
    "argmin": FUNCTIONS["argmax"],
    "mean": FUNCTIONS["mean"],
    "avg": FUNCTIONS["mean"],
}
# Other names of data types and of types of attributes; the first that a key takes.
WORDS = {
    "float32": ("f32",), "float": ("f32",), "single": ("f32",), "fp32": ("f32",), "real": ("f32",),
    "float64": ("f64",), "double": ("f64", "f32"), "float16": ("f16",), "half": ("f16",), "fp16": ("f16",),
    "bfloat16": ("bf16",), "int64": ("s64",), "i64": ("s64",), "long": ("s64",), "int32": ("s32", "s64"),
    "i32": ("s32", "s64"), "int": ("s32", "s64"), "integer": ("s32", "s64"), "int8": ("s8",), "i8": ("s8",),
    "uint8": ("u8",), "int4": ("s4",), "i4": ("s4",), "uint4": ("u4",), "uint64": ("u64",),
    "bool": ("boolean", "bool"), "boolean": ("bool",), "flag": ("bool",), "str": ("string",), "list": ("s64[]",),
    "ints": ("s64[]",), "floats": ("f32[]",), "float8_e4m3fn": ("f8_e4m3",), "float8_e5m2": ("f8_e5m2",),
}  # fmt: skip


def _end(hint: str | None) -> str:
    return f"; {hint}" if hint else ""


def function(name: str) -> str:
    return _end(FUNCTIONS.get(name.lower()))


def sign(text: str) -> str:
    """What to write in place of the sign or word that a text begins with."""
    word = re.match(r"[A-Za-z_]+", text)
    found = [word[0]] if word else [text[:2], text[:1]]
    return _end(next((SIGNS[one] for one in found if one in SIGNS), None))


def operator(text: str) -> str:
    """The end of a refusal of an assignment whose operator there is not."""
    found = re.match(r"[^=]*\]\s*([^\s=\]]+)\s*=(?!=)", text)
    return _end(OPERATORS.get(found[1])) if found else ""


def word(text: str, words: Iterable[str]) -> str:
    """The word that a text stands for elsewhere; empty if it is not one of `words`."""
    return next((one for one in WORDS.get(text.lower(), ()) if one in words), "")


def spelled(text: str, pattern: str) -> str:
    """A name like `text` that has the form of a pattern, as the end of a sentence."""
    parts = re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+", text)
    ideas = ("_".join(parts).lower(), text[:1].upper() + text[1:], "".join(part.capitalize() for part in parts))
    found = next((idea for idea in ideas if idea != text and re.fullmatch(pattern, idea)), "")
    return f", such as {found!r}" if found and len(found) <= 64 else ""
