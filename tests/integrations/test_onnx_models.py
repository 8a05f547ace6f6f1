"""ONNX models: bodies of loops and branches, functions, inputs that do not fit, files that are corrupt or hostile."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from opwright import cli
from support.draws import FULL, rng

onnx = pytest.importorskip("onnx", reason="onnx is not installed")
from onnx import TensorProto, helper  # noqa: E402
from onnx.reference import ReferenceEvaluator  # noqa: E402
from opwright_kernels.onnx import ModelError, load  # noqa: E402
from support.onnx_graphs import random_graph  # noqa: E402
from support.onnx_hostile import HOSTILE  # noqa: E402
from support.onnx_models import mutated, near, network, real, reworded  # noqa: E402


@pytest.fixture(scope="module", autouse=True)
def _quick(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    yield


def value(name: str, *shape: Any, kind: int = TensorProto.FLOAT) -> Any:
    return helper.make_tensor_value_info(name, kind, shape)


def made(nodes: list[Any], inputs: list[Any], outputs: list[Any], **more: Any) -> Any:
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("local", 1)]
    return helper.make_model(helper.make_graph(nodes, "g", inputs, outputs), opset_imports=opsets, **more)


def test_a_network_takes_any_extents_and_gives_what_the_reference_gives() -> None:
    random = rng("network")
    proto = network(random)
    model = load(proto)
    for extents in ((1, 5, 7), (3, 8, 6), (2, 1, 9)):
        x = real(random, extents[0], 3, *extents[1:])
        (found,) = model.run({"x": x})
        assert near(found, ReferenceEvaluator(proto).run(None, {"x": x})[0])
        assert [ran.op_type for ran in model.report.reference] == ["Flatten"]
    assert str(model.report).startswith("5 of 6 nodes ran on this package's kernels")


def test_nodes_in_the_bodies_of_branches_and_loops_run_here_and_read_what_is_around_them() -> None:
    then = helper.make_graph([helper.make_node("Exp", ["x"], ["t"])], "then", [], [value("t", "N")])
    other = helper.make_graph([helper.make_node("Add", ["x", "z"], ["e"])], "else", [], [value("e", "N")])
    body = helper.make_graph(
        [helper.make_node("Mul", ["carried", "z"], ["next"]), helper.make_node("Identity", ["going"], ["still"])],
        "body",
        [value("at", kind=TensorProto.INT64), value("going", kind=TensorProto.BOOL), value("carried", "N")],
        [value("still", kind=TensorProto.BOOL), value("next", "N")],
    )
    nodes = [
        helper.make_node("If", ["c"], ["b"], then_branch=then, else_branch=other),
        helper.make_node("Loop", ["trips", "go", "b"], ["y"], body=body),
    ]
    inputs = [value("c", kind=TensorProto.BOOL), value("go", kind=TensorProto.BOOL), value("x", "N"), value("z", "N")]
    model = made(nodes, [*inputs, value("trips", kind=TensorProto.INT64)], [value("y", "N")])
    runner = load(model)
    for condition in (True, False):
        given = {
            "c": np.array(condition), "go": np.array(True), "x": np.array([0.5, -1, 2], np.float32), "z": np.array([2, 3, 4], np.float32),
            "trips": np.array(3, np.int64),
        }  # fmt: skip
        (found,) = runner.run(given)
        assert near(found, ReferenceEvaluator(model).run(None, given)[0])
        ran = [one.function for one in runner.report.here]
        assert ran == ["exp" if condition else "add", *["multiply"] * 3]


def test_functions_of_a_model_run_here() -> None:
    body = [helper.make_node("Relu", ["a"], ["r"]), helper.make_node("Add", ["r", "a"], ["out"])]
    opsets = [helper.make_opsetid("", 17)]
    function = helper.make_function("local", "Twice", ["a"], ["out"], body, opsets)
    node = helper.make_node("Twice", ["x"], ["y"], domain="local")
    model = load(made([node], [value("x", 3)], [value("y", 3)], functions=[function]))
    (found,) = model.run([np.array([-1, 0, 2], np.float32)])
    assert found.tolist() == [-1, 0, 4]
    assert [one.function for one in model.report.nodes] == ["relu", "add"]


def test_the_example_of_the_page_runs() -> None:
    page = (Path(__file__).parents[2] / "docs" / "ONNX.md").read_text(encoding="utf-8")
    code = page.partition("```python\n")[2].partition("```")[0]
    known: dict[str, Any] = {}
    exec(compile(code, "ONNX.md", "exec"), known)
    assert np.array_equal(known["y"], np.full((2, 8), 0.125, np.float32))


def test_a_node_that_says_more_than_its_entry_takes_runs_on_the_reference_with_the_reason() -> None:
    x = np.arange(16, dtype=np.float32).reshape(1, 1, 4, 4)
    node = helper.make_node("MaxPool", ["x"], ["y"], kernel_shape=[3, 3], strides=[1, 1], storage_order=1)
    model = load(made([node], [value("x", *x.shape)], [value("y", 1, 1, 2, 2)]))
    model.run([x])
    (ran,) = model.report.nodes
    assert (ran.function, ran.why) == ("", "storage_order is 1, not 0 or none")


WRONG = {
    "the model has no input 'z'": {"x": real(rng(0), 1, 3, 4, 4), "z": 1},
    "input 'x' is missing": {},
    "input 'x' is of float64": {"x": np.ones((1, 3, 4, 4))},
    "input 'x' has the shape (1, 2, 4, 4), expected (N, 3, H, W)": {"x": np.ones((1, 2, 4, 4), np.float32)},
    "input 'x' has the shape (3,)": {"x": np.ones(3, np.float32)},
    "input 'x' is a list": {"x": [1]},
}


@pytest.mark.parametrize("message", WRONG)
def test_inputs_that_are_not_those_of_the_model_are_refused(message: str) -> None:
    with pytest.raises(ModelError) as refused:
        load(network(rng("wrong"))).run(WRONG[message])
    assert message in str(refused.value)


def test_an_extent_with_a_name_is_the_same_in_all_inputs() -> None:
    node = helper.make_node("Add", ["x", "z"], ["y"])
    model = load(made([node], [value("x", "N"), value("z", "N")], [value("y", "N")]))
    with pytest.raises(ModelError, match="N is 1 in input 'z', but 3 in input 'x'"):
        model.run([np.ones(3, np.float32), np.ones(1, np.float32)])


@pytest.mark.parametrize("changed", [mutated, reworded], ids=lambda changed: changed.__name__)
def test_a_file_with_changed_bytes_or_fields_is_refused_or_runs(changed: Any, tmp_path: Path) -> None:
    random = rng(changed.__name__)
    data, x = network(random).SerializeToString(), real(random, 1, 3, 5, 5)
    refused, count = 0, 2000 if FULL else 100
    for _ in range(count):
        (tmp_path / "m.onnx").write_bytes(changed(random, data))
        try:
            load(tmp_path / "m.onnx").run({"x": x})
        except ModelError as error:
            assert str(error)
            refused += 1
    assert 0 < refused < count  # a network that is always refused would prove nothing


@pytest.mark.parametrize("part", range(4))
def test_a_random_graph_gives_what_the_reference_gives(part: int, tmp_path: Path) -> None:
    here = 0
    for number in range(part, 600 if FULL else 40, 4):
        random = rng("graph", number)
        proto, inputs = random_graph(random)
        try:
            wanted = ReferenceEvaluator(proto).run(None, inputs)
        except (ValueError, ZeroDivisionError):  # it flattens nothing that is empty
            continue
        if random.random() < 0.5:
            path = tmp_path / str(number)
            path.mkdir()
            onnx.save_model(proto, path / "m.onnx", save_as_external_data=True, location="w", size_threshold=0)
            model = load(path / "m.onnx")
        else:
            model = load(proto)
        found = model.run(inputs)
        here += len(model.report.here)
        for one, other in zip(found, wanted):
            bound = 1e-4 * float(np.abs(other).max(initial=1))
            assert one.dtype == other.dtype
            assert one.shape == other.shape
            assert np.allclose(one, other, rtol=1e-4, atol=bound), onnx.printer.to_text(proto)
    assert here > 30


LIMITED = """
import resource, sys
from opwright import cli
resource.setrlimit(resource.RLIMIT_AS, (3 << 30, 3 << 30))
sys.exit(cli.main(["run", sys.argv[1]]))
"""


@pytest.mark.parametrize("name", [one for one in HOSTILE if FULL or "a loop" not in one])
def test_a_hostile_model_is_refused_in_words(name: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    made, words = HOSTILE[name]
    path = tmp_path / "m.onnx"
    path.write_bytes(made().SerializeToString())
    if "without end" in name:  # in a process of its own, whose memory is limited
        assert subprocess.run([sys.executable, "-c", LIMITED, str(path)], timeout=120).returncode == 2
    else:
        assert cli.main(["run", str(path)]) == 2
    assert words in capfd.readouterr().err


def test_names_with_control_characters_do_not_steer_the_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = network(rng("names"))
    model.graph.node[0].name = "a\x1b[31m\x07"
    (tmp_path / "m.onnx").write_bytes(model.SerializeToString())
    assert cli.main(["run", str(tmp_path / "m.onnx")]) == 0
    printed = capsys.readouterr().out
    assert "a\\x1b[31m\\x07" in printed
    assert "\x1b" not in printed


def external(folder: Path, location: str) -> Path:
    """A network whose first weights lie in another file."""
    model = network(rng("external"))
    tensor = model.graph.initializer[0]
    data = tensor.raw_data
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    for key, value in (("location", location), ("offset", "0"), ("length", str(len(data)))):
        tensor.external_data.add(key=key, value=value)
    (folder / "m.onnx").write_bytes(model.SerializeToString())
    (folder / "w.bin").write_bytes(data)
    return folder / "m.onnx"


def test_external_data_lie_beside_the_model_and_nowhere_else(tmp_path: Path) -> None:
    inside = tmp_path / "inside"
    inside.mkdir()
    (tmp_path / "secret").write_bytes(bytes(4096))
    (inside / "link").symlink_to(tmp_path / "secret")
    assert load(external(inside, "w.bin")).inputs[0].name == "x"
    for location in ("../secret", str(tmp_path / "secret"), "link", "none", "."):
        with pytest.raises(ModelError):
            load(external(inside, location))


def test_a_model_of_an_opset_or_of_nodes_that_nobody_knows_is_refused(tmp_path: Path) -> None:
    model = network(rng("opset"))
    model.opset_import[0].version = 999
    with pytest.raises(ModelError, match="opset 999 is newer than"):
        load(model)
    node = helper.make_node("Sparkle", ["x"], ["y"], domain="local", name="first")
    with pytest.raises(ModelError, match=r"node 'first' \(Sparkle\)"):
        load(made([node], [value("x", 3)], [value("y", 3)])).run([np.ones(3, np.float32)])


def test_the_command_runs_a_model_checks_it_and_saves_its_outputs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    random = rng("command")
    path, x = tmp_path / "m.onnx", real(random, 2, 3, 6, 6)
    path.write_bytes(network(random).SerializeToString())
    np.save(tmp_path / "x.npy", x)
    options = ["--input", str(tmp_path / "x.npy"), "--check", "--save", str(tmp_path / "y.npz")]
    assert cli.main(["run", str(path), *options]) == 0
    printed = capsys.readouterr().out
    assert "Flatten" in printed
    assert "y agrees with ONNX's reference" in printed
    with np.load(tmp_path / "y.npz") as saved:
        assert near(saved["y"], ReferenceEvaluator(onnx.load(path)).run(None, {"x": x})[0])
    assert cli.main(["run", str(path), "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert [node["function"] for node in report["nodes"]].count("") == 1
    for arguments in (["--input", "z=" + str(tmp_path / "x.npy")], ["--data", "x.npz"], ["--input", str(path)]):
        assert cli.main(["run", str(path), *arguments]) == 2
        assert "opwright run: " in capsys.readouterr().err
    path.write_bytes(b"\x0a\xff\xff\xff\xff")
    assert cli.main(["run", str(path)]) == 2
    assert "corrupt" in capsys.readouterr().err
