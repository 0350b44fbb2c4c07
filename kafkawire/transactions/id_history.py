"""`IdHistory`: one partition of `__transaction_state`, read once. The newest word on each id, what each has decided,
and whether its records follow the rules."""

from __future__ import annotations

from collections.abc import Iterator

from kafkawire.transactions.checks import Answer
from kafkawire.transactions.checks.coordinator_records import IdChecks
from kafkawire.transactions.coordinator_log import IdLog, UnreadableRecord
from kafkawire.transactions.coordinator_rules import PREPARED, state_name
from kafkawire.transactions.decisions import Decisions
from kafkawire.transactions.facts import Owner, ProducerIdUse, Registration


class IdHistory:
    """Takes the records in offset order.

    Attributes:
        decisions: the transactions that its ids have decided.

    Args:
        expiration_ms: transactional.id.expiration.ms of the brokers, where somebody said it.
    """

    def __init__(self, expiration_ms: int | None = None) -> None:
        self.decisions = Decisions()
        self._log = IdLog()
        self._checks = IdChecks(expiration_ms)
        self._uses: dict[tuple[int, str], ProducerIdUse] = {}

    def reach(self, offset: int) -> None:
        """There is a record at this offset, whatever it says."""
        self._checks.reach(offset)

    def add(self, found: Registration | UnreadableRecord) -> None:
        """Take the next record; `reach` was told of it."""
        if isinstance(found, Registration):
            before = self._log.newest(found.transactional_id)
            self._checks.see(before, found)
            self.decisions.add(before, found)
            if found.value is not None:
                key = found.value.producer_id, found.transactional_id
                if key not in self._uses:
                    self._uses[key] = ProducerIdUse(found.place, *key, found.offset)
        self._log.add(found)

    @property
    def unreadable(self) -> UnreadableRecord | None:
        """The last record that could not be decoded."""
        return self._log.unreadable

    @property
    def intact(self) -> bool:
        """Whether no record is missing, from the first offset on."""
        return self._checks.intact_from == 0 and self.unreadable is None

    @property
    def uses(self) -> tuple[ProducerIdUse, ...]:
        """Every producer id that an id has had as its own, in the order of their first records."""
        return tuple(self._uses.values())

    def owner(self, producer_id: int) -> Owner | None:
        """The transactional id that the producer id belongs to; None where no record names it."""
        return self._log.owner(producer_id)

    def prepared(self) -> Iterator[Registration]:
        """The newest records of ids that are in a Prepare state."""
        for record in self._log.records():
            if record.value is not None and state_name(record.value.transaction_status) in PREPARED:
                yield record

    @property
    def ids(self) -> int:
        """How many ids there are that have not expired."""
        return sum(record.value is not None for record in self._log.records())

    def answers(self) -> list[Answer]:
        """What the rules of its records say."""
        return self._checks.answers()
