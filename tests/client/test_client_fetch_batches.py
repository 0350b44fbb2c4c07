"""A partition's batches, from responses that end anywhere."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from kafkawire.client.errors import ClientError
from kafkawire.client.results import TopicPartition
from kafkawire.client.rpc import fetch_batches
from kafkawire.records import Record, build

LOG = [build([Record(value=b"x")], base_offset=offset) for offset in range(3)]


def walked(monkeypatch: pytest.MonkeyPatch, log: bytes, cut: int) -> list[int]:
    """The offsets of the batches, where a response has at most `cut` bytes, but a batch at least."""

    async def fetch(cluster: Any, broker: int, key: TopicPartition, offset: int, *rest: Any) -> bytes:
        data = log[sum(map(len, LOG[:offset])) :]
        return data[: max(cut, len(LOG[0]))]

    monkeypatch.setattr(fetch_batches, "fetch", fetch)

    async def walk() -> list[int]:
        found = fetch_batches.batches(None, 1, TopicPartition("orders", 0), 0, 3, None)  # type: ignore[arg-type]
        return [batch.base_offset async for batch in found]

    return asyncio.run(walk())


def test_responses_that_end_at_any_byte(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also behind the first bytes of a batch's offset, which are zeros as those of a preallocated file."""
    log = b"".join(LOG)
    for cut in range(len(LOG[0]), len(log) + 1):
        assert list(dict.fromkeys(walked(monkeypatch, log, cut))) == [0, 1, 2], cut


def test_zeros_in_place_of_a_batch_are_no_end(monkeypatch: pytest.MonkeyPatch) -> None:
    log = LOG[0] + bytes(len(LOG[1]) + len(LOG[2]))
    with pytest.raises(ClientError, match="nothing could be read at offset 1"):
        walked(monkeypatch, log, 1 << 20)
