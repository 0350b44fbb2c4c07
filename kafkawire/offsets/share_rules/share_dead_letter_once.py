"""The dead-letter topic has one copy of a record."""

from __future__ import annotations

from kafkawire.offsets.share_explain import ShareExplained
from kafkawire.offsets.share_rules.share_rule import BEGIN, StandingFault, StandingRule
from kafkawire.transactions.answers import Tally

#: The most offsets whose copies are compared; later ones are not judged.
_MOST = 1_000_000
_AGAIN = "an administrator may have set the group's offset back, after which records are given out, and copied, anew"


def _judge(share: ShareExplained, tally: Tally) -> None:
    begun = share.source.history
    again = not begun.from_start or begun.restarts > 1
    seen: dict[int, int] = {}
    for one in share.letters():
        if one.offset in seen and again:
            tally.lack(_AGAIN)
        elif one.offset in seen:
            places = f"at {seen[one.offset]} and {one.copy_offset}"
            what = f"offset {one.offset} is in {share.settings.dead_letter_topic} twice, {places}"
            tally.breach(one.copy_offset, -1, f"{share.name}: {what}")
        elif len(seen) >= _MOST:
            tally.lack(f"more than {_MOST:,} copies")
            return
        else:
            seen[one.offset] = one.copy_offset
            tally.held += 1


RULE = StandingRule(
    name="share_dead_letter_once",
    sentence="The dead-letter topic has one copy of a record.",
    source="KIP-1191, `ShareGroupDLQStateManager`",
    judge=_judge,
    faults={
        "twice": StandingFault((BEGIN, ("update", 0, 0, 1, 1, ((4, 4, 4, 1),))), letters=(4, 4)),
        "again-later": StandingFault((BEGIN, ("update", 0, 0, 1, 1, ((4, 6, 4, 1),))), letters=(4, 5, 6, 4)),
    },
)
