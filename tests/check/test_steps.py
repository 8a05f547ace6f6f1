"""What is refused of operations of steps: with its place, and what to write instead."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from opwright.emit import lowerable
from opwright.language.source import Problem, SpecInvalid
from opwright.load import load_texts

SCALED = """op: Scaled
revision: 1
summary: Numbers times another.
dims: {cells: {symbol: X, run: true, summary: cells}}
attributes:
  - {name: alpha, symbol: A, type: f32, default: "1", summary: The factor.}
inputs:
  - {name: src, dims: {X: X}, summary: The numbers.}
outputs:
  - {name: dst, dims: {X: X}, summary: The results.}
dtypes:
  - {src: f32, dst: f32, accumulate: f32}
semantics:
  ranges: {x: X}
  steps:
    - dst[x] = A * src[x]
"""
SPECS = Path(__file__).parents[1] / "data" / "steps"
# The file, what stands there, what it becomes, the rule, and words of the sentence.
REFUSED = (
    ("soft_max", "peak[b, a] max= src", "peak[b, c] max= src", "semantics-run", "not a run, so a letter of a run"),
    ("soft_max", "max= src[b, c, a]", "max= src[b, c, a] > 0", "semantics-value", "such as select(..., 1, 0)"),
    ("soft_max", "exp(src", "expp(src", "expression", "did you mean 'exp'"),
    ("soft_max", "total[b, a] += exp", "total[b] += exp", "semantics-indices", "'total' takes 1 index (b), not 2"),
    ("soft_max", "{b: B, c: C, a: A}", "{b: B, c: C, a: C}", "semantics-run", "a letter of that run alone"),
    ("soft_max", "/ total[b, a]", "/ later[b, a]", "step-read", "'later' cannot be read by this step; it can read peak, src, total"),
    ("soft_max", "dst[b, c, a] = exp", "dst[b, c, a] = a + exp", "semantics-value", "a cell holds one value"),
    ("soft_max", "dst[b, c, a] = exp", "dst[b, 0, a] = exp", "step-letters", "accumulate with +=, max= or min="),
    ("soft_max", "    - peak", "    - double[b] += src[b, c, a]\n    - peak", "name-reserved", "'double'"),
    ("soft_max", "inputs:", "  - {name: peak_at, type: s64, required: true}\ninputs:", "name-reserved", "such as 'peak_at_value'"),
    ("reduce_sum", "layouts:", "  - {name: word_keep_dims, type: s64, required: true}\nlayouts:", "name-reserved", "'word_keep_dims'"),
    ("soft_max", "name: src,", "name: opw_set,", "name-reserved", "'opw_set' itself"),
    ("quantize", "required: true, per: C}", "required: true, per: B}", "attribute-per", "there is no size 'B'"),
    ("reduce_sum", "dst[k, 0] +=", "dst[k, r] +=", "semantics-run", "its index is 0"),
    ("soft_max", "- {src: f32,", "- {total: f64, src: f32,", "dtype-key", "write `to_f64(...)`"),
    ("add", "src_0[x] + src_1[x]", "src_0[x] / src_1[x]", "dtype-accumulate", "accumulates in s64"),
    ("soft_max", "src, dims: {B: B, C: C,", "src, dims: {B: B, C: C - 1 + 1,", "locates", "no input has an axis of extent C"),
    ("layer_norm", "locates: cells", "locates: nothing", "locates", "there is no size 'nothing'"),
    ("mat_mul", "K: K}, broadcast: [B]", "K: K}, broadcast: [Q]", "tensor-broadcast", "no axis of 'src' 'Q'"),
    ("mat_mul", "{N: N}, optional", "{N: 2 * N}, broadcast: [N], optional", "tensor-broadcast", "cannot broadcast along the computed extent 2 * N"),
    ("concat", "joined: C", "joined: A", "joined", "a size of dims; A is not one"),
    ("concat", "joined: C", "joined: D", "joined", "no axis of 'src' 'D'"),
    ("concat", "joined: C", "joined: C, optional: true", "joined", "joined from at least one array"),
    ("concat", "- {name: dst, dims", "- {name: dst, joined: C, dims", "output-key", "cannot be optional, joined or broadcast"),
    ("mat_mul", "may_lack: [M]}", "may_lack: [B]}", "may-lack", "must be a size of dims"),
    ("mat_mul", "may_lack: [M]}", "may_lack: [M, K]}", "may-lack", "no call determines which"),
    ("mat_mul", ", may_lack: [M]}", "}", "may-lack", "no input may omit it"),
    ("static_transpose", "order_of: dst", "order_of: dest", "order-of", "did you mean 'dst'"),
    ("static_transpose", "required: true, order_of", 'default: "0", order_of', "order-of", "must be required"),
    ("static_transpose", "dst, dims: {X: X}", "dst, dims: {X: X}, may_lack: [X]", "order-of", "alone orders the axes"),
    ("arg_max", "number(r)", "number(r + 1)", "step-number", "takes letters of ranges"),
    ("arg_max", "number(r)", "number(R)", "step-number", "takes letters of ranges"),
    ("arg_max", "number(r)", "r", "semantics-value", "a cell holds one value"),
    ("flattened", "src[2 * h]", "src[h + x]", "semantics-run", "the number of a cell in it"),
    ("flattened", "prod(X) - 1 - number(x)", "prod(X) - 1 - x", "semantics-run", "such as number(x)"),
    ("max_pool", "I + 2 * P", "number(K) + 2 * P", "expression-function", "only steps can"),
    ("static_reshape", "extents_of: target", "extents_of: source", "extents-of", "is already determined"),
    ("static_reshape", "extents_of: target, ", "", "extents-of", "`fills` and `keeps` require `extents_of`"),
    ("static_reshape", "fills: source, ", "", "extents-of", "`keeps` refers to the run of `fills`"),
    ("static_reshape", "keeps: special_zero", "keeps: shape", "extents-of", "no truth attribute 'shape'"),
    ("static_reshape", "fills: source", "fills: nothing", "extents-of", "no run of axes 'nothing'"),
    ("static_reshape", "required: true, extents_of", "required: true, min: 1, extents_of", "extents-of", "without min and max"),
    ("grouped", 'default: "[]"', "required: true", "blocks", "the default [], which means no blocks"),
    ("grouped", "blocks: {channels: W}", "blocks: {before: W}", "blocks", "no size 'before'"),
    ("grouped", "blocks: {channels: W}", "blocks: {channels: B}", "expression-kind", "the extent of blocks of 'channels' must be an integer"),
    ("grouped", "blocks: {channels: W}", "blocks: {groups: W}", "blocks", "must be required, without layout"),
    ("grouped", "per_channel: [G],", "per_channel: [B, A],", "layout-axes", "those whose size a required input"),
    ("interpolate", "scaled(I, S)", "scaled(I, T)", "expression", "takes an integer and a real number"),
    ("interpolate", "scaled(I, S)", "scaled(S, I)", "expression", "takes an integer and a real number"),
    ("interpolate", "scaled(I, S)", "I * S", "expression-kind", "must be an integer"),
    ("interpolate", "length: spatial, min: 0, neutral: 1, summary: How", "per: N, length: spatial, neutral: 1, summary: How", "attribute-per", "has either `per` or `length`"),
    ("interpolate", '"f32[]", default: "0", length: spatial', '"f32[]", default: "0"', "attribute-length", "needs `length: spatial`"),
    ("reduce_sum", 'default: "[-2, -1]"', 'default: "[a]"', "attribute-default", "not a value of type s64[]"),
    ("quantize", 'default: "0", per: C', 'default: "[0, 1]", per: C', "attribute-default", "one number, which fills a list"),
    ("max_pool", "max= src", "max= select(all(k >= 0), 1, 0) * src", "semantics-value", "`where` takes conditions"),
    ("mat_mul", "optional: true", "optional: true, absent: nan", "tensor-absent", "such as 0, 1 or -inf"),
    ("bits", "inverse: s32, accumulate: s64", "inverse: s32, accumulate: f32", "dtype-accumulate", "takes integers"),
    ("bits", "bit_and(src_0[x], src_1[x])", "bit_and(src_0[x])", "expression", "takes 2 arguments"),
    ("avg_pool_backward", "required: true, length: any", "length: any", "shape-of", "every call must give it"),
    ("avg_pool_backward", "shape_of: diff_src", "shape_of: diff_dst", "shape-of", "no output 'diff_dst'"),
    ("soft_max", "semantics:", "classes:\n  - {name: all}\nsemantics:", "steps-key", "leave it out: kernels of steps take every size"),
    ("mat_mul", "semantics:", "normal_form: {solve: y, big: src, small: dst, weights: 'weights[b, k, n]'}\nsemantics:", "steps-key", "roles of their letters"),
    ("avg_pool_backward", "dims: {N: N, C: C, X: O}}\noutputs", "dims: {N: N, C: C, X: O}}\n  - {name: shape, shape_of: diff_src}\noutputs", "shape-of", "one list states the shape"),
    ("nearest", "floor(o * I / T)", "floor(o * I / T) + 1", "neutral", "a spatial axis that a call does not have this must be 0"),
    ("max_pool", "- dst[n, c, o] max= src[n, c, o * S + k * D - P]", "- {do: 'dst[n, c, o] max= src[n, c, o * S + k * D - P]', where: [o > 0]}", "neutral", "this must hold"),
    ("nearest", "floor(o * I / T)", "o * I / T", "semantics-index", "write floor(a / b)"),
    ("nearest", "floor(o * I / T)", "floor(T / o)", "semantics-index", "an integer divisor may contain symbols"),
    ("gelu", "gelu_tanh: dst", "gelu_tan: dst", "step-cases", "exactly the words of 'mathematical'"),
    ("causal", "where: [t <= q + T - Q]", "where: [t % q == 0]", "semantics-where", "may contain symbols, but no letters"),
    ("causal", "where: [t <= q + T - Q]", "where: [t / 2 == q]", "semantics-where", "write floor(a / b)"),
    ("nearest", "dst[n, o] = src", "dst[n, o] = floor(n / o) * src", "semantics-value", "floor((m + 0.0) / n)"),
    ("add", "- dst[x] = src_0[x] + src_1[x]", "- {do: 'dst[x] = src_0[x] + src_1[x]', where: [x > 0]}", "semantics-where", "number(x) is one value"),
    ("add", "src_0[x] + src_1[x]", "floor(src_0[x]) + src_1[x]", "dtype-accumulate", "f64 holds integers"),
    ("add", "src_0[x] + src_1[x]", "src_0[x] / 2 + src_1[x]", "dtype-accumulate", "write floor(a / b) or ceil(a / b)"),
    ("add", "src_0[x] + src_1[x]", "floor(src_0[x] / 0.5) + src_1[x]", "dtype-accumulate", "this is a real number"),
    ("add", "src_0[x] + src_1[x]", "number(x) / 2 + src_1[x]", "dtype-accumulate", "write floor(a / b)"),
    ("add", "src_0: u8, src_1: s8, dst: s32", "src_0: u8, src_1: f32, dst: s32", "dtype-accumulate", "give 'src_1' a type of integers"),
    ("add", "src_0[x] + src_1[x]", "src_0[x] % src_1[x]", "expression", "a - b * floor(a / b) is the remainder"),
    ("soft_max", ", locates: classes", "", "run-ambiguous", "how many axes"),
    ("soft_max", "C: C,", "C: 2 * C,", "locates", "compute C from it in let"),
    ("max_pool", "symbol: K, ", "symbol: N, ", "name-taken", "leave it out of dims"),
    ("select", "select(cond[x] != 0,", "select(cond[x],", "expression", "as in x != 0"),
    ("mat_mul", "{N: N}, optional: true", "{N: N}, optional: true, absent: '0.3'", "tensor-absent", "is bf16 in a row"),
    ("gelu", "gelu_tanh: dst[x]", "gelu_tanh: dst[0]", "step-cases", "`cases` can choose an index"),
    ("type_cast", "dtype_of: dst, values", "values", "attribute-default", "required or have a default"),
    ("stretched", "broadcast_as: offset", "broadcast_as: offsed", "broadcast-as", "did you mean 'offset'"),
    ("stretched", "broadcast_as: factor", "broadcast_as: weights", "broadcast-as", "'weights' never broadcasts"),
    ("stretched", "C: C}, broadcast_as: factor", "C: X}, broadcast_as: factor", "broadcast-as", "the same dims"),
    ("stretched", "broadcast: [X], summary", "broadcast: [X], broadcast_as: weights, summary", "broadcast-as", "is an input"),
    ("stretched", "attributes:", "attributes:\n  - {name: rates, type: 'f32[]', per: C, default: '1', summary: R.}", "broadcast-as", "make it an input"),
    ("stretched", "{name: weights, dims: {X: X, C: C}", "{name: weights, joined: C, dims: {X: X, C: C}", "broadcast-as", "no arrays are joined"),
    ("stretched", "gain[x, c] +=", "gain[x, c] =", "broadcast-as", "sum them with +="),
    ("stretched", "weights[x, c] * scale", "weights[x, c] * c", "broadcast-as", "'c' can only be an index by itself"),
    ("stretched", "- lowest[c] min= scale", "- {by: weighted, cases: {'true': 'lowest[c] min= gain[x, c]', 'false': 'lowest[c] min= scale'}}", "broadcast-as", "so all cases name 'x'"),
    ("stretched", "weights[x, c] * scale", "weights[x, 0] * scale", "broadcast-as", "its index is a letter"),
    ("stretched", "weights[x, c] * scale", "weights[x, c] * number(x)", "broadcast-as", "'x' can only be an index"),
    ("stretched", "- total[c] += weights[x, c] * scale", "- {do: 'total[c] += weights[x, c] * scale', where: [c > 0]}", "broadcast-as", "by itself"),
    ("select", "  - {name: cond, dims: {X: X}, broad", "  - {name: cond, optional: true, dims: {X: X}, broad", "input-order", "optional"),
)  # fmt: skip


def problems(text: str) -> list[Problem]:
    try:
        return [problem for op in load_texts({"op.yaml": text}).ops for problem in lowerable.problems(op)]
    except SpecInvalid as invalid:
        return list(invalid.problems)


@pytest.mark.parametrize(("name", "old", "new", "rule", "words"), REFUSED)
def test_a_spec_that_steps_cannot_say_is_refused_at_its_place(
    name: str, old: str, new: str, rule: str, words: str
) -> None:
    text = (SPECS / f"{name}.yaml").read_text(encoding="utf-8")
    assert old in text
    assert problems(text) == []
    found = problems(text.replace(old, new, 1))
    assert [problem for problem in found if problem.rule == rule and words in problem.message], found
    assert all(problem.mark.line > 1 for problem in found)


def test_intermediates_are_names_of_c_alone_and_tensors_may_be_called_sum_all_and_any() -> None:
    text = (SPECS / "named_freely.yaml").read_text(encoding="utf-8")
    assert all(word in text for word in ("name: sum", "name: all", "name: any", "lambda[b] +=", "len[b] max="))
    assert problems(text) == []
    found = problems(text.replace("lambda[", "static["))
    assert {problem.rule for problem in found} == {"name-reserved"}


@pytest.mark.parametrize(
    "word", ["out", "min", "threads", "in", "lambda", "range", "rank", "rules", "double", "object"]
)
@pytest.mark.parametrize("place", ["name: alpha", "name: src", "name: dst", "symbol: A", "x: X"])
def test_a_name_that_is_taken_comes_with_one_that_is_free(place: str, word: str) -> None:
    """Written as the message says, the spec is accepted; an attribute keeps its page's name."""
    key, name = place.split(": ")
    text, name = SCALED, key if key == "x" else name

    def with_name(new: str) -> str:
        return re.sub(rf"(?<![a-z]){name}(?=[:,}}\[\]]| \* | =|$)", new, text, flags=re.MULTILINE)

    if (word, name) == ("out", "dst"):
        assert problems(with_name(word)) == []  # the argument `out` is for outputs
        return
    (message, *_) = [problem.message for problem in problems(with_name(word)) if problem.rule == "name-reserved"]
    found = re.search(r"such as '(\w+)'(, with `page_name: (\w+)`)?", message)
    assert found is not None, message
    assert bool(found[2]) == (name == "alpha"), message
    assert problems(with_name(found[1] + (f", page_name: {found[3]}" if found[2] else ""))) == []


def test_sizes_may_be_described_by_any_word_as_it_stands_in_texts_alone() -> None:
    assert (
        problems(re.sub(r"cells: X\b", "out: X", SCALED)) == problems(re.sub(r"cells: X\b", "lambda: X", SCALED)) == []
    )


def test_a_size_that_only_optional_inputs_broadcast_to_is_refused() -> None:
    text = (
        (SPECS / "add.yaml")
        .read_text(encoding="utf-8")
        .replace("dims: {X: X}, broad", "optional: true, dims: {X: X}, broad")
    )
    assert [problem.rule for problem in problems(text)] == ["extent-optional"]
