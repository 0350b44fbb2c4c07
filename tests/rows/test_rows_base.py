"""Functions for all rows: plain values, unset fields, bytes as text."""

from __future__ import annotations

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkawire import rows


def test_to_dict_omits_unset_fields_and_keeps_null() -> None:
    row = rows.Exchange(api="Fetch", errors={"NOT_LEADER_OR_FOLLOWER": 2})
    plain = rows.to_dict(row)
    assert "request" not in plain
    assert plain["client"] is None
    assert json.loads(msgspec.json.encode(row)) == plain
    assert rows.to_dict(rows.Exchange(request=None, response={"a": 1}))["response"] == {"a": 1}
    assert rows.to_dict(rows.Exchange(request=None))["request"] is None


@given(st.none() | st.binary() | st.text("aé€\0").map(str.encode))
def test_text_or_base64_keeps_every_byte(data: bytes | None) -> None:
    from base64 import b64decode

    as_text, as_base64 = rows.text_or_base64(data)
    if data is None:
        assert (as_text, as_base64) == (None, None)
    elif as_text is None:
        assert as_base64 is not None
        assert b64decode(as_base64) == data
        with pytest.raises(UnicodeDecodeError):
            data.decode()
    else:
        assert (as_text.encode(), as_base64) == (data, None)
