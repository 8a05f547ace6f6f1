"""`opwright generate --watch`: generates again whenever a spec or a template is saved, until Ctrl-C.

In: a project. Out: one line per save with the time of day and the outcome. For an invalid spec nothing is written;
its problems are printed, and the next save is awaited. Each save generates everything again;
`write` replaces only the files that differ. The generator's own modules are not watched.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import jinja2
from rich.console import Console

from ..console import say
from ..errors import Failed, UsageError
from ..generate import generated
from ..language.source import SpecInvalid
from ..project import TEMPLATE_SUFFIXES, Project
from ..write import write

SUFFIXES = (".yaml", ".yml", *TEMPLATE_SUFFIXES)
START_MS = 200  # how long the watcher runs before the first generation, so that no save is missed


def watch(project: Project, out: Console) -> None:
    """Generate now and after every save, until Ctrl-C."""
    try:
        for saved in _saves(project):
            outcome = _outcome(project)
            say(out, f"{time.strftime('%H:%M:%S')} {', '.join(saved) or 'all specs'}: {outcome}")
    except KeyboardInterrupt:
        return


def _outcome(project: Project) -> str:
    """The outcome of a generation; further lines say why nothing was written."""
    started = time.perf_counter()
    try:
        changed = len(write(project.output, generated(project)[1]))
        files = f"{changed} file{'s' if changed > 1 else ''}" if changed else "nothing"
        return f"{files} changed in {time.perf_counter() - started:.1f} s"
    except SpecInvalid as invalid:
        return f"nothing was written\n{invalid}"
    except jinja2.TemplateError as error:
        where = f"{error.name}:{error.lineno}: " if isinstance(error, jinja2.TemplateSyntaxError) else ""
        return f"nothing was written\n{where}{error.message}"
    except OSError as error:
        return f"failed\n{error}"


def _saves(project: Project) -> Iterator[list[str]]:
    """The names of the saved files below the watched folders, per save; an empty set first."""
    try:
        import watchfiles
    except ImportError:
        raise Failed("--watch needs watchfiles: pip install watchfiles") from None

    def wanted(change: watchfiles.Change, path: str) -> bool:
        return path.endswith(SUFFIXES) and watchfiles.DefaultFilter()(change, path)

    folders = (project.spec, project.templates)
    for folder in folders:
        if not folder.is_dir():
            raise UsageError(f"there is no folder {folder} to watch")
    started = False
    for found in watchfiles.watch(*folders, watch_filter=wanted, rust_timeout=START_MS, yield_on_timeout=True):
        if found or not started:
            yield sorted(_below(Path(path), folders) for _, path in found)
        started = True


def _below(path: Path, folders: tuple[Path, ...]) -> str:
    return next((path.relative_to(folder).as_posix() for folder in folders if path.is_relative_to(folder)), path.name)
