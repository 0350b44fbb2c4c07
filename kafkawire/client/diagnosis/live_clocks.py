"""The clocks of brokers, by the newest times that they wrote into the logs that they lead: pure functions.

No request returns a broker's clock. But a time that a broker wrote is never after its present clock. So if such a time
is after this machine's clock, the broker's clock is ahead of it. The reverse proves nothing: a broker whose newest time
is in the past may have written nothing since.
"""

from __future__ import annotations

from collections.abc import Iterable

from kafkawire.client.results import Metadata, TopicPartition
from kafkawire.transactions.facts import PartitionFacts
from kafkawire.transactions.formatting import duration, named
from kafkawire.transactions.verdict.client_stamps import TOLERANCE_MS


def clocks_ahead(partitions: Iterable[PartitionFacts], metadata: Metadata, now: int) -> str | None:
    """Whose clocks are ahead of this machine's, a clause; None where no time shows that of any.

    Args:
        partitions: as read from their leaders. `metadata`: from before that: the leaders.
        now: this machine's clock after it, epoch milliseconds.
    """
    newest: dict[int, int] = {}
    for one in partitions:
        info = metadata.partitions.get(TopicPartition(one.place.topic, one.place.partition))
        if info is None or info.leader is None or one.leader_time is None or one.leader_time[0] < info.leader_epoch:
            continue
        newest[info.leader] = max(newest.get(info.leader, 0), one.leader_time[1])
    ahead = {broker: time - now for broker, time in sorted(newest.items()) if time - now > TOLERANCE_MS}
    if not ahead:
        return None
    others = sorted(newest.keys() - ahead.keys())
    if len(ahead) > 1 and not others:
        least = duration(min(ahead.values()))
        return f"the clock here is behind those of all brokers that wrote a time, by at least {least}"
    told = [f"broker {broker} is ahead of the clock here by at least {duration(by)}" for broker, by in ahead.items()]
    compared = f", that of {named('broker', [*map(str, others)])} is not known to be" if others else ""
    return f"the clock of {', of '.join(told)}{compared}"
