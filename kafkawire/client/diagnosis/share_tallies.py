"""`ShareTallies`: the results of the rules of share groups for fetched states, counted by partition of the state."""

from __future__ import annotations

from kafkawire.client.cluster.cluster import Cluster
from kafkawire.client.diagnosis.search import Search
from kafkawire.client.diagnosis.share_reading import NothingBegunError, read_shares
from kafkawire.offsets.share_audit import judge, judge_standing
from kafkawire.offsets.share_copies import STATE_TOPIC
from kafkawire.offsets.share_rules import RULES, STEP_RULES
from kafkawire.offsets.share_rules.share_rule import DAMAGED, ShareStep
from kafkawire.transactions.answers import Placed, Tally
from kafkawire.transactions.facts import Place


class ShareTallies:
    """Takes one group after another; only their numbers stay. `address`: of the cluster."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._found: dict[int, dict[str, Tally]] = {}

    async def take(self, cluster: Cluster, group: str, search: Search) -> None:
        """Fetches the state of a group, and judges it. Raises ClientError where it cannot be read."""
        try:
            shares, gaps = await read_shares(
                cluster, group, topics=search.topics, fetch_bytes=search.fetch_bytes, timeout_s=search.timeout_s
            )
        except NothingBegunError:
            return  # a group that has read nothing has no state
        for share in shares:
            tallies = self._of(share.source.number)
            for step in share.source.steps():
                # The limit may have been another one when the record was written.
                judge(ShareStep(step, share.name), tallies)
            for rule in STEP_RULES if share.source.problems else ():
                tallies[rule.name].lack(DAMAGED)
            judge_standing([share], tallies)
        for gap in gaps:
            for tally in self._of(0).values():
                tally.lack(gap)

    def _of(self, number: int) -> dict[str, Tally]:
        return self._found.setdefault(number, {rule.name: Tally(rule.name) for rule in RULES})

    def answers(self) -> list[Placed]:
        """The answers, by partition of the state."""
        return [
            Placed(Place(self._address, STATE_TOPIC, number), tally.answer())
            for number, tallies in sorted(self._found.items())
            for tally in tallies.values()
        ]
