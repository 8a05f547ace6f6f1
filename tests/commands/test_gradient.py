"""`opwright gradient`: prints, writes and checks gradients; `generate` refuses one that no longer follows."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from opwright import cli
from opwright.commands.explain import gradient_of
from opwright.project import find

SPECS = Path(__file__).parents[1] / "data" / "steps"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    spec = tmp_path / "spec" / "own"
    spec.mkdir(parents=True)
    for name in ("mat_mul", "soft_max", "greater_equal"):
        (spec / f"{name}.yaml").write_text((SPECS / f"{name}.yaml").read_text(encoding="utf-8"), encoding="utf-8")
    return spec


def run(folder: Path, *arguments: str) -> int:
    return cli.main(["gradient", *arguments, "--spec", str(folder)])


def test_it_prints_the_spec(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(folder, "mat_mul", "--of", "weights") == 0
    printed = capsys.readouterr().out
    assert "op: MatMulBackwardWeights" in printed
    assert "- diff_weights[b, k, n] += diff_dst[b, m, n] * src[b, m, k]" in printed
    assert "- {gradient_of: MatMul}" in printed


def test_it_says_why_there_is_none(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(folder, "GreaterEqual") == 1
    assert "real numbers both in its inputs and in its outputs" in capsys.readouterr().err
    assert run(folder, "GreaterEquals") == 2
    assert "did you mean 'GreaterEqual'" in capsys.readouterr().err


def test_what_it_writes_is_checked_and_generated(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(folder, "MatMul", "--write") == 0
    assert run(folder, "SoftMax", "--write") == 0
    assert run(folder, "SoftMax", "--write") == 0  # over its own
    assert run(folder, "--check") == 0
    assert "2 gradients agree" in capsys.readouterr().out
    output = folder.parent.parent / "made"
    assert cli.main(["generate", "--spec", str(folder), "--output", str(output)]) == 0
    assert list((output / "c").glob("soft_max_backward_*.c"))


def test_one_in_the_folder_of_gradients_is_written_there_again(folder: Path) -> None:
    assert run(folder, "SoftMax", "--write") == 0
    derived = folder / "gradients" / "soft_max_backward.yaml"
    derived.parent.mkdir()
    (folder / derived.name).rename(derived)
    text = derived.read_text(encoding="utf-8")
    derived.write_text(text.replace("* (diff_dst", "* (2 * diff_dst"), encoding="utf-8")
    output = folder.parent.parent / "made"
    assert cli.main(["generate", "--spec", str(folder), "--output", str(output)]) == 3
    assert run(folder, "--check") == 1
    assert run(folder, "SoftMax", "--write") == 0
    assert derived.read_text(encoding="utf-8") == text
    assert not (folder / derived.name).exists()
    assert run(folder, "--check") == 0
    assert cli.main(["generate", "--spec", str(folder), "--output", str(output)]) == 0


def test_what_a_person_edited_in_a_derived_gradient_stays_when_it_is_written_again(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(folder, "SoftMax", "--write") == 0
    assert "left out" not in capsys.readouterr().out
    path = folder / "soft_max_backward.yaml"
    derived = path.read_text(encoding="utf-8")
    row = next(line for line in derived.splitlines(keepends=True) if "bf16" in line)
    edited = re.sub(r"summary: The gradient with[^}]*", "summary: What flows back.", derived.replace(row, ""))
    assert edited.count("What flows back.") >= 2
    path.write_text(edited, encoding="utf-8")
    assert run(folder, "SoftMax", "--write") == 0
    assert path.read_text(encoding="utf-8") == edited
    assert "left out, as before: 1 row of data types" in " ".join(capsys.readouterr().out.split())
    path.unlink()
    assert run(folder, "SoftMax", "--write") == 0
    assert path.read_text(encoding="utf-8") == derived


def test_a_gradient_that_a_person_wrote_is_not_overwritten(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = (folder / "soft_max.yaml").read_text(encoding="utf-8").replace("op: SoftMax", "op: SoftMaxBackward")
    (folder / "soft_max_backward.yaml").write_text(text, encoding="utf-8")
    assert run(folder, "SoftMax", "--write") == 1
    assert "hand-written" in capsys.readouterr().err
    assert (folder / "soft_max_backward.yaml").read_text(encoding="utf-8") == text


@pytest.mark.parametrize(
    ("file", "old", "new"),
    [
        ("soft_max_backward", "* (diff_dst", "* (2 * diff_dst"),
        ("soft_max", "/ total[b, a]", "/ (1 + total[b, a])"),
    ],
)
def test_a_derived_gradient_that_no_longer_follows_is_refused(
    folder: Path, capsys: pytest.CaptureFixture[str], file: str, old: str, new: str
) -> None:
    run(folder, "SoftMax", "--write")
    path = folder / f"{file}.yaml"
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new), encoding="utf-8")
    assert cli.main(["generate", "--spec", str(folder), "--output", str(folder.parent / "made")]) == 3
    printed = capsys.readouterr().err
    assert "soft_max_backward.yaml:" in printed
    assert "gradient-derived" in printed
    assert "opwright gradient SoftMax" in printed


def test_prose_of_a_derived_gradient_is_a_persons_own(folder: Path) -> None:
    run(folder, "SoftMax", "--write")
    path = folder / "soft_max_backward.yaml"
    text = path.read_text(encoding="utf-8").replace(
        "summary: The gradient of SoftMax with respect to its src.", "summary: Backwards."
    )
    path.write_text(text, encoding="utf-8")
    assert cli.main(["generate", "--spec", str(folder), "--output", str(folder.parent / "made")]) == 0


WRITTEN = """\
op: SoftMaxBackward
revision: 1
summary: The gradient of SoftMax.
dims:
  before: {symbol: B, run: true}
  classes: {symbol: C}
  after: {symbol: A, run: true}
attributes:
  - {name: axis, type: s64, default: "-1", locates: classes}
inputs:
  - {name: dst, dims: {B: B, C: C, A: A}}
  - {name: diff_dst, dims: {B: B, C: C, A: A}}
outputs:
  - {name: diff_src, dims: {B: B, C: C, A: A}}
dtypes:
  - {dst: f32, diff_dst: f32, diff_src: f32, accumulate: f32}
semantics:
  ranges: {b: B, c: C, a: A}
  steps:
    - sums[b, a] += diff_dst[b, c, a] * dst[b, c, a]
    - diff_src[b, c, a] = dst[b, c, a] * (diff_dst[b, c, a] - sums[b, a])
"""
CLAIM = """\
relations:
  - {gradient: SoftMaxBackward, of: src, with: {dst: dst, diff_dst: dst, diff_src: src}}
"""


def test_a_gradient_that_a_person_wrote_is_compared_with_differences(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with (folder / "soft_max.yaml").open("a", encoding="utf-8") as spec:
        spec.write(CLAIM)
    (folder / "soft_max_backward.yaml").write_text(WRITTEN, encoding="utf-8")
    assert run(folder, "--check", "soft_max") == 0
    assert "1 gradients agree" in capsys.readouterr().out
    (folder / "soft_max_backward.yaml").write_text(WRITTEN.replace("- sums[b, a])", "+ sums[b, a])"), encoding="utf-8")
    assert run(folder, "--check", "soft_max") == 1
    assert "SoftMaxBackward is not the gradient of SoftMax: diff_src gives" in capsys.readouterr().out


def test_every_gradient_that_a_shipped_spec_claims_is_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["gradient", "--check"]) == 0
    assert int(capsys.readouterr().out.split()[0]) > 20


def test_explain_says_which_operation_is_the_gradient_or_why_there_is_none() -> None:
    reasons = {
        "SoftMax": "SoftMaxBackward",
        "Exp": "derived by: opwright gradient Exp",
        "Round": "none follows: its outputs change with its inputs only at jumps",
        "Convolution": "ConvolutionBackwardData, ConvolutionBackwardWeights",
    }
    for name, expected in reasons.items():
        assert gradient_of(find(), name).startswith(expected)


def test_explain_prints_the_gradient_of_an_operation(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["explain", "exp(src f32[3])"]) == 0
    assert "gradient: derived by: opwright gradient Exp" in capsys.readouterr().out


def test_explain_says_which_operators_of_pytorch_an_operation_stands_for(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["explain", "gelu(src f32[2])"]) == 0
    assert "pytorch: gelu, approximate none; gelu, approximate tanh\n" in capsys.readouterr().out
    assert cli.main(["explain", "elu(src f32[2], alpha=1.0)"]) == 0
    assert "pytorch:" not in capsys.readouterr().out
