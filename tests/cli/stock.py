"""Output and effects of kafka-transactions.sh, with which `kafkawire txn` is compared."""

from __future__ import annotations

import csv
import io

import pytest

from tools.broker.errors import BrokerToolError
from tools.broker.kafka_tools import run_tool


def rows(text: str) -> list[dict[str, str]]:
    """Of csv."""
    return list(csv.DictReader(io.StringIO(text)))


def kafka(address: str, *arguments: object) -> list[dict[str, str]]:
    """What kafka-transactions.sh prints, by column; empty where it prints nothing."""
    out = run_tool("TransactionsCommand", "--bootstrap-server", address, *map(str, arguments))
    head, *lines = [line.rstrip("\t\r").split("\t") for line in out.splitlines() if line.strip()] or [[]]
    names = [name.strip() for name in head]
    return [dict(zip(names, (cell.strip() for cell in line), strict=True)) for line in lines]


def kafka_refuses(address: str, *arguments: object) -> str:
    """What kafka-transactions.sh prints when it fails."""
    with pytest.raises(BrokerToolError, match="status 1") as caught:
        run_tool("TransactionsCommand", "--bootstrap-server", address, *map(str, arguments))
    return str(caught.value)
