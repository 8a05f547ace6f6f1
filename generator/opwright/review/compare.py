"""What changed between two libraries: both models walked field by field, one edit at a time.

In: two libraries. Out: edits, each with the rule that names it and the function that makes it. Edits are found by
carrying the old operation over into the new one: whoever applies them all, in order, has the new one exactly. The
tables say what each field and each list means; a field that stands in neither is a mistake that a test finds.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..emit.reference import cited_pages
from ..language.model import AllowedValue, Attribute, Dim, Library, Op, Page, Tensor
from ..language.schema import Located, Node
from ..language.source import Mark, SpecInvalid
from ..language.types import symbol_kinds, symbol_of
from . import equality
from .rules import RULES
from .tree import MISSING, Entry, Path, exact, get, identity, items, mark, path_text, put, rename, reorder, said

Judge = Callable[["_Walk", Any, Any, Any, Any], str]


Pages = Mapping[str, Page]


def _as_listed(pages: Pages) -> Pages:
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
    pages: Callable[[Pages], Pages] = _as_listed


# How a field changed, as the last word of the rule's id; no word where only the writing changed.
_NUMBER = re.compile(r"-?[0-9]+(\.[0-9]+)?([eE][-+]?[0-9]+)?")


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
    """A default that comes or goes is the other half of becoming optional or required; 1 and 1.0 are one default."""
    if was is None or now is None:
        return "optional" if was is None else "required"
    return "" if _NUMBER.fullmatch(was) and _NUMBER.fullmatch(now) and float(was) == float(now) else "changed"


def _number(walk: _Walk, was: Any, now: Any, old: Any, new: Any) -> str:
    """0 and 0.0 are one number; 0 and -0 are two."""
    return "" if repr(float(was)) == repr(float(now)) else "changed"


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
    "Attribute.symbol": ("attribute-symbol-renamed", _plain),
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
    "Constraint.nearest": ("constraint-nearest", _formula),
    "Constraint.source": ("source-citation", _plain),
    "GroupClass.use": ("format-use", _plain),
    "GroupClass.name": ("class-kernels-renamed", _plain),
    "GroupClass.when": ("class-condition", _formula),
    "GroupClass.summary": ("docs-summary", _plain),
    "Semantics.init": ("semantics-edge", _number),
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
    "GroupClass.let": Many("class-sizes-changed", order="format-text-changed"),
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
# Lists whose entries are known by their text alone, so that one that changed looks like another one.
REPLACED: Mapping[Path, tuple[str, Judge]] = {
    ("source",): ("source-citation", _plain),
    ("semantics", "where"): ("semantics-guard", _formula),
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
        self.sections()
        self.names()
        for section, area in (("inputs", "input"), ("outputs", "output")):
            for tensor in getattr(self.new, section):
                self.axes((section, Entry(tensor.name)), area)
        self.node((), "")
        return self.found

    def names(self) -> None:
        """What has another name, before anything that uses a name is looked at."""
        for name in fields_of(self.new):
            if (rules := MANY.get(f"Op.{name}")) and rules.renamed:
                self.renames(rules, (name,), rules.area)
            if name in ("dims", "attributes"):
                self.symbols(name)
        for attribute in self.new.attributes:
            path = ("attributes", Entry(attribute.name), "values")
            if get(self.now, path) not in (MISSING, None):
                self.renames(MANY["Attribute.values"], path, "")

    def sections(self) -> None:
        """Values that stand under another of let, padding and shape."""
        for there in _VALUES:
            for symbol in getattr(self.new, there):
                here = next((name for name in _VALUES if symbol in getattr(self.now, name)), there)
                if here != there:
                    order = list(getattr(self.new, there))
                    make = functools.partial(_moved, symbol=symbol, here=here, there=there, order=order)
                    self.note("value-section-moved", (there, Entry(symbol)), here, there, make)

    def axes(self, path: Path, area: str) -> None:
        """Axes of a tensor that are the same under another name."""
        old, new = get(self.now, path), get(self.new, path)
        for one, other in zip(*map(_axes, (old, new))) if old is not MISSING else ():
            gone, come = one[0] not in dict(_axes(new)), other[0] not in dict(_axes(old))
            if gone and come and exact(one[1]) == exact(other[1]):
                make = functools.partial(_axis_renamed, tensor=old, old=one[0], new=other[0])
                self.note(f"{area}-axes-renamed", path, one[0], other[0], make)

    def equal(self, was: Any, now: Any) -> bool:
        return equality.same_formula(was, now, self.kinds, self.least)

    def note(
        self, rule: str, path: Path, was: Any, now: Any, make: Callable[[Any], Any], at: Path | None = None
    ) -> None:
        """One edit, made at once; `at` is where it stands, if not at its path."""
        self.now = make(self.now)
        place = path if at is None else at
        before = tuple(
            Entry(self.renamed[step.key]) if isinstance(step, Entry) and step.key in self.renamed else step
            for step in place
        )
        self.found.append(
            Edit(
                rule,
                self.new.op,
                path_text(path),
                said(was),
                said(now),
                None if get(self.old, before[:-1]) is MISSING else mark(self.old, before),
                mark(self.new, place),
                make,
            )
        )

    def node(self, path: Path, area: str) -> None:
        """Every field of a node that both sides have."""
        new = get(self.new, path)
        if isinstance(new, Tensor):
            self.letters(path, area)
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
        word = "" if _same(was, now) else judge(self, was, now, old, new)
        rule = _named(stem, word) if word else "format-text-changed"
        self.note(rule, path, was, now, functools.partial(put, path=path, value=now))

    def letters(self, path: Path, area: str) -> None:
        """The letters of a view, which are known by their order: others in the same places are the same view."""
        old, new = get(self.now, path), get(self.new, path)
        turned = _turned(old, new.view)
        kept = [name for name in new.arrangements if name in old.arrangements]
        if old.view != new.view and all(
            exact(turned.arrangements[name].index) == exact(new.arrangements[name].index) for name in kept
        ):
            make = functools.partial(put, path=path, value=turned)
            self.note(f"{area}-view-renamed", (*path, "view"), old.view, new.view, make)

    def symbols(self, section: str) -> None:
        """The letters of the sizes or attributes that both sides have."""
        was = items(getattr(self.now, section))
        for key, new in items(getattr(self.new, section)).items():
            if key in was and was[key].symbol != new.symbol:
                stem, _ = FIELDS[f"{type(new).__name__}.symbol"]
                self.symbol(stem, (section, Entry(key), "symbol"), was[key], new)

    def symbol(self, rule: str, path: Path, old: Dim | Attribute, new: Dim | Attribute) -> None:
        """The letter of a size or of an attribute, whose own name is its letter where none is said."""
        was, now = (str(item.symbol) if isinstance(item, Dim) else symbol_of(item) for item in (old, new))
        if was == now:
            make = functools.partial(put, path=path, value=new.symbol)
            self.note("format-text-changed", path, old.symbol, new.symbol, make)
            return
        self.renamed[now] = was
        make = functools.partial(_lettered, path=path, letters=(was, now), value=new.symbol)
        self.note(rule, path, was, now, make)

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
            first = (*path, Entry(now[0])) if isinstance(whole, Mapping) and now else path  # may stand in _common.yaml
            before, after = (tuple(str(Entry(key)) for key in keys) for keys in (was, now))
            self.note(rule, path, before, after, make, first)

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
        """Items that are the same under another name, and entries without a name of which another is made."""
        if path == ("dtypes",):
            self.outputs()
        if path in REPLACED:
            self.replaced(path, area)
        if not rules.renamed:
            return
        was, now = items(get(self.now, path)), items(get(self.new, path))
        free = [key for key in now if key not in was]
        for old in [key for key in was if key not in now]:
            for new in [new for new in free if self.same_order(path, old, new)]:
                renames = functools.partial(rename, old=old, new=new)
                if path[-1] == "ranges":
                    renames = functools.partial(_rename_letter, old=old, new=new)
                if path in (("attributes",), ("inputs",)):
                    renames = functools.partial(_renamed_parameter, section=path[0], old=old, new=new)
                rule = _stem(rules.renamed, area)
                if path[-1] == "values" and (old in now[new].aliases or new in was[old].aliases):
                    rule = "attribute-value-aliased" if old in now[new].aliases else rule
                    renames = functools.partial(_respelled, path=path, old=was[old], new=now[new])
                renamed = renames(self.now)
                if renames.func is _respelled or _twins(get(renamed, (*path, Entry(new))), now[new]):
                    self.renamed[new] = old
                    self.note(rule, (*path, Entry(new)), old, new, renames)
                    free.remove(new)
                    break

    def replaced(self, path: Path, area: str) -> None:
        """Entries that are known by their text alone: the first that went became the first that came."""
        was, now = items(get(self.now, path)), items(get(self.new, path))
        gone, come = [key for key in was if key not in now], [key for key in now if key not in was]
        for old, new in zip(gone, come):
            self.renamed[new] = old
            stem, judge = REPLACED[path]
            word = "" if _same(was[old], now[new]) else judge(self, was[old], now[new], None, None)
            make = functools.partial(_replaced, path=path, old=old, item=now[new])
            rule = _named(stem, word) if word else "format-text-changed"
            self.note(rule, (*path, Entry(new)), was[old], now[new], make)

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
                    make = functools.partial(_replaced, path=("dtypes",), old=old, item=now[new])
                    self.renamed[new] = old
                    self.note("dtypes-output-changed", ("dtypes", Entry(new)), was[old][name], now[new][name], make)
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
        whole = get(self.new, path[:-1])
        make = functools.partial(_placed, path=path, value=now, order=order, whole=whole)
        if path[:-1] == ("inputs",):
            make = functools.partial(_with_cells, make=make, name=str(path[-1]), rows=self.new.dtypes)
        self.note(rule, path, was, now, make)

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


def _same(was: Any, now: Any) -> bool:
    """Whether two values that are not written alike mean the same: formulas of one tree, maps in another order."""
    return type(was) is type(now) and not isinstance(was, (str, tuple)) and was == now


def _moved(op: Op, symbol: str, here: str, there: str, order: Sequence[str]) -> Op:
    taken: Op = put(op, (here, Entry(symbol)), MISSING)
    return _placed(taken, (there, Entry(symbol)), getattr(op, here)[symbol], order)


def _replaced(op: Op, path: Path, old: Any, item: Any) -> Op:
    result: Op = put(op, path, tuple(item if identity(found) == old else found for found in get(op, path)))
    return result


def _twins(one: Any, other: Any) -> bool:
    """Whether two items are one under two names: all alike, or sizes with the same letter."""
    return bool(one.symbol == other.symbol) if isinstance(one, Dim) else exact(one) == exact(other)


def _placed(op: Op, path: Path, value: Any, order: Sequence[Any] | None, whole: Any = None) -> Op:
    """An item put in or taken away, the others where the order has them; no list at all where `whole` has none."""
    made: Op = put(op, path, value)
    left = get(made, path[:-1])
    if not left and not whole:
        return made if whole == left else put(made, path[:-1], whole)
    return made if order is None else put(made, path[:-1], reorder(left, order))


def _with_cells(op: Op, make: Callable[[Op], Op], name: str, rows: Sequence[Mapping[str, str]]) -> Op:
    """An input put in or taken away, and with it its cell in each row of data types."""
    made = make(op)
    comes = any(tensor.name == name for tensor in made.inputs)

    def row(old: Mapping[str, str]) -> dict[str, str]:
        rest = {key: dtype for key, dtype in old.items() if key != name}
        fit = (new for new in rows if name in new and rest.items() <= new.items())
        cell = next(fit, None) if comes else None
        return {key: {**rest, name: cell[name]}[key] for key in cell} if cell else rest

    return dataclasses.replace(made, dtypes=tuple(map(row, op.dtypes)))


def _reordered(op: Op, path: Path, order: Sequence[Any], whole: Any) -> Op:
    """The order of the new side; items that only the order's owner can tell apart come with it."""
    now = reorder(get(op, path), order)
    result: Op = put(op, path, now if exact(now) == exact(whole) else whole)
    return result


def _axes(tensor: Tensor) -> list[tuple[str, Any]]:
    """The axes of a tensor, each with what it extends over, in every arrangement."""
    ways = [made.dims for made in tensor.arrangements.values()] or [tensor.dims]
    return [(axis, [way.get(axis) for way in ways]) for axis in ways[0]]


def _axis_renamed(op: Op, tensor: Tensor, old: str, new: str) -> Op:
    """Another name of an axis in a tensor, and in all that share its layout."""

    def keys(entries: Mapping[str, Any]) -> dict[str, Any]:
        return {new if key == old else key: entry for key, entry in entries.items()}

    def renamed(one: Tensor) -> Tensor:
        if one.name != tensor.name and (tensor.layout is None or one.layout != tensor.layout):
            return one
        arrangements = {
            name: dataclasses.replace(made, dims=keys(made.dims), index=keys(made.index))
            for name, made in one.arrangements.items()
        }
        return dataclasses.replace(one, dims=keys(one.dims), arrangements=arrangements)

    tables = {
        word: tuple(new if axis == old else axis for axis in order)
        for word, order in op.layouts.get(tensor.layout or "", {}).items()
    }
    return dataclasses.replace(
        op,
        inputs=tuple(map(renamed, op.inputs)),
        outputs=tuple(map(renamed, op.outputs)),
        layouts={name: tables if name == tensor.layout else table for name, table in op.layouts.items()},
    )


def _turned(tensor: Tensor, letters: tuple[str, ...]) -> Tensor:
    """A tensor with other letters in its view, each in its place; itself where they are not as many."""
    if len(letters) != len(tensor.view):
        return tensor
    arrangements = tensor.arrangements
    between = [f"letter{number}" for number in range(len(letters))]  # two letters may change places
    for olds, news in ((tensor.view, between), (between, letters)):
        for old, new in zip(olds, news):
            arrangements = {
                name: dataclasses.replace(made, index={axis: rename(i, old, new) for axis, i in made.index.items()})
                for name, made in arrangements.items()
            }
    return dataclasses.replace(tensor, view=letters, arrangements=arrangements)


def _lettered(op: Op, path: Path, letters: tuple[str, str], value: str | None) -> Op:
    """Another letter in all formulas, and in what says the letter; parameters and an input of the same name keep it."""
    made: Op = rename(op, *letters)
    if isinstance(get(op, path[:-1]), Attribute):
        attributes = tuple(dataclasses.replace(new, name=old.name) for old, new in zip(op.attributes, made.attributes))
        blamed = (dataclasses.replace(new, argument=old.argument) for old, new in zip(op.constraints, made.constraints))
        made = dataclasses.replace(made, attributes=attributes, constraints=tuple(blamed))
        if letters[0] in [tensor.name for tensor in op.inputs]:
            made = dataclasses.replace(made, inputs=op.inputs, dtypes=op.dtypes)
    result: Op = put(made, path, value)
    return result


def _renamed_parameter(op: Op, section: str, old: str, new: str) -> Op:
    """An attribute or an input under another name; the other one of that name, which states the same, keeps it."""
    made: Op = rename(op, old, new)
    others = [tensor.name for tensor in op.inputs] if section == "attributes" else [a.name for a in op.attributes]
    if old not in others:
        return made
    kept = ("constraints", "inputs", "dtypes") if section == "attributes" else ("constraints", "attributes")
    return dataclasses.replace(made, **{name: getattr(op, name) for name in kept})


def _respelled(op: Op, path: Path, old: AllowedValue, new: AllowedValue) -> Op:
    """A word whose other spelling is the word now; spellings that come or go otherwise are edits of their own."""
    kept = [spelling for spelling in new.aliases if spelling == old.value or spelling in old.aliases]
    gone = [spelling for spelling in old.aliases if spelling not in (*new.aliases, new.value)]
    result: Op = put(rename(op, old.value, new.value), (*path, Entry(new.value), "aliases"), (*kept, *gone))
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
