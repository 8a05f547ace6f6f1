"""Prints results: tables on a terminal, a page in Markdown, a plot.

In: Results. Out: text, and a picture in a file. It measures nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from opwright.errors import count

from .disturbed import MISSED
from .kinds import AnyRow
from .machine import ceiling
from .own import OwnRow
from .products import Product
from .results import COUNTED, Reached, Results, geomean, reached
from .rows import DTYPES, LAYOUTS, SOLVES, THREADS, Row, full
from .shapes import TABLE
from .steps import LARGE

NAMES = {"ours": "Opwright", "onednn": "oneDNN", "torch": "PyTorch", "ours_f32": "Opwright in f32", "copy": "copy"}
PAGE, PLOT = "RESULTS.md", "results.png"
SHORT_SHOWN = 50
TARGET_COLUMNS = ("target", "rows", "mean", "required", "minimum", "required", "reached", "slowest row")
COLORS = {"small": "tab:blue", "big": "tab:orange", "weights": "tab:green"}
SOLVE_NAMES = {"small": "y (small side)", "big": "x (big side)", "weights": "w (weights)"}
MARKS = {"f32": "o", "bf16": "^", "f16": "s"}

Table = Sequence[Sequence[str]]


def target_rows(found: Results, threads: int) -> list[tuple[str, ...]]:
    """A line for each target."""
    return [_target_row(entry) for entry in reached(found, threads)]


def _target_row(entry: Reached) -> tuple[str, ...]:
    target, minimum = entry.target, entry.minimum
    wanted = "-" if target.minimum is None else f"{target.minimum:.2f}"
    if entry.mean is None or minimum is None:
        return target.name, "0", "-", f"{target.mean:.2f}", "-", wanted, "not measured", ""
    return (
        target.name,
        str(len(entry.values)),
        f"{entry.mean:.2f}",
        f"{target.mean:.2f}",
        f"{minimum[0]:.2f}",
        wanted,
        "yes" if entry.reached else "no",
        minimum[1].key,
    )


def line(row: AnyRow, record: dict[str, Any]) -> str:
    """A row in one line of text."""
    outcomes = [f"{NAMES.get(name, name)} {outcome(entry)}" for name, entry in record["candidates"].items()]
    return f"{row.key}: {', '.join(outcomes)}" + ("" if record["checked"] else " (not checked)")


def outcome(entry: dict[str, Any]) -> str:
    """The outcome of a candidate in a row."""
    if "seconds" in entry:
        return f"{entry['seconds'] * 1e3:.3g} ms ({entry['mode']})"
    return f"WRONG: {entry['wrong']}" if "wrong" in entry else f"refused: {entry['refused']}"


def spread(found: Results) -> dict[str, float]:
    """For each candidate the relative spread of its rounds' medians, in the median row."""
    answer = {}
    for name in NAMES:
        rounds = [record["candidates"].get(name, {}).get("rounds") for _, record in found.rows()]
        spans = sorted((max(times) - min(times)) / min(times) for times in rounds if times)
        if spans:
            answer[name] = spans[len(spans) // 2]
    return answer


def markdown(found: Results, plot: str | None = PLOT) -> str:
    """The page."""
    measured, total = len({row.problem for row, _ in found.rows()}), len(full())
    unchecked = sum(not record["checked"] for _, record in found.rows())
    part = f"all {total} problems" if measured == total else f"{measured} of {total} problems"
    kernels = found.machine.get("versions", {}).get("kernels")
    older = sum(record["kernels"] != kernels for _, record in found.rows()) if kernels else 0
    part += f"; {count(older, 'row')} measured with earlier kernels" if older else ""
    parts = [
        "# Benchmark results",
        "Written by `opwright bench --report`. DO NOT EDIT.",
        f"{len(TABLE)} shapes, six operations, {len(DTYPES)} dtypes, {len(LAYOUTS)} layouts, 1 and 2 threads; {part}. "
        "An operation and its counterpart in the other family solve the same problem on the same arrays; each shape is "
        "measured with one of the two.",
        "A ratio is the other library's time divided by ours, the median over rounds: above 1 we are faster. Times are "
        "medians of rounds. In a round the candidates take turns, each in a process of its own. A round is repeated if "
        f"a thread waited for a CPU for more than {MISSED:.0%} of the time because another process was using it. "
        "Inputs and outputs are plain tensors, so packing and reordering count. "
        "oneDNN is timed in each of these modes, and the fastest counts: convolution or deconvolution primitives with "
        "reorders to their preferred formats, with packed weights only, or without reorders; and its Graph API, with "
        "the operation or its counterpart. "
        "PyTorch keeps its weights in its own order, (O, I/G, X). Rows of f16 are also compared with our own f32. "
        "Every mode of computing a row was checked against exact "
        f"sums before it was timed; for {unchecked} rows no exact sums were available.",
        "## Targets",
    ]
    for threads in _threads(found):
        parts += [f"With {_count(threads)}:", _table(TARGET_COLUMNS, target_rows(found, threads))]
    parts.append(
        "Means are geometric, except for the share of the peak, where the mean is arithmetic. A row counts if oneDNN "
        f"takes {COUNTED * 1e3:g} ms or more; PyTorch decides where oneDNN does not support the row, and our own f32 "
        "decides for f16. The share of the peak covers compute-bound rows: at peak rates, their arithmetic takes "
        "longer than reading their tensors once."
    )
    if plot:
        parts.append(f"![Ratios to oneDNN by shape, and the share of the machine's peak]({plot})")
    parts += ["## Machine", *_machine(found), "## By operation", *_by_operation(found)]
    parts += ["## Rows below a target", *_short(found), "## Refused or wrong", *_failures(found), *_all(found)]
    return "\n\n".join(parts) + "\n"


def others_page(found: Results) -> str:
    """The name of the page of other operations: CPUs without AVX-512 have their own, so that no page mixes them."""
    instructions = found.machine.get("described", {}).get("instructions", "avx512f")
    return "OPERATIONS.md" if "avx512f" in instructions else f"OPERATIONS_{instructions.split(', ')[-1].upper()}.md"


def others(found: Results) -> str:
    """The page of matrix products and of operations of steps; "" where none was measured."""
    tables = [
        *_rates(found, "Matrix products", found.products()),
        *_rates(found, "Fused layers, and products and convolutions of bytes", found.own()),
        *_steps(found),
    ]
    if not tables:
        return ""
    parts = [
        "# Results of other operations",
        "Written by `opwright bench --report`. DO NOT EDIT.",
        "A ratio is the other library's time divided by ours, the median over rounds: above 1 we are faster. Times are "
        "medians of rounds, in which the candidates take turns, each in a process of its own, from plain tensors to "
        "plain tensors, with the call itself. Results are checked before they are timed.",
    ]
    return "\n\n".join([*parts, *tables, "## Machine", *_machine(found)]) + "\n"


def _rates(found: Results, title: str, rows: Iterable[Product | OwnRow]) -> list[str]:
    """Rows of products beside both peers, and the geometric means by kind, dtype and number of threads."""
    lines, groups = [], dict[str, list[float]]()
    for row in rows:
        mine = found.seconds(row, "ours")
        if mine is None:
            continue
        ratios = [found.ratio(row, name) for name in ("onednn", "torch")]
        lines.append((row.key, f"{mine * 1e3:.3g}", f"{row.flops / mine / 1e9:.0f}", *map(_ratio, ratios)))
        better = min((ratio for ratio in ratios if ratio is not None), default=None)
        if better is not None:
            groups.setdefault(f"{row.key.split('/')[0]}, {row.dtype}, {_count(row.threads)}", []).append(better)
    if not lines:
        return []
    means = [(name, str(len(some)), f"{geomean(some):.2f}", f"{min(some):.2f}") for name, some in groups.items()]
    heads = ("row", "ours, ms", "GFLOP/s", "oneDNN", "PyTorch")
    summary = _table(("rows", "count", "better of both, geometric mean", "least"), means)
    return [f"## {title}", summary, _table(heads, lines)]


def _steps(found: Results) -> list[str]:
    """Operations of steps beside PyTorch, by kind, dtype and number of threads, and beside a copy of as many bytes."""
    lines, groups = [], dict[str, list[tuple[float, float | None]]]()
    for row in found.steps():
        mine, ratio = found.seconds(row, "ours"), found.ratio(row, "torch")
        if mine is None or ratio is None:
            continue
        share = found.ratio(row, "copy") if row.bytes >= LARGE else None
        rate, reused = f"{row.bytes / mine / 1e9:.1f}", "" if row.case.reuses else "new"
        lines.append((row.key, f"{mine * 1e6:.1f}", rate, _ratio(ratio), _ratio(share), reused))
        groups.setdefault(f"{row.case.group}, {row.dtype}, {_count(row.threads)}", []).append((ratio, share))
    if not lines:
        return []
    means = []
    for name, some in groups.items():
        ratios, shares = [ratio for ratio, _ in some], [share for _, share in some if share is not None]
        mean = _ratio(sum(shares) / len(shares)) if shares else ""
        means.append((name, str(len(some)), f"{geomean(ratios):.2f}", f"{min(ratios):.2f}", mean))
    summary = _table(("rows", "count", "PyTorch, geometric mean", "least", "share of a copy, mean"), means)
    note = (
        "A share is the time of a copy of as many bytes as a row reads and writes, divided by ours; it is given for "
        f"rows of {LARGE >> 20} MiB and more, which no cache holds. We always write into an array of the caller; "
        "rows in which PyTorch has no way to do so and makes a new one say *new*."
    )
    heads = ("row", "ours, us", "GB/s", "PyTorch", "share of a copy", "PyTorch's result")
    return ["## Operations of steps", note, summary, _table(heads, lines)]


def _ratio(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"


def _machine(found: Results) -> list[str]:
    machine = found.machine
    lists = [*machine.get("described", {}).items(), *machine.get("versions", {}).items()]
    parts = [_table(("what", "is"), [(name, value) for name, value in lists])]
    peaks = machine.get("peaks", {})
    names = sorted({name for figures in peaks.values() for name in figures})
    if names:
        rows = [
            (_peak_name(name), *(f"{figures.get(name, 0) / 1e9:.0f}" for figures in peaks.values())) for name in names
        ]
        parts.append(_table(("highest rate measured", *(_count(int(threads)) for threads in peaks)), rows))
    calls = machine.get("call", {})
    if calls:
        heads = ("the smallest call", *(_count(int(threads)) for threads in calls))
        names = list(dict.fromkeys(name for figures in calls.values() for name in figures))
        rows = [
            (NAMES[name], *(f"{figures[name] * 1e6:.1f} us" if name in figures else "-" for figures in calls.values()))
            for name in names
        ]
        parts.append(_table(heads, rows))
    noise = ", ".join(f"{NAMES[name]} {share:.0%}" for name, share in spread(found).items())
    if noise:
        parts.append(f"Noise: the spread of the three to nine rounds of the median row is {noise}.")
    return parts


def _peak_name(name: str) -> str:
    kind, _, bits = name.partition("_")
    words = {"read": "memory read, GB/s", "dots": "bf16 dot products, {} bits, GFLOP/s"}
    return words.get(kind, "f32 multiply-add, {} bits, GFLOP/s").format(bits.rpartition("_")[2])


def _by_operation(found: Results) -> list[str]:
    rows = [row for row, _ in found.rows()]
    parts = []
    for threads in _threads(found):
        lines = []
        for op in SOLVES:
            cells = [
                _pair(
                    [row for row in rows if (row.op, row.dtype, row.layout, row.threads) == (op, *kind, threads)], found
                )
                for kind in _kinds()
            ]
            lines.append((op, *cells))
        heads = ("operation", *(f"{dtype} {layout}" for dtype, layout in _kinds()))
        parts.append(
            f"Geometric means of the ratios to oneDNN · to PyTorch with {_count(threads)}, including small rows:"
        )
        parts.append(_table(heads, lines))
    return parts


def _pair(rows: Sequence[Row], found: Results) -> str:
    cells = []
    for name in ("onednn", "torch"):
        ratios = [ratio for row in rows if (ratio := found.ratio(row, name))]
        cells.append(f"{geomean(ratios):.2f}" if ratios else "-")
    return " · ".join(cells)


def _short(found: Results) -> list[str]:
    lines = []
    for threads in _threads(found):
        for entry in reached(found, threads):
            short = entry.short
            for value, row in short[:SHORT_SHOWN]:
                lines.append((entry.target.name, f"{value:.2f}", row.key))
            if len(short) > SHORT_SHOWN:
                lines.append((entry.target.name, "", f"and {len(short) - SHORT_SHOWN} more"))
    return [_table(("target", "ratio", "row"), lines) if lines else "No row."]


def _failures(found: Results) -> list[str]:
    seen: Counter[tuple[str, str]] = Counter()
    example: dict[tuple[str, str], str] = {}
    for row, record in found.rows():
        for name, entry in record["candidates"].items():
            if "seconds" not in entry:
                what = "wrong results" if "wrong" in entry else f"refused: {entry['refused']}"
                key = NAMES[name], what
                seen[key] += 1
                example.setdefault(key, row.key)
            wrong = [mode for mode, what in entry.get("modes", {}).items() if str(what).startswith("wrong")]
            for mode in wrong:
                key = NAMES[name], f"wrong results of one mode: {mode}"
                seen[key] += 1
                example.setdefault(key, row.key)
    lines = [(*key, str(count), example[key]) for key, count in sorted(seen.items())]
    return [_table(("candidate", "what", "rows", "for example"), lines) if lines else "None."]


def _all(found: Results) -> list[str]:
    records = dict(found.rows())
    parts = []
    for threads in _threads(found):
        lines = []
        for shape in TABLE:
            for op in SOLVES:
                rows = [Row(op, shape.name, dtype, layout, threads) for dtype, layout in _kinds()]
                if any(row in records for row in rows):
                    lines.append((shape.name, op, *(_cell(found, row, records.get(row)) for row in rows)))
        heads = ("shape", "operation", *(f"{dtype} {layout}" for dtype, layout in _kinds()))
        parts += [f"## Every row, {_count(threads)}", "Ratio to oneDNN · to PyTorch.", _table(heads, lines)]
    return parts


def _cell(found: Results, row: Row, record: dict[str, Any] | None) -> str:
    if record is None:
        return ""
    ours = record["candidates"].get("ours", {})
    if "seconds" not in ours:
        return "ours " + _word(ours)
    words = []
    for name in ("onednn", "torch"):
        ratio = found.ratio(row, name)
        words.append(f"{ratio:.2f}" if ratio else _word(record["candidates"].get(name, {})))
    return " · ".join(words)


def _word(entry: dict[str, Any]) -> str:
    return "wrong" if "wrong" in entry else "refused" if "refused" in entry else "-"


def _threads(found: Results) -> list[int]:
    """The numbers of threads that were measured, in the order of THREADS."""
    measured = {row.threads for row, _ in found.rows()}
    return [threads for threads in THREADS if threads in measured]


def _kinds() -> list[tuple[str, str]]:
    return [(dtype, layout) for dtype in DTYPES for layout in LAYOUTS]


def _count(threads: int) -> str:
    return "1 thread" if threads == 1 else f"{threads} threads"


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    def escape(cell: str) -> str:
        return cell.replace("|", "\\|").replace("<", "&lt;")

    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join(f"| {' | '.join(map(escape, line))} |" for line in lines)


def draw(found: Results, path: Path) -> None:
    """Two panels: the ratio to oneDNN of each row by shape, and a roofline of ours and oneDNN's rows on 2 threads."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, (ratios, roof) = pyplot.subplots(2, 1, figsize=(16, 15), layout="constrained")
    _draw_ratios(found, ratios)
    _draw_roof(found, roof)
    figure.savefig(path, dpi=100, metadata={"Software": None})
    pyplot.close(figure)


def _draw_ratios(found: Results, axes: Any) -> None:
    names = [shape.name for shape in TABLE]
    for solve, color in COLORS.items():
        for dtype, mark in MARKS.items():
            points = [
                (names.index(row.shape), ratio)
                for row, _ in found.rows()
                if row.solve == solve and row.dtype == dtype and (ratio := found.ratio(row, "onednn"))
            ]
            if points:
                label = f"{SOLVE_NAMES[solve]}, {dtype}"
                axes.scatter(*zip(*points), s=14, c=color, marker=mark, alpha=0.6, label=label)
    axes.axhline(1, color="black", linewidth=0.8)
    axes.set_yscale("log")
    axes.set_ylabel("oneDNN's time / ours")
    axes.set_title("Ratio to oneDNN's best, by shape: above the line we are faster")
    axes.set_xticks(range(len(names)), names, rotation=90, fontsize=6)
    axes.set_xlim(-1, len(names))
    axes.grid(axis="y", which="both", linewidth=0.3)
    if axes.get_legend_handles_labels()[0]:
        axes.legend(fontsize=7, ncols=3)


def _draw_roof(found: Results, axes: Any) -> None:
    threads = max(THREADS)
    peaks = found.machine.get("peaks", {}).get(str(threads))
    for name, color in (("ours", "tab:blue"), ("onednn", "tab:red")):
        for dtype, mark in MARKS.items():
            points = [
                (row.geometry.flops / row.bytes, row.geometry.flops / seconds / 1e9)
                for row, _ in found.rows()
                if row.threads == threads and row.dtype == dtype and (seconds := found.seconds(row, name))
            ]
            if points:
                label = f"{NAMES[name]}, {dtype}"
                axes.scatter(*zip(*points), s=12, c=color, marker=mark, alpha=0.5, label=label)
    if peaks:
        for dtype, style in (("f32", "-"), ("bf16", "--")):
            top = ceiling(peaks, dtype)
            ends = [0.25, top / peaks["read"], 2048]
            heights = [min(top, end * peaks["read"]) / 1e9 for end in ends]
            axes.plot(ends, heights, style, color="black", label=f"measured peak, {dtype}")
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_xlabel("FLOP per byte of the three tensors")
    axes.set_ylabel("GFLOP/s")
    axes.set_title(f"Share of the machine's measured peak, {_count(threads)}")
    axes.grid(which="both", linewidth=0.3)
    if axes.get_legend_handles_labels()[0]:
        axes.legend(fontsize=7)
