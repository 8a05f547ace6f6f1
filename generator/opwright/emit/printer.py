"""The filter `c`: a node of nodes.py as the text that its macro in templates/c/nodes.c.j2 prints.

In: an environment of templates, a node, and the precedence of its place. Out: text. All C is in the macros; this module
only decides which macro a node uses, and whether it needs parentheses.
"""

from __future__ import annotations

import functools
import keyword
import re
from collections.abc import Callable, Mapping
from typing import Any, get_args

from jinja2 import Environment, pass_environment

from .nodes import Expr, Stmt

TEMPLATE = "c/nodes.c.j2"
KINDS: tuple[type, ...] = (*get_args(Expr), *get_args(Stmt))


def macro_name(kind: type) -> str:
    """The macro of a class of nodes: its name in snake_case, with a trailing underscore for keywords of Python."""
    name = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", kind.__name__).lower()
    return f"{name}_" if keyword.iskeyword(name) else name


@functools.lru_cache(8)
def _macros(environment: Environment) -> tuple[Mapping[type, Callable[[Any], str]], Callable[[Any], str]]:
    """The macro of each kind, and the one for parentheses."""
    module: Any = environment.get_template(TEMPLATE).module
    return {kind: getattr(module, macro_name(kind)) for kind in KINDS}, module.brackets


@pass_environment
def c(environment: Environment, node: Any, level: int = 0) -> str:
    """The text of an expression or a statement, in parentheses if its place requires them.

    A node memoises its text: kernels of all dtypes share most nodes.
    """
    macros, brackets = _macros(environment)
    if level and node.level < level:
        return brackets(node)
    printed = vars(node).get("_printed")
    if printed is None or printed[0] is not environment:
        printed = vars(node)["_printed"] = environment, macros[type(node)](node)
    text: str = printed[1]
    return text
