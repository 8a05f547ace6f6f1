"""The exceptions of the package.

In: what a validator found. Out: an exception that says what to do about it.
Leaf modules know neither the operation nor its spec. They raise `Refusal`; the operation makes it a `SpecError`.
"""

from __future__ import annotations

import copyreg

from ._words import MAX_LETTERS, literal, shortened

NO_MEMORY = (MemoryError, SystemError)
"""What Python raises without memory: a SystemError, if there is none for an error either."""


class BuildError(RuntimeError):
    """The kernels can be neither found nor compiled; the message says why and what to do."""


def missing(integration: str, error: ModuleNotFoundError, needs: str) -> ModuleNotFoundError:
    """The error of an integration whose library is not installed, with the requirement that brings it."""
    message = f"{integration} needs {error.name}, which is not installed: pip install '{needs}'"
    return ModuleNotFoundError(message, name=error.name, path=error.path)


class SpecError(ValueError):
    """A call that the specification refuses; nothing was computed and nothing was written.

    Attributes: `op`, `rule` (the id of the broken rule), `argument`, `got` and `expected` (in words), `spec` (file:line
    of the rule, or the section of the API that states it), `nearest` (the nearest valid value, or None).
    """

    def __init__(
        self, *, op: str, rule: str, argument: str, got: str, expected: str, spec: str, nearest: object = None
    ) -> None:
        self.op = op
        self.rule = rule
        self.argument = argument
        self.got = shortened(got)
        self.expected = shortened(expected, 4 * MAX_LETTERS)
        self.spec = spec
        self.nearest = nearest
        advice = "" if nearest is None else f" (nearest valid: {literal(nearest)})"
        is_got = f"argument {argument!r} is {self.got}, expected {self.expected}"
        super().__init__(f"{op}: rule {rule}: {is_got}{advice}; see {spec}")

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle and copy without calling the constructor, which takes keywords only."""
        return copyreg.__newobj__, (type(self), *self.args), self.__dict__  # type: ignore[attr-defined]


class SpecTypeError(SpecError, TypeError):
    """A `SpecError` about the kind of an argument (a float where an integer belongs), not about its value."""


class Refusal(Exception):  # noqa: N818  # not an error yet: `error` makes it one
    """Internal: a broken rule found where the operation is not known. Never leaves the package.

    `wrong_kind` says that the argument is of the wrong kind altogether.
    """

    def __init__(
        self,
        rule: str,
        argument: str,
        got: str,
        expected: str,
        nearest: object = None,
        wrong_kind: bool = False,
    ) -> None:
        super().__init__(rule, argument, got, expected, nearest, wrong_kind)
        self.rule = rule
        self.argument = argument
        self.got = got
        self.expected = expected
        self.nearest = nearest
        self.wrong_kind = wrong_kind

    def error(self, op: str, spec: str) -> SpecError:
        """The public error: this refusal, with operation `op` and the place `spec` that states the rule."""
        kind = SpecTypeError if self.wrong_kind else SpecError
        return kind(
            op=op,
            rule=self.rule,
            argument=self.argument,
            got=self.got,
            expected=self.expected,
            spec=spec,
            nearest=self.nearest,
        )
