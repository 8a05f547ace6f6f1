"""The command `opwright`: parses arguments, calls one function per command, prints what it returns.

A command imports what it needs when it is asked for, so that none waits for the libraries of another.

Exit codes: 0 done, 2 wrong usage, 3 a spec is invalid, 4 generated files are out of date, 5 a review
found an effect that it had not predicted, 141 the reader of the output left, 1 anything else that failed.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from . import __version__
from .errors import Failed, UsageError
from .language.source import SpecInvalid
from .project import COMMAND, PACKAGE, Project, find

if TYPE_CHECKING:
    from .language.model import Library

OK, FAILED, USAGE, INVALID, OUT_OF_DATE = 0, 1, 2, 3, 4
UNHEARD = 141  # what a shell says of a program that wrote into a closed pipe
Handler = Callable[[argparse.Namespace], int]
Declare = Callable[[argparse.ArgumentParser], None]
SCHEMAS = {"op": "Op", "common": "Common", "sources": "Sources"}  # kind of file to class of model.py


def _project(options: argparse.Namespace) -> Project:
    return find(options.spec, options.templates, options.output)


def _library(project: Project) -> Library:
    from .language.load import load

    return load(project.spec, project.root)


def _generate(options: argparse.Namespace) -> int:
    from .console import console
    from .generate import generated
    from .write import compare, write

    project = _project(options)
    if options.watch:
        from .commands import watch

        watch.watch(project, console())
        return OK
    library, files = generated(project)
    out = console()
    if options.check:
        if not any(path.startswith("c/") for path in files):
            out.print("opwright: nothing was compared: the specs make no kernel")
            return FAILED
        differences = compare(project.output, files)
        for difference in differences:
            out.print(str(difference), highlight=False, soft_wrap=True)
        if differences:
            out.print(
                f"{len(differences)} of {len(files)} files are out of date; mend them with: {COMMAND}", highlight=False
            )
            return OUT_OF_DATE
        out.print(f"{len(files)} files of {len(library.ops)} operations are up to date", highlight=False)
        return OK
    differences = write(project.output, files)
    for difference in differences:
        out.print(str(difference), highlight=False, soft_wrap=True)
    said = f"{len(differences)} changed" if differences else "nothing changed"
    out.print(f"{len(files)} files of {len(library.ops)} operations: {said}", highlight=False)
    return OK


def _schema(options: argparse.Namespace) -> int:
    from .language import model, schema

    root = getattr(model, SCHEMAS[options.kind])
    print(json.dumps(schema.json_schema(root, f"Opwright: {(root.__doc__ or '').strip()}"), indent=2))
    return OK


def _build(options: argparse.Namespace) -> int:
    from .calls import package
    from .console import console, say

    kernels, out = package.kernels(find()), console()
    functions = [package.function_of(kernels, op) for op in options.ops]
    started = time.perf_counter()
    for path in package.build(kernels, functions, out):
        say(out, str(path))
    say(out, f"built in {time.perf_counter() - started:.1f} s")
    return OK


def _list(options: argparse.Namespace) -> int:
    from .commands import listing
    from .console import console

    project = _project(options)
    found = listing.listed(_library(project), project, options.op)
    if options.json:
        print(listing.as_json(found))
    else:
        listing.show(found, console(), variants=options.op is not None)
    return OK


def _why(options: argparse.Namespace) -> int:
    from .console import console
    from .trace import why as why

    found = why.why(_project(options), options.file, options.every)
    if options.json:
        print(why.as_json(found))
    else:
        why.show(found, console())
    return USAGE if found.state else OK


def _explain(options: argparse.Namespace) -> int:
    from .calls import call_text, package
    from .commands import explain
    from .console import console

    call = call_text.parse(options.call) if "(" in options.call else call_text.CallText(options.call)
    for argument in (*options.input, *options.set):
        call.add(*call_text.parse_argument(argument))
    found = explain.explanation(package.kernels(find()), call)
    if options.json:
        print(explain.as_json(found))
    else:
        explain.show(found, console())
    return OK


def _run(options: argparse.Namespace) -> int:
    from .calls import package
    from .commands import run
    from .console import console

    project = find()
    call = run.read_graph(options.graph, _library(project))
    source = run.Source(run.read_data(options.data), options.seed, options.values)
    ran = run.run(package.kernels(project), call, source, options.threads)
    if options.json:
        print(run.as_json(ran))
    else:
        run.show(ran, console())
    if options.output:
        run.save(ran.result, options.output)
    return OK if ran.verdict.right else FAILED


def _export(options: argparse.Namespace) -> int:
    from .commands.export import export
    from .console import console, say

    target = export(find(), options.folder, options.name)
    say(
        console(), f"{target}: import {options.name}; it needs numpy, cffi and ml_dtypes, and a C compiler at first use"
    )
    return OK


def _demo(options: argparse.Namespace) -> int:
    from .commands import demo
    from .console import console

    return OK if demo.demo(find(), options.output, console()) else FAILED


def _diff(options: argparse.Namespace) -> int:
    from .console import console
    from .review import command as review

    return review.diff(find(options.spec, options.templates), options, console())


def _bench(options: argparse.Namespace) -> int:
    from .commands.bench import bench
    from .console import console

    return OK if bench(options, console()) else FAILED


def _audit(options: argparse.Namespace) -> int:
    from .audit import command as audit

    return audit.run(options)


def _audit_arguments(parser: argparse.ArgumentParser) -> None:
    from .audit import command as audit

    audit.arguments(parser)


def _diff_arguments(parser: argparse.ArgumentParser) -> None:
    from .review import command as review

    review.arguments(parser)
    parser.add_argument("--spec", type=Path, help="the folder of spec files (default: spec/ of the project)")
    parser.add_argument("--templates", type=Path, help="the folder of templates (default: those of the project)")


def _bench_arguments(parser: argparse.ArgumentParser) -> None:
    from .commands import bench

    bench.arguments(parser)


def _run_arguments(parser: argparse.ArgumentParser) -> None:
    from .commands import run

    parser.add_argument("graph", type=Path, metavar="GRAPH.json", help="the dump")
    parser.add_argument("--data", type=Path, metavar="FILE.npz", help="arrays by argument name or tensor id")
    parser.add_argument(
        "--seed", type=natural_number, default=0, help="seeds the inputs that --data does not give (default: 0)"
    )
    parser.add_argument(
        "--values",
        choices=sorted(run.VALUES),
        default="integers",
        help="small integers, so that results are exact, or Gaussian",
    )
    parser.add_argument("--threads", type=int, help="how many threads (default: one per CPU)")
    parser.add_argument("--output", type=Path, metavar="FILE.npy", help="write the result")
    _json(parser)


def _parser(asked: str | None) -> argparse.ArgumentParser:
    """Every command; those that take their arguments from a module of their own have them where they are asked for."""
    parser = argparse.ArgumentParser(
        prog="opwright", description="From the specification of an operation to its kernels."
    )
    parser.add_argument("--version", action="version", version=f"opwright {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)

    def command(
        name: str, handler: Handler, summary: str, example: str, declare: Declare | None = None
    ) -> argparse.ArgumentParser:
        made = commands.add_parser(
            name,
            help=summary,
            description=summary,
            epilog=f"example:\n  {example}",
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        made.set_defaults(handler=handler)
        if declare is not None and name == asked:
            declare(made)
        return made

    made = command(
        "generate",
        _generate,
        "Write the generated package from the specs.",
        "opwright generate --check   # in CI: exits 4 where generated files are out of date, and writes nothing",
    )
    way = made.add_mutually_exclusive_group()
    way.add_argument("--check", action="store_true", help="compare only, never write")
    way.add_argument("--watch", action="store_true", help="write again after every save of a spec or template")
    _folders(made)

    made = command(
        "schema",
        _schema,
        "Print the JSON Schema of the spec language, for editors.",
        "opwright schema > spec.schema.json   # then point the editor's YAML support at it",
    )
    made.add_argument("kind", nargs="?", choices=sorted(SCHEMAS), default="op", help="the kind of file (default: op)")

    command(
        "audit",
        _audit,
        "Compare published pages of operations with their specs, field by field.",
        "opwright audit page.rst --fail-on lost   # exits 1 where the page contradicts the spec or has lost a cell",
        _audit_arguments,
    )

    made = command(
        "build",
        _build,
        "Compile the kernels of the generated package into the user's cache, ahead of their first use.",
        "opwright build Convolution conv_transpose   # by either name; without names: all operations",
    )
    made.add_argument("ops", nargs="*", metavar="OP", help="operations to build (default: all)")

    made = command(
        "list",
        _list,
        "List the operations, their kernels, and how much C these are.",
        "opwright list ConvTranspose --json   # one operation with the names of its kernels, for a program",
    )
    made.add_argument("op", nargs="?", metavar="OP", help="one operation, with its kernels (default: all)")
    _json(made)
    _folders(made)

    made = command(
        "why",
        _why,
        "Tell what a generated file or line comes from: specs, templates, parts of the generator, and their commits.",
        "opwright why generated/opwright_kernels/c/convolution_f32.c:150   # or without the line, for all of the file",
    )
    made.add_argument("file", metavar="FILE[:LINE]", help="a generated file, from here or from inside the package")
    made.add_argument(
        "--every", action="store_true", help="of a line: try every field that was read, not only those that it names"
    )
    _json(made)
    _folders(made)

    made = command(
        "explain",
        _explain,
        "Tell what a call would do: sizes, padding, kernel, and the line of the spec behind each.",
        "opwright explain 'conv_transpose(src f32[1,4,4,8], weights f32[2,2,8,8], strides=[1,1], pads_begin=[0,0],"
        " pads_end=[0,0], dilations=[1,1])'   # or a name, with --input src=f32[1,4,4,8] and --set strides=[1,1]",
    )
    made.add_argument("call", metavar="CALL", help="an operation's name, or a whole call as text")
    made.add_argument(
        "--input", action="append", default=[], metavar="NAME=DTYPE[...]", help="an input, as src=f32[1,8,8,16]"
    )
    made.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="an attribute, as strides=[1,1]")
    _json(made)

    command(
        "run",
        _run,
        "Execute a oneDNN graph dump of one operation and check the result.",
        "opwright run docs/graphs/conv_transpose.json --values normal   # dumped with ONEDNN_GRAPH_DUMP=graph",
        _run_arguments,
    )

    made = command(
        "export",
        _export,
        "Copy the generated package into another project.",
        "opwright export src/mylib --name kernels   # makes src/mylib/kernels, which imports nothing of opwright",
    )
    made.add_argument("folder", type=Path, metavar="FOLDER", help="the folder to copy into")
    made.add_argument("--name", default=PACKAGE, help=f"the copy's name (default: {PACKAGE})")

    command(
        "diff",
        _diff,
        "Review a change of the specs: what it means to callers, and which kernels it moves.",
        "opwright diff git:main --format markdown   # exits 1 on findings, 3 on a bad spec, 5 on a wrong prediction",
        _diff_arguments,
    )

    command(
        "bench",
        _bench,
        "Time the kernels beside PyTorch and oneDNN, each result checked first.",
        "opwright bench --filter hifigan --filter f32 --threads 2   # without words: a sample of about ten minutes",
        _bench_arguments,
    )

    made = command(
        "demo",
        _demo,
        "Upsample a photograph and execute a graph dump, each checked against a witness.",
        "opwright demo --output pictures   # before.png and after.png go there",
    )
    made.add_argument(
        "--output", type=Path, default=Path("demo-output"), help="the folder for pictures (default: demo-output)"
    )
    return parser


def natural_number(text: str) -> int:
    value = int(text)
    if value < 0:
        raise ValueError(text)
    return value


def _json(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print JSON")


def _folders(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--spec", type=Path, help="the folder of spec files (default: spec/ of the project)")
    parser.add_argument("--templates", type=Path, help="the folder of templates (default: those of the project)")
    parser.add_argument("--output", type=Path, help="the package to write (default: generated/opwright_kernels)")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; its exit code. Where the reader of the output leaves, as `head` does, it ends in silence."""
    try:
        try:
            return _run_command(arguments)
        finally:
            sys.stdout.flush()
    except BrokenPipeError:
        # What is left in the buffer would fail once more when the interpreter ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return UNHEARD


def _run_command(arguments: Sequence[str] | None) -> int:
    # Views are many small objects that live to the end; looking for cycles among them took a sixth of a diff's time.
    gc.set_threshold(200_000, 20, 20)
    arguments = sys.argv[1:] if arguments is None else arguments
    asked = next((argument for argument in arguments if not argument.startswith("-")), None)
    options = _parser(asked).parse_args(arguments)
    try:
        handler: Handler = options.handler
        return handler(options)
    except SpecInvalid as invalid:
        for problem in invalid.problems:
            print(problem, file=sys.stderr)
        print(f"{len(invalid.problems)} problems in the specs; nothing was written", file=sys.stderr)
        return INVALID
    except UsageError as error:
        print(f"opwright {options.command}: {error}", file=sys.stderr)
        return USAGE
    except Failed as error:
        print(error, file=sys.stderr)
        return FAILED
    except KeyboardInterrupt:
        return FAILED
