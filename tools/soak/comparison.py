"""Compares what kafkawire found with counts of other programs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tools.recordings.raw_client import CLIENT_ID

from .capture_process import CaptureProcess
from .hang_maker import HangingTransaction, HangingTransactions, WatchProcess
from .producer_load import KEY, ProducerTotals
from .soak_results import ComparedCounts
from .stream_process import Longs, offsets_of

_TOOL = "Kafka's DumpLogSegments"
#: Requests to the first broker before a client knows the others. Afterwards librdkafka does not count them any more.
_FORGOTTEN = frozenset({"ApiVersions", "FindCoordinator", "Metadata"})


def stream_counts(
    rows: pa.Table,
    wrote: ProducerTotals,
    hangs: Sequence[HangingTransaction],
    ends: Mapping[int, int],
    dumped: Counter[str],
) -> list[ComparedCounts]:
    """Compares the stream's rows with what was written.

    Args:
        rows: the rows that the stream wrote.
        wrote: totals of the producers, from their delivery reports.
        hangs: the hanging transactions that were made.
        ends: the high watermark of every partition, from the brokers.
        dumped: counts of Kafka's DumpLogSegments for the same files.
    """
    read = rows.filter(pc.is_null(rows["error"]))
    data = read.filter(pc.is_null(read["control"]))
    is_ours = pc.equal(pc.binary_length(data["key"]), KEY.size)
    numbers = data.filter(is_ours)
    matched = strangers = 0
    offsets = distinct = 0
    for partition, end in ends.items():
        found = offsets_of(read, partition)
        offsets += len(found)
        distinct += len(np.unique(found[(found >= 0) & (found < end)]))
        mine = numbers.filter(pc.equal(numbers["partition"], partition))
        expected = _pairs(wrote.offsets.get(partition, ()), wrote.numbers.get(partition, ()))
        got = _pairs(mine["offset"].to_numpy(), _numbers(mine))
        matched += len(expected & got)
        strangers += sum(number not in wrote.unknown for _, number in got - expected)
    left_open = {(hang.place.partition, hang.offset + i) for hang in hangs for i in range(hang.records)}
    others = data.filter(pc.invert(is_ours))
    hung = set(zip(others["partition"].to_pylist(), others["offset"].to_pylist(), strict=True)) & left_open
    aborted_by_hand = {"COMMIT": 0, "ABORT": len(hangs)}
    markers = {kind: pc.sum(pc.equal(read["control"], kind)).as_py() or 0 for kind in aborted_by_hand}
    stream, client, broker = "Spark stream: ", "delivery reports", "ListOffsets of the brokers"
    return [
        ComparedCounts(stream + "records at their offsets", wrote.records, matched, client),
        ComparedCounts(stream + "records that no producer wrote", 0, strangers, client),
        ComparedCounts(stream + "records of hangs", len(left_open), len(hung), "Produce responses"),
        ComparedCounts(stream + "records in all", dumped["records"], len(data), _TOOL),
        *(ComparedCounts(f"{stream}{kind} markers", dumped[kind], markers[kind], _TOOL) for kind in markers),
        # A new coordinator writes markers again that the previous one has written.
        *(
            ComparedCounts(
                f"{stream}{kind} markers of transactions",
                by_hand + sum(n for (_, ended), n in wrote.markers.items() if ended == kind),
                markers[kind],
                "producers, and `txn abort`",
                at_least=True,
            )
            for kind, by_hand in aborted_by_hand.items()
        ),
        ComparedCounts(stream + "offsets", sum(ends.values()), distinct, broker),
        ComparedCounts(stream + "rows that came again", 0, offsets - distinct, broker),
        ComparedCounts(stream + "rows with an error", 0, len(rows) - len(read), "the log's own checksums"),
    ]


def watch_counts(found: WatchProcess, hangs: HangingTransactions) -> list[ComparedCounts]:
    """Compares the reports of `txn watch` with the hanging transactions that were made and aborted."""
    made = {hang.place for hang in hangs.made}
    strangers = sum(count for place, count in found.hanging.items() if place not in made)
    by = "the soak, which made them"
    return [
        ComparedCounts(
            "txn watch: hangs that were reported once", len(made), sum(found.hanging[place] == 1 for place in made), by
        ),
        ComparedCounts(
            "txn watch: hangs whose end was reported once",
            len(made),
            sum(found.gone[place] == 1 for place in made),
            "`txn abort`",
        ),
        ComparedCounts("txn watch: hangs in its metrics", len(made), hangs.scraped, by),
        ComparedCounts("txn watch: transactions reported as hanging that are not", 0, strangers, by),
        ComparedCounts(
            "txn watch: polls reported", max(found.numbers, default=0), len(set(found.numbers)), "their numbers"
        ),
    ]


def capture_counts(found: CaptureProcess, wrote: ProducerTotals, hangs: HangingTransactions) -> list[ComparedCounts]:
    """Compares captured exchanges with the requests and responses that clients count.

    Args:
        found: exchanges that were captured. `wrote`: requests and responses in the statistics of librdkafka.
        hangs: with the requests that made them.
    """
    apis = sorted({api for _, api in wrote.requests})
    names = {name for name, _ in wrote.requests}
    by = "librdkafka's statistics"
    exact = {key for key in wrote.requests | found.requests if key[0] in names and key[1] not in _FORGOTTEN}

    def of_ours(counts: Counter[tuple[str, str]], wanted: str) -> int:
        return sum(count for (name, api), count in counts.items() if api == wanted and name in names)

    differ = sum(wrote.requests[key] != found.requests[key] for key in exact)
    by_hand = sum(count for (name, _), count in found.requests.items() if name == CLIENT_ID)
    return [
        ComparedCounts("capture: packets dropped by the kernel", 0, found.dropped, "tcpdump"),
        *(
            ComparedCounts(
                f"capture: {api} requests of the producers",
                of_ours(wrote.requests, api),
                of_ours(found.requests, api),
                by,
                at_least=api in _FORGOTTEN,
            )
            for api in apis
        ),
        ComparedCounts(
            "capture: responses to the producers",
            sum(wrote.responses.values()),
            sum(found.responses[name] for name in names),
            by,
            at_least=True,
        ),
        ComparedCounts("capture: producers and APIs of these whose requests differ", 0, differ, by),
        ComparedCounts(
            "capture: exchanges of the client that made hangs", hangs.exchanges, by_hand, "the soak, which made them"
        ),
    ]


def _numbers(rows: pa.Table) -> Longs:
    """The keys, each a big-endian int64."""
    return np.frombuffer(b"".join(rows["key"].to_pylist()), ">i8").astype(np.int64)


def _pairs(offsets: Sequence[int] | Longs, numbers: Sequence[int] | Longs) -> set[tuple[int, int]]:
    return set(zip(np.asarray(offsets).tolist(), np.asarray(numbers).tolist(), strict=True))
