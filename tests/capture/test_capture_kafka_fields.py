"""Messages of other schemas that can be read as Kafka's, and those that cannot."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import kafkawire
from kafkawire.capture.kafka_fields import kafka_name, kafka_name_of, released_name
from kafkawire.messages import ProduceRequest, TransactionLogValue
from tests.own_schemas import PING, shipped, write

EXTRA = {"name": "Extra", "type": "int32", "versions": "0+"}


def edited(folder: Path, schema: dict[str, Any]) -> Any:
    return kafkawire.load_schemas(write(folder, schema))[schema["name"]]


def test_names_kafkas_messages() -> None:
    assert kafka_name(ProduceRequest()) == "ProduceRequest"
    assert kafka_name(TransactionLogValue()) is None
    assert released_name(0, "request") == "ProduceRequest"
    assert released_name(9001, "request") is None
    assert released_name(None, "request") is None


def test_a_message_with_more_fields_or_another_name_is_kafkas(tmp_path: Path) -> None:
    schema = shipped("ProduceRequest")
    schema |= {"fields": [*schema["fields"], EXTRA], "name": "MyProduceRequest"}
    assert kafka_name_of(edited(tmp_path / "my", schema)) == "ProduceRequest"
    assert kafka_name_of(edited(tmp_path / "ping", PING)) is None


@pytest.mark.parametrize(
    "edit",
    [
        lambda fields: fields[3]["fields"].pop(),
        lambda fields: fields[1].update(type="int32"),
        lambda fields: fields[3].update(type="[]int32", fields=[]),
        lambda fields: fields[3].update(nullableVersions="0+"),
    ],
    ids=["without a field", "another type", "no structs", "nullable"],
)
def test_a_message_without_all_fields_is_not_kafkas(tmp_path: Path, edit: Any) -> None:
    schema = shipped("ProduceRequest")
    assert [field["name"] for field in schema["fields"]][1::2] == ["Acks", "TopicData"]
    edit(schema["fields"])
    schema["fields"][3].get("fields") or schema["fields"][3].pop("fields", None)
    assert kafka_name_of(edited(tmp_path / "my", schema)) is None
