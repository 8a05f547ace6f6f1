"""What changed between two libraries: both models walked field by field, one edit at a time.

In: two libraries. Out: edits, each with the rule that names it and the function that makes it. Edits are found by
carrying the old operation over into the new one: whoever applies them all, in order, has the new one exactly. The
tables say what each field and each list means; a field that stands in neither is a mistake that a test finds.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..model import Attribute, Dim, Library, Op, Page, Tensor
from ..plan import symbol_kinds, symbol_of
from ..reference import cited_pages
from ..schema import Located, Node
from ..source import Mark, SpecInvalid
from . import equality
from .rules import RULES
from .tree import MISSING, Entry, Path, exact, get, identity, items, mark, path_text, put, rename, reorder, said

Judge = Callable[["_Walk", Any, Any, Any, Any], str]


Pages = Mapping[str, Page]


def _same(pages: Pages) -> Pages:
    return pages


@dataclass(frozen=True)
class Edit:
    """One difference. `make` carries an operation over, None for one that is not there; `pages` the documents."""

    rule: str
    op: str
    path: str
    was: str
    now: str
    old: Mark | None
    new: Mark | None
    make: Callable[[Op | None], Op | None]
    pages: Callable[[Pages], Pages] = _same


# How a field changed, as the last word of the rule's id.


def _plain(walk: _Walk, was: Any, now: Any, old: Any, new: Any) -> str:
    return "added" if was is None else "removed" if now is None else "changed"


def _raised(walk: _Walk, was: Any, now: Any, old: Any, new: Any) -> str:
    return "raised" if (now or 0) > (was or 0) else "lowered"


def _low(walk: _Walk, was: Any, now: Any, old: Any, new: Any) -> str:
    return "narrowed" if _bound(now, -1) > _bound(was, -1) else "widened"


def _high(walk: _Walk, was: Any, now: Any, old: Any, new: Any) -> str:
    return "narrowed" if _bound(now, 1) < _bound(was, 1) else "widened"


def _bound(value: int | None, sign: int) -> float:
    return sign * math.inf if value is None else value


def _need(walk: _Walk, was: Any, now: Any, old: Any, new: Any) -> str:
    flag = now if not isinstance(new, Tensor) else not now
    return "required" if flag else "optional"


def _default(walk: _Walk, was: Any, now: Any, old: Any, new: Any) -> str:
    """A default that comes or goes is the other half of becoming optional or required."""
    return "changed" if was is not None and now is not None else "optional" if was is None else "required"


def _type(walk: _Walk, was: Any, now: Any, old: Any, new: Any) -> str:
    return {("s64", "f32"): "widened", ("f32", "s64"): "narrowed"}.get((was, now), "changed")


def _length(walk: _Walk, was: Any, now: Any, old: Any, new: Any) -> str:
    return "widened" if now == "any" else "narrowed"


def _formula(walk: _Walk, was: Any, now: Any, old: Any, new: Any) -> str:
    if was is None or now is None or was is MISSING or now is MISSING:
        return "added" if was is None or was is MISSING else "removed"
    return "rewritten" if walk.equal(was, now) else "changed"


def _condition(walk: _Walk, was: Any, now: Any, old: Any, new: Any) -> str:
    if not isinstance(was, Located) or not isinstance(now, Located):
        return "changed"
    return equality.order(was.tree, now.tree, walk.kinds, walk.least)


# Field to the stem of its rules and to what judges it. {area} is that of the list or map that holds the item.
FIELDS: Mapping[str, tuple[str, Judge]] = {
    "Op.op": ("op-renamed", _plain),
    "Op.revision": ("op-revision", _raised),
    "Op.summary": ("docs-summary", _plain),
    "Op.description": ("docs-description", _plain),
    "Op.deprecated": ("op-deprecation", _plain),
    "RankRange.min": ("rank-range", _low),
    "RankRange.max": ("rank-range", _high),
    "Dim.symbol": ("dim-symbol-renamed", _plain),
    "Dim.per_axis": ("dim-axes", _plain),
    "Dim.min": ("dim-minimum", _raised),
    "Dim.typical": ("dim-typical", _plain),
    "Dim.summary": ("docs-summary", _plain),
    "Attribute.use": ("format-use", _plain),
    "Attribute.name": ("attribute-parameter-renamed", _plain),
    "Attribute.symbol": ("attribute-symbol", _plain),
    "Attribute.type": ("attribute-type", _type),
    "Attribute.required": ("attribute-need", _need),
    "Attribute.default": ("attribute-default", _default),
    "Attribute.min": ("attribute-range", _low),
    "Attribute.max": ("attribute-range", _high),
    "Attribute.length": ("attribute-length", _length),
    "Attribute.surplus": ("attribute-surplus", _plain),
    "Attribute.neutral": ("attribute-neutral", _plain),
    "Attribute.shape_of": ("attribute-shape", _plain),
    "Attribute.summary": ("docs-summary", _plain),
    "Attribute.source": ("source-citation", _plain),
    "Attribute.reason": ("docs-reason", _plain),
    "AllowedValue.value": ("attribute-value-renamed", _plain),
    "RefusedValue.value": ("attribute-refusal", _plain),
    "RefusedValue.discrepancy": ("attribute-refusal", _plain),
    "RefusedValue.say": ("attribute-refusal", _plain),
    "Arrangement.summary": ("docs-summary", _plain),
    "Tensor.name": ("{area}-tensor-renamed", _plain),
    "Tensor.parameter": ("input-parameter", _plain),
    "Tensor.optional": ("input-need", _need),
    "Tensor.layout": ("{area}-layout", _plain),
    "Tensor.view": ("{area}-view", _plain),
    "Tensor.shape_of": ("input-shape", _plain),
    "Tensor.summary": ("docs-summary", _plain),
    "Tensor.source": ("source-citation", _plain),
    "Let.use": ("format-use", _plain),
    "Let.value": ("{area}-formula", _formula),
    "Let.by": ("{area}-formula", _plain),
    "Let.neutral": ("{area}-neutral", _plain),
    "Let.summary": ("docs-summary", _plain),
    "Let.source": ("source-citation", _plain),
    "Constraint.use": ("format-use", _plain),
    "Constraint.id": ("constraint-rule-renamed", _plain),
    "Constraint.expr": ("constraint-condition", _condition),
    "Constraint.say": ("constraint-message", _plain),
    "Constraint.argument": ("constraint-argument", _plain),
    "Constraint.nearest": ("constraint-nearest", _plain),
    "Constraint.source": ("source-citation", _plain),
    "GroupClass.use": ("format-use", _plain),
    "GroupClass.name": ("class-kernels-renamed", _plain),
    "GroupClass.when": ("class-condition", _formula),
    "GroupClass.summary": ("docs-summary", _plain),
    "Semantics.init": ("semantics-edge", _plain),
    "Semantics.reduce": ("semantics-sum", _formula),
    "Semantics.finish": ("semantics-finish", _formula),
    "Op.normal_form": ("form-kernels", _plain),
    "Relation.equals": ("relation-claim", _plain),
    "Relation.adjoint": ("relation-claim", _plain),
    "Relation.in": ("relation-claim", _plain),
    "Relation.gradient": ("relation-claim", _plain),
    "Relation.of": ("relation-claim", _plain),
    "Relation.with": ("relation-claim-changed", _plain),
    "Relation.formats": ("relation-claim-changed", _plain),
    "Discrepancy.use": ("format-use", _plain),
    "Discrepancy.id": ("discrepancy-evidence", _plain),
    "Discrepancy.page": ("discrepancy-evidence", _plain),
    "Discrepancy.library": ("discrepancy-evidence", _plain),
    "Discrepancy.ruling": ("discrepancy-ruling", _plain),
    "Discrepancy.concerns": ("discrepancy-evidence", _plain),
    "Discrepancy.why": ("discrepancy-evidence", _plain),
}


@dataclass(frozen=True)
class Many:
    """A list or map: the stem of `-added` and `-removed`, the rules of a rename and of another order, the items' area.

    `words` are the two changes where they are called otherwise.
    """

    stem: str
    renamed: str = ""
    order: str = ""
    area: str = ""
    words: tuple[str, str] = ("added", "removed")


_VALUES = {"let": "value", "padding": "padding", "shape": "shape"}
MANY: Mapping[str, Many] = {
    "Op.source": Many("source-citation", order="source-citation-changed"),
    "Op.dims": Many("dim-size", "dim-role-renamed", "dim-order-changed"),
    "Op.attributes": Many("attribute-{need}", "attribute-parameter-renamed", "attribute-order-changed"),
    "Op.layouts": Many("layout-table", order="format-text-changed"),
    "Op.inputs": Many("input-{need}", "input-tensor-renamed", "input-order-changed", "input"),
    "Op.outputs": Many("output-tensor", "output-tensor-renamed", "", "output"),
    "Op.dtypes": Many("dtypes-row", order="dtypes-row-reordered"),
    **{
        f"Op.{section}": Many(f"{area}-name", "value-name-renamed", "value-order-changed", area)
        for section, area in _VALUES.items()
    },
    "Op.constraints": Many("constraint-rule", "constraint-rule-renamed", "constraint-order-changed"),
    "Op.classes": Many("class-kernels", "class-kernels-renamed", "class-order-changed"),
    "Op.relations": Many("relation-claim", order="relation-order-changed"),
    "Op.discrepancies": Many(
        "discrepancy-case", "discrepancy-evidence-changed", "discrepancy-order-changed", words=("opened", "closed")
    ),
    "Attribute.values": Many("{values}", "attribute-value-renamed", "attribute-value-reordered"),
    "Attribute.refuse": Many("attribute-refusal", order="attribute-refusal-changed"),
    "AllowedValue.aliases": Many("attribute-alias", order="format-text-changed"),
    "Tensor.dims": Many("{area}-axes", order="{area}-axes-reordered"),
    "Tensor.arrangements": Many("{area}-arrangement", "{area}-arrangement-renamed", "{area}-arrangement-reordered"),
    "Arrangement.dims": Many("{area}-axes", order="{area}-axes-reordered"),
    "Arrangement.index": Many("{area}-index-changed", order="{area}-axes-reordered"),
    "Let.cases": Many("{area}-formula-changed", order="format-text-changed"),
    "GroupClass.let": Many("class-sizes-changed", order="class-sizes-changed"),
    "Semantics.ranges": Many("semantics-range", "semantics-range-renamed", "semantics-order-changed"),
    "Semantics.where": Many("semantics-guard", order="semantics-guard-rewritten"),
}
# Fields that only hold other ones.
INNER = ("Op.spatial_rank", "Op.semantics")
# The stem of an item of a map that is no Node.
LEAVES: Mapping[str, tuple[str, Judge]] = {
    "Tensor.dims": ("{area}-axes", _formula),
    "Arrangement.dims": ("{area}-axes", _formula),
    "Arrangement.index": ("{area}-index", _formula),
    "Let.cases": ("{area}-formula", _formula),
    "GroupClass.let": ("class-sizes-changed", _plain),
    "Semantics.ranges": ("semantics-range", _formula),
}
# `padding-formula` is called a rule, because it is the rule of auto_pad that people know.
_STEMS = {"padding-formula": "padding-rule"}


def edits(before: Library, after: Library) -> tuple[Edit, ...]:
    """Every edit between two libraries, in the order in which they are made."""
    old, new = ({op.op: op for op in library.ops} for library in (before, after))
    found: list[Edit] = []
    pages = _moved_pages(before.pages, after.pages, old, found)
    for gone in [name for name in old if name not in new]:
        for come in [name for name in new if name not in old]:
            renamed = rename(old[gone], gone, come)
            if exact(renamed) == exact(new[come]):
                found = [dataclasses.replace(edit, op=come) if edit.op == gone else edit for edit in found]
                found.append(_whole("op-renamed", come, old.pop(gone), new[come]))
                renames = functools.partial(rename, old=gone, new=come)
                told = [name for name, op in old.items() if exact(renames(op)) != exact(op)]
                found += [dataclasses.replace(found[-1], op=name, make=renames) for name in told]
                old = {name: renames(op) for name, op in old.items()} | {come: renamed}
                break
    for name in sorted({*old, *new}):
        if name not in new:
            found.append(_whole("op-removed", name, old[name], None))
        elif name not in old:
            found.append(_whole("op-added", name, None, new[name]))
        else:
            found += _Walk(old[name], new[name]).edits()
    return (*found, *_pages(pages, after.pages, old, new))


def _moved_pages(before: Pages, after: Pages, ops: dict[str, Op], found: list[Edit]) -> Pages:
    """Documents that are the same under another short name; what cites them is carried over with them."""
    pages = dict(before)
    for gone in [name for name in before if name not in after]:
        come = next((n for n in after if n not in pages and exact(after[n]) == exact(before[gone])), None)
        if come is None:
            continue
        renames = functools.partial(rename, old=gone, new=come)
        moves = functools.partial(_renamed_page, old=gone, new=come)
        edit = Edit(
            "source-page-renamed", "", f"pages.{come}", gone, come, before[gone].at, after[come].at, renames, moves
        )
        citing = [name for name, op in ops.items() if gone in cited_pages(op)]
        found += [dataclasses.replace(edit, op=name) for name in citing or [""]]
        ops |= {name: renames(ops[name]) for name in citing}
        pages = dict(moves(pages))
    return pages


def _renamed_page(pages: Pages, old: str, new: str) -> Pages:
    return {new if name == old else name: page for name, page in pages.items()}


def _pages(before: Pages, after: Pages, olds: Mapping[str, Op], news: Mapping[str, Op]) -> Iterator[Edit]:
    """What changed in the list of documents: an edit for each operation that cites the document, or for none."""
    for name in sorted({*before, *after}):
        was, now = before.get(name), after.get(name)
        if exact(was) != exact(now):
            rule = f"source-page-{'added' if was is None else 'removed' if now is None else 'changed'}"
            places = (was.at if was else None, now.at if now else None)
            lists = functools.partial(_listed, name=name, page=now)
            edit = Edit(rule, "", f"pages.{name}", said(was), said(now), *places, lambda op: op, lists)
            ops = (*olds.values(), *news.values())
            citing = dict.fromkeys(op.op for op in ops if name in cited_pages(op) and op.op in news)
            yield from (dataclasses.replace(edit, op=op) for op in citing or [""])


def _listed(pages: Pages, name: str, page: Page | None) -> Pages:
    """The documents with one of them as it is now; None takes it away."""
    others = {key: value for key, value in pages.items() if key != name}
    return others if page is None else {**others, name: page}


def _whole(rule: str, name: str, old: Op | None, new: Op | None) -> Edit:
    was, now = (op.op if op else "nothing" for op in (old, new))
    return Edit(rule, name, "op", was, now, old.at if old else None, new.at if new else None, lambda _: new)


class _Walk:
    """Carries the old operation over into the new one, noting each step."""

    def __init__(self, old: Op, new: Op) -> None:
        self.old, self.new, self.now = old, new, old
        self.found: list[Edit] = []
        self.renamed: dict[Any, Any] = {}  # names of the new side to those of the old one
        self.kinds = {**_kinds(old), **_kinds(new)}
        self.least = {dim.symbol: dim.min or 0 for dim in (*old.dims.values(), *new.dims.values())}
        self.least |= {symbol_of(a): a.min or 0 for op in (old, new) for a in op.attributes}

    def edits(self) -> list[Edit]:
        self.node((), "")
        return self.found

    def equal(self, was: Any, now: Any) -> bool:
        return equality.same_formula(was, now, self.kinds, self.least)

    def note(self, rule: str, path: Path, was: Any, now: Any, make: Callable[[Any], Any]) -> None:
        """One edit, made at once."""
        self.now = make(self.now)
        before = tuple(
            Entry(self.renamed[step.key]) if isinstance(step, Entry) and step.key in self.renamed else step
            for step in path
        )
        self.found.append(
            Edit(
                rule,
                self.new.op,
                path_text(path),
                said(was),
                said(now),
                None if get(self.old, before[:-1]) is MISSING else mark(self.old, before),
                mark(self.new, path),
                make,
            )
        )

    def node(self, path: Path, area: str) -> None:
        """Every field of a node that both sides have."""
        new = get(self.new, path)
        cls = type(new).__name__
        for name in fields_of(new):
            spot, here = f"{cls}.{name.rstrip('_')}", (*path, name)
            was, now = get(self.now, here), get(self.new, here)
            if exact(was) == exact(now):
                continue
            if spot in MANY:
                self.many(spot, here, area)
            elif spot in INNER:
                self.node(here, area)
            else:
                stem, judge = FIELDS[spot]
                self.leaf(stem, judge, here, area)

    def leaf(self, stem: str, judge: Judge, path: Path, area: str) -> None:
        """One value."""
        was, now = get(self.now, path), get(self.new, path)
        old, new = get(self.now, path[:-1]), get(self.new, path[:-1])
        stem = _stem(stem, area)
        if stem in ("dim-symbol-renamed", "attribute-symbol") and was and now:
            self.renamed[str(now)] = str(was)
            renames = functools.partial(rename, old=str(was), new=str(now))
            self.note(f"{stem.removesuffix('-renamed')}-renamed", path, was, now, renames)
            return
        word = "" if _same_tree(was, now) else judge(self, was, now, old, new)
        rule = _named(stem, word) if word else "format-text-changed"
        self.note(rule, path, was, now, functools.partial(put, path=path, value=now))

    def many(self, spot: str, path: Path, area: str) -> None:
        """A list or map: renames, then what went, came, and changed, then the order."""
        rules = MANY[spot]
        self.renames(rules, path, area)
        was, now = items(get(self.now, path)), items(get(self.new, path))
        kept = [key for key in now if key in was]
        order = list(now) if kept == [key for key in was if key in now] else None
        gone = [key for key in was if key not in now]
        come = [key for key in now if key not in was]
        if path[-1] == "values":  # words that come before others go: without any there is no kernel in between
            for key in come:
                self.item(rules, (*path, Entry(key)), MISSING, now[key], area, order)
        for key in gone:
            self.item(rules, (*path, Entry(key)), was[key], MISSING, area, None)
        for key, item in now.items():
            here = (*path, Entry(key))
            if key in was and exact(was[key]) != exact(item):
                self.inside(spot, here, rules.area or area)
            elif key not in was and path[-1] != "values":
                self.item(rules, here, MISSING, item, area, order)
        self.order(rules, path, area)

    def order(self, rules: Many, path: Path, area: str) -> None:
        """What is left when the items are the same: their order, or that there is no list at all."""
        whole = get(self.new, path)
        was, now = list(items(get(self.now, path))), list(items(whole))
        if was != now or exact(get(self.now, path)) != exact(whole):
            rule = _stem(rules.order or "format-text-changed", area) if was != now else "format-text-changed"
            make = functools.partial(_reordered, path=path, order=now, whole=whole)
            if not was and not now and self.found:  # the last item went, and its list with it
                last = self.found.pop()
                self.now = make(self.now)
                self.found.append(dataclasses.replace(last, make=functools.partial(_both, last.make, make)))
                return
            self.note(rule, path, tuple(str(Entry(key)) for key in was), tuple(str(Entry(key)) for key in now), make)

    def inside(self, spot: str, path: Path, area: str) -> None:
        """An item that both sides have, not the same."""
        now = get(self.new, path)
        if isinstance(now, Node):
            self.node(path, area)
        elif spot == "Op.layouts":
            self.table(path)
        elif spot == "Op.dtypes":
            self.row(path)
        else:
            self.leaf(*LEAVES.get(spot, ("format-text-changed", _plain)), path, area)

    def table(self, path: Path) -> None:
        """The words of a layout."""
        was, now = get(self.now, path), get(self.new, path)
        kept = [word for word in now if word in was]
        order = list(now) if kept == [word for word in was if word in now] else None
        for word in dict.fromkeys([*was, *now]):
            if exact(was.get(word)) != exact(now.get(word)):
                here = (*path, Entry(word))
                change = _plain(self, was.get(word), now.get(word), was, now)
                rule = "layout-order-changed" if change == "changed" else self.of_word(here, f"layout-table-{change}")
                value = now.get(word, MISSING)
                make = functools.partial(_placed, path=here, value=value, order=order)
                self.note(rule, here, was.get(word), now.get(word), make)
        if list(get(self.now, path)) != list(now):
            self.note("format-text-changed", path, was, now, functools.partial(put, path=path, value=now))

    def row(self, path: Path) -> None:
        """A row of data types: the same tensors' types, another accumulator or order of cells."""
        was, now = get(self.now, path), get(self.new, path)
        rule = (
            "dtypes-accumulation-changed" if was.get("accumulate") != now.get("accumulate") else "dtypes-row-rewritten"
        )
        self.note(rule, path, was, now, functools.partial(put, path=path, value=now))

    def renames(self, rules: Many, path: Path, area: str) -> None:
        """Items that are the same under another name, and rows of which only the output's type changed."""
        if path == ("dtypes",):
            self.outputs()
        if not rules.renamed:
            return
        was, now = items(get(self.now, path)), items(get(self.new, path))
        free = [key for key in now if key not in was]
        for old in [key for key in was if key not in now]:
            for new in [new for new in free if self.same_order(path, old, new)]:
                renames = functools.partial(rename, old=old, new=new)
                if path[-1] == "ranges":
                    renames = functools.partial(_rename_letter, old=old, new=new)
                renamed = renames(self.now)
                if _twins(get(renamed, (*path, Entry(new))), now[new]):
                    self.renamed[new] = old
                    self.note(_stem(rules.renamed, area), (*path, Entry(new)), old, new, renames)
                    free.remove(new)
                    break

    def same_order(self, path: Path, old: Any, new: Any) -> bool:
        """Whether two words may be one under another name: those of a layout must order the axes alike."""
        name = path[-2].key if path[-1] == "values" and isinstance(path[-2], Entry) else ""
        was, now = (op.layouts.get(name, {}) for op in (self.old, self.new))
        return was.get(old) == now.get(new)

    def outputs(self) -> None:
        """Rows of the same inputs that return another type."""
        name = self.new.output.name
        was, now = items(self.now.dtypes), items(self.new.dtypes)
        for old in [key for key in was if key not in now]:
            for new in [key for key in now if key not in was]:
                if {**was[old], name: ""} == {**now[new], name: ""}:
                    make = functools.partial(_replaced_row, old=old, row=now[new])
                    path = ("dtypes", Entry(new))
                    self.renamed[new] = old
                    self.note("dtypes-output-changed", path, was[old][name], now[new][name], make)
                    break

    def item(self, rules: Many, path: Path, was: Any, now: Any, area: str, order: Any) -> None:
        """An item that came, at its place in an order that is otherwise the same, or went."""
        word = rules.words[was is not MISSING]
        stem = rules.stem
        if stem == "{values}":
            holder = get(self.new, path[:-2])
            layout = holder.name in {*self.new.layout_attributes, *self.old.layout_attributes}
            stem = "layout-word" if layout else "attribute-value"
        if stem.endswith("{need}"):
            stem = stem.replace("{need}", _kind_of(was, now))
        rule = _named(_stem(stem, area), word)
        if path[-2] == "cases" and isinstance(path[-1], Entry):
            rule = self.of_word(path, rule)
        self.note(rule, path, was, now, functools.partial(_placed, path=path, value=now, order=order))

    def of_word(self, path: Path, rule: str) -> str:
        """A case that comes or goes with its word is a part of that edit."""
        layout = path[0] == "layouts"
        by = path[1].key if layout and isinstance(path[1], Entry) else get(self.new, (*path[:-2], "by"))
        words = [
            {v.value for v in a.values or ()} for op in (self.old, self.new) for a in op.attributes if a.name == by
        ]
        assert isinstance(path[-1], Entry)
        if len(words) == 2 and (path[-1].key in words[0]) != (path[-1].key in words[1]):
            return (
                f"{'layout-word' if layout else 'attribute-value'}-{'added' if path[-1].key in words[1] else 'removed'}"
            )
        return rule


def fields_of(node: Node) -> Iterator[str]:
    """The names of a node's fields, as Python has them."""
    return (field.name for field in dataclasses.fields(node) if field.metadata)  # type: ignore[arg-type]


def _kinds(op: Op) -> Mapping[str, Any]:
    try:
        return symbol_kinds(op)
    except (SpecInvalid, KeyError):
        return {}


def _same_tree(was: Any, now: Any) -> bool:
    return type(was) is type(now) and not isinstance(was, (str, tuple, Mapping)) and was == now


def _replaced_row(op: Op, old: Any, row: Any) -> Op:
    return dataclasses.replace(op, dtypes=tuple(row if identity(found) == old else found for found in op.dtypes))


def _twins(one: Any, other: Any) -> bool:
    """Whether two items are one under two names: all alike, or sizes with the same letter."""
    return bool(one.symbol == other.symbol) if isinstance(one, Dim) else exact(one) == exact(other)


def _both(first: Callable[[Any], Any], second: Callable[[Any], Any], op: Any) -> Any:
    """Two edits that are one to a reader."""
    return second(first(op))


def _placed(op: Op, path: Path, value: Any, order: Sequence[Any] | None) -> Op:
    """An item put in or taken away, the others where the order has them."""
    made: Op = put(op, path, value)
    return made if order is None else put(made, path[:-1], reorder(get(made, path[:-1]), order))


def _reordered(op: Op, path: Path, order: Sequence[Any], whole: Any) -> Op:
    """The order of the new side; items that only the order's owner can tell apart come with it."""
    now = reorder(get(op, path), order)
    result: Op = put(op, path, now if exact(now) == exact(whole) else whole)
    return result


def _rename_letter(op: Op, old: str, new: str) -> Op:
    result: Op = put(op, ("semantics",), rename(op.semantics, old, new))
    return result


def _kind_of(was: Any, now: Any) -> str:
    """`required`, `optional`, or, of what goes, what callers know it as."""
    if now is MISSING:
        return "parameter" if isinstance(was, Attribute) else "tensor"
    needed = now.required if isinstance(now, Attribute) else not now.optional
    return "required" if needed else "optional"


def _stem(stem: str, area: str) -> str:
    stem = stem.replace("{area}", area)
    for general, own in _STEMS.items():
        stem = stem.replace(general, own)
    return stem


def _named(stem: str, word: str) -> str:
    """The rule of a stem for a change; one rule serves all changes where there is none for each."""
    if stem in RULES:
        return stem
    if stem == "attribute-default" and word in ("required", "optional"):
        return f"attribute-need-{word}"
    return next(rule for rule in (f"{stem}-{word}", f"{stem}-changed") if rule in RULES)
