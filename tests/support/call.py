"""One call of one operation, as every witness understands it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Call:
    """Operation by its page's name, inputs in the page's order (None: not given), attributes under the page's names."""

    op: str
    inputs: tuple[np.ndarray | None, ...]
    attributes: dict[str, Any] = field(default_factory=dict)
