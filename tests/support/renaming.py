"""A spec under other names, and whether generated code tells these from its own.

Code that is generated from one spec under two sets of names has the same identifiers in the same places. Two of them that
differ under fresh names and are equal under others are a collision.
"""

from __future__ import annotations

import io
import re
import tokenize
from collections.abc import Iterator, Mapping, Sequence

from opwright.check import names as rules
from opwright.derive.rewrites.fitting import SUFFIX
from opwright.emit import render
from opwright.emit.c import interface
from opwright.emit.output import Head
from opwright.language.entries import IDENTIFIER, SYMBOL
from opwright.language.expr import FUNCTIONS
from opwright.language.library import Library
from opwright.language.model import Op
from opwright.language.renaming import rename
from opwright.language.reserved import refusal
from opwright.language.source import Prose

from .package import ROOT
from .spec_drafts import Rng

ENV = render.environment(ROOT / "templates")
# Comments and directives have no identifiers.
CPP = re.compile(r"^#if defined\(__cplusplus\)$.*?^#endif$", re.MULTILINE | re.DOTALL)  # braces around a whole file
TOKENS = re.compile(r'//[^\n]*|^ *#[^\n]*|"(?:[^"\\\n]|\\.)*"|->|\d[\w.]*|[A-Za-z_]\w*|[^\s\w]|\S', re.MULTILINE)
Place = tuple[str, int, str]  # the file, the number of its function, and of an argument's name the call


def names(op: Op) -> dict[str, str]:
    """What a spec names, but for roles, axes and words; and the pattern of each name."""
    symbols = [attribute.symbol for attribute in op.attributes if attribute.symbol]
    symbols += [*(dim.symbol for dim in op.dims.values()), *op.lets, *op.semantics.ranges]
    lower = [attribute.name or "" for attribute in op.attributes]
    lower += [tensor.name for tensor in (*op.inputs, *op.outputs)]
    lower += [assignment.target.tensor for step in op.semantics.steps for assignment in step.assignments]
    return dict.fromkeys(symbols, SYMBOL.pattern) | dict.fromkeys(lower, IDENTIFIER.pattern)


def fresh(op: Op) -> tuple[Op, dict[str, str]]:
    """The operation under names that no code has, and the pattern of each."""
    given: dict[str, str] = {}
    for number, (name, pattern) in enumerate(names(op).items()):
        new = f"Q{number}q" if name[0].isupper() else f"q{number}q"
        op, given[new] = rename(op, name, new), pattern
    return op, given


def code(op: Op) -> dict[str, str]:
    """The C and the Python of an operation: kernels, module, and the source of a library in C."""
    library = Library((op,), {})
    files = render.texts(render.of_op(op, library), ENV)
    view = interface.interface(op, library, ENV)
    unit = None if view.op.stepped else render.unit(view.op)
    given = {"head": Head(Prose("")), "i": view, "unit": unit, "prefix": "lib"}
    files["operation.c"] = ENV.get_template("interface/operation.c.j2").render(**given)
    # Programs for sizes that fit spell these as polynomials, the factors of which are sorted by name.
    told = {path: text for path, text in files.items() if SUFFIX not in path}
    return {path: text for path, text in told.items() if path.endswith((".c", ".h", ".py"))}


def identifiers(files: Mapping[str, str]) -> Iterator[tuple[Place, str]]:
    """The identifiers of code, each with where it has its meaning."""
    for path, text in files.items():
        yield from _python(path, text) if path.endswith(".py") else _c(path, text)


def _c(path: str, text: str) -> Iterator[tuple[Place, str]]:
    """All but members where they are used, which where a struct declares them are seen."""
    function, depth, before = 0, 0, ""
    text = re.sub(r"offsetof\((\w+), (\w+)\)", r"\1->\2", CPP.sub("", text))
    for token in TOKENS.findall(text):
        depth += (token == "{") - (token == "}")
        function += depth == 0 and token in ("}", ";")
        if re.match(r"[A-Za-z_]", token) and before not in ("->", "."):
            yield (path, function, ""), token
        before = token


def _python(path: str, text: str) -> Iterator[tuple[Place, str]]:
    """Names of arguments are told apart within one call."""
    function, calls, before = 0, list[int](), ""
    found = [token for token in tokenize.generate_tokens(io.StringIO(text).readline) if token.string.strip()]
    for number, (token, after) in enumerate(zip(found, [*found[1:], found[-1]], strict=True)):
        if token.string == "(":
            calls.append(number)
        elif token.string == ")":
            calls.pop()
        if token.type == tokenize.NAME and before not in ("def", "."):
            argument = bool(calls) and after.string == "=" and before in ("(", ",")
            yield (path, function, f"argument of {calls[-1]}" if argument else ""), token.string
        function += token.start[1] == 0
        before = token.string


def collisions(files: Mapping[str, str], others: Mapping[str, str]) -> list[str]:
    """Identifiers of the first code that are different there, but the same in the second."""
    meant: dict[tuple[Place, str], str] = {}
    found = []
    pairs = zip(identifiers(files), identifiers(others), strict=True)
    for (place, name), (_, other) in pairs:
        known = meant.setdefault((place, other), name)
        if known != name:
            found.append(f"{place[0]}: {known} and {name} are both {other}")
    return sorted({*found})


def candidates(op: Op, files: Mapping[str, str]) -> list[str]:
    """What a spec might name as generated code names something, but for whole names of its kernels and words of C++."""
    found = {name.removeprefix("opwright_") for _, name in identifiers(files) if f"{op.function}_" not in name}
    words = {word for name in found for word in (name, name.strip("_"), *name.strip("_").split("_"))}
    return sorted(words - interface.CPP_WORDS - {""})


def hostile(op: Op, given: Mapping[str, str], words: Sequence[str], rng: Rng, share: float) -> Op:
    """The operation with some of its fresh names replaced by words that the rules about names allow."""
    for name, pattern in given.items():
        word = words[int(rng.integers(len(words)))]
        if rng.random() < share and re.fullmatch(pattern, word):
            other = rename(op, name, word)
            if word not in names(op) and not refusal(word, FUNCTIONS, pattern) and not [*rules.names(other)]:
                op = other
    return op
