"""Clocks of coordinators, compared by the newest times in the internal topics that they lead."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from kafkawire.client import TopicPartition
from kafkawire.client.diagnosis.clock_samples import ClockSample, MeasuredClocks, measured
from kafkawire.client.diagnosis.cluster_reading import clock_ms
from kafkawire.client.rpc.partition_offsets import NewestTime
from kafkawire.messages import ListOffsetsRequest, ListOffsetsResponse
from kafkawire.messages.list_offsets_response import ListOffsetsPartitionResponse, ListOffsetsTopicResponse
from kafkawire.rows import Audit
from tests.client.answers import scenario
from tests.client.hanging_script import SEARCH, STATE, broker, find, offsets, preparing

SECOND, MINUTE, HOUR, NOON = 1_000, 60_000, 3_600_000, 1_750_075_200_000
FIRST, SECOND_ONE = TopicPartition(STATE, 0), TopicPartition(STATE, 1)
NOTHING = "it wrote nothing to internal topics between two readings"


def sample(at: int, times: dict[TopicPartition, tuple[int, int, int]]) -> ClockSample:
    """Of broker 2. `times`: the newest time, its offset and its leader epoch."""
    return ClockSample(after=at, until=at, times={2: {place: NewestTime(*one) for place, one in times.items()}})


def told(before: dict[TopicPartition, tuple[int, int, int]], now: dict[TopicPartition, tuple[int, int, int]]) -> str:
    """What two samples show, a second apart."""
    return measured(sample(NOON, before), sample(NOON + SECOND, now)).beside("this clock")


@pytest.mark.parametrize(
    ("off", "text"),
    [
        (0, "that of broker 2 is near it"),
        (-MINUTE, "that of broker 2 is near it"),
        (-HOUR, "the clock of broker 2 is behind the clock here by 1 h"),
        (HOUR, "the clock of broker 2 is ahead of the clock here by 59 min 59 s to 1 h"),
    ],
)
def test_what_was_written_between_two_samples_measures_a_clock(off: int, text: str) -> None:
    at = NOON + off
    found = told({FIRST: (at - MINUTE, 7, 4)}, {FIRST: (at, 8, 4)})
    assert found.startswith(f"this clock; {text}")


def test_of_several_partitions_the_newest_time_counts() -> None:
    """A record that was long in being replicated shows no clock that is behind."""
    before = {FIRST: (NOON - HOUR, 7, 4), SECOND_ONE: (NOON - HOUR, 3, 4)}
    assert "is near it" in told(before, {FIRST: (NOON - 5 * MINUTE, 8, 4), SECOND_ONE: (NOON, 4, 4)})


@pytest.mark.parametrize(
    "now",
    [
        (NOON - 2 * HOUR, 7, 4),  # unchanged
        (NOON - 3 * HOUR, 9, 4),  # the newest of before was deleted, by compaction
        (NOON - HOUR, 8, 5),  # by another leader, or before the newest leader's time
    ],
)
def test_what_may_have_been_written_before_measures_nothing(now: tuple[int, int, int]) -> None:
    found = told({FIRST: (NOON - 2 * HOUR, 7, 4)}, {FIRST: now})
    assert found == f"this clock; that of broker 2 was not compared with it ({NOTHING})"


def test_a_broker_that_did_not_answer_is_told() -> None:
    lost = ClockSample(after=NOON, until=NOON, problems={2: "no answer"})
    found = measured(sample(NOON, {FIRST: (NOON, 7, 4)}), lost)
    assert found == MeasuredClocks(problems={2: "no answer"})


# Over the wire --------------------------------------------------------------------------------------------------------


async def held(off_ms: int, *, writes: bool = True, error: int = 0) -> Audit:
    """A transaction that its coordinator began a second ago by its clock, which is ahead by `off_ms`."""
    made = broker()
    begun = clock_ms() + off_ms - SECOND
    made.on |= preparing("Ongoing", transaction_timeout_ms=MINUTE, transaction_start_time_ms=begun)
    asked = 0

    def newest(request: ListOffsetsRequest) -> ListOffsetsResponse:
        nonlocal asked
        if request.topics[0].partitions[0].timestamp != -3:
            return offsets(request)
        asked += 1
        time = clock_ms() + off_ms if writes else begun
        return ListOffsetsResponse(
            topics=tuple(
                ListOffsetsTopicResponse(
                    name=topic.name,
                    partitions=tuple(
                        ListOffsetsPartitionResponse(
                            partition_index=one.partition_index,
                            error_code=error,
                            timestamp=time,
                            offset=asked,
                            leader_epoch=0,
                        )
                        for one in topic.partitions
                    ),
                )
                for topic in request.topics
            )
        )

    made.on[ListOffsetsRequest] = newest
    return await find(made, replace(SEARCH, confirm_after_s=0.02))


@scenario
async def test_a_running_transaction_is_not_late_by_a_coordinator_whose_clock_is_behind() -> None:
    """One reading is enough, and no transaction began between two."""
    audit = await held(-HOUR)
    (found,) = audit.findings
    assert (found.reason, found.attention) == ("live", None)
    assert "The clock of broker 1 is behind the clock here by " in " ".join(found.evidence)
    assert "the clock of broker 1 is behind the clock here" in str(audit.read.clock)


@scenario
async def test_a_clock_that_was_not_compared_is_named() -> None:
    audit = await held(-HOUR, writes=False)
    assert [one.reason for one in audit.findings] == ["late"]
    assert str(audit.read.clock).endswith(f"that of broker 1 was not compared with it ({NOTHING})")
    sentence = f"The clock of broker 1, the coordinator, was not compared with the clock here ({NOTHING}): "
    (found,) = audit.findings
    assert any(one.startswith(sentence) for one in found.evidence)
    (deadline,) = [one for one in found.premises if one.name == "deadline"]
    assert deadline.holds
    assert sentence in deadline.what
    refused: Any = await held(-HOUR, error=29)
    assert "TOPIC_AUTHORIZATION_FAILED" in refused.read.clock


@scenario
async def test_a_start_after_the_clock_is_measured() -> None:
    audit = await held(HOUR)
    (found,) = audit.findings
    assert (found.reason, [one.name for one in found.premises if not one.holds]) == ("live", [])
