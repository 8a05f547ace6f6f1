"""The rules of a review, as rows of data: what each kind of difference means to callers, kernels and the record.

A rule's id is `<area>-<subject>-<change>`. Its three axes are independent; severity is read off them in one table.
`kernel` is a promise that impact.py holds against the rendered kernels: no more than this may move.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

CONTRACTS = ("breaking", "dangerous", "compatible", "none")
KERNELS = ("none", "code", "numerics", "variants")  # each allows what stands before it
RECORDS = ("", "provenance", "docs", "format")
SEVERITIES = ("error", "warning", "notice", "info")
# From an axis and its value to a severity; the gravest of a rule's axes holds. A project may remap any of them.
SEVERITY: Mapping[str, str] = {
    "breaking": "error",
    "dangerous": "warning",
    "compatible": "notice",
    "numerics": "warning",
    "variants": "notice",
    "variants-removed": "error",
    "code": "notice",
    "provenance": "notice",
    "docs": "info",
    "format": "info",
}


@dataclass(frozen=True)
class Rule:
    """One kind of difference. `mirror` is the rule of the opposite edit; where there is none, a sentence says why."""

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
        """The gravest severity among the rule's axes, or what a project says of the rule itself."""
        table = {**SEVERITY, **(remapped or {})}
        kernel = "variants-removed" if self.kernel == "variants" and self.action == "removed" else self.kernel
        found = [table[axis] for axis in (self.contract, kernel, self.record) if axis in table]
        return table.get(self.id) or min(found or ["info"], key=SEVERITIES.index)


SELF = "the opposite edit is of the same kind"
_ROWS = """
op-removed | both | breaking | variants | | op-added | Calls of it fail.
op-added | both | compatible | variants | | op-removed | No call of today is touched.
op-renamed | both | breaking | variants | | = | Calls by the old name fail, and so do links to its C symbols.
op-function-changed | both | breaking | variants | | = | Calls by the old name fail, and so do links to its C symbols.
op-revision-raised | none | none | none | provenance | op-revision-lowered | It announces a changed meaning.
op-revision-lowered | none | breaking | none | provenance | op-revision-raised | A revision that was given out gets another meaning.
op-revision-kept | both | breaking | none | provenance | ! a raised revision is op-revision-raised | What callers notice changed under a revision that was given out: raise `revision`.
op-deprecation-added | both | compatible | none | docs | op-deprecation-removed | Calls go on, and warn that the operation will go.
op-deprecation-removed | both | compatible | none | docs | op-deprecation-added | Calls warn no more.
op-deprecation-changed | none | none | none | docs | = | The warning of its calls says something else.
op-revision-unlocked | none | none | none | provenance | ! the lock holds it or it does not | No hash is kept of it, so that its meaning may change unseen: run `opwright diff --update-lock`.
op-file-moved | none | none | none | provenance | = | Only where the spec stands changed.
rank-range-widened | in | compatible | numerics | | rank-range-narrowed | More calls are accepted.
rank-range-narrowed | in | breaking | numerics | | rank-range-widened | Calls with that number of spatial axes are refused.
dim-size-added | none | none | code | | dim-size-removed | Tensors must agree in a further size; what that refuses, the tensors' own changes say.
dim-size-removed | none | none | code | | dim-size-added | A size that tensors had to agree in is gone.
dim-role-renamed | none | none | code | docs | = | Messages and `explain` name the size differently.
dim-symbol-renamed | none | none | code | docs | = | The letter of a size in formulas, which callers see in `explain` only.
dim-order-changed | none | none | code | | = | The members of the struct of sizes change places.
dim-axes-changed | in | breaking | numerics | | = | A size has one value per spatial axis, or no longer.
dim-minimum-raised | in | breaking | numerics | | dim-minimum-lowered | Calls with smaller extents are refused.
dim-minimum-lowered | in | compatible | numerics | | dim-minimum-raised | Calls with smaller extents are accepted.
dim-typical-changed | none | none | numerics | | = | Another loop may become the innermost, and with it another order of summation.
attribute-required-added | in | breaking | code | | ! its removal is attribute-parameter-removed, required or not | Every call of today lacks it.
attribute-optional-added | in | compatible | code | | attribute-parameter-removed | A call that does not give it means what it meant.
attribute-parameter-removed | in | breaking | numerics | | attribute-optional-added | Calls that give it are refused.
attribute-parameter-renamed | in | breaking | code | | = | Calls by the old keyword are refused.
attribute-order-changed | none | none | code | | = | Attributes are keyword-only; the order of kernels may change.
attribute-symbol-renamed | none | none | code | docs | = | The letter of an attribute in formulas, which callers see in `explain` only.
attribute-type-widened | in | compatible | code | | attribute-type-narrowed | Every value of the old type is one of the new.
attribute-type-narrowed | in | breaking | code | | attribute-type-widened | Values of the old type are refused.
attribute-type-changed | in | breaking | numerics | | = | Values of the old type are refused.
attribute-need-required | in | breaking | code | | attribute-need-optional | Calls that left it out are refused.
attribute-need-optional | in | compatible | code | | attribute-need-required | Calls may leave it out.
attribute-default-changed | in | breaking | none | | = | An unchanged call that does not give it now means something else.
attribute-range-narrowed | in | breaking | numerics | | attribute-range-widened | Values outside the new range are refused.
attribute-range-widened | in | compatible | numerics | | attribute-range-narrowed | More values are accepted.
attribute-length-widened | in | compatible | numerics | | attribute-length-narrowed | Lists of more lengths are accepted.
attribute-length-narrowed | in | breaking | numerics | | attribute-length-widened | Lists of other lengths are refused.
attribute-surplus-added | in | compatible | none | | attribute-surplus-removed | Longer lists are accepted where the rest is this.
attribute-surplus-removed | in | breaking | none | | attribute-surplus-added | Longer lists are refused.
attribute-surplus-changed | in | breaking | none | | = | Longer lists with the old filling are refused.
attribute-neutral-changed | out | dangerous | numerics | | = | Calls with fewer spatial axes may compute something else.
attribute-value-added | in | compatible | none | | attribute-value-removed | One more word is accepted.
attribute-value-removed | in | breaking | none | | attribute-value-added | Calls with that word are refused.
attribute-value-renamed | in | breaking | variants | | = | Calls with the old word are refused.
attribute-value-aliased | in | compatible | variants | | ! the way back is attribute-value-renamed | The word is spelled otherwise, and the old spelling goes on as an alias.
attribute-value-reordered | none | none | code | | = | The order of words decides the order of kernels only.
attribute-alias-added | in | compatible | none | | attribute-alias-removed | One more spelling is accepted.
attribute-alias-removed | in | breaking | none | | attribute-alias-added | Calls with that spelling are refused.
attribute-alias-moved | in | breaking | none | | = | Calls with that spelling mean another word.
attribute-refusal-added | none | none | none | docs | attribute-refusal-removed | A word that was refused is now refused with a reason.
attribute-refusal-removed | none | none | none | docs | attribute-refusal-added | A refused word loses its reason.
attribute-refusal-changed | none | none | none | docs | = | A refused word gets another reason.
attribute-shape-changed | in | breaking | numerics | | = | The list states another output's shape, or none.
layout-word-added | in | compatible | variants | | layout-word-removed | One more order of axes, with kernels of its own.
layout-word-removed | in | breaking | variants | | layout-word-added | Calls with that layout are refused, and its kernels go.
layout-order-changed | both | breaking | numerics | | = | Memory under the same word means other elements.
layout-table-added | none | none | none | format | layout-table-removed | An order of axes that no attribute here offers.
layout-table-removed | none | none | none | format | layout-table-added | An order of axes that no attribute here offered.
input-required-added | in | breaking | numerics | | ! its removal is input-tensor-removed, required or not | Every call of today lacks it.
input-optional-added | in | compatible | numerics | | input-tensor-removed | A call that does not give it means what it meant.
input-tensor-removed | in | breaking | numerics | | input-optional-added | Calls that give it are refused.
input-tensor-renamed | in | breaking | code | | = | Calls by keyword are refused; positional ones go on.
input-order-changed | in | breaking | variants | | = | A positional call now passes other tensors.
input-parameter-changed | in | breaking | none | | = | Calls by keyword are refused.
input-need-optional | in | compatible | code | | input-need-required | Calls may leave it out.
input-need-required | in | breaking | code | | input-need-optional | Calls that left it out are refused.
input-layout-changed | in | breaking | variants | | = | Another attribute orders its axes, or none.
input-axes-changed | in | breaking | numerics | | = | Other shapes fit.
input-axes-rewritten | none | none | code | | = | The formula is written otherwise, and is proven to say the same in every call.
input-axes-added | in | breaking | numerics | | input-axes-removed | Calls with the old number of axes are refused.
input-axes-removed | in | breaking | numerics | | input-axes-added | Calls with the old number of axes are refused.
input-axes-renamed | none | none | code | docs | = | The name of an axis, which layouts and messages use.
input-axes-reordered | in | breaking | numerics | | = | Memory means other elements.
input-view-renamed | none | none | code | docs | = | The letters by which semantics read the tensor, which no caller sees.
input-view-changed | none | dangerous | numerics | | = | Semantics read the tensor by other letters.
input-arrangement-added | in | compatible | numerics | | input-arrangement-removed | One more way to split its axes is accepted.
input-arrangement-removed | in | breaking | numerics | | input-arrangement-added | Calls that split its axes that way are refused.
input-arrangement-renamed | none | none | code | docs | = | Only `explain` and C see the name.
input-arrangement-reordered | in | dangerous | numerics | | = | Where both fit, the first one holds.
input-index-changed | in | breaking | numerics | | = | Elements stand elsewhere in memory.
input-index-rewritten | none | none | code | | = | The formula is written otherwise, and is proven to say the same in every call.
input-shape-changed | in | breaking | numerics | | = | The input states another output's shape, or none.
output-tensor-added | out | breaking | numerics | | output-tensor-removed | A call returns one result more, in another place or a tuple.
output-tensor-removed | out | breaking | numerics | | output-tensor-added | A call returns one result less.
output-order-changed | out | breaking | numerics | | = | A call returns its results in another order.
output-tensor-renamed | none | none | code | docs | = | Callers see the name in messages only.
output-layout-changed | out | breaking | variants | | = | Another attribute orders the axes of what is returned, or none.
output-axes-changed | out | breaking | numerics | | = | Another shape is returned.
output-axes-rewritten | none | none | code | | = | The formula is written otherwise, and is proven to say the same in every call.
output-axes-added | out | breaking | numerics | | output-axes-removed | What is returned has more axes.
output-axes-removed | out | breaking | numerics | | output-axes-added | What is returned has fewer axes.
output-axes-renamed | none | none | code | docs | = | The name of an axis, which layouts and messages use.
output-axes-reordered | out | breaking | numerics | | = | Memory of what is returned means other elements.
output-view-renamed | none | none | code | docs | = | The letters by which semantics write the tensor, which no caller sees.
output-view-changed | none | dangerous | numerics | | = | Semantics write the tensor by other letters.
output-arrangement-added | out | dangerous | numerics | | output-arrangement-removed | What is returned may be split another way.
output-arrangement-removed | out | breaking | numerics | | output-arrangement-added | What is returned is no longer split that way.
output-arrangement-renamed | none | none | code | docs | = | Only `explain` and C see the name.
output-arrangement-reordered | out | dangerous | numerics | | = | Where both fit, the first one holds.
output-index-changed | out | breaking | numerics | | = | Elements stand elsewhere in memory.
output-index-rewritten | none | none | code | | = | The formula is written otherwise, and is proven to say the same in every call.
dtypes-row-added | in | compatible | variants | | dtypes-row-removed | One more combination of types is accepted.
dtypes-row-removed | in | breaking | variants | | dtypes-row-added | Calls with those types are refused, and their kernels go.
dtypes-row-reordered | none | none | code | | = | The order of rows decides the order of kernels; no call fits two rows.
dtypes-row-rewritten | none | none | none | format | = | The cells of a row change places.
dtypes-output-changed | out | breaking | variants | | = | The same inputs return another type.
dtypes-accumulation-changed | out | dangerous | variants | | = | Results are rounded differently, and other kernels sum so.
value-name-added | none | none | code | | value-name-removed | A named value, which means nothing until a formula uses it.
value-name-removed | none | none | code | | value-name-added | A named value that no formula uses any more.
value-name-renamed | none | none | code | docs | = | The letter of a value in formulas, which callers see in `explain` only.
value-order-changed | none | none | none | format | = | Values are known by name.
value-section-moved | none | none | none | format | = | The value stands under another of let, padding and shape.
value-formula-changed | both | breaking | numerics | | = | Everything that is computed from it changes.
value-formula-rewritten | none | none | code | | = | The formula is written otherwise, and is proven to say the same in every call.
value-neutral-changed | out | dangerous | numerics | | = | Calls with fewer spatial axes may compute something else.
padding-name-added | none | none | code | | padding-name-removed | A named value, which means nothing until a formula uses it.
padding-name-removed | none | none | code | | padding-name-added | A named value that no formula uses any more.
padding-rule-changed | both | breaking | numerics | | = | A call with automatic padding returns shifted values or another shape.
padding-rule-rewritten | none | none | code | | = | The formula is written otherwise, and is proven to say the same in every call.
padding-neutral-changed | out | dangerous | numerics | | = | Calls with fewer spatial axes may compute something else.
shape-name-added | none | none | code | | shape-name-removed | An extent that is computed, which means nothing until a tensor has it.
shape-name-removed | none | none | code | | shape-name-added | An extent that no tensor has any more.
shape-formula-changed | out | breaking | numerics | | = | The same call returns another shape.
shape-formula-rewritten | none | none | code | | = | The formula is written otherwise, and is proven to say the same in every call.
shape-neutral-changed | out | dangerous | numerics | | = | Calls with fewer spatial axes may compute something else.
constraint-rule-added | in | breaking | numerics | | constraint-rule-removed | Calls that break it are refused.
constraint-rule-removed | in | compatible | numerics | | constraint-rule-added | Calls that broke it are accepted.
constraint-implied-added | none | none | numerics | | constraint-implied-removed | It is proven to hold in every call that is accepted without it.
constraint-implied-removed | none | none | numerics | | constraint-implied-added | It is proven to have held in every call that is accepted without it.
constraint-rule-renamed | in | dangerous | none | | = | Programs that look at the rule of an error see another name.
constraint-order-changed | none | none | code | | = | A call that breaks two rules is refused by the other one.
constraint-condition-tightened | in | breaking | numerics | | constraint-condition-loosened | It is proven to accept nothing new, and some calls may be refused.
constraint-condition-loosened | in | compatible | numerics | | constraint-condition-tightened | It is proven to refuse nothing new.
constraint-condition-changed | in | breaking | numerics | | = | It is not proven to accept all that it accepted: some calls may be refused.
constraint-condition-rewritten | none | none | code | | = | The condition is written otherwise, and is proven to say the same in every call.
constraint-message-changed | none | none | none | docs | = | The sentence of an error changes, not what is refused.
constraint-argument-changed | none | none | none | docs | = | An error blames another argument.
constraint-nearest-added | none | none | none | docs | constraint-nearest-removed | An error proposes a value.
constraint-nearest-removed | none | none | none | docs | constraint-nearest-added | An error proposes no value any more.
constraint-nearest-changed | none | none | none | docs | = | An error proposes another value.
constraint-nearest-rewritten | none | none | none | format | = | The proposal is written otherwise, and is proven to say the same in every call.
class-kernels-added | none | compatible | variants | | class-kernels-removed | More kernels, each for fewer calls.
class-kernels-removed | none | none | variants | | class-kernels-added | Kernels go; other ones serve their calls.
class-kernels-renamed | none | dangerous | variants | | = | C symbols change their names.
class-order-changed | none | none | code | | = | The first class that fits takes a call.
class-condition-changed | none | none | code | | = | Other kernels serve some calls.
class-condition-rewritten | none | none | code | | = | The condition is written otherwise, and is proven to say the same in every call.
class-sizes-changed | none | none | numerics | | = | Kernels of the class know other things about their sizes.
semantics-range-added | out | breaking | numerics | | semantics-range-removed | The sum runs over more.
semantics-range-removed | out | breaking | numerics | | semantics-range-added | The sum runs over less.
semantics-range-renamed | none | none | code | docs | = | A letter of the formula, which no caller sees.
semantics-range-changed | out | breaking | numerics | | = | The sum runs over other cells.
semantics-range-rewritten | none | none | code | | = | The extent is written otherwise, and is proven to say the same in every call.
semantics-order-changed | out | none | numerics | | = | Sums are taken in another order and round differently.
semantics-edge-changed | out | breaking | numerics | | = | A cell that no term reaches holds another value.
semantics-guard-added | out | breaking | numerics | | semantics-guard-removed | Fewer terms take part.
semantics-guard-removed | out | breaking | numerics | | semantics-guard-added | More terms take part.
semantics-guard-changed | out | breaking | numerics | | = | Other terms take part.
semantics-guard-rewritten | none | none | code | | = | The guard is written otherwise, and is proven to say the same in every call.
semantics-sum-changed | out | breaking | numerics | | = | Something else is computed.
semantics-sum-rewritten | out | none | numerics | | = | The assignment is written otherwise, and is proven to say the same in every call; it may round differently.
semantics-finish-added | out | breaking | numerics | | semantics-finish-removed | Something else is stored.
semantics-finish-removed | out | breaking | numerics | | semantics-finish-added | Something else is stored.
semantics-finish-changed | out | breaking | numerics | | = | Something else is stored.
semantics-finish-rewritten | out | none | numerics | | = | It is written otherwise, and is proven to say the same in every call; it may round differently.
form-kernels-added | none | none | variants | | form-kernels-removed | Fast kernels serve the operation, proven against its semantics.
form-kernels-removed | none | none | variants | | form-kernels-added | Reference kernels serve the operation.
form-kernels-changed | none | none | numerics | | = | Fast kernels are made from another reading of the same semantics.
relation-claim-added | none | none | none | provenance | relation-claim-removed | One more fact that tests hold.
relation-claim-removed | none | none | none | provenance | relation-claim-added | A fact that tests held is no longer claimed.
relation-claim-changed | none | none | none | provenance | = | The fact names other tensors or words.
relation-gradient-added | in | compatible | none | provenance | relation-gradient-removed | PyTorch differentiates more calls.
relation-gradient-removed | in | breaking | none | provenance | relation-gradient-added | PyTorch no longer differentiates calls that it did.
relation-gradient-changed | in | dangerous | none | provenance | = | PyTorch may take a gradient from another call, or of another input.
relation-order-changed | none | none | none | format | = | Relations are facts, each by itself.
torch-call-added | out | dangerous | none | | torch-call-removed | Calls of models that ran on PyTorch's kernels run here, and may round otherwise.
torch-call-removed | out | dangerous | none | | torch-call-added | Calls of models that ran here fall back to PyTorch's kernels.
torch-call-changed | out | dangerous | none | | = | Models hand this operation other arguments, or another result takes its output.
torch-order-changed | none | none | none | format | = | Entries of one operator differ in what they ask for, and no call fits two of them.
discrepancy-case-opened | none | none | none | provenance | discrepancy-case-closed | A disagreement of the sources is written down.
discrepancy-case-closed | none | none | none | provenance | discrepancy-case-opened | A disagreement of the sources is no longer written down.
discrepancy-ruling-changed | none | dangerous | none | provenance | = | What holds where the sources disagree is ruled anew.
discrepancy-evidence-changed | none | none | none | provenance | = | What a source is said to say, or why the ruling is as it is.
discrepancy-order-changed | none | none | none | format | = | Disagreements are known by their name.
source-citation-added | none | none | none | provenance | source-citation-removed | A page is cited.
source-citation-removed | none | none | none | provenance | source-citation-added | A page is no longer cited.
source-citation-changed | none | none | none | provenance | = | Another page is cited.
source-page-added | none | none | none | provenance | source-page-removed | A document is listed.
source-page-removed | none | none | none | provenance | source-page-added | A document is no longer listed.
source-page-renamed | none | none | none | provenance | = | A document is listed, and cited, under another short name.
source-page-changed | none | none | none | provenance | = | What is said of a document changes.
docs-summary-changed | none | none | none | docs | = | Prose for people.
docs-description-changed | none | none | none | docs | = | Prose for people.
docs-reason-changed | none | none | none | docs | = | Prose for people.
format-use-changed | none | none | none | format | = | The same thing is said with or without a shared entry.
format-text-changed | none | none | none | format | = | Only spacing, comments, order of keys or the way of writing changed.
split-way-removed | in | breaking | none | | split-way-added | Arrays that are cut along it must be put together before a call.
split-way-added | in | compatible | none | docs | split-way-removed | Calls may be split along one more letter.
split-way-changed | in | dangerous | none | | = | What a part takes, or how parts are joined, is something else.
lint-shared-unused | none | none | none | format | ! what a spec as a whole leaves open is no edit | No operation uses the shared entry; take it out.
lint-entry-repeated | none | none | none | format | ! what a spec as a whole leaves open is no edit | Two operations say the same; a shared entry would keep them alike.
lint-page-uncited | none | none | none | provenance | ! what a spec as a whole leaves open is no edit | Nothing is said to come from this document.
lint-relation-unanswered | none | none | none | provenance | ! what a spec as a whole leaves open is no edit | Of two operations that are tied, only one says so, and tests look at it from one side.
lint-relation-uneven | none | none | none | provenance | ! what a spec as a whole leaves open is no edit | A call of one operation has no counterpart in the other.
symbol-declaration-changed | none | dangerous | code | | = | C that was compiled with the old header passes something else under the same name.
lock-hash-raised | none | none | none | provenance | lock-hash-lowered | The lock holds another hash of each revision, as `opwright diff --update-lock` of this release writes it.
lock-hash-lowered | none | breaking | none | provenance | lock-hash-raised | The lock is gone, or holds hashes of an older kind, with which nothing is compared.
lock-entry-added | none | none | none | provenance | lock-entry-removed | A revision is given out.
lock-entry-removed | none | breaking | none | provenance | lock-entry-added | Nothing holds the meaning of a revision that was given out.
lock-entry-changed | none | breaking | none | provenance | = | A revision that was given out is said to have meant something else.
waiver-entry-added | none | none | none | provenance | waiver-entry-removed | A finding is let pass.
waiver-entry-removed | none | none | none | provenance | waiver-entry-added | A finding is no longer let pass.
waiver-entry-changed | none | none | none | provenance | = | A finding is let pass for another reason, or until another day.
waiver-severity-changed | none | dangerous | none | provenance | = | Later changes are judged otherwise; this one is judged as its base says.
template-files-changed | none | none | none | provenance | = | No edit of a spec. Both sides are rendered by today's templates; what these moved is the difference of the committed outputs.
generator-code-changed | none | none | none | provenance | = | No edit of a spec. Both sides are rendered by today's generator; what it moved is the difference of the committed outputs.
waiver-entry-unused | none | breaking | none | | ! a waiver is used or it is not | It lets nothing pass; take it out.
waiver-entry-expired | none | breaking | none | | ! time runs one way | What it lets pass must be looked at again.
impact-unpredicted | none | breaking | variants | | ! a prediction holds or it does not | The rendered files changed otherwise than the rules and the recorded reads say.
"""


def _rule(line: str) -> Rule:
    name, direction, contract, kernel, record, mirror, reason = (cell.strip() for cell in line.split(" | ", 6))
    return Rule(name, direction, contract, kernel, record, {"=": name}.get(mirror, mirror), reason)


RULES: dict[str, Rule] = {
    rule.id: rule for rule in (_rule(line.replace("| |", "|  |")) for line in _ROWS.strip().splitlines())
}
# Areas of REVIEW that the spec language has no words for.
WITHOUT_RULE: Mapping[str, str] = {
    "symbol-name-changed": "a C symbol is made of names that have rules of their own; the findings list the kernels",
    "source-lines-changed": "a citation names a document, not lines of it; what is said of one has source-page-changed",
}
