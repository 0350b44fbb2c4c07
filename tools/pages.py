"""Pages of docs/ that several tools write: each tool owns a section between two markers, and leaves the others alone.

    <!-- soak -->
    ...
    <!-- /soak -->

A tool that writes a whole page keeps the sections that it does not write (`keep_sections`); a tool that writes one
section puts it where it was, or at the page's end (`write_section`). Both are made of `templates`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

_MARKER = re.compile(r"^<!-- (?P<end>/?)(?P<name>[a-z][a-z0-9-]*) -->$", re.MULTILINE)


def templates(folder: Path) -> Environment:
    """The templates of pages in a tool's folder: Markdown, of our own values."""
    return Environment(
        loader=FileSystemLoader(folder),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,
    )


def sections(page: str) -> dict[str, str]:
    """The sections of a page's text in its order, by name, markers included.

    ValueError: a section does not end, ends twice, holds another one or appears twice.
    """
    found: dict[str, str] = {}
    start: re.Match[str] | None = None
    for marker in _MARKER.finditer(page):
        name = marker["name"]
        if bool(marker["end"]) != (start is not None) or (start is not None and start["name"] != name):
            raise ValueError(f"{marker[0]} has no counterpart")
        if start is None:
            if name in found:
                raise ValueError(f"{marker[0]} appears twice")
            start = marker
        else:
            found[name] = page[start.start() : marker.end()]
            start = None
    if start is not None:
        raise ValueError(f"{start[0]} has no counterpart")
    return found


def keep_sections(page: str, before: str) -> str:
    """The new text of a page, followed by those sections of the text before that it does not have itself."""
    new = sections(page)
    kept = [text for name, text in sections(before).items() if name not in new]
    return "\n\n".join([page.rstrip("\n"), *kept]) + "\n"


def write_section(page: Path, name: str, text: str) -> None:
    """Writes one section of a page. The rest stays as it is.

    Args:
        page: a file that exists. `name`: of the section, in lower case.
        text: Markdown, which should begin with a heading.

    Raises:
        ValueError: the name or the text would break the markers, or the page's own are broken.
    """
    section = f"<!-- {name} -->\n{text.strip()}\n<!-- /{name} -->"
    if list(sections(section)) != [name]:
        raise ValueError(f"{name!r} is no name of a section")
    before = page.read_text("utf-8")
    there = sections(before).get(name)
    after = before.rstrip("\n") + f"\n\n{section}\n" if there is None else before.replace(there, section)
    page.write_text(after, "utf-8")


def kept_rows(section: str, head: Sequence[str], rows: Iterable[str], *, ordered: bool = True) -> list[str]:
    """The lines of a table with these rows. Each replaces the one with the same first cell; all others stay.

    Args:
        section: text with the table as it was; empty where there is none.
        head: the two lines above the rows.
        ordered: by the first cell; otherwise rows keep their places, and new ones follow.
    """
    before = [line for line in section.splitlines() if line.startswith("|") and line not in head]
    by_cell = {line.split("|")[1]: line for line in [*before, *rows]}
    return [*head, *(by_cell[cell] for cell in (sorted(by_cell) if ordered else by_cell))]


def write_rows(page: Path, name: str, head: Sequence[str], rows: Iterable[str]) -> None:
    """Writes rows into the table that a section of a page is. Args: as of `write_section` and `kept_rows`."""
    there = sections(page.read_text("utf-8")).get(name, "")
    write_section(page, name, "\n".join(kept_rows(there, head, rows)))
