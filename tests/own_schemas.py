"""Schemas of messages that Kafka does not have, for tests: PingRequest and PingResponse with api key 9001."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

SHIPPED = Path(__file__).parents[1] / "schemas" / "kafka"
API_KEY = 9001
TEXT = {"name": "Text", "type": "string", "versions": "0+"}
PING: dict[str, Any] = {
    "name": "PingRequest",
    "type": "request",
    "apiKey": API_KEY,
    "listeners": ["broker"],
    "validVersions": "0-1",
    "flexibleVersions": "1+",
    "fields": [TEXT],
}
PONG = PING | {"name": "PingResponse", "type": "response", "listeners": []}

#: A value with versions, and a key with one.
ORDER: dict[str, Any] = {
    "name": "OrderValue",
    "type": "data",
    "validVersions": "0-1",
    "flexibleVersions": "1+",
    "fields": [
        {"name": "Customer", "type": "string", "versions": "0+"},
        {"name": "Amount", "type": "int64", "versions": "1+"},
    ],
}
ORDER_KEY = ORDER | {
    "name": "OrderKey",
    "validVersions": "0",
    "flexibleVersions": "none",
    "fields": [{"name": "Number", "type": "int32", "versions": "0+"}],
}


def write(folder: Path, *schemas: dict[str, Any]) -> Path:
    """Writes schemas to a new folder, each to a file with its name; without any those of ping and its response."""
    folder.mkdir()
    for schema in schemas or (PING, PONG):
        (folder / f"{schema['name']}.json").write_text(json.dumps(schema))
    return folder


def shipped(name: str) -> dict[str, Any]:
    """The schema of one of Kafka's requests or responses."""
    schema: dict[str, Any] = json.loads((SHIPPED / "rpc" / f"{name}.json").read_text())
    return schema


def with_start_times(folder: Path) -> None:
    """ListTransactions with a version that Kafka does not have, as an edit of the shipped schemas."""
    for name in ("ListTransactionsRequest", "ListTransactionsResponse"):
        schema = shipped(name)
        last = int(schema["validVersions"].rpartition("-")[2])
        schema["validVersions"] = f"0-{last + 1}"
        schema["fields"].append({"name": "Extra", "type": "int64", "versions": f"{last + 1}+"})
        (folder / f"{name}.json").write_text(json.dumps(schema))
