"""A share group has states of offsets that the partition has."""

from __future__ import annotations

from kafkawire.offsets.share_explain import ShareExplained
from kafkawire.offsets.share_rules.share_rule import BEGIN, NO_PARTITION, StandingFault, StandingRule
from kafkawire.transactions.answers import Tally


def _judge(share: ShareExplained, tally: Tally) -> None:
    state, bounds = share.source.history.state, share.bounds
    if state is None or share.source.gone:
        return
    if bounds is None:
        tally.lack(NO_PARTITION)
        return
    if share.problems:
        tally.lack("copies may be of different moments, or damaged: " + share.problems[0])
        return
    beyond = [run for run in state.runs if run.last >= bounds.high]
    if beyond:
        what = f"offsets up to {beyond[-1].last} have a state, and the partition ends at {bounds.high}"
        tally.breach(state.offset, -1, f"{share.name}: {what}")
    else:
        tally.held += 1


RULE = StandingRule(
    name="share_offsets_exist",
    sentence="Only offsets below the partition's high watermark have a state.",
    source="KIP-932, `SharePartition`",
    judge=_judge,
    faults={
        "beyond": StandingFault((BEGIN, ("update", 0, 0, 1, 1, ((0, 1_000_000, 2, 1),)))),
        "one-beyond": StandingFault((BEGIN, ("update", 0, 0, 1, 1, ((0, 3, 2, 1), (500, 500, 0, 1))))),
    },
)
