"""The rules of operations of steps, by stage, as in stages.py for the others."""

from __future__ import annotations

from ..derive.rules import missing_axes, step_dtypes, step_keys, steps, summed_keys
from . import declarations, expressions, names
from .onnx_nodes import onnx_nodes
from .rules import Rule
from .torch_calls import torch_calls

STAGES_OF_STEPS: tuple[tuple[Rule, ...], ...] = (
    (declarations.complete, step_keys.counted),
    (names.names, declarations.attributes, step_keys.tensors, summed_keys.declared, declarations.constraints),
    (declarations.relations, torch_calls, onnx_nodes, expressions.symbols),
    (expressions.expressions,),
    (steps.semantics,),
    (summed_keys.used,),
    (step_dtypes.dtypes, expressions.steps, missing_axes.of_steps),
)
