"""The commands: what they print, how they refuse, and with which exit code."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from opwright import cli

COMMANDS = ("generate", "schema", "build", "list", "why", "explain", "run", "export", "bench", "demo")
STEPS = "strides=[1,1], pads_begin=[0,0], pads_end=[0,0], dilations=[1,1]"
CALL = f'conv_transpose(src f32[1,4,4,8], weights f32[2,2,8,8], {STEPS}, auto_pad="same_lower")'
Command = Callable[..., tuple[int, str, str]]
pytestmark = pytest.mark.usefixtures("one_library")


@pytest.fixture
def opwright(capsys: pytest.CaptureFixture[str]) -> Command:
    """Runs a command; its exit code, its output, its errors."""

    def call(*arguments: object) -> tuple[int, str, str]:
        try:
            code = cli.main(list(map(str, arguments)))
        except SystemExit as end:  # argparse
            code = int(end.code or 0)
        return code, *capsys.readouterr()

    return call


def test_help_names_every_command(opwright: Command) -> None:
    assert set(COMMANDS) <= set(re.findall(r"^    ([a-z]+) ", opwright("--help")[1], re.MULTILINE))


@pytest.mark.parametrize("command", COMMANDS)
def test_help_of_every_command_ends_with_a_commented_example(opwright: Command, command: str) -> None:
    code, out, _ = opwright(command, "--help")
    assert code == 0
    assert re.search(rf"\nexample:\n  opwright {command} .*   # ", out)


@pytest.mark.parametrize("arguments", [[], ["no-such-command"], ["run"], ["run", "x.json", "--seed", "-1"]])
def test_wrong_usage_exits_2(opwright: Command, arguments: list[str]) -> None:
    assert opwright(*arguments)[0] == 2


def test_list_counts_kernels_and_lines_in_plain_columns_when_piped(opwright: Command) -> None:
    code, out, _ = opwright("list")
    lines = out.splitlines()
    assert code == 0
    assert lines[0].split() == ["operation", "dtypes", "kernels", "lines", "of", "C", "KiB"]
    (line,) = (line for line in lines if line.startswith("Convolution "))
    assert re.match(r"Convolution  +f32, bf16, f16  +\d+ +\d+ +\d+$", line)
    assert re.match(rf"{len(lines) - 2} operations, \d+ kernels, \d+ lines of C, \d+ KiB$", lines[-1])


def test_list_of_one_operation_names_its_kernels(opwright: Command) -> None:
    out = opwright("list", "ConvTranspose")[1]
    assert "\nconv_transpose(src, weights, bias?) -> dst\n" in out
    assert "\nconv_transpose_bf16_nxc_xoi_grouped_portable\n" in out
    (entry,) = json.loads(opwright("list", "conv_transpose", "--json")[1])
    assert entry["op"] == "ConvTranspose"
    assert len(entry["variants"]) == len(set(entry["variants"])) >= 36


def test_list_names_every_output_and_says_where_nothing_is_generated(opwright: Command, tmp_path: Path) -> None:
    text = (Path(__file__).parents[1] / "data" / "steps" / "arg_max.yaml").read_text(encoding="utf-8")
    (tmp_path / "arg_max.yaml").write_text(text, encoding="utf-8")
    out = opwright("list", "ArgMax", "--spec", tmp_path, "--output", tmp_path / "absent")[1]
    assert re.search(r"^ArgMax .* \d+ +- +-$", out, re.MULTILINE)
    assert "\narg_max(src) -> dst, peaks\n" in out
    assert f"\nnothing is generated in {tmp_path / 'absent'}; name another package with --output" in out


def test_an_operation_without_a_split_says_so(opwright: Command, tmp_path: Path) -> None:
    text = (
        "op: Blocks\nrevision: 1\nsummary: Blocks of eight.\ndims: {blocks: H}\ninputs: [{name: src, dims: {R: H * 8}}]\n"
        "outputs: [{name: dst, dims: {R: H * 8}}]\ndtypes: [{src: f32, dst: f32, accumulate: f32}]\nsemantics:\n"
        "  ranges: {h: H, u: 8, i: 8}\n  steps: ['dst[h * 8 + u] += src[h * 8 + i]']\n"
    )
    (tmp_path / "blocks.yaml").write_text(text, encoding="utf-8")
    code, out, _ = opwright("explain", "Blocks", "--sharding", "--spec", tmp_path)
    assert (code, out[:28]) == (0, "Blocks may not be split: no ")


@pytest.mark.parametrize("command", ["list", "build", "explain"])
def test_an_unknown_operation_is_refused_with_a_suggestion(opwright: Command, command: str) -> None:
    code, out, errors = opwright(command, "Convolutoin")
    assert (code, out) == (2, "")
    assert re.search(r"there is no operation 'Convolutoin' \(did you mean '[Cc]onvolution'\?\); there are", errors)


def test_explain_takes_a_call_as_text(opwright: Command) -> None:
    code, out, _ = opwright("explain", CALL)
    assert code == 0
    assert out.startswith("ConvTranspose -> float32[1, 4, 4, 8]\nkernel: conv_transpose_f32_nxc_xoi_dense_")
    assert re.search(r"leading padding \(PB\) = \[1, 1\]   spec/onednn_graph/_common.yaml:\d+", out)


def test_explain_prints_how_an_operation_may_be_split(opwright: Command) -> None:
    code, out, _ = opwright("explain", "Convolution", "--sharding")
    assert code == 0
    assert "g: groups: cuts src along C" in " ".join(out.split())
    code, printed, _ = opwright("explain", "convolution", "--sharding", "--json")
    assert [row["letter"] for row in json.loads(printed) if row["kind"] == "whole"] == ["k"]
    assert opwright("explain", "Convolutio", "--sharding")[0] != 0


def test_explain_prints_the_table_of_schedules(opwright: Command) -> None:
    code, out, _ = opwright("explain", "--schedules")
    assert code == 0
    assert "block: where tasks have the letter for themselves" in out
    code, printed, _ = opwright("explain", "--schedules", "--json")
    assert [row["name"] for row in json.loads(printed)][-3:] == ["rest", "blocks", "one by one"]
    assert opwright("explain")[0] == 2


def test_explain_takes_a_call_in_options(opwright: Command) -> None:
    options = ["--input", "src=f32[1,4,4,8]", "--input", "weights=f32[2,2,8,8]", "--set", "auto_pad=same_lower"]
    options += [part for step in STEPS.split(", ") for part in ("--set", step)]
    assert opwright("explain", "ConvTranspose", *options) == opwright("explain", CALL)


def test_explain_prints_json(opwright: Command) -> None:
    found = json.loads(opwright("explain", CALL, "--json")[1])
    assert found["shape"] == [1, 4, 4, 8]
    assert found["variant"]["op"] == "ConvTranspose"


def test_explain_takes_the_values_of_a_shape_input(opwright: Command) -> None:
    call = (
        f"convolution_backward_data(diff_dst f32[1,4,4,8], weights f32[1,1,3,8], {STEPS}, dst_shape_tensor=[1,4,4,3])"
    )
    assert "-> float32[1, 4, 4, 3]\n" in opwright("explain", call)[1]


def test_explain_takes_tensors_by_place_and_lists_of_them(opwright: Command) -> None:
    assert opwright("explain", "concat([f32[1,2], f32[1,3]], axis=1)")[1].startswith("Concat -> float32[1, 5]\n")
    assert opwright("explain", "relu(f32[3])")[1].startswith("ReLU -> float32[3]\n")


def test_explain_shows_what_the_spec_refuses_and_exits_1(opwright: Command) -> None:
    code, out, errors = opwright("explain", CALL.replace("strides=[1,1]", "strides=[0,1]"))
    assert (code, out) == (1, "")
    assert errors.startswith(
        "conv_transpose: rule strides-range: argument 'strides' is [0, 1], expected every entry >= 1"
    )


def test_explain_names_missing_arguments(opwright: Command) -> None:
    code, _, errors = opwright("explain", "conv_transpose(src f32[1,4,4,8])")
    assert code == 2
    assert "lacks the arguments weights, strides, pads_begin, pads_end, dilations" in errors


def test_build_prints_the_steps_the_library_and_the_time_when_piped(opwright: Command) -> None:
    code, out, _ = opwright("build", "ConvTranspose")
    lines = out.splitlines()
    assert code == 0
    steps = [line for line in lines if line.startswith("[")]
    assert all(step.startswith(f"[{number}/{len(steps)}] opwright_") for number, step in enumerate(steps, start=1))
    assert any("] opwright_conv_transpose_" in step for step in steps)
    assert Path(lines[-2]).is_file()
    assert re.fullmatch(r"built in \d+\.\d s", lines[-1])


def test_build_without_a_compiler_exits_1_and_says_what_to_install(
    opwright: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CC", "no-such-compiler")
    code, _, errors = opwright("build", "ConvTranspose")
    assert code == 1
    assert "Install gcc or clang" in errors


def test_an_exported_package_runs_under_its_new_name_without_the_tool(opwright: Command, tmp_path: Path) -> None:
    code, out, _ = opwright("export", tmp_path, "--name", "kernels")
    assert code == 0
    assert out.startswith(f"{tmp_path / 'kernels'}: import kernels")
    program = "import kernels, sys; print(len(kernels.variants()), 'opwright' in sys.modules)"
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    printed = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, env=environment, capture_output=True, text=True, check=True
    )
    assert re.fullmatch(r"\d+ False\n", printed.stdout)


def test_export_overwrites_nothing_and_takes_only_names_that_can_be_imported(opwright: Command, tmp_path: Path) -> None:
    (tmp_path / "kernels").mkdir()
    assert "exists already" in opwright("export", tmp_path, "--name", "kernels")[2]
    for name in ("../evil", "a.b", "class", ""):
        code, _, errors = opwright("export", tmp_path, "--name", name)
        assert code == 2
        assert "must be a Python identifier" in errors


PAGE = Path(__file__).parents[1] / "audit" / "pages" / "upstream.md"


@pytest.mark.parametrize(
    "arguments",
    [
        ["--help"],
        ["schema"],
        ["list"],
        ["diff", "--rules"],
        ["diff", "--explain", "op-removed"],
        ["audit", str(PAGE), "--format", "json"],
    ],
    ids=" ".join,
)
def test_a_command_whose_reader_leaves_ends_in_silence(arguments: list[str]) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    buffered = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    command = [sys.executable, "-m", "opwright", *arguments]
    ran = subprocess.run(command, env=buffered, stdout=writer, stderr=subprocess.PIPE, text=True)
    os.close(writer)
    assert (ran.returncode, ran.stderr) == (141, "")


def test_commands_see_the_package_and_the_specs_that_they_are_given(opwright: Command, tmp_path: Path) -> None:
    specs, package = tmp_path / "specs", tmp_path / "own_kernels"
    specs.mkdir()
    product = Path(__file__).parents[1] / "data" / "matrix_product.yaml"
    (specs / product.name).write_text(product.read_text(encoding="utf-8"), encoding="utf-8")
    own = ("--spec", specs, "--output", package)
    assert opwright("generate", *own)[0] == 0
    assert "generated in" not in opwright("list", *own)[1]
    assert [entry["op"] for entry in json.loads(opwright("list", *own, "--json")[1])] == ["MatrixProduct"]
    found = json.loads(opwright("explain", "matrix_product(a f32[2,3], b f32[3,4])", *own, "--json")[1])
    assert found["shape"] == [2, 4]
    assert "built in" in opwright("build", "MatrixProduct", *own)[1]
    assert opwright("explain", CALL)[0] == 0, "the project's own package is found again"


def test_a_package_that_is_not_there_is_refused(opwright: Command, tmp_path: Path) -> None:
    code, out, errors = opwright("build", "--output", tmp_path / "nothing")
    assert (code, out) == (2, "")
    assert "there is no generated package in" in errors


@pytest.mark.parametrize(("kind", "key"), [("op", "semantics"), ("common", "classes"), ("sources", "pages")])
def test_schema_prints_the_schema_of_each_kind_of_file(opwright: Command, kind: str, key: str) -> None:
    code, out, _ = opwright("schema", kind)
    assert code == 0
    root = json.loads(out)
    assert key in root["$defs"][root["$ref"].rpartition("/")[2]]["properties"]
