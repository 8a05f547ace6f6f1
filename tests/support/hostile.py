"""Text that attacks: what may stand in free text must do nothing in C, Python, Markdown or a template."""

from __future__ import annotations

from collections.abc import Mapping

# Each is legal free text (a summary, a `say`, a `why`); a generated file must carry it as text.
hostile_texts = [
    "*/ #include </etc/passwd> /*",
    "*/ int main(void) { return system(0); } /*",
    "// ends with a backslash \\",
    "??/ trigraph",
    '""" + __import__("os").system("true") + """',
    "''' # python",
    "\" quotes \" and ' ticks ' and ` marks `",
    "back\\slashes \\n \\x41 \\u0041 \\N{BULLET}",
    "{{ 7 * 7 }} {% for x in y %} {# gone #} {%- raw -%}",
    "# line statement\r\n## and more",
    "$(true) `true` ; true && true | true %s %n ${HOME}",
    "<script>alert(1)</script> &lt; <!-- --> ]]>",
    "[link](javascript:alert(1)) ![image](x) | cell | **bold** _low_",
    "#define S 0",
    '_Pragma("GCC poison x") #pragma once',
    'ends with a quote "',
    "f-string {S!r:>{width}} %(name)s {0}",
    "naïve café Ω 漢字 emoji 🙂",
]

# None of these may name anything: words of C, Python or the package, and what only looks like a name.
HOSTILE_NAMES = [
    "while", "int", "typedef", "restrict", "NULL", "INFINITY", "int64_t", "import", "class", "None", "lambda", "match", "print",
    "len", "__class__", "__init__", "_private", "inf", "out", "self", "threads", "sizes", "count", "rules", "opwright",
    "а", "ｎ", "naïve", "x\u200b", "x y", "x;", "x*/", "x\n", "x\\", 'x"', "{{x}}", "x[0]", "1x", "", "n" * 65,
]  # fmt: skip

# Control characters, formats, and marks that turn the direction of text.
INVISIBLE = [
    "\x00", "\x07", "\x1b", "\x7f", "\x9b", "\u00ad", "\u200b", "\u200e", "\u202a", "\u202e", "\u2066", "\u2069", "\ufeff",
    "\U000e0041", "\ue000",
]  # fmt: skip


def quoted(text: str) -> str:
    """A text as a YAML scalar in double quotes."""
    escapes = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r"}
    return '"' + "".join(escapes.get(character, character) for character in text) + '"'


def with_hostile_texts(texts: Mapping[str, str]) -> dict[str, str]:
    """The same specs with every hostile text in their free texts: whole lines of `summary`, `say`, `why`, `page`, ..."""
    every = " ".join(hostile_texts)
    keys = ("summary", "say", "why", "page", "library", "ruling", "reason", "title", "release", "form")
    result = {}
    for name, text in texts.items():
        lines = []
        for line in text.splitlines():
            head, _, rest = line.partition(":")
            whole = head.strip().removeprefix("- ") in keys and rest.strip()
            lines.append(f"{head}: {quoted(every)}" if whole else line)
        result[name] = "\n".join(lines) + "\n"
    return result
