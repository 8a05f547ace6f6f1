"""The hash of a revision: it changes with all that callers notice, and with nothing else."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence

import pytest
from opwright.derive.algebra.poly import NotPolynomial
from opwright.derive.contract import contract_hash
from opwright.language.model import Op
from opwright.language.source import SpecInvalid
from opwright.load import load_texts
from opwright.review import compare
from opwright.review.edit import Edit
from opwright.review.rules import RULES
from support import mutants, pairs, reviewing, spots, structure_edits
from support.draws import FULL

OP = f"{reviewing.FOLDER}/conv_transpose.yaml"
COMMON = f"{reviewing.FOLDER}/_common.yaml"
SPECS = next(texts for texts in pairs.bases() if OP in texts)  # without relations, which nobody calls


def hashed(texts: dict[str, str] = SPECS) -> str:
    return contract_hash(load_texts(texts).op("ConvTranspose"))


def edited(old: str, new: str, file: str = OP) -> dict[str, str]:
    assert old in SPECS[file]
    return {**SPECS, file: SPECS[file].replace(old, new)}


NOTICED = {
    "a named value": (COMMON, "(K - 1) * D + 1", "(K - 1) * D + 2"),
    "what is distributed as padding": (OP, '"max(EK - S, 0)"', '"max(EK - S, 1)"'),
    "a case of the padding": (COMMON, "same_upper: floor(T / 2)", "same_upper: ceil(T / 2)"),
    "the shape": (OP, "EK - PB - PE + OP", "EK - PB - PE + OP + 1"),
    "a constraint": (COMMON, "OP < max(S, D)", "OP < max(S, D) + 1"),
    "a constraint that goes": (OP, "groups-divide-out-channels, output-padding-range]", "groups-divide-out-channels]"),
    "a default": (OP, "    default: XOI\n", "    default: IOX\n"),
    "a word": (OP, "    values: [IOX, XOI]\n", "    values: [XOI]\n"),
    "an alias": (COMMON, "aliases: [VALID]", "aliases: [VALIDE]"),
    "the number of axes": (OP, "max: 3}", "max: 2}"),
    "an accumulator": (OP, "dst: bf16, accumulate: f32", "dst: bf16, accumulate: f64"),
    "a row that goes": (OP, "  - {src: f16, weights: f16, bias: f16, dst: f16, accumulate: f32}\n", ""),
    "an empty cell": (OP, "  init: 0\n", "  init: 1\n"),
    "the sum": (OP, "+= src[", "+= 2 * src["),
    "what is stored": (OP, "dst[n, m, x] + bias[m]", "dst[n, m, x] - bias[m]"),
    "the split of an axis": (OP, "I: g * (IC / G) + c", "I: c * G + g"),
    "the order of arrangements": (OP, "      library:\n", "      other:\n"),
    "the least extent": (COMMON, "in_channels: {min: 0", "in_channels: {min: 1"),
}
UNNOTICED = {
    "the order of the sum": (OP, "i: I, k: K", "k: K, i: I"),
    "a number's form": (OP, "init: 0", "init: 0.0"),
    "the sum's form": (OP, r"\+= src\[(.*?)\] \* (weights\[.*\])", r"+= \2 * src[\1]"),
    "the shape's form": (OP, r"O: S \* \(I - 1\) \+ EK", "O: EK - S + I * S"),
    "a value put in for its name": (OP, r"I - 1\) \+ EK", "I - 1) + D * (K - 1) + 1"),
    "classes of kernels": (OP, r"classes: \[dense, depthwise, grouped\]", "classes: [dense, grouped]"),
    "the normal form": (OP, "normal_form: .*\n", ""),
    "prose": (OP, "summary: The kernel.", "summary: A kernel."),
    "the order of constraints": (
        OP,
        "groups-divide-in-channels, groups-divide-out-channels",
        "groups-divide-out-channels, groups-divide-in-channels",
    ),
    "the typical size": (COMMON, "typical: 64", "typical: 32"),
    "the order of rows": (OP, r"(  - \{src: bf16.*\n)(  - \{src: f16.*\n)", r"\2\1"),
}


@pytest.mark.parametrize("what", NOTICED)
def test_what_callers_notice_changes_the_hash(what: str):
    file, old, new = NOTICED[what]
    changed = edited(old, new, file)
    if what == "the order of arrangements":
        head, first, second = (
            changed[OP].partition("      other:\n")[0],
            *re.findall(r"      (?:other|page):\n(?:        .*\n)+", changed[OP]),
        )
        changed[OP] = head + second + first + changed[OP].partition(second)[2]
    assert hashed(changed) != hashed()


@pytest.mark.parametrize("what", UNNOTICED)
def test_what_callers_do_not_notice_leaves_the_hash(what: str):
    file, old, new = UNNOTICED[what]
    text, count = re.subn(old, new, SPECS[file])
    assert count
    assert text != SPECS[file]
    assert hashed({**SPECS, file: text}) == hashed()


def renamed(old: str, new: str) -> str:
    """The hash with one name for another, wherever it stands."""
    data = {name: mutants.renamed(name, mutants.plain(text), old, new) for name, text in SPECS.items()}
    assert data != {name: mutants.plain(text) for name, text in SPECS.items()}
    return hashed({name: mutants.written(found) for name, found in data.items()})


@pytest.mark.parametrize("letters", ["IC CI", "O OO", "EK KE", "i ii", "library ours"])
def test_a_letter_that_no_caller_writes_leaves_the_hash(letters: str):
    assert renamed(*letters.split()) == hashed()


@pytest.mark.parametrize("names", ["bias offset", "strides steps", "output-padding-range output-padding-small"])
def test_a_name_that_callers_write_changes_the_hash(names: str):
    assert renamed(*names.split()) != hashed()


EDITS = 200 if FULL else 5  # of one set of specs
SETS = [*(structure_edits.free(texts) for texts in pairs.bases()[:-1]), *spots.steps()]
UNPROVEN = ("-changed", "-rewritten")  # rules that go by a proof, of which the hash has a smaller one


@pytest.mark.sweep
@pytest.mark.parametrize("part", range(4))
def test_the_hash_changes_where_the_review_says_that_callers_notice(part: int):
    wrong = []
    for number, texts in enumerate(SETS[part::4]):
        base, chance = load_texts(texts), random.Random(100 * part + number)
        for kinds, after in structure_edits.edits(texts, EDITS, chance):
            try:
                head = load_texts(after)
            except (SpecInvalid, NotPolynomial):
                continue
            wrong += [(part, number, kinds, *found) for old in base.ops for new in head.ops
                      if old.op == new.op and (found := disagreeing(old, new, compare.edits(base, head)))]  # fmt: skip
    assert wrong == []


def disagreeing(old: Op, new: Op, edits: Sequence[Edit]) -> list[str]:
    """The rules of an operation's edits, where hash and rules say different things."""
    own = [RULES[edit.rule] for edit in edits if edit.op == new.op]
    changed, noticed = contract_hash(old) != contract_hash(new), any(rule.contract != "none" for rule in own)
    proofs = any(rule.id.endswith(UNPROVEN) for rule in own)
    beside = any(rule.area in ("class", "discrepancy") or "deprecation" in rule.id for rule in own)
    return [] if changed == noticed or proofs or beside else sorted(rule.id for rule in own)


# Edits of operations of steps: the file, what stands there, what it becomes.
STEPS_UNNOTICED = (
    ("soft_max", "peak", "top"), ("soft_max", "before: ", "front: "), ("soft_max", "classes", "kinds"),
    ("add", "src_0[x] + src_1[x]", "src_1[x] + src_0[x]"), ("add", "{X: X}, broadcast: [X]", "{Y: X}, broadcast: [Y]"),
    ("reduce_sum", "Sums over some", "Sums along some"), ("causal", "where: [t <= q + T - Q]", "where: [q + T - Q >= t]"),
)  # fmt: skip
STEPS_NOTICED = (
    ("soft_max", "max=", "min="), ("soft_max", 'default: "-1"', 'default: "0"'), ("add", "[none, numpy]", "[numpy]"),
    ("reduce_sum", '"true": [K, R]', '"true": [R, K]'), ("reduce_sum", "dst[k, 0] +=", "dst[k, 0] max="),
    ("mat_mul", "may_lack: [M, N]", "may_lack: [M]"), ("add", "src_0: bf16, src_1: bf16", "src_0: f16, src_1: f16"),
    ("nearest", "symbol: O, per_axis: true", "symbol: O, per_axis: true, min: 0"),
    ("add", "name: src_0", "name: first"), ("soft_max", "after: {symbol: A, run: true", "after: {symbol: A"),
)  # fmt: skip


def of_steps(name: str, *edits: tuple[str, str]) -> str:
    text = structure_edits.text_of(name)
    for old, new in edits:
        assert old in text
        text = text.replace(old, new)
    return contract_hash(load_texts({f"{reviewing.FOLDER}/{name}.yaml": text}).ops[0])


@pytest.mark.parametrize(("name", "old", "new"), STEPS_UNNOTICED)
def test_what_callers_of_steps_do_not_notice_leaves_the_hash(name: str, old: str, new: str):
    assert of_steps(name, (old, new)) == of_steps(name)


@pytest.mark.parametrize(("name", "old", "new"), STEPS_NOTICED)
def test_what_callers_of_steps_notice_changes_the_hash(name: str, old: str, new: str):
    more = {"name: src_0": [("src_0: ", "first: "), ("src_0[", "first[")]}
    assert of_steps(name, (old, new), *more.get(old, [])) != of_steps(name)
