"""`opwright demo`: the main job on real input, end to end, with the evidence for the result.

In: a project and a folder. Out: before.png and after.png there, and on the screen what ran, how fast, and what it was
checked against. The photograph is one that matplotlib ships.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from .. import project
from ..calls import graph_run, package
from ..console import console, say
from ..errors import UsageError
from ..generate import generated
from ..language.library import Library
from ..load import load
from ..oracle import witness
from ..project import Project
from ..write import compare, write

EXAMPLE = "opwright demo --output pictures   # before.png and after.png go there"
OK, FAILED = 0, 1
GRAPH = Path("docs") / "graphs" / "conv_transpose.json"
CROP = 64
FUNCTION = "conv_transpose"
# Stride 2 with these taps is bilinear interpolation at half-pixel centres.
TAPS = np.array([0.25, 0.75, 0.75, 0.25], np.float32)
ATTRIBUTES = {"strides": [2, 2], "pads_begin": [3, 3], "pads_end": [3, 3], "dilations": [1, 1]}

Array = np.ndarray[Any, Any]


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--output", type=Path, default=Path("demo-output"), help="the folder for pictures (default: demo-output)"
    )


def run(options: argparse.Namespace) -> int:
    return OK if demo(project.find(), options.output, console()) else FAILED


def demo(here: Project, folder: Path, out: Console) -> bool:
    """Whether all checks passed."""
    before = photograph()
    regenerate(here, out)
    kernels = package.kernels(here)
    started = time.perf_counter()
    paths = package.build(kernels, [FUNCTION], out)
    say(out, f"build: {len(paths)} libraries of {FUNCTION} kernels in {time.perf_counter() - started:.1f} s")
    library = load(here.spec, here.root)
    right = upsample(kernels, library, before, folder, out)
    graph = here.root / GRAPH
    if not graph.is_file():
        say(out, f"graph: {GRAPH} is part of a checkout only; nothing to execute here")
        return right
    ran = graph_run.run(kernels, graph_run.read_graph(graph, library), graph_run.Source({}))
    say(out, f"graph: {GRAPH}, as oneDNN dumped it:")
    graph_run.show(ran, out)
    return right and ran.verdict.right


def regenerate(here: Project, out: Console) -> None:
    """Generate: in a checkout write the package, elsewhere only compare."""
    library, files = generated(here)
    if project.checkout():
        changed = write(here.output, files)
    else:
        changed = compare(Path(package.kernels(here).__file__).parent, files)
    outcome = ", ".join(map(str, changed)) if changed else "nothing changed"
    say(out, f"generate: {len(files)} files of {len(library.ops)} operations from {here.spec.name}: {outcome}")


def photograph() -> Array:
    """Rows x columns x colours, 8 bits each."""
    try:
        import matplotlib
        from PIL import Image
    except ImportError as error:
        raise UsageError(f"{error.name} is not installed; the demo needs: pip install 'opwright[demo]'") from None
    with Image.open(Path(matplotlib.get_data_path()) / "sample_data" / "grace_hopper.jpg") as picture:
        return np.asarray(picture.convert("RGB"))


def upsample(kernels: Any, library: Library, before: Array, folder: Path, out: Console) -> bool:
    """Double the size by a depthwise ConvTranspose, check a crop and the whole picture, and write it."""
    src, weights = bordered(before), bilinear(before.shape[-1])
    attributes = {**ATTRIBUTES, "groups": before.shape[-1]}
    dst = kernels.conv_transpose(src, weights, **attributes)
    seconds = min(_timed(lambda: kernels.conv_transpose(src, weights, out=dst, **attributes)) for _ in range(5))
    rows, columns, colours = dst.shape[1:]
    kernel = kernels.explain(FUNCTION, src, weights, **attributes).variant.name
    say(out, f"photograph: {before.shape[1]} x {before.shape[0]} -> {columns} x {rows} by {kernel}")
    rate = f"{rows * columns / seconds / 1e6:.0f} million pixels of {colours} colours a second"
    say(out, f"  {seconds * 1e3:.2f} ms, threads: {kernels.get_num_threads()}, {rate}")

    crop = bordered(before[:CROP, :CROP])
    part = kernels.conv_transpose(crop, weights, **attributes)
    op = library.op(FUNCTION)
    verdict = witness.check(op, [crop, weights, None], attributes, crop.size * weights.size // colours, part)
    say(out, f"  checked on a crop of {CROP} x {CROP} against {verdict}")
    off = float(np.max(abs(dst[0] - pillow_bilinear(before))))
    say(out, f"  checked on the whole against Pillow's bilinear resize in f32: largest difference {off:g} of 255")
    _save(folder, {"before.png": before, "after.png": np.rint(dst[0]).clip(0, 255).astype(np.uint8)}, out)
    return verdict.right and off < 1e-3


def bordered(picture: Array) -> Array:
    """The picture as src: a batch of one, its border pixels repeated once, so that edges do not fade to black."""
    return np.pad(picture.astype(np.float32), ((1, 1), (1, 1), (0, 0)), mode="edge")[np.newaxis]


def bilinear(colours: int) -> Array:
    """The kernel as XOI: the same taps for every colour, one group each."""
    taps = np.outer(TAPS, TAPS)[:, :, np.newaxis, np.newaxis]
    return np.ascontiguousarray(np.broadcast_to(taps, (*taps.shape[:3], colours)))


def pillow_bilinear(picture: Array) -> Array:
    """Pillow's result, colour by colour in f32."""
    from PIL import Image

    rows, columns, colours = picture.shape
    size, how = (2 * columns, 2 * rows), Image.Resampling.BILINEAR
    planes = [Image.fromarray(picture[:, :, colour].astype(np.float32)) for colour in range(colours)]
    return np.stack([np.asarray(plane.resize(size, how)) for plane in planes], axis=-1)


def _timed(call: Any) -> float:
    started = time.perf_counter()
    call()
    return time.perf_counter() - started


def _save(folder: Path, pictures: dict[str, Array], out: Console) -> None:
    from PIL import Image

    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, picture in pictures.items():
            Image.fromarray(picture).save(folder / name)
    except OSError as error:
        raise UsageError(f"{folder}: {error.strerror or error}") from None
    say(out, f"  written: {', '.join(str(folder / name) for name in pictures)}")
