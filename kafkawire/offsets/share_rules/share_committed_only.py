"""A read_committed share group is given committed records only."""

from __future__ import annotations

from kafkawire.offsets.share_explain import ShareExplained
from kafkawire.offsets.share_rules.share_rule import BEGIN, NO_PARTITION, StandingFault, StandingRule
from kafkawire.share_groups.record_fates import ABORTED, OPEN
from kafkawire.transactions.answers import Tally


def _judge(share: ShareExplained, tally: Tally) -> None:
    if share.source.history.state is None or share.source.gone:
        return
    if share.settings.read_committed is None:
        tally.lack("the group's isolation level is not known")
        return
    if not share.settings.read_committed:
        return
    if share.bounds is None:
        tally.lack(NO_PARTITION)
        return
    for fated in share.fate_runs():
        given = fated.fate.status == "acknowledged" or fated.fate.reason in ("rejected", "delivered_before")
        if not given or not fated.fate.deliveries:
            continue
        if fated.held in (ABORTED, OPEN) and share.settings.isolation_changed:
            tally.lack("the group may have had another isolation level before")
        elif fated.held in (ABORTED, OPEN):
            what = f"offset {fated.first} is {fated.fate.status} at delivery {fated.fate.deliveries}"
            tally.breach(fated.first, -1, f"{share.name}: {what}, and its transaction is {fated.held}")
        else:
            tally.held += 1


RULE = StandingRule(
    name="share_committed_only",
    sentence="A read_committed share group is given no aborted record, and none of an open transaction.",
    source="KIP-932, `SharePartition`",
    judge=_judge,
    faults={
        "acknowledged": StandingFault((BEGIN, ("update", 0, 0, 1, 1, ((0, 6, 2, 1),))), topic="ledger"),
        "available": StandingFault((BEGIN, ("update", 0, 0, 1, 1, ((0, 2, 2, 1), (4, 6, 0, 1)))), topic="ledger"),
    },
)
