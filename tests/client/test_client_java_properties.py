"""Files of Java's properties, and the logins in them: what is read, and what is refused with a sentence that helps."""

from __future__ import annotations

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkawire.client import ConfigError
from kafkawire.client.transport.java_properties import parse_jaas, parse_properties

PLAIN = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="me" password="a\\"b;c";'


SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule required username=me password='s p';"


def test_parses_properties() -> None:
    text = r"""
# a comment
! another
a=1
  b : two words  \
     go on
c three
d\=\:\ e = \u00e9\t\\
empty
a=last
"""
    found = parse_properties(text, "f")
    assert found == {"a": "last", "b": "two words  go on", "c": "three", "d=: e": "é\t\\", "empty": ""}


def test_malformed_escapes_name_their_line() -> None:
    with pytest.raises(ConfigError, match=r"^f: line 2: \\u without four hex digits$"):
        parse_properties("a=1\nb=\\u12", "f")


@pytest.mark.slow
@given(st.dictionaries(st.text(min_size=1), st.text(), max_size=5))
def test_properties_round_trip(given_: dict[str, str]) -> None:
    """Written as `java.util.Properties.store` writes them."""

    def escaped(text: str) -> str:
        units = text.encode("utf-16-be", "surrogatepass")
        return "".join(
            f"\\{char}" if char in "\\=:#! " else char if char in string.ascii_letters else f"\\u{ord(char):04x}"
            for char in (chr(int.from_bytes(units[i : i + 2])) for i in range(0, len(units), 2))
        )

    text = "".join(f"{escaped(key)}={escaped(value)}\n" for key, value in given_.items())
    found = {_joined(key): _joined(value) for key, value in parse_properties(text, "f").items()}
    assert found == given_


def _joined(text: str) -> str:
    return text.encode("utf-16-be", "surrogatepass").decode("utf-16-be")


@given(st.text())
def test_any_text_is_properties_or_an_error(text: str) -> None:
    try:
        found = parse_properties(text, "f")
    except ConfigError:
        return
    assert all(isinstance(value, str) for value in found.values())


def test_parses_jaas() -> None:
    jaas = parse_jaas(PLAIN)
    assert (jaas.module, jaas.options) == ("PlainLoginModule", {"username": "me", "password": 'a"b;c'})
    assert parse_jaas(SCRAM).options == {"username": "me", "password": "s p"}


@pytest.mark.parametrize(
    "text", ["", "Module", "Module required", "M required a=b", "M required a=;", 'M required "x;', "M required a b c;"]
)
def test_malformed_jaas_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match=r"sasl\.jaas\.config"):
        parse_jaas(text)


@given(st.text())
def test_jaas_never_repeats_its_secrets(text: str) -> None:
    problem = ""
    try:
        parse_jaas(f'M required username="u" password="hunter2{text}')
    except ConfigError as error:
        problem = str(error)
    assert "hunter2" not in problem


def test_joins_surrogate_pairs() -> None:
    assert parse_properties(r"client.id=\ud83d\ude00", "p") == {"client.id": "\U0001f600"}
    with pytest.raises(ConfigError, match="p: line 2: half of a surrogate pair"):
        parse_properties("a=1\nclient.id=\\ud83d", "p")
