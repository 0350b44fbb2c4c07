"""The rows: names that others rely on, and how they turn into plain values."""

from __future__ import annotations

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkawire import rows

PROMISED = {
    rows.Exchange: "time time_ns response_time_ns file connection client broker api api_key version correlation_id "
    "client_id latency_ms request_bytes response_bytes packet response_packet errors problem request response",
    rows.Batch: "kind file topic partition position base_offset last_offset records magic codec crc size timestamp "
    "timestamp_type producer_id producer_epoch sequence leader_epoch transactional control",
    rows.Record: "kind file topic partition position offset timestamp timestamp_type producer_id producer_epoch "
    "sequence transactional control key value key_base64 value_base64 headers decoded",
    rows.TxnIndex: "kind file topic partition position producer_id first_offset last_offset last_stable_offset",
    rows.Damage: "kind file topic partition position reason resumed_at",
    rows.Finding: "verdict reason blocked topic partition producer_id producer_epoch start_offset last_offset "
    "last_timestamp age_ms coordinator_epoch transactional_id coordinator_state last_stable_offset high_watermark "
    "evidence action",
    rows.Violation: "check place what file topic partition offset producer_id transactional_id",
    rows.CheckAnswer: "check answer held violated not_checkable noted lacked",
    rows.Setting: "name value source",
    rows.Audit: "as_of read findings violations damage answers",
}


@pytest.mark.parametrize("kind", PROMISED)
def test_promised_names(kind: type[rows.Row]) -> None:
    assert set(PROMISED[kind].split()) <= set(rows.field_names(kind))


def test_snapshot_rows_have_the_fields_of_kafkas_entry() -> None:
    from kafkawire.messages import AbortedTxn, ProducerSnapshot

    entry = ProducerSnapshot.spec.field("ProducerEntries").struct
    for struct, kind in ((entry, rows.Snapshot), (AbortedTxn, rows.TxnIndex)):
        assert {field.attribute for field in struct.spec.fields} <= set(rows.field_names(kind))


def test_kinds() -> None:
    for name, kind in rows.LOG_ROWS.items():
        (default,) = (field.default for field in msgspec.structs.fields(kind) if field.name == "kind")
        assert default == name


def test_what_was_not_asked_for_does_not_appear() -> None:
    row = rows.Exchange(api="Fetch", errors={"NOT_LEADER_OR_FOLLOWER": 2})
    plain = rows.to_dict(row)
    assert "request" not in plain
    assert plain["client"] is None
    assert json.loads(msgspec.json.encode(row)) == plain
    assert rows.to_dict(rows.Exchange(request=None, response={"a": 1}))["response"] == {"a": 1}
    assert rows.to_dict(rows.Exchange(request=None))["request"] is None


@given(st.none() | st.binary() | st.text("aé€\0").map(str.encode))
def test_text(data: bytes | None) -> None:
    from base64 import b64decode

    as_text, as_base64 = rows.text(data)
    if data is None:
        assert (as_text, as_base64) == (None, None)
    elif as_text is None:
        assert as_base64 is not None
        assert b64decode(as_base64) == data
        with pytest.raises(UnicodeDecodeError):
            data.decode()
    else:
        assert (as_text.encode(), as_base64) == (data, None)
