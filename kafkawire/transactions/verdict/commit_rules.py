"""`permit_commit`: whether a transaction may be committed for its owner (`kafkawire txn commit`). Pure.

A commit cannot be taken back, and EndTxn names a transaction by its producer id and epoch only. Under transaction
version 2 each end raises the epoch, so that an epoch has one transaction (KIP-890). Before, an epoch has as many as its
producer begins: where a producer continued after the transaction that its owner recorded, a later transaction would be
committed in its place. So the coordinator's log has to show that the epoch had no other transaction.
"""

from __future__ import annotations

import msgspec

from kafkawire.messages import TransactionLogValue
from kafkawire.transactions.coordinator.coordinator_rules import EPOCH_BUMP, OUTCOMES, raises_epoch, state_name
from kafkawire.transactions.verdict.abort_rules import Refused

COMMIT, ABORT = "COMMIT", "ABORT"
_WHOSE = "the id, producer id and epoch that its owner recorded"


class RecordedTransaction(msgspec.Struct, frozen=True):
    """A transaction as its owner recorded it, before it was to be committed."""

    transactional_id: str
    producer_id: int
    producer_epoch: int

    def __str__(self) -> str:
        return f"transactional id {self.transactional_id}, producer {self.producer_id}, epoch {self.producer_epoch}"


class EpochHistory:
    """What became of the transactions of one epoch. Takes the records of its id in the coordinator's log, in order.

    Attributes:
        begun: whether the log shows how the epoch began.
        outcomes: COMMIT or ABORT of each transaction of the epoch that has been decided.
        open: whether a transaction of the epoch is open. client_version: the transaction version of the client that
            wrote last.
    """

    def __init__(self, recorded: RecordedTransaction) -> None:
        self.begun = self.open = False
        self.outcomes: list[str] = []
        self.client_version = 0
        self._own = recorded.producer_id, recorded.producer_epoch
        self._ongoing: tuple[int, int] | None = None
        self._decided = False

    def take(self, value: TransactionLogValue | None) -> None:
        """The next record; None: the id expired."""
        if value is None:
            self._ongoing, self._decided, self.open = None, False, False
            return
        state, holder = state_name(value.transaction_status), (value.producer_id, value.producer_epoch)
        self.client_version = value.client_transaction_version
        outcome = OUTCOMES.get(state)
        if state == "Ongoing":
            self._ongoing, self._decided = holder, False
        elif outcome is not None:
            self._decide(outcome, holder, value.client_transaction_version)
        else:  # Empty, Dead, PrepareEpochFence
            self._ongoing = None if state == "Empty" else self._ongoing
            self._decided = False
        # A new instance of the producer, or in version 2 the end of the transaction before: a new epoch.
        began = state == "Empty" or (outcome is not None and raises_epoch(value.client_transaction_version))
        self.begun = self.begun or (began and holder == self._own)
        self.open = state == "Ongoing" and holder == self._own

    def _decide(self, outcome: str, holder: tuple[int, int], version: int) -> None:
        """A Prepare record, or a Complete one after it; compaction may have removed what was before."""
        if self._decided:
            return
        self._decided = True
        ended = self._ongoing
        if ended is None:
            bumped = raises_epoch(version)
            ended = (holder[0], holder[1] - 1) if bumped else holder
        self._ongoing = None
        if ended == self._own:
            self.outcomes.append(outcome)

    @property
    def single(self) -> bool:
        """Whether the open or last transaction of the epoch is the only one that it can have had."""
        return raises_epoch(self.client_version) or (self.begun and len(self.outcomes) + self.open <= 1)


def permit_commit(recorded: RecordedTransaction, state: str, holder: tuple[int, int], history: EpochHistory) -> bool:
    """Whether a transaction is to be committed; False: it is committed already, nothing is to be sent.

    Args:
        state, holder: of the id, as its coordinator describes it: producer id and epoch.
        history: of the recorded epoch, from the coordinator's log.

    Raises:
        Refused: it must not be committed, or it is not certain that it is the recorded one.
    """
    own = recorded.producer_id, recorded.producer_epoch
    if state == "Ongoing" and holder == own:
        if history.single and not history.outcomes:
            return True
        if history.outcomes:
            raise Refused("epoch_reused", _reused(recorded, history))
        raise Refused(
            "not_identified",
            f"{recorded}: the coordinator's log does not show any more how this epoch began, and before transaction "
            f"version {EPOCH_BUMP} an epoch may have several transactions: that the open one is the one that was "
            "recorded cannot be proven",
        )
    if len(history.outcomes) == 1 and history.single:
        if history.outcomes == [COMMIT]:
            return False
        raise Refused("aborted", f"{recorded}: ABORT is decided for it, and cannot be changed: its data is lost")
    if history.outcomes:
        raise Refused("epoch_reused", _reused(recorded, history))
    raise Refused(
        "epoch_moved",
        f"{recorded}: its coordinator has the id as {state}, producer {holder[0]}, epoch {holder[1]}: {_WHOSE} are no "
        "longer in force, and what became of that transaction is not in the coordinator's log any more",
    )


def _reused(recorded: RecordedTransaction, history: EpochHistory) -> str:
    ended = ", ".join(history.outcomes)
    return (
        f"{recorded}: this epoch has had other transactions ({ended}): before transaction version {EPOCH_BUMP} "
        "EndTxn does not tell them apart, and the open one may hold records that were never part of what was recorded"
    )
