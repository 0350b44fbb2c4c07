"""Compares what kafkawire found with counts of other programs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tools.recordings.raw_client import CLIENT_ID

from .capture_process import CaptureProcess
from .hanging_transactions import HangingTransaction, HangingTransactions
from .producer_load import KEY, ProducerTotals
from .soak_results import ComparedCounts
from .stream_process import Longs, offsets_of
from .watch_process import WatchProcess

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
        ComparedCounts(what=stream + "records at their offsets", expected=wrote.records, found=matched, by=client),
        ComparedCounts(what=stream + "records that no producer wrote", expected=0, found=strangers, by=client),
        ComparedCounts(
            what=stream + "records of hangs", expected=len(left_open), found=len(hung), by="Produce responses"
        ),
        ComparedCounts(what=stream + "records in all", expected=dumped["records"], found=len(data), by=_TOOL),
        *(
            ComparedCounts(what=f"{stream}{kind} markers", expected=dumped[kind], found=markers[kind], by=_TOOL)
            for kind in markers
        ),
        # A new coordinator writes markers again that the previous one has written.
        *(
            ComparedCounts(
                what=f"{stream}{kind} markers of transactions",
                expected=by_hand + sum(n for (_, ended), n in wrote.markers.items() if ended == kind),
                at_least=True,
                found=markers[kind],
                by="producers, and `txn abort`",
            )
            for kind, by_hand in aborted_by_hand.items()
        ),
        ComparedCounts(what=stream + "offsets", expected=sum(ends.values()), found=distinct, by=broker),
        ComparedCounts(what=stream + "rows that came again", expected=0, found=offsets - distinct, by=broker),
        ComparedCounts(
            what=stream + "rows with an error", expected=0, found=len(rows) - len(read), by="the log's own checksums"
        ),
    ]


def watch_counts(found: WatchProcess, hangs: HangingTransactions) -> list[ComparedCounts]:
    """Compares the reports of `txn watch` with the hanging transactions that were made and aborted."""
    made = {hang.place for hang in hangs.made}
    strangers = sum(count for place, count in found.hanging.items() if place not in made)
    by = "the soak, which made them"
    return [
        ComparedCounts(
            what="txn watch: hangs that were reported once",
            expected=len(made),
            found=sum(found.hanging[place] == 1 for place in made),
            by=by,
        ),
        ComparedCounts(
            what="txn watch: hangs whose end was reported once",
            expected=len(made),
            found=sum(found.gone[place] == 1 for place in made),
            by="`txn abort`",
        ),
        ComparedCounts(what="txn watch: hangs in its metrics", expected=len(made), found=hangs.scraped, by=by),
        ComparedCounts(
            what="txn watch: transactions reported as hanging that are not", expected=0, found=strangers, by=by
        ),
        ComparedCounts(
            what="txn watch: polls reported",
            expected=max(found.numbers, default=0),
            found=len(set(found.numbers)),
            by="their numbers",
        ),
    ]


def capture_counts(found: CaptureProcess, wrote: ProducerTotals, hangs: HangingTransactions) -> list[ComparedCounts]:
    """Compares captured exchanges with the requests and responses that clients count."""
    apis = sorted({api for _, api in wrote.requests})
    names = {name for name, _ in wrote.requests}
    by = "librdkafka's statistics"
    exact = {key for key in wrote.requests | found.requests if key[0] in names and key[1] not in _FORGOTTEN}

    def of_ours(counts: Counter[tuple[str, str]], wanted: str) -> int:
        return sum(count for (name, api), count in counts.items() if api == wanted and name in names)

    differ = sum(wrote.requests[key] != found.requests[key] for key in exact)
    by_hand = sum(count for (name, _), count in found.requests.items() if name == CLIENT_ID)
    return [
        ComparedCounts(what="capture: packets dropped by the kernel", expected=0, found=found.dropped, by="tcpdump"),
        *(
            ComparedCounts(
                what=f"capture: {api} requests of the producers",
                expected=of_ours(wrote.requests, api),
                found=of_ours(found.requests, api),
                at_least=api in _FORGOTTEN,
                by=by,
            )
            for api in apis
        ),
        ComparedCounts(
            what="capture: responses to the producers",
            expected=sum(wrote.responses.values()),
            found=sum(found.responses[name] for name in names),
            at_least=True,
            by=by,
        ),
        ComparedCounts(
            what="capture: producers and APIs of these whose requests differ", expected=0, found=differ, by=by
        ),
        ComparedCounts(
            what="capture: exchanges of the client that made hangs",
            expected=hangs.exchanges,
            found=by_hand,
            by="the soak, which made them",
        ),
    ]


def _numbers(rows: pa.Table) -> Longs:
    """The keys, each a big-endian int64."""
    return np.frombuffer(b"".join(rows["key"].to_pylist()), ">i8").astype(np.int64)


def _pairs(offsets: Sequence[int] | Longs, numbers: Sequence[int] | Longs) -> set[tuple[int, int]]:
    return set(zip(np.asarray(offsets).tolist(), np.asarray(numbers).tolist(), strict=True))
