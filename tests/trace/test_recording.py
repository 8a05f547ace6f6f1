"""Whatever the generator reads of specs and templates while it makes a file is noticed."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jinja2
import pytest
from opwright.emit import render
from opwright.emit.output import Output
from opwright.language import expr
from opwright.language.library import Library
from opwright.language.schema import Located, Spelled
from opwright.language.structs import Node
from opwright.project import Project
from opwright.trace import marking, origins, recording
from support.rendered import outputs

# Fields.

KERNELS = "c/conv_transpose_f32.c"


def changed(value: Any, path: str, same: set[str]) -> Any:
    """The same piece of a spec with every field changed that is not among `same`."""
    if isinstance(value, Node) or not path:
        names = [field.name for field in dataclasses.fields(value) if field.name != "at"]
        inner = {name: changed(getattr(value, name), f"{path}.{name}".lstrip("."), same) for name in names}
        return dataclasses.replace(value, **inner)
    if isinstance(value, dict):
        return {key: changed(entry, f"{path}.{key}", same) for key, entry in value.items()}
    if recording._branches(value):
        return tuple(changed(entry, f"{path}.{label}", same) for label, entry in recording._labelled(value))
    if path in same:
        return value
    if isinstance(value, Located):
        return dataclasses.replace(value, tree=expr.Number(7), text="7")
    return value + 1 if isinstance(value, int) else f"{value}x"


def test_no_field_that_was_not_read_moves_a_file(
    library: Library, project: Project, texts: dict[str, str], reads: dict[str, set[str]]
):
    env = render.environment(project.templates)
    standin, naming = recording.record(library)
    assert outputs(standin, project).keys() == texts.keys()  # which files there are is read apart from what they hold
    for path, read in reads.items():
        other = changed(library, "", read | naming)
        if path == KERNELS:
            assert other.ops[0].summary != library.ops[0].summary
        made = [output for name, output in outputs(other, project).items() if name == path]
        assert [render.tidy(path, output.text(env)) for output in made] == [texts[path]], path


def test_no_prose_of_a_spec_is_read_for_a_kernel(reads: dict[str, set[str]]):
    prose = ("summary", "description", "reason", "source", "say")
    for path, read in reads.items():
        if path.startswith("c/"):
            assert {field for field in read if field.split(".")[-1] in prose} == set(), path


def test_a_file_of_one_operation_is_made_from_that_operation(reads: dict[str, set[str]]):
    assert {field.split(".")[1] for field in reads[KERNELS] if field.startswith("ops.")} == {"ConvTranspose"}


@pytest.mark.parametrize(
    ("use", "path"),
    [
        (lambda d: d["N"], "dims.N"),
        (lambda d: d.get("N"), "dims.N"),
        (lambda d: d.get("Z"), "dims"),
        (lambda d: "N" in d, "dims"),
        (lambda d: bool(d), "dims"),
        (lambda d: len(d), "dims"),
        (lambda d: list(d), "dims"),
        (lambda d: list(d.keys()), "dims"),
        (lambda d: list(d.values()), "dims.N"),
        (lambda d: list(d.items()), "dims.N"),
        (lambda d: dict(d), "dims.N"),
        (lambda d: {**d}, "dims.N"),
        (lambda d: d | {}, "dims.N"),
        (lambda d: {} | d, "dims.N"),
        (lambda d: {}.update(d), "dims.N"),
        (lambda d: d == {}, "dims.N"),
        (lambda d: d != {}, "dims.N"),
        (lambda d: d.copy(), "dims.N"),
        (lambda d: list(reversed(d)), "dims"),
        (lambda d: json.dumps(d, default=str), "dims.N"),
    ],
)
def test_every_way_to_read_a_mapping_is_noticed(library: Library, use: Callable[[Any], Any], path: str):
    standin, read = recording.record(library.op("Convolution").tensor("src"))
    use(standin.dims)
    assert path in read


def test_a_stand_in_of_a_replaced_field_has_recorded_all_others(library: Library):
    standin, read = recording.record(library.op("Convolution"))
    replaced = dataclasses.replace(standin.attribute("strides"), min=2)
    assert replaced.min == 2
    assert {"attributes.strides.max", "attributes.strides.summary", "attributes.strides.at"} <= read


def test_every_field_stands_where_the_specs_have_it(library: Library, project: Project):
    for field in recording.fields(library.op("ConvTranspose")).values():
        line = (project.root / field.at.file).read_text(encoding="utf-8").splitlines()[field.at.line - 1]
        text = field.value.text if isinstance(field.value, Located) else field.value
        if isinstance(field.value, (Located, Spelled)):  # a default stands nowhere
            assert text[:30] in line, field
        if field.path == "attributes.strides.min":
            assert line.strip() == "min: 1"


# Templates.


def test_the_text_of_every_piece_stands_in_the_line_of_the_template_that_is_named(
    library: Library, project: Project, texts: dict[str, str]
):
    env = render.environment(project.templates)
    found = outputs(library, project)
    for path, text in texts.items():
        lines = marking.marked(env, path, found[path], text)
        assert ["".join(piece.text for piece in line).strip() for line in lines][:1] == [
            line.strip() for line in text.splitlines()
        ][:1]
        assert len(lines) == len(text.splitlines())
        for pieces in lines:
            for piece in pieces:
                if piece.value or not piece.text.strip() or not piece.places:
                    continue
                place = piece.places[-1]
                source = (project.templates / place.template).read_text(encoding="utf-8").splitlines()
                assert piece.text.strip() in source[place.line - 1], (path, piece)


def test_a_template_that_measures_its_own_text_is_named_without_a_line():
    env = jinja2.Environment(
        loader=jinja2.DictLoader({"a.j2": "{% macro m() %}word{% endmacro %}{{ m() | length }} {{ m() }}\n"})
    )
    output = Output("a.j2", dict)
    assert output.text(env) == "4 word"
    (line,) = marking.marked(env, "a.txt", output, "4 word\n")
    assert line == (marking.Piece("4 word", (marking.Place("a.j2"),)),)


def test_macros_are_named_with_their_callers():
    sources = {
        "top.j2": '{% import "low.j2" as low %}\nfirst\n{% for n in (1, 2) %}\n{{ low.twice(n) | indent(2, first=True) -}}\n{% endfor %}\n',
        "low.j2": "{% macro twice(n) %}\na{{ n }}\n\nb{{ n }}\n{% endmacro %}\n",
    }
    env = jinja2.Environment(
        loader=jinja2.DictLoader(sources), trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True
    )
    output = Output("top.j2", dict)
    text = render.tidy("x.txt", output.text(env))
    assert text == "first\n  a1\n\n  b1\n  a2\n\n  b2\n"
    found = [
        [
            (place.template, place.line, place.macro)
            for place in dict.fromkeys(p for piece in line if piece.text.strip() for p in piece.places)
        ]
        for line in marking.marked(env, "x.txt", output, text)
    ]
    a, b = ([("top.j2", 4, ""), ("low.j2", number, "twice")] for number in (2, 4))
    assert found == [[("top.j2", 2, "")], a, [], b, a, [], b]


# Functions of the generator.


def test_texts_of_a_view_are_traced_to_the_functions_that_made_them(library: Library, project: Project):
    standin, _ = recording.record(library)
    found = origins.Origins()
    origins.traced(outputs(standin, project)[KERNELS].view, found)
    stride = [step.function for step in found.of("weights_stride_i")]
    assert stride[0] == "kernel"
    assert {"lowered", "elements", "_stride"} <= {*stride}
    first = next(iter(found.of("bias may be NULL and then counts as 0.")))
    assert Path(first.module).name == "prose.py"
    assert {"kernel", "unit_head", "shown_hash"} <= {step.function for step in found.asked}
    assert found.of("a text that nobody makes") == ()
