"""The rules of share groups, applied to a live cluster: the state of each group is fetched (`share_reading`), and
judged by the rules for copies (`offsets.share_audit`).

A cluster returns only the present properties of a group. A rule that depends on a property reports no violation where
an earlier value could explain what was found.
"""

from __future__ import annotations

from kafkawire.client.cluster.cluster import Cluster
from kafkawire.client.diagnosis.search import Search
from kafkawire.client.errors import UNKNOWN_TOPIC_OR_PARTITION, BrokerError, ClientError
from kafkawire.client.rpc.committed_offsets import listed_groups
from kafkawire.client.rpc.group_assignments import SHARE
from kafkawire.errors import MissingExtraError
from kafkawire.transactions.answers import Placed
from kafkawire.transactions.checks.check_names import SHARE_CHECKS
from kafkawire.transactions.facts import Place

#: Most share groups whose states are read.
MOST_GROUPS = 1_000
_STATE = "__share_group_state"
_TOPIC_EXISTS = "share_topic_exists"
_GONE = "which states are of topics that were removed is in no answer of a broker"


async def live_share_answers(cluster: Cluster, search: Search) -> list[Placed]:
    """The answers of all rules; empty where no share group was ever there. `search`: which topics, and bytes of each
    partition, at most. Needs Describe on the groups, and Read on their topics, on `__share_group_state` and on
    dead-letter topics."""
    place = Place(search.address, _STATE, 0)
    deadline = cluster.deadline(search.timeout_s)
    metadata = await cluster.metadata([_STATE], deadline=deadline)
    error = metadata.errors.get(_STATE)
    if isinstance(error, BrokerError) and error.code == UNKNOWN_TOPIC_OR_PARTITION:
        return []
    if error is not None:
        return _lacking(place, f"{_STATE} could not be read: {error}")
    try:
        from kafkawire.client.diagnosis.share_tallies import ShareTallies
    except MissingExtraError as missing:
        return _lacking(place, str(missing))
    listed, unread = await listed_groups(cluster, metadata.brokers, deadline)
    groups = sorted(name for name, kind in listed.items() if kind == SHARE)
    if len(groups) > MOST_GROUPS:
        unread.append(f"{len(groups) - MOST_GROUPS} of {len(groups)} share groups: {MOST_GROUPS} are read at most")
    answers = [one for why in unread for one in _lacking(place, why)]
    tallies = ShareTallies(search.address)
    for group in groups[:MOST_GROUPS]:
        try:
            await tallies.take(cluster, group, search)
        except ClientError as why:
            answers += _lacking(place, f"share group {group}: {why}")
    answers += tallies.answers()
    return [*answers, Placed.lacking(place, _TOPIC_EXISTS, _GONE)] if groups else answers


def _lacking(place: Place, why: str) -> list[Placed]:
    return [Placed.lacking(place, check, why) for check in SHARE_CHECKS]
