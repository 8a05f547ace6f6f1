"""How commands print: rich tables on a terminal, aligned plain columns in a pipe."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table
from rich.text import Text

from .errors import printable


class _Console(Console):
    """A console that lets `main` handle a closed pipe, where rich would exit with 1."""

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError


def console() -> Console:
    return _Console(highlight=False)


def say(out: Console, text: str = "") -> None:
    """Print a line verbatim: no markup, no wrapping."""
    out.print(printable(text), markup=False, soft_wrap=True)


@contextmanager
def bar(out: Console | None, title: str, *, transient: bool = False) -> Iterator[Callable[[str, int, int], None]]:
    """A callback for each step of a total: it moves a bar on a terminal, and does nothing elsewhere."""
    if out is None or not out.is_terminal:
        yield lambda name, done, total: None
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn(title), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, TextColumn("{task.description}"), console=out, transient=transient) as shown:
        task = shown.add_task("", total=None)
        yield lambda name, done, total: shown.update(task, completed=done, total=total, description=name)


def table(out: Console, title: str, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Print rows, if any, under column headers; columns of numbers are right-aligned."""
    if not rows:
        return
    cells = [[printable(str(cell)) for cell in row] for row in rows]
    numeric = [bool(rows) and all(isinstance(row[column], int) for row in rows) for column in range(len(columns))]
    if not out.is_terminal:
        _plain(out, columns, cells, numeric)
        return
    made = Table(title=title or None, title_justify="left", box=SIMPLE, show_header=any(columns))
    for at, (column, number) in enumerate(zip(columns, numeric, strict=True)):
        names = not any(" " in row[at] for row in cells)
        made.add_column(column, justify="right" if number else "left", overflow="fold", no_wrap=names)
    for row in cells:
        made.add_row(*map(Text, row))
    out.print(made)


def _plain(out: Console, columns: Sequence[str], cells: Sequence[Sequence[str]], numeric: Sequence[bool]) -> None:
    heads = [columns] if any(columns) else []
    widths = [max(map(len, column)) for column in zip(*heads, *cells, strict=True)]
    for row in (*heads, *cells):
        columns_of = zip(row, widths, numeric, strict=True)
        say(
            out,
            "  ".join(
                cell.rjust(width) if number else cell.ljust(width) for cell, width, number in columns_of
            ).rstrip(),
        )
