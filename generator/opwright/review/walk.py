"""What changed in one operation: both states walked field by field.

In: two states of an operation. Out: edits. They are found by turning the old state into the new one step by step, so
that the last edit yields exactly the new state; fields.py says what each field means.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from ..language.model import Attribute, Dim, Op, Step, Tensor
from ..language.renaming import rename_axis
from ..language.structs import Node
from ..language.types import symbol_of
from . import carry
from .edit import Edit
from .equality import Equality
from .fields import FIELDS, INNER, LEAVES, MANY, REPLACED, VALUES, Classify, Many, kind_of, plain, rule_of, stem_of
from .tree import MISSING, Entry, Path, exact, get, items, mark, path_text, put, rename, text_of


class Walk:
    """Turns the old operation into the new one and records each step."""

    def __init__(self, old: Op, new: Op) -> None:
        self.old, self.new, self.now = old, new, old
        self.found: list[Edit] = []
        self.renamed: dict[Any, Any] = {}  # names of the new side to names of the old one
        self.sides = Equality(old, new)

    def edits(self) -> list[Edit]:
        self.sections()
        self.names()
        self.semantics_letters()
        self.sides = Equality(self.now, self.new)  # from here on names mean the same
        for section, area in (("inputs", "input"), ("outputs", "output")):
            for tensor in getattr(self.new, section):
                self.axes((section, Entry(tensor.name)), area)
        self.node((), "")
        return self.found

    def names(self) -> None:
        """Renames, before anything that uses a name is compared."""
        for name in fields_of(self.new):
            if (rules := MANY.get(f"Op.{name}")) and rules.renamed:
                self.renames(rules, (name,), rules.area)
            if name in ("dims", "attributes"):
                self.symbols(name)
        for attribute in self.new.attributes:
            path = ("attributes", Entry(attribute.name), "values")
            if get(self.now, path) not in (MISSING, None):
                self.renames(MANY["Attribute.values"], path, "")
                self.aliases(path)

    def aliases(self, path: Path) -> None:
        """Aliases of both sides that moved to another word: one edit, because two words may swap theirs."""
        words = get(self.new, path) or ()

        def make(op: Op) -> Op:
            return carry.moved_aliases(op, path, words)[2]

        was, now, _ = carry.moved_aliases(self.now, path, words)
        if was:
            self.note("attribute-alias-moved", path, was, now, make)

    def sections(self) -> None:
        """Values that moved between let, padding and shape."""
        for there in VALUES:
            for symbol in getattr(self.new, there):
                here = next((name for name in VALUES if symbol in getattr(self.now, name)), there)
                if here != there:
                    order = list(getattr(self.new, there))
                    make = functools.partial(carry.moved, symbol=symbol, here=here, there=there, order=order)
                    self.note("value-section-moved", (there, Entry(symbol)), here, there, make)

    def axes(self, path: Path, area: str) -> None:
        """Renamed axes of a tensor."""
        old, new, rule = get(self.now, path), get(self.new, path), f"{area}-axes-renamed"
        for one, other in zip(*map(_axes, (old, new))) if old is not MISSING else ():
            gone, come = one[0] not in dict(_axes(new)), other[0] not in dict(_axes(old))
            if gone and come and exact(one[1]) == exact(other[1]):
                make = functools.partial(rename_axis, tensor=new.name, old=one[0], new=other[0])
                self.note(rule, path, one[0], other[0], make)
        if old is not MISSING and carry.exchanged(get(self.now, path), new):
            self.note(rule, path, tuple(old.dims), tuple(new.dims), lambda op: put(op, (*path, "dims"), new.dims))

    def semantics_letters(self) -> None:
        """Renamed range letters, by position, in otherwise equal semantics."""
        olds, news = tuple(self.now.semantics.ranges), tuple(self.new.semantics.ranges)
        if olds != news and len(olds) == len(news):
            make = functools.partial(carry.relettered, olds=olds, news=news)
            if Equality(make(self.now), self.new).same_semantics():
                self.note("semantics-range-renamed", ("semantics", "ranges"), olds, news, make)
        was, now = self.now.semantics.finish, self.new.semantics.finish
        if was and now and was != now and carry.placed_letters(self.now, was) == carry.placed_letters(self.new, now):
            path = ("semantics", "finish")
            self.note("semantics-range-renamed", path, was, now, functools.partial(put, path=path, value=now))

    def note(
        self, rule: str, path: Path, was: Any, now: Any, make: Callable[[Any], Any], at: Path | None = None
    ) -> None:
        """Record one edit and apply it; `at` is its source position, if not that of its path."""
        rule = self.value_rule(rule, path)
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
                text_of(was),
                text_of(now),
                None if get(self.old, before[:-1]) is MISSING else mark(self.old, before),
                mark(self.new, place),
                make,
            )
        )

    def value_rule(self, rule: str, path: Path) -> str:
        """The rule of an edit of a named value; it is no change if everything that callers observe stays."""
        if path[0] not in VALUES or len(path) < 2:
            return rule
        changed, name = rule_of(stem_of("{area}-formula", VALUES[path[0]]), "changed"), str(path[1])
        if rule == changed and self.sides.same_value(name):
            return changed.replace("-changed", "-rewritten")
        return changed if rule.endswith("-name-added") and not self.sides.total(name) else rule

    def node(self, path: Path, area: str) -> None:
        """Compare every field of a node of both sides."""
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
                stem, classify = FIELDS[spot]
                self.leaf(stem, classify, here, area)

    def leaf(self, stem: str, classify: Classify, path: Path, area: str) -> None:
        """One value."""
        was, now = get(self.now, path), get(self.new, path)
        old, new = get(self.now, path[:-1]), get(self.new, path[:-1])
        stem = stem_of(stem, area, old, new)
        word = "" if _same(was, now) else classify(self.sides, was, now, old, new)
        rule = rule_of(stem, word) if word else "format-text-changed"
        if path == ("semantics", "steps") and word == "changed":
            rule = self.of_words(was, now) or rule
        self.note(rule, path, was, now, functools.partial(put, path=path, value=now))

    def letters(self, path: Path, area: str) -> None:
        """The letters of a view are identified by position: other letters in the same positions are the same view."""
        old, new = get(self.now, path), get(self.new, path)
        turned = carry.turned(old, new.view)
        common = [name for name in new.arrangements if name in old.arrangements]
        if old.view != new.view and all(
            exact(turned.arrangements[name].index) == exact(new.arrangements[name].index) for name in common
        ):
            make = functools.partial(put, path=path, value=turned)
            self.note(f"{area}-view-renamed", (*path, "view"), old.view, new.view, make)

    def symbols(self, section: str) -> None:
        """The letters of the sizes or attributes of both sides."""
        for key, new in items(getattr(self.new, section)).items():
            was = items(getattr(self.now, section)).get(key)
            if was is not None and was.symbol != new.symbol:
                stem, _ = FIELDS[f"{type(new).__name__}.symbol"]
                self.symbol(stem, (section, Entry(key), "symbol"), was, new)

    def symbol(self, rule: str, path: Path, old: Dim | Attribute, new: Dim | Attribute) -> None:
        """The letter of a size or of an attribute; its name by default."""
        was, now = (str(item.symbol) if isinstance(item, Dim) else symbol_of(item) for item in (old, new))
        if was == now:
            make = functools.partial(put, path=path, value=new.symbol)
            self.note("format-text-changed", path, old.symbol, new.symbol, make)
            return
        self.renamed[now] = was
        make = functools.partial(carry.lettered, path=path, letters=(was, now), value=new.symbol)
        self.note(rule, path, was, now, make)

    def many(self, spot: str, path: Path, area: str) -> None:
        """A list or map: renames, then removed, added and changed items, then the order."""
        rules = MANY[spot]
        self.renames(rules, path, area)
        was, now = items(get(self.now, path)), items(get(self.new, path))
        common = [key for key in now if key in was]
        order = list(now) if common == [key for key in was if key in now] else None
        gone = [key for key in was if key not in now]
        come = [key for key in now if key not in was]
        if (
            path[-1] == "values"
        ):  # words are added before others are removed: without any word the state in between has no kernel
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
        """The remaining difference when the items are equal: their order, or a missing list."""
        whole = get(self.new, path)
        was, now = list(items(get(self.now, path))), list(items(whole))
        if was != now or exact(get(self.now, path)) != exact(whole):
            rule = stem_of(rules.order or "format-text-changed", area) if was != now else "format-text-changed"
            make = functools.partial(carry.reordered, path=path, order=now, whole=whole)
            first = (*path, Entry(now[0])) if isinstance(whole, Mapping) and now else path  # may lie in _common.yaml
            before, after = (tuple(str(Entry(key)) for key in keys) for keys in (was, now))
            self.note(rule, path, before, after, make, first)

    def inside(self, spot: str, path: Path, area: str) -> None:
        """An item of both sides that changed."""
        now = get(self.new, path)
        if isinstance(now, Node):
            self.node(path, area)
        elif spot == "Op.layouts":
            self.table(path)
        elif spot == "Op.dtypes":
            self.row(path)
        else:
            self.leaf(*LEAVES.get(spot, ("format-text-changed", plain)), path, area)

    def table(self, path: Path) -> None:
        """The words of a layout."""
        was, now = get(self.now, path), get(self.new, path)
        common = [word for word in now if word in was]
        order = list(now) if common == [word for word in was if word in now] else None
        for word in dict.fromkeys([*was, *now]):
            if exact(was.get(word)) != exact(now.get(word)):
                here = (*path, Entry(word))
                change = plain(self.sides, was.get(word), now.get(word), was, now)
                rule = "layout-order-changed" if change == "changed" else self.of_word(here, f"layout-table-{change}")
                value = now.get(word, MISSING)
                make = functools.partial(carry.placed, path=here, value=value, order=order)
                self.note(rule, here, was.get(word), now.get(word), make)
        if list(get(self.now, path)) != list(now):
            self.note("format-text-changed", path, was, now, functools.partial(put, path=path, value=now))

    def row(self, path: Path) -> None:
        """A row with the same data types of tensors, but another accumulator or order of cells."""
        was, now = get(self.now, path), get(self.new, path)
        rule = (
            "dtypes-accumulation-changed" if was.get("accumulate") != now.get("accumulate") else "dtypes-row-rewritten"
        )
        self.note(rule, path, was, now, functools.partial(put, path=path, value=now))

    def renames(self, rules: Many, path: Path, area: str) -> None:
        """Renamed items, and unnamed entries that were replaced."""
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
                    renames = functools.partial(carry.rename_letter, old=old, new=new)
                if path in (("attributes",), ("inputs",)):
                    renames = functools.partial(carry.renamed_parameter, section=path[0], old=old, new=new)
                rule = stem_of(rules.renamed, area)
                if path[-1] == "values" and (old in now[new].aliases or new in was[old].aliases):
                    rule = "attribute-value-aliased" if old in now[new].aliases else rule
                    renames = functools.partial(carry.respelled, path=path, old=was[old], new=now[new])
                renamed = renames(self.now)
                if renames.func is carry.respelled or _twins(get(renamed, (*path, Entry(new))), now[new]):
                    self.renamed[new] = old
                    self.note(rule, (*path, Entry(new)), old, new, renames)
                    free.remove(new)
                    break

    def replaced(self, path: Path, area: str) -> None:
        """Entries identified by their text alone: the first removed one became the first added one."""
        was, now = items(get(self.now, path)), items(get(self.new, path))
        gone, come = [key for key in was if key not in now], [key for key in now if key not in was]
        for old, new in zip(gone, come):
            self.renamed[new] = old
            stem, classify = REPLACED[path]
            word = "" if _same(was[old], now[new]) else classify(self.sides, was[old], now[new], None, None)
            make = functools.partial(carry.replaced, path=path, old=old, item=now[new])
            rule = rule_of(stem, word) if word else "format-text-changed"
            self.note(rule, (*path, Entry(new)), was[old], now[new], make)

    def same_order(self, path: Path, old: Any, new: Any) -> bool:
        """Whether one word may be a rename of another: words of a layout must order the axes alike."""
        name = path[-2].key if path[-1] == "values" and isinstance(path[-2], Entry) else ""
        was, now = (op.layouts.get(name, {}) for op in (self.old, self.new))
        return was.get(old) == now.get(new)

    def outputs(self) -> None:
        """Rows with the same inputs that return another type."""
        name = self.new.output.name
        was, now = items(self.now.dtypes), items(self.new.dtypes)
        for old in [key for key in was if key not in now]:
            for new in [key for key in now if key not in was]:
                if {**was[old], name: ""} == {**now[new], name: ""}:
                    make = functools.partial(carry.replaced, path=("dtypes",), old=old, item=now[new])
                    self.renamed[new] = old
                    self.note("dtypes-output-changed", ("dtypes", Entry(new)), was[old][name], now[new][name], make)
                    break

    def item(self, rules: Many, path: Path, was: Any, now: Any, area: str, order: Any) -> None:
        """Add an item at its place in the otherwise equal order, or remove one."""
        word = rules.words[was is not MISSING]
        stem = rules.stem
        if path[:-1] == ("constraints",) and self.sides.implied(was, now):
            stem = "constraint-implied"
        if stem == "{values}":
            holder = get(self.new, path[:-2])
            layout = holder.name in {*self.new.layout_attributes, *self.old.layout_attributes}
            stem = "layout-word" if layout else "attribute-value"
        if stem.endswith("{need}"):
            stem = stem.replace("{need}", kind_of(was, now))
        rule = rule_of(stem_of(stem, area, was, now), word)
        if path[-2] == "cases" and isinstance(path[-1], Entry):
            rule = self.of_word(path, rule)
        whole = get(self.new, path[:-1])
        make = functools.partial(carry.placed, path=path, value=now, order=order, whole=whole)
        if path[:-1] == ("outputs",):
            make = functools.partial(carry.with_cells, make=make, name=str(path[-1]), rows=self.new.dtypes)
        if path[:-1] == ("inputs",):
            behind = list(items(self.new.inputs))
            behind = behind[behind.index(now.name) :] if rule == "input-optional-added" else []
            rule = (
                "input-order-changed" if {*behind} & {*items(self.now.inputs)} else rule
            )  # other lists do not keep the order
            make = functools.partial(carry.with_cells, make=make, name=str(path[-1]), rows=self.new.dtypes)
        self.note(rule, path, was, now, make)

    def of_word(self, path: Path, rule: str) -> str:
        """A case added or removed with its word is part of that edit."""
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

    def of_words(self, was: Sequence[Step], now: Sequence[Step]) -> str:
        """The rule of steps that only differ in the cases of words that come or go; empty if they differ in more."""
        old, new = ({a.name: {v.value for v in a.values or ()} for a in op.attributes} for op in (self.old, self.new))
        both = [[_cases_of(step, old, new) for step in steps] for steps in (was, now)]
        if not all(step.assignments for steps in both for step in steps) or not self.sides.same_steps(*both):
            return ""
        gone = any({*step.cases} - new.get(step.by, set()) for step in was)
        return "attribute-value-removed" if gone else "attribute-value-added"


def _cases_of(step: Step, *sides: Mapping[str | None, set[str]]) -> Step:
    """A step with only the cases of words that both sides have."""
    cases = {word: case for word, case in step.cases.items() if all(word in side.get(step.by, ()) for side in sides)}
    return dataclasses.replace(step, cases=cases)


def fields_of(node: Node) -> Iterator[str]:
    """The names of a node's fields, as Python has them."""
    return (field.name for field in dataclasses.fields(node) if field.metadata)  # type: ignore[arg-type]


def _same(was: Any, now: Any) -> bool:
    """Whether two values of different notation mean the same: formulas with equal trees, maps in another order."""
    return type(was) is type(now) and not isinstance(was, (str, tuple)) and was == now


def _twins(one: Any, other: Any) -> bool:
    """Whether one item is a rename of the other: all else equal, or sizes with the same letter."""
    return bool(one.symbol == other.symbol) if isinstance(one, Dim) else exact(one) == exact(other)


def _axes(tensor: Tensor) -> list[tuple[str, Any]]:
    """The axes of a tensor, each with its extents in every arrangement."""
    arrangements = [made.dims for made in tensor.arrangements.values()] or [tensor.dims]
    return [(axis, [arrangement.get(axis) for arrangement in arrangements]) for axis in arrangements[0]]
