"""Pages that several tools write: each its own section."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.pages import keep_sections, sections, write_section


def test_a_section_is_put_at_the_end_and_then_where_it_was(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# Page\n")
    write_section(page, "soak", "## Soak\n\nOne hour.\n")
    write_section(page, "fuzz", "## Fuzz\n\n| a |\n|---|\n")
    write_section(page, "soak", "\n## Soak\n\nTwo hours.")
    assert page.read_text() == (
        "# Page\n\n<!-- soak -->\n## Soak\n\nTwo hours.\n<!-- /soak -->\n\n"
        "<!-- fuzz -->\n## Fuzz\n\n| a |\n|---|\n<!-- /fuzz -->\n"
    )


def test_what_replaces_the_page_keeps_the_sections_of_others() -> None:
    before = "# Old\n\n<!-- soak -->\nS\n<!-- /soak -->\n\nOld end.\n\n<!-- fuzz -->\nF\n<!-- /fuzz -->\n"
    new = "# New\n\n<!-- fuzz -->\nnew F\n<!-- /fuzz -->\n"
    assert keep_sections(new, before) == new + "\n<!-- soak -->\nS\n<!-- /soak -->\n"
    assert keep_sections("# New\n", "# Old\n") == "# New\n"


@pytest.mark.parametrize(
    "page",
    [
        "<!-- a -->\n",
        "<!-- /a -->\n",
        "<!-- a -->\n<!-- b -->\n<!-- /b -->\n<!-- /a -->\n",
        "<!-- a -->\n<!-- /b -->\n",
        "<!-- a -->\n<!-- /a -->\n<!-- a -->\n<!-- /a -->\n",
    ],
)
def test_broken_markers_are_an_error_and_nothing_is_written(page: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"<!-- /?[ab] -->"):
        sections(page)
    file = tmp_path / "page.md"
    file.write_text(page)
    with pytest.raises(ValueError):
        write_section(file, "c", "text")
    assert file.read_text() == page


def test_other_comments_are_no_markers() -> None:
    assert sections("<!-- needs Spark -->\nand <!-- here --> in a line\n") == {}


@pytest.mark.parametrize(("name", "text"), [("two words", "x"), ("Soak", "x"), ("soak", "<!-- /soak -->\n<!-- x -->")])
def test_a_section_that_would_break_the_markers_is_refused(name: str, text: str, tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# Page\n")
    with pytest.raises(ValueError):
        write_section(page, name, text)
    assert page.read_text() == "# Page\n"
