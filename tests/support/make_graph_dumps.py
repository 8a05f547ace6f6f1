"""Make graph_dumps/: graphs as oneDNN itself writes them, for the tests of the reader of such dumps.

From tests/: `python -m support.make_graph_dumps`. With ONEDNN_GRAPH_DUMP=graph oneDNN writes into the working directory
`graph-<id>.json` when a graph is finalized and `graph-<id>-partitioning.json` when it is partitioned.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from support.onednn_peer import OneDnn

FOLDER = Path(__file__).with_name("graph_dumps")
STEPS = {"strides": [1, 1], "pads_begin": [1, 1], "pads_end": [1, 1], "dilations": [1, 1]}
DOUBLING = STEPS | {"strides": [2, 2], "pads_end": [0, 0], "output_padding": [0, 0]}


def tensor(number: int, *dims: int, dtype: str = "f32", order: Iterable[int] = (), **more: str) -> dict[str, Any]:
    """A logical tensor; `order` lists the axes from the outermost in memory to the innermost; no dims: unknown ones."""
    axes, strides, cells = list(order) or list(range(len(dims))), [0] * len(dims), 1
    for axis in reversed(axes):
        strides[axis] = cells
        cells *= dims[axis]
    known = {"dims": dims, "strides": strides} if dims else {"dims": None, "strides": None}
    return {"id": number, "dtype": dtype} | known | more


def op(kind: str, attributes: dict[str, Any], *tensors: dict[str, Any]) -> dict[str, Any]:
    """An op whose last tensor is its output."""
    return {"kind": kind, "attributes": attributes, "inputs": tensors[:-1], "outputs": tensors[-1:]}


LAST = (0, 2, 3, 1)
"""The order in memory of an NCX tensor whose channels are innermost."""

GRAPHS = {
    "convolution": [
        op(
            "Convolution",
            STEPS,
            tensor(0, 1, 5, 6, 4, property="variable"),
            tensor(1, 3, 3, 4, 2, property="constant"),
            tensor(2, 2, property="constant"),
            tensor(3, 1, 5, 6, 2, property="variable"),
        )
    ],
    "convolution_ncx_transposed": [
        op(
            "Convolution",
            STEPS | {"data_format": "NCX", "weights_format": "OIX"},
            tensor(0, 1, 4, 5, 6, order=LAST),
            tensor(1, 2, 4, 3, 3, order=(2, 3, 1, 0)),
            tensor(2, 1, 2, 5, 6, order=LAST),
        )
    ],
    "convolution_any_output": [
        op(
            "Convolution",
            STEPS,
            tensor(0, 1, 5, 6, 4),
            tensor(1, 3, 3, 4, 2, layout="any"),
            tensor(2, layout="any"),
        )
    ],
    "convolution_unknown": [op("Convolution", STEPS, tensor(0), tensor(1), tensor(2))],
    "convolution_backward_data": [
        op(
            "ConvolutionBackwardData",
            STEPS | {"dst_shape": [1, 5, 6, 4]},
            tensor(0, 1, 5, 6, 2),
            tensor(1, 3, 3, 4, 2),
            tensor(2, 1, 5, 6, 4),
        )
    ],
    "convolution_backward_data_shape_tensor": [
        op(
            "ConvolutionBackwardData",
            STEPS,
            tensor(0, 1, 5, 6, 2),
            tensor(1, 3, 3, 4, 2),
            tensor(2, 4, dtype="s32"),
            tensor(3),
        )
    ],
    "convolution_backward_weights_bf16": [
        op(
            "ConvolutionBackwardWeights",
            STEPS | {"weights_shape": [3, 3, 4, 2]},
            tensor(0, 1, 5, 6, 4, dtype="bf16"),
            tensor(1, 1, 5, 6, 2, dtype="bf16"),
            tensor(2, 3, 3, 4, 2, dtype="bf16"),
        )
    ],
    "conv_transpose_grouped": [
        op(
            "ConvTranspose",
            DOUBLING | {"groups": 4, "output_padding": [1, 1]},
            tensor(0, 1, 5, 6, 4),
            tensor(1, 3, 3, 1, 4),
            tensor(2, 4),
            tensor(3, 1, 11, 13, 4),
        )
    ],
    "conv_transpose_backward_data_same_upper": [
        op(
            "ConvTransposeBackwardData",
            STEPS | {"strides": [2, 2], "auto_pad": "SAME_UPPER"},
            tensor(0, 1, 10, 12, 2),
            tensor(1, 3, 3, 2, 4),
            tensor(2, 1, 5, 6, 4),
        )
    ],
    "conv_transpose_backward_weights": [
        op(
            "ConvTransposeBackwardWeights",
            STEPS | {"weights_shape": [3, 3, 2, 4]},
            tensor(0, 1, 5, 6, 4),
            tensor(1, 1, 5, 6, 2),
            tensor(2, 3, 3, 2, 4),
        )
    ],
    "two_operations": [
        op(
            "Convolution",
            STEPS | {"strides": [2, 2]},
            tensor(0, 1, 9, 11, 4),
            tensor(1, 3, 3, 4, 8),
            tensor(2, 1, 5, 6, 8),
        ),
        op("ConvTranspose", STEPS | {"strides": [2, 2]}, tensor(2, 1, 5, 6, 8), tensor(3, 3, 3, 4, 8), tensor(4)),
    ],
    "convolution_relu": [
        op("Convolution", STEPS, tensor(0, 1, 5, 6, 4), tensor(1, 3, 3, 4, 2), tensor(2, 1, 5, 6, 2)),
        op("ReLU", {}, tensor(2, 1, 5, 6, 2), tensor(3, 1, 5, 6, 2)),
    ],
}
PARTITIONED = ("conv_transpose_grouped", "two_operations")


def main() -> None:
    """Write every dump again."""
    FOLDER.mkdir(exist_ok=True)
    for name, ops in GRAPHS.items():
        with tempfile.TemporaryDirectory() as folder, OneDnn(directory=Path(folder), ONEDNN_GRAPH_DUMP="graph") as peer:
            answer = peer.ask({"ops": ops})
            written = {path.name: path.read_text() for path in Path(folder).iterdir()}
        print(f"{name}: partitions supported: {answer}")
        (FOLDER / f"{name}.json").write_text(written["graph-100001.json"])
        if name in PARTITIONED:
            (FOLDER / f"{name}-partitioning.json").write_text(written["graph-100001-partitioning.json"])


if __name__ == "__main__":
    main()
