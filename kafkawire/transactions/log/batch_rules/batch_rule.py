"""`BatchRule`: what a rule of producers' batches consists of; `Step`: what it judges."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import msgspec

from kafkawire.records.control import EMPTY, MALFORMED
from kafkawire.transactions.answers import Tally
from kafkawire.transactions.log.producer_append import Append
from kafkawire.transactions.log.producer_state import Producer

if TYPE_CHECKING:  # the names of rules are known without NumPy
    from kafkawire.records.array_types import Bools
    from kafkawire.transactions.log.appends import Appends

#: Why a rule cannot judge a batch.
GAP = "offsets are missing since the producer's batch before"
DOUBT = "the producer's batch before broke a rule"
EXPIRED = "the producer's state may have expired since its batch before"

_UNKNOWN = (MALFORMED, EMPTY)

#: Batches of one idempotent producer, of which one breaks a rule: epoch, first sequence number, number of records.
Fault = tuple[tuple[int, int, int], ...]


class Step:
    """A batch, and the state of its producer before it.

    Attributes:
        append: the batch.
        producer: the state; None for a producer that was not seen yet.
        before: the state where a step from it is judged: it has an epoch, the batch is data or a marker of which all
            is known, and each of its numbers is one that a producer or a coordinator can have. Otherwise None.
        expired: a broker may have dropped that state (`EXPIRED`).
        in_doubt: the batch goes on as if the producer's batch before, which broke a rule, did not count (`DOUBT`).
        is_refused: the batch is of a former epoch, or outside of the producer's open transaction: a broker takes none
            like it, and its numbers say nothing.

    Args:
        clock: the newest timestamp of the log up to the batch.
        expiration_ms: producer.id.expiration.ms of the broker.
    """

    __slots__ = ("append", "before", "expired", "in_doubt", "is_refused", "producer")

    def __init__(self, producer: Producer | None, append: Append, clock: int, expiration_ms: int) -> None:
        self.producer, self.append = producer, append
        self.before: Producer | None = None
        self.expired = self.in_doubt = self.is_refused = False
        if producer is None or producer.epoch < 0 or append.control in _UNKNOWN or _is_impossible(append):
            return
        self.before = producer
        is_open = producer.first_offset >= 0
        if not is_open and clock - producer.timestamp >= expiration_ms:
            self.expired = True
        elif producer.doubted and producer.may_follow(append):
            self.in_doubt = True
        else:
            self.is_refused = append.producer_epoch < producer.epoch or (
                is_open and append.control is None and not append.transactional and not self.is_behind_gap
            )

    @property
    def is_behind_gap(self) -> bool:
        """Whether offsets are missing between the producer's last batch or marker and this batch (`GAP`)."""
        return self.before is not None and self.before.last_append < self.append.intact_from

    def breach(self, tally: Tally, what: str, since: int | None = None) -> None:
        """Count a violation.

        Args:
            what, since: as in `answers.Breach`.
        """
        tally.breach(self.append.base_offset, self.append.producer_id, what, since=since)


def _is_impossible(append: Append) -> bool:
    """Whether a number is one that no producer and no coordinator has."""
    return (
        append.producer_epoch < 0
        or (append.coordinator_epoch is not None and append.coordinator_epoch < -1)
        or (append.control is None and append.base_sequence < -1)
    )


class BatchRule(msgspec.Struct, frozen=True, kw_only=True):
    """A rule that every batch of a partition's log is judged by.

    The native engine judges the rules that are in its `rules.rs` by the same name, as far as they are kept; all others,
    and what breaks a rule, `judge` says.

    Attributes:
        name: of its answers. `sentence`: what it asks for, to people. `source`: the KIP or the class of Kafka's.
        judge: adds to the rule's tally what it says of a batch; nothing is added for one that it does not concern.
        data, control: whether it concerns batches of data, and control batches.
        asks: of a rule that the engine does not have, the batches that it concerns: of no others `judge` says anything.
            None: all.
        numbers: it is about sequence numbers, which coordinators that write for producers do not count.
        faults: ways to break it.
    """

    name: str
    sentence: str
    source: str
    judge: Callable[[Step, Tally], None]
    data: bool = True
    control: bool = True
    asks: Callable[[Appends], Bools] | None = None
    numbers: bool = False
    faults: Mapping[str, Fault] = {}
