"""What can be timed: the kinds of rows, and of their tensors."""

from __future__ import annotations

from .own import OwnRow, OwnTensors
from .products import Product, ProductTensors
from .rows import Row
from .steps import StepRow, StepTensors
from .tensors import Tensors

AnyRow = Row | Product | StepRow | OwnRow
AnyTensors = Tensors | ProductTensors | StepTensors | OwnTensors
