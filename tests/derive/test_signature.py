"""Signatures: every kernel has one name, one prototype and one file, and whoever prints one prints that."""

from __future__ import annotations

import importlib
import json
import re

import opwright_kernels as package
import pytest
from opwright.derive.signature import (
    FAST_NAMES,
    PORTABLE_NAMES,
    entries_path,
    header_path,
    library_part,
    signatures,
    stems,
)
from opwright.emit.entries import Entries, entries, entry_files
from opwright.language.dtypes import DTYPES
from opwright.language.model import Op
from opwright.load import load_texts, load_with_gradients
from opwright_kernels import _dtypes
from support.checkout import ROOT
from support.generated import PACKAGE
from support.specs import edited, problems_of, real_texts

OPS = load_texts(real_texts()).ops
HEADERS = sorted((PACKAGE / "include" / "opwright").iterdir())
NAMES = {made.name: made for op in OPS for made in signatures(op)}


def test_header_manifest_and_package_know_the_kernels_of_the_signatures_and_no_others():
    manifest = json.loads((PACKAGE / "MANIFEST.json").read_text(encoding="utf-8"))
    listed = {name: path for path, output in manifest["outputs"].items() for name in output["variants"]}
    ours = {variant.name for variant in package.variants() if variant.op in {op.op for op in OPS}}
    gradients = load_with_gradients(ROOT / "spec" / "onednn_graph", ROOT).gradients  # which only autograd calls
    inner = [made.name for op in gradients for made in signatures(op)]
    assert sorted([*(variant.name for variant in package.variants()), *inner]) == sorted(listed)
    assert {name: path for name, path in listed.items() if name in ours} == {n: made.path for n, made in NAMES.items()}
    header = "".join(path.read_text(encoding="utf-8") for path in HEADERS)
    declared = set(re.findall(r"^(?:void |    )(\w+)[(,;]$", header, re.MULTILINE))
    for names in re.findall(r"^opwright_\w+_kernel ([\w,\s]+);$", header, re.MULTILINE):
        declared |= {*re.split(r",\s+", names)}
    assert declared == {name for name in listed if name.endswith("_portable") or name not in ours}


@pytest.mark.parametrize("op", OPS, ids=lambda op: op.function)
def test_the_types_that_cffi_is_given_are_those_of_the_header(op: Op):
    header = (PACKAGE / header_path(op)).read_text(encoding="utf-8")
    module = importlib.import_module(f"opwright_kernels._{op.function}")
    found = re.findall(r"typedef [^;{]*\([^;]*\);", module.CDEF)
    assert len(found) == 2 * len(op.dtypes) + 2
    plain = " ".join(header.split()).replace("( ", "(")
    for text in found:
        joined = " ".join(text.split()).replace("( ", "(")
        declared = re.sub(r"typedef void \w+_part\(", "(", joined)
        assert declared in plain, joined


def test_dtypes_of_the_package_are_those_of_the_generator():
    assert {dtype.numpy: dtype.c_type for dtype in DTYPES.values()} == _dtypes.C_TYPES
    assert {dtype.numpy: dtype.size for dtype in DTYPES.values()} == {n: d.itemsize for n, d in _dtypes.DTYPES.items()}
    assert {str(d): str(bits) for d, bits in _dtypes.BITS.items()} == {
        d.numpy: d.bits for d in DTYPES.values() if d.bits
    }


def classes(old: str, new: str) -> Op:
    """ConvTranspose with its classes edited."""
    return load_texts(edited("_common.yaml", old, new)).op("ConvTranspose")


def defined(op: Op, row: dict[str, str]) -> list[Entries]:
    """What each file of a dtype row's fast kernels defines."""
    return [entries(op, file) for file in entry_files(op, row)]


def test_the_engine_of_a_class_follows_from_its_channels_and_not_from_its_name():
    texts = {name: text.replace("depthwise", "single") for name, text in real_texts().items()}
    op = load_texts(texts).op("ConvTranspose")
    assert {stem.group: stem.part for stem in stems(op)} == {"dense": "", "single": "single", "grouped": ""}
    assert [(found.path, found.engine) for found in defined(op, op.dtypes[0])] == [
        ("c/entries/conv_transpose_f32.c", "data"),
        ("c/entries/conv_transpose_f32_single.c", "channelwise_data"),
    ]


def test_a_class_that_only_bears_the_name_has_the_engine_of_all():
    op = classes("when: IC == G and OC == G, let: {IC: G, OC: G}", "when: IC == G, let: {IC: G}")
    assert {library_part(op, group) for group in op.classes} == {""}
    assert {found.engine for row in op.dtypes for found in defined(op, row)} == {"data"}
    assert {entries_path(op, "f32", group) for group in op.classes} == {"c/entries/conv_transpose_f32.c"}


@pytest.mark.parametrize("name", sorted(PORTABLE_NAMES | FAST_NAMES))
def test_a_tensor_cannot_bear_the_name_of_a_parameter_of_kernels(name: str):
    texts = {file: re.sub(r"\bbias\b(?!:)", name, text) for file, text in real_texts().items()}
    assert "name-reserved" in {problem.rule for problem in problems_of(texts)}


def test_the_kernels_of_a_call_are_looked_up_by_what_it_resolves_to():
    src, weights = package.TensorSpec((1, 4, 9), "float32"), package.TensorSpec((4, 1, 3), "float32")
    lists = {"strides": [1], "pads_begin": [0], "pads_end": [0], "dilations": [1]}
    explanation = package.explain(
        "Convolution", src, weights, **lists, groups=4, data_format="NCX", weights_format="OIX"
    )
    assert explanation.variant.name in NAMES
    assert (explanation.variant.group_class, explanation.variant.dtype) == ("depthwise", "f32")
