"""`opwright run`: executes a oneDNN graph dump of one operation and checks the result."""

from __future__ import annotations

import argparse
from pathlib import Path

from ..calls import graph_run, package
from ..console import console
from . import options as shared

EXAMPLE = "opwright run docs/graphs/conv_transpose.json --values normal   # dumped with ONEDNN_GRAPH_DUMP=graph"
OK, FAILED = 0, 1


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("graph", type=Path, metavar="GRAPH.json", help="the dump")
    parser.add_argument("--data", type=Path, metavar="FILE.npz", help="arrays by argument name or tensor id")
    parser.add_argument(
        "--seed", type=shared.natural_number, default=0, help="the seed for inputs missing from --data (default: 0)"
    )
    parser.add_argument(
        "--values",
        choices=sorted(graph_run.VALUES),
        default="integers",
        help="small integers, for which results are exact, or normally distributed values",
    )
    parser.add_argument("--threads", type=int, help="the number of threads (default: one per CPU)")
    parser.add_argument("--save", type=Path, metavar="FILE.npy", help="write the result")
    shared.as_json(parser)
    shared.folders(parser)


def run(options: argparse.Namespace) -> int:
    from ..load import load

    if options.output and options.output.suffix == ".npy":  # the former name of --save
        options.save, options.output = options.output, None
    project = shared.project(options)
    call = graph_run.read_graph(options.graph, load(project.spec, project.root))
    source = graph_run.Source(graph_run.read_data(options.data), options.seed, options.values)
    ran = graph_run.run(package.kernels(project), call, source, options.threads)
    if options.json:
        print(graph_run.as_json(ran))
    else:
        graph_run.show(ran, console())
    if options.save:
        graph_run.save(ran.result, options.save)
    return OK if ran.verdict.right else FAILED
