"""How rows are measured: right and wrong candidates, refusals, dead workers, and runs that go on where they stopped."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from opwright_kernels._isa import cpu_flags
from support import onednn_peer, torch_peer

from bench import disturbed, measure, results
from bench.candidate import Refused
from bench.disturbed import missing
from bench.process import Died, Process, Processes, processes
from bench.rows import INPUTS, SOLVES, Row
from bench.tensors import Tensors, canonical, integers, wrong

ROOT = Path(__file__).parents[2]
TINY = ("dcgan_project_b16", "odd_tiny_batch")


@pytest.fixture(scope="module")
def workers() -> Iterator[Processes]:
    with processes() as started:
        yield started


def bench(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    paths = os.pathsep.join(str(ROOT / part) for part in ("generator", "generated"))
    return subprocess.run(
        [sys.executable, "-m", "opwright", "bench", "--results", str(folder), "--threads", "1", *options],
        env={**os.environ, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
        check=False,
    )


TWO_ROWS = ("--candidates", "ours", "--filter", "convolution/odd_tiny_batch/f32")


def test_two_rows_of_ours_are_measured_kept_and_not_measured_again(tmp_path: Path) -> None:
    answer = bench(tmp_path, *TWO_ROWS)
    assert answer.returncode == 0, answer.stderr
    assert "[2/2] convolution/odd_tiny_batch/f32/ncx/1: Opwright " in answer.stdout
    stored = results.read(tmp_path / "rows.jsonl")
    assert set(stored.records) == {f"convolution/odd_tiny_batch/f32/{layout}/1" for layout in ("nxc", "ncx")}
    assert all(record["candidates"]["ours"]["seconds"] > 0 for record in stored.records.values())
    assert stored.machine["peaks"]["1"]["read"] > 0
    assert stored.machine["call"]["1"]["ours"] > 0
    assert (tmp_path / "RESULTS.md").is_file()

    lines = (tmp_path / "rows.jsonl").read_text(encoding="utf-8").splitlines()
    (tmp_path / "rows.jsonl").write_text("\n".join(lines[:-1]) + "\n", encoding="utf-8")
    answer = bench(tmp_path, *TWO_ROWS)
    assert "1 rows were measured before" in answer.stdout
    assert "[1/1] " in answer.stdout
    assert set(results.read(tmp_path / "rows.jsonl").records) == set(stored.records)


def test_a_row_of_f16_is_timed_in_turns_with_our_own_f32(tmp_path: Path) -> None:
    options = ("--candidates", "ours", "--filter", "convolution/odd_tiny_batch/f16/nxc")
    bench(tmp_path, *options)
    (stored,) = results.read(tmp_path / "rows.jsonl").records.values()
    ours, wide = (stored["candidates"][name] for name in ("ours", "ours_f32"))
    assert ("_f16_" in ours["how"], "_f32_" in wide["how"]) == (True, True)
    assert len(ours["rounds"]) == len(wide["rounds"]) >= measure.ENOUGH

    del stored["candidates"]["ours_f32"]
    results.append(tmp_path / "rows.jsonl", stored)
    assert "[1/1] " in bench(tmp_path, *options).stdout
    assert "[1/1] " not in bench(tmp_path, *options).stdout


def test_the_list_names_rows_and_measures_none(tmp_path: Path) -> None:
    answer = bench(tmp_path, *TWO_ROWS, "--list")
    assert answer.stdout.split() == [f"convolution/odd_tiny_batch/f32/{layout}/1" for layout in ("nxc", "ncx")]
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--filter", "no_such_row"), "no row's key holds"),
        (("--candidates", "mine"), "there is no candidate 'mine'; there are ours, onednn, torch"),
        (("--threads", "4096"), "threads must be from 1 to"),
        (("--report",), "there are no results"),
    ],
)
def test_what_cannot_be_measured_is_refused(tmp_path: Path, options: tuple[str, ...], message: str) -> None:
    answer = bench(tmp_path, "--candidates", "ours", *options)
    assert answer.returncode == 2
    assert message in answer.stderr


@pytest.mark.parametrize("op", SOLVES)
@pytest.mark.parametrize("dtype", ["f32", "bf16"])
@pytest.mark.parametrize("layout", ["NXC", "NCX"])
@pytest.mark.parametrize("candidate", ["ours", "torch", "onednn"])
def test_every_mode_of_every_candidate_gives_the_exact_result(
    tmp_path: Path, workers: Processes, op: str, dtype: str, layout: str, candidate: str
) -> None:
    if not torch_peer.available():
        pytest.skip("PyTorch, which makes the exact results, is not installed")
    if candidate == "onednn" and not onednn_peer.available():
        pytest.skip("oneDNN is not installed")
    summed = candidate == "torch" and op.endswith("Weights")
    if dtype == "bf16" and "avx512bw" not in cpu_flags() and (candidate == "onednn" or summed):
        pytest.skip("without AVX-512 oneDNN has no kernels of bf16, and PyTorch adds gradients of weights in bf16")
    references = measure.References(workers, tmp_path, 1)
    tried = 0
    for shape in TINY:
        row = Row(op, shape, dtype, layout, 1)
        reference = references.path(row)
        assert reference is not None
        worker = workers[candidate, 1]
        for mode in worker.ask("open", row):
            try:
                worker.ask("describe", mode, limit=measure.BUILD_LIMIT)
                assert worker.ask("check", mode, reference)[1] == 0, (row.key, mode)
                tried += 1
            except Died:
                raise
            except Refused:
                assert candidate == "onednn", (row.key, mode)
    assert tried >= len(TINY)


class Invented(Processes):
    """Workers that answer from a table: a mode's seconds, "wrong" or what is raised."""

    def __init__(self, modes: dict[str, float | str | Exception]) -> None:
        self.modes = modes

    def __missing__(self, key: tuple[str, int]) -> Process:
        answers = self.modes

        class Answering(Process):
            def ask(self, method: str, *arguments: object, limit: float = 0) -> object:
                if method in ("open", "close"):
                    return list(answers)
                planned = answers[str(arguments[0])]
                if isinstance(planned, Exception):
                    raise planned
                if method == "describe":
                    return "ref:any" if planned == "ref" else ""
                if method == "check":
                    assert planned != "ref", "reference code was run"
                    return (0.0, 3) if planned == "wrong" else (float(planned), 0)
                return [float(planned)] * 3, 0.0

        made = self[key] = Answering(*key)
        return made


def record(workers: Processes, tmp_path: Path) -> dict:
    row = Row("Convolution", TINY[0], "f32", "NXC", 1)
    references = measure.References(workers, tmp_path, 1, last=(row.shape, row.solve), found="somewhere")
    return measure.measure(row, ["onednn"], workers, references)["candidates"]["onednn"]


def measured(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, **modes: float | str | Exception) -> dict:
    monkeypatch.setattr(measure, "SETTLE", 0)
    return record(Invented(modes), tmp_path)


def test_the_fastest_correct_mode_counts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    modes = {"a": 0.5, "b": 0.2, "fast": "wrong", "dead": Died("its process ended"), "slow": "ref", "no": Refused("no")}
    found = measured(monkeypatch, tmp_path, **modes)
    assert (found["mode"], found["seconds"]) == ("b", 0.2)
    assert found["rounds"] == [0.2] * measure.ENOUGH
    assert found["modes"] == {
        "a": 0.5, "b": 0.2, "fast": "wrong in 3 cells", "dead": "its process ended", "slow": "not called: ref:any", "no": "no",
    }  # fmt: skip


def test_rounds_that_do_not_agree_go_on(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(measure, "SETTLE", 0)
    workers = Invented({"a": 0.2})
    answer, times = workers["onednn", 1].ask, iter([0.2, 0.20, 0.22, 0.21, 0.20, 0.20])

    def shaky(method: str, *arguments: object, limit: float = 0) -> object:
        return ([next(times)], 0.0) if method == "time" else answer(method, *arguments, limit=limit)

    monkeypatch.setattr(workers["onednn", 1], "ask", shaky)
    found = record(workers, tmp_path)
    assert (found["seconds"], len(found["rounds"])) == (0.2, measure.ROUNDS)


def test_rounds_that_lie_far_apart_go_on_for_longer(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(measure, "SETTLE", 0)
    workers = Invented({"a": 0.2})
    answer, times = workers["onednn", 1].ask, iter([0.2] + [0.2, 0.2, 0.4, 0.4, 0.4] + [0.2] * 4)

    def slow_for_a_while(method: str, *arguments: object, limit: float = 0) -> object:
        return ([next(times)], 0.0) if method == "time" else answer(method, *arguments, limit=limit)

    monkeypatch.setattr(workers["onednn", 1], "ask", slow_for_a_while)
    found = record(workers, tmp_path)
    assert (found["seconds"], len(found["rounds"])) == (0.2, measure.MAX_ROUNDS)


@pytest.mark.parametrize(("others", "seconds", "calls"), [(2, 0.2, 1 + 2 + 3), (10**6, 0.4, 1 + 3 * 6)])
def test_a_round_in_which_others_have_the_cpus_is_repeated(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, others: int, seconds: float, calls: int
) -> None:
    monkeypatch.setattr(measure, "SETTLE", 0)
    monkeypatch.setattr(disturbed, "PAUSE", 0)
    workers = Invented({"a": 0.2})
    answer, times = workers["onednn", 1].ask, iter(range(calls))

    def elsewhere(method: str, *arguments: object, limit: float = 0) -> object:
        if method != "time":
            return answer(method, *arguments, limit=limit)
        number = next(times)
        return ([0.4], 0.9) if 1 <= number <= others else ([0.2], 0.0)

    monkeypatch.setattr(workers["onednn", 1], "ask", elsewhere)
    found = record(workers, tmp_path)
    assert found["rounds"] == [seconds] * measure.ENOUGH
    assert list(times) == []


def test_threads_that_share_a_cpu_wait_for_it() -> None:
    if not Path("/proc/self/schedstat").exists():
        pytest.skip("schedstat, by which Linux tells what threads wait for, is not there")
    cpu, data, stop = min(os.sched_getaffinity(0)), bytes(2**20), threading.Event()

    def occupy() -> None:
        os.sched_setaffinity(0, {cpu})  # of this thread
        while not stop.is_set():
            hashlib.sha256(data).digest()

    threads = [threading.Thread(target=occupy) for _ in range(2)]
    for thread in threads:
        thread.start()
    _, missed = missing(lambda: time.sleep(0.5))
    stop.set()
    for thread in threads:
        thread.join()
    assert missed > 0.5


def test_a_mode_that_is_far_behind_is_not_called_again(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    calls: list[str] = []
    workers = Invented({"best": 0.01, "near": 0.011, "far": 0.3})
    answer = workers["onednn", 1].ask

    def counted(method: str, *arguments: object, limit: float = 0) -> object:
        if method == "time":
            calls.append(str(arguments[0]))
        return answer(method, *arguments, limit=limit)

    monkeypatch.setattr(workers["onednn", 1], "ask", counted)
    monkeypatch.setattr(measure, "SETTLE", 0)
    found = record(workers, tmp_path)
    assert found["modes"]["far"] == 0.3
    assert set(calls) == {"best", "near"}


def test_a_candidate_that_is_only_wrong_has_no_time(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    found = measured(monkeypatch, tmp_path, a="wrong", b=Refused("unimplemented"))
    assert found["wrong"] == "wrong in 3 cells"
    assert "seconds" not in found


def test_a_candidate_that_refuses_is_kept_with_its_reason(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    found = measured(monkeypatch, tmp_path, a=Refused("unimplemented"))
    assert found["refused"] == "unimplemented"
    assert "seconds" not in found


def test_a_slow_call_is_made_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    found = measured(monkeypatch, tmp_path, a=9.0)
    assert found["seconds"] == 9.0
    assert "rounds" not in found


def test_a_worker_that_takes_too_long_is_stopped_and_starts_again() -> None:
    with processes() as started:
        worker = started["ours", 1]
        with pytest.raises(Died, match="stopped after 0 s"):
            worker.ask("versions", limit=0)
        assert worker.ask("versions")["opwright"]


@pytest.mark.parametrize("op", SOLVES)
def test_the_tensors_of_a_row_are_the_same_numbers_in_every_layout_and_dtype(op: str) -> None:
    for dtype in ("f32", "bf16"):
        for layout in ("NXC", "NCX"):
            tensors = Tensors(Row(op, "odd_tiny_batch", dtype, layout, 1))
            for name in INPUTS[op]:
                assert np.array_equal(tensors.canonical(name), integers("odd_tiny_batch", name))
                assert tensors.arrays[name].ctypes.data % 64 == 0
                assert tensors.arrays[name].flags.c_contiguous
            assert np.isnan(tensors.result.astype(np.float32)).all()


def test_a_cell_that_is_off_or_was_never_written_is_wrong() -> None:
    exact = np.arange(12, dtype=np.float32).reshape(1, 3, 4)
    result = canonical(np.moveaxis(exact, 1, -1).copy(), "big", "NXC")
    assert wrong(result, exact, "f32") == 0
    result[0, 1, 1] += 0.01
    result[0, 2, 2] = np.nan
    assert wrong(result, exact, "f32") == 2
    assert wrong(result, exact, "bf16") == 1
