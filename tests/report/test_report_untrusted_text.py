"""Untrusted text: printable, of bounded length; commands whole or not at all."""

from __future__ import annotations

import ast
import re

from hypothesis import given
from hypothesis import strategies as st

from kafkawire.report.untrusted_text import MOST_CHARACTERS, MOST_COMMAND, runnable, shortened, shown
from tests.cli.harmless import harmless

ANY = st.text(st.characters(exclude_categories=[]), max_size=60)


@given(ANY)
def test_shown_text_is_harmless_and_reversible(text: str) -> None:
    found = shown(text)
    assert harmless(found)
    assert "\n" not in found
    found.encode()  # no lone surrogates
    assert (found == text) is (harmless(text) and "\n" not in text)
    if "\\" not in text:
        escape = r"\\(?:x..|u....|U........|[nrt])"
        assert re.sub(escape, lambda match: str(ast.literal_eval(f"'{match[0]}'")), found) == text


def test_shows_numbers_and_none() -> None:
    assert (shown(7), shown(None)) == ("7", "")


def test_shortened_keeps_both_ends() -> None:
    assert shortened("a" * MOST_CHARACTERS) == "a" * MOST_CHARACTERS
    long = shortened("a" + "x" * 5000 + "z")
    assert long.startswith("axx")
    assert long.endswith("xxz (5002 characters)")
    assert len(long) < MOST_CHARACTERS + 40


def test_runnable_rejects_long_and_unprintable_commands() -> None:
    assert runnable("a" * MOST_COMMAND)
    assert not runnable("a" * (MOST_COMMAND + 1))
    assert not runnable("abort \u202e")
