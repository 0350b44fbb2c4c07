"""The rules of share groups (KIP-932, KIP-1191), a file each: `STEP_RULES` judge each record of `__share_group_state`,
`STANDING_RULES` a group in a partition as a whole. A new rule is a file and its line here."""

from kafkawire.offsets.share_rules import (
    share_committed_only,
    share_dead_letter,
    share_dead_letter_once,
    share_delivered_first,
    share_delivery_limit,
    share_epochs,
    share_offsets_exist,
    share_snapshot,
    share_start_offset,
    share_topic_exists,
    share_transition,
)
from kafkawire.offsets.share_rules.share_rule import StandingRule, StepRule

STEP_RULES: tuple[StepRule, ...] = (
    share_transition.RULE,
    share_start_offset.RULE,
    share_epochs.RULE,
    share_snapshot.RULE,
    share_delivered_first.RULE,
    share_delivery_limit.RULE,
)
STANDING_RULES: tuple[StandingRule, ...] = (
    share_offsets_exist.RULE,
    share_committed_only.RULE,
    share_dead_letter.RULE,
    share_dead_letter_once.RULE,
    share_topic_exists.RULE,
)
RULES: tuple[StepRule | StandingRule, ...] = (*STEP_RULES, *STANDING_RULES)
