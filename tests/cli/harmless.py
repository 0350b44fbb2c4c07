"""The characters that output may contain: a second implementation, independent of `kafkawire.cli.formatting`."""

from __future__ import annotations

from unicodedata import category


def harmless(text: str) -> bool:
    """Whether no character acts on a terminal, hides or reorders others; newlines are layout."""
    return all(char == "\n" or category(char)[0] not in "CZ" or category(char) == "Zs" for char in set(text))
