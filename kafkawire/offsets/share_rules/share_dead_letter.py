"""What was archived on its way to the dead-letter topic is there."""

from __future__ import annotations

from kafkawire.offsets.dead_letters import DeadLetterCauses
from kafkawire.offsets.share_explain import ShareExplained
from kafkawire.offsets.share_rules.share_rule import BEGIN, StandingFault, StandingRule
from kafkawire.share_groups.delivery_states import ARCHIVED, ARCHIVING
from kafkawire.transactions.answers import Tally


def _judge(share: ShareExplained, tally: Tally) -> None:
    """What was archiving had a dead-letter topic then. Brokers archive it though they could not write there."""
    waiting: list[tuple[int, int]] = []
    letters: DeadLetterCauses | None = None
    for step in share.source.steps():
        for run in step.record.runs:
            if run.state == ARCHIVING:
                waiting.append((run.first, run.last))
            elif run.state == ARCHIVED:
                done = [place for place in waiting if place[0] <= run.last and place[1] >= run.first]
                if not done:
                    continue
                waiting = [place for place in waiting if place not in done]
                if share.settings.dead_letter_topic is None:
                    tally.lack("which dead-letter topic the group had is not known")
                    continue
                letters = letters or DeadLetterCauses(share.letters())
                missing = next((n for n in range(run.first, run.last + 1) if n not in letters), None)
                if missing is None:
                    tally.held += 1
                elif share.settings.letters_changed or share.letters_doubt:
                    tally.lack(share.letters_doubt or "the group had another dead-letter topic before")
                else:
                    what = f"offset {missing} was archived, and is not in {share.settings.dead_letter_topic}"
                    tally.breach(step.record.offset, -1, f"{share.name}: {what}")


_ARCHIVED = (BEGIN, ("update", 0, 0, 1, 1, ((4, 4, 3, 1),)), ("update", 0, 0, 1, 1, ((4, 4, 4, 1),)))

RULE = StandingRule(
    name="share_dead_letter",
    sentence="What is archived on its way to the dead-letter topic is in that topic.",
    source="KIP-1191, `SharePartition`",
    judge=_judge,
    faults={"none": StandingFault(_ARCHIVED, letters=()), "of-another-offset": StandingFault(_ARCHIVED, letters=(3,))},
)
