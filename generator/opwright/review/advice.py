"""What to do about a finding: one action on one line.

In: a Finding. Out: a sentence. The rule's own row comes first, then its class: its contract, or else
its effect on kernels.
"""

from __future__ import annotations

from collections.abc import Mapping

from .findings import Finding

BREAK = "or announce the break: raise `revision` of {ops} and waive this finding"
NOTHING = "nothing to do"
MANY = 4  # operations that are counted, not named
# A removal is mended differently from a change of meaning.
TAKES = ("removed", "narrowed", "tightened", "raised", "required")
RULES: Mapping[str, str] = {
    "op-removed": f"keep {{ops}}, with `deprecated` for a release, {BREAK}",
    "op-renamed": f"keep the old name, deprecated, beside the new one, {BREAK}",
    "op-revision-kept": "raise `revision` of {ops}, then run `opwright diff --update-lock`",
    "op-revision-lowered": "give {ops} a revision that was never released",
    "op-revision-unlocked": "run `opwright diff --update-lock`",
    "attribute-required-added": f"give it a default, so that existing calls stay valid, {BREAK}",
    "attribute-need-required": f"keep its default, {BREAK}",
    "attribute-default-changed": f"keep the old default, and let callers give the new value, {BREAK}",
    "attribute-value-renamed": f"keep the old word as an alias of the new one, {BREAK}",
    "attribute-alias-removed": f"keep the alias, {BREAK}",
    "attribute-alias-moved": f"keep the alias with its word, {BREAK}",
    "input-required-added": f"make it optional, so that existing calls stay valid, {BREAK}",
    "split-way-removed": f"keep the values of that letter independent of each other, {BREAK}",
    "c-api-changed": f"keep the function and its members, {BREAK}",
    "c-abi-changed": "state in the change log that programs in C must be compiled again; put new members last",
    "constraint-rule-renamed": "keep the id of the rule, or state the new id in the change log",
    "symbol-declaration-changed": "state in the change log that C code must be recompiled with this header",
    "discrepancy-ruling-changed": "state in the change log which calls the new ruling affects",
    "template-files-changed": "review the diff of the committed outputs",
    "generator-code-changed": "review the diff of the committed outputs",
    "lock-entry-removed": "put the entry back into spec/LOCK.yaml",
    "lock-entry-changed": "put the old hash back into spec/LOCK.yaml, and give the new meaning a new `revision`",
    "waiver-severity-changed": "ask the owners of the specs to approve it",
    "waiver-entry-unused": "remove the entry from spec/waivers.yaml",
    "waiver-entry-expired": "fix what it waives, or extend the entry in spec/waivers.yaml",
    "impact-unpredicted": "report this as an error of opwright, with both sides",
    "lint-shared-unused": "remove the entry from the shared file",
    "lint-entry-repeated": "move what is repeated into a shared entry",
    "lint-page-uncited": "cite the document, or remove it from the list",
    "lint-relation-unanswered": "state the relation in the other operation, too",
    "lint-relation-uneven": "give both operations the same data types and words, or change the relation",
}


def advice(finding: Finding) -> str:
    """The action; none if the finding is waived or affects nobody."""
    if finding.waived:
        return "nothing to do until the waiver expires"
    text = RULES.get(finding.rule.id) or _of_class(finding)
    named = ", ".join(finding.ops) if len(finding.ops) < MANY else f"all {len(finding.ops)} operations"
    return text.format(ops=named or "the affected operations")


def _of_class(finding: Finding) -> str:
    rule = finding.rule
    if rule.contract == "breaking":
        return f"keep accepting these calls, {BREAK}" if rule.action in TAKES else f"revert it, {BREAK}"
    if rule.contract == "dangerous":
        return "state in the change log for which calls the meaning changes"
    if finding.moved.kernels and rule.kernel == "numerics":
        return "compare the results of old and new kernels: add `--with-values`"
    return "state it in the change log" if rule.contract == "compatible" else NOTHING
