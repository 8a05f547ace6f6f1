"""`opwright run`: executes an ONNX model or a oneDNN graph dump of one operation, and checks the result."""

from __future__ import annotations

import argparse
from pathlib import Path

from ..calls import graph_run, package
from ..console import console
from ..errors import UsageError
from ..project import Project
from . import options as shared

EXAMPLE = "opwright run docs/graphs/conv_transpose.json --values normal   # dumped with ONEDNN_GRAPH_DUMP=graph"
OK, FAILED = 0, 1


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("graph", type=Path, metavar="GRAPH.json|MODEL.onnx", help="a dump of one operation, or a model")
    parser.add_argument("--data", type=Path, metavar="FILE.npz", help="of a dump: arrays by argument name or tensor id")
    parser.add_argument(
        "--input", action="append", default=[], metavar="[NAME=]FILE.npy", help="of a model: the array of an input"
    )
    parser.add_argument(
        "--check", action="store_true", help="of a model: compare with ONNX's reference; of a dump this is always done"
    )
    parser.add_argument(
        "--seed", type=shared.natural_number, default=0, help="the seed for inputs that are not given (default: 0)"
    )
    parser.add_argument(
        "--values",
        choices=sorted(graph_run.VALUES),
        default="integers",
        help="small integers, for which results are exact, or normally distributed values",
    )
    parser.add_argument("--threads", type=int, help="the number of threads (default: one per CPU)")
    parser.add_argument("--save", type=Path, metavar="FILE.npy", help="write the result; of a model, FILE.npz")
    shared.as_json(parser)
    shared.folders(parser)


def run(options: argparse.Namespace) -> int:
    from ..load import load

    if options.output and options.output.suffix == ".npy":  # the former name of --save
        options.save, options.output = options.output, None
    project = shared.project(options)
    if options.graph.suffix == ".onnx":
        return _run_model(options, project)
    if options.input or options.check:
        raise UsageError("--input and --check are for ONNX models; a dump takes --data, and is always checked")
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


def _run_model(options: argparse.Namespace, project: Project) -> int:
    from ..calls import onnx_run

    if options.data:
        raise UsageError("--data is for dumps; a model takes --input [NAME=]FILE.npy")
    inputs = onnx_run.Inputs(onnx_run.read_inputs(options.input), options.seed, options.values)
    out = None if options.json else console()
    ran = onnx_run.run(package.kernels(project), options.graph, inputs, options.threads, options.check, out)
    if out is None:
        print(onnx_run.as_json(ran))
    else:
        onnx_run.show(ran, out)
    if options.save:
        onnx_run.save(ran, options.save)
    return OK if ran.right else FAILED
