"""`opwright schema`: the JSON Schema of the spec language."""

from __future__ import annotations

import argparse
import json

EXAMPLE = "opwright schema > spec.schema.json   # for the YAML support of an editor"
KINDS = ("op", "common", "sources")  # kinds of files


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("kind", nargs="?", choices=sorted(KINDS), default="op", help="the kind of file (default: op)")


def run(options: argparse.Namespace) -> int:
    from ..language import structs
    from ..language.library import Common, Sources
    from ..language.model import Op

    roots: dict[str, type[structs.Node]] = {"op": Op, "common": Common, "sources": Sources}
    root = roots[options.kind]
    print(json.dumps(structs.json_schema(root, f"Opwright: {(root.__doc__ or '').strip()}"), indent=2))
    return 0
