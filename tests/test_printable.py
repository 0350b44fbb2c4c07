"""`printable`: escapes in untrusted text."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkawire.printable import brief, collapsed, printable
from tests.cli.harmless import harmless
from tests.doubling import assert_linear_in_text

anything = st.text(st.characters()) | st.text(
    st.sampled_from("\x00\x1b\x7f\x85\x9b\u200b\u202e\u2028\ufeff\udcff\U000e0041aé\n\t")
)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain, with [bold] and ~", "plain, with [bold] and ~"),
        ("Größe 大小 \u00a0\u3000", "Größe 大小 \u00a0\u3000"),
        ("\x1b[31mred\x1b[0m", r"\x1b[31mred\x1b[0m"),
        ("\x9b31m", r"\x9b31m"),
        ("two\r\nlines\t\x00\x7f", r"two\r\nlines\t\x00\x7f"),
        ("\u202egnp.exe", r"\u202egnp.exe"),
        ("\u2028\u2029\ufeff\u200d", r"\u2028\u2029\ufeff\u200d"),
        ("\udcff", r"\udcff"),
        ("\U000e0041", r"\U000e0041"),
    ],
)
def test_printable_escapes_what_is_not_printable(text: str, shown: str) -> None:
    assert printable(text) == shown


@given(anything)
def test_printable_text_has_no_control_characters(text: str) -> None:
    assert harmless(printable(text))
    assert "\n" not in printable(text)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x00" * 7, r"\x00" * 7),
        ("\x00" * 470, r"\x00{470 times}"),
        ("a" + "\x00" * 8 + "\x01" * 9 + "b", r"a\x00{8 times}\x01{9 times}b"),
        (repr("\n" * 100), r"'\n{100 times}'"),
        (json.dumps("\x1b" * 12), r'"\u001b{12 times}"'),
        ("\U000e0041" * 10, r"\U000e0041{10 times}"),
        (repr(r"\n" * 100), repr(r"\n" * 100)),  # backslashes, and no newline
        ("ab" * 100, "ab" * 100),
    ],
)
def test_brief_counts_runs_of_one_escape(text: str, shown: str) -> None:
    assert brief(text) == shown


def test_brief_replaces_the_middle_of_a_long_text_by_its_length() -> None:
    assert brief("a" * 2000) == "a" * 2000
    assert brief("a" * 1500 + "b" * 1500) == "a" * 1500 + " ... " + "b" * 500 + " (3,000 characters)"
    assert brief("a" * (1 << 20) + "end", 8) == "aaaaaa ... nd (1,048,579 characters)"
    assert brief("\x00" * (1 << 20), 100) == r"\x00{100 times} ... \x00{100 times} (1,048,576 characters)"


@given(anything, st.integers(4, 40))
def test_brief_text_is_harmless_and_bounded(text: str, most: int) -> None:
    assert harmless(brief(text, most))
    assert len(brief(text, most)) <= most + len(" ...  (000 characters)")


@pytest.mark.slow
def test_counting_runs_takes_linear_work() -> None:
    assert_linear_in_text(collapsed, 2000, heads=("", "\\", "\\x0"))
    assert_linear_in_text(lambda text: collapsed(printable(text)), 2000, heads=("",))
