"""Commands as they are printed: a shell takes each word as it is, whatever strangers named."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from kafkawire.transactions.commands import Reach, quoted

WORDS = (
    "plain", "id with spaces", "it's \"quoted\" $HOME `x`", "a%b\\c*?", "--yes", "zähler-日本", "bad\x1b[31mred\x07",
    "line1\nline2", "it's\tboth\\ \u202e", "not UTF-8: \udcff", "\x7f",
)  # fmt: skip


@pytest.mark.parametrize("word", WORDS)
def test_shell_reads_the_word_that_was_quoted(word: str) -> None:
    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("bash is not here")
    text = quoted(word)
    assert text.isprintable()
    read = subprocess.run([bash, "-c", f"printf '%s' {text}"], capture_output=True, check=True)
    assert read.stdout == word.encode("utf-8", "surrogateescape")


def test_command_that_ends_an_id_with_control_characters() -> None:
    assert Reach().force_terminate(["bad\x1b"]) == (
        r"kafkawire txn force-terminate --bootstrap-server HOST:PORT --transactional-id $'bad\x1b'"
    )


def test_name_with_a_nul_is_never_shortened() -> None:
    """No argument of a program has a NUL: `$'a\\x00b'` would be `a`, which is another id."""
    assert quoted("a\0b\x1b") == "'a\0b\x1b'"
