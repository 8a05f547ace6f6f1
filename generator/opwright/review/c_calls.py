"""What an edit does to programs that call the exported C library: members of the structs of calls, and names.

In: the operations that changed. Out: edits that follow from edits of specs. A program in source finds members by their
names (API); a compiled one by their places (ABI).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ..emit.c import interface as c_interface
from ..language.model import Op
from .edit import Edit


def edits(changed: Iterable[tuple[Op, Op]]) -> Iterator[Edit]:
    """An edit for each operation whose C function or struct differs: of the API, or of the ABI alone."""
    for old, op in changed:
        was, now = _members(old), _members(op)
        gone = [member for member in was if member not in now]
        if old.function != op.function:
            sides = (f"opwright_{old.function}", f"opwright_{op.function}")
            yield Edit("c-api-changed", op.op, "C function", *sides, old.at, op.at, lambda made: made)
        elif gone:
            sides = ("; ".join(gone), "; ".join(member for member in now if member not in was) or "nothing")
            yield Edit("c-api-changed", op.op, "C struct", *sides, old.at, op.at, lambda made: made)
        elif was != now:
            sides = ("; ".join(was), "; ".join(now))
            yield Edit("c-abi-changed", op.op, "C struct", *sides, old.at, op.at, lambda made: made)


def _members(op: Op) -> list[str]:
    """The members of the struct of a call, in their order."""
    return [f"{one.c_type.rstrip()} {one.name}".replace("* ", "*") for one in c_interface.arguments(op)]
