"""A spec whose normal form and semantics differ is found out, whatever the difference."""

from __future__ import annotations

import pytest
from opwright.language.model import Op
from opwright.language.source import SpecInvalid
from opwright.load import load_texts
from opwright.oracle import prove
from support.specs import convolutions, real_texts

OPS = {op.op: op for op in convolutions().ops}
NAMES = sorted(OPS)

MUTATIONS = {
    "a scale in reduce": (" += ", " += 2 * "),
    "the tap offset with another sign": ("i * S + k * D - PB", "i * S - k * D + PB"),
    "max for sum": (" += ", " max= "),
    "the stride on the other letter": ("i * S + k * D", "i * D + k * S"),
    "no dilation": ("i * S + k * D", "i * S + k"),
    "no padding": ("k * D - PB", "k * D"),
    "the end's padding in front": ("k * D - PB", "k * D - PE"),
    "swapped channels": ("[g, small, big, k]", "[g, big, small, k]"),
}


def mutated(name: str, old: str, new: str) -> Op:
    """The operation with a piece of its semantics or normal form replaced."""
    texts = real_texts()
    file = f"{OPS[name].function}.yaml"
    head, start, tail = texts[file].partition("semantics:")
    assert old in tail
    return load_texts(texts | {file: head + start + tail.replace(old, new)}).op(name)


@pytest.mark.parametrize("name", NAMES)
def test_the_six_operations_agree_with_their_normal_forms(name: str) -> None:
    assert prove.agrees(OPS[name]) is None


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("mutation", MUTATIONS)
def test_a_mutation_is_caught(name: str, mutation: str) -> None:
    old, new = MUTATIONS[mutation]
    disagreement = prove.agrees(mutated(name, old, new))
    assert disagreement is not None
    assert disagreement.startswith(f"the normal form of {name} ")
    assert "strides=" in disagreement


@pytest.mark.parametrize("name", ["Convolution", "ConvTranspose"])
@pytest.mark.parametrize(("old", "new"), [(", bias: bias", ""), ("+ bias[m]\n", "+ bias[m] - bias[m]\n")])
def test_a_bias_on_one_side_only_is_caught(name: str, old: str, new: str) -> None:
    disagreement = prove.agrees(mutated(name, old, new))
    assert disagreement is not None
    assert "bias [" in disagreement


@pytest.mark.parametrize("name", ["Convolution", "ConvTranspose"])
def test_a_finish_with_a_scale_is_caught(name: str) -> None:
    assert prove.agrees(mutated(name, "dst[n, m, x] + bias[m]", "2 * dst[n, m, x] + bias[m]")) is not None


@pytest.mark.parametrize("name", [name for name in NAMES if OPS[name].normal_form.solve in "xy"])
def test_a_normal_form_that_solves_for_the_other_tensor_is_refused_as_it_computes_an_input(name: str) -> None:
    solve = OPS[name].normal_form.solve
    with pytest.raises(SpecInvalid, match=r"normal-form: `solve: .` computes"):
        mutated(name, f"solve: {solve}", f"solve: {'y' if solve == 'x' else 'x'}")


def test_a_spec_of_which_no_call_is_legal_does_not_agree() -> None:
    texts = real_texts()
    never = "constraints: [{id: never, expr: IC < 0, say: no call is legal, argument: src}, "
    texts["convolution.yaml"] = texts["convolution.yaml"].replace("constraints: [", never)
    disagreement = prove.agrees(load_texts(texts).op("Convolution"))
    assert disagreement == "no legal call of Convolution was found to compare its normal form"


@pytest.mark.parametrize("name", NAMES)
def test_the_compared_calls_tell_all_parts_of_the_relation_apart(name: str) -> None:
    validation = [validation for _, _, validation in prove.calls(OPS[name])]
    assert {len(validation.values["S"]) for validation in validation} == {1, 2, 3}  # type: ignore[arg-type]
    assert any(j.values["G"] > 1 and j.values["IC"] != j.values["OC"] for j in validation)  # type: ignore[operator]
    for symbol in ("S", "D", "K"):
        assert len({entry for j in validation for entry in j.values[symbol]}) > 1  # type: ignore[union-attr]
    assert any(j.values["PB"] != j.values["PE"] for j in validation)
    arrangements = {arrangement for tensor in OPS[name].tensors for arrangement in tensor.arrangements}
    assert {arrangement for j in validation for arrangement in j.arrangements.values()} == arrangements


def test_the_compared_calls_are_the_same_every_time() -> None:
    first, second = ([j.values for _, _, j in prove.calls(OPS["ConvTranspose"])] for _ in range(2))
    assert first == second


@pytest.mark.parametrize("ranks", ["{min: 2, max: 3}", "{min: 3, max: 3}"])
def test_normal_forms_are_compared_whatever_the_number_of_spatial_axes(ranks: str) -> None:
    texts = real_texts()
    file = "convolution_backward_data.yaml"
    assert "{min: 1, max: 3}" in texts[file]
    texts[file] = texts[file].replace("{min: 1, max: 3}", ranks)
    assert prove.agrees(load_texts(texts).op("ConvolutionBackwardData")) is None
