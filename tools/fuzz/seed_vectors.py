"""Bytes that Kafka wrote or refused (`tests/golden/vectors`), and files that brokers wrote, as seeds."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from typing import Any

from tools import ROOT

_VECTORS = ROOT / "tests" / "golden" / "vectors" / "4.4.0"
EXAMPLES = ROOT / "examples"
#: Longest seed in bytes: a fuzzer changes little of a long one.
LONGEST = 400


@cache
def lines_of(name: str) -> list[dict[str, Any]]:
    """The lines of a file of vectors."""
    return [json.loads(line) for line in (_VECTORS / name).read_text().splitlines()]


def messages(longest: int = LONGEST) -> Iterator[tuple[str, int, bytes, Any]]:
    """Name, version, bytes and JSON form of values of every version of every message."""
    for line in lines_of("messages.jsonl"):
        data = bytes.fromhex(line["bytes"])
        if len(data) <= longest:
            yield line["message"], line["version"], data, line["json"]


def damaged(longest: int = LONGEST) -> Iterator[tuple[str, int, bytes]]:
    """Name, version and damaged bytes."""
    for line in lines_of("inputs.jsonl"):
        data = bytes.fromhex(line["bytes"])
        if len(data) <= longest:
            yield line["message"], line["version"], data
