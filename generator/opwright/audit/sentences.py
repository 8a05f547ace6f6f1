"""The sentences of a page that state rules: divisibility, which source of a shape wins, what is ignored.

In: an operation and a page. Out: findings. The expected statement follows from the structure of the spec, never from
its prose: a shape stated by an input and an attribute, or a padding whose cases do not use the pads. A sentence that
this reader cannot parse is ignored, and its field is silent.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from ..language import expr
from ..language.expr import Expr, Name, substitute
from ..language.model import Attribute, Constraint, Op, Tensor
from ..language.source import Mark, SpecInvalid
from .finding import Finding
from .page import HOLE, Page

# Names of sizes on pages that differ from those of the specs.
ROLES = {"spatial_shape": "kernel_spatial", "kernel_shape": "kernel_spatial"}
END = re.compile(r"(?<=[.:;!?]) +")
NEGATED = re.compile(r"\b(not|never|no longer|need not|neither|nor|cannot)\b|n't\b", re.IGNORECASE)
WEAK = re.compile(r"\b(may|can|might|could|either|or|unless|optionally)\b", re.IGNORECASE)
DIVISIBLE = re.compile(r"(.{0,300})\b(?:divisible by|multiples? of)(?: the)? (\w+)", re.IGNORECASE)
FIRST_WINS = (
    r"preced|overrid|overrul|prevail|wins?\b|supersed|takes? (?:precedence|priority)|has (?:precedence|priority)"
)
WINS = re.compile(rf"\b(?:{FIRST_WINS}|is used\b|is preferred|is ignored)", re.IGNORECASE)
LOSES = re.compile(r"\b(?:is|be|are) (?:\w+ )?(?:overridden|overruled|preceded|superseded|ignored)", re.IGNORECASE)
SOURCE = re.compile(r"\b(input|attribute)\b", re.IGNORECASE)
GIVEN = re.compile(r"\b(?:provided|given|set|specified|stated|present)\b", re.IGNORECASE)
IGNORED = re.compile(r"\b(?:ignored|unused|disregarded|without effect|no effect|dropped)\b", re.IGNORECASE)
USED = re.compile(r"\b(?:honou?red|used|respected|applied|added|considered|kept|obeyed|effective)\b", re.IGNORECASE)
OPERANDS = re.compile(
    r"operation (?:takes|accepts|receives|needs) (.{1,300}?)(?:,| as inputs| and|\s)+comput\w*(?: the)? (.{1,200})"
)
TENSOR = re.compile(r"\b(?:diff_?)?(?:src|dst|weights|bias)(?:[_ ]shape)?\b")


@dataclass(frozen=True)
class Sentence:
    """One sentence of a page, and the start of its paragraph."""

    text: str
    at: Mark


def sentences(op: Op, page: Page) -> Iterator[Finding]:
    """Findings for all rules stated in sentences."""
    found = [Sentence(part, text.at) for text in page.texts if not text.heading for part in END.split(text.text)]
    yield from divisions(op, page, found)
    yield from precedence(op, page, found)
    yield from ignored(op, page, found)
    yield from operands(op, found)


# Divisibility.


def divisions(op: Op, page: Page, sentences: Sequence[Sentence]) -> Iterator[Finding]:
    """Compare sentences about division with the constraints; also find constraints without a sentence."""
    by_formula = {c.expr.tree: c for c in op.constraints if c.expr is not None}
    reported: set[str] = set()
    for sentence in sentences:
        found = DIVISIBLE.search(sentence.text)
        if found is None:
            continue
        before, divisor = found[1].rpartition(":")[2], found[2]
        names = [word for word in re.findall(r"\w+", before) if "_" in word]
        weak = NEGATED.search(before) or WEAK.search(before)
        if not names:
            for constraint in _dividing(op, divisor):
                reported.add(str(constraint.id))
                what = sentence.text if weak else f"{HOLE} divisible by {divisor}"
                yield _division("contradiction" if weak else "lost", constraint, what, sentence)
        for name in names:
            rule = by_formula.get(extent(f"{name} % {divisor} == 0", op))  # type: ignore[arg-type]
            if rule is None:
                field, at, what = f"constraints.{name}", op.at.key("constraints"), f"{name} divisible by {divisor}"
                yield Finding("contradiction", field, what, "no such constraint", sentence.at, at)
                continue
            reported.add(str(rule.id))
            what = sentence.text if weak else f"{name} divisible by {divisor}"
            yield _division("contradiction" if weak else "agree", rule, what, sentence)
    for attribute in op.attributes:
        for constraint in _dividing(op, str(attribute.name)):
            if constraint.id not in reported:
                yield _division("silent", constraint, "", Sentence("", page.at))


def _dividing(op: Op, divisor: str) -> Iterator[Constraint]:
    """The constraints that make a size a multiple of an attribute."""
    for constraint in op.constraints:
        if constraint.argument == divisor and constraint.expr and re.fullmatch(r"\w+ % \w+ == 0", constraint.expr.text):
            yield constraint


def _division(status: str, constraint: Constraint, quote: str, sentence: Sentence) -> Finding:
    rule = constraint.expr.text if constraint.expr else ""
    return Finding(status, f"constraints.{constraint.id}", quote, rule, sentence.at, constraint.at)


def extent(text: str, op: Op) -> Expr | None:
    """An extent in the spec's symbols; None if it is not an expression."""
    symbols = {role: dim.symbol for role, dim in op.dims.items()}
    symbols |= {str(attribute.name): attribute.symbol or "" for attribute in op.attributes}
    symbols |= {word: symbols[role] for word, role in ROLES.items() if role in symbols}
    try:
        return substitute(expr.parse(text), {word: Name(symbol) for word, symbol in symbols.items()})
    except SpecInvalid:
        return None


# Which of two sources of a shape wins.


def precedence(op: Op, page: Page, sentences: Sequence[Sentence]) -> Iterator[Finding]:
    """Sentences about a shape stated by both an input and an attribute: the input wins, and one is required."""
    for tensor in op.inputs:
        for attribute in op.attributes:
            if tensor.shape_of and tensor.shape_of == attribute.shape_of:
                yield from _precedence(tensor, attribute, page, sentences)


def _precedence(tensor: Tensor, attribute: Attribute, page: Page, sentences: Sequence[Sentence]) -> Iterator[Finding]:
    about = [s for s in sentences if len(SOURCE.findall(s.text)) > 1 and re.search(r"_shape\b", s.text)]
    orders = [sentence for sentence in about if WINS.search(sentence.text) or LOSES.search(sentence.text)]
    needs = [s for s in about if s not in orders and GIVEN.search(s.text)]
    rules = (
        ("precedence", orders, "the input wins", _input_wins, tensor.at),
        ("needed", needs, "one of the two is needed", _one_is_needed, attribute.at),
    )
    names = {str(tensor.name), str(tensor.parameter), str(attribute.name)}
    for field, found, spec, holds, at in rules:
        path = f"inputs.{tensor.name}.{field}"
        for sentence in found:
            right = holds(sentence.text) and names.issuperset(re.findall(r"\w+_shape\b", sentence.text))
            yield Finding("agree" if right else "contradiction", path, sentence.text, spec, sentence.at, at)
        if about and not found:
            yield Finding("silent", path, "", spec, page.at, at)


def _input_wins(text: str) -> bool:
    """Whether a sentence says that the input wins over the attribute."""
    verb = LOSES.search(text) or WINS.search(text)
    if verb is None:
        return False
    before, after = SOURCE.findall(text[: verb.start()]), SOURCE.findall(text[verb.end() :])
    first = before[-1].casefold() if before else {"input": "attribute", "attribute": "input"}[after[0].casefold()]
    second = after[0].casefold() if after else None
    wins = first if not LOSES.search(text) else {"input": "attribute", "attribute": "input"}[first]
    return wins == "input" and second != first and not NEGATED.search(text)


def _one_is_needed(text: str) -> bool:
    return bool(re.search(r"\beither\b|\bone of\b", text, re.IGNORECASE)) and not (
        NEGATED.search(text) or re.search(r"\b(?:may|can|might|omitted)\b", text, re.IGNORECASE)
    )


# Attributes that are ignored for some words of another attribute.


def ignored(op: Op, page: Page, sentences: Sequence[Sentence]) -> Iterator[Finding]:
    """Sentences about attributes used for some words of another one only, as pads are for `none` of auto_pad."""
    for chooser in op.attributes:
        uses = _uses(op, str(chooser.name))
        about = [s for s in sentences if re.search(rf"\b{chooser.name}\b", s.text)]
        for name, words in uses.items():
            named = [s for s in about if re.search(rf"\b{name}\b", s.text)]
            spec = f"counts for {', '.join(sorted(words))} only"
            field, at = f"attributes.{name}.ignored", op.attribute(name).at
            for sentence in named:
                right = _ignores(sentence.text, {str(allowed.value) for allowed in chooser.values or ()}, words)
                yield Finding("agree" if right else "contradiction", field, sentence.text, spec, sentence.at, at)
            if about and not named:
                yield Finding("silent", field, "", spec, page.at, at)


def _uses(op: Op, chooser: str) -> Mapping[str, set[str]]:
    """The attributes used in cases of values, with the words that use them; those used for every word are left out."""
    symbols = {attribute.symbol or str(attribute.name): str(attribute.name) for attribute in op.attributes}
    uses: dict[str, set[str]] = {}
    cases = [let.cases for let in op.lets.values() if let.by == chooser]
    for word, formula in (case for let in cases for case in let.items()):
        for symbol in re.findall(r"[A-Za-z_]\w*", formula.text):
            if symbol in symbols:
                uses.setdefault(symbols[symbol], set()).add(word)
    every = {word for let in cases for word in let}
    return {name: words for name, words in uses.items() if words != every}


def _ignores(text: str, words: set[str], using: set[str]) -> bool:
    """Whether a sentence says that something is ignored for exactly the words that do not use it."""
    says, denied = (IGNORED.search(text), NEGATED.search(text))
    ignores = bool(says) != bool(denied) if says or USED.search(text) else False
    named = {word for word in words if re.search(rf"\b{word}\b", text)}
    return ignores and (not named or named == words - using)


# Inputs and outputs.


def operands(op: Op, sentences: Sequence[Sentence]) -> Iterator[Finding]:
    """The sentence `takes a, b and optional c and computes d`, if the page still has the names."""
    for sentence in sentences:
        found = OPERANDS.search(sentence.text)
        if found is None:
            continue
        for side, part, tensors in (("inputs", found[1], op.inputs), ("outputs", found[2], op.outputs)):
            names = {_plain(str(tensor.name)): tensor for tensor in tensors}
            listed = [(_plain(word[0]), word) for word in TENSOR.finditer(part)]
            wrong = [word[0] for name, word in listed if name not in names]
            missing = [str(t.name) for n, t in names.items() if not t.optional and n not in dict(listed)]
            wrong += [
                word[0]
                for name, word in listed
                if name in names and _optional(part, word) != bool(names[name].optional)
            ]
            status = "contradiction" if wrong else "lost" if missing and HOLE in part else "agree"
            status = "contradiction" if missing and HOLE not in part else status
            spec = ", ".join(str(tensor.name) for tensor in tensors)
            yield Finding(status, f"{side}.operands", part.strip(), spec, sentence.at, op.at.key(side))


def _plain(name: str) -> str:
    return name.replace("_", "").replace(" ", "")


def _optional(part: str, word: re.Match[str]) -> bool:
    return part[: word.start()].rstrip().endswith("optional")
