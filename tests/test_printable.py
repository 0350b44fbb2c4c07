"""Text of strangers, made harmless."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkawire.printable import printable
from tests.cli.harmless import harmless

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
def test_printable(text: str, shown: str) -> None:
    assert printable(text) == shown


@given(anything)
def test_printable_text_never_acts(text: str) -> None:
    assert harmless(printable(text))
    assert "\n" not in printable(text)
