"""codegen/tables: the numbers' modules are what the files give; mistakes are named."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import kafkawire
from kafkawire import kafka_api_keys, kafka_errors
from kafkawire.codegen.tables import TABLES, table_files
from kafkawire.errors import SchemaError
from kafkawire.messages import REGISTRY

SCHEMAS = Path(kafkawire.__file__).parent / "schemas"


def entries(file: str) -> list[dict[str, Any]]:
    loaded: list[dict[str, Any]] = json.loads((SCHEMAS / file).read_bytes())
    return loaded


def test_the_modules_hold_what_the_files_do() -> None:
    errors, keys = entries("errors.json"), entries("api_keys.json")
    assert {entry["code"]: entry["name"] for entry in errors} == kafka_errors.NAMES
    assert {entry["code"] for entry in errors if entry.get("retriable")} == kafka_errors.RETRIABLE
    assert {entry["code"]: entry["exception"] for entry in errors if "exception" in entry} == kafka_errors.EXCEPTIONS
    assert {entry["key"]: entry["name"] for entry in keys} == kafka_api_keys.NAMES
    assert {entry["key"] for entry in keys if entry.get("clusterAction")} == kafka_api_keys.CLUSTER_ACTIONS


def test_some_that_everybody_knows() -> None:
    assert kafka_errors.error_name(0) == "NONE"
    assert kafka_errors.error_name(-1) == "UNKNOWN_SERVER_ERROR"
    assert kafka_errors.error_name(9999) == "UNKNOWN_9999"
    assert kafka_errors.CODES["NOT_LEADER_OR_FOLLOWER"] in kafka_errors.RETRIABLE
    assert kafka_errors.CODES["PRODUCER_FENCED"] not in kafka_errors.RETRIABLE
    fenced = kafka_errors.error_code(90)
    assert fenced is kafkawire.ErrorCode.PRODUCER_FENCED
    assert (type(kafka_errors.error_code(9999)), kafka_errors.error_code(9999)) == (int, 9999)
    assert kafka_errors.EXCEPTIONS[90] == "ProducerFencedException"
    assert kafka_api_keys.api_name(61) == "DescribeProducers"
    assert kafka_api_keys.api_name(-5) == "UNKNOWN_-5"
    assert kafka_api_keys.KEYS["WriteTxnMarkers"] in kafka_api_keys.CLUSTER_ACTIONS


def test_every_request_has_the_name_of_its_key() -> None:
    requests = {entry.api_key: entry.name.removesuffix("Request") for entry in REGISTRY if entry.kind == "request"}
    assert requests == kafka_api_keys.NAMES


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{", "errors.json: Expecting"),
        ("[{}]", "errors.json: [0]: needs a number 'code' and a name"),
        ('[{"code": 1, "name": "A B"}]', "errors.json: [0]: needs a number 'code' and a name"),
        ('[{"code": 1, "name": "A"}, {"code": 1, "name": "B"}]', "errors.json: [1]: 1 or 'B' is given twice"),
        ("[1]", "errors.json: [0]: needs a number"),
        ('{"code": 1}', "errors.json: is no array"),
        ('[{"code": 1, "name": "A", "exception": "\\"; import os"}]', "errors.json: [0]: needs"),
    ],
)
def test_mistakes_are_named(tmp_path: Path, text: str, says: str) -> None:
    for file, _, _ in TABLES.values():
        (tmp_path / file).write_bytes((SCHEMAS / file).read_bytes())
    assert table_files(tmp_path) == table_files(SCHEMAS)
    (tmp_path / "errors.json").write_text(text)
    with pytest.raises(SchemaError) as caught:
        table_files(tmp_path)
    assert str(caught.value).startswith(says)
