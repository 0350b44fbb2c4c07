"""Transactions: which are open, their state at the coordinator, and the verdict. Pure functions over facts.

    audit = transactions.audit(logdir.open("kafka-logs/"))
    for finding in audit.findings:           # rows.Finding: hanging, not_hanging or unknown, with evidence
        finding.verdict, finding.reason, finding.topic, finding.partition, finding.producer_id, finding.action

    for answer in transactions.check(partition):             # violated, holds or not_checkable, rule by rule
        answer.check, answer.answer, answer.breaches

The parts:

- `append_of` and `Replay`: the producer state of a partition, from its batches
- `read_committed`: the batches that a read_committed consumer returns
- `IdLog` and `standing`: the records of `__transaction_state`
- `judge`: the verdict on one `Case`
- `conclude`: facts -> audit

Each name is imported on first use: verdicts on a live cluster do not import `logdir`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkawire._first_use import on_first_use

if TYPE_CHECKING:
    from kafkawire.logdir.ongoing import last_stable_offset
    from kafkawire.transactions.answers import Answer, Breach, Placed
    from kafkawire.transactions.auditing.audit_result import conclude
    from kafkawire.transactions.auditing.local_audit import audit
    from kafkawire.transactions.auditing.replica_facts import check
    from kafkawire.transactions.coordinator.coordinator_copies import CoordinatorLog
    from kafkawire.transactions.coordinator.coordinator_log import IdLog, registration, standing
    from kafkawire.transactions.coordinator.coordinator_rules import state_name
    from kafkawire.transactions.facts import Open, Owner, PartitionFacts, Place, Registration, Segment
    from kafkawire.transactions.log.committed_batches import outcome_of, read_committed
    from kafkawire.transactions.log.log_checks import LogChecks
    from kafkawire.transactions.log.producer_append import Append, append_of
    from kafkawire.transactions.log.producer_state import Producer
    from kafkawire.transactions.log.replay import Ended, Replay
    from kafkawire.transactions.verdict.case import Case
    from kafkawire.transactions.verdict.cluster_facts import Facts, choose_replicas
    from kafkawire.transactions.verdict.copied_case import CopiedCase
    from kafkawire.transactions.verdict.settings import Settings
    from kafkawire.transactions.verdict.verdicts import judge

#: Module -> the names that it defines, which are imported on first use.
_NAMES = {
    "answers": "Answer Breach Placed",
    "auditing.audit_result": "conclude",
    "auditing.local_audit": "audit",
    "auditing.replica_facts": "check",
    "coordinator.coordinator_copies": "CoordinatorLog",
    "coordinator.coordinator_log": "IdLog registration standing",
    "coordinator.coordinator_rules": "state_name",
    "facts": "Open Owner PartitionFacts Place Registration Segment",
    "log.committed_batches": "outcome_of read_committed",
    "log.log_checks": "LogChecks",
    "log.producer_append": "Append append_of",
    "log.producer_state": "Producer",
    "log.replay": "Ended Replay last_stable_offset",
    "verdict.case": "Case",
    "verdict.cluster_facts": "Facts choose_replicas",
    "verdict.copied_case": "CopiedCase",
    "verdict.settings": "Settings",
    "verdict.verdicts": "judge",
}

__all__ = [
    "Answer",
    "Append",
    "Breach",
    "Case",
    "CoordinatorLog",
    "CopiedCase",
    "Ended",
    "Facts",
    "IdLog",
    "LogChecks",
    "Open",
    "Owner",
    "PartitionFacts",
    "Place",
    "Placed",
    "Producer",
    "Registration",
    "Replay",
    "Segment",
    "Settings",
    "append_of",
    "audit",
    "check",
    "choose_replicas",
    "conclude",
    "judge",
    "last_stable_offset",
    "outcome_of",
    "read_committed",
    "registration",
    "standing",
    "state_name",
]


if not TYPE_CHECKING:  # checkers report names that are not there
    __getattr__ = on_first_use(__name__, _NAMES)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
