"""What consumers were given, judged by the copy of the partition."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path

import pytest

from kafkawire import capture, logdir
from kafkawire.messages import FetchRequest, FetchResponse
from kafkawire.messages.fetch_request import FetchPartition, FetchTopic
from kafkawire.messages.fetch_response import AbortedTransaction, FetchableTopicResponse, PartitionData
from kafkawire.rows import ReadAnomaly, ReadTotal, WitnessSummary
from kafkawire.witness import Witness
from tests.audit_logs import LogDirectory, PartitionLog
from tests.capture.wiretap import Conversation, ethernet, pcap

VERSION = 11
#: Producer ids of the log that `written` makes, and the first offsets of their transactions.
COMMITTED, ABORTED, OPEN = 1000, 1001, 1002


def written(root: Path) -> tuple[LogDirectory, PartitionLog]:
    """Offsets 0 and 1 are committed, 2 and 3 aborted, 6 is open."""
    logs = LogDirectory(root, ids=1)
    log = logs.partition("t")
    log.data(COMMITTED, records=2)
    log.data(ABORTED, records=2)
    log.marker("COMMIT", COMMITTED)
    log.marker("ABORT", ABORTED)
    log.data(OPEN)
    return logs, log


def judged(
    tmp_path: Path,
    *,
    aborted: tuple[tuple[int, int], ...] = ((ABORTED, 2),),
    stable: int = 6,
    isolation: int = 1,
    replica: int = -1,
    answered: bool = True,
    more: bool = False,
    recovered_to: bool = False,
) -> tuple[WitnessSummary, dict[str, int], list[ReadAnomaly]]:
    """The summary, batches by what became of them, and anomalies of one Fetch of the whole log.

    Args:
        aborted: producer ids and first offsets that the response names. more: the log goes on after the copy.
        recovered_to: `recovery-point-offset-checkpoint` was copied after the log had gone on.
    """
    logs, log = written(tmp_path / "logs")
    given = bytes(log.segments[-1][1])
    logs.high_watermark("t", 0, log.end)
    high = log.end
    if more:
        stable = high = log.end + 5
    if recovered_to:
        logs.checkpoint("recovery-point-offset-checkpoint", "t", 0, high)
    asked = FetchPartition(partition=0, fetch_offset=0)
    request = FetchRequest(
        replica_id=replica, isolation_level=isolation, topics=(FetchTopic(topic="t", partitions=(asked,)),)
    )
    part = PartitionData(
        high_watermark=high,
        last_stable_offset=stable,
        aborted_transactions=tuple(AbortedTransaction(*one) for one in aborted),
        records=given,
    )
    talk = Conversation().request(request, version=VERSION, correlation_id=1)
    if answered:
        response = FetchResponse(responses=(FetchableTopicResponse(topic="t", partitions=(part,)),))
        talk.response(response, version=VERSION, correlation_id=1)
    witness = Witness(logdir.open(logs.write()))
    for exchange in capture.read(BytesIO(pcap(map(ethernet, talk.packets))), keep=True).matched():
        witness.add(exchange)
    summary, *others = witness.rows()
    assert isinstance(summary, WitnessSummary)
    totals = [row for row in others if isinstance(row, ReadTotal)]
    assert summary.fetched == sum(row.batches for row in totals)
    reads = {row.reason or row.read: row.batches for row in totals}
    anomalies = [row for row in others if isinstance(row, ReadAnomaly)]
    assert summary.read_anomalies == len(anomalies)
    return summary, reads, anomalies


def test_an_aborted_batch_that_the_response_names_is_left_out(tmp_path: Path) -> None:
    _, reads, anomalies = judged(tmp_path, more=True)
    assert reads == {"delivered": 1, "left_out": 1, "copy_older": 1}
    assert not anomalies


def test_an_aborted_batch_that_the_response_does_not_name_is_delivered(tmp_path: Path) -> None:
    _, reads, anomalies = judged(tmp_path, aborted=(), more=True)
    assert reads == {"delivered": 1, "aborted_read": 1, "copy_older": 1}
    (found,) = anomalies
    assert (found.name, found.first_offset, found.last_offset, found.producer_id) == ("aborted_read", 2, 3, ABORTED)
    assert found.response_packet is not None
    assert str(found.log).endswith("t-0/00000000000000000000.log")


def test_a_checkpoint_that_was_copied_after_the_log_proves_no_open_transaction(tmp_path: Path) -> None:
    """The copy ends before the offset that the checkpoint has: the marker may be between them."""
    _, reads, anomalies = judged(tmp_path, stable=12, more=True, recovered_to=True)
    assert reads == {"delivered": 1, "left_out": 1, "copy_older": 1}
    assert not anomalies


def test_an_open_batch_below_the_last_stable_offset_is_named(tmp_path: Path) -> None:
    _, reads, (found,) = judged(tmp_path, stable=7)
    assert reads == {"delivered": 1, "left_out": 1, "open_read": 1}
    assert (found.first_offset, found.producer_id) == (6, OPEN)


def test_a_committed_batch_that_the_response_calls_aborted_is_withheld(tmp_path: Path) -> None:
    _, reads, (found,) = judged(tmp_path, aborted=((COMMITTED, 0), (ABORTED, 2)), more=True)
    assert reads == {"withheld": 1, "left_out": 1, "copy_older": 1}
    assert (found.first_offset, found.producer_id) == (0, COMMITTED)


def test_a_consumer_of_uncommitted_data_gets_everything(tmp_path: Path) -> None:
    _, reads, anomalies = judged(tmp_path, isolation=0, aborted=())
    assert reads == {"delivered": 3}
    assert not anomalies


@pytest.mark.parametrize("options", [{"replica": 2}, {"answered": False}])
def test_followers_and_requests_without_a_response_are_passed_over(tmp_path: Path, options: dict[str, int]) -> None:
    summary, reads, anomalies = judged(tmp_path, **options)  # type: ignore[arg-type]
    assert (summary.fetches, summary.fetched, reads, anomalies) == (0, 0, {}, [])
