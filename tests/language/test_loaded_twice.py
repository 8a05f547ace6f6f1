"""Equal files are loaded once: both sides of a review share their operations, and nothing else of a folder is taken for granted."""

from __future__ import annotations

import pytest
from opwright.language.source import SpecInvalid
from opwright.load import load_texts, read_folder
from support.checkout import ROOT


@pytest.fixture(scope="module")
def texts() -> dict[str, str]:
    return read_folder(ROOT / "spec" / "onednn_graph", ROOT)


def test_only_the_operation_of_a_changed_file_is_another_one(texts: dict[str, str]) -> None:
    name = next(name for name in texts if name.endswith("/convolution.yaml"))
    edited = {**texts, name: texts[name] + "\n# A comment.\n"}
    before, after = (load_texts(side) for side in (texts, edited))
    other = [one.op for one, two in zip(before.ops, after.ops, strict=True) if one is not two]
    assert other == ["Convolution"]


def test_an_edit_of_shared_entries_reaches_every_operation(texts: dict[str, str]) -> None:
    name = next(name for name in texts if name.endswith("/_common.yaml"))
    edited = {**texts, name: texts[name] + "\n# A comment.\n"}
    before, after = (load_texts(side) for side in (texts, edited))
    assert not any(one is two for one, two in zip(before.ops, after.ops, strict=True))


def test_a_refusal_is_the_same_a_second_time_and_names_the_file_in_which_it_stands(texts: dict[str, str]) -> None:
    name = next(name for name in texts if name.endswith("/convolution.yaml"))
    broken = texts[name].replace("float32", "float33", 1) if "float32" in texts[name] else texts[name] + "\nx: 1\n"
    found = []
    for folder in ("a", "a", "b"):
        with pytest.raises(SpecInvalid) as refused:
            load_texts(
                {f"{folder}/{key.rpartition('/')[2]}": broken if key == name else text for key, text in texts.items()}
            )
        found.append([(p.mark.file, p.mark.line, p.rule, p.message) for p in refused.value.problems])
    assert found[0] == found[1]
    assert {file for file, *_ in found[2]} == {"b/convolution.yaml"}
    assert [rest for _, *rest in found[2]] == [rest for _, *rest in found[0]]
