"""The schema of spec text: a small set of kinds that decode YAML nodes and print a JSON Schema.

In: composed YAML nodes. Out: texts, numbers, formulas, lists and mappings of them; mappings with declared keys are
those of structs.py. The expected kind directs decoding: `no` or `1e3` in a text field is text. An invalid field becomes
a problem and a placeholder.
"""

from __future__ import annotations

import dataclasses
import re
from dataclasses import dataclass
from typing import Any, Protocol

import yaml

from . import expr, hints
from .reserved import refusal
from .source import Mark, Problem, SpecInvalid, suggestion

MAX_TEXT = 2000
MAX_ITEMS = 200


class Problems(list[Problem]):
    """Collects problems while decoding."""

    def note(self, mark: Mark, rule: str, message: str) -> None:
        self.append(Problem(mark, rule, message))


class Spelled(str):
    """A str that knows its place in the spec."""

    at: Mark


def spelled(text: str, at: Mark) -> Spelled:
    result = Spelled(text)
    result.at = at
    return result


def place(text: str | None, otherwise: Mark) -> Mark:
    """The place of a text of a spec; `otherwise` for other texts."""
    return text.at if isinstance(text, Spelled) else otherwise


class Kind(Protocol):
    """A kind of YAML value."""

    def decode(self, node: yaml.Node, file: str, problems: Problems) -> Any: ...

    def schema(self, definitions: dict[str, Any]) -> dict[str, Any]: ...


def mark_of(node: yaml.Node, file: str) -> Mark:
    return Mark(file, node.start_mark.line + 1, node.start_mark.column + 1)


def _article(node: yaml.Node) -> str:
    if isinstance(node, yaml.MappingNode):
        return "a mapping"
    return "a list" if isinstance(node, yaml.SequenceNode) else "a text"


def scalar(node: yaml.Node, file: str, problems: Problems, expected: str) -> str | None:
    """The text of a scalar; None, and a problem, for any other node."""
    if isinstance(node, yaml.ScalarNode):
        return str(node.value)
    problems.note(mark_of(node, file), "kind", f"expected {expected} but found {_article(node)}")
    return None


@dataclass(frozen=True)
class Text:
    """Free text for people; printable, of bounded length."""

    def decode(self, node: yaml.Node, file: str, problems: Problems) -> str:
        text = scalar(node, file, problems, "a text") or ""
        if len(text) > MAX_TEXT:
            problems.note(mark_of(node, file), "text-length", f"a text has at most {MAX_TEXT} characters")
            return ""
        text = " ".join(text.split())
        if not text.isprintable():
            problems.note(mark_of(node, file), "text-printable", "a text may contain printable characters only")
            return ""
        return spelled(text, mark_of(node, file))

    def schema(self, definitions: dict[str, Any]) -> dict[str, Any]:
        return {"type": ["string", "number", "boolean"]}


@dataclass(frozen=True)
class Word:
    """A name that matches a pattern; with `identifier` it must not be a reserved word of C or Python."""

    pattern: str
    what: str
    identifier: bool = False
    alias: str = ""  # how a reserved word can be kept as a name of pages

    def decode(self, node: yaml.Node, file: str, problems: Problems) -> str:
        text = scalar(node, file, problems, self.what)
        if text is None:
            return ""
        mark = mark_of(node, file)
        if len(text) > 64 or not re.fullmatch(self.pattern, text):
            hint = hints.spelled(text[:70], self.pattern)
            form = f"it must match {self.pattern}, 64 at most"
            problems.note(mark, "name", f"{text[:70]!r} is not {self.what} ({form}){hint}")
        elif self.identifier and (message := refusal(text, expr.FUNCTIONS, self.pattern)) is not None:
            problems.note(mark, "name-reserved", message + self.alias.format(text))
        return spelled(text, mark)

    def schema(self, definitions: dict[str, Any]) -> dict[str, Any]:
        return {"type": "string", "pattern": f"^(?:{self.pattern})$", "maxLength": 64}


@dataclass(frozen=True)
class OneOf:
    """One of a few words."""

    words: tuple[str, ...]

    def decode(self, node: yaml.Node, file: str, problems: Problems) -> str:
        text = scalar(node, file, problems, f"one of {', '.join(self.words)}")
        if text is not None and text not in self.words:
            word = hints.word(text, self.words)
            hint = f"; write {word}" if word else suggestion(text, self.words)
            problems.note(mark_of(node, file), "value", f"{text[:70]!r} is none of {', '.join(self.words)}{hint}")
            return self.words[0]
        return spelled(text or self.words[0], mark_of(node, file))

    def schema(self, definitions: dict[str, Any]) -> dict[str, Any]:
        return {"enum": list(self.words)}


@dataclass(frozen=True)
class Integer:
    """A 64-bit integer."""

    minimum: int = expr.INT64_MIN
    maximum: int = expr.INT64_MAX

    def decode(self, node: yaml.Node, file: str, problems: Problems) -> int:
        text = scalar(node, file, problems, "an integer")
        if text is None or not re.fullmatch(r"-?[0-9]{1,19}", text):
            if text is not None:
                problems.note(mark_of(node, file), "kind", f"expected an integer but found {text[:40]!r}")
            return max(self.minimum, 0)
        value = int(text)
        if not self.minimum <= value <= self.maximum:
            problems.note(mark_of(node, file), "range", f"{value} is not within {self.minimum} to {self.maximum}")
        return value

    def schema(self, definitions: dict[str, Any]) -> dict[str, Any]:
        return {"type": "integer", "minimum": self.minimum, "maximum": self.maximum}


@dataclass(frozen=True)
class Flag:
    """true or false."""

    def decode(self, node: yaml.Node, file: str, problems: Problems) -> bool:
        text = scalar(node, file, problems, "true or false")
        if text not in (None, "true", "false"):
            problems.note(mark_of(node, file), "kind", f"expected true or false but found {text[:40]!r}")
        return text == "true"

    def schema(self, definitions: dict[str, Any]) -> dict[str, Any]:
        return {"type": "boolean"}


@dataclass(frozen=True)
class Located:
    """An expression of the language, with its text and place."""

    tree: expr.Expr
    text: str = dataclasses.field(compare=False)
    at: Mark = dataclasses.field(compare=False, repr=False)


@dataclass(frozen=True)
class Formula:
    """An expression of the spec language."""

    def decode(self, node: yaml.Node, file: str, problems: Problems) -> Located:
        text = scalar(node, file, problems, "an expression") or "0"
        quoted = isinstance(node, yaml.ScalarNode) and node.style in ("'", '"')
        mark = mark_of(node, file).moved(int(quoted))
        try:
            return Located(expr.parse(text, mark), text, mark)
        except SpecInvalid as invalid:
            problems.extend(invalid.problems)
            return Located(expr.Number(0), "0", mark)

    def schema(self, definitions: dict[str, Any]) -> dict[str, Any]:
        return {"type": ["string", "integer"], "maxLength": expr.MAX_LENGTH}


@dataclass(frozen=True)
class Assignment:
    """`target op= value` over tensor elements; op is one of ASSIGNMENTS."""

    target: expr.Read
    op: str
    value: expr.Expr
    text: str = dataclasses.field(compare=False)
    at: Mark = dataclasses.field(compare=False, repr=False)
    value_at: Mark = dataclasses.field(default=Mark(), compare=False, repr=False)


# The operator before `=`, and its name.
ASSIGNMENTS = {"": "set", "+": "sum", "*": "product", "max": "max", "min": "min"}
_ASSIGNMENT = re.compile(r"(?P<target>[^=<>]+?)\s*(?P<op>\+|\*|\bmax|\bmin|)=(?!=)\s*(?P<value>.+)")


@dataclass(frozen=True)
class Statement:
    """An assignment of the spec language, with one of the given operators."""

    operators: tuple[str, ...]

    def decode(self, node: yaml.Node, file: str, problems: Problems) -> Assignment | None:
        text = scalar(node, file, problems, "an assignment")
        if text is None:
            return None
        quoted = isinstance(node, yaml.ScalarNode) and node.style in ("'", '"')
        mark = mark_of(node, file).moved(int(quoted))
        found = _ASSIGNMENT.fullmatch(text) if len(text) <= 2 * expr.MAX_LENGTH else None
        hint = hints.operator(text[: expr.MAX_LENGTH])
        if not found or found["op"] not in self.operators or hint:
            forms = ", or ".join(f"out[...] {operator}= value" for operator in self.operators)
            problems.note(mark, "semantics-form", f"expected {forms}{hint}")
            return None
        try:
            target = expr.parse(found["target"], mark)
            value_at = mark.moved(found.start("value"))
            value = expr.parse(found["value"], value_at)
        except SpecInvalid as invalid:
            problems.extend(invalid.problems)
            return None
        if not isinstance(target, expr.Read):
            message = "the left side must be a tensor with its indices, as in dst[n, m], or total[] for one number"
            problems.note(mark, "semantics-form", message)
            return None
        return Assignment(target, ASSIGNMENTS[found["op"]], value, text, mark, value_at)

    def schema(self, definitions: dict[str, Any]) -> dict[str, Any]:
        return {"type": "string", "maxLength": 2 * expr.MAX_LENGTH}


@dataclass(frozen=True)
class ListOf:
    """A list of one kind."""

    item: Kind

    def decode(self, node: yaml.Node, file: str, problems: Problems) -> tuple[Any, ...]:
        if not isinstance(node, yaml.SequenceNode):
            plain = isinstance(node, yaml.ScalarNode) and not node.style and str(node.value)
            hint = f"; write [{plain}]" if plain and len(plain) <= 60 and plain.isprintable() else ""
            problems.note(mark_of(node, file), "kind", f"expected a list but found {_article(node)}{hint}")
            return ()
        if len(node.value) > MAX_ITEMS:
            problems.note(mark_of(node, file), "too-many", f"a list has at most {MAX_ITEMS} entries")
            return ()
        return tuple(self.item.decode(child, file, problems) for child in node.value)

    def schema(self, definitions: dict[str, Any]) -> dict[str, Any]:
        return {"type": "array", "items": self.item.schema(definitions), "maxItems": MAX_ITEMS}


@dataclass(frozen=True)
class MapOf:
    """A mapping from names of one kind to values of one kind; the order of the text is kept."""

    key: Word
    item: Kind

    def decode(self, node: yaml.Node, file: str, problems: Problems) -> dict[str, Any]:
        result: dict[str, Any] = {}
        for key_node, child in entries(node, file, problems, "a mapping, as in {name: value}"):
            key = self.key.decode(key_node, file, problems)
            if key in result:
                problems.note(mark_of(key_node, file), "duplicate-key", f"{key[:70]!r} appears twice; write it once")
            result[key] = self.item.decode(child, file, problems)
        return result

    def schema(self, definitions: dict[str, Any]) -> dict[str, Any]:
        key = self.key.schema(definitions)["pattern"]
        return {
            "type": "object",
            "patternProperties": {key: self.item.schema(definitions)},
            "additionalProperties": False,
        }


def entries(
    node: yaml.Node, file: str, problems: Problems, expected: str = "a mapping"
) -> list[tuple[yaml.Node, yaml.Node]]:
    """The key and value nodes of a mapping; none, and a problem, if the node is not a mapping."""
    if not isinstance(node, yaml.MappingNode):
        problems.note(mark_of(node, file), "kind", f"expected {expected} but found {_article(node)}")
        return []
    if len(node.value) > MAX_ITEMS:
        problems.note(mark_of(node, file), "too-many", f"a mapping has at most {MAX_ITEMS} entries")
        return []
    return list(node.value)
