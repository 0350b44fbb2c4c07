"""Text of strangers, made harmless."""

from __future__ import annotations

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkawire.cli.formatting import json_bytes
from tests.cli.harmless import harmless

anything = st.text(st.characters()) | st.text(
    st.sampled_from("\x00\x1b\x7f\x85\x9b\u200b\u202e\u2028\ufeff\udcff\U000e0041aé\n\t")
)
values = st.recursive(
    st.none() | st.booleans() | st.integers(-(1 << 63), (1 << 63) - 1) | anything,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(anything, inner, max_size=3),
    max_leaves=8,
)


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ({"a": "é\x1b\x7f\x9b"}, b'{"a":"\xc3\xa9\\u001b\\u007f\\u009b"}'),
        (["\u202e", "\u2028"], rb'["\u202e","\u2028"]'),
        (["\udcff"], rb'["\udcff"]'),
        (["\U000e0041"], rb'["\udb40\udc41"]'),
        ({"a": {}, "b": [1, None, True]}, b'{"a":{},"b":[1,null,true]}'),
    ],
)
def test_writes_values_as_json(value: object, shown: bytes) -> None:
    assert json_bytes(value) == shown


@pytest.mark.slow
@given(values, st.sampled_from([None, 2]), st.booleans())
def test_json_escapes_control_characters_without_loss(value: object, indent: int | None, ascii_only: bool) -> None:
    encoded = json_bytes(value, indent=indent, ascii_only=ascii_only)
    text = encoded.decode()
    assert json.loads(text) == value
    assert harmless(text)
    assert indent or "\n" not in text
    assert not ascii_only or text.isascii()


@given(anything)
def test_writes_structs_like_dicts(text: str) -> None:
    class Row(msgspec.Struct):
        name: str
        gone: str | msgspec.UnsetType = msgspec.UNSET

    assert json_bytes(Row(text)) == json_bytes({"name": text})
    assert json_bytes(Row(text), indent=2) == json_bytes({"name": text}, indent=2)
