"""The rules of a review as rows of data: what each kind of difference means to callers, kernels and records.

A rule's id is `<area>-<subject>-<change>`. Its three axes are independent; severity is read off them in one table.
`kernel` is an upper bound that impact.py checks against the rendered kernels.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

CONTRACTS = ("breaking", "dangerous", "compatible", "none")
KERNELS = ("none", "code", "numerics", "variants")  # each allows what stands before it
RECORDS = ("", "provenance", "docs", "format")
SEVERITIES = ("error", "warning", "notice", "info")
# Severity by axis and value; the most severe of a rule's axes counts. A project may remap any of them.
SEVERITY: Mapping[str, str] = {
    "breaking": "error",
    "dangerous": "warning",
    "compatible": "notice",
    "numerics": "warning",
    "variants": "notice",
    "variants-removed": "error",
    "variants-changed": "warning",  # others are there, and may round differently
    "code": "notice",
    "provenance": "notice",
    "docs": "info",
    "format": "info",
}


@dataclass(frozen=True)
class Rule:
    """One kind of difference. `mirror` is the rule of the opposite edit, or a sentence that says why there is none."""

    id: str
    direction: str  # in: what is accepted, out: what is returned, both, or none of them
    contract: str
    kernel: str
    record: str
    mirror: str
    reason: str

    @property
    def area(self) -> str:
        return self.id.split("-")[0]

    @property
    def subject(self) -> str:
        return "-".join(self.id.split("-")[1:-1]) or self.area

    @property
    def action(self) -> str:
        return self.id.rsplit("-", 1)[-1]

    def severity(self, remapped: Mapping[str, str] | None = None) -> str:
        """The most severe value among the rule's axes, or the severity that a project gives the rule itself."""
        table = {**SEVERITY, **(remapped or {})}
        own = f"{self.kernel}-{self.action}"
        kernel = own if own in table else self.kernel
        found = [table[axis] for axis in (self.contract, kernel, self.record) if axis in table]
        return table.get(self.id) or min(found or ["info"], key=SEVERITIES.index)


SELF = "the opposite edit is of the same kind"
_ROWS = """
op-removed | both | breaking | variants | | op-added | Calls of it fail.
op-added | both | compatible | variants | | op-removed | Existing calls are unaffected.
op-renamed | both | breaking | variants | | = | Calls by the old name fail, and so do links to its C symbols.
op-function-changed | both | breaking | variants | | = | Calls by the old name fail, and so do links to its C symbols.
op-revision-raised | none | none | none | provenance | op-revision-lowered | It announces a changed meaning.
op-revision-lowered | none | breaking | none | provenance | op-revision-raised | A released revision gets another meaning.
op-revision-kept | both | breaking | none | provenance | ! a raised revision is op-revision-raised | Behaviour that callers see changed under a released revision: raise `revision`.
op-deprecation-added | both | compatible | none | docs | op-deprecation-removed | Calls still work, and warn that the operation will be removed.
op-deprecation-removed | both | compatible | none | docs | op-deprecation-added | Calls no longer warn.
op-deprecation-changed | none | none | none | docs | = | Its calls warn with another text.
op-revision-unlocked | none | none | none | provenance | ! the lock either has it or not | The lock has no hash of it, so its meaning could change unnoticed: run `opwright diff --update-lock`.
op-file-moved | none | none | none | provenance | = | Only the location of the spec changed.
rank-range-widened | in | compatible | numerics | | rank-range-narrowed | More calls are accepted.
rank-range-narrowed | in | breaking | numerics | | rank-range-widened | Calls with that number of spatial axes are refused.
dim-size-added | none | none | code | | dim-size-removed | Tensors must agree in one more size; findings about the tensors say which calls that refuses.
dim-size-removed | none | none | code | | dim-size-added | Tensors need no longer agree in this size.
dim-role-renamed | none | none | code | docs | = | Messages and `explain` name the size differently.
dim-symbol-renamed | none | none | code | docs | = | The letter of a size in formulas; callers see it in `explain` only.
dim-order-changed | none | none | code | | = | The members of the struct of sizes change places.
dim-axes-changed | in | breaking | numerics | | = | A size now has, or no longer has, one value per spatial axis.
dim-minimum-raised | in | breaking | numerics | | dim-minimum-lowered | Calls with smaller extents are refused.
dim-minimum-lowered | in | compatible | numerics | | dim-minimum-raised | Calls with smaller extents are accepted.
dim-typical-changed | none | none | numerics | | = | Another loop may become the innermost, which changes the order of summation.
attribute-required-added | in | breaking | code | | ! its removal is attribute-parameter-removed, required or not | Every existing call lacks it.
attribute-optional-added | in | compatible | code | | attribute-parameter-removed | A call that leaves it out keeps its meaning.
attribute-parameter-removed | in | breaking | numerics | | attribute-optional-added | Calls that pass it are refused.
attribute-parameter-renamed | in | breaking | code | | = | Calls by the old keyword are refused.
attribute-page-changed | in | dangerous | none | provenance | = | Graph dumps that name it as before are refused.
attribute-order-changed | none | none | code | | = | Attributes are keyword-only; the order of kernels may change.
attribute-symbol-renamed | none | none | code | docs | = | The letter of an attribute in formulas; callers see it in `explain` only.
attribute-type-widened | in | compatible | code | | attribute-type-narrowed | Every value of the old type is also a value of the new one.
attribute-type-narrowed | in | breaking | code | | attribute-type-widened | Values of the old type are refused.
attribute-type-changed | in | breaking | numerics | | = | Values of the old type are refused.
attribute-need-required | in | breaking | code | | attribute-need-optional | Calls that left it out are refused.
attribute-need-optional | in | compatible | code | | attribute-need-required | Calls may leave it out.
attribute-default-changed | in | breaking | none | | = | An unchanged call that leaves it out now means something else.
attribute-range-narrowed | in | breaking | numerics | | attribute-range-widened | Values outside the new range are refused.
attribute-range-widened | in | compatible | numerics | | attribute-range-narrowed | More values are accepted.
attribute-length-widened | in | compatible | numerics | | attribute-length-narrowed | Lists of more lengths are accepted.
attribute-length-narrowed | in | breaking | numerics | | attribute-length-widened | Lists of other lengths are refused.
attribute-surplus-added | in | compatible | none | | attribute-surplus-removed | Longer lists are accepted if the surplus entries have this value.
attribute-surplus-removed | in | breaking | none | | attribute-surplus-added | Longer lists are refused.
attribute-surplus-changed | in | breaking | none | | = | Longer lists with the old surplus value are refused.
attribute-neutral-changed | out | dangerous | numerics | | = | Calls with fewer spatial axes may compute something else.
attribute-value-added | in | compatible | code | | attribute-value-removed | One more word is accepted.
attribute-value-removed | in | breaking | code | | attribute-value-added | Calls with that word are refused.
attribute-value-renamed | in | breaking | variants | | = | Calls with the old word are refused.
attribute-value-aliased | in | compatible | variants | | ! the opposite edit is attribute-value-renamed | The word has a new spelling; the old one stays valid as an alias.
attribute-value-reordered | none | none | code | | = | The order of words decides the order of kernels only.
attribute-alias-added | in | compatible | none | | attribute-alias-removed | One more spelling is accepted.
attribute-alias-removed | in | breaking | none | | attribute-alias-added | Calls with that spelling are refused.
attribute-alias-moved | in | breaking | none | | = | Calls with that spelling mean another word.
attribute-refusal-added | none | none | none | docs | attribute-refusal-removed | A word that was refused is now refused with a reason.
attribute-refusal-removed | none | none | none | docs | attribute-refusal-added | A refused word loses its reason.
attribute-refusal-changed | none | none | none | docs | = | A refused word gets another reason.
attribute-shape-changed | in | breaking | numerics | | = | The list now states the shape of another output, or of none.
layout-word-added | in | compatible | variants | | layout-word-removed | One more order of axes is accepted, with kernels of its own.
layout-word-removed | in | breaking | variants | | layout-word-added | Calls with that layout are refused, and its kernels are removed.
layout-order-changed | both | breaking | numerics | | = | The same word now orders memory differently.
layout-table-added | none | none | none | format | layout-table-removed | An order of axes that no attribute of this operation offers.
layout-table-removed | none | none | none | format | layout-table-added | An order of axes that no attribute of this operation offered.
input-required-added | in | breaking | variants | | ! its removal is input-tensor-removed, required or not | Every existing call lacks it.
input-optional-added | in | compatible | variants | | input-tensor-removed | A call that leaves it out keeps its meaning.
input-tensor-removed | in | breaking | variants | | input-optional-added | Calls that pass it are refused.
input-tensor-renamed | in | breaking | code | | = | Calls that pass it by keyword are refused; positional calls still work.
input-order-changed | in | breaking | variants | | = | A positional call now passes its tensors to other parameters.
input-parameter-changed | in | breaking | none | | = | Calls that pass it by keyword are refused.
input-need-optional | in | compatible | code | | input-need-required | Calls may leave it out.
input-need-required | in | breaking | code | | input-need-optional | Calls that left it out are refused.
input-layout-changed | in | breaking | variants | | = | Its axes are now ordered by another attribute, or by none.
input-axes-changed | in | breaking | numerics | | = | It now has another shape.
input-axes-rewritten | none | none | code | | = | The formula is rewritten; it is proven equal in every call.
input-axes-added | in | breaking | numerics | | input-axes-removed | Calls with the old number of axes are refused.
input-axes-removed | in | breaking | numerics | | input-axes-added | Calls with the old number of axes are refused.
input-axes-renamed | none | none | code | docs | = | The name of an axis, as layouts and messages use it.
input-axes-reordered | in | breaking | numerics | | = | Its memory now holds the elements in another order.
input-view-renamed | none | none | code | docs | = | The letters by which the semantics read the tensor; callers do not see them.
input-view-changed | none | dangerous | numerics | | = | The semantics read the tensor by other letters.
input-arrangement-added | in | compatible | numerics | | input-arrangement-removed | One more way to split its axes is accepted.
input-arrangement-removed | in | breaking | numerics | | input-arrangement-added | Calls that split its axes that way are refused.
input-arrangement-renamed | none | none | code | docs | = | The name appears only in `explain` and in C.
input-arrangement-reordered | in | dangerous | numerics | | = | If several arrangements fit, the first one is used.
input-index-changed | in | breaking | numerics | | = | Elements lie elsewhere in memory.
input-index-rewritten | none | none | code | | = | The formula is rewritten; it is proven equal in every call.
input-shape-changed | in | breaking | numerics | | = | The input now states the shape of another output, or of none.
output-tensor-added | out | breaking | variants | | output-tensor-removed | A call returns one more result, so positions or the tuple change.
output-tensor-removed | out | breaking | variants | | output-tensor-added | A call returns one result fewer.
output-order-changed | out | breaking | variants | | = | A call returns its results in another order.
output-tensor-renamed | none | none | code | docs | = | Callers see the name in messages only.
output-layout-changed | out | breaking | variants | | = | The axes of the result are now ordered by another attribute, or by none.
output-axes-changed | out | breaking | numerics | | = | The result has another shape.
output-axes-rewritten | none | none | code | | = | The formula is rewritten; it is proven equal in every call.
output-axes-added | out | breaking | numerics | | output-axes-removed | The result has more axes.
output-axes-removed | out | breaking | numerics | | output-axes-added | The result has fewer axes.
output-axes-renamed | none | none | code | docs | = | The name of an axis, as layouts and messages use it.
output-axes-reordered | out | breaking | numerics | | = | The memory of the result now holds the elements in another order.
output-view-renamed | none | none | code | docs | = | The letters by which the semantics write the tensor; callers do not see them.
output-view-changed | none | dangerous | numerics | | = | The semantics write the tensor by other letters.
output-arrangement-added | out | dangerous | numerics | | output-arrangement-removed | The result may be arranged in another way.
output-arrangement-removed | out | breaking | numerics | | output-arrangement-added | The result is no longer arranged that way.
output-arrangement-renamed | none | none | code | docs | = | The name appears only in `explain` and in C.
output-arrangement-reordered | out | dangerous | numerics | | = | If several arrangements fit, the first one is used.
output-index-changed | out | breaking | numerics | | = | Elements lie elsewhere in memory.
output-index-rewritten | none | none | code | | = | The formula is rewritten; it is proven equal in every call.
dtypes-row-added | in | compatible | variants | | dtypes-row-removed | One more combination of data types is accepted.
dtypes-row-removed | in | breaking | variants | | dtypes-row-added | Calls with those types are refused, and their kernels are removed.
dtypes-row-reordered | none | none | code | | = | The order of rows decides the order of kernels; no call fits two rows.
dtypes-row-rewritten | none | none | none | format | = | The cells of a row change places.
dtypes-output-changed | out | breaking | variants | | = | The same inputs return another type.
dtypes-accumulation-changed | out | dangerous | variants | | = | Sums are accumulated in another type, so results are rounded differently.
value-name-added | none | none | code | | value-name-removed | A named value; it has no effect until a formula uses it.
value-name-removed | none | none | code | | value-name-added | A named value that no formula uses.
value-name-renamed | none | none | code | docs | = | The letter of a value in formulas; callers see it in `explain` only.
value-order-changed | none | none | none | format | = | Values are known by name.
value-section-moved | none | none | none | format | = | The value moved to another of the sections let, padding and shape.
value-formula-changed | both | breaking | numerics | | = | Everything that is computed from it changes.
value-formula-rewritten | none | none | code | | = | The formula is rewritten; it is proven equal in every call.
value-neutral-changed | out | dangerous | numerics | | = | Calls with fewer spatial axes may compute something else.
padding-name-added | none | none | code | | padding-name-removed | A named value; it has no effect until a formula uses it.
padding-name-removed | none | none | code | | padding-name-added | A named value that no formula uses.
padding-rule-changed | both | breaking | numerics | | = | A call with automatic padding returns shifted values or another shape.
padding-rule-rewritten | none | none | code | | = | The formula is rewritten; it is proven equal in every call.
padding-neutral-changed | out | dangerous | numerics | | = | Calls with fewer spatial axes may compute something else.
shape-name-added | none | none | code | | shape-name-removed | A computed extent; it has no effect until a tensor uses it.
shape-name-removed | none | none | code | | shape-name-added | A computed extent that no tensor uses.
shape-formula-changed | out | breaking | numerics | | = | The same call returns another shape.
shape-formula-rewritten | none | none | code | | = | The formula is rewritten; it is proven equal in every call.
shape-neutral-changed | out | dangerous | numerics | | = | Calls with fewer spatial axes may compute something else.
constraint-rule-added | in | breaking | numerics | | constraint-rule-removed | Calls that break it are refused.
constraint-rule-removed | in | compatible | numerics | | constraint-rule-added | Calls that broke it are accepted.
constraint-implied-added | none | none | numerics | | constraint-implied-removed | It is proven to hold in every call that the other constraints accept.
constraint-implied-removed | none | none | numerics | | constraint-implied-added | It is proven that the other constraints imply it.
constraint-rule-renamed | in | dangerous | none | | = | Programs that read the rule of an error see another name.
constraint-order-changed | none | none | code | | = | A call that breaks two rules is now refused by the other one.
constraint-condition-tightened | in | breaking | numerics | | constraint-condition-loosened | It is proven to accept nothing new, and some calls may be refused.
constraint-condition-loosened | in | compatible | numerics | | constraint-condition-tightened | It is proven to refuse nothing new.
constraint-condition-changed | in | breaking | numerics | | = | It is not proven to accept all that it accepted: some calls may be refused.
constraint-condition-rewritten | none | none | code | | = | The condition is rewritten; it is proven equal in every call.
constraint-message-changed | none | none | none | docs | = | The text of an error changes, not which calls are refused.
constraint-argument-changed | none | none | none | docs | = | An error blames another argument.
constraint-nearest-added | none | none | none | docs | constraint-nearest-removed | An error proposes a value.
constraint-nearest-removed | none | none | none | docs | constraint-nearest-added | An error no longer proposes a value.
constraint-nearest-changed | none | none | none | docs | = | An error proposes another value.
constraint-nearest-rewritten | none | none | none | format | = | The proposal is rewritten; it is proven equal in every call.
class-kernels-added | none | compatible | variants | | class-kernels-removed | More kernels, each for fewer calls.
class-kernels-removed | none | none | variants | | class-kernels-added | Kernels are removed; others run their calls.
class-kernels-renamed | none | dangerous | variants | | = | C symbols have other names.
class-order-changed | none | none | code | | = | A call uses the first class that fits.
class-condition-changed | none | none | code | | = | Some calls run other kernels.
class-condition-rewritten | none | none | code | | = | The condition is rewritten; it is proven equal in every call.
class-sizes-changed | none | none | variants | | = | Kernels of the class assume other facts about their sizes, and may lack an instruction set or have one more.
semantics-range-added | out | breaking | numerics | | semantics-range-removed | The sum runs over more.
semantics-range-removed | out | breaking | numerics | | semantics-range-added | The sum runs over less.
semantics-range-renamed | none | none | code | docs | = | A letter of the formula; callers do not see it.
semantics-range-changed | out | breaking | numerics | | = | The sum runs over other elements.
semantics-range-rewritten | none | none | code | | = | The extent is rewritten; it is proven equal in every call.
semantics-order-changed | out | none | numerics | | = | Sums are taken in another order and round differently.
semantics-edge-changed | out | breaking | numerics | | = | An element that no term contributes to holds another value.
semantics-guard-added | out | breaking | numerics | | semantics-guard-removed | The sum has fewer terms.
semantics-guard-removed | out | breaking | numerics | | semantics-guard-added | The sum has more terms.
semantics-guard-changed | out | breaking | numerics | | = | The sum has other terms.
semantics-guard-rewritten | none | none | code | | = | The guard is rewritten; it is proven equal in every call.
semantics-sum-changed | out | breaking | numerics | | = | Something else is computed.
semantics-sum-rewritten | out | none | numerics | | = | The assignment is rewritten; it is proven equal in every call, but may round differently.
semantics-finish-added | out | breaking | numerics | | semantics-finish-removed | Something else is stored.
semantics-finish-removed | out | breaking | numerics | | semantics-finish-added | Something else is stored.
semantics-finish-changed | out | breaking | numerics | | = | Something else is stored.
semantics-finish-rewritten | out | none | numerics | | = | It is rewritten; it is proven equal in every call, but may round differently.
form-kernels-added | none | none | variants | | form-kernels-removed | Fast kernels run the operation; they are proven to match its semantics.
form-kernels-removed | none | none | variants | | form-kernels-added | Reference kernels run the operation.
form-kernels-changed | none | none | numerics | | = | The same semantics are mapped to the fast kernels differently.
relation-claim-added | none | none | none | provenance | relation-claim-removed | One more fact that tests check.
relation-claim-removed | none | none | none | provenance | relation-claim-added | A fact that tests checked is no longer claimed.
relation-claim-changed | none | none | none | provenance | = | The fact names other tensors or words.
relation-gradient-added | in | compatible | none | provenance | relation-gradient-removed | PyTorch can differentiate more calls.
relation-gradient-removed | in | breaking | none | provenance | relation-gradient-added | PyTorch can no longer differentiate calls that it could.
relation-gradient-changed | in | dangerous | none | provenance | = | PyTorch may compute the gradient by another call, or for another input.
relation-order-changed | none | none | none | format | = | Relations are independent facts; their order has no effect.
torch-call-added | out | dangerous | none | | torch-call-removed | Calls of models that ran on PyTorch's kernels now run here, and may round differently.
torch-call-removed | out | dangerous | none | | torch-call-added | Calls of models that ran here now fall back to PyTorch's kernels.
torch-call-changed | out | dangerous | none | | = | Models pass other arguments to this operation, or take their result from another output.
torch-order-changed | none | none | none | format | = | Entries of one operator exclude each other, so their order has no effect.
onnx-node-added | out | dangerous | none | | onnx-node-removed | Nodes of ONNX models that ran on the reference evaluator now run here, and may round differently.
onnx-node-removed | out | dangerous | none | | onnx-node-added | Nodes of ONNX models that ran here now fall back to the reference evaluator.
onnx-node-changed | out | dangerous | none | | = | Nodes of ONNX models pass other arguments to this operation, or other nodes are computed by it.
onnx-order-changed | out | dangerous | none | | = | A node that fits several entries is computed by the first that does not refuse it; that may be another one now.
discrepancy-case-opened | none | none | none | provenance | discrepancy-case-closed | A disagreement between sources is recorded.
discrepancy-case-closed | none | none | none | provenance | discrepancy-case-opened | A disagreement between sources is no longer recorded.
discrepancy-ruling-changed | none | dangerous | none | provenance | = | The ruling on a disagreement between sources changed.
discrepancy-evidence-changed | none | none | none | provenance | = | The quoted evidence changed, or the reason for the ruling.
discrepancy-order-changed | none | none | none | format | = | Disagreements are identified by name; their order has no effect.
source-citation-added | none | none | none | provenance | source-citation-removed | A page is cited.
source-citation-removed | none | none | none | provenance | source-citation-added | A page is no longer cited.
source-citation-changed | none | none | none | provenance | = | Another page is cited.
source-page-added | none | none | none | provenance | source-page-removed | A document is listed.
source-page-removed | none | none | none | provenance | source-page-added | A document is no longer listed.
source-page-renamed | none | none | none | provenance | = | A document is listed, and cited, under another short name.
source-page-changed | none | none | none | provenance | = | The description of a document changed.
docs-summary-changed | none | none | none | docs | = | Prose for people.
docs-description-changed | none | none | none | docs | = | Prose for people.
docs-reason-changed | none | none | none | docs | = | Prose for people.
format-use-changed | none | none | none | format | = | The same content moved into, or out of, a shared entry.
format-text-changed | none | none | none | format | = | Only spacing, comments, the order of keys or notation changed.
c-api-changed | in | breaking | none | | = | Programs in C that name the function or a member do not compile.
c-abi-changed | in | dangerous | none | | = | Programs in C compile as they are, and must be compiled again.
split-way-removed | in | breaking | none | | split-way-added | Arrays that are cut along it must be put together before a call.
split-way-added | in | compatible | none | docs | split-way-removed | Calls may be split along one more letter.
split-way-changed | in | dangerous | none | | = | What a part takes, or how parts are joined, is something else.
lint-shared-unused | none | none | none | format | ! this describes a whole spec, not an edit | No operation uses the shared entry; remove it.
lint-entry-repeated | none | none | none | format | ! this describes a whole spec, not an edit | Several operations repeat this entry; a shared entry would keep them in step.
lint-page-uncited | none | none | none | provenance | ! this describes a whole spec, not an edit | No operation cites this document.
lint-relation-unanswered | none | none | none | provenance | ! this describes a whole spec, not an edit | Only one of two related operations states the relation, so tests check it from one side only.
lint-relation-uneven | none | none | none | provenance | ! this describes a whole spec, not an edit | Some calls of one operation have no counterpart in the other.
symbol-declaration-changed | none | dangerous | code | | = | C code compiled with the old header passes other arguments under the same name.
lock-hash-raised | none | none | none | provenance | lock-hash-lowered | The lock uses the hash definition of this release.
lock-hash-lowered | none | breaking | none | provenance | lock-hash-raised | The lock is missing, or uses an older hash definition, so nothing can be compared with it.
lock-entry-added | none | none | none | provenance | lock-entry-removed | A revision is released.
lock-entry-removed | none | breaking | none | provenance | lock-entry-added | The meaning of a released revision is no longer locked.
lock-entry-changed | none | breaking | none | provenance | = | The locked meaning of a released revision was changed.
waiver-entry-added | none | none | none | provenance | waiver-entry-removed | A finding is waived.
waiver-entry-removed | none | none | none | provenance | waiver-entry-added | A finding is no longer waived.
waiver-entry-changed | none | none | none | provenance | = | A finding is waived for another reason, or until another day.
waiver-severity-changed | none | dangerous | none | provenance | = | Later changes are judged by the new severity; this one by the severity of its base.
template-files-changed | none | none | none | provenance | = | Not an edit of a spec. Both sides are rendered with the current templates; the diff of the committed outputs shows what the templates changed.
generator-code-changed | none | none | none | provenance | = | Not an edit of a spec. Both sides are rendered with the current generator; the diff of the committed outputs shows what it changed.
waiver-entry-unused | none | breaking | none | | ! a waiver is either used or not | It waives no finding; remove it.
waiver-entry-expired | none | breaking | none | | ! time runs one way | The finding that it waives must be reviewed again.
impact-unpredicted | none | breaking | variants | | ! a prediction either holds or not | The rendered files changed differently from what the rules and the recorded reads predict.
"""


def _rule(line: str) -> Rule:
    name, direction, contract, kernel, record, mirror, reason = (cell.strip() for cell in line.split(" | ", 6))
    return Rule(name, direction, contract, kernel, record, {"=": name}.get(mirror, mirror), reason)


RULES: dict[str, Rule] = {
    rule.id: rule for rule in (_rule(line.replace("| |", "|  |")) for line in _ROWS.strip().splitlines())
}
# Areas of REVIEW.md that the spec language cannot express.
WITHOUT_RULE: Mapping[str, str] = {
    "symbol-name-changed": "a C symbol is composed of names that have rules of their own; the findings list the kernels",
    "source-lines-changed": "a citation names a document, not lines of it; its description has source-page-changed",
}
