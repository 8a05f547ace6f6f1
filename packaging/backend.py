"""The build backend of the generated package: `opwright wheel`, as PEP 517 calls it.

Config settings: `ops`, names of operations separated by spaces, whose kernels to compile (default: all).
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from opwright import cli


def build_wheel(
    wheel_directory: str, config_settings: Mapping[str, str] | None = None, metadata_directory: str | None = None
) -> str:
    """Put the wheel into a folder; its name."""
    before = set(Path(wheel_directory).glob("*.whl"))
    ops = (config_settings or {}).get("ops", "").split()
    if cli.main(["wheel", *ops, "--no-audit", "--dist", wheel_directory]):
        raise SystemExit("no wheel was made")
    (made,) = set(Path(wheel_directory).glob("*.whl")) - before
    return made.name
