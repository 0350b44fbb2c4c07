"""The capture of real clients and a real broker in examples/, also with lost, duplicated and swapped packets."""

from __future__ import annotations

import json
import random
import struct
from collections import Counter
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest

from kafkawire import capture
from kafkawire.capture import Packet, read_packets
from kafkawire.rows import Exchange
from tests.capture.wiretap import pcapng

EXAMPLES = Path(__file__).parents[2] / "examples"
PCAP = EXAMPLES / "capture" / "transactions.pcap"
TRUTH: dict[str, Any] = json.loads((EXAMPLES / "expected.json").read_text())["capture"]["transactions.pcap"]


@pytest.fixture(scope="module")
def whole() -> list[Exchange]:
    return list(capture.read(PCAP, body=True, records=True))


@pytest.fixture(scope="module")
def packets() -> list[Packet]:
    with PCAP.open("rb") as file:
        return list(read_packets(file))


def again(packets: list[Packet]) -> list[Exchange]:
    """The exchanges of a capture with these packets."""
    out = [PCAP.read_bytes()[:24]]
    for packet in packets:
        seconds, rest = divmod(packet.time_ns, 1_000_000_000)
        out.append(struct.pack("<IIII", seconds, rest // 1000, len(packet.data), len(packet.data)) + packet.data)
    return list(capture.read(BytesIO(b"".join(out)), body=True, records=True))


def contents(exchanges: list[Exchange]) -> Counter[str]:
    """The content of complete exchanges, without packet numbers and times."""
    whole = (e for e in exchanges if e.request is not None and e.response is not None)
    return Counter(json.dumps([e.client, e.api, e.version, e.request, e.response, e.errors]) for e in whole)


def test_decodes_every_frame(whole: list[Exchange]) -> None:
    (problem,) = [e for e in whole if e.problem]
    assert (problem.api, problem.version, problem.errors) == ("ApiVersions", 99, {"UNSUPPORTED_VERSION": 1})
    assert all(e.response_packet is not None and e.latency_ms is not None and e.latency_ms >= 0 for e in whole)
    assert [e.packet for e in whole] == sorted(e.packet or 0 for e in whole)


def test_summary_counts_the_example(packets: list[Packet]) -> None:
    found = capture.read(PCAP)
    listed = list(found)
    assert (found.summary.packets, dict(found.summary.skipped)) == (len(packets), {})
    assert set(found.summary.connections) == {"kafka"}
    assert (found.summary.exchanges, found.summary.selected, found.summary.problems.total()) == (
        len(listed),
        len(listed),
        1,
    )


def test_finds_the_requests_sent_by_hand(whole: list[Exchange]) -> None:
    """The client recorded each of its requests, with the sizes of request and response."""
    by_hand = [e for e in whole if e.client_id == "kafkawire-examples"]
    names = ("api", "api_key", "version", "correlation_id", "client_id", "request_bytes", "response_bytes")
    found = Counter((*(getattr(e, name) for name in names), int(str(e.client).split(":")[1])) for e in by_hand)
    wanted = Counter((*(e[name] for name in names), e["client_port"]) for e in TRUTH["exchanges_by_hand"])
    assert len(wanted) > 50
    assert found == wanted


def test_the_broker_is_the_end_with_its_port(whole: list[Exchange]) -> None:
    assert {e.broker for e in whole} == {f"127.0.0.1:{TRUTH['port']}"}


def test_finds_the_abort_markers(whole: list[Exchange]) -> None:
    """WriteTxnMarkers of the hanging transactions, with the aborted epochs."""
    markers = {
        (marker["producerId"], marker["producerEpoch"], topic["name"], partition)
        for e in whole
        if e.api == "WriteTxnMarkers" and e.request is not None
        for marker in e.request["markers"]  # type: ignore[index]
        if not marker["transactionResult"]
        for topic in marker["topics"]
        for partition in topic["partitionIndexes"]
    }
    for abort in TRUTH["aborts"]:
        assert (abort["producer_id"], abort["producer_epoch"], abort["topic"], abort["partition"]) in markers


def test_describe_responses_match_the_final_states(whole: list[Exchange]) -> None:
    """The last DescribeTransactions responses have the recorded states."""
    described = {
        state["transactionalId"]: (state["producerId"], state["producerEpoch"], state["transactionState"])
        for e in whole
        if e.api == "DescribeTransactions" and e.response is not None
        for state in e.response["transactionStates"]  # type: ignore[index]
    }
    for transaction in TRUTH["transactions"]:
        known = described.get(transaction["transactional_id"])
        assert known in (
            None,
            (transaction["producer_id"], transaction["producer_epoch"], transaction["state"]),
        )
    assert len(described) > 1


def test_decodes_produced_records(whole: list[Exchange]) -> None:
    batches = [
        batch
        for e in whole
        if e.api == "Produce" and e.request is not None
        for topic in e.request["topicData"]  # type: ignore[index]
        for partition in topic["partitionData"]
        for batch in partition["records"]
    ]
    assert {batch["codec"] for batch in batches} >= {"none", "lz4"}
    assert {batch["kind"] for batch in batches} == {"batch"}
    assert all(record["kind"] == "record" for batch in batches for record in batch["records"])
    assert {batch["producer_id"] for batch in batches if batch["transactional"]} >= {
        abort["producer_id"] for abort in TRUTH["aborts"]
    }


def test_pcapng_gives_the_same_exchanges(whole: list[Exchange], packets: list[Packet]) -> None:
    found = list(capture.read(BytesIO(pcapng(packet.data for packet in packets)), body=True, records=True))
    assert contents(found) == contents(whole)
    assert [e.packet for e in found] == [e.packet for e in whole]


def test_duplicated_packets_change_no_exchange(whole: list[Exchange], packets: list[Packet]) -> None:
    found = again([packet for packet in packets for _ in range(2)])
    assert contents(found) == contents(whole)
    assert len(found) == len(whole)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_swapped_packets_change_no_exchange(whole: list[Exchange], packets: list[Packet], seed: int) -> None:
    choose = random.Random(seed)
    swapped = packets[:]
    for i in range(len(swapped) - 1):
        if choose.random() < 0.02:
            swapped[i], swapped[i + 1] = swapped[i + 1], swapped[i]
    assert contents(again(swapped)) == contents(whole)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_lost_packets_are_reported_and_cost_adjacent_exchanges_only(
    whole: list[Exchange], packets: list[Packet], seed: int
) -> None:
    choose = random.Random(seed)
    kept = [packet for packet in packets if choose.random() >= 0.01]
    found = again(kept)
    assert contents(found) <= contents(whole)
    lost = len(packets) - len(kept)
    assert contents(found).total() >= contents(whole).total() - 5 * lost
    assert any("missing in the capture" in str(e.problem) for e in found)


@pytest.mark.slow
def test_reads_a_capture_that_begins_within_connections(whole: list[Exchange], packets: list[Packet]) -> None:
    for start in range(50, 900, 170):
        found = again(packets[start:])
        later = [e for e in whole if e.packet is not None and e.packet > start + 1]
        assert contents(found) <= contents(whole)
        assert contents(found).total() >= contents(later).total() - 3
