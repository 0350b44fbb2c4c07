"""Parsers of files of Java properties (`java.util.Properties`) and of the JAAS line in them (`sasl.jaas.config`)."""

from __future__ import annotations

import re

import msgspec

from kafkawire.client.errors import ConfigError

_SEPARATOR = re.compile(r"(?:[^\\=:\s]|\\.)*+", re.DOTALL)
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_ESCAPED = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}

_JAAS = re.compile(r"""\s*(?:"((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\.)*)'|([^\s="';]+)|(=)|(;))""", re.DOTALL)


def parse_properties(text: str, source: str) -> dict[str, str]:
    """Keys and values of a file; of two lines with one key the last counts, as in Java.

    Raises:
        ConfigError: a malformed `\\uXXXX`, with the number of its line.
    """
    found: dict[str, str] = {}
    for number, line in _logical_lines(text):
        match = _SEPARATOR.match(line)
        assert match is not None
        rest = line[match.end() :].lstrip(" \t\f")
        if rest[:1] in ("=", ":"):
            rest = rest[1:].lstrip(" \t\f")
        found[_unescaped(match[0], source, number)] = _unescaped(rest, source, number)
    return found


def _logical_lines(text: str) -> list[tuple[int, str]]:
    """Lines without comments and blanks; one that ends in an odd number of backslashes continues in the next."""
    lines: list[tuple[int, str]] = []
    start, held = 0, list[str]()  # of a line that continues in the next: its number, and its parts
    for number, raw in enumerate(re.split(r"\r\n|\r|\n", text), 1):
        line = raw.lstrip(" \t\f")
        if not held and (not line or line[0] in "#!"):
            continue
        start = start if held else number
        continues = (len(line) - len(line.rstrip("\\"))) % 2 == 1
        held.append(line[:-1] if continues else line)
        if not continues:
            lines.append((start, "".join(held)))
            held = []
    return [*lines, (start, "".join(held))] if any(held) else lines


def _unescaped(text: str, source: str, number: int) -> str:
    def one(match: re.Match[str]) -> str:
        char = match[1]
        if char[0] == "u":
            if len(char) == 1:
                raise ConfigError(f"{source}: line {number}: \\u without four hex digits")
            return chr(int(char[1:], 16))
        return _ESCAPED.get(char, char)

    found = _ESCAPE.sub(one, text)
    try:
        return found.encode("utf-16", "surrogatepass").decode("utf-16")  # Java escapes the halves of a pair one by one
    except UnicodeDecodeError:
        raise ConfigError(f"{source}: line {number}: half of a surrogate pair") from None


class Jaas(msgspec.Struct, frozen=True):
    """A login module and its options, as `sasl.jaas.config` gives them. `module` is the class without its package."""

    module: str
    options: dict[str, str]


def parse_jaas(text: str) -> Jaas:
    """`org...PlainLoginModule required username="me" password="secret";` Raises ConfigError: it is not of that form.
    The text does not quote it, since it contains secrets."""
    tokens: list[str] = []
    place = 0
    text = text.rstrip()
    while place < len(text):
        match = _JAAS.match(text, place)
        if match is None:
            raise ConfigError(f"sasl.jaas.config: character {place + 1} is no part of MODULE FLAG KEY=VALUE ... ;")
        quoted = match[1] if match[1] is not None else match[2]
        tokens.append(match[0].strip() if quoted is None else "\0" + re.sub(r"\\(.)", r"\1", quoted))
        place = match.end()
    if not tokens or tokens[-1] != ";" or len(tokens) < 3:
        raise ConfigError("sasl.jaas.config: is not of the form MODULE required KEY=VALUE ... ; (with a ; at its end)")
    options: dict[str, str] = {}
    rest = tokens[2:-1]
    for key, equals, value in zip(rest[::3], rest[1::3], rest[2::3], strict=False):
        if equals != "=" or value in ("=", ";"):
            raise ConfigError(f"sasl.jaas.config: option {len(options) + 1} is not of the form KEY=VALUE")
        options[key.removeprefix("\0")] = value.removeprefix("\0")
    if len(rest) % 3:
        raise ConfigError(f"sasl.jaas.config: option {len(options) + 1} is not of the form KEY=VALUE")
    return Jaas(tokens[0].rpartition(".")[2], options)
