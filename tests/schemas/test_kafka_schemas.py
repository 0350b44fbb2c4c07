"""What holds for every schema file, and for Kafka's as a whole."""

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from kafkawire.codegen.generate import load
from kafkawire.codegen.importing import catalogue, render
from kafkawire.codegen.shape import Comparison
from tools.import_schemas.__main__ import SCHEMAS

EVERY_FILE = sorted(SCHEMAS.parent.glob("*/**/*.json"))
KAFKA = {
    path.stem: (path.parent.name, json.loads(path.read_text(encoding="utf-8"))) for path in SCHEMAS.glob("*/*.json")
}

TRANSACTION_APIS = (
    "DescribeProducers", "ListTransactions", "DescribeTransactions", "WriteTxnMarkers", "InitProducerId",
    "AddPartitionsToTxn", "AddOffsetsToTxn", "EndTxn", "TxnOffsetCommit",
)  # fmt: skip
TRANSACTION_FAMILY = [name + kind for name in TRANSACTION_APIS for kind in ("Request", "Response")] + [
    "TransactionLogKey", "TransactionLogValue", "EndTxnMarker", "AbortedTxn", "ControlRecordTypeSchema",
]  # fmt: skip


def all_fields(schema: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """(path, field) of every field, those of nested and common structs included."""

    def walk(above: str, fields: list[dict[str, Any]]) -> Iterator[tuple[str, dict[str, Any]]]:
        for field in fields:
            yield above + field["name"], field
            yield from walk(f"{above}{field['name']}.", field.get("fields", []))

    yield from walk("", schema["fields"])
    for struct in schema.get("commonStructs", []):
        yield from walk(f"{struct['name']}.", struct["fields"])


def test_a_file_is_named_for_its_message_and_in_the_one_form() -> None:
    for path in EVERY_FILE:
        text = path.read_text(encoding="utf-8")
        schema = json.loads(text)
        assert schema["name"] == path.stem
        assert render.message(schema) == text, path


def test_every_message_of_both_releases_is_there() -> None:
    families = Counter(family for family, _ in KAFKA.values())
    assert families == {
        "rpc": 192, "common": 11, "group": 46, "metadata": 27, "raft": 1, "share": 4, "storage": 5, "transaction": 2,
    }  # fmt: skip
    assert len(KAFKA) == len(list(SCHEMAS.glob("*/*.json"))) == 288
    messages = {name: catalogue.CatalogueMessage(*entry) for name, entry in KAFKA.items()}
    assert catalogue.count_versions(messages) == 865


def test_an_api_key_names_one_message_of_a_family_and_type() -> None:
    keys = Counter(
        (family, schema["type"], schema["apiKey"]) for family, schema in KAFKA.values() if "apiKey" in schema
    )
    assert max(keys.values()) == 1


def test_requests_and_responses_come_in_pairs() -> None:
    for name, (family, schema) in KAFKA.items():
        if schema["type"] == "request":
            other = KAFKA[name.removesuffix("Request") + "Response"][1]
            assert (family, other["type"], other["apiKey"]) == ("rpc", "response", schema["apiKey"]), name
            assert other["validVersions"] == schema["validVersions"], name


@pytest.mark.parametrize(
    ("message", "path", "at", "before"),
    [
        ("AlterPartitionRequest", "Topics.TopicName", "0-1", None),
        ("AlterPartitionResponse", "Topics.TopicName", "0-1", None),
        ("DescribeConfigsResponse", "Results.Configs.IsDefault", "0", "ReadOnly"),
        ("ListOffsetsRequest", "Topics.Partitions.MaxNumOffsets", "0", "Timestamp"),
        ("ListOffsetsResponse", "Topics.Partitions.OldStyleOffsets", "0", "ErrorCode"),
        ("OffsetCommitRequest", "Topics.Partitions.CommitTimestamp", "1", "CommittedLeaderEpoch"),
    ],
)
def test_fields_that_only_dropped_versions_carry(message: str, path: str, at: str, before: str | None) -> None:
    above, _, name = path.rpartition(".")
    siblings = dict(all_fields(KAFKA[message][1]))[above]["fields"]
    names = [field["name"] for field in siblings]
    place = names.index(name)
    assert siblings[place]["versions"] == at
    assert (names[place - 1] if place else None) == before


@pytest.mark.parametrize(
    ("message", "valid"),
    [
        ("FetchRequest", "0-18"),
        ("ProduceRequest", "0-13"),
        ("LeaderAndIsrRequest", "0-7"),
        ("StopReplicaRequest", "0-4"),
        ("UpdateMetadataRequest", "0-8"),
        ("ControlledShutdownRequest", "0-3"),
        ("RequestHeader", "0-2"),
        ("WriteTxnMarkersRequest", "0-2"),
        ("OffsetCommitKey", "0"),
        ("ShareGroupPartitionMetadataKey", "9"),
        ("TransactionLogValue", "0-1"),
    ],
)
def test_the_versions_of_both_releases_are_united(message: str, valid: str) -> None:
    assert KAFKA[message][1]["validVersions"] == valid


def test_a_literal_null_default_is_not_the_string() -> None:
    literal = {
        (name, path)
        for name, (_, schema) in KAFKA.items()
        for path, field in all_fields(schema)
        if "default" in field and field["default"] is None
    }
    assert literal == {
        ("ConsumerGroupMemberMetadataValue", "ClassicMemberMetadata"),
        ("StreamsGroupMetadataValue", "LastAssignmentConfigs"),
        ("ConsumerGroupCurrentMemberAssignmentValue", "TopicPartitions.AssignmentEpochs"),
        ("StreamsGroupCurrentMemberAssignmentValue", "TaskIds.AssignmentEpochs"),
    }
    assert dict(all_fields(KAFKA["ProduceRequest"][1]))["TransactionalId"]["default"] == "null"


def test_a_tagged_field_may_have_no_versions_of_its_own() -> None:
    without = {
        (name, path)
        for name, (_, schema) in KAFKA.items()
        for path, field in all_fields(schema)
        if "versions" not in field
    }
    tagged = ("PreviousProducerId", "NextProducerId", "NextProducerEpoch", "ClientTransactionVersion")
    assert without == {
        *(("TransactionLogValue", name) for name in tagged),
        ("StreamsGroupMetadataValue", "LastAssignmentConfigs"),
    }


@pytest.mark.slow
def test_every_version_of_every_message_has_a_layout() -> None:
    for message in load(SCHEMAS):
        comparison = Comparison(message, message)
        assert all(comparison.extends(version, version) for version in message.valid)


@pytest.mark.parametrize("name", TRANSACTION_FAMILY)
def test_the_transaction_messages_are_described_whole(name: str) -> None:
    schema = KAFKA[name][1]
    texts = {"": schema.get("about", "")} | {path: field.get("about", "") for path, field in all_fields(schema)}
    assert not [path for path, text in texts.items() if not text.endswith(".")]
