"""The files of c/engine that are printed from shapes of register tiles.

In: nothing but derive/tile_shapes.py. Out: a dict from path to Output, nothing rendered.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..derive import tile_shapes
from ..derive.tile_shapes import Family
from ..language.source import Prose
from .output import Head, Output


@dataclass(frozen=True)
class Kind:
    """Tiles of w with one kind of words: of a row, `word`, and of a panel, which `load` makes `words` of.

    `condition` tells in C for which data types they are needed; `fetched`: later pixels of a panel are prefetched.
    """

    name: str
    family: Family
    condition: str
    panel: str = "float"
    word: str = "float"
    words: str = "vec"
    load: str = "vec_load"
    product: str = "add_product"
    fetched: bool = False
    comment: tuple[str, ...] = ()


def _pairs(name: str, family: Family) -> Kind:
    return Kind(name, family, "OPWRIGHT_PAIRS", word="uint32_t", words="uvec", load="words_load", product="dot_pairs")


_KINDS = (
    Kind("floats", tile_shapes.WEIGHTS.without(tile_shapes.AMX), "!OPWRIGHT_PAIRS"),
    Kind("floats", tile_shapes.FEW, "OPWRIGHT_PAIRS"),
    _pairs("pairs", tile_shapes.WEIGHTS),
    Kind(
        "far",
        tile_shapes.FAR,
        "defined(OPWRIGHT_F32)",
        fetched=True,
        comment=(
            "If small stays in place and a task walks a part of each pixel at a time, which no hardware prefetches:",
            "4.2 instead of 6.5 ms, 10 taps of one channel, stride 5, to 512; 16 instead of 48 pixels ahead: 6.3",
            "instead of 5.0, 1x1 112x112 16 -> 96. All tiles with it lose up to 5 %.",
        ),
    ),
    Kind("halves", tile_shapes.HALVES, "HALVES", panel="elem", load="elem_load", fetched=True),
)
_MERGED = (
    Kind("merged_floats", tile_shapes.MERGED, "1"),
    _pairs("merged_pairs", tile_shapes.MERGED),
)


def files() -> dict[str, Output]:
    """The printed files of c/engine."""
    data = {
        "tile": tile_shapes.DATA,
        "turned": tile_shapes.TURNED,
        "picked": tile_shapes.PICKED,
        "summed": tile_shapes.SUMMED,
        "steps": tile_shapes.STEPS,
    }
    bounds = {
        **{name: data[name] for name in ("tile", "picked", "steps")},
        "weights": tile_shapes.WEIGHTS,
        "merged": tile_shapes.MERGED,
    }
    views: dict[str, dict[str, Any]] = {
        "tiles.c": data,
        "tile_shapes.h": bounds,
        "weights_tiles.h": {"kinds": _KINDS, "merged_kinds": _MERGED},
        "window_bytes_tiles.h": {"byte_windows": tile_shapes.BYTE_WINDOWS},
        "depthwise_channels_tiles.h": {
            "walks": tile_shapes.WALKS,
            "line_walks": tile_shapes.LINE_WALKS,
            "unit_walks": tile_shapes.UNIT_WALKS,
        },
        "depthwise_columns_tiles.h": {"strips": tile_shapes.STRIPS},
        "depthwise_weights_tiles.h": {"blocks": tile_shapes.BLOCKS, "unit_blocks": tile_shapes.UNIT_BLOCKS},
        "weights_columns_tiles.h": {"width_blocks": tile_shapes.WIDTH_BLOCKS},
    }

    def made(name: str) -> Output:
        template = f"c/{name}.j2"
        return Output(template, lambda: {"head": Head(Prose(f"templates/{template}")), **views[name]})

    return {f"c/engine/{name}": made(name) for name in views}
