"""Pages that several tools write: each its own section."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.pages import keep_sections, sections, write_section


def test_section_is_appended_and_then_replaced_in_place(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# Page\n")
    write_section(page, "soak", "## Soak\n\nOne hour.\n")
    write_section(page, "fuzz", "## Fuzz\n\n| a |\n|---|\n")
    write_section(page, "soak", "\n## Soak\n\nTwo hours.")
    assert page.read_text() == (
        "# Page\n\n<!-- soak -->\n## Soak\n\nTwo hours.\n<!-- /soak -->\n\n"
        "<!-- fuzz -->\n## Fuzz\n\n| a |\n|---|\n<!-- /fuzz -->\n"
    )


def test_replacing_the_page_keeps_other_sections() -> None:
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
def test_rejects_broken_markers_and_writes_nothing(page: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"<!-- /?[ab] -->"):
        sections(page)
    file = tmp_path / "page.md"
    file.write_text(page)
    with pytest.raises(ValueError):
        write_section(file, "c", "text")
    assert file.read_text() == page


def test_ignores_other_comments() -> None:
    assert sections("<!-- needs Spark -->\nand <!-- here --> in a line\n") == {}


@pytest.mark.parametrize(("name", "text"), [("two words", "x"), ("Soak", "x"), ("soak", "<!-- /soak -->\n<!-- x -->")])
def test_rejects_a_section_with_markers(name: str, text: str, tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# Page\n")
    with pytest.raises(ValueError):
        write_section(page, name, text)
    assert page.read_text() == "# Page\n"
