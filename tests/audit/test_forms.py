"""Every form gives the same facts, and the places where they stand."""

from __future__ import annotations

import pytest
from audit.pages_of import PAGES, page, text_of
from opwright.audit import facts, forms

FORMS = {
    "scraped.txt": "scraped text",
    "simple_tables.rst": "reStructuredText",
    "simple_tables_cut.rst": "reStructuredText",
    "grid_tables.rst": "reStructuredText",
    "simple_tables_flat.rst": "reStructuredText, line breaks lost",
    "grid_tables_flat.rst": "reStructuredText, line breaks lost",
    "upstream.md": "Markdown",
    "upstream_formats.md": "Markdown",
    "upstream_flat.md": "Markdown, line breaks lost",
    "scraped_flat.txt": "Markdown, line breaks lost",
    "page.html": "HTML",
}
NAMES = ["strides", "pads_begin", "pads_end", "dilations", "auto_pad", "groups", "data_format", "weights_format"]


def test_every_page_of_the_folder_is_tested() -> None:
    assert {path.name for path in PAGES.iterdir()} == set(FORMS)


@pytest.mark.parametrize(("name", "form"), FORMS.items(), ids=list(FORMS))
def test_the_form_of_a_page_is_found_out_from_its_text(name: str, form: str) -> None:
    assert page(name).form == form


@pytest.mark.parametrize("name", FORMS)
def test_every_row_of_attributes_has_its_type_values_and_optionality(name: str) -> None:
    rows = facts.attributes(page(name)).rows
    found = [facts.attribute_facts(row) for row in rows]
    assert [f["type"] for f in found[:5]] == ["s64[]"] * 4 + ["string"]
    assert [f["min"] for f in found[:5]] == ["1", "0", "0", "1", None]
    assert found[4]["values"] == "none same_upper same_lower valid"
    assert found[4]["default"] == "none"
    assert [f["required"] for f in found] == ["true"] * 4 + ["false"] * (len(rows) - 4)


@pytest.mark.parametrize("name", [name for name in FORMS if not name.startswith("scraped")])
def test_the_names_of_attributes_are_read_out_of_their_links(name: str) -> None:
    names = [row.name for row in facts.attributes(page(name)).rows]
    assert [name for name in names if name in NAMES] == NAMES


@pytest.mark.parametrize("name", [name for name in FORMS if not name.startswith("scraped")])
def test_shapes_are_read_out_of_the_note(name: str) -> None:
    shapes = {shape.word: shape.extents for shape in facts.shapes(page(name))}
    first, second = shapes.values()
    assert first is not None
    assert second is not None
    assert sorted(first) == sorted(second)
    assert (first[2], second[0]) == ("spatial_shape", "spatial_shape")


@pytest.mark.parametrize("name", ["scraped.txt", "scraped_flat.txt"])
def test_a_shape_that_was_scraped_away_is_lost(name: str) -> None:
    assert [shape.extents for shape in facts.shapes(page(name))] == [None, None]


@pytest.mark.parametrize("name", FORMS)
def test_a_cell_stands_where_its_place_says(name: str) -> None:
    lines = text_of(name).split("\n")
    for row in facts.attributes(page(name)).rows:
        for column in ("type", "optional"):
            cell = row.cells[column]
            if "html" not in name:
                assert lines[cell.at.line - 1][cell.at.column - 1 :].startswith(cell.text)


def test_a_row_that_fell_out_of_its_table_is_still_a_row() -> None:
    rows = facts.dtype_rows(page("simple_tables_cut.rst"))
    assert [(row.dtypes, row.inside) for row in rows] == [
        (("f32",) * 3, True),
        (("bf16",) * 3, True),
        (("f16",) * 4, False),
    ]


def test_a_table_whose_cells_run_into_each_other_is_read_by_its_words() -> None:
    text = text_of("simple_tables.rst").replace(
        "kernel from cell to cell                s64  ", "kernel, and over the margin of the column s64"
    )
    rows = facts.attributes(forms.read(text, "page")).rows
    assert [row.name for row in rows] == NAMES
    assert facts.attribute_facts(rows[0])["type"] == "s64[]"


def test_the_line_under_a_table_is_no_row_of_it() -> None:
    inputs = facts.arguments(page("upstream.md"), "inputs").rows
    assert [row.name for row in inputs] == ["src", "weights", "bias"]


def test_navigation_of_an_html_page_is_no_part_of_it() -> None:
    assert next(page("page.html").texts).text == "ConvolutionBackwardData"
