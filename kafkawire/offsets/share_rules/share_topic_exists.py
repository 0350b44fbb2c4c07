"""A share group has no state in a topic that is gone."""

from __future__ import annotations

from kafkawire.offsets.share_explain import ShareExplained
from kafkawire.offsets.share_rules.share_rule import BEGIN, StandingFault, StandingRule
from kafkawire.transactions.answers import Tally

#: Coordinators delete the state within moments of the topic; records of the state later than that prove that they did
#: not.
_SOON_MS = 60_000


def _judge(share: ShareExplained, tally: Tally) -> None:
    state = share.source.history.state
    if state is None:
        return
    if share.source.removed_at is not None:
        if state.written - share.source.removed_at > _SOON_MS:
            tally.breach(state.offset, -1, f"{share.name}: the topic was removed, and its state was written later")
        else:
            tally.lack("the topic was removed: its state may be deleted after the copy")
    elif share.source.topic is None:
        tally.lack("the topic of an id is not known: the metadata log does not reach back, or is not here")
    else:
        tally.held += 1


RULE = StandingRule(
    name="share_topic_exists",
    sentence="No share group has a state in a topic that is gone.",
    source="KIP-932, `ShareCoordinatorShard.maybeCleanupShareState`",
    judge=_judge,
    faults={"written-later": StandingFault((BEGIN, ("update", 0, 0, 1, 1, ((0, 3, 2, 1),))), topic="gone")},
)
