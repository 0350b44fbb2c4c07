"""The layouts that KIP texts proposed and Kafka never shipped: each is there, as the text has it, and says so."""

import json
from pathlib import Path
from typing import Any

import pytest

from kafkawire.codegen.versions import VersionRange
from tools.import_schemas.__main__ import SCHEMAS

DESCRIBE_PRODUCERS_REQUEST = "Topics[Name string, PartitionIndexes []int32]"
PRODUCER = "ProducerId int64, ProducerEpoch int32, LastSequence int32, LastTimestamp int64"
DESCRIBE_PRODUCERS_RESPONSE = (
    "ThrottleTimeMs int32, Topics[Name string, "
    "Partitions[PartitionIndex int32, ErrorCode int16, ActiveProducers[{producer}]]]"
)
LIST_TRANSACTIONS_RESPONSE = (
    "ThrottleTimeMs int32, ErrorCode int16, "
    "TransactionStates[TransactionalId string, ProducerId int64, TransactionState string]"
)
DESCRIBE_TRANSACTIONS_RESPONSE = (
    "ThrottleTimeMs int32, TransactionStates[ErrorCode int16, TransactionalId string, TransactionState int8, "
    "TransactionTimeoutMs int32, TransactionStartTimeMs int64, ProducerId int64, ProducerEpoch int32, "
    "TopicPartitions[PartitionIndexes []int32]]"
)
WRITE_TXN_MARKERS_REQUEST = (
    "Markers[ProducerId int64, ProducerEpoch int16, TransactionResult bool, "
    "Topics[Name string, {partitions}], CoordinatorEpoch int32]"
)
MARKERS_V0 = WRITE_TXN_MARKERS_REQUEST.format(partitions="PartitionIndexes []int32")
MARKERS_V1 = WRITE_TXN_MARKERS_REQUEST.format(partitions="Partitions[PartitionIndex int32, 0:TxnStartOffset int64]")
WRITE_TXN_MARKERS_RESPONSE = (
    "Markers[ProducerId int64, Topics[Name string, Partitions[PartitionIndex int32, ErrorCode int16]]]"
)
STATE = (
    "TxnTimeoutDuration int32, TxnStatus int8, TxnPartitions?[Topic string, Partitions []int32], "
    "TxnLastUpdateTime int64, TxnStartTime int64"
)

FLEXIBLE = "flexible: "
LAYOUTS: dict[str, dict[str, dict[int, str]]] = {
    "kip-664-draft": {
        "DescribeProducersRequest": {0: FLEXIBLE + DESCRIBE_PRODUCERS_REQUEST},
        "DescribeProducersResponse": {
            0: FLEXIBLE + DESCRIBE_PRODUCERS_RESPONSE.format(producer=f"{PRODUCER}, CurrentTxnStartTimestamp int64")
        },
        "ListTransactionsRequest": {0: FLEXIBLE + "StatesFilter []string"},
        "ListTransactionsResponse": {0: FLEXIBLE + LIST_TRANSACTIONS_RESPONSE},
        "DescribeTransactionsRequest": {0: FLEXIBLE + "TransactionalIds []string"},
        "DescribeTransactionsResponse": {0: FLEXIBLE + DESCRIBE_TRANSACTIONS_RESPONSE},
        "WriteTxnMarkersRequest": {0: MARKERS_V0, 1: FLEXIBLE + MARKERS_V1},
        "WriteTxnMarkersResponse": {0: WRITE_TXN_MARKERS_RESPONSE, 1: FLEXIBLE + WRITE_TXN_MARKERS_RESPONSE},
    },
    "kip-664-adopted": {
        "DescribeProducersRequest": {0: FLEXIBLE + DESCRIBE_PRODUCERS_REQUEST},
        "DescribeProducersResponse": {
            0: FLEXIBLE
            + DESCRIBE_PRODUCERS_RESPONSE.format(producer=f"{PRODUCER}, TxnStartOffset int64, CoordinatorEpoch int32")
        },
        "ListTransactionsResponse": {0: FLEXIBLE + LIST_TRANSACTIONS_RESPONSE},
        "DescribeTransactionsRequest": {0: FLEXIBLE + "TransactionalIds []string"},
        "DescribeTransactionsResponse": {0: FLEXIBLE + DESCRIBE_TRANSACTIONS_RESPONSE},
        "WriteTxnMarkersRequest": {0: MARKERS_V0, 1: FLEXIBLE + MARKERS_V1},
        "WriteTxnMarkersResponse": {0: WRITE_TXN_MARKERS_RESPONSE, 1: FLEXIBLE + WRITE_TXN_MARKERS_RESPONSE},
    },
    "kip-360": {
        "TransactionStateValueLastEpoch": {1: f"ProducerId int64, CurrentEpoch int16, LastEpoch int16, {STATE}"},
        "TransactionStateValueInstanceEpoch": {
            1: f"InstanceEpoch int16, ProducerId int64, ProducerEpoch int16, {STATE}"
        },
        "DescribeTransactionStateRequest": {0: "TransactionalIds []string"},
        "DescribeTransactionStateResponse": {
            0: "States[Error int16, ProducerId int64, Epoch int16, State string, "
            "Partitions[TopicName string, PartitionIds []int32]]"
        },
    },
}
"""Folder -> message -> version -> its fields in the order of writing; `?` may be null, `N:` is a tag."""

API_KEYS = {
    "kip-664-draft": {"WriteTxnMarkersRequest": 27, "WriteTxnMarkersResponse": 27},
    "kip-664-adopted": {
        "DescribeProducersResponse": 61,
        "ListTransactionsResponse": 66,
        "DescribeTransactionsResponse": 65,
        "WriteTxnMarkersRequest": 27,
        "WriteTxnMarkersResponse": 27,
    },
    "kip-360": {},
}
"""Only those that the text gives, and gives rightly: the draft's ListTransactionsRequest says 16."""


def load(folder: str) -> dict[str, dict[str, Any]]:
    return {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in Path(SCHEMAS.parent, folder).iterdir()}


def written(fields: list[dict[str, Any]], version: int) -> str:
    carried = (field.get("versions") or field["taggedVersions"] for field in fields)
    return ", ".join(
        one(field, version) for field, at in zip(fields, carried, strict=True) if version in VersionRange.parse(at)
    )


def one(field: dict[str, Any], version: int) -> str:
    tag = f"{field['tag']}:" if version in VersionRange.parse(field.get("taggedVersions", "none")) else ""
    null = "?" if version in VersionRange.parse(field.get("nullableVersions", "none")) else ""
    kind = f"[{written(field['fields'], version)}]" if "fields" in field else f" {field['type']}"
    return f"{tag}{field['name']}{null}{kind}"


@pytest.mark.parametrize("folder", LAYOUTS)
def test_each_layout_is_as_the_text_has_it(folder: str) -> None:
    found: dict[str, dict[int, str]] = {}
    for name, schema in load(folder).items():
        flexible = VersionRange.parse(schema["flexibleVersions"])
        found[name] = {
            version: (FLEXIBLE if version in flexible else "") + written(schema["fields"], version)
            for version in VersionRange.parse(schema["validVersions"])
        }
    assert found == LAYOUTS[folder]


@pytest.mark.parametrize("folder", LAYOUTS)
def test_only_right_api_keys_are_given(folder: str) -> None:
    given = {name: schema["apiKey"] for name, schema in load(folder).items() if "apiKey" in schema}
    assert given == API_KEYS[folder]


@pytest.mark.parametrize("folder", LAYOUTS)
def test_each_message_names_its_kip_and_each_field_has_a_description(folder: str) -> None:
    title = {"kip-664-draft": "KIP-664, draft: ", "kip-664-adopted": "KIP-664, adopted: ", "kip-360": "KIP-360, "}

    def undescribed(fields: list[dict[str, Any]]) -> list[str]:
        below = [name for field in fields for name in undescribed(field.get("fields", []))]
        return below + [field["name"] for field in fields if not field.get("about", "").endswith(".")]

    for schema in load(folder).values():
        assert schema["about"].startswith(title[folder])
        assert undescribed(schema["fields"]) == []


def test_no_default_is_made_up() -> None:
    assert not [
        path for folder in LAYOUTS for path in (SCHEMAS.parent / folder).iterdir() if '"default"' in path.read_text()
    ]
