"""`opwright run`: graphs as oneDNN dumps them, executed and checked; and every way in which a file can be wrong."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from opwright import cli, load, project
from opwright.oracle import interpret, prove, torch_witness, witness

DUMPS = Path(__file__).parents[1] / "support" / "graph_dumps"
RUNNABLE = [
    "conv_transpose_backward_data_same_upper",
    "conv_transpose_backward_weights",
    "conv_transpose_grouped",
    "conv_transpose_grouped-partitioning",
    "convolution",
    "convolution_any_output",
    "convolution_backward_data",
    "convolution_backward_weights_bf16",
    "convolution_ncx_transposed",
]
UNKNOWN = -(2**63)
Run = Callable[..., tuple[int, str, str]]
pytestmark = pytest.mark.usefixtures("one_library")


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs the command; its exit code, its output, its errors."""

    def call(*arguments: object) -> tuple[int, str, str]:
        code = cli.main(["run", *map(str, arguments)])
        return code, *capsys.readouterr()

    return call


@pytest.fixture
def refused(run: Run, tmp_path: Path) -> Callable[..., str]:
    """The one line with which a changed dump is refused, from its JSON path on."""

    def call(name: str, change: Callable[[dict[str, Any]], object], *options: object) -> str:
        graph = dump(name)
        change(graph)
        code, out, errors = run(saved(graph, tmp_path), *options)
        assert (code, out, errors.count("\n")) == (2, "", 1)
        return errors.partition("graph.json: ")[2].strip()

    return call


def dump(name: str) -> dict[str, Any]:
    graph: dict[str, Any] = json.loads((DUMPS / f"{name}.json").read_text())
    return copy.deepcopy(graph)


def saved(graph: dict[str, Any], folder: Path) -> Path:
    path = folder / "graph.json"
    path.write_text(json.dumps(graph))
    return path


@pytest.mark.parametrize("name", RUNNABLE)
def test_a_dump_of_one_operation_is_executed_and_equals_the_interpreter(run: Run, name: str) -> None:
    code, out, errors = run(DUMPS / f"{name}.json", "--json")
    assert (code, errors) == (0, "")
    assert json.loads(out)["check"] == {"witness": "the spec's interpreter", "ulp": 0, "right": True}


def tensor(number: int, dtype: str, shape: list[int], stride: list[int]) -> dict[str, Any]:
    logical = {"shape": shape, "stride": stride, "layout_type": "strided", "property_type": "undef"}
    return {"id": number, "dtype": dtype, **logical}


@pytest.mark.parametrize("dtype", ["s4", "u4"])
def test_groups_of_numbers_of_four_bits_are_executed_and_equal_the_interpreter(
    run: Run, tmp_path: Path, dtype: str
) -> None:
    attributes = {
        "qtype": {"type": "string", "value": "per_group"},
        "group_shape": {"type": "s64[]", "value": [1, 1, 4, 1]},
        "axis": {"type": "s64", "value": 2},
    }
    inputs = [
        tensor(0, dtype, [1, 2, 12, 5], [120, 60, 1, 12]),
        tensor(1, "f16", [1, 2, 3, 5], [30, 15, 5, 1]),
        tensor(2, dtype, [1, 2, 3, 5], [30, 15, 5, 1]),
    ]
    outputs = [tensor(3, "f16", [1, 2, 12, 5], [120, 60, 5, 1])]
    op = {"id": 0, "name": "D", "kind": "DynamicDequantize", "attrs": attributes, "inputs": inputs, "outputs": outputs}
    code, out, errors = run(saved({"graph": [op]}, tmp_path), "--json")
    assert (code, errors) == (0, "")
    assert json.loads(out)["check"] == {"witness": "the spec's interpreter", "ulp": 0, "right": True}


def test_strides_of_inputs_and_of_the_output_are_those_of_the_graph(run: Run) -> None:
    _, out, _ = run(DUMPS / "convolution_ncx_transposed.json", "--json")
    strides = {tensor["name"]: tensor["strides"] for tensor in json.loads(out)["tensors"]}
    assert strides == {"src": [120, 1, 24, 4], "weights": [1, 2, 24, 8], "dst": [60, 1, 12, 2]}


def test_gaps_between_cells_do_not_reach_the_result(run: Run, tmp_path: Path) -> None:
    graph = dump("convolution")
    op = graph["graph"][0]
    op["inputs"][0]["stride"] = [1000, 150, 23, 5]
    op["outputs"][0]["stride"] = [1, 17, 211, 105]
    code, out, _ = run(saved(graph, tmp_path), "--json")
    assert code == 0
    assert json.loads(out)["tensors"][-1]["strides"] == [1, 17, 211, 105]


def test_the_shape_input_is_filled_with_the_known_shape_of_the_output(run: Run, tmp_path: Path) -> None:
    graph = dump("convolution_backward_data_shape_tensor")
    graph["graph"][0]["outputs"][0] |= {"shape": [1, 5, 6, 4], "stride": [120, 24, 4, 1]}
    code, out, _ = run(saved(graph, tmp_path), "--json")
    assert code == 0
    assert json.loads(out)["tensors"][2]["origin"] == "the output's shape"


def test_the_shape_input_is_taken_from_data_by_tensor_id(run: Run, tmp_path: Path) -> None:
    np.savez(tmp_path / "data.npz", **{"2": np.array([1, 5, 6, 4], np.int32)})
    code, out, _ = run(DUMPS / "convolution_backward_data_shape_tensor.json", "--data", tmp_path / "data.npz", "--json")
    assert code == 0
    assert json.loads(out)["tensors"][-1]["shape"] == [1, 5, 6, 4]


def test_data_gives_unknown_shapes_and_output_writes_what_they_make(run: Run, tmp_path: Path) -> None:
    src, weights = np.full((1, 3, 3, 1), 2, np.float32), np.ones((3, 3, 1, 1), np.float32)
    np.savez(tmp_path / "data.npz", src=src, weights=weights)
    result = tmp_path / "result.npy"
    code, _, _ = run(DUMPS / "convolution_unknown.json", "--data", tmp_path / "data.npz", "--output", result)
    assert code == 0
    assert np.load(result)[0, :, :, 0].tolist() == [[8, 12, 8], [12, 18, 12], [8, 12, 8]]


def test_a_seed_decides_the_data(run: Run, tmp_path: Path) -> None:
    results = []
    for seed in (1, 1, 2):
        run(DUMPS / "convolution.json", "--seed", seed, "--output", tmp_path / "result.npy")
        results.append(np.load(tmp_path / "result.npy"))
    assert np.array_equal(results[0], results[1])
    assert not np.array_equal(results[0], results[2])


def test_gaussian_values_are_right_within_the_rounding_of_sums(run: Run) -> None:
    code, out, _ = run(DUMPS / "convolution_backward_weights_bf16.json", "--values", "normal", "--json")
    assert code == 0
    assert json.loads(out)["check"]["right"]


def test_pytorch_is_asked_where_the_interpreter_would_take_too_long(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch", reason="PyTorch is not installed")
    monkeypatch.setattr(witness, "INTERPRETED", 0)
    code, out, _ = run(DUMPS / "conv_transpose_grouped.json", "--json")
    assert code == 0
    assert json.loads(out)["check"] == {"witness": "PyTorch in float64", "ulp": 0, "right": True}


def test_pytorch_and_the_interpreter_agree_on_every_operation() -> None:
    pytest.importorskip("torch", reason="PyTorch is not installed")
    here = project.find()
    for op in (op for op in load.load(here.spec, here.root).ops if op.normal_form):
        compared = 0
        for inputs, attributes, _ in prove.calls(op):
            if torch_witness.inexpressible(op, inputs) is None:
                expected = interpret.compute(op, inputs, attributes)
                assert np.array_equal(torch_witness.compute(op, inputs, attributes), expected)
                compared += 1
        assert compared


def test_a_wrong_result_is_called_wrong_and_exits_1(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    right = interpret.compute
    monkeypatch.setattr(interpret, "compute", lambda *call: right(*call) + 100)
    code, out, _ = run(DUMPS / "convolution.json")
    assert code == 1
    assert "WRONG" in out


def test_without_a_witness_the_result_is_called_unchecked(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(witness, "INTERPRETED", 0)
    monkeypatch.setattr(witness, "find_spec", lambda name: None)
    code, out, _ = run(DUMPS / "convolution.json")
    assert code == 0
    assert "not checked: 2160 terms are too many for the interpreter, and PyTorch is not installed" in out


def test_a_call_that_the_spec_refuses_exits_1_with_its_error(run: Run, tmp_path: Path) -> None:
    graph = dump("convolution")
    graph["graph"][0]["attrs"]["groups"]["value"] = 3
    code, out, errors = run(saved(graph, tmp_path))
    assert (code, out) == (1, "")
    assert errors.startswith(
        "convolution: rule groups-divide-in-channels: argument 'groups' is such that IC = 4, G = 3"
    )


def test_an_engine_of_another_kind_is_no_obstacle(run: Run, tmp_path: Path) -> None:
    assert run(saved(dump("convolution") | {"engine_kind": "gpu"}, tmp_path))[0] == 0


def first(graph: dict[str, Any]) -> dict[str, Any]:
    op: dict[str, Any] = graph["graph"][0]
    return op


def put(key: str, value: object, where: str = "inputs") -> Callable[[dict[str, Any]], object]:
    return lambda graph: first(graph)[where][0].update({key: value})


@pytest.mark.parametrize(
    ("change", "line"),
    [
        (lambda g: g.pop("graph"), "$: the key 'graph' is missing"),
        (lambda g: g.update(graph=[]), "$.graph: the graph has no operation; one is expected"),
        (lambda g: g.update(graph={}), "$.graph: a list is expected, not {}"),
        (lambda g: first(g).pop("attrs"), "$.graph[0]: the key 'attrs' is missing"),
        (lambda g: first(g).update(kind=7), "$.graph[0].kind: a string is expected, not 7"),
        (lambda g: first(g)["attrs"].pop("strides"), "$.graph[0].attrs: Convolution needs the attribute 'strides'"),
        (
            lambda g: first(g)["attrs"].update(stride={"type": "s64[]", "value": [1, 1]}),
            "$.graph[0].attrs.stride: Convolution has no such attribute (did you mean 'strides'?); it has strides, "
            "pads_begin, pads_end, dilations, auto_pad, groups, data_format, weights_format",
        ),
        (
            lambda g: first(g)["attrs"]["strides"].update(type="s64"),
            '$.graph[0].attrs.strides.type: strides is of type s64[], not "s64"',
        ),
        (
            lambda g: first(g)["attrs"]["strides"].update(value=[1, 1.5]),
            "$.graph[0].attrs.strides.value[1]: a 64-bit integer is expected, not 1.5",
        ),
        (
            lambda g: first(g)["attrs"]["groups"].update(value=True),
            "$.graph[0].attrs.groups.value: a 64-bit integer is expected, not true",
        ),
        (
            lambda g: first(g)["attrs"]["auto_pad"].update(value=0),
            "$.graph[0].attrs.auto_pad.value: a value of type string is expected, not 0",
        ),
        (
            lambda g: first(g)["inputs"].pop(0) and first(g)["inputs"].pop(0),
            "$.graph[0].inputs: Convolution takes 2 to 3 inputs (src, weights, bias?), not 1",
        ),
        (
            put("dtype", "f23"),
            '$.graph[0].inputs[0].dtype: "f23" is none of f32, f16, bf16, s32, s64, u64, s8, u8, boolean, f8_e4m3, '
            "f8_e5m2, s4, u4 (did you mean 'f32'?)",
        ),
        (put("shape", [1, -5, 6, 4]), f"$.graph[0].inputs[0].shape[1]: -5 is negative; unknown is written {UNKNOWN}"),
        (put("stride", [4, 1]), "$.graph[0].inputs[0].stride: 2 strides for 4 axes"),
        (put("layout_type", "opaque"), "$.graph[0].inputs[0].layout_type: only oneDNN knows an opaque layout; "
         "dump the graph before it is compiled"),
        (put("id", 1), "$.graph[0].inputs[1].id: 1 is the id of another input of another shape or type"),
        (put("shape", [1, 5, 6, 3], "outputs"), "$.graph[0].outputs[0].shape: [1, 5, 6, 3], but the spec of "
         "Convolution gives [1, 5, 6, 2]"),
        (put("stride", [60, 12, 1, 1], "outputs"), "$.graph[0].outputs[0].stride: with strides [60, 12, 1, 1], "
         "elements of the output share memory"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_graph_is_reported_with_its_path(
    refused: Callable[..., str], change: Callable[[dict[str, Any]], object], line: str
) -> None:
    assert refused("convolution", change) == line


def test_an_unknown_operation_is_refused_with_a_suggestion(refused: Callable[..., str]) -> None:
    line = refused("convolution", lambda graph: first(graph).update(kind="ConvTransposed\x1b[2J"))
    assert line.startswith(
        "$.graph[0].kind: there is no operation \"ConvTransposed\\u001b[2J\" (did you mean 'ConvTranspose'?); there are"
    )


def test_several_operations_are_named(refused: Callable[..., str]) -> None:
    line = refused("convolution_relu", lambda graph: None)
    assert line.startswith("$.graph: the graph has 2 operations (Convolution, ReLU), but only one can run")


def test_an_unknown_input_shape_asks_for_data(refused: Callable[..., str]) -> None:
    line = refused("convolution_unknown", lambda graph: None)
    shape = "$.graph[0].inputs[0].shape"
    assert line == f"{shape}: the shape of src is unknown; pass its data with --data FILE.npz (key 'src')"


def test_an_unknown_stated_shape_asks_for_data(refused: Callable[..., str]) -> None:
    line = refused("convolution_backward_data_shape_tensor", lambda graph: None)
    assert line.startswith(
        "$.graph[0].inputs[2]: the shape of diff_src is unknown, and dst_shape_tensor states it; pass"
    )


@pytest.mark.parametrize("key", ["shape", "stride"])
def test_what_memory_cannot_hold_is_refused_before_it_is_asked_for(refused: Callable[..., str], key: str) -> None:
    def change(graph: dict[str, Any]) -> None:
        first(graph)["outputs"][0].update(shape=[UNKNOWN], stride=[UNKNOWN])
        first(graph)["inputs"][0].update({"layout_type": "any" if key == "shape" else "strided"})
        first(graph)["inputs"][0][key] = [2**31, 5, 6, 4] if key == "shape" else [1, 2**40, 4, 1]

    line = refused("convolution", change)
    assert "the tensors need" in line
    assert "a quarter of this machine's memory" in line


@pytest.mark.parametrize(
    "text", ["", "{", '{"graph": [1e999]', "[" * 100_000, '{"graph": [], "graph": []}', "1" * 5000]
)
def test_what_is_no_json_is_refused_in_one_line(run: Run, tmp_path: Path, text: str) -> None:
    (tmp_path / "graph.json").write_text(text)
    code, out, errors = run(tmp_path / "graph.json")
    assert (code, out, errors.count("\n")) == (2, "", 1)
    assert "graph.json: not " in errors or "graph.json: $: an object is expected" in errors


def test_a_file_that_is_not_there_or_is_no_text_is_refused(run: Run, tmp_path: Path) -> None:
    assert run(tmp_path / "none.json")[0] == 2
    (tmp_path / "graph.json").write_bytes(b'{"\xff"}')
    assert "not UTF-8 at byte 2" in run(tmp_path / "graph.json")[2]


@pytest.mark.parametrize(
    ("arrays", "line"),
    [
        ({"sauce": np.zeros(1, np.float32)}, "there is no input 'sauce'; there are 0, 1, 2, bias, src, weights"),
        ({"src": np.zeros((1, 5, 6, 4))}, "src is float64, but the graph says f32"),
        ({"src": np.zeros((2, 2), np.float32)}, "src has the shape (2, 2), but the graph says (1, 5, 6, 4)"),
    ],
)
def test_data_that_does_not_fit_the_graph_is_refused(
    run: Run, tmp_path: Path, arrays: dict[str, np.ndarray], line: str
) -> None:
    np.savez(tmp_path / "data.npz", **arrays)
    code, _, errors = run(DUMPS / "convolution.json", "--data", tmp_path / "data.npz")
    assert (code, errors) == (2, f"opwright run: --data: {line}\n")


def test_data_with_pickled_objects_is_refused(run: Run, tmp_path: Path) -> None:
    np.savez(tmp_path / "data.npz", src=np.array([{}], object))
    code, _, errors = run(DUMPS / "convolution.json", "--data", tmp_path / "data.npz")
    assert code == 2
    assert "not an .npz file of plain arrays" in errors
