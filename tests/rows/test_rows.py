"""Rows: the documented fields of each class."""

from __future__ import annotations

import importlib
import pkgutil

import pytest

from kafkawire import rows

PROMISED = {
    rows.Exchange: "time time_ns response_time_ns file connection client broker api api_key version correlation_id "
    "client_id latency_ms request_bytes response_bytes packet response_packet errors problem request response",
    rows.BatchRow: "kind file topic partition position base_offset last_offset records magic codec crc size timestamp "
    "timestamp_type producer_id producer_epoch sequence leader_epoch transactional control",
    rows.RecordRow: "kind file topic partition position offset timestamp timestamp_type producer_id producer_epoch "
    "sequence transactional control key value key_base64 value_base64 headers decoded",
    rows.TxnIndex: "kind file topic partition position producer_id first_offset last_offset last_stable_offset",
    rows.DamageRow: "kind file topic partition position reason resumed_at",
    rows.Finding: "verdict reason blocked topic partition producer_id producer_epoch start_offset last_offset "
    "last_timestamp age_ms coordinator_epoch transactional_id coordinator_state last_stable_offset high_watermark "
    "evidence action",
    rows.Violation: "check place what file topic partition offset producer_id transactional_id",
    rows.CheckAnswer: "check answer held violated not_checkable noted lacked",
    rows.Setting: "name value source",
    rows.Audit: "as_of read findings violations damage answers",
}


def test_every_class_of_rows_is_exported() -> None:
    for info in pkgutil.iter_modules(rows.__path__, "kafkawire.rows."):
        module = importlib.import_module(info.name)
        for name, found in vars(module).items():
            if isinstance(found, type) and issubclass(found, rows.Row) and found.__module__ == module.__name__:
                assert getattr(rows, name, None) is found or name.startswith("_"), name


@pytest.mark.parametrize("kind", PROMISED)
def test_rows_have_the_documented_fields(kind: type[rows.Row]) -> None:
    assert set(PROMISED[kind].split()) <= set(rows.field_names(kind))


def test_every_public_name_has_a_module() -> None:
    """Names are imported on first use, from the module of which a table says that they are in it."""
    assert {*rows.__all__} == {name for names in rows._NAMES.values() for name in names.split()}
    for module, names in rows._NAMES.items():
        home = importlib.import_module(f"kafkawire.rows.{module}")
        assert all(getattr(rows, name) is getattr(home, name) for name in names.split()), module
