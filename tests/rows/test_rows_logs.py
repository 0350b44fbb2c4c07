"""The rows of log directories: their kinds, and Kafka's fields in them."""

from __future__ import annotations

import msgspec

from kafkawire import rows


def test_snapshot_and_txnindex_rows_have_the_fields_of_kafkas_schemas() -> None:
    from kafkawire.messages import AbortedTxn, ProducerSnapshot

    entry = ProducerSnapshot.spec.field("ProducerEntries").struct
    for struct, kind in ((entry, rows.Snapshot), (AbortedTxn, rows.TxnIndex)):
        assert {field.attribute for field in struct.spec.fields} <= set(rows.field_names(kind))


def test_log_rows_are_registered_under_their_kind() -> None:
    for name, kind in rows.LOG_ROWS.items():
        (default,) = (field.default for field in msgspec.structs.fields(kind) if field.name == "kind")
        assert default == name
