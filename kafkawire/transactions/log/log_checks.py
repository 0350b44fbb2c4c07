"""`LogChecks`: checks every batch of a partition's log by the rules of producers (`batch_rules`), and keeps their
tallies."""

from __future__ import annotations

from collections.abc import Sequence

from kafkawire.transactions.answers import Answer, Tally
from kafkawire.transactions.log.batch_rules import RULES
from kafkawire.transactions.log.batch_rules.batch_rule import BatchRule, Step
from kafkawire.transactions.log.producer_append import Append
from kafkawire.transactions.log.producer_state import Producer
from kafkawire.transactions.log.replay import PRODUCER_ID_EXPIRATION_MS


class LogChecks:
    """The checks that need nothing but the log; `see` takes each batch before the replay does.

    Args:
        expiration_ms: producer.id.expiration.ms of the broker. The clock is the newest timestamp so far: a producer
            that was idle for this long by it may have been forgotten, and may begin anew.
        rules: what is checked.

    Attributes:
        clock: the newest timestamp so far, -1 for none.
        tallies: by the names of the rules.
    """

    def __init__(
        self, expiration_ms: int = PRODUCER_ID_EXPIRATION_MS, rules: Sequence[BatchRule] | None = None
    ) -> None:
        self.expiration_ms = expiration_ms
        self.clock = -1
        self.rules = tuple(RULES if rules is None else rules)
        self.tallies = {rule.name: Tally(rule.name) for rule in self.rules}
        judges = [(rule, rule.judge, self.tallies[rule.name]) for rule in self.rules]
        self._of_data = [(judge, tally) for rule, judge, tally in judges if rule.data]
        self._of_control = [(judge, tally) for rule, judge, tally in judges if rule.control]

    def answers(self) -> list[Answer]:
        """One for each check."""
        return [tally.answer() for tally in self.tallies.values()]

    def see(self, producer: Producer | None, append: Append) -> None:
        """Judge the step to a batch.

        Args:
            producer: the state before it; None for a producer that was not seen yet.
        """
        self.clock = max(self.clock, append.timestamp)
        step = Step(producer, append, self.clock, self.expiration_ms)
        for judge, tally in self._of_data if append.control is None else self._of_control:
            judge(step, tally)
