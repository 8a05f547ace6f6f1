"""What a generated header declares: the text of each struct, type and kernel, by its name.

In: the text of `include/opwright/<operation>.h`. Out: declarations without comments, in one line each.
"""

from __future__ import annotations

import re

_STATEMENT = re.compile(r"(?:[^;{]|\{[^}]*\})+;")


def declarations(header: str) -> dict[str, str]:
    """Each name that a program may use, with what it is."""
    plain = re.sub(r"#if defined\(__cplusplus\)\n.*?\n#endif", "", header, flags=re.DOTALL)
    plain = re.sub(r"//[^\n]*|^#[^\n]*", "", plain, flags=re.MULTILINE)
    found = {}
    for statement in _STATEMENT.findall(plain):
        text = " ".join(statement.rstrip(";").split())
        if text.startswith("typedef struct"):
            found[text.split()[-1]] = text
        elif "(" in text:
            found[re.findall(r"\w+", text.partition("(")[0])[-1]] = text
        else:
            kind, *names = re.findall(r"\w+", text)
            found |= dict.fromkeys(names, kind)
    return found
