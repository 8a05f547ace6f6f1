"""Formulas of pages as MathML, which browsers draw by themselves.

In: the text of a fence `math`, in LaTeX as the reference pages have it. Out: HTML.
"""

from __future__ import annotations

import html
import re
from typing import Any

from latex2mathml.converter import convert

RELATION = re.compile("<mo>(<mrow>.*?</mrow>)</mo>")  # an operator of several characters, which MathML has as one text
TAG = re.compile("<[^>]*>")


def fence(source: str, language: str, class_: str, options: Any, md: Any, **_: Any) -> str:
    """What stands for a fence; the LaTeX is its title."""
    # What latex2mathml does not know is written with what it does.
    text = source.replace(r"\mathrel{+}=", r"\mathrel{+=}").replace(r"\operatorname", r"\mathrm")
    made = RELATION.sub(lambda found: f"<mo>{TAG.sub('', found[1])}</mo>", convert(text, display="block"))
    return f'<div class="{class_}" title="{html.escape(source, quote=True)}">{made}</div>'
