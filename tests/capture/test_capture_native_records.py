"""Record batches in captures, as the native engine writes them: what Python's rows are."""

from __future__ import annotations

from io import BytesIO
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import kafkawire
from kafkawire import records
from kafkawire.capture import LinesOfExchanges
from kafkawire.capture.exchange import ReadOptions
from kafkawire.capture.reader import read_with
from kafkawire.cli.formatting import json_bytes
from kafkawire.messages import FetchRequest, FetchResponse
from kafkawire.messages.fetch_response import FetchableTopicResponse, PartitionData
from tests.capture.test_capture_native_tracker import in_python, lines
from tests.capture.wiretap import Conversation, ethernet, pcap, produce
from tests.logdir.test_logdir_jsonl import segments

pytestmark = pytest.mark.skipif(kafkawire.backend == "python", reason="the native engine is not in use")

BATCH = records.build([records.Record(b"k", b"v", (records.Header("h", b"\xff"),))], codec="lz4")
MARKER = records.build_marker(
    "COMMIT", offset=5, timestamp=1, producer_id=7, producer_epoch=2, coordinator_epoch=-3
)  # fmt: skip


def exchanged(batches: bytes) -> bytes:
    """A capture in which a client produces and fetches batches."""
    talk = Conversation()
    talk.request(produce(-1, batches), version=9, correlation_id=1)
    talk.request(FetchRequest(), version=12, correlation_id=2)
    partition = PartitionData(partition_index=0, high_watermark=1, records=batches)
    responses = (FetchableTopicResponse(topic="orders", partitions=(partition,)),)
    talk.response(FetchResponse(responses=responses), version=12, correlation_id=2)
    return pcap(map(ethernet, talk.close().packets))


def alike(data: bytes) -> tuple[list[bytes], int]:
    """The lines of a capture, after a look at that they are Python's; and how many of them the engine wrote."""
    options: dict[str, Any] = {"body": True, "records": True}
    written, decoded = (
        read_with(BytesIO(data), text=True, lines=True, **options),
        in_python(data, ReadOptions(**options)),
    )
    found = lines(written)
    assert found == list(map(json_bytes, decoded))
    assert written.summary == decoded.summary
    again = read_with(BytesIO(data), text=True, lines=True, **options)
    return found, sum(each.count for each in again.found() if isinstance(each, LinesOfExchanges))


@pytest.mark.slow
@given(segments())
def test_batches_of_all_kinds_are_as_python_shows_them(batches: bytes) -> None:
    alike(exchanged(batches))


@pytest.mark.slow
@given(segments(), st.data())
def test_damaged_batches_are_as_python_shows_them(batches: bytes, data: st.DataObject) -> None:
    cut = bytearray(batches[: data.draw(st.integers(0, len(batches)))])
    if cut:
        cut[data.draw(st.integers(0, len(cut) - 1))] ^= data.draw(st.integers(0, 255))
    alike(exchanged(bytes(cut)))


@pytest.mark.parametrize("batches", [b"", BATCH, MARKER, BATCH + MARKER], ids=["none", "data", "marker", "both"])
def test_plain_batches_are_written_by_the_engine(batches: bytes) -> None:
    """The exchange with acks=-1 has no response, and is a problem: that one is Python's."""
    found, by_engine = alike(exchanged(batches))
    assert (len(found), by_engine) == (2, 1)


def test_a_marker_in_an_unusual_form_is_python_s() -> None:
    """A value with a byte too many: Kafka passes over it, and the row says what it is."""
    (record,) = next(iter(records.read(MARKER))).records
    odd = records.build(
        [records.Record(record.key, record.value + b"\0")],
        base_offset=5, control=True, transactional=True, producer_id=7, producer_epoch=2,
    )  # fmt: skip
    found, by_engine = alike(exchanged(odd))
    assert by_engine == 0
    assert b'"coordinatorEpoch":-3' in found[1]
