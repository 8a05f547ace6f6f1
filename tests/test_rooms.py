"""The packages of the generator stand in an order, and a module imports only from its own and those before it."""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import opwright
import pytest
from support.checkout import ROOT

GENERATOR = Path(opwright.__file__).parent
ROOMS = (
    *("base", "language", "derive", "emit", "check", "load", "oracle", "generate"),
    *("trace", "calls", "review", "audit", "commands", "cli"),
)
DEFINED = re.compile(r"^(?!static)\w[\w *]*?(opw_\w+)\([^;{]*\)\n?\s*\{", re.MULTILINE)
CALLED = re.compile(r"\b(opw_\w+)\(")
# The modules beside the packages; every other one of them is of the base.
SINGLE = {"load": "load", "generate": "generate", "gradients": "generate", "cli": "cli", "__main__": "cli"}


def room(module: tuple[str, ...]) -> str:
    return module[0] if len(module) > 1 or (GENERATOR / module[0]).is_dir() else SINGLE.get(module[0], "base")


def imported(path: Path, top: Path = GENERATOR) -> Iterator[tuple[int, tuple[str, ...]]]:
    """The modules of the generator, or of another folder, that a file imports, each with its line."""
    package = path.relative_to(top).parts[:-1]
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.level:
            base = package[: len(package) - node.level + 1] + tuple(
                (node.module or "").split(".") if node.module else ()
            )
            for name in node.names:
                yield node.lineno, base if base and not (top.joinpath(*base)).is_dir() else (*base, name.name)


def test_every_package_has_its_place_in_the_order():
    packages = {path.parent.name for path in GENERATOR.glob("*/__init__.py")}
    assert packages - {"_project"} <= {*ROOMS}
    assert {*SINGLE} <= {path.stem for path in GENERATOR.glob("*.py")}


def test_imports_go_only_to_packages_that_come_before():
    upward = []
    for path in sorted(GENERATOR.rglob("*.py")):
        own = path.relative_to(GENERATOR).with_suffix("").parts
        for line, module in imported(path):
            if module != ("__version__",) and ROOMS.index(room(module)) > ROOMS.index(room(own)):
                upward.append(f"{'/'.join(own)}:{line} imports {'.'.join(module)}")
    assert upward == []


def test_the_oracle_shares_only_the_language_with_what_it_judges():
    def others(own: str) -> set[str]:
        return {room(module) for path in (GENERATOR / own).rglob("*.py") for _, module in imported(path)} - {own}

    assert others("oracle") == {"base", "language"}
    assert not any("oracle" in others(judged) for judged in ("language", "derive", "emit", "check"))


def test_the_algebra_of_derive_knows_nothing_of_its_rules_and_rewrites():
    rooms = {module[:2] for path in (GENERATOR / "derive/algebra").glob("*.py") for _, module in imported(path)}
    assert ("derive", "algebra") in rooms
    assert rooms.isdisjoint({("derive", "rules"), ("derive", "rewrites")})


def circles(imports: dict[tuple[str, ...], set[tuple[str, ...]]]) -> list[tuple[str, ...]]:
    """The modules that import themselves by way of others."""

    def reach(module: tuple[str, ...]) -> set[tuple[str, ...]]:
        found, waiting = set[tuple[str, ...]](), [module]
        while waiting:
            more = imports.get(waiting.pop(), set()) - found
            found |= more
            waiting += more
        return found

    return sorted(module for module in imports if module in reach(module))


@pytest.mark.parametrize(("top", "most"), [(GENERATOR, 200), (ROOT / "templates" / "copied", 30)])
def test_no_modules_import_each_other_not_even_for_their_types(top: Path, most: int):
    imports: dict[tuple[str, ...], set[tuple[str, ...]]] = {}
    for path in sorted(top.rglob("*.py")):
        imports[path.relative_to(top).with_suffix("").parts] = {module for _, module in imported(path, top)}
    assert len(imports) > most
    assert circles(imports) == []


def test_no_sources_of_the_c_library_call_each_other_in_a_circle():
    """What a source defines for others is a function at the beginning of a line; what it uses, its name and a bracket."""
    texts = {(path.stem,): path.read_text(encoding="utf-8") for path in (ROOT / "templates/interface").glob("*.c")}
    owners = {name: own for own, text in texts.items() for name in DEFINED.findall(text)}
    calls = {own: {owners[name] for name in CALLED.findall(text) if name in owners} for own, text in texts.items()}
    assert len(owners) > 100
    assert circles({own: others - {own} for own, others in calls.items()}) == []


def test_modules_in_a_circle_are_found_and_those_that_lead_there_are_not():
    assert circles({("a",): {("b",)}, ("b",): {("c",)}, ("c",): {("b",)}}) == [("b",), ("c",)]


def test_generating_convolutions_loads_no_module_of_steps():
    """Importing is a third of the time of a check of six operations."""
    program = (
        "import sys, opwright.generate; from opwright.check import stages;"
        "print(*(name for name in sys.modules if name.startswith('opwright.')))"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    loaded = {*run.stdout.split()}
    steps = "check.step_stages derive.phases derive.rewrites.pairing derive.rules.steps emit.steps gradients"
    assert "opwright.emit.render" in loaded
    assert loaded & {f"opwright.{name}" for name in steps.split()} == set()
