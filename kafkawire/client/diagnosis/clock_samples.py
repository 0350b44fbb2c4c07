"""The clocks of brokers, measured: the newest time in the internal topics that a broker leads, asked for twice.

Brokers stamp the records of `__transaction_state` and `__consumer_offsets` themselves. ListOffsets gives the newest of
these times and the leader epoch that wrote it (KIP-734). Where it changed between two answers, and the leader did not,
that broker wrote it between them: its clock then is compared with this machine's, ahead or behind.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping

import msgspec

from kafkawire import rows
from kafkawire.client.cluster.cluster import Cluster
from kafkawire.client.cluster.deadline import Deadline
from kafkawire.client.diagnosis.pending_offsets import CONSUMER_OFFSETS
from kafkawire.client.errors import ClientError, UnsupportedApiError
from kafkawire.client.results import Metadata, TopicPartition
from kafkawire.client.rpc.partition_offsets import NewestTime, newest_times
from kafkawire.transactions.attention import BLOCKED
from kafkawire.transactions.facts import TRANSACTION_STATE
from kafkawire.transactions.formatting import named
from kafkawire.transactions.verdict.case import IdState
from kafkawire.transactions.verdict.live_case import ClockSkew, LiveCase, skew_between

#: Partitions of each topic that are asked for; 50 is Kafka's default for both.
_MOST = 200
_WAIT = "the clocks of coordinators are compared with the clock here"


class ClockSample(msgspec.Struct, frozen=True, kw_only=True):
    """The newest times that brokers wrote, at one moment.

    Attributes:
        after, until: between which times of this machine's clock brokers answered, epoch milliseconds.
        times: by the broker that leads the partition. `problems`: why a broker's are not known.
    """

    after: int
    until: int
    times: Mapping[int, Mapping[TopicPartition, NewestTime]] = {}
    problems: Mapping[int, str] = {}


class MeasuredClocks(msgspec.Struct, frozen=True, kw_only=True):
    """The result of comparing two samples. `skews`: by broker; None where its clock was compared, and may be right.
    `problems`: why the clock of a broker was not compared, a clause."""

    skews: Mapping[int, ClockSkew | None] = {}
    problems: Mapping[int, str] = {}

    def problem_of(self, id_state: IdState | None) -> str | None:
        """Why the clock of an id's coordinator was not compared; None where it was, or nothing depends on it."""
        broker = None if id_state is None else id_state.coordinator
        return None if broker is None else self.problems.get(broker)

    def beside(self, clock: str) -> str:
        """The clock that ages count by, and those compared: `this machine's clock; that of broker 2 is near it`."""
        right = [str(broker) for broker, skew in sorted(self.skews.items()) if skew is None]
        wrong = [skew.text for _, skew in sorted(self.skews.items()) if skew is not None]
        compared = [f"that of {named('broker', right)} is near it"] if right else []
        lacking = [f"that of broker {one} was not compared with it ({why})" for one, why in self.problems.items()]
        return "; ".join((clock, *compared, *wrong, *lacking))


def to_compare(judged: Iterable[tuple[LiveCase, rows.Finding]]) -> set[int]:
    """Coordinators by whose times something is late, or blocked for too long, or would begin later than now."""
    return {
        case.id_state.coordinator
        for case, one in judged
        if case.id_state is not None and case.id_state.coordinator is not None and case.skew is None
        if one.reason == "late" or one.attention == BLOCKED or case.of_attention is not None
    }


async def compare_clocks(
    cluster: Cluster,
    brokers: Collection[int],
    clock: Callable[[], int],
    pause: Callable[[float], Awaitable[None]],
    pause_s: float,
    timeout_s: float | None,
) -> MeasuredClocks:
    """Compares the clocks of brokers with this machine's.

    Args:
        brokers: ids. `clock`: this machine's, epoch milliseconds.
        pause: sleeps for the given seconds, between the samples; not where the first shows no time.
        timeout_s: seconds for each sample; None as configured.
    """
    try:
        metadata = await cluster.metadata([TRANSACTION_STATE, CONSUMER_OFFSETS], deadline=cluster.deadline(timeout_s))
    except ClientError as error:
        return MeasuredClocks(problems=dict.fromkeys(sorted(brokers), str(error)))
    before = now = await _sample(cluster, brokers, metadata, clock, cluster.deadline(timeout_s))
    if before.times:
        with cluster.waits.on("clocks", _WAIT, pause_s):
            await pause(pause_s)
        now = await _sample(cluster, brokers, metadata, clock, cluster.deadline(timeout_s))
    return measured(before, now)


async def _sample(
    cluster: Cluster, brokers: Collection[int], metadata: Metadata, clock: Callable[[], int], deadline: Deadline
) -> ClockSample:
    """The newest times in the internal topics that brokers lead, by `metadata`; none of another leader epoch counts."""
    led: dict[int, list[TopicPartition]] = {broker: [] for broker in brokers}
    for place, info in metadata.partitions.items():
        if info.leader in led and place.partition < _MOST:
            led[info.leader].append(place)
    times: dict[int, dict[TopicPartition, NewestTime]] = {}
    problems: dict[int, str] = {}
    after = clock()
    for broker, places in sorted(led.items()):
        try:
            found = await newest_times(cluster, broker, places, deadline)
        except UnsupportedApiError:
            problems[broker] = "brokers before 3.0 do not answer for the newest time of a partition"
            continue
        except ClientError as error:
            problems[broker] = str(error)
            continue
        times[broker] = {
            place: one
            for place, one in found.values.items()
            if one.leader_epoch >= 0 and one.leader_epoch == metadata.partitions[place].leader_epoch
        }
        if not times[broker]:
            refused = next(iter(found.errors.values()), None)
            problems[broker] = "it leads no internal topic with a time" if refused is None else str(refused)
    return ClockSample(after=after, until=clock(), times=times, problems=problems)


def measured(before: ClockSample, now: ClockSample) -> MeasuredClocks:
    """How far clocks are from this machine's. `before`, `now`: two samples of the same brokers."""
    skews: dict[int, ClockSkew | None] = {}
    problems = {**before.problems, **now.problems}
    for broker in before.times.keys() & now.times.keys() - problems.keys():
        old = before.times[broker]
        written = [
            one.time
            for place, one in now.times[broker].items()
            if place in old and one.leader_epoch == old[place].leader_epoch and one.time > old[place].time
        ]
        if written:
            newest = max(written)
            skews[broker] = skew_between(f"broker {broker}", newest - now.until, newest - before.after)
        else:
            problems[broker] = "it wrote nothing to internal topics between two readings"
    return MeasuredClocks(skews=skews, problems=dict(sorted(problems.items())))
