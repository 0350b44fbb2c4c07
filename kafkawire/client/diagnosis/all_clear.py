"""The premises of an answer without findings: all brokers name the same leaders, everything that was chosen was read,
clocks agree, and no broker answered with an error."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence

import msgspec

from kafkawire import rows
from kafkawire.client.cluster.cluster import Cluster
from kafkawire.client.diagnosis.cluster_reading import disputed, views
from kafkawire.client.diagnosis.unread_partitions import UnreadGap
from kafkawire.client.errors import ClientError
from kafkawire.client.results import Metadata, TopicPartition
from kafkawire.transactions.formatting import named
from kafkawire.transactions.verdict import premises
from kafkawire.transactions.verdict.live_case import LiveCase

_NAMED = 20


class LeaderCheck(msgspec.Struct, frozen=True):
    """The leaders of partitions, by the metadata of all brokers.

    Attributes:
        brokers: those that answered. `doubts`: of the partitions that the leader may not have described, with why.
        passing: whether another look may settle the doubts.
    """

    brokers: tuple[int, ...] = ()
    doubts: Mapping[TopicPartition, str] = msgspec.field(default_factory=dict)
    passing: bool = True

    def gaps(self) -> list[UnreadGap]:
        """One sentence a topic and reason."""
        grouped: dict[tuple[str, str], list[TopicPartition]] = defaultdict(list)
        for place, why in sorted(self.doubts.items()):
            grouped[place.topic, why].append(place)
        return [
            UnreadGap(f"topic {topic}", f"{named('partition', [*map(str, places)], _NAMED)}: {why}")
            for (topic, why), places in grouped.items()
        ]


async def check_leaders(
    cluster: Cluster,
    before: Metadata,
    described: Collection[TopicPartition],
    *,
    broker_id: int | None,
    without: Collection[int],
    timeout_s: float | None,
) -> LeaderCheck:
    """Whether partitions were described by their leaders: metadata from before names the same leaders, in the same
    leader epochs, as each broker does now. A deposed leader that does not know it answers without an error.

    Args:
        before: metadata from before they were described. `described`: the partitions.
        broker_id: the broker that described them all; None: their leaders did.
        without: brokers that do not answer.
        timeout_s: seconds for all brokers together; None as configured.
    """
    if not described:
        return LeaderCheck()
    if broker_id is not None:
        led = {place: before.partitions[place].leader for place in described}
        doubts = {
            place: f"broker {broker_id} described it and does not lead it: what it has not fetched is not known"
            for place, leader in led.items()
            if leader != broker_id
        }
        if doubts:
            return LeaderCheck((), doubts, passing=False)
    now = await views(cluster, {place.topic for place in described}, timeout_s, without)
    return LeaderCheck(
        tuple(sorted(now.values)),
        {place: _end(text) for place, text in disputed((before, *now.values.values()), described).items()},
    )


def _end(sentence: str) -> str:
    return sentence[:1].lower() + sentence[1:].removesuffix(".")


def premises_of(
    cases: Sequence[LiveCase],
    leaders: LeaderCheck,
    *,
    partitions: tuple[int, int],
    brokers: Iterable[int],
    hidden: str,
    clock: str,
    gaps: Sequence[UnreadGap],
    errors: Sequence[str],
) -> tuple[rows.Premise, ...]:
    """The premises of an all-clear.

    Args:
        cases: the open transactions. `leaders`: as checked.
        partitions: how many were described, and how many were chosen.
        brokers: those that answered. `hidden`: why no topic is hidden, a sentence without its end.
        clock: what ages count by. `gaps`: all of them. `errors`: the answers that are errors, as sentences.
    """
    of_leaders = leaders.gaps()
    doubts = [
        f"{one.open.place.topic}-{one.open.place.partition}, offset {one.open.start_offset}: {doubt.what}"
        for one in cases
        if (doubt := one.of_attention) is not None
    ]
    skews = dict.fromkeys(one.skew.text for one in cases if one.skew is not None)
    described = sum(one.id_state is not None and one.id_state.problem is None for one in cases)
    ids = (
        "nothing is open, so that no transactional id can be missing"
        if not cases
        else f"coordinators named the ids of {described} of {len(cases)} open transactions"
    )
    return (
        premises.live_place(partitions[0], leaders.brokers, [gap.text for gap in of_leaders]),
        premises.live_reach(
            *partitions,
            ids=ids,
            hidden=hidden,
            gaps=[gap.text for gap in gaps if gap not in of_leaders],
            brokers=named("broker", [*map(str, sorted(brokers))], _NAMED),
        ),
        premises.live_time(clock, len(cases), doubts, tuple(skews)),
        premises.live_soundness(errors),
    )


def errors_of(unread: Mapping[TopicPartition, ClientError], silent: Mapping[int, ClientError]) -> tuple[str, ...]:
    """Answers that are errors, each once."""
    of_brokers = (f"broker {broker}: {error}" for broker, error in sorted(silent.items()))
    return tuple(dict.fromkeys((*(str(error) for _, error in sorted(unread.items())), *of_brokers)))
