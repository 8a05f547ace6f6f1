"""The published JSON Schema accepts what the loader accepts, and an editor sees the same misspellings."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from opwright.language.library import Common, Sources
from opwright.language.model import Op
from opwright.language.structs import Node, json_schema
from support.specs import OTHERS, real_texts

jsonschema = pytest.importorskip("jsonschema")

ROOTS: dict[str, type[Node]] = {"_common.yaml": Common, "_sources.yaml": Sources}
TEXTS = {**real_texts(), **OTHERS}


def errors(root: type[Node], text: str) -> list[Any]:
    schema = json_schema(root, "test")
    jsonschema.Draft202012Validator.check_schema(schema)
    return list(jsonschema.Draft202012Validator(schema).iter_errors(yaml.safe_load(text)))


@pytest.mark.parametrize("name", TEXTS)
def test_every_spec_is_valid_as_plain_data(name: str) -> None:
    assert errors(ROOTS.get(name, Op), TEXTS[name]) == []


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("revision:", "revison:"),
        ("revision: 1", "revision: first"),
        ("revision: 1\n", ""),
        ("length: spatial", "length: spacial"),
        ("length: spatial", "lenght: spatial"),
        ("name: src", "name: Src"),
        ("accumulate: f32", "accumulate: f31"),
    ],
)
def test_what_the_loader_refuses_by_type_the_schema_refuses(old: str, new: str) -> None:
    text = OTHERS["avg_pool.yaml"]
    assert old in text
    assert errors(Op, text.replace(old, new, 1))


def test_every_key_is_documented() -> None:
    for root in (Op, Common, Sources):
        for name, definition in json_schema(root, "test")["$defs"].items():
            shape = definition.get("anyOf", [definition])[-1]
            assert shape["description"], name
            assert all(value["description"] for value in shape["properties"].values()), name
