"""A review for programs: JSON, and the schema that describes it (docs/diff.schema.json)."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

from ..language.source import Mark
from . import words
from .advice import advice
from .evidence import VALUE_SCHEMA, WITNESS_SCHEMA
from .findings import Finding, Review
from .rules import CONTRACTS, RULES, SEVERITIES

SCHEMA_VERSION = 2


def as_json(review: Review, with_code: bool = False) -> str:
    """The form that docs/diff.schema.json describes."""
    whole = {
        "version": SCHEMA_VERSION,
        "base": review.base,
        "head": review.head,
        "exit_code": review.exit_code,
        "contracts": words.contracts(review),
        "predicted": not review.impact.unpredicted,
        "kernels": review.impact.kernels,
        "findings": [_finding(finding) for finding in review.findings],
        "values": None if review.values is None else [asdict(value) for value in review.values.values()],
        "code": words.code_changes(review) if with_code else [],
        "invalid": None,
    }
    return json.dumps(whole, indent=2) + "\n"


def place(mark: Mark | None) -> dict[str, Any] | None:
    """A place as JSON."""
    return {"file": mark.file, "line": mark.line, "column": mark.column} if mark else None


def _finding(finding: Finding) -> dict[str, Any]:
    moved, rule = finding.moved, finding.rule
    return {
        "rule": rule.id,
        "severity": finding.severity,
        "contract": rule.contract,
        "kernel": rule.kernel,
        "record": rule.record or None,
        "direction": rule.direction,
        "operations": list(finding.ops),
        "path": finding.path,
        "was": finding.was,
        "is": finding.now,
        "before": place(finding.old),
        "after": place(finding.new),
        "reason": rule.reason,
        "action": advice(finding),
        "files": sorted(moved.files),
        "kernels": {
            "changed": sorted(moved.kernels),
            "added": sorted(moved.added),
            "removed": sorted(moved.removed),
        },
        "witness": finding.witness.as_json() if finding.witness else None,
        "reproduce": finding.reproduce,
        "fingerprint": finding.fingerprint,
        "waived": finding.waived or None,
    }


_WORD, _WORDS, _MAYBE = {"type": "string"}, {"type": "array", "items": {"type": "string"}}, {"type": ["string", "null"]}
_COUNT, _PLACE_NUMBER = {"type": "integer", "minimum": 0}, {"type": "integer", "minimum": 1}


def _object(properties: dict[str, Any], kind: str | list[str] = "object") -> dict[str, Any]:
    return {"type": kind, "properties": properties, "required": list(properties), "additionalProperties": False}


def schema() -> dict[str, Any]:
    """The JSON Schema of the json form."""
    where = {"file": _WORD, "line": _PLACE_NUMBER, "column": _PLACE_NUMBER}
    at = _object(where, ["object", "null"])
    finding = {
        "rule": {"enum": sorted(RULES)}, "severity": {"enum": list(SEVERITIES)}, "contract": {"enum": list(CONTRACTS)},
        "kernel": _WORD, "record": _MAYBE, "direction": _WORD, "operations": _WORDS, "path": _WORD, "was": _WORD,
        "is": _WORD, "before": at, "after": at, "reason": _WORD, "action": _WORD, "files": _WORDS,
        "kernels": _object({"changed": _WORDS, "added": _WORDS, "removed": _WORDS}), "witness": WITNESS_SCHEMA,
        "reproduce": _WORD, "fingerprint": {"type": "string", "pattern": "^[0-9a-f]{16}$"}, "waived": _MAYBE,
    }  # fmt: skip
    problem = _object({**where, "rule": _WORD, "message": _WORD})
    whole = {
        "version": {"const": SCHEMA_VERSION}, "base": _MAYBE, "head": _MAYBE,
        "exit_code": {"enum": [0, 1, 3, 5, 6]}, "contracts": _object(dict.fromkeys(CONTRACTS, _COUNT)),
        "predicted": {"type": ["boolean", "null"]}, "kernels": _COUNT,
        "findings": {"type": "array", "items": _object(finding)},
        "values": {"type": ["array", "null"], "items": VALUE_SCHEMA}, "code": _WORDS,
        "invalid": _object({"side": _WORD, "problems": {"type": "array", "items": problem}}, ["object", "null"]),
    }  # fmt: skip
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "opwright diff --format json",
        **_object(whole),
    }
